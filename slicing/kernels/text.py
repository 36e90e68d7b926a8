"""Text and other bytes, 32 at once, at any address: kept, hashed, compared."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PIECE = 32
_WORDS, _BITS = ir.VectorType(ir.IntType(64), 4), ir.IntType(4)


def _load(builder, address):
    words = builder.load(builder.inttoptr(address, _WORDS.as_pointer()))
    words.align = 1
    return words


@intrinsic
def keep(_, source, mask, into):
    """Write 32 bytes, those where a mask has none as zero."""

    def build(context, builder, signature, args):
        kept = builder.and_(_load(builder, args[0]), _load(builder, args[1]))
        builder.store(kept, builder.inttoptr(args[2], _WORDS.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), build


@intrinsic
def weigh(_, source, weights):
    """The sum of four words, each with its weight. A word's upper half counts in the lower too: alone it would be lost
    but for as many bits as it has."""

    def build(context, builder, signature, args):
        words = _load(builder, args[0])
        words = builder.xor(words, builder.lshr(words, ir.Constant(_WORDS, [32] * 4)))
        weighed = builder.mul(words, _load(builder, args[1]))
        kind = ir.FunctionType(ir.IntType(64), [_WORDS])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.add.v4i64"), [weighed]
        )

    return types.uint64(types.uint64, types.uint64), build


@intrinsic
def alike(_, one, other):
    """Whether 32 bytes are the same at two addresses."""

    def build(context, builder, signature, args):
        differ = builder.icmp_unsigned("!=", _load(builder, args[0]), _load(builder, args[1]))
        return builder.icmp_unsigned("==", builder.bitcast(differ, _BITS), _BITS(0))

    return types.boolean(types.uint64, types.uint64), build
