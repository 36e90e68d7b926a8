"""Li (2008), figure 6-19: groups of very different sizes, as slices, as a partial a window (eager), as rows (lazy).

All three are this library's kernels. What AdaptWID would hold at its best is computed from the rows: each group in
whichever form is smaller, with no thresholds and no transitions.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks.streams import SECOND, START
from asv_benchmarks.papers import data
from asv_benchmarks.papers.data import SHARES
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Measured, Outcome, Panel, Value, short
from asv_benchmarks.papers.timing import Answer, check
from slicing.query.policy import DEFAULT, Policy

WIDTHS = {
    "narrow": {"n": sl.count(), "total": sl.sum("len")},
    "wide": {
        "n": sl.count(),
        "total": sl.sum("len"),
        "low": sl.min("len"),
        "deviation": sl.std("len"),
        "most": sl.max("ttl"),
        "mean": sl.mean("ttl"),
        "spread": sl.std("ttl"),
    },
}
ROW = {"narrow": 24, "wide": 32}  # time, key and the columns that are asked for
EAGER, LAZY, IDEAL, ONE = "eager", "lazy", "AdaptWID, ideal", "slices, cells of one row as rows"
CELL, RATIO = "bytes of a cell of several rows", "slices / ideal"


@dataclass(frozen=True)
class Query:
    """Sliding windows of ``panes`` seconds by one second; Q6-7 has one pane, Q6-8 ten."""

    name: str
    panes: int

    def spec(self, width: str = "narrow", window: object = None) -> sl.Spec:
        chosen = window or sl.sliding(f"{self.panes}s", every="1s")
        watermark = sl.per_source("source", 0)
        return sl.Spec("ts", {"w": chosen}, WIDTHS[width], by=["key"], watermark=watermark)


Q7, Q8 = Query("Q6-7", 1), Query("Q6-8", 10)


class Stream:
    """A data set, a push a second: the control link's row at the beginning of each closes one edge of windows."""

    def __init__(self, name: str, query: Query, windows: int, rows_a_second: int) -> None:
        self.query, self.name = query, name
        rows = rows_a_second * query.panes
        whole = data.skewed(SHARES[name], windows, rows, query.panes * SECOND)
        whole = whole.append_column("ttl", whole.column("len"))
        self.second = (whole.column("ts").cast(pa.int64()).to_numpy() - START) // SECOND
        self.key = whole.column("key").to_numpy()
        edges = np.searchsorted(self.second, np.arange(windows * query.panes + 1))
        self.batches = [whole.slice(a, b - a) for a, b in pairwise(edges)]
        self.edges = edges

    def open_rows(self, push: int) -> tuple[np.ndarray, np.ndarray]:
        """After a push: keys and seconds of the rows that lie in windows that are still open."""
        first = self.edges[max(push - self.query.panes + 1, 0)]
        part = slice(first, self.edges[push + 1])
        return self.key[part], self.second[part]


# --- three ways and Polars, a push a second --------------------------------------------------------------------------


class Slices:
    def __init__(self, query: Query, width: str = "narrow", policy: Policy = DEFAULT) -> None:
        self.operators = [sl.Operator(query.spec(width), policy=policy)]

    def push(self, batch: pa.RecordBatch) -> list[pa.Table]:
        self.outs = [operator.push(batch) for operator in self.operators]
        return [out.windows for out in self.outs if out.windows.num_rows]

    def state(self) -> int:
        """Bytes of cells, without the table of keys, which all ways need."""
        return sum(out.stats.bytes for out in self.outs) - sum(map(_of_keys, self.operators))

    def bytes(self) -> int:
        """With one table of keys."""
        return self.state() + _of_keys(self.operators[0])


def _of_keys(operator: sl.Operator) -> int:
    keys = operator._now.keys
    return 0 if keys is None else keys.nbytes


class Eager(Slices):
    """A partial a window: as many operators as windows overlap, each with windows that do not."""

    def __init__(self, query: Query, width: str = "narrow") -> None:
        windows = [sl.tumbling(f"{query.panes}s", offset=f"{n}s") for n in range(query.panes)]
        self.operators = [sl.Operator(query.spec(width, window)) for window in windows]


class Lazy:
    """Rows are kept; all of a window's are read where it ends."""

    def __init__(self, query: Query, width: str = "narrow") -> None:
        self.query, self.width = query, width
        self.spec = query.spec(width, sl.whole())
        self.kept: deque[pa.RecordBatch] = deque(maxlen=query.panes)
        self.pushed = 0

    def push(self, batch: pa.RecordBatch) -> list[pa.Table]:
        found = []
        if self.kept:
            given = sl.aggregate(pa.Table.from_batches(self.kept), self.spec, threads=1)
            start = START + (self.pushed - self.query.panes) * SECOND
            found = [given.set_column(1, "window_start", pa.array(np.full(given.num_rows, start), pa.timestamp("us")))]
        self.kept.append(batch)
        self.pushed += 1
        return found

    def bytes(self) -> int:
        return sum(batch.num_rows for batch in self.kept) * ROW[self.width]


class Polars:
    """The best plan that we know: panes are grouped once, and windows from panes."""

    def __init__(self, query: Query) -> None:
        self.query, self.pushed = query, 0
        self.panes: deque[pl.DataFrame] = deque(maxlen=query.panes)

    def push(self, batch: pa.RecordBatch) -> list[pl.DataFrame]:
        found = []
        if self.panes:
            start = START + (self.pushed - self.query.panes) * SECOND
            whole = pl.concat(self.panes).group_by("key").agg(pl.col("n", "total").sum())
            found = [whole.with_columns(pl.lit(start).alias("window_start"))]
        frame = pl.from_arrow(batch)
        self.panes.append(frame.group_by("key").agg(pl.len().alias("n"), pl.col("len").sum().alias("total")))
        self.pushed += 1
        return found


WAYS: dict[str, Callable[[Query], Slices | Lazy | Polars]] = {
    "slices": Slices,
    EAGER: Eager,
    LAZY: Lazy,
    "polars, panes": Polars,
}


@dataclass(frozen=True)
class Told:
    seconds: list[float]  # of each push
    bytes: int  # at most, after a push
    windows: list[object]

    def answer(self) -> Answer:
        columns = []
        for name in ("window_start", "key", "n", "total"):
            parts = [table[name] for table in self.windows]
            arrays = [p.cast(pa.int64()).to_numpy() if isinstance(p, pa.ChunkedArray) else p.to_numpy() for p in parts]
            columns.append(np.concatenate(arrays).astype(np.int64))
        return columns


def fed(way: Slices | Lazy | Polars, batches: Sequence[pa.RecordBatch]) -> Told:
    spent, most, windows = [], 0, []
    for batch in batches:
        start = time.process_time()
        found = way.push(batch)
        spent.append(time.process_time() - start)
        windows += found
        most = max(most, 0 if isinstance(way, Polars) else way.bytes())
    return Told(spent, most, windows)


def compared(stream: Stream, runs: int) -> dict[str, tuple[Measured, Measured, int]]:
    """By way: milliseconds of a closing push, seconds in all, most bytes. Answers agree."""
    query, settled = stream.query, slice(stream.query.panes, None)
    told: dict[str, list[Told]] = {name: [] for name in WAYS}
    for _ in range(runs):
        for name, way in WAYS.items():
            told[name].append(fed(way(query), stream.batches))
    check({name: each[0].answer() for name, each in told.items()})
    return {
        name: (
            Measured.of([1e3 * statistics.median(one.seconds[settled]) for one in each]),
            Measured.of([sum(one.seconds) for one in each]),
            each[0].bytes,
        )
        for name, each in told.items()
    }


# --- what a group takes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Computed for one moment: by group its rows, cells of one row, other cells, and partials of open windows."""

    rows: np.ndarray
    singles: np.ndarray
    cells: np.ndarray
    partials: np.ndarray

    @classmethod
    def after(cls, stream: Stream, push: int) -> Held:
        key, second = stream.open_rows(push)
        _, group = np.unique(key, return_inverse=True)
        groups = int(group.max()) + 1
        cell, rows = np.unique(group * (len(stream.batches) + 1) + second, return_counts=True)
        of, latest = cell // (len(stream.batches) + 1), np.zeros(groups, np.int64)
        np.maximum.at(latest, group, second)
        oldest = push - stream.query.panes + 1  # the first second at which an open window starts
        return cls(
            np.bincount(group, minlength=groups),
            np.bincount(of[rows == 1], minlength=groups),
            np.bincount(of, minlength=groups),
            latest - oldest + 1,
        )

    def bytes(self, partial: float, row: int) -> dict[str, float]:
        """Of all groups, by form; AdaptWID has the lesser of eager and lazy for each group."""
        eager, lazy = self.partials * partial, self.rows * row
        return {
            "slices": float(self.cells.sum() * partial),
            EAGER: float(eager.sum()),
            LAZY: float(lazy.sum()),
            IDEAL: float(np.minimum(eager, lazy).sum()),
            ONE: float((self.singles * row + (self.cells - self.singles) * partial).sum()),
        }


def most_held(stream: Stream, partial: float, row: int) -> tuple[dict[str, float], int]:
    """The most bytes of each form after any push, and of how many groups at most."""
    found: dict[str, float] = {}
    groups = 0
    for push in range(stream.query.panes - 1, len(stream.batches)):
        held = Held.after(stream, push)
        groups = max(groups, held.rows.size)
        for name, size in held.bytes(partial, row).items():
            found[name] = max(found.get(name, 0.0), size)
    return found, groups


def a_cell(query: Query, width: str) -> float:
    """Bytes of a cell of several rows as it is worked on, not packed, without the table of keys."""
    key = np.tile(np.arange(2000), 4)
    rows = data.batch(np.full(key.size, START), key=key, len=key, source=np.zeros(key.size, np.int8), ttl=key)
    way = Slices(query, width, Policy(packed_cells=1 << 60))
    way.push(rows)
    return way.state() / way.outs[0].stats.cells


def most_state(stream: Stream, width: str) -> int:
    """The most bytes of state after any push, without the table of keys."""
    way, most = Slices(stream.query, width), 0
    for batch in stream.batches:
        way.push(batch)
        most = max(most, way.state())
    return most


def state_point(stream: Stream, width: str) -> dict[str, Value]:
    """Bytes of state alone, a group: what the operator has, and what each form would have with its cells."""
    partial, measured = a_cell(stream.query, width), most_state(stream, width)
    found, groups = most_held(stream, partial, ROW[width])
    told = {"slices, measured": measured / groups, **{name: size / groups for name, size in found.items()}}
    return told | {CELL: partial, RATIO: measured / found[IDEAL]}


def _sets(effort: Effort) -> Sequence[str]:
    return effort.pick(tuple(SHARES), ("DS1", "DS5"))


def _streams(effort: Effort, query: Query) -> Iterator[Stream]:
    windows = effort.pick({Q7: 40, Q8: 4}, {Q7: 4, Q8: 2})[query]
    for name in _sets(effort):
        yield Stream(name, query, windows, effort.pick(8000, 200))


def run(effort: Effort) -> Outcome:
    panels, states, notes = [], {}, []
    for query in (Q7, Q8):
        each = list(_streams(effort, query))
        told = [compared(stream, effort.runs) for stream in each]
        for place, (title, y) in enumerate(
            (("closing push", "ms"), ("all pushes", "s"), ("most bytes, keys included", "bytes"))
        ):
            names = [name for name in WAYS if place < 2 or name != "polars, panes"]
            series = {name: [point[name][place] for point in told] for name in names}
            panels.append(Panel(f"{query.name}, {title}", "data set", y, _sets(effort), series))
        for width in WIDTHS:
            points = [state_point(stream, width) for stream in each]
            states[query, width] = points
            series = {name: [point[name] for point in points] for name in points[0] if name not in (CELL, RATIO)}
            title = f"{query.name}, state a group, {width} partials"
            panels.append(Panel(title, "data set", "bytes", _sets(effort), series))
            notes.append(f"{query.name}, {width}: a cell of several rows takes {short(points[0][CELL])} bytes.")
        ratios = {f"{width} partials": [point[RATIO] for point in states[query, width]] for width in WIDTHS}
        title = f"{query.name}, slices / ideal AdaptWID"
        panels.append(Panel(title, "data set", "times the bytes", _sets(effort), ratios, log_y=False))
    return Outcome(panels, _findings(panels, states), notes)


def _findings(panels: Sequence[Panel], states: dict[tuple[Query, str], list[dict[str, Value]]]) -> list[Finding]:
    by_title = {panel.title: panel for panel in panels}

    def ratio(what: str, other: str) -> str:
        panel = by_title[f"Q6-8, {what}"]
        found = [float(b) / float(a) for a, b in zip(panel.of("slices"), panel.of(other), strict=True)]
        return f"{short(min(found))} to {short(max(found))}"

    ideal = "; ".join(
        f"{width} partials: slices hold {short(points[0][RATIO])} (DS1) to "
        f"{short(points[-1][RATIO])} (DS5) times the ideal AdaptWID, "
        f"{short(points[-1][ONE] / points[-1][IDEAL])} at DS5 if cells of one row were rows"
        for (query, width), points in states.items()
        if query is Q8
    )
    return [
        Finding(
            "AdaptWID takes less memory than eager aggregation, the more so the more small groups there are",
            f"eager holds {ratio('most bytes, keys included', EAGER)} times the bytes of slices, lazy "
            f"{ratio('most bytes, keys included', LAZY)} times (its rows alone, without keys)",
        ),
        Finding(
            "AdaptWID is faster than eager and lazy, in latency and in all",
            f"a closing push of slices: eager takes {ratio('closing push', EAGER)} times as long, lazy "
            f"{ratio('closing push', LAZY)}, Polars by panes {ratio('closing push', 'polars, panes')}",
        ),
        Finding("AdaptWID keeps each group in the form that is smaller", ideal),
    ]


FIGURES = (Figure("li-19", "Li (2008), figure 6-19", "Groups of very different sizes: slices, eager, lazy", run),)
