"""docs/running.md shows what happens: its Python blocks run, in order, and print what is shown below them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from test_readme import DOCS, run_blocks

from spark_udfs.local import session


def test_blocks_print_what_is_shown() -> None:
    spark = session("local[2]")
    try:
        assert run_blocks(DOCS / "running.md", {"spark": spark}) >= 6
    finally:
        spark.stop()
