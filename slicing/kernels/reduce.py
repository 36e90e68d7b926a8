"""Rows into partials, one kernel a kind: ``scatter_*`` for rows whose cells come in any order, ``segment_*`` for
runs of rows of one cell and ``masked_*`` for those of a run that count (both reduced with SIMD).

Rows that do not count are sent to a cell that is thrown away, or masked. Float minimum and maximum run on
order-preserving integer keys: a float recurrence never vectorises, and NaN and -0.0 get one place whatever the order
of rows.
"""

import numpy as np
from numba import njit

from slicing.kernels.at_once import add_basic_f, short_run, widen_span
from slicing.kernels.combine import BOTTOM, LOW, SHIFT, TOP, earlier, summed
from slicing.kernels.floats import floats
from slicing.kernels.kernel import helper, kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import ahead, prefetch
from slicing.kernels.wide import wide

REORDER = {"reassoc", "nsz", "contract"}  # sums may be reordered; NaN and inf stay honest
SIGN = np.int64(63)
OFTEN = np.int64(1023)
BLOCK = 4096  # rows that are added without compensation: on SIMD lanes, so that each adds 128 at most
SHORT = 64  # rows
LINE = 8  # rows in a cache line
AHEAD = 512  # rows that are on their way from memory
PIECE = 128  # rows at a time, whose successors are asked for: with 512 of them in long runs 0.54 -> 0.46 ns
INF_BITS = np.int64(0x7FF0000000000000)


@njit(inline="always")
def order_key(u):
    """float64 bits as an integer that orders alike."""
    return u ^ ((u >> SIGN) & TOP)


@njit(inline="always")
def is_nan(u):
    return (u & TOP) > INF_BITS


@kernel
def scatter_span(cell, t, S):
    """~first and last time of each cell."""
    for i in range(cell.size):
        ahead(i, cell, t, S)
        widen_span(S, np.uint64(cell[i]), t[i])


@kernel
def span_in_order(cell, t, rows, first, last):
    """First and last time of each cell that has ``rows``, of rows in order: once each cell was met no more are read."""
    met = np.int64(0)
    for c in range(rows.size):
        met += rows[c] > 0
    waiting = met
    i = np.int64(0)
    first[:] = TOP
    while waiting > 0:
        c = np.uint64(cell[i])
        if first[c] == TOP:
            first[c] = t[i]
            waiting -= 1
        i += 1
    i = np.int64(cell.size)
    last[:] = BOTTOM
    while met > 0:
        i -= 1
        c = np.uint64(cell[i])
        if last[c] == BOTTOM:
            last[c] = t[i]
            met -= 1


@kernel
def scatter_count(cell, A):
    for i in range(cell.size):
        ahead(i, cell, cell, A)
        A[np.uint64(cell[i]), 0] += 1


@kernel
def scatter_new(cell, A):
    """The same; returns how many cells had none."""
    new = np.int64(0)
    for i in range(cell.size):
        ahead(i, cell, cell, A)
        c = np.uint64(cell[i])
        new += A[c, 0] == 0
        A[c, 0] += 1
    return new


@kernel
def scatter_basic_f(cell, bits, Q, spilt):
    """``spilt`` has a sum of each cell and what it lost, which the sum of every 1024 rows of a cell goes to."""
    F = floats(Q)
    for i in range(cell.size):
        ahead(i, cell, bits, Q)
        c = np.uint64(cell[i])
        if add_basic_f(Q, c, bits[i]) & OFTEN == 0:
            spilt[c, 0], spilt[c, 1] = summed(spilt[c, 0], spilt[c, 1], F[c, 1])
            F[c, 1] = 0.0


@kernel
def settle(which, Q, spilt, A):
    """Some cells of what ``scatter_basic_f`` made, as partials."""
    F, G = floats(Q), floats(A)
    for i in range(which.size):
        c = np.uint64(which[i])
        n = Q[c, 0]
        A[i, 0] = n
        G[i, 1], G[i, 2] = F[c, 1], 0.0
        if n > OFTEN:
            G[i, 1], G[i, 2] = summed(spilt[c, 0], spilt[c, 1], F[c, 1])
        A[i, 3], A[i, 4] = ~Q[c, 2], Q[c, 3]


@kernel
def scatter_basic_i(cell, x, A):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        v = x[i]
        A[c, 0] += 1
        A[c, 1] += v & LOW
        A[c, 2] += v >> SHIFT
        A[c, 3] = min(A[c, 3], v)
        A[c, 4] = max(A[c, 4], v)


@kernel
def scatter_extremes(cell, x, A):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        A[c, 0] += 1
        A[c, 1] = min(A[c, 1], x[i])
        A[c, 2] = max(A[c, 2], x[i])


@kernel
def scatter_moments(cell, x, A, F):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        n = A[c, 0] + 1
        d = x[i] - F[c, 1]
        m = F[c, 1] + d / n
        A[c, 0] = n
        F[c, 1] = m
        F[c, 2] += d * (x[i] - m)


@kernel
def scatter_product_f(cell, x, A, F):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        A[c, 0] += 1
        F[c, 1] *= x[i]


@kernel
def scatter_product_i(cell, x, approximate, A, F):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        A[c, 0] += 1
        A[c, 1] *= x[i]
        F[c, 2] *= approximate[i]


@kernel
def scatter_edge(last, cell, t, s, a, x, A):
    """FIRST, or LAST: the value of the earliest or latest row by (time, sequence, arrival)."""
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        before = earlier(t[i], s[i], a[i], A[c, 1], A[c, 2], A[c, 3])
        if A[c, 0] == 0 or before != last:
            A[c, 1] = t[i]
            A[c, 2] = s[i]
            A[c, 3] = a[i]
            A[c, 4] = x[i]
        A[c, 0] += 1


@kernel
def scatter_arg(cell, key, t, s, a, x, x_valid, A):
    for i in range(cell.size):
        ahead(i, cell, x, A)
        c = np.uint64(cell[i])
        k = key[i]
        if A[c, 0] == 0 or k < A[c, 1] or (k == A[c, 1] and earlier(t[i], s[i], a[i], A[c, 2], A[c, 3], A[c, 4])):
            A[c, 1] = k
            A[c, 2] = t[i]
            A[c, 3] = s[i]
            A[c, 4] = a[i]
            A[c, 5] = x[i]
            A[c, 6] = x_valid.size == 0 or x_valid[i] != 0
        A[c, 0] += 1


@kernel
def scatter_extreme_count(cell, key, A):
    for i in range(cell.size):
        ahead(i, cell, key, A)
        c = np.uint64(cell[i])
        k = key[i]
        if A[c, 0] == 0 or k < A[c, 1]:
            A[c, 1] = k
            A[c, 2] = 1
        elif k == A[c, 1]:
            A[c, 2] += 1
        A[c, 0] += 1


# --- cells that are the rows first[p] : last[p]; nothing was in them --------------------------------------------


@kernel(fastmath=REORDER)
def segment_basic_f(first, last, x, bits, A, F):
    """NaN is looked for in the smallest and largest key only: 1.5x. Rows that come are fetched: from memory 0.35
    against 1.5 ns in runs of 20 rows, and 0.24 against 0.29 in long ones."""
    for p in range(first.size):
        size = last[p] - first[p]
        total, lost = 0.0, 0.0
        low, high = TOP, BOTTOM
        if size <= SHORT:
            for i in range(first[p] + AHEAD, last[p] + AHEAD, LINE):
                prefetch(x, np.uint64(i))
            total, low, high = short_run(bits, first[p], size)
        else:
            for start in range(first[p], last[p], PIECE):
                stop = min(start + PIECE, last[p])
                for i in range(start + AHEAD, stop + AHEAD, LINE):
                    prefetch(x, np.uint64(i))
                y = x[start:stop]
                z = bits[start:stop]
                block = 0.0
                for i in range(y.size):
                    k = order_key(z[i])
                    block += y[i]
                    low = min(low, k)
                    high = max(high, k)
                total, lost = summed(total, lost, block)
        if (low < ~INF_BITS) | (high > INF_BITS):
            low, high = TOP, BOTTOM
            z = bits[first[p] : last[p]]
            for i in range(z.size):
                k = order_key(z[i])
                nan = is_nan(z[i])
                low = min(low, TOP if nan else k)
                high = max(high, BOTTOM if nan else k)
        elif total != total:  # 1e308 + 1e308 - inf: what is added first depends on the lanes
            if low == ~INF_BITS and high < INF_BITS:
                total = -np.inf
            elif high == INF_BITS and low > ~INF_BITS:
                total = np.inf
        A[p, 0] = size
        F[p, 1], F[p, 2] = total, lost
        A[p, 3], A[p, 4] = low, high


@kernel
def segment_basic_i(first, last, x, A):
    for p in range(first.size):
        y = x[first[p] : last[p]]
        low_sum = np.int64(0)
        high_sum = np.int64(0)
        low = TOP
        high = BOTTOM
        for i in range(y.size):
            v = y[i]
            low_sum += v & LOW
            high_sum += v >> SHIFT
            low = min(low, v)
            high = max(high, v)
        A[p, 0], A[p, 1], A[p, 2], A[p, 3], A[p, 4] = y.size, low_sum, high_sum, low, high


@kernel
def segment_extremes(first, last, x, A):
    for p in range(first.size):
        y = x[first[p] : last[p]]
        low = TOP
        high = BOTTOM
        for i in range(y.size):
            low = min(low, y[i])
            high = max(high, y[i])
        A[p, 0], A[p, 1], A[p, 2] = y.size, low, high


@kernel(fastmath=REORDER)
def segment_moments(first, last, x, A, F):
    for p in range(first.size):
        y = x[first[p] : last[p]]
        total = 0.0
        for i in range(y.size):
            total += y[i]
        mean = total / y.size
        squares = 0.0
        for i in range(y.size):
            d = y[i] - mean
            squares += d * d
        A[p, 0] = y.size
        F[p, 1] = mean
        F[p, 2] = squares


# --- the same for the rows of a run that count: low <= t < high, and valid (a byte a row; empty: all are). A row that
# is not valid gets a time beyond all others, a block at a time: the loop that follows tests times alone.


@njit(inline="always")
def times_of_valid(t, valid, spare):
    if valid.size == 0:
        return t
    for i in range(t.size):
        spare[i] = t[i] if valid[i] else TOP
    return spare[: t.size]


@kernel
def masked_count(runs, t, valid, A):
    spare = on_stack(BLOCK, np.int64)
    for p in range(runs.shape[0]):
        after, until = runs[p, 3], runs[p, 4]
        for start in range(runs[p, 0], runs[p, 1], BLOCK):
            stop = min(start + BLOCK, runs[p, 1])
            w = times_of_valid(t[start:stop], valid[start:stop], spare)
            n = np.int64(0)
            for i in range(w.size):
                n += np.int64((w[i] >= after) & (w[i] < until))
            A[runs[p, 2], 0] += n


@kernel
def masked_span(runs, t, first, last):
    for p in range(runs.shape[0]):
        after, until = runs[p, 3], runs[p, 4]
        w = t[runs[p, 0] : runs[p, 1]]
        low, high = TOP, BOTTOM
        for i in range(w.size):
            held = (w[i] >= after) & (w[i] < until)
            low = min(low, w[i] if held else TOP)
            high = max(high, w[i] if held else BOTTOM)
        c = runs[p, 2]
        first[c] = min(first[c], low)
        last[c] = max(last[c], high)


@helper(fastmath=REORDER)
def with_row(held, x, low_key, high_key, n, total, low, high):
    return (
        n + np.int64(held),
        total + (x if held else 0.0),
        min(low, low_key if held else TOP),
        max(high, high_key if held else BOTTOM),
    )


@helper
def add_part(A, F, c, n, total, low, high):
    A[c, 0] += n
    F[c, 1], F[c, 2] = summed(F[c, 1], F[c, 2], total)
    A[c, 3] = min(A[c, 3], low)
    A[c, 4] = max(A[c, 4], high)


@helper
def follows(run, next):
    """Whether a run is of the same rows, those from where the one before ends."""
    return run[0] == next[0] and run[4] == next[3]


@kernel(fastmath=REORDER)
def masked_basic_f(runs, t, valid, x, bits, A, F):
    """Up to three runs of the same rows that follow each other are one pass. Where each block of rows touches three
    slots: from memory 1.6 -> 0.5 ns a row, in cache 0.48 -> 0.35 (four a pass: 0.6 and 0.43)."""
    wide()
    spare = on_stack(BLOCK, np.int64)
    p = np.int64(0)
    while p < runs.shape[0]:
        more = np.int64(0)
        while more < 2 and p + more + 1 < runs.shape[0] and follows(runs[p + more], runs[p + more + 1]):
            more += 1
        e0, e1 = runs[p, 3], runs[p, 4]
        e2 = runs[p + 1, 4] if more > 0 else TOP
        e3 = runs[p + 2, 4] if more > 1 else TOP
        for start in range(runs[p, 0], runs[p, 1], BLOCK):
            stop = min(start + BLOCK, runs[p, 1])
            w = times_of_valid(t[start:stop], valid[start:stop], spare)
            y = x[start:stop]
            z = bits[start:stop]
            n0, n1, n2 = np.int64(0), np.int64(0), np.int64(0)
            f0, f1, f2 = 0.0, 0.0, 0.0
            l0, l1, l2 = TOP, TOP, TOP
            h0, h1, h2 = BOTTOM, BOTTOM, BOTTOM
            if more == 0:
                for i in range(y.size):
                    k, nan = order_key(z[i]), is_nan(z[i])
                    u, v = TOP if nan else k, BOTTOM if nan else k
                    n0, f0, l0, h0 = with_row((w[i] >= e0) & (w[i] < e1), y[i], u, v, n0, f0, l0, h0)
            else:
                for i in range(y.size):
                    k, nan = order_key(z[i]), is_nan(z[i])
                    u, v = TOP if nan else k, BOTTOM if nan else k
                    n0, f0, l0, h0 = with_row((w[i] >= e0) & (w[i] < e1), y[i], u, v, n0, f0, l0, h0)
                    n1, f1, l1, h1 = with_row((w[i] >= e1) & (w[i] < e2), y[i], u, v, n1, f1, l1, h1)
                    n2, f2, l2, h2 = with_row((w[i] >= e2) & (w[i] < e3), y[i], u, v, n2, f2, l2, h2)
            add_part(A, F, runs[p, 2], n0, f0, l0, h0)
            if more > 0:
                add_part(A, F, runs[p + 1, 2], n1, f1, l1, h1)
            if more > 1:
                add_part(A, F, runs[p + 2, 2], n2, f2, l2, h2)
        p += more + 1


@kernel
def masked_basic_i(runs, t, valid, x, A):
    wide()
    spare = on_stack(BLOCK, np.int64)
    for p in range(runs.shape[0]):
        after, until = runs[p, 3], runs[p, 4]
        c = runs[p, 2]
        n, low_sum, high_sum, low, high = A[c, 0], A[c, 1], A[c, 2], A[c, 3], A[c, 4]
        for start in range(runs[p, 0], runs[p, 1], BLOCK):
            stop = min(start + BLOCK, runs[p, 1])
            w = times_of_valid(t[start:stop], valid[start:stop], spare)
            y = x[start:stop]
            for i in range(y.size):
                held = (w[i] >= after) & (w[i] < until)
                u = y[i]
                n += np.int64(held)
                low_sum += u & LOW if held else np.int64(0)
                high_sum += u >> SHIFT if held else np.int64(0)
                low = min(low, u if held else TOP)
                high = max(high, u if held else BOTTOM)
        A[c, 0], A[c, 1], A[c, 2], A[c, 3], A[c, 4] = n, low_sum, high_sum, low, high


@kernel
def masked_extremes(runs, t, valid, x, A):
    wide()
    spare = on_stack(BLOCK, np.int64)
    for p in range(runs.shape[0]):
        after, until = runs[p, 3], runs[p, 4]
        c = runs[p, 2]
        n, low, high = A[c, 0], A[c, 1], A[c, 2]
        for start in range(runs[p, 0], runs[p, 1], BLOCK):
            stop = min(start + BLOCK, runs[p, 1])
            w = times_of_valid(t[start:stop], valid[start:stop], spare)
            y = x[start:stop]
            for i in range(y.size):
                held = (w[i] >= after) & (w[i] < until)
                n += np.int64(held)
                low = min(low, y[i] if held else TOP)
                high = max(high, y[i] if held else BOTTOM)
        A[c, 0], A[c, 1], A[c, 2] = n, low, high
