"""All figures by name."""

from __future__ import annotations

from asv_benchmarks.papers import scotty_latency, scotty_memory
from asv_benchmarks.papers.figure import Figure

_MODULES = (scotty_memory, scotty_latency)
FIGURES: dict[str, Figure] = {figure.name: figure for module in _MODULES for figure in module.FIGURES}
