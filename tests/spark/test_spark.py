"""On a real Spark: equal to the library in one process, to Spark's own windows, and exactly once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import doctest
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from quick_spark import WARM

import slicing as sl
from slicing.exchange import Collector, admit, packed, start, state_of
from slicing.plot.batches import _progress_table

pytest.importorskip("pyspark")

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.group_ops import PandasGroupedOpsMixin
from pyspark.sql.streaming.listener import QueryProgressEvent

import spark_udfs
from spark_udfs import (
    BatchLog,
    StateError,
    change,
    drain,
    peek,
    read_files,
    rescale,
    stages,
    window_aggregate,
    window_features,
    window_join,
)
from spark_udfs.files import Csv, Reading, read
from spark_udfs.jobs import STATS
from spark_udfs.local import session
from spark_udfs.placed import by_hash, by_place

SECOND = 1_000_000
SPEC = sl.Spec(
    time="ts",
    by=["k"],
    windows={"tumble": sl.tumbling("10s"), "slide": sl.sliding("30s", every="7s"), "visit": sl.session("503ms")},
    aggs={"n": sl.count(), "total": sl.sum("v"), "least": sl.min("v"), "most": sl.max("v")},
    watermark=sl.bounded("4s"),
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = session("local[2,3]", **WARM, **{"spark.sql.timestampType": "TIMESTAMP_NTZ"})
    yield running
    running.stop()


@pytest.mark.parametrize("send", [by_place, by_hash], ids=["id", "hash"])
def test_rows_are_in_the_partition_that_they_name(spark, send):
    """By hash before Spark 4.1."""
    places = send(spark.range(7).selectExpr("cast(id as int) as place"), 7)
    found = places.select("place", sf.spark_partition_id().alias("partition")).collect()
    assert sorted(row.place for row in found) == list(range(7))
    assert [row.place for row in found] == [row.partition for row in found]


# --- streams as files, one a micro-batch ------------------------------------------------------------------------------


def readings(batch: int, size: int = 300) -> pa.Table:
    """Twenty seconds of a stream in whole 10 ms: out of order by up to 4 s, one in 20 late by up to two minutes."""
    rng = np.random.default_rng(batch)
    behind = np.where(rng.random(size) < 0.05, rng.integers(0, 12_000, size), rng.integers(0, 400, size))
    ts = (rng.integers(batch * 2000, (batch + 1) * 2000, size) - behind) * 10_000
    key = pa.array(["a", "b", "c", None, "é"]).take(pa.array(rng.integers(0, 5, size) * (rng.random(size) < 0.6)))
    value = pa.array(rng.integers(-100, 100, size), mask=rng.random(size) < 0.1)
    return pa.table({"ts": pa.array(ts + 10**15, pa.timestamp("us", "UTC")), "k": key, "v": value})


def closing(batch: int) -> pa.Table:
    """One row so far ahead that all windows before it close with the batch after it."""
    ts = pa.array([10**15 + (10_000 + batch * 100) * SECOND], pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "k": ["end"], "v": pa.array([0], pa.int64())})


def write(folder: Path, tables: list[pa.Table], first: int = 0) -> str:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, first):
        pq.write_table(table, folder / f".{number}")
        os.utime(folder / f".{number}", (10**9 + number, 10**9 + number))
        (folder / f".{number}").rename(folder / f"{number:03}.parquet")
    return str(folder)


def stream(spark: SparkSession, folder: str) -> DataFrame:
    reader = spark.readStream.schema("ts timestamp_ltz, k string, v long").option("maxFilesPerTrigger", 1)
    return reader.parquet(folder)


def run(frame: DataFrame, base: Path) -> Any:
    """Write a stream to files until its source is read to the end."""
    query = begun(frame, base)
    query.awaitTermination()
    return query


def begun(frame: DataFrame, base: Path) -> Any:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(base / "checkpoint"))
    return writer.option("path", str(base / "out")).trigger(availableNow=True).start()


def written(spark: SparkSession, base: Path) -> list[dict]:
    return in_order(spark.read.parquet(str(base / "out")).toArrow())


def in_order(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=repr)


# --- batch ------------------------------------------------------------------------------------------------------------

TYPED = {
    "ts": pa.array([dt.datetime(2026, 1, 1, 9, 0, s, tzinfo=dt.UTC) for s in (1, 2, 2, 7, 7, 31, 33)]),
    "local": pa.array([dt.datetime(2026, 3, 29, 1, 59, s) for s in (1, 2, 2, 7, 7, 31, 33)]),
    "day": pa.array([dt.date(2026, 1, d) for d in (1, 1, 2, 3, 9, 9, 30)]),
    "odo": pa.array([5, -3, 8, 8, 120, 121, 2**40]),
    "text": pa.array(["a", None, "b", "b", "", "a", None]),
    "flag": pa.array([True, False, None, True, True, None, False]),
    "float": pa.array([0.0, -0.0, float("nan"), float("nan"), None, 1.5, -1.5]),
    "price": pa.array(
        [Decimal("1.25"), None, Decimal("-3.50"), Decimal("1.25"), Decimal("0.00"), None, Decimal(7)]
    ).cast(pa.decimal128(9, 2)),
    "big": pa.array([Decimal(10) ** 30 + n for n in range(7)]).cast(pa.decimal128(38, 2)),
    "raw": pa.array([b"x", b"", None, b"\xff", b"x", b"y", b"z"]),
    "small": pa.array([1, 2, 3, 4, 5, 6, None], pa.int8()),
}
MANY = {"n": sl.count(), "first": sl.first("text"), "m4": sl.m4("big"), "sum": sl.sum("price"), "all": sl.all("flag")}


@pytest.mark.parametrize(
    ("time", "window", "by"),
    [
        ("ts", sl.sliding("10s", every="3s"), ["text", "flag"]),
        ("local", sl.session("5s"), ["float"]),
        ("day", sl.tumbling("2d"), ["price", "big"]),
        ("odo", sl.tumbling(10), ["raw", "small", "day", "local"]),
        ("ts", sl.calendar("1d", tz="Europe/Berlin"), []),
        ("ts", sl.calendar("15min", tz="Europe/Berlin"), ["text"]),
        ("local", sl.calendar("1d", local=True), ["flag"]),  # TIMESTAMP_NTZ
        ("ts", sl.sliding("10s", "2s", full=True), ["flag"]),
        ("ts", sl.rows(2, partial=True), ["flag"]),
    ],
)
def test_a_batch_is_the_library_in_one_process(spark: SparkSession, time: str, window: Any, by: list[str]) -> None:
    spec = sl.Spec(time, {"w": window}, MANY, by=by, sequence="odo")
    table = pa.table(TYPED)
    result = window_aggregate(spark.createDataFrame(table).repartition(3), spec, partitions=3).toArrow()
    expected = sl.aggregate(table, spec)
    assert result.schema.names == expected.schema.names
    shown = [(f.name, str(f.type)) for f in expected.schema]
    assert [(f.name, str(f.type).replace("Etc/UTC", "UTC")) for f in result.schema] == shown
    assert repr(in_order(result)) == repr(in_order(expected.cast(result.schema)))  # NaN is not NaN


def test_expressions_are_evaluated_where_rows_are_read(spark: SparkSession) -> None:
    aggs = {"x": sl.sum(sl.col("v") * 2), "n": sl.count().where(sl.col("v") > 0), "share": sl.mean("v") / sl.count()}
    table, spec = readings(0), sl.Spec("ts", {"w": sl.tumbling("10s"), "visit": sl.session("1s")}, aggs, by=["k"])
    frame = window_aggregate(spark.createDataFrame(table), spec)
    assert in_order(frame.toArrow()) == in_order(sl.aggregate(table, spec))


def test_times_without_a_zone_are_no_days_of_a_zone(spark: SparkSession) -> None:
    rows = spark.createDataFrame(pa.table(TYPED))
    with pytest.raises(ValueError, match=r"needs times with a zone, .* or use sl.calendar\('1d', local=True\)"):
        window_aggregate(rows, sl.Spec("local", {"w": sl.calendar("1d", tz="Europe/Berlin")}, MANY))
    with pytest.raises(ValueError, match=r"is for times without a zone, .* use sl.calendar\('1d', tz="):
        window_aggregate(rows, sl.Spec("ts", {"w": sl.calendar("1d", local=True)}, MANY))


def test_columns_may_have_any_name(spark: SparkSession) -> None:
    rows = pa.table({"my.ts": [1, 2, 11], "a `key`": ["x", "y", "x"], "Sum of.v": [1, 2, 3]})
    spec = sl.Spec("my.ts", {"t": sl.tumbling(10)}, {"the.sum": sl.sum("Sum of.v")}, by=["a `key`"])
    found = window_aggregate(spark.createDataFrame(rows), spec, partitions=2).toArrow()
    assert in_order(found) == in_order(sl.aggregate(rows, spec).cast(found.schema))


def test_columns_that_spark_reads_otherwise_are_refused(spark: SparkSession) -> None:
    odd = ["'a' COLLATE UTF8_LCASE AS k", "INTERVAL '1' YEAR AS y", "1L AS t"]
    rows = spark.range(1).selectExpr(*odd, "interval '1' day AS d")

    def query(window: Any = None, by: str = "t", **aggs: Any) -> DataFrame:
        return window_aggregate(rows, sl.Spec("t", {"w": window or sl.tumbling(10)}, aggs, by=[by]), partitions=1)

    with pytest.raises(TypeError, match="column 'k' has type string collate UTF8_LCASE, and text is compared by its b"):
        query(by="k", n=sl.count())
    with pytest.raises(TypeError, match="column 'y' has type interval year, which cannot be sent to Python's workers"):
        query(n=sl.count("y"))
    band = {"on": "d", "time": "t", "within": (0, 5)}
    others = rows.withColumnRenamed("k", "a")
    collated = "column '[ak]' has type string collate UTF8_LCASE, and text is compared by its b"
    for frames, given in (
        ((others, rows), {"where": sl.col("a") == sl.col("k")}),
        ((rows, others), {"where": sl.col("a") == sl.col("k")}),
    ):
        with pytest.raises(TypeError, match=collated):
            window_join(*(frame.drop("y") for frame in frames), sl.JoinSpec(**band | given), partitions=1)
    for column, why in (("k", collated), ("y", "column 'y' has type interval year, which cannot be sent to Python's")):
        asked = sl.FeatureSpec("d", "t", {"r": 5}, {"n": sl.count_distinct(column)})
        with pytest.raises(TypeError, match=why):
            window_features(others.drop("y"), rows, asked, partitions=1)
    with pytest.raises(ValueError, match="the result would have the columns 't' and 'T', which Spark does not tell ap"):
        query(T=sl.count())
    assert query(by="d", n=sl.count()).count() == 1
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert query(T=sl.count()).columns == ["window", "window_start", "window_end", "t", "T"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_values_in_order_and_functions_of_the_user_go_to_the_workers(spark: SparkSession) -> None:
    """A number a row, so that no tie needs an order of arrival; one of the functions refers to a name outside."""
    size, modulus = 500, 2**31 - 1
    rng = np.random.default_rng(2)
    time = pa.array(10**15 + rng.integers(0, 90 * SECOND, size), pa.timestamp("us", "UTC"))
    words = pa.array(["a", "bb", "ccc", None]).take(pa.array(rng.integers(0, 4, size)))
    table = pa.table({"ts": time, "v": rng.normal(size=size), "word": words, "row": np.arange(size)})
    order = sl.udaf(
        "order",
        lift=lambda row: (row, 1_000_003),
        combine=lambda a, b: ((a[0] * b[1] + b[0]) % modulus, a[1] * b[1] % modulus),
        lower=lambda state: state[0],
        identity=(0, 1),
        state=["int64", "int64"],
        inputs=["row"],
    )
    aggs = {"order": order, "rows": sl.collect("row"), "median": sl.median("v"), "mode": sl.mode("word")}
    aggs |= {"heavy": sl.heavy_hitters("word", 0.3), "distinct": sl.count_distinct("word"), "top": sl.top_k("v", 2)}
    aggs |= {"near": sl.approx_quantile("v", 0.9), "about": sl.approx_count_distinct("row")}
    windows = {"slide": sl.sliding("30s", every="10s"), "visit": sl.session("500ms")}
    spec = sl.Spec("ts", windows, aggs, sequence="row")
    result = window_aggregate(spark.createDataFrame(table).repartition(3), spec, partitions=2).toArrow()
    expected = sl.aggregate(table, spec)
    assert in_order(result) == in_order(expected.cast(result.schema))
    for window in result.to_pylist():
        total = 0
        for row in window["rows"]:
            total = (total * 1_000_003 + row) % modulus
        assert window["order"] == total


def test_a_result_is_an_ordinary_dataframe(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table(TYPED))
    spec = sl.Spec("ts", {"w": sl.tumbling("10s")}, {"n": sl.count()}, by=["text"])
    window_aggregate(frame, spec, partitions=2).createOrReplaceTempView("counted")
    rows = spark.sql("select text, sum(n) as n from counted group by text order by text nulls first").collect()
    assert [(row.text, row.n) for row in rows] == [(None, 2), ("", 1), ("a", 2), ("b", 2)]


# --- streams ----------------------------------------------------------------------------------------------------------


def native(frame: DataFrame, window: Any) -> DataFrame:
    held = frame.withWatermark("ts", "4 seconds").groupBy(window, "k")
    return held.agg(
        sf.count("*").alias("n"), sf.sum("v").alias("total"), sf.min("v").alias("least"), sf.max("v").alias("most")
    ).selectExpr("window.start as window_start", "window.end as window_end", "k", "n", "total", "least", "most")


def test_streams_with_late_rows_equal_native_windows(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", [*map(readings, range(5)), closing(0), closing(1)])
    windows = window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2, progress="native")
    query = run(windows, tmp_path)
    found = [row for row in written(spark, tmp_path) if row["k"] != "end"]
    metrics = [p.observedMetrics["windows"].stats for p in query.recentProgress]
    assert sum(m["rows"] for m in metrics) == 5 * 300 + 2
    assert sum(m["late"] for m in metrics) > 3
    columns = {
        "tumble": sf.window("ts", "10 seconds"),
        "slide": sf.window("ts", "30 seconds", "7 seconds"),
        "visit": sf.session_window("ts", "503 milliseconds").alias("window"),
    }
    running = [begun(native(stream(spark, folder), window), tmp_path / name) for name, window in columns.items()]
    for name, theirs in zip(columns, running, strict=True):
        theirs.awaitTermination()
        expected = [row for row in written(spark, tmp_path / name) if row["k"] != "end"]
        mine = [{c: v for c, v in row.items() if c != "window"} for row in found if row["window"] == name]
        assert len(expected) > 40
        assert sorted(mine, key=repr) == expected, name


def test_one_run_over_the_files_of_a_day_gives_its_windows(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an operator is pushed the same batches; the day is complete with the row behind its end."""
    day, end = 86_400 * SECOND, 20_000 * 86_400 * SECOND  # of October 2024
    rng, tables = np.random.default_rng(1), []
    for part in range(6):
        times = end - day + part * day // 6 + rng.integers(0, day // 6, 500) - rng.integers(0, 1200 * SECOND, 500)
        times[: 40 * (part > 0)] = end - day - 1800 * SECOND  # late for all
        tables.append(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["a", "b"] * 250, "v": times}))
    last = pa.table({"ts": pa.array([end + 601 * SECOND], pa.timestamp("us", "UTC")), "k": ["a"], "v": [0]})
    tables[-1] = pa.concat_tables([tables[-1], last])
    windows = {"day": sl.tumbling("1d"), "hour": sl.sliding("1h", every="20m"), "visit": sl.session("7m")}
    aggs = {"n": sl.count(), "least": sl.min("v")}
    spec = sl.Spec("ts", windows, aggs, by=["k"], watermark=sl.bounded("10m"))
    folder, late = write(tmp_path / "in", tables), str(tmp_path / "late")
    frame = window_aggregate(stream(spark, folder), spec, str(tmp_path / "state"), 2, late_path=late)
    caplog.set_level("INFO", "spark_udfs")
    log = BatchLog()
    spark.streams.addListener(log)
    query, operator = run(frame, tmp_path), sl.Operator(spec)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(log)
    lines = [r.getMessage() for r in caplog.records if r.name == "spark_udfs"]
    assert [line[:27] for line in lines][:2] == ["windows batch 0: 500 rows, ", "windows batch 1: 500 rows, "]
    assert len(lines) == 6
    outs = [operator.push(table) for table in tables]
    expected = pa.concat_tables([out.windows for out in outs])
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert in_order(found) == in_order(expected.cast(found.schema))
    assert {row["window_end"].day for row in found.to_pylist() if row["window"] == "day"} >= {4}
    metrics = [p.observedMetrics["windows"].stats for p in query.recentProgress]
    assert [m["late"] for m in metrics] == [out.stats["late"] for out in outs]
    assert pq.read_table(late).num_rows == sum(out.late.num_rows for out in outs) > 100
    for m, line in zip(metrics, lines, strict=True):
        assert m["cells"] / 2 <= m["largest_cells"] <= m["cells"]
        assert (m["held"], m["cold"]) == (0, 0 if line.startswith("windows batch 0:") else 2)
        assert m["publish_ms"] > 0
        assert m["lag_ms"] > 365 * 86_400_000  # of October 2024
        assert f"{m['late']} late; {m['windows']} windows; {m['cells']} cells" in line


def test_results_may_be_wide(spark: SparkSession, tmp_path: Path) -> None:
    windows = {"ten": sl.tumbling("10s"), "minute": sl.sliding("1m", every="10s")}
    spec = sl.Spec("ts", windows, {"n": sl.count(), "total": sl.sum("v")}, by=["k"], watermark=sl.bounded("200s"))
    tables = [*map(readings, range(3))]
    batch = window_aggregate(spark.createDataFrame(pa.concat_tables(tables)), spec, partitions=2, layout="wide")
    expected = in_order(sl.aggregate(pa.concat_tables(tables), spec, layout="wide"))
    assert in_order(batch.toArrow()) == expected
    folder = write(tmp_path / "in", [*tables, closing(0), closing(1)])
    run(window_aggregate(stream(spark, folder), spec, str(tmp_path / "state"), 2, layout="wide"), tmp_path)
    assert [row for row in written(spark, tmp_path) if row["k"] != "end"] == expected
    with pytest.raises(ValueError, match="layout must be one of 'long', 'wide'; got 'broad'"):
        window_aggregate(batch, spec, layout="broad")


def test_a_restarted_stream_goes_on_and_is_drained(spark: SparkSession, tmp_path: Path) -> None:
    spec = sl.Spec("ts", dict(SPEC.windows), dict(SPEC.aggs), by=["k"], watermark=sl.bounded("2m"))
    assert spec.fingerprint() != SPEC.fingerprint()
    for part in range(2):
        folder = write(tmp_path / "in", [readings(2 * part), readings(2 * part + 1)], 2 * part)
        run(window_aggregate(stream(spark, folder), spec, str(tmp_path / "state"), 2), tmp_path)
    before = written(spark, tmp_path)
    rest = drain(spark, spec, str(tmp_path / "state"), checkpoint=str(tmp_path / "checkpoint"))
    assert in_order(rest.toArrow()) == in_order(rest.toArrow())
    expected = sl.aggregate(pa.concat_tables(map(readings, range(4))), spec)
    assert sorted(before + in_order(rest.toArrow()), key=repr) == in_order(expected.cast(rest.toArrow().schema))
    write(tmp_path / "in", [readings(4)], 4)
    with pytest.raises(Exception, match="was drained after batch 3, which ended its stream"):
        run(window_aggregate(stream(spark, folder), spec, str(tmp_path / "state"), 2), tmp_path)


def failing_after(stage: Callable, marks: str) -> Callable:
    """A stage whose tasks fail once each after all their work, state included."""

    def wrapped(job: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from list(stage(job, batches))
        context = TaskContext.get()
        mark = f"{marks}-{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("injected after the state was written")

    return wrapped


def test_tasks_that_fail_after_writing_state_are_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "in", list(map(readings, range(2))))
    run(window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "calm"), 2), tmp_path / "calm")
    monkeypatch.setattr(stages, "merge", failing_after(stages.merge, str(tmp_path / "merge")))
    monkeypatch.setattr(stages, "collect", failing_after(stages.collect, str(tmp_path / "collect")))
    run(window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2), tmp_path)
    assert len(list(tmp_path.glob("merge-*"))) == 4
    assert written(spark, tmp_path) == written(spark, tmp_path / "calm") != []


def test_two_in_one_query_and_two_actions_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", list(map(readings, range(3))))
    tumble = sl.Spec("ts", {"t": SPEC.windows["tumble"]}, dict(SPEC.aggs), by=["k"], watermark=sl.bounded("4s"))
    visit = sl.Spec("ts", {"v": SPEC.windows["visit"]}, dict(SPEC.aggs), by=["k"], watermark=sl.bounded("4s"))
    source, state = stream(spark, folder), str(tmp_path / "state")
    one = window_aggregate(source, tumble, state, 2, name="tumble")
    both = one.unionByName(window_aggregate(source, visit, state, 3, name="visit"))
    found: list[dict] = []

    def twice(frame: DataFrame, batch: int) -> None:
        rows = frame.toArrow()
        assert in_order(rows) == in_order(frame.toArrow())
        found.extend(rows.to_pylist())

    writer = both.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert {p for progress in query.recentProgress for p in progress.observedMetrics} == {"tumble", "visit"}
    for name, spec in (("tumble", tumble), ("visit", visit)):
        found += drain(spark, spec, state, name=name, checkpoint=str(tmp_path / "checkpoint")).toArrow().to_pylist()
    assert {row["window"] for row in found} == {"t", "v"}
    assert sum(row["n"] for row in found if row["window"] == "t") > 850


def in_one_process(spec: sl.Spec, batches: int) -> pa.Table:
    """What the batches of a stream give, without Spark."""
    schema = readings(0).schema
    operator, found = start(spec, schema), []
    for batch in range(batches):
        collector = Collector(spec, schema, state_of(operator).watermark)
        collector.push(readings(batch))
        found.append(admit(operator, packed(collector.parts(), 1)).windows)
    return pa.concat_tables(found)


def test_two_queries_at_once_share_a_place_and_one_is_joined(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", list(map(readings, range(3))))
    label = spark.createDataFrame([("a", 1), ("b", 2), ("é", 3)], "k string, label int")
    running, specs = [], {}
    for name, window in (("tumble", SPEC.windows["tumble"]), ("visit", SPEC.windows["visit"])):
        specs[name] = sl.Spec("ts", {name: window}, dict(SPEC.aggs), by=["k"], watermark=sl.bounded("4s"))
        windows = window_aggregate(stream(spark, folder), specs[name], str(tmp_path / "state"), 2, name=name)
        windows.createOrReplaceTempView(f"windows_of_{name}")
        running.append(begun(windows.join(label, "k", "left") if name == "visit" else windows, tmp_path / name))
    for query in running:
        query.awaitTermination()
    expected = {name: in_one_process(spec, 3).to_pylist() for name, spec in specs.items()}
    labels = {"a": 1, "b": 2, "é": 3}
    for row in expected["visit"]:
        row["label"] = labels.get(row["k"])
    for name in specs:
        found = [{c: row[c] for c in expected[name][0]} for row in written(spark, tmp_path / name)]
        assert sorted(map(plainly, found), key=repr) == sorted(map(plainly, expected[name]), key=repr)
    chosen = spark.sql("select window_start, n * 2 as twice from windows_of_tumble where k = 'a' and n > 1")
    run(chosen, tmp_path / "sql")  # another query of the same frame, with a state of its own
    found = [(row["window_start"].timestamp(), row["twice"]) for row in written(spark, tmp_path / "sql")]
    rows = [row for row in expected["tumble"] if row["k"] == "a" and row["n"] > 1]
    assert sorted(found) == sorted((row["window_start"].timestamp(), 2 * row["n"]) for row in rows) != []


def plainly(row: dict) -> dict:
    return {n: v.timestamp() if isinstance(v, dt.datetime) else v for n, v in row.items()}


def test_files_read_by_workers_are_the_same_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "in", list(map(readings, range(4))))
    run(window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "rows"), 2), tmp_path / "rows")
    rows = read_files(spark, folder, maxFilesPerTrigger=1)
    late = str(tmp_path / "late")
    query = run(window_aggregate(rows, SPEC, str(tmp_path / "state"), 2, late_path=late), tmp_path)
    assert written(spark, tmp_path) == written(spark, tmp_path / "rows") != []
    metrics = [p.observedMetrics["windows"].stats for p in query.recentProgress]
    assert pq.read_table(late).num_rows == sum(m["late"] for m in metrics) > 0
    drawn = _progress_table(query, "windows").to_pylist()
    assert [(row["rows"], row["late"]) for row in drawn] == [(m["rows"], m["late"]) for m in metrics]
    assert all(row["state_kb"] > 0 and row["behind_s"] > 0 for row in drawn)
    if find_spec("altair") and find_spec("vl_convert"):
        assert sl.plot.query(query).data.to_pylist() == drawn
    batch = window_aggregate(read_files(spark, folder, streaming=False), SPEC, partitions=2).toArrow()
    expected = sl.aggregate(pa.concat_tables(map(readings, range(4))), SPEC)
    assert in_order(batch) == in_order(expected.cast(batch.schema))


CSV = [
    ('ts,k,v\n0,a,1.5\n1,,2\n2,"",4\n3,"b,c",8\n', {"header": True}),
    ("ts;k;v\n0;a;1.5\n1;;2\n", {"header": True, "sep": ";"}),
    ("0|a|1.5\n1||2\n", {"header": False, "delimiter": "|"}),
    ('ts,k,v\n0,NA,1.5\n1,,2\n2,"",4\n', {"header": "true", "nullValue": "NA"}),
    ("ts,k,v\n0,'a,b',1.5\n", {"header": True, "quote": "'"}),
]


@pytest.mark.parametrize(("text", "options"), CSV, ids=lambda one: str(one)[:20] if isinstance(one, dict) else "")
def test_csv_files_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, text: str, options: dict[str, Any]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(text)
    columns, folder = "ts long, k string, v double", str(tmp_path / "in")
    spec = sl.Spec("ts", {"w": sl.tumbling(100)}, {"n": sl.count(), "s": sl.sum("v")}, by="k")
    rows = read_files(spark, folder, columns, "csv", streaming=False, **options)
    ours = window_aggregate(rows, spec, partitions=2).toArrow().select(["k", "n", "s"])
    theirs = spark.read.schema(columns).options(**options).csv(folder).groupBy("k").agg(
        sf.count("*").alias("n"), sf.sum("v").alias("s")
    )  # fmt: skip
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.toArrow().to_pylist()))


WRITTEN = {
    "csv": {"k": "'say \"hi\" to c:\\\\temp, twice'", "v": "1.5d"},
    "json": {"k": "X'00FF'", "day": "date'2026-03-29'", "old": "date'1582-10-04'"},
    "parquet": {"k": "'a'", "until": "timestamp_ltz'9999-12-31 00:00:00'", "old": "timestamp_ltz'1500-01-01 00:00:00'"},
}


@pytest.mark.parametrize("format", WRITTEN)
def test_files_that_spark_wrote_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """By its defaults, but for the quotes of CSV."""
    made = ", ".join(f"{value} {name}" for name, value in WRITTEN[format].items())
    frame, options = spark.sql(f"select timestamp_seconds(id) ts, {made} from range(2)"), {}
    if format == "csv":
        options = {"header": "true", "escape": '"'}
    folder = str(tmp_path / "in")
    frame.coalesce(1).write.options(**options).format(format).save(folder)
    aggs = {"n": sl.count(), **{name: sl.max(name) for name in WRITTEN[format] if name != "k"}}
    spec = sl.Spec("ts", {"w": sl.tumbling("1d")}, aggs, by="k")
    given = {"csv": {"escape": '"'}}.get(format, {})
    found = window_aggregate(
        read_files(spark, folder, None if format == "parquet" else frame.schema, format, streaming=False, **given),
        spec,
        partitions=1,
    )
    theirs = window_aggregate(
        spark.read.schema(frame.schema).options(**options).format(format).load(folder), spec, partitions=1
    )
    assert found.schema == theirs.schema
    assert found.collect() == theirs.collect() != []


def test_a_column_that_a_file_lacks_is_refused_or_null(spark: SparkSession, tmp_path: Path) -> None:
    columns = "ts long, k string, extra double"
    spec = sl.Spec("ts", {"w": sl.tumbling(100)}, {"n": sl.count(), "s": sl.sum("extra")}, by="k")
    folders = {name: tmp_path / name for name in ("parquet", "csv")}
    for folder in folders.values():
        folder.mkdir()
    pq.write_table(pa.table({"ts": [1], "k": ["a"]}), folders["parquet"] / "1.parquet")
    pq.write_table(pa.table({"extra": [2.5], "ts": [2], "k": ["a"]}), folders["parquet"] / "2.parquet")
    (folders["csv"] / "1.csv").write_text("ts,k\n1,a\n")
    (folders["csv"] / "2.csv").write_text("ts,extra,k\n2,2.5,a\n")
    for format, folder in folders.items():
        rows = read_files(spark, str(folder), columns, format, streaming=False)
        with pytest.raises(
            Exception, match=r"column 'extra' is missing in the file; its columns are ts, k\. .*missing='null'"
        ):
            window_aggregate(rows, spec, partitions=1).collect()
        rows = read_files(spark, str(folder), columns, format, streaming=False, missing="null")
        (row,) = window_aggregate(rows, spec, partitions=1).collect()
        assert (row["n"], row["s"]) == (2, 2.5)


def test_a_column_that_spark_has_no_type_for_is_named_with_its_type(spark: SparkSession, tmp_path: Path) -> None:
    """It is refused where a query reads it, and only there."""
    long = pa.array([Decimal(1)], pa.decimal256(60, 2))
    pq.write_table(pa.table({"ts": [1], "x": long, "v": [2]}), tmp_path / "1.parquet")
    rows = read_files(spark, str(tmp_path), streaming=False)
    told = r"column 'x' has type decimal256\(60, 2\) in the files, and Spark has no such type: write the files with"
    spec = sl.Spec("ts", {"w": sl.tumbling(10)}, {"n": sl.sum("v")})
    (row,) = window_aggregate(rows, spec, partitions=1).collect()
    assert row["n"] == 2
    with pytest.raises(TypeError, match=told):
        window_aggregate(rows, sl.Spec("ts", spec.windows, {"n": sl.count()}, by="x"), partitions=1)
    band = sl.JoinSpec("x", "ts", (0, 1))
    with pytest.raises(TypeError, match=told):
        window_join(rows, rows, band, partitions=1)


@pytest.mark.parametrize("told_its_batch", [False, True])
def test_threads_of_a_sink_write_a_batch_if_they_are_told_which(
    spark: SparkSession, tmp_path: Path, told_its_batch: bool
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, 12, 30], "k": ["a", "b", "a"]}), tmp_path / "in" / "1.parquet")
    spec = sl.Spec("ts", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.bounded(0))
    windows = window_aggregate(read_files(spark, str(tmp_path / "in")), spec, str(tmp_path / "state"), 2)

    def sink(frame: DataFrame, batch: int) -> None:
        def write(name: str) -> None:
            frame.write.mode("overwrite").parquet(str(tmp_path / "out" / name))

        work = inheritable_thread_target(spark)(write) if told_its_batch else write
        with ThreadPoolExecutor(1) as threads:
            threads.submit(work, str(batch)).result()

    stream = windows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    if told_its_batch:
        query.awaitTermination()
        assert sorted(r["n"] for r in spark.read.parquet(str(tmp_path / "out" / "0")).collect()) == [1, 1]
    else:
        with pytest.raises(Exception, match=r"does not know its micro-batch\. .* wrap its work in pyspark\.inher"):
            query.awaitTermination()


PARTED = {"parquet": {}, "json": {}, "csv": {"header": False, "escape": '"'}}


@pytest.mark.parametrize("format", PARTED)
def test_columns_in_paths_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Of what ``partitionBy`` wrote, with signs that paths cannot have and with nulls."""
    days = "date_add(date'2026-03-29', cast(id % 2 as int)) day"
    frame = spark.sql(f"select id t, id * 2 v, {days}, nullif('a/b=%c ' || id % 3, 'a/b=%c 0') k from range(8)")
    folder, options = str(tmp_path / "in"), PARTED[format]
    frame.coalesce(1).write.partitionBy("day", "k").options(**options).format(format).save(folder)
    aggs = {"n": sl.count(), "s": sl.sum("v"), "d": sl.max("day")}
    spec = sl.Spec("t", {"w": sl.tumbling(100)}, aggs, by=["k", "day"])
    for missing in ("error", "null"):
        rows = read_files(spark, folder, frame.schema, format, streaming=False, missing=missing, **options)
        found = window_aggregate(rows, spec, partitions=1)
        assert in_order(found.toArrow()) == in_order(window_aggregate(frame, spec, partitions=1).toArrow())


@pytest.mark.parametrize(
    ("format", "text", "found"),
    [
        ("csv", "1,a,6\n2,b,7\n", [6, 7]),
        ("csv", "1,a\n2,b\n", [5, 5]),
        ("json", '{"t": 1, "k": "a", "day": null}\n{"t": 2, "k": "b", "day": 7}\n', [None, 7]),
        ("json", '{"t": 1, "k": "a"}\n{"t": 2, "k": "b"}\n', [5, 5]),
    ],
)
def test_a_column_that_a_file_has_is_not_taken_from_its_path(
    tmp_path: Path, format: str, text: str, found: list[int | None]
) -> None:
    (tmp_path / "day=5").mkdir()
    (tmp_path / "day=5" / "file").write_text(text)
    schema = pa.schema({"t": pa.int64(), "k": pa.string(), "day": pa.int64()})
    paths = pa.record_batch({"path": [f"file:{tmp_path}/day=5/file"]})
    rows = pa.Table.from_batches(read([paths], schema, Reading(format, "error", Csv(header=False), ("t", "k", "day"))))
    assert rows.to_pydict() == {"t": [1, 2], "k": ["a", "b"], "day": found}


def test_columns_in_paths_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day=2026-03-29").mkdir()
    pq.write_table(pa.table({"t": [1]}), tmp_path / "day=2026-03-29" / "a.parquet")
    for column, type, said in (
        ("day", "int", "column 'day' is '2026-03-29' in the path, which does not fit int32"),
        ("Day", "date", "column 'Day' has another case in the file, whose columns are t, .*day; name it as there"),
    ):
        rows = read_files(spark, str(tmp_path), f"t long, {column} {type}", streaming=False)
        with pytest.raises(Exception, match=said):
            window_aggregate(
                rows, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by=column), partitions=1
            ).collect()


def test_columns_are_learned_from_the_files_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    """Not from what Delta and unfinished jobs have beside them."""
    folder, table = tmp_path / "in", pa.table({"t": [1, 2], "k": ["a", "a"]})
    for hidden in ("_delta_log/000.json", "_temporary/0/part.parquet"):
        (folder / hidden).parent.mkdir(parents=True)
        (folder / hidden).write_text("{}")
    pq.write_table(table, folder / "a b%20c.parquet")
    for path in ("in", "in/*.parquet", "in/a b%20c.parquet"):
        rows = read_files(spark, str(tmp_path / path), streaming=False)
        assert rows.schema == table.schema
        assert window_aggregate(rows, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()})).select("n").collect() == [
            (2,)
        ]
    for path in ("in/*.csv", "elsewhere"):
        with pytest.raises(ValueError, match="holds no file yet to learn the columns from; give read_files a schema="):
            read_files(spark, str(tmp_path / path))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_watched_for_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is its progress taken apart in the driver, nor its accounting added up by more than one aggregate."""
    taken_apart: list[Any] = []
    monkeypatch.setattr(QueryProgressEvent, "fromJObject", taken_apart.append)
    frame = stream(spark, write(tmp_path / "in", [readings(0)]))
    windows = window_aggregate(frame, SPEC, str(tmp_path / "state"), 2)
    query = run(windows, tmp_path)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert not taken_apart
    assert windows._jdf.queryExecution().logical().toString().count("collect_list") == 1
    observed = query.lastProgress.observedMetrics["windows"]
    assert observed.stats["rows"] == 300
    assert json.loads(query.lastProgress.json)["observedMetrics"]["windows"]["stats"]["rows"] == 300


def test_asynchronous_progress_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream(spark, write(tmp_path / "in", [readings(0)]))
    windows = window_aggregate(frame, SPEC, str(tmp_path / "state"), 2)
    writer = windows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")  # else it is for Kafka alone
    query = writer.option("asyncProgressTrackingEnabled", "true").start()
    with pytest.raises(Exception, match="the query has asyncProgressTrackingEnabled: after a restart its batches may"):
        query.processAllAvailable()
    assert not list((tmp_path / "state").rglob("*.slices"))


def test_what_cannot_be_is_refused_where_it_is_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = stream(spark, write(tmp_path / "in", [readings(0)]))
    with pytest.raises(ValueError, match="a streaming query needs state="):
        window_aggregate(frame, SPEC)
    with pytest.raises(ValueError, match="partitions must be a whole number of at least 1; got 0"):
        window_aggregate(frame, SPEC, "state", 0)
    whole = spark.read.parquet(str(tmp_path / "in"))  # of which nothing is kept; wrong all the same
    for data in (frame, whole):
        for wrong in (5, "", tmp_path):
            with pytest.raises(ValueError, match="state must be a path or URI that all executors reach, as text; got "):
                window_aggregate(data, SPEC, wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="late_path must be a path or URI that all executors reach, as text; got "):
            window_aggregate(data, SPEC, "state", late_path=5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="name must be a word that can name a folder; got 'a/b'"):
            window_aggregate(data, SPEC, "state", name="a/b")
        with pytest.raises(ValueError, match="keep_versions must be at least 2; got 1"):
            window_aggregate(data, SPEC, "state", keep_versions=1)
    for paths in ({"state": "hdfs:/x"}, {"state": "state", "late_path": "hdfs:/x"}):
        with pytest.raises(ValueError, match=r"hdfs:/x has a scheme and one slash, .* write hdfs://host/x"):
            window_aggregate(frame, SPEC, **paths)  # type: ignore[arg-type]
    for paths in ({"state": "file:state"}, {"state": "state", "late_path": "file:state"}):
        with pytest.raises(ValueError, match=r"file:state has the scheme file: without a slash; write the whole path"):
            window_aggregate(frame, SPEC, **paths)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"late_path='nope://x' cannot be opened: nope://x: pyarrow cannot open it"):
        window_aggregate(frame, SPEC, "state", 2, late_path="nope://x")
    with pytest.raises(TypeError, match=r"schema must be Spark's StructType, Arrow's Schema .*; got \['ts'\]"):
        read_files(spark, str(tmp_path / "in"), ["ts"])  # type: ignore[arg-type]
    for wrong in (None, 5, "", [str(tmp_path / "in")]):
        with pytest.raises(ValueError, match="path must be a path or URI that all executors reach, as text; got "):
            read_files(spark, wrong, "ts long", streaming=False)  # type: ignore[arg-type]
    for format, options, refused in (
        (
            "csv",
            {"mode": "PERMISSIVE"},
            "takes no option mode='PERMISSIVE' for csv files; it takes maxFiles.*sep",
        ),
        ("parquet", {"sep": ";"}, "takes no option sep=';' for parquet files"),
        ("csv", {"sep": ";;"}, "sep must be one character; got ';;'"),
        ("csv", {"header": "maybe"}, "header must be True or False; got 'maybe'"),
        ("csv", {"header": False}, "CSV files without a header need schema="),
        ("csv", {"missing": "none"}, "missing must be one of 'error', 'null'; got 'none'"),
    ):
        with pytest.raises(ValueError, match=refused):
            read_files(spark, str(tmp_path / "in"), None, format, **options)  # type: ignore[arg-type]
    assert window_aggregate(whole, SPEC, "state", 2).count()
    ahead = dataclasses.replace(SPEC, watermark=sl.bounded("4s", at_most_ahead="1d"))
    full = dataclasses.replace(SPEC, windows={"w": sl.sliding("4s", "2s", full=True)})
    keeps_state = hasattr(PandasGroupedOpsMixin, "transformWithState")
    needs = "the state store that .*RocksDBStateStoreProvider'. before" if keeps_state else "transformWithState"
    for spec, given, refused in (
        (SPEC, {"store": "disk"}, "store must be one of 'files', 'spark'; got 'disk'"),
        (SPEC, {"store": "spark", "state": "state"}, "keeps the state in the query's checkpoint: leave state out; got"),
        (SPEC, {"store": "spark"}, f"store='spark' needs {needs}"),
        (ahead, {"store": "spark"}, "cannot have watermark=.*: readers do not know which rows are too far ahead; give"),
        (full, {"store": "spark"}, r"cannot have windows\['w'\] with full=True: readers do not know where the stream"),
    ):
        with pytest.raises(ValueError, match=refused):
            window_aggregate(frame, spec, partitions=2, **given)
    with monkeypatch.context() as older, pytest.raises(ValueError, match="transformWithState, which PySpark has since"):
        older.delattr(PandasGroupedOpsMixin, "transformWithState", raising=False)
        window_aggregate(frame, SPEC, partitions=2, store="spark")
    with pytest.raises(ValueError, match=r"sl.ordered\(\) needs rows in the order they arrived"):
        ordered = sl.Spec("ts", {"t": sl.tumbling("1s")}, {"n": sl.count()}, watermark=sl.ordered())
        window_aggregate(frame, ordered, "state", 2)
    with pytest.raises(ValueError, match="column 'missing' is missing in the data"):
        window_aggregate(frame, sl.Spec("missing", {"t": sl.tumbling("1s")}, {"n": sl.count()}), "state", 2)
    with pytest.raises(ValueError, match=r"column 'vv' is missing in the data; its columns are ts, k, v$"):
        window_aggregate(frame, sl.Spec("ts", {"t": sl.tumbling("1s")}, {"n": sl.sum("vv")}), "state", 2)
    twice = frame.select("*", sf.lit(1).alias("v"))
    with pytest.raises(ValueError, match="column 'v' occurs 2 times in the data; its columns are ts, k, v, v"):
        window_aggregate(twice, SPEC, "state", 2)
    with pytest.raises(ValueError, match="column '__slicing_stats' has the name of a column that streams add"):
        window_aggregate(frame, sl.Spec("ts", {"t": sl.tumbling("1s")}, {STATS: sl.count()}), "state", 2)
    with pytest.raises(ValueError, match=r"sl.manual\(\) would close nothing: a streaming query has no advance"):
        by_hand = sl.Spec("ts", {"t": sl.tumbling("1s")}, {"n": sl.count()}, watermark=sl.manual())
        window_aggregate(frame, by_hand, "state", 2)
    with pytest.raises(TypeError, match=r"window_aggregate takes Spark's DataFrame.* got pyarrow's Table"):
        window_aggregate(pa.table({}), SPEC)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"window_aggregate takes a DataFrame and a sl.Spec; got pyspark's DataFrame"):
        window_aggregate(SPEC, frame)  # type: ignore[arg-type]
    assert not (tmp_path / "state").exists()  # what is refused leaves nothing behind
    query = run(window_aggregate(frame, SPEC, str(tmp_path / "state"), 2), tmp_path)
    at = {"checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(StateError, match="a query with store='spark' has its state in Spark's own store"):
        peek(spark, SPEC, None, **at)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="nothing/windows holds no state of query " + str(query.id)):
        drain(spark, SPEC, str(tmp_path / "nothing"), **at)
    with pytest.raises(StateError, match="state/windows holds state for partitions= 2: there is none for 3"):
        drain(spark, SPEC, str(tmp_path / "state"), 3, **at)
    with pytest.raises(StateError, match="is no query's checkpoint: it has no metadata, offsets/ or commits/"):
        drain(spark, SPEC, str(tmp_path / "state"), checkpoint=str(tmp_path / "elsewhere"))
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path / "checkpoint", damaged)
    for metadata in ("", "v1", "{}", "[]", '{"id":5}'):
        (damaged / ".metadata.crc").unlink(missing_ok=True)
        (damaged / "metadata").write_text(metadata)
        with pytest.raises(
            StateError, match="damaged is no query's checkpoint: its file metadata has no id of a query"
        ):
            peek(spark, SPEC, str(tmp_path / "state"), checkpoint=str(damaged))
    for name, call in (
        ("drain", lambda: drain(spark, SPEC, str(tmp_path / "state"))),
        ("peek", lambda: peek(spark, SPEC, str(tmp_path / "state"))),
        ("rescale", lambda: rescale(spark, SPEC, str(tmp_path / "state"), 3)),
        ("change", lambda: change(spark, SPEC, SPEC, str(tmp_path / "state"), "more")),
    ):
        with pytest.raises(StateError, match=f"{name} needs checkpoint=, that of the query"):
            call()
    at |= {"state": str(tmp_path / "state")}
    for upkeep in (drain, peek, rescale, change):
        more = {"to": 3} if upkeep is rescale else {"changed_spec": SPEC, "to": "more"} if upkeep is change else {}
        for wrong in (tmp_path, ""):
            with pytest.raises(ValueError, match="state must be a path or URI that all executors reach, as text; got "):
                upkeep(spark, SPEC, **{**at, **more, "state": wrong})
        for wrong in (5, ""):
            with pytest.raises(ValueError, match=r"checkpoint must be a path or URI .* as text; got "):
                upkeep(spark, SPEC, **{**at, **more, "checkpoint": wrong})
        with pytest.raises(ValueError, match="partitions must be a whole number of at least 1, or None; got '2'"):
            upkeep(spark, SPEC, **at, **more, partitions="2")
        with pytest.raises(ValueError, match="name must be a word that can name a folder; got 'a/b'"):
            upkeep(spark, SPEC, **at, **more, name="a/b")
        with pytest.raises(TypeError, match=r"takes .* sl.FeatureSpec; got builtins's dict"):
            upkeep(spark, {}, **at, **more)
    for wrong in ("a/b", "", 5):
        with pytest.raises(ValueError, match="to must be a word that can name a folder; got "):
            change(spark, SPEC, SPEC, to=wrong, **at)
    with pytest.raises(
        TypeError, match=r"data= of change takes Spark's DataFrame, or what read_files gives; got .*str"
    ):
        change(spark, SPEC, SPEC, to="more", data="x", **at)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="its new name must be another one than 'windows'"):
        change(spark, SPEC, SPEC, to="windows", **at)


# --- the life of a query ----------------------------------------------------------------------------------------------


def pushed(spec: sl.Spec, tables: list[pa.Table]) -> tuple[list[dict], list[dict]]:
    """What one operator answers, and what it has open then."""
    operator = sl.Operator(spec)
    closed = [row for table in tables for row in operator.push(table).windows.to_pylist()]
    return sorted(map(plainly, closed), key=repr), sorted(map(plainly, operator.flush().windows.to_pylist()), key=repr)


def plain_rows(frame: DataFrame) -> list[dict]:
    return sorted(map(plainly, frame.toArrow().to_pylist()), key=repr)


def test_a_query_is_looked_into_rescaled_changed_taken_back_and_drained(spark: SparkSession, tmp_path: Path) -> None:
    state, at, tables = str(tmp_path / "state"), str(tmp_path / "checkpoint"), list(map(readings, range(6)))
    folder = write(tmp_path / "in", tables[:2])
    run(window_aggregate(stream(spark, folder), SPEC, state, 2), tmp_path)
    closed, left = pushed(SPEC, tables[:2])
    assert plain_rows(spark.read.parquet(str(tmp_path / "out"))) == closed != []
    for _ in range(2):
        assert plain_rows(peek(spark, SPEC, state, checkpoint=at)) == left != []
    assert rescale(spark, SPEC, state, 3, checkpoint=at) == 1
    with pytest.raises(StateError, match="holds state for partitions= 2, 3: say which"):
        peek(spark, SPEC, state, checkpoint=at)
    assert plain_rows(peek(spark, SPEC, state, 3, checkpoint=at)) == left
    write(tmp_path / "in", tables[2:4], 2)
    run(window_aggregate(stream(spark, folder), SPEC, state, 3), tmp_path)
    closed, left = pushed(SPEC, tables[:4])
    assert plain_rows(spark.read.parquet(str(tmp_path / "out"))) == closed
    assert plain_rows(peek(spark, SPEC, state, checkpoint=at)) == left  # of 3, which alone has this batch
    back(tmp_path / "checkpoint" / "commits", 2)  # batch 3 was not committed: it is given again
    with pytest.raises(StateError, match=r"batch 3 of the query at .* has begun, batch 2 is its last complete one"):
        drain(spark, SPEC, state, checkpoint=at)
    assert plain_rows(peek(spark, SPEC, state, checkpoint=at, partitions=3)) == pushed(SPEC, tables[:3])[1]
    back(tmp_path / "checkpoint" / "offsets", 2)  # taken back, and batch 3 has other rows now
    back(tmp_path / "checkpoint" / "sources" / "0", 2)
    (tmp_path / "in" / "003.parquet").unlink()
    write(tmp_path / "in", tables[4:6], 4)
    more = sl.Spec("ts", dict(SPEC.windows), {**SPEC.aggs, "mean": sl.mean("v")}, by=["k"], watermark=SPEC.watermark)
    told = change(spark, SPEC, more, state, "more", 3, checkpoint=at)
    assert told == {"windows": {}, "aggs": {"mean": None}}
    windows = window_aggregate(stream(spark, folder), more, state, 3, name="more")
    again: list[dict] = []
    writer = windows.writeStream.foreachBatch(lambda frame, batch: again.extend(plain_rows(frame)))
    writer.option("checkpointLocation", at).trigger(availableNow=True).start().awaitTermination()
    seen = [*tables[:3], *tables[4:6]]
    closed, left = pushed(more, seen)
    before = {repr({n: v for n, v in row.items() if n != "mean"}) for row in closed} - {
        repr(row) for row in pushed(SPEC, seen[:3])[0]
    }
    assert {repr({n: v for n, v in row.items() if n != "mean"}) for row in again} == before
    assert len(again) == len(before) > 50
    for _ in range(2):
        rest = drain(spark, more, state, name="more", checkpoint=at)
        assert plain_rows(rest) == left != []


def back(log: Path, batch: int) -> None:
    """Nothing of later batches, nor of their checksums."""
    for entry in list(log.iterdir()):
        number = entry.name.strip(".").partition(".")[0]
        if number.isdigit() and int(number) > batch:
            entry.unlink()


def test_a_batch_without_rows_or_readers_reaches_every_place(spark: SparkSession, tmp_path: Path) -> None:
    """An empty file has no partition to read; behind coalesce(1) no task has the number of its place."""
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [
        "".join(json.dumps(row, default=lambda v: v.isoformat()) + "\n" for row in readings(part).to_pylist())
        for part in range(3)
    ]
    for number, text in enumerate([lines[0], "", lines[1], "", "", lines[2]]):
        (folder / f"{number}.json").write_text(text)
        os.utime(folder / f"{number}.json", (10**9 + number, 10**9 + number))
    source = spark.readStream.schema("ts timestamp_ltz, k string, v long").option("maxFilesPerTrigger", 1)
    windows = window_aggregate(source.json(str(folder)), SPEC, str(tmp_path / "state"), 3).coalesce(1)
    query = run(windows, tmp_path)
    closed, left = pushed(SPEC, list(map(readings, range(3))))
    assert plain_rows(spark.read.parquet(str(tmp_path / "out"))) == closed
    assert [p.observedMetrics["windows"].stats["rows"] for p in query.recentProgress] == [300, 0, 300, 0, 0, 300]
    rest = drain(spark, SPEC, str(tmp_path / "state"), checkpoint=str(tmp_path / "checkpoint"))
    assert plain_rows(rest) == left


def test_what_stops_a_query_is_the_first_line_that_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Of a place, and of a reader; without the traceback of a worker."""
    folder, base = write(tmp_path / "in", [readings(0)]), tmp_path / "state" / "windows"
    frame = window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2)
    query = run(frame, tmp_path)
    (version,) = (base / str(query.id) / "2" / "00001").glob("*.slices")
    data = version.read_bytes()
    version.write_bytes(data[:-9] + b"123456789")
    write(tmp_path / "in", [readings(1)], 1)
    with pytest.raises(Exception, match="is damaged") as raised:
        run(frame, tmp_path)
    first = str(raised.value).splitlines()[0]
    assert f"state file {version} is damaged: the checksum of its content does not match" in first
    assert "Traceback" not in str(raised.value)
    version.unlink()
    with pytest.raises(Exception, match="is missing") as raised:
        run(frame, tmp_path)
    assert "the state of partition 1 after batch 0 is missing in" in str(raised.value).splitlines()[0]
    version.write_bytes(data)
    run(frame, tmp_path)
    gone = readings(2).set_column(0, "ts", pa.nulls(300, pa.timestamp("us", "UTC")))
    write(tmp_path / "in", [gone], 2)
    with pytest.raises(Exception, match="null") as raised:
        run(frame, tmp_path)
    assert "time column 'ts' is null in row 0 of the batch; fill or drop nulls" in str(raised.value).splitlines()[0]


def test_a_filter_behind_the_windows_hides_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark does not compile (tables of more than 100 fields, too), it asks the user's filter first. A row with
    an error does not pass it."""
    folder = write(tmp_path / "in", [readings(0)])
    frame = window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2).where("n > 0 and k is not null")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        run(frame, tmp_path)
        write(tmp_path / "in", [readings(1).set_column(0, "ts", pa.nulls(300, pa.timestamp("us", "UTC")))], 1)
        for _ in range(2):
            with pytest.raises(Exception, match="time column 'ts' is null in row 0 of the batch"):
                run(frame, tmp_path)
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")


def test_a_checkpoint_is_no_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """A query whose checkpoint the pattern matches has the same state folder."""
    for number, name in enumerate(("q1", "q[1]")):
        folder = write(tmp_path / f"in{number}", [readings(number)])
        writer = window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        writer.start().awaitTermination()
    for number, name in enumerate(("q1", "q[1]")):
        found = peek(spark, SPEC, str(tmp_path / "state"), checkpoint=str(tmp_path / name))
        assert plain_rows(found) == pushed(SPEC, [readings(number)])[1] != []


def test_a_sink_of_only_limit_stops_the_query_in_the_next_batch(spark: SparkSession, tmp_path: Path) -> None:
    """It runs the first places alone, whose states are there: the reader looks at others."""
    folder = write(tmp_path / "in", list(map(readings, range(3))))
    windows = window_aggregate(stream(spark, folder), SPEC, str(tmp_path / "state"), 2)
    writer = windows.writeStream.foreachBatch(lambda frame, batch: frame.limit(1).collect())
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(
        Exception, match=r"state of partition 1 after batch 0 is missing .* did not run every partition"
    ):
        query.awaitTermination()


def test_queries_of_one_name_in_one_query_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    windows = window_aggregate(stream(spark, write(tmp_path / "in", [readings(0)])), SPEC, str(tmp_path / "state"), 2)
    later = sl.Spec("window_start", {"more": sl.tumbling("1m")}, {"n": sl.count()}, watermark=sl.bounded("30s"))
    with pytest.raises(ValueError, match=r"name='windows' is that of another query .* each needs a name= of its own"):
        window_aggregate(windows, later, str(tmp_path / "state"), 1)
    window_aggregate(windows, later, str(tmp_path / "state"), 1, name="later")


def test_a_drained_query_that_is_taken_back_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    state, at, tables = str(tmp_path / "state"), tmp_path / "checkpoint", list(map(readings, range(4)))
    folder = write(tmp_path / "in", tables[:3])
    run(window_aggregate(stream(spark, folder), SPEC, state, 2), tmp_path)
    drain(spark, SPEC, state, checkpoint=str(at)).collect()
    write(tmp_path / "in", tables[3:], 3)
    with pytest.raises(Exception, match="was drained after batch 2, which ended its stream"):
        run(window_aggregate(stream(spark, folder), SPEC, state, 2), tmp_path)
    for log in ("commits", "offsets", "sources/0"):
        back(at / log, 0)
    again: list[dict] = []
    windows = window_aggregate(stream(spark, folder), SPEC, state, 2)
    writer = windows.writeStream.foreachBatch(lambda frame, batch: again.extend(plain_rows(frame)))
    writer.option("checkpointLocation", str(at)).trigger(availableNow=True).start().awaitTermination()
    closed, left = pushed(SPEC, tables)
    assert sorted([*pushed(SPEC, tables[:1])[0], *again], key=repr) == closed
    assert plain_rows(drain(spark, SPEC, state, checkpoint=str(at))) == left


STORY = """
explain window_aggregate window_join window_features BatchLog FileRows read_files peek StateError change rescale drain
"""


def test_the_examples_of_public_names_are_one_story(spark: SparkSession, tmp_path: Path) -> None:
    """In this order: later ones ask of the query of ``read_files``."""
    assert sorted(STORY.split()) == sorted(spark_udfs.__all__)
    known = {
        **{name: getattr(spark_udfs, name) for name in spark_udfs.__all__},
        "spark": spark,
        "folder": str(tmp_path),
    }
    (tmp_path / "readings").mkdir()
    pq.write_table(pa.table({"t": [1, 2, 12], "k": ["a", "a", "b"], "v": [1, 2, 3]}), tmp_path / "readings/0.parquet")
    told = [getattr(spark_udfs, name) for name in STORY.split()]
    if find_spec("altair") is not None:
        told.append(sl.plot.query)
    for found in told:
        example = doctest.DocTestParser().get_doctest(inspect.getdoc(found), known, found.__name__, None, 0)
        assert example.examples
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(example, out=said.append, clear_globs=False)
        assert not runner.failures, "".join(said)
        known |= example.globs
    spark.streams.removeListener(known["log"])
