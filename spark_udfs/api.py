"""``window_aggregate``: any spec on a batch or streaming DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from slicing import Spec, manual
from slicing.closing.wide import check_layout
from slicing.columns.typed import column_type
from slicing.exchange import check
from slicing.query.watermark import Manual
from slicing.system.arguments import at_least_one, choice
from slicing.system.filesystems import absolute
from spark_udfs import in_spark, plans, stages
from spark_udfs.files import FileRows
from spark_udfs.held import HOLD_BYTES
from spark_udfs.native import check_plan, native_windows, refuse_arguments
from spark_udfs.policy import IN_SPARK
from spark_udfs.progress import watch
from spark_udfs.stages import PACKED, Job, told
from spark_udfs.types import check_types, spark_schema


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
    """The windows of a DataFrame's rows, as a DataFrame: the columns of :class:`slicing.Output`'s ``windows``.

    A batch DataFrame is seen whole: nothing is late, every window closes, ``state`` is ignored. A micro-batch of a
    streaming one is what a push is to :class:`slicing.Operator`: its rows are judged by the watermark before it, then
    it closes the windows that its own rows complete. The output mode is append.

    Parameters
    ----------
    data : DataFrame or FileRows
        A DataFrame, or what :func:`read_files` gives.
    spec : Spec
        The query.
    state : str, optional
        Where a stream keeps its slices: any path or URI that pyarrow or fsspec opens, shared by all executors.
    partitions : int, optional
        In how many parts, ``spark.sql.shuffle.partitions`` if left out. That number, and the columns' types, stay as
        they are as long as the query lives (:func:`rescale`, :func:`change`).
    name : str
        Of the folder under ``state`` and of the metrics. Several queries may share ``state`` under their own names, and
        two in one query need them.
    late_path : str, optional
        A folder for Parquet files with the rows late for all their windows, once each. Each worker tries at
        its first batch whether it can write there.
    keep_versions : int
        How many batches back a query can be returned to.
    progress : str
        ``"prompt"``: as above. ``"native"``: a batch closes the windows that the batches *before* it complete, row for
        row as Spark's own windows do.
    layout : str
        ``"wide"``: one row a key and window end, as :func:`slicing.aggregate` gives them.
    max_bytes : int, optional
        That each partition may hold, counted as ``stats.bytes`` of :class:`slicing.Output`. A batch after which it
        would be more stops the query with a sentence; the state is as it was before.
    hold_bytes : int
        Of state that a Python worker keeps between batches, 1 GiB: of all the places whose tasks it had, those last
        written. A place whose state the worker of its next task does not hold is read from its files.
    plan : str
        ``"native"``: Spark's own windows, for specs that these can express (:func:`explain` says which, and where they
        are best). Late rows are dropped, state is kept in the checkpoint, and a stream needs ``progress="native"``.
    store : str
        ``"spark"``: a stream keeps its state in Spark's own store, in the checkpoint, and takes no ``state``. For
        workers that reach no storage. Answers are the same; a batch is slower, and the query cannot be looked into,
        drained, rescaled or changed. It needs Spark 4.1, its RocksDB store, and protobuf.

    Returns
    -------
    DataFrame
        The accounting of each batch is in the query's progress, ``observedMetrics[name].stats``, a dict.

    Examples
    --------
    >>> import slicing as sl
    >>> readings = spark.createDataFrame([(1, "a", 1), (2, "a", 2), (12, "b", 3)], "t long, k string, v long")
    >>> spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"s": sl.sum("v")}, by="k")
    >>> window_aggregate(readings, spec, partitions=1).select("window_end", "k", "s").orderBy("k").collect()
    [Row(window_end=10, k='a', s=3), Row(window_end=20, k='b', s=3)]
    """
    if not isinstance(spec, Spec):
        raise TypeError(f"window_aggregate takes a DataFrame and a sl.Spec; got {plans.type_of(spec)}")
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
        return native_windows(frame, plans.schema_of(data, frame), spec)
    count = plans.places(spark, partitions, bool(spec.by))
    check(spec, count)
    plans.check_places(state, name, late_path, keep_versions, hold_bytes)
    if max_bytes is not None:
        at_least_one(max_bytes, "max_bytes", ", or None")
    plans.check_progress(progress)
    if frame.isStreaming and isinstance(spec.watermark, Manual):
        raise ValueError(
            "watermark=sl.manual() would close nothing: a streaming query has no advance(time); use sl.bounded(delay)"
        )
    if not isinstance(data, FileRows):
        check_types(frame.schema, spec.columns())
    schema = _columns(plans.schema_of(data, frame), spec, late_path is not None and frame.isStreaming)
    late_path = None if late_path is None else absolute(late_path)
    read = data.format if isinstance(data, FileRows) else None
    laid_out: dict[str, Any] = {"late_path": late_path, "format": read, "wide": wide, "max_bytes": max_bytes}
    job = Job(spec, schema, count, prompt=progress == "prompt", **laid_out)
    if frame.isStreaming:
        watch(spark)
        if store == "spark":
            in_spark.check(spark, spec, state)
            job = replace(job, policy=IN_SPARK)
        files = plans.files_of(state, name, count, spec.fingerprint(), keep_versions, hold=hold_bytes, store=store)
        job = replace(job, files=files)
    else:
        job = replace(job, spec=_seeing_all(spec))
    frame = frame if read else plans.numbered(frame, schema.names)
    return plans.answered(frame.mapInArrow(told(stages.collect, job, reads=True), spark_schema(PACKED)), job)


def _seeing_all(spec: Spec) -> Spec:
    """The query ``spec`` with a manual watermark: it closes no window before it has seen all rows."""
    arguments: dict[str, Any] = {field: getattr(spec, field) for field in spec.__dataclass_fields__}
    arguments |= {"windows": dict(spec.windows), "aggs": dict(spec.aggs), "watermark": manual()}
    return Spec(**arguments).unfired()


def _columns(schema: pa.Schema, spec: Spec, all_of_them: bool) -> pa.Schema:
    """The columns the query reads, or all, if late rows are to be written with theirs; each there once."""
    for name in schema.names if all_of_them else spec.columns():
        column_type(schema, name)
    return schema if all_of_them else pa.schema([schema.field(name) for name in spec.columns()])
