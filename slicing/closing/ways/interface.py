"""What a way to answer is: it is asked what a push closes, and offers to answer it at a cost, or declines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.columns.keys import KeyTable
from slicing.columns.lazy import lazy
from slicing.columns.order import distinct
from slicing.query.plan import Plan
from slicing.storage.store import Store
from slicing.system.arrays import Ints
from slicing.windows.edges import DueWindows


@dataclass(eq=False)
class Closing:
    """The windows with ``after < end <= until`` of a store's slices, all of them at once."""

    plan: Plan
    store: Store
    keys: KeyTable | None
    after: int
    until: int

    @property
    def runs(self) -> Sequence[Cells]:
        return self.store.runs

    def table(self) -> Cells:
        """All cells as one table, which the store goes on with."""
        if len(self.store.runs) > 1:
            self.store = self.store.consolidated()
        return self.store.table()

    @lazy
    def ends(self) -> Ints:
        """The slices of all runs."""
        if len(self.runs) == 1:
            return self.runs[0].slice_ends
        return distinct(np.concatenate([run.slice_ends for run in self.runs]))

    @lazy
    def due(self) -> DueWindows:
        """The windows, over these slices."""
        return self.plan.edges.due(self.ends, self.after, self.until)

    @property
    def most(self) -> int:
        """How many answers there are at most."""
        return int(self.plan.shares[self.due.type].sum()) * (1 if self.keys is None else len(self.keys))

    @lazy
    def needs_any(self) -> bool:
        """Whether any of its slices makes a window due: not of windows that ask whether there were rows lately."""
        return self.due.need is self.due.low or not (self.due.need != self.due.low).any()

    def lie(self, run: Cells) -> Ints:
        """Where the cells of each slice begin in a run, and where the last one's end."""
        starts = np.append(run.slices(), len(run))
        if starts.size > self.ends.size:  # it has all of them
            return starts
        return np.append(starts[np.searchsorted(run.slice_ends, self.ends)], len(run))


WINDOW = 2400  # cells' worth of calls that a window takes which is answered by itself: 24 us


class Offer(NamedTuple):
    cost: int  # how many cells it goes over, and what its calls are worth
    answers: Callable[[], Answers]


class Way(NamedTuple):
    name: str
    can: Callable[[Plan], bool]  # whatever is due
    offer: Callable[[Closing], Offer | None]  # by the windows that are due; None: not these
