"""docs/running.md shows what happens: its Python blocks run, in order, and print what is shown below them. Queries of
docs/spark.md and README.md are planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import GroupedData, SparkSession, functions
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
    "topic_df": "value binary",
}
KAFKA = re.compile(r"spark\.readStream\.format\(.kafka.\).*\.load\(\)")
WRITTEN = re.compile(r"^(?:windows\.writeStream|features\.write)\..*\n", re.MULTILINE)
IN_SPARK = hasattr(GroupedData, "transformWithState") and all(map(find_spec, ("google", "google.protobuf")))
WINDOWS = ["window", "window_start", "window_end", "sensor", "n", "total"]
JOINED = ["ad", "shown_at", "place", "clicked_at"]
FEATURES = ["user", "asked_at", "n_1h", "spent_1h", "n_7d", "spent_7d"]


def test_queries_of_spark_md_and_readme_are_planned(spark: SparkSession, tmp_path: Path) -> None:
    """Up to where results are written; Kafka's rows come from files."""
    known: dict[str, Any] = {"spark": spark}
    for name, schema in SOURCES.items():
        (tmp_path / name).mkdir()
        known[name] = spark.readStream.schema(schema).parquet(str(tmp_path / name))
    known["labels"] = spark.createDataFrame([], "user string, asked_at timestamp")
    known["sales"] = spark.createDataFrame([], "user string, ts timestamp, paid double")
    planned = []
    for page in (DOCS / "spark.md", DOCS.parent / "README.md"):
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language != "python" or (page.stem == "README" and "spark_udfs" not in block):
                continue
            if 'store="spark"' in block and not IN_SPARK:
                continue
            code = (
                KAFKA.sub("topic_df", WRITTEN.sub("", block)).replace('"hdfs://', '"').replace('="/', f'="{tmp_path}/')
            )
            names = dict(known)
            exec(code, names)
            for name in ("sl", "spec", "window_aggregate"):  # those of the first block
                known.setdefault(name, names[name])
            planned += [names[name].columns for name in ("windows", "joined", "features") if name in names]
    assert planned == [WINDOWS, *([WINDOWS] if IN_SPARK else []), JOINED, FEATURES, WINDOWS, WINDOWS]


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
