"""Changing a query on a running stream: windows that are added and removed between two pushes.

The spec is planned anew, and what is remembered is put into the new plan's terms: slices to its edges, levels to its
gaps, numbers to its windows. A window added while a stream runs has missed rows: its windows are whole from some start
on, and others never come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slicing.bounds import BEGIN, END, Bound, BoundFixed, BoundLandmark
from slicing.cells import Cells, fused, sorted_cells
from slicing.edges import EdgeSet
from slicing.kernels.cells import FIRST, LAST, LEVEL
from slicing.plan import Plan
from slicing.revise import Revisions
from slicing.row_store import RowStore
from slicing.row_values import in_form
from slicing.row_windows import LastRows, PerRow, Punctuation, RowWindow
from slicing.rows import FLAGS, WITNESS
from slicing.spec import Spec
from slicing.store import Store
from slicing.windows import ContextFreeWindow, Session, Window

if TYPE_CHECKING:
    from slicing.state import State

Ints = npt.NDArray[np.int64]
AnyWindow = ContextFreeWindow | RowWindow | Window


def with_windows(spec: Spec, windows: dict[str, AnyWindow]) -> Spec:
    """The same query with other windows."""
    arguments = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    return Spec(**arguments | {"windows": windows, "aggs": dict(spec.aggs)})


def replanned(state: State, spec: Spec, added: str | None = None) -> State:
    """What the operator remembers, for the spec with a window more or less."""
    assert state.given is not None
    old = state.plan
    since = {name: tick for name, tick in old.since.items() if name in spec.windows}
    plan = Plan(spec, state.given, old.arrival, since)
    if added is not None and state.newest is not None:
        tick = _whole_from(state, plan, added)
        if tick > BEGIN:
            plan = Plan(spec, state.given, old.arrival, since | {added: tick})
    number = np.array([plan.names.index(n) if n in spec.windows else -1 for n in old.names], np.int64)
    timed = {old.names[i]: k for k, i in enumerate(old.timed)}
    filled = {
        k: state.filled[timed[plan.names[plan.timed[k]]]]
        for k in plan.fill
        if timed.get(plan.names[plan.timed[k]]) in state.filled
    }
    return state.but(
        plan=plan,
        store=_store(state, plan, state.store),
        rows=_rows(state.rows, plan, number),
        revisions=_renumbered(state.revisions, number),
        filled=filled,
        postponed=tuple(replace(p, store=_store(state, plan, p.store).consolidated()) for p in state.postponed),
    )


# --- from when a new window is whole --------------------------------------------------------------------------------


def _whole_from(state: State, plan: Plan, name: str) -> int:
    """No window of the new type that starts here or later (``per_row``: ends) has missed a row; BEGIN: none has."""
    newest, window = state.newest, plan.spec.windows[name]
    assert newest is not None
    ticks = plan.measure.ticks
    if getattr(window, "fill", False):
        raise _never(name, window, "has fill=True, and which of its windows are empty is not known from here on")
    if isinstance(window, Session):
        return newest + ticks(window.gap, "gap") + 1
    if isinstance(window, PerRow) and window.every == 1:
        return newest + ticks(window.range, "range")
    if isinstance(window, LastRows | Punctuation):
        return newest + 1
    if not isinstance(window, ContextFreeWindow):
        raise _never(name, window, "depends on all of a stream's rows from the first one on")
    bound = plan.bounds[plan.timed.index(plan.names.index(name))]
    since = _edges_whole_from(state, bound, newest)
    if isinstance(bound, BoundFixed | BoundLandmark) and (bound.start is None or bound.start < since):
        raise _never(name, window, "holds rows that came before it")
    return since


def _never(name: str, window: object, why: str) -> ValueError:
    return ValueError(f"windows[{name!r}] cannot be added while a stream runs: {window!r} {why}")


def _edges_whole_from(state: State, bound: Bound, newest: int) -> int:
    """Slices hold the rows of windows that began before now, where old edges are theirs, too."""
    old, h = state.plan, state.horizon
    if not old.timed or not old.edges.gapless or old.idle is not None:
        return newest + 1
    held = BEGIN if state.watermark is None else old.edges.held_from(h)
    found = [run.end for run in state.store.runs]
    ends = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    edges = EdgeSet([bound])
    ends = np.unique(np.minimum(ends, edges.next_live(np.array([newest]), BEGIN)))
    due = edges.due(ends, BEGIN, END)

    def edge(times: Ints) -> npt.NDArray[np.bool_]:
        cut: npt.NDArray[np.bool_] = old.edges.next_live(times - 1, h) == times
        return cut

    given_out = BEGIN if state.watermark is None or not old.spec.revises else state.watermark
    whole = (due.end > given_out) & (due.start >= held) & edge(due.start) & ((due.end > newest) | edge(due.end))
    return max(held, int(due.start[~whole].max()) + 1) if not whole.all() else held


# --- what is remembered, in the new plan's terms --------------------------------------------------------------------


def _store(state: State, plan: Plan, store: Store) -> Store:
    if not plan.keeps_slices:
        return Store(plan)
    runs = (_cells(state, plan, run) for run in store.runs)
    return Store(plan, tuple(run for run in runs if len(run)))


def _cells(state: State, plan: Plan, cells: Cells) -> Cells:
    old, newest = state.plan, END if state.newest is None else state.newest
    meta = np.zeros((len(cells), 6 if plan.fragments else 3), np.int64)
    shared = min(meta.shape[1], cells.meta.shape[1])
    meta[:, :shared] = cells.meta[:, :shared]
    if plan.bounds:  # a slice ends where the new plan has an edge: behind all its rows, at or before the old end
        last = plan.edges.next_live(np.array([min(newest, END - 1)]), BEGIN)[0]
        meta[:, 0] = plan.edges.next_live(np.minimum(cells.end, last) - 1, BEGIN)
    else:
        meta[:, 0] = END
    if plan.fragments and not cells.fragments:  # no session takes what had no first and last time
        meta[:, LEVEL] = len(plan.session_gaps)
        meta[:, FIRST] = meta[:, LAST] = np.minimum(cells.end - 1, newest)
    elif plan.fragments:
        level = _levels(old.session_gaps, plan.session_gaps)[cells.level % old.levels]
        meta[:, LEVEL] = level + (cells.level // old.levels * plan.levels if plan.wholes else 0)
    return fused(sorted_cells(Cells(meta, cells.blocks)), plan.lanes, plan.gaps)


def _levels(old: Sequence[int], new: Sequence[int]) -> Ints:
    """How many of the new gaps no longer take a cell, by how many of the old ones do not."""
    between = [sum(gap <= old[level - 1] for gap in new) for level in range(1, len(old))]
    return np.array([0, *between, *([len(new)] if old else [])], np.int64)


def _rows(store: RowStore, plan: Plan, number: Ints) -> RowStore:
    if not plan.keeps_rows:
        return RowStore(plan)
    old = store.plan
    runs = []
    for run in store.runs:
        facts = run.facts.copy()
        facts[:, FLAGS] &= WITNESS
        for bit, name in enumerate(plan.row_flags):
            if name in old.row_flags:
                facts[:, FLAGS] |= (run.facts[:, FLAGS] >> old.row_flags.index(name) & 1) << bit
        seen = dict(zip(old.row_values, run.values, strict=True))
        values = tuple(in_form(seen[name], form, plan.types[name]) for name, form in plan.row_values.items())
        runs.append(replace(run, facts=facts, values=values))
    contexts = {int(number[n]): known for n, known in store.contexts.items() if number[n] >= 0}
    none = np.empty(0, np.int64)
    return replace(
        store,
        plan=plan,
        runs=tuple(runs),
        gone=store.gone if plan.counts_rows else none,
        of_key=store.of_key if plan.counts_arrivals else none,
        contexts=contexts,
    )


def _renumbered(revisions: Revisions, number: Ints) -> Revisions:
    window = number[revisions.window]
    return replace(revisions, window=window)._take(window >= 0)
