"""Watermarks of single keys (group-wise punctuation): no more rows of a key will come before a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import present, true
from slicing.columns.casts import plain
from slicing.columns.key_marks import KeyMarks
from slicing.columns.keys import KeyTable
from slicing.columns.sources import one_batch
from slicing.columns.taking import taken
from slicing.columns.typed import column_type
from slicing.columns.types import compared
from slicing.columns.wanted import Wanted
from slicing.joins.arrivals import Timed, comparable
from slicing.joins.plan import SidePlan, TwoSides
from slicing.query.watermark import Punctuated
from slicing.system.arrays import MOST, Ints, Mask


def marks_of(plan: TwoSides, side: SidePlan, keys: KeyTable | None, data: object, argument: str) -> tuple[Ints, Ints]:
    """Codes and marks from a user's table of key and time columns. A null time means no more rows of the key."""
    if keys is None or not side.on:
        raise ValueError(f"{argument} marks keys, and on=[] has none; advance the stream's watermark")
    if not side.known:
        raise ValueError(
            f"{argument} came before the first rows of the {side.called}, whose columns are unknown; push them first, "
            "or give schemas="
        )
    batch = one_batch(data, Wanted(argument=argument))
    time = batch.column(batch.schema.names.index(_checked(batch.schema, side, argument)))
    for name, type in zip(side.on, side.keys, strict=True):
        if compared(column_type(batch.schema, name, argument)) != compared(type):
            found = batch.schema.field(name).type
            raise TypeError(f"{argument}: key column {name!r} has type {found}; it must be {type}, as in the rows")
    missing = ~present(time)
    mark = _common(side, side.measure.marks(time.fill_null(_zero(time)) if missing.any() else time))
    mark[missing] = MOST
    return _coded(plan, side, keys, batch, mark)


def marks_in(plan: TwoSides, side: SidePlan, keys: KeyTable | None, arrived: Timed) -> tuple[Ints, Ints] | None:
    """Codes and marks that rows carry (``punctuated(column, by=...)``); None if the policy is another one."""
    policy = side.policy
    if not isinstance(policy, Punctuated) or not policy.by or keys is None:
        return None
    column = arrived.batch.column(policy.column)
    if pa.types.is_boolean(column.type):
        rows = np.flatnonzero(true(column))
        mark = arrived.time[rows]
    else:
        rows = np.flatnonzero(present(column))
        mark = side.measure.marks(column.take(array_of(rows)))
    batch = taken(arrived.batch, rows) if rows.size else arrived.batch.slice(0, 0)
    return _coded(plan, side, keys, batch, _common(side, mark))


def late_by_key(plan: TwoSides, side: SidePlan, keys: KeyTable, marks: KeyMarks, arrived: Timed) -> Mask:
    """Which rows are before the mark of their key."""
    columns, valid = _key_columns(plan, side, arrived.batch)
    code = np.full(arrived.time.size, -1, np.int32)
    rows = np.flatnonzero(valid)
    code[rows] = keys.encode_values([column.take(array_of(rows)) for column in columns])
    limit = marks.of(code)
    own = limit // side.factor + (limit % side.factor != 0)  # a key without a mark has the least number: do not negate
    late: Mask = (limit == MOST) | (arrived.time < own)
    return late


def _coded(plan: TwoSides, side: SidePlan, keys: KeyTable, batch: pa.RecordBatch, mark: Ints) -> tuple[Ints, Ints]:
    """The codes of the keys in ``batch``, each with its mark. Rows with a null key are left out."""
    columns, valid = _key_columns(plan, side, batch)
    rows = np.flatnonzero(valid)
    code = keys.encode_values([column.take(array_of(rows)) for column in columns])
    return code.astype(np.int64), mark[rows]


def _key_columns(plan: TwoSides, side: SidePlan, batch: pa.RecordBatch) -> tuple[list[pa.Array], Mask]:
    """The key columns in their compared types, and which rows have a key."""
    columns = [comparable(plain(batch.column(n)), type) for n, type in zip(side.on, plan.key_types, strict=True)]
    valid = np.ones(batch.num_rows, np.bool_)
    for column in () if plan.common_spec.nulls_equal else columns:
        valid &= present(column)
    return columns, valid


def _checked(schema: pa.Schema, side: SidePlan, argument: str) -> str:
    type = column_type(schema, side.time, argument)
    if type != side.measure.type:
        raise TypeError(
            f"{argument}: time column {side.time!r} has type {type}; it must be {side.measure.type}, as in the rows"
        )
    return side.time


def _zero(column: pa.Array) -> pa.Scalar:
    return pa.scalar(0, pa.int32() if pa.types.is_date32(column.type) else pa.int64()).cast(column.type)


def _common(side: SidePlan, mark: Ints) -> Ints:
    """Marks in ticks of the common time, clipped to 64 bits."""
    factor = side.factor
    return np.clip(mark, -(MOST // factor), MOST // factor) * factor
