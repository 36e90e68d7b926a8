"""Users' windows whose edges are known without data: the base class, and how the engine uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import index
from typing import Any

import numpy as np

from slicing.columns.order import changes, distinct, order_by
from slicing.system.arrays import Ints, Mask
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, LIMIT, Bound, Due, no_windows

_Windows = tuple[tuple[int, int], ...]

EXACT = 1 << 53  # larger floats may stand for several whole numbers
MOST_SLICES = 1 << 16  # slices whose windows are remembered
FEW_ROWS = 128  # rows whose windows are checked: all rows of a first try; 1 us each, and as much for their slices
_RULE = "every start and every end of a window must be an edge"


class ContextFreeWindow:
    """Base class of a user's own window type whose edges are known without data.

    A subclass defines two methods, both in ticks of the time column:

    Methods
    -------
    ``next_edge(times)``
        for an int64 array, return the smallest edge strictly greater than each time. Every start and every end of a
        window must be an edge, so that times without an edge between them have the same windows. A row that shows a
        contradiction between windows and edges raises an error.
    ``containing(time)``
        return the ``(start, end)`` of every window with ``start <= time < end``: none, one or many.

    Make it a frozen dataclass (or define ``__eq__``, ``__hash__`` and ``__repr__``), so that specs can be compared,
    printed and recognised in a snapshot.

    Examples
    --------
    >>> import numpy as np
    >>> class Squares(sl.ContextFreeWindow):  # [0, 1), [1, 4), [4, 9) ...
    ...     def next_edge(self, times):
    ...         return np.where(times < 0, 0, (np.sqrt(np.maximum(times, 0)).astype(np.int64) + 1) ** 2)
    ...     def containing(self, time):
    ...         root = int(max(time, 0) ** 0.5)
    ...         return [] if time < 0 else [(root**2, (root + 1) ** 2)]
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
    """A user's ``ContextFreeWindow``. It is called at the end of each distinct slice, at a few rows to compare, and at
    the watermark if an older row is in time for another window."""

    irregular = True
    gapless = False
    farthest = 1 << 33  # not known: more than a narrow time column holds, so that its rows are looked at (``reach``)

    def __init__(self, window: ContextFreeWindow) -> None:
        self.window = window
        self._held: dict[int, _Windows] = {}
        self._begins: dict[int, int] = {}  # by end of a slice: a window's start within it, at no edge
        self._rows = 0  # how many rows were checked

    def _containing(self, times: Sequence[int]) -> list[_Windows]:
        """The windows at each time; the user's method is called once for each time: 1500 slices 3.1 -> 1.3 ms."""
        held = self._held
        new = [time for time in times if time not in held]
        if new:
            if len(held) + len(new) > MOST_SLICES:
                held.clear()
                self._begins.clear()
                new = list(times)
            given = self._ask_user(new)
            self._check_edges(new, given)
            held.update(zip(new, given, strict=True))
        return [held[time] for time in times]

    def _check_edges(self, times: Sequence[int], given: list[_Windows]) -> None:
        """Raise for a window that ends at no edge. Note windows that start at no edge: no row may lie before them."""
        try:
            found = np.array(list(chain.from_iterable(given)), np.int64).reshape(-1, 2)
        except OverflowError:
            fits = range(-(1 << 63), 1 << 63)
            pairs = zip(times, given, strict=True)
            time, own = next((t, w) for t, w in pairs if any(bound not in fits for bound in chain(*w)))
            raise ValueError(
                f"{self.window!r}.containing({time}) gave {list(own)}, whose bounds do not fit int64"
            ) from None
        bounds = distinct(found.ravel())
        bounds = bounds[(bounds > -LIMIT) & (bounds < LIMIT)]  # where rows may lie
        edges = self._next_edge(bounds - 1) if bounds.size else bounds
        wrong = np.flatnonzero(edges != bounds)
        for bound, edge in zip(bounds[wrong].tolist(), edges[wrong].tolist(), strict=True):
            if bound in found[:, 1]:
                time, window = next(
                    (t, w) for t, windows in zip(times, given, strict=True) for w in windows if w[1] == bound
                )
                raise ValueError(
                    f"{self.window!r}.containing({time}) gave the window [{window[0]}, {bound}), whose end is no edge: "
                    f"next_edge of {bound - 1} is {edge}; {_RULE}"
                )
            self._begins[edge] = max(bound, self._begins.get(edge, bound))

    @property
    def asks_rows(self) -> bool:  # type: ignore[override]
        return self._rows < FEW_ROWS

    def row_edges(self, times: Ints) -> Ints:
        edges = self.next_live_edge(times, BEGIN)
        if times.size and self.asks_rows:
            left = FEW_ROWS - self._rows
            slices = np.flatnonzero(np.append(True, edges[1:] != edges[:-1]))[: left // 2 + 1]
            some = np.union1d(slices, np.arange(min(times.size, left // 2 + 1)))
            self._compare(times[some].tolist(), edges[some].tolist())
        if self._begins:
            self._check_before(times, edges)
        return edges

    def _check_before(self, times: Ints, edges: Ints) -> None:
        """Raise for rows before a window that begins within their slice, as they would count in that window."""
        ends = np.array(sorted(self._begins), np.int64)
        starts = np.array([self._begins[end] for end in ends.tolist()], np.int64)
        at = np.minimum(np.searchsorted(ends, edges), ends.size - 1)
        before = (ends[at] == edges) & (times < starts[at])
        if before.any():
            row = int(before.argmax())
            start = int(starts[at[row]])
            raise ValueError(
                f"{self.window!r} has a window that starts at {start}, which is no edge: next_edge of {start - 1} is "
                f"{edges[row]}, so that the row at {times[row]} would count in it; {_RULE}"
            )

    def _compare(self, times: list[int], edges: list[int]) -> None:
        """Raise for rows whose windows differ from the windows at the end of their slice."""
        pairs = list(dict(zip(times, edges, strict=True)).items())
        ends = list(dict.fromkeys(edge - 1 for _, edge in pairs))
        of_end = dict(zip(ends, self._containing(ends), strict=True))
        for (time, edge), own in zip(pairs, self._containing([time for time, _ in pairs]), strict=True):
            others = of_end[edge - 1]
            if own != others and set(own) != set(others) and time >= self._begins.get(edge, time):
                raise ValueError(
                    f"{self.window!r}.containing({time}) gave {list(own)} and containing({edge - 1}) gave "
                    f"{list(others)}, though next_edge of {time} is {edge}; {_RULE}"
                )
        self._rows += len(pairs)

    def _ask_user(self, times: Sequence[int]) -> list[_Windows]:
        try:
            given = [tuple(self.window.containing(time)) for time in times]
        except TypeError:
            given = []
        return given if given and _are_right(times, given) else list(map(self._checked, times))

    def _checked(self, time: int) -> _Windows:
        given = self.window.containing(time)
        try:
            found = tuple([(_whole(a), _whole(b)) for a, b in given])
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
        old = edges <= h
        if old.any():  # an edge up to h lives if it is in a window that ends later: one that holds h
            first = min((start for start, _ in self._containing([h])[0]), default=h + 1)
            edges[old] = self._next_edge(np.maximum(times[old], max(first - 1, BEGIN)))
        return edges

    def _of_slices(self, ends: Ints) -> list[_Windows]:
        return self._containing((ends - 1).tolist())

    def covers(self, ends: Ints) -> Mask:
        return np.array(list(map(bool, self._of_slices(ends))), np.bool_)

    def reach(self, low: int, high: int, horizon: int) -> tuple[int, int]:
        """The first start of a window that ends after ``horizon``, at a time or later, and the last end of one at
        another; the times if there is none."""
        first, last = self._containing([max(low, horizon), high])
        start = min((start for start, end in first if end > horizon), default=low)
        return start, max((end for _, end in last), default=high)

    def first_live_start(self, h: int) -> int:
        return BEGIN  # only the slices show it: see last_end

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
        first = changes(start, end)
        start, end = start[first], end[first]
        return Due(start, end, start)


def _whole(bound: Any) -> int:
    """A bound that a user gave. Raises for parts of numbers."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() and abs(bound) <= EXACT else index(bound)


def _are_right(times: Sequence[int], given: list[_Windows]) -> bool:
    """Whether the windows of each time are pairs of integers that hold it; if not, a check of each one says why."""
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
