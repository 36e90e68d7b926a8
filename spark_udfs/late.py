"""Late rows of a stream, which places write as Parquet files."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slicing.system.filesystems import filesystem, publish
from spark_udfs.progress import Step
from spark_udfs.versions import StateError


@lru_cache(16)
def check_late(path: str, process: int) -> None:
    """Stop a query that cannot write late rows, even if there are none yet; each worker tests it once."""
    try:
        system, root = filesystem(path)
        tried = f"{root}/.{uuid.uuid4().hex}"
        publish(system, tried, b"")
    except OSError as error:
        raise StateError(f"late_path={path!r}: this executor cannot write there: {error}") from error
    with suppress(OSError):  # it may be allowed to write and not to remove
        system.delete_file(tried)


def write_late(path: str, tables: Mapping[str, pa.Table], name: str, step: Step) -> None:
    """Write one file for each batch and partition; its name marks its content, so repeated attempts are equal."""
    system, root = filesystem(path)
    for folder, late in tables.items():
        if not late.num_rows:
            continue
        sink = io.BytesIO()
        pq.write_table(in_one_order(late), sink)
        data = sink.getvalue()
        mark = hashlib.blake2b(data, digest_size=4).hexdigest()
        file = f"{name}-{step.query[:8]}-{step.batch:012}-{step.partition:05}-{mark}.parquet"
        publish(system, "/".join(filter(None, (root, folder, file))), data)


def in_one_order(rows: pa.Table) -> pa.Table:
    """The rows in an order that does not depend on how they arrived: by their flat columns, then by their nested ones.

    Arrow does not sort by nested columns. Where rows are equal but for these, the bytes of each row decide.
    """
    flat = pa.table({f"{i}": _bits(c) for i, c in enumerate(rows.columns) if _sortable(c.type)})
    order = _order(flat)
    rows, flat = rows.take(order), flat.take(order)
    nested = rows.select([i for i, f in enumerate(rows.schema) if pa.types.is_nested(f.type)])
    if nested.num_columns:
        same = np.logical_and.reduce([_as_before(column) for column in flat.columns])
        tied = np.append(same[1:], False) | same
        packed = [_bytes_of(nested.take([row])) if is_tied else b"" for row, is_tied in enumerate(tied)]
        rows = rows.take(_order(pa.table({"group": np.cumsum(~same), "row": pa.array(packed, pa.large_binary())})))
    return rows.combine_chunks()


def _sortable(type: pa.DataType) -> bool:
    return not (pa.types.is_nested(type) or pa.types.is_null(type))


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The bits of floats as whole numbers, which tell 0.0 from -0.0."""
    if not pa.types.is_floating(column.type):
        return column
    whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
    return pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)


def _order(table: pa.Table) -> pa.Array:
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])


def _as_before(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Whether each row has the value of the row before it."""
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.dictionary_encode("encode").chunks])
    return np.append(False, codes[1:] == codes[:-1])


def _bytes_of(row: pa.Table) -> bytes:
    (batch,) = row.combine_chunks().to_batches()
    return bytes(batch.serialize())
