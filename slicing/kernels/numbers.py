"""From partials to answers that are plain numbers of a result column."""

import numpy as np
from numba import njit

from slicing.kernels.cells import NEAR
from slicing.kernels.combine import LOW, SHIFT, TOP
from slicing.kernels.floats import SIGN, floats, order_key
from slicing.kernels.kernel import kernel
from slicing.kernels.prefetch import fetch

# a word, the float of a key, the sum or the mean of two words, the variance or its root
WORD, KEY, SUM_I, SUM_F, MEAN_I, MEAN_F, VARIANCE, DEVIATION = range(8)


@njit(inline="always")
def _deviation(count, squares, least, root):
    """The variance, or its root, of values with this sum of squared deviations; more than ``least - 1`` of them."""
    variance = (0.0 if squares < 0.0 else squares) / (count - (least - 1))
    return np.sqrt(variance) if root else variance


@kernel(error_model="numpy")
def deviations(count, squares, least, root, out):
    """Variances, or their roots: NaN or infinite where there are fewer than ``least`` values."""
    for i in range(out.size):
        out[i] = _deviation(count[i], squares[i], least, root)


@kernel(error_model="numpy")
def gather_numbers(cells, order, words, forms, least, columns, done):
    """columns[k, done + i] = the number that the ``words`` of cell ``order[i]`` give; any number if the cell has fewer
    than ``least`` values. Returns the fewest values of a cell, and how many sums do not fit a word.

    Number by number of so many cells that they stay in the nearest cache, while the next ones are fetched: four numbers
    of 1 M cells 14 -> 6 ns a cell in groups of 1000, one number 13 -> 3 (loaded machine).
    """
    last, fewest, unfit = cells[:, cells.shape[1] - 1], TOP, np.int64(0)
    for start in range(0, order.size, NEAR):
        stop = min(start + NEAR, order.size)
        for i in range(start, stop):
            fetch(cells, last, order, i + NEAR)
            fewest = min(fewest, cells[np.uint64(order[i]), 0])
        for k in range(words.size):
            column = columns[k, done + start : done + stop]
            unfit += _numbers(cells, order[start:stop], words[k], forms[k], least[k], column)
    return fewest, unfit


@kernel(error_model="numpy")
def _numbers(cells, order, word, form, least, column):
    partials, numbers, w, beyond = floats(cells), floats(column), np.uint64(word), np.int64(0)
    if form == WORD:
        for i in range(order.size):
            column[np.uint64(i)] = cells[np.uint64(order[np.uint64(i)]), w]
    elif form == KEY:
        for i in range(order.size):
            column[np.uint64(i)] = order_key(cells[np.uint64(order[np.uint64(i)]), w])
    elif form == SUM_F:
        for i in range(order.size):
            c = np.uint64(order[np.uint64(i)])
            numbers[np.uint64(i)] = partials[c, 1] + partials[c, 2]
    elif form == MEAN_F:
        for i in range(order.size):
            c = np.uint64(order[np.uint64(i)])
            numbers[np.uint64(i)] = (partials[c, 1] + partials[c, 2]) / cells[c, 0]
    elif form >= VARIANCE:
        for i in range(order.size):
            c = np.uint64(order[np.uint64(i)])
            numbers[np.uint64(i)] = _deviation(cells[c, 0], partials[c, 2], least, form == DEVIATION)
    elif form == SUM_I:
        for i in range(order.size):
            c = np.uint64(order[np.uint64(i)])
            total = (cells[c, 2] << SHIFT) + cells[c, 1]
            column[np.uint64(i)] = total
            beyond += (cells[c, 2] + (cells[c, 1] >> SHIFT)) >> SHIFT != total >> SIGN
    else:
        for i in range(order.size):
            c = np.uint64(order[np.uint64(i)])
            total = (cells[c, 2] << SHIFT) + cells[c, 1]
            numbers[np.uint64(i)] = total / cells[c, 0]
            beyond += (cells[c, 2] + (cells[c, 1] >> SHIFT)) >> SHIFT != total >> SIGN
    return beyond


@kernel
def whole_sums(count, low, high, out, beyond):
    """Sums of integers by halves as words, and which of them do not fit a word. Returns the number of these."""
    n = np.int64(0)
    for i in range(out.size):
        top = high[i] + (low[i] >> SHIFT)
        out[i] = (top << SHIFT) | (low[i] & LOW)
        beyond[i] = (count[i] != 0) & (top >> SHIFT != out[i] >> 63)
        n += beyond[i]
    return n
