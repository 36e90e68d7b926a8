"""``python -m asv_benchmarks.papers``: every figure in its smallest size, and what holds of it whatever the machine."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not (Path(__file__).parents[2] / "asv_benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this distribution", allow_module_level=True)
if not all(map(find_spec, ("duckdb", "polars", "pandas", "datafusion"))):
    pytest.skip("the peers are not installed", allow_module_level=True)

from asv_benchmarks.papers import __main__ as command
from asv_benchmarks.papers import data, li_unions
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
    assert command.main(["li-10", "--quick", "--draw", str(tmp_path)]) == 0
    drawn = (tmp_path / "li-10.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml") and "li-10.svg" in capsys.readouterr().out


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


def test_scotty_19_to_22_have_every_engine_at_each_point() -> None:
    """Their answers were compared on the way."""
    for name in ("scotty-19", "scotty-21", "scotty-22"):
        for panel in outcome(name).panels:
            assert len(panel.series) >= 3 and not any(None in numbers for numbers in panel.series.values())


# --- Hammer Slide ----------------------------------------------------------------------------------------------------


def test_hammer_slide_11_has_its_plain_algorithms_beside_ours() -> None:
    (panel,) = outcome("hammer-slide-11").panels
    assert [name.split(",")[0] for name in panel.series] == [
        "slicing", "two stacks", "subtract on evict", "recompute", "duckdb"
    ]  # fmt: skip


# --- Li --------------------------------------------------------------------------------------------------------------


def test_li_11_error_falls_with_slack_and_is_none_with_punctuation() -> None:
    found = outcome("li-11")
    error, latency = found.panel("error"), found.panel("latency")
    for kind in ("generous slack", "consistent slack"):
        assert error.of(kind)[0] > 1e-3 and error.of(kind)[-1] < 1e-9
        assert latency.of(kind)[0] < latency.of(kind)[-1]
    assert error.of("punctuation")[0] < 1e-9
    assert latency.of("punctuation")[0] < latency.of("generous slack")[-1]
    dropped = found.panel("rows dropped")
    assert max(dropped.of("generous slack")) == 0 < dropped.of("consistent slack")[0]


def test_li_12_only_slack_beyond_a_block_has_no_wrong_answers() -> None:
    found = outcome("li-12")
    wrong = found.panel("error")
    for at, share in zip(wrong.at, wrong.of("generous slack"), strict=True):
        assert (share == 0) == (at >= 491)
    assert wrong.of("punctuation")[0] == 0
    latency = found.panel("latency")
    assert latency.of("punctuation")[0] < latency.of("generous slack", 491.0)


def test_li_15_compares_panes_within_each_engine() -> None:
    for panel in outcome("li-15").panels:
        assert {"loops", "duckdb", "numpy"} <= set(panel.series) and min(map(min, panel.series.values())) > 0


def test_li_19_computes_what_adaptwid_would_hold() -> None:
    found = outcome("li-19")
    for query in ("Q6-7", "Q6-8"):
        for width in ("narrow", "wide"):
            panel = found.panel(f"{query}, state a group, {width}")
            ratios = found.panel(f"{query}, slices / ideal AdaptWID").of(f"{width} partials")
            for at, ratio in zip(panel.at, ratios, strict=True):
                ideal = panel.of("AdaptWID, ideal", at)
                assert 0 < ideal <= min(panel.of("eager", at), panel.of("lazy", at))
                assert panel.of("slices", at) <= panel.of("eager", at)
                assert panel.of("slices, measured", at) <= 1.2 * panel.of("slices", at)
                assert ratio == pytest.approx(panel.of("slices, measured", at) / ideal)
    most = found.panel("Q6-8, most bytes")
    assert all(a < b for a, b in zip(most.of("slices"), most.of("eager"), strict=True))


def test_groups_of_table_6_2() -> None:
    """Li's shares of small, medium and large groups, in percent; hers do not add up to her own sizes by two points."""
    expected = {"DS1": (39, 51, 10), "DS2": (66, 28, 6), "DS3": (77, 19, 4), "DS4": (82, 15, 3), "DS5": (87, 11, 2)}
    for name, share in data.SHARES.items():
        keys = data.skewed(share, 1, 80_000, 10_000_000).column("key").to_numpy()
        _, sizes = np.unique(keys[keys >= 0], return_counts=True)
        bounds = np.array([0, 2, 100, 10**9])
        found = 100 * np.histogram(sizes, bounds)[0] / sizes.size
        assert np.abs(found - expected[name]).max() <= 2, (name, found)


def test_li_7_6_sorting_pairs_holds_more_than_counting_them_as_they_come() -> None:
    memory = outcome("li-7-6").panel("memory")
    ours, sorted_, waits = memory.series.values()
    assert all(a < b for a, b in zip(ours, sorted_, strict=True))
    assert sorted_[-1] - ours[-1] > sorted_[0] - ours[0]  # more pairs in a wider band
    assert len(waits) == len(ours)


def test_li_8_7_a_ring_buffer_bears_what_its_longest_push_leaves() -> None:
    spent = np.array([0.01] * 9 + [0.1])
    assert li_unions.rate(spent, 1000, 10**9) == pytest.approx(10**9 / 0.19, rel=1e-3)  # all rows of 0.19 s wait
    assert li_unions.rate(spent, 10**9, 1000) == pytest.approx(10_000)  # all waiting rows go with each push
    batches = li_unions.packets(500, 3, 5000)
    once, spread = li_unions.surge(batches, None)[1], li_unions.surge(batches, 50)[1]
    assert max(once) == 500 and max(spread) <= 50
    assert sum(once) == sum(spread) == 1000  # of two whole windows


@pytest.mark.parametrize("name", ["li-8-8", "li-8-11"])
def test_li_8_memory_of_a_count_is_flat_without_a_merge(name: str) -> None:
    panel = outcome(name).panels[0]
    ours, merged = panel.series.values()
    assert ours[-1] <= 2 * ours[0] and merged[-1] >= 3 * ours[-1]


def test_li_8_joins_keep_what_merges_would() -> None:
    for name in ("li-8-9", "li-8-10"):
        at_most, average = outcome(name).panels
        ours, merged = at_most.series.values()
        assert all(a <= 1.5 * b for a, b in zip(ours, merged, strict=True))
        assert len(average.series) == 2
