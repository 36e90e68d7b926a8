"""Rows in order, straight from columns to windows: the push of a query without keys that tumbles.

Each slice of such a query is a window and has one cell. So nothing is looked up, sorted or merged: the rows between two
edges are a cell, the first cell goes on with the one that was open, and the cells that the watermark passes are
results. The ordinary stages would leave the same state. They take all other pushes: rows out of order or late, nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import FIRST
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.columns.order import alike
from slicing.columns.values import buffer
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS
from slicing.lifecycle.state import State, reached_by
from slicing.query.plan import Plan
from slicing.query.watermark import Progress
from slicing.reducing.batch import Rows
from slicing.reducing.lift import SEGMENTED, reduce_runs, room
from slicing.reducing.places import shares
from slicing.system.arrays import Array, Ints
from slicing.system.threads import side_by_side
from slicing.windows.bounds import APART, LIMIT


class Reduced(NamedTuple):
    """A lane, and the column from which it is reduced. Counts need none: no value is null."""

    kind: int
    words: int  # of a partial
    column: str
    read: Callable[[pa.Array], Array] | None


class Way(NamedTuple):
    """What the straight pushes of a plan have in common."""

    lanes: list[Reduced]
    columns: list[str]  # which must have no nulls; the first one has the times
    size: int  # of the windows
    first: int  # the times of all rows must lie from here
    last: int  # to here

    @staticmethod
    def of(plan: Plan) -> Way | None:
        """None if no push of the plan goes straight."""
        if not plan.goes_straight or not all([_reduces(plan, lane) for lane in plan.lanes]):
            return None
        columns = [str(plan.spec.time), *(feed.column for lane in plan.lanes for feed in lane.feeds)]
        lanes, (first, last) = [_reduced(plan, lane) for lane in plan.lanes], plan.fitting
        size, _, _ = plan.tumbling
        return Way(lanes, list(dict.fromkeys(columns)), size, max(first, -LIMIT), min(last, LIMIT))


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
    read = partial(buffer, dtype=np.dtype(np.int32)) if lane in plan.partials.widened else plan.partials.readers[feed]
    return Reduced(lane.kind, words, feed.column, read)


def straight(state: State, data: pa.RecordBatch, upto: int | None) -> tuple[list[Answers], Rows] | None:
    """Take rows in order: the state, a draft, goes on with them. Returns the windows that they close, and the rows.
    None if the ordinary stages take the push; the state is then as it was."""
    plan, policy, held, newest = state.plan, state.plan.policy, state.store.runs, state.newest
    way: Way | None = plan.once("straight", lambda: Way.of(plan))
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
        if held and held[0].meta[0, END] <= state.watermark - plan.patience:  # kept for a window that was removed since
            return None
    edges = plan.edges.listed(low, high, 0, max(1024, 2 * size))
    if edges is None:
        return None
    if policy.max_windows_per_push is not None and edges.size + sum(map(len, held)) > policy.max_windows_per_push:
        return None
    rows = Rows(plan, columns, times, None, 1, state.arrived, {}, threads=policy.threads)
    bounds = rows.cut(edges)
    if bounds is None:
        return None
    cells = _cells(way, rows, edges, bounds, held[0] if held else None)
    rows.__dict__["span"] = low, high, True
    state.arrived, state.given, state.newest = state.arrived + size, batch.schema, high
    state.oldest = low if state.oldest is None else state.oldest
    state.progress = Progress(high, state.progress.sources)
    state.watermark = reached_by(state, upto)
    due = 0 if state.watermark is None else int(cells.until(state.watermark - plan.patience))
    state.store = state.store.of((_since(cells, due),) if due < len(cells) else ())
    if not due:
        return [], rows
    end, none = np.ascontiguousarray(cells.end[:due]), alike(0, due)
    return [Answers(none, end - way.size, end, none, cells.partials(slice(0, due)), True)], rows


def _cells(way: Way, rows: Rows, edges: Ints, bounds: Ints, held: Cells | None) -> Cells:
    """The cells that are held, and behind them those of the rows between edges. If the first of these is the last one
    held, it goes on with it."""
    first, last = bounds[:-1], bounds[1:]
    counts = last - first
    if np.count_nonzero(counts) < counts.size:
        some = counts.nonzero()[0]
        edges, first, last, counts = edges[some], first[some], last[some], counts[some]
    goes_on = held is not None and bool(held.meta[-1, END] == edges[0])
    at = 0 if held is None else len(held.meta) - goes_on  # the place of the first new cell
    meta = room(at + edges.size, Cells.words)
    meta[at:, END], meta[:, CODE], meta[at:, ROWS] = edges, 0, counts
    if held is not None:
        meta[:at] = held.meta[:at]
        if goes_on:
            meta[at, ROWS] += held.meta[at, ROWS]
    blocks = []
    for number, lane in enumerate(way.lanes):
        block = room(len(meta), lane.words)
        if lane.read is None:
            block[at:, 0] = counts
        else:
            given = lane.kind, first, last, lane.read(rows.columns[lane.column]), block[at:]
            if rows.threads > 1 and rows.shared:
                side_by_side(partial(_reduce, *given), shares(last, rows.threads, rows.plan.policy.share))
            else:
                reduce_runs(*given)
        if held is not None:
            block[:at] = held.blocks[number][:at]
            if goes_on:
                kinds.combine(lane.kind, FIRST, FIRST, block[at:], held.blocks[number][at:])
        blocks.append(block)
    return Cells(meta, tuple(blocks), None if at else edges)


def _reduce(kind: int, first: Ints, last: Ints, x: Array, block: Ints, runs: slice) -> None:
    reduce_runs(kind, first[runs], last[runs], x, block[runs])


def _since(cells: Cells, first: int) -> Cells:
    """A copy of the cells from ``first`` on: they stay, and shall not keep the memory of the others."""
    if not first:
        return cells
    blocks = tuple([block[first:].copy() for block in cells.blocks])
    return Cells(cells.meta[first:].copy(), blocks, None if cells.ends is None else cells.ends[first:].copy())
