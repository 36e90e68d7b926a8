"""Rows to cells on batches larger than the blocks that kernels work by, held against plain numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl
from slicing.columns.values import TOP, word_floats
from slicing.kernels import combine as kinds
from slicing.kernels.cells import chain_rows
from slicing.kernels.segments import masked_basic_f, segment_basic_f
from slicing.kernels.slice import cut, even_cells, grid_cells, next_edges, pieces, scan
from slicing.query.policy import Policy
from slicing.reducing import reduce
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import _numbered

ROWS = 70_000
AGGS = {
    "n": sl.count(),
    "values": sl.count("x"),
    "total": sl.sum("x"),
    "low": sl.min("x"),
    "high": sl.max("x"),
    "spread": sl.var("x", ddof=0),
    "whole": sl.sum("i"),
    "least": sl.min("i"),
    "most": sl.max("i"),
    "latest": sl.max("at"),
    "chosen": sl.sum("i").where("flag"),
    "first": sl.first("i"),
    "last": sl.last("i"),
}


def rows(disorder: int, nulls: bool, rng: np.random.Generator) -> dict[str, np.ma.MaskedArray]:
    ts = np.sort(rng.integers(0, 1000, ROWS))
    if disorder:
        ts = np.maximum(ts - np.where(rng.random(ROWS) < 0.2, rng.integers(0, disorder, ROWS), 0), 0)
    x = rng.normal(0, 1, ROWS)
    x[rng.random(ROWS) < 0.01] = math.nan
    x[rng.random(ROWS) < 0.01] = -0.0
    columns = {
        "ts": ts,
        "x": x,
        "i": rng.integers(-(2**62), 2**62, ROWS),
        "at": rng.integers(0, 10**9, ROWS),
        "flag": rng.random(ROWS) < 0.5,
    }
    null = [nulls and name != "ts" for name in columns]
    return {
        n: np.ma.masked_array(c, rng.random(ROWS) < 0.3 if m else None)
        for (n, c), m in zip(columns.items(), null, strict=True)
    }


def table(columns: dict[str, np.ma.MaskedArray]) -> pa.Table:
    arrays = {n: pa.array(c.data, mask=np.ma.getmaskarray(c)) for n, c in columns.items()}
    return pa.table(arrays | {"at": arrays["at"].cast(pa.timestamp("us"))})


def answer(group: dict[str, np.ma.MaskedArray]) -> dict[str, object]:
    """The aggregates of some rows, the plain way."""
    x = group["x"].compressed()
    real = x[~np.isnan(x)]
    whole = [int(i) for i in group["i"].compressed()]
    in_time = np.argsort(group["ts"].data, kind="stable")
    ordered = group["i"][in_time].compressed()
    flagged = group["flag"].filled(False)
    chosen = [int(i) for i in group["i"][flagged].compressed()]
    return {
        "n": len(group["ts"]),
        "values": x.size,
        "total": math.fsum(x) if x.size else None,
        "low": real.min() if real.size else math.nan if x.size else None,
        "high": real.max() if real.size else math.nan if x.size else None,
        "spread": x.var() if x.size else None,
        "whole": sum(whole) if whole else None,
        "least": min(whole, default=None),
        "most": max(whole, default=None),
        "latest": group["at"].max() if group["at"].count() else None,
        "chosen": sum(chosen) if chosen else None,
        "first": ordered[0] if ordered.size else None,
        "last": ordered[-1] if ordered.size else None,
    }


@pytest.mark.parametrize("nulls", [False, True], ids=["no nulls", "nulls"])
@pytest.mark.parametrize("keys", [0, 1, 7, 30_000])
@pytest.mark.parametrize("disorder", [0, 30, 1000])
@pytest.mark.parametrize("windows", [(100,), (7,), (30, 45)], ids=str)
def test_every_way_to_reduce_rows(windows: tuple[int, ...], disorder: int, keys: int, nulls: bool) -> None:
    rng = np.random.default_rng([disorder, keys, nulls, *windows])
    columns = rows(disorder, nulls, rng)
    code = rng.integers(0, keys, ROWS) if keys else np.zeros(ROWS, np.int64)
    data = table(columns).append_column("key", pa.array(code)) if keys else table(columns)
    spec = sl.Spec(
        "ts",
        {str(w): sl.tumbling(w) for w in windows},
        AGGS,
        by=["key"] if keys else [],
        watermark=sl.manual(),
        on_overflow="wrap",
    )
    found = sl.aggregate(data, spec)
    found = found.set_column(found.schema.get_field_index("latest"), "latest", found["latest"].cast(pa.int64()))
    assert found["n"].to_numpy().sum() == ROWS * len(windows)
    some = rng.permutation(found.num_rows)[:40]
    for window in found.take(pa.array(some)).to_pylist():
        ts = columns["ts"].data
        mine = (ts >= window["window_start"]) & (ts < window["window_end"]) & (code == window.get("key", 0))
        expected = answer({name: column[mine] for name, column in columns.items()})
        for name, value in expected.items():
            got = window[name]
            if name in ("whole", "chosen") and value is not None:
                value = (value + 2**63) % 2**64 - 2**63
            if isinstance(value, float):
                assert got == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name
            else:
                assert got == value, name


@pytest.mark.parametrize("delay", [0, 15, 60, 900])  # the gap is 20; rows of the last are mostly early for others
@pytest.mark.parametrize("others", [{}, *({"t": sl.tumbling(size, offset=3)} for size in (150, 157, 20))], ids=str)
def test_sessions_are_the_same_from_a_grid_and_from_chained_rows(
    delay: int, others: dict[str, sl.Tumbling], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(delay)
    ts = np.sort(rng.integers(1000, 9000, 20_000))
    ts -= np.where(rng.random(ts.size) < 0.5, rng.integers(0, delay + 1, ts.size), 0)
    data = pa.table({"ts": ts, "key": rng.integers(0, 60, ts.size), "i": rng.integers(-100, 100, ts.size)})
    aggs = {"n": sl.count(), "total": sl.sum("i"), "first": sl.first("i"), "middle": sl.median("i")}
    spec = sl.Spec("ts", {"s": sl.session(20), **others}, aggs, by=["key"], watermark=sl.manual())
    answers = []
    for few, threads in ((0, 1), (10**9, 1), (0, 2), (10**9, 2)):
        op = sl.Operator(spec, policy=Policy(threads=threads, grid_rows=few))
        op.push(data)
        answers.append(op.flush().windows)
    assert all(answer.equals(answers[0]) for answer in answers)
    assert answers[0].num_rows > 1000


@pytest.mark.parametrize("others", [{}, {"t": sl.tumbling(3000)}], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_first_and_last_times_of_keys_are_the_same_of_rows_in_order(
    threads: int, others: dict[str, sl.Tumbling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long slots of many rows, in which some keys have one row alone, the first or the last one, and some none."""
    rng = np.random.default_rng(threads)
    ts = np.sort(rng.integers(0, 9000, 40_000))
    key = np.where(ts < 6000, rng.integers(0, 40, ts.size), rng.integers(20, 60, ts.size))
    key[[0, 17_000, -1]] = 70, 71, 72
    data = pa.table({"ts": ts, "key": key, "i": rng.integers(-100, 100, ts.size)})
    spec = sl.Spec("ts", {"s": sl.session(3100), "near": sl.session(3001), **others}, {"n": sl.count()}, by=["key"])
    seen = []
    span = reduce.span_in_order
    monkeypatch.setattr(reduce, "span_in_order", lambda *of: seen.append(span(*of)))
    found = sl.aggregate(data, spec, threads=threads)
    assert seen
    assert found.equals(sl.aggregate(data.take(rng.permutation(ts.size)), spec, threads=threads))
    for row in found.filter(pc.equal(found["window"], "s")).to_pylist():
        mine = ts[key == row["key"]]
        assert (row["window_start"], row["window_end"], row["n"]) == (mine[0], mine[-1] + 3100, mine.size)


def test_rows_too_far_out_of_order_are_not_chained() -> None:
    group, time = np.array([0, 1, 0, 0, 0, 1, 0], np.int32), np.array([50, 0, 30, 60, 45, 9, 20])
    for alone, wanted in ((2, [0, 1, 2, 0, 0, 1, 3]), (1, None)):
        current, cell, (of, first, last) = np.full(2, -1, np.int32), np.empty(7, np.int32), np.empty((3, 7), np.int64)
        n = chain_rows(group, time, np.int64(10), np.int64(alone), current, cell, of, first, last)
        if wanted is None:
            assert n == -1
        else:
            assert cell.tolist() == wanted
            assert of[:n].tolist() == [0, 1, 0, 0]
            assert list(zip(first[:n].tolist(), last[:n].tolist(), strict=True)) == [
                (45, 60),
                (0, 9),
                (30, 30),
                (20, 20),
            ]


@pytest.mark.parametrize("gap", [1, 3, 100, 5000, 50_000])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_cuts_count_the_times_before_each_edge(gap: int, block: int) -> None:
    rng = np.random.default_rng(gap)
    times = np.sort(rng.integers(-1000, 100_000, 20_000))
    edges = np.arange(-2000, 102_000, gap)
    found = np.empty(edges.size, np.int64)
    assert cut(times, edges, block, found) == times.size
    np.testing.assert_array_equal(found, np.searchsorted(times, edges, "left"))


@pytest.mark.parametrize("rows", [1, 3, 8, 20, 511, 600])
def test_cuts_of_a_fixed_rate_and_where_it_changes(rows: int) -> None:
    slot = np.repeat(np.arange(9000 // rows), rows)
    for gone in [], [4000], [4000, 4001, 5000], list(range(3000, 3000 + 2 * rows)):
        times = np.delete(slot * 100 + np.arange(slot.size) % rows * 100 // rows, gone)
        edges = np.arange(0, 100 * (slot[-1] + 2), 100)
        found = np.empty(edges.size, np.int64)
        assert cut(times, edges, 512, found) == times.size
        np.testing.assert_array_equal(found, np.searchsorted(times, edges, "left"))


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_cuts_of_a_fixed_rate_with_one_row_before_its_edge(rows: int) -> None:
    """All other edges are where they are expected."""
    slot = np.repeat(np.arange(9000 // rows), rows)
    even, edges = slot * 100 + np.arange(slot.size) % rows * 100 // rows, np.arange(0, 100 * (slot[-1] + 2), 100)
    for early in range(1000, 1080):
        times, found = even.copy(), np.empty(edges.size, np.int64)
        times[early * rows] -= 1
        assert cut(times, edges, 2048, found) == times.size
        np.testing.assert_array_equal(found, np.searchsorted(times, edges, "left"))


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 20, 63, 64, 65, 600])
def test_runs_of_any_length_are_reduced(size: int) -> None:
    x = np.random.default_rng(size).normal(0, 1, 40 * size)
    runs = x.reshape(40, size)
    runs[1, -1], runs[2], runs[3, 0], runs[4], runs[5, -1] = math.nan, math.nan, -math.inf, -0.0, math.inf
    first = np.arange(0, x.size, size)
    block = kinds.room(kinds.BASIC_F, 40)
    segment_basic_f(first, first + size, x, x.view(np.int64), block, block.view(np.float64))
    assert (block[:, 0] == size).all()
    np.testing.assert_allclose(block.view(np.float64)[:, 1:3].sum(axis=1), runs.sum(axis=1), atol=1e-9)
    for word, extreme in (3, np.fmin), (4, np.fmax):
        np.testing.assert_array_equal(word_floats(block[:, word]), extreme.reduce(runs, axis=1))


@pytest.mark.parametrize("row", [1, 5, 4095, 4096, 4097, 19_999])
def test_a_cut_notices_a_row_out_of_order(row: int) -> None:
    times = np.arange(20_000)
    times[row] -= 2
    known = cut(times, np.arange(0, 20_001, 50), 4096, np.empty(401, np.int64))
    assert known <= row  # the rows before it are in order
    assert (np.diff(times[:known]) >= 0).all()


@pytest.mark.parametrize("width", [1, 7, 1_000_003, 2**40])
def test_a_row_lies_before_the_first_edge_after_it(width: int) -> None:
    rng = np.random.default_rng(width)
    edges = np.arange(-50, 51) * width + 3
    times = np.concatenate([rng.integers(edges[0] - width, edges[-1], 5000), edges[:-1], edges - 1])
    code = rng.integers(0, 11, times.size)
    expected = np.searchsorted(edges, times, "right")
    by_width, by_edges = np.empty(times.size, np.int64), np.empty(times.size, np.int64)
    even_cells(times, edges[0], np.int64(width), code, np.int64(11), by_width)
    grid_cells(times, edges, code, np.int64(11), by_edges)
    np.testing.assert_array_equal(by_width, expected * 11 + code)
    np.testing.assert_array_equal(by_edges, expected * 11 + code)


@pytest.mark.parametrize("size", [3, 5000, 40_000, 10**6, 2**40])
def test_cells_that_occur_are_numbered_in_order(size: int) -> None:
    cell = np.random.default_rng(5).choice(np.random.default_rng(6).integers(0, size, 3000), 5000)
    expected, of_row, rows = np.unique(cell, return_inverse=True, return_counts=True)
    place, found = _numbered(cell, size)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(place.cell(), of_row)
    assert place.rows is None or (place.rows == rows).all()


def test_pieces_hold_each_row_once() -> None:
    rng = np.random.default_rng(3)
    times = np.arange(10_000) - np.where(rng.random(10_000) < 0.2, rng.integers(0, 3000, 10_000), 0)
    edges = np.arange(-2000, 11_001, 1000)
    found, (lows, highs) = np.empty((1000, 5), np.int64), np.empty((2, 20), np.int64)
    assert not scan(times, 512, lows, highs)
    np.testing.assert_array_equal(lows, [times[p : p + 512].min() for p in range(0, times.size, 512)])
    np.testing.assert_array_equal(highs, [times[p : p + 512].max() for p in range(0, times.size, 512)])
    n = pieces(times.size, 512, lows, highs, edges, found)
    held = np.zeros(times.size, np.int64)
    for first, last, slot, low, high in found[:n].tolist():
        some = times[first:last]
        inside = (some >= low) & (some < high)
        assert (np.searchsorted(edges, some[inside], "right") == slot).all()
        held[first:last] += inside
    assert (held == 1).all()
    assert pieces(times.size, 512, lows, highs, edges, found[: n - 1]) == -1


def test_runs_of_the_same_rows_are_one_pass_and_come_to_what_each_does() -> None:
    rng = np.random.default_rng(4)
    times, x = rng.integers(0, 100, 9000), rng.normal(0, 1, 9000)
    x[rng.random(9000) < 0.01] = math.nan
    x[times // 10 == 7] = math.nan
    x[times // 10 == 3] = math.inf
    runs, slot = [], 0
    for slots in (1, 2, 3, 4, 5, 9, 10):
        runs += [(0, 9000, slot + k, 10 * k, 10 * k + 10) for k in range(slots)]
        slot += slots
    runs += [(0, last, slot + k, ~TOP, TOP) for k, last in enumerate((10, 9000, 100))]  # same start, no masks
    table = np.array(runs)

    def reduced(parts: list[np.ndarray], valid: np.ndarray) -> np.ndarray:
        block = kinds.identity(kinds.BASIC_F, len(runs))
        for part in parts:
            masked_basic_f(part, times, valid, x, x.view(np.int64), block, block.view(np.float64))
        return block

    for valid in np.empty(0, np.uint8), (rng.random(9000) < 0.7).astype(np.uint8):
        together, alone = reduced([table], valid), reduced([run[None] for run in table], valid)
        np.testing.assert_array_equal(together[:, [0, 3, 4]], alone[:, [0, 3, 4]])
        total, expected = (b.view(np.float64)[:, 1:3].sum(axis=1) for b in (together, alone))
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 3, 8, 29, 4096, 5000])
def test_extremes_of_runs_tell_zeros_apart_and_leave_nan_out(size: int) -> None:
    rng = np.random.default_rng(size)
    odd = np.array([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.5, -1.5])
    for _ in range(60):
        x = rng.choice(odd, size, p=rng.dirichlet([0.3] * odd.size))
        times = 1_700_000_000_000_000_000 + rng.integers(0, 40, size)
        valid = rng.random(size) < 0.7
        edges = [~TOP, *(1_700_000_000_000_000_000 + np.array([10, 20, 21, 30])).tolist(), TOP]
        runs = np.array([(0, size, slot, *edges[slot : slot + 2]) for slot in range(5)])
        block = kinds.identity(kinds.BASIC_F, 5)
        masked_basic_f(runs, times, valid.view(np.uint8), x, x.view(np.int64), block, block.view(np.float64))
        masked = [x[valid & (times >= low) & (times < high)] for low, high in itertools.pairwise(edges)]
        whole = np.empty((2, 5), np.int64)
        segment_basic_f(
            np.array([0, size // 2]), np.array([size, size]), x, x.view(np.int64), whole, whole.view(np.float64)
        )
        for held, partial in zip([*masked, x, x[size // 2 :]], [*block, *whole], strict=True):
            words = held[~np.isnan(held)].view(np.int64)
            keys = np.where(words < 0, words ^ TOP, words)
            assert partial[[0, 3, 4]].tolist() == [held.size, keys.min(initial=TOP), keys.max(initial=~TOP)]
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(partial.view(np.float64)[1], held.sum(), atol=1e-9)


@pytest.mark.parametrize("far", [0, 10**15, 4 * 10**18, -4 * 10**18])
@pytest.mark.parametrize("spread", [100, 10**12, 2**60])
def test_the_next_edge_is_the_first_after_a_time(far: int, spread: int) -> None:
    rng = np.random.default_rng([spread, far % 97])
    times = far + rng.integers(-spread // 2, spread // 2, 500)
    every = np.array([1, 7, 1000, 10**9 + 7, 2**40])
    phase, horizon = every // 3, np.array([0, 10, 10**6, 5, 2**41])
    for h in (-(2**61) * 3, far, far + spread // 4):
        found = np.full(times.size, 2**63 - 1)
        next_edges(times, np.int64(h), every, phase, horizon, found)
        expected = [
            min(
                (max(t, h - k) - f) // e * e + e + f
                for e, f, k in zip(*map(np.ndarray.tolist, (every, phase, horizon)), strict=True)
            )
            for t in times.tolist()
        ]
        assert found.tolist() == expected


def test_many_windows_are_read_piece_by_piece() -> None:
    times = np.arange(1000)
    data = pa.table({"ts": times, "x": times / 7, "i": times})
    aggs = {"n": sl.count(), "total": sl.sum("x"), "low": sl.min("i"), "middle": sl.mean("i")}
    spec = sl.Spec("ts", {"w": sl.tumbling(3)}, aggs, watermark=sl.manual())
    whole = sl.aggregate(data, spec)
    op = sl.Operator(spec, policy=Policy(piece=100))
    found = pa.concat_tables([op.push(data).windows, op.flush().windows]).select(whole.column_names)
    assert found.combine_chunks() == whole.combine_chunks()
    totals = [sum(t / 7 for t in range(s, min(s + 3, 1000))) for s in range(0, 1000, 3)]
    assert found["total"].to_pylist() == pytest.approx(totals)


@pytest.mark.parametrize("type", [np.int32, np.int16, np.uint32])
@pytest.mark.parametrize("threads", [1, 2])
def test_narrow_columns_are_made_wider_on_the_way(type: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of 32 bits by the kernel itself; parts of columns, values at the ends of types."""
    ends, size = np.iinfo(type), 600_000
    x = np.random.default_rng(6).integers(ends.min, ends.max, size, type, endpoint=True)
    read, feed = [], Rows.feed
    monkeypatch.setattr(Rows, "feed", lambda self, *given: read.append(given[0]) or feed(self, *given))
    data = pa.table({"t": 1_700_000_000_000_000_000 + np.arange(size), "v": x}).slice(3)
    aggs = {"s": sl.sum("v"), "lo": sl.min("v"), "hi": sl.max("v"), "m": sl.mean("v")}
    found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(1000)}, aggs), threads=threads)
    assert bool(read) == (type is not np.int32)
    values, first = x[3:].astype(np.int64), 1000 - 1_700_000_000_000_000_003 % 1000
    cuts = np.append(0, np.arange(first, size - 3, 1000))
    sums = np.add.reduceat(values, cuts)
    assert found["s"].to_pylist() == sums.tolist()
    assert found["lo"].to_pylist() == np.minimum.reduceat(values, cuts).tolist()
    assert found["hi"].to_pylist() == np.maximum.reduceat(values, cuts).tolist()
    assert found["m"].to_pylist() == (sums / np.diff(cuts, append=size - 3)).tolist()
