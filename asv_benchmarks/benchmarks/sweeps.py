"""One thing varied over its range, the rest as it was: disorder, aggregates, keys, slides, window sizes, threads.

The ranges are those of the papers whose figures they repeat: Scotty (disorder, aggregates), Hammer Slide (slides,
window sizes).
"""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import pyarrow as pa

import slicing as sl

from . import measuring, streams
from .push import AGGS
from .streams import SECOND


class _Sweep:
    timer = time.process_time
    rows = 5_000_000
    batch = 1_000_000

    def prepare(self, spec: sl.Spec, whole: pa.RecordBatch, threads: int = 1) -> None:
        self.spec, self.threads = spec, threads
        self.batches = streams.cut(whole, streams.sized(self.batch))
        self.size = whole.num_rows
        self.push_all()

    def push_all(self) -> None:
        operator = sl.Operator(self.spec, threads=self.threads)
        for batch in self.batches:
            operator.push(batch)
        operator.flush()

    def rate(self) -> float:
        return self.size / measuring.seconds(self.push_all, wanted=3)[0]


class Disorder(_Sweep):
    """A share of the rows comes late by up to so many seconds; tumbling windows of 1 s, 100,000 rows a second."""

    params: ClassVar = [[0.0, 0.2, 0.5, 0.9], [1, 10]]
    param_names: ClassVar = ["share", "delay"]

    def setup(self, share: float, delay: int) -> None:
        ordered = streams.times(streams.sized(self.rows), 100_000)
        late = streams.disordered(ordered, share, delay * SECOND)
        spec = sl.Spec("ts", {"w": sl.tumbling("1s")}, AGGS, watermark=sl.bounded(f"{delay}s"))
        self.prepare(spec, streams.batch(late))
        self.in_order = streams.cut(streams.batch(ordered), streams.sized(self.batch))

    def track_rows_per_second(self, share: float, delay: int) -> float:
        return self.rate()

    track_rows_per_second.unit = "rows/s"

    def track_cost_against_in_order(self, share: float, delay: int) -> float:
        ordered = Disorder()
        ordered.spec, ordered.threads, ordered.batches = self.spec, 1, self.in_order
        ours, theirs = measuring.seconds(self.push_all, ordered.push_all, wanted=3)
        return ours / theirs

    track_cost_against_in_order.unit = "times"


class Functions(_Sweep):
    """Each aggregate function alone, over 60 s every 1 s, 1,000 rows a second; in order, and 20 % up to 2 s late."""

    rows = 2_000_000
    functions: ClassVar = {
        "count": sl.count(),
        "sum": sl.sum("value"),
        "min": sl.min("value"),
        "max": sl.max("value"),
        "mean": sl.mean("value"),
        "geometric_mean": sl.geometric_mean("value"),
        "product": sl.product("value"),
        "std": sl.std("value"),
        "min_count": sl.min_count("value"),
        "max_count": sl.max_count("value"),
        "argmin": sl.argmin("value", "ts"),
        "argmax": sl.argmax("value", "ts"),
        "m4": sl.m4("value"),
        "first": sl.first("value"),
        "last": sl.last("value"),
        "median": sl.median("value"),
        "quantile": sl.quantile("value", 0.9),
        "collect": sl.collect("value"),
    }
    params: ClassVar = [list(functions), ["in order", "late"]]
    param_names: ClassVar = ["function", "order"]

    def setup(self, function: str, order: str) -> None:
        times = streams.times(streams.sized(self.rows), 1000)
        if order == "late":
            times = streams.disordered(times, 0.2, 2 * SECOND)
        windows = {"w": sl.sliding("60s", every="1s")}
        if function == "collect":  # its results are its rows, 60 times over
            windows = {"w": sl.tumbling("60s")}
        spec = sl.Spec("ts", windows, {"a": self.functions[function]}, watermark=sl.bounded("2s"))
        self.prepare(spec, streams.batch(times))

    def track_rows_per_second(self, function: str, order: str) -> float:
        return self.rate()

    track_rows_per_second.unit = "rows/s"


class Keys(_Sweep):
    """Any int64 keys, ten rows a key and window or more."""

    params: ClassVar = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]
    param_names: ClassVar = ["keys"]
    rows = 10_000_000

    def setup(self, keys: int) -> None:
        rows = streams.sized(self.rows)
        seconds = max(1, keys // 10_000)
        spec = sl.Spec("ts", {"w": sl.tumbling(f"{seconds}s")}, AGGS, by=["key"], watermark=sl.ordered())
        key = streams.keys(rows, min(keys, max(rows // 10, 1)))
        self.prepare(spec, streams.batch(streams.times(rows, 100_000), key))

    def track_rows_per_second(self, keys: int) -> float:
        return self.rate()

    track_rows_per_second.unit = "rows/s"


class _Counted(_Sweep):
    """A row a tick, 32-bit values: windows are a number of rows, as in Hammer Slide's figures."""

    def windows_of(self, size: int, every: int) -> None:
        rows = streams.sized(self.rows)
        value = np.random.default_rng(8).integers(-1000, 1000, rows).astype(np.int32)
        whole = pa.record_batch({"ts": np.arange(rows), "value": value})
        aggs = {"total": sl.sum("value"), "low": sl.min("value")}
        self.prepare(sl.Spec("ts", {"w": sl.sliding(size, every=every)}, aggs, watermark=sl.ordered()), whole)


class Slides(_Counted):
    """Windows of 1024 rows."""

    params: ClassVar = [1, 4, 16, 64, 256, 1024]
    param_names: ClassVar = ["slide"]

    def setup(self, slide: int) -> None:
        self.rows = min(5_000_000, 500_000 * slide)  # a result a slide
        self.windows_of(1024, slide)

    def track_rows_per_second(self, slide: int) -> float:
        return self.rate()

    track_rows_per_second.unit = "rows/s"


class WindowSizes(_Counted):
    """Windows that slide by 64 rows."""

    params: ClassVar = [64, 256, 1024, 4096, 16_384, 65_536]
    param_names: ClassVar = ["size"]

    def setup(self, size: int) -> None:
        self.windows_of(size, 64)

    def track_rows_per_second(self, size: int) -> float:
        return self.rate()

    track_rows_per_second.unit = "rows/s"


class Threads(_Sweep):
    """Time on the wall, as threads share it: on a machine that does nothing else."""

    params: ClassVar = [["in order", "late", "1000 keys", "100 k keys"], [1, 2]]
    param_names: ClassVar = ["stream", "threads"]
    timer = time.perf_counter

    def setup(self, stream: str, threads: int) -> None:
        rows = streams.sized(self.rows)
        times = streams.times(rows, 100_000)
        key = None
        if stream == "late":
            times = streams.disordered(times, 0.2, 2 * SECOND)
        elif stream != "in order":
            key = streams.keys(rows, 1000 if stream == "1000 keys" else streams.sized(100_000))
        window = sl.tumbling("10s" if stream == "100 k keys" else "1s")
        by = [] if key is None else ["key"]
        spec = sl.Spec("ts", {"w": window}, AGGS, by=by, watermark=sl.bounded("2s"))
        self.prepare(spec, streams.batch(times, key), threads)

    def time_push(self, stream: str, threads: int) -> None:
        self.push_all()


class ClosingPushes:
    """Pushes of 10,000 rows, each of which closes a window of 1 s, sliding over 10 s: how long until its results."""

    params: ClassVar = [1000, 100_000]
    param_names: ClassVar = ["keys"]
    pushes = 200
    timer = time.perf_counter

    def setup(self, keys: int) -> None:
        rows = streams.sized(self.pushes * 10_000)
        self.spec = sl.Spec("ts", {"w": sl.sliding("10s", every="1s")}, AGGS, by=["key"], watermark=sl.ordered())
        whole = streams.batch(streams.times(rows, 10_000), streams.keys(rows, streams.sized(keys)))
        self.batches = streams.cut(whole, streams.sized(10_000))
        self.milliseconds()

    def milliseconds(self) -> np.ndarray:
        operator, spent = sl.Operator(self.spec), []
        for batch in self.batches:
            start = time.perf_counter()
            operator.push(batch)
            spent.append((time.perf_counter() - start) * 1e3)
        return np.array(spent)

    def track_p50(self, keys: int) -> float:
        return float(np.percentile(self.milliseconds(), 50))

    def track_p99(self, keys: int) -> float:
        return float(np.percentile(self.milliseconds(), 99))

    def track_longest(self, keys: int) -> float:
        return float(self.milliseconds().max())

    track_p50.unit = track_p99.unit = track_longest.unit = "ms"
