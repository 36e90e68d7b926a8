"""Text of which a query reads only the least and the largest of a slice: other texts need neither a place among all
texts nor to be told apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import VALID, VALUES, bits
from slicing.columns.casts import plain
from slicing.columns.key_columns import some_views
from slicing.columns.types import has_offsets
from slicing.kernels.extreme_texts import extreme_texts, extreme_views
from slicing.system.arrays import Bytes, Ints

FEWEST = 4  # rows of a slice on average, for which this pays
_KEEP, _FLIP = np.uint64(0), ~np.uint64(0)


def with_extremes(column: pa.Array, bounds: Ints, least: bool, most: bool) -> pa.Array:
    """A column of text in which each row has a text of its slice, so that each slice keeps its least and its largest
    text, if they are asked for. The rows of slice s are ``bounds[s] : bounds[s + 1]``.

    The least of a million texts an hour, 300,000 of which differ: 42 -> 16 ms.
    """
    views = pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type)
    if not (views or has_offsets(column.type)) or len(column) < FEWEST * (bounds.size - 1):
        return plain(column)
    valid = bits(column, VALID) if column.null_count else None
    rows = [_rows(column, valid, bounds, flip) for flip, asked in ((_KEEP, least), (_FLIP, most)) if asked]
    found = np.concatenate(rows)
    held = np.flatnonzero(rows[0] >= 0)
    number = np.zeros(found.size, np.int64)
    number[found >= 0] = np.arange(len(rows) * held.size)
    place = number[: bounds.size - 1].repeat(np.diff(bounds))
    if len(rows) > 1:
        place[rows[1][held]] = number[bounds.size - 1 + held]
    some = found[found >= 0]
    texts = plain(
        some_views(column, _views(column).take(some, axis=0), None, some) if views else column.take(array_of(some))
    )
    return pa.DictionaryArray.from_arrays(array_of(place, None if valid is None else valid == 0), texts)


def _rows(column: pa.Array, valid: Bytes | None, bounds: Ints, flip: np.uint64) -> Ints:
    """The row of the least text of each slice (flipped, of the largest); -1 where all are null."""
    out = np.empty(bounds.size - 1, np.int64)
    _, held, *data = column.buffers()
    if not has_offsets(column.type):
        addresses = np.array([buffer.address for buffer in data], np.int64)
        extreme_views(_views(column), addresses, valid, bounds, flip, out)
        return out
    narrow = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    offsets = np.frombuffer(held, np.int32 if narrow else np.int64)[column.offset :][: len(column) + 1]
    extreme_texts(offsets, np.frombuffer(data[0] or b"", np.uint8), valid, bounds, flip, out)
    return out


def _views(column: pa.Array) -> Ints:
    words = np.frombuffer(column.buffers()[VALUES], np.int64).reshape(-1, 2)
    return words[column.offset :][: len(column)]
