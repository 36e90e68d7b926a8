"""Rows taken back (``Spec(op=)``): random changelogs are held against the rows that are left, recomputed one by one."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from harness import agree, arrow_array, plain_rows, seeds
from oracle import Row, Values, aggregate, extents, rank, tally
from places import Places

import slicing as sl

CASES = int(os.environ.get("SLICING_CASES", "75"))  # of all random tests of this file together
TYPES = {
    "t": "int64", "k": "string", "v": "int64", "u": "uint64", "f": "float64", "d": "decimal(9, 2)",
    "wide": "decimal(30, 2)", "s": "string", "b": "bool", "span": "duration[us]", "x": "float32",
}  # fmt: skip
FUNCTIONS = {
    "v": ["sum", "mean", "product", "median", "var"], "u": ["sum", "mean", "product", "quantile"],
    "d": ["sum", "mean", "std"],
    "f": ["sum", "mean", "product", "geometric_mean", "var", "std", "median", "quantile"],
    "wide": ["sum", "mean", "var"], "s": [], "b": ["any", "all", "sum"], "span": ["sum", "mean"], "x": ["sum", "mean"],
}  # fmt: skip
COMMON = [
    "count",
    "min",
    "max",
    "min_count",
    "max_count",
    "mode",
    "count_distinct",
    "heavy_hitters",
    "top_k",
    "bottom_k",
]
ARGUMENTS: dict[str, Values] = {
    "quantile": {"q": 0.9}, "top_k": {"k": 3}, "bottom_k": {"k": 2}, "heavy_hitters": {"share": 0.25},
    "var": {"ddof": 1}, "std": {"ddof": 0},
}  # fmt: skip
SIGNS: list[tuple[list, list]] = [(["+"], ["-"]), (["+", "+I", "+U"], ["-", "-U", "-D"]), ([1], [-1])]
WINDOWS: dict[str, Values] = {
    "six": {"kind": "tumbling", "size": 6},
    "over": {"kind": "sliding", "size": 10, "every": 4, "offset": 1},
    "gaps": {"kind": "sliding", "size": 3, "every": 5},
    "grow": {"kind": "cumulate", "size": 12, "every": 4},
    "band": {"kind": "fixed", "start": 7, "end": 31},
    "all": {"kind": "whole"},
}


def pick(rng: np.random.Generator, values: list) -> Any:
    return values[int(rng.integers(len(values)))]


def value(rng: np.random.Generator, column: str, extreme: bool) -> Any:
    if rng.integers(8) == 0:
        return None
    match column:
        case "v":
            return pick(rng, [-(2**63), 2**63 - 1, -1, 0, 1, 2**62]) if extreme else int(rng.integers(-5, 6))
        case "u":
            return pick(rng, [0, 1, 2**63, 2**64 - 1, 2**63 - 1]) if extreme else int(rng.integers(0, 6))
        case "f" | "x":
            found = pick(rng, [float("inf"), float("nan"), -0.0, 0.0, 1e30, -1e30, 0.1, 0.2, 0.3, -7.5])
            return float(np.float32(found)) if column == "x" else found
        case "d":
            return Decimal(int(rng.integers(-(10**9) + 1, 10**9) if extreme else rng.integers(-9, 9))).scaleb(-2)
        case "wide":
            return Decimal(pick(rng, [10**29 - 1, -(10**29) + 1, 12, 0, -1])).scaleb(-2)
        case "s":
            return pick(rng, ["", "a", "b", "ab", "ü"])
        case "b":
            return bool(rng.integers(2))
    return int(rng.integers(-50, 50))


class Log:
    """A random changelog: rows come, some are taken back, some replaced; the log comes in any order."""

    def __init__(self, rng: np.random.Generator, rows: int, unit: int, since: int) -> None:
        extreme, adds = bool(rng.integers(2)), pick(rng, SIGNS)
        self.left: list[Values] = []
        log: list[tuple[Values, Any]] = []
        for _ in range(rows):
            row = {name: value(rng, name, extreme) for name in TYPES}
            row["t"], row["k"] = since + int(rng.integers(0, 40)) * unit, pick(rng, ["a", "b", None])
            log.append((row, pick(rng, adds[0])))
            fate = int(rng.integers(4))
            if fate < 2:
                log.append((row, pick(rng, adds[1])))
                row = row | {"v": value(rng, "v", extreme), "f": value(rng, "f", extreme)}
                log += [(row, pick(rng, adds[0]))] if fate else []
            self.left += [] if fate == 0 else [row]
        order = np.argsort(np.arange(len(log)) * rng.uniform(0, 0.2) + rng.uniform(0, 9, len(log)))
        self.rows = [log[i] for i in order]
        self.op = "string" if isinstance(adds[0][0], str) else pick(rng, ["int8", "int32", "int64"])

    def left_of(self, count: int) -> list[Values] | None:
        """What is left of the first rows of the log; None where one is taken back that has not come yet."""
        rows = {id(row): row for row, _ in self.rows[:count]}
        net = dict.fromkeys(rows, 0)
        for row, op in self.rows[:count]:
            net[id(row)] += 1 if op in ("+", "+I", "+U", 1) else -1
        return None if min(net.values()) < 0 else [row for at, row in rows.items() if net[at]]

    def batch(self, start: int, size: int) -> pa.RecordBatch:
        some = self.rows[start : start + size]
        columns = {name: arrow_array([row[name] for row, _ in some], kind) for name, kind in TYPES.items()}
        return pa.RecordBatch.from_pydict({**columns, "op": arrow_array([op for _, op in some], self.op)})


def questions(rng: np.random.Generator) -> dict[str, Values]:
    asked: dict[str, Values] = {"n": {"fn": "count"}}
    for at in range(int(rng.integers(1, 7))):
        column = pick(rng, list(FUNCTIONS))
        fn = pick(rng, COMMON + 2 * FUNCTIONS[column])
        flag = {"where": "b"} if rng.integers(4) == 0 else {}
        asked[f"a{at}"] = {"fn": fn, "col": column, **ARGUMENTS.get(fn, {}), **flag}
    return asked


def built(asked: Values) -> sl.Aggregate:
    arguments = [asked[name] for name in ("col", "q", "k", "share") if name in asked]
    made = getattr(sl, asked["fn"])(*arguments, **({"ddof": asked["ddof"]} if "ddof" in asked else {}))
    return made.where("b") if "where" in asked else made


def window(asked: Values, unit: int, since: int) -> Any:
    sizes = {name: asked[name] * unit for name in ("size", "every", "offset") if name in asked}
    if asked["kind"] == "fixed":
        return sl.fixed(*(since + asked[name] * unit for name in ("start", "end")))
    return getattr(sl, asked["kind"])(**sizes)


def answer(asked: Values, rows: list[Row]) -> Any:
    if asked["fn"] != "mode":
        return aggregate(asked, rows, TYPES, "null")
    values = [
        row.values["v" if asked["col"] is None else asked["col"]]
        for row in rows
        if "where" not in asked or row.values["b"]
    ]
    found = tally([value for value in values if value is not None])
    return min(found, key=lambda pair: (-pair[1], rank(pair[0])))[0] if found else None  # ties: the smaller value


def expected(
    left: list[Values], names: list[str], asked: dict[str, Values], by: list[str], unit: int, since: int
) -> dict:
    """(window, start, end, key) -> answers, from the rows that are left."""
    held: dict[tuple, list[Row]] = {}
    for at, row in enumerate(left):
        key = tuple(row[name] for name in by)
        made = Row(row, key, row["t"], at, (row["t"], 0, at), 0)
        for name in names:
            spread = {k: v * unit if k != "kind" else v for k, v in WINDOWS[name].items()}
            if name == "band":
                spread = {"kind": "fixed", "start": since + 7 * unit, "end": since + 31 * unit}
            found = [(None, None)] if name == "all" else extents(spread, row["t"], "int64")
            for start, end in found:
                held.setdefault((name, start, end, key), []).append(made)
    out = {}
    for (name, start, end, key), rows in held.items():
        if name == "all":
            start, end = min(row.time for row in rows), max(row.time for row in rows)
        out[name, start, end, key] = {a: answer(one, rows) for a, one in asked.items()}
    return out


def found(rows: list[Values], by: list[str], asked: dict[str, Values]) -> dict:
    """What is left of results once those with op '-' are taken back, which must be there as they are."""
    out: dict[tuple, Values] = {}
    for row in rows:
        key = row["window"], row["window_start"], row["window_end"], tuple(row[name] for name in by)
        answers = {a: row[a] for a in asked}
        if row.get("op") == "-":
            assert repr(out.pop(key)) == repr(answers), key
        else:
            assert key not in out, key
            out[key] = answers
    return out


def compare(wanted: dict, got: dict, about: object) -> None:
    assert wanted.keys() == got.keys(), f"{about}\n{wanted.keys() ^ got.keys()}"
    for key, answers in wanted.items():
        wrong = [name for name in answers if not agree(answers[name], got[key][name])]
        assert not wrong, f"{about}\n{key}: {[(name, answers[name], got[key][name]) for name in wrong]}"


MAGNITUDES = [(1, 0), (1, -20), (60_000_000_000, 1_700_000_000 * 10**9), (2**50, -(2**58)), (1, 2**61)]


def magnitude(rng: np.random.Generator) -> tuple[int, int]:
    """Ticks a unit of time, and where times begin."""
    unit, since = pick(rng, MAGNITUDES)
    return unit, since - since % (60 * unit)


@pytest.mark.parametrize("case", seeds(53, CASES))
def test_a_changelog_is_the_rows_that_are_left(case: int) -> None:
    rng = np.random.default_rng(case)
    unit, since = magnitude(rng)
    log, asked = Log(rng, int(rng.integers(1, 60)), unit, since), questions(rng)
    names = [name for name in WINDOWS if rng.integers(2)] or ["six"]
    by = pick(rng, [["k"], []])
    later = bool(rng.integers(2))  # corrected, or given once
    early = pick(rng, [None, None, sl.every(3 * unit), sl.after_share(0.3), sl.each_push()])
    names = [name for name in names if early is None or name not in ("grow", "all")] or ["six"]
    spec = sl.Spec(
        "t",
        {name: window(WINDOWS[name], unit, since) for name in names},
        {name: built(one) for name, one in asked.items()},
        by=by,
        op="op",
        watermark=sl.bounded(0 if later else 41 * unit),
        allowed_lateness=41 * unit if later else 0,
        emit="changes" if later or early or rng.integers(2) else "final",
        trigger=early,
        on_overflow="null",
        on_unmatched="null" if later else "error",
    )
    wanted = expected(log.left, names, asked, by, unit, since)
    op, rows, at = sl.Operator(spec), [], 0
    while at < len(log.rows):
        size = int(rng.integers(1, 30))
        out = op.push(log.batch(at, size))
        assert out.stats.late == 0
        rows += plain_rows(out.windows)
        at += size
        if rng.integers(3) == 0:
            op = sl.Operator.restore(spec, op.snapshot())
    rows += plain_rows(op.flush().windows)
    compare(wanted, found(rows, by, asked), (case, spec))
    if early == sl.each_push():
        return
    whole = sl.aggregate(log.batch(0, len(log.rows)), spec)
    compare(wanted, found(plain_rows(whole), by, asked), (case, "aggregate", spec))


@pytest.mark.parametrize("case", seeds(7, CASES))
def test_early_results_are_the_same_for_any_split_and_withheld_where_they_could_not_be(case: int) -> None:
    rng = np.random.default_rng(2000 + case)
    log, asked = Log(rng, 50, 1, 0), questions(rng)
    windows = {name: window(WINDOWS[name], 1, 0) for name in ("six", "over", "gaps", "all")}
    aggs = {name: built(one) for name, one in asked.items()}
    told = {"on_overflow": "null", "emit": "changes", "trigger": sl.every(2), "watermark": sl.bounded(8)}
    spec = sl.Spec("t", windows, aggs, by=["k"], op="op", allowed_lateness=60, on_unmatched="null", **told)  # type: ignore[arg-type]
    order = np.argsort([row["t"] + rng.integers(0, 8) for row, _ in log.rows], kind="stable")
    log.rows = [log.rows[i] for i in order]
    seen = []
    for sizes in ([1] * 500, [7] * 100, [1000]):
        op, rows, at = sl.Operator(spec), [], 0
        while at < len(log.rows):
            size = sizes.pop()
            rows += plain_rows(op.push(log.batch(at, size)).windows)
            at += size
        rows += plain_rows(op.flush().windows)
        assert not any(row["n"] is None for row in rows if row["timing"] == "early")
        compare(expected(log.left, list(windows), asked, ["k"], 1, 0), found(rows, ["k"], asked), (case, spec))
        seen.append(sorted(map(repr, rows)))
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) > 20


@pytest.mark.parametrize("case", seeds(27, CASES))
def test_whole_streams_are_reported_early_and_taken_back(case: int) -> None:
    """After each firing what was reported, and not taken back, is what is left of the rows so far; with ``every`` once
    the stream is over."""
    rng = np.random.default_rng(3000 + case)
    unit, since = magnitude(rng)
    log, asked, by, clock = Log(rng, 40, unit, since), questions(rng), pick(rng, [["k"], []]), iter(range(10**6))
    often = sl.every_processing_time("1us", clock=lambda: next(clock))
    at_cuts = [sl.every(3 * unit), sl.on_punctuation("b")]
    early = pick(rng, [sl.each_push(), sl.by_hand(), often, *at_cuts])
    names = ["all", *(["six"] if rng.integers(2) else [])]
    spec = sl.Spec(
        "t",
        {name: window(WINDOWS[name], unit, since) for name in names},
        {name: built(one) for name, one in asked.items()},
        **{"by": by, "op": "op", "watermark": sl.bounded(60 * unit), "emit": "changes", "trigger": early},
        **{"on_overflow": "null", "on_unmatched": "null"},
    )
    op, rows, at, looked = sl.Operator(spec), [], 0, 0
    while at < len(log.rows):
        size = int(rng.integers(1, 30))
        rows += plain_rows(op.push(log.batch(at, size)).windows)
        if early == sl.by_hand():
            rows += plain_rows(op.fire().windows)
        at += size
        if rng.integers(3) == 0:
            op = sl.Operator.restore(spec, op.snapshot())
        left = None if early in at_cuts or (early == often and at == size) else log.left_of(at)
        if left is not None:
            compare(expected(left, names, asked, by, unit, since), found(rows, by, asked), (case, at, spec))
            looked += 1
    assert looked or early in at_cuts
    rows += plain_rows(op.flush().windows)
    compare(expected(log.left, names, asked, by, unit, since), found(rows, by, asked), (case, spec))


@pytest.mark.parametrize("early", [sl.each_push(), sl.by_hand(), sl.every(1)], ids=repr)
def test_rows_that_cancel_within_a_push_are_no_news_of_a_whole_stream(early: sl.Trigger) -> None:
    spec = sl.Spec("t", {"w": sl.whole()}, N | MAX, op="op", emit="changes", watermark=sl.bounded(9), trigger=early)
    op, seen = sl.Operator(spec), []
    for text in ("+1 a 5", "+5 a 7", "+9 a 8, -9 a 8", "-9 a 9, +9 a 9", "+9 a 6, -9 a 6, -5 a 7"):
        rows = plain_rows(op.push(rows_of(text)).windows)
        rows += plain_rows(op.fire().windows) if early == sl.by_hand() else []
        seen.append([(row["op"], row["window_end"], row["n"], row["m"]) for row in rows])
    assert op.push(rows_of("-9 a 8, +9 a 8")).stats.rows == 2
    if early != sl.every(1):
        assert seen == [
            [("+", 1, 1, 5)], [("-", 1, 1, 5), ("+", 5, 2, 7)], [], [], [("+", 1, 1, 5), ("-", 5, 2, 7)],
        ]  # fmt: skip
    left = found(plain_rows(op.flush().windows)[-1:], [], N | MAX)
    assert left == {("w", 1, 1, ()): {"n": 1, "m": 5}}


@pytest.mark.parametrize("early", [sl.every(1), sl.on_punctuation("b")], ids=repr)
@pytest.mark.parametrize("window", [sl.whole(), sl.tumbling(50)], ids=repr)
def test_rows_that_cancel_are_news_of_a_cut_in_every_split(window: sl.Window, early: sl.Trigger) -> None:
    spec = sl.Spec("t", {"w": window}, N | MAX, op="op", emit="changes", watermark=sl.bounded(1), trigger=early)
    seen = []
    for pushes in (["+1 a 5", "+3 a 7", "-3 a 7", "+9 a 1"], ["+1 a 5", "+3 a 7, -3 a 7", "+9 a 1"]):
        op, rows = sl.Operator(spec), list[Row]()
        for text in pushes:
            given = rows_of(text)
            marked = pa.array([time < 9 for time in given["t"].to_pylist()])
            rows += plain_rows(op.push(given.append_column("b", marked)).windows)
        seen.append([(row["op"], row["n"], row["m"], row["timing"]) for row in rows])
    assert seen[0] == seen[1]
    assert [(sign, n) for sign, n, _, _ in seen[0]] == [("+", 1), ("-", 1), ("+", 1)]


@pytest.mark.parametrize("early", [sl.each_push(), sl.by_hand()], ids=repr)
@pytest.mark.parametrize("aggs", [{"n": sl.count()}, {"m": sl.max("v"), "s": sl.sum("f")}], ids=["words", "lists"])
def test_rows_that_cancel_within_a_push_are_no_news_of_a_window(aggs: dict[str, Any], early: sl.Trigger) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(50)}, aggs, op="op", emit="changes", watermark=sl.bounded(9), trigger=early)
    op, seen = sl.Operator(spec), []
    for text in ("+1 a 5", "+5 a 7", "+9 a 8, -9 a 8", "-9 a 9, +9 a 9", "+9 a 6, -9 a 6, -5 a 7"):
        given = rows_of(text)
        given = given.append_column("f", given["v"].cast(pa.float64()))
        rows = plain_rows(op.push(given).windows)
        rows += plain_rows(op.fire().windows) if early == sl.by_hand() else []
        seen.append([row["op"] for row in rows])
    assert seen == [["+"], ["-", "+"], [], [], ["-", "+"]]


@pytest.mark.parametrize("case", seeds(13, CASES))
def test_readers_and_places_give_the_same(case: int) -> None:
    """What Spark does, without it: rows read here and there, merged where their keys are."""
    rng = np.random.default_rng(1000 + case)
    log, asked = Log(rng, 40, 1, 0), questions(rng)
    names = ["six", "over", "all"]
    windows = {name: window(WINDOWS[name], 1, 0) for name in names}
    aggs = {name: built(one) for name, one in asked.items()}
    later = {"watermark": sl.bounded(0), "allowed_lateness": 41, "emit": "changes", "on_unmatched": "null"}
    spec = sl.Spec("t", windows, aggs, by=["k"], op="op", on_overflow="null", **later)  # type: ignore[arg-type]
    places = Places(spec, log.batch(0, 0).schema, 3, random.Random(case), True)
    rows: list[Values] = []
    for at in range(0, len(log.rows), 17):
        for out in places.push(log.batch(at, 17)):
            rows += plain_rows(out.windows)
    for operator in places.operators:
        rows += plain_rows(operator.flush().windows)
    compare(expected(log.left, names, asked, ["k"], 1, 0), found(rows, ["k"], asked), (case, spec))


def rows_of(text: str) -> pa.Table:
    """Rows such as ``+3 a 7``: a sign, a time, a key, a value (``.`` for null)."""
    fields = [word.split() for word in text.split(",")]
    values = [None if value == "." else int(value) for _, _, value in fields]
    columns = {"op": [at[0] for at, _, _ in fields], "t": [int(at[1:]) for at, _, _ in fields]}
    return pa.table({**columns, "k": [key for _, key, _ in fields], "v": pa.array(values, pa.int64())})


def ask(aggs: dict[str, Any], **more: Any) -> sl.Spec:
    return sl.Spec("t", {"w": sl.tumbling(10)}, aggs, by=["k"], op="op", **{"watermark": sl.bounded(0), **more})


N = {"n": sl.count()}
SUM, MAX = {"s": sl.sum("v")}, {"m": sl.max("v")}


@pytest.mark.parametrize(
    ("rows", "aggs", "what"),
    [
        ("+1 a 1, -2 b 1", N, r"more rows were taken back than there were in window 'w' from 0 to 10, k='b'"),
        ("+1 a 1, -2 a 2", SUM, r"of column 'v' values were taken back that were not there in window 'w' .* k='a'"),
        ("+1 a 1, +2 a 3, -2 a 2", MAX, r"of column 'v' values were taken back that were not there"),
        ("+1 a 1, -2 a .", N | SUM, r"of column 'v' values were taken back that were not there"),
        ("+1 a ., +1 a 1, -2 a 1, -2 a 2, +3 a .", SUM, r"of column 'v' values were taken back"),
        (
            "-12 a 1",
            N,
            r"more rows .* in window 'w' from 10 to 20, k='a'; use on_unmatched='null' to have nulls instead",
        ),
    ],
)
def test_what_was_never_there_is_found_when_a_window_is_due(rows: str, aggs: dict[str, Any], what: str) -> None:
    op = sl.Operator(ask(aggs))
    op.push(rows_of("+1 c 5"))
    op.push(rows_of(rows))
    before = op.snapshot()
    with pytest.raises(ValueError, match=f"op='op': {what}"):
        op.push(rows_of("+30 c 5"))
    assert op.snapshot() == before
    op = sl.Operator.restore(ask(aggs, on_unmatched="null"), before)
    found = op.push(rows_of("+30 c 5")).windows.to_pylist()
    assert [row["k"] for row in found if all(row[a] is None for a in aggs)] == [rows.split()[-2]]


def test_the_order_of_signs_does_not_matter_and_each_row_is_accounted_for_as_it_comes() -> None:
    op = sl.Operator(ask(N | SUM))
    out = op.push(rows_of("-3 a 7, -4 b 1, +2 b 2"))
    assert (out.stats.rows, out.stats.windowed, out.stats.late) == (3, 3, 0)
    out = op.push(rows_of("+3 a 7, +4 b 1, +12 a 1"))
    assert out.windows.drop_columns(["window", "window_end"]).to_pylist() == [
        {"window_start": 0, "k": "b", "n": 1, "s": 2}
    ]
    out = op.push(rows_of("-2 b 2"))
    assert (out.stats.late, out.late["op"].to_pylist(), out.windows.num_rows) == (1, ["-"], 0)


def test_rows_that_cancel_within_a_push_are_no_news_and_the_last_row_takes_its_window_along() -> None:
    op = sl.Operator(ask(N | SUM, allowed_lateness=100, emit="changes"))
    op.push(rows_of("+1 a 5, +2 a 6, +25 c 1"))
    assert op.push(rows_of("+3 a 1, -3 a 1")).windows.num_rows == 0
    found = op.push(rows_of("-1 a 5, +1 b 5")).windows.select(["k", "n", "s", "op"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("a", 2, 11, "-"), ("a", 1, 6, "+"), ("b", 1, 5, "+")]
    found = op.push(rows_of("-2 a 6")).windows.select(["k", "n", "s", "op"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("a", 1, 6, "-")]
    assert op.push(rows_of("+2 a 6")).windows["op"].to_pylist() == ["+"]


@pytest.mark.parametrize("width", [20, 38])
def test_wide_decimals_may_be_taken_back_before_they_come(width: int) -> None:
    """The lower halves that are taken back may then exceed those that were added."""
    unit = Decimal(10) ** (width - 8)  # as large as a mean, with four digits more, has room for
    type, values = pa.decimal128(width, 2), [unit * some for some in (-8, 9, 6, -8)]
    rows = pa.table({"t": [1_700_000_000_000_000_000] * 4, "op": ["-", "+", "+", "+"], "v": pa.array(values, type)})
    aggs = {"s": sl.sum("v"), "m": sl.mean("v")}
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, aggs, op="op", emit="changes", trigger=sl.each_push()))
    assert op.push(rows.slice(0, 3)).windows["s"].to_pylist() == [23 * unit]
    assert op.push(rows.slice(3)).windows["s"].to_pylist() == [23 * unit, 15 * unit]
    assert op.flush().windows["m"].to_pylist()[-1] == Decimal("7.5") * unit


@pytest.mark.parametrize("type", [pa.uint64(), pa.uint8(), pa.bool_()], ids=str)
def test_an_early_sum_below_zero_of_values_that_are_not_is_withheld(type: pa.DataType) -> None:
    most = 1 if type == pa.bool_() else 2**type.bit_width - 1
    values = pa.array([most, 0, 0, most, 0], pa.uint64()).cast(type)
    rows = pa.table({"t": [1_700_000_000_000_000_000] * 5, "op": ["-", "+", "+", "+", "+"], "v": values})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, op="op", emit="changes", trigger=sl.each_push())
    op = sl.Operator(spec)
    assert op.push(rows.slice(0, 3)).windows.num_rows == 0
    assert op.push(rows.slice(3)).windows["s"].to_pylist() == [0]
    left = sl.Operator(spec)
    left.push(rows.slice(0, 3))
    with pytest.raises(ValueError, match="of column 'v' values were taken back that were not there"):
        left.flush()


def test_functions_of_a_users_own_take_rows_back_by_invert() -> None:
    parts = {
        "lift": lambda x: (x % 97, x), "combine": lambda a, b: ((a[0] + b[0]) % 97, a[1] ^ b[1]),
        "lower": lambda state: state[0] * 1000 + state[1], "identity": (0, 0), "state": ["int64", "int64"],
        "inputs": ["v"], "commutative": True,
    }  # fmt: skip
    mine = sl.udaf("mixed", invert=lambda a, b: ((a[0] - b[0]) % 97, a[1] ^ b[1]), **parts)
    op = sl.Operator(ask({"m": mine, "even": mine.where("even")}))
    data = rows_of("+1 a 5, +2 a 60, +3 a 90, -2 a 60, +4 b 7, -4 b 7, +5 b ., +6 a 8")
    data = data.append_column("even", pa.array([v is not None and v % 2 == 0 for v in data["v"].to_pylist()]))
    out = op.push(data), op.flush()
    found = [row for part in out for row in part.windows.to_pylist()]
    wanted = {"a": ((5 + 90 + 8) % 97 * 1000 + (5 ^ 90 ^ 8), (90 + 8) % 97 * 1000 + (90 ^ 8)), "b": (None, None)}
    assert {row["k"]: (row["m"], row["even"]) for row in found} == wanted
    with pytest.raises(ValueError, match=r"cannot be used with op='op': it needs invert=, which takes rows back"):
        ask({"m": sl.udaf("mixed", **parts)})


def test_the_changes_of_one_operator_are_the_input_of_the_next() -> None:
    rng = np.random.default_rng(5)
    time = np.arange(3000) + rng.integers(0, 60, 3000)
    data = pa.table({"t": time, "k": rng.integers(0, 5, 3000), "v": rng.integers(-9, 9, 3000)})
    data = data.append_column("op", pa.array(["+"] * 3000))
    gone, comes = rng.permutation(3000)[:900], time + rng.integers(0, 100, 3000)
    log = pa.concat_tables([data, data.take(gone).set_column(3, "op", pa.array(["-"] * 900))])
    log = log.take(np.argsort(np.append(comes, comes[gone] + rng.integers(0, 90, 900)), kind="stable"))
    inner = {"n": sl.count(), "s": sl.sum("v"), "most": sl.max("v")}
    first = {"by": ["k"], "op": "op"}
    by_ten = sl.Spec(
        "t", {"ten": sl.tumbling(10)}, inner, watermark=sl.bounded(5), allowed_lateness=200, emit="changes", **first
    )
    outer = {"windows": sl.count(), "n": sl.sum("n"), "busiest": sl.max("n"), "s": sl.sum("s"), "m": sl.median("most")}
    rest = {"watermark": sl.manual(), "op": "op"}
    by_sixty = sl.Spec(
        "window_start", {"hour": sl.tumbling(60), "wide": sl.sliding(120, every=30)}, outer, by=["k"], **rest
    )
    chain, parts = sl.chain(sl.Operator(by_ten), sl.Operator(by_sixty)), []
    for at in range(0, 3900, 130):
        out = chain.push(log.slice(at, 130))
        assert out.stats.late == 0
        parts.append(out.windows)
        if at % 3 == 0:
            chain = sl.Chain.restore([by_ten, by_sixty], chain.snapshot())
    parts.append(chain.flush().windows)
    final = sl.aggregate(log, replace(by_ten, emit="final", allowed_lateness=0))
    wanted = sl.aggregate(final, replace(by_sixty, op=None, watermark=sl.bounded(0)))
    order = [(name, "ascending") for name in ("window_end", "window", "window_start", "k")]
    assert pa.concat_tables(parts).sort_by(order).combine_chunks() == wanted.sort_by(order).combine_chunks()
    assert wanted.num_rows > 500
    with pytest.raises(
        ValueError, match=r"emit='changes', and the next one would count what is taken back: use op='op'"
    ):
        sl.chain(sl.Operator(by_ten), sl.Operator(replace(by_sixty, op=None)))


def test_windows_that_wait_for_their_turn_come_without_those_that_are_gone() -> None:
    rows = rows_of(
        ", ".join([f"+{t} {'abc'[t % 3]} {t}" for t in range(90)] + [f"-{t} a {t}" for t in range(0, 90, 3)])
    )
    spec = ask(N, watermark=sl.bounded(200))
    op, found = sl.Operator(spec, max_windows_per_push=4), []
    op.push(rows)
    found.append(op.advance(1000).windows)
    for _ in range(12):
        found.append(op.advance(1000).windows)
    found.append(op.flush().windows)
    assert pa.concat_tables(found).combine_chunks() == sl.aggregate(rows, spec).combine_chunks()
    assert max(part.num_rows for part in found) <= 4


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()]
)
def test_signs_come_in_any_text_type(type: pa.DataType) -> None:
    rows = rows_of("+1 a 5, -1 a 5, +2 b 6")
    rows = rows.set_column(0, "op", rows["op"].combine_chunks().cast(type))
    assert sl.aggregate(rows, ask(N))["k"].to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("column", "error", "what"),
    [
        (pa.array(["+", "*"]), ValueError, r"op column 'op' holds '\*'; allowed are '\+', '\+I', '\+U' or 1"),
        (pa.array(["+", None]), ValueError, r"op column 'op' holds None"),
        (pa.array([1, 0]), ValueError, r"op column 'op' holds 0"),
        (pa.array([1, -(2**63)]), ValueError, r"op column 'op' holds -9223372036854775808"),
        (pa.array([1, 2**64 - 1], pa.uint64()), TypeError, r"op column 'op' has type uint64; it must hold"),
        (pa.array([1.0, -1.0]), TypeError, r"op column 'op' has type double; it must hold"),
    ],
)
def test_other_signs_are_refused(column: pa.Array, error: type[Exception], what: str) -> None:
    rows = pa.table({"t": [1, 2], "k": ["a", "a"], "op": column})
    with pytest.raises(error, match=what):
        sl.aggregate(rows, ask(N))


def test_what_rows_cannot_be_taken_back_from_is_refused_when_it_is_asked() -> None:
    for agg in (
        sl.first("v"),
        sl.m4("v"),
        sl.argmax("v", "t"),
        sl.collect("v"),
        sl.top_k("v", 2, return_="t"),
        sl.bottom_k("v", 2, return_="t"),
    ):
        with pytest.raises(ValueError, match="cannot be used with op='op': it depends on the order of rows"):
            ask({"x": agg})
    for agg in (sl.approx_quantile("v", 0.5), sl.approx_count_distinct("v"), sl.sample("v", 3)):
        with pytest.raises(ValueError, match="what it keeps is bounded"):
            ask({"x": sl.sum("v") + agg})
    for window in (sl.session(5), sl.rows(5), sl.per_row(5), sl.punctuation("b"), sl.last_rows(3, every=5)):
        with pytest.raises(ValueError, match=r"windows\['w'\] is .*, whose bounds depend on rows"):
            sl.Spec("t", {"w": window}, N, op="op")
    with pytest.raises(ValueError, match=r"windows\['w'\] has fill=True"):
        sl.Spec("t", {"w": sl.tumbling(5, fill=True)}, N, op="op")
    for emit in ("final", "updates"):
        with pytest.raises(ValueError, match="with allowed_lateness=5 needs emit='changes'"):
            ask(N, allowed_lateness=5, emit=emit)
    with pytest.raises(ValueError, match=r"op='op' with trigger=sl.every\(3\) needs emit='changes'"):
        ask(N, emit="updates", trigger=sl.every(3))
    with pytest.raises(ValueError, match="idle=9 ends a key for good"):
        ask(N, idle=9)
    with pytest.raises(ValueError, match="got op='op': attach to the rows that are left"):
        sl.attach(rows_of("+1 a 1"), ask(N))
    assert "whole(): the times" in sl.explain(sl.Spec("t", {"w": sl.whole()}, N, op="op"))["rows taken back"]
    spec = ask(N, on_unmatched="null")
    assert eval(repr(spec), {"sl": sl}) == spec and sl.Spec.from_toml(spec.to_toml()) == spec
    assert spec.fingerprint() == ask(N).fingerprint() != sl.Spec("t", spec.windows, N, by="k").fingerprint()
