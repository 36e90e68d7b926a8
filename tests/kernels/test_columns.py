"""Windows over a dense column, against numpy's own view of every window."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from asv_benchmarks.research import dense_columns as columns


def column(size: int, type: type = np.int64) -> np.ndarray:
    return np.random.default_rng(size).integers(-(2**30), 2**30, size).astype(type)


@pytest.mark.parametrize("type", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 2, 3, 64, 100, 127, 128, 130, 191, 192, 1000, 1024])
@pytest.mark.parametrize("length", [1024, 1025, 1087, 5000, 9216])
def test_sliding(type: type, size: int, length: int) -> None:
    x = column(length, type)
    windows = sliding_window_view(x, size)
    least, total = np.full((2, length - size + 1), 7, type)
    columns.sliding_min(x, size, least)
    columns.sliding_sum(x, size, total)
    np.testing.assert_array_equal(least, windows.min(axis=1))
    np.testing.assert_array_equal(total, windows.sum(axis=1).astype(type))


@pytest.mark.parametrize("slide", [1, 3, 4, 16, 48, 64, 100])
def test_panes(slide: int) -> None:
    x = column(slide * 77)
    least, total = np.empty((2, 77), np.int64)
    columns.pane_min(x, slide, least)
    columns.pane_sum(x, slide, total)
    np.testing.assert_array_equal(least, x.reshape(-1, slide).min(axis=1))
    np.testing.assert_array_equal(total, x.reshape(-1, slide).sum(axis=1))


def test_many_sizes_at_once() -> None:
    x, sizes = column(3000), [1, 2, 3, 500, 512, 1000, 2999, 3000]
    out = np.empty((len(sizes), x.size), np.int64)
    columns.many_min(x, sizes, out)
    for size, found in zip(sizes, out, strict=True):
        np.testing.assert_array_equal(found[: x.size - size + 1], sliding_window_view(x, size).min(axis=1))
