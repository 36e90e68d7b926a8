"""``window_aggregate``: any spec on a batch or streaming DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from slicing import Spec
from slicing.closing.wide import check_layout
from slicing.columns.typed import column_type
from slicing.exchange import check
from slicing.query.watermark import Manual
from slicing.system.arguments import at_least_one, choice, says_arguments
from slicing.system.filesystems import absolute
from spark_udfs import in_spark, plans, stages
from spark_udfs.files import FileRows
from spark_udfs.held import HOLD_BYTES
from spark_udfs.jobs import Job
from spark_udfs.native import check_plan, native_windows, refuse_arguments
from spark_udfs.policy import IN_SPARK
from spark_udfs.progress import watch
from spark_udfs.stages import PACKED, errors_as_rows
from spark_udfs.types import check_types, spark_schema, type_of


@says_arguments
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
    hold_bytes: int = HOLD_BYTES,
    plan: str = "slices",
    store: str = "files",
) -> DataFrame:
    """Aggregate a DataFrame over windows; the result has the columns of :class:`slicing.Output`'s ``windows``.

    A batch DataFrame is read as a whole: no row is late, every window closes, and ``state`` is ignored. For a
    streaming DataFrame a micro-batch works like a push of :class:`slicing.Operator`: its rows are judged by the
    watermark before it; then it closes the windows that its own rows complete. The output mode is append.

    Parameters
    ----------
    data : DataFrame or FileRows
        A DataFrame, or the result of :func:`read_files`.
    spec : Spec
        The query.
    state : str, optional
        Where a stream keeps its slices: a path or URI that pyarrow or fsspec can open, reachable for all executors.
    partitions : int, optional
        The number of parts; ``spark.sql.shuffle.partitions`` if left out. This number and the types of columns must
        not change while the query lives (see :func:`rescale` and :func:`change`).
    name : str
        The name of the folder under ``state`` and of the metrics. Queries that share ``state`` need different names,
        and so do two of these functions within one query.
    late_path : str, optional
        A folder for Parquet files of rows that are late for all their windows; each row is written once. Each worker
        tests at its first batch that it can write there.
    keep_versions : int
        The number of batches that a query can be set back.
    progress : str
        ``"prompt"``: as described above. ``"native"``: a batch closes the windows that the *earlier* batches complete,
        row for row as Spark's own windows do.
    layout : str
        ``"wide"``: one row for each key and window end, as in :func:`slicing.aggregate`.
    max_bytes : int, optional
        The most bytes that a partition may hold, counted as ``stats.bytes`` of :class:`slicing.Output`. A batch that
        would exceed it stops the query with an error; the state stays as it was before.
    hold_bytes : int
        The bytes of state that a Python worker keeps in memory between batches (1 GiB): the places of its tasks that
        were written last. If the next worker of a place does not hold its state, it reads the state from files.
    plan : str
        ``"native"``: use Spark's own windows, for specs that they can express (:func:`explain` says which, and where
        they are best). Late rows are dropped, state is in the checkpoint, a stream needs ``progress="native"``.
    store : str
        ``"spark"``: a stream keeps its state in Spark's own store, inside the checkpoint, and takes no ``state``. Use
        it if workers reach no storage. Answers are equal, but batches are slower, and you cannot peek, drain, rescale
        or change the query. It needs Spark 4.1, its RocksDB store, and protobuf.

    Returns
    -------
    DataFrame
        The progress of the query has the accounting of each batch in ``observedMetrics[name].stats``, a dict.

    Examples
    --------
    >>> import slicing as sl
    >>> readings = spark.createDataFrame([(1, "a", 1), (2, "a", 2), (12, "b", 3)], "t long, k string, v long")
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"s": sl.sum("v")}, by="k")
    >>> window_aggregate(readings, spec, partitions=1).select("window_end", "k", "s").orderBy("k").collect()
    [Row(window_end=10, k='a', s=3), Row(window_end=20, k='b', s=3)]
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"window_aggregate takes a DataFrame and a sl.Spec; got {type_of(spec)}")
    wide = check_layout(layout, spec)
    choice(store, "store", ("files", "spark"))
    frame = plans.frame_of(data, "window_aggregate")
    spark = frame.sparkSession
    if check_plan(plan):
        only_slices = {"state": state, "partitions": partitions, "late_path": late_path, "max_bytes": max_bytes}
        only_slices |= {"store": None if store == "files" else store}
        only_slices |= {"read_files": data.format if isinstance(data, FileRows) else None}
        refuse_arguments(frame.isStreaming, only_slices | {"layout": layout if wide else None}, progress)
        check_types(frame.schema, spec.columns())
        return native_windows(frame, _columns(plans.schema_of(data, frame), spec, False), spec)
    count = plans.places(spark, partitions, bool(spec.by))
    check(spec, count)
    plans.check_state_arguments(state, name, late_path, keep_versions, hold_bytes)
    if max_bytes is not None:
        at_least_one(max_bytes, "max_bytes", ", or None")
    plans.check_progress(progress)
    if frame.isStreaming and isinstance(spec.watermark, Manual):
        raise ValueError(
            "watermark=sl.manual() would close nothing: a streaming query has no advance(time); use sl.bounded(delay)"
        )
    if isinstance(data, FileRows):
        data.check_types(spec.columns())
    else:
        check_types(frame.schema, spec.columns())
    schema = _columns(plans.schema_of(data, frame), spec, late_path is not None and frame.isStreaming)
    late_path = None if late_path is None else absolute(late_path)
    read = data.reading if isinstance(data, FileRows) else None
    laid_out: dict[str, Any] = {"late_path": late_path, "reading": read, "wide": wide, "max_bytes": max_bytes}
    job = Job(spec, schema, count, prompt=progress == "prompt", **laid_out)
    if frame.isStreaming:
        watch(spark)
        if store == "spark":
            in_spark.check(spark, spec, state)
            job = replace(job, policy=IN_SPARK)
        files = plans.files_of(state, name, count, spec, keep_versions, hold=hold_bytes, store=store)
        job = replace(job, files=files)
    else:
        job = replace(job, spec=spec.patient)
    frame = frame if read else plans.numbered(frame, schema.names)
    return plans.answered(frame.mapInArrow(errors_as_rows(stages.collect, job, reads=True), spark_schema(PACKED)), job)


def _columns(schema: pa.Schema, spec: Spec, all_of_them: bool) -> pa.Schema:
    """The columns that the query reads, or all columns if late rows are written; raises for names that occur twice."""
    for name in schema.names if all_of_them else spec.columns():
        column_type(schema, name)
    return schema if all_of_them else pa.schema([schema.field(name) for name in spec.columns()])
