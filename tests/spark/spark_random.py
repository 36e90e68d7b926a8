"""``python tests/spark/spark_random.py --queries 50``: random queries, each answered here and by Spark's own windows.

A query draws its windows (several of any kind at once), keys, aggregates, watermark, types and zones. A stream of files
with rows out of order and late is answered in micro-batches, and all rows at once as a batch; Spark answers each window
type by a query of its own. Row by row nothing may be missing, nothing be there beside it, and every value be the same.
These streams are asked with ``progress="native"``; asked without it, each has to give what an operator in this process
gives when it is pushed the same micro-batches, and as many late rows.

What differs on purpose (``docs/spark.md``) is not drawn: NaN in ``min`` and ``max``, ties of ``first`` and ``last``
(``sequence`` decides, and orders Spark's too), a session that ends at the watermark, aggregates that approximate.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

import slicing as sl
from spark_udfs import read_files, window_aggregate
from spark_udfs.local import session

STARTS = (10**15, 1_790_000_000_000_000, 1_582_934_400_000_000, 4_102_444_790_000_000)  # microseconds: 2001, 2026, ...
SCALES = (1, 1, 360, 432_000)  # a micro-batch spans 20 s, or two hours, or 100 days; windows and delays with it
END = 20_000 * 10**6  # after the start, at scale 1: rows that close all windows before them
TYPES = {
    "name": pa.string(),
    "price": pa.decimal128(9, 2),
    "day": pa.date32(),
    "number": pa.int64(),
    "small": pa.int32(),
    "yes": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "share": pa.float64(),
    "plain": pa.float64(),
    "factor": pa.float64(),
    "row": pa.int64(),
    "one": pa.int32(),
}
KEYS = ("name", "price", "day", "number", "yes", "at", "share")
ORDERED = ("name", "price", "day", "number", "small", "at", "plain")  # what has a smallest and a largest value
AMOUNTS = ("number", "small", "plain", "price")


# --- a stream ---------------------------------------------------------------------------------------------------------


def readings(query: Query, batch: int) -> pa.Table:
    """Rows in whole 10 ms, out of order by up to 4 s; some are late by up to two minutes. A tenth of all is null."""
    rng, size = np.random.default_rng([query.seed, batch]), query.size
    behind = np.where(rng.random(size) < query.late, rng.integers(0, 12_000, size), rng.integers(0, 400, size))
    times = (rng.integers(batch * 2000, (batch + 1) * 2000, size) - behind) * 10_000
    return rows(rng, query.start + times * query.scale, query.zone, batch)


def closing(query: Query, batch: int) -> pa.Table:
    times = np.array([query.start + (END + batch * 10**9) * query.scale])
    return rows(np.random.default_rng([query.seed, batch]), times, query.zone, batch)


def rows(rng: np.random.Generator, times: np.ndarray, zone: str | None, batch: int) -> pa.Table:
    size = len(times)

    def of(values: list, type: pa.DataType) -> pa.Array:
        chosen = pa.array(values, type).take(pa.array(rng.integers(0, len(values), size)))
        return pa.array(
            [None if gone else v for v, gone in zip(chosen.to_pylist(), rng.random(size) < 0.1, strict=True)], type
        )

    columns = {
        "name": of(["a", "b", "", "é", "longer than sixteen bytes"], TYPES["name"]),
        "price": of([Decimal("1.25"), Decimal("-3.50"), Decimal("0.00"), Decimal("9999999.99")], TYPES["price"]),
        "day": of([dt.date(2026, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 3, 29)], TYPES["day"]),
        "number": of([-3, 0, 1, 2, 2**40], TYPES["number"]),
        "small": of(list(range(-50, 50)), TYPES["small"]),
        "yes": of([True, False], TYPES["yes"]),
        "at": of([dt.datetime(2026, 1, 1, 9, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)], TYPES["at"]),
        "share": of([0.0, -0.0, math.nan, 1.5], TYPES["share"]),
        "plain": of([n / 4 for n in range(-40, 40)], TYPES["plain"]),  # sums of these are exact in any order
        "factor": of([0.5, 1.0, 2.0, -1.0], TYPES["factor"]),
        "row": pa.array(np.arange(size) + batch * 100_000),
        "one": pa.array([1] * size, TYPES["one"]),
    }
    return pa.table({"ts": pa.array(times, pa.timestamp("us", zone)), **columns})


def written(folder: Path, tables: list[pa.Table]) -> str:
    """One file a micro-batch, in this order."""
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number:03}.parquet", row_group_size=64)
        os.utime(folder / f"{number:03}.parquet", (10**9 + number, 10**9 + number))
    return str(folder)


# --- what is asked, here and of Spark ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """An aggregate, and how Spark is asked for it."""

    here: sl.Aggregate
    there: Column
    like: Callable[[Any, Any], bool] = field(default=lambda mine, theirs: same(mine, theirs))


def aggregate(chance: random.Random) -> tuple[str, Asked]:
    column, amount = chance.choice(ORDERED), chance.choice(AMOUNTS)
    number, kind = chance.choice(["number", "small", "plain"]), chance.choice(list(AGGREGATES))
    q, ddof = chance.choice([0.0, 0.1, 0.5, 0.75, 1.0]), chance.choice([0, 1])
    return kind, AGGREGATES[kind](column, amount, number, q, ddof)


def in_time(column: str, take: str) -> Column:
    """The value of the first or last row that has one."""
    return sf.expr(f"{take}_by({column}, struct(ts, row)) filter (where {column} is not null)")


def listed(column: str) -> Column:
    held = f"collect_list(struct(ts, row, {column} as v)) filter (where {column} is not null)"
    return sf.expr(f"transform(sort_array({held}), x -> x.v)")


def some(mine: list | None, theirs: list) -> bool:
    """Without a value null here, an empty list there."""
    return same(mine or [], theirs)


def about(mine: int, theirs: int) -> bool:
    return abs(mine - theirs) <= max(2, theirs // 10)


def most_often(mine: Any, theirs: list) -> bool:
    """Whichever of several values that are there equally often."""
    counts = Counter(map(repr, map(plain, theirs)))
    return mine is None if not counts else counts[repr(plain(mine))] == max(counts.values())


AGGREGATES: dict[str, Callable[..., Asked]] = {
    "count": lambda c, a, n, q, d: Asked(sl.count(), sf.expr("count(*)")),
    "count of": lambda c, a, n, q, d: Asked(sl.count(c), sf.expr(f"count({c})")),
    "count where": lambda c, a, n, q, d: Asked(sl.count().where("yes"), sf.expr("count_if(yes)")),
    "sum": lambda c, a, n, q, d: Asked(sl.sum(a), sf.expr(f"sum({a})")),
    "sum where": lambda c, a, n, q, d: Asked(sl.sum(a).where("yes"), sf.expr(f"sum({a}) filter (where yes)")),
    "min": lambda c, a, n, q, d: Asked(sl.min(c), sf.expr(f"min({c})")),
    "max": lambda c, a, n, q, d: Asked(sl.max(c), sf.expr(f"max({c})")),
    "max where": lambda c, a, n, q, d: Asked(sl.max(c).where("yes"), sf.expr(f"max({c}) filter (where yes)")),
    "mean": lambda c, a, n, q, d: Asked(sl.mean(n), sf.expr(f"avg({n})")),
    "product": lambda c, a, n, q, d: Asked(sl.product("factor"), sf.product("factor")),
    "var": lambda c, a, n, q, d: Asked(sl.var(n, ddof=d), sf.expr(f"{('var_pop', 'var_samp')[d]}({n})")),
    "std": lambda c, a, n, q, d: Asked(sl.std(n, ddof=d), sf.expr(f"{('stddev_pop', 'stddev_samp')[d]}({n})")),
    "first": lambda c, a, n, q, d: Asked(sl.first(c), in_time(c, "min")),
    "last": lambda c, a, n, q, d: Asked(sl.last(c), in_time(c, "max")),
    "argmin": lambda c, a, n, q, d: Asked(sl.argmin("row", "small"), sf.expr("min_by(small, row)")),
    "argmax": lambda c, a, n, q, d: Asked(sl.argmax("row", "name"), sf.expr("max_by(name, row)")),
    "any": lambda c, a, n, q, d: Asked(sl.any("yes"), sf.expr("bool_or(yes)")),
    "all": lambda c, a, n, q, d: Asked(sl.all("yes"), sf.expr("bool_and(yes)")),
    "median": lambda c, a, n, q, d: Asked(sl.median(n), sf.expr(f"percentile({n}, 0.5)")),
    "quantile": lambda c, a, n, q, d: Asked(sl.quantile(n, q), sf.expr(f"percentile({n}, {q})")),
    "mode": lambda c, a, n, q, d: Asked(sl.mode(c), sf.expr(f"collect_list({c})"), most_often),
    "count_distinct": lambda c, a, n, q, d: Asked(sl.count_distinct(c), sf.expr(f"size(collect_set({c}))")),
    "collect": lambda c, a, n, q, d: Asked(sl.collect(c), listed(c), some),
    "top_k": lambda c, a, n, q, d: Asked(
        sl.top_k(n, 3), sf.expr(f"slice(sort_array(collect_list({n}), false), 1, 3)"), some
    ),
    "approx_count_distinct": lambda c, a, n, q, d: Asked(
        sl.approx_count_distinct(n), sf.expr(f"size(collect_set({n}))"), about
    ),
}


@dataclass(frozen=True)
class Query:
    """A random query and the stream it is asked of."""

    seed: int
    windows: dict[str, sl.Window]
    native: dict[str, Column]
    aggs: dict[str, Asked]
    kinds: list[str]
    keys: list[str]
    delay: int  # milliseconds
    zone: str | None  # of the time column; None: without
    session_zone: str
    batches: int
    size: int
    late: float
    partitions: int
    by_files: bool
    spread: bool
    start: int  # microseconds
    scale: int

    @property
    def spec(self) -> sl.Spec:
        aggs = {name: asked.here for name, asked in self.aggs.items()}
        watermark = sl.bounded(f"{self.delay}ms")
        return sl.Spec("ts", self.windows, aggs, by=self.keys, watermark=watermark, sequence="row")

    def schema(self, zone: str | None) -> str:
        time = "timestamp_ntz" if zone is None else "timestamp_ltz"
        types = "name string, price decimal(9,2), day date, number long, small int, yes boolean, at timestamp_ltz"
        return f"ts {time}, {types}, share double, plain double, factor double, row long, one int"

    def __str__(self) -> str:
        where = f"{self.batches} batches of {self.size}, {self.partitions} partitions, {self.session_zone}, "
        where += f"from {dt.datetime.fromtimestamp(self.start // 10**6, dt.UTC):%Y} on, at scale {self.scale}"
        return f"query {self.seed}: {dict(self.windows)} by {self.keys} of {', '.join(self.kinds)}; {where}"


def drawn(seed: int) -> Query:
    chance, of_times = random.Random(seed), random.Random(f"times of {seed}")
    start, scale = of_times.choice(STARTS), of_times.choice(SCALES)
    windows, native = {}, {}
    for number in range(chance.choice([1, 1, 2, 3])):
        name, kind = f"w{number}", chance.choice(["tumbling", "sliding", "session"])
        size = chance.choice([700, 2500, 7_000, 10_000, 60_000])
        every = max(chance.choice([size // 2, size // 3, size // 10]) // 10 * 10, size // 20)
        offset = chance.choice([0, 0, every // 2]) * scale
        size, every = size * scale, every * scale
        if kind == "tumbling":
            windows[name] = sl.tumbling(f"{size}ms", offset=f"{offset}ms")
            native[name] = sf.window("ts", f"{size} milliseconds", startTime=f"{offset} milliseconds")
        elif kind == "sliding":
            windows[name] = sl.sliding(f"{size}ms", every=f"{every}ms", offset=f"{offset}ms")
            lengths = (f"{ms} milliseconds" for ms in (size, every, offset))
            native[name] = sf.window("ts", *lengths)
        else:
            gap = chance.choice([53, 503, 2003, 8003]) * scale  # no session of these times ends at a watermark
            windows[name] = sl.session(f"{gap}ms")
            native[name] = sf.session_window("ts", f"{gap} milliseconds").alias("window")
    drawn = [aggregate(chance) for _ in range(chance.choice([1, 3, 6, 10]))]
    return Query(
        seed,
        windows,
        native,
        {f"a{number}": asked for number, (_, asked) in enumerate(drawn)},
        [kind for kind, _ in drawn],
        chance.sample(KEYS, chance.choice([0, 1, 1, 2, 3])),
        delay=chance.choice([0, 2000, 4000, 15_000]) * scale,
        zone=chance.choice(["UTC", "UTC", None]),
        session_zone=chance.choice(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
        batches=chance.choice([3, 4, 7]),
        size=chance.choice([1, 30, 200]),
        late=chance.choice([0.0, 0.05, 0.3]),
        partitions=chance.choice([1, 2, 3]),
        by_files=chance.random() < 0.3,
        spread=chance.random() < 0.3,
        start=start,
        scale=scale,
    )


# --- asked and compared -----------------------------------------------------------------------------------------------


def check(spark: SparkSession, query: Query, base: Path) -> int:
    """Both answers, as a stream and as a batch; how many rows were compared."""
    spark.conf.set("spark.sql.session.timeZone", query.session_zone)
    tables = [readings(query, batch) for batch in range(query.batches)]
    tables += [closing(query, query.batches + n) for n in range(2)]
    folder = written(base / "in", tables)
    theirs = folder  # Spark's watermark wants a time with a zone
    if query.zone is None:
        zoned = pa.timestamp("us", "UTC")
        theirs = written(base / "zoned", [t.set_column(0, "ts", t["ts"].cast(zoned)) for t in tables])
    count = streamed(spark, query, folder, theirs, base) + at_once(spark, query, folder, theirs)
    return count + pushed(spark, query, folder, tables, base)


def streamed(spark: SparkSession, query: Query, folder: str, theirs: str, base: Path) -> int:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    data = source_of(spark, query, folder)
    source = reader.schema(query.schema("UTC")).parquet(theirs)
    name = f"mine{query.seed}"
    mine = window_aggregate(data, query.spec, str(base / "state"), query.partitions, name, progress="native")
    names = [name, *(f"{name}_{query.seed}" for name in query.native)]
    frames = [mine, *(asked(query, window, source) for window in query.native.values())]
    running = [begun(frame, name) for frame, name in zip(frames, names, strict=True)]
    for one in running:
        one.awaitTermination()
    found, *native = (spark.table(name).toArrow().to_pylist() for name in names)
    for name in names:
        spark.catalog.dropTempView(name)
    return compared(query, "streamed", found, dict(zip(query.native, native, strict=True)), True)


def source_of(spark: SparkSession, query: Query, folder: str) -> Any:
    """The stream as the query reads it, a file a micro-batch."""
    if query.by_files:
        return read_files(spark, folder, maxFilesPerTrigger=1)
    reader = spark.readStream.option("maxFilesPerTrigger", 1).schema(query.schema(query.zone))
    data = reader.parquet(folder)
    return data.repartition(3) if query.spread else data


def pushed(spark: SparkSession, query: Query, folder: str, tables: list[pa.Table], base: Path) -> int:
    """Each micro-batch as a push of one operator: its windows, and which of its rows were late."""
    name, behind = f"prompt{query.seed}", base / "late"
    behind.mkdir()
    data = source_of(spark, query, folder)
    mine = window_aggregate(data, query.spec, str(base / "state"), query.partitions, name, late_path=str(behind))
    running = begun(mine, name)
    running.awaitTermination()
    found = spark.table(name).toArrow().to_pylist()
    spark.catalog.dropTempView(name)
    operator = sl.Operator(query.spec)
    outs = [operator.push(table) for table in tables]
    told = [p.observedMetrics[name].stats["late"] for p in running.recentProgress if p.numInputRows]
    late = [out.late.num_rows for out in outs]
    assert told == late, f"prompt, {query}: late rows {told}, expected {late}"
    names = sorted(row for file in behind.iterdir() for row in pq.read_table(file)["row"].to_pylist())
    assert names == sorted(row for out in outs for row in out.late["row"].to_pylist()), f"prompt, {query}: late rows"
    expected = [row for out in outs for row in out.windows.to_pylist()]
    for window in query.windows:
        mine, wanted = (by_window(query, [r for r in rows if r["window"] == window]) for rows in (found, expected))
        assert mine.keys() == wanted.keys(), f"prompt, {query}: window {window}"
        for place, row in wanted.items():
            for agg, one in query.aggs.items():
                good = same(mine[place][agg], row[agg])
                told_so = f"prompt, {query}\nwindow {window} {place}: {agg}, {one.here!r}"
                assert good, f"{told_so}, is {mine[place][agg]!r}, pushed it is {row[agg]!r}"
    return len(expected)


def begun(frame: DataFrame, name: str) -> Any:
    return frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()


def at_once(spark: SparkSession, query: Query, folder: str, theirs: str) -> int:
    data = spark.read.schema(query.schema(query.zone)).parquet(folder)
    data = read_files(spark, folder, streaming=False) if query.by_files else data
    source = spark.read.schema(query.schema("UTC")).parquet(theirs)
    found = window_aggregate(data, query.spec, partitions=query.partitions).toArrow().to_pylist()
    native = {name: asked(query, w, source, False).toArrow().to_pylist() for name, w in query.native.items()}
    return compared(query, "at once", found, native)


def asked(query: Query, window: Column, source: DataFrame, streaming: bool = True) -> DataFrame:
    held = source.withWatermark("ts", f"{query.delay} milliseconds") if streaming else source
    keys = query.keys or ["one"]  # without a key Spark has no session windows in a stream
    aggs = [asked.there.alias(name) for name, asked in query.aggs.items()]
    columns = ["window.start as window_start", "window.end as window_end", *query.keys, *query.aggs]
    return held.groupBy(window, *keys).agg(*aggs).selectExpr(*columns)


def compared(query: Query, how: str, found: list[dict], theirs: dict[str, list[dict]], closed: bool = False) -> int:
    count = 0
    for name, rows in theirs.items():
        mine = by_window(query, [row for row in found if row["window"] == name], closed)
        wanted = by_window(query, rows, closed)
        missing, extra = wanted.keys() - mine.keys(), mine.keys() - wanted.keys()
        told = f"{how}, {query}\nwindow {name}"
        assert not missing and not extra, f"{told}: missing {sorted(missing)[:5]}, extra {sorted(extra)[:5]}"
        for place, row in wanted.items():
            for agg, one in query.aggs.items():
                same = one.like(mine[place][agg], row[agg])
                assert same, f"{told} {place}: {agg}, {one.here!r}, is {mine[place][agg]!r}, Spark has {row[agg]!r}"
        count += len(wanted)
    return count


def by_window(query: Query, rows: list[dict], closed: bool = False) -> dict[tuple, dict]:
    """Rows by what they are of; ``closed``: without those of the rows that close all others."""
    places, until = {}, query.start + (END - 10**9) * query.scale
    for row in rows:
        place = tuple(repr(plain(row[name])) for name in ("window_start", "window_end", *query.keys))
        if not closed or micros(row["window_start"]) < until:
            assert place not in places, f"{query}: {place} is there twice"
            places[place] = row
    return places


def micros(time: dt.datetime) -> int:
    return (time.replace(tzinfo=time.tzinfo or dt.UTC) - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(
        microseconds=1
    )


def plain(value: Any) -> Any:
    """Times without their zone, zeros without their sign."""
    if isinstance(value, dt.datetime):
        return micros(value)
    return value + 0.0 if isinstance(value, float) else value


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9) or repr(mine) == repr(theirs)
    return type(mine) is type(theirs) and plain(mine) == plain(theirs)


def started() -> SparkSession:
    """What compiles least: each plan runs for a few small batches."""
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    }
    return session("local[2]", **conf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1000, help="of the first query; the others follow")
    args = parser.parse_args()
    spark, begin, failed, total = started(), time.monotonic(), [], 0
    for seed in range(args.seed, args.seed + args.queries):
        query = drawn(seed)
        with tempfile.TemporaryDirectory() as base:
            try:
                count = check(spark, query, Path(base))
            except AssertionError as error:
                failed.append(seed)
                print(f"DIFFERENT {error}", flush=True)
                continue
        total += count
        print(f"{query}: {count:,} rows", flush=True)
    took = time.monotonic() - begin
    print(f"{args.queries} queries, {total:,} rows compared, {len(failed)} different {failed or ''}, {took:.0f} s")
    spark.stop()
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
