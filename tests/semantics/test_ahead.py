"""Rows too far ahead of the watermark, as of a clock that is wrong: set aside, and counted."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
from harness import check, share
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, Kit, cases

import slicing as sl
from slicing import exchange as partials

N = {"n": sl.count(), "v": sl.sum("v")}
NOW = 1_714_564_800_000_000_000  # ns, 2024-05-01 12:00
HOUR, DAY = 3_600 * 10**9, 86_400 * 10**9
Y2099 = int(np.datetime64("2099-01-01", "ns").astype(np.int64))


def rows(times: object, zone: str | None = "UTC") -> pa.Table:
    times = pa.array(times, pa.int64())
    return pa.table(
        {
            "t": times.cast(pa.timestamp("ns", zone)),
            "v": np.arange(len(times)),
            "k": ["a", "b"] * (len(times) // 2) + ["a"] * (len(times) % 2),
        }
    )


def spec(ahead: str | None = "1d", **more: object) -> sl.Spec:
    watermark = sl.bounded("10m", at_most_ahead=ahead)
    return sl.Spec("t", {"h": sl.tumbling("1h")}, N, watermark=watermark, **more)


def stream() -> np.ndarray:
    """Two days, a row a minute, up to 10 minutes out of order; every 500th row has a clock that is wrong."""
    times = NOW + np.arange(2880) * 60 * 10**9 - np.random.default_rng(1).integers(0, 10, 2880) * 60 * 10**9
    times[5::500] = Y2099 + np.arange(times[5::500].size)
    return times


@pytest.mark.parametrize("size", [7, 100, 1000, 2880])
@pytest.mark.parametrize("by", [[], ["k"]])
def test_a_row_of_2099_is_set_aside_and_nothing_else_is_late(size: int, by: list[str]) -> None:
    data, op = rows(stream()), sl.Operator(spec(by=by))
    outs = [op.push(data.slice(at, size)) for at in range(0, 2880, size)]
    late = pa.concat_tables(out.late for out in outs)
    assert set(late["reason"].to_pylist()) == {"ahead"}
    assert late["t"].cast(pa.int64()).to_pylist() == stream()[5::500].tolist()
    for out in outs:
        stats = out.stats
        assert stats.rows == stats.windowed + stats.late + stats.outside + stats.null_time + stats.ahead
    assert sum(out.stats.ahead for out in outs) == 6
    found = pa.concat_tables([*(out.windows for out in outs), op.flush().windows])
    right = data.filter(pa.array(stream() < Y2099))
    assert found.equals(sl.aggregate(right, spec(by=by)))


@share(40)
@given(cases(Kit(watermarks=("bounded",))), st.sampled_from([0, 1, 5, 20]))
def test_rows_ahead_are_those_of_the_oracle(case: Case, more: int) -> None:
    watermark = case.query["watermark"]
    check(case.asking(watermark={**watermark, "ahead": max(watermark["delay"] + more, 1)}))


def test_one_wrong_row_does_not_set_the_first_watermark() -> None:
    op = sl.Operator(spec())
    out = op.push(rows([NOW, Y2099]))
    assert (out.stats.windowed, out.stats.ahead, out.late["reason"].to_pylist()) == (1, 1, ["ahead"])
    assert out.watermark.timestamp() * 10**9 == NOW - 10 * 60 * 10**9
    alone = sl.Operator(spec())
    assert alone.push(rows([Y2099])).stats.ahead == 0  # there is nothing to hold it against


def test_a_watermark_that_was_told_judges_the_first_push() -> None:
    op = sl.Operator(spec())
    op.advance(pa.scalar(NOW, pa.timestamp("ns", "UTC")))
    assert op.push(rows([Y2099, NOW + DAY, NOW + DAY + 10 * 60 * 10**9])).stats.ahead == 1


def test_a_push_may_span_any_time_without_a_long_gap() -> None:
    op = sl.Operator(spec("2h"))
    op.push(rows([NOW]))
    times = NOW + np.arange(1000) * HOUR
    assert op.push(rows(times)).stats.ahead == 0
    out = op.push(rows([times[-1] + HOUR + 50 * 60 * 10**9, times[-1] + 5 * HOUR]))
    assert out.stats.ahead == 1
    assert op.push(rows([times[-1] + 12 * HOUR])).stats.ahead == 1  # the stream had paused
    op.advance(np.datetime64(int(times[-1]) + 11 * HOUR, "ns"))
    assert op.push(rows([times[-1] + 12 * HOUR])).stats.ahead == 0


def test_exactly_as_far_ahead_as_allowed() -> None:
    windows = {"w": sl.tumbling(10)}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.bounded(3, at_most_ahead=5)))
    op.push(pa.table({"t": [100]}))  # the watermark is 97
    assert op.push(pa.table({"t": [103]})).late.num_rows == 1
    op.push(pa.table({"t": [102]}))
    assert op.push(pa.table({"t": [104, 107]})).late["t"].to_pylist() == [107]


@pytest.mark.parametrize("ends", [[-(2**62) - 2**61, 2**62 + 2**61], [0, 2**62 + 2**61], [-(2**62) - 2**61, 0]])
def test_times_at_the_ends_of_what_is_allowed(ends: list[int]) -> None:
    policy = sl.bounded(2**59, at_most_ahead=2**60 - 1)
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10**9)}, {"n": sl.count()}, watermark=policy))
    assert op.push(pa.table({"t": [ends[0], ends[0]]})).stats.ahead == 0
    assert op.push(pa.table({"t": [ends[1], 2**63 - 1]})).stats.ahead == 2


def test_snapshots_restarts_nulls_and_kept_rows() -> None:
    times = [*stream().tolist()[:1400], None]
    data = rows(times)
    for windows in ({"h": sl.tumbling("1h")}, {"r": sl.rows(100), "h": sl.session("1h")}, {"p": sl.per_row("1h")}):
        query = sl.Spec("t", windows, N, watermark=sl.bounded("10m", at_most_ahead="1h"), on_null_time="late")
        assert eval(repr(query)) == pickle.loads(pickle.dumps(query)) == query
        whole, op = sl.Operator(query), sl.Operator(query)
        expected, found = [whole.push(data), whole.flush()], []
        for at in range(0, len(times), 200):
            out = op.push(data.slice(at, 200))
            found.append(out.windows)
            op = sl.Operator.restore(query, op.snapshot())
        found.append(op.flush().windows)
        assert expected[0].stats.ahead == 3
        assert set(expected[0].late["reason"].to_pylist()) == {"ahead", "null time"}
        assert pa.concat_tables(found).to_pylist() == pa.concat_tables(e.windows for e in expected).to_pylist()


@pytest.mark.parametrize("windows", [{"h": sl.tumbling("1h")}, {"p": sl.per_row("1h")}], ids=str)
def test_parts_of_rows_from_several_processes(windows: dict) -> None:
    data = rows(stream()[:1400])
    query = sl.Spec("t", windows, N, by="k", watermark=sl.bounded("10m", at_most_ahead="1h"), sequence="v")
    operator, outs = partials.start(query, data.schema), []
    for at in range(0, 1400, 350):
        blobs = []
        for part in range(2):
            collector = partials.Collector(query, data.schema, partials.state_of(operator).watermark)
            collector.push(data.slice(at + 175 * part, 175))
            blobs += partials.packed(collector.parts(), 1)
        outs.append(partials.admit(operator, blobs))
    outs.append(operator.flush())
    total = {name: sum(out.stats[name] for out in outs) for name in partials.COUNTS}
    assert total == {"rows": 1400, "windowed": 1397, "late": 0, "outside": 0, "null_time": 0, "ahead": 3}
    late = pa.concat_tables(out.late for out in outs if out.late.num_rows)
    assert late["reason"].to_pylist() == ["ahead"] * 3
    right = data.filter(pa.array(stream()[:1400] < Y2099))
    found = pa.concat_tables(out.windows for out in outs)
    assert found.to_pylist() == sl.aggregate(right, query).to_pylist()


# --- without it: said once --------------------------------------------------------------------------------------


def test_the_advice_is_in_the_unit_of_the_time_column() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(5)))
    op.push(pa.table({"t": [*range(10), 10**9]}))
    with pytest.warns(UserWarning, match=r"sl\.bounded\(delay, at_most_ahead=1000\)"):
        op.push(pa.table({"t": [4, 5, 6, 7] * 5}))
    sl.bounded(5, at_most_ahead=1000)


def test_one_row_that_makes_the_next_push_late_is_told_once() -> None:
    times = NOW + np.arange(3000) * 10**9
    times[5] = Y2099
    op = sl.Operator(spec(None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.push(rows(times[:1000]))
    told = (
        r"one row of time 2099-01-01 .* moved the watermark to 2098-12-31 .*, and 1000 of the 1000 rows pushed "
        r"since are late for it .*at_most_ahead='1d'"
    )
    with pytest.warns(UserWarning, match=told):
        assert op.push(rows(times[1000:2000])).stats.late == 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert op.push(rows(times[2000:])).stats.late == 1000


@pytest.mark.parametrize(
    "watermark", [sl.bounded("10m"), sl.ordered("late"), sl.bounded("10m", at_most_ahead="1d")], ids=repr
)
def test_late_rows_of_other_causes_are_not_told(watermark: object) -> None:
    times = NOW + np.arange(3000) * 10**10
    op = sl.Operator(sl.Spec("t", {"h": sl.tumbling("1h")}, N, watermark=watermark))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.push(rows(times))
        assert op.push(rows(times[:1000])).stats.late > 500


def test_rows_late_for_a_watermark_that_was_given_are_not_told() -> None:
    op = sl.Operator(spec(None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.push(rows([NOW]))
        op.advance("2024-05-01T13:00+00:00")
        for _ in range(3):
            assert op.push(rows(NOW + np.arange(1000) * 10**9)).stats.late == 1000


def test_a_wrong_row_in_a_push_of_its_own_or_in_a_large_one_is_told() -> None:
    for first in ([NOW], NOW + np.arange(100_000) * 10**7):
        op = sl.Operator(spec(None))
        op.push(rows(first))
        op.push(rows([*first[1:], Y2099] if len(first) > 1 else [Y2099]))
        with pytest.warns(UserWarning, match="one row of time 2099"):
            op.push(rows(NOW + np.arange(1000, 1100) * 10**9))


def test_single_rows_in_pushes_of_their_own_are_told_when_they_are_many() -> None:
    op = sl.Operator(spec(None))
    for time in (NOW, Y2099):
        op.push(rows([time]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for second in range(9):
            assert op.push(rows([NOW + second * 10**9])).stats.late == 1
    with pytest.warns(UserWarning, match="10 of the 10 rows pushed since are late"):
        op.push(rows([NOW + 10**10]))


WRONG = {
    "'10m', at_most_ahead='5m'": (ValueError, "at_most_ahead must be at least its delay"),
    "10, at_most_ahead='5m'": (TypeError, "must both be durations or both be whole numbers"),
    "'10m', at_most_ahead=5": (TypeError, "must both be durations or both be whole numbers"),
    "0, at_most_ahead='soon'": (ValueError, "bounded's at_most_ahead must be a positive duration"),
    "0, at_most_ahead=0": (ValueError, "bounded's at_most_ahead must be a positive duration"),
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_refused(arguments: str) -> None:
    kind, match = WRONG[arguments]
    with pytest.raises(kind, match=match):
        eval(f"sl.bounded({arguments})")


def test_joins_take_none() -> None:
    with pytest.raises(ValueError, match="watermark of a join takes no at_most_ahead"):
        sl.JoinSpec(on=["k"], time="t", within=("0s", "10m"), watermark=sl.bounded("1m", at_most_ahead="1d"))


@pytest.mark.parametrize("ordered", [True, False])
def test_of_a_push_the_two_latest_times_are_remembered(ordered: bool) -> None:
    words = np.random.default_rng(2).integers(0, 10_000, 100_000)
    words[[0, 7, 70_000]] = 20_000  # the latest one again and again
    latest = int(words[words < 20_000].max())
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(3)))
    op.push(pa.table({"t": np.sort(words) if ordered else words}))
    assert op._watch.moved == (20_000, latest, None)
    assert op._watch.moved.without_newest(3) == latest - 3
    op.push(pa.table({"t": np.full(100_000, 30_000)}))
    assert op._watch.moved == (30_000, None, 19_997)
    assert op._watch.moved.without_newest(3) == 19_997


def test_a_warning_that_is_an_error_leaves_the_operator_as_it_was() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.bounded(0)))
    op.push(pa.table({"t": [1, 2, 100_000], "k": ["a", "a", "a"]}))
    before, rows = op.snapshot(), pa.table({"t": range(10, 30), "k": [f"k{i}" for i in range(20)]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="one row of time 100000 moved the watermark to 100000, and 20 of the 20"):
            op.push(rows)
        assert op.snapshot() == before
        assert op.push(rows).late.num_rows == 20, "it warns once, and the push may be repeated"
