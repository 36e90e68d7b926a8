"""Replay existing rows as a stream, and find the final results after its corrections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.arrow_io import together
from slicing.columns.bits import as_numpy
from slicing.columns.casts import plain
from slicing.columns.dictionaries import unified, whole
from slicing.columns.frames import check_returns, given_back
from slicing.columns.keys import KeyTable
from slicing.columns.sources import batches
from slicing.columns.taking import taken
from slicing.columns.wanted import Wanted
from slicing.operator import Operator
from slicing.output import Output, tables_of
from slicing.query.spec import Spec
from slicing.system.arguments import at_least_one, says_arguments
from slicing.system.arrays import Codes, Ints, Mask
from slicing.times.durations import shown


@says_arguments
def replay(data: object, spec: Spec, *, rows: int | None = None, layout: str = "long") -> Replay:
    """Push data to an operator as a stream would bring it, then flush, and iterate over the outputs.

    Parameters
    ----------
    data
        What :func:`aggregate` takes. Rows are pushed in their given order. Items of an iterator are fetched when they
        are pushed.
    spec
        The query, with its watermark, lateness and ``emit``.
    rows
        How many rows a push has. By default each batch of the data is a push.
    layout
        As for :class:`Operator`.

    Returns
    -------
    iterator of Output
        The output of each push, then the output of the flush. The method ``latest(returns=)`` runs to the end and
        returns :func:`latest` of all outputs.

    See Also
    --------
    latest : the results that corrections leave.
    aggregate : all data at once; no row is late.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(5))
    >>> for out in sl.replay(pa.table({"t": [1, 9, 12, 18, 3]}), spec, rows=2):
    ...     print(out.watermark, out.windows["n"].to_pylist(), out.stats.late)
    4 [] 0
    13 [2] 0
    13 [] 1
    13 [2] 0
    >>> sl.replay(pa.table({"t": [1, 9, 12, 18, 3]}), spec, rows=2).latest()["n"].to_pylist()
    [2, 2]
    """
    if not isinstance(spec, Spec):
        swapped = " (the data comes first)" if isinstance(data, Spec) else ""
        raise TypeError(f"replay takes the data and, as spec, a sl.Spec; got {type(spec).__name__}{swapped}")
    if rows is not None:
        at_least_one(rows, "rows", ", or None")
    operator = Operator(spec, layout=layout)
    found = batches(data)
    return Replay(operator, found if rows is None else _cut(found, rows))


class Replay(Iterator[Output]):
    """The iterator that :func:`replay` returns."""

    def __init__(self, operator: Operator, pushes: Generator[pa.RecordBatch]) -> None:
        self._spec = operator.spec
        self._outputs = _outputs(operator, pushes)

    def __next__(self) -> Output:
        return next(self._outputs)

    def latest(self, *, returns: str = "arrow") -> Any:
        """The :func:`latest` results of all outputs that were not iterated yet."""
        return latest(self, self._spec, returns=returns)


def _outputs(operator: Operator, pushes: Generator[pa.RecordBatch]) -> Iterator[Output]:
    with closing(pushes):  # at once, also if an error is kept, as in ``aggregate``
        for batch in pushes:
            yield operator.push(batch)
    yield operator.flush()


def _cut(found: Iterator[pa.RecordBatch], rows: int) -> Generator[pa.RecordBatch]:
    """Batches of ``rows`` rows; the last batch has the rest. Without rows there is one empty batch."""
    held: list[pa.RecordBatch] = []
    count, any_yet = 0, False
    for batch in found:
        at = 0
        while batch.num_rows - at >= rows - count:
            yield together([*held, batch.slice(at, rows - count)])
            at, held, count, any_yet = at + rows - count, [], 0, True
        held.append(batch.slice(at))
        count += batch.num_rows - at
    if held and (count or not any_yet):
        yield together(held)


@says_arguments
def latest(results: object, spec: Spec, *, returns: str = "arrow") -> Any:
    """The last result of each window, without results that were corrected later.

    With ``emit="changes"`` retracted rows are left out, with ``"updates"`` earlier revisions. After a flush this equals
    the result of :func:`aggregate`, if no row was late.

    Parameters
    ----------
    results
        Outputs of ``spec``, such as those of :func:`replay`, or their ``windows``, in the order in which they came.
    spec
        The query that made the results.
    returns
        As for :func:`aggregate`.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        The columns of the results without ``op``, in the order in which the last results came.

    Raises
    ------
    ValueError
        For ``emit="parts"``, whose results add up instead (:func:`rollup`), ``layout="wide"``, or a spec with ``idle``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, allowed_lateness=50, emit="changes")
    >>> outputs = list(sl.replay(pa.table({"t": [1, 12, 3]}), spec, rows=1))
    >>> [f"{w['op']}{w['n']}" for out in outputs for w in out.windows.to_pylist()]
    ['+1', '-1', '+2', '+1']
    >>> sl.latest(outputs, spec)["n"].to_pylist()
    [2, 1]
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"latest takes results and, as spec, the sl.Spec that gave them; got {type(spec).__name__}")
    if spec.emit == "parts":
        raise ValueError("latest keeps the last result of each window, and those of emit='parts' add up: use sl.rollup")
    if spec.idle is not None:
        raise ValueError(
            f"latest keeps one result of each window, and idle={shown(spec.idle)} may end a window twice: leave it out"
        )
    kind = check_returns(returns, results)
    table = _together(results)
    names = ["window", "window_start", "window_end", *spec.by, *(["rank_start"] if spec.ranks_rows else [])]
    marks = {"final": [], "changes": ["op"]}.get(spec.emit, ["revision"])
    for name in [*names, *marks]:
        if name not in table.column_names:
            raise ValueError(
                f"column {name!r} is missing in the results; their columns are {', '.join(table.column_names)}. "
                "Results of this spec in its long layout are needed"
            )
    if spec.emit == "final" and spec.trigger is None:
        return given_back(table, kind)
    batch = pa.record_batch({name: plain(whole(table[name])) for name in table.column_names})
    came = pc.equal(batch.column("op"), "+") if spec.emit == "changes" else pc.equal(batch.column("revision"), 0)
    came = as_numpy(came)
    gone = ~came if spec.emit == "changes" else np.zeros_like(came)
    last = _standing(batch, names, came, gone)
    table = pa.Table.from_batches([taken(batch, last)])
    return given_back(table.drop_columns("op") if spec.emit == "changes" else table, kind)


def _together(results: object) -> pa.Table:
    """The windows of outputs, or tables, as one table."""
    tables = tables_of(results)
    if isinstance(tables, list):
        tables = [table for table in tables if getattr(table, "num_rows", 1)] or tables[:1]
    return unified(pa.Table.from_batches(list(batches(tables, Wanted(argument="results")))))


def _standing(batch: pa.RecordBatch, names: list[str], came: Mask, gone: Mask) -> Ints:
    """The positions of results that remain, in order. Rows that are equal in the named columns are one window, or as
    many windows as came without being taken back (rows of equal time have equal ``per_row`` windows). Then as many of
    the last rows remain. Windows that exist side by side (frames of rows of equal time) are matched by all columns."""
    columns = [batch.column(name) for name in names]
    keys = KeyTable([column.type for column in columns])
    code = keys.encode(columns)
    gone_of = np.bincount(code[gone], minlength=len(keys))
    count = np.bincount(code[came], minlength=len(keys)) - gone_of
    last = np.empty(len(keys), np.int64)
    last[code] = np.arange(code.size)
    count = np.maximum(count, ~gone[last])  # the results may begin in the middle of a stream
    order = np.argsort(code, kind="stable")
    beside = order[1:][came[order][1:] & came[order][:-1] & (code[order][1:] == code[order][:-1])]
    together = np.zeros(len(keys), bool)
    together[code[beside]] = True
    together &= gone_of > 0
    count[together] = 0
    at = order[~gone[order]]
    after = np.searchsorted(code[at], code[at], side="right") - np.arange(at.size)  # itself and later ones
    matched = _not_gone(batch, code, np.flatnonzero(together[code]), gone)
    return np.sort(np.concatenate([at[after <= count[code[at]]], matched]))


def _not_gone(batch: pa.RecordBatch, code: Codes, at: Ints, gone: Mask) -> Ints:
    """The positions among ``at`` of results that no later retraction takes back. A retraction is equal to its result
    except for ``op``. Floats that match to the last bit are preferred: a repeated sum may be rounded differently."""
    rows = taken(batch, at)
    columns = [column for column, name in zip(rows.columns, rows.schema.names, strict=True) if name != "op"]
    plain = [c.view(f"int{c.type.bit_width}") if pa.types.is_temporal(c.type) else c for c in columns]
    floats = [c.to_pylist() for c in plain if pa.types.is_floating(c.type)]
    exact = [c.to_pylist() for c in plain if not pa.types.is_floating(c.type)]
    standing = defaultdict[str, list[tuple[int, str]]](list)
    for n, i in enumerate(at.tolist()):
        alike = standing[repr((code[i], [values[n] for values in exact]))]
        rounded = repr([values[n] for values in floats])
        if not gone[i]:
            alike.append((i, rounded))
        elif alike:
            del alike[next((k for k, known in enumerate(alike) if known[1] == rounded), 0)]
    return np.array([i for alike in standing.values() for i, _ in alike], np.int64)
