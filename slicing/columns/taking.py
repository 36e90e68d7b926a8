"""Some rows of columns, as Arrow's ``take`` gives them: for types that it cannot take, and faster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import array_of, room
from slicing.columns.bits import VALID, bits, buffer
from slicing.columns.casts import plain, without_runs
from slicing.kernels.rows import gather
from slicing.system.arrays import Ints, Mask, read_only

MANY_WORDS = 1 << 14  # with so many words, a kernel pays off


def taken(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Some rows of a batch with any columns: Arrow has no ``take`` for views and run-end encoded columns."""
    index = array_of(rows)

    def take(column: pa.Array) -> pa.Array:
        if pa.types.is_run_end_encoded(column.type):
            return pc.run_end_encode(without_runs(column).take(index), run_end_type=column.type.run_end_type)
        try:
            return column.take(index)
        except pa.ArrowNotImplementedError:  # views, also inside of structs and lists
            return plain(column).take(index).cast(column.type)

    return pa.RecordBatch.from_arrays([take(c) for c in batch.columns], schema=batch.schema)


def rows_of(column: pa.Array, index: Ints, null: Mask | None = None) -> pa.Array:
    """``column.take(index)``, for rows that exist; null where ``null`` is set. Words are faster: 1000 rows 11 -> 3 us,
    1 M with nulls by 1000 keys 9 -> 6 ms."""
    type = column.type
    if not len(column) or not pa.types.is_primitive(type) or type.bit_width != 64:
        return column.take(array_of(index, null))
    held = index if null is None else np.where(null, 0, index)
    words = gathered(buffer(column, np.dtype(np.int64)), held)
    if null is None and not column.null_count:
        return pa.Array.from_buffers(type, index.size, [None, pa.py_buffer(words)], null_count=0)
    valid = bits(column, VALID).take(held) if column.null_count else np.ones(index.size, np.uint8)
    if null is not None:
        valid[null] = 0
    packed = np.packbits(valid, bitorder="little")
    return pa.Array.from_buffers(type, index.size, [pa.py_buffer(packed), pa.py_buffer(words)])


def gathered(words: Ints, index: Ints) -> Ints:
    """``words.take(index)``, for indexes that exist."""
    if index.size < MANY_WORDS:
        return words.take(index)
    out = room(index.size)
    gather(read_only(words), read_only(index), out)
    return out
