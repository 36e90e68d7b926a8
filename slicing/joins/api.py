"""``sl.join``: two whole tables joined by one call."""

from __future__ import annotations

from inspect import signature
from typing import Any, TypeVar

from slicing.columns.frames import Sources, check_returns, given_back, takes_views, with_index, without_index
from slicing.columns.sources import one_batch
from slicing.columns.wanted import Wanted
from slicing.joins.operator import JoinOperator
from slicing.joins.plan import JoinPlan
from slicing.joins.spec import RIGHT_ALONE, JoinSpec
from slicing.query.watermark import manual
from slicing.system.arguments import says_arguments

Asking = TypeVar("Asking")
_ALL_SEEN: dict[str, Any] = {"watermark": manual(), "idle": None, "schemas": None}


@says_arguments
def join(
    left: object,
    right: object,
    spec: JoinSpec | None = None,
    *,
    threads: int = 1,
    returns: str = "arrow",
    **arguments: Any,
) -> Any:
    """Join two tables by keys and time. All data is given at once, so no row is late.

    Parameters
    ----------
    left, right : table
        Anything with the Arrow C interface: a pyarrow, polars, pandas or duckdb table, a reader, a dataset.
    spec : JoinSpec, optional
        The join; or give its arguments (``on=``, ``time=``, ``within=``, ``how=`` ...) instead.
    threads : int
        Threads that share the work.
    returns : str
        ``"arrow"``, ``"polars"``, ``"pandas"``, or ``"same"``: the kind of the left data. If this is a pandas
        frame with an index other than a plain range, the index is kept. The right index is dropped unless it is named.
        Columns of both sides keep the types that :func:`aggregate` names. If keys are merged and right rows without a
        partner are returned, the Enums of both sides become one with all their categories, or a Categorical or text if
        their orders differ.

    Returns
    -------
    pyarrow.Table, or a frame as ``returns`` says
        Left rows in the order of the data, each with its partners by (time, arrival). Right rows without a partner
        follow, in the order of the right data. With ``on_null_time="late"`` rows without a time are left out.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import slicing as sl
    >>> trades = pa.table({"t": [3, 9], "share": ["X", "X"], "price": [10.5, 10.7]})
    >>> quotes = pa.table({"t": [1, 2, 8], "share": ["X", "X", "X"], "bid": [10.1, 10.4, 10.6]})
    >>> sl.join(trades, quotes, on="share", time="t", within=(None, 0), match="last")["bid"].to_pylist()
    [10.4, 10.6]
    """
    patient = seeing_all("join", JoinSpec, spec, arguments)
    kind = check_returns(returns, left)
    first = one_batch(left, Wanted(argument="left"))
    second = without_index(one_batch(right, Wanted(argument="right")))
    plan = JoinPlan.of(patient, first.schema, second.schema, takes_views(kind))
    found = JoinOperator(patient, threads=threads).whole(first, second, plan)
    if kind == "arrow":
        return found
    of_left, of_right = _sources(plan)
    return given_back(with_index(found, first.schema), kind, (left, of_left), (right, of_right))


def _sources(plan: JoinPlan) -> tuple[Sources, Sources]:
    """For the columns of the result, the column of each side that fills them."""
    alone = plan.spec.how in RIGHT_ALONE  # otherwise every row has a left row, and the keys are those of the left
    of_left = {source.name: (source.left,) for source in plan.sources if source.left is not None}
    found = [source for source in plan.sources if alone or source.left is None]
    return of_left, {source.name: (source.right,) for source in found if source.right is not None}


def seeing_all(function: str, kind: type[Asking], spec: Asking | None, arguments: dict[str, Any]) -> Asking:
    """The spec given, or built from the arguments, with manual watermarks, no ``idle`` and no ``schemas``."""
    if spec is None:
        spec = kind(**_ALL_SEEN | arguments)
        if _ALL_SEEN.keys().isdisjoint(arguments):
            return spec
    elif not isinstance(spec, kind):
        wanted, got = f"sl.{kind.__name__}", type(spec).__name__
        raise TypeError(f"{function} takes two tables and, as spec, a {wanted}, or its arguments; got {got}")
    elif arguments:
        raise TypeError(f"{function} takes a spec or its arguments, not both; got a spec and {', '.join(arguments)}")
    given = {name: getattr(spec, name) for name in signature(kind).parameters}
    return kind(**given | _ALL_SEEN)
