"""``python tests/spark/spark_backfill.py``: features of tables larger than what a Python worker may have.

One place has all rows, and its worker an address space (``spark.executor.pyspark.memory``) smaller than these, of which
libraries take two thirds: in pieces the answers are right, as one piece they are refused for want of memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# others reserve address space in advance, and count against the limit before they are used
os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import slicing as sl
from spark_udfs import window_features
from spark_udfs.local import session

KEYS = 1000
SPEC = sl.FeatureSpec("k", "t", {"near": 5 * KEYS, "ever": None}, {"n": sl.count(), "total": sl.sum("v")})


def answers(spark: SparkSession, events: int, pieces: int) -> tuple[int, ...]:
    """How many labels there are, and the sums of what they are told; a label for ten events, an event a tick."""
    row = sf.col("id").alias("t"), (sf.col("id") % KEYS).alias("k")
    labels = spark.range(events).where(sf.col("id") % 10 == 3).select(*row)
    happened = spark.range(events).select(*row, sf.lit(2).cast("long").alias("v"))
    found = window_features(labels, happened, SPEC, partitions=1, pieces=pieces)
    (told,) = found.agg(sf.count("*"), *map(sf.sum, ("n_near", "total_near", "n_ever", "total_ever"))).collect()
    return tuple(map(int, told))


def expected(events: int) -> tuple[int, ...]:
    """An event of a label's key is at each ``KEYS`` ticks before it."""
    before = [t // KEYS for t in range(3, events, 10)]
    near = sum(min(5, n) for n in before)
    return len(before), near, 2 * near, sum(before), 2 * sum(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=32_000_000)
    parser.add_argument("--pieces", type=int, default=64)
    parser.add_argument("--limit", type=int, default=750, help="MB of address space of a worker")
    args = parser.parse_args()
    limits = {"spark.executor.pyspark.memory": f"{args.limit}m", "spark.sql.execution.arrow.maxBytesPerBatch": "16m"}
    spark = session("local[1]", **limits)
    size = args.events * (24 + 16 / 10) / 1e6
    print(f"{args.events:,} events and their labels in one place, {size:.0f} MB; a worker may have {args.limit} MB")
    begun = time.perf_counter()
    right = answers(spark, args.events, args.pieces) == expected(args.events)
    print(f"in {args.pieces} pieces: {'right' if right else 'WRONG'}, {time.perf_counter() - begun:.0f} s", flush=True)
    try:
        answers(spark, args.events, 1)
        refused = False
    except PySparkException as error:
        refused = "MemoryError" in str(error) or "malloc" in str(error)
    print(f"as one piece: {'no memory' if refused else 'answered: give more events, or a smaller limit'}")
    spark.stop()
    return 0 if right and refused else 1


if __name__ == "__main__":
    sys.exit(main())
