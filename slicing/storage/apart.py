"""Cells that at least one trigger has not reported yet. They stay outside the store until all triggers have.

Such cells are of rows that came behind the watermark into windows still open, which the next panes report. With
triggers that fire at the end of pushes they are of all rows since the last firing. Once every trigger has reported them
they go into the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slicing.storage.store import Store
from slicing.windows.bounds import BEGIN


@dataclass(frozen=True, eq=False)
class Apart:
    """Cells of rows that were judged by the same watermark (BEGIN: not behind it), which the same triggers have
    reported: those that last fired at ``epoch`` or later."""

    store: Store
    judged: int
    epoch: int

    def but(self, store: Store) -> Apart:
        return Apart(store, self.judged, self.epoch)

    def added(self, more: Apart) -> Apart:
        store = self.store
        store = store.with_runs(more.store.runs)
        return self.but(store)


def with_cells(apart: tuple[Apart, ...], more: Apart, alike: Callable[[int, int], bool]) -> tuple[Apart, ...]:
    """Add more cells. ``alike`` says whether no cut lies between two watermarks, so that the same panes report the
    rows."""
    if not more.store.runs:
        return apart
    for at, known in enumerate(apart):
        behind = known.judged > BEGIN
        if known.epoch != more.epoch or behind != (more.judged > BEGIN):
            continue
        if not behind or alike(known.judged, more.judged):
            return (*apart[:at], known.added(more), *apart[at + 1 :])
    return (*apart, more)
