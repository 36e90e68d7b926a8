"""A kill of each kind; `python tests/spark_chaos.py --kills 200` is the long run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from spark_chaos import run


def test_nothing_is_lost_or_doubled_when_processes_are_killed() -> None:
    told = run(["executor", "worker", "driver"], seed=1, loud=False)
    assert "1 drivers, 1 executors, 1 workers" in told
    assert "0 lost, 0 extra" in told
