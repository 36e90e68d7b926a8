"""Spark's types as Arrow types, and back.

Timestamps with a zone are kept in UTC, whatever the zone of the session, so that state does not depend on it.
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
_BY_BYTES = "UTF8_BINARY"  # the collation of plain text
_SIGNED = {  # as Spark's own readers widen them
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
    pa.float16(): pa.float32(),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns as workers hold them, without columns that Arrow has no type for."""
    fields = []
    for field in schema.fields:
        try:
            type = _arrow_type(field.dataType)
        except Exception:  # PySpark raises several kinds; an unread column may still be there
            continue
        fields.append(pa.field(field.name, type))
    return pa.schema(fields)


def _arrow_type(type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type. PySpark 4.0 always has timestamps in UTC and takes no zone."""
    return to_arrow_type(type, **_ZONE)


def _spark_type(type: pa.DataType) -> DataType:
    """The Spark type of an Arrow type. Without the argument, PySpark 4.0 gives a zone to timestamps without one."""
    return from_arrow_type(type, prefer_timestamp_ntz=True)


def check_types(schema: StructType, names: Iterable[str]) -> None:
    """Raise for columns that cannot be read, or that Spark compares differently."""
    known = arrow_schema(schema).names
    for field in schema.fields:
        if field.name not in names:
            continue
        type = field.dataType.simpleString()
        if field.name not in known:
            raise TypeError(
                f"column {field.name!r} has type {type}, which cannot be sent to Python's workers; cast it, such as to "
                "string"
            )
        if getattr(field.dataType, "collation", _BY_BYTES) != _BY_BYTES:
            raise TypeError(
                f"column {field.name!r} has type {type}, and text is compared by its bytes here; cast it to string, or "
                "lower() it first"
            )


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of a DataFrame; all may be null."""
    return StructType([StructField(f.name, _spark_type(f.type), True) for f in schema])


def given_schema(schema: pa.Schema) -> tuple[pa.Schema, dict[str, str]]:
    """The columns of files in the types that Spark reads, and the types of the others, which Spark has no type for."""
    fields = []
    for field in schema:
        with suppress(PySparkTypeError):
            fields.append(StructField(field.name, _spark_type(_plain(field.type)), True))
    known = arrow_schema(StructType(fields))
    return known, {field.name: str(field.type) for field in schema if field.name not in known.names}


def _plain(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return _plain(type.value_type)
    if pa.types.is_string_view(type):
        return pa.string()
    return _SIGNED.get(type, pa.binary() if pa.types.is_binary_view(type) else type)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the types and names of the schema; its columns are in the order of the schema."""
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


def type_of(value: object) -> str:
    return f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}"


def check_session(spark: object) -> None:
    """Raise for what is no session: one of Spark Connect has the same readers."""
    if not hasattr(spark, "readStream"):
        raise TypeError(f"spark must be a SparkSession; got {type_of(spark)}")


def check_path(path: object, argument: str) -> None:
    """Raise for what is no path: workers need it as text."""
    if not isinstance(path, str) or not path:
        raise ValueError(f"{argument} must be a path or URI that all executors reach, as text; got {path!r}")
