"""Tables of partial slices: sorting edges, fusing neighbours, merging runs.

``meta`` is one row a cell: END, CODE, ROWS, and for plans with fragments LEVEL, FIRST, LAST. Tables are sorted by
(end, code, level, first).
"""

import numpy as np
from numba import njit

END, CODE, ROWS, LEVEL, FIRST, LAST = range(6)
ORDER = (END, CODE, LEVEL, FIRST)


@njit(cache=True, nogil=True)
def merge(table, older, gaps, fragments, out, into):
    """Merge the sorted tables table[:older] and table[older:], fusing what is one cell. Returns how many there are.

    ``into`` says where each row went. Without fragments a cell is (end, code). With them it also ends where the next
    one begins more than the gap of its level after the latest time so far; the last gap is for rows that no session
    takes any more, and endless.
    """
    n = np.int64(0)
    i = np.int64(0)
    j = np.int64(older)
    while i < older or j < table.shape[0]:
        newer = i == older
        if not newer and j < table.shape[0]:
            for w in ORDER:
                if w > CODE and not fragments:
                    break
                if table[i, w] != table[j, w]:
                    newer = table[j, w] < table[i, w]
                    break
        p = j if newer else i
        if newer:
            j += 1
        else:
            i += 1
        last = n - 1
        same = n > 0 and out[last, END] == table[p, END] and out[last, CODE] == table[p, CODE]
        if same and fragments:
            level = table[p, LEVEL]
            same = out[last, LEVEL] == level and table[p, FIRST] - out[last, LAST] <= gaps[level]
        if not same:
            for w in range(table.shape[1]):
                out[n, w] = table[p, w]
            into[p] = n
            n += 1
            continue
        into[p] = last
        out[last, ROWS] += table[p, ROWS]
        if fragments:
            out[last, FIRST] = min(out[last, FIRST], table[p, FIRST])
            out[last, LAST] = max(out[last, LAST], table[p, LAST])
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
