"""Windows over the values of slices: the lists of each window, values as numbers, values by rank, the largest values.

Overlapping windows share the sorting and the counting (:class:`Windows`). Windows of one cell each select from values
that nobody sorted (:class:`Selecting`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from slicing.cells.lists import Loose, Picked, Raw, Singles
from slicing.columns import values as v
from slicing.columns.arrow_out import array_of
from slicing.columns.order import begins, is_sorted, numbered, order_by, ranges, stable_order
from slicing.columns.values import ValueType
from slicing.kernels import holistic as k
from slicing.kernels import linked, marked
from slicing.system.arrays import Array, Floats, Ints, Mask, read_only

BUCKETS = 4096  # at most so many buckets
# Visits of slices to windows, for each value, from which on all values are sorted and linked. 0.1 visits, an hour every
# five minutes: noise 31 -> 33 ms, a random walk 59 -> 35: its highest values lie behind all pivots of windows before.
VISITS = 0.05
MOST_CHAINS = 64  # in which windows begin and end in order
FEW_OF_ALL = 4  # fewer cells than a fourth of all are copied: sessions of 3 M rows 1670 -> 980 ms
SORTED_HERE = 32  # a block with more values is sorted by numpy
VISITS_OF_LARGEST = 4  # likewise, for the largest values: 1 visit 2.3 -> 4.7 ms, 6 visits 13 -> 6

Numbers = TypeVar("Numbers", Ints, Floats)


class _Filled:
    """The windows of a lane that have values."""

    size: int  # the number of all windows
    filled: Mask  # whether a window has values
    place: Ints  # the windows that have values
    whole = False  # whether these are all windows, as they came

    def spread(self, found: Numbers) -> Numbers:
        """One number for each window, from those of the windows that have values."""
        if self.whole:
            return found
        out = np.zeros(self.size, found.dtype)
        out[self.place] = found
        return out

    def lists(self, at: Ints, words: Ints, value: ValueType, pool: pa.Array | None) -> pa.Array:
        """One list for each window; null if it has no values."""
        sizes = np.diff(at)
        starts = np.append(0, np.cumsum(self.spread(sizes)))
        moved = np.empty(words.size, np.int64)
        target = np.repeat(starts[self.place] - at[:-1], sizes) + np.arange(words.size)
        moved[target] = words
        return list_array(starts, value.array(moved, None, pool), ~self.filled)


class Windows(_Filled):
    """The windows of a lane that have values, in an order in which neighbours overlap if windows do."""

    chains: Ints | None  # bounds of windows that begin and end in order. None: of too many, or if each has one cell

    def __init__(self, block: Picked) -> None:
        raw = block.lists.raw if isinstance(block.lists, Singles) else None
        if raw is not None:
            self.at = self.before = raw.start
            (self.value,) = raw.rest
        else:
            block = _near(block)
            lists = block.lists.whole()
            self.at, self.before = lists.at, np.append(0, np.cumsum(lists.items[:, 1]))
            self.value = read_only(lists.items[:, 0])  # as raw values are: kernels are compiled for one type
        self.from_cells, self.single = block.lists, raw is not None
        first, last = block.first, block.last
        filled = last > first if self.single else self.before[self.at[last]] > self.before[self.at[first]]
        some = np.flatnonzero(filled)
        if some.size < filled.size:
            first, last = first[some], last[some]
        self.whole, self.chains = some.size == filled.size, None
        if (last - first > 1).any():
            self.chains = np.array([0, some.size])
            if not (is_sorted(first) and is_sorted(last)):
                order, self.chains = _in_chains(first, last)
                some, first, last, self.whole = some[order], first[order], last[order], False
        self.size, self.filled, self.place = len(block), filled, some
        self.first, self.last = first, last
        self._number: tuple[Ints, int] | None = None
        self._ranks: list[tuple[Ints, Ints]] = []  # shared by selections

    @staticmethod
    def of(block: Picked) -> Windows | Selecting:
        """Windows of sorted values, unless no window needs them sorted."""
        raw = block.lists.raw if isinstance(block.lists, Loose) else None
        if raw is None or (block.last - block.first > 1).any():
            return Windows(block)
        return Selecting(block, raw)

    def some(self, which: Ints) -> Windows:
        """A selection of the windows, over the same lists."""
        chosen = copy.copy(self)
        chosen.first, chosen.last, chosen.chains = self.first[which], self.last[which], None
        return chosen

    @property
    def count(self) -> Ints:
        """For each window, the number of its rows that have a value."""
        if self.single:
            return self.last - self.first
        return self.before[self.at[self.last]] - self.before[self.at[self.first]]

    def of_largest(self, beyond: int) -> Ints:
        """The largest magnitude of the values of each window, without magnitudes of ``beyond`` or more."""
        size = np.abs(self.value)
        size[(size >= beyond) | (self.value == v.SIGN_BIT)] = 0
        cells, held = np.zeros(self.at.size, np.int64), np.flatnonzero(np.diff(self.at))
        if held.size:
            cells[held] = np.maximum.reduceat(size, self.at[held])
        return _largest_within(cells, self.first, self.last)

    def number(self) -> tuple[Ints, int]:
        """Values as numbers from 0, and how many different numbers there are."""
        if self._number is None:
            bits = max(2 * self.value.size - 1, 1).bit_length()
            slot_value, slot_number = np.empty(1 << bits, np.int64), np.zeros(1 << bits, np.int64)
            number = np.empty(self.value.size, np.int64)
            n = k.number_values(self.value, slot_value, slot_number, np.uint64(64 - bits), number)
            self._number = number, int(n)
        return self._number

    def visits_more(self, share: float) -> bool:
        """Whether windows that look for their values in slices visit more of them than this for each value."""
        return int(self.last.sum() - self.first.sum()) > share * self.value.size

    def ranks(self) -> tuple[Ints, Ints, list[Array]]:
        """The different values, ascending, the rank of each value among them, and room to count rows by rank and to
        mark ranks (``kernels.marked``)."""
        if not self._ranks:
            self._ranks.append(numbered(self.value))
        values, rank = self._ranks[0]
        words = [
            np.zeros((values.size >> b) + 1, np.uint64) for b in range(marked.GROUP, 5 * marked.GROUP, marked.GROUP)
        ]
        counts = np.zeros(0 if self.before[-1] == values.size else values.size + 1, np.int64)
        return values, rank, [counts, *words]

    def ranked(self, low: Ints, high: Ints) -> Ints:
        """The values of the rows with ranks ``low`` and ``high`` (equal or the next) of each window, by ascending
        value."""
        if self.chains is not None and self.visits_more(VISITS):
            return self._linked(low, high)
        items = self.at[self.last] - self.at[self.first]
        room, weight = np.empty((2, 2 * int(items.max(initial=0)) + 1), np.int64)  # cells enter before others leave
        lists = self.at, self.value, self.before
        small = items <= k.SMALL
        if small.all():
            out = np.empty((low.size, 2), np.int64)
            k.select_small(self.first, self.last, low, high, *lists, room, weight, out)
            return out
        if small.any():
            out = np.empty((low.size, 2), np.int64)
            for which in (np.flatnonzero(small), np.flatnonzero(~small)):
                out[which] = self.some(which).ranked(low[which], high[which])
            return out
        out, begin = np.empty((low.size, 2), np.int64), 0
        pivots, built, bucket = np.empty(0, np.int64), 0, np.empty(self.value.size, np.int32)
        while begin < low.size:
            begin = k.select(
                np.int64(begin), self.first, self.last, low, high, *lists, pivots, np.int64(built), bucket, room,
                weight, out,
            )  # fmt: skip
            if begin < low.size:
                built = int(items[begin])
                pivots = _pivots(self.value[self.at[self.first[begin]] :][:built])
        return out

    def _linked(self, low: Ints, high: Ints) -> Ints:
        """As :meth:`ranked`, of windows of many cells: no answer visits its cells (``kernels.linked``)."""
        assert self.chains is not None
        rows = self.before if self.before[-1] > self.value.size else np.empty(0, np.int64)
        begin, end = (self.first, self.last) if self.single else (self.at[self.first], self.at[self.last])
        out = np.empty((2, low.size), np.int64)
        for a, b in pairwise(self.chains.tolist()):
            cuts = np.empty(2 * (b - a) + 1, np.int64)
            cuts = cuts[: linked.blocks_of(begin[a:b], end[a:b], cuts)]
            room = np.empty((3, 2 * int(np.diff(cuts).max()) + 2), np.int32)
            order = _order_within(self.value, cuts)
            linked.select_linked(
                begin[a:b], end[a:b], low[a:b], high[a:b], cuts, order, self.value, rows, *room, out[:, a:b]
            )
        return out.T

    def largest(self, wanted: int, is_float: bool) -> tuple[Ints, Ints]:
        """The ``wanted`` largest values of each window, descending, and where those of each window begin. NaN comes
        last."""
        at = np.empty(self.first.size + 1, np.int64)
        out = np.empty(int(np.minimum(self.count, wanted).sum()), np.int64)
        ends = self.first, self.last, self.at
        if not self.visits_more(VISITS_OF_LARGEST):
            k.largest(*ends, self.value, self.before, np.int64(wanted), is_float, at, out)
            return at, out
        values, rank, counts = self.ranks()
        nan = values.size - 1 if is_float and values[-1] == v.TOP else -1
        marked.largest_ranked(*ends, rank, self.before, np.int64(wanted), np.int64(nan), *counts, at, out)
        return at, values[out[: at[-1]]]

    def flipped(self) -> Windows:
        """These windows, with the complement of each value: the largest of them are the least values here."""
        other = copy.copy(self)
        other.value = read_only(~self.value[::-1])
        other.at, other.before = (some[-1] - some[::-1] for some in (self.at, self.before))
        cells = self.at.size - 1
        other.first, other.last, other._ranks = cells - self.last, cells - self.first, []
        return other

    def distinct(self) -> Ints:
        """How many different values each window has."""
        out = self.at[self.last] - self.at[self.first]  # all values of a slice differ
        if (self.last > self.first + 1).any():
            number, n = self.number()
            k.distinct(self.first, self.last, self.at, number, np.zeros(n, np.int64), out)
        return out


class Selecting(_Filled):
    """The windows of a lane that have values, each of one cell. Their values are in no order (``Loose``)."""

    def __init__(self, block: Picked, raw: Raw) -> None:
        begin, end = raw.start[block.first], raw.start[block.last]
        self.size, self.filled = len(block), end > begin
        self.place = np.flatnonzero(self.filled)
        self.begin, self.count = begin[self.place], (end - begin)[self.place]
        (self.value,) = raw.rest

    def _each(self) -> Iterator[Ints]:
        """The values of each window, in memory that the next window takes over."""
        room = np.empty(int(self.count.max(initial=0)), np.int64)
        for begin, count in zip(self.begin.tolist(), self.count.tolist(), strict=True):
            some = room[:count]
            some[:] = self.value[begin : begin + count]
            yield some

    def ranked(self, low: Ints, high: Ints) -> Ints:
        """As :meth:`Windows.ranked`."""
        out = np.empty((low.size, 2), np.int64)
        for i, (some, a, b) in enumerate(zip(self._each(), low.tolist(), high.tolist(), strict=True)):
            some.partition(a)
            out[i] = some[a], some[b:].min()
        return out

    def largest(self, wanted: int, is_float: bool) -> tuple[Ints, Ints]:
        """As :meth:`Windows.largest`."""
        at, found = np.append(0, np.cumsum(np.minimum(self.count, wanted))), [v.NOWHERE]
        has_nan = is_float and int(self.value.max(initial=0)) == v.TOP
        for some in self._each():
            if has_nan:
                some[some == v.TOP] = v.SIGN_BIT  # below all numbers
            first = max(some.size - wanted, 0)
            some.partition(first)
            found.append(np.sort(some[first:])[::-1])
        out = np.concatenate(found)
        if has_nan:
            out[out == v.SIGN_BIT] = v.TOP
        return at, out

    def flipped(self) -> Selecting:
        """As :meth:`Windows.flipped`."""
        other = copy.copy(self)
        other.value = read_only(~self.value)
        return other

    def distinct(self) -> Ints:
        """As :meth:`Windows.distinct`."""
        out = np.empty(self.count.size, np.int64)
        for i, some in enumerate(self._each()):
            some.sort()
            out[i] = 1 + np.count_nonzero(some[1:] != some[:-1])
        return out


def check_room(starts: Ints) -> None:
    """Raise if the values of all lists do not fit one column."""
    if starts[-1] >= 2**31:
        raise OverflowError(
            f"{starts.size - 1:,} lists have {starts[-1]:,} values in all, and a column at most {2**31 - 1:,}: close "
            "fewer windows at a time, or ask for fewer values of each: collect(column, at_most=), sample(column, k)"
        )


def list_array(starts: Ints, values: pa.Array, empty: Mask) -> pa.Array:
    check_room(starts)
    offsets = array_of(starts.astype(np.int32), np.append(empty, False) if empty.any() else None)
    return pa.ListArray.from_arrays(offsets, values)


def _near(block: Picked) -> Picked:
    """The windows over a copy of their own cells, if these are few of all cells: results are made piece by piece, and
    each piece would look at all cells."""
    sizes = block.last - block.first
    ends = np.cumsum(sizes)
    if len(block) and FEW_OF_ALL * ends[-1] < len(block.lists):
        return Picked(block.lists.whole().take(ranges(block.first, sizes)), ends - sizes, ends)
    return block


def _in_chains(first: Ints, last: Ints) -> tuple[Ints, Ints | None]:
    """An order in which windows begin and end in order, several times over, and where each such chain begins.

    None: there would be many. Then windows of similar length are adjacent.
    """
    order = order_by(first, last)
    chain = np.empty(order.size, np.int64)
    chains = linked.chained(first[order], last[order], np.empty(MOST_CHAINS, np.int64), chain)
    if chains < 0:
        return order_by(last, first, np.frexp((last - first).astype(np.float64))[1]), None
    return order[stable_order(chain)], np.append(0, np.cumsum(np.bincount(chain)))


def _largest_within(numbers: Ints, first: Ints, last: Ints) -> Ints:
    """The largest of the numbers of each range, none of which is empty: that of the two ranges of the largest power of
    two, one from its begin and one up to its end. approx_quantile of 80,000 growing windows: 0.6 -> 0.04 s."""
    out, doublings = np.empty(first.size, np.int64), np.frexp((last - first).astype(np.float64))[1] - 1
    for doubled in range(int(doublings.max(initial=-1)) + 1):
        reach = 1 << doubled  # ``numbers``: the largest of so many from each place on
        some = np.flatnonzero(doublings == doubled)
        out[some] = np.maximum(numbers.take(first[some]), numbers.take(last[some] - reach))
        numbers = np.maximum(numbers[:-reach], numbers[reach:])
    return out


def _order_within(value: Ints, cuts: Ints) -> Array:
    """The order by value within each block of values, each counted from its begin. Neighbours of one size become rows
    of one matrix, as numpy sorts these with SIMD."""
    order, size = np.empty(value.size, np.int32), np.diff(cuts)
    linked.order_short(value, cuts, np.int64(SORTED_HERE), order)
    alike = np.append(begins(size), size.size)
    for a, b in pairwise(alike.tolist()):
        if size[a] > SORTED_HERE:
            block = slice(cuts[a], cuts[b])
            order[block] = value[block].reshape(b - a, -1).argsort(axis=1).ravel()
    return order


def _pivots(values: Ints) -> Ints:
    """Values that cut ``values`` into buckets of about equal size. Every cell is merged with all pivots, but all items
    of a bucket are searched: 2 sqrt(n) is the best number or near it for 600 to 300,000 items (measured)."""
    buckets = min(max(2 * math.isqrt(values.size), 2), BUCKETS)
    step = max(values.size // (8 * buckets), 1)
    spots = np.arange(0, values.size - step + 1, step)
    spots += (spots * 0x9E3779B1 >> 7) % step  # spread, so as not to hit the same place in every slice
    sample = np.sort(values[spots])
    return np.unique(sample[np.linspace(0, sample.size - 1, buckets).astype(np.int64)[1:]])
