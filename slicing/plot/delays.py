"""How far rows are behind the newest one, and which watermark delay would suit them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.sources import batches
from slicing.columns.typed import column_type
from slicing.plot.shared import COLORS, WIDTH, Chart, altair, ticks_of
from slicing.query.watermark import bounded
from slicing.times.durations import Duration
from slicing.times.measure import Measure

BOUNDS = ("0s", "1s", "5s", "15s", "30s", "1m", "5m", "15m", "1h", "6h", "1d", "7d")


def lateness(data: object, time: str, bounds: object = None) -> Chart:
    """Draw which share of rows would be behind the watermark of ``bounded(delay)``, for several delays.

    Parameters
    ----------
    data
        As for :func:`slicing.aggregate`, in order of arrival, as if rows were pushed one by one. A push of many rows
        moves the watermark only at its end, so at most this many rows are late.
    time
        The time column.
    bounds
        A delay, as in ``bounded``, or a list of delays. If left out: usual delays up to the first one that no row
        exceeds; for an integer column, 0 and the quantiles 0.5, 0.9, 0.99, 0.999 and 1 of how far rows are behind.

    Returns
    -------
    altair.LayerChart
        ``data`` has one row for each bound: ``bound``, the number of ``late`` rows, and their ``share``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [10, 12, 11, 20, 13]})
    >>> sl.plot.lateness(rows, "t", bounds=[0, 5]).data.to_pylist()
    [{'bound': '0', 'late': 2, 'share': 0.4}, {'bound': '5', 'late': 1, 'share': 0.2}]
    """
    alt = altair()
    newest, behind, measure = None, [], None
    for batch in batches(data):
        type = column_type(batch.schema, time)
        measure = measure or Measure.of(type, time)
        column = batch.column(time).drop_null()
        if len(column):
            at = ticks_of(column)
            reached = np.maximum.accumulate(at)
            reached = reached if newest is None else np.maximum(reached, newest)
            newest = reached[-1]
            behind.append(reached - at)
    if measure is None or not behind:
        raise ValueError(f"lateness needs rows with a time in column {time!r}; there are none")
    lag = np.sort(np.concatenate(behind))
    given = bounds if isinstance(bounds, Iterable) and not isinstance(bounds, str) else [bounds]
    spans = _likely_bounds(lag, measure) if bounds is None else [bounded(bound).delay for bound in given]
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
