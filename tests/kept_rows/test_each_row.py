"""Windows of the last rows of a key, at each of its rows: found group by group, and told by their times."""

import math
import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.closing.spans import LastRows
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
    spans = LastRows(bounds, begins, rows, fewest)
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
