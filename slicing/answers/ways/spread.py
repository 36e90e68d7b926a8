"""Each cell spread into the windows that hold it, and sorted by window and key: for sparse keys.

These are Li's window ids, made when windows close instead of when rows come: no state but slices, any context-free
windows, and no pass over groups and windows most of which have nothing to do with each other. M rows/s of one table, of
this, and of a store of buckets, 1000 keys, windows of 60 s. A row every 20 s: every 60 s 2.7, 7.4, 4.9, every 20 s 1.2,
2.9, 1.5. A row a second: every 10 s 2.1, 2.8, 0.6. A row every 200 s: every 60 s 1.3, 3.3, 3.9.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slicing.answers.answers import Answers
from slicing.answers.ways.interface import Closing, Offer, Way
from slicing.columns.keys import ranks_among
from slicing.columns.order import order_by
from slicing.kernels.combine import combine
from slicing.slices import blocks as b
from slicing.slices.combining import AUTO

Ints = npt.NDArray[np.int64]


def can(closing: Closing) -> bool:
    return closing.plan.adds_up and closing.plan.combine == AUTO and closing.keys is not None


def offer(closing: Closing) -> Offer | None:
    plan, runs, keys = closing.plan, closing.runs, closing.keys
    assert keys is not None
    if not closing.needs_any:
        return None
    due = closing.due
    if not due.type.size:
        return Offer(0, lambda: Answers.none(plan))
    spans = [(at[due.low], at[due.high]) for at in map(closing.lie, runs)]

    def answers() -> Answers:
        held = [_members(first, last) for first, last in spans]
        window = np.concatenate([w for w, _ in held])
        code = np.concatenate([run.code[cell] for run, (_, cell) in zip(runs, held, strict=True)])
        rank = ranks_among(code, keys)
        order = order_by(rank[code], window)
        window, code = window[order], code[order]
        new = np.append(True, (window[1:] != window[:-1]) | (code[1:] != code[:-1]))
        into = np.empty(order.size, np.int64)
        into[order] = np.cumsum(new) - 1
        size = int(new.sum())
        blocks = tuple(b.identity(lane, size) for lane in plan.lanes)
        at = 0
        for run, (_, cell) in zip(runs, held, strict=True):
            for lane, block, added in zip(plan.lanes, blocks, run.blocks, strict=True):
                combine(lane.kind, into[at : at + cell.size], cell, block, added)
            at += cell.size
        each = np.bincount(window[new], minlength=due.type.size)
        return Answers.of_types(plan, due[:3], each, code[new], blocks)

    return Offer(sum(int((last - first).sum()) for first, last in spans), answers)


def _members(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Of each window its cells ``first : last``: windows, cells."""
    count = last - first
    window = np.repeat(np.arange(first.size), count)
    return window, np.arange(window.size) + np.repeat(first - np.cumsum(count) + count, count)


WAY = Way("spread", can, offer)
