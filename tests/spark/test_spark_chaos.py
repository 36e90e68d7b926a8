"""A kill of every kind, other injections, a join too; `python tests/spark/spark_chaos.py --kills 200` is longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from spark_chaos import KILLS, OF_FOREACH, PROVOKED, archive, run


@pytest.fixture(scope="module")
def classes(shared_folder: Path) -> str:
    return archive(shared_folder)


def test_nothing_is_lost_or_doubled_when_processes_are_killed(classes: str) -> None:
    kinds = [*KILLS, *PROVOKED]
    random.Random(1).shuffle(kinds)
    told = run(kinds, "files", seed=1, loud=False, classes=classes, executors=1)
    assert f"{len(KILLS)} kills, {len(PROVOKED)} other injections" in told
    assert "0 lost, 0 extra" in told


def test_a_join_of_two_streams_loses_nothing_either(classes: str) -> None:
    kinds = ["worker after its state", "twin task", "driver before its commit"]
    told = run(kinds, "files", seed=15, loud=False, query="join", classes=classes, executors=0)
    assert "2 kills, 1 other injections" in told
    assert "0 lost, 0 extra" in told


def test_what_operators_and_sinks_do_to_a_query_loses_nothing(classes: str) -> None:
    told = run(OF_FOREACH, "foreachBatch", seed=2, loud=False, classes=classes, executors=0)
    assert f"{len(OF_FOREACH)} other injections" in told
    assert "0 lost, 0 extra" in told
