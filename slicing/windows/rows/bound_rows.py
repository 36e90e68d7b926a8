"""Rows kept one by one, for the windows that only rows can tell: counts, marks, frames, rows of their own.

Beside the slice store an operator keeps a second table: rows, sorted by (key, time, sequence, arrival), with what
these windows ask of a row (``slicing.kept_rows.by_key`` keeps it). A window type
(``slicing.windows.rows.row_windows``) is given the rows as a ``View`` and says which ranges of them are windows
(``Found``), when each is complete, and from where on it still needs a key's rows. All that is needed by none is let go
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
    base: Ints  # for each group how many rows of it became final before
    flag: Callable[[int], Mask]


class Cuts(NamedTuple):
    """Where a window cuts rows into slices, each group's first row included, and what it will ask of a slice: which
    flags its first row has, and which its last one has."""

    at: Ints
    of_first: Mapping[int, Mask] = {}
    of_last: Mapping[int, Mask] = {}


class OnAxis(NamedTuple):
    """Windows of the whole stream, by what they count of it: rows, or marks in a column."""

    marks: str | None
    size: int
    every: int
    partial: bool  # whether those come out at the end that are short of either


class BoundRows:
    """A window type over rows, in ticks."""

    number: int  # among the windows of the spec
    ranked_by: int | None = None  # the fact that ranks rows, if it counts them: RANK, PLACE, or, as they come, OF_KEY
    # or OF_ALL (``View.base`` is then the count from which on it does)
    origin: int = BEGIN  # added while the stream ran, it sees rows from this time on
    notes: bool = False  # whether something has to be known of a key (0 at first) when its rows have been let go
    by_key: bool = True  # whether a key's windows are told by its rows alone
    wakes: bool = False  # whether time alone may complete a window or let rows go
    tiles: bool = False  # whether a row's rank in its key tells them all, and each ends where one begins
    closes_at_end: bool = False  # whether each of its windows is complete once the watermark is past its end
    # why it needs rows one by one; None: final rows tell where its windows begin and end, and are many between those
    needs_rows: str | None = "may begin or end at any of them"

    @property
    def by_arrival(self) -> bool:
        """Whether it counts rows as they come."""
        return self.ranked_by in (OF_KEY, OF_ALL)

    def seen(self) -> dict[str, str | None]:
        """The columns whose values it sees, each in which form of numbers; None: as Python's."""
        return {}

    def on_axis(self) -> OnAxis | None:
        """What it counts of the whole stream, and how it lies on that axis; None if its windows are of single keys."""
        return None

    def cuts(self, fresh: Fresh) -> Cuts:
        """For windows that slice: where they begin and end."""
        return Cuts(fresh.bounds[:-1])

    def begins(self, view: View) -> Mask:
        """For windows that slice: the slices with which one begins, at least of those that close later."""
        return np.zeros(len(view.rows), np.bool_)

    def note(self, view: View, h: int, left: Ints) -> Ints:
        """For windows that note: what is to be known of each group when rows before ``h`` are final, and ``left`` of
        its rows are let go."""
        return view.base

    def find(self, view: View, until: int) -> Found:
        """The windows of these rows, at least those that close before ``until``.

        Those that closed before the horizon may be anything."""
        raise NotImplementedError

    def wake(self, view: View, until: int, h: int) -> Ints:
        """For each group after when, at or after ``until``, a window may be complete, or rows needed no more by what
        closes at ``h`` or later, without another row; FOREVER: never."""
        return np.full(view.first.size, FOREVER)

    def stirs(self, view: View, until: int) -> Mask:
        """Of rows that became final alone: the groups of which older rows need a look, for one of these may complete a
        window before ``until``, or let rows go."""
        return np.ones(view.first.size, np.bool_)

    def needs(self, view: View, h: int) -> Ints:
        """For each group the position from which on a window that closes at ``h`` or later may need its rows."""
        raise NotImplementedError
