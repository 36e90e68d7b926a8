"""SIMD primitives: add a row to all words of its cell at once; reduce rows of one cell or of adjacent cells."""

from functools import partial
from itertools import pairwise

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from slicing.kernels.guard import within
from slicing.kernels.prefetch import ON_STREAMS, STREAM, hint

_WORD = ir.IntType(64)
_WORDS, _FLOATS, _PAIR = ir.VectorType(_WORD, 4), ir.VectorType(ir.DoubleType(), 4), ir.VectorType(_WORD, 2)
_TOP = (1 << 63) - 1
_LANES = 8 if get_host_cpu_features().get("avx512f") else 4  # as a register has: twice as many take 1.4 times as long
_TIMES, _ROWS = ir.VectorType(_WORD, _LANES), ir.VectorType(ir.DoubleType(), _LANES)


@intrinsic
def add_basic_f(_, cells, c, bits):
    """Add the float with these ``bits`` to cell ``c``: count, sum f, ~min key, max key, aligned to 32 bytes.

    Returns the count. One load, three operations on all four words, and one store; from plain code LLVM makes four of
    each: 1.6 -> 0.8 ns a row at 1000 cells, 3.4 -> 1.2 at 100 k. The minimum is kept as its complement, so that it is a
    maximum too. NaN adds to the sum and leaves the extremes as they are.
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
    """Extend span ``c`` by a time: (~first, last), both maxima. 0.8 -> 0.4 ns a row at 1000 cells."""

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


def _each(number, kind=_ROWS):
    return ir.Constant(kind, [number] * _LANES)


def _beyond(builder, sign, one, other):  # false for NaN
    return builder.select(builder.fcmp_ordered(sign, one, other), one, other)


def _spread(builder, word):
    first = builder.insert_element(ir.Constant(_TIMES, ir.Undefined), word, ir.IntType(32)(0))
    return builder.shuffle_vector(first, first, _each(0, ir.VectorType(ir.IntType(32), _LANES)))


def _folded(builder, lanes, operation):
    lanes, half = builder.load(lanes), _LANES // 2
    while half:
        parts = [ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(i, i + half))) for i in (0, half)]
        lanes = operation(*(builder.shuffle_vector(lanes, lanes, part) for part in parts))
        half //= 2
    return builder.extract_element(lanes, ir.IntType(32)(0))


class _Found:
    """Count, sum, least and largest of rows, kept lane by lane; of floats, with NaN left out of the extremes.

    Floats are compared as floats, as AVX2 has no minimum of two words: one slot 1.6 -> 0.4 ns a row, runs of 20 0.8 ->
    0.47.
    """

    def __init__(self, builder):
        start = _each(0, _TIMES), _each(0.0), _each(float("inf")), _each(float("-inf"))
        self._words = [cgutils.alloca_once_value(builder, word) for word in start]

    def add(self, builder, row, held=None):
        count, total, low, high = self._words
        compared = row
        if held is not None:
            builder.store(builder.sub(builder.load(count), builder.sext(held, _TIMES)), count)
            row, compared = (builder.select(held, row, _each(none)) for none in (0.0, float("nan")))
        builder.store(builder.fadd(builder.load(total), row), total)
        for extreme, sign in (low, "<"), (high, ">"):
            builder.store(_beyond(builder, sign, compared, builder.load(extreme)), extreme)

    def together(self, builder):
        """Count, sum, and the keys of the least and the largest (of no rows: the keys of inf and -inf)."""
        operations = builder.add, builder.fadd, partial(_beyond, builder, "<"), partial(_beyond, builder, ">")
        words = [_folded(builder, *each) for each in zip(self._words, operations, strict=True)]
        for i in 2, 3:
            word = builder.bitcast(words[i], _WORD)
            words[i] = builder.xor(word, builder.and_(builder.ashr(word, _WORD(63)), _WORD(_TOP)))
        return words


def _by_lanes(builder, size, add):
    """Call ``add(at, held)`` for lanes of rows; ``held`` masks the rows of the last lanes, None for full lanes."""
    whole = builder.and_(size, _WORD(-_LANES))
    with cgutils.for_range_slice(builder, _WORD(0), whole, _WORD(_LANES), _WORD) as (at, _):
        add(at, None)
    with cgutils.if_unlikely(builder, builder.icmp_signed("<", whole, size)):  # always masked: 0.95 -> 1.5 ns a row
        left = _spread(builder, builder.sub(size, whole))
        add(whole, builder.icmp_signed(">", left, ir.Constant(_TIMES, list(range(_LANES)))))


def _loaded(builder, data, at, kind, held, none):
    if ON_STREAMS:
        hint(builder, data, builder.mul(builder.add(at, _WORD(STREAM)), _WORD(8)))
    line = builder.bitcast(builder.gep(data, [at]), kind.as_pointer())
    if held is None:
        return builder.load(line, align=8)
    given = line, ir.IntType(32)(8), held, _each(none, kind)
    name = f"llvm.masked.load.v{_LANES}{'i64' if kind is _TIMES else 'f64'}.p0"
    load = ir.FunctionType(kind, [value.type for value in given])
    return builder.call(cgutils.get_or_insert_function(builder.module, load, name), given)


@intrinsic
def float_run(_, x, first, size):
    """Sum, keys of the least and the largest (without NaN; of no rows: the keys of inf and -inf) of the floats
    ``x[first : first + size]``, and whether none has a sign. If one has, it is undefined which zero is an extreme."""

    def build(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        within(context, builder, array, args[1], args[2])
        data, found = builder.gep(array.data, [args[1]]), _Found(builder)
        signs = cgutils.alloca_once_value(builder, _each(0, _TIMES))

        def add(at, held):
            row = _loaded(builder, data, at, _ROWS, held, 0.0)
            found.add(builder, row, held)
            builder.store(builder.or_(builder.load(signs), builder.bitcast(row, _TIMES)), signs)

        _by_lanes(builder, args[2], add)
        unsigned = builder.icmp_signed(">=", _folded(builder, signs, builder.or_), _WORD(0))
        return context.make_tuple(builder, signature.return_type, [*found.together(builder)[1:], unsigned])

    return types.Tuple((types.float64, types.int64, types.int64, types.boolean))(x, types.int64, types.int64), build


@intrinsic
def rows_between(_, t, x, edges):
    """For each edge and the next one, the rows with edge <= t < next: their number, and results as of ``float_run``."""
    slot = types.Tuple((types.int64, types.float64, types.int64, types.int64))

    def build(context, builder, signature, args):
        times, floats = (context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 1))
        size = cgutils.unpack_tuple(builder, times.shape)[0]
        within(context, builder, floats, _WORD(0), size)
        bounds = [_spread(builder, edge) for edge in cgutils.unpack_tuple(builder, args[2])]
        found = [_Found(builder) for _ in bounds[1:]]

        def add(at, held):
            time = _loaded(builder, times.data, at, _TIMES, held, _TOP)
            row = _loaded(builder, floats.data, at, _ROWS, held, 0.0)
            after = [builder.icmp_signed("<=", bound, time) for bound in bounds]
            for each, (begun, over) in zip(found, pairwise(after), strict=True):
                each.add(builder, row, builder.and_(begun, builder.not_(over)))

        _by_lanes(builder, size, add)
        slots = [context.make_tuple(builder, slot, each.together(builder)) for each in found]
        return context.make_tuple(builder, signature.return_type, slots)

    return types.UniTuple(slot, len(edges) - 1)(t, x, edges), build
