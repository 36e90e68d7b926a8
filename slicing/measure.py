"""The measure a stream advances along: spans, instants and calendar edges as int64 words of its column."""

from __future__ import annotations

import calendar
import functools
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicing.columns.lazy import lazy

Words = NDArray[np.int64]

_SECOND = 10**9
_NS = {
    "w": 7 * 86_400 * _SECOND,
    "d": 86_400 * _SECOND,
    "h": 3_600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_NUMPY_UNITS = {"W": "w", "D": "d", "h": "h", "m": "m", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_NUMPY_FRACTIONS = {"ps": 10**3, "fs": 10**6, "as": 10**9}

# Largest unit first, each at most once: "1h30m" is a span, "30m1h" and "1m1m" are slips of the pen.
_SPAN = re.compile(
    r"(-)?(?=[0-9])" + "".join(rf"(?:(?P<{unit}>[0-9]+){'[uµμ]s' if unit == 'us' else unit})?" for unit in _NS)
)
_CALENDAR_SPAN = re.compile(r"[0-9](mo|q|y)")
_NINE_DIGITS = re.compile(r"([.,][0-9]{6})([0-9]+)")

_MAX_WORD = 2**63 - 1
_MAX_SPAN = 2**62  # so that a time and a span can be added


@dataclass(frozen=True, order=True)
class Duration:
    """An exact span of time, printed as the shortest string that makes it: 90 s is "1m30s", a week "7d"."""

    ns: int

    def __str__(self) -> str:
        rest, parts = abs(self.ns), ["-" if self.ns < 0 else ""]
        for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
            count, rest = divmod(rest, _NS[unit])
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts) if self.ns else "0s"


def parse_span(value: object, argument: str, *, positive: bool = False) -> Duration | int:
    """What a user wrote for a span: a `Duration` for strings and timedeltas, an int for integer measures."""
    sign = "positive " if positive else ""
    allowed = (
        f"{argument} must be a {sign}duration such as '1m', a timedelta or, for integer measures, a {sign}whole number"
    )
    span: Duration | int | None
    if isinstance(value, Duration):
        span = value
    elif isinstance(value, str):
        if (ns := _span_ns(value)) is None:
            if _CALENDAR_SPAN.search(value):
                raise ValueError(
                    f"{argument} must be a duration of fixed length, and months, quarters and years differ: "
                    f"use sl.calendar('1mo' | '1q' | '1y') for those; got {value!r}"
                )
            raise ValueError(f"{allowed}; got {value!r} (units, from the largest: w, d, h, m, s, ms, us, ns)")
        span = Duration(ns)
    elif isinstance(value, timedelta):
        # pandas' Timedelta is a timedelta with nanoseconds beside it
        micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        span = Duration(micros * 10**3 + int(getattr(value, "nanoseconds", 0)))
    elif isinstance(value, np.timedelta64):
        if (exact := _numpy_ns(value)) is None:
            raise ValueError(f"{allowed}; got {value!r}, which is not a whole number of nanoseconds")
        span = Duration(exact)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        span = int(value)
    else:
        raise TypeError(f"{allowed}; got {value!r} of type {type(value).__name__}")
    if positive and (span.ns if isinstance(span, Duration) else span) <= 0:
        raise ValueError(f"{allowed}; got {value!r}")
    return span


def _span_ns(text: str) -> int | None:
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    size = sum(int(count) * _NS[unit] for unit, count in match.groupdict().items() if count)
    return -size if match[1] else size


def _numpy_ns(value: np.datetime64 | np.timedelta64) -> int | None:
    """Nanoseconds of a numpy time, or None where no number is exact (NaT, years as a span, picoseconds)."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64):
        value, unit, count = value.astype("M8[D]"), "D", 1
    number = int(value.astype(np.int64)) * count
    if unit in _NUMPY_UNITS:
        return number * _NS[_NUMPY_UNITS[unit]]
    whole, rest = divmod(number, _NUMPY_FRACTIONS.get(unit, _MAX_WORD))
    return None if rest or unit not in _NUMPY_FRACTIONS else whole


@functools.lru_cache
def _bounds(storage: np.dtype[np.signedinteger | np.unsignedinteger]) -> tuple[int, int]:
    limits = np.iinfo(storage)
    return int(limits.min), min(int(limits.max), _MAX_WORD)


@dataclass(frozen=True)
class Measure:
    """The type of a time column, and how spans, instants and values become int64 words and back."""

    type: pa.DataType

    @staticmethod
    def of(type: pa.DataType, column: str) -> Measure:
        """The measure of a time column, or a TypeError naming the column."""
        kinds = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer)
        if not any(is_kind(type) for is_kind in kinds):
            raise TypeError(f"time column {column!r} must hold timestamps, dates or integers; its type is {type}")
        return Measure(type)

    @lazy
    def is_integer(self) -> bool:
        return bool(pa.types.is_integer(self.type))

    @property
    def word_ns(self) -> int:
        """Nanoseconds of one word of a time measure: date32 counts days, date64 milliseconds."""
        if pa.types.is_timestamp(self.type):
            return _NS[self.type.unit]
        return _NS["d"] if pa.types.is_date32(self.type) else _NS["ms"]

    @property
    def unit_name(self) -> str:
        """The finest thing the column can tell apart: days for a date64, although it stores milliseconds."""
        if self.is_integer:
            return "units"
        return _UNIT_NAMES[self.type.unit] if pa.types.is_timestamp(self.type) else "days"

    def ticks(self, span: Duration | int, argument: str) -> int:
        """The span as an exact number of words; 0 fits every measure, nothing is ever rounded."""
        if isinstance(span, Duration):
            if self.is_integer:
                if span.ns:
                    raise ValueError(
                        f"{argument} must be a whole number, as the time column is of type {self.type}; "
                        f"got the duration '{span}'"
                    )
                return 0
            ticks = self._words_of(span.ns, argument, f"'{span}'")
        else:
            if span and not self.is_integer:
                raise ValueError(
                    f"{argument} must be a duration such as '1m', as the time column is of type {self.type}; "
                    f"got the whole number {span}"
                )
            ticks = span
        if abs(ticks) >= _MAX_SPAN:
            shown = f"'{span}'" if isinstance(span, Duration) else str(span)
            raise ValueError(f"{argument} must be shorter than 2**62 {self._unit_of_column()}; got {shown}")
        return ticks

    def instant(self, value: object, argument: str) -> int:
        """A point on the measure as a word: an int is one already; times are taken exactly.

        A naive time for a column with a zone is UTC; a time with a zone for a column without one is refused.
        """
        if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
            word = int(value)
        elif self.is_integer:
            raise TypeError(
                f"{argument} must be a whole number, as the time column is of type {self.type}; got {value!r}"
            )
        else:
            word = self._words_of(self.moment_ns(value, argument), argument, repr(value))
        low, high = self._range
        if not low <= word <= high:
            raise ValueError(f"{argument} must fit a time column of type {self.type}; got {value!r}")
        return word

    def words(self, array: pa.Array) -> Words:
        """The column as read-only int64, sharing its memory if it is 64 bits wide; a null gives any value."""
        width = self.type.bit_width // 8
        data = array.buffers()[1]
        if data is None or len(array) == 0:
            words = np.empty(0, np.int64)
        elif width == 8:
            words = np.frombuffer(data, np.int64, len(array), array.offset * 8)
        else:
            words = np.frombuffer(data, self._storage, len(array), array.offset * width).astype(np.int64)
        # Copies are read-only too: numba compiles a kernel anew for each mutability.
        words.setflags(write=False)
        return words

    def array(self, words: Words, null: NDArray[np.bool_] | None = None) -> pa.Array:
        """Words as a column of this type, sharing their memory if it is 64 bits wide; `null` marks nulls."""
        storage = self._storage
        words = np.ascontiguousarray(words, dtype=np.int64)
        low, high = self._range
        if low > -(2**63) or high < _MAX_WORD:
            kept = words if null is None else np.where(null, 0, words)
            if len(kept) and not (low <= (least := int(kept.min())) and (most := int(kept.max())) <= high):
                raise ValueError(
                    f"a time column of type {self.type} cannot hold {least if least < low else most}, "
                    f"which a window's bound needs: cast the column to int64"
                )
            words = kept
        data = pa.py_buffer(words if words.itemsize == storage.itemsize else words.astype(storage))
        if null is None:
            return pa.Array.from_buffers(self.type, len(words), [None, data], null_count=0)
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
        return pa.Array.from_buffers(self.type, len(words), [valid, data])

    def value(self, word: int) -> object:
        """A word as Python says it: int, date or datetime; a numpy.datetime64 where those cannot hold it."""
        word = int(word)
        if self.is_integer:
            return word
        ns = word * self.word_ns
        if pa.types.is_date(self.type):
            days, rest = divmod(ns, _NS["d"])
            first = date.min.toordinal() - _EPOCH_DAY
            if not rest and first <= days <= date.max.toordinal() - _EPOCH_DAY:
                return date.fromordinal(days + _EPOCH_DAY)
            return np.datetime64(word, "D" if pa.types.is_date32(self.type) else "ms")
        micros, rest = divmod(ns, 10**3)
        if not rest:
            try:
                return pa.scalar(micros, pa.timestamp("us", self.type.tz)).as_py()
            except (ValueError, OverflowError, LookupError):
                pass
        return np.datetime64(word, self.type.unit)

    def _words_of(self, ns: int, argument: str, shown: str) -> int:
        _, rest = divmod(ns, _NS["d"] if pa.types.is_date(self.type) else self.word_ns)
        if rest:
            raise ValueError(f"{argument} must be a whole number of {self._unit_of_column()}; got {shown}")
        return ns // self.word_ns

    def _unit_of_column(self) -> str:
        return f"{self.unit_name}, the unit of the time column ({self.type})"

    @lazy
    def _storage(self) -> np.dtype[np.signedinteger | np.unsignedinteger]:
        if self.is_integer:
            return np.dtype(str(self.type))  # Arrow and numpy agree on these names
        return np.dtype(np.int32 if pa.types.is_date32(self.type) else np.int64)

    @lazy
    def _range(self) -> tuple[int, int]:
        """The words the column can hold. uint64 ends where int64 does."""
        return _bounds(self._storage)

    def moment_ns(self, value: object, argument: str) -> int:
        allowed = (
            f"{argument} must be a datetime, a date, an ISO 8601 string such as '2024-05-01T12:30', "
            f"a numpy.datetime64 or a whole number of {self.unit_name}"
        )
        beyond_micros = 0
        moment = value
        if isinstance(moment, str):
            # fromisoformat drops what comes after microseconds without a word
            text = moment
            if digits := _NINE_DIGITS.search(text):
                if digits[2].rstrip("0")[3:]:
                    raise ValueError(f"{allowed}; got {value!r}, which is finer than nanoseconds")
                beyond_micros = int(digits[2][:3].ljust(3, "0"))
                text = text.replace(digits[0], digits[1], 1)
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                raise ValueError(f"{allowed}; got {value!r}") from None
        if isinstance(moment, np.datetime64):
            if (ns := _numpy_ns(moment)) is None:
                raise ValueError(f"{allowed}; got {value!r}, which is not a whole number of nanoseconds")
            return ns
        if not isinstance(moment, date):
            raise TypeError(f"{allowed}; got {value!r} of type {type(value).__name__}")
        if not isinstance(moment, datetime):
            return (moment.toordinal() - _EPOCH_DAY) * _NS["d"]
        if moment != moment:  # pandas' NaT says it is a datetime
            raise ValueError(f"{allowed}; got {value!r}")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        elif getattr(self.type, "tz", None) is None:
            raise ValueError(
                f"{argument} must be a time without a zone, as the time column is of type {self.type}; got {value!r}"
            )
        since = moment - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
        return micros * 10**3 + int(getattr(value, "nanosecond", beyond_micros))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
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
            if not _FIRST_SECOND * _SECOND <= time * word_ns < _END_SECOND * _SECOND:
                raise self._outside(time)
        if word_ns >= _SECOND:
            return times * (word_ns // _SECOND)
        return times // (_SECOND // word_ns)

    def _words(self, seconds: Words) -> Words:
        word_ns = self.measure.word_ns
        if word_ns >= _SECOND:
            return seconds // (word_ns // _SECOND)
        per_second = _SECOND // word_ns
        if len(seconds):
            for second in (int(seconds.min()), int(seconds.max())):
                if abs(second * per_second) > _MAX_WORD:
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
        # fold=0 is the offset before a jump, so a midnight that is skipped becomes the instant of the jump
        offsets = [zone.utcoffset(datetime(day.year, day.month, day.day)) for day in firsts.astype("M8[D]").tolist()]
        return midnights - np.array([o.days * 86_400 + o.seconds for o in offsets if o is not None], np.int64)


@functools.cache
def _table(unit: str, tz: str) -> _EdgeTable:
    return _EdgeTable(unit, tz)


def _utc_years(seconds: Words) -> Words:
    return seconds.astype("M8[s]").astype("M8[Y]").astype(np.int64) + 1970
