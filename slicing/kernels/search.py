"""Binary search among ascending values, between two positions (np.int64).

Inlined into each calling kernel: compiled separately, each would cost the first query 0.04 s.
"""

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
