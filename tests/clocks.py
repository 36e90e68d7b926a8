"""When units of a calendar begin: the clocks of zones are asked minute by minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)
MONTHS = {"mo": 1, "q": 3, "y": 12}


@cache
def reached(zone: str, shown: datetime) -> datetime:
    """The first minute, of UTC, at which the zone's clock shows this time or a later one."""
    at = shown - timedelta(hours=30)
    longest = timedelta(hours=25 if zone == "Pacific/Apia" else 3)  # jump of a clock
    while (at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))).replace(tzinfo=None) < shown:
        clock = at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        at += max(timedelta(minutes=1), min(shown - clock - longest, timedelta(hours=2)))
    return at


def moved(text: str) -> tuple[int, timedelta]:
    months, rest, sign = 0, timedelta(), -1 if text.startswith("-") else 1
    for unit, size in (("mo", 1), ("q", 3)):
        if unit in text:
            head, _, text = text.partition(unit)
            months = int(head.strip("-")) * size
    for unit in ("d", "h", "m"):
        if unit in text:
            head, _, text = text.partition(unit)
            rest += int(head.strip("-")) * {"d": timedelta(1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}[unit]
    return sign * months, sign * rest


def begins(unit: str, offset: str, near: datetime, zone: str, back: int = 3, ahead: int = 4) -> list[datetime]:
    """When units begin, in UTC: so many before and after a time on the clock, and some more."""
    count, kind = int(unit.rstrip("dwmoqy")), unit.lstrip("0123456789")
    months, rest = moved(offset)
    if kind in MONTHS:
        step, now = count * MONTHS[kind], near.year * 12 + near.month - 1
        first = (now - 1970 * 12 - months) // step * step + months + 1970 * 12
        dates = [date(n // 12, n % 12 + 1, 1) for n in (first + k * step for k in range(-back, ahead + 1))]
        shown = [datetime(day.year, day.month, day.day) + rest for day in dates]
    else:
        days = count * (7 if kind == "w" else 1)
        origin = EPOCH + timedelta(4 if kind == "w" else 0) + rest
        first = origin + (near - origin) // timedelta(days) * timedelta(days)
        shown = [first + k * timedelta(days) for k in range(-back, ahead + 1)]
    return sorted({reached(zone, each) for each in shown})


def shown(zone: ZoneInfo, instant: int) -> int:
    local = datetime.fromtimestamp(instant, zone)
    return int(local.replace(tzinfo=UTC).timestamp())


def edges_by_the_minute(clock: list[int], begin: int, step: int) -> list[int]:
    """Where the clock's hour changes, minute by minute from the one before ``begin``. A clock that goes back by less
    than an hour is taken to stand still; one that goes back by an hour or more shows hours again."""
    found, latest = [], clock[0]
    for minute, (before, now) in enumerate(pairwise(clock)):
        again = now < before + 60 and before + 60 - now >= step
        held = now if again else max(now, latest)
        if again or held // step != latest // step:
            found.append(begin + 60 * minute)
        latest = held
    return found
