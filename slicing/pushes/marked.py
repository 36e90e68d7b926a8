"""The stages of a push if keys have watermarks of their own: each group of keys runs through the stages by itself.

The stages are those of ``slicing.push``. A batch is read once for all keys; its rows are judged, admitted and closed by
the watermark of their key. Then keys with new marks leave the state that they are in, and windows close that their mark
completes. The keys join the other keys of that mark, or the stream's keys once its watermark has reached the mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from slicing.closing.answers import Answers
from slicing.columns.bits import present, true
from slicing.columns.casts import plain
from slicing.columns.key_marks import KeyMarks
from slicing.columns.order import distinct
from slicing.columns.sources import one_batch
from slicing.columns.typed import column_type
from slicing.columns.types import compared, decoded
from slicing.columns.values import NOWHERE
from slicing.columns.wanted import Wanted
from slicing.lifecycle.by_key import ENDED, as_watermarks, home_of, homes, parted, together, without_passed
from slicing.lifecycle.state import State, reached_by
from slicing.push import Pushed
from slicing.query.given_watermarks import later
from slicing.query.plan import Plan
from slicing.query.policy import Policy
from slicing.query.spec_checks import check_marks
from slicing.query.watermark import Punctuated
from slicing.stages.close import UNCHANGED, Changed, admit, close
from slicing.stages.collect import belong, collect
from slicing.stages.output import account, output
from slicing.stages.read import Batch, read
from slicing.system.arrays import MOST, Ints, Mask
from slicing.triggers.numbered import numbered
from slicing.windows.bounds import BEGIN, LIMIT

New = tuple[Ints, Ints]  # codes and their marks

_NO_MARKS: New = NOWHERE, NOWHERE


def push(before: State, data: pa.RecordBatch, upto: int | None = None) -> Pushed:
    """Run a batch through all stages."""
    state = before.draft()
    batch = read(state, data)
    rows, reached = batch.rows, reached_by(state, upto)
    state.arrived += batch.given.num_rows
    state.given = batch.given.schema
    state.fold_head()
    found = homes(state)
    number = home_of(state, found)[rows.code]
    ended = np.flatnonzero(number < 0)
    belongs = belong(state.plan, rows.take(ended))
    late, outside, changes = [ended[belongs]], int((~belongs).sum()), [UNCHANGED] * len(found)
    for place in distinct(number[number >= 0]).tolist():
        of_home = np.flatnonzero(number == place)
        arrivals = collect(found[place], rows if of_home.size == len(rows) else rows.take(of_home))
        late.append(of_home[arrivals.late])
        outside += arrivals.outside
        changes[place] = admit(found[place], arrivals)
    state, answers, change = _moved(state, found, changes, _in_rows(state, batch), reached)
    all_late = np.sort(np.concatenate(late))
    return Pushed(state, output(state, answers, change, account(batch, all_late, outside)), None, rows)


def advance(before: State, reached: int | None, given: object) -> Pushed:
    """Move the stream's watermark and marks of keys. Neither goes back."""
    state = before.draft()
    new = _NO_MARKS if given is None else marks_of(state, given)
    reached = later(reached, before.watermark)
    state.fold_head()
    found = homes(state)
    state, answers, change = _moved(state, found, [UNCHANGED] * len(found), new, reached)
    return Pushed(state, output(state, answers, change))


def flush(before: State) -> Pushed:
    """Close everything that is still open."""
    state = before.draft()
    state.fold_head()
    answers: list[Answers] = []
    found, changed = homes(state), []
    for home in found:
        changed.append(_close(home, ENDED, answers, flush=True))
    state.groups = tuple(found[1:])
    return Pushed(state, output(state, answers, _together(state.plan, changed)))


def _moved(
    state: State, found: Sequence[State], changes: Sequence[Changed], new: New, reached: int | None
) -> tuple[State, list[Answers], Changed]:
    """Close the windows that watermarks complete, then those that new marks complete. Keys with new marks move to their
    group."""
    answers: list[Answers] = []
    number, changed = home_of(state, found), []
    for home, change in zip(found, changes, strict=True):
        changed.append(_close(home, later(reached, home.watermark), answers, change))
    marks = without_passed(state.plan, state.marks.raised(*new), reached)
    stream = BEGIN if reached is None else reached
    target = np.full(number.size, stream)
    target[marks.code] = as_watermarks(state.plan, marks.mark)
    parts: dict[int, list[State]] = {}
    for place, home in enumerate(found):
        for until, part in _parts(home, number == place, target):
            if part is not home and until > part.passed_time:
                changed.append(_close(part, until, answers, flush=until == ENDED))
            parts.setdefault(until, []).append(part)
    state = _joined(parts[stream])
    groups = [until for until in distinct(target[marks.code]).tolist() if until not in (stream, ENDED)]
    state.marks, state.groups = marks, tuple([_joined(parts[until]) for until in groups])
    return state, answers, _together(state.plan, changed)


def _joined(parts: Sequence[State]) -> State:
    state = together(parts)
    state.store = state.store.settled()
    return state


def _close(
    home: State, until: int | None, answers: list[Answers], change: Changed = UNCHANGED, flush: bool = False
) -> Changed:
    """Move a watermark. Windows that are emitted once are added to ``answers``; panes are numbered in their state."""
    some, change = close(home, until, change, flush)
    if home.plan.early.paned:
        return Changed(panes=[numbered(home, some, change.revised, change.panes)], numbered=True)
    answers += some
    return change


def _parts(home: State, of_home: Mask, target: Ints) -> Iterator[tuple[int, State]]:
    """Split a state by the keys' new watermarks. What stays comes last, even if it has no keys."""
    stays, rest = home.passed_time, home
    alone = {"groups": (), "marks": KeyMarks()}
    for until in distinct(target[of_home & (target != stays)]).tolist():
        part, rest = parted(rest, of_home & (target == until))
        yield until, part.but(**alone)
    yield stays, rest


def _together(plan: Plan, changes: Sequence[Changed]) -> Changed:
    """The changed windows of all keys, or their panes."""
    if plan.early.paned:
        return Changed(panes=[pane for change in changes for pane in change.panes], numbered=True)
    revised = [change.revised for change in changes if change.revised is not None]
    if not revised:
        return UNCHANGED
    return Changed((Answers.all_of(plan, [some for some, _ in revised]), np.concatenate([mark for _, mark in revised])))


# --- marks ------------------------------------------------------------------------------------------------------------


def check_policy(policy: Policy, what: str) -> None:
    """Refuse ways to run an operator that work with a single watermark only."""
    for name in ("max_windows_per_push", "on_full"):
        if getattr(policy, name) != getattr(Policy, name):
            raise ValueError(
                f"{what} emits all windows of a key at once and judges rows by their key; build the operator without "
                f"{name}={getattr(policy, name)!r}"
            )


def marks_of(state: State, given: object) -> New:
    """Codes and marks of a table given by the user: key columns and the time column. A null time means: no more
    rows."""
    plan, spec = state.plan, state.plan.spec
    check_marks(spec, "advance(marks=)")
    check_policy(plan.policy, "advance(marks=)")
    assert state.keys is not None and isinstance(spec.time, str)
    batch = one_batch(given, Wanted(argument="marks"))
    for name in (*spec.by, spec.time):
        found, allowed = column_type(batch.schema, name), plan.types[name]
        if compared(found) != compared(allowed):
            what = "time" if name == spec.time else "key"
            raise TypeError(f"marks: {what} column {name!r} has type {found}; it must be {allowed}, as in the rows")
    time = batch.column(batch.schema.names.index(spec.time))
    missing = ~present(time)
    mark = np.full(batch.num_rows, MOST)
    mark[~missing] = _words(plan, time.drop_null())
    columns = [plain(batch.column(batch.schema.names.index(name))) for name in spec.by]
    columns = [column.cast(decoded(column.type)) for column in columns]
    return state.keys.encode_values(columns).astype(np.int64), mark


def _in_rows(state: State, batch: Batch) -> New:
    """Codes and marks that rows carry (``punctuated(column, by=...)``)."""
    policy = state.plan.spec.watermark
    if not isinstance(policy, Punctuated) or not policy.by or not len(batch.rows):
        return _NO_MARKS
    assert batch.rows.code is not None
    column = batch.columns[policy.column]
    if pa.types.is_boolean(column.type):
        rows = np.flatnonzero(true(column))
        mark = batch.rows.time[rows]
    else:
        rows = np.flatnonzero(present(column))
        mark = _words(state.plan, column.drop_null())
    return batch.rows.code[rows].astype(np.int64), mark


def _words(plan: Plan, times: pa.Array) -> Ints:
    """Times in ticks, limited to the range of times."""
    words: Ints = np.clip(plan.measure.marks(times), -LIMIT, LIMIT)
    return words
