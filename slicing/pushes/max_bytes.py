"""Limit the bytes that an operator may hold: a push that would exceed them is refused, or its rows come back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from slicing.closing import results
from slicing.lifecycle.state import State, forget, reached_by
from slicing.push import Pushed
from slicing.stages.close import moved
from slicing.stages.output import NO_ROWS, Account, output
from slicing.stages.read import read

Push = Callable[[State, pa.RecordBatch, int | None], Pushed]


def within(push: Push, before: State, data: pa.RecordBatch, known: int, upto: int | None) -> Pushed:
    """A push that keeps to ``max_bytes``. If it would not, an error, or a push that sets its rows aside."""
    policy, pushed = before.plan.policy, push(before, data, upto)
    if policy.max_bytes is None:
        return pushed
    leaner = _leaner(before, known) if pushed.out.stats["bytes"] > policy.max_bytes else None
    if leaner is not None:
        before, known = leaner, 0 if leaner.keys is None else len(leaner.keys)
        pushed = push(before, data, upto)
    size = pushed.out.stats["bytes"]
    if size <= policy.max_bytes:
        return pushed if policy.on_full == "error" else _with_full(pushed, 0)
    if policy.on_full == "error":
        raise MemoryError(
            f"after this push of {data.num_rows} rows the operator would hold {size} bytes, and max_bytes is "
            f"{policy.max_bytes}; close windows (advance), push fewer rows, raise max_bytes, or have the rows of "
            "such a push come back with on_full='late'"
        )
    return _set_aside(before, data, known, upto)


def _leaner(before: State, known: int) -> State | None:
    """The state before the push, without keys and values that nothing needs any more: otherwise these wait for so many
    new ones that the limit may never let in. None if all are needed."""
    state = before.as_it_was(known)
    state.fold_head()
    state.store = state.store.settled()
    if state.keys is not None:
        forget(state, state.keys, few=True)
    for name in state.pools:
        state.forget_values(name, few=True)
    fewer = any(len(pool) < len(before.pools[name]) for name, pool in state.pools.items())
    return state if fewer or (state.keys is not None and len(state.keys) < known) else None


def _set_aside(before: State, data: pa.RecordBatch, known: int, upto: int | None) -> Pushed:
    """A push whose rows are in no window. It moves the watermark and closes windows, as a push of late rows does."""
    looked = before.draft()
    batch, reached = read(looked, data), reached_by(looked, upto)
    state = before.as_it_was(known)  # its new keys and values are not kept
    state.progress, state.newest, state.oldest = looked.progress, looked.newest, looked.oldest
    state.arrived += batch.given.num_rows
    state.given = batch.given.schema
    answers, change = moved(state, reached)
    refused = np.arange(batch.rows.time.size)
    late = results.late_rows(batch.given, batch.null_time, refused, batch.ahead, "full")
    counts = NO_ROWS | {"rows": batch.given.num_rows, "null_time": batch.null_time.size, "ahead": batch.ahead.size}
    return _with_full(Pushed(state, output(state, answers, change, Account(late, counts))), refused.size)


def _with_full(pushed: Pushed, rows: int) -> Pushed:
    pushed.out.stats["full"] = rows
    return pushed
