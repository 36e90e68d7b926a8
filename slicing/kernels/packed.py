"""Tables of words packed to the bytes that their values need: constant words, words of 4 bytes, and words of 8.

``form`` says for each word where its values are. ``SAME``: all equal ``low``. ``p >= 0``: ``low`` plus ``narrow[p]``.
Below ``SAME``: ``wide[WIDE - p]``.
"""

import numpy as np

from slicing.kernels.kernel import kernel

SAME, WIDE = -1, -2
PIECE = 512  # cells at a time, word by word: they stay in cache


@kernel
def spans(words, low, high):
    """The least and the largest value of each word."""
    for w in range(words.shape[1]):
        low[w] = high[w] = words[0, w]
    for start in range(0, words.shape[0], PIECE):
        stop = min(start + PIECE, words.shape[0])
        for w in range(words.shape[1]):
            least, most = low[w], high[w]
            for i in range(start, stop):
                least = min(least, words[np.uint64(i), np.uint64(w)])
                most = max(most, words[np.uint64(i), np.uint64(w)])
            low[w], high[w] = least, most


@kernel
def alike(words, w, others, v):
    """Whether a word equals a word of another table in all cells."""
    for i in range(words.shape[0]):
        if words[i, w] != others[i, v]:
            return False
    return True


@kernel
def pack(words, form, low, narrow, wide):
    """Store the words that are not SAME."""
    for start in range(0, words.shape[0], PIECE):
        stop = min(start + PIECE, words.shape[0])
        for w in range(words.shape[1]):
            place, least = form[w], low[w]
            if place >= 0:
                for i in range(start, stop):
                    narrow[np.uint64(place), np.uint64(i)] = np.uint32(words[np.uint64(i), np.uint64(w)] - least)
            elif place <= WIDE:
                for i in range(start, stop):
                    wide[np.uint64(WIDE - place), np.uint64(i)] = words[np.uint64(i), np.uint64(w)]


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
