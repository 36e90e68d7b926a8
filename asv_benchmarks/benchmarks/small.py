"""sl.aggregate of small tables, as people ask in a notebook: what a call costs, whatever its size."""

from __future__ import annotations

import time
from typing import ClassVar

import pyarrow as pa

import slicing as sl

from . import measuring, streams

AGGS = {"n": sl.count(), "total": sl.sum("value"), "high": sl.max("value")}
ASKED = {
    "10 rows": (10, 0),
    "1 k rows": (1000, 0),
    "1 k rows by 20 texts": (1000, 20),
    "100 k rows by 20 texts": (100_000, 20),
}
CALLS = 50


class Small:
    """``sl.aggregate(table, sl.Spec("ts", {"w": sl.tumbling("1m")}, three aggregates))``, the spec made in each call.

    ``keys``: texts as pyarrow has them, or as Polars hands them over (``string_view``).
    """

    params: ClassVar = [list(ASKED), ["string", "string_view"]]
    param_names: ClassVar = ["asked", "keys"]
    timer = time.process_time

    def setup(self, asked: str, keys: str) -> None:
        rows, distinct = ASKED[asked]
        if not distinct and keys == "string_view":
            raise NotImplementedError("it has no keys")
        self.by = ["key"] if distinct else []
        columns = {"ts": streams.times(rows, 100).astype("M8[us]"), "value": streams.values(rows)}
        if distinct:
            columns["key"] = streams.text(streams.keys(rows, distinct)).cast(keys)
        self.table = pa.table(columns)
        self.aggregate()

    def aggregate(self) -> pa.Table:
        return sl.aggregate(self.table, sl.Spec("ts", {"w": sl.tumbling("1m")}, AGGS, by=self.by), threads=1)

    def time_aggregate(self, asked: str, keys: str) -> None:
        self.aggregate()

    def track_milliseconds(self, asked: str, keys: str) -> float:
        """The best of several calls."""
        return 1000 * min(measuring.seconds(self.aggregate)[0] for _ in range(measuring.runs(CALLS)))

    track_milliseconds.unit = "ms a call"
