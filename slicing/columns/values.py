"""Values: how the engine holds those of a column type, and how a result gets its type back.

The engine holds a value as a 64-bit *word* that orders as the values do, so one integer kernel serves every type.
Integers and times are their own words. Floats have an order key, small decimals their unscaled integer, strings and
large decimals their rank in a sorted pool of the values in use (``ranks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.arrow_out import array_of
from slicing.columns.bits import VALUES, bits, buffer, present
from slicing.columns.squares import SQUARES, product
from slicing.columns.taking import rows_of
from slicing.columns.types import decoded, has_offsets, is_short_decimal, result_type, storage_advice
from slicing.kernels.ranges import floats_of_keys, keys_of_floats
from slicing.system.arrays import Array, Floats, Ints, Mask
from slicing.system.lazy import lazy

TOP = np.int64(0x7FFFFFFFFFFFFFFF)
MANY_WORDS = 1 << 14  # with so many words, a kernel pays off
NOWHERE: Ints = np.empty(0, np.int64)  # positions, for no rows
SIGN_BIT = np.int64(-0x8000000000000000)
_SIGN, _REST = np.array(63), np.array(TOP)  # numpy makes such an array each time it meets a number

INTEGER, UNSIGNED, FLOAT, BOOL, DECIMAL, TIME, DURATION, RANKED, NESTED = (
    "integer",
    "unsigned integer",
    "float",
    "bool",
    "decimal",
    "time",
    "duration",
    "ranked",
    "nested",
)
NUMERIC = (INTEGER, UNSIGNED, FLOAT, BOOL, DECIMAL)


@dataclass(frozen=True)
class ValueType:
    """How the engine holds the values of one Arrow type."""

    type: pa.DataType  # the type of results
    family: str
    ranked: bool  # whether words are ranks in the column's pool
    coded: bool = False  # whether they come as a dictionary, and results can be one

    @staticmethod
    def of(type: pa.DataType, column: str) -> ValueType:
        t = pa.types
        coded, type = t.is_dictionary(type), result_type(decoded(type))
        if coded and t.is_nested(type):
            raise TypeError(
                f"column {column!r} is a dictionary of {type}, which Arrow does not decode; give its values, "
                "column.dictionary.take(column.indices)"
            )
        if t.is_boolean(type):
            return ValueType(type, BOOL, False)
        if t.is_signed_integer(type):
            return ValueType(type, INTEGER, False)
        if t.is_unsigned_integer(type):
            return ValueType(type, UNSIGNED, False)
        if t.is_floating(type):
            return ValueType(type, FLOAT, False)
        if t.is_decimal128(type) or is_short_decimal(type):
            return ValueType(type, DECIMAL, type.precision > 18)
        if t.is_timestamp(type) or t.is_date(type) or t.is_time(type):
            return ValueType(type, TIME, False)
        if t.is_duration(type):
            return ValueType(type, DURATION, False)
        if has_offsets(type) or pa.types.is_fixed_size_binary(type):
            return ValueType(type, RANKED, True, coded)
        if t.is_struct(type) or t.is_list(type) or t.is_large_list(type) or t.is_fixed_size_list(type):
            return ValueType(result_type(type), NESTED, True)
        raise TypeError(
            f"column {column!r} has type {type}, which cannot be aggregated; allowed are integers, floats, bool, "
            "decimals of up to 128 bits, dates, times, timestamps, durations, strings, binary, structs and lists"
            + storage_advice(type)
            + ("; where there are no values yet, cast it to the type they will have" if t.is_null(type) else "")
        )

    def reader(self, form: str) -> Callable[[pa.Array], Array]:
        """How a column of this type is read in a form that kernels take (``slicing.cells.lanes.Feed``)."""
        if form == "null":
            return lambda array: (~present(array)).astype(np.int64)
        if form == "float":
            return partial(buffer, dtype=self._raw) if self.type == pa.float64() else self.floats
        if form in SQUARES:
            return lambda array: _square(self.floats(array))[SQUARES.index(form)]
        if form == "log":
            return lambda array: _logarithms(self.floats(array))
        if form in ("limb0", "limb1"):
            return lambda array: self.limbs(array)[int(form[-1])]
        if form in ("unsigned", "signed") and self.type == pa.uint64():
            return lambda array: self.words(array) ^ SIGN_BIT
        if form in ("low", "high") and self.family == FLOAT:
            return lambda array: _extreme_words(self.floats(array) + 0.0, form)  # -0.0 and 0.0 tie
        return (lambda array: ~self.words(array)) if form == "high" else self.words

    def words(self, array: pa.Array) -> Ints:
        """Words that order as the values do, for a type without ranks; the word of a null may be any."""
        if self.family == FLOAT:
            return float_words(self.floats(array))
        if self.family == BOOL:
            return bits(array, VALUES).astype(np.int64)
        if pa.types.is_decimal128(self.type):
            return np.ascontiguousarray(buffer(array, self._raw, 2)[::2])
        raw = buffer(array, self._raw)
        if self.type == pa.uint64():
            return raw.view(np.int64) ^ SIGN_BIT
        return raw.astype(np.int64, copy=False)

    @lazy
    def _raw(self) -> np.dtype[Any]:
        """The type of the items in a column's memory; a wide decimal has two items for each value."""
        sort = {FLOAT: "f", UNSIGNED: "u"}.get(self.family, "i")
        return np.dtype(f"{sort}{min(_width(self.type), 8)}")

    @property
    def as_it_lies(self) -> bool:
        """Whether the words (for floats, the bits) are the column's memory itself."""
        return self.family in (INTEGER, TIME, DURATION, FLOAT) and _width(self.type) == 8

    @property
    def as_numbers(self) -> bool:
        """Whether the words are the numbers in the column's memory, of any width (for floats, the bits)."""
        return self.as_it_lies or (self.family in (INTEGER, UNSIGNED, TIME, DURATION) and _width(self.type) < 8)

    def limbs(self, array: pa.Array) -> tuple[Ints, Ints]:
        """A decimal as two words: value = high * 2**64 + (low + 2**63)."""
        raw = buffer(array, self._raw, 2)
        return raw[::2] ^ SIGN_BIT, np.ascontiguousarray(raw[1::2])

    def floats(self, array: pa.Array) -> Floats:
        """The values as float64; the float of a null may be any."""
        if self.family == FLOAT:
            raw = buffer(array, self._raw)
            return raw.astype(np.float64, copy=False)
        if self.family == DECIMAL:
            if not self.ranked:  # Arrow multiplies by 10**-scale, which is not exact in float64
                return self.words(array) / 10.0**self.type.scale
            return _decimal_floats(array)
        words = self.words(array)
        return ((words ^ SIGN_BIT).view(np.uint64) if self.type == pa.uint64() else words).astype(np.float64)

    def picked(self, words: Ints, null: Mask | None, pool: Any) -> pa.Array:
        """Like ``array``; texts that came as a dictionary stay one: 630,000 values of 50,000 words 49 -> 0.7 ms."""
        if not self.coded or not pool:
            return self.array(words, null, pool)
        values = pool if isinstance(pool, pa.Array) else pool.values()
        places = (words if null is None else np.where(null, 0, words)).astype(np.int32)
        return pa.DictionaryArray.from_arrays(array_of(places, null), values, safe=False)

    def array(self, words: Ints, null: Mask | None, pool: Any) -> pa.Array:
        """The values of words, in the column's type; null where ``null`` is true. ``pool``: of a ranked column."""
        if self.family == FLOAT:
            floats = array_of(word_floats(words), null)
            return floats if self._raw.itemsize == 8 else floats.cast(self.type)
        if self.ranked:
            assert pool is not None
            if not len(pool):
                return pa.nulls(words.size, self.type)
            values = rows_of(pool, words, null) if isinstance(pool, pa.Array) else pool.take(words, null)
            return values if values.type == self.type else values.cast(self.type)
        if self.family == BOOL:
            return array_of(words != 0, null)
        if self.family == DECIMAL:
            type = pa.decimal128(self.type.precision, self.type.scale)
            return decimals(words, words >> 63, None if null is None else ~null, type).cast(self.type)
        if self.type == pa.uint64():
            return array_of((words ^ SIGN_BIT).view(np.uint64), null)
        if self.family in (INTEGER, UNSIGNED):
            return array_of(words.astype(self.type.to_pandas_dtype(), copy=False), null)
        width = pa.int64() if _width(self.type) == 8 else pa.int32()
        return array_of(words.astype(width.to_pandas_dtype(), copy=False), null).view(self.type)


def _square(x: Floats) -> tuple[Floats, Floats]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return product(x, x)


def _logarithms(x: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


def _extreme_words(x: Floats, form: str) -> Ints:
    """Words whose smallest is the wanted extreme; NaN has the largest word."""
    words = float_words(x)
    return words if form == "low" else np.where(words == TOP, TOP, ~words)


def ordering(array: pa.Array, column: str) -> Ints:
    """Words that order rows by a column, nulls first."""
    words = ValueType.of(array.type, column).words(array)
    return np.where(present(array), words, SIGN_BIT) if array.null_count else words


def float_words(x: Floats) -> Ints:
    """Float64 as integers that order as the floats do; all NaN are equal, and the largest."""
    bits = x.view(np.int64)
    if x.size >= MANY_WORDS:
        bits.setflags(write=False)  # as Arrow's buffers are: a kernel is compiled once
        words = np.empty(x.size, np.int64)
        keys_of_floats(bits, words)
        return words
    words = bits >> 63
    words &= TOP
    words ^= bits
    nan = np.isnan(x)
    if nan.any():
        words[nan] = TOP
    return words


def word_floats(words: Ints) -> Floats:
    """The floats of order keys; the largest and the smallest word give NaN."""
    if words.size >= MANY_WORDS:
        bits = np.empty(words.size, np.int64)
        floats_of_keys(words, bits)
        return bits.view(np.float64)
    bits = words >> _SIGN
    bits &= _REST
    bits ^= words
    return bits.view(np.float64)


def decimals(low: Ints, high: Ints, valid: Mask | None, type: pa.DataType) -> pa.Array:
    """A decimal column from the low and high halves of 128-bit two's complement numbers."""
    pairs = np.empty((low.size, 2), np.int64)
    pairs[:, 0], pairs[:, 1] = low, high
    validity = None
    if valid is not None and not valid.all():
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type, low.size, [validity, pa.py_buffer(pairs)])


def _decimal_floats(array: pa.Array) -> Floats:
    """Wide decimals as float64: the nearest ones for those that fit a word, which Arrow's cast does not give."""
    floats = buffer(array.cast(pa.float64()), np.dtype(np.float64))
    if not pa.types.is_decimal128(array.type):
        return floats
    low, high = buffer(array, np.dtype(np.int64), 2).reshape(-1, 2).T
    return np.where(high == low >> 63, low / 10.0**array.type.scale, floats)


def _width(type: pa.DataType) -> int:
    return int(type.bit_width) // 8
