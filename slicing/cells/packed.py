"""Runs of cells at rest: their bounds, and wide partials, take as many bytes as the values in the run need.

Most state lies still: cells wait for the windows they are in. A run that no push is about to merge is kept packed.
Where its slices begin is a directory, an entry a slice, in place of an end a cell. Codes and numbers of rows are looked
at as they are in the run: a word that is the same in all cells takes no bytes; one whose values span less than 2**32
takes 4 beside the least of them; any other one takes 8. So nothing is lost, whatever the values. Counts that are the
number of rows are kept once. Sliding windows by 1000 to 1 M keys, pushes that close nothing or one: 72 -> 49 bytes a
cell, 1.07 to 1.18 times the CPU.

The words of partials lie as they are, since those who add them up read them there. Where a cell has many of them
(``Plan.wide``) each one is packed in the same way: cells of one row, most of whose words are constants or small, come
to about the bytes of the row. To make them again takes 0.5 to 1 ns a word.

A packed run is a table like any other for those who ask, and never changed. Some of it side by side is a view. Its
words are made when they are asked for, and dropped at the end of the push (:meth:`Packed.rested`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.lazy import lazy
from slicing.kernels import packed as kernels
from slicing.kernels.cells import CODE, END, ROWS

Ints = npt.NDArray[np.int64]

NARROW = 1 << 32  # values that 4 bytes tell apart
SLICE = 24  # bytes of one in the directory, and of what becomes of it
PLAIN = 3  # words of a cell beside its partials


class Packed(Cells):
    """Cells without fragments, all of whose partials are words: ``size`` of those in the arrays, from ``at`` on."""

    def __init__(self, kept: _Kept, ends: Ints, starts: Ints, at: int, size: int) -> None:
        self._kept, self._at, self._size = kept, at, size
        self.ends, self.starts = ends, starts

    @staticmethod
    def of(cells: Cells, lanes: Sequence[Lane], wide: bool) -> Packed:
        """``wide``: with all words packed."""
        return Packed(_Kept(cells, lanes, wide), np.ascontiguousarray(cells.slice_ends), cells.slices(), 0, len(cells))

    def like(self, cells: Cells) -> Packed:
        """Other cells, packed in the same way."""
        return Packed.of(cells, self._kept.lanes, self._kept.wide)

    def __len__(self) -> int:
        return self._size

    @lazy
    def meta(self) -> Ints:  # type: ignore[override]
        meta = np.empty((self._size, PLAIN), np.int64)
        meta[:, END] = self.end
        self._kept.words.into(meta, CODE, slice(CODE, PLAIN), self._at)
        return meta

    @lazy
    def blocks(self) -> tuple[Block, ...]:  # type: ignore[override]
        some = slice(self._at, self._at + self._size)
        return tuple([b[some] if isinstance(b, np.ndarray) else self._words(b) for b in self._kept.blocks])

    def rested(self) -> Packed:
        """Without what was made of it."""
        for name in ("meta", "blocks"):
            self.__dict__.pop(name, None)
        return self

    @property
    def code(self) -> Ints:
        return self._words(slice(CODE, ROWS))[:, 0]

    @property
    def rows(self) -> Ints:
        return self._words(slice(ROWS, PLAIN))[:, 0]

    @property
    def end(self) -> Ints:
        return np.repeat(self.slice_ends, np.diff(self.slices(), append=self._size))

    @property
    def owner(self) -> int:
        return id(self._kept)

    @property
    def nbytes(self) -> int:
        return self._size * self._kept.cell + SLICE * len(self.slice_ends)

    @property
    def weight(self) -> int:
        return self._size

    def sizes(self) -> tuple[int, int]:
        return self._size, self.nbytes

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Cells:
        if isinstance(index, slice) and "blocks" not in self.__dict__:
            first, last, step = index.indices(self._size)
            if step == 1:
                return self._part(first, max(last - first, 0))
        return Cells(self.meta, self.blocks).take(index)

    def ending(self, after: int, until: int) -> Cells:
        first, last = self.until(np.array([after, until])).tolist()
        return self._part(first, last - first)

    def since(self, time: int) -> Cells | None:
        first = int(self.until(time))
        return self._part(first, self._size - first) if first < self._size else None

    def until(self, times: Ints | int) -> Ints:
        found: Ints = np.append(self.slices(), self._size)[self.slice_ends.searchsorted(times, "right")]
        return found

    def _part(self, first: int, size: int) -> Packed:
        """Cells side by side, as a view."""
        starts, ends = self.slices(), self.slice_ends
        if not size:
            return Packed(self._kept, ends[:0], starts[:0], self._at, 0)
        some = slice(int(starts.searchsorted(first, "right")) - 1, int(starts.searchsorted(first + size)))
        return Packed(self._kept, ends[some], np.maximum(starts[some] - first, 0), self._at + first, size)

    def _words(self, some: slice) -> Ints:
        out = np.empty((self._size, some.stop - some.start), np.int64)
        self._kept.words.into(out, 0, some, self._at)
        return out


class _Kept:
    """What runs and parts of them are views of: packed words, and each lane's partials, or which words they are."""

    def __init__(self, cells: Cells, lanes: Sequence[Lane], wide: bool) -> None:
        self.lanes, self.wide, self.blocks = lanes, wide, list[Ints | slice]()
        tables, at, self.cell = [cells.meta], PLAIN, 0
        for lane, block in zip(lanes, cells.blocks, strict=True):
            if lane.counts_all:
                self.blocks.append(slice(ROWS, PLAIN))
            elif wide:
                self.blocks.append(slice(at, at + block.shape[1]))
                tables.append(block)
                at += block.shape[1]
            else:
                self.blocks.append(block)
                self.cell += block.itemsize * block.shape[1]
        self.words = _Words([np.require(table, requirements=["C", "W"]) for table in tables])
        self.cell += self.words.cell


class _Words:
    """Words of some tables side by side: of the first one all but the ends of slices."""

    def __init__(self, tables: Sequence[Ints]) -> None:
        bounds = np.cumsum([0, *(table.shape[1] for table in tables)])
        words, size = int(bounds[-1]), len(tables[0])
        self.low, high = np.empty((2, words), np.int64)
        for table, (first, last) in zip(tables, pairwise(bounds), strict=True):
            kernels.spans(table, self.low[first:last], high[first:last])
        self.form, narrow, wide, copies = np.full(words, kernels.SAME, np.int64), 0, 0, []
        for w, (low, most) in enumerate(zip(self.low.tolist(), high.tolist(), strict=True)):
            if w == END or low == most:
                continue
            part = int(bounds.searchsorted(w, "right")) - 1
            if part and w == bounds[part] and kernels.alike(tables[part], 0, tables[0], ROWS):
                copies.append(w)  # of the number of rows
            elif most - low < NARROW:
                self.form[w], narrow = narrow, narrow + 1
            else:
                self.form[w], wide = kernels.WIDE - wide, wide + 1
        self.narrow, self.wide = np.empty((narrow, size), np.uint32), np.empty((wide, size), np.int64)
        for table, (first, last) in zip(tables, pairwise(bounds), strict=True):
            kernels.pack(table, self.form[first:last], self.low[first:last], self.narrow, self.wide)
        self.form[copies], self.low[copies] = self.form[ROWS], self.low[ROWS]
        self.cell = 4 * narrow + 8 * wide

    def into(self, out: Ints, column: int, some: slice, first: int) -> None:
        """Some of the words of the cells from ``first`` on, into the columns of a table from ``column`` on."""
        kernels.unpack(self.form[some], self.low[some], self.narrow, self.wide, first, out, column)
