"""Rows kept one by one: merging sorted tables of them, and the windows that only rows can tell."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def merge_order(code, time, sequence, arrival, older, out):
    """The order that merges the sorted rows [:older] and [older:], by (code, time, sequence, arrival)."""
    i = 0
    j = older
    for n in range(code.size):
        newer = i == older
        if not newer and j < code.size:
            if code[i] != code[j]:
                newer = code[j] < code[i]
            elif time[i] != time[j]:
                newer = time[j] < time[i]
            elif sequence[i] != sequence[j]:
                newer = sequence[j] < sequence[i]
            else:
                newer = arrival[j] < arrival[i]
        if newer:
            out[n] = j
            j += 1
        else:
            out[n] = i
            i += 1


@njit(cache=True, nogil=True)
def cover(first, last, size, out):
    """Mark what any of the ranges first[r] : last[r] holds."""
    depth = np.zeros(size + 1, np.int64)
    for r in range(first.size):
        depth[first[r]] += 1
        depth[last[r]] -= 1
    held = np.int64(0)
    for i in range(size):
        held += depth[i]
        out[i] = held > 0


@njit(cache=True, nogil=True)
def frames(bounds, time, enter, leave, h, first, last, is_open, needed):
    """Each group's frames. ``needed``: where the frame begins that is open before ``h``, or else the first row then."""
    n = 0
    for g in range(bounds.size - 1):
        begin = np.int64(-1)
        settled = True
        for i in range(bounds[g], bounds[g + 1]):
            if settled and time[i] >= h:
                settled = False
                needed[g] = i if begin < 0 else begin
            if begin < 0 and enter[i]:
                begin = i
            if begin >= 0 and leave[i]:
                first[n] = begin
                last[n] = i + 1
                is_open[n] = False
                n += 1
                begin = -1
        if begin >= 0:
            first[n] = begin
            last[n] = bounds[g + 1]
            is_open[n] = True
            n += 1
            if settled:
                needed[g] = begin
    return n


@njit(cache=True, nogil=True)
def recent(bounds, group, time, chosen, reach, first, last):
    """For each chosen row (ascending), its group's rows with ``time - reach < their time <= time``."""
    a = np.int64(0)
    b = np.int64(0)
    for i in range(chosen.size):
        row = chosen[i]
        g = group[row]
        a = max(a, bounds[g])
        b = max(b, row + 1)
        while time[a] <= time[row] - reach:
            a += 1
        while b < bounds[g + 1] and time[b] == time[row]:
            b += 1
        first[i] = a
        last[i] = b
