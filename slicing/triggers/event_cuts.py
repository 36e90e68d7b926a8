"""What event-time triggers report at the cuts of windows that the watermark passes.

A cut is a time inside a window. Its pane holds the window's rows before the cut (``slicing.triggers.news``). The
functions take all cells that are kept, and the watermarks before and after a push or the windows that are complete.
They return panes and change no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.panes import EARLY, LAST, ON_TIME, Panes
from slicing.columns.order import distinct
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask
from slicing.triggers.cells_by_report import CellsByReport
from slicing.triggers.news import Found, news_by_time
from slicing.windows.bounds import BEGIN


def at_cuts(kept: CellsByReport, after: int, until: int, horizon: int) -> list[Panes]:
    """The panes at the cuts that the watermark passes between ``after`` and ``until``."""
    pieces = [(kept.main.table(), BEGIN), *((kept.table_of(i), known.judged) for i, known in enumerate(kept.apart))]
    panes, passed = list[Panes](), 0
    for low, high in _steps(kept.plan, pieces[0][0], after, until):
        found = news_by_time(kept.plan, pieces, low, high)
        panes += _of_cuts(kept, [cells for cells, _ in pieces], found, passed, horizon)
        passed += found.cut.size
    return panes


def _steps(plan: Plan, table: Cells, after: int, until: int) -> list[tuple[int, int]]:
    """Split the way of the watermark into steps, so that no step looks at too many pairs of a slice and a window that
    holds it. If windows overlap much, there are many more pairs than panes."""
    slices = max(plan.policy.pane_looks // max(plan.most_windows[0], 1), 1)
    ends = table.slice_ends
    stops = [after, *(end for end in ends[slices::slices].tolist() if after < end < until), until]
    return list(pairwise(stops))


def _of_cuts(kept: CellsByReport, pieces: Sequence[Cells], found: Found, passed: int, horizon: int) -> list[Panes]:
    """The panes of cuts, which come after ``passed`` other cuts."""
    plan = kept.plan
    places, early = passed + distinct(found.cut).searchsorted(found.cut), found.cut < found.end
    if plan.spec.emit == "parts":
        timing = np.where(early, EARLY, ON_TIME).take(found.pane)
        return [Panes(found.parts(plan, pieces), places.take(found.pane), timing)]
    found = found if early.all() else found.of_keys(early.take(found.pane))
    order = found.by_key(places)
    left = kept.left(horizon) if found.cut.size and _stay(kept, found, horizon) else None
    now, _ = found.up_to(plan, kept.table() if left is None else left.table(), found.by_key(found.cut))
    if plan.spec.emit == "updates":
        return [Panes.of(now, order, EARLY)]
    panes = [Panes.of(now, 2 * order + 1, EARLY)]
    before = np.empty(found.cut.size, np.int64)
    for k, cuts in enumerate(plan.early.cuts):
        if cuts is not None:
            of_type = found.type == k
            before[of_type] = cuts.before(found.start[of_type], found.end[of_type], found.cut[of_type])
    for was, held in _were_of(kept, found, before):
        panes.append(Panes.of(was, 2 * order[held], EARLY))
    return panes


def _stay(kept: CellsByReport, found: Found, horizon: int) -> bool:
    """Whether the cells that are left after the push answer the panes: their windows stay open, and slices are not
    fused across their cuts."""
    if kept.apart or bool((found.end <= horizon).any()):
        return False
    return bool((kept.plan.edges.next_live(found.cut - 1, horizon) == found.cut).all())


def replaced(kept: CellsByReport, complete: Answers, type: Ints) -> list[Panes]:
    """The last reports of windows that are complete now, to be taken back. ``type``: the type of each window."""
    plan, panes = kept.plan, list[Panes]()
    for k, cuts in enumerate(plan.early.cuts):
        of_type = np.flatnonzero(plan.early.cut_windows[complete.window] & (type == k))
        if cuts is None or not of_type.size:
            continue
        found = Found.whole(complete, of_type, k)
        before = cuts.before(found.start, found.end, found.end)
        panes += [Panes.of(was, 2 * LAST, EARLY) for was, _ in _were_of(kept, found, before)]
    return panes


def _were_of(kept: CellsByReport, found: Found, before: Ints) -> list[tuple[Answers, Mask]]:
    """The rows that each pane's previous pane, at ``before``, had; and which keys of panes these are.

    Rows that came behind a watermark are only in panes of cuts after that watermark.
    """
    upto = found.by_key(before)
    known = np.zeros(upto.size, np.int64)
    for at, some in enumerate(kept.apart):
        known |= (some.judged < upto).astype(np.int64) << at
    out = []
    for which in distinct(known).tolist():
        same = known == which
        table = kept.table([at for at in range(len(kept.apart)) if which >> at & 1])
        was, held = found.of_keys(same).up_to(kept.plan, table, upto[same])
        whole = np.zeros(upto.size, np.bool_)
        whole[np.flatnonzero(same)[held]] = True
        out.append((was, whole))
    return out
