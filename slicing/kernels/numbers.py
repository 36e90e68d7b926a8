"""From partials to answers that are plain numbers of a result column."""

import numpy as np

from slicing.kernels.combine import SHIFT
from slicing.kernels.floats import floats, order_key
from slicing.kernels.kernel import kernel
from slicing.kernels.prefetch import prefetch

WORD, KEY, SUM_I, SUM_F, MEAN_I, MEAN_F = range(6)  # word, float of a key, sum or mean of two words
AHEAD = 32  # cells ahead that are prefetched


@kernel(error_model="numpy")
def gather_numbers(cells, order, words, forms, columns, done):
    """columns[k, done + i] = the number that the ``words`` of cell ``order[i]`` give. Returns the number of cells
    without a value."""
    partials, numbers = floats(cells), floats(columns)
    last, most, empty = cells[:, cells.shape[1] - 1], np.int64(order.size - 1), np.int64(0)
    for i in range(order.size):
        coming = np.uint64(order[min(i + AHEAD, most)])
        prefetch(cells, coming)
        prefetch(last, coming)
        c, at = np.uint64(order[i]), np.uint64(done + i)
        empty += cells[c, 0] == 0
        for k in range(words.size):
            form = forms[k]
            if form == WORD:
                columns[k, at] = cells[c, words[k]]
            elif form == KEY:
                columns[k, at] = order_key(cells[c, words[k]])
            elif form == SUM_F:
                numbers[k, at] = partials[c, 1] + partials[c, 2]
            elif form == MEAN_F:
                numbers[k, at] = (partials[c, 1] + partials[c, 2]) / cells[c, 0]
            elif form == SUM_I:
                columns[k, at] = (cells[c, 2] << SHIFT) + cells[c, 1]
            else:
                numbers[k, at] = ((cells[c, 2] << SHIFT) + cells[c, 1]) / cells[c, 0]
    return empty
