"""Spark's types as Arrow's, and back.

Timestamps with a zone are kept in UTC, whatever the session's zone is, so that state outlives a change of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

UTC = "UTC"
_ZONE: dict[str, Any] = {"timezone": UTC} if "timezone" in signature(to_arrow_type).parameters else {}
_BY_BYTES = "UTF8_BINARY"  # the collation of text that has none
_SIGNED = {  # as Spark's own readers widen them
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
    pa.float16(): pa.float32(),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns as workers hold them; columns that Arrow has no type for are left out."""
    fields = []
    for field in schema.fields:
        try:
            type = _arrow_type(field.dataType)
        except Exception:  # PySpark raises several kinds; such a column can still travel along unread
            continue
        fields.append(pa.field(field.name, type))
    return pa.schema(fields)


def _arrow_type(type: DataType) -> pa.DataType:
    """PySpark 4.0 has timestamps in UTC and takes no zone."""
    return to_arrow_type(type, **_ZONE)


def _spark_type(type: pa.DataType) -> DataType:
    """PySpark 4.0 takes timestamps without a zone for some with one unless it is told."""
    return from_arrow_type(type, prefer_timestamp_ntz=True)


def check_types(schema: StructType, names: Iterable[str]) -> None:
    """Refuse columns that are there and cannot be read, or not as Spark reads them."""
    known = arrow_schema(schema).names
    for field in schema.fields:
        if field.name not in names:
            continue
        type = field.dataType.simpleString()
        if field.name not in known:
            raise TypeError(f"column {field.name!r} has type {type}, which cannot be sent to Python's workers")
        if getattr(field.dataType, "collation", _BY_BYTES) != _BY_BYTES:
            raise TypeError(
                f"column {field.name!r} has type {type}, and text is compared by its bytes here; cast it to string, or "
                "lower() it first"
            )


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns as a DataFrame has them; everything may be null."""
    return StructType([StructField(f.name, _spark_type(f.type), True) for f in schema])


def given_schema(schema: pa.Schema) -> pa.Schema:
    """Files' columns in the types that Spark reads them as; those that it has no type for are left out."""
    fields = []
    for field in schema:
        with suppress(PySparkTypeError):
            fields.append(StructField(field.name, _spark_type(_plain(field.type)), True))
    return arrow_schema(StructType(fields))


def _plain(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return _plain(type.value_type)
    if pa.types.is_string_view(type):
        return pa.string()
    return _SIGNED.get(type, pa.binary() if pa.types.is_binary_view(type) else type)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch's columns in the types, and under the names, of the schema; they are in its order."""
    columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {field.name!r} has type {column.type} and does not fit {field.type}: {error}"
        ) from None
