"""A log line for each batch of each ``window_aggregate`` in a query."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


class BatchLog(StreamingQueryListener):
    """Logs a line for each micro-batch of each ``window_aggregate``, ``window_join`` and ``window_features``.

    Parameters
    ----------
    logger
        The logger, or its name; lines have level INFO.

    Examples
    --------
    >>> log = BatchLog()
    >>> spark.streams.addListener(log)

    A line reads ``windows batch 12: 300 rows, 4 late; 57 windows; 812 cells (430 in the largest place), 48 kB; 2 held,
    0 cold; restored in 3 ms, published in 9; watermark 2026-01-01 09:03:40, 5.2 s behind; 310 ms``.
    """

    def __init__(self, logger: str | logging.Logger = "spark_udfs") -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for name, seen in event.progress.observedMetrics.items():
            stats = getattr(seen, "stats", None)
            if stats is not None and "publish_ms" in stats:
                self._logger.info("%s", line(name, event.progress, stats))

    def _ignored(self, event: Any) -> None: ...

    onQueryStarted = onQueryIdle = onQueryTerminated = _ignored  # noqa: N815


def line(name: str, progress: Any, stats: Any) -> str:
    """The accounting of a batch as one line."""
    behind = "" if stats["lag_ms"] is None else f", {stats['lag_ms'] / 1e3:.1f} s behind"
    took = progress.durationMs.get("triggerExecution", 0)
    return (
        f"{name} batch {progress.batchId}: {_what(stats)}, "
        f"{stats['state_bytes'] / 1e3:.0f} kB; {stats['held']} held, {stats['cold']} cold; restored in "
        f"{stats['restore_ms']} ms, published in {stats['publish_ms']}; watermark {stats['watermark']}{behind}; "
        f"{took} ms"
    )


def _what(stats: Any) -> str:
    if "joined" in stats:
        return _of_joins(stats)
    return _of_features(stats) if "answered" in stats else _of_windows(stats)


def _of_features(stats: Any) -> str:
    late = stats["late_labels"] + stats["late_events"]
    return (
        f"{stats['labels']} labels and {stats['events']} events, {late} late; {stats['answered']} answered; "
        f"{stats['waiting']} wait; {stats['kept']} events kept ({stats['largest_kept']} in the largest place)"
    )


def _of_windows(stats: Any) -> str:
    return (
        f"{stats['rows']} rows, {stats['late']} late; {stats['windows']} windows; {stats['cells']} cells "
        f"({stats['largest_cells']} in the largest place)"
    )


def _of_joins(stats: Any) -> str:
    late = stats["late_left"] + stats["late_right"]
    return (
        f"{stats['left']} and {stats['right']} rows, {late} late; {stats['joined']} pairs; {stats['kept']} rows kept "
        f"({stats['largest_kept']} in the largest place)"
    )
