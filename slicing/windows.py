"""Window types: what their edges are, and which of their windows hold given slices.

A public window (``tumbling``, ``session`` ...) is a frozen description. ``bind`` resolves its durations against
the time column and gives a *bound* window, in int64 ticks, with the few questions the engine asks:

* where are the edges (``progressions``, ``marks``, ``next_live_edge``), and until when does each one live;
* which windows hold a slice (``due``, ``covers``), a slice being named by the edge that ends it;
* from which start on are windows still open (``first_live_start``).

Everything is in ticks of the time column. A *horizon* ``h`` is the watermark less the allowed lateness: a window
whose ``end <= h`` has left the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.measure import CalendarEdges, Duration, Measure, parse_span

Ints = npt.NDArray[np.int64]
Span = Duration | int

# Times lie within LIMIT and spans within LONGEST, so that no edge reaches BEGIN or END, and none overflows.
LIMIT = (1 << 62) + (1 << 61)  # in nanoseconds the year 2189
LONGEST = 1 << 59
BEGIN = -(1 << 63) + (1 << 60)
END = (1 << 63) - (1 << 60)
FOREVER = (1 << 63) - 1  # a flush closes what ends at any time at all


class Progression(NamedTuple):
    """Edges at every ``phase + k * every``; each lives for ``horizon`` ticks after it (END: for ever)."""

    every: int
    phase: int
    horizon: int


class Mark(NamedTuple):
    """A single edge that lives for ``horizon`` ticks after it."""

    edge: int
    horizon: int


class Due(NamedTuple):
    """Windows that hold rows, by end and start. ``need``: a row after this edge is required (else ``start``)."""

    start: Ints
    end: Ints
    need: Ints


class Bound:
    """A window type in ticks. ``periodic`` ones are answered by kernels from ``(size, every, offset)``."""

    progressions: tuple[Progression, ...] = ()
    marks: tuple[Mark, ...] = ()
    periodic: tuple[int, int, int] | None = None
    irregular = False  # has edges that only ``next_live_edge`` knows
    gapless = True  # every time is in at least one window
    open_start = False  # window_start is null
    longest = 0  # the longest span its arithmetic adds to a time

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        raise NotImplementedError

    def covers(self, ends: Ints) -> npt.NDArray[np.bool_]:
        """Whether any window holds the slice that ends there."""
        return np.ones(ends.size, np.bool_)

    def first_live_start(self, h: int) -> int:
        """Windows that have not left (``end > h``) start here or later."""
        raise NotImplementedError

    def last_end(self, ends: Ints) -> Ints:
        """The largest end of a window that holds the slice; BEGIN where none does."""
        raise NotImplementedError

    def due(self, ends: Ints, after: int, until: int) -> Due:
        """Windows with ``after < end <= until`` that hold one of the slices (``ends`` ascending)."""
        raise NotImplementedError

    def all_ends(self, low: int, high: int) -> Ints:
        """The ends of all windows, empty or not, with ``low <= end <= high`` (fill)."""
        raise NotImplementedError

    def start_of(self, ends: Ints) -> Ints:
        """Where the windows that end there start (fill)."""
        raise NotImplementedError


class BoundPeriodic(Bound):
    def __init__(self, size: int, every: int, offset: int) -> None:
        self.size, self.every, self.offset = size, every, offset % every
        self.longest = max(size, every)
        self.periodic = (size, every, self.offset)
        self.gapless = every <= size
        self.progressions = (
            Progression(every, self.offset, size),
            Progression(every, (offset + size) % every, 0),
        )

    def first_live_start(self, h: int) -> int:
        return (h - self.size - self.offset) // self.every * self.every + self.every + self.offset

    def last_end(self, ends: Ints) -> Ints:
        start = (ends - 1 - self.offset) // self.every * self.every + self.offset
        return np.where(start + self.size >= ends, start + self.size, BEGIN)

    def covers(self, ends: Ints) -> npt.NDArray[np.bool_]:
        return self.last_end(ends) > BEGIN

    def all_ends(self, low: int, high: int) -> Ints:
        first = -((self.offset + self.size - low) // self.every) * self.every + self.offset + self.size
        return np.arange(first, high + 1, self.every)

    def start_of(self, ends: Ints) -> Ints:
        return ends - self.size


class BoundCumulate(Bound):
    def __init__(self, size: int, every: int, offset: int) -> None:
        self.size, self.every, self.offset = size, every, offset % size
        self.longest = size
        self.progressions = (Progression(size, self.offset, size), Progression(every, offset % every, 0))

    def _cycle(self, ends: Ints) -> Ints:
        return (ends - 1 - self.offset) // self.size * self.size + self.offset

    def first_live_start(self, h: int) -> int:
        return (h - self.offset) // self.size * self.size + self.offset

    def last_end(self, ends: Ints) -> Ints:
        return self._cycle(ends) + self.size

    def due(self, ends: Ints, after: int, until: int) -> Due:
        first = -((self.offset - ends) // self.every) * self.every + self.offset
        last = self._cycle(ends) + self.size
        end = _steps(np.maximum(first, _next_multiple(after, self.every, self.offset)), last, self.every, until)
        start = self._cycle(end)
        return Due(start, end, start)

    def all_ends(self, low: int, high: int) -> Ints:
        return np.arange(-((self.offset - low) // self.every) * self.every + self.offset, high + 1, self.every)

    def start_of(self, ends: Ints) -> Ints:
        return self._cycle(ends)


class BoundLandmark(Bound):
    def __init__(self, every: int, start: int | None) -> None:
        self.every, self.start, self.longest = every, start, every
        self.gapless = self.open_start = start is None
        # An edge is asked for once more by the next window: has the key had a row since?
        self.progressions = (Progression(every, 0, every),)
        if start is not None:
            self.marks = (Mark(start, END),)

    def first_live_start(self, h: int) -> int:
        return BEGIN if self.start is None else self.start

    def covers(self, ends: Ints) -> npt.NDArray[np.bool_]:
        return np.ones(ends.size, np.bool_) if self.start is None else ends > self.start

    def last_end(self, ends: Ints) -> Ints:
        return np.where(self.covers(ends), END, BEGIN)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        end = np.unique(-(-ends[self.covers(ends)] // self.every) * self.every)
        end = end[(end > after) & (end <= until)]
        start = np.full(end.size, BEGIN if self.start is None else self.start, np.int64)
        return Due(start, end, np.maximum(end - self.every, start))


class BoundFixed(Bound):
    gapless = False

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.marks = (Mark(start, end - start), Mark(end, 0))

    def first_live_start(self, h: int) -> int:
        return self.start if self.end > h else END

    def covers(self, ends: Ints) -> npt.NDArray[np.bool_]:
        return (ends > self.start) & (ends <= self.end)

    def last_end(self, ends: Ints) -> Ints:
        return np.where(self.covers(ends), self.end, BEGIN)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        if not (after < self.end <= until and self.covers(ends).any()):
            return _no_windows()
        start = np.array([self.start], np.int64)
        return Due(start, np.array([self.end], np.int64), start)


class BoundCalendar(Bound):
    irregular = True

    def __init__(self, table: CalendarEdges) -> None:
        self.table = table

    def _floor(self, h: int) -> int:
        return int(self.table.previous_edge(np.array([h], np.int64))[0]) if BEGIN < h < END else h

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        # The newest edge at or before h still starts an open window; older ones are dead.
        floor = times if (times >= h).all() else np.maximum(times, self._floor(h) - 1)
        return self.table.next_edge(floor)

    def first_live_start(self, h: int) -> int:
        return self._floor(h)

    def last_end(self, ends: Ints) -> Ints:
        return self.table.next_edge(ends - 1)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        end = np.unique(self.table.next_edge(ends - 1))
        end = end[(end > after) & (end <= until)]
        start = self.start_of(end)
        return Due(start, end, start)

    def all_ends(self, low: int, high: int) -> Ints:
        return self.table.edges(low - 1, high)

    def start_of(self, ends: Ints) -> Ints:
        return self.table.previous_edge(ends - 1)


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
                held = tuple((int(a), int(b)) for a, b in given)
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
            return _no_windows()
        start, end = np.array(sorted(found, key=lambda w: (w[1], w[0])), np.int64).T
        return Due(start, end, start)


def _no_windows() -> Due:
    none = np.empty(0, np.int64)
    return Due(none, none, none)


def _next_multiple(after: int, every: int, phase: int) -> int:
    return max((after - phase) // every * every + every + phase, BEGIN)


def _steps(first: Ints, last: Ints, every: int, until: int) -> Ints:
    """The distinct values of all ranges ``first, first + every .. last`` that are at most ``until``."""
    count = np.maximum((np.minimum(last, until) - first) // every + 1, 0)
    offset = np.cumsum(count) - count
    steps = np.arange(count.sum()) - np.repeat(offset, count)
    return np.unique(np.repeat(first, count) + steps * every)


# --- the public descriptions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """A window type of a :class:`~slicing.Spec`; frozen, hashable, prints as the code that builds it."""

    _constructor: ClassVar[str] = ""

    def __repr__(self) -> str:
        parts: list[str] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value == f.default:
                continue
            shown = repr(str(value)) if isinstance(value, Duration) else repr(value)
            named = f.default is not MISSING or (f.name == "every" and parts)
            parts.append(f"{f.name}={shown}" if named else shown)
        return f"sl.{self._constructor}({', '.join(parts)})"


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


@dataclass(frozen=True, repr=False)
class _BuiltIn(Window, ContextFreeWindow):
    """Built-in context-free windows answer the questions of the public base class too, in plain ticks."""

    def bind(self, measure: Measure) -> Bound:
        raise NotImplementedError

    def _in_ticks(self) -> Bound:
        import pyarrow as pa

        return self.bind(Measure.of(pa.int64(), "time"))

    def next_edge(self, times: Ints) -> Ints:
        from slicing.plan import EdgeSet  # the engine's own arithmetic, asked about one window

        return EdgeSet([self._in_ticks()]).next_live(np.asarray(times, np.int64), BEGIN)

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        from slicing.plan import EdgeSet

        bound = self._in_ticks()
        end = EdgeSet([bound]).next_live(np.array([time], np.int64), BEGIN)
        due = EdgeSet([bound]).due(end, BEGIN, END)
        return list(zip(due.start.tolist(), due.end.tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class Sliding(_BuiltIn):
    _constructor: ClassVar[str] = "sliding"
    size: Span
    every: Span
    offset: Span = 0
    fill: bool = False

    def bind(self, measure: Measure) -> Bound:
        size, every = measure.ticks(self.size, "size"), measure.ticks(self.every, "every")
        return BoundPeriodic(size, every, measure.ticks(self.offset, "offset"))


@dataclass(frozen=True, repr=False)
class Tumbling(_BuiltIn):
    _constructor: ClassVar[str] = "tumbling"
    size: Span
    offset: Span = 0
    fill: bool = False

    def bind(self, measure: Measure) -> Bound:
        size = measure.ticks(self.size, "size")
        return BoundPeriodic(size, size, measure.ticks(self.offset, "offset"))


@dataclass(frozen=True, repr=False)
class Cumulate(_BuiltIn):
    _constructor: ClassVar[str] = "cumulate"
    size: Span
    every: Span
    offset: Span = 0
    fill: bool = False

    def bind(self, measure: Measure) -> Bound:
        size, every = measure.ticks(self.size, "size"), measure.ticks(self.every, "every")
        return BoundCumulate(size, every, measure.ticks(self.offset, "offset"))


@dataclass(frozen=True, repr=False)
class Landmark(_BuiltIn):
    _constructor: ClassVar[str] = "landmark"
    every: Span
    start: object = None

    def bind(self, measure: Measure) -> Bound:
        start = None if self.start is None else measure.instant(self.start, "landmark's start")
        return BoundLandmark(measure.ticks(self.every, "every"), start)


@dataclass(frozen=True, repr=False)
class Fixed(_BuiltIn):
    _constructor: ClassVar[str] = "fixed"
    start: object
    end: object

    def bind(self, measure: Measure) -> Bound:
        start, end = measure.instant(self.start, "fixed's start"), measure.instant(self.end, "fixed's end")
        if start >= end:
            raise ValueError(f"fixed's end must be later than its start; got {self.start!r} to {self.end!r}")
        return BoundFixed(start, end)


@dataclass(frozen=True, repr=False)
class Calendar(Window, ContextFreeWindow):
    _constructor: ClassVar[str] = "calendar"
    unit: str
    tz: str = "UTC"
    fill: bool = False

    def bind(self, measure: Measure) -> Bound:
        return BoundCalendar(CalendarEdges(self.unit, self.tz, measure))


@dataclass(frozen=True, repr=False)
class Session(Window):
    _constructor: ClassVar[str] = "session"
    gap: Span


@dataclass(frozen=True, repr=False)
class Whole(Window):
    _constructor: ClassVar[str] = "whole"


def tumbling(size: object, offset: object = 0, *, fill: bool = False) -> Tumbling:
    """Windows of one size, side by side: ``[k*size + offset, ... + size)``."""
    return Tumbling(_positive(size, "size"), parse_span(offset, "offset"), _flag(fill, "fill"))


def sliding(size: object, every: object, offset: object = 0, *, fill: bool = False) -> Sliding:
    """Windows of ``size`` that start at every multiple of ``every``; ``every > size`` leaves gaps."""
    size, every = _positive(size, "size"), _positive(every, "every")
    _same_kind(size, every, "size", "every")
    return Sliding(size, every, parse_span(offset, "offset"), _flag(fill, "fill"))


def cumulate(size: object, every: object, offset: object = 0, *, fill: bool = False) -> Cumulate:
    """Windows that grow by ``every`` until they are ``size`` long, then start anew."""
    size, every = _positive(size, "size"), _positive(every, "every")
    _same_kind(size, every, "size", "every")
    if _amount(size) % _amount(every):
        raise ValueError(f"cumulate's size must be a whole multiple of every; got size={size}, every={every}")
    return Cumulate(size, every, parse_span(offset, "offset"), _flag(fill, "fill"))


def landmark(every: object, start: object = None) -> Landmark:
    """Windows from one start to every multiple of ``every`` after it, never reset."""
    return Landmark(_positive(every, "every"), None if start is None else _point(start, "landmark's start"))


def fixed(start: object, end: object) -> Fixed:
    """One band of time, ``[start, end)``."""
    if start is None or end is None:
        raise TypeError(f"fixed needs a start and an end; got start={start!r}, end={end!r}")
    start, end = _point(start, "fixed's start"), _point(end, "fixed's end")
    if isinstance(start, int) and isinstance(end, int) and start >= end:
        raise ValueError(f"fixed's end must be later than its start; got {start!r} to {end!r}")
    return Fixed(start, end)


def calendar(unit: str, tz: str = "UTC", *, fill: bool = False) -> Calendar:
    """Local days, weeks (from Monday), months, quarters or years of a time zone, 23 h and 25 h days included."""
    import pyarrow as pa

    CalendarEdges(unit, tz, Measure.of(pa.timestamp("us", "UTC"), "time"))  # refuses a wrong unit or zone
    return Calendar(unit, tz, _flag(fill, "fill"))


def session(gap: object) -> Session:
    """Maximal runs of a key's rows whose neighbours are at most ``gap`` apart: ``[first, last + gap)``."""
    return Session(_positive(gap, "gap"))


def whole() -> Whole:
    """The whole stream of a key as one window, answered at flush, from its first row's time to its last row's."""
    return Whole()


def _positive(value: object, argument: str) -> Span:
    return parse_span(value, argument, positive=True)


def _point(value: object, argument: str) -> object:
    """A point in time: a whole number for integer measures, otherwise what says a moment."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    import pyarrow as pa

    Measure.of(pa.timestamp("ns", "UTC"), "time").instant(value, argument)  # refuses what is no moment at all
    return value


def _flag(value: object, argument: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{argument} must be True or False; got {value!r}")
    return value


def _amount(span: Span) -> int:
    return span.ns if isinstance(span, Duration) else span


def _same_kind(a: Span, b: Span, name_a: str, name_b: str) -> None:
    if isinstance(a, Duration) != isinstance(b, Duration):
        raise TypeError(
            f"{name_a} and {name_b} must both be durations or both be whole numbers; got {str(a)!r} and {str(b)!r}"
        )


__all__ = [
    "ContextFreeWindow",
    "calendar",
    "cumulate",
    "fixed",
    "landmark",
    "session",
    "sliding",
    "tumbling",
    "whole",
]
