"""What triggers of pushes report: ``each_push``, ``every_processing_time`` and ``by_hand``.

``due`` says which windows fire at the end of a push. ``fire`` returns the panes of windows that have news, and notes in
the state that they have fired. A window between edges has news if cells apart from the store came after its trigger
last fired. For windows that complete before their trigger fires again, ``on_time`` returns the news, and ``replaced``
the last reports; both only read the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slicing.cells.table import Cells
from slicing.closing import open_runs
from slicing.closing.answers import Answers
from slicing.closing.open_runs import reported
from slicing.closing.panes import EARLY, LAST, ON_TIME, Panes
from slicing.closing.settle import news
from slicing.columns.order import distinct
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.processing_time import microseconds
from slicing.query.spec import Spec
from slicing.query.triggers import EachPush, EveryProcessingTime, Trigger
from slicing.system.arrays import Ints, Mask
from slicing.triggers.apart import settle
from slicing.triggers.cells_by_report import CellsByReport
from slicing.triggers.news import Found, news_by_push

FEW = 8  # with news of fewer than an eighth as many cells as there are, these keys are looked at separately


class Group(NamedTuple):
    """Windows, by number, whose triggers last fired at the same time."""

    windows: Mask
    fired: int

    def types(self, plan: Plan) -> Mask:
        """The windows as a mask of types of windows between edges."""
        return self.windows[np.array(plan.timed, np.int64)]

    def since(self, kept: CellsByReport) -> list[int]:
        """The cells apart that came after the triggers fired."""
        return [at for at, known in enumerate(kept.apart) if known.epoch > self.fired]

    def before(self, kept: CellsByReport) -> list[int]:
        """The cells apart that the triggers have reported."""
        return [at for at, known in enumerate(kept.apart) if known.epoch <= self.fired]


def due(state: State, at_push: bool) -> Mask:
    """The windows, by number, whose triggers fire now by themselves."""
    plan, now = state.plan, []
    for name in plan.names:
        trigger = plan.spec.trigger_of(name)
        parts = () if trigger is None else trigger.parts()
        now.append((at_push and EachPush() in parts) or any([_passed(state, name, part) for part in parts]))
    return np.array(now, np.bool_)


def _passed(state: State, name: str, trigger: Trigger) -> bool:
    """Whether the clock says that the trigger is due again."""
    if not isinstance(trigger, EveryProcessingTime):
        return False
    state.fired_at, passed = _asked(state.fired_at, name, trigger)
    return passed


def _asked(fired_at: dict[str, int], name: str, trigger: EveryProcessingTime) -> tuple[dict[str, int], bool]:
    """When a clock last fired each window, and whether it fires this one now. The first call starts the clock."""
    now, since = microseconds(trigger.clock), fired_at.get(name)
    if since is not None and 0 <= now - since < trigger.span.ns // 1000:
        return fired_at, False
    return fired_at | {name: now}, since is not None and since <= now  # a clock that was set back starts again


def fired_before_rows(spec: Spec, fired_at: dict[str, int]) -> dict[str, int]:
    """When a clock last fired each window, after an ``advance`` before the first push."""
    for name, trigger in spec.triggers().items():
        for part in trigger.parts():
            if isinstance(part, EveryProcessingTime):
                fired_at, _ = _asked(fired_at, name, part)
    return fired_at


def fire(state: State, windows: Mask) -> list[Panes]:
    """Report the open windows of these numbers that have rows since their triggers last fired."""
    plan, panes, pushed = state.plan, list[Panes](), state.pushed
    after = state.passed_time
    keeps = plan.early.keeps_reports
    if pushed is not None and not keeps:
        panes, state.pushed = reported(pushed, state.keys, after), None
    kept, few = None, None if keeps else _few_with_news(state, windows)
    if few is not None:
        apart = [known.but(known.store.of_codes(few)) for known in state.apart]
        kept = CellsByReport(plan, state.store.of_codes(few), apart)
    elif keeps or state.apart:
        kept = CellsByReport(plan, state.store, state.apart)  # which puts all cells together
    if kept is not None:
        if keeps:
            state.reported, panes = open_runs.fired(plan, state.reported, kept.table(), state.keys, windows, after)
        for group in _groups(state):
            firing = group.windows & windows
            pieces = [cells for at in group.since(kept) if len(cells := news(plan, kept.table_of(at)))]
            if firing.any() and pieces:
                panes += _fired(state, kept, group._replace(windows=firing), pieces, after)
    state.fired = state.fired | {plan.names[i]: state.epoch for i in np.flatnonzero(windows).tolist()}
    state.epoch += 1
    settle(state, after, kept if few is None else None)
    return panes


def _few_with_news(state: State, windows: Mask) -> Ints | None:
    """The codes of keys that have news for triggers that fire now. None: they are many."""
    fired = min([state.fired.get(state.plan.names[i], -1) for i in np.flatnonzero(windows).tolist()], default=-1)
    fresh = [run.code for known in state.apart if known.epoch > fired for run in known.store.runs]
    if not fresh or sum(map(len, fresh)) * FEW > len(state.store):
        return None
    return distinct(np.concatenate(fresh))


def _fired(state: State, kept: CellsByReport, group: Group, pieces: Sequence[Cells], after: int) -> list[Panes]:
    """The panes of a group that fires now. ``pieces``: its cells with news."""
    plan, emit = state.plan, state.plan.spec.emit
    found = news_by_push(plan, pieces, group.types(plan), after)
    if emit == "parts":
        return [Panes.of(found.parts(plan, pieces), 0, EARLY)]
    end = found.by_key(found.end)
    now, _ = found.up_to(plan, kept.table(), end)
    if emit == "updates":
        return [Panes.of(now, 0, EARLY)]
    was, _ = found.up_to(plan, kept.table(group.before(kept)), end)
    return [Panes.of(was, 0, EARLY), Panes.of(now, 1, EARLY)]


def on_time(state: State, kept: CellsByReport, after: int, until: int) -> list[Panes]:
    """The parts of windows that are complete now, of rows that no trigger has reported."""
    plan, panes = state.plan, list[Panes]()
    for group in _groups(state):
        pieces = [kept.table_of(at) for at in group.since(kept)]
        if pieces:
            found = news_by_push(plan, pieces, group.types(plan), after, until)
            panes.append(Panes.of(found.parts(plan, pieces), LAST, ON_TIME))
    return panes


def replaced(state: State, kept: CellsByReport, complete: Answers, type: Ints) -> list[Panes]:
    """The last reports of windows that are complete now, to be taken back. ``type``: the type of each window."""
    plan, panes = state.plan, list[Panes]()
    for group in _groups(state):
        of_group = np.flatnonzero(group.windows[complete.window] & np.isin(complete.window, plan.timed))
        if of_group.size and group.fired >= 0:
            found = Found.whole(complete, of_group, type[of_group])
            was, _ = found.up_to(plan, kept.table(group.before(kept)), found.by_key(found.end))
            panes.append(Panes.of(was, 2 * LAST, EARLY))
    return panes


def _groups(state: State) -> list[Group]:
    """The windows between edges with triggers of pushes, grouped by when they last fired."""
    plan, found = state.plan, dict[int, Mask]()
    for number in plan.early.fired_numbers:
        at = state.fired.get(plan.names[number], -1)
        found.setdefault(at, np.zeros(len(plan.names), np.bool_))[number] = True
    return [Group(found[at], at) for at in sorted(found)]
