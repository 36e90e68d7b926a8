"""Wait for another thread without sleeping: waking up takes 50 us."""

import os

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slicing.kernels.kernel import kernel

TURN = 4096  # looks, 1 us


@intrinsic
def _seen(_, array):
    """The first number of an array, read from memory now."""

    def build(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.load_atomic(struct.data, "acquire", 8)

    return types.int64(array), build


@intrinsic
def _give_way(_):
    """Yield to another thread that waits for this core, perhaps the awaited one."""

    def build(context, builder, signature, args):
        if hasattr(os, "sched_yield"):
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), build


@kernel
def await_change(sign, known, looks, after):
    """Look at a number until it changes, at most ``looks`` times; then ``after`` times more, unless it did at once."""
    for look in range(looks):
        if _seen(sign) != known:
            for _ in range(after if look else np.int64(0)):
                _seen(sign)
            return
        if look % TURN == TURN - 1:
            _give_way()
