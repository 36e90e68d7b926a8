"""What a way to answer is: it is asked what a push closes, and offers to answer it at a cost, or declines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from slicing.answers.answers import Answers
from slicing.columns.keys import KeyTable
from slicing.plan import Plan
from slicing.slices.cells import Cells


class Closing(NamedTuple):
    """The windows with ``after < end <= until`` of a store's runs, all of them at once."""

    plan: Plan
    runs: Sequence[Cells]
    keys: KeyTable | None
    after: int
    until: int


class Offer(NamedTuple):
    cost: int  # how many cells it goes over
    answers: Callable[[], Answers]


class Way(NamedTuple):
    name: str
    can: Callable[[Closing], bool]  # by what is asked: costs nothing
    offer: Callable[[Closing], Offer | None]  # by the windows that are due; None: not these
