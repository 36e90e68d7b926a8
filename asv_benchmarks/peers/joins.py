"""Joins of two streams beside the best plan of each peer that we know: ``python -m asv_benchmarks.peers --joins``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import slicing as sl
from asv_benchmarks.peers import features
from slicing.joins.exchange import state_of

SECOND = 10**9
SPAN = 1000 * SECOND
BEGIN = 1_700_000_000 * SECOND

Tables = tuple[pa.Table, pa.Table]
Answer = tuple[int, float]  # how many rows, and the sum of a product of both sides' values
Plan = Callable[[Tables, int], Callable[[], object]]


@dataclass(frozen=True)
class Join:
    """A question: two streams, a band (right rows up to ``band`` after the left one), and who answers it."""

    keys: int
    band: int
    late: float
    plans: Mapping[str, Plan]


def tables(rows: int, keys: int, late: float) -> Tables:
    """Two streams in order of time, or with a share of rows that come up to 10 s late."""

    def side(seed: int, value: str) -> pa.Table:
        rng = np.random.default_rng(seed)
        times = BEGIN + np.sort(rng.integers(0, SPAN, rows))
        if late:
            times -= np.where(rng.random(rows) < late, rng.integers(0, 10 * SECOND, rows), 0)
        columns = {
            "k": rng.integers(0, keys, rows),
            "t": times,
            f"{value}_id": np.arange(rows),
            value: rng.random(rows),
        }
        return pa.table(columns)

    return side(1, "a"), side(2, "b")


# --- band joins ------------------------------------------------------------------------------------------------------


def ours(how: str = "inner", **given: object) -> Plan:
    def plan(data: Tables, band: int) -> Callable[[], pa.Table]:
        asked = {"on": "k", "time": "t", "within": (0, band), "how": how} | given
        return lambda: sl.join(*data, **asked)

    return plan


def polars_buckets(semi: bool = False) -> Plan:
    """By (key, bucket of the band's length): each left row reaches two of them; then a filter."""

    def plan(data: Tables, band: int) -> Callable[[], pl.DataFrame]:
        left, right = (pl.from_arrow(table).lazy() for table in data)

        def work() -> pl.DataFrame:
            first = left.with_columns(bucket=pl.col("t") // band)
            both = pl.concat([first, first.with_columns(pl.col("bucket") + 1)])
            joined = both.join(right.with_columns(bucket=pl.col("t") // band), on=["k", "bucket"])
            near = joined.filter(pl.col("t_right").is_between(pl.col("t"), pl.col("t") + band)).drop("bucket")
            if semi:
                return left.join(near.select("a_id"), on="a_id", how="semi").collect()
            return near.collect()

        return work

    return plan


def duckdb_as_written(semi: bool = False) -> Plan:
    near = "l.k = r.k AND r.t BETWEEN l.t AND l.t + {band}"
    text = f"SELECT * FROM l WHERE EXISTS (FROM r WHERE {near})" if semi else f"SELECT * FROM l JOIN r ON {near}"
    return _duckdb(text)


def duckdb_buckets(semi: bool = False) -> Plan:
    wide = "(SELECT *, unnest([t // {band}, t // {band} + 1]) bucket FROM l)"
    near = "l.k = r.k AND l.bucket = r.t // {band} AND r.t BETWEEN l.t AND l.t + {band}"
    pairs = f"FROM {wide} l JOIN r ON {near}"
    return _duckdb(f"SELECT * FROM l WHERE a_id IN (SELECT l.a_id {pairs})" if semi else f"SELECT * {pairs}")


def _duckdb(text: str) -> Plan:
    def plan(data: Tables, band: int) -> Callable[[], pa.Table]:
        connection = duckdb.connect()  # with tables of its own: quicker than scanning Arrow
        connection.execute("SET threads = 1")
        for name, table in zip("lr", data, strict=True):
            connection.register(f"arrow_{name}", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")
        return lambda: connection.sql(text.format(band=band)).to_arrow_table()

    return plan


def numpy_searched(data: Tables, band: int) -> Callable[[], dict[str, np.ndarray]]:
    """Both sides sorted by (key, time) as one number, and searched."""
    left, right = ({name: table[name].to_numpy() for name in table.column_names} for table in data)

    def work() -> dict[str, np.ndarray]:
        wide = SPAN + 20 * SECOND + 2 * band
        words, others = (side["k"] * wide + (side["t"] - BEGIN + 10 * SECOND) for side in (left, right))
        order = np.argsort(others)
        others = others[order]
        first = np.searchsorted(others, words)
        count = np.searchsorted(others, words + band, "right") - first
        row = np.repeat(np.arange(words.size), count)
        place = np.arange(row.size) + np.repeat(first - np.cumsum(count) + count, count)
        partner = order[place]
        return {n: c[row] for n, c in left.items()} | {n: right[n][partner] for n in ("t", "b_id", "b")}

    return work


# --- as-of joins -----------------------------------------------------------------------------------------------------


def pandas_asof(data: Tables, band: int) -> Callable[[], pd.DataFrame]:
    left, right = (table.to_pandas() for table in data)
    return lambda: pd.merge_asof(left, right, on="t", by="k")


def polars_asof(data: Tables, band: int) -> Callable[[], pl.DataFrame]:
    left, right = (pl.from_arrow(table).set_sorted("t") for table in data)
    return lambda: left.join_asof(right, on="t", by="k", check_sortedness=False)


# --- the table -------------------------------------------------------------------------------------------------------


def _bands(semi: bool = False) -> dict[str, Plan]:
    peers = {
        "polars by buckets": polars_buckets(semi),
        "duckdb by buckets": duckdb_buckets(semi),
    }
    return {"slicing": ours("semi" if semi else "inner")} | peers


NUMPY = {"numpy searchsorted": numpy_searched}
WRITTEN = {"duckdb range join": duckdb_as_written()}
ASOF = {
    "slicing": ours("left", within=(None, 0), match="last"),
    "pandas merge_asof": pandas_asof,
    "polars join_asof": polars_asof,
    "duckdb ASOF": _duckdb("SELECT l.*, r.* EXCLUDE (k, t) FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.t >= r.t"),
}
JOINS = {
    "band 3 s, 1000 keys": Join(1000, 3 * SECOND, 0, _bands() | NUMPY),
    "band 300 s, 100 k keys": Join(100_000, 300 * SECOND, 0, _bands() | NUMPY | WRITTEN),
    "band 3 s, 1000 keys, 20 % late": Join(1000, 3 * SECOND, 0.2, _bands() | NUMPY),
    "band 300 s, 100 k keys, 20 % late": Join(100_000, 300 * SECOND, 0.2, _bands() | NUMPY | WRITTEN),
    "semi, band 3 s, 1000 keys": Join(1000, 3 * SECOND, 0, _bands(semi=True)),
    "semi, band 300 s, 100 k keys": Join(100_000, 300 * SECOND, 0, _bands(semi=True)),
    "as-of, 1000 keys": Join(1000, 0, 0, ASOF),
    "as-of, 100 k keys": Join(100_000, 0, 0, ASOF),
}


class Disagreement(Exception):
    """An engine that gives another answer."""


def answer(result: object) -> Answer:
    """What tells whether two results are the same rows."""
    if isinstance(result, pd.DataFrame):
        result = pa.Table.from_pandas(result, preserve_index=False)
    elif isinstance(result, pl.DataFrame):
        result = result.to_arrow()
    elif isinstance(result, dict):
        result = pa.table(result)
    assert isinstance(result, pa.Table)
    one = result["a_id"]
    other = result["b_id"] if "b_id" in result.column_names else one
    product = pc.multiply(pc.cast(one, pa.float64()), pc.add(pc.cast(other, pa.float64()), 1.0))
    return result.num_rows, float(pc.sum(product).as_py() or 0.0)


def compare(join: Join, rows: int, runs: int) -> dict[str, float]:
    """Rows a second of both sides, by engine."""
    data = tables(rows, join.keys, join.late)
    return measured({name: plan(data, join.band) for name, plan in join.plans.items()}, answer, 2 * rows, runs)


def measured(
    works: Mapping[str, Callable[[], object]],
    told: Callable[[object], tuple[float, ...]],
    rows: int,
    runs: int,
) -> dict[str, float]:
    """Rows a second, by engine: the least CPU time of some interleaved rounds. ``told``: what is the same for all."""
    expected: tuple[float, ...] | None = None
    for name, work in works.items():  # also the warm-up
        found = told(work())
        expected = expected or found
        if found[0] != expected[0] or not np.allclose(found, expected, rtol=1e-9):
            raise Disagreement(f"{name} gives {found}, {next(iter(works))} {expected}")
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            start = time.process_time()
            result = work()
            spent[name].append(max(time.process_time() - start, 1e-9))
            del result
    return {name: rows / min(seconds) for name, seconds in spent.items()}


def show(title: str, rates: dict[str, float]) -> None:
    best = max(rate for name, rate in rates.items() if not name.startswith("slicing"))
    print(f"\n{title}\n  {'':34}{'M rows/s':>10}{'of best peer':>14}")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        print(f"  {name:34}{rate / 1e6:10.1f}{rate / best:14.2f}", flush=True)


# --- pushes ----------------------------------------------------------------------------------------------------------


def pushes(rows: int, keys: int, band: int, batch: int, late: float = 0.0) -> dict[str, float]:
    """Both sides in turn, a left outer join: the rate, the times of pushes (both sides), and what is kept."""
    left, right = tables(rows, keys, late)
    delay = 10 * SECOND if late else 0
    spec = sl.JoinSpec("k", "t", (band // 2, band // 2), how="left", watermark=sl.bounded(delay))
    op, spent, kept, of_payload, pairs = sl.JoinOperator(spec), [], [], [], 0
    for at in range(0, rows, batch):
        start = time.process_time()
        out = op.push_left(left.slice(at, batch))
        pairs += out.stats.joined
        out = op.push_right(right.slice(at, batch))
        spent.append(time.process_time() - start)
        pairs += out.stats.joined
        kept.append(out.stats.bytes / max(out.stats.held, 1))
        of_payload.append(sum(side.next - side.base for side in state_of(op).sides) / max(out.stats.held, 1))
    settled = spent[len(spent) // 4 :]
    return {
        "M rows/s": 2 * batch * len(settled) / sum(settled) / 1e6,
        "p50 ms": 1e3 * statistics.median(settled),
        "longest ms": 1e3 * max(settled),
        "pairs a row": pairs / rows,
        "bytes a row kept": statistics.median(kept),
        "rows in memory for one kept": max(of_payload[len(spent) // 4 :]),
    }


PUSHES = {
    "pushes of 10 k rows, 1000 keys, band 2 s": (1000, 2 * SECOND, 10_000, 0.0),
    "pushes of 100 k rows, 1000 keys, band 2 s": (1000, 2 * SECOND, 100_000, 0.0),
    "pushes of 10 k rows, 100 k keys, band 120 s": (100_000, 120 * SECOND, 10_000, 0.0),
    "pushes of 10 k rows, 100 k keys, band 120 s, 20 % late": (100_000, 120 * SECOND, 10_000, 0.2),
    "pushes of 1 k rows, 100 k keys, band 120 s": (100_000, 120 * SECOND, 1000, 0.0),
}


def main(rows: int, runs: int, only: str) -> int:
    print(f"{rows:,} rows a side, one thread each, CPU time, least of {runs}; answers agree where a table is shown")
    failed = False
    for title, join in JOINS.items():
        if only in title:
            try:
                show(title, compare(join, rows, runs))
            except Disagreement as wrong:
                failed = True
                print(f"\n{title}\n  ANSWERS DIFFER: {wrong}", flush=True)
    for title, question in features.QUESTIONS.items():
        if only in title:
            both = int(rows * (1 + question.share))
            show(title, measured(features.works(question, rows), features.answer, both, runs))
    for title, (keys, band, batch, late) in PUSHES.items():
        if only in title:
            found = pushes(rows, keys, band, min(batch, rows), late)
            print(f"\n{title}\n  " + ", ".join(f"{name} {number:.2f}" for name, number in found.items()), flush=True)
    return int(failed)
