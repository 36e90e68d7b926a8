"""Ways to combine that the engine never picks, kept for comparison: tested and measured beside those it does."""

from asv_benchmarks.research import daba_lite, van_herk
from slicing.kernels.strategies.interface import Strategy

STRATEGIES: dict[str, Strategy] = {module.STRATEGY.name: module.STRATEGY for module in (daba_lite, van_herk)}
