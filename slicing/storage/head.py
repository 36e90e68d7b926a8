"""The head of the store: cells by key code, changed in place by pushes that close nothing.

Two kinds. A slot head holds the newest slots and takes rows or cells. A window head holds the reported part of one
window and takes slices that a cut has passed.

A push in place costs only its rows, however many keys live: nothing is sorted or merged. All that can fail happens
before (:meth:`Head.prepare`, :meth:`Head.prepare_cells`). The change in place cannot fail. :meth:`Head.cells` copies
the cells.

A head has a place for each key in each of its slots. The places of keys without rows are wasted, so a head begins once
enough places would be taken. A count and a sum by key then take at most about 40 bytes a cell, and 26 once all keys
have rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.kernels import combine as kinds
from slicing.kernels.cells import ROWS
from slicing.kernels.combine import LOW
from slicing.kernels.scatter import OFTEN, scatter_new
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.lift import Lifted, Quads, Sums
from slicing.reducing.places import Grid
from slicing.reducing.reduce import meta_of
from slicing.storage.totals import Report, Totals
from slicing.system.arrays import Array, Ints, Mask

_EXACT = (kinds.COUNT, kinds.EXTREMES, *kinds.INTEGERS, kinds.SUM_F)


class Head:
    """Dense cells at slot * room + code. Each kind of head defines its slots."""

    def __init__(self, plan: Plan, ends: Ints, window_ends: Ints, room: int) -> None:
        self.plan, self.ends, self.room = plan, ends, room
        self._window_ends = window_ends  # the end of the window that each slot is in, if reports are counted
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

    def taking(self, rows: Rows) -> Self | None:
        """This head, or a larger copy, if that takes the rows."""
        return self if self.takes(rows) else self.grown(rows)

    def grown(self, rows: Rows) -> Self | None:
        """A copy with room for the keys of these rows. None if that is not why they are not taken, or if too few places
        would be taken."""
        slots, codes = self.ends.size, rows.codes
        if codes <= self.room or not self._reaches(rows):
            return None
        self.check()
        room = room_for(self.plan, self._likely_cells(rows) / slots, codes)
        if not room:
            return None
        head = type(self)(self.plan, self.ends, self._window_ends, room)
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
        raise NotImplementedError

    def takes(self, rows: Rows) -> bool:
        return rows.codes <= self.room and self._reaches(rows)

    def _reaches(self, rows: Rows) -> bool:
        """Whether the rows are in its slots, and not too many for a cell."""
        return self._most + len(rows) <= self.plan.policy.head_most

    def _likely_cells(self, rows: Rows) -> float:
        """How many cells the head is likely to have with these rows."""
        raise NotImplementedError

    def _begun_with(self, rows: Rows) -> Mask:
        """The slots that will have rows."""
        return self._begun.copy()

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
        begun = self._begun_with(rows)
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
        parts, (place, slot) = self._parts(cells), self._places(cells)
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
        own, ends = self._own_counts(totals.rows, totals.blocks), self._ends_after(cells)

        def commit() -> int:
            self.torn = True
            self._begun, self._most, self.ends = begun, most, ends
            self._put(place, totals.rows, totals.blocks, own)
            if self.reports is not None and totals.times is not None:
                self.reports[place] = totals.times
            self.used += totals.fresh
            return totals.fresh

        return Prepared(begun, commit, reports)

    def _parts(self, cells: Cells) -> list[Cells]:
        """Tables to add one after the other, with a report of each. Several only if a place is a code."""
        return [cells]

    def _places(self, cells: Cells) -> tuple[Ints, Ints | int]:
        """The places of these cells, and the slots that they are in."""
        raise NotImplementedError

    def _ends_after(self, cells: Cells) -> Ints:
        """Where the slots end once these cells are in."""
        return self.ends

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

    def _rows_at(self, place: Ints) -> Ints:
        """The numbers of rows of these cells."""
        rows: Ints = self._counted[place, 0]  # `take` would copy the column first
        return rows & LOW if isinstance(self._counter, Sums) else rows

    def cells(self) -> Cells:
        """A copy of the cells as a sorted table."""
        self.check()
        counter = self._counter
        table = counter.rows().reshape(-1, 1) if isinstance(counter, Sums) else self._counted
        table = table[: self.size]
        held, meta = meta_of(self.ends[:, None], np.arange(self.room), table[:, 0], table, Cells.words)
        held = np.arange(self.size) if held is None else held
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


def room_for(plan: Plan, cells: float, codes: int) -> int:
    """The places of a slot that has so many cells; 0 if they would be too few of them.

    It has room for some new keys: otherwise each of them would begin another head.
    """
    places = int(cells / plan.policy.head_filled)
    return min(places, codes + codes // 4) + 8 if places >= codes + codes // 16 else 0


def _block(plan: Plan, lane: Lane, size: int) -> Ints | Quads | Sums:
    if lane.kind in (kinds.SUM_F, kinds.SUM_I):
        return Sums(size)
    quads = lane.kind == kinds.BASIC_F and not plan.exact
    return Quads(size, lane.kind) if quads else kinds.identity(lane.kind, size)
