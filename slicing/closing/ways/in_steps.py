"""Sliding windows without keys if no slice is missing: each window is a fixed number of cells, one cell later than the
window before it.

Nothing is merged, searched or listed first. The words of partials that are read are dense columns, and windows are
ranges of them that move in steps (``kernels.ranges``). A window for each slice of 1024 slices: 147 -> 6 ns each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from slicing.cells.blocks import Block, width
from slicing.cells.combining import AUTO
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.spans import DENSE, Column, RangeBounds, RangePartials, Sliding, totals
from slicing.closing.ways.interface import Closing, Offer, Way
from slicing.columns.order import alike
from slicing.columns.values import TOP
from slicing.kernels import combine as kinds
from slicing.kernels.cells import END
from slicing.kernels.ranges import least_of, moments_of, sums_of
from slicing.kernels.windows import in_steps
from slicing.query.plan import Plan
from slicing.system.arrays import Floats, Ints

_ZERO = np.int64(0)


def can(plan: Plan) -> bool:
    """Whether there is one type of windows, and each edge of a window is also an edge of another window."""
    edges = plan.edges
    if not (plan.adds_up and plan.combine == AUTO and plan.a_cell_a_slice):
        return False
    if len(edges.bounds) != 1 or plan.types_of.size != 1 or edges.bounds[0].periodic is None:
        return False
    size, every, _ = edges.bounds[0].periodic
    regular = size > every and size % every == 0 and edges.regular_width(0) is not None
    return regular and all(lane.kind in DENSE for lane in plan.lanes)


def offer(closing: Closing) -> Offer | None:
    plan, policy, bound = closing.plan, closing.plan.policy, closing.plan.edges.bounds[0]
    assert bound.periodic is not None
    size, every, _ = bound.periodic
    runs = _needed(closing.runs, closing, size)
    if not runs:
        return None
    most, oldest = size // every, min(int(run.meta[0, END]) for run in runs)
    slices = (max(int(run.meta[-1, END]) for run in runs) - oldest) // every + 1
    first = max((closing.after - oldest) // every + 1, 0)  # windows are numbered by their last slice
    last = min((closing.until - oldest) // every, slices + most - 2)
    windows = last - first + 1
    few = windows < policy.stepped or most > policy.stepped_cells * windows or policy.strategies is not None
    if windows < 1 or (few and policy.way != WAY.name) or sum(map(len, runs)) < slices:
        return None
    if any(int(b.meta[0, END]) - int(a.meta[-1, END]) != every for a, b in pairwise(runs)):
        runs = _needed([closing.table()], closing, size)
    if sum(map(len, runs)) != slices or not all(in_steps(run.slice_ends, every) for run in runs):
        return None

    def answers() -> Answers:
        lie = np.array([0, *map(len, runs)]).cumsum().tolist()
        columns = []
        for at, lane in enumerate(plan.lanes):
            columns.append(_OfCells(lane, plan.partials.words_read[lane], [run.blocks[at] for run in runs], lie))
        end = np.arange(oldest + first * every, oldest + (last + 1) * every, every)
        blocks = RangePartials(columns, Sliding(most, slices, first + 1, windows), plan.policy.piece)
        number, code = alike(int(plan.numbered(np.zeros(1, np.int64))[0]), windows), alike(0, windows)
        return Answers(number, end - size, end, code, blocks, True)

    return Offer(windows + most, answers)


WAY = Way("in steps", can, offer)


def _needed(runs: Sequence[Cells], closing: Closing, size: int) -> list[Cells]:
    """The cells that due windows may hold."""
    some = (run.ending(closing.after - size, closing.until) for run in runs)
    return [cells for cells in some if len(cells)]


@dataclass(frozen=True)
class _OfCells(Column):
    """The partials of a lane in adjacent runs of cells: run r has the cells from ``lie[r]`` on."""

    blocks: Sequence[Block]
    lie: Sequence[int]
    read: dict[tuple[int, int, int], Ints] = field(default_factory=dict)  # the words of the ranges that were read last

    def word(self, at: int, ranges: RangeBounds) -> Ints:
        """One word of these cells, as one column."""
        bottom, top = int(ranges.bottom), int(ranges.top)
        if (at, bottom, top) not in self.read:
            for other in [key for key in self.read if key[1:] != (bottom, top)]:
                del self.read[other]
            self.read[at, bottom, top] = self._column(at, bottom, top)
        return self.read[at, bottom, top]

    def _column(self, at: int, bottom: int, top: int) -> Ints:
        parts = []
        for begin, end, block in zip(self.lie[:-1], self.lie[1:], self.blocks, strict=True):
            if begin < top and bottom < end:
                parts.append(block[max(bottom - begin, 0) : top - begin, at])
        column = np.concatenate(parts) if len(parts) > 1 else parts[0].copy()
        column.setflags(write=False)  # columns of rows are read-only too: kernels are compiled for one type only
        return column

    def always(self, ranges: RangeBounds) -> bool:
        return bool(self.word(0, ranges).min() > 0)

    def largest(self, ranges: RangeBounds) -> int:
        high = self.word(2, ranges) + (self.word(1, ranges) >> 32)  # the low half of many rows is more than a half
        return max(-int(high.min()), int(high.max()) + 1) << 32

    def counts(self, ranges: RangeBounds, out: Ints) -> None:
        totals(self.word(0, ranges), 0, -1, ranges, out)

    def sums_f(self, ranges: RangeBounds, block: Ints) -> None:
        if 1 in self.words:
            floats, lost, less = block.view(np.float64), *np.empty((2, len(block)))
            bottom, _, first, last, *_ = ranges
            for word, total, rest in ((1, floats[:, 1], floats[:, 2]), (2, lost, less)):
                x = self.word(word, ranges).view(np.float64)
                sums_of(x, bottom, first, last, np.empty((2, x.size)), total, rest)
            floats[:, 2] += lost + less

    def sums_i(self, ranges: RangeBounds, block: Ints) -> None:
        for word in self.words & {1, 2}:  # the halves of sums, which fit in a word
            totals(self.word(word, ranges), 0, -1, ranges, block[:, word])

    def total(self, ranges: RangeBounds, out: Ints) -> None:
        totals((self.word(2, ranges) << 32) + self.word(1, ranges), 0, -1, ranges, out)

    def moments(self, ranges: RangeBounds, mean: Floats, squares: Floats) -> None:
        count, *groups = (self.word(word, ranges) for word in range(3))
        floats = [count.astype(np.float64), *(group.view(np.float64) for group in groups)]
        bottom, _, first, last, *_ = ranges
        moments_of(*floats, bottom, first, last, np.empty((3, count.size)), mean, squares)

    def extreme(self, word: int, ranges: RangeBounds, out: Ints, as_numbers: bool) -> None:
        bottom, _, *found, _ = ranges
        flip = ~_ZERO if word == width(self.lane.kind) - 1 else _ZERO
        fold = TOP if as_numbers and self.lane.kind == kinds.BASIC_F else _ZERO
        x = self.word(word, ranges)
        least_of(x, _ZERO, flip, fold, bottom, *found, np.empty(x.size, np.int64), out)
