"""``plan="native"``: a spec run by Spark's own windows, if they can express it.

A sliding window is a chain of two aggregations: of slices, and of the slices of a window (``window_time``). Spark's
plain plan would copy every row into each of its windows. Columns, types, nulls and overflow are as with
``plan="slices"``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from slicing import Explanation, Spec
from slicing import explain as explain_spec
from slicing.aggregates.aggregate import Aggregate, Formula
from slicing.columns.expressions import Derived
from slicing.query.watermark import Bounded
from slicing.times.durations import Duration
from slicing.windows.builtin import Session, Sliding, Tumbling
from spark_udfs import in_spark
from spark_udfs.jobs import Job
from spark_udfs.plans import check_names, numbered
from spark_udfs.types import arrow_schema, spark_schema

PLANS = ("slices", "native")
CHAINED = ("count", "sum", "mean", "min", "max", "any", "all")
AT_ONCE = ("var", "std")  # Spark cannot combine its partial results of these from slices
MOST_SLICES = 8  # most slices in one step of a window: a finer grid has about as many slices as rows
LOW = 1 << 32  # 64-bit sums are computed from the sums of upper and lower halves, which do not overflow
SUMMED = 28  # digits of decimals whose sums fit 38 digits


def check_plan(plan: object) -> bool:
    """Whether the plan is Spark's own."""
    if plan not in PLANS:
        raise ValueError(f"plan must be 'slices' or 'native'; got {plan!r}")
    return plan == "native"


def refuse_arguments(streams: bool, given: Mapping[str, object], progress: str) -> None:
    """Raise for arguments that only the library's own plan has."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"plan='native' takes no {name}, which only plan='slices' has (Spark's own windows keep their state in "
                f"the query's checkpoint, drop late rows and are partitioned by Spark); got {name}={value!r}"
            )
    if streams and progress != "native":
        raise ValueError(
            "plan='native' closes windows by the watermark before the batch, as Spark's own windows do: give "
            f"progress='native' with it; got progress={progress!r}"
        )


def native_windows(frame: DataFrame, schema: pa.Schema, spec: Spec) -> DataFrame:
    """The windows of a DataFrame by Spark's own plan."""
    wrong = cannot(spec, schema, frame.isStreaming)
    if wrong is not None:
        raise ValueError(f"plan='native' cannot express {wrong}; leave plan out, which is plan='slices'")
    names = list(dict.fromkeys(_read(spec)))
    result = Job(spec, pa.schema([schema.field(name) for name in spec.columns()]), 1).rows_schema()
    check_names(result.names, frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true")
    rows = _timed(numbered(frame, names), spec)
    if frame.isStreaming:
        assert isinstance(spec.watermark, Bounded)
        rows = rows.withWatermark("c0", _span(_micros(spec.watermark.delay) or 0))
    at = {name: f"c{number}" for number, name in enumerate(names)}
    plans = [_one(rows, name, window, spec, at, schema, result) for name, window in spec.windows.items()]
    return reduce(DataFrame.unionByName, plans)


def explain(
    spec: Spec, schema: pa.Schema | StructType | None = None, *, streaming: bool = True, files: bool = False
) -> Explanation:
    """Explain a spec as :func:`slicing.explain` does, and say which plan is best for it on Spark, and why.

    Parameters
    ----------
    spec
        The query of a :func:`window_aggregate`.
    schema
        The types of the columns: ``df.schema``, or a schema of pyarrow.
    streaming
        Whether the query runs on a stream.
    files
        Whether workers read the files themselves (:func:`read_files`).

    Returns
    -------
    Explanation
        With the facts ``"plan on Spark"``, ``"plan='native'"`` and, for streams, ``"store='spark'"``.

    Examples
    --------
    >>> import slicing as sl
    >>> spec = sl.Spec("ts", {"minute": sl.tumbling("1m")}, {"p": sl.median("v")}, watermark=sl.bounded("10s"))
    >>> explain(spec)["plan='native'"]
    "cannot express the aggregate 'p', sl.median('v'): it has count, sum, mean, min, max, any, all, var and std"
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"spark_udfs.explain takes a sl.Spec; got {type(spec).__name__}")
    if isinstance(schema, StructType):
        schema = arrow_schema(schema)
    explanation = explain_spec(spec, schema)
    wrong = cannot(spec, schema, streaming)
    can = f"cannot express {wrong}" if wrong else "; ".join(_shape(n, w, spec, schema) for n, w in spec.windows.items())
    best = ("plan on Spark", _best(spec, wrong, streaming, files))
    stored = [("store='spark'", _stored(spec))] if streaming else []
    return Explanation(explanation.title, (*explanation.facts, best, ("plan='native'", can), *stored))


def _stored(spec: Spec) -> str:
    wrong = in_spark.cannot(spec)
    if wrong is not None:
        return f"cannot have {wrong}"
    return "only where workers reach no storage: rows are shuffled as they are, the state goes through the JVM"


def _best(spec: Spec, wrong: str | None, streaming: bool, files: bool) -> str:
    """The best plan, and why. Measured: docs/spark.md, "Spark's own plan"."""
    if wrong is not None:
        return "slices: Spark's own windows cannot express the spec"
    if files:
        return "slices: workers read the files themselves, which Spark's own plan does not"
    if len(spec.windows) > 1:
        return "slices: all windows from one set of slices; Spark's own plan reads and groups the rows for each window"
    if streaming:
        return "slices: windows close with the batch that completes them, late rows are kept, a state's size costs less"
    return "native: in a batch the rows of one window never leave the JVM"


def _shape(name: str, window: Any, spec: Spec, schema: pa.Schema | None) -> str:
    if _grid(window, spec, schema) is not None:
        return f"{name}: slices, then windows of slices (window_time)"
    own = "session_window" if isinstance(window, Session) else "window"
    return f"{name}: one groupBy({own}(...))"


# --- what it can express ----------------------------------------------------------------------------------------------


def cannot(spec: Spec, schema: pa.Schema | None, streams: bool) -> str | None:
    """What in a spec Spark's own plan cannot express; None if it can express all."""
    return next((wrong for wrong in _wrong(spec, schema, streams) if wrong is not None), None)


def _wrong(spec: Spec, schema: pa.Schema | None, streams: bool) -> Iterator[str | None]:
    yield from _wrong_arguments(spec)
    yield from (_wrong_window(name, window) for name, window in spec.windows.items())
    yield from (_wrong_aggregate(name, agg, schema) for name, agg in spec.aggs.items())
    yield _wrong_time(spec, schema, streams)
    if streams:
        yield _wrong_watermark(spec)


def _wrong_arguments(spec: Spec) -> Iterator[str | None]:
    """Arguments that must have their default values."""
    plain: dict[str, object] = {"emit": "final", "allowed_lateness": 0, "trigger": None, "op": None, "idle": None}
    for name, value in plain.items():
        given = getattr(spec, name)
        if given != value and not (isinstance(given, Duration) and not given.ns):
            shown = str(given) if isinstance(given, Duration) else repr(given)
            yield f"{name}={shown}: it gives a window once, when it closes"
    if spec.on_overflow == "wrap":
        yield "on_overflow='wrap': a sum that does not fit is an error or null"


def _wrong_window(name: str, window: Any) -> str | None:
    what = f"windows[{name!r}], {window!r}"
    if not isinstance(window, Tumbling | Sliding | Session):
        return f"{what}: it has tumbling and sliding windows of time, and sessions"
    if not isinstance(window, Session) and (window.full or window.fill):
        return f"{what}: it has no fill and no full"
    spans = [window.gap] if isinstance(window, Session) else [window.size, *_every(window)]
    if not all(isinstance(span, Duration) for span in spans):
        return f"{what}: it has windows of time, not of numbers"
    if any(_micros(span) is None for span in [*spans, getattr(window, "offset", 0)]):
        return f"{what}: its windows have whole microseconds"
    if isinstance(window, Sliding) and window.every.ns > window.size.ns:  # type: ignore[union-attr]
        return f"{what}: it has no windows with gaps between them"
    return None


def _wrong_aggregate(name: str, agg: Formula, schema: pa.Schema | None) -> str | None:
    what = f"the aggregate {name!r}, {agg!r}"
    if not isinstance(agg, Aggregate):
        return f"{what}: it has no arithmetic of aggregates; compute it behind the windows"
    if agg.function not in CHAINED + AT_ONCE:
        return f"{what}: it has {', '.join((*CHAINED, *AT_ONCE)[:-1])} and {AT_ONCE[-1]}"
    if isinstance(agg.column, Derived) or isinstance(agg.flag, Derived):
        return f"{what}: it takes columns, not expressions; compute them before, by withColumn"
    if agg.ddof not in (None, 0, 1):
        return f"{what}: it has ddof=0 and ddof=1"
    type = None if schema is None or agg.column not in schema.names else schema.field(agg.column).type
    if type is not None and agg.function in ("sum", "mean", "var", "std"):
        if not (_number(type) or pa.types.is_decimal(type)):
            return f"{what}, of {type}: it computes with numbers"
        if pa.types.is_decimal(type) and type.precision > SUMMED and agg.function in ("sum", "mean"):
            return f"{what}, of {type}: sums of decimals of more than {SUMMED} digits may not fit 38"
    return None


def _wrong_time(spec: Spec, schema: pa.Schema | None, streams: bool) -> str | None:
    if not isinstance(spec.time, str):
        return f"time={spec.time!r}: it reads times from a column"
    if schema is None or spec.time not in schema.names:
        return None
    type = schema.field(spec.time).type
    if not pa.types.is_timestamp(type):
        return f"the time column {spec.time!r} of {type}: it has windows of timestamps"
    if streams and type.tz is None:
        return f"the time column {spec.time!r} without a zone in a stream: Spark's watermark wants one"
    return None


def _wrong_watermark(spec: Spec) -> str | None:
    what = f"watermark={spec.watermark!r} in a stream"
    if not isinstance(spec.watermark, Bounded):
        return f"{what}: it has sl.bounded(delay)"
    if spec.watermark.at_most_ahead is not None:
        return f"{what}: it has no at_most_ahead"
    delay = _micros(spec.watermark.delay)
    return f"{what}: its delay has whole milliseconds" if delay is None or delay % 1000 else None


def _micros(span: Any) -> int | None:
    """Whole microseconds, or None."""
    ns = span.ns if isinstance(span, Duration) else span * 1000
    return None if ns % 1000 else ns // 1000


def _every(window: Tumbling | Sliding) -> list[Any]:
    return [window.every] if isinstance(window, Sliding) else []


def _number(type: pa.DataType) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type)


# --- its plan ---------------------------------------------------------------------------------------------------------


def _read(spec: Spec) -> list[str]:
    """The columns that the plan reads; the time column is first."""
    aggs = [name for agg in spec.parts() for name in (agg.column, agg.flag) if name is not None]
    return [str(spec.time), *spec.by, *aggs]


def _timed(rows: DataFrame, spec: Spec) -> DataFrame:
    """The rows without null times, or with an error for a null time."""
    if spec.on_null_time == "late":
        return rows.where(sf.col("c0").isNotNull())
    refused = sf.raise_error(
        sf.lit(
            f"time column {spec.time!r} is null in a row; filter such rows out before, or give the spec "
            "on_null_time='late', which drops them here"
        )
    )
    time = sf.when(sf.col("c0").isNull(), refused.cast(rows.schema["c0"].dataType)).otherwise(sf.col("c0"))
    return rows.withColumn("c0", time)


def _one(
    rows: DataFrame, name: str, window: Any, spec: Spec, at: Mapping[str, str], schema: pa.Schema, result: pa.Schema
) -> DataFrame:
    """The windows of one type."""
    keys = [at[key] for key in spec.by]
    aggs = [
        _aggregate(number, n, agg, at, schema, spec.on_overflow) for number, (n, agg) in enumerate(spec.aggs.items())
    ]
    first = [part.first.alias(part.name) for one in aggs for part in one.parts]
    grid = _grid(window, spec, schema)
    if isinstance(window, Session):
        # Spark has no sessions without a key in a stream
        keyed = keys or ["one"]
        of = sf.session_window("c0", f"{_micros(window.gap)} microseconds").alias("window")
        found = rows.withColumn("one", sf.lit(1)).groupBy(of, *keyed).agg(*first)
    elif grid is None:
        found = rows.groupBy(_window(window), *keys).agg(*first)
    else:
        step, offset = grid
        of = sf.window("c0", _span(step), startTime=_span(offset)).alias("slice")
        slices = rows.groupBy(of, *keys).agg(*first)
        slices = slices.withColumn("c0", sf.window_time("slice"))
        again = [part.again(part.name).alias(part.name) for one in aggs for part in one.parts]
        found = slices.groupBy(_window(window), *keys).agg(*again)
    columns = [sf.lit(name), sf.col("window.start"), sf.col("window.end"), *map(sf.col, keys)]
    columns += [one.last(*(sf.col(part.name) for part in one.parts)) for one in aggs]
    typed = spark_schema(result)
    return found.select(*(c.cast(f.dataType).alias(f.name) for c, f in zip(columns, typed, strict=True)))


def _window(window: Tumbling | Sliding) -> Column:
    size, every, offset = _steps(window)
    if every == size:
        return sf.window("c0", _span(size), startTime=_span(offset)).alias("window")
    return sf.window("c0", _span(size), _span(every), _span(offset)).alias("window")


def _span(micros: int) -> str:
    return f"{micros} microseconds"


def _steps(window: Tumbling | Sliding) -> tuple[int, int, int]:
    """Size, step and offset in microseconds."""
    size = _micros(window.size) or 0
    every = next((_micros(every) or 0 for every in _every(window)), size)
    return size, every, (_micros(window.offset) or 0) % every


def _grid(window: Any, spec: Spec, schema: pa.Schema | None) -> tuple[int, int] | None:
    """Length and offset of the slices from which windows are combined; None: windows are made directly from rows."""
    if not isinstance(window, Sliding):
        return None
    size, every, offset = _steps(window)
    step = math.gcd(size, every)
    if every == size or every // step > MOST_SLICES or not all(_chains(agg, schema) for agg in spec.parts()):
        return None
    return step, offset % step


def _chains(agg: Aggregate, schema: pa.Schema | None) -> bool:
    """Whether the aggregate of a window can be computed from the aggregates of its slices."""
    type = None if schema is None or agg.column is None else schema.field(agg.column).type
    if type is not None and pa.types.is_decimal(type) and agg.function in ("sum", "mean"):
        return agg.function == "sum" and type.precision <= SUMMED - 10
    return agg.function in CHAINED


@dataclass(frozen=True)
class Part:
    """A column of the first aggregation, and how the second one combines it."""

    name: str
    first: Column
    again: Callable[[str], Column]


@dataclass(frozen=True)
class SparkAggregate:
    """An aggregate in Spark: its columns, and how the result is computed from them."""

    parts: tuple[Part, ...]
    last: Callable[..., Column]


def _aggregate(
    number: int, name: str, agg: Formula, at: Mapping[str, str], schema: pa.Schema, on_overflow: str
) -> SparkAggregate:
    assert isinstance(agg, Aggregate)
    value = sf.lit(1) if agg.column is None else sf.col(at[agg.column])
    if agg.flag is not None:
        value = sf.when(sf.col(at[agg.flag]), value)
    type = pa.int32() if agg.column is None else schema.field(agg.column).type
    of = f"a{number}"
    match agg.function:
        case "count":
            return SparkAggregate((_count(of, value),), _itself)
        case "min" | "max" | "any" | "all":
            return _extreme(of, agg.function in ("min", "all"), value, type)
        case "var" | "std":
            found = (sf.var_samp if agg.ddof else sf.var_pop)(value.cast("double"))
            return SparkAggregate((_only(of, sf.sqrt(found) if agg.function == "std" else found),), _itself)
        case "mean":
            return _mean(of, value, type)
    parts, total = _total(of, value, type)
    if pa.types.is_int64(type):
        return SparkAggregate(parts, lambda *found: _fitting(name, total(*found), on_overflow))
    return SparkAggregate(parts, total)


def _itself(found: Column) -> Column:
    return found


def _only(name: str, first: Column) -> Part:
    """A part that is never combined from slices."""
    return Part(f"{name}_found", first, sf.col)


def _count(name: str, value: Column) -> Part:
    return Part(f"{name}_count", sf.count(value), sf.sum)


def _extreme(name: str, least: bool, value: Column, type: pa.DataType) -> SparkAggregate:
    """Minimum or maximum. In Spark, NaN is larger than all numbers, so a minimum is NaN only if all values are NaN."""
    pick = sf.min if least else sf.max
    found = Part(f"{name}_found", pick(value), pick)
    if least or not pa.types.is_floating(type):
        return SparkAggregate((found,), _itself)
    numbers = Part(f"{name}_numbers", sf.max(sf.when(~sf.isnan(value), value)), sf.max)
    return SparkAggregate((numbers, found), sf.coalesce)


def _mean(name: str, value: Column, type: pa.DataType) -> SparkAggregate:
    if pa.types.is_decimal(type):
        return SparkAggregate((_only(name, sf.avg(value)),), _itself)
    parts, total = _total(name, value, type)

    def mean(*found: Column) -> Column:
        return total(*found[:-1]).cast("double") / sf.nullif(found[-1], sf.lit(0))

    return SparkAggregate((*parts, _count(name, value)), mean)


def _total(name: str, value: Column, type: pa.DataType) -> tuple[tuple[Part, ...], Callable[..., Column]]:
    """The parts of a sum, none of which overflows, and the function that gives the sum."""
    if not pa.types.is_int64(type):
        given = value if pa.types.is_decimal(type) else value.cast("double" if pa.types.is_floating(type) else "long")
        return (Part(f"{name}_sum", sf.sum(given), sf.sum),), _itself
    high = Part(f"{name}_high", sf.sum(sf.shiftright(value, 32)), sf.sum)
    low = Part(f"{name}_low", sf.sum(value.bitwiseAND(sf.lit(LOW - 1))), sf.sum)
    return (high, low), _whole


def _whole(high: Column, low: Column) -> Column:
    return high.cast("decimal(19,0)") * sf.lit(LOW).cast("decimal(10,0)") + low.cast("decimal(19,0)")


def _fitting(name: str, total: Column, on_overflow: str) -> Column:
    """A sum as 64 bits, or what ``on_overflow`` says if it does not fit."""
    least, most = (sf.lit(str(limit)).cast("decimal(19,0)") for limit in (-(1 << 63), (1 << 63) - 1))
    message = f"{name} does not fit int64 in a window; on_overflow='null' gives null there"
    wrong = sf.lit(None) if on_overflow == "null" else sf.raise_error(sf.lit(message))
    fits = sf.when(total.between(least, most), total.cast("long")).otherwise(wrong.cast("long"))
    return sf.when(total.isNotNull(), fits)
