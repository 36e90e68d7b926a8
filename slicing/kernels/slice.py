"""From times to slices: edges of a span, the next edge of a time, the slot of a row."""

import numpy as np

from slicing.kernels.combine import BOTTOM
from slicing.kernels.kernel import kernel
from slicing.kernels.prefetch import prefetch, stream
from slicing.kernels.search import first_above

NEAR = 128  # rows
TOGETHER = 128  # rows whose edges are searched together
SOON = 512  # rows ahead that are prefetched then
FEW_EDGES = 64  # up to so many edges are compared one by one instead of searched
STEP = 8  # times in a cache line
CHUNK = 128  # rows that are compared by one loop
MANY = 32  # edges that are looked at together then
SURE = 4  # edges in a row that have equally many rows between them
AHEAD = 1024  # rows ahead that are prefetched from memory
MANY_EDGES = np.int64(1) << np.int64(62)  # edges, beyond which they are not counted
EXACT = np.int64(1) << np.int64(50)  # below, a quotient computed with floats is off by at most one


@kernel(error_model="numpy")
def scan(t, block, lows, highs):
    """Whether times ascend, and the least and the largest time of each block."""
    ordered = True
    for p in range(lows.size):
        stop = min((p + 1) * block, t.size)
        stream(t, p * block, block)
        a = t[p * block : stop]
        low = a[0]
        high = a[0]
        for i in range(a.size):
            low = min(low, a[i])
            high = max(high, a[i])
        lows[p] = low
        highs[p] = high
        if ordered:
            b = t[p * block + 1 : min(stop + 1, t.size)]
            bad = np.int64(0)
            for i in range(b.size):
                bad += a[i] > b[i]
            ordered = bad == 0
    return ordered


@kernel(error_model="numpy")
def list_edges(every, phase, after, until, out):
    """The edges of each progression after its time and up to ``until``, one progression after the other; first of all
    the earliest edge after ``until``.

    Returns how many there are, at most ``MANY_EDGES``. If ``out`` has no room for all, call again with more room.
    """
    n = np.int64(1)
    next = np.int64((1 << 63) - 1)
    for p in range(every.size):
        step = every[p]
        edge = (after[p] - phase[p]) // step * step + step + phase[p]
        if edge <= until:
            first, more = n, (np.uint64(until) - np.uint64(edge)) // np.uint64(step)  # a span that int64 may not hold
            n = MANY_EDGES if more >= np.uint64(MANY_EDGES - n) else n + np.int64(more) + 1
            if n > out.size:
                continue
            for i in range(first, n):
                out[i] = edge
                edge += step
        next = min(next, edge)
    out[0] = next
    return n


@kernel(error_model="numpy")
def next_edges(t, h, every, phase, horizon, out):
    """The smallest live edge after each time, over a set of progressions (an edge lives if edge + horizon > h)."""
    if t.size == 0:
        return
    low = high = t[0]
    for i in range(t.size):
        low = min(low, t[i])
        high = max(high, t[i])
    for p in range(every.size):
        width, after = every[p], h - horizon[p]
        origin = (max(low, after) - phase[p]) // width * width + phase[p]
        span = max(high, after) - origin
        if span >= 0 and span // width < EXACT:  # a multiplication, corrected by one: SIMD
            inverse = 1.0 / width
            for i in range(t.size):
                distance = max(t[i], after) - origin
                q = np.int64(distance * inverse)
                r = distance - q * width
                q += np.int64(r >= width) - np.int64(r < 0)
                out[i] = min(out[i], origin + q * width + width)
        else:
            for i in range(t.size):
                base = max(t[i], after) - phase[p]
                out[i] = min(out[i], base // width * width + width + phase[p])


@kernel(error_model="numpy")
def cut(t, edges, block, out):
    """The number of ascending times before each edge. Returns how many rows are known to be in order: if not all rows
    are, ``out`` is useless.

    Works block by block, in cache: 0.8 against 1.7 ns a row with 20 rows between edges. A stream of a fixed rate has
    equally many rows between edges (20 rows: 0.38 -> 0.19 ns each, as no look waits for the one before). Otherwise it
    searches near the previous edge in steps, farther away by galloping.
    """
    size, at, e, rows, alike = np.int64(t.size), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    last = t[0] if size else np.int64(0)
    for start in range(0, size, block):
        stop = min(start + block, size)
        a = t[start:stop]
        bad = np.int64(0)
        for some in range(0, a.size, CHUNK):
            stream(t, start + some, CHUNK)
            b = a[some : some + CHUNK]
            for i in range(b.size):  # one load a row: 10 M rows 0.28 -> 0.24 ns each
                x = b[i]
                bad += last > x
                last = x
        if bad:
            return np.int64(start)
        newest = t[stop - 1]
        while e < edges.size and edges[e] <= newest:
            while alike >= SURE and e + MANY <= edges.size and at + MANY * rows < stop:
                hits = np.int64(0)
                for i in range(MANY):
                    row = np.uint64(at + (i + 1) * rows)
                    hits += (t[row - np.uint64(1)] < edges[np.uint64(e + i)]) & (edges[np.uint64(e + i)] <= t[row])
                if hits < MANY:
                    alike = np.int64(0)
                    break
                for i in range(MANY):
                    at += rows
                    out[np.uint64(e + i)] = at
                e += MANY
            if e == edges.size or edges[e] > newest:
                break
            v, before = edges[e], at
            at += rows
            if alike < SURE or at >= stop or t[at - 1] >= v or t[at] < v:
                at = before
                far = at + NEAR
                while at < far and at + STEP <= stop and t[at + STEP - 1] < v:
                    prefetch(t, np.uint64(at + AHEAD))
                    at += STEP
                if at >= far:
                    step = np.int64(NEAR)
                    while at + step < stop and t[at + step] < v:
                        at += step
                        step *= 2
                    high = min(at + step, stop)
                    while at + STEP < high:
                        middle = (at + high) >> 1
                        if t[middle] < v:
                            at = middle + 1
                        else:
                            high = middle
                if at + STEP <= stop:
                    y = t[at : at + STEP]
                    count = np.int64(0)
                    for i in range(STEP):
                        count += y[i] < v
                    at += count
                else:
                    while at < stop and t[at] < v:
                        at += 1
            alike = alike + 1 if rows == at - before and rows > 0 else np.int64(0)
            rows = at - before
            out[e] = at
            e += 1
    out[e:] = size
    return size


@kernel(error_model="numpy")
def even_cells(t, first, width, codes, keys, out):
    """Like ``grid_cells``, for edges that are ``width`` apart: a multiplication, corrected by one."""
    inverse = 1.0 / width
    origin = first - width
    size = np.int64(t.size)
    for start in range(0, size, TOGETHER):
        for i in range(start + SOON, start + SOON + TOGETHER, STEP):
            prefetch(t, np.uint64(i))
        for i in range(start, min(start + TOGETHER, size)):
            row = np.uint64(i)
            distance = t[row] - origin
            q = np.int64(distance * inverse)
            r = distance - q * width
            lane = np.int64(codes[row]) if codes.size else i & (keys - 1)
            out[row] = (q + np.int64(r >= width) - np.int64(r < 0)) * keys + lane


@kernel(error_model="numpy")
def grid_cells(t, edges, codes, keys, out):
    """cell = slot * keys + code, where the slot is the number of edges at or before the time (never all edges).

    Without codes the rows of a slot are spread over several cells (``keys`` is a power of two): an update waits for the
    previous one of its cell. Rows mostly of one slot take 0.84 ns with 8 cells, 3.3 with one. Rows are compared with
    each edge that their neighbours touch: 20 % of rows late by 4 edges 3.1 -> 0.5 ns, 90 % by 20 edges 15 -> 1.4. Next
    rows are prefetched: 1.8 -> 1.2 and 1.5 -> 1.2 ns on an Intel Xeon.
    """
    for start in range(0, t.size, TOGETHER):
        a, o = t[start : start + TOGETHER], out[start : start + TOGETHER]
        for i in range(start + SOON, start + SOON + TOGETHER, STEP):
            prefetch(t, np.uint64(i))
        low = high = a[0]
        for i in range(a.size):
            low = min(low, a[i])
            high = max(high, a[i])
        first = first_above(edges, low, np.int64(0), np.int64(edges.size))
        last = first_above(edges, high, first, np.int64(edges.size))
        some = edges[first:last]
        for i in range(a.size):
            o[i] = first if some.size <= FEW_EDGES else first_above(edges, a[i], first, last)
        for e in range(some.size if some.size <= FEW_EDGES else 0):
            edge = some[e]
            for i in range(a.size):
                o[i] += a[i] >= edge
        for i in range(a.size):
            o[i] *= keys
    if codes.size:
        for i in range(t.size):
            out[i] += codes[i]
    elif keys > 1:
        for i in range(t.size):
            out[i] += i & (keys - 1)


@kernel(error_model="numpy")
def pieces(rows, block, lows, highs, edges, found):
    """Rows in any order as pieces of at most a block: (first, last, slot, low, high) are the rows first..last-1 with
    low <= time < high, all of one slot (maybe no rows). Returns how many, or -1 if there is no room.

    Most blocks of a stream touch few slots: one masked SIMD pass for each slot costs less than an update for each row.
    """
    n = np.int64(0)
    s = np.int64(0)
    for p in range(lows.size):
        above = np.int64(edges.size)
        if s > 0 and edges[s - 1] > lows[p]:
            above = s
            s = np.int64(0)
        s = first_above(edges, lows[p], s, above)
        slot = s
        while True:
            if n == found.shape[0]:
                return np.int64(-1)
            found[n, 0] = p * block
            found[n, 1] = min((p + 1) * block, rows)
            found[n, 2] = slot
            found[n, 3] = edges[slot - 1] if slot else BOTTOM
            found[n, 4] = edges[slot]
            n += 1
            if edges[slot] > highs[p]:
                break
            slot += 1
    return n


@kernel
def number_cells(cell, number, rows, found):
    """Number the cells of a grid that occur, in order and in place; write the rows of each and its place in the grid.
    Returns their number. ``number``: a zero for each cell of the grid; ``rows`` and ``found``: room for one more."""
    for i in range(cell.size):
        number[np.uint64(cell[i])] += 1
    n = np.int64(0)
    for c in range(number.size):  # without a branch: most may be empty
        held = number[c]
        found[n], rows[n], number[c] = c, held, n
        n += held > 0
    for i in range(cell.size):
        cell[i] = number[np.uint64(cell[i])]
    return n
