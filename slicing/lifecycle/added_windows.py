"""From when on a window that is added to a running stream has missed no row. Slices may hold rows of before it came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import Ints, Mask
from slicing.windows.bounds import BEGIN, END, LIMIT, Bound, BoundFixed, BoundLandmark
from slicing.windows.builtin import Session
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.edges import EdgeSet
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_count import RowCount
from slicing.windows.rows.row_windows import RowWindow


def whole_since(state: State, plan: Plan, name: str) -> int:
    """The time from which windows of the new type have missed no row: windows that start then or later (``per_row``:
    that end). BEGIN: no window has missed a row.

    A date64 is kept in milliseconds; its time is rounded up to a whole day.
    """
    tick, day = _unrounded(state, plan, name), 86_400_000 if pa.types.is_date64(plan.measure.type) else 1
    return tick if tick <= BEGIN else -(-tick // day) * day


def _unrounded(state: State, plan: Plan, name: str) -> int:
    """As ``whole_since``, without rounding."""
    newest, window = state.newest, plan.spec.windows[name]
    assert newest is not None
    ticks = plan.measure.ticks
    if isinstance(window, Session):
        return newest + ticks(window.gap, "gap") + 1
    if by_arrival(window):
        return BEGIN
    if isinstance(window, PerRow):
        return newest + 1 + max(window.reach(plan.measure)[0], 0)
    if isinstance(window, RowWindow):
        return newest + 1
    if not isinstance(window, ContextFreeWindow):
        raise _never(name, window, "holds all of a stream's rows from the first one on")
    bound = plan.bounds[plan.timed.index(plan.names.index(name))]
    if getattr(window, "fill", False):  # empty windows are known from the next edge on
        return int(EdgeSet([bound]).next_live(np.array([newest]), BEGIN)[0])
    # with a trigger, rows so far may count as reported, as other windows have reported them
    triggered = plan.spec.trigger_of(name) is not None
    since = newest + 1 if triggered else _edges_whole_since(state, bound, newest)
    if isinstance(bound, BoundFixed | BoundLandmark) and (bound.start is None or bound.start < since):
        raise _never(name, window, "holds rows that came before it")
    return since


def _never(name: str, window: object, why: str) -> ValueError:
    return ValueError(f"windows[{name!r}] cannot be added while a stream runs: {window!r} {why}")


def _edges_whole_since(state: State, bound: Bound, newest: int) -> int:
    """As ``_unrounded``, for windows with edges. Slices hold rows of windows that began before now, if old edges are
    edges of these windows too."""
    old, h = state.plan, state.horizon
    # slices are not cut at the edges of windows that were added after them
    cut = EdgeSet([b for b, i in zip(old.bounds, old.timed, strict=True) if old.names[i] not in old.since])
    if not cut.bounds or not cut.gapless or old.idle is not None:
        return newest + 1
    held = BEGIN if state.watermark is None else cut.held_from(h)
    edges = EdgeSet([bound])
    if edges.gapless:
        found = [run.end for store in state.stores for run in store.runs]
        ends = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
        inside = _last_inside(edges, cut, ends, newest)  # windows that end there hold a part of a slice
        ends = np.minimum(ends, edges.next_live(np.array([newest]), BEGIN))
        due = edges.due(np.unique(np.append(ends, inside)), BEGIN, END)
    elif isinstance(bound, BoundFixed):
        due = edges.due(np.array([bound.end]), BEGIN, END)
    else:  # windows may lie inside of a slice
        return newest + 1

    def edge(times: Ints) -> Mask:
        is_one: Mask = cut.next_live(times - 1, h) == times
        return is_one

    emitted = BEGIN if state.watermark is None or not old.spec.revises else state.watermark
    whole = (due.end > emitted) & (due.start >= held) & edge(due.start) & ((due.end > newest) | edge(due.end))
    return max(held, int(due.start[~whole].max()) + 1) if not whole.all() else held


def _last_inside(edges: EdgeSet, cut: EdgeSet, ends: Ints, newest: int) -> Ints:
    """The last edge inside of each slice that has any, up to the newest row. The slices end at ``ends``, edges of
    ``cut``."""
    last = np.minimum(ends, newest + 1)
    # behind ``low`` comes an edge inside, behind ``high`` none
    low, high = np.full(ends.size, max(-LIMIT, edges.known[0])), last - 1
    some = edges.next_live(low, BEGIN) < last
    ends, last, low, high = ends[some], last[some], low[some], high[some]
    while (low + 1 < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their difference may not fit
        is_before = edges.next_live(middle, BEGIN) < last
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    found = edges.next_live(low, BEGIN)
    return found[cut.next_live(found, BEGIN) >= ends]  # a slice may also end at an edge of windows that were added


def by_arrival(window: object) -> bool:
    """Whether a window counts from the next row on, whatever its time. That it was added is remembered all the same."""
    return isinstance(window, RowCount) and window.by_arrival
