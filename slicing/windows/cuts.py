"""Cuts: the times inside a window at which event-time triggers emit panes, and their edges."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from slicing.columns.order import changes, distinct, order_by, ranges
from slicing.system.arrays import Ints
from slicing.windows.bounds import (
    BEGIN,
    END,
    Bound,
    BoundFixed,
    BoundPeriodic,
    Mark,
    Progression,
)
from slicing.windows.calendar_bounds import BoundCalendar


class Cuts:
    """The cuts of one window type: multiples of spans, shares of the window, and its end."""

    def __init__(self, spans: Sequence[tuple[int, int]], shares: Sequence[Fraction]) -> None:
        self.spans, self.shares = spans, shares

    def next(self, start: Ints, end: Ints, time: Ints) -> Ints:
        """The first cut of each window at or after a time; the window's end is a cut."""
        found = end.copy()
        for every, offset in self.spans:
            np.minimum(found, -((offset - time) // every) * every + offset, out=found)
        for share in self.shares:
            cut = start + share_of(end - start, share)
            np.minimum(found, np.where(cut >= time, cut, end), out=found)
        return found

    def before(self, start: Ints, end: Ints, time: Ints) -> Ints:
        """The last cut of each window before a time; the window's start if there is none."""
        found = start.copy()
        for every, offset in self.spans:
            np.maximum(found, (time - 1 - offset) // every * every + offset, out=found)
        for share in self.shares:
            cut = start + share_of(end - start, share)
            np.maximum(found, np.where(cut < time, cut, start), out=found)
        return found

    def between(self, start: Ints, end: Ints, slices: Ints, after: int, until: int) -> tuple[Ints, Ints]:
        """Cuts with ``after < cut <= until`` that directly follow a slice, and ends of windows: the number of the
        window and the cut, in the order of cuts."""
        multiples = [-((offset - slices) // every) * every + offset for every, offset in self.spans]
        found = [(np.arange(end.size), end)]
        for some in map(distinct, multiples):
            some = some[(some > after) & (some <= until)]
            low, high = some.searchsorted(start, "right"), some.searchsorted(end, "left")
            count = np.maximum(high - low, 0)
            found.append((np.repeat(np.arange(end.size), count), some[ranges(low, count)]))
        for share in self.shares:
            found.append((np.arange(end.size), start + share_of(end - start, share)))
        window, cut = (np.concatenate(column) for column in zip(*found, strict=True))
        due = (cut > after) & (cut <= until) & (cut > start[window])
        window, cut = window[due], cut[due]
        order = order_by(window, start[window], cut)
        window, cut = window[order], cut[order]
        new = changes(window, cut)
        return window[new], cut[new]

    def of_one(self, start: int, end: int, slices: Sequence[int], after: int, until: int) -> list[tuple[int, int]]:
        """The cuts of one window as by ``between``, each behind the cut ``before`` it. For few slices."""
        shares = [start + (end - start) * share.numerator // share.denominator for share in self.shares]
        found = {end, *shares}
        found.update([-((offset - time) // every) * every + offset for every, offset in self.spans for time in slices])
        low, high = max(after, start), min(until, end)
        pairs = []
        for cut in sorted([cut for cut in found if low < cut <= high]):
            last = [(cut - 1 - offset) // every * every + offset for every, offset in self.spans]
            pairs.append((max([start, *last, *[share for share in shares if share < cut]]), cut))
        return pairs

    def passed(self, slices: Ints, after: int, until: int) -> list[int]:
        """Multiples of spans with ``after < cut <= until``: the next one, and those that directly follow a slice."""
        found = slices if after == BEGIN else np.append(slices, after + 1)
        cuts = distinct(np.concatenate([-((offset - found) // every) * every + offset for every, offset in self.spans]))
        some: list[int] = cuts[(cuts > after) & (cuts <= until)].tolist()
        return some

    def edges(self, bound: Bound) -> list[Bound]:
        """The edges at which slices are cut for a type of windows, in addition to its own edges.

        The edge of a cut lives until the next cut: after that, slices before it may be merged.
        """
        found: list[Bound] = []
        if self.spans:
            found.append(_edges([Progression(every, offset % every, every) for every, offset in self.spans]))
        for share in self.shares:
            found += _shares(bound, share)
        return found


class RowCuts(NamedTuple):
    """The cuts of one window type, if some of them are at rows."""

    counts: tuple[tuple[int, int | None], ...]  # after every n-th row, at most so many times
    marks: int  # after rows with any of these marks, by bit
    times: Cuts | None  # cuts at times
    by_arrival: bool
    at_once: bool  # in the push of the row


def share_of(lengths: Ints, share: Fraction) -> Ints:
    """``floor(share * length)``, exactly. It is computed once for each distinct length: windows have few."""
    some, which = np.unique(lengths, return_inverse=True)
    floors = [length * share.numerator // share.denominator for length in some.tolist()]
    return np.array(floors, np.int64)[which.reshape(lengths.shape)]


def _edges(progressions: Sequence[Progression], marks: Sequence[Mark] = ()) -> Bound:
    found = Bound()
    found.progressions, found.marks = tuple(progressions), tuple(marks)
    return found


def _shares(bound: Bound, share: Fraction) -> list[Bound]:
    def part(length: int) -> int:
        return length * share.numerator // share.denominator

    if isinstance(bound, BoundPeriodic):
        after = part(bound.size)
        return [_edges([Progression(bound.every, (bound.offset + after) % bound.every, bound.size - after)])]
    if isinstance(bound, BoundFixed):
        cut = bound.start + part(bound.end - bound.start)
        return [_edges([], [Mark(cut, bound.end - cut)])]
    assert isinstance(bound, BoundCalendar)
    return [_BoundShare(bound, share)]


class _BoundShare(Bound):
    """The cuts of windows whose edges only a table knows."""

    irregular = True

    def __init__(self, windows: BoundCalendar, share: Fraction) -> None:
        self.windows, self.share, self.known = windows, share, windows.known

    def next_live_edge(self, times: Ints, h: int) -> Ints:
        found = self.windows.next_live_edge(times, h)
        for start, end in self.windows.holding(times):
            cut = start + share_of(end - start, self.share)
            found = np.minimum(found, np.where((cut > times) & (end > h), cut, END))
        return found
