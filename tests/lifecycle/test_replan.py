"""Queries that change while their stream runs: what an added window says, and what removing one leaves alone."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from harness import Delta, FastDelta, batch, compare_windows, moment, plain_rows, plain_time, policy_for, spec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from oracle import Oracle, Refused, reach
from strategies import CONTEXT_FREE, OF_ROWS, Case, Kit, cases

import slicing as sl

CASES = max(int(os.environ.get("SLICING_CASES", "150")) // 3, 1)
SEED = int(os.environ.get("SLICING_SEED", "0"))
N = {"n": sl.count(), "total": sl.sum("v")}
T0 = 1_790_000_000_000_000_000
WHOLE = Kit(
    kinds=("rows", "rows", "punctuation", "tumbling"),
    watermarks=("ordered", "ordered", "bounded"),
    emits=("final",),
    keys=(1, 1, 2),
    idle=False,
    of_stream=True,
    rich_values=False,
    each=True,
)
KINDS = (*CONTEXT_FREE, "session", "session", "whole", *OF_ROWS)


@pytest.mark.parametrize("more", [{"emit": "parts"}, {"emit": "updates", "trigger": {"a": sl.each_push()}}], ids=str)
def test_results_that_wait_while_windows_with_ranks_come_and_go(more: dict[str, Any]) -> None:
    op = sl.Operator(sl.Spec("t", {"a": sl.tumbling(1)}, {"n": sl.count()}, **more), max_windows_per_push=1)
    found = op.push(pa.table({"t": range(6)})).windows.to_pylist()
    op.add_window("b", sl.rows(2, 2))
    found += op.push(pa.table({"t": [10, 11]})).windows.to_pylist()
    op.remove_window("b")
    found += op.push(pa.table({"t": [12]})).windows.to_pylist() + op.flush().windows.to_pylist()
    assert {row["window_start"] for row in found if row["window"] == "a"} == {*range(6), 10, 11, 12}


@pytest.mark.parametrize("window", [sl.last_rows(2, 4), sl.frame("p", "q"), sl.punctuation("r", per_key=True)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_keys_that_begin_anew_after_a_pause_have_all_their_windows(window: Any, size: int) -> None:
    """What an added window may have missed of a key, it has not of the same key once that was idle."""
    times = [0, 3, 8, 9, 20, 22, 24, 50, 51, 54, 80, 100, 101]
    even = [t % 2 == 0 for t in times]
    rows = pa.table({"t": times, "v": times, "p": [True] * len(times), "q": even, "r": [not e for e in even]})
    windows = {"all": window, "w": sl.tumbling(4)}
    op = sl.Operator(sl.Spec("t", {"w": windows["w"]}, N, watermark=sl.bounded(2), idle=5))
    op.push(rows.slice(0, 3))
    op.add_window("all", window)
    found = []
    for at in range(3, len(times), size):
        found += op.push(rows.slice(at, size)).windows.to_pylist()
        op = sl.Operator.restore(op.spec, op.snapshot())
    found += op.flush().windows.to_pylist()
    every = sl.aggregate(rows, sl.Spec("t", windows, N, idle=5)).to_pylist()
    shown, wanted = ([w for w in those if w["window"] == "all" and w["window_start"] >= 20] for those in (found, every))
    assert sorted(map(str, shown)) == sorted(map(str, wanted))
    assert len(wanted) >= 4


def added_to(case: Case, op: sl.Operator, name: str) -> bool:
    """Whether the window could be added; if not, nothing has changed."""
    before = op.spec
    try:
        op.add_window(name, spec(case).windows[name])
    except ValueError as error:
        assert "cannot be added while a stream runs" in str(error)
        assert op.spec == before
        return False
    return True


def whole(case: Case, op: sl.Operator, row: dict[str, Any]) -> bool:
    """Whether a window of the oracle, which has seen all rows, must come out."""
    window, since = case.query["windows"][row["window"]], op.complete_from(row["window"])
    if since is None:
        return True
    if window["kind"] == "last_rows" and row["n"] < window["n"]:
        return False
    edge = row["window_end" if window["kind"] == "per_row" else "window_start"]
    return edge is not None and edge >= plain_time(since, case.columns["t"])


def few(case: Case, op: sl.Operator, row: dict[str, Any]) -> bool:
    """Whether a ``last_rows`` window that was added has fewer rows than it asks for."""
    window = case.query["windows"][row["window"]]
    return window["kind"] == "last_rows" and row["n"] < window["n"] and op.complete_from(row["window"]) is not None


chosen = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@seed(SEED)
@chosen
@given(cases(Kit(kinds=KINDS)), st.data())
def test_windows_come_and_go(case: Case, data: st.DataObject) -> None:
    come_and_go(case, data)


@seed(SEED)
@chosen
@given(cases(WHOLE), st.data())
def test_windows_of_the_whole_stream_come_and_go(case: Case, data: st.DataObject) -> None:
    come_and_go(case, data, slice_rows=0)


def come_and_go(case: Case, data: st.DataObject, **told: object) -> None:
    names = sorted(case.query["windows"])
    first = data.draw(st.sampled_from(names))
    changes = {
        name: data.draw(st.tuples(st.integers(0, len(case.steps)), st.integers(0, len(case.steps) + 3)))
        for name in names
        if name != first
    }
    present = {first} | {name for name, (come, _) in changes.items() if come == 0}
    seen = {name: dict(window) for name, window in case.query["windows"].items()}
    wanted, op = Oracle(case.columns, {**case.query, "windows": seen}), None
    begun = case.asking(windows={n: w for n, w in case.query["windows"].items() if n in present})
    policy = policy_for(case, **told)
    op = sl.Operator(spec(begun), policy=policy)
    for at, step in enumerate([*case.steps, ("flush",)], 1):
        expected, failed = None, False
        try:
            if step[0] != "restart":
                expected = getattr(wanted, step[0])(*([case.named(step[1])] if step[0] == "push" else step[1:]))
        except Refused:
            failed = True
        try:
            match step:
                case ("push", rows):
                    out = op.push(batch(case, rows))
                case ("advance", watermark):
                    out = op.advance(moment(watermark, case.columns["t"]))
                case ("flush",):
                    out = op.flush()
                case ("restart",):
                    op = sl.Operator.restore(op.spec, bytes(op.snapshot()), policy=policy)
        except (ValueError, OverflowError):
            return  # an overflow may be in a window that is not there: the streams have parted
        if failed:
            return
        if expected is not None:
            rows = [row for row in expected.windows if row["window"] in present and whole(case, op, row)]
            if not op.spec.ranks_rows:
                rows = [{n: v for n, v in row.items() if n not in ("rank_start", "rank_end")} for row in rows]
            found = plain_rows(out.windows)
            if case.query["idle"] is not None:  # a key may have ended since: then few rows are all that it has
                rows, found = ([row for row in some if not few(case, op, row)] for some in (rows, found))
            compare_windows(case, rows, found, f"step {at} of {step[0]}, changes {changes}")
        for name, (come, go) in changes.items() if step[0] != "flush" else ():
            if come == at and added_to(case, op, name):
                present.add(name)
                since, window = op.complete_from(name), seen[name]
                if window.get("order") == "arrival" and (window["kind"] == "rows" or window["every"] > 1):
                    window["arrived"] = wanted.pushed
                    # what the oracle has given of it was of rows that came before, and is not taken back
                    wanted.shown = {key: row for key, row in wanted.shown.items() if row["window"] != name}
                elif since is not None and window["kind"] == "punctuation":
                    window["added"] = plain_time(since, case.columns["t"])
                elif since is not None and (
                    window.get("fill") or window["kind"] in ("rows", "frame", "per_row", "visit", "delta")
                ):
                    back = max(reach(window)[0], 0) if window["kind"] == "per_row" else 0
                    window["origin"] = plain_time(since, case.columns["t"]) - back
            if go == at and name in present and len(present) > 1:
                op.remove_window(name)
                present.discard(name)


def operator(**windows: Any) -> sl.Operator:
    return sl.Operator(sl.Spec(time="t", windows=windows, aggs=N, watermark=sl.manual()))


def push(op: sl.Operator, text: str) -> list[tuple]:
    rows = [tuple(map(int, row.split(":"))) for row in text.split()]
    return told(op.push(pa.table({"t": [t for t, _ in rows], "v": [v for _, v in rows]})))


def told(out: sl.Output) -> list[tuple]:
    columns = ("window", "window_start", "window_end", "total")
    return list(zip(*(out.windows[name].to_pylist() for name in columns), strict=True))


SCOTTY = {  # windows; rows before; the window added; rows, watermarks and what comes out (Scotty's dynamic tests)
    "inOrderTwoWindowsDynamicTest": (
        {"ten": sl.tumbling(10)},
        "1:1",
        sl.tumbling(20),
        None,
        [
            ("19:2 29:3 39:4 49:5", 22, [("new", 0, 20, 3), ("ten", 0, 10, 1), ("ten", 10, 20, 2)]),
            (
                "",
                55,
                [("new", 20, 40, 7), ("ten", 20, 30, 3), ("ten", 30, 40, 4), ("ten", 40, 50, 5)],
            ),
        ],
    ),
    "inOrderTwoWindowsDynamicTest2": (
        {"twenty": sl.tumbling(20)},
        "1:1 19:2 W22",
        sl.tumbling(10),
        20,
        [("29:3 39:4 49:5", 55, [("new", 20, 30, 3), ("new", 30, 40, 4), ("new", 40, 50, 5), ("twenty", 20, 40, 7)])],
    ),
    "SlidingWindow.inOrderTwoWindowsDynamicTest": (
        {"five": sl.sliding(10, 5)},
        "1:1",
        sl.tumbling(20),
        None,
        [
            (
                "19:2 29:3 39:4 49:5",
                22,
                [("five", -5, 5, 1), ("five", 0, 10, 1), ("five", 10, 20, 2), ("new", 0, 20, 3)],
            ),
            (
                "",
                55,
                [
                    *(("five", start, start + 10, total) for start, total in ((15, 2), (20, 3), (25, 3), (30, 4))),
                    *(("five", start, start + 10, total) for start, total in ((35, 4), (40, 5), (45, 5))),
                    ("new", 20, 40, 7),
                ],
            ),
        ],
    ),
    "SlidingWindow.inOrderTwoWindowsDynamicTest2": (  # Scotty gives [15, 25) as empty; it holds 19, which has gone
        {"twenty": sl.tumbling(20)},
        "1:1 19:2 W22",
        sl.sliding(10, 5),
        20,
        [
            (
                "29:3 39:4 49:5",
                55,
                [
                    *(("new", start, start + 10, total) for start, total in ((20, 3), (25, 3), (30, 4))),
                    *(("new", start, start + 10, total) for start, total in ((35, 4), (40, 5), (45, 5))),
                    ("twenty", 20, 40, 7),
                ],
            )
        ],
    ),
    "FixedBandWindow.inOrderTwoWindowsDynamicTest": (
        {"ten": sl.fixed(10, 20)},
        "1:1",
        sl.fixed(20, 30),
        2,
        [("19:2 29:3 39:4", 22, [("ten", 10, 20, 2)]), ("", 55, [("new", 20, 30, 3)])],
    ),
    "FixedBandWindow.inOrderTwoWindowsDynamicTest2": (
        {"ten": sl.fixed(10, 20)},
        "1:1 19:2 W22",
        sl.fixed(20, 41),
        20,
        [("29:3 39:4 49:5", 55, [("new", 20, 41, 7)])],
    ),
}


@pytest.mark.parametrize("name", SCOTTY)
def test_scottys_dynamic_cases(name: str) -> None:
    windows, before, window, since, after = SCOTTY[name]
    op = operator(**windows)
    rows, _, watermark = before.partition(" W")
    push(op, rows)
    if watermark:
        op.advance(int(watermark))
    op.add_window("new", window)
    assert op.complete_from("new") == since
    for rows, watermark, expected in after:
        assert (push(op, rows) if rows else []) == []
        assert sorted(told(op.advance(watermark))) == expected


def test_a_window_before_any_row_is_whole_and_may_be_of_any_kind() -> None:
    op = operator(ten=sl.tumbling(10))
    op.add_window("all", sl.whole())
    op.add_window("three", sl.rows(3))
    assert op.complete_from("all") is None
    push(op, "1:1 2:2 3:4")
    assert ("three", 1, 3, 7) in told(op.flush())


NEVER = {
    "whole": sl.whole(),
    "landmark": sl.landmark(10),
    "landmark from before": sl.landmark(10, start=5),
    "fixed": sl.fixed(5, 30),
}


@pytest.mark.parametrize("name", NEVER)
def test_windows_that_could_never_be_whole_are_refused(name: str) -> None:
    op = operator(ten=sl.tumbling(20))
    push(op, "7:1 25:2")
    op.advance(21)
    before = bytes(op.snapshot())
    with pytest.raises(ValueError, match=r"^windows\['new'\] cannot be added while a stream runs: sl\."):
        op.add_window("new", NEVER[name])
    assert bytes(op.snapshot()) == before and list(op.spec.windows) == ["ten"]


def test_counts_begin_where_the_window_is_whole() -> None:
    op = operator(old=sl.rows(2))
    push(op, "1:1 2:2 5:4")
    op.add_window("new", sl.rows(2))
    op.add_window("other", sl.per_row(3, every=2))
    assert (op.complete_from("new"), op.complete_from("other")) == (6, 8)
    push(op, "3:8 6:16 7:32")
    op.advance(7)
    op = sl.Operator.restore(op.spec, op.snapshot())
    push(op, "8:64 9:128 11:256")
    found = [row for row in told(op.flush()) if row[0] != "old"]
    assert found == [("new", 6, 7, 48), ("new", 8, 9, 192), ("other", 7, 9, 224)]


def test_a_frame_that_may_have_begun_before_does_not_come_out() -> None:
    op = operator(all=sl.tumbling(100))
    columns = ("t", "v", "enter", "leave")

    def rows(*values: tuple) -> list[tuple]:
        return told(op.push(pa.table(dict(zip(columns, zip(*values, strict=True), strict=True)))))

    rows((1, 1, True, False))
    op.add_window("f", sl.frame("enter", "leave"))
    rows((5, 2, True, False), (10, 4, False, True), (11, 8, True, False))
    assert told(op.advance(11)) == []  # [1, 10] it was
    op = sl.Operator.restore(op.spec, op.snapshot())
    rows((12, 16, False, True))
    assert told(op.advance(30)) == [("f", 11, 12, 24)]


def test_empty_windows_begin_with_the_first_row_from_then_on() -> None:
    op = operator(all=sl.tumbling(100))
    push(op, "0:1")
    op.add_window("filled", sl.sliding(5, every=4, fill=True))
    assert op.complete_from("filled") == 1
    push(op, "1:2 21:4")  # [0, 5) holds a row from then on, but is not whole
    op = sl.Operator.restore(op.spec, op.snapshot())
    assert told(op.advance(21)) == [("filled", start, start + 5, None) for start in (4, 8, 12, 16)]


def test_a_users_window_begins_anew_where_it_is_added() -> None:
    op = sl.Operator(sl.Spec("t", {"old": FastDelta("v", 3)}, {"seen": sl.collect("v")}, watermark=sl.ordered()))
    op.push(pa.table({"t": [1, 2, 3], "v": [1, 2, 5]}))
    op.add_window("new", FastDelta("v", 3))
    op.add_window("plain", Delta("v", 3))
    out = op.push(pa.table({"t": [4, 5, 6, 7], "v": [7, 8, 9, 10]})).windows.to_pylist()
    out += op.flush().windows.to_pylist()
    by_name = {name: [w["seen"] for w in out if w["window"] == name] for name in ("old", "new", "plain")}
    assert by_name == {"old": [[1, 2], [5, 7], [8, 9, 10]], "new": [[7, 8, 9], [10]], "plain": [[7, 8, 9], [10]]}


def test_a_window_from_mark_to_mark_waits_for_a_mark() -> None:
    op = operator(all=sl.tumbling(100))
    columns = ("t", "v", "mark")

    def rows(*values: tuple) -> list[tuple]:
        return told(op.push(pa.table(dict(zip(columns, zip(*values, strict=True), strict=True)))))

    rows((1, 1, True))
    op.add_window("p", sl.punctuation("mark"))
    rows((5, 2, False), (10, 4, True), (15, 8, False), (20, 16, True))
    assert told(op.advance(30)) == [("p", 10, 20, 12)]


def test_removing_a_window_lets_its_slices_and_rows_go() -> None:
    op = operator(day=sl.tumbling(10_000), ten=sl.tumbling(10), rows=sl.per_row(5_000))
    for at in range(0, 5_000, 500):
        push(op, " ".join(f"{t}:1" for t in range(at, at + 500)))
    op.advance(5_000)
    full = op.advance(5_000).stats
    op.remove_window("rows")
    op.remove_window("day")
    assert list(op.spec.windows) == ["ten"]
    left = op.advance(5_001).stats
    assert full["kept"] > 4_000 and left["kept"] == 0
    assert left["cells"] <= 1 and left["bytes"] < full["bytes"] / 100


@pytest.mark.parametrize("count, room", [(62, True), (63, False)])
def test_a_row_is_asked_as_many_flags_as_a_slice_has_room_for(count: int, room: bool) -> None:
    """Of more nothing is lost where they are asked from the beginning; they are not added to slices."""
    rng = np.random.default_rng(0)
    marks = {f"m{i}": rng.random(400) < 0.1 for i in range(count)}
    data = pa.table({"t": np.arange(400), "k": np.arange(400) % 3, **marks})
    last = f"m{count - 1}"

    def answered(names: list[str], added: str | None = None) -> list[dict]:
        spec = sl.Spec(
            "t", {name: sl.punctuation(name) for name in names}, {"n": sl.count()}, by=["k"], watermark=sl.ordered()
        )
        op = sl.Operator(spec)
        found = op.push(data.slice(0, 200)).windows.to_pylist()
        if added is not None:
            op.add_window(added, sl.punctuation(added))
        found += op.push(data.slice(200)).windows.to_pylist() + op.flush().windows.to_pylist()
        return [row for row in found if row["window"] == last]

    assert answered(list(marks)) == answered([last])
    if room:
        assert answered(list(marks)[:-1], last) == answered(["m0"], last)
    else:
        with pytest.raises(
            ValueError,
            match=r"ask 63 flags of a row, of boolean columns; at most 62 can be asked of rows that are kept",
        ):
            answered(list(marks)[:-1], last)


def test_what_is_refused() -> None:
    op = operator(ten=sl.tumbling(10))
    with pytest.raises(ValueError, match="there is a window 'ten' already; remove it first or choose another name"):
        op.add_window("ten", sl.tumbling(5))
    with pytest.raises(TypeError, match="must be built by one of the constructors"):
        op.add_window("new", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="remove_window: no window is named 'new'; there are ten"):
        op.remove_window("new")
    with pytest.raises(ValueError, match="remove_window: 'ten' is the only window; add another one first"):
        op.remove_window("ten")
    with pytest.raises(ValueError, match="complete_from: no window is named 'new'; there are ten"):
        op.complete_from("new")
    op.flush()
    with pytest.raises(RuntimeError, match="the operator was flushed"):
        op.add_window("new", sl.tumbling(5))


def test_a_window_whose_edges_the_slices_do_not_have_is_not_whole() -> None:
    op = operator(twenty=sl.tumbling(20))
    push(op, "1:1 12:2 25:4")
    op.add_window("ten", sl.tumbling(10))  # the slice [0, 20) cannot tell 1 from 12; [20, 40) has nothing from 30 on
    op.add_window("forty", sl.tumbling(40))
    assert (op.complete_from("ten"), op.complete_from("forty")) == (11, None)
    push(op, "2:8 13:16 27:32 31:64")
    expected = [("twenty", 0, 20, 27), ("ten", 20, 30, 36), ("forty", 0, 40, 127), ("ten", 30, 40, 64)]
    assert told(op.advance(40)) == [*expected, ("twenty", 20, 40, 100)]


def test_a_window_inside_of_a_slice_is_not_whole() -> None:
    op = operator(ten=sl.tumbling(10))
    push(op, "2:1 12:2 13:4")
    with pytest.raises(ValueError, match="holds rows that came before it"):
        op.add_window("band", sl.fixed(1, 4))
    op.add_window("gaps", sl.sliding(1, 5, offset=2))
    op.add_window("known", sl.fixed(10, 20))
    assert (op.complete_from("gaps"), op.complete_from("known")) == (14, None)
    push(op, "11:8 17:16")
    found = [row for row in told(op.flush()) if row[0] != "ten"]
    assert found == [("gaps", 17, 18, 16), ("known", 10, 20, 30)]


COUNTED = {  # rows 1, 30 and 2 came before; then 28, 40, 41, 42 of one key and 50, 60 of another, 61 of the first
    "by arrival": (sl.rows(2, order="arrival"), None, [(28, 40, 1, 24), (41, 42, 1, 96), (50, 60, 2, 384)]),
    "every other by arrival": (
        sl.per_row(5, every=2, order="arrival"),
        35,
        [(40, 40, 1, 16), (40, 42, 1, 112), (60, 60, 2, 256)],
    ),
    "of the stream": (sl.rows(3, per_key=False), 31, [(40, 42, 1, 112), (50, 61, 1, 512), (50, 61, 2, 384)]),
    "of the stream by arrival": (
        sl.rows(3, per_key=False, order="arrival"),
        None,
        [(28, 41, 1, 56), (42, 60, 1, 64), (42, 60, 2, 384)],
    ),
    "with empty ones": (
        sl.tumbling(10, fill=True),
        40,
        [(40, 50, 1, 112), (50, 60, 1, None), (50, 60, 2, 128), (60, 70, 1, 512), (60, 70, 2, 256)],
    ),
}


@pytest.mark.parametrize("beside", [sl.tumbling(7), sl.rows(1, order="arrival"), sl.rows(5)], ids=repr)
@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_begins_with_the_next_row(name: str, beside: Any) -> None:
    """With ``order="arrival"`` with the one that comes next, otherwise with the first later than all before."""
    window, since, expected = COUNTED[name]
    op = sl.Operator(sl.Spec("t", {"old": beside}, N, by=["k"], watermark=sl.bounded(5)))
    op.push(pa.table({"t": [1, 30, 2], "k": [1, 1, 2], "v": [1, 2, 4]}))
    op.add_window("new", window)
    assert op.complete_from("new") == since
    rows = {"t": [28, 40, 41, 42, 50, 60, 61], "k": [1, 1, 1, 1, 2, 2, 1], "v": [8, 16, 32, 64, 128, 256, 512]}
    found = []
    for part in pa.table(rows).to_batches(max_chunksize=2):
        op = sl.Operator.restore(op.spec, op.snapshot())
        found += op.push(part).windows.to_pylist()
    found += op.flush().windows.to_pylist()
    told = [(w["window_start"], w["window_end"], w["k"], w["total"]) for w in found if w["window"] == "new"]
    assert told == expected


def test_slices_are_not_cut_at_edges_of_windows_that_came_after_them() -> None:
    op = operator(two=sl.tumbling(2))
    push(op, "0:1 98:2 100:4")
    op.add_window("one", sl.tumbling(1))
    op.add_window("other", sl.tumbling(1))
    assert op.complete_from("one") == op.complete_from("other") == 100
    push(op, "99:8 101:16")
    found = [(name, start, total) for name, start, _, total in told(op.flush()) if name != "two"]
    assert found == [("one", 100, 4), ("other", 100, 4), ("one", 101, 16), ("other", 101, 16)]


@pytest.mark.parametrize("beside", [sl.tumbling(100), sl.session(3)])
def test_a_session_that_may_have_begun_before_is_not_whole(beside: Any) -> None:
    op = operator(old=beside)
    push(op, "1:1 5:2")
    op.add_window("visit", sl.session(10))
    assert op.complete_from("visit") == 16
    push(op, "15:4 30:8 40:16")
    op = sl.Operator.restore(op.spec, op.snapshot())
    assert [row for row in told(op.flush()) if row[0] == "visit"] == [("visit", 30, 50, 24)]


@pytest.mark.parametrize("origin", [0, 1_700_000_000_000_000_004, -6_000_000_000_000_000_000])  # multiples of 6
@pytest.mark.parametrize("trigger", [sl.every(2), sl.every(3), sl.after_share(0.5), sl.each_push(), None], ids=repr)
def test_late_rows_that_wait_for_a_trigger_are_in_no_window_that_begins_after_them(
    trigger: sl.Trigger | None, origin: int
) -> None:
    """A slice apart from the store holds the rows at 0 and 2, so it does not tell which are in the window from 1 on."""
    spec = sl.Spec("t", {"w": sl.tumbling(6)}, {"n": sl.count()}, (), sl.manual(), emit="updates", trigger=trigger)
    op = sl.Operator(spec)
    op.push(pa.table({"t": [origin - 2]}))
    op.advance(origin + 3)
    for time in (0, 2):
        op.push(pa.table({"t": [origin + time]}))
    op.add_window("new", sl.tumbling(6, offset=1))
    assert op.complete_from("new") == origin + (2 if trigger is None else 3)
    op.push(pa.table({"t": [origin + 8]}))
    new = [row for row in op.flush().windows.to_pylist() if row["window"] == "new"]
    assert {(row["window_start"], row["n"]) for row in new} == {(origin + 7, 1)}


@pytest.mark.parametrize(("idle", "later", "wanted"), [(None, 50, [(50, 53, 2)]), (3, 3, [(3, 6, 2)])])
def test_the_last_rows_of_an_added_window_may_lack_those_before(idle: Any, later: int, wanted: list) -> None:
    assert last_two(idle, later) == wanted


def test_the_last_rows_of_a_key_that_has_ended_lack_nothing() -> None:
    assert last_two(3, 4) == [(4, 5, 1), (4, 7, 2)]


def last_two(idle: int | None, later: int) -> list[tuple]:
    """Windows of ``last_rows(2)``, added behind a row at 0, of rows at ``later`` and two ticks after."""
    op = sl.Operator(sl.Spec("t", {"ticks": sl.tumbling(1)}, {"n": sl.count()}, watermark=sl.bounded(0), idle=idle))
    op.push(pa.table({"t": [0]}))
    op.add_window("last", sl.last_rows(2, every=1))
    windows = pa.concat_tables([op.push(pa.table({"t": [later, later + 2]})).windows, op.flush().windows])
    return [tuple(row.values())[1:4] for row in windows.to_pylist() if row["window"] == "last"]


@pytest.mark.parametrize("combine", ["eager store", "buckets"])
def test_a_refused_window_leaves_the_operator_as_it_was(combine: str) -> None:
    asked = sl.Spec("t", {"w": sl.sliding(10, 2)}, {"n": sl.count()}, by="k")
    op = sl.Operator(asked, combine=combine)
    with pytest.raises(ValueError, match="takes time windows alone"):
        op.add_window("s", sl.session(5))  # no row has come yet
    op.push(pa.table({"t": [1, 2, 3], "k": ["a", "b", "a"]}))
    for refused in (sl.session(5), sl.tumbling(5, fill=True)):
        with pytest.raises(ValueError, match="takes time windows alone"):
            op.add_window("s", refused)
        assert op.spec == asked
    op = sl.Operator.restore(asked, op.snapshot(), combine=combine)
    assert op.flush().windows.num_rows == 10


def _all_of(window: tuple[str, int, int], low: int, high: int) -> list[tuple[int, int]]:
    """The starts and ends of all windows that lie near these times."""
    kind, size, every = window
    step = size if kind == "cumulate" else every
    starts = range((low - 2 * size) // step * step, high + 1, step)
    ends = range(every, size + 1, every) if kind == "cumulate" else [size]
    return [(start, start + length) for start in starts for length in ends]


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_a_window_between_edges_is_complete_from_when_it_says(emit: str) -> None:
    """Also if it ends, or begins, inside of a slice that holds rows."""
    makers = {
        "tumbling": lambda size, every: sl.tumbling(size),
        "sliding": lambda size, every: sl.sliding(size, every=every),
        "cumulate": lambda size, every: sl.cumulate(size, every=every),
    }
    begun_before = 0
    for number in range(150):
        rng = random.Random(number)
        zero, delay = rng.choice([0, 1_700_000_000_000_000_000, -(2**61)]), rng.choice([3, 10, 20])
        (old, *of_old), new = (
            rng.choice([("tumbling", n, n), ("sliding", n, rng.randint(1, n)), ("cumulate", 3 * m, m)])
            for n, m in ((rng.randint(1, 12), rng.randint(1, 5)) for _ in range(2))
        )
        spec = sl.Spec(
            "t", {"a": makers[old](*of_old)}, {"n": sl.count()}, watermark=sl.bounded(delay), emit=emit,
            allowed_lateness=rng.choice([0, 9]),
        )  # fmt: skip
        newest, times = zero + rng.randint(20, 40), list[int]()
        for _ in range(14):
            times.append(newest - rng.randint(0, delay))
            newest = max(newest, times[-1] + rng.choice([0, 0, 1, 6]))
        op, cut = sl.Operator(spec), rng.randint(1, 8)
        op.push(pa.table({"t": times[:cut]}))
        op.add_window("n", makers[new[0]](*new[1:]))
        outs = [op.push(pa.table({"t": [t]})) for t in times[cut:]]
        since = op.complete_from("n")
        found = Counter[tuple[int, int, int]]()
        for out in [*outs, op.flush()]:
            assert out.stats.late == 0
            for row in out.windows.to_pylist():
                if row["window"] == "n":
                    sign = -1 if row.get("op") == "-" else 1
                    found[row["window_start"], row["window_end"], row["n"]] += sign
        near = _all_of(new, min(times), max(times))
        held = {(start, end, sum(start <= t < end for t in times)) for start, end in near}
        wanted = {(s, e, n) for s, e, n in held if n and s >= since}
        assert {window for window, count in found.items() if count} == wanted, number
        begun_before += any(s <= max(times[:cut]) for s, _, _ in wanted)
    assert begun_before > 20, "windows that began before they were added"


@pytest.mark.parametrize(
    "window", [sl.calendar("1d", tz="Europe/Berlin"), sl.calendar("1mo"), sl.calendar("1w")], ids=repr
)
def test_calendar_windows_are_added_to_a_running_stream(window: object) -> None:
    """Hours of Berlin across the end of summer time: whole days are those from the day of the first slice on."""
    start = datetime(2024, 10, 25, tzinfo=UTC)
    times = [start + timedelta(hours=h) for h in range(24 * 40)]
    op = sl.Operator(sl.Spec("t", {"h": sl.tumbling("1h")}, {"n": sl.count()}, watermark=sl.bounded("36h")))
    op.push(pa.table({"t": pa.array(times[:50], pa.timestamp("us", "UTC"))}))
    op.add_window("d", window)
    outs = [op.push(pa.table({"t": pa.array(times[50:], pa.timestamp("us", "UTC"))})), op.flush()]
    found = {r["window_start"]: r["n"] for out in outs for r in out.windows.to_pylist() if r["window"] == "d"}
    since = op.complete_from("d")
    whole = sl.aggregate(pa.table({"t": pa.array(times, pa.timestamp("us", "UTC"))}), sl.Spec("t", {"d": window}, N1))
    hours = {r["window_start"]: (r["window_end"] - r["window_start"]) // timedelta(hours=1) for r in whole.to_pylist()}
    wanted = {s: sum(s <= t < s + timedelta(hours=h) for t in times) for s, h in hours.items() if s >= since}
    assert found == wanted and len(wanted) > 0


N1 = {"n": sl.count()}


def test_windows_that_are_final_do_not_come_again_after_a_longer_one_was_removed() -> None:
    op = sl.Operator(sl.Spec("t", {"a": sl.tumbling(4), "x": sl.tumbling(40)}, N1, watermark=sl.bounded(0)))
    outs = [op.push(pa.table({"t": list(range(30))}))]
    op.remove_window("x")
    outs += [op.push(pa.table({"t": [30, 31, 40]})), op.push(pa.table({"t": [41, 50]})), op.flush()]
    found = [(row["window_start"], row["n"]) for out in outs for row in out.windows.to_pylist() if row["window"] == "a"]
    assert found == [(start, 4) for start in range(0, 32, 4)] + [(40, 2), (48, 1)]


@pytest.mark.parametrize("window", [sl.session(5), sl.whole()], ids=repr)
@pytest.mark.parametrize("change", ["remove", "add"])
def test_a_window_that_comes_or_goes_beside_one_with_early_results_at_times(window: sl.Window, change: str) -> None:
    """The windows that are left have no edges of their own, only times of early results."""
    windows = {"a": window, "b": sl.tumbling(40)} if change == "remove" else {"a": window}
    some = sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.bounded(3), emit="changes", trigger=sl.every(7))
    op, other = sl.Operator(some), sl.Operator(replace(some, windows={"a": window}))
    start, found, expected = 1_700_000_000_000_000_000, [], []
    for push, times in enumerate([[57, 60, 62, 67], [76], [77, 79, 90], [91, 92, 120]]):
        rows = pa.table({"t": [start + time for time in times]})
        found += op.push(rows).windows.to_pylist()
        expected += other.push(rows).windows.to_pylist()
        if push == 0 and change == "remove":
            op.remove_window("b")
        elif push == 0:
            op.add_window("c", sl.session(50))
        op = sl.Operator.restore(op.spec, op.snapshot())
    found += op.flush().windows.to_pylist()
    expected += other.flush().windows.to_pylist()
    assert [row for row in found if row["window"] == "a"] == expected and len(expected) > 4


@pytest.mark.parametrize("delay", [0, 5, 10])
@pytest.mark.parametrize("window", [sl.cumulate(12, 4), sl.cumulate(24, 4), sl.cumulate(6, 3)], ids=repr)
def test_slices_may_end_at_an_edge_of_a_window_added_before(window: sl.Window, delay: int) -> None:
    """The slice [48, 53) cannot tell which of its rows are in a window that ends at 51 or 52."""
    spec = sl.Spec("t", {"a": sl.tumbling(6)}, {"n": sl.count()}, watermark=sl.bounded(delay))
    op = sl.Operator(spec)
    op.push(pa.table({"t": [16]}))
    op.add_window("b", sl.sliding(5, every=8))
    for t in (51, 55):
        op.push(pa.table({"t": [t]}))
    op.add_window("c", window)
    since, reached = op.complete_from("c"), 55 - delay
    assert since == (49 if delay else 54)
    rows = [51, 55, 57, 62, 70]
    found = [op.push(pa.table({"t": rows[2:]})).windows, op.flush().windows]
    got = [row for row in pa.concat_tables(found).to_pylist() if row["window"] == "c"]
    size, every = window.size.ns if hasattr(window.size, "ns") else window.size, window.every
    wanted = []
    for start in range(48, 72, size):
        ends = range(start + every, start + size + 1, every)
        held = [(start, end, sum(start <= t < end for t in rows)) for end in ends if end > reached]
        wanted += [each for each in held if each[0] >= since and each[2]]
    assert [(row["window_start"], row["window_end"], row["n"]) for row in got] == sorted(wanted, key=lambda w: w[1])


@pytest.mark.parametrize("other", [sl.per_row(3), sl.last_rows(2, every=8), sl.rows(3), sl.tumbling(5)], ids=repr)
def test_a_mark_keeps_the_rows_of_its_time_when_another_window_goes(other: sl.Window) -> None:
    """Rows that were kept one by one become slices, and the mark's own row grows into one."""
    windows = {"p": sl.punctuation("b"), "other": other}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count(), "all": sl.collect("v")}, by="k"))
    rows = [(24, "x", False), (24, "x", True), (25, "y", False), (27, "x", False), (30, "x", True), (40, "x", False)]
    found = []
    for number, (time, key, mark) in enumerate(rows):
        if number == 3:
            op.remove_window("other")
        out = op.push(pa.table({"t": [T0 + time], "k": [key], "b": [mark], "v": [number]}))
        found += [w for w in plain_rows(out.windows) if w["window"] == "p" and w["k"] == "x"]
    assert [(w["window_start"] - T0, w["window_end"] - T0, w["n"], w["all"]) for w in found] == [(24, 30, 3, [0, 1, 3])]


@pytest.mark.parametrize("before", [(9, 8, 9, 6), (6, 8, 9, 9)], ids=str)
@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
@pytest.mark.parametrize("per_key", [True, False])
@pytest.mark.parametrize(("n", "every"), [(1, 1), (1, 2), (3, 1), (2, 5)])
@pytest.mark.parametrize("old", [sl.rows(3), sl.rows(3, order="arrival"), sl.punctuation("b")], ids=repr)
def test_an_added_window_by_arrival_counts_from_the_next_row(
    old: sl.Window, n: int, every: int, per_key: bool, by: list[str], before: tuple[int, ...]
) -> None:
    """Rows that wait for the watermark came before it."""
    spec = sl.Spec("t", {"old": old}, {"all": sl.collect("t")}, by=by, watermark=sl.bounded(4))

    def table(*times: int) -> pa.Table:
        found = pa.table({"t": pa.array([T0 + t for t in times], pa.int64())})
        return found.append_column("k", pa.array(["x"] * len(times), pa.string())).append_column(
            "b", pa.array([False] * len(times), pa.bool_())
        )

    op = sl.Operator(spec)
    op.push(table(*before))
    new = sl.rows(n, every, order="arrival", per_key=per_key)
    op.add_window("new", new)
    alone = sl.Operator(replace(spec, windows={"new": new}))
    alone.advance(T0 + 5)
    wanted, found = list[dict[str, Any]](), list[dict[str, Any]]()
    for push in ((), (10, 11, 12), (9,), (20, 19, 21), (30,)):
        found += plain_rows(op.push(table(*push)).windows)
        wanted += plain_rows(alone.push(table(*push)).windows)
    found, wanted = found + plain_rows(op.flush().windows), wanted + plain_rows(alone.flush().windows)
    assert wanted
    assert [w for w in found if w["window"] == "new"] == wanted


@pytest.mark.parametrize("base", [0, 2**61 - 10**10, 2**61 + 10**10, 4_000_000_020 * 10**9])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_added_window_is_whole_from_then_on_at_any_time(base: int, sign: int) -> None:
    base = sign * base - sign * base % 30
    data = pa.table({"t": [base + t for t in (0, 6, 7, 8, 9)]})
    op = sl.Operator(sl.Spec("t", {"old": sl.tumbling(5, offset=1)}, {"n": sl.count()}, watermark=sl.manual()))
    op.push(data)
    op.add_window("new", sl.cumulate(6, every=3))
    since = op.complete_from("new")
    more = pa.table({"t": [base + t for t in (7, 8, 13, 19)]})
    op.push(more)
    found = [w for w in plain_rows(op.flush().windows) if w["window"] == "new" and w["window_start"] >= since]
    spec = sl.Spec("t", {"new": sl.cumulate(6, every=3)}, {"n": sl.count()})
    wanted = plain_rows(sl.aggregate(pa.concat_tables([data, more]), spec))
    assert since == base + 7
    assert found == [w for w in wanted if w["window_start"] >= since] and found


def test_an_added_window_over_all_keys_goes_on_counting_when_its_first_rows_are_gone() -> None:
    """A late row may come to it in a look that sees none of its final rows."""
    new, asked = sl.rows(1, per_key=False), {"by": ["k"], "allowed_lateness": 3, "emit": "changes"}
    spec = sl.Spec("t", {"old": sl.frame("b", "b")}, {"c": sl.collect("t")}, watermark=sl.manual(), **asked)
    op = sl.Operator(spec)

    def ranks(*rows: tuple[int, str]) -> list[tuple[int, str, int]]:
        columns = {"t": [T0 + t for t, _ in rows], "k": [k for _, k in rows], "b": [False] * len(rows)}
        out = plain_rows(op.push(pa.table(columns)).windows) if rows else plain_rows(op.flush().windows)
        return [
            (w["window_start"] - T0, w["k"], w["rank_start"]) for w in out if w["window"] == "new" and w["op"] == "+"
        ]

    ranks((0, "a"), (9, "b"))
    op.advance(T0 + 9)
    op.add_window("new", new)
    op.advance(T0 + 15)
    found = ranks((20, "a"))
    op.advance(T0 + 24)
    found += ranks((25, "a"), (24, "c"), (23, "d"), (25, "b")) + ranks((24, "c"))
    found += ranks()
    assert found == [(23, "d", 1), (24, "c", 2), (24, "c", 3), (25, "a", 4), (25, "b", 5)]
