"""What a snapshot costs: sliding windows of 60 s every 1 s, full, of some keys."""

from __future__ import annotations

import time
from typing import ClassVar

import slicing as sl

from . import measuring, streams
from .push import AGGS


class Snapshot:
    params: ClassVar = [1, 1000, 20_000]
    param_names: ClassVar = ["keys"]
    timer = time.process_time

    def setup(self, keys: int) -> None:
        self.spec = sl.Spec("ts", {"w": sl.sliding("60s", every="1s")}, AGGS, by=["key"])
        rate = min(keys, 20_000)
        rows = streams.sized(62 * rate)
        self.operator = sl.Operator(self.spec)
        stats = self.operator.push(streams.batch(streams.times(rows, rate), streams.keys(rows, keys))).stats
        self.held = stats.bytes
        self.blob = self.operator.snapshot()
        self.time_restore(keys)

    def time_snapshot(self, keys: int) -> None:
        self.operator.snapshot()

    def time_restore(self, keys: int) -> None:
        sl.Operator.restore(self.spec, self.blob)

    def track_bytes(self, keys: int) -> int:
        return len(self.blob)

    track_bytes.unit = "bytes"

    def track_snapshot_rate(self, keys: int) -> float:
        """Bytes of state a second."""
        return self.held / measuring.seconds(self.operator.snapshot)[0]

    track_snapshot_rate.unit = "bytes/s"
