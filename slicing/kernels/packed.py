"""Tables of words packed to the bytes that their values need: constant words, words of 4 bytes, and words of 8.

``form`` says for each word where its values are. ``SAME``: all equal ``low``. ``p >= 0``: ``low`` plus ``narrow[p]``.
Below ``SAME``: ``wide[WIDE - p]``.
"""

import numpy as np

from slicing.kernels.kernel import kernel

SAME, WIDE = -1, -2
PIECE = 512  # cells at a time, word by word: they stay in cache
NARROW = np.uint64(1 << 32)  # 4 bytes hold this many different values


@kernel
def put(words, out, first):
    """Turn a table into rows of another one, a row for each word, from the row ``first`` on."""
    for start in range(0, words.shape[0], PIECE):
        stop = min(start + PIECE, words.shape[0])
        for w in range(words.shape[1]):
            for i in range(start, stop):
                out[np.uint64(first + w), np.uint64(i)] = words[np.uint64(i), np.uint64(w)]


@kernel
def put_some(words, order, out, first):
    """Turn some rows of a table into rows of another one, a row for each word, from the row ``first`` on."""
    for start in range(0, order.size, PIECE):
        stop = min(start + PIECE, order.size)
        for w in range(words.shape[1]):
            for i in range(start, stop):
                out[np.uint64(first + w), np.uint64(i)] = words[np.uint64(order[i]), np.uint64(w)]


@kernel
def survey(words, first, low, high, form):
    """The least and the largest value and the form of each word, from the word ``first`` on. A word that equals an
    earlier one in all cells has the form of that word. Returns how many words of 4 and of 8 bytes differ."""
    for w in range(first):
        low[w], high[w], form[w] = 0, 0, SAME
    narrow, wide = 0, 0
    for w in range(first, words.shape[0]):
        least = most = words[w, 0]
        for i in range(words.shape[1]):
            least = min(least, words[w, np.uint64(i)])
            most = max(most, words[w, np.uint64(i)])
        low[w], high[w], form[w] = least, most, SAME
        if least == most:
            continue
        for v in range(first, w):
            if low[v] == least and high[v] == most and _alike(words, v, w):
                form[w] = form[v]
                break
        if form[w] != SAME:
            continue
        if np.uint64(most) - np.uint64(least) < NARROW:
            form[w] = narrow
            narrow += 1
        else:
            form[w] = WIDE - wide
            wide += 1
    return narrow, wide


@kernel
def _alike(words, v, w):
    """Whether two words are equal in all cells."""
    for i in range(words.shape[1]):
        if words[v, np.uint64(i)] != words[w, np.uint64(i)]:
            return False
    return True


@kernel
def pack(words, form, low, narrow, wide):
    """Store the words that are not SAME. Each form is stored once: forms are numbered in the order of their words."""
    narrow_next, wide_next = 0, 0
    for w in range(words.shape[0]):
        place, least = form[w], low[w]
        if place == narrow_next:
            narrow_next += 1
            for i in range(words.shape[1]):
                narrow[place, np.uint64(i)] = np.uint32(words[w, np.uint64(i)] - least)
        elif WIDE - place == wide_next:
            wide_next += 1
            for i in range(words.shape[1]):
                wide[WIDE - place, np.uint64(i)] = words[w, np.uint64(i)]


@kernel
def spread(form, low, narrow, wide, first, to, out, column):
    """Unpack the cells from ``first`` on into the rows ``to`` of a table, into its columns from ``column`` on."""
    for start in range(0, to.size, PIECE):
        stop = min(start + PIECE, to.size)
        for w in range(form.size):
            place, least, at = form[w], low[w], np.uint64(column + w)
            if place == SAME:
                for i in range(start, stop):
                    out[np.uint64(to[i]), at] = least
            elif place >= 0:
                for i in range(start, stop):
                    out[np.uint64(to[i]), at] = least + np.int64(narrow[np.uint64(place), np.uint64(first + i)])
            else:
                for i in range(start, stop):
                    out[np.uint64(to[i]), at] = wide[np.uint64(WIDE - place), np.uint64(first + i)]


@kernel
def unpack(form, low, narrow, wide, first, out, column):
    """Unpack the cells from ``first`` on into the columns of a table from ``column`` on."""
    for start in range(0, out.shape[0], PIECE):
        stop = min(start + PIECE, out.shape[0])
        for w in range(form.size):
            place, least, at = form[w], low[w], np.uint64(column + w)
            if place == SAME:
                for i in range(start, stop):
                    out[np.uint64(i), at] = least
            elif place >= 0:
                for i in range(start, stop):
                    out[np.uint64(i), at] = least + np.int64(narrow[np.uint64(place), np.uint64(first + i)])
            else:
                for i in range(start, stop):
                    out[np.uint64(i), at] = wide[np.uint64(WIDE - place), np.uint64(first + i)]
