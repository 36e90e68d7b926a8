"""The operator: push rows, advance time, flush, snapshot. Reads as the flow does.

``push`` judges the batch's rows by the watermark before it, turns them into cells, adds these to the store, moves the
watermark and answers the windows it closes. All state is one value that a push replaces at its end: a push that
fails leaves the operator as it was.
"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicing import emit, results
from slicing.arrow_io import empty, one_batch
from slicing.bounds import BEGIN, END, FOREVER, LIMIT
from slicing.cells import Cells, merged
from slicing.emit import Answers
from slicing.fill import Filled, by_instance, with_empty
from slicing.heap import keep_freed_memory
from slicing.keys import KeyTable
from slicing.plan import ENDLESS, Plan
from slicing.postpone import Postponed, given_out
from slicing.reduce import Rows, reduce_rows, reduce_suspects
from slicing.replan import replanned, with_windows
from slicing.revise import Revisions, revise
from slicing.row_store import RowStore, closed, keep
from slicing.row_windows import RowWindow
from slicing.sessions import chains, runs
from slicing.spec import ProcessingTime, Spec
from slicing.store import Store, ranks_used
from slicing.values import plain, ranks, storable, taken
from slicing.watermark import Progress, Seen
from slicing.windows import ContextFreeWindow, Window

Ints = npt.NDArray[np.int64]

keep_freed_memory()


class Stats(dict[str, int]):
    """Plain numbers of one push: rows = windowed + late + outside + null_time. Also as attributes, but ``["keys"]``."""

    def __getattr__(self, name: str) -> int:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"stats has no {name!r}; it has {', '.join(self)}") from None


@dataclass(frozen=True)
class Output:
    """What a push gives: the windows it closed, the rows that were late for all of theirs, the accounting."""

    windows: pa.Table
    late: pa.Table
    stats: Stats
    watermark: Any


@dataclass(frozen=True)
class State:
    """Everything an operator remembers."""

    plan: Plan
    store: Store
    rows: RowStore
    keys: KeyTable | None
    watermark: int | None = None
    progress: Progress = field(default_factory=Progress)
    arrived: int = 0
    given: pa.Schema | None = None  # of the batch pushed last
    pools: dict[str, pa.Array] = field(default_factory=dict)
    revisions: Revisions = field(default_factory=Revisions)
    filled: Filled = field(default_factory=dict)
    postponed: tuple[Postponed, ...] = ()
    newest: int | None = None  # the latest time of all rows
    crowded: int = 4096  # at so many codes look which keys are still alive

    @staticmethod
    def fresh(spec: Spec, schema: pa.Schema, arrival: bool = True) -> State:
        plan = Plan(spec, schema, arrival)
        pools = {name: pa.array([], storable(plan.value_types[name].type)) for name in plan.ranked}
        return State(plan, Store(plan), RowStore(plan), KeyTable(plan.key_types) if spec.by else None, pools=pools)

    def but(self, **changes: Any) -> State:
        """``replace``, without its costs: a small push makes several states."""
        state = object.__new__(State)
        state.__dict__.update(self.__dict__, **changes)
        return state

    @property
    def horizon(self) -> int:
        """Windows that end here or before have left."""
        return BEGIN if self.watermark is None else self.watermark - self.plan.lateness

    @property
    def patience(self) -> int:
        """How long a window waits after its end: a final answer, until no late row can change it any more."""
        return 0 if self.plan.spec.revises else self.plan.lateness

    @property
    def reached(self) -> int | None:
        """The watermark that the windows given out have reached."""
        if not self.postponed:
            return self.watermark
        after = self.postponed[0].after
        return None if after == BEGIN else after + self.patience


@dataclass(frozen=True)
class _Admitted:
    """A batch as the store takes it."""

    cells: Cells
    changing: Cells  # cells of rows behind the watermark, which may change windows already given out
    late: Ints  # positions of the rows
    outside: int
    in_time: Rows  # rows that no window has left behind
    tardy: Rows | None  # others that some window takes


class Operator:
    """A window query over a stream, in one process.

    ``push`` takes anything with the Arrow C interface; the first push fixes the types of the columns.
    """

    def __init__(self, spec: Spec, *, max_windows_per_push: int | None = None, threads: int = 1) -> None:
        """``max_windows_per_push`` spreads a flush of more windows over the pushes that follow (not those of rows).

        ``threads`` share the rows of large pushes. Answers are the same but for the last bits of float sums.
        """
        if not isinstance(spec, Spec):
            raise TypeError(f"Operator takes a sl.Spec; got {type(spec).__name__}")
        self.spec = spec
        self._at_most = _at_least_one(max_windows_per_push, "max_windows_per_push")
        if threads is None:
            raise ValueError("threads must be a whole number of at least 1; got None")
        self._threads = _at_least_one(threads, "threads") or 1
        self._state: State | None = None
        self._advanced: tuple[object, ...] = ()  # watermarks given before the first push, which tells their type
        self._ended = False

    # --- the flow ---------------------------------------------------------------------------------------------------

    def push(self, data: object) -> Output:
        """Take rows; give the windows they close."""
        given = one_batch(data)
        if self._ended:
            raise RuntimeError("the operator was flushed, which ends its stream; build a new Operator to go on")
        before = self._state if self._state is not None else self._first_state(given.schema)
        known = 0 if before.keys is None else len(before.keys)
        try:
            return self._pushed(before, given)
        except BaseException:
            if before.keys is not None and len(before.keys) > known and self._state is not None:
                self._state = replace(before, keys=before.keys.compact(np.arange(known)))
            raise

    def _pushed(self, before: State, given: pa.RecordBatch) -> Output:
        batch, times, null_time = self._timed(before.plan, given)
        state, rows = _encoded(before, batch, times, self._threads)
        if len(rows):
            seen = Seen(times, *rows.span, batch, state.plan.measure, null_time)
            newest = seen.newest if state.newest is None else max(state.newest, seen.newest)
            state = state.but(progress=self.spec.watermark.observe(state.progress, seen), newest=newest)
        admitted = _admit(state, rows)
        earlier = Answers.none(state.plan)
        if state.postponed and len(admitted.changing):  # what a late row may change has to be given out before
            state, earlier = _close(state, state.watermark)
        state, revised = revise(state, admitted.changing)
        store, arrived = state.store.add(admitted.cells), state.arrived + given.num_rows
        state = state.but(store=store, arrived=arrived, given=given.schema)
        state, older = keep(state, admitted.in_time, admitted.tardy)
        state, answers, revised = _advance(state, self._reached(state), older, revised, self._at_most)
        windows = _table(state, Answers.together([earlier, answers]) if len(earlier) else answers, revised)
        late = (
            _late_rows(given, null_time, admitted.late) if admitted.late.size or null_time.size else _none_late(state)
        )
        counts = {
            "rows": given.num_rows,
            "windowed": len(rows) - admitted.late.size - admitted.outside,
            "late": admitted.late.size,
            "outside": admitted.outside,
            "null_time": null_time.size,
        }
        return self._done(_forget(state), windows, late, counts)

    def advance(self, watermark: object) -> Output:
        """Say that no row before ``watermark`` will come (a punctuation); it never goes back."""
        if self._state is None:
            self._advanced = (*self._advanced, _instant(watermark))
            return Output(_no_windows(self.spec), pa.table({}), Stats(_NO_ROWS | _NO_STATE), None)
        state = self._state
        reached = _advanced(state.plan, watermark)
        reached = max(reached, BEGIN if state.watermark is None else state.watermark)
        state, answers, _ = _advance(state, reached, at_most=self._at_most)
        return self._done(_forget(state), _table(state, answers, None), _none_late(state), _NO_ROWS)

    def flush(self) -> Output:
        """End of the stream: close everything that is still open."""
        if self._state is None:
            self._ended = True
            return Output(_no_windows(self.spec), pa.table({}), Stats(_NO_ROWS | _NO_STATE), None)
        state, answers, _ = _advance(self._state, END, flush=True)
        state = replace(state, watermark=self._state.watermark)
        out = self._done(_forget(state), _table(state, answers, None), _none_late(state), _NO_ROWS)
        self._ended = True
        return out

    def add_window(self, name: str, window: ContextFreeWindow | RowWindow | Window) -> None:
        """Ask for one more window type from now on; ``spec`` has it then.

        A window that has missed rows never comes out: ``complete_from`` tells which are whole. Types none of whose
        windows could be whole any more are refused.
        """
        self._changed({**self.spec.windows, name: window}, name)

    def remove_window(self, name: str) -> None:
        """Drop a window type; what is open of it is forgotten."""
        if name not in self.spec.windows:
            raise ValueError(f"remove_window: no window is named {name!r}; there are {', '.join(self.spec.windows)}")
        self._changed({n: w for n, w in self.spec.windows.items() if n != name})

    def complete_from(self, name: str) -> Any:
        """Windows that start here or later (``per_row``: end) are whole; None where all are."""
        if name not in self.spec.windows:
            raise ValueError(f"complete_from: no window is named {name!r}; there are {', '.join(self.spec.windows)}")
        if self._state is None or name not in self._state.plan.since:
            return None
        return self._state.plan.measure.value(self._state.plan.since[name])

    def _changed(self, windows: dict[str, ContextFreeWindow | RowWindow | Window], added: str | None = None) -> None:
        if self._ended:
            raise RuntimeError("the operator was flushed, which ends its stream; build a new Operator to go on")
        if added is not None and added in self.spec.windows:
            raise ValueError(f"add_window: there is a window {added!r} already; remove it first or choose another name")
        spec = with_windows(self.spec, windows)
        state = None if self._state is None else replanned(self._state, spec, added)
        self.spec, self._state = spec, state

    def snapshot(self) -> bytes:
        """The whole state, versioned and checksummed: ``restore`` goes on where it stands."""
        from slicing import snapshot

        return snapshot.write(self.spec, self._state, self._advanced, self._ended)

    @staticmethod
    def restore(spec: Spec, blob: bytes, *, max_windows_per_push: int | None = None, threads: int = 1) -> Operator:
        """The operator that wrote the snapshot; refuses one of another spec, a newer format, or a damaged one."""
        from slicing import snapshot

        operator = Operator(spec, max_windows_per_push=max_windows_per_push, threads=threads)
        operator._state, operator._advanced, operator._ended = snapshot.read(spec, blob)
        return operator

    # --- its parts --------------------------------------------------------------------------------------------------

    def _first_state(self, schema: pa.Schema) -> State:
        state = State.fresh(self.spec, schema)
        if self._advanced:
            state = replace(state, watermark=max(_advanced(state.plan, w) for w in self._advanced))
        return state

    def _timed(self, plan: Plan, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints, Ints]:
        """The rows that have a time, their times in ticks, and the positions of rows that have none."""
        known = self._state is not None and self._state.given is not None and batch.schema.equals(self._state.given)
        for name, type in () if known else plan.types.items():
            found = batch.schema.get_all_field_indices(name)
            if len(found) != 1 or batch.schema.field(found[0]).type != type:
                has = f"{batch.schema.field(found[0]).type}" if len(found) == 1 else f"{len(found)} such columns"
                raise TypeError(f"column {name!r} was {type} in the first batch; this one has {has}")
        if isinstance(self.spec.time, ProcessingTime):
            now = self.spec.time.clock() if self.spec.time.clock is not None else clock.time_ns() // 1000
            if self._state is not None and self._state.progress.largest is not None:
                now = max(now, self._state.progress.largest)
            return batch, np.full(batch.num_rows, now, np.int64), _NOWHERE
        column = batch.column(self.spec.time)
        missing = _NOWHERE
        if column.null_count:
            missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            if self.spec.on_null_time == "error":
                raise ValueError(
                    f"time column {self.spec.time!r} is null in row {missing[0]} of the batch; fill or "
                    "drop nulls, or use on_null_time='late' to send such rows to out.late"
                )
            batch = taken(batch, np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
            column = batch.column(self.spec.time)
        if column.type == pa.uint64() and len(column) and pc.max(column).as_py() > LIMIT:
            raise ValueError(_too_far(self.spec, pc.max(column).as_py()))
        return batch, plan.measure.words(column), missing

    def _reached(self, state: State) -> int | None:
        """The watermark after a push; it never goes back."""
        reached = self.spec.watermark.reached(state.progress, state.plan.measure)
        if isinstance(self.spec.time, ProcessingTime):
            reached = state.progress.largest
        if reached is None or (state.watermark is not None and state.watermark >= reached):
            return state.watermark
        return reached

    def _done(self, state: State, windows: pa.Table, late: pa.Table, counts: dict[str, int]) -> Output:
        self._state = state
        size = state.store.nbytes + state.rows.nbytes + (0 if state.keys is None else state.keys.nbytes)
        size += sum(pool.nbytes for pool in state.pools.values()) + sum(p.store.nbytes for p in state.postponed)
        held = {
            "slices": state.store.slices(),
            "cells": len(state.store),
            "kept": len(state.rows),
            "keys": 0 if state.keys is None else len(state.keys),
            "bytes": size,
            "windows": windows.num_rows,
        }
        reached = state.reached
        return Output(
            windows, late, Stats(counts | held), None if reached is None else state.plan.measure.value(reached)
        )


_NOWHERE: Ints = np.empty(0, np.int64)
_NO_ROWS = {"rows": 0, "windowed": 0, "late": 0, "outside": 0, "null_time": 0}
_NO_STATE = {"slices": 0, "cells": 0, "kept": 0, "keys": 0, "bytes": 0, "windows": 0}


def _encoded(state: State, batch: pa.RecordBatch, times: Ints, threads: int = 1) -> tuple[State, Rows]:
    """Columns as arrays: keys as codes, values that have no word of their own as ranks."""
    plan = state.plan
    columns = {name: plain(batch.column(name)) for name in plan.types}
    code = None
    if state.keys is not None:
        code = state.keys.encode_rows([batch.column(name) for name in plan.spec.by], threads)
    ranked: dict[str, Ints] = {}
    for name in plan.ranked:
        pool, store = state.pools[name], state.store
        crowded = len(pool) > 2 * (store.values + state.rows.values) + 1024 and not state.postponed
        held = [*store.runs, *(run.cells for run in state.rows.runs)]
        used = ranks_used(plan, held, name, len(pool)) if crowded else np.arange(len(pool))
        (ranked[name],), pool, moved = ranks([columns[name]], pool, used)
        if not np.array_equal(moved, np.arange(moved.size)):
            postponed = tuple(replace(p, store=p.store.reranked(name, moved)) for p in state.postponed)
            rows_kept = state.rows.reranked(name, moved)
            state = replace(state, store=store.reranked(name, moved), rows=rows_kept, postponed=postponed)
        state = replace(state, pools=state.pools | {name: pool})
    codes = 1 if state.keys is None else len(state.keys)
    rows = Rows(plan, columns, times, code, codes, state.arrived, ranked, threads)
    if len(rows) and (rows.span[0] < -LIMIT or rows.span[1] > LIMIT):
        far = rows.span[0] if rows.span[0] < -LIMIT else rows.span[1]
        raise ValueError(_too_far(plan.spec, far))
    return state, rows


def _admit(state: State, rows: Rows) -> _Admitted:
    """Judge each row by the watermark before the batch, and reduce what is in time to cells."""
    plan, h = state.plan, state.horizon
    late = _NOWHERE
    none = plan.once("no cells", lambda: Cells.empty(plan.lanes, plan.fragments))
    if not len(rows):
        return _Admitted(none, none, late, 0, rows, None)
    parts: list[Cells] = []
    suspects, outside, current, tardy = none, 0, rows, None
    if rows.span[0] < h:
        suspect = np.flatnonzero(rows.time < h)
        suspects, all_late, outside, tardy = _judge(plan, rows.take(suspect), h)
        late = suspect[all_late]
        current = rows.take(np.flatnonzero(rows.time >= h))
    in_time, changing = current, suspects
    if not plan.keeps_slices:
        return _Admitted(none, none, late, 0, in_time, None)
    reached = state.watermark
    if plan.spec.revises and reached is not None and len(current) and current.span[0] < reached:
        behind = current.time < reached
        cells, beyond = _inside(plan, reduce_rows(current.take(np.flatnonzero(behind))))
        outside += beyond
        changing = merged(suspects, cells, plan.lanes, plan.gaps)
        current = current.take(np.flatnonzero(~behind))
    if not plan.spec.revises:
        changing = none
        parts.append(suspects)
    cells, beyond = _inside(plan, reduce_rows(current))
    parts.append(cells)
    both = merged(parts[0], parts[1], plan.lanes, plan.gaps) if len(parts) == 2 and len(parts[0]) else cells
    return _Admitted(both, changing, late, outside + beyond, in_time, tardy)


def _inside(plan: Plan, cells: Cells) -> tuple[Cells, int]:
    """Without the cells of rows that no slice's window holds by definition; how many rows are in no window at all."""
    if plan.gapless:
        return cells, 0
    held = plan.edges.covers(cells.end)
    return cells.take(held), 0 if plan.keeps_rows else int(cells.rows[~held].sum())


def _judge(plan: Plan, rows: Rows, h: int) -> tuple[Cells, npt.NDArray[np.bool_], int, Rows]:
    """Rows before the horizon: cells of those some window takes, which are late for all, how many outside, the taken.

    They are too late for every window that rows decide.
    """
    own_end = plan.edges.next_live(rows.time, BEGIN)
    level = np.searchsorted(np.array(plan.session_gaps, np.int64), h - rows.time, "right").astype(np.int64)
    taken = plan.in_session(level)
    if plan.bounds:
        taken |= plan.edges.holds(own_end, h)
    if plan.idle is not None:
        taken &= level < len(plan.session_gaps)
    belongs = np.ones(len(rows), np.bool_) if plan.gapless else plan.edges.covers(own_end)
    taken &= belongs
    if plan.keeps_rows:
        belongs[:] = True
    if plan.wholes:
        level += plan.levels
    chosen = np.flatnonzero(taken)
    some = rows.take(chosen)
    cells = reduce_suspects(some, plan.edges.next_live(some.time, h), level[chosen])
    return cells, belongs & ~taken, int((~belongs).sum()), some


def _advance(
    state: State,
    reached: int | None,
    older: RowStore | None = None,
    revised: tuple[Answers, Ints] | None = None,
    at_most: int | None = None,
    flush: bool = False,
) -> tuple[State, Answers, tuple[Answers, Ints] | None]:
    """Move the watermark and answer the windows it closes, of slices and of rows; with what late rows have changed."""
    rows, parts, gone = closed(state, older, reached, flush)
    state, answers = _close(state.but(rows=rows), reached, flush, at_most)
    if parts:
        answers = Answers.together([*([answers] if len(answers) else []), *parts])
    if gone is not None:
        mark = np.zeros(len(gone), np.int64)
        revised = (
            (gone, mark)
            if revised is None
            else (
                Answers.together([revised[0], gone]),
                np.append(revised[1], mark),
            )
        )
    return state, answers, revised


def _close(state: State, reached: int | None, flush: bool = False, at_most: int | None = None) -> tuple[State, Answers]:
    """Move the watermark and answer the windows it closes, and those that waited; the rest wait if there are more."""
    plan, previous = state.plan, BEGIN if state.watermark is None else state.watermark
    if reached is None:
        return state, Answers.none(plan)
    closed = state.but(watermark=reached)
    after = BEGIN if state.watermark is None else previous - state.patience
    until = FOREVER if flush else reached - state.patience
    due, quick = state.postponed, None
    if len(state.store) and _may_close(state, after, until, flush):
        store = state.store
        if plan.adds_up and state.keys is not None and at_most is None and not due:
            quick = emit.few_answers(plan, store.runs, state.keys, after, until)
        if quick is None:
            store = store.consolidated()
            due = (*due, Postponed(store, after, until))
        horizon = END - 1 if flush else closed.horizon
        closed = replace(
            closed,
            store=Store(plan) if flush else store.without(horizon),
            revisions=state.revisions.without(horizon),
        )

    def answered(table: Cells, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
        timed, filled = _time_windows(state, table, after, until, filled)
        parts = [p for p in (timed, *_run_windows(state, table, after, until)) if len(p)]
        return Answers.together(parts) if parts else Answers.none(plan), filled

    if quick is not None or not due:
        return closed, Answers.none(plan) if quick is None else quick
    answers, waiting, filled = given_out(plan, due, state.filled, at_most, answered)
    return closed.but(filled=filled, postponed=waiting), answers


def _may_close(state: State, after: int, until: int, flush: bool) -> bool:
    """Whether anything can be due or dead: most small pushes close nothing and should cost nothing."""
    plan = state.plan
    if flush or plan.fill:
        return True
    if plan.session_gaps and min(r.earliest_last for r in state.store.runs) + plan.session_gaps[0] < until:
        return True
    if state.watermark is None:
        return True
    marks = (after, after - plan.lateness) if plan.spec.revises else (after,)
    return any(plan.edges.any_between(a, a + until - after) for a in marks)


def _time_windows(state: State, table: Cells, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
    """Windows between edges. With ``idle``, a key that has been quiet gives out all its windows now."""
    plan = state.plan
    if plan.idle is None:
        found = emit.time_answers(plan, table, state.keys, after, until)
        return with_empty(plan, found, filled, table, after, until)
    return by_instance(plan, runs(table, state.keys, chains(table, plan.idle)), filled, after, until)


def _run_windows(state: State, table: Cells, after: int, until: int) -> list[Answers]:
    """Windows that are runs of a key's rows: sessions, whole streams."""
    plan = state.plan
    found = []
    for session in plan.sessions:
        gap = plan.session_gaps[session.level]
        chained = chains(table, gap, table.level % plan.levels <= session.level)
        due = (after <= chained.end + gap) & (chained.end + gap < until)
        if due.any():
            found.append(emit.session_answers(plan, runs(table, state.keys, chained, due), session.window, session.gap))
    if plan.wholes and (until == FOREVER or plan.idle is not None):
        gap = int(ENDLESS) if plan.idle is None else plan.idle
        chained = chains(table, gap, table.level < plan.levels)
        over = None if plan.idle is None else chained.end + plan.idle < until
        streams = runs(table, state.keys, chained, over)
        found += [emit.session_answers(plan, streams, window, 0) for window in plan.wholes]
    return found


def _forget(state: State) -> State:
    """Give up the codes of keys that have no cell left, once they are most of the table."""
    if state.keys is None or len(state.keys) < state.crowded:
        return state
    used = np.zeros(len(state.keys), np.bool_)
    for run in state.store.runs:
        used[run.code] = True
    used[state.revisions.code] = True
    used |= state.rows.uses(used.size)
    for last in state.filled.values():
        used[: last.size] |= last > BEGIN
    postponed = tuple(p.rest() for p in state.postponed)
    for p in postponed:
        used[p.store.table().code] = True
    live = np.flatnonzero(used)
    if 2 * live.size > len(state.keys):
        return replace(state, crowded=2 * len(state.keys))
    code = np.full(len(state.keys), -1, np.int64)
    code[live] = np.arange(live.size)
    filled = {k: last[live[live < last.size]] for k, last in state.filled.items()}
    return replace(
        state,
        keys=state.keys.compact(live),
        store=state.store.recoded(code),
        rows=state.rows.recoded(code),
        revisions=state.revisions.recoded(code),
        filled=filled,
        postponed=tuple(p.recoded(code) for p in postponed),
        crowded=max(4 * live.size, 4096),
    )


def _table(state: State, answers: Answers, revised: tuple[Answers, Ints] | None) -> pa.Table:
    if state.plan.since:
        answers = answers.take(~state.plan.missed(answers.window, answers.start, answers.end))
        if revised is not None:
            again, mark = revised
            whole = ~state.plan.missed(again.window, again.start, again.end)
            revised = again.take(whole), mark[whole]
    if revised is None:
        return results.to_table(state.plan, answers, state.keys, state.pools)
    again, mark = revised
    first_mark = np.full(len(answers), 1 if state.plan.spec.emit == "changes" else 0, np.int64)
    both = Answers.together([again, answers])
    return results.to_table(state.plan, both, state.keys, state.pools, np.append(mark, first_mark))


def _late_rows(batch: pa.RecordBatch, null_time: Ints, late: Ints) -> pa.Table:
    """The input's columns and the reason, in the order the rows came; ``late`` counts rows that have a time."""
    name = "reason" if "reason" not in batch.schema.names else "late_reason"
    if not late.size and not null_time.size:
        return pa.Table.from_batches([batch.slice(0, 0)]).append_column(name, pa.array([], pa.string()))
    if null_time.size:
        late = np.delete(np.arange(batch.num_rows), null_time)[late]
    chosen = np.append(late, null_time)
    order = np.argsort(chosen)
    reason = pa.array(["late", "null time"]).take(pa.array((order >= late.size).astype(np.int8)))
    return pa.Table.from_batches([taken(batch, chosen[order])]).append_column(name, reason)


def _no_windows(spec: Spec) -> pa.Table:
    names = ["window", "window_start", "window_end", *spec.by]
    names += [*(["rank_start", "rank_end"] if spec.ranks_rows else []), *spec.aggs]
    names += {"final": [], "updates": ["revision"], "changes": ["op"]}[spec.emit]
    return pa.table({name: pa.nulls(0) for name in names})


def _none_late(state: State) -> pa.Table:
    """``late`` where no rows came."""
    given = state.given
    assert given is not None
    schema, table = state.plan.once("no late rows", lambda: (given, _late_rows(empty(given), _NOWHERE, _NOWHERE)))
    if schema is given or schema.equals(given, check_metadata=True):
        return table
    return _late_rows(empty(given), _NOWHERE, _NOWHERE)


def _at_least_one(value: object, argument: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{argument} must be a whole number of at least 1, or None; got {value!r}")
    return value


def _instant(watermark: object) -> object:
    """A watermark as a plain value, before the time column's type is known."""
    if isinstance(watermark, bool) or not isinstance(watermark, int | np.integer | date | np.datetime64 | str):
        raise TypeError(
            "watermark must be a whole number, a datetime, a date or an ISO string, as the time column is; got "
            f"{watermark!r}"
        )
    if isinstance(watermark, int | np.integer):
        return int(watermark)
    return watermark.isoformat() if isinstance(watermark, date) else str(watermark)


def _advanced(plan: Plan, watermark: object) -> int:
    """A watermark in ticks; beyond all times it is as good as at their end."""
    return max(-LIMIT, min(LIMIT, plan.measure.instant(watermark, "watermark")))


def _too_far(spec: Spec, time: int) -> str:
    return f"time column {spec.time!r} holds {time}; times must lie between {-LIMIT} and {LIMIT} units"
