"""Windows that are due, without keys, as ranges of slices. The ranges of one type of windows move forward, so that
kernels over dense columns put them together (``kernels.ranges``), whatever the columns are of: cells or rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block, width
from slicing.closing.answers import Answers
from slicing.closing.numbers import Filled, Numbers
from slicing.closing.over_cells import moves
from slicing.closing.range_partials import RangePartials
from slicing.closing.spans import Known, Spans, Steady
from slicing.columns.arrow_out import room, steps
from slicing.columns.order import alike, all_alike, begins, stable_order
from slicing.kernels.windows import in_steps
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.windows.edges import DueWindows


class DueRanges(NamedTuple):
    """Windows of periodic types, by end and type."""

    type: Ints
    start: Ints
    end: Ints
    parts: list[tuple[Ints | None, Spans]]  # the places of the windows of a type (None: all), and their slices

    def answers(self, plan: Plan, over: Callable[[Spans], RangePartials]) -> Answers:
        """The windows with their partials. ``over``: those of ranges of slices."""
        parts = [(places, over(spans)) for places, spans in self.parts]
        blocks = parts[0][1] if len(parts) == 1 else ByType(parts)
        return Answers.of_types(plan, self[:3], None, alike(0, self.end.size), blocks)

    @staticmethod
    def of(due: DueWindows) -> DueRanges:
        if not due.type.size or (due.type[0] == due.type[-1] and all_alike(due.type)):
            return DueRanges(*due[:3], [(None, Known(due.low, due.high, True))])
        order = stable_order(due.type)
        bounds = np.append(begins(due.type.take(order)), order.size).tolist()
        places = [order[first:last] for first, last in pairwise(bounds)]
        return DueRanges(*due[:3], [(own, Known(due.low.take(own), due.high.take(own), True)) for own in places])


def due_ranges(plan: Plan, ends: Ints, after: int, until: int, places: int, times: int = 1) -> DueRanges | None:
    """The windows with ``after < end <= until`` that hold slices. Each slice ends at one of ``ends``, which ascend.
    None if there are none, or if they are too few to pay as ranges of so many cells or rows (``over_cells.moves``)."""
    if not moves(plan, places, plan.edges.most_due(ends, after, until), times):
        return None
    regular = in_steps_of(plan)
    if regular is not None and in_steps(ends, regular[1]):
        found = steps_between(*regular, int(ends[0]), ends.size, after, until)
    else:
        found = DueRanges.of(plan.edges.due(ends, after, until))
    return found if found.end.size and moves(plan, places, found.end.size, times) else None


def in_steps_of(plan: Plan) -> tuple[int, int] | None:
    """The size and the step of the only type of windows, if each edge of a window is also an edge of another one."""
    size, every, _ = plan.periodic
    return (size, every) if size > every and size % every == 0 and plan.edges.regular is not None else None


def steps_between(size: int, every: int, oldest: int, slices: int, after: int, until: int) -> DueRanges:
    """Windows in steps that are due. None of the slices is missing."""
    most = size // every
    first = max((after - oldest) // every + 1, 0)  # windows are numbered by their last slice
    last = min((until - oldest) // every, slices + most - 2)
    end, due = oldest + first * every, max(last + 1 - first, 0)
    spans = Steady(first + 1 - most, most, 1, due, slices)
    return DueRanges(alike(0, due), steps(end - size, due, every), steps(end, due, every), [(None, spans)])


def of_rows(spans: Spans, starts: Ints) -> Spans:
    """Ranges of slices as ranges of rows. ``starts``: the first row of each slice, and the number of rows."""
    each = int(starts[-1]) // max(starts.size - 1, 1)
    if isinstance(spans, Steady) and in_steps(starts, each):
        return Steady(spans.first * each, spans.rows * each, each, spans.size, spans.limit * each)
    first, last = spans.of(0, len(spans))
    return Known(starts.take(first), starts.take(last), True)


@dataclass(frozen=True)
class ByType:
    """Partials of windows of several types or keys: for each type the places of its windows, and their partials."""

    parts: Sequence[tuple[Ints | None, RangePartials]]

    def __len__(self) -> int:
        return sum(len(part) for _, part in self.parts)

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        whole, piece = self.whole(), self.parts[0][1].piece
        for at in range(0, len(self), piece):
            some = slice(at, min(at + piece, len(self)))
            yield some, tuple(block[some] for block in whole)

    def whole(self) -> tuple[Block, ...]:
        found = [np.empty((len(self), width(column.lane.kind)), np.int64) for column in self.parts[0][1].columns]
        for own, part in self.parts:
            for block, some in zip(found, part.whole(), strict=True):
                block[own] = some
        return tuple(found)

    def numbers(self, wanted: Numbers) -> list[Filled] | None:
        found = [room(len(self), number.type) for number in wanted.each]
        nulls = np.zeros((len(found), len(self)), np.bool_)
        for own, part in self.parts:
            numbers = part.numbers(wanted)
            if numbers is None:
                return None
            for column, null, some in zip(found, nulls, numbers, strict=True):
                column[own] = some.numbers
                if some.null is not None:
                    null[own] = some.null
        return list(map(Filled, found, nulls))
