"""Joins at their edges: ends of bands and of 64 bits, units, zones, forms of keys, columns, unknown sides, failures."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl
from slicing.query.policy import Policy

BIG = (1 << 63) - 1
KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def rows_of(out: sl.JoinOutput) -> list[dict]:
    return out.rows.to_pylist()


def left(*times: int, **more: list) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "a": pa.array(range(len(times)), pa.int64())} | more)


def right(*times: int, **more: list) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "b": pa.array(range(len(times)), pa.int64())} | more)


# --- the ends of bands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("closed", "expected"),
    [("both", [7, 8, 15, 16]), ("left", [7, 8, 15]), ("right", [8, 15, 16]), ("none", [8, 15])],
)
@pytest.mark.parametrize("base", [0, 1_700_000_000_000_000_000, -(1 << 63) + 10, BIG - 20])
@pytest.mark.parametrize("order", ["left first", "right first"])
def test_a_row_exactly_at_each_end_and_a_tick_beyond(closed: str, expected: list[int], base: int, order: str) -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(3, 6), closed=closed, watermark=sl.manual())
    op, one, other = sl.JoinOperator(spec), left(base + 10), right(*(base + t for t in (6, 7, 8, 15, 16, 17)))
    pushes = [op.push_left(one), op.push_right(other)] if order == "left first" else []
    pushes = pushes or [op.push_right(other), op.push_left(one)]
    found = [row["t_right"] - base for out in pushes for row in rows_of(out)]
    assert found == expected


@pytest.mark.parametrize(("within", "expected"), [((-1, 5), [11, 15]), ((5, -1), [5, 9]), ((0, 0), [10])])
def test_ends_may_be_negative(within: tuple[int, int], expected: list[int]) -> None:
    found = sl.join(left(10), right(4, 5, 9, 10, 11, 15, 16), on=[], time="t", within=within)
    assert found["t_right"].to_pylist() == expected


def test_an_output_watermark_before_all_times_is_none() -> None:
    op = sl.JoinOperator(sl.JoinSpec([], "t", (5, 10), event_time="left", watermark=sl.manual()))
    op.push(left(-BIG + 20), right(-BIG + 20))
    assert op.advance(left=-BIG + 15, right=-BIG + 8).watermark is None
    assert op.advance(right=-BIG + 9).watermark == -BIG - 1
    assert op.advance(right=-BIG + 11).watermark == -BIG + 1


@pytest.mark.parametrize("within", [(10, 10), (-5, 10), (10, -5), (1 << 59, 1 << 59)])
def test_bands_that_reach_beyond_64_bits(within: tuple[int, int]) -> None:
    times = [-BIG - 1, -BIG, -BIG + 7, 0, BIG - 7, BIG - 1, BIG]
    found = sl.join(left(*times), right(*times), on=[], time="t", within=within)
    before, after = within
    expected = [(a, b) for a in times for b in times if a - before <= b <= a + after]
    assert list(zip(found["t"].to_pylist(), found["t_right"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("how", KINDS)
def test_watermarks_at_the_ends_of_64_bits_leave_nothing_behind(how: str) -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(-5, 10), how=how, watermark=sl.manual())
    op, times = sl.JoinOperator(spec), [-BIG - 1, BIG - 3, BIG]
    op.push(left(*times), right(*times))
    out = op.advance(left=BIG, right=BIG)
    assert out.stats.held <= 4
    op.flush()


def test_a_jump_of_the_time_costs_nothing() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(1, 1))
    op = sl.JoinOperator(spec)
    for time in (0, 10**12, 10**18):
        op.push_left(left(time))
        out = op.push_right(right(time))
        assert [row["t"] for row in rows_of(out)] == [time]
    assert out.stats.held == 2


# --- progress ---------------------------------------------------------------------------------------------------------


def test_a_row_at_the_watermark_is_in_time_and_one_before_it_is_late() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(5, 5), watermark=sl.manual()))
    op.push_right(right(95))
    op.advance(left=100)
    out = op.push_left(left(99, 100))
    assert out.late_left.to_pylist() == [{"t": 99, "a": 0, "reason": "late"}]
    assert [row["t"] for row in rows_of(out)] == [100]
    assert (out.stats.left, out.stats.late_left) == (2, 1)


def test_late_is_judged_by_the_watermark_before_the_push() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(100, 100)))
    assert op.push_left(left(50, 1, 99)).stats.late_left == 0
    assert op.push_left(left(98)).stats.late_left == 1


@pytest.mark.parametrize("how", ["left", "anti"])
def test_a_row_that_is_done_when_it_comes_still_comes_alone(how: str) -> None:
    """SPARK-49829: in time by the old watermark, and beyond the new one of the same push."""
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), how=how))
    out = op.push(left(10), right(0, 100))
    assert [row["a"] for row in rows_of(out)] == [0]
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), how=how, watermark=sl.manual()))
    op.push_right(right(1))
    op.advance(right=50)
    assert [row["a"] for row in rows_of(op.push_left(left(10)))] == [0]


def test_a_row_that_is_done_when_it_comes_has_its_partners() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), how="left", watermark=sl.manual()))
    op.push_right(right(12))
    op.advance(right=50)
    out = op.push_left(left(10))
    assert [row["t_right"] for row in rows_of(out)] == [12]
    assert out.stats.held == 1


def test_a_row_whose_partner_left_before_it_does_not_come_alone() -> None:
    """SPARK-26154."""
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 50), how="left", watermark=sl.manual()))
    assert len(rows_of(op.push(left(10), right(12)))) == 1
    assert op.advance(left=100).stats.held == 1  # the right row has left
    out = op.advance(right=100)
    assert out.stats.held == 0 and rows_of(out) == []


def test_a_side_first_seen_after_the_other_has_ended_meets_what_waits() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), how="full", watermark=sl.manual()))
    op.push_left(left(10, 20))
    op.advance(left=BIG)
    out = op.push_right(right(12, 40))
    assert [(row["t"], row["t_right"]) for row in rows_of(out)] == [(10, 12), (None, 40)]  # no left row will come
    assert out.stats.held == 2
    assert [(row["t"], row["t_right"]) for row in rows_of(op.flush())] == [(20, None)]


@pytest.mark.parametrize("how", KINDS)
def test_batches_without_rows_change_nothing(how: str) -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), how=how, watermark=sl.bounded(3)))
    assert op.push(left(), right()).rows.num_rows == 0
    op.push_left(left(10))
    before = op.snapshot()
    for out in (op.push_left(left()), op.push_right(right()), op.push(left(), right())):
        assert out.rows.num_rows == 0 and out.stats.held == 1
        assert (out.stats.left, out.stats.right, out.late_left.num_rows) == (0, 0, 0)
    assert op.snapshot() == before


@pytest.mark.parametrize(("how", "count"), [("inner", 12), ("left", 12), ("full", 12), ("semi", 3), ("anti", 0)])
@pytest.mark.parametrize("first", ["left", "right", "both"])
def test_rows_alike_are_each_a_partner_of_each(how: str, count: int, first: str) -> None:
    """Three and four of one moment: a semi join gives each left row once, however many partners come at once."""
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0), how=how, watermark=sl.manual()))
    sides = left(7, 7, 7), right(7, 7, 7, 7)
    if first == "both":
        found = rows_of(op.push(*sides))
    else:
        pushes = [lambda: op.push_left(sides[0]), lambda: op.push_right(sides[1])]
        found = [row for push in pushes[:: 1 if first == "left" else -1] for row in rows_of(push())]
    assert len(found) == count and len({row["a"] for row in found}) == (3 if count else 0)
    if count == 12:
        assert len({(row["a"], row["b"]) for row in found}) == 12
    assert rows_of(op.flush()) == []


def test_each_side_is_let_go_by_the_others_watermark() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(3, 7), watermark=sl.manual()))
    op.push(left(100), right(100))
    assert op.advance(right=107).stats.held == 2
    assert op.advance(right=108).stats.held == 1  # the left row waits for `after`
    assert op.advance(left=103).stats.held == 1
    assert op.advance(left=104).stats.held == 0  # the right one for `before`


def test_a_side_that_never_has_a_row_is_bounded_by_idle() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), idle=10))
    held = [op.push_left(left(*range(at, at + 10))).stats.held for at in range(0, 1000, 10)]
    assert max(held) <= 26
    assert [row["t"] for row in rows_of(op.push_right(right(992)))] == list(range(987, 993))


def test_a_silent_side_makes_rows_late_by_idle_too() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), idle=10))
    op.push_left(left(100))
    assert op.push_right(right(89, 90)).late_right["t"].to_pylist() == [89]


@pytest.mark.parametrize(("progress", "late"), [("each", 1), ("least", 0)])
def test_with_least_progress_both_sides_are_judged_by_the_smaller_watermark(progress: str, late: int) -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), progress=progress))
    op.push(left(100), right(50))
    assert op.push_left(left(60)).stats.late_left == late


def test_watermarks_never_go_back() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), event_time="max"))
    assert op.push(left(100), right(100)).watermark == 100
    assert op.advance(left=50, right=50).watermark == 100


def test_watermarks_given_before_the_first_rows_hold() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), watermark=sl.manual()))
    op.advance(left=100)
    op.advance(right=20)
    assert op.push_left(left(99, 101)).stats.late_left == 1
    out = op.push_right(right(19, 102))
    assert out.stats.late_right == 1 and [row["t"] for row in rows_of(out)] == [101]


@pytest.mark.parametrize("word", ["2024-05-01T12:00", datetime(2024, 5, 1, 12), np.datetime64("2024-05-01T12:00")])
def test_watermarks_are_given_as_times(word: object) -> None:
    time = pa.array([datetime(2024, 5, 1, 11), datetime(2024, 5, 1, 13)], pa.timestamp("ms"))
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=("0s", "1h"), watermark=sl.manual()))
    op.advance(left=word)
    out = op.push_left(pa.table({"t": time}))
    assert out.stats.late_left == 1


def test_policies_of_the_two_sides_read_columns_of_their_own() -> None:
    policies = sl.punctuated("done"), sl.per_source("host", 5)
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(10, 10), watermark=policies, event_time="max"))
    op.push_left(left(10, 20, done=pa.array([False, True])))
    out = op.push_right(right(30, 12, host=["x", "y"]))
    assert out.watermark == 7
    assert op.push_left(left(19, done=pa.array([False]))).stats.late_left == 1


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nulls_equal", "pairs"), [(False, 1), (True, 2)])
def test_a_null_key_has_no_partner_unless_nulls_are_equal(nulls_equal: bool, pairs: int) -> None:
    keys = pa.array(["x", None])
    spec = {"on": "k", "time": "t", "within": (0, 0), "nulls_equal": nulls_equal}
    assert sl.join(left(1, 1, k=keys), right(1, 1, k=keys), **spec).num_rows == pairs
    assert sl.join(left(1, 1, k=keys), right(1, 1, k=keys), **spec, how="full").num_rows == 4 - pairs


def test_a_null_in_one_of_several_keys_is_enough() -> None:
    one, two = pa.array([1, 1, None]), pa.array(["x", None, "x"])
    found = sl.join(left(1, 1, 1, k=one, m=two), right(1, 1, 1, k=one, m=two), on=["k", "m"], time="t", within=(0, 0))
    assert found.select(["k", "m"]).to_pylist() == [{"k": 1, "m": "x"}]


def test_minus_zero_is_zero_and_all_nan_are_one() -> None:
    nan = np.array([0x7FF8000000000001, 0x7FF8000000000000], np.int64).view(np.float64)
    one, other = pa.array([0.0, nan[0]]), pa.array([-0.0, nan[1]])
    found = sl.join(left(1, 1, k=one), right(1, 1, k=other), on="k", time="t", within=(0, 0))
    assert found["a"].to_pylist() == [0, 1] == found["b"].to_pylist()


FORMS = [
    (pa.array([1, 2], pa.int32()), pa.array([2, 1], pa.int64()), pa.int64()),
    (pa.array([1, 2], pa.uint8()), pa.array([2, 1], pa.uint64()), pa.uint64()),
    (pa.array(["x", "y"]), pa.array(["y", "x"], pa.large_string()), pa.large_string()),
    (pa.array(["x", "y"]), pa.array(["y", "x"]).dictionary_encode(), pa.string()),
    (pa.array(["x", "y"], pa.string_view()), pa.array(["y", "x"]), pa.string()),
    (pa.array([b"x", b"y"]), pa.array([b"y", b"x"], pa.large_binary()), pa.large_binary()),
    (pa.array([1, 2], pa.timestamp("s")), pa.array([2000, 1000], pa.timestamp("ms")), pa.timestamp("ms")),
    (pa.array([1, 2], pa.duration("s")), pa.array([2000, 1000], pa.duration("ms")), pa.duration("ms")),
]


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(("one", "other", "type"), FORMS, ids=[f"{a.type}-{b.type}" for a, b, _ in FORMS])
@pytest.mark.parametrize("first", ["left", "right", "whole"])
def test_keys_of_other_widths_forms_and_units_are_equal(
    one: pa.Array, other: pa.Array, type: pa.DataType, how: str, first: str
) -> None:
    """Also when the side of the coarser type comes first, and its rows are kept already."""
    lefts, rights = left(1, 2, k=one), right(2, 1, 5, k=pa.concat_arrays([other, other[:1]]))
    spec = sl.JoinSpec(on="k", time="t", within=(0, 0), how=how, watermark=sl.manual())
    if first == "whole":
        found = sl.join(lefts, rights, spec)
    else:
        op = sl.JoinOperator(spec)
        pushes = [op.push_left, op.push_right]
        steps = zip(pushes, [lefts, rights], strict=True)
        outs = [push(data) for push, data in (steps if first == "left" else reversed(list(steps)))]
        tables = [out.rows for out in [*outs, op.flush()] if out.rows.num_rows]
        found = pa.concat_tables(tables) if tables else None
    pairs = {"inner": 2, "left": 2, "right": 3, "full": 3, "semi": 2, "anti": 0}[how]
    assert (0 if found is None else found.num_rows) == pairs
    if found is not None and how not in ("semi", "anti"):
        assert found.schema.field("k").type == type
        assert found["k"].null_count == 0


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (pa.int64(), pa.uint64(), "signedness"),
        (pa.int64(), pa.string(), "must have one type"),
        (pa.float32(), pa.float64(), "must have one type"),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), "time zone"),
    ],
)
def test_keys_that_cannot_be_compared_are_refused_by_name_and_type(
    one: pa.DataType, other: pa.DataType, words: str
) -> None:
    lefts, rights = left(1, k=pa.nulls(1, one)), right(1, m=pa.nulls(1, other))
    with pytest.raises(TypeError, match=f"(?s)'k'.*'m'.*{words}") as refused:
        sl.join(lefts, rights, on=[("k", "m")], time="t", within=(0, 0))
    assert str(one) in str(refused.value) and str(other) in str(refused.value)


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_times_of_two_units_are_compared_exactly_in_the_finer_one(first: int) -> None:
    lefts = pa.table({"t": pa.array([1_700_000_000, 1_700_000_001], pa.timestamp("s")), "a": [0, 1]})
    ns = [1_700_000_000 * 10**9 - 1, 1_700_000_000 * 10**9, 1_700_000_001 * 10**9 + 1]
    rights = pa.table({"t": pa.array(ns, pa.timestamp("ns")), "b": [0, 1, 2]})
    spec = sl.JoinSpec(
        on=[], time="t", within=("0s", "1s"), event_time="max", watermark=(sl.bounded("1s"), sl.bounded("1ns"))
    )
    op = sl.JoinOperator(spec)
    outs = [op.push_left(lefts), op.push_right(rights)] if first == 0 else [op.push_right(rights), op.push_left(lefts)]
    found = [(row["a"], row["b"]) for out in outs for row in rows_of(out)]
    assert sorted(found) == [(0, 1), (1, 2)]
    assert outs[-1].rows.schema.field("t").type == pa.timestamp("s")
    assert outs[-1].rows.schema.field("event_time").type == pa.timestamp("ns")
    assert outs[-1].watermark == datetime(2023, 11, 14, 22, 13, 20)
    again = sl.JoinOperator.restore(spec, op.snapshot())
    assert again.snapshot() == op.snapshot()


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_band_may_be_finer_than_the_unit_of_the_side_that_comes_first(first: int, unit: str) -> None:
    """1.2 ms is no whole number of milliseconds, and need not be one where the other side has microseconds."""
    spec = sl.JoinSpec(on=[], time="t", within=("0s", "1200us"), how="left", watermark=sl.manual())
    base, step = 1_774_747_200_000, {"us": 1, "ns": 1000}[unit]
    coarse = pa.table({"t": pa.array([base, base + 5], pa.timestamp("ms"))})
    fine = [(base * 1000 + 1200) * step, (base * 1000 + 6201) * step]
    pushes = [("push_left", coarse), ("push_right", pa.table({"u": pa.array(fine, pa.timestamp(unit))}))]
    spec = dataclasses.replace(spec, time=("t", "u"))
    op = sl.JoinOperator(spec)
    for push, rows in pushes if first == 0 else reversed(pushes):
        getattr(op, push)(rows)
        op = sl.JoinOperator.restore(spec, op.snapshot())
    found = sl.join(coarse, pushes[1][1], spec).cast(pa.schema([("t", pa.int64()), ("u", pa.int64())]))
    assert found["u"].to_pylist() == [fine[0], None]
    op = sl.JoinOperator(spec)
    given = [rows_of(getattr(op, push)(rows)) for push, rows in (pushes if first == 0 else reversed(pushes))]
    assert [len(rows) for rows in [*given, rows_of(op.flush())]] == [0, 1, 1]


def test_a_band_finer_than_both_units_is_refused_when_these_are_known() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=("0s", "1200us"), watermark=sl.manual())
    rows = pa.table({"t": pa.array([1], pa.timestamp("ms"))})
    op = sl.JoinOperator(spec)
    op.push_left(rows)
    before = op.snapshot()
    with pytest.raises(ValueError, match="whole number of milliseconds"):
        op.push_right(rows)
    assert op.snapshot() == before


def test_times_that_do_not_fit_the_finer_unit_are_refused() -> None:
    lefts = pa.table({"t": pa.array([1 << 40], pa.timestamp("s"))})
    rights = pa.table({"u": pa.array([5], pa.timestamp("ns"))})
    with pytest.raises(ValueError, match=r"time column 't' .* does not fit the finer unit"):
        sl.join(lefts, rights, on=[], time=("t", "u"), within=("0s", "1s"))


@pytest.mark.parametrize(
    ("one", "other"),
    [(pa.timestamp("us"), pa.timestamp("us", "UTC")), (pa.int64(), pa.timestamp("us")), (pa.int64(), pa.uint64())],
)
def test_times_that_cannot_be_compared_are_refused_by_name_and_type(one: pa.DataType, other: pa.DataType) -> None:
    lefts, rights = pa.table({"t": pa.nulls(0, one)}), pa.table({"u": pa.nulls(0, other)})
    with pytest.raises(TypeError, match=r"time columns 't' .* and 'u' .* cannot be compared"):
        sl.join(lefts, rights, on=[], time=("t", "u"), within=(0, 0))


@pytest.mark.parametrize("type", [pa.int8(), pa.uint16(), pa.uint64(), pa.date32(), pa.timestamp("ms", "Asia/Tokyo")])
def test_all_kinds_of_times_can_be_joined(type: pa.DataType) -> None:
    times = pa.array([3, 5, 9], pa.int32() if type == pa.date32() else pa.int64()).cast(type)
    within = (0, 2) if pa.types.is_integer(type) else ("0s", "2d") if type == pa.date32() else ("0s", "2ms")
    found = sl.join(pa.table({"t": times}), pa.table({"t": times}), on=[], time="t", within=within)
    assert found.num_rows == 4 and found.schema.types == [type, type]


def test_windows_of_local_days_follow_the_clocks() -> None:
    """29 March 2026 has 23 hours in Berlin."""
    hours = [datetime(2026, 3, 28, 23, tzinfo=UTC) + timedelta(hours=h) for h in range(-1, 24)]
    lefts = pa.table({"t": pa.array(hours, pa.timestamp("us", "UTC"))})
    rights = pa.table({"t": pa.array([hours[1]], pa.timestamp("us", "UTC")), "b": [1]})
    found = sl.join(lefts, rights, on=[], time="t", within=sl.calendar("1d", tz="Europe/Berlin"))
    assert found["t"].to_pylist() == hours[1:24]
    length = found["window_end"][0].as_py() - found["window_start"][0].as_py()
    assert length == timedelta(hours=23)


@pytest.mark.parametrize("window", [sl.tumbling("1d"), sl.calendar("1d")])
def test_a_window_is_kept_until_the_other_watermark_reaches_its_end(window: object) -> None:
    day = [datetime(2026, 1, 1, h) for h in (0, 23)]
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=window, how="left", watermark=sl.manual()))
    op.push(pa.table({"t": pa.array(day, pa.timestamp("us"))}), pa.table({"t": pa.array(day[:0], pa.timestamp("us"))}))
    assert op.advance(right=datetime(2026, 1, 1, 23, 59)).stats.held == 2
    out = op.advance(right=datetime(2026, 1, 2))
    assert out.stats.held == 0 and out.rows["window_start"].to_pylist() == [day[0]] * 2
    assert op.advance(left=datetime(2026, 1, 2, 12)).watermark == datetime(2026, 1, 2)


@pytest.mark.parametrize("about", ["window", "min"])
def test_results_of_windows_have_come_as_far_as_both_sides(about: str) -> None:
    spec = sl.JoinSpec([], "t", sl.tumbling(10), event_time=about, watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push(left(1), right(2))
    assert op.advance(left=35).watermark is None
    assert op.advance(right=12).watermark == 10, "rows of the right from 12 on meet those of the left from 10 on"
    assert op.advance(right=47).watermark == 30
    assert op.push_left(left(35)).rows.num_rows == 0


def test_null_times() -> None:
    times = pa.table({"t": pa.array([1, None], pa.int64()), "a": [0, 1]})
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0)))
    with pytest.raises(ValueError, match="time column 't' of the left side is null in row 1"):
        op.push_left(times)
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0), on_null_time="late"))
    out = op.push_left(times)
    assert out.late_left.to_pylist() == [{"t": None, "a": 1, "reason": "null time"}]
    assert (out.stats.left, out.stats.late_left, out.stats.null_time, out.stats.held) == (2, 0, 1, 1)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_columns_are_the_lefts_then_the_rights() -> None:
    lefts = pa.table({"k": [1], "x": [1], "t": [1]})
    rights = pa.table({"t": [1], "x": [2], "m": [1], "y": [3]})
    found = sl.join(lefts, rights, on=[("k", "m")], time="t", within=(0, 0))
    assert found.column_names == ["k", "x", "t", "t_right", "x_right", "m", "y"]
    found = sl.join(lefts, rights, on=[("k", "m")], time="t", within=sl.tumbling(5), event_time="min", suffix="2")
    names = ["window_start", "window_end", "k", "x", "t", "t2", "x2", "m", "y", "event_time"]
    assert found.column_names == names


def test_names_that_clash_are_refused() -> None:
    with pytest.raises(ValueError, match="two columns 't_right'"):
        sl.join(left(1, t_right=[1]), right(1), on=[], time="t", within=(0, 0))
    with pytest.raises(ValueError, match="two columns 'window_start'"):
        sl.join(left(1, window_start=[1]), right(1), on=[], time="t", within=sl.tumbling(5))


TYPED = {
    "v": pa.array(["x"], pa.string_view()),
    "d": pa.array(["x"]).dictionary_encode(),
    "l": pa.array([[1, 2]]),
    "r": pa.array([{"p": 1}]),
    "e": pc.run_end_encode(pa.array([7])),
    "n": pa.nulls(1),
    "q": pa.array([1], pa.decimal128(9, 2)),
    "s": pa.StructArray.from_arrays([pa.array(["x"], pa.string_view()), pa.array([1])], ["a", "b"]),
    "u": pa.array([["x"]], pa.list_(pa.string_view())),
    "w": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x"], pa.string_view())),
}
SHOWN = {
    "v": pa.string(),
    "e": pa.int64(),
    "s": pa.struct({"a": pa.string(), "b": pa.int64()}),
    "u": pa.list_(pa.string()),
    "w": pa.dictionary(pa.int64(), pa.string()),
}


@pytest.mark.parametrize("how", ["inner", "full"])
def test_types_come_back_as_they_went_in(how: str) -> None:
    """But for views and run-end encoded columns, of which Arrow cannot take rows."""
    rights = pa.table({"t": [1], **TYPED})
    found = sl.join(left(1, 9), rights, on=[], time="t", within=(0, 0), how=how)
    for name, column in TYPED.items():
        assert found.schema.field(name).type == SHOWN.get(name, column.type), name
        assert found.take([0])[name].to_pylist() == column.to_pylist(), name
    asked = sl.FeatureSpec(on=[], time="t", ranges={"r": 5}, aggs={"least": sl.count()})
    labelled = sl.features(rights, left(1), asked)
    for name, column in TYPED.items():
        assert labelled.schema.field(name).type == SHOWN.get(name, column.type), name
        assert labelled.take([0])[name].to_pylist() == column.to_pylist(), name


def test_dictionaries_that_differ_from_batch_to_batch() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(100, 100), how="full"))
    for n, word in enumerate(["x", "y", "x"]):
        op.push_left(left(n, k=pa.array([word]).dictionary_encode(), w=pa.array([word]).dictionary_encode()))
    out = op.push_right(right(5, 6, k=pa.array(["x", "z"]).dictionary_encode()))
    assert [(row["k"], row["w"], row["b"]) for row in rows_of(out)] == [("x", "x", 0), ("x", "x", 0)]
    assert {row["k"] for row in rows_of(op.flush())} == {"y", "z"}


# --- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", KINDS)
def test_where_that_is_never_true_leaves_rows_alone(how: str) -> None:
    for where in (pc.field("b") > 10**6, pc.field("b") > pa.scalar(None, pa.int64())):
        spec = {"on": [], "time": "t", "within": (5, 5), "how": how, "where": where}
        found = sl.join(left(1, 2), right(1, 2, 3), **spec)
        assert found.num_rows == {"inner": 0, "left": 2, "right": 3, "full": 5, "semi": 0, "anti": 2}[how]


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("piece", [1, 4, 1 << 18])
def test_a_left_row_leaves_with_its_first_true_partner(how: str, piece: int) -> None:
    asked = sl.JoinSpec([], "t", (5, 5), how=how, where=pc.field("b") > 2, watermark=sl.manual())
    op = sl.JoinOperator(asked, policy=Policy(tested_pairs=piece))
    op.push_left(left(1, 2, 30))
    assert op.push_right(right(1, 2, 3)).rows.num_rows == 0, "b is 0 to 2: where is true for none"
    out = op.push_right(right(1, 1, 1, 2, 3, 3))
    assert out.rows["a"].to_pylist() == ([0, 1] if how == "semi" else [])
    assert out.stats.held == 10, "a left row, and all of the right"
    assert op.push_right(right(1, 1, 1, 2, 3)).rows.num_rows == 0, "each left row once"
    assert op.flush().rows["a"].to_pylist() == ([] if how == "semi" else [2])


def test_where_may_read_right_columns_of_a_semi_join() -> None:
    found = sl.join(left(1, 9), right(1, 9), on=[], time="t", within=(0, 0), how="semi", where=pc.field("b") == 1)
    assert found.to_pylist() == [{"t": 9, "a": 1}]


def test_where_may_read_windows_and_event_times() -> None:
    spec = {"on": [], "time": "t", "within": sl.tumbling(5), "how": "left", "event_time": "max"}
    in_window = pc.field("t") > pc.field("window_start")
    assert sl.join(left(5, 6), right(7), **spec, where=in_window)["b"].to_pylist() == [None, 0]
    assert sl.join(left(5, 8), right(7), **spec, where=pc.field("event_time") > 7)["b"].to_pylist() == [None, 0]
    asof = {"on": [], "time": "t", "within": (None, 9), "match": "last", "event_time": "min"}
    assert sl.join(left(5), right(3, 7), **asof, where=pc.field("event_time") < 5)["b"].to_pylist() == [0]


@pytest.mark.parametrize("where", [pc.field("missing") > 1, pc.field("a") + 1, pc.field("a") == "x"])
def test_a_condition_that_cannot_be_asked_is_refused_and_changes_nothing(where: pc.Expression) -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0), where=where, watermark=sl.manual()))
    op.push_left(left(1))
    before = op.snapshot()
    with pytest.raises((TypeError, ValueError), match="where="):
        op.push_right(right(1))
    assert op.snapshot() == before


# --- a side that is unknown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_rows_without_a_partner_wait_for_the_columns_of_the_other_side(known: bool) -> None:
    schemas = (left().schema, right().schema) if known else None
    op = sl.JoinOperator(
        sl.JoinSpec(on=[], time="t", within=(0, 5), how="left", watermark=sl.manual(), schemas=schemas)
    )
    op.push_left(left(10, 100))
    out = op.advance(right=50)
    assert len(rows_of(out)) == known
    out = op.push_right(right())
    assert rows_of(out) == ([] if known else [{"t": 10, "a": 0, "t_right": None, "b": None}])
    assert out.stats.held == 1


def test_at_flush_an_unknown_side_has_no_columns() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=["k"], time="t", within=(0, 5), how="full"))
    op.push_left(left(10, 20, k=["x", None]))
    assert rows_of(op.flush()) == [{"t": 10, "a": 0, "k": "x"}, {"t": 20, "a": 1, "k": None}]
    op = sl.JoinOperator(sl.JoinSpec(on=["k"], time="t", within=(0, 5), how="full"))
    assert op.flush().rows.num_columns == 0


@pytest.mark.parametrize("match", ["last", "first", "nearest"])
def test_a_condition_is_asked_of_no_pair_while_a_side_is_unknown(match: str) -> None:
    where = pc.field("a") < pc.field("b")
    spec = sl.JoinSpec(on="k", time="t", within=(5, 5), how="left", match=match, where=where, watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push_left(pa.table({"t": [1, 2**62], "k": ["x", "y"], "a": [1, 2]}))
    assert op.advance(left=10, right=10).rows.num_rows == 0
    assert op.flush().rows["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("progress", "idle"), [("least", None), ("each", 5)])
def test_a_watermark_counts_before_the_first_rows_of_its_side(known: bool, progress: str, idle: int | None) -> None:
    schemas = (left().schema, right().schema) if known else None
    spec = sl.JoinSpec([], "t", (5, 5), "left", progress=progress, idle=idle, watermark=sl.manual(), schemas=schemas)
    op = sl.JoinOperator(spec)
    op.advance(left=20 if idle else 100, right=30)
    op = sl.JoinOperator.restore(spec, op.snapshot())
    assert op.push_left(left(24, 25, 29, 30)).late_left["t"].to_pylist() == ([24] if idle else [24, 25, 29])
    assert op.advance(right=40).watermark == (35 if known else None)  # rows wait for the columns they come with
    op = sl.JoinOperator.restore(spec, op.snapshot())
    assert op.push_left(left(34, 39)).late_left["t"].to_pylist() == ([34] if idle else [34, 39])
    out = op.push_right(right(39, 40))
    assert out.late_right["t"].to_pylist() == [39]
    assert out.watermark == 35


@pytest.mark.parametrize(
    ("mark", "late"),
    [
        (datetime(1970, 1, 1, 0, 0, 10), 2),
        (np.datetime64(10_000_000_001, "ns"), None),  # finer than the left side's column and the band
        (10_000_000_000, None),  # of a unit that the right side's column will have
    ],
)
def test_a_watermark_of_an_unknown_unit_counts_from_the_first_rows_of_its_side_on(
    mark: object, late: int | None
) -> None:
    op = sl.JoinOperator(sl.JoinSpec([], "t", ("5s", "5s"), progress="least", watermark=sl.manual()))
    op.advance(left=datetime(2000, 1, 1), right=mark)
    times = pa.table({"t": pa.array([8000, 9999, 10_000], pa.timestamp("ms")), "a": [0, 1, 2]})
    assert op.push_left(times).stats.late_left == (late or 0)
    op.push_right(pa.table({"t": pa.array([], pa.timestamp("ns")), "b": pa.array([], pa.int64())}))
    assert op.push_left(times).stats.late_left == (late or (3 if mark != 10_000_000_000 else 2))


def test_inner_joins_let_go_what_an_unknown_side_cannot_meet() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 5), idle=10))
    assert op.push_left(left(1, 100)).stats.held == 1


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_a_watermark_at_the_end_of_64_bits_lets_go_what_others_have_left_beside(how: str) -> None:
    """One left row has gone with its partner, and its run is not swept yet."""
    schemas = (left().schema, right().schema)
    op = sl.JoinOperator(sl.JoinSpec([], "t", (7, -5), how, watermark=sl.manual(), schemas=schemas))
    outs = [op.push_left(left(*range(BIG - 39, BIG + 1))), op.push_right(right(BIG - 20)), op.advance(right=BIG)]
    met = [row["t"] for out in outs[:2] for row in rows_of(out)]
    alone = [row["t"] for row in rows_of(outs[2])]
    partners = [BIG - 15, BIG - 14, BIG - 13]
    assert outs[2].stats.held == 1  # the right row
    assert (met, alone) == (
        (partners, []) if how == "semi" else ([], [*range(BIG - 39, BIG - 15), *range(BIG - 12, BIG + 1)])
    )


# --- as-of ------------------------------------------------------------------------------------------------------------


def test_ties_in_time_go_to_the_last_by_sequence_then_arrival() -> None:
    rights = right(5, 5, 5, s=[2, 3, 3])
    spec = {"on": [], "time": "t", "within": (None, 0), "match": "last"}
    assert sl.join(left(5), rights, **spec, sequence="s")["b"].to_pylist() == [2]
    assert sl.join(left(5), right(5, 5, 5, s=[3, 2, 1]), **spec, sequence="s")["b"].to_pylist() == [0]
    assert sl.join(left(5), right(5, 5, 5, s=[3, None, 1]), **spec)["b"].to_pylist() == [2]
    assert sl.join(left(5), right(5, 5, s=pa.array([None, -7])), **spec, sequence="s")["b"].to_pylist() == [1]
    for sequence in (pa.array([2**64 - 1, 2**63, 5], pa.uint64()), pa.array([7, -3, -8], pa.duration("us"))):
        assert sl.join(left(5), right(5, 5, 5, s=sequence), **spec, sequence="s")["b"].to_pylist() == [0]


@pytest.mark.parametrize("size", [2006, 2001, 1])
@pytest.mark.parametrize("asks_both", [False, True])
def test_sequence_orders_rows_of_equal_time_before_arrival(size: int, asks_both: bool) -> None:
    """Rows of another key come first, so that rows of one time are in one run or in several."""
    others = 2000 if size > 1 else 0
    names = ["z"] * others + ["x"] * 6
    rights = right(*[8] * others, 8, 8, 8, 12, 12, 12, s=[0] * others + [1, 3, 1, 5, 4, 5], k=names)
    where = pc.field("b") >= pc.field("a") if asks_both else None
    for match, far, expected in (("last", 20, 5), ("first", 20, 0), ("nearest", 10, 1), ("nearest", 11, 5)):
        spec = sl.JoinSpec(on="k", time="t", within=(12, 4), match=match, sequence="s", where=where, how="left")
        op = sl.JoinOperator(spec)
        for at in range(0, len(rights), size):
            op.push_right(rights[at : at + size])
        found = rows_of(op.push_left(left(far, k=["x"]))) + rows_of(op.flush())
        assert [row["b"] for row in found] == [others + expected]


def test_of_two_equally_near_the_earlier_and_of_equal_times_the_last() -> None:
    spec = {"on": [], "time": "t", "within": (None, None), "match": "nearest"}
    for where in (None, pc.field("b") < 9):
        assert sl.join(left(10), right(8, 12, 12, 8), **spec, where=where)["b"].to_pylist() == [3]
        assert sl.join(left(10), right(7, 12, 12), **spec, where=where)["b"].to_pylist() == [2]
    ends = sl.join(left(-BIG - 1, BIG, 0), right(-BIG - 1, BIG), **spec)
    assert ends["b"].to_pylist() == [0, 1, 1]


def test_the_past_without_a_bound_stays_after_a_restart() -> None:
    spec = sl.JoinSpec(on="k", time="t", within=(None, 0), match="last", how="left")
    op = sl.JoinOperator(spec)
    op.push_right(right(1, 2, 1, k=["x", "x", "y"]))
    for time in range(10**6, 10**7, 10**6):
        op = sl.JoinOperator.restore(spec, op.snapshot())
        op.push_left(left(time, k=["x"]))
        out = op.push_right(right(time + 1, k=["z"]))
        assert [row["b"] for row in rows_of(out)] == [1]
    assert (
        out.stats.held == 4
    )  # of x its last row, of y its only one; of z the last before the watermark, and one after


def test_a_stream_of_quotes_keeps_one_a_key() -> None:
    spec = sl.JoinSpec(on="k", time="t", within=(None, 0), match="last", how="left")
    op, rng = sl.JoinOperator(spec), np.random.default_rng(5)
    for step in range(20):
        t = np.sort(rng.integers(1000 * step, 1000 * (step + 1), 500))
        k = rng.integers(0, 10, 500)
        out = op.push(left(*t[:50].tolist(), k=k[:50]), right(*t.tolist(), k=k))
    assert out.stats.held < 600
    assert op.advance(left=10**6, right=10**6).stats.held == 10


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        pa.table({"t": [5], "k": [1]}),
        pa.table({"t": pa.array([None], pa.int64()), "k": ["new"], "b": [1]}),
        pa.table({"t": [5], "k": ["new"], "b": ["text"]}),
    ],
    ids=["column", "null time", "type"],
)
def test_a_push_that_fails_leaves_the_operator_as_it_was(bad: pa.Table) -> None:
    op = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(5, 5), how="full"))
    op.push(left(1, 2, k=["x", "y"]), right(1, k=["x"]))
    before = op.snapshot()
    with pytest.raises((TypeError, ValueError)):
        op.push(left(9, k=["newer"]), bad)
    assert op.snapshot() == before
    assert len(rows_of(op.push_right(right(2, k=["y"])))) == 1


def test_streams_that_promise_order_and_break_it_are_refused() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0), watermark=(sl.ordered(), sl.manual())))
    with pytest.raises(ValueError, match="row 1 of the batch has time 4"):
        op.push_left(left(5, 4))


def test_after_a_flush_nothing_is_taken() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(0, 0)))
    op.push_left(left(1))
    assert op.flush().rows.num_rows == 0
    for use in (lambda: op.push_left(left(1)), lambda: op.advance(left=1)):
        with pytest.raises(RuntimeError, match="was flushed"):
            use()
    assert op.flush().rows.num_rows == 0, "as of an Operator"


def test_another_flush_has_nothing_to_return() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), how="full", watermark=sl.manual()))
    rows = pa.table({"t": [1, 9], "k": ["a", "b"]})
    op.push(rows, rows.slice(1))
    assert op.flush().rows.num_rows == 1, "the row without a partner"
    again = op.flush()
    assert (again.rows.num_rows, again.stats.held) == (0, 0)
    features = sl.FeatureOperator(sl.FeatureSpec("k", "t", {"r": 5}, {"n": sl.count()}))
    outs = [features.push(rows, rows), features.flush(), features.flush()]
    assert sum(out.rows.num_rows for out in outs) == 2 and outs[2].rows.num_rows == 0


def test_snapshots_of_other_specs_and_damaged_ones_are_refused() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(0, 0))
    op = sl.JoinOperator(spec)
    op.push_left(left(1))
    blob = op.snapshot()
    with pytest.raises(sl.SnapshotError, match="another spec"):
        sl.JoinOperator.restore(sl.JoinSpec(on=[], time="t", within=(0, 1)), blob)
    with pytest.raises(sl.SnapshotError, match="damaged"):
        sl.JoinOperator.restore(spec, blob[:-3] + b"xyz")
    with pytest.raises(sl.SnapshotError, match="the snapshot was not written by this library"):
        sl.JoinOperator.restore(spec, b"SLICEXYZ" + blob[8:])
    window = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()})
    of_windows, of_parts = sl.Operator(window).snapshot(), sl.Distinct(sl.DistinctSpec("k", "t", "1s")).snapshot()
    with pytest.raises(sl.SnapshotError, match="written by a JoinOperator or FeatureOperator, and this restores an Op"):
        sl.Operator.restore(window, blob)
    for other, writer in ((of_windows, "an Operator"), (of_parts, "a Distinct or a chain")):
        with pytest.raises(sl.SnapshotError, match=f"written by {writer}, and this restores a JoinOperator or Feature"):
            sl.JoinOperator.restore(spec, other)


def test_schemas_that_do_not_fit_a_snapshot_are_refused() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(0, 0))
    op = sl.JoinOperator(spec)
    op.push_left(left(1))
    told, unknown = left(1).schema, pa.schema({"t": pa.int64(), "x": pa.float64()})
    again = sl.JoinOperator.restore(dataclasses.replace(spec, schemas=(told, unknown)), op.snapshot())
    again.push_left(left(2))
    other = dataclasses.replace(spec, schemas=(pa.schema({"t": pa.date32()}), pa.schema({"t": pa.date32()})))
    with pytest.raises(sl.SnapshotError, match=r"schemas= does not fit the left side .*: column 't' was"):
        sl.JoinOperator.restore(other, op.snapshot())


# --- the spec ---------------------------------------------------------------------------------------------------------

SPECS = [
    sl.JoinSpec(on=["k", ("a", "b")], time=("t", "u"), within=("-1m", timedelta(minutes=5)), how="left"),
    sl.JoinSpec(on=[], time="t", within=(None, 0), match="nearest", sequence="s", watermark=sl.bounded(3), idle=9),
    sl.JoinSpec(on="k", time="t", within=sl.tumbling("5m"), how="full", event_time="window", nulls_equal=True),
    sl.JoinSpec(on="k", time="t", within=sl.calendar("1mo"), progress="least", on_null_time="late", suffix="_r"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_specs_print_as_the_code_that_builds_them(spec: sl.JoinSpec) -> None:
    again = eval(repr(spec), {"sl": sl})
    assert again == spec and hash(again) == hash(spec) and again.fingerprint() == spec.fingerprint()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert len({other.fingerprint() for other in SPECS}) == len(SPECS)


def test_a_condition_is_part_of_the_spec_by_its_text() -> None:
    one, same, other = (sl.JoinSpec(on=[], time="t", within=(0, 0), where=pc.field("a") > n) for n in (1, 1, 2))
    assert one == same and hash(one) == hash(same) and one.fingerprint() == same.fingerprint()
    assert one != other and one.fingerprint() != other.fingerprint()
    assert pickle.loads(pickle.dumps(one)) == one


WRONG = [
    ({"on": 5}, TypeError, "on must be a list"),
    ({"on": ["k", "k"]}, ValueError, "'k' twice"),
    ({"time": ("t",)}, TypeError, "time must be"),
    ({"within": ("1m", 5)}, ValueError, "all durations"),
    ({"within": (1, -2)}, ValueError, "holds no time"),
    ({"within": (1, -1), "closed": "left"}, ValueError, "holds no time"),
    ({"within": (1, 0), "closed": "none"}, ValueError, "holds no time at all: the time columns count in units"),
    ({"within": (None, 0)}, ValueError, "unbounded"),
    ({"within": sl.session("5m")}, TypeError, "within must be"),
    ({"within": sl.tumbling(5), "closed": "left"}, ValueError, "speaks about the ends of a band"),
    ({"within": sl.tumbling(5), "match": "last"}, ValueError, "needs a band"),
    ({"how": "cross"}, ValueError, "how must be one of"),
    ({"how": "semi", "match": "last"}, ValueError, "only how='inner' and 'left'"),
    ({"how": "semi", "event_time": "max"}, ValueError, "event_time must be 'left'"),
    ({"how": "left", "event_time": "right"}, ValueError, "is null in rows without a partner"),
    ({"event_time": "window"}, ValueError, "within is a band"),
    ({"sequence": "s"}, ValueError, "match='all' takes all"),
    ({"where": "a > 1"}, TypeError, "where must be a pyarrow expression"),
    ({"watermark": 5}, TypeError, "watermark must be"),
    ({"idle": 0}, ValueError, "idle must be a positive"),
    ({"nulls_equal": 1}, TypeError, "nulls_equal must be"),
    ({"schemas": 5}, TypeError, "schemas must be"),
]


@pytest.mark.parametrize(("wrong", "error", "words"), WRONG, ids=[str(wrong) for wrong, _, _ in WRONG])
def test_wrong_arguments_are_refused_by_name(wrong: dict, error: type[Exception], words: str) -> None:
    asked = {"on": [], "time": "t", "within": (0, 0)} | wrong
    with pytest.raises(error, match=words):
        sl.join(left(1), right(1), **asked)


def test_results_are_frames_of_the_library_that_is_asked_for() -> None:
    asked = {"on": [], "time": "t", "within": (0, 0)}
    frames = pl.from_arrow(left(1, 2)), right(2).to_pandas()
    found = sl.join(*frames, returns="same", **asked)
    assert isinstance(found, pl.DataFrame) and found.rows() == [(2, 1, 2, 0)]
    assert sl.join(*frames, returns="pandas", **asked).to_numpy().tolist() == [[2, 1, 2, 0]]
    with pytest.raises(ValueError, match="returns must be one of"):
        sl.join(*frames, returns="frame", **asked)


def test_join_takes_a_spec_or_its_arguments() -> None:
    with pytest.raises(TypeError, match="not both"):
        sl.join(left(1), right(1), SPECS[0], how="left")
    with pytest.raises(TypeError, match="got str"):
        sl.join(left(1), right(1), "on")
    with pytest.raises(TypeError, match=r"JoinOperator takes a sl\.JoinSpec"):
        sl.JoinOperator("on")


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_says_what_is_kept_and_until_when() -> None:
    spec = sl.JoinSpec(on=["user"], time=("shown", "clicked"), within=("1m", "10m"), how="left", closed="left")
    told = sl.explain(spec)
    assert told["left rows kept"] == "until the right watermark > shown + 9m59s999ms999us"
    assert told["right rows kept"] == "until the left watermark > clicked + 1m"
    assert "rows wait where the other side is slow" in told["state"]
    assert "a left row without a partner when it leaves" in told["results"]
    assert told["output watermark"] == "speaks about the left's shown"


@pytest.mark.parametrize("spec", SPECS)
def test_explain_takes_all_specs(spec: sl.JoinSpec) -> None:
    assert "kept" in str(sl.explain(spec))


def test_explain_takes_the_columns_of_both_sides() -> None:
    where = pc.field("b") > 1
    asof = sl.JoinSpec(on=[], time="t", within=(None, 0), match="last", where=where)
    assert "for ever: a left row" in sl.explain(asof)["right rows kept"]
    told = sl.explain(asof, (left().schema, right().schema))
    assert told["right rows kept"].startswith("for ever, or until a later row of its key")
    assert "where sl.col('b') > 1" in told["partners"] and "2 of the left, 2 of the right" in told["bytes a row kept"]
    with pytest.raises(TypeError, match="pair of pyarrow Schemas"):
        sl.explain(asof, left().schema)


# --- many rows --------------------------------------------------------------------------------------------------------


def test_one_huge_key_comes_in_pieces() -> None:
    n = 3000
    spec = sl.JoinSpec(on=[], time="t", within=(10**6, 10**6), watermark=sl.manual())
    op = sl.JoinOperator(spec, max_rows_per_push=20_000)
    op.push_left(left(*range(n)))
    out = op.push_right(right(*range(n)))
    found = out.rows.num_rows
    assert found <= 20_000 and out.stats.pending > 0 and out.stats.held == 2 * n
    late = op.advance(left=5 * 10**6, right=5 * 10**6)
    assert late.watermark is None  # not before the rows that wait are joined
    while out.stats.pending:
        out = op.advance()
        assert out.rows.num_rows <= 20_000
        found += out.rows.num_rows
    assert found + late.rows.num_rows == n * n and out.stats.held == 0 and out.watermark == 5 * 10**6


def test_rows_that_wait_stay_themselves_while_many_others_leave() -> None:
    """The rows that are left of a large push are numbered anew, those that are still to be joined with them."""
    op = sl.JoinOperator(sl.JoinSpec([], "t", (0, 0), watermark=sl.manual()), max_rows_per_push=4)
    op.push_right(right(50_000, 50_000, 50_000))
    op.push_left(left(*range(10_000), 50_000, 50_000, 50_000))
    assert op.advance(right=20_000).stats.pending == 1, "a row is joined at a time, and the mark waits for them all"
    out = op.push_left(pa.table({"t": [50_000] * 2, "a": [20_000, 20_001]}))
    assert (out.stats.pending, out.stats.held) == (1, 8) and out.stats.bytes < 2000, "the ten thousand have left"
    rows = [*rows_of(out), *rows_of(op.advance())]
    assert [(row["a"], row["b"]) for row in rows] == [(a, b) for a in (10_002, 20_000, 20_001) for b in range(3)]


def test_semi_of_one_huge_key_looks_at_each_row_once() -> None:
    n = 200_000
    spec = sl.JoinSpec(on=[], time="t", within=(n, n), how="semi", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push_left(pa.table({"t": np.arange(n), "a": np.arange(n)}))
    out = op.push_right(pa.table({"t": np.arange(n), "b": np.arange(n)}))  # 4 * 10**10 pairs
    assert out.rows.num_rows == n and out.stats.held == n


@pytest.mark.parametrize("late", [5, 900])
def test_partners_of_runs_that_overlap_come_in_order(late: int) -> None:
    """Runs of one slice of time lie beside each other until they are merged; few and many partners a row."""
    rng = np.random.default_rng(late)
    op = sl.JoinOperator(sl.JoinSpec(on=[], time="t", within=(10**5, 10**5), watermark=sl.manual()))
    times = np.concatenate([rng.integers(1000 - late, 1000, size) for size in (400, 100, 30, 7, 1)])
    for first, last in [(0, 400), (400, 500), (500, 530), (530, 537), (537, 538)]:
        op.push_left(pa.table({"t": times[first:last], "a": np.arange(first, last)}))
    expected = np.lexsort((np.arange(times.size), times)).tolist()
    assert op.push_right(right(1000, 1001)).rows["a"].to_pylist() == expected * 2


def test_keys_and_rows_that_have_gone_are_forgotten() -> None:
    op = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(5, 5), how="full"))
    sizes = []
    for step in range(60):
        keys = np.arange(1000 * step, 1000 * (step + 1))
        times = np.full(1000, 10 * step)
        rows = {"t": times, "k": keys, "v": keys}
        sizes.append(op.push(pa.table(rows), pa.table(rows | {"t": times + 3})).stats.bytes)
    assert max(sizes[30:]) < 2 * max(sizes[5:15])


def test_a_row_that_had_a_partner_is_known_after_rows_are_numbered_anew() -> None:
    """One row ahead of its time holds the payload of thousands that have left."""
    spec = sl.JoinSpec(on=[], time="t", within=(0, 5), how="full", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    assert len(rows_of(op.push(left(10**6), right(10**6)))) == 1
    op.push(left(*range(10_000)), right(*range(20_000, 30_000)))
    out = op.advance(left=50_000, right=50_000)
    assert out.rows.num_rows == 20_000 and out.stats.held == 2
    assert out.stats.bytes < 2000
    assert rows_of(op.push_right(right(10**6 + 5)))[0]["t"] == 10**6
    assert rows_of(op.flush()) == []


def test_rows_of_a_rare_key_do_not_hold_the_others() -> None:
    spec = sl.JoinSpec(on="k", time="t", within=(None, 0), match="last")
    op = sl.JoinOperator(spec)
    op.push_right(right(0, k=["rare"]))
    for step in range(100):
        times = list(range(1000 * step, 1000 * step + 500))
        out = op.push(left(times[-1], k=["x"]), right(*times, k=["x"] * 500))
    assert out.stats.held < 1100 and out.stats.bytes < 400_000
    op.advance(right=10**6)
    assert [row["t_right"] for row in rows_of(op.push_left(left(10**6 - 1, k=["rare"])))] == [0]


@pytest.mark.parametrize("empty", [[0], [3], [0, 3], [0, 1, 2, 3], [1]])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_last_partner_beside_rows_without_a_key(how: str, empty: list[int]) -> None:
    keys = [None if at in empty else "ab"[at % 2] for at in range(4)]
    quotes = pa.table({"t": [1, 2, 3, 4], "k": pa.array(keys, pa.string()), "y": [1, 2, 3, 4]})
    trades = pa.table({"t": [5, 6], "k": ["a", "b"], "x": [1, 2]})
    spec = sl.JoinSpec(on="k", time="t", within=(None, 0), match="last", how=how)
    last = [max((at + 1 for at in range(4) if keys[at] == key), default=None) for key in "ab"]
    found = [row["y"] for row in sl.join(trades, quotes, spec).to_pylist()]
    assert found == [y for y in last if y is not None or how == "left"]


@pytest.mark.parametrize("how", ["left", "full", "anti"])
@pytest.mark.parametrize("within", [(0, 5), sl.tumbling(10)])
def test_rows_that_wait_for_the_other_sides_columns_hold_the_output_back(how: str, within: object) -> None:
    spec = sl.JoinSpec("k", "t", within, how=how, idle=10, event_time="left" if how != "full" else "max")
    op = sl.JoinOperator(spec)
    out = op.push_left(pa.table({"t": [1, 2, 100], "k": ["a"] * 3}))
    assert (out.rows.num_rows, out.watermark) == (0, None)
    out = op.push_right(pa.table({"t": [100], "k": ["b"], "z": [1]}))
    assert out.rows["t"].to_pylist() == [1, 2] and out.watermark is not None
    inner = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), idle=10))
    assert inner.push_left(pa.table({"t": [1, 100], "k": ["a"] * 2})).watermark is not None  # nothing waits


def test_nothing_is_late_in_a_chain_whose_join_waits_for_columns() -> None:
    join = sl.JoinSpec("k", "t", (0, 5), how="left", idle=10)
    counts = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.manual())
    chain = sl.chain(sl.JoinOperator(join), sl.Operator(counts))
    chain.push_left(pa.table({"t": [1, 2, 100], "k": ["a"] * 3}))
    out = chain.push_right(pa.table({"t": [100], "k": ["b"], "z": [1]}))
    assert out.stats.late == 0 and out.windows["n"].to_pylist() == [2]


def test_a_row_whose_partners_would_lie_before_all_times_has_none() -> None:
    least = -(1 << 63)
    left, right = pa.table({"t": [least, least + 1, least + 2], "k": [1] * 3}), pa.table({"t": [least], "k": [1]})
    spec = sl.JoinSpec("k", "t", within=(None, -2), how="left", match="last")
    assert sl.join(left, right, spec)["t_right"].to_pylist() == [None, None, least]


@pytest.mark.parametrize("how", ["left", "inner", "full", "semi", "anti"])
def test_a_row_whose_window_does_not_fit_the_time_column_is_refused_with_its_push(how: str) -> None:
    def rows(name: str, *times: int) -> pa.Table:
        return pa.table({"k": [1] * len(times), "t": pa.array(times, pa.uint64()), name: times})

    within = sl.tumbling(10, offset=7)
    op = sl.JoinOperator(sl.JoinSpec(on=["k"], time="t", within=within, how=how, watermark=sl.bounded(0)))
    if how in ("semi", "anti"):  # which show no bounds
        op.push_left(rows("a", 3))
    else:
        said = r"time column '\w+' of the left side holds 3, which lies in a window \[-3, 7\) whose bounds a column of "
        with pytest.raises(ValueError, match=said + "type uint"):
            op.push_left(rows("a", 3))
    found = [op.push(rows("a", 30), rows("b", 31)), op.push_left(rows("a", 50)), op.flush()]
    assert sum(out.rows.num_rows for out in found) == {"left": 2, "inner": 1, "full": 2, "semi": 1, "anti": 2}[how]


def test_a_refused_call_of_a_join_leaves_no_key() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), watermark=sl.manual()))
    op.push(pa.table({"t": [1], "k": ["a"]}), pa.table({"t": [2], "k": ["a"]}))
    known = len(op._state.keys)
    new = pa.table({"t": [5, 6], "k": ["x", "y"]})
    with pytest.raises(TypeError, match="left watermark must be a whole number"):
        op.advance(left="bad", left_marks=new)
    with pytest.raises(ValueError, match="column 'k' is missing in right_marks"):
        op.advance(left_marks=new, right_marks=pa.table({"t": [1]}))
    with pytest.raises(TypeError, match="column 'k' was string in the first batch"):
        op.push(new, pa.table({"t": [1], "k": [5]}))
    assert len(op._state.keys) == known
    assert op.push(new, new).stats.joined + op.flush().stats.joined >= 2


def test_a_push_that_fails_behind_its_keys_leaves_none() -> None:
    where = pc.field("v") > 0
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), where=where, watermark=sl.bounded(0)))
    rows = pa.table({"t": [1], "k": ["a"], "v": [1]})
    op.push(rows, rows.drop_columns(["v"]))
    before, keys = op.snapshot(), len(op._state.keys)
    worked, op._worked = op._worked, None
    with pytest.raises(TypeError):
        op.push_left(pa.table({"t": [2, 3], "k": ["x", "y"], "v": [1, 1]}))
    op._worked = worked
    assert len(op._state.keys) == keys and op.snapshot() == before


def test_a_users_column_may_have_any_name() -> None:
    lefts = pa.table({"t": [1, 9], "k": ["a", "b"], "row": [5, 6], "reason": ["x", "y"]})
    rights = pa.table({"t": [1], "k": ["a"], "row_": [3]})
    asked = {"on": "k", "time": "t", "within": (0, 5), "how": "inner"}
    found = sl.join(lefts, rights, **asked, where=pc.field("row") > pc.field("row_"))
    assert found["row"].to_pylist() == [5]
    found = sl.join(lefts, rights.rename_columns(["t", "k", "row of"]), **asked, where=pc.field("row of") > 0)
    assert found.num_rows == 1
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), watermark=sl.bounded(0)))
    op.push_left(lefts)
    late = op.push_left(lefts.slice(0, 1)).late_left
    assert late.column_names == ["t", "k", "row", "reason", "late_reason"]
    assert late["late_reason"].to_pylist() == ["late"] and late["reason"].to_pylist() == ["x"]


def test_errors_of_two_sides_name_the_side() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5)))
    rows = pa.table({"t": [1], "k": ["a"]})
    with pytest.raises(TypeError, match=r"^right must be"):
        op.push(rows, 5)
    with pytest.raises(ValueError, match="column 'k' is missing in the right side"):
        op.push(rows, rows.drop_columns(["k"]))
    with pytest.raises(TypeError, match="policy must be"):
        sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5)), policy=5)
    op.push(rows, rows)
    with pytest.raises(TypeError, match=r"^left_marks must be"):
        op.advance(left_marks=5)


def test_bytes_of_a_join_count_pairs_that_wait() -> None:
    op = sl.JoinOperator(sl.JoinSpec([], "t", (0, 5), watermark=sl.manual()), max_rows_per_push=10)
    n = 20_000
    out = op.push(pa.table({"t": range(n)}), pa.table({"t": range(n)}))
    assert out.stats.pending > n // 2
    assert out.stats.bytes > 20 * out.stats.pending


def test_marks_of_keys_of_unsigned_times_beyond_64_bits() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), how="left", watermark=(sl.manual(), sl.manual())))
    left = pa.table({"t": pa.array([5], pa.uint64()), "k": ["a"]})
    op.push(left, left.slice(0, 0))
    marks = pa.table({"t": pa.array([2**63 + 5], pa.uint64()), "k": ["a"]})
    assert op.advance(right_marks=marks).rows.num_rows == 1


@pytest.mark.parametrize("condition", [sl.col("y") == 1, sl.col("y") > sl.col("x")])
@pytest.mark.parametrize("idle", [None, 10])
def test_a_right_row_that_fails_where_evicts_none_before_the_left_columns_are_known(
    condition: pc.Expression, idle: int | None
) -> None:
    spec = sl.JoinSpec(
        "k", "t", (None, 0), match="last", how="left", where=condition, watermark=sl.bounded(0), idle=idle
    )
    op = sl.JoinOperator(spec)
    op.push_right(pa.table({"t": [1, 2], "k": ["a", "a"], "y": [1, 0]}))
    if idle is None:
        op.advance(left=5)
    else:
        op.push_right(pa.table({"t": [20], "k": ["b"], "y": [1]}))
    found = [*rows_of(op.push_left(pa.table({"t": [15], "k": ["a"], "x": [0]}))), *rows_of(op.flush())]
    assert [(row["t"], row["t_right"]) for row in found] == [(15, 1)]


def in_unit(unit: str, *millis: int, **more: list) -> pa.Table:
    times = pa.array([1_700_000_000_000 + milli for milli in millis], pa.timestamp("ms")).cast(pa.timestamp(unit))
    return pa.table({"t": times, "k": ["a"] * len(millis)} | more)


@pytest.mark.parametrize("left_first", [True, False])
def test_an_open_band_waits_for_the_unit_of_the_other_side(left_first: bool) -> None:
    """In seconds it holds no time: 4 and 5 s are its ends. In milliseconds it does."""
    op = sl.JoinOperator(sl.JoinSpec("k", "t", ("-4s", "5s"), closed="none"))
    pushes = [lambda: op.push_left(in_unit("s", 10_000)), lambda: op.push_right(in_unit("ms", 14_500))]
    outs = [push() for push in (pushes if left_first else reversed(pushes))]
    assert sum(out.rows.num_rows for out in outs) == 1
    with pytest.raises(ValueError, match="holds no time at all: the time columns count in seconds"):
        op = sl.JoinOperator(op.spec)
        op.push(in_unit("s", 10_000), in_unit("s", 14_000))


@pytest.mark.parametrize("closed", ["none", "left", "right", "both"])
def test_the_watermark_does_not_go_back_when_the_other_side_has_a_finer_unit(closed: str) -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", ("0s", "2s"), closed=closed, how="semi"))
    op.push_left(in_unit("s", 30_000))
    before = op.advance(right=datetime(2023, 11, 14, 22, 13, 50)).watermark
    after = op.push_right(in_unit("us", 30_000)).watermark
    assert before is not None and before <= after


MOMENTS = {
    "numbers": [10_000 + at // 2 for at in range(100)],
    "datetimes": [datetime(2023, 11, 14, tzinfo=UTC) + timedelta(seconds=at // 2) for at in range(100)],
    "instants": [np.datetime64(1_700_000_000_000_000_000 + at // 2, "ns") for at in range(100)],
}


@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_watermarks_from_before_the_first_rows_take_no_room(moments: list) -> None:
    """Of those that grow the last one is kept, also where it is given twice."""
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), watermark=sl.manual()))
    other = sl.Operator(sl.Spec("t", {"w": sl.tumbling(1)}, {"n": sl.count()}, watermark=sl.manual()))
    for at in moments:
        op.advance(left=at)
        other.advance(at)
    assert len(op._advanced[0]) == len(other._before_rows.advanced) == 1
    op.advance(left=moments[0])  # one that goes back is kept beside it: the larger one may not fit the column
    other.advance(moments[0])
    assert len(op._advanced[0]) == len(other._before_rows.advanced) == 2
    if isinstance(moments[0], int):
        assert op.push_left(left(10_048, 10_049, k=["a", "a"])).late_left["t"].to_pylist() == [10_048]
        assert other.push(pa.table({"t": [10_048, 10_049]})).late["t"].to_pylist() == [10_048]


# --- dictionaries with room for fewer values than there are -----------------------------------------------------------


def narrow(values: list[str | None], dictionary: list[str | None] | None = None) -> pa.DictionaryArray:
    known = values if dictionary is None else dictionary
    return pa.DictionaryArray.from_arrays(pa.array([known.index(v) for v in values], pa.int8()), pa.array(known))


@pytest.mark.parametrize("dictionary", [[f"v{n}" for n in range(100)], ["x", None]])
@pytest.mark.parametrize("where", [None, pc.field("c") != "v3"])
def test_rows_that_wait_for_the_other_side_keep_their_dictionaries(dictionary: list, where: pc.Expression) -> None:
    op = sl.JoinOperator(sl.JoinSpec(["k"], "t", within=(0, 10), where=where, watermark=sl.manual()))
    values = [[value and f"{part}{value}" for value in dictionary] for part in ("", "b")]
    for some in values:
        rows = pa.table({"t": [1] * len(some), "k": range(len(some)), "c": narrow(some)})
        assert rows_of(op.push_right(rows)) == []
    out = op.push_left(pa.table({"t": [0], "k": [1]}))
    assert out.rows["c"].to_pylist() == ([] if where is not None and None in dictionary else [v[1] for v in values])
    assert op.push_left(pa.table({"t": [0], "k": [0]})).rows["c"].to_pylist() == [some[0] for some in values]


def test_dictionaries_stay_when_memory_of_rows_that_are_over_is_freed() -> None:
    op = sl.JoinOperator(sl.JoinSpec(["k"], "t", within=(0, 10**6), how="semi", watermark=sl.manual()))
    op.push_left(pa.table({"t": [0], "k": [-1], "c": narrow(["first"])}))
    for i in range(60):
        keys = range(i * 100, i * 100 + 100)
        op.push_left(pa.table({"t": [i] * 100, "k": keys, "c": narrow([f"{i}_{n}" for n in range(100)])}))
        op.push_right(pa.table({"t": [i] * 99, "k": keys[:-1]}))
    out = op.push_right(pa.table({"t": [100] * 61, "k": [-1, *range(99, 6000, 100)]}))
    assert out.rows["c"].to_pylist() == ["first", *(f"{i}_99" for i in range(60))]


@pytest.mark.parametrize("match", ["first", "last", "nearest"])
def test_rows_whose_reach_is_beyond_64_bits_have_no_partner_and_hide_none(match: str) -> None:
    given = {"on": [], "time": "t", "how": "left", "match": match}
    found = sl.join(left(100, 200, *[BIG] * 4), right(103, 205), within=(-2, 10), **given)
    assert found["b"].to_pylist() == [0, 1, None, None, None, None]
    assert sl.join(left(BIG - 5, BIG - 2), right(BIG), within=(-5, 10), **given)["b"].to_pylist() == [0, None]
    found = sl.join(left(*[-BIG - 1] * 4, 100, 200), right(95, 190), within=(10, -2), **given)
    assert found["b"].to_pylist() == [None, None, None, None, 0, 1]


FEATURES = sl.FeatureSpec("k", "t", {"r": 5}, {"n": sl.count()})
BAND = sl.JoinSpec(on="k", time="t", within=(0, 0))


@pytest.mark.parametrize(
    ("ask", "side"),
    [
        (lambda known, other: sl.FeatureOperator(FEATURES).push_labels(other), "labels"),
        (lambda known, other: sl.FeatureOperator(FEATURES).push_events(other), "events"),
        (lambda known, other: sl.features(other, known, FEATURES), "labels"),
        (lambda known, other: sl.features(known, other, FEATURES), "events"),
        (lambda known, other: sl.JoinOperator(BAND).push_left(other), "left side"),
        (lambda known, other: sl.JoinOperator(BAND).push_right(other), "right side"),
    ],
)
def test_errors_name_the_side_that_lacks_a_key(ask, side):
    known = pa.table({"t": [1], "k": [1], "v": [1]})
    with pytest.raises(ValueError, match=f"^column 'k' is missing in the {side}; its columns are t, q, v$"):
        ask(known, known.rename_columns(["t", "q", "v"]))


def test_keys_of_pairs_that_wait_and_of_rows_that_wait_for_them_are_kept() -> None:
    """Thousands of keys are forgotten while a push gives ten rows of 400 pairs."""

    def rows(times: list[int], keys: list[str]) -> pa.Table:
        return pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.string())})

    spec = sl.JoinSpec("k", "t", (5, 5), how="inner", watermark=sl.manual())
    op, none, found = sl.JoinOperator(spec, max_rows_per_push=10), rows([], []), []
    sides: list[tuple[pa.Table, pa.Table]] = []

    def push(one: pa.Table, other: pa.Table) -> None:
        sides.append((one, other))
        found.append(op.push(one, other).rows)

    for number in range(4):
        push(rows([number if number < 3 else 8] * 3500, [f"{number} {at}" for at in range(3500)]), none)
        if number < 3:
            found.append(op.advance(left=number + 1, right=number + 7).rows)
    push(none, rows([10] * 20, ["q"] * 20))
    push(none, rows([30] * 20, ["q2"] * 20))
    push(rows([10] * 20, ["q"] * 20), none)
    found.append(op.advance(left=25, right=25).rows)
    push(rows([30] * 20 + [31], ["q2"] * 20 + ["z"]), none)
    for _ in range(60):
        push(none, none)
    push(none, rows([31], ["z"]))
    for _ in range(30):
        push(none, none)
    found.append(op.flush().rows)
    one, other = (pa.concat_tables(side) for side in zip(*sides, strict=True))
    wanted = sl.join(one, other, on="k", time="t", within=(5, 5))
    assert wanted.num_rows == 801
    given = pa.concat_tables(found)
    assert sorted(map(repr, given.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
