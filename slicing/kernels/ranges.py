"""Ranges of one dense column with one row for each cell: two stacks, as in ``strategies.two_stacks``, without lists.

Ranges ``first[r] : last[r]`` that move forward take two steps a row and one a range. If a range begins before the
previous one, or behind its end, the stacks start again. ``room`` holds suffixes: the aggregate from a row to the
middle.
"""

import numpy as np

from slicing.kernels.combine import TOP, summed
from slicing.kernels.floats import INF_BITS, SIGN, is_nan, order_key
from slicing.kernels.kernel import helper, kernel


@kernel
def keys_of_floats(bits, out):
    """Floats as integers of the same order; NaN is the largest."""
    for i in range(bits.size):
        u = bits[i]
        out[i] = TOP if is_nan(u) else order_key(u)


@kernel
def floats_of_keys(words, out):
    """The bits of the floats with these keys (for minimums): 0.14 ns each, 0.41 by numpy."""
    for i in range(words.size):
        out[i] = order_key(words[i])


@helper
def key_of(word, fold, flip):
    """A word as an integer whose least value is searched. ``fold``: TOP if words are the bits of floats, otherwise 0.
    ``flip``: -1 to search the largest, otherwise 0. NaN is the largest in both cases."""
    beyond = INF_BITS | ~fold & TOP
    key = word ^ ((word >> SIGN) & fold) ^ flip
    return TOP if word & TOP > beyond else key


@helper
def unfolded(key, unfold):
    return key ^ ((key >> SIGN) & unfold)


@helper
def least_from(x, fold, flip, a, b, room):
    """room[c] = the least key of x[c : b], for c from a on."""
    least, size = TOP, np.int64(64)
    while b > a:
        begin = max((b - 1) & -size, a)
        lower = least
        for c in range(begin, b):
            lower = min(lower, key_of(x[np.uint64(c)], fold, flip))
        if lower == least:
            for c in range(begin, b):
                room[np.uint64(c)] = least
        elif size == 64:
            size = np.int64(8)
            continue
        else:
            for c in range(b - 1, begin - 1, -1):
                least = min(least, key_of(x[np.uint64(c)], fold, flip))
                room[np.uint64(c)] = least
        b = begin
        size = np.int64(64) if b & 63 == 0 else size


@kernel
def least_of(x, fold, flip, unfold, first, last, in_order, room, out):
    """out[r] = the least (or the largest) of the rows first[r] : last[r]. ``in_order``: starts and ends ascend.
    ``unfold`` (TOP): the result is the bits of a float; otherwise it is the key, or the number itself.

    64 adjacent ranges, which mostly have one least, are answered together, or else 8: 0.6 ns a row for one range of
    1000 rows at each row; 0.8 with 64 alone, 2.8 one by one.
    """
    low, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    back, size = TOP, np.int64(64)
    r, ranges = np.int64(0), np.int64(first.size)
    while r < ranges:
        end = min((r + size) & -size, ranges)
        begin, a = first[np.uint64(r)], first[np.uint64(end - 1)]
        b = last[np.uint64(end - 1)]
        if in_order and begin >= low and a < middle and last[np.uint64(r)] >= reach:
            lower = back
            for c in range(reach, b):
                lower = min(lower, key_of(x[np.uint64(c)], fold, flip))
            least = min(room[np.uint64(begin)], lower)
            if least == min(room[np.uint64(a)], back):  # the least that any of the ranges may have equals the most
                number = unfolded(least ^ flip, unfold)
                for i in range(r, end):
                    out[np.uint64(i)] = number
                back, reach, r = lower, b, end
            elif size == 64:
                size = np.int64(8)
                continue
        while r < end:
            a, b = first[np.uint64(r)], last[np.uint64(r)]
            if a >= middle or a < low or b < reach:
                least_from(x, fold, flip, a, b, room)
                back = TOP
                low, middle, reach = a, b, b
            for c in range(reach, b):
                back = min(back, key_of(x[np.uint64(c)], fold, flip))
            reach = b
            out[np.uint64(r)] = unfolded(min(room[np.uint64(a)], back) ^ flip, unfold)
            r += 1
        size = np.int64(64) if r & 63 == 0 else size


@helper
def suffixes(x, a, b, room):
    """room[:, c] = the sum of x[c : b] and its rounding errors, for c from a on."""
    total, lost = 0.0, 0.0
    for c in range(b - 1, a - 1, -1):
        total, lost = summed(total, lost, x[c])
        room[0, c], room[1, c] = total, lost


@kernel
def counts_before(valid, out):
    """How many rows count before each row, and before the end: 1 M rows 4 (numpy) -> 0.7 ms."""
    count = np.int64(0)
    for i in range(valid.size):
        out[i] = count
        count += valid[i]
    out[valid.size] = count


@kernel
def nearest_valid(valid, backwards, out):
    """For each row the row that counts and is nearest to it, at or after it (at or before it, ``backwards``). Any row
    if there is none."""
    near = np.int64(0)
    if backwards:
        for i in range(valid.size):
            near = i if valid[i] else near
            out[i] = near
        return
    for i in range(valid.size - 1, -1, -1):
        near = i if valid[i] else near
        out[i] = near


@kernel
def sums_of(x, first, last, room, total, lost):
    """The sums of the rows first[r] : last[r], and their rounding errors."""
    low, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    back, less = 0.0, 0.0
    for r in range(first.size):
        a, b = first[r], last[r]
        if a >= middle or a < low or b < reach:
            suffixes(x, a, b, room)
            back, less = 0.0, 0.0
            low, middle, reach = a, b, b
        for c in range(reach, b):
            back, less = summed(back, less, x[c])
        reach = b
        total[r], rest = summed(room[0, a], room[1, a], back)
        lost[r] = rest + less


@kernel
def numbers_of(x, first, last, room, mean, out):
    """As ``sums_of``: the sums with their rounding errors, or the means of these rows."""
    low, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    back, less = 0.0, 0.0
    for r in range(first.size):
        a, b = first[r], last[r]
        if a >= middle or a < low or b < reach:
            suffixes(x, a, b, room)
            back, less = 0.0, 0.0
            low, middle, reach = a, b, b
        for c in range(reach, b):
            back, less = summed(back, less, x[c])
        reach = b
        total, rest = summed(room[0, a], room[1, a], back)
        number = total + (rest + less)
        out[r] = number / (b - a) if mean else number


@kernel
def numbers_at_each(x, rows, room, mean, out):
    """As ``numbers_of``, of so many rows from each row on. Blocks of windows that begin at ``rows`` rows end in as many
    other rows: the sums from each row to the end of the first ones, and from the begin of the others, are made first
    and then added side by side: 6.3 -> 3.8 ns a row (loaded machine). ``room``: for four words a row."""
    rest, rest_lost, more, more_lost = room[0], room[1], room[2], room[3]
    for begin in range(0, out.size, rows):
        some, total, lost = out[begin : begin + rows], 0.0, 0.0
        own, others = x[begin : begin + rows], x[begin + rows : begin + rows + some.size - 1]
        for i in range(rows - 1, -1, -1):
            total, lost = summed(total, lost, own[np.uint64(i)])
            rest[i], rest_lost[i] = total, lost
        more[0], more_lost[0], total, lost = 0.0, 0.0, 0.0, 0.0
        for i in range(others.size):
            total, lost = summed(total, lost, others[i])
            more[i + 1], more_lost[i + 1] = total, lost
        for i in range(some.size):
            number, error = summed(rest[i], rest_lost[i], more[i])
            number += error + more_lost[i]
            some[i] = number / rows if mean else number


@kernel
def running(x, rows, more, mean, out):
    """The sums or means of the rows before ``rows``, and before ``more`` rows more each time, up to all."""
    total, lost, reach = 0.0, 0.0, np.int64(0)
    if more == 1 and rows + out.size - 1 <= x.size:  # a row each, in a loop of its own: 1.9 -> 1.5 ns a row
        for c in range(rows - 1):
            total, lost = summed(total, lost, x[np.uint64(c)])
        for r in range(out.size):
            total, lost = summed(total, lost, x[np.uint64(r + rows - 1)])
            out[r] = (total + lost) / (r + rows) if mean else total + lost
        return
    for r in range(out.size):
        end = min(rows + r * more, np.int64(x.size))
        for c in range(reach, end):
            total, lost = summed(total, lost, x[np.uint64(c)])
        reach = end
        out[r] = (total + lost) / end if mean else total + lost


@helper
def joined(n, mean, squares, more, other, rest):
    """The count, mean and squared deviations of two groups of values together, by those of each."""
    if more == 0.0:
        return n, mean, squares
    if n == 0.0:
        return more, other, rest
    share, d = more / (n + more), other - mean
    return n + more, mean + d * share, squares + (rest + d * d * share * n)


@helper
def group_at(c, count, mean, squares, pivot):
    """A group of values less the pivot; of one value, if there are no counts."""
    value = mean[np.uint64(c)]
    if count.size == 0:
        return 1.0, value - pivot, value - value
    return count[np.uint64(c)], value - pivot, squares[np.uint64(c)]


@helper
def least_mean(count, mean, a, b):
    """The mean next to 0 of these groups."""
    pivot, least = 0.0, np.inf
    for c in range(a, b):
        size = abs(mean[np.uint64(c)])
        if size < least and (count.size == 0 or count[np.uint64(c)] > 0.0):
            pivot, least = mean[np.uint64(c)], size
    return pivot


@kernel
def moments_of(count, mean, squares, first, last, room, out_mean, out_squares):
    """The means and squared deviations of the groups first[r] : last[r]. Each group has a count, mean and squared
    deviations. ``count`` and ``squares`` are empty if each group is one value.

    Means are counted from a pivot: with a deviation of 1e-3 beside a mean of 1e9, that of 10,000 values is right to 14
    digits, without to 4. Each range that uses a pivot has a value of its size or a larger one: if all these are gone,
    the stacks start again.
    """
    low, middle, reach = np.int64(0), np.int64(0), np.int64(0)
    n, m, s, pivot = 0.0, 0.0, 0.0, 0.0
    for r in range(first.size):
        a, b = first[np.uint64(r)], last[np.uint64(r)]
        gone = a < middle and a >= low and pivot != 0.0 and room[0, np.uint64(a)] == 0.0
        if a >= middle or a < low or b < reach or gone:
            n, m, s, pivot = 0.0, 0.0, 0.0, least_mean(count, mean, a, b)
            for c in range(b - 1, a - 1, -1):
                n, m, s = joined(n, m, s, *group_at(c, count, mean, squares, pivot))
                room[0, np.uint64(c)], room[1, np.uint64(c)], room[2, np.uint64(c)] = n, m, s
            n, m, s = 0.0, 0.0, 0.0
            low, middle, reach = a, b, b
        for c in range(reach, b):
            if n == 0.0 and room[0, np.uint64(low)] == 0.0:  # the first values of these stacks
                pivot = least_mean(count, mean, c, c + 1)
            n, m, s = joined(n, m, s, *group_at(c, count, mean, squares, pivot))
        reach = b
        at = np.uint64(a)
        _, total, out_squares[r] = joined(room[0, at], room[1, at], room[2, at], n, m, s)
        out_mean[r] = total + pivot


@helper
def _one_more(n, mean, squares, value):
    """The mean and squared deviations of ``n`` values and another one, as by ``joined``."""
    rest = value - value  # of an infinity it is NaN, as it should be
    if n == 0:
        return value, rest
    share, d = 1.0 / (n + 1), value - mean
    return mean + d * share, squares + (rest + d * d * share * n)


@kernel(error_model="numpy")
def moments_at_each(x, rows, room, out):
    """The squared deviations of so many values from each value on, block by block as in ``numbers_at_each``, in two
    chains at once: 11 -> 7 ns a row (loaded machine). Each window of a block has its last row, so that the pivot may be
    any value as near to 0 as that one."""
    rest, rest_squares, more, more_squares = room[0], room[1], room[2], room[3]
    for begin in range(0, out.size, rows):
        some = out[begin : begin + rows]
        own, others = x[begin : begin + rows], x[begin + rows : begin + rows + some.size - 1]
        pivot = least_mean(own[:0], own, 0, rows)
        mean, squares, mean_more, squares_more = 0.0, 0.0, 0.0, 0.0
        for i in range(others.size):
            mean, squares = _one_more(i, mean, squares, own[rows - 1 - i] - pivot)
            rest[rows - 1 - i], rest_squares[rows - 1 - i] = mean, squares
            mean_more, squares_more = _one_more(i, mean_more, squares_more, others[i] - pivot)
            more[i + 1], more_squares[i + 1] = mean_more, squares_more
        for i in range(others.size, rows):
            mean, squares = _one_more(i, mean, squares, own[rows - 1 - i] - pivot)
            rest[rows - 1 - i], rest_squares[rows - 1 - i] = mean, squares
        some[0] = squares
        for i in range(1, some.size):
            share, d = i / rows, more[i] - rest[i]
            some[i] = rest_squares[i] + (more_squares[i] + d * d * share * (rows - i))


@kernel
def totals_of(x, shift, mask, first, last, step, out):
    """out[r] = the sum of ``x >> shift & mask`` over the rows first[r] : last[r], modulo 2**64; starts and ends ascend.
    ``step`` is 1 if each range begins and ends one row later than the one before: 1.9 -> 0.7 ns a range."""
    low, reach, total = np.int64(0), np.int64(0), np.int64(0)
    r, ranges = np.int64(0), np.int64(first.size)
    while r < ranges:
        a, b = first[np.uint64(r)], last[np.uint64(r)]
        if a >= reach:
            low, reach, total = a, a, np.int64(0)
        for c in range(reach, b):
            total += (x[np.uint64(c)] >> shift) & mask
        for c in range(low, a):
            total -= (x[np.uint64(c)] >> shift) & mask
        low, reach = a, b
        out[np.uint64(r)] = total
        r += 1
        if step == 1:
            left = ranges - r
            leaves, enters, rest = x[a : a + left], x[b : b + left], out[r:]
            for i in range(left):
                total += ((enters[i] >> shift) & mask) - ((leaves[i] >> shift) & mask)
                rest[i] = total
            r = ranges
