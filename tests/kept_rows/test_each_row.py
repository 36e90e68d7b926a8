"""Windows of the last rows of a key, at each of its rows: found group by group, and told by their times."""

import math
import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.closing.spans import LastOfGroups
from slicing.kernels.attach import BLOCK, ascends
from slicing.query.policy import Policy

SINCE = 1_700_000_000_000_000_000
MANY = 20_000  # rows: more than are answered together


@pytest.mark.parametrize("fewest", [1, 2, 5])
@pytest.mark.parametrize("rows", [5, 7, 2**40])
def test_ranges_are_the_last_rows_of_their_group(rows, fewest):
    chance = random.Random(rows + fewest)
    sizes = [chance.choice([1, 2, 4, 5, 9]) for _ in range(9)]
    bounds = np.cumsum([0, *sizes])
    begins = np.cumsum([0, *(max(size - fewest + 1, 0) for size in sizes)])
    wanted = [(max(low, end - rows), end) for low, high in pairwise(bounds) for end in range(low + fewest, high + 1)]
    spans = LastOfGroups(bounds, begins, rows, fewest)
    assert len(spans) == len(wanted)
    for at in range(len(spans)):
        for end in range(at + 1, len(spans) + 1):
            assert list(zip(*spans.of(at, end), strict=True)) == wanted[at:end]


def table_of(rng: np.random.Generator, size: int, scale: int) -> pa.Table:
    return pa.table(
        {
            "t": SINCE + np.sort(rng.integers(0, size, size)) * 1_000,
            "k": rng.integers(0, 7, size),
            "i": pa.array(rng.integers(-scale, scale, size), mask=rng.random(size) < 0.1),
            "f": pa.array(rng.normal(size=size) * 1e9, mask=rng.random(size) < 0.1),
        }
    )


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("scale", [2**10, 2**53])  # with the second one, sums of all rows might not fit
def test_numbers_of_a_keys_last_rows(scale, least):
    table = table_of(np.random.default_rng(scale + least), MANY, scale)
    aggs = {"n": sl.count(), "c": sl.count("i"), "s": sl.sum("i"), "m": sl.mean("f"), "hi": sl.max("f")}
    found = sl.attach(table, sl.Spec("t", {"w": sl.rows(5, every=1)}, aggs, by="k"), min_rows=least).to_pylist()
    last: dict[int, list[dict]] = {}
    for row in found:
        own = last.setdefault(row["k"], [])
        own.append(row)
        own[:] = own[-5:]
        i, f = ([each[name] for each in own if each[name] is not None] for name in "if")
        if len(own) < least:
            assert {row[name] for name in aggs} == {None}
            continue
        assert (row["n"], row["c"], row["s"]) == (len(own), len(i), sum(i) if i else None)
        assert row["hi"] == (max(f) if f else None)
        mean = float(sum(map(Fraction, f)) / len(f)) if f else None
        assert row["m"] == mean or math.isclose(row["m"], mean, rel_tol=1e-9, abs_tol=1e-6)


PAST = [
    (sl.count("f"), "f", len),
    (sl.mean("f"), "f", lambda f: sum(f) / len(f) if f else None),
    (sl.sum("i"), "i", lambda i: sum(i) if i else None),
    (sl.min("f"), "f", lambda f: min(f, default=None)),
    (sl.first("f"), "f", lambda f: f[0] if f else None),
    (sl.last("f"), "f", lambda f: f[-1] if f else None),
    (sl.last("i"), "i", lambda i: i[-1] if i else None),
    (sl.first("h"), "h", lambda h: h[0] if h else None),
    (sl.count_distinct("h"), "h", lambda h: len(set(h))),
]
BEFORE = ["f", "i", "h", "s"]


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize(("rows", "size"), [(2, MANY), (5, MANY), (2**40, 1200)])
def test_nulls_among_the_last_rows(rows, size, keys):
    """Each aggregate alone, so that it is answered in its own way."""
    rng = np.random.default_rng(rows + keys)
    table = pa.table(
        {
            "t": SINCE + np.sort(rng.integers(0, size, size)),
            "k": rng.integers(0, keys, size),
            "f": pa.array(rng.integers(-99, 99, size) / 2, mask=rng.random(size) < 0.3),
            "i": pa.array(rng.integers(-(2**40), 2**40, size), mask=rng.random(size) < 0.3),
            "h": pa.array(rng.integers(-9, 9, size).astype(np.int16), mask=rng.random(size) < 0.3),
            "s": pa.array([None if place % 3 == 0 else f"text {place % 50}" for place in rng.permutation(size)]),
        }
    )
    given, own = table.to_pylist(), dict[int, list[dict]]()
    windows = []
    for row in given:
        past = own.setdefault(row["k"], [])
        past.append(row)
        windows.append(past[-rows:] if rows < 9 else list(past))

    def found(agg) -> list:
        spec = sl.Spec("t", {"w": sl.rows(rows, every=1)}, {"a": agg}, by=["k"] if keys > 1 else [])
        return sl.attach(table, spec, min_rows=1)["a"].to_pylist()

    for agg, column, wanted in PAST:
        values = [[row[column] for row in own if row[column] is not None] for own in windows]
        assert found(agg) == list(map(wanted, values)), agg
    for column in BEFORE:
        assert found(sl.argmin("t", column)) == [own[0][column] for own in windows], column
        latest = [next(row for row in own if row["t"] == own[-1]["t"]) for own in windows]
        assert found(sl.argmax("t", column)) == [row[column] for row in latest], column
    positive = [[row for row in own if row["i"] is not None and row["i"] > 0][:1] for own in windows]
    assert found(sl.argmin("t", "f").where(sl.col("i") > 0)) == [own[0]["f"] if own else None for own in positive]


def test_first_floats_of_a_dictionary():
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1]), pa.array([-0.5, 2.5]))
    table = pa.table({"t": [SINCE, SINCE + 1, SINCE + 2, SINCE + 3], "v": values})
    for agg, wanted in ((sl.first("v"), [2.5, 2.5, 2.5, -0.5]), (sl.last("v"), [2.5, -0.5, -0.5, 2.5])):
        spec = sl.Spec("t", {"w": sl.rows(3, every=1)}, {"a": agg})
        assert sl.attach(table, spec, min_rows=1)["a"].to_pylist() == wanted


@pytest.mark.parametrize("case", range(20))
def test_a_stream_of_any_order_has_the_same_windows(case):
    """Windows of rows that are still awaited are left for later pushes, those before the watermark are not repeated."""
    rng = np.random.default_rng(case)
    table = table_of(rng, 300, 100)
    windows = {"w": sl.rows(int(rng.integers(1, 6)), every=1)}
    spec = sl.Spec("t", windows, {"s": sl.sum("i"), "lo": sl.min("f")}, by="k")
    cuts = np.unique(rng.integers(0, 300, 5))
    found = []
    for policy in (Policy(), Policy(ordered=False, ranks=False)):
        op = sl.Operator(spec, policy=policy)
        parts = [op.push(table.slice(a, b - a)) for a, b in zip([0, *cuts], [*cuts, 300], strict=True)]
        rows = pa.concat_tables([part.windows for part in (*parts, op.flush())]).drop_columns(
            ["rank_start", "rank_end"]
        )
        found.append(sorted(map(repr, rows.to_pylist())))
    assert found[0] == found[1]


def test_a_sum_that_does_not_fit_is_told_by_the_times_of_its_keys_rows():
    values = [1, 1, 1, 2**62, 1, 2**62]
    table = pa.table({"t": [SINCE + at for at in range(6)], "k": list("ababab"), "v": values})
    spec = sl.Spec("t", {"w": sl.rows(2, every=1)}, {"s": sl.sum("v")}, by="k")
    with pytest.raises(OverflowError, match=f"in window 'w' from {SINCE + 3} to {SINCE + 5}; use on_overflow"):
        sl.attach(table, spec, min_rows=1)


def test_three_values_of_which_two_do_not_fit():
    table = pa.table({"t": [SINCE, SINCE + 1, SINCE + 2], "v": [2**62, 2**62, 1]})
    with pytest.raises(OverflowError, match="use on_overflow"):
        sl.attach(table, sl.Spec("t", {"w": sl.rows(2, every=1)}, {"s": sl.sum("v")}), min_rows=1)


@pytest.mark.parametrize("size", [0, 1, 2, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_windows_ascend_by_key_and_begin(size):
    code = np.repeat(np.arange(3, dtype=np.int32), size)[::3].copy()
    begin = SINCE + np.arange(code.size) - 1000 * code
    assert ascends(code, begin)
    one = np.empty(0, np.int32)
    assert ascends(one, begin) == bool((begin[1:] >= begin[:-1]).all())
    for at in range(1, begin.size, max(begin.size // 7, 1)):
        worse = begin.copy()
        worse[at] = worse[at - 1] - 1
        assert ascends(code, worse) == (code[at] != code[at - 1])
        assert not ascends(one, worse)
        lower = code.copy()
        lower[at:] -= 3
        assert not ascends(lower, begin)
