"""``Operator(spec, max_bytes=)``: a push that would be more is refused whole, or its rows come back, counted."""

from __future__ import annotations

import pickle
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

SINCE = 1_700_000_000_000_000_000
PLAIN = sl.Spec(
    "t", {"w": sl.sliding(40, every=10)}, {"n": sl.count(), "s": sl.sum("v")}, by=["k"], watermark=sl.bounded(5)
)
MIXED = sl.Spec(
    "t",
    {"w": sl.tumbling(20), "visit": sl.session(7), "r": sl.rows(5)},
    {"n": sl.count(), "least": sl.min("word"), "all": sl.collect("v")},
    by=["k"],
    watermark=sl.bounded(5),
    allowed_lateness=10,
    emit="changes",
)


EARLY = sl.Spec(
    "t",
    {"w": sl.tumbling(40)},
    {"n": sl.count(), "least": sl.min("word")},
    by=["k"],
    watermark=sl.bounded(5),
    emit="changes",
    trigger=sl.every(10),
)


def batch(rng: np.random.Generator, at: int, rows: int, keys: int = 50) -> pa.RecordBatch:
    time = SINCE + at + rng.integers(-8, 9, rows)
    words = [f"word {number}" for number in rng.integers(0, 1000, rows).tolist()]
    columns = {"t": time, "k": rng.integers(0, keys, rows), "v": rng.integers(-9, 9, rows), "word": words}
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("spec", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_a_push_beyond_the_bound_is_refused_whole(spec: sl.Spec) -> None:
    rng = np.random.default_rng(1)
    op, free = sl.Operator(spec, max_bytes=60_000), sl.Operator(spec)
    refused = 0
    for at in range(0, 300, 10):
        data = batch(rng, at, pick(rng), keys=int(rng.integers(5, 3000)))
        before = op.snapshot()
        try:
            out = op.push(data)
        except MemoryError as error:
            refused += 1
            assert f"after this push of {data.num_rows} rows the operator would hold" in str(error)
            assert op.snapshot() == before
            continue
        wanted = free.push(data)
        assert (out.windows, out.late, out.stats | {"full": 0, "bytes": 0}) == (
            wanted.windows,
            wanted.late,
            wanted.stats | {"full": 0, "bytes": 0},
        )
        assert out.stats.bytes <= 60_000
    assert 2 < refused < 25
    assert op.flush().windows == free.flush().windows


def pick(rng: np.random.Generator) -> int:
    return int(rng.choice([3, 30, 300, 3000]))


@pytest.mark.parametrize("spec", [PLAIN, MIXED, EARLY], ids=["plain", "mixed", "early"])
@pytest.mark.parametrize("case", range(2))
def test_rows_that_do_not_fit_come_back_and_the_stream_goes_on(spec: sl.Spec, case: int) -> None:
    rng = np.random.default_rng(case)
    told: dict[str, Any] = {"max_bytes": 60_000, "on_full": "late"}
    op, free, full, reached = sl.Operator(spec, **told), sl.Operator(spec), 0, None
    for at in range(0, 300, 10):
        data = batch(rng, at, pick(rng), keys=int(rng.integers(5, 3000)))
        out = op.push(data)
        assert out.stats.rows == data.num_rows == out.stats.windowed + out.stats.late + out.stats.full
        assert reached is None or out.watermark >= reached
        reached = out.watermark
        if out.stats.full:
            full += 1
            assert out.late.drop_columns(["reason"]).combine_chunks() == pa.table(data)
            assert set(out.late["reason"].to_pylist()) == {"full"}
            wanted = [free.advance(out.watermark).windows]
        else:
            assert out.stats.bytes <= 60_000
            wanted = [free.push(data).windows, free.advance(out.watermark).windows]
        wanted = [windows for windows in wanted if windows.num_rows]
        assert out.windows.num_rows == sum(windows.num_rows for windows in wanted), (case, at)
        assert not wanted or out.windows == pa.concat_tables(wanted), (case, at)
        if rng.integers(5) == 0:
            op = pickle.loads(pickle.dumps(op)) if rng.integers(2) else sl.Operator.restore(spec, op.snapshot(), **told)
    assert full > 2
    assert op.flush().windows == free.flush().windows


def test_rows_without_a_time_keep_their_reason() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by=["k"], on_null_time="late")
    op = sl.Operator(spec, max_bytes=1, on_full="late")
    out = op.push(pa.table({"t": [1, None, 3], "k": [1, 2, 3]}))
    assert out.late["reason"].to_pylist() == ["full", "null time", "full"]
    assert (out.stats.rows, out.stats.full, out.stats.null_time, out.stats["keys"]) == (3, 2, 1, 0)


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"max_bytes": 0}, "max_bytes must be a whole number of at least 1, or None; got 0"),
        ({"max_bytes": 1.5}, r"max_bytes must be a whole number of at least 1, or None; got 1.5"),
        ({"max_bytes": 1, "on_full": "drop"}, "on_full must be one of 'error', 'late'; got 'drop'"),
    ],
)
def test_wrong_bounds_are_refused(told: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        sl.Operator(PLAIN, **told)


def test_a_push_may_take_all_bytes_there_are() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k")
    rows = pa.table({"t": [1, 2, 3], "k": ["a", "b", "c"]})
    held = sl.Operator(spec).push(rows).stats.bytes
    assert sl.Operator(spec, max_bytes=held).push(rows).stats.bytes == held
    with pytest.raises(MemoryError, match=f"would hold {held} bytes, and max_bytes is {held - 1}"):
        sl.Operator(spec, max_bytes=held - 1).push(rows)


def test_rows_that_come_back_say_when_the_stream_began() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10, full=True)}, {"n": sl.count(), "m": sl.median("v")})
    op = sl.Operator(spec, max_bytes=20_000, on_full="late")
    many = np.arange(5000)
    assert op.push(pa.table({"t": SINCE + many % 8, "v": many})).stats.full == 5000
    out = op.push(pa.table({"t": SINCE + np.array([12, 25]), "v": [1, 2]}))
    assert out.windows["window_start"].to_pylist() == [SINCE + 10]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("on_full", ["error", "late"])
@pytest.mark.parametrize("agg", [sl.count(), sl.last("word"), sl.max("word"), sl.count_distinct("word")], ids=repr)
def test_what_closed_windows_held_makes_room(agg: sl.Aggregate, on_full: str, restored: bool) -> None:
    """Keys and texts that nothing needs do not wait for so many new ones that these would not be let in."""
    spec = sl.Spec("t", {"w": sl.tumbling(10), "visit": sl.session(3)}, {"x": agg}, by="k")
    names = map("name {}".format, count())

    def rows(t: int, size: int) -> pa.Table:
        keys = list(islice(names, size))
        return pa.table({"t": [SINCE + t] * size, "k": keys, "word": keys})

    def pushed(op: sl.Operator, t: int, size: int) -> int:
        """How many rows were refused."""
        try:
            out = op.push(rows(t, size))
        except MemoryError:
            return size
        assert out.stats.bytes <= most
        return int(out.stats.get("full", 0))

    sizes, most = [1000, 1000, 1000, 1000, 10], 10**9
    free = sl.Operator(spec)
    most = 50_000 + max([free.push(rows(1, size)).stats.bytes for size in sizes])
    told: dict[str, Any] = {"max_bytes": most, "on_full": on_full}
    op = sl.Operator(spec, **told)
    assert [pushed(op, 1, size) for size in (*sizes, 300)] == [0, 0, 0, 0, 0, 300]
    op.advance(SINCE + 50)
    if restored:
        op = sl.Operator.restore(spec, op.snapshot(), **told)
    assert not any(pushed(op, t, 300) for t in range(51, 400, 10))


@pytest.mark.parametrize("on_full", ["error", "late"])
def test_texts_that_closed_windows_held_make_room(on_full: str) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(1)}, {"x": sl.last("word")}, watermark=sl.manual())
    numbers = count()

    def rows(size: int) -> pa.Table:
        some = list(islice(numbers, size))
        return pa.table({"t": [SINCE + number for number in some], "word": [f"{number} " * 60 for number in some]})

    free, parts = sl.Operator(spec), [rows(size) for size in (1000, 1000, 1000, 1000, 10)]
    most = 50_000 + max([free.push(part).stats.bytes for part in parts])
    op = sl.Operator(spec, max_bytes=most, on_full=on_full)
    for part in parts:
        assert not op.push(part).stats.get("full", 0)
    op.advance(SINCE + 10_000)
    numbers = count(10_000)
    for _ in range(30):
        out = op.push(rows(300))
        assert not out.stats.get("full", 0) and out.stats.bytes <= most
        op.advance(SINCE + next(numbers))


@pytest.mark.parametrize("on_full", ["error", "late"])
def test_fewer_than_half_of_the_keys_make_room(on_full: str) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k")

    def rows(t: int, numbers: range) -> pa.Table:
        keys = [f"customer number {number:08d} " * 8 for number in numbers]
        return pa.table({"t": [SINCE + t] * len(keys), "k": keys})

    most = sl.Operator(spec).push(rows(1, range(5500))).stats.bytes + 60_000
    op = sl.Operator(spec, max_bytes=most, on_full=on_full)
    op.push(rows(1, range(5500)))
    for step in range(1, 12):
        for part in (rows(1 + 10 * step, range(3000)), rows(1 + 10 * step, range(step * 10_000, step * 10_000 + 500))):
            assert not op.push(part).stats.get("full", 0), step
