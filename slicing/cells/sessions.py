"""Cells of sessions, and runs of a key's cells: sessions, instances of a key that is idle in between, whole streams.

A table is sorted by slice, so each key's cells are in time order, and one pass numbers the runs of all keys. Only the
wanted runs are then put side by side, as ranges of cells to combine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicing.cells.blocks import kind_of
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells, Gaps, sorted_cells
from slicing.columns.keys import FEWER, KeyTable, ranks_among
from slicing.columns.order import begins, distinct, order_by
from slicing.kernels.cells import CODE, FIRST, LAST, LEVEL, ROWS, ascending, chain
from slicing.system.arrays import Ints, Mask


class SessionCells(Cells):
    """A table sorted by (end, code, level, first) unless said otherwise: a cell holds one key's rows of one run in a
    slice, and knows the run's level and the times of its first and last row."""

    words = 6  # of meta: also LEVEL, FIRST, LAST
    a_cell_a_key = False

    def order(self) -> Ints:
        order = order_by(self.code, self.end)  # a key's cells are often in order of time already
        in_time = ascending(self.meta.take(order, axis=0))
        return order if in_time else order_by(self.first, self.level, self.code, self.end)

    @staticmethod
    def follows(last: list[int], first: list[int], gaps: Gaps) -> bool | None:
        if last[:ROWS] != first[:ROWS] or last[LEVEL] != first[LEVEL]:
            return False if (last[:ROWS], last[LEVEL]) < (first[:ROWS], first[LEVEL]) else None
        # only if the newer cell starts at the last time or later: what the newer table keeps apart stays apart
        return first[FIRST] - last[LAST] <= int(gaps[first[LEVEL]]) if first[FIRST] >= last[LAST] else None

    def places_of(self, newer: Cells, lanes: Sequence[Lane]) -> None:
        """None: which cells are the same depends on their times."""

    def taken_up(self, fresh: Cells, lanes: Sequence[Lane]) -> None:
        """None: which cells are the same depends on their times."""


SessionCells.kind = SessionCells


@dataclass(frozen=True)
class Chains:
    """For each cell of a table its run (-1: not looked at), and for each run its first and last time."""

    run: Ints
    start: Ints
    end: Ints
    as_lying: bool = True  # whether each code's cells are in time order


def chains(table: Cells, gap: int, taken: Mask | None = None) -> Chains:
    """Find runs among the cells ``taken``: cells of one code whose neighbours are at most ``gap`` apart."""
    taken = np.ones(len(table), np.bool_) if taken is None else taken
    found = _chained(table, gap, taken)
    if found is not None:
        return found
    # Cells of different levels share a slice, or late cells share a slice that has become coarse.
    order = order_by(table.first, table.code)
    found = _chained(table.only_meta(order), gap, taken[order])
    assert found is not None
    run = np.empty(len(table), np.int64)
    run[order] = found.run
    return Chains(run, found.start, found.end, False)


def _chained(table: Cells, gap: int, taken: Mask) -> Chains | None:
    codes, size = int(table.code.max(initial=0)) + 1, len(table)
    if codes > FEWER * size:  # few of the codes occur: number those that do
        table = table.only_meta(slice(None)).with_meta(CODE, distinct(table.code).searchsorted(table.code))
        codes = size
    latest, reach, run_of = np.empty(codes, np.int64), np.empty(codes, np.int64), np.full(codes, -1, np.int64)
    run, start, end = np.empty((3, size), np.int64)
    n = chain(table.code, table.first, table.last, taken, np.uint64(gap), latest, reach, run_of, run, start, end)
    return None if n < 0 else Chains(run, start[:n], end[:n])


def in_runs(cells: Cells, lanes: Sequence[Lane], gaps: Gaps) -> Cells | None:
    """Fuse each key's cells that are now of one slice and at most a gap apart, and sort the fused cells. None if levels
    differ or a code's cells are not in time order."""
    level, end = cells.level, cells.end
    slot = np.append(0, np.cumsum(end[1:] != end[:-1]))
    slots = int(slot[-1]) + 1
    by_slot = cells if slots == 1 else cells.only_meta(slice(None)).with_meta(CODE, cells.code * slots + slot)
    found = _chained(by_slot, int(gaps[level[0]]), np.ones(len(cells), np.bool_)) if (level == level[0]).all() else None
    if found is None:
        return None
    run, size = found.run, found.start.size
    meta = np.empty((size, cells.meta.shape[1]), np.int64)
    meta[run] = cells.meta
    meta[:, ROWS] = np.bincount(run, cells.rows)
    meta[:, FIRST], meta[:, LAST] = found.start, found.end
    pairs = zip(lanes, cells.blocks, strict=True)
    return sorted_cells(cells.kind(meta, tuple([kind_of(lane).merged(lane, run, size, b, b[:0]) for lane, b in pairs])))


@dataclass(frozen=True)
class Runs:
    """Cells sorted by (key, time), and the ranges of cells that belong together."""

    cells: Cells
    first: Ints
    last: Ints

    @property
    def code(self) -> Ints:
        return self.cells.code[self.first]

    def start(self) -> Ints:
        """Time of each run's first row."""
        return np.minimum.reduceat(self.cells.first, self.first) if self.first.size else self.first

    def end(self) -> Ints:
        """Time of each run's last row."""
        return np.maximum.reduceat(self.cells.last, self.first) if self.first.size else self.first

    def holding(self, others: Runs) -> Ints:
        """For each of the other runs, which of these runs it is a part of (same key, around its first row)."""
        size = self.first.size
        order = order_by(np.append(self.start(), others.start()), np.append(self.code, others.code))
        is_other = order >= size
        # the holder is the last of these runs at or before it, in this order
        holder = order[np.maximum.accumulate(np.where(is_other, 0, np.arange(order.size)))]
        found = np.empty(others.first.size, np.int64)
        found[order[is_other] - size] = holder[is_other]
        return found

    def chosen(self, which: Mask) -> Runs:
        """Some of the runs."""
        sizes = self.last - self.first
        last = np.cumsum(sizes[which])
        return Runs(self.cells.take(np.repeat(which, sizes)), last - sizes[which], last)


def in_which(found: Chains, which: Mask | None = None) -> Ints:
    """The cells of all runs, or of the runs in ``which``."""
    wanted = found.run >= 0
    if which is not None:
        wanted &= np.append(which, False)[found.run]
    return np.flatnonzero(wanted)


def runs(table: Cells, keys: KeyTable | None, found: Chains, which: Mask | None = None) -> Runs:
    """All runs, or the runs in ``which``, sorted by key, then by time."""
    chosen = in_which(found, which)
    code, run = table.code[chosen], found.run[chosen]
    finer = () if found.as_lying else (table.last[chosen], table.first[chosen])
    order = order_by(*finer, ranks_among(code, keys))
    run = run[order]
    first = begins(run)
    return Runs(table.take(chosen[order]), first, np.append(first[1:], run.size)[: first.size])
