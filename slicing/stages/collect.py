"""Collect: judge rows by the watermark before their batch, and reduce them to cells.

Takes rows that have been read, and changes nothing. On Spark this runs where the rows are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slicing.cells.table import Cells, merged
from slicing.columns.values import NOWHERE
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import reduce_rows, reduce_suspects
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import APART, BEGIN


class Arrivals(NamedTuple):
    """The result of ``collect``: cells and late rows, judged by the watermark before the batch."""

    cells: Cells
    changing: Cells  # of rows behind the watermark, which may change emitted windows
    late: Ints  # positions of rows that are late for all their windows
    outside: int  # the number of rows that are in no window by definition
    in_time: Rows | None  # rows that are not before the horizon
    tardy: Rows | None = None  # rows before the horizon that some window takes


def collect(state: State, rows: Rows) -> Arrivals:
    """Judge each row by the watermark before the batch, and reduce rows in time to cells."""
    plan, h = state.plan, BEGIN if state.watermark is None else state.watermark - state.plan.lateness
    if not rows.time.size:
        return Arrivals(plan.no_cells, plan.no_cells, NOWHERE, 0, rows)
    suspects, late, outside, current, tardy = plan.no_cells, NOWHERE, 0, rows, None
    if rows.span[0] < h:
        suspect = np.flatnonzero(rows.time < h)
        suspects, all_late, outside, tardy = _judge(plan, rows.take(suspect), h)
        late = suspect[all_late]
        current = rows.take(np.flatnonzero(rows.time >= h))
    in_time, changing, reached = current, plan.no_cells, state.watermark
    if not plan.keeps_slices:
        return Arrivals(plan.no_cells, plan.no_cells, late, 0, in_time)
    if plan.revises or plan.early.cut:
        changing, suspects = suspects, plan.no_cells
        if reached is not None and len(current) and current.span[0] < reached:
            behind = current.time < reached
            cells, beyond = _inside(plan, reduce_rows(current.take(np.flatnonzero(behind))))
            outside += beyond
            changing = merged(changing, cells, plan.lanes, plan.gaps)
            current = current.take(np.flatnonzero(~behind))
    cells = reduce_rows(current)
    if not plan.gapless:
        cells, beyond = _inside(plan, cells)
        outside += beyond
    if len(suspects.meta):
        cells = merged(suspects, cells, plan.lanes, plan.gaps)
    return Arrivals(cells, changing, late, outside, in_time, tardy)


def _inside(plan: Plan, cells: Cells) -> tuple[Cells, int]:
    """Drop the cells of slices that are in no window by definition. Also returns how many rows are in no window."""
    if plan.gapless:
        return cells, 0
    held = np.repeat(plan.edges.covers(cells.slice_ends), cells.slice_sizes())
    return cells.take(held), 0 if plan.keeps_rows else int(cells.rows[~held].sum())


def _judge(plan: Plan, rows: Rows, h: int) -> tuple[Cells, Mask, int, Rows]:
    """Judge rows before the horizon. Returns the cells of rows that some window takes, which rows are late for all
    windows, how many rows are outside of all windows, and the rows that some window takes.

    All these rows are too late for windows of kept rows.
    """
    own_end = plan.edges.next_live(rows.time, BEGIN)
    level = np.searchsorted(np.array(plan.session_gaps, np.int64), _behind(rows.time, h), "right").astype(np.int64)
    takes = plan.in_session(level)
    if plan.bounds:
        takes |= plan.edges.holds(own_end, h)
    if plan.idle is not None:
        takes &= plan.is_alive(level)
    belongs = _in_slices(plan, own_end)
    takes &= belongs
    if plan.keeps_rows:
        belongs[:] = True
    if plan.wholes:
        level += plan.levels
    chosen = np.flatnonzero(takes)
    some = rows.take(chosen)
    cells = reduce_suspects(some, plan.edges.next_live(some.time, h), level[chosen])
    return cells, belongs & ~takes, int((~belongs).sum()), some


def _behind(times: Ints, h: int) -> Ints:
    """How far times are behind the horizon, at most ``APART``: the difference of two times may not fit int64."""
    return h - np.maximum(times, max(h - APART, BEGIN))


def _in_slices(plan: Plan, own_end: Ints) -> Mask:
    """Which rows are in a window of slices by definition. ``own_end``: the end of each row's slice."""
    return np.ones(own_end.size, np.bool_) if plan.gapless else plan.edges.covers(own_end)


def belong(plan: Plan, rows: Rows) -> Mask:
    """Which rows are in a window by definition. With windows of kept rows, all rows are."""
    if plan.keeps_rows:
        return np.ones(len(rows), np.bool_)
    return _in_slices(plan, plan.edges.next_live(rows.time, BEGIN))
