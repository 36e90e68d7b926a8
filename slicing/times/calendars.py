"""Where local hours, days, weeks, months and years begin, including changes of the clocks."""

from __future__ import annotations

import functools
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicing.times.durations import MAX_WORD, NS, SECOND, Duration, parts
from slicing.times.measure import Measure, Words

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_FIRST_SECOND, _END_SECOND = (int(np.datetime64(year, "s").astype(np.int64)) for year in ("0001", "10000"))
_MANY_YEARS = 100
_DAY = 86_400
_MONDAY = 4  # the first Monday after 1970-01-01, in days
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_MOST = {"d": 36_500, "w": 5_200, "mo": 1_200, "q": 400, "y": 100}  # a century
_OFFSET_UNITS = ("y", "q", "mo", "w", "d", "h", "m", "s")  # from the largest
_SHORTEST_MONTH = 28  # days
_SAMPLED = _DAY // 2  # seconds within which no zone changes its clocks twice
UTC_NAMES = ("UTC", "Etc/UTC")


def calendar_unit(text: object) -> str:
    """The unit of a calendar as it is printed, such as "2w" or "15m". Raises if it is not one."""
    found = parts(text) if isinstance(text, str) and "-" not in text else []
    count, unit = found[0] if len(found) == 1 else (0, "")
    if unit in ("h", "m") and count:
        if _DAY * SECOND % (count * NS[unit]):
            raise ValueError(
                f"unit must divide a day if it is hours or minutes, as '15min', '1h', '6h' and '12h' do; got {text!r}"
            )
        return f"{count}{unit}"
    if unit not in _MOST or not 0 < count <= _MOST[unit]:
        clear = " ('M' may be months or minutes)" if unit == "M" else ""
        raise ValueError(
            "unit must be a number of minutes, hours, days, weeks, months, quarters or years, at most a century, such "
            f"as '15min', '6h', '1d', '2w', '1mo', '1q' or '1y'; got {text!r}{clear}"
        )
    return f"{count}{unit}"


def calendar_offset(text: object, unit: str) -> str | None:
    """How much later windows of a unit begin on the zone's clock, as it is printed; None: not at all. Raises if it is
    not such a time."""
    if text is None:
        return None
    kinds = [kind for _, kind in parts(text)] if isinstance(text, str) else []
    if not isinstance(text, str) or not kinds or kinds != [kind for kind in _OFFSET_UNITS if kind in kinds]:
        raise ValueError(
            "offset must say how much later windows begin on the zone's clock, or earlier with a '-', such as '6h', "
            f"'6d' or '3mo'; got {text!r}"
        )
    ((count, kind),) = parts(unit)
    months, seconds = _months_and_seconds(text)
    if clock_step(unit):
        raise ValueError(f"offset is for days and longer units; for {unit!r} use sl.tumbling; got offset={text!r}")
    if kind not in _MONTHS:
        if months:
            raise ValueError(f"offset must be days, hours and smaller for windows of {unit!r}; got {text!r}")
        seconds %= count * (7 if kind == "w" else 1) * _DAY
    elif abs(seconds) >= _SHORTEST_MONTH * _DAY:
        raise ValueError(
            f"offset must be months and less than {_SHORTEST_MONTH} days for windows of {unit!r}; got {text!r}"
        )
    else:
        step = count * _MONTHS[kind]
        months = months % step if not seconds else int(np.fmod(months, step))
    shown = (f"{abs(months)}mo" if months else "") + (str(Duration(abs(seconds) * SECOND)) if seconds else "")
    return f"-{shown}" if shown and (months < 0 or seconds < 0) else shown or None


def _months_and_seconds(offset: str | None) -> tuple[int, int]:
    """The months and seconds of an offset."""
    found, sign = parts(offset or ""), -1 if offset and offset.lstrip().startswith("-") else 1
    months = sum(count * _MONTHS[kind] for count, kind in found if kind in _MONTHS)
    return sign * months, sign * sum(count * NS[kind] // SECOND for count, kind in found if kind in NS)


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
    offset: str | None = None  # how much later windows begin, on the zone's clock

    def __post_init__(self) -> None:
        unit = calendar_unit(self.unit)
        if pa.types.is_date(self.measure.type) and clock_step(unit):
            raise ValueError(
                f"unit must be whole days for a time column of type {self.measure.type}; got {self.unit!r}"
            )
        if pa.types.is_date(self.measure.type) and _months_and_seconds(self.offset)[1] % _DAY:
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
        reach = _reach(calendar_unit(self.unit), self.offset)
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

    def edges(self, lo: int, hi: int) -> Words:
        """All edges in (lo, hi]. The cost grows with the years in between; for scattered times use `next_edge`."""
        if hi <= lo:
            return np.empty(0, np.int64)
        first, last = self._seconds(np.array([lo, hi], np.int64)).tolist()
        table = _table(self.unit, self.tz, self.offset).between(first, last)
        begin, end = np.searchsorted(table, [first, last], side="right")
        return self._words(table[begin:end])

    def check_within(self, low: int, high: int, step: int, first: int) -> None:
        """Raise for times outside of the years that have whole windows; windows are ``step`` words long."""
        begin, end = (seconds * SECOND // self.measure.word_ns for seconds in (_FIRST_SECOND, _END_SECOND))
        if low < begin + (first - begin) % step:
            raise self._outside(low)
        if high >= end - 1 - (end - 1 - first) % step:
            raise self._outside(high)

    def _edges(self, times: Words, step: int) -> Words:
        seconds = self._seconds(times)
        if not len(seconds):
            return seconds
        table = _table(self.unit, self.tz, self.offset).covering(seconds)
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
            f"calendar windows ({self.unit!r}, {self.tz!r}) cover years {_FIRST_YEAR} to {_LAST_YEAR}; "
            f"the time {self.measure.value(time)} ({self.measure.type}) has no whole window there"
        )


def check_zone(tz: object) -> ZoneInfo:
    """The zone of a name. Raises with a sentence that says what a zone is called."""
    allowed = "tz must be the name of a time zone such as 'Europe/Berlin' or 'UTC'"
    if not isinstance(tz, str):
        raise TypeError(f"{allowed}; got {tz!r} of type {type(tz).__name__}")
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        steady = tz[:1] in "+-" and tz[1:3].isdigit()
        other = f"; for {tz}, a fixed distance from UTC, use sl.tumbling(..., offset=)" if steady else ""
        raise ValueError(f"{allowed}; got {tz!r}{other}") from None


class _EdgeTable:
    """The edges of one unit in one zone, in seconds since the epoch, built year by year as needed.

    Years may be missing in between, but never next to a time that was looked up. Local and UTC dates differ by at most
    a day: with a unit of at most a year, a time of UTC year y has its edges in the years y-1 ... y+2. With an offset,
    which is less than a unit, the units before and after these may count.
    """

    def __init__(self, unit: str, tz: str, offset: str | None) -> None:
        ((self.count, self.kind),) = parts(unit)
        self.tz, self.reach, self.step = tz, _reach(unit, offset), clock_step(unit)
        self.months, self.seconds = _months_and_seconds(offset)
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
                self._edges = edges if self.step else np.unique(edges)
            return self._edges

    def _build(self, year: int) -> Words:
        if self.step:
            return _clock_edges(self.step, self.tz, year)
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
        if self.kind in _MONTHS:
            months, step, origin = "M", self.count * _MONTHS[self.kind], self.months
        else:
            months, step, origin = "D", self.count * (7 if self.kind == "w" else 1), _MONDAY if self.kind == "w" else 0
        low, high = (int(day.astype(f"M8[{months}]").astype(np.int64)) for day in (first, end))
        begun = low + (origin - low) % step
        return np.arange(begun, max(high, begun), step).astype(f"M8[{months}]").astype("M8[D]")


def clock_step(unit: str) -> int:
    """The seconds of a unit of hours or minutes; 0 for other units."""
    ((count, kind),) = parts(unit)
    return count * NS[kind] // SECOND if kind in ("h", "m") else 0


def steady_step(unit: str, offset: str | None = None) -> tuple[int, int] | None:
    """The seconds of a unit, and from 1970-01-01 to its first edge, if clocks never change; None for months."""
    ((count, kind),) = parts(unit)
    if kind in _MONTHS:
        return None
    days = {"d": 1, "w": 7}.get(kind)
    if days is None:
        return clock_step(unit), 0
    return count * days * _DAY, (_MONDAY * _DAY if kind == "w" else 0) + _months_and_seconds(offset)[1]


def _reach(unit: str, offset: str | None) -> int:
    """The most years that a unit spans, or a unit and an offset."""
    ((count, kind),) = parts(unit)
    if kind in _MONTHS:
        years = -(-count * _MONTHS[kind] // 12)
    else:
        years = 1 if clock_step(unit) else -(-count * (7 if kind == "w" else 1) // 365)
    return years if offset is None else 2 * years


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
    inside = min(max(second, _FIRST_SECOND + 2 * _DAY), _END_SECOND - 2 * _DAY)
    return _offset((_EPOCH + timedelta(seconds=inside)).astimezone(zone))


def _jump(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second from ``low`` on with the offset of ``high``: for instance where clocks skip a midnight. Toronto
    went from 23:30 to 0:30 on 30 March 1919."""
    wanted = _offset_at(zone, high)
    return low + bisect_left(range(low, high), True, key=lambda second: _offset_at(zone, second) == wanted)


@functools.cache
def _table(unit: str, tz: str, offset: str | None) -> _EdgeTable:
    return _EdgeTable(unit, tz, offset)


def _utc_years(seconds: Words) -> Words:
    return seconds.astype("M8[s]").astype("M8[Y]").astype(np.int64) + 1970
