"""Two or three points of each figure of ``python -m asv_benchmarks.papers``, so that a change of them is seen."""

from __future__ import annotations

import time
from typing import ClassVar

from asv_benchmarks.papers import scotty_latency, scotty_memory

from . import streams


class Scotty15:
    """Bytes of 50,000 rows within the allowed lateness, by slices; of rows that count windows keep."""

    params: ClassVar = [1000, 10_000]
    param_names: ClassVar = ["slices"]

    def setup(self, slices: int) -> None:
        self.rows = scotty_memory.rows_within(streams.sized(50_000))

    def track_bytes_of_time_windows(self, slices: int) -> int:
        return scotty_memory.held(scotty_memory.by_time(slices), self.rows)

    def track_bytes_of_count_windows(self, slices: int) -> int:
        return scotty_memory.held(scotty_memory.by_count(slices, self.rows.num_rows), self.rows)

    track_bytes_of_time_windows.unit = track_bytes_of_count_windows.unit = "bytes"


class Scotty16:
    """The end of one window of so many slices: microseconds of ``advance``."""

    params: ClassVar = [["recompute", "eager store"], [1000, 100_000]]
    param_names: ClassVar = ["way", "slices"]

    def setup(self, way: str, slices: int) -> None:
        self.closing = scotty_latency.Closing("sum", streams.sized(slices), 21)

    def track_microseconds(self, way: str, slices: int) -> float:
        spent, _ = self.closing.answers(way, 20)
        return sorted(spent[1:])[9] * 1e6

    track_microseconds.unit = "us"


class Scotty20:
    """Punctuation whose marks come up to 2 s late."""

    params: ClassVar = [["sum", "median"], [100, 10_000]]
    param_names: ClassVar = ["aggregate", "rows"]
    timer = time.process_time

    def setup(self, aggregate: str, rows: int) -> None:
        self.stream = scotty_latency.marked(streams.sized(1_000_000), rows, scotty_latency.LATE)
        self.time_windows(aggregate, rows)

    def time_windows(self, aggregate: str, rows: int) -> None:
        scotty_latency.cut_at_marks(aggregate, self.stream)
