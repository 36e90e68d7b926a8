"""Windows that need kept rows: counts, punctuations, frames, windows around each row.

In addition to the slice store, an operator keeps a second table (``slicing.kept_rows.by_key``): rows sorted by (key,
time, sequence, arrival), with the facts about a row that these windows need. The engine shows the rows to a window type
(``slicing.windows.rows.row_windows``) as a ``View``. The window type returns which ranges of rows are windows and when
each is complete (``Found``), and from which row on it still needs each key. Rows that no window type needs are evicted
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.rows.row_table import OF_ALL, OF_KEY
from slicing.windows.rows.row_view import Found, View


class Fresh(NamedTuple):
    """Rows that become final, by group as in a view, before they are cut into slices."""

    time: Ints
    bounds: Ints
    base: Ints  # for each group, the number of its rows that became final before
    flag: Callable[[int], Mask]


class SliceCuts(NamedTuple):
    """Where a window cuts rows into slices, with the first row of each group always a cut.

    ``of_first`` and ``of_last``: the flags that the window needs of the first and of the last row of a slice."""

    at: Ints
    of_first: Mapping[int, Mask] = {}
    of_last: Mapping[int, Mask] = {}


class OnAxis(NamedTuple):
    """Windows over the whole stream, by what they count: rows, or marks in a column."""

    marks: str | None
    size: int
    every: int
    partial: bool  # whether windows that are incomplete at the end of the stream are emitted


class BoundRows:
    """A data-driven window type bound to a query: times are in ticks."""

    number: int  # its number among the windows of the spec
    ranked_by: int | None = None  # the fact that ranks rows, if the window counts rows: RANK, PLACE or, by
    # arrival, OF_KEY or OF_ALL (``View.base`` is then the count from which on the window counts)
    origin: int = BEGIN  # if it was added while the stream ran: it sees rows from this time on
    notes: bool = False  # whether it must note something about a key (0 at first) when rows of the key are evicted
    by_key: bool = True  # whether the windows of a key depend only on rows of the key
    wakes: bool = False  # whether time alone may complete a window or let rows be evicted
    tiles: bool = False  # whether a row's rank in its key decides all windows, and each ends where another begins
    closes_at_end: bool = False  # whether each window is complete once the watermark passes its end
    # why it needs single rows; None: final rows suffice to find where windows begin and end, and slices have many rows
    needs_rows: str | None = "may begin or end at any of them"

    @property
    def by_arrival(self) -> bool:
        """Whether it counts rows by arrival."""
        return self.ranked_by in (OF_KEY, OF_ALL)

    def seen(self) -> dict[str, str | None]:
        """The columns whose values it sees, each with its numeric form; None: as Python values."""
        return {}

    def on_axis(self) -> OnAxis | None:
        """What it counts over the whole stream, and how windows lie on that axis; None for windows of single keys."""
        return None

    def cuts(self, fresh: Fresh) -> SliceCuts:
        """For windows that slice: where windows begin and end."""
        return SliceCuts(fresh.bounds[:-1])

    def begins(self, view: View) -> Mask:
        """For windows that slice: the slices with which a window begins, at least for windows that close later."""
        return np.zeros(len(view.rows), np.bool_)

    def note(self, view: View, h: int, left: Ints) -> Ints:
        """For windows that note: what to note for each group when rows before ``h`` are final and ``left`` of its
        rows have been evicted."""
        return view.base

    def find(self, view: View, until: int) -> Found:
        """The windows of these rows, at least those that close before ``until``.

        The result may be anything for windows that closed before the horizon."""
        raise NotImplementedError

    def latest_end(self, time: int) -> int:
        """The latest end of a window that is due because of a row at this time."""
        return time

    def wake(self, view: View, until: int, h: int) -> Ints:
        """For each group: when, at or after ``until``, time alone may complete a window or let rows be evicted.

        Rows can be evicted if no window that closes at ``h`` or later needs them. FOREVER: never."""
        return np.full(view.first.size, FOREVER)

    def stirs(self, view: View, until: int) -> Mask:
        """Given only the rows that became final: the groups whose older rows must be looked at.

        In these groups a new row may complete a window before ``until``, or may let rows be evicted."""
        return np.ones(view.first.size, np.bool_)

    def needs(self, view: View, h: int) -> Ints:
        """For each group: the first position whose rows a window that closes at ``h`` or later may need."""
        raise NotImplementedError
