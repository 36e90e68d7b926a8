"""``store="spark"`` on a real Spark; ``test_spark_state.py`` has the functions of its workers, driven by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")  # of PySpark's transformWithState

from pyspark.sql import GroupedData, SparkSession
from test_spark import SPEC, plain_rows, pushed, readings, run, stream, write

from spark_udfs import window_aggregate
from spark_udfs.in_spark import PROVIDER, ROCKSDB
from spark_udfs.local import session

if not hasattr(GroupedData, "transformWithState"):
    pytest.skip("Spark has transformWithState since 4.1", allow_module_level=True)

CHECKED = "org.apache.hadoop.fs.LocalFileSystem"  # RocksDB takes no other one


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.codegen.wholeStage": "false"}
    file = {"spark.hadoop.fs.file.impl": CHECKED, "spark.hadoop.fs.file.impl.disable.cache": "true"}
    running = session("local[2]", **conf, **file, **{PROVIDER: ROCKSDB})
    yield running
    running.stop()


def test_a_restarted_query_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    tables = list(map(readings, range(3)))
    for first, last in ((0, 2), (2, 3)):
        folder = write(tmp_path / "in", tables[first:last], first)
        run(window_aggregate(stream(spark, folder), SPEC, partitions=3, store="spark"), tmp_path)
    assert plain_rows(spark.read.parquet(str(tmp_path / "out"))) == pushed(SPEC, tables)[0] != []
