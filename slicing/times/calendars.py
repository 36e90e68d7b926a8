"""Where local hours, days, weeks, months and years begin, including changes of the clocks."""

from __future__ import annotations

import functools
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicing.columns.order import ranges
from slicing.times.calendar_units import DAY, UTC_NAMES, Unit, calendar_unit, check_zone, months_and_seconds
from slicing.times.durations import MAX_WORD, SECOND
from slicing.times.measure import Measure, Words

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_FIRST_SECOND, _END_SECOND = (int(np.datetime64(year, "s").astype(np.int64)) for year in ("0001", "10000"))
_MANY_YEARS = 100
_SAMPLED = DAY // 2  # seconds within which no zone changes its clocks twice


@dataclass(frozen=True)
class CalendarEdges:
    """Where a zone's hours, days, weeks (from Monday), months, quarters or years begin, as words of a time measure.

    An edge of days is the instant of local midnight. If the clocks skip midnight, it is the instant of the jump; if
    midnight occurs twice, the first one. A date that a zone skipped has no window. Several days, weeks and months are
    counted from 1970-01-01, its first Monday and its January. Years 1 to 9999.

    Hours and minutes are those that the clock shows. If it goes back by less than a unit, it counts as standing still,
    and a window is longer by the change. If it goes back by a unit or more, windows repeat.
    """

    unit: str
    tz: str
    measure: Measure
    offset: str | None = None  # how much later units begin, on the zone's clock
    span: str | None = None  # the longer unit that ``moved`` goes over

    def __post_init__(self) -> None:
        unit = Unit.of(calendar_unit(self.unit))
        if pa.types.is_date(self.measure.type) and unit.by_clock:
            raise ValueError(
                f"units must be whole days for a time column of type {self.measure.type}; got {self.unit!r}"
            )
        if pa.types.is_date(self.measure.type) and months_and_seconds(self.offset)[1] % DAY:
            raise ValueError(
                f"offset must be whole days for a time column of type {self.measure.type}; got {self.offset!r}"
            )
        check_zone(self.tz)
        if self.measure.is_integer:
            raise TypeError(
                f"calendar windows need a time column of timestamps or dates; its type is {self.measure.type}"
            )
        if pa.types.is_date(self.measure.type) and self.tz not in UTC_NAMES:
            raise ValueError(
                f"tz must be 'UTC' for a time column of type {self.measure.type}, as dates have no zone; "
                f"got {self.tz!r}"
            )

    @property
    def known(self) -> tuple[int, int]:
        """The times between which all edges are known, for any unit and zone."""
        reach = _reach(self.unit, self.offset, self.span)
        years = (f"{_FIRST_YEAR + reach:04}", f"{_LAST_YEAR - reach}")
        first, last = (int(np.datetime64(year, "s").astype(np.int64)) for year in years)
        return first * SECOND // self.measure.word_ns, last * SECOND // self.measure.word_ns

    @property
    def most_years(self) -> int:
        """The most distance of two times between which all edges can be listed."""
        return _MANY_YEARS * 366 * 86_400 * SECOND // self.measure.word_ns

    def next_edge(self, times: Words) -> Words:
        """The smallest edge after each time."""
        return self._edges(times, 0)

    def previous_edge(self, times: Words) -> Words:
        """The largest edge at or before each time."""
        return self._edges(times, -1)

    def moved(self, edges: Words, units: int) -> Words:
        """The edge so many units after each of these edges, before it if negative; at most ``span`` away."""
        seconds = self._seconds(edges)
        if not len(seconds):
            return seconds
        table = self._table.covering(seconds)
        place = np.searchsorted(table, seconds) + units
        if place.min() < 0 or place.max() >= len(table):
            raise self._outside(int(edges.min() if place.min() < 0 else edges.max()))
        return self._words(table[place])

    def runs(self, edges: Words, last: Words) -> Words:
        """Each of these ascending edges and those after it up to a last one, at most ``span`` away, each once."""
        first, end = (self._seconds(side) for side in (edges, last))
        if not len(first):
            return first
        table = self._table.covering(first)
        begin, stop = np.searchsorted(table, first), np.searchsorted(table, end, "right")
        begin[1:] = np.maximum(begin[1:], stop[:-1])  # the run before has them
        return self._words(table[ranges(begin, stop - begin)])

    def edges(self, lo: int, hi: int) -> Words:
        """All edges in (lo, hi]. The cost grows with the years in between; for scattered times use `next_edge`."""
        if hi <= lo:
            return np.empty(0, np.int64)
        first, last = self._seconds(np.array([lo, hi], np.int64)).tolist()
        table = self._table.between(first, last)
        begin, end = np.searchsorted(table, [first, last], side="right")
        return self._words(table[begin:end])

    def check_within(self, low: int, high: int, step: int, first: int) -> None:
        """Raise for times outside of the years that have whole windows; windows are ``step`` words long."""
        begin, end = (seconds * SECOND // self.measure.word_ns for seconds in (_FIRST_SECOND, _END_SECOND))
        if low < begin + (first - begin) % step:
            raise self._outside(low)
        if high >= end - 1 - (end - 1 - first) % step:
            raise self._outside(high)

    @property
    def _table(self) -> _EdgeTable:
        return _table(self.unit, self.tz, self.offset, self.span)

    def _edges(self, times: Words, step: int) -> Words:
        seconds = self._seconds(times)
        if not len(seconds):
            return seconds
        table = self._table.covering(seconds)
        # Only the part of the table between the times is searched: a batch spans few edges, often none.
        begin, end = np.searchsorted(table, [seconds.min(), seconds.max()], side="right").tolist()
        if begin + step < 0 or end + step == len(table):
            raise self._outside(int(times.min() if begin + step < 0 else times.max()))
        place = np.searchsorted(table[begin:end], seconds, side="right")
        edges = table[begin + step : end + step + 1]
        # minutes of decades can be more than the times
        return self._words(edges)[place] if edges.size < place.size else self._words(edges[place])

    def _seconds(self, times: Words) -> Words:
        # Edges are whole seconds, so a time has the same edges as its floor in seconds: one table serves all units.
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
            f"calendar windows ({self.span or self.unit!r}, {self.tz!r}) cover years {_FIRST_YEAR} to {_LAST_YEAR}; "
            f"the time {self.measure.value(time)} ({self.measure.type}) has no whole window there"
        )


class _EdgeTable:
    """The edges of one unit in one zone, in seconds since the epoch, built year by year as needed.

    Years may be missing in between, but never next to a time that was looked up. Local and UTC dates differ by at most
    a day: with a unit of at most a year, a time of UTC year y has its edges in the years y-1 ... y+2. With an offset,
    which is less than a unit, the units before and after these may count, and with a span, those of the span.
    """

    def __init__(self, unit: str, tz: str, offset: str | None, span: str | None) -> None:
        self.unit, self.tz, self.reach = Unit.of(unit), tz, _reach(unit, offset, span)
        self.months, self.seconds = months_and_seconds(offset)
        self._years: dict[int, Words] = {}
        self._edges: Words = np.empty(0, np.int64)
        self._lock = threading.Lock()

    def covering(self, seconds: Words) -> Words:
        """A sorted table with the edges on both sides of each of the times."""
        least, most = _utc_years(np.array([seconds.min(), seconds.max()])).tolist()
        if most - least < _MANY_YEARS:
            return self._with(range(least, most + 1))
        return self._with(np.unique(_utc_years(seconds)).tolist())

    def between(self, first: int, last: int) -> Words:
        least, most = _utc_years(np.array([first, last])).tolist()
        return self._with(range(least, most + 1))

    def _with(self, years: Iterable[int]) -> Words:
        around = {near for year in years for near in range(year - self.reach, year + self.reach + 2)}
        with self._lock:
            new = [y for y in around - self._years.keys() if _FIRST_YEAR <= y <= _LAST_YEAR]
            if new:
                self._years.update((year, self._build(year)) for year in new)
                edges = np.concatenate([self._years[year] for year in sorted(self._years)])
                # unique sorts, and drops the second edge of a date that the zone skipped
                self._edges = edges if self.unit.by_clock else np.unique(edges)
            return self._edges

    def _build(self, year: int) -> Words:
        if self.unit.by_clock:
            return _clock_edges(self.unit.seconds, self.tz, year)
        shown: Words = self._first_days(year).astype("M8[s]").astype(np.int64) + self.seconds  # midnights, on the clock
        shown = shown[(shown >= _FIRST_SECOND) & (shown < _END_SECOND)]
        if self.tz in UTC_NAMES:
            return shown
        zone = ZoneInfo(self.tz)
        days = [day.replace(tzinfo=zone) for day in shown.astype("M8[s]").tolist()]
        offsets = np.array([_offset(day) for day in days], np.int64)  # for a skipped midnight, the offset before it
        edges = shown - offsets
        # of all days, only those with another offset than the next day are checked for a skipped midnight
        changing = np.append(offsets[1:] != offsets[:-1], True) if len(days) > 12 else np.ones(len(days), np.bool_)
        for at in np.flatnonzero(changing).tolist():
            if (after := _offset(days[at].replace(fold=1))) > offsets[at]:
                edges[at] = _jump(zone, int(shown[at]) - after, int(edges[at]))
        return edges

    def _first_days(self, year: int) -> NDArray[np.datetime64]:
        """The dates of a year with which units begin."""
        first, end = (np.datetime64(f"{y:04}") for y in (year, year + 1))
        if self.unit.months:
            months, step, origin = "M", self.unit.months, self.months
        else:
            months, step, origin = "D", self.unit.seconds // DAY, self.unit.first // DAY
        low, high = (int(day.astype(f"M8[{months}]").astype(np.int64)) for day in (first, end))
        begun = low + (origin - low) % step
        return np.arange(begun, max(high, begun), step).astype(f"M8[{months}]").astype("M8[D]")


def _clock_edges(step: int, tz: str, year: int) -> Words:
    """The instants of a UTC year at which a zone's clock reaches the next multiple of ``step`` seconds."""
    begin, end = (int(np.datetime64(f"{y:04}", "s").astype(np.int64)) for y in (year, year + 1))
    changes, offsets = _changes(ZoneInfo(tz), begin - _SAMPLED, end)
    found = []
    for at, (low, high, offset) in enumerate(zip(changes, [*changes[1:], end], offsets, strict=True)):
        before = offsets[max(at - 1, 0)]
        shown = low + offset  # the local clock
        first = _multiple_from(shown, step)
        if before > offset and step <= before - offset:  # windows repeat
            found.append(np.array([low]))
        elif before > offset:  # the clock counts as standing still until it has caught up
            first = _multiple_from(low + before, step)
        elif _multiple_from(low + before, step) < shown:  # an edge is skipped
            found.append(np.array([low]))
        found.append(np.arange(first, max(high + offset, first), step) - offset)
    edges = np.sort(np.concatenate(found), kind="stable")  # hashing in np.unique took 0.2 s for a year of minutes
    edges = edges[(edges >= begin) & (edges < end)]
    return edges[np.diff(edges, prepend=begin - 1) > 0]


def _multiple_from(time: int, step: int) -> int:
    return -(-time // step) * step


def _changes(zone: ZoneInfo, begin: int, end: int) -> tuple[list[int], list[int]]:
    """The times from which a zone has an offset, and the offsets: ``begin``, and each change before ``end``."""
    samples = [*range(begin, end, _SAMPLED), end]
    offsets = [_offset_at(zone, second) for second in samples]
    changes, of_each = [begin], [offsets[0]]
    for low, high, before, after in zip(samples, samples[1:], offsets, offsets[1:], strict=False):
        if before != after:
            changes.append(_jump(zone, low, high))
            of_each.append(after)
    return changes, of_each


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


def _offset_at(zone: ZoneInfo, second: int) -> int:
    """The offset at a time; near the first and the last year, the offset of a day further inside."""
    inside = min(max(second, _FIRST_SECOND + 2 * DAY), _END_SECOND - 2 * DAY)
    return _offset((_EPOCH + timedelta(seconds=inside)).astimezone(zone))


def _jump(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second from ``low`` on with the offset of ``high``: for instance where clocks skip a midnight. Toronto
    went from 23:30 to 0:30 on 30 March 1919."""
    wanted = _offset_at(zone, high)
    return low + bisect_left(range(low, high), True, key=lambda second: _offset_at(zone, second) == wanted)


@functools.cache
def _table(unit: str, tz: str, offset: str | None, span: str | None) -> _EdgeTable:
    return _EdgeTable(unit, tz, offset, span)


def _reach(unit: str, offset: str | None, span: str | None) -> int:
    """How many years before and after a time the edges lie that may be asked for."""
    own = Unit.of(calendar_unit(unit)).years
    return own + (own if offset is not None else 0) + (Unit.of(span).years + 1 if span is not None else 0)


def _utc_years(seconds: Words) -> Words:
    return seconds.astype("M8[s]").astype("M8[Y]").astype(np.int64) + 1970
