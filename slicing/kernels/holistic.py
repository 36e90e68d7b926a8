"""Answers from the sorted lists of a window's cells, without merging the lists.

Windows are ranges ``first[j] : last[j]`` of cells. The items of cell ``c`` are ``at[c] : at[c + 1]``; ``value`` ascends
within a cell, and ``before[i]`` counts the rows of all items before item i. Windows are in an order in which neighbours
overlap: the counts of one window are carried to the next by adding and removing the cells between them.
"""

import numpy as np

from slicing.kernels.combine import TOP, earlier
from slicing.kernels.kernel import helper, kernel
from slicing.kernels.search import first_above, first_from

SMALL = 256  # most items that are kept sorted; for more, buckets cost less unless hardly any items change
COARSE = 64
MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def nth(value, weight, n, rank):
    """The value of row ``rank`` (from 0) among n items, by quickselect; items are moved."""
    low, high = 0, n
    while True:
        x, y, z = value[low], value[(low + high) >> 1], value[high - 1]
        pivot = max(min(x, y), min(max(x, y), z))
        i, less, more = low, low, high
        below, equal = np.int64(0), np.int64(0)
        while i < more:
            v, w = value[i], weight[i]
            if v < pivot:
                value[i], weight[i] = value[less], weight[less]
                value[less], weight[less] = v, w
                below += w
                less += 1
                i += 1
            elif v > pivot:
                more -= 1
                value[i], weight[i] = value[more], weight[more]
                value[more], weight[more] = v, w
            else:
                equal += w
                i += 1
        if rank < below:
            high = less
        elif rank < below + equal:
            return pivot
        else:
            rank -= below + equal
            low = more


@helper
def turn(a, b, first, last):
    """From counted cells ``a:b`` to ``first:last``: the next cell to add (1) or remove (-1), and the new ``a:b``."""
    if b < last:
        return b, 1, a, b + 1
    if a > first:
        return a - 1, 1, a - 1, b
    if b > last:
        return b - 1, -1, a, b - 1
    return a, -1, a + 1, b


@helper
def come(start, stop, value, before, pivot, bucket, count, coarse):
    """Add the items of a cell to the counts of their buckets."""
    k, few = np.int64(0), 8 * (stop - start) < pivot.size
    for i in range(start, stop):
        v = value[i]
        if few:
            k = first_above(pivot, v, k, np.int64(pivot.size))
        else:
            while k < pivot.size and pivot[k] <= v:
                k += 1
        bucket[i] = k
        w = before[i + 1] - before[i]
        count[k] += w
        coarse[k // COARSE] += w


@helper
def go(start, stop, before, bucket, count, coarse):
    """Remove the items of a cell from the counts of their buckets."""
    for i in range(start, stop):
        w = before[i + 1] - before[i]
        count[bucket[i]] -= w
        coarse[bucket[i] // COARSE] -= w


@kernel(allocates=True)
def select(begin, first, last, low, high, at, value, before, pivot, built, bucket, room, weight, out):
    """The values of rows ``low[j]`` and ``high[j]`` (equal or the next) of each window, from window ``begin`` on.

    ``pivot`` cuts the values into buckets. Rows are counted by bucket as cells are added and removed, and only items of
    the buckets in question are searched; ``bucket`` stores the bucket of each item, so that it is searched once.
    Returns the window for which other pivots are needed; the given ones were drawn from a window of ``built`` items.
    """
    count = np.zeros(pivot.size + 1, np.int64)
    coarse = np.zeros(pivot.size // COARSE + 1, np.int64)
    a, b = np.int64(0), np.int64(0)  # cells counted
    waste = np.int64(0)
    for j in range(begin, first.size):
        f, e = first[j], last[j]
        items = at[e] - at[f]
        m = 0
        base = np.int64(0)
        stale = items > 4 * built or 4 * items < built or waste > 4 * built
        if pivot.size == 0 or (stale and j > begin):
            return j
        if f >= b or e <= a:
            count[:] = 0
            coarse[:] = 0
            a, b = f, f
        while a != f or b != e:
            c, sign, a, b = turn(a, b, f, e)
            if sign > 0:
                come(at[c], at[c + 1], value, before, pivot, bucket, count, coarse)
            else:
                go(at[c], at[c + 1], before, bucket, count, coarse)
        k = 0
        while base + coarse[k // COARSE] <= low[j]:
            base += coarse[k // COARSE]
            k += COARSE
        while base + count[k] <= low[j]:
            base += count[k]
            k += 1
        least = k
        covered = base + count[k]
        while covered <= high[j]:
            k += 1
            covered += count[k]
        for c in range(f, e):
            i, top = at[c], at[c + 1]
            if least > 0:
                i = first_from(value, pivot[least - 1], i, top)
            while i < top and (k == pivot.size or value[i] < pivot[k]):
                room[m] = value[i]
                weight[m] = before[i + 1] - before[i]
                m += 1
                i += 1
        waste += max(m - 4 * (items // count.size) - 2 * (e - f) - SMALL, 0)
        out[j, 0] = nth(room, weight, m, low[j] - base)
        out[j, 1] = out[j, 0] if high[j] == low[j] else nth(room, weight, m, high[j] - base)
    return first.size


@kernel
def select_small(first, last, low, high, at, value, before, room, weight, out):
    """The values of rows ``low[j]`` and ``high[j]`` (equal or the next) of each window; for at most SMALL items a
    window.

    If a window overlaps the next, its values are kept sorted, with their rows: the items of a cell are inserted or
    removed.
    """
    a, b = np.int64(0), np.int64(0)  # cells kept sorted
    m = 0  # the number of their values
    for j in range(first.size):
        f, e = first[j], last[j]
        lone = j + 1 == first.size or first[j + 1] >= e or last[j + 1] <= f
        if f >= b or e <= a:
            a, b, m = f, f, 0
            if lone and e == f + 1:  # its values are sorted already
                base = before[at[f]]
                out[j, 0] = value[first_above(before, base + low[j], at[f] + 1, at[e]) - 1]
                out[j, 1] = value[first_above(before, base + high[j], at[f] + 1, at[e]) - 1]
                continue
            if lone:
                for i in range(at[f], at[e]):
                    room[m] = value[i]
                    weight[m] = before[i + 1] - before[i]
                    m += 1
                out[j, 0] = nth(room, weight, m, low[j])
                out[j, 1] = out[j, 0] if high[j] == low[j] else nth(room, weight, m, high[j])
                m = 0
                continue
        while a != f or b != e:
            c, sign, a, b = turn(a, b, f, e)
            for i in range(at[c], at[c + 1]):
                v, w = value[i], before[i + 1] - before[i]
                p = first_from(room, v, np.int64(0), np.int64(m))
                if sign < 0:
                    weight[p] -= w
                    if weight[p] == 0:
                        m -= 1
                        for q in range(p, m):
                            room[q] = room[q + 1]
                            weight[q] = weight[q + 1]
                elif p < m and room[p] == v:
                    weight[p] += w
                else:
                    for q in range(m, p, -1):
                        room[q] = room[q - 1]
                        weight[q] = weight[q - 1]
                    room[p] = v
                    weight[p] = w
                    m += 1
        p = 0
        rows = weight[0]
        while rows <= low[j]:
            p += 1
            rows += weight[p]
        out[j, 0] = room[p]
        while rows <= high[j]:
            p += 1
            rows += weight[p]
        out[j, 1] = room[p]


@kernel
def number_values(value, slot_value, slot_number, shift, number):
    """Number equal values equally, from 0; returns how many differ. Slots are a power of two, at most half full."""
    n = 0
    mask = np.uint64(slot_number.size - 1)
    for i in range(value.size):
        v = value[i]
        k = (np.uint64(v) * MIX) >> shift
        while slot_number[k] != 0 and slot_value[k] != v:
            k = (k + np.uint64(1)) & mask
        if slot_number[k] == 0:
            n += 1
            slot_number[k] = n
            slot_value[k] = v
        number[i] = slot_number[k] - 1
    return n


@kernel
def distinct(first, last, at, number, count, out):
    """The number of different values of each window."""
    a, b = np.int64(0), np.int64(0)
    n = np.int64(0)
    for j in range(first.size):
        f, e = first[j], last[j]
        if e - f == 1:
            out[j] = at[e] - at[f]
            continue
        while a < b and (f >= b or e <= a):
            for i in range(at[a], at[a + 1]):
                count[number[i]] = 0
            a += 1
            n = 0
        if a == b:
            a, b = f, f
        while a != f or b != e:
            c, sign, a, b = turn(a, b, f, e)
            for i in range(at[c], at[c + 1]):
                k = number[i]
                n += sign > 0 and count[k] == 0
                count[k] += sign
                n -= sign < 0 and count[k] == 0
        out[j] = n


@kernel
def heavy(first, last, at, number, before, share, count, seen, frequent, out_at, out, out_count):
    """Items of values that make up at least a ``share`` of each window's rows, and the number of rows with each value.

    Rows of each value are counted as cells are added and removed. A value that is frequent in a window is frequent in
    one of its cells. Cells are read for values with half of the share, the ``frequent`` ones. Another value can have
    the share only when as many rows as the other half have come and gone; until then, cells are not read again.
    """
    a, b = np.int64(0), np.int64(0)
    n = m = 0
    spare = 0.0  # rows that may come and go
    for j in range(first.size):
        f, e = first[j], last[j]
        if f >= b or e <= a:
            for i in range(at[a], at[b]):
                count[number[i]] = 0
            a, b = f, f
            spare = 0.0
        while a != f or b != e:
            c, sign, a, b = turn(a, b, f, e)
            for i in range(at[c], at[c + 1]):
                rows = before[i + 1] - before[i]
                count[number[i]] += sign * rows
                spare -= abs(rows)
        out_at[j] = n
        rows = before[at[e]] - before[at[f]]
        if spare <= 0.0:
            m = 0
            spare = 0.499999 * share * rows
            for c in range(f, e):
                least = 0.499999 * share * (before[at[c + 1]] - before[at[c]])
                for i in range(at[c], at[c + 1]):
                    if before[i + 1] - before[i] >= least:
                        k = number[i]
                        if seen[k] != j and count[k] >= 0.5 * share * rows:
                            seen[k] = j
                            frequent[m] = i
                            m += 1
        for q in range(m if rows else 0):
            k = number[frequent[q]]
            if count[k] / rows >= share:
                out[n] = frequent[q]
                out_count[n] = count[k]
                n += 1
    out_at[first.size] = n
    return n


@kernel
def modes(first, last, at, number, items, begins, risen, count, having, out):
    """The item of each window's most frequent value; if several are, the earliest one, and then the smallest one.

    ``items`` are value, count and earliest (time, sequence, arrival); ``begins`` is the earliest time of each cell. As
    cells are added and removed, the rows of each value are counted, and for each count the values ``having`` it. The
    earliest value is looked for from the first cell on. Behind a cell that begins later, all cells up to ``risen`` do.
    """
    a, b = np.int64(0), np.int64(0)
    most = np.int64(0)
    for c in range(begins.size - 1, -1, -1):
        risen[c] = c + 1  # the next cell that begins before the one before it
        if c + 1 < begins.size:
            if at[c] == at[c + 1]:
                begins[c] = begins[c + 1]
            if begins[c] <= begins[c + 1]:
                risen[c] = risen[c + 1]
    for j in range(first.size):
        f, e = first[j], last[j]
        if f >= b or e <= a:
            for i in range(at[a], at[b]):
                having[count[number[i]]] = 0
                count[number[i]] = 0
            a, b = f, f
            most = 0
        while a != f or b != e:
            c, sign, a, b = turn(a, b, f, e)
            for i in range(at[c], at[c + 1]):
                k = number[i]
                having[count[k]] -= 1
                count[k] += sign * items[i, 1]
                having[count[k]] += 1
                most = max(most, count[k])
        while having[most] == 0:
            most -= 1
        best = np.int64(-1)
        c = f
        while c < e:
            if best >= 0 and begins[c] > items[best, 2]:
                c = risen[c]
                continue
            for i in range(at[c], at[c + 1]):
                if count[number[i]] == most:
                    x, y = items[i], items[best]
                    same = x[2] == y[2] and x[3] == y[3] and x[4] == y[4]
                    if best < 0 or earlier(x[2], x[3], x[4], y[2], y[3], y[4]) or (same and x[0] < y[0]):
                        best = i
            c += 1
        out[j] = best


@kernel
def largest(first, last, at, value, before, k, has_nan, out_at, out):
    """The k largest rows of each window, descending; NaN (the largest word, if ``has_nan``) comes last."""
    n = 0
    for j in range(first.size):
        out_at[j] = n
        used = 0
        nans = np.int64(0)
        found = out[n : n + k]
        for c in range(first[j], last[j]):
            i = at[c + 1] - 1
            if has_nan and i >= at[c] and value[i] == TOP:
                nans += before[i + 1] - before[i]
                i -= 1
            while i >= at[c] and (used < k or value[i] > found[used - 1]):
                for _ in range(min(before[i + 1] - before[i], k)):
                    if used < k:
                        used += 1
                    elif value[i] <= found[used - 1]:
                        break
                    p = used - 1
                    while p > 0 and found[p - 1] < value[i]:
                        found[p] = found[p - 1]
                        p -= 1
                    found[p] = value[i]
                i -= 1
        while used < k and nans > 0:
            found[used] = TOP
            used += 1
            nans -= 1
        n += used
    out_at[first.size] = n
    return n
