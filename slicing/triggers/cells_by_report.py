"""All cells that are kept, grouped by which triggers have reported them."""

from __future__ import annotations

from collections.abc import Sequence

from slicing.cells.table import Cells
from slicing.query.plan import Plan
from slicing.storage.apart import Apart
from slicing.storage.store import Store


class CellsByReport:
    """All cells that are kept: of the store, and apart from it."""

    def __init__(self, plan: Plan, main: Store, apart: Sequence[Apart]) -> None:
        self.plan, self.main = plan, main.consolidated()
        self.apart = [known.but(known.store.consolidated()) for known in apart]
        self._tables: dict[tuple[int, ...], Cells] = {}
        self._left: Store | None = None

    def store(self, which: Sequence[int] | None = None) -> Store:
        """The store's cells together with the cells apart, or some of these."""
        store = self.main
        for at in range(len(self.apart)) if which is None else which:
            for run in self.apart[at].store.runs:
                store = store.beside(run)
        return store.consolidated()

    def left(self, horizon: int) -> Store:
        """What is left of the store after a push that moves the horizon there. No cells may be apart from it."""
        if self._left is None:
            self._left = self.main.without(horizon)
        return self._left

    def table_of(self, at: int) -> Cells:
        """The cells apart of one group."""
        return self.apart[at].store.table()

    @property
    def merged(self) -> Cells | None:
        """All cells as one table, if that was made already."""
        return self._tables.get(tuple(range(len(self.apart))))

    def table(self, which: Sequence[int] | None = None) -> Cells:
        key = tuple(range(len(self.apart)) if which is None else which)
        if key not in self._tables:
            self._tables[key] = self.store(key).table()
        return self._tables[key]
