"""Which windows hold which cells: due windows of periodic types, and each result's range of cells."""

from numba import njit


# Not inlined: a call costs little beside a window, and every copy of it 0.1 s of compilation.
@njit(cache=True, nogil=True)
def first_after(ends, value, at, stop):
    """First position in ends[at:stop] whose value is greater; it is likely near ``at``."""
    step = 1
    while at + step <= stop and ends[at + step - 1] <= value:
        at += step
        step *= 2
    stop = min(at + step, stop)
    while at < stop:
        middle = (at + stop) >> 1
        if ends[middle] <= value:
            at = middle + 1
        else:
            stop = middle
    return at


@njit(cache=True, nogil=True, error_model="numpy")
def periodic_due(family, size, every, phase, ends, after, until, lows, capacity, type, end, low, high):
    """Windows with after < end <= until that hold a slice, a family after the other, by end and type.

    A family are the types family[f]..family[f+1]-1, whose windows end together, at ``phase + k * every``. Slices are
    named by their ascending ``ends``; a window holds the slices low..high-1. Work goes with the windows found, not with
    the span of time: where all of a family are empty, the first end after the next slice is taken. Returns how many
    there are (more than ``capacity``: call again with more room). ``lows`` is room for a number a type.
    """
    n = 0
    for f in range(family.size - 1):
        x, y = family[f], family[f + 1]
        e, o = every[f], phase[f]
        for w in range(x, y):
            lows[w] = 0
        b = 0  # slices before it end at or before the window's end
        stop = (after - o) // e * e + e + o
        while stop <= until:
            before = b  # where the window side by side with this one ends
            b = first_after(ends, stop, b, ends.size)
            found = n
            for w in range(x, y):
                a = lows[w]
                begin = stop - size[w]
                if before > a and ends[before - 1] <= begin:
                    a = before
                while a < b and ends[a] <= begin:
                    a += 1
                lows[w] = a
                if a < b:
                    if n < capacity:
                        type[n] = w
                        end[n] = stop
                        low[n] = a
                        high[n] = b
                    n += 1
            stop += e
            if n == found:
                if b == ends.size:
                    break
                stop = max(stop, (ends[b] - o - 1) // e * e + e + o)
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def positions_after(ends, values, out):
    """How many of the ascending ``ends`` are at or before each value (values come in ascending stretches)."""
    at = 0
    for i in range(values.size):
        v = values[i]
        if at > 0 and ends[at - 1] > v:
            at = 0
        at = first_after(ends, v, at, ends.size)
        out[i] = at


@njit(cache=True, nogil=True, error_model="numpy")
def window_ranges(type_first, low, need, high, rank, group_first, slice_of, write, at, due, group, first, last, place):
    """Each (window, group) that has rows: its range of cells.

    Cells are sorted by group and, within, by slice; a window holds the slices low..high-1 and needs one from ``need``
    on. Windows of a type come in ascending order of high. First call (write=False) counts results by ``rank`` of the
    window into ``at``; the second, with ``at`` turned into positions, writes them: ``place`` is the position of a
    result in (rank, group) order.
    """
    n = 0
    for w in range(type_first.size - 1):
        a, b = type_first[w], type_first[w + 1]
        ascending = True  # a user's windows may nest, then a later one can start earlier
        for j in range(a + 1, b):
            ascending &= low[j - 1] <= low[j]
        for g in range(group_first.size - 1):
            top = group_first[g + 1]
            bottom = group_first[g]
            if bottom == top:
                continue
            c0 = bottom
            c1 = bottom
            j = a
            while j < b:
                while c1 < top and slice_of[c1] < high[j]:
                    c1 += 1
                while c0 < top and slice_of[c0] < low[j]:
                    c0 += 1
                while c0 > bottom and slice_of[c0 - 1] >= low[j]:
                    c0 -= 1
                if c0 < c1 and slice_of[c1 - 1] >= need[j]:
                    r = rank[j]
                    if write:
                        due[n] = j
                        group[n] = g
                        first[n] = c0
                        last[n] = c1
                        place[n] = at[r]
                    at[r] += 1
                    n += 1
                    j += 1
                elif c1 == top:
                    if c0 == top and ascending:
                        break
                    j += 1
                else:
                    j = max(j + 1, first_after(high, slice_of[c1], j, b))
    return n
