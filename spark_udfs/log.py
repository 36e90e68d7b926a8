"""A line a batch in Python's log, of each ``window_aggregate`` of a query."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


class BatchLog(StreamingQueryListener):
    """Logs one line for each micro-batch of each ``window_aggregate``: ``spark.streams.addListener(BatchLog())``.

    Parameters
    ----------
    logger
        Where to, at level INFO; a name or a :class:`logging.Logger`.

    Examples
    --------
    A line reads ``windows batch 12: 300 rows, 4 late; 57 windows; 812 cells (430 in the largest place), 48 kB; 2 held,
    0 cold; restored in 3 ms, published in 9; watermark 2026-01-01 09:03:40, 5.2 s behind; 310 ms``.
    """

    def __init__(self, logger: str | logging.Logger = "spark_udfs") -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for name, seen in event.progress.observedMetrics.items():
            stats = getattr(seen, "stats", None)
            if stats is not None and "largest_cells" in stats:
                self._logger.info("%s", line(name, event.progress, stats))

    def _ignored(self, event: Any) -> None: ...

    onQueryStarted = onQueryIdle = onQueryTerminated = _ignored  # noqa: N815


def line(name: str, progress: Any, stats: Any) -> str:
    """The accounting of a batch as one line."""
    behind = "" if stats["lag_ms"] is None else f", {stats['lag_ms'] / 1e3:.1f} s behind"
    took = progress.durationMs.get("triggerExecution", 0)
    return (
        f"{name} batch {progress.batchId}: {stats['rows']} rows, {stats['late']} late; {stats['windows']} windows; "
        f"{stats['cells']} cells ({stats['largest_cells']} in the largest place), {stats['state_bytes'] / 1e3:.0f} kB; "
        f"{stats['held']} held, {stats['cold']} cold; restored in {stats['restore_ms']} ms, published in "
        f"{stats['publish_ms']}; watermark {stats['watermark']}{behind}; {took} ms"
    )
