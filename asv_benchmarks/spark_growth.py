"""``python -m asv_benchmarks.spark_growth``: milliseconds a batch as the state grows, beside Spark's own with RocksDB.

The first batches give every place so many cells, the next ones bring 1000 rows each, and close nothing. *held*: workers
keep states between batches; *cold*: they read them for each (``hold_bytes=0``); *rocksdb*: Spark's own tumbling window
with RocksDB and changelog checkpointing; *again* is its first batch after its stores were unloaded, as after a restart.
Each figure is the median of the batches, then the longest of them: ours writes a snapshot of one place or another now
and then. The worst sizes, against RocksDB, come first.

``--full`` has the sizes up to 5 M cells in 32 places: hours. ``--predict`` computes what a
load takes (``asv_benchmarks.sizing``), without Spark; ``--check`` measures six loads by hand, compares, and says how
fast a core is beside those whose costs are known (``--predict --speed``).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from asv_benchmarks.sizing import (
    BEGIN,
    CHECKED,
    MINUTE,
    Costs,
    Load,
    batch_seconds,
    compared,
    kept,
    measured,
    memory,
    predict,
    speed_of,
)

COLUMNS = "ts timestamp_ltz, k long, v double"
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
FILL = 20_000_000  # keys a batch while the state is filled
WAYS = ("held", "cold", "rocksdb", "again")


def write(folder: str, cells: int, batches: int, rows: int) -> int:
    """Files with a row of each key, then small ones of some keys, all within an hour. Returns how many the first ones
    are."""
    os.makedirs(folder)
    rng = np.random.default_rng(1)
    filling = -(-cells // FILL)
    for batch in range(filling + batches):
        keys = rng.permutation(np.arange(batch, cells, filling)) if batch < filling else rng.integers(0, cells, rows)
        ts = pa.array(np.full(keys.size, BEGIN + batch * MINUTE // 60), pa.timestamp("us", "UTC"))
        path = f"{folder}/{batch:04}.parquet"
        pq.write_table(pa.table({"ts": ts, "k": keys * 7919, "v": rng.random(keys.size)}), path)
        os.utime(path, (10**9 + batch, 10**9 + batch))
    return filling


class Growth:
    """The streams of one size, and what their batches take."""

    def __init__(self, spark: Any, base: str, cells: int, places: int, batches: int, rows: int) -> None:
        self.spark, self.base, self.places, self.folder = spark, base, places, f"{base}/in"
        self.filling = write(self.folder, cells * places, batches, rows)
        self.files = self.filling + batches
        spark.conf.set("spark.sql.shuffle.partitions", places)

    def took(self, ways: list[str]) -> dict[str, list[float]]:
        """Milliseconds of the batches after those that fill the state and one more."""
        found: dict[str, list[float]] = {}
        for way in ("held", "cold"):
            if way in ways:
                found[way] = self._run(way, lambda way=way: self._ours(way))[self.filling + 1 :]
        if {"rocksdb", "again"} & set(ways):
            found |= self._rocksdb()
        return found

    def _stream(self, count: int) -> Any:
        """The first files; ``availableNow`` takes those that are there."""
        files = sorted(os.listdir(self.folder))[:count]
        some = f"{self.folder}/{{{','.join(files)}}}"
        return self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(some)

    def _ours(self, way: str) -> Any:
        import slicing as sl
        from spark_udfs import window_aggregate

        aggs = {"n": sl.count(), "total": sl.sum("v"), "most": sl.max("v")}
        spec = sl.Spec("ts", {"w": sl.tumbling("1h")}, aggs, by=["k"], watermark=sl.bounded("1m"))
        hold = 0 if way == "cold" else 1 << 33
        state = f"{self.base}/{way}/state"
        return window_aggregate(self._stream(self.files), spec, state, self.places, hold_bytes=hold)

    def _native(self, count: int) -> Any:
        from pyspark.sql import functions as sf

        held = self._stream(count).withWatermark("ts", "1 minute").groupBy(sf.window("ts", "1 hour"), "k")
        return held.agg(sf.count("*"), sf.sum("v"), sf.max("v"))

    def _rocksdb(self) -> dict[str, list[float]]:
        for name, value in ROCKSDB.items():
            self.spark.conf.set(name, value)
        took = self._run("rocksdb", lambda: self._native(self.files - 1))
        self.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        again = self._run("rocksdb", lambda: self._native(self.files))
        for name in ROCKSDB:
            self.spark.conf.unset(name)
        return {"rocksdb": took[self.filling + 1 :], "again": again[:1]}

    def _run(self, way: str, frame: Callable[[], Any]) -> list[float]:
        writer = frame().writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", f"{self.base}/{way}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        return [float(p.durationMs["triggerExecution"]) for p in query.recentProgress if p.numInputRows]


def table(sizes: list[tuple[int, int]], ways: list[str], batches: int, rows: int, master: str) -> None:
    from spark_udfs.local import session

    spark = session(master, **{"spark.sql.streaming.numRecentProgressUpdates": 1000, "spark.driver.memory": "6g"})
    with tempfile.TemporaryDirectory() as base:  # a JVM compiles Spark itself while it runs the first batches
        Growth(spark, base, 1000, 2, batches, rows).took(ways)
    lines = []
    for cells, places in sizes:
        with tempfile.TemporaryDirectory() as base:
            took = Growth(spark, base, cells, places, batches, rows).took(ways)
        told = {way: (statistics.median(took[way]), max(took[way])) for way in WAYS if took.get(way)}
        native = told.get("rocksdb", (0.0, 0.0))[0]
        worst = max((told[way][0] / native for way in ("held", "cold") if way in told and native), default=0.0)
        lines.append((worst, cells, places, told))
        print(line(*lines[-1]), file=sys.stderr, flush=True)
    spark.stop()
    print(f"milliseconds a batch of {rows:,} rows, {master}: median / longest")
    print(f"{'cells a place':>14}{'places':>8}" + "".join(f"{way:>16}" for way in WAYS) + "   worse / RocksDB")
    for found in sorted(lines, reverse=True, key=lambda found: found[:3]):
        print(line(*found))


def line(worst: float, cells: int, places: int, told: dict[str, tuple[float, float]]) -> str:
    figures = (f"{told[way][0]:.0f} / {told[way][1]:.0f}" if way in told else "" for way in WAYS)
    return f"{cells:>14,}{places:>8}" + "".join(f"{figure:>16}" for figure in figures) + f"{worst:>16.2f}x"


def told_of(load: Load, cores: int, speed: float) -> str:
    """A load's sizes, a line each."""
    costs = Costs().at(speed)
    sizes = predict(load, costs)
    figures = {
        "live cells": f"{load.cells:,.0f}",
        "rows a batch": f"{load.rows:,.0f}",
        "partial slices sent": f"{load.partials:,.0f}",
        "bytes shuffled": f"{sizes.shuffled / 1e6:,.1f} MB a batch",
        "windows given": f"{load.windows:,.0f} a batch",
        "CPU of readers": f"{sizes.readers:,.2f} s a batch",
        "CPU of places": f"{sizes.places:,.2f} s a batch",
        "state on disk": f"{sizes.state / 1e9:,.3f} GB a version",
        "files of 100 versions": f"{kept(load) / 1e9:,.2f} GB",
        "state in memory": f"{memory(load) / 1e9:,.3f} GB, {memory(load) / load.places / 1e6:,.0f} MB a place",
        "time of a batch": f"{batch_seconds(load, cores, costs=costs):,.2f} s on {cores} cores, of {load.seconds:g} s",
    }
    return "\n".join(f"{name:<22}{figure:>40}" for name, figure in figures.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="*", type=float, default=[1e4, 1e5], help="a place")
    parser.add_argument("--places", nargs="*", type=int, default=[2, 8])
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000, help="a batch, after the first")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--predict", action="store_true", help="what a load takes: --keys, --rate, ...")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--speed", type=float, default=1.0, help="of a core, as --check says")
    for field in fields(Load):
        if field.name != "places":
            kind = int if field.type == "int" else float
            parser.add_argument(f"--{field.name}", type=kind, default=getattr(CHECKED[0], field.name))
    args = parser.parse_args()
    if args.predict:
        given = {f.name: getattr(args, f.name) for f in fields(Load) if f.name != "places"}
        print(told_of(Load(**given, places=args.places[0]), args.cores, args.speed))
    elif args.check:
        found = [(load, measured(load)) for load in CHECKED]
        speed = speed_of(found)
        print(f"a core of this machine is {speed:.2f} times as fast as one of docs/sizing.md (--speed {speed:.2f})")
        for load, was in found:
            print(compared(load, was, speed))
    else:
        if args.full:
            args.cells, args.places = [1e4, 1e5, 1e6, 5e6], [2, 8, 32]
        sizes = [(int(cells), places) for cells in args.cells for places in args.places]
        table(sizes, args.ways, args.batches, args.rows, args.master)


if __name__ == "__main__":
    main()
