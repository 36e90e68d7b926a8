"""The plan of data-driven windows: what is read of each row, and the form in which rows are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicing.query.keep import Form, Kept
from slicing.system.lazy import lazy
from slicing.windows.rows.bound_rows import BoundRows, OnAxis
from slicing.windows.rows.row_table import OF_ALL, OF_KEY, PLACE, RANK


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The data-driven windows of a query."""

    bound: Mapping[str, BoundRows]  # all of them, by name
    kept: Mapping[str, Kept]  # what is kept for each window of the query, by name, and why
    flags: Sequence[tuple[str, str]]  # flags of a row: an argument of a window, and a boolean column
    rows_in_order: bool  # rows come in order, and no key is ended by being quiet
    punctual: bool  # late rows never change anything

    @lazy
    def on_axes(self) -> dict[int, OnAxis]:
        """The windows of the whole stream that are answered from slices, by number, with their axis."""
        axes = {window.number: self.kept[name].axis for name, window in self.bound.items()}
        return {number: axis for number, axis in axes.items() if axis is not None}

    @lazy
    def windows(self) -> list[BoundRows]:
        """The other data-driven windows, which read rows."""
        return [window for window in self.bound.values() if window.number not in self.on_axes]

    @lazy
    def values(self) -> dict[str, str | None]:
        """The columns that users' windows read, each with its form: numbers, if all these windows are compiled."""
        seen: dict[str, str | None] = {}
        for name, form in (one for window in self.windows for one in window.seen().items()):
            seen[name] = None if seen.get(name, form) is None else form
        return seen

    @lazy
    def ranked_by(self) -> frozenset[int]:
        """The facts that rank rows, for windows that count rows and have noted no rank."""
        return frozenset(
            w.ranked_by for w in self.windows if w.ranked_by is not None and not (w.ranked_by == RANK and w.notes)
        )

    @lazy
    def stamps(self) -> tuple[int, ...]:
        """The counters that a row is stamped with when it comes."""
        return tuple(fact for fact in (OF_KEY, OF_ALL) if fact in self.ranked_by)

    @lazy
    def by_place(self) -> bool:
        """Whether rows are counted by their positions in the whole stream."""
        return PLACE in self.ranked_by

    @lazy
    def by_key(self) -> bool:
        """Whether the edges of each key's windows depend on the rows of that key alone."""
        return all(w.by_key for w in self.windows)

    @lazy
    def as_slices(self) -> bool:
        """Whether final rows are cut where data-driven windows begin and end, so that only slices are kept."""
        return any(kept.form == Form.SLICES for kept in self.kept.values())

    @lazy
    def at_once(self) -> bool:
        """Whether rows are final at once, before the watermark passes them: their order alone decides the edges."""
        if not self.rows_in_order:
            return False
        if self.windows:
            return self.as_slices and not self.on_axes and all(w.tiles for w in self.windows)
        return self.punctual and self.counts_stream

    @lazy
    def counts_stream(self) -> bool:
        """Whether all windows of the whole stream count all of its rows."""
        return all(axis.marks is None for axis in self.on_axes.values())
