"""Rows kept one by one, for the windows that only rows can tell: counts, marks, frames, rows of their own.

Beside the slice store an operator keeps a second table: rows, sorted by (key, time, sequence, arrival), with what
these windows ask of a row (``slicing.kept_rows.by_key`` keeps it). A window type
(``slicing.windows.rows.row_windows``) is given the rows as a ``View`` and says which ranges of them are windows
(``Found``), when each is complete, and from where on it still needs a key's rows. All that is needed by none is let go
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.cells.table import Cells, concatenated
from slicing.columns.lazy import lazy
from slicing.columns.order import alike, begins, stable_order
from slicing.columns.row_values import Values
from slicing.kernels.cells import CODE
from slicing.kernels.rows import first_at
from slicing.windows.bounds import BEGIN, FOREVER

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# what is kept of a row beside its cell
SEQUENCE, ARRIVAL, FLAGS, OF_KEY, OF_ALL, PLACE, SINCE, RANK = FACTS = range(8)
# OF_KEY, OF_ALL: how many rows of the key, and of the stream, had arrived before; PLACE: its rank among the whole
# stream by time; SINCE: its time (of a cell of several rows the first one's); RANK: how many rows of the key are
# before it
UNCOUNTED = -1  # of rows that came before anybody asked for their count
MOST_FLAGS = 62  # that the FLAGS of a cell have room for
BEGINS = 1 << MOST_FLAGS  # among them: a window begins with the cell, or did when it became final


class ShownRows:
    """Kept rows as windows see them, sorted by (code, time, sequence, arrival)."""

    one_each: ClassVar[bool] = False  # whether each that is shown is one row

    @property
    def time(self) -> Ints:
        raise NotImplementedError

    @property
    def code(self) -> npt.NDArray[Any]:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """How many values of a column there may be at most, roughly."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def fact(self, column: int) -> Ints:
        """What is kept of each beside its values."""
        raise NotImplementedError

    def flagged(self, flag: int) -> Mask:
        raise NotImplementedError

    def rank_at(self, positions: Ints) -> Ints:
        """How many rows of its key are before each."""
        raise NotImplementedError

    def counted(self, positions: Ints) -> Ints:
        """How many rows there are before each of these positions: one that is shown may be several."""
        raise NotImplementedError

    @property
    def sizes(self) -> Ints:
        """How many rows each of them is."""
        raise NotImplementedError

    @property
    def values(self) -> tuple[Values, ...]:
        """The columns that a user's windows want to see."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowTable(ShownRows):
    """Rows as cells (END: the time, CODE, ROWS: 1), sorted by (code, time, sequence, arrival).

    Where windows allow it, rows that are final are slices: one cell up to where any window begins or ends (ROWS: how
    many, END: the last one's time).
    """

    of_one_key: ClassVar[bool] = False  # known to be
    cells: Cells
    facts: Ints
    values: tuple[Values, ...] = ()  # of the columns that a user's windows want to see

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def time(self) -> Ints:
        return self.cells.end

    @property
    def code(self) -> Ints:
        return self.cells.code

    @lazy
    def codes(self) -> Ints:
        """The codes in one piece, to be searched."""
        return np.ascontiguousarray(self.code)

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.facts.nbytes + sum(v.nbytes for v in self.values)

    @property
    def weight(self) -> int:
        return self.cells.weight

    def fact(self, column: int) -> Ints:
        return self.facts[:, column]

    def flagged(self, flag: int) -> Mask:
        return (self.facts[:, FLAGS] >> flag) & 1 == 1

    def groups(self) -> Ints:
        """Where keys begin, and the end."""
        return np.append(begins(self.codes), len(self))

    def ranked(self, bounds: Ints, rank: Ints) -> Ints:
        """For each group the position of its first row of this rank or later."""
        if rank.size == 1:
            return bounds[:1] + np.searchsorted(self.facts[bounds[0] : bounds[1], RANK], rank)
        later = self.facts[:, RANK] >= np.repeat(rank, np.diff(bounds))
        at = np.where(later, np.arange(len(self)), len(self))
        return np.minimum(np.minimum.reduceat(at, bounds[:-1]), bounds[1:]) if rank.size else rank

    def rank_at(self, positions: Ints) -> Ints:
        return self.facts[positions, RANK]

    def counted(self, positions: Ints) -> Ints:
        return self._rows_before.take(positions)

    @lazy
    def _rows_before(self) -> Ints:
        return np.append(0, np.cumsum(self.cells.rows))

    @property
    def sizes(self) -> Ints:
        return np.ascontiguousarray(self.cells.rows)

    def take(self, index: Ints | Mask | slice) -> RowTable:
        return RowTable(self.cells.take(index), self.facts[index], tuple(v[index] for v in self.values))

    def beginning(self, begins: Mask) -> RowTable:
        """With a mark on cells with which a window begins."""
        facts = self.facts.copy()
        facts[begins, FLAGS] |= BEGINS
        return replace(self, facts=facts)

    def alive(self, gone: Ints) -> RowTable:
        """Without the first rows of keys, of which so many have been let go."""
        return self.take(self.facts[:, RANK] >= gone[self.code])

    def recoded(self, code: Ints) -> RowTable:
        """Codes renumbered: ``code[old]`` is the new one, -1 for one that goes; still sorted by them."""
        to = code[self.code]
        run = replace(self, cells=self.cells.with_meta(CODE, to)).take(to >= 0)
        return run.take(stable_order(run.code))

    @staticmethod
    def of(tables: Sequence[RowTable]) -> RowTable:
        """Tables of which each is behind the ones before, as one sorted by code."""
        values = tuple(map(np.concatenate, zip(*(t.values for t in tables), strict=True)))
        whole = RowTable(concatenated([t.cells for t in tables]), np.concatenate([t.facts for t in tables]), values)
        code = whole.codes
        return whole if (code[1:] >= code[:-1]).all() else whole.take(stable_order(code))


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


class Fresh(NamedTuple):
    """Rows that become final, by group as in a view, before they are cut into slices."""

    time: Ints
    bounds: Ints
    base: Ints  # for each group how many rows of it became final before
    flag: Callable[[int], Mask]


class Cuts(NamedTuple):
    """Where a window cuts rows into slices, each group's first row included, and what it will ask of a slice: which
    flags its first row has, and which its last one has."""

    at: Ints
    of_first: Mapping[int, Mask] = {}
    of_last: Mapping[int, Mask] = {}


class OnAxis(NamedTuple):
    """Windows of the whole stream, by what they count of it: rows, or marks in a column."""

    marks: str | None
    size: int
    every: int
    partial: bool  # whether those come out at the end that are short of either


class BoundRows:
    """A window type over rows, in ticks."""

    number: int  # among the windows of the spec
    ranked_by: int | None = None  # the fact that ranks rows, if it counts them: RANK, PLACE, or, as they come, OF_KEY
    # or OF_ALL (``View.base`` is then the count from which on it does)
    origin: int = BEGIN  # added while the stream ran, it sees rows from this time on
    notes: bool = False  # whether something has to be known of a key (0 at first) when its rows have been let go
    by_key: bool = True  # whether a key's windows are told by its rows alone
    wakes: bool = False  # whether time alone may complete a window or let rows go
    tiles: bool = False  # whether a row's rank in its key tells them all, and each ends where one begins
    closes_at_end: bool = False  # whether each of its windows is complete once the watermark is past its end
    # why it needs rows one by one; None: final rows tell where its windows begin and end, and are many between those
    needs_rows: str | None = "may begin or end at any of them"

    @property
    def by_arrival(self) -> bool:
        """Whether it counts rows as they come."""
        return self.ranked_by in (OF_KEY, OF_ALL)

    def seen(self) -> dict[str, str | None]:
        """The columns whose values it sees, each in which form of numbers; None: as Python's."""
        return {}

    def on_axis(self) -> OnAxis | None:
        """What it counts of the whole stream, and how it lies on that axis; None if its windows are of single keys."""
        return None

    def cuts(self, fresh: Fresh) -> Cuts:
        """For windows that slice: where they begin and end."""
        return Cuts(fresh.bounds[:-1])

    def begins(self, view: View) -> Mask:
        """For windows that slice: the slices with which one begins, at least of those that close later."""
        return np.zeros(len(view.rows), np.bool_)

    def note(self, view: View, h: int, left: Ints) -> Ints:
        """For windows that note: what is to be known of each group when rows before ``h`` are final, and ``left`` of
        its rows are let go."""
        return view.base

    def find(self, view: View, until: int) -> Found:
        """The windows of these rows, at least those that close before ``until``.

        Those that closed before the horizon may be anything."""
        raise NotImplementedError

    def wake(self, view: View, until: int, h: int) -> Ints:
        """For each group after when, at or after ``until``, a window may be complete, or rows needed no more by what
        closes at ``h`` or later, without another row; FOREVER: never."""
        return np.full(view.first.size, FOREVER)

    def stirs(self, view: View, until: int) -> Mask:
        """Of rows that became final alone: the groups of which older rows need a look, for one of these may complete a
        window before ``until``, or let rows go."""
        return np.ones(view.first.size, np.bool_)

    def needs(self, view: View, h: int) -> Ints:
        """For each group the position from which on a window that closes at ``h`` or later may need its rows."""
        raise NotImplementedError


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
