"""Random tables of real size: the same rows as Polars, DuckDB and pandas find."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl

BASE = 1_700_000_000_000_000_000
YEAR = 365 * 86_400 * 10**9
HOUR = 3600 * 10**9


def tables(seed: int, rows: int, keys: int, ordered: bool) -> tuple[pa.Table, pa.Table]:
    """Nanoseconds over three years, many of them alike."""
    rng = np.random.default_rng(seed)

    def side(name: str) -> pa.Table:
        times = BASE + rng.integers(0, 3 * YEAR, rows) // HOUR * HOUR + rng.integers(0, 2, rows)
        times = np.sort(times) if ordered else times
        number = rng.integers(0, keys, rows)
        key = pa.array([None if n == 0 else f"k{n}" for n in number.tolist()])
        return pa.table({"t": pa.array(times).cast(pa.timestamp("ns")), "k": key, name: np.arange(rows)})

    return side("a"), side("b")


def pairs(table: pa.Table) -> list[tuple]:
    """The numbers of both rows of each result, -1 where there is none, in order."""
    columns = [table[name].fill_null(-1).to_pylist() for name in ("a", "b")]
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize(("keys", "before", "after"), [(3, 48, 24), (50, -1, 400), (50, 300, 0), (400, 9000, 9000)])
def test_band_joins_are_those_of_duckdb(how: str, keys: int, before: int, after: int) -> None:
    left, right = tables(keys, 3000, keys, ordered=False)
    found = sl.join(left, right, on="k", time="t", within=(f"{before}h", f"{after}h"), how=how)
    near = f"l.k = r.k AND epoch_ns(r.t) BETWEEN epoch_ns(l.t) - {before * HOUR} AND epoch_ns(l.t) + {after * HOUR}"
    if how in ("semi", "anti"):
        query = f"SELECT l.a FROM l WHERE {'NOT' if how == 'anti' else ''} EXISTS (FROM r WHERE {near}) ORDER BY a"
        expected = [a for (a,) in connected(left, right).sql(query).fetchall()]
        assert found["a"].to_pylist() == expected
        return
    query = f"SELECT l.a, r.b FROM l {how.upper()} JOIN r ON {near}"
    expected = pairs(connected(left, right).sql(query).to_arrow_table())
    assert pairs(found) == expected
    assert len(expected) > 1000


def connected(left: pa.Table, right: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("l", left)
    connection.register("r", right)
    return connection


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("tolerance", [None, 30])
@pytest.mark.parametrize("ordered", [True, False])
def test_as_of_joins_are_those_of_pandas(strategy: str, tolerance: int | None, ordered: bool) -> None:
    """Whose ties in distance go to the earlier one, too; which of equal times it takes is another matter."""
    left, right = tables(7, 3000, 20, ordered)
    time_of = np.append(right["t"].to_numpy().astype(np.int64), -1)
    left, right = (table.filter(table["k"].is_valid()) for table in (left, right))
    span = None if tolerance is None else f"{tolerance * 24}h"
    within = {"backward": (span, "0s"), "forward": ("0s", span), "nearest": (span, span)}[strategy]
    match = {"backward": "last", "forward": "first", "nearest": "nearest"}[strategy]
    found = sl.join(left, right, on="k", time="t", within=within, match=match, how="left")
    frames = [table.to_pandas().sort_values("t", kind="stable") for table in (left, right)]
    gap = None if tolerance is None else pd.Timedelta(days=tolerance)
    expected = pd.merge_asof(*frames, on="t", by="k", direction=strategy, tolerance=gap).sort_values("a")
    assert found["a"].to_pylist() == expected["a"].tolist()
    partners = expected["b"].fillna(-1).astype(int).to_numpy()
    ours = found["b"].fill_null(-1).to_numpy()
    assert (time_of[ours] == time_of[partners]).all()
    if strategy == "backward":
        assert (ours == partners).all()


@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of_joins_are_those_of_polars(how: str) -> None:
    left, right = tables(11, 5000, 40, ordered=True)
    left, right = (table.filter(table["k"].is_valid()) for table in (left, right))
    found = sl.join(left, right, on="k", time="t", within=(None, "0s"), match="last", how=how)
    expected = pl.from_arrow(left).join_asof(pl.from_arrow(right), on="t", by="k", check_sortedness=False)
    expected = expected if how == "left" else expected.filter(pl.col("b").is_not_null())
    assert found["b"].to_pylist() == expected["b"].to_list()


@pytest.mark.parametrize("how", ["inner", "full"])
def test_window_joins_are_those_of_a_join_by_day(how: str) -> None:
    left, right = tables(13, 3000, 5, ordered=False)
    found = sl.join(left, right, on="k", time="t", within=sl.calendar("1mo", tz="America/New_York"), how=how)
    zone = {"time_zone": "America/New_York"}
    month = [
        pl.from_arrow(table).with_columns(
            month=pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone(**zone).dt.truncate("1mo")
        )
        for table in (left, right)
    ]
    expected = month[0].join(month[1], on=["k", "month"], how=how, coalesce=True)
    assert pairs(found) == pairs(expected.to_arrow())
    assert found.num_rows > 10_000


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_gives_what_the_tables_give(threads: int) -> None:
    """Both sides in turn, 20 % of the rows late by up to two weeks; text keys, strings and nulls among the columns."""
    left, right = tables(17, 60_000, 300, ordered=True)
    rng = np.random.default_rng(3)
    shuffled = []
    for table in (left, right):
        late = np.where(rng.random(60_000) < 0.2, rng.integers(0, 14 * 24 * HOUR, 60_000), 0)
        came = table["t"].to_numpy().astype(np.int64) + late
        shuffled.append(table.take(pa.array(np.argsort(came, kind="stable"))))
    spec = sl.JoinSpec(on="k", time="t", within=("10d", "20d"), how="full", watermark=sl.bounded("15d"))
    op, outs = sl.JoinOperator(spec, threads=threads), []
    for at in range(0, 60_000, 5000):
        outs += [op.push_left(shuffled[0].slice(at, 5000)), op.push_right(shuffled[1].slice(at, 5000))]
    outs.append(op.flush())
    assert sum(out.stats.late_left + out.stats.late_right for out in outs[:-1]) == 0
    streamed = pa.concat_tables([out.rows for out in outs if out.rows.num_rows])
    assert pairs(streamed) == pairs(sl.join(left, right, spec))
    held = [out.stats.held for out in outs[4:-1]]
    assert max(held) < 25_000  # of 120,000
