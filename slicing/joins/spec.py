"""JoinSpec: a join of two streams, checked when it is built."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.expressions import Derived, as_derived
from slicing.joins.arguments import SpecOfTwo, chosen, on_columns, pair_of, schemas_of, shown_spans, watermarks_of
from slicing.query.watermark import Bounded, Watermark
from slicing.system.arguments import choice, column_or_none, says_arguments, yes_or_no
from slicing.times.durations import Span, amount, check_alike, parse_span
from slicing.windows.builtin import Tumbling
from slicing.windows.calendar import Calendar

KINDS = ("inner", "left", "right", "full", "semi", "anti")
MATCHES = ("all", "last", "first", "nearest")
CLOSED = ("both", "left", "right", "none")
EVENT_TIMES = ("left", "right", "max", "min", "window")
LEFT_ALONE = ("left", "full", "anti")  # kinds of joins that emit left rows without a partner
RIGHT_ALONE = ("right", "full")


@dataclass(frozen=True, init=False, repr=False)
class JoinSpec(SpecOfTwo):
    """A join of two streams or tables by equal keys and by times that lie in a band or in the same window.

    Parameters
    ----------
    on : list of str or of (str, str), or str
        Key columns, or pairs of a left and a right column. ``[]``: rows are matched by time only.
    time : str or (str, str)
        The time column, or the left and the right one: timestamps, dates or integers.
    within : (before, after) or window
        A band: partners have ``left.time - before <= right.time <= left.time + after``. Either span may be negative
        if their sum is not. ``None`` means unbounded (only with ``match``). Or ``sl.tumbling(...)`` or
        ``sl.calendar(...)``: partners are in the same window.
    how : str
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"semi"`` or ``"anti"``.
    match : str
        ``"all"``, or one partner for each left row (as-of joins): ``"last"``, ``"first"`` or ``"nearest"``. ``how`` is
        then ``"inner"`` or ``"left"``.
    where : pyarrow.compute.Expression, optional
        A condition over the result columns that pairs must satisfy; null counts as false. With ``match`` the partner is
        the last (first, nearest) row that satisfies it.
    watermark : Watermark or (Watermark, Watermark), optional
        How the watermark of each stream moves; ``sl.bounded(0)`` if left out.
    idle : span, optional
        The watermark of a silent side counts as at most this far behind the other side's.
    progress : str
        ``"each"``: rows of a side are judged by the watermark of that side. ``"least"``: rows of both sides are judged
        by the smaller watermark, as in Spark and Flink.
    event_time : str, optional
        Which event time of a result the output's watermark is about: ``"left"``, ``"right"``, ``"max"``, ``"min"`` or
        ``"window"``. If you give ``"max"`` or ``"min"``, results also have a column ``event_time``.
    closed : str
        Which ends belong to the band: ``"both"``, ``"left"``, ``"right"`` or ``"none"``.
    nulls_equal : bool
        Whether two null keys are equal; by default a null key has no partner.
    suffix : str
        Added to the name of a right column if the left side has a column of that name.
    sequence : str, optional
        A column of the right side that orders rows of equal time; needs ``match``.
    on_null_time : str
        ``"error"``: a null time raises. ``"late"``: rows without a time are returned as late rows.
    schemas : (pyarrow.Schema, pyarrow.Schema), optional
        The columns of both sides, if they should be known before the first rows. Without them, the rows of a
        :class:`JoinOperator` have no columns of a side that has not had a row yet.

    Examples
    --------
    >>> import slicing as sl
    >>> sl.JoinSpec(on=["user"], time=("shown_at", "clicked_at"), within=("0s", "10m"), how="left")
    sl.JoinSpec(on=['user'], time=('shown_at', 'clicked_at'), within=('0s', '10m'), how='left')
    """

    on: tuple[tuple[str, str], ...]
    time: tuple[str, str]
    within: tuple[Span | None, Span | None] | Tumbling | Calendar
    how: str
    match: str
    where: Derived | None
    watermark: tuple[Watermark, Watermark]
    idle: Span | None
    progress: str
    event_time: str | None
    closed: str
    nulls_equal: bool
    suffix: str
    sequence: str | None
    on_null_time: str
    schemas: tuple[pa.Schema, pa.Schema] | None
    sides: ClassVar[tuple[str, str]] = ("left", "right")

    @says_arguments
    def __init__(
        self,
        on: Sequence[str | tuple[str, str]] | str,
        time: str | tuple[str, str],
        within: object,
        how: str = "inner",
        match: str = "all",
        where: Any = None,
        watermark: Watermark | tuple[Watermark, Watermark] | None = None,
        idle: object = None,
        progress: str = "each",
        event_time: str | None = None,
        closed: str = "both",
        nulls_equal: bool = False,
        suffix: str = "_right",
        sequence: str | None = None,
        on_null_time: str = "error",
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("on", on_columns(on, self.sides))
        put("time", pair_of(time, "time", self.sides))
        put("within", _within(within))
        put("how", choice(how, "how", KINDS))
        put("match", choice(match, "match", MATCHES))
        put("where", _where(where))
        put("watermark", watermarks_of(watermark, "a join"))
        put("idle", None if idle is None else parse_span(idle, "idle", positive=True))
        put("progress", choice(progress, "progress", ("each", "least")))
        put("event_time", None if event_time is None else choice(event_time, "event_time", EVENT_TIMES))
        put("closed", choice(closed, "closed", CLOSED))
        put("nulls_equal", yes_or_no(nulls_equal, "nulls_equal"))
        if not isinstance(suffix, str):
            raise TypeError(f"suffix must be a string; got {suffix!r}")
        put("suffix", suffix)
        put("sequence", column_or_none(sequence, "sequence", " of the right side"))
        put("on_null_time", choice(on_null_time, "on_null_time", ("error", "late")))
        put("schemas", schemas_of(schemas, self.sides))
        check_alike(self.spans(), [("within", self.within)] if isinstance(self.within, Calendar) else [])
        self._check_band()
        self._check_match()
        self._check_event_time()

    @property
    def matches(self) -> bool:
        """Whether a left row has at most one partner."""
        return self.match != "all"

    @property
    def windowed(self) -> bool:
        """Whether partners are in the same window (otherwise in a band)."""
        return isinstance(self.within, Tumbling | Calendar)

    @property
    def left_only(self) -> bool:
        """Whether results have the left columns only."""
        return self.how in ("semi", "anti")

    @property
    def speaks_about(self) -> str:
        """The event time of results: the given one, or the default of the kind of join."""
        if self.event_time is not None:
            return self.event_time
        if self.left_only or self.matches:
            return "left"
        if self.windowed:
            return "window"
        return {"left": "left", "right": "right"}.get(self.how, "max")

    def fingerprint(self) -> str:
        """A short hash of the join's meaning, stable between processes; ``schemas`` do not count."""
        parts = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "schemas"]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def to_toml(self) -> str:
        """Write the join as TOML text, for review and for keeping next to a job; ``schemas`` are not written.

        Returns
        -------
        str
            :meth:`from_toml` builds an equal spec from it.

        Examples
        --------
        >>> import slicing as sl
        >>> spec = sl.JoinSpec("user", ("shown_at", "clicked_at"), ("0s", "10m"), where=sl.col("price") > 5)
        >>> print(spec.to_toml())
        on = ["user"]
        time = ["shown_at", "clicked_at"]
        within = ["0s", "10m"]
        where = "col('price') > 5"
        <BLANKLINE>
        """
        from slicing.joins.written import toml

        return toml(self._chosen())

    @classmethod
    def from_toml(cls, text: str | PathLike[str], schemas: tuple[pa.Schema, pa.Schema] | None = None) -> JoinSpec:
        """Read a join from TOML text, or from a file by its ``pathlib.Path``.

        Parameters
        ----------
        text
            Keys are the arguments of :class:`JoinSpec`. Watermarks, windows and ``where`` are calls in quotes. They
            are parsed and never executed. ``"unbounded"`` stands for None.
        schemas
            The columns of both sides, which TOML cannot hold.

        Examples
        --------
        >>> import slicing as sl
        >>> sl.JoinSpec.from_toml('''
        ... on = ["user"]
        ... time = "ts"
        ... within = ["unbounded", "0s"]
        ... match = "last"
        ... watermark = "bounded('2m')"
        ... ''')
        sl.JoinSpec(on=['user'], time='ts', within=(None, '0s'), match='last', watermark=sl.bounded('2m'))
        """
        from slicing.joins.written import join_arguments

        known = [f.name for f in fields(cls) if f.name != "schemas"]
        return cls(**join_arguments(text, known), schemas=schemas)

    def _chosen(self) -> dict[str, Any]:
        return chosen(self, _DEFAULTS)

    def spans(self) -> list[tuple[str, Span]]:
        """All spans of time, each with the name of its argument."""
        found: list[tuple[str, Span]] = []
        if isinstance(self.within, tuple):
            found += [(n, s) for n, s in zip(("before", "after"), self.within, strict=True) if s is not None]
        elif isinstance(self.within, Tumbling):
            found += [("within's size", self.within.size), ("within's offset", self.within.offset)]
        return found + self._spans_of_progress()

    def _check_band(self) -> None:
        if not isinstance(self.within, tuple):
            if self.closed != "both":
                raise ValueError(
                    f"closed={self.closed!r} speaks about the ends of a band, and within={self.within!r} has windows, "
                    "which are [start, end); leave it out"
                )
            return
        before, after = self.within
        if before is None or after is None:
            if not self.matches:
                raise ValueError(
                    f"within={shown_spans(self.within)} is unbounded, which only match='last', 'first' or 'nearest' "
                    "can have: rows would be kept for ever; give both spans"
                )
            return
        width = amount(before) + amount(after)
        if width < 0 or (width == 0 and self.closed != "both"):
            raise ValueError(
                f"within={shown_spans(self.within)} with closed={self.closed!r} holds no time at all: right rows lie "
                "between left.time - before and left.time + after"
            )

    def _check_match(self) -> None:
        if self.sequence is not None and not self.matches:
            raise ValueError(
                f"sequence={self.sequence!r} decides which partner match= takes; match='all' takes all, so leave it out"
            )
        if not self.matches:
            return
        if self.how not in ("inner", "left"):
            raise ValueError(
                f"match={self.match!r} gives a left row at most one partner, which only how='inner' and 'left' can "
                f"have; got how={self.how!r}"
            )
        if self.windowed:
            raise ValueError(f"match={self.match!r} needs a band (before, after); got within={self.within!r}")

    def _check_event_time(self) -> None:
        about = self.event_time
        if about == "window" and (not self.windowed or self.left_only):
            trouble = f"how={self.how!r} has no window columns" if self.windowed else "within is a band"
            raise ValueError(f"event_time='window' needs windows in the result, but {trouble}; use 'left'")
        wrong = about == "left" and self.how in RIGHT_ALONE
        wrong |= about == "right" and self.how in LEFT_ALONE
        if wrong:
            raise ValueError(
                f"event_time={about!r} is null in rows without a partner of how={self.how!r}; use 'max' or 'min', "
                "which take the time that is there"
            )
        if self.left_only and about not in (None, "left"):
            raise ValueError(
                f"how={self.how!r} gives the left's columns only: event_time must be 'left'; got {about!r}"
            )


_DEFAULTS: dict[str, object] = {"how": "inner", "match": "all", "where": None, "idle": None, "progress": "each"}
_DEFAULTS |= {"watermark": (Bounded(0), Bounded(0)), "event_time": None, "closed": "both", "nulls_equal": False}
_DEFAULTS |= {"suffix": "_right", "sequence": None, "on_null_time": "error"}


def _within(value: object) -> tuple[Span | None, Span | None] | Tumbling | Calendar:
    if isinstance(value, Tumbling | Calendar):
        if value.fill:
            raise ValueError(f"within={value!r}: fill=True has no meaning in a join; leave it out")
        return value
    if isinstance(value, list | tuple) and len(value) == 2:
        before, after = (
            None if span is None else parse_span(span, f"within's {name}")
            for name, span in zip(("before", "after"), value, strict=True)
        )
        return before, after
    raise TypeError(
        "within must be a pair of spans (before, after), such as ('0s', '10m'), or sl.tumbling(size) or "
        f"sl.calendar(unit, tz); got {value!r}"
    )


def _where(value: object) -> Derived | None:
    if value is None or isinstance(value, Derived):
        return value
    if not isinstance(value, pc.Expression):
        raise TypeError(
            "where must be a pyarrow expression, such as pyarrow.compute.field('price') > "
            f"pyarrow.compute.field('limit'); got {value!r}"
        )
    return as_derived(value, "where")
