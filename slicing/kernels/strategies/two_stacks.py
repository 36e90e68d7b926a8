"""Two stacks in Hammer Slide's form, for runs of ranges whose ends move forward, as in sliding windows of a key.

The front stack holds suffixes of the cells before the middle, the back stack prefixes of the cells after it: one
aggregate for each cell, next to each other in scratch. The middle is the end of the first range of a run. The run goes
on while ranges begin before the middle, and the front stack reaches back to the earliest of them: windows of mixed
lengths that end soon after each other share it. Then the stacks flip.
"""

import numpy as np

from slicing.kernels.kernel import helper, kernel
from slicing.kernels.strategies.interface import Combinations, Strategy


def two_stacks(first, last, cells):
    size = stacked(first, last)
    scratch, into, source = np.empty((3, size), np.int64)
    seed, more, rest = np.empty((3, first.size), np.int64)
    n, m = _stacks(first, last, scratch, into, source, seed, more, rest)
    return Combinations(scratch, into[:n], source[:n], seed, more[:m], rest[:m], apart=True)


def cost(first, last, cells):
    return 2 * int(stacked(first, last)) + first.size


@helper(inline="always")
def run_from(first, last, r):
    """Where the run of ranges that begins with range ``r`` ends, and its earliest cell."""
    middle, bottom, stop = last[r], first[r], r + 1
    while stop < first.size and first[stop] < middle and last[stop] >= last[stop - 1]:
        bottom = min(bottom, first[stop])
        stop += 1
    return stop, bottom


@kernel
def stacked(first, last):
    """How many scratch partials the two stacks need."""
    size, r = np.int64(0), np.int64(0)
    while r < first.size:
        r, bottom = run_from(first, last, r)
        size += last[r - 1] - bottom
    return size


@kernel
def _stacks(first, last, scratch, into, source, seed, more, rest):
    n, m, used, r = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while r < first.size:
        stop, bottom = run_from(first, last, r)
        middle, at = last[r], used - bottom  # the partial of cell c is at + c
        for c in range(bottom, last[stop - 1]):
            scratch[at + c] = c
        for c in range(middle - 2, bottom - 1, -1):
            into[n], source[n] = at + c, at + c + 1
            n += 1
        for c in range(middle + 1, last[stop - 1]):
            into[n], source[n] = at + c, at + c - 1
            n += 1
        for i in range(r, stop):
            seed[i] = at + first[i]
            if last[i] > middle:
                more[m], rest[m] = i, at + last[i] - 1
                m += 1
        used += last[stop - 1] - bottom
        r = stop
    return n, m


STRATEGY = Strategy(
    "two stacks", two_stacks, cost, "windows that slide, or end soon after each other: each cell twice, however long"
)
