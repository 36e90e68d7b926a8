"""Sessions and whole streams that are reported at rows which are marks, and also at cuts of time.

Rows wait until the watermark has passed them. Rows that came behind the watermark pass first, at the watermark; later
rows pass in time order and split no run. So a run's items are in time order, and a pane holds the run's items up to a
mark. Between pushes there is one cell for each current report, and one for a run's rows that no pane has reported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import identity, kind_of
from slicing.cells.sessions import SessionCells, chains
from slicing.cells.table import Cells, concatenated
from slicing.closing.answers import Answers
from slicing.closing.emit import combined
from slicing.closing.panes import EARLY, Panes
from slicing.closing.panes import LAST as ON_TIME_PLACE
from slicing.columns.order import distinct, inverse, none, order_by
from slicing.kernels import cells as meta
from slicing.query.plan import ENDLESS, Plan
from slicing.storage.row_panes import END, KEY, LAST, MARKS, OF, PLACE, REPORTED, START, WINDOW, RowPanes
from slicing.system.arrays import Ints, Mask
from slicing.windows import bounds
from slicing.windows.cuts import RowCuts


class _Kind(NamedTuple):
    """A window type of runs: its number, the gap that ends a run (None: nothing does), and how it is cut."""

    number: int
    gap: int | None
    cuts: RowCuts

    @property
    def beyond(self) -> int:
        """How long after its last row a run ends."""
        return self.gap or 0


def passed(
    plan: Plan, known: RowPanes, facts: Ints, cells: Cells, after: int, reached: int
) -> tuple[RowPanes, list[Panes]]:
    """The panes of rows that the watermark passes, and what is taken back of runs that it completes.

    ``facts`` and ``cells`` are of the rows that pass. ``reached`` is ``bounds.END`` if the stream ends.
    """
    panes = []
    gap_of = {session.window: session.gap for session in plan.sessions}
    for number, cuts in plan.early.run_marks.items():
        kind = _Kind(number, gap_of.get(number), cuts)
        known, more = _reported(plan, kind, known, *_in_time(plan, kind, facts, cells), after, reached)
        known, gone = _completed(plan, kind, known, reached)
        panes += [*more, gone]
    return known, panes


def first_end(plan: Plan, known: RowPanes) -> int:
    """The earliest end of a session as it was reported last. ``bounds.END``: there is none."""
    number, last = known.windows[known.parts[:, OF], WINDOW], known.parts[:, LAST]
    reported = known.parts[:, REPORTED] == 1
    found = [
        int(last[own].min()) + session.gap
        for session in plan.sessions
        if (own := reported & (number == session.window)).any()
    ]
    return min(found, default=bounds.END)


def _in_time(plan: Plan, kind: _Kind, facts: Ints, cells: Cells) -> tuple[Ints, Cells]:
    """Drop rows that are too late for this window."""
    slack = plan.lateness + (0 if kind.gap is None else kind.gap - 1)
    taken = (cells.end == facts[:, PLACE]) | (cells.end + slack >= facts[:, PLACE])
    return (facts, cells) if taken.all() else (facts[taken], cells.take(taken))


class _Items(NamedTuple):
    """Current reports, unreported rows and rows that pass now: by run, in time order."""

    run: Ints
    start: Ints  # the first time of the item's run
    end: Ints  # the last time of the run
    upto: Ints  # the last time of the run's items so far
    first: Ints
    last: Ints
    place: Ints
    reported: Mask
    marked: Mask
    cells: Cells


def _items(kind: _Kind, older: RowPanes, facts: Ints, cells: Cells, after: int) -> _Items:
    windows, reported = older.windows[older.parts[:, OF]], older.parts[:, REPORTED] == 1
    no, at = np.zeros(len(facts), np.bool_), np.full(len(older.parts), after)
    code = np.concatenate([windows[:, KEY], cells.code])
    first, last = (np.concatenate([old, cells.end]) for old in (windows[:, START], older.parts[:, LAST]))
    order = order_by(first, code)
    spans = np.zeros((order.size, 6), np.int64)
    spans[:, meta.CODE], spans[:, meta.FIRST], spans[:, meta.LAST] = code[order], first[order], last[order]
    found = chains(SessionCells(spans, ()), ENDLESS if kind.gap is None else kind.gap)
    run, first, last = found.run, first[order], last[order]
    latest = order_by(last, run)  # to find the last time so far, in each run by itself
    return _Items(
        *(run, found.start[run], found.end[run], last[latest[np.maximum.accumulate(inverse(latest))]], first, last),
        *(np.concatenate([at, facts[:, PLACE]])[order], np.append(reported, no)[order]),
        np.append(np.zeros(at.size, np.bool_), facts[:, MARKS] & kind.cuts.marks != 0)[order],
        concatenated([older.part_cells, cells]).take(order),
    )


def _reported(
    plan: Plan, kind: _Kind, known: RowPanes, facts: Ints, cells: Cells, after: int, reached: int
) -> tuple[RowPanes, list[Panes]]:
    """Let rows pass. Also returns the panes at marks among these rows, and at cuts of time."""
    touched = (known.windows[:, WINDOW] == kind.number) & (known.windows[:, END] > after)
    if kind.cuts.times is None:  # then nothing happens to runs without new rows
        touched &= np.isin(known.windows[:, KEY], distinct(cells.code))
    older = known.of(touched)
    if not (len(facts) or len(older.parts)):
        return known, []
    items = _items(kind, older, facts, cells, after)
    ends = _pane_ends(kind, items, reached)
    newer = _left(plan, kind, items, ends)
    return known.with_windows([known.of(~touched), newer]), _panes(plan, kind, items, ends)


def _pane_ends(kind: _Kind, items: _Items, reached: int) -> Ints:
    """The items at which a pane ends: the run is open there, and has rows that no pane has reported."""
    follows = np.append(items.run[1:] == items.run[:-1], False)[: items.run.size]

    def closes(cut: Ints) -> Mask:
        """The last item of a run before each of its cuts, if the run is still open at the cut."""
        within = True if kind.gap is None else items.upto + kind.gap > cut
        last: Mask = ~(follows & np.append(cut[1:] == cut[:-1], False)[: cut.size]) & within
        return last

    new = np.append(True, (items.place[1:] != items.place[:-1]) | ~follows[:-1])[: items.run.size]
    group = np.cumsum(new) - 1
    held = np.zeros(items.run.size, np.bool_)
    held[group[items.marked]] = True
    ends = held[group] & closes(items.place)
    if kind.cuts.times is not None:
        never = np.full(items.run.size, bounds.END)
        cut = kind.cuts.times.next(never, never, items.place + 1)
        ends |= closes(cut) & (cut <= reached)
    at, news = np.flatnonzero(ends), np.cumsum(~items.reported)
    low = np.searchsorted(items.run, items.run[at])
    before = np.where(np.append(False, low[1:] == low[:-1])[: at.size], np.append(0, at[:-1])[: at.size], low - 1)
    found: Ints = at[news[at] > np.where(before < 0, 0, news[before])]
    return found


def _panes(plan: Plan, kind: _Kind, items: _Items, ends: Ints) -> list[Panes]:
    """The reports, and what they take back: the run's previous report, or the reports of the runs that it was then."""
    low, place = np.searchsorted(items.run, items.run[ends]), np.arange(ends.size)
    again = np.append(False, low[1:] == low[:-1])[: ends.size]
    previous = ends[np.flatnonzero(again) - 1]
    first_pane = np.full(int(items.run[-1]) + 1 if items.run.size else 0, -1)
    first_pane[items.run[ends[~again]]] = place[~again]
    reported = np.flatnonzero(items.reported)
    reported = reported[first_pane[items.run[reported]] >= 0]
    each = _answers(plan, kind, items, reported, reported + 1, items.first[reported], items.last[reported])
    was = _answers(plan, kind, items, low[again], previous + 1, items.start[previous], items.upto[previous])
    now = _answers(plan, kind, items, low, ends + 1, items.start[ends], items.upto[ends])
    return [
        Panes.of(each, 2 * first_pane[items.run[reported]], EARLY),
        Panes.of(was, 2 * place[again], EARLY),
        Panes.of(now, 2 * place + 1, EARLY),
    ]


def _answers(plan: Plan, kind: _Kind, items: _Items, first: Ints, last: Ints, start: Ints, end: Ints) -> Answers:
    if not first.size:
        return Answers.none(plan)
    blocks, code = combined(plan, items.cells, first, last), items.cells.code[first]
    return Answers(np.full(first.size, kind.number), start, end + kind.beyond, code, blocks)


def _left(plan: Plan, kind: _Kind, items: _Items, ends: Ints) -> RowPanes:
    """One cell for each current report, and one for a run's other rows."""
    latest = np.full(items.run.size, -1)
    latest[items.run[ends]] = ends
    own = 2 * items.run.size + np.arange(items.run.size)
    otherwise = np.where(items.reported, own, 2 * items.run + 1)
    _, item, into = np.unique(
        np.where(own - own[:1] <= latest[items.run], 2 * items.run, otherwise), return_index=True, return_inverse=True
    )
    reported = items.reported[item] | (item <= latest[items.run[item]])
    facts = items.cells.meta.take(item, axis=0)
    facts[:, meta.ROWS] = 0
    np.add.at(facts[:, meta.ROWS], into, items.cells.rows)
    first, last = items.first[item], items.last[item]
    np.minimum.at(first, into, items.first)
    np.maximum.at(last, into, items.last)
    pairs = zip(plan.lanes, items.cells.blocks, strict=True)
    blocks = tuple(kind_of(lane).merged(lane, into, item.size, block, identity(lane, 0)) for lane, block in pairs)
    gone = items.end[item] + (kind.gap + plan.lateness + 1) if kind.gap is not None else np.full(item.size, bounds.END)
    number = np.full(item.size, kind.number)
    windows = np.stack([number, first, gone, facts[:, meta.CODE], np.zeros(item.size, np.int64)], axis=1)
    parts = np.stack([np.arange(item.size), reported.astype(np.int64), last], axis=1)
    return replace(RowPanes.none(plan), windows=windows, parts=parts, part_cells=Cells(facts, blocks))


def _completed(plan: Plan, kind: _Kind, known: RowPanes, reached: int) -> tuple[RowPanes, Panes]:
    """What complete runs take back. Late rows may open the runs again, so their cells stay."""
    windows = known.windows[known.parts[:, OF]]
    over = (windows[:, WINDOW] == kind.number) & (known.parts[:, REPORTED] == 1)
    if reached < bounds.END:
        over &= (windows[:, END] - plan.lateness <= reached) & (kind.gap is not None)
    which = np.flatnonzero(over)
    if not which.size:
        return known, Panes.of(Answers.none(plan), none(), EARLY)
    start, end, code = windows[which, START], known.parts[which, LAST] + kind.beyond, windows[which, KEY]
    blocks = combined(plan, known.part_cells, which, which + 1)
    parts = known.parts.copy()
    parts[which, REPORTED] = 0
    was = Answers(np.full(which.size, kind.number), start, end, code, blocks)
    return replace(known, parts=parts), Panes.of(was, 2 * ON_TIME_PLACE, EARLY)
