"""``per_row``: a window around each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slicing.columns.arrow_out import room
from slicing.kernels.rows import around, recent
from slicing.system.arguments import choice, says_arguments
from slicing.system.arrays import Ints
from slicing.times.durations import Span, amount, not_negative, parse_span
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN, FOREVER, LONGEST
from slicing.windows.builtin import Window
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.row_table import OF_KEY, RANK
from slicing.windows.rows.row_view import Found, View
from slicing.windows.rows.row_windows import ORDERS, Binding, RowWindow, whole_number


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
        """The number of ticks from a row's time back to the first tick of its range, and ahead to the last tick."""

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


@says_arguments
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

    ``per_row("5m")`` holds the rows of the last five minutes: ``(t - 5m, t]`` for a row at ``t``. The windows of rows
    with equal time hold each other's rows.

    Parameters
    ----------
    range
        How far the window reaches back: ``(t - delay - range, t - delay]``.
    every
        Only every ``every``-th row of a key has a window: first its row number ``every``.
    order
        How rows are counted for ``every``: by (time, sequence, arrival), or by arrival (``"arrival"``).
    delay
        The span between the end of the range and the row. ``per_row("7d", delay="1d")`` leaves out the last day.
    before, after
        Instead of ``range``: how far the window reaches to both sides, ``(t - before, t + after]``. A window with
        ``after`` is complete once the watermark has passed ``t + after``.
    closed
        Which ends of the range are included: ``"right"``, ``"left"``, ``"both"`` or ``"none"``. With
        ``per_row("5m", closed="left")``, a window leaves out its own row and all rows of equal time.

    Returns
    -------
    PerRow
        A window type for :class:`Spec`. In results, ``window_end`` is the time of the row that has the window.
        ``window_start`` is the time of the window's first row, or the row's own time if that is earlier. A range
        without rows gives no result.

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
    closed = choice(closed, "per_row's closed", _CLOSED)
    spans = {name: _part(span, name) for name, span in (("delay", delay), ("before", before), ("after", after))}
    if range is None and spans["delay"] != 0:
        raise TypeError(f"per_row takes a delay with a range, not with before and after; got delay={delay!r}")
    if range is None and not (spans["before"] or spans["after"]) and closed != "both":
        raise ValueError(f"per_row with before and after of 0 needs closed='both'; got closed={closed!r}")
    return PerRow(
        None if range is None else parse_span(range, "per_row's range", positive=True),
        whole_number(every, "per_row's every"),
        choice(order, "the order of per_row", ORDERS),
        spans["delay"] or 0,
        spans["before"],
        spans["after"],
        closed,
    )


_CLOSED = ("right", "left", "both", "none")


def _part(value: object, argument: str) -> Span | None:
    """A span of at least 0, or None; a span of no time becomes 0, whatever its unit."""
    if value is None:
        return None
    span = not_negative(value, f"per_row's {argument}")
    return span if amount(span) else 0


class BoundPerRow(BoundRows):
    wakes = True

    def __init__(self, window: PerRow, binding: Binding) -> None:
        self.number, self.every = binding.number, window.every
        self.ranked_by = OF_KEY if window.by_arrival else RANK if window.every > 1 else None
        self.revises = binding.revises
        self.back, self.ahead = window.reach(binding.measure)
        self.waits, self.needed = max(self.ahead, 0), max(self.back, 0)  # ticks after, and kept before, its row
        self.closes_at_end = self.waits == 0
        self.recent = self.ahead == 0 and self.back >= 0  # each window ends with its own row, and includes it
        # and each window is emitted once, for every row
        self.at_all_rows = self.recent and self.every == 1 and not (self.revises or binding.added)
        self.notes = binding.added and self.ranked_by == RANK
        if binding.since is not None and self.notes:
            self.origin = binding.since - self.needed  # a window is whole only if its full range is seen

    def note(self, view: View, h: int, left: Ints) -> Ints:
        return view.base + left

    def find(self, view: View, until: int) -> Found:
        begin = 0
        if view.first.size == 1:  # windows of earlier rows were already found
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
            if self.ranked_by == OF_KEY:
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
