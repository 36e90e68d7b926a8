"""``sl.features``: aggregates of one table as of each row of another, in one call."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slicing.columns.frames import check_returns, given_back, takes_views, with_index
from slicing.columns.sources import one_batch
from slicing.columns.wanted import Wanted
from slicing.joins.api import seeing_all
from slicing.joins.features.operator import FeatureOperator
from slicing.joins.features.plan import over_events
from slicing.joins.features.spec import FeatureSpec
from slicing.system.arguments import says_arguments


@says_arguments
def features(
    labels: object,
    events: object,
    spec: FeatureSpec | None = None,
    *,
    returns: str = "arrow",
    threads: int = 1,
    **arguments: Any,
) -> Any:
    """Aggregate an events table as of each row of another table. The call sees all data, so no row is late.

    Parameters
    ----------
    labels, events : table
        Anything with the Arrow C interface: a pyarrow, polars, pandas or duckdb table, a reader, a dataset.
    spec : FeatureSpec, optional
        The query; or pass its arguments (``on=``, ``time=``, ``ranges=``, ``aggs=`` ...) instead.
    returns : str
        ``"arrow"``, ``"polars"``, ``"pandas"``, or ``"same"``: the library of the labels. A pandas frame keeps its
        index. Columns of labels and aggregated columns of events keep the types that :func:`aggregate` names.
    threads : int
        The number of threads.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        One row for each label, in the order of the labels: label columns, then ``<agg>_<range>`` by range, then by
        aggregate. With ``on_null_time="late"``, rows without a time are left out.

    Examples
    --------
    What each user had spent before each question, in the last ten minutes and ever:

    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> asked = pa.table({"user": ["ann", "bob"], "t": [100, 100]})
    >>> sales = pa.table({"user": ["ann", "ann", "bob"], "t": [80, 95, 100], "paid": [1.5, 2.0, 9.0]})
    >>> aggs = {"n": sl.count(), "spent": sl.sum("paid")}
    >>> sl.features(asked, sales, on="user", time="t", ranges={"10": 10, "ever": None}, aggs=aggs).to_pandas()
      user    t  n_10  spent_10  n_ever  spent_ever
    0  ann  100     1       2.0       2         3.5
    1  bob  100     0       NaN       0         NaN
    """
    patient = seeing_all("features", FeatureSpec, spec, arguments)
    kind = check_returns(returns, labels)
    batch = one_batch(labels, Wanted(argument="labels"))
    found = FeatureOperator(patient, threads=threads).whole(batch, _read(events, patient), takes_views(kind))
    if kind == "arrow":
        return found
    of_labels = {name: (name,) for name in batch.schema.names}
    of_events = {name: patient.aggs[agg].gives() for _, agg, name in patient.names()}
    back = given_back(with_index(found, batch.schema), kind, (labels, of_labels), (events, of_events))
    if kind == "pandas" and returns == "same":
        time = batch.column(patient.time[0])
        back.index = labels.index[time.is_valid().to_numpy(zero_copy_only=False)]  # type: ignore[attr-defined]
    return back


def _read(events: object, spec: FeatureSpec) -> pa.RecordBatch:
    """The columns of the events that the spec reads."""
    names = tuple(dict.fromkeys([*(pair[1] for pair in spec.on), *over_events(spec).columns()]))
    batch = one_batch(events, Wanted(names, argument="events"))
    return batch.select(names) if all(batch.schema.names.count(name) == 1 for name in names) else batch
