"""The head of the store: cells of the newest slots by key code. Pushes that close nothing add their rows to it in
place.

Such a push costs only its rows, however many keys live: nothing is sorted or merged. All that can fail happens before
(:meth:`Head.prepare`); the change in place cannot fail. :meth:`Head.cells` copies the cells. Cells are dense, so cells
of keys without rows are wasted. A head is used only if most keys have rows in a slot, judged by the slices of the last
push that closed something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slicing.cells.lanes import Lane
from slicing.cells.table import Cells
from slicing.columns.order import progression
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS
from slicing.kernels.scatter import scatter_new
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.lift import Lifted, Quads, Sums
from slicing.reducing.places import Grid
from slicing.system.arrays import Ints, Mask

_EXACT = (kinds.COUNT, kinds.EXTREMES, *kinds.INTEGERS, kinds.SUM_F)


class Head:
    """Dense cells at slot * room + code."""

    def __init__(self, plan: Plan, ends: Ints, room: int) -> None:
        self.plan, self.ends, self.room = plan, ends, room
        self.size = ends.size * room
        self.used = 0
        self.codes = 0  # the number of codes when rows came last
        self.torn = False  # whether rows are being added: stays set if an interrupt leaves some of them in
        self._begun = np.zeros(ends.size, np.bool_)  # slots that have rows
        # one extra cell takes the rows that do not count
        self._blocks = [None if lane.counts_all else _block(plan, lane, self.size + 1) for lane in plan.lanes]
        self._counter = self._counting()
        # the first word is the number of rows of each cell
        self._rows: Ints = np.zeros((self.size, 1), np.int64) if self._counter is None else self._counter.words

    def _counting(self) -> Quads | Sums | None:
        """The block of floats whose first word counts all rows (of :class:`Quads` only while no value is null).

        It saves a word a cell and access to a line of memory (1 M keys, 1 M rows a push: 7 of 86 ns a row)."""
        pairs = list(zip(self.plan.lanes, self._blocks, strict=True))
        sums = (block for _, block in pairs if isinstance(block, Sums))
        return next(sums, next((b for lane, b in pairs if isinstance(b, Quads) and lane.flag is None), None))

    @staticmethod
    def begun(plan: Plan, rows: Rows, horizon: int) -> Head | None:
        """An empty head for these rows and rows near them. None if they span too many slots."""
        (width, _), slots = _slots(plan), plan.policy.head_slots
        low, high, oldest = (edge_after(plan, t) for t in (*rows.span[:2], horizon))
        if (high - oldest) // width < slots:
            low = oldest
        if (high - low) // width >= slots:
            return None
        return Head(plan, progression(low, high, width), rows.codes + rows.codes // 4 + 64)

    def takes_in(self, run: Cells) -> bool:
        """Take in the cells of a run; whether that was done. It is only done for numbers whose order of
        additions does not matter, and if no other run has brought these cells.

        A key then has one cell of a slice, not one in the run and one in the head. No push may have added rows yet.
        """
        exact = [lane.counts_all or lane.kind in _EXACT for lane in self.plan.lanes]
        if type(run) is not Cells or not all(exact):
            return False
        slot = self.ends.searchsorted(run.slice_ends)
        if slot[-1] == self.ends.size or (self.ends[slot] != run.slice_ends).any():
            return False
        place = np.repeat(slot * self.room, np.diff(run.slices(), append=len(run))) + run.code
        if self._rows[place, 0].any():
            return False
        self._rows[place, 0] = run.rows
        for block, partials in zip(self._blocks, run.blocks, strict=True):
            if isinstance(block, Sums):
                assert isinstance(partials, np.ndarray)
                block.begin(place, partials)
            elif isinstance(block, np.ndarray):
                block[place] = partials
        self._begun[slot] = True
        self.used += len(run)
        return True

    @property
    def nbytes(self) -> int:
        rows = self._rows.nbytes if self._counter is None else 0
        return rows + sum(block.nbytes for block in self._blocks if block is not None)

    def slices_beside(self, runs: Sequence[Cells], coming: Mask | None) -> int:
        """How many of the head's slices none of the runs has. ``coming``: the slots that will have rows."""
        held = self.ends[self._begun if coming is None else coming]
        return sum(not any(end in run.slice_ends for run in runs) for end in held)

    def fullest(self, newest: int) -> float | None:
        """The largest share of all keys that any slot had when time passed it. None if time has passed no slot."""
        over = self.ends <= newest
        held = (self._rows[: self.size, 0].reshape(-1, self.room) > 0).sum(axis=1)
        return int(held[over].max()) / max(self.codes, 1) if over.any() else None

    def takes(self, rows: Rows) -> bool:
        width, _ = _slots(self.plan)
        return rows.codes <= self.room and self.ends[0] - width <= rows.span[0] and rows.span[1] < self.ends[-1]

    def prepare(self, rows: Rows) -> tuple[Mask, Callable[[], int]]:
        """Do everything that can fail. Returns the slots that will have rows, and a function that adds the rows and
        returns how many cells are new."""
        lanes = [
            Lifted(rows, lane, self.size, block)
            for lane, block in zip(self.plan.lanes, self._blocks, strict=True)
            if block is not None
        ]
        counter = next((lane for lane in lanes if self._counter is not None and lane.goes_on(self._counter)), None)
        own = self._rows
        if counter is not None and not counter.counts_rows:
            counter, own = None, own[: self.size, :1].copy()
        chunks = list(Grid(rows, self.ends, self.room).chunks(self.plan.policy.chunk))
        begun = self._begun.copy()
        for slot in np.flatnonzero(~begun):
            ended = rows.time < self.ends[slot]
            begun[slot] = (ended & (rows.time >= self.ends[slot] - _slots(self.plan)[0])).any()
        if any(lane.kind in (kinds.FIRST, kinds.LAST, kinds.ARG) for lane in self.plan.lanes):
            _ = rows.order

        def commit() -> int:
            self.torn = True
            self._begun, self.codes, before = begun, rows.codes, self.used
            if counter is None:
                self._counter, self._rows = None, own
            for chunk, cell, base in chunks:
                new = {lane: lane.scatter(chunk, cell, base) for lane in lanes}
                self.used += int(scatter_new(cell, own[base:])) if counter is None else new[counter]
            return self.used - before

        return begun, commit

    def cells(self) -> Cells:
        """A copy of the cells as a sorted table."""
        self.check()
        rows = self._rows[: self.size, 0]
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


def _block(plan: Plan, lane: Lane, size: int) -> Ints | Quads | Sums:
    if lane.kind == kinds.SUM_F:
        return Sums(size)
    quads = lane.kind == kinds.BASIC_F and not plan.exact
    return Quads(size, lane.kind) if quads else kinds.identity(lane.kind, size)


def _slots(plan: Plan) -> tuple[int, int]:
    regular = plan.edges.regular_width(0)
    assert regular is not None
    return regular
