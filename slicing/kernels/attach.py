"""The window of each row, among windows of a key that do not overlap. ``code`` is the key of each row; empty: all rows
have one key. The windows of key ``c`` are ``bounds[c] : bounds[c + 1]``, ascending by their begin."""

import numpy as np

from slicing.kernels.counting import key_at
from slicing.kernels.kernel import kernel
from slicing.kernels.search import first_above

BLOCK = 1 << 12  # windows that are compared before a look at what was found


@kernel
def last_begun(code, place, order, bounds, begin, end, more, hint, out):
    """For each row, the last window of its key that begins at the row's place or before; -1 if there is none, or if it
    ends there: at ``end + more``. No ``end``: windows have no end.

    ``hint`` holds for each key the window found last: rows in order find their window there or next to it, other rows
    by binary search. Rows are visited in ``order`` (empty: as they are).
    """
    for p in range(place.size):
        i = np.uint64(order[p] if order.size else p)
        c, at = key_at(code, i), place[i]
        low, high, near = bounds[c], bounds[c + np.uint64(1)], hint[c]
        if low == high or begin[np.uint64(low)] > at:
            out[i] = -1
            continue
        if begin[np.uint64(near)] > at:
            near = first_above(begin, at, low, near) - 1
        elif near + 1 < high and begin[np.uint64(near + 1)] <= at:
            near += 1
            if near + 1 < high and begin[np.uint64(near + 1)] <= at:
                near = first_above(begin, at, near + 1, high) - 1
        hint[c] = near
        out[i] = near if end.size == 0 or at < end[np.uint64(near)] + more else -1


@kernel
def at_ranks(code, order, bounds, every, rows, ranked, out):
    """For each row its window, where each window of a key has ``rows`` ranks and begins ``every`` ranks after the one
    before it: the one that holds the row's rank. -1: there is none. ``ranked``: the rank of each key's first row in
    ``order`` (empty: as they are)."""
    for p in range(out.size):
        i = order[p] if order.size else p
        c = key_at(code, i)
        at = ranked[c]
        ranked[c] += 1
        number = at if every == 1 else at // every
        held = at >= 0 and at - number * every < rows and number < bounds[c + np.uint64(1)] - bounds[c]
        out[np.uint64(i)] = bounds[c] + number if held else -1


@kernel
def ascends(code, begin):
    """Whether windows are sorted by key, and by ``begin`` within a key."""
    for start in range(0, begin.size - 1, BLOCK):
        a, b, bad = begin[start : start + BLOCK], begin[start + 1 : start + BLOCK + 1], np.int64(0)
        c, d = code[start : start + BLOCK], code[start + 1 : start + BLOCK + 1]
        if code.size:
            for i in range(b.size):
                bad += (d[i] < c[i]) | ((d[i] == c[i]) & (b[i] < a[i]))
        else:
            for i in range(b.size):
                bad += b[i] < a[i]
        if bad:
            return False
    return True


@kernel
def lag_of(found):
    """How many rows come before the one that has the first window, if the rows from there on have one window each, in
    order; otherwise -1."""
    lag = 0
    while lag < found.size and found[lag] < 0:
        lag += 1
    for i in range(lag, found.size):
        if found[np.uint64(i)] != i - lag:
            return -1
    return lag
