"""Writes past the caches, of columns that exceed them: a processor reads memory before it writes to it in a cache."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slicing.kernels.kernel import kernel

MANY = 1 << 18  # numbers of eight bytes that exceed the caches of a core


@intrinsic
def write(_, array, row, value):
    """``array[row] = value`` past the caches. Bounds are not checked; arrays are contiguous."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        stored = builder.store(args[2], builder.gep(data, [args[1]]), align=8)
        past = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        stored.set_metadata("nontemporal", past)
        return context.get_dummy_value()

    return types.void(array, types.uint64, array.dtype), build


@kernel
def count_on(low, step, out):
    """Write low, low + step, ... into existing memory: 10 M 28 (numpy) -> 9.5 -> 3.5 ms."""
    if out.size < MANY:
        for i in range(out.size):
            out[i] = low + i * step
    else:
        for i in range(out.size):
            write(out, np.uint64(i), low + i * step)
