"""Lists: partials that are a sorted list per cell. Windows over them are ranges of cells and are never merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from slicing.columns.arrow_out import table_room
from slicing.kernels import lists as k
from slicing.system.arrays import Ints, Mask

Shared = TypeVar("Shared")

Index = Ints | Mask | slice

TOGETHER = 4096  # rows that are put into a table together
SORTED_ALONE = 4096  # a cell with more rows is sorted by a call of its own
MERGED_LOOSE = 1 << 20  # more values are sorted and counted when their cells are merged: many may be equal


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

    def word(self, number: int) -> Ints:
        """One word of each item, of lists that are :meth:`whole`."""
        return np.ascontiguousarray(self.items[:, number])

    def some(self, index: Ints) -> Ints:
        """Some items, of lists that are :meth:`whole`."""
        found: Ints = self.items[index]
        return found

    def cells(self) -> Ints:
        """The cell of each item, of lists that are :meth:`whole`."""
        return np.repeat(np.arange(len(self)), np.diff(self.at))

    def whole(self) -> Lists:
        """The lists of these cells, with only their items in ``items``."""
        if self.at[0] == 0 and self.at[-1] == len(self.items):
            return self
        return Lists(self.at - self.at[0], self.items[self.at[0] : self.at[-1]])


class Deferred(Lists):
    """Lists whose items are made when something reads them. Until then other memory is held in their place.

    The cells of the ``rest`` are ``start[c] : start[c + 1]``. Both go when the items are made.
    """

    def __init__(self, start: Ints, *rest: Ints) -> None:
        rest = tuple(some[start[0] : start[-1]] for some in rest)
        start = start - start[0] if start[0] else start
        for some in rest:
            some.setflags(write=False)  # kernels are compiled for one type
        vars(self)["_held"] = Raw(start, rest)

    @property
    def raw(self) -> Raw | None:
        """What is held as long as nothing has read the items."""
        held: Raw | Lists = vars(self)["_held"]
        return held if isinstance(held, Raw) else None

    @property
    def made(self) -> Lists:
        held: Raw | Lists = vars(self)["_held"]
        if isinstance(held, Raw):
            held = vars(self)["_held"] = self._make(held)
        return held

    def _make(self, raw: Raw) -> Lists:
        raise NotImplementedError

    @property
    def at(self) -> Ints:
        return self.made.at

    @property
    def items(self) -> Ints:
        return self.made.items

    def __len__(self) -> int:
        held: Raw | Lists = vars(self)["_held"]
        return (held.start if isinstance(held, Raw) else held.at).size - 1

    @property
    def size(self) -> int:
        raw = self.raw
        return self.made.size if raw is None else int(raw.start[-1])

    @property
    def nbytes(self) -> int:
        raw = self.raw
        return self.made.nbytes if raw is None else int(raw.start.nbytes) + 8 * int(raw.start[-1]) * len(raw.rest)

    def __getitem__(self, index: Index) -> Lists:
        raw = self.raw
        if raw is None or not isinstance(index, slice):
            return self.made[index]
        first, stop, _ = index.indices(len(self))
        start = raw.start[first : max(first, stop) + 1]
        if 2 * (start[-1] - start[0]) > raw.start[-1]:
            return type(self)(start, *raw.rest)
        return type(self)(start - start[0], *(some[start[0] : start[-1]].copy() for some in raw.rest))

    def take(self, index: Ints, axis: int = 0) -> Lists:
        return self.made.take(index, axis)

    def grouped(self, members: Ints, bounds: Ints, keys: int, fuse: int) -> Lists:
        return self.made.grouped(members, bounds, keys, fuse)

    def whole(self) -> Lists:
        return self.made


class Raw(NamedTuple):
    """What :class:`Deferred` lists hold in place of their items."""

    start: Ints
    rest: tuple[Ints, ...]


class Loose(Deferred):
    """Values of cells, as they came. Their items are the values sorted and counted.

    A window of one cell needs no order: selecting the median of 1850 values costs a fourth of sorting and counting
    them.
    """

    def _make(self, raw: Raw) -> Lists:
        return counted(raw.rest[0], raw.start, k.run_lengths)

    def take(self, index: Ints, axis: int = 0) -> Lists:
        raw = self.raw
        return super().take(index, axis) if raw is None else _moved(raw, index, np.arange(index.size + 1))

    def grouped(self, members: Ints, bounds: Ints, keys: int, fuse: int) -> Lists:
        raw = self.raw
        if raw is not None and raw.start[-1] <= MERGED_LOOSE:
            return _moved(raw, members, bounds)
        return super().grouped(members, bounds, keys, fuse)


class Singles(Deferred):
    """One value for each cell. Its item is the value with the count 1."""

    def _make(self, raw: Raw) -> Lists:
        return Lists(raw.start, np.stack([raw.rest[0], np.ones(raw.start.size - 1, np.int64)], axis=1))


def _moved(raw: Raw, members: Ints, bounds: Ints) -> Loose:
    """For each g, the values of the cells ``members[bounds[g] : bounds[g + 1]]``."""
    first, last = raw.start[members], raw.start[members + 1]
    to = np.append(0, np.cumsum(last - first))
    values = np.empty(to[-1], np.int64)
    k.copied(raw.rest[0], first, last, to[:-1], values)
    return Loose(to[bounds], values)


class Columns(Deferred):
    """Rows of cells as columns, one for each word of their items: lists of one column's values need only that one."""

    def _make(self, raw: Raw) -> Lists:
        return Lists(raw.start, as_items(raw.rest, None))

    @property
    def at(self) -> Ints:
        raw = self.raw
        return self.made.at if raw is None else raw.start

    def word(self, number: int) -> Ints:
        raw = self.raw
        return self.made.word(number) if raw is None else raw.rest[number]

    def some(self, index: Ints) -> Ints:
        raw = self.raw
        return self.made.some(index) if raw is None else np.stack([word.take(index) for word in raw.rest], axis=1)

    def whole(self) -> Lists:
        return self


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


def concatenated(parts: Sequence[Lists]) -> Lists:
    """Concatenate lists of one lane."""
    raws = [p.raw for p in parts if isinstance(p, Deferred)]
    held = [raw for raw in raws if raw is not None]
    kinds = set(map(type, parts))
    if len(held) == len(parts) and len(kinds) == 1:
        (kind,) = kinds
        shift = np.cumsum([0, *(raw.start[-1] for raw in held)])
        start = np.concatenate([[0], *(raw.start[1:] + by for raw, by in zip(held, shift[:-1], strict=True))])
        return kind(start, *map(np.concatenate, zip(*(raw.rest for raw in held), strict=True)))
    whole = [p.whole() for p in parts]
    shift = np.cumsum([0, *(p.size for p in whole)])
    at = np.concatenate([[0], *(p.at[1:] + by for p, by in zip(whole, shift[:-1], strict=True))])
    return Lists(at, np.concatenate([p.items for p in whole]))


def interleaved(picked: Picked) -> Mask:
    """For windows of rows in order: whether some slice of the window has a row that comes before a row of an earlier
    slice."""
    if not (picked.last - picked.first > 1).any():
        return np.zeros(len(picked), np.bool_)
    lists = picked.lists.whole()
    held = np.flatnonzero(lists.at[1:] > lists.at[:-1])
    late = np.append(0, np.cumsum(_begins_too_early(lists, held)))
    second = np.append(held + 1, len(lists))[held.searchsorted(picked.first)]  # after the first slice that has rows
    found: Mask = late[picked.last] > late[np.minimum(second, picked.last)]
    return found


def _begins_too_early(lists: Lists, held: Ints) -> Mask:
    """Whether a cell's first row comes before the last row of the nearest earlier cell that is not empty. ``held``: the
    cells that are not empty."""
    early = np.zeros(len(lists), np.bool_)
    first, last = lists.some(lists.at[held])[1:], lists.some(lists.at[held + 1] - 1)[:-1]
    before, same = np.zeros(len(first), np.bool_), np.ones(len(first), np.bool_)
    for a, b in zip(first.T, last.T, strict=True):
        before |= same & (a < b)
        same &= a == b
    early[held[1:]] = before
    return early


def counted(values: Ints, start: Ints, make: Callable[..., int]) -> Lists:
    """Sorted lists with counts (or registers with their largest rank), from values grouped by cell."""
    at, items = np.empty(start.size, np.int64), np.empty((values.size, 2), np.int64)
    low, numbers = near(values, start.size - 1) if make is k.run_lengths else (0, 0)
    if numbers:
        n = k.near_lengths(values, start, low, np.zeros(numbers, np.int64), at, items)
    else:
        n = make(_sorted_within(values, start), start, at, items)
    return Lists(at, items if n == values.size else items[:n].copy())


def owned(words: Ints) -> Ints:
    """The words, or a copy if they lie in memory that may be written into."""
    of = words
    while isinstance(of.base, np.ndarray):
        of = of.base
    return words if of.flags.owndata else words.copy()


def near(values: Ints, cells: int) -> tuple[int, int]:
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


def as_items(words: Sequence[Ints], rows: Ints | None) -> Ints:
    """Some rows, or all, of columns of words, as a table. Some thousand rows at a time stay in the cache: 1 M rows of
    four words 19 -> 6 ms. Half of the rows or more are taken from a table of all, where each lies on one or two lines
    of memory: 1 M by 1000 keys 45 -> 17 ms."""
    size, width = words[0].size, len(words)
    if rows is not None and 2 * rows.size < size:
        return np.stack([word.take(rows) for word in words], axis=1)
    table = table_room(size, width)
    for at in range(0, size, TOGETHER):
        for column, word in enumerate(words):
            table[at : at + TOGETHER, column] = word[at : at + TOGETHER]
    return table if rows is None else table.take(rows, axis=0)
