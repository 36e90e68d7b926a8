"""Casts and decoding, also those that pyarrow refuses, at least in the oldest version that works."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.types import storable


def cast(column: pa.Array, type: pa.DataType) -> pa.Array:
    """``column.cast(type)``. Arrow itself cannot cast dictionaries of views inside of structs and lists."""
    try:
        return column.cast(type)
    except pa.ArrowNotImplementedError:
        if not pa.types.is_nested(type):
            raise
    return _cast_by_parts(column, type)


def _cast_by_parts(column: pa.Array, type: pa.DataType) -> pa.Array:
    if column.type == type or not pa.types.is_nested(type):
        coded = column.type != type and pa.types.is_dictionary(column.type)
        return column.dictionary.cast(type).take(column.indices) if coded else column.cast(type)
    null = column.is_null()
    if pa.types.is_struct(type):
        parts = [_cast_by_parts(column.field(at), field.type) for at, field in enumerate(type)]
        return pa.StructArray.from_arrays(parts, fields=list(type), mask=null)
    if pa.types.is_fixed_size_list(type):
        values = column.values.slice(column.offset * type.list_size, len(column) * type.list_size)
        return pa.FixedSizeListArray.from_arrays(_cast_by_parts(values, type.value_type), type=type, mask=null)
    sizes = as_numpy(pc.fill_null(pc.list_value_length(column), 0))
    large = pa.types.is_large_list(type)
    ends = array_of(np.append(0, np.cumsum(sizes)).astype(np.int64 if large else np.int32))
    values = _cast_by_parts(column.flatten(), type.value_type)
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(ends, values, type=type, mask=null)


def without_runs(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A run-end-encoded column decoded. Arrow 18 decodes no lists and structs, which are taken run by run."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(list(map(without_runs, column.chunks)), column.type.value_type)
    try:
        return pc.run_end_decode(column)
    except pa.ArrowNotImplementedError:
        ends = as_numpy(column.run_ends).astype(np.int64).clip(column.offset, column.offset + len(column))
        return column.values.take(array_of(np.arange(ends.size).repeat(np.diff(ends, prepend=column.offset))))


def plain(column: pa.Array) -> pa.Array:
    """The column in the type in which it is kept."""
    type = column.type
    if pa.types.is_dictionary(type) and storable(type.value_type) != type.value_type:
        values = column.dictionary.cast(storable(type.value_type))
        return pa.DictionaryArray.from_arrays(column.indices, values)
    if pa.types.is_run_end_encoded(type):
        return plain(without_runs(column))
    return column if storable(type) == type else cast(column, storable(type))
