"""The head of the newest slots: pushes that close nothing add their rows or cells to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from slicing.cells.table import Cells
from slicing.columns.order import progression
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.storage.head import Head, room_for
from slicing.system.arrays import Ints, Mask


class SlotHead(Head):
    """Cells of the newest slots, which have one width."""

    @staticmethod
    def begun(plan: Plan, runs: Sequence[Cells], rows: Rows, horizon: int) -> SlotHead | None:
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
        room = room_for(plan, cells / ends.size, codes)
        return SlotHead(plan, ends, ends, room) if room else None

    def takes_in(self, run: Cells) -> bool:
        """Take in the cells of a run, unless it has other slices too; whether that was done. No rows were added yet.

        A key then has one cell of a slice, not one in the run and one in the head.
        """
        slot = self.ends.searchsorted(run.slice_ends)
        if slot[-1] == self.ends.size or (self.ends[slot] != run.slice_ends).any():
            return False
        return self._begin_with(run)

    def slices_beside(self, runs: Sequence[Cells], coming: Mask | None) -> int:
        held = self.ends[self._begun if coming is None else coming]
        return sum(not any(end in run.slice_ends for run in runs) for end in held)

    def _reaches(self, rows: Rows) -> bool:
        if not super()._reaches(rows):
            return False
        width, _ = _slots(self.plan)
        return bool(self.ends[0] - width <= rows.span[0] and rows.span[1] < self.ends[-1])

    def _likely_cells(self, rows: Rows) -> float:
        """Each slot is taken to have an equal share of the cells so far."""
        (width, _), held = _slots(self.plan), [self.used // self.ends.size]
        return sum(_expected(rows, end - width, end, held) for end in self.ends.tolist())

    def _begun_with(self, rows: Rows) -> Mask:
        begun = super()._begun_with(rows)
        width, _ = _slots(self.plan)
        for slot in np.flatnonzero(~begun):
            begun[slot] = _inside(rows, self.ends[slot] - width, self.ends[slot]) > 0
        return begun

    def _places(self, cells: Cells) -> tuple[Ints, Ints | int]:
        if cells.one_slice:
            slot = self.ends.searchsorted(cells.end[:1])
            return cells.code + slot * self.room, slot
        slot = self.ends.searchsorted(cells.slice_ends)
        return np.repeat(slot * self.room, cells.slice_sizes()) + cells.code, slot


def edge_after(plan: Plan, time: int) -> int:
    width, phase = _slots(plan)
    return (time - phase) // width * width + width + phase


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


def _slots(plan: Plan) -> tuple[int, int]:
    regular = plan.edges.regular_width(0)
    assert regular is not None
    return regular
