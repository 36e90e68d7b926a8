"""``window_aggregate``: any spec on a batch or streaming DataFrame; ``drain``: what is open when a stream has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from slicing import Spec, manual
from slicing.columns.typed import column_type
from slicing.partials import check, state_of
from slicing.system.filesystems import absolute, filesystem, listed
from slicing.watermark import Manual
from spark_udfs import stages
from spark_udfs.files import FileRows
from spark_udfs.progress import watch
from spark_udfs.stages import COUNTED, PACKED, STATS, Job
from spark_udfs.state import Files, StateError, partitions_found
from spark_udfs.types import arrow_schema, check_types, spark_schema

Batches = Iterable[pa.RecordBatch]


def window_aggregate(
    data: DataFrame | FileRows,
    spec: Spec,
    state: str | None = None,
    partitions: int | None = None,
    name: str = "windows",
    late_path: str | None = None,
    keep_versions: int = 100,
    progress: str = "prompt",
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

    The accounting of each batch is in the query's progress, ``observedMetrics[name].stats``, a dict.
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"window_aggregate takes a DataFrame and a sl.Spec; got {_type_of(spec)}")
    frame = data.paths if isinstance(data, FileRows) else data
    if not isinstance(frame, DataFrame):
        raise TypeError(f"window_aggregate takes Spark's DataFrame, or what read_files gives; got {_type_of(data)}")
    count = _partitions(frame.sparkSession, spec, partitions)
    check(spec, count)
    _check_places(state, name, late_path, keep_versions)
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
    job = Job(spec, schema, count, late_path=late_path, format=read, prompt=progress == "prompt")
    if frame.isStreaming:
        watch(frame.sparkSession)
        if state is None:
            raise ValueError("a streaming query needs state=, a path or URI that all executors reach; got None")
        filesystem(state)
        job = replace(job, files=Files(absolute(state), name, count, spec.fingerprint(), keep_versions))
    else:
        job = replace(job, spec=_seeing_all(spec))
    result = stages.results_schema(job)
    _check_names(result.names, frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true")
    shape = spark_schema(result)
    if job.format is None:
        # mapInArrow would take a dot in a name for a field of a struct; the workers know the columns by their place
        quoted = ("`" + column.replace("`", "``") + "`" for column in schema.names)
        frame = frame.select(*(sf.col(column).alias(f"c{i}") for i, column in enumerate(quoted)))
    collected = frame.mapInArrow(_function(stages.collect, job), spark_schema(PACKED))
    windows = collected.repartitionById(count, "place").mapInArrow(_function(stages.merge, job), shape)
    return _observed(windows, name) if frame.isStreaming else windows


def drain(
    spark: SparkSession,
    spec: Spec,
    state: str,
    partitions: int | None = None,
    name: str = "windows",
    checkpoint: str | None = None,
) -> DataFrame:
    """The windows that a stopped stream has left open, as a batch DataFrame; the stream has ended then.

    With ``checkpoint`` (the query's) a batch that Spark has not completed is refused: run the query once more, with
    ``trigger(availableNow=True)``. Draining again gives the same rows; the query refuses to go on after it. Write them
    beside the stream's own output: of a folder that a file sink wrote, Spark reads only what that sink has listed.
    """
    state = absolute(state)
    counts = [n for n in partitions_found(state, name) if partitions in (None, n)]
    if len(counts) != 1:
        found = ", ".join(map(str, partitions_found(state, name)))
        held = f"state for partitions= {found}: say which" if found else "no state of a query"
        raise StateError(f"{state}/{name} holds {held}" + (f"; got {partitions}" if partitions else ""))
    files = Files(state, name, counts[0], spec.fingerprint())
    complete = files.last()
    if not complete:
        raise StateError(f"{state}/{name} holds no batch that all of {counts[0]} partitions have written")
    batch = complete[-1]
    if checkpoint is not None:
        begun, done = (_newest(f"{checkpoint}/{log}") for log in ("offsets", "commits"))
        if begun is None:
            raise StateError(f"{checkpoint} is no query's checkpoint: it lists no batch in offsets/")
        if begun != done or done != batch:
            raise StateError(
                f"batch {begun} of the query at {checkpoint} has begun, batch {done} is its last complete one, and the "
                f"state stands at batch {batch}; run the query once more with trigger(availableNow=True), then drain"
            )
    _, operator = files.restore(spec, 0, batch)
    given = state_of(operator).given
    job = Job(spec, given, counts[0], files)
    files.mark_drained(batch)
    shape = stages.results_schema(replace(job, files=None))

    def windows(numbers: Batches) -> Iterator[pa.RecordBatch]:
        return stages.drain(job, numbers, batch)

    return spark.range(0, counts[0], 1, counts[0]).mapInArrow(windows, spark_schema(shape))


def _type_of(value: object) -> str:
    return f"{type(value).__module__.partition('.')[0]}'s {type(value).__name__}"


def _function(
    stage: Callable[..., Iterator[pa.RecordBatch]], job: Job
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        return stage(job, batches)

    return run


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
    """The same query, closing nothing before it has seen everything."""
    arguments: dict[str, Any] = {field: getattr(spec, field) for field in spec.__dataclass_fields__}
    arguments |= {"windows": dict(spec.windows), "aggs": dict(spec.aggs), "watermark": manual()}
    return Spec(**arguments)


def _observed(windows: DataFrame, name: str) -> DataFrame:
    """The partitions' accounting as the query's observed metrics, and only windows as its rows.

    One aggregate: Spark writes code for each anew in every task of every batch, 60 ms of CPU a batch for 13 sums.
    """
    watermark = windows.schema[STATS].dataType["watermark"].dataType  # type: ignore[index]
    none = [sf.lit(0).cast("long").alias(count) for count in COUNTED]

    def together(a: Column, b: Column) -> Column:
        counts = [(a[count] + b[count]).alias(count) for count in COUNTED]
        return sf.struct(*counts, sf.greatest(a["watermark"], b["watermark"]).alias("watermark"))

    empty = sf.struct(*none, sf.lit(None).cast(watermark).alias("watermark"))
    seen = windows.observe(name, sf.aggregate(sf.collect_list(STATS), empty, together).alias("stats"))
    return seen.where(sf.col(STATS).isNull()).drop(STATS)


def _newest(log: str) -> int | None:
    """The last batch in one of a checkpoint's logs."""
    system, path = filesystem(log)
    return max((int(f.base_name) for f in listed(system, path) if f.base_name.isdigit()), default=None)
