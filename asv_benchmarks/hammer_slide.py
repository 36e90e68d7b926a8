"""python -m asv_benchmarks.hammer_slide: the workload of Hammer Slide's figures, by the engine and by kernels alone.

First ``sl.aggregate`` and ``push`` by 1 M rows (``sl.rows(1024, every=slide)``, a table of results included), in cache
and of 10 M rows; also windows of time over rows that come at a fixed rate (``sl.sliding(1024, every=1)``). Then kernels
that are no part of the package, which write the answers alone.

Random int32 in [0, 64) that stay in the cache, windows that count rows: 1024 rows and slides of 1 to 1024 (figures 6
and 7), a slide of 1 and windows of 8 to 65,536 (figures 9 and 10), and windows of many sizes at once. The last columns
are the figures of the paper's own C++ with SIMD, and of its plain loop for slide 1, as measured on a machine of two
AVX-512 cores, and how many times faster these kernels are here: only on such a machine do they mean anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import measuring, streams
from asv_benchmarks.research import dense_columns as columns

ROWS = 1 << 18
WINDOW = 1024
SLIDES = (1, 4, 16, 64, 256, 1024)
SIZES = (8, 64, 512, 4096, 32_768, 65_536)
AT_ONCE = (10, 100, 1000)
THEIRS = {1: 275, 64: 5048, 1024: 2875}  # M tuples/s, minimum
TARGET = {1: 5.0}  # and 1.3 at every other slide

Column = npt.NDArray[np.int32]


def column(rows: int = ROWS) -> Column:
    return np.random.default_rng(42).integers(0, 64, rows).astype(np.int32)


def rate(rows: int, work: Callable[[], object]) -> float:
    """M rows/s, best of some runs of at least a few milliseconds."""
    work()
    times = max(1, 4_000_000 // rows) if streams.scale() >= 1 else 1
    return rows * times / measuring.seconds(lambda: [work() for _ in range(times)], wanted=9)[0] / 1e6


def slides(x: Column, slide: int, function: str, window: int = WINDOW) -> Callable[[], object]:
    """All windows of so many rows: rows to panes of a slide each, panes to windows."""
    pane = columns.pane_min if function == "min" else columns.pane_sum
    sliding = columns.sliding_min if function == "min" else columns.sliding_sum
    panes, size = x.size // slide, window // slide
    room, out = np.empty(panes, np.int32), np.empty(panes - size + 1, np.int32)

    def work() -> None:
        made = x
        if slide > 1:
            pane(x, slide, room)
            made = room
        if size > 1:
            sliding(made, size, out)

    return work


def engine(x: Column, window: object, function: str, pushed: bool) -> Callable[[], object]:
    """The windows as users ask for them: a table in, a table out."""
    rows = pa.table({"place": np.arange(x.size), "value": x})
    windows = {"w": window}
    spec = sl.Spec("place", windows, {"answer": getattr(sl, function)("value")}, watermark=sl.ordered())

    def push() -> pa.Table:
        operator = sl.Operator(spec)
        found = [operator.push(batch).windows for batch in rows.to_batches(max_chunksize=1_000_000)]
        return pa.concat_tables([*found, operator.flush().windows])

    return push if pushed else lambda: sl.aggregate(rows, spec, threads=1)


def through_the_engine() -> None:
    sizes = [ROWS, 10_000_000]
    if streams.scale() < 1:
        sizes = [streams.sized(size) for size in sizes]
    print("| through the engine: rows | slide | aggregate min | aggregate sum | push min | push sum (M rows/s) |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for x in map(column, sizes):
        asked = {str(slide): sl.rows(WINDOW, every=slide) for slide in (1, 64, 1024)}
        for slide, window in (asked | {"1, by time": sl.sliding(WINDOW, every=1)}).items():
            ways = [(function, pushed) for pushed in (False, True) for function in ("min", "sum")]
            rates = [rate(x.size, engine(x, window, *way)) for way in ways]
            print(f"| {x.size:,} | {slide} | " + " | ".join(f"{found:.0f}" for found in rates) + " |", flush=True)
    print()


def at_once(x: Column, windows: int) -> tuple[int, Callable[[], object]]:
    """How many results, and the work: sizes spread evenly over 1 to 1000."""
    sizes = np.unique(np.linspace(1, 1000, windows).astype(np.int64))
    some = x[: max(2000, 4_000_000 // windows)]
    out = np.empty((sizes.size, some.size), np.int32)
    return int((some.size - sizes + 1).sum()), lambda: columns.many_min(some, sizes, out)


def main() -> None:
    through_the_engine()
    x = column(streams.sized(ROWS) if streams.scale() < 1 else ROWS)
    print(f"| window of {WINDOW}, slide | min, M rows/s | sum, M rows/s | Hammer Slide's min | times | wanted |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for slide in SLIDES:
        least, total = (rate(x.size, slides(x, slide, function)) for function in ("min", "sum"))
        theirs = THEIRS.get(slide)
        against = f"{theirs} | {least / theirs:.1f} | {TARGET.get(slide, 1.3)}" if theirs else "| | "
        print(f"| {slide} | {least:.0f} | {total:.0f} | {against} |")
    print("\n| window, slide of 1 | min, M rows/s | sum, M rows/s |\n| ---: | ---: | ---: |")
    for size in SIZES:
        if size < x.size:
            least, total = (rate(x.size, slides(x, 1, function, size)) for function in ("min", "sum"))
            print(f"| {size} | {least:.0f} | {total:.0f} |")
    print("\n| windows at once | min, M results/s |\n| ---: | ---: |")
    for windows in AT_ONCE:
        results, work = at_once(x, windows)
        print(f"| {windows} | {rate(results, work):.0f} |")


if __name__ == "__main__":
    main()
