"""Recompute each range: one combination for each cell after the first. The plain reference for all other strategies."""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import NONE, Combinations, Strategy

UNCOUNTED = 1024  # combinations for which room is made without counting them, which takes 3 us


def recompute(first, last, cells):
    most = first.size * cells
    if most > UNCOUNTED:
        most = int(np.add.reduce(last - first)) - first.size
    more, rest = np.empty((2, most), np.int64)
    n = _others(first, last, more, rest)
    return Combinations(None, NONE, NONE, first, more[:n], rest[:n])


@kernel
def _others(first, last, more, rest):
    n = np.int64(0)
    for r in range(first.size):
        for c in range(first[r] + 1, last[r]):
            more[n], rest[n] = r, c
            n += 1
    return n


def cost(first, last, cells):
    return int((last - first).sum())


STRATEGY = Strategy("recompute", recompute, cost, "few or short windows: each one anew")
