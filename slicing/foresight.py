"""Rows that are all at hand, piece by piece: their own order tells which windows no later row belongs to.

What is given out at once need not be held, nor sorted in the end. 5 M rows that become as many results: cells of all of
them cost 1.4 s of CPU, most of it for memory that is touched once, those of a piece at a time 0.4 s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.lifecycle.state import State
from slicing.operator import Operator
from slicing.windows.bounds import LIMIT

Ints = npt.NDArray[np.int64]

PIECE = 1 << 19  # rows
DENSE = 8  # rows a cell: where there are more, few cells are held, and pieces cost more than they save


def in_turn(operator: Operator, batches: Sequence[pa.RecordBatch]) -> list[pa.Table]:
    """Push the batches; give the windows that they close, none if it does not pay to close any before the end."""
    pieces = [b.slice(at, PIECE) for b in batches for at in range(0, b.num_rows, PIECE)]
    operator.push(pieces[0])
    state = operator._state
    assert state is not None
    until = _least_to_come(state, pieces) if _many_results(state, pieces[0].num_rows) else None
    if until is None:
        for batch in [batches[0].slice(PIECE), *batches[1:]]:
            operator.push(batch)
        return []
    found = [operator._advance(int(until[0])).windows]
    return found + [operator._push(piece, int(upto)).windows for piece, upto in zip(pieces[1:], until[1:], strict=True)]


def _many_results(state: State, rows: int) -> bool:
    plan = state.plan
    alone = plan.keeps_slices and not (plan.keeps_rows or plan.fragments or plan.fill or plan.full)
    return alone and plan.idle is None and plan.spec.emit == "final" and len(state.store) * DENSE > rows


def _least_to_come(state: State, pieces: Sequence[pa.RecordBatch]) -> Ints | None:
    """What no row after each piece comes before; None where rows are in no order."""
    measure, name = state.plan.measure, state.plan.spec.time
    if not isinstance(name, str) or measure.is_uint64:
        return None
    low, high = np.full((2, len(pieces) + 1), LIMIT)
    for i, piece in enumerate(pieces):
        column = piece.column(name)
        times = measure.words(column.drop_null() if column.null_count else column)
        if times.size:
            low[i], high[i] = times.min(), times.max()
    to_come = np.minimum.accumulate(low[::-1])[::-1][1:]
    near = to_come[1:] >= high[:-2]  # no further behind than the piece before
    return to_come if 2 * np.count_nonzero(near) >= near.size else None
