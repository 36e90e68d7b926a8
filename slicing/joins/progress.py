"""The watermarks of both sides and of the output, all as plain integers in ticks of the common time."""

from __future__ import annotations

from typing import NamedTuple

from slicing.joins.plan import JoinPlan, TwoSides
from slicing.joins.spec import LEFT_ALONE, RIGHT_ALONE
from slicing.joins.within import Band, Windows
from slicing.query.given_watermarks import later
from slicing.system.arrays import LEAST, MOST


class Marks(NamedTuple):
    """The watermarks by which rows of each side are judged; None while nothing is known."""

    left: int | None = None
    right: int | None = None


def effective(plan: TwoSides, left: int | None, right: int | None) -> Marks:
    """The watermarks that count, after ``idle`` (most delay of a silent side) and ``progress="least"`` (the lesser)."""
    if plan.idle is not None:
        left, right = (
            later(own, None if other is None else other - plan.idle) for own, other in ((left, right), (right, left))
        )
    if plan.common_spec.progress == "least":
        left = right = None if left is None or right is None else min(left, right)
    return Marks(*(None if mark is None else max(LEAST, min(MOST, mark)) for mark in (left, right)))


def reached(plan: JoinPlan, marks: Marks) -> int | None:
    """The watermark of the output: no later result has an event time before it."""
    left, right = marks
    if left is None or right is None:
        return None
    within = plan.within
    found = _of_band(plan, left, right) if isinstance(within, Band) else _of_windows(plan, within, left, right)
    return None if found is None or found < LEAST else min(found, MOST)


def _of_band(plan: JoinPlan, left: int, right: int) -> int | None:
    band, spec, about = plan.within, plan.spec, plan.spec.speaks_about
    assert isinstance(band, Band)
    before, after = band.before, band.after
    if after is None:
        return None
    alone = min(left, right - after)  # left rows without a partner, and all left rows with `match`
    if spec.matches:
        if about == "left":
            return alone
        if about == "max":
            ahead = 0 if before is None else max(0, -before)
            return alone if spec.how == "left" else alone + ahead
        if before is None:
            return None
        return alone - before if about == "right" else alone - max(0, before)
    assert before is not None
    right_alone = min(right, left - before)
    if about == "left":
        return alone
    if about == "right":
        return right_alone
    if about == "max":
        bounds = [left + max(0, -before), right + max(0, -after)]
    else:
        bounds = [left - max(0, before), right - max(0, after)]
    return min(bounds + _of_lonely(plan, alone, right_alone))


def _of_windows(plan: JoinPlan, within: Windows, left: int, right: int) -> int:
    about, floor = plan.spec.speaks_about, within.floor
    alone, right_alone = min(left, floor(right)), min(right, floor(left))
    if about == "left":
        return alone
    if about == "right":
        return right_alone
    if about in ("min", "window"):
        return min(floor(left), floor(right))
    bounds = [left, right]
    return min(bounds + _of_lonely(plan, alone, right_alone))


def _of_lonely(plan: JoinPlan, left: int, right: int) -> list[int]:
    """The times that rows without a partner hold the output's watermark back to."""
    how = plan.spec.how
    return ([left] if how in LEFT_ALONE else []) + ([right] if how in RIGHT_ALONE else [])
