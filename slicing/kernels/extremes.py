"""The smaller and the larger of two numbers."""

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic


def _chosen(typing, a, b, sign):
    number = typing.unify_types(types.unliteral(a), types.unliteral(b))
    if not isinstance(number, types.Integer | types.Float):
        raise TypingError(f"kernels compare two numbers; got {a}, {b}")

    def build(context, builder, signature, args):
        a, b = args
        if isinstance(number, types.Float):
            other = builder.fcmp_ordered(sign, b, a)
        else:
            other = (builder.icmp_signed if number.signed else builder.icmp_unsigned)(sign, b, a)
        return builder.select(other, b, a)

    return number(number, number), build


@intrinsic
def least(typing, a, b):
    return _chosen(typing, a, b, "<")


@intrinsic
def most(typing, a, b):
    return _chosen(typing, a, b, ">")
