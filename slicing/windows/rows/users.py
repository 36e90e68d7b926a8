"""Users' own data-driven windows: the base class, and how the engine calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slicing.columns.row_values import in_form, number_form
from slicing.kernels.walk import CLOSE, CLOSE_BEFORE, OPEN, UNDEFINED
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.compiled import Walked, compiled_window
from slicing.windows.rows.row_view import Context, Found, Opened, View
from slicing.windows.rows.row_windows import Binding, RowWindow


class Edge(NamedTuple):
    """A window opens with a row, or closes with or before a row; made by ``opens`` and ``closes``."""

    opens: bool
    id: int | str
    at: int | None
    before: bool


class ContextAwareWindow(RowWindow):
    """Base class for a user's own window type whose windows depend on a key's rows.

    The engine shows a subclass one row after another, in the order of (time, sequence, arrival). What the window
    remembers about a key is its *context*: None, a bool, number or string, or a tuple of these. A row is shown once the
    watermark has passed it. If ``emit="changes"`` admits late rows, rows are shown again from the first one that is not
    final, so a method must depend only on its arguments.

    Methods
    -------
    ``see(context, time, *values)``
        the context after the row, and the edges, a sum of: ``self.CLOSE_BEFORE`` if the open window ended with the
        previous row, ``self.OPEN`` if a window begins with this row, and ``self.CLOSE`` if the open window ends with
        this row. They apply in this order; 0 is no edge. A third item may give the time at which the window ends, by
        default the time of its last row. Times are in ticks of the time column; ``values`` are those of ``columns()``.
    ``columns()``
        the columns whose values it sees (none by default)
    ``start()``
        the context of a key before its first row (None by default)
    ``deadline(context)``
        the last time at which a row could still join the open windows; None if time does not close them.
    ``expired(context)``
        the context and edges (and the end) when the deadline has passed without a row. By default all open windows
        close, and the context is that of ``start()``.

    A window is *compiled* if three conditions hold. Its methods use only what numba compiles: numbers, tuples, math,
    and the window's attributes that are numbers. Each context is a number, or a tuple of numbers, of the types that
    ``start()`` returns. Its columns are integers, floats or booleans. Otherwise the methods run in plain Python, with
    equal results but some hundred times slower. ``explain`` says which, and why. Integers of compiled methods have 64
    bits, and what exceeds them wraps around: return None where there is no deadline, not a time far ahead plus a span.

    Overlapping windows run only in plain Python. Edges are then a list of ``self.opens(id)`` and
    ``self.closes(id)``: ``at=`` sets the start or the end, and ``closes(before=True)`` is ``CLOSE_BEFORE``.

    A window is ``[first row's time, last row's time]`` unless ``at=`` or the third item says otherwise. It is complete
    when the watermark has passed the row that closed it, or the deadline. If ``partial`` is true, windows that are open
    when the stream (or the key, with ``idle``) ends are also emitted. Make the class a frozen dataclass, so that specs
    compare, print, and are recognised in a snapshot.

    Examples
    --------
    >>> class Rising(sl.ContextAwareWindow):  # runs of rows each of which is larger than the one before
    ...     def columns(self):
    ...         return ("v",)
    ...     def start(self):
    ...         return float("inf")
    ...     def see(self, context, time, value):
    ...         if value > context:
    ...             return value, 0
    ...         return value, self.OPEN if context == float("inf") else self.CLOSE_BEFORE + self.OPEN
    >>> rows = pa.table({"t": [1, 2, 3, 4], "v": [1.0, 2.0, 1.0, 5.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"up": Rising()}, {"n": sl.count()}))["n"].to_pylist()
    [2, 2]
    """

    OPEN: ClassVar[int] = OPEN
    CLOSE: ClassVar[int] = CLOSE
    CLOSE_BEFORE: ClassVar[int] = CLOSE_BEFORE
    partial: bool = True

    def columns(self) -> tuple[str, ...]:
        return ()

    def start(self) -> Any:
        return None

    def see(self, context: Any, time: int, *values: Any) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} must define see(context, time, *values)")

    def deadline(self, context: Any) -> int | None:
        return None

    def expired(self, context: Any) -> tuple[Any, ...]:
        return self.start(), _ALL

    @staticmethod
    def opens(id: int | str = 0, *, at: int | None = None) -> Edge:
        return Edge(True, id, at, False)

    @staticmethod
    def closes(id: int | str = 0, *, at: int | None = None, before: bool = False) -> Edge:
        return Edge(False, id, at, before)

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundContextAware(self, binding)


_ALL: Sequence[Edge] = []  # a marker: close all open windows


class BoundContextAware(BoundRows):
    def __init__(self, window: ContextAwareWindow, binding: Binding) -> None:
        self.number, self.window = binding.number, window
        self.origin = BEGIN if binding.since is None else binding.since
        self.columns = window.columns()
        self.values = [binding.values[name] for name in self.columns]
        self.types = [binding.types[name] for name in self.columns]
        columns = list(zip(self.columns, self.types, strict=True))
        self.wakes = type(window).deadline is not ContextAwareWindow.deadline
        self.compiled = compiled_window(window, ContextAwareWindow, columns)

    def seen(self) -> dict[str, str | None]:
        if isinstance(self.compiled, str):
            return dict.fromkeys(self.columns)
        return dict(zip(self.columns, map(number_form, self.types), strict=True))

    def find(self, view: View, until: int) -> Found:
        walked = self._walked(view, until)
        unfinished = np.flatnonzero(view.over & self.window.partial)
        group, first, last, start, end, closes = walked.windows(view, unfinished).T.copy()
        return Found(None, first, last, group, start, end, closes)

    def needs(self, view: View, h: int) -> Ints:
        return self._walked(view, h).needed

    def stirs(self, view: View, until: int) -> Mask:
        walked = self._walked(view, until)
        stirred = walked.needed >= np.where(view.over, view.last, view.before(until))  # nothing is open
        stirred[walked.closed()] = True
        return stirred

    def wake(self, view: View, until: int, h: int) -> Ints:
        settled = self._walked(view, h).wakes
        if until == h:
            return settled
        later = np.where(settled < FOREVER, settled + (until - h), FOREVER)  # to evict rows that are final by then
        return np.minimum(later, self._walked(view, until).wakes)

    def contexts(self, view: View, h: int) -> Mapping[int, Context]:
        """The context of each key once all rows before ``h`` are final."""
        return self._walked(view, h).contexts(view, view.contexts.get(self.number, {}))

    def _walked(self, view: View, until: int) -> Walked | Walks:
        key = (self.number, until)
        if key not in view.memo:
            view.memo[key] = self._walk(view, view.contexts.get(self.number, {}), until)
        walked: Walked | Walks = view.memo[key]
        return walked

    def _walk(self, view: View, before: Mapping[int, Context], until: int) -> Walked | Walks:
        if not isinstance(self.compiled, str):
            walked = self.compiled.walk(view, before, self.values, until)
            if walked is not None:
                return walked
        return Walks.of(self, view, before, until)


@dataclass(frozen=True)
class Walks:
    """Rows shown in plain Python, for groups that have rows to show or whose deadline has passed."""

    walks: dict[int, _Walk]
    needed: Ints
    wakes: Ints  # the deadline of each group

    @staticmethod
    def of(bound: BoundContextAware, view: View, before: Mapping[int, Context], until: int) -> Walks:
        code, window = view.rows.code[view.first], bound.window
        fresh, end = view.before(view.settled), np.where(view.over, view.last, view.before(until))
        timed, wakes = bound.wakes, np.full(code.size, FOREVER)
        needed, walks = fresh.copy(), {}
        for g in np.flatnonzero((end > fresh) | view.over | bool(before)).tolist():
            context = before.get(int(code[g])) if view.goes_on[g] else None
            if end[g] > fresh[g] or view.over[g] or (timed and context is not None):
                walks[g] = _Walk(bound, view, g, context, (int(fresh[g]), int(end[g])), until)
                needed[g], context = walks[g].needed(), Context(walks[g].context, ())
            elif context is not None and context.open:
                needed[g] = min(_position(view, g, opened.rank) for opened in context.open)
            if timed and context is not None:
                due = window.deadline(context.value)
                wakes[g] = FOREVER if due is None else min(due, FOREVER)
        return Walks(walks, needed, wakes)

    def closed(self) -> Ints:
        """The groups whose windows closed."""
        return np.array([g for g, walk in self.walks.items() if walk.found], np.int64)

    def windows(self, view: View, unfinished: Ints) -> Ints:
        found = [w for walk in self.walks.values() for w in walk.found]
        found += [w for g in unfinished.tolist() for w in self.walks[g].unfinished()]
        return np.array(found or np.empty((0, 6)), np.int64).reshape(-1, 6)

    def contexts(self, view: View, before: Mapping[int, Context]) -> dict[int, Context]:
        """The contexts of all keys. A key with several groups has that of its first group that goes on."""
        code = view.rows.code[view.first].tolist()
        here = set(code)
        found = {c: known for c, known in before.items() if c not in here}
        for g in np.flatnonzero(~view.over).tolist():
            walk = self.walks.get(g)
            if walk is None:  # no rows yet
                known = before.get(code[g]) if view.goes_on[g] else None
            else:
                known = Context(walk.context, tuple(walk.open.values()))
            if known is not None:
                found.setdefault(code[g], known)
        return found


def _position(view: View, group: int, rank: int) -> int:
    """The position of the row that opened a window; before the group's first row if that row is not shown."""
    return int(view.first[group] + rank - view.rank[group])


class _Walk:
    """Shows one group's rows to the window, from the first row that is not final up to a time."""

    def __init__(
        self,
        bound: BoundContextAware,
        view: View,
        group: int,
        before: Context | None,
        span: tuple[int, int],
        until: int,
    ) -> None:
        self.window, self.view, self.group = bound.window, view, group
        self.context = self.window.start() if before is None else before.value
        self.open = {} if before is None else {o.id: o for o in before.open}
        self.place: dict[int | str, int] = {}  # the positions of rows that opened windows in this walk
        self.found: list[tuple[int, ...]] = []
        self.expiring = False
        self.at, end = span
        rows = slice(self.at, end)
        columns = [view.rows.values[v][rows] for v in bound.values]
        columns = [in_form(c, None, type) for c, type in zip(columns, bound.types, strict=True)]
        for time, *values in zip(view.time[rows].tolist(), *columns, strict=True):
            self._expire(time)
            self._take(self.window.see(self.context, time, *values), "see", time)
            self.at += 1
        self._expire(FOREVER if view.over[group] else until)
        context_json(self.context)

    def needed(self) -> int:
        """The position of the first row of the open windows."""
        return min(map(self._first, self.open.values()), default=self.at)

    def unfinished(self) -> list[tuple[int, ...]]:
        ends = int(self.view.last[self.group])
        return [self._window(o, ends, int(self.view.time[ends - 1]), FOREVER) for o in self.open.values()]

    def _expire(self, now: int) -> None:
        """Close the windows whose deadline has passed."""
        while (deadline := self.window.deadline(self.context)) is not None and deadline < now:
            self.expiring = True
            self._take(self.window.expired(self.context), "expired", deadline)
            self.expiring = False
            later = self.window.deadline(self.context)
            if later is not None and later <= deadline:
                raise ValueError(
                    f"{self.window!r}.expired gave a context whose deadline is {later}; it must be later than "
                    f"{deadline}, which has passed, or None"
                )

    def _take(self, answer: object, method: str, closes: int) -> None:
        """Apply the edges that a row, or a deadline before it, made."""
        self.context, edges = self._checked(answer, method)
        for edge in edges:
            if edge.opens:
                if self.expiring or edge.id in self.open:
                    why = "only a row opens one" if self.expiring else "it is open already"
                    raise ValueError(f"{self.window!r} opened a window with id={edge.id!r}, but {why}")
                start = int(self.view.time[self.at]) if edge.at is None else edge.at
                rank = int(self.view.rank[self.group] + self.at - self.view.first[self.group])
                self.open[edge.id] = Opened(edge.id, start, rank)
                self.place[edge.id] = self.at
                continue
            if edge.id not in self.open:
                raise ValueError(f"{self.window!r} closed a window with id={edge.id!r}, which is not open")
            ends = self.at if edge.before or self.expiring else self.at + 1
            opened = self.open.pop(edge.id)
            window = self._window(opened, ends, int(self.view.time[ends - 1]) if edge.at is None else edge.at, closes)
            self.place.pop(edge.id, None)
            if window[1] >= window[2]:
                raise ValueError(f"{self.window!r} closed the window with id={edge.id!r} before its first row")
            self.found.append(window)

    def _window(self, opened: Opened, ends: int, end: int, closes: int) -> tuple[int, ...]:
        return self.group, self._first(opened), ends, opened.start, end, closes

    def _first(self, opened: Opened) -> int:
        known = self.place.get(opened.id)
        return _position(self.view, self.group, opened.rank) if known is None else known

    def _checked(self, answer: object, method: str) -> tuple[Any, Sequence[Edge]]:
        if isinstance(answer, tuple) and len(answer) in (2, 3):
            context, edges, *end = answer
            if edges is _ALL:
                return context, [self.window.closes(i) for i in self.open]
            if isinstance(edges, int | np.integer):
                if int(edges) & UNDEFINED:
                    raise ValueError(
                        f"{self.window!r}.{method} gave the edges {edges}; they must be 0 or a sum of different ones "
                        f"of self.OPEN ({OPEN}), self.CLOSE ({CLOSE}) and self.CLOSE_BEFORE ({CLOSE_BEFORE})"
                    )
                return context, self._edges(int(edges), *end)
            if isinstance(edges, tuple | list) and not end and all(isinstance(e, Edge) for e in edges):
                return context, edges
        raise TypeError(
            f"{self.window!r}.{method} gave {answer!r}; it must return the context and a list of self.opens() and "
            "self.closes(), or a sum of self.OPEN, self.CLOSE and self.CLOSE_BEFORE and perhaps the end"
        )

    def _edges(self, edges: int, end: int | None = None) -> list[Edge]:
        found = [self.window.closes(at=end, before=True)] if edges & CLOSE_BEFORE else []
        found += [self.window.opens()] if edges & OPEN else []
        return found + ([self.window.closes(at=end)] if edges & CLOSE else [])


def context_json(value: Any) -> Any:
    """A context in JSON form. Raises for a context that could not be read back."""
    if isinstance(value, tuple):
        return [context_json(v) for v in value]
    known = value.item() if isinstance(value, np.generic) else value
    if known is None or type(known) in (bool, int, float, str):
        return known
    raise TypeError(
        f"a ContextAwareWindow gave the context {value!r}; a context is None, a bool, a number, a string, or a tuple "
        "of such, which a snapshot can hold"
    )


def context_value(value: Any) -> Any:
    return tuple(context_value(v) for v in value) if isinstance(value, list) else value
