"""Li (2008), figures 6-10 and 6-15: windows without buffering their rows, and what panes save."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

import slicing as sl
from asv_benchmarks.benchmarks import measuring, streams
from asv_benchmarks.papers import data, peers
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Outcome, Panel, Value, short
from asv_benchmarks.papers.timing import Answer, Sweep, check, seconds

# --- figure 6-10: a window of 4000 rows ------------------------------------------------------------------------------


def in_order(rows: int) -> pa.RecordBatch:
    return data.batch(streams.times(rows, 1000), value=streams.values(rows))


def counted(size: int, every: int, batches: list[pa.RecordBatch]) -> Answer:
    """The largest of ``size`` rows, every so many rows; the last of them tells which."""
    spec = sl.Spec("ts", {"w": sl.rows(size, every=every)}, {"high": sl.max("value")}, watermark=sl.ordered())
    operator = sl.Operator(spec)
    outs = [operator.push(batch).windows for batch in batches]
    found = pa.concat_tables([*(out for out in outs if out.num_rows), operator.flush().windows])
    return [found["rank_start"].to_numpy(), found["high"].to_numpy()]


def buffered(values: np.ndarray, size: int, every: int) -> Answer:
    """All rows of each window are kept, and read again."""
    found = np.lib.stride_tricks.sliding_window_view(values, size)[::every].max(axis=1)
    return [np.arange(found.size) * every, found]


def rolling(frame: pl.DataFrame, size: int, every: int) -> Answer:
    found = frame.select(pl.col("value").rolling_max(size).slice(size - 1).gather_every(every)).to_series().to_numpy()
    return [np.arange(found.size) * every, found]


def counted_works(rows: pa.RecordBatch, size: int, every: int) -> dict[str, Callable[[], Answer]]:
    batches, frame = streams.cut(rows, 100_000), peers.frame(rows)
    values = rows.column("value").to_numpy()
    return {
        "slicing": lambda: counted(size, every, batches),
        "numpy, buffering": lambda: buffered(values, size, every),
        "polars rolling_max": lambda: rolling(frame, size, every),
    }


def run_counted(effort: Effort) -> Outcome:
    rows, size = in_order(effort.pick(200_000, 3000)), effort.pick(4000, 200)
    sweep = Sweep(effort)
    ts, values = measuring.columns(rows)
    for every in effort.pick((1, 10, 100, 400, 1000, 2000, 4000), (1, 50, 200)):
        sweep.point(every, counted_works(rows, size, every), lambda s: s * 1e3)
    measuring.read(ts, values)  # compiled
    read = seconds({"read": lambda: measuring.read(ts, values)}, effort.runs)["read"].scaled(lambda s: s * 1e3)
    sweep.series["plain read of the rows"] = [read] * len(sweep.at)
    panel = sweep.panel(f"max over {size} rows", "slide, rows", "ms in all")
    ours, theirs = panel.of("slicing"), panel.of("numpy, buffering")
    findings = [
        Finding(
            "WID takes less time than buffering, the more so the larger RANGE is against SLIDE",
            f"{short(theirs[0] / ours[0])} times as fast as buffering at a slide of {panel.at[0]}, "
            f"{short(theirs[-1] / ours[-1])} times at {panel.at[-1]}",
        ),
        Finding(
            "WID still grows with RANGE/SLIDE, as each row goes into so many windows",
            f"{short(ours[0])} ms at a slide of {panel.at[0]} and {short(ours[1])} at {panel.at[1]}: a row is in one "
            f"slice, and what is left to grow is the number of results; a plain read takes {short(read)} ms",
        ),
    ]
    return Outcome([panel], findings, [f"{rows.num_rows:,} rows.", *sweep.notes])


# --- figure 6-15: panes ----------------------------------------------------------------------------------------------


@njit(nogil=True)
def into_each_window(ts, value, pane, panes, first, high):
    """WID without panes: a row into each window that it is in."""
    for row in range(ts.size):
        last = ts[row] // pane - first
        for window in range(max(last - panes + 1, 0), last + 1):
            high[window] = max(high[window], value[row])


@njit(nogil=True)
def into_panes(ts, value, pane, panes, first, part, high):
    """WID with panes: a row into its pane, a pane into each window that it is in."""
    for row in range(ts.size):
        place = ts[row] // pane - first
        part[place] = max(part[place], value[row])
    for window in range(high.size):
        for place in range(window, min(window + panes, part.size)):
            high[window] = max(high[window], part[place])


class Panes:
    """A stream of so many rows a pane and panes a window; times are row numbers."""

    def __init__(self, rows: int, per_pane: int, panes: int) -> None:
        ts, self.value = np.arange(rows, dtype=np.int64) + per_pane * panes, streams.values(rows)
        self.pane, self.panes, self.ts = per_pane, panes, ts
        self.first = int(ts[0]) // per_pane - panes + 1
        self.count = int(ts[-1]) // per_pane - self.first + 1
        self.table = pa.table({"ts": ts, "value": self.value})
        self.duckdb = peers.connection(stream=self.table)
        self.spec = sl.Spec(
            "ts", {"w": sl.sliding(per_pane * panes, every=per_pane)}, {"high": sl.max("value")}, watermark=sl.ordered()
        )

    def works(self) -> dict[str, Callable[[], Answer]]:
        return {
            "slicing": self.ours,
            "loops, panes": self.loop_panes,
            "loops, each window": self.loop_windows,
            "duckdb, panes": self.duckdb_panes,
            "duckdb, each window": self.duckdb_windows,
            "numpy, panes": self.numpy_panes,
            "numpy, each window": self.numpy_windows,
        }

    def ours(self) -> Answer:
        found = sl.aggregate(self.table, self.spec, threads=1)
        return [found["window_start"].to_numpy(), found["high"].to_numpy()]

    def _answer(self, high: np.ndarray) -> Answer:
        return [(self.first + np.arange(high.size)) * self.pane, high]

    def loop_windows(self) -> Answer:
        high = np.full(self.count, -np.inf)
        into_each_window(self.ts, self.value, self.pane, self.panes, self.first, high)
        return self._answer(high)

    def loop_panes(self) -> Answer:
        part, high = np.full(self.count, -np.inf), np.full(self.count, -np.inf)
        into_panes(self.ts, self.value, self.pane, self.panes, self.first, part, high)
        return self._answer(high)

    def duckdb_windows(self) -> Answer:
        return self._sql(f"""
            SELECT pane * {self.pane} AS start, max(value) AS high FROM (
                SELECT unnest(range(ts // {self.pane} - {self.panes - 1}, ts // {self.pane} + 1)) AS pane, value
                FROM stream) GROUP BY 1""")

    def duckdb_panes(self) -> Answer:
        return self._sql(f"""
            WITH panes AS (SELECT ts // {self.pane} AS pane, max(value) AS high FROM stream GROUP BY 1)
            SELECT start * {self.pane} AS start, max(high) AS high FROM (
                SELECT unnest(range(pane - {self.panes - 1}, pane + 1)) AS start, high FROM panes) GROUP BY 1""")

    def _sql(self, query: str) -> Answer:
        found = self.duckdb.sql(query).fetchnumpy()
        return [found["start"], found["high"]]

    def numpy_windows(self) -> Answer:
        high = np.full(self.count, -np.inf)
        last = self.ts // self.pane - self.first
        for back in range(self.panes):
            np.maximum.at(high, last - back, self.value)
        return self._answer(high)

    def numpy_panes(self) -> Answer:
        """Panes lie one behind the other, none of them empty."""
        part = np.full(self.count + self.panes - 1, -np.inf)
        place = self.ts // self.pane - self.first
        firsts = np.flatnonzero(np.diff(place, prepend=-1))
        part[place[firsts]] = np.maximum.reduceat(self.value, firsts)
        return self._answer(np.lib.stride_tricks.sliding_window_view(part, self.panes).max(axis=1))


def pane_point(rows: int, per_pane: int, panes: int, runs: int) -> dict[str, float]:
    """Milliseconds by engine, once answers agree."""
    works = Panes(rows, per_pane, panes).works()
    check({name: work() for name, work in works.items()})
    return {name: spent.scaled(lambda s: s * 1e3) for name, spent in seconds(works, runs).items()}


def run_panes(effort: Effort) -> Outcome:
    rows = effort.pick(200_000, 2000)
    per_pane = effort.pick((1, 5, 20, 100), (1, 20))
    counts = effort.pick((1, 2, 5, 10, 20, 40), (1, 5))
    points = {(p, n): pane_point(rows, p, n, effort.runs) for p in per_pane for n in counts}
    pairs = {
        "slicing against loops, each window": ("slicing", "loops, each window"),
        "loops": ("loops, panes", "loops, each window"),
        "duckdb": ("duckdb, panes", "duckdb, each window"),
        "numpy": ("numpy, panes", "numpy, each window"),
        "slicing against duckdb, each window": ("slicing", "duckdb, each window"),
    }
    panels = []
    for p in per_pane:
        series: dict[str, list[Value]] = {
            title: [points[p, n][one] / points[p, n][other] for n in counts] for title, (one, other) in pairs.items()
        }
        panels.append(Panel(f"{p} rows a pane", "panes a window", "time with panes / without", counts, series))
    at = (20, 5)
    told = {title: short(points[at][one] / points[at][other]) for title, (one, other) in pairs.items()}
    each = points[at]
    findings = [
        Finding(
            "20 rows a pane, 5 panes a window: panes take about 0.3 of the time",
            f"the same loops with panes {told['loops']}, DuckDB {told['duckdb']}, numpy {told['numpy']}; slicing takes "
            f"{told['slicing against duckdb, each window']} of DuckDB's time without panes and "
            f"{told['slicing against loops, each window']} of a bare loop's ({short(each['slicing'])} and "
            f"{short(each['loops, each window'])} ms for {rows:,} rows)",
        ),
        Finding(
            "panes are better in many cases, not with few panes a window or few rows a pane",
            "loops: "
            + "; ".join(f"{panel.title} below 1 from {_first_below(panel, 'loops')} panes on" for panel in panels),
        ),
    ]
    return Outcome(panels, findings)


def _first_below(panel: Panel, name: str) -> object:
    return next((at for at, ratio in zip(panel.at, panel.of(name), strict=True) if ratio < 1), "no number of")


FIGURES = (
    Figure("li-10", "Li (2008), figure 6-10", "Sliding max over 4000 rows: WID against buffering", run_counted),
    Figure("li-15", "Li (2008), figure 6-15", "What panes save", run_panes),
)
