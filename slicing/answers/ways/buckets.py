"""The bucket path: one partial a window and key, as Li's window ids have it, instead of slices that windows share.

A row's cell goes into every window that holds it at once, so a window that closes is read as it lies. Only where the
operator is told so (``combine="buckets"``): slices that are spread when windows close (``spread``) serve any
context-free windows and leave the state as it is. They are slower only where a row comes every few windows (a row every
200 s, tumbling 60 s, 1000 keys: 3.3 and 3.9 M rows/s), up to 4x faster elsewhere; without keys slices are faster even
then (18 and 14). A bucket's cell is named by the end of its window. Windows that have left take no rows any more, so
what is late is late for the same windows as with slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slicing.answers import emit
from slicing.answers.answers import Answers
from slicing.answers.ways.interface import Closing, Offer, Way
from slicing.columns.keys import KeyTable, ranks_among
from slicing.kernels.cells import END
from slicing.slices.cells import Cells, fused, merged, sorted_cells

if TYPE_CHECKING:
    from slicing.plan import Plan

Ints = npt.NDArray[np.int64]


def of_slices(plan: Plan, cells: Cells, h: int) -> Cells:
    """The cells of slices as cells of the windows that hold them and end after ``h``."""
    if not len(cells):
        return cells
    (bound,) = plan.bounds
    assert bound.periodic is not None
    size, every, offset = bound.periodic
    phase = (offset + size) % every
    first = -((phase - np.maximum(cells.end, h + 1)) // every) * every + phase
    count = np.maximum((cells.end + size - 1 - first) // every + 1, 0)
    of = np.repeat(np.arange(len(cells)), count)
    nth = np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
    spread = cells.take(of).with_meta(END, first[of] + nth * every)
    return fused(sorted_cells(spread), plan.lanes, plan.gaps)


def can(closing: Closing) -> bool:
    return closing.plan.buckets


def offer(closing: Closing) -> Offer:
    return Offer(0, lambda: _answers(closing.plan, closing.runs, closing.keys, closing.after, closing.until))


WAY = Way("buckets", can, offer)


def _answers(plan: Plan, runs: Sequence[Cells], keys: KeyTable | None, after: int, until: int) -> Answers:
    """The windows with ``after < end <= until``: the cells that are named so."""
    spans = [(run, *np.searchsorted(run.end, [after, until], "right").tolist()) for run in runs]
    parts = [run.take(slice(low, high)) for run, low, high in spans if low < high]
    if not parts:
        return Answers.none(plan)
    cells = reduce(lambda older, newer: merged(older, newer, plan.lanes, plan.gaps), parts)
    if keys is not None:
        cells = cells.take(np.lexsort((ranks_among(cells.code, keys)[cells.code], cells.end)))
    every, (bound,) = np.arange(len(cells)), plan.bounds
    assert bound.periodic is not None
    blocks = emit.combined(plan, cells, every, every + 1)
    window = np.full(len(cells), plan.timed[0])
    end, code = np.ascontiguousarray(cells.end), np.ascontiguousarray(cells.code)
    return Answers(window, end - bound.periodic[0], end, code, blocks, True)
