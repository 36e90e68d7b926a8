"""How often windows have come out: each one's number, by a table of all keys of the windows that there are."""

import numpy as np

from slicing.kernels.kernel import helper, kernel


@helper
def _window_of(window, start, end, heads, known):
    """The number of a window among those known so far; one that is not comes after them."""
    for i in range(known - 1, -1, -1):
        if heads[2, i] == end and heads[1, i] == start and heads[0, i] == window:
            return i
    return known


@kernel
def number_again(known, code, count, asked, asked_code, order, codes, heads, where, latest, number, fresh, more):
    """Count windows ``asked`` once more: their ``number`` so far, from 0, and which are not among the ``known``.

    ``known`` and ``asked`` are (window, start, end) in runs. ``where``, zeros, is the table; ``count`` is that of the
    known ones, ``more`` that of the ``fresh``. Returns how many these are; -1 if the windows or their keys are more
    than there is room for, or those of one window do not come in their ``order``.
    """
    n, found, windows = np.int64(0), np.int64(-1), np.int64(0)
    size = np.int64(code.size)
    for i in range(size + asked_code.size):
        table, at = (known, i) if i < size else (asked, i - size)
        window, start, end = table[0, at], table[1, at], table[2, at]
        if found < 0 or heads[2, found] != end or heads[1, found] != start or heads[0, found] != window:
            found = _window_of(window, start, end, heads, windows)
            if found == windows:
                if windows == heads.shape[1] or (windows + 1) * codes > where.size:
                    return np.int64(-1)
                heads[0, found], heads[1, found], heads[2, found] = window, start, end
                windows += 1
        if i < size:
            where[found * codes + code[i]] = i + 1
            continue
        place = found * codes + asked_code[at]
        of = where[place] - 1
        if of < 0:
            of = size + n
            where[place] = of + 1
            fresh[n], more[n] = at, 0
            n += 1
        if latest[of] >= 0 and order[latest[of]] >= order[at]:
            return np.int64(-1)
        latest[of] = at
        if of < size:
            number[at] = count[of]
            count[of] += 1
        else:
            number[at] = more[of - size]
            more[of - size] += 1
    return n
