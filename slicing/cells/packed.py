"""Packed runs of cells: bounds, and wide partials, take only as many bytes as the values in the run need.

Most state is idle: cells wait until their windows close. A run that no push is about to merge is kept packed. A
directory with one entry per slice says where slices begin, in place of an end per cell. Codes and row counts are packed
by the values in the run. A word that is equal in all cells takes no bytes. A word whose values span less than 2**32
takes 4 bytes, relative to its smallest value. Any other word takes 8 bytes. So packing loses nothing, whatever the
values. Words that are equal to another word, as counts to the number of rows, are kept once.

The words of partials are not packed, since kernels read them in place. If a cell has many words
(``Policy.packed_words``), each word is packed in the same way. Unpacking takes 0.5 to 1 ns a word. If a run has enough
cells of one row, they are packed separately. Words such as the count are equal in all of them, and their minimum,
maximum and sum are one word. So such a cell takes the bytes of its row.

Bytes per cell, and CPU of a push relative to the same cells not packed (busy machine):

- count and sum, sliding windows of 1 k to 100 k keys: 56 -> 33 to 38 bytes, 1.0 to 1.3 times the CPU;
- count and sum, tumbling windows, a push each: 56 -> 32 bytes, 1.05 to 1.1 times the CPU;
- 16 words, mostly cells of one row: 160 -> 37 bytes, 1.3 times the CPU;
- 16 words that the next push drops (tumbling windows, a push each): 160 -> 20 to 60 bytes, 1.05 to 1.15 times the CPU.
  They are packed if they are few beside the rows of a push.

On disk, a run is one section of bytes with all words packed (:func:`written`). A reader unpacks what it needs.

To its users a packed run is a table like any other. It never changes. A range of adjacent cells is a view. Unpacked
words are made on request and dropped at the end of the push (:meth:`Packed.rested`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.kernels import packed as kernels
from slicing.kernels.cells import CODE, END, ROWS
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy

SLICE = 24  # bytes of a slice in the directory and in arrays made from it
SINGLE = 0.1  # from this share on, cells of one row are packed separately
PIECE = 1024  # cells; for each piece the number of cells of one row before it is stored
PLAIN = 3  # words of a cell apart from its partials
MARK = b"CELLS\0\0\1"
_SIZES = struct.Struct("<8s5q")  # the mark; how many cells, slices, words, and words of 8 and of 4 bytes that differ


class Packed(Cells):
    """Cells of slices whose partials are all words: a view of ``size`` cells of the packed arrays, from ``at`` on."""

    def __init__(self, kept: _Kept, ends: Ints, starts: Ints, at: int, size: int) -> None:
        self._kept, self._at, self._size = kept, at, size
        self.ends, self.starts = ends, starts

    @staticmethod
    def of(cells: Cells, lanes: Sequence[Lane], wide: bool) -> Packed:
        """Pack cells. ``wide``: also pack the words of their partials."""
        return Packed(_Kept(cells, lanes, wide), np.ascontiguousarray(cells.slice_ends), cells.slices(), 0, len(cells))

    def like(self, cells: Cells) -> Packed:
        """Pack other cells in the same way."""
        return Packed.of(cells, self._kept.lanes, self._kept.wide)

    def __len__(self) -> int:
        return self._size

    @lazy
    def meta(self) -> Ints:  # type: ignore[override]
        meta = np.empty((self._size, PLAIN), np.int64)
        meta[:, END] = self.end
        words = self._kept.words
        words.into(meta, CODE, slice(CODE, PLAIN), words.places(self._at, self._size))
        return meta

    @lazy
    def blocks(self) -> tuple[Block, ...]:  # type: ignore[override]
        return self._partials(self._at, self._size)

    def _partials(self, at: int, size: int) -> tuple[Block, ...]:
        kept = self._kept
        where = kept.words.places(at, size)
        return tuple([b[at : at + size] if isinstance(b, np.ndarray) else kept.of(b, size, where) for b in kept.blocks])

    def rested(self) -> Packed:
        """Drop the unpacked words."""
        for name in ("meta", "blocks"):
            self.__dict__.pop(name, None)
        return self

    @property
    def code(self) -> Ints:
        return self._kept.column(CODE, self._at, self._size)

    @property
    def rows(self) -> Ints:
        return self._kept.column(ROWS, self._at, self._size)

    @property
    def one_slice(self) -> bool:
        return len(self.slice_ends) == 1

    def partials(self, some: slice) -> tuple[Block, ...]:
        first, last, _ = some.indices(self._size)
        if "blocks" in self.__dict__:
            return super().partials(some)
        return self._partials(self._at + first, last - first)

    @property
    def end(self) -> Ints:
        if self.one_slice:
            return np.full(self._size, self.slice_ends[0])
        return np.repeat(self.slice_ends, self.slice_sizes())

    @property
    def owner(self) -> int:
        return id(self._kept)

    @property
    def nbytes(self) -> int:
        return round(self._size * self._kept.cell) + SLICE * len(self.slice_ends)

    @property
    def weight(self) -> int:
        return self._size

    def sizes(self) -> tuple[int, int]:
        return self._size, self.nbytes

    def take(self, index: Ints | Mask | slice) -> Cells:
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
        found: Ints = self.slice_bounds()[self.slice_ends.searchsorted(times, "right")]
        return found

    def _part(self, first: int, size: int) -> Packed:
        """A range of adjacent cells, as a view."""
        if size == self._size:
            return self
        starts, ends = self.slices(), self.slice_ends
        if not size:
            return Packed(self._kept, ends[:0], starts[:0], self._at, 0)
        some = slice(int(starts.searchsorted(first, "right")) - 1, int(starts.searchsorted(first + size)))
        return Packed(self._kept, ends[some], np.maximum(starts[some] - first, 0), self._at + first, size)


class _Kept:
    """What a packed run and its views share: packed words, and for each lane its partials or which words they are."""

    def __init__(self, cells: Cells, lanes: Sequence[Lane], wide: bool) -> None:
        self.lanes, self.wide, self.blocks = lanes, wide, list[Ints | slice]()
        self.cell: float = 0  # bytes of one cell
        tables, at = [cells.meta], PLAIN
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
        tables = list(map(_of_one_type, tables))
        single = cells.meta[:, ROWS] == 1 if wide else np.zeros(0, np.bool_)
        some = SINGLE * len(cells) <= np.count_nonzero(single) < len(cells) and wide
        self.words: _Words | _Apart = _Apart(single, tables) if some else _Words(_by_word(tables))
        self.cell += self.words.cell

    def of(self, some: slice, size: int, where: _Where) -> Ints:
        """Some of the words of ``size`` cells."""
        out = np.empty((size, some.stop - some.start), np.int64)
        self.words.into(out, 0, some, where)
        return out

    def column(self, word: int, first: int, size: int) -> Ints:
        """One word of ``size`` cells, from ``first`` on."""
        return self.of(slice(word, word + 1), size, self.words.places(first, size))[:, 0]


class _Where(NamedTuple):
    """Where adjacent cells are: the first one of each part of the words, and for several parts their places among the
    cells."""

    first: tuple[int, ...]
    at: tuple[Ints, ...] = ()


_ALL = _Where((0,))


class _Words:
    """The words of a table without its first word, the ends of slices."""

    cell: float  # bytes of one cell

    def __init__(self, table: Ints) -> None:
        """``table``: a row for each word."""
        words, size = table.shape
        self.low, high, self.form = np.empty((3, words), np.int64)
        narrow, wide = kernels.survey(table, CODE, self.low, high, self.form)
        self.narrow, self.wide = np.empty((narrow, size), np.uint32), np.empty((wide, size), np.int64)
        kernels.pack(table, self.form, self.low, self.narrow, self.wide)
        self.cell = 4 * narrow + 8 * wide

    @classmethod
    def of_arrays(cls, form: Ints, low: Ints, narrow: npt.NDArray[np.uint32], wide: Ints) -> _Words:
        """Make this from words that are packed already."""
        self = object.__new__(cls)
        self.form, self.low, self.narrow, self.wide = form, low, narrow, wide
        return self

    def places(self, first: int, size: int) -> _Where:
        """Where ``size`` cells are, from ``first`` on."""
        return _Where((first,))

    def into(self, out: Ints, column: int, some: slice, where: _Where) -> None:
        """Unpack some words of cells into the columns of ``out`` from ``column`` on."""
        kernels.unpack(self.form[some], self.low[some], self.narrow, self.wide, where.first[0], out, column)

    def spread(self, out: Ints, column: int, some: slice, first: int, at: Ints) -> None:
        """Unpack some words of the cells from ``first`` on into the rows ``at`` of ``out``, from ``column`` on."""
        kernels.spread(self.form[some], self.low[some], self.narrow, self.wide, first, at, out, column)


class _Apart:
    """The words of cells of one row, packed apart from the words of other cells."""

    def __init__(self, single: Mask, tables: Sequence[Ints]) -> None:
        self._single = single
        pieces = np.add.reduceat(single, np.arange(0, single.size, PIECE), dtype=np.int64)
        self._before = np.append(0, np.cumsum(pieces))
        cells = [which.nonzero()[0] for which in (single, ~single)]
        self._parts = [_Words(_by_word(tables, of)) for of in cells]
        self.cell = 1 + sum(part.cell * of.size for part, of in zip(self._parts, cells, strict=True)) / single.size

    def places(self, first: int, size: int) -> _Where:
        start = first // PIECE
        ones = int(self._before[start] + np.count_nonzero(self._single[start * PIECE : first]))
        single = self._single[first : first + size]
        return _Where((ones, first - ones), (single.nonzero()[0], (~single).nonzero()[0]))

    def into(self, out: Ints, column: int, some: slice, where: _Where) -> None:
        for part, first, at in zip(self._parts, where.first, where.at, strict=True):
            part.spread(out, column, some, first, at)


def _of_one_type(table: Ints) -> Ints:
    """The table as kernels are compiled for it: in rows, and not read-only."""
    flags = table.flags
    return table if flags.c_contiguous and flags.writeable else np.require(table, requirements=["C", "W"])


def _by_word(tables: Sequence[Ints], some: Ints | None = None) -> Ints:
    """The words of several tables, a row for each word: of all cells, or of some."""
    size, first = len(tables[0]) if some is None else some.size, 0
    out = np.empty((sum(table.shape[1] for table in tables), size), np.int64)
    for table in tables:
        if some is None:
            kernels.put(table, out, first)
        else:
            kernels.put_some(table, some, out, first)
        first += table.shape[1]
    return out


# --- on disk ----------------------------------------------------------------------------------------------------------


def written(cells: Cells) -> list[bytes | memoryview]:
    """At least one cell of slices whose partials are words, as pieces of bytes. Equal cells give equal bytes."""
    tables = list(map(_of_one_type, (cells.meta, *cells.blocks)))
    words, ends = _Words(_by_word(tables)), np.ascontiguousarray(cells.slice_ends)
    sizes = _SIZES.pack(MARK, len(cells), ends.size, words.form.size, len(words.wide), len(words.narrow))
    arrays = (ends, cells.slices(), words.form, words.low, words.wide, words.narrow)
    return [sizes, *(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data for array in arrays)]


class Written:
    """Reads what :func:`written` gave: the meta of the cells, and on request their partials."""

    def __init__(self, section: bytes | memoryview, widths: Sequence[int]) -> None:
        """``widths``: how many words each lane's partials have. A section of another form is refused."""
        data = np.frombuffer(section, np.uint8).copy()  # aligned, as kernels want it
        self.section = data.data
        if data.size < _SIZES.size:
            raise ValueError("cells are cut off")
        mark, self.size, slices, words, wide, narrow = _SIZES.unpack_from(self.section)
        counts = (slices, slices, words, words, wide * self.size)
        sizes_fit = min(self.size, slices, words, wide, narrow) >= 0 and words == PLAIN + sum(widths)
        if mark != MARK or not sizes_fit or data.size != _SIZES.size + 8 * sum(counts) + 4 * narrow * self.size:
            raise ValueError("cells are not as many bytes as they say")
        bounds = _SIZES.size + 8 * np.cumsum([0, *counts])
        self.ends, self.starts, form, low, flat = (data[a:b].view(np.int64) for a, b in pairwise(bounds.tolist()))
        each = np.diff(self.starts, append=self.size)
        in_place = (form < narrow) & (form > kernels.WIDE - wide)
        if not (in_place.all() and slices and not self.starts[0] and (each > 0).all()):
            raise ValueError("cells lie outside of their slices")
        flat_narrow = data[bounds[-1] :].view(np.uint32)
        self._words = _Words.of_arrays(form, low, flat_narrow.reshape(narrow, self.size), flat.reshape(wide, self.size))
        self._widths, self._each = widths, each

    def meta(self) -> Ints:
        meta = np.empty((self.size, PLAIN), np.int64)
        meta[:, END] = np.repeat(self.ends, self._each)
        self._words.into(meta, CODE, slice(CODE, PLAIN), _ALL)
        return meta

    def blocks(self) -> tuple[Block, ...]:
        bounds = PLAIN + np.cumsum([0, *self._widths])
        return tuple(self._block(first, last) for first, last in pairwise(bounds.tolist()))

    def _block(self, first: int, last: int) -> Ints:
        block = np.empty((self.size, last - first), np.int64)
        self._words.into(block, 0, slice(first, last), _ALL)
        return block
