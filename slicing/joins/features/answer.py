"""Labels and the events that each of them reaches into columns of aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.closing.over_rows import Known, over_rows
from slicing.columns.arrow_out import array_of
from slicing.columns.order import order_by
from slicing.columns.values import ranks
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.ranges import Span
from slicing.joins.sides import Gone, Run, Side
from slicing.kernels.band import count_partners
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def answered(plan: FeaturePlan, labels: Gone, events: Side) -> list[pa.Array]:
    """The aggregates of labels that are sorted by (code, time), range by range, in their order."""
    if plan.aggs is None:
        return [pa.nulls(labels.time.size) for _ in plan.spec.names()]
    table = _Reached.of(plan, labels, events)
    columns: list[pa.Array] = []
    for span, name in zip(plan.within.spans, plan.spec.ranges, strict=True):
        columns += _in_range(plan, plan.aggs, table, labels, span, name)
    return columns


def in_reach(span: Span, labels: Gone | Run, run: Run) -> tuple[Ints, Ints]:
    """Where in a run the events of each label are: the first, and how many."""
    low, high, back, forth = span.reach(labels.time)
    first, count = np.empty(low.size, np.int64), np.empty(low.size, np.int64)
    every = np.arange(low.size)
    count_partners(labels.code, low, high, np.int64(back), np.int64(forth), every, run.code, run.time, first, count)
    return first, count


def is_reached(plan: FeaturePlan, labels: Gone | Run, run: Run) -> Mask:
    """Which events of a run any of the labels reaches."""
    depth = np.zeros(len(run) + 1, np.int64)
    for span in plan.within.spans:
        first, count = in_reach(span, labels, run)
        depth += np.bincount(first, minlength=depth.size) - np.bincount(first + count, minlength=depth.size)
    reached: Mask = np.cumsum(depth[:-1]) > 0
    return reached


@dataclass(frozen=True)
class _Reached:
    """The events that some labels reach, sorted by (code, time, arrival), with the columns that aggregates read."""

    run: Run
    rows: Rows
    pools: dict[str, pa.Array]

    @staticmethod
    def of(plan: FeaturePlan, labels: Gone, events: Side) -> _Reached:
        parts = []
        for run in events.runs:
            held = is_reached(plan, labels, run)
            parts.append(run if held.all() else run.take(np.flatnonzero(held)))
        run = _together([part for part in parts if len(part)])
        return _Reached(run, *_rows(plan.aggs, run, events))


def _together(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    if not runs:
        none = np.empty(0, np.int64)
        return Run(np.empty(0, np.int32), none, none, None, 0)
    code, time, name = (np.concatenate([getattr(run, word) for run in runs]) for word in ("code", "time", "name"))
    return Run(code, time, name, None, 0).take(order_by(name, time, code.astype(np.int64)))


def _rows(plan: Plan | None, run: Run, events: Side) -> tuple[Rows, dict[str, pa.Array]]:
    assert plan is not None
    columns: dict[str, pa.Array] = {}
    if plan.row_columns:
        found = events.table if events.chunks else None
        places = array_of(run.name - events.base)
        for name in plan.row_columns:
            type = plan.types[name]
            columns[name] = pa.nulls(0, type) if found is None else _whole(found.column(name).take(places))
    ranked, pools = {}, {}
    for name in plan.ranked:
        pool = pa.nulls(0, plan.value_types[name].type)
        (ranked[name],), pools[name], _ = ranks([columns[name]], pool, np.empty(0, np.int64))
    return Rows(plan, columns, run.time, None, 1, run.name, ranked), pools


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _in_range(plan: FeaturePlan, aggs: Plan, table: _Reached, labels: Gone, span: Span, name: str) -> list[pa.Array]:
    """The aggregates of one range."""
    first, count = in_reach(span, labels, table.run)
    some = np.flatnonzero(count)
    blocks: list[Block] = [b.identity(lane, 1) for lane in aggs.lanes]
    if some.size:
        begin = first[some]
        end = begin + count[some]
        in_order = bool((begin[1:] >= begin[:-1]).all() and (end[1:] >= end[:-1]).all())
        found = over_rows(aggs, table.rows, Known(begin, end, in_order))
        partials = found if isinstance(found, tuple) else found.whole()
        blocks = [b.together([one, none]) for one, none in zip(partials, blocks, strict=True)]
    place = np.full(labels.time.size, some.size)
    place[some] = np.arange(some.size)
    if some.size < place.size:
        blocks = [block.take(place, axis=0) for block in blocks]
    else:
        blocks = [block[:-1] for block in blocks]
    return _lowered(plan, aggs, blocks, table.pools, labels, name)


def _lowered(
    plan: FeaturePlan, aggs: Plan, blocks: Sequence[Block], pools: dict[str, pa.Array], labels: Gone, name: str
) -> list[pa.Array]:
    columns = []
    for (shown, agg), (number, bound) in zip(plan.spec.aggs.items(), aggs.aggs.items(), strict=True):
        array, overflow = bound.lower([b.by_column(blocks[lane]) for lane in aggs.lanes_of[number]], pools)
        if overflow is not None and overflow.any():
            array = _overflown(plan, array, overflow, labels, f"{shown}_{name}", repr(agg))
        columns.append(array)
    return columns


def _overflown(plan: FeaturePlan, array: pa.Array, overflow: Mask, labels: Gone, column: str, agg: str) -> pa.Array:
    if plan.spec.on_overflow == "error":
        time = plan.measure.value(int(labels.time[int(np.argmax(overflow))]))
        raise OverflowError(
            f"{agg} (output column {column!r}) does not fit {array.type} for the label at {time}; use "
            "on_overflow='null' or 'wrap'"
        )
    return array if plan.spec.on_overflow == "wrap" and not pa.types.is_decimal(array.type) else _nulls(array, overflow)


def _nulls(array: pa.Array, overflow: Mask) -> pa.Array:
    kept = array.is_valid().to_numpy(zero_copy_only=False) & ~overflow
    if pa.types.is_decimal(array.type):
        return array
    return array_of(array.fill_null(0).to_numpy(zero_copy_only=False), ~kept)
