"""Early results in place: what a push reports of a single tumbling window type whose cells the head of the store has.

``each_push`` reports the cells of each push. An event-time trigger reports the slices that a cut has passed; slices
that the watermark has not reached wait beside the head. A push that completes a window takes the ordinary stages, and
so does a push with rows behind the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicing.cells.blocks import Block
from slicing.cells.table import Cells
from slicing.closing.answers import Answers
from slicing.closing.panes import EARLY, Panes
from slicing.columns.order import alike
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.storage.store import Addition, Store
from slicing.storage.totals import Report
from slicing.system.replace import but
from slicing.triggers.numbered import together


def in_place(state: State, rows: Rows, cells: Cells, reached: int | None) -> tuple[Addition, Panes] | None:
    """Prepare to add the cells of a push that completes no window to the head of the store. Also returns the windows
    that it reports, with their revisions; for "changes" in their order. None if no head pays."""
    plan, after, before = state.plan, state.watermark, state.plan.spec.emit == "changes"
    if after is None or reached is None or state.apart:
        return None
    size, _, offset = plan.periodic
    end = (after - offset) // size * size + size + offset
    if reached >= end:
        return None
    head = state.store.head
    if head is not None:
        head = head.taking(rows)
        if head is None:
            state.fold_head()
        else:
            state.store = but(state.store, head=head)
    store = state.store if state.store.head is not None else _begun(state, rows, end)
    if store is None or store.head is None:
        return None
    known, revisions = store.head.reports, state.revisions
    if known is None and plan.spec.emit != "changes":
        revisions = revisions.but_for(store.head.count_reports(revisions.end, revisions.code, revisions.count))
    found = store.prepare_slices(cells, reached, before) if plan.early.cut else store.prepare_cells(cells, before)
    if found is None:
        return None
    state.revisions, (addition, reports) = revisions, found
    panes = [pane for at, report in enumerate(reports) for pane in _panes(plan, report, at)]
    if not plan.early.cut:
        state.fired, state.epoch = {plan.names[0]: state.epoch}, state.epoch + 1
    return addition, together(plan, panes)


def _begun(state: State, rows: Rows, end: int) -> Store | None:
    """The store with a new head for the rows of a push into the window that ends at ``end``, and later ones."""
    if state.plan.early.cut:
        assert state.watermark is not None
        return state.store.with_head_of_window(end, state.watermark, rows.codes)
    store = state.store.with_head(rows, state.horizon)
    return None if store is None or store.head is None or not store.head.takes_cells else store


def _panes(plan: Plan, report: Report, at: int) -> list[Panes]:
    """What a push reports of new cells, the ``at``-th of them."""
    cells = report.cells
    size, _, offset = plan.periodic
    if cells.one_slice:
        start = (int(cells.end[0]) - 1 - offset) // size * size + offset
        starts, ends = alike(start, len(cells)), alike(start + size, len(cells))
    else:
        starts = (cells.end - 1 - offset) // size * size + offset
        ends = starts + size

    def answers(blocks: Sequence[Block]) -> Answers:
        window = alike(plan.timed[0], len(cells))
        return Answers(window, starts, ends, np.ascontiguousarray(cells.code), tuple(blocks))

    now = answers(cells.blocks if plan.spec.emit == "parts" else report.now)
    if report.number is not None:
        return [Panes.of(now, report.number, EARLY)]
    was = now if report.held.size == len(cells) else now.take(report.held)
    return [Panes.of(replace(was, blocks=report.was), 2 * at, EARLY), Panes.of(now, 2 * at + 1, EARLY)]
