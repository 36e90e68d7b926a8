"""Disjoint sparse table: any range is at most two partials of it, whatever the aggregate (no inverse needed).

Level k holds, in blocks of 2 * 2**k cells, what lies between a cell and the middle of its block; level 0 is the cells
themselves.
"""

import numpy as np
from numba import njit

from slicing.kernels.strategies.interface import Combinations, Strategy


def sparse_table(first, last, cells):
    high = levels(first, last)
    into, source = np.empty((2, (high - 1) * cells), np.int64)
    n = _table(cells, high, into, source)
    seed, rest = np.empty((2, first.size), np.int64)
    _lookup(first, last, cells, high, seed, rest)
    return Combinations(np.tile(np.arange(cells), high - 1), into[:n], source[:n], seed, np.arange(first.size), rest)


def cost(first, last, cells):
    return 2 * levels(first, last) * cells + first.size


def levels(first, last):
    """How many levels of a sparse table the ranges ask for."""
    return max(int((first ^ (last - 1)).max(initial=0)).bit_length(), 1)


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


STRATEGY = Strategy("sparse table", sparse_table, cost, "many windows of mixed lengths: two partials each")
