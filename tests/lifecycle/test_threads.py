"""``Operator(spec, threads=n)`` gives what one thread gives."""

from __future__ import annotations

import copy
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import slicing as sl
import slicing.api
import slicing.system.threads
from slicing.api import all_windows
from slicing.columns.key_tables import ByteTable, WordTable
from slicing.query.policy import Policy
from slicing.reducing.places import shares
from slicing.system.threads import Share

AGGS = {
    "n": sl.count(),
    "total": sl.sum("x"),
    "low": sl.min("x"),
    "spread": sl.var("x"),
    "whole": sl.sum("i").where("flag"),
    "first": sl.first("i"),
    "last": sl.last("i"),
    "least": sl.argmin("i", "s"),
    "middle": sl.median("i"),
    "all": sl.collect("s"),
}
WINDOWS = {
    "w": sl.tumbling(50),
    "s": sl.sliding(70, every=30),
    "visit": sl.session(3),
}


SMALL = Share(rows=50, turn=20)


def stream(disorder: int, keys: int, seed: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    batches = []
    for start in range(0, 1000, 100):
        size = int(rng.integers(40, 400))
        ts = np.sort(rng.integers(start, start + 100, size))
        ts = np.maximum(ts - rng.integers(0, disorder + 1, size), 0)
        columns = {
            "ts": ts,
            "key": rng.integers(0, keys, size) * 10**12,
            "x": pa.array(rng.normal(0, 1, size), mask=rng.random(size) < 0.1),
            "i": rng.integers(-5, 5, size),
            "s": pa.array(rng.choice(["a", "b", "cc"], size)),
            "flag": rng.random(size) < 0.5,
        }
        batches.append(pa.record_batch(columns))
    return batches


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("by", [[], ["key"], ["key", "s"]], ids=str)
@pytest.mark.parametrize("disorder", [0, 60])
def test_as_many_threads_as_one_likes(disorder: int, by: list[str], threads: int) -> None:
    spec = sl.Spec("ts", WINDOWS, AGGS, by=by, watermark=sl.bounded(20), allowed_lateness=30, emit="changes")
    one, many = (
        sl.Operator(spec),
        sl.Operator(spec, policy=Policy(threads=threads, share=SMALL, thread_rows=50, thread_lists=1)),
    )
    for batch in stream(disorder, 40, len(by)):
        same(many.push(batch), one.push(batch))
    many = sl.Operator.restore(spec, many.snapshot(), policy=many._policy)
    same(many.flush(), one.flush())


def test_a_cell_that_all_threads_share_is_counted_once_by_each_lane() -> None:
    aggs = {"n": sl.count(), "last": sl.last("i"), "some": sl.count("i")}
    table = pa.table({"ts": [0, 0, 9, 9], "key": [1, 1, 1, 1], "i": [3, 4, 5, 6]})
    op = sl.Operator(
        sl.Spec("ts", {"w": sl.whole()}, aggs, by=["key"]),
        policy=Policy(threads=2, thread_rows=1, thread_lists=1, share=Share(rows=1)),
    )
    op.push(table)
    (row,) = op.flush().windows.to_pylist()
    assert (row["n"], row["last"], row["some"]) == (4, 6, 4)


def test_all_data_at_once_on_several_threads() -> None:
    table = pa.Table.from_batches(stream(0, 40, 7))
    aggs = {name: agg for name, agg in AGGS.items() if name not in ("total", "spread")}
    spec = sl.Spec("ts", WINDOWS, aggs, by=["key"])
    windows = all_windows(table, spec, 2, policy=Policy(share=SMALL))
    assert windows.num_rows > 1000
    assert windows.equals(sl.aggregate(table, spec))
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1"):
        sl.aggregate(table, spec, threads=0)


def same(found: sl.Output, expected: sl.Output) -> None:
    assert found.late.equals(expected.late)
    assert found.stats == expected.stats | {"bytes": found.stats["bytes"]}
    assert found.windows.num_rows == expected.windows.num_rows
    for name in expected.windows.column_names:
        a, b = found.windows[name].combine_chunks(), expected.windows[name].combine_chunks()
        if name in ("total", "spread"):
            assert a.is_null().equals(b.is_null())
            assert_allclose(a.drop_null(), b.drop_null(), rtol=1e-12, atol=1e-12)
        else:
            assert a.equals(b), name


def test_parts_are_worth_a_thread() -> None:
    enough = Share.rows
    assert slicing.system.threads.parts(2 * enough - 1, 4) == [slice(0, 2 * enough - 1)]
    assert [p.stop - p.start for p in slicing.system.threads.parts(3 * enough, 2)] == [3 * enough // 2] * 2
    assert len(slicing.system.threads.parts(100 * enough, 3)) == 3


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, None, "2"])
def test_threads_are_a_whole_number(threads: object) -> None:
    spec = sl.Spec("ts", WINDOWS, {"n": sl.count()})
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1"):
        sl.Operator(spec, threads=threads)


@pytest.mark.parametrize("failing", [0, 1])
def test_what_a_part_raises_is_raised_once_all_parts_are_done(failing: int) -> None:
    done: list[int] = []

    def work(part: int) -> int:
        if part == failing:
            raise ValueError(f"part {part}")
        done.append(part)
        return part

    with pytest.raises(ValueError, match=f"part {failing}"):
        slicing.system.threads.side_by_side(work, [0, 1, 2])
    assert sorted(done) == [part for part in range(3) if part != failing]
    assert slicing.system.threads.side_by_side(lambda part: 2 * part, [4, 5, 6]) == [8, 10, 12]


def test_parts_that_no_other_thread_takes_are_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing.system.threads._Team, "take", lambda self, jobs: None)
    assert slicing.system.threads.side_by_side(lambda part: 2 * part, [4, 5]) == [8, 10]


@pytest.mark.parametrize("cores", [1, 2])
def test_threads_wait_awake_or_asleep(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(slicing.system.threads, "cores", lambda: cores)
    slicing.system.threads._team.cache_clear()
    barrier = threading.Barrier(2, timeout=60)  # none goes on alone
    for _ in range(3):
        assert sorted(slicing.system.threads.side_by_side(lambda part: barrier.wait(), [0, 1])) == [0, 1]
    assert (slicing.system.threads._team().looks > 0) == (cores > 1)
    slicing.system.threads._team.cache_clear()


def test_calls_for_any_number_of_parts_share_threads() -> None:
    def waiting() -> int:
        return sum(thread.name == "slicing" for thread in threading.enumerate())

    slicing.system.threads._team.cache_clear()
    before = waiting()
    for parts in [*range(2, 14), *range(14, 1, -1)]:
        assert slicing.system.threads.side_by_side(lambda part: part, range(parts)) == list(range(parts))
    assert waiting() - before == 13


@pytest.mark.parametrize("spread", [1, 10**12], ids=["near", "far"])
@pytest.mark.parametrize("nulls", [False, True])
def test_codes_are_those_of_one_thread(spread: int, nulls: bool) -> None:
    rng = np.random.default_rng(3)
    one, many, texts, shared = WordTable(), WordTable(), ByteTable(), ByteTable()
    for largest in (5, 5, 5, 2000, 2000, 2002, 4000):
        words = rng.integers(0, largest, 4000) * spread
        valid = rng.random(words.size) < 0.99 if nulls else None
        told = one.encode(words, words.size, valid)
        assert np.array_equal(many.encode(words, words.size, valid, threads=3, how=SMALL), told)
        values = pa.array([b"x" * int(word % 40) + str(word).encode() for word in words], pa.large_binary())
        offsets, data = np.frombuffer(values.buffers()[1], np.int64), np.frombuffer(values.buffers()[2], np.uint8)
        assert np.array_equal(texts.encode(offsets, words.size, valid, data), told)
        assert np.array_equal(shared.encode(offsets, words.size, valid, data, threads=3, how=SMALL), told)
    assert many.given == one.given == shared.given == texts.given
    assert np.array_equal(many.keys[: many.given], one.keys[: one.given])
    ids = np.arange(texts.given)
    assert all(np.array_equal(a, b) for a, b in zip(shared.texts(ids), texts.texts(ids), strict=True))


@pytest.mark.parametrize(
    "spans", [[100] * 20, [1] * 1900 + [100], [2000], [700, 1, 1, 1, 1297], [0, 0, 0, 2000]], ids=len
)
def test_shares_are_about_equal_or_there_is_one(spans: list[int]) -> None:
    rows = np.array(spans)
    found = shares(rows.cumsum(), 3, SMALL)
    assert [i for share in found for i in range(share.start, share.stop)] == list(range(rows.size))
    if len(found) > 1:
        assert max(rows[share].sum() for share in found) <= 1.25 * rows.sum() / 3
    assert (len(found) > 1) == (len(spans) >= 20)


@pytest.mark.parametrize("long", [1, 4096], ids=["slot by slot", "chunk by chunk"])
@pytest.mark.parametrize("aggs", [["n", "total", "low"], ["n"], ["whole", "spread", "last"]], ids=str)
def test_keys_in_order_are_scattered_over_one_table(aggs: list[str], long: int) -> None:
    batch = pa.Table.from_batches(stream(0, 3, 5)).combine_chunks().to_batches()[0]
    spec = sl.Spec(
        "ts", {"w": sl.tumbling(50)}, {name: AGGS[name] for name in aggs}, by=["key"], watermark=sl.ordered()
    )
    one = sl.Operator(spec, policy=Policy(long_slot=long, chunk=70))
    many = sl.Operator(
        spec, policy=Policy(threads=3, share=SMALL, thread_rows=50, thread_lists=1, long_slot=long, chunk=70)
    )
    assert many.push(batch).windows.equals(one.push(batch).windows)  # sums to the last bit
    assert many.flush().windows.equals(one.flush().windows)


@pytest.mark.parametrize("by", [[], ["key"]], ids=str)
@pytest.mark.parametrize("turn", [1, 2])
def test_rows_in_order_but_for_where_parts_meet(by: list[str], turn: int) -> None:
    thirds = [np.arange(0, 300), np.arange(300, 600), np.arange(600, 900)]
    thirds[turn - 1], thirds[turn] = thirds[turn], thirds[turn - 1]
    times = np.concatenate(thirds)
    batch = pa.record_batch({"ts": times, "key": times % 4, "x": times * 0.5})
    spec = sl.Spec(
        "ts", {"w": sl.tumbling(50)}, {"n": sl.count(), "low": sl.min("x")}, by=by, watermark=sl.bounded(900)
    )
    one, many = sl.Operator(spec), sl.Operator(spec, policy=Policy(threads=3, share=SMALL))
    same(many.push(batch), one.push(batch))
    same(many.flush(), one.flush())


def test_aggregate_takes_all_cores_and_answers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    operator = slicing.api.Operator

    def noting(*args: object, **options: Any) -> Any:
        told.append(options["threads"])
        return operator(*args, **options)

    monkeypatch.setattr(slicing.api, "Operator", noting)
    data = pa.Table.from_batches(stream(30, 20, 5))
    whole = {name: agg for name, agg in AGGS.items() if name not in ("total", "spread")}
    spec = sl.Spec("ts", WINDOWS, whole, by="key")
    one = sl.aggregate(data, spec, threads=1)
    for threads in (2, 3, 5):
        assert all_windows(data, spec, threads, policy=Policy(share=SMALL)).equals(one)
    assert all_windows(data, spec, None, policy=Policy(share=SMALL)).equals(one)
    assert told == [1, 2, 3, 5, slicing.system.threads.cores()]


def test_few_rows_stay_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("threads were asked for")

    monkeypatch.setattr(slicing.system.threads, "_team", never)
    monkeypatch.setattr(slicing.api, "cores", lambda: 4)
    data = pa.table({"ts": np.arange(200_000), "key": np.arange(200_000) % 7, "x": np.ones(200_000)})
    for by in ((), "key"):
        found = sl.aggregate(data, sl.Spec("ts", {"w": sl.tumbling(100)}, {"s": sl.sum("x")}, by=by))
        assert sum(found["s"].to_pylist()) == 200_000


def _by_two_threads(push: Callable[[pa.Table], object], batches: list[pa.Table]) -> None:
    errors: list[BaseException] = []

    def some(of: list[pa.Table]) -> None:
        try:
            for batch in of:
                push(batch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=some, args=(batches[i::2],)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def _growing(batches: int = 24) -> list[pa.Table]:
    """With new keys in each batch."""
    rows = np.arange(2000)
    return [pa.table({"t": rows + i * 500, "k": rows % (7 + i)}) for i in range(batches)]


WHOLE = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="k", watermark=sl.manual())


def test_pushes_of_two_threads_into_one_operator_lose_nothing() -> None:
    batches = _growing()
    op = sl.Operator(WHOLE)
    _by_two_threads(op.push, batches)
    found = op.flush().windows.sort_by("k").select(["k", "n"])
    wanted = sl.aggregate(pa.concat_tables(batches), WHOLE).sort_by("k").select(["k", "n"])
    assert found.equals(wanted)


def test_pushes_of_two_threads_into_joins_distincts_and_chains_lose_nothing() -> None:
    batches = _growing()
    join = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(0, 0), watermark=sl.manual()))
    join.push_left(pa.table({"t": [0], "k": [0]}))
    counted: list[int] = []
    _by_two_threads(lambda batch: counted.append(join.push_right(batch).stats.right), batches)
    assert sum(counted) == 2000 * len(batches) == join.advance().stats.held - 1
    distinct = sl.Distinct(sl.DistinctSpec("k", "t", sl.tumbling(10**9), keep="any", watermark=sl.manual()))
    counted.clear()
    _by_two_threads(lambda batch: counted.append(distinct.push(batch).rows.num_rows), batches)
    assert sum(counted) == 7 + len(batches) - 1
    first = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.manual()))
    last = sl.Spec("window_start", {"w": sl.whole()}, {"n": sl.sum("n")}, watermark=sl.manual())
    chain = sl.chain(first, sl.Operator(last))
    _by_two_threads(chain.push, batches)
    assert chain.flush().windows["n"].to_pylist() == [2000 * len(batches)]


def test_a_push_in_the_middle_of_a_push_is_refused() -> None:
    op = sl.Operator(WHOLE)
    batch = _growing(1)[0]

    def batches() -> Any:
        op.push(batch)
        yield from batch.to_batches()

    with pytest.raises(RuntimeError, match="push was called in the middle of another call of the same Operator"):
        op.push(pa.RecordBatchReader.from_batches(batch.schema, batches()))
    assert op.push(batch).stats.rows == 2000
    assert sum(op.flush().windows["n"].to_pylist()) == 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX only")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_was_forked_in_the_middle_of_a_push_of_another_thread_is_refused() -> None:
    batch = _growing(1)[0]
    begun, go_on = threading.Event(), threading.Event()

    def batches() -> Any:
        begun.set()
        assert go_on.wait(60)
        yield from batch.to_batches()

    op, quiet = sl.Operator(WHOLE), sl.Operator(WHOLE)
    pushing = threading.Thread(target=op.push, args=(pa.RecordBatchReader.from_batches(batch.schema, batches()),))
    pushing.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        told = False
        try:
            signal.alarm(30)  # it would wait for ever
            for call in partial(op.push, batch), op.flush, op.snapshot:
                with pytest.raises(RuntimeError, match="this process was forked while another thread was in a call"):
                    call()
            told = quiet.push(batch).stats.rows == 2000
        finally:
            os._exit(0 if told else 1)
    go_on.set()
    pushing.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert op.push(batch).stats.rows == 2000
    assert sum(op.flush().windows["n"].to_pylist()) == 4000


def test_a_copy_goes_on_by_itself() -> None:
    rows, more = pa.table({"t": [1, 2], "k": ["a", "b"]}), pa.table({"t": [3], "k": ["c"]})
    first = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}))
    last = sl.Spec("window_start", {"w": sl.whole()}, {"n": sl.sum("n")}, watermark=sl.manual())
    chain = sl.chain(first, sl.Operator(last))
    chain.push(rows)
    other = copy.copy(chain)
    chain.push(more)
    assert [op.flush().windows["n"].to_pylist() for op in (chain, other)] == [[3], [2]]
    distinct = sl.Distinct(sl.DistinctSpec("k", "t", sl.tumbling(10), keep="any", watermark=sl.manual()))
    distinct.push(rows)
    copied = copy.copy(distinct)
    assert [op.push(more).rows.num_rows for op in (distinct, copied)] == [1, 1]
    union = sl.Union({"a": sl.bounded(0)}, "t")
    union.push("a", rows)
    others = copy.copy(union)
    union.push("a", more)
    assert others.push("a", rows).watermark == 2


def test_who_asks_does_the_work_if_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    slicing.system.threads._team.cache_clear()
    try:
        assert slicing.system.threads.side_by_side(lambda part: 2 * part, [1, 2, 3]) == [2, 4, 6]
    finally:
        slicing.system.threads._team.cache_clear()
