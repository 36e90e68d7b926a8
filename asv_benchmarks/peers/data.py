"""A stream in the form that each engine likes best."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import datafusion
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from asv_benchmarks.benchmarks import streams
from asv_benchmarks.peers import THREADS


class Data:
    """One stream in the form that each engine likes best: times are int64 microseconds, ``ts``."""

    def __init__(self, ts: streams.Ints, key: streams.Ints | pa.Array | None = None, in_order: bool = True) -> None:
        columns = {"ts": pa.array(ts), "value": pa.array(streams.values(ts.size))}
        if key is not None:
            columns["key"] = pa.array(key)
        row = np.arange(ts.size)
        columns |= {"mark": pa.array(row % 1000 == 0), "leave": pa.array(row % 1000 == 500)}
        self.ours = self.table = pa.table(columns)
        if key is not None and pa.types.is_dictionary(self.table["key"].type):  # to others the numbers that it holds
            self.table = self.ours.set_column(2, "key", self.ours["key"].cast(self.ours["key"].type.value_type))
        self.in_order = in_order

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: self.table[name].to_numpy() for name in ("ts", "value")}

    @cached_property
    def polars(self) -> pl.DataFrame:
        frame = pl.DataFrame(pl.from_arrow(self.table)).rechunk()
        return frame.set_sorted("ts") if self.in_order else frame

    @cached_property
    def pandas(self) -> pd.DataFrame:
        return self.table.to_pandas()

    @cached_property
    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """A table of its own: quicker than scanning Arrow."""
        connection = duckdb.connect()
        connection.execute(f"SET threads = {THREADS}")
        connection.register("arrow", self.table)
        connection.execute("CREATE TABLE stream AS SELECT * FROM arrow")
        return connection

    @cached_property
    def datafusion(self) -> datafusion.SessionContext:
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(THREADS))
        context.register_record_batches("stream", [self.table.to_batches(max_chunksize=1 << 17)])
        return context


Work = Callable[[], object]
Plan = Callable[[Data], Work]
