"""``python -m asv_benchmarks.spark_joins``: joins and features on Spark, beside Spark's own plans for them, in one run.

Seconds of a batch query from Parquet files to the sink ``noop``, and CPU seconds of all processes (which a busy machine
changes less): the least of some rounds in which all ways take turns, after a first one that is not counted. All ways
give the same rows. Spark's own are a join as one writes it, one by buckets of time (each left row in the two that its
band reaches; sorted or hashed), and windows over the union of labels and events.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

import slicing as sl
from spark_udfs import window_features, window_join
from spark_udfs.local import session

SECOND = 10**6
BEGIN = 1_700_000_000 * SECOND
SPAN = 1000 * SECOND
RANGES = {"a": 50 * SECOND, "b": 250 * SECOND, "c": 1000 * SECOND}
SIDES = {"left": ("a_id", "a"), "right": ("b_id", "b"), "labels": ("a_id", "a"), "events": ("b_id", "b")}
MANY = 10_000  # keys

Ways = Mapping[str, Callable[[], DataFrame]]


@dataclass(frozen=True)
class Input:
    """Files of both sides, ``SPAN`` of time in order; ``band``: right rows up to so much after a left one."""

    spark: SparkSession
    base: str
    rows: int
    keys: int
    band: int
    partitions: int

    def frame(self, side: str, rows: int | None = None) -> DataFrame:
        return self.spark.read.parquet(self._written(side, self.rows if rows is None else rows))

    def _written(self, side: str, rows: int) -> str:
        """A folder with a file for each partition: of one file Spark would give a task three quarters."""
        path = f"{self.base}/{side}-{rows}-{self.keys}"
        if os.path.exists(path):
            return path
        os.mkdir(path)
        rng = np.random.default_rng([len(side), rows])
        times = BEGIN + np.sort(rng.integers(0, SPAN, rows))
        number, value = SIDES[side]
        table = pa.table(
            {
                "k": rng.integers(0, self.keys, rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                number: np.arange(rows),
                value: rng.integers(0, 1000, rows),
            }
        )
        size = -(-rows // self.partitions)
        for number in range(self.partitions):
            pq.write_table(table.slice(number * size, size), f"{path}/{number}.parquet")
        return path


# --- band joins ------------------------------------------------------------------------------------------------------


def band_joins(data: Input) -> Ways:
    """The pairs of two batch tables."""
    spec = sl.JoinSpec("k", "ts", ("0s", f"{data.band}us"), how="inner")

    def ours() -> DataFrame:
        found = window_join(data.frame("left"), data.frame("right"), spec, partitions=data.partitions, pieces=1)
        return found.select("a_id", "b_id", "a", "b")

    def sides() -> tuple[DataFrame, DataFrame]:
        micros = sf.unix_micros("ts")
        left = data.frame("left").withColumn("t", micros).drop("ts")
        return left, data.frame("right").withColumn("u", micros).drop("ts").withColumnRenamed("k", "q")

    def near(bucketed: bool = False) -> Column:
        held = (sf.col("k") == sf.col("q")) & sf.col("u").between(sf.col("t"), sf.col("t") + data.band)
        return held & (sf.col("bucket") == sf.col("other")) if bucketed else held

    def written() -> DataFrame:
        left, right = sides()
        return left.join(right, near()).select("a_id", "b_id", "a", "b")

    def buckets(by: str = "merge") -> DataFrame:
        left, right = sides()
        bucket = sf.floor(sf.col("t") / data.band)
        left = left.withColumn("bucket", sf.explode(sf.array(bucket, bucket + 1)))
        right = right.withColumn("other", sf.floor(sf.col("u") / data.band)).hint(by)
        return left.join(right, near(bucketed=True)).select("a_id", "b_id", "a", "b")

    ways = {"slicing": ours, "spark, by buckets": buckets}
    ways["spark, by buckets, hashed"] = partial(buckets, "shuffle_hash")
    return ways | ({"spark, as written": written} if data.keys >= MANY else {})  # else it looks at all pairs of a key


# --- features --------------------------------------------------------------------------------------------------------


def features(data: Input) -> Ways:
    """Count, sum, least and most of three ranges before each label; a label for ten events."""
    spec = sl.FeatureSpec(
        "k",
        "ts",
        {name: f"{span}us" for name, span in RANGES.items()},
        {"n": sl.count(), "total": sl.sum("b"), "low": sl.min("b"), "high": sl.max("b")},
    )
    names = ["a_id", *(f"{agg}_{name}" for name in RANGES for agg in ("n", "total", "low", "high"))]

    def sides() -> tuple[DataFrame, DataFrame]:
        micros = sf.unix_micros("ts")
        labels = data.frame("labels", data.rows // 10).withColumn("t", micros).select("k", "t", "a_id")
        return labels, data.frame("events").withColumn("u", micros).select(sf.col("k").alias("q"), "u", "b")

    def ours() -> DataFrame:
        tables = data.frame("labels", data.rows // 10), data.frame("events")
        return window_features(*tables, spec, partitions=data.partitions, pieces=1).select(names)

    def held() -> Column:
        before = (sf.col("k") == sf.col("q")) & (sf.col("u") < sf.col("t"))
        return before & (sf.col("u") >= sf.col("t") - max(RANGES.values()))

    def aggregates() -> list[Column]:
        found = []
        for name, span in RANGES.items():
            value = sf.when(sf.col("u") >= sf.col("t") - span, sf.col("b"))
            found += [sf.count(value).alias(f"n_{name}"), sf.sum(value).alias(f"total_{name}")]
            found += [sf.min(value).alias(f"low_{name}"), sf.max(value).alias(f"high_{name}")]
        return found

    def grouped() -> DataFrame:
        labels, events = sides()
        events = events.hint("merge")  # near the size of a broadcast, which takes three times as long; so do hashes
        return labels.join(events, held(), "left").groupBy("a_id", "k", "t").agg(*aggregates()).select(names)

    def broadcast() -> DataFrame:
        labels, events = sides()
        found = events.join(sf.broadcast(labels), held()).groupBy("a_id").agg(*aggregates())
        none = {name: 0 for name in names if name.startswith("n_")}
        return labels.select("a_id").join(found, "a_id", "left").fillna(none).select(names)

    def windowed() -> DataFrame:
        labels, events = sides()
        asked = labels.select("k", "t", "a_id", sf.lit(None).cast("long").alias("b"))
        told = events.select(
            sf.col("q").alias("k"), sf.col("u").alias("t"), sf.lit(None).cast("long").alias("a_id"), "b"
        )
        found = []
        for name, span in RANGES.items():
            frame = Window.partitionBy("k").orderBy("t").rangeBetween(-span, -1)
            for agg, made in (("n", sf.count), ("total", sf.sum), ("low", sf.min), ("high", sf.max)):
                found.append(made("b").over(frame).alias(f"{agg}_{name}"))
        return asked.unionByName(told).select("a_id", *found).where("a_id is not null").select(names)

    ways = {"slicing": ours, "spark, range join and group by": grouped, "spark, the same, labels broadcast": broadcast}
    return ways | {"spark, windows over the union": windowed}


# --- the table -------------------------------------------------------------------------------------------------------


class Disagreement(Exception):
    """A way that gives another answer."""


def told(frame: DataFrame) -> tuple[int, ...]:
    """What is the same for all ways: how many rows, and the sum of each column times the number of the left row."""
    sums = [sf.sum(sf.col(name) * (sf.col("a_id") % 1000)) for name in frame.columns]
    (row,) = frame.agg(sf.count("*"), *sums).collect()
    return tuple(0 if word is None else int(word) for word in row)


def agreed(ways: Ways) -> None:
    found = {name: told(make()) for name, make in ways.items()}
    first = next(iter(found))
    for name, answer in found.items():
        if answer != found[first]:
            raise Disagreement(f"{name} gives {answer}, {first} {found[first]}")


class Took(NamedTuple):
    """What a batch query takes."""

    seconds: float
    cpu: float


def busy() -> float:
    """CPU seconds of this process and of all that come from it; of those that have ended, with who started them."""
    parents, ticks = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
            parents[pid], ticks[pid] = words[1], sum(map(int, words[11:15]))
    mine = {str(os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


def once(frame: DataFrame) -> Took:
    """A batch query."""
    start, used = time.perf_counter(), busy()
    frame.write.format("noop").mode("overwrite").save()
    return Took(time.perf_counter() - start, busy() - used)


def round_robin(ways: Ways, rounds: int) -> dict[str, Took]:
    """The least of what each way takes in so many rounds, after one that is not counted."""
    taken = [{name: once(make()) for name, make in ways.items()} for _ in range(rounds + 1)][1:]
    return {name: Took(*map(min, zip(*(one[name] for one in taken), strict=True))) for name in ways}


def shown(title: str, rows: int, took: Mapping[str, Took]) -> Iterable[str]:
    best = Took(*map(min, zip(*(each for name, each in took.items() if name != "slicing"), strict=True)))
    yield f"\n{title}\n  {'':34}{'seconds':>10}{'M rows/s':>10}{'of the best':>13}{'CPU s':>8}{'of the best':>13}"
    for name, (seconds, cpu) in sorted(took.items(), key=lambda item: item[1]):
        ratios = f"{best.seconds / seconds:13.2f}{cpu:8.2f}{best.cpu / cpu:13.2f}"
        yield f"  {name:34}{seconds:10.2f}{rows / seconds / 1e6:10.2f}{ratios}"


CASES = {
    "band join 3 s, 1000 keys": (1000, 3 * SECOND, band_joins),
    "band join 300 s, 100 k keys": (100_000, 300 * SECOND, band_joins),
    "features, 1 label for 10 events, 1000 keys": (1000, 0, features),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="a side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a title")
    parser.add_argument("--without", default="nothing", help="part of the name of a way that is left out")
    args = parser.parse_args()
    spark = session("local[2]", **{"spark.sql.shuffle.partitions": args.partitions, "spark.driver.memory": "4g"})
    print(f"{args.rows:,} rows a side, local[2], {args.partitions} partitions, least of {args.rounds}")
    with tempfile.TemporaryDirectory() as base:
        for title, (keys, band, make) in CASES.items():
            if args.only not in title:
                continue
            ways = make(Input(spark, base, args.rows, keys, band, args.partitions))
            ways = {name: way for name, way in ways.items() if args.without not in name}
            agreed(ways)
            rows = args.rows + (args.rows // 10 if make is features else args.rows)
            print("\n".join(shown(title, rows, round_robin(ways, args.rounds))), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
