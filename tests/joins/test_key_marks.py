"""Marks of keys: no more rows of a key before a time (random cases are in test_join_random.py)."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.joins import repartition
from slicing.joins.exchange import operator_of, state_of


def left(*times: int, k: list | None = None) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "k": ["a"] * len(times) if k is None else k})


def right(*times: int, k: list | None = None) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "key": ["a"] * len(times) if k is None else k})


def spec(**given: object) -> sl.JoinSpec:
    asked = {"on": [("k", "key")], "time": "t", "within": (0, 10), "how": "left", "watermark": sl.manual()}
    return sl.JoinSpec(**(asked | given))


def test_a_mark_frees_the_other_sides_rows_of_that_key() -> None:
    op = sl.JoinOperator(spec())
    op.push(left(100, 100, k=["a", "b"]), right(1)[:0])
    out = op.advance(right_marks=right(111))
    assert out.rows.to_pylist() == [{"t": 100, "k": "a", "t_right": None, "key": None}]
    assert out.stats.held == 1 and out.watermark is None
    op.push_right(right(105, k=["b"]))
    assert op.advance(left_marks=left(106, k=["b"])).stats.held == 1
    assert op.flush().rows.num_rows == 0


def test_a_row_that_had_left_does_not_leave_again_by_the_mark_of_its_key() -> None:
    """Rows with a partner stay in their run for a while, as they are few."""
    op = sl.JoinOperator(spec(how="anti"))
    op.push(left(*range(100, 108), 200, k=["a"] * 8 + ["b"]), right(90))
    assert op.push_right(right(100)).stats.held == 10, "the left row at 100 has left, and both right rows are kept"
    out = op.advance(right_marks=right(None))
    assert out.rows["t"].to_pylist() == list(range(101, 108)) and out.stats.held == 3


def test_rows_before_the_mark_of_their_key_are_late() -> None:
    op = sl.JoinOperator(spec())
    op.push(left(1)[:0], right(1)[:0])
    op.advance(left=50, left_marks=left(100, 40, k=["a", "b"]))
    op = pickle.loads(pickle.dumps(op))
    out = op.push_left(left(99, 100, 49, 50, k=["a", "a", "b", "b"]))
    assert out.late_left["t"].to_pylist() == [99, 49] and out.stats.late_left == 2 and out.stats.held == 2
    op.advance(left_marks=left(90))  # marks never go back
    assert op.push_left(left(99)).stats.late_left == 1
    assert op.advance(left=200).stats.held == 2
    assert op.push_left(left(150, 250)).late_left["t"].to_pylist() == [150]


def test_a_null_time_says_that_no_more_rows_come_at_all() -> None:
    op = sl.JoinOperator(spec(within=(None, 0), match="last"))
    op.push(left(10), right(5, 6, k=["a", "b"]))
    out = op.advance(right=5, left_marks=left(None))
    assert out.stats.held == 3  # the row that waits may take it
    assert op.advance(right=11).rows["t_right"].to_pylist() == [5]
    assert op.push_left(left(10**15)).stats.late_left == 1
    out = op.push_right(right(20))
    assert out.stats.held == 1 and out.stats.late_right == 0  # that of b


def test_rows_carry_the_marks_of_their_keys() -> None:
    op = sl.JoinOperator(spec(watermark=(sl.manual(), sl.punctuated("done", by=["key"]))))
    op.push_left(left(100, 100, k=["a", "b"]))
    rows = right(101, 50, k=["b", "a"]).append_column("done", pa.array([None, 150], pa.int64()))
    out = op.push_right(rows)
    assert [(row["k"], row["t_right"]) for row in out.rows.to_pylist()] == [("b", 101), ("a", None)]
    assert op.push_right(rows).late_right["t"].to_pylist() == [50]
    flags = right(120).append_column("done", pa.array([True]))
    op = sl.JoinOperator(spec(watermark=(sl.manual(), sl.punctuated("done", by=["key"]))))
    op.push_left(left(100))
    assert op.push_right(flags).rows.num_rows == 1


@pytest.mark.parametrize("text", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_rows_with_any_form_of_text_carry_marks(text: pa.DataType) -> None:
    op = sl.JoinOperator(spec(watermark=(sl.manual(), sl.punctuated("done", by=["key"]))))
    texts, at = pa.array(["a", "b"], text), 1_700_000_000_000_000_000
    op.push_left(pa.table({"t": [at + 1, at + 1], "k": texts, "note": texts}))
    out = op.push_right(pa.table({"t": [at + 20, at + 3], "key": texts, "note": texts, "done": [True, None]}))
    assert out.rows.select(["t", "t_right"]).to_pylist() == [
        {"t": at + 1, "t_right": at + 3},
        {"t": at + 1, "t_right": None},
    ]


def test_rows_that_wait_to_be_joined_are_not_left_behind_by_marks() -> None:
    found = []
    for most in (None, 1):
        op, rows = sl.JoinOperator(spec(within=(10, 10)), max_rows_per_push=most), []
        rows += op.push(left(100, 101, 102), right(103, 103, 104, 104)).rows.to_pylist()
        rows += op.push_right(right(105, 105, 106, 106)).rows.to_pylist()
        rows += op.advance(left_marks=left(200), right_marks=right(200)).rows.to_pylist()
        while (out := op.advance()).stats.pending:
            rows += out.rows.to_pylist()
        rows += out.rows.to_pylist()
        found.append(Counter(map(str, rows)))
        assert out.stats.held == 0
    assert found[0] == found[1] and found[0].total() == 24


def test_marks_of_keys_without_rows_are_kept_and_forgotten() -> None:
    op = sl.JoinOperator(spec())
    op.push(left(1)[:0], right(1)[:0])
    sizes = []
    for step in range(40):
        keys = [f"{step} {number}" for number in range(1000)]
        op.advance(left=10 * step, left_marks=left(*[10 * step + 5] * 1000, k=keys))
        sizes.append(op.advance().stats.bytes)
    assert max(sizes[20:]) < 2 * max(sizes[5:10])


def test_marks_of_keys_complete_labels_and_let_events_go() -> None:
    mark = sl.punctuated("done", by=["k"])
    asked = {"on": "k", "time": "t", "ranges": {"r": 10}, "aggs": {"n": sl.count()}, "watermark": (sl.manual(), mark)}
    op = sl.FeatureOperator(sl.FeatureSpec(**asked))
    op.push_labels(left(100, 100, k=["a", "b"]))
    done = pa.array([None, 100, 99], pa.int64())
    out = op.push_events(left(95, 96, 97, k=["a", "a", "b"]).append_column("done", done))
    assert out.rows.to_pylist() == [{"t": 100, "k": "a", "n_r": 2}] and out.stats.waiting == 1
    op = pickle.loads(pickle.dumps(op))
    late = op.push_events(left(99, 99, k=["a", "b"]).append_column("done", done[:1].take([0, 0])))
    assert late.late_events["k"].to_pylist() == ["a"] and late.stats.kept == 4
    assert op.advance(labels_marks=left(106, k=["a"])).stats.kept == 3  # 96 is in reach of a label of 106
    out = op.advance(labels_marks=left(None), events_marks=left(None, k=["b"]))
    assert out.rows["n_r"].to_pylist() == [2] and out.stats.kept == 2  # labels of b may come


def test_units_of_both_sides_may_differ() -> None:
    def side(unit: str, name: str, *times: int) -> pa.Table:
        return pa.table({"t": pa.array(times, pa.timestamp(unit)), name: pa.array(["a"] * len(times), pa.string())})

    op = sl.JoinOperator(spec(within=("0s", "10s")))
    op.push_left(side("s", "k", 100))
    op.push_right(side("ms", "key"))
    assert op.advance(right_marks=side("ms", "key", 110_000)).rows.num_rows == 0
    assert op.advance(right_marks=side("ms", "key", 110_001)).rows.num_rows == 1


def test_what_is_refused() -> None:
    op = sl.JoinOperator(spec())
    with pytest.raises(ValueError, match="marks of keys need the columns of the rows; push some first"):
        op.advance(left_marks=left(5))
    op.push_left(left(1))
    with pytest.raises(ValueError, match="right_marks came before the first rows of the right side"):
        op.advance(right_marks=right(5))
    with pytest.raises(TypeError, match="left_marks: key column 'k' has type int64; it must be string, as in the rows"):
        op.advance(left_marks=left(5, k=[1]))
    with pytest.raises(TypeError, match=r"left_marks: time column 't' has type double; it must be int64"):
        op.advance(left_marks=pa.table({"t": [1.0], "k": ["a"]}))
    with pytest.raises(ValueError, match="left_marks marks keys"):
        nobody = sl.JoinOperator(spec(on=[]))
        nobody.push_left(left(1))
        nobody.advance(left_marks=left(5))
    with pytest.raises(ValueError, match="marks keys of x; by must name the key columns: k"):
        sl.JoinOperator(spec(watermark=(sl.punctuated("m", by="x"), None))).push_left(
            left(1).append_column("m", [[1]]).append_column("x", [[1]])
        )
    with pytest.raises(TypeError, match="punctuated's by must be a list of column names; got 5"):
        sl.punctuated("m", by=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_marks_go_with_their_keys_when_a_state_is_taken_apart(parts: int) -> None:
    """Rows are as late, and leave as early, as in the join that stayed whole; also after all is put together again."""
    base, names = 1_700_000_000_000_000_000, [f"k{number}" for number in range(12)]
    whole = sl.JoinOperator(spec())
    whole.push(left(*[base] * 12, k=names), right(base, k=["k0"])[:0])
    of_left = left(*range(base + 50, base + 56), None, k=["k9", "k3", "k5", "new", "k1", "k7", "k2"])
    whole.advance(left_marks=of_left, right_marks=right(base + 5, base + 11, k=["k4", "k6"]))
    state = state_of(whole)
    apart = repartition.split(state, parts)
    assert sum(len(part.keys) for part in apart) == len(state.keys)
    assert [sum(len(part.by_key[side]) for part in apart) for side in (0, 1)] == [7, 2]
    again = repartition.joined(apart[::-1])
    operators = [operator_of(whole.spec, part) for part in apart]
    rows = left(*[base + 52] * 13, k=[*names, "new"])
    places = [part.keys.values(np.arange(len(part.keys)))[0].to_pylist() for part in apart]
    found = []
    for op, mine in zip(operators, places, strict=True):
        some = rows.filter(pa.array([key in mine for key in rows["k"].to_pylist()]))
        out = op.push_left(some)
        found += out.late_left["k"].to_pylist()
        assert op.advance(right_marks=right(*[base + 63] * 13, k=[*names, "new"])).stats.held == 0
    together = operator_of(whole.spec, again).push_left(rows)
    expected = whole.push_left(rows).late_left["k"].to_pylist()
    assert sorted(found) == sorted(together.late_left["k"].to_pylist()) == sorted(expected) == ["k1", "k2", "k7", "new"]


def test_a_mark_before_all_times_of_the_other_sides_unit_makes_no_row_late() -> None:
    def times(unit: str, *seconds: int) -> pa.Array:
        return pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit))

    op = sl.JoinOperator(sl.JoinSpec("k", "t", ("0s", "2s"), watermark=sl.manual()))
    op.push_left(pa.table({"t": times("s", 5), "k": ["b"]}))
    op.advance(left_marks=pa.table({"t": pa.array([datetime(1, 1, 1)], pa.timestamp("s")), "k": ["a"]}))
    op.push_right(pa.table({"t": times("ns", 5), "k": ["a"]}))
    out = op.push_left(pa.table({"t": times("s", 5), "k": ["a"]}))
    assert (out.rows.num_rows, out.late_left.num_rows) == (1, 0)
