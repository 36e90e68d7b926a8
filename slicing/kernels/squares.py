"""Squared distances from the mean, out of sums that are exact, without a rounding error before the last step."""

import numpy as np
from numba import uint64 as u64

from slicing.kernels.kernel import helper, kernel

PARTS = 14  # floats whose sum is the result
_HALF = 2.0**27 + 1  # splits the digits of a float in two halves
_PASSES = 5  # each gives 50 digits more to a sum whose parts cancel out


@helper
def _two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@helper
def _put(parts, at, sign, a, b):
    """a * b as two floats (Dekker's method)."""
    found = a * b
    wide, tall = _HALF * a, _HALF * b
    x, u = wide - (wide - a), tall - (tall - b)
    y, v = a - x, b - u
    parts[u64(at)] = sign * found
    parts[u64(at + 1)] = sign * (((x * u - found) + x * v + y * u) + y * v)


@kernel
def squared_distances(count, sums, parts, out):
    """(n * squares - sum * sum) / n. Each row of ``sums``: the sum as two floats, then the sum of squares as four.

    ``parts``: room for ``PARTS`` floats. A sum or a product of two floats is the result and its rounding error, so that
    nothing is lost: values of 10**15 with a spread of 10 need 2**100 and 1.
    """
    for j in range(count.size):
        i = u64(j)
        n, s, rest = np.float64(count[i]), sums[i, 0], sums[i, 1]
        if n == 0.0:
            out[i] = 0.0
            continue
        for k in range(4):
            _put(parts, 2 * k, 1.0, n, sums[i, k + 2])
        _put(parts, 8, -1.0, s, s)
        _put(parts, 10, -1.0, 2.0 * s, rest)
        _put(parts, 12, -1.0, rest, rest)
        for _ in range(_PASSES):  # afterwards each part holds what the later ones have lost
            for k in range(1, PARTS):
                parts[u64(k)], parts[u64(k - 1)] = _two_sum(parts[u64(k)], parts[u64(k - 1)])
        far = 0.0
        for k in range(PARTS):
            far += parts[u64(k)]
        out[i] = 0.0 if far < 0.0 else far / n
