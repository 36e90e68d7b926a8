"""Rows into partials, with one kernel for each kind. Cells come in any order; rows that do not count go to a cell that
is discarded."""

import numpy as np

from slicing.kernels.at_once import add_basic_f, widen_span
from slicing.kernels.combine import BOTTOM, LOW, SHIFT, SUM_WORDS, TOP, earlier, multiplied, summed
from slicing.kernels.floats import floats, is_nan, order_key
from slicing.kernels.kernel import kernel
from slicing.kernels.prefetch import ahead, ahead_on_lines

OFTEN = np.int64(1023)
VALUE = np.int64(1 + (1 << 32))  # a row that has a value, in words that count both


@kernel
def scatter_span(cell, t, S):
    """~first and last time of each cell."""
    for i in range(cell.size):
        ahead(i, cell, t, S)
        widen_span(S, np.uint64(cell[i]), t[i])


@kernel
def span_in_order(cell, t, rows, first, last):
    """First and last time of each cell with ``rows``, from rows in order; stops reading once each cell was found."""
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
    """Count the rows of each cell in ``A[:, 0]``; returns how many of these cells had no rows before."""
    new = np.int64(0)
    for i in range(cell.size):
        ahead(i, cell, cell, A)
        c = np.uint64(cell[i])
        new += A[c, 0] == 0
        A[c, 0] += 1
    return new


@kernel
def scatter_basic_f(cell, bits, Q, spilt):
    """Add floats to cells. After every 1024 rows of a cell its sum moves to ``spilt``, which holds a sum and its
    rounding error for each cell. Returns how many of these cells had no rows before."""
    F, new = floats(Q), np.int64(0)
    for i in range(cell.size):
        ahead(i, cell, bits, Q)
        c = np.uint64(cell[i])
        count = add_basic_f(Q, c, bits[i])
        new += count == 1
        if count & OFTEN == 0:
            spilt[c, 0], spilt[c, 1] = summed(spilt[c, 0], spilt[c, 1], F[c, 1])
            F[c, 1] = 0.0
    return new


@kernel
def scatter_exact_f(cell, x, bits, A, F):
    """Add floats to partials directly, with the rounding error of each addition."""
    for i in range(cell.size):
        c = np.uint64(cell[i])
        A[c, 0] += 1
        F[c, 1], F[c, 2] = summed(F[c, 1], F[c, 2], x[i])
        if A.shape[1] > SUM_WORDS and not is_nan(bits[i]):
            A[c, 3] = min(A[c, 3], order_key(bits[i]))
            A[c, 4] = max(A[c, 4], order_key(bits[i]))


@kernel
def scatter_sums_f(cell, valid, x, S):
    """Add floats to sums, each with what its additions lost. The first word of a sum counts rows in its low half and
    values in its high half. ``valid``: a byte a row, empty if all rows count. Returns how many of these cells had no
    rows before."""
    F, new = floats(S), np.int64(0)
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, S)
        c = np.uint64(cell[i])
        new += S[c, 0] == 0
        if valid.size == 0 or valid[i]:
            S[c, 0] += VALUE
            F[c, 1], F[c, 2] = summed(F[c, 1], F[c, 2], x[i])
        else:
            S[c, 0] += 1
    return new


@kernel
def scatter_sums_i(cell, valid, x, S):
    """Add integers to sums, by halves, and count rows and values as ``scatter_sums_f``."""
    new = np.int64(0)
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, S)
        c = np.uint64(cell[i])
        v = x[i]
        new += S[c, 0] == 0
        if valid.size == 0 or valid[i]:
            S[c, 0] += VALUE
            S[c, 1] += v & LOW
            S[c, 2] += v >> SHIFT
        else:
            S[c, 0] += 1
    return new


@kernel
def settle(which, Q, spilt, A):
    """Convert some cells of ``scatter_basic_f`` to partials."""
    F, G = floats(Q), floats(A)
    for i in range(which.size):
        c = np.uint64(which[i])
        n = Q[c, 0]
        A[i, 0] = n
        G[i, 1], G[i, 2] = F[c, 1], 0.0
        if n > OFTEN:
            G[i, 1], G[i, 2] = summed(spilt[c, 0], spilt[c, 1], F[c, 1])
        if A.shape[1] > SUM_WORDS:
            A[i, 3], A[i, 4] = ~Q[c, 2], Q[c, 3]


@kernel
def resume(which, A, Q, spilt):
    """Cells of ``scatter_basic_f`` that have no rows go on from these partials: the inverse of ``settle``."""
    F, G = floats(Q), floats(A)
    for i in range(which.size):
        c = np.uint64(which[i])
        n = A[i, 0]
        Q[c, 0] = n
        if n > OFTEN:
            spilt[c, 0], spilt[c, 1] = G[i, 1], G[i, 2]
        else:
            F[c, 1] = G[i, 1] + G[i, 2]
        Q[c, 2], Q[c, 3] = ~A[i, 3], A[i, 4]


@kernel
def settle_sums(which, S, A):
    """Convert some cells of ``scatter_sums_f`` or ``scatter_sums_i`` to partials."""
    for i in range(which.size):
        c = np.uint64(which[i])
        A[i, 0], A[i, 1], A[i, 2] = S[c, 0] >> SHIFT, S[c, 1], S[c, 2]


@kernel
def resume_sums(which, rows, A, S):
    """Cells that have no rows go on from these partials of so many rows: the inverse of ``settle_sums``."""
    for i in range(which.size):
        c = np.uint64(which[i])
        S[c, 0], S[c, 1], S[c, 2] = (A[i, 0] << SHIFT) + rows[i], A[i, 1], A[i, 2]


@kernel
def scatter_basic_i(cell, x, A):
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
        c = np.uint64(cell[i])
        v = x[i]
        A[c, 0] += 1
        A[c, 1] += v & LOW
        A[c, 2] += v >> SHIFT
        if A.shape[1] > SUM_WORDS:
            A[c, 3] = min(A[c, 3], v)
            A[c, 4] = max(A[c, 4], v)


@kernel
def scatter_net(cell, sign, A):
    for i in range(cell.size):
        ahead(i, cell, sign, A)
        A[np.uint64(cell[i]), 0] += sign[i]


@kernel
def scatter_net_sum(cell, x, sign, A):
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
        c = np.uint64(cell[i])
        v, s = x[i], sign[i]
        A[c, 0] += s
        A[c, 1] += s * (v & LOW)
        A[c, 2] += s * (v >> SHIFT)


@kernel
def scatter_extremes(cell, x, A):
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
        c = np.uint64(cell[i])
        A[c, 0] += 1
        A[c, 1] = min(A[c, 1], x[i])
        A[c, 2] = max(A[c, 2], x[i])


@kernel
def scatter_moments(cell, x, A, F):
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
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
        F[c, 1], A[c, 2] = multiplied(F[c, 1], A[c, 2], x[i], 0)


@kernel
def scatter_product_i(cell, x, approximate, A, F):
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
        c = np.uint64(cell[i])
        A[c, 0] += 1
        A[c, 1] *= x[i]
        F[c, 2] *= approximate[i]


@kernel
def scatter_edge(last, cell, t, s, a, x, A):
    """FIRST or LAST: the value of the earliest or latest row by (time, sequence, arrival)."""
    for i in range(cell.size):
        ahead_on_lines(i, cell, x, A)
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
        ahead_on_lines(i, cell, x, A)
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
        ahead_on_lines(i, cell, key, A)
        c = np.uint64(cell[i])
        k = key[i]
        if A[c, 0] == 0 or k < A[c, 1]:
            A[c, 1] = k
            A[c, 2] = 1
        elif k == A[c, 1]:
            A[c, 2] += 1
        A[c, 0] += 1
