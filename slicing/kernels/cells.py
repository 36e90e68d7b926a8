"""Tables of partial slices: sorting edges, fusing neighbours, merging runs.

``meta`` is one row a cell: END, CODE, ROWS, and for plans with fragments LEVEL, FIRST, LAST. Tables are sorted by
(end, code, level, first).
"""

import numpy as np
from numba import njit

END, CODE, ROWS, LEVEL, FIRST, LAST = range(6)


@njit(inline="always")
def _before(A, i, B, j, fragments):
    if A[i, END] != B[j, END]:
        return A[i, END] < B[j, END]
    if A[i, CODE] != B[j, CODE] or not fragments:
        return A[i, CODE] < B[j, CODE]
    if A[i, LEVEL] != B[j, LEVEL]:
        return A[i, LEVEL] < B[j, LEVEL]
    return A[i, FIRST] < B[j, FIRST]


@njit(cache=True, nogil=True)
def merge(A, B, gaps, fragments, out, into_a, into_b):
    """Merge two sorted tables, fusing what is one cell; says where each row went. Returns the number of cells.

    Without fragments a cell is (end, code). With them it also ends where the next one begins more than the gap of
    its level after the latest time so far; gaps[-1] is for rows that no session takes any more, and endless.
    """
    n = 0
    i = 0
    j = 0
    while i < A.shape[0] or j < B.shape[0]:
        take_a = j == B.shape[0] or (i < A.shape[0] and not _before(B, j, A, i, fragments))
        row = A[i] if take_a else B[j]
        same = n > 0 and out[n - 1, END] == row[END] and out[n - 1, CODE] == row[CODE]
        if same and fragments:
            same = out[n - 1, LEVEL] == row[LEVEL] and row[FIRST] - out[n - 1, LAST] <= gaps[row[LEVEL]]
        if same:
            out[n - 1, ROWS] += row[ROWS]
            if fragments:
                out[n - 1, FIRST] = min(out[n - 1, FIRST], row[FIRST])
                out[n - 1, LAST] = max(out[n - 1, LAST], row[LAST])
        else:
            for w in range(A.shape[1]):
                out[n, w] = row[w]
            n += 1
        if take_a:
            into_a[i] = n - 1
            i += 1
        else:
            into_b[j] = n - 1
            j += 1
    return n


@njit(cache=True, nogil=True)
def distinct(ends, out):
    """The distinct values of an ascending column, and for each the first position (returned: how many)."""
    n = 0
    for i in range(ends.size):
        if i == 0 or ends[i] != ends[i - 1]:
            out[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True)
def chain(code, first, last, gap, into):
    """Cells sorted by (code, first): number the runs of a code whose neighbours are at most ``gap`` apart."""
    run = np.int64(-1)
    reach = np.int64(0)
    for i in range(code.size):
        if i == 0 or code[i] != code[i - 1] or first[i] - reach > gap:
            run += 1
            reach = last[i]
        else:
            reach = max(reach, last[i])
        into[i] = run
    return run + 1
