"""Prefix differences: the prefix up to a range's last cell, less the prefix before its first cell.

Two steps for each window of any length: subtract-on-evict for all windows at once. Only for partials that can be
removed exactly: counts, sums of integers, and aggregates with a user's inverse.
"""

import numpy as np

from slicing.kernels.strategies.interface import Combinations, Strategy


def prefix_difference(first, last, cells):
    bottom, top = _span(first, last)
    scratch = np.arange(bottom, top)
    into = np.arange(cells + 1, cells + scratch.size)
    less = np.flatnonzero(first > bottom)
    shift = cells - bottom  # the scratch partial of a cell: all cells up to it
    none = np.empty(0, np.int64)
    return Combinations(scratch, into, into - 1, last - 1 + shift, none, none, less, first[less] - 1 + shift)


def cost(first, last, cells):
    bottom, top = _span(first, last)
    return 2 * (top - bottom) + 2 * first.size


def _span(first, last):
    return int(first.min(initial=np.iinfo(np.int64).max)), int(last.max(initial=0))


STRATEGY = Strategy(
    "prefix difference", prefix_difference, cost, "sums and counts that are exact: two steps a window", removes=True
)
