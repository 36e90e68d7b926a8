"""Approximate aggregates: the errors they promise, what they keep, what they refuse."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.aggregates.sketches import LARGEST, SMALLEST, buckets, middles


def answer(values: object, *aggs: sl.Aggregate, size: int = 100, every: int | None = None) -> list[dict]:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    table = pa.table({"t": np.arange(len(column)) * 100 // max(len(column), 1), "v": column})
    window = sl.tumbling(size) if every is None else sl.sliding(size, every=every)
    return sl.aggregate(table, sl.Spec("t", {"w": window}, {f"a{k}": agg for k, agg in enumerate(aggs)})).to_pylist()


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "few", "wide", "negative"])
def test_quantiles_are_within_the_error(shape: str, error: float) -> None:
    rng = np.random.default_rng(4)
    values = {
        "normal": rng.normal(size=20_000) + 1e-9,
        "lognormal": rng.lognormal(3, 4, 20_000),
        "few": rng.choice([0.0, 1.0, 1e-300, 1e300], 20_000),
        "wide": rng.normal(size=20_000) * 10.0 ** rng.integers(-300, 300, 20_000),
        "negative": -rng.exponential(size=20_000) - 1,
    }[shape]
    for q in (0.0, 0.01, 0.5, 0.77, 0.999, 1.0):
        for row in answer(values, sl.approx_quantile("v", q, error), sl.count(), size=30, every=10):
            inside = np.sort(values[max(row["window_start"], 0) * 200 : row["window_end"] * 200])
            assert inside.size == row["a1"]
            at = q * (inside.size - 1)
            low, high = inside[int(np.floor(at))], inside[int(np.ceil(at))]
            share = at - np.floor(at)
            slack = 1.0000001 * error * max(abs(low), abs(high)) + 1e-16 * np.abs(inside).max()
            assert abs(row["a0"] - (low * (1 - share) + high * share)) <= slack


@pytest.mark.parametrize("error", [0.0001, 0.01, 0.5, 0.99])
def test_every_bucket_keeps_its_promise(error: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=10_000) * 10.0 ** rng.integers(-307, 308, 10_000)
    x = np.concatenate([x, [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, LARGEST, -LARGEST, 2.3e-308]])
    x.sort()
    numbers = buckets(x, error)
    assert (np.diff(numbers) >= 0).all()
    finite = np.isfinite(x)
    found = middles(numbers, error)
    assert (np.abs(found[finite] - x[finite]) <= 1.0000001 * error * np.abs(x[finite])).all()
    assert (found[~finite] == x[~finite]).all()
    assert middles(buckets(np.array([SMALLEST]), error), error)[0] > 0


def test_quantiles_of_what_is_not_a_plain_number() -> None:
    q = sl.approx_quantile("v", 1.0)
    assert np.isnan(answer([1.0, np.nan, 2.0], q)[0]["a0"])
    assert answer([-np.inf, np.inf], q)[0]["a0"] == np.inf
    assert answer(pa.array([None, None], pa.float64()), q)[0]["a0"] is None
    assert answer([Decimal("12.50"), Decimal("1.25")], q)[0]["a0"] == pytest.approx(12.5, rel=0.01)
    assert answer(pa.array([2**64 - 1], pa.uint64()), q)[0]["a0"] == pytest.approx(2.0**64, rel=0.01)


@pytest.mark.parametrize("number", [1, 30, 1_000, 10_000, 20_000, 300_000])
def test_distinct_values_are_within_the_error(number: int) -> None:
    """1.6 % in the mean, and no run beyond four times that."""
    errors = []
    for seed in range(12):
        values = np.random.default_rng(seed).integers(-(2**62), 2**62, number)
        (row,) = answer(np.repeat(values, 1 + (number < 1000)), sl.approx_count_distinct("v"))
        errors.append(row["a0"] / number - 1)
    assert np.sqrt(np.mean(np.square(errors))) < 0.022
    assert max(map(abs, errors)) < 0.065


def test_consecutive_numbers_and_texts_count_as_well() -> None:
    for values in (np.arange(50_000), np.arange(50_000) * 0.5, pa.array([f"user-{i}" for i in range(50_000)])):
        (row,) = answer(values, sl.approx_count_distinct("v"))
        assert row["a0"] == pytest.approx(50_000, rel=0.065)


def test_overlapping_windows_count_a_value_once() -> None:
    values = np.tile(np.arange(2000), 10)
    for row in answer(values, sl.approx_count_distinct("v"), size=50, every=10):
        rows = values[max(row["window_start"], 0) * 200 : row["window_end"] * 200]
        assert row["a0"] == pytest.approx(np.unique(rows).size, rel=0.065)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", "a", None]),
        pa.array(["a", "b", "a", None]).dictionary_encode(),
        pa.array([b"xx", b"", b"xx", None], pa.binary()),
        pa.array([b"xx", b"yy", b"xx", None], pa.binary(2)),
        pa.array([0.0, -0.0, np.nan, np.nan]),
        pa.array([Decimal("1e20"), Decimal("2e20"), Decimal("1e20"), None], pa.decimal128(38, 2)),
        pa.array([1, 2, 1, None], pa.timestamp("us")),
        pa.array([True, False, True, None]),
        pa.array(["skip", "a", "b", "a"])[1:],
    ],
)
def test_distinct_values_of_every_type(values: pa.Array) -> None:
    assert answer(values, sl.approx_count_distinct("v"))[0]["a0"] == 2


def test_only_nulls_are_none() -> None:
    assert answer(pa.array([None, None], pa.string()), sl.approx_count_distinct("v"))[0]["a0"] == 0


def test_state_does_not_grow_with_rows() -> None:
    aggs = {"d": sl.approx_count_distinct("v"), "q": sl.approx_quantile("v", 0.5)}
    op, rng = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, aggs)), np.random.default_rng(1)
    sizes = []
    for _ in range(8):
        values = rng.lognormal(0, 2, 100_000)
        sizes.append(op.push(pa.table({"t": np.zeros(values.size, np.int64), "v": values})).stats["bytes"])
    assert sizes[-1] < 4096 * 16 + 1200 * 16 + 1000
    assert sizes[-1] < 1.05 * sizes[2]


def test_state_is_fixed_whatever_the_values() -> None:
    """Sixteen decades of each sign, and not the 600 that there are."""
    rng = np.random.default_rng(6)
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"q": sl.approx_quantile("v", 0.5)}))
    for _ in range(5):
        values = rng.normal(size=200_000) * 10.0 ** rng.integers(-300, 300, 200_000)
        values[:3] = np.inf, -np.inf, 0.0
        size = op.push(pa.table({"t": np.zeros(values.size, np.int64), "v": values})).stats["bytes"]
        assert 20_000 < size < (2 * 37 / np.log(1.01 / 0.99) + 4) * 16 + 100


@pytest.mark.parametrize("seed", range(6))
def test_any_split_and_order_of_merges_gives_the_same_sketch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 3000
    values = rng.normal(size=n) * 10.0 ** (rng.integers(-300, 300, n) if seed % 2 else rng.integers(-12, 6, n))
    values[rng.integers(0, n, 9)] = [np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 1.0, np.nan]
    spec = sl.Spec(
        "t",
        {"w": sl.sliding(50, 10)},
        {
            "d": sl.approx_count_distinct("v"),
            "q": sl.approx_quantile("v", 0.3),
            "p": sl.approx_quantile("v", 0.99, 0.3),
        },
        watermark=sl.manual(),
    )
    seen = []
    for _ in range(4):
        op, order = sl.Operator(spec), rng.permutation(n)
        for part in np.array_split(order, np.sort(rng.integers(0, n, 7))):
            op.push(pa.table({"t": part % 100, "v": values[part]}))
        state = op._state
        assert state is not None
        table = state.store.consolidated().table()
        lists = [block.whole() for block in table.blocks if not isinstance(block, np.ndarray)]
        seen.append(([(b.at.tolist(), b.items.tolist()) for b in lists], op.flush().windows.to_pylist()))
    assert len(seen[0][0]) == 3
    assert all(repr(other) == repr(seen[0]) for other in seen[1:])


def test_windows_answer_alike_however_they_are_sliced() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-40, 5, 2000)
    rows = pa.table({"t": np.arange(2000), "v": values})
    aggs = {f"q{k}": sl.approx_quantile("v", k / 8) for k in range(9)}
    alone, beside = (
        [row for row in sl.aggregate(rows, sl.Spec("t", windows, aggs)).to_pylist() if row["window"] == "w"]
        for windows in ({"w": sl.tumbling(400)}, {"w": sl.tumbling(400), "fine": sl.tumbling(5)})
    )
    assert alone == beside and any(row["q4"] == 0.0 for row in alone)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sl.approx_quantile("v", -1), "approx_quantile's q must be a number from 0 to 1; got -1"),
        (
            lambda: sl.approx_quantile("v", 0.5, error=0),
            "approx_quantile's error must be a number from 0.000001 to below 1; got 0",
        ),
        (
            lambda: sl.approx_count_distinct(None),
            "approx_count_distinct's column must be the name of a column or an expression; got None",
        ),
    ],
)
def test_wrong_arguments(build, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        build()
    assert str(error.value) == message


def test_they_print_as_the_code_that_builds_them() -> None:
    for agg in (sl.approx_quantile("v", 0.9), sl.approx_quantile("v", 0.9, 0.1), sl.approx_count_distinct("v")):
        assert eval(repr(agg), {"sl": sl}) == agg
