"""What the Spark plans of all kinds of queries share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from slicing.system.arguments import at_least_one
from slicing.system.filesystems import absolute, filesystem
from spark_udfs import in_spark, stages
from spark_udfs.engines import AnySpec
from spark_udfs.files import FileRows
from spark_udfs.held import HOLD_BYTES
from spark_udfs.jobs import STATS, Query, results_schema
from spark_udfs.placed import by_place
from spark_udfs.stages import errors_as_rows
from spark_udfs.types import arrow_schema, check_path, spark_schema, type_of
from spark_udfs.versions import Files


def places(spark: SparkSession, partitions: int | None, keyed: bool) -> int:
    """The number of places of a query."""
    if partitions is None:
        partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    count = at_least_one(partitions, "partitions")
    return count if keyed else 1  # without keys, all rows are in one place


def frame_of(data: DataFrame | FileRows, function: str) -> DataFrame:
    """The DataFrame that the first stage runs on."""
    frame = data.paths if isinstance(data, FileRows) else data
    if not isinstance(frame, DataFrame):
        raise TypeError(f"{function} takes Spark's DataFrame, or what read_files gives; got {type_of(data)}")
    return frame


def schema_of(data: DataFrame | FileRows, frame: DataFrame) -> pa.Schema:
    """The columns as workers hold them."""
    return data.schema if isinstance(data, FileRows) else arrow_schema(frame.schema)


def numbered(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The columns, renamed to c0, c1, ...: mapInArrow would take a dot in a name for a struct field. Workers know the
    columns by position."""
    by_case = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    for column in columns:
        alike = [name for name in frame.columns if name.lower() == column.lower()]
        if len(alike) > 1 and not by_case:
            raise ValueError(
                f"the data has the columns {' and '.join(map(repr, alike))}, which Spark does not tell apart "
                "(spark.sql.caseSensitive is false): rename one of them"
            )
    quoted = ("`" + column.replace("`", "``") + "`" for column in columns)
    return frame.select(*(sf.col(column).alias(f"c{i}") for i, column in enumerate(quoted)))


def files_of(
    state: str | None,
    name: str,
    count: int,
    spec: AnySpec,
    keep: int,
    spread: str | None = None,
    hold: int = HOLD_BYTES,
    store: str = "files",
) -> Files:
    """Where a stream keeps its state."""
    if store == "spark":
        return Files("", name, count, spec.fingerprint(), keep, hold=hold, in_spark=True, spec=repr(spec))
    if state is None:
        raise ValueError("a streaming query needs state=, a path or URI that all executors reach; got None")
    return Files(absolute(state), name, count, spec.fingerprint(), keep, spread=spread, hold=hold, spec=repr(spec))


def check_progress(progress: object) -> None:
    if progress not in ("prompt", "native"):
        raise ValueError(f"progress must be 'prompt' or 'native'; got {progress!r}")


def answered(collected: DataFrame, job: Query) -> DataFrame:
    """Add the second stage: each place has a task, which returns its results and its accounting."""
    spark = collected.sparkSession
    result = results_schema(job)
    check_names(result.names, spark.conf.get("spark.sql.caseSensitive") == "true")
    if job.files is not None and classic(spark):
        if job.late_path is not None:
            check_late_scheme(job.late_path)
        collected = collected.unionByName(all_places(spark, job.partitions))
        job = replace(job, files=job.files.announce())  # no error is possible after this
    if job.files is not None and job.files.in_spark:
        return observed(in_spark.merged(collected, job), job)
    rows = by_place(collected, job.partitions).mapInArrow(errors_as_rows(stages.merge, job), spark_schema(result))
    return rows if job.files is None else observed(rows, job)


def check_state_arguments(state: object, name: object, late_path: object, keep: object, hold: object) -> None:
    """Check the arguments about state. A batch query is checked too, so that errors show before it becomes a stream."""
    for path, argument in ((state, "state"), (late_path, "late_path")):
        if path is not None:
            check_path(path, argument)
    check_name(name, "name")
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 2:
        raise ValueError(f"keep_versions must be at least 2; got {keep!r}")
    if isinstance(hold, bool) or not isinstance(hold, int) or hold < 0:
        raise ValueError(f"hold_bytes must be a whole number of bytes, 0 to hold nothing; got {hold!r}")


def check_late_scheme(path: str) -> None:
    """Raise for a scheme of late_path that nothing can open. Whether it can be written, each worker tests."""
    try:
        with suppress(OSError):
            filesystem(path)
    except ValueError as error:
        raise ValueError(f"late_path={path!r} cannot be opened: {error}") from None


def check_name(name: object, argument: str) -> None:
    if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
        raise ValueError(f"{argument} must be a word that can name a folder; got {name!r}")


def check_names(names: list[str], by_case: bool) -> None:
    """Raise for results with columns that Spark cannot tell apart."""
    known: dict[str, str] = {}
    for name in names:
        key = name if by_case else name.lower()
        if key in known and name == STATS:
            raise ValueError(f"column {name!r} has the name of a column that streams add to results; rename it")
        if key in known:
            raise ValueError(
                f"the result would have the columns {known[key]!r} and {name!r}, which Spark does not tell apart; "
                "choose another name for one of them"
            )
        known[key] = name


def observed(rows: DataFrame, job: Query) -> DataFrame:
    """Turn the accounting of places into observed metrics of the query; only results remain as rows.

    There is one aggregate, as Spark compiles each aggregate in every task of every batch: 60 ms of CPU for 13 sums. It
    also raises the errors: Spark joins a filter with those that the user has behind it, and may ask theirs first, which
    a row with an error does not pass.
    """
    time = rows.schema[STATS].dataType[job.marks[0]].dataType  # type: ignore[index]
    most = (*job.largest, *job.marks)
    none = [sf.lit(0).cast("long").alias(count) for count in job.counted]
    none += [sf.lit(None).cast("long").alias(figure) for figure in job.largest]
    none += [sf.lit(None).cast(time).alias(mark) for mark in job.marks]

    def together(a: Column, b: Column) -> Column:
        counts = [(a[count] + b[count]).alias(count) for count in job.counted]
        return sf.struct(*counts, *(sf.greatest(a[figure], b[figure]).alias(figure) for figure in most))

    error = sf.col(STATS)["error"]
    stats = sf.when(error.isNotNull(), sf.raise_error(error)).otherwise(sf.col(STATS))
    try:
        seen = rows.observe(job.name, sf.aggregate(sf.collect_list(stats), sf.struct(*none), together).alias("stats"))
    except AnalysisException as refusal:
        if refusal.getCondition() != "DUPLICATED_METRICS_NAME":
            raise
        raise ValueError(
            f"name={job.name!r} is that of another query of windows, joins or features that this one reads; each needs "
            "a name= of its own, for its state and its metrics"
        ) from None
    return seen.where(sf.col(STATS).isNull()).drop(STATS)


def classic(spark: SparkSession) -> bool:
    """Whether the session is not Spark Connect, whose client reaches neither the JVM nor perhaps the state."""
    return hasattr(spark, "_jsparkSession")


def all_places(spark: SparkSession, count: int) -> DataFrame:
    """One row for each place in every batch, as a stream without a source.

    A file without rows makes a batch without readers, which would send nothing to the places. Behind a ``coalesce``
    places could not even know their numbers. Spark has no public API for such rows.
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
