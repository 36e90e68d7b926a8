"""What users write of a calendar: its units, how much later they begin, and its time zone."""

from __future__ import annotations

from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from slicing.times.durations import NS, SECOND, Duration, parts

DAY = 86_400
UTC_NAMES = ("UTC", "Etc/UTC")
_WEEK = 7 * DAY
_MONDAY = 4 * DAY  # the first Monday after 1970-01-01
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_MOST = {"d": 36_500, "w": 5_200, "mo": 1_200, "q": 400, "y": 100}  # a century
_OFFSETS = ("y", "q", "mo", "w", "d", "h", "m", "s")  # from the largest
_SHORTEST_MONTH, _LONGEST_MONTH = 28 * DAY, 31 * DAY


class Unit(NamedTuple):
    """A number of months, or of seconds that a clock without changes shows."""

    months: int
    seconds: int
    first: int  # seconds from 1970-01-01 to the first one
    by_clock: bool  # hours or minutes

    @classmethod
    def of(cls, text: str) -> Unit:
        ((count, kind),) = parts(text)
        if kind in _MONTHS:
            return cls(count * _MONTHS[kind], 0, 0, False)
        by_clock = kind in ("h", "m")
        return cls(0, count * NS[kind] // SECOND, _MONDAY if kind == "w" else 0, by_clock)

    @property
    def shortest(self) -> int:
        """At least how many seconds a unit of days or more has, clock changes apart."""
        return self.months * _SHORTEST_MONTH or self.seconds

    @property
    def longest(self) -> int:
        """At most how many seconds it has."""
        return (self.months * _LONGEST_MONTH or self.seconds) + DAY

    @property
    def years(self) -> int:
        """How many years it spans at most."""
        return -(-self.months // 12) if self.months else -(-self.seconds // (365 * DAY))

    def holds(self, part: Unit) -> int:
        """How many units ``part`` it has at most; 0 if they are of another kind or do not divide it."""
        if self.months and part.months:
            return 0 if self.months % part.months else self.months // part.months
        if not self.months and not part.months:
            return 0 if self.seconds % part.seconds else self.seconds // part.seconds
        return -(-self.longest // part.seconds) if self.months and (part.by_clock or part.seconds == DAY) else 0


def calendar_unit(text: object, argument: str = "unit") -> str:
    """The unit of a calendar as it is printed, such as "2w" or "15m". Raises if it is not one."""
    found = parts(text) if isinstance(text, str) and "-" not in text else []
    count, unit = found[0] if len(found) == 1 else (0, "")
    if unit in ("h", "m") and count:
        if DAY * SECOND % (count * NS[unit]):
            raise ValueError(
                f"{argument} must divide a day if it is hours or minutes, as '15min', '1h', '6h' and '12h' do; got "
                f"{text!r}"
            )
        return f"{count}{unit}"
    if unit not in _MOST or not 0 < count <= _MOST[unit]:
        clear = " ('M' may be months or minutes)" if unit == "M" else ""
        raise ValueError(
            f"{argument} must be a number of minutes, hours, days, weeks, months, quarters or years, at most a "
            f"century, such as '15min', '6h', '1d', '2w', '1mo', '1q' or '1y'; got {text!r}{clear}"
        )
    return f"{count}{unit}"


def calendar_offset(text: object, unit: str) -> str | None:
    """How much later windows of a unit begin on the zone's clock, as it is printed; None: not at all. Raises if it is
    not such a time."""
    if text is None:
        return None
    kinds = [kind for _, kind in parts(text)] if isinstance(text, str) else []
    if not isinstance(text, str) or not kinds or kinds != [kind for kind in _OFFSETS if kind in kinds]:
        raise ValueError(
            "offset must say how much later windows begin on the zone's clock, or earlier with a '-', such as '6h', "
            f"'6d' or '3mo'; got {text!r}"
        )
    of, (months, seconds) = Unit.of(unit), months_and_seconds(text)
    if of.by_clock:
        raise ValueError(f"offset is for days and longer units; for {unit!r} use sl.tumbling; got offset={text!r}")
    if not of.months and months:
        raise ValueError(f"offset must be days, hours and smaller for windows of {unit!r}; got {text!r}")
    if of.months and abs(seconds) >= _SHORTEST_MONTH:
        raise ValueError(
            f"offset must be months and less than {_SHORTEST_MONTH // DAY} days for windows of {unit!r}; got {text!r}"
        )
    return _shown(*_within(of, months, seconds))


def calendar_steps(every: object, unit: str, offset: str | None, cumulate: bool) -> tuple[str, str | None]:
    """The steps with which windows of a unit begin, or grow, and how much later than these the steps begin. Raises if
    steps cannot be combined to the unit."""
    every = calendar_unit(every, "every")
    whole, step, (months, seconds) = Unit.of(unit), Unit.of(every), months_and_seconds(offset)
    if whole.by_clock:
        other = "sl.cumulate" if cumulate else "sl.sliding"
        raise ValueError(
            f"every is for windows of days and longer units; for {unit!r} use {other}; got every={every!r}"
        )
    if step.by_clock and not cumulate:
        raise ValueError(
            f"windows of {unit!r} begin with days or longer units; got every={every!r}. For other steps use "
            "sl.sliding; cumulate=True makes windows of hours since the unit began"
        )
    if unit[-1] == "w" and every[-1] == "d" and step.seconds % _WEEK == 0:
        every = f"{step.seconds // _WEEK}w"  # from Monday, too
        step = Unit.of(every)
    alike = bool(whole.months) == bool(step.months)
    aligned = not cumulate or whole.months or step.months or (whole.first - step.first) % step.seconds == 0
    if not whole.holds(step) or not (alike or cumulate) or not aligned:
        days = ", or be single days, or hours or minutes" if cumulate else ""
        monday = "" if aligned else " (weeks are counted from Monday)"
        raise ValueError(
            f"every must divide unit, as months divide years and days divide weeks{days}; got unit={unit!r}, "
            f"every={every!r}{monday}"
        )
    if step.by_clock and seconds % step.seconds:
        raise ValueError(f"offset must be a multiple of every if that is hours or minutes; got {offset!r}, {every!r}")
    if step.by_clock:
        return every, None
    return every, _shown(*_within(step, months if step.months else 0, seconds))


def months_and_seconds(offset: str | None) -> tuple[int, int]:
    """The months and seconds of an offset."""
    found, sign = parts(offset or ""), -1 if offset and offset.lstrip().startswith("-") else 1
    months = sum(count * _MONTHS[kind] for count, kind in found if kind in _MONTHS)
    return sign * months, sign * sum(count * NS[kind] // SECOND for count, kind in found if kind in NS)


def _within(unit: Unit, months: int, seconds: int) -> tuple[int, int]:
    """An offset less whole units, which change nothing."""
    if not unit.months:
        return 0, seconds % unit.seconds
    # both keep their sign, as the days come after the months
    return (int(np.fmod(months, unit.months)) if seconds else months % unit.months), seconds


def _shown(months: int, seconds: int) -> str | None:
    shown = (f"{abs(months)}mo" if months else "") + (str(Duration(abs(seconds) * SECOND)) if seconds else "")
    return f"-{shown}" if shown and (months < 0 or seconds < 0) else shown or None


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
