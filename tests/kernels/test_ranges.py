"""The kernels of windows that rows decide, against what they say in a line of numpy."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.columns.order import order_of_most
from slicing.columns.values import MANY_WORDS, TOP, float_words, word_floats
from slicing.kernels.ranges import least_of, moments_at_each, moments_of, numbers_at_each, running
from slicing.kernels.rows import around, before_edges, counted, recent
from slicing.system.arrays import read_only

ROWS = 5000
STEPS = {
    "steady": lambda chance: np.full(ROWS, 10),
    "nearly steady": lambda chance: np.diff(np.arange(ROWS + 1) * 10 + chance.integers(0, 10, ROWS + 1)),
    "at random": lambda chance: chance.exponential(10, ROWS).astype(np.int64),
    "alike": lambda chance: chance.integers(0, 2, ROWS),
    "now and then": lambda chance: np.where(chance.random(ROWS) < 0.002, 3000, 10),
}


@pytest.mark.parametrize("groups", [1, 40])
@pytest.mark.parametrize("reach", [1, 60, 1000, 20_000])
@pytest.mark.parametrize("name", STEPS)
def test_the_rows_in_reach_of_each(name, reach, groups):
    time = np.cumsum(STEPS[name](np.random.default_rng(1))).astype(np.int64)
    bounds = np.linspace(0, ROWS, groups + 1).astype(np.int64)
    first, last, start = np.empty((3, ROWS), np.int64)
    recent(bounds, time, np.int64(reach), np.int64(0), first, last, start)
    for a, b in pairwise(bounds):
        here = time[a:b]
        np.testing.assert_array_equal(first[a:b], a + np.searchsorted(here, here - reach, "right"))
        np.testing.assert_array_equal(last[a:b], a + np.searchsorted(here, here, "right"))
    np.testing.assert_array_equal(start, time[first])
    for begin, size in ((0, 1), (1, 2000), (1999, 70), (4321, ROWS - 4321)):  # some of them alone
        some = np.empty((3, size), np.int64)
        recent(bounds, time, np.int64(reach), np.int64(begin), *some)
        np.testing.assert_array_equal(some, np.stack([first, last, start])[:, begin : begin + size])


@pytest.mark.parametrize("groups", [1, 40])
@pytest.mark.parametrize(("back", "ahead"), [(0, 0), (10, 25), (-7, 60), (1000, -300), (5, -5)])
@pytest.mark.parametrize("name", STEPS)
def test_the_rows_around_each(name, back, ahead, groups):
    time = np.cumsum(STEPS[name](np.random.default_rng(1))).astype(np.int64) + 1_700_000_000_000_000_000
    bounds = np.linspace(0, ROWS, groups + 1).astype(np.int64)
    first, last, start = np.empty((3, ROWS), np.int64)
    around(bounds, time, np.int64(back), np.int64(ahead), np.int64(0), first, last, start)
    for a, b in pairwise(bounds):
        here = time[a:b]
        np.testing.assert_array_equal(first[a:b], a + np.searchsorted(here, here - back, "left"))
        np.testing.assert_array_equal(last[a:b], a + np.searchsorted(here, here + ahead, "right"))
    held = first < last
    np.testing.assert_array_equal(start[held], np.minimum(time, time[np.minimum(first, ROWS - 1)])[held])
    some = np.empty((3, ROWS - 1999), np.int64)
    around(bounds, time, np.int64(back), np.int64(ahead), np.int64(1999), *some)
    np.testing.assert_array_equal(some, np.stack([first, last, start])[:, 1999:])


@pytest.mark.parametrize("every", [1, 7, 1000, 10**9])
@pytest.mark.parametrize("name", STEPS)
def test_the_rows_before_edges(name, every):
    time = np.cumsum(STEPS[name](np.random.default_rng(1))).astype(np.int64) - 20_000
    bounds = np.array([0, 1, 1200, ROWS])
    out = np.empty(ROWS, np.int64)
    edge = np.concatenate([time[a:b] // every + k * 10**12 for k, (a, b) in enumerate(pairwise(bounds))])
    expected = np.append(np.flatnonzero(np.diff(edge)) + 1, ROWS)
    np.testing.assert_array_equal(out[: before_edges(bounds, time, np.int64(every), out)], expected)


@pytest.mark.parametrize("delay", [0, 3, 500])
@pytest.mark.parametrize("share", [0.001, 0.2, 0.45, 1])
@pytest.mark.parametrize("name", STEPS)
def test_the_order_of_rows_that_come_late(name, share, delay):
    chance = np.random.default_rng(3)
    time = np.cumsum(STEPS[name](chance)).astype(np.int64)
    late = np.where(chance.random(ROWS) < share, chance.integers(0, delay + 1, ROWS), 0)
    time = time - 10 * late
    order, ordered = order_of_most(time)
    np.testing.assert_array_equal(order, np.argsort(time, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(time))


VALUES = {
    "at random": lambda chance: chance.integers(-(2**62), 2**62, ROWS),
    "few": lambda chance: chance.integers(0, 3, ROWS),
    "rising": lambda chance: np.arange(ROWS),
    "falling": lambda chance: -np.arange(ROWS),
    "a walk": lambda chance: np.cumsum(chance.integers(-9, 10, ROWS)),
}


@pytest.mark.parametrize("width", [1, 7, 64, 700, ROWS])
@pytest.mark.parametrize("most", [False, True])
@pytest.mark.parametrize("form", ["numbers", "floats", "keys of floats"])
@pytest.mark.parametrize("name", VALUES)
def test_the_least_of_ranges(name, form, most, width):
    """And the most: of ranges that move forward by a row or by several, of the same again, and of some that go back."""
    chance = np.random.default_rng(2)
    values = x = VALUES[name](chance).astype(np.int64)
    if form != "numbers":
        values = x / 7.0
        values[chance.random(ROWS) < 0.3] = np.nan
        values[values == 0] = chance.choice([0.0, -0.0])
        x = values.view(np.int64)
    flip, zero = np.int64(-1 if most else 0), np.int64(0)
    fold, unfold = (TOP if form in forms else zero for forms in (("floats", "keys of floats"), ("floats",)))
    forward = [np.arange(ROWS) - width + 1, np.arange(0, ROWS, 3), np.repeat(np.arange(0, ROWS, 50), 70)]
    there_and_back = np.concatenate([np.arange(300), np.arange(500, 100, -7), np.arange(90, ROWS)])
    for begin in (*forward, there_and_back, chance.integers(0, ROWS, 300)):
        first, last = np.maximum(begin, 0), np.clip(begin + width, 1, ROWS)
        out, in_order = np.empty(first.size, np.int64), bool((np.diff(first) >= 0).all() and (np.diff(last) >= 0).all())
        least_of(x, fold, flip, unfold, first, last, in_order, np.empty(ROWS, np.int64), out)
        reduced = {"numbers": (np.minimum, np.maximum)}.get(form, (np.fmin, np.fmax))[most]  # NaN only where all are
        asked, at = np.unique(np.stack([first, last], axis=1), axis=0, return_inverse=True)
        expected = reduced.reduceat(np.append(values, values[:1]), asked.ravel())[::2][at.reshape(-1)]
        found = {"floats": out.view(np.float64), "keys of floats": word_floats(out)}.get(form, out)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("width", [1, 2, 7, 700, ROWS - 1, ROWS])
def test_the_sums_of_so_many_rows_from_each_row_on(width, mean):
    """Of numbers of all sizes: errors of rounding are added, too. What is not finite leaves no trace."""
    chance = np.random.default_rng(5)
    x = chance.normal(size=ROWS) * 10.0 ** chance.integers(-12, 13, ROWS)
    x[[100, 1200, 1201, 3000]] = np.inf, np.inf, -np.inf, np.nan
    out = np.empty(ROWS - width + 1)
    numbers_at_each(read_only(x), np.int64(width), np.empty((4, width)), mean, out)
    some = range(0, out.size, 37)
    expected = np.array([summed_up(x[a : a + width]) for a in some]) / (width if mean else 1)
    np.testing.assert_allclose(out[::37], expected, rtol=1e-15)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("rows", "more"), [(1, 1), (3, 1), (1, 50), (700, 9), (ROWS + 5, 2)])
def test_the_sums_of_ever_more_rows(rows, more, mean):
    chance = np.random.default_rng(6)
    x = chance.normal(size=ROWS) * 10.0 ** chance.integers(-12, 13, ROWS)
    ends = np.minimum(np.arange(rows, ROWS + more, more), ROWS)[:2000]
    out = np.empty(ends.size)
    running(read_only(x), np.int64(rows), np.int64(more), mean, out)
    expected = np.array([math.fsum(x[:end]) for end in ends]) / (ends if mean else 1)
    np.testing.assert_allclose(out, expected, rtol=1e-15)


@pytest.mark.parametrize("width", [1, 2, 7, 700, ROWS - 1, ROWS])
def test_the_squared_deviations_of_so_many_rows_from_each_row_on(width):
    """A value that leaves leaves no trace, however large it is; not even one whose square is too large."""
    chance = np.random.default_rng(7)
    x = chance.normal(size=ROWS) + np.where(np.arange(ROWS) // 300 % 2, 1e9, 0)
    x[[100, 3000, 3001]] = np.inf, np.nan, 1e300
    out = np.empty(ROWS - width + 1)
    moments_at_each(read_only(x), np.int64(width), np.empty((4, width)), out)
    for begin in range(0, out.size, 37):
        some = x[begin : begin + width]
        with np.errstate(invalid="ignore", over="ignore"):
            off = some - (math.fsum(some) / width if np.isfinite(some).all() else np.nan)
            expected = (off * off).sum()
        np.testing.assert_allclose(out[begin], expected, rtol=1e-6)


def test_the_moments_of_ever_more_groups_that_begin_without_values():
    """Nor do they lose digits: they are counted from the first value."""
    chance = np.random.default_rng(8)
    x, count = chance.normal(size=ROWS) + 1e9, (np.arange(ROWS) >= 3).astype(np.float64)
    first, last = np.zeros(ROWS, np.int64), np.arange(1, ROWS + 1)
    mean, squares = np.empty((2, ROWS))
    moments_of(count, x, np.zeros(ROWS), first, last, np.empty((3, ROWS)), mean, squares)
    for end in (5, 700, ROWS):
        some = x[3:end] - 1e9  # exact
        np.testing.assert_allclose(squares[end - 1], ((some - some.mean()) ** 2).sum(), rtol=1e-12)


def summed_up(values: np.ndarray) -> float:
    if np.isfinite(values).all():
        return math.fsum(values)
    with np.errstate(invalid="ignore"):
        return values.sum()


def grouped(groups: list[np.ndarray]) -> list[np.ndarray]:
    """The count, mean and squared deviations of each group."""
    found = [(g.size, g.mean(), ((g - g.mean()) ** 2).sum()) if g.size else (0, 7, 7) for g in groups]  # 7: not read
    return list(np.array(found, np.float64).T.copy())


def moments(inside: np.ndarray) -> tuple:
    """How many there are, whether all are finite, the largest, the mean and the squared deviations."""
    if not inside.size:
        return 0, True, 0, 0, 0
    with np.errstate(invalid="ignore"):
        mean = inside.mean()
        return inside.size, np.isfinite(inside).all(), abs(inside).max(), mean, ((inside - mean) ** 2).sum()


@pytest.mark.parametrize("width", [1, 7, 64, 700])
@pytest.mark.parametrize("form", ["values", "groups", "some"])
def test_the_moments_of_ranges(form, width):
    """A value that leaves a range leaves no trace, however large it is."""
    chance = np.random.default_rng(4)
    sizes = {"values": np.ones(ROWS), "groups": chance.integers(1, 4, ROWS), "some": chance.integers(0, 3, ROWS)}[form]
    ends = np.cumsum(sizes.astype(np.int64))
    values = chance.normal(size=ends[-1]) + np.where(np.arange(ends[-1]) // 300 % 2, 1e9, 0)
    values[chance.integers(0, values.size, 5)] = 1e160, -1e150, 1e100, np.inf, np.nan
    with np.errstate(invalid="ignore", over="ignore"):
        count, means, squares = grouped(np.split(values, ends[:-1]))
    if form == "values":
        count, squares = np.empty((2, 0))
    forward = [np.arange(ROWS) - width + 1, np.arange(0, ROWS, 3), np.repeat(np.arange(0, ROWS, 50), 70)]
    wanted = cache(lambda a, b: moments(values[ends[a - 1] if a else 0 : ends[b - 1]].astype(np.longdouble)))
    for begin in (*forward, np.concatenate([np.arange(300), np.arange(500, 100, -7)]), chance.integers(0, ROWS, 300)):
        first, last = np.maximum(begin, 0), np.clip(begin + width, 1, ROWS)
        found = np.empty((2, first.size))
        moments_of(count, means, squares, first, last, np.empty((3, ROWS)), *found)
        for a, b, its_mean, its_squares in zip(first, last, *found, strict=True):
            size, finite, most, *expected = wanted(a, b)
            if not size:
                continue
            if not finite:
                assert not np.isfinite([its_mean, its_squares]).any()
            elif most < 1e101:  # squares of what is larger may not fit a float
                mean, squares_of = map(float, expected)
                assert abs(its_mean - mean) <= max(1e-12 * abs(mean), 1e-6)
                assert abs(its_squares - squares_of) <= max(1e-9 * squares_of, 1e-12 * mean**2)


@pytest.mark.parametrize("large", [1e300, 1e15, 1e9])
@pytest.mark.parametrize("window", [sl.rows(40, every=1), sl.per_row(40), sl.sliding(40, every=1)], ids=repr)
@pytest.mark.parametrize("by_flag", [False, True])
def test_large_values_before_nulls_leave_no_trace(window, large, by_flag):
    chance = np.random.default_rng(8)
    values = chance.normal(size=1500)
    counts = np.ones(1500, np.bool_)
    for at in (0, 300, 700, 1100):
        values[at : at + 5] = large
        counts[at + 5 : at + 45 + 3 * (at // 300)] = False
    counts[chance.integers(1200, 1500, 200)] = False
    table = pa.table({"t": range(1500), "v": values if by_flag else pa.array(values, mask=~counts), "ok": counts})
    agg = sl.var("v", ddof=0).where("ok") if by_flag else sl.var("v", ddof=0)
    found = sl.aggregate(table, sl.Spec("t", {"w": window}, {"x": agg, "all": sl.count()}))
    last = found["window_end"].to_numpy() + (0 if isinstance(window, type(sl.sliding(2, every=1))) else 1)
    for end, x in zip(last.tolist(), found["x"].to_pylist(), strict=True):
        some = slice(max(end - 40, 0), end)
        inside = values[some][counts[some]].astype(np.longdouble)
        assert (x is None) == (not inside.size)
        if x is not None and (inside < large).all():
            assert x == pytest.approx(float(inside.var()), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize(("mean", "deviation"), [(1e9, 1e-3), (1e12, 1e-2), (-1e15, 1.0)])
def test_deviations_beside_large_means(mean, deviation):
    values = mean + deviation * np.random.default_rng(5).normal(size=3 * ROWS)
    first = np.arange(0, 2 * ROWS)
    last, found = first + ROWS, np.empty((2, first.size))
    none = np.empty(0)
    moments_of(none, values, none, first, last, np.empty((3, values.size)), *found)
    table = pa.table({"t": np.arange(values.size), "v": values})
    tumbling = sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(ROWS)}, {"x": sl.var("v", ddof=0)}))["x"].to_pylist()
    for a in range(0, first.size, 250):
        expected = float(np.var(values[a : a + ROWS].astype(np.longdouble)))
        assert found[1, a] / ROWS == pytest.approx(expected, rel=1e-6)
        if a % ROWS == 0:
            assert tumbling[a // ROWS] == pytest.approx(expected, rel=1e-6)


def test_many_keys_are_the_floats_that_few_are():
    chance = np.random.default_rng(7)
    floats = chance.normal(size=MANY_WORDS) * 10.0 ** chance.integers(-300, 300, MANY_WORDS)
    floats[:7] = 0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324
    floats[7:9] = np.array([-1, (1 << 63) - 1]).view(np.float64)  # other NaN
    words = float_words(floats)
    np.testing.assert_array_equal(words, np.concatenate([float_words(half) for half in np.split(floats, 2)]))
    many, few = word_floats(words), np.concatenate([word_floats(half) for half in np.split(words, 2)])
    np.testing.assert_array_equal(many.view(np.int64), few.view(np.int64))
    np.testing.assert_array_equal(many, floats)


def windows_by_rank(cells: list[tuple[int, int]], first_rank: int, n: int, every: int, fewest: int) -> list[tuple]:
    """The windows of one group's cells (rank of the first row, and after the last one): first cell, last + 1, rank."""
    starts, ends = ({rank: at for at, rank in enumerate(ranks)} for ranks in zip(*cells, strict=True))
    found = []
    for begin in range(0 if first_rank else fewest - n, cells[-1][1], every):
        from_row, end = max(begin, 0), begin + n
        if (begin >= first_rank or (begin < 0 and not first_rank)) and end in ends:
            found.append((starts[from_row], ends[end] + 1, begin))
    return found


@pytest.mark.parametrize("fewest", ["all", "some"])
@pytest.mark.parametrize("cells", ["rows", "cells"])
def test_windows_that_are_complete_here(cells, fewest):
    """Some rows have been evicted before, some cells lie across ends of windows; none lies across a begin."""
    chance, total = np.random.default_rng(3), 0
    for _ in range(300):
        n, every = int(chance.integers(1, 9)), int(chance.integers(1, 9))
        least = n
        if fewest == "some":
            least, every = int(chance.integers(1, n + 1)), 1
        base, held, expected = [], [], []
        for group in range(int(chance.integers(1, 4))):
            first, rows = int(chance.choice([0, 0, 1, 3, 10])), int(chance.integers(1, 30))
            edges = set(range(first, first + rows))
            if cells == "cells" and every > 1:
                begins = set(range(0, first + rows, every))
                edges = {first, *(edges & begins), *(edge for edge in edges if chance.random() < 0.6)}
            ranks = [*sorted(edges), first + rows]
            made = list(pairwise(ranks))
            before = sum(map(len, held))
            for a, b, begin in windows_by_rank(made, first, n, every, least):
                expected.append((before + a, before + b, group, begin))
            base.append(first)
            held.append(made)
        bounds = np.cumsum([0, *map(len, held)])
        sizes = np.array([b - a for made in held for a, b in made])
        since = np.arange(sizes.size) * 10
        time = since + 5
        columns = np.empty((6, sizes.size), np.int64)
        one_each = cells == "rows"
        found = counted(
            *(bounds, np.array(base), np.empty(0, np.int64) if one_each else sizes, read_only(since), read_only(time)),
            *(np.int64(n), np.int64(every), np.int64(least), *columns),
        )
        first, last, group, start, end, low = columns[:, :found]
        assert list(zip(*map(np.ndarray.tolist, (first, last, group, low)), strict=True)) == expected
        assert start.tolist() == since[first].tolist() and end.tolist() == time[last - 1].tolist()
        total += found
    assert total > 1000
