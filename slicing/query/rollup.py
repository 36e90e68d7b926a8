"""Larger windows from the results of smaller ones (parts): the query that combines them, as its own spec.

Every row is in exactly one part, so partial results can be aggregated again: counts and sums are added, the extreme of
extremes is taken, lists are joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slicing.aggregates import builtin, holistic
from slicing.aggregates.aggregate import Aggregate, Formula
from slicing.query.spec import Spec
from slicing.query.watermark import manual
from slicing.system.arguments import says_arguments
from slicing.times.durations import Duration
from slicing.windows.builtin import Cumulate, Fixed, Landmark, Session, Sliding, Tumbling, Whole
from slicing.windows.calendar import Calendar, CalendarWindow
from slicing.windows.rows.row_windows import RowWindow

_AGAIN = {
    "count": builtin.sum, "sum": builtin.sum, "product": builtin.product, "min": builtin.min, "max": builtin.max,
    "any": builtin.any, "all": builtin.all, "collect": holistic.collect,
}  # fmt: skip
_TOTALS = ("sum", "product")
_LEFT_OUT = (
    "what is null for that reason in a part looks as if there were no values, so larger windows would leave the part "
    "out"
)
_SPEC = b"slicing.spec"
_WITHIN = {"1d": ("1w", "1mo", "1q", "1y"), "1mo": ("1q", "1y"), "1q": ("1y",)}  # calendar units, and multiples


@says_arguments
def rollup_spec(spec: Spec, windows: Mapping[str, Any], *, window: str | None = None, **arguments: Any) -> Spec:
    """A query over the results of another query: it combines their windows to larger windows, exactly.

    It reads ``window_start``, the keys and the aggregates of the results. Use it on Spark, in a :func:`chain`, or with
    :func:`aggregate`. If the results have several windows, filter them by the window's name first.

    Parameters
    ----------
    spec
        The query whose results are combined, with ``emit="parts"`` or ``"final"``. Its aggregates may be ``count``,
        ``sum``, ``product``, ``min``, ``max``, ``any``, ``all`` and ``collect`` (which gives a list of lists here).
        Instead of a mean, ask for a sum and a count. Do not use ``on_overflow="wrap"`` with decimals: a sum that does
        not fit is null, and larger windows leave that part out (:func:`rollup` refuses it). Use ``"error"``.
    windows
        The larger windows. Their edges must be edges of the parts, whatever the data.
    window
        The name of the windows to combine, if ``spec`` has several. They must not overlap: ``tumbling``, or a
        ``calendar`` of days, months or the like.
    **arguments
        Other arguments of :class:`Spec`, such as ``allowed_lateness`` and ``emit``. The default of ``watermark`` is
        ``manual()``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> minutes = sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count()}, emit="parts")
    >>> hours = sl.rollup_spec(minutes, {"h": sl.tumbling(3600)})
    >>> op = sl.chain(sl.Operator(minutes), sl.Operator(hours))
    >>> op.push(pa.table({"t": [1, 2, 65, 3700, 7300]})).windows["n"].to_pylist()
    [3, 1]
    """
    name = part_name(spec, window)
    _check_larger(windows)
    for larger, given in windows.items():
        if not _holds(given, spec.windows[name]):
            raise ValueError(
                f"windows[{larger!r}] is {given!r}: it cannot be told without data whether its edges are edges of "
                f"{spec.windows[name]!r}; use sizes, steps and offsets that are multiples, whole(), or sl.rollup"
            )
    return over_parts(spec, windows, arguments)


def over_parts(spec: Spec, windows: Mapping[str, Any], arguments: Mapping[str, Any]) -> Spec:
    """The query, for windows that are known to hold only whole parts."""
    _check_larger(windows)
    defaults = {"watermark": manual(), "on_overflow": spec.on_overflow}
    if spec.emit == "parts":
        defaults["sequence"] = "revision"
    aggs = {name: _again(name, agg) for name, agg in spec.aggs.items()}
    return Spec("window_start", windows, aggs, by=list(spec.by), **{**defaults, **arguments})


def _check_larger(windows: Mapping[str, Any]) -> None:
    """Raise for windows whose answers depend on the times of single rows."""
    if not isinstance(windows, Mapping):
        raise TypeError(f"windows must be a dict of windows by name; got {windows!r}")
    for name, given in windows.items():
        if isinstance(given, RowWindow | Session):
            raise ValueError(
                f"windows[{name!r}] is {given!r}, whose bounds depend on single rows, and parts do not say where their "
                "rows lie; use windows between edges (tumbling, sliding, calendar, ...) or whole()"
            )
        if getattr(given, "full", False):
            raise ValueError(
                f"windows[{name!r}] has full=True, and parts do not say where the first and the last row of the stream "
                "lie; leave it out"
            )


def written_in(spec: Spec) -> dict[bytes, bytes] | None:
    """The query as metadata of its results, so that the parts say where they come from; None if it has no text."""
    try:
        return {_SPEC: spec.to_toml().encode()}
    except ValueError:  # TOML cannot hold it
        return None


def spec_of(parts: pa.Schema) -> Spec:
    """The query that emitted the parts, from their metadata."""
    text = (parts.metadata or {}).get(_SPEC)
    if text is None:
        raise ValueError(
            "the parts do not say which query gave them, as results with emit='parts' do in Arrow and in files of it; "
            "give the query, spec="
        )
    return Spec.from_toml(text.decode())


def part_name(spec: Spec, window: str | None) -> str:
    """The name of the windows to combine. Raises if they overlap, or if results may be emitted several times."""
    if not isinstance(spec, Spec):
        raise TypeError(f"spec must be the sl.Spec that gave the parts; got {type(spec).__name__}")
    if spec.emit not in ("parts", "final"):
        raise ValueError(
            f"the spec has emit={spec.emit!r}, whose results come again, so rows would count twice; use emit='parts'"
        )
    totals = any(part.function in _TOTALS for agg in spec.aggs.values() for part in agg.parts())
    for argument, unknown in {"on_overflow": totals, "on_unmatched": spec.op is not None}.items():
        if unknown and getattr(spec, argument) == "null":
            raise ValueError(f"the spec has {argument}='null', and {_LEFT_OUT}; use {argument}='error'")
    if window is None and len(spec.windows) > 1:
        raise ValueError(f"the spec has several windows, {', '.join(spec.windows)}: say which are the parts, window=")
    name = next(iter(spec.windows)) if window is None else window
    if not isinstance(name, str) or name not in spec.windows:
        raise ValueError(f"window is {name!r}, and the spec has {', '.join(spec.windows)}")
    given = spec.windows[name]
    apart = isinstance(given, Tumbling | Calendar | Fixed) or (isinstance(given, Sliding) and _at_most(given))
    if not apart:
        raise ValueError(
            f"windows[{name!r}] is {given!r}: parts must be windows between edges that share no rows, such as tumbling"
        )
    return name


def check_parts(spec: Spec, parts: pa.Schema) -> None:
    """Raise for decimals with ``on_overflow="wrap"``: a part that did not fit is null."""
    for name, agg in spec.aggs.items():
        total = any(part.function in _TOTALS for part in agg.parts())
        if spec.on_overflow == "wrap" and total and pa.types.is_decimal(parts.field(name).type):
            raise ValueError(
                f"the spec has on_overflow='wrap', which makes decimals null ({name!r} is {parts.field(name).type}), "
                f"and {_LEFT_OUT}; use on_overflow='error'"
            )


def _at_most(window: Sliding) -> bool:
    """Whether windows do not overlap."""
    return _number(window.size) <= _number(window.every)


def _again(name: str, agg: Formula) -> Aggregate:
    if isinstance(agg, Aggregate) and agg.function in _AGAIN and agg.options:
        raise ValueError(
            f"aggs[{name!r}] is {agg!r}, whose {agg.options[0][0]} bounds each part, not the whole: a rollup takes "
            f"{agg.function} without it"
        )
    if not isinstance(agg, Aggregate) or agg.function not in _AGAIN:
        raise ValueError(
            f"aggs[{name!r}] is {agg!r}, whose parts do not say what the whole is; a rollup takes "
            f"{', '.join(_AGAIN)}: ask for the sum and the count instead of a mean, and divide afterwards"
        )
    return _AGAIN[agg.function](name)


def _holds(larger: object, part: object) -> bool:
    """Whether no edge of the larger windows can lie inside a part."""
    if isinstance(larger, Whole):
        return True
    if isinstance(part, Calendar):
        if not isinstance(larger, CalendarWindow):
            return False
        alike = (larger.tz, larger.local, larger.offset) == (part.tz, part.local, part.offset)
        return alike and {*larger.edges} <= {part.unit, *_WITHIN.get(part.unit, ())}
    if not isinstance(part, Tumbling | Sliding):
        return False
    step, offset = _number(part.every if isinstance(part, Sliding) else part.size), _number(part.offset)
    if isinstance(larger, Tumbling):
        spans = [larger.size, larger.offset]
    elif isinstance(larger, Sliding | Cumulate):
        spans = [larger.size, larger.every, larger.offset]
    elif isinstance(larger, Landmark) and larger.start is None:
        spans = [larger.every, 0]
    else:
        return False
    *sizes, from_ = map(_number, spans)
    return not any(size % step for size in sizes) and (from_ - offset) % step == 0


def _number(span: object) -> int:
    if isinstance(span, Duration):
        return span.ns
    assert isinstance(span, int)
    return span
