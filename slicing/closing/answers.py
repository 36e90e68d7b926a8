"""Answers: windows to emit, with their combined partials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.closing.numbers import Filled, Numbers
from slicing.columns.order import order_by, picked
from slicing.kernels.windows import named_rows
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask

# rows of windows that several names may share: numbers of names, windows, indexes of their partials, names
Shown = tuple[Ints, Ints, Ints, pa.Array | None]


class LazyBlocks(Protocol):
    """Partials that are made when they are read, for some windows at a time."""

    def __len__(self) -> int: ...

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        """Slices of the windows, each with the partials of its windows."""

    def whole(self) -> tuple[Block, ...]:
        """The partials of all windows."""

    def numbers(self, wanted: Numbers) -> list[Filled] | None:
        """Result columns. None if a sum may not fit."""


@dataclass(eq=False)
class Answers:
    """Windows with rows: their number (in name order), bounds, key and combined partials."""

    window: Ints
    start: Ints  # if the ranges are found when they are read, this is filled then
    end: Ints
    code: Ints
    blocks: tuple[Block, ...] | LazyBlocks
    ordered: bool = False  # by end, window, start, key
    ranks: Ints | None = None  # of windows of rows: the first rank, and the rank they end before (-1: other windows)
    shows: Ints | None = None  # the index of each window's partial, if windows of several names share partials
    names: pa.Array | None = None  # the names of the windows, if they are known

    def __len__(self) -> int:
        return self.window.size

    def whole(self) -> tuple[Block, ...]:
        """The partials of all windows."""
        return self.blocks if isinstance(self.blocks, tuple) else self.blocks.whole()

    def pieces(self, size: int) -> Iterator[Answers]:
        """Answers of ``size`` windows each, whose partials stay in the cache while they are read: 500,000 windows 18 ->
        8 ms."""
        parts: Iterable[tuple[slice, tuple[Block, ...]]]
        if isinstance(self.blocks, tuple) and len(self) <= size:
            yield self
            return
        if not isinstance(self.blocks, tuple):
            parts = self.blocks.pieces()
        elif self.shows is not None or not all(map(_by_row, self.blocks)):
            parts = [(slice(None), self.blocks)]
        else:
            cuts = [slice(at, at + size) for at in range(0, max(len(self), 1), size)]
            parts = ((piece, tuple(block[piece] for block in self.blocks)) for piece in cuts)
        for piece, blocks in parts:
            columns = (self.window[piece], self.start[piece], self.end[piece], self.code[piece])
            ranks = None if self.ranks is None else self.ranks[piece]
            yield Answers(*columns, blocks, self.ordered, ranks, self.shows)

    def take(self, index: Ints | Mask) -> Answers:
        at = index.nonzero()[0] if index.dtype == np.bool_ else index
        blocks, shown = self.whole(), self.shows
        if shown is None and len(self) and _by_word(blocks):  # select later, from the few words that are read
            shown = np.arange(len(self))
        elif shown is None:
            blocks = tuple([block.take(at, axis=0) for block in blocks])
        ranks, shows = (None if c is None else c.take(at, axis=0) for c in (self.ranks, shown))
        window, start, end = picked(self.window, at), picked(self.start, at), picked(self.end, at)
        return Answers(window, start, end, self.code.take(at), blocks, ranks=ranks, shows=shows)

    @staticmethod
    def together(parts: Sequence[Answers]) -> Answers:
        if len(parts) == 1:
            return parts[0]

        def column(name: str) -> Ints:
            return np.concatenate([getattr(p, name) for p in parts])

        wholes = [p.whole() for p in parts]
        blocks = tuple(map(b.together, zip(*wholes, strict=True)))
        ranks = None
        if any(p.ranks is not None for p in parts):
            ranks = np.concatenate([np.full((len(p), 2), -1) if p.ranks is None else p.ranks for p in parts])
        shows = None
        if any(p.shows is not None for p in parts):
            before = np.cumsum([0, *(len(whole[0]) if whole else 0 for whole in wholes)])
            shown = (np.arange(len(p)) if p.shows is None else p.shows for p in parts)
            shows = np.concatenate([some + n for some, n in zip(shown, before, strict=False)])
        columns = (column("window"), column("start"), column("end"), column("code"))
        return Answers(*columns, blocks, ranks=ranks, shows=shows)

    @staticmethod
    def of_types(
        plan: Plan, due: tuple[Ints, Ints, Ints], each: Ints | None, code: Ints, blocks: tuple[Block, ...] | LazyBlocks
    ) -> Answers:
        """Answers of windows given by type, start and end, in order. ``each``: how many result rows each window has;
        None: one."""
        type, start, end = due
        together = each is None and len(plan.names) > 1 and type.size and end[0] == end[-1]
        known = plan.once("known rows", _KnownRows).of(plan, type, end) if together else None
        if plan.types_of.size == len(plan.edges.bounds):
            if each is not None:
                type, start, end = np.repeat(type, each), np.repeat(start, each), np.repeat(end, each)
            names = None if known is None else known[3]
            return Answers(plan.numbered(type), start, end, code, blocks, True, names=names)
        blocks = blocks if isinstance(blocks, tuple) else blocks.whole()  # names share partials
        name, which, shows, names = _rows(plan, type, end, each) if known is None else known
        start, end = start.take(which), end.take(which)
        code = np.zeros(name.size, np.int64) if each is None else code.take(shows)
        if name.size < b.FEW_PARTIALS and all([isinstance(block, np.ndarray) for block in blocks]):
            blocks = tuple([block.take(shows, axis=0) for block in blocks])  # cheaper than selecting result columns
            return Answers(name, start, end, code, blocks, True, names=names)
        return Answers(name, start, end, code, blocks, True, shows=shows, names=names)

    @staticmethod
    def all_of(plan: Plan, parts: Sequence[Answers]) -> Answers:
        found = [part for part in parts if len(part)]
        return Answers.together(found) if found else Answers.none(plan)

    @staticmethod
    def merged(plan: Plan, parts: Sequence[Answers]) -> Answers:
        """The answers of all parts, in order. Each part is in order, and no two parts have the same windows."""
        found = [part for part in parts if len(part)]
        if len(found) < 2:
            return Answers.all_of(plan, found)
        both = Answers.together(found)
        order = order_by(both.window, both.end)  # windows of a part that end together are in order already
        return replace(both.take(order), ordered=True)

    @staticmethod
    def none(plan: Plan) -> Answers:
        return plan.alike("no answers", lambda: Answers._none(plan))

    @staticmethod
    def _none(plan: Plan) -> Answers:
        empty = np.empty(0, np.int64)
        return Answers(empty, empty, empty, empty, tuple(b.identity(lane, 0) for lane in plan.lanes), True)

    @staticmethod
    def of_windows(
        plan: Plan, due: tuple[Ints, Ints, Ints], found: Sequence[tuple[Ints, tuple[Block, ...]]]
    ) -> Answers:
        """Answers of windows given by type, start and end, in order. ``found``: the codes and partials of each
        window."""
        each = np.array([code.size for code, _ in found])
        blocks = tuple(map(b.together, zip(*(blocks for _, blocks in found), strict=True)))
        return Answers.of_types(plan, due, each, np.concatenate([code for code, _ in found]), blocks)


def _rows(plan: Plan, type: Ints, end: Ints, each: Ints | None) -> Shown:
    first = np.arange(type.size + 1) if each is None else np.append(0, np.cumsum(each))
    rows = int((plan.shares[type] if each is None else plan.shares[type] * each).sum())
    name, which, shows = out = np.empty((3, rows), np.int64)
    named_rows(type, end, first, plan.types_of, out)
    return plan.numbered(name), which, shows, None


def _rows_of_types(plan: Plan, type: Ints) -> Shown:
    """The rows of windows that end together: one window of each of these types, which ascend."""
    held = np.zeros(plan.shares.size, np.bool_)
    held[type] = True
    name = held.take(plan.types_of).nonzero()[0]
    which = type.searchsorted(plan.types_of.take(name))
    return plan.numbered(name), which, which, None


class _KnownRows:
    """The rows of windows that end together, one row each. The same types end together again and again, so rows and
    names are kept.

    1000 tumbling windows of 1 to 20 s, a push a second: 27 -> 8 us of 225, and 51 -> 29 the first time that types do
    so.
    """

    def __init__(self) -> None:
        self._by_types: dict[bytes, Shown] = {}
        self._held = 0  # the number of all rows that are kept

    def of(self, plan: Plan, type: Ints, end: Ints) -> Shown:
        key = type.tobytes()
        known = self._by_types.get(key)
        if known is None:
            # if types are not periodic, several windows of a type may end together
            name, which, shows, _ = _rows_of_types(plan, type) if plan.edges.periodic else _rows(plan, type, end, None)
            known = name, which, shows, plan.named(name)
            self._hold(key, known, plan.policy.known_names)
        return known

    def _hold(self, key: bytes, rows: Shown, most: int) -> None:
        size = rows[0].size
        if self._held + size > most:
            self._by_types.clear()
            self._held = 0
        self._held += size
        self._by_types[key] = rows


def _by_row(block: Block) -> bool:
    return isinstance(block, np.ndarray) and block.flags.c_contiguous


def _by_word(blocks: Sequence[Block]) -> bool:
    """Whether partials are stored word by word. Then reading one partial touches as many cache lines as it has
    words."""
    words = [block for block in blocks if isinstance(block, np.ndarray) and block.flags.f_contiguous]
    return len(words) == len(blocks) and any(block.shape[1] > 1 for block in words)
