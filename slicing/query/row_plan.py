"""The rows' half of a plan: what is asked of a row, and in what form it is kept for windows that rows decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicing.columns.lazy import lazy
from slicing.query.keep import Form, Kept
from slicing.windows.rows.bound_rows import BoundRows, OnAxis
from slicing.windows.rows.row_table import OF_ALL, OF_KEY, PLACE, RANK


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The windows of a query that rows decide."""

    bound: Mapping[str, BoundRows]  # all of them, by name
    kept: Mapping[str, Kept]  # what is kept for each window of the query, by name, and why
    flags: Sequence[tuple[str, str]]  # what is asked of a row: an argument of a window, and a boolean column
    in_turn: bool  # rows come in their order, and none ends a key by being quiet
    punctual: bool  # no late row changes anything

    @lazy
    def on_axes(self) -> dict[int, OnAxis]:
        """The windows of the whole stream that go on from slices, by number, and how they lie."""
        axes = {window.number: self.kept[name].axis for name, window in self.bound.items()}
        return {number: axis for number, axis in axes.items() if axis is not None}

    @lazy
    def windows(self) -> list[BoundRows]:
        """The other windows that rows decide, which are shown rows."""
        return [window for window in self.bound.values() if window.number not in self.on_axes]

    @lazy
    def values(self) -> dict[str, str | None]:
        """The columns that users' windows see, each with its form: numbers, if all these windows are compiled."""
        seen: dict[str, str | None] = {}
        for name, form in (one for window in self.windows for one in window.seen().items()):
            seen[name] = None if seen.get(name, form) is None else form
        return seen

    @lazy
    def ranked_by(self) -> frozenset[int]:
        """The facts that rank rows, of the windows that count them and have noted no rank."""
        return frozenset(
            w.ranked_by for w in self.windows if w.ranked_by is not None and not (w.ranked_by == RANK and w.notes)
        )

    @lazy
    def stamps(self) -> tuple[int, ...]:
        """What is counted when a row comes."""
        return tuple(fact for fact in (OF_KEY, OF_ALL) if fact in self.ranked_by)

    @lazy
    def by_place(self) -> bool:
        """Whether rows are counted by their places in the whole stream."""
        return PLACE in self.ranked_by

    @lazy
    def by_key(self) -> bool:
        """Whether each key's windows are told by its rows alone."""
        return all(w.by_key for w in self.windows)

    @lazy
    def as_slices(self) -> bool:
        """Whether rows that become final are cut where windows of rows begin and end, and only the slices are kept."""
        return any(kept.form == Form.SLICES for kept in self.kept.values())

    @lazy
    def at_once(self) -> bool:
        """Rows are final as they come, before the watermark has passed them: they come in their order, which alone
        tells where windows begin and end."""
        if not self.in_turn:
            return False
        if self.windows:
            return self.as_slices and not self.on_axes and all(w.tiles for w in self.windows)
        return self.punctual and self.counts_stream

    @lazy
    def counts_stream(self) -> bool:
        """Whether windows of the whole stream count its rows, all of them."""
        return all(axis.marks is None for axis in self.on_axes.values())
