"""Wide results: one row per key and window end, a column for each aggregate and window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.dictionaries import some_of
from slicing.columns.keys import KeyTable
from slicing.columns.order import inverse
from slicing.query.spec import Spec
from slicing.system.arguments import choice
from slicing.system.arrays import NONE
from slicing.times.durations import shown
from slicing.windows.builtin import Window
from slicing.windows.rows.marked import Frame, Punctuation
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_count import RowCount

LAYOUTS = ("long", "wide")


def check_layout(layout: object, spec: Spec) -> bool:
    """Whether results are wide. Refuses a layout that does not exist, or that the spec cannot have."""
    if choice(layout, "layout", LAYOUTS) == "long":
        return False
    if spec.emit == "changes":
        raise ValueError("layout='wide' has one row a key and window end, and emit='changes' two; use emit='updates'")
    if spec.trigger is not None or spec.emit == "parts":
        raise ValueError(
            "layout='wide' has one row a key and window end, and triggers and emit='parts' several; use layout='long'"
        )
    if spec.idle is not None:
        raise ValueError(f"layout='wide' takes no idle, which may end a window twice; got idle={shown(spec.idle)}")
    for name, window in spec.windows.items():
        if isinstance(window, PerRow | RowCount | Frame | Punctuation) or not isinstance(window, Window):
            raise ValueError(
                f"layout='wide' has one row a key and window end, and several of {window!r} (windows[{name!r}]) may "
                "end together; use layout='long'" + (", or sl.attach" if isinstance(window, PerRow | RowCount) else "")
            )
    _names(spec)
    return True


def widened(table: pa.Table, spec: Spec) -> pa.Table:
    """The windows of a long table by key and end, sorted by end and keys: ``<agg>_<window>`` for each window.

    A column is null if the table does not have the window. With ``emit="updates"`` there is a ``revision_<window>`` for
    each window, and of several revisions of a window only the last is shown.
    """
    named = ["window_end", *spec.by]
    keys = KeyTable([table.schema.field(name).type for name in named])
    code = np.concatenate([NONE, *(keys.encode(batch.columns) for batch in table.select(named).to_batches())])
    place = inverse(keys.order(np.arange(len(keys)))).take(code)
    at = np.empty(len(keys), np.int64)
    at[place] = np.arange(place.size)
    found = [some_of(table[name], array_of(at)) for name in named]
    of = one_piece(table["window"])
    for window, names in _names(spec).items():
        rows = np.flatnonzero(as_numpy(pc.equal(of, window))) if len(of) else code.astype(np.int64)
        at = np.full(len(keys), -1)
        at[place[rows]] = rows  # revisions are in order, so the last one stays
        index = array_of(at, at < 0)
        found += [some_of(table[name], index) for name in names]
    columns = [*named, *(name for names in _names(spec).values() for name in names.values())]
    return pa.Table.from_arrays(found, names=columns)


def _names(spec: Spec) -> dict[str, dict[str, str]]:
    """For each window the columns of a long table and their new names. Refuses names that are taken."""
    results = [*spec.aggs, *(["revision"] if spec.emit == "updates" else [])]
    names = {window: {column: f"{column}_{window}" for column in results} for window in spec.windows}
    seen = {"window_end": "the window's end", **dict.fromkeys(spec.by, "a key column")}
    for window, columns in names.items():
        for column, name in columns.items():
            if name in seen:
                raise ValueError(
                    f"layout='wide': the column {name!r} of {column!r} and windows[{window!r}] is already "
                    f"{seen[name]}; choose another name"
                )
            seen[name] = f"that of {column!r} and windows[{window!r}]"
    return names
