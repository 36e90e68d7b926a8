"""Strategies: how the ranges of cells that windows are become lists of combinations.

Windows are ranges ``first[r] : last[r]`` of ``cells`` cells; the answer to range r goes to ``place[r]``. A strategy
writes the combinations into one array of [cells | scratch | answers] and says how much scratch they take. It knows no
aggregates: the list is made once and run for every lane.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def recompute(first, last, place, cells, into, source):
    """Each range anew, for short or few ranges. No scratch; one combination for each cell of a range."""
    n = 0
    for r in range(first.size):
        for c in range(first[r], last[r]):
            into[n] = cells + place[r]
            source[n] = c
            n += 1


@njit(cache=True, nogil=True, error_model="numpy")
def sparse_table(first, last, place, cells, levels, into, source):
    """Disjoint sparse table: every range is at most two entries of it, whatever the aggregate (no inverse needed).

    Level k holds, in blocks of 2 * 2**k cells, what lies between a cell and the middle of its block; level 0 is the
    cells themselves. Scratch: (levels - 1) * cells. Returns the number of combinations.
    """
    n = 0
    for k in range(1, levels):
        half = 1 << k
        base = k * cells
        for middle in range(half, cells, 2 * half):
            for c in range(middle - 1, middle - half - 1, -1):
                into[n], source[n] = base + c, c
                n += 1
                if c + 1 < middle:
                    into[n], source[n] = base + c, base + c + 1
                    n += 1
            for c in range(middle, min(middle + half, cells)):
                into[n], source[n] = base + c, c
                n += 1
                if c > middle:
                    into[n], source[n] = base + c, base + c - 1
                    n += 1
    answers = levels * cells
    for r in range(first.size):
        a, b = first[r], last[r] - 1
        k = 0
        x = a ^ b
        while x > 1:
            x >>= 1
            k += 1
        into[n], source[n] = answers + place[r], k * cells + a
        n += 1
        if a != b:
            into[n], source[n] = answers + place[r], k * cells + b
            n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def two_stacks(first, last, place, cells, write, scratch, into, source):
    """For runs of ranges whose ends move forward, as sliding windows of a key do.

    The front stack holds suffixes: one scratch cell for every cell of it; the back stack is a single one (Hammer
    Slide's form). When a range leaves the front, or a new run begins, the stacks flip. Called once to count (returns
    combinations and scratch cells) and once, with these, to write.
    """
    n = 0
    used = 0
    bottom = np.int64(0)  # the front holds cells bottom .. middle-1, at scratch cells top_of_front - (middle - c)
    middle = np.int64(-1)
    reach = np.int64(0)
    front = np.int64(0)
    back = np.int64(0)
    for r in range(first.size):
        a, b = first[r], last[r]
        if a < bottom or a >= middle or b < reach:
            bottom, middle, reach = a, b, b
            front = cells + used
            back = front + (b - a)
            used += b - a + 1
            for c in range(b - 1, a - 1, -1):
                if write:
                    into[n], source[n] = front + (c - a), c
                    if c < b - 1:
                        into[n + 1], source[n + 1] = front + (c - a), front + (c - a) + 1
                n += 2 if c < b - 1 else 1
        while reach < b:
            if write:
                into[n], source[n] = back, reach
            n += 1
            reach += 1
        if write:
            into[n], source[n] = cells + scratch + place[r], front + (a - bottom)
            into[n + 1], source[n + 1] = cells + scratch + place[r], back
        n += 2
    return n, used
