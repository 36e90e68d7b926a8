"""Taking times: all engines in turn, CPU time of the process, once their answers are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asv_benchmarks.papers.figure import Effort, Measured, Panel, Value
from asv_benchmarks.peers.answers import Disagreement

Work = Callable[[], Any]
Clock = Callable[[], float]
Column = npt.NDArray[Any]
Answer = Sequence[Column]  # columns, the last one the aggregate; rows in any order


def seconds(works: Mapping[str, Work], runs: int, clock: Clock = time.process_time) -> dict[str, Measured]:
    """What each piece of work takes, run in turn so that all meet the same weather."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            start = clock()
            work()
            spent[name].append(max(clock() - start, 1e-9))
    return {name: Measured.of(found) for name, found in spent.items()}


def check(answers: Mapping[str, Answer]) -> None:
    """Refuse answers that differ by more than the last bits of a float."""
    first, expected = "", ()
    for name, answer in answers.items():
        found = _sorted(answer)
        if not first:
            first, expected = name, found
            continue
        sizes = [column.size for column in found[:1]], [column.size for column in expected[:1]]
        if sizes[0] != sizes[1]:
            raise Disagreement(f"{name} gives {sizes[0]} windows, {first} {sizes[1]}")
        for one, other in zip(found, expected, strict=True):
            if not np.allclose(one.astype(float), other.astype(float), rtol=1e-9, atol=1e-6):
                raise Disagreement(f"{name} gives other answers than {first}")


def _sorted(answer: Answer) -> list[Column]:
    columns = [np.asarray(column) for column in answer]
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


class Sweep:
    """Engines at one point after another; an engine that has become too slow is left out of the points that follow."""

    def __init__(self, effort: Effort, slow: float = 4.0) -> None:
        self.effort, self.slow = effort, slow
        self.at: list[float | str] = []
        self.series: dict[str, list[Value]] = {}
        self.left: set[str] = set()

    def point(
        self, x: float, works: Mapping[str, Work], number: Callable[[float], float], compared: bool = True
    ) -> None:
        """Take a point: ``number`` makes what is shown of seconds. Works give an :data:`Answer` if ``compared``."""
        asked = {name: work for name, work in works.items() if name not in self.left}
        answers = {name: work() for name, work in asked.items()}  # also the warm-up
        if compared:
            check(answers)
        del answers
        spent = seconds(asked, self.effort.runs)
        for name in works:
            self.series.setdefault(name, [None] * len(self.at)).append(
                spent[name].scaled(number) if name in spent else None
            )
        self.at.append(x)
        self.left |= {name for name, found in spent.items() if found > self.slow}

    def panel(self, title: str, x: str, y: str, **given: Any) -> Panel:
        return Panel(title, x, y, tuple(self.at), self.series, **given)

    @property
    def notes(self) -> list[str]:
        if not self.left:
            return []
        return [f"–: left out, as a run took more than {self.slow:g} s at the point before ({', '.join(self.left)})."]
