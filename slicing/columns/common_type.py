"""A type that holds the values of two types."""

from __future__ import annotations

import pyarrow as pa

from slicing.columns.types import decoded, is_text, result_type


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """A type to which Arrow casts values of both types without a change, or with an error. None: there is no such type.

    Arrow itself would also cast text to bytes and decimals to rounded numbers, and gives integers too few digits.
    """
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if pa.types.is_nested(a) or pa.types.is_nested(b):
        return _of_parts(a, b)
    if a == b:
        return a
    a, b = result_type(a), result_type(b)
    if not (pa.types.is_dictionary(a) and pa.types.is_dictionary(b) and a.ordered == b.ordered):
        a, b = decoded(a), decoded(b)
    if is_text(decoded(a)) != is_text(decoded(b)) or pa.types.is_decimal(a) != pa.types.is_decimal(b):
        return None
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b) and None not in (a.tz, b.tz):
        b = pa.timestamp(b.unit, a.tz)  # the same instants
    try:
        both = [pa.schema([("", type)]) for type in (a, b)]
        return pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _of_parts(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The common type of two nested types of one kind, whose fields have the same names (those of lists need not)."""
    if a.id != b.id or a.num_fields != b.num_fields:
        return None
    fields = [(a.field(at), b.field(at)) for at in range(a.num_fields)]
    if pa.types.is_struct(a) and any(one.name != other.name for one, other in fields):
        return None
    types = [common_type(one.type, other.type) for one, other in fields]
    if None in types or (pa.types.is_fixed_size_list(a) and a.list_size != b.list_size):
        return None
    if types == [one.type for one, _ in fields]:
        return a
    parts = [one.with_type(type) for (one, _), type in zip(fields, types, strict=True)]
    if pa.types.is_struct(a):
        return pa.struct(parts)
    if pa.types.is_large_list(a):
        return pa.large_list(parts[0])
    if pa.types.is_fixed_size_list(a):
        return pa.list_(parts[0], a.list_size)
    return pa.list_(parts[0]) if pa.types.is_list(a) else None
