"""Final rows as slices: cut where windows begin and end, and fused where no window begins any more
(``RowPlan.as_slices``).

Besides its partials a slice keeps the time of its first row, its rank, and the flags that windows need of its first or
last row. The flag ``BEGINS`` says that a window begins with the slice.
"""

from __future__ import annotations

import numpy as np

from slicing.cells.blocks import identity, kind_of
from slicing.cells.table import Cells
from slicing.columns.order import changes, distinct
from slicing.kept_rows.final import Run
from slicing.kept_rows.plain import groups_of
from slicing.kept_rows.remembered import Quiet, grown
from slicing.kernels.cells import END, ROWS
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import lift_ranges
from slicing.system.arrays import Ints
from slicing.windows.rows.bound_rows import Fresh
from slicing.windows.rows.row_table import ARRIVAL, BEGINS, FACTS, FLAGS, RANK, SINCE, RowTable


def slices_of(plan: Plan, quiet: Quiet, rows: Rows, ranked: Ints) -> RowTable:
    """Slices of rows sorted by key, cut where windows begin and end. ``ranked``: how many rows each key had before."""
    bounds, before, base = _groups(plan, quiet, rows, ranked)
    fresh = Fresh(rows.time, bounds, base, lambda flag: rows.flag(plan.rows.flags[flag][1]))
    cuts = [window.cuts(fresh) for window in plan.rows.windows]
    first = cuts[0].at if len(cuts) == 1 else distinct(np.concatenate([cut.at for cut in cuts]))
    last = np.append(first[1:], len(rows))
    facts = np.zeros((first.size, len(FACTS)), np.int64)
    facts[:, ARRIVAL] = first + rows.arrival if isinstance(rows.arrival, int) else rows.arrival[first]
    facts[:, SINCE] = rows.time[first]
    shift = before - bounds[:-1]
    facts[:, RANK] = first + (shift if shift.size == 1 else np.repeat(shift, np.diff(np.searchsorted(first, bounds))))
    for cut in cuts:
        for of, flags in ((first, cut.of_first), (last - 1, cut.of_last)):
            for flag, rows_have in flags.items():
                facts[:, FLAGS] |= rows_have[of].astype(np.int64) << flag
    return RowTable(lift_ranges(rows, first, last), facts)


def _groups(plan: Plan, quiet: Quiet, rows: Rows, ranked: Ints) -> tuple[Ints, Ints, Ints]:
    """Where groups begin in rows sorted by key. Also returns for each group how many rows of its key, and of the group
    itself, came before."""
    bounds, codes = groups_of(rows), rows.each_code()
    before = ranked[codes[bounds[:-1]]]
    if plan.idle is None:
        return bounds, before, before
    code = codes.astype(np.int64)
    rank = np.arange(len(rows)) + np.repeat(before - bounds[:-1], np.diff(bounds))
    anew = quiet.anew(plan.idle, code, rank, rows.time, rows.time, ranked)
    begins = anew.copy()
    begins[bounds[:-1]] = True
    first = np.flatnonzero(begins)
    began = grown(quiet.began, ranked.size)[code[first]]
    return np.append(first, len(rows)), rank[first], np.where(anew[first], 0, rank[first] - began)


def fused(plan: Plan, run: Run) -> Run:
    """Fuse final slices of a key up to the next slice with which a window begins: no window ends between them any
    more."""
    if not isinstance(run, RowTable) or len(run) < 2:
        return run
    code, flags = run.codes, run.facts[:, FLAGS]
    begins = changes(code) | (flags & BEGINS != 0)
    if begins.all():
        return run
    first = np.flatnonzero(begins)
    last, into = np.append(first[1:], len(run)) - 1, np.cumsum(begins) - 1
    meta = run.cells.meta[first]
    meta[:, END], meta[:, ROWS] = run.time[last], np.add.reduceat(run.cells.rows, first)
    pairs = zip(plan.lanes, run.cells.blocks, strict=True)
    blocks = tuple(kind_of(lane).merged(lane, into, first.size, block, identity(lane, 0)) for lane, block in pairs)
    facts = run.facts[first]
    facts[:, FLAGS] = np.bitwise_or.reduceat(flags, first)
    return RowTable(Cells(meta, blocks), facts)
