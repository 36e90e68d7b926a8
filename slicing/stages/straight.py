"""Rows in order, straight from columns to cells: the push of a query without keys.

Each slice of such a query has one cell. So nothing is looked up, sorted or merged: the rows between two edges are a
cell, and the first cell goes on with the one that was open. If windows of one type tumble, cells are windows, and those
that the watermark passes are results. Other windows are answered from these cells; or if they slide in steps and slices
have few rows, from the rows themselves.

The ordinary stages would leave the same state. They take all other pushes: rows out of order or late, nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import FEW_PARTIALS, FIRST
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.due_ranges import due_ranges, of_rows
from slicing.closing.over_rows import FEWEST, of_columns
from slicing.closing.too_many import MOST_ROWS
from slicing.columns.arrow_out import table_room
from slicing.columns.bits import buffer
from slicing.columns.order import alike
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS, slice_meta
from slicing.lifecycle.state import State, reached_by
from slicing.query.plan import Plan
from slicing.query.progress import Progress
from slicing.reducing.batch import Rows
from slicing.reducing.lift import SEGMENTED, reduce_runs
from slicing.reducing.places import shares
from slicing.stages.close import close
from slicing.system.arrays import Array, Ints
from slicing.system.threads import side_by_side
from slicing.windows.bounds import APART, BEGIN, LIMIT


class Reduced(NamedTuple):
    """A lane, and the column from which it is reduced. Counts need none: no value is null."""

    kind: int
    words: int  # of a partial
    column: str
    read: Callable[[pa.Array], Array] | None


class StraightPlan(NamedTuple):
    """What the straight pushes of a plan have in common."""

    lanes: list[Reduced]
    columns: list[str]  # which must have no nulls; the first one has the times
    first: int  # the times of all rows must lie from here
    last: int  # to here

    @staticmethod
    def of(plan: Plan) -> StraightPlan | None:
        """None if no push of the plan goes straight."""
        if not plan.goes_straight or not all([_reduces(plan, lane) for lane in plan.lanes]):
            return None
        columns = [str(plan.spec.time), *(feed.column for lane in plan.lanes for feed in lane.feeds)]
        lanes, (first, last) = [_reduced(plan, lane) for lane in plan.lanes], plan.fitting
        return StraightPlan(lanes, list(dict.fromkeys(columns)), max(first, -LIMIT), min(last, LIMIT))


def _reduces(plan: Plan, lane: Lane) -> bool:
    """Whether runs of rows are reduced to this lane if its columns have no nulls."""
    if lane.flag is not None or any(pa.types.is_dictionary(plan.types[feed.column]) for feed in lane.feeds):
        return False
    if lane.kind == kinds.COUNT:
        return True
    narrow = lane in plan.partials.widened and plan.types[lane.feeds[0].column] != pa.int32()
    return lane.kind in SEGMENTED and not narrow


def _reduced(plan: Plan, lane: Lane) -> Reduced:
    words = len(kinds.IDENTITY[lane.kind])
    if lane.kind == kinds.COUNT:
        return Reduced(lane.kind, words, "", None)
    feed = lane.feeds[0]
    as_it_is = lane in plan.partials.widened and lane.kind not in kinds.FLOATS  # kernels of floats read 8 bytes each
    read = partial(buffer, dtype=np.dtype(np.int32)) if as_it_is else plan.partials.readers[feed]
    return Reduced(lane.kind, words, feed.column, read)


def straight(state: State, data: pa.RecordBatch, upto: int | None) -> tuple[list[Answers], Rows] | None:
    """Take rows in order: the state, a draft, goes on with them. Returns the windows that they close, and the rows.
    None if the ordinary stages take the push; the state is then as it was."""
    plan, policy, held, newest = state.plan, state.plan.policy, state.store.runs, state.newest
    way: StraightPlan | None = plan.alike("straight", lambda: StraightPlan.of(plan))
    if way is None or not policy.straight or len(held) > 1 or state.postponed:
        return None
    batch, columns = plan.columns.of(data)
    size = batch.num_rows
    if not size or any([columns[name].null_count for name in way.columns]):
        return None
    times = plan.measure.words(columns[way.columns[0]])
    low, high = int(times[0]), int(times[-1])
    since = low if newest is None else newest
    if not (way.first <= low and since <= low <= high <= way.last and high - since <= APART):
        return None
    if state.watermark is not None:
        if low < state.watermark:
            return None
        kept = held and plan.tumbles and held[0].meta[0, END] <= state.watermark - plan.patience
        if kept:  # for a window that was removed since
            return None
    if held and len(held[0].meta) > max(policy.straight_cells, size // policy.straight_rows):
        return None
    edges = plan.edges.listed(low, high, 0, size)
    if edges is None:
        return None
    if policy.max_windows_per_push is not None and edges.size + sum(map(len, held)) > policy.max_windows_per_push:
        return None
    rows = Rows(plan, columns, times, None, 1, state.arrived, {}, threads=policy.threads)
    bounds = rows.cut(edges)
    if bounds is None:
        return None
    rows.__dict__["span"] = low, high, True
    state.arrived, state.given, state.newest = state.arrived + size, batch.schema, high
    state.oldest = low if state.oldest is None else state.oldest
    state.progress = Progress(high, state.progress.sources)
    goes_on = bool(held) and bool(held[0].meta[-1, END] == edges[0])
    new = New(way, rows, edges, bounds, held[0] if held else None, goes_on)
    return (_tumbled if plan.tumbles else _slid)(state, new, reached_by(state, upto)), rows


def _tumbled(state: State, new: New, reached: int | None) -> list[Answers]:
    """Emit the cells that are windows now. The others stay."""
    state.watermark, cells = reached, new.cells()
    if reached is None:
        state.store = state.store.of((cells,))
        return []
    left = cells.since(reached - state.plan.patience)
    state.store = state.store.of(() if left is None else (left,))
    due = len(cells.meta) - (0 if left is None else len(left.meta))
    if not due:
        return []
    end = np.ascontiguousarray(cells.end[:due]) if cells.ends is None else cells.ends[:due]
    none = alike(0, due)
    return [Answers(none, end - state.plan.periodic[0], end, none, cells.partials(slice(0, due)), True)]


def _slid(state: State, new: New, reached: int | None) -> list[Answers]:
    """Emit windows that are put together of these cells. The cells of open windows stay."""
    answers = None if reached is None else _from_rows(state, new, reached)
    if answers is not None:
        return answers
    state.store = state.store.of((new.cells(),))
    return close(state, reached)[0]


def _from_rows(state: State, new: New, reached: int) -> list[Answers] | None:
    """Emit windows of few rows a slice as ranges of rows. Cells are made only of slices that are in other windows too:
    in those that may have older cells, and in those that stay open. None if that are most slices."""
    plan, edges, until = state.plan, new.edges, reached - state.plan.patience
    if len(new.rows) >= FEWEST * edges.size or plan.policy.max_windows_per_push is not None:
        return None
    if edges.size * plan.most_windows[0] > MOST_ROWS:  # more than a push can emit, perhaps: they are counted elsewhere
        return None
    horizon, after = reached - plan.lateness, BEGIN if state.watermark is None else state.watermark - plan.patience
    if new.held is not None:  # windows that end later begin after all cells that are held
        after = max(after, int(new.held.meta[-1, END]) + plan.most_windows[2] - 1)
    early, kept = edges.searchsorted((after, plan.edges.held_from(horizon)), "right").tolist()
    if 2 * (early + edges.size - kept) > edges.size:
        return None
    ends, starts, has_rows = edges, new.bounds, new.bounds[1:] > new.bounds[:-1]
    if np.count_nonzero(has_rows) < edges.size:
        ends, starts = edges[has_rows], np.append(new.bounds[:-1][has_rows], len(new.rows))
    times = 1 if new.held is None else plan.policy.stepped_rows
    due = due_ranges(plan, ends, after, until, len(new.rows), times)
    if due is None:
        return None
    answers = list[Answers]()
    if new.held is not None:
        state.store = state.store.of((new.cells(0, early),))
        answers, _ = close(state, after + plan.patience)
    answers.append(due.answers(plan, lambda spans: of_columns(plan, new.rows, plan.lanes, of_rows(spans, starts))))
    state.store = state.store.of((new.cells(kept),) if kept < edges.size else ()).without(horizon)
    state.watermark = reached
    return answers


@dataclass(frozen=True)
class New:
    """The rows of a push, cut by edges, and the cells that were held before."""

    way: StraightPlan
    rows: Rows
    edges: Ints
    bounds: Ints  # the first row of each slice, and the number of rows
    held: Cells | None
    goes_on: bool  # whether the first slice is the last one held

    def cells(self, begin: int = 0, end: int | None = None) -> Cells:
        """The cells of some of the slices that have rows. Before the first slice come the cells that are held."""
        first, last = self.bounds[:-1][begin:end], self.bounds[1:][begin:end]
        edges, held, counts = self.edges[begin:end].copy(), None if begin else self.held, last - first
        if np.count_nonzero(counts) < counts.size:
            some = counts.nonzero()[0]
            edges, first, last, counts = edges[some], first[some], last[some], counts[some]
        at = 0 if held is None else len(held.meta) - self.goes_on  # the place of the first new cell
        meta = table_room(at + edges.size, Cells.words)
        if edges.size < FEW_PARTIALS:
            meta[at:, END], meta[at:, CODE], meta[at:, ROWS] = edges, 0, counts
        else:
            slice_meta(edges, counts, meta[at:])
        if held is not None:
            meta[:at] = held.meta[:at]
            if self.goes_on:
                meta[at, ROWS] += held.meta[at, ROWS]
        blocks = []
        for number, lane in enumerate(self.way.lanes):
            block = table_room(len(meta), lane.words)
            if lane.read is None:
                block[at:, 0] = counts
            else:
                self._reduce(lane, first, last, block[at:])
            if held is not None:
                block[:at] = held.blocks[number][:at]
                if self.goes_on:
                    kinds.combine(lane.kind, FIRST, FIRST, block[at:], held.blocks[number][at:])
            blocks.append(block)
        return Cells(meta, tuple(blocks), None if at else edges)

    def _reduce(self, lane: Reduced, first: Ints, last: Ints, block: Ints) -> None:
        if not first.size:
            return
        rows, column, low, high = self.rows, self.rows.columns[lane.column], int(first[0]), int(last[-1])
        assert lane.read is not None
        if high - low < rows.time.size:
            column, first, last = column.slice(low, high - low), first - low, last - low
        x = lane.read(column)
        if rows.threads == 1 or not rows.shared:
            reduce_runs(lane.kind, first, last, x, block)
            return

        def some(runs: slice) -> None:
            reduce_runs(lane.kind, first[runs], last[runs], x, block[runs])

        side_by_side(some, shares(last, rows.threads, rows.plan.policy.share))
