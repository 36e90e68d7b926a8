"""Joins: what is renumbered, scaled or forgotten stays that of its rows and keys."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

import slicing as sl


def seconds(unit: str, *times: int, **more: list) -> pa.Table:
    at = pa.array([1_700_000_000 + time for time in times], pa.timestamp("s")).cast(pa.timestamp(unit))
    return pa.table({"t": at} | more)


def test_rows_without_a_key_come_once_beside_rows_that_wait() -> None:
    spec = sl.JoinSpec(on=["k"], time="t", within=(0, 10), how="left")
    op = sl.JoinOperator(spec, max_rows_per_push=1)
    op.push_right(pa.table({"k": ["a", "a"], "t": [1, 2], "r": [1, 2]}))
    outs = [op.push_left(pa.table({"k": ["a", None, "a", "a"], "t": [0, 0, 0, 0], "l": [1, 2, 3, 4]}))]
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
    op.push_right(pa.table({"t": [1], "k": ["a"], "y": [1]}))
    op.push_right(pa.table({"t": [2], "k": ["a"], "y": [0]}))
    op.advance(left=5)
    found = [*op.push_left(pa.table({"t": [15], "k": ["a"], "x": [0]})).rows.to_pylist(), *op.flush().rows.to_pylist()]
    assert [(row["t"], row["t_right"]) for row in found] == [(15, 1)]


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
    none = pa.table({"t": pa.array([], pa.int64()), "k": pa.array([], pa.string())})
    op.push(none, pa.table({"t": [1, 2, 3], "k": ["x", "a", "a"]}))
    for at in range(3):
        many = pa.table({"t": [10_000 * (at + 1)] * 5000, "k": [f"{at} {n}" for n in range(5000)]})
        op.push(many, none)
        out = op.advance(labels=10_000 * (at + 1) + 5000, events=10_000 * (at + 1) + 5000)
    assert out.stats.slices and not out.stats.kept
    assert len(op._state.keys) < 6000, "keys that are gone are forgotten"
    found = (
        op.push(pa.table({"t": [50_000, 50_000], "k": ["a", "x"]}), none).rows.to_pylist() + op.flush().rows.to_pylist()
    )
    assert [row["n_d"] for row in found] == [2, 1]


def test_a_row_that_had_a_partner_and_comes_behind_others_is_known_after_rows_are_numbered_anew() -> None:
    spec = sl.JoinSpec(on=[], time="t", within=(0, 5), how="full", watermark=sl.manual())
    op = sl.JoinOperator(spec)
    left = pa.table({"t": [*range(10_000), 10**6], "a": range(10_001)})
    right = pa.table({"t": [*range(20_000, 30_000), 10**6], "b": range(10_001)})
    assert op.push(left, right).rows.num_rows == 1
    out = op.advance(left=50_000, right=50_000)
    assert out.rows.num_rows == 20_000 and out.stats.held == 2 and out.stats.bytes < 2000
    assert op.flush().rows.num_rows == 0


def test_marks_stay_those_of_their_keys_when_other_keys_are_forgotten() -> None:
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (0, 5), how="inner", watermark=sl.manual()))
    rows = pa.table({"t": [1, 1], "k": ["p", "q"]})
    op.push(rows, rows)
    op.advance(left_marks=pa.table({"t": [100_000], "k": ["q"]}))
    op.advance(left=10, right=10)
    for number in range(1, 6):
        many = pa.table({"t": [100 * number] * 5000, "k": [f"k{number}_{i}" for i in range(5000)]})
        op.push(many, many)
        op.advance(left=100 * number + 50, right=100 * number + 50)
    assert len(op._state.keys) < 25_000, "keys that are gone are forgotten"
    again = op.push_left(pa.table({"t": [50_000, 50_000, 50_000], "k": ["q", "p", "new"]}))
    assert again.late_left["k"].to_pylist() == ["q"]
