"""Kept rows as windows see them, and as cells with what windows ask of a row beside its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from slicing.cells.table import Cells, concatenated
from slicing.columns.lazy import lazy
from slicing.columns.order import begins, stable_order
from slicing.columns.row_values import Values
from slicing.kernels.cells import CODE
from slicing.system.arrays import Array, Ints, Mask

# what is kept of a row beside its cell
SEQUENCE, ARRIVAL, FLAGS, OF_KEY, OF_ALL, PLACE, SINCE, RANK = FACTS = range(8)
# OF_KEY, OF_ALL: how many rows of the key, and of the stream, had arrived before; PLACE: its rank among the whole
# stream by time; SINCE: its time (of a cell of several rows the first one's); RANK: how many rows of the key are
# before it
UNCOUNTED = -1  # of rows that came before anybody asked for their count
MOST_FLAGS = 62  # that the FLAGS of a cell have room for
BEGINS = 1 << MOST_FLAGS  # among them: a window begins with the cell, or did when it became final


class ShownRows:
    """Kept rows as windows see them, sorted by (code, time, sequence, arrival)."""

    one_each: ClassVar[bool] = False  # whether each that is shown is one row

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
        """How many values of a column there may be at most, roughly."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def fact(self, column: int) -> Ints:
        """What is kept of each beside its values."""
        raise NotImplementedError

    def flagged(self, flag: int) -> Mask:
        raise NotImplementedError

    def rank_at(self, positions: Ints) -> Ints:
        """How many rows of its key are before each."""
        raise NotImplementedError

    def counted(self, positions: Ints) -> Ints:
        """How many rows there are before each of these positions: one that is shown may be several."""
        raise NotImplementedError

    @property
    def sizes(self) -> Ints:
        """How many rows each of them is."""
        raise NotImplementedError

    @property
    def values(self) -> tuple[Values, ...]:
        """The columns that a user's windows want to see."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowTable(ShownRows):
    """Rows as cells (END: the time, CODE, ROWS: 1), sorted by (code, time, sequence, arrival).

    Where windows allow it, rows that are final are slices: one cell up to where any window begins or ends (ROWS: how
    many, END: the last one's time).
    """

    of_one_key: ClassVar[bool] = False  # known to be
    cells: Cells
    facts: Ints
    values: tuple[Values, ...] = ()  # of the columns that a user's windows want to see

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
        """The codes in one piece, to be searched."""
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
        """Where keys begin, and the end."""
        return np.append(begins(self.codes), len(self))

    def ranked(self, bounds: Ints, rank: Ints) -> Ints:
        """For each group the position of its first row of this rank or later."""
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
        """With a mark on cells with which a window begins."""
        facts = self.facts.copy()
        facts[begins, FLAGS] |= BEGINS
        return replace(self, facts=facts)

    def alive(self, gone: Ints) -> RowTable:
        """Without the first rows of keys, of which so many have been let go."""
        return self.take(self.facts[:, RANK] >= gone[self.code])

    def recoded(self, code: Ints) -> RowTable:
        """Codes renumbered: ``code[old]`` is the new one, -1 for one that goes; still sorted by them."""
        to = code[self.code]
        run = replace(self, cells=self.cells.with_meta(CODE, to)).take(to >= 0)
        return run.take(stable_order(run.code))

    @staticmethod
    def of(tables: Sequence[RowTable]) -> RowTable:
        """Tables of which each is behind the ones before, as one sorted by code."""
        values = tuple(map(np.concatenate, zip(*(t.values for t in tables), strict=True)))
        whole = RowTable(concatenated([t.cells for t in tables]), np.concatenate([t.facts for t in tables]), values)
        code = whole.codes
        return whole if (code[1:] >= code[:-1]).all() else whole.take(stable_order(code))
