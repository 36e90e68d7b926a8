"""A batch of a streaming query as its tasks know it, and the watermark that judges its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from spark_udfs.engines import Reached
from spark_udfs.state import Place
from spark_udfs.versions import Files, StateError

_ASYNC = "slicing.asyncProgressTracking"  # a local property of queries with asynchronous progress


@dataclass(frozen=True)
class Step:
    """One task of one micro-batch. A repeated batch keeps its number, a restarted query keeps its id."""

    query: str
    batch: int
    partition: int

    @staticmethod
    def current() -> Step:
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("this function runs in Spark's tasks only")
        query, batch = (context.getLocalProperty(n) for n in ("sql.streaming.queryId", "streaming.sql.batchId"))
        if query is None or batch is None:
            raise RuntimeError(
                "this task does not know its micro-batch. Windows and joins of a stream run only as part of their "
                "streaming query. In foreachBatch: with Spark Connect, tasks are not told their batch, so write to a "
                "sink of Spark's (files, Delta, Iceberg); in a thread that your function starts, wrap its work in "
                "pyspark.inheritable_thread_target(spark), or call persist() and count() before"
            )
        if context.getLocalProperty(_ASYNC):
            raise StateError(
                "the query has asyncProgressTrackingEnabled: after a restart its batches may have other rows, while "
                "state is kept by batch; start it without"
            )
        return Step(query, int(batch), context.partitionId())


def judged_by(files: Files, step: Step) -> Reached:
    """The watermark after the previous batch, in ticks; for a join a pair, one for each side.

    Every partition's state knows the progress of the whole stream, so any partition may be asked. Each reader asks
    another partition, and another one in the next batch: so a partition that an action of the sink left out is found
    in time. The watermark is in the name of the version.
    """
    if step.batch == 0:
        return None
    partition = (step.partition + step.batch) % files.partitions
    return Place(files, step.query, partition).newest(step.batch - 1).watermark


class _Started(StreamingQueryListener):
    """Marks queries with asynchronous progress for their tasks. Spark calls it in the thread of the query, before the
    first batch; a DataFrame does not show the option."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        query = self._session._jsparkSession.streams().get(str(event.id))
        if "AsyncProgress" in query.streamingQuery().getClass().getName():
            self._session.sparkContext.setLocalProperty(_ASYNC, "true")

    def _ignored(self, event: Any) -> None: ...

    onQueryProgress = onQueryIdle = onQueryTerminated = _ignored  # noqa: N815

    @property
    def _jlistener(self) -> Any:
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(_Unread(self))  # type: ignore[union-attr]


class _Unread(JStreamingQueryListener):
    """PySpark's wrapper parses the progress of every batch before it passes it on, which costs 30 ms of driver CPU."""

    def onQueryProgress(self, jevent: Any) -> None: ...  # noqa: N802

    onQueryIdle = onQueryTerminated = onQueryProgress  # noqa: N815


_watched: WeakSet[SparkSession] = WeakSet()


def watch(spark: SparkSession) -> None:
    """Check the queries that this session starts."""
    if spark not in _watched and hasattr(spark, "_jsparkSession"):
        _watched.add(spark)
        spark.streams.addListener(_Started(spark))
