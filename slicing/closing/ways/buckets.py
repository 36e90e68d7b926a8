"""Buckets: one partial for each window and key, Li's window ids. Each cell is put into all windows that hold it.

That is done when windows close, not when rows come. So the only state is slices, which any windows share, and there is
no pass over keys and windows that mostly have nothing to do with each other. For sparse keys it is up to 50x faster
than one table.

A store that keeps such partials in place of slices was tried and removed: it needs as many combinations, but for each
row as it comes. M rows/s with slices / with such a store, for 1000 keys, windows of 60 s and pushes of 10,000 rows:

    one row per key in 20 s     16.2 / 12.3 (a window every 60 s), 8.3 / 4.1 (every 20 s), 3.4 / 1.1 (every 6 s)
    one row per key in 200 s    8.5 / 4.9, 4.9 / 1.7, 1.9 / 0.6

Of 90 such points (100 k keys, pushes of 1000 and 100,000 rows, a row every 20 to 6000 s) it was faster in two, by 14
and 17 %: windows that do not overlap, 10 rows in each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.cells.combining import AUTO, BUCKETS
from slicing.closing.answers import Answers
from slicing.closing.ways.interface import Closing, Offer, Way
from slicing.columns.keys import ranks_among
from slicing.columns.order import changes, order_by, ranges
from slicing.kernels.combine import combine
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask


def can(plan: Plan) -> bool:
    return plan.slices_add_up and (plan.combine == BUCKETS or (plan.combine == AUTO and bool(plan.spec.by)))


def offer(closing: Closing) -> Offer:
    plan, runs, keys, due = closing.plan, closing.runs, closing.keys, closing.due
    if not due.type.size:
        return Offer(0, lambda: Answers.none(plan))
    lie = [closing.lie(run) for run in runs]
    spans = [(at[due.low], at[due.high]) for at in lie]

    def answers() -> Answers:
        held = [_members(first, last) for first, last in spans]
        window = np.concatenate([w for w, _ in held])
        code = np.concatenate([run.code[cell] for run, (_, cell) in zip(runs, held, strict=True)])
        order = order_by(ranks_among(code, keys), window)
        window, code = window[order], code[order]
        new = changes(window, code)
        first = new.nonzero()[0]
        if len(runs) == 1 and first.size == order.size:  # one cell each: nothing to combine
            blocks = tuple(b.gathered(block, held[0][1][order]) for block in runs[0].blocks)
        else:
            blocks = _combined(closing, [cell for _, cell in held], order, new)
        if not closing.needs_any:  # a key has such a window only if it had rows lately
            lately = [cell >= at[due.need][w] for at, (w, cell) in zip(lie, held, strict=True)]
            due_for = np.logical_or.reduceat(np.concatenate(lately)[order], first)
            first, blocks = first[due_for], tuple(block[due_for] for block in blocks)
        each = np.bincount(window[first], minlength=due.type.size)
        return Answers.of_types(plan, due[:3], each, code[first], blocks)

    return Offer(0 if plan.combine == BUCKETS else sum(int((last - first).sum()) for first, last in spans), answers)


def _combined(closing: Closing, held: Sequence[Ints], order: Ints, new: Mask) -> tuple[Block, ...]:
    """Combine the cells of all runs. In the given order, the cells of a new window and key begin where ``new`` is
    set."""
    into = np.empty(order.size, np.int64)
    into[order] = np.cumsum(new) - 1
    blocks = tuple(b.identity(lane, int(np.count_nonzero(new))) for lane in closing.plan.lanes)
    at = 0
    for run, cell in zip(closing.runs, held, strict=True):
        for lane, block, added in zip(closing.plan.lanes, blocks, run.blocks, strict=True):
            combine(lane.kind, into[at : at + cell.size], cell, block, added)
        at += cell.size
    return blocks


def _members(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The windows and the cells of all pairs of a window and one of its cells ``first : last``."""
    count = last - first
    return np.repeat(np.arange(first.size), count), ranges(first, count)


WAY = Way("buckets", can, offer)
