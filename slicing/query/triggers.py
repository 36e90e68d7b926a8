"""Triggers as users write them: when a window is also emitted before it is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from slicing.system.arguments import choice, says_arguments
from slicing.times.durations import Duration, Span, parse_span, shown

EVENT, ARRIVAL, PUSH = "event-time", "arrival", "push"
_UNITES = "a trigger is united with | with others of its kind"


@dataclass(frozen=True, repr=False)
class Trigger:
    """When windows are emitted before they are complete.

    Built by ``every``, ``after_share``, ``after_count``, ``on_punctuation``, ``each_push``, ``by_hand`` and
    ``every_processing_time``. Combine triggers of one kind with ``|``. The first four are of the event-time kind, the
    others of the push kind. ``after_count(n, order="arrival")`` is a third kind.

    Examples
    --------
    >>> import slicing as sl
    >>> sl.every("10m") | sl.after_share(0.9)
    sl.every('10m') | sl.after_share(0.9)
    """

    _kind: ClassVar[str] = EVENT

    @property
    def kind(self) -> str:
        """What the panes of the trigger depend on: event time, arrival, or pushes."""
        return self._kind

    def __or__(self, other: object) -> Trigger:
        if not isinstance(other, Trigger):
            raise TypeError(f"{_UNITES}, such as sl.every('1m') | sl.after_share(0.5); got {other!r}")
        if other.kind != self.kind:
            raise ValueError(
                f"{_UNITES}; {self!r} is of the {self.kind} kind and {other!r} of the {other.kind} kind. Give them to "
                "windows of their own: trigger={'a': ..., 'b': ...}"
            )
        parts = tuple(dict.fromkeys((*self.parts(), *other.parts())))
        if len({part.clock for part in parts if isinstance(part, EveryProcessingTime)}) > 1:
            raise ValueError(f"the triggers of a window read one clock; got several in {self!r} | {other!r}")
        return AnyOf(parts) if len(parts) > 1 else self

    def parts(self) -> tuple[Trigger, ...]:
        """The single triggers that were combined, each once."""
        return (self,)

    def spans(self) -> Iterator[tuple[str, Span]]:
        """The arguments that are spans of the time column."""
        yield from ()

    def columns(self) -> tuple[str, ...]:
        """The columns of marks that the trigger reads."""
        return tuple(part.column for part in self.parts() if isinstance(part, OnPunctuation))


@dataclass(frozen=True, repr=False)
class AnyOf(Trigger):
    united: tuple[Trigger, ...]

    @property
    def kind(self) -> str:
        return self.united[0].kind

    def parts(self) -> tuple[Trigger, ...]:
        return self.united

    def spans(self) -> Iterator[tuple[str, Span]]:
        for part in self.united:
            yield from part.spans()

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.united))


@dataclass(frozen=True, repr=False)
class Every(Trigger):
    span: Span
    offset: Span = 0

    def spans(self) -> Iterator[tuple[str, Span]]:
        yield "every", self.span
        yield "every's offset", self.offset

    def __repr__(self) -> str:
        offset = f", offset={shown(self.offset)}" if self.offset != 0 else ""
        return f"sl.every({shown(self.span)}{offset})"


@dataclass(frozen=True, repr=False)
class AfterShare(Trigger):
    share: float | Fraction

    @property
    def exact(self) -> Fraction:
        """The exact share as it was written: 0.29 is 29/100."""
        return self.share if isinstance(self.share, Fraction) else Fraction(repr(self.share))

    def __repr__(self) -> str:
        return f"sl.after_share({self.share!r})"


@dataclass(frozen=True, repr=False)
class OnPunctuation(Trigger):
    column: str

    def __repr__(self) -> str:
        return f"sl.on_punctuation({self.column!r})"


@dataclass(frozen=True, repr=False)
class AfterCount(Trigger):
    n: int
    times: int | None = None
    order: str = "time"

    @property
    def kind(self) -> str:
        return ARRIVAL if self.order == "arrival" else EVENT

    def __repr__(self) -> str:
        times = "" if self.times is None else f", times={self.times}"
        order = "" if self.order == "time" else f", order={self.order!r}"
        return f"sl.after_count({self.n}{times}{order})"


@dataclass(frozen=True, repr=False)
class EachPush(Trigger):
    _kind = PUSH

    def __repr__(self) -> str:
        return "sl.each_push()"


@dataclass(frozen=True, repr=False)
class ByHand(Trigger):
    _kind = PUSH

    def __repr__(self) -> str:
        return "sl.by_hand()"


@dataclass(frozen=True, repr=False)
class EveryProcessingTime(Trigger):
    _kind = PUSH
    span: Duration
    clock: Callable[[], int] | None = None

    def __repr__(self) -> str:
        return f"sl.every_processing_time({shown(self.span)})"


@dataclass(frozen=True, repr=False)
class Unfired(Trigger):
    """A trigger of pushes for complete data: it never fires."""

    _kind = PUSH
    of: Trigger

    def __repr__(self) -> str:
        return repr(self.of)


@dataclass(frozen=True, repr=False)
class Patient(Trigger):
    """A trigger of arrivals for complete data: its panes come with their windows."""

    _kind = ARRIVAL
    of: Trigger

    def parts(self) -> tuple[Trigger, ...]:
        return self.of.parts()

    def __repr__(self) -> str:
        return repr(self.of)


@says_arguments
def every(span: object, offset: object = 0) -> Trigger:
    """Emit a pane of each window at every multiple of ``span`` inside the window.

    A pane holds the window's rows before the cut and is emitted when the watermark reaches the cut. Panes do not depend
    on how the stream is split into pushes, nor on the order of rows within the lateness bound.

    Parameters
    ----------
    span
        A duration, or a whole number for integer columns.
    offset
        How much later than the multiples (counted from 1970, or from 0) the cuts are.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.every(20), emit="updates")
    >>> sl.aggregate(pa.table({"t": [1, 2, 25, 50]}), spec).select(["n", "timing", "revision"]).to_pylist()[1]
    {'n': 3, 'timing': 'early', 'revision': 1}
    """
    found = parse_span(span, "every's span", positive=True)
    shift = parse_span(offset, "every's offset")
    return Every(found, 0 if shift == 0 or shift == Duration(0) else shift)


@says_arguments
def after_share(share: object) -> Trigger:
    """Emit a pane of each window when a share of its span has passed, with the rows before that time.

    The cut of a window is at ``start + floor(share * (end - start))``, with the share as written: 0.29 of 100 is 29.
    Not for sessions, ``whole()`` and windows of your own.

    Parameters
    ----------
    share
        A number between 0 and 1, or a ``fractions.Fraction``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> sl.after_share(0.5) | sl.after_share(0.9)
    sl.after_share(0.5) | sl.after_share(0.9)
    """
    if isinstance(share, bool) or not isinstance(share, float | Fraction) or not 0 < share < 1:
        raise ValueError(f"after_share's share must be a number between 0 and 1, such as 0.5; got {share!r}")
    return AfterShare(share)


@says_arguments
def on_punctuation(column: str) -> Trigger:
    """Emit a pane after each row that is a mark, including its key's rows of the same time.

    A pane is emitted when the watermark has passed the mark. A mark cuts the windows that it is in. A mark that arrives
    behind the watermark takes effect at the watermark.

    Parameters
    ----------
    column
        A boolean column that is true in rows that are marks; null counts as false.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.on_punctuation("done"), emit="parts")
    >>> rows = pa.table({"t": [1, 2, 2, 30], "done": [False, True, False, False]})
    >>> sl.aggregate(rows, spec).select(["n", "timing"]).to_pylist()
    [{'n': 3, 'timing': 'early'}, {'n': 1, 'timing': 'on_time'}]
    """
    if not isinstance(column, str) or not column:
        raise TypeError(f"on_punctuation's column must be the name of a boolean column; got {column!r}")
    return OnPunctuation(column)


@says_arguments
def after_count(n: int, times: int | None = None, order: str = "time") -> Trigger:
    """Emit a pane after every ``n``-th row of the window and key.

    Rows are counted in the order of (time, ``sequence``, arrival). A pane is emitted when the watermark has passed its
    last row, so that panes do not depend on how the stream is split. If rows have equal times, use a ``sequence``
    column for panes that do not depend on arrival. A row behind the watermark is counted before the rows not counted
    yet. Not for sessions and ``whole()``.

    Parameters
    ----------
    n
        The number of rows.
    times
        The most early results of each window and key by this count; 1 makes it an alert. None: no limit.
    order
        ``"time"``; or ``"arrival"``: rows are counted as they arrive, and a pane comes with the push of its last row.
        ``"arrival"`` is not for Spark, where rows have no order of arrival.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.after_count(2), emit="updates")
    >>> sl.aggregate(pa.table({"t": [1, 2, 3, 50, 51]}), spec).select(["n", "timing"]).to_pylist()
    [{'n': 2, 'timing': 'early'}, {'n': 4, 'timing': 'early'}, {'n': 5, 'timing': 'on_time'}]
    """
    for name, value in (("n", n), ("times", times)):
        if value is None and name == "times":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 62:
            allowed = " or None" if name == "times" else ""
            raise ValueError(f"after_count's {name} must be a whole number of at least 1{allowed}; got {value!r}")
    return AfterCount(n, times, choice(order, "after_count's order", ("time", "arrival")))


def each_push() -> Trigger:
    """Emit a pane of every open window with new rows at the end of each push (on Spark, of each micro-batch).

    The panes depend on how the stream is split into pushes. The final window does not: it is the last update, the sum
    of the changes, or the combined parts.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.each_push(), emit="parts")
    >>> op = sl.Operator(spec)
    >>> [op.push(pa.table({"t": times})).windows["n"].to_pylist() for times in ([1, 2], [25], [3, 70])]
    [[2], [1], [1, 1]]
    """
    return EachPush()


def by_hand() -> Trigger:
    """Emit a pane of every open window with new rows when ``op.fire()`` is called.

    In process only: Spark has no operator to call.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.by_hand(), emit="updates")
    >>> op = sl.Operator(spec)
    >>> op.push(pa.table({"t": [1, 2]})).windows.num_rows
    0
    >>> op.fire().windows["n"].to_pylist()
    [2]
    """
    return ByHand()


@says_arguments
def every_processing_time(span: object, clock: Callable[[], int] | None = None) -> Trigger:
    """Emit a pane of every open window with new rows when the clock is ``span`` after the last firing.

    The first push or ``advance`` starts the clock; each later push or ``advance`` reads it. A clock that is set back
    starts again. Of several spans of a window, the shortest counts. In process only: if Spark repeats a batch, the
    clock shows another time.

    Parameters
    ----------
    span
        A duration of the clock.
    clock
        A function that returns microseconds since 1970 (for tests); the clock of the machine if left out.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> sl.every_processing_time("10s")
    sl.every_processing_time('10s')
    """
    found = parse_span(span, "every_processing_time's span", positive=True)
    if not isinstance(found, Duration):
        raise TypeError(f"every_processing_time's span is time of the clock, a duration such as '10s'; got {span!r}")
    if found.ns % 1000:
        raise ValueError(f"every_processing_time's span must be a whole number of microseconds; got {str(found)!r}")
    if clock is not None and not callable(clock):
        raise TypeError(f"clock must be a function that gives microseconds since 1970; got {clock!r}")
    return EveryProcessingTime(found, clock)
