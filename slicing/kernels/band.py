"""Partners of the rows of a batch in a run that is sorted by (code, time): first counted, then written.

A run is searched by galloping: a batch of few rows never reads the whole of a large run.
"""

import numpy as np
from numba import uint64 as u64

from slicing.kernels.kernel import helper, kernel


@helper
def _is_at(codes, times, code, time, same, i):
    return codes[i] > code or (codes[i] == code and (times[i] > time or (same and times[i] == time)))


@helper
def _first(codes, times, code, time, same, at, stop):
    """The first position from ``at`` on whose (code, time) is greater, or not less if ``same``. The search gallops from
    the last position on, with steps that double."""
    step = np.int64(1)
    while at + step <= stop and not _is_at(codes, times, code, time, same, u64(at + step - 1)):
        at += step
        step += step
    high = min(at + step - 1, stop)
    while at < high:
        middle = (at + high) >> 1
        if _is_at(codes, times, code, time, same, u64(middle)):
            high = middle
        else:
            at = middle + 1
    return at


@kernel
def count_partners(code, low, high, back, forth, place, run_code, run_time, first, count):
    """Where the partners of each row begin in the run, and their number, written at the row's ``place``.

    Rows are sorted by (code, time), and so are the times they reach: ``low - back`` to ``high + forth`` (no partner if
    ``low > high``). Returns the total number of partners.
    """
    total, a, b = np.int64(0), np.int64(0), np.int64(0)
    stop = np.int64(run_code.size)
    for j in range(code.size):
        i, p = u64(j), u64(place[u64(j)])
        if low[i] > high[i]:
            first[p], count[p] = a, 0
            continue
        a = _first(run_code, run_time, code[i], low[i] - back, True, a, stop)
        b = _first(run_code, run_time, code[i], high[i] + forth, False, max(a, b), stop)
        first[p], count[p] = a, b - a
        total += b - a
    return total


@kernel
def fill_partners(rows, first, count, at, name, base, row, partner):
    """For rows from number ``rows`` on, write row and place of each partner from ``at[i]`` on; ``at[i]`` advances."""
    for j in range(first.size):
        i = u64(j)
        n, begin = at[i], first[i]
        for k in range(count[i]):
            row[u64(n + k)] = rows + j
            partner[u64(n + k)] = name[u64(begin + k)] - base
        at[i] = n + count[i]


@kernel
def fill_times(first, count, at, time, when):
    """Write the times of partners from ``at[i] - count[i]`` on."""
    for j in range(first.size):
        i = u64(j)
        n, begin = at[i] - count[i], first[i]
        for k in range(count[i]):
            when[u64(n + k)] = time[u64(begin + k)]


@kernel
def settle(ends, when, partner, short):
    """Sort the partners of each row by (time, name), by insertion. Returns False if a row has more than ``short``
    unsorted partners: they need another sort."""
    begin = np.int64(0)
    for j in range(ends.size):
        end = ends[j]
        for i in range(begin + 1, end):
            t, p = when[i], partner[i]
            if when[i - 1] < t or (when[i - 1] == t and partner[i - 1] < p):
                continue
            if end - begin > short:
                return False
            k = i
            while k > begin and (when[k - 1] > t or (when[k - 1] == t and partner[k - 1] > p)):
                when[k], partner[k] = when[k - 1], partner[k - 1]
                k -= 1
            when[k], partner[k] = t, p
        begin = end
    return True


@kernel
def claim(first, count, name, base, flags, taken, after, row, partner):
    """Write each partner that is not ``taken`` yet, once, with the first row that has it. Returns how many there are.

    ``after`` is at first the numbers of the places of the run; later it leads past taken places, so that rows of a
    frequent key do not scan its run again and again.
    """
    n = np.int64(0)
    for j in range(first.size):
        end = first[j] + count[j]
        k = first[j]
        while k < end:
            free = k  # the first place that may be free from here on
            while after[u64(free)] != free:
                free = after[u64(free)]
            while after[u64(k)] != k:  # shorten the path to it
                step = after[u64(k)]
                after[u64(k)] = free
                k = step
            if free >= end:
                break
            p = u64(name[u64(free)] - base)
            if flags[p] & taken == 0:
                flags[p] |= taken
                row[n], partner[n] = j, np.int64(p)
                n += 1
            after[u64(free)] = free + 1
            k = free + 1
    return n


@kernel
def order_codes(code, at, order):
    """The stable order by code; ``at``: where the rows of each code begin (advances)."""
    for i in range(code.size):
        c = u64(code[u64(i)])
        order[u64(at[c])] = i
        at[c] += 1


@kernel
def merge_runs(code_a, time_a, name_a, code_b, time_b, name_b, code, time, name):
    """Merge two runs into one; of equal rows, those of the first run come first."""
    i, j = np.int64(0), np.int64(0)
    for n in range(code.size):
        take_a = j == code_b.size
        if i < code_a.size and not take_a:
            a, b = u64(i), u64(j)
            take_a = code_a[a] < code_b[b] or (code_a[a] == code_b[b] and time_a[a] <= time_b[b])
        if take_a:
            code[u64(n)], time[u64(n)], name[u64(n)] = code_a[u64(i)], time_a[u64(i)], name_a[u64(i)]
            i += 1
        else:
            code[u64(n)], time[u64(n)], name[u64(n)] = code_b[u64(j)], time_b[u64(j)], name_b[u64(j)]
            j += 1


@kernel
def keep_rows(
    code, time, name, until, flags, base, gone, kept_code, kept_time, kept_name, code_left, time_left, name_left
):
    """Split rows into those later than ``until`` and the others; rows with a flag of ``gone`` are dropped. Returns both
    numbers."""
    n, m = np.int64(0), np.int64(0)
    for j in range(code.size):
        i = u64(j)
        if gone and flags[u64(name[i] - base)] & gone:
            continue
        if time[i] > until:
            kept_code[u64(n)], kept_time[u64(n)], kept_name[u64(n)] = code[i], time[i], name[i]
            n += 1
        else:
            code_left[u64(m)], time_left[u64(m)], name_left[u64(m)] = code[i], time[i], name[i]
            m += 1
    return n, m


@kernel
def nearest(time, first, count, run_time, chosen):
    """The partner nearest in time; if two are equally near, the earlier; of equal times the last. -1: no partner.

    Of rows in order, the first later partner is not far behind that of the row before.
    """
    known = np.int64(0)
    for j in range(time.size):
        i = u64(j)
        low, stop = first[i], first[i] + count[i]
        if low == stop:
            chosen[i] = -1
            continue
        t, end = time[i], stop
        if low < known <= stop and run_time[u64(known - 1)] <= t:
            low, step = known, np.int64(1)
            while low + step <= stop and run_time[u64(low + step - 1)] <= t:
                low += step
                step *= 2
            stop = min(low + step - 1, stop)
        while low < stop:  # the first partner that is later
            middle = (low + stop) >> 1
            if run_time[u64(middle)] <= t:
                low = middle + 1
            else:
                stop = middle
        known, before, best = low, low - 1, low
        if best < end:  # the last partner of its time
            at, best, stop = run_time[u64(best)], best + 1, end
            if best < end and run_time[u64(best)] > at:
                stop = best
            while best < stop:  # by halves: a million rows may have one time
                middle = (best + stop) >> 1
                if run_time[u64(middle)] <= at:
                    best = middle + 1
                else:
                    stop = middle
            best -= 1
        if before >= first[i] and (
            best >= end or u64(t) - u64(run_time[u64(before)]) <= u64(run_time[u64(best)]) - u64(t)
        ):
            best = before
        chosen[i] = best


@kernel
def last_in_order(code, high, forth, right_code, right_time, half, right_half, latest, chosen):
    """For each row, the last row of its code that is not after ``high + forth``, or -1; both sides ascend in time.

    The two halves, up to and from ``half`` and ``right_half``, are walked at once, each with its row of ``latest``: a
    place for each code and one for no code, -1 at first. There is no branch on which of two times is earlier, which a
    processor mispredicts half the time for random streams: 1 M and 1 M rows of 1000 keys 10.6 -> 5.4 ms.
    """
    one, two = latest[0], latest[1]
    nobody = one.size - 1
    i, at, j, to = np.int64(0), np.int64(0), half, right_half
    while i < half and at < right_half and j < code.size and to < right_code.size:
        coming = right_code[u64(at)]  # loaded even if not needed, to avoid a branch
        comes = right_time[u64(at)] <= high[u64(i)] + forth
        one[u64(coming if comes else nobody)] = at
        chosen[u64(i)] = one[u64(code[u64(i)])]  # overwritten until the last one has come
        at += comes
        i += 1 - comes
        coming = right_code[u64(to)]
        comes = right_time[u64(to)] <= high[u64(j)] + forth
        two[u64(coming if comes else nobody)] = to
        chosen[u64(j)] = two[u64(code[u64(j)])]
        to += comes
        j += 1 - comes
    _last(i, half, at, right_half, code, high, forth, right_code, right_time, one, chosen)
    _last(j, code.size, to, right_code.size, code, high, forth, right_code, right_time, two, chosen)
    for j in range(half, code.size):
        if chosen[u64(j)] < 0:
            chosen[u64(j)] = one[u64(code[u64(j)])]


@helper
def _last(first, stop, at, end, code, high, forth, right_code, right_time, latest, chosen):
    for j in range(first, stop):
        i = u64(j)
        while at < end and right_time[u64(at)] <= high[i] + forth:
            latest[u64(right_code[u64(at)])] = at
            at += 1
        chosen[i] = latest[u64(code[i])]


@kernel
def none_before(low, back, right_time, chosen):
    """Set -1 where the chosen row is before ``low - back``."""
    for j in range(chosen.size):
        i = u64(j)
        if chosen[i] >= 0 and right_time[u64(chosen[i])] < low[i] - back:
            chosen[i] = -1


@kernel
def unmirrored(places, size):
    """Places in rows that are counted from the last to the first, by rows from the last to the first: as others count
    them. -1 stays."""
    i, j = np.int64(0), np.int64(places.size - 1)
    while i <= j:
        one, two = places[u64(i)], places[u64(j)]
        places[u64(j)] = -1 if one < 0 else size - 1 - one
        places[u64(i)] = -1 if two < 0 else size - 1 - two
        i, j = i + 1, j - 1
    return places


@kernel
def nearer(time, right_time, later, chosen):
    """Take the ``later`` row where none is chosen, or the chosen one is farther from the row's time. No branch: which
    one is nearer cannot be predicted."""
    if not right_time.size:
        return
    for j in range(chosen.size):
        i = u64(j)
        before, after = chosen[i], later[i]
        behind = u64(time[i]) - u64(right_time[u64(max(before, 0))])
        ahead = u64(right_time[u64(max(after, 0))]) - u64(time[i])
        takes = np.int64(after >= 0) & (np.int64(before < 0) | np.int64(ahead < behind))
        chosen[i] = before + takes * (after - before)


@kernel
def last_alike(time, last):
    """For each of ascending times the last row that has it."""
    for j in range(time.size - 1, -1, -1):
        alike = j + 1 < time.size and time[u64(j)] == time[u64(j + 1)]
        last[u64(j)] = last[u64(j + 1)] if alike else j


@kernel
def nearest_beside(time, right_time, last, before, after, chosen):
    """Of the last right row that is not later than a row, ``chosen`` (-1: none), and the right row behind it, take the
    nearer one. Neither is taken that is earlier by more than ``before``, or later by more than ``after``. ``last``: of
    each right row the last one of its time; empty if all times differ. No branch on what is nearer: see ``nearer``."""
    if not right_time.size:
        return
    for j in range(chosen.size):
        i, at, next = u64(j), chosen[u64(j)], chosen[u64(j)] + 1
        behind = u64(time[i]) - u64(right_time[u64(max(at, 0))])
        ahead = u64(right_time[u64(min(next, right_time.size - 1))]) - u64(time[i])
        fits = np.int64(at >= 0) & np.int64(behind <= before)
        comes = np.int64(next < right_time.size) & np.int64(ahead <= after)
        takes = comes & ((1 - fits) | np.int64(ahead < behind))
        place = at + takes
        if last.size > 0:
            place = last[u64(max(place, 0))]
        chosen[i] = place if takes | fits else -1


@kernel
def take_words(words, places, out):
    """The words at these places; undefined where a place is -1."""
    for j in range(places.size):
        i = u64(j)
        out[i] = words[u64(max(places[i], 0))]


@kernel
def least_of_codes(code, time, least):
    """Lower ``least`` to the least time of each code."""
    for j in range(code.size):
        i = u64(j)
        c = u64(code[i])
        if time[i] < least[c]:
            least[c] = time[i]


@kernel
def latest_of_codes(code, time, name, least, after, flags, base, unfit, latest):
    """The place of each code's last row that is at most ``after`` later than the code's least time. Rows with a flag of
    ``unfit`` do not count. Times are compared without overflow."""
    for j in range(code.size):
        i = u64(j)
        c = u64(code[i])
        if flags[u64(name[i] - base)] & unfit:
            continue
        if after >= 0:
            counts = time[i] <= least[c] or u64(time[i]) - u64(least[c]) <= u64(after)
        else:
            counts = time[i] < least[c] and u64(least[c]) - u64(time[i]) >= u64(-after)
        if counts:
            latest[c] = j
