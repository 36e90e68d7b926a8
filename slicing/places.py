"""Where the rows of a batch go: for each a cell, or runs of rows of one cell; each in some thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slicing.batch import BLOCK, Rows
from slicing.columns.key_tables import Codes
from slicing.columns.lazy import lazy
from slicing.columns.values import NOWHERE, TOP
from slicing.kernels.slice import grid_cells, pieces

Ints = npt.NDArray[np.int64]
Chunk = tuple[slice, Codes, int]  # some rows, their cells, and what to add to these

CHUNK = 1 << 16  # rows scattered at a time: half as many take 0.96 to 0.93 of the rate
LONG = 4096  # rows of a slot that are worth a turn of their own
MOST_PIECES = 7  # slots a block of rows may touch before scattering is cheaper than a masked pass for each
NO_CODES: Codes = np.empty(0, np.int32)
NO_CODES.setflags(write=False)


def fixed(cells: Codes) -> Codes:
    """Not writeable, as the indices of a dictionary are: a kernel is compiled once."""
    cells.setflags(write=False)
    return cells


def _chunks(cells: Ints | Codes) -> Iterator[Chunk]:
    for first in range(0, cells.size, CHUNK):
        chunk = slice(first, first + CHUNK)
        yield chunk, fixed(cells[chunk].astype(np.int32, copy=False)), 0


@dataclass(frozen=True)
class Scattered:
    """A cell for each row, in any order; how many rows each has, where that is known."""

    of_row: Ints
    rows: Ints | None

    def counts(self) -> Ints | None:
        return self.rows

    def cell(self) -> Ints:
        return self.of_row

    def chunks(self, together: int = 2) -> Iterator[Chunk]:
        """``together``: how many kernels take each chunk in turn, for which it should stay in the cache."""
        return _chunks(self.of_row)


@dataclass(frozen=True)
class Chained:
    """Runs of a key's rows that no gap parts, numbered as they begin: the cell of each row, each one's span."""

    of_row: Codes
    first: Ints
    last: Ints

    def counts(self) -> None:
        return None

    def cell(self) -> Ints:
        return self.of_row.astype(np.int64)

    def chunks(self, together: int = 2) -> Iterator[Chunk]:
        return _chunks(self.of_row)


@dataclass(frozen=True)
class Segments:
    """Rows sorted by cell."""

    first: Ints
    last: Ints

    def counts(self) -> Ints:
        return self.last - self.first

    def cell(self) -> Ints:
        return np.repeat(np.arange(self.first.size), self.counts())

    def chunks(self, together: int = 2) -> Iterator[Chunk]:
        return _chunks(self.cell())

    def runs(self) -> Ints:
        """As pieces."""
        runs = np.empty((self.first.size, 5), np.int64)
        runs[:, 0], runs[:, 1], runs[:, 2] = self.first, self.last, np.arange(self.first.size)
        runs[:, 3], runs[:, 4] = ~TOP, TOP
        return runs


@dataclass(frozen=True)
class Grid:
    """Cells slot * keys + code, made as they are asked for. Without codes ``keys`` cells of a slot take turns."""

    of: Rows
    edges: Ints
    keys: int

    def counts(self) -> None:
        return None

    def cell(self) -> Ints:
        cell = np.empty(len(self.of), np.int64)
        self._fill(slice(None), cell)
        return cell

    def slots(self) -> Ints:
        """Of each row."""
        slot = np.empty(len(self.of), np.int64)
        grid_cells(self.of.time, self.edges, self._width, NO_CODES, np.int64(1), slot)
        return slot

    def chunks(self, together: int = 2) -> Iterator[Chunk]:
        rows, code, bounds = len(self.of), self.of.code, NOWHERE
        if code is not None and self.edges.size == 1:
            bounds = np.array([0, rows])
        elif code is not None and self.of.span[2] and self.edges.size * LONG <= rows:
            edges, bounds = self.of.cuts
            if edges is not self.edges:  # but others, of more rows than these
                bounds = np.append(0, np.searchsorted(self.of.time, self.edges))
        if code is not None and bounds.size:
            step = CHUNK if together > 1 else rows
            for slot, (begin, end) in enumerate(pairwise(bounds.tolist())):  # the codes are cells of the slot
                for first in range(begin, end, step):
                    chunk = slice(first, min(first + step, end))
                    yield chunk, fixed(code[chunk]), slot * self.keys
            return
        for first in range(0, rows, CHUNK):
            chunk = slice(first, first + CHUNK)
            cell = np.empty(min(CHUNK, rows - first), np.int32)
            self._fill(chunk, cell)
            yield chunk, fixed(cell), 0

    def _fill(self, chunk: slice, out: Ints | Codes) -> None:
        code = NO_CODES if self.of.code is None else fixed(self.of.code[chunk])
        grid_cells(self.of.time[chunk], self.edges, self._width, code, np.int64(self.keys), out)

    @lazy
    def _width(self) -> np.int64:
        """Between neighbouring edges, 0 where that varies."""
        regular, edges = self.of.plan.edges.regular_width(self.of.plan.grid), self.edges
        if regular is None or edges[-1] - edges[0] != (edges.size - 1) * regular[0]:
            return np.int64(0)
        return np.int64(regular[0])


@dataclass(frozen=True)
class Pieces:
    """Rows of a grid without keys that touch few slots at a time: runs of rows, each of which holds some of a cell."""

    grid: Grid
    found: Ints

    @staticmethod
    def of(grid: Grid) -> Pieces | None:
        """None where they touch many."""
        lows, highs = grid.of.extremes
        found = np.empty((MOST_PIECES * lows.size, 5), np.int64)
        n = pieces(len(grid.of), BLOCK, lows, highs, grid.edges, found)
        return None if n < 0 else Pieces(grid, found[:n])

    def counts(self) -> None:
        return None

    def cell(self) -> Ints:
        return self.grid.cell()

    def chunks(self, together: int = 2) -> Iterator[Chunk]:
        return self.grid.chunks(together)

    def runs(self) -> Ints:
        return self.found


Place = Segments | Pieces | Grid | Scattered | Chained
