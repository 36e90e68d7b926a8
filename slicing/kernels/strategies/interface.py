"""The interface of a strategy: it turns ranges of cells (windows) into lists of combinations.

Windows are ranges ``first[r] : last[r]`` of cells, none of them empty. A strategy knows no aggregates: its lists are
computed once and run for every lane. They say, in this order:

1. ``scratch``: the cell that each scratch partial starts as. Scratch partials are numbered after the cells or, if cells
   are not used themselves, ``apart`` from them;
2. ``into, source``: the combinations among partials, in order (the partial with the smaller number comes first in
   time);
3. ``seed``: the partial that each range's answer starts as;
4. ``more, rest``: what is combined into answers (answer ``more[i]`` with partial ``rest[i]``);
5. ``less, gone``: what is then removed from answers (partial ``gone[i]`` from answer ``less[i]``), for strategies with
   ``removes``: they serve only lanes that allow it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NONE = np.empty(0, np.int64)


class Combinations(NamedTuple):
    scratch: np.ndarray | None  # None: there are no partials except the cells
    into: np.ndarray
    source: np.ndarray
    seed: np.ndarray
    more: np.ndarray
    rest: np.ndarray
    less: np.ndarray = NONE
    gone: np.ndarray = NONE
    apart: bool = False

    def partials(self, cells):
        """The partials that the lists number, before anything is combined."""
        scratch = cells.take(self.scratch, axis=0)
        return scratch if self.apart else np.concatenate([cells, scratch])


class Strategy(NamedTuple):
    name: str
    lists: Callable[[np.ndarray, np.ndarray, int], Combinations]  # arguments: first, last, and the number of cells
    cost: Callable[[np.ndarray, np.ndarray, int], int]  # how many partials it makes and combines
    why: str  # what it is good for
    removes: bool = False
