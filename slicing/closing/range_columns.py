"""Dense columns, of rows or of partials, and what is read out of them over ranges.

``Column`` says which word of a partial, or which result, is answered by which question. What the columns are of answers
the questions (``over_rows``, ``over_cells``).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from slicing.cells.blocks import width
from slicing.cells.lanes import Lane
from slicing.kernels import combine as kinds
from slicing.kernels.numbers import deviations
from slicing.kernels.ranges import totals_of
from slicing.system.arrays import Array, Bytes, Floats, Ints, Mask
from slicing.system.lazy import lazy

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


@dataclass(eq=False)
class RangeBounds:
    """Where ranges of the rows ``bottom : top`` begin and end, counted from ``bottom``."""

    bottom: int
    top: int
    find: Callable[[], tuple[Ints, Ints]]
    size: int
    in_order: bool = True
    step: int = 0  # how far each range is from the one before, if all have ``rows`` rows
    rows: int = 0
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

    @property
    def row_by_row(self) -> int | None:
        """How many rows the first range has, if each other range ends one row after the range before it. Otherwise
        None."""
        if self.grows is None:
            return self.rows if self.step == 1 else None
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


@dataclass(frozen=True)
class Column:
    """A lane's column, of rows or of partials."""

    lane: Lane
    words: frozenset[int]  # the words of its partials that are read

    @property
    def copies(self) -> bool:
        """Whether each range is answered by a copy of what one of its rows has."""
        return False

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
