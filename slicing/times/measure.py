"""The measure along which a stream advances: instants and values as int64 words of its time column."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicing.columns.bits import whole_numbers
from slicing.system.lazy import lazy
from slicing.times.durations import MAX_WORD, NS, Duration, numpy_ns

Words = NDArray[np.int64]

_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_NINE_DIGITS = re.compile(r"([.,][0-9]{6})([0-9]+)")
_MAX_SPAN = 2**60  # so that a time and a span can be added
_FIRST_INSTANT = 1 - (1 << 63)  # numpy's instants have the word before for no time at all
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE = _EPOCH.replace(tzinfo=None)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@functools.lru_cache
def _bounds(storage: np.dtype[np.signedinteger | np.unsignedinteger]) -> tuple[int, int]:
    limits = np.iinfo(storage)
    return int(limits.min), min(int(limits.max), MAX_WORD)


def _cure(type: pa.DataType) -> str:
    """What to do about a column that holds no times."""
    if any(is_text(type) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return ": parse it first (pandas.to_datetime, polars' str.to_datetime, Spark's to_timestamp)"
    if pa.types.is_floating(type):
        return ": cast it to timestamps or whole numbers first (pandas.to_datetime(..., unit='s'))"
    if pa.types.is_time(type) or pa.types.is_duration(type):
        return ": add it to a date first, or cast it to whole numbers"
    if pa.types.is_null(type):
        return ": it has no values; give its type, for files with pyarrow.dataset.dataset(path, format=..., schema=...)"
    if pa.types.is_dictionary(type):
        return f": cast it to {type.value_type} first"
    if pa.types.is_run_end_encoded(type):
        return ": decode it first (pyarrow.compute.run_end_decode)"
    if "period" in str(type):
        return ": make times of it first, as with pandas' dt.to_timestamp()"
    return ""


def without_arrow(value: object) -> object:
    """An Arrow scalar as an exact plain value; others unchanged. A time with a zone becomes text with the zone, if its
    year has four digits."""
    if not isinstance(value, pa.Scalar):
        return value
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        moment = np.datetime64(value.value, value.type.unit)
        return f"{moment}+00:00" if value.type.tz is not None and len(str(moment.astype("M8[Y]"))) == 4 else moment
    if pa.types.is_date(value.type):
        return np.datetime64(value.value, "D" if pa.types.is_date32(value.type) else "ms")
    return value.as_py()


def check_moment(value: object, argument: str) -> int:
    """A moment in nanoseconds, before the time column is known. Raises if it is none."""
    number = "a whole number in the unit of the time column, such as microseconds for a timestamp[us]"
    return Measure.of(pa.timestamp("ns", "UTC"), "time").moment_ns(value, argument, number)


def plain_moment(watermark: object) -> object:
    """A watermark as a number, a text or numpy's datetime, before the type of the time column is known."""
    watermark = without_arrow(watermark)
    if isinstance(watermark, int | np.integer) and not isinstance(watermark, bool | np.timedelta64):
        return int(watermark)
    if not isinstance(watermark, date | np.datetime64 | str):
        raise TypeError(
            "watermark must be a whole number, a datetime, a date or an ISO string, as the time column is; got "
            f"{watermark!r}"
        )
    check_moment(watermark, "watermark")
    if isinstance(watermark, np.datetime64):
        return watermark
    return watermark.isoformat() if isinstance(watermark, date) else str(watermark)


def moment_to_json(moment: object) -> object:
    """What ``plain_moment`` returned, for JSON. Datetimes of numpy are numbers there: text has no years beyond 9999."""
    if not isinstance(moment, np.datetime64):
        return moment
    unit, step = np.datetime_data(moment.dtype)
    return [int(moment.astype(np.int64)) * step, unit]


def moment_of_json(moment: object) -> object:
    return np.datetime64(*moment) if isinstance(moment, list) else moment


@dataclass(frozen=True)
class Measure:
    """The type of a time column; converts spans, instants and values to int64 words and back."""

    type: pa.DataType

    @staticmethod
    def of(type: pa.DataType, column: str) -> Measure:
        """The measure of a time column. Raises a TypeError that names the column if it holds no times."""
        kinds = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer)
        if not any(is_kind(type) for is_kind in kinds):
            raise TypeError(
                f"time column {column!r} must hold timestamps, dates or integers; its type is {type}{_cure(type)}"
            )
        return Measure(type)

    @lazy
    def is_integer(self) -> bool:
        return bool(pa.types.is_integer(self.type))

    @lazy
    def is_uint64(self) -> bool:
        return bool(self.type == pa.uint64())

    def check(self, column: pa.Array, what: str) -> None:
        """Raise if a time of a uint64 column does not fit a signed word."""
        most = pc.max(column).as_py() if self.is_uint64 else None
        if most is not None and most > MAX_WORD:
            raise ValueError(f"{what} holds {most}; times must be below 2**63")

    @property
    def word_ns(self) -> int:
        """The nanoseconds of one word: date32 counts days, date64 milliseconds."""
        if pa.types.is_timestamp(self.type):
            return NS[self.type.unit]
        return NS["d"] if pa.types.is_date32(self.type) else NS["ms"]

    @property
    def least(self) -> int:
        """The least distance of two times, in words: a day for dates, although a date64 stores milliseconds."""
        return NS["d"] // self.word_ns if pa.types.is_date(self.type) else 1

    @property
    def unit_name(self) -> str:
        """The unit of the column's resolution: days for a date64, although it stores milliseconds."""
        if self.is_integer:
            return "units"
        return _UNIT_NAMES[self.type.unit] if pa.types.is_timestamp(self.type) else "days"

    def span(self, ticks: int) -> str:
        """A number of words as text: a duration, or a number."""
        return str(ticks) if self.is_integer else str(Duration(ticks * self.word_ns))

    def ticks(self, span: Duration | int, argument: str) -> int:
        """The span as an exact number of words. 0 fits every measure; nothing is rounded."""
        if isinstance(span, Duration):
            if self.is_integer:
                if span.ns:
                    raise ValueError(
                        f"{argument} must be a whole number, as the time column is of type {self.type}; "
                        f"got the duration '{span}' (if it counts since 1970, cast it to timestamps)"
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
            raise ValueError(f"{argument} must be shorter than 2**60 {self._unit_of_column()}; got {shown}")
        return ticks

    def instant(self, value: object, argument: str) -> int:
        """A point on the measure as an exact word; an int is taken as a word.

        For a column with a zone, a time without a zone is UTC. For a column without one, a time with a zone raises.
        """
        word = self.watermark(value, argument)
        low, high = self.range
        if not low <= word <= high:
            raise ValueError(f"{argument} must fit a time column of type {self.type}; got {value!r}")
        return word

    def watermark(self, value: object, argument: str) -> int:
        """An instant as a word, which the column need not be able to hold: a watermark less a delay may lie before all
        its times."""
        value = without_arrow(value)
        if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
            return int(value)
        if self.is_integer:
            raise TypeError(
                f"{argument} must be a whole number, as the time column is of type {self.type}; got {value!r}"
            )
        return self._words_of(self.moment_ns(value, argument), argument, repr(value))

    def at_or_after(self, value: object) -> object:
        """The first instant of this column that is not before an instant, which may be of a finer unit."""
        if self.is_integer or isinstance(value, int):
            return value
        unit = self.least * self.word_ns
        return self.value(-(-self.moment_ns(value, "watermark") // unit) * self.least)

    def scalar(self, word: int) -> pa.Scalar:
        """A word as a scalar of the column's type."""
        if self.is_integer:
            return pa.scalar(word, self.type)
        storage = pa.int64() if self.type.bit_width == 64 else pa.int32()
        return pa.array([word], storage).view(self.type)[0]

    @lazy
    def words(self) -> Callable[[pa.Array], Words]:
        """Reads a column as read-only int64 (``whole_numbers``)."""
        return functools.partial(whole_numbers, dtype=self._storage)

    def marks(self, times: pa.Array) -> Words:
        """Watermarks of keys as words. No time comes behind the largest word, so a mark beyond it is that word."""
        if self.is_uint64 and len(times):
            times = pc.min_element_wise(times, pa.scalar(MAX_WORD, pa.uint64()))
        return self.words(times)

    def array(self, words: Words, null: NDArray[np.bool_] | None = None) -> pa.Array:
        """Words as a column of this type, sharing memory if it is 64 bits wide; `null` marks nulls."""
        storage = self._storage
        words = np.ascontiguousarray(words, dtype=np.int64)
        low, high = self.range
        if low > -(2**63) or high < MAX_WORD:
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
        """A word as a Python int, date or datetime; as a numpy.datetime64 if these cannot hold it."""
        word = int(word)
        if self.is_integer:
            return word
        ns = word * self.word_ns
        if pa.types.is_date(self.type):
            days, rest = divmod(ns, NS["d"])
            first = date.min.toordinal() - _EPOCH_DAY
            if not rest and first <= days <= date.max.toordinal() - _EPOCH_DAY:
                return date.fromordinal(days + _EPOCH_DAY)
            return np.datetime64(word, "D" if pa.types.is_date32(self.type) else "ms")
        micros, rest = divmod(ns, 10**3)
        if not rest:
            try:  # 0.5 us; Arrow's scalar takes 4, and 20 if its code has left the cache
                span = timedelta(microseconds=micros)
                return (_EPOCH + span).astimezone(self._zone) if self.type.tz else _EPOCH_NAIVE + span
            except (ValueError, OverflowError, LookupError):
                pass
        return np.datetime64(max(word, _FIRST_INSTANT), self.type.unit)

    @lazy
    def _zone(self) -> tzinfo:
        """The zone, as Arrow resolves it."""
        zone: tzinfo = pa.lib.string_to_tzinfo(self.type.tz)  # a scalar's ``as_py`` imports pandas
        return zone

    def _words_of(self, ns: int, argument: str, shown: str) -> int:
        _, rest = divmod(ns, NS["d"] if pa.types.is_date(self.type) else self.word_ns)
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
    def range(self) -> tuple[int, int]:
        """The words that the column can hold; for uint64, up to the largest int64."""
        return _bounds(self._storage)

    def moment_ns(self, value: object, argument: str, number: str | None = None) -> int:
        """A moment in nanoseconds. ``number``: what a number would be, if not one in the unit of this column."""
        allowed = (
            f"{argument} must be a datetime, a date, an ISO 8601 string such as '2024-05-01T12:30', "
            f"a numpy.datetime64 or {number or f'a whole number of {self.unit_name}'}"
        )
        beyond_micros = 0
        moment = value
        if isinstance(moment, str):
            # fromisoformat silently drops digits after microseconds
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
            if (ns := numpy_ns(moment)) is None:
                raise ValueError(f"{allowed}; got {value!r}, which is not a whole number of nanoseconds")
            return ns
        if not isinstance(moment, date):
            raise TypeError(f"{allowed}; got {value!r} of type {type(value).__name__}")
        if not isinstance(moment, datetime):
            return (moment.toordinal() - _EPOCH_DAY) * NS["d"]
        if moment != moment:  # pandas' NaT is a datetime instance
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
