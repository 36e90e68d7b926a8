"""Two stacks in Hammer Slide's form, for runs of ranges whose ends move forward, as sliding windows of a key do.

The front stack is suffixes of the cells behind the middle, the back one prefixes of those after it: aggregates only,
one a cell, side by side in scratch. When a range leaves the front, or a new run begins, the stacks flip.
"""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import Combinations, Strategy


def two_stacks(first, last, cells):
    size = stacked(first, last)
    scratch, into, source = np.empty((3, size), np.int64)
    seed, rest = np.empty((2, first.size), np.int64)
    n = _stacks(first, last, cells, scratch, into, source, seed, rest)
    return Combinations(scratch, into[:n], source[:n], seed, np.arange(first.size), rest)


def cost(first, last, cells):
    return 2 * int(stacked(first, last)) + first.size


@kernel
def stacked(first, last):
    """How many scratch partials two stacks take."""
    size = np.int64(0)
    bottom, middle, reach = np.int64(0), np.int64(-1), np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a < bottom or a >= middle or b < reach:
            bottom, middle, reach = a, b, b
            size += b - a
        size += b - reach
        reach = b
    return size


@kernel
def _stacks(first, last, cells, scratch, into, source, seed, rest):
    n = np.int64(0)
    used = np.int64(0)
    bottom, middle, reach = np.int64(0), np.int64(-1), np.int64(0)
    front = np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a < bottom or a >= middle or b < reach:
            bottom, middle, reach = a, b, b
            front = cells + used  # the scratch partial of cell `bottom`
            for c in range(b - 1, a - 1, -1):
                scratch[used + c - a] = c
                if c < b - 1:
                    into[n], source[n] = front + c - a, front + c - a + 1
                    n += 1
            used += b - a
        while reach < b:
            scratch[used] = reach
            if reach > middle:
                into[n], source[n] = cells + used, cells + used - 1
                n += 1
            used += 1
            reach += 1
        seed[r] = front + a - bottom
        rest[r] = cells + used - 1 if reach > middle else cells + scratch.size
    return n


STRATEGY = Strategy("two stacks", two_stacks, cost, "windows that slide: each cell twice, whatever their length")
