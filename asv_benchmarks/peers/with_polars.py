"""What Polars is asked: columns start, [end], [key], n, total, low, high."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from asv_benchmarks.peers.data import Data, Plan, Work

AGGS = (
    pl.len().alias("n"),
    pl.col("value").sum().alias("total"),
    pl.col("value").min().alias("low"),
    pl.col("value").max().alias("high"),
)
MEDIAN = pl.col("value").median().alias("middle")


def dynamic(size: int, every: int | None = None, aggs: Sequence[pl.Expr] = AGGS) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.polars.rename({"ts": "start"})
        step = every or size
        return lambda: frame.group_by_dynamic("start", every=f"{step}i", period=f"{size}i").agg(*aggs)

    return plan


def groups(size: int, *keys: str, engine: str = "in-memory") -> Plan:
    def plan(data: Data) -> Work:
        slot = (pl.col("ts") // size * size).alias("start")
        return lambda: data.polars.lazy().group_by(slot, *keys).agg(*AGGS).collect(engine=engine)

    return plan


def panes(size: int, every: int) -> Plan:
    def plan(data: Data) -> Work:
        frame, combined = data.polars, [pl.col("n", "total").sum(), pl.col("low").min(), pl.col("high").max()]

        def work() -> pl.DataFrame:
            panes = frame.group_by_dynamic("ts", every=f"{every}i").agg(*AGGS)
            windows = panes.rolling("ts", period=f"{size}i").agg(*combined)
            return windows.select((pl.col("ts") + every - size).alias("start"), "n", "total", "low", "high")

        return work

    return plan


def sessions(gap: int) -> Plan:
    new = (pl.col("ts").diff() > gap) | (pl.col("key") != pl.col("key").shift())
    number = new.fill_null(True).cum_sum().set_sorted().alias("session")
    bounds = pl.col("ts").first().alias("start"), (pl.col("ts").last() + gap).alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            by_key = data.polars.sort("key", maintain_order=True).lazy()  # the rows are in time order already
            grouped = by_key.with_columns(number).group_by("session")
            return grouped.agg(pl.col("key").first(), *bounds, *AGGS).collect()

        return work

    return plan


def counts(size: int) -> Plan:
    bounds = pl.col("ts").first().alias("start"), pl.col("ts").last().alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            numbered = data.polars.with_columns(pl.int_range(pl.len()).set_sorted().alias("row"))
            found = numbered.group_by_dynamic("row", every=f"{size}i")
            return found.agg(*bounds, *AGGS).filter(pl.col("n") == size)

        return work

    return plan


def ranked_counts(size: int) -> Plan:
    bounds = pl.col("ts").first().alias("start"), pl.col("ts").last().alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            ranked = data.polars.sort("ts", maintain_order=True)
            ranked = ranked.with_columns(pl.int_range(pl.len()).set_sorted().alias("rank"))
            found = ranked.group_by_dynamic("rank", every=f"{size}i")
            return found.agg(*bounds, *AGGS).filter(pl.col("n") == size)

        return work

    return plan


def rolling(span: int) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.polars.rename({"ts": "end"})
        return lambda: frame.rolling("end", period=f"{span}i").agg(pl.col("value").min().alias("low"))

    return plan


def tails(rows: int, every: int) -> Plan:
    """Every edge has as many rows before it and none of an earlier one is asked for."""
    value, time = pl.col("value").tail(rows), pl.col("ts").tail(rows)
    aggs = time.first().alias("start"), value.len().alias("n"), value.sum().alias("total")
    aggs = *aggs, value.min().alias("low"), value.max().alias("high")

    def plan(data: Data) -> Work:
        frame = data.polars.with_columns(pl.col("ts").alias("edge"))
        found = frame.set_sorted("edge").group_by_dynamic
        return lambda: (
            found("edge", every=f"{every}i").agg(*aggs).with_columns(pl.col("edge") + every).rename({"edge": "end"})
        )

    return plan


def marks(only_inside: bool) -> Plan:
    """Rows numbered by the marks before them; ``only_inside``: up to the row that leaves."""
    number, left = pl.col("mark").cum_sum(), pl.col("leave").cum_sum().shift(1).fill_null(0)

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            rows = data.polars.lazy().filter(number > left) if only_inside else data.polars.lazy()
            grouped = rows.with_columns(number.set_sorted().alias("number")).group_by("number")
            return grouped.agg(pl.col("ts").first().alias("start"), *AGGS).collect()

        return work

    return plan
