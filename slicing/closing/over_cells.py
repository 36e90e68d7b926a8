"""Partials of ranges of cells of a table that has a cell a slice, or is in order of keys and slices: the words that are
read are dense columns, over which the ranges of a type of windows move forward. No combination is listed first.

500,000 minutes of which a tenth has no rows, windows of an hour at each minute: 97 -> 75 ns a window, 35 from rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from slicing.cells.blocks import Block, width
from slicing.cells.combining import AUTO
from slicing.cells.table import Cells
from slicing.closing.range_columns import DENSE, Column, RangeBounds, totals
from slicing.closing.range_partials import RangePartials
from slicing.closing.spans import Spans
from slicing.columns.values import TOP
from slicing.kernels import combine as kinds
from slicing.kernels.ranges import least_of, moments_of, sums_of
from slicing.query.plan import Plan
from slicing.system.arrays import Floats, Ints

RANGES = "ranges"  # the name of this way to answer
_ZERO = np.int64(0)


def can(plan: Plan) -> bool:
    """Whether windows are ranges of cells, which move forward for each type and key, and all lanes can be answered from
    dense columns."""
    ranges = plan.adds_up and plan.combine == AUTO and plan.policy.strategies is None
    return ranges and plan.edges.periodic and all(lane.kind in DENSE for lane in plan.lanes)


def moves(plan: Plan, places: int, windows: int, times: int = 1) -> bool:
    """Whether it pays to answer windows as ranges that move forward over so many cells or rows: each type of windows
    goes over all of them. ``times``: how many times as many windows that takes."""
    policy, types = plan.policy, len(plan.edges.bounds)
    if policy.way == RANGES:
        return can(plan)
    if types == 1:
        return windows >= times * policy.stepped and places <= policy.stepped_cells * windows and can(plan)
    times *= policy.stepped_several * types
    many = windows >= times * policy.stepped and places * types <= policy.stepped_types * windows
    return many and are_words(plan) and can(plan)


def are_words(plan: Plan) -> bool:
    """Whether all results are words of partials, which can be written once, in their places, or computed from such."""
    return all(agg.of_numbers for agg in plan.aggs.values())


def have_values(blocks: Sequence[Block]) -> bool:
    """Whether each of these cells has values in all lanes."""
    return all(isinstance(block, np.ndarray) and int(block[:, 0].min()) > 0 for block in blocks)


def over_cells(plan: Plan, runs: Sequence[Cells], spans: Spans) -> RangePartials:
    """Each lane's partials over ranges of the cells of adjacent runs."""
    lie = list(accumulate(map(len, runs), initial=0))
    columns = [
        _OfCells(lane, plan.partials.words_read[lane], [run.blocks[at] for run in runs], lie)
        for at, lane in enumerate(plan.lanes)
    ]
    return RangePartials(columns, spans, plan.policy.piece)


@dataclass(frozen=True)
class _OfCells(Column):
    """The partials of a lane in adjacent runs of cells: run r has the cells from ``lie[r]`` on."""

    blocks: Sequence[Block]
    lie: Sequence[int]
    read: dict[tuple[int, int, int], Ints] = field(default_factory=dict)  # the words of the ranges that were read last

    def word(self, at: int, ranges: RangeBounds) -> Ints:
        """One word of these cells, as one column."""
        bottom, top = ranges.bottom, ranges.top
        if (at, bottom, top) not in self.read:
            for other in [key for key in self.read if key[1:] != (bottom, top)]:
                del self.read[other]
            self.read[at, bottom, top] = self._column(at, bottom, top)
        return self.read[at, bottom, top]

    def _parts(self, at: int, bottom: int, top: int) -> list[Ints]:
        cells = zip(self.lie[:-1], self.lie[1:], self.blocks, strict=True)
        some = [(begin, block) for begin, end, block in cells if begin < top and bottom < end]
        return [block[max(bottom - begin, 0) : top - begin, at] for begin, block in some]

    def _column(self, at: int, bottom: int, top: int) -> Ints:
        parts = self._parts(at, bottom, top)
        column = np.concatenate(parts) if len(parts) > 1 else parts[0].copy()
        column.setflags(write=False)  # columns of rows are read-only too: kernels are compiled for one type only
        return column

    def always(self, ranges: RangeBounds) -> bool:
        parts = self._parts(0, ranges.bottom, ranges.top)
        return all(bool(part.min() > 0) for part in parts)

    def largest(self, ranges: RangeBounds) -> int:
        high = self.word(2, ranges) + (self.word(1, ranges) >> 32)  # the low half of many rows is more than a half
        return max(-int(high.min()), int(high.max()) + 1) << 32

    def counts(self, ranges: RangeBounds, out: Ints) -> None:
        totals(self.word(0, ranges), 0, -1, ranges, out)

    def sums_f(self, ranges: RangeBounds, block: Ints) -> None:
        if 1 in self.words:
            floats, lost, less = block.view(np.float64), *np.empty((2, len(block)))
            for word, total, rest in ((1, floats[:, 1], floats[:, 2]), (2, lost, less)):
                x = self.word(word, ranges).view(np.float64)
                sums_of(x, ranges.first, ranges.last, np.empty((2, x.size)), total, rest)
            floats[:, 2] += lost + less

    def sums_i(self, ranges: RangeBounds, block: Ints) -> None:
        for word in self.words & {1, 2}:  # the halves of sums, which fit in a word
            totals(self.word(word, ranges), 0, -1, ranges, block[:, word])

    def total(self, ranges: RangeBounds, out: Ints) -> None:
        totals((self.word(2, ranges) << 32) + self.word(1, ranges), 0, -1, ranges, out)

    def moments(self, ranges: RangeBounds, mean: Floats, squares: Floats) -> None:
        count, *groups = (self.word(word, ranges) for word in range(3))
        floats = [count.astype(np.float64), *(group.view(np.float64) for group in groups)]
        moments_of(*floats, ranges.first, ranges.last, np.empty((3, count.size)), mean, squares)

    def extreme(self, word: int, ranges: RangeBounds, out: Ints, as_numbers: bool) -> None:
        flip = ~_ZERO if word == width(self.lane.kind) - 1 else _ZERO
        fold = TOP if as_numbers and self.lane.kind == kinds.BASIC_F else _ZERO
        x = self.word(word, ranges)
        least_of(x, _ZERO, flip, fold, *ranges.both, ranges.in_order, np.empty(x.size, np.int64), out)
