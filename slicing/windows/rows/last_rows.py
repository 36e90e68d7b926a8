"""``last_rows``: the last rows of a key at every edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slicing.kernels.rows import before_edges
from slicing.system.arguments import says_arguments
from slicing.system.arrays import Ints
from slicing.times.durations import Span, parse_span
from slicing.windows.bounds import FOREVER
from slicing.windows.builtin import Window
from slicing.windows.rows.bound_rows import BoundRows
from slicing.windows.rows.row_table import SINCE
from slicing.windows.rows.row_view import Found, View
from slicing.windows.rows.row_windows import Binding, RowWindow, whole_number


@dataclass(frozen=True, repr=False)
class LastRows(RowWindow, Window):
    _constructor: ClassVar[str] = "last_rows"
    spans: ClassVar[tuple[str, ...]] = ("every",)
    n: int
    every: Span

    def bind_rows(self, binding: Binding) -> BoundRows:
        return BoundLastRows(self, binding)


@says_arguments
def last_rows(n: int, every: object) -> LastRows:
    """At every multiple of ``every``, the last ``n`` rows of a key before it (all rows, while there are fewer).

    An edge gives a result only if the key has had a row since the previous edge. ``window_start`` is the time of the
    first row, and ``window_end`` is the edge.

    Parameters
    ----------
    n
        The largest number of rows in a window.
    every
        The distance between the ends of windows: a duration, or a whole number for integer columns.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 12, 15], "v": [1, 2, 3, 4]})
    >>> sl.aggregate(rows, sl.Spec("t", {"w": sl.last_rows(3, every=10)}, {"s": sl.sum("v")}))["s"].to_pylist()
    [3, 9]
    """
    return LastRows(whole_number(n, "last_rows' n"), parse_span(every, "last_rows' every", positive=True))


class BoundLastRows(BoundRows):
    wakes = True

    def __init__(self, window: LastRows, binding: Binding) -> None:
        self.number, self.n = binding.number, window.n
        self.added, self.anew = binding.added, binding.anew  # if added later, fewer than n rows may not be all
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

    def latest_end(self, time: int) -> int:
        return (time // self.every + 1) * self.every

    def wake(self, view: View, until: int, h: int) -> Ints:
        closes = (view.time[view.last - 1] // self.every + 1) * self.every - 1
        return np.where(closes < until, FOREVER, closes)

    def needs(self, view: View, h: int) -> Ints:
        return np.maximum(view.before(h) - self.n, view.first)
