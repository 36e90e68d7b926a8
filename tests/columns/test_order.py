"""Sorting by several columns, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from slicing.columns.order import order_by, sorting


@pytest.mark.parametrize("high", [3, 5000, 10**6, 2**40, 2**60, 2**63])
def test_rows_are_sorted_as_lexsort_does_whether_or_not_one_key_decides(high: int) -> None:
    chance = np.random.default_rng(high)
    for rows in (0, 1, 50, 5000, 20_000):
        keys = chance.integers(0, 4, rows), chance.integers(-high, high, rows)
        np.testing.assert_array_equal(order_by(*keys), np.lexsort(keys))
        spread = chance.permutation(rows) * 7  # all different
        np.testing.assert_array_equal(order_by(keys[0], spread), np.lexsort((keys[0], spread)))
        assert sorting(np.zeros(rows, np.int64), np.arange(rows)) is None
