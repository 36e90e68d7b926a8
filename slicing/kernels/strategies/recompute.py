"""Each range anew: a combination for each cell of a range but one. The plain one that all others are held against."""

import numpy as np

from slicing.kernels.strategies.interface import NONE, Combinations, Strategy


def recompute(first, last, cells):
    count = last - first - 1
    rest = np.repeat(first + 1 - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Combinations(None, NONE, NONE, first, np.repeat(np.arange(first.size), count), rest)


def cost(first, last, cells):
    return int((last - first).sum())


STRATEGY = Strategy("recompute", recompute, cost, "few or short windows: each one anew")
