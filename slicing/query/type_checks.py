"""Errors about column types, raised when a spec meets a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate
from slicing.columns.expressions import CannotCompute, Derived, types_of
from slicing.query.spec import Spec
from slicing.system.warn import warn
from slicing.windows.bounds import LONGEST
from slicing.windows.rows.row_windows import RowWindow

T = TypeVar("T")
P = ParamSpec("P")


def derived_types(types: Mapping[str, pa.DataType], derived: Mapping[Derived, str]) -> dict[str, pa.DataType]:
    """The types of computed columns. Raises if an expression cannot be computed from columns of these types."""
    for name, aggregate in derived.items():
        if name in types:
            raise ValueError(f"{aggregate}: the data has a column whose name is this expression; rename it")
    try:
        return types_of(types, list(derived)) if derived else {}
    except CannotCompute as error:
        shown = ", ".join(f"{name!r} of type {types[name]}" for name in error.derived.fields)
        raise TypeError(f"{derived[error.derived]}: {error} (columns {shown})") from None


def of_window(name: str, resolve: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Resolve a window in ticks; errors get the name of the window."""
    try:
        return resolve(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise type(error)(f"windows[{name!r}]: {error}") from None


def check_flags(spec: Spec, types: Mapping[str, pa.DataType]) -> None:
    """Raise if a column that must be boolean, as it selects rows, is of another type."""
    for agg in spec.parts():
        if agg.flag is not None and not pa.types.is_boolean(types[agg.flag]):
            raise TypeError(f"{agg!r}: where takes a boolean column; {agg.flag!r} has type {types[agg.flag]}")
    for at, window in spec.windows.items():
        for name in window.flag_columns() if isinstance(window, RowWindow) else ():
            if not pa.types.is_boolean(types[name]):
                raise TypeError(f"windows[{at!r}]: {window!r} takes boolean columns; {name!r} has type {types[name]}")
    for trigger in spec.triggers().values():
        for name in trigger.columns():
            if not pa.types.is_boolean(types[name]):
                raise TypeError(f"{trigger!r} takes a boolean column; {name!r} has type {types[name]}")


def check_span(name: str, ticks: int) -> None:
    """Raise for a window whose span is too long for arithmetic in ticks."""
    if ticks > LONGEST:
        raise ValueError(
            f"windows[{name!r}] spans {ticks} units of the time column; at most {LONGEST} are allowed (a coarser unit "
            "reaches further)"
        )


def check_sequence(name: str, type: pa.DataType) -> None:
    """Raise for a sequence column of a type that cannot order rows."""
    t = pa.types
    if not (t.is_integer(type) or t.is_timestamp(type) or t.is_date(type) or t.is_time(type) or t.is_duration(type)):
        raise TypeError(
            f"sequence column {name!r} has type {type}; it must be an integer or a time: use a column of whole numbers "
            "in the same order (pyarrow.compute.rank makes one)"
        )


def check_ties(spec: Spec, aggs: Mapping[str, BoundAggregate]) -> None:
    """Raise for aggregates that would need to order structs or lists, if rows have no order of arrival."""
    for name, agg in spec.aggs.items():
        if not isinstance(agg, Aggregate):  # arithmetic returns neither
            continue
        type = aggs[name].type.value_type if agg.function == "collect" else aggs[name].type
        several = isinstance(agg.return_, tuple) or (agg.function in ("top_k", "bottom_k") and agg.return_ is not None)
        if several or (agg.function in _BY_ORDER and pa.types.is_nested(type)):
            what = "other columns of rows" if several else "structs or lists"
            raise ValueError(
                f"aggs[{name!r}]: {agg!r} returns {what}, which needs rows in an order of arrival, and rows that come "
                "from several places have none; ask for single columns of numbers, times or text"
            )


_BY_ORDER = ("first", "last", "argmin", "argmax", "collect")


_COMPARED = frozenset({"min", "max", "min_count", "max_count", "argmin", "argmax", "top_k", "bottom_k"})


def warn_of_categories(spec: Spec, types: Mapping[str, pa.DataType]) -> None:
    """Warn if ordered categories are compared by their values."""
    for agg in spec.parts():
        type = types.get(agg.column) if agg.column is not None and agg.function in _COMPARED else None
        if type is not None and pa.types.is_dictionary(type) and type.ordered:
            warn(
                f"{agg!r} compares the values of column {agg.column!r}, text by its letters, and not by the order of "
                "its categories. To compare by that order give the column as numbers (pandas: frame[column].cat.codes, "
                "Polars: pl.col(column).to_physical()); cast it to its values if these are meant"
            )
