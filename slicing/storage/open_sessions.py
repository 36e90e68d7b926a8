"""Find the cells of some keys in a run, and remove them from it, without reading all other cells.

Of many open sessions few end in a push. A cell's last row tells when a session of its key may end. So runs index their
cells by last row and by code when they are first asked. Removed cells are only marked. The others are moved once half
of the cells are removed, or when something else is asked of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.table import Cells
from slicing.columns.lazy import lazy
from slicing.columns.order import distinct, ranges
from slicing.query.plan import Plan
from slicing.system.arrays import NONE, Ints, Mask


class Thinned(Cells):
    """A table without some of its cells. Its own arrays are made when they are first needed. ``held``: how many cells
    each slice of the whole table has left."""

    def __init__(self, whole: Cells, gone: Mask, held: Ints) -> None:
        self.whole, self.gone, self.held = whole, gone, held
        self._size = int(held.sum())

    def __len__(self) -> int:
        return self._size

    @lazy
    def meta(self) -> Ints:  # type: ignore[override]
        return self._moved().meta

    @lazy
    def blocks(self) -> tuple[Block, ...]:  # type: ignore[override]
        return self._moved().blocks

    def _moved(self) -> Cells:
        if len(self) < len(self.whole):
            self.whole = self.whole.take(~self.gone)
            self.gone, self.held = np.zeros(len(self), np.bool_), self.held[self.held > 0]
        return self.whole

    @property
    def owner(self) -> int:
        return self.whole.owner

    @lazy
    def nbytes(self) -> int:
        return self.whole.nbytes + self.gone.nbytes

    def sizes(self) -> tuple[int, int]:
        return self._size, self.nbytes + self.whole.looked_up

    @lazy
    def weight(self) -> int:
        return self.whole.weight * len(self) // max(len(self.whole), 1)

    @property
    def slice_ends(self) -> Ints:
        return self.whole.slice_ends[self.held > 0]


def ending(
    plan: Plan, runs: Sequence[Cells], after: int, until: int
) -> tuple[tuple[Cells, ...], tuple[Cells, ...]] | None:
    """The cells of keys that may have a window that ends or expires, and the cells of all other keys. None if so many
    keys may have one that reading all cells costs no more.

    Of many open sessions few end in a push (1 M of them, 500 rows: 177 -> 1.8 ms).
    """
    policy, cells = plan.policy, sum(map(len, runs))
    if not runs or cells < max(policy.apart_cells, policy.apart_share * len(runs[-1])):
        return None
    later = (0, plan.lateness) if plan.revises else (0,)  # how much later emitted windows expire
    lasts = [(after - gap - o, until - gap - o) for gap in plan.session_gaps for o in later]
    slices = []
    if any(plan.edges.any_between(after - o, until - o) for o in later):
        ends = distinct(np.concatenate([run.slice_ends for run in runs]))
        for due in (plan.edges.due(ends, after - o, until - o) for o in later):
            if due.end.size:
                slices.append((int(due.start.min()), int(due.end.max())))
    found = np.concatenate([touched(run, lasts, slices) for run in runs])
    if found.size * policy.apart_share > cells:
        return None
    codes = distinct(found)
    theirs, others = zip(*(parted(run, codes) for run in runs), strict=True)
    return tuple(run for run in theirs if len(run)), tuple(run for run in others if len(run))


def touched(run: Cells, lasts: Iterable[tuple[int, int]], slices: Iterable[tuple[int, int]]) -> Ints:
    """The codes of cells that pass one of two tests. Their last row is at ``low`` or later and before ``high``, for a
    pair of ``lasts`` (some later cells pass too). Or their slice ends after ``low`` and not after ``high``, for a pair
    of ``slices``."""
    whole, gone = _whole(run)
    found = [
        whole.with_last(low, high) for low, high in lasts if whole.earliest_last < high and low <= whole.latest_last
    ]
    for low, high in slices:
        first, last = np.append(whole.slices(), len(whole))[whole.slice_ends.searchsorted((low, high), "right")]
        found.append(np.arange(first, last))
    places = np.concatenate(found) if found else NONE
    return whole.code[places if gone is None else places[~gone[places]]]


def of_codes(run: Cells, codes: Ints) -> Cells:
    """The cells of these codes, which ascend."""
    return _whole(run)[0].take(_places(run, codes))


def parted(run: Cells, codes: Ints) -> tuple[Cells, Cells]:
    """The cells of these codes, which ascend, and all other cells of the run."""
    (whole, gone), places = _whole(run), _places(run, codes)
    theirs = whole.take(places)
    if not places.size:
        return theirs, run
    gone = np.zeros(len(whole), np.bool_) if gone is None else gone.copy()
    gone[places] = True
    if 2 * (len(run) - places.size) < len(whole):
        return theirs, whole.take(~gone)
    starts = whole.slices()
    held = run.held if isinstance(run, Thinned) else np.diff(np.append(starts, len(whole)))
    slice_of = starts.searchsorted(places, "right") - 1
    return theirs, Thinned(whole, gone, held - np.bincount(slice_of, minlength=starts.size))


def _whole(run: Cells) -> tuple[Cells, Mask | None]:
    return (run.whole, run.gone) if isinstance(run, Thinned) else (run, None)


def _places(run: Cells, codes: Ints) -> Ints:
    whole, gone = _whole(run)
    by_code, order = whole.by_code
    first, last = by_code.searchsorted(codes), by_code.searchsorted(codes, "right")
    places = ranges(first, last - first)
    if order is not None:
        places = np.sort(order[places])
    return places if gone is None else places[~gone[places]]
