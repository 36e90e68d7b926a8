"""A state in which some keys are ahead of the stream by their own marks (group-wise punctuation).

The keys of one mark are a *group*: a state in addition to the stream's state, with its own watermark and the same codes
and ranks. A key moves to its group when it is marked, and back once the stream's watermark has reached the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicing.closing.revise import Revisions
from slicing.columns.key_marks import KeyMarks
from slicing.kept_rows.remembered import highest_of
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import MOST, Ints, Mask
from slicing.windows.bounds import BEGIN, END

ENDED = END  # the watermark of keys that get no more rows


def as_watermarks(plan: Plan, mark: Ints) -> Ints:
    """Convert marks to watermarks. If all windows begin and end at edges, nothing closes and nothing becomes late
    between two edges. So all keys with marks between the same two edges are one group."""
    regular = plan.edges.regular
    if regular is None or plan.keeps_rows or plan.session_gaps or plan.wholes:
        return np.where(mark == MOST, ENDED, mark)
    (every, phase), late = regular, plan.lateness
    floored = mark - (mark - phase) % every
    if late:
        floored = np.maximum(floored, (mark - late) - (mark - late - phase) % every + late)
    return np.where(mark == MOST, ENDED, floored)


def homes(state: State) -> list[State]:
    """The state of the keys without marks, and each group. Groups get the keys, values and times of the last batch."""
    shared = {
        "keys": state.keys,
        "pools": state.pools,
        "arrived": state.arrived,
        "given": state.given,
        "newest": state.newest,
        "oldest": state.oldest,
    }
    return [state, *(group.but(**shared) for group in state.groups)]


def home_of(state: State, found: Sequence[State]) -> Ints:
    """Which of :func:`homes` each key is in, by code. -1: the key has ended."""
    assert state.keys is not None
    out = np.zeros(len(state.keys), np.int64)
    watermarks = np.array([group.watermark for group in found[1:]], np.int64)
    reached = as_watermarks(state.plan, state.marks.mark)
    out[state.marks.code] = np.where(reached == ENDED, -1, 1 + np.searchsorted(watermarks, reached))
    return out


def parted(state: State, mask: Mask) -> tuple[State, State]:
    """Split a state into the keys in ``mask`` (by code) and the other keys."""
    return _some(state, mask), _some(state, ~mask)


def _some(state: State, mask: Mask) -> State:
    runs = (run if (held := mask[run.code]).all() else run.take(held) for run in state.store.runs)
    store = replace(state.store, runs=tuple(run for run in runs if len(run)))
    rows = state.rows
    if state.plan.keeps_rows:
        rows = rows.recoded(np.where(mask, np.arange(mask.size), -1))
    filled = {k: np.where(mask[: last.size], last, BEGIN) for k, last in state.filled.items()}
    revisions = state.revisions.take(mask[state.revisions.code])
    return state.but(store=store, rows=rows, filled=filled, revisions=revisions)


def together(states: Sequence[State]) -> State:
    """Join states of different keys, at the same watermark and in the same codes. The first state gets all keys."""
    first = states[0]
    store, rows, filled = first.store, first.rows, first.filled
    for other in states[1:]:
        store = store.with_runs(other.store.runs)
        rows = rows.beside(other.rows) if first.plan.keeps_rows else rows
        filled = highest_of(filled, other.filled, BEGIN)
    return first.but(store=store, rows=rows, filled=filled, revisions=Revisions.of(state.revisions for state in states))


def without_passed(plan: Plan, marks: KeyMarks, watermark: int | None) -> KeyMarks:
    """Drop marks that the stream's watermark has reached."""
    if watermark is None or not len(marks):
        return marks
    ahead = as_watermarks(plan, marks.mark) > watermark
    return marks if ahead.all() else marks.taken(ahead)
