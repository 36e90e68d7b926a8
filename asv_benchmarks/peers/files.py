"""A stream in Parquet files, which every engine reads itself: two of six columns and a key are asked for."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import polars as pl
import pyarrow as pa

import slicing as sl
from asv_benchmarks.benchmarks import streams
from asv_benchmarks.benchmarks.files import written
from asv_benchmarks.benchmarks.streams import SECOND
from asv_benchmarks.peers import THREADS, with_duckdb, with_polars
from asv_benchmarks.peers.data import Data, Work
from asv_benchmarks.peers.workloads import AGGS, Workload


class Files(Data):
    """The same stream, written once; engines are given the folder."""

    @cached_property
    def folder(self) -> str:
        self._room = TemporaryDirectory()
        written(self.ours, Path(self._room.name))
        return self._room.name

    @cached_property
    def polars(self) -> pl.LazyFrame:  # type: ignore[override]
        return pl.scan_parquet(f"{self.folder}/*.parquet")

    @cached_property
    def duckdb(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        connection.execute(f"SET threads = {THREADS}")
        connection.execute(f"CREATE VIEW stream AS SELECT * FROM '{self.folder}/*.parquet'")
        return connection


class FromParquet(Workload):
    """Asked of files."""

    def ours(self, data: Data, threads: int) -> Iterator[tuple[str, Work]]:
        assert isinstance(data, Files)
        yield "slicing, aggregate", lambda: sl.aggregate(data.folder, self.spec, threads=threads)


def _from_parquet(keys: int) -> FromParquet:
    def data(rows: int) -> Files:
        few = min(keys, max(rows // 10, 1))
        return Files(streams.times(rows, 100_000), streams.keys(rows, few) if keys else None, in_order=not keys)

    by = ["key"] if keys else []
    peers = {
        "polars group_by": with_polars.groups(SECOND, *by),
        "polars group_by, streaming": with_polars.groups(SECOND, *by, engine="streaming"),
        "duckdb": with_duckdb.groups(SECOND, *by),
    }
    return FromParquet(data, sl.Spec("ts", {"w": sl.tumbling(SECOND)}, AGGS, by=by), peers)


FROM_PARQUET = {
    "from Parquet, tumbling 1 s, 100 k rows a slice": _from_parquet(0),
    "from Parquet, 1000 keys, tumbling 1 s": _from_parquet(1000),
}


# --- memory -----------------------------------------------------------------------------------------------------------

ENGINES = ("slicing", "polars", "polars, streaming", "duckdb")


def peaks(folder: str, keys: tuple[str, ...], size: int, threads: int) -> dict[str, tuple[int, int]]:
    """Of each engine, in a process of its own: the most memory it had, and what it had before it was asked, in MB."""
    found = {}
    for engine in ENGINES:
        command = [sys.executable, "-c", f"from asv_benchmarks.peers.files import measure; measure({engine!r}, "]
        command[-1] += f"{folder!r}, {keys!r}, {size}, {threads})"
        command += ["--all-threads"] if threads > 1 else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak, before = map(int, done.stdout.split()[-2:])
        found[engine] = peak, before
    return found


def measure(engine: str, folder: str, keys: tuple[str, ...], size: int, threads: int) -> None:
    """Ask one engine, and print the peak of this process's memory; every engine is loaded before, which all pay."""
    pa.set_cpu_count(threads)
    before = _resident()
    if engine == "slicing":
        spec = sl.Spec("ts", {"w": sl.tumbling(size)}, AGGS, by=keys)
        sl.aggregate(folder, spec, threads=threads)
    elif engine == "duckdb":
        connection = duckdb.connect()
        connection.execute(f"SET threads = {threads}")
        by = "".join(f", {key}" for key in keys)
        query = f"SELECT ts // {size} * {size} AS start{by}, {with_duckdb.AGGS} FROM '{folder}/*.parquet' GROUP BY ALL"
        connection.sql(query).to_arrow_table()
    else:
        slot = (pl.col("ts") // size * size).alias("start")
        asked = pl.scan_parquet(f"{folder}/*.parquet").group_by(slot, *keys).agg(*with_polars.AGGS)
        asked.collect(engine="streaming" if engine.endswith("streaming") else "auto")
    print(_resident(), before)


def _resident() -> int:
    """The most memory so far, in MB; Linux counts in ``ru_maxrss`` what the parent process had."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
