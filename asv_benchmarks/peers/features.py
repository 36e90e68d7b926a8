"""Features as of labels beside the best plan of each peer that we know: ``python -m asv_benchmarks.peers --joins``.

Labels with three ranges before them, four aggregates each: a label for ten events, and others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import slicing as sl

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND
SPAN = 3000 * SECOND
RANGES = {"a": 50 * SECOND, "b": 250 * SECOND, "c": 1000 * SECOND}
ANSWERS = ("n", "total", "low", "high")

Tables = tuple[pa.Table, pa.Table]
Plan = Callable[[Tables], Callable[[], object]]


@dataclass(frozen=True)
class Question:
    """So many labels for each event, of so many keys."""

    share: float
    keys: int
    plans: tuple[str, ...]


def tables(rows: int, share: float, keys: int) -> Tables:
    """Labels and events in order of time."""
    rng = np.random.default_rng(7)
    count = int(rows * share)
    labels = {"k": rng.integers(0, keys, count), "t": BEGIN + np.sort(rng.integers(0, SPAN, count))}
    labels["id"] = np.arange(count)
    events = {
        "k": rng.integers(0, keys, rows),
        "t": BEGIN + np.sort(rng.integers(0, SPAN, rows)),
        "v": rng.random(rows),
    }
    return pa.table(labels), pa.table(events)


def ours(data: Tables) -> Callable[[], pa.Table]:
    aggs = {"n": sl.count(), "total": sl.sum("v"), "low": sl.min("v"), "high": sl.max("v")}
    return lambda: sl.features(*data, on="k", time="t", ranges=RANGES, aggs=aggs)


def per_row(data: Tables) -> Callable[[], pa.Table]:
    """Today's windows of rows over the union of both tables, of which labels' windows are then taken."""
    labels, events = data
    aggs = {"n": sl.count("v"), "total": sl.sum("v"), "low": sl.min("v"), "high": sl.max("v")}
    windows = {name: sl.per_row(span, closed="left") for name, span in RANGES.items()}
    spec = sl.Spec("t", windows, aggs, by=["k"], watermark=sl.manual())

    def work() -> pa.Table:
        none = pa.nulls(labels.num_rows, pa.float64())
        both = pa.concat_tables([events, pa.table({"k": labels["k"], "t": labels["t"], "v": none})])
        found = pl.from_arrow(sl.aggregate(both, spec, threads=1))
        asked = pl.from_arrow(labels)
        for name in RANGES:
            mine = found.filter(pl.col("window") == name).unique(["k", "window_end"])
            mine = mine.select("k", pl.col("window_end").alias("t"), *(pl.col(a).alias(f"{a}_{name}") for a in ANSWERS))
            asked = asked.join(mine, on=["k", "t"], how="left", maintain_order="left")
        return asked.to_arrow()

    return work


def polars_union(data: Tables) -> Callable[[], pl.DataFrame]:
    """``rolling_*_by`` over the union of both tables, by key."""
    labels, events = (pl.from_arrow(table).lazy() for table in data)
    union = pl.concat(
        [events.with_columns(id=pl.lit(None, pl.Int64)), labels.with_columns(v=pl.lit(None, pl.Float64))],
        how="diagonal",
    )

    def work() -> pl.DataFrame:
        whole = union.sort("t").with_columns(one=pl.col("v").is_not_null().cast(pl.Int64))
        found = []
        for name, span in RANGES.items():
            window = {"window_size": f"{span}i", "closed": "left", "min_samples": 1}
            v = pl.col("v")
            found += [
                pl.col("one").rolling_sum_by("t", **window).over("k").fill_null(0).alias(f"n_{name}"),
                v.rolling_sum_by("t", **window).over("k").alias(f"total_{name}"),
                v.rolling_min_by("t", **window).over("k").alias(f"low_{name}"),
                v.rolling_max_by("t", **window).over("k").alias(f"high_{name}"),
            ]
        return whole.with_columns(found).filter(pl.col("id").is_not_null()).sort("id").drop("v", "one").collect()

    return work


def _duckdb(text: str) -> Plan:
    def plan(data: Tables) -> Callable[[], pa.Table]:
        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        for name, table in zip(("labels", "events"), data, strict=True):
            connection.register(f"arrow_{name}", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{name}")
        return lambda: connection.sql(text).to_arrow_table()

    return plan


def _grouped() -> str:
    """A range join with the longest range, grouped by label."""
    parts = []
    for name, span in RANGES.items():
        near = f"FILTER (e.t >= l.t - {span})"
        parts.append(f"count(e.t) {near} n_{name}, sum(e.v) {near} total_{name}")
        parts.append(f"min(e.v) {near} low_{name}, max(e.v) {near} high_{name}")
    longest = max(RANGES.values())
    on = f"l.k = e.k AND e.t >= l.t - {longest} AND e.t < l.t"
    return f"SELECT l.k, l.t, l.id, {', '.join(parts)} FROM labels l LEFT JOIN events e ON {on} GROUP BY ALL"


def _windowed() -> str:
    """Windows over the union of both tables."""
    named, parts = [], []
    for name, span in RANGES.items():
        frame = f"RANGE BETWEEN {span} PRECEDING AND 1 PRECEDING"
        named.append(f"{name} AS (PARTITION BY k ORDER BY t {frame})")
        parts.append(f"count(v) OVER {name} n_{name}, sum(v) OVER {name} total_{name}")
        parts.append(f"min(v) OVER {name} low_{name}, max(v) OVER {name} high_{name}")
    union = "SELECT k, t, NULL id, v FROM events UNION ALL SELECT k, t, id, NULL v FROM labels"
    inner = f"SELECT k, t, id, {', '.join(parts)} FROM ({union}) WINDOW {', '.join(named)}"
    return f"SELECT * FROM ({inner}) WHERE id IS NOT NULL"


def numpy_by_hand(data: Tables) -> Callable[[], dict[str, np.ndarray]]:
    """Events sorted by (key, time) as one number, and searched; sums are differences of prefix sums, so not exact."""
    labels, events = ({name: table[name].to_numpy() for name in table.column_names} for table in data)
    wide = SPAN + 2 * max(RANGES.values())

    def work() -> dict[str, np.ndarray]:
        first = BEGIN - max(RANGES.values())
        words = events["k"] * wide + (events["t"] - first)
        order = np.argsort(words, kind="stable")
        words, v = words[order], events["v"][order]
        sums = np.append(0.0, np.cumsum(v))
        asked = labels["k"] * wide + (labels["t"] - first)
        place = np.argsort(asked, kind="stable")  # ranges that move forward: reduceat goes over what lies between
        asked = asked[place]
        end = np.searchsorted(words, asked)
        values, found = np.append(v, 0.0), {name: column[place] for name, column in labels.items()}
        for name, span in RANGES.items():
            begin = np.searchsorted(words, asked - span)
            count = end - begin
            bounds = np.stack([begin, end], axis=1).ravel()
            found[f"n_{name}"], found[f"total_{name}"] = count, np.where(count, sums[end] - sums[begin], np.nan)
            for word, extreme in (("low", np.minimum), ("high", np.maximum)):
                found[f"{word}_{name}"] = np.where(count, extreme.reduceat(values, bounds)[::2], np.nan)
        return found

    return work


PLANS: dict[str, Plan] = {
    "slicing": ours,
    "slicing per_row over the union": per_row,
    "polars rolling over the union": polars_union,
    "duckdb range join, grouped": _duckdb(_grouped()),
    "duckdb windows over the union": _duckdb(_windowed()),
    "numpy by hand": numpy_by_hand,
}
FAST = ("slicing", "polars rolling over the union", "numpy by hand")
QUESTIONS = {
    "features, 1 label for 10 events, 1000 keys": Question(0.1, 1000, tuple(PLANS)),
    "features, 1 label for 100 events, 1000 keys": Question(0.01, 1000, FAST),
    "features, 1 label for 1 event, 1000 keys": Question(1.0, 1000, FAST),
    "features, 1 label for 10 events, 100 keys": Question(0.1, 100, FAST),
}


def answer(result: object) -> tuple[float, ...]:
    """What tells whether two results are the same: how many labels, and each column with the labels' numbers."""
    if isinstance(result, pl.DataFrame):
        result = result.to_arrow()
    elif isinstance(result, dict):
        result = pa.table({name: pa.array(column, from_pandas=True) for name, column in result.items()})
    assert isinstance(result, pa.Table)
    weight = pc.add(pc.cast(result["id"], pa.float64()), 1.0)
    words = [f"{a}_{name}" for name in RANGES for a in ANSWERS]
    sums = (
        pc.sum(pc.multiply(weight, pc.fill_null(pc.cast(result[word], pa.float64()), 0.0))).as_py() for word in words
    )
    return (float(result.num_rows), *map(float, sums))


def works(question: Question, rows: int) -> dict[str, Callable[[], object]]:
    """What each engine does."""
    data = tables(rows, question.share, question.keys)
    return {name: PLANS[name](data) for name in question.plans}
