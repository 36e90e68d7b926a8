"""What every test may rely on."""

from __future__ import annotations

import pytest

from slicing.windows.rows import counted


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are cut into slices, however short these are."""
    monkeypatch.setattr(counted, "FEWEST", 0)
