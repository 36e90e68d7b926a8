"""Some rows of columns, as Arrow's ``take`` gives them: for types that it cannot take, and faster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import MOST_TEXT, array_of, room
from slicing.columns.bits import VALID, bits, buffer
from slicing.columns.casts import plain, without_runs
from slicing.columns.types import has_offsets
from slicing.kernels.rows import gather
from slicing.kernels.text import PIECE, copy_texts, ends_of_texts
from slicing.system.arrays import Ints, Mask, read_only

MANY_WORDS = 1 << 14  # with so many words, or texts, a kernel pays off


def taken(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Some rows of a batch with any columns: Arrow has no ``take`` for views and run-end encoded columns."""
    rows = rows.astype(np.int64, copy=False)  # Arrow's own orders are unsigned
    index = array_of(rows)

    def take(column: pa.Array) -> pa.Array:
        if pa.types.is_run_end_encoded(column.type):
            return pc.run_end_encode(without_runs(column).take(index), run_end_type=column.type.run_end_type)
        try:
            return rows_of(column, rows)
        except pa.ArrowNotImplementedError:  # views, also inside of structs and lists
            return plain(column).take(index).cast(column.type)

    return pa.RecordBatch.from_arrays([take(c) for c in batch.columns], schema=batch.schema)


def rows_of(column: pa.Array, index: Ints, null: Mask | None = None) -> pa.Array:
    """``column.take(index)``, for rows that exist; null where ``null`` is set. Words are faster: 1000 rows 11 -> 3 us,
    1 M with nulls by 1000 keys 9 -> 6 ms. So are many texts."""
    type = column.type
    if has_offsets(type) and len(column) and index.size >= MANY_WORDS:
        texts = _texts(column, index, null)
        if texts is not None:
            return texts
    if not len(column) or not pa.types.is_primitive(type) or type.bit_width != 64:
        return column.take(array_of(index, null))
    held = index if null is None else np.where(null, 0, index)
    words = gathered(buffer(column, np.dtype(np.int64)), held)
    return pa.Array.from_buffers(type, index.size, [_valid(column, held, null), pa.py_buffer(words)])


def _valid(column: pa.Array, index: Ints, null: Mask | None) -> pa.Buffer | None:
    """Which of some rows are not null, as a bitmap. None: all."""
    if null is None and not column.null_count:
        return None
    valid = bits(column, VALID).take(index) if column.null_count else np.ones(index.size, np.uint8)
    if null is not None:
        valid[null] = 0
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _texts(column: pa.Array, index: Ints, null: Mask | None) -> pa.Array | None:
    """Some texts of a column. None if they do not fit a column of its type."""
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type) else np.int32
    starts = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    rows = read_only(index if null is None else np.where(null, -1, index))
    ends = room(index.size + 1, width)
    size = ends_of_texts(rows, read_only(starts), ends)
    if width is np.int32 and size > MOST_TEXT:
        return None
    text = room(size + PIECE, np.uint8)
    copy_texts(rows, read_only(starts), read_only(bytes_), ends, text)
    valid = _valid(column, index if null is None else np.where(null, 0, index), null)
    return pa.Array.from_buffers(column.type, index.size, [valid, pa.py_buffer(ends), pa.py_buffer(text)])


def gathered(words: Ints, index: Ints) -> Ints:
    """``words.take(index)``, for indexes that exist."""
    if index.size < MANY_WORDS:
        return words.take(index)
    out = room(index.size)
    gather(read_only(words), read_only(index), out)
    return out
