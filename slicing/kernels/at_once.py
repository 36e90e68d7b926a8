"""A row into all words of its cell at once; some rows of one cell at once, or of cells side by side."""

from functools import partial
from itertools import pairwise

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slicing.kernels.guard import within

_WORD = ir.IntType(64)
_WORDS, _FLOATS, _PAIR = ir.VectorType(_WORD, 4), ir.VectorType(ir.DoubleType(), 4), ir.VectorType(_WORD, 2)
_LINE, _FLOAT_LINE = ir.VectorType(_WORD, 8), ir.VectorType(ir.DoubleType(), 8)
_TOP = (1 << 63) - 1
_LANES = 8 if get_host_cpu_features().get("avx512f") else 4  # as a register has: twice as many take 1.4 times as long


@intrinsic
def add_basic_f(_, cells, c, bits):
    """The float of these bits into cell ``c``: count, sum f, ~min key, max key, aligned to 32 bytes. Returns the count.

    A load, an operation on all four words for each of the three, and a store, where LLVM makes four of each from plain
    code: 1.6 -> 0.8 ns a row at 1000 cells, 3.4 -> 1.2 at 100 k. The minimum is kept as its complement, which makes it
    a maximum too. NaN adds to the sum, and is compared as what the cell holds.
    """

    def build(context, builder, signature, args):
        def each(*words):
            return ir.Constant(_WORDS, list(words))

        def joined(one, other, *lanes):
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 4), list(lanes)))

        array = context.make_array(signature.args[0])(context, builder, args[0])
        within(context, builder, array, args[1], _WORD(1))
        place = builder.gep(builder.bitcast(array.data, _WORDS.as_pointer()), [args[1]])
        held = builder.load(place, align=32)
        first = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), args[2], ir.IntType(32)(0))
        row = joined(first, first, 0, 0, 0, 0)
        value = builder.bitcast(row, _FLOATS)
        key = builder.xor(row, builder.and_(builder.ashr(row, each(63, 63, 63, 63)), each(*[(1 << 63) - 1] * 4)))
        key = builder.xor(key, each(0, 0, -1, 0))
        key = builder.select(builder.fcmp_unordered("uno", value, value), held, key)
        largest = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_WORDS, [_WORDS, _WORDS]), "llvm.smax.v4i64"
        )
        extremes = builder.call(largest, [held, key])
        counted = builder.add(held, each(1, 0, 0, 0))
        summed = builder.bitcast(builder.fadd(builder.bitcast(held, _FLOATS), value), _WORDS)
        builder.store(joined(joined(counted, summed, 0, 5, 2, 3), extremes, 0, 1, 6, 7), place, align=32)
        return builder.extract_element(counted, ir.IntType(32)(0))

    return types.int64(cells, types.uint64, types.int64), build


@intrinsic
def widen_span(_, spans, c, time):
    """A time into span ``c``: ~first, last, both of them maxima. 0.8 -> 0.4 ns a row at 1000 cells."""

    def build(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        within(context, builder, array, args[1], _WORD(1))
        place = builder.gep(builder.bitcast(array.data, _PAIR.as_pointer()), [args[1]])
        first = builder.insert_element(ir.Constant(_PAIR, ir.Undefined), args[2], ir.IntType(32)(0))
        row = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), 2), [0, 0]))
        row = builder.xor(row, ir.Constant(_PAIR, [-1, 0]))
        largest = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_PAIR, [_PAIR, _PAIR]), "llvm.smax.v2i64"
        )
        builder.store(builder.call(largest, [builder.load(place, align=8), row]), place, align=8)
        return context.get_dummy_value()

    return types.void(spans, types.uint64, types.int64), build


@intrinsic
def short_run(_, bits, first, size):
    """Sum, smallest and largest key of the floats ``bits[first : first + size]``, a cache line at a time.

    Lanes that are no rows are masked, as in no plain loop: 20 rows 0.50 -> 0.35 ns each, 5 rows 1.5 -> 0.86.
    """

    def build(context, builder, signature, args):
        def each(*words):
            return ir.Constant(_LINE, list(words) * (8 // len(words)))

        def called(name, result, *given, **flags):
            kind = ir.FunctionType(result, [value.type for value in given])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given, **flags)

        def spread(word):
            lane = builder.insert_element(ir.Constant(_LINE, ir.Undefined), word, ir.IntType(32)(0))
            return builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))

        array, size = context.make_array(signature.args[0])(context, builder, args[0]), args[2]
        within(context, builder, array, args[1], size)
        run, sizes = builder.gep(array.data, [args[1]]), spread(size)
        start = ir.Constant(_FLOAT_LINE, [0.0] * 8), each(_TOP), each(~_TOP)
        total, low, high = (cgutils.alloca_once_value(builder, value) for value in start)
        with cgutils.for_range_slice(builder, _WORD(0), size, _WORD(8), _WORD) as (at, _):
            held = builder.icmp_signed("<", builder.add(spread(at), each(*range(8))), sizes)
            line = builder.bitcast(builder.gep(run, [at]), _LINE.as_pointer())
            row = called("llvm.masked.load.v8i64.p0", _LINE, line, ir.IntType(32)(8), held, each(0))
            key = builder.xor(row, builder.and_(builder.ashr(row, each(63)), each(_TOP)))
            builder.store(builder.fadd(builder.load(total), builder.bitcast(row, _FLOAT_LINE)), total)
            for extreme, name, none in (low, "smin", _TOP), (high, "smax", ~_TOP):
                rows = builder.select(held, key, each(none))
                builder.store(called(f"llvm.{name}.v8i64", _LINE, builder.load(extreme), rows), extreme)
        found = [
            called(
                "llvm.vector.reduce.fadd.v8f64",
                ir.DoubleType(),
                ir.DoubleType()(0.0),
                builder.load(total),
                fastmath=("reassoc",),
            ),
            called("llvm.vector.reduce.smin.v8i64", _WORD, builder.load(low)),
            called("llvm.vector.reduce.smax.v8i64", _WORD, builder.load(high)),
        ]
        return context.make_tuple(builder, signature.return_type, found)

    return types.Tuple((types.float64, types.int64, types.int64))(bits, types.int64, types.int64), build


@intrinsic
def rows_between(_, t, x, edges):
    """For each edge and the next one the rows with edge <= t < next: how many, their sum, the keys of the least and the
    largest, NaN left out (of none: those of inf and -inf). Which zero is the least or the largest, chance tells.

    Floats are compared, as AVX2 has no smaller of two words: one slot 1.6 -> 0.4 ns a row.
    """
    words, values, lane = (ir.VectorType(kind, _LANES) for kind in (_WORD, ir.DoubleType(), ir.IntType(32)))
    slot = types.Tuple((types.int64, types.float64, types.int64, types.int64))

    def build(context, builder, signature, args):
        def each(number, kind=values):
            return ir.Constant(kind, [number] * _LANES)

        def spread(word):
            first = builder.insert_element(ir.Constant(words, ir.Undefined), word, ir.IntType(32)(0))
            return builder.shuffle_vector(first, first, each(0, lane))

        def called(name, result, *given, **flags):
            kind = ir.FunctionType(result, [value.type for value in given])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given, **flags)

        def beyond(sign, one, other):  # NaN is never
            return builder.select(builder.fcmp_ordered(sign, one, other), one, other)

        arrays = [
            context.make_array(kind)(context, builder, a) for kind, a in zip(signature.args[:2], args[:2], strict=True)
        ]
        size = cgutils.unpack_tuple(builder, arrays[0].shape)[0]
        within(context, builder, arrays[1], _WORD(0), size)
        bounds = [spread(edge) for edge in cgutils.unpack_tuple(builder, args[2])]
        start = each(0, words), each(0.0), each(float("inf")), each(float("-inf"))
        found = [[cgutils.alloca_once_value(builder, word) for word in start] for _ in bounds[1:]]

        def add(at, some):
            rows = []
            for array, kind, name, none in zip(arrays, (words, values), ("i64", "f64"), (_TOP, 0.0), strict=True):
                line = builder.bitcast(builder.gep(array.data, [at]), kind.as_pointer())
                name = f"llvm.masked.load.v{_LANES}{name}.p0"
                rows.append(called(name, kind, line, ir.IntType(32)(8), some, each(none, kind)))
            after = [builder.icmp_signed("<=", bound, rows[0]) for bound in bounds]
            for (count, total, low, high), (begun, over) in zip(found, pairwise(after), strict=True):
                held = builder.and_(begun, builder.not_(over))
                builder.store(builder.sub(builder.load(count), builder.sext(held, words)), count)
                row = builder.select(held, rows[1], each(0.0))
                builder.store(builder.fadd(builder.load(total), row), total)
                row = builder.select(held, rows[1], each(float("nan")))
                builder.store(beyond("<", row, builder.load(low)), low)
                builder.store(beyond(">", row, builder.load(high)), high)

        whole = builder.and_(size, _WORD(-_LANES))
        with cgutils.for_range_slice(builder, _WORD(0), whole, _WORD(_LANES), _WORD) as (at, _):
            add(at, each(1, ir.VectorType(ir.IntType(1), _LANES)))
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", whole, size)):
            left = spread(builder.sub(size, whole))
            add(whole, builder.icmp_signed(">", left, ir.Constant(words, list(range(_LANES)))))

        def folded(vector, operation):
            lanes = [builder.extract_element(builder.load(vector), ir.IntType(32)(i)) for i in range(_LANES)]
            while len(lanes) > 1:
                lanes = [operation(one, other) for one, other in zip(lanes[::2], lanes[1::2], strict=True)]
            return lanes[0]

        def key(sign, vector):
            word = builder.bitcast(folded(vector, partial(beyond, sign)), _WORD)
            return builder.xor(word, builder.and_(builder.ashr(word, _WORD(63)), _WORD(_TOP)))

        each_slot = [
            (folded(count, builder.add), folded(total, builder.fadd), key("<", low), key(">", high))
            for count, total, low, high in found
        ]
        slots = [context.make_tuple(builder, slot, words) for words in each_slot]
        return context.make_tuple(builder, signature.return_type, slots)

    return types.UniTuple(slot, len(edges) - 1)(t, x, edges), build
