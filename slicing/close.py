"""The window manager: the watermark moves, the windows it closes are answered, and what no open window needs goes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slicing.answers import emit
from slicing.answers.answers import Answers
from slicing.answers.fill import Filled, by_instance, with_empty
from slicing.answers.postpone import Postponed, given_out
from slicing.answers.ways import Closing, quick_answers
from slicing.hot import fullest
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.close import closed
from slicing.plan import ENDLESS
from slicing.slices.cells import Cells
from slicing.slices.sessions import chains, runs
from slicing.state import State
from slicing.store import Store
from slicing.windows.bounds import BEGIN, END, FOREVER

Ints = npt.NDArray[np.int64]


def advance_to(
    state: State,
    reached: int | None,
    older: KeyRows | None = None,
    revised: tuple[Answers, Ints] | None = None,
    at_most: int | None = None,
    flush: bool = False,
) -> tuple[State, list[Answers], tuple[Answers, Ints] | None]:
    """Move the watermark and answer the windows it closes, of slices and of rows; with what late rows have changed."""
    rows, parts, gone = closed(state, older, reached, flush)
    state, answers = close(state.but(rows=rows), reached, flush, at_most)
    if len(answers):
        parts = [answers, *parts]
    if gone is not None:
        mark = np.zeros(len(gone), np.int64)
        revised = (
            (gone, mark)
            if revised is None
            else (
                Answers.together([revised[0], gone]),
                np.append(revised[1], mark),
            )
        )
    return state, parts, revised


def close(state: State, reached: int | None, flush: bool = False, at_most: int | None = None) -> tuple[State, Answers]:
    """Move the watermark and answer the windows it closes, and those that waited; the rest wait if there are more."""
    plan, previous = state.plan, BEGIN if state.watermark is None else state.watermark
    if reached is None:
        return state, Answers.none(plan)
    closed = state.but(watermark=reached)
    after = BEGIN if state.watermark is None else previous - state.patience
    until = FOREVER if flush else reached - state.patience
    due, quick, at_once, store = state.postponed, None, False, state.store
    if len(store) and _may_close(state, after, until, flush):
        closing = Closing(plan, store.runs, state.keys, after, until)
        at_once = not due and (at_most is None or (plan.adds_up and closing.most <= at_most))
        if at_once:
            quick = quick_answers(closing)
        if quick is None:
            store = store.consolidated() if at_once or not plan.adds_up else store
        if quick is None and not (at_once and at_most is None):
            due = (*due, Postponed(store, after, until))
        horizon = END - 1 if flush else closed.horizon
        closed = closed.but(
            fill=state.fill if state.keys is None else fullest(state),
            store=Store(plan) if flush else store.without(horizon),
            revisions=state.revisions.without(horizon),
        )

    def answered(store: Store, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
        share = None if at_once else quick_answers(Closing(plan, store.runs, state.keys, after, until))
        if share is not None:
            return share, filled
        table = store.consolidated().table()
        timed, filled = _time_windows(state, table, after, until, filled)
        parts = [p for p in (timed, *_run_windows(state, table, after, until)) if len(p)]
        return Answers.together(parts) if parts else Answers.none(plan), filled

    if quick is not None:
        return closed, quick
    if at_once and at_most is None:
        answers, filled = answered(store, after, until, state.filled)
        return closed.but(filled=filled), answers
    if not due:
        return closed, Answers.none(plan)
    answers, waiting, filled = given_out(plan, due, state.keys, state.filled, at_most, answered)
    return closed.but(filled=filled, postponed=waiting), answers


def stays_open(state: State, reached: int) -> bool:
    """Whether a watermark closes no window between edges."""
    if state.watermark is None:
        return False
    return not state.plan.edges.any_between(state.watermark - state.patience, reached - state.patience)


def _may_close(state: State, after: int, until: int, flush: bool) -> bool:
    """Whether anything can be due or dead: most small pushes close nothing and should cost nothing."""
    plan = state.plan
    if flush or plan.fill:
        return True
    if plan.session_gaps and min(r.earliest_last for r in state.store.runs) + plan.session_gaps[0] < until:
        return True
    if state.watermark is None:
        return True
    marks = (after, after - plan.lateness) if plan.spec.revises else (after,)
    return any(plan.edges.any_between(a, a + until - after) for a in marks)


def _time_windows(state: State, table: Cells, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
    """Windows between edges. With ``idle``, a key that has been quiet gives out all its windows now."""
    plan = state.plan
    if plan.idle is None:
        found = emit.time_answers(plan, table, state.keys, after, until)
        return with_empty(plan, found, filled, table, after, until)
    return by_instance(plan, runs(table, state.keys, chains(table, plan.idle)), filled, after, until)


def _run_windows(state: State, table: Cells, after: int, until: int) -> list[Answers]:
    """Windows that are runs of a key's rows: sessions, whole streams."""
    plan = state.plan
    found = []
    for session in plan.sessions:
        gap = plan.session_gaps[session.level]
        chained = chains(table, gap, table.level % plan.levels <= session.level)
        due = (after <= chained.end + gap) & (chained.end + gap < until)
        if due.any():
            found.append(emit.session_answers(plan, runs(table, state.keys, chained, due), session.window, session.gap))
    if plan.wholes and (until == FOREVER or plan.idle is not None):
        gap = int(ENDLESS) if plan.idle is None else plan.idle
        chained = chains(table, gap, table.level < plan.levels)
        over = None if plan.idle is None else chained.end + plan.idle < until
        streams = runs(table, state.keys, chained, over)
        found += [emit.session_answers(plan, streams, window, 0) for window in plan.wholes]
    return found
