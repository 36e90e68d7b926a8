"""Pictures: their tables are what the library computes, and their marks are in the SVG."""

from __future__ import annotations

import html
import importlib
import itertools
import re
import threading
import time
from collections import Counter
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

alt = pytest.importorskip("altair")
vl_convert = pytest.importorskip("vl_convert")

MINUTES = [1, 2, 3, 5, 6, 7, 9, 10, 17, 18, 19, 21, 22, 23]
READINGS = pa.table(
    {
        "ts": pa.array([datetime(2026, 1, 1, 9, m) for m in MINUTES], pa.timestamp("ns")),
        "sensor": ["a"] * 14,
        "value": [20.5 + m for m in MINUTES],
    }
)
SPEC = sl.Spec(
    "ts",
    {"six": sl.tumbling("6m"), "eight's": sl.sliding("8m", every="4m"), "visit": sl.session("4m")},
    {"n": sl.count(), "max": sl.max("value")},
    by="sensor",
)


def marks(chart: object) -> Counter:
    """How many marks of each kind the chart's SVG has."""
    return marks_of(vl_convert.vegalite_to_svg(chart.to_dict()))


def marks_of(svg: str) -> Counter:
    found: Counter = Counter()
    for kind, body in re.findall(r'class="mark-(\w+) role-mark[^"]*"[^>]*>(.*?)</g>', svg, re.DOTALL):
        found[kind] += len(re.findall(r"<(?:path|text|image)\b", body))
    return found


def test_a_timeline_has_rows_slices_and_windows():
    chart = sl.plot.timeline(READINGS, SPEC)
    table = chart.data
    rows = table.to_pylist()
    kinds = Counter(row["kind"] for row in rows)
    windows = sl.aggregate(READINGS, SPEC)
    assert kinds == {"row": 14, "slice": 7, "window": windows.num_rows}
    slices = [(row["start"].minute, row["end"].minute, int(row["text"])) for row in rows if row["kind"] == "slice"]
    assert slices == [(0, 4, 3), (4, 6, 1), (6, 8, 2), (8, 12, 2), (16, 18, 1), (18, 20, 2), (20, 24, 3)]
    boxes = sorted((row["lane"], row["start"], row["end"], row["text"]) for row in rows if row["kind"] == "window")
    wanted = windows.to_pylist()
    assert boxes == sorted((w["window"], w["window_start"], w["window_end"], str(w["n"])) for w in wanted)
    levels = {row["lane"]: row["levels"] for row in rows}
    assert levels == {"rows": 1, "slices": 1, "six": 1, "eight's": 2, "visit": 1}
    overlapping = [row for row in rows if row["lane"] == "eight's"]
    for level in (0, 1):
        own = sorted((row["start"], row["end"]) for row in overlapping if row["level"] == level)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(own))
    found = marks(chart)
    assert found["symbol"] == 14 and found["rect"] == found["text"] == 7 + windows.num_rows
    svg = html.unescape(vl_convert.vegalite_to_svg(chart.to_dict()))
    assert all(f">{lane}<" in svg for lane in ("rows", "slices", "six", "eight's", "visit"))


def test_a_timeline_of_whole_numbers_and_sessions_alone():
    data = pa.table({"t": [1, 2, 9, None, 30], "k": [1, 1, 2, 2, 1]})
    spec = sl.Spec("t", {"s": sl.session(3)}, {"n": sl.count()}, by="k", on_null_time="late")
    rows = sl.plot.timeline(data, spec).data.to_pylist()
    assert [(row["start"], row["text"]) for row in rows if row["kind"] == "slice"] == [(1, "2"), (9, "1"), (30, "1")]
    assert [row["start"] for row in rows if row["kind"] == "row"] == [1, 2, 9, 30]
    spec = sl.Spec("t", {"rows": sl.rows(2)}, {"n": sl.count()})
    assert "slice" not in sl.plot.timeline(data.filter(data["t"].is_valid()), spec).data["kind"].to_pylist()


def test_a_timeline_of_texts_as_views_as_polars_has_them():
    data = READINGS.set_column(1, "sensor", pa.array(["a"] * 14, pa.string_view()))
    spec = sl.Spec("ts", {"six": sl.tumbling("6m")}, {"last": sl.last("sensor")}, by="sensor")
    rows = sl.plot.timeline(data, spec).data.to_pylist()
    assert Counter((row["kind"], row["key"]) for row in rows if row["kind"] != "slice") == {
        ("row", "a"): 14,
        ("window", "a"): 4,
    }
    assert [row["text"] for row in rows if row["kind"] == "window"] == ["a"] * 4


def test_a_window_that_begins_with_the_stream_is_drawn_from_the_first_row():
    data = pa.table({"t": [5, 12, 25]})
    spec = sl.Spec("t", {"so far": sl.landmark(10)}, {"n": sl.count()}, watermark=sl.ordered())
    rows = [row for row in sl.plot.timeline(data, spec).data.to_pylist() if row["kind"] == "window"]
    assert [(row["start"], row["end"], row["text"]) for row in rows] == [(5, 10, "1"), (5, 20, "2"), (5, 30, "3")]
    outputs = [sl.Operator(spec).push(data)]
    boxes = [row for row in sl.plot.progress(outputs).data.to_pylist() if row["kind"] == "window"]
    assert [(row["start"], row["end"]) for row in boxes] == [(10, 10), (20, 20)]
    assert sl.plot.results(sl.aggregate(data, spec)).data["window_start"].to_pylist() == [10, 20, 30]


def stream() -> tuple[list[pa.Table], list[sl.Output]]:
    rng = np.random.default_rng(5)
    at = np.arange(60) * 60 + rng.integers(0, 300, 60)
    at[[25, 45]] -= 1500
    data = pa.table({"at": pa.array(1_767_254_400 + at, pa.timestamp("s", "Europe/Berlin")), "v": at})
    spec = sl.Spec("at", {"m": sl.tumbling("10m")}, {"n": sl.count()}, watermark=sl.bounded("5m"))
    op = sl.Operator(spec)
    batches = [data.slice(start, 10) for start in range(0, 60, 10)]
    return batches, [*(op.push(batch) for batch in batches), op.flush()]


def test_progress_has_the_watermark_late_rows_and_windows():
    batches, outputs = stream()
    chart = sl.plot.progress(outputs, data=batches)
    rows = chart.data.to_pylist()
    kinds = Counter(row["kind"] for row in rows)
    late = sum(out.late.num_rows for out in outputs)
    closed = sum(out.windows.num_rows for out in outputs)
    assert late == 2 and kinds == {"watermark": 7, "window": closed, "late": late, "row": 60}
    steps = [(row["arrived"], row["start"]) for row in rows if row["kind"] == "watermark"]
    assert steps[0] == (10, outputs[0].watermark.replace(tzinfo=None))  # as the clock of the column's zone shows it
    for number, out in enumerate(outputs):
        boxes = [row for row in rows if row["kind"] == "window" and row["arrived"] == sum(map(len, batches[:number]))]
        starts = [w["window_start"].replace(tzinfo=None) for w in out.windows.to_pylist()]
        assert [box["start"] for box in boxes] == starts
    found = marks(chart)
    assert found["rect"] == closed and found["symbol"] == 60 + late and found["line"] == 1
    assert Counter(sl.plot.progress(outputs, time="at").data["kind"].to_pylist()) == kinds - Counter({"row": 60})
    assert sl.plot.progress(outputs, data=pa.concat_tables(batches)).data.equals(chart.data)


def test_results_are_lines_of_windows_and_keys():
    data = pa.concat_tables([READINGS, READINGS.set_column(1, "sensor", pa.array(["b"] * 14))])
    windows = sl.aggregate(data, SPEC)
    chart = sl.plot.results(windows, y="max")
    assert chart.data["max"].to_pylist() == windows["max"].to_pylist()
    assert set(chart.data["series"].to_pylist()) == {f"{w} · {k}" for w in ("six", "eight's", "visit") for k in "ab"}
    assert marks(chart)["symbol"] == windows.num_rows and marks(chart)["line"] == 6
    assert sl.plot.results(windows, by=[]).to_dict()["encoding"]["y"]["title"] == "n"
    named = windows.rename_columns(["series" if name == "sensor" else name for name in windows.column_names])
    chart = sl.plot.results(named)
    assert marks(chart)["line"] == 6 and set(chart.data["series"].to_pylist()) == {"a", "b"}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_keys_of_text_in_any_form_have_lines_of_their_own(kind):
    spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, by="k")
    windows = sl.aggregate(pa.table({"t": [1, 2, 15], "k": ["a", "b", "a"]}), spec, returns=kind)
    assert sl.plot.results(windows).data["series"].to_pylist() == ["ten · a", "ten · b", "ten · a"]


@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_results_are_the_last_ones(emit):
    watermark = sl.bounded(1)
    spec = sl.Spec(
        "t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, watermark=watermark, emit=emit, allowed_lateness=99
    )
    op = sl.Operator(spec)
    outs = [op.push(pa.table({"t": t})) for t in ([1, 12, 25], [2, 3], [13, 40])]
    table = pa.concat_tables([*(out.windows for out in outs), op.flush().windows])
    assert table.num_rows > 4
    found = sl.plot.results(table).data.sort_by("window_end")
    assert found.select(["window_end", "n"]).to_pylist() == [
        {"window_end": end, "n": n} for end, n in ((10, 3.0), (20, 2.0), (30, 1.0), (50, 1.0))
    ]


def emitted(spec: sl.Spec, *pushes: dict) -> pa.Table:
    """All results of some pushes, in order."""
    op = sl.Operator(spec)
    outs = [*(op.push(pa.table(rows)) for rows in pushes), op.flush()]
    return pa.concat_tables(out.windows for out in outs)


def lines(chart: alt.Chart, y: str = "n") -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for row in chart.data.to_pylist():
        found.setdefault(row["series"], []).append((row["window_end"], row[y]))
    return {name: sorted(points) for name, points in found.items()}


@pytest.mark.parametrize("emit", ["final", "updates", "changes"])
def test_keys_that_are_numbers_have_lines_of_their_own(emit):
    lateness = {} if emit == "final" else {"allowed_lateness": 99}
    spec = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, by="g", emit=emit, **lateness)
    table = emitted(spec, {"t": [1, 2, 3], "g": [7, 8, 9]}, {"t": [4, 15], "g": [9, 9]})
    assert lines(sl.plot.results(table)) == {
        "ten · 7": [(10, 1.0)],
        "ten · 8": [(10, 1.0)],
        "ten · 9": [(10, 2.0), (20, 1.0)],
    }


@pytest.mark.parametrize("name", ["v.max", "v[0]", "rate:Q", "ms:hour", "'n'", '"n"', "it's"])
def test_a_column_of_any_name_is_drawn(name):
    def paths(column: str) -> list[str]:
        windows = sl.aggregate(READINGS, sl.Spec("ts", {"six": sl.tumbling("6m")}, {column: sl.max("value")}))
        return re.findall(r' d="([^"]*)"', vl_convert.vegalite_to_svg(sl.plot.results(windows, y=column).to_dict()))

    assert paths(name) == paths("n")


def test_early_results_are_on_the_line_of_their_window():
    aggs = {"st": sl.last("st"), "n": sl.count(), "end": sl.last("st")}
    spec = sl.Spec("t", {"ten": sl.tumbling(10)}, aggs, by="k", emit="updates", trigger=sl.every(5))
    rows = {"t": [1, 2, 7, 12, 19, 31], "k": list("abaaab"), "st": list("uvwxyz")}
    table = emitted(spec, rows)
    assert set(table["timing"].to_pylist()) == {"early", "on_time"}
    assert lines(sl.plot.results(table)) == {
        "ten · a": [(10, 2.0), (20, 2.0)],
        "ten · b": [(10, 1.0), (40, 1.0)],
    }


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_text_that_is_an_aggregate_splits_no_line(emit, first):
    aggs = {"n": sl.count(), "st": sl.last("st")}
    aggs = dict(reversed(aggs.items())) if first else aggs
    spec = sl.Spec("t", {"ten": sl.tumbling(10)}, aggs, emit=emit, allowed_lateness=99)
    table = emitted(spec, {"t": [1, 12], "st": ["u", "v"]}, {"t": [3, 25], "st": ["w", "x"]}, {"t": [13], "st": ["y"]})
    found = sl.plot.results(table)
    assert lines(found) == {"ten": [(10, 2.0), (20, 2.0), (30, 1.0)]}
    assert found.data["st"].to_pylist() == ["w", "y", "x"]
    again = sl.plot.results(table, by="st")
    assert set(again.data["series"].to_pylist()) == {f"ten · {st}" for st in table["st"].to_pylist()} - (
        {"ten · u", "ten · v"} if emit == "changes" else set()
    )


def test_keys_that_no_window_needs_have_lines_of_their_own():
    spec = sl.Spec("t", {"s": sl.session(3)}, {"n": sl.count(), "st": sl.last("k")}, by="k")
    table = sl.aggregate(pa.table({"t": [1, 5, 11, 17], "k": list("abab")}), spec)
    assert lines(sl.plot.results(table)) == {"s · a": [(4, 1.0), (14, 1.0)], "s · b": [(8, 1.0), (20, 1.0)]}
    two = sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, by=["k", "room"])
    table = sl.aggregate(pa.table({"t": [1, 5, 11], "k": list("aba"), "room": list("xyx")}), two)
    assert lines(sl.plot.results(table)) == {"ten · a · x": [(10, 1.0), (20, 1.0)], "ten · b · y": [(10, 1.0)]}


def test_a_last_result_without_a_value_is_drawn_without_one():
    table = pa.table(
        {"window": ["w", "w"], "window_start": [0, 0], "window_end": [9, 9], "n": [4, None], "revision": [0, 1]}
    )
    assert sl.plot.results(table).data["n"].to_pylist() == [None]


def test_windows_at_rows_of_equal_time_are_told_apart_by_their_ranks():
    spec = sl.Spec("t", {"two": sl.rows(2)}, {"n": sl.count()}, emit="changes", allowed_lateness=9)
    table = emitted(spec, {"t": [1] * 6 + [30]})
    assert table.num_rows == 3 and sl.plot.results(table).data.num_rows == table.num_rows


def test_keys_in_front_of_ranks_are_keys():
    spec = sl.Spec("t", {"one": sl.rows(1)}, {"st": sl.last("st"), "n": sl.count()}, by="g")
    table = sl.aggregate(pa.table({"t": [1, 2, 3], "g": [7, 8, 7], "st": ["u", "v", "w"]}), spec)
    assert lines(sl.plot.results(table)) == {"one · 7": [(1, 1.0), (3, 1.0)], "one · 8": [(2, 1.0)]}


@pytest.mark.parametrize("emit", ["final", "updates"])
def test_wide_results_are_lines_of_keys(emit):
    windows = {"five": sl.tumbling(5), "ten": sl.tumbling(10)}
    spec = sl.Spec("t", windows, {"n": sl.count()}, by="k", watermark=sl.bounded(0), allowed_lateness=99, emit=emit)
    op = sl.Operator(spec, layout="wide")
    outs = [op.push(pa.table({"t": t, "k": ["a", "b"] * 2})) for t in ([1, 2, 8, 9], [12, 13, 21, 22], [3, 11, 31, 32])]
    table = pa.concat_tables([*(out.windows for out in outs), op.flush().windows])
    found = sl.plot.results(table, y="n_ten")
    drawn = {(row["window_end"], row["k"]): row["n_ten"] for row in found.data.to_pylist() if row["n_ten"]}
    assert drawn == {(10, "a"): 3, (10, "b"): 2, (20, "a"): 1, (20, "b"): 2} | {
        (end, key): 1 for end in (30, 40) for key in "ab"
    }
    assert set(found.data["series"].to_pylist()) == {"a", "b"} and marks(found)["line"] == 2
    assert found.data.num_rows == len({(row["window_end"], row["k"]) for row in table.to_pylist()})
    with pytest.raises(ValueError, match="progress draws windows from their start, which wide outputs have not; use"):
        sl.plot.progress(outs)


def test_lateness_is_that_of_rows_pushed_one_by_one():
    rng = np.random.default_rng(8)
    at = 1_767_254_400_000 + np.arange(300) * 100 - rng.exponential(900, 300).astype(np.int64)
    data = pa.table({"at": pa.array(at, pa.timestamp("ms"))})
    bounds = ["0s", "250ms", "1s", "4s"]
    chart = sl.plot.lateness((data.slice(start, 70) for start in range(0, 300, 70)), "at", bounds=bounds)
    for bound, found in zip(bounds, chart.data.to_pylist(), strict=True):
        behind = [int(at[:n].max()) - int(at[n - 1]) for n in range(1, 301)]
        late = sum(lag > sl.bounded(bound).delay.ns // 10**6 for lag in behind)
        assert found == {"bound": bound, "late": late, "share": late / 300}
    assert marks(chart)["rect"] == marks(chart)["text"] == 4
    usual = sl.plot.lateness(data, "at").data.to_pylist()
    assert usual[0]["bound"] == "0s" and usual[-1]["late"] == 0 < usual[-2]["late"]
    assert sl.plot.lateness(pa.table({"t": [5, 9, 1]}), "t").data["bound"].to_pylist() == ["0", "8"]
    assert sl.plot.lateness(data, "at", bounds="1s").data.to_pylist() == chart.data.to_pylist()[2:3]
    assert sl.plot.lateness(pa.table({"t": [5, 9, 1]}), "t", bounds=4).data["late"].to_pylist() == [1]


def of_batch(batch: int) -> SimpleNamespace:
    """What Spark says of the progress of a query."""
    stats = {"rows": 100 + batch, "late": 1, "windows": 5, "lag_ms": 1500, "state_bytes": 2000 * batch}
    return SimpleNamespace(batchId=batch, observedMetrics={"windows": SimpleNamespace(stats=stats)})


def test_a_query_is_shown_by_batch():
    idle = SimpleNamespace(batchId=9, observedMetrics={})
    chart = sl.plot.query(SimpleNamespace(recentProgress=[of_batch(0), of_batch(1), of_batch(2), idle]))
    first = {"batch": 0, "rows": 100, "late": 1, "windows": 5, "behind_s": 1.5, "state_kb": 0.0}
    assert chart.data.num_rows == 3 and chart.data.to_pylist()[0] == first
    assert marks(chart)["symbol"] == 12 and marks(chart)["line"] == 4
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    named = re.search(r"role-axis-label[^>]*>(.*?)</g>", svg[svg.index("X-axis titled 'batch'") :], re.DOTALL)[1]
    assert re.findall(r">([^<>\s]+)</text>", named) == ["0", "1", "2"]
    with pytest.raises(ValueError, match="the query has no progress under the name 'other' yet"):
        sl.plot.query(SimpleNamespace(recentProgress=[of_batch(0)]), name="other")


def test_a_query_on_spark_connect_is_shown_too():
    """Its metrics are not decoded there."""
    plain = of_batch(1)
    stats = plain.observedMetrics["windows"].stats
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in stats]
    row = {"values": list(stats.values()), "schema": {"type": "struct", "fields": fields}}
    schema = {"type": "struct", "fields": [{"name": "stats", "type": row["schema"]}]}
    seen = {"windows": {"values": [row], "schema": schema}}
    found = sl.plot.query(SimpleNamespace(recentProgress=[SimpleNamespace(batchId=1, observedMetrics=seen)]))
    assert found.data.equals(sl.plot.query(SimpleNamespace(recentProgress=[plain])).data)


def test_a_query_is_redrawn_until_it_ends(monkeypatch):
    shown, naps, sleep, redraws = [], [], time.sleep, threading.current_thread()
    ends = iter([True, True, False])

    query = type("Query", (), {"recentProgress": [of_batch(0)], "isActive": property(lambda self: next(ends))})

    def nap(seconds):
        if threading.current_thread() is not redraws:  # PySpark's threads of tests before this one
            return sleep(seconds)
        naps.append(seconds)
        query.recentProgress.append(of_batch(len(naps)))

    def display(chart, display_id):
        shown.append(chart)
        return SimpleNamespace(update=shown.append)

    monkeypatch.setattr(time, "sleep", nap)
    monkeypatch.setattr(importlib.import_module("IPython.display"), "display", display)
    last = sl.plot.query(query(), live=5)
    assert [chart.data.num_rows for chart in shown] == [1, 2, 3] and naps == [5, 5] and last is shown[-1]


def test_charts_compose():
    both = sl.plot.timeline(READINGS, SPEC) & sl.plot.results(sl.aggregate(READINGS, SPEC)).properties(height=100)
    assert isinstance(both, alt.VConcatChart) and marks(both)["symbol"] > 14


def test_without_altair_it_is_said_how_to_get_it(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib.import_module("slicing.plot.shared"), "import_module", missing)
    with pytest.raises(ImportError, match=r"sl.plot needs Altair, which is not installed: pip install 'stream-slic"):
        sl.plot.lateness(READINGS, "ts")


NAMED = pa.table({"window": ["w"], "window_start": [0], "window_end": [9], "st": ["on"]})
REFUSED = {
    "spec": (
        lambda: sl.plot.timeline(READINGS, "ts"),
        "timeline takes the data and, as spec, a sl.Spec with",
    ),
    "many": (
        lambda: sl.plot.timeline(pa.table({"t": range(3000)}), sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()})),
        "timeline shows at most 2000 rows, one by one; got 3,000: give a part of them",
    ),
    "outputs": (lambda: sl.plot.progress([READINGS]), "progress takes the outputs of an operator"),
    "results": (lambda: sl.plot.results(READINGS), "results takes a table of windows; got one with the columns ts, "),
    "y": (
        lambda: sl.plot.results(sl.aggregate(READINGS, SPEC), y="total"),
        "column 'total' is missing in the results; their columns are window, ",
    ),
    "y, text": (
        lambda: sl.plot.results(sl.aggregate(READINGS, SPEC), y="sensor"),
        "y must be a column of numbers; column 'sensor' has type string, and the columns of numbers are n, max",
    ),
    "y, parts": (
        lambda: sl.plot.results(NAMED.append_column("m", pa.array([{"a": 1}])), y="m"),
        "y must be a column of numbers; column 'm' has type struct<a: int64>",
    ),
    "no y": (
        lambda: sl.plot.results(NAMED),
        "results needs y=, the name of a column of numbers; there is none that is no key among 'st' of type string",
    ),
    "no name": (lambda: sl.plot.results(NAMED, by=5), "by must be the name of a column or a list of names; got 5"),
    "by": (
        lambda: sl.plot.results(NAMED.append_column("m", pa.array([[1]])), by="m"),
        "by column 'm' has type list<item: int64>, which cannot be a key",
    ),
    "tables": (
        lambda: sl.plot.results([NAMED]),
        "results takes one table of windows: the result of sl.aggregate, out.windows of an output, or pa.concat_tables("
        "out.windows for out in outputs); got list",
    ),
    "an output": (lambda: sl.plot.results(stream()[1][0]), "results takes one table of windows: the result of sl.aggr"),
    "one output": (lambda: sl.plot.progress(stream()[1][0]), "a list of at least one sl.Output; got Output"),
    "time": (lambda: sl.plot.lateness(READINGS, "tz"), "column 'tz' is missing in the data; its columns are ts, "),
    "none": (lambda: sl.plot.lateness(READINGS.slice(0, 0), "ts"), "lateness needs rows with a time in column 'ts'"),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(call, said):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert said in str(refused.value)


def test_results_of_a_stream_without_rows_say_so():
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()})
    with pytest.raises(ValueError, match="its stream has had no rows"):
        sl.plot.results(sl.Operator(spec).flush().windows, y="n")
