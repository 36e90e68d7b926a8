"""The constructors of the built-in aggregates of fixed size: ``count``, ``sum``, ``first`` and the like.

``algebraic`` says how each of them is bound to the type of its column.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicing.aggregates import algebraic  # noqa: F401 registers what the constructors name
from slicing.aggregates.aggregate import Aggregate, column_named, columns_of
from slicing.system.arguments import says_arguments


@says_arguments
def count(column: str | None = None) -> Aggregate:
    """Count the rows or, with a column, its values that are not null.

    Parameters
    ----------
    column
        None: all rows are counted.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.count()}))["x"].to_pylist()
    [2, 1]
    """
    return Aggregate("count", None if column is None else column_named(column, "count's column"))


@says_arguments
def sum(column: str) -> Aggregate:
    """Sum: exact for integers, decimals and durations (of the column's unit), float64 for floats.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.sum("v")}))["x"].to_pylist()
    [6.5, 3.0]
    """
    return Aggregate("sum", column_named(column, "sum's column"))


@says_arguments
def product(column: str) -> Aggregate:
    """Product: exact for integers, float64 for floats and decimals.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 4, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.product("v")}))["x"].to_pylist()
    [8, 3]
    """
    return Aggregate("product", column_named(column, "product's column"))


@says_arguments
def min(column: str) -> Aggregate:
    """Smallest value, in the column's type; NaN only if all values are NaN.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.min("v")}))["x"].to_pylist()
    [2.5, 3.0]
    """
    return Aggregate("min", column_named(column, "min's column"))


@says_arguments
def max(column: str) -> Aggregate:
    """Largest value, in the column's type; NaN only if all values are NaN.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.max("v")}))["x"].to_pylist()
    [4.0, 3.0]
    """
    return Aggregate("max", column_named(column, "max's column"))


@says_arguments
def mean(column: str) -> Aggregate:
    """Arithmetic mean: float64. Decimals get four more digits; durations are rounded, halves away from zero.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.mean("v")}))["x"].to_pylist()
    [3.25, 3.0]
    """
    return Aggregate("mean", column_named(column, "mean's column"))


@says_arguments
def geometric_mean(column: str) -> Aggregate:
    """exp(mean(log(x))): 0 if a value is 0; NaN if a value is negative, or if one is 0 and another one infinite.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.0, 8.0, 1.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.geometric_mean("v")}))["x"].to_pylist()
    [4.0, 1.0]
    """
    return Aggregate("geometric_mean", column_named(column, "geometric_mean's column"))


@says_arguments
def var(column: str, ddof: int = 1) -> Aggregate:
    """Variance with divisor ``n - ddof``; null for fewer than ``ddof + 1`` values.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    ddof
        Degrees of freedom that are subtracted from the number of values.

    Notes
    -----
    Values are read as 64-bit floats, so whole numbers beyond ``2**53`` lose their last digits. If these matter,
    subtract a constant first (``sl.var(sl.col("v") - base)``).

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.var("v")}))["x"].to_pylist()
    [1.125, None]
    """
    return Aggregate("var", column_named(column, "var's column"), ddof=_ddof(ddof, "var"))


@says_arguments
def std(column: str, ddof: int = 1) -> Aggregate:
    """Standard deviation; null for fewer than ``ddof + 1`` values.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.
    ddof
        Degrees of freedom that are subtracted from the number of values.

    Notes
    -----
    Values are read as 64-bit floats, so whole numbers beyond ``2**53`` lose their last digits. If these matter,
    subtract a constant first (``sl.std(sl.col("v") - base)``).

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.std("v", ddof=0)}))["x"].to_pylist()
    [0.75, 0.0]
    """
    return Aggregate("std", column_named(column, "std's column"), ddof=_ddof(ddof, "std"))


@says_arguments
def first(column: str) -> Aggregate:
    """The first value that is not null, by (time, sequence, arrival) of rows.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.first("v")}))["x"].to_pylist()
    [2.5, 3.0]
    """
    return Aggregate("first", column_named(column, "first's column"))


@says_arguments
def last(column: str) -> Aggregate:
    """The last value that is not null, by (time, sequence, arrival) of rows.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.last("v")}))["x"].to_pylist()
    [4.0, 3.0]
    """
    return Aggregate("last", column_named(column, "last's column"))


@says_arguments
def argmin(column: str, return_: str | Sequence[str]) -> Aggregate:
    """``return_`` of the row with the smallest ``column``; if several rows have it, of the earliest one.

    With a list of columns the result is a struct of them; it is null if no row has a value in ``column``.

    Parameters
    ----------
    column
        The column whose smallest value is searched, or an expression; nulls are left out.
    return_
        The column to return, or a list of columns: they are returned as a struct.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2.5, 4.0, 3.0], "name": ["a", "b", "c"]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.argmin("v", "name")}))["x"].to_pylist()
    ['a', 'c']
    """
    return Aggregate("argmin", column_named(column, "argmin's column"), columns_of(return_, "argmin's return_"))


@says_arguments
def argmax(column: str, return_: str | Sequence[str]) -> Aggregate:
    """``return_`` of the row with the largest ``column``; if several rows have it, of the earliest one.

    With a list of columns the result is a struct of them; it is null if no row has a value in ``column``.

    Parameters
    ----------
    column
        The column whose largest value is searched, or an expression; nulls are left out.
    return_
        The column to return, or a list of columns: they are returned as a struct.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [1, 2, 3], "temp": [20.5, 23.0, 19.0], "wind": [3, 4, 5]})
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"hottest": sl.argmax("temp", ["t", "wind"])})
    >>> sl.aggregate(rows, spec)["hottest"].to_pylist()
    [{'t': 2, 'wind': 4}]
    """
    return Aggregate("argmax", column_named(column, "argmax's column"), columns_of(return_, "argmax's return_"))


@says_arguments
def min_count(column: str) -> Aggregate:
    """How many rows have the smallest value.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 2, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.min_count("v")}))["x"].to_pylist()
    [2, 1]
    """
    return Aggregate("min_count", column_named(column, "min_count's column"))


@says_arguments
def max_count(column: str) -> Aggregate:
    """How many rows have the largest value.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 4, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.max_count("v")}))["x"].to_pylist()
    [1, 1]
    """
    return Aggregate("max_count", column_named(column, "max_count's column"))


@says_arguments
def m4(column: str) -> Aggregate:
    """A struct of min, max, first and last: all that a line chart needs for one column of pixels.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [2, 4, 3]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.m4("v")}))["x"].to_pylist()
    [{'min': 2, 'max': 4, 'first': 2, 'last': 4}, {'min': 3, 'max': 3, 'first': 3, 'last': 3}]
    """
    return Aggregate("m4", column_named(column, "m4's column"))


@says_arguments
def any(column: str) -> Aggregate:
    """Whether any value is true; null if all values are null.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [True, False, False]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.any("v")}))["x"].to_pylist()
    [True, False]
    """
    return Aggregate("any", column_named(column, "any's column"))


@says_arguments
def all(column: str) -> Aggregate:
    """Whether all values are true; null if all values are null.

    Parameters
    ----------
    column
        The column, or an expression; nulls are left out.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12], "v": [True, False, True]})
    >>> sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"x": sl.all("v")}))["x"].to_pylist()
    [False, True]
    """
    return Aggregate("all", column_named(column, "all's column"))


def _ddof(ddof: object, function: str) -> int:
    if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
        raise ValueError(f"{function}'s ddof must be a whole number of at least 0; got {ddof!r}")
    return ddof
