"""Partial aggregates that replace rows which need not be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.columns.order import order_by
from slicing.system.arrays import Codes, Ints, Mask
from slicing.system.lazy import lazy
from slicing.system.replace import but


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows by the code of their key and by time."""

    code: Codes
    time: Ints

    def __len__(self) -> int:
        return self.time.size

    @lazy
    def low(self) -> int:
        return int(self.time.min())

    @lazy
    def high(self) -> int:
        return int(self.time.max())


@dataclass(frozen=True, eq=False)
class Slices(Coded):
    """One row for each slice, by (code, time). ``time`` is the time of one row in it; ``blocks`` holds its partials.

    A label that reaches the time of a slice reaches all rows of the slice.
    """

    blocks: tuple[Block, ...]

    @property
    def nbytes(self) -> int:
        return self.code.nbytes + self.time.nbytes + sum(block.nbytes for block in self.blocks)

    def take(self, rows: Ints) -> Slices:
        blocks = tuple([block.take(rows, axis=0) for block in self.blocks])
        return Slices(self.code.take(rows), self.time.take(rows), blocks)

    def where(self, keep: Mask | None) -> Slices:
        """The slices that ``keep`` selects; None selects all."""
        return self if keep is None or keep.all() else self.take(np.flatnonzero(keep))

    def recoded(self, code: Codes) -> Slices:
        """These slices with new codes of keys."""
        found = but(self, code=code[self.code])
        return found.take(order_by(found.time, found.code.astype(np.int64)))


def beside(parts: Sequence[Slices]) -> Slices:
    """Slices of several tables, one after the other."""
    if len(parts) == 1:
        return parts[0]
    blocks = tuple([b.together(lane) for lane in zip(*(part.blocks for part in parts), strict=True)])
    return Slices(np.concatenate([p.code for p in parts]), np.concatenate([p.time for p in parts]), blocks)
