"""A batch of a streaming query, as its tasks know it, and the watermark that judges its rows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from spark_udfs.state import Files


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
                "a streaming window_aggregate ran outside of a micro-batch query, which is not supported"
            )
        return Step(query, int(batch), context.partitionId())


def judged_by(files: Files, step: Step) -> int | None:
    """The watermark of the batch before, in ticks.

    Every partition's state knows the progress of the whole stream, so any of them may be asked; the readers of a batch
    ask different ones.
    """
    if step.batch == 0:
        return None
    watermark = files.header(step.partition % files.partitions, step.batch - 1, step.query)["watermark"]
    return None if watermark is None else int(watermark)
