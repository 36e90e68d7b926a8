"""What a query reads of its data: columns, and rows between two times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns import arrow_io
from slicing.columns.bits import as_numpy
from slicing.columns.taking import taken
from slicing.columns.typed import not_once

Bounds = tuple[pa.Scalar | None, pa.Scalar | None]


@dataclass(frozen=True)
class Wanted:
    """What a query reads of its data."""

    columns: tuple[str, ...] = ()  # none: all columns
    time: str = ""
    between: Callable[[pa.DataType], Bounds] | None = (
        None  # gives the bounds of wanted times, [from, before), in the type of the time column
    )
    threads: int = 1
    argument: str = "data"  # the argument with the data, as errors name it

    def check(self, names: Sequence[str]) -> None:
        """Raise if a column is missing in the data, or occurs twice."""
        if set(self.columns) <= set(names) and len(set(names)) == len(names):
            return
        for column in self.columns:
            if names.count(column) != 1:
                raise ValueError(not_once(column, names, f"the {self.argument}"))

    def bounds(self, schema: pa.Schema) -> Bounds:
        if self.between is None:
            return None, None
        return self.between(schema.field(self.time).type)


ALL = Wanted()


def within(found: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of batches that lie between the two wanted times."""
    if wanted.between is None:
        yield from found
        return
    for batch in found:
        wanted.check(batch.schema.names)
        low, high = wanted.bounds(batch.schema)
        time = batch.column(wanted.time)
        inside = np.ones(len(batch), np.bool_)
        for bound, compare in ((low, pc.greater_equal), (high, pc.less)):
            if bound is not None:
                inside &= as_numpy(compare(time, bound).fill_null(False))
        if inside.all():
            yield batch
            continue
        rows = np.flatnonzero(inside)
        together = rows.size and int(rows[-1] - rows[0]) == rows.size - 1
        yield batch.slice(int(rows[0]), rows.size) if together else taken(batch, rows)


def or_empty(found: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    seen = False
    for batch in found:
        seen = True
        yield batch
    if not seen:
        yield arrow_io.empty(schema)
