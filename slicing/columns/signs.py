"""The column of a changelog that says whether a row is added or retracted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_out import array_of, texts
from slicing.columns.casts import plain
from slicing.columns.types import decoded, is_text

ADDS = ("+", "+I", "+U")
TAKES = ("-", "-U", "-D")
_SIGN = array_of(np.array([1] * len(ADDS) + [-1] * len(TAKES)))
_ALLOWED = "'+', '+I', '+U' or 1 (adds the row), '-', '-U', '-D' or -1 (takes one back)"


def check_signs(type: pa.DataType, name: str) -> None:
    """Raise if a column of this type cannot hold signs."""
    kind = decoded(type)
    if not (pa.types.is_signed_integer(kind) or is_text(kind)):
        raise TypeError(f"op column {name!r} has type {type}; it must hold {_ALLOWED}")


def signs(column: pa.Array, name: str) -> pa.Array:
    """1 for a row that is added, -1 for a row that retracts another. Raises for any other value."""
    column = plain(column)
    if not pa.types.is_integer(decoded(column.type)):
        known = texts([*ADDS, *TAKES]).cast(decoded(column.type))
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        found = _SIGN.take(pc.index_in(column.dictionary, known)).take(column.indices)
    else:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        wide = column.cast(pa.int64(), safe=False)
        found = pc.if_else(pc.equal(pc.abs(wide), 1), wide, pa.scalar(None, pa.int64()))
    if found.null_count:
        row = pc.index(found.is_null(), True).as_py()
        raise ValueError(f"op column {name!r} holds {column[row].as_py()!r}; allowed are {_ALLOWED}")
    return found
