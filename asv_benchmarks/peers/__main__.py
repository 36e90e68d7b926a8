"""The table: rates, beside the best peer and a plain read of the columns."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from asv_benchmarks.benchmarks import measuring
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.peers import THREADS, everyday, joins, overhead
from asv_benchmarks.peers import __doc__ as purpose
from asv_benchmarks.peers.answers import Disagreement, canonical, compare
from asv_benchmarks.peers.data import Data, Work
from asv_benchmarks.peers.files import ENGINES, FROM_PARQUET, Files, peaks
from asv_benchmarks.peers.workloads import WORKLOADS, Workload
from slicing.system.threads import side_by_side

READ = "plain read"
EVERY = WORKLOADS | FROM_PARQUET
SHARED = (  # workloads that two threads share
    "tumbling 1 s, 1 k rows a slice",
    "20 % out of order, up to 2 s",
    "1000 keys, tumbling 1 s",
    "1000 string keys, tumbling 1 s",
)


@dataclass
class Row:
    engine: str
    rate: float
    ours: bool
    spread: float  # how far its runs lie apart: (longest - shortest) / median

    @property
    def is_engine(self) -> bool:
        """A peer that answers queries: not numpy by hand, nor a plain read."""
        return not (self.ours or self.engine == READ or self.engine.startswith("numpy"))


def run(workload: Workload, rows: int, runs: int) -> list[Row]:
    """The rate of each engine, once their answers agree."""
    data = workload.data(max(int(rows * workload.share), 1000))
    count = data.table.num_rows
    engines = dict(workload.engines(data))
    times = data.arrays["ts"]
    span = -(-int(times.min()) // SECOND) * SECOND - SECOND, int(times.max()) // SECOND * SECOND + SECOND
    expected = None
    for name, work in engines.items():  # also the warm-up
        answer = canonical(work(), workload.size, span, workload.compared)
        if expected is None:
            expected = answer
        compare(name, answer, expected)
    measuring.read(times, data.arrays["value"])
    engines[READ] = lambda: measuring.read(times, data.arrays["value"])
    spent = round_robin(list(engines.values()), runs, workload.cached, by_wall=THREADS > 1, calls=workload.calls)
    return [
        Row(name, count / s, name.startswith("slicing"), spread)
        for name, (s, spread) in zip(engines, spent, strict=True)
    ]


def round_robin(
    works: Sequence[Work], runs: int, cached: bool, by_wall: bool, calls: int = 1
) -> list[tuple[float, float]]:
    """The median of seconds that each takes, of so many calls in a row, and how far its runs lie apart, as a share of
    that; ``cached``: at once again, as it finds its rows in the cache then."""
    clock = time.perf_counter if by_wall else time.process_time
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, seconds in zip(works, spent, strict=True):
            rest()
            if cached:
                work()
            start = clock()
            for _ in range(calls):
                work()
            seconds.append(max(clock() - start, 1e-9) / calls)
    return [(statistics.median(s), (max(s) - min(s)) / statistics.median(s)) for s in spent]


def rest(most: float = 0.5) -> None:
    """Wait until the threads of the engine before do nothing. Polars gives memory back after its answer is there: 40 to
    100 ms of CPU, which the next engine would pay for."""
    until = time.perf_counter() + most
    while time.perf_counter() < until:
        spent = time.process_time()
        time.sleep(0.01)
        if time.process_time() - spent < 0.002:
            return


def show(title: str, rows: list[Row]) -> None:
    ceiling = next(r.rate for r in rows if r.engine == READ)
    best = max(r.rate for r in rows if not r.ours and r.engine != READ)
    print(f"\n{title}")
    print(f"  {'':34}{'M rows/s':>10}{'spread':>8}{'of best peer':>14}{'of read':>9}")
    for row in sorted(rows, key=lambda r: -r.rate):
        against = "" if row.engine == READ else f"{row.rate / best:.2f}"
        note = "  behind" if row.ours and row.rate < best else ""
        rate = f"{row.rate / 1e6:10.{1 if row.rate >= 1e6 else 3}f}"
        print(f"  {row.engine:34}{rate}{row.spread:8.0%}{against:>14}{row.rate / ceiling:9.3f}{note}", flush=True)


def show_all(tables: Mapping[str, list[Row]]) -> None:
    """Each of our ways against the best engine's best plan: where we are behind comes first."""
    found = []
    for title, rows in tables.items():
        engines = [row for row in rows if row.is_engine]
        if engines:
            best = max(engines, key=lambda row: row.rate)
            found += [(row.rate / best.rate, title, row, best) for row in rows if row.ours]
    print(f"\n{'':50}{'':26}{'M rows/s':>10}  best engine{'':23}{'M rows/s':>10}{'times':>8}")
    for times, title, row, best in sorted(found, key=lambda one: one[0]):
        rates = (f"{one.rate / 1e6:10.3g}" for one in (row, best))
        ours, theirs = rates
        print(f"{title[:49]:50}{row.engine.removeprefix('slicing, '):26}{ours}  {best.engine:34}{theirs}{times:8.2f}")


def machine() -> str:
    """What it was measured on."""
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{name}, {os.cpu_count()} cores{load}"


def compare_threads(workloads: Mapping[str, Workload], rows: int, runs: int) -> None:
    """A plain read and this library, the rows shared by two threads: M rows/s by the clock on the wall; and the serial
    share: what is not side by side with two threads, of the time of one."""
    heads = [f"{name:>11}{'2 threads':>11}{'':7}" for name in ("read", "push", "aggregate")]
    print(f"\n{'':46}" + f"{'serial':>8}".join([heads[0] + heads[1], heads[2], ""]))
    for title, workload in workloads.items():
        data = workload.data(max(int(rows * workload.share), 1000))
        works = [
            work
            for threads in (1, 2)
            for work in (reading(data, threads), *(w for _, w in workload.ours(data, threads)))
        ]
        for work in works:
            work()
        spent = [seconds for seconds, _ in round_robin(works, runs, workload.cached, by_wall=True)]
        print(f"{title:46}", end="")
        for alone, shared, work in zip(spent[:3], spent[3:], works[3:], strict=True):
            rates = (data.ours.num_rows / seconds / 1e6 for seconds in (alone, shared))
            print("".join(f"{rate:11.1f}" for rate in rates) + f"{alone / shared:6.2f}x", end="")
            if work is not works[3]:
                serial = statistics.median(not_side_by_side(work) for _ in range(runs)) / alone
                print(f"{serial:8.1%}", end="")
        print(flush=True)


def reading(data: Data, threads: int) -> Work:
    """A plain read by so many threads: what the memory of the machine allows."""
    times, values = data.arrays["ts"], data.arrays["value"]
    some = [slice(len(times) * i // threads, len(times) * (i + 1) // threads) for i in range(threads)]
    return lambda: side_by_side(lambda part: measuring.read(times[part], values[part]), some)


def not_side_by_side(work: Work) -> float:
    """The seconds in which threads do not work side by side."""
    inside, deep = 0.0, 0

    def timed(function: Work, parts: Sequence[object]) -> list[object]:
        nonlocal inside, deep
        start, deep = time.perf_counter(), deep + 1
        try:
            return side_by_side(function, parts)
        finally:
            deep -= 1
            inside += 0 if deep or len(parts) == 1 else time.perf_counter() - start

    users = [module for module in sys.modules.values() if module.__dict__.get("side_by_side") is side_by_side]
    users = [module for module in users if module.__name__ != __name__]
    for module in users:
        module.side_by_side = timed
    try:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start - inside
    finally:
        for module in users:
            module.side_by_side = side_by_side


def show_memory(workloads: Mapping[str, Workload], rows: int) -> None:
    """The most memory that each engine has from files to answers, in a process of its own."""
    print(f"\n{'peak memory, MB (beyond what it had before)':50}" + "".join(f"{engine:>22}" for engine in ENGINES))
    for title, workload in workloads.items():
        data = workload.data(rows)
        assert isinstance(data, Files)
        found = peaks(data.folder, tuple(workload.spec.by), SECOND, THREADS)
        print(
            f"{title:50}" + "".join(f"{f'{peak} ({peak - before})':>22}" for peak, before in found.values()), flush=True
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers", description=purpose.splitlines()[0])
    parser.add_argument("--rows", type=int, help="rows of a stream (10,000,000)")
    parser.add_argument("--runs", type=int, help="runs, of which the median counts (5)")
    parser.add_argument("--quick", action="store_true", help="100,000 rows, one run: do answers agree?")
    parser.add_argument("--only", default="", help="workloads whose name holds this")
    parser.add_argument("--threads", action="store_true", help="a plain read and this library, one thread and two")
    parser.add_argument("--all-threads", action="store_true", help="a thread a core for each that can, wall time")
    parser.add_argument("--both", action="store_true", help="one thread each, then again with a thread a core")
    parser.add_argument("--joins", action="store_true", help="joins of two streams (1,000,000 rows a side)")
    parser.add_argument("--everyday", action="store_true", help="questions of a notebook, beside Polars")
    parser.add_argument("--overhead", action="store_true", help="pushes of this library, beside their kernels alone")
    parser.add_argument("--memory", action="store_true", help="peak memory from Parquet files, a process an engine")
    given = parser.parse_args(arguments)
    if given.joins:
        pa.set_cpu_count(1)
        return joins.main(given.rows or (20_000 if given.quick else 1_000_000), given.runs or 4, given.only)
    if given.overhead:
        return overhead.main(given.runs or (1 if given.quick else 31))
    if given.everyday:
        sizes = [given.rows] if given.rows else [3000] if given.quick else everyday.SIZES
        return everyday.main(sizes, given.runs or (1 if given.quick else 7), given.only)
    rows = given.rows or (100_000 if given.quick else 10_000_000)
    runs = given.runs or (1 if given.quick else 5)
    chosen = {title: w for title, w in EVERY.items() if given.only in title}
    if not chosen:
        parser.error(f"no workload's name holds {given.only!r}; there are: {'; '.join(EVERY)}")
    pa.set_cpu_count(THREADS)
    if given.memory:
        show_memory({title: w for title, w in FROM_PARQUET.items() if given.only in title}, rows)
        return 0
    if given.threads:
        if not given.only:
            chosen = {title: chosen[title] for title in SHARED}
        print(f"{rows:,} rows, wall time, median of {runs}, {os.cpu_count()} cores")
        compare_threads(chosen, rows, runs)
        return 0
    clock = "one thread each, CPU time" if THREADS == 1 else f"{THREADS} threads for each that can, wall time"
    print(f"{rows:,} rows, {clock}, median of {runs}; answers agree where a table is shown\n{machine()}")
    failed, tables = False, {}
    for title, workload in chosen.items():
        try:
            tables[title] = run(workload, rows, runs)
            show(title, tables[title])
        except Disagreement as wrong:
            failed = True
            print(f"\n{title}\n  ANSWERS DIFFER: {wrong}", flush=True)
    show_all(tables)
    if given.both:
        told = [word for word in sys.argv[1:] if word != "--both"] if arguments is None else list(arguments)
        command = [sys.executable, "-m", "asv_benchmarks.peers", "--all-threads", *(w for w in told if w != "--both")]
        failed |= subprocess.run(command).returncode != 0  # a process of its own: engines fix their threads early
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
