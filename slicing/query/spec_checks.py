"""Checks of a query as a whole: which arguments of a ``Spec`` do not fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from slicing.aggregates.aggregate import Formula
from slicing.aggregates.changelog import refusal
from slicing.query.processing_time import ProcessingTime
from slicing.query.triggers import AfterCount, AfterShare, ByHand, Trigger
from slicing.query.watermark import Punctuated, Watermark
from slicing.times.durations import Span, check_alike, shown
from slicing.windows.builtin import Cumulate, Landmark, Session, Whole, Window
from slicing.windows.calendar import CalendarSteps, CalendarWindow
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.row_windows import RowWindow

AnyWindow = ContextFreeWindow | RowWindow | Window


class Query(Protocol):
    """What the checks read of a ``Spec``."""

    @property
    def time(self) -> str | ProcessingTime: ...

    @property
    def by(self) -> tuple[str, ...]: ...

    @property
    def windows(self) -> Mapping[str, AnyWindow]: ...

    @property
    def aggs(self) -> Mapping[str, Formula]: ...

    @property
    def watermark(self) -> Watermark: ...

    @property
    def allowed_lateness(self) -> Span: ...

    @property
    def emit(self) -> str: ...

    @property
    def idle(self) -> Span | None: ...

    @property
    def trigger(self) -> object: ...

    @property
    def op(self) -> str | None: ...

    @property
    def revises(self) -> bool: ...

    @property
    def ranks_rows(self) -> bool: ...

    def triggers(self) -> dict[str, Trigger]: ...

    def _spans(self) -> Iterator[tuple[str, Span]]: ...


def check_together(spec: Query) -> None:
    """Raise for arguments that do not fit together."""
    _check_names(spec)
    _check_spans(spec)
    _check_emit(spec)
    _check_idle(spec)
    _check_triggers(spec)
    _check_op(spec)
    _check_watermark(spec)


def check_marks(spec: Query, what: str) -> None:
    """Raise if keys cannot have marks: there are no keys, or there are windows that all keys share."""
    if not spec.by:
        raise ValueError(f"{what} marks keys, and by=[] has none; advance the stream's watermark")
    if isinstance(spec.time, ProcessingTime):
        raise ValueError(
            f"{what} says how far keys are in a time column, and time={spec.time!r} has none; name a column"
        )
    if spec.trigger is not None:
        raise ValueError(
            f"{what} closes windows of single keys, and trigger={spec.trigger!r} reports those of all keys together; "
            "use one of the two"
        )
    for name, window in spec.windows.items():
        if isinstance(window, RowWindow) and window.whole_stream:
            raise ValueError(
                f"{what} says how far single keys are, and windows[{name!r}] with per_key=False counts the rows of all "
                "keys; use per_key=True, or advance the stream's watermark"
            )


def _check_names(spec: Query) -> None:
    """Raise if two columns of the output have one name."""
    taken = {"window": "the window's name", "window_start": "the window's start", "window_end": "its end"}
    if spec.ranks_rows:
        taken |= {"rank_start": "the first rank of a rows window", "rank_end": "the rank a rows window ends before"}
    if spec.trigger is not None:
        taken["timing"] = "the column that a trigger adds"
    if spec.emit != "final":
        name = "op" if spec.emit == "changes" else "revision"
        taken[name] = f"the column of emit={spec.emit!r}"
    for name in spec.by:
        if name in taken:
            raise ValueError(f"by column {name!r} has the name of an output column ({taken[name]}); rename it")
        taken[name] = "a key column"
    for name in spec.aggs:
        if name in taken:
            raise ValueError(f"aggs has {name!r}, which is already {taken[name]} in the output; choose another name")


def _check_spans(spec: Query) -> None:
    """Raise if durations and whole numbers are mixed; calendars and the clock need durations."""
    times: list[tuple[str, object]] = []
    times += [(f"windows[{name!r}]", w) for name, w in spec.windows.items() if isinstance(w, CalendarWindow)]
    times += [("time", spec.time)] if isinstance(spec.time, ProcessingTime) else []
    check_alike(spec._spans(), times)


def _check_emit(spec: Query) -> None:
    """Raise for windows, and for ``idle``, whose results late rows cannot correct."""
    if not spec.revises:
        return
    sessions = [name for name, w in spec.windows.items() if isinstance(w, Session)]
    if spec.emit in ("updates", "parts") and sessions:
        raise ValueError(
            f"emit={spec.emit!r} with allowed_lateness={shown(spec.allowed_lateness)} cannot say which session "
            f"windows[{sessions[0]!r}] a late row changed; use emit='final' or emit='changes'"
        )
    of_rows = [name for name, w in spec.windows.items() if isinstance(w, RowWindow)]
    if spec.emit in ("updates", "parts") and of_rows:
        raise ValueError(
            f"emit={spec.emit!r} with allowed_lateness={shown(spec.allowed_lateness)} cannot say which window of "
            f"windows[{of_rows[0]!r}] a late row changed, for it moves their bounds; use emit='final' or "
            "emit='changes'"
        )
    given = {name: [f for f in ("fill", "full") if getattr(w, f, False)] for name, w in spec.windows.items()}
    for name, (flag, *_) in ((name, flags) for name, flags in given.items() if flags):
        raise ValueError(
            f"windows[{name!r}] has {flag}=True, which needs emit='final' when allowed_lateness is not 0; "
            f"got emit={spec.emit!r}"
        )
    if spec.idle is not None:
        raise ValueError(
            f"idle={shown(spec.idle)} ends a key for good, which needs emit='final' when allowed_lateness is not "
            f"0; got emit={spec.emit!r}"
        )


def _check_idle(spec: Query) -> None:
    """Raise for windows that cannot end when their key is quiet."""
    if spec.idle is None:
        return
    for name, window in spec.windows.items():
        if getattr(window, "full", False):
            raise ValueError(
                f"windows[{name!r}] has full=True, and idle={shown(spec.idle)} ends windows before the data covers "
                "them; use one of the two"
            )
        if isinstance(window, RowWindow) and window.by_arrival:
            raise ValueError(
                f"windows[{name!r}] ranks rows by arrival, but whether a key was quiet for "
                f"idle={shown(spec.idle)} shows only when the watermark has passed; use order='time' or no idle"
            )
        if isinstance(window, RowWindow) and window.whole_stream and spec.by:
            raise ValueError(
                f"windows[{name!r}] has per_key=False, and idle={shown(spec.idle)} ends single keys; use "
                "per_key=True or no idle"
            )


def _check_triggers(spec: Query) -> None:
    """Raise for triggers that do not fit ``emit``, ``idle`` or their windows."""
    if spec.trigger is None:
        return
    if spec.emit == "final":
        raise ValueError(
            f"trigger={spec.trigger!r} reports windows before they are complete, and emit='final' gives each one "
            "once; use emit='updates', 'changes' or 'parts'"
        )
    if spec.idle is not None:
        raise ValueError(
            f"idle={shown(spec.idle)} ends the windows of a quiet key, and trigger= takes none of these; use one "
            "of the two"
        )
    for name, trigger in spec.triggers().items():
        window = spec.windows[name]
        _check_trigger(spec, f"windows[{name!r}], {window!r}, cannot have {trigger!r}:", window, trigger)


def _check_trigger(spec: Query, refused: str, window: AnyWindow, trigger: Trigger) -> None:
    """Raise if a window cannot have its trigger; ``refused`` is the beginning of the error."""
    by_name = "give triggers to the other windows by name, trigger={'name': ...}"
    if isinstance(window, RowWindow):
        raise ValueError(f"{refused} rows decide where it ends; {by_name}")
    if isinstance(window, Landmark | Cumulate) or (isinstance(window, CalendarSteps) and window.cumulate):
        raise ValueError(f"{refused} it gives the rows so far at each of its steps already; {by_name}")
    for flag in ("fill", "full"):
        if getattr(window, flag, False):
            raise ValueError(f"{refused} it has {flag}=True; leave that out, or {by_name}")
    if isinstance(window, Session | Whole) and spec.emit != "changes":
        raise ValueError(
            f"{refused} rows change where it begins and ends, which needs emit='changes'; got emit={spec.emit!r}"
        )
    counts = any(isinstance(part, AfterCount) for part in trigger.parts())
    if counts and isinstance(window, Session | Whole):
        raise ValueError(
            f"{refused} rows are counted in windows between edges alone; use sl.on_punctuation(column), "
            "sl.every(span) or a trigger of pushes, such as sl.each_push()"
        )
    shares = [part for part in trigger.parts() if isinstance(part, AfterShare)]
    if shares and not (isinstance(window, Window) and isinstance(window, ContextFreeWindow)):
        raise ValueError(f"{refused} a share is known of built-in windows between edges alone; use sl.every(span)")


def _check_op(spec: Query) -> None:
    """Raise for what a changelog cannot retract rows from."""
    if spec.op is None:
        return
    for name, window in spec.windows.items():
        if not isinstance(window, ContextFreeWindow | Whole):
            raise ValueError(
                f"windows[{name!r}] is {window!r}, whose bounds depend on rows, and op={spec.op!r} takes rows "
                "back; use windows between edges (tumbling, sliding, calendar, ...) or whole()"
            )
        flags = [flag for flag in ("fill", "full") if getattr(window, flag, False)]
        if flags:
            raise ValueError(
                f"windows[{name!r}] has {flags[0]}=True, which depends on a first and a last row, and "
                f"op={spec.op!r} takes rows back; use one of the two"
            )
    if isinstance(spec.time, ProcessingTime):
        raise ValueError(
            f"time=sl.processing_time() gives a row that is taken back (op={spec.op!r}) another time than it had; "
            "use a time column"
        )
    if spec.idle is not None:
        raise ValueError(
            f"idle={shown(spec.idle)} ends a key for good, and op={spec.op!r} takes rows back; use one of the two"
        )
    if (spec.allowed_lateness != 0 or spec.trigger is not None) and spec.emit != "changes":
        late = spec.allowed_lateness != 0
        given = f"allowed_lateness={shown(spec.allowed_lateness)}" if late else f"trigger={spec.trigger!r}"
        raise ValueError(
            f"emit={spec.emit!r} cannot take back a window that lost its last row: op={spec.op!r} with {given} "
            "needs emit='changes'"
        )
    for name, agg in spec.aggs.items():
        for part in agg.parts():
            why = refusal(part)
            if why is not None:
                raise ValueError(f"aggs[{name!r}]: {part!r} cannot be used with op={spec.op!r}: {why}")


def _check_watermark(spec: Query) -> None:
    """Raise if the watermark marks keys, and they are not those of the query or cannot have marks."""
    if not (isinstance(spec.watermark, Punctuated) and spec.watermark.by):
        return
    if sorted(spec.watermark.by) != sorted(spec.by):
        raise ValueError(
            f"watermark={spec.watermark!r} marks keys of {', '.join(spec.watermark.by)}; by must name the key "
            f"columns: {', '.join(spec.by) or 'there are none'}"
        )
    check_marks(spec, f"watermark={spec.watermark!r}")


def by_hand_windows(spec: Query, names: tuple[str, ...]) -> tuple[str, ...]:
    """The windows that ``fire`` reports."""
    known = tuple(name for name, trigger in spec.triggers().items() if ByHand() in trigger.parts())
    if not known:
        raise ValueError(f"fire() reports windows with the trigger sl.by_hand(); got trigger={spec.trigger!r}")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"fire takes the names of windows, as text; got {name!r}")
        if name not in known:
            raise ValueError(
                f"fire({name!r}): there is no window of that name with the trigger sl.by_hand(); there are "
                f"{', '.join(known)}"
            )
    return names or known
