"""The hot block: cells of the newest slots by key code, which pushes that close nothing add their rows to in place.

A small push costs as much as its rows then, however many keys live: it is not sorted, and nothing is merged. Rows go in
as the last step of a push, when nothing can fail any more; whoever asks for the state takes the block as a run of cells
(:meth:`Hot.cells`, a copy). Dense cells of keys that have no rows are wasted, so the block is for slots most keys have
rows in, as the slices of the last push that closed something say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from slicing.batch import Rows
from slicing.columns.order import progression
from slicing.kernels import combine as kinds
from slicing.kernels.cells import CODE, END, ROWS
from slicing.kernels.scatter import scatter_new
from slicing.lift import Lifted, Order, Quads
from slicing.places import Grid
from slicing.plan import Plan
from slicing.slices.cells import Cells
from slicing.slices.lanes import Lane
from slicing.state import State
from slicing.windows.bounds import BEGIN

Ints = npt.NDArray[np.int64]

SLOTS = 4  # slots side by side, of streams somewhat out of order
FILLED = 0.5  # of the keys at least have rows in a slot: where dense cells beat sorted runs, in time and in memory
LARGE = 4  # rows a key of pushes that are reduced to cells of their own


class Hot:
    """Cells slot * room + code."""

    def __init__(self, plan: Plan, ends: Ints, room: int) -> None:
        self.plan, self.ends, self.room = plan, ends, room
        self.size = ends.size * room
        self.used = 0
        self._begun = np.zeros(ends.size, np.bool_)  # slots that have rows
        self._rows = np.zeros((self.size, 1), np.int64)
        # one cell more takes the rows that do not count
        self._blocks = [self._rows if lane.counts_all else _block(lane, self.size + 1) for lane in plan.lanes]

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in {id(block): block for block in (self._rows, *self._blocks)}.values())

    def slices_beside(self, runs: Sequence[Cells]) -> int:
        """How many of its slices none of the runs has."""
        return sum(not any(end in run.slice_ends for run in runs) for end in self.ends[self._begun])

    def held(self) -> Ints:
        """How many cells each slot has."""
        cells: Ints = (self._rows.reshape(-1, self.room) > 0).sum(axis=1)
        return cells

    def takes(self, rows: Rows) -> bool:
        width, _ = _slots(self.plan)
        return rows.codes <= self.room and self.ends[0] - width <= rows.span[0] and rows.span[1] < self.ends[-1]

    def filling(self, rows: Rows) -> Callable[[], None]:
        """Everything but the deed, which cannot fail."""
        order = Order(rows)
        lanes = [
            Lifted(rows, lane, self.size, order, block)
            for lane, block in zip(self.plan.lanes, self._blocks, strict=True)
            if not lane.counts_all
        ]
        chunks = list(Grid(rows, self.ends, self.room).chunks())
        begun = self._begun.copy()
        for slot in np.flatnonzero(~begun):
            ended = rows.time < self.ends[slot]
            begun[slot] = (ended & (rows.time >= self.ends[slot] - _slots(self.plan)[0])).any()
        if any(lane.kind in (kinds.FIRST, kinds.LAST, kinds.ARG) for lane in self.plan.lanes):
            order()

        def fill() -> None:
            self._begun = begun
            for chunk, cell, base in chunks:
                for lane in lanes:
                    lane.scatter(chunk, cell, base)
                self.used += int(scatter_new(cell, self._rows[base:]))

        return fill

    def cells(self) -> Cells:
        """A copy, as a sorted table."""
        held = self._rows[:, 0].nonzero()[0]
        meta = np.empty((held.size, 3), np.int64)
        meta[:, END], meta[:, CODE], meta[:, ROWS] = self.ends[held // self.room], held % self.room, self._rows[held, 0]
        return Cells(
            meta, tuple(b.partials(held) if isinstance(b, Quads) else b.take(held, axis=0) for b in self._blocks)
        )


def with_cells(state: State, hot: Hot) -> State:
    """The state with the block's cells beside its own; it has learnt how full the slots are that time has passed."""
    over = hot.ends <= (BEGIN if state.newest is None else state.newest)
    known = 1 if state.keys is None else max(len(state.keys), 1)
    fill = max(hot.held()[over].tolist()) / known if over.any() else state.fill
    return state.but(store=state.store.beside(hot.cells()), fill=fill)


def suits(state: State, rows: Rows) -> bool:
    """Whether rows are few beside the keys, and nothing asks for more than cells added up by code."""
    plan = state.plan
    if state.keys is None or not plan.alike("hot", lambda: _fits(plan)):
        return False
    if len(rows) > LARGE * len(state.keys) or len(state.keys) >= state.crowded or not len(rows):
        return False
    return state.fill >= FILLED and _edge_after(plan, rows.span[0]) > state.horizon  # then none is late


def begun(state: State, rows: Rows) -> Hot | None:
    """A block for these rows and those that may come beside them; None where they span too many slots."""
    width, _ = _slots(state.plan)
    low, high, oldest = (_edge_after(state.plan, t) for t in (*rows.span[:2], state.horizon))
    if (high - oldest) // width < SLOTS:
        low = oldest
    if (high - low) // width >= SLOTS:
        return None
    return Hot(state.plan, progression(low, high, width), rows.codes + rows.codes // 4 + 64)


def fullest(state: State) -> float:
    """The share of all keys that the fullest slice has, at most."""
    if state.keys is None:
        return state.fill
    slices = (np.diff(np.append(run.slices(), len(run))) for run in state.store.runs)
    return sum(int(cells.max(initial=0)) for cells in slices) / max(len(state.keys), 1)


def _block(lane: Lane, size: int) -> Ints | Quads:
    return Quads(size) if lane.kind == kinds.BASIC_F else kinds.identity(lane.kind, size)


def _fits(plan: Plan) -> bool:
    plain = plan.adds_up and plan.gapless and not (plan.keeps_rows or plan.ranked or plan.spec.revises)
    return plain and plan.edges.regular_width(0) is not None


def _slots(plan: Plan) -> tuple[int, int]:
    regular = plan.edges.regular_width(0)
    assert regular is not None
    return regular


def _edge_after(plan: Plan, time: int) -> int:
    width, phase = _slots(plan)
    return (time - phase) // width * width + width + phase
