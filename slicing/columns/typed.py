"""The columns of batches that a query reads, of the types that the first one had."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


class Columns:
    """Finds them by name, once for all batches of one schema."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = types
        self._seen: pa.Schema | None = None
        self._places: list[int] = []  # in that schema

    def of(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """The batch, and those of it; refuses other types. One of type null, as a column is of which some library has
        seen no value, has nulls of its type."""
        if self._seen is None or not batch.schema.equals(self._seen):
            batch = self._with_nulls(batch)
            schema = batch.schema
            self.check(schema)
            self._seen, self._places = schema, [schema.get_field_index(name) for name in self._types]
        return batch, dict(zip(self._types, map(batch.column, self._places), strict=True))

    def _with_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for place, field in enumerate(batch.schema):
            if pa.types.is_null(field.type) and field.name in self._types:
                type = self._types[field.name]
                batch = batch.set_column(place, field.with_type(type), pa.nulls(batch.num_rows, type))
        return batch

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns of other types than the first batch had."""
        for name, type in self._types.items():
            found = schema.get_all_field_indices(name)
            if len(found) != 1 or schema.field(found[0]).type != type:
                has = f"{schema.field(found[0]).type}: cast it" if len(found) == 1 else f"{len(found)} such columns"
                raise TypeError(f"column {name!r} was {type} in the first batch; this one has {has}")


def column_type(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column that is there once."""
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        trouble = "is missing" if not found else f"occurs {len(found)} times"
        raise ValueError(f"column {name!r} {trouble} in the data; its columns are {', '.join(schema.names)}")
    return schema.field(found[0]).type
