"""Empty windows are emitted once a later row of their key is known, also if the watermark then passes no end."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slicing as sl

BEGUN = 1_700_000_000_000_000_000


@pytest.mark.parametrize("types", [1, 2])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("wait", [0, 1])
def test_a_key_comes_again_while_the_watermark_stands(types: int, restart: bool, wait: int) -> None:
    windows = {f"w{i}": sl.tumbling(10, fill=True) for i in range(types)}
    spec = sl.Spec("t", windows, {"n": sl.count()}, by=["k"], watermark=sl.bounded(wait))
    op, newest = sl.Operator(spec), 34 + wait

    def pushed(times: list[int], keys: list[int]) -> list[tuple[int, int, int]]:
        """The end, key and number of rows of each window. All types have the same."""
        rows = op.push(pa.table({"t": [BEGUN + time for time in times], "k": keys})).windows.to_pylist()
        found = [[(r["window_end"] - BEGUN, r["k"], r["n"]) for r in rows if r["window"] == name] for name in windows]
        assert all(some == found[0] for some in found)
        return found[0]

    assert pushed([0, 0, newest], [1, 2, 1]) == [(10, 1, 1), (10, 2, 1), (20, 1, 0), (30, 1, 0)]
    if restart:
        op = sl.Operator.restore(spec, op.snapshot())
    assert pushed([newest], [1]) == []
    assert pushed([newest, newest], [2, 1]) == [(20, 2, 0), (30, 2, 0)]
    assert pushed([newest], [2]) == []
    assert pushed([40 + wait], [1]) == [(40, 1, 3), (40, 2, 2)]
