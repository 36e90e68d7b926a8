"""Float sums: near ``math.fsum`` however many rows and whatever the path, and honest about NaN and inf."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

ROWS = 10_000_000
AGGS = {"total": sl.sum("value"), "mean": sl.mean("value")}
NEAR = 1e-12


def stream(values: np.ndarray, times: np.ndarray, key: np.ndarray | None = None) -> pa.Table:
    columns = {"ts": times, "value": values}
    return pa.table(columns if key is None else columns | {"key": key})


def query(window: sl.ContextFreeWindow, keyed: bool = False) -> sl.Spec:
    return sl.Spec("ts", {"w": window}, AGGS, by=["key"] if keyed else [], watermark=sl.manual())


def in_order(rows: int) -> np.ndarray:
    return np.arange(rows)


def out_of_order(rows: int) -> np.ndarray:
    times = np.arange(rows)
    times[0], times[-1] = times[-1], times[0]
    return times


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "keyed"])
@pytest.mark.parametrize("times", [in_order, out_of_order])
def test_ten_million_rows_in_one_cell(times: Callable[[int], np.ndarray], keyed: bool) -> None:
    values = np.full(ROWS, 0.1)
    key = np.zeros(ROWS, np.int64) if keyed else None
    found = sl.aggregate(stream(values, times(ROWS), key), query(sl.tumbling(ROWS), keyed))
    expected = math.fsum(values)
    assert found["total"].to_pylist() == [pytest.approx(expected, rel=NEAR, abs=0)]
    assert found["mean"].to_pylist() == [pytest.approx(expected / ROWS, rel=NEAR, abs=0)]


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "keyed"])
def test_small_pushes_and_snapshots_lose_nothing(keyed: bool) -> None:
    size, pushes = 100, 3000
    random = np.random.default_rng(7)
    values = random.random(size * pushes) * np.exp(random.normal(0, 20, size * pushes))
    spec = query(sl.sliding(2 * values.size, every=size // 2), keyed)
    operator = sl.Operator(spec)
    for push in range(pushes):
        rows = slice(push * size, (push + 1) * size)
        key = np.zeros(size, np.int64) if keyed else None
        operator.push(stream(values[rows], np.arange(rows.start, rows.stop), key))
        if push % 500 == 499:
            operator = sl.Operator.restore(spec, operator.snapshot())
    found = operator.flush().windows
    whole = [total for total, start in zip(found["total"], found["window_start"], strict=True) if start.as_py() <= 0]
    whole = [total.as_py() for total in whole if total.as_py() is not None]
    assert max(whole) == pytest.approx(math.fsum(values), rel=NEAR, abs=0)


@pytest.mark.parametrize("keyed", [False, True], ids=["global", "keyed"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf, 2.0], math.inf),
        ([1e308, -math.inf, 1e308], -math.inf),
        ([-1e308, math.inf, 1.0, 2.0, -1e308], math.inf),
        ([1e308, 1e308, 1.0], math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([1.0, math.nan, math.inf], math.nan),
        ([1e16, 1.0, -1e16], 1.0),
        ([1e300, 0.5, -1e300], 0.5),
        ([-0.0, -0.0], 0.0),
    ],
)
def test_what_is_not_finite_stays_what_it_is(values: list[float], expected: float, keyed: bool) -> None:
    rows = np.array(values)
    key = np.zeros(rows.size, np.int64) if keyed else None
    spec = query(sl.sliding(8, every=1), keyed)  # a slice a row: combining keeps the promise too
    operator = sl.Operator(spec)
    for i in range(rows.size):
        operator.push(stream(rows[i : i + 1], np.array([i]), None if key is None else key[i : i + 1]))
    found = operator.flush().windows
    (combined,) = found.filter(pa.array(np.array(found["window_start"]) == 0))["total"].to_pylist()
    at_once = sl.aggregate(stream(rows, np.zeros(rows.size, np.int64), key), query(sl.tumbling(8), keyed))
    cancels = math.isfinite(expected) and max(abs(rows)) > 1e15  # rows of one cell and push are added as they are
    for total in [combined] if cancels else [combined, *at_once["total"].to_pylist()]:
        assert total == pytest.approx(expected, nan_ok=True, rel=0, abs=0)


@pytest.mark.parametrize(("emit", "more"), [("final", {}), ("changes", {}), ("final", {"op": "op"})])
@pytest.mark.parametrize("size", [1, 7, 100, 2000])
def test_products_neither_overflow_nor_vanish_on_the_way(emit: str, more: dict[str, str], size: int) -> None:
    """Factors of 1e-270 to 1e270 and their reciprocals, in any split, beside windows that cut the longer one."""
    random = np.random.default_rng(4)
    factors = 2.0 ** random.integers(-900, 900, 1000) * random.uniform(1, 2, 1000) * random.choice([1, -1], 1000)
    values = random.permutation(np.concatenate([factors, 1 / factors]))
    times = 1_714_564_800_000_000_000 + np.arange(2000)
    data = pa.table({"t": times, "v": values, "op": np.ones(2000, np.int64)})
    windows = {"all": sl.tumbling(2000), "some": sl.tumbling(4)}
    spec = sl.Spec("t", windows, {"p": sl.product("v")}, emit=emit, watermark=sl.ordered(), **more)
    op = sl.Operator(spec)
    out = [op.push(data.slice(at, size)).windows for at in range(0, 2000, size)]
    found = [row for some in (*out, op.flush().windows) for row in some.to_pylist()]
    assert [row["p"] for row in found if row["window"] == "all"] == [pytest.approx(1, rel=1e-11)]
    some = {row["window_start"]: row["p"] for row in found if row["window"] == "some"}
    assert len(some) == 500
    for start, product in some.items():
        exact = math.prod(map(Fraction, values[start - times[0] :][:4]))
        wanted = float(exact) if abs(exact) < Fraction(1.79e308) else math.inf if exact > 0 else -math.inf
        assert product == pytest.approx(wanted, rel=1e-12, abs=1e-320)
