"""Add up each window's cells straight from the runs of the store: for few windows, however many keys.

Nothing is merged, sorted or gathered first (100 k keys, 60 s / 1 s, a push a second: 1200 -> 90 ms). If windows have
very many slices, the cells are those of the runs' trees, the eager store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.cells.combining import AUTO, EAGER
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.gathered import in_order
from slicing.closing.numbers import Ordered
from slicing.closing.ways.interface import WINDOW, Closing, Offer, Way
from slicing.columns.keys import KeyTable
from slicing.columns.order import changes, ranges
from slicing.kernels.combine import combine
from slicing.query.plan import Plan
from slicing.storage import tree as eager
from slicing.system.arrays import Ints

_Stretch = tuple[Ints, Ints, Ordered]  # how many keys each window has, the codes in order, their partials

NODES = 8  # about the smallest number of tree nodes that a window takes


def can(plan: Plan) -> bool:
    return plan.adds_up and plan.combine in (AUTO, EAGER) and (bool(plan.spec.by) or plan.eager)


def offer(closing: Closing) -> Offer | None:
    plan, runs, keys = closing.plan, closing.runs, closing.keys
    due = _due_of_runs(closing)
    if due is None:
        return None
    _, start, end = due
    if not end.size:
        return Offer(0, lambda: Answers.none(plan))
    if plan.eager:
        policy = plan.policy
        if (
            plan.combine == AUTO
            and policy.way is None
            and not policy.pays(WAY.name, NODES * end.size, len(closing.store))
        ):
            return None  # otherwise finding a window's nodes would take 100 of 240 ns a window (a window per slice)
        fewest = policy.tree_fanout if plan.combine == EAGER else policy.tree_slices
        parts = eager.parts(plan.lanes, runs, start, end, policy.tree_fanout, fewest)
    else:
        parts = []
        for run in runs:
            parts.append((run, run.until(start), run.until(end)))

    def answers() -> Answers:
        if keys is None:
            return Answers.of_types(plan, due, None, np.zeros_like(end), _added_up_at_once(plan, parts, end.size))
        each, code, cells = zip(*_by_key(plan, keys, parts, end.size), strict=True)
        blocks = in_order(plan.lanes, cells, plan.policy.piece)
        return Answers.of_types(plan, due, np.concatenate(each), np.concatenate(code), blocks)

    if plan.combine == EAGER:
        return Offer(0, answers)
    calls = 0 if keys is None else end.size * (WINDOW + len(keys) // 32)  # finding the keys reads one byte per key
    return Offer(eager.size(parts) + calls, answers)


WAY = Way("as they lie", can, offer)


def _due_of_runs(closing: Closing) -> tuple[Ints, Ints, Ints] | None:
    """Type, start and end of the windows due for any of the runs, in the order of results. None if a window is due only
    with a slice that is not its first."""
    edges, slices = closing.plan.edges, [run.slice_ends for run in closing.runs]
    # a run by itself does not tell whether the slice that a window needs is its first
    if len(slices) == 1 or not edges.periodic or sum(map(len, slices)) <= closing.plan.policy.slices_together:
        return closing.due[:3] if closing.needs_any else None
    dues = (edges.due(ends, closing.after, closing.until) for ends in slices)
    together = np.concatenate([np.stack([due.end, due.type, due.start]) for due in dues], axis=1)
    together = together[:, np.lexsort(together[::-1])]
    new = changes(*together)
    end, type, start = together[:, new]
    return type, start, end


def _added_up_at_once(plan: Plan, parts: Sequence[eager.Part], windows: int) -> tuple[Block, ...]:
    """The partials of windows without keys: the cells of each window, added up."""
    blocks = tuple(b.identity(lane, windows) for lane in plan.lanes)
    for cells, first, last in parts:
        count = last - first
        if count.any():
            into = np.repeat(np.arange(windows), count)
            source = ranges(first, count)
            for lane, block, added in zip(plan.lanes, blocks, cells.blocks, strict=True):
                combine(lane.kind, into, source, block, added)
    return blocks


def _by_key(plan: Plan, keys: KeyTable, parts: Sequence[eager.Part], windows: int) -> Iterator[_Stretch]:
    """Window by window. Adjacent windows are taken together if each is a slice of the same part and they have at least
    a quarter as many cells as keys."""
    alone, w = np.full(1, -1) if windows == 1 else _one_slice_each(parts), 0
    while w < windows:
        stop, at = w + 1, int(alone[w])
        while at >= 0 and stop < windows and alone[stop] == at and parts[at][1][stop] == parts[at][2][stop - 1]:
            stop += 1
        if stop > w + 1 and 4 * (parts[at][2][stop - 1] - parts[at][1][w]) >= len(keys) * (stop - w):
            cells, first, last = parts[at]
            yield _side_by_side(keys, cells.take(slice(first[w], last[stop - 1])), (last - first)[w:stop])
            w = stop
        else:
            spans = []
            for cells, first, last in parts:
                if first[w] < last[w]:
                    spans.append(cells.take(slice(int(first[w]), int(last[w]))))
            code, cells_of = _added_up(plan, keys, spans)
            yield np.array([code.size]), code, cells_of
            w += 1


def _one_slice_each(parts: Sequence[eager.Part]) -> Ints:
    """For each window the part that has all its cells, if these are of one slice; otherwise -1."""
    count = np.stack([last - first for _, first, last in parts])
    alone = np.where((count > 0).sum(axis=0) == 1, count.argmax(axis=0), -1)
    for at, (cells, first, last) in enumerate(parts):
        windows = np.flatnonzero(alone == at)
        starts = cells.slices()
        slices = starts.searchsorted(last[windows] - 1, "right") - starts.searchsorted(first[windows], "right")
        alone[windows[slices > 0]] = -1
    return alone


def _side_by_side(keys: KeyTable, cells: Cells, each: Ints) -> _Stretch:
    """Slices that are windows, taken together. ``each``: the number of cells of each. 10 slices of 1000 keys 0.8 -> 0.2
    ms."""
    code = np.ascontiguousarray(cells.code)
    order = keys.order_of_groups(code, each)
    return each, code.take(order), (cells.blocks, order)


def _added_up(plan: Plan, keys: KeyTable, spans: Sequence[Cells]) -> tuple[Ints, Ordered]:
    """The codes that have cells in these tables, in the order of their keys, and the added partials of each code.

    Cells are sorted by code. They are added up in that order, which passes through memory once, and then sorted by key.
    """
    tables = spans if len(spans) == 1 else sorted(spans, key=len, reverse=True)
    most, others = tables[0], tables[1:]
    codes = [np.ascontiguousarray(table.code) for table in tables]
    one_slice, code = most.one_slice, codes[0]
    if others or not one_slice:
        held = np.zeros(len(keys), np.bool_)
        for some in codes:
            held[some] = True
        code = held.nonzero()[0]
    if one_slice and code.size == len(most):  # the other tables are added to this one
        blocks = tuple(block.copy() for block in most.blocks) if others else most.blocks
    else:
        blocks, others = tuple(b.identity(lane, code.size) for lane in plan.lanes), tables
    if others:
        size = plan.policy.added_cells
        place, every = np.empty(len(keys), np.int64), np.arange(size)
        place[code] = np.arange(code.size)
        for table, of in zip(others, codes[-len(others) :], strict=True):
            for piece in (slice(at, at + size) for at in range(0, len(table), size)):
                into = place[of[piece]]
                for lane, block, added in zip(plan.lanes, blocks, table.partials(piece), strict=True):
                    combine(lane.kind, into, every[: into.size], block, added)
    order = keys.order(code)
    return code[order], (blocks, order)
