"""Vectors of 512 bits, if the processor has them."""

from numba import types
from numba.extending import intrinsic


@intrinsic
def wide(_):
    """Let LLVM use 512 bits in this kernel; it prefers 256, because processors of 2017 slowed down with 512."""

    def build(context, builder, signature, args):
        # llvmlite's own `add` does not allow attributes with a value
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), build
