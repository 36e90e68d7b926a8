"""Operator.push over a whole stream, results included."""

from __future__ import annotations

import time
from typing import ClassVar

import pyarrow as pa

import slicing as sl

from . import measuring, streams

AGGS = {"n": sl.count(), "total": sl.sum("value"), "low": sl.min("value"), "high": sl.max("value")}


class _Push:
    """A stream in batches of ``batch`` rows. ``rows``, ``windows``, ``watermark``, ``stream`` are what differs."""

    params: ClassVar = [100_000, 1_000_000]
    param_names: ClassVar = ["batch"]
    timer = time.process_time
    rows = 10_000_000
    windows: ClassVar = {"w": sl.tumbling("1s")}
    aggs: ClassVar = AGGS
    by: tuple[str, ...] = ()
    watermark = sl.ordered()

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 100_000))

    def setup(self, batch: int) -> None:
        self.spec = sl.Spec("ts", self.windows, self.aggs, by=self.by, watermark=self.watermark)
        self.batches = streams.cut(self.stream(streams.sized(self.rows)), streams.sized(batch))
        self.size = sum(b.num_rows for b in self.batches)
        self.push_all()

    def push_all(self) -> None:
        operator = sl.Operator(self.spec)
        for batch in self.batches:
            operator.push(batch)

    def time_push(self, batch: int) -> None:
        self.push_all()

    def track_rows_per_second(self, batch: int) -> float:
        return self.size / measuring.seconds(self.push_all)[0]

    track_rows_per_second.unit = "rows/s"

    def track_share_of_read(self, batch: int) -> float:
        """Against a plain read of the two columns, in the same run."""
        push, read = measuring.seconds(self.push_all, measuring.read_all(self.batches))
        return read / push

    track_share_of_read.unit = "of a plain read"


class InOrder(_Push):
    """100,000 rows a slice."""

    def track_share_of_read_cached(self, batch: int) -> float:
        """Each batch pushed just after it was read, as if the one before had just written it."""
        arrays = [measuring.columns(b) for b in self.batches]
        read = push = float("inf")
        for _ in range(measuring.runs()):
            operator, reads, pushes = sl.Operator(self.spec), 0.0, 0.0
            for rows, array in zip(self.batches, arrays, strict=True):
                measuring.read(*array)
                start = time.process_time()
                measuring.read(*array)
                between = time.process_time()
                operator.push(rows)
                reads, pushes = reads + between - start, pushes + time.process_time() - between
            read, push = min(read, reads), min(push, pushes)
        return read / max(push, 1e-9)

    track_share_of_read_cached.unit = "of a plain read"


class ThousandRowsASlice(_Push):
    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 1000))


class TwentyRowsASlice(_Push):
    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 20))


class Sliding(ThousandRowsASlice):
    """60 s every 1 s, 1,000 rows a slice."""

    windows: ClassVar = {"w": sl.sliding("60s", every="1s")}

    def track_cost_against_tumbling(self, batch: int) -> float:
        tumbling = ThousandRowsASlice()
        tumbling.setup(batch)
        ours, theirs = measuring.seconds(self.push_all, tumbling.push_all)
        return ours / theirs

    track_cost_against_tumbling.unit = "times"


class OutOfOrder(_Push):
    """20 % of the rows up to 2 s late, 100,000 rows a slice."""

    watermark = sl.bounded("2s")

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.disordered(streams.times(rows, 100_000), 0.2, 2 * streams.SECOND))


class Keyed(_Push):
    """1,000 keys, any int64, 100 rows a key and slice."""

    by = ("key",)

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 100_000), streams.keys(rows, 1000))


class KeyedOutOfOrder(Keyed):
    watermark = sl.bounded("2s")

    def stream(self, rows: int) -> pa.RecordBatch:
        late = streams.disordered(streams.times(rows, 100_000), 0.2, 2 * streams.SECOND)
        return streams.batch(late, streams.keys(rows, 1000))


class ManyKeys(_Push):
    """100,000 keys, any int64, 10 rows a key and slice of 10 s."""

    windows: ClassVar = {"w": sl.tumbling("10s")}
    by = ("key",)

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 100_000), streams.keys(rows, streams.sized(100_000)))


class StringKeys(_Push):
    """1,000 keys of 18 bytes."""

    by = ("key",)

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 100_000), streams.text(streams.keys(rows, 1000)))


class Sessions(_Push):
    """1,000 keys with a row a second each, and a gap of 3 s: some 20 rows a session."""

    rows = 2_000_000
    windows: ClassVar = {"visit": sl.session("3s")}
    by = ("key",)

    def stream(self, rows: int) -> pa.RecordBatch:
        return streams.batch(streams.times(rows, 1000), streams.keys(rows, 1000))


class SessionsOutOfOrder(Sessions):
    """The same with 10 rows a key and second, 20 % of them up to 2 s late: some 150 rows a session."""

    rows = 10_000_000
    windows: ClassVar = {"visit": sl.session("500ms")}
    watermark = sl.bounded("2s")

    def stream(self, rows: int) -> pa.RecordBatch:
        late = streams.disordered(streams.times(rows, 10_000), 0.2, 2 * streams.SECOND)
        return streams.batch(late, streams.keys(rows, 1000))


class SessionBesideTumbling(_Push):
    """One session that never ends beside tumbling windows: what keeping first and last times costs."""

    windows: ClassVar = {"w": sl.tumbling("1s"), "visit": sl.session("1s")}


class KeyedSessionBesideTumbling(Keyed):
    """The same of 1000 keys, each with 100 rows a slice."""

    windows: ClassVar = SessionBesideTumbling.windows


class KeyedSessionBesideTumblingOutOfOrder(KeyedOutOfOrder):
    windows: ClassVar = SessionBesideTumbling.windows


class _PushesBesideState:
    """To an operator that has a state: the mean of all pushes, as now and then one costs more, where runs grow."""

    operator: sl.Operator
    batches: list[pa.RecordBatch]

    def track_milliseconds_a_push(self, *_: object) -> float:
        start = time.process_time()
        for batch in self.batches:
            self.operator.push(batch)
        return (time.process_time() - start) / len(self.batches) * 1e3

    track_milliseconds_a_push.unit = "ms"


class LiveSessions(_PushesBesideState):
    """500 rows a push beside very many open sessions, of which 250 end and half of the rows go on."""

    params: ClassVar = [[100_000, 1_000_000], ["alone", "tumbling beside"]]
    param_names: ClassVar = ["sessions", "windows"]
    pushes = 100

    def setup(self, sessions: int, windows: str) -> None:
        alive = streams.sized(sessions)
        gap, rows = int(alive * 1.386), 2 * int(alive * 1.386)  # a row each ms, of twice as many keys: half are open
        times = streams.times(rows + 500 * self.pushes, 1000)
        batch = streams.batch(times, streams.keys(times.size, 2 * alive))
        beside = {} if windows == "alone" else {"w": sl.tumbling("1s")}
        asked = beside | {"visit": sl.session(f"{gap}ms")}
        self.operator = sl.Operator(sl.Spec("ts", asked, AGGS, by=["key"], watermark=sl.bounded("1s")))
        for piece in streams.cut(batch.slice(0, rows), max(rows // 8, 1)):
            self.operator.push(piece)
        self.batches = streams.cut(batch.slice(rows), 500)


class SmallPushes:
    """1,000 rows a push, no window due: what a push costs apart from its rows."""

    pushes = 1000

    def setup(self) -> None:
        spec = sl.Spec("ts", {"w": sl.tumbling("1h")}, AGGS)
        count = streams.sized(self.pushes)
        self.batches = streams.cut(streams.batch(streams.times(count * 1000, 100_000)), 1000)
        self.spec = spec
        self.push_all()

    def push_all(self) -> None:
        operator = sl.Operator(self.spec)
        for batch in self.batches:
            operator.push(batch)

    def track_microseconds_a_push(self) -> float:
        return measuring.seconds(self.push_all)[0] / len(self.batches) * 1e6

    track_microseconds_a_push.unit = "µs"
