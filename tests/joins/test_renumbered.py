"""Joins and features: what is renumbered, scaled, forgotten or put together stays that of its rows and keys."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.joins import repartition
from slicing.joins.exchange import Spread, operator_of, state_of
from slicing.joins.within import LEFT, RIGHT

START = 1_680_000_000_000_000_000  # nanoseconds since 1970; slices of features begin at it


def table(columns: dict) -> pa.Table:
    """A table of times since ``START``, and of other columns."""
    return pa.table(columns | {"t": pa.array([START + time for time in columns["t"]], pa.int64())})


def seconds(unit: str, *times: int, **more: list) -> pa.Table:
    at = pa.array([1_700_000_000 + time for time in times], pa.timestamp("s")).cast(pa.timestamp(unit))
    return pa.table({"t": at} | more)


def test_rows_without_a_key_come_once_beside_rows_that_wait() -> None:
    spec = sl.JoinSpec(on=["k"], time="t", within=(0, 10), how="left")
    op = sl.JoinOperator(spec, max_rows_per_push=1)
    op.push_right(table({"k": ["a", "a"], "t": [1, 2], "r": [1, 2]}))
    outs = [op.push_left(table({"k": ["a", None, "a", "a"], "t": [0, 0, 0, 0], "l": [1, 2, 3, 4]}))]
    while outs[-1].stats.pending:
        outs.append(op.advance())
    outs.append(op.flush())
    found = sorted((row["l"], row["r"] or 0) for out in outs for row in out.rows.to_pylist())
    assert found == [(1, 1), (1, 2), (2, 0), (3, 1), (3, 2), (4, 1), (4, 2)]


def test_rows_that_waited_for_columns_of_a_finer_unit_come_in_order_of_time() -> None:
    """A row without a key waits for the right columns; another one is alone as soon as these are known."""
    spec = sl.JoinSpec(on=["k"], time="t", within=("0s", "2s"), how="left", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push_left(seconds("s", 90, 10, k=[None, "a"], l=[1, 2]))
    op.advance(right=datetime(2023, 11, 14, 22, 14, 20))  # 60 s
    rows = op.push_right(seconds("ns", 100, k=["b"], r=[1])).rows
    assert rows["l"].to_pylist() == [2, 1]


def test_rows_that_fail_where_are_known_in_each_push_before_the_left_columns() -> None:
    spec = sl.JoinSpec("k", "t", (None, 0), match="last", how="left", where=sl.col("y") == 1, watermark=sl.bounded(0))
    op = sl.JoinOperator(spec)
    op.push_right(table({"t": [1], "k": ["a"], "y": [1]}))
    op.push_right(table({"t": [2], "k": ["a"], "y": [0]}))
    op.advance(left=START + 5)
    found = [*op.push_left(table({"t": [15], "k": ["a"], "x": [0]})).rows.to_pylist(), *op.flush().rows.to_pylist()]
    assert [(row["t"], row["t_right"]) for row in found] == [(START + 15, START + 1)]


def test_the_watermark_stays_while_rows_of_a_finer_unit_wait() -> None:
    spec = sl.JoinSpec(on=["k"], time="t", within=("0s", "2s"), watermark=sl.manual())
    op = sl.JoinOperator(spec, max_rows_per_push=1)
    op.push_left(seconds("s", 30, 30, k=["a", "a"]))
    moment = datetime(2023, 11, 14, 22, 13, 50)
    before = op.advance(left=moment, right=moment).watermark
    out = op.push_right(seconds("us", 30, 30, 30, k=["a", "a", "a"]))
    assert out.stats.pending and before is not None and out.watermark == before


def test_keys_of_slices_are_not_forgotten() -> None:
    spec = sl.FeatureSpec(
        "k", "t", ranges={"d": 1 << 20}, tail={"d": 1 << 10}, aggs={"n": sl.count()}, watermark=sl.manual()
    )
    op = sl.FeatureOperator(spec)
    none = table({"t": [], "k": pa.array([], pa.string())})
    op.push(none, table({"t": [1, 2, 3], "k": ["x", "a", "a"]}))
    for at in range(3):
        many = table({"t": [10_000 * (at + 1)] * 5000, "k": [f"{at} {n}" for n in range(5000)]})
        op.push(many, none)
        out = op.advance(labels=START + 10_000 * (at + 1) + 5000, events=START + 10_000 * (at + 1) + 5000)
    assert out.stats.slices and not out.stats.kept
    assert len(op._state.keys) < 6000, "keys that are gone are forgotten"
    found = (
        op.push(table({"t": [50_000, 50_000], "k": ["a", "x"]}), none).rows.to_pylist() + op.flush().rows.to_pylist()
    )
    assert [row["n_d"] for row in found] == [2, 1]


def test_a_row_that_had_a_partner_and_comes_behind_others_is_known_after_rows_are_numbered_anew() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(0, 5), how="full", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    left = table({"t": [*range(10_000), 10**6], "a": range(10_001)})
    right = table({"t": [*range(20_000, 30_000), 10**6], "b": range(10_001)})
    assert op.push(left, right).rows.num_rows == 1
    out = op.advance(left=START + 50_000, right=START + 50_000)
    assert out.rows.num_rows == 20_000 and out.stats.held == 2 and out.stats.bytes < 2000
    assert op.flush().rows.num_rows == 0


def test_marks_stay_those_of_their_keys_when_other_keys_are_forgotten() -> None:
    """A key with a mark is not, although it has no rows."""
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), how="inner", watermark=sl.manual()))
    rows = table({"t": [1, 1], "k": ["p", "q"]})
    op.push(rows, rows)
    op.advance(left_marks=table({"t": [100_000], "k": ["q"]}))
    op.advance(left=START + 10, right=START + 10)
    for number in range(1, 6):
        many = table({"t": [100 * number] * 5000, "k": [f"k{number}_{i}" for i in range(5000)]})
        op.push(many, many)
        op.advance(left=START + 100 * number + 50, right=START + 100 * number + 50)
    assert len(op._state.keys) < 25_000, "keys that are gone are forgotten"
    again = op.push_left(table({"t": [50_000, 50_000, 50_000], "k": ["q", "p", "new"]}))
    assert again.late_left["k"].to_pylist() == ["q"]


def rows_of(*rows: tuple, **names: str) -> pa.Table:
    """Rows of a key, a time since ``START`` and a value."""
    columns = ("k", "t", names.get("value", "v"))
    types = pa.string(), pa.int64(), pa.int64()
    rows = tuple((row[0], START + row[1], row[2]) for row in rows)
    return pa.table([pa.array([row[at] for row in rows], type) for at, type in enumerate(types)], names=columns)


def test_a_mark_of_a_left_key_lets_go_right_rows_that_later_ones_follow() -> None:
    spec = sl.JoinSpec("k", "t", (None, 0), match="last", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push(rows_of(), rows_of(("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("b", 2, 4), value="r"))
    assert op.advance(left=START).stats.held == 4
    assert op.advance(left_marks=table({"k": ["a"], "t": [10]})).stats.held == 3
    op.push_left(rows_of(("a", 10, 1), ("b", 1, 2)))
    assert sorted(op.flush().rows["r"].to_pylist()) == [2, 3]


def test_rows_without_a_key_that_wait_are_in_a_snapshot() -> None:
    spec = sl.JoinSpec("k", "t", (0, 10), how="full", watermark=sl.manual())
    op = sl.JoinOperator(spec, max_rows_per_push=1)
    op.push_right(rows_of(("a", 1, 1), ("a", 2, 2), value="r"))
    outs = [op.push(rows_of(("a", 0, 1), ("a", 1, 2)), rows_of((None, 5, 3), ("a", 6, 4), value="r"))]
    assert outs[0].stats.pending
    op = sl.JoinOperator.restore(spec, op.snapshot(), max_rows_per_push=1)
    while outs[-1].stats.pending:
        outs.append(op.advance())
    outs.append(op.flush())
    found = [(row["v"], row["r"]) for out in outs for row in out.rows.to_pylist()]
    assert sorted(found, key=str) == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (None, 3)]


def put_together(op: sl.JoinOperator, parts: int) -> sl.JoinOperator:
    return operator_of(op.spec, repartition.joined(repartition.split(state_of(op), parts)))


def test_rows_that_had_partners_are_known_when_states_are_put_together() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 10), how="full", watermark=sl.manual()))
    names = [f"k{number}" for number in range(10)]
    op.push(rows_of(*((k, 1, 1) for k in names)), rows_of(*((k, 1, 2) for k in names[::2]), value="r"))
    found = put_together(op, 3).flush().rows
    assert sorted(found["k"].to_pylist()) == names[1::2] and found["r"].null_count == 5


def test_the_sequence_of_rows_is_known_when_states_are_put_together() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (None, 0), match="last", sequence="s", watermark=sl.manual()))
    names = [f"k{number}" for number in range(10)]
    op.push(rows_of(), rows_of(*((k, 1, s) for k in names for s in (2, 1)), value="s"))
    op = put_together(op, 3)
    op.push_left(rows_of(*((k, 5, 1) for k in names)))
    assert op.flush().rows["s"].to_pylist() == [2] * 10


@pytest.mark.parametrize("closed", ["left", "right"])
def test_a_mark_of_labels_lets_go_the_events_that_their_watermark_does(closed: str) -> None:
    spec = sl.FeatureSpec("k", "t", {"d": 10}, {"n": sl.count()}, closed=closed, watermark=sl.manual())
    kept = []
    for given in ({"labels": START + 100}, {"labels_marks": table({"k": ["a"], "t": [100]})}):
        op = sl.FeatureOperator(spec)
        op.push(rows_of().select(["k", "t"]), rows_of(*(("a", t, t) for t in range(80, 100))))
        kept.append(op.advance(**given).stats.kept)
    assert kept == [10 if closed == "left" else 9] * 2


def test_events_behind_a_slice_come_after_those_in_it() -> None:
    """Rows were numbered anew since then."""
    spec = sl.FeatureSpec(
        "k", "t", {"d": 1 << 20}, {"last": sl.last("v"), "first": sl.first("v")}, tail=1 << 10, watermark=sl.manual()
    )
    op, none = sl.FeatureOperator(spec), rows_of().select(["k", "t"])
    op.push(none, rows_of(("b", 10**6, 0), *(("a", 1, number) for number in range(10_000))))
    assert op.advance(labels=START + 100_000).stats.slices == 1
    op.push(none, rows_of(("a", 1, -7)))
    op.push(table({"k": ["a"], "t": [100_000]}), rows_of())
    assert [(row["last_d"], row["first_d"]) for row in op.flush().rows.to_pylist()] == [(-7, 0)]


@pytest.mark.parametrize(("match", "wanted"), [("first", 1), ("last", 2)])
def test_equal_rows_stay_in_order_of_arrival_when_slices_get_longer(match: str, wanted: int) -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (100_000, 0), match=match, watermark=sl.manual()))
    op.push(rows_of(), rows_of(*((f"k{number}", 5, 1) for number in range(8)), value="r"))
    op.push_right(rows_of(("k0", 5, 2), value="r"))
    op.push_right(rows_of(("k9", 7, 3), ("k9", 90_000, 3), value="r"))
    op.push_left(rows_of(("k0", 6, 0)))
    assert op.flush().rows["r"].to_pylist() == [wanted]


def test_many_pairs_of_a_row_are_in_order_of_time_then_of_arrival() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 10**6), watermark=sl.manual()))
    times = [*range(500, 700), *range(100, 180), *range(160, 190)]
    op.push(rows_of(), rows_of(*(("a", t, 0) for t in times[:200]), value="r"))
    op.push_right(rows_of(*(("a", t, 1) for t in times[200:280]), value="r"))
    op.push_right(rows_of(*(("a", t, 2) for t in times[280:]), value="r"))
    rows = op.push_left(rows_of(("a", 0, 0))).rows
    found = list(zip(rows["t_right"].to_pylist(), rows["r"].to_pylist(), strict=True))
    assert found == sorted(found) and len(found) == len(times)


def test_left_rows_leave_in_the_order_of_their_first_true_partners() -> None:
    op = sl.JoinOperator(
        sl.JoinSpec("k", "t", (0, 10), how="semi", where=sl.col("r") > sl.col("v"), watermark=sl.manual())
    )
    op.push(rows_of(("a", 1, 1), ("b", 1, 1)), rows_of(value="r"))
    assert op.push_right(rows_of(("b", 2, 2), ("a", 3, 2), value="r")).rows["k"].to_pylist() == ["b", "a"]


def test_events_that_a_waiting_label_reaches_by_its_tail_alone_are_kept() -> None:
    spec = sl.FeatureSpec("k", "t", {"d": 10}, {"n": sl.count()}, tail={"d": 8}, watermark=sl.manual())
    op = sl.FeatureOperator(spec)
    op.push(table({"k": ["a"], "t": [25]}), rows_of(("a", 9, 0), ("a", 20, 0)))
    op.advance(labels=START + 60)
    assert op.flush().rows["n_d"].to_pylist() == [2]


def test_left_rows_with_one_partner_leave_in_order_of_time() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 10), how="semi", watermark=sl.manual()))
    op.push(rows_of(("a", 5, 1), ("a", 3, 1), ("b", 4, 1)), rows_of(value="r"))
    rows = op.push_right(rows_of(("b", 6, 2), ("a", 6, 2), value="r")).rows
    assert rows["t"].to_pylist() == [START + 4, START + 3, START + 5]


def test_watermarks_of_rows_that_wait_are_in_a_snapshot() -> None:
    """A row without a partner comes as soon as the rows before its watermark are joined."""
    spec = sl.JoinSpec("k", "t", (0, 10), how="left", watermark=sl.bounded(0))
    op = sl.JoinOperator(spec, max_rows_per_push=1)
    op.push_right(rows_of(("a", 1, 1), ("a", 2, 2), value="r"))
    op.push(rows_of(("a", 0, 1), ("a", 1, 2), ("c", 1, 0), ("b", 50, 3)), rows_of(("b", 50, 3), value="r"))
    assert op.push(rows_of(("b", 50, 4), ("b", 50, 5)), rows_of(("b", 50, 6), value="r")).stats.pending
    drained = []
    for some in (op, sl.JoinOperator.restore(spec, op.snapshot(), max_rows_per_push=1)):
        outs = [some.advance()]
        while outs[-1].stats.pending:
            outs.append(some.advance())
        drained.append([(out.watermark, [row["v"] for row in out.rows.to_pylist()]) for out in outs])
    assert drained[0] == drained[1]


def test_events_are_spread_to_labels_that_reach_them_by_the_tail_alone() -> None:
    spec = sl.FeatureSpec("k", "t", {"d": 10}, {"n": sl.count()}, tail={"d": 8}, watermark=sl.manual())
    plan = sl.FeatureOperator(spec)._plan(rows_of().select(["k", "t"]).schema, rows_of().schema)
    spread, hashed = Spread(spec, plan, 10), np.zeros(1, np.uint64)
    _, label = spread.places(LEFT, hashed, np.array([25]), 97)  # from 8 on
    _, event = spread.places(RIGHT, hashed, np.array([9]), 97)
    assert set(label) <= set(event)
