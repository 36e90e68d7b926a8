"""Compile kernels before the first query: for images, Spark workers and CI."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slicing.aggregates.builtin import argmax, count, first, last, max, mean, min, std, sum
from slicing.aggregates.holistic import count_distinct, median, mode, top_k
from slicing.api import aggregate
from slicing.operator import Operator
from slicing.query.spec import Spec
from slicing.query.triggers import every
from slicing.query.watermark import bounded, ordered
from slicing.windows.builtin import cumulate, session, sliding, tumbling
from slicing.windows.calendar import calendar
from slicing.windows.rows.last_rows import last_rows
from slicing.windows.rows.marked import frame, punctuation
from slicing.windows.rows.per_row import per_row
from slicing.windows.rows.row_count import rows

ROWS = 4000
PUSHES = 4


def warm(spec: Spec | None = None, sample: object = None) -> float:
    """Compile kernels now and keep them on disk for later processes.


    Parameters
    ----------
    spec : Spec, optional
        Compile what this query needs. If left out, kernels of common queries are compiled.
    sample : table, optional
        Some thousand rows of the query's real data: kernels depend on the types of columns, on nulls and on disorder.
        Required with ``spec``.

    Returns
    -------
    float
        The seconds that it took.

    Examples
    --------
    >>> import pyarrow as pa, slicing as sl
    >>> spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()})
    >>> sl.warm(spec, pa.table({"t": [1, 2, 30]})) < 60
    True
    """
    if spec is not None and (sample is None or not isinstance(spec, Spec)):
        raise TypeError(
            f"warm takes a sl.Spec and a sample of its data, or nothing; got {type(spec).__name__} and "
            f"{type(sample).__name__}"
        )
    began = time.perf_counter()
    if spec is None:
        data = _readings()
        for each in _queries():
            _run(each, data.sort_by("at"), data)
    else:
        _run(spec, sample, sample)
    return time.perf_counter() - began


def _run(spec: Spec, data: object, stream: object) -> None:
    """Run a query on all data at once, and on a stream."""
    aggregate(data, spec)
    table = pa.table(stream)
    operator, size = Operator(spec), table.num_rows // PUSHES + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in range(0, table.num_rows, size):
            operator.push(table.slice(start, size))
        operator.flush()


def _readings() -> pa.Table:
    """A stream of sensor readings; only its last quarter is out of order."""
    rng = np.random.default_rng(1)
    at = np.arange(ROWS) * 50_000
    at[-ROWS // 4 :] += rng.integers(-1_000_000, 1_000_000, ROWS // 4)
    number = rng.integers(0, 50, ROWS)
    return pa.table(
        {
            "at": pa.array(at + 1_700_000_000_000_000).cast(pa.timestamp("us")),
            "name": pa.array([f"n{k}" for k in number]),
            "number": number,
            "value": rng.normal(size=ROWS),
            "some": pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.1),
            "whole": rng.integers(0, 100, ROWS),
            "mark": rng.random(ROWS) < 0.1,
        }
    )


def _queries() -> Iterator[Spec]:
    slack = bounded("2s")
    plain = {"n": count(), "sum": sum("value"), "low": min("value"), "high": max("value"), "mean": mean("value")}
    wholes = {"n": count("some"), "sum": sum("whole"), "low": min("whole"), "high": max("whole"), "mean": mean("some")}
    moments = {"std": std("value"), "first": first("value"), "last": last("whole"), "at": argmax("value", "at")}
    lists = {"median": median("value"), "distinct": count_distinct("whole"), "mode": mode("whole")}
    lists["top"] = top_k("value", 3)
    between = {"tumbling": tumbling("10s"), "sliding": sliding("30s", "10s"), "day": calendar("1d")}
    for by in ("", "name", "number"):
        keys = [by] if by else []
        for aggs in (plain, wholes, moments, lists):
            yield Spec("at", between, aggs, by=keys, watermark=slack)
        for aggs in (plain, {**moments, **lists}):
            yield Spec("at", {"visit": session("400ms"), "w": tumbling("10s")}, aggs, by=keys, watermark=slack)
            yield Spec("at", {"visit": session("400ms")}, aggs, by=keys, watermark=slack)
        yield Spec("at", {"w": sliding("2s", "1s")}, {"median": median("value")}, by=keys, watermark=slack)
        yield Spec(
            "at", {"p": punctuation("mark")}, {"sum": sum("whole"), "mode": mode("whole")}, by=keys, watermark=slack
        )
        yield Spec(
            "at", {"w": sliding("30s", "10s")}, plain, by=keys, watermark=slack, emit="updates", allowed_lateness="9s"
        )
        yield Spec("at", {"w": tumbling("10s")}, plain, by=keys, watermark=slack, emit="updates", trigger=every("2s"))
        yield Spec("at", {"w": cumulate("1m", "20s")}, plain, by=keys, watermark=slack)
        yield Spec("at", {"r": rows(100), "s": rows(100, every=10)}, plain, by=keys, watermark=slack)
        yield Spec("at", {"r": rows(20)}, plain, by=keys, watermark=ordered("late"))
        yield Spec("at", {"r": per_row("5s")}, plain, by=keys, watermark=slack)
        yield Spec("at", {"r": last_rows(5, "10s")}, moments, by=keys, watermark=slack)
        yield Spec("at", {"p": punctuation("mark"), "f": frame("mark", "mark")}, plain, by=keys, watermark=slack)
