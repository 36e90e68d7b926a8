"""The joins of ``python -m asv_benchmarks.peers --joins``: all engines give the same rows, of small tables."""

from __future__ import annotations

from pathlib import Path

import pytest

if not (Path(__file__).parents[2] / "asv_benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this distribution", allow_module_level=True)

from asv_benchmarks.peers import features, joins


@pytest.mark.parametrize("title", joins.JOINS)
def test_all_engines_agree(title: str) -> None:
    rates = joins.compare(joins.JOINS[title], 2000, 1)
    assert len(rates) >= 3 and min(rates.values()) > 0


@pytest.mark.parametrize("title", joins.PUSHES)
def test_pushes_run(title: str) -> None:
    keys, band, _, late = joins.PUSHES[title]
    assert joins.pushes(4000, keys, band, 500, late)["M rows/s"] > 0


@pytest.mark.parametrize("title", features.QUESTIONS)
def test_all_engines_agree_on_features(title: str) -> None:
    question = features.QUESTIONS[title]
    rates = joins.measured(features.works(question, 2000), features.answer, 2000, 1)
    assert len(rates) >= 3 and min(rates.values()) > 0
