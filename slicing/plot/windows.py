"""Results over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from slicing.columns.key_columns import check_key_type
from slicing.plot.lines import BOUNDS, REPORT, WINDOW, is_number, keys_of, last_results, names_of, revisions_of
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
        The aggregate, a column of numbers. If left out, the first column of numbers that is no key.
    by
        The key columns. If left out, they are found: the fewest first columns after those of the window, with which no
        result of a window occurs twice. Columns of text right behind them are part of a line's name if they split no
        line. If no key is needed (windows as sessions may all differ), columns of text that come first are keys, and
        other keys have to be given. ``by=[]`` draws one line for each window.

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
    table = _table_of(table)
    others = [name for name in table.column_names if name not in (*WINDOW, *REPORT, *revisions_of(table))]
    if "window_end" not in table.column_names or not others:
        raise ValueError(f"results takes a table of windows; got one with the columns {', '.join(table.column_names)}")
    if pa.types.is_null(table.schema.field("window_end").type):
        raise ValueError("results has no rows, and its columns have no types: its stream has had no rows")
    given = None if by is None else _names(by)
    _check_columns(table, y, given or [])
    keys = keys_of(table, others, y) if given is None else given
    y = _first_number(table, others, keys) if y is None else y
    names = names_of(table, others, keys, y) if given is None else given
    table = last_results(table, keys, y)
    series = pa.array(joined(table, [*(["window"] if "window" in table.column_names else []), *names]), pa.string())
    measure = Measure.of(table.schema.field("window_end").type, "window_end")
    bounds = [name for name in BOUNDS if name in table.column_names]  # wide results have only the end
    ticks = {name: pa.array(ticks_of(table[name], ticks_of(table["window_end"])), pa.int64()) for name in bounds}
    for name, column in ticks.items():
        table = table.set_column(table.column_names.index(name), name, column)
    line = "series" if "series" not in table.column_names else "series of the picture"
    table = timed(table.append_column(line, series), measure, tuple(ticks))
    table = table.set_column(table.column_names.index(y), y, table[y].cast(pa.float64(), safe=False))
    kind = "T" if pa.types.is_temporal(table.schema.field("window_end").type) else "Q"
    # by keywords, as in a shorthand ":Q" at the end would be the type
    number = {"field": y.translate({ord(sign): f"\\{sign}" for sign in ".[]'\""}), "type": "quantitative", "title": y}
    return (
        alt.Chart(table)
        .mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5)
        .encode(
            x=alt.X(f"window_end:{kind}", scale=alt.Scale(zero=False)),
            y=alt.Y(**number),
            color=alt.Color(f"{line}:N", scale=alt.Scale(range=COLORS)),
            tooltip=[f"{line}:N", *(f"{name}:{kind}" for name in bounds), alt.Tooltip(**number)],
        )
        .properties(width=WIDTH, height=260)
    )


def _table_of(given: Any) -> pa.Table:
    try:
        return pa.table(given)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "results takes one table of windows: the result of sl.aggregate, out.windows of an output, or "
            f"pa.concat_tables(out.windows for out in outputs); got {type(given).__name__}"
        ) from error


def _names(by: object) -> list[str]:
    if isinstance(by, str):
        return [by]
    if not isinstance(by, Iterable):
        raise TypeError(f"by must be the name of a column or a list of names; got {by!r}")
    return list(dict.fromkeys(by))


def _check_columns(table: pa.Table, y: str | None, keys: Sequence[str]) -> None:
    """Raise unless ``y`` is a column of numbers, and ``keys`` are columns that can be keys."""
    for name in (*([] if y is None else [y]), *keys):
        if name not in table.column_names:
            raise ValueError(
                f"column {name!r} is missing in the results; their columns are {', '.join(table.column_names)}"
            )
    for name in keys:
        check_key_type(name, table.schema.field(name).type)
    type = None if y is None else table.schema.field(y).type
    if type is not None and not (is_number(type) or pa.types.is_boolean(type)):
        known = [field.name for field in table.schema if is_number(field.type)]
        raise ValueError(
            f"y must be a column of numbers; column {y!r} has type {type}"
            + (f", and the columns of numbers are {', '.join(known)}" if known else "")
        )


def _first_number(table: pa.Table, others: Sequence[str], keys: Sequence[str]) -> str:
    for name in others:
        if name not in keys and is_number(table.schema.field(name).type):
            return name
    types = ", ".join(f"{name!r} of type {table.schema.field(name).type}" for name in others)
    raise ValueError(f"results needs y=, the name of a column of numbers; there is none that is no key among {types}")
