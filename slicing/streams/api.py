"""One row of each key and window, or within each span, of data that is there as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_io import one_piece
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import as_numpy
from slicing.columns.frames import check_returns, given_back
from slicing.columns.keys import KeyTable
from slicing.columns.order import order_by, stable_order
from slicing.columns.sources import one_batch
from slicing.columns.taking import taken
from slicing.columns.typed import in_result_types
from slicing.columns.values import ordering
from slicing.operator import Operator
from slicing.query.plan import Plan
from slicing.query.watermark import manual
from slicing.streams.distinct import WINDOWS, Distinct, DistinctSpec, as_coded, chosen_rows, with_rows
from slicing.system.arguments import says_arguments
from slicing.system.arrays import Ints
from slicing.times.durations import Span
from slicing.windows.bounds import LIMIT


@says_arguments
def distinct(
    data: object,
    on: list[str] | str | DistinctSpec,
    time: str | None = None,
    within: object = None,
    keep: str = "first",
    sequence: str | None = None,
    *,
    returns: str = "arrow",
) -> Any:
    """Keep one row of the data for each key and window, or for each key and span.

    Rows are in the order of the ends of their windows, then by key.

    Parameters
    ----------
    data
        Rows, in any form that :func:`aggregate` takes.
    on, time, within, keep, sequence
        As for :class:`DistinctSpec`; or such a spec alone.
    returns
        As for :func:`aggregate`.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        The rows that are kept, with all their columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> clicks = pa.table({"t": [1, 2, 12, 30], "id": ["a", "a", "a", "a"]})
    >>> sl.distinct(clicks, on=["id"], time="t", within=15)["t"].to_pylist()
    [1, 30]
    """
    kind = check_returns(returns, data)
    if isinstance(on, DistinctSpec):
        if (time, within, keep, sequence) != (None, None, "first", None):
            raise TypeError("distinct takes a spec alone, or on=, time= and within=; got both")
        spec = replace(on, watermark=manual())
    else:
        missing = [f"{name}=" for name, given in (("time", time), ("within", within)) if given is None]
        if time is None or within is None:
            raise TypeError(f"sl.distinct needs {' and '.join(missing)} as well, or a sl.DistinctSpec")
        spec = DistinctSpec(on, time, within, keep, sequence, manual())
    given = in_result_types(one_batch(data))
    rows = _first_to_arrive(spec, given) if spec.keep == "any" else _taken(spec, given)
    return given_back(rows, kind, (data, {name: (name,) for name in rows.column_names}))


def _first_to_arrive(spec: DistinctSpec, given: pa.RecordBatch) -> pa.Table:
    """The first row of each key and window to arrive."""
    op = Distinct(spec)
    found = [out.rows for out in (op.push(given), op.flush()) if out.rows.num_rows]
    return found[0] if found else pa.Table.from_batches([given]).slice(0, 0)


def _taken(spec: DistinctSpec, given: pa.RecordBatch) -> pa.Table:
    """The rows that are kept of a whole stream. As it is here, the engine is given their numbers instead of rows."""
    places = None if isinstance(spec.within, WINDOWS) else _apart(spec, given, spec.within)
    if places is None:
        operator = Operator(spec.query())
        outs = operator.push(with_rows(spec, given, array_of(np.arange(given.num_rows)))), operator.flush()
        kept = [one_piece(rows) for out in outs if (rows := chosen_rows(spec, out.windows)) is not None]
        places = as_numpy(pa.concat_arrays(kept)) if kept else np.empty(0, np.int64)
    return as_coded(pa.Table.from_batches([taken(given, places)]), given.schema)


def _apart(spec: DistinctSpec, given: pa.RecordBatch, span: Span) -> Ints | None:
    """The numbers of the rows without an earlier row of their key within the span: of all rows, sorted, it is enough to
    look at the row before. None: the engine says what is wrong with their times. 1 M rows of 100 keys 440 -> 95 ms."""
    batch = with_rows(spec, given, array_of(np.arange(given.num_rows)))
    plan = Plan.of(spec.query(), batch.schema)  # says what is wrong with the columns
    _, columns = plan.columns.of(batch)
    column = columns[spec.time]
    time = plan.measure.words(column) if not column.null_count else np.empty(0, np.int64)
    if column.null_count or not time.size or time.min() < -LIMIT or time.max() > LIMIT:
        return None
    keys = KeyTable(plan.key_types)
    code = keys.encode([columns[name] for name in spec.on]) if spec.on else np.zeros(time.size, np.int32)
    by_time = order_by(*([] if spec.sequence is None else [ordering(columns[spec.sequence], spec.sequence)]), time)
    order = by_time.take(stable_order(code.take(by_time)))
    of_key, sorted_time = code.take(order), time.take(order)
    between = (sorted_time[1:] - sorted_time[:-1]).view(np.uint64)  # far times differ by more than int64 holds
    near = (of_key[1:] == of_key[:-1]) & (between < np.uint64(plan.measure.ticks(span, "within")))
    kept = order[~np.append(False, near)]
    places = keys.places(code.take(kept).astype(np.int64)) if spec.on else kept
    return kept.take(order_by(places, time.take(kept)))
