"""What a figure is: panels of numbers, and what the paper states beside what a run found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class Measured(float):
    """The median of several runs, which also knows the least and the most of them."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        found = cls(statistics.median(values))
        found.low, found.high = min(values), max(values)
        return found

    def scaled(self, change: Callable[[float], float]) -> Measured:
        """The same runs in another unit: rates of times, for one."""
        return Measured.of([change(self.low), change(float(self)), change(self.high)])


Value = float | None


@dataclass(frozen=True)
class Panel:
    """One diagram: a number for each place on the x axis and each engine; None where an engine was left out."""

    title: str
    x: str
    y: str
    at: Sequence[float | str]
    series: Mapping[str, Sequence[Value]]
    log_x: bool = True
    log_y: bool = True

    def of(self, name: str, at: float | str | None = None) -> Any:
        """An engine's numbers, or its number at one place."""
        numbers = self.series[name]
        return list(numbers) if at is None else numbers[list(self.at).index(at)]


@dataclass(frozen=True)
class Finding:
    """A statement of the paper, and what this run says about it."""

    paper: str
    ours: str


@dataclass(frozen=True)
class Outcome:
    panels: Sequence[Panel]
    findings: Sequence[Finding]
    notes: Sequence[str] = field(default=())

    def panel(self, title: str) -> Panel:
        """The panel whose title begins so."""
        return next(panel for panel in self.panels if panel.title.startswith(title))


@dataclass(frozen=True)
class Effort:
    """How much a run does: ``quick`` takes the small sizes, which show that a figure works and nothing else."""

    quick: bool = False
    runs: int = 5
    threads: tuple[int, ...] = (1, 2)

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, and how it is run."""

    name: str
    paper: str
    title: str
    run: Callable[[Effort], Outcome]
    timed: bool = True  # its numbers are of time: worth something on a quiet machine only


def short(number: float) -> str:
    """Three digits, or a whole number with its thousands."""
    if math.isinf(number) or math.isnan(number):
        return str(number)
    if abs(number) >= 1000 or (number == round(number) and abs(number) >= 1):
        return f"{number:,.0f}"
    return f"{number:.3g}"


def shown(value: float | str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    spread = f" ({short(value.low)}–{short(value.high)})" if isinstance(value, Measured) else ""
    return short(float(value)) + spread


def lines(panel: Panel) -> Iterator[str]:
    """A panel as a Markdown table."""
    yield f"{panel.title}: {panel.y}"
    yield ""
    yield f"| {panel.x} | {' | '.join(panel.series)} |"
    yield f"| ---: |{' ---: |' * len(panel.series)}"
    for place, x in enumerate(panel.at):
        yield f"| {shown(x)} | {' | '.join(shown(numbers[place]) for numbers in panel.series.values())} |"


def report(figure: Figure, outcome: Outcome) -> Iterator[str]:
    """All that a run prints."""
    yield f"## {figure.name}: {figure.title}"
    yield f"{figure.paper}"
    for panel in outcome.panels:
        yield ""
        yield from lines(panel)
    yield ""
    yield "| the paper | this run |"
    yield "| --- | --- |"
    for finding in outcome.findings:
        yield f"| {finding.paper} | {finding.ours} |"
    for note in outcome.notes:
        yield ""
        yield note
