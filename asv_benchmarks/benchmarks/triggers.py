"""Early results: what a push of 10,000 rows by 1000 keys costs with a trigger, beside the same push without one."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import pyarrow as pa

import slicing as sl

from . import measuring, streams

AGGS = {"n": sl.count(), "total": sl.sum("value")}
PUSH, KEYS, PUSHES = 10_000, 1000, 40
TRIGGERS = {
    "each_push": sl.each_push(),
    "every": sl.every(1000),  # once a push
    "after_count": sl.after_count(10),  # about 1000 panes a push
    "after_count by arrival": sl.after_count(10, order="arrival"),
}


def pushes() -> list[pa.RecordBatch]:
    rows = max(streams.sized(PUSH), 10)
    at = np.arange(PUSHES * rows) * 1000 // rows
    columns = {"t": at, "k": streams.keys(at.size, KEYS), "value": np.arange(at.size) % 1000}
    return streams.cut(pa.RecordBatch.from_pydict(columns), rows)


class Panes:
    """Windows of 50 pushes, in integers: ``Spec("t", {"w": sl.tumbling(50_000)}, count and sum, by=["k"])``."""

    params: ClassVar = [list(TRIGGERS), ["updates", "changes", "parts"]]
    param_names: ClassVar = ["trigger", "emit"]
    timer = time.process_time

    def setup(self, trigger: str, emit: str) -> None:
        self.batches = pushes()
        windows = {"w": sl.tumbling(50_000)}
        self.plain = sl.Spec("t", windows, AGGS, by=["k"])
        self.early = sl.Spec("t", windows, AGGS, by=["k"], emit=emit, trigger=TRIGGERS[trigger])
        self.run(self.early)

    def run(self, spec: sl.Spec) -> int:
        op = sl.Operator(spec)
        return sum(op.push(batch).windows.num_rows for batch in self.batches)

    def time_pushes(self, trigger: str, emit: str) -> None:
        self.run(self.early)

    def track_milliseconds_a_push(self, trigger: str, emit: str) -> float:
        return 1000 * measuring.seconds(lambda: self.run(self.early))[0] / len(self.batches)

    track_milliseconds_a_push.unit = "ms a push"

    def track_microseconds_a_pane(self, trigger: str, emit: str) -> float:
        """Beside the push without a trigger."""
        with_, without = measuring.seconds(lambda: self.run(self.early), lambda: self.run(self.plain))
        return 1e6 * max(with_ - without, 0.0) / max(self.run(self.early), 1)

    track_microseconds_a_pane.unit = "us a pane beside the push"
