"""Answers windows from one sorted table of cells: finds the windows that a watermark closes and combines their
partials.

Every answer is the combination of a range of cells. Cells are sorted so that a window of a key (or a session, or a
key's whole stream) is one contiguous range. Code that finds the ranges knows windows but no aggregates. Code that
combines them knows aggregates but no windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from slicing.cells import blocks as b
from slicing.cells import combining
from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.sessions import Chains, Runs, in_which, runs
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.due_ranges import ByType
from slicing.closing.gathered import in_order
from slicing.closing.over_cells import are_words, have_values, moves, over_cells
from slicing.closing.spans import Known
from slicing.columns.keys import KeyTable, ranks_among
from slicing.columns.order import alike, distinct, inverse, order_with_ties, sorting, stable_order
from slicing.kernels.strategies import STRATEGIES, Combinations
from slicing.kernels.strategies.recompute import recompute
from slicing.query.plan import Plan
from slicing.system.arrays import NONE, Ints, Mask
from slicing.windows.edges import DueWindows, ranges_of


def chained_answers(
    plan: Plan,
    table: Cells,
    keys: KeyTable | None,
    found: Chains,
    which: Mask | None,
    types: Sequence[tuple[int, int]],
) -> list[Answers]:
    """The runs in ``which`` (None: all) as windows, in order. ``types``: the number of each type of window, and how
    long after their last row its windows end (whole streams: at it).

    Runs of one cell each are sorted once, and copied when they are read: 632,000 keys of 1 M rows 250 -> 150 ms.
    """
    cells = in_which(found, which)
    if cells.size and np.bincount(found.run[cells]).max() > 1:
        of_runs = runs(table, keys, found, which)
        return [session_answers(plan, of_runs, window, gap) for window, gap in types]
    code, start, end = (words[cells] for words in (table.code, table.first, table.last))
    order = order_with_ties(end, lambda rows: (ranks_among(code[rows], keys), start[rows]))
    code, start, end, cells = (column.take(order) for column in (code, start, end, cells))
    blocks = in_order(plan.lanes, [(table.blocks, cells)], plan.policy.piece)
    return [Answers(alike(window, end.size), start, end + gap, code, blocks, True) for window, gap in types]


def session_answers(plan: Plan, found: Runs, window: int, gap: int) -> Answers:
    """Runs as windows that end ``gap`` after their last row (whole streams: at it), in order."""
    blocks = combined(plan, found.cells, found.first, found.last)
    start, end = found.start(), found.end() + gap
    order = sorting(start, end)  # runs are sorted by key
    if order is not None:
        start, end, blocks = start[order], end[order], tuple([block.take(order, axis=0) for block in blocks])
    code = found.code if order is None else found.code[order]
    return Answers(np.full(end.size, window), start, end, code, blocks, True)


def time_answers(
    plan: Plan, table: Cells, keys: KeyTable | None, after: int, until: int, windows_of: Cells | None = None
) -> Answers:
    """All time windows with ``after < end <= until`` that have rows. Each key is a group.

    ``windows_of``: another table. The windows that are due for its slices are answered from the cells of this table.
    """
    if not plan.bounds or not len(table.meta):
        return Answers.none(plan)
    if plan.a_cell_a_slice and windows_of is None:
        due = plan.edges.due(table.slice_ends, after, until)
        blocks = combined(plan, table, due.low, due.high)
        return Answers.of_types(plan, due[:3], None, np.zeros(due.end.size, np.int64), blocks)
    starts = table.slices()
    ends = table.end[starts]
    if windows_of is None:
        due = plan.edges.due(ends, after, until)
    else:
        due = plan.edges.due(distinct(windows_of.end), after, until).over(ends)
    if not due.type.size:
        return Answers.none(plan)
    scope = _Scope.of_slices(plan, table, starts, due)
    if keys is None:
        return scope.ungrouped()
    cells = scope.cells
    group = ranks_among(cells.code, keys)
    groups = int(group.max()) + 1
    order = stable_order(group)
    first = np.searchsorted(group[order], np.arange(groups + 1))
    return scope.grouped(cells.take(order), scope.slice_of[order], first)


def instance_answers(plan: Plan, instances: Runs, after: int, until: int) -> Answers:
    """All time windows with ``after < end <= until`` that have rows. Each run of a key is a group.

    A key has several runs if it was idle in between.
    """
    if not plan.bounds or not instances.first.size:
        return Answers.none(plan)
    ends = distinct(instances.cells.end)
    due = plan.edges.due(ends, after, until)
    if not due.type.size:
        return Answers.none(plan)
    scope = _Scope(plan, instances.cells, NONE, NONE, due)
    found = scope.grouped(
        instances.cells, np.searchsorted(ends, instances.cells.end), np.append(instances.first, instances.last[-1])
    )
    return replace(found, ordered=False)


class _Scope:
    """The due windows of a table, and the cells they may hold."""

    def __init__(self, plan: Plan, cells: Cells, slice_of: Ints, starts: Ints, due: DueWindows) -> None:
        self.plan, self.cells, self.slice_of, self._starts, self.due = plan, cells, slice_of, starts, due

    @staticmethod
    def of_slices(plan: Plan, table: Cells, starts: Ints, due: DueWindows) -> _Scope:
        """The scope of a table sorted by slice. ``starts``: the first cell of each slice."""
        starts = np.append(starts, len(table))
        bottom, top = int(due.low.min()), int(due.high.max())
        cells = table.take(slice(starts[bottom], starts[top]))
        slice_of = np.repeat(np.arange(bottom, top), np.diff(starts[bottom : top + 1]))
        return _Scope(plan, cells, slice_of, starts - starts[bottom], due)

    def ungrouped(self) -> Answers:
        """The answers without keys: a window's cells are the cells of its slices, and no window is empty."""
        due = self.due
        if self._starts.size == self._starts[-1] - self._starts[0] + 1:  # one cell per slice
            first, last = due.low + self._starts[0], due.high + self._starts[0]
        else:
            first, last = self._starts[due.low], self._starts[due.high]
        blocks = combined(self.plan, self.cells, first, last)
        return Answers.of_types(self.plan, due[:3], None, np.zeros(due.end.size, np.int64), blocks)

    def grouped(self, cells: Cells, slice_of: Ints, group_first: Ints) -> Answers:
        """The answers by group. ``cells`` are sorted by group and slice."""
        types = len(self.plan.edges.bounds)
        rank = stable_order(self.due.type)  # sorts windows by type; positions in the order of results
        due = self.due.take(rank)
        type_first = np.searchsorted(due.type, np.arange(types + 1))
        # a user's windows may nest, so a later window can start earlier
        ascending = bool(((due.low[1:] >= due.low[:-1]) | (due.type[1:] != due.type[:-1])).all())
        windows = np.stack([due.low, due.need, rank], axis=1)
        (window, first, last, place), at = ranges_of(type_first, windows, due.high, ascending, group_first, slice_of)
        if moves(self.plan, len(cells), first.size) and are_words(self.plan) and have_values(cells.blocks):
            code = np.empty(first.size, np.int64)
            code[place] = cells.code.take(first)
            bounds = due.type.take(window).searchsorted(np.arange(types + 1)) if types > 1 else (0, first.size)
            parts = [(place[a:b], Known(first[a:b], last[a:b], True)) for a, b in pairwise(bounds) if a < b]
            lazy = ByType([(own, over_cells(self.plan, [cells], spans)) for own, spans in parts])
            return Answers.of_types(self.plan, self.due[:3], np.diff(at), code, lazy)
        by_type = combined(self.plan, cells, first, last)  # sorted by type, so that windows move forward
        order = inverse(place)
        blocks = tuple(block.take(order, axis=0) for block in by_type)
        return Answers.of_types(self.plan, self.due[:3], np.diff(at), cells.code[first[order]], blocks)


def combined(plan: Plan, cells: Cells, first: Ints, last: Ints) -> tuple[Block, ...]:
    """For each lane, combine the partials of the ranges of cells ``first[r] : last[r]``. No range is empty."""
    return answered(plan, plan.lanes, cells.blocks, first, last)


def answered(plan: Plan, lanes: Sequence[Lane], blocks: Sequence[Block], first: Ints, last: Ints) -> tuple[Block, ...]:
    """For some lanes, combine the partials of the ranges of cells ``first[r] : last[r]``. No range is empty."""
    cells = len(blocks[0]) if blocks else 0
    pairs = zip(lanes, blocks, strict=True)
    shared: Combinations | None = None
    policy = plan.policy
    if cells * first.size <= policy.recomputed and plan.combine == combining.AUTO and not plan.edges.tumbles:
        shared = recompute(first, last, cells)  # the strategy that would be chosen for this few cells
    elif int(np.add.reduce(last - first)) == first.size:
        shared = Combinations(None, NONE, NONE, first, NONE, NONE)
    if shared is not None:
        return tuple([b.kind_of(lane).answered(lane, block, first, last, lambda: shared) for lane, block in pairs])

    made: dict[bool, Combinations] = {}  # shared by all lanes that can, or cannot, remove partials

    def combinations(removes: bool) -> Combinations:
        if removes not in made:
            name = plan.combine
            if policy.strategies is not None:
                name = policy.strategies[0 if removes else 1]
            elif name not in STRATEGIES:
                name = combining.choose(first, last, cells, removes, policy.recomputed)
            made[removes] = STRATEGIES[name].lists(first, last, cells)
        return made[removes]

    return tuple(
        b.kind_of(lane).answered(lane, block, first, last, partial(combinations, lane in plan.partials.subtracted))
        for lane, block in pairs
    )
