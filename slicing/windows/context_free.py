"""Windows of the user's own whose edges are known without data: the base class, and how the engine asks it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, Bound, Due, no_windows

Ints = npt.NDArray[np.int64]


class ContextFreeWindow:
    """Base class of a user's own window type whose edges are known without data.

    A subclass gives two methods, both in ticks of the time column:

    ``next_edge(times)``
        for an int64 array, the smallest edge strictly greater than each time. Every start and every end of a
        window is an edge.
    ``containing(time)``
        the ``(start, end)`` of every window with ``start <= time < end``; none, one or many.

    Make it a frozen dataclass (or give it ``__eq__``, ``__hash__`` and ``__repr__``), so that specs compare, print
    and are recognised in a snapshot.
    """

    def next_edge(self, times: Ints) -> Ints:
        raise NotImplementedError(f"{type(self).__name__} must define next_edge(times)")

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        raise NotImplementedError(f"{type(self).__name__} must define containing(time)")

    def bind(self, measure: Measure) -> Bound:
        return BoundUser(self)


class BoundUser(Bound):
    """Any ``ContextFreeWindow`` of a user, asked once for each distinct slice."""

    irregular = True
    gapless = False

    def __init__(self, window: ContextFreeWindow) -> None:
        self.window = window
        self._held: dict[int, tuple[tuple[int, int], ...]] = {}

    def _containing(self, time: int) -> tuple[tuple[int, int], ...]:
        held = self._held.get(time)
        if held is None:
            if len(self._held) >= 1 << 16:
                self._held.clear()
            given = self.window.containing(time)
            try:
                held = tuple([(int(a), int(b)) for a, b in given])
            except (TypeError, ValueError):
                raise TypeError(
                    f"{self.window!r}.containing({time}) gave {given!r}; it must give (start, end) pairs of "
                    "whole numbers"
                ) from None
            for start, end in held:
                if not start <= time < end:
                    raise ValueError(
                        f"{self.window!r}.containing({time}) gave the window [{start}, {end}), which does not "
                        "contain that time; every window must hold start <= time < end"
                    )
            self._held[time] = held
        return held

    def _next_edge(self, times: Ints) -> Ints:
        edges = np.asarray(self.window.next_edge(times))
        if edges.dtype.kind not in "iu":
            raise TypeError(f"{self.window!r}.next_edge gave {edges.dtype} values; edges must be whole numbers (int64)")
        edges = edges.astype(np.int64)
        if edges.shape != times.shape or not (edges > times).all():
            raise ValueError(
                f"{self.window!r}.next_edge gave edges that are not later than their times; it must return one "
                "int64 edge for each time, strictly greater than it"
            )
        return edges

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        edges = self._next_edge(times)
        dead = np.flatnonzero(edges <= h)
        while dead.size:
            kept = {e for e in np.unique(edges[dead]).tolist() if not self._lives(e, h)}
            dead = dead[[e in kept for e in edges[dead].tolist()]]
            edges[dead] = self._next_edge(edges[dead])
            dead = dead[edges[dead] <= h]
        return edges

    def _lives(self, edge: int, h: int) -> bool:
        return edge > h or any(end > h for _, end in self._containing(edge))

    def covers(self, ends: Ints) -> npt.NDArray[np.bool_]:
        return np.array([bool(self._containing(e - 1)) for e in ends.tolist()], np.bool_)

    def first_live_start(self, h: int) -> int:
        return BEGIN  # only the slices themselves can tell: see last_end

    def last_end(self, ends: Ints) -> Ints:
        found = (max((b for _, b in self._containing(e - 1)), default=BEGIN) for e in ends.tolist())
        return np.fromiter(found, np.int64, ends.size)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        found = {w for e in ends.tolist() for w in self._containing(e - 1) if after < w[1] <= until}
        if not found:
            return no_windows()
        start, end = np.array(sorted(found, key=lambda w: (w[1], w[0])), np.int64).T
        return Due(start, end, start)
