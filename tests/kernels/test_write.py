"""Writes past the caches: numbers that are too many for the caches are the same as few."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from slicing.columns.arrow_out import MANY_ROWS, steps
from slicing.kernels.write import MANY, count_on


@pytest.mark.parametrize("size", [0, 1, MANY - 1, MANY, MANY + 3])
@pytest.mark.parametrize(("low", "step"), [(0, 1), (1_790_000_000_000_000_000, 60_000_000_000), (-5, -7)])
def test_numbers_count_on(size: int, low: int, step: int) -> None:
    out = np.full(size + 2, -1)
    count_on(np.int64(low), np.int64(step), out[1:-1])  # not at the beginning of a cache line
    assert out[0] == out[-1] == -1
    assert np.array_equal(out[1:-1], low + np.arange(size) * step)


def test_many_numbers_are_stored_past_the_caches() -> None:
    kernel = njit(count_on.py_func)
    kernel(np.int64(0), np.int64(1), np.empty(3, np.int64))
    assert "!nontemporal" in "".join(kernel.inspect_llvm().values())


@pytest.mark.parametrize("size", [0, 5, MANY_ROWS - 1, MANY_ROWS, MANY])
def test_steps_of_any_number(size: int) -> None:
    assert np.array_equal(
        steps(1_790_000_000_000_000_000, size, 1000), 1_790_000_000_000_000_000 + 1000 * np.arange(size)
    )
