"""Output: the answers in Arrow, the account of a push's rows, and the size of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from slicing.cells.table import Cells
from slicing.closing import results
from slicing.closing.answers import Answers
from slicing.closing.postpone import emitted_rows, held_beside
from slicing.closing.result_progress import ResultProgress
from slicing.columns.values import NOWHERE
from slicing.lifecycle.state import State, forget
from slicing.output import Output, Stats
from slicing.query.spec import Spec
from slicing.reducing.batch import Rows
from slicing.stages.close import UNCHANGED, Changed
from slicing.stages.read import Batch
from slicing.system.arrays import Ints, Mask
from slicing.triggers.numbered import numbered, rows_of
from slicing.windows.bounds import BEGIN, END

NO_ROWS = {"rows": 0, "windowed": 0, "late": 0, "outside": 0, "null_time": 0, "ahead": 0}
_NO_STATE = {"slices": 0, "cells": 0, "kept": 0, "keys": 0, "bytes": 0, "windows": 0}


class Account(NamedTuple):
    """The late rows of a push, and how many of its rows went where."""

    late: pa.Table | None = None  # the rows that no window took, with their reasons
    counts: dict[str, int] = NO_ROWS


NO_ACCOUNT = Account()


def account(batch: Batch, late: Ints = NOWHERE, outside: int = 0) -> Account:
    """The account of a batch's rows. ``late`` are positions among ``batch.rows``."""
    if not batch.rows.plan.policy.accounts:
        return NO_ACCOUNT
    missing, ahead, table = batch.null_time.size, batch.ahead.size, None
    if late.size or missing or ahead:
        table = results.late_rows(batch.given, batch.null_time, late, batch.ahead)
    windowed = batch.rows.time.size - late.size - outside
    counts = {"rows": batch.given.num_rows, "windowed": windowed, "late": late.size, "outside": outside}
    return Account(table, counts | {"null_time": missing, "ahead": ahead})


def all_windowed(rows: Rows) -> Account:
    """The account of rows that are all in windows."""
    return Account(None, NO_ROWS | {"rows": len(rows), "windowed": len(rows)})


def output(
    state: State,
    answers: Sequence[Answers],
    change: Changed = UNCHANGED,
    counted: Account = NO_ACCOUNT,
    coming: Mask | None = None,
    arrived: tuple[int, int] | None = None,
    all_of_them: bool = False,
) -> Output:
    """The answers in Arrow, the account of rows, and the size of the state after cells were dropped. ``arrived``: how
    many cells of how many rows the push has brought, if runs may be packed now. ``all_of_them``: no result waits for a
    later push."""
    plan, keys = state.plan, state.keys
    windows = _windows(state, answers, change, all_of_them)
    goes_on = plan.policy.accounts or (any(map(len, answers)) and not all_of_them)
    if goes_on and keys is not None and state.store.head is None and len(keys) >= state.crowded:
        # after answers have read the keys; those of one `aggregate` will probably come again
        keys = forget(state, keys, () if plan.policy.accounts else answers)
    if arrived is not None:
        state.store = state.store.at_rest(*arrived)
    if not plan.policy.accounts:
        return Output(windows, plan.no_windows, Stats(), None)
    late, kept = counted.late, 0
    if late is None:
        assert state.given is not None
        known: tuple[pa.Schema, pa.Table] | None = plan.memo.get("no late rows")
        if known is None or not known[0].equals(state.given, check_metadata=True):
            plan.memo["no late rows"] = known = state.given, results.none_late(state.given)
        late = known[1]
    given, size = (0, 0) if keys is None else (len(keys), keys.nbytes)
    slices, cells, held_by_store = state.store.held(coming)
    size += held_by_store
    for pool in state.pools.values():
        size += pool.nbytes
    if plan.keeps_rows or plan.early.paned or state.postponed or state.marks.code.size or state.groups:
        more = _held_beside(state)
        slices, cells, kept, size = slices + more[0], cells + more[1], kept + more[2], size + more[3]
    held = {"slices": slices, "cells": cells, "kept": kept, "keys": given, "bytes": size, "windows": windows.num_rows}
    reached = state.reached
    if reached is None:
        return Output(windows, late, Stats(counted.counts | held), None)
    watermark = reached if plan.measure.is_integer else plan.measure.value(reached)
    filled = _filled(state) if plan.fill else END
    runs = _open_runs(state) if plan.session_gaps else ()
    takes_back = plan.session_gaps and plan.spec.trigger is not None and plan.spec.emit == "changes"
    shown = [(state.reported, state.row_panes)] if takes_back else ()
    reach = ResultProgress(plan, reached, runs, shown, filled)
    return Output(windows, late, Stats(counted.counts | held), watermark, reach)


def without_columns(spec: Spec) -> Output:
    """The output of a query that has had no rows: the types of its columns are not known."""
    none = pa.table({name: pa.nulls(0) for name in spec.result_columns()})
    return Output(none, pa.table({}), Stats(NO_ROWS | _NO_STATE), None)


def _windows(state: State, answers: Sequence[Answers], change: Changed, all_of_them: bool) -> pa.Table:
    """The table ``out.windows``."""
    plan = state.plan
    if not plan.early.paned:
        if not answers and change.revised is None:
            return plan.no_windows
        return results.windows(plan, state.keys, state.pools, answers, change.revised)
    panes = change.panes
    if not change.numbered:
        panes = [numbered(state, answers, change.revised, panes)]
    most = None if all_of_them else plan.policy.max_windows_per_push
    windows, state.held = emitted_rows(state.held, rows_of(state, panes), most)
    state.shown = state.watermark if state.held is None else state.shown
    return windows


def _filled(state: State) -> int:
    """The least of the ends up to which keys have their empty windows; END if there is none."""
    known = [ends[ends > BEGIN] for part in (state, *state.groups) for ends in part.filled.values()]
    return min([int(ends.min()) for ends in known if ends.size], default=END)


def _open_runs(state: State) -> list[Cells]:
    """The cells of sessions that are open or postponed."""
    waiting = [waits.store for waits in state.postponed]
    stores = [*waiting, *state.stores, *(store for group in state.groups for store in group.stores)]
    return [run for store in stores for run in store.runs]


def _held_beside(state: State) -> tuple[int, int, int, int]:
    """What is held besides the stream's slices, keys and values: numbers of slices, cells and rows, and bytes."""
    plan, slices, cells, kept, size = state.plan, 0, 0, 0, state.marks.nbytes
    if state.postponed:
        size += held_beside(state.store, state.postponed)
    seen = list(state.store.runs)
    for store in [*(known.store for known in state.apart), *(group.store for group in state.groups)]:
        more = store.held()
        cells, size = cells + more[1], size + more[2]
        for run in store.runs:  # a slice may have cells in several stores
            slices += run.slices_beside(tuple(seen))
            seen.append(run)
    for store in state.reported.values():  # their slices are counted already
        more = store.held()
        cells, size = cells + more[1], size + more[2]
    if plan.early.panes_of_rows:
        cells, size = cells + state.row_panes.size, size + state.row_panes.nbytes
    size += 0 if state.held is None else state.held.nbytes
    for rows in [state.rows, *(group.rows for group in state.groups)] if plan.keeps_rows else []:
        kept, size = kept + len(rows), size + rows.nbytes
    return slices, cells, kept, size
