"""Results as frames of the library that the data came from."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.casts import without_runs
from slicing.columns.types import with_parts
from slicing.system.arguments import choice

MANY_TEXTS = 1 << 14  # texts of a column from which on Arrow makes those of Polars faster
MANY_ROWS = 1 << 16  # rows of a pandas frame for which threads pay off: starting them takes 0.3 ms
# types that Polars has not, also within lists and structs: it would read other memory behind narrow decimals, end the
# process at wide ones, and take seconds times a thousand without looking whether they fit
_NOT_IN_POLARS = re.compile(r"decimal(32|64|256)|decimal128\(\d+, -|(timestamp|duration)\[s\b")
EXACT = 1 << 53  # larger integers may not be floats
RETURNS = ("arrow", "same", "polars", "pandas")


def check_returns(returns: object, data: object) -> str:
    """The kind of results: "arrow", "polars", "lazy" or "pandas"."""
    kind = choice(returns, "returns", RETURNS)
    if kind != "same":
        return kind
    for module, name, kind in _FRAMES:
        library = sys.modules.get(module)  # a library that was never imported cannot have made the data
        if library is not None and isinstance(data, getattr(library, name)):
            return kind
    return "arrow"


_FRAMES = (("polars", "DataFrame", "polars"), ("polars", "LazyFrame", "lazy"), ("pandas", "DataFrame", "pandas"))


Sources = Mapping[str, Sequence[str]]  # for a column of the result, the columns of given data that it has values of
Origin = tuple[object, Sources]  # given data, and what the result has of it


def takes_views(kind: str) -> bool:
    """Whether results of this kind may have text as views: Polars has them, and pyarrow 18 cannot make them."""
    return kind in ("polars", "lazy") and int(pa.__version__.split(".")[0]) > 18


def given_back(table: pa.Table, kind: str, *origins: Origin) -> Any:
    """A table as the ``kind`` from ``check_returns``. ``origins``: where its columns come from, for types that Arrow
    does not keep."""
    if kind == "arrow":
        return table
    table = _without_runs(table)
    return _pandas(table, origins) if kind == "pandas" else _polars(table, kind, origins)


def _without_runs(table: pa.Table) -> pa.Table:
    """Run-end-encoded columns decoded: Polars has none, and pyarrow 24 reads their types wrongly for pandas."""
    for at, (name, type) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if pa.types.is_run_end_encoded(type):
            table = table.set_column(at, name, without_runs(table.column(at)))
    return table


def names_in(frame: Any) -> list[str]:
    """The names of a frame's columns and, in pandas, of its index."""
    levels = [name for name in frame.index.names if name is not None] if hasattr(frame, "index") else []
    return list(map(str, [*frame.columns, *levels]))


def with_beside(frame: Any, columns: Any) -> Any:
    """A frame of pandas or Polars with further columns, given as such a frame. Its own columns stay as they are."""
    if hasattr(frame, "hstack"):
        return frame.hstack(columns.get_columns())
    found, levels = frame.copy(), frame.columns.nlevels
    for name in columns:
        found[name if levels == 1 else (name, *[""] * (levels - 1))] = columns[name].array
    return found


def _of_sources(origins: Sequence[Origin], types_of: Callable[[object], Mapping[Any, Any]]) -> dict[str, list[Any]]:
    """For a column of the result, the types of its sources. None for a source that ``types_of`` its data lacks."""
    found = defaultdict[str, list[Any]](list)
    for data, sources in origins:
        types = types_of(data)
        for name, columns in sources.items():
            found[name] += map(types.get, columns)
    return found


def _polars(table: pa.Table, kind: str, origins: Sequence[Origin]) -> Any:
    import polars

    if _NOT_IN_POLARS.search(str(table.schema)):
        table = _in_types_of_polars(table)
    table = _with_views(table)
    # one struct, through the C interface: from_arrow hands even ten rows to Polars' threads (134 us at the median of a
    # busy machine, while this takes 80 us); types and chunks are equal
    frame: Any = polars.Series(table).struct.unnest()
    of_texts = (polars.Categorical, polars.String)
    lists = {name for name, type in frame.schema.items() if type in map(polars.List, of_texts)}
    texts = [name for name, type in frame.schema.items() if type in of_texts or name in lists]
    if texts:
        types = _of_sources(origins, _enums)
        enums = {name: _of_all(types[name]) for name in texts if name in types}
        found = {name: enum for name, enum in enums.items() if enum is not None}
        cast = {name: polars.List(enum) if name in lists else enum for name, enum in found.items()}
        frame = frame.cast(cast) if cast else frame  # Polars runs a query for no column, too
    return frame.lazy() if kind == "lazy" else frame


def _with_views(table: pa.Table) -> pa.Table:
    """The table with many texts as Polars keeps them: 864,000 texts 5 -> 1.5 ms, 1 M in lists 10 -> 2.7."""
    for at, column in enumerate(table.columns):
        in_lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        type = column.type.value_type if in_lists else column.type
        size = sum(len(chunk.values) for chunk in column.chunks) if in_lists else len(column)
        if size < MANY_TEXTS or type not in (pa.string(), pa.large_string()):
            continue
        try:
            views = column.cast(with_parts(column.type, lambda _: pa.string_view()) if in_lists else pa.string_view())
        except (pa.ArrowNotImplementedError, pa.ArrowCapacityError):  # older pyarrow; more than 2 GiB in a chunk
            continue
        texts = chain.from_iterable(chunk.buffers()[4 if in_lists else 2 :] for chunk in views.chunks)
        if all(buffer is not None for buffer in texts):  # pyarrow 18 has such buffers, which Polars reads
            table = table.set_column(at, table.column_names[at], views)
    return table


def _enums(data: object) -> dict[str, Any]:
    """The columns of a Polars frame that are Enums, with their types."""
    import polars

    if not isinstance(data, polars.DataFrame | polars.LazyFrame):
        return {}
    return {name: type for name, type in data.collect_schema().items() if isinstance(type, polars.Enum)}


def _of_all(enums: Sequence[Any]) -> Any:
    """The Enum with the categories of all Enums, in the order of each. None if two orders differ, or if one is None."""
    import polars

    if not enums or None in enums:
        return None
    if all(enum == enums[0] for enum in enums):
        return enums[0]
    orders = [enum.categories.to_list() for enum in enums]
    sorter = TopologicalSorter[str]({category: () for order in orders for category in order})
    for before, after in chain.from_iterable(map(pairwise, orders)):
        sorter.add(after, before)
    try:
        return polars.Enum(list(sorter.static_order()))
    except CycleError:
        return None


def _in_types_of_polars(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        type = _of_polars(field.type)
        if type == field.type:
            continue
        try:
            column = table.column(at).cast(type)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"column {field.name!r} of the result has type {field.type}, and not all its values fit {type}, the "
                f"nearest type that Polars has ({error}); use returns='arrow'"
            ) from None
        table = table.set_column(at, field.with_type(type), column)
    return table


def _of_polars(type: pa.DataType) -> pa.DataType:
    """The type that Polars has for it: decimals have 128 bits and no negative scale, and no time counts in seconds."""
    if pa.types.is_decimal(type):
        return pa.decimal128(min(type.precision - min(type.scale, 0), 38), max(type.scale, 0))
    if pa.types.is_timestamp(type) and type.unit == "s":
        return pa.timestamp("ms", type.tz)
    if pa.types.is_duration(type) and type.unit == "s":
        return pa.duration("ms")
    if pa.types.is_dictionary(type):
        of_values = _of_polars(type.value_type)
        return type if of_values == type.value_type else of_values
    if pa.types.is_map(type):
        return pa.map_(_of_polars(type.key_type), _of_polars(type.item_type))
    return with_parts(type, _of_polars)


def _pandas(table: pa.Table, origins: Sequence[Origin]) -> Any:
    import pandas

    try:
        frame = _with_texts_as_names(table).to_pandas(use_threads=table.num_rows >= MANY_ROWS)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise _not_in_pandas(table, error) from None
    types = _of_sources(origins, _own_types)
    for at, (name, type) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        known = [dtype for dtype in types.get(name, ()) if dtype is not None]
        if pa.types.is_nested(type) and name in frame and any(map(_loses_digits, table.column(at).chunks)):
            frame[name] = pandas.Series(list(map(_in_arrays, table.column(at).to_pylist())), frame.index, object)
            continue
        if not known and not pa.types.is_integer(type):
            continue
        column = table.column(at)
        if pa.types.is_dictionary(type) and isinstance(known[0], pandas.CategoricalDtype) and len({*known}) == 1:
            frame[name] = frame[name].astype(known[0])  # in their order, also those that no window has
            continue
        dtype = next((dtype for dtype in known if _is_nullable(dtype, type)), None)
        if dtype is None and column.null_count and _needs_digits(column):
            dtype = pandas.api.types.pandas_dtype("Int64" if pa.types.is_signed_integer(type) else "UInt64")
        if dtype is not None and name in frame and frame[name].dtype != dtype:  # otherwise it is the index
            frame[name] = column.to_pandas(types_mapper={type: dtype}.get).array
    return frame


def _not_in_pandas(table: pa.Table, error: Exception) -> Exception:
    """The error for a column that pandas cannot have."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.to_pandas()
        except (pa.ArrowException, ValueError, OverflowError) as reason:
            return ValueError(
                f"column {name!r} of the result has type {column.type}, and pandas cannot have its values ({reason}); "
                "use returns='arrow' or 'polars'"
            )
    return error


def _own_types(data: object) -> dict[object, Any]:
    """The columns of a pandas frame that have types of pandas' own, with these types."""
    import pandas

    if not isinstance(data, pandas.DataFrame):
        return {}
    types = data.dtypes.to_numpy()
    if all([isinstance(dtype, np.dtype) for dtype in types]) or not data.columns.is_unique:
        return {}
    return {name: dtype for name, dtype in zip(data.columns, types, strict=True) if not isinstance(dtype, np.dtype)}


def _with_texts_as_names(table: pa.Table) -> pa.Table:
    """The table without the note that its names were numbers, times or tuples: names of aggregates are none."""
    known = _of_pandas(table.schema)
    if all(index.get("pandas_type") == "unicode" for index in known.get("column_indexes", ())):
        return table
    return table.replace_schema_metadata({b"pandas": json.dumps(known | {"column_indexes": []}).encode()})


def _is_nullable(dtype: Any, type: pa.DataType) -> bool:
    """Whether it is one of pandas' types with nulls of their own that has the values of this type of Arrow."""
    import pandas

    if isinstance(dtype, pandas.ArrowDtype):
        return bool(dtype.pyarrow_dtype == type)
    if not pandas.api.types.is_extension_array_dtype(dtype) or not hasattr(dtype, "__from_arrow__"):
        return False
    return bool(dtype.kind in "iufb" and pandas.ArrowDtype(type).numpy_dtype == getattr(dtype, "numpy_dtype", None))


def _needs_digits(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether it has integers that are no floats, which pandas makes of integers with nulls."""
    if not pa.types.is_integer(column.type):
        return False
    ends = pc.min_max(column).as_py()
    return max(abs(ends["min"] or 0), abs(ends["max"] or 0)) > EXACT


def _loses_digits(column: pa.Array) -> bool:
    """Whether pandas would make floats of integers within lists and structs that are no floats."""
    if pa.types.is_struct(column.type):
        return any(map(_loses_digits, column.flatten()))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return _loses_digits(column.flatten())
    return bool(column.null_count) and _needs_digits(column)


def _in_arrays(value: Any) -> Any:
    """A value of a list or struct as pandas has it: lists are arrays, here of Python's own values and None, times among
    them as timestamps."""
    if isinstance(value, dict):
        return {name: _in_arrays(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    array = np.empty(len(value), object)
    for at, part in enumerate(value):  # all at once, parts of one length would make a table
        array[at] = _in_arrays(part)
    return array


def with_index(table: pa.Table, given: pa.Schema) -> pa.Table:
    """A table with pandas metadata: which of its columns were the index of the frame with schema ``given``."""
    known = _of_pandas(given)
    known["index_columns"] = [name for name in known.get("index_columns", ()) if name in table.column_names]
    if not known["index_columns"]:
        return table
    known["columns"] = [about for about in known["columns"] if about["field_name"] in known["index_columns"]]
    return table.replace_schema_metadata({b"pandas": json.dumps(known).encode()})


def _of_pandas(schema: pa.Schema) -> dict[str, Any]:
    """What pandas wrote about the frame that a table was made of."""
    known: dict[str, Any] = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return known


def without_index(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without the columns of an unnamed pandas index."""
    known = _of_pandas(batch.schema)
    unnamed = [about["field_name"] for about in known.get("columns", ()) if about["name"] is None]
    return batch.select([name for name in batch.schema.names if name not in unnamed]) if unnamed else batch
