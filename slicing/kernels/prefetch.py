"""A hint to the processor to load what is needed soon."""

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slicing.kernels.kernel import helper

FAR = 1 << 16  # more cells than these exceed the caches of a core
SOON = 64  # rows ahead whose cells are prefetched
AHEAD = 256  # rows ahead that are prefetched from memory, for a loop over single rows
LINE_BYTES = 64
LINE = 8  # rows of a column in a cache line
STREAM = 1024  # rows ahead that are prefetched from memory, for a loop over vectors of rows
# An AMD EPYC fetches a column that is read in order by itself, and hints cost it up to a fifth. An Intel Xeon does not
# fetch far enough: runs of 1000 floats from memory 0.50 -> 0.30 ns a row, the search for their edges 0.60 -> 0.37;
# integers 0.75 -> 0.60, and 0.14 -> 0.18 in the cache.
ON_STREAMS = not get_host_cpu_name().startswith("znver")


def hint(builder, data, offset):
    """Prefetch the cache line so many bytes behind an address. It may be any: a hint reads nothing."""
    byte, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    address = builder.gep(builder.bitcast(data, byte), [offset])
    builder.call(call, [address, int32(0), int32(3), int32(1)])  # for reading, kept close, as data


@intrinsic
def prefetch(_, array, row):
    """Prefetch a row of an array. The row may be behind its end, so bounds are not checked."""

    def build(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        hint(builder, struct.data, builder.mul(args[1], builder.extract_value(struct.strides, 0)))
        return context.get_dummy_value()

    return types.void(array, types.uint64), build


@helper(inline="always")
def stream(x, first, rows):
    """Prefetch the rows that a loop over ``x`` will read ``STREAM`` rows after ``x[first : first + rows]``."""
    if ON_STREAMS:
        for i in range(first + STREAM, first + STREAM + rows, LINE_BYTES // x.itemsize):
            prefetch(x, np.uint64(i))


@helper(inline="always")
def ahead(i, cell, x, cells):
    """Prefetch the next rows, and those of their cells that exceed the caches of a core.

    An Intel Xeon that waits for a row executes updates of cells ahead, which wait for their values, and repeats them:
    from memory 3.7 -> 1.6 ns a row at 1000 cells, 5.5 -> 2.9 at 100 k, 8.2 -> 5.0 at 1 M (32 bytes each).
    """
    if i % LINE == 0:
        prefetch(cell, np.uint64(i + AHEAD))
        prefetch(x, np.uint64(i + AHEAD))
    if cells.shape[0] > FAR:
        prefetch(cells, np.uint64(cell[min(np.uint64(i + SOON), np.uint64(cell.size - 1))]))


@helper(inline="always")
def ahead_on_lines(i, cell, x, cells):
    """As :func:`ahead`, for cells that may lie on two cache lines: at 1 M of 24 bytes 8.6 -> 5.4 ns a row."""
    ahead(i, cell, x, cells)
    if cells.shape[0] > FAR:
        last = cells[:, cells.shape[1] - 1 :]
        prefetch(last, np.uint64(cell[min(np.uint64(i + SOON), np.uint64(cell.size - 1))]))


@helper(inline="always")
def fetch(cells, last, order, i):
    """Prefetch the cell ``order[i]``: the line where it begins, and that of its last word (``last``: these words)."""
    coming = np.uint64(order[min(i, np.int64(order.size - 1))])
    prefetch(cells, coming)
    prefetch(last, coming)
