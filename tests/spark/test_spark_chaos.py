"""Kills of every kind, other injections, a join too; `python tests/spark/spark_chaos.py --kills 200` is longer."""

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


def test_a_join_of_two_streams_loses_nothing_either() -> None:
    kinds = ["worker after its state", "worker", "driver before its commit", "worker after its state", "worker"]
    told = run([*kinds, "worker after its state", "twin task"], "files", seed=3, loud=False, query="join")
    assert "6 kills, 1 other injections" in told
    assert "0 lost, 0 extra" in told


def test_what_operators_and_sinks_do_to_a_query_loses_nothing() -> None:
    told = run(OF_FOREACH, "foreachBatch", seed=2, loud=False)
    assert f"{len(OF_FOREACH)} other injections" in told
    assert "0 lost, 0 extra" in told
