"""Windows that are added to a running stream: from when on they are whole, at edges (random cases are in
test_replan.py)."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

import slicing as sl

START = 1_680_000_000_000_000_000  # nanoseconds since 1970; all windows here begin at it


def table(columns: dict) -> pa.Table:
    """A table of times since ``START``, and of other columns."""
    return pa.table(columns | {"t": pa.array([START + time for time in columns["t"]], pa.int64())})


def of_window(name: str, *outs: sl.Output) -> list[tuple]:
    """The windows of this name: start, end, count; and the key, if there is one."""
    found = [row for out in outs for row in out.windows.to_pylist() if row["window"] == name]
    bounds = [tuple(int(row[end]) - START for end in ("window_start", "window_end")) for row in found]
    return [(*pair, row["n"], *([row["k"]] if "k" in row else [])) for pair, row in zip(bounds, found, strict=True)]


def test_an_added_window_lacks_rows_of_keys_that_have_ended() -> None:
    """The slices of a key that was idle are gone."""
    spec = sl.Spec("t", {"w": sl.tumbling(20)}, {"n": sl.count()}, by="k", watermark=sl.bounded(0), idle=5)
    op = sl.Operator(spec)
    op.push(table({"t": [1], "k": ["a"]}))
    op.push(table({"t": [8], "k": ["b"]}))
    op.add_window("n", sl.tumbling(40))
    assert op.complete_from("n") == START + 9
    outs = [op.push(table({"t": [41, 42, 90], "k": ["a", "b", "a"]})), op.flush()]
    found = [window for window in of_window("n", *outs) if window[0] >= 9]
    assert sorted(found) == [(40, 80, 1, "a"), (40, 80, 1, "b"), (80, 120, 1, "a")]


@pytest.mark.parametrize(("watermark", "since"), [(9, 0), (10, 1), (11, 1)])
def test_a_window_that_would_have_come_by_now_is_not_whole(watermark: int, since: int) -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.manual(), emit="changes", allowed_lateness=9
    )
    op = sl.Operator(spec)
    op.push(table({"t": [5]}))
    op.advance(START + watermark)
    op.add_window("n", sl.tumbling(10))
    assert op.complete_from("n") == START + since
    found = of_window("n", op.advance(START + 15), op.push(table({"t": [16]})), op.flush())
    assert found == ([(0, 10, 1)] if since == 0 else []) + [(10, 20, 1)]


def test_edges_before_the_slices_of_a_stream_do_not_divide_them() -> None:
    windows = {"a": sl.tumbling(20), "b": sl.tumbling(30)}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.manual()))
    op.push(table({"t": [41]}))
    new = sl.tumbling(25, offset=20)  # [-5, 20) begins at no edge of the others, but no row is near
    op.add_window("n", new)
    assert op.complete_from("n") is None
    found = of_window("n", op.push(table({"t": [-3, 1, 42, 50]})), op.flush())
    assert found == [(-5, 20, 2), (20, 45, 2), (45, 70, 1)]


def test_a_window_added_to_a_stream_of_dates_is_whole_from_the_next_day_on() -> None:
    def days(*days: int) -> pa.Table:
        return pa.table({"t": pa.array([date(2024, 5, day) for day in days], pa.date64())})

    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling("7d")}, {"n": sl.count()}, watermark=sl.manual()))
    op.push(days(3, 4))
    op.add_window("n", sl.rows(2))
    assert op.complete_from("n") == date(2024, 5, 5)
    found = [row for out in (op.push(days(4, 5, 6)), op.flush()) for row in out.windows.to_pylist()]
    bounds = [(row["window_start"], row["window_end"], row["n"]) for row in found if row["window"] == "n"]
    assert bounds == [(date(2024, 5, 5), date(2024, 5, 6), 2)]


@pytest.mark.parametrize("trigger", [sl.by_hand(), sl.every(10), sl.after_share(0.5)], ids=repr)
def test_late_rows_that_no_trigger_has_reported_are_in_no_whole_window(trigger: sl.Trigger) -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(20)}, {"n": sl.count()}, watermark=sl.manual(), emit="changes", trigger={"w": trigger}
    )
    op = sl.Operator(spec)
    op.advance(START + 12)
    op.push(table({"t": [8]}))
    op.add_window("n", sl.tumbling(7))  # the row is in a slice that ends behind [7, 14)
    assert op.complete_from("n") == START + 8
    assert of_window("n", op.advance(START + 15), op.push(table({"t": [16]})), op.flush()) == [(14, 21, 1)]
