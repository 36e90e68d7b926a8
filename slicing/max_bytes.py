"""Limit the bytes that an operator may hold: a push that would exceed them is refused, or its rows come back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.closing import results
from slicing.lifecycle.state import State, reached_by
from slicing.push import Pushed
from slicing.stages.close import close_and_fire
from slicing.stages.output import NO_ROWS, Account, output
from slicing.stages.read import read


def within(before: State, data: pa.RecordBatch, pushed: Pushed, known: int, upto: int | None) -> Pushed:
    """The push if it keeps to ``max_bytes``. Otherwise an error, or a push that sets its rows aside."""
    policy, size = before.plan.policy, pushed.out.stats["bytes"]
    if policy.max_bytes is None or size <= policy.max_bytes:
        return pushed if policy.on_full == "error" else _with_full(pushed, 0)
    if policy.on_full == "error":
        raise MemoryError(
            f"after this push of {data.num_rows} rows the operator would hold {size} bytes, and max_bytes is "
            f"{policy.max_bytes}; close windows (advance), push fewer rows, raise max_bytes, or have the rows of "
            "such a push come back with on_full='late'"
        )
    return _set_aside(before, data, known, upto)


def _set_aside(before: State, data: pa.RecordBatch, known: int, upto: int | None) -> Pushed:
    """A push whose rows are in no window. It moves the watermark and closes windows, as a push of late rows does."""
    looked = before.draft()
    batch, reached = read(looked, data), reached_by(looked, upto)
    state = before.as_it_was(known)  # its new keys and values are not kept
    state.progress, state.newest, state.oldest = looked.progress, looked.newest, looked.oldest
    state.arrived += batch.given.num_rows
    state.given = batch.given.schema
    state.store, state.revisions = state.headless()
    state.store = state.store.settled()
    answers, change = close_and_fire(state, reached)
    refused = np.arange(batch.rows.time.size)
    late = results.late_rows(batch.given, batch.null_time, refused, batch.ahead, "full")
    counts = NO_ROWS | {"rows": batch.given.num_rows, "null_time": batch.null_time.size, "ahead": batch.ahead.size}
    return _with_full(Pushed(state, output(state, answers, change, Account(late, counts))), refused.size)


def _with_full(pushed: Pushed, rows: int) -> Pushed:
    pushed.out.stats["full"] = rows
    return pushed
