"""Everyday questions of a notebook, beside Polars: frames in and out, one thread each, CPU time.

Most are questions in which Polars was faster once: they show where this library is not the best.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
from polars import col

import slicing as sl

HOUR = col("ts").dt.truncate("1h")
SIZES = (10_000, 100_000, 1_000_000)
Question = Callable[[pl.DataFrame], pl.DataFrame]


def table(rows: int) -> pl.DataFrame:
    """A month of readings: 1000 numbers and 20 names as keys, 100,000 texts, and as many other keys as rows, of which
    some two in three occur. One reading in 20 is null in ``w``."""
    chance = np.random.default_rng(0)
    month = 30 * 86_400_000_000
    users = pl.Series([f"user-{number:06}" for number in range(100_000)])
    names = pl.Series([f"sensor-{number}" for number in range(20)])
    return pl.DataFrame(
        {
            "ts": np.datetime64("2026-03-01", "us") + np.sort(chance.integers(0, month, rows)).astype("m8[us]"),
            "v": chance.normal(size=rows),
            "i": chance.integers(0, 1000, rows),
            "k": chance.integers(0, 1000, rows),
            "name": names.gather(chance.integers(0, 20, rows)),
            "user": users.gather(chance.integers(0, 100_000, rows)),
            "id": chance.integers(0, rows, rows) * 7919,
            "w": pl.Series(chance.normal(size=rows)).set(pl.Series(chance.random(rows) < 0.05), None),
        }
    )


def answered(window: sl.Window, agg: object, by: str | None = None) -> Question:
    spec = sl.Spec("ts", {"w": window}, {"x": agg}, by=by)  # type: ignore[dict-item]
    return lambda data: sl.aggregate(data, spec, threads=1, returns="polars")


def beside(window: sl.Window, agg: object, by: str | None = None, min_rows: int | None = None) -> Question:
    spec = sl.Spec("ts", {"w": window}, {"x": agg}, by=by)  # type: ignore[dict-item]
    return lambda data: sl.attach(data, spec, returns="same", min_rows=min_rows)


def grouped(agg: pl.Expr, *keys: object) -> Question:
    return lambda data: data.group_by(HOUR, *keys).agg(agg.alias("x"))  # type: ignore[arg-type]


def sliding(agg: pl.Expr, by: str | None = None) -> Question:
    """An hour at each minute, also the windows that begin before the first row."""
    asked = {"every": "1m", "period": "1h", "offset": "-59m", "group_by": by}
    return lambda data: data.group_by_dynamic("ts", **asked).agg(agg.alias("x"))  # type: ignore[arg-type]


def added(column: pl.Expr) -> Question:
    return lambda data: data.with_columns(column.alias("x"))


def sessions(data: pl.DataFrame) -> pl.DataFrame:
    new = (col("ts").diff() > pl.duration(minutes=5)).fill_null(True)
    return data.group_by(new.cum_sum().alias("s")).agg(pl.len().alias("x"))


_hour, _last, _minutes = sl.tumbling("1h"), sl.rows(500, every=1), sl.sliding("1h", every="1m")
_of_key, _all, _pair = sl.rows(50, every=1), sl.rows(2**40, every=1), sl.rows(2, every=1)
QUESTIONS: Mapping[str, tuple[Question, Question]] = {
    "mean an hour": (answered(_hour, sl.mean("v")), grouped(col("v").mean())),
    "mean of an hour, each minute": (answered(_minutes, sl.mean("v")), sliding(col("v").mean())),
    "mean of an hour, each minute, by 20 texts": (
        answered(_minutes, sl.mean("v"), "name"),
        sliding(col("v").mean(), "name"),
    ),
    "mean an hour by 20 texts": (answered(_hour, sl.mean("v"), "name"), grouped(col("v").mean(), "name")),
    "mean an hour by 1000 integers": (answered(_hour, sl.mean("v"), "k"), grouped(col("v").mean(), "k")),
    "rows an hour by 100,000 texts": (answered(_hour, sl.count(), "user"), grouped(pl.len(), "user")),
    "least of many texts an hour": (answered(_hour, sl.min("user")), grouped(col("user").min())),
    "median an hour by 1000 integers": (answered(_hour, sl.median("v"), "k"), grouped(col("v").median(), "k")),
    "distinct texts an hour by 20 texts": (
        answered(_hour, sl.count_distinct("user"), "name"),
        grouped(col("user").n_unique(), "name"),
    ),
    "values of an hour as a list": (answered(_hour, sl.collect("v")), grouped(col("v"))),
    "sessions of 5 minutes": (answered(sl.session("5m"), sl.count()), sessions),
    "mean of the last 500 rows beside each": (beside(_last, sl.mean("v")), added(col("v").rolling_mean(500))),
    "sum of the last 500 integers beside each": (beside(_last, sl.sum("i")), added(col("i").rolling_sum(500))),
    "deviation of the last 500 rows beside each": (beside(_last, sl.std("v")), added(col("v").rolling_std(500))),
    "least of the last 500 rows beside each": (beside(_last, sl.min("v")), added(col("v").rolling_min(500))),
    "median of the last 500 rows beside each": (beside(_last, sl.median("v")), added(col("v").rolling_median(500))),
    "mean of a key's last 50 rows beside each": (
        beside(_of_key, sl.mean("v"), "k"),
        added(col("v").rolling_mean(50).over("k")),
    ),
    "running total beside each": (beside(_all, sl.sum("v"), min_rows=1), added(col("v").cum_sum())),
    "running total of the key beside each": (
        beside(_all, sl.sum("v"), "k", min_rows=1),
        added(col("v").cum_sum().over("k")),
    ),
    "value before beside each": (beside(_pair, sl.argmin("ts", "w")), added(col("w").shift())),
    "value of the key before beside each": (
        beside(_pair, sl.argmin("ts", "w"), "k"),
        added(col("w").shift().over("k")),
    ),
    "last known value of the key beside each": (
        beside(_all, sl.last("w"), "k", min_rows=1),
        added(col("w").forward_fill().over("k")),
    ),
    "mean of the last 20 rows, some null": (
        beside(sl.rows(20, every=1), sl.mean("w"), min_rows=1),
        added(col("w").rolling_mean(20, min_samples=1)),
    ),
    "distinct texts so far beside each": (
        beside(_all, sl.count_distinct("user"), min_rows=1),
        added(col("user").is_first_distinct().cum_sum()),
    ),
    "total of each of many keys": (
        answered(sl.whole(), sl.sum("v"), "id"),
        lambda data: data.group_by("id").agg(col("v").sum().alias("x")),
    ),
    "last text of each of many keys": (
        answered(sl.whole(), sl.last("user"), "id"),
        lambda data: data.group_by("id").agg(col("user").last().alias("x")),
    ),
    "mean of the last hour beside each": (
        beside(sl.per_row("1h"), sl.mean("v")),
        added(col("v").rolling_mean_by("ts", window_size="1h")),
    ),
    "mean of the hour beside each": (beside(_hour, sl.mean("v")), added(col("v").mean().over(HOUR))),
    "mean of the key beside each": (beside(sl.whole(), sl.mean("v"), "k"), added(col("v").mean().over("k"))),
}


def differ(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether the answers differ, as values in any order."""
    values = []
    for answers in (one["x"], other["x"]):
        while answers.dtype == pl.List:
            answers = answers.explode()
        numbers = answers if answers.dtype == pl.String else answers.cast(pl.Float64).round(6)
        values.append(numbers.sort())
    first, second = values
    if first.dtype == pl.String or len(first) != len(second):
        return not first.equals(second)
    return not np.allclose(first.to_numpy(), second.to_numpy(), rtol=1e-6, atol=2e-6, equal_nan=True)


def main(sizes: Sequence[int], runs: int, only: str) -> int:
    """Print the times of both, worst first; 1 if any answers differ."""
    failed = 0
    for rows in sizes:
        data, found = table(rows), []
        for title, works in QUESTIONS.items():
            if only not in title:
                continue
            if differ(*(work(data) for work in works)):
                failed = 1
                print(f"{title}: ANSWERS DIFFER")
            spent: list[list[float]] = [[], []]
            for _ in range(runs):
                for work, seconds in zip(works, spent, strict=True):
                    start = time.process_time()
                    work(data)
                    seconds.append(time.process_time() - start)
            ours, theirs = (max(min(seconds), 1e-6) * 1e3 for seconds in spent)
            found.append((ours / theirs, ours, theirs, title))
        print(f"\n{rows:,} rows; CPU ms, the least of {runs} runs {'here':>12}{'Polars':>10}{'times':>8}")
        for times, ours, theirs, title in sorted(found, reverse=True):
            print(f"  {title:46}{ours:10.2f}{theirs:10.2f}{times:8.2f}", flush=True)
        if found:
            print(f"  {'geometric mean':66}{statistics.geometric_mean(row[0] for row in found):8.2f}", flush=True)
    return failed
