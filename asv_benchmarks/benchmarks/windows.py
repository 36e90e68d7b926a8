"""Many windows over one stream of 10,000 rows a second, all results given out."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import pyarrow as pa

import slicing as sl

from . import measuring, streams
from .push import AGGS

RATE = 10_000
WARM_UP = 1000 * RATE  # rows until the largest window is full


def aligned(count: int) -> dict[str, sl.ContextFreeWindow]:
    """Sliding every 1 s, sizes spread evenly over 1 to 1000 s (one window: 1000 s)."""
    sizes = [1000 * (i + 1) // count for i in range(count)]
    return {f"w{size}": sl.sliding(f"{size}s", every="1s") for size in sizes}


def random_sizes(count: int) -> dict[str, sl.ContextFreeWindow]:
    """Tumbling windows of 1 to 20 s, sizes in whole milliseconds."""
    sizes = np.random.default_rng(6).integers(1000, 20_001, count)
    return {f"w{i}": sl.tumbling(f"{size}ms") for i, size in enumerate(sizes)}


class _Windows:
    """Pushes of 1 M rows (100 s of the stream) into an operator whose windows are full."""

    param_names: ClassVar = ["windows"]
    timer = time.process_time
    rows = 10_000_000
    batch = 1_000_000

    def windows(self, count: int) -> dict[str, sl.ContextFreeWindow]:
        return aligned(count)

    def setup(self, count: int) -> None:
        warm_up = streams.sized(WARM_UP)
        whole = streams.batch(streams.times(warm_up + streams.sized(self.rows), RATE))
        self.warm_up = whole.slice(0, warm_up)
        self.batches = streams.cut(whole.slice(warm_up), streams.sized(self.batch))
        self.size = whole.num_rows - warm_up
        self.results = 0
        self.seconds(count)

    def seconds(self, count: int) -> float:
        """CPU time of all pushes after the first windows are full."""
        operator = sl.Operator(sl.Spec("ts", self.windows(count), AGGS))
        for batch in streams.cut(self.warm_up, streams.sized(self.batch)):
            operator.push(batch)
        self.results = 0
        start = time.process_time()
        for batch in self.batches:
            self.results += operator.push(batch).windows.num_rows
        return max(time.process_time() - start, 1e-9)

    def best(self, count: int) -> float:
        return min(self.seconds(count) for _ in range(measuring.runs()))

    def track_rows_per_second(self, count: int) -> float:
        return self.size / self.best(count)

    track_rows_per_second.unit = "rows/s"

    def track_results_per_second(self, count: int) -> float:
        best = self.best(count)
        return self.results / best

    track_results_per_second.unit = "results/s"


class Aligned(_Windows):
    """Sliding windows every 1 s."""

    params: ClassVar = [1, 10, 100, 1000]

    def track_cost_against_one(self, count: int) -> float:
        pairs = [(self.seconds(count), self.seconds(1)) for _ in range(measuring.runs())]
        return min(many for many, _ in pairs) / min(one for _, one in pairs)

    track_cost_against_one.unit = "times"


class RandomSizes(_Windows):
    """1,000 tumbling windows that share few edges."""

    params: ClassVar = [1000]
    rows = 2_000_000

    def windows(self, count: int) -> dict[str, sl.ContextFreeWindow]:
        return random_sizes(count)


class Tumbling:
    """1000 tumbling windows of 1 to 20 s against one of 1 s: sizes at random, or in whole seconds (50 names each).

    Pushes of a second (10,000 rows), and of 100 s. Every 10,000 rows give 151 and 180 rows of results; one window 1.
    """

    params: ClassVar = [["random", "aligned"], [10_000, 1_000_000]]
    param_names: ClassVar = ["sizes", "batch"]
    timer = time.process_time

    def setup(self, sizes: str, batch: int) -> None:
        self.many = (
            random_sizes(1000) if sizes == "random" else {f"w{i}": sl.tumbling(f"{i % 20 + 1}s") for i in range(1000)}
        )
        pushes = streams.sized(100) if batch == 10_000 else 10
        warm_up = streams.sized(40 * RATE)
        whole = streams.batch(streams.times(warm_up + pushes * streams.sized(batch), RATE))
        self.warm_up = streams.cut(whole.slice(0, warm_up), streams.sized(batch))
        self.batches = streams.cut(whole.slice(warm_up), streams.sized(batch))

    def seconds(self, windows: dict[str, sl.ContextFreeWindow]) -> float:
        operator = sl.Operator(sl.Spec("ts", windows, AGGS))
        for batch in self.warm_up:
            operator.push(batch)
        start = time.process_time()
        for batch in self.batches:
            operator.push(batch)
        return max(time.process_time() - start, 1e-9)

    def track_cost_against_one(self, sizes: str, batch: int) -> float:
        one = {"w": sl.tumbling("1s")}
        pairs = [(self.seconds(self.many), self.seconds(one)) for _ in range(measuring.runs())]
        return min(many for many, _ in pairs) / min(one for _, one in pairs)

    track_cost_against_one.unit = "times"


class SpecCost:
    """What it takes to build a spec of many windows and to push its first row."""

    params: ClassVar = [1, 1000]
    param_names: ClassVar = ["windows"]
    timer = time.process_time

    def setup(self, count: int) -> None:
        self.row: pa.RecordBatch = streams.batch(streams.times(1, RATE))
        self.time_first_push(count)

    def time_first_push(self, count: int) -> None:
        sl.Operator(sl.Spec("ts", aligned(count), AGGS)).push(self.row)
