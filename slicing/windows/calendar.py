"""Windows of a zone's calendar as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from zoneinfo import ZoneInfo

import pyarrow as pa

from slicing.system.arguments import says_arguments, yes_or_no
from slicing.times.calendar_units import (
    UTC_NAMES,
    Unit,
    calendar_offset,
    calendar_steps,
    calendar_unit,
    check_zone,
    months_and_seconds,
)
from slicing.times.calendars import CalendarEdges
from slicing.times.durations import SECOND, Duration
from slicing.times.measure import Measure
from slicing.windows.bounds import Bound, BoundPeriodic
from slicing.windows.builtin import Window
from slicing.windows.calendar_bounds import BoundCalendar, BoundCalendarCumulate, BoundCalendarSliding, BoundDays
from slicing.windows.context_free import ContextFreeWindow


@dataclass(frozen=True, repr=False)
class CalendarWindow(Window, ContextFreeWindow):
    """What all windows of a calendar share."""

    _constructor: ClassVar[str] = "calendar"
    unit: str
    tz: str = "UTC"
    fill: bool = False
    local: bool = False
    offset: str | None = None

    @property
    def edges(self) -> tuple[str, ...]:
        """The units with which windows begin or end."""
        raise NotImplementedError

    def _check_zone(self, measure: Measure) -> None:
        """Raise if the time column and the calendar do not agree on having a zone."""
        if not pa.types.is_timestamp(measure.type):
            return
        zone = measure.type.tz
        if zone is None and self.tz not in UTC_NAMES:
            raise ValueError(
                f"{self!r} needs times with a zone, and the time column is of type {measure.type}. Give the column its "
                "zone (pandas' dt.tz_localize, polars' dt.replace_time_zone, pyarrow.compute.assume_timezone, on Spark "
                f"a cast to timestamp), or use sl.calendar({self.unit!r}, local=True), which takes times as the clock "
                "on the wall showed them"
            )
        if zone is not None and self.local:
            raise ValueError(
                f"{self!r} is for times without a zone, and the time column is of type {measure.type}; use "
                f"sl.calendar({self.unit!r}, tz={zone!r})"
            )


@dataclass(frozen=True, repr=False)
class Calendar(CalendarWindow):
    """Units side by side."""

    @property
    def edges(self) -> tuple[str, ...]:
        return (self.unit,)

    def bind(self, measure: Measure) -> Bound:
        self._check_zone(measure)
        table = CalendarEdges(self.unit, self.tz, measure, self.offset)
        unit = Unit.of(self.unit)
        if unit.months or self.tz not in UTC_NAMES:
            return BoundCalendar(table)
        # the clock never changes: days of 10,000 rows 0.53 -> 0.28 ms
        step, first = unit.seconds, unit.first + months_and_seconds(self.offset)[1]
        step, first = (measure.ticks(Duration(seconds * SECOND), "unit") for seconds in (step, first))
        return BoundPeriodic(step, step, first) if unit.by_clock else BoundDays(table, step, first)


@dataclass(frozen=True, repr=False)
class CalendarSteps(CalendarWindow):
    """Units that begin with every step of another unit, or that grow by it."""

    every: str = ""
    cumulate: bool = False

    @property
    def edges(self) -> tuple[str, ...]:
        return (self.unit, self.every) if self.cumulate else (self.every,)

    def bind(self, measure: Measure) -> Bound:
        self._check_zone(measure)
        unit, every = Unit.of(self.unit), Unit.of(self.every)
        _, offset = calendar_steps(self.every, self.unit, self.offset, self.cumulate)
        longest, per_tick = unit.longest * SECOND // measure.word_ns, measure.word_ns / (every.shortest * SECOND)
        sizes = longest, unit.holds(every), per_tick
        table = CalendarEdges(self.every, self.tz, measure, offset, self.unit)
        if self.cumulate:
            return BoundCalendarCumulate(CalendarEdges(self.unit, self.tz, measure, self.offset), table, *sizes)
        return BoundCalendarSliding(table, *sizes)


@says_arguments
def calendar(
    unit: str,
    tz: str | ZoneInfo = "UTC",
    *,
    every: str | None = None,
    cumulate: bool = False,
    fill: bool = False,
    local: bool = False,
    offset: str | None = None,
) -> CalendarWindow:
    """Days, weeks (from Monday), months, quarters, years, hours or minutes of a time zone, with its clock changes.

    Parameters
    ----------
    unit
        Such as "1d", "2w", "3mo", "1q", "1y", "6h" or "15min". Several days are counted from 1970-01-01, weeks from
        Monday 1970-01-05, months, quarters and years from January 1970. Hours and minutes must divide a day.
    tz
        The zone of the windows, a name or a ``ZoneInfo``: UTC, if it is not given, also if the time column has another
        zone. For times without a zone, only UTC.
    every
        How often windows of days or longer units begin, if not one after the other: ``("7d", every="1d")`` are the
        seven days from each midnight on, ``("1q", every="1mo")`` the three months from each month on. It divides the
        unit.
    cumulate
        Windows begin with each unit and grow by ``every`` until the unit ends: ``("1mo", every="1d", cumulate=True)``
        is the month so far, each day. Here ``every`` may also be a day, or hours or minutes.
    fill
        Also emit the empty windows between a key's first and last row.
    local
        For times without a zone: windows of the wall-clock time in the column, without clock changes.
    offset
        How much later windows of days or longer units begin, on the zone's clock; earlier with a "-". Days from six in
        the morning: "6h". Weeks from Sunday: "6d" or "-1d". Years from April: "3mo". Months from the 15th: "14d".

    Notes
    -----
    Days of a zone may have 23 or 25 hours. Hours and minutes are those that the zone's clock shows. If the clock goes
    forward, a window is shorter by the change; a window that is skipped completely has no rows. If the clock goes back
    by less than ``unit``, the window is longer: "6h" has one of 7 hours. If it goes back by ``unit`` or more, windows
    come once for each pass: "1h" has 25 that day. For steps of equal length use :func:`tumbling`.

    Examples
    --------
    >>> sl.calendar("1mo", tz="Europe/Berlin")
    sl.calendar('1mo', tz='Europe/Berlin')
    >>> sl.calendar("15 min", local=True)
    sl.calendar('15m', local=True)
    >>> sl.calendar("1w", "America/New_York", offset="-1d")
    sl.calendar('1w', tz='America/New_York', offset='6d')
    >>> sl.calendar("1y", every="1mo", cumulate=True)  # the year so far, each month
    sl.calendar('1y', every='1mo', cumulate=True)
    """
    unit = calendar_unit(unit)
    if isinstance(tz, ZoneInfo):
        tz = tz.key
    check_zone(tz)
    if yes_or_no(local, "local") and tz not in UTC_NAMES:
        raise ValueError(f"calendar takes tz= (for times with a zone) or local=True, not both; got tz={tz!r}")
    arguments = unit, tz, yes_or_no(fill, "fill"), local, calendar_offset(offset, unit)
    if yes_or_no(cumulate, "cumulate") and every is None:
        raise ValueError("cumulate=True needs every=, the steps by which windows grow, such as every='1d'")
    if every is None:
        return Calendar(*arguments)
    step, _ = calendar_steps(every, unit, arguments[-1], cumulate)
    return Calendar(*arguments) if step == unit else CalendarSteps(*arguments, step, cumulate)
