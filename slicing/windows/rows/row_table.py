"""Kept rows: as windows see them, and as cells with the facts about a row that windows need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from slicing.cells.table import Cells, concatenated
from slicing.columns.order import begins, is_sorted, stable_order
from slicing.columns.row_values import Values
from slicing.kernels.cells import CODE
from slicing.system.arrays import Array, Ints, Mask
from slicing.system.lazy import lazy

# the facts kept for a row in addition to its cell
SEQUENCE, ARRIVAL, FLAGS, OF_KEY, OF_ALL, PLACE, SINCE, RANK = FACTS = range(8)
# OF_KEY, OF_ALL: how many rows of the key, and of the stream, had arrived before; PLACE: its rank by time in the
# whole stream; SINCE: its time (for a cell of several rows, the time of the first one); RANK: how many rows of the key
# are before it
UNCOUNTED = -1  # for rows that arrived before any window counted them
MOST_FLAGS = 62  # the most flags that fit into the FLAGS of a cell
BEGINS = 1 << MOST_FLAGS  # one more flag: a window begins with the cell, or did when the cell became final


class ShownRows:
    """Kept rows as windows see them, sorted by (code, time, sequence, arrival)."""

    one_each: ClassVar[bool] = False  # whether each item is a single row

    @property
    def time(self) -> Ints:
        raise NotImplementedError

    @property
    def code(self) -> Array:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """The largest number of values of a column, roughly."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def fact(self, column: int) -> Ints:
        """One fact of each item."""
        raise NotImplementedError

    def flagged(self, flag: int) -> Mask:
        raise NotImplementedError

    def rank_at(self, positions: Ints) -> Ints:
        """For each position, the number of rows of its key that are before it."""
        raise NotImplementedError

    def counted(self, positions: Ints) -> Ints:
        """For each position, the number of rows before it; an item may hold several rows."""
        raise NotImplementedError

    @property
    def sizes(self) -> Ints:
        """The number of rows in each item."""
        raise NotImplementedError

    @property
    def values(self) -> tuple[Values, ...]:
        """The columns that a user's windows see."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowTable(ShownRows):
    """Rows as cells (END: the time, CODE, ROWS: 1), sorted by (code, time, sequence, arrival).

    If the windows allow it, final rows are fused into slices: one cell for the rows up to the next place where any
    window begins or ends (ROWS: how many, END: the time of the last row).
    """

    of_one_key: ClassVar[bool] = False  # whether all rows are known to have one key
    cells: Cells
    facts: Ints
    values: tuple[Values, ...] = ()  # the columns that a user's windows see

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def time(self) -> Ints:
        return self.cells.end

    @property
    def code(self) -> Ints:
        return self.cells.code

    @lazy
    def codes(self) -> Ints:
        """The codes as a contiguous array, for searches."""
        return np.ascontiguousarray(self.code)

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.facts.nbytes + sum(v.nbytes for v in self.values)

    @property
    def weight(self) -> int:
        return self.cells.weight

    def fact(self, column: int) -> Ints:
        return self.facts[:, column]

    def flagged(self, flag: int) -> Mask:
        return (self.facts[:, FLAGS] >> flag) & 1 == 1

    def groups(self) -> Ints:
        """The positions where keys begin, and the end."""
        return np.append(begins(self.codes), len(self))

    def ranked(self, bounds: Ints, rank: Ints) -> Ints:
        """For each group, the position of its first row with this rank or a later one."""
        if rank.size == 1:
            return bounds[:1] + np.searchsorted(self.facts[bounds[0] : bounds[1], RANK], rank)
        later = self.facts[:, RANK] >= np.repeat(rank, np.diff(bounds))
        at = np.where(later, np.arange(len(self)), len(self))
        return np.minimum(np.minimum.reduceat(at, bounds[:-1]), bounds[1:]) if rank.size else rank

    def rank_at(self, positions: Ints) -> Ints:
        return self.facts[positions, RANK]

    def counted(self, positions: Ints) -> Ints:
        return self._rows_before.take(positions)

    @lazy
    def _rows_before(self) -> Ints:
        return np.append(0, np.cumsum(self.cells.rows))

    @property
    def sizes(self) -> Ints:
        return np.ascontiguousarray(self.cells.rows)

    def take(self, index: Ints | Mask | slice) -> RowTable:
        return RowTable(self.cells.take(index), self.facts[index], tuple(v[index] for v in self.values))

    def beginning(self, begins: Mask) -> RowTable:
        """This table with the flag BEGINS on the cells with which a window begins."""
        facts = self.facts.copy()
        facts[begins, FLAGS] |= BEGINS
        return replace(self, facts=facts)

    def alive(self, gone: Ints) -> RowTable:
        """This table without the rows that were evicted: the first ``gone[code]`` rows of each key."""
        return self.take(self.facts[:, RANK] >= gone[self.code])

    def recoded(self, code: Ints) -> RowTable:
        """This table with new codes ``code[old]``, sorted by them; rows with a new code of -1 are removed."""
        to = code[self.code]
        run = replace(self, cells=self.cells.with_meta(CODE, to)).take(to >= 0)
        return run.take(stable_order(run.code))

    @staticmethod
    def of(tables: Sequence[RowTable]) -> RowTable:
        """One table sorted by code from several tables, each of which has later rows than the tables before it."""
        values = tuple(map(np.concatenate, zip(*(t.values for t in tables), strict=True)))
        whole = RowTable(concatenated([t.cells for t in tables]), np.concatenate([t.facts for t in tables]), values)
        code = whole.codes
        return whole if is_sorted(code) else whole.take(stable_order(code))
