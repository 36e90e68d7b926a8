"""Rows kept one by one, and data-driven windows over them."""

import numpy as np

from slicing.kernels.kernel import helper, kernel
from slicing.kernels.prefetch import AHEAD, LINE, SOON, prefetch
from slicing.kernels.search import first_above, first_from


@kernel
def frames(bounds, time, enter, leave, h, first, last, is_open, needed):
    """Each group's frames. ``needed``: the start of the frame open before ``h``, else the first row from ``h`` on."""
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


@kernel
def number_in_groups(bounds, first, out):
    """Number the rows of each group, from ``first`` of the group on: 1 M rows 5.6 -> 1 ms."""
    for g in range(bounds.size - 1):
        for i in range(bounds[g], bounds[g + 1]):
            out[i] = first[g] + i - bounds[g]


@kernel
def first_at(bounds, time, least, out):
    """For each group, its first row at or after a time; the group's end if there is none."""
    for g in range(bounds.size - 1):
        out[g] = first_from(time, least, np.int64(bounds[g]), np.int64(bounds[g + 1]))


@helper
def steady(time, i, stop, ahead, reach, first):
    """Find the first row in reach of each row ``i : stop``, guessing that it is ``ahead`` before the row or up to 7
    less. Returns whether all guesses hold and no row has the time of the next one."""
    wrong = np.int64(0)
    for j in range(i, stop):  # independent iterations: everything is known beforehand
        gone = time[np.uint64(j)] - reach
        a = np.uint64(j - ahead)
        left = np.int64(0)
        for k in range(8):
            left += np.int64(time[a + np.uint64(k)] <= gone)
        first[np.uint64(j - i)] = np.int64(a) + left
        wrong |= np.int64(time[a - np.uint64(1)] > gone) | np.int64(time[a + np.uint64(8)] <= gone)
        wrong |= np.int64(time[np.uint64(j + 1)] == time[np.uint64(j)])
    return wrong == 0


@kernel
def around(bounds, time, back, ahead, begin, first, last, start):
    """For each row from ``begin`` on, its group's rows from ``time - back`` to ``time + ahead``, both included; no rows
    if ``first`` equals ``last``. ``start``: the time of the first of these rows, or the row's own time if earlier."""
    for g in range(bounds.size - 1):
        low, stop = np.int64(bounds[g]), np.int64(bounds[g + 1])
        i = max(low, begin)
        if i >= stop:
            continue
        a = first_from(time, time[np.uint64(i)] - back, low, stop)
        b = a
        while i < stop:
            t = time[np.uint64(i)]
            while a < stop and time[np.uint64(a)] < t - back:
                a += 1
            b = max(a, b)
            while b < stop and time[np.uint64(b)] <= t + ahead:
                b += 1
            j = np.uint64(i - begin)
            first[j], last[j], start[j] = a, b, t
            if a < b:
                start[j] = min(t, time[np.uint64(a)])
            i += 1


@kernel
def recent(bounds, time, reach, begin, first, last, start):
    """For each row from ``begin`` on (as many as fit), its group's rows with ``time - reach < their time <= time``.

    ``start`` is the time of the first of these rows. 2.7 ns a row; 1.0 if rows come at a steady rate.
    """
    for g in range(bounds.size - 1):
        low, stop = np.int64(bounds[g]), np.int64(bounds[g + 1])
        i, until = max(low, begin), min(stop, begin + first.size)
        if i >= until:
            continue
        a = first_above(time, time[np.uint64(i)] - reach, low, i)
        b = unsteady = i
        while i < until:
            end = min(i + 64, until)
            for j in range(i, end, LINE):  # prefetch for reading and writing: 2.4 -> 1.75 ns a row
                prefetch(time, np.uint64(j + AHEAD))
                prefetch(start, np.uint64(j - begin + AHEAD))
            gone = time[np.uint64(i)] - reach
            while time[np.uint64(a)] <= gone:
                a += 1
            if i >= unsteady and a - 4 > low and i - a >= 8 and b <= i and end < stop:
                if steady(time, i, end, i - a + 4, reach, first[i - begin :]):
                    for j in range(i - begin, end - begin):
                        start[np.uint64(j)] = time[np.uint64(first[np.uint64(j)])]
                        last[np.uint64(j)] = begin + j + 1
                    a = first[np.uint64(end - begin - 1)]
                    i = end
                else:
                    unsteady = i + 1024
            while i < end:
                t = time[np.uint64(i)]
                gone = t - reach
                if i + 4 <= stop:  # without a branch on how many rows leave: 7 -> 3.2 ns a row at random times
                    left = np.int64(time[np.uint64(a)] <= gone) + np.int64(time[np.uint64(a + 1)] <= gone)
                    a += left + np.int64(time[np.uint64(a + 2)] <= gone) + np.int64(time[np.uint64(a + 3)] <= gone)
                while time[np.uint64(a)] <= gone:
                    a += 1
                b = max(b, i + 1)
                while b < stop and time[np.uint64(b)] == t:
                    b += 1
                j = np.uint64(i - begin)
                first[j], last[j], start[j] = a, b, time[np.uint64(a)]
                i += 1


@kernel
def before_edges(bounds, time, every, out):
    """The ends of each group's rows before a multiple of ``every``, for multiples that rows follow, and the group's
    end. Returns how many there are."""
    n = np.int64(0)
    for g in range(bounds.size - 1):
        i, stop = np.int64(bounds[g]), np.int64(bounds[g + 1])
        while i < stop:
            edge = (time[i] // every + 1) * every
            step = np.int64(1)
            while i + step < stop and time[i + step] < edge:  # gallop in steps that double
                i += step
                step *= 2
            while step > 0:
                if i + step < stop and time[i + step] < edge:
                    i += step
                step >>= 1
            i += 1
            out[n] = i
            n += 1
    return n


@kernel
def alike(bounds, time, marked, out):
    """The first row of each group's rows of one time, if any of them is marked (``marked`` ascends); and how many."""
    n, g, before = np.int64(0), np.int64(0), np.int64(0)
    for m in range(marked.size):
        i = marked[m]
        while bounds[g + 1] <= i:
            g += 1
        low = max(bounds[g], before)
        while i > low and time[i - 1] == time[marked[m]]:
            i -= 1
        if i == before and n > 0 and time[i] == time[out[n - 1]] and bounds[g] <= out[n - 1]:
            before = marked[m]  # of the same time as the previous mark
            continue
        out[n] = i
        n += 1
        before = marked[m]
    return n


@kernel
def gather(words, index, out):
    """``words[index]``, from memory: rows nearly in order 6.0 (Arrow), 4.3 (not prefetched) -> 2.5 ns."""
    last = np.uint64(index.size - 1)
    for i in range(index.size):
        if i % LINE == 0:
            prefetch(index, np.uint64(i + AHEAD))
        prefetch(words, np.uint64(index[min(np.uint64(i + SOON), last)]))
        out[np.uint64(i)] = words[np.uint64(index[np.uint64(i)])]


@kernel
def stragglers(time, steady, late):
    """Split rows into those as late as any before (``steady``) and the others. Returns the number of others."""
    n = np.int64(0)
    latest = time[0]
    for i in range(time.size):  # both are written and one is overwritten, to avoid a branch
        t = time[i]
        steady[i - n] = i
        late[n] = i
        n += np.int64(t < latest)
        latest = max(latest, t)
    return n


@kernel
def interleave(time, steady, late, late_time, out, out_time):
    """Merge two ascending sets of rows; of equal times the earlier row comes first. 3 ns a row with one in five late
    (27 if the next row is chosen without a branch, as its time is then known much later)."""
    i = np.int64(0)
    n = np.int64(0)
    for j in range(late.size):
        b, t = late[j], late_time[j]
        while i < steady.size:
            a = steady[np.uint64(i)]
            s = time[np.uint64(a)]
            if s > t or (s == t and a > b):
                break
            out[np.uint64(n)], out_time[np.uint64(n)] = a, s
            i += 1
            n += 1
        out[np.uint64(n)], out_time[np.uint64(n)] = b, t
        n += 1
    for k in range(i, steady.size):
        out[n + k - i], out_time[n + k - i] = steady[k], time[steady[k]]


@kernel
def cuts_by_rank(bounds, base, origin, every, out):
    """Each group's first row, and its rows with the ranks ``origin[w]``, ``origin[w] + every[w]`` and so on. ``base``:
    the rank of each group's first row. Returns how many there are."""
    n = np.int64(0)
    for g in range(bounds.size - 1):
        i, rank = np.int64(bounds[g]), np.int64(base[g])
        while i < bounds[g + 1]:
            out[n] = i
            n += 1
            step = every[0]
            for w in range(every.size):
                behind = rank - origin[w]
                step = min(step, every[w] - behind % every[w] if behind >= 0 else -behind)
            i += step
            rank += step
    return n


@kernel
def last_rows(bounds, begins, n, fewest, at, first, last):
    """The windows from ``at`` on, as many as fit, of those that rows of a group end: of the last ``n`` rows, from the
    group's row number ``fewest`` on. ``begins``: the first window of each group."""
    until = at + first.size
    for g in range(bounds.size - 1):
        if begins[g + 1] <= at or begins[g] >= until:
            continue
        low = np.int64(bounds[g])
        before = low + fewest - 1 - begins[g]  # the row that ends a window, less the window's number
        for w in range(max(at, begins[g]), min(until, begins[g + 1])):
            row = w + before
            first[w - at], last[w - at] = max(row - n + 1, low), row + 1


@kernel
def last_rows_times(bounds, begins, time, n, fewest, start, end):
    """The times of the first and the last row of all these windows."""
    for g in range(bounds.size - 1):
        low = np.int64(bounds[g])
        before = low + fewest - 1 - begins[g]
        for w in range(begins[g], begins[g + 1]):
            row = w + before
            start[w], end[w] = time[np.uint64(max(row - n + 1, low))], time[np.uint64(row)]


@kernel
def counted(bounds, base, sizes, since, time, n, every, fewest, first, last, group, start, end, low):
    """Windows of ``n`` rows that are complete here, from cells of ``sizes`` rows (empty: one) by group; ``base``:
    rows evicted before. The first windows of a group may have fewer rows, down to ``fewest``: these begin below rank 0.

    Each window gets its cells, its group, the times of its first and last row, and, if ``low`` has room, the rank that
    it begins at. A window is not found if a cell lies across its end, as cells may once the window has closed. Returns
    how many.
    """
    found = np.int64(0)
    for g in range(bounds.size - 1):
        a = np.int64(bounds[g])
        begin = np.int64(base[g])  # the rank of cell a
        rank = -(-begin // every) * every if begin else fewest - n  # of the next window that may be complete
        after = begin
        for i in range(bounds[g], bounds[g + 1]):
            after += sizes[i] if sizes.size else 1
            while rank + n < after:
                rank += every
            if after != rank + n:
                continue
            while begin < rank:
                begin += sizes[a] if sizes.size else 1
                a += 1
            first[found], last[found], group[found] = a, i + 1, g
            start[found], end[found] = since[a], time[i]
            if low.size:
                low[found] = rank
            found += 1
            rank += every
    return found
