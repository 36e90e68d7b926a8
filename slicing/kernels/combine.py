"""Partial aggregates, and how two of them are combined.

A partial is a row of a few 8-byte words; its *kind* says what they mean. This module combines two partials of any kind
(``closing.over_cells`` also combines columns of words, of some kinds). Code that merges or answers windows is a list of
combinations ``out[into[i]] += cells[source[i]]``. A strategy makes the list once, without knowing aggregates, and it is
run here for every lane.
Combining is associative for every kind and commutative in value; order-sensitive kinds store their own order.

Word layouts (``f`` = a float64 kept in the same 8 bytes):

====================  =============================================================================
COUNT                 count
BASIC_F               count, sum f, lost f, min key, max key (keys order floats as integers; lost: what rounding
                      took from the sum)
BASIC_I               count, low sum, high sum, min, max     (sum = high * 2**32 + low, never overflows)
SUM_F, SUM_I          the first three words of these: nobody reads the least and the most
EXTREMES              count, min, max
MOMENTS               count, mean f, M2 f
PRODUCT_F             count, part f, power                   (product = part * 2**power, never overflows)
PRODUCT_I             count, product modulo 2**64, product f (f tells whether the exact one fits)
FIRST, LAST           count, time, sequence, arrival, value
ARG                   count, key, time, sequence, arrival, value, value is valid   (smallest key, then earliest)
EXTREME_COUNT         count, key, rows that have it          (smallest key)
NET                   rows added less rows taken back
NET_SUM               rows added less rows taken back, low sum, high sum of the one less the other's
====================  =============================================================================
"""

import math

import numpy as np
from numba import njit

from slicing.kernels.kernel import helper, kernel

COUNT, BASIC_F, BASIC_I, EXTREMES, MOMENTS, PRODUCT_F, PRODUCT_I, FIRST, LAST, ARG, EXTREME_COUNT = range(11)
NET, NET_SUM = 11, 12
SUM_F, SUM_I = 13, 14
SIGNED = (NET, NET_SUM)  # their first word may be 0 or negative although there are rows
FLOATS, INTEGERS = (BASIC_F, SUM_F), (BASIC_I, SUM_I)
SUMS = {BASIC_F: SUM_F, BASIC_I: SUM_I}
# the word that holds the arrival; without an order of arrival, the value's word (complemented for LAST, the largest)
ARRIVAL_WORDS = {FIRST: 3, LAST: 3, ARG: 4}
SUM_WORDS = 3  # the number of words that a sum has: the first words of a basic partial

# answers that are computed directly, in addition to words of partials: of floats, and of integers that never overflow
TOTAL, MEAN, VARIANCE, DEVIATION = -1, -2, -3, -4

TOP = np.int64(0x7FFFFFFFFFFFFFFF)
BOTTOM = np.int64(-0x8000000000000000)
LOW = np.int64(0xFFFFFFFF)
SHIFT = np.int64(32)

_ONE = int(np.float64(1.0).view(np.int64))
IDENTITY = {
    COUNT: (0,),
    BASIC_F: (0, 0, 0, TOP, BOTTOM),
    BASIC_I: (0, 0, 0, TOP, BOTTOM),
    EXTREMES: (0, TOP, BOTTOM),
    MOMENTS: (0, 0, 0),
    PRODUCT_F: (0, _ONE, 0),
    PRODUCT_I: (0, 1, _ONE),
    FIRST: (0, TOP, TOP, TOP, 0),
    LAST: (0, BOTTOM, BOTTOM, BOTTOM, 0),
    ARG: (0, TOP, TOP, TOP, TOP, 0, 0),
    EXTREME_COUNT: (0, TOP, 0),
    NET: (0,),
    NET_SUM: (0, 0, 0),
    SUM_F: (0, 0, 0),
    SUM_I: (0, 0, 0),
}
PIECE = 512
TINY, HUGE = 2.0**-1000, 2.0**1000  # between these a product of two floats has lost no digits
_pieces = {}
_EMPTY = {kind: np.array([words], np.int64) for kind, words in IDENTITY.items()}
_ZEROS = {kind for kind, words in IDENTITY.items() if not any(words)}


def identity(kind, rows):
    """A block of ``rows`` empty partials."""
    if kind in _ZEROS:
        return np.zeros((rows, len(IDENTITY[kind])), np.int64)
    if rows < PIECE:
        return _EMPTY[kind].repeat(rows, axis=0)
    piece = _pieces[kind] = _pieces.get(kind, _EMPTY[kind].repeat(PIECE, axis=0))
    block = np.empty((rows, piece.shape[1]), np.int64)
    whole = rows - rows % PIECE
    block[:whole].reshape(-1, piece.size)[:] = piece.ravel()  # 3 against 15 ns a partial
    block[whole:] = piece[: rows - whole]
    return block


def room(kind, rows):
    """An uninitialised block for ``rows`` partials."""
    return np.empty((rows, len(IDENTITY[kind])), np.int64)


@njit(inline="always")
def earlier(t, s, a, u, r, b):
    """(t, s, a) < (u, r, b)"""
    return t < u or (t == u and (s < r or (s == r and a < b)))


# Not inlined, and with its own fastmath option: otherwise a caller's option would remove the compensation.
@helper(fastmath=False)
def summed(total, lost, x):
    """total + x, and the sum of all rounding errors so far; a sum that is inf or NaN adds none."""
    s = total + x
    part = s - total
    rounded = (total - (s - part)) + (x - part)
    return s, lost + (rounded if rounded == rounded else 0.0)


# One kernel for each kind, with its own loop. One loop that calls a function of two partials would count references of
# four arrays at each call (47 against 2.6 ns a combination). All but the kernel of counts take (into, source, out,
# fout, cells, fcells).


@kernel
def combine_count(into, source, out, cells):
    for i in range(into.size):
        out[np.uint64(into[i]), 0] += cells[np.uint64(source[i]), 0]


@kernel
def combine_basic_f(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        out[a, 0] += cells[b, 0]
        fout[a, 1], lost = summed(fout[a, 1], fout[a, 2], fcells[b, 1])
        fout[a, 2] = lost + fcells[b, 2]
        if out.shape[1] > SUM_WORDS:
            out[a, 3] = min(out[a, 3], cells[b, 3])
            out[a, 4] = max(out[a, 4], cells[b, 4])


@kernel
def combine_basic_i(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        low = out[a, 1] + cells[b, 1]
        out[a, 0] += cells[b, 0]
        out[a, 1] = low & LOW
        out[a, 2] += cells[b, 2] + (low >> SHIFT)
        if out.shape[1] > SUM_WORDS:
            out[a, 3] = min(out[a, 3], cells[b, 3])
            out[a, 4] = max(out[a, 4], cells[b, 4])


@kernel
def combine_extremes(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        out[a, 0] += cells[b, 0]
        out[a, 1] = min(out[a, 1], cells[b, 1])
        out[a, 2] = max(out[a, 2], cells[b, 2])


@helper
def multiplied(part, power, other, others):
    """``part * 2**power`` times ``other * 2**others``, as such a pair: products of any rows neither overflow nor
    vanish on the way to one that fits."""
    product = part * other
    if TINY < abs(product) < HUGE:
        return product, power + others
    a, i = math.frexp(part)
    b, j = math.frexp(other)
    return a * b, power + others + i + j


@kernel
def combine_moments(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        n, m = out[a, 0], cells[b, 0]
        if m != 0 and n == 0:
            out[a, 1] = cells[b, 1]
            out[a, 2] = cells[b, 2]
        elif m != 0:
            share = m / (n + m)
            d = fcells[b, 1] - fout[a, 1]
            fout[a, 1] += d * share
            fout[a, 2] += fcells[b, 2] + d * d * share * n
        out[a, 0] = n + m


@kernel
def combine_product_f(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        out[a, 0] += cells[b, 0]
        fout[a, 1], out[a, 2] = multiplied(fout[a, 1], out[a, 2], fcells[b, 1], cells[b, 2])


@kernel
def combine_product_i(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        out[a, 0] += cells[b, 0]
        out[a, 1] *= cells[b, 1]
        fout[a, 2] *= fcells[b, 2]


@kernel
def combine_first(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        n, m = out[a, 0], cells[b, 0]
        before = earlier(cells[b, 1], cells[b, 2], cells[b, 3], out[a, 1], out[a, 2], out[a, 3])
        if m != 0 and (n == 0 or before):
            for w in range(1, 5):
                out[a, w] = cells[b, w]
        out[a, 0] = n + m


@kernel
def combine_last(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        n, m = out[a, 0], cells[b, 0]
        before = earlier(cells[b, 1], cells[b, 2], cells[b, 3], out[a, 1], out[a, 2], out[a, 3])
        if m != 0 and (n == 0 or not before):
            for w in range(1, 5):
                out[a, w] = cells[b, w]
        out[a, 0] = n + m


@kernel
def combine_arg(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        n, m = out[a, 0], cells[b, 0]
        before = cells[b, 1] < out[a, 1] or (
            cells[b, 1] == out[a, 1] and earlier(cells[b, 2], cells[b, 3], cells[b, 4], out[a, 2], out[a, 3], out[a, 4])
        )
        if m != 0 and (n == 0 or before):
            for w in range(1, 7):
                out[a, w] = cells[b, w]
        out[a, 0] = n + m


@kernel
def combine_extreme_count(into, source, out, fout, cells, fcells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        n, m = out[a, 0], cells[b, 0]
        if m != 0 and (n == 0 or cells[b, 1] < out[a, 1]):
            out[a, 1] = cells[b, 1]
            out[a, 2] = cells[b, 2]
        elif m != 0 and cells[b, 1] == out[a, 1]:
            out[a, 2] += cells[b, 2]
        out[a, 0] = n + m


_KERNELS = {
    BASIC_F: combine_basic_f,
    BASIC_I: combine_basic_i,
    EXTREMES: combine_extremes,
    MOMENTS: combine_moments,
    PRODUCT_F: combine_product_f,
    PRODUCT_I: combine_product_i,
    FIRST: combine_first,
    LAST: combine_last,
    ARG: combine_arg,
    EXTREME_COUNT: combine_extreme_count,
    NET_SUM: combine_basic_i,
    SUM_F: combine_basic_f,
    SUM_I: combine_basic_i,
}


def combine(kind, into, source, out, cells):
    """out[into[i]] = out[into[i]] combined with cells[source[i]], in order."""
    if kind in (COUNT, NET):
        combine_count(into, source, out, cells)
    else:
        _KERNELS[kind](into, source, out, out.view(np.float64), cells, cells.view(np.float64))


# --- the inverse, where it is exact: integer sums wrap equally in both directions ------------------------------------

REMOVABLE = {COUNT: (), BASIC_I: (3, 4), SUM_I: ()}  # with the words that are undefined afterwards


@kernel
def remove_basic_i(into, source, out, cells):
    for i in range(into.size):
        a, b = np.uint64(into[i]), np.uint64(source[i])
        low = out[a, 1] - cells[b, 1]
        out[a, 0] -= cells[b, 0]
        out[a, 1] = low & LOW
        out[a, 2] += (low >> SHIFT) - cells[b, 2]


def remove(kind, into, source, out, cells):
    """out[into[i]] = out[into[i]] without cells[source[i]], which it contains; each answer occurs at most once."""
    if kind == COUNT:
        out[into, 0] -= cells[source, 0]
    else:
        remove_basic_i(into, source, out, cells)
