"""Cells that are answers as they are, in another order: taken when they are read, some at a time.

All of them at once are memory that is touched once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.cells.blocks import Block, gathered, together
from slicing.closing.answers import Ranges
from slicing.system.arrays import Ints

Ordered = tuple[Sequence[Block], Ints]  # blocks of words, and which of their cells in which order


@dataclass(frozen=True)
class Gathered:
    """Tables one after the other, each in an order of its own."""

    parts: Sequence[Ordered]
    piece: int  # cells that stay in cache while they are read

    def __len__(self) -> int:
        return sum(order.size for _, order in self.parts)

    def pieces(self) -> Iterator[tuple[slice, tuple[Block, ...]]]:
        done = 0
        for blocks, order in self.parts:
            for at in range(0, order.size, self.piece):
                some = order[at : at + self.piece]
                yield slice(done, done + some.size), tuple([gathered(block, some) for block in blocks])
                done += some.size

    def whole(self) -> tuple[Block, ...]:
        found = [[gathered(block, order) for block in blocks] for blocks, order in self.parts]
        return tuple(map(together, zip(*found, strict=True)))

    def numbers(self, asked: Sequence[tuple[int, int, np.dtype[Any]]]) -> None:
        return None


def in_order(parts: Sequence[Ordered], piece: int) -> tuple[Block, ...] | Ranges:
    """All these cells: few at once, many when they are read."""
    found = Gathered(parts, piece)
    return found if len(found) > piece and len(parts) * piece <= 4 * len(found) else found.whole()
