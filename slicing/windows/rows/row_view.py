"""What data-driven windows see, rows by group, and what they find in the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slicing.columns.order import alike
from slicing.kernels.rows import first_at
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy
from slicing.windows.rows.row_table import PLACE


class Found(NamedTuple):
    """Windows as ranges ``first : last`` of the rows taken by ``order`` (None: as they are).

    ``closes`` is the time of the row that completed the window, or FOREVER if no row did; the window is complete once
    the watermark is later. ``made_by`` is the row that has the window, which distinguishes otherwise equal windows.
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
    in_order: bool = False  # each group's windows are in order of end, start and rank, and of ``closes``

    def take(self, index: Ints | Mask | slice) -> Found:
        columns = (None if c is None else c[index] for c in self[1:-1])
        return Found(self.order, *columns, in_order=self.in_order)  # type: ignore[arg-type, misc]


class Opened(NamedTuple):
    """An open window: its start, and the number of rows of its key before the row that opened it."""

    id: int | str
    start: int
    rank: int


class Context(NamedTuple):
    """What a user's window remembers about a key."""

    value: Any
    open: tuple[Opened, ...]


@dataclass(frozen=True)
class View:
    """Kept rows in order, by group: the rows of a key or, with ``idle``, its rows between two idle times."""

    rows: Any  # ShownRows
    bounds: Ints  # the bounds of the groups: group g has the rows bounds[g] : bounds[g + 1]
    base: Ints  # for each group, the number of its rows that were evicted
    goes_on: Mask  # groups that continue from the context of their key
    over: Mask  # groups that no further row can join
    of_key: Ints  # for each group, the number of rows of its key that arrived
    arrived: int
    placed: int
    settled: int  # rows before this time are final
    contexts: Mapping[int, Mapping[int, Context]]  # of users' windows: window number -> code -> context
    noted: Ints | None = None  # what the window noted for each group, if it notes
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
        """The number of rows of the group's key before the first row of each group."""
        rank: Ints = self.rows.rank_at(self.first)
        return rank

    @lazy
    def code(self) -> Ints:
        """The code of the key of each group."""
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
        """For each group, the position of its first row at or after ``time``."""
        at = np.empty(self.first.size, np.int64)
        first_at(self.bounds, self.time, np.int64(time), at)
        return at

    def first_of(self, mask: Mask) -> Ints:
        """For each group, the position of its first row in the mask, or its end if it has none."""
        if not self.first.size:
            return self.first
        at = np.where(mask, np.arange(mask.size), mask.size)
        return np.minimum(np.minimum.reduceat(at, self.first), self.last)

    @property
    def place(self) -> Ints:
        """The rank of each row by time in the whole stream."""
        return self.fact(PLACE)
