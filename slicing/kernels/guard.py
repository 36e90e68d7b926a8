"""Bounds checks for what kernels access by address or as vectors, which numba does not check. Compiled in only where
numba itself checks bounds (``SLICING_CHECK=1``)."""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BEYOND = "index is out of bounds"  # numba's own words


def within(context, builder, array, first, size):
    """While an intrinsic is built: check that rows ``first : first + size`` are in the array; size 0 is allowed."""
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
    """For use in a kernel: check that bytes ``first : first + size`` belong to the array."""

    def build(context, builder, signature, args):
        if context.enable_boundscheck:
            struct = context.make_array(signature.args[0])(context, builder, args[0])
            _stay_in(context, builder, args[1], args[2], builder.mul(struct.nitems, struct.itemsize))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), build
