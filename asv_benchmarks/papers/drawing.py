"""A figure as SVG: its panels, and what the paper states beside what the run found below them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from asv_benchmarks.papers.figure import Figure, Measured, Outcome, Panel

WIDTH, HEIGHT = 5.2, 4.0
ACROSS = 4  # panels side by side


def draw(figure: Figure, outcome: Outcome, folder: Path) -> Path:
    """Write ``folder/<name>.svg``; the path."""
    folder.mkdir(parents=True, exist_ok=True)
    across = min(len(outcome.panels), ACROSS)
    down = -(-len(outcome.panels) // across)
    found = _text(outcome, columns=24 + 56 * across)
    below = 0.17 * (found.count("\n") + 2)
    size = WIDTH * across, HEIGHT * down + below
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "font.size": 9}):
        canvas, axes = plt.subplots(down, across, figsize=size, squeeze=False)
        for axis, panel in zip(axes.flat, outcome.panels, strict=False):
            _panel(axis, panel)
        for axis in axes.flat[len(outcome.panels) :]:
            axis.remove()
        canvas.suptitle(f"{figure.paper}: {figure.title}")
        canvas.tight_layout(rect=(0, below / size[1], 1, 1))
        canvas.text(0.01, 0.01, found, va="bottom", fontsize=8, family="monospace")
        path = folder / f"{figure.name}.svg"
        canvas.savefig(path, metadata={"Date": None})
        plt.close(canvas)
    return path


def _text(outcome: Outcome, columns: int) -> str:
    told = [
        textwrap.fill(f"{who}: {what}", columns, subsequent_indent="       ")
        for finding in outcome.findings
        for who, what in (("paper", finding.paper), (" here", finding.ours))
    ]
    return "\n".join(told).replace("$", r"\$")


def _panel(axis: Axes, panel: Panel) -> None:
    places = list(range(len(panel.at))) if any(isinstance(x, str) for x in panel.at) else list(panel.at)
    for name, numbers in panel.series.items():
        known = [(x, y) for x, y in zip(places, numbers, strict=True) if y is not None]
        if not known:
            continue
        xs, ys = zip(*known, strict=True)
        low = [y - y.low if isinstance(y, Measured) else 0 for y in ys]
        high = [y.high - y if isinstance(y, Measured) else 0 for y in ys]
        axis.errorbar(xs, ys, yerr=[low, high], marker="o", markersize=3, capsize=2, label=name)
    if any(isinstance(x, str) for x in panel.at):
        axis.set_xticks(places, [str(x) for x in panel.at])
    elif panel.log_x and min(places) >= 0:
        axis.set_xscale("log" if min(places) > 0 else "symlog")
    if panel.log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
