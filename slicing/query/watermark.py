"""Watermark policies: how far the stream has come, from the rows pushed so far.

A policy is a frozen description in the spec. Its *progress* is a small immutable value. ``observe`` returns a new
progress, so that a push that fails leaves the operator with its old one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.bits import true
from slicing.columns.casts import plain
from slicing.columns.types import decoded, is_text
from slicing.query.progress import Progress, Seen
from slicing.system.arguments import choice, column_name, says_arguments
from slicing.system.arrays import Ints
from slicing.times.durations import MAX_WORD, Duration, Span, amount, not_negative, parse_span, shown
from slicing.times.measure import Measure
from slicing.windows.bounds import LIMIT

Ticks = TypeVar("Ticks")

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Watermark:
    """A watermark policy of a :class:`~slicing.Spec`."""

    def columns(self) -> tuple[str, ...]:
        return ()

    def spans(self) -> dict[str, Span]:
        return {}

    def delays(self, measure: Measure) -> dict[str, int]:
        """The spans in ticks."""
        return {where: measure.ticks(span, where) for where, span in self.spans().items()}

    def check(self, types: Mapping[str, pa.DataType], measure: Measure) -> None:
        """Raise for a column type that the policy cannot read."""

    def observe(self, before: Progress, seen: Seen) -> Progress:
        """The progress after these rows (at least one). Raises if the stream broke its promise."""
        newest = seen.newest if before.largest is None else max(before.largest, seen.newest)
        return Progress(newest, before.sources)

    def ahead(self, times: Ints, watermark: int | None, delays: Mapping[str, int], part: bool) -> Ints:
        """The positions of rows that are set aside: too far ahead of the watermark before their push.

        ``part``: the rows are a part of a push and may come from anywhere in it.
        """
        return _NONE

    def joined(self, one: Progress, other: Progress, measure: Measure) -> Progress:
        """The progress of a stream that two readers have read parts of."""
        return one.joined(other)

    def reached(self, progress: Progress, delays: Mapping[str, int]) -> int | None:
        """The watermark: no row before it will come; None: not known yet. ``delays``: the policy's spans in ticks."""
        return None


@dataclass(frozen=True, repr=False)
class Bounded(Watermark):
    delay: Span
    at_most_ahead: Span | None = None

    def spans(self) -> dict[str, Span]:
        ahead = {} if self.at_most_ahead is None else {"bounded's at_most_ahead": self.at_most_ahead}
        return {"bounded's delay": self.delay, **ahead}

    def ahead(self, times: Ints, watermark: int | None, delays: Mapping[str, int], part: bool) -> Ints:
        """Judge rows in order of time, each by the watermark that the earlier rows give."""
        if self.at_most_ahead is None or not times.size:
            return _NONE
        delay, most = delays["bounded's delay"], delays["bounded's at_most_ahead"]
        newest = int(times.max())
        if watermark is not None and newest - watermark <= most:
            return _NONE
        if watermark is None or (part and times.size > 1):
            if watermark is None and newest - int(times.min()) + delay <= most:
                return _NONE
            bulk = int(np.partition(times, (times.size - 1) // 2)[(times.size - 1) // 2]) - delay
            watermark = bulk if watermark is None else max(watermark, bulk)
        watermark = max(-LIMIT, min(LIMIT, watermark))
        if newest - watermark <= most:
            return _NONE
        times = np.clip(times, -LIMIT, LIMIT)
        later = np.sort(times[times > watermark])
        reached = np.append(watermark, np.maximum(later[:-1] - delay, watermark))
        cut = later[np.argmax(later - most > reached)] if (later - most > reached).any() else LIMIT + 1
        return np.flatnonzero(times >= cut)

    def reached(self, progress: Progress, delays: Mapping[str, int]) -> int | None:
        return None if progress.largest is None else progress.largest - delays["bounded's delay"]

    def __repr__(self) -> str:
        ahead = "" if self.at_most_ahead is None else f", at_most_ahead={shown(self.at_most_ahead)}"
        return f"sl.bounded({shown(self.delay)}{ahead})"


@dataclass(frozen=True, repr=False)
class Ordered(Watermark):
    on_disorder: str = "error"

    def observe(self, before: Progress, seen: Seen) -> Progress:
        times, measure = seen.times, seen.measure
        in_order = seen.ascending and (before.largest is None or before.largest <= seen.oldest)
        if self.on_disorder == "error" and not in_order:
            previous = np.empty_like(times)
            previous[0] = times[0] if before.largest is None else before.largest
            np.maximum.accumulate(times[:-1], out=previous[1:])
            np.maximum(previous[1:], previous[0], out=previous[1:])
            row = int(np.argmax(times < previous))
            raise ValueError(
                f"the stream is declared sl.ordered(), but row {seen.position(row)} of the batch has time "
                f"{measure.value(int(times[row]))} after a row of time {measure.value(int(previous[row]))}; sort it, "
                "declare sl.bounded(delay), or sl.ordered(on_disorder='late')"
            )
        return before.grown(seen.newest)

    def reached(self, progress: Progress, delays: Mapping[str, int]) -> int | None:
        return progress.largest

    def __repr__(self) -> str:
        return "sl.ordered()" if self.on_disorder == "error" else f"sl.ordered(on_disorder={self.on_disorder!r})"


@dataclass(frozen=True, repr=False)
class Manual(Watermark):
    def __repr__(self) -> str:
        return "sl.manual()"


@dataclass(frozen=True, repr=False)
class PerSource(Watermark):
    column: str
    delay: Span
    idle: Span | None = None

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def spans(self) -> dict[str, Span]:
        idle = {} if self.idle is None else {"per_source's idle": self.idle}
        return {"per_source's delay": self.delay, **idle}

    def check(self, types: Mapping[str, pa.DataType], measure: Measure) -> None:
        type = types[self.column]
        value = decoded(type)
        if not (pa.types.is_integer(value) or pa.types.is_boolean(value) or is_text(value)):
            raise TypeError(
                f"per_source's column {self.column!r} has type {type}; a source is named by an integer, a bool, a "
                "string or a dictionary of these"
            )

    def observe(self, before: Progress, seen: Seen) -> Progress:
        source = plain(seen.columns[self.column])
        if pa.types.is_dictionary(source.type):
            source = source.dictionary_decode()
        by_source = pa.table({"source": source.cast(pa.string()), "time": seen.times}).group_by("source")
        latest = by_source.aggregate([("time", "max")])
        sources = dict(before.sources)
        for name, time in zip(latest["source"].to_pylist(), latest["time_max"].to_pylist(), strict=True):
            sources[name] = max(time, sources.get(name, time))
        return self._heard(Progress(before.grown(seen.newest).largest, sources), seen.measure)

    def joined(self, one: Progress, other: Progress, measure: Measure) -> Progress:
        return self._heard(one.joined(other), measure)

    def _heard(self, progress: Progress, measure: Measure) -> Progress:
        """The progress without silent sources."""
        if self.idle is None or progress.largest is None:
            return progress
        heard_after = progress.largest - measure.ticks(self.idle, "per_source's idle")
        return Progress(progress.largest, {name: time for name, time in progress.sources.items() if time > heard_after})

    def reached(self, progress: Progress, delays: Mapping[str, int]) -> int | None:
        if progress.largest is None:
            return None
        heard = min(progress.sources.values(), default=progress.largest)
        return heard - delays["per_source's delay"]

    def __repr__(self) -> str:
        idle = "" if self.idle is None else f", idle={shown(self.idle)}"
        return f"sl.per_source({self.column!r}, {shown(self.delay)}{idle})"


@dataclass(frozen=True, repr=False)
class Punctuated(Watermark):
    column: str
    by: tuple[str, ...] = ()  # marks are for the key of their row, not for the stream

    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.by)

    def check(self, types: Mapping[str, pa.DataType], measure: Measure) -> None:
        type = types[self.column]
        if type != measure.type and not pa.types.is_boolean(type):
            raise TypeError(
                f"punctuated's column {self.column!r} has type {type}; it must have the time column's type, "
                f"{measure.type}, or be boolean (true: the row's own time is the watermark)"
            )

    def observe(self, before: Progress, seen: Seen) -> Progress:
        if self.by:
            return before
        marks, measure = seen.columns[self.column], seen.measure
        if pa.types.is_boolean(marks.type):
            return before.grown(_largest(seen.times[true(marks)]))
        if measure.is_uint64:  # a time that does not fit int64 is after all rows
            marks = pc.min_element_wise(marks, pa.scalar(MAX_WORD, pa.uint64()), skip_nulls=False)
        return before.grown(_largest(measure.words(pc.drop_null(marks))))

    def reached(self, progress: Progress, delays: Mapping[str, int]) -> int | None:
        return progress.largest

    def __repr__(self) -> str:
        by = f", by={list(self.by)!r}" if self.by else ""
        return f"sl.punctuated({self.column!r}{by})"


@says_arguments
def bounded(delay: object, *, at_most_ahead: object = None) -> Bounded:
    """The watermark is ``max(time) - delay``: rows are at most ``delay`` behind the newest row.

    Parameters
    ----------
    delay
        How far a row may be behind the newest row.
    at_most_ahead
        How far a row may be ahead of the watermark, at least ``delay``. A row further ahead (as from a wrong clock)
        does not move the watermark. It is returned in ``out.late`` with the reason ``"ahead"`` and counted in
        ``out.stats["ahead"]``. None: any row moves the watermark.

    Notes
    -----
    Rows of a push are judged in order of time, each by the watermark that the earlier rows give. So a push may span any
    time without a gap longer than ``at_most_ahead - delay``. If there is no watermark yet, judging starts at the median
    row of the push: one wrong row among several does not set the first watermark. For a stream in order of time the
    result does not depend on how it is split into pushes, if the first push has a right median. On Spark each task
    judges the rows that it reads of a batch, starting at their median if that is later than the watermark.

    After a pause of the stream longer than that, all rows are ahead. Call ``op.advance(time)`` to move on.

    Examples
    --------
    >>> sl.bounded("10m", at_most_ahead="1d")
    sl.bounded('10m', at_most_ahead='1d')
    """
    delay = not_negative(delay, "bounded's delay")
    if at_most_ahead is None:
        return Bounded(delay)
    most = parse_span(at_most_ahead, "bounded's at_most_ahead", positive=True)
    if isinstance(delay, Duration) != isinstance(most, Duration) and delay != 0:
        raise TypeError(
            f"bounded's delay and at_most_ahead must both be durations or both be whole numbers; got {shown(delay)} "
            f"and {shown(most)}"
        )
    if delay != 0 and amount(most) < amount(delay):
        raise ValueError(
            f"bounded's at_most_ahead must be at least its delay, as the newest row is so far ahead of the watermark; "
            f"got delay={shown(delay)} and at_most_ahead={shown(most)}"
        )
    return Bounded(delay, most)


@says_arguments
def ordered(on_disorder: str = "error") -> Ordered:
    """The stream is in order of time. A row out of order raises or, with ``"late"``, may be late.

    Parameters
    ----------
    on_disorder
        ``"error"`` or ``"late"``.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.ordered())
    >>> op = sl.Operator(spec)
    >>> op.push(pa.table({"t": [1, 2, 12]})).watermark
    12
    """
    return Ordered(choice(on_disorder, "on_disorder", ("error", "late")))


def manual() -> Manual:
    """Only ``advance(watermark)`` moves the watermark.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.manual())
    >>> op = sl.Operator(spec)
    >>> op.push(pa.table({"t": [1, 2, 12]})).windows.num_rows
    0
    >>> op.advance(10).windows["n"].to_pylist()
    [2]
    """
    return Manual()


@says_arguments
def per_source(column: str, delay: object, idle: object = None) -> PerSource:
    """The watermark is the minimum of ``max(time) - delay`` over the sources named in ``column``.

    A source that is ``idle`` behind the newest row of all sources no longer holds back the watermark. A source that has
    had no row yet is not known, and does not hold it back either: its first rows may be late.

    Parameters
    ----------
    column
        The column that names the source of each row.
    delay
        How far a row may be behind the newest row of its source.
    idle
        How far a source may be behind the newest row of all sources before it is left out; None: any time.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.per_source("from", 2))
    >>> op = sl.Operator(spec)
    >>> op.push(pa.table({"t": [15, 12], "from": ["a", "b"]})).watermark
    10
    """
    span = None if idle is None else parse_span(idle, "per_source's idle", positive=True)
    return PerSource(column_name(column, "per_source's column"), not_negative(delay, "per_source's delay"), span)


@says_arguments
def punctuated(column: str, by: Sequence[str] | str = ()) -> Punctuated:
    """Rows carry the watermark: as values of a nullable time column, or as a boolean that marks rows.

    Parameters
    ----------
    column
        A time column: if a row has a value, no later row is before that time. Or a boolean column: if it is true, no
        later row is before the row's own time.
    by
        The key columns: a row marks its own key only, and the stream's watermark moves by ``advance()`` only.

    Examples
    --------
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.punctuated("mark"))
    >>> op = sl.Operator(spec)
    >>> op.push(pa.table({"t": [1, 12], "mark": [None, 10]})).watermark
    10
    >>> sl.punctuated("mark", by=["sensor"])
    sl.punctuated('mark', by=['sensor'])
    """
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"punctuated's by must be a list of column names; got {by!r}")
    return Punctuated(column_name(column, "punctuated's column"), tuple(names))


def _largest(times: Ints) -> int | None:
    return int(times.max()) if times.size else None


def check_places(policy: Watermark, what: str) -> None:
    """Raise for policies that several readers cannot share: an order of arrival, or marks of keys."""
    if isinstance(policy, Ordered) and policy.on_disorder == "error":
        raise ValueError(
            f"{what} needs rows in the order they arrived, and here they come from several places; use "
            "sl.bounded(delay) or sl.ordered(on_disorder='late')"
        )
    if isinstance(policy, Punctuated) and policy.by:
        raise ValueError(
            f"{what} marks keys one by one, which readers of other rows do not know; use "
            f"sl.punctuated({policy.column!r}) or sl.bounded(delay)"
        )
