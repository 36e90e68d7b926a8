"""The head of the store: cells of the newest slots by key code. Pushes that close nothing add their rows to it in
place.

Such a push costs only its rows, however many keys live: nothing is sorted or merged. All that can fail happens before
(:meth:`Head.prepare`); the change in place cannot fail. :meth:`Head.cells` copies the cells. A head has a place for
each key in each of its slots, so the places of keys without rows are wasted. It begins once enough places would be
taken: a count and a sum by key then take at most about 40 bytes a cell, and 26 once all keys have rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.order import progression
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS
from slicing.kernels.combine import LOW
from slicing.kernels.scatter import scatter_new
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.lift import Lifted, Quads, Sums
from slicing.reducing.places import Grid
from slicing.system.arrays import Ints, Mask

_EXACT = (kinds.COUNT, kinds.EXTREMES, *kinds.INTEGERS, kinds.SUM_F)


class Report(NamedTuple):
    """The keys of new cells: their places, their partials with the new cells, which had a cell before, and the partials
    of these if they are asked for."""

    place: Ints
    now: tuple[Block, ...]
    held: Ints
    was: tuple[Block, ...]


class Head:
    """Dense cells at slot * room + code."""

    def __init__(self, plan: Plan, ends: Ints, room: int) -> None:
        self.plan, self.ends, self.room = plan, ends, room
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
        for end in ends.tolist():  # keys are taken to be equally frequent, and independent in each run and in the rows
            inside = len(rows) if first == high == end else _inside(rows, end - width, end)
            missing = codes * exp(-inside / codes)
            for run in runs:
                missing *= max(1 - len(run.ending(end - 1, end)) / codes, 0)
            cells += codes - missing
        places = int(cells / plan.policy.head_filled) // ends.size
        # with room for some new keys: otherwise each of them would begin another head
        return Head(plan, ends, min(places, codes + codes // 4) + 8) if places >= codes + codes // 16 else None

    @property
    def takes_cells(self) -> bool:
        """Whether cells can be taken in: not if results depend on the order of additions and should not."""
        return not self.plan.exact or all(lane.counts_all or lane.kind in _EXACT for lane in self.plan.lanes)

    def takes_in(self, run: Cells) -> bool:
        """Take in the cells of a run, unless it has other slices too; whether that was done. No rows were added yet.

        A key then has one cell of a slice, not one in the run and one in the head.
        """
        slot, most = self.ends.searchsorted(run.slice_ends), int(run.rows.max())
        if slot[-1] == self.ends.size or (self.ends[slot] != run.slice_ends).any():
            return False
        if most > self.plan.policy.head_most:
            return False
        code, rows = run.code, run.rows
        place = np.repeat(slot * self.room, np.diff(run.slices(), append=len(run))) + code
        self._put(place, rows, run.blocks)
        self._begun[slot] = True
        self._most = max(self._most, most)
        self.used += len(run)
        return True

    def _put(self, place: Ints, rows: Ints, blocks: Sequence[Block]) -> None:
        """Write cells with these numbers of rows."""
        own = not isinstance(self._counter, Sums)
        for block, partials in zip(self._blocks, blocks, strict=True):
            if block is None:
                continue
            assert isinstance(partials, np.ndarray)
            if isinstance(block, Sums):
                block.begin(place, rows, partials)
            elif isinstance(block, Quads):
                block.begin(place, partials)
                own = own and not (block is self._counter and bool((partials[:, 0] == rows).all()))
            else:
                block[place] = partials
        if own:
            if self._counter is not None:
                self._counter, self._counted = None, self._counted[: self.size, :1].copy()
            self._counted[place, 0] = rows

    @property
    def nbytes(self) -> int:
        rows = self._counted.nbytes if self._counter is None else 0
        rows += 0 if self.reports is None else self.reports.nbytes
        return rows + sum(block.nbytes for block in self._blocks if block is not None)

    def slices_beside(self, runs: Sequence[Cells], coming: Mask | None) -> int:
        """How many of the head's slices none of the runs has. ``coming``: the slots that will have rows."""
        held = self.ends[self._begun if coming is None else coming]
        return sum(not any(end in run.slice_ends for run in runs) for end in held)

    def takes(self, rows: Rows) -> bool:
        width, _ = _slots(self.plan)
        if rows.codes > self.room or self._most + len(rows) > self.plan.policy.head_most:
            return False
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

    def prepare_cells(self, cells: Cells, rows: int, before: bool) -> tuple[Mask, Callable[[], int], Report]:
        """As ``prepare``, for so many rows that are cells already. ``before``: the partials before are asked for."""
        if cells.one_slice:
            slot = self.ends.searchsorted(cells.end[:1])
            place = cells.code + slot * self.room
        else:
            slot = self.ends.searchsorted(cells.slice_ends)
            place = np.repeat(slot * self.room, np.diff(cells.slices(), append=len(cells))) + cells.code
        had = self._rows_at(place)
        counts, held, every = had + cells.rows, had.nonzero()[0], np.arange(place.size)
        all_held = held.size == place.size
        at, was, now = place if all_held else place.take(held), list[Ints](), list[Ints]()
        for lane, block, more in zip(self.plan.lanes, self._blocks, cells.blocks, strict=True):
            assert isinstance(more, np.ndarray)
            if block is None:
                known, whole = had[held].reshape(-1, 1), counts.reshape(-1, 1)
            else:
                known = block.take(at, axis=0) if isinstance(block, np.ndarray) else block.partials(at)
                whole = known.copy() if all_held and before else known
                if not all_held:
                    whole = kinds.identity(lane.kind, place.size)
                    whole[held] = known
                kinds.combine(lane.kind, every, every, whole, more)
            was.append(known)
            now.append(whole)
        begun = self._begun.copy()
        begun[slot] = True

        def commit() -> int:
            self.torn = True
            self._begun, self._most, used = begun, self._most + rows, self.used
            self._put(place, counts, now)
            if self.reports is not None:
                self.reports[place] += 1
            self.used += place.size - held.size
            return self.used - used

        return begun, commit, Report(place, tuple(now), held, tuple(was) if before else ())

    def place_of(self, end: Ints, code: Ints) -> tuple[Ints, Ints]:
        """The places of keys' cells, and which of them are in the head."""
        slot = self.ends.searchsorted(end)
        inside = (slot < self.ends.size) & (code < self.room)
        inside[inside] = self.ends[slot[inside]] == end[inside]
        held = inside.nonzero()[0]
        return slot[held] * self.room + code[held], held

    def reported(self) -> tuple[Ints, Ints, Ints]:
        """The end, the key, and how often it was reported, of each cell that was."""
        counts = np.zeros(0, np.int64) if self.reports is None else self.reports
        held = counts.nonzero()[0]
        return self.ends[held // self.room], held % self.room, counts[held]

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


def edge_after(plan: Plan, time: int) -> int:
    width, phase = _slots(plan)
    return (time - phase) // width * width + width + phase


def _inside(rows: Rows, start: int, end: int) -> int:
    """How many rows are between these times."""
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
