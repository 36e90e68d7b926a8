"""Peers with one thread each, their data in their own form before the clock starts."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa


def connection(threads: int = 1, **tables: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB with tables of its own, which is quicker than scanning Arrow. Times are whole microseconds."""
    found = duckdb.connect()
    found.execute(f"SET threads = {threads}")
    for name, table in tables.items():
        found.register(f"arrow_{name}", plain(table))
        found.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")
        found.unregister(f"arrow_{name}")
    return found


def frame(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(plain(table))).rechunk()


def plain(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Times as integers, so that no engine spends its time on calendars."""
    given = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(given.column_names, given.columns, strict=True)
    }
    return pa.table(columns)
