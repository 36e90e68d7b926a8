"""docs/running.md shows what happens: its Python blocks run, in order, and print what is shown below them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession, functions
from test_readme import DOCS, run_blocks

from spark_udfs.local import session
from website import coming


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]")
    yield spark
    spark.stop()


def test_blocks_print_what_is_shown(spark: SparkSession) -> None:
    assert run_blocks(DOCS / "running.md", {"spark": spark}) >= 6


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
