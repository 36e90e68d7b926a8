"""A micro-batch on Spark: its rows through Spark, its files read by the workers, and Spark's own windows.

`python asv_benchmarks/spark_table.py` prints the same as a table, from one run.
"""

from __future__ import annotations

import tempfile
from typing import Any, ClassVar

from . import streams

CASES = ["tumbling 10 s", "sliding 10 s / 1 s", "sliding 60 s / 1 s", "four at once"]
WAYS = ["files", "rows", "hdfs", "rocksdb"]


class MicroBatch:
    params: ClassVar = [CASES, WAYS]
    param_names: ClassVar = ["windows", "way"]
    timeout = 1800

    def setup(self, windows: str, way: str) -> None:
        try:
            from asv_benchmarks import spark_table
            from spark_udfs.local import session
        except ImportError as error:
            raise NotImplementedError(f"{error}: Spark is an extra of its own") from None
        self.spark: Any = session("local[2]")
        self.folder = tempfile.TemporaryDirectory()
        whole = streams.scale() >= 1
        rows, batches = streams.sized(1_000_000), 7 if whole else 3
        self.table = spark_table.Table(self.spark, self.folder.name, rows, batches, 20, 2)
        if whole:
            self.table.batch_ms(windows, way)  # all is loaded and compiled

    def track_batch(self, windows: str, way: str) -> float:
        return self.table.batch_ms(windows, way) / 1e3

    track_batch.unit = "s"

    def teardown(self, windows: str, way: str) -> None:
        self.spark.stop()
        self.folder.cleanup()
