"""The panes of a push as rows of the result, with their revisions.

Panes come with their order among the reports of one window and key in one push. ``numbered`` replaces it by the
revision, which goes on over pushes: ``State.revisions`` has how often each window was emitted. For "changes" the order
stays, as it says which rows are taken back. ``rows_of`` makes the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicing.closing import results
from slicing.closing.answers import Answers
from slicing.closing.panes import LAST, LATE, ON_TIME, Panes
from slicing.closing.revise import Revisions
from slicing.columns.order import none
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import Ints


def numbered(
    state: State, answers: Sequence[Answers], revised: tuple[Answers, Ints] | None, panes: Sequence[Panes]
) -> Panes:
    """All panes of a push, with revisions in place of their order, and the windows of kept rows."""
    plan = state.plan
    last = LAST if plan.spec.emit != "changes" else 2 * LAST + 1
    panes = [*panes, *(Panes.of(some, last, ON_TIME) for some in answers)]
    if revised is not None:
        again, mark = revised
        panes.append(Panes(again, mark, np.where(mark == 0, ON_TIME, LATE)))
    found = together(plan, panes)
    if plan.spec.emit != "changes" and len(found.answers):
        state.revisions, order = _counted(state, found)
        found = Panes(found.answers, order, found.timing)
    return found


def _counted(state: State, panes: Panes) -> tuple[Revisions, Ints]:
    """The revisions after these panes, and each pane's revision."""
    plan, answers = state.plan, panes.answers
    if not plan.bound_rows:
        return state.revisions.numbered(answers, panes.order, state.horizon)
    # windows of kept rows are emitted once, and several may be equal
    counted = ~np.isin(answers.window, [window.number for window in plan.bound_rows.values()])
    revision = np.zeros(len(answers), np.int64)
    some, order = answers.take(counted), panes.order[counted]
    revisions, revision[counted] = state.revisions.numbered(some, order, state.horizon)
    return revisions, revision


def rows_of(state: State, panes: Sequence[Panes]) -> pa.Table:
    """Numbered panes as a table."""
    plan, found = state.plan, together(state.plan, panes)
    if not len(found.answers):
        return plan.no_windows
    return results.of_panes(plan, state.keys, state.pools, *found)


def together(plan: Plan, panes: Sequence[Panes]) -> Panes:
    """Several panes as one value."""
    some = [found for found in panes if len(found.answers)]
    if len(some) <= 1:
        return some[0] if some else Panes(Answers.none(plan), none(), none())
    order, timing = (np.concatenate([getattr(found, name) for found in some]) for name in ("order", "timing"))
    return Panes(Answers.together([found.answers for found in some]), order, timing)
