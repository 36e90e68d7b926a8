"""Many windows without keys: ranges of cells that move forward, for each type of windows.

Nothing is merged, searched or combined first. The words of partials that are read are dense columns, and windows are
ranges of them (``kernels.ranges``), which move in steps if no slice is missing. A window for each slice of 1024 slices:
147 -> 6 ns each.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.due_ranges import due_ranges
from slicing.closing.over_cells import RANGES, moves, over_cells
from slicing.closing.over_cells import can as are_ranges
from slicing.closing.ways.interface import Closing, Offer, Way
from slicing.kernels.cells import END
from slicing.query.plan import Plan


def can(plan: Plan) -> bool:
    return plan.a_cell_a_slice and are_ranges(plan)


def offer(closing: Closing) -> Offer | None:
    plan = closing.plan
    runs = _needed(closing)
    if not runs:
        return None
    if any(int(b.meta[0, END]) <= int(a.meta[-1, END]) for a, b in pairwise(runs)):  # they share slices, or may do so
        low, high = min(int(run.meta[0, END]) for run in runs), max(int(run.meta[-1, END]) for run in runs)
        bounds = np.array([low, high])
        if not moves(plan, sum(map(len, runs)), plan.edges.most_due(bounds, closing.after, closing.until)):
            return None
        closing.table()
        runs = _needed(closing)
    ends = runs[0].slice_ends if len(runs) == 1 else np.concatenate([run.slice_ends for run in runs])
    due = due_ranges(plan, ends, closing.after, closing.until, ends.size)
    if due is None:
        return None
    return Offer(ends.size * len(due.parts), lambda: due.answers(plan, partial(over_cells, plan, runs)))


WAY = Way(RANGES, can, offer)


def _needed(closing: Closing) -> list[Cells]:
    """The cells that due windows may hold."""
    longest = closing.plan.most_windows[2]
    some = (run.ending(closing.after - longest, closing.until) for run in closing.runs)
    return [cells for cells in some if len(cells)]
