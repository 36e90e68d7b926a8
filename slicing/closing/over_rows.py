"""Ranges of rows as partials, straight from columns: rows are cut where a range begins or ends, as a stream is.

Where that leaves cells of a few rows at least, each is reduced once and ranges are combined from cells. Windows that
begin or end at nearly every row (one for each row, say) are answered from the columns themselves, for the partials
that integers and floats have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slicing.cells.blocks import Block, together, width
from slicing.cells.combining import AUTO
from slicing.cells.lanes import Lane
from slicing.closing.emit import answered
from slicing.columns.arrow_out import room
from slicing.columns.values import TOP
from slicing.kernels import combine as kinds
from slicing.kernels.ranges import least_of, sums_of, totals_of
from slicing.kernels.rows import recent
from slicing.query.plan import Plan
from slicing.reducing.batch import ALL_VALID, Rows
from slicing.reducing.reduce import lift_ranges

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FEWEST = 4  # rows a window on average, or cells are not worth it
_ZERO = np.int64(0)
PIECE = 1 << 16  # windows whose ranges and partials, with the rows they are made of, stay in cache


class Spans(Protocol):
    """Ranges of sorted rows, none of them empty."""

    @property
    def in_order(self) -> bool:
        """Whether each begins and ends where the one before it does, or later."""

    @property
    def step(self) -> int:
        """How many rows later each begins and ends than the one before it; 0: any number."""

    def __len__(self) -> int: ...

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        """The first row of some of them, and the one that they end before."""


@dataclass(frozen=True)
class Known:
    """Ranges that were looked for beforehand."""

    first: Ints
    last: Ints
    in_order: bool
    step = 0

    def __len__(self) -> int:
        return self.first.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        return self.first[at:end], self.last[at:end]


@dataclass(frozen=True)
class Steady:
    """Ranges of ``rows`` rows, each ``step`` rows after the one before it."""

    first: int
    rows: int
    step: int
    size: int
    in_order = True

    def __len__(self) -> int:
        return self.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        first = np.arange(self.first + at * self.step, self.first + end * self.step, self.step)
        return first, first + self.rows


@dataclass(frozen=True)
class Recent:
    """For each row from ``begin`` on the rows of the last ``reach``, looked for when they are asked for: 16 bytes a row
    that are never in memory. ``start``: the times of their first rows, there from then on."""

    time: Ints
    reach: int
    begin: int
    start: Ints
    in_order = True
    step = 0

    def __len__(self) -> int:
        return self.start.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        first, last = np.empty((2, end - at), np.int64)
        bounds = np.array([0, self.time.size])
        recent(bounds, self.time, np.int64(self.reach), np.int64(self.begin + at), first, last, self.start[at:end])
        return first, last


def over_rows(plan: Plan, rows: Rows, spans: Spans, fewest: int = FEWEST) -> tuple[Block, ...] | Ranges:
    """Each lane's partials over ranges of these rows; ``fewest``: of them, on average, or cells are not worth it."""
    few = fewest * len(spans) <= len(rows) or plan.combine != AUTO
    dense = [] if few else [lane for lane in plan.lanes if lane.kind in _FILL]
    ranges = Ranges([_Column.of(plan, rows, lane) for lane in dense], spans)
    if len(dense) == len(plan.lanes):
        return ranges
    others = [lane for lane in plan.lanes if lane not in dense]
    found = dict(zip(others, _from_cells(plan, others, rows, *spans.of(0, len(spans))), strict=True))
    found |= zip(dense, ranges.whole(), strict=True)
    return tuple(found[lane] for lane in plan.lanes)


def _from_cells(plan: Plan, lanes: list[Lane], rows: Rows, first: Ints, last: Ints) -> tuple[Block, ...]:
    bottom, top = int(first.min()), int(last.max())
    rows, first, last = rows.part(slice(bottom, top)), first - bottom, last - bottom
    is_cut = np.zeros(len(rows) + 1, np.bool_)
    is_cut[first], is_cut[last] = True, True
    cuts = np.flatnonzero(is_cut)
    first, last, sizes = np.searchsorted(cuts, first), np.searchsorted(cuts, last), np.diff(cuts)
    depth = np.bincount(first, minlength=cuts.size) - np.bincount(last, minlength=cuts.size)
    seen = np.cumsum(depth)[:-1] > 0
    if 2 * sizes[seen].sum() < len(rows):  # what lies between windows is left out
        begin, left, number = cuts[:-1][seen], np.append(0, np.cumsum(sizes[seen])), np.append(0, np.cumsum(seen))
        rows = rows.take(np.repeat(begin - left[:-1], sizes[seen]) + np.arange(left[-1]))
        first, last, cuts = number[first], number[last], left
    cells = lift_ranges(rows, cuts[:-1], cuts[1:], lanes)
    return answered(plan, lanes, cells.blocks, first, last)


@dataclass(frozen=True)
class Ranges:
    """Partials that are made when they are read, some windows at a time: all of them are never in memory."""

    columns: Sequence[_Column]
    spans: Spans

    def __len__(self) -> int:
        return len(self.spans)

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        for piece, ranges in self._pieces():
            yield piece, tuple(column.partials(ranges) for column in self.columns)

    def numbers(self, asked: Sequence[tuple[int, int, np.dtype[Any]]]) -> list[npt.NDArray[Any]] | None:
        """Words of columns, each a column of answers that is written once, where it is to lie (floats are no keys any
        more); None where a range may have no value."""
        if any(self.columns[at].valid is not ALL_VALID for at, _, _ in asked):
            return None
        found = [room(len(self), type) for _, _, type in asked]
        for piece, ranges in self._pieces():
            for (at, word, type), out in zip(asked, found, strict=True):
                into = out[piece] if type.itemsize == 8 else np.empty(ranges.first.size, np.int64)
                self.columns[at].number(word, ranges, into)
                if type.itemsize < 8:
                    out[piece] = into
        return found

    def _pieces(self) -> Iterator[tuple[slice, _Of]]:
        at, size = 0, PIECE
        while at < len(self):
            end = min(at + size, len(self))
            first, last = self.spans.of(at, end)
            bottom, top = (first[0], last[-1]) if self.spans.in_order else (first.min(), last.max())
            yield slice(at, end), _Of(bottom, top, first, last, self.spans.in_order, self.spans.step)
            at, size = end, max(PIECE, int(last[-1] - first[-1]))  # not many fewer than have rows in common

    def whole(self) -> tuple[Block, ...]:
        return tuple(together(blocks) for blocks in zip(*(blocks for _, blocks in self.pieces()), strict=True))


@dataclass(frozen=True)
class _Column:
    """A lane's column: its values, which of them count, and the words of its partials that are read."""

    lane: Lane
    x: Any
    valid: Bytes
    words: frozenset[int]

    @staticmethod
    def of(plan: Plan, rows: Rows, lane: Lane) -> _Column:
        feed = lane.feeds[0] if lane.feeds else None
        x = rows.time if feed is None or feed.form == "valid" else rows.feed(feed)
        valid = rows.valid(None if feed is None else feed.column, lane.flag)
        return _Column(lane, x, valid, plan.words_read(lane))

    def partials(self, ranges: _Of) -> Ints:
        """Word by word; what nobody reads is left as it is."""
        block = np.empty((width(self.lane.kind), ranges.first.size), np.int64)
        if self.valid is not ALL_VALID:
            block[0] = _differences(self.valid[ranges.bottom : ranges.top].astype(np.int64), ranges)
        elif 0 in self.words:
            np.subtract(ranges.last, ranges.first, out=block[0])
        else:
            block[0] = 1  # at least
        _FILL[self.lane.kind](self, ranges, block.T)
        return block.T

    def number(self, word: int, ranges: _Of, out: Ints) -> None:
        """An answer that is a word (``BoundAggregate.number``)."""
        if word == 0:
            np.subtract(ranges.last, ranges.first, out=out)
        elif word in (kinds.TOTAL, kinds.MEAN):
            _totals(self.x[ranges.bottom : ranges.top], 0, -1, ranges, out)
            if word == kinds.MEAN:
                np.divide(out, ranges.last - ranges.first, out=out.view(np.float64))
        else:
            _extreme(self, word, ranges, out, True)

    def held(self, ranges: _Of) -> Any:
        """The values of these rows; 0 where there is none."""
        x, valid = (column[ranges.bottom : ranges.top] for column in (self.x, self.valid))
        return np.where(valid, x, x.dtype.type(0)) if valid.size else x


class _Of(NamedTuple):
    """Where ranges of the rows ``bottom : top`` begin and end."""

    bottom: np.int64
    top: np.int64
    first: Ints
    last: Ints
    in_order: bool
    step: int


def _counts(column: _Column, ranges: _Of, block: Ints) -> None:
    """They are there."""


def _extremes(column: _Column, ranges: _Of, block: Ints) -> None:
    """The last two words of a block."""
    for word in column.words & {block.shape[1] - 2, block.shape[1] - 1}:
        _extreme(column, word, ranges, block[:, word], False)


def _extreme(column: _Column, word: int, ranges: _Of, out: Ints, as_numbers: bool) -> None:
    """The last word of a block, the most, or the one before it, the least; floats ``as_numbers`` or as their keys."""
    bottom, top, *found, _ = ranges
    most, floats = word == width(column.lane.kind) - 1, column.lane.kind == kinds.BASIC_F
    fold, flip = TOP if floats else _ZERO, ~_ZERO if most else _ZERO
    x = column.x[bottom:top].view(np.int64)
    if column.valid is not ALL_VALID:
        x = np.where(column.valid[bottom:top], x, TOP if floats else TOP ^ flip)  # NaN, or what is last
        x.setflags(write=False)  # as columns are: the kernel is compiled once
    least_of(x, fold, flip, fold if as_numbers else _ZERO, bottom, *found, np.empty(x.size, np.int64), out)


def _basic_i(column: _Column, ranges: _Of, block: Ints) -> None:
    if 1 in column.words:
        held = column.held(ranges)
        _totals(held, 0, 0xFFFFFFFF, ranges, block[:, 1])  # of halves, which fit
        _totals(held, 32, -1, ranges, block[:, 2])
    _extremes(column, ranges, block)


def _basic_f(column: _Column, ranges: _Of, block: Ints) -> None:
    if 1 in column.words:
        held, floats = column.held(ranges), block.view(np.float64)
        bottom, _, first, last, *_ = ranges
        sums_of(held, bottom, first, last, np.empty((2, held.size)), floats[:, 1], floats[:, 2])
    _extremes(column, ranges, block)


_FILL: dict[object, Callable[[_Column, _Of, Ints], None]] = {
    kinds.COUNT: _counts,
    kinds.BASIC_F: _basic_f,
    kinds.BASIC_I: _basic_i,
    kinds.EXTREMES: _extremes,
}


def _totals(x: Ints, shift: int, mask: int, ranges: _Of, out: Ints) -> None:
    """Sums of ranges of ``x >> shift & mask``, modulo 2**64."""
    if ranges.in_order:
        x.setflags(write=False)  # as columns are: the kernel is compiled once
        totals_of(x, np.int64(shift), np.int64(mask), *ranges[:1], *ranges[2:4], np.int64(ranges.step), out)
    else:
        out[:] = _differences((x >> shift) & mask, ranges)


def _differences(x: Ints, ranges: _Of) -> Ints:
    """Sums of ranges in any order, modulo 2**64."""
    sums, (bottom, _, first, last, *_) = np.append(0, np.cumsum(x)), ranges
    difference: Ints = sums[last - bottom] - sums[first - bottom]
    return difference
