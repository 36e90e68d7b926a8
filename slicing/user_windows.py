"""Windows of the user's own that depend on the rows: the base class, and how the engine asks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.bounds import FOREVER
from slicing.row_windows import Binding, RowWindow
from slicing.rows import ARRIVAL, BoundRows, Context, Found, Opened, View

Ints = npt.NDArray[np.int64]


class Edge(NamedTuple):
    """A window opens with a row, or closes with it or before it; made by ``opens`` and ``closes``."""

    opens: bool
    id: int | str
    at: int | None
    before: bool


class ContextAwareWindow(RowWindow):
    """Base class of a user's own window type whose windows depend on a key's rows.

    A subclass says what it makes of one row after the other, in the order of (time, sequence, arrival). What it
    remembers of a key is its *context*: None, a bool, number or string, or a tuple of such. Rows are shown once the
    watermark has passed them; if ``emit="changes"`` lets late rows in, they are shown anew from the first one that is
    not final, so methods must depend on nothing but their arguments.

    ``see(context, time, *values)``
        the context after the row, and edges: ``self.opens()`` where a window begins with it, ``self.closes()`` where
        the open window ends with it, ``self.closes(before=True)`` where it ended with the row before. Windows may
        overlap: ``id=`` tells them apart. Times are in ticks of the time column; ``values`` those of ``columns()``.
    ``columns()``
        the columns whose values it wants to see (none).
    ``start()``
        the context of a key before its first row (None).
    ``deadline(context)``
        the last time at which a row could still go on with what is open; None if that does not depend on time.
    ``expired(context)``
        the context and edges when the deadline has passed without a row (all that is open closes, from the start).

    A window is ``[first row's time, last row's time]`` unless ``opens(at=)`` and ``closes(at=)`` say otherwise. It is
    complete when the watermark has passed the row that closed it, or the deadline. What is open when the stream ends
    (or the key, with ``idle``) is given if ``partial`` is true. Make it a frozen dataclass, so that specs compare,
    print and are recognised in a snapshot.
    """

    partial: bool = True

    def columns(self) -> tuple[str, ...]:
        return ()

    def start(self) -> Any:
        return None

    def see(self, context: Any, time: int, *values: Any) -> tuple[Any, Iterable[Edge]]:
        raise NotImplementedError(f"{type(self).__name__} must define see(context, time, *values)")

    def deadline(self, context: Any) -> int | None:
        return None

    def expired(self, context: Any) -> tuple[Any, Iterable[Edge]]:
        return self.start(), _ALL

    @staticmethod
    def opens(id: int | str = 0, *, at: int | None = None) -> Edge:
        return Edge(True, id, at, False)

    @staticmethod
    def closes(id: int | str = 0, *, at: int | None = None, before: bool = False) -> Edge:
        return Edge(False, id, at, before)

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundContextAware(self, binding)


_ALL: Sequence[Edge] = []  # stands for closing all that is open


class BoundContextAware(BoundRows):
    counts = False

    def __init__(self, window: ContextAwareWindow, binding: Binding) -> None:
        self.number, self.window = binding.number, window
        self.values = [binding.values[name] for name in window.columns()]

    def find(self, view: View, until: int) -> Found:
        walks = self._walked(view, until)
        found = [w for walk in walks for w in (*walk.found, *walk.unfinished())]
        table = np.array(found or np.empty((0, 6)), np.int64).reshape(-1, 6).T.copy()
        group, first, last, start, end, closes = table
        return Found(None, first, last, group, start, end, closes, None, None, start)

    def needs(self, view: View, h: int) -> Ints:
        return np.array([walk.needed() for walk in self._walked(view, h)], np.int64)

    def contexts(self, view: View, h: int) -> dict[int, Context]:
        """What is remembered of each key once all before ``h`` is final."""
        found: dict[int, Context] = {}
        code = view.rows.code[view.first].tolist()
        for walk in self._walked(view, h):
            if not view.over[walk.group]:  # of several groups of a key the first such one goes on
                found.setdefault(code[walk.group], Context(walk.context, tuple(walk.open.values())))
        return found

    def _walked(self, view: View, until: int) -> list[_Walk]:
        key = (self.number, until)
        if key not in view.memo:
            before = view.contexts.get(self.number, {})
            code = view.rows.code[view.first]
            begins = np.append(True, code[1:] != code[:-1])[: code.size]
            view.memo[key] = [
                _Walk(self, view, g, before.get(int(code[g])) if begins[g] else None, until) for g in range(code.size)
            ]
        walks: list[_Walk] = view.memo[key]
        return walks


class _Walk:
    """One group's rows shown to the window, from where they were final up to a time."""

    def __init__(self, bound: BoundContextAware, view: View, group: int, before: Context | None, until: int) -> None:
        self.window, self.group = bound.window, group
        self.first, self.last = int(view.first[group]), int(view.last[group])
        rows = slice(self.first, self.last)
        self.times, self.arrivals = view.time[rows].tolist(), view.fact(ARRIVAL)[rows].tolist()
        self.context = self.window.start() if before is None else before.value
        self.open = {} if before is None else {o.id: o for o in before.open}
        self.found: list[tuple[int, ...]] = []
        self.over = bool(view.over[group])
        until = FOREVER if self.over else until
        columns = [view.rows.values[v][rows] for v in bound.values]
        self.at = int(np.searchsorted(view.time[rows], view.settled))  # rows before it have been shown
        while self.at < len(self.times) and self.times[self.at] < until:
            time = self.times[self.at]
            self._expire(time)
            answer = self.window.see(self.context, time, *(c[self.at] for c in columns))
            self._take(self._checked(answer, "see"), time)
            self.at += 1
        self._expire(until)

    def needed(self) -> int:
        """The position of the first row of what is open."""
        return self.first + min((self.arrivals.index(o.arrival) for o in self.open.values()), default=self.at)

    def unfinished(self) -> list[tuple[int, ...]]:
        if not self.over or not self.window.partial:
            return []
        ends = len(self.times)
        return [self._window(o, ends, self.times[-1], FOREVER) for o in self.open.values()]

    def _expire(self, now: int) -> None:
        """Close what no row can join any more."""
        while (deadline := self.window.deadline(self.context)) is not None and deadline < now:
            context, edges = self._checked(self.window.expired(self.context), "expired")
            self._take((context, [self.window.closes(i) for i in self.open] if edges is _ALL else edges), deadline)
            later = self.window.deadline(self.context)
            if later is not None and later <= deadline:
                raise ValueError(
                    f"{self.window!r}.expired gave a context whose deadline is {later}; it must be later than "
                    f"{deadline}, which has passed, or None"
                )

    def _take(self, answer: tuple[Any, Iterable[Edge]], closes: int) -> None:
        """Apply edges that a row, or a deadline before it, made."""
        self.context, edges = answer
        expired = self.at == len(self.times) or closes < self.times[self.at]
        for edge in edges:
            if edge.opens:
                if expired or edge.id in self.open:
                    why = "only a row opens one" if expired else "it is open already"
                    raise ValueError(f"{self.window!r} opened a window with id={edge.id!r}, but {why}")
                row = self.at
                start = self.times[row] if edge.at is None else edge.at
                self.open[edge.id] = Opened(edge.id, start, self.arrivals[row])
                continue
            if edge.id not in self.open:
                raise ValueError(f"{self.window!r} closed a window with id={edge.id!r}, which is not open")
            opened = self.open.pop(edge.id)
            ends = self.at if edge.before or expired else self.at + 1
            window = self._window(opened, ends, self.times[ends - 1] if edge.at is None else edge.at, closes)
            if window[1] >= window[2]:
                raise ValueError(f"{self.window!r} closed the window with id={edge.id!r} before its first row")
            self.found.append(window)

    def _window(self, opened: Opened, ends: int, end: int, closes: int) -> tuple[int, ...]:
        first = self.first + self.arrivals.index(opened.arrival)
        return self.group, first, self.first + ends, opened.start, end, closes

    def _checked(self, answer: object, method: str) -> tuple[Any, Iterable[Edge]]:
        if isinstance(answer, tuple) and len(answer) == 2:
            edges = answer[1]
            if isinstance(edges, tuple | list) and all(isinstance(e, Edge) for e in edges):
                return answer[0], edges
        raise TypeError(
            f"{self.window!r}.{method} gave {answer!r}; it must return the context and a list of self.opens() and "
            "self.closes()"
        )


def context_json(value: Any) -> Any:
    """A context as JSON has it; refuses one that could not be read back."""
    if isinstance(value, tuple):
        return [context_json(v) for v in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(
        f"a snapshot cannot hold the context {value!r} of a ContextAwareWindow; a context is None, a bool, a number, a "
        "string, or a tuple of such"
    )


def context_value(value: Any) -> Any:
    return tuple(context_value(v) for v in value) if isinstance(value, list) else value
