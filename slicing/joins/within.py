"""A band or windows in ticks of the common time: which times a row reaches, and which rows are done."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from slicing.columns.order import distinct
from slicing.joins.arguments import shown_spans
from slicing.joins.spec import JoinSpec
from slicing.system.arrays import LEAST, MOST, Ints, Mask
from slicing.times.calendars import CalendarEdges
from slicing.times.measure import Measure
from slicing.windows.builtin import Tumbling
from slicing.windows.calendar import Calendar

LEFT, RIGHT = 0, 1
PARTS = 8  # slices of time per band length; a run without limit makes the longest push 4 times as long


class Reach(NamedTuple):
    """Partners of row i have times from ``low[i] - back`` to ``high[i] + forth``; none if ``low[i] > high[i]``."""

    low: Ints
    high: Ints
    back: int
    forth: int

    def bounds(self) -> tuple[int, int]:
        """The least and the largest time that any row may reach."""
        return int(self.low.min()) - self.back, int(self.high.max()) + self.forth


class Within(Protocol):
    """The interface that bands, windows and the ranges of features share."""

    step: int  # ticks of a slice of time that is kept together; 0: only one slice

    def done(self, side: int, other: int | None) -> int | None:
        """Rows of this side up to this time are done at the other side's watermark ``other``; None: no rows."""

    def below(self, side: int, others: Ints) -> Ints:
        """``done`` for many watermarks: rows of this side before these times are done. MOST: all rows are done."""


class Band:
    """``left - before <= right <= left + after``, both ends inclusive; None means unbounded."""

    def __init__(self, before: int | None, after: int | None) -> None:
        self.before, self.after = before, after
        self.step = 0 if before is None or after is None else max((before + after) // PARTS, 1)

    def reach(self, times: Ints, side: int) -> Reach:
        """The times in which the partners of each row of this side may lie."""
        back, forth = (self.before, self.after) if side == LEFT else (self.after, self.before)
        if not times.size:
            return Reach(times, times, 0, 0)
        span = int(times.min()), int(times.max())
        if back is not None and forth is not None:
            ends = [time + by for time in span for by in (-back, forth)]
            if min(ends) >= LEAST and max(ends) <= MOST:
                return Reach(times, times, back, forth)
        low, out_low = _moved(times, None if back is None else -back, span, LEAST)
        high, out_high = _moved(times, forth, span, MOST)
        if out_low is not None or out_high is not None:
            nobody: Mask = np.zeros(times.size, np.bool_)
            nobody |= False if out_low is None else out_low
            nobody |= False if out_high is None else out_high
            low[nobody], high[nobody] = MOST, LEAST
        return Reach(low, high, 0, 0)

    def done(self, side: int, other: int | None) -> int | None:
        ahead = self.after if side == LEFT else self.before
        if other is None or ahead is None or other - ahead - 1 < LEAST:
            return None
        return min(other - ahead - 1, MOST)

    def below(self, side: int, others: Ints) -> Ints:
        ahead = self.after if side == LEFT else self.before
        return np.where(others == MOST, MOST, LEAST) if ahead is None else behind(others, ahead)


class Windows:
    """Left and right rows are partners if they lie in the same window ``[start, end)``."""

    def __init__(self, window: Tumbling | Calendar, measure: Measure) -> None:
        self._measure = measure
        self._calendar = None
        self._size, self._offset = 0, 0
        if isinstance(window, Calendar):
            self._calendar = CalendarEdges(window.unit, window.tz, measure, window.offset)
            self.step = 0
        else:
            self._size = measure.ticks(window.size, "within's size")
            self._offset = measure.ticks(window.offset, "within's offset") % self._size
            self.step = max(self._size // PARTS, 1)

    def check(self, times: Ints, column: str, shown: bool) -> None:
        """Raise if a window of these times, which ``column`` holds, has a bound that does not fit 64 bits or, if bounds
        are ``shown``, the type of the time column."""
        if self._calendar is not None or not times.size:
            return
        least, most = self._measure.range if shown else (LEAST, MOST)
        for time in (int(times.min()), int(times.max())):
            start = self.floor(time)
            if start < max(least, LEAST) or start + self._size > min(most, MOST):
                raise ValueError(
                    f"{column} holds {time}, which lies in a window [{start}, {start + self._size}) whose bounds a "
                    f"column of type {self._measure.type if shown else 'int64'} cannot hold; such rows cannot be "
                    "joined by windows: cast the column to int64"
                )

    def bounds(self, times: Ints) -> tuple[Ints, Ints]:
        """Start and end of the window that holds each time."""
        if self._calendar is not None:
            return self._calendar.previous_edge(times), self._calendar.next_edge(times)
        # times less the offset may overflow, remainders do not
        starts = times - (times % self._size - self._offset) % self._size
        return starts, starts + self._size

    def reach(self, times: Ints, side: int) -> Reach:
        """As ``Band.reach``."""
        start, end = self.bounds(times)
        return Reach(start, end, 0, -1)

    def done(self, side: int, other: int | None) -> int | None:
        if other is None:
            return None
        until = self.floor(other) - 1
        return None if until < LEAST else until

    def below(self, side: int, others: Ints) -> Ints:
        marks = distinct(others)
        floors = [MOST if mark == MOST else max(LEAST, self.floor(mark)) for mark in marks.tolist()]
        return np.array(floors, np.int64)[np.searchsorted(marks, others)]

    def floor(self, watermark: int) -> int:
        if self._calendar is None:
            return (watermark - self._offset) // self._size * self._size + self._offset
        first, last = self._calendar.known
        if watermark < first:
            return LEAST
        return int(self._calendar.previous_edge(np.array([min(watermark, last)], np.int64))[0])


def behind(times: Ints, by: int) -> Ints:
    """Times moved back by ``by``, clipped to 64 bits; MOST (the end of all time) does not move."""
    if by > 0:
        moved = np.where(times < LEAST + by, LEAST, times - min(by, MOST))
    else:
        moved = np.where(times > MOST + max(by, -MOST), MOST, times - max(by, -MOST))
    return np.where(times == MOST, MOST, moved)


def bound(spec: JoinSpec, measure: Measure, known: bool) -> Band | Windows:
    """The band or windows of a spec in ticks. An open end becomes a closed end one tick nearer, once the columns of
    both sides are ``known``: those of the other side may have a finer tick, and nothing is joined before."""
    if not isinstance(spec.within, tuple):
        return Windows(spec.within, measure)
    before, after = (
        None if span is None else measure.ticks(span, f"within's {name}")
        for name, span in zip(("before", "after"), spec.within, strict=True)
    )
    if not known:
        return Band(before, after)
    if before is not None and spec.closed in ("right", "none"):
        before -= 1
    if after is not None and spec.closed in ("left", "none"):
        after -= 1
    if before is not None and after is not None and before + after < 0:
        raise ValueError(
            f"within={shown_spans(spec.within)} with closed={spec.closed!r} holds no time at all: the time columns "
            f"count in {measure.unit_name}, and none lies between its ends; give a wider band, or closed='both'"
        )
    return Band(before, after)


def _moved(times: Ints, by: int | None, span: tuple[int, int], unbounded: int) -> tuple[Ints, Mask | None]:
    """Times moved by ``by``, clipped to 64 bits, and a mask of rows that can have no partner, because the bound is
    moved beyond the range of all times; None for no such row."""
    if by is None:
        return np.full(times.size, unbounded), None
    least, most = span
    if least + by >= LEAST and most + by <= MOST:
        return times + by, None
    over = times > MOST - by if by > 0 else np.zeros(times.size, np.bool_)
    under = times < LEAST - by if by < 0 else np.zeros(times.size, np.bool_)
    moved = np.where(over, MOST, np.where(under, LEAST, times + by))
    return moved, over if unbounded == LEAST else under
