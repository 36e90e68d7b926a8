"""Cells apart from the store (``slicing.storage.apart``): how they get there, and when they go into the store.

``put_apart`` takes new cells that some trigger has yet to report. ``settle`` takes the watermark that is reached, and
looks for cells that every trigger has reported. Both change a draft of the state and return nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from slicing.cells.table import Cells
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.storage.apart import Apart, with_cells
from slicing.storage.session_store import store_for
from slicing.triggers.cells_by_report import CellsByReport
from slicing.windows.bounds import BEGIN


def put_apart(state: State, cells: Cells, judged: int) -> None:
    """Keep cells apart from the store. ``judged``: the watermark that their rows were behind; BEGIN: none."""
    if not len(cells):
        return
    more = Apart(store_for(state.plan).beside(cells), judged, state.epoch)
    state.apart = with_cells(state.apart, more, partial(_alike, state.plan))


def _alike(plan: Plan, one: int, other: int) -> bool:
    """Whether no edge lies between two watermarks."""
    low, high = sorted((one, other))
    return not plan.edges.any_between(low, high)


def settle(state: State, reached: int, kept: CellsByReport | None = None) -> None:
    """Put into the store what every trigger has reported. ``kept``: all cells, perhaps merged already."""
    plan = state.plan
    left: list[Apart] = []
    done: list[Cells] = []
    if not state.apart:
        return
    fired = sorted({state.fired.get(plan.names[number], -1) for number in plan.early.fired_numbers})
    for known in state.apart:
        all_fired = not fired or known.epoch <= fired[0]
        if all_fired and (known.judged == BEGIN or _all_passed(plan, known, reached)):
            done += known.store.runs
        elif known.store.runs:
            left.append(known)
    whole = None if kept is None or left else kept.merged
    if whole is not None:
        state.store = state.store.of((whole,))
    else:
        state.store = state.store.with_runs(done)
    state.apart = _together(plan, left, fired) if fired else tuple(left)


def _together(plan: Plan, apart: Sequence[Apart], fired: Sequence[int]) -> tuple[Apart, ...]:
    """Cells that the same triggers have reported, together. ``fired``: when triggers last fired, ascending."""
    pieces = [
        replace(known, epoch=fired[at]) for known in apart if (at := bisect_left(fired, known.epoch)) < len(fired)
    ]
    found = [known for known in apart if known.epoch > fired[-1]]  # which none has reported
    for known in sorted(pieces, key=lambda piece: (piece.epoch, piece.judged)):
        if found and found[-1].epoch == known.epoch and _are_alike(plan, found[-1], known):
            found[-1] = found[-1].added(known)
        else:
            found.append(known)
    return tuple(found)


def _are_alike(plan: Plan, one: Apart, other: Apart) -> bool:
    behind = one.judged > BEGIN
    return behind == (other.judged > BEGIN) and (not behind or _alike(plan, one.judged, other.judged))


def _all_passed(plan: Plan, known: Apart, reached: int) -> bool:
    """Whether the watermark has passed a cut of every window that holds these rows, since they were judged."""
    for cuts, bound in zip(plan.early.cuts, plan.bounds, strict=True):
        if cuts is None or any((reached - o) // d > (known.judged - o) // d for d, o in cuts.spans):
            continue
        if any((bound.latest_end(run.slice_ends) > reached) for run in known.store.runs):
            return False
    return True
