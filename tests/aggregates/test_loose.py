"""Medians, the largest values and distinct values of large cells are selected from values that nobody sorted."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.aggregates.over_lists import Selecting, Windows
from slicing.cells import lists
from slicing.cells.lists import Loose, Picked
from slicing.query.policy import Policy

SINCE = 1_700_000_000_000_000_000
AGGS = {
    "mid": sl.median("v"),
    "low": sl.quantile("v", 0.0),
    "q": sl.quantile("v", 0.85),
    "top": sl.top_k("v", 3),
    "n": sl.count_distinct("v"),
}
WINDOWS = {"tumbling": sl.tumbling(1000), "session": sl.session(40), "whole": sl.whole()}
NUMBERS = {
    "floats": (pa.float64(), [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e308, 5e-324]),
    "integers": (pa.int64(), [2**63 - 1, -(2**63), 2**63 - 2, 0, 7]),
    "unsigned": (pa.uint64(), [2**64 - 1, 2**63, 2**63 - 1, 0, 7]),
}


def windows_of(window: str, rows: list[tuple[int, str, object]], by: bool) -> dict[object, list[object]]:
    """The values of each window, by key and start; a session starts with its first row."""
    kept: dict[object, list[object]] = defaultdict(list)
    started: dict[str, int] = {}
    latest: dict[str, int] = {}
    for time, key, value in sorted(rows, key=lambda row: row[0]):
        of = key if by else ""
        if window == "tumbling":
            start = time - time % 1000
        elif window == "session":
            if of not in latest or time - latest[of] > 40:
                started[of] = time
            start = started[of]
        else:
            start = started.setdefault(of, time)
        latest[of] = time
        kept[of, start] += [] if value is None else [value]
    return kept


def expected(values: list[object]) -> dict[str, object]:
    """The answers, from a window's values."""
    numbers = [float(v) for v in values]  # type: ignore[arg-type]
    one_nan = {"nan" if v != v else v for v in values}
    best = sorted(values, key=lambda v: (v == v, v if v == v else 0), reverse=True)[:3]
    with np.errstate(all="ignore"):
        quantiles = {
            name: None if not numbers else quantile(sorted(numbers), share)
            for name, share in (("mid", 0.5), ("low", 0.0), ("q", 0.85))
        }
    return {**quantiles, "top": best or None, "n": len(one_nan)}


def quantile(ordered: list[float], share: float) -> float:
    if any(map(math.isnan, ordered)):
        return math.nan
    at = share * (len(ordered) - 1)
    a, b, part = ordered[math.floor(at)], ordered[math.ceil(at)], at - math.floor(at)
    if a == b or part == 0:
        return a
    return a / 2 + b / 2 if share == 0.5 else a * (1 - part) + b * part


def same(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9)
    return a == b


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("by", [[], ["k"]], ids=["no key", "by key"])
@pytest.mark.parametrize("most", [0, 60, 1 << 20], ids="merged up to {}".format)
def test_answers_from_values_in_no_order(
    numbers: str, window: str, by: list[str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MERGED_LOOSE", most)
    type, special = NUMBERS[numbers]
    rng = random.Random(f"{numbers} {window} {by} {most}")
    for _ in range(3):
        rows, time = [], SINCE
        for _ in range(rng.randint(1, 400)):
            time += rng.choice([0, 1, 3, 9, 60, 700])
            value = rng.choice([None, rng.choice(special), rng.randint(0, 10**9), rng.randint(0, 10**9)])
            plain = value is None or type != pa.float64()
            rows.append((time - rng.choice([0, 0, 5, 30]), rng.choice("ab"), value if plain else float(value)))
        spec = sl.Spec("t", {"w": WINDOWS[window]}, AGGS, by=by, watermark=sl.bounded(30))
        op, found, at = sl.Operator(spec, policy=Policy(selected=0)), [], 0
        while at < len(rows):
            some = rows[at : at + rng.randint(1, 150)]
            columns = dict(zip("tkv", map(list, zip(*some, strict=True)), strict=True))
            columns["v"] = pa.array(columns["v"], type)
            out = op.push(pa.table(columns))
            assert not out.late.num_rows
            found += out.windows.to_pylist()
            at += len(some)
            if rng.random() < 0.2:
                op = sl.Operator.restore(spec, op.snapshot(), policy=Policy(selected=0))
        found += op.flush().windows.to_pylist()
        wanted = windows_of(window, rows, bool(by))
        assert len(found) == len(wanted)
        for row in found:
            answers = expected(wanted[row.get("k", ""), row["window_start"]])
            for name, answer in answers.items():
                assert same(row[name], answer), (name, row, answer)


def block_of(op: sl.Operator) -> Loose:
    (run,) = op._now.store.runs
    (block,) = run.blocks
    assert isinstance(block, Loose)
    return block


def test_values_of_large_cells_are_not_sorted_until_they_have_to_be() -> None:
    rng = np.random.default_rng(1)
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(1000)}, {"m": sl.median("v"), "top": sl.top_k("v", 2)}))
    for first in (0, 600):
        v = rng.random(600)
        out = op.push(pa.table({"t": SINCE + np.arange(first, first + 600), "v": v}))
        assert block_of(op).raw is not None
    assert out.windows.num_rows == 1
    assert block_of(op).size == 200  # the values of the closed window are gone
    before = block_of(op).nbytes
    op.snapshot()
    assert block_of(op).raw is None
    assert block_of(op).nbytes == before + 200 * 8  # values with counts; the values alone are gone
    assert sorted(v[400:])[-2:][::-1] == op.flush().windows["top"].to_pylist()[0]


def test_values_that_come_push_by_push_are_counted_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all of them may be equal."""
    monkeypatch.setattr(lists, "MERGED_LOOSE", 5000)
    op = sl.Operator(sl.Spec("t", {"w": sl.whole()}, {"m": sl.median("v")}))
    for at in range(0, 20_000, 1000):
        op.push(pa.table({"t": SINCE + np.arange(at, at + 1000), "v": np.arange(1000) % 10 / 7}))
    (block,) = op._now.store.table().blocks
    assert block.size <= 5000
    assert op.flush().windows["m"].to_pylist() == [pytest.approx(4.5 / 7)]


def test_windows_of_several_cells_need_sorted_values() -> None:
    values, one, two = np.array([9, 5, 7, 1, 2, 3]), np.array([0, 1]), np.array([1, 3])
    loose = Loose(np.array([0, 3, 4, 6]), values)
    several = Windows.of(Picked(loose, one, two))
    assert isinstance(several, Windows)
    assert several.ranked(np.array([1, 0]), np.array([2, 1])).tolist() == [[7, 9], [1, 2]]
    alone = Windows.of(Picked(Loose(np.array([0, 3, 4, 6]), values), np.array([0, 2]), np.array([1, 3])))
    assert isinstance(alone, Selecting)
    assert alone.ranked(np.array([1, 0]), np.array([2, 1])).tolist() == [[7, 9], [2, 3]]


@pytest.mark.parametrize("type", [np.int64, np.float64])
def test_results_do_not_lie_in_memory_that_was_given(type: type) -> None:
    given = np.arange(5000).astype(type)
    aggs = {"all": sl.collect("v"), "mid": sl.median("v"), "top": sl.top_k("v", 2)}
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, aggs)
    found = sl.aggregate(pa.table({"t": SINCE + np.arange(5000), "v": given}), spec)
    given[:] = -1
    assert found["all"].to_pylist() == np.arange(5000).reshape(5, 1000).tolist()
    assert found["top"].to_pylist()[0] == [999, 998]


@pytest.mark.parametrize("agg", [sl.median("v"), sl.collect("v"), sl.top_k("v", 2), sl.count_distinct("v")], ids=repr)
@pytest.mark.parametrize("type", [np.int64, np.float64])
def test_open_windows_do_not_lie_in_memory_that_was_given(agg: sl.Aggregate, type: type) -> None:
    """A producer may fill one buffer again and again."""
    given, times = (np.arange(1000) * 10**10).astype(type), SINCE + np.arange(1000)
    whole = pa.table({"t": times.copy(), "v": given.copy()})
    spec = sl.Spec("t", {"w": sl.tumbling(10_000)}, {"x": agg})
    op = sl.Operator(spec)
    op.push(pa.table({"t": times, "v": given}))
    given[:], times[:] = -1, 0
    assert op.flush().windows["x"].to_pylist() == sl.aggregate(whole, spec)["x"].to_pylist()
