"""The head of one window: the part that event-time triggers have reported."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from slicing.cells.table import Cells
from slicing.columns.order import distinct
from slicing.query.plan import Plan
from slicing.reducing.batch import Rows
from slicing.storage.head import Head, room_for
from slicing.system.arrays import Ints, Mask


class WindowHead(Head):
    """Cells of one window up to the last cut. Its only slot ends with the last slice that it took."""

    @staticmethod
    def of(plan: Plan, end: int, reported: Cells, codes: int) -> WindowHead | None:
        """A head of the reported cells of the window that ends at ``end``. None if it would have too few cells."""
        room = room_for(plan, int(np.count_nonzero(np.bincount(reported.code))), codes)
        head = WindowHead(plan, reported.slice_ends[-1:], np.array([end]), room) if room else None
        return head if head is not None and head.takes_cells and head._begin_with(reported) else None

    def slices_beside(self, runs: Sequence[Cells], coming: Mask | None) -> int:
        return 1

    def _likely_cells(self, rows: Rows) -> float:
        """The rows are not counted: their slices wait until a cut has passed them."""
        return float(self.used)

    def _parts(self, cells: Cells) -> list[Cells]:
        """One slice after the other: each is reported with those before it."""
        if cells.one_slice:
            return [cells]
        stops = pairwise([*cells.slices().tolist(), len(cells)])
        return [cells.take(slice(low, high)) for low, high in stops]

    def _places(self, cells: Cells) -> tuple[Ints, Ints | int]:
        # a copy is never read-only: a kernel is compiled for one type
        return cells.code.copy() if cells.one_slice else distinct(cells.code), 0

    def _ends_after(self, cells: Cells) -> Ints:
        return cells.end[-1:]
