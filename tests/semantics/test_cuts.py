"""Early results at cuts, marks and ends of sessions: which rows they hold, and when they are taken back (random cases
are in test_triggers.py)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.policy import DEFAULT

START = 1_680_000_000_000_000_000  # nanoseconds since 1970; all windows here begin at it


def table(columns: dict) -> pa.Table:
    """A table of times since ``START``, and of other columns."""
    return pa.table(columns | {"t": pa.array([START + time for time in columns["t"]], pa.int64())})


@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_panes_at_cuts_that_slices_are_fused_across(emit: str) -> None:
    spec = sl.Spec(
        "t",
        {"w": sl.tumbling(100)},
        {"n": sl.count()},
        by="k",
        emit=emit,
        trigger=sl.every(10),
        watermark=sl.bounded(0),
    )
    found = []
    for policy in (DEFAULT, replace(DEFAULT, fused_cells=0)):
        op, rows = sl.Operator(spec, policy=policy), []
        for times in ([1, 2], [12, 25], [26, 37, 58], [99, 120]):
            rows.append(op.push(table({"t": times, "k": ["a"] * len(times)})).windows.to_pylist())
        found.append([*rows, op.flush().windows.to_pylist()])
    assert found[0] == found[1]
    counts = [row["n"] for row in found[0][2] if row.get("op") != "-"]
    assert counts == [5, 6]


def test_a_row_behind_a_watermark_that_is_a_cut_is_not_in_what_that_cut_gave() -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(100)}, {"n": sl.count()}, emit="changes", trigger=sl.every(10), watermark=sl.bounded(0)
    )
    op = sl.Operator(spec)
    found = [op.push(table({"t": times})).windows.to_pylist() for times in ([1, 10], [5], [25])]
    assert [[(row["op"], row["n"]) for row in rows] for rows in found] == [[("+", 1)], [], [("-", 1), ("+", 3)]]


def changes(out) -> list:
    return [(row["op"], row["n"]) for row in out.windows.to_pylist() if row.get("window", "w") == "w"]


def test_a_late_row_alone_is_news_at_the_next_cut() -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(100)}, {"n": sl.count()}, emit="changes", trigger=sl.every(10), watermark=sl.manual()
    )
    op = sl.Operator(spec)
    op.push(table({"t": [1]}))
    found = [op.advance(START + 10), op.push(table({"t": [5]})), op.advance(START + 19), op.advance(START + 20)]
    assert [changes(out) for out in found] == [[("+", 1)], [], [], [("-", 1), ("+", 2)]]


@pytest.mark.parametrize("by_hand", [False, True])
def test_late_rows_before_and_at_a_cut_stay_apart(by_hand: bool) -> None:
    windows = {"w": sl.tumbling(20), "h": sl.tumbling(20)}
    trigger = {"w": sl.after_share(0.5)} | ({"h": sl.by_hand()} if by_hand else {})
    spec = sl.Spec("t", windows, {"n": sl.count()}, emit="changes", trigger=trigger, watermark=sl.manual())
    op = sl.Operator(spec)
    op.push(table({"t": [1]}))
    op.advance(START + 9)
    op.push(table({"t": [5]}))
    found = [op.advance(START + 10), op.push(table({"t": [6]}))]
    if by_hand:
        found.append(op.fire("h"))
    found.append(op.advance(START + 20))
    assert [changes(out) for out in found if changes(out)] == [[("+", 2)], [("-", 2), ("+", 3)]]


def test_a_late_row_alone_is_news_at_the_next_cut_although_other_windows_end_before_it() -> None:
    spec = sl.Spec(
        "t",
        {"w": sl.tumbling(100), "f": sl.tumbling(5)},
        {"n": sl.count()},
        emit="changes",
        trigger={"w": sl.every(10)},
        watermark=sl.manual(),
    )
    op = sl.Operator(spec)
    op.push(table({"t": [1, 12]}))
    found = [
        op.advance(START + 11),
        op.push(table({"t": [5]})),
        op.advance(START + 15),
        op.push(table({"t": [3]})),
        op.advance(START + 16),
    ]
    found += [op.advance(START + 20), op.push(table({"t": [13]})), op.advance(START + 25), op.advance(START + 30)]
    expected = [[("+", 1)], [], [], [], [], [("-", 1), ("+", 4)], [], [], [("-", 4), ("+", 5)]]
    assert [changes(out) for out in found] == expected


def test_keys_with_news_since_an_earlier_firing_are_reported_too() -> None:
    """Two triggers by hand that fire in turns: few keys have news among many."""
    windows, keys = {"w": sl.tumbling(100), "h": sl.tumbling(100)}, [f"k{n}" for n in range(100)]
    spec = sl.Spec("t", windows, {"n": sl.count()}, by="k", emit="updates", trigger=sl.by_hand(), watermark=sl.manual())
    op = sl.Operator(spec)
    op.push(table({"t": [1] * 100, "k": keys}))
    op.fire()
    op.push(table({"t": [2], "k": ["k3"]}))
    assert op.fire("h").windows["k"].to_pylist() == ["k3"]
    op.push(table({"t": [2], "k": ["k5"]}))
    assert sorted(op.fire("w").windows["k"].to_pylist()) == ["k3", "k5"]
    assert op.fire("h").windows["k"].to_pylist() == ["k5"]


def test_what_was_reported_at_marks_stays_that_of_its_key_when_keys_are_forgotten() -> None:
    spec = sl.Spec(
        "t",
        {"w": sl.session(1000)},
        {"n": sl.count()},
        by="k",
        emit="changes",
        trigger=sl.on_punctuation("m"),
        watermark=sl.bounded(0),
    )
    op, found = sl.Operator(spec), []
    for step in range(60):
        others = [f"{step} {n}" for n in range({0: 700, 30: 500}.get(step, 0))]
        keys, marks = [*others, "y", "z"], [*[False] * len(others), False, step % 5 == 4]
        out = op.push(table({"t": [100 * step] * len(keys), "k": keys, "m": marks})).windows
        found += [(row["op"], row["n"]) for row in out.to_pylist() if row["k"] == "z"]
    assert len(op._state.keys) < 1000, "keys that are gone are forgotten"
    expected = [("+", 5)]
    for n in range(10, 56, 5):
        expected += [("-", n - 5), ("+", n)]
    assert found == expected


def test_a_session_is_taken_back_when_the_watermark_has_passed_its_end() -> None:
    spec = sl.Spec(
        "t", {"w": sl.session(5)}, {"n": sl.count()}, watermark=sl.manual(), emit="changes", trigger=sl.each_push()
    )
    op = sl.Operator(spec)
    outs = [op.push(table({"t": [1]})), op.advance(START + 6), op.advance(START + 7)]
    found = [[(row["op"], row["n"]) for row in out.windows.to_pylist()] for out in outs]
    assert found == [[("+", 1)], [], [("-", 1), ("+", 1)]]


def told(*outs: sl.Output) -> list[list[tuple]]:
    return [
        [(row["op"], row["window_start"] - START, row["window_end"] - START) for row in out.windows.to_pylist()]
        for out in outs
    ]


def sessions(trigger: sl.Trigger, lateness: int = 0) -> sl.Operator:
    windows, told = {"w": sl.session(5)}, {"emit": "changes", "trigger": trigger, "allowed_lateness": lateness}
    return sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.manual(), **told))


def pushed(op: sl.Operator, *times: int, marks: tuple[int, ...] = ()) -> sl.Output:
    return op.push(table({"t": times, "m": [time in marks for time in times]}))


def test_a_session_is_open_at_its_end() -> None:
    op = sessions(sl.by_hand())
    outs = [op.push(table({"t": [1]})), op.fire(), op.advance(START + 6), op.advance(START + 7)]
    assert told(*outs) == [[], [("+", 1, 6)], [], [("-", 1, 6), ("+", 1, 6)]]


def test_a_session_is_fired_at_its_end() -> None:
    op = sessions(sl.by_hand())
    outs = [op.push(table({"t": [1]})), op.advance(START + 6), op.fire(), op.advance(START + 7)]
    assert told(*outs) == [[], [], [("+", 1, 6)], [("-", 1, 6), ("+", 1, 6)]]


def test_a_session_that_ends_at_a_cut_is_not_reported_there() -> None:
    op = sessions(sl.every(6))
    outs = [op.push(table({"t": [1]})), op.advance(START + 6), op.advance(START + 7)]
    assert told(*outs) == [[], [], [("+", 1, 6)]]


def test_results_have_come_up_to_the_end_of_a_report_that_is_taken_back_later() -> None:
    op = sessions(sl.by_hand())
    outs = [
        pushed(op, 1),
        op.advance(START + 4),
        op.fire(),
        pushed(op, 5),
        op.advance(START + 6),
        op.advance(START + 9),
        op.advance(START + 11),
    ]
    assert told(*outs) == [[], [], [("+", 1, 6)], [], [], [], [("-", 1, 6), ("+", 1, 10)]]
    assert [out.progress["window_end"] - START for out in outs[1:]] == [4, 4, 4, 6, 6, 11]


def test_results_have_come_up_to_the_end_of_a_report_at_a_mark_that_is_taken_back_later() -> None:
    """What an output says of it stays the same when the stream goes on."""
    op = sessions(sl.on_punctuation("m"))
    outs = [
        pushed(op, 1, marks=(1,)),
        op.advance(START + 4),
        pushed(op, 5),
        op.advance(START + 6),
        op.advance(START + 9),
        op.advance(START + 11),
    ]
    assert told(*outs) == [[], [("+", 1, 6)], [], [], [], [("-", 1, 6), ("+", 1, 10)]]
    assert [out.progress["window_end"] - START for out in outs[1:]] == [4, 4, 6, 6, 11]


def test_a_report_at_a_mark_is_taken_back_once_while_late_rows_may_come() -> None:
    op = sessions(sl.on_punctuation("m"), 10)
    outs = [
        pushed(op, 1, marks=(1,)),
        op.advance(START + 4),
        op.advance(START + 7),
        op.advance(START + 9),
        pushed(op, 3, marks=(3,)),
    ]
    outs += [op.advance(START + 12), op.flush()]
    wanted = [[], [("+", 1, 6)], [("-", 1, 6), ("+", 1, 6)], [], [("-", 1, 6), ("+", 1, 8)], [], []]
    assert told(*outs) == wanted


def test_a_row_at_whose_session_end_the_watermark_is_joins_no_report_at_a_mark() -> None:
    """It is in time for the longer session alone."""
    windows, told = {"a": sl.session(5), "b": sl.session(20)}, {"emit": "changes", "trigger": sl.on_punctuation("m")}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.manual(), **told))
    op.advance(START + 11)
    outs = [pushed(op, 6), pushed(op, 11, marks=(11,)), op.advance(START + 12)]
    rows = [row for out in outs for row in out.windows.to_pylist()]
    assert [(row["window"], row["window_start"] - START, row["n"]) for row in rows] == [("a", 11, 1), ("b", 6, 2)]


def test_a_session_is_not_taken_back_by_a_row_that_moves_the_watermark_to_its_end() -> None:
    windows, told_ = {"w": sl.session(5)}, {"emit": "changes", "trigger": sl.each_push()}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.bounded(14), **told_))
    outs = [op.push(table({"t": [time]})) for time in (1, 20, 21)]
    assert told(*outs)[:2] == [[("+", 1, 6)], [("+", 20, 25)]]
    assert sorted(told(*outs)[2]) == [("+", 1, 6), ("+", 20, 26), ("-", 1, 6), ("-", 20, 25)]


@pytest.mark.parametrize("passed", [False, True], ids=["rows that wait", "reports"])
def test_texts_of_panes_at_marks_stay_when_others_are_forgotten(passed: bool) -> None:
    """The cells of the window itself hold its least and its greatest text alone."""
    spec = sl.Spec(
        "t",
        {"w": sl.tumbling(10)},
        {"most": sl.max("s")},
        watermark=sl.manual(),
        emit="changes",
        trigger=sl.on_punctuation("m"),
    )
    op = sl.Operator(spec)

    def push(time: int, *texts: str) -> None:
        op.push(table({"t": [time] * len(texts), "s": texts, "m": [False] * len(texts)}))

    op.push(table({"t": [100, 100, 101], "s": ["aaa", "mmm", "zzz"], "m": [False, True, False]}))
    outs = [op.advance(START + 101)] if passed else []
    for at in range(4):
        push(102 if passed else 1, *(f"{at} {number:06}" for number in range(20_000)))
    outs += [op.advance(START + (103 if passed else 50))]
    for at in range(4):
        push(104 if passed else 60, f"n{at}")
    outs += [op.advance(START + 110), op.flush()]
    found = [
        (row["op"], row["most"])
        for out in outs
        for row in out.windows.to_pylist()
        if row["window_start"] == START + 100
    ]
    assert found == [("+", "mmm"), ("-", "mmm"), ("+", "zzz")]
