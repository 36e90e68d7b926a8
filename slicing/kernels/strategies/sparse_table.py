"""Disjoint sparse table over blocks of cells: any range is a few partials, for any aggregate (no inverse needed).

A range is the rest of the block in which it starts, the blocks between, and the beginning of the block in which it
ends; a range inside one block is recomputed. The blocks between are at most two partials: level k of the table holds,
in groups of 2 * 2**k blocks, the partial between each block and the middle of its group. Level 0 is the blocks
themselves.
"""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.strategies.interface import Combinations, Strategy

BLOCK = 16  # cells; half or twice as many cost the same for 1000 windows of mixed lengths


def sparse_table(first, last, cells):
    blocks, high = (cells + BLOCK - 1) // BLOCK, int(levels(first, last))
    scratch = np.empty(2 * cells + high * blocks, np.int64)  # suffixes, prefixes, the table
    into, source = np.empty((2, 2 * cells + 2 * high * blocks), np.int64)
    m = _scratch(cells, blocks, high, scratch, into, source)
    seed = np.empty(first.size, np.int64)
    more, rest = np.empty((2, max(BLOCK, 3) * first.size), np.int64)
    n = _answers(first, last, cells, blocks, high, seed, more, rest)
    return Combinations(scratch, into[:m], source[:m], seed, more[:n], rest[:n])


def cost(first, last, cells):
    return 4 * cells + 2 * int(levels(first, last)) * (cells // BLOCK + 1) + 3 * first.size


@kernel
def levels(first, last):
    """How many levels of a table of blocks the ranges need."""
    apart = np.int64(1)  # the bits in which the first and the last block of some range differ
    for r in range(first.size):
        apart |= first[r] // BLOCK ^ (last[r] - 1) // BLOCK
    found = np.int64(0)
    while apart >> found:
        found += 1
    return found


@kernel
def _scratch(cells, blocks, levels, scratch, into, source):
    n = np.int64(0)
    for c in range(cells):
        scratch[c] = scratch[cells + c] = c
    for c in range(cells - 2, -1, -1):
        if (c + 1) % BLOCK != 0:
            into[n], source[n] = cells + c, cells + c + 1
            n += 1
    for c in range(1, cells):
        if c % BLOCK != 0:
            into[n], source[n] = 2 * cells + c, 2 * cells + c - 1
            n += 1
    for i in range(levels * blocks):  # whole blocks: each starts as the last cell of its block
        c = min((i % blocks + 1) * BLOCK, cells) - 1
        scratch[2 * cells + i] = c
        if c % BLOCK != 0:
            into[n], source[n] = 3 * cells + i, 2 * cells + c - 1
            n += 1
    base = 3 * cells + blocks
    for k in range(1, levels):
        half = 1 << k
        for middle in range(half, blocks, 2 * half):
            for c in range(middle - 2, middle - half - 1, -1):
                into[n], source[n] = base + c, base + c + 1
                n += 1
            for c in range(middle + 1, min(middle + half, blocks)):
                into[n], source[n] = base + c, base + c - 1
                n += 1
        base += blocks
    return n


@kernel(allocates=True)
def _answers(first, last, cells, blocks, levels, seed, more, rest):
    start = np.full(1 << levels, 3 * cells)  # by the bits in which two blocks differ: the start of their level
    for x in range(2, start.size):
        start[x] = start[x >> 1] + blocks
    n = np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r] - 1
        low, high = a // BLOCK + 1, b // BLOCK - 1
        if low == high + 2:
            seed[r] = a
            for c in range(a + 1, b + 1):
                more[n], rest[n] = r, c
                n += 1
            continue
        seed[r] = cells + a
        if low <= high:
            more[n], rest[n] = r, start[low ^ high] + low
            n += 1
        if low < high:
            more[n], rest[n] = r, start[low ^ high] + high
            n += 1
        more[n], rest[n] = r, 2 * cells + b
        n += 1
    return n


STRATEGY = Strategy("sparse table", sparse_table, cost, "many windows of mixed lengths: a few partials each")
