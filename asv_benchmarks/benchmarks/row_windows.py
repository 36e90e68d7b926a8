"""Windows that rows decide: pushes of 1 M rows, and small ones beside many keys whose rows are kept."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import pyarrow as pa

import slicing as sl
from slicing.kernels.combine import TOP
from slicing.kernels.ranges import least_of
from slicing.kernels.rows import recent

from . import measuring, streams
from .push import AGGS, _PushesBesideState

WINDOWS = {
    "rows": sl.rows(1000),
    "per_row": sl.per_row("10ms"),
    "last_rows": sl.last_rows(1000, "1s"),
    "punctuation": sl.punctuation("mark"),
    "frame": sl.frame("mark", "leave"),
}


class _LargePushes:
    spec: sl.Spec
    batches: list[pa.RecordBatch]

    def push_all(self) -> None:
        operator = sl.Operator(self.spec)
        for batch in self.batches:
            operator.push(batch)

    def track_rows_per_second(self, *_: object) -> float:
        return sum(b.num_rows for b in self.batches) / measuring.seconds(self.push_all, wanted=3)[0]

    track_rows_per_second.unit = "rows/s"


class RowWindows(_LargePushes):
    """100,000 rows a second: in order, or 20 % of them up to 2 s late; without keys or of 1000."""

    params: ClassVar = [list(WINDOWS), ["in order", "out of order"], [0, 1000]]
    param_names: ClassVar = ["window", "stream", "keys"]
    timer = time.process_time
    rows = 2_000_000

    def setup(self, window: str, stream: str, keys: int) -> None:
        rows = streams.sized(self.rows)
        times, late = streams.times(rows, 100_000), stream == "out of order"
        if late:
            times = streams.disordered(times, 0.2, 2 * streams.SECOND)
        batch = streams.batch(times, streams.keys(rows, keys) if keys else None)
        for at, name in ((0, "mark"), (500, "leave")):
            batch = batch.append_column(name, pa.array(np.arange(rows) % 1000 == at))
        self.batches = streams.cut(batch, streams.sized(1_000_000))
        watermark = sl.bounded("2s") if late else sl.ordered()
        by = ["key"] if keys else []
        self.spec = sl.Spec("ts", {"w": WINDOWS[window]}, AGGS, by=by, watermark=watermark)
        self.push_all()

    def time_push(self, window: str, stream: str, keys: int) -> None:
        self.push_all()


class PerRow:
    """The least of the 1000 rows up to each: the kernels alone, and pushes of 1 M rows."""

    params: ClassVar = ["kernels", "push"]
    param_names: ClassVar = ["what"]

    def setup(self, what: str) -> None:
        self.rows = streams.sized(100_000 if what == "kernels" else 5_000_000)
        times, values = streams.times(self.rows, 100_000), streams.values(self.rows)
        first, last, start, room, out = np.empty((5, self.rows), np.int64)
        bounds, zero = np.array([0, self.rows]), np.int64(0)

        def kernels() -> None:
            for _ in range(20):
                recent(bounds, times, np.int64(10_000), np.int64(0), first, last, start)
                least_of(values.view(np.int64), TOP, zero, TOP, first, last, True, room, out)

        spec = sl.Spec("ts", {"w": sl.per_row("10ms")}, {"low": sl.min("value")}, watermark=sl.ordered())
        batches = streams.cut(streams.batch(times), streams.sized(1_000_000))

        def push() -> None:
            operator = sl.Operator(spec)
            for batch in batches:
                operator.push(batch)

        self.work, self.turns = (kernels, 20) if what == "kernels" else (push, 1)
        self.work()

    def track_rows_per_second(self, what: str) -> float:
        return self.turns * self.rows / measuring.seconds(self.work, wanted=5)[0]

    track_rows_per_second.unit = "rows/s"


class SmallPushesBesideKeptRows(_PushesBesideState):
    """``rows(100)`` of 10,000 keys, some 500,000 rows of which were given no window yet: pushes of 10 rows."""

    def setup(self) -> None:
        rows = streams.sized(1_000_000)
        whole = streams.batch(streams.times(rows + 1000, 100_000), streams.keys(rows + 1000, streams.sized(10_000)))
        self.operator = sl.Operator(sl.Spec("ts", {"w": sl.rows(100)}, AGGS, by=["key"], watermark=sl.ordered()))
        self.operator.push(whole.slice(0, rows))
        self.batches = streams.cut(whole.slice(rows), 10)


class WholeStream(_LargePushes):
    """Windows that rows of all keys end, and counts of rows as they come: pushes of 100,000 rows in order."""

    params: ClassVar = [["rows", "punctuation", "arrival"], [1000, 100_000]]
    param_names: ClassVar = ["window", "keys"]
    windows: ClassVar = {
        "rows": sl.rows(1000, per_key=False),
        "punctuation": sl.punctuation("mark", per_key=False),
        "arrival": sl.rows(1000, order="arrival"),
    }

    def setup(self, window: str, keys: int) -> None:
        rows = streams.sized(1_000_000)
        batch = streams.batch(streams.times(rows, 100_000), streams.keys(rows, keys))
        batch = batch.append_column("mark", pa.array(np.arange(rows) % 1000 == 0))
        self.batches = streams.cut(batch, streams.sized(100_000))
        self.spec = sl.Spec("ts", {"w": self.windows[window]}, AGGS, by=["key"], watermark=sl.ordered())
        self.push_all()


class SmallPushesOfTheWholeStream(_PushesBesideState):
    """Pushes of 500 rows while most of a million keys have rows in the open window."""

    def setup(self) -> None:
        rows, keys = streams.sized(1_000_000), streams.sized(1_000_000)
        whole = streams.batch(streams.times(rows + 50_000, 100_000), streams.keys(rows + 50_000, keys))
        window = sl.rows(4 * rows, per_key=False)
        self.operator = sl.Operator(sl.Spec("ts", {"w": window}, AGGS, by=["key"], watermark=sl.ordered()))
        self.operator.push(whole.slice(0, rows))
        self.batches = streams.cut(whole.slice(rows), 500)
