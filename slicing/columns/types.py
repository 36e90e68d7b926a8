"""Types of columns: what they are, and those in which columns are kept, compared and given back."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def storable(type: pa.DataType) -> pa.DataType:
    """The type in which a column is kept: Arrow has few kernels for views and run-end encoded columns."""
    if pa.types.is_run_end_encoded(type):
        return storable(type.value_type)
    if pa.types.is_nested(type):
        return result_type(type)
    if pa.types.is_string_view(type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(type) else type


def result_type(type: pa.DataType) -> pa.DataType:
    """The type in results: ``string`` or ``binary`` for views, as pyarrow cannot filter, sort, join or write views; the
    type of the values for run-end-encoded columns."""
    if pa.types.is_run_end_encoded(type):
        return result_type(type.value_type)
    if pa.types.is_dictionary(type):
        return pa.dictionary(type.index_type, result_type(type.value_type), type.ordered)
    if pa.types.is_nested(type):
        return with_parts(type, lambda part: result_type(decoded(part)))  # Arrow cannot join or take others there
    if pa.types.is_string_view(type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(type) else type


def is_plain(type: pa.DataType) -> bool:
    """Whether a column of this type is kept without a change."""
    return storable(decoded(type)) == decoded(type)


def is_view(type: pa.DataType) -> bool:
    """Whether it is text or binary as views: 16 bytes a value, which have a short text or say where a long one is."""
    return bool(pa.types.is_string_view(type) or pa.types.is_binary_view(type))


def has_offsets(type: pa.DataType) -> bool:
    """Whether it is text or binary whose values lie one after the other, delimited by offsets."""
    t = pa.types
    return bool(t.is_string(type) or t.is_large_string(type) or t.is_binary(type) or t.is_large_binary(type))


def is_text(type: pa.DataType) -> bool:
    """Whether it is text of any width."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def is_binary(type: pa.DataType) -> bool:
    """Whether it is binary of any width that is not fixed."""
    return bool(pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type))


def compared(type: pa.DataType) -> pa.DataType:
    """The type in which key values are compared: text and binary of any width are one type, dictionaries are
    decoded."""
    value = decoded(type)
    return pa.string() if is_text(value) else pa.binary() if is_binary(value) else value


def decoded(type: pa.DataType) -> pa.DataType:
    """The value type of a dictionary type; any other type unchanged."""
    return type.value_type if pa.types.is_dictionary(type) else type


def with_parts(type: pa.DataType, part: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A struct or list type with other types of its parts; any other type unchanged."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(part(field.type))

    if pa.types.is_struct(type):
        return pa.struct([changed(field) for field in type])
    if pa.types.is_large_list(type):
        return pa.large_list(changed(type.value_field))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(changed(type.value_field), type.list_size)
    return pa.list_(changed(type.value_field)) if pa.types.is_list(type) else type


def storage_advice(type: pa.DataType) -> str:
    """What to do with a column of an extension type, such as UUIDs, of decimals of 256 bits, or of runs."""
    if pa.types.is_run_end_encoded(type):
        return "; decode it with pyarrow.compute.run_end_decode"
    if pa.types.is_decimal256(type):
        return f"; cast it to decimal128({min(type.precision, 38)}, {type.scale})"
    if not isinstance(type, pa.BaseExtensionType):
        return ""
    return f"; its values are stored as {type.storage_type}: cast the column to that, or to text"


def is_short_decimal(type: pa.DataType) -> bool:
    """Whether it is a decimal of 32 or 64 bits, which pyarrow has from version 19 on."""
    return pa.types.is_decimal(type) and type.bit_width < 128
