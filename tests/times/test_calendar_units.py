"""Calendar windows of several days, weeks and months, of hours and minutes, and of times without a zone."""

from __future__ import annotations

import pickle
import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from clocks import edges_by_the_minute, shown
from test_measure import PERIOD, SECONDS, changes_of_offset, clocks

import slicing as sl
from slicing.times.calendars import CalendarEdges

DAY = 86_400
N = {"n": sl.count(), "v": sl.sum("v")}
ZONES = ["Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "Australia/Lord_Howe"]
ZONES += ["Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca", "America/Sao_Paulo", "Antarctica/Troll"]
PERIODS = {"w": ("1w", 1), "d": ("1d", 0), "mo": ("1mo", 0), "q": ("1q", 0), "y": ("1y", 0)}
MULTIPLES = [("2w", 2, "w"), ("5w", 5, "w"), ("3d", 3, "d"), ("10d", 10, "d"), ("3mo", 3, "mo"), ("7mo", 7, "mo")]
MULTIPLES += [("2q", 2, "q"), ("5q", 5, "q"), ("2y", 2, "y"), ("7y", 7, "y"), ("18mo", 18, "mo"), ("500d", 500, "d")]


def rows(times: np.ndarray, type: pa.DataType) -> pa.Table:
    return pa.table({"t": pa.array(times).cast(type), "v": np.arange(times.size)})


# --- days, weeks and months ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tz", ["UTC", "America/Havana", "America/St_Johns", "Pacific/Apia"])
def test_several_units_are_every_so_many_of_one(tz: str) -> None:
    instants, dates = clocks(tz)
    low, high = 2 * DAY * 366, int(instants[-1]) - 10 * 366 * DAY
    for unit, count, kind in MULTIPLES:
        one, origin = PERIODS[kind]
        period = (PERIOD[one](dates.astype("M8[D]")) - origin) // count
        expected = instants[1:][period[1:] > period[:-1]]
        found = CalendarEdges(unit, tz, SECONDS).edges(low, high)
        assert found.tolist() == expected[(expected > low) & (expected <= high)].tolist(), unit


def test_several_units_begin_where_polars_truncates_to() -> None:
    """Spread over 1852 to 2096, in nanoseconds."""
    times = np.random.default_rng(5).integers(-3_700, 4_000, 2000) * 10**15 + 12_345_678_901
    column = pl.Series(times).cast(pl.Datetime("ns"))
    data = rows(times, pa.timestamp("ns"))
    for unit, *_ in MULTIPLES:
        table = sl.aggregate(data, sl.Spec("t", {"w": sl.calendar(unit)}, N))
        expected = pl.DataFrame({"t": column.dt.truncate(unit)}).group_by("t").len().sort("t")
        assert table["window_start"].cast(pa.int64()).to_pylist() == expected["t"].cast(pl.Int64).to_list(), unit
        assert table["n"].to_pylist() == expected["len"].to_list()


def test_units_are_printed_alike_however_they_are_written() -> None:
    assert repr(sl.calendar("15min")) == repr(sl.calendar("15 minutes")) == "sl.calendar('15m')"
    assert sl.calendar("2 weeks") == sl.calendar("2W") == sl.calendar("2w")
    assert repr(sl.calendar("3 months", "Asia/Tokyo")) == "sl.calendar('3mo', tz='Asia/Tokyo')"
    assert repr(sl.calendar("1h", local=True, fill=True)) == "sl.calendar('1h', fill=True, local=True)"


def test_a_table_of_a_long_unit_has_the_edges_on_both_sides_of_a_time() -> None:
    table = CalendarEdges("100y", "Asia/Tokyo", SECONDS)
    now = np.array([SECONDS.instant("2024-05-01", "t")])
    assert table.next_edge(now).tolist() == [SECONDS.instant("2069-12-31T15:00", "t")]
    assert table.previous_edge(now).tolist() == [SECONDS.instant("1969-12-31T15:00", "t")]
    first, last = table.known
    assert table.next_edge(np.array([first, last - 1])).size == 2


# --- hours and minutes: every minute of the clock on the wall --------------------------------------------------


@pytest.mark.parametrize("tz", ZONES)
def test_hours_are_those_of_the_clock_on_the_wall(tz: str) -> None:
    zone = ZoneInfo(tz)
    changes = [int(at.timestamp()) for at, _ in changes_of_offset(zone) if at.year >= 1975]
    for at in [*changes[:2], *changes[-2:], 1_700_000_000 // 60 * 60]:
        if at % 60:
            continue
        begin, end = at - 30 * 3600, at + 30 * 3600
        clock = [shown(zone, instant) for instant in range(begin - 60, end, 60)]
        for unit, step in (("15min", 900), ("30m", 1800), ("1h", 3600), ("2h", 7200), ("6h", 21_600), ("12h", 43_200)):
            found = CalendarEdges(unit, tz, SECONDS).edges(begin - 1, end - 1)
            assert found.tolist() == edges_by_the_minute(clock, begin, step), (unit, at)


def test_an_autumn_day_in_berlin() -> None:
    """02:00 to 03:00 comes twice: 25 windows of an hour, four of 6 h, the first of them 7 h long."""
    zone, day = "Europe/Berlin", int(datetime(2024, 10, 26, 22, tzinfo=UTC).timestamp())
    minutes = (day + np.arange(25 * 60) * 60) * 10**9
    spec = sl.Spec("t", {"1h": sl.calendar("1h", zone), "6h": sl.calendar("6h", zone)}, N)
    table = sl.aggregate(rows(minutes, pa.timestamp("ns", zone)), spec).to_pandas()
    by_window = {name: group["n"].tolist() for name, group in table.groupby("window")}
    assert by_window == {"1h": [60] * 25, "6h": [420, 360, 360, 360]}
    spring = int(datetime(2024, 3, 30, 23, tzinfo=UTC).timestamp())
    minutes = (spring + np.arange(23 * 60) * 60) * 10**9
    table = sl.aggregate(rows(minutes, pa.timestamp("ns", zone)), spec).to_pandas()
    by_window = {name: group["n"].tolist() for name, group in table.groupby("window")}
    assert by_window == {"1h": [60] * 23, "6h": [300, 360, 360, 360]}


@pytest.mark.parametrize("unit", ["1min", "15min", "6h", "1h"])
def test_hours_of_utc_are_tumbling_windows(unit: str) -> None:
    """And so are those of a zone that is whole hours from it, times spread over decades."""
    times = np.random.default_rng(3).integers(-(2**60), 2**60, 300)
    windows = {"a": sl.calendar(unit), "b": sl.tumbling(unit)}
    if unit != "6h":
        windows["c"] = sl.calendar(unit, "Etc/GMT-3")
    table = sl.aggregate(rows(times, pa.timestamp("ns", "UTC")), sl.Spec("t", windows, N))
    first, *others = (table.filter(pa.compute.field("window") == name).drop("window") for name in windows)
    assert all(first.equals(other) for other in others)


def test_hours_at_the_ends_of_the_years() -> None:
    table = CalendarEdges("6h", "America/New_York", SECONDS)
    first, last = table.known
    assert table.next_edge(np.array([first, last])).size == 2
    with pytest.raises(ValueError, match="cover years 1 to 9999"):
        table.next_edge(np.array([last + 3 * 366 * DAY]))


def test_empty_hours_are_filled_through_a_change_of_the_clocks() -> None:
    times = np.array([datetime(2024, 3, 30, tzinfo=UTC).timestamp(), datetime(2024, 4, 1, tzinfo=UTC).timestamp()])
    spec = sl.Spec("t", {"w": sl.calendar("6h", "Europe/Berlin", fill=True)}, {"n": sl.count()})
    table = sl.aggregate(rows(times.astype(np.int64), pa.timestamp("s", "UTC")), spec)
    hours = (table["window_end"].cast(pa.int64()).to_numpy() - table["window_start"].cast(pa.int64()).to_numpy()) / 3600
    assert hours.tolist() == [6, 6, 6, 6, 5, 6, 6, 6, 6]


@pytest.mark.parametrize(
    "window", [sl.calendar("1d", "Europe/Berlin", fill=True), sl.tumbling("1d", fill=True)], ids=repr
)
def test_empty_days_are_filled_key_by_key_for_every_split(window: sl.Window) -> None:
    """Keys come late and leave early: some push has only keys of which no window was emitted yet."""
    for seed in range(30):
        chance = np.random.default_rng(seed)
        size = int(chance.integers(2, 14))
        times = np.sort(chance.integers(0, 9 * 24, size)) * 3600 + 1_711_700_000
        names = chance.choice(list("abcd"), size).tolist()
        given = pa.table({"t": pa.array(times).cast(pa.timestamp("s", "UTC")), "k": names})
        spec = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.ordered())
        op, parts = sl.Operator(spec), []
        for at in range(size):
            parts.append(op.push(given.slice(at, 1)).windows)
        parts.append(op.flush().windows)
        order = [("k", "ascending"), ("window_end", "ascending")]
        whole = sl.aggregate(given, spec).sort_by(order)
        assert pa.concat_tables(parts).sort_by(order).equals(whole), seed
        for name in set(names):  # a window each day from the first to the last
            own = whole.filter(pa.compute.equal(whole["k"], name))
            assert own["window_start"].to_pylist()[1:] == own["window_end"].to_pylist()[:-1]
            assert sum(own["n"].to_pylist()) == names.count(name)


# --- times without a zone -------------------------------------------------------------------------------------

TAXI = np.array(["2014-07-01T00:00", "2014-07-01T23:30", "2014-07-02T00:00", "2014-11-02T01:30"], "M8[ns]")


@pytest.mark.parametrize("type", [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], ids=str)
def test_times_without_a_zone_are_no_days_of_a_zone(type: pa.DataType) -> None:
    data = rows(TAXI.astype(np.int64), pa.timestamp("ns")).cast(pa.schema([("t", type), ("v", pa.int64())]))
    spec = sl.Spec("t", {"d": sl.calendar("1d", "America/New_York")}, N)
    sentence = (
        "windows['d']: sl.calendar('1d', tz='America/New_York') needs times with a zone, and the time column is of "
        f"type {type}. Give the column its zone (pandas' dt.tz_localize, polars' dt.replace_time_zone, "
        "pyarrow.compute.assume_timezone, on Spark a cast to timestamp), or use sl.calendar('1d', local=True), which "
        "takes times as the clock on the wall showed them"
    )
    for ask in (
        lambda: sl.aggregate(data, spec),
        lambda: sl.Operator(spec).push(data),
        lambda: sl.explain(spec, data.schema),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            ask()
    local = sl.aggregate(data, sl.Spec("t", {"d": sl.calendar("1d", local=True)}, N))
    assert local["window_start"].cast(pa.timestamp("s")).to_pylist() == [
        datetime(2014, 7, 1), datetime(2014, 7, 2), datetime(2014, 11, 2)
    ]  # fmt: skip
    assert local["n"].to_pylist() == [2, 1, 1]
    assert local.schema.field("window_start").type == type
    zoned = data.set_column(0, "t", pa.compute.assume_timezone(data["t"], "America/New_York", ambiguous="earliest"))
    days = sl.aggregate(zoned, spec)
    assert days["n"].to_pylist() == [2, 1, 1]
    assert [str(d)[:16] for d in days["window_start"].to_pylist()] == [
        "2014-07-01 00:00", "2014-07-02 00:00", "2014-11-02 00:00"
    ]  # fmt: skip


@pytest.mark.parametrize("unit", ["1d", "2w", "3mo", "6h"])
def test_local_windows_know_no_change_of_the_clocks(unit: str) -> None:
    """They are those of UTC, and of naive times in polars."""
    times = np.random.default_rng(9).integers(-(2**60), 2**60, 500)
    windows = {"a": sl.calendar(unit, local=True), "b": sl.calendar(unit)}
    table = sl.aggregate(rows(times, pa.timestamp("ns")), sl.Spec("t", windows, N))
    a, b = (table.filter(pa.compute.field("window") == name).drop("window") for name in windows)
    assert a.equals(b)
    expected = pl.Series(times).cast(pl.Datetime("ns")).dt.truncate(unit).unique().sort().cast(pl.Int64).to_list()
    assert a["window_start"].cast(pa.int64()).to_pylist() == expected


def test_local_windows_are_not_for_times_with_a_zone() -> None:
    data = rows(np.array([0]), pa.timestamp("us", "Asia/Tokyo"))
    with pytest.raises(
        ValueError,
        match=re.escape(
            "windows['d']: sl.calendar('1d', local=True) is for times without a zone, and the time column is of type "
            "timestamp[us, tz=Asia/Tokyo]; use sl.calendar('1d', tz='Asia/Tokyo')"
        ),
    ):
        sl.aggregate(data, sl.Spec("t", {"d": sl.calendar("1d", local=True)}, N))


def test_dates_have_days_but_no_hours() -> None:
    days = pa.table({"t": pa.array([date(2024, 5, 1), date(2024, 5, 6)]), "v": [1, 2]})
    for window in (sl.calendar("1w", local=True), sl.calendar("1w")):
        table = sl.aggregate(days, sl.Spec("t", {"w": window}, N))
        assert table["window_start"].to_pylist() == [date(2024, 4, 29), date(2024, 5, 6)]
    with pytest.raises(ValueError, match=r"units must be whole days for a time column of type date32\[day\]; got '6h'"):
        sl.aggregate(days, sl.Spec("t", {"w": sl.calendar("6h")}, N))


def test_local_windows_compare_pickle_and_have_a_name_of_their_own() -> None:
    local, utc = sl.calendar("1d", local=True), sl.calendar("1d")
    assert local != utc
    assert pickle.loads(pickle.dumps(local)) == local
    specs = [sl.Spec("t", {"d": window}, N, watermark=sl.bounded("1h")) for window in (local, utc)]
    assert specs[0].fingerprint() != specs[1].fingerprint()
    assert eval(repr(specs[0])) == pickle.loads(pickle.dumps(specs[0])) == specs[0]
    assert "sl.calendar('1d', local=True)" in str(sl.explain(specs[0]))  # of a likely schema
    data = rows(TAXI.astype(np.int64), pa.timestamp("ns"))
    op = sl.Operator(specs[0])
    found = [op.push(data[:2]).windows]
    op = sl.Operator.restore(specs[0], op.snapshot())
    found += [op.push(data[2:]).windows, op.flush().windows]
    assert pa.concat_tables(found).equals(sl.aggregate(data, specs[0]))
    with pytest.raises(ValueError, match="another spec"):
        sl.Operator.restore(specs[1], op.snapshot())


WRONG = {
    "'1d', 'Asia/Tokyo', local=True": (
        "calendar takes tz= (for times with a zone) or local=True, not both; got tz='Asia/Tokyo'"
    ),
    "'1d', local=1": "local must be True or False; got 1",
    "'5h'": "unit must divide a day if it is hours or minutes, as '15min', '1h', '6h' and '12h' do; got '5h'",
    "'7min'": "unit must divide a day if it is hours or minutes, as '15min', '1h', '6h' and '12h' do; got '7min'",
}
NO_UNIT = (
    "unit must be a number of minutes, hours, days, weeks, months, quarters or years, at most a century, such as "
    "'15min', '6h', '1d', '2w', '1mo', '1q' or '1y'; got "
)
WRONG |= {repr(unit): f"{NO_UNIT}{unit!r}" for unit in ("d", "", "1s", "0d", "-1d", "101y", "1d6h", "soon", 5, None)}
WRONG["'1M'"] = f"{NO_UNIT}'1M' ('M' may be months or minutes)"


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_no_calendar_is_refused(arguments: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(WRONG[arguments])}$"):
        eval(f"sl.calendar({arguments})")
