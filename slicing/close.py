"""The window manager: the watermark moves, the windows it closes are answered, and what no open window needs goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slicing.answers import emit
from slicing.answers.answers import Answers
from slicing.answers.fill import Filled, by_instance, with_empty
from slicing.answers.postpone import Postponed, given_out
from slicing.answers.too_many import check_due
from slicing.answers.ways import Closing, quick_answers
from slicing.columns.order import distinct
from slicing.columns.values import NOWHERE
from slicing.hot import fullest
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.close import changed, closed
from slicing.plan import ENDLESS
from slicing.slices.cells import Cells
from slicing.slices.sessions import chains, runs
from slicing.state import State
from slicing.store import Store
from slicing.windows.bounds import END, FOREVER

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
    plan, rows, parts = state.plan, state.rows, list[Answers]()
    if plan.keeps_rows and reached is not None:
        after, until = state.closing(reached, flush)
        if older is None:
            rows, parts = closed(rows, state.keys, after, until)
        else:
            rows, parts, gone = changed(rows, older, after, until)
            again, mark = (Answers.none(plan), NOWHERE) if revised is None else revised
            revised = Answers.all_of(plan, [again, gone]), np.append(mark, np.zeros(len(gone), np.int64))
        state = state.but(rows=rows)
    state, answers = close(state, reached, flush, at_most)
    return state, [answers, *parts], revised


def close(state: State, reached: int | None, flush: bool = False, at_most: int | None = None) -> tuple[State, Answers]:
    """Move the watermark and answer the windows it closes: at once, or they wait behind others or for a next share."""
    plan = state.plan
    if reached is None:
        return state, Answers.none(plan)
    after, until = state.closing(reached, flush)
    check_due(plan, state.store.runs, after, until)
    apart = None if flush else _concerned(state, after, until)
    if apart is None:
        return _close(state, reached, after, until, flush, at_most)
    theirs, others = apart
    state, answers = _close(state.but(store=theirs), reached, after, until, flush, at_most)
    return state.but(store=others.and_runs(state.store)), answers


def _concerned(state: State, after: int, until: int) -> tuple[Store, Store] | None:
    """With sessions, the cells of keys of which a window may end or leave, and those of all others: of many open
    sessions few end in a push (1 M of them, 500 rows: 177 -> 1.8 ms). What old slices of other keys could fuse waits.
    """
    plan, store = state.plan, state.store
    if not plan.session_gaps or plan.fill or state.watermark is None or not store.large:
        return None
    later = (0, plan.lateness) if plan.spec.revises else (0,)  # what was given out leaves so much later
    lasts = [(after - gap - o, until - gap - o) for gap in plan.session_gaps for o in later]
    slices = []
    if _edges_between(state, after, until):
        ends = distinct(np.concatenate([run.slice_ends for run in store.runs]))
        for due in (plan.edges.due(ends, after - o, until - o) for o in later):
            if due.end.size:
                slices.append((int(due.start.min()), int(due.end.max())))
    return store.apart(lasts, slices)


def _close(
    state: State, reached: int, after: int, until: int, flush: bool, at_most: int | None
) -> tuple[State, Answers]:
    plan = state.plan
    if not len(state.store) or not _may_close(state, after, until, flush):
        return give_waiting(state.but(watermark=reached), at_most)
    closing = Closing(plan, state.store.runs, state.keys, after, until)
    if state.postponed or not (at_most is None or (plan.adds_up and closing.most <= at_most)):
        store = state.store if plan.adds_up else state.store.consolidated()
        waiting = (*state.postponed, Postponed(store, after, until))
        return give_waiting(_let_go(state, store, reached, flush, postponed=waiting), at_most)
    quick = quick_answers(closing) if plan.adds_up else None
    if quick is not None:
        return _let_go(state, state.store, reached, flush), quick
    store = state.store.consolidated()
    answers, filled = _of_table(closing, store.table(), state.filled)
    return _let_go(state, store, reached, flush, filled=filled), answers


def give_waiting(state: State, at_most: int | None = None) -> tuple[State, Answers]:
    """Of the windows that were closed and wait the oldest, about ``at_most`` of them, or all."""

    def answering(store: Store, after: int, until: int, filled: Filled) -> tuple[Answers, Filled]:
        closing = Closing(state.plan, store.runs, state.keys, after, until)
        quick = quick_answers(closing) if state.plan.adds_up else None
        return _of_table(closing, store.consolidated().table(), filled) if quick is None else (quick, filled)

    if not state.postponed:
        return state, Answers.none(state.plan)
    answers, waiting, filled = given_out(state.plan, state.postponed, state.keys, state.filled, at_most, answering)
    return state.but(filled=filled, postponed=waiting), answers


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
    return state.watermark is None or _edges_between(state, after, until)


def _edges_between(state: State, after: int, until: int) -> bool:
    """Whether windows between edges can be due or dead."""
    plan = state.plan
    if plan.edges.any_between(after, until):
        return True
    return plan.spec.revises and plan.edges.any_between(after - plan.lateness, until - plan.lateness)


def _let_go(state: State, store: Store, reached: int, flush: bool, **changes: Any) -> State:
    """At the watermark reached, without what no open window needs. Of runs (sessions) this is seen only by all cells in
    one."""
    horizon = END - 1 if flush else reached - state.plan.lateness
    left, revisions = Store(state.plan) if flush else store.without(horizon), state.revisions.without(horizon)
    return state.but(watermark=reached, store=left, revisions=revisions, fill=fullest(state), **changes)


def _of_table(closing: Closing, table: Cells, filled: Filled) -> tuple[Answers, Filled]:
    """All windows that close, of all the cells."""
    timed, filled = _time_windows(closing, table, filled)
    found = [timed, *_run_windows(closing, table)]
    if all(part.ordered for part in found):
        return Answers.in_turn(closing.plan, found), filled
    return Answers.all_of(closing.plan, found), filled


def _time_windows(closing: Closing, table: Cells, filled: Filled) -> tuple[Answers, Filled]:
    """Windows between edges. With ``idle``, a key that has been quiet gives out all its windows now."""
    plan, keys, after, until = closing.plan, closing.keys, closing.after, closing.until
    if plan.idle is None:
        beside = plan.slices_add_up and not plan.adds_up  # else it was asked before
        quick = quick_answers(replace(closing, runs=(table,))) if beside and len(table) else None
        found = emit.time_answers(plan, table, keys, after, until) if quick is None else quick
        return with_empty(plan, found, filled, table, after, until)
    return by_instance(plan, runs(table, keys, chains(table, plan.idle)), filled, after, until)


def _run_windows(closing: Closing, table: Cells) -> list[Answers]:
    """Windows that are runs of a key's rows: sessions, whole streams."""
    plan, keys, after, until = closing.plan, closing.keys, closing.after, closing.until
    found = []
    for session in plan.sessions:
        gap = plan.session_gaps[session.level]
        chained = chains(table, gap, table.level % plan.levels <= session.level)
        due = (after <= chained.end + gap) & (chained.end + gap < until)
        if due.any():
            found.append(emit.session_answers(plan, runs(table, keys, chained, due), session.window, session.gap))
    if plan.wholes and (until == FOREVER or plan.idle is not None):
        gap = ENDLESS if plan.idle is None else plan.idle
        alive = None if plan.idle is None else table.level % plan.levels < len(plan.session_gaps)
        chained = chains(table, gap, alive)  # a row too late for whole() is news of its key all the same
        over = None if plan.idle is None else chained.end + plan.idle < until
        of_whole = replace(chained, run=np.where(table.level < plan.levels, chained.run, -1))
        streams = runs(table, keys, of_whole, over)
        found += [emit.session_answers(plan, streams, window, 0) for window in plan.wholes]
    return found
