"""Chooses the strategy that combines cells into windows: the one that makes fewest partials, or the requested one."""

from __future__ import annotations

import numpy as np

from slicing.kernels.strategies import STRATEGIES
from slicing.system.arrays import Ints

AUTO = "auto"
EAGER = "eager store"
BUCKETS = "buckets"
NAMES = (AUTO, *STRATEGIES, EAGER, BUCKETS)


FEW_COMBINATIONS = 1 << 14  # up to so many, "recompute" is cheaper than loading another strategy's kernels


def choose(first: Ints, last: Ints, cells: int, removes: bool = False, few: int = FEW_COMBINATIONS) -> str:
    """The name of the cheapest strategy. ``removes``: whether the lanes' partials can be removed from one another."""
    if cells * first.size <= few:
        return "recompute"
    each = int(np.add.reduce(last - first))
    if each <= 3 * first.size + few:
        return "recompute"
    if not removes and STRATEGIES["two stacks"].cost(first, last, cells) <= min(each, 2 * cells + 3 * first.size):
        return "two stacks"  # reads each cell only twice: no other strategy is cheaper, so their costs are not computed
    found = costs(first, last, cells, removes)
    return min(found, key=found.__getitem__)


def costs(first: Ints, last: Ints, cells: int, removes: bool) -> dict[str, int]:
    """How many partials each possible strategy makes and combines."""
    names = ["sparse table", "recompute", *(["prefix difference"] if removes else [])]
    found = {name: STRATEGIES[name].cost(first, last, cells) for name in names}
    if min(found.values()) > 2 * first.size:  # its cost takes one pass over the ranges
        found["two stacks"] = STRATEGIES["two stacks"].cost(first, last, cells)
    return found
