"""Early results: what a push does for windows that triggers also report before they are complete.

These are the stages of ``slicing.push`` for plans with triggers. They change a draft of the state and return panes.
Cells that some trigger has not reported stay apart from the store (``apart``). The watermark passes cuts as it passes
ends of windows (``event_cuts``). After these stages, triggers of pushes fire (``fired``), and panes become rows
(``numbered``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.cells.table import Cells, merged
from slicing.closing import open_runs, row_cuts
from slicing.closing.answer import all_windows
from slicing.closing.answers import Answers
from slicing.closing.open_runs import PushedRuns, reported
from slicing.closing.panes import EARLY, LAST, LATE, ON_TIME, Panes
from slicing.closing.revise import windows_changed
from slicing.closing.settle import news
from slicing.closing.ways import Closing
from slicing.columns.order import distinct
from slicing.lifecycle.state import State
from slicing.reducing.batch import Rows
from slicing.storage.row_panes import RowPanes
from slicing.storage.session_store import store_for
from slicing.system.replace import but
from slicing.triggers import event_cuts, fired
from slicing.triggers.apart import put_apart, settle
from slicing.triggers.cells_by_report import CellsByReport
from slicing.windows.bounds import BEGIN, END


def admit(state: State, cells: Cells, changing: Cells, rows: Sequence[Rows]) -> list[Panes]:
    """Put cells into the store or apart from it. Returns the complete windows that late rows change, and panes at rows
    that need not wait."""
    panes = _admit(state, cells, changing)
    if state.plan.early.panes_of_rows:
        watermark = state.passed_time
        state.row_panes, more = row_cuts.arrived(state.plan, state.row_panes, rows, watermark)
        panes += more
    return panes


def _admit(state: State, cells: Cells, changing: Cells) -> list[Panes]:
    """Put cells into the store or apart from it. Returns the complete windows that late rows change."""
    plan, late = state.plan, []
    watermark = state.passed_time
    if len(changing) and state.watermark is not None and plan.revises:
        late = _late(state, changing)
    if plan.early.fires_runs:
        fresh = news(plan, merged(cells, changing, plan.lanes, plan.gaps) if len(changing) else cells)
        state.pushed = _beside(state, fresh)
        if not plan.early.keeps_apart:
            state.store = state.store.add(fresh)
            return late
    fires = bool(plan.early.fired_numbers)
    if fires:
        put_apart(state, cells, BEGIN)
    else:
        by_push = plan.early.keeps_reports and not plan.early.run_cuts  # with cuts of time any row is news
        state.store = state.store.going_on(news(plan, cells) if by_push else cells)
    if fires or plan.early.cut:
        put_apart(state, changing, watermark if plan.early.cut else BEGIN)
    elif len(changing):
        state.store = state.store.add(changing)
    return late


def _beside(state: State, cells: Cells) -> PushedRuns:
    """The cells for what each push reports of sessions and whole streams: all cells before it, and the new cells
    apart."""
    before = CellsByReport(state.plan, state.store, state.apart).store() if state.apart else state.store
    return PushedRuns(before, cells, state.passed_time)


def _late(state: State, changing: Cells) -> list[Panes]:
    """The complete windows that rows within the allowed lateness change."""
    plan = state.plan
    assert state.watermark is not None
    codes = distinct(changing.code)
    apart = [known.but(known.store.of_codes(codes)) for known in state.apart]
    store = CellsByReport(plan, state.store.of_codes(codes), apart).store()
    was, now, part = windows_changed(store, state.keys, changing, state.horizon, state.watermark)
    if plan.spec.emit == "parts":
        return [Panes.of(part, 0, LATE)]
    if plan.spec.emit == "updates":
        return [Panes.of(now, 0, LATE)]
    _, again = state.revisions.numbered(was, np.zeros(len(was), np.int64), BEGIN)
    state.revisions, _ = state.revisions.numbered(now, np.zeros(len(now), np.int64), state.horizon)
    timing = np.where(again > 0, LATE, ON_TIME)
    return [Panes(was, np.zeros(len(was), np.int64), timing), Panes.of(now, 1, LATE)]


def at_rows(state: State, reached: int, flush: bool) -> list[Panes]:
    """The panes at rows that the watermark passes."""
    if not state.plan.early.panes_of_rows:
        return []
    after = state.passed_time
    state.row_panes, panes = row_cuts.passed(state.plan, state.row_panes, after, END if flush else reached)
    return panes


def close(state: State, reached: int, after: int, until: int, flush: bool) -> list[Panes]:
    """The windows between edges that the watermark completes, and the panes at the cuts that it passes."""
    plan = state.plan
    if not (state.store.runs or state.apart):
        return []
    later: tuple[Cells, ...] = ()
    if plan.early.cut and plan.adds_up and not (flush or state.apart or plan.edges.irregular or plan.fill):
        older, newer = state.store.parted(reached)
        if older.runs:  # slices that the watermark has not reached are not read
            state.store, later = older, newer.runs
    kept = CellsByReport(plan, state.store, state.apart)
    closing = Closing(plan, kept.store(), state.keys, after, until)
    complete, state.filled = all_windows(closing, state.filled)
    if not kept.apart:
        kept.main = closing.store.consolidated()
    horizon = END - 1 if flush else reached - plan.lateness
    panes = event_cuts.at_cuts(kept, after, until, horizon) if plan.early.cut else []  # in order, for each window
    panes += _complete(state, kept, complete, after, until)
    if plan.early.run_cuts:
        state.reported, panes_of_runs = open_runs.at_cuts(
            plan, state.reported, closing.store.table(), state.keys, after, until
        )
        panes += panes_of_runs
    if plan.early.keeps_reports and state.reported:
        state.reported, more = open_runs.completed(plan, state.reported, closing.store.table(), state.keys, until)
        panes += more
    elif plan.early.fires_runs and state.fired and (flush or state.pushed is None):  # no push will take back reports
        before = PushedRuns(closing.store, plan.no_cells, state.passed_time)
        panes += reported(before, state.keys, None if flush else reached)
    _let_go(state, kept, reached, horizon, flush)
    state.store = but(state.store, runs=(*state.store.runs, *later)) if later else state.store
    return panes


def _complete(state: State, kept: CellsByReport, complete: Answers, after: int, until: int) -> list[Panes]:
    """The complete windows. For windows with triggers only what is new, or also what is replaced, as ``emit`` says."""
    plan, emit = state.plan, state.plan.spec.emit
    if emit == "updates" or plan.spec.trigger is None:
        return [Panes.of(complete, LAST, ON_TIME)]
    if emit == "changes":
        return [*_replaced(state, kept, complete, until), Panes.of(complete, 2 * LAST + 1, ON_TIME)]
    triggered = plan.early.cut_windows | plan.early.fired | plan.early.cut_by_rows
    panes = [row_cuts.on_time(plan, state.row_panes, until, LAST)] if plan.early.panes_of_rows else []
    panes += [Panes.of(complete.take(~triggered[complete.window]), LAST, ON_TIME)]
    return panes + fired.on_time(state, kept, after, until)


def _replaced(state: State, kept: CellsByReport, complete: Answers, until: int) -> list[Panes]:
    """The last reports of windows that are complete now, to be taken back."""
    plan = state.plan
    type = np.searchsorted(np.array(plan.timed, np.int64), complete.window)
    panes = event_cuts.replaced(kept, complete, type)
    if plan.early.panes_of_rows:
        was = row_cuts.completed(plan, state.row_panes, until, reported=True)
        panes.append(Panes.of(was, 2 * LAST, EARLY))
    return panes + fired.replaced(state, kept, complete, type)


def _let_go(state: State, kept: CellsByReport, reached: int, horizon: int, flush: bool) -> None:
    """Drop what no open window needs, and put what every trigger has reported into the store."""
    plan = state.plan
    if flush:
        state.store, state.apart = store_for(plan), ()
    elif plan.early.keeps_apart and not kept.apart:
        state.store, state.apart = kept.left(horizon), ()
    else:
        main, apart = (kept.main, kept.apart) if plan.early.keeps_apart else (kept.store(), [])
        state.store, *left = main.without_beside([known.store for known in apart], horizon)
        state.apart = tuple(known.but(store) for known, store in zip(apart, left, strict=True))
    if plan.early.panes_of_rows:
        state.row_panes = RowPanes.none(plan) if flush else state.row_panes.without(reached)
    if plan.spec.emit == "changes":  # otherwise `numbered` first counts what is emitted now
        state.revisions = state.revisions.without(horizon)
    settle(state, reached)
