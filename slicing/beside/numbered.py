"""Texts that aggregates only pick from rows, as numbers: the engine computes with numbers, and each row's text is taken
once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, Formula
from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import buffer, present
from slicing.columns.casts import plain
from slicing.columns.expressions import Derived, fields_of
from slicing.columns.pools import Placed
from slicing.columns.types import has_offsets, result_type, storable
from slicing.query.spec import Spec

MANY = 1 << 14  # rows from which on it pays
_PICKS = {"first": "column", "last": "column", "argmin": "return_", "argmax": "return_"}


@dataclass(frozen=True)
class Numbered:
    """The texts of a column, and the type in which results have them."""

    pool: Placed
    type: pa.DataType

    def of(self, numbers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """The texts of numbers, null where these are null."""
        places = one_piece(numbers)
        if not len(self.pool):
            return pa.nulls(len(places), self.type)
        null = ~present(places) if places.null_count else None
        return self.pool.take(buffer(places, np.dtype(np.int64)), null).cast(self.type)


def numbered(batches: Sequence[pa.RecordBatch], spec: Spec) -> tuple[list[pa.RecordBatch], dict[str, Numbered]]:
    """The batches with numbers in place of such texts, and the texts by column. Few rows stay as they are."""
    found: dict[str, Numbered] = {}
    names = _only_picked(spec) if sum(map(len, batches)) >= MANY else []
    for name in names:
        type = batches[0].schema.field(name).type
        if not has_offsets(storable(type)):
            continue
        pool = Placed.of(pa.nulls(0, storable(type)))
        columns = list[pa.Array]()
        for batch in batches:
            column = plain(batch.column(name))
            places, pool = pool.with_values(column)
            columns.append(array_of(places, ~present(column) if column.null_count else None))
        batches = [_with(batch, name, column) for batch, column in zip(batches, columns, strict=True)]
        found[name] = Numbered(pool, result_type(type))
    return list(batches), found


def picked_by(agg: Formula) -> str | None:
    """The column from which the aggregate picks its answer. None: it computes it, or compares the values."""
    if not isinstance(agg, Aggregate) or agg.function not in _PICKS:
        return None
    column = getattr(agg, _PICKS[agg.function])
    is_column = isinstance(column, str) and not isinstance(column, Derived)
    return column if is_column and (agg.return_ is None or agg.column != column) else None


def _only_picked(spec: Spec) -> list[str]:
    """The columns that the query reads for nothing but picking their values."""
    picked = dict.fromkeys(name for agg in spec.aggs.values() if (name := picked_by(agg)) is not None)
    others = set(_read_otherwise(spec))
    return [name for name in picked if name not in others]


def _read_otherwise(spec: Spec) -> Iterable[str]:
    """The columns that the query reads for other reasons."""
    yield from spec.columns_beside_aggs()
    for agg in spec.aggs.values():
        picked = picked_by(agg)
        for part in agg.parts():
            if part.flag is not None:
                yield from fields_of(part.flag)
            for name in part.columns():
                if name != picked:
                    yield from fields_of(name)


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, name, column)
