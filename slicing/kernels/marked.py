"""Values of windows by rank, where all values are ranked in advance: no answer visits the cells of its window.

A window marks the ranks it has: a bit each, in words of 64; then a bit for each word that is not 0, and so on.
"""

import numpy as np

from slicing.kernels.holistic import turn
from slicing.kernels.kernel import helper, kernel

GROUP = 6  # bits of a place in a word of 64 bits
BITS, IN_WORD, ONE = np.uint64(GROUP), np.uint64(63), np.uint64(1)


@helper
def highest(word):
    """The place of the highest bit of a word that is not 0."""
    return (np.float64(word & ~(word >> ONE)).view(np.int64) >> 52) - 1023  # without the next bit it is not rounded up


@helper
def put(k, level):
    """Set a bit; whether its word was 0."""
    at = np.uint64(k) >> BITS
    before = level[at]
    level[at] = before | ONE << (np.uint64(k) & IN_WORD)
    return before == 0


@helper
def drop(k, level):
    """Clear a bit; whether its word is 0 then."""
    at = np.uint64(k) >> BITS
    after = level[at] & ~(ONE << (np.uint64(k) & IN_WORD))
    level[at] = after
    return after == 0


@helper
def mark(k, words, more, most, all_of_them):
    if put(k, words) and put(k >> GROUP, more) and put(k >> 2 * GROUP, most):
        put(k >> 3 * GROUP, all_of_them)


@helper
def unmark(k, words, more, most, all_of_them):
    if drop(k, words) and drop(k >> GROUP, more) and drop(k >> 2 * GROUP, most):
        drop(k >> 3 * GROUP, all_of_them)


@helper
def marked_before(k, words, more, most, all_of_them):
    """The marked rank before. There is one."""
    found, ups = words[k >> GROUP] & ((ONE << np.uint64(k & 63)) - ONE), 0
    if found == 0:
        k >>= GROUP
        found, ups = more[k >> GROUP] & ((ONE << np.uint64(k & 63)) - ONE), 1
    if found == 0:
        k >>= GROUP
        found, ups = most[k >> GROUP] & ((ONE << np.uint64(k & 63)) - ONE), 2
    if found == 0:
        k >>= GROUP
        found, ups = all_of_them[k >> GROUP] & ((ONE << np.uint64(k & 63)) - ONE), 3
        while found == 0:
            k = (k & ~63) - 1
            found = all_of_them[k >> GROUP]
    k = k & ~63 | highest(found)
    if ups == 3:
        k = k << GROUP | highest(most[k])
    if ups >= 2:
        k = k << GROUP | highest(more[k])
    return k << GROUP | highest(words[k]) if ups >= 1 else k


@helper
def rows_of(k, counts, words):
    """How many rows the rank has; one or none, if there are no ``counts``."""
    return counts[np.uint64(k)] if counts.size else np.int64(words[k >> GROUP] >> np.uint64(k & 63) & ONE)


@helper
def counted(a, b, f, e, at, rank, before, near, below, counts, words, more, most, all_of_them):
    """Count the rows of cells ``f:e`` by rank, instead of those of cells ``a:b``. ``below``: how many of them are below
    rank ``near``. No ``counts``: each rank has one row, so marks are enough."""
    while a != f or b != e:
        if a < b and (f >= b or e <= a):
            c, sign, a = a, np.int64(-1), a + 1
        elif a == b and a != f:
            a, b = f, f
            continue
        else:
            c, sign, a, b = turn(a, b, f, e)
        for i in range(at[c], at[c + 1]):
            k, w = rank[i], before[i + 1] - before[i]
            below += sign * w if k < near else 0
            held = np.int64(sign < 0)
            if counts.size:
                held = counts[np.uint64(k)]
                counts[np.uint64(k)] = held + sign * w
            if held == 0:
                mark(k, words, more, most, all_of_them)
            elif held + sign * w == 0:
                unmark(k, words, more, most, all_of_them)
    return a, b, below


@kernel
def largest_ranked(first, last, at, rank, before, k, nan, counts, words, more, most, all_of_them, out_at, out):
    """The ranks of the k largest rows of each window, descending; rank ``nan`` (-1: none) comes last."""
    a, b, n, none = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for j in range(first.size):
        a, b, _ = counted(a, b, first[j], last[j], at, rank, before, none, none, counts, words, more, most, all_of_them)
        out_at[j] = n
        rows = before[at[b]] - before[at[a]]
        numbers = rows - (rows_of(nan, counts, words) if nan >= 0 else 0)
        here, used = np.int64((words.size << GROUP) - 1 if nan < 0 else nan), np.int64(0)
        for _ in range(min(k, numbers)):
            if used == 0:
                here = marked_before(here, words, more, most, all_of_them)
                used = rows_of(here, counts, words)
            out[n] = here
            used -= 1
            n += 1
        for _ in range(min(k, rows) - min(k, numbers)):
            out[n] = nan
            n += 1
    out_at[first.size] = n
