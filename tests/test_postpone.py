"""A flush of many windows, spread over the pushes that follow it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slicing as sl

SPEC = sl.Spec(
    time="t",
    by=["k"],
    windows={"m": sl.tumbling(10), "s": sl.session(3)},
    aggs={"n": sl.count(), "least": sl.min("name")},
    watermark=sl.bounded(0),
)


def rows(times: list[int], keys: list[int]) -> pa.Table:
    names = [f"name {key % 7}" for key in keys]
    return pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64()), "name": names})


def test_no_push_gives_more_windows_than_asked_and_none_is_lost():
    op = sl.Operator(SPEC, max_windows_per_push=100)
    op.push(rows([5] * 1000, list(range(1000))))
    given = [op.push(rows([25], [0]))]  # 1000 windows and 1000 sessions are due
    assert given[0].watermark == 5  # what has come out has not got any further
    while given[-1].watermark != 25:
        given.append(op.push(rows([25], [0])))
    assert len(given) in range(20, 30)
    assert max(out.windows.num_rows for out in given) <= 100
    table = pa.concat_tables(out.windows for out in given)
    expected = {("m", key, 0, 10) for key in range(1000)} | {("s", key, 5, 8) for key in range(1000)}
    found = {(row["window"], row["k"], row["window_start"], row["window_end"]) for row in table.to_pylist()}
    assert table.num_rows == 2000 and found == expected
    assert all(row["least"] == f"name {row['k'] % 7}" and row["n"] == 1 for row in table.to_pylist())


def test_a_postponed_window_is_closed_for_late_rows():
    op = sl.Operator(SPEC, max_windows_per_push=1)
    op.push(rows([5] * 4, [0, 1, 2, 3]))
    op.push(rows([25], [0]))
    out = op.push(rows([6], [3]))  # in time for nothing, though key 3 has not come out yet
    assert out.late.num_rows == 1 and 3 not in out.windows["k"].to_pylist()
    table = op.flush().windows.filter(pa.compute.field("k") == 3)
    assert table["n"].to_pylist() == [1, 1]


def test_keys_that_wait_are_not_forgotten():
    op = sl.Operator(SPEC, max_windows_per_push=50)
    seen = []
    for block in range(12):  # new keys each time, enough of them for codes to be given out anew
        first = block * 3000
        seen.append(op.push(rows([block * 20] * 3000, list(range(first, first + 3000)))).windows)
        op = sl.Operator.restore(SPEC, op.snapshot(), max_windows_per_push=50)
    seen.append(op.flush().windows)
    table = pa.concat_tables(seen)
    assert sorted(table.filter(pa.compute.field("window") == "m")["k"].to_pylist()) == list(range(36000))
    assert sorted(table.filter(pa.compute.field("window") == "s")["k"].to_pylist()) == list(range(36000))
    assert all(row["least"] == f"name {row['k'] % 7}" for row in table.to_pylist())


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "9"])
def test_the_number_of_windows_is_checked(wrong):
    with pytest.raises(ValueError, match="max_windows_per_push must be a whole number of at least 1, or None; got"):
        sl.Operator(SPEC, max_windows_per_push=wrong)
