"""How the built-in aggregates of fixed size are bound to a column's type.

A binder takes an ``Aggregate`` and the types of columns. It returns a ``BoundAggregate``: what the aggregate keeps in a
slice, a few words, and how its answer is computed from them. The table at the end registers all binders by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, BoundAggregate, Pools, define
from slicing.aggregates.arithmetic import Lowered
from slicing.aggregates.totals import Total
from slicing.cells.blocks import width
from slicing.cells.lanes import Feed, Lane
from slicing.columns import values as v
from slicing.columns.arrow_out import array_of
from slicing.columns.types import decoded
from slicing.columns.values import (
    BOOL,
    DECIMAL,
    DURATION,
    FLOAT,
    INTEGER,
    NESTED,
    NUMERIC,
    RANKED,
    TIME,
    UNSIGNED,
    ValueType,
)
from slicing.kernels import combine as kinds
from slicing.system.arrays import Floats, Ints, Mask, Unsigned


def _lane(agg: Aggregate, kind: int, *feeds: Feed) -> Lane:
    return Lane(kind, feeds, agg.flag)


def _values(agg: Aggregate, value: ValueType) -> Lane:
    """The shared lane of a column: count, sum (if it has one), min and max."""
    if value.family == FLOAT:
        return _lane(agg, kinds.BASIC_F, Feed(agg.value_column, "float"))
    if value.family in (TIME, DURATION, RANKED) or value.ranked:
        return _lane(agg, kinds.EXTREMES, Feed(agg.value_column, "word"))
    return _lane(agg, kinds.BASIC_I, Feed(agg.value_column, "int"))


def _sums(agg: Aggregate, value: ValueType) -> tuple[Lane, ...]:
    """The lanes that hold a column's sum: two for a decimal that is wider than a word."""
    if value.family == DECIMAL and value.ranked:
        return tuple(_lane(agg, kinds.BASIC_I, Feed(agg.value_column, f"limb{k}")) for k in (0, 1))
    if value.family == DURATION:
        return (_lane(agg, kinds.BASIC_I, Feed(agg.value_column, "int")),)
    return (_values(agg, value),)


def _is_word(value: ValueType) -> bool:
    """Whether these values, and sums of few of them, are integers of a word."""
    return value.family == INTEGER or (value.family == UNSIGNED and value.type.bit_width <= 32)


ENDLESS = 1 << 16  # the float that is this power of two is infinite, or zero
COUNT_AND_SUM = frozenset(range(kinds.SUM_WORDS))  # the words of a BASIC partial that hold its count and its sum


def _count(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    feeds = () if agg.column is None else (Feed(agg.value_column, "valid"),)
    return BoundAggregate(
        (_lane(agg, kinds.COUNT, *feeds),),
        pa.int64(),
        lambda b, pools: Lowered(array_of(b[0][:, 0]), None),
        number=0,
        least=0,
    )


def _sum(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    lanes = _sums(agg, value)
    if value.family == FLOAT:

        def lower_float(b: list[Ints], pools: Pools) -> Lowered:
            return _floats(b[0], _float_sum(b[0]))

        return BoundAggregate(lanes, pa.float64(), lower_float, COUNT_AND_SUM, kinds.TOTAL)
    if value.family == DECIMAL:
        type = pa.decimal128(min(value.type.precision + 10, 38), value.type.scale)

        def lower_decimal(b: list[Ints], pools: Pools) -> Lowered:
            total, beyond = Total.of_decimals(b, value)
            valid = b[0][:, 0] > 0
            overflow = beyond | total.reaches(10**type.precision)
            return Lowered(v.decimals(total.low.view(np.int64), total.high, valid & ~overflow, type), overflow)

        return BoundAggregate(lanes, type, lower_decimal, COUNT_AND_SUM)

    unsigned = value.family == UNSIGNED

    def lower(b: list[Ints], pools: Pools) -> Lowered:
        if unsigned:
            total = Total.of(b[0], value.type == pa.uint64())
            return _whole(b[0], total.low, total.high != 0)
        sums, overflow = Total.words(b[0])
        array = array_of(sums, _empty(b[0]))
        return Lowered(array.view(value.type) if value.family == DURATION else array, overflow)

    type = value.type if value.family == DURATION else pa.uint64() if unsigned else pa.int64()
    return BoundAggregate(lanes, type, lower, COUNT_AND_SUM, kinds.TOTAL if _is_word(value) else None)


def _mean(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    lanes = _sums(agg, value)
    if value.family == FLOAT:

        def lower_float(b: list[Ints], pools: Pools) -> Lowered:
            return _floats(b[0], _divide(_float_sum(b[0]), b[0][:, 0]))

        return BoundAggregate(lanes, pa.float64(), lower_float, COUNT_AND_SUM, kinds.MEAN)
    if value.family == DECIMAL:
        p, s = value.type.precision, value.type.scale
        scale = min(s + 4, 38)
        type = pa.decimal128(min(p + 4, 38), scale)

        def lower_decimal(b: list[Ints], pools: Pools) -> Lowered:
            total, beyond = Total.of_decimals(b, value)
            count, more = np.maximum(b[0][:, 0], 1), 10 ** (scale - s)
            words = None if beyond.any() else total.times(more)
            if words is not None:
                low = words.mean(count)
                high, overflow = low >> 63, abs(low) >= 10**type.precision
            else:
                sums, count = Total.objects_of_decimals(b, value), count.astype(object)
                sign = np.where(sums < 0, -1, 1).astype(object)
                mean = (abs(sums) * more * 2 + count) // (count * 2) * sign  # half away from zero, as Spark rounds
                overflow = (abs(mean) >= 10**type.precision).astype(np.bool_)
                mean[overflow] = 0
                low, high = (mean & (2**64 - 1)).astype(np.uint64).view(np.int64), (mean >> 64).astype(np.int64)
            return Lowered(v.decimals(low, high, (b[0][:, 0] > 0) & ~overflow, type), overflow)

        return BoundAggregate(lanes, type, lower_decimal, COUNT_AND_SUM)

    if value.family == DURATION:

        def lower_duration(b: list[Ints], pools: Pools) -> Lowered:
            count = np.maximum(b[0][:, 0], 1)
            return Lowered(array_of(Total.of(b[0], False).mean(count), _empty(b[0])).view(value.type), None)

        return BoundAggregate(lanes, value.type, lower_duration, COUNT_AND_SUM)

    def lower(b: list[Ints], pools: Pools) -> Lowered:
        total = Total.of(b[0], value.type == pa.uint64())
        approximate = total.high * 2.0**64 + total.low.astype(np.float64)
        exact = total.high == total.low.view(np.int64) >> 63
        numbers = np.where(exact, total.low.view(np.int64).astype(np.float64), approximate)
        return _floats(b[0], _divide(numbers, b[0][:, 0]))

    return BoundAggregate(lanes, pa.float64(), lower, COUNT_AND_SUM, kinds.MEAN if _is_word(value) else None)


def _extreme(pick: str) -> Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]:
    def build(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        lane = _values(agg, value)
        word = width(lane.kind) - (2 if pick == "min" else 1)
        array, column = value.picked if value.coded else value.array, agg.value_column

        def lower(b: list[Ints], pools: Pools) -> Lowered:
            empty = _empty(b[0])
            words = b[0][:, word]  # for floats that are all NaN it still is the identity, NaN
            if lane.kind != kinds.BASIC_F and empty is not None:
                words = np.where(empty, 0, words)
            return Lowered(array(words, empty, pools.get(column)), None)

        return BoundAggregate((lane,), value.type, lower, frozenset({word}), word if value.as_numbers else None)

    return build


def _moment(root: bool) -> Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]:
    def build(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        lane = _lane(agg, kinds.MOMENTS, Feed(agg.value_column, "float"))
        number, least = kinds.DEVIATION if root else kinds.VARIANCE, (agg.ddof or 0) + 1

        def lower(b: list[Ints], pools: Pools) -> Lowered:
            count = b[0][:, 0]
            with np.errstate(invalid="ignore"):
                var = _divide(np.maximum(b[0].view(np.float64)[:, 2], 0.0), count - (least - 1))
                numbers = np.sqrt(var) if root else var
            return Lowered(array_of(numbers, count < least), None)

        return BoundAggregate((lane,), pa.float64(), lower, number=number, least=least)

    return build


def _product(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    if value.family in (FLOAT, DECIMAL):
        lane = _lane(agg, kinds.PRODUCT_F, Feed(agg.value_column, "float"))

        def product(b: list[Ints], pools: Pools) -> Lowered:
            return _floats(b[0], scaled(b[0].view(np.float64)[:, 1], b[0][:, 2]))

        return BoundAggregate((lane,), pa.float64(), product)
    unsigned = value.family == UNSIGNED
    lane = _lane(
        agg, kinds.PRODUCT_I, Feed(agg.value_column, "unsigned" if unsigned else "int"), Feed(agg.value_column, "float")
    )

    def lower(b: list[Ints], pools: Pools) -> Lowered:
        words, approximate = b[0][:, 1], b[0].view(np.float64)[:, 2]
        # A factor 0 makes the product 0, whatever other factors are (then inf * 0 = NaN). Otherwise the float gives the
        # magnitude, and near the limit the sign (or the top bit) of the wrapped product decides.
        zero = np.isnan(approximate) | (approximate == 0)
        if unsigned:
            overflow = (approximate > 2.0**64.5) | ((approximate > 2.0**63.5) & (words >= 0))
        else:
            overflow = (abs(approximate) > 2.0**63.5) | (
                (abs(approximate) > 2.0**62) & ((words < 0) != (approximate < 0))
            )
        words = np.where(zero, 0, words)
        return _whole(b[0], words.view(np.uint64) if unsigned else words, overflow & ~zero)

    return BoundAggregate((lane,), pa.uint64() if unsigned else pa.int64(), lower)


def _geometric_mean(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    def lower(b: list[Ints], pools: Pools) -> Lowered:
        return _floats(b[0], np.exp(_divide(_float_sum(b[0]), b[0][:, 0])))

    lane = _lane(agg, kinds.BASIC_F, Feed(agg.value_column, "log"))
    return BoundAggregate((lane,), pa.float64(), lower, COUNT_AND_SUM)


def _edge(kind: int) -> Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]:
    def build(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        column = agg.value_column

        def lower(b: list[Ints], pools: Pools) -> Lowered:
            return Lowered(value.picked(b[0][:, 4], _empty(b[0]), pools.get(column)), None)

        lane, number = _lane(agg, kind, Feed(agg.value_column, "word")), 4 if value.as_numbers else None
        return BoundAggregate((lane,), value.type, lower, frozenset({4}), number)

    return build


def _arg(pick: str) -> Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]:
    def build(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        assert agg.return_ is not None
        if not isinstance(agg.return_, str):
            return _struct(value, types, [replace(agg, return_=name) for name in agg.return_], build)
        result, returned = ValueType.of(types[agg.return_], agg.return_), agg.return_

        def lower(b: list[Ints], pools: Pools) -> Lowered:
            null = (b[0][:, 0] == 0) | (b[0][:, 6] == 0)
            return Lowered(result.picked(b[0][:, 5], null, pools.get(returned)), None)

        lane = _lane(agg, kinds.ARG, Feed(agg.value_column, pick), Feed(returned, "word"))
        return BoundAggregate((lane,), result.type, lower, number=5 if result.as_numbers else None, valid=6)

    return build


def _struct(
    value: ValueType,
    types: Mapping[str, pa.DataType],
    parts: list[Aggregate],
    build: Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate],
) -> BoundAggregate:
    """Several returned columns: one lane each. All lanes take the same row, as no two rows have the same arrival."""
    plain = {name: decoded(type) for name, type in types.items()}  # Arrow cannot join dictionaries inside of structs
    bound = [build(part, value, plain) for part in parts]
    lanes = tuple(part.lanes[0] for part in bound)
    type = pa.struct([(str(part.return_), one.type) for part, one in zip(parts, bound, strict=True)])

    def lower(b: list[Ints], pools: Pools) -> Lowered:
        arrays = [one.lower([block], pools).array for one, block in zip(bound, b, strict=True)]
        mask = None if _empty(b[0]) is None else array_of(b[0][:, 0] == 0)
        return Lowered(pa.StructArray.from_arrays(arrays, fields=list(type), mask=mask), None)

    return BoundAggregate(lanes, type, lower)


def _extreme_count(pick: str) -> Callable[[Aggregate, ValueType, Mapping[str, pa.DataType]], BoundAggregate]:
    def build(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        lane = _lane(agg, kinds.EXTREME_COUNT, Feed(agg.value_column, pick))
        return BoundAggregate((lane,), pa.int64(), lambda b, pools: Lowered(array_of(b[0][:, 2]), None))

    return build


def _m4(agg: Aggregate, value: ValueType, types: Mapping[str, pa.DataType]) -> BoundAggregate:
    builds = {"min": _extreme("min"), "max": _extreme("max"), "first": _edge(kinds.FIRST), "last": _edge(kinds.LAST)}
    parts = {name: build(agg, replace(value, coded=False), types) for name, build in builds.items()}
    lanes = tuple(dict.fromkeys(lane for part in parts.values() for lane in part.lanes))
    type = pa.struct([(name, part.type) for name, part in parts.items()])

    def lower(b: list[Ints], pools: Pools) -> Lowered:
        blocks = dict(zip(lanes, b, strict=True))
        arrays = [p.lower([blocks[lane] for lane in p.lanes], pools).array for p in parts.values()]
        empty = array_of(b[0][:, 0] == 0)
        return Lowered(pa.StructArray.from_arrays(arrays, fields=list(type), mask=empty), None)

    return BoundAggregate(lanes, type, lower)


def _float_sum(block: Ints) -> Floats:
    """The sum of a BASIC_F block, including the rounding errors of its additions."""
    words = block.view(np.float64)
    total: Floats = words[:, 1] + words[:, 2]
    return total


def _divide(a: Floats, b: Ints) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient: Floats = a / b
        return quotient


def _empty(block: Ints) -> Mask | None:
    """Which partials have no values; None if all have some."""
    counts = block[:, 0]
    return None if np.count_nonzero(counts) == counts.size else counts == 0


def scaled(part: Floats, power: Ints) -> Floats:
    """``part * 2**power``."""
    with np.errstate(over="ignore", under="ignore"):
        found: Floats = np.ldexp(part, power.clip(-ENDLESS, ENDLESS).astype(np.int32))
    return found


def _floats(block: Ints, numbers: Floats) -> Lowered:
    return Lowered(array_of(numbers, _empty(block)), None)


def _whole(block: Ints, numbers: Ints | Unsigned, overflow: Mask) -> Lowered:
    empty = block[:, 0] == 0
    overflow = overflow & ~empty
    return Lowered(array_of(numbers, empty), overflow if overflow.any() else None)


_ORDERED = (*NUMERIC, TIME, DURATION, RANKED)


define("count", _ORDERED, _count)
define("sum", (*NUMERIC, DURATION), _sum)
define("product", NUMERIC, _product)
define("min", _ORDERED, _extreme("min"))
define("max", _ORDERED, _extreme("max"))
define("mean", (*NUMERIC, DURATION), _mean)
define("geometric_mean", NUMERIC, _geometric_mean)
define("var", NUMERIC, _moment(root=False))
define("std", NUMERIC, _moment(root=True))
define("first", (*_ORDERED, NESTED), _edge(kinds.FIRST))
define("last", (*_ORDERED, NESTED), _edge(kinds.LAST))
define("argmin", _ORDERED, _arg("low"))
define("argmax", _ORDERED, _arg("high"))
define("min_count", _ORDERED, _extreme_count("low"))
define("max_count", _ORDERED, _extreme_count("high"))
define("m4", _ORDERED, _m4)
define("any", (BOOL,), _extreme("max"))
define("all", (BOOL,), _extreme("min"))
