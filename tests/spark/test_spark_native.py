"""``plan="native"``: Spark's own windows give what the library's plan gives, where they can express a spec."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from quick_spark import WARM

import slicing as sl

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from spark_udfs import explain, window_aggregate
from spark_udfs.local import session
from spark_udfs.native import cannot
from spark_udfs.types import spark_schema

CASES = int(os.environ.get("SLICING_CASES", 3))
SECOND = 1_000_000
NOW = 1_790_000_000 * SECOND
COLUMNS = "ts timestamp_ltz, name string, share double, whole long, small int, plain double, price decimal(9,2)"
COLUMNS += ", huge decimal(24,3), yes boolean"
TYPES = {
    "name": pa.string(),
    "share": pa.float64(),
    "whole": pa.int64(),
    "small": pa.int32(),
    "plain": pa.float64(),
    "price": pa.decimal128(9, 2),
    "huge": pa.decimal128(24, 3),
    "yes": pa.bool_(),
}
VALUES: dict[str, list] = {
    "name": ["a", "b", "", "é", "longer than sixteen bytes"],
    "share": [0.0, math.nan, math.inf, 1.5],
    "whole": [2**62, -(2**62), 1, -5, 2**63 - 1, -(2**63)],
    "small": [-50, 7, 2**31 - 1],
    "plain": [n / 4 for n in range(-40, 40)],  # sums of these are exact in any order
    "price": [Decimal("1.25"), Decimal("-3.50"), Decimal("9999999.99")],
    "huge": [Decimal("1.125"), Decimal(10) ** 20, -(Decimal(10) ** 20)],
    "yes": [True, False],
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    running = session(
        "local[2]", **WARM, **{"spark.driver.extraJavaOptions": java, "spark.sql.codegen.wholeStage": "false"}
    )
    yield running
    running.stop()


def rows(rng: np.random.Generator, times: np.ndarray) -> pa.Table:
    """A tenth of all values is null."""
    size = len(times)
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC"))}
    for name, values in VALUES.items():
        chosen = pa.array(values, TYPES[name]).take(pa.array(rng.integers(0, len(values), size)))
        columns[name] = pa.array(
            [None if gone else v for v, gone in zip(chosen.to_pylist(), rng.random(size) < 0.1, strict=True)],
            TYPES[name],
        )
    return pa.table(columns)


def aggregate(rng: np.random.Generator) -> Any:
    number, any_column = rng.choice(["whole", "small", "plain", "price"]), rng.choice(list(TYPES))
    ddof = int(rng.integers(0, 2))
    found = [
        sl.count(),
        sl.count(str(any_column)),
        sl.sum(str(number)),
        sl.mean(str(number)),
        sl.min(str(any_column)),
        sl.max(str(any_column)),
        sl.sum("huge"),
        sl.mean("huge"),
        sl.var("plain", ddof=ddof),
        sl.std("small", ddof=ddof),
        sl.any("yes"),
        sl.all("yes"),
    ][rng.integers(0, 12)]
    return found.where("yes") if rng.random() < 0.3 else found


def window(rng: np.random.Generator) -> Any:
    size = int(rng.choice([700, 2500, 7_000, 60_000, 86_400_000]))
    offset = f"{rng.choice([0, 0, 330, -1200])}ms"
    match rng.integers(0, 4):
        case 0:
            return sl.tumbling(f"{size}ms", offset=offset)
        case 1:
            return sl.session(f"{rng.choice([53, 503, 8003])}ms")
    return sl.sliding(f"{size}ms", every=f"{rng.choice([size // 2, size // 5, size // 7, size])}ms", offset=offset)


def drawn(seed: int) -> tuple[sl.Spec, np.random.Generator]:
    rng = np.random.default_rng(seed)
    windows = {f"w{n}": window(rng) for n in range(rng.integers(1, 3))}
    aggs = {f"a {n}.x": aggregate(rng) for n in range(rng.integers(1, 6))}
    by = [str(key) for key in rng.choice(["name", "share", "price", "yes"], rng.integers(0, 3), replace=False)]
    return sl.Spec("ts", windows, aggs, by=by, watermark=sl.bounded("4s"), on_overflow="null"), rng


def compared(found: DataFrame, wanted: DataFrame) -> int:
    """The same columns of the same types in the same order, and the same rows."""
    types = [[(f.name, f.dataType) for f in frame.schema.fields] for frame in (found, wanted)]
    assert types[0] == types[1]
    mine, theirs = (sorted(map(settled, frame.toArrow().to_pylist()), key=repr) for frame in (found, wanted))
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert all(map(alike, one, other)), (one, other)
    return len(mine)


def settled(row: dict) -> tuple:
    """Zeros without their sign; keys before values, so that sorting by both orders by keys."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in row.values())


def alike(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=1e-9) or repr(mine) == repr(theirs)
    return type(mine) is type(theirs) and mine == theirs


@pytest.mark.parametrize("seed", range(CASES))
def test_a_batch_is_answered_as_by_the_other_plan(spark: SparkSession, seed: int) -> None:
    """Times in 2026, and around 1970."""
    spec, rng = drawn(seed)
    base = [NOW, -5 * SECOND, NOW - 40 * 365 * 86_400 * SECOND][seed % 3]
    table = rows(rng, base + rng.integers(0, 120_000, 300) * 1000)
    frame = spark.createDataFrame(table, schema=COLUMNS)
    count = compared(window_aggregate(frame, spec, plan="native"), window_aggregate(frame, spec, partitions=2))
    assert count > 0


def test_a_stream_is_answered_as_by_the_other_plan(spark: SparkSession, tmp_path: Path) -> None:
    """Rows out of order within the delay, one that is late for its slice, then two that close all before them."""
    spec = sl.Spec(
        "ts",
        {"hop": sl.sliding("9s", every="3s"), "visit": sl.session("503ms"), "ten": sl.tumbling("10s")},
        {"n": sl.count(), "total": sl.sum("small"), "most": sl.max("share")},
        by=["name"],
        watermark=sl.bounded("4s"),
    )
    rng, folder = np.random.default_rng(100), tmp_path / "in"
    folder.mkdir()
    for batch in range(6):
        times = NOW + batch * 10 * SECOND + (rng.integers(0, 10_000, 150) - rng.integers(0, 4_000, 150)) * 1000
        table = rows(rng, times if batch < 4 else np.array([NOW + batch * 10_000 * SECOND]))
        if batch == 3:  # judged by a watermark of some 16 seconds: its slice has closed, windows with it are open
            names = pa.array([*table["name"].to_pylist()[1:], "behind"])
            times = pa.array(np.append(times[1:], NOW + 11 * SECOND), pa.timestamp("us", "UTC"))
            table = table.set_column(0, "ts", times).set_column(1, "name", names)
        pq.write_table(table, folder / f"{batch}.parquet")
        os.utime(folder / f"{batch}.parquet", (10**9 + batch, 10**9 + batch))
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))
    found, behind = [], []
    for plan in ("native", "slices"):
        ours = {} if plan == "native" else {"state": str(tmp_path / "state"), "partitions": 2}
        frame = window_aggregate(source, spec, progress="native", plan=plan, **ours)
        frame.writeStream.format("memory").queryName(plan).trigger(availableNow=True).start().awaitTermination()
        closed = spark.table(plan).where(f"window_start < timestamp_micros({NOW + 9_000 * SECOND})")
        found.append(closed.where("name is null or name != 'behind'"))
        behind.append(sorted(row.window for row in closed.where("name = 'behind'").collect()))
    assert compared(*found) > 100
    assert behind == [["ten"], ["hop", "hop", "ten"]]


def of(**given: Any) -> sl.Spec:
    asked: dict[str, Any] = {"windows": {"w": sl.tumbling("10s")}, "aggs": {"n": sl.count()}}
    return sl.Spec("ts", **(asked | {"watermark": sl.bounded("4s")} | given))


SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), *TYPES.items(), ("big", pa.decimal128(38, 2))])
CANNOT = {
    "it has count, sum, mean, min, max, any, all, var and std": of(aggs={"p": sl.median("plain")}),
    "it has no arithmetic of aggregates": of(aggs={"p": sl.sum("plain") / sl.count()}),
    "it takes columns, not expressions": of(aggs={"p": sl.sum(sl.col("plain") * 2)}),
    "the aggregate 'n', sl.count().where(sl.col('plain') > 0): it takes columns": of(
        aggs={"n": sl.count().where(sl.col("plain") > 0)}
    ),
    "it has ddof=0 and ddof=1": of(aggs={"p": sl.var("plain", ddof=2)}),
    "sl.sum('big'), of decimal128(38, 2): sums of decimals": of(aggs={"p": sl.sum("big")}),
    "windows['w'], sl.calendar('1mo'): it has tumbling and sliding": of(windows={"w": sl.calendar("1mo")}),
    "it has windows of time, not of numbers": of(windows={"w": sl.tumbling(10)}, watermark=sl.bounded(1)),
    "it has no fill and no full": of(windows={"w": sl.tumbling("10s", full=True)}),
    "it has no windows with gaps between them": of(windows={"w": sl.sliding("10s", every="20s")}),
    "its windows have whole microseconds": of(windows={"w": sl.tumbling("1500ns")}),
    "emit='updates': it gives a window once": of(emit="updates"),
    "allowed_lateness=10s: it gives a window once": of(allowed_lateness="10s"),
    "idle=1h: it gives a window once": of(idle="1h"),
    "on_overflow='wrap'": of(on_overflow="wrap"),
    "the time column 'name' of string": sl.Spec("name", {"w": sl.tumbling("10s")}, {"n": sl.count()}),
    "watermark=sl.punctuated('ts') in a stream: it has sl.bounded(delay)": of(watermark=sl.punctuated("ts")),
    "its delay has whole milliseconds": of(watermark=sl.bounded("1500us")),
    "it has no at_most_ahead": of(watermark=sl.bounded("1s", at_most_ahead="1d")),
}


@pytest.mark.parametrize("told", CANNOT)
def test_what_it_cannot_express_is_said(told: str) -> None:
    found = cannot(CANNOT[told], SCHEMA, streams=True)
    assert found is not None and told in found


def test_refusals_of_the_function(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("timestamp_seconds(id) as ts", "cast(null as timestamp_ntz) as local")
    for given, told in (
        ({"plan": "spark"}, "plan must be 'slices' or 'native'; got 'spark'"),
        ({"state": "/x"}, "plan='native' takes no state, which only plan='slices' has .*; got state='/x'"),
        ({"store": "spark"}, "plan='native' takes no store"),
        ({"layout": "wide"}, "plan='native' takes no layout"),
    ):
        with pytest.raises(ValueError, match=told):
            window_aggregate(frame, of(), **{"plan": "native", **given})
    with pytest.raises(ValueError, match="the data has the columns 'ts' and 'TS', which Spark does not tell apart"):
        window_aggregate(frame.selectExpr("ts", "ts as TS"), of(), plan="native")
    for column, told in (
        ("zz", "column 'zz' is missing in the data"),
        ("ts", "column 'ts' occurs 2 times in the data"),
    ):
        twice = frame.selectExpr("ts", "ts") if column == "ts" else frame
        with pytest.raises((KeyError, ValueError), match=told):
            window_aggregate(twice, of(aggs={"n": sl.count(column)}), plan="native")
    with pytest.raises(
        ValueError, match=r"native' cannot express emit='changes': .*; leave plan out, which is plan='s"
    ):
        window_aggregate(frame, of(emit="changes"), plan="native")
    streams = spark.readStream.schema("ts timestamp, local timestamp_ntz").parquet(str(tmp_path))
    with pytest.raises(ValueError, match="give progress='native' with it; got progress='prompt'"):
        window_aggregate(streams, of(), plan="native")
    local = sl.Spec("local", {"w": sl.tumbling("10s")}, {"n": sl.count()})
    with pytest.raises(ValueError, match="the time column 'local' without a zone in a stream"):
        window_aggregate(streams, local, plan="native", progress="native")
    with pytest.raises(Exception, match="time column 'local' is null in a row"):
        window_aggregate(frame, local, plan="native").collect()
    dropped = dataclasses.replace(local, on_null_time="late")
    assert window_aggregate(frame, dropped, plan="native").collect() == []
    with pytest.raises(Exception, match="total does not fit int64 in a window; on_overflow='null' gives null there"):
        ends = spark.range(2).selectExpr("timestamp_seconds(id) as ts", "9223372036854775807L as v")
        window_aggregate(ends, of(aggs={"total": sl.sum("v")}), plan="native").collect()


def test_explain_says_which_plan_is_best_and_why() -> None:
    told = explain(of(windows={"hop": sl.sliding("60s", every="1s")}), SCHEMA)
    assert explain(of(windows={"hop": sl.sliding("60s", every="1s")}), spark_schema(SCHEMA)) == told
    assert told["plan on Spark"].startswith("slices: windows close with the batch that completes them")
    assert told["plan='native'"] == "hop: slices, then windows of slices (window_time)"
    assert explain(of(), streaming=False)["plan on Spark"].startswith("native: in a batch")
    assert explain(of(), streaming=False, files=True)["plan on Spark"].startswith("slices: workers read the files")
    two = of(windows={"a": sl.tumbling("1m"), "b": sl.session("1m")})
    assert explain(two, streaming=False)["plan on Spark"].startswith("slices: all windows from one set of slices")
    assert explain(two)["plan='native'"] == "a: one groupBy(window(...)); b: one groupBy(session_window(...))"
    moments = of(windows={"hop": sl.sliding("60s", every="1s")}, aggs={"v": sl.var("plain")})
    assert explain(moments)["plan='native'"] == "hop: one groupBy(window(...))"
    assert explain(CANNOT["emit='updates': it gives a window once"])["plan on Spark"].startswith("slices: Spark's own")
    assert "store='spark'" not in [name for name, _ in explain(of(), streaming=False).facts]
    assert explain(of())["store='spark'"].startswith("only where workers reach no storage: rows are shuffled")
    ahead = dataclasses.replace(of(), watermark=sl.bounded("10s", at_most_ahead="1d"))
    assert explain(ahead)["store='spark'"].startswith(
        "cannot have watermark=sl.bounded('10s', at_most_ahead='1d'): rea"
    )
    with pytest.raises(TypeError, match=r"spark_udfs.explain takes a sl.Spec; got str"):
        explain("spec")  # type: ignore[arg-type]
