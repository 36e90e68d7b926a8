"""The operator: push rows, advance time, flush, snapshot. Reads as the flow does.

``push`` judges the batch's rows by the watermark before it, turns them into cells, adds these to the store, moves the
watermark and answers the windows it closes. All state is one value that a push replaces at its end: a push that
fails leaves the operator as it was.
"""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicing import snapshot
from slicing.admit import admit, encoded, too_far
from slicing.answers import results
from slicing.answers.answers import Answers
from slicing.answers.postpone import held_beside
from slicing.answers.revise import revise
from slicing.batch import Rows
from slicing.close import advance_to, give_waiting, stays_open
from slicing.columns.sources import one_batch
from slicing.columns.values import NOWHERE, taken
from slicing.hot import Hot, begun, suits, with_cells
from slicing.kept_rows.close import kept
from slicing.measure import Measure, without_arrow
from slicing.output import Output, Stats
from slicing.plan import Plan
from slicing.policy import checked
from slicing.replan import replanned, with_windows
from slicing.slices.cells import Cells
from slicing.spec import ProcessingTime, Spec
from slicing.state import State, forgotten
from slicing.system.heap import keep_freed_memory
from slicing.watermark import Seen
from slicing.windows.bounds import BEGIN, END, LIMIT
from slicing.windows.builtin import Window
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.row_windows import RowWindow

Ints = npt.NDArray[np.int64]

keep_freed_memory()


class Operator:
    """A window query over a stream, in one process.

    ``push`` takes anything with the Arrow C interface; the first push fixes the types of the columns, and only a column
    of Arrow's type null may come instead, as nulls. Each ``push``, ``advance`` and ``flush`` gives an :class:`Output`;
    one that fails leaves the operator as it was. ``spec`` is the query. It can be pickled and copied; ``snapshot`` and
    ``restore`` are for state that outlives the process.
    """

    def __init__(
        self, spec: Spec, *, max_windows_per_push: int | None = None, threads: int = 1, combine: str = "auto"
    ) -> None:
        """``max_windows_per_push`` spreads a flush of more windows over the pushes that follow (not those of rows): the
        earliest ends first, then the keys as they first came. A push works for its share only, and all shares together
        for as much as one flush; what cannot be taken apart are the windows of a key that end together.

        ``threads`` share the rows of large pushes. ``combine`` forces how slices become windows (``explain`` tells what
        is chosen, and what there is). Answers are the same but for the last bits of float sums.
        """
        if not isinstance(spec, Spec):
            raise TypeError(f"Operator takes a sl.Spec; got {type(spec).__name__}")
        self.spec = spec
        self._at_most = None
        if max_windows_per_push is not None:
            self._at_most = _at_least_one(max_windows_per_push, "max_windows_per_push", ", or None")
        self._threads = _at_least_one(threads, "threads")
        self._combine = checked(combine, spec)
        self._plain: State | None = None
        self._hot: Hot | None = None  # cells beside those of the state
        self._advanced: tuple[object, ...] = ()  # watermarks given before the first push, which tells their type
        self._ended = False
        self._torn = False  # a push was interrupted while it added rows to the hot block

    def __repr__(self) -> str:
        return f"<sl.Operator of {self.spec!r}>"

    # --- the flow ---------------------------------------------------------------------------------------------------

    def push(self, data: object) -> Output:
        """Take rows; give the windows they close.

        Rows that wait may be kept where they lie: write nothing into memory that Arrow shares with its owner (a numpy
        array, a DataFrame's column) once it was pushed.
        """
        given = one_batch(data)
        if self._ended:
            raise RuntimeError("the operator was flushed, which ends its stream; build a new Operator to go on")
        self._check_whole()
        before = self._plain if self._plain is not None else self._first_state(given.schema)
        known = 0 if before.keys is None else len(before.keys)
        try:
            return self._pushed(before, given)
        except BaseException as error:
            # keys change in place: an interrupt may have come between their slots and their number
            refused = isinstance(error, ValueError | TypeError | OverflowError)
            if before.keys is not None and self._plain is before and (len(before.keys) > known or not refused):
                self._plain = replace(before, keys=before.keys.compact(np.arange(known)))
            raise

    def _pushed(self, before: State, given: pa.RecordBatch) -> Output:
        given, columns, times, null_time = self._timed(before.plan, given)
        state, rows = encoded(before, columns, times, self._threads)
        if times.size:
            seen = Seen(times, *rows.span, columns, state.plan.measure, null_time)
            newest = seen.newest if state.newest is None else max(state.newest, seen.newest)
            state = state.but(progress=self.spec.watermark.observe(state.progress, seen), newest=newest)
        if suits(state, rows):
            out = self._added(state, rows, given, null_time)
            if out is not None:
                return out
        state = self._with_hot(state)
        admitted = admit(state, rows)
        waited = Answers.none(state.plan)
        if len(admitted.changing):  # what a late row may change has to be given out before
            state, waited = give_waiting(state)
        state, revised = _revised(state, admitted.changing)
        # cells of windows that close now need no merging
        store, arrived = state.store.going_on(admitted.cells), state.arrived + given.num_rows
        state = state.but(store=store, arrived=arrived, given=given.schema)
        older = None
        if state.plan.keeps_rows:
            kept_rows, older = kept(state.rows, admitted.in_time, admitted.tardy, state.watermark)
            state = state.but(rows=kept_rows)
        state, answers, revised = advance_to(state, self._reached(state), older, revised, self._at_most)
        windows = _windows(state, answers, revised, waited)
        late = (
            results.late_rows(given, null_time, admitted.late)
            if admitted.late.size or null_time.size
            else _none_late(state)
        )
        counts = {
            "rows": given.num_rows,
            "windowed": len(rows) - admitted.late.size - admitted.outside,
            "late": admitted.late.size,
            "outside": admitted.outside,
            "null_time": null_time.size,
        }
        settled = state.store.settled()
        if settled is not state.store:
            state = state.but(store=settled)
        return self._done(forgotten(state), windows, late, counts)

    def _added(self, state: State, rows: Rows, given: pa.RecordBatch, null_time: Ints) -> Output | None:
        """A push that closes nothing: its rows go into the hot block. None where one closes, or the block suits not."""
        reached = self._reached(state)
        if reached is not None and not stays_open(state, reached):
            return None
        hot = self._hot
        if hot is None or not hot.takes(rows):
            state = self._settled(state)
            hot = begun(state, rows) if suits(state, rows) else None
            if hot is None:
                return None
        state, waited = give_waiting(state, self._at_most)
        state = state.but(watermark=reached, arrived=state.arrived + given.num_rows, given=given.schema)
        late = results.late_rows(given, null_time, NOWHERE) if null_time.size else _none_late(state)
        counts = _NO_ROWS | {"rows": given.num_rows, "windowed": len(rows), "null_time": null_time.size}
        windows = _windows(state, [waited])
        fill = hot.filling(rows)
        self._torn = True  # by an interrupt only: nothing else can fail
        fill()
        out = self._done(state, windows, late, counts, hot)
        self._torn = False
        return out

    def _with_hot(self, state: State) -> State:
        """With the cells of the hot block."""
        return state if self._hot is None else with_cells(state, self._hot)

    def _settled(self, state: State) -> State:
        """The same, merged with those that no window gives out now."""
        state = self._with_hot(state)
        return state.but(store=state.store.settled())

    def _check_whole(self) -> None:
        if self._torn:
            raise RuntimeError(
                "a push was interrupted while it added its rows, and some of them are in; go on from the last snapshot "
                "with Operator.restore, or build a new Operator"
            )

    @property
    def _state(self) -> State | None:
        """Everything; pushes that add to the hot block begin a new one after this was asked for."""
        self._check_whole()
        if self._hot is not None and self._plain is not None:
            self._state = self._settled(self._plain)
        return self._plain

    @_state.setter
    def _state(self, state: State | None) -> None:
        self._plain, self._hot = state, None

    def advance(self, watermark: object) -> Output:
        """Say that no row before ``watermark`` will come (a punctuation); it never goes back.

        ``watermark`` is a datetime, date, ISO string, ``numpy.datetime64``, Arrow scalar or, in the time column's unit,
        a whole number.
        """
        self._check_whole()
        before = self._plain
        if before is None:
            self._advanced = (*self._advanced, _instant(watermark))
            return Output(_no_windows(self.spec), pa.table({}), Stats(_NO_ROWS | _NO_STATE), None)
        reached = _advanced(before.plan, watermark)
        reached = max(reached, BEGIN if before.watermark is None else before.watermark)
        if self._hot is not None and stays_open(before, reached):
            state, waited = give_waiting(before.but(watermark=reached), self._at_most)
            return self._done(
                state,
                _windows(state, [waited]),
                _none_late(state),
                _NO_ROWS,
                self._hot,
            )
        state, answers, _ = advance_to(self._settled(before), reached, at_most=self._at_most)
        return self._done(
            forgotten(state),
            _windows(state, answers),
            _none_late(state),
            _NO_ROWS,
        )

    def flush(self) -> Output:
        """End of the stream: close everything that is still open."""
        if self._state is None:
            self._ended = True
            return Output(_no_windows(self.spec), pa.table({}), Stats(_NO_ROWS | _NO_STATE), None)
        state, answers, _ = advance_to(self._state, END, flush=True)
        state = replace(state, watermark=self._state.watermark)
        out = self._done(
            forgotten(state),
            _windows(state, answers),
            _none_late(state),
            _NO_ROWS,
        )
        self._ended = True
        return out

    def add_window(self, name: str, window: ContextFreeWindow | RowWindow | Window) -> None:
        """Ask for one more window type from now on; ``spec`` has it then.

        A window that has missed rows never comes out: ``complete_from`` tells which are whole. Those that slices hold
        may be whole from before now; a session or a punctuation once it begins for certain; a frame once a row has left
        one; ``rows``, ``per_row(every=)``, ``fill=True`` and a ``ContextAwareWindow`` see rows from now on, as if the
        stream began: those later than all before, or with ``order="arrival"`` those that come from now on;
        ``last_rows`` gives a key its windows once they have ``n`` rows.
        Types none of whose windows could be whole are refused: ``whole``, a ``landmark`` or ``fixed`` from before now.
        """
        self._changed({**self.spec.windows, name: window}, name)

    def remove_window(self, name: str) -> None:
        """Drop a window type; what is open of it is forgotten."""
        if name not in self.spec.windows:
            raise ValueError(f"remove_window: no window is named {name!r}; there are {', '.join(self.spec.windows)}")
        if len(self.spec.windows) == 1:
            raise ValueError(f"remove_window: {name!r} is the only window; add another one first")
        self._changed({n: w for n, w in self.spec.windows.items() if n != name})

    def complete_from(self, name: str) -> Any:
        """Windows that start here or later (``per_row``: end) are whole; None where all are."""
        if name not in self.spec.windows:
            raise ValueError(f"complete_from: no window is named {name!r}; there are {', '.join(self.spec.windows)}")
        if self._plain is None or self._plain.plan.since.get(name, BEGIN) == BEGIN:
            return None
        return self._plain.plan.measure.value(self._plain.plan.since[name])

    def _changed(self, windows: dict[str, ContextFreeWindow | RowWindow | Window], added: str | None = None) -> None:
        if self._ended:
            raise RuntimeError("the operator was flushed, which ends its stream; build a new Operator to go on")
        if added is not None and added in self.spec.windows:
            raise ValueError(f"add_window: there is a window {added!r} already; remove it first or choose another name")
        spec = with_windows(self.spec, windows)
        state = None if self._state is None else replanned(self._state, spec, added)
        if state is not None:
            state.plan.combining(self._combine)
        self.spec, self._state = spec, state

    def snapshot(self) -> bytes:
        """The whole state, versioned and checksummed: ``restore`` goes on where it stands."""
        return snapshot.write(self.spec, self._state, self._advanced, self._ended)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied as a snapshot: both go on from here, each by itself."""
        restore = partial(
            Operator.restore, max_windows_per_push=self._at_most, threads=self._threads, combine=self._combine
        )
        return restore, (self.spec, self.snapshot())

    @staticmethod
    def restore(
        spec: Spec, blob: bytes, *, max_windows_per_push: int | None = None, threads: int = 1, combine: str = "auto"
    ) -> Operator:
        """The operator that wrote the snapshot; refuses one of another spec, another format, or a damaged one."""
        operator = Operator(spec, max_windows_per_push=max_windows_per_push, threads=threads, combine=combine)
        state, operator._advanced, operator._ended = snapshot.read(spec, blob)
        if state is not None:
            state.plan.combining(combine)
        operator._state = state
        return operator

    # --- its parts --------------------------------------------------------------------------------------------------

    def _first_state(self, schema: pa.Schema) -> State:
        state = State.fresh(self.spec, schema)
        state.plan.combining(self._combine)
        if self._advanced:
            state = replace(state, watermark=max(_advanced(state.plan, w) for w in self._advanced))
        return state

    def _timed(self, plan: Plan, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array], Ints, Ints]:
        """The batch in its types, the columns of rows that have a time, their times in ticks, and the positions of rows
        that have none."""
        batch, columns = plan.columns.of(batch)
        if isinstance(self.spec.time, ProcessingTime):
            now = self.spec.time.clock() if self.spec.time.clock is not None else clock.time_ns() // 1000
            if self._plain is not None and self._plain.progress.largest is not None:
                now = max(now, self._plain.progress.largest)
            return batch, columns, np.full(batch.num_rows, now, np.int64), NOWHERE
        column, missing = columns[self.spec.time], NOWHERE
        if column.null_count:
            missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            if self.spec.on_null_time == "error":
                raise ValueError(
                    f"time column {self.spec.time!r} is null in row {missing[0]} of the batch; fill or "
                    "drop nulls, or use on_null_time='late' to have such rows among the late ones"
                )
            timed = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            _, columns = plan.columns.of(taken(batch, timed))
            column = columns[self.spec.time]
        if plan.measure.is_uint64 and len(column) and pc.max(column).as_py() > LIMIT:
            raise ValueError(too_far(plan, pc.max(column).as_py()))
        return batch, columns, plan.measure.words(column), missing

    def _reached(self, state: State) -> int | None:
        """The watermark after a push; it never goes back."""
        reached = self.spec.watermark.reached(state.progress, state.plan.measure)
        if isinstance(self.spec.time, ProcessingTime):
            reached = state.progress.largest
        if reached is not None:  # beyond all times it is as good as at their end
            reached = max(-LIMIT, min(LIMIT, reached))
        if reached is None or (state.watermark is not None and state.watermark >= reached):
            return state.watermark
        return reached

    def _done(
        self, state: State, windows: pa.Table, late: pa.Table, counts: dict[str, int], hot: Hot | None = None
    ) -> Output:
        size = state.store.nbytes + (0 if state.keys is None else state.keys.nbytes)
        size += state.rows.nbytes if state.plan.keeps_rows else 0
        size += 0 if hot is None else hot.nbytes
        size += sum([pool.nbytes for pool in state.pools.values()])
        size += held_beside(state.store, state.postponed) if state.postponed else 0
        held = {
            "slices": state.store.slices() + (0 if hot is None else hot.slices_beside(state.store.runs)),
            "cells": len(state.store) + (0 if hot is None else hot.used),
            "kept": len(state.rows),
            "keys": 0 if state.keys is None else len(state.keys),
            "bytes": size,
            "windows": windows.num_rows,
        }
        reached = state.reached
        out = Output(
            windows, late, Stats(counts | held), None if reached is None else state.plan.measure.value(reached)
        )
        self._plain, self._hot = state, hot  # last: an interrupt before it leaves the operator as it was
        return out


def _windows(
    state: State, parts: Sequence[Answers], revised: tuple[Answers, Ints] | None = None, waited: Answers | None = None
) -> pa.Table:
    return results.windows(state.plan, state.keys, state.pools, parts, revised, waited)


def _none_late(state: State) -> pa.Table:
    assert state.given is not None
    return results.none_late(state.plan, state.given)


def _revised(state: State, changing: Cells) -> tuple[State, tuple[Answers, Ints] | None]:
    """Add the cells of rows behind the watermark; the windows they change."""
    if not len(changing) or state.watermark is None:
        return state, None
    found = revise(state.store, state.keys, state.revisions, changing, state.horizon, state.watermark)
    store, revisions, again, mark = found
    return state.but(store=store, revisions=revisions), (again, mark)


_NO_ROWS = {"rows": 0, "windowed": 0, "late": 0, "outside": 0, "null_time": 0}
_NO_STATE = {"slices": 0, "cells": 0, "kept": 0, "keys": 0, "bytes": 0, "windows": 0}


def _no_windows(spec: Spec) -> pa.Table:
    names = ["window", "window_start", "window_end", *spec.by]
    names += [*(["rank_start", "rank_end"] if spec.ranks_rows else []), *spec.aggs]
    names += {"final": [], "updates": ["revision"], "changes": ["op"]}[spec.emit]
    return pa.table({name: pa.nulls(0) for name in names})


def _at_least_one(value: object, argument: str, other: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument} must be a whole number of at least 1{other}; got {value!r}")
    return value


def _instant(watermark: object) -> object:
    """A watermark as a plain value, before the time column's type is known."""
    watermark = without_arrow(watermark)
    if isinstance(watermark, bool) or not isinstance(watermark, int | np.integer | date | np.datetime64 | str):
        raise TypeError(
            "watermark must be a whole number, a datetime, a date or an ISO string, as the time column is; got "
            f"{watermark!r}"
        )
    if isinstance(watermark, int | np.integer):
        return int(watermark)
    Measure.of(pa.timestamp("ns", "UTC"), "time").moment_ns(watermark, "watermark")  # refuses what is no moment at all
    return watermark.isoformat() if isinstance(watermark, date) else str(watermark)


def _advanced(plan: Plan, watermark: object) -> int:
    """A watermark in ticks, no further than times are."""
    return max(-LIMIT, min(LIMIT, plan.measure.instant(watermark, "watermark")))
