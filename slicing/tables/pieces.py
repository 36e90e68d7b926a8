"""Rows that are all in memory, pushed piece by piece, so that windows close on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Formula
from slicing.aggregates.builtin import count
from slicing.columns.values import NOWHERE
from slicing.kernels.slice import scan
from slicing.operator import Operator
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.system.frozen_map import FrozenMap
from slicing.windows.bounds import BEGIN, LIMIT
from slicing.windows.builtin import ContextFreeWindow

GROWS_TO = 3  # a piece may grow to this many times its wanted rows to reach the end of a slice
DENSE = 16  # rows per cell: with more, few cells are held, and pushing in pieces costs more than it saves
FIRST_ROWS = 1 << 14  # these rows tell whether pieces may pay; pushing more separately costs 7 % at 20 rows a slice
FEW_ROWS = 32  # rows a cell: with more, it pays more that threads share the rows of a push


def in_pieces(
    operator: Operator, held: Sequence[pa.RecordBatch], goes_on: Callable[[], bool], density: Density
) -> pa.Table:
    """All windows of the rows, pushed piece by piece while it ``goes_on``."""
    closed = _piece_by_piece(operator, held, goes_on, density)
    windows = operator.flush().windows
    closed = [some for some in closed if some.num_rows]
    return pa.concat_tables([*closed, windows]) if closed else windows


def _piece_by_piece(
    operator: Operator, held: Sequence[pa.RecordBatch], goes_on: Callable[[], bool], density: Density
) -> list[pa.Table]:
    """Push rows that are all in memory, some at a time while it ``goes_on``. Their order tells which windows no later
    row belongs to, so windows close on the way if that pays. Returns the windows closed so far.

    Windows emitted on the way need not be held, nor sorted in the end. 5 M rows that become 5 M results: 1.4 s of CPU
    with cells of all rows, most of it for memory that is touched once; 0.5 s with cells of a piece at a time. 10 M rows
    kept for windows of 1000, 20 % of them late: 14 -> 34 M rows/s; in order by 1000 keys, windows of 100: 8 -> 27.
    """
    rows, closed = operator._policy.push_rows, list[pa.Table]()
    if _may_pay(operator, max(held, key=len).slice(0, FIRST_ROWS), density):
        plan = Plan.of(operator.spec, held[0].schema, policy=operator._policy)
        pieces = list(_pieces(plan, held, rows)) if _end_slices(plan, held, rows) else []
        until = _least_to_come(plan, pieces)
        if until is not None:
            operator._upto = int(until[0])
            closed = [operator.push(pieces[0]).windows]
            state = operator._state
            assert state is not None
            results = len(state.store) + closed[0].num_rows
            if plan.keeps_rows or _lists_are_windows(plan) or results * DENSE > pieces[0].num_rows:
                for piece, upto in zip(pieces[1:], until[1:], strict=True):
                    if not goes_on():
                        break
                    operator._upto = int(upto)
                    closed.append(operator.push(piece).windows)
                return closed
            held = [held[0].slice(pieces[0].num_rows), *held[1:]]
    for batch in held:
        closed.append(operator.push(batch).windows)
    return closed


def _end_slices(plan: Plan, held: Sequence[pa.RecordBatch], rows: int) -> bool:
    """Whether most pieces of so many rows end a slice, by their first times. If they do not, cells of one slice would
    be merged again with each piece (1 M keys, without this: 7 -> 15 M rows/s)."""
    if not plan.keeps_slices:
        return True
    times = [times_of(plan, batch) for batch in held]
    begun = np.concatenate([NOWHERE, *(some[::rows] for some in times if some is not None)])
    over = plan.edges.next_live(begun[:-1], BEGIN) <= begun[1:]
    return bool(2 * np.count_nonzero(over) >= over.size)


def _pieces(plan: Plan, held: Sequence[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut the data into pieces of ``rows`` rows. If the end of a slice is near, a piece goes on to it: two pieces with
    rows of one slice would both have cells of its keys. 100 k keys, a million rows a slice: 27 -> 17 ns a row."""
    for batch in held:
        times = times_of(plan, batch) if plan.keeps_slices else None
        size, at = batch.num_rows, 0
        while at < size:
            end = min(at + rows, size)
            if times is not None and times.size == size and end < size:
                most = min(at + GROWS_TO * rows, size)
                found = _first_from(times[end:most], int(plan.edges.next_live(times[end - 1 : end], BEGIN)[0]))
                if found is not None:
                    end += found
                elif most == size:
                    end = size
            yield batch.slice(at, end - at)
            at = end


def _first_from(times: Ints, edge: int) -> int | None:
    """The place of the first time from an edge on. It is mostly near."""
    at, rows = 0, FIRST_ROWS
    while at < times.size:
        come = times[at : at + rows] >= edge
        if come.any():
            return at + int(come.argmax())
        at, rows = at + rows, 2 * rows
    return None


def _may_pay(operator: Operator, first: pa.RecordBatch, density: Density) -> bool:
    """Whether it is worth looking at more than the first rows: rows have to be sorted, or there are many results."""
    plan = Plan.of(operator.spec, first.schema, policy=operator._policy)
    if not gives_in_order(plan):
        return False
    if plan.keeps_rows:
        return _sorts_rows(plan, first)
    return _lists_are_windows(plan) or density.cells_a_row(FIRST_ROWS) * DENSE > 1


def _lists_are_windows(plan: Plan) -> bool:
    """Whether windows are lists of rows that no other window needs. Those of a piece stay in memory that is used again:
    10 M rows, medians by 1000 keys and seconds 364 -> 205 ms, half of it for memory that was touched once."""
    return plan.may_be_windows and not plan.all_words


class Density:
    """How many cells the first rows of a batch have. If their times do not tell that they are few, a separate operator
    counts them, so that a user's functions see each row once."""

    def __init__(self, operator: Operator, batch: pa.RecordBatch) -> None:
        self._operator, self._batch = operator, batch
        self._known: float | None = None

    def cells_a_row(self, rows: int) -> float:
        """Cells a row, of so many rows or of those that were counted before."""
        if self._known is None:
            spec, some = self._operator.spec, self._batch.slice(0, rows)
            most = _most_cells(Plan.of(spec, some.schema, policy=self._operator._policy), some)
            if most is not None and most * FEW_ROWS <= len(some):
                self._known = most / len(some)
                return self._known
            counts: FrozenMap[Formula] = FrozenMap(dict.fromkeys(spec.aggs, count()))
            looked = Operator(replace(spec, aggs=counts), policy=replace(self._operator._policy, threads=1))
            looked.push(some)
            cells = 0 if looked._state is None else len(looked._state.store)
            self._known = cells / max(len(some), 1)
        return self._known


def _most_cells(plan: Plan, rows: pa.RecordBatch) -> int | None:
    """How many slices lie between the times of rows without keys. None if these are not all that cells depend on.

    10 M rows of 10,000 slices: the operator takes 0.5 of 9.5 ms, or of 6.1 with two threads.
    """
    by_time = all(isinstance(window, ContextFreeWindow) for window in plan.spec.windows.values())
    times = times_of(plan, rows) if by_time and not (plan.spec.by or plan.keeps_rows or plan.edges.irregular) else None
    if times is None or not times.size:
        return None
    edges = plan.edges.listed(*_extremes(times, plan.policy.block), plan.grid, times.size)
    return None if edges is None else edges.size


def gives_in_order(plan: Plan) -> bool:
    """Whether each window is emitted once, when the watermark passes its end, so that windows come in order of their
    ends."""
    if plan.fill or plan.full or plan.idle is not None or plan.spec.emit != "final" or plan.spec.trigger is not None:
        return False
    if plan.keeps_slices:
        return plan.cells.a_cell_a_key and not plan.keeps_rows
    return all(window.closes_at_end for window in plan.bound_rows.values())


def _sorts_rows(plan: Plan, first: pa.RecordBatch) -> bool:
    """Whether rows are kept that have to be sorted by key or by time. Other kept rows are read in place."""
    times = times_of(plan, first)
    return bool(plan.spec.by) or (times is not None and bool((times[1:] < times[:-1]).any()))


def times_of(plan: Plan, piece: pa.RecordBatch) -> Ints | None:
    """The times that are not null. None if the data does not have them as they are needed."""
    measure, name = plan.measure, plan.spec.time
    if not isinstance(name, str) or measure.is_uint64:
        return None
    column = piece.column(name)
    return measure.words(column.drop_null() if column.null_count else column)


def _least_to_come(plan: Plan, pieces: Sequence[pa.RecordBatch]) -> Ints | None:
    """For each piece the earliest time of all later pieces. None if there are no pieces, or if rows are in no order."""
    if not pieces:
        return None
    low, high = np.full((2, len(pieces) + 1), LIMIT)
    for i, piece in enumerate(pieces):
        times = times_of(plan, piece)
        if times is None:
            return None
        if times.size:
            low[i], high[i] = _extremes(times, plan.policy.block)
    to_come = np.minimum.accumulate(low[::-1])[::-1]
    near = to_come[2:] >= high[:-2]  # rows come at most one piece late
    if 2 * np.count_nonzero(near) < near.size:
        return None
    return to_come[1:]


def _extremes(times: Ints, block: int) -> tuple[int, int]:
    """The earliest and the latest time: read once from memory, 10 M rows 7 -> 4 ms."""
    lows, highs = np.empty((2, -(-times.size // block)), np.int64)
    scan(times, block, lows, highs)
    return int(lows.min()), int(highs.max())
