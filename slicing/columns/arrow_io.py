"""Data in: anything that speaks the Arrow C interface, as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike

import pyarrow as pa


def batches(data: object) -> Iterator[pa.RecordBatch]:
    """The data's record batches, read as they are asked for: a reader is streamed, never held whole."""
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches() or [empty(data.schema)]
    elif isinstance(data, pa.RecordBatchReader):
        yield from _read(data)
    elif hasattr(data, "scanner") and hasattr(data, "schema"):  # a pyarrow dataset
        # read ahead by a piece, not by whole files: memory stays bounded whatever their size
        yield from _read(data.scanner(fragment_readahead=1, batch_readahead=2).to_reader())
    else:
        yield from _foreign(data)


def gathered(found: Iterator[pa.RecordBatch], columns: Sequence[str], least: int) -> Iterator[pa.RecordBatch]:
    """The same rows: batches of fewer rows than ``least`` together, and only these columns; larger ones as they are."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in found:
        large = batch.num_rows >= least
        if held and (large or count >= least):
            yield pa.concat_batches(held)
            held, count = [], 0
        if large:
            yield batch
        else:
            held.append(batch.select(columns))
            count += batch.num_rows
    if held:
        yield pa.concat_batches(held)


def one_batch(data: object) -> pa.RecordBatch:
    """The data as a single batch: what is pushed together is judged together."""
    if isinstance(data, pa.RecordBatch):
        return data
    found = list(batches(data))
    return found[0] if len(found) == 1 else pa.concat_batches(found)


def _foreign(data: object) -> Iterator[pa.RecordBatch]:
    """What another library hands over."""
    try:
        if hasattr(data, "__arrow_c_stream__"):
            yield from _read(pa.RecordBatchReader.from_stream(data))
            return
        if hasattr(data, "__arrow_c_array__"):
            yield pa.record_batch(data)
            return
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"{_EXPECTED}; got {type(data).__name__}, which is no table ({error})") from None
    raise TypeError(f"{_EXPECTED}; got {type(data).__name__}{_cure(data)}")


def _cure(data: object) -> str:
    """How what is no table becomes one."""
    if isinstance(data, str | PathLike):
        return ": open it first, such as with pyarrow.dataset.dataset(path)"
    if isinstance(data, dict):
        return ": make a table of it, such as with pyarrow.table"
    if isinstance(data, list | tuple | Iterator):
        return ": make one table of it, such as with pyarrow.Table.from_pylist (of rows) or concat_tables (of tables)"
    return ": collect() it first" if hasattr(data, "collect") else ""


_EXPECTED = (
    "data must have __arrow_c_stream__ or __arrow_c_array__ and columns (a pyarrow, polars, pandas or duckdb table, a "
    "record batch, a reader or a dataset)"
)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    seen = False
    for batch in reader:
        seen = True
        yield batch
    if not seen:
        yield empty(reader.schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table of no rows: ``schema.empty_table()``, which makes an array a column, by way of pandas where that is
    installed (32 -> 4 us)."""
    return pa.Table.from_batches([], schema)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
