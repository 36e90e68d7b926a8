"""Cells apart from the store (``slicing.storage.apart``): how they get there, and when they go into the store.

``put_apart`` takes new cells that some trigger has yet to report. ``settle`` takes the watermark that is reached, and
looks for cells that every trigger has reported. Both change a draft of the state and return nothing.
"""

from __future__ import annotations

from slicing.cells.table import Cells
from slicing.closing.panes import Kept
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.storage.apart import Apart, with_cells
from slicing.storage.session_store import store_for
from slicing.windows.bounds import BEGIN


def put_apart(state: State, cells: Cells, judged: int) -> None:
    """Keep cells apart from the store. ``judged``: the watermark that their rows were behind; BEGIN: none."""
    if not len(cells):
        return
    more = Apart(store_for(state.plan).beside(cells), judged, state.epoch)

    def alike(one: int, other: int) -> bool:
        low, high = sorted((one, other))
        return not state.plan.edges.any_between(low, high)

    state.apart = with_cells(state.apart, more, alike)


def settle(state: State, reached: int, kept: Kept | None = None) -> None:
    """Put into the store what every trigger has reported. ``kept``: all cells, perhaps merged already."""
    plan = state.plan
    left: list[Apart] = []
    done: list[Cells] = []
    if not state.apart:
        return
    fired = min([state.fired.get(plan.names[number], -1) for number in plan.early.fired_numbers], default=None)
    for known in state.apart:
        all_fired = fired is None or known.epoch <= fired
        if all_fired and (known.judged == BEGIN or _all_passed(plan, known, reached)):
            done += known.store.runs
        elif known.store.runs:
            left.append(known)
    whole = None if kept is None or left else kept.merged
    if whole is not None:
        state.store = state.store.of((whole,))
    else:
        for run in done:
            state.store = state.store.add(run)
    state.apart = tuple(left)


def _all_passed(plan: Plan, known: Apart, reached: int) -> bool:
    """Whether the watermark has passed a cut of every window that holds these rows, since they were judged."""
    for cuts, bound in zip(plan.early.cuts, plan.bounds, strict=True):
        if cuts is None or any((reached - o) // d > (known.judged - o) // d for d, o in cuts.spans):
            continue
        if any((bound.latest_end(run.slice_ends) > reached) for run in known.store.runs):
            return False
    return True
