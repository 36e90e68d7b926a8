"""Find the cells of some keys in a run, and remove them from it, without reading all other cells.

A push usually ends only a few of the open sessions. A cell's last row tells when a session of its key may end. So runs
index their cells by last row and by code when they are first asked. Removed cells are only marked. The others are moved
once half of the cells are removed, or when something else is asked of the run.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.sessions import SessionCells
from slicing.cells.table import Cells
from slicing.columns.order import ranges
from slicing.system.arrays import NONE, Ints, Mask
from slicing.system.lazy import lazy


class Thinned(SessionCells):
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


def touched(run: Cells, lasts: Iterable[tuple[int, int]], slices: Iterable[tuple[int, int]]) -> Ints:
    """The codes of cells that pass one of two tests. Their last row is at ``low`` or later and before ``high``, for a
    pair of ``lasts`` (some later cells pass too). Or their slice ends after ``low`` and not after ``high``, for a pair
    of ``slices``."""
    whole, gone = _whole(run)
    found = [
        whole.with_last(low, high) for low, high in lasts if whole.earliest_last < high and low <= whole.latest_last
    ]
    for low, high in slices:
        first, last = whole.slice_bounds()[whole.slice_ends.searchsorted((low, high), "right")]
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
