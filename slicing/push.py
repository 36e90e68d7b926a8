"""A push, from top to bottom. Its stages are the modules of ``slicing.stages``.

==========  ==========================================================================================================
read        read the columns as arrays: times in ticks, keys as codes; observe how far the stream has come
collect     judge rows by the watermark before the batch, and reduce them to cells (Spark: where rows are)
admit       merge cells into the store, keep rows; find emitted windows that late rows change (Spark: where keys are)
close       move the watermark: answer complete windows, drop what no open window needs
output      the answers in Arrow, the account of rows, the size of the state
commit      replace the operator's state by the draft state (``Operator``)
==========  ==========================================================================================================

Each stage but the last works on a draft of the state. The draft shares the tables of keys and of texts, which learn
new ones in place (``State.draft``). ``Operator`` removes these if the push fails. Three kinds of pushes are shorter:

- Rows in order of a query without keys go straight from columns to cells (``stages.straight``).
- A push that closes nothing goes into the head of the store, which prepares to take the rows and takes them at the
  commit.
- So does a push whose triggers report what is in the head (``triggers.in_place``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.lifecycle.state import State, reached_by
from slicing.output import Output
from slicing.reducing.batch import Rows
from slicing.stages.close import UNCHANGED, admit, close, close_and_fire, closes, give_waiting, in_full, moved
from slicing.stages.collect import collect
from slicing.stages.output import account, all_windowed, output
from slicing.stages.read import read
from slicing.stages.straight import straight
from slicing.triggers import fired
from slicing.triggers.in_place import in_place
from slicing.windows.bounds import END


class Pushed(NamedTuple):
    """The result of a push. Nothing has changed yet."""

    state: State
    out: Output
    commit: Callable[[], int] | None = None  # adds rows to the head of the store; returns how many cells are new
    rows: Rows | None = None  # the rows that have a time and are not too far ahead


def push(before: State, data: pa.RecordBatch, upto: int | None = None) -> Pushed:
    """Run a batch through all stages. ``upto``: a time before which no later row comes, if the caller knows one."""
    state, plan = before.draft(), before.plan
    taken = straight(state, data, upto) if plan.goes_straight and state.in_order else None
    if taken is not None:
        closed_windows, rows = taken
        return Pushed(state, output(state, closed_windows, counted=all_windowed(rows)), None, rows)
    batch = read(state, data)
    rows, reached = batch.rows, reached_by(state, upto)
    state.arrived += batch.given.num_rows
    state.given = batch.given.schema
    state.in_order = not rows.time.size or rows.span[2]
    if plan.has_head and rows.time.size and not closes(before, reached):
        addition = state.store.prepare(rows, state.horizon)
        if addition is not None:
            state.store, state.watermark = addition.store, reached
            out = output(state, in_full(state, give_waiting(state)), counted=account(batch), coming=addition.slots)
            return Pushed(state, out, addition.commit, rows)
    arrivals = collect(state, rows)
    if plan.reports_head and len(arrivals.cells) and not len(arrivals.changing):
        reported = in_place(state, rows, arrivals.cells, reached)
        if reported is not None:
            addition, panes = reported
            change = UNCHANGED._replace(panes=[panes], numbered=plan.spec.emit != "changes")
            state.store, state.watermark = addition.store, reached
            out = output(state, [], change, account(batch, arrivals.late, arrivals.outside), coming=addition.slots)
            return Pushed(state, out, addition.commit, rows)
    if state.store.head is not None:
        state.fold_head()
    answers, change = close_and_fire(state, reached, admit(state, arrivals))
    if len(state.store.runs) > 1:
        state.store = state.store.settled()
    packs = rows.codes > plan.policy.packed_keys and plan.packs
    counted = account(batch, arrivals.late, arrivals.outside)
    out = output(state, answers, change, counted, arrived=(len(arrivals.cells), rows.time.size) if packs else None)
    return Pushed(state, out, None, rows)


def advance(before: State, reached: int) -> Pushed:
    """Move the watermark without rows. It never goes back."""
    state = before.draft()
    reached = max(reached, state.passed_time)
    answers, change = moved(state, reached, at_push=False)
    return Pushed(state, output(state, answers, change))


def fire_by_hand(before: State, names: Sequence[str]) -> Pushed:
    """Report the open windows of these names that have news."""
    state = before.draft()
    state.fold_head()
    panes = fired.fire(state, np.isin(np.array(state.plan.names), names))
    return Pushed(state, output(state, [], UNCHANGED._replace(panes=panes)))


def flush(before: State) -> Pushed:
    """Close everything that is still open."""
    state = before.draft()
    state.fold_head()
    answers, change = close(state, END, flush=True)
    return Pushed(state, output(state, answers, change, all_of_them=True))
