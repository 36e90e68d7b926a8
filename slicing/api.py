"""One call for a notebook: aggregate all of the data at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.aggregate import Aggregate
from slicing.closing.wide import check_layout, widened
from slicing.columns.arrow_io import gathered, one_piece
from slicing.columns.dictionaries import unified, whole
from slicing.columns.frames import check_returns, given_back
from slicing.columns.keys import KeyTable
from slicing.columns.sources import batches, is_held
from slicing.columns.values import plain
from slicing.columns.wanted import Bounds, Wanted
from slicing.operator import Operator
from slicing.output import tables_of
from slicing.query.plan import Plan
from slicing.query.policy import DEFAULT, Policy
from slicing.query.processing_time import ProcessingTime
from slicing.query.rollup import check_parts, over_parts, part_name, spec_of
from slicing.query.spec import Spec
from slicing.system.arguments import says_arguments, yes_or_no
from slicing.system.progress import counted
from slicing.system.threads import MOST_THREADS, cores
from slicing.tables.held import counting_by_time, tell_end, windows_of
from slicing.times.measure import Measure
from slicing.windows.bounds import BEGIN


@says_arguments
def aggregate(
    data: object,
    spec: Spec,
    *,
    threads: int | None = None,
    between: tuple[object, object] | None = None,
    layout: str = "long",
    returns: str = "arrow",
    progress: bool = False,
) -> Any:
    """Compute the windows of all the data. All of it is read before a window closes, so no row is late.

    Parameters
    ----------
    data
        A table or frame of pyarrow, pandas, Polars or DuckDB, or of any library with Arrow's C interface. The following
        are read as streams of bounded memory: a reader, a ``pyarrow.dataset`` dataset or scanner, a ``ParquetFile``, a
        Polars ``LazyFrame``, a DuckDB relation, an iterator or a list of frames (such as
        ``pandas.read_csv(path, chunksize=...)``), or the path, the glob or the URI of Parquet, CSV, Arrow IPC and
        Feather files or of a folder of them (``str``, ``pathlib.Path``, or a list). From files, datasets, lazy frames
        and relations only the columns that the spec names are read. Each file must have these columns; a dataset with
        its own schema reads columns that a file lacks as nulls. An iterator must not write into the memory of frames
        that it has given: several small ones are read together.
    spec
        The query. With ``on_null_time="late"`` rows without a time are left out.
    threads
        How many threads share the rows, or answer parts of the time each, and decode files; by default as many as there
        are cores. Few rows stay on one thread. Results differ only in the last bits of float sums.
    between
        ``(start, end)``: only rows with ``start <= time < end`` count. Either may be None. Instants are given as for
        ``Operator.advance``. Row groups of Parquet files whose statistics lie outside are not read. Rows without a time
        are left out.
    layout
        ``"wide"``: one row per key and window end, with a column ``<aggregate>_<window>`` for each window. It is null
        if the key has no such window with this end. Window types of which several windows may end together are refused
        (``rows``, ``per_row``, ``frame``, ``punctuation``, your own).
    returns
        ``"arrow"``, ``"polars"``, ``"pandas"``, or ``"same"``: the kind of frame that the data is, if that is a frame
        of Polars or pandas. Columns of Polars' Enum, pandas' nullable numbers and its Arrow types keep their type.
        Of integers with nulls pandas makes floats; those that no float can hold become ``Int64`` or ``UInt64``.
    progress
        Whether to show how many rows were read so far: a bar of ``tqdm`` if that is installed, otherwise a line a
        second on standard error.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        The columns and the order of :class:`Output`'s ``windows``.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()})
    >>> chunks = (pa.table({"t": range(start, start + 5)}) for start in (0, 5, 10))
    >>> sl.aggregate(chunks, spec, between=(3, 12))["n"].to_pylist()
    [7, 2]
    """
    if not isinstance(spec, Spec):
        swapped = " (the data comes first)" if isinstance(data, Spec) else ""
        raise TypeError(f"aggregate takes the data and, as spec, a sl.Spec; got {type(spec).__name__}{swapped}")
    wide, kind = check_layout(layout, spec), check_returns(returns, data)
    windows = all_windows(data, spec, threads, between, yes_or_no(progress, "progress"))
    windows = widened(windows, spec) if wide else windows
    if kind == "arrow":
        return windows
    sources = {name: (name,) for name in spec.by} | {name: agg.gives() for name, agg in spec.aggs.items()}
    if wide:
        sources |= {f"{name}_{window}": sources[name] for name in spec.aggs for window in spec.windows}
    return given_back(windows, kind, (data, sources))


def all_windows(
    data: object,
    spec: Spec,
    threads: int | None,
    between: tuple[object, object] | None = None,
    progress: bool = False,
    policy: Policy = DEFAULT,
) -> pa.Table:
    """The result of :func:`aggregate` in Arrow's long layout, run with a policy."""
    threads = min(cores(), MOST_THREADS) if threads is None else threads
    operator = Operator(spec.patient, threads=threads, policy=policy.with_arguments(accounts=False))
    time = "" if isinstance(spec.time, ProcessingTime) else spec.time
    source = batches(data, Wanted(spec.columns(), time, _bounds(spec, between), threads))
    with closing(source):  # at once, also if an error is kept: DuckDB answers nothing while a reader of it is open
        return _all_windows(data, source, operator, progress)


def _all_windows(data: object, found: Iterator[pa.RecordBatch], operator: Operator, progress: bool) -> pa.Table:
    """The windows of all batches that are ``found`` in the data."""
    if is_held(data):
        held = list(found)
        operator, found = counting_by_time(operator, held), iter(held)
        policy = operator._policy = operator._policy.with_arguments(lent=True)
        if len(held) == 1 and len(held[0]) <= policy.gathered_rows:  # nothing comes that a head would wait for
            operator._policy = policy.with_arguments(head_rows=0)
        few = any(len(batch) < policy.gathered_rows for batch in held[:-1])
        large = sum(map(len, held)) >= 2 * policy.push_rows and not few
        if large and not progress and isinstance(operator.spec.time, str):
            return unified(windows_of(operator, held))
        if len(held) == 1:
            tell_end(operator, held[0])
    spec, policy = operator.spec, operator._policy
    if progress:
        found = counted(found, getattr(data, "num_rows", None))
    closed: list[pa.Table] = []
    first = next(found, None)
    if first is not None:  # with all its columns, so that an error can name them
        closed.append(operator.push(first).windows)
    for batch in gathered(found, spec.columns(), policy.gathered_rows):
        closed.append(operator.push(batch).windows)
    closed = [some for some in closed if some.num_rows]  # of rows stamped on arrival, or emitted piece by piece
    windows = operator.flush().windows
    if closed:
        windows = unified(pa.concat_tables([*closed, windows]))
    return windows


def _bounds(spec: Spec, between: object) -> Callable[[pa.DataType], Bounds] | None:
    """A function that converts two instants to values of the time column's type."""
    if between is None:
        return None
    if isinstance(spec.time, ProcessingTime):
        raise ValueError("between needs a time column; this spec stamps rows with sl.processing_time()")
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise TypeError(f"between must be (start, end), of which either may be None; got {between!r}")
    time, (start, end) = spec.time, between

    @cache  # asked for each file and batch
    def bounds(type: pa.DataType) -> Bounds:
        measure = Measure.of(type, time)
        words = [
            None if instant is None else measure.instant(instant, f"between's {name}")
            for name, instant in (("start", start), ("end", end))
        ]
        if words[0] is not None and words[1] is not None and words[0] >= words[1]:
            raise ValueError(f"between's start must be before its end; got {start!r} and {end!r}")
        low, high = (None if word is None else measure.scalar(word) for word in words)
        return low, high

    return bounds


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
