"""The questions: a stream, our spec for it, and what the peers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.peers import THREADS, with_datafusion, with_duckdb, with_numpy, with_pandas, with_polars
from asv_benchmarks.peers.data import Data, Plan, Work

MINUTE, GAP = 60 * SECOND, 3 * SECOND
AGGS = {"n": sl.count(), "total": sl.sum("value"), "low": sl.min("value"), "high": sl.max("value")}


@dataclass(frozen=True)
class Workload:
    """A stream, our spec for it, and what the peers do; ``whole`` windows only are compared, of sliding ones."""

    data: Callable[[int], Data]
    spec: sl.Spec
    peers: Mapping[str, Plan]
    size: int = 0
    share: float = 1.0  # of the rows asked for
    compared: tuple[str, ...] = ()  # the columns of answers; all
    batch: int = 1_000_000  # rows of a push
    cached: bool = False  # all of it is in the cache, and each engine asked twice, of which the second counts
    calls: int = 1  # how often each engine is asked in a turn, of streams that are too small to be timed once

    def engines(self, data: Data) -> Iterator[tuple[str, Work]]:
        yield from self.ours(data, THREADS)
        for name, plan in self.peers.items():
            yield name, plan(data)

    def ours(self, data: Data, threads: int) -> Iterator[tuple[str, Work]]:
        batches = data.ours.to_batches(max_chunksize=self.batch)
        size = f"{self.batch // 1000} k" if self.batch < 1_000_000 else "1 M"
        yield f"slicing, push by {size}", lambda: _pushed(self.spec, batches, threads)
        yield "slicing, aggregate", lambda: sl.aggregate(data.ours, self.spec, threads=threads)


@dataclass(frozen=True)
class Small(Workload):
    """A table as people have it in a notebook, of the same size whatever is asked for."""

    def ours(self, data: Data, threads: int) -> Iterator[tuple[str, Work]]:
        yield "slicing, aggregate", lambda: sl.aggregate(data.ours, self.spec, threads=threads)
        yield "slicing, aggregate of polars data", lambda: sl.aggregate(data.polars, self.spec, threads=threads)


def _pushed(spec: sl.Spec, batches: Sequence[pa.RecordBatch], threads: int) -> pa.Table:
    operator = sl.Operator(spec, threads=threads)
    found = [operator.push(batch).windows for batch in batches]
    return pa.concat_tables([*found, operator.flush().windows])


def _spec(window: sl.ContextFreeWindow, keyed: bool = False, delay: int = 0) -> sl.Spec:
    watermark = sl.bounded(delay) if delay else sl.ordered()
    return sl.Spec("ts", {"w": window}, AGGS, by=["key"] if keyed else [], watermark=watermark)


def _tumbling(rate: int, **given: Any) -> Workload:
    peers = {
        "polars group_by_dynamic": with_polars.dynamic(SECOND),
        "duckdb": with_duckdb.groups(SECOND),
        "datafusion": with_datafusion.groups(SECOND),
        "pandas": with_pandas.groups(SECOND),
        "numpy reduceat": with_numpy.reduceat(SECOND),
    }
    return Workload(lambda rows: Data(streams.times(rows, rate)), _spec(sl.tumbling(SECOND)), peers, **given)


def _texts(rows: int, distinct: int) -> pa.Array:
    return streams.text(streams.keys(rows, distinct))


def _keyed(distinct: int, size: int, form: Callable[[int, int], Any] = streams.keys, **given: Any) -> Workload:
    def data(rows: int) -> Data:
        return Data(streams.times(rows, 100_000), form(rows, min(distinct, max(rows // 10, 1))))

    peers = {
        "polars group_by": with_polars.groups(size, "key"),
        "polars group_by, streaming": with_polars.groups(size, "key", engine="streaming"),
        "duckdb": with_duckdb.groups(size, "key"),
        "datafusion": with_datafusion.groups(size, "key"),
        "pandas": with_pandas.groups(size, "key"),
    }
    if form is streams.codes:
        peers["numpy bincount, minimum.at"] = with_numpy.groups(size)
    return Workload(data, _spec(sl.tumbling(size), keyed=True), peers, **given)


def _small(rows: int, distinct: int = 0) -> Workload:
    by = ["key"] if distinct else []
    peers = {
        "polars group_by": with_polars.groups(MINUTE, *by),
        "duckdb": with_duckdb.groups(MINUTE, *by),
        "pandas": with_pandas.groups(MINUTE, *by),
    }
    data = Data(streams.times(rows, 100), _texts(rows, distinct) if distinct else None)
    return Small(lambda _: data, _spec(sl.tumbling(MINUTE), keyed=bool(distinct)), peers, cached=True, calls=20)


def _late(rows: int, share: float, delay: int) -> streams.Ints:
    return streams.disordered(streams.times(rows, 100_000), share, delay)


def _disorder(rows: int) -> streams.Ints:
    return _late(rows, 0.2, 2 * SECOND)


WORKLOADS = {
    "tumbling 1 s, 100 k rows a slice": _tumbling(100_000),
    "tumbling 1 s, 1 k rows a slice": _tumbling(1000),
    "tumbling 1 s, 20 rows a slice": _tumbling(20),
    "tumbling 1 s, 1 k rows a slice, 1 M rows in cache": _tumbling(1000, share=0.1, batch=100_000, cached=True),
    "sliding 60 s / 1 s, 1 k rows a slice": Workload(
        lambda rows: Data(streams.times(rows, 1000)),
        _spec(sl.sliding(MINUTE, every=SECOND)),
        {
            "polars group_by_dynamic": with_polars.dynamic(MINUTE, SECOND),
            "polars by panes": with_polars.panes(MINUTE, SECOND),
            "duckdb by panes": with_duckdb.panes(MINUTE, SECOND),
            "datafusion by panes": with_datafusion.panes(MINUTE, SECOND),
            "numpy by panes": with_numpy.panes(MINUTE, SECOND),
        },
        size=MINUTE,
    ),
    "median, sliding 60 s / 1 s, 1 k rows a slice": Workload(
        lambda rows: Data(streams.times(rows, 1000)),
        sl.Spec("ts", {"w": sl.sliding(MINUTE, every=SECOND)}, {"middle": sl.median("value")}, watermark=sl.ordered()),
        {
            "polars group_by_dynamic": with_polars.dynamic(MINUTE, SECOND, [with_polars.MEDIAN]),
            "duckdb by rows and windows": with_duckdb.spread(MINUTE, SECOND, "median(value) middle"),
        },
        size=MINUTE,
        share=0.1,
    ),
    "20 % out of order, up to 2 s": Workload(
        lambda rows: Data(_disorder(rows), in_order=False),
        _spec(sl.tumbling(SECOND), delay=2 * SECOND),
        {
            "polars group_by": with_polars.groups(SECOND),
            "polars group_by, streaming": with_polars.groups(SECOND, engine="streaming"),
            "duckdb": with_duckdb.groups(SECOND),
            "datafusion": with_datafusion.groups(SECOND),
            "pandas": with_pandas.groups(SECOND),
        },
    ),
    "90 % out of order, up to 10 s": Workload(
        lambda rows: Data(_late(rows, 0.9, 10 * SECOND), in_order=False),
        _spec(sl.tumbling(SECOND), delay=10 * SECOND),
        {
            "polars group_by": with_polars.groups(SECOND),
            "polars group_by, streaming": with_polars.groups(SECOND, engine="streaming"),
            "duckdb": with_duckdb.groups(SECOND),
            "datafusion": with_datafusion.groups(SECOND),
        },
    ),
    "1000 keys, tumbling 1 s": _keyed(1000, SECOND),
    "100 k keys, tumbling 10 s": _keyed(100_000, 10 * SECOND),
    "1000 keys, tumbling 1 s, a row a key and slice": Workload(
        lambda rows: Data(streams.times(rows, 1000), streams.keys(rows, 1000)),
        _spec(sl.tumbling(SECOND), keyed=True),
        {
            "polars group_by": with_polars.groups(SECOND, "key"),
            "polars group_by, streaming": with_polars.groups(SECOND, "key", engine="streaming"),
            "duckdb": with_duckdb.groups(SECOND, "key"),
            "datafusion": with_datafusion.groups(SECOND, "key"),
        },
        share=0.5,
    ),
    "1 M keys, tumbling 100 s": _keyed(1_000_000, 100 * SECOND),
    "1000 dictionary keys, tumbling 1 s": _keyed(1000, SECOND, streams.codes),
    "100 k dictionary keys, tumbling 10 s": _keyed(100_000, 10 * SECOND, streams.codes),
    "1000 string keys, tumbling 1 s": _keyed(1000, SECOND, _texts, share=0.5),
    "1000 keys, out of order": Workload(
        lambda rows: Data(_disorder(rows), streams.keys(rows, 1000), in_order=False),
        _spec(sl.tumbling(SECOND), keyed=True, delay=2 * SECOND),
        {
            "polars group_by, streaming": with_polars.groups(SECOND, "key", engine="streaming"),
            "duckdb": with_duckdb.groups(SECOND, "key"),
            "datafusion": with_datafusion.groups(SECOND, "key"),
        },
    ),
    "count windows of 1000 rows": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.rows(1000)}, AGGS, watermark=sl.ordered()),
        {
            "polars group_by_dynamic": with_polars.counts(1000),
            "duckdb": with_duckdb.counts(1000),
            "numpy matrix": with_numpy.counts(1000),
        },
    ),
    "count windows of 1000 rows, 20 % out of order": Workload(
        lambda rows: Data(_disorder(rows), in_order=False),
        sl.Spec("ts", {"w": sl.rows(1000)}, AGGS, watermark=sl.bounded(2 * SECOND)),
        {"polars sort": with_polars.ranked_counts(1000), "duckdb": with_duckdb.ranked_counts(1000)},
    ),
    "min of the last 10 ms (1000 rows) at each row": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.per_row(10_000)}, {"low": AGGS["low"]}, watermark=sl.ordered()),
        {
            "polars rolling": with_polars.rolling(10_000),
            "pandas rolling": with_pandas.rolling(10_000),
            "duckdb window functions": with_duckdb.rolling(10_000),
        },
        share=0.5,
        compared=("end", "low"),
    ),
    "last 1000 rows, every 1 s": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.last_rows(1000, SECOND)}, AGGS, watermark=sl.ordered()),
        {
            "polars group_by_dynamic, tail": with_polars.tails(1000, SECOND),
            "duckdb row_number": with_duckdb.tails(1000, SECOND),
        },
    ),
    "punctuation, 1000 rows a window": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.punctuation("mark")}, AGGS, watermark=sl.ordered()),
        {
            "polars cum_sum, group_by": with_polars.marks(False),
            "duckdb window functions": with_duckdb.marks(False),
            "numpy reduceat": with_numpy.marks(False),
        },
        compared=("start", *AGGS),
    ),
    "frames of 500 rows in 1000": Workload(
        lambda rows: Data(streams.times(rows, 100_000)),
        sl.Spec("ts", {"w": sl.frame("mark", "leave")}, AGGS, watermark=sl.ordered()),
        {
            "polars cum_sum, group_by": with_polars.marks(True),
            "duckdb window functions": with_duckdb.marks(True),
            "numpy reduceat": with_numpy.marks(True),
        },
        compared=("start", *AGGS),
    ),
    "1000 keys, sessions of 3 s": Workload(
        lambda rows: Data(streams.times(rows, 1000), streams.keys(rows, 1000)),
        _spec(sl.session(GAP), keyed=True),
        {
            "polars sort": with_polars.sessions(GAP),
            "duckdb window functions": with_duckdb.sessions(GAP),
            "datafusion window functions": with_datafusion.sessions(GAP),
        },
        share=0.2,
    ),
    "small: 10 rows, tumbling 1 m": _small(10),
    "small: 1 k rows by 20 texts, tumbling 1 m": _small(1000, 20),
    "small: 100 k rows by 20 texts, tumbling 1 m": _small(100_000, 20),
}
