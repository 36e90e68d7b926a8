"""The slice store: sorted runs of cells, merged geometrically.

The store owns every live cell. It takes tables of cells, a horizon when windows have expired, and renumbered codes and
ranks. It gives one sorted table to answer windows from. A store is a value: each change returns a new store, so a
failed push leaves nothing to undo. Only its head is changed in place, by the last step of a push (:class:`Addition`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from slicing.cells.packed import Packed
from slicing.cells.ranked import ranks_used, reranked
from slicing.cells.table import Cells, fused, going_on, merged, sorted_cells
from slicing.cells.unread import Unread
from slicing.kernels.cells import CODE, END
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.storage.head import Head
from slicing.storage.open_sessions import of_codes
from slicing.storage.slot_head import SlotHead, edge_after
from slicing.storage.totals import Report
from slicing.storage.window_head import WindowHead
from slicing.system.arrays import MOST, Ints, Mask
from slicing.system.replace import but
from slicing.windows.bounds import BEGIN

FEW_PIECES = 4  # fewer sorted pieces are merged, which is faster than sorting: 20 k cells and 10 k 1.9 -> 0.9 ms


def spread(ends: Ints, starts: Ints) -> Ints:
    """The ends of slices for their cells; a single one for the cells of one slice. ``starts`` has one number more."""
    return ends if ends.size == 1 else np.repeat(ends, np.diff(starts))


@dataclass(eq=False)
class Store:
    """The cells of slices, in runs."""

    plan: Plan
    runs: tuple[Cells, ...] = ()
    coarse: int = 0  # the number of slices when old slices were fused last
    head: Head | None = None  # dense cells in addition to the runs

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def held(self, coming: Mask | None = None) -> tuple[int, int, int]:
        """The number of slices, cells and bytes. ``coming``: the slots in which the head will have rows."""
        cells = size = 0
        for run in self.runs:
            run_cells, run_size = run.sizes()
            cells, size = cells + run_cells, size + run_size
        if len(self.runs) != 1:
            slices = self.slices()
        else:
            slices = cells if self.plan.a_cell_a_slice else self.runs[0].slice_ends.size
        if self.head is not None:
            slices += self.head.slices_beside(self.runs, coming)
            cells, size = cells + self.head.used, size + self.head.nbytes
        return slices, cells, size

    def of(self, runs: tuple[Cells, ...]) -> Store:
        """A store with these runs and no head."""
        return type(self)(self.plan, runs, self.coarse)

    @property
    def nbytes(self) -> int:
        return sum(run.sizes()[1] for run in self.runs)

    @property
    def values(self) -> int:
        """About the largest number of a column's values that cells can hold: one a cell, or one an item of its
        lists."""
        return sum(run.weight for run in self.runs)

    def slices(self) -> int:
        """How many slices hold cells."""
        return sum(run.slices_beside(self.runs[:i]) for i, run in enumerate(self.runs))

    def prepare(self, rows: Rows, horizon: int) -> Addition | None:
        """Prepare to add rows to the head, or to a new head, in a push that closes nothing. None if neither pays. A
        head pays for few rows compared with the keys, none of them late."""
        store = self.with_head(rows, horizon)
        return None if store is None or store.head is None else Addition(store, *store.head.prepare(rows))

    def with_head(self, rows: Rows, horizon: int) -> Store | None:
        """The store with a head of slots that takes the rows."""
        policy = self.plan.policy
        if len(rows) > (policy.head_rows if rows.threads == 1 else policy.head_shared) * rows.codes:
            return None
        if edge_after(self.plan, rows.span[0]) <= horizon:
            return None
        known = None if self.head is None else self.head.taking(rows)
        if known is not None:
            return but(self, head=known)
        store = self.whole().settled()
        head = SlotHead.begun(self.plan, store.runs, rows, horizon)
        return None if head is None else Store(store.plan, store._beside(head), store.coarse, head)

    def with_head_of_window(self, end: int, after: int, codes: int) -> Store | None:
        """The store with a head of the cells that the watermark ``after`` has passed, all of the window that ends at
        ``end``. None if no head pays."""
        older, newer = self.parted(after)
        if len(older) < self.plan.policy.head_filled * codes:
            return None
        head = WindowHead.of(self.plan, end, older.consolidated().table(), codes)
        return None if head is None else but(newer, head=head)

    def prepare_cells(self, cells: Cells, before: bool) -> tuple[Addition, list[Report]] | None:
        """Prepare to add cells to the existing head. Also return the head's totals for these keys, and with ``before``
        the old totals."""
        if any(np.isin(cells.slice_ends, run.slice_ends).any() for run in self.runs):
            return None  # keys have cells there too
        return self._prepared(cells, before)

    def prepare_slices(self, cells: Cells, reached: int, before: bool) -> tuple[Addition, list[Report]] | None:
        """Prepare to move slices that end by ``reached`` into the window's head. Later slices stay in runs."""
        older, newer = self.of(self.runs).going_on(cells).parted(reached)
        store = but(newer.settled(), head=self.head)
        passed = older.consolidated().table()
        return store._prepared(passed, before) if len(passed) else (Addition(store, None, _nothing), [])

    def _prepared(self, cells: Cells, before: bool) -> tuple[Addition, list[Report]] | None:
        prepared = None if self.head is None else self.head.prepare_cells(cells, before)
        return None if prepared is None else (Addition(self, prepared.slots, prepared.commit), prepared.reports)

    def _beside(self, head: SlotHead) -> tuple[Cells, ...]:
        """The runs that a new head does not take in: it takes those whose slices it all has, if it can."""
        near = next((i for i, run in enumerate(self.runs) if run.slice_ends[0] >= head.ends[0]), len(self.runs))
        older, newer = self.runs[:near], self.runs[near:]
        if not newer or not head.takes_cells:
            return self.runs
        run = reduce(self._merged, newer)
        return older if head.takes_in(run) else (*older, run)

    def whole(self) -> Store:
        """The store with the cells of its head as a run."""
        return self if self.head is None else self.beside(self.head.cells())

    def add(self, cells: Cells) -> Store:
        """Add a run of cells and settle the store."""
        return self.beside(cells).settled()

    def with_runs(self, runs: Iterable[Cells]) -> Store:
        """Add these runs, one after the other."""
        store = self
        for run in runs:
            store = store.add(run)
        return store

    def beside(self, cells: Cells) -> Store:
        """Add a run of cells as it is."""
        return self.of((*self.runs, cells)) if len(cells) else self

    def with_older_runs(self, of: Store) -> Store:
        """This store with the runs of another store inserted before its newest run, and settled throughout: those of
        both stores may have lost cells."""
        runs = list[Cells]()
        for run in (*self.runs[:-1], *of.runs, *self.runs[-1:]):
            self._settle(runs, run)
        return but(self, runs=tuple(runs))

    def going_on(self, fresh: Cells) -> Store:
        """Add ``fresh`` cells. They may be changed in place, so nobody else may hold them."""
        older = self.runs
        if not len(fresh.meta):
            return self
        both, plan = None, self.plan
        if older:  # tables of other types may have to unpack their words for this
            if len(older[-1].meta if type(older[-1]) is Cells else older[-1]) == 1:
                both = going_on(older[-1], fresh, plan.lanes, plan.gaps, plan.may_be_windows)
            else:
                both = older[-1].taken_up(fresh, plan.lanes)
        runs = (*older, fresh) if both is None else (*older[:-1], both)
        return type(self)(plan, runs, self.coarse)

    def settled(self) -> Store:
        """Merge runs of similar size, so that there are few runs and each cell moves rarely."""
        if len(self.runs) < 2 or self.runs[-2].weight >= 2 * self.runs[-1].weight:
            return self
        runs = list(self.runs[:-1])
        self._settle(runs, self.runs[-1])
        return self.of(tuple(runs))

    def _settle(self, runs: list[Cells], newest: Cells) -> None:
        """Add a run, merged with the runs before it that are not twice as large."""
        largest = self.plan.policy.tree_largest if self.plan.eager else MOST
        while runs and runs[-1].weight < min(2 * newest.weight, largest):
            newest = self._merged(runs.pop(), newest)
        runs.append(newest)

    def at_rest(self, coming: int, rows: int) -> Store:
        """Pack runs that the next pushes will not merge, and wide cells if that is cheap beside a push.

        Each push brings about ``coming`` cells of ``rows`` rows. Narrow cells are also packed if otherwise too many
        would not be, unless each push reads them all for panes.
        """
        policy = self.plan.policy
        wide = self.plan.partials.cell_words >= policy.packed_words  # these runs are unpacked again at each use
        share = inf if self.plan.early.paned else policy.packed_share
        runs, packed, other = list[Cells](), 0, 0
        for run in self.runs:
            size = len(run)
            if isinstance(run, Packed):
                run = run.rested()
            elif not (isinstance(run, Unread) and run.unread):
                few = size <= policy.packed_free + rows // policy.packed_rows
                cheap = few if wide else other + size > share * max(packed, 1)
                fewest = policy.packed_cells if cheap else max(policy.packed_cells, policy.packed_pushes[wide] * coming)
                if size >= fewest and size >= policy.packed_slice * run.slice_ends.size:
                    run = Packed.of(run, self.plan.lanes, wide)
            if isinstance(run, Packed):
                packed += size
            else:
                other += size
            runs.append(run)
        return but(self, runs=tuple(runs))

    def consolidated(self) -> Store:
        """Merge all runs into one."""
        if len(self.runs) <= 1:
            return self
        runs = self.runs
        while len(runs) > 1:  # in pairs: there may be many large runs
            pairs = [self._merged(runs[at], runs[at + 1]) for at in range(0, len(runs) - 1, 2)]
            runs = (*pairs, *runs[2 * len(pairs) :])
        return self.of(runs)

    def table(self) -> Cells:
        """All cells of a consolidated store."""
        assert len(self.runs) <= 1
        return self.runs[0] if self.runs else self.plan.no_cells

    def of_codes(self, codes: Ints) -> Store:
        """The cells of these codes, which ascend."""
        return but(self, runs=tuple(of_codes(run, codes) for run in self.runs))

    def _merged(self, older: Cells, newer: Cells) -> Cells:
        return merged(older, newer, self.plan.lanes, self.plan.gaps)

    def parted(self, time: int) -> tuple[Store, Store]:
        """The slices that end by ``time``, and the later ones."""
        older, newer = list[Cells](), list[Cells]()
        for run in self.runs:
            at = int(run.until(time))
            if at:
                older.append(run if at == len(run) else run.ending(BEGIN, time))
            if at < len(run):
                newer.append(run if not at else run.take(slice(at, None)))
        return but(self, runs=tuple(older)), but(self, runs=tuple(newer))

    def without(self, h: int) -> Store:
        """Drop windows that end by ``h``: they have expired. Cells that no open window needs are dropped, and slices
        whose edges are no longer live are fused."""
        dead = self.plan.edges.held_from(h)  # slices that end by this time are dropped: a prefix of each run
        kept = []
        for run in self.runs:
            part = run.since(dead)
            if part is not None:
                kept.append(part)
        left = Store(self.plan, tuple(kept), self.coarse)
        if not self.plan.edges.coarsens or sum([run.weight for run in left.runs]) <= self.plan.policy.fused_cells:
            return left
        # fusing reads all slices, so it waits until their number has grown by half (1000 tumbling windows of random
        # sizes, 1600 slices and 158 more a push: 120 -> 25 us a push)
        if 2 * left._slices_at_most() <= 3 * self.coarse:
            return left
        return left._fused(left._left(run, h, all_live=dead > BEGIN) for run in left.runs)

    def without_beside(self, others: Sequence[Store], h: int) -> tuple[Store, ...]:
        """As :meth:`without`, for this store and others. Each store keeps its own cells."""
        return tuple([store.without(h) for store in (self, *others)])

    def _slices_at_most(self) -> int:
        return sum(run.slice_ends.size for run in self.runs)

    def _fused(self, runs: Iterable[Cells]) -> Store:
        """A store of runs whose old slices are fused."""
        fused = self.of(tuple([run for run in runs if len(run)]))
        return but(fused, coarse=fused._slices_at_most()) if self.plan.edges.coarsens else fused

    def _left(self, table: Cells, h: int, all_live: bool) -> Cells:
        """A run without the windows that end by ``h``. ``all_live``: an open window needs each cell."""
        keep = None if all_live else self._live(table, h)
        table = table if keep is None or keep.all() else table.take(keep)
        moved = self._moved(table, h)
        if moved is None:
            return table
        new = np.append(True, moved[1:] != moved[:-1])
        first, moved = table.slice_ends[new], moved[new]  # slices that become one: the first one's end, and the new end
        left = self._joined(table, first[np.cumsum(new) - 1])
        if (first == moved).all():
            return left
        end = spread(moved, left.slice_bounds())
        if left is table:
            return table.with_meta(END, end)
        left.meta[:, END], left.ends = end, moved
        return left

    def _joined(self, table: Cells, ends: Ints) -> Cells:
        """The table with slices that end at ``ends`` instead, in order: where they are equal, slices become one. The
        table itself, if none are."""
        cuts = (ends[1:] == ends[:-1]).nonzero()[0] + 1
        if not cuts.size:
            return table
        starts = table.slice_bounds()
        if cuts.size >= FEW_PIECES:
            return fused(sorted_cells(table.with_meta(END, spread(ends, starts))), self.plan.lanes, self.plan.gaps)
        pieces = []
        for low, high in pairwise([0, *cuts.tolist(), ends.size]):
            piece = table.take(slice(starts[low], starts[high]))
            if (ends[low:high] != table.slice_ends[low:high]).any():
                piece = piece.with_meta(END, spread(ends[low:high], starts[low : high + 1]))
            piece.ends, piece.starts = ends[low:high], starts[low:high] - starts[low]
            pieces.append(piece)
        return reduce(self._merged, pieces)

    def _live(self, table: Cells, h: int) -> Mask:
        """The cells of slices that an open window needs."""
        ends = table.slice_ends
        live = self.plan.edges.lives(ends, h) if self.plan.bounds else np.zeros(ends.size, np.bool_)
        return np.repeat(live, table.slice_sizes())

    def _moved(self, table: Cells, h: int) -> Ints | None:
        """The ends of slices, where those that end by ``h`` end at the next edge that is live. None if none moves."""
        ends = table.slice_ends
        moved, old = ends.copy(), slice(0, int(ends.searchsorted(h, "right")))
        moved[old] = self.plan.edges.next_live(ends[old] - 1, h)
        return None if (moved == ends).all() else moved

    def recoded(self, code: Ints) -> Store:
        """Renumber codes: ``code[old]`` is the new code."""
        found = [(run, sorted_cells(run.with_meta(CODE, code[run.code]))) for run in self.runs]
        return but(self, runs=tuple(old.like(new) if isinstance(old, Packed) else new for old, new in found))

    def reranked(self, column: str, rank: Ints) -> Store:
        """Renumber the ranks of a column's values (order kept): ``rank[old]`` is the new rank."""
        return but(self, runs=tuple(reranked(self.plan.lanes, r, column, rank, self.plan.arrival) for r in self.runs))

    def ranks_used(self, column: str, size: int) -> Ints:
        """The ranks of a column's values that occur in any cell."""
        return ranks_used(self.plan.lanes, self.runs, column, size)


class Addition(NamedTuple):
    """Rows that are prepared to go into the head."""

    store: Store
    slots: Mask | None  # the slots of the head that will have rows; None: those that have rows already
    commit: Callable[[], int]  # adds the rows in place, which cannot fail; returns how many cells are new


def _nothing() -> int:
    return 0
