"""Split a state by a hash of its keys, and join states in the codes and ranks of one of them.

This joins the results of several processes for parts of a stream. It also moves the state of a stream when the number
of places that hold it changes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from slicing.cells.table import Cells
from slicing.closing.fill import Filled
from slicing.closing.revise import Revisions
from slicing.columns.pools import ranks, whole
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.remembered import highest_of
from slicing.lifecycle.state import State
from slicing.storage.apart import Apart, with_cells
from slicing.storage.session_store import store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints
from slicing.windows.bounds import BEGIN


def split(state: State, parts: int) -> list[State]:
    """Split a state by key into ``parts`` states. A key is always in the same part. Codes are in the order of the
    keys."""
    if state.keys is None:
        nothing = replace(state, store=store_for(state.plan), rows=KeyRows(state.plan), revisions=Revisions())
        nothing = nothing.but(filled={}, apart=(), passed=None, reported={})
        return [state, *[nothing] * (parts - 1)]
    codes = np.arange(len(state.keys))
    target = (state.keys.hashes(codes) % np.uint64(parts)).astype(np.int64)
    rank = state.keys.ranks(codes)
    return [_some_keys(state, np.flatnonzero(target == p), rank) for p in range(parts)]


def _some_keys(state: State, codes: Ints, rank: Ints) -> State:
    """The part of a state that has only these keys."""
    assert state.keys is not None
    codes = codes[np.argsort(rank[codes])]
    number = np.full(len(state.keys), -1, np.int64)
    number[codes] = np.arange(codes.size)
    keys = state.keys.compact(codes)

    def some_of(store: Store) -> Store:
        runs = (run.take(number[run.code] >= 0) for run in store.runs)
        return store_for(state.plan, tuple(run for run in runs if len(run)))

    revisions = state.revisions.take(number[state.revisions.code] >= 0)
    part = state.with_cells(some_of, revisions=revisions, keys=keys).recoded(number)
    return _own_pools(part.but(apart=tuple(known for known in part.apart if known.store.runs)))


def _own_pools(state: State) -> State:
    """Keep only the values that the state's cells hold."""
    for name, pool in state.pools.items():
        used = state.ranks_used(name)
        if used.size < len(pool):
            _, fewer, moved = ranks([], pool, used)
            state = state.reranked(name, moved).but(pools=state.pools | {name: fewer})
    return state


def merged_into(state: State, *groups: Sequence[State]) -> tuple[State, list[Cells]]:
    """Merge the cells of each group of other states, in the codes and ranks of this state. It learns all their keys and
    values first, as what one group brings moves the ranks of another group."""
    others = [other for group in groups for other in group]
    if not others:
        return state, [state.plan.no_cells for _ in groups]
    state, others = _translated(state, others)
    found, left = [], iter(others)
    for group in groups:
        store = store_for(state.plan)
        for other in islice(left, len(group)):
            store = store.with_runs(other.store.runs)
        found.append(store.consolidated().table() if group else state.plan.no_cells)
    return state, found


def _translated(state: State, others: Sequence[State]) -> tuple[State, list[State]]:
    """The state with the others' keys and values added, and the others in its codes and ranks."""
    if state.keys is not None:
        codes = [state.keys.recoded(o.keys) for o in others if o.keys is not None]
        others = [other.recoded(code) for other, code in zip(others, codes, strict=True)]
    others = list(others)
    for name in state.plan.ranked:
        found, pool, moved = ranks(
            [whole(other.pools[name]) for other in others], state.pools[name], state.ranks_kept(name)
        )
        if not np.array_equal(moved, np.arange(moved.size)):
            state = state.reranked(name, moved)
        state = state.but(pools=state.pools | {name: pool})
        others = [other.reranked(name, at) for other, at in zip(others, found, strict=True)]
    return state, others


def joined(states: Sequence[State]) -> State:
    """Join states of different keys at the same watermark: the inverse of :func:`split`."""
    first = states[0]
    assert first.given is not None
    plan = first.plan
    whole = State.fresh(plan.spec, first.given, plan.arrival)
    whole = whole.but(plan=plan, store=store_for(plan), given=first.given, watermark=first.watermark)
    whole, parts = _translated(whole, states)
    store, rows, filled = whole.store, parts[0].rows, Filled()
    for part in parts[1:]:
        rows = rows.beside(part.rows)
    apart: tuple[Apart, ...] = ()
    for known in (known for part in parts for known in part.apart):
        apart = with_cells(apart, known, operator.eq)
    passed = None
    for known_rows in (part.passed for part in parts if part.passed is not None):
        passed = known_rows if passed is None else passed.beside(known_rows)
    reported: dict[str, Store] = {}
    for name, known_store in (known for part in parts for known in part.reported.items()):
        for run in known_store.runs:
            reported[name] = reported.get(name, store_for(plan)).add(run).consolidated()
    for part in parts:
        store = store.with_runs(part.store.runs)
        filled = highest_of(filled, part.filled, BEGIN)
    progress = first.progress
    for other in states[1:]:
        progress = plan.spec.watermark.joined(progress, other.progress, plan.measure)
    return whole.but(
        store=store,
        rows=rows,
        revisions=Revisions.of(part.revisions for part in parts),
        filled=filled,
        apart=apart,
        passed=passed,
        reported=reported,
        epoch=max(state.epoch for state in states),
        fired=first.fired,
        fired_at=first.fired_at,
        progress=progress,
        arrived=max(state.arrived for state in states),
        newest=latest(state.newest for state in states),
        oldest=earliest(state.oldest for state in states),
    )


def latest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
