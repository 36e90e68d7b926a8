"""Kept rows where a window may ask for those of every key at once: of the whole stream, by arrival, or of quiet keys.

Runs of rows merged geometrically, what outlives them, and all of them shown to the windows at each step (where each
key's windows go by the time of its rows, ``slicing.kept_rows.by_key`` does less). Values throughout: each change
returns a new store, so a failed push costs nothing to undo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slicing.batch import Rows
from slicing.kernels.cells import CODE
from slicing.plan import Plan
from slicing.reduce import lift_rows
from slicing.slices.blocks import Lists
from slicing.store import ranks_used, reranked
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.row_view import (
    ARRIVAL,
    FACTS,
    FLAGS,
    OF_ALL,
    OF_KEY,
    PLACE,
    SEQUENCE,
    SINCE,
    UNPLACED,
    WITNESS,
    BoundRows,
    Context,
    RowTable,
    View,
)
from slicing.windows.users import BoundContextAware

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


Contexts = Mapping[int, Mapping[int, Context]]


def _no_counts() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class RowStore:
    """The kept rows of an operator, and what outlives them."""

    plan: Plan
    runs: tuple[RowTable, ...] = ()
    gone: Ints = field(default_factory=_no_counts)  # by code: rows let go
    of_key: Ints = field(default_factory=_no_counts)  # by code: rows that arrived
    arrived: int = 0
    placed: int = 0
    settled: int = BEGIN  # rows before this time are final
    contexts: Contexts = field(default_factory=dict)  # of users' windows

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs) + self.gone.nbytes + self.of_key.nbytes

    @property
    def values(self) -> int:
        """How many values of a column there may be at most, roughly."""
        blocks = [block for run in self.runs for block in run.cells.blocks if isinstance(block, Lists)]
        return len(self) + sum(block.size for block in blocks)

    def add(self, rows: Rows, late: bool = False) -> RowStore:
        """One more run of a batch's rows; ``late`` ones are witnesses."""
        if not len(rows):
            return self
        cells = lift_rows(rows)
        facts = np.zeros((len(rows), len(FACTS)), np.int64)
        facts[:, SEQUENCE], facts[:, ARRIVAL] = rows.sequence(), rows.arrivals()
        facts[:, FLAGS] = WITNESS if late else 0
        for bit, name in enumerate(self.plan.row_flags):
            facts[:, FLAGS] |= rows.flag(name).astype(np.int64) << bit
        facts[:, OF_ALL] = self.arrived + np.arange(len(rows))
        facts[:, PLACE], facts[:, SINCE] = UNPLACED, rows.time
        of_key = self.of_key
        if self.plan.counts_arrivals:
            of_key = _grown(of_key, max(rows.codes, 1))
            facts[:, OF_KEY] = of_key[cells.code] + _occurrence(cells.code)
            of_key += np.bincount(cells.code, minlength=of_key.size)
        table = RowTable(cells, facts, tuple(rows.seen(name) for name in self.plan.row_values))
        if rows.code is not None or not rows.span[2] or self.plan.spec.sequence is not None:
            table = table.sorted()
        return self._with(table, 0 if late else len(rows), of_key)

    def _with(self, table: RowTable, arrived: int, of_key: Ints | None = None) -> RowStore:
        runs = [*self.runs, table]
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            newer, older = runs.pop(), runs.pop()
            runs.append(older.merged(newer))
        of_key = self.of_key if of_key is None else of_key
        return replace(self, runs=tuple(runs), of_key=of_key, arrived=self.arrived + arrived)

    def consolidated(self) -> RowStore:
        runs = list(self.runs)
        while len(runs) > 1:
            newer, older = runs.pop(), runs.pop()
            runs.append(older.merged(newer))
        return replace(self, runs=tuple(runs))

    def table(self) -> RowTable:
        assert len(self.runs) <= 1
        return self.runs[0] if self.runs else RowTable.empty(self.plan.lanes, len(self.plan.row_values))

    def view(self, until: int, flush: bool) -> View:
        """The rows of a consolidated store by group; groups are over that end before ``until`` and ``idle``."""
        table, idle = self.table(), self.plan.idle
        code, time = table.code, table.time
        begins = np.append(True, code[1:] != code[:-1])[: code.size]
        if idle is not None:
            begins[1:] |= time[1:] - time[:-1] > idle
        first = np.flatnonzero(begins)
        bounds = np.append(first, code.size)
        over = np.full(first.size, flush)
        if idle is not None and first.size:
            over |= time[bounds[1:] - 1] + idle < until
        gone = _grown(self.gone, int(code.max(initial=0)) + 1)[code[first]]
        first_of_key = np.append(True, code[first][1:] != code[first][:-1])[: first.size]
        of_key = _grown(self.of_key, int(code.max(initial=0)) + 1)[code[first]]
        base, counts = np.where(first_of_key, gone, 0), (self.arrived, self.placed)
        return View(table, bounds, base, over, of_key, *counts, self.settled, self.contexts)

    def released(self, view: View, h: int) -> RowStore:
        """Without the rows that no window needs any more, which closes at ``h`` or later."""
        table = view.rows
        if not len(table):
            return self
        witness = (table.facts[:, FLAGS] & WITNESS) != 0
        cut = view.before(h)
        real, where = _without(view, witness)
        for window in self.plan.row_windows:
            mine, there = (real, where) if window.origin == BEGIN else seen_since(window, view)
            needed = window.needs(mine, h)
            np.minimum.at(cut, there.group, there.at(needed))
        if self.plan.idle is not None:  # its last row tells until when a group goes on
            cut = np.minimum(cut, view.last - 1)
        cut = np.where(view.over, view.last, cut)
        keep = np.arange(len(table)) >= cut[view.group]
        gone = self.gone
        if self.plan.counts_rows:
            code = table.code[view.first]
            gone = _grown(gone, int(code.max()) + 1)
            away = ~keep & ~witness
            dropped = np.bincount(view.group[away], table.cells.rows[away], cut.size).astype(np.int64)
            gone[code] = 0
            # a key may have two groups that go on, of which the later one has let nothing go
            np.add.at(gone, code[~view.over], (view.base + dropped)[~view.over])
        contexts = dict(self.contexts)
        for window in self.plan.row_windows:
            mine, there = (real, where) if window.origin == BEGIN else seen_since(window, view)
            if isinstance(window, BoundContextAware):
                contexts[window.number] = window.contexts(mine, h)
            elif window.notes:
                left = np.bincount(mine.group, mine.rows.cells.rows * ~keep[there.rows], mine.first.size)
                noted = window.note(mine, mine.before(h) - mine.first, left.astype(np.int64))
                contexts[window.number] = _noted(mine, noted, contexts.get(window.number, {}))
        placed = self.placed
        if self.plan.places_rows:
            settled = (real.time < h) & (real.fact(PLACE) == UNPLACED)
            facts = table.facts.copy()
            at = where.rows[settled]
            facts[at, PLACE] = real.place[settled]
            placed += at.size
            table = replace(table, facts=facts)
        if not keep.all():
            table = table.take(keep)
        runs = (table,) if len(table) else ()
        return replace(self, runs=runs, gone=gone, placed=placed, settled=max(self.settled, h), contexts=contexts)

    def uses(self, codes: int) -> Mask:
        """Which codes of keys are still needed."""
        used = np.zeros(codes, np.bool_)
        for run in self.runs:
            used[run.code] = True
        for count in (self.gone, self.of_key):
            used[: count.size] |= count != 0
        for known in self.contexts.values():
            used[list(known)] = True
        return used

    def recoded(self, code: Ints) -> RowStore:
        """Codes renumbered: ``code[old]`` is the new one, -1 for one that is not used any more."""

        def moved(count: Ints) -> Ints:
            new = code[: count.size]
            out = np.zeros(int(new.max(initial=-1)) + 1, np.int64)
            out[new[new >= 0]] = count[new >= 0]
            return out

        runs = []
        for run in self.runs:
            cells = run.cells.with_meta(CODE, code[run.code])
            runs.append(replace(run, cells=cells).sorted())
        contexts = {n: {int(code[c]): known for c, known in of.items()} for n, of in self.contexts.items()}
        counts = moved(self.gone), moved(self.of_key)
        return replace(self, runs=tuple(runs), gone=counts[0], of_key=counts[1], contexts=contexts)

    def chosen(self, code: Ints) -> RowStore:
        """Of some keys alone: ``code[old]`` is the new one, -1 for one that goes."""
        runs = tuple(run.take(code[run.code] >= 0) for run in self.runs)
        contexts = {n: {c: known for c, known in of.items() if code[c] >= 0} for n, of in self.contexts.items()}
        return replace(self, runs=tuple(run for run in runs if len(run)), contexts=contexts).recoded(code)

    def reranked(self, column: str, rank: Ints) -> RowStore:
        """Ranks of a column's values renumbered, as in the slice store."""

        runs = (replace(run, cells=reranked(self.plan, run.cells, column, rank)) for run in self.runs)
        return replace(self, runs=tuple(runs))

    def ranks_used(self, column: str, size: int) -> Ints:
        """The ranks of a column's values that a row holds."""
        return ranks_used(self.plan, [run.cells for run in self.runs], column, size)

    def beside(self, other: RowStore) -> RowStore:
        """With the rows of other keys, in the same codes and ranks."""
        size = max(self.gone.size, other.gone.size), max(self.of_key.size, other.of_key.size)
        numbers = self.contexts.keys() | other.contexts.keys()
        contexts = {n: {**self.contexts.get(n, {}), **other.contexts.get(n, {})} for n in sorted(numbers)}
        whole = replace(
            self,
            gone=_grown(self.gone, size[0]) + _grown(other.gone, size[0]),
            of_key=_grown(self.of_key, size[1]) + _grown(other.of_key, size[1]),
            arrived=max(self.arrived, other.arrived),
            placed=max(self.placed, other.placed),
            settled=max(self.settled, other.settled),
            contexts=contexts,
        )
        for run in other.runs:
            whole = whole._with(run, 0)
        return whole

    def look(self, until: int, flush: bool, also: View | None = None) -> Look | None:
        """The rows that windows are shown; None where there are none."""
        if not self.runs:
            return None
        store = self.consolidated()
        whole = store.view(until, flush)
        return Look(store, whole, _without(whole, (whole.rows.facts[:, FLAGS] & WITNESS) != 0)[0])


@dataclass(frozen=True)
class Look:
    """The rows that windows are shown, and what is to be kept of them."""

    store: RowStore
    whole: View
    view: View

    def seen_by(self, window: BoundRows) -> View:
        return self.view if window.origin == BEGIN else seen_since(window, self.whole)[0]

    def let_go(self, h: int) -> RowStore:
        """The store without the rows that no window needs any more, which closes at ``h`` or later."""
        return self.store.released(self.whole, h)


class _Real(NamedTuple):
    """Where the rows and groups of a view without witnesses are in the whole one."""

    rows: Ints
    group: Ints
    end: Ints

    def at(self, positions: Ints) -> Ints:
        """Positions, one a group; what lies behind a group's last row lies behind all of its witnesses."""
        inside = positions < self.end
        whole = np.full(positions.size, FOREVER)
        whole[inside] = self.rows[positions[inside]]
        return whole


def _without(view: View, witness: Mask) -> tuple[View, _Real]:
    if not witness.any():
        rows, groups = np.arange(len(view.rows)), np.arange(view.first.size)
        return view, _Real(rows, groups, view.last)
    rows = np.flatnonzero(~witness)
    group = view.group[rows]
    begins = np.append(True, group[1:] != group[:-1])[: group.size]
    first = np.flatnonzero(begins)
    groups = group[first]
    bounds = np.append(first, rows.size)
    real = replace(
        view,
        rows=view.rows.take(rows),
        bounds=bounds,
        base=view.base[groups],
        over=view.over[groups],
        of_key=view.of_key[groups],
    )
    return real, _Real(rows, groups, bounds[1:])


def seen_since(window: BoundRows, view: View) -> tuple[View, _Real]:
    """The rows that a window sees which was added while the stream ran, with what it has noted of those let go."""
    mine, where = _without(view, ((view.rows.facts[:, FLAGS] & WITNESS) != 0) | (view.time < window.origin))
    if not window.notes:
        return mine, where
    code, known = mine.rows.code[mine.first], view.contexts.get(window.number, {})
    noted = np.zeros(code.size, np.int64)
    begins = np.append(True, code[1:] != code[:-1])[: code.size]
    if known:
        codes, found = np.array([*known]), np.array([int(context.value) for context in known.values()])
        order = np.argsort(codes)
        place = np.minimum(np.searchsorted(codes[order], code), codes.size - 1)
        there = begins & (codes[order][place] == code)
        noted[there] = found[order][place[there]]
    return replace(mine, base=noted, noted=noted), where


def _noted(view: View, noted: Ints, before: Mapping[int, Context]) -> dict[int, Context]:
    """What is noted of each key: of several groups that of the first one that goes on."""
    code = view.rows.code[view.first]
    here, going = set(code.tolist()), np.flatnonzero(~view.over)
    codes, first = np.unique(code[going], return_index=True)
    found = {c: known for c, known in before.items() if c not in here}
    pairs = zip(codes.tolist(), noted[going[first]].tolist(), strict=True)
    return found | {c: Context(note, ()) for c, note in pairs if note}


def _grown(count: Ints, size: int) -> Ints:
    """A copy with room for ``size`` codes."""
    return np.append(count, np.zeros(max(size - count.size, 0), np.int64))


def _occurrence(code: Ints) -> Ints:
    """How many rows before have the same code."""
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: code.size])
    out = np.empty(code.size, np.int64)
    out[order] = np.arange(code.size) - np.repeat(begins, np.diff(np.append(begins, code.size)))
    return out
