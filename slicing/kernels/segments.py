"""Runs of rows into partials with SIMD, with one kernel for each kind. ``segment_*``: each run is a cell. ``masked_*``:
only some rows of a run count.

Float minimum and maximum are computed on order-preserving integer keys: a float recurrence does not vectorise, and NaN
and -0.0 must have a fixed place in any order of rows.
"""

import numpy as np
from numba import njit

from slicing.kernels.at_once import float_run, rows_between
from slicing.kernels.combine import BOTTOM, LOW, SHIFT, SUM_WORDS, TOP, summed
from slicing.kernels.floats import INF_BITS, is_nan, order_key
from slicing.kernels.kernel import helper, kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import stream
from slicing.kernels.wide import wide

REORDER = {"reassoc", "nsz", "contract"}  # sums may be reordered; NaN and inf stay correct
BLOCK = 512  # rows that are added without compensation: each SIMD lane adds at most 128
NARROW_TOP = (1 << 31) - 1


# --- cells that are the rows first[p] : last[p] and were empty before -------------------------------------------


@kernel
def segment_basic_f(first, last, x, bits, A, F):
    """NaN, infinities, and zeros next to negative numbers need a second look.

    All blocks of a long run are read by one loop. If its first block is read elsewhere, each of the two places skips
    every other page of memory, and the processor no longer fetches ahead: runs of 1000 rows 0.21 -> 0.40 ns a row.
    """
    for p in range(first.size):
        begin, end = first[p], last[p]
        lost = 0.0
        if end - begin <= BLOCK:
            total, low, high, unsigned = float_run(x, begin, end - begin)
        else:
            total, low, high, unsigned = 0.0, TOP, BOTTOM, True
            for start in range(begin, end, BLOCK):
                block, least, most, plain = float_run(x, start, min(end - start, BLOCK))
                total, lost = summed(total, lost, block)
                low, high, unsigned = min(low, least), max(high, most), unsigned & plain
        if (low > high) | (total - total != 0.0) | ((not unsigned) & (is_zero(low) | is_zero(high))):
            total, low, high = looked_at(bits, begin, end, total)
        c = np.uint64(p)
        A[c, 0] = end - begin
        F[c, 1], F[c, 2] = total, lost
        if A.shape[1] > SUM_WORDS:
            A[c, 3], A[c, 4] = low, high


@helper(inline="always")
def is_zero(key):
    return np.uint64(key + 1) <= np.uint64(1)


@helper
def looked_at(bits, begin, end, total):
    """Sum and extremes if -0.0 must be ordered below 0.0, or if all rows may be NaN."""
    low, high, nan = TOP, BOTTOM, np.int64(0)
    for i in range(begin, end):
        u = bits[np.uint64(i)]
        nan += is_nan(u)
        low = min(low, TOP if is_nan(u) else order_key(u))
        high = max(high, BOTTOM if is_nan(u) else order_key(u))
    if nan == 0 and total != total:  # 1e308 + 1e308 - inf: the result depends on the order of the lanes
        if low == ~INF_BITS and high < INF_BITS:
            total = -np.inf
        elif high == INF_BITS and low > ~INF_BITS:
            total = np.inf
    return total, low, high


@kernel
def segment_basic_i(first, last, x, A):
    for p in range(first.size):
        low_sum = np.int64(0)
        high_sum = np.int64(0)
        low = TOP
        high = BOTTOM
        for start in range(first[p], last[p], BLOCK):
            y = x[start : min(start + BLOCK, last[p])]
            stream(x, start, y.size)
            for i in range(y.size):
                v = y[i]
                low_sum += v & LOW
                high_sum += v >> SHIFT
                low = min(low, v)
                high = max(high, v)
        A[p, 0], A[p, 1], A[p, 2] = last[p] - first[p], low_sum, high_sum
        if A.shape[1] > SUM_WORDS:
            A[p, 3], A[p, 4] = low, high


@kernel
def segment_basic_narrow(first, last, x, A):
    """For int32: sums fit a word, and SIMD compares twice as many values: in cache 0.24 -> 0.11 ns a row, from memory
    0.23 -> 0.13."""
    for p in range(first.size):
        rows = last[p] - first[p]
        total = np.int64(0)
        low = np.int32(NARROW_TOP)
        high = np.int32(~NARROW_TOP)
        for start in range(first[p], last[p], BLOCK):
            y = x[start : min(start + BLOCK, last[p])]
            stream(x, start, y.size)
            for i in range(y.size):
                v = y[i]
                total += v
                low = min(low, v)
                high = max(high, v)
        A[p, 0], A[p, 1], A[p, 2] = rows, total & LOW, total >> SHIFT
        if A.shape[1] > SUM_WORDS:
            A[p, 3], A[p, 4] = (low, high) if rows else (TOP, BOTTOM)


@kernel
def segment_extremes(first, last, x, A):
    for p in range(first.size):
        low = TOP
        high = BOTTOM
        for start in range(first[p], last[p], BLOCK):
            y = x[start : min(start + BLOCK, last[p])]
            stream(x, start, y.size)
            for i in range(y.size):
                low = min(low, y[i])
                high = max(high, y[i])
        A[p, 0], A[p, 1], A[p, 2] = last[p] - first[p], low, high


@kernel(fastmath=REORDER)
def segment_moments(first, last, x, A, F):
    for p in range(first.size):
        y = x[first[p] : last[p]]
        total = 0.0
        for i in range(y.size):
            total += y[i]
        mean = total / y.size
        squares, rest = 0.0, 0.0  # what the mean lacks: it is rounded
        for i in range(y.size):
            d = y[i] - mean
            squares += d * d
            rest += d
        A[p, 0] = y.size
        rest = rest / y.size if squares < np.inf else 0.0  # otherwise values are infinite, or too large to be squared
        F[p, 1] = mean + rest
        F[p, 2] = squares - rest * rest * y.size


# --- kernels for the rows of a run that count: low <= t < high, and valid (a byte a row; empty: all are valid). In each
# block, rows that are not valid get a time beyond all others, so that the loop tests only times.


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
            stream(t, start, stop - start)
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


@helper
def add_part(A, F, run, found, t, bits):
    n, total, low, high = found
    c = run[2]
    A[c, 0] += n
    F[c, 1], F[c, 2] = summed(F[c, 1], F[c, 2], total)
    if A.shape[1] > SUM_WORDS and low <= high:
        if is_zero(low) or is_zero(high):
            low, high = with_zeros(run, t, bits, low, high)
        A[c, 3] = min(A[c, 3], low)
        A[c, 4] = max(A[c, 4], high)


@helper
def with_zeros(run, t, bits, low, high):
    """Extremes that may be zeros: -0.0 is below 0.0 if there is any."""
    below = np.int64(0)
    for i in range(bits.size):
        below += bits[i] == BOTTOM
    if below == 0:
        return np.int64(0) if low == -1 else low, np.int64(0) if high == -1 else high
    low, high = TOP, BOTTOM
    for i in range(t.size):
        key = order_key(bits[i])
        held = (t[i] >= run[3]) & (t[i] < run[4]) & (not is_nan(bits[i]))
        low = min(low, key if held else TOP)
        high = max(high, key if held else BOTTOM)
    return low, high


@helper
def follows(run, next):
    """Whether the next run has the same rows and begins at the time where this run ends."""
    return run[0] == next[0] and run[4] == next[3]


@kernel
def masked_basic_f(runs, t, valid, x, bits, A, F):
    """Two adjacent runs of the same rows share one pass: if each block touches two slots 1.5 -> 0.6 ns a row, three 1.4
    -> 1.2 (three runs in a pass: 1.3)."""
    wide()
    spare = on_stack(BLOCK, np.int64)
    p = np.int64(0)
    while p < runs.shape[0]:
        both = p + 1 < runs.shape[0] and follows(runs[p], runs[p + 1])
        for start in range(runs[p, 0], runs[p, 1], BLOCK):
            stop = min(start + BLOCK, runs[p, 1])
            w = times_of_valid(t[start:stop], valid[start:stop], spare)
            y, z = x[start:stop], bits[start:stop]
            if both:
                first, second = rows_between(w, y, (runs[p, 3], runs[p, 4], runs[p + 1, 4]))
                add_part(A, F, runs[p], first, w, z)
                add_part(A, F, runs[p + 1], second, w, z)
            else:
                add_part(A, F, runs[p], rows_between(w, y, (runs[p, 3], runs[p, 4]))[0], w, z)
        p += 2 if both else 1


@kernel
def masked_basic_i(runs, t, valid, x, A):
    wide()
    spare = on_stack(BLOCK, np.int64)
    for p in range(runs.shape[0]):
        after, until = runs[p, 3], runs[p, 4]
        c = runs[p, 2]
        n, low_sum, high_sum = A[c, 0], A[c, 1], A[c, 2]
        low, high = TOP, BOTTOM
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
        A[c, 0], A[c, 1], A[c, 2] = n, low_sum, high_sum
        if A.shape[1] > SUM_WORDS:
            A[c, 3], A[c, 4] = min(A[c, 3], low), max(A[c, 4], high)


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
