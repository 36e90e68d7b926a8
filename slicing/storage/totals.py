"""What the head of the store has of some keys, with new cells added, before any of it is written to the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.kernels import combine as kinds
from slicing.reducing.lift import Quads, Sums
from slicing.system.arrays import Ints


class Report(NamedTuple):
    """New cells, at most one of each window and key, and what the head then has of these keys."""

    cells: Cells
    now: tuple[Block, ...]  # their partials with the new cells
    number: Ints | None  # how often each of their windows was reported before, if the head counts that
    held: Ints  # which of them had a cell before
    was: tuple[Block, ...]  # the partials of these before, if they are asked for


class Totals:
    """Rows, partials and numbers of reports of some places of a head. Cells are added: all at once, or one table after
    the other."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        head: Sequence[Ints | Quads | Sums | None],
        place: Ints,
        rows: Ints,
        times: Ints | None,
    ) -> None:
        self.rows, self.times = rows, times
        self._lanes, self._head, self._place, self._held = lanes, head, place, rows.nonzero()[0]
        self.fresh = place.size - self._held.size
        self.blocks = list[Block]()

    def with_all(self, cells: Cells, before: bool) -> Report:
        """Add a cell of each place."""
        if self.fresh == self.rows.size:
            self.blocks = list(cells.blocks)
            was = tuple([block.take(self._held, axis=0) for block in self.blocks])
        else:
            self.blocks = self._known()
            was = self._add(cells, before, np.arange(self.rows.size), self._held)
        number = self.times
        self.rows += cells.rows
        self.times = None if number is None else number + 1
        return Report(cells, tuple(self.blocks), number, self._held, was)

    def with_some(self, cells: Cells, before: bool, which: Ints) -> Report:
        """Add cells of these places, which ascend."""
        self.blocks = self.blocks or self._known()
        number, held = None, self.rows.take(which).nonzero()[0]
        was = self._add(cells, before, which, which.take(held))
        self.rows[which] += cells.rows
        if self.times is not None:
            number = self.times.take(which)
            self.times[which] += 1
        return Report(cells, tuple([block.take(which, axis=0) for block in self.blocks]), number, held, was)

    def _add(self, cells: Cells, before: bool, which: Ints, held: Ints) -> tuple[Block, ...]:
        """Add partials. Returns those of ``held`` before, if they are asked for."""
        was = tuple([block.take(held, axis=0) for block in self.blocks]) if before else ()
        every = np.arange(which.size)
        for lane, block, more in zip(self._lanes, self.blocks, cells.blocks, strict=True):
            if not lane.counts_all:
                kinds.combine(lane.kind, which, every, block, more)
        return was

    def _known(self) -> list[Block]:
        """The partials that the head has; identities for places without any."""
        blocks, held = list[Block](), self._held
        for lane, block in zip(self._lanes, self._head, strict=True):
            if block is None:  # it counts all rows
                blocks.append(self.rows.reshape(-1, 1))
                continue
            at = self._place.take(held) if self.fresh else self._place
            known = block.take(at, axis=0) if isinstance(block, np.ndarray) else block.partials(at)
            if self.fresh:
                whole = kinds.identity(lane.kind, self._place.size)
                whole[held] = known
                known = whole
            blocks.append(known)
        return blocks
