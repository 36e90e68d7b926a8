"""What the site's pages are made of: examples of every window and aggregate, and other libraries' calls beside ours."""

from __future__ import annotations

import pytest

from slicing.query.written import AGGREGATES, WINDOWS
from website import coming, examples, releases


def test_every_window_has_an_example_that_prints() -> None:
    for name in WINDOWS:
        assert f"::: slicing.{name}" in examples.page(name, examples.window_code(name))


def test_aggregates_have_examples() -> None:
    for name in ("count", "argmax", "quantile", "all"):
        page = examples.page(name, examples.aggregate_code(name))
        assert f"sl.{name}(" in page
    assert set(examples.OF) <= set(AGGREGATES)


@pytest.mark.parametrize("name", [*coming.RUN, *coming.SHOWN])
def test_calls_beside_each_other_give_the_same(name: str) -> None:
    pytest.importorskip("duckdb")
    assert f"| {name} | slicing |" in coming.page(name)


def test_calls_that_differ_are_found() -> None:
    names: dict[str, object] = {}
    exec(coming.DATA, names)
    wrong = coming.Pair("a", 'df["v"]', 'windows(sl.whole(), x=sl.sum("v"))', ("found.tolist()", coming.OURS))
    with pytest.raises(AssertionError, match="a: df"):
        coming.compared(wrong, names)


def test_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    text = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.1.0] - 2026-12-01\n\n- one\n- two\n"
    assert releases.notes("0.1.0", text) == "- one\n- two\n"
    with pytest.raises(SystemExit, match=r"CHANGELOG.md has no part \[0.2.0\]; it has Unreleased, 0.1.0"):
        releases.notes("0.2.0", text)
