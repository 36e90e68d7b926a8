"""Key columns to dense codes, stable across batches, forgotten when unused.

Each column has a table of its distinct values: numbers, dates and times as 64-bit words; text, binary and
large decimals as bytes. A pair of ids is a word again, so several columns combine two by two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from slicing.columns.arrow_out import array_of
from slicing.columns.key_tables import NOTHING, ByteTable, Codes, Mask, WordTable
from slicing.columns.order import distinct
from slicing.kernels.table import hash_bytes, hash_words, look_up

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

MANY = 1 << 16  # rows looked at together
FEWER = 16  # times fewer codes than keys are sorted, and not counted
_TOP = np.int64(0x7FFFFFFFFFFFFFFF)
_LOW_HALF = np.int64(0xFFFFFFFF)


class KeyTable:
    """Key columns -> dense codes: a new key gets the next code, in order of first appearance; those of a dictionary in
    its own.

    Null is a value of its own in every column, -0.0 is 0.0, and all NaN are one.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        for position, type in enumerate(types):
            check_key_type(str(position), type)
        self._types = list(types)
        self._columns = [_ByteColumn(v) if _is_bytes(v) else _WordColumn(v) for v in map(_decoded, types)]
        self._pairs = [WordTable() for _ in self._columns[1:]]
        self._ordered: tuple[Ints, Codes] = np.empty(0, np.int64), np.empty(0, np.int32)  # once most were asked for

    def __len__(self) -> int:
        """The number of codes given out."""
        return (self._pairs[-1] if self._pairs else self._columns[0].table).given

    @property
    def nbytes(self) -> int:
        tables = [*self._pairs, *(column.table for column in self._columns)]
        return sum(known.nbytes for known in self._ordered) + sum(table.nbytes for table in tables)

    def encode(self, columns: Sequence[pa.Array], threads: int = 1) -> Codes:
        """The code of each row; ``threads`` look known words up together.

        Columns of other types or lengths are refused before anything changes.
        """
        types = [column.type for column in columns]
        if types != self._types:
            raise TypeError(f"the key columns have types {_listed(types)}; allowed are {_listed(self._types)}")
        if len({len(column) for column in columns}) > 1:
            raise ValueError(f"the key columns have {_listed(map(len, columns))} rows; they must be equally long")
        return self.encode_values(columns, threads)

    def columns(self, codes: Ints) -> list[pa.Array | pa.ChunkedArray]:
        """The keys of ``codes``, in the types they came in."""
        columns = zip(self._columns, self._column_ids(codes), self._types, strict=True)
        return [_typed(column, ids, type) for column, ids, type in columns]

    def ranks(self, codes: Ints) -> Ints:
        """Positions 0..n-1 of distinct codes in the order of their keys, column by column.

        Ascending, null first, NaN last, text by bytes. While no key is new, ranking most codes needs no sort.
        """
        if codes.size * 4 < len(self):
            return _inverse(self.order(codes))
        in_order, _ = self._whole_order()
        held = np.zeros(len(self), np.int64)
        held[codes] = 1
        held = held[in_order]
        rank = np.empty(len(self), np.int64)
        rank[in_order] = np.cumsum(held) - held
        return rank[codes]

    def order(self, codes: Ints) -> Ints:
        """Where each of distinct codes is among them, in the order of their keys: what ``ranks`` is the inverse of."""
        if codes.size * 4 < len(self):
            known = self._ordered[1]
            return np.argsort(known[codes]) if known.size == len(self) else _order(self._sort_keys(codes))
        in_order, _ = self._whole_order()
        if codes.size == len(self) and (codes[1:] > codes[:-1]).all():
            return in_order
        place = np.full(len(self), -1)
        place[codes] = np.arange(codes.size)
        place = place[in_order]
        return place[place >= 0]

    def order_of_groups(self, codes: Ints, group: Ints, groups: int) -> Ints:
        """The same in each of several groups of codes, which together have most codes that there are."""
        place = np.full((groups, len(self)), -1)
        place[group, self._whole_order()[1][codes]] = np.arange(codes.size)
        return place[place >= 0]

    def _whole_order(self) -> tuple[Ints, Codes]:
        """All codes in the order of their keys, and the place of each in it."""
        if self._ordered[0].size != len(self):
            order = _order(self._sort_keys(np.arange(len(self))))
            self._ordered = order, _inverse(order).astype(np.int32)
        return self._ordered

    def hashes(self, codes: Ints) -> npt.NDArray[np.uint64]:
        """A hash of each key that is the same in every process and for every version of the state's format."""
        hashed = np.zeros(codes.size, np.uint64)
        for column, ids in zip(self._columns, self._column_ids(codes), strict=True):
            hash_words(column.hashes()[ids], hashed)
        return hashed

    def compact(self, live: Ints) -> KeyTable:
        """A table of the ``live`` codes (ascending) alone, in which live[i] is i."""
        table = KeyTable(self._types)
        table.encode_values(self.values(live))
        return table

    def recoded(self, other: KeyTable) -> Ints:
        """The code here of each code of another table."""
        return self.encode_values(other.values(np.arange(len(other)))).astype(np.int64)

    def encode_values(self, columns: Sequence[pa.Array], threads: int = 1) -> Codes:
        """``encode`` of columns as ``values`` gives them."""
        if len(columns[0]) == 0:
            return np.empty(0, np.int32)
        codes = self._columns[0].encode(columns[0], threads)
        for pairs, array, column in zip(self._pairs, columns[1:], self._columns[1:], strict=True):
            words = _paired(codes, column.encode(array, threads))
            codes = pairs.encode(words, words.size, threads=threads)
        return codes

    def _column_ids(self, codes: Ints) -> list[Ints]:
        ids = []
        for pairs in reversed(self._pairs):
            words = pairs.keys[codes]
            ids.append(words & _LOW_HALF)
            codes = words >> 32
        return [codes, *reversed(ids)]

    def values(self, codes: Ints) -> list[pa.Array]:
        """The same, but the values themselves where a column is a dictionary, which may be too narrow for all keys."""
        return [column.values(ids) for column, ids in zip(self._columns, self._column_ids(codes), strict=True)]

    def _sort_keys(self, codes: Ints) -> list[Array]:
        """For np.lexsort: the most significant last."""
        columns = list(zip(self._columns, self._column_ids(codes), strict=True))
        return [key for column, ids in reversed(columns) for key in column.sort_keys(ids)]


def _paired(first: Codes, second: Codes) -> Ints:
    """Two ids as a word."""
    words = np.empty(first.size, np.int64)
    halves = words.view(np.int32).reshape(-1, 2)
    low = 0 if sys.byteorder == "little" else 1
    halves[:, low], halves[:, 1 - low] = second, first
    return words


def ranks_among(code: Ints, keys: KeyTable | None) -> Ints:
    """For each code the place of its key among those of all; without keys there is one group."""
    if keys is None:
        return np.zeros(code.size, np.int64)
    if FEWER * code.size < len(keys):
        present = distinct(code)
        return keys.ranks(present)[np.searchsorted(present, code)]
    present = np.flatnonzero(np.bincount(code, minlength=len(keys)))
    rank = np.zeros(len(keys), np.int64)
    rank[present] = keys.ranks(present)
    return rank[code]


def check_key_type(name: str, type: pa.DataType) -> None:
    """Raise TypeError unless a column of this type can be a key."""
    value = _decoded(type)
    if not (_is_bytes(value) or _is_word(value)):
        raise TypeError(
            f"by column {name!r} has type {type}, which cannot be a key; allowed are integers, floats, bool, "
            "decimals, dates, times, timestamps, durations, strings, binary and dictionaries of these"
        )


class _WordColumn:
    """Values that fit 64 bits: themselves, or the bits of a float64."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self.table = WordTable()
        self._dictionary = _Dictionary()
        self.every = _Every()
        kind = "f" if t.is_floating(type) else "u" if t.is_unsigned_integer(type) else "i"
        size = 1 if t.is_boolean(type) or t.is_null(type) else type.bit_width // 8
        self.dtype = np.dtype(f"{kind}{size}")

    def encode(self, array: pa.Array, threads: int = 1) -> Codes:
        if t.is_dictionary(array.type):
            return self._dictionary.encode(array, self)
        return self.table.encode(self._words(array), len(array), _valid(array), threads=threads)

    def values(self, ids: Ints) -> pa.Array:
        if t.is_null(self.type):
            return pa.nulls(ids.size)
        words, null = self.table.keys.take(ids), self.table.null
        if self.dtype.kind == "f":
            words = words.view(np.float64)
        words = words.astype(self.dtype, copy=False)
        data = np.packbits(words, bitorder="little") if t.is_boolean(self.type) else words
        known = None if null < 0 else pa.py_buffer(np.packbits(ids != null, bitorder="little"))
        return pa.Array.from_buffers(self.type, ids.size, [known, pa.py_buffer(data)])

    def sort_keys(self, ids: Ints) -> list[Array]:
        words = self.table.keys[ids]
        if self.dtype.kind == "f":  # negative floats order against their bits
            words ^= (words >> 63) & _TOP
        keys: list[Array] = [words.view(np.uint64) if self.dtype == np.uint64 else words]
        return keys if self.table.null < 0 else [*keys, ids != self.table.null]

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Of each id; null's is like that of 0."""
        hashed = np.zeros(self.table.given, np.uint64)
        hash_words(self.table.keys[: self.table.given].view(np.uint64), hashed)
        return hashed

    def _words(self, array: pa.Array) -> Ints:
        buffer = array.buffers()[-1]
        if buffer is None:
            return np.zeros(len(array), np.int64)
        if t.is_boolean(self.type):
            return _bits(buffer, array).astype(np.int64)
        raw = np.frombuffer(buffer, self.dtype, len(array), array.offset * self.dtype.itemsize)
        if self.dtype.kind != "f":
            return raw.view(np.int64) if self.dtype == np.uint64 else raw.astype(np.int64, copy=False)
        with np.errstate(invalid="ignore"):  # signalling NaN
            floats = raw.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        nan = np.isnan(floats)
        if nan.any():
            floats[nan] = np.nan
        return floats.view(np.int64)


class _ByteColumn:
    """Text, binary and decimals of more than 64 bits."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(type, type)
        self.table = ByteTable()
        self._dictionary = _Dictionary()
        self.every = _Every()
        self.text = t.is_string(self.type) or t.is_large_string(self.type)

    def encode(self, array: pa.Array, threads: int = 1) -> Codes:
        if t.is_dictionary(array.type):
            return self._dictionary.encode(array, self)
        if array.type != self.type:
            array = array.cast(self.type)
        _, *offsets, data = array.buffers()
        if offsets:
            dtype = np.dtype("i4" if t.is_string(self.type) or t.is_binary(self.type) else "i8")
            starts = np.frombuffer(offsets[0], dtype, len(array) + 1, array.offset * dtype.itemsize)
        else:
            starts = np.arange(array.offset, array.offset + len(array) + 1) * (self.type.bit_width // 8)
        pool = np.frombuffer(data, np.uint8) if data is not None and data.size else NOTHING
        return self.table.encode(starts, len(array), _valid(array), pool, threads)

    def values(self, ids: Ints) -> pa.Array:
        table = self.table
        buffers = [None, pa.py_buffer(table.starts), pa.py_buffer(table.pool)]
        pool = pa.Array.from_buffers(pa.large_string() if self.text else pa.large_binary(), table.given, buffers)
        values = pool.take(array_of(ids, None if table.null < 0 else ids == table.null))
        if t.is_decimal(self.type):
            return values.cast(pa.binary(self.type.bit_width // 8)).view(self.type)
        return values.cast(self.type)

    def hashes(self) -> npt.NDArray[np.uint64]:
        hashed = np.empty(self.table.given, np.uint64)
        hash_bytes(self.table.pool, self.table.starts, hashed)
        return hashed

    def sort_keys(self, ids: Ints) -> list[Array]:
        distinct, place = np.unique(ids, return_inverse=True)
        order = pc.array_sort_indices(self.values(distinct), null_placement="at_start").to_numpy()
        return [_inverse(order)[place]]


class _Dictionary:
    """The ids of a dictionary's values, kept while batches come with the same one."""

    def __init__(self) -> None:
        self._values: pa.Array | None = None
        self._ids: Codes = np.empty(0, np.int32)  # -1: not asked for yet; null's comes last
        self._alike = False  # the id of each value is its place

    def encode(self, array: pa.DictionaryArray, column: _WordColumn | _ByteColumn) -> Codes:
        """Only values that rows use are encoded, in their order in the dictionary."""
        values = array.dictionary
        place = array.indices.to_numpy(zero_copy_only=False) if not array.null_count else None
        if place is None:
            place = array.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()
        place = place.astype(np.int32, copy=False)
        place.setflags(write=False)
        if self._values is None or not _same_buffers(values, self._values):
            self._values, self._ids, self._alike = values, np.full(len(values) + 1, -1, np.int32), False
            self._learn(_occurring(place, len(values) + bool(array.null_count)), column)
        if self._alike and not array.null_count:
            return place
        out = np.empty(place.size, np.int32)
        if look_up(place, self._ids, out):
            self._learn(_occurring(place[out < 0], len(values) + 1), column)
            look_up(place, self._ids, out)
        return out

    def _learn(self, new: Ints, column: _WordColumn | _ByteColumn) -> None:
        assert self._values is not None
        found = self._values.cast(column.type).take(array_of(new, new == len(self._values)))
        ids = self._ids.copy()
        ids[new] = column.encode(found)
        self._ids, self._alike = ids, bool((ids[:-1] == np.arange(ids.size - 1)).all())


def _occurring(places: Codes, size: int) -> Ints:
    """Which of so many places there are, in order; looked for until there are all: 1000 in 10 M rows 39 -> 0.3 ms."""
    found = np.zeros(size, np.bool_)
    for at in range(0, places.size, MANY):
        found[places[at : at + MANY]] = True
        if found.all():
            break
    return found.nonzero()[0]


class _Every:
    """All values of a column as a dictionary, made once while none is new."""

    def __init__(self) -> None:
        self._values: pa.Array | None = None
        self._given = 0

    def of(self, column: _WordColumn | _ByteColumn, type: pa.DataType) -> pa.Array:
        """By id; null is not among them."""
        if self._values is None or self._given != column.table.given:
            self._given = column.table.given
            ids = np.arange(self._given)
            self._values = column.values(ids[ids != column.table.null]).cast(type)
        return self._values


def _same_buffers(one: pa.Array, other: pa.Array) -> bool:
    def place(array: pa.Array) -> list[object]:
        return [array.type, len(array), array.offset, *(b and (b.address, b.size) for b in array.buffers())]

    return one is other or place(one) == place(other)


def _typed(column: _WordColumn | _ByteColumn, ids: Ints, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if not t.is_dictionary(type):
        return column.values(ids).cast(type)
    null, every = column.table.null, column.table.given - (column.table.null >= 0)
    room = 1 << type.index_type.bit_width - t.is_signed_integer(type.index_type)
    known = ids != null
    if every <= min(room, 2 * ids.size):  # most are here: looking which ones are costs more than it saves
        dictionary = column.every.of(column, type.value_type)
        places = ids if null < 0 else ids - (ids > null)
    else:
        used, indices = np.unique(ids[known], return_inverse=True)
        if used.size > room:  # narrow indices, as of pandas' categories, hold the keys of some rows: each chunk its own
            pieces = [ids[at : at + room] for at in range(0, ids.size, room)]
            return pa.chunked_array([_typed(column, piece, type) for piece in pieces], type)
        dictionary = column.values(used).cast(type.value_type)
        places = np.zeros(ids.size, np.int64)
        places[known] = indices
    indices = array_of(places, None if null < 0 else ~known).cast(type.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=type.ordered)


def _valid(array: pa.Array) -> Mask | None:
    if array.null_count == 0:
        return None
    buffer = array.buffers()[0]
    return np.zeros(len(array), np.bool_) if buffer is None else _bits(buffer, array)


def _bits(buffer: pa.Buffer, array: pa.Array) -> Mask:
    first, skip = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skip + len(array) + 7) // 8, first)
    return np.unpackbits(packed, bitorder="little")[skip : skip + len(array)].view(np.bool_)


def _order(keys: list[Array]) -> Ints:
    return np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys)


def _inverse(order: Array) -> Ints:
    positions = np.empty(order.size, np.int64)
    positions[order] = np.arange(order.size)
    return positions


def _decoded(type: pa.DataType) -> pa.DataType:
    return type.value_type if t.is_dictionary(type) else type


def _is_word(type: pa.DataType) -> bool:
    number = t.is_integer(type) or t.is_floating(type) or t.is_decimal32(type) or t.is_decimal64(type)
    time = t.is_date(type) or t.is_time(type) or t.is_timestamp(type) or t.is_duration(type)
    return bool(number or time or t.is_boolean(type) or t.is_null(type))


def _is_bytes(type: pa.DataType) -> bool:
    text = t.is_string(type) or t.is_large_string(type) or t.is_string_view(type)
    binary = t.is_binary(type) or t.is_large_binary(type) or t.is_binary_view(type) or t.is_fixed_size_binary(type)
    return bool(text or binary or t.is_decimal128(type) or t.is_decimal256(type))


def _listed(things: Iterable[Any]) -> str:
    return ", ".join(map(str, things))
