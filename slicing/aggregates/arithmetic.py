"""Arithmetic of answers: columns of two aggregates, or one and a number, as one column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import array_of
from slicing.system.arrays import Mask

Column = Any  # a pa.Array, or a pa.Scalar

INT64, UINT64 = pa.int64(), pa.uint64()


class Lowered(NamedTuple):
    """Answers of one aggregate, and which of them do not fit their type."""

    array: pa.Array
    overflow: Mask | None


def calculated(operator: str, left: Column, right: Column) -> Lowered:
    """``left operator right`` of each; null where one of them is."""
    if operator == "/":
        return Lowered(pc.divide(_floats(left), _floats(right)), None)
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return _integers(operator, left, right)
    return Lowered(_PLAIN[operator](left, right), None)


def _floats(column: Column) -> Column:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise TypeError(f"{column.type} cannot be divided")
    return column.cast(pa.float64(), safe=False)


def _integers(operator: str, left: Column, right: Column) -> Lowered:
    """As int64, or uint64 where both are and nothing is subtracted; exact, or known not to fit."""
    both = left.type == right.type == UINT64 and operator != "-"
    type = UINT64 if both else INT64
    try:
        return Lowered(_CHECKED[operator](left.cast(type), right.cast(type)), None)
    except pa.ArrowInvalid:  # some do not fit
        exact = _PLAIN_OBJECTS[operator](_objects(left), _objects(right))
        low, high = (0, 1 << 64) if both else (-(1 << 63), 1 << 63)
        beyond = ((exact < low) | (exact >= high)).astype(np.bool_)
        wrapped = ((exact - low) % (1 << 64) + low).astype(np.uint64 if both else np.int64)
        null = np.zeros(wrapped.size, np.bool_)
        for side in (left, right):
            if isinstance(side, pa.Array) and side.null_count:
                null |= side.is_null().to_numpy(zero_copy_only=False)
        return Lowered(array_of(wrapped, null), beyond & ~null)


def _objects(column: Column) -> Any:
    """As Python's integers, 0 for null."""
    if isinstance(column, pa.Scalar):
        return column.as_py()
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(object)


_PLAIN: dict[str, Callable[..., Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN_OBJECTS: dict[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
