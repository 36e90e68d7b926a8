"""What a strategy is: how the ranges of cells that windows are become lists of combinations.

Windows are ranges ``first[r] : last[r]`` of cells, none of them empty. A strategy knows no aggregates: it is worked out
once and run for every lane. Its lists say, in this order,

1. ``scratch``: which cell each scratch partial starts as; scratch partials come after the cells, or where these are
   not asked for themselves, ``apart`` from them;
2. ``into, source``: the combinations among them (a partial is combined with another, in order; the one with the smaller
   number is what lies before);
3. ``seed``: which partial each range's answer starts as;
4. ``more, rest``: what its answer is combined with besides (answer ``more[i]`` with partial ``rest[i]``);
5. ``less, gone``: what is removed from it then (answer ``less[i]`` without partial ``gone[i]``), for strategies that
   ``remove``: they serve only lanes that can.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NONE = np.empty(0, np.int64)


class Combinations(NamedTuple):
    scratch: np.ndarray | None  # None: no partials but the cells
    into: np.ndarray
    source: np.ndarray
    seed: np.ndarray
    more: np.ndarray
    rest: np.ndarray
    less: np.ndarray = NONE
    gone: np.ndarray = NONE
    apart: bool = False

    def partials(self, cells):
        """What the lists number, before anything is combined."""
        scratch = cells.take(self.scratch, axis=0)
        return scratch if self.apart else np.concatenate([cells, scratch])


class Strategy(NamedTuple):
    name: str
    lists: Callable[[np.ndarray, np.ndarray, int], Combinations]  # of first, last and the number of cells
    cost: Callable[[np.ndarray, np.ndarray, int], int]  # how many partials it makes and combines
    why: str  # what it is good for
    removes: bool = False
