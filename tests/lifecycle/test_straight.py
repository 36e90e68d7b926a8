"""Rows in order go straight from columns to windows, and nothing shows but the time that they take."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import slicing as sl
from slicing import push
from slicing.query.policy import Policy
from slicing.stages import straight
from slicing.system.threads import Share

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


def query(chance: random.Random, time: pa.DataType, values: pa.DataType) -> sl.Spec:
    unit, _ = UNITS[time]

    def span(length: int) -> Any:
        return f"{length}{unit}" if unit else length

    spreads = not (pa.types.is_duration(values) or pa.types.is_floating(values))  # of floats, last bits may differ
    names = [name for name in AGGREGATES if name != "spread" or spreads]
    delay = chance.choice([0, 2, 50])
    policies = [sl.bounded(span(delay)), sl.bounded(span(delay)), sl.ordered(on_disorder="late"), sl.manual()]
    return sl.Spec(
        "t",
        {"w": sl.tumbling(span(chance.choice([1, 3, 10, 1000])), span(chance.choice([0, 0, 2])))},
        {name: AGGREGATES[name] for name in chance.sample(names, chance.choice([1, 2, 4]))},
        watermark=chance.choice(policies),
        allowed_lateness=span(chance.choice([0, delay])),
        emit=chance.choice(["final", "final", "final", "updates"]),
        on_overflow="null",
        on_null_time="late",
    )


def batch(chance: random.Random, now: int, time: pa.DataType, values: pa.DataType) -> tuple[pa.RecordBatch, int]:
    """Rows that mostly come in order and have values, and the latest time so far."""
    words, step = [], chance.choice([0, 1, 1, 5, 400, 10**6 if time != pa.date32() else 20])
    for _ in range(chance.choice([0, 1, 2, 20, 300])):
        now += chance.randint(0, step)
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
    policy = Policy() if of_floats else Policy(numpy_cuts=4, share=Share(rows=8))  # several threads share few rows
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
        assert str(one.to_pylist()) == str(of_other.to_pylist())  # NaN is NaN
    held = {name: mine.stats[name] for name in ("cells", "bytes")}  # a slice may have a cell in each of several runs
    assert mine.stats == other.stats | held
    assert (mine.watermark, dict(mine.progress)) == (other.watermark, dict(other.progress))


def test_most_pushes_in_order_go_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an open cell or none, with jumps and with late watermarks; not out of order, not late, not with nulls."""
    taken = []

    def counting(*arguments: Any) -> Any:
        found = straight.straight(*arguments)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(push, "straight", counting)
    asked = {"watermark": sl.bounded(25), "on_null_time": "late"}
    op, far = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, **asked)), 10**6
    pushes: list[list[int | None]] = [[1, 2, 12], [12, 30, 31], [far, far + 1], [far + 5], [far + 4, far + 30]]
    pushes += [[far + 35, None], [far + 90, far + 80]]
    for times in pushes:
        op.push(pa.table({"t": times, "v": [1.0] * len(times)}))
    op.push(pa.table({"t": [far + 95], "v": pa.nulls(1, pa.float64())}))
    op.push(pa.table({"t": [far + 96], "v": [1.0]}))
    assert taken == [True, True, True, True, False, False, False, True], "not tried right after rows out of order"
