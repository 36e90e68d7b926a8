"""Aggregates that need every value: pushes of 1 M rows, beside what peers take for the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa

import slicing as sl

from . import measuring, streams
from .streams import SECOND

MINUTE = 60 * SECOND


def pushed(spec: sl.Spec, batches: list[pa.RecordBatch]) -> int:
    operator = sl.Operator(spec)
    found = sum(operator.push(batch).windows.num_rows for batch in batches)
    return found + operator.flush().windows.num_rows


class MedianSliding:
    """Exact median of 60 s every 1 s, 1000 rows a second: each engine's best plan that we found."""

    params: ClassVar = ["slicing", "polars", "duckdb"]
    param_names: ClassVar = ["engine"]
    timer = time.process_time
    rows = 1_000_000

    def setup(self, engine: str) -> None:
        self.whole = streams.batch(streams.times(streams.sized(self.rows), 1000))
        plans: dict[str, Callable[[], Callable[[], object]]] = {
            "slicing": self.slicing,
            "polars": self.polars,
            "duckdb": self.duckdb,
        }
        self.work = plans[engine]()
        self.work()

    def slicing(self) -> Callable[[], object]:
        spec = sl.Spec("ts", {"w": sl.sliding("60s", every="1s")}, {"middle": sl.median("value")})
        batches = streams.cut(self.whole, streams.sized(100_000))
        return lambda: pushed(spec, batches)

    def polars(self) -> Callable[[], object]:
        import polars as pl

        frame: Any = pl.DataFrame(pl.from_arrow(pa.table(self.whole))).rechunk().set_sorted("ts")
        return lambda: frame.group_by_dynamic("ts", every="1s", period="60s").agg(pl.col("value").median())

    def duckdb(self) -> Callable[[], object]:
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        connection.register("arrow", pa.table(self.whole))
        connection.execute("CREATE TABLE stream AS SELECT epoch_us(ts) AS ts, value FROM arrow")
        query = f"""SELECT unnest(range(ts // {SECOND} - 59, ts // {SECOND} + 1)) AS pane, value FROM stream"""
        return lambda: connection.sql(f"SELECT pane, median(value) FROM ({query}) GROUP BY 1").to_arrow_table()

    def time_windows(self, engine: str) -> None:
        self.work()

    def track_rows_per_second(self, engine: str) -> float:
        return self.whole.num_rows / measuring.seconds(self.work, wanted=3)[0]

    track_rows_per_second.unit = "rows/s"


AGGS = {
    "median": sl.median("value"),
    "quantile": sl.quantile("value", 0.99),
    "count_distinct": sl.count_distinct("value"),
    "mode": sl.mode("value"),
    "top_k": sl.top_k("value", 10),
    "heavy_hitters": sl.heavy_hitters("value", 0.01),
    "approx_quantile": sl.approx_quantile("value", 0.99),
    "approx_count_distinct": sl.approx_count_distinct("value"),
    "collect": sl.collect("value"),
}


class Aggregates:
    """Each over tumbling windows of 10 s or sliding ones of 60 s every 1 s, 10,000 rows a second, 0 or 1000 keys."""

    params: ClassVar = [list(AGGS), ["tumbling", "sliding"], [0, 1000]]
    param_names: ClassVar = ["agg", "window", "keys"]
    timer = time.process_time
    rows = 1_000_000

    def setup(self, agg: str, window: str, keys: int) -> None:
        rows = streams.sized(self.rows)
        batch = streams.batch(streams.times(rows, 10_000), streams.keys(rows, keys or 1))
        self.batches = streams.cut(batch, streams.sized(250_000))
        kinds = {"tumbling": sl.tumbling("10s"), "sliding": sl.sliding("60s", every="1s")}
        by = ["key"] if keys else []
        self.spec = sl.Spec("ts", {"w": kinds[window]}, {"answer": AGGS[agg]}, by=by)
        pushed(self.spec, self.batches)

    def time_pushes(self, agg: str, window: str, keys: int) -> None:
        pushed(self.spec, self.batches)
