"""Windows of periodic types as ranges of cells or rows that move forward, against windows by hand."""

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
from slicing.closing import emit
from slicing.closing.ways import ranges
from slicing.query.policy import Policy
from slicing.stages import straight

CASES = max(int(os.environ.get("SLICING_CASES", "60")), 1)
SEED = int(os.environ.get("SLICING_SEED", "0"))
BEGUN = 1_700_000_000_000_000_000
AGGS = {"n": sl.count(), "s": sl.sum("v"), "m": sl.mean("v"), "lo": sl.min("v"), "hi": sl.max("v")}


FEW = Policy(stepped_several=1, stepped_rows=1)  # few windows suffice


def data(chance: random.Random) -> tuple[list[int], list[Any]]:
    """Rows in order with gaps, a few at a time, whose values float64 or int64 just holds."""
    times, now = [], BEGUN
    for _ in range(chance.choice([1, 30, 400])):
        now += chance.choice([0, 1, 1, 1, 2]) if chance.random() > 0.05 else chance.choice([40, 500, 10**12])
        times.append(now)
    if chance.random() < 0.5:
        return times, [chance.choice([0.1, -1e15, 1e15, 2.5, -0.0]) for _ in times]
    return times, [chance.choice([1, -(2**53), 2**62, -5]) for _ in times]


def by_hand(
    windows: dict[str, tuple[int, int, int]], times: list[int], values: list[Any], keys: list[int]
) -> list[tuple[Any, ...]]:
    """All windows with rows: (end, name, start, key, values), in order."""
    found: dict[tuple[int, str, int, int], list[Any]] = {}
    for name, (size, every, offset) in windows.items():
        for time, value, key in zip(times, values, keys, strict=True):
            start = (time - offset) // every * every + offset
            while start > time - size:
                found.setdefault((start + size, name, start, key), []).append(value)
                start -= every
    return [(*key, held) for key, held in sorted(found.items())]


def spec_of(chance: random.Random, by: list[str]) -> tuple[dict[str, tuple[int, int, int]], sl.Spec]:
    windows = {}
    for name in chance.choice(["a", "a", "ab", "abc"]):
        every = chance.choice([1, 2, 3, 10])
        windows[name] = every * chance.choice([1, 2, 7, 40]) + chance.choice([0, 0, 1]), every, chance.choice([0, 1])
    sliding = {name: sl.sliding(size, every, offset) for name, (size, every, offset) in windows.items()}
    aggs = {name: AGGS[name] for name in chance.sample([*AGGS], chance.choice([1, 2, 5]))}
    policy = sl.bounded(chance.choice([0, 5]))
    return windows, sl.Spec("t", sliding, aggs, by=by, watermark=policy, on_overflow="null")


@pytest.mark.parametrize("case", range(SEED, SEED + CASES))
def test_windows_by_hand(case: int) -> None:
    chance = random.Random(case)
    by, (times, values) = chance.choice([[], ["k"]]), data(chance)
    windows, spec = spec_of(chance, by)
    keys = [chance.choice([7, 3, -1, 40]) if by else 0 for _ in times]
    table = pa.table({"t": times, "v": values, "k": keys})
    way = chance.choice([None, "ranges", "one table"])
    op = sl.Operator(
        spec,
        policy=replace(
            FEW, stepped=1, stepped_cells=10**6, stepped_types=10**6, way=way, straight=chance.random() < 0.7
        ),
    )
    found, at = list[pa.Table](), 0
    while at < len(times):
        size = chance.choice([1, 50, 200])
        found.append(op.push(table.slice(at, size)).windows)
        at += size
    rows = pa.concat_tables([*found, op.flush().windows]).to_pylist()
    wanted = by_hand(windows, times, values, keys)
    named = [(row["window_end"], row["window"], row["window_start"], row.get("k", 0)) for row in rows]
    assert named == [each[:4] for each in wanted]
    for row, (*_, held) in zip(rows, wanted, strict=True):
        exact = math.fsum(held) if isinstance(held[0], float) else sum(held)
        rest = 1e-15 * math.fsum(map(abs, held)) if isinstance(held[0], float) else 0  # compensated sums are not exact
        expected = {"n": len(held), "lo": min(held), "hi": max(held), "m": exact / len(held), "s": exact}
        for name in spec.aggs:
            if name in ("n", "lo", "hi"):
                assert row[name] == expected[name]
            elif name == "s" and isinstance(exact, int):
                assert row[name] == (exact if -(2**63) <= exact < 2**63 else None)
            else:
                assert row[name] == pytest.approx(expected[name], rel=1e-15, abs=rest)


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("types", [1, 2])
def test_where_they_come_from(monkeypatch: pytest.MonkeyPatch, rows: int, gaps: bool, types: int) -> None:
    """From rows if slices have few, otherwise from cells, as strategies tell."""
    took = []
    for module, name in ((straight, "of_columns"), (ranges, "over_cells")):
        kept = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, kept=kept, name=name: took.append(name) or kept(*given))
    slices = np.arange(3000)[np.random.default_rng(1).random(3000) > 0.1 * gaps]
    table = pa.table({"t": np.repeat(BEGUN + slices * 10, rows), "v": np.arange(slices.size * rows) % 1000})
    windows = {"w": sl.sliding(500, 10), "x": sl.sliding(30, 10)}
    spec = sl.Spec("t", dict([*windows.items()][:types]), AGGS, watermark=sl.manual())

    def pushed(policy: Policy) -> pa.Table:
        op = sl.Operator(spec, policy=policy)
        first = op.push(table.slice(0, 100)).windows
        assert not first.num_rows
        op.advance(BEGUN)
        op._upto = BEGUN + 30_000
        return pa.concat_tables([op.push(table.slice(100)).windows, op.flush().windows])

    found = pushed(FEW)
    assert set(took) == {"of_columns" if rows == 1 else "over_cells"}
    took.clear()
    assert found.equals(pushed(Policy(strategies=("recompute", "recompute")))) and not took


@pytest.mark.parametrize("types", [1, 3])
def test_of_keys(monkeypatch: pytest.MonkeyPatch, types: int) -> None:
    took, kept = [], emit.over_cells
    monkeypatch.setattr(emit, "over_cells", lambda *given: took.append(len(given[2])) or kept(*given))
    chance = np.random.default_rng(types)
    columns = {
        "t": BEGUN + np.sort(chance.integers(0, 3000, 900)) * 10,
        "v": np.arange(900),
        "k": chance.integers(0, 5, 900),
    }
    windows = {"w": sl.sliding(500, 10), "x": sl.sliding(45, 10), "y": sl.tumbling(7)}
    spec = sl.Spec("t", dict([*windows.items()][:types]), AGGS, by="k", watermark=sl.manual())
    op = sl.Operator(spec, policy=FEW)
    found = pa.concat_tables([op.push(pa.table(columns)).windows, op.flush().windows])
    assert len(took) == types and sum(took) == found.num_rows
    other = sl.Operator(spec, policy=Policy(strategies=("recompute", "recompute")))
    assert pa.concat_tables([other.push(pa.table(columns)).windows, other.flush().windows]).equals(found)
    assert len(took) == types
