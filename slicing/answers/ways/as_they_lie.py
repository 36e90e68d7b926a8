"""Each window's cells added up from the runs of the store as they lie: for few windows, however many keys.

Nothing is merged, sorted or gathered first (100 k keys, 60 s / 1 s, a push a second: 1200 -> 90 ms). Where windows are
of very many slices these are cells of the runs' trees, the eager store.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slicing.answers.answers import Answers
from slicing.answers.ways.interface import Closing, Offer, Way
from slicing.columns.keys import KeyTable
from slicing.kernels.combine import combine
from slicing.plan import Plan
from slicing.slices import blocks as b
from slicing.slices import eager
from slicing.slices.blocks import Block
from slicing.slices.cells import Cells
from slicing.slices.combining import AUTO, EAGER

Ints = npt.NDArray[np.int64]

PIECE = 1 << 14  # cells that are added up at a time, lane by lane: they stay in cache


def can(closing: Closing) -> bool:
    plan = closing.plan
    return plan.adds_up and plan.combine in (AUTO, EAGER) and (closing.keys is not None or plan.eager)


def offer(closing: Closing) -> Offer | None:
    plan, runs, keys = closing.plan, closing.runs, closing.keys
    due = _due_of_runs(plan, runs, closing.after, closing.until)
    if due is None:
        return None
    _, start, end = due
    if not end.size:
        return Offer(0, lambda: Answers.none(plan))
    if plan.eager:
        parts = eager.parts(plan, runs, start, end, eager.FANOUT if plan.combine == EAGER else eager.FEWEST)
    else:
        parts = [
            (run, np.searchsorted(run.end, start, "right"), np.searchsorted(run.end, end, "right")) for run in runs
        ]

    def answers() -> Answers:
        if keys is None:
            return Answers.of_types(plan, due, None, np.zeros_like(end), _added_up_at_once(plan, parts, end.size))
        found = [
            _added_up(plan, keys, [(cells, int(first[w]), int(last[w])) for cells, first, last in parts])
            for w in range(end.size)
        ]
        return Answers.of_windows(plan, due, found)

    return Offer(0 if plan.combine == EAGER else eager.size(parts), answers)


WAY = Way("as they lie", can, offer)


def _due_of_runs(plan: Plan, runs: Sequence[Cells], after: int, until: int) -> tuple[Ints, Ints, Ints] | None:
    """Type, start and end of the windows due for any of the runs, in the order of results; None where one is due only
    with a slice that is not its first."""
    found = []
    slices = [run.slice_ends for run in runs]
    if not plan.edges.periodic:  # a run alone does not tell whether the slice a window needs is its first
        slices = [np.unique(np.concatenate(slices))]
    for ends in slices:
        due = plan.edges.due(ends, after, until)
        if (due.need != due.low).any():
            return None
        found.append(np.stack([due.end, due.type, due.start]))
    if len(found) == 1:
        return found[0][1], found[0][2], found[0][0]
    together = np.concatenate(found, axis=1)
    together = together[:, np.lexsort(together[::-1])]
    new = np.append(True, (together[:, 1:] != together[:, :-1]).any(axis=0))[: together.shape[1]]
    end, type, start = together[:, new]
    return type, start, end


def _added_up_at_once(plan: Plan, parts: Sequence[eager.Part], windows: int) -> tuple[Block, ...]:
    """Windows without keys: what the cells of each come to."""
    blocks = tuple(b.identity(lane, windows) for lane in plan.lanes)
    for cells, first, last in parts:
        count = last - first
        total = int(count.sum())
        if total:
            into = np.repeat(np.arange(windows), count)
            source = np.repeat(first - np.cumsum(count) + count, count) + np.arange(total)
            for lane, block, added in zip(plan.lanes, blocks, cells.blocks, strict=True):
                combine(lane.kind, into, source, block, added)
    return blocks


def _added_up(plan: Plan, keys: KeyTable, spans: Sequence[tuple[Cells, int, int]]) -> tuple[Ints, tuple[Block, ...]]:
    """The codes that have cells in the spans, in the order of their keys, and what each one's cells come to.

    Cells lie by code. They are added up in that order, which goes through memory once, and then put in the keys'.
    """
    tables = sorted((run.take(slice(start, end)) for run, start, end in spans if start < end), key=len, reverse=True)
    most, others = tables[0], tables[1:]
    code = np.ascontiguousarray(most.code)
    one_slice = most.end[0] == most.end[-1]
    if others or not one_slice:
        held = np.zeros(len(keys), np.bool_)
        for table in tables:
            held[table.code] = True
        code = held.nonzero()[0]
    if one_slice and code.size == len(most):  # the others are added to it
        blocks = tuple(block.copy() for block in most.blocks) if others else most.blocks
    else:
        blocks, others = tuple(b.identity(lane, code.size) for lane in plan.lanes), tables
    if others:
        place, every = np.empty(len(keys), np.int64), np.arange(PIECE)
        place[code] = np.arange(code.size)
        for piece in (t.take(slice(at, at + PIECE)) for t in others for at in range(0, len(t), PIECE)):
            into = place[piece.code]
            for lane, block, added in zip(plan.lanes, blocks, piece.blocks, strict=True):
                combine(lane.kind, into, every[: into.size], block, added)
    order = keys.order(code)
    return code[order], tuple(b.gathered(block, order) for block in blocks)
