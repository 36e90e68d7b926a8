"""``python tests/spark/spark_connect.py``: queries on Spark Connect, on a server that this process starts.

Needs what ``pip install 'pyspark[connect]'`` brings. A batch, a stream with its state in files, ``peek``, ``rescale``
and ``drain`` of it, and files that workers read have to give what one process answers. With ``--store`` a stream
that keeps its state in Spark's own store does, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

import slicing as sl
from spark_udfs import drain, peek, read_files, rescale, window_aggregate
from spark_udfs.in_spark import PROVIDER, ROCKSDB

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = "ts timestamp, k long, v long"
SPEC = sl.Spec(
    time="ts",
    by="k",
    windows={"ten": sl.tumbling("10s"), "visit": sl.session("500ms")},
    aggs={"n": sl.count(), "total": sl.sum("v")},
    watermark=sl.bounded("4s"),
)


def readings(batch: int, size: int = 300) -> pa.Table:
    rng = np.random.default_rng(batch)
    ts = (rng.integers(batch * 2000, (batch + 1) * 2000, size) - rng.integers(0, 400, size)) * 10_000
    columns = {"ts": pa.array(ts + 10**15, pa.timestamp("us", "UTC")), "k": rng.integers(0, 5, size)}
    return pa.table({**columns, "v": rng.integers(-100, 100, size)})


def same(what: str, found: pa.Table, expected: pa.Table) -> None:
    mine, theirs = (sorted(map(repr, t.cast(expected.schema).to_pylist())) for t in (found, expected))
    print(f"{what}: {len(theirs)} windows, {'equal' if mine == theirs else 'DIFFERENT'}", flush=True)
    if mine != theirs or not theirs:
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="store_true", help="a stream with store='spark', too")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )  # of its workers
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", PROVIDER: ROCKSDB}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    tables = [readings(batch) for batch in range(3)]
    operator = sl.Operator(SPEC)
    closed = pa.concat_tables([operator.push(table).windows for table in tables])
    left = operator.flush().windows
    with tempfile.TemporaryDirectory() as base:
        os.mkdir(f"{base}/in")
        for batch, table in enumerate(tables):
            pq.write_table(table, f"{base}/in/{batch}.parquet")
            os.utime(f"{base}/in/{batch}.parquet", (10**9 + batch, 10**9 + batch))

        def answered(name: str, data: Any, **given: Any) -> pa.Table:
            writer = window_aggregate(data, SPEC, partitions=2, **given).writeStream.format("parquet")
            writer = writer.option("path", f"{base}/{name}").option("checkpointLocation", f"{base}/checkpoint-{name}")
            writer.trigger(availableNow=True).start().awaitTermination()
            return spark.read.parquet(f"{base}/{name}").toArrow()

        def rows() -> Any:
            return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{base}/in")

        whole = window_aggregate(spark.read.parquet(f"{base}/in"), SPEC, partitions=2)
        same("batch", whole.toArrow(), sl.aggregate(pa.concat_tables(tables), SPEC))
        state, checkpoint = f"{base}/state", f"{base}/checkpoint-rows"
        same("stream", answered("rows", rows(), state=state), closed)
        same("peek", peek(spark, SPEC, state, checkpoint=checkpoint).toArrow(), left)
        rescale(spark, SPEC, state, 3, checkpoint=checkpoint)
        same("rescale and drain", drain(spark, SPEC, state, 3, checkpoint=checkpoint).toArrow(), left)
        files = read_files(spark, f"{base}/in", COLUMNS, maxFilesPerTrigger=1)
        same("read_files", answered("files", files, state=f"{base}/state-files"), closed)
        if args.store:
            same("store='spark'", answered("stored", rows(), store="spark"), closed)
    spark.stop()


if __name__ == "__main__":
    main()
