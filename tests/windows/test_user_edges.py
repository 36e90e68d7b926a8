"""Windows of the user's own that contradict their edges are refused: none gives a wrong count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.windows import context_free

BEGIN = -(2**63)
ORIGINS = (0, 1_700_000_000_000_000_000, -(2**62))


@dataclass(frozen=True)
class Between(sl.ContextFreeWindow):
    """The windows ``extents``, and edges at ``edges`` alone, all from ``origin`` on."""

    extents: tuple[tuple[int, int], ...]
    edges: tuple[int, ...]
    origin: int = 0

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        edges = np.array([*(self.origin + edge for edge in self.edges), 2**63 - 1])
        return edges[np.searchsorted(edges, times, "right")]

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        extents = [(self.origin + start, self.origin + end) for start, end in self.extents]
        return [extent for extent in extents if extent[0] <= time < extent[1]]


def counted(window: Between, times: list[int], batches: int = 1) -> list[int]:
    rows = pa.table({"t": [window.origin + time for time in times]})
    op = sl.Operator(sl.Spec("t", {"w": window}, {"n": sl.count()}, watermark=sl.manual()))
    step = -(-len(times) // batches)
    for first in range(0, len(times), step):
        op.push(rows.slice(first, step))
    return op.flush().windows["n"].to_pylist()


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize(
    ("extents", "edges", "said"),
    [
        (
            ((0, 15),),
            (0, 10, 20),
            r"containing\(9\) gave the window \[0, 15\), whose end is no edge: next_edge of 14 is 20",
        ),
        (((0, 5),), (0, 10, 20), r"containing\(2\) gave the window \[0, 5\), whose end is no edge"),
        (((5, 20),), (0, 10, 20), r"starts at 5, which is no edge: next_edge of 4 is 10, so that the row at 2 would"),
        (((5, 8),), (0, 10), r"containing\(6\) gave the window \[5, 8\), whose end is no edge"),
    ],
)
def test_windows_that_contradict_their_edges_are_refused(
    extents: tuple[tuple[int, int], ...], edges: tuple[int, ...], said: str, batches: int, origin: int
) -> None:
    window = Between(extents, edges, origin)
    if origin:
        said = ".*no edge"
    with pytest.raises(ValueError, match=said + ".*every start and every end of a window must be an edge"):
        counted(window, [2, 6, 12], batches)


class Fickle(sl.ContextFreeWindow):
    """Another window for odd times than for even ones, all between edges."""

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        return times // 10 * 10 + 10

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        start = time // 10 * 10
        return [(start - 10 * (time % 2), start + 10)]


def test_times_without_an_edge_between_them_have_the_same_windows() -> None:
    with pytest.raises(
        ValueError, match=r"containing\(12\) gave \[\(10, 20\)\] and containing\(19\) gave \[\(0, 20\)\]"
    ):
        sl.aggregate(pa.table({"t": [12, 13]}), sl.Spec("t", {"w": Fickle()}, {"n": sl.count()}))


def test_a_start_that_is_no_edge_is_right_as_long_as_no_row_lies_before_it() -> None:
    window = Between(((5, 10), (12, 20)), (0, 10, 20))
    assert counted(window, [5, 6, 12, 19]) == [2, 2]
    assert counted(window, [19, 12, 6, 5], batches=2) == [2, 2]
    with pytest.raises(ValueError, match="the row at 11 would count in it"):
        counted(window, [5, 12, 11], batches=3)


def test_windows_of_many_rows_and_slices_are_compared_at_few_of_them() -> None:
    asked: list[int] = []

    class Hours(sl.ContextFreeWindow):
        def next_edge(self, times: np.ndarray) -> np.ndarray:
            return times // 3600 * 3600 + 3600

        def containing(self, time: int) -> Iterable[tuple[int, int]]:
            asked.append(time)
            return [(time // 3600 * 3600, time // 3600 * 3600 + 3600)]

    op = sl.Operator(sl.Spec("t", {"w": Hours()}, {"n": sl.count()}, watermark=sl.manual()))
    for first in range(0, 100_000, 10_000):
        op.push(pa.table({"t": np.arange(first, first + 10_000)}))
    assert sum(op.flush().windows["n"].to_pylist()) == 100_000
    assert len(asked) <= 2 * 128 + 2 * 29


@dataclass(frozen=True)
class Codes(sl.ContextAwareWindow):
    """Gives the same edges for each row."""

    edges: int
    plain: bool = False

    def start(self) -> object:
        return None if self.plain else 0

    def see(self, context: object, time: int) -> tuple[object, int]:
        return context, self.edges


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("edges", [8, -1, 255, 11])
def test_edges_that_stand_for_nothing_are_refused(edges: int, plain: bool) -> None:
    spec = sl.Spec("t", {"w": Codes(edges, plain)}, {"n": sl.count()})
    with pytest.raises(ValueError, match=f"see gave the edges {edges}; they must be 0 or a sum of different ones"):
        sl.aggregate(pa.table({"t": [1, 2]}), spec)


class Tens(sl.ContextFreeWindow):
    def next_edge(self, times: np.ndarray) -> np.ndarray:
        return (times // 10 + 1) * 10

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        return [(time // 10 * 10, time // 10 * 10 + 10)]


@pytest.mark.parametrize("short_of", range(40, 160, 24))
def test_what_is_remembered_of_slices_may_be_forgotten_within_a_push(short_of: int) -> None:
    count = context_free.MOST_SLICES - short_of
    op = sl.Operator(sl.Spec("t", {"w": Tens()}, {"n": sl.count()}, watermark=sl.manual()))
    op.push(pa.table({"t": np.arange(count) * 10 + 3}))
    op.push(pa.table({"t": (count + np.arange(100)) * 10 + 3}))
    assert op.flush().windows.num_rows == count + 100


@pytest.mark.parametrize("bound", [0.5, 2.0**54 + 4, float("inf")])
def test_bounds_are_whole_numbers(bound: float) -> None:
    class Floats(Tens):
        def containing(self, time: int) -> Iterable[tuple[int, int]]:
            return [(-bound, bound)]  # type: ignore[list-item]

    with pytest.raises(TypeError, match=r"it must give \(start, end\) pairs of whole numbers"):
        sl.aggregate(pa.table({"t": [0]}), sl.Spec("t", {"w": Floats()}, {"n": sl.count()}))


@dataclass(frozen=True)
class Asked(sl.ContextFreeWindow):
    """Overlapping windows of ``size`` that begin every ``every``, and how often their edges were asked for."""

    size: int
    every: int
    asked: list[int]

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        self.asked.append(times.size)
        return np.minimum(*((times - part) // self.every * self.every + self.every + part for part in (0, self.size)))

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        first = (time - self.size) // self.every * self.every + self.every
        return [(start, start + self.size) for start in range(first, time + 1, self.every)]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("beside", [sl.tumbling(10**9), sl.landmark(10**8)])
def test_an_old_row_of_a_longer_window_asks_for_few_edges(beside: sl.Window, origin: int) -> None:
    """Each of the short windows' edges since then was asked for, one by one."""
    asked: list[int] = []
    short = Asked(7, 3, asked)
    op = sl.Operator(sl.Spec("t", {"s": short, "l": beside}, {"n": sl.count()}, watermark=sl.bounded(0)))
    now = -(-origin // 10**9) * 10**9 + 999_000_001
    found = [op.push(pa.table({"t": [time]})) for time in (now, now - 900_000_000, now - 2, now - 4, now - 8, now)]
    assert [out.late.num_rows for out in found] == [0] * 6
    assert len(asked) < 200
    windows = pa.concat_tables([out.windows for out in (*found, op.flush())]).to_pylist()
    got = {row["window_start"]: row["n"] for row in windows if row["window"] == "s"}
    wanted: dict[int, int] = {}
    for time, since in ((now, BEGIN), (now - 2, now), (now - 4, now), (now, now)):  # rows before the watermark are late
        for start, end in short.containing(time):
            if end > since:
                wanted[start] = wanted.get(start, 0) + 1
    assert got == wanted


def test_old_rows_of_windows_without_a_start():
    class Past(Tens):
        def containing(self, time: int) -> Iterable[tuple[int, int]]:
            return [(-(2**63), time // 10 * 10 + 10)]

    op = sl.Operator(sl.Spec("t", {"s": Past(), "l": sl.tumbling(100_000)}, {"n": sl.count()}, watermark=sl.bounded(0)))
    found = [op.push(pa.table({"t": [time]})).windows for time in (5, 996, 400, 25, 997, 1200)]
    windows = pa.concat_tables([*found, op.flush().windows]).to_pylist()
    assert [row["n"] for row in windows if row["window"] == "l"] == [6]
    assert next(row["n"] for row in windows if row["window"] == "s") == 1
