"""Which windows hold which cells: due windows of periodic types, and the range of cells of each result.

Counters start as np.int64(0): with a literal, type inference repeats, which takes half of the compilation time.
"""

import numpy as np

from slicing.kernels.kernel import kernel
from slicing.kernels.search import first_above, first_after

AHEAD = 64  # most windows that one window moves ahead of


@kernel
def in_steps(ends, every):
    """Whether each slice ends ``every`` later than the one before it."""
    a, b = ends[:-1], ends[1:]
    others = np.int64(0)
    for i in range(b.size):
        others += b[i] - a[i] != every
    return others == 0


@kernel
def index_of(ends, near):
    """For each of ``near.size`` equal stretches of time, the first slice that ends in the stretch or after it.

    Returns the number of bits, of a time after the first end, that lie within a stretch.
    """
    shift = np.int64(0)
    while (ends[-1] - ends[0]) >> shift >= near.size:
        shift += 1
    at = np.int64(0)
    for k in range(near.size):
        while at < ends.size and (ends[at] - ends[0]) >> shift < k:
            at += 1
        near[k] = at
    return shift


@kernel(error_model="numpy")
def periodic_due(families, size, number, ends, after, until, near, shift, lows, found):
    """Windows with after < end <= until that hold a slice, a family after the other, by end and type.

    A family is (first, last, every, phase): the types first..last-1, whose windows end together, at
    ``phase + k * every``. Slices are named by their ascending ``ends``. A column of ``found`` is (number of the type,
    start, end, low, high): the window holds the slices low..high-1. Work goes with the windows found, not with the span
    of time: where all of a family are empty, the first end after the next slice is taken. ``near`` and ``shift`` are an
    index of the slices (see ``index_of``) or empty. ``lows`` is room for a number a type.

    Returns how many windows there are (more than ``found`` has room for: call again with more), and whether they came
    by end and number.
    """
    n = np.int64(0)
    in_order = True
    count = np.int64(ends.size)
    passed = first_above(ends, after, np.int64(0), count)  # no window that is found ends before these slices do
    for f in range(families.shape[0]):
        x, y, e, o = families[f, 0], families[f, 1], families[f, 2], families[f, 3]
        first = n
        for w in range(x, y):
            lows[w] = 0
        b = passed  # slices before it end at or before the window's end
        stop = (after - o) // e * e + e + o
        while stop <= until:
            before = b  # where the window side by side with this one ends
            if b < count and ends[b] <= stop:
                b += 1
                if b < count and ends[b] <= stop:  # a call costs as much as the rest of a window
                    if near.size > 0:
                        b = max(b, near[min((stop - ends[0]) >> shift, near.size - 1)])
                    b = first_after(ends, stop, b, count)
            none = n
            for w in range(x, y):
                a = lows[w]
                begin = stop - size[w]
                if before > a and ends[before - 1] <= begin:
                    a = before
                if a < b and ends[a] <= begin:
                    a = first_after(ends, begin, a + 1, b)
                lows[w] = a
                if a < b:
                    if n < found.shape[1]:
                        found[0, n] = number[w]
                        found[1, n] = begin
                        found[2, n] = stop
                        found[3, n] = a
                        found[4, n] = b
                    n += 1
            stop += e
            if n == none:
                if b == count:
                    break
                stop = max(stop, (ends[b] - o - 1) // e * e + e + o)
        if 0 < first < n <= found.shape[1]:
            other = first - 1  # the last one of the families before
            ends_later = found[2, other] < found[2, first]
            in_order &= ends_later or (found[2, other] == found[2, first] and found[0, other] < found[0, first])
    return n, in_order


@kernel(allocates=True)
def by_end(found, slices, out):
    """Windows as ``periodic_due`` finds them, by end and number of their types.

    Each is counted into place by how many of the slices end with it or before, and goes ahead of those alike that come
    after it. False where these are many, as at the end of a stream.
    """
    first = np.zeros(slices + 2, np.int64)
    for i in range(found.shape[1]):
        first[found[4, i] + 1] += 1
    for s in range(slices):
        first[s + 1] += first[s]
    next = first.copy()
    for i in range(found.shape[1]):
        number, end, high = found[0, i], found[2, i], found[4, i]
        at = next[high]
        while at > first[high] and (out[2, at - 1] > end or (out[2, at - 1] == end and out[0, at - 1] > number)):
            if next[high] - at == AHEAD:
                return False
            for column in range(5):
                out[column, at] = out[column, at - 1]
            at -= 1
        next[high] += 1
        for column in range(5):
            out[column, at] = found[column, i]
    return True


@kernel(error_model="numpy")
def positions_after(ends, values, out):
    """How many of the ascending ``ends`` are at or before each value (values come in ascending stretches)."""
    at = np.int64(0)
    for i in range(values.size):
        v = values[i]
        if at > 0 and ends[at - 1] > v:
            at = 0
        at = first_after(ends, v, at, np.int64(ends.size))
        out[i] = at


@kernel(allocates=True)
def named_rows(type, end, first, type_of, out):
    """Rows of windows that several names share, by end, name and start: (name, window, row of the window) each.

    Windows are in order of their ends, and those of a type in order of their starts; window w has the rows
    ``first[w] : first[w + 1]``, shown by each name of its type. Names go by, each over its type's windows: nothing
    is sorted.
    """
    types = np.int64(0)
    for w in range(type.size):
        types = max(types, type[w] + 1)
    names = np.zeros(types, np.int64)
    for name in range(type_of.size):
        if type_of[name] < types:
            names[type_of[name]] += 1
    at, newest, next = np.empty(type.size, np.int64), np.full(types, -1), np.empty(type.size, np.int64)
    n = np.int64(0)
    group = np.int64(0)  # where `at` has the next row of the windows that end together
    place = np.empty(type.size, np.int64)
    for w in range(type.size):
        if w == 0 or end[w] != end[w - 1]:
            group = w
            at[w] = n
        place[w] = group
        n += names[type[w]] * (first[w + 1] - first[w])
    for w in range(type.size - 1, -1, -1):
        next[w] = newest[type[w]]
        newest[type[w]] = w
    for name in range(type_of.size):
        w = newest[type_of[name]] if type_of[name] < types else np.int64(-1)
        while w >= 0:
            row = at[place[w]]
            for r in range(first[w], first[w + 1]):
                out[0, row], out[1, row], out[2, row] = name, w, r
                row += 1
            at[place[w]] = row
            w = next[w]


@kernel(error_model="numpy")
def window_ranges(type_first, windows, high, ascending, group_first, slice_of, counts, out):
    """Each (window, group) that has rows: its range of cells.

    Cells are sorted by group and, within, by slice. A row of ``windows`` is (low, need, rank): the window holds the
    slices low..high-1 and needs one from ``need`` on. Windows of a type come in ascending order of high; ``ascending``
    says that of low, too. Writes (window, first, last), and counts results by ``rank`` of the window. Returns how many
    there are: if ``out`` has no room for all, call again with more room.
    """
    n = np.int64(0)
    for t in range(type_first.size - 1):
        b = type_first[t + 1]
        for g in range(group_first.size - 1):
            top, bottom = group_first[g + 1], group_first[g]
            c0, c1 = bottom, bottom
            j = type_first[t] if bottom < top else b
            while j < b:
                low, need, r = windows[j, 0], windows[j, 1], windows[j, 2]
                while c1 < top and slice_of[c1] < high[j]:
                    c1 += 1
                while c0 < top and slice_of[c0] < low:
                    c0 += 1
                while c0 > bottom and slice_of[c0 - 1] >= low:
                    c0 -= 1
                if c0 < c1 and slice_of[c1 - 1] >= need:
                    if n < out.shape[1]:
                        out[0, n] = j
                        out[1, n] = c0
                        out[2, n] = c1
                    counts[r] += 1
                    n += 1
                    j += 1
                elif not ascending:  # a window that ends without a new cell may hold older ones
                    j += 1
                elif c1 == top:
                    if c0 == top:
                        break
                    j += 1
                else:
                    j = max(j + 1, first_after(high, slice_of[c1], j, b))
    return n


@kernel
def places_of(window, windows, at, out):
    """The place of each result of ``window_ranges`` in (rank, group) order. ``at``: the first place of each rank, which
    is moved on."""
    for i in range(window.size):
        rank = np.uint64(windows[np.uint64(window[i]), 2])
        out[i] = at[rank]
        at[rank] += 1
