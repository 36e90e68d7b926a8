"""Labels and the events that each of them reaches into columns of aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.closing.over_rows import over_rows
from slicing.closing.spans import Known
from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.order import distinct, order_by
from slicing.columns.order import ranges as row_ranges
from slicing.columns.values import ranks
from slicing.joins.features.plan import FeaturePlan
from slicing.joins.features.ranges import Span
from slicing.joins.sides import Gone, Run, Side
from slicing.kernels.band import count_partners
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Events a label on average, or ranges are answered from cells. 1 M events, three ranges: a label for 100 events 57 ms
# by cells and 66 without, for 33 78 and 81, for 10 145 and 124.
FEWEST = 16
SPARSE = 8  # times as many rows of a run as labels reach are looked through


def answered(plan: FeaturePlan, labels: Gone, events: Side, order: Ints) -> list[pa.Array]:
    """The aggregates of labels that are sorted by (code, time), range by range; the labels put in an ``order``."""
    if plan.aggs is None:
        none = plan.output.types[len(plan.output) - len(plan.spec.names()) :]
        return [pa.nulls(order.size) if pa.types.is_null(type) else array_of(0 * order) for type in none]
    rows, pools, found = _reached(plan, plan.aggs, labels, events)
    columns: list[pa.Array] = []
    for name, (first, count) in zip(plan.spec.ranges, found, strict=True):
        columns += _Answers(plan, plan.aggs, pools, labels.time, name).columns(rows, first, count, order)
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
    return _covered([in_reach(span, labels, run) for span in plan.within.spans], len(run))


def _covered(ranges: Sequence[tuple[Ints, Ints]], size: int) -> Mask:
    """Which of so many rows any of the ranges holds."""
    depth = np.zeros(size + 1, np.int64)
    for first, count in ranges:
        depth += np.bincount(first, minlength=depth.size)
        depth -= np.bincount(first + count, minlength=depth.size)
    covered: Mask = np.cumsum(depth[:-1]) > 0
    return covered


def _reached(
    plan: FeaturePlan, aggs: Plan, labels: Gone, events: Side
) -> tuple[Rows, dict[str, pa.Array], list[tuple[Ints, Ints]]]:
    """The events that some labels reach, sorted by (code, time, arrival); values of columns without words; and for each
    range where the events of each label begin, and how many there are."""
    spans = plan.within.spans
    found = [[in_reach(span, labels, run) for span in spans] for run in events.runs]
    taken = [_taken(run, ranges) for run, ranges in zip(events.runs, found, strict=True)]
    whole = _together([run for run, _ in taken if len(run)])
    ranges = taken[0][1] if len(taken) == 1 else [in_reach(span, labels, whole) for span in spans]
    return *_rows(aggs, whole, events), ranges


def _taken(run: Run, ranges: list[tuple[Ints, Ints]]) -> tuple[Run, list[tuple[Ints, Ints]]]:
    """The rows of a run that lie between the first and the last one that a label reaches, and the ranges among them."""
    low, high = np.full(ranges[0][0].size, len(run)), np.zeros(ranges[0][0].size, np.int64)
    for first, count in ranges:
        low = np.minimum(low, np.where(count > 0, first, len(run)))
        high = np.maximum(high, np.where(count > 0, first + count, 0))
    size = np.maximum(high - low, 0)
    if SPARSE * int(size.sum()) < len(run):  # a push of few labels does not go over all that is kept
        rows = distinct(row_ranges(low, size))
        return run.take(rows), [(np.searchsorted(rows, first), count) for first, count in ranges]
    held = _covered([(np.minimum(low, len(run)), size)], len(run))
    if held.all():
        return run, ranges
    before = np.append(0, np.cumsum(held))
    return run.take(np.flatnonzero(held)), [(before[first], count) for first, count in ranges]


def _together(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    if not runs:
        none = np.empty(0, np.int64)
        return Run(np.empty(0, np.int32), none, none, None, 0)
    code, time, name = (np.concatenate([getattr(run, word) for run in runs]) for word in ("code", "time", "name"))
    return Run(code, time, name, None, 0).take(order_by(name, time, code.astype(np.int64)))


def _rows(plan: Plan, run: Run, events: Side) -> tuple[Rows, dict[str, pa.Array]]:
    columns: dict[str, pa.Array] = {}
    if plan.row_columns:
        found = events.table if events.chunks else None
        places = array_of(run.name - events.base)
        for name in plan.row_columns:
            type = plan.types[name]
            columns[name] = pa.nulls(0, type) if found is None else one_piece(found.column(name).take(places))
    ranked, pools = {}, {}
    for name in plan.ranked:
        pool = pa.nulls(0, plan.value_types[name].type)
        (ranked[name],), pools[name], _ = ranks([columns[name]], pool, np.empty(0, np.int64))
    return Rows(plan, columns, _moments(run), None, 1, run.name, ranked), pools


def _moments(run: Run) -> Ints:
    """A number for each moment of a key, in order: times may be anywhere in 64 bits, which kernels of rows do not
    take."""
    later = (run.time[1:] != run.time[:-1]) | (run.code[1:] != run.code[:-1])
    return np.append(0, np.cumsum(later))[: len(run)]


@dataclass(frozen=True)
class _Answers:
    """The aggregates of one range."""

    plan: FeaturePlan
    aggs: Plan
    pools: dict[str, pa.Array]
    time: Ints  # of the labels
    range: str

    def columns(self, rows: Rows, first: Ints, count: Ints, order: Ints) -> list[pa.Array]:
        """Over these ranges of rows, of which some are empty."""
        some = np.flatnonzero(count)
        pieces: list[list[pa.Array]] = []
        if some.size:
            begin, size = first[some], count[some]
            pieces = [self._lowered(blocks, some[at]) for at, blocks in _partials(self.aggs, rows, begin, begin + size)]
        place = order
        if some.size < count.size:
            pieces.append(self._lowered([b.identity(lane, 1) for lane in self.aggs.lanes], some))
            place = np.full(count.size, some.size)
            place[some] = np.arange(some.size)
            place = place[order]
        taken = array_of(place)
        return [pa.concat_arrays(parts).take(taken) for parts in zip(*pieces, strict=True)]

    def _lowered(self, blocks: Sequence[Block], labels: Ints) -> list[pa.Array]:
        found = []
        for number, bound in self.aggs.aggs.items():
            array, overflow = bound.lower(
                [b.by_column(blocks[lane]) for lane in self.aggs.lanes_of[number]], self.pools
            )
            if overflow is not None and overflow.any():
                array = self._overflown(array, overflow, labels, int(number))
            found.append(array)
        return found

    def _overflown(self, array: pa.Array, overflow: Mask, labels: Ints, number: int) -> pa.Array:
        name, agg = list(self.plan.spec.aggs.items())[number]
        if self.plan.spec.on_overflow == "error":
            time = self.plan.measure.value(int(self.time[labels[int(np.argmax(overflow))]]))
            raise OverflowError(
                f"{agg!r} (output column {f'{name}_{self.range}'!r}) does not fit {array.type} for the label at "
                f"{time}; use on_overflow='null' or 'wrap'"
            )
        if pa.types.is_decimal(array.type):  # null already
            return array
        if self.plan.spec.on_overflow == "wrap":
            return array
        kept = array.is_valid().to_numpy(zero_copy_only=False) & ~overflow
        return array_of(array.fill_null(0).to_numpy(zero_copy_only=False), ~kept)


def _partials(aggs: Plan, rows: Rows, begin: Ints, end: Ints) -> Iterator[tuple[slice, Sequence[Block]]]:
    """Each lane's partials over ranges of rows, none of them empty, some ranges at a time."""
    in_order = bool((begin[1:] >= begin[:-1]).all() and (end[1:] >= end[:-1]).all())
    found = over_rows(aggs, rows, Known(begin, end, in_order), FEWEST)
    if isinstance(found, tuple):
        yield slice(None), found
    else:
        yield from found.pieces()
