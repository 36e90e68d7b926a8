"""sl.aggregate: a table at once."""

from __future__ import annotations

import time
from typing import ClassVar

import pyarrow as pa

import slicing as sl

from . import measuring, streams

AGGS = {
    "count": {"n": sl.count()},
    "sum": {"total": sl.sum("value")},
    "basic": {"n": sl.count(), "total": sl.sum("value"), "low": sl.min("value"), "high": sl.max("value")},
    "mean, std": {"mean": sl.mean("value"), "std": sl.std("value")},
    "first, last": {"first": sl.first("value"), "last": sl.last("value")},
    "argmax": {"when": sl.argmax("value", "ts")},
    "min of strings": {"low": sl.min("name")},
    "sum of integers": {"total": sl.sum("whole")},
    "product": {"product": sl.product("value")},
}


class _Aggregate:
    params: ClassVar = list(AGGS)
    param_names: ClassVar = ["aggs"]
    timer = time.process_time
    rows = 10_000_000
    by: tuple[str, ...] = ()

    def setup(self, aggs: str) -> None:
        self.spec = sl.Spec("ts", {"w": sl.tumbling("1s")}, AGGS[aggs], by=self.by)
        rows = streams.sized(self.rows)
        numbers = streams.keys(rows, 1000)
        batch = streams.batch(streams.times(rows, 100_000), numbers)
        columns = {name: batch.column(name) for name in batch.schema.names}
        if aggs == "min of strings":
            columns["name"] = streams.text(numbers)
        if aggs == "sum of integers":
            columns["whole"] = pa.array(numbers >> 20)
        self.table = pa.table(columns)
        self.aggregate()

    def aggregate(self) -> pa.Table:
        return sl.aggregate(self.table, self.spec, threads=1)

    def time_aggregate(self, aggs: str) -> None:
        self.aggregate()

    def track_rows_per_second(self, aggs: str) -> float:
        return self.table.num_rows / measuring.seconds(self.aggregate, wanted=3)[0]

    track_rows_per_second.unit = "rows/s"


class Ungrouped(_Aggregate):
    """100,000 rows a slice."""


class Keyed(_Aggregate):
    """1,000 keys, any int64, 100 rows a key and slice."""

    by = ("key",)
