"""The window of each row, among windows of a key that do not overlap."""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.search import first_above


@kernel
def last_begun(code, place, bounds, begin, hint, out):
    """For each row, the last window of its key that begins at the row's place or before; -1 if there is none.

    The windows of key ``c`` are ``bounds[c] : bounds[c + 1]``, ascending by ``begin``. ``hint`` holds for each key the
    window found last: rows in order find their window there or next to it, other rows by binary search.
    """
    for i in range(place.size):
        c, at = np.uint64(code[i]), place[i]
        low, high, near = bounds[c], bounds[c + np.uint64(1)], hint[c]
        if low == high or begin[np.uint64(low)] > at:
            out[i] = -1
            continue
        if begin[np.uint64(near)] > at:
            near = first_above(begin, at, low, near) - 1
        elif near + 1 < high and begin[np.uint64(near + 1)] <= at:
            near += 1
            if near + 1 < high and begin[np.uint64(near + 1)] <= at:
                near = first_above(begin, at, near + 1, high) - 1
        hint[c] = near
        out[i] = near
