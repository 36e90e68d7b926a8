"""Queries behind queries on Spark: changes that the next one takes back (``op=``), parts that are rolled up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from quick_spark import WARM

import slicing as sl

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from spark_udfs import window_aggregate
from spark_udfs.local import session

SECOND = 1_000_000
NOW = 1_790_000_040 * SECOND  # a whole minute
AGGS = {"n": sl.count(), "total": sl.sum("v"), "most": sl.max("v")}
CORRECTED: dict[str, Any] = {"by": "k", "watermark": sl.bounded("2s"), "allowed_lateness": "40s"}
CHANGES = sl.Spec("ts", {"ten": sl.tumbling("10s")}, AGGS, emit="changes", **CORRECTED)
PARTS = sl.Spec("ts", {"ten": sl.tumbling("10s")}, AGGS, emit="parts", trigger=sl.each_push(), **CORRECTED)
AGAIN = {"n": sl.sum("n"), "total": sl.sum("total"), "most": sl.max("most")}
BEHIND = sl.Spec(
    "window_start", {"changes": sl.tumbling("1m")}, AGAIN, by="k", op="op", watermark=sl.bounded("1m")
)  # fmt: skip
LARGER = sl.rollup_spec(PARTS, {"parts": sl.tumbling("1m")}, watermark=sl.bounded("1m"))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    running = session(
        "local[2]", **WARM, **{"spark.driver.extraJavaOptions": java, "spark.sql.codegen.wholeStage": "false"}
    )
    yield running
    running.stop()


def readings(batch: int, size: int = 80) -> pa.Table:
    """Half a minute; a fifth of it is up to 40 seconds behind, so that windows are corrected."""
    rng = np.random.default_rng(batch)
    behind = np.where(rng.random(size) < 0.2, rng.integers(0, 40 * SECOND, size), 0)
    times = NOW + batch * 30 * SECOND + rng.integers(0, 30 * SECOND, size) - behind
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(rng.choice(["a", "b"], size))}
    return pa.table({**columns, "v": rng.integers(-(2**60), 2**60, size)})


def in_order(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=repr)


def test_streams_of_changes_and_of_parts_give_what_operators_behind_each_other_give(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = [readings(batch) for batch in range(5)]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (10**9 + number, 10**9 + number))
    source = spark.readStream.schema("ts timestamp_ltz, k string, v long").option("maxFilesPerTrigger", 1)
    found, wanted = [], []
    for first, second in ((CHANGES, BEHIND), (PARTS, LARGER)):
        frame = source.parquet(str(folder))
        for name, spec in (("first", first), ("second", second)):
            state = str(tmp_path / f"state-{first.emit}")
            frame = window_aggregate(frame, spec, state, partitions=2, name=f"{name}_{first.emit}")
        found.append(frame)
        one, other = sl.Operator(first), sl.Operator(second)
        wanted += [other.push(one.push(table).windows).windows for table in tables]
    both = found[0].unionByName(found[1])
    both.writeStream.format("memory").queryName("both").trigger(availableNow=True).start().awaitTermination()
    assert in_order(spark.table("both").toArrow()) == in_order(pa.concat_tables(wanted))
    assert {row["window"] for table in wanted for row in table.to_pylist()} == {"changes", "parts"}


def test_batches_of_changes_and_of_parts(spark: SparkSession) -> None:
    """The second query sees rows taken back, out of order; what is left is what the rows themselves give."""
    rows = pa.concat_tables([readings(batch) for batch in range(4)])
    minutes = sl.aggregate(rows, sl.Spec("ts", {"w": sl.tumbling("1m")}, AGGS, by="k"))
    for first, second in ((CHANGES, BEHIND), (PARTS, LARGER)):
        operator = sl.Operator(first)
        outs = [operator.push(readings(batch)).windows for batch in range(4)]
        parts = pa.concat_tables([*outs, operator.flush().windows])
        answered = window_aggregate(spark.createDataFrame(parts).repartition(3), second, partitions=2)
        found = answered.drop("window").toArrow()
        assert in_order(found) == in_order(minutes.drop(["window"]))
