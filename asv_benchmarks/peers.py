"""The same questions to this library, Polars, DuckDB, pandas and numpy: ``python -m asv_benchmarks.peers``.

Each peer has its best plan that we found, its data in its own form and ready before the clock starts; answers are
compared window by window. One thread each, and CPU time of the process; with ``--all-threads`` as many as there are
cores, and time on the wall. The median of runs in which all take turns.
"""

from __future__ import annotations

import os
import sys

# read when polars is imported
os.environ["POLARS_MAX_THREADS"] = str(os.cpu_count()) if "--all-threads" in sys.argv else "1"

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import slicing as sl
from asv_benchmarks.benchmarks import measuring, streams
from asv_benchmarks.benchmarks.streams import SECOND

AGGS = {"n": sl.count(), "total": sl.sum("value"), "low": sl.min("value"), "high": sl.max("value")}
BATCH = 1_000_000
THREADS = int(os.environ["POLARS_MAX_THREADS"])
READ = "plain read"


class Data:
    """One stream in the form that each engine likes best: times are int64 microseconds, ``ts``."""

    def __init__(self, ts: streams.Ints, key: streams.Ints | pa.Array | None = None, in_order: bool = True) -> None:
        columns = {"ts": pa.array(ts), "value": pa.array(streams.values(ts.size))}
        if key is not None:
            columns["key"] = pa.array(key)
        row = np.arange(ts.size)
        columns |= {"mark": pa.array(row % 1000 == 0), "leave": pa.array(row % 1000 == 500)}
        self.table = pa.table(columns)
        self.in_order = in_order

    @cached_property
    def batches(self) -> list[pa.RecordBatch]:
        return self.table.to_batches(max_chunksize=BATCH)

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


Work = Callable[[], object]
Plan = Callable[[Data], Work]


@dataclass(frozen=True)
class Workload:
    """A stream, our spec for it, and what the peers do; ``whole`` windows only are compared, of sliding ones."""

    data: Callable[[int], Data]
    spec: sl.Spec
    peers: Mapping[str, Plan]
    size: int = 0
    share: float = 1.0  # of the rows asked for
    compared: tuple[str, ...] = ()  # the columns of answers; all

    def engines(self, data: Data) -> Iterator[tuple[str, Work]]:
        yield "slicing, push by 1 M", lambda: _pushed(self.spec, data.batches)
        yield "slicing, aggregate", lambda: sl.aggregate(data.table, self.spec, threads=THREADS)
        for name, plan in self.peers.items():
            yield name, plan(data)


def _pushed(spec: sl.Spec, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    operator = sl.Operator(spec, threads=THREADS)
    found = [operator.push(batch).windows for batch in batches]
    return pa.concat_tables([*found, operator.flush().windows])


# --- the peers' plans: columns start, [end], [key], n, total, low, high ---------------------------------------------

POLARS_AGGS = (
    pl.len().alias("n"),
    pl.col("value").sum().alias("total"),
    pl.col("value").min().alias("low"),
    pl.col("value").max().alias("high"),
)
POLARS_MEDIAN = pl.col("value").median().alias("middle")
SQL_AGGS = "count(*) n, sum(value) total, min(value) low, max(value) high"
PANDAS_AGGS = {"n": ("value", "size"), "total": ("value", "sum"), "low": ("value", "min"), "high": ("value", "max")}


def polars_dynamic(size: int, every: int | None = None, aggs: Sequence[pl.Expr] = POLARS_AGGS) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.polars.rename({"ts": "start"})
        step = every or size
        return lambda: frame.group_by_dynamic("start", every=f"{step}i", period=f"{size}i").agg(*aggs)

    return plan


def polars_groups(size: int, *keys: str, engine: str = "in-memory") -> Plan:
    def plan(data: Data) -> Work:
        slot = (pl.col("ts") // size * size).alias("start")
        return lambda: data.polars.lazy().group_by(slot, *keys).agg(*POLARS_AGGS).collect(engine=engine)

    return plan


def polars_panes(size: int, every: int) -> Plan:
    def plan(data: Data) -> Work:
        frame, combined = data.polars, [pl.col("n", "total").sum(), pl.col("low").min(), pl.col("high").max()]

        def work() -> pl.DataFrame:
            panes = frame.group_by_dynamic("ts", every=f"{every}i").agg(*POLARS_AGGS)
            windows = panes.rolling("ts", period=f"{size}i").agg(*combined)
            return windows.select((pl.col("ts") + every - size).alias("start"), "n", "total", "low", "high")

        return work

    return plan


def polars_sessions(gap: int) -> Plan:
    new = (pl.col("ts").diff() > gap) | (pl.col("key") != pl.col("key").shift())
    number = new.fill_null(True).cum_sum().set_sorted().alias("session")
    bounds = pl.col("ts").first().alias("start"), (pl.col("ts").last() + gap).alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            by_key = data.polars.sort("key", maintain_order=True).lazy()  # the rows are in time order already
            grouped = by_key.with_columns(number).group_by("session")
            return grouped.agg(pl.col("key").first(), *bounds, *POLARS_AGGS).collect()

        return work

    return plan


def sql(query: str) -> Plan:
    def plan(data: Data) -> Work:
        return lambda: data.duckdb.sql(query).to_arrow_table()

    return plan


def sql_groups(size: int, *keys: str) -> Plan:
    by = ", ".join(f"{i + 2}" for i in range(len(keys)))
    columns = "".join(f"{key}, " for key in keys)
    return sql(f"SELECT ts // {size} * {size} AS start, {columns}{SQL_AGGS} FROM stream GROUP BY 1{by and ', ' + by}")


def sql_panes(size: int, every: int) -> Plan:
    return sql(f"""
        WITH panes AS (SELECT ts // {every} * {every} AS pane, {SQL_AGGS} FROM stream GROUP BY 1)
        SELECT pane + {every - size} AS start, CAST(sum(n) OVER w AS bigint) n, sum(total) OVER w total,
            min(low) OVER w low, max(high) OVER w high
        FROM panes WINDOW w AS (ORDER BY pane RANGE BETWEEN {size - every} PRECEDING AND CURRENT ROW)
    """)


def sql_sessions(gap: int) -> Plan:
    return sql(f"""
        WITH marked AS (
            SELECT *, ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) <= {gap} AS joined FROM stream
        ), numbered AS (
            SELECT *, count(*) FILTER (NOT coalesce(joined, false)) OVER (
                PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM marked
        ) SELECT key, min(ts) AS start, max(ts) + {gap} AS "end", {SQL_AGGS} FROM numbered GROUP BY key, session
    """)


def sql_spread(size: int, every: int, aggs: str) -> Plan:
    """Each row once for every window that it is in: what a holistic aggregate leaves."""
    return sql(f"""
        SELECT pane * {every} AS start, {aggs} FROM (
            SELECT unnest(range(ts // {every} - {size // every - 1}, ts // {every} + 1)) AS pane, value FROM stream
        ) GROUP BY 1
    """)


def pandas_groups(size: int, *keys: str) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.pandas

        def work() -> pd.DataFrame:
            start = (frame["ts"] // size * size).rename("start")
            by = [start, *(frame[key] for key in keys)] if keys else start
            return frame.groupby(by, sort=False).agg(**PANDAS_AGGS).reset_index()

        return work

    return plan


def _reduced(ts: np.ndarray, value: np.ndarray, size: int) -> dict[str, np.ndarray]:
    edges = np.arange(ts[0] // size, ts[-1] // size + 2) * size
    bounds = np.searchsorted(ts, edges)
    held = np.flatnonzero(np.diff(bounds))
    first = bounds[held]
    return {
        "start": edges[held],
        "n": np.diff(bounds)[held],
        "total": np.add.reduceat(value, first),
        "low": np.minimum.reduceat(value, first),
        "high": np.maximum.reduceat(value, first),
    }


def numpy_reduceat(size: int) -> Plan:
    """Rows are in order: nothing to group by but slices of the array."""

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()
        return lambda: _reduced(ts, value, size)

    return plan


def numpy_panes(size: int, every: int) -> Plan:
    """Panes without gaps, as the stream has none; a window is a row of a view."""
    count = size // every
    over = {"n": np.sum, "total": np.sum, "low": np.min, "high": np.max}

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()

        def work() -> dict[str, np.ndarray]:
            panes = _reduced(ts, value, every)
            view = np.lib.stride_tricks.sliding_window_view
            found = {name: f(view(panes[name], count), axis=1) for name, f in over.items()}
            return {"start": panes["start"][: len(found["n"])], **found}

        return work

    return plan


# counts: so many rows are a window, from its first row's time to its last one's


def sql_counts(size: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, max(ts) AS "end", {SQL_AGGS} FROM stream
        GROUP BY rowid // {size} HAVING count(*) = {size}
    """)


def polars_counts(size: int) -> Plan:
    bounds = pl.col("ts").first().alias("start"), pl.col("ts").last().alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            numbered = data.polars.with_columns(pl.int_range(pl.len()).set_sorted().alias("row"))
            found = numbered.group_by_dynamic("row", every=f"{size}i")
            return found.agg(*bounds, *POLARS_AGGS).filter(pl.col("n") == size)

        return work

    return plan


def numpy_counts(size: int) -> Plan:
    """Rows are in order and none is late: a window is a row of a matrix."""

    def plan(data: Data) -> Work:
        ts, value = data.arrays.values()
        count = ts.size // size

        def work() -> dict[str, np.ndarray]:
            times, values = ts[: count * size].reshape(count, size), value[: count * size].reshape(count, size)
            over = {"total": values.sum(axis=1), "low": values.min(axis=1), "high": values.max(axis=1)}
            return {"start": times[:, 0], "end": times[:, -1], "n": np.full(count, size), **over}

        return work

    return plan


# windows that rows decide


def sql_ranked_counts(size: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, max(ts) AS "end", {SQL_AGGS} FROM (
            SELECT *, row_number() OVER (ORDER BY ts, rowid) - 1 AS rank FROM stream
        ) GROUP BY rank // {size} HAVING count(*) = {size}
    """)


def polars_ranked_counts(size: int) -> Plan:
    bounds = pl.col("ts").first().alias("start"), pl.col("ts").last().alias("end")

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            ranked = data.polars.sort("ts", maintain_order=True)
            ranked = ranked.with_columns(pl.int_range(pl.len()).set_sorted().alias("rank"))
            found = ranked.group_by_dynamic("rank", every=f"{size}i")
            return found.agg(*bounds, *POLARS_AGGS).filter(pl.col("n") == size)

        return work

    return plan


def polars_rolling(span: int) -> Plan:
    def plan(data: Data) -> Work:
        frame = data.polars.rename({"ts": "end"})
        return lambda: frame.rolling("end", period=f"{span}i").agg(pl.col("value").min().alias("low"))

    return plan


def pandas_rolling(span: int) -> Plan:
    def plan(data: Data) -> Work:
        column = data.pandas.set_index(pd.to_datetime(data.pandas["ts"], unit="us"))["value"]
        return lambda: {"end": data.arrays["ts"], "low": column.rolling(f"{span}us").min().to_numpy()}

    return plan


def sql_rolling(span: int) -> Plan:
    return sql(f"""
        SELECT ts AS "end", min(value) OVER (ORDER BY ts RANGE BETWEEN {span - 1} PRECEDING AND CURRENT ROW) AS low
        FROM stream
    """)


def polars_tails(rows: int, every: int) -> Plan:
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


def sql_tails(rows: int, every: int) -> Plan:
    return sql(f"""
        SELECT min(ts) AS start, edge AS "end", {SQL_AGGS} FROM (
            SELECT *, (ts // {every} + 1) * {every} AS edge FROM stream
            QUALIFY row_number() OVER (PARTITION BY ts // {every} ORDER BY ts DESC, rowid DESC) <= {rows}
        ) GROUP BY edge
    """)


def polars_marks(only_inside: bool) -> Plan:
    """Rows numbered by the marks before them; ``only_inside``: up to the row that leaves."""
    number, left = pl.col("mark").cum_sum(), pl.col("leave").cum_sum().shift(1).fill_null(0)

    def plan(data: Data) -> Work:
        def work() -> pl.DataFrame:
            rows = data.polars.lazy().filter(number > left) if only_inside else data.polars.lazy()
            grouped = rows.with_columns(number.set_sorted().alias("number")).group_by("number")
            return grouped.agg(pl.col("ts").first().alias("start"), *POLARS_AGGS).collect()

        return work

    return plan


def sql_marks(only_inside: bool) -> Plan:
    inside = "WHERE number > gone" if only_inside else ""
    return sql(f"""
        SELECT min(ts) AS start, {SQL_AGGS} FROM (
            SELECT *, sum(mark::int) OVER (ORDER BY rowid ROWS UNBOUNDED PRECEDING) AS number,
                sum(leave::int) OVER (ORDER BY rowid ROWS UNBOUNDED PRECEDING) - leave::int AS gone FROM stream
        ) {inside} GROUP BY number
    """)


def numpy_marks(only_inside: bool) -> Plan:
    """Rows are in order: marks are where to cut."""

    def plan(data: Data) -> Work:
        (ts, value), flags = data.arrays.values(), [data.table[name].to_numpy() for name in ("mark", "leave")]

        def work() -> dict[str, np.ndarray]:
            first = np.flatnonzero(flags[0])
            last = np.flatnonzero(flags[1])[: first.size] + 1 if only_inside else np.append(first[1:], ts.size)
            first, over = first[: last.size], (np.add, np.minimum, np.maximum)
            at = np.stack([first, last], axis=1).ravel() if only_inside else first
            at, step = at[at < ts.size], 2 if only_inside else 1
            total, low, high = (f.reduceat(value, at)[::step] for f in over)
            return {"start": ts[first], "n": last - first, "total": total, "low": low, "high": high}

        return work

    return plan


# --- the workloads --------------------------------------------------------------------------------------------------


def _spec(window: sl.ContextFreeWindow, keyed: bool = False, delay: int = 0) -> sl.Spec:
    watermark = sl.bounded(delay) if delay else sl.ordered()
    return sl.Spec("ts", {"w": window}, AGGS, by=["key"] if keyed else [], watermark=watermark)


def _tumbling(rate: int) -> Workload:
    peers = {
        "polars group_by_dynamic": polars_dynamic(SECOND),
        "duckdb": sql_groups(SECOND),
        "pandas": pandas_groups(SECOND),
        "numpy reduceat": numpy_reduceat(SECOND),
    }
    return Workload(lambda rows: Data(streams.times(rows, rate)), _spec(sl.tumbling(SECOND)), peers)


def _keyed(distinct: int, size: int, as_text: bool = False) -> Workload:
    def data(rows: int) -> Data:
        key = streams.keys(rows, min(distinct, max(rows // 10, 1)))
        return Data(streams.times(rows, 100_000), streams.text(key) if as_text else key)

    peers = {
        "polars group_by": polars_groups(size, "key"),
        "polars group_by, streaming": polars_groups(size, "key", engine="streaming"),
        "duckdb": sql_groups(size, "key"),
        "pandas": pandas_groups(size, "key"),
    }
    return Workload(data, _spec(sl.tumbling(size), keyed=True), peers, share=0.5 if as_text else 1.0)


def _late(rows: int, share: float, delay: int) -> streams.Ints:
    return streams.disordered(streams.times(rows, 100_000), share, delay)


def _disorder(rows: int) -> streams.Ints:
    return _late(rows, 0.2, 2 * SECOND)


MINUTE, GAP = 60 * SECOND, 3 * SECOND
WORKLOADS = {
    "tumbling 1 s, 100 k rows a slice": _tumbling(100_000),
    "tumbling 1 s, 1 k rows a slice": _tumbling(1000),
    "tumbling 1 s, 20 rows a slice": _tumbling(20),
    "sliding 60 s / 1 s, 1 k rows a slice": Workload(
        lambda rows: Data(streams.times(rows, 1000)),
        _spec(sl.sliding(MINUTE, every=SECOND)),
        {
            "polars group_by_dynamic": polars_dynamic(MINUTE, SECOND),
            "polars by panes": polars_panes(MINUTE, SECOND),
            "duckdb by panes": sql_panes(MINUTE, SECOND),
            "numpy by panes": numpy_panes(MINUTE, SECOND),
        },
        size=MINUTE,
    ),
    "median, sliding 60 s / 1 s, 1 k rows a slice": Workload(
        lambda rows: Data(streams.times(rows, 1000)),
        sl.Spec("ts", {"w": sl.sliding(MINUTE, every=SECOND)}, {"middle": sl.median("value")}, watermark=sl.ordered()),
        {
            "polars group_by_dynamic": polars_dynamic(MINUTE, SECOND, [POLARS_MEDIAN]),
            "duckdb by rows and windows": sql_spread(MINUTE, SECOND, "median(value) middle"),
        },
        size=MINUTE,
        share=0.1,
    ),
    "20 % out of order, up to 2 s": Workload(
        lambda rows: Data(_disorder(rows), in_order=False),
        _spec(sl.tumbling(SECOND), delay=2 * SECOND),
        {
            "polars group_by": polars_groups(SECOND),
            "polars group_by, streaming": polars_groups(SECOND, engine="streaming"),
            "duckdb": sql_groups(SECOND),
            "pandas": pandas_groups(SECOND),
        },
    ),
    "90 % out of order, up to 10 s": Workload(
        lambda rows: Data(_late(rows, 0.9, 10 * SECOND), in_order=False),
        _spec(sl.tumbling(SECOND), delay=10 * SECOND),
        {
            "polars group_by": polars_groups(SECOND),
            "polars group_by, streaming": polars_groups(SECOND, engine="streaming"),
            "duckdb": sql_groups(SECOND),
        },
    ),
    "1000 keys, tumbling 1 s": _keyed(1000, SECOND),
    "100 k keys, tumbling 10 s": _keyed(100_000, 10 * SECOND),
    "1 M keys, tumbling 100 s": _keyed(1_000_000, 100 * SECOND),
    "1000 string keys, tumbling 1 s": _keyed(1000, SECOND, as_text=True),
    "1000 keys, out of order": Workload(
        lambda rows: Data(_disorder(rows), streams.keys(rows, 1000), in_order=False),
        _spec(sl.tumbling(SECOND), keyed=True, delay=2 * SECOND),
        {
            "polars group_by, streaming": polars_groups(SECOND, "key", engine="streaming"),
            "duckdb": sql_groups(SECOND, "key"),
        },
    ),
    "count windows of 1000 rows": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.rows(1000)}, AGGS, watermark=sl.ordered()),
        {
            "polars group_by_dynamic": polars_counts(1000),
            "duckdb": sql_counts(1000),
            "numpy matrix": numpy_counts(1000),
        },
    ),
    "count windows of 1000 rows, 20 % out of order": Workload(
        lambda rows: Data(_disorder(rows), in_order=False),
        sl.Spec("ts", {"w": sl.rows(1000)}, AGGS, watermark=sl.bounded(2 * SECOND)),
        {"polars sort": polars_ranked_counts(1000), "duckdb": sql_ranked_counts(1000)},
    ),
    "min of the last 10 ms (1000 rows) at each row": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.per_row(10_000)}, {"low": AGGS["low"]}, watermark=sl.ordered()),
        {
            "polars rolling": polars_rolling(10_000),
            "pandas rolling": pandas_rolling(10_000),
            "duckdb window functions": sql_rolling(10_000),
        },
        share=0.5,
        compared=("end", "low"),
    ),
    "last 1000 rows, every 1 s": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.last_rows(1000, SECOND)}, AGGS, watermark=sl.ordered()),
        {"polars group_by_dynamic, tail": polars_tails(1000, SECOND), "duckdb row_number": sql_tails(1000, SECOND)},
    ),
    "punctuation, 1000 rows a window": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.punctuation("mark")}, AGGS, watermark=sl.ordered()),
        {
            "polars cum_sum, group_by": polars_marks(False),
            "duckdb window functions": sql_marks(False),
            "numpy reduceat": numpy_marks(False),
        },
        compared=("start", *AGGS),
    ),
    "frames of 500 rows in 1000": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.frame("mark", "leave")}, AGGS, watermark=sl.ordered()),
        {
            "polars cum_sum, group_by": polars_marks(True),
            "duckdb window functions": sql_marks(True),
            "numpy reduceat": numpy_marks(True),
        },
        compared=("start", *AGGS),
    ),
    "1000 keys, sessions of 3 s": Workload(
        lambda rows: Data(streams.times(rows, 1000), streams.keys(rows, 1000)),
        _spec(sl.session(GAP), keyed=True),
        {"polars sort": polars_sessions(GAP), "duckdb window functions": sql_sessions(GAP)},
        share=0.2,
    ),
}


# --- answers --------------------------------------------------------------------------------------------------------


class Disagreement(Exception):
    """Two engines gave different answers."""


def canonical(answer: object, size: int, span: tuple[int, int], compared: Sequence[str] = ()) -> pa.Table:
    """Columns start, [end], [key], aggregates, in order; of sliding windows those that lie in the data."""
    table = answer if isinstance(answer, pa.Table) else pa.table(answer)
    ours = {"window_start": "start", "window_end": "end"}
    table = table.rename_columns([ours.get(name, name) for name in table.column_names])
    names = [n for n in ("start", "end", "key", "n", "total", "low", "high", "middle") if n in table.column_names]
    names = [n for n in names if n in (compared or names)]
    columns = {n: table[n].cast(_plain(table[n].type)).combine_chunks() for n in names}
    table = pa.table(columns)
    if size:
        start = table["start"]
        inside = pc.and_(pc.greater_equal(start, span[0]), pc.less_equal(start, span[1] - size))
        table = table.filter(inside)
    return table.sort_by([(n, "ascending") for n in ("start", "key", "end") if n in names])


def _plain(type: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type) else pa.string()


def compare(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Exact but for sums, which may be added in another order."""
    if found.num_rows != expected.num_rows:
        raise Disagreement(f"{name} gives {found.num_rows} windows, not {expected.num_rows}")
    for column in found.column_names:
        a, b = found[column], expected[column]
        near = column == "total" and np.allclose(a.to_numpy(), b.to_numpy(), rtol=1e-9, atol=0)
        if not near and not a.equals(b):
            raise Disagreement(f"{name} gives other values of {column!r}")


# --- running --------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    engine: str
    rate: float
    ours: bool
    notes: list[str] = field(default_factory=list)


def run(workload: Workload, rows: int, runs: int) -> list[Row]:
    """The rate of each engine, once their answers agree."""
    data = workload.data(max(int(rows * workload.share), 1000))
    count = data.table.num_rows
    engines = dict(workload.engines(data))
    times = data.arrays["ts"]
    span = -(-int(times.min()) // SECOND) * SECOND - SECOND, int(times.max()) // SECOND * SECOND + SECOND
    expected = None
    for name, work in engines.items():  # also the warm-up
        answer = canonical(work(), workload.size, span, workload.compared)
        if expected is None:
            expected = answer
        compare(name, answer, expected)
    measuring.read(times, data.arrays["value"])
    engines[READ] = lambda: measuring.read(times, data.arrays["value"])
    spent: dict[str, list[float]] = {name: [] for name in engines}
    clock = time.process_time if THREADS == 1 else time.perf_counter
    for _ in range(runs):
        for name, work in engines.items():
            start = clock()
            work()
            spent[name].append(max(clock() - start, 1e-9))
    return [Row(n, count / statistics.median(s), n.startswith("slicing")) for n, s in spent.items()]


def show(title: str, rows: list[Row]) -> None:
    ceiling = next(r.rate for r in rows if r.engine == READ)
    best = max(r.rate for r in rows if not r.ours and r.engine != READ)
    print(f"\n{title}")
    print(f"  {'':34}{'M rows/s':>10}{'of best peer':>14}{'of read':>9}")
    for row in sorted(rows, key=lambda r: -r.rate):
        against = "" if row.engine == READ else f"{row.rate / best:.2f}"
        note = "  behind" if row.ours and row.rate < best else ""
        print(f"  {row.engine:34}{row.rate / 1e6:10.1f}{against:>14}{row.rate / ceiling:9.3f}{note}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="rows of a stream (10,000,000)")
    parser.add_argument("--runs", type=int, help="runs, of which the median counts (5)")
    parser.add_argument("--quick", action="store_true", help="100,000 rows, one run: do answers agree?")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--all-threads", action="store_true", help="a thread a core for each that can, wall time")
    given = parser.parse_args(arguments)
    rows = given.rows or (100_000 if given.quick else 10_000_000)
    runs = given.runs or (1 if given.quick else 5)
    chosen = {title: w for title, w in WORKLOADS.items() if given.only in title}
    if not chosen:
        parser.error(f"no workload's name holds {given.only!r}; there are: {'; '.join(WORKLOADS)}")
    pa.set_cpu_count(THREADS)
    clock = "one thread each, CPU time" if THREADS == 1 else f"{THREADS} threads for each that can, wall time"
    print(f"{rows:,} rows, {clock}, median of {runs}; answers agree where a table is shown")
    failed = False
    for title, workload in chosen.items():
        try:
            show(title, run(workload, rows, runs))
        except Disagreement as wrong:
            failed = True
            print(f"\n{title}\n  ANSWERS DIFFER: {wrong}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
