"""One call for a notebook: aggregates of one table as of each row of another."""

from __future__ import annotations

from typing import Any

from slicing.columns.frames import check_returns, given_back
from slicing.columns.sources import one_batch
from slicing.joins.api import seeing_all
from slicing.joins.features.operator import FeatureOperator
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
    """Aggregate an events table as of each row of another one; all data is seen, so nothing is late.

    Parameters
    ----------
    labels, events : table
        Anything with the Arrow C interface: a pyarrow, polars, pandas or duckdb table, a reader, a dataset.
    spec : FeatureSpec, optional
        The query; or give its arguments (``on=``, ``time=``, ``ranges=``, ``aggs=`` ...) instead.
    returns : str
        ``"arrow"``, ``"polars"``, ``"pandas"``, or ``"same"``: what the labels came in.
    threads : int
        How many share the work.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        One row a label, in the order of the labels: their columns, then ``<agg>_<range>`` by range, then aggregate.
        With ``on_null_time="late"`` rows without a time are left out.

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
    return given_back(FeatureOperator(patient, threads=threads).whole(one_batch(labels), one_batch(events)), kind)
