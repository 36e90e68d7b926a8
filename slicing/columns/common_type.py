"""A type that holds the values of two types."""

from __future__ import annotations

import pyarrow as pa

from slicing.columns.values import decoded, is_text


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """A type to which Arrow casts values of both types without a change, or with an error. None: there is no such type.

    Arrow itself would also cast text to bytes and decimals to rounded numbers, and gives integers too few digits.
    """
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if pa.types.is_dictionary(a) != pa.types.is_dictionary(b):
        a, b = decoded(a), decoded(b)
    if a == b:
        return a
    if is_text(decoded(a)) != is_text(decoded(b)) or pa.types.is_decimal(a) != pa.types.is_decimal(b):
        return None
    try:
        both = [pa.schema([("", type)]) for type in (a, b)]
        return pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return a if pa.types.is_nested(a) and pa.types.is_nested(b) else None  # names of fields may differ
