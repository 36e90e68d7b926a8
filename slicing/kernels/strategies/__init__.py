"""Combination strategies, one a file: what they take and give is in ``interface``; all give the same answers."""

from slicing.kernels.strategies import prefix_difference, recompute, sparse_table, two_stacks
from slicing.kernels.strategies.interface import Combinations, Strategy

_MODULES = (recompute, prefix_difference, two_stacks, sparse_table)
STRATEGIES = {module.STRATEGY.name: module.STRATEGY for module in _MODULES}

__all__ = ["STRATEGIES", "Combinations", "Strategy"]
