"""Scotty, figures 16 and 20: how long the end of a window takes, and what it costs to cut a slice in two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.streams import SECOND, START
from asv_benchmarks.papers import data, peers
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Measured, Outcome, Panel, short
from asv_benchmarks.papers.timing import check, seconds

# --- figure 16: output latency ---------------------------------------------------------------------------------------

WAYS = {  # the tree of the eager store keeps partials of a fixed size, which a median's are not
    "sum": ("recompute", "two stacks", "eager store"),
    "median": ("recompute", "two stacks", "auto"),
}
AGGS = {"sum": sl.sum("value"), "median": sl.median("value")}
TICK = 1000  # microseconds between slices


def rows_of(slices: int) -> pa.RecordBatch:
    """A row a slice."""
    ts = START + np.arange(slices, dtype=np.int64) * TICK
    return data.batch(ts, value=np.random.default_rng(2).random(slices))


def spec_of(aggregate: str, slices: int) -> sl.Spec:
    window = sl.sliding(f"{slices * TICK}us", every=f"{TICK}us")
    return sl.Spec("ts", {"w": window}, {"answer": AGGS[aggregate]}, watermark=sl.manual())


class Closing:
    """An operator about to close windows of so many slices, one with each ``advance``."""

    def __init__(self, aggregate: str, slices: int, more: int) -> None:
        self.rows, self.slices = rows_of(slices + more), slices
        self.spec = spec_of(aggregate, slices)
        operator = sl.Operator(self.spec)
        operator.push(self.rows)
        operator.advance(self.edge(-1))
        self.ready = operator.snapshot()

    def edge(self, number: int) -> object:
        """The end of a window: of the first whole one for 0."""
        return np.datetime64(START + (self.slices + number) * TICK, "us").item()

    def answers(self, way: str, count: int) -> tuple[list[float], list[float]]:
        """Seconds of ``count`` closings, each of one window, and the windows' answers."""
        operator = sl.Operator.restore(self.spec, self.ready, combine=way)
        spent, found = [], []
        for number in range(count):
            edge = self.edge(number)
            start = time.process_time()
            out = operator.advance(edge)
            spent.append(time.process_time() - start)
            found += out.windows["answer"].to_pylist()
        return spent, found


def by_numpy(aggregate: str, rows: pa.RecordBatch, slices: int, count: int) -> tuple[list[float], list[float]]:
    """The same slices in an array, and numpy over those of each window."""
    values = rows.column("value").to_numpy()
    reduce: Callable[[np.ndarray], float] = np.sum if aggregate == "sum" else np.median
    return _each(lambda number: float(reduce(values[number : number + slices])), count)


def by_duckdb(aggregate: str, rows: pa.RecordBatch, slices: int, count: int) -> tuple[list[float], list[float]]:
    connection = peers.connection(stream=pa.table(rows))

    def one(number: int) -> float:
        first = START + number * TICK
        found = connection.execute(
            f"SELECT {aggregate}(value) FROM stream WHERE ts >= ? AND ts < ?", [first, first + slices * TICK]
        )
        return found.fetchone()[0]

    return _each(one, count)


def _each(one: Callable[[int], float], count: int) -> tuple[list[float], list[float]]:
    spent, found = [], []
    for number in range(count):
        start = time.process_time()
        found.append(one(number))
        spent.append(time.process_time() - start)
    return spent, found


def closing_point(aggregate: str, slices: int, count: int) -> dict[str, Measured]:
    """Microseconds of each engine for the end of one window, once all answers agree."""
    closing = Closing(aggregate, slices, count + 1)
    found: dict[str, tuple[list[float], list[float]]] = {
        f"slicing, {way}": closing.answers(way, count) for way in WAYS[aggregate]
    }
    found["numpy over the slices"] = by_numpy(aggregate, closing.rows, slices, count)
    found["duckdb, one query a window"] = by_duckdb(aggregate, closing.rows, slices, count)
    check({name: [np.arange(count), np.array(answers)] for name, (_, answers) in found.items()})
    return {name: _settled(spent) for name, (spent, _) in found.items()}


def _settled(spent: list[float]) -> Measured:
    """Microseconds after the first closing, which may compile or build a tree: median, and the middle 80 %."""
    later = np.array(spent[1:] or spent) * 1e6
    return Measured.of(np.percentile(later, [10, 50, 90]).tolist())


def run_closing(effort: Effort) -> Outcome:
    panels = []
    slices = effort.pick((10, 100, 1000, 10_000, 100_000), (10, 100))
    counts = [effort.pick(20 if n >= 10_000 else 60, 5) for n in slices]
    for letter, aggregate in (("a", "sum"), ("c", "median")):
        points = [closing_point(aggregate, n, count) for n, count in zip(slices, counts, strict=True)]
        series = {name: [point[name] for point in points] for name in points[0]}
        title, x, y = f"{letter}: {aggregate}", "slices of a window", "µs from watermark to result"
        panels.append(Panel(title, x, y, slices, series))
    total, middle = panels
    n = total.at[-1]
    told = {way: short(total.of(f"slicing, {way}")[-1]) for way in WAYS["sum"]}
    findings = [
        Finding(
            "a: lazy slicing and tuple buffers take up to 1 ms for 10^5 entries",
            f"recompute {told['recompute']} µs, two stacks {told['two stacks']} µs at {n:,} slices; numpy "
            f"{short(total.of('numpy over the slices')[-1])} µs",
        ),
        Finding(
            "a: eager slicing and aggregate trees stay below 5 µs",
            f"a tree takes {told['eager store']} µs at {n:,} slices, "
            f"{short(total.of('slicing, eager store')[-1] / total.of('slicing, eager store')[0])} times as much as at "
            f"{total.at[0]}: most of it is the floor of one call of Python",
        ),
        Finding(
            "a: buckets below 30 ns, as their windows are worked out already",
            "no call of Python answers in 30 ns; the fastest engine here takes "
            f"{short(min(numbers[0] for numbers in total.series.values()))} µs for {total.at[0]} slices",
        ),
        Finding(
            "c: the median is dearer at the end of a window, with the same trends",
            f"{short(middle.of('slicing, auto')[-1])} µs at {n:,} slices, numpy "
            f"{short(middle.of('numpy over the slices')[-1])} µs; no tree is kept of sorted values",
        ),
    ]
    notes = ["Spread: 10th to 90th percentile of closings. Each `advance` closes one window of a row a slice."]
    return Outcome(panels, findings, notes)


# --- figure 20: splits -----------------------------------------------------------------------------------------------

RATE = 100_000
LATE = 2 * SECOND
SPLIT_AGGS = {"sum": sl.sum("value"), "median": sl.median("value")}


def marked(rows: int, size: int, delay: int) -> pa.RecordBatch:
    """A mark every ``size`` rows, which comes up to ``delay`` after its time; other rows are in order."""
    ts = streams.times(rows, RATE)
    mark = np.arange(rows) % size == 0
    order = np.arange(rows)
    if delay:
        comes = ts + np.where(mark, np.random.default_rng(5).integers(0, delay, rows), 0)
        order = np.argsort(comes, kind="stable")
    return data.batch(ts[order], value=streams.values(rows)[order], mark=mark[order])


def cut_at_marks(aggregate: str, rows: pa.RecordBatch) -> list[np.ndarray]:
    aggs = {"answer": SPLIT_AGGS[aggregate]}
    spec = sl.Spec("ts", {"w": sl.punctuation("mark")}, aggs, watermark=sl.bounded(f"{LATE}us"))
    operator = sl.Operator(spec)
    outs = [operator.push(batch).windows for batch in streams.cut(rows, 100_000)]
    found = pa.concat_tables([*(out for out in outs if out.num_rows), operator.flush().windows])
    return [found["window_start"].cast(pa.int64()).to_numpy(), found["answer"].to_numpy()]


def recompute(aggregate: str, rows: pa.RecordBatch, size: int) -> list[np.ndarray]:
    """Each window anew from its rows, in order: what a split does to a slice."""
    ts, values = rows.column("ts").cast(pa.int64()).to_numpy(), rows.column("value").to_numpy()
    reduce = np.sum if aggregate == "sum" else np.median
    firsts = range(0, ts.size, size)
    return [ts[::size], np.array([reduce(values[first : first + size]) for first in firsts])]


def split_point(aggregate: str, size: int, rows: int, runs: int) -> dict[str, Measured]:
    in_order, late = marked(rows, size, 0), marked(rows, size, LATE)
    works = {
        "slicing, marks late": lambda: cut_at_marks(aggregate, late),
        "slicing, marks in order": lambda: cut_at_marks(aggregate, in_order),
        "numpy, a window anew": lambda: recompute(aggregate, in_order, size),
    }
    check({name: work() for name, work in works.items()})
    return seconds(works, runs)


def run_splits(effort: Effort) -> Outcome:
    sizes: Iterable[int] = effort.pick((10, 100, 1000, 10_000, 100_000), (10, 100))
    rows = effort.pick(1_000_000, 4000)
    panels, last = [], {}
    for aggregate in SPLIT_AGGS:
        points = [split_point(aggregate, size, rows, effort.runs) for size in sizes]
        per_row = {n: [p[n].scaled(lambda s: s / rows * 1e9) for p in points] for n in points[0] if "slicing" in n}
        anew = "numpy, a window anew"
        split = [p[anew].scaled(lambda s, z=z: s * z / rows * 1e6) for p, z in zip(points, sizes, strict=True)]
        panels.append(Panel(f"{aggregate}, all rows", "rows of a slice", "ns a row", tuple(sizes), per_row))
        series = {"numpy, recomputing a slice": split}
        panels.append(Panel(f"{aggregate}, one split", "rows of a slice", "µs", tuple(sizes), series))
        last[aggregate] = per_row["slicing, marks late"], split
    told = "; ".join(
        f"{aggregate}: {short(min(ours))} to {short(max(ours))} ns a row whatever the size of a slice, where one split "
        f"by numpy grows from {short(split[0])} to {short(split[-1])} µs"
        for aggregate, (ours, split) in last.items()
    )
    late, in_order = (
        min(float(x) for x in panels[0].of(name)) for name in ("slicing, marks late", "slicing, marks in order")
    )
    findings = [
        Finding(
            "recomputing a slice that is split takes time linear in its rows, and more for the median than for the sum",
            told,
        ),
        Finding(
            "a system should watch the cost of splits and adjust the largest size of slices",
            "nothing is split: rows wait until the watermark has passed and are cut once; late marks make a row "
            f"of the sum {short(late - in_order)} ns dearer ({short(in_order)} in order)",
        ),
    ]
    return Outcome(panels, findings)


FIGURES = (
    Figure("scotty-16", "Scotty (TODS 2021), figures 16 a and c", "Output latency of aggregate stores", run_closing),
    Figure("scotty-20", "Scotty (TODS 2021), figure 20", "Recomputing slices that are split", run_splits),
)
