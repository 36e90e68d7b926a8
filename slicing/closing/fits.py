"""Refuses rows in windows whose bounds the type of the time column cannot hold, before they are in the state.

If such rows were accepted, each later push that closes their windows would fail.
"""

from __future__ import annotations

import numpy as np

from slicing.columns.values import NOWHERE
from slicing.query.plan import Plan
from slicing.times.durations import MAX_WORD
from slicing.windows.bounds import BEGIN
from slicing.windows.context_free import BoundUser


def check_fits(plan: Plan, low: int, high: int, horizon: int) -> None:
    """Raise if a window that ends after ``horizon`` and holds a row at ``low`` or at ``high`` has such a bound."""
    least, most = plan.measure.range
    if not (plan.edges.irregular or plan.since):
        edge = plan.edges.next_live(np.array([high]), BEGIN)
        for number, bound in zip(plan.timed, plan.bounds, strict=True):
            if number in plan.full:  # see check_full
                continue
            start = low if bound.open_start else bound.first_live_start(max(low, horizon))
            if start < least:
                raise ValueError(_unfit(plan, low, number, "begins", start))
            end = bound.end_with(int(edge[0]))
            if end > most:
                raise ValueError(_unfit(plan, high, number, "ends", end))
    for number, bound in zip(plan.timed, plan.bounds, strict=True) if not plan.since else ():
        if isinstance(bound, BoundUser) and (least > -MAX_WORD or most < MAX_WORD):
            start, end = bound.reach(low, high, horizon)
            if start < least:
                raise ValueError(_unfit(plan, low, number, "begins", start))
            if end > most:
                raise ValueError(_unfit(plan, high, number, "ends", end))
    for session in plan.sessions:
        if high + session.gap > most:
            raise ValueError(_unfit(plan, high, session.window, "ends", high + session.gap))
    for window in plan.bound_rows.values():
        end = window.latest_end(high)
        if end > most:
            raise ValueError(_unfit(plan, high, window.number, "ends", end))


def check_full(plan: Plan, oldest: int, newest: int) -> None:
    """Raise if a window that the data covers from ``oldest`` to ``newest`` ends after the last time of the column."""
    end = newest + plan.measure.least
    if end <= plan.measure.range[1]:
        return
    for number, bound in zip(plan.timed, plan.bounds, strict=True):
        ends = bound.ends_in(np.array([newest]), np.array([end])) if number in plan.full else NOWHERE
        if ends.size and bound.start_of(ends)[0] >= oldest:
            raise ValueError(_unfit(plan, newest, number, "ends", end))


def _unfit(plan: Plan, time: int, number: int, what: str, bound: int) -> str:
    return (
        f"time column {plan.spec.time!r} holds {plan.measure.value(time)}, and a window {plan.names[number]!r} of this "
        f"row {what} at {bound}, which a column of type {plan.measure.type} cannot hold: cast the column to int64"
    )
