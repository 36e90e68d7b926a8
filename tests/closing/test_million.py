"""Every way to combine, stepped side by side through one long random walk.

`SLICING_STEPS` says how long (20,000 steps by default). The long run takes a million, some minutes of one core:

    SLICING_STEPS=1000000 python -m pytest tests/closing/test_million.py
"""

from __future__ import annotations

import math
import os

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

import slicing as sl
from asv_benchmarks import research
from slicing.cells import combining
from slicing.kernels import combine as kinds
from slicing.kernels.strategies import STRATEGIES
from slicing.query.policy import Policy

STEPS = int(os.environ.get("SLICING_STEPS", "20000"))
CHUNK = 4000
PRIME = 2_147_483_629
SPECIAL = [math.nan, math.inf, 1e300, -0.0]


def walk(rng: np.random.Generator, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """A queue that cells enter and leave one at a time, in bursts: what it holds after each step."""
    enters = np.repeat(rng.random(steps) < 0.5, rng.integers(1, 60, steps))[:steps]
    low, high, found = 0, 1, np.empty((2, steps), np.int64)
    for step, more in enumerate(enters.tolist()):
        high += more or high - low == 1
        low += not more and high - low > 1
        found[:, step] = low, high
    return found[0], found[1]


@njit
def composed(into, source, out, cells):
    """x -> a * x + b modulo a prime, one map after another: in any other order it is another map."""
    for i in range(into.size):
        p, q = out[into[i]].copy(), cells[source[i]]
        if source[i] < into[i]:
            p, q = q, p
        out[into[i], 0] = p[0] * q[0] % PRIME
        out[into[i], 1] = (p[1] * q[0] + q[1]) % PRIME


@njit
def one_after_another(first, last, cells):
    out = np.empty((first.size, 2), np.int64)
    for r in range(first.size):
        a, b = 1, 0
        for c in range(first[r], last[r]):
            a, b = a * cells[c, 0] % PRIME, (b * cells[c, 0] + cells[c, 1]) % PRIME
        out[r, 0], out[r, 1] = a, b
    return out


def in_order(plan, cells: np.ndarray) -> np.ndarray:
    work = cells if plan.scratch is None else plan.partials(cells)
    if plan.scratch is not None:
        composed(plan.into, plan.source, work, work)
    place = plan.seed  # answers come before what is added to them
    answer = work[place]
    both = np.concatenate([answer, work])
    composed(plan.more, plan.rest + len(answer), both, both)
    return both[: len(answer)]


def words(kind: int, plan, block: np.ndarray) -> np.ndarray:
    work = block if plan.scratch is None else plan.partials(block)
    if plan.scratch is not None:
        kinds.combine(kind, plan.into, plan.source, work, work)
    answer = work[plan.seed]
    kinds.combine(kind, plan.more, plan.rest, answer, work)
    if plan.less.size:
        kinds.remove(kind, plan.less, plan.gone, answer, work)
    return answer


def floats(rng: np.random.Generator, size: int) -> np.ndarray:
    value = rng.integers(1, 99, size).astype(float)
    some = rng.random(size) < 0.02
    value[some] = rng.choice(SPECIAL, some.sum())
    return value


@njit
def summed(first, last, value):
    out = np.empty(first.size)
    for r in range(first.size):
        total = 0.0
        for c in range(first[r], last[r]):
            total += value[c]
        out[r] = total
    return out


def test_strategies_step_by_step() -> None:
    rng = np.random.default_rng(11)
    left_without_a_trace = 0
    for _ in range(-(-STEPS // CHUNK)):
        first, last = walk(rng, CHUNK)
        cells = int(last.max())
        value, whole = floats(rng, cells), rng.integers(-(2**62), 2**62, cells)
        maps = rng.integers(1, PRIME, (cells, 2))
        basic, exact = kinds.identity(kinds.BASIC_F, cells), kinds.identity(kinds.BASIC_I, cells)
        basic[:, 0] = exact[:, 0] = 1
        basic.view(float)[:, 1] = value
        basic[:, 3] = basic[:, 4] = np.arange(cells) * 7919 % 1009
        exact[:, 1], exact[:, 2] = whole & 0xFFFFFFFF, whole >> 32
        wanted, total = one_after_another(first, last, maps), summed(first, last, value)
        prefix = np.concatenate([[0], np.cumsum(whole.astype(object))])
        integers = prefix[last] - prefix[first]
        for strategy in (STRATEGIES | research.STRATEGIES).values():
            plan = strategy.lists(first, last, cells)
            found = words(kinds.BASIC_I, plan, exact)
            assert (found[:, 2].astype(object) * 2**32 + found[:, 1] == integers).all(), strategy.name
            np.testing.assert_array_equal(found[:, 0], last - first)
            if strategy.removes:
                continue
            np.testing.assert_array_equal(in_order(plan, maps), wanted, err_msg=strategy.name)
            found = words(kinds.BASIC_F, plan, basic)
            np.testing.assert_allclose(found.view(float)[:, 1], total, rtol=1e-12, err_msg=strategy.name)
            assert (found[:, 3] <= found[:, 4]).all()
        left_without_a_trace += int((np.isfinite(total) & (total < 1e300)).sum())
    assert left_without_a_trace > STEPS // 10


def rows(steps: int) -> pa.Table:
    rng = np.random.default_rng(12)
    time = np.arange(steps) // 3
    late = rng.random(steps) < 0.2
    time[late] -= rng.integers(0, 40, late.sum())
    order = rng.integers(0, 3, steps)
    return pa.table({"t": time, "k": order, "x": floats(rng, steps), "i": rng.integers(-(2**50), 2**50, steps)})


AGGS = {"n": sl.count(), "least": sl.min("x"), "most": sl.max("x"), "first": sl.first("x"), "last": sl.last("x")}
EXACT = {"n": sl.count(), "whole": sl.sum("i"), "mean": sl.mean("i")}


@pytest.mark.parametrize("by", [[], ["k"]])
def test_operators_step_by_step(by: list[str]) -> None:
    """Pushes of random sizes, rows up to 40 ticks late; every way gives the same windows at each push."""
    table, windows = rows(STEPS), {"s": sl.sliding(200, every=2), "u": sl.sliding(90, every=7)}
    asked = {
        "floats": sl.Spec("t", windows, AGGS | {"total": sl.sum("x")}, by=by, watermark=sl.bounded(40)),
        "exact": sl.Spec("t", windows, EXACT, by=by, watermark=sl.bounded(40)),
    }
    names = [name for name in combining.NAMES if name != "recompute"]
    ops = {
        (about, name): sl.Operator(spec, policy=Policy(combine=name, recomputed=0, tree_slices=8))
        for about, spec in asked.items()
        for name in ["recompute", *names]
        if about == "exact" or name not in STRATEGIES or not STRATEGIES[name].removes
    }
    rng, at, closed = np.random.default_rng(13), 0, 0
    while at < STEPS:
        some = table.slice(at, int(rng.integers(1, max(STEPS // 20, 60))))
        at += some.num_rows
        outs = {key: op.push(some).windows if at < STEPS else op.flush().windows for key, op in ops.items()}
        for (about, name), out in outs.items():
            plain = outs[about, "recompute"]
            for column in plain.column_names:
                if column == "total":
                    one, other = (t[column].to_numpy() for t in (out, plain))
                    np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=name)
                elif column in ("least", "most", "first", "last"):
                    np.testing.assert_array_equal(out[column].to_numpy(), plain[column].to_numpy(), err_msg=name)
                else:
                    assert out[column].equals(plain[column]), (name, column)
        closed += outs["exact", "recompute"].num_rows
    assert closed > STEPS // 10
