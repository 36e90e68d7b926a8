"""Sessions that stay after their end: the store keeps few runs, however many pushes there were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

START = 1_790_000_000_000_000_000 // 9000 * 9000  # nanoseconds since 1970


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("windows", [{}, {"s": sl.sliding(9000, every=900)}], ids=["alone", "beside sliding"])
def test_runs_of_sessions_are_merged(windows: dict[str, sl.Window], emit: str) -> None:
    """Each push ends some sessions, which are then put back among the runs that were not read."""
    lateness = {"allowed_lateness": 4500, "emit": emit}
    spec = sl.Spec(
        "t", {"v": sl.session(120)} | windows, {"n": sl.count()}, by="k", watermark=sl.bounded(9), **lateness
    )
    op, rng, most = sl.Operator(spec), np.random.default_rng(0), 0
    for push in range(750):
        out = op.push(pa.table({"t": np.sort(rng.integers(0, 9, 9)) + push * 9 + START, "k": rng.integers(0, 900, 9)}))
        assert op._state is not None
        most = max(most, len(op._state.store.runs))
    assert out.stats.cells > 2500
    assert most <= 16
