"""``full=True``: only windows that the data covers from start to end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from harness import check, check_aggregate, check_postponed, check_resplit, share
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, Kit, cases

import slicing as sl
from slicing import exchange as partials

HOUR = 3_600 * 10**9
NOW = 1_714_564_800_000_000_000  # ns, 2024-05-01 12:00
N = {"n": sl.count()}
FULL = Kit(kinds=("tumbling", "sliding", "sliding", "session"), full=True, rich_values=False)


def untouched(case: Case) -> Case:
    """No late row may change a window that was left out."""
    return case.asking(lateness=0) if case.query["emit"] != "final" else case


@share(40)
@given(cases(FULL))
def test_full_windows_step_by_step(case: Case) -> None:
    check(untouched(case))
    check_aggregate(untouched(case))


@share(15)
@given(cases(Kit(kinds=("tumbling", "sliding"), full=True, emits=("final",), idle=False)), st.integers(1, 5))
def test_full_windows_that_wait(case: Case, most: int) -> None:
    check_postponed(case, most)


@share(25)
@given(
    cases(Kit(("tumbling", "sliding"), ("bounded",), ("final",), full=True, within_bound=True, rich_values=False)),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_full_windows_of_any_split(case: Case, sizes: list[int]) -> None:
    check_resplit(case, sizes, [0])


def hours(times: list[int] | np.ndarray, **more: object) -> pa.Table:
    return pa.table({"t": pa.array(times).cast(pa.timestamp("ns", "UTC")), **more})


@pytest.mark.parametrize("size", [10, 1000, 5000])
def test_a_day_by_the_hour_begins_when_there_is_a_day(size: int) -> None:
    """20,000 rows over 14 days; sliding days begin 24 h later than without."""
    times = np.sort(np.random.default_rng(2).integers(NOW, NOW + 14 * 24 * HOUR, 20_000))
    data = hours(times)
    windows = {"some": sl.sliding("1d", "1h"), "full": sl.sliding("1d", "1h", full=True)}
    expected = sl.aggregate(data, sl.Spec("t", windows, N)).to_pandas()
    some, full = (expected[expected["window"] == name].drop(columns="window") for name in windows)
    first, last = (np.datetime64(int(t), "ns") for t in times[[0, -1]])
    start, end = (some[c].to_numpy("M8[ns]") for c in ("window_start", "window_end"))
    covered = some[(start >= first) & (end <= last + np.timedelta64(1, "ns"))]
    assert full.to_numpy().tolist() == covered.to_numpy().tolist()
    assert 0 < len(full) == len(some) - 24 - 24
    op = sl.Operator(sl.Spec("t", windows, N, watermark=sl.bounded("1h")))
    found = [op.push(data.slice(at, size)).windows for at in range(0, len(times), size)]
    assert pa.concat_tables([*found, op.flush().windows]).to_pandas().equals(expected)


def test_keys_that_begin_later_have_the_windows_of_the_stream() -> None:
    data = hours([NOW, NOW + HOUR // 2, NOW + 3 * HOUR - 1], k=["a", "b", "a"])
    table = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling("1h", full=True)}, N, by="k"))
    assert table["k"].to_pylist() == ["a", "b", "a"]
    late = sl.aggregate(data.slice(1), sl.Spec("t", {"w": sl.tumbling("1h", full=True)}, N, by="k"))
    assert late["k"].to_pylist() == ["a"]  # 12:30 to 13:00 is no hour


def test_the_last_tick_of_a_window_is_its_end() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10, full=True)}, N)
    assert sl.aggregate(pa.table({"t": [10, 19]}), spec)["window_start"].to_pylist() == [10]
    assert sl.aggregate(pa.table({"t": [10, 18]}), spec).num_rows == 0
    assert sl.aggregate(pa.table({"t": [11, 19]}), spec).num_rows == 0
    days = pa.table({"t": pa.array(range(19_844, 19_844 + 31), pa.int32()).cast(pa.date32())})
    weeks = sl.aggregate(days, sl.Spec("t", {"w": sl.tumbling("1w", offset="4d", full=True)}, N))
    assert weeks["n"].to_pylist() == [7, 7, 7]


def test_an_explicit_watermark_covers_what_it_passes() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10, full=True)}, N, watermark=sl.manual()))
    op.push(pa.table({"t": [10, 12, 31]}))
    assert op.advance(40).windows["window_start"].to_pylist() == [10, 30]
    assert op.flush().windows.num_rows == 0


def test_rows_of_windows_left_out_are_accounted_for() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10, full=True)}, N))
    out = op.push(pa.table({"t": [5, 25]}))
    assert (out.stats.windowed, out.stats.windows, out.windows.num_rows) == (2, 0, 0)


def test_snapshots_parts_and_windows_alike() -> None:
    """Where the stream began is kept, and told to other places; a full window beside the same in part."""
    times = NOW + np.arange(100) * HOUR // 7
    windows = {
        "full": sl.tumbling("1h", full=True),
        "part": sl.tumbling("1h"),
        "fill": sl.tumbling("1h", fill=True, full=True),
    }
    data = hours(times, k=["a", "b"] * 50)
    query = sl.Spec("t", windows, N, by="k", watermark=sl.bounded("1h"))
    expected = sl.aggregate(data, query)
    op, found = sl.Operator(query), []
    operator, parts = partials.start(query, data.schema), []
    for at in range(0, 100, 10):
        found.append(op.push(data.slice(at, 10)).windows)
        op = sl.Operator.restore(query, op.snapshot())
        blobs = []
        for half in (0, 5):
            collector = partials.Collector(query, data.schema, partials.state_of(operator).watermark)
            collector.push(data.slice(at + half, 5))
            blobs += partials.packed(collector.parts(), 1)
        parts.append(partials.admit(operator, blobs).windows)
    for answers in ([*found, op.flush().windows], [*parts, operator.flush().windows]):
        table = pa.concat_tables(answers)
        assert sorted(map(str, table.to_pylist())) == sorted(map(str, expected.to_pylist()))
    counts = expected.group_by("window").aggregate([([], "count_all")]).to_pydict()
    assert dict(zip(counts["window"], counts["count_all"], strict=True)) == {"full": 28, "fill": 28, "part": 30}


def test_what_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"windows\['w'\] has full=True, which needs emit='final' when allowed_lateness"
    ):
        sl.Spec("t", {"w": sl.tumbling(5, full=True)}, N, allowed_lateness=5, emit="updates")
    with pytest.raises(ValueError, match=r"windows\['w'\] has full=True, and idle=4 ends windows before"):
        sl.Spec("t", {"w": sl.tumbling(5, full=True)}, N, idle=4)
    with pytest.raises(TypeError, match="full must be True or False; got 1"):
        sl.sliding(5, 5, full=1)
    assert repr(sl.sliding("1h", "5m", full=True)) == "sl.sliding('1h', every='5m', full=True)"
    assert eval(repr(sl.tumbling("1h", full=True))) == sl.tumbling("1h", full=True)
    specs = [sl.Spec("t", {"w": sl.tumbling(5, full=full)}, N) for full in (True, False)]
    assert specs[0].fingerprint() != specs[1].fingerprint()


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (sl.tumbling("1w"), "w: begins on Thursday (UTC); those of sl.calendar('1w') begin on Monday, local ones too"),
        (sl.sliding("4w", "2w", offset="2d"), "w: begins on Saturday (UTC); those of"),
        (sl.tumbling("7d", offset="4d"), "w: begins on Monday (UTC)\n"),
        (sl.tumbling("1d"), None),
        (sl.sliding("1w", "1d"), None),
        (sl.tumbling("1w", offset="5h"), None),
        (sl.tumbling(7), None),
    ],
    ids=repr,
)
def test_explain_says_on_which_day_weeks_begin(window: object, said: str | None) -> None:
    told = str(sl.explain(sl.Spec("t", {"w": window}, N))) + "\n"
    assert ("begins on" in told) == (said is not None)
    assert said is None or said in told
    assert "Thursday" in (sl.tumbling.__doc__ or "")


@pytest.mark.parametrize("emit", ["parts", "updates", "changes"])
@pytest.mark.parametrize("trigger", [None, "10m", "each push"])
def test_windows_are_full_beside_windows_that_are_reported_early(emit: str, trigger: str | None) -> None:
    """Two days of rows of three keys; a trigger reports another window."""
    random = np.random.default_rng(3)
    times = np.sort(random.integers(NOW + HOUR // 3, NOW + 50 * HOUR, 2000))
    data = hours(times, k=random.integers(0, 3, times.size))
    windows = {"early": sl.tumbling("1h"), "full": sl.sliding("1d", "1h", full=True)}
    when = {"10m": sl.every("10m"), "each push": sl.each_push()}
    expected = sl.aggregate(data, sl.Spec("t", {"full": windows["full"]}, N, by="k")).to_pylist()
    early = {} if trigger is None else {"trigger": {"early": when[trigger]}}
    op = sl.Operator(sl.Spec("t", windows, N, by="k", emit=emit, watermark=sl.bounded("1h"), **early))
    out = [op.push(data.slice(at, 300)) for at in range(0, times.size, 300)] + [op.flush()]
    found = [row for some in out for row in some.windows.to_pylist() if row["window"] == "full"]
    assert 0 < len(expected) < 3 * 50
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
