"""A batch of a streaming query, as its tasks know it, and the watermark that judges its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from spark_udfs.engines import Reached
from spark_udfs.state import Files, StateError

_ASYNC = "slicing.asyncProgressTracking"  # a local property of queries that have it


@dataclass(frozen=True)
class Step:
    """One task of one micro-batch. A repeated batch has the same number, a restarted query the same id."""

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
                "a streaming query of windows or joins ran outside of a micro-batch query, which is not supported"
            )
        if context.getLocalProperty(_ASYNC):
            raise StateError(
                "the query has asyncProgressTrackingEnabled: after a restart its batches may have other rows, while "
                "state is kept by batch; start it without"
            )
        return Step(query, int(batch), context.partitionId())


def judged_by(files: Files, step: Step) -> Reached:
    """The watermark of the batch before, in ticks; of a join those of both sides.

    Every partition's state knows the progress of the whole stream, so any of them may be asked; the readers of a batch
    ask different ones, and others in the next batch: one that an action of the sink has left out is found by and by.
    It is in the name of the version.
    """
    if step.batch == 0:
        return None
    return files.place(step.query, (step.partition + step.batch) % files.partitions).newest(step.batch - 1).watermark


class _Started(StreamingQueryListener):
    """Marks queries with asynchronous progress for their tasks. Spark calls it in the query's own thread, before the
    first batch; the option itself cannot be seen from a DataFrame."""

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
    """PySpark's own takes the progress of every batch apart before it hands it over: 30 ms of CPU in the driver."""

    def onQueryProgress(self, jevent: Any) -> None: ...  # noqa: N802

    onQueryIdle = onQueryTerminated = onQueryProgress  # noqa: N815


_watched: WeakSet[SparkSession] = WeakSet()


def watch(spark: SparkSession) -> None:
    """Have queries that this session starts looked at."""
    if spark not in _watched and hasattr(spark, "_jsparkSession"):
        _watched.add(spark)
        spark.streams.addListener(_Started(spark))
