"""``rows``, bound to a query. Each way to rank rows has its own class: by key or stream, by time or arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from slicing.columns.arrow_out import room
from slicing.columns.order import alike, order_by, stable_order
from slicing.kernels.rows import counted, cuts_by_rank
from slicing.system.arrays import Ints, Mask, read_only
from slicing.windows.bounds import BEGIN, FOREVER, LONGEST
from slicing.windows.rows.bound_rows import BoundRows, Fresh, OnAxis, SliceCuts
from slicing.windows.rows.row_table import OF_ALL, OF_KEY, PLACE, RANK, SINCE
from slicing.windows.rows.row_view import Found, View
from slicing.windows.rows.row_windows import Binding, by_group, nothing

Made = TypeVar("Made")


class Asked(Protocol):
    """The windows that a query asks for: of ``n`` rows, one every ``every`` rows. Rows that have fewer before them make
    a window if these are at least ``fewest`` (with ``every=1``)."""

    @property
    def n(self) -> int: ...
    @property
    def every(self) -> int: ...
    @property
    def partial(self) -> bool: ...
    @property
    def fewest(self) -> int: ...


class InSteps(NamedTuple):
    """Windows of one key that lie ``every`` rows apart: the position and the rank of the first one's first row (below 0
    if rows are missing there), and the times of the first and the last row of each."""

    first: int
    rank: int
    start: Ints
    end: Ints


class BoundRowCount(BoundRows):
    """Windows of ``n`` rows, one every ``every`` rows. The subclass ranks rows: by key or stream, by time or
    arrival."""

    partial: bool

    def __init__(self, asked: Asked, binding: Binding) -> None:
        self.number = binding.number
        self.n, self.every, self.partial, self.fewest = asked.n, asked.every, asked.partial, asked.fewest
        self.shows_ranks = binding.ranks
        self.closes_at_end = not self.partial
        self.notes = binding.added  # the number of rows that were evicted
        self.origin = BEGIN if binding.since is None else binding.since
        self.worth_slices = binding.slice_rows * len(self.edges) <= self.every

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        """Each row's rank, and the number of rows so far in each group (or in the stream)."""
        raise NotImplementedError

    def _find_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        """The rows by rank: (order, group, rank)."""
        raise NotImplementedError

    def first_rank(self, view: View) -> Ints | None:
        """For each group the rank of its first row, if the ranks of its rows follow each other; otherwise None."""
        return None

    def steady(self, view: View) -> InSteps | None:
        """The windows of one key, if they lie ``every`` rows apart. None if they do not."""
        if view.first.size != 1 or self.partial or not view.rows.one_each:
            return None
        rank = self.first_rank(view)
        if rank is None:
            return None
        short = 0 if rank[0] else self.n - self.fewest  # windows of fewer rows, before those of n rows
        at = -int(rank[0]) % self.every
        time = view.time[at:]
        count = max((time.size - self.n + short) // self.every + 1, 0)
        start, end = (time[row :: self.every][:count] for row in (0, self.n - 1 - short))
        if short and count:
            cut = alike(int(time[0]), min(short, count))
            start = cut if cut.size == count else np.concatenate([cut, start[: count - short]])
        return InSteps(at - short, int(rank[0]) + at - short, start, end)

    def at_each(self, view: View) -> Ints | None:
        """The bounds of each group's windows, if each row from the group's row number ``fewest`` on ends one. None
        otherwise."""
        rank = None if self.every > 1 or self.partial or not view.rows.one_each else self.first_rank(view)
        if rank is None or np.count_nonzero(rank):
            return None
        return np.append(0, np.cumsum(np.maximum(np.diff(view.bounds) - (self.fewest - 1), 0)))

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return nothing()
        if not self.partial and self.first_rank(view) is not None:
            first, last, group, start, end, low = self._once(view, self._find_counted)
            return Found(None, first, last, group, start, end, end, *self._between(low), in_order=True)
        first, last, low = self._whole(view)
        order, of, ranks = self._in_order(view)
        whole = first.size
        if self.partial:
            total = self._ranks(view)[1]
            short = np.flatnonzero((ranks >= 0) & (ranks % self.every == 0) & (ranks + self.n > total[of]))
            ends = np.searchsorted(of, of[short], "right")
            first, last, low = np.append(first, short), np.append(last, ends), np.append(low, ranks[short])
        start, end = self._span(view, first, last)
        closes = end.copy()
        closes[whole:] = FOREVER
        return self._found(view, Found(order, first, last, of[first], start, end, closes, *self._between(low)))

    def _between(self, low: Ints) -> tuple[Ints | None, Ints | None]:
        """The ranks that windows begin at and end before, of the ranks that windows of ``n`` rows would begin at."""
        if not self.shows_ranks:
            return None, None
        return low if self.fewest == self.n else np.maximum(low, 0), low + self.n

    def _found(self, view: View, found: Found) -> Found:
        """The windows as they are emitted."""
        return found

    @property
    def edges(self) -> list[int]:
        """The first ranks at which windows begin and end; further edges follow in steps of ``every``."""
        return [0] if self.n % self.every == 0 else [0, self.n]

    @property
    def fits_axis(self) -> bool:
        return max(self.n, self.every) <= LONGEST

    def _once(self, view: View, find: Callable[[View], Made]) -> Made:
        """``find(view)``, computed once for each view."""
        key = (self.number, find.__name__)
        if key not in view.memo:
            view.memo[key] = find(view)
        found: Made = view.memo[key]
        return found

    def _ranks(self, view: View) -> tuple[Ints, Ints]:
        return self._once(view, self._find_ranks)

    def _in_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        return self._once(view, self._find_order)

    def _whole(self, view: View) -> tuple[Ints, Ints, Ints]:
        """Windows all of whose rows are here: first row, last row + 1 (by rank), and first rank: below 0 if a window
        has fewer than ``n`` rows."""
        return self._once(view, self._find_whole)

    def _completes(self, rank: Ints) -> Mask:
        """Rows that are the last row of a window."""
        completes: Mask = (rank >= self.fewest - 1) & ((rank + 1 - self.n) % self.every == 0)
        return completes

    def _next_start(self, settled: Ints) -> Ints:
        """The first rank that open windows need after ``settled`` rows, or ``settled`` if no open window needs
        earlier rows."""
        return np.minimum(np.maximum((settled - self.n) // self.every + 1, 0) * self.every, settled)

    def _more(self, before: Ints, after: Ints, groups: int) -> Mask:
        """Groups that have more whole windows after ``after`` rows than after ``before`` rows."""
        whole = (np.maximum((ranked - self.fewest) // self.every, -1) for ranked in (before, after))
        return np.broadcast_to(np.less(*whole), groups)

    def _find_whole(self, view: View) -> tuple[Ints, Ints, Ints]:
        if self.first_rank(view) is not None:
            first, last, _, _, _, low = self._once(view, self._find_counted)
            return first, last, low
        _, of, ranks = self._in_order(view)
        last = np.flatnonzero(self._completes(ranks))
        before = np.minimum(ranks[last], self.n - 1)
        here = last >= before  # other rows end windows whose first rows were evicted
        last, before = last[here], before[here]
        first = last - before
        full = (of[first] == of[last]) & (ranks[first] == ranks[last] - before)
        last = last[full]
        return first[full], last + 1, ranks[last] + 1 - self.n

    def _find_counted(self, view: View) -> list[Ints]:
        """If the ranks of rows follow each other: first row, last row + 1, group, times of the first and the last row,
        and first rank."""
        cells = view.rows
        columns = [room(len(cells)) for _ in range(6 if self.shows_ranks else 5)]
        columns += [] if self.shows_ranks else [room(0)]
        sizes = np.empty(0, np.int64) if cells.one_each else cells.sizes
        facts = view.bounds, self.first_rank(view), sizes, read_only(view.fact(SINCE)), read_only(view.time)
        found = counted(*facts, *np.array([self.n, self.every, self.fewest]), *columns)
        return [column[:found] for column in columns]

    def _span(self, view: View, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The times of the first and the last row of each range."""
        order = self._in_order(view)[0]
        since, time = (c if order is None else c[order] for c in (view.fact(SINCE), view.time))
        return since[first], time[last - 1]


class KeyRanks(BoundRowCount):
    """Ranks each key's rows by (time, sequence, arrival). A cell may hold several rows."""

    ranked_by = RANK

    def __init__(self, asked: Asked, binding: Binding) -> None:
        super().__init__(asked, binding)
        self.tiles = self.n % self.every == 0  # otherwise slices are fused across the ends of windows
        self.wakes = binding.arrives_in_order
        self.needs_rows = None if self.worth_slices else self.needs_rows
        self.alone = not binding.keyed

    def on_axis(self) -> OnAxis | None:
        return OnAxis(None, self.n, self.every, self.partial) if self.alone and self.fits_axis else None

    def cuts(self, fresh: Fresh) -> SliceCuts:
        edges, at = self.edges, np.empty(fresh.time.size, np.int64)
        return SliceCuts(
            at[: cuts_by_rank(fresh.bounds, fresh.base, np.array(edges), np.full(len(edges), self.every), at)]
        )

    def begins(self, view: View) -> Mask:
        begins: Mask = self._ranks(view)[0] % self.every == 0
        return begins

    def needs(self, view: View, h: int) -> Ints:
        if not len(view.rows):
            return view.first
        before = view.rows.counted
        starts = self._next_start(view.base + before(view.before(h)) - before(view.first))
        if view.rows.one_each:
            return np.clip(view.first + starts - view.base, view.first, view.last)
        return view.first_of(self._ranks(view)[0] >= starts[view.group])

    def note(self, view: View, h: int, left: Ints) -> Ints:
        return view.base + left

    def stirs(self, view: View, until: int) -> Mask:
        if self.notes or self.every > self.n:
            return super().stirs(view, until)
        after = view.base + view.rows.counted(view.last) - view.rows.counted(view.first)
        return self._more(view.base, after, view.first.size)

    def wake(self, view: View, until: int, h: int) -> Ints:
        """With rows that were final on arrival, a window may have to wait for time alone."""
        due, steady = super().wake(view, until, h), self.steady(view)
        if steady is not None:
            closes = steady.end
            at = int(np.searchsorted(closes, until))
            return due if at == closes.size else np.minimum(due, closes[at])
        first, last, _ = self._whole(view)
        closes = view.time[last - 1]
        waits = closes >= until
        np.minimum.at(due, view.group[first[waits]], closes[waits])
        return due

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        before = view.rows.counted
        origin = view.base - before(view.first)
        return before(np.arange(len(view.rows))) + origin[view.group], before(view.last) + origin

    def _find_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        return None, view.group, self._ranks(view)[0]

    def first_rank(self, view: View) -> Ints:
        return view.base

    def steady(self, view: View) -> InSteps | None:
        return None if self.notes else super().steady(view)

    def at_each(self, view: View) -> Ints | None:
        return None if self.notes else super().at_each(view)


class StreamRanks(BoundRowCount):
    """Ranks the rows of all keys by (time, sequence, arrival); windows are split by key."""

    ranked_by = PLACE
    by_key = False

    def __init__(self, asked: Asked, binding: Binding) -> None:
        super().__init__(asked, binding)
        self.needs_rows = None if self.fits_axis and self.worth_slices else self.needs_rows

    def on_axis(self) -> OnAxis | None:
        return OnAxis(None, self.n, self.every, self.partial)

    def needs(self, view: View, h: int) -> Ints:
        if not len(view.rows):
            return view.first
        rank, _ = self._ranks(view)
        placed = view.placed - self._first_place(view)
        settled = np.maximum([placed + int(((view.time < h) & (rank >= placed)).sum())], 0)
        return view.first_of(rank >= self._next_start(settled)[0])

    def note(self, view: View, h: int, left: Ints) -> Ints:
        known = view.noted is not None and bool(view.noted[0])  # also if its rows are gone
        final = known or bool((view.time < h).any())
        return np.full(view.first.size, self._first_place(view) + 1 if final else 0)

    def stirs(self, view: View, until: int) -> Mask:
        if self.notes or self.every > self.n:
            return super().stirs(view, until)
        return self._more(np.array([view.placed]), np.array([view.placed + len(view.rows)]), view.first.size)

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        rank = view.place - self._first_place(view)
        return rank, np.array([int(rank.max()) + 1])

    def _first_place(self, view: View) -> int:
        """The place of the first row that the window sees, if it was added while the stream ran; otherwise 0."""
        if view.noted is None:
            return 0
        return int(view.noted[0]) - 1 if view.noted[0] else int(view.place.min())

    def _find_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        return _of_stream(self._ranks(view)[0])

    def _found(self, view: View, found: Found) -> Found:
        return _split(view, found, None, self._ranks(view)[0])


class KeyArrivals(BoundRowCount):
    """Ranks each key's rows by arrival; times need not ascend."""

    ranked_by = OF_KEY
    wakes = True  # a window whose last row is final may still wait for other rows
    needs_rows = "counts them as they come, which need not be in order of time"

    def __init__(self, asked: Asked, binding: Binding) -> None:
        super().__init__(asked, binding)
        self.notes = True  # the number of windows that have closed

    def needs(self, view: View, h: int) -> Ints:
        if not len(view.rows):
            return view.first
        return view.first_of(self._ranks(view)[0] >= (self._done(view, h) * self.every)[view.group])

    def note(self, view: View, h: int, left: Ints) -> Ints:
        return self._done(view, h)

    def stirs(self, view: View, until: int) -> Mask:
        """Groups with a row that completes a window. Windows that wait for other rows wake up through ``wake``."""
        return view.first_of(self._completes(self._ranks(view)[0])) < view.last

    def wake(self, view: View, until: int, h: int) -> Ints:
        rank = self._ranks(view)[0]
        waits = self._completes(rank) & ((rank + 1 - self.n) // self.every >= self._done(view, h)[view.group])
        return np.where(view.first_of(waits) < view.last, until, FOREVER)

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        return view.fact(OF_KEY) - view.base[view.group], view.of_key - view.base

    def _find_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        rank = self._ranks(view)[0]
        if self.first_rank(view) is not None:
            return None, view.group, rank
        order = order_by(rank, view.group)
        return order, view.group[order], rank[order]

    def first_rank(self, view: View) -> Ints | None:
        return self._once(view, self._find_first_rank)

    def _find_first_rank(self, view: View) -> Ints | None:
        rank = self._ranks(view)[0]
        follows = rank[1:] == rank[:-1] + 1
        follows[view.first[1:] - 1] = True
        if not (rank.size and follows.all()):
            return None
        first = rank[view.first]
        return first if first.min() >= 0 else None  # rows from before the window was added have no rank in it

    def _done(self, view: View, h: int) -> Ints:
        """For each group, the number of its first windows that close before ``h``."""
        assert view.noted is not None
        return self._closed(view, h, view.noted)

    def _closed(self, view: View, h: int, known: Ints) -> Ints:
        """For each group, the number of its first windows that close before ``h``, including the first ``known``
        windows."""
        _, of, _ = self._in_order(view)
        first, last, low = self._whole(view)
        closed = self._span(view, first, last)[1] < h
        group, number = of[first][closed], low[closed] // self.every
        group, number = (c[number >= known[group]] for c in (group, number))
        place = np.arange(group.size) - np.searchsorted(group, group)
        follows = group[number - known[group] == place]
        done: Ints = known + np.bincount(follows, minlength=known.size)
        return done

    def _span(self, view: View, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The earliest and the latest time of the rows in each range."""
        order = self._in_order(view)[0]
        if order is None or not first.size:
            return super()._span(view, first, last)
        time = view.time[order]
        pairs = np.stack([first, last], axis=1).ravel()
        low = np.minimum.reduceat(np.append(time, FOREVER), pairs)[::2]
        return low, np.maximum.reduceat(np.append(time, -FOREVER), pairs)[::2]


class StreamArrivals(KeyArrivals):
    """Ranks the rows of all keys by arrival; windows are split by key."""

    ranked_by = OF_ALL
    by_key = False

    def _find_ranks(self, view: View) -> tuple[Ints, Ints]:
        return view.fact(OF_ALL) - view.base[0], view.arrived - view.base[:1]

    def _find_order(self, view: View) -> tuple[Ints | None, Ints, Ints]:
        return _of_stream(self._ranks(view)[0])

    def first_rank(self, view: View) -> None:
        return None  # rows lie by key

    def _done(self, view: View, h: int) -> Ints:
        assert view.noted is not None
        return np.broadcast_to(self._closed(view, h, view.noted[:1]), view.first.size)

    def _found(self, view: View, found: Found) -> Found:
        rank = self._ranks(view)[0]
        order = order_by(rank, view.group)
        return _split(view, found, order, rank[order])


def _of_stream(rank: Ints) -> tuple[Ints, Ints, Ints]:
    """The rows of all keys by rank, as one group."""
    order = stable_order(rank)
    return order, np.zeros(rank.size, np.int64), rank[order]


def _split(view: View, found: Found, order: Ints | None, rank: Ints) -> Found:
    """Split windows of the whole stream by key. Rows taken by ``order`` have ascending ranks within a group."""
    low, high = found.rank_start, found.rank_end
    assert low is not None and high is not None
    which, group, first, last = by_group(view, rank, low, high)
    start, end, closes = (column[which] for column in (found.start, found.end, found.closes))
    return Found(order, first, last, group, start, end, closes, low[which], high[which])
