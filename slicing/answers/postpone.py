"""Postponed windows: a large flush spread over the pushes that follow (``Operator(spec, max_windows_per_push=n)``).

Windows that are due but not given out are kept with the cells as they were when they closed, a table that nothing
changes any more. So a postponed window is closed like any other: no later row reaches it, and the store goes on
without waiting. Each push takes the next keys of the oldest flush, as many as its share of windows allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slicing.answers.answers import Answers
from slicing.answers.fill import Filled
from slicing.plan import Plan
from slicing.slices.cells import Cells
from slicing.store import Store

Ints = npt.NDArray[np.int64]
Answering = Callable[[Cells, int, int, Filled], tuple[Answers, Filled]]


@dataclass(frozen=True)
class Postponed:
    """The windows with ``after < end <= until`` of a consolidated store, for codes from ``code`` on."""

    store: Store
    after: int
    until: int
    code: int = 0

    def rest(self) -> Postponed:
        """The same without the cells that are not needed any more."""
        return replace(self, store=self.store.only(self.store.table().code >= self.code), code=0)

    def recoded(self, code: Ints) -> Postponed:
        return replace(self, store=self.store.recoded(code))


def given_out(
    plan: Plan, waiting: tuple[Postponed, ...], filled: Filled, room: int | None, answering: Answering
) -> tuple[Answers, tuple[Postponed, ...], Filled]:
    """The oldest windows that wait, about ``room`` of them or all; and those that wait on.

    What cannot be taken apart comes whole: the windows of one key that end together.
    """
    parts: list[Answers] = []
    while waiting and (room is None or room > 0):
        part, rest = _share(plan, waiting[0], room)
        waiting = (*rest, *waiting[1:])
        table = part.store.table()
        if not len(table):
            continue
        answers, filled = answering(table, part.after, part.until, filled)
        parts.append(answers)
        room = None if room is None else room - len(answers)
    parts = [part for part in parts if len(part)]
    return Answers.together(parts) if parts else Answers.none(plan), waiting, filled


def _share(plan: Plan, whole: Postponed, room: int | None) -> tuple[Postponed, tuple[Postponed, ...]]:
    """What about ``room`` windows are, and the rest."""
    table = whole.store.table()
    if room is None:
        return (whole.rest() if whole.code else whole), ()
    windows = plan.edges.due(np.unique(table.end), whole.after, whole.until)
    due = np.sort(np.repeat(windows.end, plan.shares[windows.type]))
    # a key that was idle gives out all its windows at once
    if due.size > room and due[room - 1] < due[-1] and plan.idle is None:
        cut = int(due[room - 1])
        first, rest = _share(plan, replace(whole, until=cut), room)
        return first, (*rest, replace(whole, after=cut))
    until = whole.code + max(room // max(due.size + len(plan.sessions), 1), 1)
    mine = (table.code >= whole.code) & (table.code < until)
    rest = (replace(whole, code=until),) if (table.code >= until).any() else ()
    return replace(whole, store=whole.store.only(mine)), rest
