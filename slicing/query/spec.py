"""Spec: a query of a stream, checked when it is built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from os import PathLike
from typing import Any

from slicing.aggregates.aggregate import Aggregate, Formula
from slicing.aggregates.changelog import refusal
from slicing.columns.expressions import Derived, fields_of
from slicing.columns.lazy import lazy
from slicing.query.processing_time import ProcessingTime, processing_time
from slicing.query.triggers import ARRIVAL, PUSH, AfterCount, AfterShare, Patient, Trigger, Unfired
from slicing.query.watermark import Bounded, Punctuated, Watermark, manual
from slicing.system.arguments import choice, column_or_none, says_arguments
from slicing.system.frozen_map import FrozenMap
from slicing.system.replace import but
from slicing.times.durations import Duration, amount, check_alike, not_negative, parse_span, shown
from slicing.windows.builtin import Calendar, Cumulate, Landmark, Session, Whole, Window
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.row_windows import RowWindow

Span = Duration | int

_WINDOWS = (ContextFreeWindow, RowWindow, Window)
_EMIT = ("final", "updates", "changes", "parts")
_ON_NULL_TIME = ("error", "late")
_ON_OVERFLOW = ("error", "null", "wrap")
_ON_UNMATCHED = ("error", "null")
_FREE = ("on_overflow", "on_unmatched")  # may be changed on a restored state
_LATER = ("op", "trigger")  # left out of fingerprints if None: older queries keep their fingerprints
_DEFAULTS = {
    "allowed_lateness": 0,
    "emit": "final",
    "sequence": None,
    "idle": None,
    "on_null_time": "error",
    "on_overflow": "error",
    "trigger": None,
    "op": None,
    "on_unmatched": "error",
}


@dataclass(frozen=True, init=False, repr=False)
class Spec:
    """A window query: one time column, keys, windows, aggregates, and how results are emitted.

    Parameters
    ----------
    time
        the time column: timestamps (with a zone or without), dates, or integers; or ``processing_time()``.
    windows
        a dict of windows by names that you choose. The column ``window`` of the results holds the names.
    aggs
        a dict of aggregates by names that you choose. The names are columns of the results.
    by
        the key columns. Each combination of their values has its own windows; null is a value. None: no keys.
    watermark
        how the watermark of the stream moves: ``bounded(delay)``, ``ordered()``, ``per_source(column, delay)``,
        ``punctuated(column)`` or ``manual()``. The default is ``bounded(0)``: a window closes with the first row at or
        after its end. ``aggregate`` and Spark's batch queries need none.
    allowed_lateness
        how long late rows may still correct a closed window (0).
    emit
        ``"final"``: each window is emitted once, after ``allowed_lateness``. ``"updates"``: a window is emitted when it
        closes, and again with a higher ``revision`` when a late row changes it. ``"changes"``: as updates, but a
        change is a pair: the old result with ``op="-"`` (a retraction), the new one with ``op="+"``. ``"parts"``: as
        ``"updates"``, but each result covers only the rows that no earlier result of the window covered.
    trigger
        when windows are also reported before they are complete: ``every(span)``, ``after_share(share)``,
        ``after_count(n)``, ``on_punctuation(column)``, ``each_push()``, ``by_hand()`` or
        ``every_processing_time(span)``; or a dict of triggers by window name. Results get a column ``timing``:
        ``"early"``, ``"on_time"`` or ``"late"``. Needs another ``emit`` than ``"final"``.
    sequence
        a column that orders rows of equal time, for ``first``, ``last``, ``rows`` and the like.
    idle
        a key without rows for this long is ended: its windows are emitted and its state is evicted.
    on_null_time
        ``"error"``: a null time raises. ``"late"``: rows without a time are returned as late rows.
    on_overflow
        what happens if a result does not fit its type: ``"error"``, ``"null"`` or ``"wrap"``. Wrapped integers are
        taken modulo 2**64; decimals have no such modulus and become null (as in Spark without ANSI mode).
    op
        the column of a changelog that says whether a row is added (``"+"``, ``"+I"``, ``"+U"`` or 1) or retracts a row
        of the same time, keys and values (``"-"``, ``"-U"``, ``"-D"`` or -1). The two may come in any order.
    on_unmatched
        what happens if a window has more retractions than rows: ``"error"``, or ``"null"`` for all its aggregates.

    Notes
    -----
    A spec is frozen, hashable and picklable, and prints as the code that builds it. Change a copy by
    ``dataclasses.replace(spec, emit="updates")``. Arguments are checked as far as possible without the data's schema.

    Examples
    --------
    >>> sl.Spec("ts", {"minute": sl.tumbling("1m")}, {"n": sl.count()}, by=["sensor"])
    sl.Spec(time='ts', by=['sensor'], windows={'minute': sl.tumbling('1m')}, aggs={'n': sl.count()},
            watermark=sl.bounded(0))
    """

    time: str | ProcessingTime
    by: tuple[str, ...]
    windows: FrozenMap[ContextFreeWindow | RowWindow | Window]
    aggs: FrozenMap[Formula]
    watermark: Watermark
    allowed_lateness: Span
    emit: str
    sequence: str | None
    idle: Span | None
    on_null_time: str
    on_overflow: str
    trigger: Trigger | FrozenMap[Trigger] | None
    op: str | None
    on_unmatched: str

    @says_arguments
    def __init__(
        self,
        time: str | ProcessingTime,
        windows: Mapping[str, ContextFreeWindow | RowWindow | Window],
        aggs: Mapping[str, Formula],
        by: Sequence[str] | str | None = (),
        watermark: Watermark | None = None,
        allowed_lateness: object = 0,
        emit: str = "final",
        sequence: str | None = None,
        idle: object = None,
        on_null_time: str = "error",
        on_overflow: str = "error",
        trigger: Trigger | Mapping[str, Trigger] | None = None,
        op: str | None = None,
        on_unmatched: str = "error",
    ) -> None:
        put = self.__dict__.__setitem__
        put("time", _time(time))
        put("by", () if by is None else _columns(by))
        put("windows", FrozenMap(_mapping(windows, "windows", _WINDOWS, "sl.tumbling('1m')")))
        put("aggs", FrozenMap(_mapping(aggs, "aggs", (Formula,), "sl.count()")))
        put("watermark", _watermark(watermark))
        put("allowed_lateness", _lateness(allowed_lateness))
        put("emit", choice(emit, "emit", _EMIT))
        put("sequence", column_or_none(sequence, "sequence"))
        put("idle", None if idle is None else parse_span(idle, "idle", positive=True))
        put("on_null_time", choice(on_null_time, "on_null_time", _ON_NULL_TIME))
        put("on_overflow", choice(on_overflow, "on_overflow", _ON_OVERFLOW))
        put("trigger", _trigger(trigger, self.windows))
        put("op", column_or_none(op, "op"))
        put("on_unmatched", choice(on_unmatched, "on_unmatched", _ON_UNMATCHED))
        self.__dict__["memo"] = self._checked().memo

    def _checked(self) -> Spec:
        """An equal query that was built and checked before, with what is cached for it; otherwise this one, checked:
        50 -> 15 us."""
        if all([isinstance(window, Window) for window in self.windows.values()]):  # users' windows may hold state
            try:
                return _first_of(self)
            except TypeError:  # an argument has no hash, or the query is refused below
                pass
        self._check()
        return self

    def _check(self) -> None:
        """Raise for arguments that do not fit together."""
        self._check_names()
        self._check_spans()
        self._check_emit()
        self._check_idle()
        self._check_triggers()
        if self.op is not None:
            self._check_op()
        if isinstance(self.watermark, Punctuated) and self.watermark.by:
            if sorted(self.watermark.by) != sorted(self.by):
                raise ValueError(
                    f"watermark={self.watermark!r} marks keys of {', '.join(self.watermark.by)}; by must name the key "
                    f"columns: {', '.join(self.by) or 'there are none'}"
                )
            check_marks(self, f"watermark={self.watermark!r}")

    @property
    def revises(self) -> bool:
        """Whether a window can be emitted again, corrected."""
        return self.emit != "final" and self.allowed_lateness != 0

    def trigger_of(self, name: str) -> Trigger | None:
        """The trigger of a window, or None."""
        return self.trigger.get(name) if isinstance(self.trigger, FrozenMap) else self.trigger

    @lazy
    def ranks_rows(self) -> bool:
        """Whether results have ``rank_start`` and ``rank_end``."""
        return any(isinstance(w, RowWindow) and w.ranked for w in self.windows.values())

    @property
    def patient(self) -> Spec:
        """This query for complete data: no window closes before all rows are seen."""
        made: Spec | None = self.memo.get("patient")
        if made is None:
            watched = self if isinstance(self.time, ProcessingTime) else self.watched_by(manual())
            self.memo["patient"] = made = watched.unfired()
        return made

    def watched_by(self, watermark: Watermark) -> Spec:
        """This query with another watermark that has no spans and no columns; arguments are not checked again."""
        known = {} if self.watermark.columns() else {"memo": {"columns": self.columns()}}
        return but(self, watermark=watermark, ranks_rows=self.ranks_rows, **known)

    @lazy
    def memo(self) -> dict[str, Any]:
        """What was computed for this query and for equal ones, by name; not part of the query."""
        return {}

    def unfired(self) -> Spec:
        """This query for complete data: triggers of pushes never fire, and panes of arrival triggers are emitted with
        their windows."""

        def quiet(trigger: Trigger) -> Trigger:
            if trigger.kind == ARRIVAL:
                return Patient(trigger)
            return Unfired(trigger) if trigger.kind == PUSH else trigger

        if self.trigger is None:
            return self
        if isinstance(self.trigger, FrozenMap):
            return but(self, trigger=FrozenMap({name: quiet(of) for name, of in self.trigger.items()}))
        return but(self, trigger=quiet(self.trigger))

    def columns(self) -> tuple[str, ...]:
        """Every column of the data that the query reads, each once."""
        made: tuple[str, ...] | None = self.memo.get("columns")
        if made is None:
            self.memo["columns"] = made = tuple(dict.fromkeys(self._read()))
        return made

    def _read(self) -> list[str]:
        names = [self.time] if isinstance(self.time, str) else []
        names += [*self.by, *self.watermark.columns(), *([self.sequence] if self.sequence else [])]
        names += [self.op] if self.op else []
        names += [name for trigger in self.triggers().values() for name in trigger.columns()]
        for window in self.windows.values():
            if isinstance(window, RowWindow):
                names += [field for flag in window.flag_columns() for field in fields_of(flag)]
                names += window.columns()
        return names + [field for name in self._asked_columns() for field in fields_of(name)]

    def parts(self) -> tuple[Aggregate, ...]:
        """The single aggregates: arithmetic of aggregates is taken apart."""
        return tuple(part for agg in self.aggs.values() for part in agg.parts())

    def _asked_columns(self) -> dict[str, Aggregate]:
        """The columns that aggregates read, computed or not, each with the first aggregate that reads it."""
        found: dict[str, Aggregate] = {}
        for agg in self.parts():
            for name in (*agg.columns(), *([agg.flag] if agg.flag else [])):
                found.setdefault(name, agg)
        return found

    def derived(self) -> dict[Derived, str]:
        """The columns that expressions compute, each with the first window or aggregate that reads it."""
        rows = [(name, w) for name, w in self.windows.items() if isinstance(w, RowWindow)]
        found = {f: f"windows[{name!r}]: {w!r}" for name, w in rows for f in w.flag_columns() if isinstance(f, Derived)}
        columns = self._asked_columns().items()
        return found | {name: repr(agg) for name, agg in columns if isinstance(name, Derived) and name not in found}

    def fingerprint(self) -> str:
        """A short hash of the query's meaning, stable between processes and Python versions. (A ``udaf`` is hashed by
        its bytecode, which is stable for one Python version only.)

        ``on_overflow`` and ``on_unmatched`` do not count: they may be changed on a restored state.
        """
        return self._fingerprint

    @lazy
    def _fingerprint(self) -> str:
        names = [f.name for f in fields(self) if f.name not in _FREE]
        names = [name for name in names if name not in _LATER or getattr(self, name) is not None]
        parts = [f"{name}={stable(getattr(self, name))}" for name in names]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def to_toml(self) -> str:
        """Write the query as TOML text, one line for each window and aggregate, for review and storage with a job.

        Returns
        -------
        str
            :meth:`from_toml` builds an equal spec from it.

        Raises
        ------
        ValueError
            If TOML cannot hold a part of the query: a ``udaf``, a window class of your own, or a clock.

        Examples
        --------
        >>> import slicing as sl
        >>> spec = sl.Spec("ts", {"six": sl.tumbling("6m")}, {"share": sl.sum("a") / sl.sum("b")}, by="sensor")
        >>> print(spec.to_toml())
        time = "ts"
        by = ["sensor"]
        watermark = "bounded(0)"
        <BLANKLINE>
        [windows]
        six = "tumbling('6m')"
        <BLANKLINE>
        [aggs]
        share = "sum('a') / sum('b')"
        <BLANKLINE>
        """
        from slicing.query.written import toml

        values = self._chosen()
        if isinstance(self.time, ProcessingTime):
            if self.time.clock is not None:
                raise ValueError("time has a clock of your own, a function, which no text can build; use one without")
            values = {"processing_time": True, **{name: value for name, value in values.items() if name != "time"}}
        return toml(values)

    @classmethod
    def from_toml(cls, text: str | PathLike[str]) -> Spec:
        """Read a query from TOML text, or from a file by its ``pathlib.Path``.

        Parameters
        ----------
        text
            Keys are the arguments of :class:`Spec`; ``[windows]`` and ``[aggs]`` are tables of calls. Instead of
            ``time``, there may be ``processing_time = true``. Calls are parsed and never executed: only this library's
            calls, columns (``col('x')``), compute functions (``pc.abs(col('x'))``) and literals are allowed.

        Examples
        --------
        >>> import slicing as sl
        >>> sl.Spec.from_toml('''
        ... time = "ts"
        ... [windows]
        ... hour = "sliding('1h', every='15m')"
        ... [aggs]
        ... slow = "count().where(col('ms') > 100)"
        ... ''')
        sl.Spec(time='ts', windows={'hour': sl.sliding('1h', every='15m')}, aggs={'slow': sl.count().where(sl.col('ms') > 100)}, watermark=sl.bounded(0))
        """  # noqa: E501
        from slicing.query.written import arguments

        return cls(**{"time": processing_time(), **arguments(text)})

    def _values(self) -> dict[str, Any]:
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def _chosen(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        return {
            name: value for name, value in self._values().items() if name not in _DEFAULTS or value != _DEFAULTS[name]
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._values(),)

    def __repr__(self) -> str:
        parts = [f"time={self.time!r}"]
        if self.by:
            parts.append(f"by={list(self.by)!r}")
        parts += [f"windows={self.windows!r}", f"aggs={self.aggs!r}", f"watermark={self.watermark!r}"]
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={shown(value)}")
        return f"sl.Spec({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from slicing.query.pages import spec_html

        return spec_html(self._chosen())

    def _check_names(self) -> None:
        taken = {"window": "the window's name", "window_start": "the window's start", "window_end": "its end"}
        if self.ranks_rows:
            taken |= {"rank_start": "the first rank of a rows window", "rank_end": "the rank a rows window ends before"}
        if self.trigger is not None:
            taken["timing"] = "the column that a trigger adds"
        if self.emit != "final":
            name = "op" if self.emit == "changes" else "revision"
            taken[name] = f"the column of emit={self.emit!r}"
        for name in self.by:
            if name in taken:
                raise ValueError(f"by column {name!r} has the name of an output column ({taken[name]}); rename it")
            taken[name] = "a key column"
        for name in self.aggs:
            if name in taken:
                raise ValueError(
                    f"aggs has {name!r}, which is already {taken[name]} in the output; choose another name"
                )

    def _check_spans(self) -> None:
        times: list[tuple[str, object]] = []
        times += [(f"windows[{name!r}]", w) for name, w in self.windows.items() if isinstance(w, Calendar)]
        times += [("time", self.time)] if isinstance(self.time, ProcessingTime) else []
        check_alike(self._spans(), times)

    def _spans(self) -> Iterator[tuple[str, Span]]:
        for name, window in self.windows.items():
            if isinstance(window, Window) and is_dataclass(window):
                for span in window.spans:
                    value = getattr(window, span) if span in window.__dataclass_fields__ else None
                    if isinstance(value, Duration | int):
                        yield f"windows[{name!r}]: {span}", value
        yield "allowed_lateness", self.allowed_lateness
        yield from self.watermark.spans().items()
        if self.idle is not None:
            yield "idle", self.idle
        for trigger in self.triggers().values():
            yield from trigger.spans()

    def triggers(self) -> dict[str, Trigger]:
        """The triggers of windows that have one, by window name."""
        if self.trigger is None:
            return {}
        found = {name: self.trigger_of(name) for name in self.windows}
        return {name: trigger for name, trigger in found.items() if trigger is not None}

    def _check_emit(self) -> None:
        if not self.revises:
            return
        sessions = [name for name, w in self.windows.items() if isinstance(w, Session)]
        if self.emit in ("updates", "parts") and sessions:
            raise ValueError(
                f"emit={self.emit!r} with allowed_lateness={str(self.allowed_lateness)!r} cannot say which session "
                f"windows[{sessions[0]!r}] a late row changed; use emit='final' or emit='changes'"
            )
        of_rows = [name for name, w in self.windows.items() if isinstance(w, RowWindow)]
        if self.emit in ("updates", "parts") and of_rows:
            raise ValueError(
                f"emit={self.emit!r} with allowed_lateness={str(self.allowed_lateness)!r} cannot say which window of "
                f"windows[{of_rows[0]!r}] a late row changed, for it moves their bounds; use emit='final' or "
                "emit='changes'"
            )
        given = {name: [f for f in ("fill", "full") if getattr(w, f, False)] for name, w in self.windows.items()}
        for name, (flag, *_) in ((name, flags) for name, flags in given.items() if flags):
            raise ValueError(
                f"windows[{name!r}] has {flag}=True, which needs emit='final' when allowed_lateness is not 0; "
                f"got emit={self.emit!r}"
            )
        if self.idle is not None:
            raise ValueError(
                f"idle={str(self.idle)!r} ends a key for good, which needs emit='final' when allowed_lateness is not "
                f"0; got emit={self.emit!r}"
            )

    def _check_op(self) -> None:
        """Raise for what a changelog cannot retract rows from."""
        for name, window in self.windows.items():
            if not isinstance(window, ContextFreeWindow | Whole):
                raise ValueError(
                    f"windows[{name!r}] is {window!r}, whose bounds depend on rows, and op={self.op!r} takes rows "
                    "back; use windows between edges (tumbling, sliding, calendar, ...) or whole()"
                )
            flags = [flag for flag in ("fill", "full") if getattr(window, flag, False)]
            if flags:
                raise ValueError(
                    f"windows[{name!r}] has {flags[0]}=True, which depends on a first and a last row, and "
                    f"op={self.op!r} takes rows back; use one of the two"
                )
        if isinstance(self.time, ProcessingTime):
            raise ValueError(
                f"time=sl.processing_time() gives a row that is taken back (op={self.op!r}) another time than it had; "
                "use a time column"
            )
        if self.idle is not None:
            raise ValueError(
                f"idle={str(self.idle)!r} ends a key for good, and op={self.op!r} takes rows back; use one of the two"
            )
        if (self.allowed_lateness != 0 or self.trigger is not None) and self.emit != "changes":
            late = self.allowed_lateness != 0
            given = f"allowed_lateness={str(self.allowed_lateness)!r}" if late else f"trigger={self.trigger!r}"
            raise ValueError(
                f"emit={self.emit!r} cannot take back a window that lost its last row: op={self.op!r} with {given} "
                "needs emit='changes'"
            )
        for name, agg in self.aggs.items():
            for part in agg.parts():
                why = refusal(part)
                if why is not None:
                    raise ValueError(f"aggs[{name!r}]: {part!r} cannot be used with op={self.op!r}: {why}")

    def _check_idle(self) -> None:
        if self.idle is None:
            return
        for name, window in self.windows.items():
            if getattr(window, "full", False):
                raise ValueError(
                    f"windows[{name!r}] has full=True, and idle={str(self.idle)!r} ends windows before the data covers "
                    "them; use one of the two"
                )
            if isinstance(window, RowWindow) and window.by_arrival:
                raise ValueError(
                    f"windows[{name!r}] ranks rows by arrival, but whether a key was quiet for "
                    f"idle={str(self.idle)!r} shows only when the watermark has passed; use order='time' or no idle"
                )
            if isinstance(window, RowWindow) and window.whole_stream and self.by:
                raise ValueError(
                    f"windows[{name!r}] has per_key=False, and idle={str(self.idle)!r} ends single keys; use "
                    "per_key=True or no idle"
                )

    def _check_triggers(self) -> None:
        if self.trigger is None:
            return
        if self.emit == "final":
            raise ValueError(
                f"trigger={self.trigger!r} reports windows before they are complete, and emit='final' gives each one "
                "once; use emit='updates', 'changes' or 'parts'"
            )
        if self.idle is not None:
            raise ValueError(
                f"idle={str(self.idle)!r} ends the windows of a quiet key, and trigger= takes none of these; use one "
                "of the two"
            )
        for name, trigger in self.triggers().items():
            window = self.windows[name]
            self._check_trigger(f"windows[{name!r}], {window!r}, cannot have {trigger!r}:", window, trigger)

    def _check_trigger(self, refused: str, window: ContextFreeWindow | RowWindow | Window, trigger: Trigger) -> None:
        by_name = "give triggers to the other windows by name, trigger={'name': ...}"
        if isinstance(window, RowWindow):
            raise ValueError(f"{refused} rows decide where it ends; {by_name}")
        if isinstance(window, Landmark | Cumulate):
            raise ValueError(f"{refused} it gives the rows so far at each of its steps already; {by_name}")
        for flag in ("fill", "full"):
            if getattr(window, flag, False):
                raise ValueError(f"{refused} it has {flag}=True; leave that out, or {by_name}")
        if isinstance(window, Session | Whole) and self.emit != "changes":
            raise ValueError(
                f"{refused} rows change where it begins and ends, which needs emit='changes'; got emit={self.emit!r}"
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


def _rebuild(arguments: dict[str, Any]) -> Spec:
    return Spec(**arguments)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, FrozenMap) else value


def stable(value: object) -> str:
    """repr, but a user's window without a repr is given by class and attributes, and users' functions by their code."""
    if isinstance(value, Formula) and (digests := [p.user.digest for p in value.parts() if p.user is not None]):
        return " ".join([repr(value), *digests])
    if isinstance(value, FrozenMap):
        return "{" + ", ".join(f"{k!r}: {stable(v)}" for k, v in value.items()) + "}"
    if isinstance(value, ContextFreeWindow | RowWindow) and type(value).__repr__ is object.__repr__:
        attributes = ", ".join(f"{k}={v!r}" for k, v in sorted(vars(value).items()))
        return f"{type(value).__module__}.{type(value).__qualname__}({attributes})"
    return repr(value)


def _time(time: object) -> str | ProcessingTime:
    if isinstance(time, ProcessingTime) or (isinstance(time, str) and time):
        return time
    raise TypeError(f"time must be the name of a column or sl.processing_time(); got {time!r}")


@lru_cache(64)
def _first_of(spec: Spec) -> Spec:
    """The first one of equal specs, checked."""
    spec._check()
    return spec


def _columns(by: object) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n for n in names):
        raise TypeError(f"by must be a list of column names ([] for one global group); got {by!r}")
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise ValueError(f"by names column {twice[0]!r} twice; each key column is named once")
    return tuple(names)


def _mapping(value: object, argument: str, allowed: tuple[type, ...], example: str) -> dict[str, Any]:
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


def check_marks(spec: Spec, what: str) -> None:
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


def _watermark(value: object) -> Watermark:
    if value is None:
        return Bounded(0)
    if not isinstance(value, Watermark):
        raise TypeError(
            "watermark must be sl.bounded(delay), sl.ordered(), sl.manual(), sl.per_source(column, delay) or "
            f"sl.punctuated(column); got {value!r}"
        )
    return value


def _trigger(value: object, windows: Mapping[str, object]) -> Trigger | FrozenMap[Trigger] | None:
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


def _lateness(value: object) -> Span:
    span = not_negative(value, "allowed_lateness")
    return span if amount(span) else 0
