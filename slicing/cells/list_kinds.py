"""The kinds of partials that are lists: how lists are made from rows, and merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slicing.cells.lanes import Lane
from slicing.cells.lists import Columns, Lists, Loose, Picked, Singles, as_items, concatenated, counted, near, owned
from slicing.columns.order import inverse, order_by, ranges, stable_order
from slicing.kernels import lists as k
from slicing.kernels.first_items import first_items
from slicing.kernels.strategies import Combinations
from slicing.kernels.table import hash_words
from slicing.system.arrays import MOST, Array, Bytes, Ints

# With so many rows for each that cells may keep, those that none keeps are left out before sorting. Only if cells keep
# few: 100 of 1 M rising values 90 -> 50 ms, but 1000 of them 70 -> 180.
ROWS_A_KEPT, FEW_KEPT = 4, 64
SHARED = 3  # cells of windows for each cell, above which windows share the search for first rows: 4 cells 35 -> 26 ms


class Lifting(NamedTuple):
    """Rows of a batch that are to become cells of one lane."""

    cell: Callable[[], Ints]  # of each row
    cells: int
    counts: Ints | None  # of the rows of each cell, if rows come sorted by cell
    valid: Bytes  # one byte per row; empty: all rows count
    feeds: Sequence[Array]
    order: Callable[[], tuple[Ints, Ints, Ints]]  # time, sequence, arrival (all 0 where there is none)
    lent: bool  # whether the memory of the feeds stays as it is for as long as the lists are kept
    loose: bool  # whether windows may select from values in no order: none shares a cell, and cells are large


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

    def within(self, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Which of the items ``first[j] : last[j]``, in order, an answer has."""
        return first, last

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
        chosen = None if rows.valid.size == 0 else np.flatnonzero(rows.valid)
        cell, counts = None, rows.counts
        if counts is None or chosen is not None:
            cell = rows.cell() if chosen is None else rows.cell()[chosen]
            counts = np.bincount(cell, minlength=rows.cells)
        start = np.append(0, np.cumsum(counts))
        unsorted = cell if rows.counts is None else None
        if self.fuse and self.words == 2:
            x = rows.feeds[0] if chosen is None else rows.feeds[0][chosen]
            return self._of_values(_grouped(unsorted, start, x), start, rows)
        t, s, a = rows.order()
        every = np.arange(t.size) if chosen is None else chosen
        if self.fuse:
            x = rows.feeds[0]
            known = x if chosen is None else x[every]
            low, numbers = near(known, rows.cells)
            at, items = np.empty(start.size, np.int64), np.empty((every.size, self.words), np.int64)
            if numbers and _in_order(t, s, a):
                order, room = _grouped(unsorted, start, every), np.zeros((2, numbers), np.int64)
                n = k.near_earliest(order, start, x, t, s, a, low, *room, at, items)
            else:
                by_value = stable_order(known)
                cell = rows.cell() if cell is None else cell
                order = _grouped(cell[by_value], start, by_value if chosen is None else every[by_value])
                n = k.run_earliest(order, start, x, t, s, a, at, items)
            return Lists(at, items[:n].copy())
        words = [c.view(np.int64) for c in (t, s, a, *rows.feeds)]
        row_order = _row_order(words if chosen is None else [c[every] for c in words])
        if row_order is None and unsorted is None:
            if chosen is not None:
                return Columns(start, *(word.take(chosen) for word in words))
            return Columns(start, *(words if rows.lent else map(owned, words)))
        cell = rows.cell() if cell is None else cell
        if row_order is not None:
            cell, every = cell[row_order], every[row_order]
        return Lists(start, as_items(words, _grouped(cell, start, every)))

    def _of_values(self, values: Ints, start: Ints, rows: Lifting) -> Lists:
        """The lists of values that are grouped by cell."""
        if self.fuse == k.MOST:
            return counted(values, start, k.run_largest)
        single = values.size == rows.cells and bool((start == np.arange(start.size)).all())
        if single or (rows.loose and not near(values, start.size - 1)[1]):
            return (Singles if single else Loose)(start, values.view() if rows.lent else owned(values))
        return counted(values, start, k.run_lengths)


@dataclass(frozen=True)
class Netted(ListKind):
    """Values with counts, less the values taken back: the second feed is 1 or -1. A value whose count becomes 0 is
    dropped."""

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        sign = rows.feeds[1]
        values = rows._replace(feeds=rows.feeds[:1], loose=False)
        if (sign > 0).all():
            return super().lifted(lane, values)
        known = np.ones(sign.size, np.bool_) if rows.valid.size == 0 else rows.valid.view(np.bool_)
        added, taken = (
            super(Netted, self).lifted(lane, values._replace(valid=(known & which).view(np.uint8)))
            for which in (sign > 0, sign < 0)
        )
        taken.items[:, 1] *= -1
        into = np.arange(rows.cells)
        return self.merged(lane, np.append(into, into), rows.cells, added, taken)


@dataclass(frozen=True)
class Bounded(ListKind):
    """Lists of at most ``most`` items: the first items of each cell, or the last."""

    most: int = 1
    keeps_last: bool = False

    def lifted(self, lane: Lane, rows: Lifting) -> Lists:
        return self.cut(super().lifted(lane, rows))

    def merged(self, lane: Lane, into: Ints, size: int, older: Lists, newer: Lists) -> Lists:
        return self.cut(super().merged(lane, into, size, older, newer))

    def within(self, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        if self.keeps_last:
            return np.maximum(first, last - self.most), last
        return first, np.minimum(last, first + self.most)

    def cut(self, lists: Lists) -> Lists:
        """Keep so many items of each cell."""
        lists = lists.whole()
        if int(np.diff(lists.at).max(initial=0)) <= self.most:
            return lists
        first, last = self.within(lists.at[:-1], lists.at[1:])
        return Lists(np.append(0, np.cumsum(last - first)), lists.some(ranges(first, last - first)))


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
        return self.cut(Lists(at, as_items(words, order_by(*words[3::-1], cell))))

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


def some_in_order(most: int, keeps_last: bool) -> Bounded:
    """The first rows by (time, sequence, arrival), or the last, each with the word of its value."""
    name = f"{'last' if keeps_last else 'first'} rows in order"
    return Bounded(name, 4, 4, k.KEEP, ((3, 0),), None, most, keeps_last)


def rows_of(block: Lists | Picked, kind: ListKind) -> Lists:
    """The rows of each window, in order."""
    picked = Picked.of(block)
    sizes = picked.last - picked.first
    bounds = np.append(0, np.cumsum(sizes))
    members = np.repeat(picked.first - bounds[:-1], sizes) + np.arange(bounds[-1])
    return picked.lists.grouped(members, bounds, kind.keys, kind.fuse)


@dataclass(frozen=True)
class Chosen:
    """Some items of lists, as lists: ``which[at[c] : at[c + 1]]`` are the items of cell c."""

    lists: Lists
    at: Ints
    which: Ints

    def word(self, number: int) -> Ints:
        """One word of each item."""
        found: Ints = self.lists.items[:, number][self.which]
        return found


def bounded_rows_of(block: Lists | Picked, kind: Bounded) -> Lists | Chosen:
    """The first rows of each window, or the last. Windows that overlap share the search for them
    (``kernels.first_items``).

    A sample of 5 of the last 20,000 of 200,000 rows, at each row: 2.5 -> 0.08 s."""
    picked = Picked.of(block)
    first, last, lists = picked.first, picked.last, picked.lists.whole()
    sizes, cells = last - first, len(lists)
    if int(sizes.sum()) <= SHARED * cells or not lists.size:
        return kind.cut(rows_of(picked, kind))
    counts = np.minimum(lists.at[last] - lists.at[first], kind.most)
    at, ordered = np.append(0, np.cumsum(counts)), order_by(*[lists.word(n) for n in range(kind.keys - 1, -1, -1)])
    item_at, rank, latest = lists.at, inverse(ordered), ordered.size - 1
    if kind.keeps_last:  # the first rows of the other direction
        first, last, item_at, rank = cells - last, cells - first, item_at[-1] - item_at[::-1], latest - rank[::-1]
    some = np.flatnonzero(counts)
    order = some.take(order_by(last[some], np.frexp(sizes[some].astype(np.float64))[1]))
    out = np.empty(at[-1], np.int64)
    first_items(order, first, last, item_at, rank, at, out)
    if kind.keeps_last:
        out = latest - out[np.repeat(at[:-1] + at[1:] - 1, counts) - np.arange(out.size)]
    return Chosen(lists, at, ordered.take(out))


def _grouped(cell: Ints | None, start: Ints, x: Ints) -> Ints:
    """Rows sorted by cell (None: they are). Rows of one cell keep their order."""
    if cell is None:
        return x
    x = x.view()
    x.setflags(write=False)  # feeds are read-only too: the kernel is compiled for one type only
    out = np.empty(x.size, np.int64)
    k.group(cell, start[:-1].copy(), np.ascontiguousarray(x), out)
    return out


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
