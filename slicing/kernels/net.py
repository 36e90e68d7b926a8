"""Partials from values with counts, equal to the partials of the single rows.

The values of cell ``c`` are ``x[at[c] : at[c + 1]]``; each value occurs in ``count`` rows.
"""

import numpy as np

from slicing.kernels.combine import summed
from slicing.kernels.kernel import kernel


@kernel
def net_sums(at, x, count, out):
    """out[c] = the sum, and its rounding error."""
    for c in range(at.size - 1):
        total, lost = 0.0, 0.0
        for i in range(at[c], at[c + 1]):
            total, lost = summed(total, lost, x[i] * count[i])
        out[c, 0] = total
        out[c, 1] = lost


@kernel
def net_moments(at, x, count, out):
    """out[c] = the mean, and the sum of squared distances from it."""
    for c in range(at.size - 1):
        n, mean, squares = np.int64(0), 0.0, 0.0
        for i in range(at[c], at[c + 1]):
            m = count[i]
            share = m / (n + m)
            d = x[i] - mean if n != 0 else 0.0
            mean = mean + d * share if n != 0 else x[i]
            squares += d * d * share * n + (x[i] - x[i])  # an infinity gives NaN
            n += m
        out[c, 0] = mean
        out[c, 1] = squares


@kernel
def net_products(at, x, words, count, out, wrapped):
    """out[c] = the product; wrapped[c] = the product of the words modulo 2**64."""
    for c in range(at.size - 1):
        product, word = 1.0, np.int64(1)
        for i in range(at[c], at[c + 1]):
            product *= x[i] ** count[i]
            factor, left = words[i], count[i]
            while left > 0:
                if left & 1:
                    word *= factor
                factor *= factor
                left >>= 1
        out[c] = product
        wrapped[c] = word
