"""Scotty, figure 15: what a stream out of order costs in memory, by slices and by rows within the allowed lateness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.papers import data, peers
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Outcome, Panel, Value, short

LATENESS = 100 * SECOND
CONCURRENT = 10  # windows over each row
AGGS = {"total": sl.sum("value")}
ROW = 16  # bytes of a row: its time and its value
BUFFER, BUCKETS = "rows themselves (tuple buffer), computed", "a partial a window (buckets), computed"
OURS, FRAME = "slicing", "a Polars frame of the rows"


def rows_within(rows: int) -> pa.RecordBatch:
    """Rows that all lie within the allowed lateness, a fifth of them up to 2 s late."""
    step = LATENESS // rows
    ts = 1000 * SECOND + np.arange(rows, dtype=np.int64) * step
    return data.late(data.batch(ts, value=np.random.default_rng(1).random(rows)))


def by_time(slices: int) -> sl.Spec:
    every = max(LATENESS // slices, 1)
    return sl.Spec("ts", {"w": sl.sliding(f"{CONCURRENT * every}us", every=f"{every}us")}, AGGS, watermark=_waits())


def by_count(slices: int, rows: int) -> sl.Spec:
    """Windows of so many rows that slide by a tenth of them, ``slices`` of which cut the rows."""
    every = max(rows // slices, 1)
    return sl.Spec("ts", {"w": sl.rows(CONCURRENT * every, every=every)}, AGGS, watermark=_waits())


def _waits() -> sl.bounded:
    return sl.bounded(f"{4 * LATENESS}us")


def held(spec: sl.Spec, rows: pa.RecordBatch) -> int:
    """Bytes of all state once the rows are pushed."""
    return sl.Operator(spec).push(rows).stats.bytes


def _panes(rows: pa.RecordBatch, slices: int) -> np.ndarray:
    """The slices that hold rows."""
    return np.unique(rows.column("ts").cast(pa.int64()).to_numpy() // max(LATENESS // slices, 1))


def windows_with_rows(rows: pa.RecordBatch, slices: int) -> int:
    return np.unique(_panes(rows, slices)[:, None] - np.arange(CONCURRENT)).size


def time_point(slices: int, rows: int) -> dict[str, Value]:
    given = rows_within(rows)
    out = sl.Operator(by_time(slices)).push(given)
    partial = out.stats.bytes / out.stats.cells
    buckets = windows_with_rows(given, slices) * partial
    return {OURS: out.stats.bytes, **_of_rows(given), BUCKETS: buckets}


def count_point(slices: int, rows: int) -> dict[str, Value]:
    """Buckets of windows that overlap hold each row once for each window that it is in."""
    given = rows_within(rows)
    return {OURS: held(by_count(slices, rows), given), **_of_rows(given), BUCKETS: CONCURRENT * rows * ROW}


def _of_rows(given: pa.RecordBatch) -> dict[str, Value]:
    return {BUFFER: given.num_rows * ROW, FRAME: peers.frame(given).estimated_size()}


def _panel(title: str, x: str, points: Mapping[int, Mapping[str, Value]]) -> Panel:
    names = list(next(iter(points.values())))
    return Panel(title, x, "bytes", tuple(points), {n: [point[n] for point in points.values()] for n in names})


def run(effort: Effort) -> Outcome:
    slices: Iterable[int] = effort.pick((1, 10, 100, 1000, 10_000, 100_000), (1, 10, 100))
    rows: Iterable[int] = effort.pick((10, 100, 1000, 10_000, 100_000, 1_000_000), (100, 1000, 10_000))
    many, some = effort.pick((50_000, 500), (2000, 50))
    counted = [s for s in slices if s * CONCURRENT <= many]
    panels = [
        _panel(f"a: time windows, {many:,} rows", "slices", {s: time_point(s, many) for s in slices}),
        _panel(f"b: time windows, {some} slices", "rows", {r: time_point(some, r) for r in rows}),
        _panel(f"c: count windows, {many:,} rows", "slices", {s: count_point(s, many) for s in counted}),
        _panel(f"d: count windows, {some} slices", "rows", {r: count_point(some, r) for r in rows}),
    ]
    a, b, _, d = panels
    held_a, held_b, held_d = a.of(OURS), b.of(OURS), d.of(OURS)
    enough = next(place for place, r in enumerate(b.at) if r >= 2 * some)
    filled = [_panes(rows_within(many), s).size for s in slices]
    per_slice = ", ".join(f"{short(b / n)} of {n:,}" for b, n in zip(held_a, filled, strict=True) if n >= 10)
    findings = [
        Finding(
            "a: slicing and buckets grow linearly with slices, rows do not matter",
            f"bytes a slice that holds rows: {per_slice}; at {a.at[-1]:,} slices buckets take "
            f"{short(a.of(BUCKETS)[-1] / held_a[-1])} times ours",
        ),
        Finding(
            "b: almost constant memory, whatever the rows",
            f"{short(held_b[-1] / held_b[enough])} times from {b.at[enough]:,} to {b.at[-1]:,} rows",
        ),
        Finding(
            "c, d: rows have to be kept for count windows; from 1000 rows on they dominate and all curves are parallel",
            f"{short(held_d[-1] / d.at[-1])} bytes a row at {d.at[-1]:,} rows, {short(held_d[-2] / d.at[-2])} at "
            f"{d.at[-2]:,}; a Polars frame {short(d.of(FRAME)[-1] / d.at[-1])}",
        ),
    ]
    return Outcome(panels, findings)


FIGURES = (
    Figure("scotty-15", "Scotty (TODS 2021), figure 15", "Memory of time windows and count windows", run, timed=False),
)
