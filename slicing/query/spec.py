"""Spec: a query of a stream, checked when it is built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from os import PathLike
from typing import Any

from slicing.aggregates.aggregate import Aggregate, Formula
from slicing.columns.expressions import Derived, fields_of
from slicing.query.processing_time import ProcessingTime, processing_time
from slicing.query.spec_arguments import entries_of, keys_of, lateness_of, time_of, triggers_of, watermark_of
from slicing.query.spec_checks import check_together
from slicing.query.triggers import ARRIVAL, PUSH, Patient, Trigger, Unfired
from slicing.query.watermark import Watermark, manual
from slicing.system.arguments import choice, column_or_none, says_arguments
from slicing.system.frozen_map import FrozenMap
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.times.durations import Duration, Span, parse_span, shown
from slicing.windows.builtin import Window
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.row_windows import RowWindow

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
        a column of whole numbers or times that orders rows of equal time, for ``first``, ``last``, ``rows`` and the
        like. Nulls come first; rows of equal numbers keep their order of arrival.
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
        put("time", time_of(time))
        put("by", keys_of(by))
        put("windows", FrozenMap(entries_of(windows, "windows", _WINDOWS, "sl.tumbling('1m')")))
        put("aggs", FrozenMap(entries_of(aggs, "aggs", (Formula,), "sl.count()")))
        put("watermark", watermark_of(watermark))
        put("allowed_lateness", lateness_of(allowed_lateness))
        put("emit", choice(emit, "emit", _EMIT))
        put("sequence", column_or_none(sequence, "sequence"))
        put("idle", None if idle is None else parse_span(idle, "idle", positive=True))
        put("on_null_time", choice(on_null_time, "on_null_time", _ON_NULL_TIME))
        put("on_overflow", choice(on_overflow, "on_overflow", _ON_OVERFLOW))
        put("trigger", triggers_of(trigger, self.windows))
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
        check_together(self)
        return self

    @property
    def revises(self) -> bool:
        """Whether a window can be emitted again, corrected."""
        return self.emit != "final" and self.allowed_lateness != 0

    def trigger_of(self, name: str) -> Trigger | None:
        """The trigger of a window, or None."""
        return self.trigger.get(name) if isinstance(self.trigger, FrozenMap) else self.trigger

    def triggers(self) -> dict[str, Trigger]:
        """The triggers of windows that have one, by window name."""
        if self.trigger is None:
            return {}
        found = {name: self.trigger_of(name) for name in self.windows}
        return {name: trigger for name, trigger in found.items() if trigger is not None}

    def _spans(self) -> Iterator[tuple[str, Span]]:
        """All spans of the query, each with the name of its argument."""
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

    def result_columns(self) -> list[str]:
        """The columns of results, in their order."""
        names = ["window", "window_start", "window_end", *self.by]
        names += [*(["rank_start", "rank_end"] if self.ranks_rows else []), *self.aggs]
        names += [] if self.trigger is None else ["timing"]
        return names + {"final": [], "updates": ["revision"], "parts": ["revision"], "changes": ["op"]}[self.emit]

    def _read(self) -> list[str]:
        return self.columns_beside_aggs() + [field for name in self._asked_columns() for field in fields_of(name)]

    def columns_beside_aggs(self) -> list[str]:
        """The columns that the query reads for something else than aggregates."""
        names = [self.time] if isinstance(self.time, str) else []
        names += [*self.by, *self.watermark.columns(), *([self.sequence] if self.sequence else [])]
        names += [self.op] if self.op else []
        names += [name for trigger in self.triggers().values() for name in trigger.columns()]
        for window in self.windows.values():
            if isinstance(window, RowWindow):
                names += [field for flag in window.flag_columns() for field in fields_of(flag)]
                names += window.columns()
        return names

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


@lru_cache(64)
def _first_of(spec: Spec) -> Spec:
    """The first one of equal specs, checked."""
    check_together(spec)
    return spec
