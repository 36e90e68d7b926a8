"""Blocks: the partial aggregates of one lane, one partial per cell.

Tables of cells, the store, answers and snapshots handle blocks without knowing their contents. The *kind* of a lane
knows them: how a block is made from rows, how cells are merged, and how a window is answered from a range of cells.
There are two sorts of kinds:

``Words``
    A few 8-byte words per cell, as an int64 array ``[cells, words]``. Partials are combined one by one, as lists of
    combinations say (``kernels.combine``, ``kernels.strategies``). These kinds are numbers.
``ListKind``
    A sorted list per cell, of any length (``cells.lists``). One example is values with their counts, for quantiles and
    distinct values: a slice is sorted once, however many windows it is in. Another is rows in order, for aggregates
    that depend on it. Windows are not merged: an answer is :class:`Picked`, ranges of cells. The aggregate reads what
    it needs from the lists of each range, and carries its result on to the next overlapping window.

A block has ``len``, ``nbytes``, ``block[index]`` (positions, a mask, or a slice, which gives a view) and ``take``.
:func:`together` concatenates blocks. A block that others may hold is never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from slicing.cells.lanes import Lane
from slicing.cells.lists import Lists, Picked, concatenated
from slicing.kernels import combine as words
from slicing.kernels.cells import gather
from slicing.kernels.strategies import Combinations
from slicing.system.arrays import Ints

Block = Any  # an int64 array, Lists or Picked: all have the methods that the docstring above names

FEW_PARTIALS = 1024  # below this many partials numpy is used in place of a kernel


class Kind(Protocol):
    def identity(self, lane: Lane, size: int) -> Block:
        """A block of empty partials."""

    def merged(self, lane: Lane, into: Ints, size: int, older: Block, newer: Block) -> Block:
        """A block of ``size`` cells. Each older and each newer cell is merged into the cell that ``into`` gives for it.
        Any number of cells may become one."""

    def answered(
        self, lane: Lane, block: Block, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Block:
        """Combine each range of cells to one partial. No range is empty."""


def _side_by_side(cells: Ints) -> bool:
    return cells.size <= 1 or (cells[-1] - cells[0] == cells.size - 1 and bool((cells[1:] > cells[:-1]).all()))


@dataclass(frozen=True)
class Words:
    """Partials of fixed size: see ``kernels.combine``."""

    def identity(self, lane: Lane, size: int) -> Ints:
        block: Ints = words.identity(lane.kind, size)
        return block

    def merged(self, lane: Lane, into: Ints, size: int, older: Ints, newer: Ints) -> Ints:
        block, every, split = self.identity(lane, size), np.arange(into.size), len(older)
        words.combine(lane.kind, into[:split], every[:split], block, older)
        words.combine(lane.kind, into[split:], every[: into.size - split], block, newer)
        return block

    def answered(
        self, lane: Lane, block: Ints, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Ints:
        plan, partials = combinations(), block
        if plan.scratch is not None:
            partials = plan.partials(block)
            words.combine(lane.kind, plan.into, plan.source, partials, partials)
        if not plan.more.size and not plan.less.size and _side_by_side(plan.seed):
            return partials[plan.seed[0] : plan.seed[-1] + 1] if plan.seed.size else partials[:0]
        answer = partials.take(plan.seed, axis=0)
        words.combine(lane.kind, plan.more, plan.rest, answer, partials)
        if plan.less.size:
            words.remove(lane.kind, plan.less, plan.gone, answer, partials)
        return answer


def gathered(block: Block, order: Ints) -> Block:
    """Some cells of a block as answers. If there are many of words, each word's column is contiguous."""
    if isinstance(block, Lists):
        return Picked(block, order, order + 1)
    if order.size < FEW_PARTIALS:
        return block.take(order, axis=0)
    columns = np.empty((block.shape[1], order.size), np.int64)
    gather(block, order, columns)
    return columns.T


def by_column(*parts: Block) -> Block:
    """Concatenate blocks of a lane, with each word's column contiguous. Aggregates read such a block faster, whether
    they read it word by word, with 3 passes each, or all words at once."""
    first, size = parts[0], sum(map(len, parts))
    if not isinstance(first, np.ndarray) or size < FEW_PARTIALS or first.shape[1] == 1 or first.flags.f_contiguous:
        return together(parts)
    columns, place = np.empty((first.shape[1], size), first.dtype), 0
    for part in parts:
        for at in range(0, len(part), 4096):  # in pieces that stay in the cache: 4 instead of 8 ns a partial
            piece = part[at : at + 4096]
            columns[:, place : place + len(piece)] = piece.T
            place += len(piece)
    return columns.T


_WORDS = Words()
FIRST = np.zeros(1, np.int64)


def kind_of(lane: Lane) -> Kind:
    return _WORDS if isinstance(lane.kind, int) else lane.kind


def width(kind: object) -> int:
    """How many words a partial of fixed size has."""
    return len(words.IDENTITY[kind]) if isinstance(kind, int) else 0


def identity(lane: Lane, size: int) -> Block:
    """A block of empty partials."""
    return kind_of(lane).identity(lane, size)


def together(parts: Sequence[Block]) -> Block:
    """Concatenate blocks of one lane."""
    if len(parts) == 1:
        return parts[0]
    if set(map(type, parts)) == {np.ndarray}:
        return np.concatenate(parts)
    if all(isinstance(p, Lists) for p in parts):
        return concatenated(parts)
    picked = [Picked.of(p) for p in parts]
    shift = np.cumsum([0, *(len(p.lists) for p in picked)])
    first, last = (
        np.concatenate([getattr(p, name) + by for p, by in zip(picked, shift[:-1], strict=True)])
        for name in ("first", "last")
    )
    return Picked(concatenated([p.lists for p in picked]), first, last)


def appended(lane: Lane, older: Block, newer: Block) -> Block:
    """Append the newer cells to the older ones. The first newer cell is merged into the last older cell."""
    if isinstance(older, np.ndarray) and isinstance(newer, np.ndarray) and isinstance(lane.kind, int):
        block = after(older, newer)
        words.combine(lane.kind, np.array([len(older) - 1]), FIRST, block, newer)
        return block
    assert not isinstance(lane.kind, int)
    if isinstance(older, Lists) and isinstance(newer, Lists):
        both = lane.kind.merged(lane, np.zeros(2, np.int64), 1, older[-1:], newer[:1])
        return concatenated([older[:-1], both, newer[1:]])
    into = np.arange(len(older) + len(newer))
    into[len(older) :] -= 1
    return lane.kind.merged(lane, into, into.size - 1, older, newer)


def after(older: Ints, newer: Ints) -> Ints:
    """Append the newer rows to the older ones, without the first newer row, which is the last older row."""
    return older.copy() if len(newer) == 1 else np.concatenate([older, newer[1:]])
