"""Li (2008), figures 7-6 to 7-8: a count over a join, whose pairs come in any order, are sorted, or come in order.

Q7-2: pairs of packets of one NetFlow in opposite directions, at most ``band`` seconds apart, counted by minutes of the
first one's time.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import slicing as sl
from asv_benchmarks.papers import data
from asv_benchmarks.papers.data import Link
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Measured, Outcome, Panel, short
from asv_benchmarks.papers.timing import check

ON = [("src", "dst"), ("dst", "src"), ("sport", "dport"), ("dport", "sport")]
COUNT = sl.Spec("ts", {"minute": sl.tumbling("1m")}, {"pairs": sl.count()}, watermark=sl.manual())
NOTHING = pa.table({"window_start": pa.array([], pa.timestamp("us")), "pairs": pa.array([], pa.int64())})


def join_of(band: int) -> sl.JoinSpec:
    return sl.JoinSpec(ON, "ts", (f"{band}s", f"{band}s"), event_time="left")


@dataclass
class Told:
    """What a way gave: pairs by minute, and by push its CPU seconds, whether it gave results, and the bytes held."""

    minutes: dict[object, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    closing: list[bool] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)

    def took(self, spent: float, windows: pa.Table, held: int) -> None:
        self.seconds.append(spent)
        self.closing.append(windows.num_rows > 0)
        self.bytes.append(held)
        starts = windows["window_start"].to_pylist()
        self.minutes |= dict(zip(starts, windows["pairs"].to_pylist(), strict=True))

    def latency(self) -> float:
        """Milliseconds of the pushes that give a minute, the median."""
        return 1e3 * statistics.median(s for s, gives in zip(self.seconds, self.closing, strict=True) if gives)


class Unordered:
    """OA-Join: pairs are counted as they come."""

    def __init__(self, band: int) -> None:
        self.join, self.count, self.band = sl.JoinOperator(join_of(band)), sl.Operator(COUNT), band

    def push(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[pa.Table, int]:
        return self._counted(self.join.push(left, right))

    def flush(self) -> pa.Table:
        self._rows(self.join.flush().rows)
        return self.count.flush().windows

    def _counted(self, out: sl.JoinOutput) -> tuple[pa.Table, int]:
        self._rows(out.rows)
        return self._closed(out)

    def _closed(self, out: sl.JoinOutput) -> tuple[pa.Table, int]:
        if out.watermark is None:
            return NOTHING, out.stats.bytes
        closed = self.count.advance(out.watermark)
        return closed.windows, out.stats.bytes + closed.stats.bytes

    def _rows(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.count.push(rows.select(["ts"]))


class OutputBuffered(Unordered):
    """OPOB-Join: pairs wait until no earlier one can come, and are sorted."""

    def __init__(self, band: int) -> None:
        super().__init__(band)
        self.waiting: pa.Table | None = None

    def _counted(self, out: sl.JoinOutput) -> tuple[pa.Table, int]:
        self.waiting = out.rows if self.waiting is None else pa.concat_tables([self.waiting, out.rows])
        if self.waiting.num_rows:
            done = pc.less(self.waiting["ts"], out.watermark)
            self._rows(self.waiting.filter(done).sort_by("ts"))
            self.waiting = self.waiting.filter(pc.invert(done))
        windows, held = self._closed(out)
        return windows, held + self.waiting.nbytes

    def flush(self) -> pa.Table:
        assert self.waiting is not None
        self._rows(self.waiting.sort_by("ts"))
        return super().flush()


class InputBuffered(Unordered):
    """OPIB-Join: the left rows wait until all their partners are there, so that pairs come in order."""

    def __init__(self, band: int) -> None:
        super().__init__(band)
        self.waiting: list[pa.RecordBatch] = []

    def push(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[pa.Table, int]:
        self.join.push_right(right)
        self.waiting.append(left)
        whole = pa.Table.from_batches(self.waiting)
        reached = pc.max(right["ts"]).cast(pa.int64()).as_py() - self.band * 1_000_000
        ready = int(np.searchsorted(whole["ts"].cast(pa.int64()).to_numpy(), reached))
        out = self.join.push_left(whole.slice(0, ready))
        rest = whole.slice(ready).combine_chunks()
        self.waiting = rest.to_batches()
        found, held = self._counted(out)
        return found, held + rest.nbytes

    def flush(self) -> pa.Table:
        if self.waiting:
            self._rows(self.join.push_left(pa.Table.from_batches(self.waiting)).rows)
        return super().flush()


WAYS = {"OA-Join": Unordered, "OPOB-Join, pairs sorted": OutputBuffered, "OPIB-Join, inputs wait": InputBuffered}


def fed(way: Unordered, left: Link, right: Link) -> Told:
    """A push a second; the end of the streams is no part of the times."""
    told = Told()
    for second in range(left.seconds):
        start = time.process_time()
        windows, held = way.push(left.second(second), right.second(second))
        told.took(time.process_time() - start, windows, held)
    told.minutes |= {row["window_start"]: row["pairs"] for row in way.flush().to_pylist()}
    return told


def links(effort: Effort) -> tuple[Link, Link]:
    seconds, rate, flows = effort.pick((130, 4000, 16_000), (28, 100, 200))
    return data.link(seconds, rate, flows, True, 41), data.link(seconds, rate, flows, False, 42)


def point(band: int, left: Link, right: Link, runs: int) -> dict[str, list[Told]]:
    told = {name: [fed(way(band), left, right) for _ in range(runs)] for name, way in WAYS.items()}
    answers = {name: sorted(each[0].minutes.items()) for name, each in told.items()}
    check({name: [np.arange(len(a)), np.array([pairs for _, pairs in a])] for name, a in answers.items()})
    return told


def run(effort: Effort) -> Outcome:
    bands = effort.pick((1, 3, 5, 7, 9), (1, 5))
    left, right = links(effort)
    points = [point(band, left, right, min(effort.runs, 3)) for band in bands]

    def series(number: object) -> dict[str, list[float]]:
        return {name: [Measured.of([number(told) for told in each[name]]) for each in points] for name in WAYS}

    held = {name: [max(each[name][0].bytes) for each in points] for name in WAYS}
    panels = [
        Panel("memory", "band, s", "most bytes held", bands, held, log_x=False),
        Panel("latency", "band, s", "ms of a push that gives a minute", bands, series(Told.latency), log_x=False),
        Panel("execution time", "band, s", "s in all", bands, series(lambda told: sum(told.seconds)), log_x=False),
    ]
    memory, latency, spent = (panel.series for panel in panels)
    ours, sorted_, waits = WAYS
    findings = [
        Finding(
            "7-6: OA-Join is much better than sorting the pairs, above all in memory and latency",
            f"at a band of {bands[-1]} s sorting holds {short(memory[sorted_][-1] / memory[ours][-1])} times the "
            f"bytes, takes {short(latency[sorted_][-1] / latency[ours][-1])} times as long for a minute's result and "
            f"{short(spent[sorted_][-1] / spent[ours][-1])} times the processor",
        ),
        Finding(
            "7-7, 7-8: buffering the inputs takes slightly more memory than OA-Join for all windows",
            f"{', '.join(short(b / a) for a, b in zip(memory[ours], memory[waits], strict=True))} times the bytes at "
            f"bands of {', '.join(map(str, bands))} s; {short(spent[waits][-1] / spent[ours][-1])} times the processor",
        ),
    ]
    pairs = [sum(each[ours][0].minutes.values()) for each in points]
    rows = left.rows.num_rows
    note = f"{rows:,} rows a side, a push a second; pairs: {', '.join(f'{n:,}' for n in pairs)}."
    return Outcome(panels, findings, [note])


FIGURES = (Figure("li-7-6", "Li (2008), figures 7-6 to 7-8", "A count over a band join that need not keep order", run),)
