"""Partials of ranges of rows, straight from columns. Rows are cut where a range begins or ends, as a stream is cut.

If cells then have at least a few rows, each cell is reduced once and ranges are combined from cells. Windows that begin
or end at nearly every row (one window per row, say) are answered from the columns themselves, for partials of integers
and floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicing.cells.blocks import Block, width
from slicing.cells.combining import AUTO
from slicing.cells.lanes import Feed, Lane
from slicing.closing.emit import answered
from slicing.closing.range_columns import DENSE, EDGES, SUMS_I, Column, RangeBounds, divided, totals
from slicing.closing.range_partials import FLOAT64, RangePartials
from slicing.closing.spans import Spans, Steady
from slicing.columns.bits import buffer
from slicing.columns.order import distinct
from slicing.columns.values import TOP
from slicing.kernels import combine as kinds
from slicing.kernels.ranges import (
    counts_before,
    floats_of_keys,
    least_of,
    moments_at_each,
    moments_of,
    nearest_valid,
    numbers_at_each,
    numbers_of,
    running,
    sums_of,
)
from slicing.query.plan import Plan
from slicing.reducing.batch import ALL_VALID, Rows
from slicing.reducing.lift import takes_any_ranges, tells_edges, tells_first
from slicing.reducing.reduce import range_partials
from slicing.system.arrays import Bytes, Floats, Ints, Mask
from slicing.system.lazy import lazy

FEWEST = 4  # with fewer rows a window on average, cells do not pay
SPARSE = 64  # with more rows a window, positions are sorted, which is cheaper than to mark them among all rows
_ZERO = np.int64(0)


def over_rows(plan: Plan, rows: Rows, spans: Spans, fewest: int = FEWEST) -> tuple[Block, ...] | RangePartials:
    """Each lane's partials over ranges of these rows. ``fewest``: with fewer rows a range on average, cells do not
    pay."""
    many = fewest * len(spans) > len(rows)
    dense = [
        lane
        for lane in plan.lanes
        if tells_edges(plan, lane) or tells_first(plan, lane) or (many and lane.kind in DENSE)
    ]
    dense = dense if plan.combine == AUTO else []
    partials = of_columns(plan, rows, dense, spans)
    if len(dense) == len(plan.lanes):
        return partials
    others = [lane for lane in plan.lanes if lane not in dense]
    begin, end = spans.of(0, len(spans))
    if isinstance(spans, Steady) and spans.cuts_all and spans.limit == len(rows):
        each = np.arange(len(rows) + 1)
        made = answered(plan, others, range_partials(rows, each[:-1], each[1:], others), begin, end)
    else:
        made = from_cells(plan, others, rows, begin, end)
    found = dict(zip(others, made, strict=True))
    found |= zip(dense, partials.whole(), strict=True)
    return tuple(found[lane] for lane in plan.lanes)


def of_columns(plan: Plan, rows: Rows, lanes: Sequence[Lane], spans: Spans) -> RangePartials:
    """The partials of ``DENSE`` lanes over ranges of these rows."""
    return RangePartials([_OfRows.of(plan, rows, lane) for lane in lanes], spans, plan.policy.piece)


def from_cells(plan: Plan, lanes: list[Lane], rows: Rows, first: Ints, last: Ints) -> tuple[Block, ...]:
    """Partials of ranges, combined from cells that are cut where any range begins or ends."""
    bottom, top = int(first.min()), int(last.max())
    if top - bottom < len(rows):
        rows, first, last = rows.part(slice(bottom, top)), first - bottom, last - bottom
    cuts, first, last = _cuts(first, last, len(rows))
    begin, end = cuts[:-1], cuts[1:]
    seen = None if _adjoin(first, last) else _seen(first, last, cuts.size)
    if seen is not None and 2 * (end - begin)[seen].sum() < len(rows):  # leave out rows between windows
        number, begin, end = np.append(0, np.cumsum(seen)), begin[seen], end[seen]
        first, last = number[first], number[last]
        if not takes_any_ranges(plan, lanes):
            left = np.append(0, np.cumsum(end - begin))
            rows = rows.take(np.repeat(begin - left[:-1], end - begin) + np.arange(left[-1]))
            begin, end = left[:-1], left[1:]
    return answered(plan, lanes, range_partials(rows, begin, end, lanes), first, last)


def _adjoin(first: Ints, last: Ints) -> bool:
    """Whether each range overlaps or meets the one before it, so that no row lies between ranges."""
    return bool((first[1:] <= last[:-1]).all() and (last[1:] >= first[:-1]).all())


def _seen(first: Ints, last: Ints, cuts: int) -> Mask:
    """Which rows between two cuts are in any range."""
    depth = np.bincount(first, minlength=cuts) - np.bincount(last, minlength=cuts)
    seen: Mask = np.cumsum(depth)[:-1] > 0
    return seen


def _magnitude(x: Ints) -> int:
    return max(-int(x.min()), int(x.max()))


def _cuts(first: Ints, last: Ints, rows: int) -> tuple[Ints, Ints, Ints]:
    """The positions at which any range begins or ends, and the ranges between these."""
    if SPARSE * first.size < rows:
        cuts = distinct(np.concatenate((first, last)))
        return cuts, np.searchsorted(cuts, first), np.searchsorted(cuts, last)
    is_cut = np.zeros(rows + 1, np.bool_)
    is_cut[first], is_cut[last] = True, True
    if is_cut.all():
        return np.arange(rows + 1), first, last
    number = np.cumsum(is_cut) - 1
    return is_cut.nonzero()[0], number.take(first), number.take(last)


@dataclass(frozen=True)
class _OfRows(Column):
    """A column of rows: its values, and which of them count."""

    rows: Rows
    feed: Feed | None  # None: the lane counts rows
    valid: Bytes
    piece: dict[tuple[int, int], Any] = field(default_factory=dict)  # the piece that was read last
    counts_of: dict[tuple[int, int], Ints] = field(default_factory=dict)  # how many rows count before each, likewise

    @staticmethod
    def of(plan: Plan, rows: Rows, lane: Lane) -> _OfRows:
        feed = lane.feeds[0] if lane.feeds and lane.feeds[0].form != "valid" else None
        valid = rows.valid(lane.feeds[0].column if lane.feeds else None, lane.flag)
        if lane.kind == kinds.ARG:
            feed = lane.feeds[1]  # what is returned: the first row is the one that is chosen
        return _OfRows(lane, plan.partials.words_read[lane], rows, feed, valid)

    @property
    def copies(self) -> bool:
        return self.valid is ALL_VALID and (self.lane.kind in EDGES or self.lane.kind == kinds.ARG)

    @lazy
    def whole(self) -> Any:
        """All values, as kernels take them. None: columns to be widened are read piece by piece."""
        piecewise = self.feed is None or self.lane in self.rows.plan.partials.widened
        return None if self.feed is None or piecewise else self.rows.feed(self.feed)

    def values(self, ranges: RangeBounds) -> Any:
        """The values of the rows that the ranges span."""
        bottom, top = ranges.bottom, ranges.top
        if self.whole is not None:
            return self.whole[bottom:top]
        assert self.feed is not None
        if (bottom, top) not in self.piece:
            self.piece.clear()
            self.piece[bottom, top] = self.rows.feed(self.feed, slice(bottom, top))
        return self.piece[bottom, top]

    def held(self, ranges: RangeBounds) -> Any:
        """The values of the rows that the ranges span; 0 where a row does not count."""
        x, valid = self.values(ranges), self.valid[ranges.bottom : ranges.top]
        return np.where(valid, x, x.dtype.type(0)) if valid.size else x

    def always(self, ranges: RangeBounds) -> bool:
        return self.valid is ALL_VALID

    def largest(self, ranges: RangeBounds) -> int:
        return _magnitude(self.held(ranges))

    def all_fit(self, word: int) -> bool:
        if word not in (kinds.TOTAL, kinds.MEAN) or self.lane.kind not in SUMS_I:
            return True
        most = 1 << 32 if self.whole is None else _magnitude(self.whole)  # narrower numbers are widened in pieces
        return most * len(self.rows) < 1 << 63

    def counts(self, ranges: RangeBounds, out: Ints) -> None:
        if self.valid is not ALL_VALID:
            before, first = self.counts_before(ranges), np.empty(ranges.size, np.int64)
            ranges.at_first(before, first)
            ranges.at_last(before[1:], out)
            np.subtract(out, first, out=out)
        elif 0 in self.words:
            np.subtract(ranges.last, ranges.first, out=out)
        else:
            out[:] = 1  # nobody reads the count, but each range has a value

    def counts_before(self, ranges: RangeBounds) -> Ints:
        """How many rows count before each of those that the ranges span, and before their end."""
        bottom, top = ranges.bottom, ranges.top
        if (bottom, top) not in self.counts_of:
            self.counts_of.clear()
            self.counts_of[bottom, top] = np.empty(top - bottom + 1, np.int64)
            counts_before(self.valid[bottom:top], self.counts_of[bottom, top])
        return self.counts_of[bottom, top]

    def sums_f(self, ranges: RangeBounds, block: Ints) -> None:
        if 1 in self.words:
            held, floats = self.held(ranges), block.view(np.float64)
            sums_of(held, ranges.first, ranges.last, np.empty((2, held.size)), floats[:, 1], floats[:, 2])

    def float_number(self, ranges: RangeBounds, mean: bool, out: Floats) -> None:
        x, nulls = self.held(ranges), self.valid is not ALL_VALID
        at_once = mean and not nulls
        if ranges.grows is not None:
            running(x, *map(np.int64, ranges.grows), at_once, out)
        elif ranges.step == 1:
            rows = ranges.last[0] - ranges.first[0]
            numbers_at_each(x, rows, np.empty((4, rows)), at_once, out)
        else:
            numbers_of(x, ranges.first, ranges.last, np.empty((2, x.size)), at_once, out)
        if mean and nulls:
            divided(out, self.counted(ranges), out)

    def sums_i(self, ranges: RangeBounds, block: Ints) -> None:
        if 1 in self.words:
            held = self.held(ranges)
            totals(held, 0, 0xFFFFFFFF, ranges, block[:, 1])  # halves, whose sums fit
            totals(held, 32, -1, ranges, block[:, 2])

    def total(self, ranges: RangeBounds, out: Ints) -> None:
        held = self.held(ranges)
        if ranges.grows == (1, 1) and held.size == out.size:
            np.cumsum(held, out=out)
        else:
            totals(held, 0, -1, ranges, out)

    def moments(self, ranges: RangeBounds, mean: Floats, squares: Floats) -> None:
        x, count = self.values(ranges), self.valid[ranges.bottom : ranges.top].astype(np.float64)
        with np.errstate(invalid="ignore"):  # of an infinity it is NaN, as it should be
            rest = x - x if count.size else count
        moments_of(count, x, rest, ranges.first, ranges.last, np.empty((3, x.size)), mean, squares)

    def squares(self, ranges: RangeBounds) -> Floats:
        if ranges.step != 1 or self.valid is not ALL_VALID:
            return super().squares(ranges)
        rows, squares = ranges.last[0] - ranges.first[0], np.empty(ranges.size)
        moments_at_each(self.values(ranges), rows, np.empty((4, rows)), squares)
        return squares

    def edge(self, ranges: RangeBounds, out: Ints, as_float: bool = False) -> None:
        backwards, floats = self.lane.kind == kinds.LAST, self.floats if as_float else None
        x = self.values(ranges) if floats is None else floats[ranges.bottom : ranges.top]
        at_edge = ranges.at_last if backwards else ranges.at_first
        if self.valid is ALL_VALID:
            at_edge(x, out)
        else:
            nearest, at = np.empty(x.size, np.int64), np.empty(ranges.size, np.int64)
            nearest_valid(self.valid[ranges.bottom : ranges.top], backwards, nearest)
            at_edge(nearest, at)
            x.take(at, out=out, mode="clip")
        if as_float and floats is None:
            floats_of_keys(out, out)

    @property
    def floats(self) -> Ints | None:
        """The bits of a column of floats. None if it is stored in another way."""
        assert self.feed is not None
        column = self.rows.columns[self.feed.column]
        return buffer(column, np.dtype(np.int64)) if column.type == FLOAT64 else None

    def returns(self, ranges: RangeBounds) -> Bytes | None:
        assert self.feed is not None
        valid = self.rows.valid(self.feed.column, None)
        if valid is ALL_VALID:
            return None
        found = np.empty(ranges.size, np.uint8)
        ranges.at_first(valid[ranges.bottom : ranges.top], found)
        return found

    def extreme(self, word: int, ranges: RangeBounds, out: Ints, as_numbers: bool) -> None:
        bottom, top = ranges.bottom, ranges.top
        most, floats = word == width(self.lane.kind) - 1, self.lane.kind == kinds.BASIC_F
        fold, flip = TOP if floats else _ZERO, ~_ZERO if most else _ZERO
        x = self.values(ranges).view(np.int64)
        if self.valid is not ALL_VALID:
            x = np.where(self.valid[bottom:top], x, TOP if floats else TOP ^ flip)  # NaN, or the value that sorts last
            x.setflags(write=False)  # columns are read-only too: the kernel is compiled for one type only
        unfold, room = fold if as_numbers else _ZERO, np.empty(x.size, np.int64)
        least_of(x, fold, flip, unfold, *ranges.both, ranges.in_order, room, out)
