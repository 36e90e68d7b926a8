"""Bounds of what kernels reach by address or as vectors, which numba does not see: looked at where it looks at bounds
itself (``SLICING_CHECK=1``), nothing at all elsewhere."""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BEYOND = "index is out of bounds"  # as numba says


def within(context, builder, array, first, size):
    """While an intrinsic is built: rows ``first : first + size`` are in the array, one without any anywhere."""
    if context.enable_boundscheck:
        rows = cgutils.unpack_tuple(builder, array.shape)[0]
        _stay_in(context, builder, first, size, rows)


def _stay_in(context, builder, first, size, end):
    some = builder.icmp_signed(">", size, size.type(0))
    below, above = (
        builder.icmp_signed("<", first, first.type(0)),
        builder.icmp_signed(">", first, builder.sub(end, size)),
    )
    with cgutils.if_unlikely(builder, builder.and_(some, builder.or_(below, above))):
        context.call_conv.return_user_exc(builder, IndexError, (BEYOND,))


@intrinsic
def inside(_, array, first, size):
    """In a kernel: the bytes ``first : first + size`` are the array's own."""

    def build(context, builder, signature, args):
        if context.enable_boundscheck:
            struct = context.make_array(signature.args[0])(context, builder, args[0])
            _stay_in(context, builder, args[1], args[2], builder.mul(struct.nitems, struct.itemsize))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), build
