"""Panes: windows that a trigger reports before they are complete, as they are handed to the output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slicing.closing.answers import Answers
from slicing.columns.order import alike
from slicing.system.arrays import Ints

LAST = 1 << 40  # the order of on-time rows among the reports of one window in a push
EARLY, ON_TIME, LATE = range(3)  # the values of ``timing``


class Panes(NamedTuple):
    """Windows that are reported, each with its timing and its order among the reports of one window in one push.

    For "changes" the order is even for a row that is taken back, and odd for the row that replaces it.
    """

    answers: Answers
    order: Ints
    timing: Ints

    @staticmethod
    def of(answers: Answers, order: int | Ints, timing: int) -> Panes:
        size = len(answers)
        order = order if isinstance(order, np.ndarray) else alike(order, size)
        return Panes(answers, order, alike(timing, size))
