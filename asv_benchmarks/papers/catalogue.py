"""All figures by name."""

from __future__ import annotations

from asv_benchmarks.papers import (
    hammer_slide,
    li_adaptive,
    li_disorder,
    li_joins,
    li_unions,
    li_windows,
    scotty_latency,
    scotty_memory,
    scotty_throughput,
)
from asv_benchmarks.papers.figure import Figure

_MODULES = (
    scotty_memory,
    scotty_latency,
    scotty_throughput,
    hammer_slide,
    li_windows,
    li_disorder,
    li_adaptive,
    li_joins,
    li_unions,
)
FIGURES: dict[str, Figure] = {figure.name: figure for module in _MODULES for figure in module.FIGURES}
