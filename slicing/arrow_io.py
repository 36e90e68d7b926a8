"""Data in: anything that speaks the Arrow C interface, as record batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def batches(data: object) -> Iterator[pa.RecordBatch]:
    """The data's record batches, read as they are asked for: a reader is streamed, never held whole."""
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches() or [_empty(data.schema)]
    elif isinstance(data, pa.RecordBatchReader):
        yield from _read(data)
    elif hasattr(data, "scanner") and hasattr(data, "schema"):  # a pyarrow dataset
        yield from _read(data.scanner().to_reader())
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _read(pa.RecordBatchReader.from_stream(data))
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    else:
        raise TypeError(
            "data must have __arrow_c_stream__ or __arrow_c_array__ (a pyarrow, polars, pandas or duckdb table, a "
            f"record batch, a reader or a dataset); got {type(data).__name__}"
        )


def one_batch(data: object) -> pa.RecordBatch:
    """The data as a single batch: what is pushed together is judged together."""
    if isinstance(data, pa.RecordBatch):
        return data
    found = list(batches(data))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError("the stream of data gave no batch at all; push a batch of zero rows to say its schema")
    return pa.concat_batches(found)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    seen = False
    for batch in reader:
        seen = True
        yield batch
    if not seen:
        yield _empty(reader.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
