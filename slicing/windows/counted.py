"""Windows that count rows: ``rows``, ``per_row`` and ``last_rows``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slicing.columns.arrow_out import room
from slicing.decide import Context
from slicing.durations import Duration, parse_span
from slicing.kernels.rows import before_edges, counted, cuts_by_rank, recent
from slicing.windows.bounds import BEGIN, FOREVER, LONGEST
from slicing.windows.builtin import Window, flag_argument
from slicing.windows.row_view import OF_ALL, OF_KEY, SINCE, BoundRows, Cuts, Found, Fresh, OnAxis, View
from slicing.windows.row_windows import Binding, RowWindow, by_group, nothing, order_argument, whole_number

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Span = Duration | int

FEWEST = 2  # rows between edges for slices to be kept instead


# --- counts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RowCount(RowWindow, Window):
    _constructor: ClassVar[str] = "rows"
    context: ClassVar[Context] = "forward free"
    ranked: ClassVar[bool] = True
    n: int
    every: int
    order: str = "time"
    per_key: bool = True
    partial: bool = False

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundRowCount(self, binding)


def rows(
    n: int, every: int | None = None, *, order: str = "time", per_key: bool = True, partial: bool = False
) -> RowCount:
    """Windows of ``n`` rows, one every ``every`` (default: side by side): the ranks ``[k*every, k*every + n)``.

    Rows are ranked by (time, sequence, arrival) or, with ``order="arrival"``, as they came; each key's rows, or with
    ``per_key=False`` those of the whole stream, and the window is then split by key. ``partial=True`` gives windows
    that are short of rows when the stream (or the key, with ``idle``) ends. ``window_start`` and ``window_end`` are the
    earliest and the latest time of the window's rows, in whatever order these came.
    """
    n = whole_number(n, "rows' n")
    return RowCount(
        n,
        n if every is None else whole_number(every, "rows' every"),
        order_argument(order, "rows"),
        flag_argument(per_key, "per_key"),
        flag_argument(partial, "partial"),
    )


class BoundRowCount(BoundRows):
    def __init__(self, window: RowCount, binding: Binding) -> None:
        self.number = binding.number
        self.n, self.every, self.partial = window.n, window.every, window.partial
        self.per_key = window.per_key or not binding.keyed
        self.by_arrival = window.by_arrival and (binding.added or not binding.arrives_in_order)
        self.notes = binding.added or self.by_arrival  # rows that were let go, or windows that have closed
        self.origin = BEGIN if binding.since is None else binding.since
        self.by_key = self.per_key
        self.by_time = self.per_key and not self.by_arrival
        self.by_place = not (self.per_key or self.by_arrival)
        if self.by_arrival:
            self.why_rows = "counts them as they come, which need not be in order of time"
        self.by_rank = self.by_time and self.n % self.every == 0  # else slices are fused across ends
        self.lies_on_axis = not binding.keyed and self.by_time and max(self.n, self.every) <= LONGEST
        self.wakes = self.by_arrival or (self.by_time and binding.arrives_in_order)
        self.counts = self.by_time and not self.notes

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return nothing()
        if self.by_time and not self.partial:
            first, last, low = self._whole(view)
            start, end = view.fact(SINCE)[first], view.time[last - 1]
            return Found(None, first, last, view.group[first], start, end, end, low, low + self.n, in_order=True)
        rank, total = self._ranks(view)
        order, of, ranks = self._in_order(view, rank)
        if self.by_time:
            first, last, low = self._whole(view)
        else:
            first, last = self._full(of, ranks)
            low = ranks[first]
        time, since = (c if order is None else c[order] for c in (view.time, view.fact(SINCE)))
        start, end = _span(since, time, first, last, self.by_arrival)
        closes = end
        if self.partial:
            short = np.flatnonzero((ranks >= 0) & (ranks % self.every == 0) & (ranks + self.n > total[of]))
            ends = np.searchsorted(of, of[short], "right")
            first, last, low = np.append(first, short), np.append(last, ends), np.append(low, ranks[short])
            start, end = _span(since, time, first, last, self.by_arrival)
            closes = np.append(closes, np.full(short.size, FOREVER))
        if not self.per_key:
            return self._split(view, rank, low, start, end, closes)
        return Found(order, first, last, of[first], start, end, closes, low, low + self.n)

    @property
    def slices(self) -> bool:  # type: ignore[override]
        """With fewer rows between edges on average, slices would be as much as rows."""
        if not (self.by_time or (self.by_place and max(self.n, self.every) <= LONGEST)):
            return False
        return FEWEST * len(self._edges()) <= self.every

    def on_axis(self) -> OnAxis:
        return OnAxis(None, self.n, self.every, self.partial)

    def _edges(self) -> list[int]:
        """The first ranks at which windows begin and end; others follow in steps of ``every``."""
        return [0] if self.n % self.every == 0 else [0, self.n]

    def cuts(self, fresh: Fresh) -> Cuts:
        edges, at = self._edges(), np.empty(fresh.time.size, np.int64)
        return Cuts(at[: cuts_by_rank(fresh.bounds, fresh.base, np.array(edges), np.full(len(edges), self.every), at)])

    def begins(self, view: View) -> Mask:
        begins: Mask = self._ranks(view)[0] % self.every == 0
        return begins

    def needs(self, view: View, h: int) -> Ints:
        if not len(view.rows):
            return view.first
        rank, _ = self._ranks(view)
        if self.by_arrival:
            return view.first_of(rank >= (self._done(view, h) * self.every)[view.group])
        if self.per_key:
            counted = view.rows.counted
            settled = view.base + counted(view.before(h)) - counted(view.first)
            return view.first_of(rank >= self._next_start(settled)[view.group])
        placed = view.placed - self._first_place(view)
        settled = np.maximum([placed + int(((view.time < h) & (rank >= placed)).sum())], 0)
        return view.first_of(rank >= self._next_start(settled)[0])

    def note(self, view: View, h: int, left: Ints) -> Ints:
        if self.by_arrival:
            return self._done(view, h)
        if self.per_key:
            return view.base + left
        final = bool((view.time < h).any())
        return np.full(view.first.size, self._first_place(view) + 1 if final else 0)

    def stirs(self, view: View, until: int) -> Mask:
        if not self.by_arrival and (self.notes or self.every > self.n):
            return super().stirs(view, until)
        if self.by_arrival:  # those whose windows wait for others wake up by themselves
            found = self._completes(self._ranks(view)[0])
            return view.first_of(found) < view.last
        if self.per_key:
            before = view.base
            after = before + view.rows.counted(view.last) - view.rows.counted(view.first)
        else:
            before, after = np.array([view.placed]), np.array([view.placed + len(view.rows)])
        whole = (np.maximum((ranked - self.n) // self.every, -1) for ranked in (before, after))
        stirred: Mask = np.less(*whole)
        return np.broadcast_to(stirred, view.first.size)

    def wake(self, view: View, until: int, h: int) -> Ints:
        """A window whose last row is final may wait for others; or, of rows that were final as they came, for time."""
        if self.by_time:
            first, last, _ = self._whole(view)
            due, closes = super().wake(view, until, h), view.time[last - 1]
            waits = closes >= until
            np.minimum.at(due, view.group[first[waits]], closes[waits])
            return due
        if not self.by_arrival:
            return super().wake(view, until, h)
        rank = self._ranks(view)[0]
        waits = self._completes(rank) & ((rank + 1 - self.n) // self.every >= self._done(view, h)[view.group])
        return np.where(view.first_of(waits) < view.last, until, FOREVER)

    def _completes(self, rank: Ints) -> Mask:
        """Rows that are the last one of a window."""
        completes: Mask = (rank >= self.n - 1) & ((rank + 1 - self.n) % self.every == 0)
        return completes

    def _next_start(self, settled: Ints) -> Ints:
        """The first rank that a window needs which so many settled rows do not complete, or that is not settled."""
        return np.minimum(np.maximum((settled - self.n) // self.every + 1, 0) * self.every, settled)

    def _ranks(self, view: View) -> tuple[Ints, Ints]:
        """Each row's rank, and how many rows there are by now in each group (in the stream)."""
        known: tuple[Ints, Ints] | None = view.memo.get((self.number, "ranks"))
        if known is None:
            known = view.memo[self.number, "ranks"] = self._find_ranks(view)
        return known

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        if self.per_key and self.by_arrival:
            return view.fact(OF_KEY) - view.base[view.group], view.of_key - view.base
        if self.per_key:
            counted = view.rows.counted
            origin = view.base - counted(view.first)
            return counted(np.arange(len(view.rows))) + origin[view.group], counted(view.last) + origin
        if self.by_arrival:
            return view.fact(OF_ALL) - view.base[0], view.arrived - view.base[:1]
        rank = view.place - self._first_place(view)
        return rank, np.array([int(rank.max()) + 1])

    def _first_place(self, view: View) -> int:
        """The place of the first row that it sees, if it was added while the stream ran."""
        if view.noted is None:
            return 0
        return int(view.noted[0]) - 1 if view.noted[0] else int(view.place.min())

    def _in_order(self, view: View, rank: Ints) -> tuple[Ints | None, Ints, Ints]:
        """Rows by rank: (order, group, rank)."""
        if self.per_key and not self.by_arrival:
            return None, view.group, rank
        order = np.lexsort((rank, view.group)) if self.per_key else np.argsort(rank)
        return order, view.group[order] if self.per_key else np.zeros(rank.size, np.int64), rank[order]

    def _full(self, of: Ints, ranks: Ints) -> tuple[Ints, Ints]:
        """Windows all of whose rows are here, by their last one."""
        last = np.flatnonzero(self._completes(ranks))
        last = last[last >= self.n - 1]  # earlier ones are of windows that have left, with their first rows
        first = last - (self.n - 1)
        full = (of[first] == of[last]) & (ranks[first] == ranks[last] - (self.n - 1))
        return first[full], last[full] + 1

    def _whole(self, view: View) -> tuple[Ints, Ints, Ints]:
        """The same of keys' rows by time, where cells may be several rows; with the first rank of each."""
        known: tuple[Ints, Ints, Ints] | None = view.memo.get((self.number, "whole"))
        if known is None:
            first, last, low = np.empty((3, len(view.rows)), np.int64)
            each = np.int64(self.n), np.int64(self.every)
            found = counted(view.bounds, view.base, view.rows.sizes, *each, first, last, low)
            known = view.memo[self.number, "whole"] = first[:found], last[:found], low[:found]
        return known

    def _done(self, view: View, h: int) -> Ints:
        """Where ranks do not follow time: how many windows of each group, from the first on, close before ``h``."""
        assert view.noted is not None
        order, of, ranks = self._in_order(view, self._ranks(view)[0])
        assert order is not None
        first, last = self._full(of, ranks)
        closed = _span(view.time[order], view.time[order], first, last, True)[1] < h
        group, number = of[first][closed], ranks[first][closed] // self.every
        known = view.noted if self.per_key else view.noted[:1]
        group, number = (c[number >= known[group]] for c in (group, number))
        place = np.arange(group.size) - np.searchsorted(group, group)
        follows = group[number - known[group] == place]
        done: Ints = known + np.bincount(follows, minlength=known.size)
        return done if self.per_key else np.broadcast_to(done, view.first.size)

    def _split(self, view: View, rank: Ints, low: Ints, start: Ints, end: Ints, closes: Ints) -> Found:
        """Windows of the whole stream, by key."""
        order = np.lexsort((rank, view.group)) if self.by_arrival else None
        value = rank if order is None else rank[order]
        which, group, first, last = by_group(view, value, low, low + self.n)
        low = low[which]
        return Found(order, first, last, group, start[which], end[which], closes[which], low, low + self.n)


def _span(since: Ints, time: Ints, first: Ints, last: Ints, disordered: bool) -> tuple[Ints, Ints]:
    """The times of the first and the last row of each range."""
    if not disordered or not first.size:
        return since[first], time[last - 1]
    pairs = np.stack([first, last], axis=1).ravel()
    low = np.minimum.reduceat(np.append(time, FOREVER), pairs)[::2]
    return low, np.maximum.reduceat(np.append(time, -FOREVER), pairs)[::2]


# --- a window for each row ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PerRow(RowWindow, Window):
    _constructor: ClassVar[str] = "per_row"
    spans: ClassVar[tuple[str, ...]] = ("range",)
    range: Span
    every: int = 1
    order: str = "time"

    @property
    def breaks_ties(self) -> bool:
        return self.every > 1

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundPerRow(self, binding)


def per_row(range: object, every: int = 1, *, order: str = "time") -> PerRow:
    """A window for each of a key's rows, or every ``every``-th: the rows of the last ``range``, ``(t - range, t]``.

    Rows of equal time see each other. From the first row's time to that of the row that made it. Which row is the
    ``every``-th goes by (time, sequence, arrival) or, with ``order="arrival"``, as they came.
    """
    span = parse_span(range, "per_row's range", positive=True)
    return PerRow(span, whole_number(every, "per_row's every"), order_argument(order, "per_row"))


class BoundPerRow(BoundRows):
    wakes = True

    def __init__(self, window: PerRow, binding: Binding) -> None:
        self.number, self.every, self.by_arrival = binding.number, window.every, window.by_arrival
        self.revises = binding.revises
        self.at_all_rows = self.every == 1 and not (self.revises or binding.added)  # and told once
        self.range = binding.measure.ticks(window.range, "range")
        self.notes = binding.since is not None and self.every > 1 and not self.by_arrival
        if binding.since is not None and self.notes:
            self.origin = binding.since - self.range + 1  # it is whole from a range later
        self.counts = self.every > 1 and not self.by_arrival and not self.notes

    def note(self, view: View, h: int, left: Ints) -> Ints:
        return view.base + left

    def find(self, view: View, until: int) -> Found:
        begin = 0 if view.first.size > 1 else int(np.searchsorted(view.time, view.settled))  # those before were told
        time, group = view.time[begin:], view.group[begin:]
        first, last, start = np.empty(time.size, np.int64), np.empty(time.size, np.int64), room(time.size)
        recent(view.bounds, view.time, np.int64(self.range), np.int64(begin), first, last, start)
        made_by = np.arange(begin, len(view.rows)) if self.every > 1 or self.revises else None
        found = Found(None, first, last, group, start, time, time, made_by=made_by, in_order=True)
        if made_by is None or self.every == 1:
            return found
        if self.by_arrival:
            rank = view.fact(OF_KEY)[begin:] - view.base[group]
        else:
            rank = made_by + (view.base - view.first)[group]
        return found.take((rank >= 0) & (rank % self.every == self.every - 1))

    def wake(self, view: View, until: int, h: int) -> Ints:
        last = view.time[view.last - 1] + self.range - 1
        return np.where(last < h, FOREVER, last + (until - h))

    def needs(self, view: View, h: int) -> Ints:
        return view.before(h - self.range + 1)


# --- the last rows at an edge ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LastRows(RowWindow, Window):
    _constructor: ClassVar[str] = "last_rows"
    spans: ClassVar[tuple[str, ...]] = ("every",)
    n: int
    every: Span

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundLastRows(self, binding)


def last_rows(n: int, every: object) -> LastRows:
    """At every multiple of ``every``, the key's last ``n`` rows before it (all, while there are fewer).

    An edge gives a row only if the key had one since the edge before. From the first row's time to the edge.
    """
    return LastRows(whole_number(n, "last_rows' n"), parse_span(every, "last_rows' every", positive=True))


class BoundLastRows(BoundRows):
    counts, wakes = False, True

    def __init__(self, window: LastRows, binding: Binding) -> None:
        self.number, self.n = binding.number, window.n
        self.added, self.anew = binding.added, binding.anew  # then fewer rows are not known to be all
        self.every = binding.measure.ticks(window.every, "every")

    def find(self, view: View, until: int) -> Found:
        last = np.empty(len(view.rows), np.int64)
        last = last[: before_edges(view.bounds, view.time, np.int64(self.every), last)]
        group, edge = view.group[last - 1], (view.time[last - 1] // self.every + 1) * self.every
        first = np.maximum(last - self.n, view.first[group])
        found = Found(None, first, last, group, view.time[first], edge, edge - 1, in_order=True)
        if not self.added:
            return found
        return found.take((last - first == self.n) | (view.fact(SINCE)[view.first] >= self.anew)[group])

    def wake(self, view: View, until: int, h: int) -> Ints:
        closes = (view.time[view.last - 1] // self.every + 1) * self.every - 1
        return np.where(closes < until, FOREVER, closes)

    def needs(self, view: View, h: int) -> Ints:
        return np.maximum(view.before(h) - self.n, view.first)
