"""Admit and close: merge cells into the store and keep rows; move the watermark, and answer windows that are complete.

Takes a draft of the state. Returns the answers, and the emitted windows that late rows have changed. On Spark this runs
where the keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.answer import all_windows
from slicing.closing.answers import Answers
from slicing.closing.fill import Filled, completes_empty
from slicing.closing.panes import Panes
from slicing.closing.postpone import Postponed, emitted
from slicing.closing.revise import revise
from slicing.closing.too_many import MOST_ROWS, check_due, out_of_memory
from slicing.closing.ways import Closing
from slicing.columns.values import NOWHERE
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.close import changed, closed, kept
from slicing.lifecycle.state import State
from slicing.stages.collect import Arrivals
from slicing.storage.session_store import SessionStore, store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.triggers import early, fired
from slicing.windows.bounds import BEGIN, END, FOREVER


class Changed(NamedTuple):
    """Emitted windows that late rows have changed."""

    revised: tuple[Answers, Ints] | None = None  # the changed windows of slices, with their marks
    older: KeyRows | None = None  # the rows kept before the push, if windows of kept rows may have changed
    panes: Sequence[Panes] = ()  # in plans with triggers: windows that are reported early, on time and late
    numbered: bool = False  # whether the panes have their revisions and include all answers
    fills: bool = False  # whether empty windows that the watermark has passed are known now


UNCHANGED = Changed()


def admit(state: State, new: Arrivals) -> Changed:
    """Merge cells into the store and keep rows. Returns the emitted windows that late rows change."""
    revised = older = None
    if state.plan.early.paned:
        fills = bool(state.plan.fill) and any(_completes_empty(state, cells) for cells in (new.cells, new.changing))
        rows = [rows for rows in (new.in_time, new.tardy) if rows is not None]
        panes = early.admit(state, new.cells, new.changing, rows)
        if state.plan.keeps_rows and new.in_time is not None:
            state.rows, older = kept(state.rows, new.in_time, new.tardy, state.watermark)
        return Changed(older=older, panes=panes, fills=fills)
    if len(new.changing.meta):
        waited = give_waiting(state, all_of_them=True)  # windows that a late row may change are emitted first
        if state.watermark is not None:
            found = revise(state.store, state.keys, state.revisions, new.changing, state.horizon, state.watermark)
            state.store, state.revisions, again, mark = found
            first = np.full(sum(map(len, waited)), -1 if state.plan.spec.emit == "changes" else 0)
            revised = Answers.together([*waited, again]), np.append(first, mark)
    fills = bool(state.plan.fill) and _completes_empty(state, new.cells)
    state.store = state.store.going_on(new.cells)  # cells of windows that close now need no merging
    if state.plan.keeps_rows and new.in_time is not None:
        state.rows, older = kept(state.rows, new.in_time, new.tardy, state.watermark)
    return Changed(revised, older, fills=fills) if revised or older is not None or fills else UNCHANGED


def _completes_empty(state: State, new: Cells) -> bool:
    return completes_empty(state.plan, state.filled, new, state.watermark)


def close(
    state: State, reached: int | None, change: Changed = UNCHANGED, flush: bool = False, quiet: bool = False
) -> tuple[list[Answers], Changed]:
    """Move the watermark. Returns the windows that it completes, and the emitted windows that late rows have changed.
    ``quiet``: the caller drops the answers, so cheaper steps that lead to the same state may be taken."""
    if reached is None:
        return [], change
    plan = state.plan
    after = BEGIN if state.watermark is None else state.watermark - plan.patience
    until = FOREVER if flush else reached - plan.patience
    parts: list[Answers] = []
    if state.plan.keeps_rows:
        if change.older is None:
            state.rows, parts = closed(state.rows, state.keys, after, until)
        else:
            state.rows, parts, gone = changed(state.rows, change.older, after, until)
            again, mark = change.revised or (Answers.none(state.plan), NOWHERE)
            again, mark = Answers.all_of(state.plan, [again, gone]), np.append(mark, np.zeros(len(gone), np.int64))
            change = change._replace(revised=(again, mark))
    if plan.early.paned:
        panes = early.at_rows(state, reached, flush)
        if change.fills or _may_close(state, after, until, flush):
            panes += early.close(state, reached, after, until, flush)
    else:
        others = None
        if plan.session_gaps and not (flush or plan.fill or state.watermark is None):
            assert isinstance(state.store, SessionStore)
            state.store, others = state.store.ending(after, until)  # cells of other keys are not read
        if state.store.runs and (change.fills or _may_close(state, after, until, flush)):
            parts = [*_answer(state, reached, after, until, flush, quiet), *parts]
        elif state.postponed:
            parts = [*give_waiting(state, flush), *parts]
        if others is not None:
            state.store = others.with_older_runs(state.store)
    if not flush:
        state.watermark = reached
    if plan.early.paned:
        change = change._replace(panes=[*change.panes, *(pane_in_full(state, pane) for pane in panes)])
    return in_full(state, parts) if plan.full else parts, change


def close_and_fire(
    state: State, reached: int | None, change: Changed = UNCHANGED, at_push: bool = True, quiet: bool = False
) -> tuple[list[Answers], Changed]:
    """Close, then add what triggers of pushes report."""
    answers, change = close(state, reached, change, quiet=quiet)
    return answers, fire(state, change, at_push) if state.plan.early.fires else change


def moved(state: State, reached: int | None, at_push: bool = True) -> tuple[list[Answers], Changed]:
    """Move the watermark without rows. A head stays as it is if nothing closes, which takes least memory."""
    if state.store.head is not None and not closes(state, reached):
        state.store.head.check()
        state.watermark = reached
        return in_full(state, give_waiting(state)), UNCHANGED
    state.fold_head()
    state.store = state.store.settled()
    return close_and_fire(state, reached, at_push=at_push)


def in_full(state: State, answers: list[Answers]) -> list[Answers]:
    """Drop windows with ``full=True`` that the data does not cover."""
    if not state.plan.full:
        return answers
    held = [_covered(state, some) for some in answers]
    return [some if mask.all() else some.take(mask) for some, mask in zip(answers, held, strict=True)]


def pane_in_full(state: State, pane: Panes) -> Panes:
    """As ``in_full``. No trigger reports such a window, so each is in one pane."""
    if not state.plan.full:
        return pane
    held = _covered(state, pane.answers)
    return Panes(pane.answers.take(held), pane.order[held], pane.timing[held])


def _covered(state: State, answers: Answers) -> Mask:
    """Whether the data covers each window, or the window need not be covered."""
    begun = END if state.oldest is None else state.oldest
    ends = [] if state.newest is None else [state.newest + state.plan.measure.least]
    until = max([*ends, *([] if state.watermark is None else [state.watermark])], default=END)
    covered: Mask = (answers.start >= begun) & (answers.end <= until)
    return covered | ~np.isin(answers.window, state.plan.full)


def fire(state: State, change: Changed, at_push: bool) -> Changed:
    """Add the panes of triggers that fire now. Triggers of pushes fire last."""
    windows = fired.due(state, at_push)
    return change._replace(panes=[*change.panes, *fired.fire(state, windows)]) if windows.any() else change


def _answer(state: State, reached: int, after: int, until: int, flush: bool, quiet: bool) -> list[Answers]:
    """Answer the windows that are due, or postpone them: behind windows that wait already, or because they exceed a
    push's share. Then drop cells that no open window needs; with sessions that takes all cells in one table."""
    plan, most = state.plan, None if flush else state.plan.policy.max_windows_per_push
    if plan.most_windows[0] > 1 and len(state.store) * plan.most_windows[0] > MOST_ROWS:
        check_due(plan, state.store.runs, after, until)
    closing = Closing(plan, state.store, state.keys, after, until)
    wait = bool(state.postponed) or not (most is None or (plan.adds_up and closing.most <= most))
    if not wait:
        try:
            answers, state.filled = all_windows(closing, state.filled, quiet)
        except MemoryError as error:
            raise out_of_memory(error) from None
    else:
        if not plan.adds_up:
            closing.table()
        state.postponed = (*state.postponed, Postponed(closing.store, after, until))
    horizon = END - 1 if flush else reached - plan.lateness
    state.store = store_for(plan) if flush else closing.store.without(horizon)
    if plan.revises:
        state.revisions = state.revisions.without(horizon)
    return give_waiting(state, flush) if wait else [answers]


def _may_close(state: State, after: int, until: int, flush: bool) -> bool:
    """Whether any window can be due or any cell be dropped. Most small pushes close nothing and should cost nothing."""
    plan = state.plan
    if flush or state.watermark is None or plan.edges.any_between(after, until):
        return True
    if plan.fill and plan.idle is not None:  # windows of a key that has been quiet are over before their edges
        return True
    lasts = [run.earliest_last for store in state.stores for run in store.runs] if plan.session_gaps else []
    if lasts and min(lasts) + plan.session_gaps[0] < until:
        return True
    return plan.revises and plan.edges.any_between(after - plan.lateness, until - plan.lateness)


def closes(state: State, reached: int | None) -> bool:
    """Whether the watermark passes an edge at which a window between edges may close."""
    if reached is None:
        return False
    patience = state.plan.patience
    return state.watermark is None or state.plan.edges.any_between(state.watermark - patience, reached - patience)


def give_waiting(state: State, all_of_them: bool = False) -> list[Answers]:
    """The oldest postponed windows: as many as a push may emit, or all of them."""
    if not state.postponed:
        return []

    def answering(store: Store, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
        return all_windows(Closing(state.plan, store, state.keys, after, until), filled)

    most = None if all_of_them else state.plan.policy.max_windows_per_push
    found = emitted(state.plan, state.postponed, state.keys, state.filled, most, answering)
    answers, state.postponed, state.filled = found
    return [answers]
