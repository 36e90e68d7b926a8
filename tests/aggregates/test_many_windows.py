"""Lists of slices that many windows share: samples, first and largest rows, sketches; held against single windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.aggregates.over_lists import _largest_within
from slicing.cells.list_kinds import Bounded, bounded_rows_of, rows_of, some_in_order
from slicing.cells.lists import Lists, Picked
from slicing.kernels import sketch
from slicing.kernels.lists import KEEP

SPANS = ["any", "forward", "growing", "nested", "two sizes"]
WIDE = {"rows": sl.rows(20_000, every=1), "growing": sl.landmark(1), "starting again": sl.cumulate(30_000, 1)}


def spans(kind: str, cells: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of cells, none of them empty."""
    ends = np.sort(rng.integers(0, cells + 1, (300, 2)), axis=1)
    first, last = ends[ends[:, 0] < ends[:, 1]].T.copy()
    if kind == "forward":
        first, last = np.sort(first), np.sort(last)
    elif kind == "growing":
        first = np.full(last.size, last.min() - 1)
        last = np.sort(last)
    elif kind == "nested":
        first, last = np.sort(first), np.sort(last)[::-1]
        last = np.maximum(last, first + 1)
    elif kind == "two sizes":
        last = np.repeat(np.arange(60, cells + 1), 2)
        first = last - np.where(np.arange(last.size) % 2, 60, 3)
    return first, last


def lists(sizes: np.ndarray, items: np.ndarray) -> Lists:
    return Lists(np.append(0, np.cumsum(sizes)), items)


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("most", [1, 4, 100, 2**61])
@pytest.mark.parametrize("keeps_last", [False, True])
def test_the_first_items_of_any_windows(
    kind: str, most: int, keeps_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of some items or none; equal items keep the order of their cells. Likewise the last items."""
    monkeypatch.setattr("slicing.cells.list_kinds.SHARED", 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(0, 1 + seed % 5, 200)
        items = rng.integers(0, 30 if seed % 2 else 3, (sizes.sum(), 5))
        cells = np.repeat(np.arange(200), sizes)
        items = items[np.lexsort((*items.T[3::-1], cells))]
        items[:, 4] = np.arange(len(items))
        picked = Picked(lists(sizes, items), *spans(kind, 200, rng))
        of = Bounded("rows", 5, 4, KEEP, most=most, keeps_last=keeps_last)
        found, expected = bounded_rows_of(picked, of), of.cut(rows_of(picked, of))
        assert np.array_equal(found.at, expected.at)
        for word in range(5):
            assert np.array_equal(found.word(word), expected.word(word))


@pytest.mark.parametrize("keeps_last", [False, True])
def test_the_first_items_of_windows_without_items(keeps_last: bool) -> None:
    empty = Picked(lists(np.zeros(9, np.int64), np.empty((0, 4), np.int64)), np.zeros(99, np.int64), np.full(99, 9))
    found = bounded_rows_of(empty, some_in_order(3, keeps_last))
    assert found.at.tolist() == [0] * 100
    assert found.word(3).size == 0


@pytest.mark.parametrize("kind", SPANS)
def test_registers_of_any_windows(kind: str) -> None:
    """Every window has the estimate that it has alone, to the last bit."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(0, 9, 200)
        registers = [np.sort(rng.choice(50 if seed % 2 else 4096, size, replace=False)) for size in sizes]
        items = np.stack([np.concatenate(registers), rng.geometric(0.4, sizes.sum()).clip(1, 53)], axis=1)
        at, (first, last) = np.append(0, np.cumsum(sizes)), spans(kind, 200, rng)
        found = np.empty(first.size)
        sketch.estimates(first, last, at, items, found)
        for j in range(first.size):
            alone = np.empty(1)
            sketch.estimates(first[j : j + 1], last[j : j + 1], at, items, alone)
            assert alone[0] == found[j]


@pytest.mark.parametrize("kind", SPANS)
def test_the_largest_number_within_any_windows(kind: str) -> None:
    rng = np.random.default_rng(3)
    numbers, (first, last) = rng.integers(-(2**62), 2**62, 200), spans(kind, 200, rng)
    expected = [numbers[a:b].max() for a, b in zip(first, last, strict=True)]
    assert _largest_within(numbers, first, last).tolist() == expected
    assert _largest_within(numbers, first[:0], last[:0]).size == 0


def mixed(hashed: np.ndarray, word: np.ndarray) -> np.ndarray:
    h = (hashed + np.uint64(0x9E3779B97F4A7C15)) ^ word.view(np.uint64)
    h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ h >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return h ^ h >> np.uint64(31)


@pytest.mark.parametrize("window", WIDE)
def test_many_windows_of_very_many_rows(window: str) -> None:
    """40,000 windows of 20,000 rows each: one combination for each of their rows would take long."""
    rng = np.random.default_rng(5)
    n = 60_000 if window == "rows" else 40_000
    time, v = np.arange(n), rng.integers(0, 2**40, n)
    x = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    table = pa.table({"t": time, "v": v, "x": x, "few": v % 1000})
    sketches = {
        "some": sl.approx_count_distinct("v"),
        "few": sl.approx_count_distinct("few"),
        "q": sl.approx_quantile("x", 0.4),
    }
    aggs = {
        "sample": sl.sample("v", 4),
        "first": sl.collect("v", at_most=3),
        "last": sl.collect("v", at_most=3, keep="last"),
        "top": sl.top_k("x", 2, return_="v"),
        **sketches,
    }
    found = sl.aggregate(table, sl.Spec("t", {"w": WIDE[window]}, aggs))
    assert len(found) >= 40_000
    hashed = mixed(mixed(mixed(np.zeros(n, np.uint64), v), time), np.zeros(n, np.int64)).view(np.int64)
    for row in found.take([*range(0, len(found), 1993), len(found) - 1]).to_pylist():
        a, b = row["window_start"] or 0, row["window_end"]
        if window == "rows":
            b += 1  # the window of the last row's time
        a, b = max(a, 0), min(b, n)
        assert row["sample"] == v[a + np.argsort(hashed[a:b])[:4]].tolist()
        assert row["first"] == v[a:b][:3].tolist()
        assert row["last"] == v[a:b][-3:].tolist()
        assert row["top"] == v[a + np.argsort(-x[a:b])[:2]].tolist()
        (alone,) = sl.aggregate(table[a:b], sl.Spec("t", {"w": sl.whole()}, sketches)).to_pylist()
        assert {name: row[name] for name in sketches} == {name: alone[name] for name in sketches}
