"""The oracle itself, on cases worked out by hand. It needs no library."""

from __future__ import annotations

from decimal import Decimal
from math import inf, isnan, nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from oracle import Near, Oracle, Out, Refused, Row, Values, aggregate, calendar_window, extents
from strategies import Case, Clock, cases

COLUMNS = {"t": "int64", "k": "string", "v": "int64"}


def stream(window: Values, **query: Any) -> Oracle:
    base: Values = {"time": "t", "windows": {"w": window}, "aggs": {"total": {"fn": "sum", "col": "v"}}}
    return Oracle(COLUMNS, {**base, "watermark": {"kind": "manual"}, **query})


def rows(*times_and_values: tuple, key: str | None = "a") -> list[Values]:
    return [{"t": t, "k": key, "v": v} for t, v in times_and_values]


def spans(out: Out) -> list[tuple]:
    """(start, end, total) and revision or op."""
    names = ("window_start", "window_end", "total", "revision", "op")
    return [tuple(row[name] for name in names if name in row) for row in out.windows]


# --- windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "time", "expected"),
    [
        ({"kind": "tumbling", "size": 5}, -1, [(-5, 0)]),
        ({"kind": "tumbling", "size": 5}, 0, [(0, 5)]),
        ({"kind": "tumbling", "size": 5, "offset": 2}, 1, [(-3, 2)]),
        ({"kind": "tumbling", "size": 5, "offset": -8}, 1, [(-3, 2)]),
        ({"kind": "sliding", "size": 5, "every": 2}, 4, [(0, 5), (2, 7), (4, 9)]),
        ({"kind": "sliding", "size": 2, "every": 5}, 1, [(0, 2)]),
        ({"kind": "sliding", "size": 2, "every": 5}, 2, []),
        ({"kind": "cumulate", "size": 6, "every": 2}, 3, [(0, 4), (0, 6)]),
        ({"kind": "cumulate", "size": 6, "every": 2}, 6, [(6, 8), (6, 10), (6, 12)]),
        ({"kind": "fixed", "start": 2, "end": 4}, 2, [(2, 4)]),
        ({"kind": "fixed", "start": 2, "end": 4}, 4, []),
        ({"kind": "listed", "extents": [(0, 9), (3, 4), (5, 6)]}, 3, [(0, 9), (3, 4)]),
        ({"kind": "squares"}, 8, [(4, 9)]),
        ({"kind": "squares"}, 9, [(9, 16)]),
        ({"kind": "squares"}, -1, []),
    ],
)
def test_the_windows_of_a_time(window: Values, time: int, expected: list) -> None:
    assert sorted(extents(window, time, "int64")) == expected


def test_local_days_have_23_24_and_25_hours() -> None:
    spring = 1711839600  # 2024-03-31 00:00 in Berlin, 2024-03-30 23:00 UTC
    assert calendar_window("1d", "Europe/Berlin", spring, 1) == (spring, spring + 23 * 3600)
    assert calendar_window("1d", "Europe/Berlin", spring - 1, 1) == (spring - 24 * 3600, spring)
    autumn = 1729980000  # 2024-10-27 00:00 in Berlin, 2024-10-26 22:00 UTC
    assert calendar_window("1d", "Europe/Berlin", autumn + 24 * 3600, 1) == (autumn, autumn + 25 * 3600)


def test_weeks_start_on_monday_and_the_epoch_was_a_thursday() -> None:
    day = 86_400_000
    assert calendar_window("1w", "UTC", 0, 1000) == (-3 * day, 4 * day)
    assert calendar_window("1mo", "UTC", -1, 1000) == (-31 * day, 0)
    assert calendar_window("1q", "UTC", 95 * day, 1000) == (90 * day, 181 * day)
    assert calendar_window("1y", "UTC", 95 * day, 1000) == (0, 365 * day)


def test_windows_close_when_the_watermark_reaches_their_end() -> None:
    op = stream({"kind": "tumbling", "size": 5})
    assert spans(op.push(rows((1, 10), (6, 20), (4, 30)))) == []
    assert spans(op.advance(4)) == []
    assert spans(op.advance(5)) == [(0, 5, 40)]
    assert spans(op.advance(3)) == []
    assert op.watermark == 5
    assert spans(op.flush()) == [(5, 10, 20)]
    assert spans(op.flush()) == []


def test_a_push_judges_by_the_watermark_before_it_and_closes_by_its_own() -> None:
    op = stream({"kind": "tumbling", "size": 5}, watermark={"kind": "bounded", "delay": 2})
    out = op.push(rows((7, 1), (0, 2)))  # 0 comes far behind, but in the batch that moves the watermark to 5
    assert (spans(out), out.watermark, out.stats["late"]) == ([(0, 5, 2)], 5, 0)
    out = op.push(rows((4, 3), (5, 4)))
    assert spans(out) == []
    assert [(row["t"], row["reason"]) for row in out.late] == [(4, "late")]
    assert out.stats == {"rows": 2, "windowed": 1, "late": 1, "outside": 0, "null_time": 0}
    assert spans(op.flush()) == [(5, 10, 5)]


def test_a_row_late_for_some_windows_counts_in_the_others() -> None:
    op = stream({"kind": "sliding", "size": 4, "every": 2})
    op.advance(4)
    out = op.push(rows((3, 7)))  # [0, 4) has left, [2, 6) has not
    assert out.stats["windowed"] == 1
    assert spans(op.flush()) == [(2, 6, 7)]


def test_rows_in_no_window_are_outside_not_late() -> None:
    op = stream({"kind": "sliding", "size": 2, "every": 5})
    op.advance(100)
    out = op.push(rows((3, 7), (1, 7)))
    assert (out.stats["outside"], out.stats["late"]) == (1, 1)


def test_a_landmark_gives_a_row_only_where_there_were_rows_since_the_edge_before() -> None:
    op = stream({"kind": "landmark", "every": 5, "start": 2})
    assert op.push(rows((1, 100), (2, 1), (13, 2))).stats["outside"] == 1
    assert spans(op.flush()) == [(2, 5, 1), (2, 15, 3)]
    endless = stream({"kind": "landmark", "every": 5})
    endless.advance(1000)
    assert endless.push(rows((-7, 1))).stats["late"] == 0  # no edge is left that closes by it alone
    endless.push(rows((1001, 2)))
    assert spans(endless.flush()) == [(None, 1005, 3)]


def test_whole_runs_from_the_first_to_the_last_row() -> None:
    op = stream({"kind": "whole"}, lateness=2)
    op.push(rows((8, 1), (3, 2)))
    op.advance(10)
    assert op.push(rows((8, 4), (7, 8))).stats["late"] == 1  # 7 + 2 < 10
    assert spans(op.flush()) == [(3, 8, 7)]


def test_fill_gives_empty_windows_between_rows_once_both_are_known() -> None:
    op = stream({"kind": "tumbling", "size": 5, "fill": True})
    op.push(rows((1, 1)))
    assert spans(op.advance(12)) == [(0, 5, 1)]
    assert spans(op.push(rows((17, 2)))) == [(5, 10, None)]
    assert spans(op.advance(16)) == [(10, 15, None)]
    assert spans(op.flush()) == [(15, 20, 2)]


# --- sessions -----------------------------------------------------------------------------------------------


def test_a_row_exactly_gap_later_joins_a_session() -> None:
    op = stream({"kind": "session", "gap": 5})
    op.push(rows((0, 1), (11, 4)))
    assert spans(op.advance(5)) == []  # a row at 5 may come
    op.push(rows((5, 2)))
    assert spans(op.advance(10)) == []
    assert spans(op.advance(11)) == [(0, 10, 3)]
    assert spans(op.flush()) == [(11, 16, 4)]


def test_late_rows_bridge_sessions_while_they_are_open() -> None:
    op = stream({"kind": "session", "gap": 2})
    op.push(rows((0, 1), (4, 2)))
    op.push(rows((2, 4)))
    assert spans(op.flush()) == [(0, 6, 7)]


def test_nothing_joins_a_sealed_session() -> None:
    op = stream({"kind": "session", "gap": 5})
    op.push(rows((0, 1)))
    assert spans(op.advance(6)) == [(0, 5, 1)]
    assert op.push(rows((1, 2))).stats["late"] == 1  # 1 + 5 <= 6
    assert op.push(rows((2, 4))).stats["windowed"] == 1  # within the gap of the row at 0, which has left
    assert spans(op.flush()) == [(2, 7, 4)]


def test_a_row_is_late_by_itself_even_beside_an_open_session() -> None:
    op = stream({"kind": "session", "gap": 3})
    op.push(rows(*((t, 1) for t in range(0, 21, 2))))
    op.advance(20)
    out = op.push(rows((10, 100)))  # its session is open, but 10 + 3 <= 20
    assert out.stats["late"] == 1
    assert spans(op.flush()) == [(0, 23, 11)]


def test_idle_ends_all_windows_of_a_key() -> None:
    op = stream({"kind": "tumbling", "size": 100}, by=["k"], idle=5)
    op.push(rows((0, 1), (5, 2)) + rows((2, 10), key="b"))
    assert [(row["k"], row["total"]) for row in op.advance(8).windows] == [("b", 10)]
    assert [(row["k"], row["total"]) for row in op.advance(11).windows] == [("a", 3)]
    assert op.push(rows((6, 9))).stats["late"] == 1  # 6 + 5 <= 11
    op.push(rows((20, 4)))
    assert spans(op.flush()) == [(0, 100, 4)]


# --- what comes out again -----------------------------------------------------------------------------------


def test_final_waits_for_the_allowed_lateness() -> None:
    op = stream({"kind": "tumbling", "size": 5}, lateness=3)
    op.push(rows((1, 1)))
    assert spans(op.advance(7)) == []
    assert op.push(rows((2, 2))).stats["windowed"] == 1
    assert spans(op.advance(8)) == [(0, 5, 3)]
    assert op.push(rows((3, 4))).stats["late"] == 1


def test_updates_count_revisions_of_windows_that_got_rows() -> None:
    op = stream({"kind": "tumbling", "size": 5}, lateness=3, emit="updates")
    op.push(rows((1, 1), (6, 10)))
    assert spans(op.advance(6)) == [(0, 5, 1, 0)]
    assert spans(op.push(rows((2, 2)))) == [(0, 5, 3, 1)]
    assert spans(op.push(rows((3, 0)))) == [(0, 5, 3, 2)]  # touched, though nothing looks different
    assert spans(op.push(rows((7, 0)))) == []
    assert spans(op.advance(10)) == [(5, 10, 10, 0)]
    assert op.push(rows((3, 4))).stats["late"] == 1


def test_a_window_may_first_appear_within_the_lateness() -> None:
    op = stream({"kind": "tumbling", "size": 5}, lateness=3, emit="updates")
    op.advance(6)
    assert spans(op.push(rows((2, 2)))) == [(0, 5, 2, 0)]


def test_changes_take_the_old_row_back() -> None:
    op = stream({"kind": "tumbling", "size": 5}, lateness=3, emit="changes")
    op.push(rows((1, 1)))
    assert spans(op.advance(5)) == [(0, 5, 1, "+")]
    assert spans(op.push(rows((2, 2)))) == [(0, 5, 1, "-"), (0, 5, 3, "+")]
    assert spans(op.flush()) == []


def test_changes_of_sessions_that_merge() -> None:
    op = stream({"kind": "session", "gap": 2}, lateness=10, emit="changes")
    op.push(rows((0, 1), (4, 2), (9, 4)))
    assert spans(op.advance(8)) == [(0, 2, 1, "+"), (4, 6, 2, "+")]
    assert spans(op.push(rows((2, 8)))) == [(0, 2, 1, "-"), (0, 6, 11, "+"), (4, 6, 2, "-")]
    # this one bridges to a session that is not complete: the old one goes, the new one comes later
    assert spans(op.push(rows((6, 16), (7, 32)))) == [(0, 6, 11, "-")]
    assert spans(op.advance(12)) == [(0, 11, 63, "+")]
    assert spans(op.flush()) == []


def test_landmarks_that_contain_a_late_row_all_change() -> None:
    op = stream({"kind": "landmark", "every": 5}, lateness=10, emit="changes")
    op.push(rows((1, 1), (6, 2)))
    assert spans(op.advance(10)) == [(None, 5, 1, "+"), (None, 10, 3, "+")]
    expected = [(None, 5, 1, "-"), (None, 5, 5, "+"), (None, 10, 3, "-"), (None, 10, 7, "+")]
    assert spans(op.push(rows((3, 4)))) == expected


# --- progress -----------------------------------------------------------------------------------------------


def test_progress_by_source_waits_for_the_slowest_until_it_is_silent() -> None:
    watermark = {"kind": "per_source", "column": "k", "delay": 1, "idle": 10}
    op = stream({"kind": "tumbling", "size": 100}, watermark=watermark)
    assert op.push(rows((5, 1)) + rows((3, 1), key="b")).watermark == 2
    assert op.push(rows((12, 1))).watermark == 2
    assert op.push(rows((13, 1))).watermark == 12  # b has been silent for 10
    assert op.push(rows((4, 1), key=None)).watermark == 12


def test_punctuation_and_rows_without_time() -> None:
    op = Oracle(
        {"t": "int64", "m": "int64"},
        {
            "time": "t",
            "windows": {"w": {"kind": "tumbling", "size": 5}},
            "aggs": {"n": {"fn": "count"}},
            "watermark": {"kind": "punctuated", "column": "m"},
            "on_null_time": "late",
        },
    )
    out = op.push([{"t": 1, "m": None}, {"t": None, "m": 5}, {"t": 90, "m": 2}])
    assert (out.watermark, len(out.windows), out.stats["null_time"], len(out.late)) == (5, 1, 1, 1)


def test_a_refused_push_leaves_no_trace() -> None:
    op = stream({"kind": "tumbling", "size": 5}, watermark={"kind": "bounded", "delay": 0})
    op.push(rows((1, 2**63 - 1)))
    with pytest.raises(Refused):
        op.push(rows((2, 1), (9, 1)))
    with pytest.raises(Refused):
        op.push([{"t": None, "k": "a", "v": 1}])
    assert (op.watermark, op.pushed) == (1, 1)
    assert spans(op.push(rows((9, 1)))) == [(0, 5, 2**63 - 1)]
    strict = stream({"kind": "tumbling", "size": 5}, watermark={"kind": "ordered"})
    with pytest.raises(Refused):
        strict.push(rows((2, 1), (1, 1)))


# --- aggregates ---------------------------------------------------------------------------------------------


def of(fn: str, values: list, kind: str = "float64", returns: list | None = None, **agg: Any) -> Any:
    """An aggregate of values a tick apart."""
    rows = [
        Row({"v": value, "r": (returns or values)[at], "f": at % 2 == 0}, (), at, at, (at, 0, at), -inf)
        for at, value in enumerate(values)
    ]
    overflow = agg.pop("on_overflow", "error")
    return aggregate({"fn": fn, "col": "v", **agg}, rows, {"v": kind, "r": kind}, overflow)


def test_nulls_are_skipped_and_counts_of_nothing_are_0() -> None:
    for fn in ("sum", "product", "min", "max", "mean", "geometric_mean", "var", "std", "first", "last", "m4"):
        assert of(fn, [None, None]) is None
    for fn in ("argmin", "argmax"):
        assert of(fn, [None, None], **{"return": "r"}) is None
    assert [of(fn, [None, None]) for fn in ("count", "min_count", "max_count")] == [0, 0, 0]
    assert of("any", [None, False], "bool") is False
    assert of("all", [None, None], "bool") is None
    assert (of("first", [None, 3, 4, None], "int64"), of("last", [None, 3, 4, None], "int64")) == (3, 4)
    assert of("count", [1, None, 2]) == 2
    assert of("count", [1, None, 2], where="f") == 2
    assert of("sum", [1, None, 2, 9], "int64", where="f") == 3


def test_nan_is_no_extreme_unless_alone() -> None:
    assert (of("min", [nan, 2.0, 1.0]), of("max", [nan, 2.0, 1.0])) == (1.0, 2.0)
    assert isnan(of("max", [nan, nan]))
    assert (of("min_count", [nan, -0.0, 0.0, 1.0]), of("max_count", [nan, nan])) == (2, 2)
    assert of("argmin", [nan, 1.0, 1.0], returns=[7.0, None, 9.0], **{"return": "r"}) is None
    assert of("argmax", [nan, nan], returns=[7.0, 8.0], **{"return": "r"}) == 7.0
    assert of("m4", [2, None, 5, 1], "int8") == {"min": 1, "max": 5, "first": 2, "last": 1}


def test_whole_numbers_are_exact_until_they_do_not_fit() -> None:
    assert of("sum", [2**63 - 1, 1, -1], "int64") == 2**63 - 1
    assert of("product", [2**62, 4, 0], "int64") == 0
    assert of("sum", [2**64 - 1], "uint64") == 2**64 - 1
    with pytest.raises(Refused):
        of("sum", [2**63 - 1, 1], "int64")
    assert of("sum", [2**63 - 1, 1], "int64", on_overflow="null") is None
    assert of("sum", [2**63 - 1, 1], "int64", on_overflow="wrap") == -(2**63)
    assert of("sum", [2**64 - 1, 2], "uint64", on_overflow="wrap") == 1
    assert of("sum", [True, False, True], "bool") == 2
    assert of("mean", [2**63 - 1, 2**63 - 1], "int64").agrees(float(2**63 - 1))


def test_decimals_round_half_away_from_zero() -> None:
    third = [Decimal("0.01"), Decimal("0.01"), Decimal("0.00")]
    assert of("mean", third, "decimal(5, 2)") == Decimal("0.006667")
    assert of("mean", [Decimal("-0.00005"), Decimal(0)], "decimal(38, 1)") == Decimal("-0.00003")
    assert of("sum", [Decimal("1e20"), Decimal("0.01")], "decimal(30, 2)") == Decimal("100000000000000000000.01")


@pytest.mark.parametrize(
    ("fn", "values", "expected"),
    [
        ("sum", [0.1] * 10, 1.0),
        ("sum", [inf, 1.0], inf),
        ("sum", [inf, -inf], nan),
        ("sum", [nan, 1.0], nan),
        ("mean", [1.0, 2.0], 1.5),
        ("product", [2.0, -0.5], -1.0),
        ("product", [inf, 0.0], nan),
        ("product", [-inf, 1e-300, 1e-300], -inf),
        ("product", [1e300, 1e300, 1e-300, 1e-300], 1.0),
        ("product", [1e300, -1e300], -inf),
        ("geometric_mean", [1.0, 4.0], 2.0),
        ("geometric_mean", [0.0, 4.0], 0.0),
        ("geometric_mean", [0.0, -4.0], nan),
        ("geometric_mean", [0.0, inf], nan),
        ("var", [1.0, 2.0, 3.0], 1.0),
        ("std", [5.0, 5.0], 0.0),
        ("var", [1.0, inf], nan),
    ],
)
def test_floats(fn: str, values: list, expected: float) -> None:
    assert of(fn, values).agrees(expected)
    assert not of(fn, values).agrees(expected + 0.001 if abs(expected) < inf else 1.0)


def test_floats_whose_partial_results_may_overflow_are_not_judged() -> None:
    assert of("var", [1e300, 1.0]).agrees(inf)
    assert not Near(1.0, 0.1).agrees(None)
    assert of("var", [1.0]) is None
    assert of("var", [1.0], ddof=0).agrees(0.0)


# --- the strategies -----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases())
def test_a_case_prints_as_the_code_that_builds_it(case: Case) -> None:
    names = {"Case": Case, "Clock": Clock, "Decimal": Decimal, "inf": inf, "nan": nan}
    assert repr(eval(repr(case), names)) == repr(case)


@settings(max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases())
def test_every_row_is_accounted_for(case: Case) -> None:
    oracle = Oracle(case.columns, {**case.query, "on_overflow": "null", "on_null_time": "late"})
    for step in case.steps:
        try:
            out = oracle.push(case.named(step[1])) if step[0] == "push" else None
        except Refused:  # out of order
            continue
        if out is not None:
            told = [out.stats[name] for name in ("windowed", "late", "outside", "null_time")]
            assert out.stats["rows"] == len(step[1]) == sum(told)
            assert len(out.late) == out.stats["late"] + out.stats["null_time"]
