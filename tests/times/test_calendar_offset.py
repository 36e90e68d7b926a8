"""Calendar windows that begin later than midnight, Monday or January."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from clocks import begins

import slicing as sl

CASES = int(os.environ.get("SLICING_CASES", "30"))
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"]
ZONES += ["Pacific/Apia", "America/Havana"]
OF_DAYS = ["6h", "17h", "23h30m", "-7h", "1d", "-1d", "5d12h", "2h30m", "-30m"]
OF_MONTHS = ["3mo", "1q", "-1mo", "14d", "3mo9h", "-1d", "2h", "27d23h", "11mo"]


@pytest.mark.parametrize("case", range(CASES))
def test_rows_lie_in_the_windows_of_the_zones_clock(case: int) -> None:
    chance = random.Random(f"offset {case}")
    zone = chance.choice(ZONES)
    unit, offsets = chance.choice(
        [("1d", OF_DAYS), ("2d", OF_DAYS), ("1w", OF_DAYS), ("1mo", OF_MONTHS), ("1q", OF_MONTHS), ("1y", OF_MONTHS)]
    )
    offset = chance.choice(offsets)
    middle = datetime(*chance.choice([(2011, 12, 30), (2026, 3, 29), (2025, 11, 2), (2018, 11, 4)]))
    times = [middle + timedelta(minutes=chance.randrange(-60_000, 60_000)) for _ in range(20)]
    column = pa.array(times, pa.timestamp(chance.choice(["s", "us", "ns"]))).cast(pa.timestamp("us", zone), safe=False)
    spec = sl.Spec("t", {"w": sl.calendar(unit, zone, offset=offset)}, {"n": sl.count()}, watermark=sl.manual())
    wanted: Counter[tuple[datetime, datetime]] = Counter()
    for time in times:
        edges = begins(unit, offset, time, zone)
        wanted[max(e for e in edges if e <= time), min(e for e in edges if e > time)] += 1
    found = sl.aggregate(pa.table({"t": column}), spec)
    starts, ends = (found[name].cast(pa.timestamp("us")).to_pylist() for name in ("window_start", "window_end"))
    assert dict(zip(zip(starts, ends, strict=True), found["n"].to_pylist(), strict=True)) == wanted, spec
    op = sl.Operator(spec)
    for at in range(0, 20, 7):
        op.push(pa.table({"t": column[at : at + 7]}))
        op = sl.Operator.restore(spec, op.snapshot())
    assert op.flush().windows.equals(found.sort_by([("window_end", "ascending")]))


def test_how_an_offset_is_written() -> None:
    assert sl.calendar("1w", offset="-1d") == sl.calendar("1w", offset="6d") == sl.calendar("1 week", offset="20d")
    assert sl.calendar("1d", offset="1d") == sl.calendar("1d", offset=None) == sl.calendar("1d")
    assert sl.calendar("1y", offset="-1mo") == sl.calendar("1y", offset="11mo")
    assert sl.calendar("1y", offset="1q 2 days") == sl.calendar("1y", offset="15mo2d")
    assert repr(sl.calendar("1y", "Asia/Tokyo", offset="-9mo12h")) == (
        "sl.calendar('1y', tz='Asia/Tokyo', offset='-9mo12h')"
    )
    spec = sl.Spec("t", {"w": sl.calendar("1d", "Asia/Tokyo", offset="6h", fill=True)}, {"n": sl.count()})
    assert sl.Spec.from_toml(spec.to_toml()) == spec


@pytest.mark.parametrize(
    ("unit", "offset", "why"),
    [
        ("1d", 6, "offset must say how much later windows begin on the zone's clock, .* such as '6h', .*; got 6$"),
        ("1d", "6", "offset must say .*; got '6'$"),
        ("1d", "30m6h", "offset must say .*; got '30m6h'$"),
        ("1d", "5ms", "offset must say .*; got '5ms'$"),
        ("1w", "1mo", "offset must be days, hours and smaller for windows of '1w'; got '1mo'$"),
        ("1mo", "28d", "offset must be months and less than 28 days for windows of '1mo'; got '28d'$"),
        ("6h", "1h", "offset is for days and longer units; for '6h' use sl.tumbling; got offset='1h'$"),
    ],
)
def test_what_is_no_offset(unit: str, offset: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sl.calendar(unit, offset=offset)  # type: ignore[arg-type]


def test_dates_have_no_hours() -> None:
    rows = pa.table({"t": pa.array([date(2026, 3, 1), date(2026, 3, 7), date(2026, 3, 8)])})
    spec = sl.Spec("t", {"w": sl.calendar("1w", offset="-1d")}, {"n": sl.count()})  # from Sunday
    assert sl.aggregate(rows, spec).select(["window_start", "n"]).to_pylist() == [
        {"window_start": date(2026, 3, 1), "n": 2},
        {"window_start": date(2026, 3, 8), "n": 1},
    ]
    with pytest.raises(ValueError, match="offset must be whole days for a time column of type date32"):
        sl.aggregate(rows, sl.Spec("t", {"w": sl.calendar("1d", offset="6h")}, {"n": sl.count()}))


def test_joins_duplicates_and_rollups_know_the_offset() -> None:
    at = [datetime(2026, 3, 1, 5), datetime(2026, 3, 1, 7), datetime(2026, 3, 2, 5)]
    rows = pa.table({"t": pa.array(at, pa.timestamp("us", "UTC")), "k": ["a"] * 3, "v": [1, 2, 4]})
    gas = sl.calendar("1d", offset="6h")
    pairs = sl.join(rows, rows, on="k", time="t", within=gas)
    assert sorted(zip(pairs["v"].to_pylist(), pairs["v_right"].to_pylist(), strict=True)) == [
        (1, 1), (2, 2), (2, 4), (4, 2), (4, 4),
    ]  # fmt: skip
    for keep in ("first", "any"):
        assert sl.distinct(rows, "k", "t", gas, keep)["v"].to_pylist() == [1, 2]
    days = sl.Spec("t", {"d": gas}, {"s": sl.sum("v")})
    parts = sl.aggregate(rows, days)
    months = sl.rollup(parts, days, {"m": sl.calendar("1mo", offset="6h")})
    assert months["s"].to_pylist() == [1, 6]
    with pytest.raises(ValueError, match="windows"):
        sl.rollup(parts, days, {"m": sl.calendar("1mo")})


def test_units_of_many_days_begin_an_offset_of_many_days_later() -> None:
    rows = pa.table({"t": pa.array([datetime(2020, 1, 1)], pa.timestamp("us", "UTC"))})
    spec = sl.Spec("t", {"w": sl.calendar("730d", "Europe/Berlin", offset="700d")}, {"n": sl.count()})
    (row,) = sl.aggregate(rows, spec).to_pylist()
    zone = ZoneInfo("Europe/Berlin")
    bounds = datetime(2019, 11, 20, tzinfo=zone), datetime(2021, 11, 19, tzinfo=zone)
    assert (row["window_start"], row["window_end"]) == bounds
