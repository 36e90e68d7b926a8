"""Features: ends of ranges, watermarks, columns and types, what is refused, and other ways to the same answers."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl
from slicing.columns.sources import one_batch
from slicing.query.policy import DEFAULT, Policy

N = {"n": sl.count()}
HOUR = 3600 * 10**9
YEAR = 8766 * HOUR
BASE = 1_700_000_000_000_000_000


def labels(*times: int, k: list | None = None) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "k": ["a"] * len(times) if k is None else k})


def events(*times: int, k: list | None = None, v: list | None = None) -> pa.Table:
    values = pa.array(times if v is None else v, pa.int64())
    return pa.table({"t": pa.array(times, pa.int64()), "k": ["a"] * len(times) if k is None else k, "v": values})


def spec(**given: object) -> sl.FeatureSpec:
    return sl.FeatureSpec(**({"on": "k", "time": "t", "ranges": {"r": 10}, "aggs": {"all": sl.collect("v")}} | given))


def held(*times: int, label: int = 100, **given: object) -> list:
    """Which of these events the range r of a label holds."""
    return sl.features(labels(label), events(*times), spec(**given))["all_r"].to_pylist()[0] or []


# --- ends of ranges ---------------------------------------------------------------------------------------------------

AROUND = (78, 79, 80, 81, 89, 90, 91, 94, 95, 96, 99, 100, 101, 104, 105, 106)


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        ({}, 90, 99),
        ({"closed": "right"}, 91, 100),
        ({"delay": 5}, 85, 94),
        ({"delay": 5, "closed": "right"}, 86, 95),
        ({"ranges": {"r": (20, 5)}}, 80, 94),
        ({"ranges": {"r": (20, 5)}, "closed": "right"}, 81, 95),
        ({"ranges": {"r": (0, -5)}}, 100, 104),
        ({"ranges": {"r": (0, -5)}, "closed": "right"}, 101, 105),
        ({"ranges": {"r": (-1, -5)}}, 101, 104),
        ({"ranges": {"r": None}}, 0, 99),
        ({"ranges": {"r": (None, 5)}, "closed": "right"}, 0, 95),
        ({"ranges": {"r": 11}, "tail": 8}, 88, 99),
        ({"ranges": {"r": 11}, "tail": {"r": 8}, "closed": "right"}, 88, 100),
        ({"ranges": {"r": 20}, "tail": 8, "closed": "right"}, 80, 100),
        ({"ranges": {"r": (20, 5)}, "tail": 8, "delay": 1}, 72, 93),
    ],
    ids=str,
)
def test_ends_of_ranges(given: dict, low: int, high: int) -> None:
    assert held(*AROUND, **given) == [time for time in AROUND if low <= time <= high]


def test_ranges_that_are_equal_and_longer_than_the_stream() -> None:
    ranges = {"short": 10, "same": 10, "long": 10**18, "ever": None}
    row = sl.features(labels(100), events(89, 90, 99, 100), spec(ranges=ranges)).to_pylist()[0]
    assert row["all_short"] == row["all_same"] == [90, 99]
    assert row["all_long"] == row["all_ever"] == [89, 90, 99]
    op = sl.FeatureOperator(spec(ranges=ranges, aggs=N, watermark=sl.manual()))
    op.push(labels(100), events(89, 90, 99, 100))
    assert op.advance(labels=10**17, events=100).rows.to_pylist()[0]["n_long"] == 3


def test_floors_of_negative_times_go_down() -> None:
    assert held(-16, -15, -9, -8, -7, label=-3, ranges={"r": 6}, tail=8) == [-16, -15, -9, -8, -7]
    assert held(-17, -16, -9, -8, -1, label=0, ranges={"r": 8}, tail=8) == [-8, -1]


@pytest.mark.parametrize("end", [-(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("given", [{"tail": 7}, {"ranges": {"r": (10, -10)}}, {"ranges": {"r": None}}, {}], ids=str)
def test_ranges_beyond_the_ends_of_time_hold_what_is_there(end: int, given: dict) -> None:
    assert held(end, label=end, closed="right", **given) == [end]
    far = held(end, label=-end - 1, **given)
    assert far == ([end] if given == {"ranges": {"r": None}} and end < 0 else [])


@pytest.mark.parametrize("beyond", [2, 4, 7])
def test_a_far_end_beyond_the_end_of_time_is_floored_into_it(beyond: int) -> None:
    """A label at the last tick reaches times that lie past it; the multiple of ``tail`` below them may exist."""
    end, tail = (1 << 63) - 1, 5
    low = (end + beyond) // tail * tail
    times = (end - 7, end - 3, end - 2, end - 1, end)
    given = {"ranges": {"r": (-beyond, -beyond - 9)}, "tail": tail, "closed": "right"}
    assert held(*times, label=end, **given) == [time for time in times if time >= low]


def test_an_event_at_the_end_of_time_counts_beside_a_run_of_others() -> None:
    end = (1 << 63) - 1
    aggs = {"n": sl.count("v"), "v": sl.sum("v")}
    op = sl.FeatureOperator(spec(aggs=aggs, closed="right", watermark=sl.manual()))
    op.push(labels(end), events(*range(end - 5, end), v=[1, None, 4, None, None]))
    op.push_events(events(end, end, v=[8, None]))
    assert op.flush().rows.select(["n_r", "v_r"]).to_pylist() == [{"n_r": 3, "v_r": 13}]


# --- when labels are answered, and what is kept -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "done"),
    [
        ({}, 100),
        ({"closed": "right"}, 101),
        ({"ranges": {"r": 10, "later": (0, -7)}}, 107),
        ({"ranges": {"r": (10, 4)}, "closed": "right"}, 97),
        ({"delay": 30}, 70),
    ],
    ids=str,
)
def test_a_label_is_answered_by_the_watermark_that_passes_its_ranges(given: dict, done: int) -> None:
    op = sl.FeatureOperator(spec(**given, watermark=sl.manual()))
    op.push(labels(100), events(99, 100, 106))
    out = op.advance(labels=200, events=done - 1)
    assert out.rows.num_rows == 0 and out.stats.waiting == 1
    assert out.watermark == min(200, done - 1 + 100 - done + (given.get("closed") == "right"))
    out = op.advance(events=done)
    assert out.rows.num_rows == 1 and out.stats.waiting == 0


def test_an_event_leaves_when_no_label_reaches_it() -> None:
    op = sl.FeatureOperator(spec(aggs=N, watermark=sl.manual()))
    op.push(labels(1)[:0], events(80, 89, 90, 91, 200))
    assert op.advance(labels=100).stats.kept == 3
    out = op.push_labels(labels(100))
    assert (out.stats.waiting, out.stats.kept) == (1, 3)
    assert op.advance(labels=150).stats.kept == 3  # the label that waits reaches two, a later one 200
    out = op.advance(events=100)
    assert out.rows["n_r"].to_pylist() == [2] and out.stats.kept == 1


def test_events_between_two_ranges_are_not_kept_for_a_label_that_waits() -> None:
    ranges = {"near": 10, "far": (100, 90)}
    op = sl.FeatureOperator(spec(aggs=N, ranges=ranges, watermark=sl.manual()))
    op.push(labels(1000), events(900, 909, 910, 950, 989, 990, 999))
    assert op.advance(labels=1000).stats.kept == 7  # a label after 1000 reaches them
    assert op.advance(labels=2000).stats.kept == 4
    assert op.advance(events=3000).rows.select(["n_near", "n_far"]).to_pylist() == [{"n_near": 2, "n_far": 2}]


# --- floored far ends: old events as slices ---------------------------------------------------------------------------

SUMS = {"n": sl.count(), "v": sl.sum("v"), "most": sl.max("v"), "std": sl.std("v"), "last": sl.last("v")}


def states(given: dict, *marks: int, times: tuple[int, ...] = (60, 61, 69, 70, 79, 80, 88, 95, 100)) -> list[tuple]:
    """Rows and slices that are kept as the labels' watermark rises."""
    op = sl.FeatureOperator(spec(**{"aggs": SUMS, "watermark": sl.manual()} | given))
    op.push(labels(1)[:0], events(*times))
    outs = [op.advance(labels=mark) for mark in marks]
    return [(out.stats.kept, out.stats.slices) for out in outs]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [(5, 0), (3, 0), (2, 0)]),
        # 60-69, 70-79, 80-87 before a label at 88
        ({"ranges": {"r": 30}, "tail": 10}, [(3, 3), (2, 3), (1, 3)]),
        ({"ranges": {"r": 30}, "tail": 10, "closed": "right"}, [(2, 3), (1, 4), (0, 4)]),
        ({"ranges": {"r": 30}, "tail": 10, "delay": 5}, [(3, 3), (2, 3), (2, 3)]),
        # the exact range of 12 needs the rows of the last 12
        ({"ranges": {"r": 30, "e": 12}, "tail": {"r": 10}}, [(5, 2), (3, 3), (3, 2)]),
        # of events older than the range of 10 hops of 20 are enough, and to "all" what is older still is one slice
        ({"ranges": {"r": 10, "s": 40}, "tail": {"r": 5, "s": 20}}, [(3, 3), (2, 3), (1, 3)]),
        ({"ranges": {"r": 20, "all": None}, "tail": {"r": 10}}, [(3, 3), (2, 3), (1, 3)]),
        ({"ranges": {"r": 30}, "tail": 10, "aggs": {"p": sl.median("v")}}, [(9, 0), (9, 0), (6, 0)]),
    ],
    ids=str,
)
def test_what_is_kept_of_old_events(given: dict, expected: list) -> None:
    assert states(given, 88, 95, 100) == expected


def test_a_label_that_waits_keeps_the_rows_that_it_tells_apart() -> None:
    op = sl.FeatureOperator(spec(aggs=SUMS, ranges={"r": 30}, tail=10, watermark=sl.manual()))
    op.push(labels(75), events(60, 61, 72, 78, 79, 81))
    out = op.advance(labels=200)
    assert (out.stats.waiting, out.stats.kept, out.stats.slices) == (1, 0, 2)  # 60 and 61, and 72; others are too late
    out = op.advance(events=75)
    assert out.rows.select(["n_r", "v_r", "most_r", "last_r"]).to_pylist() == [
        {"n_r": 3, "v_r": 193, "most_r": 72, "last_r": 72}
    ]
    assert (out.stats.kept, out.stats.slices) == (0, 0)


def test_of_very_many_slices_those_of_late_events_are_counted_beside_them() -> None:
    asked = spec(aggs=SUMS, ranges={"r": 300}, tail=10, wait=False, watermark=sl.manual())
    op = sl.FeatureOperator(asked, policy=Policy(slices_at_once=6))
    op.push(labels(1)[:0], events(*range(100, 200, 10)))
    assert op.advance(labels=250).stats.slices == 10
    counted = [op.push_events(events(time)).stats.slices for time in (105, 106, 115, 125, 135, 145, 155)]
    assert counted == [11, 11, 12, 13, 14, 15, 10]  # until the second table is more than half of the first
    row = op.push_labels(labels(260)).rows.to_pylist()[0]
    assert (row["n_r"], row["v_r"]) == (17, sum(range(100, 200, 10)) + 106 + sum(range(105, 156, 10)))


def test_an_event_that_comes_late_joins_its_slice() -> None:
    op = sl.FeatureOperator(spec(aggs=SUMS, ranges={"r": 30}, tail=10, wait=False, watermark=sl.manual()))
    op.push(labels(1)[:0], events(81, 85, v=[1, 2]))
    assert op.advance(labels=95).stats.slices == 1
    out = op.push_events(events(85, 83, v=[3, 4]))
    assert (out.stats.kept, out.stats.slices) == (0, 1)
    op = pickle.loads(pickle.dumps(op))
    row = op.push_labels(labels(100)).rows.to_pylist()[0]
    assert (row["n_r"], row["v_r"], row["last_r"]) == (4, 10, 3)  # of those at 85 the one that came last


def test_the_state_is_that_of_slices_however_many_events_they_hold() -> None:
    """Six days of 20,000 events each, ranges of three days in hops of six hours: no more than the slices, and the near
    rows."""
    rng, day = np.random.default_rng(8), 24 * HOUR
    ranges = {"d": 3 * day, "h": HOUR}
    given = spec(aggs=SUMS, ranges=ranges, tail={"d": 6 * HOUR, "h": HOUR // 4}, watermark=sl.bounded(HOUR))
    op, sizes = sl.FeatureOperator(given), []
    exact = sl.FeatureOperator(replace(given, tail="exact"))
    for number in range(24):
        times = np.sort(rng.integers(0, 6 * HOUR, 5000)) + BASE + number * 6 * HOUR
        keys = rng.choice(list("abcd"), 5000)
        sold = events(*times.tolist(), k=keys.tolist(), v=rng.integers(0, 99, 5000).tolist())
        rows = labels(*times[-20:].tolist(), k=keys[:20].tolist()), sold
        out, other = op.push(*rows), exact.push(*rows)
        sizes.append((out.stats.kept, out.stats.slices, out.stats.bytes, other.stats.bytes))
    kept, slices, size, whole = (max(column) for column in zip(*sizes[12:], strict=True))
    assert slices <= 4 * (13 + 6) and kept <= 5000 / 6 * 1.3 + 200
    assert 8 * size < whole


def test_slices_and_several_runs_tell_which_event_was_last() -> None:
    """Rows of runs are taken in parts: their times go with them."""
    rng, minute = np.random.default_rng(0), 60 * 10**9
    aggs = {"first": sl.first("v"), "last": sl.last("v"), "most": sl.argmax("v", "t"), "n": sl.count()}
    ranges = {"near": minute // 2, "far": (60 * minute, minute // 2), "ever": None, "next": (minute // 6, -minute)}
    asked = spec(aggs=aggs, ranges=ranges, tail={"near": minute, "far": minute}, watermark=sl.bounded(minute))

    def arrived(count: int) -> tuple[np.ndarray, list]:
        times = rng.integers(0, 200 * minute, count)
        times = times[np.argsort(times + rng.integers(0, minute, count), kind="stable")]
        return times + BASE, rng.choice([f"k{n}" for n in range(40)], count).tolist()

    (asked_at, users), (sold_at, buyers) = arrived(4000), arrived(8000)
    rows = labels(*asked_at.tolist(), k=users).append_column("id", pa.array(range(4000)))
    sold = events(*sold_at.tolist(), k=buyers, v=list(range(8000)))
    op, outs = sl.FeatureOperator(asked), []
    for at, size in [(0, 3), (3, 1500), (1503, 40), (1543, 700), (2243, 1757)]:
        out = op.push(rows.slice(at, size), sold.slice(2 * at, 2 * size))
        outs.append(out.rows)
        assert out.late_events.num_rows + out.late_labels.num_rows == 0
    found = pa.concat_tables([*outs, op.flush().rows]).sort_by("id")
    assert found.equals(sl.features(rows, sold, asked))


def test_late_rows_of_each_side_count_for_nothing() -> None:
    op = sl.FeatureOperator(spec(aggs=N, watermark=(sl.bounded(5), sl.bounded(2))))
    op.push(labels(100), events(95, 99))
    out = op.push(labels(95, 94), events(97, 96))
    assert out.late_labels["t"].to_pylist() == [94] and out.late_events["t"].to_pylist() == [96]
    assert out.late_events["reason"].to_pylist() == ["late"]
    assert (out.stats.labels, out.stats.late_labels, out.stats.late_events) == (2, 1, 1)
    assert op.flush().rows.select(["t", "n_r"]).to_pylist() == [{"t": 100, "n_r": 3}]


def test_serving_answers_from_what_has_arrived() -> None:
    op = sl.FeatureOperator(spec(aggs=N, wait=False, watermark=sl.bounded(50)))
    assert op.push(labels(100), events(95)).rows["n_r"].to_pylist() == [1]
    op.push_events(events(96))
    out = op.push_labels(labels(100, 101))
    assert out.rows["n_r"].to_pylist() == [2, 2] and out.stats.waiting == 0 and out.watermark == 51


def test_a_null_key_has_no_events_and_does_not_wait() -> None:
    op = sl.FeatureOperator(spec(aggs=N, watermark=sl.manual()))
    out = op.push(labels(100, 101, k=["a", None]), events(95, 96, k=[None, "a"]))
    assert out.rows.to_pylist() == [{"t": 101, "k": None, "n_r": 0}] and out.stats.kept == 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("wait", [False, True])
def test_a_watermark_counts_before_the_first_rows_of_its_stream(known: bool, wait: bool) -> None:
    """A silent stream of labels is at most 5 behind the events'; labels wait for the columns they come with."""
    schemas = (labels(1).schema, events(1).schema) if known else None
    op = sl.FeatureOperator(spec(idle=5, wait=wait, watermark=sl.manual(), schemas=schemas))
    op.advance(events=100)
    out = op.push_labels(labels(94, 95))
    assert out.late_labels["t"].to_pylist() == [94]
    rows = [*out.rows.to_pylist(), *op.push_events(events(99, 100)).rows.to_pylist(), *op.flush().rows.to_pylist()]
    assert [row["t"] for row in rows] == [95]


def test_labels_wait_for_the_columns_of_the_events() -> None:
    op = sl.FeatureOperator(spec(aggs=N | {"v": sl.sum("v")}))
    out = op.push_labels(labels(100, 101, k=["a", None]))
    assert out.stats.waiting == 2 and out.rows.num_rows == 0
    op.advance(events=500)
    op = pickle.loads(pickle.dumps(op))
    out = op.push_events(events(600))
    assert out.rows["n_r"].to_pylist() == [0, 0] and out.rows["v_r"].type == pa.int64()


def test_without_any_events_counts_are_0() -> None:
    op = sl.FeatureOperator(spec(aggs=N | {"v": sl.sum("v"), "kinds": sl.count_distinct("v")}))
    op.push_labels(labels(100))
    assert op.flush().rows.to_pylist() == [{"t": 100, "k": "a", "n_r": 0, "v_r": None, "kinds_r": 0}]


def test_arithmetic_without_events_is_the_same_whether_or_not_their_columns_are_known() -> None:
    """As in an empty window: a count is 0, and 0 / 0 NaN."""
    aggs = {
        "more": sl.count() + 1,
        "share": sl.count().where(sl.col("v") > 1) / sl.count(),
        "twice": 1.5 * sl.count_distinct("v") - sl.count("v"),
        "ties": sl.max_count("v") * -2,
        "mean": sl.sum("v") / sl.count(),
    }
    known = sl.features(labels(100), events(1).slice(1), spec(aggs=aggs))
    flushed = sl.FeatureOperator(spec(aggs=aggs))
    flushed.push_labels(labels(100))
    unknown = flushed.flush().rows
    serving = sl.FeatureOperator(spec(aggs=aggs, wait=False)).push_labels(labels(100)).rows
    filled = sl.aggregate(
        pa.table({"t": [0, 20], "v": [1, 2]}), sl.Spec("t", {"w": sl.tumbling(10, fill=True)}, aggs)
    ).slice(1, 1)
    values = [str(table[f"{name}_r"][0]) for table in (known, unknown, serving) for name in aggs]
    assert values == ["1", "nan", "0.0", "0", "None"] * 3 == [str(filled[name][0]) for name in aggs] * 3
    assert [unknown.schema.field(f"{name}_r").type for name in aggs][:-1] == [
        known.schema.field(f"{name}_r").type for name in aggs
    ][:-1]


def test_what_has_gone_is_forgotten() -> None:
    op, sizes = sl.FeatureOperator(spec(aggs=N)), []
    for step in range(60):
        keys = [f"{step} {number}" for number in range(1000)]
        times = [10 * step] * 1000
        sizes.append(op.push(labels(*times, k=keys), events(*times, k=keys)).stats.bytes)
    assert max(sizes[30:]) < 2 * max(sizes[5:15])


def test_a_stream_that_is_idle_does_not_hold_the_other_one_back() -> None:
    op = sl.FeatureOperator(spec(aggs=N, idle=20))
    op.push_events(events(100))
    op.push_labels(labels(101))
    out = op.push_labels(labels(130))
    assert out.rows["n_r"].to_pylist() == [1] and out.watermark == 110


def test_a_jump_of_time_is_no_work() -> None:
    op = sl.FeatureOperator(spec(aggs=N, closed="right"))
    op.push(labels(0), events(0))
    out = op.push(labels(10**15), events(10**15))
    assert out.rows.to_pylist() == [{"t": 0, "k": "a", "n_r": 1}]
    assert (out.stats.waiting, out.stats.kept) == (1, 1)


# --- columns and types ------------------------------------------------------------------------------------------------


def test_keys_and_times_of_other_types_are_compared_by_value() -> None:
    asked = pa.table({"user": pa.array([1, 2], pa.int32()), "at": pa.array([5, 5], pa.timestamp("s"))})
    sold = pa.table(
        {"id": [1, 1, 2], "ts": pa.array([4_999_999, 5_000_000, 4_000_000], pa.timestamp("us")), "x": [1.5, 2.0, 4.0]}
    )
    given = {"on": [("user", "id")], "time": ("at", "ts"), "ranges": {"1s": "1s"}, "aggs": {"x": sl.sum("x")}}
    found = sl.features(asked, sold, **given)
    assert found["x_1s"].to_pylist() == [1.5, 4.0] and found.schema.field("at").type == pa.timestamp("s")
    op = sl.FeatureOperator(sl.FeatureSpec(**given, watermark=sl.manual()))
    op.push_labels(asked)
    op.push_events(sold)  # a finer unit than that of the labels that wait
    assert op.flush().rows["x_1s"].to_pylist() == [1.5, 4.0]


def test_text_may_come_in_any_form() -> None:
    asked = pa.table({"t": [10, 10], "k": pa.array(["a", "b"], pa.string_view())})
    op = sl.FeatureOperator(spec(aggs={"last": sl.last("s"), "most": sl.max("s")}, watermark=sl.manual()))
    for shop in ("x", "y"):
        dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), [shop])
        op.push_events(pa.table({"t": [3, 4], "k": pa.array(["a", "b"]).dictionary_encode(), "s": dictionary}))
    op.push_labels(asked)
    assert op.flush().rows["last_r"].to_pylist() == ["y", "y"]


def test_expressions_flags_and_arithmetic() -> None:
    aggs = {
        "double": sl.sum(sl.col("v") * 2),
        "big": sl.count().where(sl.col("v") > 92),
        "ratio": sl.sum("v") / sl.count(),
    }
    row = sl.features(labels(100), events(91, 93, 95), spec(aggs=aggs)).to_pylist()[0]
    assert (row["double_r"], row["big_r"], row["ratio_r"]) == (558, 2, 93.0)


def test_many_keys_and_several_columns_of_them() -> None:
    rng = np.random.default_rng(1)
    keys = {"a": rng.integers(0, 300, 5000), "b": [f"{n}" for n in rng.integers(0, 30, 5000)]}
    table = pa.table(keys | {"t": rng.integers(0, 1000, 5000)})
    found = sl.features(table, table, on=["a", "b"], time="t", ranges={"r": None}, aggs=N)
    frame = pl.from_arrow(table).with_row_index()
    pairs = frame.join(frame, on=["a", "b"]).filter(pl.col("t_right") < pl.col("t"))
    expected = frame.join(pairs.group_by("index").len(), on="index", how="left", maintain_order="left")
    assert found["n_r"].to_pylist() == expected["len"].fill_null(0).to_list()


def test_a_sum_forgets_what_has_left_its_range() -> None:
    values = pa.table({"t": [1, 2, 3, 4, 5, 6], "v": [1e300, 1.0, float("inf"), 2.0, float("nan"), 4.0]})
    asked = pa.table({"t": range(1, 9)})
    found = sl.features(asked, values, on=[], time="t", ranges={"r": 1}, aggs={"v": sl.sum("v")}, closed="right")
    assert str(found["v_r"].to_pylist()) == "[1e+300, 1.0, inf, 2.0, nan, 4.0, None, None]"


FORGETS = {
    "tables, ranges in each other": ({"a": 1, "b": 3, "c": 9}, {}, 0),
    "tables, many labels alike": ({"a": 1, "b": 3, "c": 9}, {}, 0),
    "tables, few labels of long ranges": ({"a": 3000, "b": 4000}, {}, 0),
    "ranges in each other": ({"a": 1, "b": 3, "c": 9}, {}, 1),
    "ranges beside each other": ({"a": (9, 3), "b": (3, 0)}, {}, 1),
    "ranges of what they have in common": ({"a": 40, "b": 90}, {"long_ranges": 0}, 1),
    "several runs": ({"a": 2, "b": 5}, {}, 4),
    "several runs and long ranges": ({"a": 40, "b": 90}, {"long_ranges": 0}, 4),
    "slices": ({"a": 8, "b": 40}, {}, 4),
}


@pytest.mark.parametrize("case", FORGETS)
def test_nothing_is_subtracted_however_a_sum_is_made(case: str) -> None:
    """The sums of the rows in reach, of floats whose sums are exact, beside some that no difference would forget."""
    ranges, policy, pushes = FORGETS[case]
    sliced = case == "slices"
    size, apart = (4800, 17) if "few" in case else (400, 3)
    values = np.random.default_rng(len(case)).integers(-8, 9, size).astype(float)
    values[17:360:43] = [1e300, np.inf, 1e300, np.nan, -np.inf, 1e300, 1e300, 2.0**40]
    given = sl.FeatureSpec([], "t", ranges, {"v": sl.sum("v")}, tail=8 if sliced else "exact", watermark=sl.manual())
    asked = np.repeat(np.arange(0, size + 60, apart), 300 if "alike" in case else 1)
    op, outs = sl.FeatureOperator(given, policy=replace(DEFAULT, **policy)), []
    for part in range(pushes):
        times = np.arange(part * 100, part * 100 + 100) if sliced else np.arange(part, 400, pushes)
        op.push_events(pa.table({"t": times, "v": values[times]}))
        if sliced:  # what lies behind is no longer rows
            outs.append(op.push_labels(pa.table({"t": asked[asked // 100 == part]})))
            outs.append(op.advance(labels=part * 100 + 100, events=part * 100 + 100))
            assert outs[-1].stats.slices
    if pushes:
        outs.append(op.push_labels(pa.table({"t": asked[asked >= 400] if sliced else asked})))
        found = pa.concat_tables(out.rows for out in [*outs, op.flush()] if out.rows.num_rows).to_pylist()
    else:
        found = sl.features(pa.table({"t": asked}), pa.table({"t": range(size), "v": values}), given).to_pylist()
    assert sorted(row["t"] for row in found) == asked.tolist()
    for row, (name, ends) in product(found, ranges.items()):
        far, near = ends if isinstance(ends, tuple) else (ends, 0)
        low = (row["t"] - far) // 8 * 8 if sliced else row["t"] - far
        reached = values[max(low, 0) : max(row["t"] - near, 0)].tolist()
        assert str(row[f"v_{name}"]) == str(float(sum(reached)) if reached else None)


def test_frames_come_back_as_they_came() -> None:
    found = sl.features(pl.from_arrow(labels(100)), events(99).to_pandas(), spec(aggs=N), returns="same")
    assert isinstance(found, pl.DataFrame) and found["n_r"].to_list() == [1]
    assert sl.features(labels(1)[:0], events(99), spec(aggs=N)).column_names == ["t", "k", "n_r"]
    assert sl.features(labels(100), events(1)[:0], spec(aggs=N))["n_r"].to_pylist() == [0]


def test_results_that_do_not_fit() -> None:
    data = labels(100), events(98, 99, v=[1 << 62, 1 << 62])
    aggs = {"v": sl.sum("v")}
    with pytest.raises(OverflowError, match=r"output column 'v_r'\) does not fit int64 .* label at 100"):
        sl.features(*data, spec(aggs=aggs))
    share = r"sl.sum\('v'\) in sl.sum\('v'\) / sl.count\(\) \(output column 'v_r'\) does not fit int64 .* label at 100"
    with pytest.raises(OverflowError, match=share):
        sl.features(*data, spec(aggs={"v": sl.sum("v") / sl.count()}))
    assert sl.features(*data, spec(aggs=aggs, on_overflow="null"))["v_r"].to_pylist() == [None]
    assert sl.features(*data, spec(aggs=aggs, on_overflow="wrap"))["v_r"].to_pylist() == [-(1 << 63)]


@pytest.mark.parametrize("aggs", [{"v": sl.sum("v")}, {"v": sl.sum("v"), "mid": sl.median("v")}], ids=["sum", "both"])
@pytest.mark.parametrize("ranges", [{"r": 10}, {"r": 10, "s": 20}, {"r": 10, "old": (90, 60)}], ids=str)
@pytest.mark.parametrize("parts", [0, 1, 3])
def test_the_label_whose_result_does_not_fit_is_named(aggs: dict, ranges: dict, parts: int) -> None:
    """Of several in no order, some without events, on two threads, of tables and of events in one or more runs."""
    asked = labels(500, 100, 200, 50, 300, 400, k=["b", "a", "b", "a", "a", "a"])
    big = 1 << 62
    found = events(99, 199, 298, 299, 399, 499, k=["a", "b", "a", "a", "a", "b"], v=[1, 1, big, big, 1, 1])
    op = sl.FeatureOperator(
        spec(aggs=aggs, ranges=ranges, watermark=sl.manual()), threads=2, policy=Policy(thread_labels=2)
    )
    for part in range(parts):
        op.push_events(found.slice(part * 6 // parts, 6 // parts))
    if parts:
        op.push_labels(asked)
    with pytest.raises(OverflowError, match=r"'v_r'\) does not fit int64 for the label at 300; use on_overflow="):
        op.flush() if parts else op.whole(one_batch(asked), one_batch(found))


# --- other ways to the same answers -----------------------------------------------------------------------------------


def tables(seed: int) -> tuple[pa.Table, pa.Table]:
    """Nanoseconds over two years, some of them alike."""
    rng = np.random.default_rng(seed)

    def side(rows: int) -> dict:
        times = BASE + rng.integers(0, 2 * YEAR, rows) // HOUR * HOUR
        return {"t": pa.array(times).cast(pa.timestamp("ns", "UTC")), "k": rng.integers(0, 40, rows)}

    return pa.table(side(800) | {"id": range(800)}), pa.table(side(4000) | {"v": rng.integers(-50, 50, 4000)})


RANGES = {"day": "1d", "season": ("90d", "1d"), "ever": None, "next": ("0s", "-30d")}
AGGS = {"n": sl.count(), "v": sl.sum("v"), "low": sl.min("v"), "med": sl.median("v")}


def test_answers_are_those_of_duckdb_and_of_joins() -> None:
    asked, happened = tables(3)
    found = sl.features(asked, happened, on="k", time="t", ranges=RANGES, aggs=AGGS)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("l", asked)
    connection.register("e", happened)
    ends = {"day": (24, 0), "season": (90 * 24, 24), "ever": (10**5, 0), "next": (0, -30 * 24)}
    for name, (far, near) in ends.items():
        when, low, high = "epoch_ns(e.t)", f"epoch_ns(l.t) - {far * HOUR}", f"epoch_ns(l.t) - ({near * HOUR})"
        on = f"l.k = e.k AND {when} >= {low} AND {when} < {high}"
        query = f"""SELECT count(e.v), sum(e.v)::BIGINT, min(e.v), median(e.v) FROM l LEFT JOIN e ON {on}
            GROUP BY l.id ORDER BY l.id"""
        columns = (found[f"{agg}_{name}"].to_pylist() for agg in AGGS)
        assert list(zip(*columns, strict=True)) == connection.sql(query).fetchall()
        within = (f"{far}h", f"{-near}h")
        pairs = pl.from_arrow(sl.join(asked, happened, on="k", time="t", within=within, closed="left"))
        counts = dict(pairs.group_by("id").len().rows())
        assert [counts.get(number, 0) for number in range(800)] == found[f"n_{name}"].to_pylist()


def test_answers_are_those_of_windows_at_each_row_of_the_union() -> None:
    asked, happened = tables(4)
    found = sl.features(asked, happened, on="k", time="t", ranges={"r": "60d"}, aggs=AGGS, closed="right")
    both = pa.concat_tables([happened, asked.drop("id").append_column("v", pa.nulls(800, pa.int64()))])
    aggs = AGGS | {"n": sl.count("v")}
    windows = sl.aggregate(both, sl.Spec("t", {"r": sl.per_row("60d")}, aggs, by="k", watermark=sl.manual()))
    names = ["k", "window_end", *AGGS]
    rows = {tuple(row.values())[:2]: tuple(row.values())[2:] for row in windows.select(names).to_pylist()}
    answers = zip(*(found[f"{name}_r"].to_pylist() for name in AGGS), strict=True)
    keys = zip(asked["k"].to_pylist(), asked["t"].to_pylist(), strict=True)
    assert [rows[key] for key in keys] == list(answers)


def test_the_last_value_before_is_that_of_merge_asof() -> None:
    asked, happened = (table.to_pandas().sort_values("t", kind="stable") for table in tables(5))
    given = {"on": "k", "time": "t", "ranges": {"ever": None}, "aggs": {"v": sl.last("v")}}
    for closed in ("left", "right"):
        found = sl.features(asked, happened, **given, closed=closed)["v_ever"].to_pylist()
        expected = pd.merge_asof(asked, happened, on="t", by="k", allow_exact_matches=closed == "right")["v"]
        assert found == [None if value != value else int(value) for value in expected]


# --- state ------------------------------------------------------------------------------------------------------------


def test_a_push_that_fails_changes_nothing() -> None:
    op = sl.FeatureOperator(spec(aggs={"v": sl.sum(sl.col("v") / sl.col("v"))}, watermark=sl.manual()))
    op.push(labels(100), events(99))
    before = op.snapshot()
    with pytest.raises(ValueError, match="divide by zero"):
        op.push_events(events(98, v=[0]))
    with pytest.raises(TypeError, match="column 'v' was int64 in the first batch"):
        op.push_events(pa.table({"t": [1], "k": ["a"], "v": ["x"]}))
    with pytest.raises(ValueError, match="time column 't' of the labels is null in row 1"):
        op.push_labels(labels(100, None))
    assert op.snapshot() == before


def test_copies_go_on_by_themselves() -> None:
    op = sl.FeatureOperator(spec(aggs=N))
    op.push(labels(100), events(99))
    for other in (
        copy.deepcopy(op),
        pickle.loads(pickle.dumps(op)),
        sl.FeatureOperator.restore(op.spec, op.snapshot()),
    ):
        assert other.flush().rows["n_r"].to_pylist() == [1]
    assert op.flush().rows["n_r"].to_pylist() == [1]
    with pytest.raises(RuntimeError, match="build a new FeatureOperator"):
        op.advance(labels=99)


def test_snapshots_of_other_specs_are_refused() -> None:
    blob = sl.FeatureOperator(spec()).snapshot()
    with pytest.raises(sl.SnapshotError, match="another spec"):
        sl.FeatureOperator.restore(spec(closed="right"), blob)
    with pytest.raises(sl.SnapshotError, match="another spec"):
        sl.JoinOperator.restore(sl.JoinSpec(on="k", time="t", within=(1, 1)), blob)
    with pytest.raises(sl.SnapshotError):
        sl.FeatureOperator.restore(spec(), blob[:-1])


def test_a_spec_is_a_value() -> None:
    one = spec(ranges={"a": "1h", "b": ("2d", "1h"), "c": None, "d": (None, "-1h")}, tail={"a": "5m"}, delay="1s")
    again = eval(repr(one), {"sl": sl})
    assert one == again == pickle.loads(pickle.dumps(one)) and hash(one) == hash(again)
    assert one.fingerprint() == again.fingerprint() != spec().fingerprint()


def test_explain_says_what_is_kept_and_until_when() -> None:
    told = sl.explain(spec(ranges={"1h": "1h", "prior": ("14d", "7d")}, time=("asked", "ts")))
    assert told["events kept"] == "until the labels' watermark > ts + 14d and no label that waits reaches them"
    assert told["labels kept"] == "until the events' watermark > asked - 1us"
    assert "for ever" in sl.explain(spec(ranges={"ever": None}))["events kept"]
    schemas = labels(1).schema, events(1).schema
    assert "r: t - 10 <= t <= t - 1" in str(sl.explain(spec(), schemas))
    with pytest.raises(TypeError, match="a pair of pyarrow Schemas for features, labels and events"):
        sl.explain(spec(), schemas[0])


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranges": {}}, "ranges must be a dict with at least one entry"),
        ({"ranges": {"r": (5, 5)}}, "holds no time at all"),
        ({"ranges": {"r": (5, 7)}}, r"ranges\['r'\]=\(5, 7\) holds no time at all.* far must be larger than near"),
        ({"ranges": {"r": -5}}, r"ranges\['r'\] must be a positive duration"),
        ({"ranges": {"r": (5, None)}}, r"ranges\['r'\] must be a span, a pair \(far, near\)"),
        ({"ranges": {"r": 5, "s": "1h"}}, "all durations .* or all whole numbers"),
        ({"ranges": {"": 5}}, "ranges must have names as keys"),
        ({"aggs": {"n": "count"}}, r"aggs\['n'\] must be an aggregate, such as sl.count\(\).*; got 'count'"),
        ({"aggs": {}}, "aggs must be a dict with at least one entry"),
        ({"aggs": {"a": sl.count(), "a_b": sl.count()}, "ranges": {"b_c": 1, "c": 2}}, "two columns 'a_b_c'"),
        ({"closed": "both"}, "closed must be one of 'left', 'right'; got 'both'"),
        ({"delay": -1}, "delay must not be negative; got -1"),
        ({"tail": {"x": 5}}, "tail names 'x', which is not one of the ranges; ranges with a far end are r"),
        ({"tail": {"e": 5}, "ranges": {"e": None, "r": 1}}, "tail names 'e', which has no far end"),
        ({"tail": 0}, "tail must be a positive duration"),
        ({"wait": "no"}, "wait must be True or False; got 'no'"),
        ({"watermark": 5}, "watermark must be"),
        ({"time": 5}, "time must be the name of a column, or the labels' and the events' as a pair; got 5"),
        ({"on": ["k", "k"]}, "on names the labels column 'k' twice"),
        ({"sequence": 5}, "sequence must be the name of a column of the events or None; got 5"),
        ({"schemas": 5}, "schemas must be a pair of pyarrow schemas, the labels' and the events'; got 5"),
        ({"watermark": sl.bounded(5, at_most_ahead=9)}, "watermark of features takes no at_most_ahead"),
    ],
    ids=str,
)
def test_wrong_specs_are_refused(given: dict, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        spec(**given)


def test_wrong_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the labels have a column 'n_r', as aggs\['n'\] in ranges\['r'\] has"):
        sl.features(labels(1).append_column("n_r", [[1]]), events(1), spec(aggs=N))
    with pytest.raises(TypeError, match=r"key columns 'k' \(string\) and 'k' \(int64\) cannot be compared"):
        sl.features(labels(1), events(1, k=[1]), spec(aggs=N))
    with pytest.raises(ValueError, match="column 'x' is missing"):
        sl.features(labels(1), events(1), spec(aggs={"x": sl.sum("x")}))
    with pytest.raises(TypeError, match=r"sl.sum\('k'\): column 'k' has type string"):
        sl.features(labels(1), events(1), spec(aggs={"x": sl.sum("k")}))
    with pytest.raises(TypeError, match="not both"):
        sl.features(labels(1), events(1), spec(), on="k")
    with pytest.raises(TypeError, match=r"FeatureOperator takes a sl\.FeatureSpec; got str"):
        sl.FeatureOperator("k")


def test_labels_that_wait_for_the_events_columns_hold_the_output_back() -> None:
    op = sl.FeatureOperator(sl.FeatureSpec("k", "t", {"r": 10}, {"n": sl.count()}, idle=10))
    out = op.push_labels(pa.table({"t": [1, 2, 100], "k": ["a"] * 3}))
    assert (out.rows.num_rows, out.watermark) == (0, None)
    out = op.push_events(pa.table({"t": [100], "k": ["b"]}))
    assert out.rows["t"].to_pylist()[:2] == [1, 2] and out.watermark is not None


@pytest.mark.parametrize("keys", [3, 40])
def test_the_last_event_is_the_same_with_slices_and_without(keys: int) -> None:
    """Runs of events out of order, of which parts become slices: each partial has the times of its own rows."""
    second, base = 10**9, 1_600_000_000 * 10**9
    for seed in range(6):
        rng = np.random.default_rng(seed)

        def drawn(rows: int, rng: np.random.Generator = rng) -> pa.Table:
            time = rng.integers(0, 600 * second, rows)
            time = time[np.argsort(time + rng.integers(0, 60 * second, rows), kind="stable")]
            key = [f"k{code}" for code in rng.integers(0, keys, rows)]
            columns = {"t": pa.array(time + base).cast(pa.timestamp("ns")), "k": key, "id": np.arange(rows)}
            return pa.table(columns)

        labels, events = drawn(300), drawn(600)
        aggs = {"last": sl.last("id"), "first": sl.first("id"), "top": sl.argmax("id", "t")}
        spec = sl.FeatureSpec("k", "t", {"r": "300s", "e": None}, aggs, watermark=sl.bounded("60s"), tail="60s")
        op, rows = sl.FeatureOperator(spec), []
        for at in range(0, 300, 30):
            rows.append(op.push(labels.slice(at, 30), events.slice(2 * at, 60)).rows)
        rows.append(op.flush().rows)
        found = pa.concat_tables([part for part in rows if part.num_rows]).sort_by("id")
        assert found.equals(sl.features(labels, events, spec).sort_by("id")), f"seed {seed}"


@pytest.mark.parametrize("threads", [1, 2])
def test_ranges_in_each_other_are_answered_in_the_order_of_the_labels(threads: int) -> None:
    rng = np.random.default_rng(5)
    keys, times = rng.integers(0, 7, 10_000), np.sort(rng.integers(0, 7000, 10_000))
    events = pa.table({"k": np.arange(7000) % 7, "t": np.arange(7000), "v": np.arange(7000)})
    aggs = {"n": sl.count(), "most": sl.max("v")}
    asked = pa.table({"k": keys, "t": times})
    found = sl.features(asked, events, on="k", time="t", ranges={"a": 50, "b": 200}, aggs=aggs, threads=threads)
    for name, far in (("a", 50), ("b", 200)):
        of_key = np.arange(1000)[:, None] * 7 + keys
        held = (of_key < times) & (of_key >= times - far)
        assert found[f"n_{name}"].to_pylist() == held.sum(axis=0).tolist()
        most = np.where(held, of_key, -1).max(axis=0)
        assert found[f"most_{name}"].fill_null(-1).to_pylist() == most.tolist()


@pytest.mark.parametrize("name", ["count", "count_distinct", "approx_count_distinct", "min_count", "max_count", "sum"])
def test_a_label_before_all_events_counts_as_one_without_events(name: str) -> None:
    spec = sl.FeatureSpec("k", "t", {"r": 5}, {"x": getattr(sl, name)("v")}, wait=False)
    label = pa.table({"k": ["a"], "t": [50]})
    wanted = sl.features(label, pa.table({"k": ["a"], "t": [1], "v": [1]}), spec)
    op = sl.FeatureOperator(spec)
    assert op.push_labels(label).rows["x_r"].to_pylist() == wanted["x_r"].to_pylist() == [None if name == "sum" else 0]


@pytest.mark.parametrize("since", [0, 1_700_000_000_123_456_789, -6_900_000_000_000_000_000])
@pytest.mark.parametrize("type", [pa.int8(), pa.uint16(), pa.uint32(), pa.float16(), pa.float32(), pa.int32()], ids=str)
def test_narrow_columns_of_several_pushes_are_read_where_they_lie(type: pa.DataType, since: int) -> None:
    """Ranges of several widths reach events of several pushes; each later range begins before the one before it."""

    def events(first: int) -> pa.Table:
        ones = pa.array([100] * 20, pa.int64()).cast(pa.float64()).cast(type)
        return pa.table({"t": range(since + first, since + first + 20), "v": ones})

    aggs = {"total": sl.sum("v"), "most": sl.max("v"), "n": sl.count("v")}
    op = sl.FeatureOperator(sl.FeatureSpec([], "t", {"3": 3, "8": 8, "ever": None}, aggs, watermark=sl.manual()))
    for first in (0, 20, 40):
        op.push_events(events(first))
    op.push_labels(pa.table({"t": [since + 60, since + 45]}))
    before, last = op.flush().rows.to_pylist()
    assert [last[f"total_{name}"] for name in ("3", "8", "ever")] == [300, 800, 6000]
    assert [before[f"total_{name}"] for name in ("3", "8", "ever")] == [300, 800, 4500]
    assert {row[f"most_{name}"] for row in (last, before) for name in ("3", "8", "ever")} == {100}
    assert [last["n_3"], last["n_8"], last["n_ever"], before["n_ever"]] == [3, 8, 60, 45]


# --- first and last value ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [*product((False, True), repeat=5)])
@pytest.mark.parametrize("type", [pa.float64(), pa.int16(), pa.string(), pa.bool_(), pa.decimal128(21, 2)], ids=str)
def test_first_and_last_value(type: pa.DataType, missing: tuple[bool, ...]) -> None:
    """A null value is no first or last value, at whichever end of a range it is."""
    values = [None if gone else int(at % 2 == 0) for at, gone in enumerate(missing)]
    data = pa.table({"t": range(5), "v": pa.array(values).cast(pa.int64()).cast(type)})
    asked = pa.table({"t": range(7)})
    spans = {"two": 2, "ever": None}
    aggs = {"first": sl.first("v"), "last": sl.last("v"), "n": sl.count("v")}
    found = sl.features(asked, data, on=[], time="t", ranges=spans, aggs=aggs)
    for name, span in spans.items():
        reached = [data["v"].to_pylist()[max(0, t - (span or t)) : t] for t in range(7)]
        held = [[value for value in some if value is not None] for some in reached]
        assert found[f"n_{name}"].to_pylist() == list(map(len, held))
        assert found[f"first_{name}"].to_pylist() == [some[0] if some else None for some in held]
        assert found[f"last_{name}"].to_pylist() == [some[-1] if some else None for some in held]
