"""The values of a query's arguments, one at a time: checked, and in the form that a ``Spec`` keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicing.query.processing_time import ProcessingTime
from slicing.query.triggers import Trigger
from slicing.query.watermark import Bounded, Watermark
from slicing.system.frozen_map import FrozenMap
from slicing.times.durations import Duration, amount, not_negative


def time_of(time: object) -> str | ProcessingTime:
    """The time column, or the clock."""
    if isinstance(time, ProcessingTime) or (isinstance(time, str) and time):
        return time
    raise TypeError(f"time must be the name of a column or sl.processing_time(); got {time!r}")


def keys_of(by: object) -> tuple[str, ...]:
    """The key columns, each once; a single name is one column, None is no column."""
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n for n in names):
        raise TypeError(f"by must be a list of column names ([] for one global group); got {by!r}")
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise ValueError(f"by names column {twice[0]!r} twice; each key column is named once")
    return tuple(names)


def entries_of(value: object, argument: str, allowed: tuple[type, ...], example: str) -> dict[str, Any]:
    """Windows or aggregates by name: a dict that is not empty, with values of the ``allowed`` classes."""
    if not isinstance(value, Mapping) or not value:
        raise TypeError(f"{argument} must be a dict with at least one entry, such as {{'n': {example}}}; got {value!r}")
    for name, item in value.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{argument} must have names as keys; got {name!r}")
        if not isinstance(item, allowed):
            raise TypeError(
                f"{argument}[{name!r}] must be built by one of the constructors, such as {example}; got {item!r}"
            )
    return dict(value)


def watermark_of(value: object) -> Watermark:
    """The watermark's policy; ``bounded(0)`` for None."""
    if value is None:
        return Bounded(0)
    if not isinstance(value, Watermark):
        raise TypeError(
            "watermark must be sl.bounded(delay), sl.ordered(), sl.manual(), sl.per_source(column, delay) or "
            f"sl.punctuated(column); got {value!r}"
        )
    return value


def triggers_of(value: object, windows: Mapping[str, object]) -> Trigger | FrozenMap[Trigger] | None:
    """One trigger for all windows, or triggers by the names of ``windows``."""
    if value is None or isinstance(value, Trigger):
        return value
    if not isinstance(value, Mapping) or not value:
        raise TypeError(
            "trigger must be one for all windows, such as sl.every('1m'), or a dict of triggers by window name; got "
            f"{value!r}"
        )
    for name, trigger in value.items():
        if name not in windows:
            raise ValueError(f"trigger has {name!r}, and no window is named so; there are {', '.join(windows)}")
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger[{name!r}] must be a trigger, such as sl.every('1m'); got {trigger!r}")
    return FrozenMap(value)


def lateness_of(value: object) -> Duration | int:
    """A span that is not negative; a duration of no length is 0."""
    span = not_negative(value, "allowed_lateness")
    return span if amount(span) else 0
