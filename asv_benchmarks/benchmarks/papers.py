"""Two or three points of each figure of ``python -m asv_benchmarks.papers``, so that a change of them is seen."""

from __future__ import annotations

import statistics
import time
from typing import ClassVar

import slicing as sl
from asv_benchmarks.papers import (
    data,
    hammer_slide,
    li_adaptive,
    li_disorder,
    li_joins,
    li_unions,
    li_windows,
    scotty_latency,
    scotty_memory,
    scotty_throughput,
)

from . import measuring, streams


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


class Scotty19:
    """Medians of so many concurrent windows of 1 to 20 s."""

    params: ClassVar = [["football", "machines"], [1, 100]]
    param_names: ClassVar = ["stream", "windows"]
    timer = time.process_time

    def setup(self, stream: str, windows: int) -> None:
        rows = scotty_throughput.STREAMS[stream](streams.sized(300_000), 5000)
        self.batches = streams.cut(rows, streams.sized(100_000))
        self.spec = scotty_throughput.holistic(windows, "median")
        self.time_medians(stream, windows)

    def time_medians(self, stream: str, windows: int) -> None:
        scotty_throughput.pushed(self.spec, self.batches)


class Scotty21:
    """Sums of 100 concurrent windows, a fifth of the rows up to 2 s late."""

    params: ClassVar = ["time", "count"]
    param_names: ClassVar = ["measure"]
    timer = time.process_time

    def setup(self, measure: str) -> None:
        rows = data.late(data.football(streams.sized(400_000), scotty_throughput.RATE))
        self.batches = streams.cut(rows, streams.sized(100_000))
        self.spec = scotty_throughput.measured(100, measure)
        self.time_sums(measure)

    def time_sums(self, measure: str) -> None:
        scotty_throughput.pushed(self.spec, self.batches)


class Scotty22:
    """A dashboard of 80 windows, `m4`, one operator a thread: rows a second of all, on the wall."""

    params: ClassVar = [1, 2]
    param_names: ClassVar = ["threads"]

    def track_rows_per_second(self, threads: int) -> float:
        return scotty_throughput.parallel_point("slicing", threads, streams.sized(2_000_000), measuring.runs(3))[0]

    track_rows_per_second.unit = "rows/s"


class HammerSlide11:
    """The mean over 64 s on a spiky stream."""

    params: ClassVar = [1, 16]
    param_names: ClassVar = ["slide"]

    def setup(self, slide: int) -> None:
        self.rows = data.spiky(600, max(streams.sized(100_000), 20))
        self.work = hammer_slide.ours(self.rows, slide)
        self.work()

    def track_rows_per_second(self, slide: int) -> float:
        return self.rows.num_rows / measuring.seconds(self.work, wanted=3)[0]

    track_rows_per_second.unit = "rows/s"


class Li10:
    """The largest of 4000 rows, every so many rows."""

    params: ClassVar = [1, 400]
    param_names: ClassVar = ["every"]
    timer = time.process_time

    def setup(self, every: int) -> None:
        self.batches = streams.cut(li_windows.in_order(max(streams.sized(200_000), 5000)), 100_000)
        self.time_windows(every)

    def time_windows(self, every: int) -> None:
        li_windows.counted(4000, every, self.batches)


class Li15:
    """Windows of so many panes of 20 rows."""

    params: ClassVar = [5, 40]
    param_names: ClassVar = ["panes"]
    timer = time.process_time

    def setup(self, panes: int) -> None:
        self.panes = li_windows.Panes(streams.sized(200_000), 20, panes)
        self.panes.ours()

    def time_windows(self, panes: int) -> None:
        self.panes.ours()


class Li11:
    """Band disorder: seconds of the stream from the end of a window to its result. The errors are tested."""

    params: ClassVar = ["slack", "punctuation"]
    param_names: ClassVar = ["policy"]

    def track_latency(self, policy: str) -> float:
        arrivals = data.band(max(streams.sized(100_000), 5000), 50)
        watermark = sl.bounded("3200ms") if policy == "slack" else sl.punctuated("mark")
        return li_disorder.asked(li_disorder.BAND, arrivals, 100, watermark).latency()

    track_latency.unit = "s of the stream"


class Li12:
    """Blocks of 490 s in random order: the share of wrong counts, and seconds of the stream until a result."""

    params: ClassVar = ["434s", "491s", "punctuation"]
    param_names: ClassVar = ["policy"]

    def setup(self, policy: str) -> None:
        self.arrivals = data.blocks(4 * 490 * 2, 2)
        watermark = sl.punctuated("mark") if policy == "punctuation" else sl.bounded(policy)
        self.told = li_disorder.asked(li_disorder.BLOCKS, self.arrivals, 40, watermark)

    def track_wrong(self, policy: str) -> float:
        expected = li_disorder.truth(li_disorder.BLOCKS, self.arrivals)
        return li_disorder.against(li_disorder.BLOCKS, self.told, expected)[1]

    def track_latency(self, policy: str) -> float:
        return self.told.latency()

    track_wrong.unit, track_latency.unit = "%", "s of the stream"


class Li19:
    """Groups of 1, 15 and 300 rows a window of 10 s that slides by 1 s, a push a second."""

    params: ClassVar = ["DS1", "DS5"]
    param_names: ClassVar = ["data"]

    def setup(self, name: str) -> None:
        self.stream = li_adaptive.Stream(name, li_adaptive.Q8, 2, max(streams.sized(8000), 100))

    def track_closing_push(self, name: str) -> float:
        told = [li_adaptive.fed(li_adaptive.Slices(li_adaptive.Q8), self.stream.batches) for _ in range(3)]
        return 1e3 * min(statistics.median(one.seconds[10:]) for one in told)

    def track_state_against_ideal(self, name: str) -> float:
        """Bytes of wide partials, of what an ideal AdaptWID would hold."""
        return float(li_adaptive.state_point(self.stream, "wide")[li_adaptive.RATIO])

    track_closing_push.unit = "ms"
    track_state_against_ideal.unit = "of the ideal AdaptWID"


class Li7:
    """A count by minute over a band join of two links, a push a second: CPU seconds, and most bytes held."""

    params: ClassVar = [1, 5]
    param_names: ClassVar = ["band"]

    def setup(self, band: int) -> None:
        rate = max(streams.sized(4000), 20)
        self.links = [data.link(65, rate, 4 * rate, forth, seed) for forth, seed in ((True, 41), (False, 42))]

    def told(self, band: int) -> li_joins.Told:
        return li_joins.fed(li_joins.Unordered(band), *self.links)

    def track_seconds(self, band: int) -> float:
        return min(sum(self.told(band).seconds) for _ in range(measuring.runs(3)))

    def track_bytes(self, band: int) -> int:
        return max(self.told(band).bytes)

    track_seconds.unit, track_bytes.unit = "s", "bytes"


class Li87:
    """The longest push of a minute's count of 260,000 groups, all results at once or at most so many a push."""

    params: ClassVar = [None, 5000]
    param_names: ClassVar = ["share"]

    def setup(self, share: int | None) -> None:
        self.batches = li_unions.packets(streams.sized(260_000), 3, max(streams.sized(2_000_000), 2000))

    def track_longest_push(self, share: int | None) -> float:
        runs = [li_unions.surge(self.batches, share)[0] for _ in range(measuring.runs(3))]
        return 1e3 * min(float(spent[len(spent) // 3 :].max()) for spent in runs)

    track_longest_push.unit = "ms"


class Li8:
    """Most bytes of a sliding count over three links, and of a join of two, one source 10 s late."""

    params: ClassVar = ["count", "join"]
    param_names: ClassVar = ["query"]

    def track_bytes(self, query: str) -> int:
        rate, seconds = max(streams.sized(4000), 20), 70
        m1, m2 = (data.link(seconds, rate, 10 * rate, forth, 81) for forth in (True, False))
        late = li_unions.Source(data.link(seconds, 1, 10 * rate, False, 83), 10)
        if query == "count":
            spec = sl.Spec("ts", {"w": sl.sliding("5m", every="1m")}, {"n": sl.count()}, watermark=sl.manual())
            sources = {"M1": li_unions.Source(m1), "M2": li_unions.Source(m2), "C": late}
            return li_unions.counted(li_unions.Meld(sources), sources, spec, seconds).most
        sides = [{"M1": li_unions.Source(m1)}, {"M2": li_unions.Source(m2), "C": late}]
        return li_unions.joined([li_unions.Meld(side) for side in sides], sides, "1m", seconds).most

    track_bytes.unit = "bytes"
