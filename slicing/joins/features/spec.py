"""FeatureSpec: the query of aggregates as of each label, checked when it is built."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, ClassVar

import pyarrow as pa

from slicing.aggregates.aggregate import Formula
from slicing.joins.arguments import SpecOfTwo, chosen, on_columns, pair_of, schemas_of, shown_spans, watermarks_of
from slicing.query.spec import stable
from slicing.query.watermark import Bounded, Watermark
from slicing.system.arguments import choice, column_or_none, says_arguments, yes_or_no
from slicing.system.frozen_map import FrozenMap
from slicing.times.durations import Span, amount, check_alike, parse_span

Range = tuple[Span | None, Span]  # far, near: from label - far to label - near

EXACT = "exact"


@dataclass(frozen=True, init=False, repr=False)
class FeatureSpec(SpecOfTwo):
    """Aggregates of an events table as of each row of another table, the labels.

    Parameters
    ----------
    on : list of str or of (str, str), or str
        Key columns, or pairs of a label column and an event column. ``[]``: rows match by time alone. A label with a
        null key has no events.
    time : str or (str, str)
        The time column, or the label's and the event's time column: timestamps, dates or integers.
    ranges : dict of str to span, (far, near) or None
        Which events count, by name: a span before the label, the time between ``label - far`` and ``label - near``,
        or None for everything before the label. ``near`` may be negative (what happened afterwards).
    aggs : dict of str to aggregate
        What is computed for each range. The result column is called ``<agg>_<range>``.
    closed : str
        ``"left"``: events in ``[label - far, label - near)``, strictly before the label. ``"right"``: events in
        ``(label - far, label - near]``, as ``per_row`` has it.
    delay : span
        How long after it happens an event is known: all ranges are moved back by this span.
    tail : str, span, or dict of str to span
        ``"exact"``, or a step for all ranges, or a step by range. The far end of a range is floored to a multiple of
        the step. A floored end is inclusive.
    wait : bool
        True: a label is answered once no event that it may reach can still come. False: a label is answered in the push
        that brings it, from the events that have arrived (for serving; such answers depend on arrival order).
    watermark : Watermark or (Watermark, Watermark), optional
        The watermark policies of labels and events; ``sl.bounded(0)`` if left out.
    idle : span, optional
        A silent stream counts as at most this far behind the other stream.
    sequence : str, optional
        A column of the events that orders events of equal time, for ``first``, ``last`` and the like.
    on_null_time : str
        ``"error"``, or ``"late"``: rows without a time are late rows.
    on_overflow : str
        Where a result does not fit its type: ``"error"``, ``"null"`` or ``"wrap"``.
    schemas : (pyarrow.Schema, pyarrow.Schema), optional
        The columns of labels and events, if they must be known before the first rows.

    Examples
    --------
    >>> import slicing as sl
    >>> sl.FeatureSpec("user", ("asked_at", "ts"), {"1h": "1h", "ever": None}, {"n": sl.count()})
    sl.FeatureSpec(on=['user'], time=('asked_at', 'ts'), ranges={'1h': '1h', 'ever': None}, aggs={'n': sl.count()})
    """

    on: tuple[tuple[str, str], ...]
    time: tuple[str, str]
    ranges: FrozenMap[Range]
    aggs: FrozenMap[Formula]
    closed: str
    delay: Span
    tail: FrozenMap[Span]
    wait: bool
    watermark: tuple[Watermark, Watermark]
    idle: Span | None
    sequence: str | None
    on_null_time: str
    on_overflow: str
    schemas: tuple[pa.Schema, pa.Schema] | None
    sides: ClassVar[tuple[str, str]] = ("labels", "events")
    progress: ClassVar[str] = "each"
    nulls_equal: ClassVar[bool] = False

    @says_arguments
    def __init__(
        self,
        on: Sequence[str | tuple[str, str]] | str,
        time: str | tuple[str, str],
        ranges: Mapping[str, object],
        aggs: Mapping[str, Formula],
        closed: str = "left",
        delay: object = 0,
        tail: object = EXACT,
        wait: bool = True,
        watermark: Watermark | tuple[Watermark, Watermark] | None = None,
        idle: object = None,
        sequence: str | None = None,
        on_null_time: str = "error",
        on_overflow: str = "error",
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("on", on_columns(on, self.sides))
        put("time", pair_of(time, "time", self.sides))
        put("ranges", _ranges(ranges))
        put("aggs", _aggs(aggs))
        put("closed", choice(closed, "closed", ("left", "right")))
        put("delay", _delay(delay))
        put("tail", _tails(tail, self.ranges))
        put("wait", yes_or_no(wait, "wait"))
        put("watermark", watermarks_of(watermark, "features"))
        put("idle", None if idle is None else parse_span(idle, "idle", positive=True))
        put("sequence", column_or_none(sequence, "sequence", " of the events"))
        put("on_null_time", choice(on_null_time, "on_null_time", ("error", "late")))
        put("on_overflow", choice(on_overflow, "on_overflow", ("error", "null", "wrap")))
        put("schemas", schemas_of(schemas, self.sides))
        check_alike(self.spans())
        self._check_names()

    def names(self) -> list[tuple[str, str, str]]:
        """Each column of results: its range, its aggregate, its name."""
        return [(r, a, f"{a}_{r}") for r in self.ranges for a in self.aggs]

    def spans(self) -> list[tuple[str, Span]]:
        """All spans of time, each with the name of its argument."""
        found: list[tuple[str, Span]] = []
        for name, (far, near) in self.ranges.items():
            ends = (("far", far), ("near", near))
            found += [(f"ranges[{name!r}]'s {end}", span) for end, span in ends if span is not None]
        found += [("delay", self.delay), *((f"tail of {name!r}", span) for name, span in self.tail.items())]
        return found + self._spans_of_progress()

    def fingerprint(self) -> str:
        """A hash of the query's meaning, stable between processes; without ``schemas`` and ``on_overflow``."""
        left_out = ("schemas", "on_overflow")
        parts = [f"{f.name}={stable(getattr(self, f.name))}" for f in fields(self) if f.name not in left_out]
        return hashlib.sha256("\n".join(["features", *parts]).encode()).hexdigest()[:32]

    def to_toml(self) -> str:
        """Write the features as TOML text, for review and for storing with a model; without ``schemas``.

        Returns
        -------
        str
            The text; :meth:`from_toml` builds an equal spec from it.

        Raises
        ------
        ValueError
            If an aggregate cannot be written as text: a ``udaf``.

        Examples
        --------
        >>> import slicing as sl
        >>> spec = sl.FeatureSpec("user", ("asked_at", "ts"), {"1h": "1h", "ever": None}, {"n": sl.count()}, delay="5m")
        >>> print(spec.to_toml())
        on = ["user"]
        time = ["asked_at", "ts"]
        delay = "5m"
        <BLANKLINE>
        [ranges]
        1h = "1h"
        ever = "unbounded"
        <BLANKLINE>
        [aggs]
        n = "count()"
        <BLANKLINE>
        """
        from slicing.joins.written import toml

        return toml(self._chosen())

    @classmethod
    def from_toml(cls, text: str | PathLike[str], schemas: tuple[pa.Schema, pa.Schema] | None = None) -> FeatureSpec:
        """Read features from TOML text, or from a file by its ``pathlib.Path``.

        Parameters
        ----------
        text
            TOML text. Its keys are the arguments of :class:`FeatureSpec`; ``[ranges]`` and ``[aggs]`` are tables. A
            range is a span, a pair ``[far, near]``, or ``"unbounded"``. Aggregates and watermarks are calls in quotes,
            which are parsed and not run.
        schemas
            The schemas of labels and events, which cannot be written as text.

        Examples
        --------
        >>> import slicing as sl
        >>> sl.FeatureSpec.from_toml('''
        ... on = ["user"]
        ... time = ["asked_at", "ts"]
        ... [ranges]
        ... day = "1d"
        ... before = ["unbounded", "1d"]
        ... [aggs]
        ... n = "count().where(col('paid') > 0)"
        ... ''').names()
        [('day', 'n', 'n_day'), ('before', 'n', 'n_before')]
        """
        from slicing.joins.written import feature_arguments

        known = [f.name for f in fields(cls) if f.name != "schemas"]
        return cls(**feature_arguments(text, known), schemas=schemas)

    def _chosen(self) -> dict[str, Any]:
        ranges = {name: _as_given(span) for name, span in self.ranges.items()}
        return chosen(self, _DEFAULTS) | {"ranges": ranges}

    def _check_names(self) -> None:
        seen: dict[str, tuple[str, str]] = {}
        for range_, agg, name in self.names():
            if name in seen:
                other = seen[name]
                raise ValueError(
                    f"the result would have two columns {name!r}, of aggs[{other[1]!r}] in ranges[{other[0]!r}] and of "
                    f"aggs[{agg!r}] in ranges[{range_!r}]; rename one of them"
                )
            seen[name] = range_, agg


_DEFAULTS: dict[str, object] = {"closed": "left", "wait": True, "watermark": (Bounded(0), Bounded(0)), "delay": 0}
_DEFAULTS |= {"idle": None, "sequence": None, "on_null_time": "error", "on_overflow": "error", "tail": FrozenMap({})}


def _ranges(value: object) -> FrozenMap[Range]:
    if not isinstance(value, Mapping) or not value:
        raise TypeError(
            f"ranges must be a dict with at least one entry, such as {{'1h': '1h', 'ever': None}}; got {value!r}"
        )
    return FrozenMap({_name(name, "ranges"): _range(name, span) for name, span in value.items()})


def _name(name: object, argument: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{argument} must have names as keys; got {name!r}")
    return name


def _range(name: object, value: object) -> Range:
    argument = f"ranges[{name!r}]"
    if value is None:
        return None, 0
    if not isinstance(value, list | tuple):
        return parse_span(value, argument, positive=True), 0
    if len(value) != 2 or value[1] is None:
        raise TypeError(
            f"{argument} must be a span, a pair (far, near) of spans of which far may be None, or None for everything "
            f"before the label; got {value!r}"
        )
    far = None if value[0] is None else parse_span(value[0], f"{argument}'s far")
    near = parse_span(value[1], f"{argument}'s near")
    if far is not None and amount(far) <= amount(near):
        raise ValueError(
            f"{argument}={shown_spans(_as_given((far, near)))} holds no time at all: events lie between label - far "
            "and label - near, so far must be larger than near"
        )
    return far, 0 if amount(near) == 0 else near


def _aggs(value: object) -> FrozenMap[Formula]:
    if not isinstance(value, Mapping) or not value:
        raise TypeError(f"aggs must be a dict with at least one entry, such as {{'n': sl.count()}}; got {value!r}")
    for name, agg in value.items():
        _name(name, "aggs")
        if not isinstance(agg, Formula):
            raise TypeError(f"aggs[{name!r}] must be an aggregate, such as sl.count() or sl.sum('x'); got {agg!r}")
    return FrozenMap(dict(value))


def _delay(value: object) -> Span:
    span = parse_span(value, "delay")
    if amount(span) < 0:
        raise ValueError(f"delay must not be negative; got {value!r} (ranges with a negative near lie behind a label)")
    return 0 if amount(span) == 0 else span


def _tails(value: object, ranges: FrozenMap[Range]) -> FrozenMap[Span]:
    """The step of each range whose far end is floored."""
    if isinstance(value, str) and value == EXACT:
        return FrozenMap({})
    bounded = [name for name, (far, _) in ranges.items() if far is not None]
    if not isinstance(value, Mapping):
        step = parse_span(value, "tail", positive=True)
        return FrozenMap(dict.fromkeys(bounded, step))
    for name in value:
        if name not in bounded:
            why = "has no far end" if name in ranges else "is not one of the ranges"
            raise ValueError(f"tail names {name!r}, which {why}; ranges with a far end are {', '.join(bounded)}")
    given = {name: step for name, step in value.items() if not (isinstance(step, str) and step == EXACT)}
    return FrozenMap({name: parse_span(step, f"tail of {name!r}", positive=True) for name, step in given.items()})


def _as_given(span: Range) -> Range | Span | None:
    """The shortest form in which a range can be given."""
    far, near = span
    return far if amount(near) == 0 else span
