"""``python asv_benchmarks/spark_table.py``: milliseconds a micro-batch, against Spark's own windows, in one run.

One Parquet file a batch, sink ``noop``, state written every batch, medians of the batches after the first two. Native
queries run with the HDFS-backed state store, Spark's default, and with the RocksDB one; with as many shuffle partitions
as ours, and a query for each of several windows. ``sliced`` is the best plan Spark has of a sliding window: windows of
one slide first, then the sliding window over their ``window_time``. ``--small`` has batches of 1000 rows in four
partitions, where what a batch costs whatever it holds is all that counts. A JVM compiles Spark itself during its first
hundreds of batches, which takes more than they do: there, all ways take turns and the first rounds are not counted.
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

from pyspark.sql import Column, DataFrame, SparkSession
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
Made = Callable[[DataFrame], DataFrame]
STORES = {"hdfs": "HDFSBackedStateStoreProvider", "rocksdb": "RocksDBStateStoreProvider"}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
NATIVE = {f"{store}{plan}": (store, plan) for plan in ("", " sliced") for store in STORES}
HEAD = ("rows", "files", *NATIVE)


def spec(windows: dict) -> sl.Spec:
    aggs = {"n": sl.count(), "total": sl.sum("v"), "least": sl.min("v"), "most": sl.max("v")}
    return sl.Spec("ts", windows, aggs, by=["k"], watermark=sl.bounded("5s"))


def _direct(window: Callable[[], Column]) -> Made:
    """Spark's own plan of ``window``: a row goes to each window that holds it."""
    aggs = (sf.count("*").alias("n"), sf.sum("v").alias("total"), sf.min("v").alias("least"), sf.max("v").alias("most"))
    return lambda rows: rows.groupBy(window().alias("w"), "k").agg(*aggs)


def _sliced(size: str, every: str) -> Made:
    """The plan of someone who knows slices: a row goes to one slice, and a slice to each window that holds it."""
    of_slices = _direct(lambda: sf.window("ts", every))
    aggs = (sf.sum("n").alias("n"), sf.sum("total").alias("total"), sf.min("least"), sf.max("most"))
    return lambda rows: of_slices(rows).groupBy(sf.window(sf.window_time("w"), size, every), "k").agg(*aggs)


def queries(name: str, sliced: bool) -> list[Made]:
    """The native queries that answer case ``name``; of the same windows as ``SLICED``."""
    sizes = {"a": ("10 seconds", "1 second"), "b": ("60 seconds", "1 second")}
    sliding = {
        w: _sliced(*given) if sliced else _direct(lambda given=given: sf.window("ts", *given))  # type: ignore[misc]
        for w, given in sizes.items()
    }
    tumbling = _direct(lambda: sf.window("ts", "10 seconds"))
    session = _direct(lambda: sf.session_window("ts", "100 milliseconds"))
    return {
        "tumbling 10 s": [tumbling],
        "sliding 10 s / 1 s": [sliding["a"]],
        "sliding 60 s / 1 s": [sliding["b"]],
        "four at once": [tumbling, *sliding.values(), session],
    }[name]


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


class Table:
    """The streams of one run, and what a batch takes by each way of answering."""

    def __init__(self, spark: SparkSession, base: str, rows: int, batches: int, seconds: int, partitions: int) -> None:
        self.spark, self.base, self.partitions = spark, base, partitions
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        self.folder = write(f"{base}/in", batches, rows, seconds)
        self._runs = iter(f"{base}/{n}" for n in range(1000))

    def _stream(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(self.folder)

    def floor(self) -> float:
        """A mapInArrow that only counts its rows."""
        return timed(self._stream().mapInArrow(counted, "n long"), next(self._runs))

    def ours(self, name: str, way: str) -> float:
        files = read_files(self.spark, self.folder, SCHEMA, maxFilesPerTrigger=1)
        at = next(self._runs)
        data = self._stream() if way == "rows" else files
        return timed(window_aggregate(data, spec(SLICED[name]), f"{at}/state", self.partitions), at)

    def native(self, name: str, way: str) -> float:
        store, plan = NATIVE[way]
        self.spark.conf.set(_PROVIDER, f"org.apache.spark.sql.execution.streaming.state.{STORES[store]}")
        rows = self._stream().withWatermark("ts", "5 seconds")
        return sum(timed(made(rows), next(self._runs)) for made in queries(name, bool(plan)))

    def batch_ms(self, name: str, way: str) -> float:
        return self.native(name, way) if way in NATIVE else self.ours(name, way)

    def round_robin(self, name: str, ways: list[str], rounds: int) -> dict[str, float]:
        """Medians of what each way takes in several rounds, without the first third of them."""
        taken = [{way: self.batch_ms(name, way) for way in ways} for _ in range(rounds)][rounds // 3 :]
        return {way: statistics.median(one[way] for one in taken) for way in ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="a batch")
    parser.add_argument("--batches", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=20, help="of event time a batch")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=list(SLICED), choices=list(SLICED))
    parser.add_argument("--ways", nargs="*", default=list(HEAD), choices=list(HEAD))
    parser.add_argument("--rounds", type=int, default=1, help="in which ways take turns; the first third is warming up")
    parser.add_argument("--small", action="store_true", help="batches of 1000 rows, four partitions, six rounds")
    args = parser.parse_args()
    if args.small:
        args.rounds = 6
        args.rows, args.batches, args.seconds, args.partitions, args.cases = 1000, 40, 2, 4, ["tumbling 10 s"]
    spark = session("local[2]")
    with tempfile.TemporaryDirectory() as base:
        table = Table(spark, base, args.rows, args.batches, args.seconds, args.partitions)
        table.ours(args.cases[0], "rows")  # all is loaded and compiled
        floor = table.floor()
        print(f"{args.rows:,} rows a batch; a mapInArrow that only counts them: {floor:.0f} ms")
        print(f"{'ms a batch':<20}" + "".join(f"{way:>15}" for way in args.ways) + "   native's best plan against ours")
        for name in args.cases:
            took = table.round_robin(name, args.ways, args.rounds)
            native = [took[way] for way in NATIVE if way in took]
            told = [f"{way} {min(native) / took[way]:.2f}x" for way in ("rows", "files") if way in took and native]
            told += [f"rows against counting {took['rows'] / floor:.2f}x"] if "rows" in took else []
            print(f"{name:<20}" + "".join(f"{took[w]:>15.0f}" for w in args.ways) + f"   {', '.join(told)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
