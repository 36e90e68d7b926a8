"""Blocks: a lane's partials, one a cell, whatever they are made of.

Tables of cells, the store, answers and snapshots handle blocks without knowing what is in them. A lane's *kind*
does: how a block is made from rows, how the partials of cells that become one are merged, how a window is answered
from a range of cells. There are two sorts:

``Words``
    A few 8-byte words a cell, an int64 array ``[cells, words]``; combined one by one as lists of combinations say
    (``kernels.combine``, ``kernels.strategies``). Kinds are numbers.
``ListKind``
    A sorted list a cell, of any length (``cells.lists``). Values with their counts for quantiles, distinct values
    and the like (a slice is sorted once, whatever the number of windows); rows in their order for aggregates that must
    see them so. Windows are not merged at all: an answer is :class:`Picked`, ranges of cells, and the aggregate reads
    out of the lists of its range what it needs, carrying on from one window to the next that overlaps it.

A block has ``len``, ``nbytes``, ``block[index]`` (positions, a mask or a slice, which is a view) and ``take``; blocks
are put together by :func:`together`. None that others may have is ever changed in place.
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

Block = Any  # an int64 array, Lists or Picked: alike in what the docstring above says

FEW = 1024  # partials that are not worth a kernel


class Kind(Protocol):
    def identity(self, lane: Lane, size: int) -> Block:
        """A block of empty partials."""

    def merged(self, lane: Lane, into: Ints, size: int, older: Block, newer: Block) -> Block:
        """``size`` cells: the older ones and the newer ones, each merged ``into`` one of them, never more than two
        lists of cells but any number of cells into one."""

    def answered(
        self, lane: Lane, block: Block, first: Ints, last: Ints, combinations: Callable[[], Combinations]
    ) -> Block:
        """Each range of cells as one partial; none is empty."""


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


def gathered(block: Ints, order: Ints) -> Ints:
    """Some cells of a block of words, each word's column in one piece where they are many."""
    if order.size < FEW:
        return block.take(order, axis=0)
    columns = np.empty((block.shape[1], order.size), np.int64)
    gather(block, order, columns)
    return columns.T


def by_column(*parts: Block) -> Block:
    """Blocks of a lane, one after the other, with each word's column in one piece, to be read out: words by 3 passes
    each, or all at once."""
    first, size = parts[0], sum(map(len, parts))
    if not isinstance(first, np.ndarray) or size < FEW or first.shape[1] == 1 or first.flags.f_contiguous:
        return together(parts)
    columns, place = np.empty((first.shape[1], size), first.dtype), 0
    for part in parts:
        for at in range(0, len(part), 4096):  # by pieces that stay in cache: 4 against 8 ns a partial
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
    """Blocks of one lane, one after the other."""
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
    """The newer cells after the older ones, the first of which is the last of these."""
    if isinstance(older, np.ndarray) and isinstance(newer, np.ndarray) and isinstance(lane.kind, int):
        block = after(older, newer, True)
        words.combine(lane.kind, np.array([len(older) - 1]), FIRST, block, newer)
        return block
    assert not isinstance(lane.kind, int)
    into = np.arange(len(older) + len(newer))
    into[len(older) :] -= 1
    return lane.kind.merged(lane, into, into.size - 1, older, newer)


def after(older: Ints, newer: Ints, shared: bool) -> Ints:
    """Rows after others, without the first where that is the last of those."""
    if not shared:
        return np.concatenate([older, newer])
    return older.copy() if len(newer) == 1 else np.concatenate([older, newer[1:]])
