"""Partial aggregates and how two of them combine.

A partial is a row of a few 8-byte words; its *kind* says what they mean. ``combine`` is the one place that knows
how two partials of a kind become one; everything that merges, folds or answers windows goes through it. ``combine``
is associative for every kind and commutative in value, order-sensitive kinds carry their own order.

Word layouts (``f`` = a float64 kept in the same 8 bytes):

====================  =============================================================================
COUNT                 count
BASIC_F               count, sum f, min key, max key         (keys order floats as integers)
BASIC_I               count, low sum, high sum, min, max     (sum = high * 2**32 + low, never overflows)
EXTREMES              count, min, max
MOMENTS               count, mean f, M2 f
PRODUCT_F             count, product f
PRODUCT_I             count, product modulo 2**64, product f (f tells whether the exact one fits)
FIRST, LAST           count, time, sequence, arrival, value
ARG                   count, key, time, sequence, arrival, value, value is valid   (smallest key, then earliest)
EXTREME_COUNT         count, key, rows that have it          (smallest key)
====================  =============================================================================
"""

import numpy as np
from numba import njit

COUNT, BASIC_F, BASIC_I, EXTREMES, MOMENTS, PRODUCT_F, PRODUCT_I, FIRST, LAST, ARG, EXTREME_COUNT = range(11)

TOP = np.int64(0x7FFFFFFFFFFFFFFF)
BOTTOM = np.int64(-0x8000000000000000)
LOW = np.int64(0xFFFFFFFF)
SHIFT = np.int64(32)

_ONE = int(np.float64(1.0).view(np.int64))
IDENTITY = {
    COUNT: (0,),
    BASIC_F: (0, 0, TOP, BOTTOM),
    BASIC_I: (0, 0, 0, TOP, BOTTOM),
    EXTREMES: (0, TOP, BOTTOM),
    MOMENTS: (0, 0, 0),
    PRODUCT_F: (0, _ONE),
    PRODUCT_I: (0, 1, _ONE),
    FIRST: (0, TOP, TOP, TOP, 0),
    LAST: (0, BOTTOM, BOTTOM, BOTTOM, 0),
    ARG: (0, TOP, TOP, TOP, TOP, 0, 0),
    EXTREME_COUNT: (0, TOP, 0),
}


def identity(kind, rows):
    """A block of ``rows`` empty partials."""
    row = np.array(IDENTITY[kind], np.int64)
    block = np.empty((rows, row.size), np.int64)
    block[:] = row
    return block


@njit(inline="always")
def earlier(t, s, a, u, r, b):
    """(t, s, a) < (u, r, b)"""
    return t < u or (t == u and (s < r or (s == r and a < b)))


@njit(inline="always")
def combine(kind, X, FX, i, Y, FY, j):
    """X[i] = X[i] combined with Y[j]; FX and FY are the same memory as floats."""
    n = X[i, 0]
    m = Y[j, 0]
    if m == 0:
        return
    if kind == BASIC_F:
        FX[i, 1] += FY[j, 1]
        X[i, 2] = min(X[i, 2], Y[j, 2])
        X[i, 3] = max(X[i, 3], Y[j, 3])
    elif kind == BASIC_I:
        low = X[i, 1] + Y[j, 1]
        X[i, 1] = low & LOW
        X[i, 2] += Y[j, 2] + (low >> SHIFT)
        X[i, 3] = min(X[i, 3], Y[j, 3])
        X[i, 4] = max(X[i, 4], Y[j, 4])
    elif kind == EXTREMES:
        X[i, 1] = min(X[i, 1], Y[j, 1])
        X[i, 2] = max(X[i, 2], Y[j, 2])
    elif kind == MOMENTS:
        if n == 0:
            FX[i, 1] = FY[j, 1]
            FX[i, 2] = FY[j, 2]
        else:
            d = FY[j, 1] - FX[i, 1]
            FX[i, 1] += d * (m / (n + m))
            FX[i, 2] += FY[j, 2] + d * d * (n / (n + m)) * m
    elif kind == PRODUCT_F:
        FX[i, 1] *= FY[j, 1]
    elif kind == PRODUCT_I:
        X[i, 1] *= Y[j, 1]
        FX[i, 2] *= FY[j, 2]
    elif kind == FIRST or kind == LAST:
        before = earlier(Y[j, 1], Y[j, 2], Y[j, 3], X[i, 1], X[i, 2], X[i, 3])
        if n == 0 or before == (kind == FIRST):
            for w in range(1, 5):
                X[i, w] = Y[j, w]
    elif kind == ARG:
        if (
            n == 0
            or Y[j, 1] < X[i, 1]
            or (Y[j, 1] == X[i, 1] and earlier(Y[j, 2], Y[j, 3], Y[j, 4], X[i, 2], X[i, 3], X[i, 4]))
        ):
            for w in range(1, 7):
                X[i, w] = Y[j, w]
    elif kind == EXTREME_COUNT:
        if n == 0 or Y[j, 1] < X[i, 1]:
            X[i, 1] = Y[j, 1]
            X[i, 2] = Y[j, 2]
        elif Y[j, 1] == X[i, 1]:
            X[i, 2] += Y[j, 2]
    X[i, 0] = n + m


@njit(cache=True, nogil=True)
def fold(kind, source, fsource, into, out, fout):
    """out[into[i]] = out[into[i]] combined with source[i], in order."""
    for i in range(into.size):
        combine(kind, out, fout, into[i], source, fsource, i)


@njit(cache=True, nogil=True)
def fold_ranges(kind, source, fsource, first, last, place, out, fout):
    """out[place[r]] = source[first[r] : last[r]] combined: recompute, for short or few ranges."""
    for r in range(first.size):
        for i in range(first[r], last[r]):
            combine(kind, out, fout, place[r], source, fsource, i)


@njit(cache=True, nogil=True)
def suffixes_and_prefixes(kind, levels, flevels, cells):
    """Disjoint sparse table: level k holds, in blocks of 2**(k+1) cells, what lies between a cell and the middle."""
    for k in range(1, levels.shape[0]):
        half = 1 << k
        row = levels[k]
        frow = flevels[k]
        for middle in range(half, cells, 2 * half):
            for i in range(middle - 2, middle - half - 1, -1):
                combine(kind, row, frow, i, row, frow, i + 1)
            for i in range(middle + 1, min(middle + half, cells)):
                combine(kind, row, frow, i, row, frow, i - 1)


@njit(cache=True, nogil=True)
def query_ranges(kind, levels, flevels, first, last, place, out, fout):
    """out[place[r]] = cells first[r] : last[r] combined, from the disjoint sparse table: one combination a window."""
    for r in range(first.size):
        a = first[r]
        b = last[r] - 1
        k = 0
        x = a ^ b
        while x > 1:
            x >>= 1
            k += 1
        combine(kind, out, fout, place[r], levels[k], flevels[k], a)
        if a != b:
            combine(kind, out, fout, place[r], levels[k], flevels[k], b)


@njit(cache=True, nogil=True)
def two_stacks(kind, source, fsource, first, last, place, front, ffront, back, fback, out, fout):
    """out[place[r]] = source[first[r] : last[r]] combined, for ranges whose ends mostly only move forward.

    ``front[c]`` holds cells c .. middle-1, ``back`` the cells from middle on (Hammer Slide keeps only this one
    value of the back stack). When the window leaves the front, or a new run of windows begins, the stacks flip.
    """
    middle = np.int64(-1)
    bottom = np.int64(0)
    reach = np.int64(0)
    for r in range(first.size):
        a = first[r]
        b = last[r]
        if a < bottom or a >= middle or b < reach:
            for c in range(b - 1, a - 1, -1):
                front[c] = source[c]
                if c < b - 1:
                    combine(kind, front, ffront, c, front, ffront, c + 1)
            bottom = a
            middle = b
            reach = b
            back[0] = back[1]
        while reach < b:
            combine(kind, back, fback, 0, source, fsource, reach)
            reach += 1
        combine(kind, out, fout, place[r], front, ffront, a)
        combine(kind, out, fout, place[r], back, fback, 0)
