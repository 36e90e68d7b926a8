"""What is kept of the right side with ``match="last"``: not a row that a left row may still choose leaves, not one that
later rows of its key stand before stays."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from naive import Row
from test_join_random import Both, Case, walked

import slicing as sl

CASES = int(os.environ.get("SLICING_CASES", 200))


def times_of_choice(both: Both, right: Row, mark: int | None) -> list[int]:
    """Times of left rows of the key that may still choose: those that wait, and of all from the mark on one between
    each two at which a right row comes into reach, or leaves it."""
    model, key = both.model, right.key
    turns = [r.time - model.after for r in model.rows[1] if r.key == key and model.after is not None]
    turns += [r.time + model.before + 1 for r in model.rows[1] if r.key == key and model.before is not None]
    turns.append(min(turns, default=0) - 1)
    mark = turns[-1] if mark is None else mark
    to_come = [time for time in (max(mark, turn) for turn in turns) if time < 1 << 63]  # none: the key has ended
    return [r.time for r in model.rows[0] if not r.left and r.key == key] + to_come


def check_chosen_by_nobody(both: Both) -> None:
    model = both.model
    for right in model.rows[1]:
        if not right.left or (right.key is None and not model.nulls_equal):
            continue
        for time in times_of_choice(both, right, model.mark(0, right.key)):
            best = model.best(Row(0, time, right.key, 0, -1, 0))
            assert best is not right, f"{right} has left, and a left row at {time} would choose it"


@pytest.mark.parametrize("part", range(3))
def test_no_left_row_would_choose_a_row_that_has_left(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried with every time that a left row may still have, at each step at which the operator keeps as many rows."""
    checked = Both.check

    def check(both: Both, out: sl.JoinOutput, expected: list) -> None:
        checked(both, out, expected)
        check_chosen_by_nobody(both)

    monkeypatch.setattr(Both, "check", check)
    for seed in range(20_000 + part, 20_000 + CASES, 3):
        case = Case(seed)
        if case.match == "last":
            try:
                walked(case)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {case.spec()}") from error


def rows(key: str, *times: int) -> pa.Table:
    return pa.table({"k": pa.array([key] * len(times), pa.string()), "t": pa.array(times, pa.int64())})


def operator(sequence: str | None = None) -> sl.JoinOperator:
    marks = sl.manual(), sl.manual()
    return sl.JoinOperator(sl.JoinSpec("k", "t", (None, 0), match="last", watermark=marks, sequence=sequence))


def test_of_rows_of_one_time_the_last_is_kept() -> None:
    """The last by (time, sequence, arrival) is the one that left rows choose; the others would never leave."""
    op = operator()
    op.push_left(rows("a"))
    op.push_right(rows("a", 5, 5, 5))
    assert op.advance(left=5).stats.held == 1
    assert op.push_right(rows("a", 5)).stats.held == 1, "a later one of the same time"


def test_of_rows_of_one_time_the_largest_sequence_is_kept() -> None:
    op = operator(sequence="s")
    op.push_left(rows("a"))
    op.push_right(rows("a", 5, 5).append_column("s", pa.array([2, 1])))
    op.advance(left=5)
    assert op.push_left(rows("a", 7)).stats.held == 2
    assert op.advance(right=8).rows["s"].to_pylist() == [2]


def test_a_waiting_row_of_another_key_keeps_nothing() -> None:
    op = operator()
    op.push_left(rows("b", 1))
    op.push_right(rows("a", 2, 3, 4))
    assert op.advance(left=4).stats.held == 2, "the left row, and the last of the other key"
    assert op.push_left(rows("a", 4)).stats.held == 3


def test_a_waiting_row_that_reaches_two_keeps_the_later_one() -> None:
    """It can choose one only: the earlier one is of no use to it, nor to rows still to come."""
    op = operator()
    op.push_right(rows("a", 2, 3))
    op.push_left(rows("a", 3))
    assert op.advance(left=9).stats.held == 2
    out = op.advance(right=9)
    assert out.rows["t_right"].to_pylist() == [3] and out.stats.held == 1


def test_a_waiting_row_keeps_what_comes_before_a_row_it_does_not_reach() -> None:
    op = operator()
    op.push_right(rows("a", 2, 6))
    op.push_left(rows("a", 3))
    assert op.advance(left=9).stats.held == 3, "3 takes 2, rows from 9 on take 6"
    out = op.advance(right=4)
    assert out.rows["t_right"].to_pylist() == [2] and out.stats.held == 1


@pytest.mark.parametrize(("within", "expected"), [((-5, 10), 95), ((5, 10), 85)])
def test_the_partners_of_left_rows_are_as_far_from_these_as_the_band_begins(within: tuple, expected: int) -> None:
    """Left rows from 90 on are still to come, so right rows from 95, or 85, on: both are reached."""
    marks = sl.manual(), sl.manual()
    op = sl.JoinOperator(sl.JoinSpec("k", "t", within, match="last", watermark=marks, event_time="right"))
    op.push_left(rows("a", 90))
    op.push_right(rows("a", expected))
    out = op.advance(left=90, right=100)
    assert out.watermark == expected and out.rows.num_rows == 0
    assert op.advance(right=101).rows["t_right"].to_pylist() == [expected]


def test_a_row_that_came_before_the_left_columns_were_known_and_fails_where_replaces_none() -> None:
    marks = sl.manual(), sl.manual()
    op = sl.JoinOperator(sl.JoinSpec("k", "t", (None, 0), match="last", where=pc.field("ok"), watermark=marks))
    op.push_right(rows("a", 2, 3).append_column("ok", pa.array([True, False])))
    op.push_left(rows("a", 5))
    assert op.advance(left=5).stats.held == 3
    assert op.advance(right=6).rows["t_right"].to_pylist() == [2]


def test_of_rows_of_one_time_that_pass_where_with_a_left_row_the_last_is_chosen() -> None:
    lefts = rows("a", 5, 6).append_column("least", pa.array([0, 2]))
    rights = rows("a", 4, 4, 4).append_column("b", pa.array([1, 2, 0]))
    where = pc.field("b") >= pc.field("least")
    found = sl.join(lefts, rights, on="k", time="t", within=(None, 0), match="last", where=where)
    assert found["b"].to_pylist() == [0, 2]


def test_many_rows_are_looked_through_now_and_then() -> None:
    """A push costs as much as its rows, and rows that later ones replace stay for some pushes only."""
    keys, spec = 20_000, sl.JoinSpec("k", "t", (None, 0), match="last", how="left", watermark=(sl.bounded(0),) * 2)
    rights = [pa.table({"t": [10] * keys, "k": range(keys), "b": range(keys)})]
    lefts = [pa.table({"t": [10], "k": [0]})]
    for i in range(1, 61):
        some = range(i * 500, i * 500 + 500)
        rights.append(pa.table({"t": [10 + i] * 500, "k": [k % keys for k in some], "b": some}))
        lefts.append(pa.table({"t": [10 + i] * 2, "k": [(i * 500) % keys, (i * 500 + 600) % keys]}))
    op, found, looks = sl.JoinOperator(spec), [], 0
    for right, left in zip(rights, lefts, strict=True):
        out = op.push_right(right)
        assert out.stats.held <= 9 * keys // 8 + 5000
        found += [out, op.push_left(left)]
        looks += op._state.sides[1].since == 0
    assert 5 < looks < 40
    burst = pa.table({"t": [100] * 100_000, "k": [7] * 100_000, "b": range(100_000)})
    found.append(op.push_right(burst))
    late = [pa.table({"t": [200 + i], "k": [7]}) for i in range(40)]
    found += map(op.push_left, late)
    assert found[-1].stats.held < keys + 8192
    rows = pa.concat_tables([out.rows for out in [*found, op.flush()] if out.rows.num_rows])
    expected = sl.join(pa.concat_tables([*lefts, *late]), pa.concat_tables([*rights, burst]), spec)
    order = [("t", "ascending"), ("k", "ascending")]
    assert rows.sort_by(order).equals(expected.sort_by(order)) and expected["b"].null_count == 0
