"""Pictures of queries, streams and results, as Altair charts (the extra ``plot``).

Each function gives a chart that composes (``a & b``, ``a.properties(width=900)``), saves (``chart.save("a.svg")``), and
has the table that it shows in ``chart.data``.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.api import aggregate
from slicing.closing.output import Output
from slicing.columns.sources import batches
from slicing.query.spec import ProcessingTime, Spec
from slicing.query.watermark import bounded
from slicing.times.durations import Duration
from slicing.times.measure import Measure
from slicing.windows.builtin import ContextFreeWindow, Session
from slicing.windows.rows.row_windows import RowWindow

Chart = Any
MOST = 2000  # marks that are still told apart
WIDTH, LANE = 760, 24
COLORS = ["#2563eb", "#15803d", "#b45309", "#9333ea", "#be123c", "#0e7490", "#4d7c0f", "#a16207"]
BOUNDS = ("0s", "1s", "5s", "15s", "30s", "1m", "5m", "15m", "1h", "6h", "1d", "7d")


def timeline(data: object, spec: Spec) -> Chart:
    """Draw the rows of a small table, the slices between all window edges with their counts, and a lane a window.

    Parameters
    ----------
    data
        As for :func:`slicing.aggregate`, at most some hundreds of rows.
    spec
        The query. A window's box has its first aggregate; the others are in its tooltip.

    Returns
    -------
    altair.LayerChart
        ``data`` has a row a mark: its ``kind`` ("row", "slice" or "window"), ``lane``, ``level`` within it, ``start``,
        ``end`` and ``text``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [1, 2, 5, 11]})
    >>> chart = sl.plot.timeline(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))
    >>> [mark["text"] for mark in chart.data.to_pylist() if mark["kind"] == "window"]
    ['3', '1']
    """
    alt = _altair()
    if not isinstance(spec, Spec) or isinstance(spec.time, ProcessingTime):
        raise TypeError(f"timeline takes the data and a sl.Spec with a time column; got {spec!r}")
    rows = pa.Table.from_batches(list(batches(data)))
    if rows.num_rows > MOST:
        raise ValueError(
            f"timeline shows at most {MOST} rows, one by one; got {rows.num_rows:,}: give a part of them, such as "
            "table.slice(0, 300)"
        )
    rows = rows.filter(pc.is_valid(rows[spec.time]))
    windows = aggregate(rows, spec)
    first = next(iter(spec.aggs))
    measure = Measure.of(rows.schema.field(spec.time).type, spec.time)
    at, start, end = (_ticks(c) for c in (rows[spec.time], windows["window_start"], windows["window_end"]))
    names = windows["window"].to_pylist()
    keys = _joined(rows, spec.by)
    marks = [_marks("row", ["rows"] * at.size, at, at, keys, keys)]
    marks.append(_slices(spec, at, names, start, end))
    for name in spec.windows:
        own = np.flatnonzero(np.array(names, object) == name) if names else np.empty(0, np.int64)
        order = own[np.lexsort((end[own], start[own]))]
        text = _texts(windows[first].take(pa.array(order)))
        lanes = [name] * order.size
        marks.append(
            _marks("window", lanes, start[order], end[order], text, _joined(windows.take(pa.array(order)), spec.by))
        )
    table = _timed(pa.concat_tables(marks), measure, ("start", "end"))
    lanes = ["rows", "slices", *spec.windows]
    if table.num_rows > 4 * MOST:
        raise ValueError(
            f"timeline shows at most {4 * MOST:,} marks; got {table.num_rows:,}: give fewer rows or windows"
        )
    return _timeline_chart(alt, table, lanes, spec)


def _slices(spec: Spec, at: Any, names: list[str], start: Any, end: Any) -> pa.Table:
    """The stretches between all edges of windows that have rows, with how many."""
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
    """For intervals in order of their start: rows in which none overlap, as few as there can be."""
    level, free = np.zeros(start.size, np.int64), list[int]()
    for at in range(start.size):  # of MOST at most
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
    middle = alt.Y("middle:Q", axis=axis)  # each layer with the same, or they are merged with usual ones
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


def progress(outputs: Iterable[Output], data: Iterable[object] | None = None, time: str | None = None) -> Chart:
    """Draw event time against arrival: the watermark as a step, late rows, and windows where they came out.

    Parameters
    ----------
    outputs
        What ``push``, ``advance`` and ``flush`` gave, in order.
    data
        The batches that were pushed, in order, whose rows are dots then.
    time
        The time column of ``data`` and of late rows; the only one of the watermark's type if left out.

    Returns
    -------
    altair.LayerChart
        ``data`` has a row a mark: ``kind`` ("row", "late", "watermark" or "window"), where it ``arrived`` (rows before
        it in the stream) and until, its ``start`` and ``end`` in event time, the ``window``, and its ``pane`` (which
        result of this window it is, from 0).
    """
    alt = _altair()
    found = list(outputs)
    if not found or not all(isinstance(out, Output) for out in found):
        raise TypeError("progress takes the outputs of an operator, a list of at least one sl.Output")
    type = found[0].windows.schema.field("window_start").type
    measure = Measure.of(type, "time")
    at = np.cumsum([0, *(out.stats.rows for out in found)])
    width = max(int(at[-1]), 1)
    marks = [_arrivals("watermark", *_steps(found, at, measure))]
    for number, out in enumerate(found):
        low, high = int(at[number]), max(int(at[number + 1]), int(at[number]) + max(width // 60, 1))
        n = out.windows.num_rows
        pane = out.windows["revision"].to_pylist() if "revision" in out.windows.column_names else [0] * n
        start, end = (_ticks(out.windows[name]) for name in ("window_start", "window_end"))
        names = out.windows["window"].to_pylist()
        marks.append(_arrivals("window", [low] * n, [high] * n, start, end, names, pane))
        if out.late.num_rows:
            late = _ticks(out.late[_time_column(out.late, type, time)])
            marks.append(_arrivals("late", [high] * late.size, [high] * late.size, late, late))
    seen = 0
    for batch in data or ():
        rows = pa.Table.from_batches(list(batches(batch)))
        ticks = _ticks(rows[_time_column(rows, type, time)])
        place = np.arange(seen, seen + ticks.size)
        marks.append(_arrivals("row", place, place, ticks, ticks))
        seen += ticks.size
    table = pa.concat_tables(marks)
    if table.num_rows > 10 * MOST:
        raise ValueError(f"progress shows at most {10 * MOST:,} marks; got {table.num_rows:,}: give fewer outputs")
    return _progress_chart(alt, _timed(table, measure, ("start", "end")))


def _steps(found: list[Output], at: Any, measure: Measure) -> tuple[list[int], list[int], list[int], list[int]]:
    """The watermark after each output that has one."""
    known = [(int(at[n + 1]), out.watermark) for n, out in enumerate(found) if out.watermark is not None]
    ticks = [measure.instant(value, "watermark") for _, value in known]
    places = [place for place, _ in known]
    return places, places, ticks, ticks


def _arrivals(
    kind: str, low: Any, high: Any, start: Any, end: Any, window: list[str] | None = None, pane: Any = None
) -> pa.Table:
    n = len(low)
    columns = {
        "kind": pa.array([kind] * n, pa.string()),
        "arrived": pa.array(low, pa.int64()),
        "until": pa.array(high, pa.int64()),
        "start": pa.array(start, pa.int64()),
        "end": pa.array(end, pa.int64()),
        "window": pa.array(window or [kind] * n, pa.string()),
        "pane": pa.array([0] * n if pane is None else pane, pa.int64()),
    }
    return pa.table(columns)


def _time_column(rows: pa.Table, type: pa.DataType, time: str | None) -> str:
    if time is not None:
        return time
    fits = [field.name for field in rows.schema if field.type == type]
    if len(fits) != 1:
        raise ValueError(
            f"progress needs time=, the name of the time column: {len(fits)} columns have its type {type}"
            f"{' (' + ', '.join(fits) + ')' if fits else ''}"
        )
    return fits[0]


def _progress_chart(alt: Any, table: pa.Table) -> Chart:
    kind = "T" if pa.types.is_temporal(table.schema.field("start").type) else "Q"
    x, y = (
        alt.X("arrived:Q", title="rows arrived", scale=alt.Scale(nice=False)),
        alt.Y(f"start:{kind}", title="event time", scale=alt.Scale(zero=False)),
    )
    base = alt.Chart(table)

    def only(name: str) -> Any:
        return base.transform_filter(f"datum.kind == '{name}'")

    shade = alt.Color("window:N", scale=alt.Scale(range=COLORS), legend=alt.Legend(title="closed windows"))
    boxes = only("window").mark_rect(opacity=0.25, stroke="#374151", strokeWidth=0.6)
    boxes = boxes.encode(
        x=x, x2="until", y=y, y2="end", color=shade, tooltip=["window:N", f"start:{kind}", f"end:{kind}", "pane:Q"]
    )
    dots = only("row").mark_circle(size=14, color="#4b5563", opacity=0.6).encode(x=x, y=y)
    late = only("late").mark_point(size=60, shape="cross", color="#be123c", filled=True).encode(x=x, y=y)
    step = (
        only("watermark")
        .mark_line(interpolate="step-after", orient="vertical", color="#111827", strokeWidth=2)
        .encode(x=x, y=y, order="arrived:Q")
    )
    return alt.layer(boxes, dots, late, step, data=table).properties(width=WIDTH, height=340)


def results(table: Any, y: str | None = None, by: str | Sequence[str] | None = None) -> Chart:
    """Draw results over time: a line for each window and key, at the ends of its windows.

    Parameters
    ----------
    table
        The windows of :func:`slicing.aggregate` or of outputs. Of a window that came several times (``revision``,
        ``op``), its last result.
    y
        The aggregate; the first column of numbers behind the window's if left out.
    by
        The key columns; all columns of text if left out.

    Returns
    -------
    altair.Chart
        ``data`` has the table's columns and ``series``, the name of the line.
    """
    alt = _altair()
    table = pa.table(table)
    fixed = ("window", "window_start", "window_end", "rank_start", "rank_end", "revision", "op")
    others = [field for field in table.schema if field.name not in fixed]
    if "window_end" not in table.column_names or not others:
        raise ValueError(f"results takes a table of windows; got one with the columns {', '.join(table.column_names)}")
    texts = [f.name for f in others if pa.types.is_string(f.type) or pa.types.is_dictionary(f.type)]
    keys = texts if by is None else [by] if isinstance(by, str) else list(by)
    numbers = [f.name for f in others if f.name not in keys and _is_number(f.type)]
    if y is None and not numbers:
        raise ValueError(f"results needs y=, the name of a column of numbers; there is none in {', '.join(keys)}")
    y = numbers[0] if y is None else y
    for name in (y, *keys):
        if name not in table.column_names:
            raise ValueError(
                f"column {name!r} is missing in the results; their columns are {', '.join(table.column_names)}"
            )
    table = _last_results(table, ["window", "window_start", "window_end", *keys], y)
    series = pa.array(_joined(table, ["window", *keys]), pa.string())
    measure = Measure.of(table.schema.field("window_end").type, "window_end")
    ticks = {name: pa.array(_ticks(table[name]), pa.int64()) for name in ("window_start", "window_end")}
    for name, column in ticks.items():
        table = table.set_column(table.column_names.index(name), name, column)
    table = _timed(table.append_column("series", series), measure, tuple(ticks))
    table = table.set_column(table.column_names.index(y), y, table[y].cast(pa.float64(), safe=False))
    kind = "T" if pa.types.is_temporal(table.schema.field("window_end").type) else "Q"
    field = y.translate({ord(sign): f"\\{sign}" for sign in ".[]:"})
    return (
        alt.Chart(table)
        .mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5)
        .encode(
            x=alt.X(f"window_end:{kind}", scale=alt.Scale(zero=False)),
            y=alt.Y(field, type="quantitative", title=y),
            color=alt.Color("series:N", scale=alt.Scale(range=COLORS)),
            tooltip=["series:N", f"window_start:{kind}", f"window_end:{kind}", alt.Tooltip(field, type="quantitative")],
        )
        .properties(width=WIDTH, height=260)
    )


def _last_results(table: pa.Table, names: list[str], y: str) -> pa.Table:
    """Of each window its last result; none where that was taken back."""
    changes = "op" in table.column_names
    if not changes and "revision" not in table.column_names:
        return table
    kept = [y, *(["op"] if changes else [])]
    last = table.group_by(names, use_threads=False).aggregate([(name, "last") for name in kept])
    last = last.rename_columns(
        [name.removesuffix("_last") if name not in names else name for name in last.column_names]
    )
    return last.filter(pc.equal(last["op"], "+")).drop_columns("op") if changes else last


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def lateness(data: object, time: str, bounds: Sequence[object] | None = None) -> Chart:
    """Draw which share of rows would be behind the watermark of ``bounded(delay)``, for several delays.

    Parameters
    ----------
    data
        As for :func:`slicing.aggregate`, in the order in which rows arrive, one by one: a push of many rows moves the
        watermark only at its end, so that no more than these are late.
    time
        The time column.
    bounds
        Delays, as ``bounded`` takes them. If left out, usual ones up to the first that nothing exceeds; for an integer
        column 0 and the quantiles 0.5, 0.9, 0.99, 0.999 and 1 of how far rows are behind.

    Returns
    -------
    altair.LayerChart
        ``data`` has a row a bound: ``bound``, how many rows are ``late``, and their ``share``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [10, 12, 11, 20, 13]})
    >>> sl.plot.lateness(rows, "t", bounds=[0, 5]).data.to_pylist()
    [{'bound': '0', 'late': 2, 'share': 0.4}, {'bound': '5', 'late': 1, 'share': 0.2}]
    """
    alt = _altair()
    newest, behind, measure = None, [], None
    for batch in batches(data):
        if time not in batch.schema.names:
            raise ValueError(f"column {time!r} is missing in the data; its columns are {', '.join(batch.schema.names)}")
        column = batch.column(time).drop_null()
        measure = measure or Measure.of(column.type, time)
        if len(column):
            at = _ticks(column)
            reached = np.maximum.accumulate(at)
            reached = reached if newest is None else np.maximum(reached, newest)
            newest = reached[-1]
            behind.append(reached - at)
    if measure is None or not behind:
        raise ValueError(f"lateness needs rows with a time in column {time!r}; there are none")
    lag = np.sort(np.concatenate(behind))
    spans = _likely_bounds(lag, measure) if bounds is None else [bounded(bound).delay for bound in bounds]
    ticks = np.array([measure.ticks(span, "bounds") for span in spans])
    late = lag.size - np.searchsorted(lag, ticks, "right")
    table = pa.table({"bound": [str(span) for span in spans], "late": late, "share": late / lag.size})
    base = alt.Chart(table).encode(
        x=alt.X("bound:N", sort=None, title="bounded(delay)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("share:Q", axis=alt.Axis(format="%"), title="share of rows behind the watermark"),
        tooltip=["bound:N", "late:Q", alt.Tooltip("share:Q", format=".4%")],
    )
    bars = base.mark_bar(color=COLORS[0])
    texts = base.mark_text(dy=-7).encode(text=alt.Text("share:Q", format=".2%"))
    return alt.layer(bars, texts, data=table).properties(width=WIDTH, height=220)


def _likely_bounds(lag: Any, measure: Measure) -> list[Duration | int]:
    if measure.is_integer:
        return sorted({0, *np.quantile(lag, [0.5, 0.9, 0.99, 0.999, 1], method="higher").tolist()})
    known = [bounded(text).delay for text in BOUNDS]
    fitting = [span for span in known if isinstance(span, Duration) and span.ns % measure.word_ns == 0]
    enough = [n for n, span in enumerate(fitting) if measure.ticks(span, "bounds") >= lag[-1]]
    return list(fitting[: enough[0] + 1 if enough else len(fitting)])


def query(streaming_query: Any, name: str = "windows", live: float | None = None) -> Chart:
    """Draw a Spark streaming query by micro-batch: rows, late rows, how far the watermark is behind, state on disk.

    Parameters
    ----------
    streaming_query
        What ``writeStream...start()`` gave, of a frame that ``window_aggregate`` made.
    name
        The ``name`` of that call.
    live
        In a notebook: redraw every so many seconds, until the query ends or the cell is interrupted.

    Returns
    -------
    altair.VConcatChart
        ``data`` has a row a batch: ``batch``, ``rows``, ``late``, ``windows``, ``behind_s`` and ``state_kb``.
    """
    alt = _altair()
    chart = _query_chart(alt, _progress_table(streaming_query, name))
    if live is not None:
        shown = import_module("IPython.display").display(chart, display_id=True)
        try:
            while streaming_query.isActive:
                clock.sleep(live)
                chart = _query_chart(alt, _progress_table(streaming_query, name))
                shown.update(chart)
        except KeyboardInterrupt:
            pass
    return chart


def _progress_table(streaming_query: Any, name: str) -> pa.Table:
    rows = []
    for progress in streaming_query.recentProgress:
        seen = (progress["observedMetrics"] if isinstance(progress, dict) else progress.observedMetrics).get(name)
        if seen is None:
            continue
        stats = seen["stats"] if isinstance(seen, dict) else seen.stats
        batch = progress["batchId"] if isinstance(progress, dict) else progress.batchId
        lag, size = stats["lag_ms"], stats["state_bytes"]
        figures = {"batch": batch, "rows": stats["rows"], "late": stats["late"], "windows": stats["windows"]}
        figures |= {"behind_s": None if lag is None else lag / 1e3, "state_kb": None if size is None else size / 1e3}
        rows.append(figures)
    if not rows:
        raise ValueError(
            f"the query has no progress under the name {name!r} yet: wait for its first batch, or give the name= of "
            "window_aggregate"
        )
    types = [("batch", pa.int64()), ("rows", pa.int64()), ("late", pa.int64()), ("windows", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema([*types, ("behind_s", pa.float64()), ("state_kb", pa.float64())]))


_FIGURES = {"rows": "rows", "late": "late rows", "behind_s": "behind, s", "state_kb": "state, kB"}


def _query_chart(alt: Any, table: pa.Table) -> Chart:
    base = alt.Chart(table).encode(x=alt.X("batch:Q", axis=alt.Axis(tickMinStep=1, format="d")))
    parts = []
    for color, (name, title) in zip(COLORS, _FIGURES.items(), strict=False):
        line = base.mark_line(point=alt.OverlayMarkDef(color=color), color=color).encode(
            y=alt.Y(f"{name}:Q", title=title), tooltip=["batch", name]
        )
        parts.append(line.properties(width=WIDTH, height=90))
    return alt.vconcat(*parts, data=table)


# --- what they share --------------------------------------------------------------------------------------------------


def _altair() -> Any:
    try:
        return import_module("altair")
    except ImportError:
        raise ImportError("sl.plot needs Altair, which is not installed: pip install 'stream-slicing[plot]'") from None


def _timed(table: pa.Table, measure: Measure, names: Sequence[str]) -> pa.Table:
    """Ticks as times that charts show as the column's own clock does: without a zone, in microseconds."""
    for name in names:
        at = table.column_names.index(name)
        if not measure.is_integer:
            column = measure.array(table[name].to_numpy())
            table = table.set_column(at, name, _wall(column))
    return table


def _ticks(column: pa.Array | pa.ChunkedArray) -> Any:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return Measure.of(whole.type, "time").words(whole)


def _wall(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    return column.cast(pa.timestamp("us"), safe=False)


def _joined(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The values of some columns as one text a row."""
    if not names:
        return [""] * table.num_rows
    columns = [_texts(table[name]) for name in names]
    return [" · ".join(row) for row in zip(*columns, strict=True)]


def _texts(column: pa.ChunkedArray) -> list[str]:
    return [f"{v:.4g}" if isinstance(v, float) else "null" if v is None else str(v) for v in column.to_pylist()]
