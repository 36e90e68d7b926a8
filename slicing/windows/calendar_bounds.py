"""Calendar windows in ticks: a table knows their edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slicing.columns.order import distinct, ranges
from slicing.system.arrays import Ints
from slicing.times.calendars import CalendarEdges
from slicing.windows.bounds import BEGIN, Bound, BoundPeriodic, Due


class BoundDays(BoundPeriodic):
    """Days and weeks of a calendar without clock changes, in the years that calendars cover."""

    limited = True

    def __init__(self, table: CalendarEdges, step: int, first: int) -> None:
        super().__init__(step, step, first)
        self.table = table

    def check(self, low: int, high: int) -> None:
        self.table.check_within(low, high, self.every, self.offset)


class BoundCalendar(Bound):
    """Windows that lie side by side; their edges are those of a table."""

    irregular = True

    def __init__(self, table: CalendarEdges) -> None:
        self.table, self.known = table, table.known

    def first_live_start(self, h: int) -> int:
        first, last = self.known
        return BEGIN if h < first else self._first_start(np.array([min(h, last)], np.int64))

    def _first_start(self, time: Ints) -> int:
        """The first start of the windows that hold a time."""
        return int(self.table.previous_edge(time)[0])

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        # The first start of an open window is live; older edges are dead.
        floor = times if (times >= h).all() else np.maximum(times, self.first_live_start(h) - 1)
        return self.table.next_edge(floor)

    def listed(self, low: int, high: int, limit: int) -> Ints | None:
        if high - low > self.table.most_years:
            return None
        last = int(self.table.next_edge(np.array([high], np.int64))[0])
        edges = self.table.edges(low, last)
        return edges if edges.size <= limit else None

    def last_end(self, ends: Ints) -> Ints:
        return self.table.next_edge(ends - 1)

    def due(self, ends: Ints, after: int, until: int) -> Due:
        end = self._ends(ends, after)
        end = end[(end > after) & (end <= until)]
        start = self.start_of(end)
        return Due(start, end, start)

    def _ends(self, ends: Ints, after: int) -> Ints:
        """The ends of the windows that hold any of the slices, ascending; those up to ``after`` may be missing."""
        return distinct(self.table.next_edge(ends - 1))

    def count_due(self, ends: Ints, after: int, until: int) -> int:
        return ends.size * self.overlap

    def count_ends(self, lower: Ints, upper: Ints) -> Ints:
        _, first, last = self._between(lower, upper)
        return last - first

    def ends_in(self, lower: Ints, upper: Ints) -> Ints:
        edges, first, last = self._between(lower, upper)
        return edges[ranges(first, last - first)]

    def _between(self, lower: Ints, upper: Ints) -> tuple[Ints, Ints, Ints]:
        edges = self.table.edges(int(lower.min()), int(upper.max()))
        first, last = (np.searchsorted(edges, times, "right") for times in (lower, upper))
        return edges, first, np.maximum(first, last)

    def start_of(self, ends: Ints) -> Ints:
        return self.table.previous_edge(ends - 1)

    def holding(self, times: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The windows that hold each time, by end: the first of each time, the second ..."""
        end, last = self.table.next_edge(times), self.last_end(times + 1)
        while True:
            yield self.start_of(end), end
            if (end >= last).all():
                return
            end = np.minimum(self.table.next_edge(end), last)


class _BoundSteps(BoundCalendar):
    """Windows that may overlap: each edge of the table ends one."""

    limited = True

    def __init__(self, table: CalendarEdges, longest: int, overlap: int, per_tick: float) -> None:
        super().__init__(table)
        self.longest, self.overlap, self.per_tick = longest, overlap, per_tick

    def check(self, low: int, high: int) -> None:
        self._first_start(np.array([low]))
        self.last_end(np.array([high + 1]))

    def _ends(self, ends: Ints, after: int) -> Ints:
        last = self.last_end(ends)
        some = last > after
        return self.table.runs(self.table.next_edge(ends[some] - 1), last[some])


class BoundCalendarSliding(_BoundSteps):
    """Windows of ``overlap`` units of a table, of which one begins at every edge."""

    def _first_start(self, time: Ints) -> int:
        return int(self.table.moved(self.table.previous_edge(time), 1 - self.overlap)[0])

    def last_end(self, ends: Ints) -> Ints:
        return self.table.moved(self.table.next_edge(ends - 1), self.overlap - 1)

    def start_of(self, ends: Ints) -> Ints:
        return self.table.moved(ends, -self.overlap)


class BoundCalendarCumulate(_BoundSteps):
    """Windows that begin with each unit of ``cycles`` and grow to it by the units of another table."""

    def __init__(
        self, cycles: CalendarEdges, table: CalendarEdges, longest: int, overlap: int, per_tick: float
    ) -> None:
        super().__init__(table, longest, overlap, per_tick)
        self.cycles = cycles
        self.known = max(cycles.known[0], table.known[0]), min(cycles.known[1], table.known[1])

    def _first_start(self, time: Ints) -> int:
        return int(self.cycles.previous_edge(time)[0])

    def last_end(self, ends: Ints) -> Ints:
        return self.cycles.next_edge(ends - 1)

    def start_of(self, ends: Ints) -> Ints:
        return self.cycles.previous_edge(ends - 1)
