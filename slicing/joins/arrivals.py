"""One batch of one side, judged and encoded: rows in time with their codes, late rows, rows without a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy, present
from slicing.columns.casts import plain
from slicing.columns.expressions import Derived
from slicing.columns.keys import KeyTable
from slicing.columns.names import free
from slicing.columns.order import is_sorted
from slicing.columns.taking import taken
from slicing.columns.types import decoded, is_binary, is_text
from slicing.columns.values import NOWHERE, ordering
from slicing.joins.plan import JoinPlan, SidePlan, TwoSides
from slicing.joins.within import RIGHT
from slicing.query.progress import Seen
from slicing.system.arrays import LEAST, MOST, Codes, Ints, Mask
from slicing.system.replace import but
from slicing.times.measure import Measure


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one batch that are in time, in order of arrival. Rows with a null key are stored separately."""

    time: Ints
    code: Codes
    name: Ints
    sequence: Ints | None
    keyless: Ints  # names of rows that can have no partner
    keyless_time: Ints

    def __len__(self) -> int:
        return self.time.size

    @property
    def nbytes(self) -> int:
        held = (self.time, self.code, self.name, self.sequence, self.keyless, self.keyless_time)
        return sum(one.nbytes for one in held if one is not None)

    @property
    def ascending(self) -> bool:
        return is_sorted(self.time)

    @property
    def start(self) -> int | None:
        """The name of the first row if the names are consecutive numbers; otherwise None."""
        name = self.name
        return int(name[0]) if name.size and int(name[-1] - name[0]) == name.size - 1 else None

    def part(self, first: int, last: int) -> Rows:
        """The rows from ``first`` to ``last``. Rows with a null key belong to the part that begins at 0."""
        sequence = None if self.sequence is None else self.sequence[first:last]
        rows = but(
            self, time=self.time[first:last], code=self.code[first:last], name=self.name[first:last], sequence=sequence
        )
        return rows if not first else but(rows, keyless=NOWHERE, keyless_time=NOWHERE)

    def names(self) -> Ints:
        return np.concatenate([self.name, self.keyless]) if self.keyless.size else self.name

    def renamed(self, names: Ints) -> Rows:
        """These rows with ``names`` as their names."""
        return but(self, name=names[: self.name.size], keyless=names[self.name.size :])


@dataclass(frozen=True, eq=False)
class Timed:
    """A batch with the times of its rows, in ticks of its own column."""

    batch: pa.RecordBatch  # only rows that have a time
    given: pa.RecordBatch
    time: Ints
    null_time: Ints  # positions in ``given``

    def seen(self, measure: Measure) -> Seen:
        """What the watermark policy observes of this batch; the batch must have at least one row with a time."""
        columns = dict(zip(self.batch.schema.names, self.batch.columns, strict=True))
        return Seen.of(self.time, columns, measure, self.null_time)


def timed(plan: TwoSides, side: SidePlan, given: pa.RecordBatch) -> Timed:
    """The rows that have a time. Raises if columns differ from the first batch's, or at a null time unless allowed."""
    given, _ = side.columns.of(given)
    if given.schema.names != side.schema.names:
        given = given.select(side.schema.names)
    column, missing, batch = given.column(side.time), NOWHERE, given
    if column.null_count:
        valid = present(column)
        missing = np.flatnonzero(~valid)
        if plan.common_spec.on_null_time == "error":
            raise ValueError(
                f"time column {side.time!r} of the {side.called} is null in row {missing[0]} of the batch; "
                "fill or drop nulls, or use on_null_time='late' to have such rows among the late ones"
            )
        batch = taken(given, np.flatnonzero(valid))
        column = batch.column(side.time)
    side.measure.check(column, f"time column {side.time!r}")
    return Timed(batch, given, side.measure.words(column), missing)


def judged(side: SidePlan, arrived: Timed, mark: int | None) -> tuple[Timed, Ints]:
    """The rows in time, and the positions of late rows (among rows with a time): rows before ``mark``."""
    if mark is None or not arrived.time.size:
        return arrived, NOWHERE
    own = -(-mark // side.factor)  # a time in this side's own ticks is before the mark if it is before this tick
    if own > MOST:
        late = np.arange(arrived.time.size)
    elif int(arrived.time.min()) >= own:
        return arrived, NOWHERE
    else:
        late = np.flatnonzero(arrived.time < own)
    return _without(arrived, late), late


def parted(arrived: Timed, by_key: Mask, late: Ints) -> tuple[Timed, Ints]:
    """The rows in time and the positions of late rows; ``by_key``: which rows are late by the marks of their keys."""
    late = np.union1d(np.flatnonzero(by_key), late)
    return (_without(arrived, late), late) if late.size else (arrived, NOWHERE)


def _without(arrived: Timed, late: Ints) -> Timed:
    kept = np.delete(np.arange(arrived.time.size), late)
    return but(arrived, batch=taken(arrived.batch, kept), time=arrived.time.take(kept))


def common_times(side: SidePlan, time: Ints) -> Ints:
    """Times in ticks of the common time. Raises if a time does not fit."""
    if side.factor == 1 or not time.size:
        return time
    for word in (int(time.min()), int(time.max())):
        if not LEAST <= word * side.factor <= MOST:
            raise ValueError(
                f"time column {side.time!r} ({side.measure.type}) holds {side.measure.value(word)}, which does not fit "
                "the finer unit of the other side's time column; cast that one to a coarser unit"
            )
    return time * side.factor


def encoded(plan: TwoSides, side: SidePlan, keys: KeyTable | None, arrived: Timed, first: int, threads: int) -> Rows:
    """The rows in time, named from ``first`` on. Their keys are added to the key table."""
    time = common_times(side, arrived.time)
    plan.check_times(time, side)
    name = np.arange(first, first + time.size)
    sequence = _sequence(plan, side, arrived)
    keyless = keyless_time = NOWHERE
    columns = [comparable(arrived.batch.column(n), type) for n, type in zip(side.on, plan.key_types, strict=True)]
    if keys is not None and not plan.common_spec.nulls_equal and any(column.null_count for column in columns):
        valid = np.logical_and.reduce(list(map(present, columns)))
        rows, others = np.flatnonzero(valid), np.flatnonzero(~valid)
        keyless, keyless_time = name[others], time[others]
        name, time = name[rows], time[rows]
        sequence = None if sequence is None else sequence[rows]
        columns = [column.take(array_of(rows)) for column in columns]
    code = np.zeros(time.size, np.int32) if keys is None else keys.encode_values(columns, threads)
    time.setflags(write=False)
    return Rows(time, code, name, sequence, keyless, keyless_time)


def comparable(column: pa.Array, type: pa.DataType) -> pa.Array:
    """A key column in the type in which both sides are compared. Text stays as it is: the key table reads any form."""
    column = plain(column)
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.cast(column.type.value_type)
    found = decoded(column.type)
    if found == type or is_text(found) or is_binary(found):
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(type))
    return column.cast(type)


def _sequence(plan: TwoSides, side: SidePlan, arrived: Timed) -> Ints | None:
    """Integers that order right rows of equal time, null first; None if no ``sequence`` is asked for."""
    if plan.sequence is None or side.side != RIGHT or not side.known:
        return None
    column = arrived.batch.column(plan.sequence)
    return ordering(column, plan.sequence)


def unfit(plan: TwoSides, side: int, first: int, batch: pa.RecordBatch) -> Ints:
    """Names of right rows that fail a ``where`` of right columns only; the names of the batch begin at ``first``."""
    if not plan.tests_right or side != RIGHT:
        return NOWHERE
    assert isinstance(plan, JoinPlan) and plan.spec.where is not None
    where = plan.spec.where
    columns = {s.name: plain(batch.column(s.right)).cast(s.type) for s in plan.where_sources}
    return first + np.delete(np.arange(batch.num_rows), passed(columns, where, batch.num_rows))


def passed(columns: Mapping[str, pa.Array], where: Derived, count: int) -> Ints:
    """Positions of the rows for which an expression of their columns is true."""
    row = free("row", columns)
    table = pa.table({**columns, row: array_of(np.arange(count))})
    rows: Ints = as_numpy(table.filter(where.computing(table.schema))[row])
    return rows
