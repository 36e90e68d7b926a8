"""Windows that begin and end at rows: ``punctuation`` and ``frame``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from slicing.columns.order import changes, distinct
from slicing.kernels.rows import alike, frames
from slicing.system.arguments import says_arguments, yes_or_no
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, FOREVER
from slicing.windows.builtin import Window
from slicing.windows.decide import Context
from slicing.windows.rows.bound_rows import BoundRows, Fresh, OnAxis, SliceCuts
from slicing.windows.rows.row_table import SINCE
from slicing.windows.rows.row_view import Found, View
from slicing.windows.rows.row_windows import Binding, RowWindow, by_group, flag_column, nothing

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
        return BoundPunctuation.of(self, binding)


@says_arguments
def punctuation(column: str | pc.Expression, *, per_key: bool = True) -> Punctuation:
    """Windows from mark to mark: a row whose boolean ``column`` is true begins a window, ``[p, next p)``.

    Marks of equal time count as one mark. Rows before the first mark form ``[first row, p)``. Rows since the last mark
    are emitted at the end of the stream, and their window ends with the time of the last row. With ``per_key=False``,
    a mark counts for every key.

    Parameters
    ----------
    column
        The boolean column of marks, or an expression; null is not a mark.
    per_key
        False: a mark ends and begins windows for all keys.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 3, 4], "new": [True, False, True, False]})
    >>> spec = sl.Spec("t", {"trip": sl.punctuation("new")}, {"n": sl.count()})
    >>> sl.aggregate(rows, spec).select(["window_start", "window_end", "n"]).to_pylist()
    [{'window_start': 1, 'window_end': 3, 'n': 2}, {'window_start': 3, 'window_end': 4, 'n': 2}]
    """
    return Punctuation(flag_column(column, "punctuation's column"), yes_or_no(per_key, "per_key"))


class BoundPunctuation(BoundRows):
    """Windows from mark to mark."""

    needs_rows = None

    def __init__(self, window: Punctuation, binding: Binding) -> None:
        self.number, self.flag, self.column = binding.number, binding.flags["column", window.column], window.column
        # if added later: rows before the first mark are part of a window that is not known in full
        self.added, self.anew = binding.added, binding.anew

    @staticmethod
    def of(window: Punctuation, binding: Binding) -> BoundPunctuation:
        return (KeyPunctuation if window.per_key or not binding.keyed else StreamPunctuation)(window, binding)

    def begins(self, view: View) -> Mask:
        return view.flagged(self.flag)

    def cuts(self, fresh: Fresh) -> SliceCuts:
        marked = np.flatnonzero(fresh.flag(self.flag))
        at = np.empty(marked.size, np.int64)
        at = at[: alike(fresh.bounds, fresh.time, marked, at)]
        begins, cut = np.zeros((2, fresh.time.size), np.bool_)
        begins[at] = cut[at] = cut[fresh.bounds[:-1]] = True
        return SliceCuts(np.flatnonzero(cut), of_first={self.flag: begins})


class KeyPunctuation(BoundPunctuation):
    """Windows of each key by the key's own marks."""

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return nothing()
        first = np.flatnonzero(self._begins(view))
        group, last = view.group[first], np.append(first[1:], len(view.rows))
        ended = last < view.last[group]
        since = view.fact(SINCE)
        closes = np.where(ended, since[np.minimum(last, len(view.rows) - 1)], FOREVER)
        end = np.where(ended, closes, view.time[last - 1])
        found = Found(None, first, last, group, since[first], end, closes, in_order=True)
        if not self.added:
            return found
        anew = (since[view.first] >= self.anew)[group]
        return found.take(self._marked(view)[first] | anew)

    def needs(self, view: View, h: int) -> Ints:
        begins = np.where(self._begins(view) & (view.time < h), np.arange(len(view.rows)), -1)
        return np.maximum(np.maximum.reduceat(begins, view.first), view.first) if view.first.size else view.first

    def stirs(self, view: View, until: int) -> Mask:
        return view.first_of(view.flagged(self.flag)) < view.last

    def _begins(self, view: View) -> Mask:
        """Rows that begin a window: the first row of each group, and the first row at the time of each mark."""
        begins = self._marked(view)
        begins[view.first] = True
        return begins

    def _marked(self, view: View) -> Mask:
        """The first row of each group at the time of each mark.

        By the times of first rows: rows that were kept one by one, for a window that is gone, are slices of one row,
        and the mark's own slice may have grown since.
        """
        marked = changes(view.fact(SINCE), view.group)
        at = np.flatnonzero(marked)
        marked[at] = np.logical_or.reduceat(view.flagged(self.flag), at)
        return marked


class StreamPunctuation(BoundPunctuation):
    """Windows of all keys by the marks of any key; windows are split by key."""

    by_key = False

    def on_axis(self) -> OnAxis:
        return OnAxis(self.column, 1, 1, True)

    def find(self, view: View, until: int) -> Found:
        if not len(view.rows):
            return nothing()
        earliest, latest = int(view.time.min()), int(view.time.max())
        marks = self._marks(view)
        low = distinct(np.append(marks, earliest))
        high = np.append(low[1:], FOREVER)
        which, group, first, last = by_group(view, view.time, low, high)
        closes, start = high[which], low[which]
        end = np.where(closes < FOREVER, closes, latest)
        found = Found(None, first, last, group, start, end, closes)
        return found.take(np.isin(start, marks)) if self.added else found

    def needs(self, view: View, h: int) -> Ints:
        marks = self._marks(view)
        settled = marks[marks < h]
        return view.before(int(settled[-1])) if settled.size else view.first

    def stirs(self, view: View, until: int) -> Mask:
        return np.broadcast_to(view.flagged(self.flag).any(), view.first.size)

    def _marks(self, view: View) -> Ints:
        return distinct(view.time[view.flagged(self.flag)])


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


@says_arguments
def frame(enter: str | pc.Expression, leave: str | pc.Expression, *, partial: bool = False) -> Frame:
    """Windows from a row where ``enter`` is true to the first row where ``leave`` is true, which may be the same row.

    Each key has its own frames. Inside an open frame, ``enter`` has no effect. ``window_start`` and ``window_end`` are
    the times of the first and the last row. With ``partial=True``, a frame that is still open when the stream (or the
    key, with ``idle``) ends is also emitted.

    Parameters
    ----------
    enter, leave
        Boolean columns or expressions, such as ``sl.col("value") > 100``; null is false.
    partial
        Also emit a frame that is open at the end.

    Examples
    --------
    >>> rows = pa.table({"t": [1, 2, 3, 4], "heat": [3, 9, 8, 2]})
    >>> spec = sl.Spec("t", {"hot": sl.frame(sl.col("heat") > 5, sl.col("heat") <= 5)}, {"n": sl.count()})
    >>> sl.aggregate(rows, spec).select(["window_start", "window_end", "n"]).to_pylist()
    [{'window_start': 2, 'window_end': 4, 'n': 3}]
    """
    columns = flag_column(enter, "frame's enter"), flag_column(leave, "frame's leave")
    return Frame(*columns, yes_or_no(partial, "partial"))


class BoundFrame(BoundRows):
    needs_rows = None

    def __init__(self, window: Frame, binding: Binding) -> None:
        self.number, self.partial = binding.number, window.partial
        self.enter, self.leave = binding.flags["enter", window.enter], binding.flags["leave", window.leave]
        # if added later, it knows whether a frame is open only after a row that leaves
        self.notes, self.origin = binding.added, BEGIN if binding.since is None else binding.since
        self.anew = binding.anew

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
            group = view.group[first]
            known = (view.noted[group] > 0) | (first > view.first_of(view.flagged(self.leave))[group])
            known |= self._anew(view)[group]
            first, last, open_ = first[known], last[known], open_[known]
        if not self.partial:
            first, last, open_ = first[~open_], last[~open_], open_[~open_]
        start, end = view.fact(SINCE)[first], view.time[last - 1]
        closes = np.where(open_, FOREVER, end)
        return Found(None, first, last, view.group[first], start, end, closes, in_order=True)

    def cuts(self, fresh: Fresh) -> SliceCuts:
        """Cut at rows where a frame may begin or end: inside a slice no frame does.

        A row that enters can begin a frame unless the row before it entered and did not leave. A row that leaves can
        end one unless the row before it left and did not enter."""
        enter, leave, keys = fresh.flag(self.enter), fresh.flag(self.leave), fresh.bounds[:-1]
        cut, after = enter.copy(), leave.copy()
        cut[1:] &= ~enter[:-1] | leave[:-1]
        after[1:] &= ~leave[:-1] | enter[1:]
        after[keys] = leave[keys]
        cut[1:] |= after[:-1]
        cut[keys] = True
        return SliceCuts(np.flatnonzero(cut), {self.enter: enter}, {self.leave: leave})

    def begins(self, view: View) -> Mask:
        begins = np.zeros(len(view.rows), np.bool_)
        begins[self._frames(view, FOREVER)[0]] = True
        return begins

    def note(self, view: View, h: int, left: Ints) -> Ints:
        assert view.noted is not None
        settled = view.before(h)
        left_one = view.first_of(view.flagged(self.leave)) < settled
        return view.noted | left_one | (self._anew(view) & (view.first < settled))

    def _anew(self, view: View) -> Mask:
        """Groups whose first row is here, and which no frame from before the window was added can reach."""
        anew: Mask = ~view.goes_on & (view.fact(SINCE)[view.first] >= self.anew)
        return anew

    def needs(self, view: View, h: int) -> Ints:
        return self._frames(view, h)[3]
