"""Times and values of real size: nanoseconds since 1970, spans of years, integers near the ends of int64."""

from __future__ import annotations

import datetime
import re

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


@pytest.mark.parametrize("window", [sl.session(5), sl.tumbling(5), sl.per_row(5), sl.whole()], ids=str)
@pytest.mark.parametrize("time", [-(2**62) - 2**61, -(2**62), 0])
def test_a_row_is_late_however_far_it_is_behind_the_watermark(window, time):
    op = sl.Operator(sl.Spec("t", {"w": window}, N, watermark=sl.manual()))
    op.push(pa.table({"t": pa.array([], pa.int64())}))
    op.advance(2**62 + 2**61)
    out = op.push(pa.table({"t": [time]}))
    assert (out.stats["late"], out.late["t"].to_pylist()) == (1, [time])
    assert op.flush().windows.num_rows == 0


@pytest.mark.parametrize("moment", ["2024-05-01T12:30:00.123456789", "-1000-01-01", "12345-01-01", "2024-05"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_watermark_before_the_first_rows_is_any_moment(moment, restored):
    moment = np.datetime64(0, "Y") + (12345 - 1970) if moment == "12345-01-01" else np.datetime64(moment)
    unit = "ns" if "." in str(moment) else "s"
    op = sl.Operator(spec := sl.Spec("t", {"w": sl.tumbling("1h")}, N, watermark=sl.manual()))
    op.advance(moment)
    op = sl.Operator.restore(spec, op.snapshot()) if restored else op
    out = op.push(pa.table({"t": pa.array([], pa.timestamp(unit))}))
    expected = int(moment.astype(f"datetime64[{unit}]").astype(np.int64))
    assert int(np.datetime64(out.watermark, unit).astype(np.int64)) == expected


def test_a_watermark_of_a_join_before_its_first_rows_is_any_moment():
    spec = sl.JoinSpec(on=["k"], time="t", within=("1h", "0s"), watermark=(sl.manual(), sl.manual()))
    op = sl.JoinOperator(spec)
    op.advance(left=np.datetime64(0, "Y") + 10_375)  # the year 12345
    op = sl.JoinOperator.restore(spec, op.snapshot())
    out = op.push_left(pa.table({"t": pa.array([1], pa.timestamp("s")), "k": [1]}))
    assert out.late_left.num_rows == 1


@pytest.mark.parametrize("type", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
def test_times_of_day_beyond_a_day_do_not_fit(type: pa.DataType) -> None:
    times = pa.array([datetime.time(23), datetime.time(1)], type)
    table = pa.table(
        {"t": [1, 11], "a": times, "d": pa.array([datetime.timedelta(hours=5)] * 2, pa.duration(type.unit))}
    )
    spec = {"time": "t", "windows": {"w": sl.tumbling(10)}, "aggs": {"z": sl.max("a") + sl.max("d")}}
    with pytest.raises(OverflowError, match=re.escape(f"(output column 'z') does not fit {type}")):
        sl.aggregate(table, sl.Spec(**spec))
    for way, first in (("null", None), ("wrap", datetime.time(4))):
        found = sl.aggregate(table, sl.Spec(**spec, on_overflow=way))["z"]
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (type, [first, datetime.time(6)])


def test_spans_beyond_32_bits_are_added_to_times_of_32() -> None:
    at, long = pa.array([datetime.time(1)], pa.time32("ms")), pa.array([2**32 + 5], pa.duration("ms"))
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"z": sl.max("a") + sl.sum("d")})
    with pytest.raises(OverflowError, match="does not fit time32"):
        sl.aggregate(pa.table({"t": [1], "a": at, "d": long}), spec)
