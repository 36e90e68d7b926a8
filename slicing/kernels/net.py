"""Partials from values with counts, equal to the partials of the single rows.

The values of cell ``c`` are ``x[at[c] : at[c + 1]]``; each value occurs in ``count`` rows.
"""

import numpy as np

from slicing.kernels.combine import multiplied, summed
from slicing.kernels.kernel import helper, kernel


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
        first, end = at[c], at[c + 1]
        n, far = np.int64(0), 0.0
        for i in range(first, end):  # from the first value on, so that a small spread of large values keeps its digits
            n += count[i]
            far += (x[i] - x[first]) * count[i]
        if n == 0:
            out[c, 0] = out[c, 1] = 0.0
            continue
        mean, squares, rest = far / n, 0.0, 0.0
        for i in range(first, end):
            d = (x[i] - x[first]) - mean
            squares += d * d * count[i]
            rest += d * count[i]
        out[c, 0] = x[first] + mean
        out[c, 1] = squares - rest * rest / n
        if not out[c, 1] < np.inf:
            _moments_by_steps(first, end, x, count, out[c])


@helper
def _moments_by_steps(first, end, x, count, out):
    """As the values come, for distances that are too large for a float; an infinity gives NaN."""
    n, mean, squares = np.int64(0), 0.0, 0.0
    for i in range(first, end):
        m = count[i]
        share = m / (n + m)
        d = x[i] - mean if n != 0 else 0.0
        mean = mean + d * share if n != 0 else x[i]
        squares += d * d * share * n + (x[i] - x[i])
        n += m
    out[0], out[1] = mean, squares


@kernel
def net_products(at, x, words, count, out, power, wrapped):
    """out[c] * 2**power[c] = the product; wrapped[c] = the product of the words modulo 2**64."""
    for c in range(at.size - 1):
        product, raised, word = 1.0, np.int64(0), np.int64(1)
        for i in range(at[c], at[c + 1]):
            value, doublings, factor, left = x[i], np.int64(0), words[i], count[i]
            while left > 0:
                if left & 1:
                    product, raised = multiplied(product, raised, value, doublings)
                    word *= factor
                value, doublings = multiplied(value, doublings, value, doublings)
                factor *= factor
                left >>= 1
        out[c] = product
        power[c] = raised
        wrapped[c] = word
