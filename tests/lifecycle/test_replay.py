"""``sl.replay`` gives what an operator gives, push by push; ``sl.latest`` what its corrections leave."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl

START = 1_767_254_400_000_000_000  # 2026-01-01 08:00 UTC, in nanoseconds
MINUTE = 60_000_000_000


def stream(seed: int, n: int = 400) -> pa.Table:
    """Rows in no order over two hours, some of the year before and of the year after."""
    rng = np.random.default_rng(seed)
    at = START + rng.integers(0, 120, n) * MINUTE + rng.integers(0, 2, n) * rng.integers(-1, 2, n) * 525_600 * MINUTE
    keys = pa.array([None if k == 3 else f"key {k}" for k in rng.integers(0, 4, n)])
    return pa.table({"ts": pa.array(at, pa.timestamp("ns", "UTC")), "k": keys, "v": rng.integers(-(2**60), 2**60, n)})


def spec(emit: str, window: object, **more: object) -> sl.Spec:
    late = {"watermark": sl.bounded("1m"), "allowed_lateness": "1200d"} if emit != "final" else {}
    return sl.Spec("ts", {"w": window}, {"n": sl.count(), "total": sl.sum("v")}, by="k", emit=emit, **late | more)


def by_hand(data: pa.Table) -> dict[tuple[int, str | None], list[int]]:
    """Count and sum of each ten minutes and key, row by row."""
    found: dict[tuple[int, str | None], list[int]] = defaultdict(lambda: [0, 0])
    for row in data.set_column(0, "ts", data["ts"].cast(pa.int64())).to_pylist():
        one = found[row["ts"] // (10 * MINUTE) * 10 * MINUTE, row["k"]]
        one[0], one[1] = one[0] + 1, one[1] + row["v"]
    return found


@pytest.mark.parametrize("emit", ["updates", "changes"])
@pytest.mark.parametrize("rows", [1, 7, 133, None])
def test_what_corrections_leave_is_what_the_rows_say(emit: str, rows: int | None) -> None:
    data = stream(rows or 0, 60 if rows == 1 else 400)
    asked = spec(emit, sl.tumbling("10m"), on_overflow="wrap")
    outputs = list(sl.replay(data, asked, rows=rows))
    assert rows is None or [out.stats.rows for out in outputs[:-2]] == [rows] * (len(outputs) - 2)
    assert sum(out.stats.rows for out in outputs) == data.num_rows and not any(out.stats.late for out in outputs)
    found = sl.latest(outputs, asked)
    starts = found["window_start"].cast(pa.int64()).to_pylist()
    columns = (found[name].to_pylist() for name in ("k", "n", "total"))
    held = {(start, k): [n, total] for start, k, n, total in zip(starts, *columns, strict=True)}
    assert len(held) == found.num_rows and held == by_hand(data)
    assert "op" not in found.column_names
    again = sl.latest(pa.concat_tables([out.windows for out in outputs if out.windows.num_rows]), asked)
    assert again.equals(found)


@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_results_may_have_been_kept_as_frames_of_polars(emit: str) -> None:
    """Whose texts are views, also those of ``op``."""
    asked = spec(emit, sl.tumbling("10m"), on_overflow="wrap")
    outputs = list(sl.replay(stream(1), asked, rows=50))
    kept = sl.latest([pl.from_arrow(out.windows) for out in outputs if out.windows.num_rows], asked)
    assert kept.to_pylist() == sl.latest(outputs, asked).to_pylist() != []


@pytest.mark.parametrize("window", [sl.session("3m"), sl.sliding("20m", every="10m")], ids=str)
def test_windows_whose_bounds_move_are_those_of_all_data_at_once(window: object) -> None:
    data, asked = stream(5), spec("changes", window)
    found = sl.replay(data, asked, rows=50).latest(returns="pandas")
    order = ["window_end", "window_start", "k"]
    wanted = sl.aggregate(data, spec("final", window), returns="pandas")
    frames = [f.sort_values(order, ignore_index=True).astype({"window": str}) for f in (found, wanted)]
    assert len(wanted) > 50 and frames[0].equals(frames[1])


def test_final_results_are_all_latest_and_items_are_pushed_as_they_are_asked_for() -> None:
    data, asked = stream(3).sort_by("ts"), spec("final", sl.tumbling("10m"), watermark=sl.ordered())
    given: list[int] = []

    def items():
        for at in range(0, 400, 100):
            given.append(at)
            yield data.slice(at, 100)

    outputs = sl.replay(items(), asked)
    assert given == []
    first = next(outputs)
    assert given == [0] and first.stats.rows == 100
    rest = list(outputs)
    assert len(rest) == 4
    assert sl.latest([first, *rest], asked).equals(pa.concat_tables([out.windows for out in (first, *rest)]))


def test_no_rows_are_one_push_and_a_flush() -> None:
    asked = spec("changes", sl.tumbling("10m"))
    outputs = list(sl.replay(stream(1).slice(0, 0), asked, rows=5))
    assert [out.stats.rows for out in outputs] == [0, 0]
    assert sl.latest(outputs, asked).column_names == ["window", "window_start", "window_end", "k", "n", "total"]


def test_early_results_are_replaced_too() -> None:
    data = pa.table({"ts": [datetime(2026, 1, 1, 9, m) for m in range(60)], "k": ["a"] * 60, "v": range(60)})
    asked = spec("updates", sl.tumbling("30m"), trigger=sl.every("10m"))
    outputs = list(sl.replay(data, asked, rows=6))
    assert sum(out.windows.num_rows for out in outputs) > 4
    assert sl.latest(outputs, asked).select(["n", "total"]).to_pylist() == [
        {"n": 30, "total": 435},
        {"n": 30, "total": 1335},
    ]


REFUSED = {
    "replay's spec": (lambda: sl.replay(spec("final", sl.whole()), stream(0)), "(the data comes first)"),
    "rows": (lambda: sl.replay(stream(0), spec("final", sl.whole()), rows=0), "rows must be a whole number"),
    "latest's spec": (
        lambda: sl.latest(stream(0), "spec"),
        "latest takes results and, as spec, the sl.Spec that gave them; got str",
    ),
    "parts": (
        lambda: sl.latest([], spec("parts", sl.tumbling("1m"), trigger=sl.each_push())),
        "those of emit='parts' add up: use sl.rollup",
    ),
    "idle": (
        lambda: sl.latest([], spec("updates", sl.tumbling("1m"), idle="1d", allowed_lateness="0s")),
        "idle='1d' may end a window twice",
    ),
    "columns": (
        lambda: sl.latest(stream(0), spec("changes", sl.tumbling("1m"))),
        "column 'window' is missing in the results; their columns are ts, k, v",
    ),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(call, said) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert said in str(refused.value)


@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_windows_that_are_alike_are_all_kept(emit: str) -> None:
    """Rows of equal time make equal windows, and frames may begin and end at one time."""
    data = pa.table({"t": [5, 5, 5, 6, 6, 7, 30], "v": [1, 2, 4, 8, 16, 32, 64], "go": [True] * 7})
    windows = {"past": sl.per_row(3), "two": sl.rows(2), "each": sl.frame("go", "go"), "ten": sl.tumbling(10)}
    asked = sl.Spec("t", windows, {"s": sl.sum("v")}, emit=emit, watermark=sl.bounded(0))
    wanted = sl.aggregate(data, dataclasses.replace(asked, emit="final")).to_pylist()
    for trigger in (None, {"ten": sl.every(2)}):
        spec = dataclasses.replace(asked, trigger=trigger)
        outputs = list(sl.replay(data, spec, rows=2))
        found = sl.latest(outputs, spec).select(["window", "window_start", "window_end", "rank_start", "rank_end", "s"])
        assert sorted(found.to_pylist(), key=str) == sorted(wanted, key=str)
        if emit == "updates":
            told = {w["revision"] for out in outputs for w in out.windows.to_pylist() if w["window"] != "ten"}
            assert told == {0}
            again = sl.latest([out.windows.filter(pc.equal(out.windows["revision"], 1)) for out in outputs], spec)
            assert again.num_rows == (0 if trigger is None else 2)  # the results may begin in the middle of a stream


TOGETHER = {"frame": sl.frame("f", "g"), "rows": sl.rows(2, every=1), "row": sl.per_row(3), "mark": sl.punctuation("f")}


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("start", range(0, 40, 20))
def test_of_windows_between_the_same_times_the_one_that_was_taken_back_is_left_out(name: str, start: int) -> None:
    """Frames of rows of equal time are told apart by what is in them, floats that were summed in another order too."""
    aggs = {"c": sl.collect("c"), "late": sl.max("at"), "x": sl.sum("x")}
    asked = sl.Spec(
        "t", {"w": TOGETHER[name]}, aggs, sequence="s", emit="changes", allowed_lateness=50, watermark=sl.manual()
    )
    for seed in range(start, start + 20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 40))
        columns = {"t": rng.integers(0, 3, n), "s": rng.permutation(n), "c": rng.integers(0, 4, n)}
        flags = {"f": rng.random(n) < 0.5, "g": rng.random(n) < 0.5}
        x = np.where(rng.random(n) < 0.2, np.nan, rng.random(n))
        data = pa.table({**columns, **flags, "x": x, "at": pa.array(rng.integers(0, 10**9, n), pa.timestamp("ns"))})
        op, outputs, at = sl.Operator(asked), [], 0
        while at < n:
            size = int(rng.integers(1, 4))
            outputs.append(op.push(data.slice(at, size)))
            outputs.append(op.advance(int(rng.integers(0, 9))))
            at += size
        found, wanted = sl.latest([*outputs, op.flush()], asked), sl.aggregate(data, asked)
        assert told(found) == told(wanted)


def told(windows: pa.Table) -> list[str]:
    rows = windows.set_column(windows.schema.get_field_index("late"), "late", windows["late"].cast(pa.int64()))
    kept = ("window_start", "window_end", "c", "late")
    return sorted(repr([[row[name] for name in kept], round(row["x"], 9)]) for row in rows.to_pylist())
