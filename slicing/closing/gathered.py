"""Cells that are answers in another order. They are copied when they are read, some at a time, or straight into the
result.

Copying all at once would use memory that is touched only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicing.cells.blocks import Block, gathered, together
from slicing.cells.lanes import Lane
from slicing.closing.answers import LazyBlocks
from slicing.closing.numbers import Filled, Numbers, Ordered


@dataclass(frozen=True)
class Gathered:
    """Tables one after the other, each with an order of its own cells."""

    lanes: Sequence[Lane]  # of the blocks
    parts: Sequence[Ordered]
    piece: int  # this many cells stay in the cache while they are read

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

    def numbers(self, wanted: Numbers) -> list[Filled] | None:
        return wanted.read(self.parts, len(self))


def in_order(lanes: Sequence[Lane], parts: Sequence[Ordered], piece: int) -> tuple[Block, ...] | LazyBlocks:
    """The cells in order: few are copied at once, many when they are read."""
    found = Gathered(lanes, parts, piece)
    return found if len(found) > piece and len(parts) * piece <= 4 * len(found) else found.whole()
