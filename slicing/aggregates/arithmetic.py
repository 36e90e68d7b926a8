"""Arithmetic of answers: two columns, or a column and a number, computed into one column."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.system.arrays import Mask

Column = Any  # a pa.Array, or a pa.Scalar

INT64, UINT64 = pa.int64(), pa.uint64()


class Lowered(NamedTuple):
    """Answers of one aggregate, and which of them do not fit their type."""

    array: pa.Array
    overflow: Mask | None
    sides: tuple[Lowered, ...] = ()  # of arithmetic with an overflow: the answers of both sides


def calculated(operator: str, left: Column, right: Column) -> Lowered:
    """``left operator right``, row by row; null where one side is null."""
    if operator == "/":
        return Lowered(pc.divide(_floats(left), _floats(right)), None)
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return _decimals(operator, left, right)
    if pa.types.is_floating(right.type) or pa.types.is_floating(left.type):
        return Lowered(_PLAIN[operator](_rounded(left, right.type), _rounded(right, left.type)), None)
    integers = pa.types.is_integer(left.type) and pa.types.is_integer(right.type)
    type = UINT64 if left.type == right.type == UINT64 and operator != "-" else INT64
    try:
        sides = (left.cast(type), right.cast(type)) if integers else (left, right)
        if any(pa.types.is_time(side.type) for side in sides):  # Arrow adds the last 32 bits of a duration alone
            raise pa.ArrowInvalid
        return Lowered(_CHECKED[operator](*sides), None)
    except pa.ArrowInvalid:  # some results do not fit
        given = type if integers else _PLAIN[operator](pa.nulls(0, left.type), pa.nulls(0, right.type)).type
        return _exactly(operator, left, right, given)


def _floats(column: Column) -> Column:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise TypeError(f"{column.type} cannot be divided")
    return column.cast(pa.float64(), safe=False)


def _rounded(column: Column, other: pa.DataType) -> Column:
    """Integers cast to float without a check: Arrow refuses to do it beyond 2**53."""
    return column.cast(other, safe=False) if pa.types.is_integer(column.type) else column


def _decimals(operator: str, left: Column, right: Column) -> Lowered:
    """With Arrow's digits, or with 38 if Arrow would need more; floats if one side is float."""
    try:
        return Lowered(_PLAIN[operator](left, right), None)
    except pa.ArrowInvalid:  # more than 38 digits
        wide = _PLAIN[operator](_wider(left), _wider(right))
    type = pa.decimal128(38, wide.type.scale)
    try:
        return Lowered(wide.cast(type), None)
    except pa.ArrowInvalid:  # some results do not fit
        beyond = pc.greater_equal(pc.abs(wide), pa.scalar(Decimal(1).scaleb(38 - type.scale), wide.type))
        fitting = pc.if_else(beyond, pa.scalar(None, wide.type), wide)
        return Lowered(fitting.cast(type), as_numpy(beyond.fill_null(False)))


def _wider(column: Column) -> Column:
    if not pa.types.is_decimal(column.type):
        return column
    return column.cast(pa.decimal256(column.type.precision, column.type.scale))


def _exactly(operator: str, left: Column, right: Column, type: pa.DataType) -> Lowered:
    """Integers, times and durations with results that do not fit: these are wrapped, modulo 2**64 or a day."""
    exact = _PLAIN_OBJECTS[operator](_objects(left, type), _objects(right, type))
    unsigned = type == UINT64
    low, high = (0, 1 << 64) if unsigned else (-(1 << 63), 1 << 63)
    if pa.types.is_time(type):
        low, high = 0, _DAY * 1000 ** _UNITS.index(type.unit)
    beyond = ((exact < low) | (exact >= high)).astype(np.bool_)
    wrapped = ((exact - low) % (high - low) + low).astype(np.uint64 if unsigned else _storage(type))
    null = np.zeros(wrapped.size, np.bool_)
    for side in (left, right):
        if isinstance(side, pa.Array) and side.null_count:
            null |= as_numpy(side.is_null())
    return Lowered(array_of(wrapped, null).view(type), beyond & ~null)


def _objects(column: Column, type: pa.DataType) -> Any:
    """Python integers, with times and durations in the unit of ``type``; 0 for null."""
    if isinstance(column, pa.Scalar):
        return column.as_py()
    if not pa.types.is_temporal(column.type):
        return as_numpy(column.fill_null(0)).astype(object)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    ticks = column.view(pa.from_numpy_dtype(_storage(column.type))).fill_null(0)
    ticks = as_numpy(ticks).astype(object)
    return ticks * 1000 ** (_UNITS.index(type.unit) - _UNITS.index(column.type.unit))


def _storage(type: pa.DataType) -> Any:
    return np.int32 if pa.types.is_time32(type) else np.int64


_UNITS = "s", "ms", "us", "ns"
_DAY = 86_400  # seconds
_PLAIN: dict[str, Callable[..., Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN_OBJECTS: dict[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
