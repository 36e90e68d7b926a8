"""What the charts share."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_io import one_piece
from slicing.columns.taking import taken
from slicing.times.measure import Measure

Chart = Any
MOST_MARKS = 2000  # marks that can still be told apart
WIDTH = 760
COLORS = ["#2563eb", "#15803d", "#b45309", "#9333ea", "#be123c", "#0e7490", "#4d7c0f", "#a16207"]


def altair() -> Any:
    try:
        return import_module("altair")
    except ImportError:
        raise ImportError("sl.plot needs Altair, which is not installed: pip install 'stream-slicing[plot]'") from None


def timed(table: pa.Table, measure: Measure, names: Sequence[str]) -> pa.Table:
    """Ticks as times on the column's own clock, as charts show them: without a zone, in microseconds."""
    for name in names:
        at = table.column_names.index(name)
        if not measure.is_integer:
            column = measure.array(table[name].to_numpy())
            table = table.set_column(at, name, _wall(column))
    return table


def ticks_of(column: pa.Array | pa.ChunkedArray, missing: Any = 0) -> Any:
    """Times as ticks; a null (the start of a landmark window) becomes ``missing``."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    ticks = Measure.of(whole.type, "time").words(whole)
    return np.where(whole.is_null().to_numpy(zero_copy_only=False), missing, ticks) if whole.null_count else ticks


def _wall(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    return column.cast(pa.timestamp("us"), safe=False)


def rows_at(table: pa.Table, at: Any) -> pa.Table:
    """Some rows of a small table with any kinds of columns."""
    whole = pa.RecordBatch.from_arrays([one_piece(column) for column in table.columns], schema=table.schema)
    return pa.Table.from_batches([taken(whole, at)])


def joined(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The values of some columns as one text for each row."""
    if not names:
        return [""] * table.num_rows
    columns = [texts(table[name]) for name in names]
    return [" · ".join(row) for row in zip(*columns, strict=True)]


def texts(column: pa.ChunkedArray) -> list[str]:
    return [f"{v:.4g}" if isinstance(v, float) else "null" if v is None else str(v) for v in column.to_pylist()]
