"""Sorting by several columns, fast if they are small integers or nearly in order, as codes, slices and times are; and
runs of equal values in sorted columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slicing.kernels.counting import counting_order
from slicing.kernels.rows import interleave, stragglers
from slicing.system.arrays import Array, Codes, Ints, Mask, Unsigned

RUN = 64  # with ascending runs of so many rows on average, merging is fastest
EXCHANGES = 8  # times that neighbours are exchanged before another sort is faster
COUNTED = 1 << 15  # from so many numbers of 16 bits on a kernel counts them
MANY, SAMPLE = 1 << 12, 64  # with MANY rows or more, a key may be unique if SAMPLE sampled rows are
FEW, FEW_ROWS = 1 << 9, 1 << 10  # so many numbers, or rows of several keys, numpy sorts in one call


def is_sorted(key: Ints | Codes) -> bool:
    """Whether no number is smaller than the one before it."""
    return bool((key[1:] >= key[:-1]).all())


def order_with_ties(key: Ints, finer: Callable[[Ints], Sequence[Ints]]) -> Ints:
    """The order by a key and, where it is equal, by finer keys of these rows, as for ``order_by``."""
    order = np.arange(key.size) if is_sorted(key) else stable_order(key)
    ordered = key.take(order)
    tied = np.zeros(key.size + 1, np.bool_)
    tied[1:-1] = ordered[1:] == ordered[:-1]
    tied = tied[1:] | tied[:-1]
    if tied.any():
        rows = order[tied]
        order[tied] = rows[order_by(*finer(rows), ordered[tied])]
    return order


def order_by(*keys: Ints) -> Ints:
    """Like ``np.lexsort``: the last key counts most, equal rows keep their order (25 against 80 ns a row)."""
    order = sorting(*keys)
    return np.arange(keys[0].size) if order is None else order


def sorting(*keys: Ints) -> Ints | None:
    """The order by ``keys`` as ``np.lexsort``: the last key counts most. None if rows are in order.

    Of few rows most of the time is calls of numpy: 16 rows by four keys 70 -> 5 us.
    """
    if keys[0].size <= FEW_ROWS:
        few = np.lexsort(keys)
        return None if is_sorted(few) else few
    if len(keys) > 1 and (alone := _by_one(keys[-1])) is not None:
        return alone
    order = None
    for key in keys:
        key = key if order is None else key.take(order)
        if is_sorted(key):
            continue
        step = stable_order(key)
        order = step if order is None else order.take(step)
    return order


def _by_one(key: Ints) -> Ints | None:
    """The order by a single key of many rows, if all its values differ; otherwise None."""
    if key.size < MANY or np.unique(key[:: key.size // SAMPLE]).size < SAMPLE or is_sorted(key):
        return None
    order = stable_order(key)
    ordered = key[order]
    return order if (ordered[1:] > ordered[:-1]).all() else None


def stable_order(key: Ints | Codes) -> Ints:
    """The stable order of integers: of 16 numbers 12 -> 1 us by one call of numpy, of 1024 it is slower."""
    if key.size <= FEW:
        few: Ints = key.argsort(kind="stable")
        return few
    low, high = (int(key.min()), int(key.max())) if key.size else (0, 0)
    number = key - low
    if high - low >= 1 << 32:
        return _by_words(number.view(np.uint64), (high - low).bit_length())
    order = _by_counting(number.astype(np.uint16), min(high - low, (1 << 16) - 1))
    if high - low >= 1 << 16:
        order = order.take(_by_counting((number >> 16).astype(np.uint16).take(order), (high - low) >> 16))
    return order


def _by_counting(number: Array, largest: int) -> Ints:
    """The stable order of numbers of 16 bits. Numpy counts bytes; a kernel that counts whole numbers is faster for many
    of them: 2 M numbers below 2000 33 -> 13 ms."""
    if number.size < max(COUNTED, largest):
        return number.argsort(kind="stable")
    order = np.empty(number.size, np.int64)
    counting_order(number, np.zeros(largest + 2, np.int64), order)
    return order


def _by_words(number: Unsigned, bits: int) -> Ints:
    """The stable order of integers of so many bits, sorted as words that hold a piece of the number and its place.

    Numpy sorts such words with SIMD: a million random ones 120 -> 10 ms. Of numbers that do not fit one word with their
    place, the highest bits mostly differ: 16 ms, or 40 where they do not.
    """
    if RUN * np.count_nonzero(number[1:] < number[:-1]) < number.size:  # numpy merges such runs in a pass or two
        return np.argsort(number, kind="stable")
    places = (number.size - 1).bit_length()
    width = 64 - places
    if bits > width:
        order = _by_word(number >> np.uint64(bits - width), places)
        if _settled(order, number.take(order)):
            return order
    order = _by_word(number, places)
    for shift in range(width, bits, width):
        order = order.take(_by_word(number.take(order) >> np.uint64(shift), places))
    return order


def _settled(order: Ints, ordered: Unsigned) -> bool:
    """Exchange neighbours that are not in order, in both arrays; whether that was enough, as it is for a few."""
    for _ in range(EXCHANGES):
        wrong = np.flatnonzero(ordered[1:] < ordered[:-1])
        if not wrong.size:
            return True
        if wrong.size * RUN > order.size:
            return False
        first = wrong[np.append(True, wrong[1:] > wrong[:-1] + 1)]
        for column in (order, ordered):
            column[first], column[first + 1] = column[first + 1], column[first]
    return False


def _by_word(number: Unsigned, places: int) -> Ints:
    """The stable order of integers by those of their lowest bits that fit a word beside ``places`` bits."""
    words: Unsigned = number << np.uint64(places)
    words |= np.arange(words.size, dtype=np.uint64)
    words.sort()
    words &= np.uint64((1 << places) - 1)
    order: Ints = words.view(np.int64)
    return order


def order_of_most(time: Ints) -> tuple[Ints, Ints]:
    """The stable order of times that mostly ascend, and the times in this order.

    Only the stragglers are sorted, then inserted between the others: 10 against 40 ns a row, with one in five out of
    order."""
    steady, late = np.empty((2, time.size), np.int64)
    count = int(stragglers(time, steady, late))
    late = late[:count]
    if 2 * count > time.size:
        order = stable_order(time)
        return order, time.take(order)
    late_time = time.take(late)
    by_time = stable_order(late_time)
    order, ordered = np.empty(time.size, np.int64), np.empty(time.size, np.int64)
    interleave(time, steady[: time.size - count], late.take(by_time), late_time.take(by_time), order, ordered)
    return order, ordered


def distinct(values: Ints) -> Ints:
    """The distinct values, ascending; ``np.unique`` uses a hash table and is ten times slower."""
    if values.size <= 1:
        return values
    if values.size > MANY:  # neighbours are often equal: the next edges of 365 k rows 4 -> 0.7 ms
        values = values[begins(values)]
    values = np.sort(values)
    new = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and the number of each value among them: ``np.unique`` sorts more slowly, a
    million random ones 90 -> 30 ms."""
    order = stable_order(values)
    ordered = values.take(order)
    new = changes(ordered)
    number = np.empty(values.size, np.int64)
    number[order] = np.cumsum(new) - 1
    return ordered[new], number


def begins(ordered: Ints | Codes) -> Ints:
    """The position where each run of equal values begins."""
    return np.flatnonzero(changes(ordered))


def changes(column: Array, *others: Array) -> Mask:
    """Which rows differ in any of these columns from the previous row; the first row always does."""
    new = np.ones(column.size, np.bool_)
    np.not_equal(column[1:], column[:-1], out=new[1:])
    for other in others:
        new[1:] |= other[1:] != other[:-1]
    return new


def alike(number: int | np.int64, count: int) -> Ints:
    """A read-only array of ``count`` equal numbers in 8 bytes of memory: 1 us, while np.broadcast_to takes 7."""
    one = np.array([number], np.int64)
    one.setflags(write=False)
    return np.ndarray(count, np.int64, one, strides=(0,))


def all_alike(column: Ints) -> bool:
    """Whether all of at least one number are equal."""
    return column.strides == (0,) or bool(column[0] == column[-1] and (column == column[0]).all())


def picked(column: Ints, index: Array) -> Ints:
    """``column.take(index)``. Equal numbers made by :func:`alike` stay such an array."""
    if column.strides != (0,) or not column.size:
        return column.take(index)
    return column if index.size == column.size else alike(column[0], index.size)


def none() -> Ints:
    """An empty array: the initial value of a field."""
    return _NONE


_NONE: Ints = np.empty(0, np.int64)
_NONE.setflags(write=False)


def ranges(first: Ints, count: Ints) -> Ints:
    """``first[i], first[i] + 1 ...``, ``count[i]`` numbers, for each i in turn."""
    if first.size == 1:
        return np.arange(int(first[0]), int(first[0]) + int(count[0]))
    return np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))


def progression(first: int, last: int, step: int) -> Ints:
    """``first, first + step .. last``. The stop is a whole number of steps away, because ``np.arange`` divides in
    float64: a stop of ``last + 1`` lost the last number of spans from 2**53 on (104 days of nanoseconds)."""
    first, step = int(first), int(step)
    return np.arange(first, first + ((int(last) - first) // step + 1) * step, step)


def inverse(order: Array) -> Ints:
    """The place of each position in an order."""
    positions = np.empty(order.size, np.int64)
    positions[order] = np.arange(order.size)
    return positions
