"""Scotty, figures 19, 21 and 22: medians of many windows at once, measures of windows, operators side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.papers import data, peers
from asv_benchmarks.papers.figure import Effort, Figure, Finding, Outcome, Panel, short
from asv_benchmarks.papers.timing import Answer, Sweep, check

LATE = sl.bounded("2s")


def lengths(windows: int) -> list[int]:
    """Lengths of concurrent tumbling windows, in ms: equally distributed from 1 to 20 s."""
    return np.unique(np.linspace(1000, 20_000, windows).astype(np.int64)).tolist()


# --- ours ------------------------------------------------------------------------------------------------------------


def pushed(spec: sl.Spec, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    operator = sl.Operator(spec)
    outs = [operator.push(batch).windows for batch in batches]
    return pa.concat_tables([*(out for out in outs if out.num_rows), operator.flush().windows])


def answer(table: pa.Table, *aggs: str) -> Answer:
    """The number of a window's name, where it starts, and its aggregates."""
    number = table["window"].combine_chunks().dictionary_encode()
    names = np.array([int(name[1:]) for name in number.dictionary.to_pylist()])
    start = table["window_start"].cast(pa.int64()).to_numpy()
    return [names[number.indices.to_numpy()], start, *(table[agg].to_numpy() for agg in aggs)]


# --- figure 19: holistic aggregates ----------------------------------------------------------------------------------

HOLISTIC = {"median": sl.median("value"), "quantile 0.9": sl.quantile("value", 0.9)}
STREAMS = {"football": data.football, "machines": data.machines}


def holistic(windows: int, aggregate: str) -> sl.Spec:
    named = {f"w{length}": sl.tumbling(f"{length}ms") for length in lengths(windows)}
    return sl.Spec("ts", named, {"answer": HOLISTIC[aggregate]}, watermark=sl.ordered())


def _in_polars(frame: pl.DataFrame, windows: int, agg: pl.Expr, unit: int = 1000, index: str = "ts") -> Answer:
    """A ``group_by_dynamic`` for each length, of ``unit`` each."""
    found = [
        frame.group_by_dynamic(index, every=f"{length * unit}i").agg(agg.alias("answer")) for length in lengths(windows)
    ]
    number = np.repeat(lengths(windows), [each.height for each in found])
    together = pl.concat(found)
    return [number, together[index].to_numpy(), together["answer"].to_numpy()]


def _in_duckdb(connection: object, windows: int, agg: str, unit: int = 1000, source: str = "stream") -> Answer:
    """Each row once for each window that it is in."""
    found = connection.sql(f"""
        SELECT length, ts // (length * {unit}) * (length * {unit}) AS start, {agg} AS answer
        FROM (SELECT unnest({lengths(windows)}) AS length, ts, value FROM {source}) GROUP BY 1, 2
    """).fetchnumpy()
    return [found["length"], found["start"], np.asarray(found["answer"], float)]


def holistic_works(rows: pa.RecordBatch, windows: int, aggregate: str) -> dict[str, Callable[[], Answer]]:
    frame, connection = peers.frame(rows).set_sorted("ts"), peers.connection(stream=pa.table(rows))
    batches = streams.cut(rows, 100_000)
    value = pl.col("value")
    median = aggregate == "median"
    expression = value.median() if median else value.quantile(0.9, interpolation="linear")
    return {
        "slicing": lambda: answer(pushed(holistic(windows, aggregate), batches), "answer"),
        "polars": lambda: _in_polars(frame, windows, expression),
        "duckdb": lambda: _in_duckdb(connection, windows, "median(value)" if median else "quantile_cont(value, 0.9)"),
    }


def run_holistic(effort: Effort) -> Outcome:
    rate, span = RATE, 60
    rows = effort.pick(rate * span, 4000)
    panels, notes = [], []
    for stream, make in STREAMS.items():
        given = make(rows, rate if not effort.quick else 100)
        for aggregate in HOLISTIC:
            sweep = Sweep(effort, slow=0.5)
            for windows in effort.pick((1, 10, 100, 1000), (1, 10)):
                sweep.point(windows, holistic_works(given, windows, aggregate), lambda s: rows / s / 1e6)
            panels.append(sweep.panel(f"{stream}, {aggregate}", "concurrent windows", "M rows/s"))
            notes += [note for note in sweep.notes if note not in notes]
    ball, states = panels[0], panels[2]
    most = ball.at[-1]
    findings = [
        Finding(
            "slicing still outperforms alternatives for holistic aggregates, as slices are sorted once and shared",
            "; ".join(f"{panel.title}: {_against(panel, panel.of('slicing'))}" for panel in (ball, states)),
        ),
        Finding(
            "machines are slightly faster than football, as 37 distinct values save more by run lengths than 84,232",
            f"median of {most} windows: {short(states.of('slicing')[-1] / ball.of('slicing')[-1])} times as fast; of "
            f"{ball.at[0]}: {short(states.of('slicing')[0] / ball.of('slicing')[0])}",
        ),
        Finding(
            "throughput of holistic aggregates is far below that of others, and falls slowly with windows",
            f"football, median: {short(ball.of('slicing')[0])} M rows/s with {ball.at[0]} window, "
            f"{short(ball.of('slicing')[-1])} with {most}",
        ),
    ]
    return Outcome(panels, findings, notes)


# --- figure 21: measures ---------------------------------------------------------------------------------------------


RATE = 2000  # rows a second, so that a window of so many ms has twice as many rows
MEASURES = ("time", "integer measure", "count")


def measured(windows: int, measure: str) -> sl.Spec:
    named: dict[str, object] = {}
    for length in lengths(windows):
        window = {
            "time": lambda n: sl.tumbling(f"{n}ms"),
            "integer measure": lambda n: sl.tumbling(n * 1000),
            "count": lambda n: sl.rows(n * RATE // 1000),
        }[measure]
        named[f"w{length}"] = window(length)
    watermark = sl.bounded(2 * SECOND) if measure == "integer measure" else LATE
    return sl.Spec("ts", named, {"answer": sl.sum("value")}, watermark=watermark)


def measure_works(rows: pa.RecordBatch, windows: int) -> dict[str, dict[str, Callable[[], Answer]]]:
    """By measure, then by engine. Windows of counts are whole ones."""
    whole = pa.table(rows)
    numbers = whole.set_column(0, "ts", whole["ts"].cast(pa.int64())).combine_chunks().to_batches()[0]
    batches, integers = streams.cut(rows, 100_000), streams.cut(numbers, 100_000)
    frame, connection = peers.frame(whole), peers.connection(stream=whole)
    total = pl.col("value").sum()

    def by_time() -> Answer:
        return _in_polars(frame.sort("ts"), windows, total)

    def by_count() -> Answer:
        ranked = frame.sort("ts", maintain_order=True).with_columns(pl.int_range(pl.len()).alias("rank"))
        found = []
        for length in lengths(windows):
            size = length * RATE // 1000
            each = ranked.set_sorted("rank").group_by_dynamic("rank", every=f"{size}i")
            counted = each.agg(total.alias("answer"), pl.len().alias("n"), pl.col("ts").first().alias("start"))
            found.append(counted.filter(pl.col("n") == size).select(pl.lit(length).alias("length"), "start", "answer"))
        together = pl.concat(found)
        return [together[name].to_numpy() for name in ("length", "start", "answer")]

    def duckdb_count() -> Answer:
        found = connection.sql(f"""
            SELECT length, min(ts) AS start, sum(value) AS answer FROM (
                SELECT *, unnest({lengths(windows)}) AS length
                FROM (SELECT *, row_number() OVER (ORDER BY ts, rowid) - 1 AS rank FROM stream)
            ) GROUP BY length, rank // (length * {RATE} // 1000) HAVING count(*) = any_value(length) * {RATE} // 1000
        """).fetchnumpy()
        return [found["length"], found["start"], found["answer"]]

    ours = {
        "time": lambda: answer(pushed(measured(windows, "time"), batches), "answer"),
        "integer measure": lambda: answer(pushed(measured(windows, "integer measure"), integers), "answer"),
        "count": lambda: answer(pushed(measured(windows, "count"), batches), "answer"),
    }
    return {
        "time, integers": {
            "slicing, time": ours["time"],
            "slicing, integer measure": ours["integer measure"],
            "polars": by_time,
            "duckdb": lambda: _in_duckdb(connection, windows, "sum(value)"),
        },
        "count": {"slicing, count": ours["count"], "polars, count": by_count, "duckdb, count": duckdb_count},
    }


def _rows_a_cut(windows: int) -> float:
    """Rows from one edge of any window to the next, on average."""
    return RATE / sum(1000 / length for length in lengths(windows))


def run_measures(effort: Effort) -> Outcome:
    rows = effort.pick(400_000, 12_000)
    given = data.late(data.football(rows, RATE))
    sweeps: dict[str, Sweep] = {}
    for windows in effort.pick((1, 10, 40, 100, 1000), (1, 4)):
        for kind, works in measure_works(given, windows).items():
            sweeps.setdefault(kind, Sweep(effort, slow=0.5)).point(windows, works, lambda s: rows / s / 1e6)
    panels = [sweep.panel(kind, "concurrent windows", "M rows/s") for kind, sweep in sweeps.items()]
    time_, count = panels
    by_time, by_number = time_.of("slicing, time"), time_.of("slicing, integer measure")
    by_count = count.of("slicing, count")
    most = time_.at[-1]
    findings = [
        Finding(
            "time: throughput does not depend on the number of concurrent windows",
            f"{short(by_time[0])} M rows/s with {time_.at[0]} window, {short(by_time[-1])} with {most}, which cut this "
            f"stream of {RATE:,} rows a second every {short(_rows_a_cut(most))} rows",
        ),
        Finding(
            "any advancing measure is as fast as time",
            f"integers: {short(min(n / t for n, t in zip(by_number, by_time, strict=True)))} to "
            f"{short(max(n / t for n, t in zip(by_number, by_time, strict=True)))} times the rate of time",
        ),
        Finding(
            "count: constant up to 40 windows, then linear decay, as late rows are shifted from slice to slice",
            f"{short(by_count[0])} M rows/s with {count.at[0]} window, {short(by_count[-1])} with {most}; late rows "
            "wait and are never shifted",
        ),
        Finding(
            "count: at 1000 windows still an order of magnitude faster than the next best, a tuple buffer",
            _against(count, by_count),
        ),
    ]
    notes = list(dict.fromkeys(note for sweep in sweeps.values() for note in sweep.notes))
    return Outcome(panels, findings, notes)


def _against(panel: Panel, ours: Sequence[float]) -> str:
    told = []
    for name, numbers in panel.series.items():
        known = [place for place, number in enumerate(numbers) if number is not None]
        if "slicing" not in name and known:
            told.append(f"{short(ours[known[-1]] / numbers[known[-1]])} times {name} at {panel.at[known[-1]]} windows")
    return ", ".join(told)


# --- figure 22: operators side by side -------------------------------------------------------------------------------

DASHBOARD = 80
M4 = ("min", "max", "first", "last")


def dashboard() -> sl.Spec:
    named = {f"w{length}": sl.tumbling(f"{length}ms") for length in lengths(DASHBOARD)}
    return sl.Spec("ts", named, {"m4": sl.m4("value")}, watermark=sl.ordered())


def side_by_side(threads: int, batches: Sequence[pa.RecordBatch]) -> int:
    """So many operators, each with a thread and the whole stream; how many windows they give."""
    spec = dashboard()
    if threads == 1:
        return pushed(spec, batches).num_rows
    with ThreadPoolExecutor(threads) as pool:
        return sum(found.num_rows for found in pool.map(lambda _: pushed(spec, batches), range(threads)))


def polars_m4(frame: pl.DataFrame) -> int:
    value = pl.col("value")
    aggs = [
        value.min().alias("min"),
        value.max().alias("max"),
        value.first().alias("first"),
        value.last().alias("last"),
    ]
    found = [frame.lazy().group_by_dynamic("ts", every=f"{n * 1000}i").agg(*aggs) for n in lengths(DASHBOARD)]
    return sum(each.height for each in pl.collect_all(found))


def duckdb_m4(connection: object, threads: int) -> int:
    """All streams in one query, which shares its threads: a bucket for each window of each row."""
    return connection.sql(f"""
        SELECT count(*) FROM (
            SELECT stream, length, ts // (length * 1000) AS start, min(value), max(value), arg_min(value, ts),
                arg_max(value, ts)
            FROM (SELECT unnest({lengths(DASHBOARD)}) AS length, ts, value FROM stream), range({threads}) AS s(stream)
            GROUP BY ALL)
    """).fetchall()[0][0]


def spent(work: Callable[[], int], runs: int) -> tuple[float, float, int]:
    """Seconds on the wall, cores kept busy, and what the work gives."""
    given = work()
    walls, cores = [], []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(max(time.perf_counter() - wall, 1e-9))
        cores.append((time.process_time() - cpu) / walls[-1])
    place = int(np.argsort(walls)[len(walls) // 2])
    return walls[place], cores[place], given


def parallel_point(engine: str, threads: int, rows: int, runs: int) -> tuple[float, float, int]:
    """Rows a second of all streams, cores, and windows. Run in a process whose Polars has so many threads."""
    given = data.football(rows, RATE)
    if engine == "slicing":
        batches = streams.cut(given, 100_000)
        wall, cores, windows = spent(lambda: side_by_side(threads, batches), runs)
    elif engine == "polars":
        frame = peers.frame(pa.table(given)).set_sorted("ts")
        with ThreadPoolExecutor(threads) as pool:
            wall, cores, windows = spent(lambda: sum(pool.map(polars_m4, [frame] * threads)), runs)
    else:
        connection = peers.connection(threads, stream=pa.table(given))
        wall, cores, windows = spent(lambda: duckdb_m4(connection, threads), runs)
    return threads * rows / wall, cores, windows


def in_its_own_process(engine: str, threads: int, rows: int, runs: int) -> tuple[float, float, int]:
    """Polars reads its number of threads when it is imported."""
    root = str(Path(__file__).parents[2])
    told = subprocess.run(
        [sys.executable, "-m", "asv_benchmarks.papers.scotty_throughput", engine, *map(str, (threads, rows, runs))],
        env={**os.environ, "POLARS_MAX_THREADS": str(threads), "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    rate, cores, windows = json.loads(told.stdout)
    return rate, cores, windows


def run_parallel(effort: Effort) -> Outcome:
    """Quick runs ask Polars here, with the threads that it has."""
    ask = parallel_point if effort.quick else in_its_own_process
    full = {"slicing": 1_000_000, "polars": 200_000, "duckdb": 100_000}
    sizes = effort.pick(full, dict.fromkeys(full, 4000))
    rates: dict[str, list[float]] = {engine: [] for engine in sizes}
    busy: dict[str, list[float]] = {engine: [] for engine in sizes}
    given: dict[int, dict[str, int]] = {}
    for threads in effort.threads:
        for engine, rows in sizes.items():
            rate, cores, windows = ask(engine, threads, rows, effort.runs)
            rates[engine].append(rate / 1e6)
            busy[engine].append(cores)
            given.setdefault(threads, {})[engine] = windows
    if effort.quick:
        for told in given.values():
            check({engine: [np.array([windows])] for engine, windows in told.items()})
    at = effort.threads
    by_core = {engine: [r / c for r, c in zip(rates[engine], busy[engine], strict=True)] for engine in sizes}
    panels = [
        Panel("throughput", "operators, each with a thread", "M rows/s on the wall", at, rates, log_y=False),
        Panel("by core", "operators, each with a thread", "M rows/s and busy core", at, by_core, log_y=False),
        Panel("cores kept busy", "operators, each with a thread", "cores", at, busy, log_y=False),
    ]
    ours = rates["slicing"]
    findings = [
        Finding(
            "throughput grows linearly up to four operators on eight cores, then slower, towards all cores busy",
            f"{short(ours[-1] / ours[0])} times with {at[-1]} operators for {at[0]}; this machine has "
            f"{os.cpu_count()} cores, so it shows no knee before them",
        ),
        Finding(
            "slicing is an order of magnitude faster than buckets",
            f"{short(ours[-1] / rates['duckdb'][-1])} times DuckDB's buckets and "
            f"{short(ours[-1] / rates['polars'][-1])} times Polars with {at[-1]} threads",
        ),
    ]
    return Outcome(panels, findings, ["Each operator reads the whole stream: 80 windows, `m4`."])


def main(arguments: Sequence[str]) -> None:
    engine, threads, rows, runs = arguments
    print(json.dumps(parallel_point(engine, int(threads), int(rows), int(runs))))


FIGURES = (
    Figure("scotty-19", "Scotty (TODS 2021), figure 19", "Medians and quantiles of many windows at once", run_holistic),
    Figure("scotty-21", "Scotty (TODS 2021), figure 21", "Windows by time, by another measure, by count", run_measures),
    Figure("scotty-22", "Scotty (TODS 2021), figure 22", "A dashboard of 80 windows, in parallel", run_parallel),
)

if __name__ == "__main__":
    main(sys.argv[1:])
