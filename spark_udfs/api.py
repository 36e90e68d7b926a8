"""``window_aggregate``: any spec on a batch or streaming DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from slicing import Spec, manual
from slicing.closing.wide import check_layout
from slicing.columns.typed import column_type
from slicing.exchange import check
from slicing.query.watermark import Manual
from slicing.system.filesystems import absolute
from spark_udfs import stages
from spark_udfs.files import FileRows
from spark_udfs.placed import by_place
from spark_udfs.progress import watch
from spark_udfs.stages import COUNTED, LARGEST, PACKED, STATS, Job, told
from spark_udfs.state import Files
from spark_udfs.types import arrow_schema, check_types, spark_schema


def window_aggregate(
    data: DataFrame | FileRows,
    spec: Spec,
    state: str | None = None,
    partitions: int | None = None,
    name: str = "windows",
    late_path: str | None = None,
    keep_versions: int = 100,
    progress: str = "prompt",
    layout: str = "long",
    max_bytes: int | None = None,
) -> DataFrame:
    """The windows of a DataFrame's rows, as a DataFrame: the columns of :class:`slicing.Output`'s ``windows``.

    A batch DataFrame is seen whole: nothing is late, every window closes, ``state`` is ignored. A micro-batch of a
    streaming one is what a push is to :class:`slicing.Operator`: its rows are judged by the watermark before it, then
    it closes the windows that its own rows complete. The output mode is append.

    ``data``
        a DataFrame, or what :func:`read_files` gives.
    ``state``
        where a stream keeps its slices: any path or URI that pyarrow or fsspec opens, shared by all executors.
    ``partitions``
        in how many parts, ``spark.sql.shuffle.partitions`` if left out; that number, and the columns' types, stay as
        they are as long as the query lives (:func:`rescale`, :func:`change`).
    ``name``
        of the folder under ``state`` and of the metrics. Several queries may share ``state`` under their own names, and
        two in one query need them.
    ``late_path``
        a folder for Parquet files with the rows late for all their windows, once each; there from the first one on.
    ``keep_versions``
        how many batches back a query can be returned to.
    ``progress``
        ``"prompt"``: as above. ``"native"``: a batch closes the windows that the batches *before* it complete, row for
        row as Spark's own windows do.
    ``layout``
        ``"wide"``: one row a key and window end, as :func:`slicing.aggregate` gives them.

    ``max_bytes``
        that each partition may hold, counted as ``stats.bytes`` of :class:`slicing.Output`. A batch after which it
        would be more stops the query with a sentence; the state is as it was before.

    The accounting of each batch is in the query's progress, ``observedMetrics[name].stats``, a dict.
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"window_aggregate takes a DataFrame and a sl.Spec; got {_type_of(spec)}")
    wide = check_layout(layout, spec)
    frame = data.paths if isinstance(data, FileRows) else data
    if not isinstance(frame, DataFrame):
        raise TypeError(f"window_aggregate takes Spark's DataFrame, or what read_files gives; got {_type_of(data)}")
    count = _partitions(frame.sparkSession, spec, partitions)
    check(spec, count)
    _check_places(state, name, late_path, keep_versions)
    if max_bytes is not None and (isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1):
        raise ValueError(f"max_bytes must be a whole number of at least 1, or None; got {max_bytes!r}")
    if progress not in ("prompt", "native"):
        raise ValueError(f"progress must be 'prompt' or 'native'; got {progress!r}")
    if frame.isStreaming and isinstance(spec.watermark, Manual):
        raise ValueError(
            "watermark=sl.manual() would close nothing: a streaming query has no advance(time); use sl.bounded(delay)"
        )
    if not isinstance(data, FileRows):
        check_types(frame.schema, spec.columns())
    schema = data.schema if isinstance(data, FileRows) else arrow_schema(frame.schema)
    schema = _columns(schema, spec, late_path is not None and frame.isStreaming)
    late_path = None if late_path is None else absolute(late_path)
    read = data.format if isinstance(data, FileRows) else None
    laid_out: dict[str, Any] = {"late_path": late_path, "format": read, "wide": wide, "max_bytes": max_bytes}
    job = Job(spec, schema, count, prompt=progress == "prompt", **laid_out)
    if frame.isStreaming:
        watch(frame.sparkSession)
        if state is None:
            raise ValueError("a streaming query needs state=, a path or URI that all executors reach; got None")
        files = Files(absolute(state), name, count, spec.fingerprint(), keep_versions)
        job = replace(job, files=files.announce() if _classic(frame.sparkSession) else files)
    else:
        job = replace(job, spec=_seeing_all(spec))
    result = stages.results_schema(job)
    _check_names(result.names, frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true")
    shape = spark_schema(result)
    if job.format is None:
        # mapInArrow would take a dot in a name for a field of a struct; the workers know the columns by their place
        quoted = ("`" + column.replace("`", "``") + "`" for column in schema.names)
        frame = frame.select(*(sf.col(column).alias(f"c{i}") for i, column in enumerate(quoted)))
    collected = frame.mapInArrow(told(stages.collect, job), spark_schema(PACKED))
    if frame.isStreaming and _classic(frame.sparkSession):
        collected = collected.unionByName(_all_places(frame.sparkSession, count))
    windows = by_place(collected, count).mapInArrow(told(stages.merge, job), shape)
    return _observed(windows, name) if frame.isStreaming else windows


def _type_of(value: object) -> str:
    return f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}"


def _partitions(spark: SparkSession, spec: Spec, partitions: int | None) -> int:
    if partitions is None:
        partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise ValueError(f"partitions must be a number of at least 1; got {partitions!r}")
    return partitions if spec.by else 1  # without keys all is in one place


def _columns(schema: pa.Schema, spec: Spec, all_of_them: bool) -> pa.Schema:
    """The columns the query reads, or all, if late rows are to be written with theirs; each there once."""
    for name in schema.names if all_of_them else spec.columns():
        column_type(schema, name)
    return schema if all_of_them else pa.schema([schema.field(name) for name in spec.columns()])


def _check_places(state: object, name: object, late_path: object, keep: object) -> None:
    """Also of a batch query, which asks nothing of them: what is wrong is told before it is a stream."""
    for argument, path in (("state", state), ("late_path", late_path)):
        if path is not None and (not isinstance(path, str) or not path):
            raise ValueError(f"{argument} must be a path or URI that all executors reach, as text; got {path!r}")
    if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
        raise ValueError(f"name must be a word that can name a folder; got {name!r}")
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 2:
        raise ValueError(f"keep_versions must be at least 2; got {keep!r}")


def _check_names(names: list[str], by_case: bool) -> None:
    """Refuse results with columns that no query could name."""
    known: dict[str, str] = {}
    for name in names:
        key = name if by_case else name.lower()
        if key in known:
            raise ValueError(
                f"the result would have the columns {known[key]!r} and {name!r}, which Spark does not tell apart; "
                "choose another name for one of them"
            )
        known[key] = name


def _seeing_all(spec: Spec) -> Spec:
    """The query ``spec`` with a manual watermark: it closes no window before it has seen all rows."""
    arguments: dict[str, Any] = {field: getattr(spec, field) for field in spec.__dataclass_fields__}
    arguments |= {"windows": dict(spec.windows), "aggs": dict(spec.aggs), "watermark": manual()}
    return Spec(**arguments).unfired()


def _observed(windows: DataFrame, name: str) -> DataFrame:
    """The partitions' accounting as the query's observed metrics, and only windows as its rows.

    One aggregate: Spark writes code for each anew in every task of every batch, 60 ms of CPU a batch for 13 sums.
    """
    watermark = windows.schema[STATS].dataType["watermark"].dataType  # type: ignore[index]
    most = (*LARGEST, "watermark")
    none = [sf.lit(0).cast("long").alias(count) for count in COUNTED]
    none += [sf.lit(None).cast("long").alias(figure) for figure in LARGEST]

    def together(a: Column, b: Column) -> Column:
        counts = [(a[count] + b[count]).alias(count) for count in COUNTED]
        return sf.struct(*counts, *(sf.greatest(a[figure], b[figure]).alias(figure) for figure in most))

    empty = sf.struct(*none, sf.lit(None).cast(watermark).alias("watermark"))
    seen = windows.observe(name, sf.aggregate(sf.collect_list(STATS), empty, together).alias("stats"))
    error = sf.col(STATS)["error"]
    refused = sf.when(error.isNotNull(), sf.raise_error(error).cast("boolean"))
    return seen.where(refused.otherwise(sf.col(STATS).isNull())).drop(STATS)


def _classic(spark: SparkSession) -> bool:
    """Not of Spark Connect, whose client reaches neither the JVM nor, maybe, the state."""
    return hasattr(spark, "_jsparkSession")


def _all_places(spark: SparkSession, count: int) -> DataFrame:
    """A row for each place in every batch, of a stream that no source has.

    A file without rows makes a batch without readers, which would tell nothing to the places; behind a ``coalesce``
    these could not even know which they are. Spark has no public name for rows of this kind.
    """
    jvm = spark._jvm
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical  # type: ignore[union-attr]
    ranges = getattr(getattr(logical, "Range$"), "MODULE$")
    columns = getattr(ranges, "apply$default$5")()
    plan = ranges.apply(0, count, 1, jvm.scala.Option.apply(1), columns, True)  # type: ignore[union-attr]
    frames = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")  # type: ignore[union-attr]
    rows = DataFrame(frames.ofRows(spark._jsparkSession, plan), spark)
    nothing = (sf.lit(None).cast(type).alias(name) for name, type in (("slices", "binary"), ("error", "string")))
    return rows.select(sf.col("id").cast("int").alias("place"), *nothing)
