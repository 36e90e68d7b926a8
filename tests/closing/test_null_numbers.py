"""Results that are numbers where some windows have no values, or too few for a deviation: what their own rows give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.lanes import Feed, Lane
from slicing.closing.numbers import Number, Numbers
from slicing.kernels import combine as kinds

BEGUN, STEP, ROWS = 1_700_000_000_000_000_000, 1_000_000_000, 6000
Values = list[Any]


def deviation(ddof: int, root: bool) -> Callable[[Values], float]:
    def found(values: Values) -> float:
        mean = statistics.fmean(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - ddof)
        return math.sqrt(variance) if root else variance

    return found


# the aggregate, the values that it needs, and what it gives of them
ASKED: dict[str, tuple[sl.Aggregate, int, Callable[[Values], Any]]] = {
    "n": (sl.count("v"), 0, len),
    "s": (sl.sum("v"), 1, sum),
    "lo": (sl.min("v"), 1, min),
    "hi": (sl.max("v"), 1, max),
    "m": (sl.mean("v"), 1, lambda values: sum(values) / len(values)),
    "all": (sl.std("v", ddof=0), 1, deviation(0, True)),
    "std": (sl.std("v"), 2, deviation(1, True)),
    "var": (sl.var("v", ddof=2), 3, deviation(2, False)),
}
DEVIATIONS = ("all", "std", "var")
TUMBLING, SLIDING, LAST, BESIDE = "tumbling", "sliding", "last rows", "last seconds"
WINDOWS = {
    TUMBLING: sl.tumbling("4s"),
    SLIDING: sl.sliding("6s", every="2s"),
    LAST: sl.rows(5, every=1),
    BESIDE: sl.per_row("4s"),
}


def rows_of(type: pa.DataType, seed: int) -> pa.Table:
    """A row a second. Many of its values are null, now and then all of 20 rows."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**30), 2**30, ROWS)
    null = (rng.random(ROWS) < 0.5) | np.repeat(rng.random(ROWS // 20) < 0.2, 20)
    v = pa.array(values / 8 if pa.types.is_floating(type) else values, type, mask=null)
    times = pa.array(BEGUN + np.arange(ROWS) * STEP, pa.timestamp("ns"))
    return pa.table({"t": times, "v": v})


def members(row: dict[str, Any], name: str, values: Values) -> Values:
    start, end = (row[edge].value for edge in ("window_start", "window_end"))
    low, high = (max(-(-(edge - BEGUN) // STEP), 0) for edge in (start, end))
    last = high + 1 if name in (LAST, BESIDE) else high  # these end with a row, which belongs to them
    return [value for value in values[low:last] if value is not None]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("type", [pa.int32(), pa.int64(), pa.float64()], ids=str)
def test_too_few_values(type: pa.DataType, name: str, written: list[bool]) -> None:
    data = rows_of(type, 5)
    aggs = {column: agg for column, (agg, _, _) in ASKED.items()}
    found = sl.aggregate(data, sl.Spec("t", {"w": WINDOWS[name]}, aggs), threads=1)
    assert written == [True]
    assert all(found[column].null_count for column, (_, least, _) in ASKED.items() if least)
    values = data["v"].to_pylist()
    for row in found.to_pylist():
        some = members(row, name, values)
        for column, (_, least, answer) in ASKED.items():
            expected = answer(some) if len(some) >= least else None
            rounded = column in DEVIATIONS and expected is not None
            assert row[column] == (pytest.approx(expected, rel=1e-9) if rounded else expected), (row, column)


# what is computed of these numbers: null if any of them is
COMPUTED: dict[str, tuple[sl.Formula, Callable[[Values], Any]]] = {
    "above": (sl.last("v") - sl.mean("v"), lambda values: values[-1] - sum(values) / len(values)),
    "share": (sl.sum("v") / sl.sum("v").where("all"), lambda values: 1.0),
    "twice": ((sl.max("v") - sl.first("v")) * 2, lambda values: (max(values) - values[0]) * 2),
    "spread": (sl.max("v") - sl.min("v"), lambda values: max(values) - min(values)),
    "held": (1 - sl.count("v") / sl.count("v").where("all"), lambda values: 0.0),
    "first": (sl.first("v"), lambda values: values[0]),
    "last": (sl.last("v"), lambda values: values[-1]),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("type", [pa.int32(), pa.int64(), pa.float64()], ids=str)
def test_what_is_computed_of_numbers(type: pa.DataType, name: str, written: list[bool]) -> None:
    data = rows_of(type, 6).append_column("all", pa.array([True] * ROWS))
    values = data["v"].to_pylist()
    values = [None if value is None or value == 0 else value for value in values]  # nothing is divided by 0
    data = data.set_column(1, "v", pa.array(values, type))
    aggs = {column: agg for column, (agg, _) in COMPUTED.items()}
    found = sl.aggregate(data, sl.Spec("t", {"w": WINDOWS[name]}, aggs), threads=1)
    assert written == [True]
    for row in found.to_pylist():
        some = members(row, name, values)
        for column, (_, answer) in COMPUTED.items():
            if column == "share" and some and sum(some) == 0:
                continue
            if column == "held" and not some:
                assert math.isnan(row[column])  # 0 / 0
                continue
            assert row[column] == (pytest.approx(answer(some), rel=1e-12, abs=1e-6) if some else None), (row, column)


@pytest.mark.parametrize("what", ["null", "wrap", "error"])
def test_running_totals_that_do_not_fit(what: str) -> None:
    values = [2**61, None, 2**61, 2**61, 5, 2**61, -7, -(2**61)] * 4
    data = pa.table({"t": BEGUN + np.arange(len(values)), "v": pa.array(values, pa.int64())})
    spec = sl.Spec("t", {"w": sl.rows(2**40, every=1)}, {"s": sl.sum("v")}, on_overflow=what)
    if what == "error":
        with pytest.raises(OverflowError, match="on_overflow"):
            sl.attach(data, spec, min_rows=1)
        return
    exact = np.cumsum([value or 0 for value in values], dtype=object).tolist()
    wrapped = [(total + 2**63) % 2**64 - 2**63 for total in exact]
    expected = (
        wrapped
        if what == "wrap"
        else [one if one == other else None for one, other in zip(exact, wrapped, strict=True)]
    )
    assert sl.attach(data, spec, min_rows=1)["s"].to_pylist() == expected


@pytest.mark.parametrize("empty", [0, 1, 3])
def test_nulls_of_any_of_several_tables(empty: int) -> None:
    """Cells of two tables, one of which has a cell without values."""
    lane = Lane(kinds.BASIC_I, (Feed("v", "int"),), None)
    cells = np.array([[1, at, 0, at, at] for at in (10, 11, 12, 13)], np.int64)  # of one value: count, sum, min, max
    cells[empty, 0] = 0
    parts = [((cells[:2],), np.array([1, 0])), ((cells[2:],), np.array([0, 1]))]
    least, count = Number(0, 3, np.dtype(np.int64), 1), Number(0, 0, np.dtype(np.int64), 0)
    wanted = Numbers([lane], [least, count], [pa.int64(), pa.int64()], None)
    found = wanted.read(parts, 4)
    assert found is not None
    shown = wanted.arrays(found)
    assert shown is not None
    order = [1, 0, 2, 3]
    assert shown[0].to_pylist() == [None if at == empty else 10 + at for at in order]
    assert shown[1].to_pylist() == [int(at != empty) for at in order]


def test_deviations_beside_a_large_mean_keep_their_digits() -> None:
    off = np.random.default_rng(9).integers(-(2**20), 2**20, 5000) / 2**30  # exact beside 1e9
    data = pa.table({"t": BEGUN + np.arange(off.size), "v": 1e9 + np.round(off * 2**23) / 2**23})
    off = np.round(off * 2**23) / 2**23
    found = sl.attach(data, sl.Spec("t", {"w": sl.rows(1000, every=1)}, {"d": sl.std("v")}))["d"].to_pylist()
    assert found[:999] == [None] * 999
    for at in (999, 1500, 2500, 4999):
        assert found[at] == pytest.approx(off[at - 999 : at + 1].std(ddof=1), rel=1e-12)


@pytest.mark.parametrize("keys", [0, 3, 4000])
@pytest.mark.parametrize("type", [pa.float64(), pa.int16(), pa.timestamp("us")], ids=str)
def test_nulls_that_are_returned_of_the_largest_rows(type: pa.DataType, keys: int, written: list[bool]) -> None:
    rng = np.random.default_rng(keys)
    given = pa.array(rng.integers(-99, 99, ROWS), mask=rng.random(ROWS) < 0.4)
    by = pa.array(rng.integers(0, max(keys, 1), ROWS))
    largest = pa.array(rng.permutation(ROWS) + 2**61, mask=rng.random(ROWS) < 0.3)
    data = rows_of(pa.int64(), keys).append_column("x", given.cast(type)).append_column("k", by)
    data = data.append_column("by", largest)
    windows = {"w": sl.tumbling("90s"), "all": sl.whole()}
    spec = sl.Spec("t", windows, {"a": sl.argmax("by", "x"), "n": sl.count()}, by=["k"] if keys else [])
    found = sl.aggregate(data, spec)
    assert written and all(written)
    times = data["t"].cast(pa.int64()).to_numpy()
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row, time in zip(data.to_pylist(), times.tolist(), strict=True):
        key = (row["k"],) if keys else ()
        groups.setdefault(("all", None, *key), []).append(row)
        groups.setdefault(("w", time // (90 * STEP), *key), []).append(row)
    for window, start, row in zip(
        found["window"].to_pylist(), found["window_start"].cast(pa.int64()).to_pylist(), found.to_pylist(), strict=True
    ):
        own = groups.pop((window, None if window == "all" else start // (90 * STEP), *((row["k"],) if keys else ())))
        known = [one for one in own if one["by"] is not None]
        assert row["n"] == len(own)
        assert row["a"] == (max(known, key=lambda one: one["by"])["x"] if known else None)
    assert not groups
