"""The columns of batches that a query reads, with the types of the first batch."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from slicing.columns.casts import cast, plain, without_runs
from slicing.columns.common_type import common_type
from slicing.columns.expressions import CannotCompute, Derived, all_computed
from slicing.columns.types import compared, result_type
from slicing.system.lazy import lazy


class Columns:
    """Finds columns by name, once for all batches of one schema, and computes the columns that are expressions.

    Plans of equal spec and types share one object, in any thread: what it caches is a single value.
    """

    def __init__(
        self,
        types: Mapping[str, pa.DataType],
        derived: Mapping[Derived, str] | None = None,
        decoded: Sequence[str] = (),
    ) -> None:
        """``derived``: the columns that are computed from the others, and where the query uses them. ``decoded``:
        dictionary columns that are read as their values."""
        self._decoded = decoded
        self._derived = derived or {}
        self._types = {name: type for name, type in types.items() if name not in self._derived}
        self._seen: tuple[pa.Schema | None, list[int]] = None, []  # the last schema, and the columns' places in it

    def of(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
        """The batch and its columns. Raises for columns of other types than the first batch had.

        Columns that fit into the first batch's types are cast: nulls without a type, text of another width, narrower
        numbers and times."""
        seen, places = self._seen
        if seen is None or not batch.schema.equals(seen):
            batch = in_known_types(batch, self._types)
            schema = batch.schema
            self.check(schema)
            places = [schema.get_field_index(name) for name in self._types]
            self._seen = schema, places
        columns = dict(zip(self._types, map(batch.column, places), strict=True))
        for name in self._decoded:
            columns[name] = columns[name].dictionary_decode()
        return batch, columns | self._computed(batch) if self._derived else columns

    def _computed(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        wanted = list(self._derived)
        try:
            return dict(zip(wanted, all_computed(batch, wanted), strict=True))
        except CannotCompute as error:
            raise ValueError(f"{self._derived[error.derived]}: {error}") from None

    def check(self, schema: pa.Schema) -> None:
        """Raise for columns of other types than the first batch had."""
        for name, type in self._types.items():
            found = schema.get_all_field_indices(name)
            if len(found) != 1 or schema.field(found[0]).type != type:
                has = f"{len(found)} such columns"
                if len(found) == 1:
                    has = has_instead(schema.field(found[0]).type, type)
                elif not found:
                    has = f"none of that name; its columns are {', '.join(schema.names) or 'none'}"
                raise TypeError(f"column {name!r} was {type} in the first batch; this one has {has}")

    @lazy
    def type_names(self) -> dict[str, str]:
        """The types, in the form that is sent to another process."""
        return {name: str(type) for name, type in self._types.items()}

    @lazy
    def mark(self) -> int:
        """A 32-bit checksum of the types."""
        return zlib.crc32(repr(self.type_names).encode())

    def check_type_names(self, type_names: Mapping[str, str] | None, mark: int) -> None:
        """Raise if another process worked on columns of other types. ``type_names``: its types."""
        if mark == self.mark:
            return
        for name, type in self.type_names.items():
            has = type if type_names is None else type_names.get(name, "no such column")
            if has != type:
                raise TypeError(f"column {name!r} was {type} in the first batch; this one has {has}: cast it")
        columns = ", ".join(f"{name!r} was {type}" for name, type in self.type_names.items())
        raise TypeError(f"columns of this batch have other types than in the first one, where {columns}: cast them")


def in_known_types(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch, with columns in their known types where they fit into these."""
    for place, field in enumerate(batch.schema):
        type = types.get(field.name, field.type)
        if field.type != type and fits_into(field.type, type):
            try:
                batch = batch.set_column(place, field.with_type(type), _as_type(batch.column(place), type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue  # too much text, too many categories, integers beyond 2**53 for floats, times beyond the range
    return batch


def _as_type(column: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), type)
    column = plain(column)
    if pa.types.is_dictionary(type) and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    elif pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(type):
        column = column.dictionary_decode()
    return column.cast(type)


@lru_cache(1024)
def fits_into(type: pa.DataType, known: pa.DataType) -> bool:
    """Whether a column of the type may be read as one of the known type: nulls that have no type of their own, another
    form of text, binary and categories, which each library has in a form of its own, or numbers and times of a
    narrower type or another zone. Numbers are not looked at: some may not fit."""
    if pa.types.is_null(type):
        return True
    if pa.types.is_dictionary(type) and pa.types.is_dictionary(known):
        return type.ordered == known.ordered and compared(type) == compared(known)
    if compared(type) == compared(known) and compared(type) in (pa.string(), pa.binary()):
        return True
    if any(pa.types.is_nested(some) or pa.types.is_dictionary(some) for some in (type, known)):
        return False
    return common_type(known, type) == known


def has_instead(type: pa.DataType, known: pa.DataType) -> str:
    """What errors say of a column that has not the known type."""
    return f"{type}{f', with values that {known} may not hold' if fits_into(type, known) else ''}: cast it"


def column_type(schema: pa.Schema, name: str, data: str = "the data") -> pa.DataType:
    """The type of a column that must exist exactly once. ``data``: what errors call the table."""
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        raise ValueError(not_once(name, schema.names, data))
    return schema.field(found[0]).type


def in_result_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its columns in the types of results; column names must be unique."""
    for name in batch.schema.names:
        column_type(batch.schema, name)
    return with_columns(batch, list(map(in_result_type, batch.columns)))


def with_columns(batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """The batch with the same columns in other types."""
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))


def in_result_type(column: pa.Array) -> pa.Array:
    """The column in the type that it has in results."""
    if pa.types.is_run_end_encoded(column.type):
        column = without_runs(column)
    type = result_type(column.type)
    if column.type != type and pa.types.is_dictionary(type):
        values = column.dictionary.cast(type.value_type)
        return pa.DictionaryArray.from_arrays(column.indices, values, ordered=type.ordered)
    return column if column.type == type else cast(column, type)


NAMELESS = "__index_level_0__"  # pyarrow's name for the index of a pandas frame that has none


def not_once(name: str, names: Sequence[str], data: str = "the data") -> str:
    """The error text for a column that is missing in the data, or occurs several times."""
    found = list(names).count(name)
    said = f"column {name!r} {f'occurs {found} times' if found else 'is missing'} in {data}; "
    own = [known for known in names if known != NAMELESS]
    said += f"its columns are {', '.join(own)}" if own else "it has no columns"
    if not found and len(own) < len(names):
        return f"{said}; if you mean its index, give that a name with frame.rename_axis({name!r})"
    if not found and name == "*":
        return f"{said}; rows are counted by sl.count(), without a column"
    if not found and "," in name and {part.strip() for part in name.split(",")} <= set(names):
        return f"{said}; name each column by itself, as in by=['a', 'b'] or --by a --by b"
    if not found and any(sign in name for sign in "<>=*/+("):
        return f"{said}; expressions are built with sl.col, such as sl.col('value') > 3"
    return said
