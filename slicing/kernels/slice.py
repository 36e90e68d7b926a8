"""Times to slices: edges of a span, the next edge of a time, the slot of a row."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def scan(t, block):
    """(smallest, largest, rows until the first disorder): vectorised block by block."""
    low = t[0]
    high = t[0]
    sorted_rows = t.size
    for p in range(0, t.size - 1, block):
        stop = min(p + block, t.size - 1)
        a = t[p:stop]
        b = t[p + 1 : stop + 1]
        bad = np.int64(0)
        for i in range(a.size):
            bad += a[i] > b[i]
        if bad:
            sorted_rows = p
            break
    if sorted_rows == t.size:
        return t[0], t[-1], sorted_rows
    for i in range(t.size):
        low = min(low, t[i])
        high = max(high, t[i])
    return low, high, sorted_rows


@njit(cache=True, nogil=True, error_model="numpy")
def next_edges(t, h, every, phase, horizon, out):
    """The smallest live edge after each time, over a set of progressions (edge + horizon > h lives)."""
    for i in range(t.size):
        best = np.int64(0x7FFFFFFFFFFFFFFF)
        for p in range(every.size):
            base = max(t[i], h - horizon[p])
            best = min(best, (base - phase[p]) // every[p] * every[p] + every[p] + phase[p])
        out[i] = min(out[i], best)


@njit(cache=True, nogil=True, error_model="numpy")
def uniform_slots(t, origin, width, out):
    """Slot of each time for edges at origin + k * width: a multiplication, corrected by one."""
    inverse = 1.0 / width
    for i in range(t.size):
        distance = t[i] - origin
        q = np.int64(distance * inverse)
        r = distance - q * width
        out[i] = q + np.int64(r >= width) - np.int64(r < 0)


@njit(cache=True, nogil=True, error_model="numpy")
def search_slots(t, edges, out):
    """The number of edges at or before each time; neighbours in a stream are near in time, so look there first."""
    guess = np.int64(0)
    for i in range(t.size):
        v = t[i]
        if not ((guess == 0 or edges[guess - 1] <= v) and (guess == edges.size or v < edges[guess])):
            low = np.int64(0)
            high = np.int64(edges.size)
            while low < high:
                middle = (low + high) >> 1
                if edges[middle] <= v:
                    low = middle + 1
                else:
                    high = middle
            guess = low
        out[i] = guess


@njit(cache=True, nogil=True, error_model="numpy")
def fill_cells(bounds, codes, keys, out):
    """cell = slot * keys + code for rows sorted by time; slot s holds the rows bounds[s] : bounds[s + 1]."""
    for s in range(bounds.size - 1):
        o = out[bounds[s] : bounds[s + 1]]
        c = codes[bounds[s] : bounds[s + 1]]
        for i in range(o.size):
            o[i] = s * keys + c[i]
