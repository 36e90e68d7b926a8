"""Rows of windows that are reported at every n-th row, or at rows that are marks.

Which row is the n-th is known once the watermark has passed it, so until then each row waits as its own cell. Rows that
it has passed are in at most two cells for each window and key: rows that panes have reported, and rows since then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slicing.cells.ranked import ranks_used, reranked
from slicing.cells.table import Cells, concatenated
from slicing.kernels.cells import CODE
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask

PLACE, SEQUENCE, ARRIVAL, MARKS = range(4)  # of rows: when they pass, what orders rows of equal time, marks by bit
WINDOW, START, END, KEY, COUNT = range(5)  # of windows: number, start, end, the key's code, how many rows have passed
OF, REPORTED, LAST = range(3)  # of cells: the window, whether panes have reported its rows, the place of its last row


@dataclass(frozen=True, eq=False)
class RowPanes:
    """The rows, windows and cells that are remembered between pushes. Never changed in place."""

    plan: Plan
    rows: Ints  # facts of rows that wait, in no order
    row_cells: Cells  # one cell per row
    windows: Ints  # facts of windows with rows that have passed
    parts: Ints  # facts of their cells
    part_cells: Cells

    @staticmethod
    def none(plan: Plan) -> RowPanes:
        empty = Cells(np.empty((0, Cells.words), np.int64), plan.no_cells.blocks)
        rows, windows, parts = (np.empty((0, width), np.int64) for width in (4, 5, 3))
        return RowPanes(plan, rows, empty, windows, parts, empty)

    @property
    def tables(self) -> tuple[Cells, Cells]:
        return self.row_cells, self.part_cells

    @property
    def nbytes(self) -> int:
        facts = self.rows.nbytes + self.windows.nbytes + self.parts.nbytes
        return int(facts) + sum(table.nbytes for table in self.tables)

    @property
    def size(self) -> int:
        """The number of cells."""
        return sum(map(len, self.tables))

    @property
    def values(self) -> int:
        """About the largest number of a column's values that cells can hold."""
        return sum(table.weight for table in self.tables)

    def waits(self, rows: Ints, cells: Cells) -> RowPanes:
        """Add rows that wait."""
        both = concatenated([self.row_cells, cells])
        return replace(self, rows=np.concatenate([self.rows, rows]), row_cells=both)

    def without_rows(self, passed: Mask) -> RowPanes:
        left = np.flatnonzero(~passed)
        return replace(self, rows=self.rows.take(left, axis=0), row_cells=self.row_cells.take(left))

    def of(self, chosen: Mask) -> RowPanes:
        """Some of the windows with their cells, without waiting rows."""
        number = np.cumsum(chosen) - 1
        places = np.flatnonzero(chosen[self.parts[:, OF]])
        parts = self.parts[places]
        parts[:, OF] = number[parts[:, OF]]
        nothing = RowPanes.none(self.plan)
        return replace(nothing, windows=self.windows[chosen], parts=parts, part_cells=self.part_cells.take(places))

    def with_windows(self, others: Sequence[RowPanes]) -> RowPanes:
        """The waiting rows of this one with the windows of the others."""
        before = np.cumsum([0, *(len(other.windows) for other in others)]).tolist()
        shift = np.array([1, 0, 0])
        parts = [other.parts + shift * at for other, at in zip(others, before, strict=False)]
        cells = concatenated([other.part_cells for other in others])
        windows = np.concatenate([other.windows for other in others])
        return replace(self, windows=windows, parts=np.concatenate(parts), part_cells=cells)

    def without(self, until: int) -> RowPanes:
        """Drop windows that end by ``until``: they are complete."""
        gone = self.windows[:, END] <= until
        return self.with_windows([self.of(~gone)]) if gone.any() else self

    def uses(self, codes: int) -> Mask:
        """Which codes of keys are still needed."""
        used = np.zeros(codes, np.bool_)
        used[self.row_cells.code] = True
        used[self.windows[:, KEY]] = True
        return used

    def recoded(self, code: Ints) -> RowPanes:
        """Renumber codes: ``code[old]`` is the new code, -1 for a code that is dropped."""
        here = self.of(code[self.windows[:, KEY]] >= 0)
        windows = here.windows.copy()
        windows[:, KEY] = code[windows[:, KEY]]
        of_rows = code[self.row_cells.code]
        left = np.flatnonzero(of_rows >= 0)
        rows = self.row_cells.take(left).with_meta(CODE, of_rows[left])
        parts = here.part_cells.with_meta(CODE, windows[here.parts[:, OF], KEY])
        return replace(here, rows=self.rows[left], row_cells=rows, windows=windows, part_cells=parts)

    def reranked(self, column: str, rank: Ints) -> RowPanes:
        """Renumber the ranks of a column's values, as in the store."""
        moved = (reranked(self.plan.lanes, table, column, rank, self.plan.arrival) for table in self.tables)
        rows, parts = moved
        return replace(self, row_cells=rows, part_cells=parts)

    def ranks_used(self, column: str, size: int) -> Ints:
        """The ranks of a column's values that occur in any cell."""
        return ranks_used(self.plan.lanes, self.tables, column, size)

    def beside(self, other: RowPanes) -> RowPanes:
        """Add the rows and windows of other keys, which have the same codes and ranks."""
        return self.waits(other.rows, other.row_cells).with_windows([self, other])
