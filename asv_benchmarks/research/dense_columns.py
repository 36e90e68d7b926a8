"""Windows over one dense column of integers, cells side by side: all SIMD, for regular slides of one key.

Floats come as keys that order them (``values.float_words``), as everywhere in the engine. Loops over views that do not
overlap, as only these vectorise; figures are of int32 in cache, window 1024, slide 1, one thread beside others.
"""

import numpy as np

from slicing.kernels.kernel import kernel

WIDE = 64  # columns of the table that long windows are: 16: 0.8, 64: 1.3, 256: 1.2 G/s


def sliding_min(x, size, out):
    """out[i] = the least of x[i : i + size]"""
    room = np.empty((4, 2 * size + 2 * WIDE), x.dtype)
    if size < 2 * WIDE:
        room = np.empty((2, 4096 + size), x.dtype)
        _short(x, np.int64(size), out, room[0], room[1])
    else:
        _long(x, np.int64(size), np.int64(WIDE), out, *room)


def sliding_sum(x, size, out):
    """out[i] = the sum of x[i : i + size], modulo its type; exact as integers wrap the same way there and back."""
    _running(x, np.int64(size), out)


def many_min(x, sizes, out):
    """out[j, i] = the least of x[i : i + sizes[j]], for windows of many sizes at once."""
    levels = int(max(sizes)).bit_length()
    table = np.empty((levels, x.size), x.dtype)
    _doubled(x, table)
    _looked_up(table, np.asarray(sizes, np.int64), out)


def pane_min(x, slide, out):
    """out[i] = the least of x[i * slide : (i + 1) * slide]"""
    _panes(x, slide, out, _least_of_four, _least)


def pane_sum(x, slide, out):
    """out[i] = the sum of x[i * slide : (i + 1) * slide], modulo its type"""
    _panes(x, slide, out, _sum_of_four, _sum)


def _panes(x, slide, out, of_four, of_any):
    """Four and four, as long as that comes out even (a slide of 4: 2.1 -> 19 G/s)."""
    while slide % 4 == 0 and 4 < slide < WIDE:
        fewer = np.empty(x.size // 4, x.dtype)
        of_four(x, fewer)
        x, slide = fewer, slide // 4
    if slide == 4:
        of_four(x, out)
    else:
        of_any(x, np.int64(slide), out)


@kernel
def _short(x, size, out, room, other):
    """Doubling: the least of 2, 4, 8, ... from each place on, in blocks that stay in L1; two of these are a window."""
    block = room.size - size
    for start in range(0, out.size, block):
        n = min(block, out.size - start)
        left, h, turn = n + size - 1, np.int64(1), 0
        y = x[start : start + left]
        while 2 * h <= size:
            left -= h
            into = room[:left] if turn == 0 else other[:left]
            a, b = y[:left], y[h : h + left]
            for i in range(left):
                into[i] = min(a[i], b[i])
            y, turn = into, 1 - turn
            h *= 2
        a, b, z = y[:n], y[size - h : size - h + n], out[start : start + n]
        for i in range(n):
            z[i] = min(a[i], b[i])


@kernel(allocates=True)
def _long(x, size, wide, out, room, other, narrow, suffix):
    """Van Herk down the rows of a table of ``wide`` columns, over the least of the next ``wide`` values.

    Doubling alone takes log2(size) passes, 0.94 against 1.6 G/s. What the rows leave over of a window is covered from
    its end. Lengths are numbers, not ``view.size``: with both in loops and slices it came to 0.56 G/s.
    """
    rows = size // wide * wide
    prefix = np.empty_like(x[:wide])
    ahead = x.size - wide + 1
    start = np.int64(0)
    while start < out.size + rows:
        length = max(min(rows, ahead - start), 0)
        if length > 0:  # the least of ``wide`` from each place of a block on
            y = x[start : start + length + wide - 1]
            left, h, turn = y.size, np.int64(1), 0
            while h < wide:
                left -= 3 * h
                into = narrow[:left] if 4 * h == wide else (room[:left] if turn == 0 else other[:left])
                a, b, c, d = y[:left], y[h : h + left], y[2 * h : 2 * h + left], y[3 * h : 3 * h + left]
                for i in range(left):
                    into[i] = min(min(a[i], b[i]), min(c[i], d[i]))
                y, turn = into, 1 - turn
                h *= 4
        if start > 0:  # windows that began in the block before: its suffix, and this block's prefix
            z = out[start - rows : start]
            n = z.size
            k = min(wide, n)
            z[:k] = suffix[:k]
            prefix[:] = narrow[:wide]
            j = wide
            while j < n:
                k = min(wide, n - j)
                o, a, b = z[j : j + k], suffix[j : j + k], narrow[j : j + wide]
                for i in range(k):
                    o[i] = min(a[i], prefix[i])
                for i in range(wide):
                    prefix[i] = min(prefix[i], b[i])
                j += wide
        if length > 0:  # its suffixes; what lies beyond the column is in no window
            j = rows - wide
            suffix[j:rows] = narrow[j:rows]
            while j > 0:
                j -= wide
                o, a, b = suffix[j : j + wide], narrow[j : j + wide], suffix[j + wide : j + 2 * wide]
                for i in range(wide):
                    o[i] = min(a[i], b[i])
        start += rows
    if size > rows:
        _cover(x, size, wide, out, room)


@kernel
def _cover(x, size, wide, out, room):
    """Windows that lack up to WIDE of their last values: the least of these, from the end."""
    block = np.int64(room.size - wide)
    for start in range(0, out.size, block):
        z = out[start : start + block]
        for k in range(size % wide):
            a = x[start + size - 1 - k : start + size - 1 - k + z.size]
            for i in range(z.size):
                z[i] = min(z[i], a[i])


@kernel
def _running(x, size, out):
    total = x[0] - x[0]
    for i in range(size):
        total += x[i]
    out[0] = total
    enters, leaves, rest = x[size:], x[: x.size - size], out[1:]
    for i in range(rest.size):
        total += enters[i] - leaves[i]
        rest[i] = total


@kernel(allocates=True)
def _doubled(x, table):
    table[0, :] = x
    for k in range(1, table.shape[0]):
        h = 1 << (k - 1)
        left = x.size - 2 * h + 1
        a, b, o = table[k - 1, :left], table[k - 1, h : h + left], table[k, :left]
        for i in range(o.size):
            o[i] = min(a[i], b[i])


@kernel
def _looked_up(table, sizes, out):
    for j in range(sizes.size):
        size = sizes[j]
        k = np.int64(0)
        while (2 << k) <= size:
            k += 1
        left = table.shape[1] - size + 1
        level = table[k]
        a, b, o = level[:left], level[size - (1 << k) : size - (1 << k) + left], out[j, :left]
        for i in range(o.size):
            o[i] = min(a[i], b[i])


@kernel
def _least_of_four(x, out):
    for i in range(out.size):
        out[i] = min(min(x[4 * i], x[4 * i + 1]), min(x[4 * i + 2], x[4 * i + 3]))


@kernel
def _sum_of_four(x, out):
    for i in range(out.size):
        out[i] = (x[4 * i] + x[4 * i + 1]) + (x[4 * i + 2] + x[4 * i + 3])


@kernel
def _least(x, slide, out):
    for p in range(out.size):
        y = x[p * slide : (p + 1) * slide]
        least = y[0]
        for i in range(y.size):
            least = min(least, y[i])
        out[p] = least


@kernel
def _sum(x, slide, out):
    for p in range(out.size):
        y = x[p * slide : (p + 1) * slide]
        total = y[0] - y[0]
        for i in range(y.size):
            total += y[i]
        out[p] = total
