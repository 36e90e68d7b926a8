"""Chains give what their operators give one after the other, and nothing is late inside of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

import slicing as sl

ORIGINS = (0, 1_700_000_000_000_000_000, -(2**62))
WINDOWS = (sl.tumbling(10), sl.sliding(12, 5), sl.session(4), sl.cumulate(20, 5))
AT_ROWS = (
    *(sl.punctuation("p"), sl.punctuation("p", per_key=False), sl.frame("p", "q"), sl.frame("p", "q", partial=True)),
    *(sl.rows(3), sl.rows(4, 2, partial=True), sl.rows(4, 2, partial=True, per_key=False), sl.last_rows(2, 5)),
    *(sl.per_row(4), sl.per_row(before=2, after=9), sl.whole()),
)


ALIGNED = (0, 7000 * 242_857_142_857_142)  # where windows of 7, 10 and 1000 begin


def drawn_times(rng: random.Random) -> list[int]:
    """Times of 60 rows, up to 5 behind the newest."""
    at, times = rng.choice(ORIGINS), []
    for _ in range(60):
        at += rng.choice([0, 1, 3, 20])
        times.append(at - rng.randint(0, 5))
    return times


def rows_of(tables: list[pa.Table]) -> list[tuple]:
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("time", ["window_start", "window_end"])
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_windows_of_windows_are_those_of_all_windows(window: object, time: str) -> None:
    first = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.bounded(6))
    aggs = {"s": sl.sum("n"), "m": sl.max("n")}
    second = sl.Spec(time, {"h": sl.tumbling(40)}, aggs, by="k", watermark=sl.manual())
    early = 0
    for seed in range(20):
        rng = random.Random(seed)
        times = drawn_times(rng)
        data = pa.table({"t": times, "k": [rng.choice("ab") for _ in times]})
        wanted = sl.aggregate(sl.aggregate(data, first), second)
        op, found, row = sl.chain(sl.Operator(first), sl.Operator(second)), [], 0
        while row < len(times):
            size = rng.randint(1, 13)
            out = op.push(data.slice(row, size))
            assert out.late.num_rows == 0
            found.append(out.windows)
            row += size
            if rng.random() < 0.2:
                op = sl.Chain.restore([first, second], op.snapshot())
        early += sum(table.num_rows for table in found)
        assert rows_of([*found, op.flush().windows]) == rows_of([wanted]), seed
    assert early > 40, "windows of windows come while the stream goes on"


# the whole stream is never idle: a spec refuses it
WITH_IDLE = [(window, 15) for window in AT_ROWS if getattr(window, "per_key", True)]


@pytest.mark.parametrize(("window", "idle"), [*((window, None) for window in AT_ROWS), *WITH_IDLE], ids=repr)
def test_no_window_that_ends_at_a_row_is_late_for_the_next_operator(window: object, idle: int | None) -> None:
    """Keys end at different times, and windows that a later row or the end completes end long before the watermark."""
    first = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.bounded(6), idle=idle)
    second = sl.Spec("window_end", {"h": sl.tumbling(7)}, {"s": sl.sum("n")}, by="k", watermark=sl.manual())
    early = 0
    for seed in range(8):
        rng = random.Random(seed)
        times = drawn_times(rng)
        columns = {"p": [rng.random() < 0.3 for _ in times], "q": [rng.random() < 0.3 for _ in times]}
        data = pa.table({"t": times, "k": [rng.choice("abc"[: 1 + i // 15]) for i in range(60)], **columns})
        alone, op = sl.Operator(first), sl.chain(sl.Operator(first), sl.Operator(second))
        windows, found = [], []
        for row in range(0, 60, 7):
            windows.append(alone.push(data.slice(row, 7)).windows)
            out = op.push(data.slice(row, 7))
            assert out.late.num_rows == 0
            found.append(out.windows)
        early += sum(table.num_rows for table in found)
        last = op.flush()
        assert last.late.num_rows == 0
        of_windows = sl.aggregate(pa.concat_tables([*windows, alone.flush().windows]), second)
        assert rows_of([*found, last.windows]) == rows_of([of_windows]), seed
    assert early > 8 or isinstance(window, type(sl.whole())), "windows of windows come while the stream goes on"


@pytest.mark.parametrize("zero", ALIGNED)
@pytest.mark.parametrize("window", [sl.punctuation("p"), sl.rows(2, partial=True)], ids=repr)
def test_windows_of_keys_with_marks_are_not_late_either(window: object, zero: int) -> None:
    first = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.bounded(0))
    second = sl.Spec("window_end", {"h": sl.tumbling(7)}, {"s": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(first), sl.Operator(second))
    rows = {"t": [zero + 5], "k": ["a"], "p": [False]}
    outs = [op.push(pa.table(rows)), op.advance(marks=pa.table({"t": [zero + 200], "k": ["a"]}))]
    outs += [op.push(pa.table({"t": [zero + 100], "k": ["b"], "p": [False]})), op.flush()]
    assert all(out.late.num_rows == 0 for out in outs)
    found = [(r["window_start"] - zero, r["s"]) for out in outs for r in out.windows.to_pylist()]
    assert found == [(0, 1), (98, 1)]


@pytest.mark.parametrize("zero", ALIGNED)
@pytest.mark.parametrize("time", ["window_start", "window_end"])
def test_empty_windows_are_not_late_either(time: str, zero: int) -> None:
    first = sl.Spec("t", {"w": sl.tumbling(10, fill=True)}, {"n": sl.count()}, by="k", watermark=sl.bounded(0))
    second = sl.Spec(time, {"h": sl.tumbling(1000)}, {"windows": sl.count(), "s": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(first), sl.Operator(second))
    outs = [op.push(pa.table({"t": [zero + t], "k": [k]})) for t, k in ((5, "a"), (95, "b"), (96, "a"), (3000, "a"))]
    outs.append(op.flush())
    assert all(out.late.num_rows == 0 for out in outs)
    of_a, of_b = 3000 // 10 + 1, 1
    found = [row for out in outs for row in out.windows.to_pylist()]
    assert (sum(row["windows"] for row in found), sum(row["s"] for row in found)) == (of_a + of_b, 4)


def test_rows_that_are_late_for_the_first_operator_are_in_outputs() -> None:
    first = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(0))
    second = sl.Spec("window_start", {"h": sl.tumbling(100)}, {"s": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(first), sl.Operator(second))
    assert op.outputs == ()
    op.push(pa.table({"t": [1, 30]}))
    out = op.push(pa.table({"t": [2, 31, 3]}))
    assert out.late.num_rows == 0 and op.outputs[-1] is out
    assert op.outputs[0].late.to_pylist() == [{"t": 2, "reason": "late"}, {"t": 3, "reason": "late"}]
    with pytest.raises(TypeError, match="its columns are x"):
        op.push(pa.table({"x": [1]}))
    assert op.outputs[-1] is out, "a refused push changes nothing"


def test_a_restored_chain_takes_options_of_its_operators() -> None:
    first = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(0))
    second = sl.Spec("window_start", {"h": sl.tumbling(10)}, {"s": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(first), sl.Operator(second))
    op.push(pa.table({"t": [5]}))
    op = sl.Chain.restore([first, second], op.snapshot(), options=[{"max_windows_per_push": 1}, {}])
    op.push(pa.table({"t": [15, 25, 35, 45]}))
    assert op.outputs[0].windows.num_rows == 1, "of four windows that close"
    with pytest.raises(ValueError, match="options must have a dict for each of the 2 specs; got 1"):
        sl.Chain.restore([first, second], op.snapshot(), options=[{}])


def test_parts_go_into_a_rollup_only() -> None:
    parts = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.each_push(), emit="parts")
    rollup = sl.rollup_spec(parts, {"h": sl.tumbling(3600)})
    op = sl.chain(sl.Operator(parts), sl.Operator(rollup))
    op.push(pa.table({"t": [1, 2]}))
    op.push(pa.table({"t": [3, 70]}))
    assert op.flush().windows["n"].to_pylist() == [4]
    other = sl.Spec("window_start", {"h": sl.tumbling(3600)}, {"n": sl.max("n")}, watermark=sl.manual())
    with pytest.raises(ValueError, match="would take each part for a window"):
        sl.chain(sl.Operator(parts), sl.Operator(other))


@pytest.mark.parametrize("type", [pa.uint8(), pa.uint32(), pa.uint64(), pa.int8()])
def test_a_watermark_before_all_times_of_the_type_reaches_the_next_operator(type: pa.DataType) -> None:
    least = -120 if type == pa.int8() else 0
    windows = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(50))
    second = sl.Spec("window_start", {"h": sl.tumbling(20)}, {"s": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(windows), sl.Operator(second))
    found = [op.push(pa.table({"t": pa.array([least + t], type)})).windows for t in (3, 15, 90)]
    assert sum(table.num_rows for table in found) == 1
    assert sum(row["s"] for table in [*found, op.flush().windows] for row in table.to_pylist()) == 3


def test_an_aggregate_over_a_join() -> None:
    join = sl.JoinSpec(on="k", time="t", within=(0, 10), how="inner", event_time="left", watermark=sl.bounded(3))
    count = sl.Spec("t", {"w": sl.tumbling(20)}, {"n": sl.count(), "v": sl.sum("v")}, by="k", watermark=sl.manual())
    left = pa.table({"t": [1, 5, 30, 61, 90], "k": list("aabaa")})
    right = pa.table({"t": [3, 9, 14, 33, 95], "k": list("aaaba"), "v": [1, 2, 4, 8, 16]})
    wanted = sl.aggregate(sl.join(left, right, join), count)
    op, found = sl.chain(sl.JoinOperator(join), sl.Operator(count)), []
    for row in range(5):
        found += [op.push_left(left.slice(row, 1)).windows, op.push_right(right.slice(row, 1)).windows]
    assert sum(table.num_rows for table in found) == 2
    assert rows_of([*found, op.flush().windows]) == rows_of([wanted])


def test_an_aggregate_over_features() -> None:
    ranges = {"10": 10, "ever": None}
    asked = sl.FeatureSpec("k", ("at", "t"), ranges, {"n": sl.count(), "v": sl.sum("v")}, watermark=sl.bounded(3))
    mean = sl.Spec("at", {"w": sl.tumbling(20)}, {"n": sl.sum("n_10"), "v": sl.max("v_ever")}, watermark=sl.manual())
    rng = random.Random(3)
    labels = pa.table({"at": sorted(rng.randrange(400) for _ in range(60)), "k": [rng.choice("ab") for _ in range(60)]})
    times = sorted(rng.randrange(400) for _ in range(200))
    events = pa.table({"t": times, "k": [rng.choice("ab") for _ in times], "v": [rng.randrange(9) for _ in times]})
    wanted = sl.aggregate(sl.features(labels, events, asked), mean)
    op, found = sl.chain(sl.FeatureOperator(asked), sl.Operator(mean)), []
    for row in range(0, 60, 6):
        found += [op.push_labels(labels.slice(row, 6)).windows]
        found += [op.push_events(events.slice(10 * row // 3, 20)).windows]
        op = sl.Chain.restore([asked, mean], op.snapshot())
    assert sum(table.num_rows for table in found) > 5, "windows come while the streams go on"
    found.append(op.advance(labels=500, events=500).windows)
    assert rows_of(found) == rows_of([wanted]) and op.flush().windows.num_rows == 0


def test_distinct_rows_are_counted() -> None:
    once = sl.DistinctSpec("id", "t", sl.tumbling(10))
    count = sl.Spec("t", {"w": sl.tumbling(20)}, {"n": sl.count()}, watermark=sl.manual())
    op = sl.chain(sl.Distinct(once), sl.Operator(count))
    found = [op.push(pa.table({"t": [t], "id": ["a"]})).windows for t in (1, 2, 11, 15, 25, 41)]
    assert [n for table in found for n in table["n"].to_pylist()] == [2, 1]


def test_progress_is_where_windows_to_come_begin() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.sliding(20, 10)}, {"n": sl.count()}))
    assert dict(op.push(pa.table({"t": [35]})).progress) == {"window_start": 20, "window_end": 35}
    op = sl.Operator(sl.Spec("t", {"w": sl.session(5)}, {"n": sl.count()}))
    op.push(pa.table({"t": [30, 34]}))
    assert op.push(pa.table({"t": [37]})).progress["window_start"] == 30
    op = sl.Operator(sl.Spec("t", {"w": sl.rows(2)}, {"n": sl.count()}))
    assert op.push(pa.table({"t": [30, 34]})).progress["window_start"] is None


def test_what_a_chain_refuses() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()})
    with pytest.raises(ValueError, match="at least two operators; got 1"):
        sl.chain(sl.Operator(spec))
    with pytest.raises(
        ValueError, match=r"operator 2 of the chain is told .* watermark=sl.manual\(\); it has sl.bounded"
    ):
        sl.chain(sl.Operator(spec), sl.Operator(spec))
    with pytest.raises(TypeError, match=r"operator 2 of the chain is a JoinOperator, .* only be the first operator"):
        sl.chain(sl.Operator(spec), sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(0, 1))))
    features = sl.FeatureOperator(sl.FeatureSpec("k", "t", {"r": 5}, {"n": sl.count()}))
    with pytest.raises(TypeError, match="operator 2 of the chain is a FeatureOperator"):
        sl.chain(sl.Operator(spec), features)
    updates = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()}, emit="updates", allowed_lateness=5)
    later = sl.Spec("window_end", {"w": sl.tumbling(5)}, {"n": sl.sum("n")}, watermark=sl.manual())
    with pytest.raises(ValueError, match="operator 1 of the chain has emit='updates'"):
        sl.chain(sl.Operator(updates), sl.Operator(later))
    with pytest.raises(TypeError, match="Operator, which has no push_left; use push"):
        sl.chain(sl.Operator(spec), sl.Operator(later)).push_left(pa.table({"t": [1]}))
    with pytest.raises(TypeError, match="FeatureOperator, which has no push_right; use push_labels and push_events"):
        sl.chain(features, sl.Operator(later)).push_right(pa.table({"t": [1]}))


def distinct_of(keep: str = "first", watermark: object = None) -> sl.Distinct:
    return sl.Distinct(sl.DistinctSpec(on="id", time="t", within=sl.tumbling(10), keep=keep, watermark=watermark))


@pytest.mark.parametrize("keep", ["first", "any"])
def test_damaged_snapshots_of_several_operators_are_refused(keep: str) -> None:
    counts = sl.Spec("t", {"w": sl.tumbling(20)}, {"n": sl.count()}, watermark=sl.manual())
    ops = [distinct_of(keep), sl.chain(distinct_of(keep), sl.Operator(counts))]
    restored = [
        lambda blob: sl.Distinct.restore(distinct_of(keep).spec, blob),
        lambda blob: sl.Chain.restore([distinct_of(keep).spec, counts], blob),
    ]
    for op, restore in zip(ops, restored, strict=True):
        op.push(pa.table({"t": [1, 2], "id": ["a", "b"]}))
        blob = op.snapshot()
        for at in range(0, len(blob), 7):
            damaged = bytearray(blob)
            damaged[at] ^= 1 << at % 8
            with pytest.raises(sl.SnapshotError, match=r"damaged|format|not written by"):
                restore(bytes(damaged))
        for size in (0, 7, 40, len(blob) // 2, len(blob) - 1):
            with pytest.raises(sl.SnapshotError, match=r"damaged|not written by"):
                restore(blob[:size])
        more = pa.table({"t": [3, 31], "id": ["a", "a"]})
        again = restore(blob)
        for one, other in ((op.push(more), again.push(more)), (op.flush(), again.flush())):
            found = (one.windows, other.windows) if isinstance(one, sl.Output) else (one.rows, other.rows)
            assert found[0].equals(found[1]) and (one.late, one.watermark) == (other.late, other.watermark)


def test_snapshots_of_others_are_refused_by_name() -> None:
    counts = sl.Spec("t", {"w": sl.tumbling(20)}, {"n": sl.count()}, watermark=sl.manual())
    blob = sl.chain(distinct_of(), sl.Operator(counts)).snapshot()
    with pytest.raises(sl.SnapshotError, match=r"written by a chain of \[sl.DistinctSpec.* this is a chain of \[sl.Sp"):
        sl.Chain.restore([counts, counts], blob)
    with pytest.raises(sl.SnapshotError, match=r"written by a chain of .* this is a Distinct of \[sl.Dist"):
        sl.Distinct.restore(distinct_of().spec, blob)
    with pytest.raises(sl.SnapshotError, match=r"written by a Distinct of .*; this is a Distinct of .*keep='any'"):
        sl.Distinct.restore(distinct_of("any").spec, distinct_of().snapshot())
    with pytest.raises(TypeError, match=r"a snapshot is bytes-like data, .* got int"):
        sl.Chain.restore([counts], 5)


HALF = 2**62
TOTALS = sl.Spec("t", {"h": sl.tumbling(100)}, {"s": sl.sum("v")}, by="k", watermark=sl.manual())
LEFT = pa.table({"t": [1, 2], "k": ["a", "a"], "v": [HALF, 1]})
MORE = pa.table({"t": [3, 250, 251], "k": ["a", "b", "new"], "v": [HALF, 1, 2]})


def of_windows() -> sl.Chain:
    first = sl.Spec("t", {"w": sl.tumbling(1)}, {"v": sl.sum("v")}, by="k", watermark=sl.bounded(0))
    second = sl.Spec("window_start", {"h": sl.tumbling(100)}, {"s": sl.sum("v")}, by="k", watermark=sl.manual())
    return sl.chain(sl.Operator(first), sl.Operator(second))


def of_a_join() -> sl.Chain:
    join = sl.JoinSpec(on="k", time="t", within=(0, 0), how="left", watermark=(sl.bounded(0), sl.manual()))
    chained = sl.chain(sl.JoinOperator(join), sl.Operator(TOTALS))
    chained.advance(right=10**6)
    chained.push_right(pa.table({"t": pa.array([], pa.int64()), "k": pa.array([], pa.string())}))
    return chained


def of_features() -> sl.Chain:
    asked = sl.FeatureSpec(on="k", time="t", ranges={"r": 5}, aggs={"n": sl.count()}, watermark=sl.bounded(0))
    chained = sl.chain(sl.FeatureOperator(asked), sl.Operator(TOTALS))
    chained.push_events(pa.table({"t": [10**6], "k": ["a"]}))
    return chained


def of_distinct(keep: str) -> sl.Chain:
    asked = sl.DistinctSpec(on=["k", "v"], time="t", within=sl.tumbling(1), keep=keep, watermark=sl.bounded(0))
    return sl.chain(sl.Distinct(asked), sl.Operator(TOTALS))


@pytest.mark.parametrize(
    ("begin", "push"),
    [
        (of_windows, "push"),
        (of_a_join, "push_left"),
        (of_features, "push_labels"),
        (lambda: of_distinct("first"), "push"),
        (lambda: of_distinct("any"), "push"),
    ],
    ids=["windows", "join", "features", "distinct", "any"],
)
def test_a_chain_of_which_one_operator_refuses_is_as_it_was(begin: Callable[[], sl.Chain], push: str) -> None:
    """The first operator has taken the rows, and closed windows, when the sums of the second one overflow."""
    op, other = begin(), begin()
    for chained in (op, other):
        getattr(chained, push)(LEFT)
    before = op.snapshot()
    for _ in range(2):
        with pytest.raises(OverflowError, match="'s'"):
            getattr(op, push)(MORE)
        assert op.snapshot() == before
    rows = []
    for chained in (op, other):
        given = getattr(chained, push)(MORE.slice(1))
        rows.append([given.windows.to_pylist(), chained.flush().windows.to_pylist()])
    assert rows[0] == rows[1]
    assert [row["s"] for table in rows[0] for row in table] == [HALF + 1, 1, 2]


def test_rows_of_a_refused_push_do_not_come_into_the_head_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first operator adds rows to cells in place, and the second one refuses how far they have come."""
    begin = 1_700_000_000_000_000_000
    first = sl.Spec("t", {"w": sl.tumbling(1000)}, {"v": sl.sum("v")}, by="k", watermark=sl.bounded(0))
    second = sl.Spec("window_start", {"h": sl.tumbling(2000)}, {"s": sl.sum("v")}, by="k", watermark=sl.manual())

    def rows(time: int, value: int, keys: int = 4) -> pa.Table:
        return pa.table({"t": [begin + time] * keys, "k": [f"k{i}" for i in range(keys)], "v": [value] * keys})

    def refuse(_: object) -> None:
        raise OverflowError("refused")

    op, other = (sl.chain(sl.Operator(first), sl.Operator(second)) for _ in range(2))
    for time in (0, 100, 1000, 1100, 1200):
        op.push(rows(time, time))
        other.push(rows(time, time))
    assert op._links[0]._now.store.head is not None
    with monkeypatch.context() as patch:
        patch.setattr(op._links[1], "advance", refuse)
        for _ in range(2):
            with pytest.raises(OverflowError, match="refused"):
                op.push(rows(1300, HALF, keys=5))
    assert op.snapshot() == other.snapshot()
    for chained in (op, other):
        chained.push(rows(1400, 1))
    assert op.flush().windows.to_pylist() == other.flush().windows.to_pylist() != []


def test_a_flush_that_an_operator_refuses_can_be_asked_for_again() -> None:
    op = of_windows()
    op.push(pa.table({"t": [1, 2], "k": ["a", "a"], "v": [HALF, HALF]}))
    before = op.snapshot()
    with pytest.raises(OverflowError, match="'s'"):
        op.flush()
    assert op.snapshot() == before


def test_results_have_their_columns_before_there_are_any() -> None:
    op, names = of_windows(), ["window", "window_start", "window_end", "k", "s"]
    none = pa.table({"t": pa.array([], pa.int64()), "k": pa.array([], pa.string()), "v": pa.array([], pa.int64())})
    outs = [op.push(none), op.push(LEFT), op.push(none), op.flush()]
    assert [out.windows.column_names for out in outs] == [names] * 4
    assert pa.concat_tables(out.windows for out in outs).num_rows, "they have one schema"


@pytest.mark.parametrize("keys", [pa.string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())])
def test_results_have_their_types_before_the_first_one(keys: pa.DataType) -> None:
    distinct = sl.Distinct(sl.DistinctSpec("k", "t", 10, watermark=sl.bounded(5)))
    aggs = {"n": sl.count(), "k1": sl.first("k")}
    minutes = sl.Spec("t", {"m": sl.tumbling(60)}, aggs, by="k", watermark=sl.manual())
    aggs = {"n": sl.sum("n"), "k1": sl.last("k1")}
    hours = sl.Spec("window_start", {"h": sl.tumbling(600)}, aggs, by="k", watermark=sl.manual())
    op = sl.chain(distinct, sl.Operator(minutes), sl.Operator(hours))
    outs = [op.advance(-5)]
    for t in range(0, 2000, 50):
        outs.append(op.push(pa.table({"t": [t], "k": pa.array(["a"]).cast(keys)})))
    first = next(place for place, out in enumerate(outs) if out.windows.num_rows)
    assert first > 5
    assert {out.windows.schema for out in outs[1:]} == {op.flush().windows.schema}


def test_a_query_that_does_not_fit_the_one_before_is_refused_with_the_first_rows() -> None:
    minutes = sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count()})
    wrong = sl.Spec("window_start", {"h": sl.tumbling(3600)}, {"n": sl.sum("m")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(minutes), sl.Operator(wrong))
    before = op.snapshot()
    with pytest.raises(ValueError, match="column 'm' is missing in the data; its columns are window, window_start"):
        op.push(pa.table({"t": [1]}))
    assert op.snapshot() == before


def test_rows_that_an_operator_has_no_room_for_are_counted() -> None:
    counts = sl.Operator(sl.Spec("t", {"w": sl.tumbling(1)}, {"n": sl.count()}, by=["k"]))
    later = sl.Spec("window_start", {"w": sl.tumbling(1000)}, {"n": sl.count()}, by=["k"], watermark=sl.manual())
    op = sl.chain(counts, sl.Operator(later, max_bytes=200_000, on_full="late"))
    outs = [op.push(pa.table({"t": [t] * 5000, "k": [f"{t} {key}" for key in range(5000)]})) for t in range(3)]
    assert [(out.stats.get("full"), out.late.num_rows) for out in outs] == [(0, 0), (5000, 5000), (5000, 5000)]
    assert all(out.stats.rows == out.stats.windowed + out.stats.full for out in outs[1:])


def in_unit(unit: str, *millis: int, **more: list) -> pa.Table:
    times = pa.array([1_700_000_000_000 + milli for milli in millis], pa.timestamp("ms")).cast(pa.timestamp(unit))
    return pa.table({"t": times, "k": ["a"] * len(millis)} | more)


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("coarse_first", [True, False])
def test_progress_of_a_finer_unit_is_rounded_up_to_the_next_operators_unit(features: bool, coarse_first: bool) -> None:
    """The result has the left times in seconds; the right ones, and so the progress, are in milliseconds."""
    first: sl.JoinOperator | sl.FeatureOperator = (
        sl.FeatureOperator(sl.FeatureSpec("k", "t", {"r": "2s"}, {"n": sl.count()}))
        if features
        else sl.JoinOperator(sl.JoinSpec("k", "t", ("0s", "2s"), how="left"))
    )
    counted = sl.Spec("t", {"w": sl.tumbling("7s")}, {"rows": sl.count()}, watermark=sl.manual())
    op = sl.chain(first, sl.Operator(counted))
    one, other = (op.push_labels, op.push_events) if features else (op.push_left, op.push_right)
    pushes = [lambda: one(in_unit("s", 1000, 2000, 30_000)), lambda: other(in_unit("ms", 1500, 20_300))]
    outs, given = [], 0
    for call in (*(pushes if coarse_first else reversed(pushes)), lambda: one(in_unit("s", 30_000)), op.flush):
        outs.append(call())
        given += op.outputs[0].rows.num_rows
    assert sum(out.late.num_rows for out in outs) == 0
    found = pa.concat_tables([out.windows for out in outs if out.windows.num_rows])
    assert sum(found["rows"].to_pylist()) == given == 4
    assert outs[1].windows.num_rows == 1, "before the flush"


@pytest.mark.parametrize("closed", ["both", "left", "right", "none"])
@pytest.mark.parametrize("type", [pa.date32(), pa.date64()])
def test_progress_in_days(type: pa.DataType, closed: str) -> None:
    def days(name: str, *numbers: int) -> pa.Table:
        times = pa.array(numbers, pa.int32()).cast(pa.date32()).cast(type)
        return pa.table({"t": times, "k": ["a"] * len(numbers), name: numbers})

    first = sl.JoinOperator(sl.JoinSpec("k", "t", ("0d", "2d"), how="left", closed=closed))
    counted = sl.Spec("t", {"w": sl.tumbling("7d")}, {"n": sl.count()}, watermark=sl.manual())
    op = sl.chain(first, sl.Operator(counted))
    outs = [op.push_left(days("a", 19_701, 19_702, 19_720)), op.push_right(days("b", 19_701, 19_720)), op.flush()]
    assert sum(out.late.num_rows for out in outs) == 0
    assert outs[1].windows.num_rows == 1, "the first week is complete before the flush"
