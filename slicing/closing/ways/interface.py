"""The interface of a way to answer: given what a push closes, it offers to answer at a cost, or declines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.columns.keys import KeyTable
from slicing.columns.order import distinct
from slicing.query.plan import Plan
from slicing.storage.store import Store
from slicing.system.arrays import Ints
from slicing.system.lazy import lazy
from slicing.windows.edges import DueWindows


@dataclass(eq=False)
class Closing:
    """The windows of a store's slices with ``after < end <= until``."""

    plan: Plan
    store: Store
    keys: KeyTable | None
    after: int
    until: int

    @property
    def runs(self) -> Sequence[Cells]:
        return self.store.runs

    def table(self) -> Cells:
        """All cells as one table. The store then continues with this table."""
        if len(self.store.runs) > 1:
            self.store = self.store.consolidated()
        return self.store.table()

    @lazy
    def ends(self) -> Ints:
        """The ends of the slices of all runs."""
        if len(self.runs) == 1:
            return self.runs[0].slice_ends
        return distinct(np.concatenate([run.slice_ends for run in self.runs]))

    @lazy
    def due(self) -> DueWindows:
        """The due windows, over these slices."""
        return self.plan.edges.due(self.ends, self.after, self.until)

    @property
    def most(self) -> int:
        """The largest possible number of answers."""
        return int(self.plan.shares[self.due.type].sum()) * (1 if self.keys is None else len(self.keys))

    @lazy
    def needs_any(self) -> bool:
        """Whether any slice of a window makes it due. That is not so for windows that are due only if there were rows
        lately."""
        return self.due.need is self.due.low or not (self.due.need != self.due.low).any()

    def lie(self, run: Cells) -> Ints:
        """Where the cells of each slice begin in a run, and where the last slice ends."""
        starts = run.slice_bounds()
        if starts.size > self.ends.size:  # the run has all slices
            return starts
        return np.append(starts[np.searchsorted(run.slice_ends, self.ends)], len(run))


WINDOW = 2400  # the calls to answer a single window cost as much as this many cells: 24 us


class Offer(NamedTuple):
    cost: int  # how many cells it reads, plus its calls in cells
    answers: Callable[[], Answers]


class Way(NamedTuple):
    name: str
    can: Callable[[Plan], bool]  # whether the way fits the plan, whatever is due
    offer: Callable[[Closing], Offer | None]  # an offer for the windows that are due; None: it cannot answer these
