"""The head of the store: cells by key code, to which pushes that close nothing add in place.

A head has the newest slots, and takes rows or cells; or it has the part of one window that event-time triggers have
reported, and takes the slices that a cut has passed. Such a push costs only its rows, however many keys live: nothing
is sorted or merged. All that can fail happens before (:meth:`Head.prepare`); the change in place cannot fail.
:meth:`Head.cells` copies the cells. A head has a place for each key in each of its slots, so the places of keys without
rows are wasted. It begins once enough places would be taken: a count and a sum by key then take at most about 40 bytes
a cell, and 26 once all keys have rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.order import distinct, progression
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS
from slicing.kernels.combine import LOW
from slicing.kernels.scatter import OFTEN, scatter_new
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.lift import Lifted, Quads, Sums
from slicing.reducing.places import Grid
from slicing.storage.totals import Report, Totals
from slicing.system.arrays import Array, Ints, Mask

_EXACT = (kinds.COUNT, kinds.EXTREMES, *kinds.INTEGERS, kinds.SUM_F)


class Head:
    """Dense cells at slot * room + code."""

    def __init__(self, plan: Plan, ends: Ints, room: int, window: int | None = None) -> None:
        self.plan, self.ends, self.room = plan, ends, room
        self.window = window  # the end of the only window whose reported part this is; None for a head of slots
        self.size = ends.size * room
        self.used = 0
        self.reports: Ints | None = None  # how often each cell's window was reported, if that is counted here
        self.torn = False  # whether rows are being added: stays set if an interrupt leaves some of them in
        self._begun = np.zeros(ends.size, np.bool_)  # slots that have rows
        # one extra cell takes the rows that do not count
        self._blocks = [None if lane.counts_all else _block(plan, lane, self.size + 1) for lane in plan.lanes]
        self._counter = self._counting()
        # the first word tells the number of rows of each cell
        self._counted: Ints = np.zeros((self.size, 1), np.int64) if self._counter is None else self._counter.words
        self._most = 0  # rows of any cell, at most

    def _counting(self) -> Quads | Sums | None:
        """The block whose first word counts all rows (of :class:`Quads` only while no value is null).

        It saves a word a cell and access to a line of memory (1 M keys, 1 M rows a push: 7 of 86 ns a row)."""
        pairs = list(zip(self.plan.lanes, self._blocks, strict=True))
        sums = (block for _, block in pairs if isinstance(block, Sums))
        return next(sums, next((b for lane, b in pairs if isinstance(b, Quads) and lane.flag is None), None))

    @staticmethod
    def begun(plan: Plan, runs: Sequence[Cells], rows: Rows, horizon: int) -> Head | None:
        """An empty head for these rows, rows near them and the cells of runs. None if they span too many slots, or if
        it would have too few cells."""
        (width, _), slots = _slots(plan), plan.policy.head_slots
        first, high, oldest = (edge_after(plan, t) for t in (*rows.span[:2], horizon))
        low = oldest if (high - oldest) // width < slots else first
        if (high - low) // width >= slots:
            return None
        ends, codes, cells = progression(low, high, width), rows.codes, 0.0
        for end in ends.tolist():
            cells += _expected(rows, end - width, end, [len(run.ending(end - 1, end)) for run in runs])
        room = _room(plan, cells / ends.size, codes)
        return Head(plan, ends, room) if room else None

    @staticmethod
    def of_window(plan: Plan, end: int, reported: Cells, codes: int) -> Head | None:
        """A head of the part of a window that was reported. None if it would have too few cells."""
        room = _room(plan, int(np.count_nonzero(np.bincount(reported.code))), codes)
        head = Head(plan, reported.slice_ends[-1:], room, end) if room else None
        return head if head is not None and head.takes_cells and head._begin_with(reported) else None

    def taking(self, rows: Rows) -> Head | None:
        """This head, or a larger copy, if that takes the rows."""
        return self if self.takes(rows) else self.grown(rows)

    def grown(self, rows: Rows) -> Head | None:
        """A copy with room for the keys of these rows. None if that is not why they are not taken, or if too few places
        would be taken."""
        slots, codes = self.ends.size, rows.codes
        if codes <= self.room or not self._reaches(rows):
            return None
        self.check()
        held = [self.used // slots]
        if self.window is None:
            width, _ = _slots(self.plan)
            cells = sum(_expected(rows, end - width, end, held) for end in self.ends.tolist())
        else:
            cells = float(self.used)
        room = _room(self.plan, cells / slots, codes)
        if not room:
            return None
        head = Head(self.plan, self.ends, room, self.window)
        head.used, head._most, head._begun = self.used, self._most, self._begun.copy()
        if self._counter is None:
            head._counter, head._counted = None, np.zeros((head.size, 1), np.int64)
            self._move(self._counted, head._counted, room)
        if self.reports is not None:
            head.reports = np.zeros(head.size, np.int64)
            self._move(self.reports, head.reports, room)
        for block, more in zip(self._blocks, head._blocks, strict=True):
            if isinstance(block, np.ndarray):
                assert isinstance(more, np.ndarray)
                self._move(block, more, room)
            elif block is not None:
                assert isinstance(more, Quads | Sums)
                self._move(block.words, more.words, room)
                if isinstance(block, Quads) and isinstance(more, Quads):
                    often = (block.words[: self.size, 0] > OFTEN).nonzero()[0]
                    more.spilt[often // self.room * room + often % self.room] = block.spilt[often]
        return head

    def _move(self, old: Array, new: Array, room: int) -> None:
        """Copy each slot to its place in a head with this room."""
        for slot in range(self.ends.size):
            first, last = slot * self.room, (slot + 1) * self.room
            new[slot * room : slot * room + self.room] = old[first:last]

    @property
    def takes_cells(self) -> bool:
        """Whether cells can be taken in: not if results depend on the order of additions and should not."""
        return not self.plan.exact or all(lane.counts_all or lane.kind in _EXACT for lane in self.plan.lanes)

    def takes_in(self, run: Cells) -> bool:
        """Take in the cells of a run, unless it has other slices too; whether that was done. No rows were added yet.

        A key then has one cell of a slice, not one in the run and one in the head.
        """
        slot = self.ends.searchsorted(run.slice_ends)
        if slot[-1] == self.ends.size or (self.ends[slot] != run.slice_ends).any():
            return False
        return self._begin_with(run)

    def _begin_with(self, cells: Cells) -> bool:
        """Add cells to a head that nobody has yet, unless they have too many rows."""
        prepared = self.prepare_cells(cells, before=False)
        if prepared is not None:
            prepared.commit()
            self.torn = False
        return prepared is not None

    def _put(self, place: Ints, rows: Ints, blocks: Sequence[Block], own: Ints | None) -> None:
        """Write cells with these numbers of rows. ``own``: the numbers of rows, if no block counts them."""
        for block, partials in zip(self._blocks, blocks, strict=True):
            if block is None:
                continue
            assert isinstance(partials, np.ndarray)
            if isinstance(block, Sums):
                block.begin(place, rows, partials)
            elif isinstance(block, Quads):
                block.begin(place, partials)
            else:
                block[place] = partials
        if own is not None:
            self._counter, self._counted = None, own
            own[place, 0] = rows

    def _own_counts(self, rows: Ints, blocks: Sequence[Block]) -> Ints | None:
        """Where the numbers of rows are written, if no block counts them or will count them with these cells."""
        counter = self._counter
        if counter is None:
            return self._counted
        if isinstance(counter, Sums):
            return None
        at = next(i for i, block in enumerate(self._blocks) if block is counter)
        counts = blocks[at]
        assert isinstance(counts, np.ndarray)
        return None if bool((counts[:, 0] == rows).all()) else self._counted[: self.size, :1].copy()

    @property
    def nbytes(self) -> int:
        rows = self._counted.nbytes if self._counter is None else 0
        rows += 0 if self.reports is None else self.reports.nbytes
        return rows + sum(block.nbytes for block in self._blocks if block is not None)

    def slices_beside(self, runs: Sequence[Cells], coming: Mask | None) -> int:
        """How many of the head's slices none of the runs has. ``coming``: the slots that will have rows."""
        if self.window is not None:
            return 1
        held = self.ends[self._begun if coming is None else coming]
        return sum(not any(end in run.slice_ends for run in runs) for end in held)

    def takes(self, rows: Rows) -> bool:
        return rows.codes <= self.room and self._reaches(rows)

    def _reaches(self, rows: Rows) -> bool:
        """Whether the rows are in its slots, and not too many for a cell."""
        if self._most + len(rows) > self.plan.policy.head_most:
            return False
        if self.window is not None:
            return True
        width, _ = _slots(self.plan)
        return bool(self.ends[0] - width <= rows.span[0] and rows.span[1] < self.ends[-1])

    def prepare(self, rows: Rows) -> tuple[Mask, Callable[[], int]]:
        """Do everything that can fail. Returns the slots that will have rows, and a function that adds the rows and
        returns how many cells are new."""
        lanes = [
            Lifted(rows, lane, self.size, block)
            for lane, block in zip(self.plan.lanes, self._blocks, strict=True)
            if block is not None
        ]
        counter = next((lane for lane in lanes if self._counter is not None and lane.goes_on(self._counter)), None)
        own = self._counted
        if counter is not None and not counter.counts_rows:
            counter, own = None, own[: self.size, :1].copy()
        chunks = list(Grid(rows, self.ends, self.room).chunks(self.plan.policy.chunk))
        begun = self._begun.copy()
        width, _ = _slots(self.plan)
        for slot in np.flatnonzero(~begun):
            begun[slot] = _inside(rows, self.ends[slot] - width, self.ends[slot]) > 0
        if any(lane.kind in (kinds.FIRST, kinds.LAST, kinds.ARG) for lane in self.plan.lanes):
            _ = rows.order

        def commit() -> int:
            self.torn = True
            self._begun, self._most, before = begun, self._most + len(rows), self.used
            if counter is None:
                self._counter, self._counted = None, own
            for chunk, cell, base in chunks:
                new = {lane: lane.scatter(chunk, cell, base) for lane in lanes}
                self.used += int(scatter_new(cell, own[base:])) if counter is None else new[counter]
            return self.used - before

        return begun, commit

    def prepare_cells(self, cells: Cells, before: bool) -> Prepared | None:
        """As ``prepare``, for cells. ``before``: the partials before are asked for. None if they have too many rows."""
        parts = [cells]
        if self.window is None or cells.one_slice:
            place, slot = self._places(cells)
        else:  # one slice after the other: each is reported with those before it
            place, slot = distinct(cells.code), 0
            stops = pairwise([*cells.slices().tolist(), len(cells)])
            parts = [cells.take(slice(low, high)) for low, high in stops]
        most = self._most + int(cells.rows.max()) * len(parts)
        if most > self.plan.policy.head_most:
            return None
        times = None if self.reports is None else self.reports.take(place)
        totals = Totals(self.plan.lanes, self._blocks, place, self._rows_at(place), times)
        if len(parts) == 1:
            reports = [totals.with_all(cells, before)]
        else:
            reports = [totals.with_some(part, before, place.searchsorted(part.code)) for part in parts]
        begun = self._begun.copy()
        begun[slot] = True
        own, ends = self._own_counts(totals.rows, totals.blocks), self.ends if self.window is None else cells.end[-1:]

        def commit() -> int:
            self.torn = True
            self._begun, self._most, self.ends = begun, most, ends
            self._put(place, totals.rows, totals.blocks, own)
            if self.reports is not None and totals.times is not None:
                self.reports[place] = totals.times
            self.used += totals.fresh
            return totals.fresh

        return Prepared(begun, commit, reports)

    def _places(self, cells: Cells) -> tuple[Ints, Ints | int]:
        """The place of each cell, and the slots that they are in."""
        if self.window is not None:
            return cells.code.copy(), 0  # never read-only: a kernel is compiled for one type
        if cells.one_slice:
            slot = self.ends.searchsorted(cells.end[:1])
            return cells.code + slot * self.room, slot
        slot = self.ends.searchsorted(cells.slice_ends)
        return np.repeat(slot * self.room, np.diff(cells.slices(), append=len(cells))) + cells.code, slot

    def count_reports(self, window_end: Ints, code: Ints, count: Ints) -> Ints:
        """Count reports of windows here from now on. Takes how often some were reported, and returns which of these are
        in the head."""
        ends = self._window_ends
        slot = ends.searchsorted(window_end)
        inside = (slot < ends.size) & (code < self.room)
        inside[inside] = ends[slot[inside]] == window_end[inside]
        held = inside.nonzero()[0]
        self.reports = np.zeros(self.size, np.int64)
        self.reports[slot[held] * self.room + code[held]] = count[held]
        return held

    def reported(self) -> tuple[Ints, Ints, Ints]:
        """The end of the window, the key, and how often it was reported, of each cell whose window was."""
        counts = np.zeros(0, np.int64) if self.reports is None else self.reports
        held = counts.nonzero()[0]
        return self._window_ends[held // self.room], held % self.room, counts[held]

    @property
    def _window_ends(self) -> Ints:
        """The end of the window that each slot is in."""
        return self.ends if self.window is None else np.array([self.window])

    def _rows_at(self, place: Ints) -> Ints:
        """The numbers of rows of these cells."""
        rows: Ints = self._counted[place, 0]  # `take` would copy the column first
        return rows & LOW if isinstance(self._counter, Sums) else rows

    def cells(self) -> Cells:
        """A copy of the cells as a sorted table."""
        self.check()
        counter = self._counter
        rows = (counter.rows() if isinstance(counter, Sums) else self._counted[:, 0])[: self.size]
        held = rows.nonzero()[0]
        meta = np.empty((held.size, 3), np.int64)
        meta[:, END], meta[:, CODE], meta[:, ROWS] = self.ends[held // self.room], held % self.room, rows[held]
        blocks = []
        for block in self._blocks:
            if block is None:
                blocks.append(meta[:, ROWS:].copy())
            else:
                blocks.append(block.take(held, axis=0) if isinstance(block, np.ndarray) else block.partials(held))
        return Cells(meta, tuple(blocks))

    def check(self) -> None:
        """Refuse a head that has only some rows of an interrupted push."""
        if self.torn:
            raise RuntimeError(
                "a push was interrupted while it added its rows, and some of them are in; go on from the last snapshot "
                "with Operator.restore, or build a new Operator"
            )


class Prepared(NamedTuple):
    """Cells that are prepared to go into a head, and what it then has of their keys."""

    slots: Mask  # the slots that will have rows
    commit: Callable[[], int]  # adds the cells in place, which cannot fail; returns how many are new
    reports: list[Report]


def edge_after(plan: Plan, time: int) -> int:
    width, phase = _slots(plan)
    return (time - phase) // width * width + width + phase


def _room(plan: Plan, cells: float, codes: int) -> int:
    """The places of a slot that has so many cells; 0 if they would be too few of them.

    It has room for some new keys: otherwise each of them would begin another head.
    """
    places = int(cells / plan.policy.head_filled)
    return min(places, codes + codes // 4) + 8 if places >= codes + codes // 16 else 0


def _expected(rows: Rows, start: int, end: int, held: Sequence[int]) -> float:
    """How many cells a slot is likely to have with these rows, beside runs that have so many. Keys are taken to be
    equally frequent, and independent in each run and in the rows."""
    codes = rows.codes
    missing = codes * exp(-_inside(rows, start, end) / codes)
    for cells in held:
        missing *= max(1 - cells / codes, 0)
    return codes - missing


def _inside(rows: Rows, start: int, end: int) -> int:
    """How many rows are between these times."""
    if start <= rows.span[0] and rows.span[1] < end:
        return len(rows)
    return int(np.count_nonzero((rows.time >= start) & (rows.time < end)))


def _block(plan: Plan, lane: Lane, size: int) -> Ints | Quads | Sums:
    if lane.kind in (kinds.SUM_F, kinds.SUM_I):
        return Sums(size)
    quads = lane.kind == kinds.BASIC_F and not plan.exact
    return Quads(size, lane.kind) if quads else kinds.identity(lane.kind, size)


def _slots(plan: Plan) -> tuple[int, int]:
    regular = plan.edges.regular_width(0)
    assert regular is not None
    return regular
