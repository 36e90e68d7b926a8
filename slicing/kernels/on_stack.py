"""Temporary arrays on the stack of a kernel, so that it allocates nothing."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


@intrinsic(prefer_literal=True)
def on_stack(_, size, number):
    """An uninitialised array of ``size`` numbers of a type; ``size`` is a constant."""
    array = types.Array(number.dtype, 1, "C")

    def build(context, builder, signature, args):
        count, item = size.literal_value, context.get_abi_sizeof(context.get_data_type(array.dtype))
        made = make_array(array)(context, builder)
        held = cgutils.alloca_once(builder, ir.ArrayType(context.get_data_type(array.dtype), count))
        intp = context.get_constant
        populate_array(
            made,
            data=builder.bitcast(held, made.data.type),
            shape=[intp(types.intp, count)],
            strides=[intp(types.intp, item)],
            itemsize=intp(types.intp, item),
            meminfo=None,
        )
        return made._getvalue()

    return array(size, number), build
