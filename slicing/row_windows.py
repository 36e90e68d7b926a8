"""Window types that rows decide: how users write them, and which ranges of a key's rows they are.

Each is a description (``Window``) and what it is bound to (``BoundRows``: ``find`` and ``needs``), nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.bounds import BEGIN, FOREVER
from slicing.decide import Context
from slicing.kernels.rows import counted, cover, frames, recent
from slicing.kernels.windows import window_ranges
from slicing.measure import Duration, Measure, parse_span
from slicing.rows import ARRIVAL, OF_ALL, OF_KEY, SINCE, BoundRows, Found, View
from slicing.windows import Window, flag_argument

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Span = Duration | int

_ORDERS = ("time", "arrival")


class Binding(NamedTuple):
    """What a window type is bound to: its number, the time column, where its columns are, whether there are keys."""

    number: int
    measure: Measure
    flags: Mapping[str, int]
    values: Mapping[str, int]
    types: Mapping[str, pa.DataType]
    keyed: bool
    since: int | None  # added while the stream ran: from when on it is whole

    @property
    def added(self) -> bool:
        return self.since is not None


class RowWindow:
    """A window type that only rows can tell; a spec with one keeps rows."""

    context: ClassVar[Context] = "forward aware"
    ranked: ClassVar[bool] = False  # its answers have rank_start and rank_end
    spans: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()  # its arguments that name boolean columns

    def flag_columns(self) -> tuple[str, ...]:
        """The boolean columns it reads."""
        return tuple(getattr(self, name) for name in self.flags)

    def columns(self) -> tuple[str, ...]:
        """The columns whose values it wants to see."""
        return ()

    def bind_rows(self, binding: Binding) -> BoundRows:
        raise NotImplementedError

    @property
    def by_arrival(self) -> bool:
        return getattr(self, "order", "time") == "arrival"

    @property
    def breaks_ties(self) -> bool:
        """Whether its answers depend on the order of rows of equal time."""
        return True

    @property
    def whole_stream(self) -> bool:
        """Made of the rows of all keys, and then split by key."""
        return not getattr(self, "per_key", True)


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
    that are short of rows when the stream (or the key, with ``idle``) ends.
    """
    n = _whole_number(n, "rows' n")
    return RowCount(
        n,
        n if every is None else _whole_number(every, "rows' every"),
        _order(order, "rows"),
        flag_argument(per_key, "per_key"),
        flag_argument(partial, "partial"),
    )


class BoundRowCount(BoundRows):
    def __init__(self, window: RowCount, binding: Binding) -> None:
        self.number = binding.number
        self.n, self.every, self.partial = window.n, window.every, window.partial
        self.per_key = window.per_key or not binding.keyed
        self.by_arrival = window.by_arrival
        self.notes, self.origin = binding.added, BEGIN if binding.since is None else binding.since
        self.by_key = self.per_key and not self.by_arrival
        self.counts = self.by_key and not self.notes

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return _nothing()
        rank, total = self._ranks(view)
        order, of, ranks = self._in_order(view, rank)
        if self.by_key:
            first, last, low = self._whole(view)
        else:
            first, last = self._full(of, ranks)
            low = ranks[first]
        time, since = (c if order is None else c[order] for c in (view.time, view.fact(SINCE)))
        start, end = _span(since, time, first, last, self.by_arrival)
        closes = end
        if self.partial:
            short = np.flatnonzero((ranks % self.every == 0) & (ranks + self.n > total[of]))
            ends = np.searchsorted(of, of[short], "right")
            first, last, low = np.append(first, short), np.append(last, ends), np.append(low, ranks[short])
            start, end = _span(since, time, first, last, self.by_arrival)
            closes = np.append(closes, np.full(short.size, FOREVER))
        if not self.per_key:
            return self._split(view, rank, low, start, end, closes)
        return Found(order, first, last, of[first], start, end, closes, low, low + self.n, low)

    def needs(self, view: View, h: int) -> Ints:
        if not len(view.rows):
            return view.first
        rank, total = self._ranks(view)
        if self.by_arrival:
            return view.first_of(self._held(view, rank, total, h))
        if self.per_key:
            settled = view.before(h)
            sizes = np.append(0, np.cumsum(view.rows.cells.rows))
            return view.first_of(rank >= self._next_start(view.base + sizes[settled] - sizes[view.first])[view.group])
        settled = np.array([view.placed + int(((view.time < h) & (rank >= view.placed)).sum())])
        return view.first_of(rank >= self._next_start(settled)[0])

    def note(self, view: View, settled: Ints, left: Ints) -> Ints:
        return view.base + left

    def _next_start(self, settled: Ints) -> Ints:
        """The first rank that a window needs which so many settled rows do not complete, or that is not settled."""
        return np.minimum(np.maximum((settled - self.n) // self.every + 1, 0) * self.every, settled)

    def _ranks(self, view: View) -> tuple[Ints, Ints]:
        """Each row's rank, and how many rows there are by now in each group (in the stream)."""
        if self.per_key and self.by_arrival:
            return view.fact(OF_KEY), view.of_key
        if self.per_key:
            sizes = np.append(0, np.cumsum(view.rows.cells.rows))
            origin = view.base - sizes[view.first]
            return sizes[:-1] + origin[view.group], sizes[view.last] + origin
        if self.by_arrival:
            return view.fact(OF_ALL), np.array([view.arrived])
        return view.place, np.array([int(view.place.max()) + 1])

    def _in_order(self, view: View, rank: Ints) -> tuple[Ints | None, Ints, Ints]:
        """Rows by rank: (order, group, rank)."""
        if self.per_key and not self.by_arrival:
            return None, view.group, rank
        order = np.lexsort((rank, view.group)) if self.per_key else np.argsort(rank)
        return order, view.group[order] if self.per_key else np.zeros(rank.size, np.int64), rank[order]

    def _full(self, of: Ints, ranks: Ints) -> tuple[Ints, Ints]:
        """Windows all of whose rows are here, by their last one."""
        last = np.flatnonzero((ranks >= self.n - 1) & ((ranks + 1 - self.n) % self.every == 0))
        last = last[last >= self.n - 1]  # earlier ones are of windows that have left, with their first rows
        first = last - (self.n - 1)
        full = (of[first] == of[last]) & (ranks[first] == ranks[last] - (self.n - 1))
        return first[full], last[full] + 1

    def _whole(self, view: View) -> tuple[Ints, Ints, Ints]:
        """The same of keys' rows by time, where cells may be several rows; with the first rank of each."""
        first, last, low = np.empty((3, len(view.rows)), np.int64)
        sizes, each = np.ascontiguousarray(view.rows.cells.rows), (np.int64(self.n), np.int64(self.every))
        found = counted(view.bounds, view.base, sizes, *each, first, last, low)
        return first[:found], last[:found], low[:found]

    def _held(self, view: View, rank: Ints, total: Ints, h: int) -> Mask:
        """Rows of windows that close at ``h`` or later, where ranks do not follow time."""
        order, of, ranks = self._in_order(view, rank)
        assert order is not None
        first, last = self._full(of, ranks)
        waits = _span(view.time[order], view.time[order], first, last, True)[1] >= h
        held = np.empty(rank.size, np.bool_)
        cover(first[waits], last[waits], rank.size, held)
        held |= ranks >= (np.maximum((total - self.n) // self.every + 1, 0) * self.every)[of]
        out = np.empty(rank.size, np.bool_)
        out[order] = held
        return out

    def _split(self, view: View, rank: Ints, low: Ints, start: Ints, end: Ints, closes: Ints) -> Found:
        """Windows of the whole stream, by key."""
        order = np.lexsort((rank, view.group)) if self.by_arrival else None
        value = rank if order is None else rank[order]
        which, group, first, last = _by_group(view, value, low, low + self.n)
        low = low[which]
        return Found(order, first, last, group, start[which], end[which], closes[which], low, low + self.n, low)


def _span(since: Ints, time: Ints, first: Ints, last: Ints, disordered: bool) -> tuple[Ints, Ints]:
    """The times of the first and the last row of each range."""
    if not disordered or not first.size:
        return since[first], time[last - 1]
    pairs = np.stack([first, last], axis=1).ravel()
    low = np.minimum.reduceat(np.append(time, FOREVER), pairs)[::2]
    return low, np.maximum.reduceat(np.append(time, -FOREVER), pairs)[::2]


def _by_group(view: View, value: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Which groups have rows with ``low <= value < high`` (ascending by group and value), and where."""
    windows = np.stack([low, low, np.arange(low.size)], axis=1)
    fixed = (np.array([0, low.size]), windows, high, True, view.bounds, value)
    at = np.zeros(low.size + 1, np.int64)
    n = window_ranges(*fixed, at[1:], np.empty((4, 0), np.int64))
    np.cumsum(at, out=at)
    which, first, last, _ = found = np.empty((4, n), np.int64)
    window_ranges(*fixed, at[:-1].copy(), found)
    return which, view.group[first], first, last


# --- marks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Punctuation(RowWindow, Window):
    _constructor: ClassVar[str] = "punctuation"
    context: ClassVar[Context] = "forward free"
    flags: ClassVar[tuple[str, ...]] = ("column",)
    column: str
    per_key: bool = True

    @property
    def breaks_ties(self) -> bool:
        return False

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundPunctuation(self, binding)


def punctuation(column: str, *, per_key: bool = True) -> Punctuation:
    """Windows from mark to mark: a row whose boolean ``column`` is true begins one, ``[p, next p)``.

    Marks of equal time are one mark. Rows before the first mark form ``[first row, p)``; the rows since the last one
    come at the end of the stream, up to the last row's time. ``per_key=False``: a mark is one for every key.
    """
    return Punctuation(_column(column, "punctuation's column"), flag_argument(per_key, "per_key"))


class BoundPunctuation(BoundRows):
    counts = False

    def __init__(self, window: Punctuation, binding: Binding) -> None:
        self.number, self.flag = binding.number, binding.flags[window.column]
        self.per_key = self.by_key = window.per_key or not binding.keyed
        self.added = binding.added  # then what comes before a mark is part of a window, and not known whole

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return _nothing()
        found = self._of_keys(view) if self.per_key else self._of_stream(view)
        if self.added:
            marks = self._marks(view) if not self.per_key else None
            found = found.take(np.isin(found.start, marks) if marks is not None else self._marked(view)[found.first])
        return found

    def _of_keys(self, view: View) -> Found:
        first = np.flatnonzero(self._begins(view))
        group, last = view.group[first], np.append(first[1:], len(view.rows))
        ended = last < view.last[group]
        closes = np.where(ended, view.time[np.minimum(last, len(view.rows) - 1)], FOREVER)
        end = np.where(ended, closes, view.time[last - 1])
        start = view.time[first]
        return Found(None, first, last, group, start, end, closes, None, None, start)

    def needs(self, view: View, h: int) -> Ints:
        if not self.per_key:
            marks = self._marks(view)
            settled = marks[marks < h]
            return view.before(int(settled[-1])) if settled.size else view.first
        begins = np.where(self._begins(view) & (view.time < h), np.arange(len(view.rows)), -1)
        return np.maximum(np.maximum.reduceat(begins, view.first), view.first) if view.first.size else view.first

    def _begins(self, view: View) -> Mask:
        """Rows that begin a window: the first of each group, and the first of those as late as a mark."""
        begins = self._marked(view)
        begins[view.first] = True
        return begins

    def _marked(self, view: View) -> Mask:
        """The first row of those of a group that are as late as a mark."""
        time, group = view.time, view.group
        marked = np.append(True, (time[1:] != time[:-1]) | (group[1:] != group[:-1]))
        at = np.flatnonzero(marked)
        marked[at] = np.logical_or.reduceat(view.flagged(self.flag), at)
        return marked

    def _marks(self, view: View) -> Ints:
        return np.unique(view.time[view.flagged(self.flag)])

    def _of_stream(self, view: View) -> Found:
        earliest, latest = int(view.time.min()), int(view.time.max())
        marks = self._marks(view)
        low = np.unique(np.append(marks, earliest))
        high = np.append(low[1:], FOREVER)
        which, group, first, last = _by_group(view, view.time, low, high)
        closes, start = high[which], low[which]
        end = np.where(closes < FOREVER, closes, latest)
        return Found(None, first, last, group, start, end, closes, None, None, start)


# --- frames ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Frame(RowWindow, Window):
    _constructor: ClassVar[str] = "frame"
    context: ClassVar[Context] = "forward free"
    flags: ClassVar[tuple[str, ...]] = ("enter", "leave")
    enter: str
    leave: str
    partial: bool = False

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundFrame(self, binding)


def frame(enter: str, leave: str, *, partial: bool = False) -> Frame:
    """Windows from a row where ``enter`` is true to the first one, itself included, where ``leave`` is.

    Each key has frames of its own; ``enter`` in an open frame means nothing. From its first row's time to its last
    one's. ``partial=True`` gives a frame that is open when the stream (or the key, with ``idle``) ends.
    """
    columns = _column(enter, "frame's enter"), _column(leave, "frame's leave")
    return Frame(*columns, flag_argument(partial, "partial"))


class BoundFrame(BoundRows):
    counts, by_key = False, True

    def __init__(self, window: Frame, binding: Binding) -> None:
        self.number, self.partial = binding.number, window.partial
        self.enter, self.leave = binding.flags[window.enter], binding.flags[window.leave]
        # added, it does not know whether a frame is open before it has seen a row that leaves
        self.notes, self.origin = binding.added, BEGIN if binding.since is None else binding.since

    def _frames(self, view: View, h: int) -> tuple[Ints, Ints, Mask, Ints]:
        n = len(view.rows)
        first, last = np.empty((2, n), np.int64)
        open_, needed = np.empty(n, np.bool_), view.last.copy()
        flags = view.flagged(self.enter), view.flagged(self.leave)
        found = frames(view.bounds, view.time, *flags, np.int64(h), first, last, open_, needed)
        return first[:found], last[:found], open_[:found], needed

    def find(self, view: View, until: int) -> Found:
        first, last, open_, _ = self._frames(view, FOREVER)
        if view.noted is not None:
            known = (view.noted[view.group[first]] > 0) | (
                first > view.first_of(view.flagged(self.leave))[view.group[first]]
            )
            first, last, open_ = first[known], last[known], open_[known]
        if not self.partial:
            first, last, open_ = first[~open_], last[~open_], open_[~open_]
        start, end = view.time[first], view.time[last - 1]
        closes = np.where(open_, FOREVER, end)
        return Found(None, first, last, view.group[first], start, end, closes, None, None, start)

    def note(self, view: View, settled: Ints, left: Ints) -> Ints:
        assert view.noted is not None
        return view.noted | (view.first_of(view.flagged(self.leave)) < view.first + settled)

    def needs(self, view: View, h: int) -> Ints:
        return self._frames(view, h)[3]


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
    return PerRow(span, _whole_number(every, "per_row's every"), _order(order, "per_row"))


class BoundPerRow(BoundRows):
    wakes = True

    def __init__(self, window: PerRow, binding: Binding) -> None:
        self.number, self.every, self.by_arrival = binding.number, window.every, window.by_arrival
        self.range = binding.measure.ticks(window.range, "range")
        self.notes, self.by_key = binding.since is not None and self.every > 1, not self.by_arrival
        if binding.since is not None and self.notes:
            self.origin = binding.since - self.range + 1  # it is whole from a range later
        self.counts = self.every > 1 and self.by_key and not self.notes

    def note(self, view: View, settled: Ints, left: Ints) -> Ints:
        return view.base + left

    def find(self, view: View, until: int) -> Found:
        rank = np.arange(len(view.rows)) + (view.base - view.first)[view.group]
        if self.by_arrival:
            rank = view.fact(OF_KEY)
        made_by = np.flatnonzero(rank % self.every == self.every - 1)
        first, last = np.empty((2, made_by.size), np.int64)
        recent(view.bounds, view.group, view.time, made_by, np.int64(self.range), first, last)
        group, start, time = view.group[made_by], view.time[first], view.time[made_by]
        return Found(None, first, last, group, start, time, time, None, None, view.fact(ARRIVAL)[made_by])

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
    return LastRows(_whole_number(n, "last_rows' n"), parse_span(every, "last_rows' every", positive=True))


class BoundLastRows(BoundRows):
    counts, by_key, wakes = False, True, True

    def __init__(self, window: LastRows, binding: Binding) -> None:
        self.number, self.n = binding.number, window.n
        self.added = binding.added  # then fewer rows are not known to be all
        self.every = binding.measure.ticks(window.every, "every")

    def find(self, view: View, until: int) -> Found:
        edge = (view.time // self.every + 1) * self.every
        closing = np.append(edge[1:] != edge[:-1], True)[: edge.size]
        closing[view.last - 1] = True
        last = np.flatnonzero(closing) + 1
        group, edge = view.group[last - 1], edge[last - 1]
        first = np.maximum(last - self.n, view.first[group])
        found = Found(None, first, last, group, view.time[first], edge, edge - 1, None, None, edge)
        return found.take(last - first == self.n) if self.added else found

    def wake(self, view: View, until: int, h: int) -> Ints:
        closes = (view.time[view.last - 1] // self.every + 1) * self.every - 1
        return np.where(closes < until, FOREVER, closes)

    def needs(self, view: View, h: int) -> Ints:
        return np.maximum(view.before(h) - self.n, view.first)


def _nothing() -> Found:
    return Found(None, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, None, None, _NONE)


_NONE = np.empty(0, np.int64)


def _whole_number(value: object, argument: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{argument} must be a whole number of rows, at least 1; got {value!r}")
    if value >= 1 << 62:  # ranks and their sums are int64
        raise ValueError(f"{argument} must be a whole number of rows, below 2**62; got {value!r}")
    return int(value)


def _order(value: object, function: str) -> str:
    if value not in _ORDERS:
        raise ValueError(f"the order of {function} must be 'time' or 'arrival'; got {value!r}")
    assert isinstance(value, str)
    return value


def _column(name: object, argument: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{argument} must be the name of a boolean column; got {name!r}")
    return name
