"""The store of cells of sessions, and which store a plan has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from slicing.cells.sessions import chains, in_runs
from slicing.cells.table import Cells, concatenated, fused, sorted_cells
from slicing.columns.order import distinct
from slicing.kernels.cells import END, LEVEL
from slicing.query.plan import Plan
from slicing.storage.open_sessions import parted, touched
from slicing.storage.store import Store
from slicing.system.arrays import Ints, Mask
from slicing.system.replace import but


class SessionStore(Store):
    """A store of cells of sessions: which of them are needed depends on the runs that each key's cells form."""

    def ending(self, after: int, until: int) -> tuple[Store, Store | None]:
        """The cells of keys that may have a window that ends or expires by then, and the cells of all other keys, whose
        old slices are fused later. All cells and None if so many keys may have one that reading them all costs no more.

        Of many open sessions few end in a push (1 M of them, 500 rows: 177 -> 1.8 ms).
        """
        plan, runs, policy, cells = self.plan, self.runs, self.plan.policy, len(self)
        if not runs or cells < max(policy.apart_cells, policy.apart_share * len(runs[-1])):
            return self, None
        later = (0, plan.lateness) if plan.revises else (0,)  # how much later emitted windows expire
        lasts = [(after - gap - o, until - gap - o) for gap in plan.session_gaps for o in later]
        slices = []
        if any(plan.edges.any_between(after - o, until - o) for o in later):
            ends = distinct(np.concatenate([run.slice_ends for run in runs]))
            dues = [plan.edges.due(ends, after - o, until - o) for o in later]
            slices = [(int(due.start.min()), int(due.end.max())) for due in dues if due.end.size]
        found = np.concatenate([touched(run, lasts, slices) for run in runs])
        if found.size * policy.apart_share > cells:
            return self, None
        codes = distinct(found)
        theirs, others = zip(*(parted(run, codes) for run in runs), strict=True)
        return but(self, runs=tuple(filter(len, theirs))), but(self, runs=tuple(filter(len, others)))

    def without(self, h: int) -> Store:
        """Drop expired windows, and seal sessions that no later row can join or bridge. The store must be
        consolidated."""
        return self._fused(self._open(run, h, *self._known(run, h)) for run in self.runs)

    def without_beside(self, others: Sequence[Store], h: int) -> tuple[Store, ...]:
        """Drop expired windows from several stores. A session may have cells in more than one store."""
        if not others:
            return (self.without(h),)
        stores = [self.consolidated(), *(other.consolidated() for other in others)]
        tables = [store.table() for store in stores]
        every = concatenated(tables)
        order = every.order()
        level, keep = np.empty(len(every), np.int64), np.empty(len(every), np.bool_)
        level[order], keep[order] = self._known(every.only_meta(order), h)
        bounds = np.cumsum([len(some) for some in tables])[:-1]
        left = map(self._open, tables, repeat(h), np.split(level, bounds), np.split(keep, bounds))
        return tuple([store.of(()).beside(cells) for store, cells in zip(stores, left, strict=True)])

    def _known(self, table: Cells, h: int) -> tuple[Ints, Mask]:
        """Levels, raised for sessions that have expired (``last + gap < h``): no later row joins or bridges them. And
        which cells an open window needs."""
        plan, level = self.plan, table.level.copy()
        outside_whole = level // plan.levels * plan.levels
        for j, gap in enumerate(plan.session_gaps):
            found = chains(table, gap, level - outside_whole <= j)
            left = np.append(found.end + gap < h, False)[found.run]
            level[left] = outside_whole[left] + j + 1
        keep = self._live(table, h) | plan.in_session(level)
        if plan.wholes:  # with idle a row too late for whole() still shows that its key is alive
            keep |= plan.in_whole(level) | (plan.idle is not None)
        if plan.idle is not None:  # an instance of a key that has ended has ended for every window
            alive = plan.is_alive(level)
            keep = alive if plan.fill else keep & alive  # fill needs to know how far the instance goes on
        return level, keep

    def _open(self, table: Cells, h: int, level: Ints, keep: Mask) -> Cells:
        """The cells that are kept, at these levels. Slices that end by ``h`` move to edges that are live."""
        if not keep.all():
            table, level = table.take(keep), level[keep]
        moved = self._moved(table, h)
        if moved is None and (level == table.level).all():
            return table
        old, lanes, gaps = int(table.until(h)), self.plan.lanes, self.plan.gaps
        sizes = table.slice_sizes()  # slices of the copy below may become one
        table = table.with_meta(LEVEL, level)
        if moved is not None:
            table.meta[:, END] = np.repeat(moved, sizes)
        first = in_runs(table.take(slice(0, old)), lanes, gaps) if old else None
        others = fused(sorted_cells(table if first is None else table.take(slice(old, None))), lanes, gaps)
        return others if first is None else self._merged(first, others)


def store_for(plan: Plan, runs: tuple[Cells, ...] = (), coarse: int = 0) -> Store:
    """A store of the plan's cells."""
    return (Store if plan.cells.a_cell_a_key else SessionStore)(plan, runs, coarse)
