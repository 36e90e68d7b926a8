"""Combination strategies, one in each file; ``interface`` says what they take and return. All give equal answers."""

from slicing.kernels.strategies import prefix_difference, recompute, sparse_table, two_stacks
from slicing.kernels.strategies.interface import Combinations, Strategy

_MODULES = (recompute, prefix_difference, two_stacks, sparse_table)
STRATEGIES = {module.STRATEGY.name: module.STRATEGY for module in _MODULES}

__all__ = ["STRATEGIES", "Combinations", "Strategy"]
