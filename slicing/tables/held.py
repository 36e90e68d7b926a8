"""Rows that are all in memory. They are pushed piece by piece, so that windows close on the way; and if they are in
order of time, or nearly, several threads answer a period each, from end to end.

A period is the windows that end after one time and up to another. Its rows are those from the first start of these
windows up to the end of the period: where windows overlap, periods share rows. The order of the rows is looked at in
blocks: of most blocks a period has all rows or none, and from the blocks about its ends it takes the rows that are its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Formula
from slicing.aggregates.builtin import count
from slicing.columns.arrow_io import one_piece
from slicing.columns.order import is_sorted
from slicing.columns.values import NOWHERE, taken
from slicing.kernels.slice import scan
from slicing.operator import Operator
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.system.frozen_map import FrozenMap
from slicing.system.threads import side_by_side
from slicing.windows.bounds import BEGIN, END, LIMIT
from slicing.windows.builtin import ContextFreeWindow, Window
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_count import RowCount

GROWS_TO = 3  # a piece may grow to this many times its wanted rows to reach the end of a slice
DENSE = 16  # rows per cell: with more, few cells are held, and pushing in pieces costs more than it saves
FIRST_ROWS = 1 << 14  # these rows tell whether pieces may pay; pushing more separately costs 7 % at 20 rows a slice
BLOCK = 4096  # rows whose earliest and latest time tell which periods they are in
TOGETHER = 64  # blocks that a thread looks at in one call
SHARED = 8  # at most one row in so many is in two periods, or in a block whose rows have to be chosen
FEWEST_TOLD = 1 << 17  # rows for which it pays to look whether slices have few of them
FEW_ROWS = 32  # rows a cell: with more, it pays more that threads share the rows of a push
MANY_THREADS = 4  # so many wait longer for the one that merges what they share
PROBED = 1 << 17  # rows whose cells are counted
APPROXIMATE = {"approx_quantile", "heavy_hitters", "sample"}  # how the rows are cut may change them a little


def windows_of(operator: Operator, held: Sequence[pa.RecordBatch]) -> pa.Table:
    """All windows of the rows, by an operator that has seen no rows."""
    policy = operator._policy
    plan = Plan.of(operator.spec, held[0].schema, policy=policy)
    density = _Density(operator, max(held, key=len))
    found = _periods(plan, held, density) if policy.threads > 1 else []
    if found:
        alone = partial(Operator, operator.spec, policy=replace(policy, threads=1))
        try:
            return pa.concat_tables(_of_periods(plan, found, alone))
        except (ValueError, TypeError, OverflowError):  # what is wrong with a row is told by its place among all rows
            pass
    return _of_rows(operator, held, lambda: True, density)


def counting_by_time(operator: Operator, held: Sequence[pa.RecordBatch]) -> Operator:
    """An operator that counts rows by time where this one counts them by arrival, which is the same if all rows come in
    order of time. Otherwise the operator itself. Windows of 1000 of 1 M rows 22 -> 2 ms, by 1000 keys 60 -> 17."""
    spec = operator.spec
    by_arrival = {name: w for name, w in spec.windows.items() if isinstance(w, RowCount | PerRow) and w.by_arrival}
    if not by_arrival or spec.sequence is not None:
        return operator
    plan, latest = Plan.of(spec, held[0].schema, policy=operator._policy), BEGIN
    for batch in held:
        times = _times(plan, batch)
        if times is None or times.size < len(batch) or not is_sorted(times):
            return operator
        if times.size:
            if times[0] < latest:
                return operator
            latest = int(times[-1])
    by_time = {name: replace(window, order="time") for name, window in by_arrival.items()}
    return Operator(replace(spec, windows=FrozenMap({**spec.windows, **by_time})), policy=operator._policy)


def tell_end(operator: Operator, rows: pa.RecordBatch) -> None:
    """Tell an operator that no row follows these, if it may then answer windows from rows: windows that slide over
    slices of few rows. 262,144 rows, a row a slice, windows of 1024: 7.1 -> 2.7 ms."""
    if len(rows) < FEWEST_TOLD:
        return
    plan = Plan.of(operator.spec, rows.schema, policy=operator._policy)
    times = _times(plan, rows) if plan.goes_straight and plan.slides > 1 else None
    if times is not None and times.size and int(times[-1]) - int(times[0]) > len(rows) // DENSE * plan.edges.longest:
        operator._upto = LIMIT


def _of_rows(
    operator: Operator, held: Sequence[pa.RecordBatch], goes_on: Callable[[], bool], density: _Density
) -> pa.Table:
    closed = _piece_by_piece(operator, held, goes_on, density)
    windows = operator.flush().windows
    closed = [some for some in closed if some.num_rows]
    return pa.concat_tables([*closed, windows]) if closed else windows


# --- periods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Period:
    """Windows that end after a time and up to another, and the rows that they may hold."""

    after: int
    until: int
    rows: list[pa.RecordBatch]

    def of(self, plan: Plan, windows: pa.Table) -> pa.Table:
        """Its own windows among those of its rows, which are in order of their ends."""
        ends = plan.measure.words(one_piece(windows["window_end"]))
        first, last = np.searchsorted(ends, [self.after, self.until], "right").tolist()
        return windows.slice(first, last - first)


def _of_periods(plan: Plan, periods: list[_Period], operator: Callable[[], Operator]) -> list[pa.Table]:
    """The windows of each period, one thread a period. If one fails, the others end early."""
    failed: list[_Period] = []

    def windows(period: _Period) -> pa.Table:
        try:
            alone = operator()
            density = _Density(alone, max(period.rows, key=len))
            return period.of(plan, _of_rows(alone, period.rows, lambda: not failed, density))
        except BaseException:
            failed.append(period)
            raise

    return side_by_side(windows, periods)


def _periods(plan: Plan, held: Sequence[pa.RecordBatch], density: _Density) -> list[_Period]:
    """A period for each thread. None if the windows depend on more than the rows between two times, or if it does not
    pay: if few threads share few cells (then they share the rows of each push), or if many rows would be in two
    periods."""
    total = sum(map(len, held))
    count = min(plan.policy.threads, total // plan.policy.period_rows)
    if count < 2 or not _are_apart(plan):
        return []
    many = plan.spec.by and count >= MANY_THREADS
    if not many and plan.all_words and density.cells_a_row(PROBED) * FEW_ROWS <= 1:
        return []
    times = [_times(plan, batch) for batch in held]
    known = [some for some, batch in zip(times, held, strict=True) if some is not None and some.size == len(batch)]
    if len(known) < len(held):
        return []
    blocks, found = _Blocks.of(plan, held, known), list[_Period]()
    for after, until in pairwise([BEGIN, *blocks.ends(plan, count), END]):
        since = BEGIN if after == BEGIN else min(bound.first_live_start(after) for bound in plan.edges.bounds)
        own = blocks.between(since, until)
        if own is None:
            return []
        if own:
            found.append(_Period(after, until, own))
    sizes = [sum(map(len, period.rows)) for period in found]
    shared = SHARED * (sum(sizes) - total) > total
    return [] if shared or 2 * max(sizes) * count > 3 * total else found


def _are_apart(plan: Plan) -> bool:
    """Whether the windows that end between two times depend only on the rows between two times."""
    spec, windows = plan.spec, plan.spec.windows.values()
    apart = all(isinstance(window, ContextFreeWindow) and isinstance(window, Window) for window in windows)
    if not apart or spec.op is not None or plan.keeps_rows or not _gives_in_order(plan):
        return False
    parts = [part for formula in spec.aggs.values() for part in formula.parts()]
    return not any(part.user is not None or part.function in APPROXIMATE for part in parts)


@dataclass(frozen=True)
class _Blocks:
    """Blocks of adjacent rows, and the earliest and the latest time of each."""

    batches: list[pa.RecordBatch]
    times: list[Ints]
    first: Ints  # the first block of each batch, and the number of blocks
    low: Ints
    high: Ints

    @staticmethod
    def of(plan: Plan, held: Sequence[pa.RecordBatch], times: list[Ints]) -> _Blocks:
        batches = [batch.select(plan.spec.columns()) for batch in held]
        first = np.append(0, np.cumsum([-(-some.size // BLOCK) for some in times]))
        low, high = np.empty((2, first[-1]), np.int64)
        looks = []
        for at, some in zip(first[:-1].tolist(), times, strict=True):
            for begin in range(0, some.size, BLOCK * TOGETHER):
                part = some[begin : begin + BLOCK * TOGETHER]
                own = slice(at + begin // BLOCK, at + begin // BLOCK - (-part.size // BLOCK))
                looks.append((part, BLOCK, low[own], high[own]))
        threads = min(plan.policy.threads, len(looks))
        side_by_side(lambda i: [scan(*look) for look in looks[i::threads]], range(threads))
        return _Blocks(batches, times, first, low, high)

    def ends(self, plan: Plan, count: int) -> list[int]:
        """The edges that are nearest to the times at which the rows would fall into ``count`` equal parts."""
        size, ends = self.low.size, set[int]()
        for middle in (size * np.arange(1, count) // count).tolist():
            near = self.low[max(middle - size // (4 * count), 0) : middle + size // (4 * count) + 1]
            edges = plan.edges.next_live(near, BEGIN)
            ends.add(int(edges[np.abs(edges.astype(np.float64) - self.low[middle]).argmin()]))
        return sorted(ends - {END})

    def between(self, since: int, until: int) -> list[pa.RecordBatch] | None:
        """The rows from a time on and before another, in their order. None if too many have to be chosen one by
        one."""
        held = np.flatnonzero((self.high >= since) & (self.low < until))
        if not held.size:
            return []
        begin, end = int(held[0]), int(held[-1]) + 1
        early, late = (np.flatnonzero(some[begin:end]) for some in (self.low < since, self.high >= until))
        first = begin + int(early[-1]) + 1 if early.size else begin
        last = begin + int(late[0]) if late.size else end
        if SHARED * (first - begin + end - last) > self.low.size or last < first:
            return None
        found = []
        for at, rows in self._parts(begin, end):
            found += self._own(at, rows, since, until, first, last)
        return found

    def _own(self, at: int, rows: slice, since: int, until: int, first: int, last: int) -> list[pa.RecordBatch]:
        """The rows of a batch that lie in a period. Those of the blocks ``first : last`` all do, and adjacent rows stay
        together: a push of its own for the rows next to them would cost a third of all."""
        batch, time = self.batches[at], self.times[at]
        begin, end = (int(np.clip((block - self.first[at]) * BLOCK, rows.start, rows.stop)) for block in (first, last))
        before, behind = (
            (some >= since) & (some < until) for some in (time[rows.start : begin], time[end : rows.stop])
        )
        begin -= int(before[::-1].argmin()) if not before.all() else before.size
        end += int(behind.argmin()) if not behind.all() else behind.size
        before, behind = before[: begin - rows.start], behind[behind.size - (rows.stop - end) :]
        parts = [
            taken(batch.slice(rows.start, before.size), np.flatnonzero(before)),
            batch.slice(begin, end - begin),
            taken(batch.slice(end, behind.size), np.flatnonzero(behind)),
        ]
        return [part for part in parts if len(part)]

    def _parts(self, begin: int, end: int) -> Iterator[tuple[int, slice]]:
        """The rows of these blocks, batch by batch."""
        for at, (a, b) in enumerate(pairwise(self.first.tolist())):
            low, high = max(begin, a) - a, min(end, b) - a
            if low < high:
                yield at, slice(low * BLOCK, min(high * BLOCK, len(self.batches[at])))


# --- pieces -----------------------------------------------------------------------------------------------------------


def _piece_by_piece(
    operator: Operator, held: Sequence[pa.RecordBatch], goes_on: Callable[[], bool], density: _Density
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
    times = [_times(plan, batch) for batch in held]
    begun = np.concatenate([NOWHERE, *(some[::rows] for some in times if some is not None)])
    over = plan.edges.next_live(begun[:-1], BEGIN) <= begun[1:]
    return bool(2 * np.count_nonzero(over) >= over.size)


def _pieces(plan: Plan, held: Sequence[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut the data into pieces of ``rows`` rows. If the end of a slice is near, a piece goes on to it: two pieces with
    rows of one slice would both have cells of its keys. 100 k keys, a million rows a slice: 27 -> 17 ns a row."""
    for batch in held:
        times = _times(plan, batch) if plan.keeps_slices else None
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


def _may_pay(operator: Operator, first: pa.RecordBatch, density: _Density) -> bool:
    """Whether it is worth looking at more than the first rows: rows have to be sorted, or there are many results."""
    plan = Plan.of(operator.spec, first.schema, policy=operator._policy)
    if not _gives_in_order(plan):
        return False
    if plan.keeps_rows:
        return _sorts_rows(plan, first)
    return _lists_are_windows(plan) or density.cells_a_row(FIRST_ROWS) * DENSE > 1


def _lists_are_windows(plan: Plan) -> bool:
    """Whether windows are lists of rows that no other window needs. Those of a piece stay in memory that is used again:
    10 M rows, medians by 1000 keys and seconds 364 -> 205 ms, half of it for memory that was touched once."""
    return plan.may_be_windows and not plan.all_words


class _Density:
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
    times = _times(plan, rows) if by_time and not (plan.spec.by or plan.keeps_rows or plan.edges.irregular) else None
    if times is None or not times.size:
        return None
    edges = plan.edges.listed(*_extremes(times, plan.policy.block), plan.grid, times.size)
    return None if edges is None else edges.size


def _gives_in_order(plan: Plan) -> bool:
    """Whether each window is emitted once, when the watermark passes its end, so that windows come in order of their
    ends."""
    if plan.fill or plan.full or plan.idle is not None or plan.spec.emit != "final" or plan.spec.trigger is not None:
        return False
    if plan.keeps_slices:
        return plan.cells.a_cell_a_key and not plan.keeps_rows
    return all(window.closes_at_end for window in plan.bound_rows.values())


def _sorts_rows(plan: Plan, first: pa.RecordBatch) -> bool:
    """Whether rows are kept that have to be sorted by key or by time. Other kept rows are read in place."""
    times = _times(plan, first)
    return bool(plan.spec.by) or (times is not None and bool((times[1:] < times[:-1]).any()))


def _times(plan: Plan, piece: pa.RecordBatch) -> Ints | None:
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
        times = _times(plan, piece)
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
