"""Where local days, weeks, months, quarters and years begin, through every change of the clocks."""

from __future__ import annotations

import calendar
import functools
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicing.durations import MAX_WORD, SECOND
from slicing.measure import Measure, Words

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_FIRST_SECOND, _END_SECOND = (int(np.datetime64(year, "s").astype(np.int64)) for year in ("0001", "10000"))
_CALENDAR_UNITS = ("1d", "1w", "1mo", "1q", "1y")
_UTC_NAMES = ("UTC", "Etc/UTC")


@dataclass(frozen=True)
class CalendarEdges:
    """Where a zone's days, weeks (from Monday), months, quarters or years begin, as words of a time measure.

    An edge is the instant of local midnight; where the clocks skip midnight, the instant they jump; where it
    happens twice, the first. A date that a zone skipped has no window. Years 1 to 9999.
    """

    unit: str
    tz: str
    measure: Measure

    def __post_init__(self) -> None:
        if self.unit not in _CALENDAR_UNITS:
            allowed = ", ".join(map(repr, _CALENDAR_UNITS))
            raise ValueError(f"unit must be one of {allowed}; got {self.unit!r}")
        check_zone(self.tz)
        if self.measure.is_integer:
            raise TypeError(
                f"calendar windows need a time column of timestamps or dates; its type is {self.measure.type}"
            )
        if pa.types.is_date(self.measure.type) and self.tz not in _UTC_NAMES:
            raise ValueError(
                f"tz must be 'UTC' for a time column of type {self.measure.type}, as dates have no zone; "
                f"got {self.tz!r}"
            )

    @property
    def known(self) -> tuple[int, int]:
        """Times between which all edges are known, whatever the unit and the zone."""
        first, last = (int(np.datetime64(year, "s").astype(np.int64)) for year in ("0002", "9998"))
        return first * SECOND // self.measure.word_ns, last * SECOND // self.measure.word_ns

    def next_edge(self, times: Words) -> Words:
        """The smallest edge after each time."""
        return self._edges(times, 0)

    def previous_edge(self, times: Words) -> Words:
        """The largest edge at or before each time."""
        return self._edges(times, -1)

    def edges(self, lo: int, hi: int) -> Words:
        """All edges in (lo, hi]. Costs as many years as lie between; for scattered times ask `next_edge`."""
        if hi <= lo:
            return np.empty(0, np.int64)
        first, last = self._seconds(np.array([lo, hi], np.int64)).tolist()
        table = _table(self.unit, self.tz).between(first, last)
        begin, end = np.searchsorted(table, [first, last], side="right")
        return self._words(table[begin:end])

    def _edges(self, times: Words, step: int) -> Words:
        seconds = self._seconds(times)
        if not len(seconds):
            return seconds
        table = _table(self.unit, self.tz).covering(seconds)
        # Of the table only what lies between the times is searched: a batch spans a few edges, often none.
        begin, end = np.searchsorted(table, [seconds.min(), seconds.max()], side="right").tolist()
        if begin + step < 0 or end + step == len(table):
            raise self._outside(int(times.min() if begin + step < 0 else times.max()))
        edges = self._words(table[begin + step : end + step + 1])
        return edges[np.searchsorted(table[begin:end], seconds, side="right")]

    def _seconds(self, times: Words) -> Words:
        # Edges are whole seconds, so a time has the edges that its floor in seconds has: one table fits all.
        word_ns = self.measure.word_ns
        if not len(times):
            return np.empty(0, np.int64)
        for time in (int(times.min()), int(times.max())):
            if not _FIRST_SECOND * SECOND <= time * word_ns < _END_SECOND * SECOND:
                raise self._outside(time)
        if word_ns >= SECOND:
            return times * (word_ns // SECOND)
        return times // (SECOND // word_ns)

    def _words(self, seconds: Words) -> Words:
        word_ns = self.measure.word_ns
        if word_ns >= SECOND:
            return seconds // (word_ns // SECOND)
        per_second = SECOND // word_ns
        if len(seconds):
            for second in (int(seconds.min()), int(seconds.max())):
                if abs(second * per_second) > MAX_WORD:
                    raise ValueError(
                        f"a calendar window ({self.unit!r}, {self.tz!r}) has an edge at "
                        f"{np.datetime64(second, 's')}, which does not fit the time column's type, "
                        f"{self.measure.type}"
                    )
        return seconds * per_second

    def _outside(self, time: int) -> ValueError:
        return ValueError(
            f"calendar windows ({self.unit!r}, {self.tz!r}) cover years {_FIRST_YEAR} to {_LAST_YEAR}; "
            f"the time {self.measure.value(time)} ({self.measure.type}) has no whole window there"
        )


def check_zone(tz: object) -> ZoneInfo:
    """The zone of a name, or a sentence saying what a zone is called."""
    allowed = "tz must be the name of a time zone such as 'Europe/Berlin' or 'UTC'"
    if not isinstance(tz, str):
        raise TypeError(f"{allowed}; got {tz!r} of type {type(tz).__name__}")
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{allowed}; got {tz!r}") from None


class _EdgeTable:
    """The edges of one unit in one zone, in seconds since the epoch, built year by year as times need them.

    Years may be missing between those present, but never beside a time that was asked for: local and UTC
    dates differ by at most a day and a unit lasts at most a year, so a time of UTC year y has its edges in
    the years y-1 ... y+2.
    """

    def __init__(self, unit: str, tz: str) -> None:
        self.unit, self.tz = unit, tz
        self._years: dict[int, Words] = {}
        self._edges: Words = np.empty(0, np.int64)
        self._lock = threading.Lock()

    def covering(self, seconds: Words) -> Words:
        """A sorted table that has the edges on both sides of each of the times."""
        least, most = _utc_years(np.array([seconds.min(), seconds.max()])).tolist()
        if most - least < 100:
            return self._with(range(least, most + 1))
        return self._with(np.unique(_utc_years(seconds)).tolist())

    def between(self, first: int, last: int) -> Words:
        least, most = _utc_years(np.array([first, last])).tolist()
        return self._with(range(least, most + 1))

    def _with(self, years: Iterable[int]) -> Words:
        around = {near for year in years for near in range(year - 1, year + 3)}
        with self._lock:
            new = [y for y in around - self._years.keys() if _FIRST_YEAR <= y <= _LAST_YEAR]
            if new:
                self._years.update((year, self._build(year)) for year in new)
                # unique sorts, and drops the second edge of a date that the zone skipped
                self._edges = np.unique(np.concatenate(list(self._years.values())))
            return self._edges

    def _build(self, year: int) -> Words:
        start = np.datetime64(date(year, 1, 1), "D")
        end = start + (366 if calendar.isleap(year) else 365)
        firsts: NDArray[np.datetime64]
        if self.unit == "1d":
            firsts = np.arange(start, end)
        elif self.unit == "1w":
            firsts = np.arange(start + (4 - int(start.astype(np.int64))) % 7, end, 7)
        else:
            months = {"1mo": 1, "1q": 3, "1y": 12}[self.unit]
            firsts = np.arange(0, 12, months) + start.astype("M8[M]")
        midnights: Words = firsts.astype("M8[s]").astype(np.int64)
        if self.tz in _UTC_NAMES:
            return midnights
        zone = ZoneInfo(self.tz)
        days = [datetime(day.year, day.month, day.day, tzinfo=zone) for day in firsts.astype("M8[D]").tolist()]
        offsets = np.array([_offset(day) for day in days], np.int64)  # of a midnight that is skipped that before it
        edges = midnights - offsets
        for at in np.flatnonzero(np.append(offsets[1:] != offsets[:-1], True)).tolist():
            if (after := _offset(days[at].replace(fold=1))) > offsets[at]:
                edges[at] = _jump(zone, int(midnights[at]) - after, int(edges[at]))
        return edges


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


def _jump(zone: ZoneInfo, low: int, high: int) -> int:
    """When the clocks skip a midnight: the first second from ``low`` on with the offset that ``high`` has. Toronto went
    from 23:30 to 0:30 on 30 March 1919."""

    def offset(second: int) -> int:
        return _offset((_EPOCH + timedelta(seconds=second)).astimezone(zone))

    return low + bisect_left(range(low, high), offset(high), key=offset)


@functools.cache
def _table(unit: str, tz: str) -> _EdgeTable:
    return _EdgeTable(unit, tz)


def _utc_years(seconds: Words) -> Words:
    return seconds.astype("M8[s]").astype("M8[Y]").astype(np.int64) + 1970
