"""Lists: partials that are a sorted list per cell. Windows over them are ranges of cells and are never merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from slicing.cells.lanes import Lane
from slicing.columns.arrow_out import MANY_ROWS, table_room
from slicing.columns.order import order_by, stable_order
from slicing.kernels import lists as k
from slicing.kernels.strategies import Combinations
from slicing.kernels.table import hash_words
from slicing.system.arrays import MOST, Array, Bytes, Ints, Mask

Shared = TypeVar("Shared")

Index = Ints | Mask | slice

SORTED_ALONE = 4096  # a cell with more rows is sorted by a call of its own
TOGETHER = 4096  # rows that are put into a table together
# With so many rows for each that cells may keep, those that none keeps are left out before sorting. Only if cells keep
# few: 100 of 1 M rising values 90 -> 50 ms, but 1000 of them 70 -> 180.
ROWS_A_KEPT, FEW_KEPT = 4, 64


class Lifting(NamedTuple):
    """Rows of a batch that are to become cells of one lane."""

    cell: Callable[[], Ints]  # of each row
    cells: int
    ascending: bool  # whether rows come sorted by cell
    valid: Bytes  # one byte per row; empty: all rows count
    feeds: Sequence[Array]
    order: Callable[[], tuple[Ints, Ints, Ints]]  # time, sequence, arrival (all 0 where there is none)


@dataclass(frozen=True)
class Lists:
    """A sorted list of items per cell. The items of cell c are ``items[at[c] : at[c + 1]]``; each item is a row of
    words."""

    at: Ints
    items: Ints

    def __len__(self) -> int:
        return self.at.size - 1

    @property
    def size(self) -> int:
        """The number of items."""
        return int(self.at[-1] - self.at[0])

    @property
    def nbytes(self) -> int:
        return int(self.at.nbytes) + self.size * self.items.shape[1] * 8

    def __getitem__(self, index: Index) -> Lists:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return Lists(self.at[start : max(start, stop) + 1], self.items)
        return self.take(np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64, copy=False))

    def take(self, index: Ints, axis: int = 0) -> Lists:
        return self.grouped(index, np.arange(index.size + 1), self.items.shape[1], k.KEEP)

    def grouped(self, members: Ints, bounds: Ints, keys: int, fuse: int) -> Lists:
        """For each g, merge the lists of the cells ``members[bounds[g] : bounds[g + 1]]`` into one list."""
        at, most = np.empty(bounds.size, np.int64), int((self.at[members + 1] - self.at[members]).sum())
        items = np.empty((most, self.items.shape[1]), np.int64)
        n = k.merge_lists(members, bounds, self.at, self.items, np.int64(keys), np.int64(fuse), at, items)
        return Lists(at, items if n == most else items[:n].copy())

    def cells(self) -> Ints:
        """The cell of each item, of lists that are :meth:`whole`."""
        return np.repeat(np.arange(len(self)), np.diff(self.at))

    def whole(self) -> Lists:
        """The lists of these cells, with only their items in ``items``."""
        if self.at[0] == 0 and self.at[-1] == len(self.items):
            return self
        return Lists(self.at - self.at[0], self.items[self.at[0] : self.at[-1]])


SHARED = 16  # cells of windows for each cell, from which on windows share the lists of several cells
CUT = 4  # times as many items as its list keeps, that a window needs for it


@dataclass(frozen=True)
class Picked:
    """Answers: for each window j the lists of the cells ``first[j] : last[j]``, not merged. An empty range has no
    lists."""

    lists: Lists
    first: Ints
    last: Ints
    known: dict[object, Any] = field(default_factory=dict, compare=False)  # results that aggregates of one lane share

    def __len__(self) -> int:
        return self.first.size

    @property
    def nbytes(self) -> int:
        return self.lists.nbytes + self.first.nbytes + self.last.nbytes

    def __getitem__(self, index: Index) -> Picked:
        return Picked(self.lists, self.first[index], self.last[index])

    def take(self, index: Ints, axis: int = 0) -> Picked:
        return self[index]

    @staticmethod
    def of(block: Lists | Picked) -> Picked:
        if isinstance(block, Picked):
            return block
        return Picked(block, np.arange(len(block)), np.arange(1, len(block) + 1))

    @staticmethod
    def shared(block: Lists | Picked, make: Callable[[Picked], Shared]) -> Shared:
        """The result of ``make`` for these answers, computed once for all aggregates of the lane."""
        picked = Picked.of(block)
        if make not in picked.known:
            picked.known[make] = make(picked)
        made: Shared = picked.known[make]
        return made


@dataclass(frozen=True)
class ListKind:
    """Items of ``words`` words, ordered by their first ``keys`` words. ``fuse`` says how items with equal keys are
    combined."""

    name: str
    words: int
    keys: int
    fuse: int
    rank_words: tuple[tuple[int, int], ...] = ((0, 0),)  # (word, feed) of each word that may be the rank of a value
    needed: int | None = None  # how many of a row's first feeds must not be null so that it counts; None: all feeds

    def identity(self, lane: Lane, size: int) -> Lists:
        return Lists(np.zeros(size + 1, np.int64), np.empty((0, self.words), np.int64))

    def merged(self, lane: Lane, into: Ints, size: int, older: Lists, newer: Lists) -> Lists:
        both = concatenated([older, newer])
        members = stable_order(into)
        bounds = np.searchsorted(into[members], np.arange(size + 1))
        return both.grouped(members, bounds, self.keys, self.fuse)

    def answered(
        self, lane: Lane, block: Lists, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Picked:
        return Picked(block, first, last)

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        """The lists made from a batch's rows."""
        cell = rows.cell()
        chosen = None if rows.valid.size == 0 else np.flatnonzero(rows.valid)
        if chosen is not None:
            cell = cell[chosen]
        start = np.append(0, np.cumsum(np.bincount(cell, minlength=rows.cells)))
        if self.fuse and self.words == 2:
            x = rows.feeds[0] if chosen is None else rows.feeds[0][chosen]
            make = k.run_largest if self.fuse == k.MOST else k.run_lengths
            return _counted(_grouped(cell, start, x, rows.ascending), start, make)
        t, s, a = rows.order()
        every = np.arange(t.size) if chosen is None else chosen
        if self.fuse:
            x = rows.feeds[0]
            known = x if chosen is None else x[every]
            low, near = _near(known, rows.cells)
            at, items = np.empty(start.size, np.int64), np.empty((every.size, self.words), np.int64)
            if near and _in_order(t, s, a):
                order, counts = _grouped(cell, start, every, rows.ascending), np.zeros((2, near), np.int64)
                n = k.near_earliest(order, start, x, t, s, a, low, *counts, at, items)
            else:
                by_value = stable_order(known)
                order = _grouped(cell[by_value], start, by_value if chosen is None else every[by_value], False)
                n = k.run_earliest(order, start, x, t, s, a, at, items)
            return Lists(at, items[:n].copy())
        words = [c.view(np.int64) for c in (t, s, a, *rows.feeds)]
        row_order = _row_order(words if chosen is None else [c[every] for c in words])
        if row_order is None and rows.ascending:
            return Lists(start, _table(words, chosen))
        if row_order is not None:
            cell, every = cell[row_order], every[row_order]
        return Lists(start, _table(words, _grouped(cell, start, every, False)))


@dataclass(frozen=True)
class Netted(ListKind):
    """Values with counts, less the values taken back: the second feed is 1 or -1. A value whose count becomes 0 is
    dropped."""

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        sign = rows.feeds[1]
        values = rows._replace(feeds=rows.feeds[:1])
        if (sign > 0).all():
            return super().lifted(lane, values)
        counted = np.ones(sign.size, np.bool_) if rows.valid.size == 0 else rows.valid.view(np.bool_)
        added, taken = (
            super(Netted, self).lifted(lane, values._replace(valid=(counted & which).view(np.uint8)))
            for which in (sign > 0, sign < 0)
        )
        taken.items[:, 1] *= -1
        into = np.arange(rows.cells)
        return self.merged(lane, np.append(into, into), rows.cells, added, taken)


@dataclass(frozen=True)
class Bounded(ListKind):
    """Lists of at most ``most`` items: the first items of each cell."""

    most: int = 1

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        return self.cut(super().lifted(lane, rows))

    def merged(self, lane: Lane, into: Ints, size: int, older: Lists, newer: Lists) -> Lists:
        return self.cut(super().merged(lane, into, size, older, newer))

    def cut(self, lists: Lists) -> Lists:
        """Keep the first ``most`` items of each cell."""
        lists = lists.whole()
        size = np.diff(lists.at)
        if int(size.max(initial=0)) <= self.most:
            return lists
        place = np.arange(len(lists.items)) - np.repeat(lists.at[:-1], size)
        return Lists(np.append(0, np.cumsum(np.minimum(size, self.most))), lists.items[place < self.most])


def _taken(rows: Ints, cell: Ints, words: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
    return cell.take(rows), [word.take(rows) for word in words]


@dataclass(frozen=True)
class Best(Bounded):
    """Rows ordered by a value, then by (time, sequence, arrival), with the values of other columns. A cell keeps the
    first ``most`` rows."""

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        cell, order, (value, *others) = rows.cell(), rows.order(), [feed.view(np.int64) for feed in rows.feeds]
        words = [self.by(value, order), *order, *others]
        if rows.valid.size:
            cell, words = _taken(np.flatnonzero(rows.valid), cell, words)
        if self.most <= FEW_KEPT and ROWS_A_KEPT * self.most * rows.cells <= cell.size:
            first = np.full((rows.cells, self.most), MOST)
            k.keep_least(cell, words[0], first)
            cell, words = _taken(np.flatnonzero(words[0] <= first[:, -1].take(cell)), cell, words)
        at = np.append(0, np.cumsum(np.bincount(cell, minlength=rows.cells)))
        return self.cut(Lists(at, _table(words, order_by(*words[3::-1], cell))))

    def by(self, value: Ints, order: Sequence[Ints]) -> Ints:
        """The word that orders a row: its first feed."""
        return value


@dataclass(frozen=True)
class Sampled(Best):
    """Rows ordered by a hash of their time, their sequence and the first feed, which is itself a hash of their
    value."""

    def by(self, value: Ints, order: Sequence[Ints]) -> Ints:
        hashed = value.view(np.uint64).copy()
        for word in order[:2]:
            hash_words(np.ascontiguousarray(word).view(np.uint64), hashed)
        return hashed.view(np.int64)


def best(most: int, returned: int) -> Best:
    """Rows ordered by one value, each with the words of other columns and flags that say which of these are null."""
    ranks = ((0, 0), *((4 + 2 * i, 1 + 2 * i) for i in range(returned)))
    return Best("rows by a value", 4 + 2 * returned, 4, k.KEEP, ranks, 1, most)


def sampled(most: int) -> Sampled:
    """Rows ordered by a hash, each with the word of its value."""
    return Sampled("rows by a hash", 5, 4, k.KEEP, ((4, 1),), None, most)


def earliest(most: int) -> Bounded:
    """The first rows by (time, sequence, arrival), each with the word of its value."""
    return Bounded("first rows in order", 4, 4, k.KEEP, ((3, 0),), None, most)


COUNTED = ListKind("values, counted", 2, 1, k.ADD)
"""value, count"""
EARLIEST = ListKind("values, counted, with their earliest row", 5, 1, k.ADD)
"""value, count, time, sequence, arrival"""
NETTED = Netted("values, counted, less those taken back", 2, 1, k.ADD, needed=1)
"""value, count"""
REGISTERS = ListKind("registers", 2, 1, k.MOST, ())
"""register, largest rank: of a hash of each value, register * 64 + rank"""


def in_order(inputs: int) -> ListKind:
    """Rows by (time, sequence, arrival), with the values of some columns. Without an order of arrival the values
    decide."""
    return ListKind("rows in order", 3 + inputs, 3 + inputs, k.KEEP, tuple((3 + i, i) for i in range(inputs)))


def rows_of(block: Lists | Picked, kind: ListKind) -> Lists:
    """The rows of each window, in order."""
    picked = Picked.of(block)
    sizes = picked.last - picked.first
    bounds = np.append(0, np.cumsum(sizes))
    members = np.repeat(picked.first - bounds[:-1], sizes) + np.arange(bounds[-1])
    return picked.lists.grouped(members, bounds, kind.keys, kind.fuse)


def first_rows_of(block: Lists | Picked, kind: Bounded) -> Lists:
    """The first rows of each window. Where windows overlap, lists of 2, 4, 8... cells are shared, each cut.

    5 rows of the last 1000 at each of 80,000 rows, with other columns: 20 -> 1 s, and 6 GB -> 0.4 GB at the peak."""
    picked = Picked.of(block)
    sizes, cells = picked.last - picked.first, len(picked.lists)
    at = picked.lists.whole().at
    items = int((at[picked.last] - at[picked.first]).sum())
    if int(sizes.sum()) <= SHARED * cells or items <= CUT * kind.most * len(picked):
        return kind.cut(rows_of(picked, kind))
    lists, at = kind.cut(picked.lists.whole()), picked.first.copy()
    found = Lists(np.zeros(len(picked) + 1, np.int64), np.empty((0, kind.words), np.int64))
    reach, longest = 1, int(sizes.max())
    while True:
        some = np.flatnonzero(sizes & reach)
        found = _beside(found, lists, some, at[some], kind)
        at[some] += reach
        if 2 * reach > longest:
            return found
        early = np.arange(cells - reach)  # later cells have no full reach, which no window asks for
        lists = _beside(lists, lists, early, early + reach, kind)
        reach *= 2


def _beside(one: Lists, other: Lists, some: Ints, of: Ints, kind: Bounded) -> Lists:
    """The lists of ``one``, ``some`` of which get the items of cells ``of`` the other, cut."""
    sizes = np.ones(len(one), np.int64)
    sizes[some] = 2
    bounds = np.append(0, np.cumsum(sizes))
    members = np.empty(bounds[-1], np.int64)
    members[bounds[:-1]] = np.arange(len(one))
    members[bounds[some] + 1] = len(one) + of
    return kind.cut(concatenated([one, other]).grouped(members, bounds, kind.keys, kind.fuse))


def interleaved(picked: Picked) -> Mask:
    """For windows of rows in order: whether some slice of the window has a row that comes before a row of an earlier
    slice."""
    if not (picked.last - picked.first > 1).any():
        return np.zeros(len(picked), np.bool_)
    late = np.append(0, np.cumsum(_begins_too_early(picked.lists.whole())))
    found: Mask = late[picked.last] > late[np.minimum(picked.first + 1, picked.last)]
    return found


def _begins_too_early(lists: Lists) -> Mask:
    """Whether a cell's first row comes before the last row of the nearest earlier cell that is not empty."""
    early = np.zeros(len(lists), np.bool_)
    held = np.flatnonzero(lists.at[1:] > lists.at[:-1])
    first, last = lists.items[lists.at[held]][1:], lists.items[lists.at[held + 1] - 1][:-1]
    before, same = np.zeros(len(first), np.bool_), np.ones(len(first), np.bool_)
    for a, b in zip(first.T, last.T, strict=True):
        before |= same & (a < b)
        same &= a == b
    early[held[1:]] = before
    return early


def concatenated(parts: Sequence[Lists]) -> Lists:
    """Concatenate lists of one lane."""
    whole = [p.whole() for p in parts]
    shift = np.cumsum([0, *(p.size for p in whole)])
    at = np.concatenate([[0], *(p.at[1:] + by for p, by in zip(whole, shift[:-1], strict=True))])
    return Lists(at, np.concatenate([p.items for p in whole]))


def _table(words: Sequence[Ints], rows: Ints | None) -> Ints:
    """Some rows, or all, of columns of words, as a table. Some thousand rows at a time stay in the cache: 1 M rows of
    four words 19 -> 6 ms."""
    size, width = words[0].size if rows is None else rows.size, len(words)
    table = np.empty((size, width), np.int64) if size < MANY_ROWS else table_room(size, width)
    for at in range(0, size, TOGETHER):
        some = slice(at, at + TOGETHER)
        for column, word in enumerate(words):
            table[some, column] = word[some] if rows is None else word.take(rows[some])
    return table


def _grouped(cell: Ints, start: Ints, x: Ints, ascending: bool) -> Ints:
    """Rows sorted by cell. Rows of one cell keep their order."""
    if ascending:
        return x
    x = x.view()
    x.setflags(write=False)  # feeds are read-only too: the kernel is compiled for one type only
    out = np.empty(x.size, np.int64)
    k.group(cell, start[:-1].copy(), np.ascontiguousarray(x), out)
    return out


def _counted(values: Ints, start: Ints, make: Callable[..., int]) -> Lists:
    """Sorted lists with counts (or registers with their largest rank), from values grouped by cell."""
    at, items = np.empty(start.size, np.int64), np.empty((values.size, 2), np.int64)
    low, near = _near(values, start.size - 1) if make is k.run_lengths else (0, 0)
    if near:
        n = k.near_lengths(values, start, low, np.zeros(near, np.int64), at, items)
    else:
        n = make(_sorted_within(values, start), start, at, items)
    return Lists(at, items if n == values.size else items[:n].copy())


def _near(values: Ints, cells: int) -> tuple[int, int]:
    """The smallest value and, if values lie so near to each other that counting them costs less than sorting, how many
    numbers there are up to the largest; otherwise 0."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    numbers = high - low + 1
    return low, numbers if numbers * cells <= values.size else 0


def _sorted_within(values: Ints, start: Ints) -> Ints:
    """Sort each cell's values. Cells of similar size become rows of one matrix, as numpy sorts matrix rows with SIMD,
    10 times as fast as a compiled loop."""
    values, size = values.copy(), np.diff(start)
    for c in np.flatnonzero(size > SORTED_ALONE):  # each sort takes longer than one round of this loop
        values[start[c] : start[c + 1]].sort()
    several = np.flatnonzero((size > 1) & (size <= SORTED_ALONE))
    width = np.frexp((size[several] - 1).astype(np.float64))[1]  # bits
    for bits in np.flatnonzero(np.bincount(width)):
        chosen = several[width == bits]
        matrix = np.empty((chosen.size, 1 << bits), np.int64)
        k.spread(values, start[chosen], size[chosen], matrix)
        matrix.sort(axis=1)
        k.gathered(matrix, start[chosen], size[chosen], values)
    return values


def _row_order(words: Sequence[Ints]) -> Ints | None:
    """The order of the rows by time, sequence, arrival and values; None if they are in this order."""
    t, s, a = words[:3]
    if _in_order(t, s, a):
        return None
    if s.any() or not (a[1:] > a[:-1]).all():
        return order_by(*words[::-1])
    return stable_order(t)


def _in_order(t: Ints, s: Ints, a: Ints) -> bool:
    """Whether rows are in order of time, sequence and arrival, if none has a sequence."""
    return bool((t[1:] >= t[:-1]).all()) and not s.any() and bool((a[1:] > a[:-1]).all())
