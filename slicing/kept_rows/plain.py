"""Final rows as the columns they came in, sorted by key. Nothing is computed from them until a window needs it.

This is to rows what ``RowTable`` is to cells: 16 bytes per row with one value instead of 130, and no pass over all
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slicing.columns.arrow_out import room
from slicing.columns.order import begins, is_sorted, stable_order
from slicing.columns.row_values import Values
from slicing.kept_rows import waiting
from slicing.kernels.rows import number_in_groups
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import lift_rows
from slicing.system.arrays import Codes, Ints, Mask
from slicing.system.lazy import lazy
from slicing.system.replace import but
from slicing.windows.rows.row_table import (
    ARRIVAL,
    BEGINS,
    FACTS,
    FLAGS,
    OF_ALL,
    OF_KEY,
    PLACE,
    RANK,
    SEQUENCE,
    SINCE,
    RowTable,
    ShownRows,
)


@dataclass(frozen=True)
class PlainRows(ShownRows):
    """Rows, with their ranks among the rows of their key. ``rank``: how many rows of its key came before each row.
    Without keys: how many came before the first row."""

    one_each: ClassVar[bool] = True
    rows: Rows
    rank: int | Ints

    @staticmethod
    def of(rows: Rows, ranked: Ints) -> PlainRows:
        """Rows sorted by key. ``ranked``: how many rows each key had before."""
        assert rows.code is not None
        bounds, rank = groups_of(rows), room(len(rows))
        number_in_groups(bounds, ranked[rows.code[bounds[:-1]]], rank)
        made = PlainRows(rows, rank)
        made.__dict__["_groups"] = bounds
        return made

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def time(self) -> Ints:
        return self.rows.time

    @property
    def code(self) -> Codes | Ints:
        return self.rows.each_code()

    codes = code

    @property
    def of_one_key(self) -> bool:
        return isinstance(self.rank, int)

    @property
    def nbytes(self) -> int:
        return waiting.nbytes([self.rows]) + (0 if isinstance(self.rank, int) else self.rank.nbytes)

    @property
    def weight(self) -> int:
        return len(self)

    def ranks(self) -> Ints:
        return self.rank + np.arange(len(self)) if isinstance(self.rank, int) else self.rank

    def fact(self, column: int) -> Ints:
        rows = self.rows
        if column == ARRIVAL:
            return rows.arrivals()
        if column == SINCE:
            return rows.time
        if column == SEQUENCE:
            return rows.sequence()
        if column == RANK:
            return self.ranks()
        if column in (OF_KEY, OF_ALL, PLACE):
            return rows.stamps[column]
        flags = np.zeros(len(self), np.int64)
        if column == FLAGS:
            for bit, (_, name) in enumerate(rows.plan.rows.flags):
                flags |= rows.flag(name).astype(np.int64) << bit
        return flags

    def flagged(self, flag: int) -> Mask:
        return self.rows.flag(self.rows.plan.rows.flags[flag][1])

    def groups(self) -> Ints:
        return self._groups

    @lazy
    def _groups(self) -> Ints:
        return groups_of(self.rows)

    def ranked(self, bounds: Ints, rank: Ints) -> Ints:
        """For each group the position of its first row of this rank or a later rank."""
        first = bounds[:-1]
        return np.clip(first + rank - self.rank_at(first), first, bounds[1:])

    def rank_at(self, positions: Ints) -> Ints:
        return self.rank + positions if isinstance(self.rank, int) else self.rank[positions]

    def counted(self, positions: Ints) -> Ints:
        return positions

    @property
    def sizes(self) -> Ints:
        return np.ones(len(self), np.int64)

    @lazy
    def values(self) -> tuple[Values, ...]:
        return tuple(self.rows.seen(name) for name in self.rows.plan.rows.values)

    def take(self, index: Ints | Mask | slice) -> PlainRows:
        """Some of the rows. A slice of less than half is a copy: a view would keep all rows in memory."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            if start == 0 and stop == len(self):
                return self
            rank = self.rank + start if isinstance(self.rank, int) else self.rank[index]
            rows = self.rows.part(slice(start, max(start, stop)))
            return PlainRows(rows if 2 * len(rows) >= len(self) else rows.detached(), rank)
        at = np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64, copy=False)
        if isinstance(self.rank, int):  # without keys, rows are only ever dropped from the front
            return PlainRows(self.rows.take(at), self.rank + int(at[0] if at.size else 0))
        return PlainRows(self.rows.take(at), self.rank[at])

    def alive(self, gone: Ints) -> PlainRows:
        """Drop the first rows of each key: ``gone`` says how many."""
        if isinstance(self.rank, int):
            return self.take(slice(max(int(gone[0]) - self.rank, 0), len(self)))
        return self.take(self.rank >= gone[self.codes])

    def recoded(self, code: Ints) -> PlainRows:
        """Renumber codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
        if isinstance(self.rank, int):
            return self
        new = code[self.codes].astype(np.int32)
        kept = np.flatnonzero(new >= 0)
        new = new[kept]
        order = kept[stable_order(new)]
        moved = self.take(order)
        return but(moved, rows=but(moved.rows, code=np.sort(new), codes=int(new.max(initial=-1)) + 1))

    def reranked(self, column: str, rank: Ints) -> PlainRows:
        """Renumber the ranks of a column's values."""
        (rows,) = waiting.reranked([self.rows], column, rank)
        return but(self, rows=rows)

    def replanned(self, plan: Plan) -> PlainRows:
        (rows,) = waiting.replanned([self.rows], plan, [*plan.rows.stamps, *([PLACE] if plan.rows.by_place else [])])
        return but(self, rows=rows)

    def as_cells(self) -> RowTable:
        """Each row as its own cell."""
        cells = lift_rows(self.rows)
        facts = np.zeros((len(self), len(FACTS)), np.int64)
        for column in (SEQUENCE, ARRIVAL, FLAGS, SINCE, RANK, *self.rows.stamps):
            facts[:, column] = self.fact(column)
        facts[:, FLAGS] |= BEGINS  # the row is no slice: its cell is never fused
        return RowTable(cells, facts, self.values)


def joined(runs: Sequence[PlainRows]) -> PlainRows:
    """Join runs, each of which is behind the runs before it, to one run sorted by key."""
    if len(runs) == 1:
        return runs[0]
    rows, first = waiting.joined([run.rows for run in runs]), runs[0]
    if isinstance(first.rank, int):
        return PlainRows(rows, first.rank)
    whole = PlainRows(rows, np.concatenate([run.ranks() for run in runs]))
    code = whole.codes
    return whole if is_sorted(code) else whole.take(stable_order(code))


def groups_of(rows: Rows) -> Ints:
    """Where keys begin in rows sorted by key, and the end."""
    first = np.zeros(min(len(rows), 1), np.int64) if rows.code is None else begins(rows.code)
    return np.append(first, len(rows))
