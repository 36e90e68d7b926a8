"""Columns of rows that are chosen by their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of, room
from slicing.columns.bits import present
from slicing.columns.dictionaries import some_of
from slicing.columns.types import is_view
from slicing.kernels.band import take_words
from slicing.system.arrays import Ints, Mask
from slicing.system.lazy import lazy


class Places:
    """Places of rows in the payload, -1 for none. Columns of consecutive places are sliced without a copy."""

    def __init__(self, places: Ints) -> None:
        self._places, self._range = places, _range(places)
        self._missing: Mask | None = None
        if self._range is None and places.size and int(places.min()) < 0:
            self._missing = places < 0

    def take(self, column: Any) -> Any:
        """The values of an array, chunked or not, at these places; null where a place is -1."""
        if self._range is not None:
            return column.slice(self._range.start, len(self._range))
        if isinstance(column, pa.ChunkedArray) and column.num_chunks != 1:
            return some_of(column, self._arrow) if pa.types.is_dictionary(column.type) else column.take(self._arrow)
        chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        if len(chunk) and _is_word(chunk.type):
            return self._words(chunk)
        if is_view(chunk.type):
            return self._views(chunk)
        return chunk.take(self._arrow)

    def _words(self, chunk: pa.Array) -> pa.Array:
        """Take from 64-bit values. Arrow checks every place for null: for 1 M places, a few of them null, in random
        order 10.2 -> 3.5 ms a column, in order 3.3 -> 2.3; if some values are null, 11.7 -> 4.3 and 6.1 -> 2.5."""
        found = room(self._places.size)
        values = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk)]
        take_words(values, self._places, found)
        valid, missing = self._valid if not chunk.null_count else self._valid_of(present(chunk))
        return pa.Array.from_buffers(chunk.type, found.size, [valid, pa.py_buffer(found)], missing)

    def _views(self, chunk: pa.Array) -> pa.Array:
        """Take from views: the texts stay where they are. Arrow cannot."""
        _, held, *texts = chunk.buffers()
        valid, missing = self._valid if not chunk.null_count else self._valid_of(present(chunk))
        if held is None:
            return pa.nulls(self._places.size, chunk.type)
        # complex numbers have 16 bytes, as views have
        views = np.frombuffer(held, np.complex128)[chunk.offset : chunk.offset + len(chunk)]
        found = views.take(self._places, mode="clip") if len(views) else np.zeros(self._places.size, np.complex128)
        if self._missing is not None:
            found[self._missing] = 0  # an empty text
        buffers = [valid, pa.py_buffer(found), *texts]
        return pa.Array.from_buffers(chunk.type, found.size, buffers, missing)

    def _valid_of(self, known: Mask) -> tuple[pa.Buffer | None, int]:
        """The validity of values that are null where not ``known``, and how many are null."""
        there = known.take(self._places, mode="clip")
        if self._missing is not None:
            there &= ~self._missing
        return _bitmap(there)

    @lazy
    def _arrow(self) -> pa.Array:
        return array_of(self._places, self._missing)

    @lazy
    def _valid(self) -> tuple[pa.Buffer | None, int]:
        return (None, 0) if self._missing is None else _bitmap(~self._missing)


def _bitmap(there: Mask) -> tuple[pa.Buffer, int]:
    return pa.py_buffer(np.packbits(there, bitorder="little")), there.size - int(np.count_nonzero(there))


def _range(places: Ints) -> range | None:
    if not places.size:
        return None
    first, last = int(places[0]), int(places[-1])
    if first >= 0 and last - first + 1 == places.size and (places[1:] > places[:-1]).all():
        return range(first, last + 1)
    return None


def _is_word(type: pa.DataType) -> bool:
    return pa.types.is_primitive(type) and type.bit_width == 64
