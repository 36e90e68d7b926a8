"""Input: any data with the Arrow C interface, as record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema as one batch. Raises if a joined dictionary has too many values for its indices."""
    schema = batches[0].schema
    try:
        if any(map(has_halves, schema.types)):
            return _column_by_column(batches, has_halves)
        if hasattr(pa, "concat_batches"):  # from pyarrow 19 on
            return pa.concat_batches(batches)
        found = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return found[0] if found else batches[0]
    except pa.ArrowInvalid:  # dictionaries with too many values, with a null, or with a value twice
        alike = all(batch.schema.equals(schema) for batch in batches)
        if not (alike and any(map(pa.types.is_dictionary, schema.types))):
            raise
    return _column_by_column(batches, pa.types.is_dictionary)


def _column_by_column(batches: Sequence[pa.RecordBatch], recode: Callable[[pa.DataType], bool]) -> pa.RecordBatch:
    columns, schema = [], batches[0].schema
    for at, field in enumerate(schema):
        pieces = [batch.column(at) for batch in batches]
        try:
            columns.append(_recoded(pieces) if recode(field.type) else pa.concat_arrays(pieces))
        except TooManyValues as error:
            raise TooManyValues(f"column {field.name!r} {error}: cast it to its values") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def has_halves(type: pa.DataType) -> bool:
    """Whether it is a dictionary of float16: Arrow joins pieces of one to the values' bits, so 1.5 becomes 15872."""
    return pa.types.is_dictionary(type) and pa.types.is_float16(type.value_type)


def _recoded(pieces: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    """The pieces joined, with a dictionary that is made anew; in the given order, if the values have one."""
    type, words = pieces[0].type, [_without_views(piece.dictionary) for piece in pieces]
    values = pa.concat_arrays([own.take(piece.indices) for own, piece in zip(words, pieces, strict=True)])
    if type.ordered:
        order = words[0].drop_null()
        if not all(own.drop_null().equals(order) for own in words):
            raise TooManyValues(f"has type {type}, and its pieces have other values or another order")
        numbers = pc.index_in(values, order).cast(type.index_type)
        return pa.DictionaryArray.from_arrays(numbers, order.cast(type.value_type), ordered=True)
    whole = encoded(values)
    if len(whole.dictionary) > room_of(type):
        raise TooManyValues(f"has {len(whole.dictionary):,} different values, and type {type} numbers {room_of(type)}")
    return pa.DictionaryArray.from_arrays(whole.indices.cast(type.index_type), whole.dictionary.cast(type.value_type))


def _without_views(values: pa.Array) -> pa.Array:
    """The values in a type that Arrow can take and join."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(values.type)
    return values if plain is None else values.cast(plain)


def encoded(values: pa.Array) -> pa.DictionaryArray:
    """Values as a dictionary. Float16 goes by its bits, as pyarrow 18 has no kernel for it."""
    if not pa.types.is_float16(values.type):
        return values.dictionary_encode()
    bits = values.view(pa.uint16()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(bits.indices, bits.dictionary.view(pa.float16()))


def room_of(type: pa.DictionaryType) -> int:
    """The number of values that the indices can number."""
    return 1 << int(type.index_type.bit_width) - pa.types.is_signed_integer(type.index_type)


class TooManyValues(ValueError):
    """Dictionaries do not make one: they have more values than their indices can number, or different orders."""


def size_of(data: pa.RecordBatch | pa.Table | pa.Array) -> int:
    """The bytes that the data refers to."""
    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:  # pyarrow 18 does not know the size of views
        return int(data.get_total_buffer_size())


def gathered(found: Iterator[pa.RecordBatch], columns: Sequence[str], least: int) -> Iterator[pa.RecordBatch]:
    """The batches of ``found``, with those of fewer than ``least`` rows joined and reduced to ``columns``."""

    def joined() -> Sequence[pa.RecordBatch]:
        try:
            return [together(held)]
        except TooManyValues:
            return held

    held: list[pa.RecordBatch] = []
    count = 0
    for batch in found:
        large = batch.num_rows >= least
        if held and (large or count >= least):
            yield from joined()
            held, count = [], 0
        if large:
            yield batch
        else:
            held.append(batch.select(columns))
            count += batch.num_rows
    if held:
        yield from joined()


def foreign(data: object) -> Iterator[pa.RecordBatch]:
    """The batches that another library exports, read on demand."""
    try:
        if hasattr(data, "__arrow_c_stream__"):
            yield from read(pa.RecordBatchReader.from_stream(data))
            return
        if hasattr(data, "__arrow_c_array__"):
            yield pa.record_batch(data)
            return
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"{_EXPECTED}; got {type(data).__name__}, which is no table ({error})") from None
    raise TypeError(f"{_EXPECTED}; got {type(data).__name__}{_cure(data)}")


def _cure(data: object) -> str:
    """The hint for an error: how to make a table of this object."""
    if isinstance(data, dict):
        return ": make a table of it, such as with pyarrow.table (of columns) or pyarrow.Table.from_pylist (of rows)"
    return ": collect() it first" if hasattr(data, "collect") else ""


_EXPECTED = (
    "data must be a table (pyarrow, pandas, polars, duckdb or another one with __arrow_c_stream__ or __arrow_c_array__ "
    "and columns), a reader, a dataset, a path, or an iterator or a list of them"
)


def read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    seen = False
    for batch in reader:
        seen = True
        yield batch
    if not seen:
        yield empty(reader.schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table of no rows. ``schema.empty_table()`` makes columns from arrays, and imports pandas if it is installed
    (32 -> 4 us)."""
    return pa.Table.from_batches([], schema)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as an array, without a copy if it has one chunk."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    return _recoded(column.chunks) if has_halves(column.type) else pa.concat_arrays(column.chunks)
