"""Bound windows: the edges of a window type in ticks, and which of its windows hold given slices.

A window of a spec, resolved against the time column, answers the questions of the engine:

* where the edges are (``progressions``, ``marks``, ``next_live_edge``), and how long each edge lives;
* which windows hold a slice (``due``, ``covers``); a slice is named by the edge that ends it;
* from which start on windows are still open (``first_live_start``).

Everything is in ticks of the time column. A *horizon* ``h`` is the watermark less the allowed lateness: a window
whose ``end <= h`` has left the store.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slicing.columns.order import distinct, ranges
from slicing.system.arrays import MOST, Ints, Mask

# Times lie within LIMIT and spans within LONGEST, so that no edge reaches BEGIN or END, and none overflows.
LIMIT = (1 << 62) + (1 << 61)  # in nanoseconds the year 2189
APART = (1 << 63) - (1 << 60) - 1  # most distance of edges, so that differences fit: 255 years of nanoseconds
LONGEST = 1 << 59
BEGIN = -(1 << 63) + (1 << 60)
END = (1 << 63) - (1 << 60)
FOREVER = MOST  # a flush closes windows of any end


class Progression(NamedTuple):
    """Edges at every ``phase + k * every``; each lives for ``horizon`` ticks after its time (END: for ever)."""

    every: int
    phase: int
    horizon: int


class Mark(NamedTuple):
    """A single edge that lives for ``horizon`` ticks after its time."""

    edge: int
    horizon: int


class Due(NamedTuple):
    """Windows that hold rows, by end and start. A window is due only with a row after ``need`` (usually ``start``)."""

    start: Ints
    end: Ints
    need: Ints


class Bound:
    """A window type in ticks. Kernels answer ``periodic`` types from ``(size, every, offset)``."""

    progressions: tuple[Progression, ...] = ()
    marks: tuple[Mark, ...] = ()
    periodic: tuple[int, int, int] | None = None
    irregular = False  # some edges are known to ``next_live_edge`` only
    known = (BEGIN, END)  # the range in which it knows them: a watermark may be outside, rows may not
    limited = False  # some times are in no window, or in some that are not known: see ``check``
    asks_rows = False  # needs rows whose edges are known (``row_edges``)
    gapless = True  # every time is in at least one window
    open_start = False  # window_start is null
    longest = 0  # the longest span its arithmetic adds to a time
    overlap = 1  # how many windows hold a slice, at most
    per_tick = 0.0  # how many end in a tick of time, if more than one may hold a slice

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        raise NotImplementedError

    def check(self, low: int, high: int) -> None:
        """Raise if times between these are outside of the windows that are known."""

    def row_edges(self, times: Ints) -> Ints:
        """The next edge after each row's time. Raises for windows that contradict the edges there."""
        return self.next_live_edge(times, BEGIN)

    def listed(self, low: int, high: int, limit: int) -> Ints | None:
        """All edges after ``low`` up to the first one after ``high``. None: only rows show them, or (irregular types)
        there are more than ``limit``."""
        return None

    @property
    def farthest(self) -> int:
        """How far from a row the bounds of its windows are at most."""
        return self.longest

    def covers(self, ends: Ints) -> Mask:
        """Whether any window holds the slice that ends at each edge."""
        return np.ones(ends.size, np.bool_)

    def first_live_start(self, h: int) -> int:
        """The first start of windows that have not left the store (``end > h``), or a time before it."""
        raise NotImplementedError

    def last_end(self, ends: Ints) -> Ints:
        """The largest end of a window that holds each slice; BEGIN if there is none."""
        raise NotImplementedError

    def latest_end(self, ends: Ints) -> int:
        """The largest end of a window that holds any of the slices."""
        return int(self.last_end(ends).max(initial=BEGIN))

    def end_with(self, end: int) -> int:
        """The latest end of the windows that are due because of the rows of one slice."""
        return self.latest_end(np.array([end]))

    def due(self, ends: Ints, after: int, until: int) -> Due:
        """Windows with ``after < end <= until`` that hold one of the slices (``ends`` ascending)."""
        raise NotImplementedError

    def count_due(self, ends: Ints, after: int, until: int) -> int:
        """At most how many windows are due."""
        return ends.size

    def count_ends(self, lower: Ints, upper: Ints) -> Ints:
        """How many windows, empty or not, end in each of the spans ``lower < end <= upper`` (fill)."""
        raise NotImplementedError

    def ends_in(self, lower: Ints, upper: Ints) -> Ints:
        """The ends of all windows that end in each span, one span after the other (fill)."""
        raise NotImplementedError

    def start_of(self, ends: Ints) -> Ints:
        """The start of the window that ends at each edge (fill)."""
        raise NotImplementedError


class _Regular(Bound):
    """Windows that end at every ``phase + k * every``."""

    every: int
    phase: int

    def _ended(self, times: Ints) -> Ints:
        """The number of the last window that ends at or before each time."""
        return (times - self.phase) // self.every

    def count_ends(self, lower: Ints, upper: Ints) -> Ints:
        count = self._ended(np.maximum(lower, upper)) - self._ended(lower)
        return np.minimum(count.view(np.uint64), FOREVER).astype(np.int64)

    def ends_in(self, lower: Ints, upper: Ints) -> Ints:
        return ranges(self._ended(lower) + 1, self.count_ends(lower, upper)) * self.every + self.phase

    def count_due(self, ends: Ints, after: int, until: int) -> int:
        last = self.last_end(ends)
        counted = np.append(BEGIN, last[:-1])  # windows that also hold the slice before
        lower = np.maximum(np.maximum(counted, ends - 1), after)
        return int(self.count_ends(lower, np.minimum(last, until)).sum(dtype=float))


class BoundPeriodic(_Regular):
    def __init__(self, size: int, every: int, offset: int) -> None:
        self.size, self.every, self.offset = size, every, offset % every
        self.phase = (offset + size) % every
        self.longest, self.overlap, self.per_tick = max(size, every), -(-size // every), 1 / every
        self.periodic = (size, every, self.offset)
        self.gapless = every <= size
        self.progressions = (
            Progression(every, self.offset, size),
            Progression(every, self.phase, 0),
        )

    def first_live_start(self, h: int) -> int:
        return (h - self.size - self.offset) // self.every * self.every + self.every + self.offset

    def last_end(self, ends: Ints) -> Ints:
        start = (ends - 1 - self.offset) // self.every * self.every + self.offset
        return np.where(start + self.size >= ends, start + self.size, BEGIN)

    def covers(self, ends: Ints) -> Mask:
        return self.last_end(ends) > BEGIN

    def start_of(self, ends: Ints) -> Ints:
        return ends - self.size


class BoundCumulate(_Regular):
    def __init__(self, size: int, every: int, offset: int) -> None:
        self.size, self.every, self.offset, self.phase = size, every, offset % size, offset % every
        self.longest, self.overlap, self.per_tick = size, size // every, 1 / every
        self.progressions = (Progression(size, self.offset, size), Progression(every, self.phase, 0))

    def _cycle(self, ends: Ints) -> Ints:
        return (ends - 1 - self.offset) // self.size * self.size + self.offset

    def first_live_start(self, h: int) -> int:
        return (h - self.offset) // self.size * self.size + self.offset

    def last_end(self, ends: Ints) -> Ints:
        return self._cycle(ends) + self.size

    def due(self, ends: Ints, after: int, until: int) -> Due:
        cycle, earliest = np.unique(self._cycle(ends), return_index=True)  # the same windows hold later slices
        first = -((self.offset - ends[earliest]) // self.every) * self.every + self.offset
        last = cycle + self.size
        soonest = max((after - self.offset) // self.every * self.every + self.every + self.offset, BEGIN)
        end = _steps(np.maximum(first, soonest), last, self.every, until)
        start = self._cycle(end)
        return Due(start, end, start)

    def start_of(self, ends: Ints) -> Ints:
        return self._cycle(ends)


class BoundLandmark(Bound):
    def __init__(self, every: int, start: int | None) -> None:
        self.every, self.start, self.longest = every, start, every
        self.gapless = self.open_start = start is None
        # The next window needs an edge again, to know whether the key has had a row since.
        self.progressions = (Progression(every, 0, every),)
        if start is not None:
            self.marks = (Mark(start, END),)

    def first_live_start(self, h: int) -> int:
        return BEGIN if self.start is None else self.start

    def covers(self, ends: Ints) -> Mask:
        return np.ones(ends.size, np.bool_) if self.start is None else ends > self.start

    def last_end(self, ends: Ints) -> Ints:
        return np.where(self.covers(ends), END, BEGIN)

    def end_with(self, end: int) -> int:  # later windows need later rows
        return -(-end // self.every) * self.every

    def due(self, ends: Ints, after: int, until: int) -> Due:
        end = distinct(-(-ends[self.covers(ends)] // self.every) * self.every)
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

    def covers(self, ends: Ints) -> Mask:
        return (ends > self.start) & (ends <= self.end)

    def last_end(self, ends: Ints) -> Ints:
        return np.where(self.covers(ends), self.end, BEGIN)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        if not (after < self.end <= until and self.covers(ends).any()):
            return no_windows()
        start = np.array([self.start], np.int64)
        return Due(start, np.array([self.end], np.int64), start)


def no_windows() -> Due:
    none = np.empty(0, np.int64)
    return Due(none, none, none)


def _steps(first: Ints, last: Ints, every: int, until: int) -> Ints:
    """The distinct values of all ranges ``first, first + every .. last`` that are at most ``until``."""
    last = np.minimum(last, until)
    some = first <= last  # others may be further apart than 64 bits
    first, last = first[some], last[some]
    count = (last - first) // every + 1
    offset = np.cumsum(count) - count
    steps = np.arange(count.sum()) - np.repeat(offset, count)
    return distinct(np.repeat(first, count) + steps * every)
