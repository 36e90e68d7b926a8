"""Sliding windows without keys if no slice is missing: each window is a fixed number of cells, one cell later than the
window before it.

Nothing is merged, searched or listed first. The words of partials that are read are dense columns, and windows are
ranges of them that move in steps (``kernels.ranges``). A window for each slice of 1024 slices: 147 -> 6 ns each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from slicing.cells.table import Cells
from slicing.closing import over_cells
from slicing.closing.due_ranges import DueRanges, in_steps_of, steps_between
from slicing.closing.ways.interface import Closing, Offer, Way
from slicing.columns.order import alike
from slicing.kernels.cells import END
from slicing.kernels.windows import in_steps
from slicing.query.plan import Plan


def can(plan: Plan) -> bool:
    """Whether there is one type of windows, and each edge of a window is also an edge of another window."""
    one = plan.types_of.size == 1 and plan.a_cell_a_slice
    return one and in_steps_of(plan) is not None and over_cells.can(plan)


def offer(closing: Closing) -> Offer | None:
    plan, policy, (size, every, _) = closing.plan, closing.plan.policy, closing.plan.periodic
    runs = _needed(closing.runs, closing, size)
    if not runs:
        return None
    most, oldest = size // every, min(int(run.meta[0, END]) for run in runs)
    slices = (max(int(run.meta[-1, END]) for run in runs) - oldest) // every + 1
    if sum(map(len, runs)) < slices:
        return None
    end, spans = steps_between(size, every, oldest, slices, closing.after, closing.until)
    few = end.size < policy.stepped or most > policy.stepped_cells * end.size
    if not end.size or (few and policy.way != WAY.name):
        return None
    if any(int(b.meta[0, END]) - int(a.meta[-1, END]) != every for a, b in pairwise(runs)):
        runs = _needed([closing.table()], closing, size)
    if sum(map(len, runs)) != slices or not all(in_steps(run.slice_ends, every) for run in runs):
        return None
    ranges = DueRanges(alike(0, end.size), end - size, end, [(None, spans)])
    return Offer(end.size + most, lambda: ranges.answers(plan, partial(over_cells.over_cells, plan, runs)))


WAY = Way("in steps", can, offer)


def _needed(runs: Sequence[Cells], closing: Closing, size: int) -> list[Cells]:
    """The cells that due windows may hold."""
    some = (run.ending(closing.after - size, closing.until) for run in runs)
    return [cells for cells in some if len(cells)]
