"""Window types as users write them: frozen descriptions, bound to a time column in ``slicing.windows.bounds``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from typing import ClassVar

import numpy as np
import pyarrow as pa

from slicing.system.arguments import says_arguments, yes_or_no
from slicing.system.arrays import Ints
from slicing.times.durations import Duration, Span, amount, parse_span, shown
from slicing.times.measure import Measure, check_moment, without_arrow
from slicing.windows.bounds import (
    BEGIN,
    END,
    Bound,
    BoundCumulate,
    BoundFixed,
    BoundLandmark,
    BoundPeriodic,
)
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.edges import EdgeSet


@dataclass(frozen=True)
class Window:
    """A window type of a :class:`~slicing.Spec`: frozen, hashable, printed as the code that builds it."""

    _constructor: ClassVar[str] = ""
    spans: ClassVar[tuple[str, ...]] = ("size", "every", "offset", "gap")  # arguments that are spans of time

    def __repr__(self) -> str:
        parts: list[str] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value == f.default or value is None:
                continue
            named = f.default is not MISSING or (f.name == "every" and parts)
            parts.append(f"{f.name}={shown(value)}" if named else shown(value))
        return f"sl.{self._constructor}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class _BuiltIn(Window, ContextFreeWindow):
    """A built-in context-free window; it also has the methods of the public base class, in plain ticks."""

    def bind(self, measure: Measure) -> Bound:
        raise NotImplementedError

    def _in_ticks(self) -> Bound:
        return self.bind(Measure.of(pa.int64(), "time"))

    def next_edge(self, times: Ints) -> Ints:
        # the engine's own arithmetic, for one window
        return EdgeSet([self._in_ticks()]).next_live(np.asarray(times, np.int64), BEGIN)

    def containing(self, time: int) -> Iterable[tuple[int, int]]:
        bound = self._in_ticks()
        end = EdgeSet([bound]).next_live(np.array([time], np.int64), BEGIN)
        due = EdgeSet([bound]).due(end, BEGIN, END)
        return list(zip(due.start.tolist(), due.end.tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class _Stepped(_BuiltIn):
    _bound: ClassVar[type[BoundPeriodic | BoundCumulate]]
    size: Span
    every: Span
    offset: Span = 0
    fill: bool = False

    def bind(self, measure: Measure) -> Bound:
        size, every = measure.ticks(self.size, "size"), measure.ticks(self.every, "every")
        step = self.size if self._bound is BoundCumulate else self.every
        return self._bound(size, every, measure.ticks(_reduced(self.offset, step), "offset"))


@dataclass(frozen=True, repr=False)
class Sliding(_Stepped):
    full: bool = False
    _constructor = "sliding"
    _bound = BoundPeriodic


class Cumulate(_Stepped):
    _constructor = "cumulate"
    _bound = BoundCumulate


@dataclass(frozen=True, repr=False)
class Tumbling(_BuiltIn):
    _constructor: ClassVar[str] = "tumbling"
    size: Span
    offset: Span = 0
    fill: bool = False
    full: bool = False

    def bind(self, measure: Measure) -> Bound:
        size = measure.ticks(self.size, "size")
        return BoundPeriodic(size, size, measure.ticks(_reduced(self.offset, self.size), "offset"))


@dataclass(frozen=True, repr=False)
class Landmark(_BuiltIn):
    _constructor: ClassVar[str] = "landmark"
    every: Span
    start: object = None

    def bind(self, measure: Measure) -> Bound:
        start = None if self.start is None else measure.instant(self.start, "landmark's start")
        return BoundLandmark(measure.ticks(self.every, "every"), start)


@dataclass(frozen=True, repr=False)
class Fixed(_BuiltIn):
    _constructor: ClassVar[str] = "fixed"
    start: object
    end: object

    def bind(self, measure: Measure) -> Bound:
        start, end = measure.instant(self.start, "fixed's start"), measure.instant(self.end, "fixed's end")
        if start >= end:
            raise ValueError(f"fixed's end must be later than its start; got {self.start!r} to {self.end!r}")
        return BoundFixed(start, end)


@dataclass(frozen=True, repr=False)
class Session(Window):
    _constructor: ClassVar[str] = "session"
    gap: Span


@dataclass(frozen=True, repr=False)
class Whole(Window):
    _constructor: ClassVar[str] = "whole"


@says_arguments
def tumbling(size: object, offset: object = 0, *, fill: bool = False, full: bool = False) -> Tumbling:
    """Windows of one size, side by side: ``[k*size + offset, ... + size)``, counted from 1970 (UTC; integers: from 0).

    ``tumbling("1w")`` begins weeks on Thursday, as 1970-01-01 was a Thursday; ``calendar("1w")`` begins them on Monday.
    For local days use ``calendar("1d", tz)``.

    Parameters
    ----------
    size
        A duration, or a whole number for integer columns.
    offset
        How much later than a multiple of ``size`` windows begin. Adding whole sizes changes nothing.
    fill
        Also emit the empty windows between a key's first and last row.
    full
        Only emit windows that the data covers from start to end (see :func:`sliding`).

    Examples
    --------
    >>> sl.tumbling("1w", offset="4d")  # weeks from Monday, of UTC
    sl.tumbling('7d', offset='4d')
    """
    arguments = parse_span(offset, "offset"), yes_or_no(fill, "fill"), yes_or_no(full, "full")
    return Tumbling(_positive(size, "size"), *arguments)


@says_arguments
def sliding(size: object, every: object, offset: object = 0, *, fill: bool = False, full: bool = False) -> Sliding:
    """Windows of ``size`` that start at every multiple of ``every``. If ``every > size``, there are gaps between them.

    Parameters
    ----------
    size, every
        Durations, or whole numbers for integer columns.
    offset
        How much later than a multiple of ``every`` windows begin. Adding whole steps changes nothing.
    fill
        Also emit the empty windows between a key's first and last row. Rows in gaps are in no window and do not count.
    full
        Only emit windows that the data covers from start to end. They start at the first row of the stream or later,
        and end by its last row or by the watermark (a window of the ticks 10 to 19 ends by a row at 19). Left out are
        windows that begin before the first row and windows that a flush cuts short.

    Notes
    -----
    ``full`` looks at the whole stream, not at each key: a window is whole even for a key without rows in its first
    minutes. A row behind the watermark does not count as the first row. Rows of windows that are left out count as
    ``windowed`` in the accounting.

    Examples
    --------
    >>> sl.sliding("1h", every="15m", full=True)
    sl.sliding('1h', every='15m', full=True)
    """
    size, every = _positive(size, "size"), _positive(every, "every")
    _same_kind(size, every)
    arguments = parse_span(offset, "offset"), yes_or_no(fill, "fill"), yes_or_no(full, "full")
    return Sliding(size, every, *arguments)


@says_arguments
def cumulate(size: object, every: object, offset: object = 0, *, fill: bool = False) -> Cumulate:
    """Windows that grow by ``every`` until they are ``size`` long, then start again.

    Parameters
    ----------
    size, every
        Durations, or whole numbers for integer columns; ``size`` is a multiple of ``every``.
    offset
        How much later than a multiple of ``size`` windows begin.
    fill
        Also emit the empty windows between a key's first and last row.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [1, 2, 3]})
    >>> spec = sl.Spec("t", {"w": sl.cumulate(20, every=10)}, {"n": sl.count()})
    >>> sl.aggregate(rows, spec).select(["window_start", "window_end", "n"]).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'n': 2}, {'window_start': 0, 'window_end': 20, 'n': 3}]
    """
    size, every = _positive(size, "size"), _positive(every, "every")
    _same_kind(size, every)
    if amount(size) % amount(every):
        raise ValueError(f"cumulate's size must be a whole multiple of every; got size={size}, every={every}")
    return Cumulate(size, every, parse_span(offset, "offset"), yes_or_no(fill, "fill"))


@says_arguments
def landmark(every: object, start: object = None) -> Landmark:
    """Windows that all begin at one start and end at every multiple of ``every`` after it; they are never reset.

    Multiples are counted from 1970, or from 0 in integer columns, not from the start.

    Parameters
    ----------
    every
        The distance between the ends of windows.
    start
        The start of all windows; None: the beginning of time.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12]})
    >>> spec = sl.Spec("t", {"so far": sl.landmark(10, start=0)}, {"n": sl.count()})
    >>> sl.aggregate(rows, spec).select(["window_end", "n"]).to_pylist()
    [{'window_end': 10, 'n': 2}, {'window_end': 20, 'n': 3}]
    """
    return Landmark(_positive(every, "every"), None if start is None else _point(start, "landmark's start"))


@says_arguments
def fixed(start: object, end: object) -> Fixed:
    """One window of time, ``[start, end)``.

    Parameters
    ----------
    start, end
        Instants: ISO text, datetimes, or whole numbers for integer columns. If the column has a zone, one without a
        zone is in UTC. Rows at ``end`` are outside.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12]})
    >>> sl.aggregate(rows, sl.Spec("t", {"w": sl.fixed(2, 12)}, {"n": sl.count()}))["n"].to_pylist()
    [1]
    """
    if start is None or end is None:
        raise TypeError(f"fixed needs a start and an end; got start={start!r}, end={end!r}")
    start, end = _point(start, "fixed's start"), _point(end, "fixed's end")
    bounds = [p if isinstance(p, int) else check_moment(p, "fixed's bounds") for p in (start, end)]
    if isinstance(start, int) == isinstance(end, int) and bounds[0] >= bounds[1]:
        raise ValueError(f"fixed's end must be later than its start; got {start!r} to {end!r}")
    return Fixed(start, end)


@says_arguments
def session(gap: object) -> Session:
    """Maximal runs of a key's rows whose neighbours are at most ``gap`` apart, as windows ``[first, last + gap)``.

    Parameters
    ----------
    gap
        How long a key may be without rows within a session.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 3, 12]})
    >>> spec = sl.Spec("t", {"visit": sl.session(5)}, {"n": sl.count()})
    >>> sl.aggregate(rows, spec).select(["window_start", "window_end", "n"]).to_pylist()
    [{'window_start': 1, 'window_end': 8, 'n': 2}, {'window_start': 12, 'window_end': 17, 'n': 1}]
    """
    return Session(_positive(gap, "gap"))


def whole() -> Whole:
    """The whole stream of a key as one window from its first to its last row, emitted at flush.

    In a stream, rows before the watermark (less ``allowed_lateness``) are late for it, as for windows of rows.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 3, 12]})
    >>> sl.aggregate(rows, sl.Spec("t", {"all": sl.whole()}, {"n": sl.count()}))["n"].to_pylist()
    [3]
    """
    return Whole()


def _positive(value: object, argument: str) -> Span:
    return parse_span(value, argument, positive=True)


def _point(value: object, argument: str) -> object:
    """A point in time: an integer for integer columns, otherwise a value that names a moment."""
    value = without_arrow(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return int(value)
    check_moment(value, argument)
    # a Timestamp of pandas is printed as code that builds it
    return value.isoformat() if isinstance(value, datetime) and type(value) is not datetime else value


def _reduced(offset: Span, step: Span) -> Span:
    """The offset modulo the step, which gives the same windows; so an offset of many years fits any time column."""
    if isinstance(offset, Duration) and isinstance(step, Duration):
        return Duration(offset.ns % step.ns)
    if isinstance(offset, Duration) or isinstance(step, Duration):
        return offset
    return offset % step


def _same_kind(size: Span, every: Span) -> None:
    if isinstance(size, Duration) != isinstance(every, Duration):
        raise TypeError(
            f"size and every must both be durations or both be whole numbers; got {shown(size)} and {shown(every)}"
        )


__all__ = [
    "ContextFreeWindow",
    "cumulate",
    "fixed",
    "landmark",
    "session",
    "sliding",
    "tumbling",
    "whole",
]
