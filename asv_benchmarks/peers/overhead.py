"""Pushes of rows in order, 1000 rows a slice, beside their two kernels alone: what Python costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import slicing as sl
from slicing.kernels.segments import segment_basic_f
from slicing.kernels.slice import cut
from slicing.query.policy import DEFAULT

SLICE = 1000
PUSHES = 10


def median(works: list[Callable[[int], object]], runs: int) -> list[float]:
    """The median of seconds of CPU that each takes, in turns: the given number goes up."""
    spent: list[list[float]] = [[] for _ in works]
    for run in range(runs * PUSHES):
        for work, seconds in zip(works, spent, strict=True):
            start = time.process_time()
            work(run)
            seconds.append(time.process_time() - start)
    return list(map(statistics.median, spent))


def compare(rows: int, runs: int) -> tuple[float, float]:
    """The seconds of a push, and of the kernels that find the edges and reduce the rows."""
    times, values = np.arange(rows), np.random.default_rng(0).normal(size=rows)
    aggs = {"s": sl.sum("v"), "lo": sl.min("v"), "hi": sl.max("v"), "n": sl.count()}
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(SLICE)}, aggs, watermark=sl.ordered()))
    batches = [pa.record_batch({"t": times + run * rows, "v": values}) for run in range(runs * PUSHES)]
    edges, bounds = np.arange(SLICE, rows + SLICE, SLICE), np.zeros(rows // SLICE + 1, np.int64)
    block = np.empty((edges.size, 5), np.int64)
    arrays = [(batch["t"].to_numpy(), batch["v"].to_numpy()) for batch in batches]

    def kernels(run: int) -> None:
        run = (run + len(arrays) // 2) % len(arrays)  # not the rows that the push has just put into the cache
        time, x = arrays[run]
        cut(time, edges + run * rows, DEFAULT.ordered_rows, bounds[1:])
        segment_basic_f(bounds[:-1], bounds[1:], x, x.view(np.int64), block, block.view(np.float64))

    push, alone = median([lambda run: op.push(batches[run]), kernels], runs)
    return push, alone


def main(runs: int) -> int:
    print(f"{'rows a push':>14}{'push, us':>12}{'kernels, us':>14}{'more':>8}")
    for rows in (1_000_000, 100_000):
        push, alone = compare(rows, max(runs // (rows // 100_000), 1))
        print(f"{rows:>14,}{push * 1e6:>12.0f}{alone * 1e6:>14.0f}{push / alone - 1:>8.0%}", flush=True)
    return 0
