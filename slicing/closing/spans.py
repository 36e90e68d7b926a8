"""Ranges of sorted rows or slices: known in advance, or found when they are read, some at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.kernels.rows import last_rows, recent
from slicing.system.arrays import Ints
from slicing.system.lazy import lazy


class Spans:
    """Ranges of sorted rows, none of them empty."""

    in_order: bool  # whether each range begins and ends where the range before it does, or later
    made = True  # whether ``of`` makes its arrays: they may then be changed

    def step(self, at: int, end: int) -> int:
        """How many rows later each of these ranges begins and ends than the range before it. 0: any number."""
        return 0

    def __len__(self) -> int:
        raise NotImplementedError

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        """The first row of some of the ranges, and the row that each ends before."""
        raise NotImplementedError


@dataclass(frozen=True)
class Known(Spans):
    """Ranges that were found in advance."""

    first: Ints
    last: Ints
    in_order: bool
    made = False

    def __len__(self) -> int:
        return self.first.size

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        return self.first[at:end], self.last[at:end]


@dataclass(frozen=True)
class Steady(Spans):
    """Ranges of ``rows`` rows, each ``each`` rows after the range before it, cut to the rows ``0 : limit``."""

    first: int  # where the first range begins
    rows: int
    each: int
    size: int
    limit: int
    in_order = True

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
class Recent(Spans):
    """For each row from ``begin`` on, the range of rows of the last ``reach`` ticks. Ranges are found when they are
    read, which saves 16 bytes of memory a row. ``start``: the times of their first rows, filled then."""

    time: Ints
    reach: int
    begin: int
    start: Ints
    in_order = True

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
class LastOfGroups(Spans):
    """The last ``rows`` rows of a group up to each of its rows, from its row number ``fewest`` on. ``bounds``: of the
    groups' rows, ``begins``: of their ranges."""

    bounds: Ints
    begins: Ints
    rows: int
    fewest: int
    in_order = True

    def __len__(self) -> int:
        return int(self.begins[-1])

    def of(self, at: int, end: int) -> tuple[Ints, Ints]:
        first, last = np.empty((2, end - at), np.int64)
        last_rows(self.bounds, self.begins, *map(np.int64, (self.rows, self.fewest, at)), first, last)
        return first, last
