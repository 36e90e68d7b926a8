"""A small table row by row: slices, and windows in lanes above each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.api import aggregate
from slicing.columns.sources import batches
from slicing.plot.shared import COLORS, MOST_MARKS, WIDTH, Chart, altair, joined, rows_at, texts, ticks_of, timed
from slicing.query.processing_time import ProcessingTime
from slicing.query.spec import Spec
from slicing.times.measure import Measure
from slicing.windows.builtin import ContextFreeWindow, Session
from slicing.windows.rows.row_windows import RowWindow

LANE = 24


def timeline(data: object, spec: Spec) -> Chart:
    """Draw the rows of a small table, the slices between window edges with their counts, and a lane for each window.

    Parameters
    ----------
    data
        As for :func:`slicing.aggregate`, at most some hundreds of rows.
    spec
        The query. The box of a window shows its first aggregate; its tooltip shows the others.

    Returns
    -------
    altair.LayerChart
        ``data`` has one row for each mark: its ``kind`` ("row", "slice" or "window"), ``lane``, ``level`` within it,
        ``start``, ``end`` and ``text``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [1, 2, 5, 11]})
    >>> chart = sl.plot.timeline(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))
    >>> [mark["text"] for mark in chart.data.to_pylist() if mark["kind"] == "window"]
    ['3', '1']
    """
    alt = altair()
    if not isinstance(spec, Spec) or isinstance(spec.time, ProcessingTime):
        raise TypeError(f"timeline takes the data and, as spec, a sl.Spec with a time column; got {spec!r}")
    rows = pa.Table.from_batches(list(batches(data)))
    if rows.num_rows > MOST_MARKS:
        raise ValueError(
            f"timeline shows at most {MOST_MARKS} rows, one by one; got {rows.num_rows:,}: give a part of them, "
            "such as table.slice(0, 300)"
        )
    rows = rows_at(rows, np.flatnonzero(pc.is_valid(rows[spec.time])))
    windows = aggregate(rows, spec)
    first = next(iter(spec.aggs))
    measure = Measure.of(rows.schema.field(spec.time).type, spec.time)
    at, end = ticks_of(rows[spec.time]), ticks_of(windows["window_end"])
    start = ticks_of(windows["window_start"], missing=at.min() if at.size else 0)
    names = windows["window"].to_pylist()
    keys = joined(rows, spec.by)
    marks = [_marks("row", ["rows"] * at.size, at, at, keys, keys)]
    marks.append(_slices(spec, at, names, start, end))
    for name in spec.windows:
        own = np.flatnonzero(np.array(names, object) == name) if names else np.empty(0, np.int64)
        order = own[np.lexsort((end[own], start[own]))]
        some = rows_at(windows, order)
        text = texts(some[first])
        lanes = [_lane(name)] * order.size
        marks.append(_marks("window", lanes, start[order], end[order], text, joined(some, spec.by)))
    table = timed(pa.concat_tables(marks), measure, ("start", "end"))
    lanes = ["rows", "slices", *map(_lane, spec.windows)]
    if table.num_rows > 4 * MOST_MARKS:
        raise ValueError(
            f"timeline shows at most {4 * MOST_MARKS:,} marks; got {table.num_rows:,}: give fewer rows or windows"
        )
    return _timeline_chart(alt, table, lanes, spec)


def _lane(window: str) -> str:
    return f"window {window}" if window in ("rows", "slices") else window


def _slices(spec: Spec, at: Any, names: list[str], start: Any, end: Any) -> pa.Table:
    """The stretches between window edges that have rows, with their numbers of rows."""
    kinds = [(name, w) for name, w in spec.windows.items() if not isinstance(w, RowWindow)]
    cutting = [name for name, w in kinds if isinstance(w, ContextFreeWindow)]
    cutting = cutting or [name for name, w in kinds if isinstance(w, Session)]
    own = np.isin(np.array(names, str), cutting)
    edges = np.unique(np.concatenate([start[own], end[own]]))
    place, count = np.unique(np.searchsorted(edges, at, "right"), return_counts=True)
    inside = (place > 0) & (place < edges.size)
    place, text = place[inside], [str(n) for n in count[inside]]
    return _marks("slice", ["slices"] * place.size, edges[place - 1], edges[place], text, [""] * place.size)


def _marks(kind: str, lanes: list[str], start: Any, end: Any, text: list[str], key: list[str]) -> pa.Table:
    level, levels = _levels(start, end) if kind == "window" else (np.zeros(start.size, np.int64), 1)
    columns = {"kind": [kind] * start.size, "lane": lanes, "level": level, "levels": np.full(start.size, levels)}
    types = [pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.string()]
    columns |= {"start": start, "end": end, "text": text, "key": key}
    return pa.table([pa.array(c, t) for c, t in zip(columns.values(), types, strict=True)], names=list(columns))


def _levels(start: Any, end: Any) -> tuple[Any, int]:
    """For intervals in order of start: levels without overlap, as few as possible."""
    level, free = np.zeros(start.size, np.int64), list[int]()
    for at in range(start.size):  # few
        level[at] = next((n for n, until in enumerate(free) if until <= start[at]), len(free))
        free[level[at] : level[at] + 1] = [max(int(end[at]), int(start[at]) + 1)]
    return level, max(len(free), 1)


def _timeline_chart(alt: Any, table: pa.Table, lanes: list[str], spec: Spec) -> Chart:
    deepest = {name: 1 for name in lanes}
    for name, levels in zip(table["lane"].to_pylist(), table["levels"].to_pylist(), strict=True):
        deepest[name] = max(deepest[name], levels)
    tops = dict(zip(lanes, np.cumsum([0, *deepest.values()])[:-1].tolist(), strict=True))
    top = pa.array([tops[name] for name in table["lane"].to_pylist()], pa.int64())
    table = table.append_column("y", pc.add(top, table["level"]))
    table = table.append_column("y2", pc.add(table["y"], 0.84)).append_column("middle", pc.add(table["y"], 0.42))
    height = LANE * sum(deepest.values())
    named = " : ".join(f"datum.value == {tops[name] + deepest[name] / 2} ? {name!r}" for name in lanes) + " : ''"
    options = {"grid": False, "ticks": False, "title": None, "labelOverlap": False, "labelLimit": 240}
    axis = alt.Axis(values=[tops[n] + deepest[n] / 2 for n in lanes], labelExpr=named, **options)
    y = alt.Y("y:Q", axis=axis, scale=alt.Scale(domain=[0, sum(deepest.values())], reverse=True, nice=False))
    kind = "T" if pa.types.is_temporal(table.schema.field("start").type) else "Q"
    middle = alt.Y("middle:Q", axis=axis)  # the same axis for each layer, or they are merged with default axes
    x = alt.X(f"start:{kind}", title=str(spec.time), scale=alt.Scale(zero=False))
    color = alt.Color("lane:N", scale=alt.Scale(domain=lanes[1:], range=["#6b7280", *COLORS]), legend=None)
    tooltip = [alt.Tooltip(name) for name in ("lane:N", f"start:{kind}", f"end:{kind}", "text:N", "key:N")]
    base = alt.Chart(table)
    boxes = base.transform_filter("datum.kind != 'row'").mark_rect(opacity=0.35, stroke="#374151", strokeWidth=0.7)
    boxes = boxes.encode(x=x, x2="end", y=y, y2="y2", color=color, tooltip=tooltip)
    number = "toNumber" if kind == "Q" else "time"
    texts = base.transform_filter("datum.kind != 'row'")
    texts = texts.transform_calculate(mid=f"({number}(datum.start) + {number}(datum.end)) / 2").mark_text(fontSize=11)
    texts = texts.encode(x=f"mid:{kind}", y=middle, text="text:N")
    dots = base.transform_filter("datum.kind == 'row'").mark_circle(size=45, opacity=0.9)
    shade = alt.Color("key:N", legend=alt.Legend(title=", ".join(spec.by))) if spec.by else alt.value("#1f2937")
    dots = dots.encode(x=x, y=middle, color=shade, tooltip=[f"start:{kind}", "key:N"])
    layers = alt.layer(boxes, texts, dots, data=table).resolve_scale(color="independent")
    return layers.properties(width=WIDTH, height=height)
