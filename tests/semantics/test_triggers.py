"""Early results: every push of random queries with triggers, against the oracle row by row."""

from __future__ import annotations

import os
import pickle
import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce
from operator import or_
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from harness import seeds
from places import Places
from trigger_oracle import Early, Oracle, Result, Row, SessionOracle, is_mark

import slicing as sl
from slicing.closing import open_runs, row_cuts, run_marks
from slicing.closing.revise import Revisions
from slicing.exchange import start
from slicing.lifecycle import snapshot
from slicing.lifecycle.state import reached_by
from slicing.query.policy import Policy
from slicing.storage.session_store import SessionStore
from slicing.storage.store import Store
from slicing.triggers import early, event_cuts, fired
from slicing.triggers.cells_by_report import CellsByReport
from slicing.windows.bounds import BEGIN

CASES = int(os.environ.get("SLICING_CASES", "240"))  # of all random tests of this file together
pytestmark = pytest.mark.filterwarnings("ignore:one row of time")  # streams of a test may well be late
AGGS = {
    "n": sl.count(),
    "total": sl.sum("v"),
    "low": sl.min("v"),
    "all": sl.collect("v"),
    "word": sl.min("w"),
    "middle": sl.median("v"),
}
ORIGINS = (0, -997, 1_700_000_000_000_000_000, (1 << 62) + (1 << 61) - 2000, -(1 << 62) - (1 << 61) + 2000)


def word(time: int, value: int | None) -> str | None:
    """A text column, in which new values come between known ones."""
    return None if value is None else f"{(time * 31 + value * 7) % 97:02}"


def answer(rows: list[Row]) -> tuple[Any, ...]:
    values = [row.value for row in rows]
    known = [value for value in values if value is not None]
    words = [word(row.time, row.value) for row in rows if row.value is not None]
    middle = float(median(known)) if known else None
    return len(values), sum(known) if known else None, min(known, default=None), known, min(words, default=None), middle


def plain(table: pa.Table) -> list[Result]:
    """Rows of results as the oracle gives them."""
    last = "op" if "op" in table.column_names else "revision"
    return [
        (
            *(r.get(name) for name in ("window_end", "window", "window_start", "k")),
            (r["n"], r["total"], r["low"], r["all"] or [], r["word"], r["middle"]),
            *(r["timing"], r[last]),
        )
        for r in table.to_pylist()
    ]


@dataclass(frozen=True)
class Fib(sl.ContextFreeWindow):
    """A user's windows: from each multiple of 13, 8 and 21 long."""

    def next_edge(self, times: Any) -> Any:
        import numpy as np

        edges = [(times - o) // 13 * 13 + 13 + o for o in (0, 8)]
        return np.minimum(*edges)

    def containing(self, time: int) -> list[tuple[int, int]]:
        starts = [time // 13 * 13, time // 13 * 13 - 13]
        return [(s, s + n) for s in starts for n in (8, 21) if s <= time < s + n]


def periodic(size: int, every: int, offset: int) -> Any:
    def containing(time: int) -> list[tuple[int, int]]:
        start = (time - offset) // every * every + offset
        return [(s, s + size) for s in range(start, time - size, -every)]

    return containing


def a_window(rng: random.Random, origin: int) -> tuple[Any, Any]:
    kind = rng.choice(["tumbling", "tumbling", "sliding", "sliding", "fixed", "own"])
    size, every, offset = rng.randint(1, 30), rng.randint(1, 30), rng.randint(-9, 9)
    if kind == "tumbling":
        return sl.tumbling(size, offset=offset), periodic(size, size, offset)
    if kind == "sliding":
        every = max(every, size // 5)
        return sl.sliding(size, every, offset=offset), periodic(size, every, offset)
    if kind == "fixed":
        start = origin + rng.randint(-5, 40)
        return sl.fixed(start, start + size), lambda t: [(start, start + size)] * (start <= t < start + size)
    return Fib(), Fib().containing


def a_trigger(rng: random.Random, window: Any) -> tuple[sl.Trigger, Early]:
    kind = rng.choice(["event"] * 6 + ["arrival", "each_push", "by_hand", "clock", "by_hand | clock"])
    counts: list[tuple[int, int | None]] = []
    if kind == "arrival":
        counts = [(rng.randint(1, 7), rng.choice([None, None, 1, 2])) for _ in range(rng.choice([1, 1, 2]))]
        return reduce(or_, [sl.after_count(*c, order="arrival") for c in counts]), Early(arrivals=counts)
    if kind == "event":
        found, marks = [], False
        for _ in range(rng.choice([1, 1, 2])):
            which = rng.random()
            if which < 0.25:
                counts.append((rng.randint(1, 7), rng.choice([None, None, 1, 2])))
                found.append((sl.after_count(*counts[-1]), None, None))
            elif which < 0.45:
                found.append((sl.on_punctuation("m"), None, None))
                marks = True
            elif which < 0.65 and not isinstance(window, Fib):
                share = rng.choice([0.5, 0.29, 0.1, 0.999, Fraction(1, 3)])
                found.append((sl.after_share(share), None, share))
            else:
                span, offset = rng.choice([1, 2, 3, 5, 8, 20]), rng.choice([0, 0, 1, -4])
                found.append((sl.every(span, offset=offset), (span, offset), None))
        trigger = reduce(or_, [part for part, _, _ in found])
        spans = [span for _, span, _ in found if span is not None]
        shares = [s if isinstance(s, Fraction) else Fraction(repr(s)) for _, _, s in found if s is not None]
        return trigger, Early(spans, shares, counts, marks=marks)
    if kind == "each_push":
        return sl.each_push(), Early(each_push=True)
    if kind == "by_hand":
        return sl.by_hand(), Early(by_hand=True)
    if kind == "clock":
        return Clock.trigger, Early(clock=5)
    return sl.by_hand() | Clock.trigger, Early(by_hand=True, clock=5)


class Clock:
    now = 0
    trigger = sl.every_processing_time("5us", clock=lambda: Clock.now)


@dataclass
class Case:
    spec: sl.Spec
    oracle: Oracle
    rows: list[tuple[int, Any, Any]]
    by_hand: list[str]


def a_case(rng: random.Random, jitter: int | None = None, kinds: str | None = None) -> Case:
    origin, keyed = rng.choice(ORIGINS), rng.random() < 0.85
    windows, extents, triggers, early = {}, {}, {}, {}
    for name in "abc"[: rng.choice([1, 1, 2, 3])]:
        windows[name], extents[name] = a_window(rng, origin)
        if len(windows) == 1 or rng.random() < 0.8:
            triggers[name], early[name] = a_trigger(rng, windows[name])
            while kinds is not None and triggers[name].kind != kinds:
                triggers[name], early[name] = a_trigger(rng, windows[name])
    emit, lateness = rng.choice(["updates", "changes", "parts"]), rng.choice([0, 0, 1, 7, 40])
    delay = rng.choice([0, 0, 3, 10, None]) if jitter is None else jitter
    sequenced = rng.random() < 0.4 or (jitter is not None and any(known.counts for known in early.values()))
    spec = sl.Spec(
        "t",
        windows,
        AGGS,
        by=["k"] if keyed else [],
        watermark=sl.manual() if delay is None else sl.bounded(delay),
        allowed_lateness=lateness,
        emit=emit,
        sequence="v" if sequenced else None,
        trigger=triggers,
    )
    oracle = Oracle(extents, early, answer, emit, delay, lateness, sequenced)
    keys, spread = rng.choice([1, 2, 5]), rng.choice([30, 100, 400])
    times = sorted(rng.randint(0, spread) for _ in range(rng.randint(1, 60)))
    slack = rng.choice([0, 4, 15, 60]) if jitter is None else jitter
    late = sorted(range(len(times)), key=lambda i: times[i] + rng.randint(0, slack))
    rows = [
        (origin + times[i], rng.choice([None, *"xyzuv"][:keys]) if keyed else None, rng.choice([None, *range(-3, 9)]))
        for i in late
    ]
    return Case(spec, oracle, rows, [name for name, known in early.items() if known.by_hand])


def batch(rows: list[tuple[int, Any, Any]]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True) if rows else ((), (), ())
    words = [word(time, value) for time, _, value in rows]
    columns = {"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "w": pa.string(), "m": pa.bool_()}
    arrays = map(pa.array, (times, keys, values, words, map(is_mark, values)), columns.values())
    return pa.table(list(arrays), list(columns))


@pytest.mark.parametrize("seed", seeds(20, CASES))
def test_every_push_is_as_the_oracle_says(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize(("share", "size", "cut"), [(0.29, 100, 29), (0.57, 100, 57), (0.07, 100, 7), (0.7, 10**17, 7)])
def test_a_share_is_taken_as_it_is_written(share: float, size: int, cut: int) -> None:
    """0.29 of 100 is 28.999... in floats."""
    cut = cut if size == 100 else cut * 10**16
    spec = sl.Spec(
        *("t", {"w": sl.tumbling(size)}, AGGS, "k", sl.manual()), emit="updates", trigger=sl.after_share(share)
    )
    op = sl.Operator(spec)
    op.push(batch([(size + cut - 1, "x", 1), (size + cut, "x", 2)]))
    assert op.advance(size + cut - 1).windows.num_rows == 0
    assert [row[4][0] for row in plain(op.advance(size + cut).windows)] == [1]


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
def test_windows_with_triggers_of_different_kinds_are_each_as_if_alone(emit: str) -> None:
    windows = {name: sl.sliding(20, 10) for name in "abcd"}
    triggers = {"a": sl.every(3), "b": sl.after_count(2, order="arrival"), "c": sl.each_push(), "d": Clock.trigger}

    def panes(names: str) -> list[Result]:
        asked = {name: windows[name] for name in names}
        early = {name: triggers[name] for name in names}
        spec = sl.Spec("t", asked, AGGS, by="k", watermark=sl.bounded(9), emit=emit, trigger=early)
        op, rng, found, Clock.now = sl.Operator(spec), random.Random(7), [], 0
        for at in range(8):
            some = [(1_700_000_000_000_000_000 + at * 6 + rng.randint(0, 9), rng.choice("xy"), at) for _ in range(5)]
            Clock.now += 3
            found += plain(op.push(batch(some)).windows)
            op = sl.Operator.restore(spec, op.snapshot())
        return found + plain(op.flush().windows)

    together = panes("abcd")
    for name in "abcd":
        alone = panes(name)
        assert alone == [row for row in together if row[1] == name]
        assert "early" in {row[-2] for row in alone}


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_a_long_way_is_taken_in_steps(seed: int) -> None:
    check(-1 - seed, pane_looks=random.Random(seed).choice([1, 5]))


def check(seed: int, **choices: int) -> None:
    """A random stream, with restarts, push by push."""
    rng = random.Random(seed)
    case = a_case(rng)
    packed = {
        "packed_keys": 0,
        "packed_cells": 0,
        "packed_slice": 0,
        "packed_words": 100 * (seed % 2),
        "packed_pushes": (0.0, 0.0),
    }
    policy = Policy(fused_cells=rng.choice([0, 4, Policy.fused_cells]), **packed | choices)
    op, rows, Clock.now = sl.Operator(case.spec, policy=policy), list(case.rows), 0
    while rows:
        Clock.now += rng.choice([0, 1, 3, 7])
        some, rows = rows[: (size := rng.choice([1, 1, 3, 10, 60]))], rows[size:]
        assert plain(op.push(batch(some)).windows) == case.oracle.push(some, Clock.now), case.spec
        act = rng.random()
        if case.by_hand and act < 0.4:
            names = rng.sample(case.by_hand, rng.randint(1, len(case.by_hand)))
            assert plain(op.fire(*names).windows) == case.oracle.fire(names), case.spec
        if act > 0.8 or (case.oracle.delay is None and act > 0.3):
            reached = max(case.oracle.watermark, case.rows[0][0] - 20) + rng.randint(0, 25)
            assert plain(op.advance(reached).windows) == case.oracle.advance(reached, Clock.now), case.spec
        if 0.3 < act < 0.5:
            op = sl.Operator.restore(case.spec, op.snapshot(), policy=policy)
    assert plain(op.flush().windows) == case.oracle.flush(), case.spec


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_results_may_wait_for_later_pushes(seed: int) -> None:
    rng, most = random.Random(seed), random.Random(seed).choice([1, 3, 10])
    case, Clock.now = a_case(rng), 0
    op, slow = sl.Operator(case.spec), sl.Operator(case.spec, max_windows_per_push=most)
    rows, wanted, found, reached = list(case.rows), list[Result](), list[Result](), None
    while rows:
        Clock.now += rng.choice([0, 3, 7])
        some, rows = rows[: (size := rng.choice([1, 3, 10, 60]))], rows[size:]
        wanted += plain(op.push(batch(some)).windows)
        out = slow.push(batch(some))
        found += plain(out.windows)
        assert reached is None or out.watermark >= reached, case.spec  # also while results wait over a restart
        reached = out.watermark
        assert out.windows.num_rows <= most + 1
        assert found == wanted[: len(found)]
        if len(found) < len(wanted) and out.watermark is not None:
            assert all(
                end > out.watermark for end, _, _, _, _, timing, _ in wanted[len(found) :] if timing == "on_time"
            )
        if rng.random() < 0.3:
            slow = sl.Operator.restore(case.spec, slow.snapshot(), max_windows_per_push=most)
    wanted, found = wanted + plain(op.flush().windows), found + plain(slow.flush().windows)
    assert found == wanted, case.spec


def unordered(rows: list[Result]) -> list[str]:
    """Results whatever their order, and whatever that of a window's rows of equal time."""
    return sorted(repr((*r[:4], *r[4][:3], sorted(r[4][3]), *r[4][4:], *r[5:])) for r in rows)


@pytest.mark.parametrize("seed", seeds(10, CASES))
def test_event_time_panes_are_the_same_for_every_split_and_order(seed: int) -> None:
    rng = random.Random(seed)
    case = a_case(rng, jitter=(jitter := rng.choice([0, 3, 12])), kinds="event-time")
    asked = unordered(plain(sl.aggregate(batch(case.rows), case.spec)))
    for _ in range(2):
        rows = sorted(case.rows, key=lambda row: row[0] + rng.randint(0, jitter))
        op, found = sl.Operator(case.spec), []
        while rows:
            some, rows = rows[: (size := rng.choice([1, 2, 5, 20]))], rows[size:]
            found += plain(op.push(batch(some)).windows)
        assert unordered([*found, *plain(op.flush().windows)]) == asked, case.spec


@pytest.mark.parametrize("seed", seeds(10, CASES))
def test_what_pushes_report_adds_up_to_the_final_windows(seed: int) -> None:
    rng = random.Random(seed)
    case = a_case(rng, kinds="push")
    op, final = sl.Operator(case.spec), sl.Operator(replace(case.spec, trigger=None, emit="final"))
    rows, found, Clock.now, asked = list(case.rows), list[Result](), 0, list[dict[str, Any]]()
    while rows:
        Clock.now += rng.choice([0, 1, 3, 7])
        some, rows = rows[: (size := rng.choice([1, 2, 5, 20]))], rows[size:]
        found += plain(op.push(batch(some)).windows)
        asked += final.push(batch(some)).windows.to_pylist()
        if case.by_hand and rng.random() < 0.5:
            found += plain(op.fire().windows)
    found += plain(op.flush().windows)
    asked += final.flush().windows.to_pylist()
    panes: dict[Result, list[Result]] = {}
    for row in found:
        panes.setdefault(row[:4], []).append(row[4:])
    assert len(panes) == len(asked)
    for row in asked:
        told = panes[tuple(row.get(name) for name in ("window_end", "window", "window_start", "k"))]
        wanted = row["n"], row["total"], row["low"], sorted(row["all"] or [])
        assert added_up(case.spec.emit, told) == wanted, case.spec


def added_up(emit: str, panes: list[Result]) -> Result:
    """What a reader makes of a window's panes."""
    if emit == "changes":
        held: list[Result] = []
        for *pane, op in panes:
            if op == "-":
                held.remove(tuple(pane))
            else:
                held.append(tuple(pane))
        assert len(held) == 1
        panes = [(*held[0], 0)]
    else:
        assert [pane[-1] for pane in panes] == list(range(len(panes)))
    some = panes if emit == "parts" else panes[-1:]
    values = [value for pane in some for value in pane[0][3]]
    return sum(pane[0][0] for pane in some), sum(values) if values else None, min(values, default=None), sorted(values)


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_places_of_a_stage_report_what_the_oracle_says(seed: int) -> None:
    """As on Spark, prompt or native: readers reduce rows, places report; a batch that is repeated gives the same."""
    rng = random.Random(seed)
    case = a_case(rng, jitter=rng.choice([0, 5]))
    while any(
        trigger.kind == "arrival" or {sl.by_hand(), Clock.trigger} & {*trigger.parts()}
        for trigger in case.spec.triggers().values()
    ):
        case = a_case(rng, jitter=rng.choice([0, 5]))
    case.oracle.native = rng.random() < 0.4
    prompt = not case.oracle.native
    rows, places = list(case.rows), Places(case.spec, batch([]).schema, rng.choice([1, 2]), rng, prompt=prompt)
    rng.shuffle(rows)
    while rows:
        some, rows = rows[: (size := rng.choice([3, 10, 20]))], rows[size:]
        found = [row for out in places.push(batch(some).combine_chunks().to_batches()[0]) for row in plain(out.windows)]
        assert unordered(found) == unordered(case.oracle.push(some)), case.spec
        if rng.random() < 0.3:
            places.rescale(rng.choice([1, 2, 3]))
    found = [row for operator in places.operators for row in plain(operator.flush().windows)]
    assert unordered(found) == unordered(case.oracle.flush()), case.spec


def behind_nothing(put: Any) -> Any:
    """Rows are judged by no watermark: which panes have reported them is not known."""
    return lambda state, cells, judged: put(state, cells, BEGIN)


def as_it_is_now(up_to: Any) -> Any:
    """What is taken back is read from all rows there are."""
    return lambda self, which=None: up_to(self)


def with_a_gap(numbered: Any) -> Any:
    def found(self: Any, answers: Any, order: Any, horizon: int) -> Any:
        known, number = numbered(self, answers, order, horizon)
        return known, number + (number > 1)

    return found


def by_the_next_watermark(put: Any) -> Any:
    """Rows are judged once the watermark has moved with them."""

    def found(state: Any, cells: Any, judged: int) -> Any:
        reached = reached_by(state)
        put(state, cells, judged if judged == BEGIN or reached is None else max(judged, reached))

    return found


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a pane judged after the watermark moved": (early, "put_apart", by_the_next_watermark),
    "a row judged by no watermark": (early, "put_apart", behind_nothing),
    "a row taken back that differs from what was reported": (CellsByReport, "table", as_it_is_now),
    "a gap in revisions": (Revisions, "numbered", with_a_gap),
    "a pane on time that is lost": (early, "_complete", lambda complete: lambda *args: complete(*args)[:-1]),
    "news told twice over a restart": (
        snapshot,
        "_state",
        lambda read: lambda *args: read(*args).but(fired={}),
    ),
    "news lost over a restart": (snapshot, "_state", lambda read: lambda *args: read(*args).but(apart=())),
    "a mark that ends its pane before rows of its time": (
        row_cuts,
        "_marked",
        lambda _: lambda items, of_type, marks, follows: items.is_row[of_type] & (items.marks[of_type] & marks != 0),
    ),
    "rows behind the watermark that are counted at their time": (
        row_cuts,
        "_facts",
        lambda facts: lambda plan, rows, watermark: facts(plan, rows, BEGIN),
    ),
    "rows counted before the watermark has passed them": (
        row_cuts,
        "passed",
        lambda passed: lambda plan, known, after, reached: passed(plan, known, after, reached + 1),
    ),
    "a part on time that is told twice": (
        row_cuts,
        "completed",
        lambda of: (
            lambda plan, known, until, reported: of(plan, known, until, reported and plan.spec.emit == "updates")
        ),
    ),
    "rows that wait lost over a restart": (snapshot, "_state", lambda read: lambda *args: read(*args).but(passed=None)),
    "cuts passed twice": (
        event_cuts,
        "news_by_time",
        lambda news: lambda plan, cells, after, until: news(plan, cells, after - 3, until),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, changed = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, changed(getattr(owner, name)))
    with pytest.raises(AssertionError):
        for seed in range(100):
            check(seed)


@pytest.mark.parametrize("seed", seeds(10, CASES))
def test_sessions_and_whole_streams_are_taken_back(seed: int) -> None:
    rng = random.Random(seed)
    gap, delay, origin = rng.choice([None, 1, 2, 7]), rng.choice([0, 3, 20]), rng.choice(ORIGINS)
    windows = {"s": sl.whole() if gap is None else sl.session(gap)}
    beside = periodic(9, 9, 0), {"a": Early(each_push=True)}
    if rng.random() < 0.5:
        windows["a"] = sl.tumbling(9)
    trigger, early_ = rng.choice(
        [
            (sl.each_push(), Early(each_push=True)),
            (sl.by_hand(), Early(by_hand=True)),
            (Clock.trigger, Early(clock=5)),
            (sl.by_hand() | Clock.trigger, Early(by_hand=True, clock=5)),
            (sl.by_hand() | sl.each_push(), Early(by_hand=True, each_push=True)),
            (sl.every(4, offset=1), Early([(4, 1)])),
            (sl.every(3) | sl.every(10), Early([(3, 0), (10, 0)])),
            (sl.on_punctuation("m"), Early(marks=True)),
            (sl.on_punctuation("m") | sl.every(4, offset=1), Early([(4, 1)], marks=True)),
        ]
    )
    for_all = rng.random() < 0.4
    if "a" in windows and for_all:
        beside = beside[0], {"a": early_}
    spec = sl.Spec(
        *("t", windows, AGGS, ["k"], sl.bounded(delay)),
        emit="changes",
        trigger=trigger if for_all else {"s": trigger},
    )
    oracle, others, Clock.now = SessionOracle(gap, answer, delay, early_), None, 0
    if "a" in windows:
        others = Oracle({"a": beside[0]}, beside[1] if spec.trigger_of("a") else {}, answer, "changes", delay)
    op, time, held, told = sl.Operator(spec), origin, list[Result](), Told()
    for _ in range(rng.randint(1, 12)):
        rows = []
        for _ in range(rng.choice([1, 1, 4, 20])):
            time += rng.choice([0, 0, 1, 3, 10])
            rows.append((time - rng.choice([0, 0, 2, 9]), rng.choice([None, *"xy"]), rng.choice([None, *range(5)])))
        Clock.now += rng.choice([0, 1, 3, 7])
        wanted = oracle.push(rows, Clock.now) + ([] if others is None else others.push(rows, Clock.now))
        found = plain(told.by(op.push(batch(rows))).windows)
        assert unordered(found) == unordered(wanted), spec
        apply(held, found)
        if rng.random() < 0.3:
            op = sl.Operator.restore(spec, op.snapshot())
        if early_.by_hand and rng.random() < 0.5:
            wanted = oracle.fire() + (others.fire(["a"]) if others is not None and for_all else [])
            found = plain(told.by(op.fire()).windows)
            assert unordered(found) == unordered(wanted), spec
            apply(held, found)
    wanted = oracle.flush() + ([] if others is None else others.flush())
    found = plain(told.by(op.flush()).windows)
    assert unordered(found) == unordered(wanted), spec
    apply(held, found)


class Told:
    """Checks that no result has an earlier time than ``progress`` said before."""

    def __init__(self) -> None:
        self.before: dict[str, int] = {}

    def by(self, out: sl.Output) -> sl.Output:
        for name, time in self.before.items():
            assert min(out.windows[name].to_pylist(), default=time) >= time, (name, time)
        for name, time in dict(out.progress).items():
            if time is not None:
                assert time >= self.before.get(name, time)
                self.before[name] = time
        return out


def apply(held: list[Result], changes: list[Result]) -> None:
    """What a sink holds that takes changes in their order: a row is there before it is taken back."""
    for *row, sign in changes:
        if sign == "-":
            held.remove(tuple(row))
            continue
        held.append(tuple(row))


def test_rows_that_move_bounds_are_sorted_as_all_are() -> None:
    """A late row moves the start of a session, whose end stays: rows are sorted by end, and then by start."""
    begin = 1_700_000_000_000_000_000
    for window, beyond in (sl.session(5), 5), (sl.whole(), 0):
        spec = sl.Spec(
            "t", {"s": window}, {"n": sl.count()}, "k", sl.bounded(100), emit="changes", trigger=sl.each_push()
        )
        op = sl.Operator(spec)
        op.push(batch([(begin + 3, "x", 1), (begin + 3, "y", 1)]))
        found = op.push(batch([(begin, "x", 2), (begin, "y", 2)])).windows
        rows = [tuple(row.values()) for row in found.select(["window_start", "window_end", "k", "n", "op"]).to_pylist()]
        end = begin + 3 + beyond
        wanted = [(begin, "+", 2), (begin + 3, "-", 1)]
        assert [tuple(row) for row in rows] == [(start, end, key, n, sign) for start, sign, n in wanted for key in "xy"]


def test_a_slice_with_cells_apart_is_counted_once() -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(100)}, {"n": sl.count()}, "k", sl.bounded(1), emit="parts", trigger=sl.every(50)
    )
    op = sl.Operator(spec)
    assert op.push(batch([(10, "x", 1), (20, "x", 1)])).stats.slices == 1
    out = op.push(batch([(15, "x", 2)]))  # behind the watermark, in the same slice
    assert (out.stats.slices, out.stats.cells) == (1, 2)


@pytest.mark.parametrize("trigger", [sl.each_push(), sl.by_hand(), Clock.trigger], ids=repr)
def test_a_row_between_reported_sessions_takes_back_each_of_them(trigger: sl.Trigger) -> None:
    begin = 1_700_000_000_000_000_000
    windows = {"s": sl.session(5)}
    op = sl.Operator(sl.Spec("t", windows, AGGS, "k", sl.bounded(100), emit="changes", trigger=trigger))
    seen, Clock.now = [], 0
    for times in ([0], [1], [10, 19], [6, 14]):
        Clock.now += 5
        rows = plain(op.push(batch([(begin + time, "x", time) for time in times])).windows)
        rows += plain(op.fire().windows) if trigger == sl.by_hand() else []
        seen.append(sorted((row[-1], row[2] - begin, row[0] - begin, row[4][0]) for row in rows))
        op = sl.Operator.restore(op.spec, op.snapshot())
    gone = [("-", 0, 6, 2), ("-", 10, 15, 1), ("-", 19, 24, 1)]
    assert seen[-2:] == [
        sorted([("+", 10, 15, 1), ("+", 19, 24, 1), *([("+", 0, 6, 2)] if not seen[1] else [])]),
        [("+", 0, 24, 6), *gone],
    ]


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_cuts_of_sessions_are_the_same_for_every_split_and_order(seed: int) -> None:
    rng = random.Random(seed)
    gap, origin, jitter = rng.choice([None, 1, 2, 7]), rng.choice(ORIGINS), rng.choice([0, 4, 11])
    trigger, early_ = rng.choice(
        [
            (sl.every(4, offset=1), Early([(4, 1)])),
            (sl.every(1), Early([(1, 0)])),
            (sl.on_punctuation("m"), Early(marks=True)),
            (sl.on_punctuation("m") | sl.every(9), Early([(9, 0)], marks=True)),
        ]
    )
    windows = {"s": sl.whole() if gap is None else sl.session(gap)}
    spec = sl.Spec("t", windows, AGGS, ["k"], sl.bounded(jitter), emit="changes", trigger=trigger, sequence="v")
    times = [origin + at for at in sorted(rng.sample(range(150), 40))]
    rows = [(time, rng.choice("xy"), rng.choice([None, *range(5)])) for time in times]
    oracle = SessionOracle(gap, answer, jitter, early_)
    wanted = unordered([*oracle.push(rows), *oracle.flush()])
    assert unordered(plain(sl.aggregate(batch(rows), spec))) == wanted, spec
    for prompt in (True, False):
        late = sorted(rows, key=lambda row: row[0] + rng.randint(0, jitter))
        places, found = Places(spec, batch([]).schema, rng.choice([1, 2]), rng, prompt=True), list[Result]()
        op = sl.Operator(spec)
        while late:
            some, late = late[: (size := rng.choice([1, 3, 10] if prompt else [10, 40]))], late[size:]
            if prompt:
                found += plain(op.push(batch(some)).windows)
                continue
            for out in places.push(batch(some).combine_chunks().to_batches()[0]):
                found += plain(out.windows)
            if rng.random() < 0.3:
                places.rescale(rng.choice([1, 2, 3]))
        for operator in [op] if prompt else places.operators:
            found += plain(operator.flush().windows)
        assert unordered(found) == wanted, spec


@pytest.mark.parametrize("seed", seeds(10, CASES))
def test_windows_beside_sessions_are_reported_as_if_alone(seed: int) -> None:
    """Windows between edges with any trigger, beside sessions and whole streams with any or none."""
    rng = random.Random(seed)
    case = a_case(rng)
    emit, gap, keyed = case.spec.emit, rng.choice([None, 1, 3, 7]), ["k"] if case.spec.by else []
    beside: dict[str, Any] = {"s": sl.whole() if gap is None else sl.session(gap)}
    if rng.random() < 0.3:
        beside["u"] = sl.session(12)
    asked: dict[str, sl.Trigger] = {}
    for name in beside if emit == "changes" else ():
        several = [sl.each_push(), sl.by_hand(), sl.every(4), sl.on_punctuation("m"), Clock.trigger, None]
        trigger = rng.choice(several)
        asked |= {} if trigger is None else {name: trigger}
    lateness = case.spec.allowed_lateness if emit == "changes" else 0
    spec = replace(case.spec, allowed_lateness=lateness, by=keyed)
    timed = spec.triggers()
    both = replace(spec, windows={**spec.windows, **beside}, trigger=timed | asked)
    alone = [spec, replace(spec, windows=beside, trigger=asked or None)]
    ops, rows, Clock.now = [sl.Operator(one) for one in (both, *alone)], list(case.rows), 0
    hand = [name for name, trigger in (timed | asked).items() if sl.by_hand() in trigger.parts()]

    untimed = [] if asked or emit != "changes" else list(beside)  # alone their results do not say what is late

    def shown(table: pa.Table) -> list[Result]:
        return [(*row[:-2], None if row[1] in untimed else row[-2], row[-1]) for row in plain(_timed(table))]

    def check_outs(outs: list[Any]) -> None:
        found = [[] if out is None else unordered(shown(out.windows)) for out in outs]
        assert found[0] == sorted(found[1] + found[2]), both

    reached = case.rows[0][0] - 20
    while rows:
        Clock.now += rng.choice([0, 1, 3, 7])
        some, rows = rows[: (size := rng.choice([1, 3, 10, 60]))], rows[size:]
        check_outs([op.push(batch(some)) for op in ops])
        act = rng.random()
        if hand and act < 0.4:
            names = rng.sample(hand, rng.randint(1, len(hand)))
            mine = [[name for name in names if name in op.spec.windows] for op in ops]
            check_outs([op.fire(*some) if some else None for op, some in zip(ops, mine, strict=True)])
        if act > 0.8 or (case.oracle.delay is None and act > 0.3):
            reached += rng.randint(0, 25)
            check_outs([op.advance(reached) for op in ops])
        if 0.3 < act < 0.5:
            ops = [sl.Operator.restore(op.spec, op.snapshot()) for op in ops]
    check_outs([op.flush() for op in ops])


@pytest.mark.parametrize("seed", seeds(2, CASES))
def test_places_report_windows_beside_sessions_as_if_alone(seed: int) -> None:
    """As on Spark, with places that are split and put together between batches."""
    rng = random.Random(seed)
    case = a_case(rng, jitter=rng.choice([0, 5]), kinds=rng.choice(["event-time", "push"]))
    while case.by_hand or any(Clock.trigger in trigger.parts() for trigger in case.spec.triggers().values()):
        case = a_case(rng, jitter=rng.choice([0, 5]), kinds=rng.choice(["event-time", "push"]))
    beside: dict[str, Any] = {"s": rng.choice([sl.whole(), sl.session(1), sl.session(7)])}
    early_ = rng.choice([sl.each_push(), sl.every(4), sl.on_punctuation("m"), None])
    asked = {"s": early_} if case.spec.emit == "changes" and early_ is not None else {}
    spec = replace(case.spec, allowed_lateness=case.spec.allowed_lateness if case.spec.emit == "changes" else 0)
    both = replace(spec, windows={**spec.windows, **beside}, trigger=spec.triggers() | asked)
    specs = [both, spec, replace(spec, windows=beside, trigger=asked or None)]
    stages, rows = [Places(one, batch([]).schema, 2, rng, prompt=True) for one in specs], list(case.rows)
    while True:
        some, rows = rows[: (size := rng.choice([5, 20]))], rows[size:]
        found = [
            unordered([row for out in outs for row in plain(_timed(out.windows))])
            for outs in (stage.push(batch(some).combine_chunks().to_batches()[0]) for stage in stages)
        ]
        assert found[0] == sorted(found[1] + found[2]), both
        if not rows:
            break
        for stage in stages:
            stage.rescale(rng.choice([1, 2, 3]))
    found = [unordered([r for op in s.operators for r in plain(_timed(op.flush().windows))]) for s in stages]
    assert found[0] == sorted(found[1] + found[2]), both


RUN_MUTANTS: dict[str, tuple[Any, str, Any, Any]] = {
    "a reported session that is not taken back when it is complete": (
        *(
            run_marks,
            "_completed",
            lambda of: lambda plan, kind, known, reached: (known, of(plan, kind, known, BEGIN)[1]),
        ),
        test_sessions_and_whole_streams_are_taken_back,
    ),
    "rows that are not kept from a report to the next": (
        *(run_marks, "_left", lambda left: lambda plan, kind, items, ends: left(plan, kind, items, ends[:0])),
        test_sessions_and_whole_streams_are_taken_back,
    ),
    "sessions that are over by the cells of one store alone": (
        *(SessionStore, "without_beside", lambda _: Store.without_beside),
        test_windows_beside_sessions_are_reported_as_if_alone,
    ),
}


@pytest.mark.parametrize("mutant", RUN_MUTANTS)
def test_a_mutant_of_sessions_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, changed, test = RUN_MUTANTS[mutant]
    monkeypatch.setattr(owner, name, changed(getattr(owner, name)))
    with pytest.raises(AssertionError):
        for seed in range(200):
            test(seed)


def _timed(table: pa.Table) -> pa.Table:
    """Results of a query without triggers have no timing: all are on time, or late."""
    if "timing" in table.column_names:
        return table
    late = [revision != 0 for revision in table["revision"].to_pylist()] if "revision" in table.column_names else None
    timing = ["late" if is_late else "on_time" for is_late in late or [False] * len(table)]
    return table.append_column("timing", pa.array(timing, pa.string()))


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_changes_of_sessions_with_late_rows_leave_the_final_ones(seed: int) -> None:
    rng = random.Random(seed)
    gap, delay, lateness = rng.choice([None, 1, 4]), rng.choice([0, 3]), rng.choice([2, 10])
    windows = {"s": sl.whole() if gap is None else sl.session(gap), "a": sl.tumbling(9)}
    trigger: Any = rng.choice([sl.each_push(), {"s": sl.by_hand()}])
    spec = sl.Spec("t", windows, AGGS, ["k"], sl.bounded(delay), lateness, "changes", trigger=trigger)
    op, final = sl.Operator(spec), sl.Operator(replace(spec, trigger=None, emit="final"))
    time, held, asked = 0, list[Result](), list[pa.Table]()
    for at in range(12):
        rows = []
        for _ in range(rng.choice([1, 4])):
            time += rng.choice([0, 1, 3, 10])
            rows.append((time - rng.choice([0, 2, 9]), rng.choice("xy"), rng.choice([None, *range(5)])))
        for one in (op, final):
            out = one.push(batch(rows)) if at < 11 else one.flush()
            if one is final:
                asked.append(out.windows)
                continue
            by_hand = op.fire() if trigger != sl.each_push() and at < 11 and rng.random() < 0.5 else None
            more = [] if by_hand is None else plain(by_hand.windows)
            for *row, sign in [*plain(out.windows), *more]:
                if sign == "-":
                    held.remove(tuple(row))
                else:
                    held.append(tuple(row))
    wanted = pa.concat_tables(asked)
    wanted = wanted.append_column("timing", pa.nulls(len(wanted))).append_column("op", pa.nulls(len(wanted)))
    assert unordered([row[:5] for row in held]) == unordered([row[:5] for row in plain(wanted)]), spec


@pytest.mark.parametrize("trigger", [sl.each_push(), sl.by_hand(), sl.every(100)], ids=repr)
def test_a_late_session_that_ends_where_lateness_ends_is_taken_back_as_it_was_given(trigger: sl.Trigger) -> None:
    """It was reported late, and its replacement comes at the last moment."""
    aggs = {"n": sl.count()}
    spec = sl.Spec("t", {"s": sl.session(2)}, aggs, None, sl.bounded(0), 10, "changes", trigger=trigger)
    op, given = sl.Operator(spec), list[dict[str, Any]]()
    for times in ([16], [21, 9], [11]):
        for row in op.push(pa.table({"t": times})).windows.to_pylist():
            if row.pop("op") == "+":
                given.append(row)
            else:
                given.remove(row)
    assert {"window": "s", "window_start": 9, "window_end": 13, "n": 2, "timing": "late"} in given


def test_calendar_windows_are_cut_too() -> None:
    """A local day is 23, 24 or 25 hours long: its half is a time of its own, and multiples of spans go by UTC."""
    zone, hour = ZoneInfo("Europe/Berlin"), 3_600_000_000_000

    def days(time: int) -> list[tuple[int, int]]:
        day = datetime.fromtimestamp(time // 10**9, zone).replace(hour=0, minute=0, second=0)
        ends = day, day.replace(tzinfo=None) + timedelta(days=1)
        return [(int(day.timestamp()) * 10**9, int(ends[1].replace(tzinfo=zone).timestamp()) * 10**9)]

    for seed in range(6):
        rng = random.Random(seed)
        emit, lateness = rng.choice(["updates", "changes", "parts"]), rng.choice([0, 30])
        early = Early([(7 * hour, hour)], [Fraction("0.3"), Fraction(1, 2)])
        spec = sl.Spec(
            *("t", {"d": sl.calendar("1d", tz="Europe/Berlin")}, AGGS, ["k"], sl.bounded("2h"), f"{lateness}h", emit),
            trigger=sl.every("7h", offset="1h") | sl.after_share(0.3) | sl.after_share(0.5),
        )
        oracle = Oracle({"d": days}, {"d": early}, answer, emit, 2 * hour, lateness * hour)
        op, time = sl.Operator(spec), rng.choice([1_774_600_000, 1_792_600_000]) * 10**9  # before clocks change
        for _ in range(12):
            rows = []
            for _ in range(rng.choice([1, 5])):
                time += rng.choice([0, 1, 3, 9]) * hour
                rows.append((time - rng.choice([0, 0, 5, 40]) * hour, "x", rng.randint(0, 9)))
            found = batch(rows)
            found = found.set_column(0, "t", found["t"].cast(pa.timestamp("ns", "UTC")))
            found = op.push(found).windows
            times = {name: found[name].cast(pa.int64()) for name in ("window_start", "window_end")}
            plain_times = pa.table({name: times.get(name, found[name]) for name in found.column_names})
            assert plain(plain_times) == oracle.push(rows), spec


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_a_window_that_is_added_is_reported_early_too(seed: int) -> None:
    rng = random.Random(seed)
    window, extents = sl.tumbling(9), {"a": periodic(9, 9, 0), "b": periodic(14, 7, 2)}
    trigger, early_ = a_trigger(rng, window)
    while early_.clock is not None:  # that of a window begins with it
        trigger, early_ = a_trigger(rng, window)
    emit, delay = rng.choice(["updates", "changes", "parts"]), rng.choice([0, 5])
    spec = sl.Spec("t", {"a": window}, AGGS, ["k"], sl.bounded(delay), emit=emit, trigger=trigger)
    op, oracle = sl.Operator(spec), Oracle(extents, dict.fromkeys(extents, early_), answer, emit, delay)
    rows, added, Clock.now, since = [(0, "x", 1)], rng.randint(1, 4), 0, 0
    for at in range(12):
        if at == added:
            if early_.arrivals or early_.counts or early_.marks:
                with pytest.raises(
                    ValueError, match="it would count from some row on; give triggers to windows by name"
                ):
                    op.add_window("b", sl.sliding(14, 7, offset=2))
                return
            op.add_window("b", sl.sliding(14, 7, offset=2))
            since = oracle.newest + 1
        found, wanted = plain(op.push(batch(rows)).windows), oracle.push(rows, Clock.now)
        if early_.by_hand and rng.random() < 0.4:
            names = list(op.spec.windows)
            found, wanted = found + plain(op.fire().windows), wanted + oracle.fire(names)
        told = [row for row in found if row[1] == "a" or row[2] >= since]
        assert told == [row for row in wanted if row[1] == "a" or (at >= added and row[2] >= since)], spec
        time = max(row[0] for row in rows)
        rows = [(time + rng.randint(-6, 9), rng.choice("xy"), rng.randint(0, 9)) for _ in range(rng.choice([1, 5]))]
        Clock.now += rng.choice([0, 3, 7])
    op.remove_window("a")
    assert {row[1] for row in plain(op.flush().windows)} <= {"b"}


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
@pytest.mark.parametrize("trigger", [sl.every(5), sl.after_share(0.1), sl.each_push(), sl.by_hand()], ids=repr)
def test_what_other_windows_have_reported_is_in_no_added_window(emit: str, trigger: sl.Trigger) -> None:
    spec = sl.Spec("t", {"a": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.bounded(0), emit=emit, trigger=trigger)
    op, found = sl.Operator(spec), list[dict[str, Any]]()
    op.push(pa.table({"t": [20, 27]}))
    if trigger == sl.by_hand():
        op.fire()
    op.add_window("b", sl.sliding(20, every=10))
    assert op.complete_from("b") == 28
    for rows in ([28], [31, 36], [45], [52]):
        found += op.push(pa.table({"t": rows})).windows.to_pylist()
        if trigger == sl.by_hand():
            found += op.fire().windows.to_pylist()
    found += op.flush().windows.to_pylist()
    counts: dict[int, int] = {}
    for row in found:
        if row["window"] == "b" and emit == "parts":
            counts[row["window_start"]] = counts.get(row["window_start"], 0) + row["n"]
        elif row["window"] == "b" and row.get("op") == "-":
            assert counts.pop(row["window_start"]) == row["n"]
        elif row["window"] == "b":
            counts[row["window_start"]] = row["n"]
    assert counts == {30: 3, 40: 2, 50: 1}


def test_windows_beside_those_that_rows_cut_come_and_go() -> None:
    triggers = {"a": sl.after_count(2), "c": sl.on_punctuation("m") | sl.after_count(3)}
    windows = {"a": sl.tumbling(9), "b": sl.tumbling(5), "c": sl.sliding(14, 7)}
    spec = sl.Spec("t", windows, AGGS, ["k"], sl.bounded(5), emit="changes", trigger=triggers)
    early_ = {"a": Early(counts=[(2, None)]), "c": Early(counts=[(3, None)], marks=True)}
    extents = {"a": periodic(9, 9, 0), "b": periodic(5, 5, 0), "c": periodic(14, 7, 0)}
    oracle = Oracle(extents, early_, answer, "changes", 5)
    op, rng, names, time = sl.Operator(spec), random.Random(5), {"a", "b", "c"}, 0
    for at in range(30):
        if at == 10:
            op.remove_window("a")
            names.remove("a")
        if at == 20:
            op.remove_window("b")
            op.add_window("d", sl.tumbling(8))
            names.remove("b")
        time += rng.randint(0, 5)
        rows = [(time - rng.randint(0, 7), rng.choice("xy"), rng.choice([None, *range(9)])) for _ in range(4)]
        found = [row for row in plain(op.push(batch(rows)).windows) if row[1] != "d"]
        assert found == [row for row in oracle.push(rows) if row[1] in names]


def test_rows_are_counted_the_same_whatever_is_looked_at_together() -> None:
    for seed in seeds(10, CASES):
        check(-1000 - seed, cut_rows=3)


def test_rows_by_arrival_are_refused_by_several_processes() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, AGGS, emit="parts", trigger=sl.after_count(2, order="arrival"))
    with pytest.raises(ValueError, match=r"counts rows as they arrive, .*; use sl.after_count\(n\)"):
        start(spec, batch([]).schema)


@pytest.mark.parametrize("seed", seeds(4, CASES))
def test_aggregate_counts_rows_in_the_order_of_the_data(seed: int) -> None:
    rng = random.Random(seed)
    case = a_case(rng, jitter=0, kinds="arrival")
    case.oracle.delay = None
    wanted = sorted(
        [*case.oracle.push(case.rows), *case.oracle.flush()], key=lambda r: (*r[:3], r[3] is not None, r[3])
    )
    size = rng.choice([1, 7, 100])
    chunks = [batch(case.rows[at : at + size]) for at in range(0, len(case.rows), size)]
    assert plain(sl.aggregate(chunks, case.spec)) == wanted, case.spec
    assert pickle.loads(pickle.dumps(case.spec.unfired())) == case.spec.unfired()


def test_explain_says_what_triggers_cost_without_the_types_of_columns() -> None:
    windows, triggers = {"s": sl.session(5), "w": sl.tumbling(60)}, {"s": sl.on_punctuation("m"), "w": sl.every(20)}
    told = sl.explain(sl.Spec("t", windows, {"n": sl.count()}, "k", emit="changes", trigger=triggers))
    of_session, of_window = told["early results"].split("\n")
    assert "at most 1 rows for each mark; rows are kept one by one" in of_session
    assert "at most 50 rows in 1000 units of 't' for each key with new rows" in of_window
    assert "a row waits for its trigger" in told["rows kept"]


def test_marks_must_be_boolean() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()}, emit="parts", trigger=sl.on_punctuation("v"))
    with pytest.raises(TypeError, match=r"sl.on_punctuation\('v'\) takes a boolean column; 'v' has type int64"):
        sl.aggregate(batch([(1, "x", 2)]), spec)


@pytest.mark.parametrize("trigger", [sl.by_hand(), sl.every_processing_time("1s")])
def test_what_fires_in_one_process_is_refused_by_several(trigger: sl.Trigger) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, AGGS, emit="parts", trigger=trigger)
    with pytest.raises(ValueError, match=r"fires in the process that holds an sl.Operator.*use sl.each_push\(\)"):
        start(spec, batch([]).schema)


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
@pytest.mark.parametrize("trigger", [sl.each_push(), Clock.trigger, sl.by_hand()], ids=repr)
def test_aggregate_gives_panes_on_time_of_pushes(emit: str, trigger: sl.Trigger) -> None:
    rows = [(time, "xy"[time % 2], time % 5) for time in range(100)]
    chunks = [batch(rows[at : at + 7]) for at in range(0, 100, 7)]
    windows = {"a": sl.tumbling(9)}
    if emit == "changes":
        windows |= {"s": sl.session(1), "w": sl.whole()}
    others = emit == "changes" and trigger != sl.each_push()
    triggers = {"s": trigger, "w": trigger} if others else trigger
    spec = sl.Spec("t", windows, AGGS, ["k"], emit=emit, trigger=triggers)
    found = sl.aggregate(chunks, spec)
    asked = sl.aggregate(chunks, replace(spec, trigger=None, emit="final"))
    assert found.select(asked.column_names).equals(asked)
    assert set(found["timing"].to_pylist()) == {"on_time"}
    assert set(found.columns[-1].to_pylist()) == ({"+"} if emit == "changes" else {0})
    if trigger is not Clock.trigger:  # a clock of a test is no function of a module
        assert pickle.loads(pickle.dumps(spec.unfired())) == spec.unfired()


def test_an_advance_takes_back_the_early_rows_of_the_sessions_that_it_completes() -> None:
    at = 1_772_323_200_000_000_000
    spec = sl.Spec(
        "t",
        {"s": sl.session(3)},
        {"n": sl.count()},
        by="k",
        emit="changes",
        watermark=sl.manual(),
        trigger=sl.each_push(),
    )
    op = sl.Operator(spec)
    op.push(pa.table({"t": [at, at + 2, at, at + 20], "k": list("aabb")}))
    op = sl.Operator.restore(spec, op.snapshot())
    out = op.advance(at + 4)
    found = [(w["op"], w["k"], w["n"], w["timing"]) for w in out.windows.to_pylist()]
    assert found == [("-", "b", 1, "early"), ("+", "b", 1, "on_time")]
    out = op.advance(at + 6)
    found = [(w["op"], w["k"], w["n"], w["timing"]) for w in out.windows.to_pylist()]
    assert found == [("-", "a", 2, "early"), ("+", "a", 2, "on_time")]
    assert op.advance(at + 7).windows.num_rows == 0
    found = [(w["op"], w["k"], w["n"], w["timing"]) for w in op.flush().windows.to_pylist()]
    assert found == [("-", "b", 1, "early"), ("+", "b", 1, "on_time")]


@pytest.mark.parametrize("seed", range(max(CASES // 10, 1)))
def test_parts_of_a_landmark_with_late_rows_add_up(seed: int) -> None:
    """A late row may be the first one before an edge, and then all rows before that are news."""
    rng = random.Random(seed)
    rows = [(rng.randrange(40), rng.randrange(2), 2**i) for i in range(30)]
    data = pa.table(dict(zip("tkv", map(list, zip(*rows, strict=True)), strict=True)))
    windows = {"so far": sl.landmark(3, start=0), "ten": sl.tumbling(10)}
    more = {"by": "k", "watermark": sl.bounded(0), "allowed_lateness": 12}
    final = sl.Spec("t", windows, {"s": sl.sum("v")}, **more)
    wanted = sorted((*row.values(),) for out in sl.replay(data, final, rows=2) for row in out.windows.to_pylist())
    found: dict[tuple[object, ...], int] = {}
    for out in sl.replay(data, sl.Spec("t", windows, {"s": sl.sum("v")}, emit="parts", **more), rows=2):
        for row in out.windows.to_pylist():
            *window, part, _ = row.values()
            found[*window] = found.get((*window,), 0) + part
    assert sorted((*window, total) for window, total in found.items()) == wanted


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
def test_a_trigger_that_fires_seldom_does_not_hold_up_one_that_fires_often(emit: str) -> None:
    """What the same triggers have reported is kept together, however many pushes it came with."""
    windows = {"seldom": sl.tumbling(10**6), "often": sl.tumbling(10**6)}
    spec = sl.Spec("t", windows, {"n": sl.count()}, by="k", emit=emit,
                   trigger={"seldom": sl.by_hand(), "often": sl.each_push()})  # fmt: skip
    op, late = sl.Operator(spec), 0
    for i in range(200):
        rows = pa.table({"t": [10 * i + n for n in range(5)], "k": [(3 * i + n) % 50 for n in range(5)]})
        late += op.push(rows).windows.num_rows
        assert op._now is not None and len(op._now.apart) <= 1
        if i == 100:
            assert op.fire("seldom").windows.num_rows >= 50
    totals = [row["n"] for row in op.fire("seldom").windows.to_pylist() if row.get("op", "+") == "+"]
    assert sum(totals) == (5 * 99 if emit == "parts" else 5 * 200)


@pytest.mark.parametrize("window", [sl.session(100), sl.whole()])
def test_a_push_that_reports_runs_reads_those_of_its_keys(window: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """And sessions that end meanwhile, of whatever key."""
    read: list[int] = []
    plain = open_runs.runs
    monkeypatch.setattr(open_runs, "runs", lambda cells, *more: read.append(len(cells)) or plain(cells, *more))
    spec = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.bounded(0), trigger=sl.each_push(),
                   emit="changes")  # fmt: skip
    op = sl.Operator(spec)
    op.push(pa.table({"t": [0] * 1000, "k": range(1000)}))
    op.push(pa.table({"t": [60] * 990, "k": range(990)}))
    read.clear()
    assert op.push(pa.table({"t": [70], "k": [5]})).windows["n"].to_pylist() == [2, 3]
    assert 0 < max(read) <= 4
    out = op.push(pa.table({"t": [110], "k": [5]}))
    ended = [row["k"] for row in out.windows.to_pylist() if row["timing"] == "on_time"]
    assert ended == (list(range(990, 1000)) if isinstance(window, type(sl.session(1))) else [])
    assert max(read) <= 30


@pytest.mark.parametrize("seed", seeds(10, CASES))
def test_few_keys_with_news_are_reported_as_if_all_were_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for few in (fired.FEW, 1 << 40):  # as it is, and never
        monkeypatch.setattr(fired, "FEW", few)
        rng, draw = np.random.default_rng(seed), random.Random(seed)
        windows = {
            "a": draw.choice([sl.tumbling(50), sl.sliding(60, 20)]),
            "b": draw.choice([sl.tumbling(100), sl.sliding(100, 50)]),
        }
        triggers = {"a": draw.choice([sl.each_push(), sl.by_hand()]), "b": draw.choice([sl.each_push(), sl.by_hand()])}
        emit, lateness = draw.choice(["updates", "changes", "parts"]), draw.choice([0, 30])
        aggs = {"n": sl.count(), "s": sl.sum("v"), "m": sl.max("v")}
        spec = sl.Spec("t", windows, aggs, by="k", emit=emit, trigger=triggers, watermark=sl.bounded(10),
                       allowed_lateness=lateness)  # fmt: skip
        op, keys, now = sl.Operator(spec), 200, ORIGINS[2]
        rows = {"t": now + rng.integers(0, 20, keys), "k": np.arange(keys), "v": rng.integers(0, 9, keys)}
        found = [op.push(pa.table(rows)).windows.to_pylist()]
        for _ in range(15):
            size, now = int(rng.integers(1, 6)), now + int(rng.integers(0, 12))
            time = now - rng.integers(0, 40, size) * (rng.random(size) < 0.3)
            rows = {"t": time, "k": rng.integers(0, keys + 5, size), "v": rng.integers(0, 9, size)}
            found.append(op.push(pa.table(rows)).windows.to_pylist())
            if sl.by_hand() in triggers.values() and draw.random() < 0.2:
                found.append(op.fire().windows.to_pylist())
            if draw.random() < 0.1:
                op = sl.Operator.restore(spec, op.snapshot())
        told.append([*found, op.flush().windows.to_pylist()])
    assert told[0] == told[1]


def test_slices_of_sessions_that_become_one_are_counted_anew() -> None:
    windows = {"s": sl.session(7), "all": sl.whole(), "sl": sl.sliding(20, every=3)}
    spec = sl.Spec("t", windows, {"n": sl.count()}, by="k", watermark=sl.bounded(0), emit="changes",
                   trigger=sl.each_push())  # fmt: skip
    op = sl.Operator(spec)
    op.push(pa.table({"t": [27, 29, 21], "k": [4, 5, 5]}))
    rows = op.push(pa.table({"t": [70], "k": [0]})).windows.to_pylist()
    closed = {(row["window"], row["k"], row["n"]) for row in rows if row["timing"] == "on_time" and row["op"] == "+"}
    assert {("s", 4, 1), ("s", 5, 1)} <= closed
    assert op.advance(90).windows.num_rows > 0


@pytest.mark.parametrize("trigger", [sl.every(10), sl.each_push()], ids=repr)
def test_nothing_is_late_behind_sessions_that_are_taken_back(trigger: sl.Trigger) -> None:
    at, sessions = 1_790_000_000_000_000_000, sl.Spec("t", {"s": sl.session(5)}, {"n": sl.count()}, emit="changes")
    ended = sl.Spec(
        *("window_end", {"four": sl.tumbling(4)}, {"sessions": sl.count(), "rows": sl.sum("n")}),
        watermark=sl.manual(),
        emit="changes",
        op="op",
    )
    first = replace(sessions, trigger=trigger, watermark=sl.bounded(0))
    chain, held = sl.chain(sl.Operator(first), sl.Operator(ended)), list[dict[str, Any]]()
    for times in ([8], [11], [12, 16], [20], [50], None):
        out = chain.flush() if times is None else chain.push(pa.table({"t": [at + time for time in times]}))
        assert not out.late.num_rows
        for row in out.windows.drop_columns("window").to_pylist():
            if row.pop("op") == "-":
                held.remove(row)
            else:
                held.append(row)
    assert [(row["window_end"] - at, row["sessions"], row["rows"]) for row in held] == [(28, 1, 5), (56, 1, 1)]


def test_a_clock_that_is_set_back_starts_again() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, {"n": sl.count()}, emit="updates", watermark=sl.manual())
    op = sl.Operator(replace(spec, trigger=Clock.trigger))
    found = []
    for Clock.now in (3600, 3604, 3605, 0, 4, 5, 9, 10):
        found.append(op.push(pa.table({"t": [5]})).windows.num_rows)
    assert found == [0, 0, 1, 0, 0, 1, 0, 1]


def test_a_window_has_one_clock() -> None:
    with pytest.raises(ValueError, match="the triggers of a window read one clock; got several"):
        _ = sl.every_processing_time("5s", clock=lambda: 0) | sl.every_processing_time("7s", clock=lambda: 0)
    assert len((Clock.trigger | sl.every_processing_time("7us", clock=Clock.trigger.clock)).parts()) == 2


def test_an_advance_before_the_first_push_starts_the_clock() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, {"n": sl.count()}, emit="updates", watermark=sl.manual())
    for Clock.now, wanted in ((4, 0), (5, 1), (11, 1)):
        now, op = Clock.now, sl.Operator(replace(spec, trigger=Clock.trigger))
        for Clock.now in (0, now):
            out = op.advance(0) if Clock.now == 0 else op.push(pa.table({"t": [5]}))
        assert out.windows.num_rows == wanted


@pytest.mark.parametrize("emit", ["updates", "changes", "parts"])
@pytest.mark.parametrize("delay", [0, 5])
def test_empty_windows_beside_windows_that_are_reported_early_come_as_soon(emit: str, delay: int) -> None:
    """A row of a key tells that its windows before it are empty, although the watermark passes no edge."""
    at = 1_714_564_800_000_000_000
    windows = {"filled": sl.tumbling(10, fill=True), "early": sl.tumbling(10)}
    found = []
    for of_early in (None, sl.after_count(100), sl.every(3), sl.after_share(0.5), sl.each_push()):
        trigger = None if of_early is None else {"early": of_early}
        spec = sl.Spec("t", windows, {"n": sl.count()}, by="k", emit=emit, trigger=trigger, watermark=sl.bounded(delay))
        op, pushes = sl.Operator(spec), []
        for times, keys in (([1, 2], "ab"), ([46], "b"), ([47], "a"), ([48], "a"), ([85], "b"), ([72, 81], "ac")):
            windows_of = op.push(pa.table({"t": [at + time for time in times], "k": list(keys)})).windows.to_pylist()
            filled = [row for row in windows_of if row["window"] == "filled"]
            pushes.append([(row["window_start"] - at, row["k"], row["n"]) for row in filled])
        found.append(pushes)
    assert all(pushes == found[0] for pushes in found)
    assert found[0][2] == [(10, "a", 0), (20, "a", 0), (30, "a", 0)]
