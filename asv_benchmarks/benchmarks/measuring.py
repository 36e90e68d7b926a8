"""How figures are taken: best of several runs, in CPU time of the process, and what merely reading the rows costs.

CPU time, as a neighbour on the machine makes wall time wander; everything runs on one thread, so they agree when alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from . import streams


def runs(wanted: int = 5) -> int:
    return wanted if streams.scale() >= 1 else 1


def seconds(*works: Callable[[], object], wanted: int = 5) -> list[float]:
    """The best time of each piece of work, run in turn so that they meet the same weather."""
    best = [float("inf")] * len(works)
    for _ in range(runs(wanted)):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            best[i] = min(best[i], time.process_time() - start)
    return [max(b, 1e-9) for b in best]


@njit(nogil=True, fastmath=True)
def read(times: Any, values: Any) -> tuple[int, float]:
    """Both columns once, with SIMD: no engine that looks at every row can be faster."""
    latest = np.int64(0)
    total = 0.0
    for i in range(times.size):
        latest += times[i]
        total += values[i]
    return latest, total


def columns(batch: pa.RecordBatch) -> tuple[Any, Any]:
    return batch.column("ts").cast(pa.int64()).to_numpy(), batch.column("value").to_numpy()


def read_all(batches: Sequence[pa.RecordBatch]) -> Callable[[], object]:
    """The work of reading all batches, ready to be timed."""
    arrays = [columns(b) for b in batches]
    read(*arrays[0])
    return lambda: [read(*a) for a in arrays]
