"""What windows that rows decide are shown, rows by group, and what they find in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slicing.columns.lazy import lazy
from slicing.columns.order import alike
from slicing.kernels.rows import first_at
from slicing.system.arrays import Ints, Mask
from slicing.windows.rows.row_table import PLACE


class Found(NamedTuple):
    """Windows as ranges ``first : last`` of the rows in ``order`` (None: as they are).

    ``closes`` is the time of the row that completed it, FOREVER where none has; it is complete once the watermark is
    later. ``made_by``: the row that made it, which tells windows apart that are alike otherwise.
    """

    order: Ints | None
    first: Ints
    last: Ints
    group: Ints
    start: Ints
    end: Ints
    closes: Ints
    rank_start: Ints | None = None
    rank_end: Ints | None = None
    made_by: Ints | None = None
    in_order: bool = False  # those of a group: by end, start and rank, and by when they close

    def take(self, index: Ints | Mask | slice) -> Found:
        columns = (None if c is None else c[index] for c in self[1:-1])
        return Found(self.order, *columns, in_order=self.in_order)  # type: ignore[arg-type, misc]


class Opened(NamedTuple):
    """A window that is open: its start, and how many rows of its key were before the one that opened it."""

    id: int | str
    start: int
    rank: int


class Context(NamedTuple):
    """What a user's window remembers of a key."""

    value: Any
    open: tuple[Opened, ...]


@dataclass(frozen=True)
class View:
    """Kept rows in order, by group: a key, or with ``idle`` the rows of it between two times of quiet."""

    rows: Any  # ShownRows
    bounds: Ints  # of the groups: group g has the rows bounds[g] : bounds[g + 1]
    base: Ints  # for each group how many of its rows were let go
    goes_on: Mask  # groups that go on with what is remembered of their keys
    over: Mask  # groups that no row can join any more
    of_key: Ints  # for each group how many rows of its key arrived
    arrived: int
    placed: int
    settled: int  # rows before this time are final
    contexts: Mapping[int, Mapping[int, Context]]  # of users' windows: number -> code -> context
    noted: Ints | None = None  # for a window that notes: what is noted of each group
    memo: dict[Any, Any] = field(default_factory=dict)

    @lazy
    def group(self) -> Ints:
        if self.bounds.size == 2:
            return alike(0, len(self.rows))
        return np.repeat(np.arange(self.bounds.size - 1), np.diff(self.bounds))

    @property
    def first(self) -> Ints:
        return self.bounds[:-1]

    @lazy
    def rank(self) -> Ints:
        """How many rows of its key are before the first of each group."""
        rank: Ints = self.rows.rank_at(self.first)
        return rank

    @lazy
    def code(self) -> Ints:
        """The key of each group."""
        return self.rows.code[self.first].astype(np.int64)

    @property
    def last(self) -> Ints:
        return self.bounds[1:]

    @property
    def time(self) -> Ints:
        time: Ints = self.rows.time
        return time

    def fact(self, column: int) -> Ints:
        fact: Ints = self.rows.fact(column)
        return fact

    def flagged(self, flag: int) -> Mask:
        flagged: Mask = self.rows.flagged(flag)
        return flagged

    def before(self, time: int) -> Ints:
        """For each group the position of its first row at or after a time."""
        at = np.empty(self.first.size, np.int64)
        first_at(self.bounds, self.time, np.int64(time), at)
        return at

    def first_of(self, mask: Mask) -> Ints:
        """For each group the position of its first row of the mask; its end where there is none."""
        if not self.first.size:
            return self.first
        at = np.where(mask, np.arange(mask.size), mask.size)
        return np.minimum(np.minimum.reduceat(at, self.first), self.last)

    @property
    def place(self) -> Ints:
        """Each row's rank by time in the whole stream."""
        return self.fact(PLACE)
