"""``slicing demo``: a stream of sensor readings, four kinds of windows at once, and their cost."""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import slicing as sl
from slicing.system.arrays import Floats, Ints, Mask

SECOND = 1_000_000  # the time column counts microseconds
START = 1_767_254_400 * SECOND  # 2026-01-01 08:00 UTC
LENGTH, DISORDER, GAP = 7200 * SECOND, 5 * SECOND, 60 * SECOND

SPEC = sl.Spec(
    time="ts",
    by=["sensor"],
    windows={
        "minute": sl.tumbling("1m"),
        "5min": sl.sliding("5m", every="1m"),
        "so far": sl.cumulate("30m", every="10m"),
        "visit": sl.session("1m"),
    },
    aggs={"n": sl.count(), "mean": sl.mean("value"), "max": sl.max("value")},
    watermark=sl.bounded("5s"),
)


class Stream(NamedTuple):
    table: pa.Table
    ts: Ints
    sensor: Ints
    value: Floats
    straggles: Mask


def sample_stream(rows: int, keys: int, seed: int) -> Stream:
    """Two hours of readings in order of arrival: up to 5 s out of order, one in 10,000 late by up to 90 minutes.

    Sensors wake and sleep in turns of four minutes, so that the readings of each sensor form visits.
    """
    rng = np.random.default_rng(seed)
    arrival = START + DISORDER + np.arange(rows) * (LENGTH / max(rows, 1))
    held_up = rng.uniform(600, 5400, rows) * SECOND
    straggles = (rng.random(rows) < 1 / 10_000) & (arrival - held_up >= START)
    delay = np.where(straggles, held_up, np.minimum(rng.exponential(SECOND, rows), DISORDER))
    turn = (np.arange(rows) * 30 // max(rows, 1)).astype(np.int64)
    awake = rng.permuted(np.tile(np.arange(keys), (30, 1)), axis=1)[:, : (keys + 1) // 2]
    sensor = awake[turn, rng.integers(0, awake.shape[1], rows)]
    value = rng.normal(20, 4, rows).round(2)
    ts = (arrival - delay).astype(np.int64)
    names = pa.array([f"s{k:04}" for k in range(keys)])
    columns = {"ts": pa.array(ts, pa.timestamp("us")), "sensor": names.take(pa.array(sensor)), "value": value}
    return Stream(pa.table(columns), ts, sensor, value, straggles)


def shown(window: dict[str, Any]) -> str:
    start, end = (f"{window[name]:%H:%M:%S}" for name in ("window_start", "window_end"))
    text = f"{window['window']:<7} [{start}, {end})  {window['sensor']}"
    return f"{text}  n={window['n']:<5} mean={window['mean']:6.2f}  max={window['max']:6.2f}"


def run(stream: Stream, batch: int, loud: bool) -> tuple[pa.Table, list[dict[str, Any]], dict[str, int], float]:
    """Push batch by batch; returns all windows, a few late rows, the accounting, and the operator's seconds."""
    operator, spent = sl.Operator(SPEC), 0.0
    pushes = -(-stream.table.num_rows // batch)
    windows: list[pa.Table] = []
    late: list[dict[str, Any]] = []
    total = dict.fromkeys(("rows", "windowed", "late", "outside", "null_time"), 0)
    for k in range(pushes + 1):
        began = time.perf_counter()
        out = operator.push(stream.table.slice(k * batch, batch)) if k < pushes else operator.flush()
        spent += time.perf_counter() - began
        windows.append(out.windows)
        late += out.late.slice(0, 1).to_pylist() if out.stats.late else []
        total = {name: count + out.stats[name] for name, count in total.items()}
        if loud and (k == pushes or k % -(-pushes // 10) == 0):
            report(f"push {k + 1} of {pushes}" if k < pushes else "flush", out)
    return pa.concat_tables(windows), late, total, spent


def report(step: str, out: sl.Output) -> None:
    """Print a progress line, one window of each kind, and how many more there are."""
    stats = out.stats
    held = f"{stats.slices} slices, {stats.cells:,} cells, {stats.bytes / 1e3:,.0f} kB"
    print(f"{step}: {stats.rows:,} rows, {stats.late} late; watermark {out.watermark:%H:%M:%S}; holds {held}")
    print(f"  {stats.windows:,} windows closed")
    places = [out.windows["window"].index(name).as_py() for name in SPEC.windows]
    examples = [place for place in places if place >= 0]
    for place in examples:
        print(f"    {shown(out.windows.slice(place, 1).to_pylist()[0])}")
    if stats.windows > len(examples):
        print(f"    and {stats.windows - len(examples):,} more")


def expected(window: dict[str, Any], stream: Stream, watermark: Ints) -> Floats:
    """The values of a window's rows by definition: a mask over all rows, no slices."""
    start, end = (int(np.datetime64(window[name], "us").astype(np.int64)) for name in ("window_start", "window_end"))
    own = stream.sensor == int(window["sensor"][1:])
    if window["window"] != "visit":
        in_time = end > watermark
        return stream.value[own & in_time & (start <= stream.ts) & (stream.ts < end)]
    own = np.flatnonzero(own & (stream.ts + GAP > watermark))
    own = own[np.argsort(stream.ts[own], kind="stable")]
    first = int(np.searchsorted(stream.ts[own], start))
    breaks = np.flatnonzero(np.diff(stream.ts[own[first:]]) > GAP)
    visit = own[first : first + int(breaks[0]) + 1] if breaks.size else own[first:]
    return stream.value[visit] if visit.size and stream.ts[visit[-1]] + GAP == end else np.empty(0)


def verify(windows: pa.Table, stream: Stream, batch: int, seed: int) -> tuple[int, int]:
    """Compare up to three windows of each kind; returns how many were right, and of how many."""
    reached = np.maximum.accumulate(stream.ts) - DISORDER
    batch_first = np.arange(stream.ts.size) // batch * batch
    watermark = np.where(batch_first > 0, reached[batch_first - 1], np.iinfo(np.int64).min)
    # a straggler may be next to an emitted visit; which visit it joins is then no plain arithmetic
    plain = ~np.isin(np.arange(int(stream.sensor.max()) + 1), stream.sensor[stream.straggles])
    rng, right, checked = np.random.default_rng(seed), 0, 0
    kinds = windows["window"].to_numpy()
    sensors = np.array([int(s[1:]) for s in windows["sensor"].to_pylist()])
    for name in SPEC.windows:
        candidates = np.flatnonzero((kinds == name) & (plain[sensors] | (name != "visit")))
        for row in rng.choice(candidates, min(3, candidates.size), replace=False):
            window = windows.slice(int(row), 1).to_pylist()[0]
            values = expected(window, stream, watermark)
            same = values.size == window["n"] and values.max() == window["max"]
            same = same and bool(np.isclose(values.mean(), window["mean"]))
            print(f"  {'same ' if same else 'WRONG'} {shown(window)}")
            right, checked = right + same, checked + 1
    return right, checked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=2_000_000, help="readings in the stream (default: 2,000,000)")
    parser.add_argument("--keys", type=positive, default=200, help="sensors (default: 200)")
    parser.add_argument("--batch", type=positive, default=100_000, help="rows a push (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample stream (default: 1)")
    parser.add_argument("--quiet", action="store_true", help="the summary only")


def show(options: argparse.Namespace) -> int:
    stream = sample_stream(options.rows, options.keys, options.seed)
    print(f"{options.rows:,} readings of {options.keys:,} sensors in two hours, up to 5 s out of order")
    for name, window in SPEC.windows.items():
        print(f"  {name:<7} {window!r}")
    began = time.perf_counter()
    run(Stream(stream.table.slice(0, 4 * options.batch), *stream[1:]), options.batch, loud=False)
    warm_up = time.perf_counter() - began
    windows, late, total, spent = run(stream, options.batch, loud=not options.quiet)

    print(f"\nlate for every window: {total['late']:,} rows")
    for row in late[:3]:
        print(f"  {row['ts']:%H:%M:%S}  {row['sensor']}  value={row['value']:.2f}  reason={row['reason']}")
    print("checked against plain numpy over all rows:")
    right, checked = verify(windows, stream, options.batch, options.seed)
    adds_up = total["rows"] == options.rows == sum(count for name, count in total.items() if name != "rows")
    parts = " + ".join(f"{total[name]:,} {name}" for name in ("windowed", "late", "outside", "null_time"))
    print(f"  {right} of {checked} windows the same")
    print(f"accounting: {total['rows']:,} rows = {parts}: {'adds up' if adds_up else 'DOES NOT ADD UP'}")
    print(f"throughput: {options.rows / spent:,.0f} rows/s ({windows.num_rows:,} windows in {spent:.2f} s)")
    print(f"            before that, {warm_up:.1f} s to compile the kernels, or load them, and try them on four pushes")
    return 0 if adds_up and right == checked else 1


def positive(text: str) -> int:
    digits = text.replace(",", "").replace("_", "")
    number = int(digits) if digits.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text}")
    return number
