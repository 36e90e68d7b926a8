"""What tests of results share."""

import pytest

from slicing.closing import results


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the results of each table were written at once."""
    found: list[bool] = []
    plain = results._numbers
    monkeypatch.setattr(results, "_numbers", lambda *given: found.append((made := plain(*given)) is not None) or made)
    return found
