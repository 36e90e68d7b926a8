"""The streams that all benchmarks share: seeded, so that two commits see the same rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

SECOND = 1_000_000  # times are microseconds
START = 1000 * SECOND  # late rows stay after 0, below which integer division differs from engine to engine


def scale() -> float:
    """What to multiply every size by: ``SLICING_BENCH_SCALE``, 1 by default; tests use a tiny one."""
    return float(os.environ.get("SLICING_BENCH_SCALE", "1"))


def sized(rows: int) -> int:
    return max(int(rows * scale()), min(rows, 100))


def times(rows: int, rate: int, start: int = START, seed: int = 1) -> Ints:
    """Ascending times, ``rate`` rows a second, unevenly spaced."""
    step = SECOND // rate
    return start + np.arange(rows) * step + np.random.default_rng(seed).integers(0, step, rows)


def disordered(ordered: Ints, share: float, delay: int, seed: int = 2) -> Ints:
    """A share of the rows comes up to ``delay`` after its time."""
    random = np.random.default_rng(seed)
    moved = ordered.copy()
    late = np.flatnonzero(random.random(ordered.size) < share)
    moved[late] -= random.integers(0, delay, late.size)
    return moved


def values(rows: int, seed: int = 3) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).random(rows) * 100


def keys(rows: int, distinct: int, seed: int = 4) -> Ints:
    """Any 64-bit integers, as ids are: nothing to index an array by."""
    random = np.random.default_rng(seed)
    ids = random.integers(-(2**62), 2**62, distinct)
    return ids[random.integers(0, distinct, rows)]


def codes(rows: int, distinct: int, seed: int = 4) -> pa.DictionaryArray:
    """Keys that come as places in a dictionary, whose values are these places."""
    places = np.random.default_rng(seed).integers(0, distinct, rows).astype(np.int32)
    return pa.DictionaryArray.from_arrays(places, np.arange(distinct, dtype=np.int32))


def text(numbers: Ints) -> pa.Array:
    """The keys as strings of up to 18 bytes."""
    distinct, place = np.unique(numbers, return_inverse=True)
    names = pa.array([f"sensor-{n % 10**11}" for n in distinct.tolist()])
    return names.take(pa.array(place))


def batch(time: Ints, key: Ints | pa.Array | None = None) -> pa.RecordBatch:
    columns = {"ts": pa.array(time, pa.timestamp("us")), "value": pa.array(values(time.size))}
    if key is not None:
        columns["key"] = pa.array(key)
    return pa.record_batch(columns)


def cut(whole: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    return [whole.slice(first, rows) for first in range(0, whole.num_rows, rows)]


def changing_keys(rows: int, distinct: int, alive: int, size: int) -> Iterator[pa.RecordBatch]:
    """Batches, made as they are asked for, of a stream whose keys come and go: ``alive`` of them at a time."""
    random = np.random.default_rng(5)
    for first in range(0, rows, size):
        row = np.arange(first, min(first + size, rows))
        time = row * (SECOND // 10_000)
        key = row * distinct // rows + random.integers(0, alive, row.size)
        yield pa.record_batch({"ts": pa.array(time, pa.timestamp("us")), "value": random.random(row.size), "key": key})
