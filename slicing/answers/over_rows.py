"""Ranges of rows as partials, straight from columns: rows are cut where a range begins or ends, as a stream is.

Where that leaves cells of a few rows at least, each is reduced once and ranges are combined from cells. Windows that
begin or end at nearly every row (one for each row, say) are answered from the columns themselves, for the partials
that integers and floats have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from slicing.answers.emit import answered
from slicing.batch import ALL_VALID, Rows
from slicing.columns.values import TOP
from slicing.kernels import combine as kinds
from slicing.kernels.ranges import extreme_keys, least_of, sums_of
from slicing.plan import Plan
from slicing.reduce import lift_ranges
from slicing.slices.blocks import Block
from slicing.slices.combining import AUTO
from slicing.slices.lanes import Lane

Ints = npt.NDArray[np.int64]

FEWEST = 4  # rows a window on average, or cells are not worth it


def over_rows(plan: Plan, rows: Rows, first: Ints, last: Ints) -> tuple[Block, ...]:
    """Each lane's partials over the ranges of sorted rows ``first[r] : last[r]``, none of them empty."""
    few = FEWEST * first.size <= len(rows) or plan.combine != AUTO
    dense = {} if few else {lane: _DENSE[lane.kind] for lane in plan.lanes if lane.kind in _DENSE}
    found = {lane: of(plan, rows, lane, first, last) for lane, of in dense.items()}
    others = [lane for lane in plan.lanes if lane not in found]
    if others:
        found |= zip(others, _from_cells(plan, others, rows, first, last), strict=True)
    return tuple(found[lane] for lane in plan.lanes)


def _from_cells(plan: Plan, lanes: list[Lane], rows: Rows, first: Ints, last: Ints) -> tuple[Block, ...]:
    bottom, top = int(first.min()), int(last.max())
    rows, first, last = rows.part(slice(bottom, top)), first - bottom, last - bottom
    is_cut = np.zeros(len(rows) + 1, np.bool_)
    is_cut[first], is_cut[last] = True, True
    cuts = np.flatnonzero(is_cut)
    cells = lift_ranges(rows, cuts[:-1], cuts[1:], lanes)
    return answered(plan, lanes, cells.blocks, np.searchsorted(cuts, first), np.searchsorted(cuts, last))


def _counts(plan: Plan, rows: Rows, lane: Lane, first: Ints, last: Ints) -> Ints:
    return _block(plan, rows, lane, first, last, 1)


def _extremes(plan: Plan, rows: Rows, lane: Lane, first: Ints, last: Ints) -> Ints:
    block = _block(plan, rows, lane, first, last, 3)
    x, valid = _column(rows, lane)
    _least_and_most(plan, lane, x, valid, first, last, block)
    return block


def _basic_i(plan: Plan, rows: Rows, lane: Lane, first: Ints, last: Ints) -> Ints:
    block = _block(plan, rows, lane, first, last, 5)
    x, valid = _column(rows, lane)
    if 1 in plan.words_read(lane):
        held = x if valid is ALL_VALID else np.where(valid, x, 0)
        block[:, 1] = _differences(held & 0xFFFFFFFF, first, last)  # of halves, which fit
        block[:, 2] = _differences(held >> 32, first, last)
    _least_and_most(plan, lane, x, valid, first, last, block)
    return block


def _basic_f(plan: Plan, rows: Rows, lane: Lane, first: Ints, last: Ints) -> Ints:
    block = _block(plan, rows, lane, first, last, 5)
    x, valid = _column(rows, lane)
    if 1 in plan.words_read(lane):
        held = x if valid is ALL_VALID else np.where(valid, x, 0.0)
        floats = block.view(np.float64)
        sums_of(held, first, last, np.empty((2, held.size)), floats[:, 1], floats[:, 2])
    words = plan.words_read(lane)
    room = np.empty((2, x.size), np.int64) if {3, 4} & words else None
    for word in (3, 4):
        if room is not None and word in words:
            extreme_keys(x.view(np.int64), word == 4, room[0])
            _least(room[0], valid, first, last, room[1], block[:, word])
    if 4 in words:
        np.invert(block[:, 4], out=block[:, 4])
    return block


_DENSE: dict[object, Callable[[Plan, Rows, Lane, Ints, Ints], Ints]] = {
    kinds.COUNT: _counts,
    kinds.BASIC_F: _basic_f,
    kinds.BASIC_I: _basic_i,
    kinds.EXTREMES: _extremes,
}


def _column(rows: Rows, lane: Lane) -> tuple[Any, npt.NDArray[np.uint8]]:
    """A lane's values, and which of them count."""
    return rows.feed(lane.feeds[0]), rows.valid(lane.feeds[0].column, lane.flag)


def _block(plan: Plan, rows: Rows, lane: Lane, first: Ints, last: Ints, words: int) -> Ints:
    """Partials with their counts, word by word; what nobody reads is left as it is."""
    block = np.empty((words, first.size), np.int64)
    valid = rows.valid(lane.feeds[0].column if lane.feeds else None, lane.flag)
    np.subtract(last, first, out=block[0])
    if valid is not ALL_VALID:
        block[0] = _differences(valid.astype(np.int64), first, last)
    return block.T


def _differences(x: Ints, first: Ints, last: Ints) -> Ints:
    """Sums of ranges, modulo 2**64."""
    sums = np.append(0, np.cumsum(x))
    difference: Ints = sums[last] - sums[first]
    return difference


def _least_and_most(
    plan: Plan, lane: Lane, x: Ints, valid: npt.NDArray[np.uint8], first: Ints, last: Ints, block: Ints
) -> None:
    """The last two words of a block: of the words ``x`` that are valid."""
    low, high, room = block.shape[1] - 2, block.shape[1] - 1, np.empty(x.size, np.int64)
    if low in plan.words_read(lane):
        _least(x, valid, first, last, room, block[:, low])
    if high in plan.words_read(lane):
        _least(~x, valid, first, last, room, block[:, high])
        np.invert(block[:, high], out=block[:, high])


def _least(x: Ints, valid: npt.NDArray[np.uint8], first: Ints, last: Ints, room: Ints, out: Ints) -> None:
    least_of(x if valid is ALL_VALID else np.where(valid, x, TOP), first, last, room, out)
