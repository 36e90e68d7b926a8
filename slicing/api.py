"""One call for a notebook: aggregate all of the data at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from typing import Any

import pyarrow as pa

from slicing.closing.wide import check_layout, widened
from slicing.columns.arrow_io import gathered, size_of
from slicing.columns.dictionaries import unified
from slicing.columns.frames import check_returns, given_back
from slicing.columns.sources import batches, is_held
from slicing.columns.wanted import Bounds, Wanted
from slicing.operator import Operator
from slicing.query.policy import DEFAULT, Policy
from slicing.query.processing_time import ProcessingTime
from slicing.query.spec import Spec
from slicing.system.arguments import says_arguments, yes_or_no
from slicing.system.progress import counted
from slicing.system.threads import MOST_THREADS, cores
from slicing.tables.held import counting_by_time, tell_end, windows_of
from slicing.times.measure import Measure


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
        policy, listed = operator._policy, _few(operator, held)
        alone = len(held) == 1 and len(held[0]) <= policy.gathered_rows  # nothing comes that a head would wait for
        head_rows = 0 if alone else policy.head_rows
        operator._policy = policy.with_arguments(lent=True, listed=listed, head_rows=head_rows)
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


def _few(operator: Operator, held: list[pa.RecordBatch]) -> bool:
    """Whether so few rows come, and so few bytes of texts that are read of them, that equal texts may be kept twice."""
    policy = operator._policy
    if sum(map(len, held)) > policy.listed_rows:
        return False
    given = held[0].schema
    read = [at for at in map(given.get_field_index, operator.spec.columns()) if at >= 0]
    texts = [at for at in read if not pa.types.is_primitive(given.field(at).type)]
    return sum([size_of(batch.column(at)) for batch in held for at in texts]) <= policy.listed_bytes


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
