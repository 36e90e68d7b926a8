"""Four random queries against Spark's own windows; `python tests/spark/spark_random.py --queries 50` is longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from spark_random import check, drawn, started


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = started()
    yield running
    running.stop()


@pytest.mark.parametrize("seed", [1006, 1061])
def test_a_random_query_is_answered_as_spark_answers_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert check(spark, drawn(seed), tmp_path) > 50
