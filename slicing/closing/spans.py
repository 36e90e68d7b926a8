"""Partials of ranges of dense columns, made when they are read, some at a time: never all of them are in memory.

Ranges may be of rows or of slices; the columns know which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import Block, together, width
from slicing.cells.lanes import Lane
from slicing.closing.numbers import Filled, Numbers
from slicing.columns.arrow_out import room
from slicing.kernels import combine as kinds
from slicing.kernels.numbers import deviations
from slicing.kernels.ranges import totals_of
from slicing.kernels.rows import last_rows, recent
from slicing.system.arrays import Array, Bytes, Floats, Ints, Mask
from slicing.system.lazy import lazy


class Spans(Protocol):
    """Ranges of sorted rows, none of them empty."""

    made: bool  # whether ``of`` makes its arrays: they may then be changed

    @property
    def in_order(self) -> bool:
        """Whether each range begins and ends where the range before it does, or later."""

    def step(self, at: int, end: int) -> int:
        """How many rows later each of these ranges begins and ends than the range before it. 0: any number."""

    def __len__(self) -> int: ...

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        """The first row of some of the ranges, and the row that each ends before."""


@dataclass(frozen=True)
class Known:
    """Ranges that were found in advance."""

    first: Ints
    last: Ints
    in_order: bool
    made = False

    def step(self, at: int, end: int) -> int:
        return 0

    def __len__(self) -> int:
        return self.first.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        return self.first[at:end], self.last[at:end]


@dataclass(frozen=True)
class Steady:
    """Ranges of ``rows`` rows, each ``each`` rows after the range before it, cut to the rows ``0 : limit``."""

    first: int  # where the first range begins
    rows: int
    each: int
    size: int
    limit: int
    in_order = True
    made = True

    @property
    def cuts_all(self) -> bool:
        """Whether each row up to the limit is one where a range begins or ends."""
        if self.grows:
            return self.each == 1 and self.first + self.rows <= 1 and self.first + self.rows + self.size > self.limit
        begins_or_ends = self.each == 1 and self.first <= 0 and self.size >= self.rows
        return begins_or_ends and self.first + self.size - 1 + self.rows >= self.limit

    @property
    def grows(self) -> bool:
        """Whether all ranges begin at the first row."""
        return self.first + (self.size - 1) * self.each <= 0

    def step(self, at: int, end: int) -> int:
        cut = self.first + at * self.each < 0 or self.first + (end - 1) * self.each + self.rows > self.limit
        return 0 if cut else self.each

    def __len__(self) -> int:
        return self.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        low, high = self.first + at * self.each, self.first + end * self.each
        last = np.arange(low + self.rows, high + self.rows, self.each)
        if high + self.rows - self.each > self.limit:
            np.minimum(last, self.limit, out=last)
        if high - self.each <= 0:
            return np.zeros(last.size, np.int64), last
        first = np.arange(low, high, self.each)
        return np.maximum(first, 0, out=first) if low < 0 else first, last


@dataclass(frozen=True)
class Recent:
    """For each row from ``begin`` on, the range of rows of the last ``reach`` ticks. Ranges are found when they are
    read, which saves 16 bytes of memory a row. ``start``: the times of their first rows, filled then."""

    time: Ints
    reach: int
    begin: int
    start: Ints
    in_order = True
    made = True

    def step(self, at: int, end: int) -> int:
        return 0

    def __len__(self) -> int:
        return self.start.size

    @lazy
    def bounds(self) -> Ints:
        return np.array([0, self.time.size])

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        first, last = np.empty((2, end - at), np.int64)
        recent(self.bounds, self.time, np.int64(self.reach), np.int64(self.begin + at), first, last, self.start[at:end])
        return first, last


@dataclass(frozen=True)
class LastOfGroups:
    """The last ``rows`` rows of a group up to each of its rows, from its row number ``fewest`` on. ``bounds``: of the
    groups' rows, ``begins``: of their ranges."""

    bounds: Ints
    begins: Ints
    rows: int
    fewest: int
    in_order = True
    made = True

    def step(self, at: int, end: int) -> int:
        return 0

    def __len__(self) -> int:
        return int(self.begins[-1])

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        first, last = np.empty((2, end - at), np.int64)
        last_rows(self.bounds, self.begins, *map(np.int64, (self.rows, self.fewest, at)), first, last)
        return first, last


@dataclass(eq=False)
class RangeBounds:
    """Where ranges of the rows ``bottom : top`` begin and end, counted from ``bottom``."""

    bottom: int
    top: int
    find: Callable[[], tuple[Ints, Ints]]
    size: int
    in_order: bool = True
    step: int = 0
    grows: tuple[int, int] | None = None  # all ranges begin at ``bottom``: the rows of the first, and how many more

    @lazy
    def both(self) -> tuple[Ints, Ints]:
        return self.find()

    @property
    def first(self) -> Ints:
        return self.both[0]

    @property
    def last(self) -> Ints:
        return self.both[1]

    @lazy
    def row_by_row(self) -> int | None:
        """How many rows the first range has, if each other range ends one row after the range before it. Otherwise
        None."""
        if self.grows is None:
            return int(self.last[0] - self.first[0]) if self.step == 1 else None
        rows, more = self.grows
        return rows if more == 1 and rows + self.size - 1 == self.top else None

    def at_first(self, column: Array, out: Array) -> None:
        """A column of rows at the first row of each range."""
        if self.grows is not None:
            out[:] = column[0]
        elif self.row_by_row is not None:
            out[:] = column[: self.size]
        else:
            column.take(self.first, out=out, mode="clip")  # otherwise numpy copies once more

    def at_last(self, column: Array, out: Array) -> None:
        """A column of rows at the last row of each range."""
        rows = self.row_by_row
        if rows is not None:
            out[:] = column[rows - 1 :][: self.size]
        else:
            column.take(self.last - 1, out=out, mode="clip")

    @property
    def longest(self) -> int:
        return self.top if self.grows is not None else int((self.last - self.first).max(initial=0))


@lru_cache(8)
def evenly(size: int, step: int, rows: int) -> tuple[Ints, Ints]:
    """Where ranges of ``rows`` rows begin and end that are a ``step`` apart. All callers share them: nobody writes."""
    first = np.arange(0, size * step, step)
    return first, first + rows


FLOAT64 = pa.float64()
SUMS_F, SUMS_I = {kinds.BASIC_F, kinds.SUM_F}, {kinds.BASIC_I, kinds.SUM_I}
EXTREMES = {kinds.BASIC_F, kinds.BASIC_I, kinds.EXTREMES}
DENSE: Set[object] = {
    kinds.COUNT,
    kinds.MOMENTS,
    *SUMS_F,
    *SUMS_I,
    *EXTREMES,
}  # lanes that can be answered from dense columns of rows and of partials
EDGES = {kinds.FIRST, kinds.LAST}  # if rows are in order of arrival, these can be answered from dense columns of rows


@dataclass(frozen=True)
class Column:
    """A lane's column, of rows or of partials."""

    lane: Lane
    words: frozenset[int]  # the words of its partials that are read

    def always(self, ranges: RangeBounds) -> bool:
        """Whether each of these ranges has a value."""
        raise NotImplementedError

    def fits(self, word: int, ranges: RangeBounds) -> bool:
        """Whether a result that is a word (``number``) fits in any case."""
        if word not in (kinds.TOTAL, kinds.MEAN) or self.lane.kind not in SUMS_I:
            return True
        return self.largest(ranges) * ranges.longest < 1 << 63

    def all_fit(self, word: int) -> bool:
        """Whether a result that is a word fits, whatever the range: then no range needs to be looked at."""
        return False

    def fewer(self, least: int, ranges: RangeBounds) -> Mask | None:
        """Which ranges have fewer than ``least`` values, or return a null; None if none of them."""
        if self.lane.kind == kinds.ARG:
            valid = self.returns(ranges)
            return None if valid is None else valid == 0
        if least == 0 or (least == 1 and self.always(ranges)):
            return None
        fewer: Mask = self.counted(ranges) < least
        return fewer if np.count_nonzero(fewer) else None

    def largest(self, ranges: RangeBounds) -> int:
        """A bound of the magnitudes of the integers in these ranges."""
        raise NotImplementedError

    def counts(self, ranges: RangeBounds, out: Ints) -> None:
        """How many values each range has."""
        raise NotImplementedError

    def sums_f(self, ranges: RangeBounds, block: Ints) -> None:
        """Sums of floats, as the second and third word of a block."""
        raise NotImplementedError

    def sums_i(self, ranges: RangeBounds, block: Ints) -> None:
        """Sums of integers, by halves, as the second and third word of a block."""
        raise NotImplementedError

    def total(self, ranges: RangeBounds, out: Ints) -> None:
        """Sums of integers that fit in a word."""
        raise NotImplementedError

    def moments(self, ranges: RangeBounds, mean: Floats, squares: Floats) -> None:
        """Means and squared deviations."""
        raise NotImplementedError

    def squares(self, ranges: RangeBounds) -> Floats:
        """Squared deviations."""
        mean, squares = np.empty((2, ranges.size))
        self.moments(ranges, mean, squares)
        return squares

    def extreme(self, word: int, ranges: RangeBounds, out: Ints, as_numbers: bool) -> None:
        """The maximum, if ``word`` is the last word of a block; the minimum, if it is the word before. Floats are given
        ``as_numbers`` or as their keys."""
        raise NotImplementedError

    def edge(self, ranges: RangeBounds, out: Ints, as_float: bool = False) -> None:
        """The word of the first or last row that counts; that of any row for a range without such rows. Of an ``ARG``
        lane: what is returned of the first row. ``as_float``: the float of which the word is the key."""
        raise NotImplementedError

    def returns(self, ranges: RangeBounds) -> Bytes | None:
        """Of an ``ARG`` lane: whether what is returned of the first row is no null. None: none is."""
        raise NotImplementedError

    def partials(self, ranges: RangeBounds) -> Ints:
        """Partials, stored word by word. Words that nobody reads are not filled."""
        kind = self.lane.kind
        words = np.empty((width(kind), ranges.size), np.int64)
        self.counts(ranges, words[0])
        if kind in SUMS_F:
            self.sums_f(ranges, words.T)
        elif kind in SUMS_I:
            self.sums_i(ranges, words.T)
        elif kind == kinds.MOMENTS:
            self.moments(ranges, *words[1:].view(np.float64))
        elif kind in EDGES:
            self.edge(ranges, words[4])
        elif kind == kinds.ARG:
            valid = self.returns(ranges)
            self.edge(ranges, words[5])
            words[6] = 1 if valid is None else valid
        if kind in EXTREMES:
            for word in self.words & {len(words) - 2, len(words) - 1}:
                self.extreme(word, ranges, words[word], False)
        return words.T

    def number(self, word: int, least: int, as_float: bool, ranges: RangeBounds, out: Ints) -> None:
        """A result that is a word (``BoundAggregate.number``); any, where a range has fewer than ``least`` values.
        ``as_float``: the word is the key of a float."""
        if word == 0:
            self.counts(ranges, out)
        elif self.lane.kind in EDGES or self.lane.kind == kinds.ARG:
            self.edge(ranges, out, as_float)
        elif self.lane.kind == kinds.MOMENTS:
            squares = self.squares(ranges)
            deviations(self.counted(ranges), squares, least, word == kinds.DEVIATION, out.view(np.float64))
        elif word not in (kinds.TOTAL, kinds.MEAN):
            self.extreme(word, ranges, out, True)
        elif self.lane.kind in SUMS_F:
            self.float_number(ranges, word == kinds.MEAN, out.view(np.float64))
        else:
            self.total(ranges, out)
            if word == kinds.MEAN:
                divided(out, self.counted(ranges), out.view(np.float64))

    def float_number(self, ranges: RangeBounds, mean: bool, out: Floats) -> None:
        """Sums or means of floats."""
        sums = np.empty((3, out.size))
        self.sums_f(ranges, sums.view(np.int64).T)
        np.add(sums[1], sums[2], out=out)
        if mean:
            divided(out, self.counted(ranges), out)

    def counted(self, ranges: RangeBounds) -> Ints:
        count = np.empty(ranges.size, np.int64)
        self.counts(ranges, count)
        return count


@dataclass(frozen=True)
class RangePartials:
    """Partials that are made when they are read, some windows at a time: never all of them are in memory."""

    columns: Sequence[Column]
    spans: Spans
    piece: int  # windows at a time

    def __len__(self) -> int:
        return len(self.spans)

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        for piece, ranges in self._pieces():
            yield piece, tuple(column.partials(ranges) for column in self.columns)

    def numbers(self, wanted: Numbers) -> list[Filled] | None:
        """Words of columns as result columns, each written once in its final place (floats as numbers, not as keys).
        None if a sum may not fit."""
        found = [room(len(self), number.type) for number in wanted.each]
        nulls: list[Mask | None] = [None] * len(found)
        sure = all(self.columns[number.lane].all_fit(number.word) for number in wanted.each)
        for piece, ranges in self._pieces():
            if not sure and not all(self.columns[number.lane].fits(number.word, ranges) for number in wanted.each):
                return None
            for place, ((at, word, type, least, _), out) in enumerate(zip(wanted.each, found, strict=True)):
                as_float = wanted.types[place] == FLOAT64
                into = out[piece] if type.itemsize == 8 else np.empty(ranges.size, np.int64)
                self.columns[at].number(word, least, as_float, ranges, into)
                if type.itemsize < 8:
                    out[piece] = into
                fewer = self.columns[at].fewer(least, ranges)
                if fewer is not None:
                    null = nulls[place]
                    null = nulls[place] = np.zeros(len(self), np.bool_) if null is None else null
                    null[piece] = fewer
        return list(map(Filled, found, nulls))

    def _pieces(self) -> Iterator[tuple[slice, RangeBounds]]:
        at, size, count = 0, self.piece, len(self)
        if count and isinstance(self.spans, Steady) and self.spans.grows:
            yield slice(0, count), self._growing(self.spans)  # each row is then added once
            return
        while at < count:
            end = min(at + size, count)
            ranges = self._ranges(at, end)
            yield slice(at, end), ranges
            at, size = end, max(self.piece, int(ranges.last[-1] - ranges.first[-1]))  # not many fewer than overlap

    def _growing(self, spans: Steady) -> RangeBounds:
        rows = spans.first + spans.rows
        top = min(rows + (spans.size - 1) * spans.each, spans.limit)
        return RangeBounds(0, top, lambda: spans.of(0, spans.size), spans.size, grows=(rows, spans.each))

    def _ranges(self, at: int, end: int) -> RangeBounds:
        spans = self.spans
        step = spans.step(at, end)
        if step and end - at <= self.piece:  # they lie as those of any other piece
            begin, stop = (int(bounds[0]) for bounds in spans.of(at, at + 1))
            first, last = (bounds[: end - at] for bounds in evenly(self.piece, step, stop - begin))
            return RangeBounds(begin, begin + int(last[-1]), lambda: (first, last), end - at, spans.in_order, step)
        first, last = spans.of(at, end)
        bottom, top = map(int, (first[0], last[-1]) if spans.in_order else (first.min(), last.max()))
        if bottom:
            first, last = (np.subtract(bound, bottom, out=bound if spans.made else None) for bound in (first, last))
        return RangeBounds(bottom, top, lambda: (first, last), end - at, spans.in_order, step)

    def whole(self) -> tuple[Block, ...]:
        return tuple(together(blocks) for blocks in zip(*(blocks for _, blocks in self.pieces()), strict=True))


def totals(x: Ints, shift: int, mask: int, ranges: RangeBounds, out: Ints) -> None:
    """Sums of ranges of ``x >> shift & mask``, modulo 2**64."""
    if ranges.in_order:
        x.setflags(write=False)  # columns are read-only too: the kernel is compiled for one type only
        totals_of(x, np.int64(shift), np.int64(mask), ranges.first, ranges.last, np.int64(ranges.step), out)
    else:
        out[:] = differences((x >> shift) & mask, ranges)


def divided(a: Ints | Floats, count: Ints, out: Floats) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(a, count, out=out)


def differences(x: Ints, ranges: RangeBounds) -> Ints:
    """Sums of ranges in any order, modulo 2**64."""
    sums = np.append(0, np.cumsum(x))
    difference: Ints = sums[ranges.last] - sums[ranges.first]
    return difference
