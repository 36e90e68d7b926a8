"""Change a query on a running stream: add and remove windows and aggregates between two pushes.

The spec is planned again, and the state is converted to the new plan: slices to its edges, levels to its gaps, numbers
to its windows, partials to its lanes. A window that is added while a stream runs has missed rows. Its windows are whole
from some start on, and earlier ones are never emitted. An aggregate has missed rows too, unless what it needs was kept
all along: it is null in windows that start before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.cells.blocks import Block, identity, width
from slicing.cells.lanes import Lane
from slicing.cells.sessions import SessionCells
from slicing.cells.table import Cells, fused, sorted_cells
from slicing.closing.revise import Revisions
from slicing.columns.pools import Placed, Pool, ranks
from slicing.columns.row_values import in_form, values_of
from slicing.columns.types import decoded, storable
from slicing.kept_rows.by_key import KeyRows
from slicing.kept_rows.of_stream import Stream, axes
from slicing.kept_rows.plain import PlainRows
from slicing.kernels.cells import FIRST, LEVEL
from slicing.lifecycle.added_windows import by_arrival, whole_since
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.spec import Spec, stable
from slicing.query.spec_checks import AnyWindow
from slicing.storage.row_panes import MARKS, WINDOW, RowPanes
from slicing.storage.session_store import store_for
from slicing.storage.store import Store
from slicing.system.arrays import Ints
from slicing.system.frozen_map import FrozenMap
from slicing.windows.bounds import BEGIN, END
from slicing.windows.rows.row_table import BEGINS, FLAGS, MOST_FLAGS, UNCOUNTED, RowTable


def with_windows(spec: Spec, windows: dict[str, AnyWindow]) -> Spec:
    """The query ``spec`` with ``windows`` in place of its own."""
    trigger = spec.trigger
    if isinstance(trigger, FrozenMap):
        trigger = FrozenMap({name: of for name, of in trigger.items() if name in windows}) or None
    return replace(spec, windows=FrozenMap(windows), trigger=trigger)


def replanned(state: State, spec: Spec, added: str | None = None) -> State:
    """The state for the spec with one window more or less."""
    assert state.given is not None
    since: dict[str, int] = {}
    if added is not None and state.newest is not None:
        since[added] = whole_since(state, Plan(spec, state.given, state.plan.arrival), added)
    return moved(state, spec, state.given, since, {})


def given_for(state: State, spec: Spec, columns: pa.Schema | None) -> pa.Schema:
    """The columns that a changed spec reads: the earlier columns, and the additional columns that it needs from
    ``columns``."""
    given = state.given
    assert given is not None
    for f in columns or ():
        if f.type != (was := state.plan.types.get(f.name, f.type)):
            raise TypeError(f"column {f.name!r} was {was} and is {f.type} in data=; cast it to what it was")
    more = [f for f in columns or () if f.name in spec.columns() and f.name not in given.names]
    given = pa.schema([*given, *more])
    missing = [name for name in spec.columns() if name not in given.names]
    if missing:
        asked = "was not read before; give data=, the DataFrame that has it"
        if columns is not None:
            asked = f"is not in data=; its columns are {', '.join(columns.names)}"
        raise ValueError(f"column {missing[0]!r} {asked}")
    return given


def complete_from(before: Spec, states: Sequence[State]) -> dict[str, dict[str, Any]]:
    """The times from which windows and aggregates that ``before`` did not have are whole. None: all are."""
    plan = states[-1].plan

    def latest(name: str, since: list[dict[str, int]]) -> Any:
        known = [ticks[name] for ticks in since if ticks.get(name, BEGIN) > BEGIN]
        return plan.measure.value(max(known)) if known else None

    windows, aggs = [state.plan.since for state in states], [state.plan.agg_since for state in states]
    return {
        "windows": {name: latest(name, windows) for name in plan.spec.windows if name not in before.windows},
        "aggs": {name: latest(name, aggs) for name in plan.spec.aggs if name not in before.aggs},
    }


def whole_from(state: State, spec: Spec, given: pa.Schema) -> tuple[dict[str, int], dict[str, int]]:
    """The start from which the windows, and the aggregates, that only the new spec has are whole (BEGIN: all are)."""
    check_change(state.plan.spec, spec)
    plan = Plan(spec, given, state.plan.arrival)
    added = [name for name in spec.windows if name not in state.plan.spec.windows]
    if state.newest is None:
        return {}, {}
    known, now = _lanes_since(state.plan), state.newest + 1
    fresh = {n: agg for n, agg in plan.aggs.items() if n not in state.plan.aggs}
    since = {n: max([known.get(lane, now) for lane in agg.read], default=BEGIN) for n, agg in fresh.items()}
    return {name: whole_since(state, plan, name) for name in added}, {n: at for n, at in since.items() if at > BEGIN}


def _lanes_since(plan: Plan) -> dict[Lane, int]:
    """The time from which each lane is whole (BEGIN: it always was). A lane that came with an aggregate begins with it;
    the sums in it may have been there before."""
    read = [(lane, plan.agg_since.get(n, BEGIN)) for n, agg in plan.aggs.items() for lane in agg.read]
    read += [(lane, BEGIN) for lane in plan.lanes if all(lane not in (known, known.sums) for known, _ in read)]
    since: dict[Lane, int] = {}
    for lane, at in read:
        for one in (lane, lane.sums):
            since[one] = min(since.get(one, at), at)
    return since


def check_change(old: Spec, new: Spec) -> None:
    """Refuse another query: only windows and aggregates may be added or removed."""
    for name in new.__dataclass_fields__:
        was, now = getattr(old, name), getattr(new, name)
        if name in ("windows", "aggs"):
            other = [n for n in now if n in was and stable(was[n]) != stable(now[n])]
            if other:
                raise ValueError(
                    f"{name}[{other[0]!r}] was {was[other[0]]!r} and is {now[other[0]]!r}: give the new one a new name"
                )
        elif was != now and name not in ("on_overflow", "on_null_time", "on_unmatched"):
            raise ValueError(f"{name} was {was!r} and is {now!r}; only windows and aggs can change while a stream runs")


def moved(state: State, spec: Spec, given: pa.Schema, since: Mapping[str, int], agg_since: Mapping[str, int]) -> State:
    """The state for a spec with other windows and aggregates, some of which begin now."""
    old = state.plan
    windows, aggs = (
        {n: tick for n, tick in {**before, **now}.items() if n in named and (tick > BEGIN or by_arrival(named[n]))}
        for before, now, named in ((old.since, since, spec.windows), (old.agg_since, agg_since, spec.aggs))
    )
    plan = Plan(spec, given, old.arrival, windows, aggs, old.policy)
    number = np.array([plan.names.index(n) if n in spec.windows else -1 for n in old.names], np.int64)
    timed = {old.names[i]: k for k, i in enumerate(old.timed)}
    filled = {
        k: state.filled[timed[plan.names[plan.timed[k]]]]
        for k in plan.fill
        if timed.get(plan.names[plan.timed[k]]) in state.filled
    }
    kept, pools = _ranked(state.rows, plan, state.pools)
    store, apart = _store(state, plan, state.store), []
    for known in state.apart:
        moved_store = _store(state, plan, known.store)
        if plan.early.fired_slices.any() or (plan.early.cut and known.judged > BEGIN):
            apart.append(known.but(moved_store))
        else:
            store = store.with_runs(moved_store.runs)
    return state.but(
        plan=plan,
        given=given,
        pools=pools,
        store=store,
        rows=_rows(kept, plan, number),
        revisions=_renumbered(state.revisions, number),
        filled=filled,
        postponed=tuple(replace(p, store=_store(state, plan, p.store).consolidated()) for p in state.postponed),
        apart=tuple(apart),
        reported={
            name: _store(state, plan, reports) for name, reports in state.reported.items() if name in spec.windows
        },
        passed=_passed(state, plan, number),
        fired={name: epoch for name, epoch in state.fired.items() if name in spec.windows},
        fired_at={name: at for name, at in state.fired_at.items() if name in spec.windows},
        held=None if state.held is None else _held(state.held, plan),
    )


def _passed(state: State, plan: Plan, number: Ints) -> RowPanes | None:
    """The rows and windows of panes at rows, for the new plan. A running stream cannot get a window with such panes."""
    fresh = [
        name
        for name, new in zip(plan.names, plan.early.cut_by_rows, strict=True)
        if new and name not in state.plan.names
    ]
    if fresh and state.newest is not None:
        raise ValueError(
            f"windows[{fresh[0]!r}] cannot be added while a stream runs with {plan.spec.trigger_of(fresh[0])!r}: it "
            "would count from some row on; give triggers to windows by name, trigger={'name': ...}"
        )
    known = state.passed
    if known is None or not plan.early.panes_of_rows:
        return None
    window = number[known.windows[:, WINDOW]]
    known = known.of(window >= 0).waits(known.rows, known.row_cells)
    windows = known.windows.copy()
    windows[:, WINDOW] = window[window >= 0]
    rows, parts = (Cells(table.meta, _blocks(state.plan, plan, table)) for table in known.tables)
    marks = _marks(state.plan, plan, known.rows)
    return replace(known, plan=plan, windows=windows, rows=marks, row_cells=rows, part_cells=parts)


def _marks(old: Plan, plan: Plan, rows: Ints) -> Ints:
    """Facts of rows with their marks renumbered for the columns that the new plan reads."""
    moved = rows.copy()
    moved[:, MARKS] = 0
    for bit, column in enumerate(plan.early.marks):
        if column in old.early.marks:
            moved[:, MARKS] |= (rows[:, MARKS] >> old.early.marks.index(column) & 1) << bit
    return moved


def _store(state: State, plan: Plan, store: Store) -> Store:
    if not plan.keeps_slices:
        return store_for(plan)
    runs = (_cells(state, plan, run) for run in store.runs)
    return store_for(plan, tuple(run for run in runs if len(run)))


def _cells(state: State, plan: Plan, cells: Cells) -> Cells:
    old, newest = state.plan, END if state.newest is None else state.newest
    meta = np.full((len(cells), plan.cells.words), len(plan.session_gaps))  # no session takes cells without times
    meta[:, FIRST:] = np.minimum(cells.end - 1, newest)[:, None]
    shared = min(plan.cells.words, cells.words)
    meta[:, :shared] = cells.meta[:, :shared]
    if plan.bounds or plan.early.run_cuts:
        # a slice ends where the new plan has an edge: behind all its rows, at or before the old end
        last = plan.edges.next_live(np.array([min(newest, END - 1)]), BEGIN)[0]
        meta[:, 0] = plan.edges.next_live(np.minimum(cells.end, last) - 1, BEGIN)
    else:
        meta[:, 0] = END
    if isinstance(cells, SessionCells):
        level = _levels(old.session_gaps, plan.session_gaps)[cells.level % old.levels]
        level += cells.level // old.levels * plan.levels if plan.wholes else 0
        meta[:, LEVEL:FIRST] = level[:, None]
    return fused(sorted_cells(plan.cells(meta, _blocks(old, plan, cells))), plan.lanes, plan.gaps)


def _blocks(old: Plan, plan: Plan, cells: Cells) -> tuple[Block, ...]:
    """The partials of the new plan's lanes; empty partials where nothing was kept."""
    known = dict(zip([lane.sums for lane in old.lanes], cells.blocks, strict=True))
    return tuple([_as_wide(lane, known.get(lane.sums), len(cells)) for lane in plan.lanes])


def _as_wide(lane: Lane, block: Block | None, cells: int) -> Block:
    """The partials of a lane that has kept more or fewer words, or nothing."""
    if block is not None and (not isinstance(lane.kind, int) or block.shape[1] == width(lane.kind)):
        return block
    made = identity(lane, cells)
    if block is not None:
        words = min(block.shape[1], made.shape[1])
        made[:, :words] = block[:, :words]
    return made


def _held(results: pa.Table, plan: Plan) -> pa.Table:
    """Results that wait, in the columns of the new plan: windows of rows that come or go add or drop their ranks."""
    some = results.filter(pc.field("window").isin(list(plan.spec.windows)))
    schema, known = plan.no_windows.schema, some.column_names
    columns = [some[f.name] if f.name in known else pa.nulls(some.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _levels(old: Sequence[int], new: Sequence[int]) -> Ints:
    """For each number of old gaps that no longer take a cell: how many of the new gaps no longer take it."""
    between = [sum(gap <= old[level - 1] for gap in new) for level in range(1, len(old))]
    return np.array([0, *between, *([len(new)] if old else [])], np.int64)


def _ranked(store: KeyRows, plan: Plan, pools: Mapping[str, Pool]) -> tuple[KeyRows, dict[str, Pool]]:
    """Kept rows with the ranks of their values, for columns that are read by rank from now on."""
    final = [run for run in store.final.runs if isinstance(run, PlainRows)]
    kept, of_all = [*store.waiting, *(run.rows for run in final)], dict[str, Pool]()
    for name in plan.ranked:
        pool = of_all[name] = pools.get(name, pa.nulls(0, storable(decoded(plan.types[name]))))
        assert not isinstance(pool, Placed) or name in plan.partials.placed, "values in no order would be ranks"
        if name not in pools and kept and name in kept[0].columns:
            found, of_all[name], _ = ranks([run.columns[name] for run in kept], of_all[name], np.empty(0, np.int64))
            kept = [replace(run, ranks={**run.ranks, name: at}) for run, at in zip(kept, found, strict=True)]
    waiting, plain = tuple(kept[: len(store.waiting)]), iter(kept[len(store.waiting) :])
    runs = tuple(replace(r, rows=next(plain)) if isinstance(r, PlainRows) else r for r in store.final.runs)
    return replace(store, waiting=waiting, final=replace(store.final, runs=runs)), of_all


def _rows(store: KeyRows, plan: Plan, number: Ints) -> KeyRows:
    if not plan.keeps_rows:
        return KeyRows(plan)
    runs = tuple(
        run.replanned(plan) if isinstance(run, PlainRows) else _run(run, store.plan, plan) for run in store.final.runs
    )
    contexts = {int(number[n]): known for n, known in store.contexts.items() if number[n] >= 0}
    notes, bases = (
        {int(number[n]): known for n, known in kept.items() if number[n] >= 0} for kept in (store.notes, store.bases)
    )
    for window in plan.rows.windows:
        if window.by_arrival and window.number not in number:  # it counts from the next row on
            arrived = store.arrived
            bases[window.number] = arrived.of_key if window.by_key else np.array([arrived.rows])
    return replace(store.replanned(plan, runs, contexts, notes, bases), streams=_streams(store, plan))


def _streams(store: KeyRows, plan: Plan) -> tuple[Stream, ...]:
    """What is kept of the whole stream. An axis is dropped with its last window; no axis is added to a running
    stream."""
    if not store.streams:
        return ()
    known = {axis.marks: stream for axis, stream in zip(axes(store.plan), store.streams, strict=True)}
    return tuple(_stream(known[axis.marks], axis.plan) for axis in axes(plan))


def _stream(stream: Stream, plan: Plan) -> Stream:
    """A stream in the new plan. Slices may end where no window ends any more, as no new window has an edge inside of
    them."""
    runs = tuple(Cells(run.meta, _blocks(stream.store.plan, plan, run)) for run in stream.store.runs)
    return replace(stream, store=store_for(plan, runs).without(stream.closed))


def _run(run: RowTable, old: Plan, plan: Plan) -> RowTable:
    if len(plan.rows.flags) > MOST_FLAGS:
        raise ValueError(
            f"add_window: all windows together would ask {len(plan.rows.flags)} flags of a row, of boolean columns; at "
            f"most {MOST_FLAGS} can be asked of rows that are kept as slices"
        )
    facts = run.facts.copy()
    facts[:, FLAGS] = BEGINS
    unknown = [stamp for stamp in plan.rows.stamps if stamp not in old.rows.stamps]
    facts[:, unknown] = UNCOUNTED
    for bit, flag in enumerate(plan.rows.flags):
        if flag in old.rows.flags:
            facts[:, FLAGS] |= (run.facts[:, FLAGS] >> old.rows.flags.index(flag) & 1) << bit
    seen = dict(zip(old.rows.values, run.values, strict=True))
    values = tuple(
        in_form(seen[name], form, plan.types[name])
        if name in seen
        else values_of(pa.nulls(len(run), plan.types[name]), form)  # no window that reads the column sees these rows
        for name, form in plan.rows.values.items()
    )
    return RowTable(Cells(run.cells.meta, _blocks(old, plan, run.cells)), facts, values)


def _renumbered(revisions: Revisions, number: Ints) -> Revisions:
    window = number[revisions.window]
    return replace(revisions, window=window).take(window >= 0)
