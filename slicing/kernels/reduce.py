"""Rows into partials, one kernel a kind: ``scatter_*`` for rows whose cells come in any order, ``segment_*`` for
rows that lie sorted by cell (one segment of rows a cell, reduced with SIMD).

``valid`` is a byte a row, or empty when every row counts. Float minimum and maximum run on order-preserving
integer keys: a float recurrence never vectorises, and NaN and -0.0 get one place whatever the order of rows.
"""

import numpy as np
from numba import njit

from slicing.kernels.combine import BOTTOM, LOW, SHIFT, TOP, earlier, summed

REORDER = {"reassoc", "nsz", "contract"}  # sums may be reordered; NaN and inf stay honest
SIGN = np.int64(63)
BLOCK = 4096  # rows that are added without compensation: on SIMD lanes, so that each adds 128 at most
INF_BITS = np.int64(0x7FF0000000000000)


@njit(inline="always")
def order_key(u):
    """float64 bits as an integer that orders alike."""
    return u ^ ((u >> SIGN) & TOP)


@njit(inline="always")
def is_nan(u):
    return (u & TOP) > INF_BITS


@njit(cache=True, nogil=True)
def scatter_span(cell, t, first, last):
    for i in range(cell.size):
        c = cell[i]
        first[c] = min(first[c], t[i])
        last[c] = max(last[c], t[i])


@njit(cache=True, nogil=True)
def scatter_count(cell, valid, A):
    for i in range(cell.size):
        A[cell[i], 0] += valid.size == 0 or valid[i] != 0


@njit(cache=True, nogil=True)
def scatter_basic_f(cell, valid, x, bits, A, F):
    every = valid.size == 0
    for i in range(cell.size):
        if every or valid[i]:
            c = np.uint64(cell[i])
            u = bits[i]
            k = order_key(u)
            nan = is_nan(u)
            A[c, 0] += 1
            F[c, 1], F[c, 2] = summed(F[c, 1], F[c, 2], x[i])
            A[c, 3] = min(A[c, 3], TOP if nan else k)
            A[c, 4] = max(A[c, 4], BOTTOM if nan else k)


@njit(cache=True, nogil=True)
def scatter_basic_i(cell, valid, x, A):
    every = valid.size == 0
    for i in range(cell.size):
        if every or valid[i]:
            c = np.uint64(cell[i])
            v = x[i]
            A[c, 0] += 1
            A[c, 1] += v & LOW
            A[c, 2] += v >> SHIFT
            A[c, 3] = min(A[c, 3], v)
            A[c, 4] = max(A[c, 4], v)


@njit(cache=True, nogil=True)
def scatter_extremes(cell, valid, x, A):
    every = valid.size == 0
    for i in range(cell.size):
        if every or valid[i]:
            c = np.uint64(cell[i])
            A[c, 0] += 1
            A[c, 1] = min(A[c, 1], x[i])
            A[c, 2] = max(A[c, 2], x[i])


@njit(cache=True, nogil=True)
def scatter_moments(cell, valid, x, A, F):
    every = valid.size == 0
    for i in range(cell.size):
        if every or valid[i]:
            c = np.uint64(cell[i])
            n = A[c, 0] + 1
            d = x[i] - F[c, 1]
            m = F[c, 1] + d / n
            A[c, 0] = n
            F[c, 1] = m
            F[c, 2] += d * (x[i] - m)


@njit(cache=True, nogil=True)
def scatter_product_f(cell, valid, x, A, F):
    for i in range(cell.size):
        if valid.size == 0 or valid[i]:
            c = np.uint64(cell[i])
            A[c, 0] += 1
            F[c, 1] *= x[i]


@njit(cache=True, nogil=True)
def scatter_product_i(cell, valid, x, approximate, A, F):
    for i in range(cell.size):
        if valid.size == 0 or valid[i]:
            c = np.uint64(cell[i])
            A[c, 0] += 1
            A[c, 1] *= x[i]
            F[c, 2] *= approximate[i]


@njit(cache=True, nogil=True)
def scatter_edge(last, cell, valid, t, s, a, x, A):
    """FIRST, or LAST: the value of the earliest or latest row by (time, sequence, arrival)."""
    for i in range(cell.size):
        if valid.size == 0 or valid[i]:
            c = np.uint64(cell[i])
            before = earlier(t[i], s[i], a[i], A[c, 1], A[c, 2], A[c, 3])
            if A[c, 0] == 0 or before != last:
                A[c, 1] = t[i]
                A[c, 2] = s[i]
                A[c, 3] = a[i]
                A[c, 4] = x[i]
            A[c, 0] += 1


@njit(cache=True, nogil=True)
def scatter_arg(cell, valid, key, t, s, a, x, x_valid, A):
    for i in range(cell.size):
        if valid.size == 0 or valid[i]:
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


@njit(cache=True, nogil=True)
def scatter_extreme_count(cell, valid, key, A):
    for i in range(cell.size):
        if valid.size == 0 or valid[i]:
            c = np.uint64(cell[i])
            k = key[i]
            if A[c, 0] == 0 or k < A[c, 1]:
                A[c, 1] = k
                A[c, 2] = 1
            elif k == A[c, 1]:
                A[c, 2] += 1
            A[c, 0] += 1


# --- rows sorted by cell: rows first[c] : last[c] belong to cell c --------------------------------------------


@njit(cache=True, nogil=True, fastmath=REORDER)
def segment_basic_f(first, last, x, bits, A, F):
    for c in range(first.size):
        total = lost = 0.0
        low = TOP
        high = BOTTOM
        for start in range(first[c], last[c], BLOCK):
            stop = min(start + BLOCK, last[c])
            y = x[start:stop]  # a view: an offset index inside the loop would defeat SIMD (8x)
            z = bits[start:stop]
            block = 0.0
            for i in range(y.size):
                block += y[i]
                u = z[i]
                k = order_key(u)
                nan = is_nan(u)
                low = min(low, TOP if nan else k)
                high = max(high, BOTTOM if nan else k)
            total, lost = summed(total, lost, block)
        A[c, 0] = last[c] - first[c]
        F[c, 1] = total
        F[c, 2] = lost
        A[c, 3] = low
        A[c, 4] = high


@njit(cache=True, nogil=True)
def segment_basic_i(first, last, x, A):
    for c in range(first.size):
        y = x[first[c] : last[c]]
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
        A[c, 0] += y.size
        A[c, 1] += low_sum
        A[c, 2] += high_sum
        A[c, 3] = min(A[c, 3], low)
        A[c, 4] = max(A[c, 4], high)


@njit(cache=True, nogil=True)
def segment_extremes(first, last, x, A):
    for c in range(first.size):
        y = x[first[c] : last[c]]
        low = TOP
        high = BOTTOM
        for i in range(y.size):
            low = min(low, y[i])
            high = max(high, y[i])
        A[c, 0] += y.size
        A[c, 1] = min(A[c, 1], low)
        A[c, 2] = max(A[c, 2], high)


@njit(cache=True, nogil=True, fastmath=REORDER)
def segment_moments(first, last, x, A, F):
    for c in range(first.size):
        y = x[first[c] : last[c]]
        if y.size == 0:
            continue
        total = 0.0
        for i in range(y.size):
            total += y[i]
        mean = total / y.size
        squares = 0.0
        for i in range(y.size):
            d = y[i] - mean
            squares += d * d
        A[c, 0] = y.size
        F[c, 1] = mean
        F[c, 2] = squares
