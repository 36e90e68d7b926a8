"""Rows in windows whose bounds the time column's type cannot hold: refused with their push, or not at all."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

CASES = int(os.environ.get("SLICING_CASES", "60"))
AGGS = {"n": sl.count(), "s": sl.sum("v")}


class Hundreds(sl.ContextFreeWindow):
    """A user's windows of one step and of two."""

    def __init__(self, phase: int) -> None:
        self.phase = phase

    def next_edge(self, times: Any) -> Any:
        return (times - self.phase) // 100 * 100 + 100 + self.phase

    def containing(self, time: int) -> list[tuple[int, int]]:
        start = (time - self.phase) // 100 * 100 + self.phase
        return [(start, start + 100), (start - 100, start + 100)]


def windows(chance: random.Random) -> dict[str, Any]:
    size, every = chance.randint(1, 40), chance.randint(1, 40)
    of_any: list[Any] = [
        sl.tumbling(size, offset=chance.randint(0, size)),
        sl.sliding(size, every=every, offset=chance.randint(0, every)),
        sl.sliding(size, every=every, full=True),
        sl.cumulate(size * 2, every=2),
        sl.landmark(every),
        sl.session(size),
        sl.last_rows(3, every=every),
        sl.rows(chance.randint(1, 4)),
        sl.per_row(size),
        sl.whole(),
        sl.fixed(20, 90),
        Hundreds(chance.randint(0, 99)),
    ]
    return {f"w{i}": window for i, window in enumerate(chance.sample(of_any, chance.randint(1, 3)))}


@pytest.mark.parametrize("case", range(CASES))
def test_a_push_is_refused_exactly_if_a_result_would_not_fit(case: int) -> None:
    chance = random.Random(f"fits {case}")
    type = chance.choice([pa.int8(), pa.uint8(), pa.int32(), pa.uint32()])
    limits = np.iinfo(type.to_pandas_dtype())
    spec = sl.Spec(
        "t", windows(chance), AGGS, by=chance.choice([[], ["k"]]), watermark=sl.bounded(chance.randint(0, 9))
    )
    narrow, wide = sl.Operator(spec), sl.Operator(spec)
    found, expected = list[pa.Table](), list[pa.Table]()
    for _ in range(chance.randint(1, 4)):
        middle = chance.choice([chance.randint(int(limits.min), int(limits.max)), int(limits.min), int(limits.max)])
        times = [min(max(middle + chance.randint(-9, 9), int(limits.min)), int(limits.max)) for _ in range(6)]
        columns = {"k": [chance.randint(0, 1) for _ in times], "v": list(range(6))}
        before = wide.snapshot() if expected else None
        out = wide.push(pa.table({"t": pa.array(times, pa.int64()), **columns}))
        ahead = sl.Operator.restore(spec, wide.snapshot()).flush().windows
        fits = all(_within(table, limits) for table in (out.windows, ahead))
        rows = pa.table({"t": pa.array(times, type), **columns})
        if fits:
            found.append(narrow.push(rows).windows)
            expected.append(out.windows)
        else:
            with pytest.raises(ValueError, match=f"a column of type {type} cannot hold: cast the column to int64"):
                narrow.push(rows)
            wide = sl.Operator(spec) if before is None else sl.Operator.restore(spec, before)
    if expected:
        found.append(narrow.flush().windows)
        expected.append(wide.flush().windows)
    assert [table.to_pylist() for table in found] == [table.to_pylist() for table in expected], spec


def _within(table: pa.Table, limits: np.iinfo[Any]) -> bool:
    """Whether all bounds of windows fit."""
    bounds = [time for name in ("window_start", "window_end") for time in table[name].to_pylist() if time is not None]
    return all(int(limits.min) <= time <= int(limits.max) for time in bounds)


@pytest.mark.parametrize(("first", "refused"), [(2**31 - 5, True), (2**31 - 4, False)])
def test_a_full_window_that_ends_after_the_last_time_is_refused_once_the_data_covers_it(
    first: int, refused: bool
) -> None:
    spec = sl.Spec("t", {"w": sl.sliding(5, every=1, full=True)}, {"n": sl.count()}, watermark=sl.bounded(9))
    op = sl.Operator(spec)
    op.push(pa.table({"t": pa.array([2**31 - 1], pa.int32())}))
    rows = pa.table({"t": pa.array([first], pa.int32())})
    if refused:
        with pytest.raises(
            ValueError, match=r"holds 2147483647, and a window 'w' of this row ends at 2147483648, which"
        ):
            op.push(rows)
    else:
        op.push(rows)
    assert op.flush().windows.num_rows == 0


def test_a_stream_goes_on_after_a_row_that_does_not_fit() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10, offset=7)}, {"n": sl.count()}, watermark=sl.bounded(0))
    op = sl.Operator(spec)
    with pytest.raises(ValueError, match=r"holds 3, and a window 'w' of this row begins at -3, which a column of"):
        op.push(pa.table({"t": pa.array([3, 8], pa.uint64())}))
    op.push(pa.table({"t": pa.array([8, 9], pa.uint64())}))
    assert op.flush().windows.to_pylist() == [{"window": "w", "window_start": 7, "window_end": 17, "n": 2}]
