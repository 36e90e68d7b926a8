"""Results as dictionaries, if the input column was a dictionary."""

from __future__ import annotations

import pyarrow as pa

from slicing.columns.arrow_io import TooManyValues, encoded, has_halves, one_piece, room_of
from slicing.columns.types import is_short_decimal, result_type


def unordered(type: pa.DictionaryType) -> pa.DictionaryType:
    """The type of results for values of such a column; the order flag of the dictionary is not kept."""
    return pa.dictionary(type.index_type, result_type(type.value_type))


def coded(values: pa.Array | pa.ChunkedArray, type: pa.DictionaryType) -> pa.Array | pa.ChunkedArray:
    """Values as a dictionary. If the indices are too narrow for all values, several chunks with one dictionary each."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([piece for chunk in values.chunks for piece in _pieces(chunk, type)], type)
    pieces = _pieces(values, type)
    return pieces[0] if len(pieces) == 1 else pa.chunked_array(pieces, type)


def _pieces(values: pa.Array, type: pa.DictionaryType) -> list[pa.Array]:
    if is_short_decimal(values.type):  # Arrow encodes none
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    found, room = encoded(values), room_of(type)  # a column that already is a dictionary stays as it is
    if len(found.dictionary) > min(room, 2 * len(values)) and pa.types.is_dictionary(values.type):
        found = encoded(values.cast(values.type.value_type))
    if len(found.dictionary) > room:
        return [one for at in range(0, len(values), room) for one in _pieces(values[at : at + room], type)]
    dictionary = found.dictionary.cast(type.value_type)
    return [pa.DictionaryArray.from_arrays(found.indices.cast(type.index_type), dictionary, ordered=type.ordered)]


def unified(table: pa.Table) -> pa.Table:
    """The table with one dictionary per column, unless the indices of a column are too narrow for all its values."""
    for at, column in enumerate(table.columns):
        if has_halves(column.type):
            table = table.set_column(at, table.field(at), one_piece(column))
    try:
        return table.unify_dictionaries()
    except pa.ArrowInvalid:
        return table


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array: of its values, if these are too many for the indices of a dictionary."""
    try:
        return one_piece(column)
    except (pa.ArrowInvalid, TooManyValues):
        if not pa.types.is_dictionary(column.type):
            raise
        return one_piece(column.cast(column.type.value_type))


def widely_indexed(column: pa.Array) -> pa.Array:
    """A dictionary with indices of 32 bits, as Polars and Arrow have them; another column as it is."""
    if not pa.types.is_dictionary(column.type) or column.type.index_type == pa.int32():
        return column
    return pa.DictionaryArray.from_arrays(
        column.indices.cast(pa.int32()), column.dictionary, ordered=column.type.ordered
    )


def some_of(column: pa.ChunkedArray, places: pa.Array) -> pa.Array | pa.ChunkedArray:
    """The values of a column at ``places``, whatever its dictionaries; null where a place is null."""
    try:
        return one_piece(column).take(places)
    except pa.ArrowInvalid:  # too many values for the indices of a dictionary
        if not pa.types.is_dictionary(column.type):
            raise
        return coded(one_piece(column.cast(column.type.value_type)).take(places), column.type)
