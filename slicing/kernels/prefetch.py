"""A hint to the processor: what is needed soon."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(_, array, row):
    """Begin to load a row of an array; it may lie behind its end."""

    def build(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        byte, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        step = builder.mul(args[1], builder.extract_value(struct.strides, 0))
        address = builder.gep(builder.bitcast(struct.data, byte), [step])
        kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [address, int32(0), int32(3), int32(1)])  # for reading, kept close, as data
        return context.get_dummy_value()

    return types.void(array, types.uint64), build
