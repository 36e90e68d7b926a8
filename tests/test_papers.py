"""``python -m asv_benchmarks.papers``: every figure in its smallest size, and what holds of it whatever the machine."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not (Path(__file__).parents[1] / "asv_benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this distribution", allow_module_level=True)
if not all(map(find_spec, ("duckdb", "polars", "pandas", "datafusion"))):
    pytest.skip("the peers are not installed", allow_module_level=True)

from asv_benchmarks.papers import __main__ as command
from asv_benchmarks.papers import figure as figures
from asv_benchmarks.papers.catalogue import FIGURES
from asv_benchmarks.papers.figure import Effort, Measured, Outcome

QUICK = Effort(quick=True, runs=1)


@functools.cache
def outcome(name: str) -> Outcome:
    """A figure's smallest run. It raises where engines disagree."""
    return FIGURES[name].run(QUICK)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_prints_its_tables_and_what_the_paper_states(name: str) -> None:
    found = outcome(name)
    text = "\n".join(figures.report(FIGURES[name], found))
    assert text.startswith(f"## {name}: ")
    assert found.panels and found.findings
    for panel in found.panels:
        assert panel.title in text
        for engine, numbers in panel.series.items():
            assert len(numbers) == len(panel.at), engine
            assert all(number is None or np.isfinite(number) for number in numbers), (engine, numbers)
    assert all(finding.paper in text and finding.ours in text for finding in found.findings)


def test_the_command_lists_figures_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FIGURES)
    with pytest.raises(SystemExit):
        command.main(["scotty-99"])
    assert "no figure is named 'scotty-99'" in capsys.readouterr().err


def test_the_command_draws_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert command.main(["scotty-15", "--quick", "--draw", str(tmp_path)]) == 0
    drawn = (tmp_path / "scotty-15.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml") and "scotty-15" in capsys.readouterr().out


def test_a_measured_number_knows_its_spread() -> None:
    seconds = Measured.of([2.0, 1.0, 4.0])
    rate = seconds.scaled(lambda s: 8 / s)
    assert (seconds, seconds.low, seconds.high) == (2.0, 1.0, 4.0)
    assert (rate, rate.low, rate.high) == (4.0, 2.0, 8.0)
    assert figures.shown(rate) == "4 (2–8)" and figures.shown(None) == "–"


# --- Scotty ----------------------------------------------------------------------------------------------------------


def test_scotty_15_bytes_follow_slices_and_not_rows() -> None:
    found = outcome("scotty-15")
    slices, rows = found.panel("a").of("slicing"), found.panel("b").of("slicing")
    assert slices[2] / slices[1] == pytest.approx(10, rel=0.15)
    assert rows[-1] <= 1.1 * rows[-2]  # 50 slices of 1,000 and of 10,000 rows
    counted = found.panel("d")
    each = np.array(counted.of("slicing")) / np.array(counted.at)
    assert each.max() <= 1.1 * each.min()  # count windows out of order keep rows


def test_scotty_16_closes_one_window_by_any_way() -> None:
    for panel in outcome("scotty-16").panels:
        assert len(panel.series) == 5  # three ways, numpy and DuckDB, whose answers were compared


def test_scotty_20_late_marks_cut_the_same_windows() -> None:
    assert [panel.title for panel in outcome("scotty-20").panels][::2] == ["sum, all rows", "median, all rows"]
