"""Results of a query combined to larger windows, all at once. ``slicing.query.rollup`` has the same as a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.aggregate import Aggregate
from slicing.api import aggregate
from slicing.columns.arrow_io import one_piece
from slicing.columns.casts import plain
from slicing.columns.dictionaries import whole
from slicing.columns.keys import KeyTable
from slicing.columns.sources import batches
from slicing.columns.wanted import Wanted
from slicing.output import tables_of
from slicing.query.plan import Plan
from slicing.query.rollup import check_parts, over_parts, part_name, spec_of
from slicing.query.spec import Spec
from slicing.system.arguments import says_arguments
from slicing.windows.bounds import BEGIN


@says_arguments
def rollup(
    parts: object, spec: Spec | None = None, windows: Mapping[str, Any] | None = None, *, window: str | None = None
) -> pa.Table:
    """Combine results of a query to larger windows, exactly, without the original rows.

    Parameters
    ----------
    parts
        All results of ``spec``: a table, whatever :func:`aggregate` takes, or outputs, such as those of :func:`replay`.
        With ``emit="parts"`` they may be early, on time and late; with ``"final"`` each window is one part.
    spec
        The query that made the parts. Arrow tables with ``emit="parts"``, and files of such tables, contain it if it
        can be written as text (:meth:`Spec.to_toml`). Its aggregates may be ``count``, ``sum``, ``product``, ``min``,
        ``max``, ``any``, ``all`` and ``collect``: parts of a mean or a distinct count do not determine the whole. Lists
        are joined part by part, by the starts of windows and then in the order of reports.
    windows
        The larger windows, which must have edges. Every part must lie wholly within or wholly outside of each larger
        window. ``whole()`` reaches from the first part's start to the last part's.
    window
        The name of the window type to combine, if ``spec`` has several.

    Returns
    -------
    pyarrow.Table
        The columns of :func:`aggregate`, in the types of the parts.

    Raises
    ------
    ValueError
        If parts share rows, occur twice, or cross an edge of a larger window, or if single rows decide where a larger
        window ends.

    See Also
    --------
    rollup_spec : such a rollup as a query, for streams and for Spark.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> minutes = sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count(), "most": sl.max("v")})
    >>> parts = sl.aggregate(pa.table({"t": [1, 2, 65, 3700], "v": [5, 7, 9, 4]}), minutes)
    >>> sl.rollup(parts, minutes, {"h": sl.tumbling(3600)}).select(["n", "most"]).to_pylist()
    [{'n': 3, 'most': 9}, {'n': 1, 'most': 4}]
    """
    if not isinstance(windows, Mapping):
        raise TypeError(
            f"windows must be a dict of the larger windows, such as {{'h': sl.tumbling('1h')}}; got {windows!r}"
        )
    held = list(batches(tables_of(parts), Wanted(argument="parts")))
    if not held:
        raise ValueError("rollup needs the results of the spec, with their columns; got no batches")
    spec = spec_of(held[0].schema) if spec is None else spec
    name = part_name(spec, window)
    larger = over_parts(spec, windows, {})
    table = pa.Table.from_batches(held)
    table = pa.table({name: plain(whole(table[name])) for name in table.column_names})
    Plan(larger, table.schema)  # raises an error if columns are missing
    check_parts(spec, table.schema)
    table = _parts_of(table, name)
    _check_once(table, ["window_start", *spec.by, *(["revision"] if spec.emit == "parts" else [])])
    _check_held(table, larger)
    found = aggregate(table, larger)
    for name, agg in spec.aggs.items():
        column = found[name].combine_chunks()
        if isinstance(agg, Aggregate) and agg.function == "collect":
            column = _joined(column)
        found = found.set_column(found.column_names.index(name), name, _as_parts(name, column, table[name].type))
    return found


def _as_parts(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a result column to the type of the parts. In parts from pandas it may be as narrow as their values."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"a larger window's {name!r} does not fit into {kind}, the type that column {name!r} of the parts has: "
            f"cast it to a wider type, such as {column.type} ({error})"
        ) from None


def _parts_of(table: pa.Table, name: str) -> pa.Table:
    """The rows of one window's results. Refuses parts without results of this window."""
    if "window" not in table.column_names:
        return table
    found = table.filter(pc.equal(table["window"], name))
    if table.num_rows and not found.num_rows:
        others = ", ".join(map(repr, pc.unique(table["window"]).to_pylist()))
        raise ValueError(f"none of the parts is of windows[{name!r}]: their column 'window' has {others}")
    return found


def _check_once(parts: pa.Table, names: list[str]) -> None:
    """Refuse parts that occur several times: their rows would count twice."""
    columns = [one_piece(parts[name]) for name in names]
    keys = KeyTable([column.type for column in columns])
    times = np.bincount(keys.encode(columns), minlength=1)
    if times.max() > 1:
        code = np.array([times.argmax()])
        values = (column[0].as_py() for column in keys.columns(code))
        part = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
        raise ValueError(
            f"a part comes {times[code[0]]} times ({part}), and its rows would count as often; give each part once"
        )


def _check_held(parts: pa.Table, larger: Spec) -> None:
    """Refuse parts that an edge of the larger windows cuts."""
    plan = Plan(larger, parts.schema)
    if not plan.bounds or not parts.num_rows:
        return
    start, end = (
        plan.measure.words(parts[name].combine_chunks().cast(plan.measure.type))
        for name in ("window_start", "window_end")
    )
    cut = plan.edges.next_live(start, BEGIN) < end
    if cut.any():
        at = int(cut.argmax())
        first, last = plan.measure.value(int(start[at])), plan.measure.value(int(end[at]))
        edge = plan.measure.value(int(plan.edges.next_live(start[at : at + 1], BEGIN)[0]))
        raise ValueError(
            f"the part from {first} to {last} crosses the edge of a larger window at {edge}, and which of its rows lie "
            "on which side is not known; use windows whose edges are edges of the parts"
        )


def _joined(lists: pa.ListArray) -> pa.ListArray | pa.LargeListArray:
    """Join each list of lists to one list."""
    inner = lists.values
    starts = inner.offsets.take(lists.offsets)
    return type(inner).from_arrays(starts, inner.values, mask=lists.is_null() if lists.null_count else None)
