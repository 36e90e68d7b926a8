"""Which strategy combines cells into windows: the cheapest by what it makes and combines, or the one asked for."""

from __future__ import annotations

import numpy as np

from slicing.kernels.strategies import STRATEGIES
from slicing.system.arrays import Ints

AUTO = "auto"
EAGER = "eager store"
BUCKETS = "buckets"
NAMES = (AUTO, *STRATEGIES, EAGER, BUCKETS)


FEW = 1 << 14  # combinations that are done before another strategy's kernels are loaded


def choose(first: Ints, last: Ints, cells: int, removes: bool = False, few: int = FEW) -> str:
    """The cheapest strategy; ``removes``: for lanes whose partials can be removed from one another."""
    if cells * first.size <= few:
        return "recompute"
    each = int(np.add.reduce(last - first))
    if each <= 3 * first.size + few:
        return "recompute"
    if not removes and STRATEGIES["two stacks"].cost(first, last, cells) <= min(each, 2 * cells + 3 * first.size):
        return "two stacks"  # each cell twice, as no other does: the others are not asked
    found = costs(first, last, cells, removes)
    return min(found, key=found.__getitem__)


def costs(first: Ints, last: Ints, cells: int, removes: bool = False) -> dict[str, int]:
    """How many partials each strategy that may be chosen makes and combines."""
    names = ["sparse table", "recompute", *(["prefix difference"] if removes else [])]
    found = {name: STRATEGIES[name].cost(first, last, cells) for name in names}
    if min(found.values()) > 2 * first.size:  # worth asking: one pass over the ranges
        found["two stacks"] = STRATEGIES["two stacks"].cost(first, last, cells)
    return found
