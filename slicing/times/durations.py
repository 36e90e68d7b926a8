"""Spans of time as users write them; exact, in nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

import numpy as np

SECOND = 10**9
NS = {
    "w": 7 * 86_400 * SECOND,
    "d": 86_400 * SECOND,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
_NUMPY_UNITS = {"W": "w", "D": "d", "h": "h", "m": "m", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_NUMPY_FRACTIONS = {"ps": 10**3, "fs": 10**6, "as": 10**9}

_SPAN = re.compile(r"\s*-?((?:[0-9]+\s*[A-Za-zµμ]+\s*)+)")
_PART = re.compile(r"([0-9]+)\s*([A-Za-zµμ]+)")
# Other spellings of units: pandas' "min" and "T", and the words of Flink and Spark in any case.
_SYMBOLS = {"W": "w", "D": "d", "H": "h", "T": "m", "min": "m", "S": "s", "µs": "us", "μs": "us"}
_WORDS = {
    "w": "wk wks week weeks",
    "d": "day days",
    "h": "hr hrs hour hours",
    "m": "min mins minute minutes",
    "s": "sec secs second seconds",
    "ms": "msec msecs milli millis millisecond milliseconds",
    "us": "usec usecs micro micros microsecond microseconds",
    "ns": "nsec nsecs nano nanos nanosecond nanoseconds",
    # without a fixed length: only for calendar windows
    "mo": "mo month months",
    "q": "q quarter quarters",
    "y": "y year years",
}
_UNIT_OF = {unit: unit for unit in NS} | _SYMBOLS
_UNIT_OF_WORD = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_MONTHS_OF_PANDAS = ("M", "ME", "MS")

MAX_WORD = 2**63 - 1


@dataclass(frozen=True, order=True)
class Duration:
    """An exact span of time, printed as the shortest string that parses to it: 90 s is "1m30s", a week "7d"."""

    ns: int

    def __str__(self) -> str:
        rest, parts = abs(self.ns), ["-" if self.ns < 0 else ""]
        for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
            count, rest = divmod(rest, NS[unit])
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts) if self.ns else "0s"


def parse_span(value: object, argument: str, *, positive: bool = False) -> Duration | int:
    """The value of a span that a user wrote: a `Duration` for strings and timedeltas, an int for integer measures."""

    def allowed() -> str:
        sign = "positive " if positive else ""
        kinds = f"a {sign}duration such as '1m', a timedelta or, for integer measures, a {sign}whole number"
        return f"{argument} must be {kinds}"

    span: Duration | int | None
    if isinstance(value, Duration):
        span = value
    elif isinstance(value, str):
        if (ns := _span_ns(value)) is None:
            units = {unit for _, unit in parts(value)}
            if units & {"mo", "q", "y"}:
                raise ValueError(
                    f"{argument} must be a duration of fixed length, and months, quarters and years differ: "
                    f"use sl.calendar('1mo' | '1q' | '1y') for windows of those side by side, sl.calendar('3mo', "
                    f"every='1mo') if they overlap, and days, such as '30d', for others; got {value!r}"
                )
            if units & set(_MONTHS_OF_PANDAS):
                raise ValueError(
                    f"{argument} must be a duration whose units are clear, and 'M' may be months or minutes: write "
                    f"'1m' or '1min' for minutes, and use sl.calendar('1mo') for months; got {value!r}"
                )
            raise ValueError(f"{allowed()}; got {value!r} (units, from the largest: w, d, h, m, s, ms, us, ns)")
        span = Duration(ns)
    elif isinstance(value, timedelta):
        # a pandas Timedelta is a timedelta with additional nanoseconds
        micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        span = Duration(micros * 10**3 + int(getattr(value, "nanoseconds", 0)))
    elif isinstance(value, np.timedelta64):
        if (exact := numpy_ns(value)) is None:
            raise ValueError(f"{allowed()}; got {value!r}, which is not a whole number of nanoseconds")
        span = Duration(exact)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        span = int(value)
    else:
        raise TypeError(f"{allowed()}; got {value!r} of type {type(value).__name__}")
    if positive and amount(span) <= 0:
        raise ValueError(f"{allowed()}; got {value!r}")
    return span


def not_negative(value: object, argument: str) -> Duration | int:
    """The value of a span that a user wrote, at least 0."""
    span = parse_span(value, argument)
    if amount(span) < 0:
        raise ValueError(f"{argument} must not be negative; got {value!r}")
    return span


def amount(span: Duration | int) -> int:
    """The nanoseconds of a duration, or the number itself."""
    return span.ns if isinstance(span, Duration) else span


def shown(value: object) -> str:
    """A span, or another argument, as code."""
    return repr(str(value)) if isinstance(value, Duration) else repr(value)


def check_alike(spans: Iterable[tuple[str, Duration | int]], others: Sequence[tuple[str, object]] = ()) -> None:
    """Raise if durations and whole numbers are mixed: a column is either a time or an integer measure.

    ``spans`` are named by their arguments; ``others`` are arguments that need a time column.
    """
    found = list(spans)
    lasting = [*(span for span in found if isinstance(span[1], Duration)), *others]
    counted = [span for span in found if not isinstance(span[1], Duration) and span[1] != 0]
    if lasting and counted:
        durations, numbers = ([f"{where}={shown(value)}" for where, value in some] for some in (lasting, counted))
        raise ValueError(
            f"spans must be all durations (for a time column) or all whole numbers (for an integer column); got "
            f"{durations[0]} and {numbers[0]}"
        )


def parts(text: str) -> list[tuple[int, str]]:
    """The numbers and units of a span, as in "1h 30 minutes"; empty if the text is not a span.

    Units are those of ``NS``, and "mo", "q" and "y". An unknown unit is returned as written.
    """
    match = _SPAN.fullmatch(text)
    found = _PART.findall(match[1]) if match else []
    return [(int(count), _UNIT_OF.get(unit) or _UNIT_OF_WORD.get(unit.lower(), unit)) for count, unit in found]


@lru_cache(256)
def _span_ns(text: str) -> int | None:
    found = parts(text)
    units = [unit for _, unit in found]
    # Largest unit first, each at most once: "1h30m" is a span, "30m1h" and "1m1m" are typing errors.
    if not found or any(unit not in NS for unit in units) or units != [unit for unit in NS if unit in units]:
        return None
    size = sum(count * NS[unit] for count, unit in found)
    return -size if text.lstrip().startswith("-") else size


def numpy_ns(value: np.datetime64 | np.timedelta64) -> int | None:
    """The nanoseconds of a numpy time; None if no number is exact (NaT, years as a span, picoseconds)."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64):
        value, unit, count = value.astype("M8[D]"), "D", 1
    number = int(value.astype(np.int64)) * count
    if unit in _NUMPY_UNITS:
        return number * NS[_NUMPY_UNITS[unit]]
    whole, rest = divmod(number, _NUMPY_FRACTIONS.get(unit, MAX_WORD))
    return None if rest or unit not in _NUMPY_FRACTIONS else whole


Span = Duration | int  # a length of time, or a number of units of an integer time column
