"""The first items of windows, as ranks among all items.

Windows that end one after the other share two lists, as two stacks do. On the way back from the end of the first of
them, the first items of the cells so far go to each window that begins there. On the way forward, the first items of
the cells so far are put into each window that ends there. So the only room needed is that of the answers.
"""

import numpy as np

from slicing.kernels.kernel import helper, kernel


@helper
def _put(ranks, n, others, most):
    """Put ascending ranks among the first ``n`` of an array, which ascend too; the ``most`` least of them stay. Returns
    how many there are then."""
    i, j = n, others.size
    size = min(i + j, most)
    while i + j > size:
        if i > 0 and (j == 0 or ranks[i - 1] > others[j - 1]):
            i -= 1
        else:
            j -= 1
    while j > 0:
        if i > 0 and ranks[i - 1] > others[j - 1]:
            ranks[i + j - 1] = ranks[i - 1]
            i -= 1
        else:
            ranks[i + j - 1] = others[j - 1]
            j -= 1
    return size


@kernel(allocates=True)
def first_items(order, first, last, at, rank, out_at, out):
    """The least ranks of the items of each window (a range of cells) in ascending order, as many as it has room for in
    ``out``: the same number for all windows, or all of a window that has fewer items.

    ``order``: the windows that have items; those of similar length one after the other, in order of their ends.
    ``rank``: of each item, ascending within a cell.
    """
    most = np.int64(0)
    for j in range(first.size):
        most = max(most, out_at[j + 1] - out_at[j])
    now, begun, next_begun = np.empty(most, np.int64), np.full(at.size, -1), np.empty(first.size, np.int64)
    r = 0
    while r < order.size:
        middle, end, bottom, stop = last[order[r]], last[order[r]], first[order[r]], r
        while stop < order.size and first[order[stop]] < middle and last[order[stop]] >= end:
            j = order[stop]
            end, bottom = last[j], min(bottom, first[j])
            begun[first[j]], next_begun[j] = j, begun[first[j]]
            stop += 1
        n = np.int64(0)
        for c in range(middle - 1, bottom - 1, -1):
            n = _put(now, n, rank[at[c] : at[c + 1]], most)
            j = begun[c]
            while j >= 0:
                room = out[out_at[j] : out_at[j] + n]
                for i in range(room.size):
                    room[i] = now[i]
                j = next_begun[j]
            begun[c] = -1
        n, c = np.int64(0), middle
        for s in range(r, stop):
            j = order[s]
            while c < last[j]:
                n = _put(now, n, rank[at[c] : at[c + 1]], most)
                c += 1
            room = out[out_at[j] : out_at[j + 1]]
            _put(room, min(most, at[middle] - at[first[j]]), now[:n], np.int64(room.size))
        r = stop
