"""A user's own aggregates and windows, beside what is built in: pushes of 100 k to 1 M rows, 1000 keys."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import slicing as sl

from . import measuring, streams


def pushed(spec: sl.Spec, batches: list[pa.RecordBatch]) -> int:
    operator = sl.Operator(spec)
    found = sum(operator.push(batch).windows.num_rows for batch in batches)
    return found + operator.flush().windows.num_rows


def added_up(commutative: bool, column: str = "value", **given: Any) -> sl.Aggregate:
    return sl.udaf(
        "sum",
        lift=lambda x: x,
        combine=lambda a, b: a + b,
        lower=lambda total: total,
        identity=0,
        inputs=[column],
        commutative=commutative,
        **{"state": ["float64"], **given},
    )


SUMS = {
    "built-in": sl.sum("value"),
    "commutative": added_up(True),
    "built-in, integers": sl.sum("key"),
    "with invert, integers": added_up(True, "key", state=["int64"], invert=lambda a, b: a - b),
    "in order": added_up(False),
}


class UserDefined:
    """A sum written in Python beside the built-in, 1000 keys, 100 rows a key and slice."""

    params: ClassVar = [list(SUMS), ["tumbling", "sliding"]]
    param_names: ClassVar = ["sum", "window"]
    timer = time.process_time
    rows = 5_000_000

    def setup(self, sum: str, window: str) -> None:
        rows = streams.sized(self.rows)
        self.batches = streams.cut(
            streams.batch(streams.times(rows, 100_000), streams.keys(rows, 1000)), streams.sized(1_000_000)
        )
        kind = sl.tumbling("1s") if window == "tumbling" else sl.sliding("60s", every="1s")
        self.spec = sl.Spec("ts", {"w": kind}, {"total": SUMS[sum]}, by="key", on_overflow="wrap")
        pushed(self.spec, self.batches)

    def time_pushes(self, sum: str, window: str) -> None:
        pushed(self.spec, self.batches)

    def track_rows_per_second(self, sum: str, window: str) -> float:
        rows = self.batches[0].num_rows * len(self.batches)
        return rows / measuring.seconds(lambda: pushed(self.spec, self.batches), wanted=3)[0]

    track_rows_per_second.unit = "rows/s"


@dataclass(frozen=True)
class _Bar(sl.ContextAwareWindow):
    """Rows until the value has moved by ``by``; compiled."""

    by: float

    def columns(self) -> tuple[str, ...]:
        return ("value",)

    def start(self) -> Any:
        return np.nan

    def see(self, first: float, time: int, value: float) -> Any:
        if np.isnan(first):
            return value, self.OPEN
        if abs(value - first) < self.by:
            return first, 0
        return value, self.CLOSE_BEFORE + self.OPEN


class _PlainBar(_Bar):
    """The same, in plain Python: None is no number."""

    def start(self) -> Any:
        return None

    def see(self, first: float | None, time: int, value: float) -> Any:
        return super().see(np.nan if first is None else first, time, value)


WINDOWS = {"compiled": _Bar(60.0), "plain Python": _PlainBar(60.0), "built-in rows(100)": sl.rows(100)}


class UserWindows:
    """A window of the user's own beside one that is built in, over rows 20 % of which are up to 200 ms out of order."""

    params: ClassVar = [list(WINDOWS), [0, 1000]]
    param_names: ClassVar = ["window", "keys"]
    timer = time.process_time
    rows = 1_000_000

    def setup(self, window: str, keys: int) -> None:
        rows = streams.sized(self.rows if window != "plain Python" else self.rows // 5)
        time = streams.disordered(streams.times(rows, 100_000), 0.2, streams.SECOND // 5)
        batch = streams.batch(time, streams.keys(rows, keys or 1))
        self.batches = streams.cut(batch, streams.sized(100_000))
        by = ["key"] if keys else []
        self.spec = sl.Spec("ts", {"w": WINDOWS[window]}, {"n": sl.count()}, by=by, watermark=sl.bounded("200ms"))
        pushed(self.spec, self.batches)

    def time_pushes(self, window: str, keys: int) -> None:
        pushed(self.spec, self.batches)
