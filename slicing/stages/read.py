"""Read: the columns of a batch as arrays, times in ticks and keys as codes; how far the stream has come.

Takes a draft of the state and a record batch. The draft learns keys and values, and the progress of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.closing.fits import check_fits, check_full
from slicing.columns.bits import present
from slicing.columns.casts import plain
from slicing.columns.extreme_texts import with_extremes
from slicing.columns.pools import Placed, listed, ranks
from slicing.columns.taking import taken
from slicing.columns.values import NOWHERE
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.processing_time import ProcessingTime, microseconds
from slicing.query.progress import Seen
from slicing.reducing.batch import Rows
from slicing.system.arrays import Ints
from slicing.system.replace import but
from slicing.windows.bounds import APART, END, LIMIT


class Batch(NamedTuple):
    """A batch that has been read."""

    given: pa.RecordBatch  # in the types of the first batch
    rows: Rows  # the rows that are not set aside
    null_time: Ints  # the positions of rows without a time
    ahead: Ints = NOWHERE  # the positions of rows too far ahead of the watermark
    columns: Mapping[str, pa.Array] = {}  # of the rows that are not set aside

    @property
    def aside(self) -> Ints:
        """The positions of rows that are set aside: rows without a time, and rows too far ahead."""
        return np.append(self.null_time, self.ahead) if self.ahead.size else self.null_time


def read(state: State, data: pa.RecordBatch) -> Batch:
    """Read a batch: columns as arrays. The state learns its keys and values, and how far the stream has come."""
    given, columns, times, null_time = _timed(state, data)
    ahead = NOWHERE
    if state.plan.sets_aside:
        policy, delays = state.plan.spec.watermark, state.plan.delays
        ahead = policy.ahead(times, state.watermark, delays, part=not state.plan.arrival)
    if ahead.size:
        ahead = _timed_positions(given.num_rows, null_time)[ahead]
        columns, times = _without(state, given, np.append(null_time, ahead))
    rows = encoded(state, columns, times)
    if times.size:
        low, high, ascending = rows.span
        seen = Seen(times, low, high, ascending, columns, state.plan.measure, null_time)
        state.progress = state.plan.spec.watermark.observe(state.progress, seen)
        state.newest = high if state.newest is None else max(high, state.newest)
        if state.oldest is None or low < state.oldest:
            _began(state, times, low)
        if state.plan.full and state.oldest is not None:
            check_full(state.plan, state.oldest, state.newest)
    return Batch(given, rows, null_time, ahead, columns)


def _began(state: State, times: Ints, low: int) -> None:
    """Update the time at which the stream begins. Rows behind the watermark do not count."""
    if state.watermark is not None and low < state.watermark:
        low = int(times[times >= state.watermark].min(initial=END))
    state.oldest = low if state.oldest is None else min(low, state.oldest)


def _timed_positions(rows: int, null_time: Ints) -> Ints:
    return np.delete(np.arange(rows), null_time)


def _without(state: State, given: pa.RecordBatch, aside: Ints) -> tuple[dict[str, pa.Array], Ints]:
    """The columns and times of a batch without the rows ``aside``."""
    _, columns = state.plan.columns.of(taken(given, _timed_positions(given.num_rows, aside)))
    return columns, state.plan.measure.words(columns[str(state.plan.spec.time)])


def encoded(state: State, columns: dict[str, pa.Array], times: Ints) -> Rows:
    """Encode rows that have a time: keys as codes, values without a word of their own as ranks."""
    plan, keys = state.plan, state.keys
    code, codes, policy = None, 1, plan.policy
    threads = policy.threads if times.size >= 2 * policy.share.rows else 1
    if keys is not None:
        code = keys.encode(list(map(columns.__getitem__, plan.spec.by)), threads, policy.share)
        codes = len(keys)
    columns = dict(zip(plan.row_columns, map(columns.__getitem__, plan.row_columns), strict=True))
    for name in (plan.unlike & columns.keys()) - plan.extreme_texts.keys():
        columns[name] = plain(columns[name])
    if plan.spec.op is not None:
        columns = plan.with_signs(columns)
    ranked = dict[str, Ints]()
    sharing = threads if plan.keeps_slices else 1  # plans that only keep rows have little work to share
    rows = Rows(plan, columns, times, code, codes, state.arrived, ranked, sharing)
    if times.size:
        low, high, _ = rows.look()
        if low < -LIMIT or high > LIMIT:
            raise ValueError(too_far(plan, low if low < -LIMIT else high))
        if low < plan.fitting[0] or high > plan.fitting[1]:
            check_fits(plan, low, high, state.horizon)
        for bound in plan.limited:
            bound.check(low, high)
        newest = high if state.newest is None else state.newest
        if max(high, newest) - min(low, newest) > APART:
            raise ValueError(too_far_apart(plan, min(low, newest), max(high, newest)))
    for name, asked in plan.extreme_texts.items():
        in_order = times.size and rows.span[2]
        columns[name] = with_extremes(columns[name], rows.cuts[1], *asked) if in_order else plain(columns[name])
    for name in plan.ranked:
        ranked[name] = _ranks(state, name, columns[name])
    return rows


def _timed(state: State, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, pa.Array], Ints, Ints]:
    """The batch in the plan's types, the columns of rows that have a time, their times in ticks, and the positions of
    rows without a time."""
    plan, spec = state.plan, state.plan.spec
    batch, columns = plan.columns.of(batch)
    if isinstance(spec.time, ProcessingTime):
        now = microseconds(spec.time.clock)
        if state.progress.largest is not None:
            now = max(now, state.progress.largest)
        state.progress = but(state.progress, largest=now)  # also by a push without rows
        return batch, columns, np.full(batch.num_rows, now, np.int64), NOWHERE
    column, missing = columns[spec.time], NOWHERE
    if column.null_count:
        valid = present(column)
        missing = np.flatnonzero(~valid)
        if spec.on_null_time == "error":
            raise ValueError(
                f"time column {spec.time!r} is null in row {missing[0]} of the batch; fill or "
                "drop nulls, or use on_null_time='late' to have such rows among the late ones"
            )
        _, columns = plan.columns.of(taken(batch, np.flatnonzero(valid)))
        column = columns[spec.time]
    if plan.measure.is_uint64 and len(column) and pc.max(column).as_py() > LIMIT:
        raise ValueError(too_far(plan, pc.max(column).as_py()))
    return batch, columns, plan.measure.words(column), missing


def _ranks(state: State, name: str, column: pa.Array) -> Ints:
    """The ranks of a column's values among all known values. In a sorted pool, new values shift the ranks of values
    that sort after them."""
    add = listed if name in state.plan.listed else ranks
    if add is ranks and name in state.plan.partials.placed:
        return _places(state, name, column)
    (ranked,), pool, moved = add([column], state.pools[name], state.ranks_kept(name))
    if not np.array_equal(moved, np.arange(moved.size)):
        state.__dict__.update(state.reranked(name, moved).__dict__)
    state.pools = state.pools | {name: pool}
    return ranked


def _places(state: State, name: str, column: pa.Array) -> Ints:
    pool = state.pools[name]
    assert isinstance(pool, Placed)
    if len(pool) >= pool.crowded:
        state.forget_values(name)
        pool = state.pools[name]
        assert isinstance(pool, Placed)
    places, pool = pool.with_values(column)
    state.pools = state.pools | {name: pool}
    return places


def too_far(plan: Plan, time: int) -> str:
    found, first, last = (plan.measure.value(word) for word in (time, -LIMIT, LIMIT))
    unit = " units" if plan.measure.is_integer else f" in a column of type {plan.measure.type}"
    to_do = ": cast it to timestamp[us]" if plan.measure.word_ns == 1 and not plan.measure.is_integer else ""
    return f"time column {plan.spec.time!r} holds {found}; times must lie between {first} and {last}{unit}{to_do}"


def too_far_apart(plan: Plan, first: int, last: int) -> str:
    since, until = plan.measure.value(first), plan.measure.value(last)
    unit = "units" if plan.measure.is_integer else f"ticks of {plan.measure.type}"
    return (
        f"time column {plan.spec.time!r} holds {since} and {until}; the times of a batch and the latest one before it "
        f"must lie within {APART} {unit}"
    )
