"""The arithmetic of many windows' edges at once against each window's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.blocks import identity
from slicing.cells.table import Cells
from slicing.closing.answer import answer
from slicing.closing.ways import Closing
from slicing.columns.keys import KeyTable
from slicing.kernels.slice import MANY_EDGES, list_edges
from slicing.query.plan import Plan
from slicing.storage.store import Store
from slicing.windows.bounds import BEGIN, LIMIT, BoundCumulate, BoundPeriodic
from slicing.windows.edges import EdgeSet

NONE = np.empty(0, np.int64)


def windows(rng: np.random.Generator, count: int) -> list[BoundPeriodic]:
    size = rng.integers(1, 60, count).tolist()
    every = [int(rng.choice([s, rng.integers(1, 60)])) for s in size]
    return [BoundPeriodic(s, e, int(rng.integers(0, 9))) for s, e in zip(size, every, strict=True)]


def due_by_definition(bounds: list[BoundPeriodic], ends: np.ndarray, after: int, until: int) -> list[tuple]:
    found = []
    for type, bound in enumerate(bounds):
        for end in bound.ends_in(np.array([after]), np.array([until])).tolist():
            low, high = np.searchsorted(ends, [end - bound.size, end], "right").tolist()
            if low < high:
                found.append((end, type, end - bound.size, low, high))
    return sorted(found)


@pytest.mark.parametrize("seed", range(20))
def test_due_windows_come_by_end_and_type(seed: int) -> None:
    """Also where a stream has ended, hundreds of windows hold the same last slices, and with an index of slices."""
    rng = np.random.default_rng(seed)
    bounds = windows(rng, int(rng.choice([1, 3, 200])))
    edges = EdgeSet(bounds)
    for after, until in ((40, 60), (100, 1000), (BEGIN, 3000)):
        stop = int(rng.choice([50, 300, 2000]))
        rows = np.sort(rng.integers(0, stop, int(rng.choice([1, 20, 3000]))))
        ends = np.unique(edges.next_live(rows, BEGIN))
        found = edges.due(ends, max(after, -100), until)
        assert list(zip(found.end, found.type, found.start, found.low, found.high, strict=True)) == due_by_definition(
            bounds, ends, max(after, -100), until
        )


@pytest.mark.parametrize("seed", range(20))
def test_as_many_windows_are_due_as_are_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = int(rng.integers(1, 20))
    for bound in (*windows(rng, 5), BoundCumulate(every * int(rng.integers(1, 9)), every, int(rng.integers(0, 99)))):
        edges = EdgeSet([bound])
        ends = np.unique(edges.next_live(rng.integers(0, 1000, int(rng.choice([1, 20, 300]))), BEGIN))
        for after, until in ((40, 60), (100, 800), (BEGIN, 3000)):
            due = edges.due(ends, after, until)
            assert bound.count_due(ends, after, until) == due.end.size
            holding = [np.count_nonzero((due.low <= at) & (at < due.high)) for at in range(ends.size)]
            assert max(holding) <= bound.overlap


@pytest.mark.parametrize("ends", [[7], [7, 17, 27], [7, 27], [7, 17, 37, 47], [8, 18], [7, 12, 27], [12, 17]], ids=str)
@pytest.mark.parametrize("bound", [(10, 10, 7), (20, 10, 7), (10, 20, 7), (5, 5, 2)], ids=str)
def test_slices_that_are_windows_are_the_windows_due(bound: tuple[int, int, int], ends: list[int]) -> None:
    edges, slices = EdgeSet([BoundPeriodic(*bound)]), np.array(ends)
    whole = bound[0] == bound[1] and all((end - bound[2]) % bound[0] == 0 for end in ends)
    dense = ends == list(range(ends[0], ends[-1] + 1, bound[0]))
    assert edges.are_windows(slices, False) == (whole and dense)
    assert edges.are_windows(slices, True) == whole
    if whole:
        due = edges.due(slices, -100, 100)
        assert due.end.tolist() == ends and due.low.tolist() == list(range(len(ends)))
        assert (due.high == due.low + 1).all() and (due.start == due.end - bound[0]).all()
    assert not edges.are_windows(np.append(slices, ends[-1]), True)  # a slice of two runs
    assert not EdgeSet([BoundPeriodic(*bound), BoundPeriodic(100, 100, 0)]).are_windows(slices, True)
    assert not edges.are_windows(slices[:0], True)


def test_cells_that_are_windows_are_answers_as_they_are() -> None:
    aggs = {"n": sl.count(), "total": sl.sum("x"), "low": sl.min("i")}
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64(), "i": pa.int64()})
    plan = Plan(sl.Spec("ts", {"w": sl.tumbling(10)}, aggs), schema)
    meta = np.stack([np.arange(10, 110, 10), np.zeros(10, np.int64), np.ones(10, np.int64)], axis=1)
    cells = Cells(meta, tuple(identity(lane, 10) for lane in plan.lanes))
    found = answer(Closing(plan, Store(plan, (cells,)), None, 30, 90))
    assert found.end.tolist() == list(range(40, 91, 10)) and (found.start == found.end - 10).all() and found.ordered
    assert all(np.shares_memory(a, b) and len(a) == 6 for a, b in zip(found.blocks, cells.blocks, strict=True))
    gap = cells.take(np.delete(np.arange(10), 5))
    assert answer(Closing(plan, Store(plan, (gap,)), None, 30, 90)).end.tolist() == [40, 50, 70, 80, 90]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_cells_of_keys_that_are_windows_come_in_the_order_of_the_keys(share: float) -> None:
    """From one run or from two in turn, of all keys or of few, with windows between them that are not there."""
    rng = np.random.default_rng(int(10 * share))
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "i": pa.int64()})
    plan = Plan(sl.Spec("ts", {"w": sl.tumbling(10)}, {"n": sl.count(), "s": sl.sum("i")}, by=["k"]), schema)
    keys = KeyTable([pa.int64()])
    order = rng.permutation(40)
    keys.encode([pa.array(order)])
    held = np.flatnonzero(rng.random(5 * 40) < share)
    meta = np.stack([held // 40 * 10 + 10, held % 40, np.ones(held.size, np.int64)], axis=1)
    cells = Cells(meta, tuple(identity(lane, held.size) for lane in plan.lanes))
    for block in cells.blocks:
        block[:, 0] = meta[:, 0] * 100 + meta[:, 1]  # which cell it was
    cut = int(np.searchsorted(meta[:, 0], 30))
    for runs in ((cells,), (cells.take(slice(0, cut)), cells.take(slice(cut, None)))):
        for until, ends in ((40, (20, 30, 40)), (20, (20,)), (10, ())):
            found = answer(Closing(plan, Store(plan, runs), keys, 10, until))
            wanted = [(end, int(order[code]), code) for end, code, _ in meta.tolist() if end in ends]
            wanted.sort()
            assert list(zip(found.end.tolist(), order[found.code].tolist(), found.code.tolist(), strict=True)) == wanted
            assert found.ordered and (found.start == found.end - 10).all()
            for block in found.whole():
                assert block[:, 0].tolist() == [end * 100 + code for end, _, code in wanted]


@pytest.mark.parametrize("seed", range(20))
def test_edges_of_a_span_are_those_after_each_of_its_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = windows(rng, int(rng.choice([1, 3, 30])))
    edges = EdgeSet(bounds)
    for low in rng.integers(-500, 500, 20).tolist():
        high = low + int(rng.choice([1, 5, 400]))
        times = np.arange(low, high + 1)
        after = [(times - p.phase) // p.every * p.every + p.every + p.phase for b in bounds for p in b.progressions]
        next_edges = np.minimum.reduce(after)
        assert edges.between(low, high, times[:0], 0, 1 << 20).tolist() == np.unique(next_edges).tolist()
        assert edges.any_between(low, high) == (next_edges[0] <= high)
        assert not edges.between(low, low + 10**15, times[:0], 0, 1000).size


@pytest.mark.parametrize("seed", range(5))
def test_edges_are_listed_ahead_of_a_stream(seed: int) -> None:
    """Span by span as pushes ask, sometimes of rows before the last ones: every edge once, and the next one."""
    rng = np.random.default_rng(seed)
    bounds = windows(rng, 4)
    edges, low = EdgeSet(bounds, listed=20), -300
    every = np.unique([e for p in edges.cuts for e in range(p.phase - 100 * p.every, 2000, p.every)])
    asked: list[object] = []
    listed, edges._listed = edges._listed, lambda *given: asked.append(given) or listed(*given)  # type: ignore
    while low < 1000:
        high = low + int(rng.integers(0, 12))
        first, last = np.searchsorted(every, [low, high], "right")
        assert edges.between(low, high, NONE, 0, 1000).tolist() == every[first : last + 1].tolist()
        low = int(rng.choice([high, high, high + 1, high - 5]))
    assert 0 < len(asked) < 200


@pytest.mark.parametrize("count", [1, 20, 60, 300])
def test_the_earliest_live_window_of_all_types(count: int) -> None:
    rng = np.random.default_rng(count)
    bounds = windows(rng, count)
    edges = EdgeSet(bounds)
    for h in rng.integers(-500, 500, 100).tolist():
        assert edges.held_from(h) == min(h, *(bound.first_live_start(h) for bound in bounds))


def test_the_earliest_live_window_is_none_of_the_largest() -> None:
    large = [BoundPeriodic(size, size, 0) for size in range(1000, 1100)]
    assert EdgeSet(large).held_from(100) == 0
    assert EdgeSet([*large, BoundPeriodic(500, 500, 300)]).held_from(100) == -200


@pytest.mark.parametrize("count", [1, 3, 200])
def test_the_next_live_edge_of_times_in_any_order(count: int) -> None:
    rng = np.random.default_rng(count)
    edges = EdgeSet(windows(rng, count))
    for h in (BEGIN, 0, 333):
        live = np.unique(
            [e for p in edges.progressions for e in range(p.phase - 100 * p.every, 2000, p.every) if e + p.horizon > h]
        )
        for times in (np.arange(200, 500), rng.integers(-50, 500, 300)):
            expected = live[np.searchsorted(live, times, "right")]
            assert edges.next_live(times, h).tolist() == expected.tolist()


@pytest.mark.parametrize("gap", [9, 10, 14, 15, 200])
@pytest.mark.parametrize("size", [(15, 15), (40, 15), (5, 15), (90, 45)], ids=str)
def test_rows_between_two_edges_are_of_one_session(size: tuple[int, int], gap: int) -> None:
    schema = pa.schema({"ts": pa.int64()})
    plan = Plan(sl.Spec("ts", {"s": sl.session(gap), "w": sl.sliding(*size, offset=4)}, {"n": sl.count()}), schema)
    times = np.arange(-500, 500)
    edges = plan.edges.between(-500, 499, times, plan.grid, 10**6)
    slot = np.searchsorted(edges, times, "right")
    assert (plan.grid > 0) == (gap + 1 < size[1])
    assert np.bincount(slot)[1:-1].max() <= gap + 1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 40])
def test_more_edges_than_int64_counts_are_not_listed(count: int, step: int) -> None:
    """Their number went round, and edges were written before the room for them."""
    room = np.full(24, -7, np.int64)
    every, zero = np.full(count, step, np.int64), np.zeros(count, np.int64)
    found = int(list_edges(every, zero, np.full(count, -LIMIT), np.int64(LIMIT), room[8:16]))
    assert found == min(1 + count * (LIMIT // step - -LIMIT // step), MANY_EDGES)
    assert (room[:8] == -7).all() and (room[16:] == -7).all()


def test_rows_eight_trillion_million_ticks_apart_in_many_narrow_windows() -> None:
    far, sizes = 4 * 10**18, (2, 3, 5, 7, 11, 13, 17, 19)
    times = [-far, 5, 7, far]
    spec = sl.Spec("t", {f"w{size}": sl.tumbling(size) for size in sizes}, {"n": sl.count()})
    windows = sl.aggregate(pa.table({"t": times}), spec).to_pylist()
    found = [(row["window"], row["window_start"]) for row in windows for _ in range(row["n"])]
    assert sorted(found) == sorted((f"w{size}", t // size * size) for size in sizes for t in times)
