"""A stream as it arrives: event time, the watermark, late rows, closed windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.sources import batches
from slicing.output import Output
from slicing.plot.shared import COLORS, MOST_MARKS, WIDTH, Chart, altair, ticks_of, timed
from slicing.times.measure import Measure


def progress(outputs: Iterable[Output], data: object = None, time: str | None = None) -> Chart:
    """Draw event time against arrival: the watermark as a step line, late rows, and windows where they were emitted.

    Parameters
    ----------
    outputs
        The outputs of ``push``, ``advance`` and ``flush``, in order, or :func:`slicing.replay`.
    data
        The rows that were pushed, in order, drawn as dots: a list of batches, or data as for :func:`slicing.aggregate`.
    time
        The time column of ``data`` and of late rows. If left out, the only column of the watermark's type.

    Returns
    -------
    altair.LayerChart
        ``data`` has one row for each mark: its ``kind`` ("row", "late", "watermark" or "window"), where it ``arrived``
        (rows before it in the stream) and ``until`` where it is drawn, its ``start`` and ``end`` in event time, the
        ``window``, and its ``pane`` (the number of this result of the window, from 0).

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> op = sl.Operator(sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))
    >>> outputs = [op.push(pa.table({"t": [1, 4]})), op.push(pa.table({"t": [12, 3]})), op.flush()]
    >>> chart = sl.plot.progress(outputs)
    >>> [(mark["kind"], mark["end"]) for mark in chart.data.to_pylist()]
    [('watermark', 4), ('watermark', 12), ('watermark', 12), ('window', 10), ('window', 20)]
    """
    alt = altair()
    found = list(outputs) if isinstance(outputs, Iterable) else []
    if not found or not all(isinstance(out, Output) for out in found):
        kind = type(outputs).__name__
        raise TypeError(f"progress takes the outputs of an operator, a list of at least one sl.Output; got {kind}")
    if "window_start" not in found[0].windows.column_names:
        raise ValueError("progress draws windows from their start, which wide outputs have not; use layout='long'")
    time_type = found[0].windows.schema.field("window_start").type
    measure = Measure.of(time_type, "time")
    at = np.cumsum([0, *(out.stats.rows for out in found)])
    width = max(int(at[-1]), 1)
    marks = [_arrivals("watermark", *_steps(found, at, measure))]
    for number, out in enumerate(found):
        low, high = int(at[number]), max(int(at[number + 1]), int(at[number]) + max(width // 60, 1))
        n = out.windows.num_rows
        pane = out.windows["revision"].to_pylist() if "revision" in out.windows.column_names else [0] * n
        end = ticks_of(out.windows["window_end"])
        start = ticks_of(out.windows["window_start"], missing=end)
        names = out.windows["window"].to_pylist()
        marks.append(_arrivals("window", [low] * n, [high] * n, start, end, names, pane))
        if out.late.num_rows:
            late = ticks_of(out.late[_time_column(out.late, time_type, time)].drop_null())
            marks.append(_arrivals("late", [high] * late.size, [high] * late.size, late, late))
    seen = 0
    for batch in () if data is None else batches(data):
        rows = pa.Table.from_batches([batch])
        column = rows[_time_column(rows, time_type, time)]
        place = seen + np.flatnonzero(column.is_valid())
        ticks = ticks_of(column.drop_null())
        marks.append(_arrivals("row", place, place, ticks, ticks))
        seen += len(column)
    table = pa.concat_tables(marks)
    if table.num_rows > 10 * MOST_MARKS:
        raise ValueError(
            f"progress shows at most {10 * MOST_MARKS:,} marks; got {table.num_rows:,}: give fewer outputs"
        )
    return _progress_chart(alt, timed(table, measure, ("start", "end")))


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
