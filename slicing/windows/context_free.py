"""Windows of the user's own whose edges are known without data: the base class, and how the engine asks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from slicing.columns.order import order_by
from slicing.system.arrays import Ints, Mask
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, Bound, Due, no_windows

_Windows = tuple[tuple[int, int], ...]

MOST = 1 << 16  # slices whose windows are remembered


class ContextFreeWindow:
    """Base class of a user's own window type whose edges are known without data.

    A subclass gives two methods, both in ticks of the time column:

    Methods
    -------
    ``next_edge(times)``
        for an int64 array, the smallest edge strictly greater than each time. Every start and every end of a
        window is an edge.
    ``containing(time)``
        the ``(start, end)`` of every window with ``start <= time < end``; none, one or many.

    Make it a frozen dataclass (or give it ``__eq__``, ``__hash__`` and ``__repr__``), so that specs compare, print
    and are recognised in a snapshot.

    Examples
    --------
    >>> import numpy as np
    >>> class Squares(sl.ContextFreeWindow):  # [0, 1), [1, 4), [4, 9) ...
    ...     def next_edge(self, times):
    ...         return (np.sqrt(np.maximum(times, 0)).astype(np.int64) + 1) ** 2
    ...     def containing(self, time):
    ...         root = int(time**0.5)
    ...         return [(root**2, (root + 1) ** 2)]
    >>> rows = pa.table({"t": [1, 2, 5]})
    >>> sl.aggregate(rows, sl.Spec("t", {"w": Squares()}, {"n": sl.count()}))["n"].to_pylist()
    [2, 1]
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
        self._held: dict[int, _Windows] = {}

    def _containing(self, times: Sequence[int]) -> list[_Windows]:
        """The windows at each time, asked of the user once, and checked all together: 1500 slices 3.1 -> 1.3 ms."""
        held = self._held
        new = [time for time in times if time not in held]
        if new:
            if len(held) + len(new) > MOST:
                held.clear()
                new = list(times)
            held.update(zip(new, self._asked(new), strict=True))
        return [held[time] for time in times]

    def _asked(self, times: Sequence[int]) -> list[_Windows]:
        try:
            given = [tuple(self.window.containing(time)) for time in times]
        except TypeError:
            given = []
        return given if given and _are_right(times, given) else list(map(self._checked, times))

    def _checked(self, time: int) -> _Windows:
        given = self.window.containing(time)
        try:
            found = tuple([(int(a), int(b)) for a, b in given])
        except (TypeError, ValueError):
            raise TypeError(
                f"{self.window!r}.containing({time}) gave {given!r}; it must give (start, end) pairs of whole numbers"
            ) from None
        for start, end in found:
            if not start <= time < end:
                raise ValueError(
                    f"{self.window!r}.containing({time}) gave the window [{start}, {end}), which does not "
                    "contain that time; every window must hold start <= time < end"
                )
        return found

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
        return edge > h or any(end > h for _, end in self._containing([edge])[0])

    def _of_slices(self, ends: Ints) -> list[_Windows]:
        return self._containing((ends - 1).tolist())

    def covers(self, ends: Ints) -> Mask:
        return np.array(list(map(bool, self._of_slices(ends))), np.bool_)

    def first_live_start(self, h: int) -> int:
        return BEGIN  # only the slices themselves can tell: see last_end

    def last_end(self, ends: Ints) -> Ints:
        found = (max((b for _, b in windows), default=BEGIN) for windows in self._of_slices(ends))
        return np.fromiter(found, np.int64, ends.size)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        found = np.array(list(chain.from_iterable(self._of_slices(ends))), np.int64).reshape(-1, 2)
        start, end = found[(found[:, 1] > after) & (found[:, 1] <= until)].T
        if not start.size:
            return no_windows()
        order = order_by(start, end)
        start, end = start[order], end[order]
        first = np.append(True, (start[1:] != start[:-1]) | (end[1:] != end[:-1]))
        start, end = start[first], end[first]
        return Due(start, end, start)


def _are_right(times: Sequence[int], given: list[_Windows]) -> bool:
    """Whether each time's windows are pairs of whole numbers that hold it; where not, one of them tells why."""
    try:
        found = np.array(list(chain.from_iterable(given)))
    except (TypeError, ValueError):  # rows of different length
        return False
    if not found.size:
        return not any(given)
    if found.dtype != np.int64 or found.ndim != 2 or found.shape[1] != 2:
        return False
    time = np.repeat(np.array(times, np.int64), list(map(len, given)))
    return bool(((found[:, 0] <= time) & (time < found[:, 1])).all())
