"""Key columns to dense codes, stable across batches, forgotten when unused.

Each column has a table of its distinct values: numbers, dates and times as 64-bit words; text, binary and
large decimals as bytes. A pair of ids is a word again, so several columns combine two by two.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from slicing.kernels.table import (
    FINISHED,
    FULL,
    MIX,
    NO_BYTES,
    encode_bytes,
    encode_words,
    find_words,
    hash_bytes,
    hash_words,
    place_bytes,
    place_words,
)
from slicing.threads import parts, side_by_side

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]  # int64 or, as there are never 2**31 of them, int32
Mask = npt.NDArray[np.bool_]

_TOP = np.int64(0x7FFFFFFFFFFFFFFF)
_LOW_HALF = np.int64(0xFFFFFFFF)
CHUNK = 1 << 15  # ids made at a time, in the cache
_NOTHING = np.frombuffer(b"", np.uint8)


class KeyTable:
    """Key columns -> dense codes: a new key gets the next code, in order of first appearance.

    Null is a value of its own in every column, -0.0 is 0.0, and all NaN are one.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        for position, type in enumerate(types):
            check_key_type(str(position), type)
        self._types = list(types)
        self._columns = [_ByteColumn(v) if _is_bytes(v) else _WordColumn(v) for v in map(_decoded, types)]
        self._pairs = [_WordTable() for _ in self._columns[1:]]
        self._ranks = np.empty(0, np.int64)  # of all codes, once most were asked for

    def __len__(self) -> int:
        """The number of codes given out."""
        return (self._pairs[-1] if self._pairs else self._columns[0].table).given

    @property
    def nbytes(self) -> int:
        tables = [*self._pairs, *(column.table for column in self._columns)]
        return self._ranks.nbytes + sum(table.nbytes for table in tables)

    def encode(self, columns: Sequence[pa.Array], threads: int = 1) -> Ints:
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
        total = len(self)
        few = codes.size * 4 < total
        if self._ranks.size != total:
            if few:
                return _positions(self._sort_keys(codes))
            self._ranks = _positions(self._sort_keys(np.arange(total)))
        ranks = self._ranks[codes]
        if few:
            return _positions([ranks])
        present = np.zeros(total, np.int64)
        present[ranks] = 1
        below: Ints = np.cumsum(present) - present
        return below[ranks]

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

    def encode_rows(self, columns: Sequence[pa.Array], threads: int = 1) -> Codes:
        """The same in half the memory where a single column of words without nulls is the key."""
        column, array = self._columns[0], columns[0]
        if len(columns) > 1 or array.type != self._types[0] or not isinstance(column, _WordColumn):
            return self.encode(columns, threads)
        if t.is_dictionary(array.type) or array.null_count:
            return self.encode(columns, threads)
        return column.encode_narrow(array, threads)

    def encode_values(self, columns: Sequence[pa.Array], threads: int = 1) -> Ints:
        """``encode`` of columns as ``values`` gives them."""
        if len(columns[0]) == 0:
            return np.empty(0, np.int64)
        codes = _ids(columns[0], self._columns[0], threads)
        for pairs, array, column in zip(self._pairs, columns[1:], self._columns[1:], strict=True):
            codes = pairs.encode_known(codes << 32 | _ids(array, column, threads), threads)
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


def ranks_among(code: Ints, keys: KeyTable | None) -> Ints:
    """For each code that occurs, the place of its key among those that occur; without keys there is one group."""
    if keys is None:
        return np.zeros(1, np.int64)
    present = np.flatnonzero(np.bincount(code, minlength=len(keys)))
    rank = np.zeros(len(keys), np.int64)
    rank[present] = keys.ranks(present)
    return rank


def numbered(words: Ints) -> tuple[Ints, Ints]:
    """Each word's number, in order of first appearance, and the word of each number."""
    table = _WordTable()
    numbers = table.encode(words, words.size)
    return numbers, table.keys[: table.given]


def check_key_type(name: str, type: pa.DataType) -> None:
    """Raise TypeError unless a column of this type can be a key."""
    value = _decoded(type)
    if not (_is_bytes(value) or _is_word(value)):
        raise TypeError(
            f"by column {name!r} has type {type}, which cannot be a key; allowed are integers, floats, bool, "
            "decimals, dates, times, timestamps, durations, strings, binary and dictionaries of these"
        )


class _Table:
    """Distinct values to ids 0, 1, 2...: what the tables of words and of bytes share."""

    slots: Array
    shift: np.uint64  # from a hash to its slot

    def __init__(self) -> None:
        self.given = 0
        self.null = -1
        self.limit = 1024  # ids there is room for
        self.multiplier, self.patience = MIX, 64
        self.rebuild()

    def encode(self, rows: Array, count: int, valid: Mask | None = None, data: Array = _NOTHING) -> Ints:
        """Ids of ``count`` rows: words, or offsets into ``data``. ``valid`` is given where rows are null."""
        rows.setflags(write=False)  # as Arrow's buffers are: a kernel is compiled once
        out = np.empty(count, np.int64)
        done = 0
        if valid is not None and self.null < 0:
            done = int(valid.argmin())
            self._run(rows, None, data, out[:done])
            if self.given == self.limit:
                self.make_room(FULL)
            self.add_null()
            self.null, self.given = self.given, self.given + 1
        self._run(rows[done:], None if valid is None else valid[done:], data, out[done:])
        return out

    def _run(self, rows: Array, valid: Mask | None, data: Array, out: Ints) -> None:
        while True:
            done, self.given, stop = self.step(rows, valid, data, out)
            if stop == FINISHED:
                return
            self.make_room(stop)
            rows, valid, out = rows[done:], None if valid is None else valid[done:], out[done:]

    def make_room(self, stop: int) -> None:
        if stop == FULL:
            self.limit *= 2
        else:
            self.multiplier = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
            self.patience *= 2
        self.rebuild()

    def free_slots(self, width: int, dtype: type[np.generic]) -> None:
        self.slots = np.zeros((4 * self.limit, width), dtype)
        self.shift = np.uint64(65 - len(self.slots).bit_length())

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Ints) -> tuple[int, int, int]:
        raise NotImplementedError

    def rebuild(self) -> None:
        """Room for ``limit`` ids, and slots anew."""
        raise NotImplementedError

    def add_null(self) -> None:
        """A value for the next id, which will be null's."""
        raise NotImplementedError


class _WordTable(_Table):
    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)  # the word of each id
        super().__init__()

    def encode_known(self, words: Ints, threads: int, dtype: type[np.signedinteger[Any]] = np.int64) -> Codes:
        """``encode`` without nulls: words that have an id are found side by side, the others encoded in turn."""
        words.setflags(write=False)
        out = np.empty(words.size, dtype)
        share = parts(words.size, threads)
        if len(share) == 1 or not self.given:
            buffer = np.empty(min(CHUNK, words.size), np.int64)
            for first in range(0, words.size, CHUNK):
                some = buffer[: words.size - first]
                self._run(words[first : first + CHUNK], None, _NOTHING, some)
                out[first : first + CHUNK] = some
            return out

        def find(part: slice) -> int:
            missing, buffer = 0, np.empty(CHUNK, np.int64)
            for first in range(part.start, part.stop, CHUNK):
                last = min(first + CHUNK, part.stop)
                some = buffer[: last - first]
                missing += find_words(words[first:last], self.slots, self.shift, self.multiplier, some)
                out[first:last] = some
            return missing

        if any(side_by_side(find, share)):
            new = np.flatnonzero(out < 0)
            out[new] = self.encode(words[new], new.size)
        return out

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Ints) -> tuple[int, int, int]:
        hashing = self.slots, self.shift, self.multiplier, self.patience
        return encode_words(rows, valid, self.null, *hashing, self.keys, self.given, out)

    def rebuild(self) -> None:
        self.keys = _longer(self.keys, self.limit)
        self.free_slots(2, np.int64)
        if self.given:
            place_words(self.keys[: self.given], self.null, self.slots, self.shift, self.multiplier)

    def add_null(self) -> None:
        self.keys[self.given] = 0

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.keys.nbytes


class _ByteTable(_Table):
    def __init__(self) -> None:
        self.starts = np.zeros(1, np.int64)  # id i is pool[starts[i] : starts[i + 1]]
        self.pool = np.empty(4096, np.uint8)
        self.tail = np.zeros(32, np.uint8)  # a kernel's scratch
        super().__init__()

    def step(self, rows: Array, valid: Mask | None, data: Array, out: Ints) -> tuple[int, int, int]:
        hashing = self.slots, self.shift, self.multiplier, self.patience
        stored = self.pool, self.starts, self.given
        return encode_bytes(rows, data, self.tail, valid, self.null, *hashing, *stored, out)

    def make_room(self, stop: int) -> None:
        if stop == NO_BYTES:
            self.pool = _longer(self.pool, 2 * self.pool.size)
        else:
            super().make_room(stop)

    def rebuild(self) -> None:
        self.starts = _longer(self.starts, self.limit + 1)
        self.free_slots(3, np.uint64)
        starts = self.starts[: self.given + 1]
        if self.given:
            place_bytes(self.pool, starts, self.null, self.slots, self.shift, self.multiplier)

    def add_null(self) -> None:
        self.starts[self.given + 1] = self.starts[self.given]

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.starts.nbytes + self.pool.nbytes


class _WordColumn:
    """Values that fit 64 bits: themselves, or the bits of a float64."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self.table = _WordTable()
        kind = "f" if t.is_floating(type) else "u" if t.is_unsigned_integer(type) else "i"
        size = 1 if t.is_boolean(type) or t.is_null(type) else type.bit_width // 8
        self.dtype = np.dtype(f"{kind}{size}")

    def encode(self, array: pa.Array, threads: int = 1) -> Ints:
        valid = _valid(array)
        if valid is None:
            return self.table.encode_known(self._words(array), threads)
        return self.table.encode(self._words(array), len(array), valid)

    def encode_narrow(self, array: pa.Array, threads: int) -> Codes:
        """Ids of a column without nulls."""
        return self.table.encode_known(self._words(array), threads, np.int32)

    def values(self, ids: Ints) -> pa.Array:
        if t.is_null(self.type):
            return pa.nulls(ids.size)
        words = self.table.keys[ids]
        if self.dtype.kind == "f":
            words = words.view(np.float64)
        data = np.packbits(words, bitorder="little") if t.is_boolean(self.type) else words.astype(self.dtype)
        known = np.packbits(ids != self.table.null, bitorder="little")
        return pa.Array.from_buffers(self.type, ids.size, [pa.py_buffer(known), pa.py_buffer(data)])

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
        self.table = _ByteTable()
        self.text = t.is_string(self.type) or t.is_large_string(self.type)

    def encode(self, array: pa.Array, threads: int = 1) -> Ints:
        if array.type != self.type:
            array = array.cast(self.type)
        _, *offsets, data = array.buffers()
        if offsets:
            dtype = np.dtype("i4" if t.is_string(self.type) or t.is_binary(self.type) else "i8")
            starts = np.frombuffer(offsets[0], dtype, len(array) + 1, array.offset * dtype.itemsize)
        else:
            starts = np.arange(array.offset, array.offset + len(array) + 1) * (self.type.bit_width // 8)
        pool = np.frombuffer(data, np.uint8) if data is not None and data.size else _NOTHING
        return self.table.encode(starts, len(array), _valid(array), pool)

    def values(self, ids: Ints) -> pa.Array:
        table = self.table
        buffers = [None, pa.py_buffer(table.starts), pa.py_buffer(table.pool)]
        pool = pa.Array.from_buffers(pa.large_string() if self.text else pa.large_binary(), table.given, buffers)
        values = pool.take(pa.array(ids, mask=None if table.null < 0 else ids == table.null))
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


def _ids(array: pa.Array, column: _WordColumn | _ByteColumn, threads: int) -> Ints:
    """A dictionary's values are encoded in the order in which rows use them, and only those that rows use."""
    if not t.is_dictionary(array.type):
        return column.encode(array, threads)
    used = _WordColumn(array.type.index_type)
    rows = used.encode(array.indices)
    values = array.dictionary.cast(column.type).take(used.values(np.arange(used.table.given)))
    return column.encode(values)[rows]


def _typed(column: _WordColumn | _ByteColumn, ids: Ints, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if not t.is_dictionary(type):
        return column.values(ids).cast(type)
    known = ids != column.table.null
    used, indices = np.unique(ids[known], return_inverse=True)
    room = 1 << type.index_type.bit_width - t.is_signed_integer(type.index_type)
    if used.size > room:  # narrow indices, as of pandas' categories, hold the keys of some rows: each chunk has its own
        pieces = [ids[at : at + room] for at in range(0, ids.size, room)]
        return pa.chunked_array([_typed(column, piece, type) for piece in pieces], type)
    places = np.zeros(ids.size, np.int64)
    places[known] = indices
    dictionary = column.values(used).cast(type.value_type)
    places = pa.array(places, mask=~known).cast(type.index_type)
    return pa.DictionaryArray.from_arrays(places, dictionary, ordered=type.ordered)


def _valid(array: pa.Array) -> Mask | None:
    if array.null_count == 0:
        return None
    buffer = array.buffers()[0]
    return np.zeros(len(array), np.bool_) if buffer is None else _bits(buffer, array)


def _bits(buffer: pa.Buffer, array: pa.Array) -> Mask:
    first, skip = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skip + len(array) + 7) // 8, first)
    return np.unpackbits(packed, bitorder="little")[skip : skip + len(array)].view(np.bool_)


def _positions(keys: list[Array]) -> Ints:
    return _inverse(np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys))


def _inverse(order: Array) -> Ints:
    positions = np.empty(order.size, np.int64)
    positions[order] = np.arange(order.size)
    return positions


def _longer(array: Array, size: int) -> Array:
    longer = np.empty(size, array.dtype)
    longer[: array.size] = array
    return longer


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
