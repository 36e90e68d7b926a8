"""Row groups of Parquet files: which ones to read, and their rows in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CUT = 1000  # units: pyarrow truncates statistics in nanoseconds to microseconds

Bounds = tuple[pa.Scalar | None, pa.Scalar | None]


def opened(fragment: Any, read: int) -> pq.ParquetFile:
    """A file of a dataset, read in pieces of ``read`` bytes."""
    return pq.ParquetFile(fragment.open(), metadata=fragment.metadata, pre_buffer=False, buffer_size=read)


def old_times(schema: pq.ParquetSchema) -> set[str]:
    """The columns with times of 96 bits, Parquet's old form, which Spark writes by default."""
    columns = map(schema.column, range(len(schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def has(own: pa.Schema, schema: pa.Schema, columns: Sequence[str] | None) -> bool:
    """Whether the columns of a file have the types of the dataset."""
    if columns is None and own.names != schema.names:
        return False
    names = columns or schema.names
    return all(own.names.count(name) == 1 and own.field(name) == schema.field(name) for name in names)


def parts(metadata: pq.FileMetaData, groups: Sequence[int], rows: int) -> Iterator[list[int]]:
    """Row groups in turn: as many together as have no more than so many rows, but at least one."""
    some: list[int] = []
    held = 0
    for group in groups:
        size = metadata.row_group(group).num_rows
        if some and held + size > rows:
            yield some
            some, held = [], 0
        some.append(group)
        held += size
    if some:
        yield some


def pieces(
    file: pq.ParquetFile, rows: int, groups: Sequence[int], columns: Sequence[str] | None, many: bool = False
) -> Iterator[pa.RecordBatch]:
    """Batches of ``rows`` rows, one row group after the other. ``many``: one thread for each column.

    With several row groups at once, Arrow would read ahead without limit if the consumer is slow."""
    for group in groups:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=many)


def within(metadata: pq.FileMetaData, schema: pa.Schema, time: str, bounds: Bounds) -> list[int]:
    """The row groups of a file that may have rows within the bounds, by its statistics."""
    low, high = (None if bound is None else comparable(bound) for bound in bounds)
    every = range(metadata.num_row_groups)
    names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    if (low is None and high is None) or time not in names:
        return list(every)
    at, kept = names.index(time), []
    type = schema.field(time).type
    for group in every:
        reach = _reach(metadata.row_group(group).column(at).statistics, type)
        if reach is not None:
            least, most = reach
            if (low is not None and most + CUT < low) or (high is not None and least >= high):
                continue
        kept.append(group)
    return kept


def _reach(statistics: Any, type: pa.DataType) -> tuple[int, int] | None:
    """The least and the largest value of a row group, if they are known."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        least, most = (comparable(pa.scalar(value).cast(type)) for value in (statistics.min, statistics.max))
    except (ValueError, OverflowError):  # pyarrow makes Python's datetimes of them, from the year 1 to 9999
        return None
    return least, most


def comparable(value: pa.Scalar) -> int:
    number = value.value if hasattr(value, "value") else value.as_py()
    assert isinstance(number, int)
    return number
