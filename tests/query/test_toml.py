"""Specs as TOML: what is written is read as the same query, and the rest is refused."""

from __future__ import annotations

import datetime
import os
import tomllib
from zoneinfo import ZoneInfo

import harness
import numpy as np
import pandas as pd
import pytest
import strategies
from harness import Squares, Visit, user_defined
from hypothesis import HealthCheck, given, settings
from test_expressions import EXPRESSIONS

import slicing as sl
from slicing.query.written import AGGREGATES, TRIGGERS, WATERMARKS, WINDOWS

CASES = int(os.environ.get("SLICING_CASES", "100"))
ONE = {"w": sl.tumbling(10)}
BERLIN = datetime.datetime(2026, 3, 29, 1, 59, 59, 1, tzinfo=ZoneInfo("Europe/Berlin"))
EXAMPLES = {
    "every window": sl.Spec(
        "ts",
        {
            "a": sl.tumbling("1h30m", offset="7ns", fill=True),
            "b c": sl.sliding("1h", every="1ms", full=True),
            'quoted "d"\n': sl.cumulate("1d", every="1h"),
            "é": sl.landmark("1h", start="2026-01-01"),
            "fixed": sl.fixed(BERLIN, np.datetime64("2262-01-01")),
            "utc": sl.fixed(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), datetime.date(2262, 1, 1)),
            "month": sl.calendar("1mo", tz="America/New_York", fill=True),
            "local": sl.calendar("15min", local=True),
            "visit": sl.session("30m"),
            "whole": sl.whole(),
            "rows": sl.rows(1000, every=10, order="arrival", per_key=False, partial=True),
            "row": sl.per_row(before="1h", after="1us", closed="both"),
            "back": sl.per_row("1h", every=3, delay="5m"),
            "last": sl.last_rows(5, every="1d"),
            "marks": sl.punctuation("it's", per_key=False),
            "frame": sl.frame("enter", "leave", partial=True),
        },
        {"n": sl.count()},
        by=["k", 'odd "key"'],
        watermark=sl.per_source("source", "10s", idle="1h"),
        sequence="seq",
        on_null_time="late",
        on_overflow="wrap",
    ),
    "every aggregate": sl.Spec(
        "t",
        ONE,
        {
            **{name: getattr(sl, name)("x") for name in ("count", "sum", "mean", "min", "max", "first", "last")},
            **{name: getattr(sl, name)("x") for name in ("median", "mode", "count_distinct", "collect", "product")},
            **{name: getattr(sl, name)("x") for name in ("geometric_mean", "any", "all", "m4", "min_count")},
            **{name: getattr(sl, name)("x") for name in ("max_count", "approx_count_distinct")},
            "std": sl.std("x", ddof=0).where("flag"),
            "var": sl.var("x"),
            "argmin": sl.argmin("x", ["y", "z"]),
            "argmax": sl.argmax("x", "y"),
            "q": sl.quantile("x", 0.1 + 0.2),
            "sketch": sl.approx_quantile("x", 0.99, error=0.001),
            "top": sl.top_k("x", 3, return_="y"),
            "least": sl.bottom_k("x", 3),
            "latest": sl.collect("x", 3, "last"),
            "heavy": sl.heavy_hitters("x", 0.25),
            "some": sl.sample("x", 5),
            "share": (1 - sl.sum("a") / sl.sum("b")) * -1e300 - (sl.count() - 2**62),
            "odd": sl.sum("a") * float("inf") + sl.min("a") / 3,
        },
        allowed_lateness=2**40,
        emit="changes",
        idle=None,
        watermark=sl.bounded(5, at_most_ahead=10**18),
    ),
    "a clock": sl.Spec(sl.processing_time(), {"w": sl.tumbling("1m")}, {"n": sl.count()}, idle="1d"),
    "marks in rows": sl.Spec("t", ONE, {"n": sl.count()}, watermark=sl.punctuated("mark")),
    "in order": sl.Spec("t", ONE, {"n": sl.count()}, watermark=sl.ordered("late")),
    "early": sl.Spec(
        "t", ONE, {"n": sl.count()}, emit="parts", trigger=sl.every(2, offset=1) | sl.after_share(0.1 + 0.2)
    ),
    "early at rows": sl.Spec(
        "t", ONE, {"n": sl.count()}, emit="parts", trigger=sl.after_count(5, times=2) | sl.on_punctuation("m")
    ),
    "early by arrival": sl.Spec("t", ONE, {"n": sl.count()}, emit="parts", trigger=sl.after_count(5, order="arrival")),
    "early by name": sl.Spec(
        "ts",
        {"a": sl.tumbling("1h"), 'b "c"': sl.tumbling("1d"), "c": sl.tumbling("1m")},
        {"n": sl.count()},
        emit="updates",
        trigger={"a": sl.each_push(), 'b "c"': sl.by_hand() | sl.every_processing_time("10s")},
    ),
    "by hand": sl.Spec("t", ONE, {"n": sl.count()}, watermark=sl.manual(), allowed_lateness=3, emit="updates"),
}


@pytest.mark.parametrize("spec", EXAMPLES.values(), ids=EXAMPLES)
def test_what_is_written_is_read_as_the_same(spec, tmp_path):
    text = spec.to_toml()
    assert tomllib.loads(text)  # the standard library's reader takes it
    read = sl.Spec.from_toml(text)
    assert read == spec and hash(read) == hash(spec) and read.fingerprint() == spec.fingerprint()
    assert repr(read) == repr(spec) and read.to_toml() == text
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    assert sl.Spec.from_toml(tmp_path / "spec.toml") == spec


def test_every_window_aggregate_and_progress_is_known():
    """Most of them are in the examples; others may be newer than these."""
    known = {**WINDOWS, **AGGREGATES, **WATERMARKS, **TRIGGERS}
    assert all(getattr(sl, name) is call for name, call in known.items())
    shown = "".join(spec.to_toml() for spec in EXAMPLES.values())
    unseen = [name for name in known if f"{name}(" not in shown]
    assert len(unseen) <= len(known) // 4, unseen


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_expressions_are_read_as_they_are(expression):
    aggs = {"x": sl.max(expression) / sl.count().where(expression), "y": sl.count().where(expression)}
    spec = sl.Spec("t", ONE, aggs)
    assert sl.Spec.from_toml(spec.to_toml()) == spec


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.cases())
def test_random_queries(case):
    spec = harness.spec(case)
    own = [w for w in spec.windows.values() if type(w).__module__ == "harness"]
    own += [part for part in spec.parts() if part.user is not None]
    if own:
        with pytest.raises(ValueError, match="which no text can build"):
            spec.to_toml()
    else:
        assert sl.Spec.from_toml(spec.to_toml()) == spec


def test_what_is_kept_short_by_hand_is_read():
    text = """
        processing_time = true  # rows are stamped
        by = "sensor"
        allowed_lateness = "90s"
        [windows]
        "1 m" = "sl.tumbling('1m')"
        [aggs]
        dear = '''sum(col("price") * col("qty")) / count()'''
        """
    spec = sl.Spec.from_toml(text)
    assert spec == sl.Spec(
        sl.processing_time(),
        {"1 m": sl.tumbling("1m")},
        {"dear": sl.sum(sl.col("price") * sl.col("qty")) / sl.count()},
        by=["sensor"],
        allowed_lateness="1m30s",
    )


NO_TEXT = "which no text can build: a spec with functions or classes of your own"
UNWRITTEN = {
    "window": (lambda: sl.Spec("t", {"mine": Squares(0)}, {"n": sl.count()}), r"windows\['mine'\] is .*Squares.*"),
    "visit": (lambda: sl.Spec("t", {"v": Visit("x", 3)}, {"n": sl.count()}), r"windows\['v'\] is .*"),
    "udaf": (lambda: sl.Spec("t", ONE, {"mine": user_defined("range", "x")}), r"aggs\['mine'\] is sl.udaf.*"),
}


@pytest.mark.parametrize(("spec", "named"), UNWRITTEN.values(), ids=UNWRITTEN)
def test_what_is_your_own_is_not_written(spec, named):
    with pytest.raises(ValueError, match=named + NO_TEXT):
        spec().to_toml()


def test_a_clock_of_your_own_is_not_written():
    spec = sl.Spec(sl.processing_time(lambda: 5), {"w": sl.tumbling("1m")}, {"n": sl.count()})
    with pytest.raises(ValueError, match="time has a clock of your own"):
        spec.to_toml()


GOOD = {"time": '"t"', "w": "tumbling('1m')", "a": "count()"}
REFUSED = {
    "no TOML": ({"time": "t"}, "the spec is no TOML: Invalid value"),
    "unknown key": ({"time": '"t"\nbuy = "k"'}, "the spec has 'buy', which is no part of one; did you mean 'by'?"),
    "two times": ({"time": '"t"\nprocessing_time = true'}, 'needs either time = "column", or processing_time = true'),
    "unknown window": ({"w": "tumblng('1m')"}, "windows.w = \"tumblng('1m')\": tumblng is not known; did you mean tum"),
    "wrong argument": ({"w": "tumbling('1x')"}, "windows.w = \"tumbling('1x')\": size must be a positive duration"),
    "too many": (
        {"w": "tumbling('1m', 1, 2, 3)"},
        "windows.w = \"tumbling('1m', 1, 2, 3)\": sl.tumbling takes at most 2 arguments without a name (size, offset)",
    ),
    "unknown argument": ({"w": "tumbling(sise='1m')"}, "sl.tumbling has no argument 'sise'; did you mean size?"),
    "twice": (
        {"a": "count().where(flag='x', flag='y')"},
        "aggs.a = \"count().where(flag='x', flag='y')\": count().where has got 'flag' twice",
    ),
    "by place and name": ({"a": "sum('x', column='y')"}, "sl.sum has got 'column' twice, by its place and by its name"),
    "an aggregate": ({"w": "count()"}, "count is not known; known are calendar, col, cumulate"),
    "code": ({"a": "__import__('os').system('true')"}, "is not known"),
    "attribute": ({"a": "sum.__globals__"}, "is none of the calls, columns and values"),
    "unpacked": ({"a": "sum(**{'column': 'x'})"}, "is none of the calls, columns and values"),
    "not a call": ({"a": "x y"}, "aggs.a must be a call, such as \"count()\"; got 'x y'"),
    "a column": ({"a": "col('x')"}, 'aggs.a must be a call, such as "count()"'),
    "where of it": ({"a": "count().where('a').where('b')"}, "already has a where"),
    "a method": ({"a": "count().bind('a')"}, "count().bind is not known"),
    "power": ({"a": "sum('x') * 9 ** 9"}, "9 ** 9 is none of the calls, columns and values"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(change, said):
    parts = GOOD | change
    text = f'time = {parts["time"]}\n[windows]\nw = "{parts["w"]}"\n[aggs]\na = "{parts["a"]}"\n'
    with pytest.raises((TypeError, ValueError)) as refused:
        sl.Spec.from_toml(text)
    assert said in str(refused.value)


@pytest.mark.parametrize("kind", [sl.Spec, sl.JoinSpec, sl.FeatureSpec])
@pytest.mark.parametrize("given", [None, 5, b"x"])
def test_what_is_no_text_is_refused(kind, given):
    with pytest.raises(
        TypeError, match=r"the spec must be TOML text, or the pathlib.Path of a file of it; got (N|5|b')"
    ):
        kind.from_toml(given)


def test_tables_are_needed_and_entries_are_text():
    with pytest.raises(ValueError, match=r"the spec needs a table \[windows\] with entries such as minute = "):
        sl.Spec.from_toml('time = "t"')
    with pytest.raises(TypeError, match=r"aggs.n must be a call in quotes, such as \"count\(\)\"; got 5"):
        sl.Spec.from_toml('time = "t"\n[windows]\nw = "whole()"\n[aggs]\nn = 5')
    with pytest.raises(TypeError, match="time must be the name of a column"):
        sl.Spec.from_toml('time = 5\n[windows]\nw = "whole()"\n[aggs]\nn = "count()"')


def test_a_trigger_with_itself_is_that_trigger():
    trigger = sl.every(3) | sl.every(3)
    assert trigger == sl.every(3) == eval(repr(trigger))
    spec = sl.Spec("t", ONE, {"n": sl.count()}, emit="parts", trigger=trigger)
    assert sl.Spec.from_toml(spec.to_toml()) == spec


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_of_pandas_are_printed_as_code(zone: str | None) -> None:
    start, end = pd.Timestamp("2026-01-01", tz=zone), pd.Timestamp("2026-02-01 00:00:00.123456789", tz=zone)
    windows = {"f": sl.fixed(start, end), "l": sl.landmark("1h", start=start)}
    spec = sl.Spec("t", windows, {"n": sl.count()})
    assert eval(repr(spec)) == spec == sl.Spec.from_toml(spec.to_toml())
    rows = pd.DataFrame({"t": [start, end - pd.Timedelta(1), end]})
    assert sl.aggregate(rows, sl.Spec("t", {"f": sl.fixed(start, end)}, {"n": sl.count()}))["n"].to_pylist() == [2]
