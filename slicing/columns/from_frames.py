"""Frames of pandas and Polars as record batches. An error names the column that Arrow cannot take."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns import arrow_io
from slicing.columns.dictionaries import widely_indexed
from slicing.columns.typed import NAMELESS, not_once, with_columns

FAILS = (pa.ArrowException, TypeError, ValueError, OverflowError)  # raised if Arrow has no type for a column


def of_pandas(frame: Any, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The frame with the wanted columns; if none are named, with all columns and the index."""
    try:
        return iter(_wanted(frame, wanted) or _whole(frame))
    except FAILS as error:
        raise _no_column(frame, error, wanted) from None


def _wanted(frame: Any, wanted: Sequence[str]) -> list[pa.RecordBatch] | None:
    """The wanted columns, converted one by one. None if all columns are wanted, or some name is not a string.

    Converting a whole frame costs time for threads and for metadata: two columns of 5,000 rows 0.8 -> 0.1 ms."""
    names, levels = list(frame.columns), frame.index.names
    if not wanted or not all(isinstance(name, str) for name in names):
        return None
    columns = []
    for name in wanted:
        if names.count(name) == 1:
            values = frame[name]
            if not isinstance(values.dtype, np.dtype) and str(values.dtype).startswith("Sparse"):
                raise TypeError("it is sparse")
        elif name in levels and name not in names:
            values = frame.index.get_level_values(name)
        else:
            nameless = levels == [None] and type(frame.index).__name__ == "DatetimeIndex"
            raise ValueError(not_once(name, [*names, NAMELESS] if nameless else names))
        plain = isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufbmM"
        held = values.values if plain else values.array  # what Arrow finds in the end: 15 -> 4 us, texts 24 -> 4
        known = plain or hasattr(held, "__arrow_array__")
        column = pa.array(held if known else values, from_pandas=True)
        columns.append(widely_indexed(column if isinstance(column, pa.Array) else arrow_io.one_piece(column)))
    return [pa.RecordBatch.from_arrays(columns, list(wanted))]


def _whole(frame: Any) -> list[pa.RecordBatch]:
    """The whole frame, on one thread: only Python objects take long, and they share the interpreter (5,000 rows 0.8
    -> 0.3 ms)."""
    name = frame.index.name
    range_too = isinstance(name, str) and name not in frame.columns and type(frame.index).__name__ == "RangeIndex"
    table = pa.Table.from_pandas(frame, preserve_index=True if range_too else None, nthreads=1)
    batches = table.to_batches() or [arrow_io.empty(table.schema)]
    # pandas counts categories in as few bits as the frame needs, and a later frame may need more
    if any(map(pa.types.is_dictionary, table.schema.types)):
        batches = [with_columns(batch, list(map(widely_indexed, batch.columns))) for batch in batches]
    return batches


def of_polars(frame: Any, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The frame with the wanted columns; with all columns if none are named, or one is missing.

    A column of categories costs 14 ns a row, also if nobody reads it. Two columns of nine 92 -> 19 us."""
    polars = sys.modules["polars"]
    if wanted and set(wanted) < set(frame.columns):
        frame = polars.DataFrame([frame.get_column(name) for name in wanted])
    kind = polars.Object  # for this type Polars exports addresses of objects
    try:
        if kind in frame.dtypes:
            raise TypeError("Python objects")
        return iter(list(arrow_io.foreign(frame)))
    except FAILS:
        for name, type in frame.schema.items():
            if type == kind or not _is_taken(frame.select(name).clear()):
                raise TypeError(
                    f"column {name!r} has Polars' type {type}, which Arrow has not; cast it to another one, or leave "
                    f"it out with frame.drop({name!r})"
                ) from None
        raise


def _is_taken(frame: Any) -> bool:
    try:
        pa.table(frame)
    except FAILS:
        return False
    return True


def _no_column(frame: Any, error: Exception, wanted: Sequence[str]) -> Exception:
    """The error for a pandas frame that Arrow cannot convert: which column it is, and what helps."""
    names = list(frame.columns)
    several = next((name for name in wanted or names if names.count(name) > 1), None)
    if several is not None:
        return ValueError(
            f"column {several!r} occurs {names.count(several)} times in the data; give each column a name of its own, "
            "or keep the first ones with frame.loc[:, ~frame.columns.duplicated()]"
        )
    if any(name not in names and name not in frame.index.names for name in wanted):
        return error
    for place, name in enumerate(names):
        if wanted and name not in wanted:
            continue
        try:
            pa.Table.from_pandas(frame.iloc[:, [place]], preserve_index=False)
        except FAILS as own:
            type, out = (
                frame.dtypes.iloc[place],
                "" if wanted else f", or leave it out with frame.drop(columns={name!r})",
            )
            return TypeError(
                f"column {name!r} of the DataFrame has the type {type}, of which Arrow makes no column "
                f"({_first(own)}); {_cure(name, type)}{out}"
            )
    return TypeError(
        f"the index of the DataFrame cannot be made a column ({_first(error)}); leave it out with "
        "frame.reset_index(drop=True)"
    )


def _first(error: Exception) -> str:
    return str(error.args[0] if error.args else error).splitlines()[0].rstrip(".")


def _cure(name: object, type: Any) -> str:
    """How to change the column so that Arrow can take it."""
    if str(type).startswith("Sparse"):
        return f"make it dense with frame[{name!r}].sparse.to_dense()"
    if str(type).startswith("complex"):
        return f"take its parts, such as frame[{name!r}].to_numpy().real"
    return f"give all of its values one type, such as with frame[{name!r}].astype(str)"
