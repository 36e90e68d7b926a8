"""Calendar windows that begin with every step, or grow by steps: the last seven days, the year so far."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from clocks import begins, edges_by_the_minute, shown

import slicing as sl

N = {"n": sl.count()}
CASES = int(os.environ.get("SLICING_CASES", "20"))
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"]
ZONES += ["Pacific/Apia", "America/Havana"]
SLIDE = [("7d", "1d", 7, "6h"), ("1w", "1d", 7, None), ("6d", "2d", 3, "-7h"), ("2w", "1w", 2, "-1d")]
SLIDE += [("3mo", "1mo", 3, None), ("1q", "1mo", 3, "14d"), ("1y", "1q", 4, "1mo"), ("18mo", "6mo", 3, "3mo9h")]
# unit, step, offset, and the offset of the steps
GROW = [("1w", "1d", "-1d", ""), ("2w", "1w", None, ""), ("4d", "2d", "6h", "6h"), ("1mo", "1d", None, "")]
GROW += [("1mo", "1d", "14d6h", "6h"), ("1y", "1mo", "3mo", ""), ("1y", "1q", None, ""), ("1q", "1d", "1mo", "")]
GROW += [("2q", "1mo", "-1d", "-1d"), ("1y", "1q", "4mo9d", "1mo9d")]
BY_CLOCK = [("1d", "1h", None), ("1d", "15m", None), ("1d", "6h", "6h"), ("1w", "12h", "-1d"), ("1mo", "3h", "14d9h")]
NEAR = [(2011, 12, 30), (2026, 3, 29), (2025, 11, 2), (2018, 11, 4), (1969, 12, 31)]


def some_times(chance: random.Random, hours: int) -> list[datetime]:
    middle = datetime(*chance.choice(NEAR))
    return [middle + timedelta(minutes=chance.randrange(-hours * 60, hours * 60)) for _ in range(20)]


def check(spec: sl.Spec, times: list[datetime], wanted: Counter[tuple[datetime, datetime]], type: pa.DataType) -> None:
    rows = pa.table({"t": pa.array(times, pa.timestamp("us")).cast(type)})
    found = sl.aggregate(rows, spec)
    starts, ends = (found[name].cast(pa.timestamp("us")).to_pylist() for name in ("window_start", "window_end"))
    assert dict(zip(zip(starts, ends, strict=True), found["n"].to_pylist(), strict=True)) == wanted, spec
    op = sl.Operator(spec)
    for at in range(0, len(times), 7):
        op.push(rows.slice(at, 7))
        op = sl.Operator.restore(spec, op.snapshot())
    pushed = op.flush().windows
    assert pushed.sort_by([("window_end", "ascending"), ("window_start", "ascending")]).equals(
        found.sort_by([("window_end", "ascending"), ("window_start", "ascending")])
    )
    # a stream in order, whose windows close as it goes
    order = sorted(times)
    op, closed = sl.Operator(sl.Spec("t", spec.windows, spec.aggs)), 0
    for at in range(0, len(order), 3):
        closed += op.push(pa.table({"t": pa.array(order[at : at + 3], pa.timestamp("us")).cast(type)})).windows.num_rows
    assert closed + op.flush().windows.num_rows == len(wanted)


def type_of(chance: random.Random, zone: str) -> pa.DataType:
    return pa.timestamp(chance.choice(["s", "us", "ns"]), zone)


@pytest.mark.parametrize("case", range(CASES))
def test_units_that_begin_with_every_step(case: int) -> None:
    chance = random.Random(f"slide {case}")
    zone, (unit, every, steps, offset) = chance.choice(ZONES), chance.choice(SLIDE)
    times = some_times(chance, 1500)
    wanted: Counter[tuple[datetime, datetime]] = Counter()
    for time in times:
        edges = begins(every, offset or "", time, zone, steps + 2, steps + 3)
        held = [(start, end) for start, end in zip(edges, edges[steps:], strict=False) if start <= time < end]
        assert len(held) == steps
        wanted.update(held)
    spec = sl.Spec(
        "t", {"w": sl.calendar(unit, zone, every=every, offset=offset)}, {"n": sl.count()}, watermark=sl.manual()
    )
    check(spec, times, wanted, type_of(chance, zone))


@pytest.mark.parametrize("case", range(CASES))
def test_units_that_grow_by_steps(case: int) -> None:
    chance = random.Random(f"grow {case}")
    zone, (unit, every, offset, of_steps) = chance.choice(ZONES), chance.choice(GROW)
    times = some_times(chance, 1500)
    wanted: Counter[tuple[datetime, datetime]] = Counter()
    for time in times:
        cycles = begins(unit, offset or "", time, zone)
        start, last = max(at for at in cycles if at <= time), min(at for at in cycles if at > time)
        edges = begins(every, of_steps, time, zone, 3, 100 if every == "1d" else 14)
        wanted.update((start, end) for end in edges if time < end <= last)
    window = sl.calendar(unit, zone, every=every, cumulate=True, offset=offset)
    check(sl.Spec("t", {"w": window}, {"n": sl.count()}, watermark=sl.manual()), times, wanted, type_of(chance, zone))


@pytest.mark.parametrize("case", range(CASES // 2))
def test_units_that_grow_by_the_clock(case: int) -> None:
    chance = random.Random(f"clock {case}")
    zone, (unit, every, offset) = chance.choice(ZONES), chance.choice(BY_CLOCK)
    times = some_times(chance, 60)
    step = {"1h": 3600, "15m": 900, "6h": 21_600, "12h": 43_200, "3h": 10_800}[every]
    low, high = (int(at.replace(tzinfo=UTC).timestamp()) for at in (min(times), max(times) + timedelta(days=33)))
    clock = [shown(ZoneInfo(zone), at) for at in range(low - 60, high, 60)]
    edges = [datetime(1970, 1, 1) + timedelta(seconds=at) for at in edges_by_the_minute(clock, low, step)]
    wanted: Counter[tuple[datetime, datetime]] = Counter()
    for time in times:
        cycles = begins(unit, offset or "", time, zone)
        start, last = max(at for at in cycles if at <= time), min(at for at in cycles if at > time)
        wanted.update((start, end) for end in edges if time < end <= last)
    window = sl.calendar(unit, zone, every=every, cumulate=True, offset=offset)
    check(sl.Spec("t", {"w": window}, {"n": sl.count()}, watermark=sl.manual()), times, wanted, type_of(chance, zone))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_rows_of_many_years_at_the_ends_of_calendars(zone: str) -> None:
    """Few rows, thousands of years apart: only the years around them are listed."""
    seconds = np.array([-62_000_000_000, -40_000_000_000, 0, 1_700_000_000, 100_000_000_000, 253_000_000_000])
    rows = pa.table({"t": pa.array(seconds).cast(pa.timestamp("s", zone)), "v": np.arange(6)})
    for window, count in (
        (sl.calendar("7d", zone, every="1d"), 42),
        (sl.calendar("4y", zone, every="2y"), 12),
        (sl.calendar("1mo", zone, every="1d", cumulate=True), None),
    ):
        found = sl.aggregate(rows, sl.Spec("t", {"w": window}, {"v": sl.sum("v")}))
        assert count is None or len(found) == count
        for row in found.to_pylist():
            start, end = (row[name].timestamp() for name in ("window_start", "window_end"))
            assert row["v"] == sum(v for v, at in enumerate(seconds.tolist()) if start <= at < end)
    late = pa.table({"t": pa.array([253_402_300_000]).cast(pa.timestamp("s", "UTC"))})
    with pytest.raises(ValueError, match="cover years 1 to 9999"):
        sl.aggregate(late, sl.Spec("t", {"w": sl.calendar("7d", zone, every="1d")}, {"n": sl.count()}))


def test_the_week_of_active_users() -> None:
    at = [datetime(2026, 3, day, 12) for day in (1, 2, 2, 8, 9, 30)]
    rows = pa.table({"t": pa.array(at, pa.timestamp("us", "Europe/Berlin")), "user": list("abcaab")})
    spec = sl.Spec("t", {"w": sl.calendar("7d", "Europe/Berlin", every="1d")}, {"users": sl.count_distinct("user")})
    ends = sl.aggregate(rows, spec).select(["window_end", "users"]).to_pylist()
    days = {row["window_end"].astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None): row["users"] for row in ends}
    assert days[datetime(2026, 3, 2)] == 1 and days[datetime(2026, 3, 8)] == 3 and days[datetime(2026, 3, 10)] == 1


def test_shares_keys_early_results_and_late_rows() -> None:
    """Half of each month so far, and corrections of late rows."""
    at = [datetime(2026, month, day) for month, day in ((1, 5), (2, 3), (2, 27), (1, 20), (5, 1))]
    rows = pa.table({"t": pa.array(at, pa.timestamp("us", "UTC")), "k": ["a"] * 5, "v": [1, 2, 4, 8, 16]})
    grows = sl.calendar("1y", every="1mo", cumulate=True)
    spec = sl.Spec(
        "t", {"w": grows}, {"s": sl.sum("v")}, by="k", emit="updates", allowed_lateness="60d", watermark=sl.bounded(0)
    )
    op = sl.Operator(spec)
    found = [op.push(rows.slice(n, 1)).windows.to_pylist() for n in range(5)] + [op.flush().windows.to_pylist()]
    assert [[(row["window_end"].month, row["s"]) for row in rows] for rows in found] == [
        [], [(2, 1)], [], [(2, 9)], [(3, 15), (4, 15), (5, 15)],
        [(6, 31), (7, 31), (8, 31), (9, 31), (10, 31), (11, 31), (12, 31), (1, 31)],
    ]  # fmt: skip
    with pytest.raises(ValueError, match="it gives the rows so far at each of its steps already"):
        sl.Spec("t", {"w": grows}, {"s": sl.sum("v")}, emit="updates", trigger=sl.after_share(0.5))
    slides = sl.calendar("2mo", every="1mo")
    spec = sl.Spec("t", {"w": slides}, {"s": sl.sum("v")}, emit="updates", trigger=sl.after_share(0.5))
    op = sl.Operator(spec)
    out = op.push(pa.table({"t": pa.array(at[:2], pa.timestamp("us", "UTC")), "v": [1, 2]})).windows.to_pylist()
    found = [(row["timing"], row["window_start"].month, row["s"]) for row in out]
    assert found == [("on_time", 12, 1), ("early", 1, 1)]  # half of January and February is over on the 30th


def test_empty_windows_are_filled() -> None:
    at = [datetime(2026, 1, 5), datetime(2026, 3, 3)]
    rows = pa.table({"t": pa.array(at, pa.timestamp("us", "UTC"))})
    for window in (sl.calendar("14d", every="1d", fill=True), sl.calendar("1mo", every="1d", cumulate=True, fill=True)):
        found = sl.aggregate(rows, sl.Spec("t", {"w": window}, {"n": sl.count()}))
        ends = found["window_end"].to_pylist()
        assert all(later - end == timedelta(days=1) for end, later in pairwise(ends))
        assert min(found["n"].to_pylist()) == 0


def test_dates_and_local_times() -> None:
    days = pa.table({"t": pa.array([date(2026, 3, 1), date(2026, 3, 7), date(2026, 3, 8)])})
    spec = sl.Spec("t", {"w": sl.calendar("1mo", every="1d", cumulate=True)}, {"n": sl.count()})
    found = sl.aggregate(days, spec).to_pylist()
    assert [row["n"] for row in found] == [1] * 6 + [2] + [3] * 24
    assert (found[0]["window_start"], found[-1]["window_end"]) == (date(2026, 3, 1), date(2026, 4, 1))
    with pytest.raises(ValueError, match=r"units must be whole days for a time column of type date32.*; got '1h'"):
        sl.aggregate(days, sl.Spec("t", {"w": sl.calendar("1d", every="1h", cumulate=True)}, {"n": sl.count()}))
    local = pa.table({"t": pa.array([datetime(2026, 3, 29, 1), datetime(2026, 3, 29, 3)])})
    spec = sl.Spec("t", {"w": sl.calendar("1d", local=True, every="6h", cumulate=True)}, {"n": sl.count()})
    assert [row["window_end"].hour for row in sl.aggregate(local, spec).to_pylist()] == [6, 12, 18, 0]


def test_how_it_is_written() -> None:
    window = sl.calendar("1y", "Asia/Tokyo", every="1 month", cumulate=True, offset="3mo")
    assert repr(window) == "sl.calendar('1y', tz='Asia/Tokyo', offset='3mo', every='1mo', cumulate=True)"
    spec = sl.Spec("t", {"w": window}, {"n": sl.count()})
    assert sl.Spec.from_toml(spec.to_toml()) == spec and eval(repr(spec)) == spec
    assert sl.calendar("1mo", every="1mo") == sl.calendar("1mo", every="1mo", cumulate=True) == sl.calendar("1mo")
    assert sl.calendar("4w", every="14d") == sl.calendar("4w", every="2w")  # from Monday
    assert sl.calendar("1w", every="7d") == sl.calendar("1w", every="7d", cumulate=True) == sl.calendar("1w")
    assert sl.calendar("3mo", every="1mo") != sl.calendar("3mo", every="1mo", cumulate=True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"unit": "1mo", "every": "1d"}, "every must divide unit, .*; got unit='1mo', every='1d'$"),
        ({"unit": "1mo", "every": "1w", "cumulate": True}, "every must divide unit, .*; got unit='1mo', every='1w'$"),
        (
            {"unit": "5w", "every": "5d", "cumulate": True},
            "every must divide unit, .* \\(weeks are counted from Monday",
        ),
        ({"unit": "1w", "every": "1mo", "cumulate": True}, "every must divide unit, .*; got unit='1w', every='1mo'$"),
        ({"unit": "1w", "every": "2d"}, "every must divide unit, .*; got unit='1w', every='2d'$"),
        ({"unit": "6h", "every": "1h"}, "for '6h' use sl.sliding; got every='1h'$"),
        ({"unit": "1d", "every": "1h"}, "begin with days or longer units; got every='1h'"),
        ({"unit": "1d", "every": "1h", "cumulate": True, "offset": "30m"}, "offset must be a multiple of every"),
        ({"unit": "1d", "cumulate": True}, "cumulate=True needs every="),
        ({"unit": "1d", "every": "1M"}, "every must be a number of minutes, .*; got '1M'"),
    ],
)
def test_what_is_refused(arguments: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sl.calendar(**arguments)  # type: ignore[arg-type]


def test_months_so_far_of_daily_parts() -> None:
    times = np.arange(0, 200 * 86_400, 7_777)
    rows = pa.table({"t": pa.array(times).cast(pa.timestamp("s", "Europe/Berlin")), "v": np.arange(times.size)})
    grows = sl.calendar("1mo", "Europe/Berlin", every="1d", cumulate=True)
    days = sl.Spec("t", {"d": sl.calendar("1d", "Europe/Berlin")}, {"s": sl.sum("v")})
    direct = sl.aggregate(rows, sl.Spec("t", {"w": grows}, {"s": sl.sum("v")}))
    assert sl.rollup(sl.aggregate(rows, days), days, {"w": grows})["s"].equals(direct["s"])
    slides = sl.calendar("7d", "Europe/Berlin", every="1d")
    direct = sl.aggregate(rows, sl.Spec("t", {"w": slides}, {"s": sl.sum("v")}))
    assert sl.rollup(sl.aggregate(rows, days), days, {"w": slides})["s"].equals(direct["s"])
    with pytest.raises(ValueError, match="attach gives each row one window"):
        sl.attach(rows, sl.Spec("t", {"w": slides}, {"s": sl.sum("v")}))
    for refused in (grows, slides):
        with pytest.raises(TypeError, match="within must be"):
            sl.join(rows, rows, on="v", time="t", within=refused)


@pytest.mark.parametrize(
    ("unit", "every", "of_polars"), [("7d", "1d", "7d"), ("3mo", "1mo", "3mo"), ("1y", "1q", "1y"), ("2w", "1w", "2w")]
)
def test_windows_of_polars_are_the_same(unit: str, every: str, of_polars: str) -> None:
    seconds = np.sort(np.random.default_rng(7).integers(1_600_000_000, 1_680_000_000, 3000))
    at = pl.Series("t", seconds * 10**6).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone("America/New_York")
    rows = pl.DataFrame({"t": at, "v": np.arange(3000)})
    theirs = rows.group_by_dynamic("t", every=every, period=of_polars).agg(pl.len().alias("n"), pl.col("v").sum())
    window = sl.calendar(unit, "America/New_York", every=every)
    ours = sl.aggregate(rows, sl.Spec("t", {"w": window}, {"n": sl.count(), "v": sl.sum("v")}), returns="polars")
    both = ours.select("window_start", "n", "v").join(theirs, left_on="window_start", right_on="t", suffix="_theirs")
    assert both.height == theirs.height and both.select((pl.col("n") == pl.col("n_theirs")).all()).item()
    # Polars has no windows that begin before the first row's step
    assert (ours["window_start"].min() < theirs["t"].min()) and (both["v"] == both["v_theirs"]).all()
