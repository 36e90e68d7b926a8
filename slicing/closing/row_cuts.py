"""Panes at rows: after every n-th row of a window and key, and after rows that are marks.

Rows pass in order: by time as the watermark passes them (rows behind it are placed at it), or by arrival. For each
window, the rows that have passed now follow the cells of earlier rows in one sorted list of cells. A pane ends at some
of these cells, and holds a range of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block, identity, kind_of
from slicing.cells.table import Cells, concatenated
from slicing.closing import run_marks
from slicing.closing.answers import Answers
from slicing.closing.emit import combined
from slicing.closing.panes import EARLY, ON_TIME, Panes
from slicing.columns.order import begins, changes, distinct, order_by, ranges, sorting
from slicing.kernels import cells as meta
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import lift_rows
from slicing.storage.row_panes import (
    ARRIVAL,
    COUNT,
    END,
    KEY,
    LAST,
    MARKS,
    OF,
    PLACE,
    REPORTED,
    SEQUENCE,
    START,
    WINDOW,
    RowPanes,
)
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.cuts import RowCuts


def arrived(plan: Plan, known: RowPanes, rows: Sequence[Rows], watermark: int) -> tuple[RowPanes, list[Panes]]:
    """Take rows of a push in the order of arrival. Also returns the panes that need not wait."""
    some = [part for part in rows if len(part)]
    if not some:
        return known, []
    facts = np.concatenate([_facts(plan, part, watermark) for part in some])
    cells = concatenated([lift_rows(part) for part in some])
    at_once = [k for k, cuts in enumerate(plan.early.row_cuts) if cuts is not None and cuts.at_once]
    panes = list[Panes]()
    if at_once:
        order = order_by(facts[:, ARRIVAL])
        known, panes = _in_steps(plan, known, at_once, facts[order], cells.take(order), BEGIN)
    if plan.early.run_marks or any(cuts is not None and not cuts.at_once for cuts in plan.early.row_cuts):
        known = known.waits(facts, cells)
    return known, panes


def _facts(plan: Plan, rows: Rows, watermark: int) -> Ints:
    found = np.zeros((len(rows), 4), np.int64)
    found[:, PLACE] = np.maximum(rows.time, watermark)
    found[:, SEQUENCE], found[:, ARRIVAL] = rows.sequence(), rows.arrivals()
    for bit, name in enumerate(plan.early.marks):
        found[:, MARKS] |= rows.flag(name).astype(np.int64) << bit
    return found


def passed(plan: Plan, known: RowPanes, after: int, reached: int) -> tuple[RowPanes, list[Panes]]:
    """The panes at rows, and at cuts of time between them, that the watermark passes on its way from ``after``."""
    waits = [k for k, cuts in enumerate(plan.early.row_cuts) if cuts is not None and not cuts.at_once]
    if not (waits or plan.early.run_marks):
        return known, []
    gone = known.rows[:, PLACE] < reached
    which = np.flatnonzero(gone)
    some = slice(which.size) if which.size and which[-1] == which.size - 1 else which  # usually rows came in order
    facts, cells = known.rows[some], known.row_cells.take(some)
    if which.size:
        known = known.without_rows(gone)
    panes = list[Panes]()
    for by_arrival in (False, True):
        types = [k for k in waits if _cuts(plan, k).by_arrival is by_arrival]
        if not types or not (which.size or any(_cuts(plan, k).times is not None for k in types)):
            continue
        keys = (
            (facts[:, ARRIVAL],) if by_arrival else (facts[:, ARRIVAL], facts[:, SEQUENCE], cells.end, facts[:, PLACE])
        )
        order = sorting(*map(np.ascontiguousarray, keys))
        ordered = (facts, cells) if order is None else (facts.take(order, axis=0), cells.take(order))
        known, more = _in_steps(plan, known, types, *ordered, reached)
        panes += more
    if plan.early.run_marks:
        known, more = run_marks.passed(plan, known, facts, cells, after, reached)
        panes += more
    return known, panes


def _cuts(plan: Plan, type: int) -> RowCuts:
    cuts = plan.early.row_cuts[type]
    assert cuts is not None
    return cuts


def _in_steps(
    plan: Plan, known: RowPanes, types: Sequence[int], facts: Ints, cells: Cells, reached: int
) -> tuple[RowPanes, list[Panes]]:
    """Let sorted rows pass, some at a time. Rows of one place stay together, and a cut comes after all rows before
    it."""
    overlap = max(plan.bounds[k].overlap for k in types)
    size, first, panes = max(plan.policy.cut_rows // max(overlap, 1), 1), 0, list[Panes]()
    by_arrival = _cuts(plan, types[0]).by_arrival
    while True:
        last, upto = min(first + size, len(facts)), reached
        if last < len(facts) and not by_arrival:
            last = int(facts[:, PLACE].searchsorted(facts[last - 1, PLACE], "right"))
            upto = int(facts[last, PLACE]) if last < len(facts) else reached
        some = slice(first, last)
        known, more = _step(plan, known, types, facts[some], cells.take(some), upto, 2 * first)
        panes, first = [*panes, *more], last
        if last == len(facts):
            return known, panes


class _Items(NamedTuple):
    """The items of windows, sorted by window and key: cells of earlier rows, then rows in their order."""

    windows: Ints  # facts of windows
    group: Ints  # the window of each item, by number
    first: Ints  # the first item of each group
    passed: Ints  # how many rows of the window have passed, including the item
    is_row: Mask
    reported: Mask
    place: Ints
    marks: Ints
    cells: Cells

    def of(self, column: int, which: Ints) -> Ints:
        """A fact of the windows that these items belong to."""
        return self.windows[:, column].take(self.group.take(which))


def _step(
    plan: Plan, known: RowPanes, types: Sequence[int], facts: Ints, cells: Cells, upto: int, before: int
) -> tuple[RowPanes, list[Panes]]:
    """Let sorted rows pass, and cuts up to ``upto``."""
    of, row = _windows_of(plan, types, facts, cells)
    touched = _touched(plan, known, types, of)
    older = known.of(touched)
    if not (len(of) or len(older.parts)):
        return known, []
    items = _items(older, of, row, facts, cells)
    ends = np.flatnonzero(_pane_ends(plan, types, items, upto))
    panes = _panes(plan, items, ends, before)
    newer = _left(plan, items, ends)
    return known.with_windows([known.of(~touched), newer]), panes


def _windows_of(plan: Plan, types: Sequence[int], facts: Ints, cells: Cells) -> tuple[Ints, Ints]:
    """The facts of the open windows that hold each row, and the row."""
    none = np.empty((0, 5), np.int64), np.empty(0, np.int64)
    if not len(facts):
        return none
    slice_of = plan.edges.next_live(cells.end, BEGIN)
    ends = distinct(slice_of)
    order = sorting(slice_of)
    starts = (slice_of if order is None else slice_of[order]).searchsorted(ends)
    starts = np.append(starts, slice_of.size)
    due = plan.edges.due(ends, int(facts[:, PLACE].min()), FOREVER)
    due = due.take(np.isin(due.type, types))
    count = starts[due.high] - starts[due.low]
    window, row = np.repeat(np.arange(count.size), count), ranges(starts[due.low], count)
    row = row if order is None else order.take(row)
    still = due.end.take(window) > facts[:, PLACE].take(row)
    if not still.all():
        window, row = window[still], row[still]
    found = np.empty((row.size, 5), np.int64)
    found[:, WINDOW] = np.array(plan.timed, np.int64)[due.type].take(window)
    found[:, START], found[:, END] = due.start.take(window), due.end.take(window)
    found[:, KEY], found[:, COUNT] = cells.code.take(row), 0
    return found, row


def _touched(plan: Plan, known: RowPanes, types: Sequence[int], of: Ints) -> Mask:
    """Known windows in which rows may pass, and windows with cuts of time and unreported rows."""
    size = int(max(known.windows[:, KEY].max(initial=0), of[:, KEY].max(initial=0))) + 1
    keys, (of_types, cut) = np.zeros(size, np.bool_), np.zeros((2, len(plan.names)), np.bool_)
    keys[of[:, KEY]] = True
    for k in types:
        of_types[plan.timed[k]], cut[plan.timed[k]] = True, _cuts(plan, k).times is not None
    window = known.windows[:, WINDOW]
    since = np.zeros(len(known.windows), np.bool_)
    since[known.parts[known.parts[:, REPORTED] == 0, OF]] = True
    touched: Mask = (of_types[window] & keys[known.windows[:, KEY]]) | (cut[window] & since)
    return touched


def _items(older: RowPanes, of: Ints, row: Ints, facts: Ints, cells: Cells) -> _Items:
    """All items of windows, sorted, each with the number of rows so far."""
    heads, parts = len(older.windows), len(older.parts)
    window = np.concatenate([older.windows, older.windows.take(older.parts[:, OF], axis=0), of])
    place_in = np.concatenate([np.full(heads, -3), np.where(older.parts[:, REPORTED] == 1, -2, -1), row])
    names = [np.ascontiguousarray(window[:, at]) for at in (KEY, END, START, WINDOW)]
    names = [name for name in names if (name != name[0]).any()]
    keys = names if _are_in_order(older.parts, row) else [place_in, *names]
    order = order_by(*keys) if keys else np.arange(len(window))
    place_in = place_in.take(order)
    new = changes(*[name.take(order) for name in names]) if names else np.arange(order.size) == 0
    group, first = np.cumsum(new) - 1, np.flatnonzero(new)
    is_row, windows = place_in >= 0, window.take(order.take(first), axis=0)
    base = np.where(place_in[first] == -3, windows[:, COUNT], 0)
    rows = np.cumsum(is_row)
    count = rows + (base - rows[first] + is_row[first]).take(group)
    windows[:, COUNT] = count[np.append(first[1:], order.size) - 1]
    kept = np.flatnonzero(place_in > -3)
    source, of_row = order.take(kept) - heads, is_row.take(kept)
    chosen, place = np.append(np.arange(parts), parts + row), np.append(older.parts[:, LAST], facts[:, PLACE].take(row))
    marks = np.zeros(kept.size, np.int64)
    if facts[:, MARKS].any():
        marks = np.append(np.zeros(parts, np.int64), facts[:, MARKS].take(row)).take(source)
    group = group.take(kept)
    # a window has no item if all its rows were reported and none is remembered
    held = np.searchsorted(group, np.arange(len(windows)))
    every = concatenated([older.part_cells, cells]).take(chosen.take(source))
    reported = place_in.take(kept) == -2
    return _Items(windows, group, held, count.take(kept), of_row, reported, place.take(source), marks, every)


def _are_in_order(parts: Ints, row: Ints) -> bool:
    """Whether reported cells come before unreported ones, and rows are in order, so that neither has to be sorted."""
    same, reported = parts[1:, OF] == parts[:-1, OF], parts[:, REPORTED]
    return bool((row[1:] > row[:-1]).all()) and not (same & (reported[1:] > reported[:-1])).any()


def _pane_ends(plan: Plan, types: Sequence[int], items: _Items, upto: int) -> Mask:
    """The items at which a pane ends."""
    ends = np.zeros(items.group.size, np.bool_)
    follows = np.append(items.group[1:] == items.group[:-1], False)[: ends.size]
    for k in types:
        cuts = _cuts(plan, k)
        of_type = np.flatnonzero((items.windows[:, WINDOW] == plan.timed[k]).take(items.group) & ~items.reported)
        is_row, count = items.is_row[of_type], items.passed[of_type]
        for n, times in cuts.counts:
            ends[of_type] |= is_row & (count % n == 0) & (True if times is None else count // n <= times)
        if cuts.marks:
            ends[of_type] |= _marked(items, of_type, cuts.marks, follows)
        if cuts.times is not None and of_type.size:
            start, end = items.of(START, of_type), items.of(END, of_type)
            next_ = np.full(ends.size + 1, BEGIN)
            next_[of_type] = cuts.times.next(start, end, items.place[of_type] + 1)
            same = follows[of_type] & (next_[of_type + 1] == next_[of_type])
            ends[of_type] |= (next_[of_type] <= upto) & (next_[of_type] < end) & ~same
    return ends


def _marked(items: _Items, of_type: Ints, marks: int, follows: Mask) -> Mask:
    """The last row of each place that has a mark."""
    place = items.place
    alike = np.append(place[1:] == place[:-1], False)[: place.size] & follows
    alike &= items.is_row
    run = np.cumsum(np.append(0, ~alike[:-1])[: place.size])
    held = np.zeros(int(run[-1]) + 1 if run.size else 0, np.bool_)
    held[run[items.is_row & (items.marks & marks != 0)]] = True
    found: Mask = items.is_row[of_type] & held[run[of_type]] & ~alike[of_type]
    return found


def _panes(plan: Plan, items: _Items, ends: Ints, before: int) -> list[Panes]:
    """The panes that end at these items."""
    if not ends.size:
        return []
    group, emit = items.group[ends], plan.spec.emit
    again = np.append(False, group[1:] == group[:-1])
    previous = np.where(again, np.append(-1, ends[:-1]), -1)
    low = items.first[group]
    at = np.arange(ends.size)
    order = before + at - np.repeat(np.flatnonzero(~again), np.diff(np.append(np.flatnonzero(~again), ends.size)))
    if emit == "parts":
        found = _answers(plan, items, ends, np.where(again, previous + 1, low), ends + 1)
        return [Panes.of(found, order, EARLY)]
    now = _answers(plan, items, ends, low, ends + 1)
    if emit == "updates":
        return [Panes.of(now, order, EARLY)]
    high = np.where(again, previous + 1, low + items.reported[low])
    held = np.flatnonzero(high > low)
    was = _answers(plan, items, ends[held], low[held], high[held])
    return [Panes.of(was, 2 * order[held], EARLY), Panes.of(now, 2 * order + 1, EARLY)]


def _answers(plan: Plan, items: _Items, at: Ints, first: Ints, last: Ints) -> Answers:
    window = items.windows.take(items.group.take(at), axis=0)
    blocks = combined(plan, items.cells, first, last) if at.size else Answers.none(plan).whole()
    return _as_answers(window, blocks)


def _as_answers(window: Ints, blocks: tuple[Block, ...]) -> Answers:
    which, start, end, code = (np.ascontiguousarray(window[:, column]) for column in (WINDOW, START, END, KEY))
    return Answers(which, start, end, code, blocks)


def _left(plan: Plan, items: _Items, ends: Ints) -> RowPanes:
    """The windows after the step. A window has at most two cells for a key: its reported rows, unless they are never
    needed again, and its other rows."""
    latest = np.full(len(items.windows), -1, np.int64)
    latest[items.group[ends]] = ends
    reported = items.reported | (np.arange(items.group.size) <= latest.take(items.group))
    group, cells, place = items.group, items.cells, items.place
    if plan.spec.emit == "parts":
        kept = np.flatnonzero(~reported)
        group, cells, place, reported = group.take(kept), cells.take(kept), place.take(kept), reported.take(kept)
    first = begins(2 * group + ~reported)
    into = np.repeat(np.arange(first.size), np.diff(np.append(first, group.size)))
    last = np.append(first[1:], group.size)[: first.size] - 1
    facts = cells.meta.take(first, axis=0)
    facts[:, meta.ROWS] = np.add.reduceat(cells.rows, first) if first.size else facts[:, meta.ROWS]
    pairs = zip(plan.lanes, cells.blocks, strict=True)
    blocks = tuple(kind_of(lane).merged(lane, into, first.size, block, identity(lane, 0)) for lane, block in pairs)
    parts = np.stack([group[first], reported[first].astype(np.int64), place[last]], axis=1)
    return replace(RowPanes.none(plan), windows=items.windows, parts=parts, part_cells=Cells(facts, blocks))


def completed(plan: Plan, known: RowPanes, until: int, reported: bool) -> Answers:
    """For windows that end by ``until``: the rows that panes have reported (``reported``), or all other rows."""
    windows = known.windows[known.parts[:, OF]]
    ends = (windows[:, END] <= until) & ~np.isin(windows[:, WINDOW], list(plan.early.run_marks))
    which = np.flatnonzero(ends & (known.parts[:, REPORTED] == reported))
    if not which.size:
        return Answers.none(plan)
    return _as_answers(windows[which], combined(plan, known.part_cells, which, which + 1))


def on_time(plan: Plan, known: RowPanes, until: int, order: int) -> Panes:
    """The last parts of windows that are complete."""
    return Panes.of(completed(plan, known, until, reported=False), order, ON_TIME)
