"""Checks of arguments that several functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def choice(value: object, argument: str, allowed: Sequence[str]) -> str:
    """The value, which must be one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return value


def yes_or_no(value: object, argument: str) -> bool:
    """The value, which must be True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument} must be True or False; got {value!r}")
    return value


def column_name(value: object, argument: str) -> str:
    """The value, which must be the name of a column."""
    if not isinstance(value, str) or not value:
        raise TypeError(f"{argument} must be the name of a column; got {value!r}")
    return value


def column_or_none(value: object, argument: str, of: str = "") -> str | None:
    """The value, which must be the name of a column or None; ``of``: the owner of the column, for the error."""
    if value is not None and (not isinstance(value, str) or not value):
        raise TypeError(f"{argument} must be the name of a column{of} or None; got {value!r}")
    return value


def at_least_one(value: object, argument: str, other: str = "") -> int:
    """The value, which must be a whole number of at least 1; ``other``: what else is allowed, for the error."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument} must be a whole number of at least 1{other}; got {value!r}")
    return value


def says_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that a call with wrong arguments raises a sentence that names its arguments."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            # the traceback gets no name here: it holds this frame, and both would live until the next collection
            if getattr(error.__traceback__, "tb_next", None) is not None:  # the function raised the error itself
                raise
            said = _said(function, len(args), list(kwargs))
            if said is None:
                raise
        raise TypeError(said)

    return called


def _said(function: Callable[..., object], count: int, given: list[str]) -> str | None:
    """What is wrong with a call of ``count`` positional and these named arguments; None if nothing known is wrong."""
    import difflib
    from inspect import signature

    name, parameters = function.__qualname__, list(signature(function).parameters.values())
    name = f"sl.{name}" if function.__module__.startswith("slicing.") else name
    if name.endswith(".__init__"):
        name, parameters, count = name.removesuffix(".__init__"), parameters[1:], count - 1
    takes_others = any(p.kind == p.VAR_KEYWORD for p in parameters)
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in parameters]
    by_place = [p.name for p in parameters if p.kind != p.KEYWORD_ONLY]
    listed = f"its arguments are {', '.join(names)}"
    for other in given:
        if other not in names and not takes_others:
            near = [_OURS[other]] if _OURS.get(other) in names else difflib.get_close_matches(other, names, 1)
            return f"{name} has no argument {other!r}{f'; did you mean {near[0]}?' if near else ''} ({listed})"
        if other in by_place[:count]:
            return f"{name} has got {other!r} twice, by its place and by its name ({listed})"
    if count > len(by_place):
        said = f"{name} takes at most {len(by_place)} arguments without a name ({', '.join(by_place)}); got {count}"
        return said + ("; a query is one argument: sl.Spec(time, windows, aggs)" if "spec" in by_place else "")
    known = {*by_place[:count], *given}
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in known]
    return f"{name} needs {' and '.join(f'{m}=' for m in missing)} as well ({listed})" if missing else None


_OURS = {  # names in other libraries
    **dict.fromkeys(("keys", "key", "group_by", "partition_by", "on"), "by"),
    **dict.fromkeys(("time_column", "timestamp", "ts", "index_column", "event_time"), "time"),
    **dict.fromkeys(("aggregates", "aggregations", "agg"), "aggs"),
    **dict.fromkeys(("lateness", "grace"), "allowed_lateness"),
    **dict.fromkeys(("hop", "slide", "step", "period"), "every"),
    **dict.fromkeys(("length", "width", "duration"), "size"),
}
