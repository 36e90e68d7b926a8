"""Ten kills of every kind and five other injections; `python tests/spark_chaos.py --kills 200` is the long run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from spark_chaos import KILLS, OF_FOREACH, PROVOKED, drawn, run


def test_nothing_is_lost_or_doubled_when_processes_are_killed() -> None:
    kinds = drawn(10, seed=1, sink="files")
    assert set(kinds) == {*KILLS, *PROVOKED}
    told = run(kinds, "files", seed=1, loud=False)
    assert "10 kills, 5 other injections" in told
    assert "0 lost, 0 extra" in told


def test_what_operators_and_sinks_do_to_a_query_loses_nothing() -> None:
    told = run([*OF_FOREACH, "deleted commit"], "foreachBatch", seed=2, loud=False)
    assert "5 other injections" in told
    assert "0 lost, 0 extra" in told
