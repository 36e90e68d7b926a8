"""Each range anew: a combination for each cell of a range but one. The plain one that all others are held against."""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import NONE, Combinations, Strategy


def recompute(first, last, cells):
    more, rest = np.empty((2, int(np.add.reduce(last - first)) - first.size), np.int64)
    _others(first, last, more, rest)
    return Combinations(None, NONE, NONE, first, more, rest)


@kernel
def _others(first, last, more, rest):
    n = np.int64(0)
    for r in range(first.size):
        for c in range(first[r] + 1, last[r]):
            more[n], rest[n] = r, c
            n += 1


def cost(first, last, cells):
    return int((last - first).sum())


STRATEGY = Strategy("recompute", recompute, cost, "few or short windows: each one anew")
