"""Sliding windows of keys: two stacks of whole slices, each a dense block of partials with one cell per key.

The front stack holds what lies between the start of each window and a middle, the back stack what has come since. A
step is a pass over all keys. Slices are read straight from the runs: nothing is merged, sorted or gathered first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slicing.cells import blocks as b
from slicing.cells.blocks import Block
from slicing.cells.combining import AUTO
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.ways.interface import WINDOW, Closing, Offer, Way
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct
from slicing.kernels import combine as kinds
from slicing.kernels.combine import combine
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.windows.edges import DueWindows

Found = tuple[Ints, tuple[Block, ...]]  # codes in the order of their keys, and the combined partials of each code


def can(plan: Plan) -> bool:
    return plan.adds_up and plan.combine == AUTO and bool(plan.spec.by)


def offer(closing: Closing) -> Offer | None:
    """Offer to answer with two stacks (1000 keys, 60 s / 1 s, pushes of 10 s: 54 -> 93 M rows/s a whole push)."""
    plan, runs, keys = closing.plan, closing.runs, closing.keys
    assert keys is not None
    due = closing.due
    if not closing.needs_any or not _forward(due):
        return None
    if not due.type.size:
        return Offer(0, lambda: Answers.none(plan))
    lie = [closing.lie(run) for run in runs]

    def answers() -> Answers:
        stacks = _Stacks(plan, keys, runs, lie)
        found: list[Found] = [(_NONE, ())] * due.type.size
        for type in distinct(due.type):
            of_type = np.flatnonzero(due.type == type)
            for window, answer in zip(of_type, stacks.answers(due.low[of_type], due.high[of_type]), strict=True):
                found[window] = answer
        return Answers.of_windows(plan, due[:3], found)

    return Offer(stacked_cells(due, lie, len(keys)) + WINDOW * due.type.size, answers)


WAY = Way("stacks", can, offer)


def _forward(due: DueWindows) -> bool:
    """Whether the windows of each type move forward. A user's windows may nest."""
    order = np.argsort(due.type, kind="stable")
    low, high, type = due.low[order], due.high[order], due.type[order]
    back = (low[1:] < low[:-1]) | (high[1:] < high[:-1])
    return not (back & (type[1:] == type[:-1])).any()


def stacked_cells(due: DueWindows, lie: Sequence[Ints], keys: int) -> int:
    """How many cells two stacks read and write: the cells of the slices, and two blocks per window."""
    cells = 2 * keys * due.type.size
    for type in distinct(due.type):
        low, high = due.low[due.type == type], due.high[due.type == type]
        cells += sum(int(at[high[-1]] - at[low[0]]) for at in lie)
    return cells


@dataclass(frozen=True)
class _Dense:
    """One partial per code: its number of rows, and the partial of each lane."""

    rows: Ints
    blocks: tuple[Ints, ...]

    def copy(self) -> _Dense:
        return _Dense(self.rows.copy(), tuple(block.copy() for block in self.blocks))


class _Stacks:
    """The slices of a plan's runs. Slice s of a run is ``run[at[s] : at[s + 1]]``."""

    def __init__(self, plan: Plan, keys: KeyTable, runs: Sequence[Cells], lie: Sequence[Ints]) -> None:
        self._plan, self._keys, self._runs, self._lie = plan, keys, runs, lie
        self._every = np.arange(max(plan.policy.added_cells, len(keys)))

    def answers(self, low: Ints, high: Ints) -> Iterator[Found]:
        """The answer of each window. Windows must move forward."""
        first = 0
        while first < low.size:
            middle = int(high[first])
            last = int(np.searchsorted(low, middle))
            front = self._front(distinct(low[first:last]).tolist(), middle)
            back, reached = self._empty(), middle
            for window in range(first, last):
                start, end = int(low[window]), int(high[window])
                self._add(back, reached, end)
                reached = end
                again = window + 1 < last and low[window + 1] == start
                answer = front[start].copy() if again else front.pop(start)
                if end > middle:
                    self._combine(answer, back)
                yield self._found(answer)
            first = last

    def _front(self, starts: list[int], middle: int) -> dict[int, _Dense]:
        """For each start, the combined slices from it to the middle."""
        front, suffix = {}, self._empty()
        for start in reversed(starts):
            self._add(suffix, start, middle)
            front[start] = suffix.copy()
            middle = start
        return front

    def _empty(self) -> _Dense:
        size = len(self._keys)
        return _Dense(np.zeros((size, 1), np.int64), tuple(b.identity(lane, size) for lane in self._plan.lanes))

    def _add(self, dense: _Dense, start: int, end: int) -> None:
        size = self._plan.policy.added_cells
        for run, lie in zip(self._runs, self._lie, strict=True):
            for at in range(int(lie[start]), int(lie[end]), size):
                cells = run.take(slice(at, min(at + size, int(lie[end]))))
                into = np.ascontiguousarray(cells.code)
                rows = np.ascontiguousarray(cells.rows).reshape(-1, 1)
                self._each(dense, into, _Dense(rows, cells.blocks))

    def _combine(self, dense: _Dense, other: _Dense) -> None:
        self._each(dense, self._every[: len(dense.rows)], other)

    def _each(self, dense: _Dense, into: Ints, added: _Dense) -> None:
        source = self._every[: into.size]
        combine(kinds.COUNT, into, source, dense.rows, added.rows)
        for lane, block, other in zip(self._plan.lanes, dense.blocks, added.blocks, strict=True):
            combine(lane.kind, into, source, block, other)

    def _found(self, dense: _Dense) -> Found:
        code = dense.rows[:, 0].nonzero()[0]
        code = code[self._keys.order(code)]
        return code, tuple(b.gathered(block, code) for block in dense.blocks)


_NONE: Ints = np.empty(0, np.int64)
