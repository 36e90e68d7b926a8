"""What every test may rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slicing import batch, store
from slicing.answers import ways
from slicing.answers.ways import as_they_lie
from slicing.slices import combining, eager
from slicing.windows import counted


@pytest.fixture(autouse=True)
def the_engine_chooses() -> Iterator[None]:
    """Random cases force a strategy (``harness.choose_strategies``); the next test has its own again."""
    chosen, few = (combining.choose, ways.pays), (store.FEW, store.APART, store.SHARE, as_they_lie.FEW)
    rows, trees = batch.FEW, (eager.DEEP, eager.FANOUT, eager.FEWEST, eager.LARGEST)
    yield
    (combining.choose, ways.pays), (store.FEW, store.APART, store.SHARE, as_they_lie.FEW) = chosen, few
    batch.FEW, (eager.DEEP, eager.FANOUT, eager.FEWEST, eager.LARGEST) = rows, trees


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are cut into slices, however short these are."""
    monkeypatch.setattr(counted, "FEWEST", 0)
