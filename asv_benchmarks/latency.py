"""python -m asv_benchmarks.latency: how long a push that closes windows takes, from push to result (ms).

On the wall, and in CPU time: where others use the machine too, only that tells what the push itself does.

Pushes of 10,000 rows, one a second, each of which closes an edge of windows over 10 s that slide by 1 s, at 1,000 and
100,000 keys; and without keys, windows of 1 h that slide by 10 ms, closed one at a time. Each with every way to combine
that there is for it. Then windows over 10 s that all end at once, with the flush in one push or spread over those that
follow: what all pushes cost together tells what spreading costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.push import AGGS

WAYS = ("auto", "recompute", "two stacks", "sparse table", "eager store")
ROWS = 10_000
SHARES = {1000: 200, 100_000: 10_000}  # max_windows_per_push


def spent(operator: sl.Operator, batches: Sequence[pa.RecordBatch], warm: int) -> np.ndarray:
    """Milliseconds of each push after the first ones, on the wall and of the processor."""
    found = []
    for batch in batches:
        start, busy = time.perf_counter(), time.process_time()
        operator.push(batch)
        found.append(((time.perf_counter() - start) * 1e3, (time.process_time() - busy) * 1e3))
    return np.array(found[warm:])


def keyed(keys: int, pushes: int, every: str = "1s") -> tuple[sl.Spec, list[pa.RecordBatch]]:
    rows = pushes * ROWS
    spec = sl.Spec("ts", {"w": sl.sliding("10s", every=every)}, AGGS, by=["key"], watermark=sl.ordered())
    whole = streams.batch(streams.times(rows, ROWS), streams.keys(rows, keys))
    return spec, streams.cut(whole, ROWS)


def deep(pushes: int) -> tuple[sl.Spec, list[pa.RecordBatch]]:
    """A row every 10 ms, 360,000 slices a window; the first push fills it."""
    slices = streams.sized(360_000)
    spec = sl.Spec("ts", {"w": sl.sliding(f"{slices * 10}ms", every="10ms")}, AGGS, watermark=sl.ordered())
    whole = streams.batch(np.arange(slices + pushes, dtype=np.int64) * 10_000)
    return spec, [whole.slice(0, slices), *streams.cut(whole.slice(slices), 1)]


def row(title: str, found: np.ndarray) -> None:
    figures = [f"{f:.2f}" for of in found.T for f in (*np.percentile(of, [50, 99]), of.max())]
    figures.append(f"{found[:, 1].sum():.0f}")
    print(f"| {title} | {' | '.join(figures)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.latency", description=__doc__)
    parser.add_argument("--pushes", type=int, default=200)
    pushes = parser.parse_args().pushes
    print("| closing pushes | p50 ms | p99 ms | longest ms | p50 CPU | p99 CPU | longest CPU | all CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for keys in (1000, 100_000):
        spec, batches = keyed(streams.sized(keys), pushes)
        for way in WAYS:
            row(f"{keys} keys, 10 s / 1 s, {way}", spent(sl.Operator(spec, combine=way), batches, pushes // 4))
    for keys, most in SHARES.items():
        spec, batches = keyed(keys, pushes, every="10s")
        for share in (None, most):
            spread = sl.Operator(spec, max_windows_per_push=share)
            how = "at once" if share is None else f"at most {share} windows a push"
            row(f"{keys} keys, 10 s, {how}", spent(spread, batches, pushes // 4))
    spec, batches = deep(pushes)
    for way in ("auto", "two stacks"):  # the first push closes windows of every slice: others take them one by one
        row(f"no keys, 360,000 slices a window, {way}", spent(sl.Operator(spec, combine=way), batches, 2))


if __name__ == "__main__":
    main()
