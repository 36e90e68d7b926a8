"""What a stream costs in memory: peak, state, growth; and a jump in time, which must cost nothing."""

from __future__ import annotations

import resource
import sys
import time
from typing import ClassVar

import pyarrow as pa

import slicing as sl

from . import measuring, streams
from .push import AGGS


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


class LiveState:
    """A million keys that come and go, a thousand at a time: memory must follow the thousand."""

    rows = 50_000_000
    keys = 1_000_000
    alive = 1000
    batch = 100_000
    params: ClassVar = ["tumbling", "sliding", "session"]
    param_names: ClassVar = ["window"]
    windows: ClassVar = {
        "tumbling": sl.tumbling("1s"),
        "sliding": sl.sliding("10s", every="1s"),
        "session": sl.session("2s"),
    }

    def setup(self, window: str) -> None:
        self.spec = sl.Spec("ts", {"w": self.windows[window]}, AGGS, by=["key"])

    def run(self, rows: int) -> tuple[int, int, float]:
        """(growth of peak memory after a tenth of the stream, most bytes of state, CPU seconds of the pushes)."""
        operator = sl.Operator(self.spec)
        early, state, spent, done = peak(), 0, 0.0, 0
        share = self.keys * rows // self.rows
        for batch in streams.changing_keys(rows, share, self.alive, streams.sized(self.batch)):
            start = time.process_time()
            out = operator.push(batch)
            spent += time.process_time() - start
            state = max(state, out.stats.bytes)
            done += batch.num_rows
            if done <= rows // 10:
                early = peak()
        return peak() - early, state, max(spent, 1e-9)

    def track_growth(self, window: str) -> int:
        """Of peak memory, between a tenth of the stream and its end."""
        return self.run(streams.sized(self.rows))[0]

    track_growth.unit = "bytes"

    def track_state(self, window: str) -> int:
        return self.run(streams.sized(self.rows // 10))[1]

    track_state.unit = "bytes"

    def track_rows_per_second(self, window: str) -> float:
        rows = streams.sized(self.rows // 10)
        return rows / self.run(rows)[2]

    track_rows_per_second.unit = "rows/s"

    def peakmem_stream(self, window: str) -> None:
        self.run(streams.sized(self.rows // 10))


class State:
    """A sliding window of 60 s every 1 s, full: cells of 100 rows each."""

    params: ClassVar = [1, 1000, 10_000]
    param_names: ClassVar = ["keys"]

    def setup(self, keys: int) -> None:
        self.spec = sl.Spec("ts", {"w": sl.sliding("60s", every="1s")}, AGGS, by=["key"])
        rate = min(100 * keys, 100_000)
        rows = streams.sized(62 * rate)
        whole = streams.batch(streams.times(rows, rate), streams.keys(rows, keys))
        self.batches = streams.cut(whole, 1_000_000)

    def pushed(self) -> sl.Output:
        operator = sl.Operator(self.spec)
        return [operator.push(batch) for batch in self.batches][-1]

    def track_bytes(self, keys: int) -> int:
        return self.pushed().stats.bytes

    track_bytes.unit = "bytes"

    def track_bytes_per_cell(self, keys: int) -> float:
        stats = self.pushed().stats
        return stats.bytes / stats.cells

    track_bytes_per_cell.unit = "bytes"

    def peakmem_state(self, keys: int) -> None:
        self.pushed()


class LargePush:
    """One push of 10 M rows: how much more memory than the rows themselves it needs at its peak."""

    params: ClassVar = ["in order", "late", "1000 keys"]
    param_names: ClassVar = ["stream"]
    rows = 10_000_000

    def setup(self, stream: str) -> None:
        rows = streams.sized(self.rows)
        times = streams.times(rows, 100_000)
        if stream == "late":
            times = streams.disordered(times, 0.2, 2 * streams.SECOND)
        key = streams.keys(rows, 1000) if stream == "1000 keys" else None
        self.batch = streams.batch(times, key)
        by = [] if key is None else ["key"]
        self.spec = sl.Spec("ts", {"w": sl.tumbling("1s")}, AGGS, by=by, watermark=sl.bounded("2s"))
        sl.Operator(self.spec).push(self.batch.slice(0, 1000))

    def track_peak(self, stream: str) -> float:
        """Of the input's size, the input included; asv runs it in a process of its own."""
        before = peak()
        sl.Operator(self.spec).push(self.batch)
        return 1 + (peak() - before) / self.batch.nbytes

    track_peak.unit = "of the input"


class TimeJump:
    """A push of rows that lie 10^15 units after the ones before."""

    params: ClassVar = ["tumbling", "sliding", "session", "many"]
    param_names: ClassVar = ["window"]
    windows: ClassVar = {
        "tumbling": {"w": sl.tumbling(1)},
        "sliding": {"w": sl.sliding(1000, every=1)},
        "session": {"w": sl.session(1)},
        "many": {f"w{n}": sl.sliding(n, every=1) for n in range(1, 101)},
    }

    def setup(self, window: str) -> None:
        self.spec = sl.Spec("ts", self.windows[window], AGGS)
        near, far = range(1000), range(10**15, 10**15 + 1000)
        self.before, self.after, self.within = (
            pa.record_batch({"ts": pa.array(t, pa.int64()), "value": streams.values(len(t))})
            for t in (near, far, [*near[:500], *far[:500]])
        )
        self.jump(self.before, self.after)

    def jump(self, *batches: pa.RecordBatch) -> float:
        """CPU time of the last push."""
        operator = sl.Operator(self.spec)
        for batch in batches[:-1]:
            operator.push(batch)
        start = time.process_time()
        operator.push(batches[-1])
        return time.process_time() - start

    def track_between_pushes(self, window: str) -> float:
        return min(self.jump(self.before, self.after) for _ in range(measuring.runs())) * 1e3

    track_between_pushes.unit = "ms"

    def track_within_a_push(self, window: str) -> float:
        return min(self.jump(self.within) for _ in range(measuring.runs())) * 1e3

    track_within_a_push.unit = "ms"
