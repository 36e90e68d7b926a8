"""What docs/sizing.md computes: bytes against a run by hand; the rest is sane."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("asv_benchmarks")  # the benchmarks are not part of every distribution

from asv_benchmarks import sizing
from asv_benchmarks.sizing import Costs, Load, Sizes, batch_seconds, memory, predict, speed_of

ROOT = Path(__file__).parents[2]
SMALL = Load(2000, 400, 4, 2, 2, seconds=30)


def test_bytes_are_within_a_quarter_of_what_a_run_sends_and_writes() -> None:
    was, said = sizing.measured(SMALL, 4), predict(SMALL)
    assert said.shuffled == pytest.approx(was.shuffled, rel=0.25)
    assert said.state == pytest.approx(was.state, rel=0.25)
    assert said.windows == pytest.approx(was.windows, rel=0.25)
    assert 0 < said.cpu < 10 * was.cpu


def test_the_times_of_the_spark_page_are_met_within_a_quarter() -> None:
    for load, files, seconds in sizing.TIMED:
        assert batch_seconds(load, 2, files) == pytest.approx(seconds, rel=0.25)


def test_the_speed_of_a_core_is_that_of_most_loads() -> None:
    loads = [SMALL, replace(SMALL, keys=4000), replace(SMALL, places=8)]
    fast = [predict(load, Costs().at(2.5)) for load in loads]
    fast[2] = Sizes(1e9, 1e9, *(getattr(fast[2], name) for name in ("shuffled", "state", "windows")))
    assert speed_of(list(zip(loads, fast, strict=True))) == pytest.approx(2.5)
    assert fast[0].cpu == pytest.approx(predict(SMALL).cpu / 2.5) and fast[0].shuffled == predict(SMALL).shuffled


@pytest.mark.parametrize("more", [{"keys": 2e6}, {"rate": 2e4}, {"slices": 20}, {"readers": 64}, {"places": 64}])
def test_more_takes_more(more: dict[str, float]) -> None:
    load = Load(1e6, 1e4, 10, 8, 8)
    less, much = predict(load), predict(replace(load, **more))
    assert much.cpu > less.cpu
    assert much.shuffled >= less.shuffled
    assert memory(replace(load, **more)) >= memory(load)


def test_it_is_computed_from_the_command_line() -> None:
    said = [sys.executable, "-m", "asv_benchmarks.spark_growth", "--predict", "--keys", "1e9", "--rate", "5e7"]
    said += ["--slices", "10", "--readers", "1600", "--places", "1600", "--cores", "1600"]
    out = subprocess.run(said, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line.rstrip() for line in out.splitlines()]
    assert len(lines) == 11
    page = (ROOT / "docs" / "sizing.md").read_text()
    assert all(line in page for line in lines)
