"""docs/running.md shows what happens: its Python blocks run, in order, and print what is shown below them. Queries of
docs/spark.md are planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession, functions
from test_readme import BLOCK, DOCS, run_blocks

from spark_udfs.local import session
from website import coming


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]")
    yield spark
    spark.stop()


def test_blocks_print_what_is_shown(spark: SparkSession) -> None:
    assert run_blocks(DOCS / "running.md", {"spark": spark}) >= 6


SOURCES = {
    "stream_df": "ts timestamp, sensor string, value double",
    "shown": "ad string, shown_at timestamp, place string",
    "clicks": "ad string, clicked_at timestamp",
}


def test_queries_of_spark_md_are_planned(spark: SparkSession, tmp_path: Path) -> None:
    """Those without Kafka, up to where results are written."""
    names: dict[str, Any] = {"spark": spark}
    for name, schema in SOURCES.items():
        (tmp_path / name).mkdir()
        names[name] = spark.readStream.schema(schema).parquet(str(tmp_path / name))
    names["labels"] = spark.createDataFrame([], "user string, asked_at timestamp")
    names["sales"] = spark.createDataFrame([], "user string, ts timestamp, paid double")
    planned = 0
    for language, block in BLOCK.findall((DOCS / "spark.md").read_text(encoding="utf-8")):
        if language == "python" and "kafka" not in block and "change(" not in block:
            code = re.sub(r"^windows\.writeStream.*\n", "", block, flags=re.MULTILINE).replace("hdfs://", str(tmp_path))
            code = re.sub(r"^(window_features.*)\.write\.parquet.*$", r"features = \1", code, flags=re.MULTILINE)
            exec(code, names)
            planned += 1
    assert planned == 3
    assert names["windows"].columns == ["window", "window_start", "window_end", "sensor", "n", "total"]
    assert names["joined"].isStreaming and "clicked_at" in names["joined"].columns
    assert names["features"].columns == ["user", "asked_at", "n_1h", "spent_1h", "n_7d", "spent_7d"]


def test_calls_of_spark_give_the_same_as_ours(spark: SparkSession) -> None:
    """Those of the site's page for people who come from Spark."""
    pytest.importorskip("duckdb")
    names: dict[str, Any] = {"F": functions}
    exec(coming.DATA, names)
    names["events"] = spark.createDataFrame(names["table"].to_pylist())
    pairs = [pair for pair in coming.SPARK if pair.values is not None]
    assert len(pairs) >= 4
    for pair in pairs:
        coming.compared(pair, names)
