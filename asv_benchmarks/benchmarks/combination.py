"""From slices to windows: the kernels of dense columns, and every strategy over cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from asv_benchmarks import hammer_slide, research
from slicing.kernels import combine as kinds
from slicing.kernels.strategies import STRATEGIES

from . import measuring, streams

ALL = STRATEGIES | research.STRATEGIES


class HammerSlide:
    """Windows of 1024 int32 in cache, as its figures 6 and 7."""

    params: ClassVar = [["min", "sum"], list(hammer_slide.SLIDES)]
    param_names: ClassVar = ["function", "slide"]

    def setup(self, function: str, slide: int) -> None:
        self.x = hammer_slide.column(max(streams.sized(hammer_slide.ROWS), 4096))
        self.work: Callable[[], object] = hammer_slide.slides(self.x, slide, function)

    def track_rows_per_second(self, function: str, slide: int) -> float:
        return hammer_slide.rate(self.x.size, self.work) * 1e6

    track_rows_per_second.unit = "rows/s"


class AtOnce:
    """Windows of many sizes over one column of slices."""

    params: ClassVar = list(hammer_slide.AT_ONCE)
    param_names: ClassVar = ["windows"]

    def setup(self, windows: int) -> None:
        self.results, self.work = hammer_slide.at_once(hammer_slide.column(), windows)

    def track_results_per_second(self, windows: int) -> float:
        return hammer_slide.rate(self.results, self.work) * 1e6

    track_results_per_second.unit = "results/s"


class Strategies:
    """Windows over cells that slide by one: lists of combinations, made and run for a lane of integer sums."""

    params: ClassVar = [list(ALL), [8, 512]]
    param_names: ClassVar = ["strategy", "window"]

    def setup(self, strategy: str, window: int) -> None:
        cells = max(streams.sized(20_000), 2 * window)
        self.block = kinds.identity(kinds.BASIC_I, cells)
        self.block[:, :3] = np.random.default_rng(5).integers(0, 9, (cells, 3))
        self.first = np.arange(cells - window + 1)
        self.last = self.first + window

    def answer(self, strategy: str) -> None:
        plan, work = ALL[strategy].lists(self.first, self.last, len(self.block)), self.block
        if plan.scratch is not None:
            work = plan.partials(work)
            kinds.combine(kinds.BASIC_I, plan.into, plan.source, work, work)
        answer = work[plan.seed]
        kinds.combine(kinds.BASIC_I, plan.more, plan.rest, answer, work)
        if plan.less.size:
            kinds.remove(kinds.BASIC_I, plan.less, plan.gone, answer, work)

    def track_windows_per_second(self, strategy: str, window: int) -> float:
        self.answer(strategy)
        return self.first.size / measuring.seconds(lambda: self.answer(strategy))[0]

    track_windows_per_second.unit = "windows/s"
