"""Rows that are all in memory, in order of time or nearly: several threads answer a period each, from end to end.

A period is the windows that end after one time and up to another. Its rows are those from the first start of these
windows up to the end of the period: where windows overlap, periods share rows. The order of the rows is looked at in
blocks: of most blocks a period has all rows or none, and from the blocks about its ends it takes the rows that are its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import one_piece
from slicing.columns.taking import taken
from slicing.kernels.slice import scan
from slicing.operator import Operator
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.system.threads import side_by_side
from slicing.tables.pieces import FEW_ROWS, Density, gives_in_order, in_pieces, times_of
from slicing.windows.bounds import BEGIN, END
from slicing.windows.builtin import ContextFreeWindow, Window

BLOCK = 4096  # rows whose earliest and latest time tell which periods they are in
TOGETHER = 64  # blocks that a thread looks at in one call
SHARED = 8  # at most one row in so many is in two periods, or in a block whose rows have to be chosen
MANY_THREADS = 4  # so many wait longer for the one that merges what they share
PROBED = 1 << 17  # rows whose cells are counted
APPROXIMATE = {"approx_quantile", "heavy_hitters", "sample"}  # how the rows are cut may change them a little


@dataclass(frozen=True)
class Period:
    """Windows that end after a time and up to another, and the rows that they may hold."""

    after: int
    until: int
    rows: list[pa.RecordBatch]

    def of(self, plan: Plan, windows: pa.Table) -> pa.Table:
        """Its own windows among those of its rows, which are in order of their ends."""
        ends = plan.measure.words(one_piece(windows["window_end"]))
        first, last = np.searchsorted(ends, [self.after, self.until], "right").tolist()
        return windows.slice(first, last - first)


def of_periods(plan: Plan, periods: list[Period], operator: Callable[[], Operator]) -> list[pa.Table]:
    """The windows of each period, one thread a period. If one fails, the others end early."""
    failed: list[Period] = []

    def windows(period: Period) -> pa.Table:
        try:
            alone = operator()
            density = Density(alone, max(period.rows, key=len))
            return period.of(plan, in_pieces(alone, period.rows, lambda: not failed, density))
        except BaseException:
            failed.append(period)
            raise

    return side_by_side(windows, periods)


def periods_of(plan: Plan, held: Sequence[pa.RecordBatch], density: Density) -> list[Period]:
    """A period for each thread. No periods if the windows depend on more than the rows between two times, or if they do
    not pay: if few threads share few cells (then they share the rows of each push), or if many rows would be in two
    periods."""
    total = sum(map(len, held))
    count = min(plan.policy.threads, total // plan.policy.period_rows)
    if count < 2 or not _are_apart(plan):
        return []
    many = plan.spec.by and count >= MANY_THREADS
    if not many and plan.all_words and density.cells_a_row(PROBED) * FEW_ROWS <= 1:
        return []
    times = [times_of(plan, batch) for batch in held]
    known = [some for some, batch in zip(times, held, strict=True) if some is not None and some.size == len(batch)]
    if len(known) < len(held):
        return []
    blocks, found = _Blocks.of(plan, held, known), list[Period]()
    for after, until in pairwise([BEGIN, *blocks.ends(plan, count), END]):
        since = BEGIN if after == BEGIN else min(bound.first_live_start(after) for bound in plan.edges.bounds)
        own = blocks.between(since, until)
        if own is None:
            return []
        if own:
            found.append(Period(after, until, own))
    sizes = [sum(map(len, period.rows)) for period in found]
    shared = SHARED * (sum(sizes) - total) > total
    return [] if shared or 2 * max(sizes) * count > 3 * total else found


def _are_apart(plan: Plan) -> bool:
    """Whether the windows that end between two times depend only on the rows between two times."""
    spec, windows = plan.spec, plan.spec.windows.values()
    apart = all(isinstance(window, ContextFreeWindow) and isinstance(window, Window) for window in windows)
    if not apart or spec.op is not None or plan.keeps_rows or not gives_in_order(plan):
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
