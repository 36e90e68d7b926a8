"""The edges of all time windows, fused into as few progressions as possible.

Answers for the next edge after a time, the edges of a span, and the windows that are due for a set of slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from slicing.columns.order import distinct, order_by
from slicing.kernels.slice import list_edges, next_edges
from slicing.kernels.windows import by_end, index_of, periodic_due, places_of, positions_after, window_ranges
from slicing.system.arrays import NONE, Ints, Mask
from slicing.windows.bounds import APART, BEGIN, END, LONGEST, Bound, Progression

FOR_PYTHON = 24  # for up to so many window types or times, plain Python is faster than numpy
LARGE = 64  # so many types with the largest windows are looked at first: they most often hold the earliest live start
LISTED = 2048
FEWEST = 1024  # edges that are listed however few rows there are
MANY_DUE = 8  # windows a slice for which there is room from the beginning
ROOM = 1 << 22  # results of windows and groups; more are counted before they are written
INDEXED = 1024  # windows at a time from which on an index of slices pays


class DueWindows(NamedTuple):
    """Windows by type number. Each holds the slices low..high-1 and is due only with a slice from ``need`` on."""

    type: Ints
    start: Ints
    end: Ints
    low: Ints
    need: Ints
    high: Ints

    def take(self, index: Ints | Mask) -> DueWindows:
        return DueWindows(*(column[index] for column in self))

    def over(self, ends: Ints) -> DueWindows:
        """These windows over the slices that end at ``ends``, due with any slice; without windows that hold none."""
        low, high = np.empty_like(self.low), np.empty_like(self.high)
        positions_after(ends, self.start, low)
        positions_after(ends, self.end, high)
        return self._replace(low=low, need=low, high=high).take(low < high)


def ranges_of(
    type_first: Ints, windows: Ints, high: Ints, ascending: bool, group_first: Ints, slice_of: Ints
) -> tuple[Ints, Ints]:
    """Each (window, group) that has cells: window, first, last and place (in order of windows' ranks, then groups). And
    where the places of each window begin, and the end."""
    fixed = (type_first, windows, np.ascontiguousarray(high), ascending, group_first, slice_of)
    most = _most(windows[:, 0], high, group_first.size - 1, slice_of)
    at, found = np.zeros(len(windows) + 1, np.int64), np.empty((4, most if most < ROOM else 0), np.int64)
    n = window_ranges(*fixed, at[1:], found)
    if n > found.shape[1]:
        at[:], found = 0, np.empty((4, n), np.int64)
        window_ranges(*fixed, at[1:], found)
    np.cumsum(at, out=at)
    found = found[:, :n]
    places_of(found[0], windows, at[:-1].copy(), found[3])
    return found, at


def _most(low: Ints, high: Ints, groups: int, slice_of: Ints) -> int:
    """Room for the results: a window has one for each group, but not more than it has cells. (If there are more, they
    are counted, and written again.)"""
    most, size = low.size * groups, slice_of.size
    if most <= 2 * size or slice_of.min() < 0 or slice_of.max() > 2 * size:  # larger numbers are no slices
        return most
    cells = np.append(0, np.bincount(slice_of).cumsum())
    return min(most, int((cells[high.clip(0, cells.size - 1)] - cells[low.clip(0, cells.size - 1)]).sum()))


class EdgeSet:
    """The edges of a set of time windows. An edge lives until all windows that use it have left the store."""

    def __init__(self, bounds: Sequence[Bound], beside: Sequence[Bound] = (), listed: int = LISTED) -> None:
        """``beside``: edges at which slices are cut although no window starts or ends there. ``listed``: how many edges
        are listed ahead for a stream that needs only few at a time."""
        self.bounds = list(bounds)
        with_edges = [*bounds, *beside]
        self.progressions = fused([p for b in with_edges for p in b.progressions])
        self._every, self._phase, self._horizon = _columns(self.progressions)
        self.cuts = fused([p._replace(horizon=0) for p in self.progressions])  # all edges, however long they live
        self._cuts = _columns(self.cuts)[:2]
        self.longest = min([p.every for p in self.cuts], default=END)  # no slice is longer
        self._listed_before = 64
        self.marks = sorted({m for b in with_edges for m in b.marks})
        self.irregular = [b for b in with_edges if b.irregular]
        self.regular = self.regular_width(0)
        known = [b.known for b in self.irregular]
        self.known = max((k[0] for k in known), default=BEGIN), min((k[1] for k in known), default=END)
        self.gapless = not bounds or any(b.gapless for b in bounds)
        self._families, self._sizes, self._numbers = _families(bounds)
        self._due_before = 64
        self._quiet = (0, 0)  # no edge lies after the first time and before the second one
        self._few = 0 < len(self.cuts) <= 8 and not self.marks and not self.irregular
        often = sum(1 / p.every for p in self.cuts)
        # so many ticks have about as many edges as are listed ahead; 0 if some edges are in no progression
        self._ahead = min(int(listed / often), LONGEST) if often and not self.marks and not self.irregular else 0
        self._coming = (0, NONE)  # all edges after this time, as far as listed
        self._next = (0, 0, NONE)  # (low, grid, edge): the only edge after any time from low up to the edge
        self.periodic = all(b.periodic is not None for b in bounds)
        only = bounds[0].periodic if len(self.bounds) == 1 else None
        self.tumbles = only is not None and only[0] == only[1] and not beside  # adjacent windows of one type
        self._others = [i for i, b in enumerate(bounds) if b.periodic is None]
        self._asks_slices = [b for b in bounds if b.irregular and b.first_live_start(0) == BEGIN]
        # with one progression all edges live equally long, except with windows that never leave
        endless = any(b.open_start for b in bounds)
        self.coarsens = len(self.progressions) > 1 or bool(self.marks) or bool(self.irregular) or endless
        # of windows with equal starts only the longest can keep a slice alive
        longest: dict[tuple[int, int], int] = {}
        for b in bounds:
            if b.periodic is not None:
                size, step, offset = b.periodic
                longest[step, offset] = max(longest.get((step, offset), 0), size)
        kept = [(size, step, offset) for (step, offset), size in longest.items()]
        self._kept = sorted(kept, reverse=True)
        columns = np.array(self._kept or np.empty((0, 3)), np.int64).reshape(-1, 3).T.copy()
        self._kept_parts = [part for part in (columns[:, :LARGE], columns[:, LARGE:]) if part.size]
        self._kept_others = [bounds[i] for i in self._others if bounds[i] not in self._asks_slices]

    def next_live(self, times: Ints, h: int) -> Ints:
        """The next live edge after each time (END if there is none); with h = BEGIN every edge lives."""
        out = None if times.size <= FOR_PYTHON else self._next_of_few_edges(times, h)
        if out is None:
            out = np.full(times.size, END, np.int64)
            next_edges(times, np.int64(h), self._every, self._phase, self._horizon, out)
        live = [m.edge for m in self.marks if m.edge + m.horizon > h]
        if live:
            edges = np.array([*live, END], np.int64)
            np.minimum(out, edges[np.searchsorted(edges[:-1], times, "right")], out=out)
        for bound in self.irregular:
            np.minimum(out, bound.next_live_edge(times, h), out=out)
        return out

    def _next_of_few_edges(self, times: Ints, h: int) -> Ints | None:
        """The next live edge of a progression after each time, if there are so few that they are listed."""
        if int(times.max()) - int(times.min()) > APART:
            return None
        low = np.maximum(times.min(), h - self._horizon)  # live edges of a progression come after it
        count = np.maximum(times.max() - low, 0) // self._every + 2
        most = times.size * count.size // 4
        if int(np.minimum(count, most).sum()) >= most:
            return None
        listed = self._listed(self._every, self._phase, low, int(times.max()), times.size * count.size)
        assert listed is not None
        edges, after = distinct(listed), np.empty(times.size, np.int64)
        positions_after(edges, times, after)
        return edges.take(after)

    def any_between(self, after: int, until: int) -> bool:
        """Whether an edge of any window lies in (after, until]. If not, nothing closes and nothing is evicted."""
        if until - after >= self.longest:
            return True
        quiet_from, edge = self._quiet
        if not quiet_from <= after < edge:
            frequent = self.cuts[:8]
            edge = min(((after - p.phase) // p.every * p.every + p.every + p.phase for p in frequent), default=END)
            if not self._few:
                if edge <= until or not self.known[0] <= after < self.known[1]:
                    return True
                edge = int(self.next_live(np.array([after], np.int64), BEGIN)[0])
            self._quiet = after, edge  # the next call of a stream starts here
        return edge <= until

    def between(self, low: int, high: int, times: Ints, grid: int, rows: int) -> Ints:
        """Ascending edges after ``low`` up to the first one after ``high``, as far as rows at ``times`` need them.

        ``grid`` adds an edge every so many ticks (0: none). If there are too many regular edges for so many ``rows``,
        only edges next to a row are listed, so that a jump in time costs nothing.
        """
        edges = self.listed(low, high, grid, rows)
        if edges is None:
            edges = self._at_rows(low, high, times, grid, max(FEWEST, 2 * rows))
            if edges.size == 1:
                self._next = low, grid, edges
        return edges

    def listed(self, low: int, high: int, grid: int, rows: int) -> Ints | None:
        """Ascending edges after ``low`` up to the first one after ``high``; None if the rows are needed to find them.

        They are needed if there are more than two edges for each row, or if not all edges are known.
        """
        limit = max(FEWEST, 2 * rows)
        known_from, of_grid, edge = self._next
        known = edge.size and grid == of_grid and known_from <= low and high < edge[0]
        if known and not (self.irregular and any(bound.asks_rows for bound in self.irregular)):
            return edge
        edges: Ints | None
        regular = self.regular if not grid else self.regular_width(grid)
        if regular is not None and (high - low) // regular[0] <= limit:
            width, origin = regular
            first, last = low - (low - origin) % width + width, high - (high - origin) % width + width
            edges = np.arange(first, last + width, width)  # whole steps: see ``order.progression``
        elif not grid and 2 * (high - low) < self._ahead:
            edges = self._of_coming(low, high)
        else:
            edges = self._of_all(low, high, grid, limit)
        if edges is not None and edges.size == 1:
            self._next = low, grid, edges
        return edges

    def _of_all(self, low: int, high: int, grid: int, limit: int) -> Ints | None:
        parts = [self._periodic(low, high, grid, limit), *(bound.listed(low, high, limit) for bound in self.irregular)]
        known = [part for part in parts if part is not None]
        return self._up_to(low, high, known) if len(known) == len(parts) else None

    def _at_rows(self, low: int, high: int, times: Ints, grid: int, limit: int) -> Ints:
        listed, own = self._periodic(low, high, grid, limit), [bound.row_edges(times) for bound in self.irregular]
        if listed is None:
            edges = self.next_live(times, BEGIN)
            if grid:
                edges = np.minimum(edges, times // grid * grid + grid)
            return distinct(edges)
        return self._up_to(low, high, [listed, *own])

    def _periodic(self, low: int, high: int, grid: int, limit: int) -> Ints | None:
        """The edges of all progressions; None if there are more than ``limit``."""
        every, phase = self._cuts
        if grid:
            every, phase = np.append(every, grid), np.append(phase, 0)
        return self._listed(every, phase, np.full(every.size, low), high, limit) if every.size else NONE

    def _up_to(self, low: int, high: int, parts: list[Ints]) -> Ints:
        """These edges and the single edges, in order, up to the first one after ``high``."""
        marks = np.array([*(m.edge for m in self.marks if m.edge > low), END], np.int64)
        edges = distinct(np.concatenate([*parts, marks]))
        return edges[: int(np.searchsorted(edges, high, "right")) + 1]

    def _of_coming(self, low: int, high: int) -> Ints:
        """Ascending edges after ``low`` up to the first one after ``high``, from a list that serves several pushes.

        1000 tumbling windows of random sizes, a push a second: 43 -> 7 us a push.
        """
        since, edges = self._coming
        if not (edges.size and since <= low and high < edges[-1]):
            every, phase = self._cuts
            listed = self._listed(every, phase, np.full(every.size, low), low + self._ahead, END)
            assert listed is not None
            edges = distinct(listed)
            self._coming = low, edges
        first, last = edges.searchsorted((low, high), "right").tolist()
        return edges[first : last + 1]

    def regular_width(self, grid: int) -> tuple[int, int] | None:
        """(width, phase) if all edges are one progression; otherwise None."""
        if self.marks or self.irregular or len(self.cuts) + bool(grid) != 1:
            return None
        return (grid, 0) if grid else (self.cuts[0].every, self.cuts[0].phase)

    def _listed(self, every: Ints, phase: Ints, after: Ints, until: int, limit: int) -> Ints | None:
        """Edges of progressions, each after its time, up to the first one after ``until``; None if above ``limit``."""
        while True:
            out = np.empty(self._listed_before, np.int64)
            n = int(list_edges(every, phase, after, np.int64(until), out))
            if n <= out.size:
                return out[:n] if n <= limit else None
            if n > limit:
                return None
            self._listed_before = n + n // 4  # the next batches need about as many

    def covers(self, ends: Ints) -> Mask:
        """Whether any window holds each slice."""
        if self.gapless:
            return np.ones(ends.size, np.bool_)
        found = np.zeros(ends.size, np.bool_)
        for bound in self.bounds:
            found |= bound.covers(ends)
        return found

    def lives(self, ends: Ints, h: int) -> Mask:
        """Whether a window that has not left the store (end > h) holds each slice."""
        # A slice that ends after h is in a live window, as it is in a window at all. A slice that ends earlier is in
        # the live windows that start before its end.
        live = (ends > h) | (ends > self.first_start(h))
        for bound in self._asks_slices:
            dead = np.flatnonzero(~live)
            live[dead] = bound.last_end(ends[dead]) > h
        return live

    def held_from(self, h: int) -> int:
        """No slice after this time has ever been evicted (see ``lives``)."""
        if self.tumbles:
            size, step, offset = self._kept[0]
            return min(h, ((h - size - offset) // step + 1) * step + offset)
        return BEGIN if self._asks_slices else min(h, self.first_start(h))

    def first_start(self, h: int) -> int:
        """The start of the earliest window that has not left the store."""
        first = END
        for bound in self._kept_others:
            first = min(first, bound.first_live_start(h))
        if len(self._kept) <= FOR_PYTHON:
            for size, step, offset in self._kept:
                if first <= h - size:  # all later types start after it
                    break
                first = min(first, ((h - size - offset) // step + 1) * step + offset)
            return first
        for sizes, steps, offsets in self._kept_parts:
            if first > h - int(sizes[0]):
                first = min(first, int((((h - sizes - offsets) // steps + 1) * steps + offsets).min()))
        return first

    def holds(self, ends: Ints, h: int) -> Mask:
        """Whether a live window holds each slice; slices may be in no window at all."""
        if self.gapless:
            return self.lives(ends, h)
        last = np.full(ends.size, BEGIN, np.int64)
        for bound in self.bounds:
            np.maximum(last, bound.last_end(ends), out=last)
        return last > h

    def due(self, ends: Ints, after: int, until: int) -> DueWindows:
        """The windows with ``after < end <= until`` that hold one of the slices, by end, type and start."""
        parts, in_order = [], True
        if self._sizes.size and ends.size:
            found, in_order = self._periodic_due(ends, after, until)
            if not in_order and not self._others:
                ordered = np.empty((5, found.shape[1]), np.int64)
                if by_end(found, ends.size, ordered):
                    found, in_order = ordered, True
            type, start, end, low, high = found
            parts.append(DueWindows(type, start, end, low, low, high))
        for i in self._others:
            start, end, need = self.bounds[i].due(ends, after, until)
            edges = np.concatenate([start, end, need])
            positions = np.empty_like(edges)
            positions_after(ends, edges, positions)
            low, high, need = positions.reshape(3, -1)
            parts.append(DueWindows(np.full(end.size, i, np.int64), start, end, low, need, high))
        if not parts:
            return DueWindows(*[NONE] * 6)
        due = parts[0] if len(parts) == 1 else DueWindows(*map(np.concatenate, zip(*parts, strict=True)))
        if len(parts) == 1 and in_order:
            return due
        return due.take(order_by(due.start, due.type, due.end))

    def are_windows(self, ends: Ints, gaps: bool) -> bool:
        """Whether these slices are the windows of the only type, each once and in order. ``gaps``: windows may be
        missing between them."""
        if not self.tumbles or not ends.size:
            return False
        every, phase, _ = self.cuts[0]
        if (ends[0] - phase) % every:
            return False
        if ends.size == 1:
            return True
        steps, count = ends[1:] - ends[:-1], ends.size - 1
        if int(ends[-1]) - int(ends[0]) == count * every:
            return bool(np.count_nonzero(steps == every) == count)
        return gaps and bool(np.count_nonzero((steps > 0) & (steps % every == 0)) == count)

    def most_due(self, ends: Ints, after: int, until: int) -> int:
        """At most how many windows are due for these slices."""
        first, last = max(after, int(ends[0]) - 1), int(ends[-1])
        found = [
            (min(until, last + size) - first) // step + 1
            for size, step, _ in (b.periodic for b in self.bounds if b.periodic)
        ]
        return sum(max(windows, 0) for windows in found)

    def _periodic_due(self, ends: Ints, after: int, until: int) -> tuple[Ints, bool]:
        room = np.empty(self._sizes.size, np.int64)
        capacity = self._due_before + self._due_before // 4  # a stream closes about as many windows in each push
        if ends.size > INDEXED:
            capacity = max(capacity, min(self.most_due(ends, after, until), MANY_DUE * ends.size))
        near, shift = NONE, 0
        if self._due_before > max(ends.size // 2, INDEXED):  # 15,000 windows of 16,000 slices: 0.7 -> 0.3 ms
            near = np.empty(2 * ends.size, np.int64)
            shift = index_of(ends, near)
        types = self._families, self._sizes, self._numbers
        while True:
            found = np.empty((5, capacity), np.int64)
            n, in_order = periodic_due(*types, ends, after, until, near, shift, room, found)
            if n <= capacity:
                break
            capacity = n
        self._due_before = max(n, 64)
        return found[:, :n], in_order


def _columns(progressions: Sequence[Progression]) -> Ints:
    columns: Ints = np.array(progressions or np.empty((0, 3)), np.int64).reshape(-1, 3).T.copy()
    return columns


def _families(bounds: Sequence[Bound]) -> tuple[Ints, Ints, Ints]:
    """Families of periodic types with equal ends: (first, last, every, phase) of each, and types' sizes and numbers."""
    keyed = []
    for number, bound in enumerate(bounds):
        if bound.periodic is not None:
            size, every, offset = bound.periodic
            keyed.append((every, (offset + size) % every, number, size))
    families: list[tuple[int, int, int, int]] = []
    for (every, phase), members in groupby(sorted(keyed), key=lambda k: k[:2]):
        first = families[-1][1] if families else 0
        families.append((first, first + len(list(members)), every, phase))
    table = np.array(families or np.empty((0, 4)), np.int64)
    sizes, numbers = (np.array([k[at] for k in sorted(keyed)], np.int64) for at in (3, 2))
    return table, sizes, numbers


def fused(progressions: list[Progression]) -> list[Progression]:
    """As few progressions as possible: a progression is left out if another one has its edges and lives as long."""
    longest: dict[tuple[int, int], int] = {}
    for p in progressions:
        key = (p.every, p.phase % p.every)
        longest[key] = max(longest.get(key, 0), p.horizon)
    if len(longest) == 1:
        return [Progression(*key, horizon) for key, horizon in longest.items()]
    kept: list[Progression] = []
    table = np.empty((3, len(longest)), np.int64)
    for (every, phase), horizon in sorted(longest.items(), key=lambda item: (item[0][0], -item[1])):
        e, f, h = table[:, : len(kept)]
        if not ((every % e == 0) & ((phase - f) % e == 0) & (h >= horizon)).any():
            table[:, len(kept)] = every, phase, horizon
            kept.append(Progression(every, phase, horizon))
    return kept
