"""Vectors of 512 bits, where the processor has them."""

from numba import types
from numba.extending import intrinsic


@intrinsic
def wide(_):
    """Let LLVM use 512 bits in the kernel that says so; it prefers 256, as processors of 2017 slowed down otherwise."""

    def build(context, builder, signature, args):
        # llvmlite's own `add` knows no attributes that have a value
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), build
