"""Every way to combine cells into windows gives what combining them one after the other gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from asv_benchmarks import research
from asv_benchmarks.research.daba_lite import busiest_step
from slicing.cells import combining
from slicing.kernels import combine as kinds
from slicing.kernels.combine import REMOVABLE, combine, identity, remove
from slicing.kernels.strategies import STRATEGIES
from slicing.kernels.strategies.two_stacks import stacked, two_stacks

KINDS = sorted(kinds.IDENTITY)
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0]


def partials(kind: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random partials as rows make them, some of them empty."""
    block = identity(kind, size)
    floats = block.view(np.float64)
    full = rng.random(size) < 0.8
    block[full, 0] = rng.integers(1, 5, full.sum())
    small = rng.integers(-9, 9, (size, 7))
    if kind in (*kinds.FLOATS, kinds.MOMENTS, kinds.PRODUCT_F):
        special = kind != kinds.MOMENTS and rng.random() < 0.5
        floats[full, 1] = rng.choice(SPECIAL, full.sum()) if special else small[full, 1]
    if kind == kinds.MOMENTS:
        floats[full, 2] = abs(small[full, 2])
    elif kind in kinds.FLOATS:
        floats[full, 2] = small[full, 4] * 2.0**-60  # what the sum lost
        block[full, 3:] = small[full, 2 : block.shape[1] - 1]
    elif kind == kinds.PRODUCT_I:
        block[full, 1], floats[full, 2] = small[full, 1], small[full, 1]
    elif kind not in (kinds.COUNT, kinds.PRODUCT_F):
        words = slice(1, block.shape[1])
        block[full, words] = small[full, 1 : block.shape[1]]
        if kind in (*kinds.INTEGERS, kinds.NET_SUM):
            block[full, 1] = abs(block[full, 1])  # the low half of a sum is not negative
        if kind in (kinds.FIRST, kinds.LAST, kinds.ARG):
            block[full, block.shape[1] - 2] = np.arange(size)[full]  # no two rows tie
            block[full, 3 if kind != kinds.ARG else 4] = np.arange(size)[full]
    return block


def answered(kind: int, block: np.ndarray, plan) -> np.ndarray:
    work = block if plan.scratch is None else plan.partials(block)
    combine(kind, plan.into, plan.source, work, work)
    answer = work[plan.seed]
    combine(kind, plan.more, plan.rest, answer, work)
    if plan.less.size:
        remove(kind, plan.less, plan.gone, answer, work)
    return answer


def one_by_one(kind: int, block: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    answer = identity(kind, first.size)
    for r, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        for c in range(a, b):
            combine(kind, np.array([r]), np.array([c]), answer, block)
    return answer


def whole_products(block: np.ndarray) -> np.ndarray:
    products = np.ldexp(block.view(float)[:, 1], block[:, 2])
    return np.stack([block[:, 0], products.view(np.int64)], 1)


def alike(kind: int, found: np.ndarray, expected: np.ndarray) -> None:
    if kind == kinds.PRODUCT_F:  # a part and a power: only what they are together is defined
        found, expected = whole_products(found), whole_products(expected)
    two = {sums: [1, 2] for sums in (*kinds.FLOATS, kinds.MOMENTS)}
    float_words = {**two, kinds.PRODUCT_F: [1], kinds.PRODUCT_I: [2]}.get(kind, [])
    others = [w for w in range(found.shape[1]) if w not in float_words]
    np.testing.assert_array_equal(found[:, others], expected[:, others])
    for w in float_words:
        np.testing.assert_allclose(found.view(float)[:, w], expected.view(float)[:, w], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_strategies_agree_on_random_ranges(kind, seed):
    rng = np.random.default_rng([kind, seed])
    cells = int(rng.integers(1, 70))
    block = partials(kind, cells, rng)
    ends = rng.integers(0, cells, (40, 2))
    if seed % 2:  # runs of windows that move forward, a key or a window type after the other
        size = int(rng.integers(1, 12))
        run = np.arange(cells)
        ends = np.concatenate([np.stack([np.maximum(run - w + 1, 0), run], 1) for w in (size, 1, 2 * size)])
    elif seed % 4:  # windows of mixed lengths, by their ends
        ends = ends[ends.max(axis=1).argsort()]
    first, last = ends.min(axis=1), ends.max(axis=1) + 1
    with np.errstate(all="ignore"):
        expected = one_by_one(kind, block, first, last)
        for strategy in (STRATEGIES | research.STRATEGIES).values():
            if not strategy.removes or kind in REMOVABLE:
                found = answered(kind, block, strategy.lists(first, last, cells))
                if strategy.removes:
                    found[:, REMOVABLE[kind]] = expected[:, REMOVABLE[kind]]
                alike(kind, found, expected)


def test_two_stacks_make_as_many_partials_as_they_say():
    first, last = np.arange(90), np.arange(90) + 10
    assert stacked(first, last) == two_stacks(first, last, 99).scratch.size < 2 * 99


def test_two_stacks_of_windows_of_mixed_lengths_hold_each_cell_once():
    rng = np.random.default_rng(6)
    first, last = rng.integers(100, 900, 180), np.sort(rng.integers(1000, 1180, 180))
    assert stacked(first, last) == last[-1] - first.min()
    lists = two_stacks(first, last, 1200)
    assert lists.more.size <= 180
    assert combining.choose(first, last, 1200) == "two stacks"


def test_daba_lite_takes_three_combinations_a_step_and_two_stacks_a_whole_window():
    first, last = np.arange(1000), np.arange(1000) + 500
    assert busiest_step(first, last, 1500) == 3
    rng = np.random.default_rng(4)
    last = np.sort(rng.integers(1, 1500, 800))
    first = np.minimum(np.sort(rng.integers(0, 1500, 800)), last - 1)
    assert busiest_step(first, last, 1500) <= 3
