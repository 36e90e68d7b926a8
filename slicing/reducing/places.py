"""Where the rows of a batch go: a cell for each row, or runs of rows of one cell. Both in chunks of some thousand
rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slicing.columns.values import NOWHERE, TOP
from slicing.kernels.slice import even_cells, grid_cells, pieces
from slicing.reducing.batch import Rows
from slicing.system.arrays import Codes, Ints
from slicing.system.lazy import lazy
from slicing.system.threads import SHARE, Share, parts

Chunk = tuple[slice, Codes, int]  # some rows, their cells, and what to add to the cells

UNEVEN = 1.25  # a thread may have this many times its share of the rows
NO_CODES: Codes = np.empty(0, np.int32)
NO_CODES.setflags(write=False)


def fixed(cells: Codes) -> Codes:
    """Make cells read-only, as the indices of a dictionary are: a kernel is compiled for one type."""
    cells.setflags(write=False)
    return cells


def _chunks(cells: Ints | Codes, size: int) -> Iterator[Chunk]:
    for first in range(0, cells.size, size):
        chunk = slice(first, first + size)
        yield chunk, fixed(cells[chunk].astype(np.int32, copy=False)), 0


def shares(ends: Ints, threads: int, share: Share) -> list[slice]:
    """Ranges of cells for the threads, with about equal numbers of rows; one range if a cell has too many rows.
    ``ends``: the number of rows up to the end of each cell."""
    wanted = parts(int(ends[-1]), threads, share)
    bounds, rows = [0], [0]
    for part in wanted[:-1]:
        cell = int(ends.searchsorted(part.stop))
        before, after = int(ends[cell - 1]) if cell else 0, int(ends[cell])
        nearer = part.stop - before < after - part.stop
        bounds.append(cell if nearer else cell + 1)
        rows.append(before if nearer else after)
    bounds.append(ends.size)
    rows.append(int(ends[-1]))
    if max(b - a for a, b in pairwise(rows)) * len(wanted) > UNEVEN * rows[-1]:
        return [slice(0, ends.size)]
    return [slice(a, b) for a, b in pairwise(bounds)]


@dataclass(eq=False)
class Scattered:
    """A cell for each row, in any order; and the number of rows of each cell, if known."""

    of_row: Ints
    rows: Ints | None

    def cell(self) -> Ints:
        return self.of_row

    def chunks(self, size: int, together: int) -> Iterable[Chunk]:
        """Chunks of ``size`` rows. ``together``: how many kernels read each chunk in turn, so that it should stay in
        the cache."""
        return _chunks(self.of_row, size)


@dataclass(eq=False)
class Chained:
    """Runs of a key's rows without a gap, numbered as they begin: the run of each row, and the first and last time of
    each run."""

    of_row: Codes
    first: Ints
    last: Ints

    def cell(self) -> Ints:
        return self.of_row.astype(np.int64)

    def chunks(self, size: int, together: int) -> Iterable[Chunk]:
        return _chunks(self.of_row, size)


@dataclass(eq=False)
class Segments:
    """Runs of adjacent rows, each of which is a cell."""

    first: Ints
    last: Ints
    threads: int = 1
    share: Share = SHARE

    @property
    def ascend(self) -> bool:
        """Whether no run begins or ends before the one before it does. Ranges of several windows may."""
        first, last = self.first, self.last
        return not (np.count_nonzero(first[1:] < first[:-1]) or np.count_nonzero(last[1:] < last[:-1]))

    def counts(self) -> Ints:
        return self.last - self.first

    def cell(self) -> Ints:
        return np.repeat(np.arange(self.first.size), self.counts())

    def chunks(self, size: int, together: int) -> Iterable[Chunk]:
        return _chunks(self.cell(), size)

    @lazy
    def shares(self) -> list[slice]:
        """Runs for each thread. With several threads, a run begins where the run before it ends."""
        return [slice(0, self.last.size)] if self.threads == 1 else shares(self.last, self.threads, self.share)

    def runs(self) -> Ints:
        """The runs in the form of pieces."""
        runs = np.empty((self.first.size, 5), np.int64)
        runs[:, 0], runs[:, 1], runs[:, 2] = self.first, self.last, np.arange(self.first.size)
        runs[:, 3], runs[:, 4] = ~TOP, TOP
        return runs


@dataclass(eq=False)
class Grid:
    """Cells slot * keys + code, made on request. Without codes the rows of a slot are spread over its ``keys`` cells in
    turn."""

    of: Rows
    edges: Ints
    keys: int

    def cell(self) -> Ints:
        cell = np.empty(len(self.of), np.int64)
        self._fill(slice(None), cell)
        return cell

    def slots(self) -> Ints:
        """The slot of each row."""
        slot = np.empty(len(self.of), np.int64)
        self._place(self.of.time, NO_CODES, 1, slot)
        return slot

    @lazy
    def shares(self) -> list[slice]:
        """Rows for each thread, if rows are in order and have keys. No two threads have rows of the same slot."""
        rows = self.of
        if (
            rows.threads == 1
            or not rows.shared
            or rows.code is None
            or not rows.span[2]
            or rows.edges is not self.edges
        ):
            return [slice(0, len(rows))]
        bounds = rows.cuts[1]
        found = shares(bounds[1:], rows.threads, rows.plan.policy.share)
        return [slice(int(bounds[s.start]), int(bounds[s.stop])) for s in found]

    def bounds(self) -> Ints:
        """The row at which each slot begins, and the end, if rows are in order and slots are long (or there is one
        slot). Otherwise empty."""
        rows = self.of.time.size
        if self.edges.size == 1:
            return np.array([0, rows])
        if not self.of.span[2] or self.edges.size * self.of.plan.policy.long_slot > rows:
            return NOWHERE
        edges, bounds = self.of.cuts
        if edges is self.edges:
            return bounds
        return np.append(0, np.searchsorted(self.of.time, self.edges))  # the known cuts are for edges of more rows

    @property
    def slots_in_order(self) -> bool:
        """Whether rows are in order and have keys, and slots are long and side by side."""
        return self.of.code is not None and self.of.span[2] and self.bounds().size > 0

    def chunks(self, size: int, together: int = 2, share: slice | None = None) -> Iterable[Chunk]:
        """Chunks of all rows or of a share."""
        rows, code = self.of.time.size, self.of.code
        bounds = NOWHERE if code is None else self.bounds()
        some = slice(0, rows) if share is None else share
        if code is None or not bounds.size:
            return self._filled(some, size)
        step = size if together > 1 else rows
        found = []
        for slot, (first, last) in enumerate(pairwise(bounds.tolist())):  # codes serve as cells of the slot
            begin, end = max(first, some.start), min(last, some.stop)
            for at in range(begin, end, step):
                chunk = slice(at, min(at + step, end))
                cells = code[chunk]
                cells.setflags(write=False)
                found.append((chunk, cells, slot * self.keys))
        return found

    def _filled(self, some: slice, size: int) -> Iterator[Chunk]:
        for first in range(some.start, some.stop, size):
            chunk = slice(first, min(first + size, some.stop))
            cell = np.empty(chunk.stop - first, np.int32)
            self._fill(chunk, cell)
            yield chunk, fixed(cell), 0

    def _fill(self, chunk: slice, out: Ints | Codes) -> None:
        code = NO_CODES if self.of.code is None else fixed(self.of.code[chunk])
        self._place(self.of.time[chunk], code, self.keys, out)

    def _place(self, time: Ints, code: Codes, keys: int, out: Ints | Codes) -> None:
        if self._width:
            even_cells(time, self.edges[0], self._width, code, np.int64(keys), out)
        else:
            grid_cells(time, self.edges, code, np.int64(keys), out)

    @lazy
    def _width(self) -> np.int64 | None:
        """The distance of neighbouring edges. None if it varies."""
        regular, edges = self.of.plan.edges.regular_width(self.of.plan.grid), self.edges
        if regular is None or edges[-1] - edges[0] != (edges.size - 1) * regular[0]:
            return None
        return np.int64(regular[0])


@dataclass(eq=False)
class Pieces:
    """Rows of a grid without keys that touch few slots at a time: runs of rows, each with some rows of one cell."""

    grid: Grid
    found: Ints

    @staticmethod
    def of(grid: Grid) -> Pieces | None:
        """The pieces of a grid. None if the rows touch many slots at a time."""
        (lows, highs), plan, policy = grid.of.extremes, grid.of.plan, grid.of.plan.policy
        most = policy.most_float_pieces if plan.partials.only_floats else policy.most_pieces
        found = np.empty((most * lows.size, 5), np.int64)
        n = pieces(len(grid.of), policy.block, lows, highs, grid.edges, found)
        return None if n < 0 else Pieces(grid, found[:n])

    def cell(self) -> Ints:
        return self.grid.cell()

    def chunks(self, size: int, together: int) -> Iterable[Chunk]:
        return self.grid.chunks(size, together)

    def runs(self) -> Ints:
        return self.found

    @lazy
    def shares(self) -> list[slice]:
        policy = self.grid.of.plan.policy
        return parts(len(self.found), self.grid.of.threads, policy.share, policy.block)


Place = Segments | Pieces | Grid | Scattered | Chained
