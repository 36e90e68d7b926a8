"""Windows that count rows: ``rows``, ``per_row`` and ``last_rows``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slicing.columns.arrow_out import room
from slicing.kernels.rows import around, before_edges, counted, cuts_by_rank, recent
from slicing.times.durations import Duration, parse_span
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, FOREVER, LONGEST
from slicing.windows.builtin import Window, flag_argument
from slicing.windows.decide import Context
from slicing.windows.rows.row_view import OF_ALL, OF_KEY, SINCE, BoundRows, Cuts, Found, Fresh, OnAxis, View
from slicing.windows.rows.row_windows import Binding, RowWindow, by_group, nothing, order_argument, whole_number

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

    Parameters
    ----------
    n
        How many rows a window has.
    every
        How many rows lie between the starts of windows; None: ``n``.
    order
        ``"time"`` or ``"arrival"``: by what rows are ranked.
    per_key
        False: rows of all keys are ranked together.
    partial
        Also give windows that are short of rows at the end.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12, 15], "v": [1, 2, 3, 4]})
    >>> sl.aggregate(rows, sl.Spec("t", {"two": sl.rows(2)}, {"s": sl.sum("v")}))["s"].to_pylist()
    [3, 7]
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

    def steady(self, view: View) -> tuple[int, Ints, Ints] | None:
        """Of one key's rows by time: where the first whole window begins, and the starts and the ends of all, which
        are ``every`` rows apart; None where they lie otherwise."""
        if not (self.by_time and view.rows.one_each and view.first.size == 1) or self.partial or self.notes:
            return None
        first = -int(view.base[0]) % self.every
        time = view.time[first:]
        count = max((time.size - self.n) // self.every + 1, 0)
        start, end = (time[at :: self.every][:count] for at in (0, self.n - 1))
        return first, start, end

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
        if self.by_arrival:
            return view.first_of(self._ranks(view)[0] >= (self._done(view, h) * self.every)[view.group])
        if self.per_key:
            counted = view.rows.counted
            starts = self._next_start(view.base + counted(view.before(h)) - counted(view.first))
            if view.rows.one_each:
                return np.clip(view.first + starts - view.base, view.first, view.last)
            return view.first_of(self._ranks(view)[0] >= starts[view.group])
        rank, _ = self._ranks(view)
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
        steady = self.steady(view)
        if steady is not None:
            due, closes = super().wake(view, until, h), steady[2]
            at = int(np.searchsorted(closes, until))
            return due if at == closes.size else np.minimum(due, closes[at])
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
        """Windows of keys' rows by time that have all their rows: first cell, last cell + 1 and first rank of each.

        A cell may be several rows.
        """
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
    spans: ClassVar[tuple[str, ...]] = ("range", "delay", "before", "after")
    range: Span | None
    every: int = 1
    order: str = "time"
    delay: Span = 0
    before: Span | None = None
    after: Span | None = None
    closed: str = "right"

    @property
    def breaks_ties(self) -> bool:
        return self.every > 1

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundPerRow(self, binding)

    def reach(self, measure: Measure) -> tuple[int, int]:
        """How many ticks before and after a row's time the first and the last tick of its range are."""

        def ticks(span: Span | None, argument: str) -> int:
            return 0 if span is None else measure.ticks(span, argument)

        if self.range is None:
            back, ahead = ticks(self.before, "before"), ticks(self.after, "after")
        else:
            delay = ticks(self.delay, "delay")
            back, ahead = delay + ticks(self.range, "range"), -delay
        back -= self.closed in ("right", "none")
        ahead -= self.closed in ("left", "none")
        if back + ahead < 0:
            raise ValueError(f"{self!r} holds no time: give a longer range, or closed='both'")
        if back + max(ahead, 0) > 2 * LONGEST:
            raise ValueError(f"{self!r} must reach less than 2**60 {measure.unit_name}")
        return back, ahead


def per_row(
    range: object = None,
    every: int = 1,
    *,
    order: str = "time",
    delay: object = 0,
    before: object = None,
    after: object = None,
    closed: str = "right",
) -> PerRow:
    """A window for each of a key's rows: the rows whose times lie in a range around the row's own.

    ``per_row("5m")`` holds the rows of the last five minutes, ``(t - 5m, t]`` of a row at ``t``. Rows of equal time
    see each other.

    Parameters
    ----------
    range
        How far the window reaches back: ``(t - delay - range, t - delay]``.
    every
        A window for every ``every``-th row of a key only.
    order
        How rows are counted for ``every``: by (time, sequence, arrival), or as they came (``"arrival"``).
    delay
        How long before the row its range ends. ``per_row("7d", delay="1d")`` leaves the last day out.
    before, after
        In place of ``range``: how far the window reaches to both sides, ``(t - before, t + after]``. A window with
        ``after`` is complete once the watermark has passed ``t + after``.
    closed
        Which ends of the range belong to it: ``"right"``, ``"left"``, ``"both"`` or ``"none"``. ``closed="left"``
        leaves the row itself, and rows of its time, out of ``per_row("5m")``.

    Returns
    -------
    PerRow
        A window type for :class:`Spec`. In results, ``window_end`` is the time of the row that made the window, and
        ``window_start`` the time of the window's first row (or the row's own, if that is earlier). A range without
        rows gives no result.

    Raises
    ------
    ValueError
        If a span is negative, or the range can hold no time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"t": [1, 2, 4, 8], "v": [1, 2, 3, 4]})
    >>> windows = {"past": sl.per_row(5, closed="left"), "around": sl.per_row(before=2, after=2, closed="both")}
    >>> found = sl.attach(rows, sl.Spec("t", windows, {"sum": sl.sum("v")}))
    >>> found["sum_past"].to_pylist(), found["sum_around"].to_pylist()
    ([None, 1, 3, 3], [3, 6, 5, 4])
    """
    if (range is None) == (before is None and after is None):
        raise TypeError(
            "per_row takes a range, or before and after in its place; got "
            + ("neither" if range is None else f"range={range!r}, before={before!r}, after={after!r}")
        )
    if closed not in _CLOSED:
        raise ValueError(f"per_row's closed must be one of {', '.join(map(repr, _CLOSED))}; got {closed!r}")
    spans = {name: _not_negative(span, name) for name, span in (("delay", delay), ("before", before), ("after", after))}
    if range is None and spans["delay"] != 0:
        raise TypeError(f"per_row takes a delay with a range, not with before and after; got delay={delay!r}")
    if range is None and not (spans["before"] or spans["after"]) and closed != "both":
        raise ValueError(f"per_row with before and after of 0 needs closed='both'; got closed={closed!r}")
    return PerRow(
        None if range is None else parse_span(range, "per_row's range", positive=True),
        whole_number(every, "per_row's every"),
        order_argument(order, "per_row"),
        spans["delay"] or 0,
        spans["before"],
        spans["after"],
        closed,
    )


_CLOSED = ("right", "left", "both", "none")


def _not_negative(value: object, argument: str) -> Span | None:
    """A span of at least 0; no time at all is 0, whatever its unit."""
    if value is None:
        return None
    span = parse_span(value, f"per_row's {argument}")
    amount = span.ns if isinstance(span, Duration) else span
    if amount < 0:
        raise ValueError(f"per_row's {argument} must not be negative; got {value!r}")
    return span if amount else 0


class BoundPerRow(BoundRows):
    wakes = True

    def __init__(self, window: PerRow, binding: Binding) -> None:
        self.number, self.every, self.by_arrival = binding.number, window.every, window.by_arrival
        self.revises = binding.revises
        self.back, self.ahead = window.reach(binding.measure)
        self.waits, self.needed = max(self.ahead, 0), max(self.back, 0)  # until it is complete; before it, to be kept
        self.recent = self.ahead == 0 and self.back >= 0  # it ends with the row, and holds it
        # and told once
        self.at_all_rows = self.recent and self.every == 1 and not (self.revises or binding.added)
        self.notes = binding.since is not None and self.every > 1 and not self.by_arrival
        if binding.since is not None and self.notes:
            self.origin = binding.since - self.needed  # it is whole from a range later
        self.counts = self.every > 1 and not self.by_arrival and not self.notes

    def note(self, view: View, h: int, left: Ints) -> Ints:
        return view.base + left

    def find(self, view: View, until: int) -> Found:
        begin = 0
        if view.first.size == 1:  # those before were told
            begin = int(np.searchsorted(view.time, max(view.settled - self.waits, BEGIN)))
        time, group = view.time[begin:], view.group[begin:]
        first, last, start = np.empty(time.size, np.int64), np.empty(time.size, np.int64), room(time.size)
        if self.recent:
            recent(view.bounds, view.time, np.int64(self.back + 1), np.int64(begin), first, last, start)
        else:
            reach = np.int64(self.back), np.int64(self.ahead)
            around(view.bounds, view.time, *reach, np.int64(begin), first, last, start)
        closes = time if self.waits == 0 else time + self.waits
        made_by = np.arange(begin, len(view.rows)) if self.every > 1 or self.revises else None
        found = Found(None, first, last, group, start, time, closes, made_by=made_by, in_order=True)
        chosen = None if self.recent else first < last
        if made_by is not None and self.every > 1:
            if self.by_arrival:
                rank = view.fact(OF_KEY)[begin:] - view.base[group]
            else:
                rank = made_by + (view.base - view.first)[group]
            counts = (rank >= 0) & (rank % self.every == self.every - 1)
            chosen = counts if chosen is None else chosen & counts
        return found if chosen is None else found.take(chosen)

    def wake(self, view: View, until: int, h: int) -> Ints:
        last = view.time[view.last - 1] + (self.waits + self.needed)
        due = np.where(last < h, FOREVER, last + (until - h))
        if self.waits == 0:
            return due
        waiting = view.before(max(until - self.waits, BEGIN))  # the first row whose window is not complete
        closes = view.time[np.minimum(waiting, view.last - 1)] + self.waits
        return np.where(waiting < view.last, closes, due)

    def needs(self, view: View, h: int) -> Ints:
        return view.before(max(h - self.waits - self.needed, BEGIN))


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

    Parameters
    ----------
    n
        How many rows a window has at most.
    every
        How far the ends of windows lie apart: a duration, or a whole number for integer columns.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12, 15], "v": [1, 2, 3, 4]})
    >>> sl.aggregate(rows, sl.Spec("t", {"w": sl.last_rows(3, every=10)}, {"s": sl.sum("v")}))["s"].to_pylist()
    [3, 9]
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
