"""The order of many values that are no words.

Texts are sorted by the first bytes that they do not share, then what ties by more; decimals by their halves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.columns.bits import as_numpy, buffer
from slicing.columns.order import changes, order_by
from slicing.columns.types import has_offsets
from slicing.kernels.text_order import MORE, next_words
from slicing.system.arrays import Array, Ints, Mask, read_only

FEW_TEXTS = 1 << 12  # up to so many, Arrow sorts them before a kernel is loaded
_SIGN = np.int64(-(2**63))  # orders unsigned words as signed ones
_SIZE = 0xF  # the bits of a word that say how many bytes it has


def in_order(values: pa.Array) -> tuple[Ints, Mask]:
    """The order of values without nulls, and which of them differ, in this order, from the one before.

    63,000 texts of 11 bytes: 9.6 -> 2.1 ms. A million decimals: 330 -> 30."""
    if has_offsets(values.type) and len(values) > FEW_TEXTS:
        _, offsets, data = values.buffers()
        narrow = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
        ends = np.frombuffer(offsets, np.int32 if narrow else np.int64)[values.offset :][: len(values) + 1]
        return order_of_texts(ends[:-1], ends[1:], np.frombuffer(data or b"", np.uint8))
    if pa.types.is_decimal128(values.type):
        return _of_decimals(values)
    order = pc.sort_indices(values)
    ordered, new = values.take(order), np.ones(len(values), np.bool_)
    new[1:] = as_numpy(pc.not_equal(ordered[1:], ordered[:-1]))
    return as_numpy(order).astype(np.int64), new


def or_digits(values: pa.Array) -> pa.Array:
    """The values, or, for decimals of a negative scale, which Arrow does not compare, their digits."""
    if not pa.types.is_decimal128(values.type) or values.type.scale >= 0:
        return values
    digits = pa.decimal128(values.type.precision, 0)
    return pa.Array.from_buffers(digits, len(values), values.buffers(), values.null_count, values.offset)


def _of_decimals(values: pa.Array) -> tuple[Ints, Mask]:
    low, high = (np.ascontiguousarray(half) for half in buffer(values, np.dtype(np.int64), 2).reshape(-1, 2).T)
    if (high == low >> 63).all():  # they fit in one word each
        order = order_by(low)
        return order, changes(low.take(order))
    order = order_by(low ^ _SIGN, high)
    return order, changes(low.take(order), high.take(order))


def order_of_texts(begin: Array, end: Array, data: Array) -> tuple[Ints, Mask]:
    """As :func:`in_order`, of the texts ``data[begin[i] : end[i]]``."""
    begin, end = (read_only(ends.astype(np.int64)) for ends in (begin, end))
    data = read_only(data)
    order, new = np.empty(begin.size, np.int64), np.ones(begin.size, np.bool_)
    places = rows = np.arange(begin.size)  # of the texts that tie, in the order; these texts, group by group
    first, depth = np.array([0, rows.size]), np.zeros(1, np.int64)
    while rows.size:
        words, group = np.empty(rows.size, np.int64), np.arange(depth.size).repeat(np.diff(first))
        next_words(begin, end, data, rows, first, depth, words)
        step = order_by(words, group)
        rows, words = rows.take(step), words.take(step)
        order[places], new[places] = rows, changes(words, group)
        first = np.append(new[places].nonzero()[0], rows.size)
        size, at = np.diff(first), first[:-1]
        tied = (size > 1) & (words[at] & _SIZE == MORE)
        left, depth = tied.repeat(size), depth[group[at[tied]]]
        places, rows = places[left], rows[left]
        first = np.append(0, size[tied].cumsum())
    return order, new
