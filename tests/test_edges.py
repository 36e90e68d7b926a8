"""The arithmetic of many windows' edges at once against each window's own."""

from __future__ import annotations

import numpy as np
import pytest

from slicing.windows.bounds import BEGIN, BoundPeriodic
from slicing.windows.edges import EdgeSet

NONE = np.empty(0, np.int64)


def windows(rng: np.random.Generator, count: int) -> list[BoundPeriodic]:
    size = rng.integers(1, 60, count).tolist()
    every = [int(rng.choice([s, rng.integers(1, 60)])) for s in size]
    return [BoundPeriodic(s, e, int(rng.integers(0, 9))) for s, e in zip(size, every, strict=True)]


def due_by_definition(bounds: list[BoundPeriodic], ends: np.ndarray, after: int, until: int) -> list[tuple]:
    found = []
    for type, bound in enumerate(bounds):
        for end in bound.all_ends(after + 1, until).tolist():
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
def test_edges_of_a_span_are_those_after_each_of_its_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = windows(rng, int(rng.choice([1, 3, 30])))
    edges = EdgeSet(bounds)
    for low in rng.integers(-500, 500, 20).tolist():
        high = low + int(rng.choice([1, 5, 400]))
        times = np.arange(low, high + 1)
        after = [(times - p.phase) // p.every * p.every + p.every + p.phase for b in bounds for p in b.progressions]
        next_edges = np.minimum.reduce(after)
        assert edges.listed(low, high, 0, 1 << 20).tolist() == np.unique(next_edges).tolist()
        assert edges.any_between(low, high) == (next_edges[0] <= high)
        assert edges.listed(low, low + 10**15, 0, 1000) is None
