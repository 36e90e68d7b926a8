"""Empty windows, for windows with ``fill=True``: all windows between a key's first and last row.

An empty window is complete at its end like any other window, once a later row of its key is known. Little is remembered
for this: for each code (of a quiet key too, unless the spec has ``idle``) the end of the last emitted window.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slicing.cells.blocks import identity
from slicing.cells.sessions import Runs
from slicing.cells.table import Cells
from slicing.closing import emit
from slicing.closing.answers import Answers
from slicing.closing.too_many import check_filled
from slicing.columns.order import changes
from slicing.kernels.cells import CODE
from slicing.query.plan import Plan
from slicing.system.arrays import MOST, Ints
from slicing.windows.bounds import BEGIN, FOREVER

Filled = dict[int, Ints]  # number of the time window -> end of the last emitted window, by code (BEGIN: none yet)


def with_empty(
    plan: Plan, answers: Answers, filled: Filled, table: Cells, after: int, until: int
) -> tuple[Answers, Filled]:
    """Add the empty windows with ``after < end <= until``. ``answers`` have rows; ``table`` has all live cells."""
    if not plan.fill or not len(table):
        return answers, filled
    parts, given = [answers], dict(filled)
    codes = int(table.code.max()) + 1
    for k in plan.fill:
        number, bound = plan.timed[k], plan.bounds[k]
        of_window = answers.take(answers.window == number)
        since = plan.since.get(plan.names[number], BEGIN)
        if since > BEGIN:  # added while the stream ran: a key begins with its first row from this edge on
            first = np.full(codes, MOST, np.int64)
            np.minimum.at(first, table.code, np.where(table.end > since, table.end, MOST))
            of_window = of_window.take(first[of_window.code] <= of_window.end)
        # windows that ended by `after` are in `filled`; slices kept longer for other types say nothing about this type
        newest, held_until = np.full(codes, BEGIN, np.int64), bound.last_end(table.end)
        held = (held_until > after) & (table.end > since)
        np.maximum.at(newest, table.code, np.where(held, held_until, BEGIN))
        last = _resized(filled.get(k), codes)
        first_answer = np.full(codes, MOST, np.int64)
        np.minimum.at(first_answer, of_window.code, of_window.end)
        lower = np.where(last[:codes] > BEGIN, last[:codes], first_answer)
        growing = np.flatnonzero((lower < MOST) & (newest > BEGIN))
        if not growing.size:
            continue
        lower, upper = lower[growing], np.minimum(newest[growing], until)
        count = bound.count_ends(lower, upper)
        check_filled(plan.names[number], int(count.sum(dtype=float)))
        empty = np.ones(int(count.sum()), np.bool_)
        place = np.full(max(codes, last.size), -1)
        place[growing] = np.arange(growing.size)
        at, ends = place.take(of_window.code), of_window.end
        inside = (at >= 0) & (ends > lower.take(at)) & (ends <= upper.take(at))
        at, ends = at[inside], ends[inside]
        if at.size:
            empty[(np.cumsum(count) - count).take(at) + bound.count_ends(lower.take(at), ends) - 1] = False
        end, code = bound.ends_in(lower, upper)[empty], np.repeat(growing, count)[empty]
        blocks = tuple(identity(lane, end.size) for lane in plan.lanes)
        parts.append(Answers(np.full(end.size, number, np.int64), bound.start_of(end), end, code, blocks))
        np.maximum.at(last, of_window.code, of_window.end)
        np.maximum.at(last, code, end)
        given[k] = last
    return Answers.together(parts), given


def completes_empty(plan: Plan, filled: Filled, new: Cells, watermark: int | None) -> bool:
    """Whether the windows before these new cells of a key, back to its last emitted one, end before the watermark: they
    are complete now, although the watermark may pass no end."""
    if watermark is None or not len(new):
        return False
    for k, last in filled.items():
        code = new.code
        known = code < last.size
        lower, end = last.take(code[known]), plan.bounds[k].last_end(new.end[known])
        seen = lower > BEGIN
        if not seen.any():
            continue
        upper = np.minimum(end[seen], watermark - plan.patience)
        if (plan.bounds[k].count_ends(lower[seen], np.maximum(upper, lower[seen])) > 0).any():
            return True
    return False


def by_instance(plan: Plan, instances: Runs, filled: Filled, after: int, until: int) -> tuple[Answers, Filled]:
    """Time windows of a spec with ``idle``: each run of a key's rows counts as a key of its own.

    All windows of a run that is over are emitted now, and what was remembered for its key is forgotten.
    """
    assert plan.idle is not None
    code_of, runs = instances.code, np.arange(instances.first.size)
    over = instances.end() + plan.idle < until
    numbered = Runs(
        instances.cells.with_meta(CODE, np.repeat(runs, instances.last - instances.first)),
        instances.first,
        instances.last,
    )
    # only the first run of a key can continue with windows emitted before
    first_of_key = changes(code_of)
    by_run = {}
    for k, last in filled.items():
        by_run[k] = np.where(first_of_key, _resized(last, int(code_of.max(initial=0)) + 1)[code_of], BEGIN)
    parts = []
    for which, last_end in ((over, FOREVER), (~over, until)):
        chosen = numbered.chosen(which)
        found = emit.instance_answers(plan, chosen, after, last_end)
        found, by_run = with_empty(plan, found, by_run, chosen.cells, after, last_end)
        parts.append(found)
    answers = Answers.together(parts)
    given = dict(filled)
    for k, last in by_run.items():
        kept = _resized(given.get(k), int(code_of.max(initial=0)) + 1)
        kept[code_of] = BEGIN
        # of a key's runs that go on, only the first may have emitted windows
        np.maximum.at(kept, code_of[~over], _resized(last, runs.size)[: runs.size][~over])
        given[k] = kept
    return replace(answers, code=code_of[answers.code], ordered=False), given


def _resized(last: Ints | None, size: int) -> Ints:
    """A copy with room for ``size`` codes."""
    known = np.empty(0, np.int64) if last is None else last
    return np.append(known, np.full(max(size - known.size, 0), BEGIN, np.int64))
