"""Rows in order go straight from columns to cells or windows, and nothing shows but the time that they take."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing import push
from slicing.closing.over_rows import of_columns
from slicing.query.policy import Policy
from slicing.stages import straight
from slicing.system.threads import Share
from slicing.tables.held import FEWEST_TOLD

CASES = max(int(os.environ.get("SLICING_CASES", "120")), 1)
SEED = int(os.environ.get("SLICING_SEED", "0"))
UNITS = {  # of spans, and a time to begin at
    pa.int64(): ("", -6_900_000_000_000_000_000),
    pa.int32(): ("", 1_700_000_000),
    pa.timestamp("s"): ("s", 1_700_000_000),
    pa.timestamp("us"): ("us", -1_700_000_000_000_000),
    pa.timestamp("ns", "UTC"): ("ns", 1_700_000_000_000_000_000),
    pa.date32(): ("d", 20_000),
}
VALUES: tuple[pa.DataType, ...] = (pa.float64(), pa.int64(), pa.int32(), pa.int16(), pa.float32(), pa.uint64())
VALUES += (pa.decimal128(12, 2), pa.duration("ms"))
AGGREGATES = {
    "n": sl.count(),
    "values": sl.count("v"),
    "total": sl.sum("v"),
    "mean": sl.mean("v"),
    "least": sl.min("v"),
    "most": sl.max("v"),
    "spread": sl.var("v"),
    "first": sl.first("v"),
    "chosen": sl.sum("v").where("flag"),
}
ENDS = {pa.float64(): (-1e308, 1e308), pa.int64(): (-(1 << 63), (1 << 63) - 1), pa.int32(): (-(1 << 31), (1 << 31) - 1)}
ODD = (float("nan"), float("inf"), -0.0, 0.0)


FEW = Policy(stepped_several=1, stepped_rows=1)  # few windows suffice


def query(chance: random.Random, time: pa.DataType, values: pa.DataType) -> sl.Spec:
    unit, _ = UNITS[time]

    def span(length: int) -> Any:
        return f"{length}{unit}" if unit else length

    spreads = not (pa.types.is_duration(values) or pa.types.is_floating(values))  # of floats, last bits may differ
    names = [name for name in AGGREGATES if name != "spread" or spreads]
    every, offset = chance.choice([1, 3, 10, 1000]), span(chance.choice([0, 0, 2]))
    windows: dict[str, Any] = {"w": sl.tumbling(span(every), offset)}
    if chance.random() < 0.6:
        windows = {"w": sl.sliding(span(every * chance.choice([2, 3, 20])), span(every), offset)}
        if chance.random() < 0.3:
            others = [sl.tumbling(span(7)), sl.sliding(span(5), span(2)), sl.sliding(span(every), span(every))]
            windows["x"] = chance.choice(others)
        if pa.types.is_floating(values):  # cells and rows are added up in another order
            names = [name for name in names if name not in ("total", "mean", "chosen")]
    delay = chance.choice([0, 2, 50])
    policies = [sl.bounded(span(delay)), sl.bounded(span(delay)), sl.ordered(on_disorder="late"), sl.manual()]
    return sl.Spec(
        "t",
        windows,
        {name: AGGREGATES[name] for name in chance.sample(names, min(chance.choice([1, 2, 4]), len(names)))},
        watermark=chance.choice(policies),
        allowed_lateness=span(chance.choice([0, delay])),
        emit=chance.choice(["final", "final", "final", "updates"]),
        on_overflow="null",
        on_null_time="late",
    )


def batch(chance: random.Random, now: int, time: pa.DataType, values: pa.DataType) -> tuple[pa.RecordBatch, int]:
    """Rows that mostly come in order and have values, and the latest time so far."""
    words, step = [], chance.choice([0, 1, 1, 5, 400, 10**6 if time != pa.date32() else 20])
    regular = chance.random() < 0.4
    for _ in range(chance.choice([0, 1, 2, 20, 300])):
        now += min(step, 5) if regular else chance.randint(0, step)
        words.append(now)
    if words and chance.random() < 0.1:
        words[chance.randrange(len(words))] -= chance.choice([1, 30, 2000])
    times = pa.array(words, pa.int32() if time.bit_width == 32 else pa.int64()).cast(time)
    low, high = ENDS.get(values, (0, 100)) if chance.random() < 0.2 else (-1000, 1000) if values in ENDS else (0, 100)
    draw: Any = chance.uniform if pa.types.is_floating(values) else chance.randint
    kinds: list[Any] = [draw(low, high) for _ in words]
    if pa.types.is_floating(values) and chance.random() < 0.2:
        kinds = [chance.choice(ODD) if chance.random() < 0.3 else one for one in kinds]
    if chance.random() < 0.15:
        kinds = [None if chance.random() < 0.2 else one for one in kinds]
    if pa.types.is_decimal(values):
        column = pa.array(kinds, pa.int64()).cast(pa.decimal128(19)).cast(values)
    else:
        column = pa.array(kinds, pa.float64() if pa.types.is_floating(values) else pa.int64()).cast(values)
    flags = pa.array([chance.random() < 0.5 for _ in words], pa.bool_())
    if words and chance.random() < 0.05:
        times = pa.concat_arrays([times[:-1], pa.nulls(1, time)])
    made = pa.record_batch({"t": times, "v": column, "flag": flags})
    return (made.slice(1) if len(words) > 2 and chance.random() < 0.2 else made), now


@pytest.mark.parametrize("case", range(SEED, SEED + CASES))
def test_all_that_comes_and_stays_is_as_through_the_ordinary_stages(case: int) -> None:
    chance = random.Random(case)
    time, values = chance.choice([*UNITS]), chance.choice(VALUES)
    spec, now = query(chance, time, values), UNITS[time][1]
    most = chance.choice([None, None, 3])
    of_floats = pa.types.is_floating(values) or "spread" in spec.aggs  # of sums by several threads last bits may differ
    threads = 1 if of_floats else chance.choice([1, 2, 3])
    run: dict[str, Any] = {"max_windows_per_push": most, "threads": threads}
    policy = FEW if of_floats else replace(FEW, numpy_cuts=4, share=Share(rows=8))  # several threads share few rows
    policy = replace(policy, stepped=chance.choice([1, policy.stepped]), straight_cells=chance.choice([0, 1 << 10]))
    short = sl.Operator(spec, **run, policy=policy)
    long = sl.Operator(spec, **run, policy=replace(policy, straight=False))
    for _ in range(chance.randint(2, 12)):
        rows, now = batch(chance, now, time, values)
        pairs = [(short.push(rows), long.push(rows))]
        if spec.watermark == sl.manual() or chance.random() < 0.1:
            reached = now + chance.choice([-3, -3, 4, 100])  # rows behind it will be late
            pairs.append((short.advance(reached), long.advance(reached)))
        if chance.random() < 0.1:
            short = sl.Operator.restore(spec, short.snapshot(), **run, policy=policy)
        for mine, other in pairs:
            same(mine, other)
    assert cells(short) == cells(long)
    same(short.flush(), long.flush())


def cells(op: sl.Operator) -> list[list[int]]:
    """The end, the key and the number of rows of each slice that is held."""
    state = op._state
    return [] if state is None else state.store.consolidated().table().meta.tolist()


def same(mine: sl.Output, other: sl.Output) -> None:
    for one, of_other in ((mine.windows, other.windows), (mine.late, other.late)):
        assert one.schema.equals(of_other.schema, check_metadata=True)
        if "spread" in one.column_names:  # deviations are added up in another order
            spreads = [some["spread"].to_pylist() for some in (one, of_other)]
            for left, right in zip(*spreads, strict=True):
                assert left == right or left == pytest.approx(right, rel=1e-12)
            one, of_other = (some.drop_columns("spread") for some in (one, of_other))
        assert str(one.to_pylist()) == str(of_other.to_pylist())  # NaN is NaN
    held = {name: mine.stats[name] for name in ("cells", "bytes")}  # a slice may have a cell in each of several runs
    assert mine.stats == other.stats | held
    assert (mine.watermark, dict(mine.progress)) == (other.watermark, dict(other.progress))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each push whether it goes straight."""
    taken = []

    def counting(*arguments: Any) -> Any:
        found = straight.straight(*arguments)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(push, "straight", counting)
    return taken


def test_most_pushes_in_order_go_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an open cell or none, with jumps and with late watermarks; not out of order, not late, not with nulls."""
    taken = counted(monkeypatch)
    asked = {"watermark": sl.bounded(25), "on_null_time": "late"}
    op, far = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, **asked)), 10**6
    pushes: list[list[int | None]] = [[1, 2, 12], [12, 30, 31], [far, far + 1], [far + 5], [far + 4, far + 30]]
    pushes += [[far + 35, None], [far + 90, far + 80]]
    for times in pushes:
        op.push(pa.table({"t": times, "v": [1.0] * len(times)}))
    op.push(pa.table({"t": [far + 95], "v": pa.nulls(1, pa.float64())}))
    op.push(pa.table({"t": [far + 96], "v": [1.0]}))
    assert taken == [True, True, True, True, False, False, False, True], "not tried right after rows out of order"


@pytest.mark.parametrize(("most", "wanted"), [(1 << 10, [True] * 10), (20, [True, False, False])])
def test_windows_that_overlap_go_straight(monkeypatch: pytest.MonkeyPatch, most: int, wanted: list[bool]) -> None:
    """Also several types; not if so many cells are held, compared with the rows, that it costs more to copy them."""
    taken = counted(monkeypatch)
    windows = {"w": sl.sliding(60, 10), "day": sl.tumbling(1440), "x": sl.sliding(25, 10)}
    op = sl.Operator(sl.Spec("t", windows, {"s": sl.sum("v")}), policy=Policy(straight_cells=most))
    table = pa.table({"t": range(5000), "v": [1] * 5000})
    found = [op.push(table.slice(at, 500)).windows for at in range(0, 5000, 500)]
    assert taken[: len(wanted)] == wanted
    assert pa.concat_tables([*found, op.flush().windows]).equals(sl.aggregate(table, op.spec))


@pytest.mark.parametrize("watermark", [sl.bounded(0), sl.manual()])
@pytest.mark.parametrize(
    "windows", [{"w": sl.sliding(500, 10)}, {"w": sl.tumbling(10)}, {"w": sl.tumbling(10), "x": sl.tumbling(30)}]
)
def test_a_small_state_keeps_no_memory_of_a_large_push(windows: dict[str, Any], watermark: Any) -> None:
    op, rows = sl.Operator(sl.Spec("t", windows, {"n": sl.count(), "s": sl.sum("v")}, watermark=watermark)), 200_000
    op.push(pa.table({"t": np.arange(rows) * 10, "v": np.arange(rows) % 7}))
    op.advance(rows * 10 - 10)
    for run in op._state.store.runs:
        for array in (run.meta, run.ends, run.starts, *run.blocks):
            while isinstance(array, np.ndarray) and array.base is not None:
                array = array.base
            assert array is None or memoryview(array).nbytes < 10_000


def test_more_windows_than_a_push_can_emit_are_refused_before_they_are_made() -> None:
    rows = max(FEWEST_TOLD, 1000)
    table = pa.table({"t": np.arange(rows)})
    for windows in ({"w": sl.sliding(10**12, 1)}, {"w": sl.sliding(3 * 10**9, 1), "x": sl.sliding(10, 1)}):
        with pytest.raises(ValueError, match=r"a push can emit at most 2,147,483,647"):
            sl.aggregate(table, sl.Spec("t", windows, {"n": sl.count()}), threads=1)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("delay", [0, 700])
def test_windows_are_ranges_of_rows_if_slices_have_few(monkeypatch: pytest.MonkeyPatch, rows: int, delay: int) -> None:
    """Sums of floats too, beside exact ones: rows at 1e15 and -1e15, whose tenths are lost where they are rounded."""
    ranges = []
    monkeypatch.setattr(straight, "of_columns", lambda *given: ranges.append(len(given[3])) or of_columns(*given))
    size, each, policy = 12_000, 100, FEW
    values = np.random.default_rng(rows).integers(-(10**16), 10**16, size) / 10
    table = pa.table({"t": 1_700_000_000_000_000_000 + np.arange(size) * 10 // rows, "v": values})
    spec = sl.Spec(
        "t",
        {"w": sl.sliding(10 * each, 10)},
        {"total": sl.sum("v"), "mean": sl.mean("v"), "most": sl.max("v"), "n": sl.count()},
        watermark=sl.bounded(delay),
    )
    op, parts = sl.Operator(spec, policy=policy), list[pa.Table]()
    for at in range(0, size, 3000):
        parts.append(op.push(table.slice(at, 3000)).windows)
    found = pa.concat_tables([*parts, op.flush().windows])
    assert len(ranges) == 4 and min(ranges) >= policy.stepped
    slices = -(-size // rows)
    assert found.num_rows == slices + each - 1
    places = np.arange(size) // rows
    for number, row in enumerate(found.to_pylist()):
        own = values[(places > number - each) & (places <= number)]
        assert row["n"] == own.size and row["most"] == own.max()
        exact = math.fsum(own)
        assert abs(row["total"] - exact) <= abs(exact) * 1e-15 + 2
        assert abs(row["mean"] - exact / own.size) <= abs(exact / own.size) * 1e-15 + 2 / own.size


@pytest.mark.parametrize("slices", [10, 3000])  # numpy writes few cells, a kernel many
def test_cells_know_how_many_rows_they_have(slices: int) -> None:
    counts = np.random.default_rng(4).integers(1, 5, slices)
    times = np.repeat(np.arange(slices), counts)
    spec = sl.Spec("t", {"w": sl.sliding(2 * slices, every=1)}, {"n": sl.count()}, watermark=sl.manual())
    op = sl.Operator(spec)
    for part in (times[: times.size // 3], times[times.size // 3 :]):  # a slice goes on in the second push
        op.push(pa.table({"t": part}))
    assert op._state is not None
    (cells,) = op._state.store.runs
    assert cells.rows.tolist() == counts.tolist() and not cells.code.any()
    assert cells.end.tolist() == list(range(1, slices + 1))


@pytest.mark.parametrize(
    "type", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()]
)
@pytest.mark.parametrize("rows", [1, 4, 11])
@pytest.mark.parametrize("windows", [{"w": sl.tumbling(4)}, {"w": sl.sliding(4, every=2)}], ids=["tumbling", "sliding"])
def test_logarithms_are_of_numbers_and_not_of_how_these_are_stored(
    windows: dict[str, Any], rows: int, type: pa.DataType
) -> None:
    begun, unit = 1_700_000_000_000_000_000, 1 if type.bit_width < 32 else 20_000_000
    values = [value * unit for value in (3, 7, 5, 2, 9, 100, 1, 1, 12, 33, 4)][:rows]
    op = sl.Operator(sl.Spec("t", windows, {"g": sl.geometric_mean("v"), "m": sl.mean("v")}, watermark=sl.ordered()))
    given = np.array(values).astype(type.to_pandas_dtype())
    data = pa.record_batch({"t": begun + np.arange(rows), "v": given})
    found = pa.concat_tables([op.push(data).windows, op.flush().windows]).to_pylist()
    assert found
    for row in found:
        some = values[max(row["window_start"] - begun, 0) : row["window_end"] - begun]
        assert row["g"] == pytest.approx(math.prod(some) ** (1 / len(some)), rel=1e-12)
        assert row["m"] == pytest.approx(sum(some) / len(some), rel=1e-12)
