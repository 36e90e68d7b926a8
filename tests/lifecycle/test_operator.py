"""What an operator does beyond rows and windows: clocks, quiet keys that are filled, explanations."""

from __future__ import annotations

import gc
import pickle
import warnings
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from harness import Squares

import slicing as sl
from slicing.query.plan import Plan
from slicing.query.policy import Policy

N = {"n": sl.count()}
FARTHEST = (1 << 62) + (1 << 61)  # the last time that rows may have


def test_processing_time_stamps_rows_as_they_are_pushed():
    clock = iter([1_000_000, 1_500_000, 1_400_000, 2_000_000])
    spec = sl.Spec(time=sl.processing_time(lambda: next(clock)), windows={"s": sl.tumbling("1s")}, aggs=N)
    op = sl.Operator(spec)
    rows = pa.table({"v": [1, 2, 3]})
    assert [op.push(rows).windows.num_rows for _ in range(3)] == [0, 0, 0]  # a clock that goes back stands still
    (window,) = op.push(rows).windows.to_pylist()
    assert (window["window_start"].timestamp(), window["window_end"].timestamp(), window["n"]) == (1.0, 2.0, 9)
    assert op.flush().windows["n"].to_pylist() == [3]


@pytest.mark.parametrize("by", [[], ["k"]])
@pytest.mark.parametrize("restored", [False, True])
def test_a_push_without_rows_moves_the_watermark_to_the_clock(by, restored):
    clock = iter([1_000_000, 2_500_000, 9_000_000, 8_000_000, 21_000_000])
    spec = sl.Spec(sl.processing_time(lambda: next(clock)), {"s": sl.tumbling("10s")}, N, by=by)
    op, rows = sl.Operator(spec), pa.table({"k": ["a", "a", "a"]})
    assert op.push(rows.slice(0, 0)).watermark.timestamp() == 1.0
    assert op.push(rows).windows.num_rows == 0
    if restored:
        op = sl.Operator.restore(spec, op.snapshot())
    assert [op.push(rows.slice(0, 0)).watermark.timestamp() for _ in range(2)] == [9.0, 9.0]
    out = op.push(rows.slice(0, 0))
    assert (out.watermark.timestamp(), out.windows["n"].to_pylist(), out.late.num_rows) == (21.0, [3], 0)
    assert op.flush().windows.num_rows == 0


@pytest.mark.parametrize("streamed", [True, False])
def test_a_clock_that_goes_on_while_aggregate_reads_closes_windows_on_the_way(streamed):
    clock = iter(range(0, 10_000_000, 600_000))
    spec = sl.Spec(time=sl.processing_time(lambda: next(clock)), windows={"s": sl.tumbling("1s")}, aggs=N)
    batches = [pa.table({"v": np.arange(400_000)}) for _ in range(4)]
    found = sl.aggregate(iter(batches) if streamed else pa.concat_tables(batches), spec)
    assert [start.timestamp() for start in found["window_start"].to_pylist()] == [0.0, 1.0]
    assert found["n"].to_pylist() == [800_000, 800_000]


EACH = {"t": sl.tumbling(10), "s": sl.session(3), "w": sl.whole(), "r": sl.per_row(4), "n": sl.rows(2)}


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64()])
@pytest.mark.parametrize("lateness", [0, 3])
def test_a_watermark_beyond_all_times_closes_all_but_what_a_flush_does(type, lateness):
    spec = sl.Spec(
        "t", EACH, N, watermark=sl.punctuated("m"), allowed_lateness=lateness, emit="changes" if lateness else "final"
    )
    op, (low, high) = sl.Operator(spec), (0, 2**64 - 1) if type == pa.uint64() else (-(2**63), 2**63 - 1)
    marks = [[low, None], [None], [high], [None]]
    found = []
    for times, mark in zip([[1, 2], [20], [30], [5]], marks, strict=True):
        out = op.push(pa.table({"t": pa.array(times, type), "m": pa.array(mark, type)}))
        found.append(sorted(out.windows["window"].to_pylist()))
    assert found == [[], [], ["n", "n", *"rrrr", *"sss", *"ttt"], []]
    assert out.late["t"].to_pylist() == [5]
    assert op.flush().windows["window"].to_pylist() == ["w"]


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("far", [2**62, np.datetime64("9999-12-31T23:59:59"), "9998-12-31T23:00", -(2**62)])
def test_calendar_windows_take_any_watermark(far, emit):
    windows = {"d": sl.calendar("1d", tz="Asia/Tokyo"), "y": sl.calendar("1y"), "l": sl.sliding("3000d", "2500d")}
    spec = sl.Spec("t", windows, N, watermark=sl.manual(), allowed_lateness="5d", emit=emit)
    op, rows = sl.Operator(spec), pa.table({"t": pa.array([0, 86_400], pa.timestamp("s", "UTC"))})
    op.push(rows)
    found = [op.advance(far), op.push(rows), op.advance(2**62), op.push(rows), op.flush()]
    early = far == -(2**62)
    assert [out.windows.num_rows for out in found] == ([0, 0, 5, 0, 0] if early else [5, 0, 0, 0, 0])
    assert [out.late.num_rows for out in found[:-1]] == [0, 0 if early else 2, 0, 2]


def test_calendar_windows_of_early_years_wait_for_late_rows():
    spec = sl.Spec("t", {"y": sl.calendar("1y")}, N, watermark=sl.bounded("400d"), allowed_lateness="1000d")
    op, day = sl.Operator(spec), 86_400
    first = int(np.datetime64("0001-06-01", "s").astype(np.int64))
    out = [op.push(pa.table({"t": pa.array([first + n * day], pa.timestamp("s"))})) for n in (0, 1, 1500, 2, 1800)]
    assert [n for o in out for n in o.windows["n"].to_pylist()] == [3]


@pytest.mark.parametrize("beside", [{}, {"m": sl.tumbling(10)}])
@pytest.mark.parametrize("size", [1, 4])
def test_fill_takes_no_account_of_rows_in_gaps_between_windows(size, beside):
    """Such a row is in no window, as if it were not there; other windows of the spec change nothing."""
    spec = sl.Spec("t", {"w": sl.sliding(3, every=10, fill=True), **beside}, N)
    rows = pa.table({"t": [5, 11, 31, 45]})
    found = [row for out in sl.replay(rows, spec, rows=size) for row in out.windows.to_pylist()]
    assert [(row["window_start"], row["n"]) for row in found if row["window"] == "w"] == [(10, 1), (20, 0), (30, 1)]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_fill_ends_with_a_key_that_was_idle_and_begins_anew(size):
    rows = [("a", 1), ("a", 35), ("b", 40), ("a", 48), ("b", 90), ("a", 200), ("a", 225), ("b", 300)]
    spec = sl.Spec(
        time="t",
        by=["k"],
        windows={"w": sl.tumbling(10, fill=True)},
        aggs=N,
        watermark=sl.bounded(0),
        idle=50,
    )
    op, found = sl.Operator(spec), []
    for at in range(0, len(rows), size):
        keys, times = zip(*rows[at : at + size], strict=True)
        found += op.push(pa.table({"k": keys, "t": times})).windows.to_pylist()
    found += op.flush().windows.to_pylist()
    of = {k: [(w["window_end"], w["n"]) for w in found if w["k"] == k] for k in "ab"}
    assert sorted(of["a"]) == [
        *[(10, 1), (20, 0), (30, 0), (40, 1), (50, 1)],  # then quiet for 152 ticks: no windows up to 200
        *[(210, 1), (220, 0), (230, 1)],
    ]
    assert sorted(of["b"]) == [(50, 1), (60, 0), (70, 0), (80, 0), (90, 0), (100, 1), (310, 1)]


def test_a_key_that_began_anew_is_filled_up_to_where_it_was_quiet():
    """The watermark is behind: the key has rows after a pause that is too long, and has not ended before it."""
    spec = sl.Spec("t", {"w": sl.tumbling(3, fill=True)}, N, by=["k"], watermark=sl.bounded(20), idle=12)
    op, found = sl.Operator(spec), []
    for time, key in ((0, "a"), (11, "a"), (26, "b"), (28, "a"), (40, "b")):
        found += op.push(pa.table({"t": [time], "k": [key]})).windows.to_pylist()
    found += op.flush().windows.to_pylist()
    assert [(w["window_start"], w["n"]) for w in found if w["k"] == "a"] == [(0, 1), (3, 0), (6, 0), (9, 1), (27, 1)]


@pytest.mark.parametrize("window", [sl.tumbling(2, fill=True), sl.cumulate(2, every=2, fill=True)], ids=str)
def test_fill_costs_nothing_between_keys_that_lie_far_apart(window):
    far = 2**61
    op = sl.Operator(sl.Spec(time="t", by=["k"], windows={"w": window}, aggs=N))
    out = op.push(pa.table({"k": ["a", "a", "b", "b"], "t": [-far, 5 - far, far, far + 3]})).windows.to_pylist()
    found = [(w["k"], w["window_start"], w["n"]) for w in out + op.flush().windows.to_pylist()]
    assert found == [("a", -far, 1), ("a", 2 - far, 0), ("a", 4 - far, 1), ("b", far, 1), ("b", far + 2, 1)]


def test_many_keys_come_and_go_and_few_are_remembered():
    spec = sl.Spec(time="t", by=["k"], windows={"w": sl.sliding(8, every=1)}, aggs=N, watermark=sl.bounded(0))
    op, tick = sl.Operator(spec), count()
    for _ in range(60):
        t = next(tick)
        out = op.push(pa.table({"t": [t] * 1000, "k": range(1000 * t, 1000 * t + 1000)}))
    assert out.stats["keys"] < 40_000  # 60,000 were seen, 8,000 live
    assert out.stats.cells == 8_000


def test_keys_that_come_slowly_are_forgotten_too():
    spec = sl.Spec(time="t", by=["k"], windows={"w": sl.tumbling(1)}, aggs=N, watermark=sl.bounded(0))
    op = sl.Operator(spec)
    most = [op.push(pa.table({"t": [t] * 10, "k": range(5 * t, 5 * t + 10)})).stats["keys"] for t in range(500)]
    assert max(most) < 300 < len(most)  # 2,505 were seen


def test_a_spec_prints_as_code_hashes_and_pickles():
    spec = sl.Spec(
        time="ts",
        by=["k"],
        windows={"a": sl.sliding("1h", every="90s", offset="-5s"), "b": sl.calendar("1mo", tz="Europe/Berlin")},
        aggs={"v": sl.var("x", ddof=0).where("ok"), "m": sl.argmin("x", "y")},
        watermark=sl.per_source("s", "10s", idle="1m"),
        allowed_lateness="1m",
        emit="changes",
        sequence="q",
    )
    again = eval(repr(spec), {"sl": sl})
    assert again == spec and hash(again) == hash(spec) and again.fingerprint() == spec.fingerprint()
    assert pickle.loads(pickle.dumps(spec)) == spec
    same = repr(spec).replace("allowed_lateness='1m'", "allowed_lateness='60s', on_overflow='null'")
    assert eval(same, {"sl": sl}).fingerprint() == spec.fingerprint()


def test_explain_says_what_a_query_comes_to():
    spec = sl.Spec(
        time="ts",
        by=["k"],
        windows={"m": sl.tumbling("1m"), "h": sl.sliding("1h", every="4m"), "v": sl.session("30m"), "all": sl.whole()},
        aggs={"total": sl.sum("x"), "low": sl.min("x"), "n": sl.count("x")},
    )
    told = sl.explain(spec)
    assert told["edges"] == "every 1m (4 progressions of 2 windows fused into 1)"
    assert told["hyper-period"] == "edges repeat every 1m, at most 1 slices in it"
    assert told["slices a window"] == "h: at most 60; m: at most 1"
    assert told["fragments"].startswith("yes: within a slice a key's rows split where they are more than 30m apart")
    assert told["rows kept"].startswith("no: ")
    assert told["combine"].splitlines()[1] == (
        "a push that spans 1h: sparse table, 753 combinations a key for 75 windows "  # 15 of 60 slices, 60 of 1
        "(960 by recompute, 1965 by two stacks): many windows of mixed lengths: a few partials each"
    )
    assert told["bytes per live key"].startswith("96 bytes a cell (48 of bounds, 48 of 2 partial blocks)")
    assert "all (whole() keeps every key until flush)" in told["state"]
    assert told["late rows"].splitlines() == [
        "with watermark=sl.bounded(0) a row is late for windows between edges if all its windows end at or before the "
        "watermark; for sessions if the watermark is the gap or more after it; for other windows if it is before the "
        "watermark",
        "this watermark is the newest time, so a row that comes out of order may be late",
    ]
    assert all(name in str(told) and f">{name}</th>" in told._repr_html_() for name, _ in told.facts)


@pytest.mark.parametrize(
    ("window", "late"),
    [
        (sl.tumbling(5), "all its windows end at or before the watermark less 2"),
        (sl.session(3), "the watermark less 2 is the gap or more after it"),
        (sl.whole(), "it is before the watermark less 2"),
        (sl.rows(3), "it is before the watermark less 2"),
    ],
    ids=repr,
)
def test_explain_says_which_rows_are_late(window, late):
    told = sl.explain(sl.Spec("t", {"w": window}, {"n": sl.count()}, allowed_lateness=2))["late rows"].splitlines()
    assert told[0] == f"with watermark=sl.bounded(0) a row is late if {late}"
    op = sl.Operator(sl.Spec("t", {"w": window}, {"n": sl.count()}, allowed_lateness=2))
    op.push(pa.record_batch({"t": [0, 20]}))
    first = {sl.tumbling(5): 15, sl.session(3): 16, sl.whole(): 18, sl.rows(3): 18}[window]
    assert op.push(pa.record_batch({"t": [first - 1, first]})).late["t"].to_pylist() == [first - 1]
    assert op.flush().stats.full == 0


KINDS = {
    "slices": {"m": sl.tumbling(5), "h": sl.sliding(20, 5)},
    "sessions": {"v": sl.session(3)},
    "rows": {"r": sl.rows(7), "p": sl.per_row(4)},
    "all": {"m": sl.tumbling(5), "v": sl.session(3), "w": sl.whole(), "r": sl.last_rows(3, every=5)},
}


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_push_leaves_nothing_to_the_garbage_collector(kind, emit):
    spec = sl.Spec(
        time="t",
        by=["k"],
        windows=KINDS[kind],
        aggs={"n": sl.count(), "s": sl.sum("v"), "med": sl.median("v"), "top": sl.max("name")},
        watermark=sl.bounded(2),
        allowed_lateness=5,
        emit=emit,
    )
    rng = np.random.default_rng(0)
    op = sl.Operator(spec)

    def push(at: int) -> None:
        times, keys = at + rng.integers(0, 10, 50), rng.integers(0, 9, 50)
        op.push(pa.table({"t": times, "k": keys, "v": rng.random(50), "name": [f"n{k}" for k in keys]}))

    for at in range(0, 50, 10):
        push(at)
    gc.freeze()  # what other tests left costs a collection a second
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for at in range(50, 100, 10):
            push(at)
        gc.collect()
        held = [
            o for o in gc.garbage if isinstance(o, np.ndarray | pa.Array) or type(o).__module__.startswith("slicing")
        ]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    assert not held, "these wait for the collector, and with them the memory of a batch"


def test_a_window_that_needs_a_new_row_of_each_key_looks_at_all_runs():
    spec = sl.Spec("t", by=["k"], windows={"w": sl.landmark(2, start=-1)}, aggs={"n": sl.count()})
    op = sl.Operator(spec)
    first = op.push(pa.table({"t": [-1, -1, -1], "k": [0, 1, 0]})).windows
    later = op.push(pa.table({"t": [2, 10**12, 10**12 + 1], "k": [0, 0, 0]})).windows
    found = [(row["window_end"], row["k"], row["n"]) for out in (first, later) for row in out.to_pylist()]
    assert found == [(0, 0, 2), (0, 1, 1), (4, 0, 3)]


def test_operators_of_one_spec_know_nothing_of_each_other():
    spec = sl.Spec("t", {"w": sl.tumbling(10), "s": sl.sliding(7, 3)}, N, watermark=sl.ordered())
    streams = [pa.table({"t": np.arange(first, first + 200, step)}) for first, step in ((0, 1), (10**6, 13))]
    alone = [sl.aggregate(stream, pickle.loads(pickle.dumps(spec))) for stream in streams]
    operators, found = [sl.Operator(spec), sl.Operator(spec)], [[], []]
    for at in range(0, 200, 7):
        for op, stream, windows in zip(operators, streams, found, strict=True):
            windows.append(op.push(stream.slice(at, 7)).windows)
    for op, windows, wanted in zip(operators, found, alone, strict=True):
        assert pa.concat_tables([*windows, op.flush().windows]).equals(wanted)
    assert sl.aggregate(pa.table({"t": pa.array([5], pa.int32())}), spec)["window_start"].type == pa.int32()
    one, other, of_parts = (Plan.of(spec, streams[0].schema, arrival) for arrival in (True, True, False))
    assert one.edges is not other.edges and one.memo is not other.memo
    assert one.arrival and not of_parts.arrival
    squares = sl.Spec("t", {"s": Squares()}, N, watermark=sl.ordered())  # a user's windows may remember something
    one, other = (Plan.of(squares, streams[0].schema) for _ in range(2))
    assert one.bounds[0] is not other.bounds[0]


def test_equal_specs_are_planned_once_for_each_of_their_types():
    def spec(size):
        return sl.Spec("t", {"w": sl.tumbling(size), "r": sl.per_row(3)}, N)

    schemas = [pa.schema([("t", type)]) for type in (pa.int64(), pa.int32())]
    one, other = (Plan.of(spec(10), schemas[0]) for _ in range(2))
    assert one is not other and one.spec is not other.spec and one.bounds[0] is other.bounds[0]
    assert one.rows.windows[0] is other.rows.windows[0]
    one.set_policy(Policy("prefix difference"))
    assert other.combine == Plan.of(spec(10), schemas[0]).combine == "auto"
    assert Plan.of(spec(10), schemas[1]).bounds[0] is not one.bounds[0]
    assert Plan.of(spec(20), schemas[0]).bounds[0] is not one.bounds[0]
    for _ in range(2):
        with pytest.raises(TypeError, match="time column 't' must hold"):
            Plan.of(spec(10), pa.schema([("t", pa.float64())]))
    rows = pa.table({"t": [1, 2], "v": [3, 4]})
    for factor, type in ((2, pa.int64()), (2.0, pa.float64()), (2, pa.int64())):  # equal numbers are not alike
        for agg in (sl.sum("v") * factor, sl.sum(sl.col("v") * factor)):
            assert sl.aggregate(rows, sl.Spec("t", {"w": sl.whole()}, {"a": agg})).schema.field("a").type == type


def test_columns_may_change_places_between_pushes():
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"total": sl.sum("v")}, by=["k"], watermark=sl.ordered())
    rows = pa.table({"t": range(40), "v": range(40), "k": [at % 3 for at in range(40)]})
    op, found = sl.Operator(spec), []
    for at, names in enumerate((["t", "v", "k"], ["k", "t", "v"], ["v", "other", "k", "t"], ["t", "v", "k"])):
        given = rows.append_column("other", rows["v"]).select(names).slice(10 * at, 10)
        found.append(op.push(given).windows)
    assert pa.concat_tables([*found, op.flush().windows]).equals(sl.aggregate(rows, spec))


def test_operators_and_their_outputs_print_as_a_line():
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs=N, watermark=sl.bounded(2)))
    assert repr(op) == f"<sl.Operator of {op.spec}>"
    op.push(pa.table({"t": [1, 25]}))
    out = op.push(pa.table({"t": [3, 33]}))
    assert repr(out) == f"<sl.Output: 1 windows, 1 late rows, watermark 31, stats {dict(out.stats)}>"


def test_a_watermark_may_be_an_arrow_scalar():
    """As the largest time of a column is, before the first push and after it."""
    times = pa.array([1_714_564_800_123_456_789 + n * 10**9 for n in range(120)], pa.timestamp("ns", "Asia/Tokyo"))
    rows = pa.table({"t": times})
    found = []
    for watermark in (pa.compute.max(times), pa.compute.max(times).value):
        op = sl.Operator(sl.Spec("t", {"w": sl.tumbling("1m")}, N, watermark=sl.manual()))
        op.advance(pa.compute.min(times) if isinstance(watermark, pa.Scalar) else times[0].value)
        op.push(rows)
        out = op.advance(watermark)
        found.append((out.windows.to_pylist(), out.watermark))
    assert found[0] == found[1]
    assert len(found[0][0]) == 1
    with pytest.raises(TypeError, match=r"watermark must be .* got None"):
        op.advance(pa.scalar(None, pa.timestamp("ns")))
    fixed = sl.fixed(times[3], times[5])
    table = sl.aggregate(rows, sl.Spec("t", {"w": fixed, "l": sl.landmark("1d", start=times[7])}, N))
    assert table["n"].to_pylist() == [2, 113]
    assert eval(repr(fixed), {"sl": sl}) == fixed


@pytest.mark.parametrize("offset", ["50h", "20000d", "-20000d 2h", 0])
def test_whole_steps_of_an_offset_change_nothing(offset):
    """However long it is: 20,000 days of nanoseconds are more than an edge may be away."""
    rows = pa.table({"t": pa.array([1_714_564_800_123_456_789 + n * 10**12 for n in range(500)], pa.timestamp("ns"))})
    hours = {"50h": "2h", "20000d": "0h", "-20000d 2h": "-2h", 0: 0}[offset]

    def asked(shift):
        windows = {"t": sl.tumbling("1d", offset=shift), "s": sl.sliding("2d", "6h", offset=shift)}
        return sl.aggregate(rows, sl.Spec("t", windows | {"c": sl.cumulate("1d", "6h", offset=shift)}, N))

    assert asked(offset).equals(asked(hours))


def test_offsets_of_integers_are_taken_by_their_rest():
    rows = pa.table({"t": list(range(100))})
    for offset in (2**61 + 3, -(2**61) + 3, 2**70 + 3, 3 - 10**30):
        near = offset % 10
        table, expected = (
            sl.aggregate(rows, sl.Spec("t", {"t": sl.tumbling(10, o), "c": sl.cumulate(10, 5, o)}, N))
            for o in (offset, near)
        )
        assert table.equals(expected)


def test_a_source_is_silent_once_it_is_as_far_behind_as_idle_says():
    """A tick earlier it still holds the others back; its next row counts again."""
    at = 1_772_323_200_000_000_000
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.per_source("from", 3, idle=10))
    op = sl.Operator(spec)
    for times, sources, reached in [
        ([0, 2], "ab", -3),
        ([9], "b", -3),
        ([10], "b", 7),
        ([8], "a", 7),
        ([17], "b", 7),
        ([18], "b", 15),
    ]:
        out = op.push(pa.table({"t": [at + t for t in times], "from": list(sources)}))
        assert out.watermark == at + reached, times
        op = sl.Operator.restore(spec, op.snapshot())


def test_an_output_can_be_sent_to_another_process() -> None:
    op = sl.Operator(sl.Spec("t", {"ten": sl.tumbling(10), "visit": sl.session(3)}, {"n": sl.count()}, by="k"))
    out = op.push(pa.table({"t": [1, 2, 25], "k": ["a", "b", "a"]}))
    sent = pickle.loads(pickle.dumps(out))
    assert sent.windows.equals(out.windows) and sent.stats == out.stats and sent.watermark == out.watermark == 25
    assert sent.progress == dict(out.progress) == {"window_start": 20, "window_end": 25}


def test_a_warning_names_the_line_that_pushed() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for times in ([1, 2, 10**9], [3] * 10, [4] * 10):
            op.push(pa.table({"t": times}))
    assert [(Path(one.filename).name, "10**9" not in str(one.message)) for one in found] == [
        (Path(__file__).name, True)
    ]


@pytest.mark.parametrize("far", [1 << 60, FARTHEST - 100_000])
def test_sessions_that_lie_farther_apart_than_a_word_all_end(far: int) -> None:
    """Of so many open sessions, a push looks only at those that may end."""
    op = sl.Operator(sl.Spec("t", {"s": sl.session(10)}, {"n": sl.count()}, by="k", watermark=sl.manual()))
    times = [[-FARTHEST + at for at in range(100)], [-FARTHEST + (1 << 62)], [0], [far + at for at in range(6000)]]
    keys = 0
    for some in times:
        op.push(pa.table({"t": some, "k": range(keys, keys + len(some))}))
        keys += len(some)
    ended = 0
    for at, reached in enumerate((*(-FARTHEST + n for n in (20, 40, 60, 200)), 100, far + 30, far + 60)):
        op.push(pa.table({"t": [far + 7000 + 100 * at], "k": [keys + at]}))
        ended += op.advance(reached).windows.num_rows
    assert ended + op.flush().windows.num_rows == keys + 7


def test_a_watermark_before_the_first_push_that_does_not_fit_is_told_and_replaced() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.manual()))
    op.advance("2024-01-01")
    with pytest.raises(TypeError, match=r"got '2024-01-01'\. It was given by advance before the first push"):
        op.push(pa.table({"t": [1]}))
    op.advance(5)
    out = op.push(pa.table({"t": [1, 7]}))
    assert (out.watermark, out.stats.windowed) == (5, 2)


def test_keys_that_are_kept_only_to_fill_gaps_are_not_forgotten() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10, fill=True)}, {"n": sl.count()}, by="k"))
    op.push(pa.table({"t": [1], "k": ["q"]}))
    outs = [op.push(pa.table({"t": [20 * i] * 300, "k": [f"k{i}_{j}" for j in range(300)]})) for i in range(1, 12)]
    outs.append(op.push(pa.table({"t": [500], "k": ["q"]})))
    found = [row for out in outs for row in out.windows.to_pylist() if row["k"] == "q"]
    assert [row["window_start"] for row in found] == list(range(0, 500, 10))
    assert [row["n"] for row in found] == [1] + [0] * 49


def test_what_a_policy_chooses_is_chosen_for_each_operator() -> None:
    """Operators of one spec share a plan, but not what follows from their policies."""
    spec = sl.Spec("t", {"w": sl.sliding(20, every=1)}, {"n": sl.count(), "m": sl.sum("v")}, by="k")
    rows = pa.table({"t": [0], "k": [0], "v": [0]})

    def plan_of(**given: object) -> tuple[bool, bool, int]:
        op = sl.Operator(spec, **given)
        op.push(rows)
        plan = op._now.plan
        assert sl.Operator.restore(spec, op.snapshot(), **given)._now.plan.eager == plan.eager
        return plan.eager, plan.packs, plan.policy.packed_words

    for _ in range(2):
        assert plan_of() == (False, True, Policy.packed_words)
        assert plan_of(policy=Policy(tree_slides=1)) == (True, False, Policy.packed_words)
        assert plan_of(policy=Policy(packed_words=1)) == (False, True, 1)
        assert plan_of(combine="eager store") == (True, False, Policy.packed_words)
