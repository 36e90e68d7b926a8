"""Snapshots: an operator goes on bit for bit where it was, anywhere; anything else is refused by name."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.lifecycle import snapshot
from slicing.query.policy import Policy

RNG = np.random.default_rng(20)
ROWS, BATCHES = 40, 8


def stream():
    """Batches with nulls, NaN, infinities and rows that come late, of every kind of column."""
    for at in range(BATCHES):
        n = ROWS if at else 1
        words = np.array(["", "a", "é", "long enough for the heap", "z"])
        numbers = RNG.integers(0, 10, n)
        floats = RNG.normal(size=n) * 10.0 ** RNG.integers(-9, 9, n)
        floats[RNG.random(n) < 0.1] = RNG.choice([np.nan, np.inf, -0.0])
        columns = {
            "t": np.maximum(at * 25 + RNG.integers(-30, 25, n), 0),
            "i": pa.array(numbers % 4 - 1, mask=RNG.random(n) < 0.2),
            "s": pa.array(RNG.choice(words, n), pa.string(), mask=RNG.random(n) < 0.2),
            "d": pa.array(RNG.choice(words, n)).dictionary_encode(),
            "f": np.where(numbers < 3, np.nan, numbers % 3 - 1.0),
            "x": pa.array(floats, mask=RNG.random(n) < 0.1),
            "m": pa.array([Decimal(int(v)) / 100 for v in RNG.integers(-(10**6), 10**6, n)], pa.decimal128(38, 2)),
            "c": pa.array([Decimal(int(v)) / 100 for v in RNG.integers(-999, 999, n)], pa.decimal128(9, 2)),
            "u": pa.array(RNG.integers(0, 2**63, n, dtype=np.uint64)),
            "b": pa.array(RNG.random(n) < 0.5, mask=RNG.random(n) < 0.2),
        }
        yield pa.record_batch(columns)


STREAM = list(stream())
FLOATS = {"total": sl.sum("x"), "mean": sl.mean("x"), "std": sl.std("x"), "log": sl.product("x"), "low": sl.min("x")}
TEXT = {"least": sl.min("s"), "most": sl.max("s"), "tail": sl.last("s"), "at": sl.argmax("x", "s"), "m4": sl.m4("s")}
MONEY = {"total": sl.sum("m"), "mean": sl.mean("m"), "least": sl.min("m"), "cents": sl.sum("c"), "head": sl.first("c")}
QUERIES = {
    "sessions": {"windows": {"v": sl.session(3), "w": sl.session(9)}, "by": ["i"], "allowed_lateness": 5},
    "keys of several types": {"by": ["i", "s", "d", "f", "b"], "aggs": {"n": sl.count(), "least": sl.min("c")}},
    "text": {"aggs": TEXT, "by": ["i"], "windows": {"w": sl.sliding(30, 10), "v": sl.session(4)}},
    "decimals": {"aggs": MONEY, "windows": {"w": sl.tumbling(20), "all": sl.whole()}},
    "fill": {"windows": {"w": sl.tumbling(3, fill=True)}, "by": ["s"]},
    "updates": {"emit": "updates", "allowed_lateness": 40, "by": ["i"], "windows": {"w": sl.sliding(30, 10)}},
    "changes": {"emit": "changes", "allowed_lateness": 40, "by": ["i"], "windows": {"w": sl.session(6)}},
    "sources": {"watermark": sl.per_source("s", 5, idle=40)},
    "ordered": {"watermark": sl.ordered("late"), "windows": {"w": sl.cumulate(50, 10), "f": sl.fixed(5, 60)}},
    "idle": {"idle": 12, "by": ["d"], "windows": {"w": sl.tumbling(50), "l": sl.landmark(20)}},
    "sequence": {"sequence": "u", "aggs": {"first": sl.first("s"), "big": sl.max("u"), "n": sl.max_count("i")}},
}


def spec(name, **changes):
    defaults = {"time": "t", "windows": {"w": sl.tumbling(20)}, "aggs": FLOATS, "watermark": sl.bounded(10)}
    return sl.Spec(**(defaults | QUERIES[name] | changes))


def bits(table):
    """A table with its floats as integers, so that NaN and -0.0 are what they are."""
    table = table.combine_chunks()
    columns = [c.combine_chunks().fill_null(0).view(pa.int64()) if c.type == pa.float64() else c for c in table.columns]
    return [table.schema, *(c.is_valid().to_pylist() for c in table.columns), *(c.to_pylist() for c in columns)]


def seen(out):
    stats = {name: out.stats[name] for name in out.stats if name != "bytes"}  # tables of keys may have other room
    return [bits(out.windows), bits(out.late), stats, out.watermark]


@pytest.mark.parametrize("query", QUERIES)
def test_a_restored_operator_goes_on_bit_for_bit(query):
    op, restored = sl.Operator(spec(query)), []
    for batch in STREAM:
        restored.append(sl.Operator.restore(spec(query), op.snapshot()))
        wanted = seen(op.push(batch))
        for each in restored:  # those that were restored earlier too
            assert seen(each.push(batch)) == wanted
    blob = op.snapshot()
    restored.append(sl.Operator.restore(spec(query), blob))
    assert all(each.snapshot() == blob for each in restored)
    wanted = seen(op.flush())
    assert wanted[0][1:] != bits(op.flush().windows)[1:], "nothing was left for the flush to tell"
    assert all(seen(each.flush()) == wanted for each in restored)


def test_a_flushed_operator_stays_flushed():
    op = sl.Operator(spec("text"))
    op.push(STREAM[0])
    op.flush()
    with pytest.raises(RuntimeError, match="was flushed"):
        sl.Operator.restore(op.spec, op.snapshot()).push(STREAM[1])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.frombuffer, pa.py_buffer])
def test_any_bytes_will_do(kind):
    op = sl.Operator(spec("text"))
    op.push(STREAM[0])
    blob = op.snapshot()
    given = np.frombuffer(blob, np.uint8) if kind is np.frombuffer else kind(blob)
    assert sl.Operator.restore(op.spec, given).snapshot() == blob


# --- a watermark before the first rows --------------------------------------------------------------------------------

EARLY = {"time": "t", "windows": {"w": sl.whole()}, "aggs": {"n": sl.count()}, "watermark": sl.manual()}


def advanced(*watermarks, between):
    op = sl.Operator(sl.Spec(**EARLY))
    for watermark in watermarks:
        op.advance(watermark)
        if between:
            op = sl.Operator.restore(op.spec, op.snapshot())
    return op


@pytest.mark.parametrize("between", [False, True], ids=["kept", "restored"])
def test_a_watermark_before_the_first_rows_is_remembered(between):
    times = pa.array([1, 2**40], pa.timestamp("ms"))
    op = advanced("1970-01-02", between=between)
    assert op.push(pa.record_batch({"t": times})).late["t"].to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 1000)]
    op = advanced(5, 3, between=between)
    assert op.push(pa.record_batch({"t": [4, 5]})).late["t"].to_pylist() == [4]


def test_a_datetime_before_the_first_rows_is_remembered():
    op = advanced(datetime(1970, 1, 2), datetime(1970, 1, 3), between=True)
    assert op.push(pa.record_batch({"t": pa.array([1], pa.timestamp("ms"))})).late.num_rows == 1


def test_a_numpy_integer_before_the_first_rows_is_remembered():
    op = advanced(np.int64(5), between=True)
    assert op.push(pa.record_batch({"t": [4, 5]})).late["t"].to_pylist() == [4]


def test_narrow_dictionary_keys_can_be_kept():
    op = sl.Operator(sl.Spec(time="t", by=["k"], windows={"w": sl.tumbling(10)}, aggs={"n": sl.count()}))
    for at in range(3):  # as pandas' categories: few at a time, many in all
        keys = pa.array(range(60 * at, 60 * at + 60)).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.int64()))
        assert op.push(pa.record_batch({"t": [20 * at] * 60, "k": keys})).windows.num_rows == (60 if at else 0)
    assert sl.Operator.restore(op.spec, op.snapshot()).flush().windows.num_rows == 60


# --- what is refused --------------------------------------------------------------------------------------------------


def blob_of(query="text", batches=3):
    op = sl.Operator(spec(query))
    for batch in STREAM[:batches]:
        op.push(batch)
    return op.snapshot()


OTHERS = {
    "another window": {"windows": {"w": sl.tumbling(21)}},
    "another name": {"windows": {"x": sl.sliding(30, 10), "v": sl.session(4)}},
    "another aggregate": {"aggs": TEXT | {"more": sl.count()}},
    "another key": {"by": ["s"]},
    "another watermark": {"watermark": sl.bounded(11)},
    "another lateness": {"allowed_lateness": 1},
    "another way to emit": {"emit": "changes"},
    "another sequence": {"sequence": "u"},
    "another treatment of null times": {"on_null_time": "late"},
}


@pytest.mark.parametrize("batches", [0, 3])
@pytest.mark.parametrize("other", OTHERS)
def test_a_snapshot_of_another_spec_is_refused(other, batches):
    mine, its = spec("text", **OTHERS[other]), spec("text")
    with pytest.raises(sl.SnapshotError) as refused:
        sl.Operator.restore(mine, blob_of(batches=batches))
    assert str(refused.value) == (
        f"the snapshot was written for another spec (fingerprint {its.fingerprint()}, this one has "
        f"{mine.fingerprint()}); it was {its!r}"
    )
    assert mine.fingerprint() != its.fingerprint()


def test_only_the_treatment_of_overflow_may_change():
    def asked(on_overflow):
        return sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, on_overflow=on_overflow)

    op = sl.Operator(asked("error"))
    op.push(pa.record_batch({"t": [1, 2, 9], "v": [2**62, 2**62, 1]}))
    with pytest.raises(OverflowError):
        op.flush()
    for on_overflow, total in (("null", None), ("wrap", 1 - 2**63)):
        eased = sl.Operator.restore(asked(on_overflow), op.snapshot())
        assert eased.flush().windows["s"].to_pylist() == [total]


@pytest.mark.parametrize("on_overflow", ["null", "wrap"])
def test_decimals_that_do_not_fit_are_null_where_integers_wrap(on_overflow):
    wide = pa.array([Decimal(9 * 10**37)] * 2, pa.decimal128(38, 0))
    aggs = {"d": sl.sum("d"), "i": sl.sum("i")}
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs, on_overflow=on_overflow)
    found = sl.aggregate(pa.table({"t": [1, 2], "d": wide, "i": [2**62, 2**62]}), spec)
    assert found["d"].to_pylist() == [None]
    assert found["i"].to_pylist() == [-(2**63) if on_overflow == "wrap" else None]


@pytest.mark.parametrize("other", [snapshot.FORMAT - 1, snapshot.FORMAT + 1])
def test_another_format_is_refused(other):
    blob = bytearray(blob_of())
    blob[8:12] = other.to_bytes(4, "little")
    with pytest.raises(
        sl.SnapshotError, match=rf"format {other}; this version of the library reads {snapshot.FORMAT}$"
    ):
        sl.Operator.restore(spec("text"), bytes(blob))


@pytest.mark.parametrize("other", [b"", b"PAR1", b"SLICESN", b"x" * 1000, bytes(1000)])
def test_other_bytes_are_refused(other):
    with pytest.raises(sl.SnapshotError, match="the bytes are not a snapshot of this library"):
        sl.Operator.restore(spec("text"), other)


def test_a_snapshot_with_other_lanes_is_refused():
    """One whose fingerprint fits all the same, as after a change of the library."""
    asked = spec("ordered", aggs={"total": sl.sum("x")})
    op = sl.Operator(spec("ordered", aggs={"total": sl.sum("x"), "std": sl.std("x")}))
    op.push(STREAM[0])
    with pytest.raises(sl.SnapshotError, match="the snapshot holds 2 lanes; this spec has 1"):
        sl.Operator.restore(asked, snapshot.write(asked, op._state, snapshot.NOTHING_YET, False))


@pytest.mark.parametrize("batches", [0, 2])
def test_every_truncation_is_refused(batches):
    blob, asked = blob_of(batches=batches), spec("text")
    assert sl.Operator.restore(asked, blob).snapshot() == blob
    for length in range(len(blob)):
        with pytest.raises(sl.SnapshotError, match=r"damaged|not a snapshot"):
            sl.Operator.restore(asked, blob[:length])
    with pytest.raises(sl.SnapshotError, match="damaged"):
        sl.Operator.restore(asked, blob + b"\0")


def test_flipped_bits_are_refused():
    blob, asked = blob_of(), spec("text")
    flips = np.random.default_rng(4).integers(0, 8 * len(blob), 2000)
    for bit in [*range(8 * 28), *flips.tolist()]:
        hurt = bytearray(blob)
        hurt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(sl.SnapshotError):
            sl.Operator.restore(asked, bytes(hurt))


# --- another process --------------------------------------------------------------------------------------------------

ELSEWHERE = """
import pathlib, sys
import slicing as sl
from test_snapshot import STREAM, seen, spec

for query in sys.argv[2:]:
    op = sl.Operator.restore(spec(query), (pathlib.Path(sys.argv[1]) / query).read_bytes())
    print([seen(out) for out in [*(op.push(batch) for batch in STREAM[4:]), op.flush()]], end="\\0")
"""


def test_another_process_goes_on_alike(tmp_path):
    queries = ["text", "keys of several types", "changes"]
    ops = [sl.Operator(spec(query)) for query in queries]
    for query, op in zip(queries, ops, strict=True):
        for batch in STREAM[:4]:
            op.push(batch)
        (tmp_path / query).write_bytes(op.snapshot())
    here = Path(__file__).resolve()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parents[2]), str(here.parent)])}
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path), *queries]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for said, op in zip(done.stdout.split("\0")[:-1], ops, strict=True):
        assert said == str([seen(out) for out in [*(op.push(batch) for batch in STREAM[4:]), op.flush()]])


def test_a_clock_that_an_advance_started_goes_on_before_the_first_row() -> None:
    now = [10**9]
    clock = sl.every_processing_time("10s", clock=lambda: now[0])
    spec = sl.Spec("t", {"w": sl.tumbling(100)}, {"n": sl.count()}, trigger=clock, emit="parts")
    op = sl.Operator(spec)
    op.advance(0)
    later = [op, sl.Operator.restore(spec, op.snapshot())]
    for seconds, reported in (8, 0), (4, 1):
        now[0] += seconds * 10**6
        assert [op.push(pa.table({"t": [1]})).windows.num_rows for op in later] == [reported] * 2
    assert later[0].snapshot() == later[1].snapshot()


@pytest.mark.parametrize("copied", [lambda op: pickle.loads(pickle.dumps(op)), copy.copy, copy.deepcopy])
def test_an_operator_is_pickled_and_copied_as_its_snapshot(copied: Callable[[sl.Operator], sl.Operator]) -> None:
    spec = sl.Spec(time="t", by=["k"], windows={"w": sl.tumbling(10)}, aggs={"n": sl.count()})
    op = sl.Operator(spec, max_windows_per_push=3, threads=2, combine="recompute")
    batch = pa.record_batch({"t": [1, 1, 1], "k": [1, 2, 3]})
    for _ in range(5):
        op.push(batch)  # into the head of the store, which is written in place
    other = copied(op)
    assert (other.spec, other._policy) == (spec, Policy("recompute", threads=2, max_windows_per_push=3))
    op.push(batch)
    assert other.push(batch.slice(0, 1)).stats["keys"] == 3
    assert [o.flush().windows["n"].to_pylist() for o in (op, other)] == [[6, 6, 6], [6, 5, 5]]


def test_rows_that_are_kept_may_have_nulls_only():
    spec = sl.Spec("t", {"w": sl.per_row(5, order="arrival")}, {"last": sl.last("s")}, watermark=sl.bounded(5))
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1, 2], "s": pa.array([None, None], pa.string())}))
    assert sl.Operator.restore(spec, op.snapshot()).flush().windows["last"].to_pylist() == [None, None]


@pytest.mark.parametrize("return_", ["s", ["s", "i"]])
def test_lists_of_values_that_are_all_null_are_read_again(return_: str | list[str]) -> None:
    """``top_k`` keeps the rank of a null too, where no value of the column has come yet."""
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"top": sl.top_k("i", 2, return_)}, watermark=sl.bounded(5))
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1, 2], "i": [2**62, 3], "s": pa.array([None, None], pa.string())}))
    op = sl.Operator.restore(spec, op.snapshot())
    op.push(pa.table({"t": [3, 3], "i": [7, 5], "s": ["b", "a"]}))
    (top,) = sl.Operator.restore(spec, op.snapshot()).flush().windows["top"].to_pylist()
    assert top == ([None, "b"] if return_ == "s" else [{"s": None, "i": 2**62}, {"s": "b", "i": 7}])


def test_rows_whose_structs_are_null_are_read_again() -> None:
    values = pa.array([None], pa.struct({"x": pa.int64()}))
    windows = {"w": sl.punctuation("mark", per_key=False)}
    spec = sl.Spec("t", windows, {"a": sl.first("v")}, watermark=sl.bounded(0))
    op = sl.Operator(spec)
    op.push(pa.table({"t": [0], "v": values, "mark": [False]}))
    assert sl.Operator.restore(spec, op.snapshot()).snapshot() == op.snapshot()
