"""Sessions and whole streams that are reported at the end of each push, before they are complete.

Their bounds move with their rows, so what a push reports takes back what the push before has reported: the runs of the
cells before it that are a part of those reported now.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.cells.sessions import Runs, chains, runs
from slicing.cells.table import Cells
from slicing.closing import emit
from slicing.closing.panes import EARLY, Kept, Panes
from slicing.closing.revise import run_holding
from slicing.columns.keys import KeyTable
from slicing.query.plan import ENDLESS

Mask = npt.NDArray[np.bool_]


class PushedRuns(NamedTuple):
    """The cells before a push, those that it brings, and the watermark before it."""

    kept: Kept
    watermark: int


def reported(pushed: PushedRuns, keys: KeyTable | None, until: int | None) -> list[Panes]:
    """What open runs have become with a push, and all that it takes back; ``until``: the watermark after it (None: the
    stream is over)."""
    kept, plan = pushed.kept, pushed.kept.plan
    fresh = kept.table_of(0) if kept.apart else plan.no_cells
    tables = kept.main.table(), kept.table(), fresh
    panes = []
    for session in plan.sessions:
        if plan.fired[session.window]:
            gap = plan.session_gaps[session.level]
            was, now, by = (runs(c, keys, chains(c, gap, c.level % plan.levels <= session.level)) for c in tables)
            complete = np.ones(now.first.size, np.bool_) if until is None else now.end() + gap < until
            before = [some.end() + gap >= pushed.watermark for some in (was, now)]
            panes += _panes(pushed, session.window, session.gap, (was, now, by), complete, before)
    for window in plan.wholes:
        if plan.fired[window]:
            was, now, by = (_streams(plan.levels, c, keys) for c in tables)
            complete = np.full(now.first.size, until is None)
            before = [np.ones(some.first.size, np.bool_) for some in (was, now)]
            panes += _panes(pushed, window, 0, (was, now, by), complete, before)
    return panes


def _streams(levels: int, table: Cells, keys: KeyTable | None) -> Runs:
    return runs(table, keys, chains(table, ENDLESS, table.level < levels))


def _panes(
    pushed: PushedRuns, window: int, gap: int, found: tuple[Runs, Runs, Runs], complete: Mask, before: list[Mask]
) -> list[Panes]:
    """Runs that go, and those that come early. ``before``: which were open before the push."""
    plan, (was, now, by) = pushed.kept.plan, found
    told = complete.copy()
    told[run_holding(now, by)] = True
    told &= before[1]
    gone = told[run_holding(now, was)] & before[0]
    return [
        Panes.of(emit.session_answers(plan, was.chosen(gone), window, gap), 0, EARLY),
        Panes.of(emit.session_answers(plan, now.chosen(told & ~complete), window, gap), 1, EARLY),
    ]
