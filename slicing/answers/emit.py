"""Windows out: which windows a watermark closes, and the partials of each, combined.

Every answer is the combination of a range of cells: cells are sorted so that a window of a key (or a session, or a
key's whole stream) is one contiguous range. Finding the ranges knows windows but no aggregates; combining them knows
aggregates but no windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from slicing.columns.keys import KeyTable, ranks_among
from slicing.columns.order import stable_order
from slicing.kernels.combine import combine
from slicing.kernels.strategies import STRATEGIES, Combinations
from slicing.kernels.windows import named_rows, window_ranges
from slicing.plan import Plan
from slicing.slices import blocks as b
from slicing.slices import combining, eager
from slicing.slices.blocks import Block
from slicing.slices.cells import Cells
from slicing.slices.lanes import Lane
from slicing.slices.sessions import Runs
from slicing.windows.edges import DueWindows

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """Windows with rows: their number (in name order), bounds, key and combined partials."""

    window: Ints
    start: Ints
    end: Ints
    code: Ints
    blocks: tuple[Block, ...]
    ordered: bool = False  # by end, window, start, key
    ranks: Ints | None = None  # of windows of rows: the first, and the one they end before (-1: of other windows)
    shows: Ints | None = None  # which of the partials each has, where windows of several names share them

    def __len__(self) -> int:
        return self.window.size

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Answers:
        blocks = tuple(block[index] for block in self.blocks) if self.shows is None else self.blocks
        ranks, shows = (None if c is None else c[index] for c in (self.ranks, self.shows))
        columns = (self.window[index], self.start[index], self.end[index], self.code[index])
        return Answers(*columns, blocks, ranks=ranks, shows=shows)

    @staticmethod
    def together(parts: Sequence[Answers]) -> Answers:
        if len(parts) == 1:
            return parts[0]

        def column(name: str) -> Ints:
            return np.concatenate([getattr(p, name) for p in parts])

        blocks = tuple(map(b.together, zip(*(p.blocks for p in parts), strict=True)))
        ranks = None
        if any(p.ranks is not None for p in parts):
            ranks = np.concatenate([np.full((len(p), 2), -1) if p.ranks is None else p.ranks for p in parts])
        shows = None
        if any(p.shows is not None for p in parts):
            before = np.cumsum([0, *(len(p.blocks[0]) if p.blocks else 0 for p in parts)])
            shown = (np.arange(len(p)) if p.shows is None else p.shows for p in parts)
            shows = np.concatenate([some + n for some, n in zip(shown, before, strict=False)])
        columns = (column("window"), column("start"), column("end"), column("code"))
        return Answers(*columns, blocks, ranks=ranks, shows=shows)

    @staticmethod
    def of_types(
        plan: Plan, due: tuple[Ints, Ints, Ints], each: Ints | None, code: Ints, blocks: tuple[Block, ...]
    ) -> Answers:
        """Types, starts and ends of windows, in order, as answers; each has so many rows (None: one)."""
        type, start, end = due
        if plan.types_of.size == len(plan.edges.bounds):
            if each is not None:
                type, start, end = (np.repeat(column, each) for column in due)
            return Answers(plan.numbered(type), start, end, code, blocks, True)
        first = np.arange(type.size + 1) if each is None else np.append(0, np.cumsum(each))
        rows = int((plan.shares[type] * (1 if each is None else each)).sum())
        name, which, shows = out = np.empty((3, rows), np.int64)
        named_rows(type, end, first, plan.types_of, out)
        code = np.zeros(rows, np.int64) if each is None else code[shows]
        if rows < b.FEW and all(isinstance(block, np.ndarray) for block in blocks):  # less work than columns of answers
            blocks = tuple(block.take(shows, axis=0) for block in blocks)
            return Answers(plan.numbered(name), start[which], end[which], code, blocks, True)
        return Answers(plan.numbered(name), start[which], end[which], code, blocks, True, shows=shows)

    @staticmethod
    def none(plan: Plan) -> Answers:
        return plan.once("no answers", lambda: Answers._none(plan))

    @staticmethod
    def _none(plan: Plan) -> Answers:
        empty = np.empty(0, np.int64)
        return Answers(empty, empty, empty, empty, tuple(b.identity(lane, 0) for lane in plan.lanes), True)


def session_answers(plan: Plan, found: Runs, window: int, gap: int) -> Answers:
    """Runs as windows that end ``gap`` after their last row (a whole stream: at it)."""
    blocks = combined(plan, found.cells, found.first, found.last)
    number = np.full(found.first.size, window, np.int64)
    return Answers(number, found.start(), found.end() + gap, found.code, blocks)


def time_answers(
    plan: Plan, table: Cells, keys: KeyTable | None, after: int, until: int, windows_of: Cells | None = None
) -> Answers:
    """All time windows with ``after < end <= until`` that have rows; a key is one group.

    With ``windows_of`` the windows are those due for that table, answered from the cells of this one.
    """
    if not plan.bounds or not len(table):
        return Answers.none(plan)
    if keys is None and not plan.fragments and windows_of is None:  # a cell a slice
        due = plan.edges.due(np.ascontiguousarray(table.end), after, until)
        blocks = combined(plan, table, due.low, due.high)
        return Answers.of_types(plan, due[:3], None, np.zeros_like(due.end), blocks)
    starts = table.slices()
    ends = table.end[starts]
    if windows_of is None:
        due = plan.edges.due(ends, after, until)
    else:
        due = plan.edges.due(np.unique(windows_of.end), after, until).over(ends)
    if not due.type.size:
        return Answers.none(plan)
    scope = _Scope.of_slices(plan, table, starts, due)
    if keys is None:
        return scope.ungrouped()
    cells = scope.cells
    rank = ranks_among(cells.code, keys)
    group = rank[cells.code]
    groups = int(group.max()) + 1
    order = stable_order(group)
    first = np.searchsorted(group[order], np.arange(groups + 1))
    return scope.grouped(cells.take(order), scope.slice_of[order], first)


def few_answers(plan: Plan, runs: Sequence[Cells], keys: KeyTable | None, after: int, until: int) -> Answers | None:
    """The same from the runs of a store as they lie, where a pass over the cells of each window is the cheapest way.

    So it is for few windows, however many keys: nothing is merged, sorted or gathered first (100 k keys, 60 s / 1 s, a
    push a second: 1200 -> 90 ms). Where windows are of very many slices these are cells of the runs' trees. None where
    it is not.
    """
    if plan.combine not in (combining.AUTO, combining.EAGER):
        return None
    due = _due_of_runs(plan, runs, after, until)
    if due is None:
        return None
    windows, start, end = due
    if not windows.size:
        return Answers.none(plan)
    if plan.eager:
        parts = eager.parts(plan, runs, start, end, eager.FANOUT if plan.combine == combining.EAGER else eager.FEWEST)
    else:
        parts = [
            (run, np.searchsorted(run.end, start, "right"), np.searchsorted(run.end, end, "right")) for run in runs
        ]
    if plan.combine != combining.EAGER and not worth_adding_up(eager.size(parts), sum(map(len, runs))):
        return None
    if keys is None:
        blocks = _added_up_at_once(plan, parts, windows.size)
        return Answers.of_types(plan, due, None, np.zeros_like(end), blocks)
    found = [
        _added_up(plan, keys, [(cells, int(first[w]), int(last[w])) for cells, first, last in parts])
        for w in range(windows.size)
    ]
    each = np.array([code.size for code, _ in found])
    blocks = tuple(map(b.together, zip(*(blocks for _, blocks in found), strict=True)))
    return Answers.of_types(plan, due, each, np.concatenate([code for code, _ in found]), blocks)


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


def worth_adding_up(cells: int, live: int) -> bool:
    """Whether to go over so many cells of windows one by one, rather than merge, sort and gather all that are live."""
    return cells <= 6 * live


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


PIECE = 1 << 14  # cells that are added up at a time, lane by lane: they stay in cache


def instance_answers(plan: Plan, instances: Runs, after: int, until: int) -> Answers:
    """The same with each run a group of its own: a key that was idle in between."""
    if not plan.bounds or not instances.first.size:
        return Answers.none(plan)
    ends = np.unique(instances.cells.end)
    due = plan.edges.due(ends, after, until)
    if not due.type.size:
        return Answers.none(plan)
    scope = _Scope(plan, instances.cells, _NONE, _NONE, due)
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
        """``starts``: the first cell of each slice of a table sorted by slice."""
        starts = np.append(starts, len(table))
        bottom, top = int(due.low.min()), int(due.high.max())
        cells = table.take(slice(starts[bottom], starts[top]))
        slice_of = np.repeat(np.arange(bottom, top), np.diff(starts[bottom : top + 1]))
        return _Scope(plan, cells, slice_of, starts - starts[bottom], due)

    def ungrouped(self) -> Answers:
        """One global group: a window's cells are its slices' cells, and none of the windows is empty."""
        due = self.due
        if self._starts.size == self._starts[-1] - self._starts[0] + 1:  # a cell a slice
            first, last = due.low + self._starts[0], due.high + self._starts[0]
        else:
            first, last = self._starts[due.low], self._starts[due.high]
        blocks = combined(self.plan, self.cells, first, last)
        return Answers.of_types(self.plan, due[:3], None, np.zeros_like(due.end), blocks)

    def grouped(self, cells: Cells, slice_of: Ints, group_first: Ints) -> Answers:
        """``cells`` sorted by group and slice."""
        types, size = len(self.plan.edges.bounds), self.due.type.size
        rank = stable_order(self.due.type)  # a type after the other; the place of each in the order of results
        due = self.due.take(rank)
        type_first = np.searchsorted(due.type, np.arange(types + 1))
        # a user's windows may nest, then a later one can start earlier
        ascending = bool(((due.low[1:] >= due.low[:-1]) | (due.type[1:] != due.type[:-1])).all())
        windows = np.stack([due.low, due.need, rank], axis=1)
        fixed = (type_first, windows, np.ascontiguousarray(due.high), ascending, group_first, slice_of)
        at = np.zeros(size + 1, np.int64)
        n = window_ranges(*fixed, at[1:], np.empty((4, 0), np.int64))
        np.cumsum(at, out=at)
        _, first, last, place = found = np.empty((4, n), np.int64)
        window_ranges(*fixed, at[:-1].copy(), found)
        by_type = combined(self.plan, cells, first, last)  # as runs of windows that move forward
        order = np.empty(n, np.int64)
        order[place] = np.arange(n)
        blocks = tuple(block.take(order, axis=0) for block in by_type)
        return Answers.of_types(self.plan, self.due[:3], np.diff(at), cells.code[first[order]], blocks)


def combined(plan: Plan, cells: Cells, first: Ints, last: Ints) -> tuple[Block, ...]:
    """Each lane's partials over the ranges of cells ``first[r] : last[r]``, none of them empty."""
    return answered(plan, plan.lanes, cells.blocks, first, last)


def answered(plan: Plan, lanes: Sequence[Lane], blocks: Sequence[Block], first: Ints, last: Ints) -> tuple[Block, ...]:
    """The same of some lanes."""
    cells = len(blocks[0]) if blocks else 0
    pairs = zip(lanes, blocks, strict=True)
    if int((last - first).sum()) == first.size:
        alone = Combinations(None, _NONE, _NONE, first, _NONE, _NONE)
        return tuple(b.kind_of(lane).answered(lane, block, first, last, lambda: alone) for lane, block in pairs)

    @cache
    def listed(name: str) -> Combinations:
        lists: Callable[[Ints, Ints, int], Combinations] = STRATEGIES[name].lists
        return lists(first, last, cells)

    @cache
    def combinations(removes: bool) -> Combinations:
        forced = plan.combine in STRATEGIES
        return listed(plan.combine if forced else combining.choose(first, last, cells, removes))

    return tuple(
        b.kind_of(lane).answered(lane, block, first, last, partial(combinations, lane in plan.subtracted))
        for lane, block in pairs
    )


_NONE = np.empty(0, np.int64)
