"""Column values as users' windows see them: Python objects or, for compiled windows, numbers with a valid flag."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.columns.bits import as_numpy, present
from slicing.columns.types import decoded
from slicing.system.arrays import Array

Values = Array  # objects, or records of a dtype in NUMBERS

NUMBERS = {form: np.dtype([("value", form), ("valid", np.bool_)]) for form in ("f8", "i8", "?")}


def number_form(type: pa.DataType) -> str | None:
    """The form in which a compiled window sees a column of this type: 'f8', 'i8' or '?'. None: it cannot see the
    column."""
    type = decoded(type)
    if pa.types.is_floating(type):
        return "f8"
    if pa.types.is_boolean(type):
        return "?"
    return "i8" if pa.types.is_integer(type) and type != pa.uint64() else None


def values_of(column: pa.Array, form: str | None) -> Values:
    """A column in this form; None: Python objects."""
    if form is None:
        objects = np.empty(len(column), object)
        objects[:] = column.to_pylist()
        return objects
    column = column.cast(decoded(column.type))
    out = np.empty(len(column), NUMBERS[form])
    out["valid"] = present(column)
    out["value"] = as_numpy(column.fill_null(pa.scalar(0).cast(column.type)) if column.null_count else column)
    return out


def as_arrow(values: Values, type: pa.DataType) -> pa.Array:
    if values.dtype == object:
        return pa.array(values, decoded(type))
    return pa.array(values["value"], mask=~values["valid"]).cast(decoded(type))


def in_form(values: Values, form: str | None, type: pa.DataType) -> Values:
    """Row values in ``form`` (None: Python objects), converted if they have another form."""
    wanted = np.dtype(object) if form is None else NUMBERS[form]
    return values if values.dtype == wanted else values_of(as_arrow(values, type), form)
