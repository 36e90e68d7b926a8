"""A Spark streaming query by micro-batch."""

from __future__ import annotations

import time as clock
from importlib import import_module
from typing import Any

import pyarrow as pa

from slicing.plot.shared import COLORS, WIDTH, Chart, altair


def query(streaming_query: Any, name: str = "windows", live: float | None = None) -> Chart:
    """Draw a Spark streaming query by micro-batch: rows, late rows, delay of the watermark, state on disk.

    Parameters
    ----------
    streaming_query
        The query that ``writeStream...start()`` returned, for a frame of ``window_aggregate``.
    name
        The ``name`` given to ``window_aggregate``.
    live
        In a notebook: redraw every ``live`` seconds, until the query ends or the cell is interrupted.

    Returns
    -------
    altair.VConcatChart
        ``data`` has one row for each batch: ``batch``, ``rows``, ``late``, ``windows``, ``behind_s`` and ``state_kb``.

    Examples
    --------
    For the stream in the example of ``read_files``:

    >>> sl.plot.query(query).data["rows"].to_pylist()
    [3]
    """
    alt = altair()
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
        stats = _stats_of(seen)
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


def _stats_of(seen: Any) -> Any:
    """The accounting of a batch. Spark Connect leaves it undecoded, as values with their schema."""
    if hasattr(seen, "stats"):
        return seen.stats
    if "stats" in seen:
        return seen["stats"]
    (row,) = seen["values"]
    return dict(zip((field["name"] for field in row["schema"]["fields"]), row["values"], strict=True))


_FIGURES = {"rows": "rows", "late": "late rows", "behind_s": "behind, s", "state_kb": "state, kB"}


def _query_chart(alt: Any, table: pa.Table) -> Chart:
    whole = alt.Axis(format="d", labelExpr="datum.value % 1 ? '' : datum.label")  # else few batches get ticks at halves
    base = alt.Chart(table).encode(x=alt.X("batch:Q", axis=whole))
    parts = []
    for color, (name, title) in zip(COLORS, _FIGURES.items(), strict=False):
        line = base.mark_line(point=alt.OverlayMarkDef(color=color), color=color).encode(
            y=alt.Y(f"{name}:Q", title=title), tooltip=["batch", name]
        )
        parts.append(line.properties(width=WIDTH, height=90))
    return alt.vconcat(*parts, data=table)
