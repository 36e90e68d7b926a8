"""Search among ascending values, between two positions (np.int64).

Binary searches are inlined into each calling kernel: compiled separately, each would cost the first query 0.04 s.
"""

import numpy as np

from slicing.kernels.kernel import helper


@helper(inline="always")
def first_above(values, value, low, high):
    """The first position whose value is greater; ``high`` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@helper(inline="always")
def first_from(values, value, low, high):
    """The first position whose value is not less; ``high`` if all are less."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


# Not inlined: a call costs little compared with a window, and each inlined copy costs 0.1 s of compilation.
@helper
def first_after(ends, value, at, stop):
    """The first position in ends[at:stop] whose value is greater; it is likely near ``at``."""
    step = np.int64(1)
    while at + step <= stop and ends[at + step - 1] <= value:
        at += step
        step *= 2
    return first_above(ends, value, at, min(at + step, stop))
