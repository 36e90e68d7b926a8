"""The papers' streams as they describe them, made anew and seeded; none of their data is fetched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from asv_benchmarks.benchmarks.streams import SECOND, START

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def batch(ts: Ints, **columns: object) -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array(ts, pa.timestamp("us")), **{n: pa.array(c) for n, c in columns.items()}})


# --- Scotty ----------------------------------------------------------------------------------------------------------


def _with_gaps(rows: int, rate: int, seed: int) -> Ints:
    """Evenly spaced times with five gaps of 1.1 to 1.5 s a minute, which separate sessions."""
    step = SECOND // rate
    random = np.random.default_rng(seed)
    ts = START + np.arange(rows, dtype=np.int64) * step
    between = int(10.7 * rate)  # rows from gap to gap
    places = np.arange(between, rows, between)
    gaps = np.zeros(rows, np.int64)
    gaps[places] = random.integers(int(1.1 * SECOND), int(1.5 * SECOND), places.size)
    return ts + np.cumsum(gaps)


def football(rows: int, rate: int = 2000) -> pa.RecordBatch:
    """Positions of a ball: 2000 rows a second, five gaps a minute, 84,232 distinct values.

    A higher ``rate`` makes more rows of the same kind, as the paper does.
    """
    value = np.random.default_rng(11).integers(0, 84_232, rows) * 0.5
    return batch(_with_gaps(rows, rate, 12), value=value)


def machines(rows: int, rate: int = 100) -> pa.RecordBatch:
    """States of manufacturing machines: 100 rows a second, 37 distinct values."""
    value = np.random.default_rng(13).integers(0, 37, rows) * 1.0
    return batch(_with_gaps(rows, rate, 14), value=value)


def late(rows: pa.RecordBatch, share: float = 0.2, delay: int = 2 * SECOND) -> pa.RecordBatch:
    """A share of the rows comes up to ``delay`` after its time."""
    from asv_benchmarks.benchmarks import streams

    ts = streams.disordered(rows.column("ts").cast(pa.int64()).to_numpy(), share, delay)
    return rows.set_column(0, "ts", pa.array(ts, pa.timestamp("us")))


# --- Li --------------------------------------------------------------------------------------------------------------

SHARES = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09}  # of the rows, in groups of one row


def skewed(share: float, windows: int, rows: int, width: int) -> pa.RecordBatch:
    """Li's table 6-2: in each window of ``width``, groups of 1, about 15 and about 300 rows, others in each window.

    A ``share`` of the rows is in groups of one row, 20 % in those of 15, the rest in those of 300. Two main links take
    turns; a control link has one row a second, at its beginning.
    """
    random = np.random.default_rng(21)
    small, medium = round(share * rows), round(0.2 * rows)
    sizes = [small, max(medium // 15, 1), max((rows - small - medium) // 300, 1)]
    base = np.cumsum([0, *sizes])
    times, keys = [], []
    for window in range(windows):
        of_large = random.integers(base[2], base[3], rows - small - medium)
        key = np.concatenate([np.arange(small), random.integers(base[1], base[2], medium), of_large])
        keys.append(random.permutation(key) + window * base[3])
        times.append(np.sort(random.integers(0, width, rows)) + START + window * width)
    ts, key = np.concatenate(times), np.concatenate(keys)
    source = (np.arange(ts.size) % 2).astype(np.int8)
    seconds = np.arange(START, START + windows * width, SECOND)
    order = np.argsort(np.concatenate([seconds, ts]), kind="stable")
    ts = np.concatenate([seconds, ts])[order]
    key = np.concatenate([np.full(seconds.size, -1), key])[order]
    source = np.concatenate([np.full(seconds.size, 2, np.int8), source])[order]
    return batch(ts, key=key, len=random.integers(40, 1500, ts.size), source=source)


class Arrivals(NamedTuple):
    """Rows as they arrive: ``rows`` has their times, values and ``mark``; ``clock`` says when each one comes."""

    rows: pa.RecordBatch
    clock: Ints


def _progress(ts: Ints) -> Ints:
    """After each row: no row that follows has an earlier time than this. What a source that knows its rows can say."""
    after = np.minimum.accumulate(ts[::-1])[::-1]
    return np.append(after[1:], ts.max() + 1)


def band(rows: int, rate: int = 1000, most: int = 3_200_000) -> Arrivals:
    """Band disorder: each row comes up to 3.2 s after its time, few of them so late. ``mark``: exact punctuation."""
    random = np.random.default_rng(22)
    step = SECOND // rate
    ts = START + np.arange(rows, dtype=np.int64) * step
    delay = np.minimum(random.exponential(most / 6, rows), most).astype(np.int64)
    order = np.argsort(ts + delay, kind="stable")
    level = 500 + 100 * np.sin(np.arange(rows) * step / SECOND / 40)  # sizes of packets, which change slowly
    value = level * random.lognormal(0, 0.5, rows)
    mark = pa.array(_progress(ts[order]), pa.timestamp("us"))
    return Arrivals(batch(ts[order], value=value[order], mark=mark), (ts + delay)[order])


def blocks(rows: int, rate: int = 100, span: int = 490 * SECOND) -> Arrivals:
    """Block-sorted disorder: segments of 490 s, each in random order. ``mark``: the end of a block, at its last row."""
    random = np.random.default_rng(23)
    step = SECOND // rate
    clock = START + np.arange(rows, dtype=np.int64) * step
    ts = clock.copy()
    size = span // step
    mark = np.full(rows, -1, np.int64)
    for first in range(0, rows, size):
        part = slice(first, min(first + size, rows))
        ts[part] = random.permutation(ts[part])
        mark[part.stop - 1] = START + part.stop * step
    known = pa.array(mark, pa.timestamp("us"), mask=mark < 0)
    return Arrivals(batch(ts, value=random.random(rows), mark=known), clock)


class Link(NamedTuple):
    """Packets of one direction of a network link, ``rate`` a second."""

    rows: pa.RecordBatch
    seconds: int
    rate: int

    def second(self, number: int) -> pa.RecordBatch:
        """None before its first second and after its last."""
        return self.rows.slice(max(number, 0) * self.rate, self.rate if 0 <= number < self.seconds else 0)


def link(seconds: int, rate: int, flows: int, forth: bool, seed: int) -> Link:
    """Packets of ``flows`` NetFlows at random, evenly spaced; one direction has source and destination swapped."""
    random = np.random.default_rng(seed)
    rows = seconds * rate
    step = SECOND // max(rate, 1)
    ts = START + np.arange(rows, dtype=np.int64) * step + random.integers(0, max(step, 1), rows)
    flow = random.integers(0, flows, rows)
    here = {"ip": flow % 997, "port": (flow * 31) % 60_000}
    there = {"ip": 10_000 + flow // 997, "port": (flow * 17) % 60_000}
    source, target = (here, there) if forth else (there, here)
    columns = {"src": source["ip"], "dst": target["ip"], "sport": source["port"], "dport": target["port"]}
    return Link(batch(ts, **{n: column.astype(np.int64) for n, column in columns.items()}), seconds, rate)


# --- Hammer Slide ----------------------------------------------------------------------------------------------------


def spiky(seconds: int, most: int = 100_000) -> pa.RecordBatch:
    """Requests of a cluster: from 0 to 100,000 rows a second, log-normal, a tenth of the seconds empty."""
    random = np.random.default_rng(31)
    counts = np.minimum(random.lognormal(8, 1.5, seconds), most).astype(np.int64)
    counts[random.random(seconds) < 0.1] = 0
    second = np.repeat(np.arange(seconds, dtype=np.int64), counts)
    within = random.integers(0, SECOND, second.size)
    ts = START + np.sort(second * SECOND + within)
    return batch(ts, value=random.random(ts.size))
