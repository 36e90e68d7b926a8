"""Texts as numbers that sort as their bytes do, some bytes at a time."""

import numpy as np

from slicing.kernels.kernel import helper, kernel

BYTES = 7  # of a text in a word
AT_ONCE = 128  # bytes that are compared before the texts are parted: few of them may share so many
MORE = 8  # in place of the number of bytes: more of them follow


@kernel
def next_words(begin, end, data, rows, first, depth, words):
    """The next bytes of each text, and how many they are, as a word: equal words are equal texts unless more follow.

    Texts ``data[begin[r] : end[r]]`` come in groups: ``rows[first[g] : first[g + 1]]``, the first ``depth[g]`` bytes of
    which are equal. What else a group shares is left out: ``depth`` is moved to the end of its words.
    """
    for g in range(first.size - 1):
        depth[g] += _shared(begin, end, data, rows[first[g] : first[g + 1]], depth[g])
        for i in range(first[g], first[g + 1]):
            r = np.uint64(rows[i])
            at, word = begin[r] + depth[g], np.int64(0)
            left = end[r] - at
            for b in range(min(left, BYTES)):
                word |= np.int64(data[np.uint64(at + b)]) << np.int64(8 * (BYTES - b) - 4)
            words[i] = word | min(left, MORE)
        depth[g] += BYTES


@helper
def _shared(begin, end, data, rows, depth):
    """How many bytes all of some texts share from ``depth`` on; if they are more, the first of them."""
    one = begin[rows[0]] + depth
    shared = min(end[rows[0]] - one, AT_ONCE)
    for i in range(1, rows.size):
        r = np.uint64(rows[i])
        other = begin[r] + depth
        shared = min(shared, end[r] - other)
        differ = np.uint8(0)
        for b in range(shared):  # to the end, as the compiler makes vectors of it
            differ |= data[np.uint64(one + b)] ^ data[np.uint64(other + b)]
        if differ:
            at = np.int64(0)
            while data[np.uint64(one + at)] == data[np.uint64(other + at)]:
                at += 1
            shared = at
    return shared
