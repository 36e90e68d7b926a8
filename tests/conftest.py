"""What every test may rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slicing import batch, store
from slicing.answers import ways
from slicing.answers.ways import as_they_lie
from slicing.slices import combining, eager
from slicing.windows import counted

CHOICES = [(combining, ("choose", "FEW")), (ways, ("pays",)), (store, ("FEW", "APART", "SHARE"))]
CHOICES += [(as_they_lie, ("FEW",)), (batch, ("FEW",)), (eager, ("DEEP", "FANOUT", "FEWEST", "LARGEST"))]


@pytest.fixture(autouse=True)
def the_engine_chooses() -> Iterator[None]:
    """Random cases force a strategy (``harness.choose_strategies``); the next test has its own again."""
    chosen = [(module, name, getattr(module, name)) for module, names in CHOICES for name in names]
    yield
    for module, name, own in chosen:
        setattr(module, name, own)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are cut into slices, however short these are."""
    monkeypatch.setattr(counted, "FEWEST", 0)
