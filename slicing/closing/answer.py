"""The entry point to all ways of answering: the windows of a store of slices that a watermark closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat, starmap
from operator import attrgetter

import numpy as np

from slicing.cells.blocks import by_column, gathered
from slicing.cells.lists import Lists, Picked
from slicing.cells.sessions import chains, runs
from slicing.cells.table import Cells, concatenated
from slicing.closing import emit, ways
from slicing.closing.answers import Answers
from slicing.closing.fill import Filled, by_instance, with_empty
from slicing.closing.gathered import in_order
from slicing.closing.ways import Closing, Way
from slicing.columns.keys import KeyTable
from slicing.kernels.cells import CODE, END
from slicing.query.plan import ENDLESS, Plan
from slicing.windows.bounds import FOREVER

_ENDS = attrgetter("slice_ends")


def answer(closing: Closing, quiet: bool = False) -> Answers:
    """The windows between edges that have rows, by the first way that pays, or from all cells as one table. ``quiet``:
    no answers are needed, but the store becomes what answering would leave: one table if that is the way taken."""
    plan = closing.plan
    found = _as_they_are(closing, quiet) if plan.may_be_windows else None
    if found is not None:
        return found
    known: Sequence[Way] | None = plan.memo.get("ways")
    for way in _ways(plan) if known is None else known:
        offer = way.offer(closing)
        if offer is not None and plan.policy.pays(way.name, offer.cost, len(closing.store) + plan.policy.table_calls):
            return Answers.none(plan) if quiet else offer.answers()
    runs_of = closing.store.runs
    table = runs_of[0] if len(runs_of) == 1 else closing.table()
    if quiet:
        return Answers.none(plan)
    return emit.time_answers(plan, table, closing.keys, closing.after, closing.until)


def _as_they_are(closing: Closing, quiet: bool) -> Answers | None:
    """Answer with cells that are windows, as cells of a single tumbling type are: 50,000 of them 0.45 -> 0.1 ms. None
    if cells are not windows."""
    plan, runs, keys = closing.plan, closing.store.runs, closing.keys
    ends = list(map(_ENDS, runs))
    # a window that was added while the stream ran has slices cut for earlier windows
    if not plan.edges.are_windows(ends[0] if len(ends) == 1 else np.concatenate(ends), not plan.since):
        return None
    if quiet:
        return Answers.none(plan)
    due, size = [], 0
    for run in runs:
        cells = run.ending(closing.after, closing.until)
        if len(cells.meta):
            due.append(cells)
            size += len(cells.meta)
    if not due:
        return Answers.none(plan)
    every = plan.edges.cuts[0].every
    if keys is not None and size > plan.policy.piece and plan.cells_are_words:
        return _many_as_they_are(plan, keys, due, every)
    if keys is None and len(due) > 1:
        end = np.concatenate([cells.meta[:, END] for cells in due])
        blocks = tuple(starmap(by_column, zip(*(cells.blocks for cells in due), strict=True)))
    else:
        table = due[0] if len(due) == 1 else concatenated(due)
        end, blocks = np.ascontiguousarray(table.meta[:, END]), table.blocks
    if keys is None:
        code = np.zeros(end.size, np.int64)
        if not plan.cells_are_words:
            blocks = tuple([Picked.of(block) if isinstance(block, Lists) else block for block in blocks])
    else:
        code = np.ascontiguousarray(table.meta[:, CODE])
        if end[0] == end[-1]:
            order = keys.order(code)
        else:
            bounds = np.concatenate(([0], (end[1:] != end[:-1]).nonzero()[0] + 1, [end.size]))
            order = keys.order_of_groups(code, bounds[1:] - bounds[:-1])
        code, blocks = code.take(order), tuple(map(gathered, blocks, repeat(order)))
    window = np.zeros(end.size, np.int64)
    return Answers(window if len(plan.names) == 1 else plan.numbered(window), end - every, end, code, blocks, True)


def _many_as_they_are(plan: Plan, keys: KeyTable, due: Sequence[Cells], every: int) -> Answers:
    """Many cells as the answers of their windows, in the order of the keys. Partials are not copied until they are
    read."""
    codes, parts = [], []
    for cells in due:
        code, each = np.ascontiguousarray(cells.meta[:, CODE]), cells.slice_sizes()
        order = keys.order(code) if each.size == 1 else keys.order_of_groups(code, each)
        codes.append(code.take(order))
        parts.append((cells.blocks, order))
    end = np.concatenate([cells.meta[:, END] for cells in due])
    window, blocks = plan.numbered(np.zeros(end.size, np.int64)), in_order(plan.lanes, parts, plan.policy.piece)
    return Answers(window, end - every, end, np.concatenate(codes), blocks, True)


def all_windows(closing: Closing, filled: Filled, quiet: bool = False) -> tuple[Answers, Filled]:
    """The windows between edges, empty windows (``filled``: the last emitted ones), sessions and whole streams."""
    plan = closing.plan
    if plan.adds_up or plan.may_be_windows:
        return answer(closing, quiet), filled
    table = closing.table()  # finding runs of cells and empty windows needs all cells in one table
    if plan.idle is None:
        found, filled = with_empty(plan, answer(closing), filled, table, closing.after, closing.until)
    else:  # all windows of a key that has been quiet are emitted now
        instances = runs(table, closing.keys, chains(table, plan.idle))
        found, filled = by_instance(plan, instances, filled, closing.after, closing.until)
    parts = [found, *_runs(closing)]
    if all([part.ordered for part in parts]):
        return Answers.merged(plan, parts), filled
    return Answers.all_of(plan, parts), filled


def _ways(plan: Plan) -> Sequence[Way]:
    found = plan.memo["ways"] = [way for way in ways.WAYS if way.can(plan)]
    return found


def _runs(closing: Closing) -> list[Answers]:
    """Windows that are runs of a key's rows: sessions and whole streams."""
    plan, keys, after, until, table = closing.plan, closing.keys, closing.after, closing.until, closing.table()
    found = []
    for session in plan.sessions:
        gap = plan.session_gaps[session.level]
        chained = plan.chains_of(session, table)
        due = (after <= chained.end + gap) & (chained.end + gap < until)
        if due.any():
            found += emit.chained_answers(plan, table, keys, chained, due, [(session.window, session.gap)])
    if plan.wholes and (until == FOREVER or plan.idle is not None):
        gap = ENDLESS if plan.idle is None else plan.idle
        alive = None if plan.idle is None else plan.is_alive(table.level)
        chained = chains(table, gap, alive)  # a row too late for whole() still shows that its key is alive
        over = None if plan.idle is None else chained.end + plan.idle < until
        of_whole = replace(chained, run=np.where(plan.in_whole(table.level), chained.run, -1))
        found += emit.chained_answers(plan, table, keys, of_whole, over, [(window, 0) for window in plan.wholes])
    return found
