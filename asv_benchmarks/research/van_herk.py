"""Van Herk: suffixes and prefixes of blocks as long as the longest range, which spans two of them at most.

Made for windows of one length over cells without holes; a range inside one block is recomputed.
"""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import Combinations, Strategy


def van_herk(first, last, cells):
    size = int((last - first).max(initial=1))
    every = np.arange(cells)
    back = every[:-1][(every[:-1] + 1) % size != 0][::-1]  # cells that are not the last of their block
    ahead = every[1:][every[1:] % size != 0]
    into = np.concatenate([cells + back, 2 * cells + ahead])
    source = np.concatenate([cells + back + 1, 2 * cells + ahead - 1])
    more, rest = np.empty((2, first.size + _inside(first, last, size)), np.int64)
    seed = np.empty(first.size, np.int64)
    n = _answers(first, last, size, cells, seed, more, rest)
    return Combinations(np.tile(every, 2), into, source, seed, more[:n], rest[:n])


def cost(first, last, cells):
    size = int((last - first).max(initial=1))
    return 4 * cells + first.size + int(_inside(first, last, size))


@kernel(error_model="numpy")
def _inside(first, last, size):
    """How many cells the ranges inside of a block have."""
    n = np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a // size == (b - 1) // size and a % size != 0 and b % size != 0:
            n += b - a - 1
    return n


@kernel(error_model="numpy")
def _answers(first, last, size, cells, seed, more, rest):
    n = np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a // size != (b - 1) // size:
            seed[r] = cells + a
            more[n], rest[n] = r, 2 * cells + b - 1
            n += 1
        elif b % size == 0:
            seed[r] = cells + a
        elif a % size == 0:
            seed[r] = 2 * cells + b - 1
        else:
            seed[r] = a
            for c in range(a + 1, b):
                more[n], rest[n] = r, c
                n += 1
    return n


STRATEGY = Strategy("van herk", van_herk, cost, "windows of one length over all cells")
