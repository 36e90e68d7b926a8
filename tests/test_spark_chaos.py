"""Ten kills, each kind at least once; `python tests/spark_chaos.py --kills 200` is the long run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from spark_chaos import KILLS, PROVOKED, drawn, run


def test_nothing_is_lost_or_doubled_when_processes_are_killed() -> None:
    kinds = drawn(10, seed=1)
    assert set(kinds) == {*KILLS, *PROVOKED}
    told = run(kinds, "files", seed=1, loud=False)
    assert "10 kills" in told
    assert "0 lost, 0 extra" in told
