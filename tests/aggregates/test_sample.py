"""``sample``: the values of least hash, held against the hash written down once more; ``collect(at_most=)``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

WORD = (1 << 64) - 1
AGGS = {
    "some": sl.sample("v", 5),
    "texts": sl.sample("s", 5),
    "first": sl.collect("s", 4),
    "last": sl.collect("s", 4, "last"),
}


def mixed(hashed: int, word: int) -> int:
    h = ((hashed + 0x9E3779B97F4A7C15) & WORD) ^ (word & WORD)
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & WORD
    h = (h ^ h >> 27) * 0x94D049BB133111EB & WORD
    return h ^ h >> 31


def hash_of(value: int, time: int, sequence: int) -> int:
    h = mixed(mixed(mixed(0, value), time), sequence)
    return h - (1 << 64) if h >> 63 else h


def data(rows: int, since: int = 0, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, 400, rows)) + since
    value = rng.integers(-(2**63), 2**63 - 1, rows)
    columns = {"t": time, "k": rng.integers(0, 4, rows), "q": rng.permutation(rows), "v": value}
    return pa.table({**columns, "s": [f"text {number % 50}" for number in value.tolist()]})


def spec(**arguments: object) -> sl.Spec:
    windows = {"w": sl.sliding(100, every=30), "s": sl.session(2), "r": sl.rows(20)}
    return sl.Spec("t", windows, AGGS, by=["k"], sequence="q", watermark=sl.bounded(50), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("since", [0, 1_700_000_000_000_000_000, -(2**61)])
def test_a_sample_is_the_values_of_least_hash(since: int) -> None:
    rows = data(2000, since)
    found = sl.aggregate(rows, spec()).filter(sl.col("window") == "w").to_pylist()
    for window in found[::7]:
        inside = [
            row
            for row in rows.to_pylist()
            if row["k"] == window["k"] and window["window_start"] <= row["t"] < window["window_end"]
        ]
        by_hash = sorted(inside, key=lambda row: hash_of(row["v"], row["t"], row["q"]))
        assert window["some"] == [row["v"] for row in by_hash[:5]]
        ordered = sorted(inside, key=lambda row: (row["t"], row["q"]))
        assert window["first"] == [row["s"] for row in ordered[:4]]
        assert window["last"] == [row["s"] for row in ordered[-4:]]
        assert set(window["texts"]) <= {row["s"] for row in inside}
    assert len(found) > 40


def test_it_is_the_same_for_any_split_and_order_and_after_a_restart() -> None:
    rows = data(1500)
    whole = sl.aggregate(rows, spec())
    rng = np.random.default_rng(1)
    late = rows.take(np.argsort(rows["t"].to_numpy() + rng.integers(0, 45, 1500), kind="stable"))
    op, parts, at = sl.Operator(spec()), [], 0
    while at < 1500:
        size = int(rng.integers(1, 200))
        parts.append(op.push(late.slice(at, size).to_batches()[0]).windows)
        op, at = sl.Operator.restore(spec(), op.snapshot()), at + size
    parts.append(op.flush().windows)
    order = [(name, "ascending") for name in ("window_end", "window", "window_start", "k")]
    assert pa.concat_tables(parts).sort_by(order).combine_chunks() == whole.sort_by(order).combine_chunks()


def test_a_larger_sample_begins_with_the_smaller_one_and_every_value_may_be_in_it() -> None:
    rows = pa.table({"t": np.arange(100_000), "v": np.arange(100_000) / 7, "f": np.arange(100_000) % 2 == 0})
    aggs = {"few": sl.sample("v", 10), "many": sl.sample("v", 1000), "even": sl.sample("v", 400).where("f")}
    (row,) = sl.aggregate(rows, sl.Spec("t", {"w": sl.tumbling(100_000)}, aggs)).to_pylist()
    assert row["many"][:10] == row["few"]
    assert abs(np.mean(row["many"]) * 7 - 50_000) < 5 * 100_000 / np.sqrt(12 * 1000)
    assert all(round(value * 7) % 2 == 0 for value in row["even"])


def test_what_there_is_nothing_of_is_null_and_few_values_are_all_there() -> None:
    rows = pa.table({"t": [1, 2, 11, 12], "v": pa.array([None, None, 1.5, None], pa.float64())})
    aggs = {"a": sl.sample("v", 3), "b": sl.collect("v", at_most=3)}
    found = sl.aggregate(rows, sl.Spec("t", {"w": sl.tumbling(10)}, aggs)).select(["a", "b"]).to_pylist()
    assert found == [{"a": None, "b": None}, {"a": [1.5], "b": [1.5]}]


def test_wrong_bounds_are_refused_and_they_print_as_the_code_that_builds_them() -> None:
    with pytest.raises(ValueError, match=r"sample's k must be a whole number of at least 1; got 0"):
        sl.sample("v", 0)
    with pytest.raises(ValueError, match=r"collect's at_most must be a whole number of at least 1; got True"):
        sl.collect("v", at_most=True)
    with pytest.raises(ValueError, match=r"collect's keep must be 'first' or 'last'; got 'end'"):
        sl.collect("v", at_most=1, keep="end")
    with pytest.raises(ValueError, match=r"collect's keep='last' needs at_most=, the number of values"):
        sl.collect("v", keep="last")
    for agg in (sl.sample("v", 3), sl.collect("v", at_most=3), sl.sample(sl.col("v") * 2, 3)):
        assert eval(repr(agg), {"sl": sl}) == agg
    kept = sl.explain(sl.Spec("t", {"w": sl.tumbling(1)}, {"s": sl.sample("v", 3)}))["bytes per live key"]
    assert "40 bytes an item of its rows by a hash, at most 3 a cell" in kept
