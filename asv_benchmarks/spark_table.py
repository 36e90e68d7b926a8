"""``python asv_benchmarks/spark_table.py``: milliseconds a micro-batch, against Spark's own windows, in one run.

One Parquet file a batch, sink ``noop``, states written every batch, medians of the batches after the first two. Native
queries use the HDFS-backed state store, Spark's default.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import slicing as sl
from spark_udfs import read_files, window_aggregate
from spark_udfs.local import session

SCHEMA = "ts timestamp_ltz, k long, v long"
SLICED = {
    "tumbling 10 s": {"w": sl.tumbling("10s")},
    "sliding 10 s / 1 s": {"w": sl.sliding("10s", every="1s")},
    "sliding 60 s / 1 s": {"w": sl.sliding("60s", every="1s")},
    "four at once": {
        "t": sl.tumbling("10s"),
        "a": sl.sliding("10s", every="1s"),
        "b": sl.sliding("60s", every="1s"),
        "s": sl.session("100ms"),
    },
}
NATIVE: dict[str, list[Callable[[], object]]] = {
    "tumbling 10 s": [lambda: sf.window("ts", "10 seconds")],
    "sliding 10 s / 1 s": [lambda: sf.window("ts", "10 seconds", "1 second")],
    "sliding 60 s / 1 s": [lambda: sf.window("ts", "60 seconds", "1 second")],
}
NATIVE["four at once"] = [made for one in list(NATIVE.values()) for made in one]
NATIVE["four at once"].append(lambda: sf.session_window("ts", "100 milliseconds"))


def spec(windows: dict) -> sl.Spec:
    aggs = {"n": sl.count(), "total": sl.sum("v"), "least": sl.min("v"), "most": sl.max("v")}
    return sl.Spec("ts", windows, aggs, by=["k"], watermark=sl.bounded("5s"))


def write(folder: str, batches: int, rows: int, seconds: int) -> str:
    """``seconds`` of event time a file, up to 5 s out of order, 1000 keys."""
    os.makedirs(folder)
    rng = np.random.default_rng(1)
    for b in range(batches):
        ts = np.sort(rng.integers(b * seconds * 10**6, (b + 1) * seconds * 10**6, rows)) - rng.integers(
            0, 5 * 10**6, rows
        )
        table = pa.table(
            {
                "ts": pa.array(ts + 10**15, pa.timestamp("us", "UTC")),
                "k": rng.integers(0, 1000, rows),
                "v": rng.integers(0, 100, rows),
            }
        )
        path = f"{folder}/{b:04}.parquet"
        pq.write_table(table, path, row_group_size=max(rows // 8, 1))
        os.utime(path, (10**9 + b, 10**9 + b))
    return folder


def timed(frame: DataFrame, base: str) -> float:
    """Median milliseconds of a batch."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", f"{base}/checkpoint").outputMode("append")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    taken = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
    return statistics.median(taken[2:] or taken)


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"n": pa.array([rows])})


def native(frame: DataFrame, window: object) -> DataFrame:
    held = frame.withWatermark("ts", "5 seconds").groupBy(window, "k")  # type: ignore[arg-type]
    return held.agg(sf.count("*"), sf.sum("v"), sf.min("v"), sf.max("v"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="a batch")
    parser.add_argument("--batches", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=20, help="of event time a batch")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=list(SLICED), choices=list(SLICED))
    args = parser.parse_args()
    spark = session(f"local[{args.partitions}]", **{"spark.sql.shuffle.partitions": args.partitions})
    with tempfile.TemporaryDirectory() as base:
        folder = write(f"{base}/in", args.batches, args.rows, args.seconds)

        def stream() -> DataFrame:
            return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)

        def files(spark: SparkSession) -> object:
            return read_files(spark, folder, SCHEMA, maxFilesPerTrigger=1)

        run = iter(f"{base}/{n}" for n in range(1000))
        floor = timed(stream().mapInArrow(counted, "n long"), next(run))
        print(f"{args.rows:,} rows a batch; a mapInArrow that only counts them: {floor:.0f} ms")
        print(f"{'':<22}{'rows':>8}{'files':>8}{'native':>9}   rows / files against native, rows against counting")
        for name in args.cases:
            mine = spec(SLICED[name])
            rows, read = (
                timed(window_aggregate(data, mine, f"{(at := next(run))}/state", args.partitions), at)  # type: ignore[arg-type]
                for data in (stream(), files(spark))
            )
            theirs = sum(timed(native(stream(), made()), next(run)) for made in NATIVE[name])
            ratios = f"{theirs / rows:.2f}x / {theirs / read:.2f}x, {rows / floor:.2f}x"
            print(f"{name:<22}{rows:>8.0f}{read:>8.0f}{theirs:>9.0f}   {ratios}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
