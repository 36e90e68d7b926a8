"""Strategies: how the ranges of cells that windows are become lists of combinations.

Windows are ranges ``first[r] : last[r]`` of cells. A strategy knows no aggregates: it is worked out once and run for
every lane. It says, in this order,

1. ``scratch``: which cell each scratch partial starts as; scratch partials come after the cells;
2. ``into, source``: the combinations among them (a partial is combined with another, in order);
3. ``seed``: which partial each range's answer starts as;
4. ``more, rest``: what its answer is combined with besides (answer ``more[i]`` with partial ``rest[i]``; an empty
   partial comes after those of the scratch).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

_NONE = np.empty(0, np.int64)


class Combinations(NamedTuple):
    scratch: np.ndarray | None  # None: no partials but the cells
    into: np.ndarray
    source: np.ndarray
    seed: np.ndarray
    more: np.ndarray
    rest: np.ndarray


def recompute(first, last, cells):
    """Each range anew, for short or few ranges: a combination for each cell of a range but one."""
    count = last - first - 1
    rest = np.repeat(first + 1 - np.cumsum(count) + count, count) + np.arange(count.sum())
    return Combinations(None, _NONE, _NONE, first, np.repeat(np.arange(first.size), count), rest)


def sparse_table(first, last, cells):
    """Disjoint sparse table: any range is at most two partials of it, whatever the aggregate (no inverse needed).

    Level k holds, in blocks of 2 * 2**k cells, what lies between a cell and the middle of its block; level 0 is the
    cells themselves.
    """
    high = levels(first, last)
    into, source = np.empty((2, (high - 1) * cells), np.int64)
    n = _table(cells, high, into, source)
    seed, rest = np.empty((2, first.size), np.int64)
    _lookup(first, last, cells, high, seed, rest)
    return Combinations(np.tile(np.arange(cells), high - 1), into[:n], source[:n], seed, np.arange(first.size), rest)


def two_stacks(first, last, cells):
    """For runs of ranges whose ends move forward, as sliding windows of a key do (Hammer Slide).

    The front stack is suffixes of the cells behind the middle, the back one prefixes of those after it. When a range
    leaves the front, or a new run begins, the stacks flip.
    """
    size = stacked(first, last)
    scratch, into, source = np.empty((3, size), np.int64)
    seed, rest = np.empty((2, first.size), np.int64)
    n = _stacks(first, last, cells, scratch, into, source, seed, rest)
    return Combinations(scratch, into[:n], source[:n], seed, np.arange(first.size), rest)


def levels(first, last):
    """How many levels of a sparse table the ranges ask for."""
    return max(int((first ^ (last - 1)).max(initial=0)).bit_length(), 1)


STRATEGIES = {"recompute": recompute, "sparse table": sparse_table, "two stacks": two_stacks}


@njit(cache=True, nogil=True)
def _table(cells, levels, into, source):
    n = np.int64(0)
    for k in range(1, levels):
        half = 1 << k
        base = (k - 1) * cells + cells
        for middle in range(half, cells, 2 * half):
            for c in range(middle - 2, middle - half - 1, -1):
                into[n], source[n] = base + c, base + c + 1
                n += 1
            for c in range(middle + 1, min(middle + half, cells)):
                into[n], source[n] = base + c, base + c - 1
                n += 1
    return n


@njit(cache=True, nogil=True)
def _lookup(first, last, cells, levels, seed, rest):
    start = np.zeros(1 << levels, np.int64)  # by the bits in which the ends of a range differ: where its level starts
    for x in range(2, start.size):
        start[x] = start[x >> 1] + cells
    for r in range(first.size):
        a, b = first[r], last[r] - 1
        level = start[a ^ b]
        seed[r] = level + a
        rest[r] = level + b if a != b else levels * cells


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
