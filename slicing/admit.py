"""A batch on its way in: its columns as arrays, its rows judged by the watermark before it, and reduced to cells."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.batch import Rows
from slicing.columns.values import NOWHERE, plain, ranks
from slicing.plan import Plan
from slicing.reduce import reduce_rows, reduce_suspects
from slicing.slices.cells import Cells, merged
from slicing.state import State
from slicing.windows.bounds import APART, BEGIN, LIMIT

Ints = npt.NDArray[np.int64]


class Admitted(NamedTuple):
    """A batch as the store takes it."""

    cells: Cells
    changing: Cells  # cells of rows behind the watermark, which may change windows already given out
    late: Ints  # positions of the rows
    outside: int
    in_time: Rows  # rows that no window has left behind
    tardy: Rows | None  # others that some window takes


def encoded(state: State, columns: dict[str, pa.Array], times: Ints, threads: int = 1) -> tuple[State, Rows]:
    """Columns as arrays: keys as codes, values that have no word of their own as ranks."""
    plan = state.plan
    code = None
    if state.keys is not None:
        code = state.keys.encode([columns[name] for name in plan.spec.by], threads)
    if plan.unlike:
        columns = {name: plain(column) if name in plan.unlike else column for name, column in columns.items()}
    ranked: dict[str, Ints] = {}
    for name in plan.ranked:
        pool, store = state.pools[name], state.store
        crowded = len(pool) > 2 * (store.values + state.rows.values) + 1024 and not state.postponed
        used = np.arange(len(pool))
        if crowded:
            used = np.union1d(store.ranks_used(name, len(pool)), state.rows.ranks_used(name, len(pool)))
        (ranked[name],), pool, moved = ranks([columns[name]], pool, used)
        if not np.array_equal(moved, np.arange(moved.size)):
            postponed = tuple(replace(p, store=p.store.reranked(name, moved)) for p in state.postponed)
            rows_kept = state.rows.reranked(name, moved)
            state = replace(state, store=store.reranked(name, moved), rows=rows_kept, postponed=postponed)
        state = replace(state, pools=state.pools | {name: pool})
    codes = 1 if state.keys is None else len(state.keys)
    sharing = threads if plan.keeps_slices else 1  # whoever keeps rows has little to share
    rows = Rows(plan, columns, times, code, codes, state.arrived, ranked, sharing)
    if times.size:
        low, high, _ = rows.span
        if low < -LIMIT or high > LIMIT:
            raise ValueError(too_far(plan, low if low < -LIMIT else high))
        newest = high if state.newest is None else state.newest
        if max(high, newest) - min(low, newest) > APART:
            raise ValueError(_too_far_apart(plan, min(low, newest), max(high, newest)))
    return state, rows


def admit(state: State, rows: Rows) -> Admitted:
    """Judge each row by the watermark before the batch, and reduce what is in time to cells."""
    plan, h = state.plan, state.horizon
    late = NOWHERE
    none = plan.alike("no cells", lambda: Cells.empty(plan.lanes, plan.fragments))
    if not len(rows):
        return Admitted(none, none, late, 0, rows, None)
    parts: list[Cells] = []
    suspects, outside, current, tardy = none, 0, rows, None
    if rows.span[0] < h:
        suspect = np.flatnonzero(rows.time < h)
        suspects, all_late, outside, tardy = _judge(plan, rows.take(suspect), h)
        late = suspect[all_late]
        current = rows.take(np.flatnonzero(rows.time >= h))
    in_time, changing = current, suspects
    if not plan.keeps_slices:
        return Admitted(none, none, late, 0, in_time, None)
    reached = state.watermark
    if plan.spec.revises and reached is not None and len(current) and current.span[0] < reached:
        behind = current.time < reached
        cells, beyond = _inside(plan, reduce_rows(current.take(np.flatnonzero(behind))))
        outside += beyond
        changing = merged(suspects, cells, plan.lanes, plan.gaps)
        current = current.take(np.flatnonzero(~behind))
    if not plan.spec.revises:
        changing = none
        parts.append(suspects)
    cells, beyond = _inside(plan, reduce_rows(current))
    parts.append(cells)
    both = merged(parts[0], parts[1], plan.lanes, plan.gaps) if len(parts) == 2 and len(parts[0]) else cells
    return Admitted(both, changing, late, outside + beyond, in_time, tardy)


def _inside(plan: Plan, cells: Cells) -> tuple[Cells, int]:
    """Without the cells of rows that no slice's window holds by definition; how many rows are in no window at all."""
    if plan.gapless:
        return cells, 0
    held = plan.edges.covers(cells.end)
    return cells.take(held), 0 if plan.keeps_rows else int(cells.rows[~held].sum())


def _judge(plan: Plan, rows: Rows, h: int) -> tuple[Cells, npt.NDArray[np.bool_], int, Rows]:
    """Rows before the horizon: cells of those some window takes, which are late for all, how many outside, the taken.

    They are too late for every window that rows decide.
    """
    own_end = plan.edges.next_live(rows.time, BEGIN)
    level = np.searchsorted(np.array(plan.session_gaps, np.int64), h - rows.time, "right").astype(np.int64)
    taken = plan.in_session(level)
    if plan.bounds:
        taken |= plan.edges.holds(own_end, h)
    if plan.idle is not None:
        taken &= level < len(plan.session_gaps)
    belongs = np.ones(len(rows), np.bool_) if plan.gapless else plan.edges.covers(own_end)
    taken &= belongs
    if plan.keeps_rows:
        belongs[:] = True
    if plan.wholes:
        level += plan.levels
    chosen = np.flatnonzero(taken)
    some = rows.take(chosen)
    cells = reduce_suspects(some, plan.edges.next_live(some.time, h), level[chosen])
    return cells, belongs & ~taken, int((~belongs).sum()), some


def too_far(plan: Plan, time: int) -> str:
    found, first, last = (plan.measure.value(word) for word in (time, -LIMIT, LIMIT))
    unit = " units" if plan.measure.is_integer else f" in a column of type {plan.measure.type}"
    return f"time column {plan.spec.time!r} holds {found}; times must lie between {first} and {last}{unit}"


def _too_far_apart(plan: Plan, first: int, last: int) -> str:
    since, until = plan.measure.value(first), plan.measure.value(last)
    unit = "units" if plan.measure.is_integer else f"ticks of {plan.measure.type}"
    return (
        f"time column {plan.spec.time!r} holds {since} and {until}; the times of a batch and the latest one before it "
        f"must lie within {APART} {unit}"
    )
