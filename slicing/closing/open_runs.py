"""Sessions and whole streams that are reported before they are complete.

Their bounds move with their rows. So a report takes back earlier reports: the runs of earlier cells that are a part of
the runs reported now. If each push reports, the earlier cells are the cells before the push. Otherwise the cells of the
latest report are kept beside the store (``Reports``) until their runs are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slicing.cells.sessions import Runs, chains, runs
from slicing.cells.table import Cells, concatenated, merged, sorted_cells
from slicing.closing import emit
from slicing.closing.panes import EARLY, LAST, Panes
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct
from slicing.query.plan import ENDLESS, Plan
from slicing.query.routes import SessionWindow
from slicing.storage.open_sessions import touched
from slicing.storage.session_store import store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER

Reports = Mapping[str, Store]  # for each window the cells of open runs, as they were reported last


class PushedRuns(NamedTuple):
    """The cells before a push, the cells that it brings, and the watermark before it."""

    store: Store
    fresh: Cells
    watermark: int

    def of_touched(self, until: int) -> Store:
        """The cells before the push of keys that it brings cells of, or of which a session is over at ``until``."""
        plan, runs = self.store.plan, self.store.runs
        lasts = [(self.watermark - gap, until - gap) for gap in {session.gap for session in plan.sessions}]
        over = [touched(run, lasts, ()) for run in runs] if lasts and self.watermark < until else []
        return self.store.of_codes(distinct(np.concatenate([self.fresh.code, *over])))


def reported(pushed: PushedRuns, keys: KeyTable | None, until: int | None) -> list[Panes]:
    """The open runs that a push has changed, and the earlier reports that it takes back. ``until``: the watermark after
    the push. None: the stream is over."""
    plan, fresh = pushed.store.plan, pushed.fresh
    cells = (pushed.store if until is None else pushed.of_touched(until)).consolidated().table()
    tables = cells, merged(cells, fresh, plan.lanes, plan.gaps), fresh
    panes = []
    for session in plan.sessions:
        if plan.early.fired[session.window]:
            gap = plan.session_gaps[session.level]
            was, now, by = (runs(cells, keys, plan.chains_of(session, cells)) for cells in tables)
            complete = np.ones(now.first.size, np.bool_) if until is None else now.end() + gap < until
            before = [some.end() + gap >= pushed.watermark for some in (was, now)]
            panes += _panes(pushed, session.window, session.gap, (was, now, by), complete, before)
    for window in plan.wholes:
        if plan.early.fired[window]:
            was, now, by = (_streams(plan, c, keys) for c in tables)
            complete = np.full(now.first.size, until is None)
            before = [np.ones(some.first.size, np.bool_) for some in (was, now)]
            panes += _panes(pushed, window, 0, (was, now, by), complete, before)
    return panes


def _streams(plan: Plan, table: Cells, keys: KeyTable | None) -> Runs:
    return runs(table, keys, chains(table, ENDLESS, plan.in_whole(table.level)))


def _panes(
    pushed: PushedRuns, window: int, gap: int, found: tuple[Runs, Runs, Runs], complete: Mask, before: list[Mask]
) -> list[Panes]:
    """Runs that are taken back, and runs that are reported early. ``before``: which runs were open before the push."""
    plan, (was, now, by) = pushed.store.plan, found
    due = complete.copy()
    due[now.holding(by)] = True
    due &= before[1]
    gone = due[now.holding(was)] & before[0]
    return [
        Panes.of(emit.session_answers(plan, was.chosen(gone), window, gap), 0, EARLY),
        Panes.of(emit.session_answers(plan, now.chosen(due & ~complete), window, gap), 1, EARLY),
    ]


class _Kind(NamedTuple):
    """A window type whose windows are runs of cells."""

    number: int
    gap: int
    endless: bool
    runs: Callable[[Cells], Runs]

    def open(self, found: Runs, until: int) -> Mask:
        """The runs that are not complete at this watermark."""
        if until == FOREVER or self.endless:
            return np.full(found.first.size, until != FOREVER)
        return found.end() + self.gap >= until

    def panes(self, plan: Plan, found: Runs, order: int) -> Panes:
        return Panes.of(emit.session_answers(plan, found, self.number, self.gap), order, EARLY)


def _kinds(plan: Plan, keys: KeyTable | None) -> Iterator[_Kind]:
    """The window types that are reported early and remembered."""
    for session in plan.sessions:

        def of(cells: Cells, session: SessionWindow = session) -> Runs:
            return runs(cells, keys, plan.chains_of(session, cells))

        if plan.early.reports_run(session.window):
            yield _Kind(session.window, session.gap, False, of)
    for window in plan.wholes:
        if plan.early.reports_run(window):
            yield _Kind(window, 0, True, lambda cells: _streams(plan, cells, keys))


def first_end(plan: Plan, reports: Reports) -> int:
    """The earliest end of a session as it was reported last. FOREVER: there is none."""
    ends = [FOREVER]
    for session in plan.sessions:
        store = reports.get(plan.names[session.window])
        if store is not None and len(store):
            ends.append(int(plan.chains_of(session, store.table()).end.min()) + session.gap)
    return min(ends)


def completed(
    plan: Plan, reports: Reports, table: Cells, keys: KeyTable | None, until: int
) -> tuple[Reports, list[Panes]]:
    """Take back the reports of runs that are complete now, and forget these reports. ``until``: the watermark, FOREVER
    if the stream ends."""
    panes, left = list[Panes](), dict(reports)
    for kind in _kinds(plan, keys):
        name = plan.names[kind.number]
        if name not in reports:
            continue
        was, now = kind.runs(reports[name].table()), kind.runs(table)
        gone = ~kind.open(now, until)[now.holding(was)]
        if gone.any():
            panes.append(kind.panes(plan, was.chosen(gone), 2 * LAST))
            left[name] = _store(plan, was.chosen(~gone).cells)
    return left, panes


def at_cuts(
    plan: Plan, reports: Reports, table: Cells, keys: KeyTable | None, after: int, until: int
) -> tuple[Reports, list[Panes]]:
    """The runs that event-time triggers report as the watermark moves on, as if it stopped at each cut."""
    panes, left = list[Panes](), dict(reports)
    for number, cuts in plan.early.run_cuts.items():
        name, only = plan.names[number], np.arange(len(plan.names)) == number
        of_window: Reports = {name: reports[name]} if name in reports else {}
        for place, cut in enumerate(cuts.passed(table.slice_ends, after, until)):
            rows = table.take(slice(0, int(table.until(cut))))
            of_window, gone = completed(plan, of_window, rows, keys, cut)
            of_window, more = fired(plan, of_window, rows, keys, only, cut, cut, 2 * place)
            panes += gone + more
        left |= of_window
    return left, panes


def fired(
    plan: Plan,
    reports: Reports,
    table: Cells,
    keys: KeyTable | None,
    windows: Mask,
    until: int,
    cut: int = BEGIN,
    order: int = 0,
) -> tuple[Reports, list[Panes]]:
    """The open runs of some windows that have rows not yet reported, and what they take back. Only runs that end after
    ``cut``."""
    panes, left = list[Panes](), dict(reports)
    for kind in _kinds(plan, keys):
        if not windows[kind.number]:
            continue
        name, now = plan.names[kind.number], kind.runs(table)
        open_, known = kind.open(now, until), np.zeros(now.first.size, np.int64)
        if name in reports:
            was = kind.runs(reports[name].table())
            into = now.holding(was)
            np.add.at(known, into, _rows(was))
        due = open_ & (_rows(now) > known)
        if not kind.endless:
            due &= now.end() + kind.gap > cut
        cells = [now.chosen(due).cells]
        if name in reports:
            panes.append(kind.panes(plan, was.chosen(due[into]), order))
            cells.append(was.chosen(~due[into]).cells)
        panes.append(kind.panes(plan, now.chosen(due), order + 1))
        left[name] = _store(plan, concatenated(cells))
    return left, panes


def _rows(found: Runs) -> Ints:
    return np.add.reduceat(found.cells.rows, found.first) if found.first.size else found.first


def _store(plan: Plan, cells: Cells) -> Store:
    return replace(store_for(plan), runs=(sorted_cells(cells),) if len(cells) else ())
