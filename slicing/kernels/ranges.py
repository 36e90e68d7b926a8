"""Ranges of one dense column, each row a cell: two stacks, as in ``strategies.two_stacks``, with nothing between.

Ranges ``first[r] : last[r]`` that move forward take two steps a row and one a range; where one begins before the one
before it, or behind its end, they begin anew. ``room`` is suffixes: the aggregate from a row to the middle.
"""

import numpy as np

from slicing.kernels.combine import TOP, summed
from slicing.kernels.kernel import kernel
from slicing.kernels.reduce import is_nan, order_key


@kernel
def extreme_keys(bits, most, out):
    """Floats as integers whose least is the float that is the least (the ``most``); NaN is the largest."""
    flip = np.int64(-1) if most else np.int64(0)
    for i in range(bits.size):
        u = bits[i]
        out[i] = TOP if is_nan(u) else order_key(u) ^ flip


@kernel
def least_of(x, first, last, room, out):
    """out[r] = the least of x[first[r] : last[r]]: 2.1 ns a row, a range for each, of 1000 rows."""
    bottom, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    back = TOP
    for r in range(first.size):
        a, b = first[r], last[r]
        if a >= middle or a < bottom or b < reach:
            back = TOP
            for c in range(b - 1, a - 1, -1):
                back = min(back, x[np.uint64(c)])
                room[np.uint64(c)] = back
            back = TOP
            bottom, middle, reach = a, b, b
        for c in range(reach, b):
            back = min(back, x[np.uint64(c)])
        reach = b
        out[r] = min(room[np.uint64(a)], back)


@kernel
def sums_of(x, first, last, room, total, lost):
    """The sums of x[first[r] : last[r]], and what rounding took from them."""
    bottom, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    back, less = 0.0, 0.0
    for r in range(first.size):
        a, b = first[r], last[r]
        if a >= middle or a < bottom or b < reach:
            back, less = 0.0, 0.0
            for c in range(b - 1, a - 1, -1):
                back, less = summed(back, less, x[c])
                room[0, c], room[1, c] = back, less
            back, less = 0.0, 0.0
            bottom, middle, reach = a, b, b
        for c in range(reach, b):
            back, less = summed(back, less, x[c])
        reach = b
        total[r], rest = summed(room[0, a], room[1, a], back)
        lost[r] = rest + less
