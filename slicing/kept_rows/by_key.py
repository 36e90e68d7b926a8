"""Kept rows where each key's windows go by the time of its rows: a push looks only at keys whose rows became final.

Rows wait as they came (``slicing.kept_rows.waiting``) until the watermark has passed them. Then they are put by key,
are lifted into cells, and stand behind what their keys have left of earlier ones (``slicing.kept_rows.final``): that
and nothing more is shown to the windows. So a push costs its rows and those that become final, not those that are
kept. Answers that may still be revised are given before: their rows are shown, and wait on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.batch import Rows
from slicing.columns.order import stable_order
from slicing.columns.row_values import values_of
from slicing.kept_rows import waiting
from slicing.kept_rows.final import FinalRows, Run, by_code, fused
from slicing.kept_rows.plain import PlainRows
from slicing.kept_rows.store import RowStore
from slicing.kernels.rows import buckets
from slicing.plan import Plan
from slicing.reduce import lift_ranges
from slicing.store import ranks_used, reranked
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.row_view import (
    ARRIVAL,
    FACTS,
    FLAGS,
    PLACE,
    RANK,
    SINCE,
    UNPLACED,
    BoundRows,
    RowTable,
    View,
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class KeyRows:
    plan: Plan
    waiting: tuple[Rows, ...] = ()
    final: FinalRows = field(default_factory=FinalRows)

    def __len__(self) -> int:
        return sum(map(len, self.waiting)) + len(self.final)

    @property
    def nbytes(self) -> int:
        return self.final.nbytes + waiting.nbytes(self.waiting)

    @property
    def values(self) -> int:
        """How many values of a column there may be at most, roughly."""
        return sum(run.weight for run in self.final.runs) + sum(map(len, self.waiting))

    def add(self, rows: Rows, late: bool = False) -> KeyRows:
        """One more run of a batch's rows."""
        return replace(self, waiting=waiting.added(self.waiting, rows)) if len(rows) and not late else self

    def look(self, until: int, flush: bool, also: View | None = None) -> KeyLook | None:
        """What windows that close before ``until`` may hold, of the keys that have any (and those that ``also`` has);
        None where none has."""
        plan, final = self.plan, self.final
        runs, rest = waiting.taken(self.waiting, until)
        codes: Ints | None = None
        fresh = list[Run]()
        final = final.known(max((run.codes for run in runs), default=0))
        if runs:
            fresh = self._lifted(runs, final.ranked)
            codes = fresh[0].codes[fresh[0].groups()[:-1]].astype(np.int64)
        if final.wakes.size and any(w.wakes for w in plan.row_windows):
            awake = np.flatnonzero(final.wakes < until)
            codes = awake if codes is None else np.union1d(codes, awake)
        if also is not None:
            more = also.rows.code[also.first]
            codes = more if codes is None else np.union1d(codes, more)
            final = final.known(int(codes[-1]) + 1)
        if codes is None and not flush:
            return None
        older = [] if not len(final) else final.of(None if flush or not plan.spec.by else codes)
        if not fresh and not older:
            return None
        parts = [*older, *fresh]
        table = by_code(parts, parts[0])
        bounds = table.groups()
        code = table.codes[bounds[:-1]]
        over, none = np.full(code.size, flush), np.zeros(code.size, np.int64)
        view = View(table, bounds, final.gone[code], over, none, 0, 0, BEGIN, {})
        return KeyLook(replace(self, final=final), view, table.ranked(bounds, final.ranked[code]), until, rest)

    def _lifted(self, runs: list[Rows], ranked: Ints) -> list[Run]:
        """Rows by key, as cells where several become one."""
        if not waiting.in_turn(runs):
            runs = [waiting.in_order(waiting.joined(runs))]
        if runs[0].code is not None:
            rows = waiting.joined(runs)
            code = rows.code
            assert code is not None
            rows = rows.take(stable_order(code))
            return [self._cells(rows, ranked) if self.plan.fuses else PlainRows.of(rows, ranked)]
        if self.plan.fuses and not self.plan.bucket:  # rows alike in time must lie together
            runs = [waiting.joined(runs)]
        found, known = list[Run](), int(ranked[0])
        for rows in runs:  # one after the other, as they lie
            found.append(self._cells(rows, np.array([known])) if self.plan.fuses else PlainRows(rows, known))
            known += len(rows)
        return found

    def _cells(self, rows: Rows, ranked: Ints) -> RowTable:
        """Rows sorted by key as cells that no window splits; ``ranked``: how many their keys had before."""
        if self.plan.bucket:
            first, rank = self._buckets(rows, ranked)
            flags = np.zeros(first.size, np.int64)
        else:
            plain = PlainRows(rows, int(ranked[0])) if rows.code is None else PlainRows.of(rows, ranked)
            (window,) = self.plan.row_windows
            first, flags = window.cells(plain.groups(), rows.time, plain.flagged)
            rank = plain.rank + first if isinstance(plain.rank, int) else plain.rank[first]
        cells = lift_ranges(rows, first, np.append(first[1:], len(rows)))
        facts = np.zeros((first.size, len(FACTS)), np.int64)
        facts[:, ARRIVAL] = first + rows.arrival if isinstance(rows.arrival, int) else rows.arrival[first]
        facts[:, SINCE], facts[:, PLACE], facts[:, RANK], facts[:, FLAGS] = rows.time[first], UNPLACED, rank, flags
        return RowTable(cells, facts)

    def _buckets(self, rows: Rows, ranked: Ints) -> tuple[Ints, Ints]:
        size, known = self.plan.bucket, int(ranked[0])
        if rows.code is None:
            first = np.append(0, np.arange(size - known % size, len(rows), size))
            return first, known + first
        first, rank = np.empty((2, len(rows)), np.int64)
        n = buckets(rows.code, ranked, np.int64(size), first, rank)
        return first[:n].copy(), rank[:n].copy()

    def uses(self, codes: int) -> Mask:
        """Which codes of keys are still needed."""
        used = np.zeros(codes, np.bool_)
        for run in self.waiting:
            if run.code is not None:
                used[run.code] = True
        self.final.uses(used, self.plan.counts_rows)
        return used

    def recoded(self, code: Ints) -> KeyRows:
        """Codes renumbered: ``code[old]`` is the new one, -1 for one that is not used any more."""
        return replace(self, waiting=waiting.recoded(self.waiting, code), final=self.final.recoded(code))

    def chosen(self, code: Ints) -> KeyRows:
        """Of some keys alone: ``code[old]`` is the new one, -1 for one that goes."""
        return self.recoded(code)

    def beside(self, other: KeyRows) -> KeyRows:
        """With the rows of other keys, in the same codes and ranks."""
        runs = self.waiting
        for rows in other.waiting:
            runs = waiting.added(runs, rows)
        return replace(self, waiting=runs, final=self.final.beside(other.final))

    def reranked(self, column: str, rank: Ints) -> KeyRows:
        """Ranks of a column's values renumbered, as in the slice store."""
        runs = (
            run.reranked(column, rank)
            if isinstance(run, PlainRows)
            else replace(run, cells=reranked(self.plan, run.cells, column, rank))
            for run in self.final.runs
        )
        final = replace(self.final, runs=tuple(runs))
        return replace(self, waiting=waiting.reranked(self.waiting, column, rank), final=final)

    def replanned(self, plan: Plan, final: FinalRows) -> KeyRows | RowStore:
        """The same rows (``final``: those that are) for a plan with a window more or less."""
        wakes = np.where(final.gone < final.ranked, BEGIN, FOREVER)  # a new window has a look at what there is
        rows = KeyRows(plan, waiting.replanned(self.waiting, plan), replace(final, wakes=wakes))
        if plan.by_key:
            return rows
        look = rows.look(FOREVER, True)
        gone = final.gone if plan.counts_rows else np.empty(0, np.int64)
        if look is None:
            return RowStore(plan, (), gone)
        table = look.view.rows
        table = table.as_cells() if isinstance(table, PlainRows) else table
        unseen = (values_of(pa.nulls(len(table), plan.types[name]), form) for name, form in plan.row_values.items())
        return RowStore(plan, (replace(table, values=tuple(unseen)),), gone)

    def ranks_used(self, column: str, size: int) -> Ints:
        """The ranks of a column's values that a row holds."""
        used = np.zeros(size, np.bool_)
        cells = [run.cells for run in self.final.runs if isinstance(run, RowTable)]
        used[ranks_used(self.plan, cells, column, size)] = True
        for run in (*self.waiting, *(run.rows for run in self.final.runs if isinstance(run, PlainRows))):
            used[run.ranks[column] if size else slice(0)] = True
        return np.flatnonzero(used)


@dataclass(frozen=True)
class KeyLook:
    """The rows that windows are shown, and what is to be kept of them."""

    store: KeyRows
    view: View
    fresh: Ints  # for each group the position of its first row that has been waiting
    until: int
    rest: tuple[Rows, ...]

    def seen_by(self, window: BoundRows) -> View:
        return self.view

    def let_go(self, h: int) -> KeyRows:
        """The store without the rows that no window needs any more, which closes at ``h`` or later."""
        store, view, final = self.store, self.view, self.store.final
        plan, table = store.plan, view.rows
        settled = view.last if self.until <= h else view.before(h)
        cut = settled
        for window in plan.row_windows:
            cut = np.minimum(cut, window.needs(view, h))
        code, origin = table.code[view.first], view.base - table.counted(view.first)
        gone, ranked = final.gone.copy(), final.ranked.copy()
        gone[code], ranked[code] = table.counted(cut) + origin, table.counted(settled) + origin
        wakes = final.wakes
        if any(w.wakes for w in plan.row_windows):
            wakes = wakes.copy()
            wakes[code] = np.minimum.reduce([w.wake(view, self.until, h) for w in plan.row_windows if w.wakes])
        rest = self.rest if self.until <= h else waiting.taken(store.waiting, h)[1]
        final = replace(final, gone=gone, ranked=ranked, wakes=wakes)
        left = np.maximum(cut, self.fresh)
        added = np.maximum(settled - left, 0)
        alive = final.alive - int(np.minimum(cut, self.fresh).sum() - view.first.sum()) + int(added.sum())
        if added.size == 1:
            new = table.take(slice(int(left[0]), int(left[0] + added[0])))
        else:
            new = table.take(np.repeat(left - np.cumsum(added) + added, added) + np.arange(added.sum()))
        fuse = partial(fused, plan) if plan.fuses else None
        return replace(store, waiting=rest, final=final.after(new, alive, fuse))
