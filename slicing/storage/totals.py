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
    """Rows, partials and numbers of reports of some places of a head. Tables of cells are added one after the other."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        head: Sequence[Ints | Quads | Sums | None],
        place: Ints,
        rows: Ints,
        times: Ints | None,
    ) -> None:
        self.rows, self.times = rows, times
        held = rows.nonzero()[0]
        self.fresh = place.size - held.size
        self._lanes, self.blocks = lanes, list[Ints]()
        for lane, block in zip(lanes, head, strict=True):
            if block is None:  # it counts all rows
                self.blocks.append(rows.reshape(-1, 1))
                continue
            at = place.take(held) if self.fresh else place
            known = block.take(at, axis=0) if isinstance(block, np.ndarray) else block.partials(at)
            if self.fresh:
                whole = kinds.identity(lane.kind, place.size)
                whole[held] = known
                known = whole
            self.blocks.append(known)

    def add(self, cells: Cells, before: bool, which: Ints | None) -> Report:
        """Add cells of these places, which ascend; None: of all places, and nothing else is added."""
        rows, number = (c if which is None or c is None else c.take(which) for c in (self.rows, self.times))
        assert rows is not None
        held, every = rows.nonzero()[0], np.arange(rows.size)
        into = every if which is None else which
        at = held if which is None else which.take(held)
        was = tuple([block.take(at, axis=0) for block in self.blocks]) if before else ()
        for lane, block, more in zip(self._lanes, self.blocks, cells.blocks, strict=True):
            assert isinstance(more, np.ndarray)
            if not lane.counts_all:
                kinds.combine(lane.kind, into, every, block, more)
        if which is None:
            self.rows += cells.rows
            self.times = None if number is None else number + 1
        else:
            self.rows[which] += cells.rows
            if self.times is not None:
                self.times[which] += 1
        now = tuple(self.blocks if which is None else [block.take(which, axis=0) for block in self.blocks])
        return Report(cells, now, number, held, was)
