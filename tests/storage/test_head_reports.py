"""Early results of aggregates that add up, push by push, as the oracle of triggers says: tumbling windows are reported
from the head of the store, others from slices that a cut has fused."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from trigger_oracle import Early, Oracle, Result, Row

import slicing as sl
from slicing.query.policy import Policy
from slicing.reducing.batch import Rows
from slicing.storage.head import Head

CASES = int(os.environ.get("SLICING_CASES", "200"))
pytestmark = pytest.mark.filterwarnings("ignore:one row of time")  # streams of a test may well be late
AGGS = {
    "n": sl.count(),
    "some": sl.count("v"),
    "total": sl.sum("v"),
    "low": sl.min("v"),
    "halves": sl.sum("h"),
    "most": sl.max("h"),
    "mean": sl.mean("h"),
    "last": sl.last("v"),
}
KINDS = [["n"], ["n", "total"], ["halves"], ["n", "halves", "most", "mean"], ["some", "low", "last"], list(AGGS)]
ORIGINS = (0, -997, 1_700_000_000_000_000_000, (1 << 62) + (1 << 61) - 2000)


def answer(rows: list[Row]) -> tuple[Any, ...]:
    known = [row.value for row in rows if row.value is not None]
    total, low, last = sum(known), min(known, default=None), known[-1] if known else None
    if not known:
        return len(rows), 0, None, None, None, None, None, None
    return len(rows), len(known), total, low, total / 2, max(known) / 2, total / 2 / len(known), last


def plain(table: pa.Table, aggs: list[str]) -> list[Result]:
    told = "op" if "op" in table.column_names else "revision"
    named = ("window_end", "window", "window_start", "k")
    return [
        (*(row[name] for name in named), tuple(row[name] for name in aggs), row["timing"], row[told])
        for row in table.to_pylist()
    ]


def chosen(rows: list[Result], aggs: list[str]) -> list[Result]:
    at = [list(AGGS).index(name) for name in aggs]
    return [(*row[:4], tuple(row[4][i] for i in at), *row[5:]) for row in rows]


def batch(rows: list[tuple[int, str | None, int | None]]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True)
    halves = [None if value is None else value / 2 for value in values]
    columns = {"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "h": pa.float64()}
    return pa.table(list(map(pa.array, (times, keys, values, halves), columns.values())), list(columns))


def periodic(size: int, every: int, offset: int) -> Any:
    def containing(time: int) -> list[tuple[int, int]]:
        start = (time - offset) // every * every + offset
        return [(s, s + size) for s in range(start, time - size, -every)]

    return containing


def a_trigger(rng: random.Random) -> tuple[sl.Trigger, Early]:
    kind, span, offset = (
        rng.choice(["push", "push", "every", "share", "both"]),
        rng.choice([2, 5, 9]),
        rng.choice([0, 1]),
    )
    share = rng.choice([0.5, 0.29])
    if kind == "push":
        return sl.each_push(), Early(each_push=True)
    of_share = Early(shares=[Fraction(repr(share))])
    if kind == "share":
        return sl.after_share(share), of_share
    of_every = Early(spans=[(span, offset)])
    if kind == "every":
        return sl.every(span, offset=offset), of_every
    both = Early(spans=of_every.spans, shares=of_share.shares)
    return sl.every(span, offset=offset) | sl.after_share(share), both


@pytest.mark.parametrize("case", range(CASES))
def test_every_push_is_as_the_oracle_says(case: int) -> None:
    rng = random.Random(f"head {case}")
    size, offset, delay = rng.randint(20, 90), rng.randint(-9, 9), rng.choice([0, 3, 40])
    every, lateness = rng.choice([size, size, max(size // 3, 1)]), rng.choice([0, 0, 0, 7])
    aggs, emit, origin = rng.choice(KINDS), rng.choice(["updates", "changes", "parts"]), rng.choice(ORIGINS)
    trigger, early = a_trigger(rng)
    spec = sl.Spec(
        *("t", {"w": sl.sliding(size, every, offset=offset)}, {name: AGGS[name] for name in aggs}, "k"),
        watermark=sl.bounded(delay),
        allowed_lateness=lateness,
        emit=emit,
        trigger=trigger,
    )
    oracle = Oracle({"w": periodic(size, every, offset)}, {"w": early}, answer, emit, delay, lateness)
    policy = Policy(head_filled=rng.choice([0.01, Policy.head_filled]), fused_cells=rng.choice([0, 256]))
    op, keys, time = sl.Operator(spec, policy=policy), 1, origin
    for _ in range(rng.randint(2, 14)):
        if rng.random() < 0.15:
            reached = max(oracle.watermark, origin - 20) + rng.randint(0, 25)
            assert plain(op.advance(reached).windows, aggs) == chosen(oracle.advance(reached), aggs), spec
        keys = min(keys + rng.randint(0, 3), 9)
        time += rng.choice([0, 1, 5, 30])
        rows = [
            (time - rng.randint(0, rng.choice([0, delay + 2])), rng.choice([None, *"abcdefgh"][:keys]), value)
            for value in (rng.choice([None, *range(-5, 9)]) for _ in range(rng.randint(1, 12)))
        ]
        found = plain(op.push(batch(rows)).windows, aggs)
        assert found == chosen(oracle.push(rows), aggs), spec
        if rng.random() < 0.2:
            op = sl.Operator.restore(spec, op.snapshot(), policy=policy)
    assert plain(op.flush().windows, aggs) == chosen(oracle.flush(), aggs), spec


def test_a_steady_stream_is_reported_from_the_head() -> None:
    spec = sl.Spec(
        *("t", {"w": sl.tumbling(1000)}, {"n": sl.count()}, "k", sl.bounded(0)), emit="updates", trigger=sl.each_push()
    )
    op, from_head = sl.Operator(spec), []
    for at in range(0, 3000, 50):
        keys = "abcde" if at % 1000 < 500 else "abcdef"
        out = op.push(batch([(at + i, keys[i % len(keys)], i) for i in range(24)]))
        assert out.windows.num_rows >= len(keys) and out.stats["cells"] == len(keys)
        head = op._now.store.head
        from_head.append(head is not None and head.reports is not None)
        assert head is None or not op._now.revisions.count.size
    assert sum(from_head) == 57  # all pushes but those that close a window, and the first


def test_a_steady_stream_is_reported_from_the_head_at_cuts() -> None:
    """The window's slices that a cut has passed are in the head; the others wait beside it."""
    spec = sl.Spec(
        *("t", {"w": sl.tumbling(1000)}, {"n": sl.count()}, "k", sl.bounded(0)), emit="updates", trigger=sl.every(100)
    )
    oracle = Oracle({"w": periodic(1000, 1000, 0)}, {"w": Early(spans=[(100, 0)])}, answer, "updates", 0)
    op, from_head = sl.Operator(spec), []
    for at in range(0, 3000, 50):
        keys = "abcde" if at % 1000 < 500 else "abcdef"
        rows = [(at + 2 * i, keys[i % len(keys)], i) for i in range(24)]
        out = op.push(batch(rows))
        assert plain(out.windows, ["n"]) == chosen(oracle.push(rows), ["n"])
        store = op._now.store
        from_head.append(store.head is not None and store.head.reports is not None)
        assert len(store.runs) <= 2 and sum(len(run) for run in store.runs) <= 2 * len(keys)
        assert out.stats["cells"] == len(store) + (store.head.used if store.head is not None else 0)
        assert store.head is None or not op._now.revisions.count.size
    assert sum(from_head) == 51  # all but the three until the watermark has passed the first cut of a window
    assert plain(op.flush().windows, ["n"]) == chosen(oracle.flush(), ["n"])


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
@pytest.mark.parametrize("trigger", [sl.each_push(), sl.every(10)], ids=["push", "every"])
def test_a_stream_whose_watermark_moves_before_its_first_row(trigger: sl.Trigger, emit: str) -> None:
    """All its pushes may go into the head, the first one too."""
    early = Early(each_push=True) if trigger == sl.each_push() else Early(spans=[(10, 0)])
    spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, "k", sl.manual(), emit=emit, trigger=trigger)
    oracle, op = Oracle({"w": periodic(60, 60, 0)}, {"w": early}, answer, emit, None), sl.Operator(spec)
    zero = 1_700_000_000_000_000_040  # a multiple of 60
    assert plain(op.advance(zero + 5).windows, ["n"]) == chosen(oracle.advance(zero + 5), ["n"]) == []
    for step in ("10 a", 21, "22 a, 25 b", 32, "33 a", 70):
        if isinstance(step, int):
            found, expected = op.advance(zero + step), oracle.advance(zero + step)
        else:
            rows = [(zero + int(time), key, 0) for time, key in map(str.split, step.split(","))]
            found, expected = op.push(batch(rows)), oracle.push(rows)
        assert plain(found.windows, ["n"]) == chosen(expected, ["n"])


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
@pytest.mark.parametrize("every", [None, 100], ids=["each push", "every"])
def test_a_head_that_reports_grows_with_the_keys(monkeypatch: pytest.MonkeyPatch, every: int | None, emit: str) -> None:
    grown, grows = list[Head | None](), Head.grown

    def watched(head: Head, rows: Rows) -> Head | None:
        grown.append(grows(head, rows))
        return grown[-1]

    monkeypatch.setattr(Head, "grown", watched)
    trigger = sl.each_push() if every is None else sl.every(every)
    aggs = ["n", "total", "halves"]
    kept = {name: AGGS[name] for name in aggs}
    spec = sl.Spec("t", {"w": sl.tumbling(4000)}, kept, "k", sl.bounded(0), emit=emit, trigger=trigger)
    early = Early(each_push=True) if every is None else Early(spans=[(every, 0)])
    oracle = Oracle({"w": periodic(4000, 4000, 0)}, {"w": early}, answer, emit, 0)
    op, rng = sl.Operator(spec, policy=Policy(head_filled=0.1)), random.Random(emit)
    zero = 1_700_000_000_000_000_000  # a multiple of 4000
    for at in range(0, 6000, 150):
        rows = [(zero + at + i * 2, f"{rng.randint(0, 10 + at // 40)}", rng.choice([None, 1, 2])) for i in range(60)]
        out = op.push(batch(rows))
        assert plain(out.windows, aggs) == chosen(oracle.push(rows), aggs)
        store = op._now.store
        assert out.stats["cells"] == len(store) + (store.head.used if store.head is not None else 0)
        assert out.stats["bytes"] > 0 and out.stats["slices"] >= 1
    assert sum(head is not None for head in grown) > 2
    assert plain(op.flush().windows, aggs) == chosen(oracle.flush(), aggs)


def test_keys_whose_cells_are_in_an_older_run_are_not_reported_from_a_new_head() -> None:
    """The run has a slice that the new head has not, so its cells stay where they are."""
    spec = sl.Spec(
        *("t", {"w": sl.tumbling(20)}, {"n": sl.count()}, "k", sl.bounded(40)), emit="updates", trigger=sl.each_push()
    )
    oracle = Oracle({"w": periodic(20, 20, 0)}, {"w": Early(each_push=True)}, answer, "updates", 40)
    op = sl.Operator(spec)
    old = [(time, key, 0) for time in (5, 25, 45) for key in "abc"]
    for rows in (old, [(23, "a", 0)], [(6, "a", 0)], [(46, "b", 0), (7, "c", 0)], [(8, "c", 0)]):
        assert plain(op.push(batch(rows)).windows, ["n"]) == chosen(oracle.push(rows), ["n"])


def query(emit: str, trigger: sl.Trigger) -> sl.Spec:
    aggs = {"n": sl.count(), "v": sl.sum("v")}
    return sl.Spec("t", {"w": sl.tumbling(1000)}, aggs, "k", sl.bounded(0), emit=emit, trigger=trigger)


def begun(op: Any) -> Any:
    for at in (0, 10, 20):
        op.push(batch([(at, key, at) for key in "abcde"]))
    return op


@pytest.mark.parametrize("trigger", [sl.each_push(), sl.every(5)], ids=["push", "every"])
def test_an_operator_that_was_interrupted_while_it_wrote_cells_says_so(
    monkeypatch: pytest.MonkeyPatch, trigger: sl.Trigger
) -> None:
    op = begun(sl.Operator(query("updates", trigger)))
    blob = op.snapshot()
    op.push(batch([(30, "a", 1), (30, "b", 1)]))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    assert op._now.store.head is not None
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("slicing.storage.head.Head._put", interrupted)
        op.push(batch([(40, "a", 1)]))
    for use in (lambda: op.push(batch([(40, "a", 1)])), op.snapshot, op.flush):
        with pytest.raises(RuntimeError, match="a push was interrupted while it added its rows"):
            use()
    again = sl.Operator.restore(query("updates", trigger), blob)
    assert again.push(batch([(30, "a", 1)])).windows["revision"].to_pylist()[0] == (
        3 if trigger == sl.each_push() else 2
    )


@pytest.mark.parametrize("trigger", [sl.each_push(), sl.every(5)], ids=["push", "every"])
def test_reports_of_a_refused_push_do_not_come_into_the_head(
    monkeypatch: pytest.MonkeyPatch, trigger: sl.Trigger
) -> None:
    second = sl.Spec("window_start", {"h": sl.tumbling(2000)}, {"s": sl.sum("v")}, "k", sl.manual(), op="op")

    def refuse(_: object) -> None:
        raise OverflowError("refused")

    op, other = (begun(sl.chain(sl.Operator(query("changes", trigger)), sl.Operator(second))) for _ in range(2))
    for chained in (op, other):
        chained.push(batch([(30, "a", 4)]))
    assert op._links[0]._now.store.head is not None
    with monkeypatch.context() as patch:
        patch.setattr(op._links[1], "push", refuse)
        for _ in range(2):
            with pytest.raises(OverflowError, match="refused"):
                op.push(batch([(40, "a", 7), (40, "f", 7)]))
    assert op.snapshot() == other.snapshot()
    for chained in (op, other):
        chained.push(batch([(50, "a", 1)]))
    assert op.flush().windows.to_pylist() == other.flush().windows.to_pylist() != []
