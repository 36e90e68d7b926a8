"""Times and values of real size: nanoseconds since 1970, spans of years, integers near the ends of int64."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slicing as sl
from slicing.columns.order import progression
from slicing.windows.bounds import LONGEST, BoundPeriodic
from slicing.windows.edges import EdgeSet

N = {"n": sl.count()}
DAY = 86_400 * 10**9
BORN = 1_577_836_800 * 10**9  # 2020-01-01


def test_every_day_of_pandas_nanoseconds_has_its_window():
    days = pd.date_range("2020-01-01", periods=200).astype("datetime64[ns]")
    table = sl.aggregate(pd.DataFrame({"t": days}), sl.Spec("t", {"d": sl.tumbling("1d")}, N))
    assert table["window_start"].to_pylist() == list(days)
    assert table["n"].to_pylist() == [1] * 200


@pytest.mark.parametrize("days", [105, 200, 3000, 20_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_day_of_every_key_has_its_window(days, threads):
    time = BORN + np.arange(days) * DAY
    rows = pa.table({"t": pa.array(np.repeat(time, 3)).cast(pa.timestamp("ns")), "k": ["a", "b", "c"] * days})
    spec = sl.Spec("t", {"d": sl.tumbling("1d")}, N, by=["k"])
    op = sl.Operator(spec, threads=threads)
    out = op.push(rows)
    table = pa.concat_tables([out.windows, op.flush().windows])
    assert table["window_start"].cast(pa.int64()).to_pylist() == np.repeat(time, 3).tolist()
    assert table["k"].to_pylist() == ["a", "b", "c"] * days
    assert table["n"].to_pylist() == [1] * (3 * days)


@pytest.mark.parametrize("width", [1, 3, 1000, DAY, LONGEST])
@pytest.mark.parametrize("count", [1, 2, 7, 100, 3000])
@pytest.mark.parametrize("start", [-(2**62), -1, 0, BORN, 2**61])
def test_edges_of_one_width_are_all_there(start, count, width):
    count = min(count, (2**62 + 2**61 - start) // width)
    if count < 1:
        pytest.skip("beyond all times")
    last = start + (count - 1) * width
    expected = list(range(start, last + 1, width))
    assert progression(start, last, width).tolist() == expected
    edges = EdgeSet([BoundPeriodic(width, width, start % width)])
    low = max(start - width, -(2**62) - 2**61)
    assert edges.between(low, last - 1, np.array([low, last - 1]), 0, 10_000).tolist() == expected
