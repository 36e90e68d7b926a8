"""Row-aligned results: the rows of the input, each with the results of the window that it belongs to or ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.api import aggregate
from slicing.beside.answers import INSTEAD, Question, Rows, answer_of_each
from slicing.beside.short import up_to
from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.dictionaries import some_of
from slicing.columns.frames import check_returns, given_back, names_in, with_beside
from slicing.columns.sources import batches
from slicing.columns.taking import rows_of
from slicing.columns.wanted import ALL as ALL_COLUMNS
from slicing.columns.wanted import Wanted
from slicing.query.processing_time import ProcessingTime
from slicing.query.spec import Spec
from slicing.query.spec_checks import AnyWindow
from slicing.system.arguments import says_arguments
from slicing.system.arrays import Ints
from slicing.times.durations import amount, shown
from slicing.windows.builtin import ContextFreeWindow, Cumulate, Landmark, Session, Sliding, Whole
from slicing.windows.calendar import CalendarSteps
from slicing.windows.rows.last_rows import LastRows
from slicing.windows.rows.marked import Frame, Punctuation
from slicing.windows.rows.per_row import PerRow
from slicing.windows.rows.row_count import RowCount
from slicing.windows.rows.users import ContextAwareWindow


@says_arguments
def attach(data: object, spec: Spec, *, threads: int = 1, returns: str = "arrow", min_rows: int | None = None) -> Any:
    """The rows of the data, in their order, each with the aggregates of its window.

    The result has the length of the input, as that of Polars' ``over`` and ``rolling`` and of pandas' ``transform`` and
    ``rolling``. A row gets the window that it *belongs to* (``tumbling``, ``calendar``, ``fixed``, ``session``,
    ``punctuation``, ``frame``, ``whole``, ``rows(n)``), or the window that it *makes* (``per_row``,
    ``rows(n, every=1)``: the last ``n`` rows up to this row).

    Parameters
    ----------
    data
        What :func:`aggregate` takes. All of it is held in memory, as it is returned.
    spec
        The query. Lateness, the watermark and ``emit`` do not matter: all data is seen before a window closes.
        With ``on_null_time="late"``, rows without a time are in no window.
    threads
        As for :class:`Operator`.
    returns
        As for :func:`aggregate`. With ``"same"``, frames of pandas and Polars keep their own columns as they are, also
        those that Arrow does not have, and frames of pandas keep their index.
    min_rows
        With ``rows(n, every=1)`` in order of time: rows with fewer than ``n`` rows up to them, but at least so many,
        get the aggregates of these, as by ``min_periods`` of pandas and ``min_samples`` of Polars. By default, ``n``.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        All columns of the data, then a column for each aggregate. With several windows in ``spec``, the columns are
        named ``<aggregate>_<window>``, window by window. They are null in rows that are in no window: outside of a
        frame or of a ``fixed`` band, or with too few rows. If the range of a ``per_row`` window has no rows,
        counts are 0 and other aggregates are null.

    Raises
    ------
    ValueError
        If a row may be in several windows of a type (``sliding``, ``cumulate``, ``landmark``, ``last_rows``), or if a
        new column has the name of an existing column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"t": [1, 2, 12, 12], "user": ["ann", "bob", "ann", "ann"], "ms": [5, 7, 3, 9]})
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"most": sl.max("ms")}, by="user")
    >>> sl.attach(rows, spec)["most"].to_pylist()
    [5, 7, 9, 9]
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"attach takes the data and, as spec, a sl.Spec; got {type(spec).__name__}")
    if isinstance(spec.time, ProcessingTime):
        raise ValueError("attach needs the rows' own times; got time=sl.processing_time()")
    if spec.idle is not None:
        raise ValueError(
            f"attach takes no idle, which ends the windows of quiet keys in a stream; got idle={shown(spec.idle)}: "
            "leave it out, or use a session"
        )
    if spec.op is not None:
        raise ValueError(
            f"attach gives every row the answers of its window, and rows that are taken back have none; got "
            f"op={spec.op!r}: attach to the rows that are left"
        )
    for name, window in spec.windows.items():
        if isinstance(window, ContextAwareWindow):
            raise ValueError(
                f"windows[{name!r}]: attach does not know which rows {window!r} puts into a window: edges depend on "
                f"rows; {INSTEAD}"
            )
        _check_window(name, window)
    if min_rows is not None:
        spec = up_to(spec, min_rows)
    kind = check_returns(returns, data)
    beside = returns == "same" and kind in ("pandas", "polars")  # the frame keeps its columns as they are
    batches_given = list(batches(data, Wanted(spec.columns()) if beside else ALL_COLUMNS))
    given = pa.Table.from_batches(batches_given)
    names = _new_columns(spec, names_in(data) if beside else given.column_names)
    question = Question.of(spec)
    rows = Rows.of(question, batches_given)
    results = rows.answered(question, threads)
    found: dict[str, pa.Array | pa.ChunkedArray] = {}
    sources: dict[str, Sequence[str]] = {}
    for name, window in spec.windows.items():
        at, answers = answer_of_each(rows, results, name, window)
        for agg, column in names[name].items():
            found[column] = rows.as_texts(spec.aggs[agg], _beside(answers[agg], at, rows.count))
            sources[column] = spec.aggs[agg].gives()
    if beside:
        return with_beside(data, given_back(pa.table(found), kind, (data, sources)))
    for column, answer in found.items():
        given = given.append_column(column, answer)
    return given_back(given, kind, (data, {name: (name,) for name in given.column_names} | sources))


def _beside(answers: pa.ChunkedArray, at: Ints | int, rows: int) -> pa.Array | pa.ChunkedArray:
    """The answers at these positions, null at -1; or, one for each of the ``rows``, in order, behind so many nulls."""
    if isinstance(at, int):
        answers = answers.slice(0, rows - at)
        if at == 0:
            return answers
        if pa.types.is_primitive(answers.type):
            return pa.concat_arrays([pa.nulls(at, answers.type), *answers.chunks])
        at = np.maximum(np.arange(-at, len(answers)), -1)
    none = at < 0
    if pa.types.is_dictionary(answers.type):
        return some_of(answers, array_of(at, none))
    return rows_of(one_piece(answers), at, none if none.any() else None)


def _check_window(name: str, window: AnyWindow) -> None:
    """Refuse a window type of which a row may be in several windows."""
    several = None
    if isinstance(window, Sliding) and amount(window.every) < amount(window.size):
        several = f"sl.per_row({shown(window.size)}) for the last {window.size} at each row, sl.tumbling for one"
    elif isinstance(window, CalendarSteps):
        several = "sl.calendar without every= for units side by side"
    elif isinstance(window, Cumulate) and window.every != window.size:
        several = "sl.tumbling(size) for the whole of each"
    elif isinstance(window, Landmark):
        several = "sl.whole() for all rows"
    elif isinstance(window, LastRows):
        several = f"sl.rows({window.n}, every=1) for the last {window.n} rows at each row"
    elif isinstance(window, RowCount) and 1 < window.every < window.n:
        several = "every=1 for the rows before each row, or no every for windows side by side"
    elif isinstance(window, RowCount) and window.every == 1 and window.n > 1 and window.partial:
        several = "partial=False, and min_rows= of attach for answers of rows short of n rows"
    elif isinstance(window, PerRow) and window.every > 1:
        several = "every=1 for a window of each row"
    elif not isinstance(window, ContextFreeWindow | Session | Whole | PerRow | RowCount | Punctuation | Frame):
        several = "a sl.ContextFreeWindow whose windows do not overlap"
    if several is not None:
        raise ValueError(
            f"windows[{name!r}]: attach gives each row one window, and it may be in several of {window!r}; use "
            f"{several}; or {INSTEAD.removeprefix('use ')}"
        )


def _new_columns(spec: Spec, taken_names: list[str]) -> dict[str, dict[str, str]]:
    """The name of each new column, by window and aggregate."""
    several = len(spec.windows) > 1
    names = {w: {agg: f"{agg}_{w}" if several else agg for agg in spec.aggs} for w in spec.windows}
    seen = set(taken_names)
    for window, columns in names.items():
        for agg, name in columns.items():
            if name in seen:
                what = f"aggs has {agg!r}" + (f", which windows[{window!r}] makes {name!r}" if several else "")
                raise ValueError(f"{what}: the result has a column of this name already; choose another name")
            seen.add(name)
    return names


class Methods:
    """``frame.slicing``, once ``slicing.pandas`` or ``slicing.polars`` is imported."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def aggregate(self, spec: Spec, **options: Any) -> Any:
        """Compute the windows of the frame's rows: :func:`slicing.aggregate`, as a frame of the same kind."""
        return aggregate(self._frame, spec, **{"returns": "same"} | options)

    def attach(self, spec: Spec, **options: Any) -> Any:
        """Add the aggregates of each row's window: :func:`slicing.attach`, as a frame with the same index."""
        return attach(self._frame, spec, **{"returns": "same"} | options)
