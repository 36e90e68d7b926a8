"""Numbers each result of a window by how often the window was emitted before, with a table of all keys per window."""

import numpy as np

from slicing.kernels.kernel import helper, kernel


@helper
def _window_of(window, start, end, heads, known):
    """The number of a window among the ``known`` ones; ``known`` if it is a new window."""
    for i in range(known - 1, -1, -1):
        if heads[2, i] == end and heads[1, i] == start and heads[0, i] == window:
            return i
    return known


@kernel
def number_again(heads, windows, where, asked, asked_code, order, count, latest, number, fresh, more):
    """Count windows ``asked`` once more: the ``number`` of each so far, from 0, and which ones are new.

    ``asked`` has (window, start, end) in runs, or once if all are of one window and one ``order``. ``heads`` are the
    ``windows`` known so far. ``where`` has a row for each of them: the position in ``count`` (from 1) for each key; new
    positions are written there. ``more`` counts the ``fresh`` ones. Returns the number of new ones and the number of
    windows after it. Returns -1 if there is no room for all windows, or if results of one window and key are not in
    their ``order``.
    """
    n, found, size = np.int64(0), np.int64(-1), np.int64(count.size)
    step = np.int64(asked.shape[1] > 1)
    for at in range(asked_code.size):
        window, start, end = asked[0, step * at], asked[1, step * at], asked[2, step * at]
        if found < 0 or heads[2, found] != end or heads[1, found] != start or heads[0, found] != window:
            found = _window_of(window, start, end, heads, windows)
            if found == windows:
                if windows == where.shape[0]:
                    return np.int64(-1), windows
                heads[0, found], heads[1, found], heads[2, found] = window, start, end
                windows += 1
        code = asked_code[at]
        of = np.int64(where[found, code]) - 1
        if of < 0:
            of = size + n
            where[found, code] = of + 1
            fresh[n], more[n] = at, 0
            n += 1
        if latest[of] >= 0 and order[step * latest[of]] >= order[step * at]:
            return np.int64(-1), windows
        latest[of] = at
        if of < size:
            number[at] = count[of]
            count[of] += 1
        else:
            number[at] = more[of - size]
            more[of - size] += 1
    return n, windows
