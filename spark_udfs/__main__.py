"""``python -m spark_udfs``: a demonstration stream of sensor readings that arrive as files, on a local Spark.

Rows come late and out of order. The query is stopped in the middle and started again from its state. Results are
compared with Spark's own windows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

import slicing as sl
from slicing.command_line.demo import positive, sample_stream
from spark_udfs import drain, window_aggregate
from spark_udfs.local import session

SPEC = sl.Spec(
    time="ts",
    by=["sensor"],
    windows={"minute": sl.tumbling("1m"), "5min": sl.sliding("5m", every="1m"), "visit": sl.session("1m")},
    aggs={"n": sl.count(), "mean": sl.mean("value"), "max": sl.max("value")},
    watermark=sl.bounded("5s"),
)
COLUMNS = "ts timestamp_ltz, sensor string, value double"


def native_windows() -> dict[str, Column]:
    return {
        "minute": sf.window("ts", "1 minute"),
        "5min": sf.window("ts", "5 minutes", "1 minute"),
        "visit": sf.session_window("ts", "1 minute").alias("window"),
    }


def deliver(table: pa.Table, folder: Path, numbers: range, files: int, pause: float) -> None:
    """Write some of the stream's files, one after the other, in the order in which rows arrived."""
    for number in numbers:
        first, end = (table.num_rows * n // files for n in (number, number + 1))
        spare = folder / f".{number}"
        pq.write_table(table.slice(first, end - first), spare)
        os.utime(spare, (10**9 + number, 10**9 + number))  # Spark takes the oldest file first
        spare.rename(folder / f"{number:03}.parquet")
        time.sleep(pause)


def source(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def begin(frame: DataFrame, base: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(base / "checkpoint"))
    return writer.option("path", str(base / "out")).start()


def follow(query: StreamingQuery, until: int) -> None:
    """Print a line for each batch, until ``until`` batches are complete."""
    shown = -1
    while shown < until - 1:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        for progress in query.recentProgress:
            if progress.batchId > shown and progress.numInputRows:
                shown = progress.batchId
                report(progress)
        time.sleep(0.1)


def report(progress: Any) -> None:
    seen = progress.observedMetrics["windows"].stats
    reached = "-" if seen["watermark"] is None else f"{seen['watermark']}"[11:19]
    took = progress.durationMs["triggerExecution"]
    print(
        f"  batch {progress.batchId:>2}: {seen['rows']:>7,} rows, {seen['late']:>2} late; watermark {reached:>8}; "
        f"holds {seen['cells']:>6,} partial slices, {seen['state_bytes'] / 1e3:>4,.0f} kB on disk; "
        f"closed {seen['windows']:>5,} windows in {took:>5,} ms",
        flush=True,
    )


def native_answers(spark: SparkSession, folder: Path, base: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The results of Spark's own windows for the stream in ``folder``: one Spark query for each window."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, window in native_windows().items():
        grouped = source(spark, folder).withWatermark("ts", "5 seconds").groupBy(window, "sensor")
        counted = grouped.agg(sf.count("*").alias("n"), sf.avg("value").alias("mean"), sf.max("value").alias("max"))
        columns = (f"'{name}' as window", "window.start as window_start", "window.end as window_end")
        frame = counted.selectExpr(*columns, "sensor", "n", "mean", "max")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(base / name / "checkpoint"))
        query = writer.option("path", str(base / name / "out")).trigger(availableNow=True).start()
        query.awaitTermination()
        found |= named(spark.read.parquet(str(base / name / "out")))
    return found


def named(frame: DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Windows by name, bounds and key; exits if a window came twice."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in frame.toArrow().to_pylist():
        name = tuple(row[c] for c in ("window", "window_start", "window_end", "sensor"))
        if name in found:
            raise SystemExit(f"window {name} came twice")
        found[name] = row
    return found


def compare(closed: dict[Any, Any], rest: dict[Any, Any], native: dict[Any, Any]) -> str:
    """Check that windows which Spark closed are equal here, and that windows which we closed exist in Spark."""
    both = closed | rest
    wrong = [name for name, row in native.items() if name not in both or not alike(row, both[name])]
    extra = [name for name in closed if name not in native]
    if wrong or extra:
        raise SystemExit(
            f"{len(wrong)} windows differ from native Spark and {len(extra)} are extra, such as {(wrong + extra)[0]}"
        )
    if set(closed) & set(rest):
        raise SystemExit("a window that had closed came again when the stream was drained")
    return f"all {len(native):,} windows that native Spark closed are the same here, with none extra"


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    near = abs(one["mean"] - other["mean"]) <= 1e-9 * max(abs(one["mean"]), 1)
    return near and all(one[c] == other[c] for c in ("n", "max"))


def seconds(text: str) -> float:
    number = float(text)
    if not number >= 0:  # not a number, too
        raise argparse.ArgumentTypeError(f"must be at least 0; got {text}")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=positive, default=600_000)
    parser.add_argument("--sensors", type=positive, default=40)
    parser.add_argument("--files", type=positive, default=12, help="each is a batch; at most as many as rows")
    parser.add_argument("--pause", type=seconds, default=0.2, help="seconds between files")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.files > args.rows:
        parser.error(f"argument --files: must be at most --rows, {args.rows}; got {args.files}")
    print("starting a Spark of this machine ...", flush=True)
    spark = session("local[2]")
    table = sample_stream(args.rows, args.sensors, args.seed).table
    ts = pc.floor_temporal(table["ts"], unit="millisecond").cast(pa.timestamp("us", "UTC"))  # native Spark's watermark
    table = table.set_column(0, "ts", ts)
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        folder, state = base / "in", str(base / "state")
        folder.mkdir()
        print(f"{args.rows:,} readings of {args.sensors} sensors, up to 5 s out of order, arrive as {args.files} files")
        half = args.files // 2
        for numbers in (range(half), range(half, args.files)):
            if numbers.start:
                print("stopped in the middle; a new query goes on from the state on disk", flush=True)
            # native: rows are late and windows close exactly when Spark's own do
            windows = window_aggregate(source(spark, folder), SPEC, state, partitions=2, progress="native")
            query = begin(windows, base)
            threading.Thread(target=deliver, args=(table, folder, numbers, args.files, args.pause), daemon=True).start()
            follow(query, numbers.stop)
            query.stop()
        closed = named(spark.read.parquet(str(base / "out")))
        rest = named(drain(spark, SPEC, state, checkpoint=str(base / "checkpoint")))
        print(f"{len(closed):,} windows closed, {len(rest):,} more when the stream was drained")
        print("the same stream through Spark's own window() and session_window() ...", flush=True)
        print(compare(closed, rest, native_answers(spark, folder, base / "native")))
    spark.stop()


if __name__ == "__main__":
    main()
