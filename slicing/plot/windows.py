"""Results over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.values import is_text
from slicing.plot.shared import COLORS, WIDTH, Chart, altair, joined, ticks_of, timed
from slicing.times.measure import Measure


def results(table: Any, y: str | None = None, by: str | Sequence[str] | None = None) -> Chart:
    """Draw results over time: one line for each window and key, with points at the ends of its windows.

    Parameters
    ----------
    table
        The windows of :func:`slicing.aggregate` or of outputs, long or wide. If a window was emitted several times
        (``revision``, ``op``), its last result is drawn.
    y
        The aggregate. If left out, the first column of numbers after the window's columns.
    by
        The key columns. If left out, all columns of text.

    Returns
    -------
    altair.Chart
        ``data`` has the table's columns and ``series``, the line (``series of the picture`` if ``series`` is taken).

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> rows = pa.table({"t": [1, 2, 15], "k": ["a", "b", "a"]})
    >>> windows = sl.aggregate(rows, sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, by="k"))
    >>> chart = sl.plot.results(windows)
    >>> chart.data["series"].to_pylist()
    ['ten · a', 'ten · b', 'ten · a']
    """
    alt = altair()
    table = pa.table(table)
    fixed = ("window", "window_start", "window_end", "rank_start", "rank_end", "revision", "op")
    others = [field for field in table.schema if field.name not in fixed]
    if "window_end" not in table.column_names or not others:
        raise ValueError(f"results takes a table of windows; got one with the columns {', '.join(table.column_names)}")
    texts = [f.name for f in others if is_text(f.type) or pa.types.is_dictionary(f.type)]
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
    named = [name for name in fixed[:3] if name in table.column_names]  # wide results have only the end
    table = _last_results(table, [*named, *keys], y)
    series = pa.array(joined(table, [*(name for name in named if name == "window"), *keys]), pa.string())
    measure = Measure.of(table.schema.field("window_end").type, "window_end")
    bounds = [name for name in named if name != "window"]
    ticks = {name: pa.array(ticks_of(table[name], ticks_of(table["window_end"])), pa.int64()) for name in bounds}
    for name, column in ticks.items():
        table = table.set_column(table.column_names.index(name), name, column)
    line = "series" if "series" not in table.column_names else "series of the picture"
    table = timed(table.append_column(line, series), measure, tuple(ticks))
    table = table.set_column(table.column_names.index(y), y, table[y].cast(pa.float64(), safe=False))
    kind = "T" if pa.types.is_temporal(table.schema.field("window_end").type) else "Q"
    field = y.translate({ord(sign): f"\\{sign}" for sign in ".[]:"})
    return (
        alt.Chart(table)
        .mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5)
        .encode(
            x=alt.X(f"window_end:{kind}", scale=alt.Scale(zero=False)),
            y=alt.Y(field, type="quantitative", title=y),
            color=alt.Color(f"{line}:N", scale=alt.Scale(range=COLORS)),
            tooltip=[f"{line}:N", *(f"{name}:{kind}" for name in bounds), alt.Tooltip(field, type="quantitative")],
        )
        .properties(width=WIDTH, height=260)
    )


def _last_results(table: pa.Table, names: list[str], y: str) -> pa.Table:
    """The last result of each window; windows whose last result was retracted are left out."""
    changes = "op" in table.column_names
    if not changes and not any(name.partition("_")[0] == "revision" for name in table.column_names):
        return table
    kept = [y, *(["op"] if changes else [])]
    last = table.group_by(names, use_threads=False).aggregate([(name, "last") for name in kept])
    last = last.rename_columns(
        [name.removesuffix("_last") if name not in names else name for name in last.column_names]
    )
    return last.filter(pc.equal(last["op"], "+")).drop_columns("op") if changes else last


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))
