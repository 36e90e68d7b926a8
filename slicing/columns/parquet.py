"""Row groups of Parquet files: which are asked for, and their rows in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CUT = 1000  # units: pyarrow gives statistics in nanoseconds as microseconds

Bounds = tuple[pa.Scalar | None, pa.Scalar | None]


def opened(fragment: Any, read: int) -> pq.ParquetFile:
    """A file of a dataset; ``read``: so many bytes of it at a time."""
    return pq.ParquetFile(fragment.open(), metadata=fragment.metadata, pre_buffer=False, buffer_size=read)


def has(file: pq.ParquetFile, schema: pa.Schema, columns: Sequence[str] | None) -> bool:
    """Whether its columns are as a dataset has them."""
    own = file.schema_arrow
    if columns is None and own.names != schema.names:
        return False
    names = columns or schema.names
    return all(own.names.count(name) == 1 and own.field(name) == schema.field(name) for name in names)


def pieces(
    file: pq.ParquetFile, rows: int, groups: Sequence[int], columns: Sequence[str] | None, many: bool = False
) -> Iterator[pa.RecordBatch]:
    """So many rows at a time, one row group after the other: of several at once Arrow reads all ahead that the consumer
    is slower by. ``many``: a thread a column."""
    for group in groups:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=many)


def within(file: pq.ParquetFile, time: str, bounds: Bounds) -> list[int]:
    """The row groups that may have rows within the bounds, by the statistics of the file."""
    low, high = (None if bound is None else comparable(bound) for bound in bounds)
    every = range(file.metadata.num_row_groups)
    names = [file.metadata.schema.column(at).path for at in range(file.metadata.num_columns)]
    if (low is None and high is None) or time not in names:
        return list(every)
    at, kept = names.index(time), []
    type = file.schema_arrow.field(time).type
    for group in every:
        known = file.metadata.row_group(group).column(at).statistics
        if known is not None and known.has_min_max:
            least, most = (comparable(pa.scalar(value).cast(type)) for value in (known.min, known.max))
            if (low is not None and most + CUT < low) or (high is not None and least >= high):
                continue
        kept.append(group)
    return kept


def comparable(value: pa.Scalar) -> int:
    number = value.value if hasattr(value, "value") else value.as_py()
    assert isinstance(number, int)
    return number
