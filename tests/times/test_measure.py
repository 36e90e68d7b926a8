"""Spans, instants and calendar edges; the calendar is held against what every zone's clocks show."""

from __future__ import annotations

import os
import pickle
import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicing as sl
import slicing.times.calendars
from slicing.times.calendars import CalendarEdges
from slicing.times.durations import Duration, parse_span
from slicing.times.measure import Measure

SECONDS, MILLIS, MICROS, NANOS = (Measure(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns"))
BERLIN = Measure(pa.timestamp("us", "Europe/Berlin"))
DAYS, DAYS64 = Measure(pa.date32()), Measure(pa.date64())
OFFSETS = Measure(pa.int64())


def raises(kind: type[Exception], sentence: str):
    """The whole sentence, to the letter: these tests are also where the messages can be read."""
    return pytest.raises(kind, match=f"^{re.escape(sentence)}$")


# --- durations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ns", "printed"),
    [
        ("250ms", 250 * 10**6, "250ms"),
        ("90s", 90 * 10**9, "1m30s"),
        ("1h30m", 5400 * 10**9, "1h30m"),
        ("1d", 86_400 * 10**9, "1d"),
        ("1w", 7 * 86_400 * 10**9, "7d"),
        ("48h", 2 * 86_400 * 10**9, "2d"),
        ("10us", 10_000, "10us"),
        ("10µs", 10_000, "10us"),  # the micro sign
        ("10μs", 10_000, "10us"),  # the Greek letter
        ("5ns", 5, "5ns"),
        ("1s5ns", 10**9 + 5, "1s5ns"),
        ("1m1ms", 60 * 10**9 + 10**6, "1m1ms"),
        ("0s", 0, "0s"),
        ("-5s", -5 * 10**9, "-5s"),
        ("-1h30m", -5400 * 10**9, "-1h30m"),
        # as in pandas, Polars, Spark and Flink
        ("1min", 60 * 10**9, "1m"),
        ("15min", 900 * 10**9, "15m"),
        ("1H", 3600 * 10**9, "1h"),
        ("2D", 2 * 86_400 * 10**9, "2d"),
        ("1W", 7 * 86_400 * 10**9, "7d"),
        ("30S", 30 * 10**9, "30s"),
        ("5T", 300 * 10**9, "5m"),
        ("1h30min", 5400 * 10**9, "1h30m"),
        ("1 s", 10**9, "1s"),
        ("1 h", 3600 * 10**9, "1h"),
        ("1 hour", 3600 * 10**9, "1h"),
        ("2 Hours", 7200 * 10**9, "2h"),
        ("90 seconds", 90 * 10**9, "1m30s"),
        ("2 days", 2 * 86_400 * 10**9, "2d"),
        ("1 day 12 hours", 129_600 * 10**9, "1d12h"),
        ("1h 30 minutes", 5400 * 10**9, "1h30m"),
        ("2 weeks", 14 * 86_400 * 10**9, "14d"),
        ("250 milliseconds", 250 * 10**6, "250ms"),
        ("5 micros", 5000, "5us"),
        ("7 nanoseconds", 7, "7ns"),
        (" 10 min ", 600 * 10**9, "10m"),
        ("-5 minutes", -300 * 10**9, "-5m"),
    ],
)
def test_a_duration_is_read_and_printed(text: str, ns: int, printed: str) -> None:
    duration = parse_span(text, "size")
    assert duration == Duration(ns)
    assert str(duration) == printed
    assert parse_span(printed, "size") == duration


@given(st.integers(-(2**70), 2**70))
def test_every_duration_prints_as_the_string_that_makes_it(ns: int) -> None:
    assert parse_span(str(Duration(ns)), "size") == Duration(ns)


def test_spans_of_other_types() -> None:
    assert parse_span(timedelta(days=-1, microseconds=1), "offset") == Duration(-86_400 * 10**9 + 1000)
    assert parse_span(np.timedelta64(90, "s"), "size") == Duration(90 * 10**9)
    assert parse_span(np.timedelta64(2, "W"), "size") == Duration(14 * 86_400 * 10**9)
    assert parse_span(np.timedelta64(3000, "ps"), "size") == Duration(3)
    assert parse_span(pd.Timedelta(1_000_000_001, "ns"), "size") == Duration(1_000_000_001)
    assert parse_span(Duration(7), "size") == Duration(7)
    assert parse_span(np.int32(-3), "offset") == -3
    assert parse_span(0, "offset") == 0
    assert type(parse_span(np.uint8(3), "size")) is int


def test_durations_order_hash_and_pickle() -> None:
    assert Duration(1) < Duration(2)
    assert len({Duration(60 * 10**9), parse_span("1m", "size"), parse_span("60s", "size")}) == 1
    assert pickle.loads(pickle.dumps(Duration(5))) == Duration(5)


ALLOWED = "size must be a duration such as '1m', a timedelta or, for integer measures, a whole number; got "
UNITS = " (units, from the largest: w, d, h, m, s, ms, us, ns)"


@pytest.mark.parametrize(
    "text",
    [
        "1x",
        "",
        "-",
        "m",
        "1.5s",
        "30m1h",
        "1m1m",
        "+1s",
        "--1s",
        "٣s",
        "1 hours 2 h",
        "- 5s",
        "1h, 5m",
        "5 us 1 s",
        "1h5",
        "h",
        "1MSS",
        "5 min 1 hour",
    ],
)
def test_a_string_that_is_no_duration_is_refused(text: str) -> None:
    with raises(ValueError, f"{ALLOWED}{text!r}{UNITS}"):
        parse_span(text, "size")


@pytest.mark.parametrize("value", [1.0, True, None, b"1s", date(2024, 1, 1), np.float64(1), np.bool_(True)])
def test_a_type_that_is_no_span_is_refused(value: object) -> None:
    with raises(TypeError, f"{ALLOWED}{value!r} of type {type(value).__name__}"):
        parse_span(value, "size")


@pytest.mark.parametrize(
    "value", [np.timedelta64("NaT"), np.timedelta64(1, "Y"), np.timedelta64(1, "ps"), np.timedelta64(1)]
)
def test_a_numpy_span_without_an_exact_length_is_refused(value: np.timedelta64) -> None:
    with raises(ValueError, f"{ALLOWED}{value!r}, which is not a whole number of nanoseconds"):
        parse_span(value, "size")


@pytest.mark.parametrize("text", ["1M", "15M", "1MS", "1 ME", "1h5M"])
def test_months_and_minutes_are_not_mixed_up(text: str) -> None:
    with raises(
        ValueError,
        "size must be a duration whose units are clear, and 'M' may be months or minutes: write '1m' or '1min' for "
        f"minutes, and use sl.calendar('1mo') for months; got {text!r}",
    ):
        parse_span(text, "size")


@pytest.mark.parametrize("text", ["1mo", "1q", "1y", "1y6mo", "3mo", "2 months", "1 year", "1Q", "1Y"])
def test_calendar_units_point_to_calendar_windows(text: str) -> None:
    with raises(
        ValueError,
        "size must be a duration of fixed length, and months, quarters and years differ: "
        f"use sl.calendar('1mo' | '1q' | '1y') for windows of those side by side, sl.calendar('3mo', "
        f"every='1mo') if they overlap, and days, such as '30d', for others; got {text!r}",
    ):
        parse_span(text, "size")


@pytest.mark.parametrize("value", ["0s", "-1s", 0, -1, timedelta(0), np.int64(0)])
def test_a_positive_span_is_positive(value: object) -> None:
    with raises(
        ValueError,
        "gap must be a positive duration such as '1m', a timedelta or, for integer measures, "
        f"a positive whole number; got {value!r}",
    ):
        parse_span(value, "gap", positive=True)


# --- measures ---------------------------------------------------------------------------------------------

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES = [pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "Europe/Berlin")]
TYPES = [*INTEGERS, *TIMES, pa.date32(), pa.date64()]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_the_types_a_stream_can_advance_along(type: pa.DataType) -> None:
    measure = Measure.of(type, "ts")
    assert measure.is_integer == (type in INTEGERS)
    assert pickle.loads(pickle.dumps(measure)) == measure
    assert hash(measure) == hash(Measure(type))


@pytest.mark.parametrize(
    "type", [pa.float64(), pa.string(), pa.bool_(), pa.duration("s"), pa.time64("us"), pa.decimal128(10)]
)
def test_other_types_are_refused(type: pa.DataType) -> None:
    cures = {
        pa.time64("us"): ": add it to a date first, or cast it to whole numbers",
        pa.duration("s"): ": add it to a date first, or cast it to whole numbers",
        pa.float64(): ": cast it to timestamps or whole numbers first (pandas.to_datetime(..., unit='s'))",
        pa.string(): ": parse it first (pandas.to_datetime, polars' str.to_datetime, Spark's to_timestamp)",
    }
    sentence = f"time column 'ts' must hold timestamps, dates or integers; its type is {type}{cures.get(type, '')}"
    with raises(TypeError, sentence):
        Measure.of(type, "ts")


def test_ticks_count_the_columns_own_unit() -> None:
    minute = Duration(60 * 10**9)
    assert [m.ticks(minute, "size") for m in (SECONDS, MILLIS, MICROS, NANOS)] == [
        60,
        60_000,
        60_000_000,
        60 * 10**9,
    ]
    day = Duration(86_400 * 10**9)
    assert (DAYS.ticks(day, "size"), DAYS64.ticks(day, "size")) == (1, 86_400_000)
    assert OFFSETS.ticks(1000, "size") == 1000
    assert MICROS.ticks(Duration(-5000), "offset") == -5


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_zero_fits_every_measure(type: pa.DataType) -> None:
    assert Measure(type).ticks(0, "offset") == Measure(type).ticks(Duration(0), "offset") == 0


def test_ticks_are_never_rounded() -> None:
    with raises(
        ValueError,
        "size must be a whole number of milliseconds, the unit of the time column (timestamp[ms]); got '5us'",
    ):
        MILLIS.ticks(Duration(5000), "size")
    for measure, name in ((DAYS, "date32[day]"), (DAYS64, "date64[ms]")):
        with raises(ValueError, f"size must be a whole number of days, the unit of the time column ({name}); got '1h'"):
            measure.ticks(Duration(3600 * 10**9), "size")


def test_ticks_of_the_wrong_kind_are_refused() -> None:
    with raises(
        ValueError,
        "gap must be a whole number, as the time column is of type int64; got the duration '30m' "
        "(if it counts since 1970, cast it to timestamps)",
    ):
        OFFSETS.ticks(Duration(1800 * 10**9), "gap")
    with raises(
        ValueError,
        "gap must be a duration such as '1m', as the time column is of type timestamp[us]; got the whole number 5",
    ):
        MICROS.ticks(5, "gap")


def test_ticks_leave_room_to_add_them() -> None:
    with raises(
        ValueError,
        "size must be shorter than 2**60 nanoseconds, the unit of the time column (timestamp[ns]); got '1000000d'",
    ):
        NANOS.ticks(Duration(10**6 * 86_400 * 10**9), "size")
    with raises(
        ValueError,
        f"size must be shorter than 2**60 units, the unit of the time column (int64); got {2**60}",
    ):
        OFFSETS.ticks(2**60, "size")
    assert OFFSETS.ticks(2**60 - 1, "size") == 2**60 - 1


NOON = 1_714_564_800  # 2024-05-01 12:00 UTC


@pytest.mark.parametrize(
    "value",
    [
        NOON * 10**6,
        datetime(2024, 5, 1, 12),
        "2024-05-01T12:00",
        "2024-05-01 12:00:00.000000000",
        np.datetime64("2024-05-01T12"),
        np.datetime64("2024-05-01T12:00:00", "ns"),
        pd.Timestamp("2024-05-01T12:00"),
    ],
    ids=repr,
)
def test_an_instant_without_a_zone_is_utc(value: object) -> None:
    assert MICROS.instant(value, "start") == BERLIN.instant(value, "start") == NOON * 10**6


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 5, 1, 14, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 5, 1, 7, tzinfo=timezone(timedelta(hours=-5))),
        "2024-05-01T14:00+02:00",
        "2024-05-01T12:00Z",
        pd.Timestamp("2024-05-01T14:00", tz="Europe/Berlin"),
    ],
    ids=repr,
)
def test_an_instant_with_a_zone_needs_a_column_with_one(value: object) -> None:
    assert BERLIN.instant(value, "start") == NOON * 10**6
    with raises(
        ValueError,
        f"start must be a time without a zone, as the time column is of type timestamp[us]; got {value!r}",
    ):
        MICROS.instant(value, "start")


def test_instants_to_the_nanosecond() -> None:
    for value in ("2024-05-01T12:00:00.123456789", np.datetime64("2024-05-01T12:00:00.123456789")):
        assert NANOS.instant(value, "start") == NOON * 10**9 + 123_456_789
    assert NANOS.instant("1969-12-31T23:59:59.999999999", "start") == -1
    assert NANOS.instant("1970-01-01T00:00:00.0000001", "start") == 100
    assert NANOS.instant("2024-05-01T14:00:00,000000001", "start") == NOON * 10**9 + 7200 * 10**9 + 1
    assert NANOS.instant(pd.Timestamp(5, unit="ns"), "start") == 5


def test_instants_of_dates() -> None:
    for value in (date(1969, 12, 31), "1969-12-31", datetime(1969, 12, 31), np.datetime64("1969-12-31")):
        assert DAYS.instant(value, "start") == -1
        assert DAYS64.instant(value, "start") == -86_400_000
        assert SECONDS.instant(value, "start") == -86_400
    assert DAYS.instant(np.datetime64("1970-02"), "start") == 31
    assert DAYS.instant(np.datetime64("0001", "Y"), "start") == date(1, 1, 1).toordinal() - 719_163
    assert SECONDS.instant(datetime.max.replace(microsecond=0), "end") == 253_402_300_799


def test_an_instant_is_exact_or_refused() -> None:
    with raises(
        ValueError,
        "start must be a whole number of seconds, the unit of the time column (timestamp[s]); "
        "got '2024-05-01T12:00:00.5'",
    ):
        SECONDS.instant("2024-05-01T12:00:00.5", "start")
    with raises(
        ValueError,
        "start must be a whole number of days, the unit of the time column (date32[day]); "
        "got datetime.datetime(2024, 5, 1, 12, 0)",
    ):
        DAYS.instant(datetime(2024, 5, 1, 12), "start")


NANO = 1_714_564_800_123_456_789


@pytest.mark.parametrize(
    ("value", "type", "word"),
    [
        (pa.scalar(NANO, pa.timestamp("ns")), pa.timestamp("ns"), NANO),
        (pa.scalar(NANO, pa.timestamp("ns", "Asia/Tokyo")), pa.timestamp("ns", "UTC"), NANO),
        (pa.scalar(NOON, pa.timestamp("s")), pa.timestamp("us"), NOON * 10**6),
        (pa.scalar(-NOON, pa.timestamp("s", "Asia/Tokyo")), pa.timestamp("ms", "Europe/Berlin"), -NOON * 10**3),
        (pa.scalar(19_000, pa.date32()), pa.timestamp("s"), 19_000 * 86_400),
        (pa.scalar(date(2024, 5, 1), pa.date64()), pa.date32(), 19_844),
        (pa.scalar(2**62, pa.uint64()), pa.int64(), 2**62),
        (pa.scalar(5, pa.int8()), pa.int64(), 5),
        (pa.scalar("2024-05-01T12:00"), pa.timestamp("s"), NOON),
    ],
    ids=str,
)
def test_an_instant_may_be_an_arrow_scalar(value: pa.Scalar, type: pa.DataType, word: int) -> None:
    assert Measure(type).instant(value, "start") == word


def test_an_arrow_scalar_may_be_beyond_the_years_of_python() -> None:
    seconds = pa.timestamp("s", "UTC")
    assert Measure(seconds).instant(pa.scalar(4 * 10**11, seconds), "start") == 4 * 10**11  # in the year 14645


def test_an_arrow_scalar_is_exact_or_refused() -> None:
    with pytest.raises(ValueError, match=r"start must be a whole number of microseconds, .* got np.datetime64\('2024"):
        MICROS.instant(pa.scalar(NANO, pa.timestamp("ns")), "start")
    with pytest.raises(ValueError, match="start must be a time without a zone"):
        MICROS.instant(pa.scalar(NOON, pa.timestamp("s", "UTC")), "start")
    with pytest.raises(TypeError, match=r"start must be a datetime.* got None of type NoneType"):
        MICROS.instant(pa.scalar(None, pa.timestamp("s")), "start")


def test_an_instant_outside_the_column_is_refused() -> None:
    with raises(ValueError, "end must fit a time column of type timestamp[ns]; got '2262-04-12'"):
        NANOS.instant("2262-04-12", "end")
    with raises(ValueError, "end must fit a time column of type int8; got 128"):
        Measure(pa.int8()).instant(128, "end")
    with raises(ValueError, "start must fit a time column of type uint32; got -1"):
        Measure(pa.uint32()).instant(-1, "start")
    with raises(ValueError, f"end must fit a time column of type uint64; got {2**63}"):
        Measure(pa.uint64()).instant(2**63, "end")


INSTANTS = (
    "start must be a datetime, a date, an ISO 8601 string such as '2024-05-01T12:30', "
    "a numpy.datetime64 or a whole number of microseconds; got "
)


@pytest.mark.parametrize(
    ("value", "kind", "rest"),
    [
        ("noon", ValueError, "'noon'"),
        ("1.1234567", ValueError, "'1.1234567'"),
        (1.5, TypeError, "1.5 of type float"),
        (True, TypeError, "True of type bool"),
        (None, TypeError, "None of type NoneType"),
        (timedelta(1), TypeError, "datetime.timedelta(days=1) of type timedelta"),
        (np.timedelta64(1, "s"), TypeError, "np.timedelta64(1,'s') of type timedelta64"),
        (pd.NaT, ValueError, "NaT"),
        (
            np.datetime64("NaT"),
            ValueError,
            f"{np.datetime64('NaT')!r}, which is not a whole number of nanoseconds",
        ),
        (
            "2024-05-01T12:00:00.0000000001",
            ValueError,
            "'2024-05-01T12:00:00.0000000001', which is finer than nanoseconds",
        ),
    ],
)
def test_what_is_no_instant_is_refused(value: object, kind: type[Exception], rest: str) -> None:
    with raises(kind, INSTANTS + rest):
        MICROS.instant(value, "start")


@pytest.mark.parametrize("value", ["5", 1.0, True, datetime(2024, 5, 1)])
def test_an_instant_of_an_integer_measure_is_a_whole_number(value: object) -> None:
    assert OFFSETS.instant(np.int16(-5), "start") == -5
    with raises(TypeError, f"start must be a whole number, as the time column is of type int64; got {value!r}"):
        OFFSETS.instant(value, "start")


# --- columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_columns_become_words_and_come_back(type: pa.DataType) -> None:
    measure = Measure(type)
    day = 86_400_000 if type == pa.date64() else 1
    words = np.array([0, 100, 7, 3], np.int64) * day
    column = measure.array(words)
    column.validate(full=True)
    assert column.type == type
    assert measure.words(column).tolist() == words.tolist()
    assert measure.words(column.slice(1, 2)).tolist() == words[1:3].tolist()
    assert measure.words(column.slice(4)).tolist() == measure.words(column[:0]).tolist() == []
    assert measure.array(words[::2]).equals(column.take([0, 2]))
    assert not measure.words(column).flags.writeable

    gaps = measure.array(words, np.array([False, True, False, True]))
    gaps.validate(full=True)
    assert gaps.null_count == 2
    assert gaps.is_null().to_pylist() == [False, True, False, True]
    assert measure.words(gaps.slice(2))[0] == words[2]
    assert measure.words(pa.nulls(3, type)).shape == (3,)


def test_64_bit_columns_share_memory() -> None:
    for measure in (MICROS, BERLIN, DAYS64, OFFSETS):
        words = np.arange(10, dtype=np.int64) * 86_400_000
        column = measure.array(words)
        assert np.shares_memory(measure.words(column), words)
        assert np.shares_memory(measure.words(column.slice(3)), words)


@pytest.mark.parametrize(
    ("type", "word"),
    [(pa.int8(), 128), (pa.uint8(), -1), (pa.uint64(), -5), (pa.date32(), 2**31)],
    ids=str,
)
def test_a_bound_that_the_column_cannot_hold_is_refused(type: pa.DataType, word: int) -> None:
    with raises(
        ValueError,
        f"a time column of type {type} cannot hold {word}, which a window's bound needs: cast the column to int64",
    ):
        Measure(type).array(np.array([1, word, 2]))
    assert Measure(type).array(np.array([1, word, 2]), np.array([False, True, False]))[2].is_valid


def test_words_print_as_python_values() -> None:
    assert OFFSETS.value(np.int64(5)) == 5
    assert type(OFFSETS.value(np.int64(5))) is int
    assert MICROS.value(NOON * 10**6) == datetime(2024, 5, 1, 12)
    assert NANOS.value(NOON * 10**9) == datetime(2024, 5, 1, 12)
    assert NANOS.value(NOON * 10**9 + 1) == np.datetime64("2024-05-01T12:00:00.000000001")
    assert BERLIN.value(NOON * 10**6) == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert str(BERLIN.value(NOON * 10**6)) == "2024-05-01 14:00:00+02:00"
    assert DAYS.value(-1) == DAYS64.value(-86_400_000) == date(1969, 12, 31)
    assert DAYS64.value(1) == np.datetime64("1970-01-01T00:00:00.001")
    assert SECONDS.value(253_402_300_800) == np.datetime64("10000-01-01")
    assert DAYS.value(2**31 - 1) == np.datetime64(2**31 - 1, "D")
    assert SECONDS.value(2**62) == np.datetime64(2**62, "s")


# --- calendar edges: the oracle ----------------------------------------------------------------------------
#
# What a zone's clocks show is asked instant by instant (UTC to local, never the other way), so the oracle
# shares no reasoning about gaps and folds with the library: a unit begins where the latest local date seen so
# far enters a new unit.

DAY = 86_400
FROM, UNTIL = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1970, 2038))
# no clocks change twice in less than six days
SAMPLES = [datetime(1969, 11, 1, tzinfo=UTC) + timedelta(days=n) for n in range(0, (UNTIL - FROM) // DAY + 120, 5)]
PERIOD = {
    "1d": lambda dates: dates.astype(np.int64),
    "1w": lambda dates: (dates.astype(np.int64) + 3) // 7,  # 1970-01-01 was a Thursday
    "1mo": lambda dates: dates.astype("M8[M]").astype(np.int64),
    "1q": lambda dates: dates.astype("M8[M]").astype(np.int64) // 3,
    "1y": lambda dates: dates.astype("M8[Y]").astype(np.int64),
}


def changes_of_offset(zone: ZoneInfo) -> list[tuple[datetime, timedelta]]:
    """The first instant, then every instant the clocks change, each with the offset from there on."""
    offsets = [sample.astimezone(zone).utcoffset() for sample in SAMPLES]
    changes = [(SAMPLES[0], offsets[0])]
    for (before, old), (after, new) in pairwise(zip(SAMPLES, offsets, strict=True)):
        if old != new:
            low, high = before, after
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                low, high = (middle, high) if middle.astimezone(zone).utcoffset() == old else (low, middle)
            changes.append((high, new))
    return changes


@cache
def changes(tz: str) -> tuple[tuple[datetime, timedelta], ...]:
    return tuple(changes_of_offset(ZoneInfo(tz)))


@cache
def different() -> set[str]:
    """One zone, the first by name, of every second one whose clocks are alike."""
    return set({changes(tz): tz for tz in reversed(ZONES[::2])}.values())


def clocks(tz: str) -> tuple[np.ndarray, np.ndarray]:
    """Every instant at which the local date may change, and the latest local date shown up to then."""
    begins = [int(instant.timestamp()) for instant, _ in changes(tz)]
    offsets = [offset // timedelta(seconds=1) for _, offset in changes(tz)]
    instants, dates = [], []
    for begin, end, offset in zip(begins, [*begins[1:], UNTIL + 2 * DAY], offsets, strict=True):
        midnights = np.arange(-(-(begin + offset) // DAY) * DAY - offset, end, DAY)
        within = np.concatenate([[begin], midnights])
        instants.append(within)
        dates.append((within + offset) // DAY)
    return np.concatenate(instants), np.maximum.accumulate(np.concatenate(dates))


def oracle(shown: tuple[np.ndarray, np.ndarray], unit: str) -> np.ndarray:
    instants, dates = shown
    period = PERIOD[unit](dates.astype("M8[D]"))
    return instants[1:][period[1:] > period[:-1]]


ZONES = sorted(zoneinfo.available_timezones())
REGIONS = sorted({zone.split("/")[0] if "/" in zone else "other" for zone in ZONES})


@pytest.mark.parametrize("region", REGIONS)
def test_calendar_edges_follow_the_clocks_of_every_zone(region: str) -> None:
    """Days in every second zone, and of the longer units each in every eighth one; zones of the same clocks once. All,
    where cases are asked for."""
    _, *longer = PERIOD
    for number, tz in enumerate(ZONES):
        if (tz.split("/")[0] if "/" in tz else "other") != region:
            continue
        if "SLICING_CASES" not in os.environ and (number % 2 or tz not in different()):
            continue
        shown = clocks(tz)
        for unit in PERIOD if "SLICING_CASES" in os.environ else ("1d", longer[number // 2 % len(longer)]):
            table, expected = CalendarEdges(unit, tz, SECONDS), oracle(shown, unit)
            within = expected[(expected > FROM) & (expected <= UNTIL)]
            np.testing.assert_array_equal(table.edges(FROM, UNTIL), within, f"{unit} {tz}")

            times = np.concatenate([within - 1, within, within + 1])
            at = np.searchsorted(expected, times, side="right")
            inner = (at > 0) & (at < len(expected))
            times, at = times[inner], at[inner]
            np.testing.assert_array_equal(table.next_edge(times), expected[at], f"{unit} {tz}")
            np.testing.assert_array_equal(table.previous_edge(times), expected[at - 1], f"{unit} {tz}")


# --- calendar edges: examples ------------------------------------------------------------------------------


def edges(unit: str, tz: str, lo: str, hi: str) -> list[str]:
    """The edges in (lo, hi], as UTC."""
    table = CalendarEdges(unit, tz, SECONDS)
    words = table.edges(SECONDS.instant(lo, "lo"), SECONDS.instant(hi, "hi"))
    return [f"{SECONDS.value(word):%Y-%m-%d %H:%M}" for word in words.tolist()]


def test_days_of_23_and_25_hours_are_one_window() -> None:
    assert edges("1d", "Europe/Berlin", "2024-03-30T12:00", "2024-04-01") == [
        "2024-03-30 23:00",
        "2024-03-31 22:00",
    ]
    assert edges("1d", "Europe/Berlin", "2024-10-26T12:00", "2024-10-28") == [
        "2024-10-26 22:00",
        "2024-10-27 23:00",
    ]


def test_a_midnight_that_clocks_skip_is_the_instant_they_jump() -> None:
    # São Paulo, 2018-11-04: after 23:59:59 (-03) came 01:00 (-02)
    assert edges("1d", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-05T12:00") == [
        "2018-11-04 03:00",
        "2018-11-05 02:00",
    ]


def test_a_jump_over_midnight_from_before_it_begins_the_day() -> None:
    # Toronto, 1919-03-30: after 23:29:59 (-05) came 00:30 (-04) of the 31st
    assert edges("1d", "America/Toronto", "1919-03-30T12:00", "1919-04-01T12:00") == [
        "1919-03-31 04:30",
        "1919-04-01 04:00",
    ]


def test_a_midnight_that_happens_twice_counts_once() -> None:
    # St. John's, 2010-11-07: at 00:01 (-02:30) the clocks went back to 23:01 (-03:30) of the day before
    assert edges("1d", "America/St_Johns", "2010-11-06T12:00", "2010-11-08T12:00") == [
        "2010-11-07 02:30",
        "2010-11-08 03:30",
    ]


@pytest.mark.parametrize(
    ("tz", "skipped", "jump"),
    [
        ("Pacific/Apia", "2011-12-30", "2011-12-30 10:00"),
        ("Pacific/Kwajalein", "1993-08-21", "1993-08-21 12:00"),
    ],
)
def test_a_date_that_a_zone_skipped_has_no_window(tz: str, skipped: str, jump: str) -> None:
    day = date.fromisoformat(skipped)
    days = edges("1d", tz, str(day - timedelta(days=2)), str(day + timedelta(days=2)))
    assert days.count(jump) == 1
    gaps = [datetime.fromisoformat(b) - datetime.fromisoformat(a) for a, b in pairwise(days)]
    assert set(gaps) == {timedelta(days=1)}


def test_weeks_begin_on_monday_and_quarters_in_january() -> None:
    assert edges("1w", "UTC", "1969-12-22", "1970-01-12") == [
        "1969-12-29 00:00",
        "1970-01-05 00:00",
        "1970-01-12 00:00",
    ]
    assert edges("1q", "UTC", "2023-12-31", "2024-12-31") == [
        "2024-01-01 00:00",
        "2024-04-01 00:00",
        "2024-07-01 00:00",
        "2024-10-01 00:00",
    ]
    assert edges("1y", "Asia/Tokyo", "2023-01-01", "2024-12-30") == ["2023-12-31 15:00"]
    assert edges("1mo", "UTC", "2024-01-31", "2024-01-31") == []
    assert edges("1mo", "UTC", "2024-01-31", "2023-01-31") == []


@pytest.mark.parametrize("unit", PERIOD)
@pytest.mark.parametrize(
    ("measure", "tz"),
    [(DAYS, "UTC"), (DAYS64, "UTC")]
    + [(m, tz) for m in (SECONDS, MILLIS, MICROS, NANOS, BERLIN) for tz in ("UTC", "Europe/Berlin")],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_edges_are_the_same_in_every_unit(measure: Measure, tz: str, unit: str) -> None:
    table, expected = CalendarEdges(unit, tz, measure), CalendarEdges(unit, tz, SECONDS)
    rng = np.random.default_rng(7)
    days = rng.integers(-200 * 365, 200 * 365, 500)
    words = days * DAY * 10**9 // measure.word_ns
    seconds = days * DAY
    if measure not in (DAYS, DAYS64):
        shift = rng.integers(0, DAY * 10**9 // measure.word_ns, 500)
        words, seconds = words + shift, seconds + shift * measure.word_ns // 10**9
    for asked in ("next_edge", "previous_edge"):
        got = getattr(table, asked)(words)
        wanted = getattr(expected, asked)(seconds)
        assert [int(w) * measure.word_ns for w in got] == [int(w) * 10**9 for w in wanted]
    assert (table.previous_edge(words) <= words).all()
    assert (words < table.next_edge(words)).all()
    assert table.next_edge(words[:0]).tolist() == table.previous_edge(words[:0]).tolist() == []


def test_the_first_tick_before_the_epoch() -> None:
    table = CalendarEdges("1d", "UTC", NANOS)
    assert table.previous_edge(np.array([-1, 0])).tolist() == [-DAY * 10**9, 0]
    assert table.next_edge(np.array([-1, 0])).tolist() == [0, DAY * 10**9]


def test_scattered_times_cost_their_own_years_only() -> None:
    """One row of the year 9000 beside today's does not build the days of seven thousand years."""
    table = CalendarEdges("1d", "America/Montevideo", SECONDS)
    times = np.array([SECONDS.instant(day, "t") for day in ("0033-04-03", "2024-05-01", "9000-01-01")])
    slicing.times.calendars._table.cache_clear()  # which other tests may have filled
    nexts, previous = table.next_edge(times), table.previous_edge(times)
    built = slicing.times.calendars._table("1d", "America/Montevideo", None, None)._years
    assert {33, 2024, 9000} < built.keys()
    assert len(built) <= 12
    assert (nexts - previous).tolist() == [DAY] * 3
    assert ((previous <= times) & (times < nexts)).all()


@pytest.mark.parametrize("tz", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
@pytest.mark.parametrize("unit", PERIOD)
def test_a_table_begun_around_new_year_has_the_edges_on_both_sides(unit: str, tz: str) -> None:
    """Local and UTC years differ there, so the years beside a time's own are needed too."""
    full = np.sort(CalendarEdges(unit, tz, SECONDS).edges(FROM, UNTIL))
    for hours in range(-60, 60, 5):
        now = np.array([SECONDS.instant("2024-01-01", "t") + hours * 3600])
        at = np.searchsorted(full, now, side="right")
        slicing.times.calendars._table.cache_clear()
        assert CalendarEdges(unit, tz, SECONDS).next_edge(now) == full[at]
        slicing.times.calendars._table.cache_clear()
        assert CalendarEdges(unit, tz, SECONDS).previous_edge(now) == full[at - 1]


def test_the_calendar_ends_with_the_years_9999_and_1() -> None:
    table = CalendarEdges("1y", "UTC", SECONDS)
    last, first = SECONDS.instant("9999-06-01", "t"), SECONDS.instant("0001-06-01", "t")
    assert table.previous_edge(np.array([last, first])).tolist() == [
        SECONDS.instant("9999-01-01", "t"),
        SECONDS.instant("0001-01-01", "t"),
    ]
    for bad, shown in ((last, "9999-06-01 00:00:00"), (2**60, str(np.datetime64(2**60, "s")))):
        with raises(
            ValueError,
            f"calendar windows ('1y', 'UTC') cover years 1 to 9999; "
            f"the time {shown} (timestamp[s]) has no whole window there",
        ):
            table.next_edge(np.array([0, bad]))
    with raises(
        ValueError,
        "calendar windows ('1d', 'America/New_York') cover years 1 to 9999; "
        "the time 0001-01-01 01:00:00 (timestamp[s]) has no whole window there",
    ):
        CalendarEdges("1d", "America/New_York", SECONDS).previous_edge(
            np.array([SECONDS.instant("0001-01-01T01:00", "t")])
        )


def test_an_edge_that_the_column_cannot_hold_is_refused() -> None:
    table = CalendarEdges("1y", "UTC", NANOS)
    assert table.next_edge(np.array([NANOS.instant("2261-04-01", "t")])).shape == (1,)
    with raises(
        ValueError,
        "a calendar window ('1y', 'UTC') has an edge at 2263-01-01T00:00:00, "
        "which does not fit the time column's type, timestamp[ns]",
    ):
        table.next_edge(np.array([NANOS.instant("2262-04-01", "t")]))


def test_calendar_arguments_are_checked() -> None:
    for unit in ("1s", "day", 1):
        with pytest.raises(ValueError, match=f"^unit must be a number of minutes, .*; got {unit!r}$"):
            CalendarEdges(unit, "UTC", MICROS)
    assert sl.calendar("1d", tz=ZoneInfo("Europe/Berlin")) == sl.calendar("1d", tz="Europe/Berlin")
    zone = "tz must be the name of a time zone such as 'Europe/Berlin' or 'UTC'; got "
    for tz in ("Mars/Olympus", "", "../etc/passwd", "America", "+01:00", "/etc/localtime"):
        moved = "; for +01:00, a fixed distance from UTC, use sl.tumbling(..., offset=)" if tz == "+01:00" else ""
        with raises(ValueError, f"{zone}{tz!r}{moved}"):
            CalendarEdges("1d", tz, MICROS)
    with raises(TypeError, f"{zone}None of type NoneType"):
        CalendarEdges("1d", None, MICROS)  # type: ignore[arg-type]
    with raises(TypeError, "calendar windows need a time column of timestamps or dates; its type is int64"):
        CalendarEdges("1d", "UTC", OFFSETS)
    with raises(
        ValueError,
        "tz must be 'UTC' for a time column of type date32[day], as dates have no zone; got 'Europe/Berlin'",
    ):
        CalendarEdges("1d", "Europe/Berlin", DAYS)


def test_calendar_edges_compare_hash_and_pickle() -> None:
    table = CalendarEdges("1d", "Europe/Berlin", MICROS)
    table.next_edge(np.array([0]))
    copy = pickle.loads(pickle.dumps(table))
    assert copy == table
    assert hash(copy) == hash(table)
    assert copy.next_edge(np.array([0])).tolist() == [82_800 * 10**6]
