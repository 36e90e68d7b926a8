"""The order by a key, of which only rows that tie are looked at once more."""

import random

import numpy as np
import pytest

from slicing.columns.order import order_by, order_with_ties

SINCE = 1_700_000_000_000_000_000


@pytest.mark.parametrize("case", range(60))
def test_ties_are_ordered_by_finer_keys(case):
    chance = random.Random(case)
    size = chance.choice([0, 1, 2, 7, 300])
    key, first, second = (
        np.array([SINCE + chance.randrange(spread) for _ in range(size)], np.int64)
        for spread in (chance.choice([1, 3, 10**9]), 2, chance.choice([1, 3]))
    )
    if chance.random() < 0.3:
        key.sort()
    looked_at: list[int] = []

    def finer(rows):
        looked_at.extend(rows.tolist())
        return second[rows], first[rows]

    assert order_with_ties(key, finer).tolist() == order_by(second, first, key).tolist()
    values, counts = np.unique(key, return_counts=True)
    assert sorted(looked_at) == np.flatnonzero(np.isin(key, values[counts > 1])).tolist()
