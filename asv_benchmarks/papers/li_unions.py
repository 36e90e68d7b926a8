"""Li (2008), figures 8-7 to 8-11: queries over several sources that are not kept in order, against merges that do.

IOP (in-order processing) merges its sources before it counts or joins, which needs a buffer for the sources that are
ahead. OOP (out-of-order processing) is ``sl.Union``: rows pass on at once, and only progress is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.streams import SECOND, START
from asv_benchmarks.papers import data
from asv_benchmarks.papers.data import Link
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Measured, Outcome, Panel, short
from asv_benchmarks.papers.li_joins import ON
from asv_benchmarks.papers.timing import check

# --- figure 8-7: the surge at the end of a window --------------------------------------------------------------------

BATCH = 10_000
RING = 100_000  # rows that wait while a push is at work


def packets(groups: int, windows: int, rows: int) -> list[pa.RecordBatch]:
    """Packets of so many pairs of addresses, ``rows`` of them a minute."""
    random = np.random.default_rng(51)
    ts = START // (60 * SECOND) * 60 * SECOND + np.arange(windows * rows, dtype=np.int64) * (60 * SECOND) // rows
    pair = random.integers(0, groups, ts.size)
    return streams.cut(data.batch(ts, src=pair // 512, dst=pair % 512), min(BATCH, rows // 10))


def surge(batches: Sequence[pa.RecordBatch], share: int | None) -> tuple[np.ndarray, list[int]]:
    """CPU seconds of each push after the first window, and how many results they gave. ``share``: at most so many."""
    spec = sl.Spec("ts", {"w": sl.tumbling("1m")}, {"n": sl.count()}, by=["src", "dst"], watermark=sl.ordered())
    operator = sl.Operator(spec, max_windows_per_push=share)
    spent, given = [], []
    for batch in batches:
        start = time.process_time()
        out = operator.push(batch)
        spent.append(time.process_time() - start)
        given.append(out.windows.num_rows)
    return np.array(spent), given


def rate(spent: np.ndarray, batch: int, ring: int) -> float:
    """The most rows a second of which a ring buffer never has more than it holds."""

    def fits(rows: float) -> bool:
        waiting = 0.0
        for seconds in spent:
            waiting += rows * seconds
            if waiting > ring:
                return False
            waiting = max(waiting - batch, 0.0)
        return True

    low, high = 0.0, ring / float(spent.max())
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def run_surge(effort: Effort) -> Outcome:
    groups: Sequence[int] = effort.pick((66_000, 130_000, 260_000, 520_000), (600, 2000))
    rows, ring = effort.pick((2_000_000, RING), (10_000, 5000))
    ways = ("all at once", "spread over half a window")
    longest: dict[str, list[float]] = {way: [] for way in ways}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for count in groups:
        batches = packets(count, 4, rows)
        a_window = len(batches) // 4
        for way in ways:
            share = None if way == ways[0] else 2 * count // a_window + 1
            runs = [surge(batches, share)[0] for _ in range(min(effort.runs, 3))]
            best = np.min(runs, axis=0)[a_window:]  # a neighbour on the machine makes single pushes long
            longest[way].append(Measured.of([1e3 * float(spent[a_window:].max()) for spent in runs]))
            rates[way].append(rate(best, batches[0].num_rows, ring) / 1e6)
    panels = [
        Panel("longest push", "groups", "ms", groups, longest),
        Panel(f"rate that a ring buffer of {ring:,} rows bears", "groups", "M rows/s", groups, rates, log_y=False),
    ]
    once, spread = rates.values()
    findings = [
        Finding(
            "with 66 k groups IOP and OOP bear the same rate; with 260 k OOP bears 760 k to 800 k packets/s, IOP 400 k",
            "; ".join(
                f"{n:,} groups: {short(a)} M rows/s all at once, {short(b)} spread"
                for n, a, b in zip(groups, once, spread, strict=True)
            ),
        ),
        Finding(
            "the more groups, the more work at the end of a window, which slow or lazy flushes smooth",
            f"the longest push of {groups[-1]:,} groups takes {short(longest[ways[0]][-1])} ms, spread "
            f"{short(longest[ways[1]][-1])} ms",
        ),
    ]
    return Outcome(panels, findings, [f"Pushes of {min(BATCH, rows // 10):,} rows, {rows:,} rows a window."])


# --- figures 8-8 to 8-11: memory under skew --------------------------------------------------------------------------


class Merge:
    """A union that keeps order: rows wait until every source has come as far."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.waiting: dict[str, list[pa.RecordBatch]] = {name: [] for name in sources}
        self.reached: dict[str, int | None] = dict.fromkeys(self.waiting)

    def push(self, source: str, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows of one source, in order; give those of all sources that no earlier one can follow."""
        self.waiting[source].append(rows)
        self.reached[source] = int(_times(rows)[-1])
        if None in self.reached.values():
            return []
        least = min(reached for reached in self.reached.values() if reached is not None)
        ready = []
        for name, batches in self.waiting.items():
            kept = []
            for batch in batches:
                count = int(np.searchsorted(_times(batch), least))
                ready += [batch.slice(0, count)] if count else []
                kept += [batch.slice(count)] if count < batch.num_rows else []
            self.waiting[name] = kept
        return _in_order(ready)

    def rest(self) -> list[pa.RecordBatch]:
        """What is left at the end of all sources."""
        return _in_order([batch for batches in self.waiting.values() for batch in batches])

    @property
    def watermark(self) -> object:
        """As ``UnionOutput.watermark``."""
        if None in self.reached.values():
            return None
        return pa.scalar(min(r for r in self.reached.values() if r is not None), pa.timestamp("us")).as_py()

    @property
    def bytes(self) -> int:
        return sum(batch.nbytes for batches in self.waiting.values() for batch in batches)


class Meld:
    """``sl.Union`` with the face of :class:`Merge`."""

    bytes = 0  # it keeps progress only

    def __init__(self, sources: Iterable[str]) -> None:
        self.union = sl.Union(dict.fromkeys(sources, sl.bounded(0)), time="ts")
        self.watermark: object = None

    def push(self, source: str, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        out = self.union.push(source, rows)
        self.watermark = out.watermark
        return out.rows.select(rows.schema.names).to_batches()

    def rest(self) -> list[pa.RecordBatch]:
        return []


def _in_order(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).sort_by("ts").combine_chunks().to_batches() if batches else []


def _times(rows: pa.RecordBatch) -> np.ndarray:
    return rows.column("ts").cast(pa.int64()).to_numpy()


@dataclass(frozen=True)
class Source:
    """A link whose rows come some seconds after their time."""

    link: Link
    delay: int = 0

    def second(self, number: int) -> pa.RecordBatch:
        return self.link.second(number - self.delay)


Sources = Mapping[str, Source]
UNIONS = {"OOP, sl.Union": Meld, "IOP, a merge with a buffer": Merge}


@dataclass(frozen=True)
class Told:
    held: Sequence[int]  # bytes, after each second
    rows: int  # results, or pairs

    @property
    def most(self) -> int:
        return max(self.held)

    @property
    def mean(self) -> float:
        return sum(self.held) / len(self.held)


def counted(union: Meld | Merge, sources: Sources, spec: sl.Spec, seconds: int) -> Told:
    """A window count over a union of sources."""
    operator, total = sl.Operator(spec), 0
    held: list[int] = []
    for second in range(seconds):
        for name, source in sources.items():
            rows = source.second(second)
            if not rows.num_rows:
                continue
            for batch in union.push(name, rows):
                operator.push(batch)
            if union.watermark is not None:
                out = operator.advance(union.watermark)
                total += out.windows.num_rows
                held.append(out.stats.bytes + union.bytes)
    for batch in union.rest():
        operator.push(batch)
    return Told(held, total + operator.flush().windows.num_rows)


def joined(unions: Sequence[Meld | Merge], sides: Sequence[Sources], window: str, seconds: int) -> Told:
    """A tumbling-window join of two unions."""
    spec = sl.JoinSpec(ON, "ts", sl.tumbling(window), watermark=(sl.manual(), sl.manual()))
    operator, total = sl.JoinOperator(spec), 0
    held: list[int] = []
    pushes = operator.push_left, operator.push_right
    for second in range(seconds):
        for side, (union, sources) in enumerate(zip(unions, sides, strict=True)):
            for name, source in sources.items():
                rows = source.second(second)
                for batch in union.push(name, rows) if rows.num_rows else []:
                    total += pushes[side](batch).stats.joined
        left, right = (union.watermark for union in unions)
        if left is not None and right is not None:
            out = operator.advance(left=left, right=right)
            total += out.stats.joined
            held.append(out.stats.bytes + sum(union.bytes for union in unions))
    for push, union in zip(pushes, unions, strict=True):
        total += sum(push(batch).stats.joined for batch in union.rest())
    return Told(held, total + operator.flush().stats.joined)


def _skews(effort: Effort, full: Sequence[int]) -> Sequence[int]:
    return effort.pick(full, full[:2])


def _outcome(
    title: str, x: str, at: Sequence[int], told: Mapping[str, list[Told]], paper: str, extra: str = ""
) -> Outcome:
    check({name: [np.array([point.rows for point in points])] for name, points in told.items()})
    most = {name: [point.most for point in points] for name, points in told.items()}
    mean = {name: [point.mean for point in points] for name, points in told.items()}
    oop, iop = most.values()
    ours_mean, their_mean = mean.values()
    average = short(their_mean[-1] / ours_mean[-1])
    ours = (
        f"from {at[0]} to {at[-1]} s OOP grows from {short(oop[0])} to {short(oop[-1])} bytes, "
        f"IOP from {short(iop[0])} to {short(iop[-1])}; on average over time IOP holds {average} times as many "
        f"at {at[-1]} s{extra}"
    )
    panels = [
        Panel(f"{title}, at most", x, "bytes held", at, most, log_x=False, log_y=False),
        Panel(f"{title}, on average", x, "bytes held", at, mean, log_x=False, log_y=False),
    ]
    return Outcome(panels, [Finding(paper, ours)])


def run_count_of_union(effort: Effort) -> Outcome:
    """Two links, one of them late; 65,536 groups."""
    rate_, pairs, seconds = effort.pick((20_000, 65_536, 130), (1000, 100, 30))
    skews = _skews(effort, (0, 10, 20, 30, 40))
    spec = sl.Spec("ts", {"w": sl.tumbling("1m")}, {"n": sl.count()}, by=["src", "dst"], watermark=sl.manual())
    made = [data.link(seconds, rate_, pairs, True, seed) for seed in (61, 62)]
    told = {
        name: [
            counted(union(("M1", "M2")), {"M1": Source(made[0]), "M2": Source(made[1], skew)}, spec, seconds + skew)
            for skew in skews
        ]
        for name, union in UNIONS.items()
    }
    paper = "OOP generally uses less memory; as skew increases it stays relatively flat, while IOP grows dramatically"
    return _outcome("count by minute", "skew of the two links, s", skews, told, paper)


def run_join_of_unions(effort: Effort) -> Outcome:
    """A with B and C with D, the second ones late; windows of 10 s."""
    rate_, flows, seconds = effort.pick((2000, 20_000, 150), (20, 200, 25))
    skews = _skews(effort, (0, 20, 40, 60, 80, 100))
    made = [data.link(seconds, rate_, flows, side < 2, 70 + side) for side in range(4)]
    told = {
        name: [
            joined(
                (union(("A", "B")), union(("C", "D"))),
                [
                    {"A": Source(made[0]), "B": Source(made[1], skew)},
                    {"C": Source(made[2]), "D": Source(made[3], skew)},
                ],
                "10s",
                seconds + skew,
            )
            for skew in skews
        ]
        for name, union in UNIONS.items()
    }
    ratio = [a.most / b.most for a, b in zip(*told.values(), strict=True)]
    paper = "both keep the same tuples, in join tables or in buffers; OOP takes at most 20 % more memory"
    told_ratio = f"; OOP / IOP {short(min(ratio))} to {short(max(ratio))}"
    return _outcome("join of unions", "skew within each side, s", skews, told, paper, told_ratio)


def run_join_with_late_rows(effort: Effort) -> Outcome:
    """M1 with the union of M2 and C, which has a row a second and is late; windows of a minute."""
    rate_, flows, seconds = effort.pick((4000, 40_000, 130), (20, 200, 25))
    window = effort.pick("1m", "10s")
    skews = _skews(effort, (0, 2, 4, 6, 8, 10))
    m1, m2 = data.link(seconds, rate_, flows, True, 81), data.link(seconds, rate_, flows, False, 82)
    c = data.link(seconds, 1, flows, False, 83)
    told = {
        name: [
            joined(
                (union(("M1",)), union(("M2", "C"))),
                [{"M1": Source(m1)}, {"M2": Source(m2), "C": Source(c, skew)}],
                window,
                seconds + skew,
            )
            for skew in skews
        ]
        for name, union in UNIONS.items()
    }
    paper = "memory of OOP grows more slowly with the delay than that of IOP, as M2's tuples are purged sooner"
    return _outcome("join with a late source", "delay of C, s", skews, told, paper)


def run_count_of_three(effort: Effort) -> Outcome:
    """A sliding count over three links, one of them with a row a second and late."""
    rate_, seconds = effort.pick((4000, 400), (50, 25))
    skews = _skews(effort, (0, 2, 4, 6, 8, 10))
    spec = sl.Spec("ts", {"w": sl.sliding("5m", every="1m")}, {"n": sl.count()}, watermark=sl.manual())
    m1, m2, c = (data.link(seconds, r, 1000, True, 90 + r % 7) for r in (rate_, rate_, 1))
    told = {
        name: [
            counted(
                union(("M1", "M2", "C")),
                {"M1": Source(m1), "M2": Source(m2), "C": Source(c, skew)},
                spec,
                seconds + skew,
            )
            for skew in skews
        ]
        for name, union in UNIONS.items()
    }
    paper = "IOP grows significantly with the delay of C, OOP is relatively stable: rows become aggregates at once"
    return _outcome("sliding count", "delay of C, s", skews, told, paper)


LI = "Li (2008), figure"
FIGURES = (
    Figure("li-8-7", f"{LI} 8-7", "The surge of results at the end of a window", run_surge),
    Figure("li-8-8", f"{LI} 8-8", "Memory of a count over a union of skewed links", run_count_of_union, timed=False),
    Figure("li-8-9", f"{LI} 8-9", "Memory of a tumbling join of skewed unions", run_join_of_unions, timed=False),
    Figure("li-8-10", f"{LI} 8-10", "Memory of a tumbling join with late rows", run_join_with_late_rows, timed=False),
    Figure("li-8-11", f"{LI} 8-11", "Memory of a sliding count over three links", run_count_of_three, timed=False),
)
