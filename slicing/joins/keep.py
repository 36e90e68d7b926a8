"""Which right rows of an as-of join may still be chosen by a left row that waits or will come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.columns.key_marks import KeyMarks
from slicing.joins.pairs import Key, find, later
from slicing.joins.plan import JoinPlan, TwoSides
from slicing.joins.progress import Marks
from slicing.joins.sides import UNFIT, Done, Run, Side, not_done
from slicing.joins.within import RIGHT, Band
from slicing.kernels.band import latest_of_codes, least_of_codes
from slicing.system.arrays import LEAST, MOST, Array, Ints, Mask


def done_by_key(plan: TwoSides, side: int, marks: KeyMarks, codes: int) -> Done:
    """Which rows of this side are done, given the marks of keys of the other side."""
    until, some = np.full(codes, LEAST), np.zeros(codes, np.bool_)
    before = plan.within.below(side, marks.mark)
    until[marks.code] = np.where(before == MOST, MOST, np.maximum(before, LEAST + 1) - 1)
    some[marks.code] = before > LEAST
    return Done(until, some)


def chosen_still(
    plan: JoinPlan, left: Side, right: Side, marks: Marks, codes: int, of_keys: KeyMarks, due: bool
) -> list[Mask | None]:
    """For each run of the right side, which rows are kept; None means all rows.

    A row is evicted once the left watermark has passed its reach and no waiting left row reaches it. With
    ``match="last"`` a row is also evicted once every left row, waiting or to come, may choose a later row of its key.
    That takes a look at all rows, which is left out if it is not ``due``.
    """
    until = plan.within.done(RIGHT, marks.left)
    done = done_by_key(plan, RIGHT, of_keys, codes) if len(of_keys) else None
    masks = [_reached_or_later(plan, left, run, until, done) for run in right.runs]
    if (
        not due
        or plan.spec.match != "last"
        or marks.left is None
        or (plan.spec.where is not None and not plan.tests_right)
    ):
        return masks
    return [
        later if mask is None else mask & later
        for mask, later in zip(masks, _not_followed(plan, left, right, marks.left, codes, of_keys), strict=True)
    ]


def _reached_or_later(plan: JoinPlan, left: Side, run: Run, until: int | None, done: Done | None) -> Mask | None:
    """Rows that are not done (by time or by the mark of their key), and rows that a waiting left row reaches."""
    keep = not_done(run, until, done)
    if keep is None:
        return None
    passed = np.flatnonzero(~keep)
    found = find(plan.within, RIGHT, run.take(passed), np.arange(passed.size), left.runs)
    keep[passed[found.total > 0]] = True
    return keep


def _not_followed(plan: JoinPlan, left: Side, right: Side, mark: int, codes: int, of_keys: KeyMarks) -> list[Mask]:
    """Rows for which no later row of their key is a better choice for all left rows."""
    assert isinstance(plan.within, Band)
    after = plan.within.after
    least = np.full(codes, MOST if after is None else mark)
    if after is not None:
        least[of_keys.code] = np.maximum(least[of_keys.code], of_keys.mark)
        for run in left.runs:
            least_of_codes(run.code, run.time, least)
    best = [np.zeros(codes, np.int64) for _ in range(3)]  # time, sequence and name of the last row that is near enough
    there = np.zeros(codes, np.bool_)
    for run in right.runs:
        latest = np.full(codes, -1)
        behind = np.int64(0 if after is None else after)
        latest_of_codes(run.code, run.time, run.name, least, behind, right.flags, np.int64(right.base), UNFIT, latest)
        code = np.flatnonzero(latest >= 0)
        found = _order_of(run, latest[code])
        better = ~there[code] | later(found, _of(best, code))
        code = code[better]
        there[code] = True
        for known, new in zip(best, found, strict=True):
            known[code] = new[better]
    rows = [_order_of(run, slice(None)) for run in right.runs]
    return [~(there[run.code] & later(_of(best, run.code), own)) for run, own in zip(right.runs, rows, strict=True)]


def _order_of(run: Run, rows: Ints | slice) -> Key:
    time, name = run.time[rows], run.name[rows]
    return time, np.zeros(time.size, np.int64) if run.sequence is None else run.sequence[rows], name


def _of(best: Sequence[Ints], code: Array) -> Key:
    time, sequence, name = best
    return time[code], sequence[code], name[code]
