"""Text and other bytes, 32 at a time, at any address: masked, hashed, compared."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slicing.kernels.guard import inside
from slicing.kernels.kernel import kernel
from slicing.kernels.on_stack import on_stack
from slicing.kernels.prefetch import prefetch

PIECE = 32
TWICE = 2 * PIECE  # bytes, so that a piece can be read from any byte of the first half
SOON = 32  # texts ahead that are prefetched, and once more as far where they begin
_WORDS, _BITS = ir.VectorType(ir.IntType(64), 4), ir.IntType(4)


def _load(builder, address):
    words = builder.load(builder.inttoptr(address, _WORDS.as_pointer()))
    words.align = 1
    return words


@intrinsic
def keep(_, source, mask, into):
    """Write 32 bytes; bytes outside the mask become zero."""

    def build(context, builder, signature, args):
        kept = builder.and_(_load(builder, args[0]), _load(builder, args[1]))
        builder.store(kept, builder.inttoptr(args[2], _WORDS.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), build


@intrinsic
def _copy(_, source, into):
    """Copy 32 bytes between any addresses."""

    def build(context, builder, signature, args):
        builder.store(_load(builder, args[0]), builder.inttoptr(args[1], _WORDS.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), build


@intrinsic
def weigh(_, source, weights):
    """The weighted sum of four words. The upper half of each word is first mixed into its lower half: otherwise most of
    its bits would be lost in the product."""

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
    """Whether the 32 bytes at two addresses are equal."""

    def build(context, builder, signature, args):
        differ = builder.icmp_unsigned("!=", _load(builder, args[0]), _load(builder, args[1]))
        return builder.icmp_unsigned("==", builder.bitcast(differ, _BITS), _BITS(0))

    return types.boolean(types.uint64, types.uint64), build


@intrinsic
def swapped(_, word):
    """The bytes of a word in reverse: words of bytes then order as the bytes do."""

    def build(context, builder, signature, args):
        return builder.bswap(args[0])

    return types.uint64(types.uint64), build


@intrinsic
def word_at(_, source):
    """8 bytes from any address, as a number that orders as they do."""

    def build(context, builder, signature, args):
        word = builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return builder.bswap(word)

    return types.uint64(types.uint64), build


@intrinsic
def _write(_, word, into):
    """Write 8 bytes at any address."""

    def build(context, builder, signature, args):
        builder.store(args[0], builder.inttoptr(args[1], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), build


@kernel(error_model="numpy")
def take_texts(number, words, lengths, text, ends):
    """Concatenate texts by their numbers; also write where each text ends, from 0 on.

    A text is a row of words. Its last word may write up to 7 bytes into the next text: copying 8 bytes at a time takes
    1.4 ns for a name of 4 bytes, 6 by Arrow.
    """
    at, into = np.int64(0), np.uint64(text.ctypes.data)
    ends[0] = 0
    for i in range(number.size):
        name = np.uint64(number[i])
        inside(text, at, 8)
        _write(words[name, 0], into + np.uint64(at))
        for w in range(8, lengths[name], 8):
            inside(text, at + w, 8)
            _write(words[name, np.uint64(w >> 3)], into + np.uint64(at + w))
        at += lengths[name]
        ends[i + 1] = at


@kernel(error_model="numpy")
def ends_of_texts(row, starts, ends):
    """Where each of some texts ends if they lie one after the other, from 0 on; row -1 has none. Returns the last end,
    which ``ends`` may be too narrow for."""
    at, last = np.int64(0), np.uint64(row.size - 1)
    ends[0] = 0
    for i in range(row.size):
        prefetch(starts, np.uint64(row[min(np.uint64(i + SOON), last)]))
        name = np.uint64(row[np.uint64(i)])
        if row[np.uint64(i)] >= 0:
            inside(starts, row[np.uint64(i)] * starts.itemsize, 2 * starts.itemsize)
            at += np.int64(starts[name + np.uint64(1)]) - np.int64(starts[name])
        ends[np.uint64(i + 1)] = at
    return at


@kernel(error_model="numpy")
def copy_texts(row, starts, data, ends, text):
    """Write texts one after the other, where :func:`ends_of_texts` says. The last piece of a text may write up to 31
    bytes into the next. 1 M of 11 bytes out of as many, in any order: 61 (Arrow) -> 23 ns each, out of 100 k 12 -> 8.
    """
    tail, cut = on_stack(TWICE, np.uint8), max(data.size - PIECE, 0)
    for b in range(cut, data.size):
        tail[b - cut] = data[b]
    source, spare, into = np.uint64(data.ctypes.data), np.uint64(tail.ctypes.data) - np.uint64(cut), text.ctypes.data
    last = np.uint64(row.size - 1)
    for i in range(row.size):
        prefetch(starts, np.uint64(row[min(np.uint64(i + 2 * SOON), last)]))
        coming = row[min(np.uint64(i + SOON), last)]
        if coming >= 0:
            prefetch(data, np.uint64(starts[np.uint64(coming)]))
        to = np.int64(ends[np.uint64(i)])
        size = np.int64(ends[np.uint64(i + 1)]) - to
        if size == 0:
            continue
        at = np.int64(starts[np.uint64(row[np.uint64(i)])])
        inside(data, at, size)
        for b in range(0, size, PIECE):
            inside(text, to + b, PIECE)
            near = source if at + b + PIECE <= data.size else spare
            _copy(near + np.uint64(at + b), np.uint64(into) + np.uint64(to + b))
