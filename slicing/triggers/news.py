"""The panes that have news: which windows a trigger reports, and the cells that it has not reported of them.

A pane holds a window's rows before a cut (event-time triggers), or all rows that have come (triggers of pushes). It is
due only if it has news: a cell that no pane of the window has reported. Every new cell is in one pane of each window
that holds it. So the panes of a push are its new cells, paired with their windows, grouped by pane and key. Ranges of
cells are combined as for complete windows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block, identity
from slicing.cells.table import Cells, concatenated, places_among
from slicing.closing.answers import Answers
from slicing.closing.emit import combined
from slicing.columns.order import (
    alike,
    all_alike,
    begins,
    changes,
    inverse,
    is_sorted,
    none,
    order_by,
    ranges,
    stable_order,
)
from slicing.kernels.combine import combine
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.cuts import Cuts
from slicing.windows.edges import DueWindows, ranges_of

FEW_PANES = 16  # up to this many panes, a pass over the cells of each pane pays
FEW_SLICES = 64  # of up to this many slices, the panes of a single window are found without numpy
DENSE = 8  # places per cell or query: up to this many, a dense table says where each key's cells of a slice begin


class Found(NamedTuple):
    """Panes with news: windows up to a cut, and for each key the cells that are new."""

    type: Ints
    start: Ints
    end: Ints
    cut: Ints
    pane: Ints  # for each key of a pane
    code: Ints
    first: Ints  # its cells, in ``cell``
    last: Ints
    cell: Ints  # places in all pieces, one after the other

    @staticmethod
    def whole(answers: Answers, which: Ints, type: int | Ints) -> Found:
        """Complete windows, each a pane of one key. No cells are looked for."""
        start, end, code = (column[which] for column in (answers.start, answers.end, answers.code))
        types = np.broadcast_to(np.asarray(type, np.int64), which.size)
        return Found(types, start, end, end, np.arange(which.size), code, which, which, none())

    def of_keys(self, which: Mask) -> Found:
        return self._replace(
            pane=self.pane[which], code=self.code[which], first=self.first[which], last=self.last[which]
        )

    def by_key(self, column: Ints) -> Ints:
        """A column of the panes for each key of a pane."""
        return alike(column[0], self.pane.size) if column.size == 1 else column.take(self.pane)

    def answers(self, plan: Plan, blocks: Sequence[Block]) -> Answers:
        window, start, end = map(self.by_key, (plan.numbered(self.type), self.start, self.end))
        return Answers(window, start, end, self.code, tuple(blocks))

    def parts(self, plan: Plan, pieces: Sequence[Cells]) -> Answers:
        """The answers that hold only the new cells."""
        cells = pieces[0] if len(pieces) == 1 else concatenated(pieces)
        size = self.cell.size
        if self.first.size == size and (self.first == np.arange(size)).all() and (self.last == self.first + 1).all():
            whole = size == len(cells) and bool((self.cell[1:] > self.cell[:-1]).all())
            return self.answers(plan, cells.blocks if whole else [b.take(self.cell, axis=0) for b in cells.blocks])
        cells = cells.take(self.cell)
        return self.answers(plan, combined(plan, cells, self.first, self.last))

    def up_to(self, plan: Plan, table: Cells, upto: Ints) -> tuple[Answers, Mask]:
        """Answers from the windows' rows before the times ``upto``, and which panes have such rows. Panes without rows
        are left out."""
        added = _added(self, plan, table, upto)
        if added is not None:
            held, blocks = added
            return (self if held.all() else self.of_keys(held)).answers(plan, blocks), held
        first, last, cells = _places(table, self.by_key(self.start), upto, self.code)
        held = first < last
        some = self if held.all() else self.of_keys(held)
        return some.answers(plan, _combined(plan, cells, first[held], last[held])), held


def _added(found: Found, plan: Plan, table: Cells, upto: Ints) -> tuple[Mask, Sequence[Block]] | None:
    """For few panes: which keys have cells, and their partials, added without sorting.

    None for many panes, and for partials that are lists, as only ranges can answer them.
    """
    if not found.code.size or not plan.adds_up:
        return None
    at = _pieces(found, upto)
    if len(at) - 1 > FEW_PANES:
        return None
    alone = _of_one_slice(found, table, upto) if len(at) == 2 else None
    if alone is not None:
        return alone
    blocks = tuple([identity(lane, found.code.size) for lane in plan.lanes])
    held = np.zeros(found.code.size, np.bool_)
    place = np.full(int(max(table.code.max(initial=0), found.code.max())) + 1, -1)
    for first, last in pairwise(at):
        cells, code = table.ending(int(found.start[found.pane[first]]), int(upto[first])), found.code[first:last]
        place[code] = np.arange(first, last)
        into = place.take(cells.code)
        place[code] = -1
        source = (into >= 0).nonzero()[0]
        into = into if source.size == into.size else into.take(source)
        held[into] = True
        for lane, block, partials in zip(plan.lanes, blocks, cells.blocks, strict=True):
            combine(lane.kind, into, source, block, partials)
    return held, blocks if held.all() else tuple([block[held] for block in blocks])


def _pieces(found: Found, upto: Ints) -> list[int]:
    """The bounds of runs of keys of one pane with equal times."""
    if found.start.size == 1 and all_alike(upto):
        return [0, upto.size]
    new = changes(found.pane, upto)
    return [*new.nonzero()[0].tolist(), new.size]


def _of_one_slice(found: Found, table: Cells, upto: Ints) -> tuple[Mask, Sequence[Block]] | None:
    """The cells of a single pane, if all are of one slice, where they are sorted by key. Otherwise None."""
    cells, code = table.ending(int(found.start[found.pane[0]]), int(upto[0])), found.code
    ends = cells.end
    if not ends.size or ends[0] != ends[-1]:
        return None
    if code.size == ends.size and bool((cells.code == code).all()):
        return np.ones(code.size, np.bool_), cells.blocks
    place = places_among(cells.code, code)
    held = place >= 0
    place = place if held.all() else place[held]
    return held, tuple([block.take(place, axis=0) for block in cells.blocks])


def _combined(plan: Plan, cells: Cells, first: Ints, last: Ints) -> Sequence[Block]:
    """Combine ranges. Ranges that begin together are combined together, as each pane of a window extends the one
    before."""
    if int((last - first).sum()) <= 3 * first.size:
        return combined(plan, cells, first, last)
    order = order_by(last, first)
    blocks = combined(plan, cells, first[order], last[order])
    back = inverse(order)
    return tuple(block.take(back, axis=0) for block in blocks)


def _places(table: Cells, start: Ints, upto: Ints, code: Ints) -> tuple[Ints, Ints, Cells]:
    """For each key the range of its cells between two times, and the cells in the order that these ranges refer to."""
    ends, starts = table.slice_ends, table.slice_bounds()
    if not (code.size and ends.size):
        return np.zeros(code.size, np.int64), np.zeros(code.size, np.int64), table
    low, high = ends.searchsorted((start.min(), upto.max()), "right").tolist()
    cells, slots = table.take(slice(starts[low], starts[high])), max(high - low, 1)
    slot = np.repeat(np.arange(high - low), np.diff(starts[low : high + 1]))
    order = None if high - low <= 1 else stable_order(cells.code)
    if order is not None:
        cells, slot = cells.take(order), slot[order]
    place = cells.code * slots + slot
    wanted = [code * slots + np.minimum(ends.searchsorted(times, "right") - low, slots) for times in (start, upto)]
    most = (int(max(cells.code.max(initial=0), code.max())) + 1) * slots
    if most > DENSE * (len(cells) + code.size):
        first, last = (place.searchsorted(places) for places in wanted)
    else:
        before = np.zeros(most + 1, np.int64)
        np.cumsum(np.bincount(place, minlength=most), out=before[1:])
        first, last = (before.take(places) for places in wanted)
    return first, last, cells


class _News(NamedTuple):
    """Cells of one piece, each paired with a pane of a window."""

    windows: tuple[Ints, Ints, Ints, Ints]  # type, start, end and cut of each pane
    pane: Ints
    cell: Ints
    piece: int
    alone: bool  # whether the cells of a pane are of one slice


def _news(
    piece: int, cells: Cells, due: DueWindows, low: Ints, high: Ints, cut_of: Callable[[Ints, Ints], Ints]
) -> _News:
    """Pair the cells of the slices ``low`` to ``high`` of each window with the window's pane that they are in.

    ``cut_of`` gives the cut for window numbers and slice numbers; BEGIN if no pane is due.
    """
    count = np.maximum(high - low, 0)
    window, slot = np.repeat(np.arange(count.size), count), ranges(low, count)
    cut = cut_of(window, slot)
    in_pane = cut > BEGIN
    if not in_pane.all():
        window, slot, cut = window[in_pane], slot[in_pane], cut[in_pane]
    new = changes(window, cut)
    pane, at = np.cumsum(new) - 1, np.flatnonzero(new)
    starts = cells.slice_bounds()
    each = starts[slot + 1] - starts[slot]
    of = window[at]
    windows = due.type[of], due.start[of], due.end[of], cut[at]
    alone = at.size == slot.size and cells.a_cell_a_key
    return _News(windows, np.repeat(pane, each), ranges(starts[slot], each), piece, alone)


def _together(pieces: Sequence[Cells], news: Sequence[_News]) -> Found:
    """The news of all pieces, grouped by pane and key."""
    if not news:
        return Found(*[none()] * 9)
    if len(news) == 1 and news[0].alone:  # each pane is a slice, whose cells are sorted by key
        (type, start, end, cut), pane, cell, piece, _ = news[0]
        each = np.arange(cell.size + 1)
        code = pieces[piece].code.take(cell)
        if piece:
            cell = cell + sum(map(len, pieces[:piece]))
        return Found(type, start, end, cut, pane, code, each[:-1], each[1:], cell)
    before = np.cumsum([0, *map(len, pieces)])
    type, start, end, cut = (np.concatenate(column) for column in zip(*(n.windows for n in news), strict=True))
    panes = np.cumsum([0, *(n.windows[0].size for n in news)])
    pane = np.concatenate([n.pane + at for n, at in zip(news, panes, strict=False)])
    cell = np.concatenate([n.cell + before[n.piece] for n in news])
    order = order_by(cut, start, type, end)
    columns = [c[order] for c in (type, start, end, cut)]
    new = changes(*columns)
    pane = (np.cumsum(new) - 1)[inverse(order)][pane]
    code = pieces[0].code if len(pieces) == 1 else np.concatenate([piece.code for piece in pieces])
    code = code[cell]
    by = order_by(code, pane)
    pane, code, cell = pane[by], code[by], cell[by]
    first = np.flatnonzero(changes(pane, code))
    last = np.append(first[1:], pane.size)[: first.size]
    type, start, end, cut = (c[new] for c in columns)
    return Found(type, start, end, cut, pane[first], code[first], first, last, cell)


def news_by_time(plan: Plan, pieces: Sequence[tuple[Cells, int]], after: int, until: int) -> Found:
    """The news that event-time triggers report at the cuts that the watermark has passed, from ``after`` to ``until``.

    Each piece of cells comes with the watermark that its rows were behind (BEGIN: their slices tell which panes). If
    there is one piece, a key's news of a pane are a range of its cells, found by walking along the cuts.
    """
    if len(pieces) == 1:
        return _by_ranges(plan, pieces[0][0], after, until)
    found: list[_News] = []
    for piece, (cells, judged) in enumerate(pieces):
        ends = cells.slice_ends
        due = plan.edges.due(ends, after, FOREVER) if ends.size else None
        for k, cuts in enumerate(plan.early.cuts):
            if cuts is None or due is None:
                continue
            of_type = due.take((due.type == k) & (due.start < until))
            low = of_type.low
            if judged == BEGIN:
                reported = cuts.before(of_type.start, of_type.end, np.full(of_type.end.size, after + 1))
                low = ends.searchsorted(reported, "right")
            high = np.minimum(of_type.high, ends.searchsorted(until, "right"))

            cut_of = partial(_cut_after, cuts, of_type, np.maximum(ends, judged + 1), after, until)
            found.append(_news(piece, cells, of_type, low, high, cut_of))
    return _together([cells for cells, _ in pieces], found)


def _by_ranges(plan: Plan, cells: Cells, after: int, until: int) -> Found:
    """The news of cells whose slices tell which panes report them."""
    ends = cells.slice_ends
    if not ends.size:
        return Found(*[none()] * 9)
    due = plan.edges.due(ends, after, FOREVER)
    panes = []
    for k, cuts in enumerate(plan.early.cuts):
        if cuts is not None:
            panes.append(_panes_of_type(k, cuts, due, ends, after, until))
    type, start, end, cut, low, high = panes[0] if len(panes) == 1 else np.concatenate(panes, axis=1)
    starts = cells.slice_bounds()
    if (high == low + 1).all() and cells.a_cell_a_key:  # each pane's news are a slice, sorted by key
        count = starts[high] - starts[low]
        cell = ranges(starts[low], count)
        each = np.arange(cell.size + 1)
        pane = np.repeat(np.arange(count.size), count)
        return Found(type, start, end, cut, pane, cells.code.take(cell), each[:-1], each[1:], cell)
    slot = np.repeat(np.arange(ends.size), np.diff(starts))
    order = stable_order(cells.code)
    code, slot = cells.code[order], slot[order]
    first = np.append(begins(code), code.size)
    before = np.cumsum([0, *(part.shape[1] for part in panes)]).tolist()
    found = [_ranges_of(part[4], part[5], first, slot) for part in panes]
    pane = np.concatenate([of[0] + at for of, at in zip(found, before, strict=False)])
    low, high = (np.concatenate([of[i] for of in found]) for i in (1, 2))
    return Found(type, start, end, cut, pane, code[low], low, high, order)


def _panes_of_type(type: int, cuts: Cuts, due: DueWindows, ends: Ints, after: int, until: int) -> Ints:
    """The panes of a type's windows that hold any of the slices: type, start, end, cut, and the range of slices that
    are news, each a row of the result."""
    which = due.type == type
    if ends.size <= FEW_SLICES and np.count_nonzero(which) == 1:
        at, slices, panes = int(which.argmax()), ends.tolist(), list[tuple[int, ...]]()
        start, end = int(due.start[at]), int(due.end[at])
        for before, cut in cuts.of_one(start, end, slices, after, until):
            low, high = bisect_right(slices, before), bisect_right(slices, cut)
            if low < high:
                panes.append((type, start, end, cut, low, high))
        return np.array(panes, np.int64).reshape(-1, 6).T
    of_type = due.take(which & (due.start < until))
    window, times = cuts.between(of_type.start, of_type.end, ends, after, until)
    starts, stops = of_type.start[window], of_type.end[window]
    lows, highs = ends.searchsorted((cuts.before(starts, stops, times), times), "right")
    held = lows < highs
    columns = [column[held] for column in (starts, stops, times, lows, highs)]
    return np.stack([np.full(columns[0].size, type), *columns])


def _ranges_of(low: Ints, high: Ints, group_first: Ints, slot: Ints) -> tuple[Ints, Ints, Ints]:
    """For each pane (slices ``low`` to ``high``) and each key with cells in it: the pane and the range of cells."""
    windows = np.stack([low, low, np.arange(low.size)], axis=1)
    ascending = is_sorted(low)
    (pane, first, last, _), _ = ranges_of(np.array([0, low.size]), windows, high, ascending, group_first, slot)
    return pane, first, last


def _cut_after(cuts: Cuts, due: DueWindows, times: Ints, after: int, until: int, window: Ints, slot: Ints) -> Ints:
    """The window's next cut after a slice's time, if the watermark passes it now; otherwise BEGIN."""
    cut = cuts.next(due.start[window], due.end[window], times[slot])
    return np.where((cut > after) & (cut <= until), cut, BEGIN)


def news_by_push(plan: Plan, pieces: Sequence[Cells], types: Mask, after: int, until: int = FOREVER) -> Found:
    """The windows of these types with ``after < end <= until`` that have cells in the pieces. The cut is the window's
    end."""
    found = []
    for piece, cells in enumerate(pieces):
        ends = cells.slice_ends
        due = plan.edges.due(ends, after, until)
        of_types = due if types.all() else due.take(types[due.type])
        if ends.size == 1 and len(pieces) == 1 and cells.a_cell_a_key:
            return _of_slice(cells, of_types)
        found.append(_news(piece, cells, of_types, of_types.low, of_types.high, partial(_end_of, of_types)))
    return _together(pieces, found)


def _of_slice(cells: Cells, due: DueWindows) -> Found:
    """All cells of one slice, sorted by key, as news of all windows that hold the slice."""
    size, windows, code = len(cells), due.type.size, np.ascontiguousarray(cells.code)
    each, cell = np.arange(size * windows + 1), np.arange(size)
    if windows == 1:
        pane = np.zeros(size, np.int64)
    else:
        pane, cell, code = np.repeat(np.arange(windows), size), np.tile(cell, windows), np.tile(code, windows)
    return Found(due.type, due.start, due.end, due.end, pane, code, each[:-1], each[1:], cell)


def _end_of(due: DueWindows, window: Ints, slot: Ints) -> Ints:
    return due.end[window]
