"""One key column: values to ids and back. Numbers, dates and times are 64-bit words; text, binary and large decimals
are bytes. The values of a dictionary keep their ids while batches come with an equal dictionary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from slicing.columns.arrow_out import MOST_TEXT, array_of
from slicing.columns.bits import VALUES, as_numpy, bits, present
from slicing.columns.key_tables import NOTHING, ByteTable, WordTable
from slicing.columns.order import inverse
from slicing.columns.taking import rows_of
from slicing.columns.text_order import FEW_TEXTS, order_of_texts
from slicing.columns.types import has_offsets, is_binary, is_short_decimal, is_text, is_view, storage_advice
from slicing.kernels.table import hash_bytes, hash_words, look_up, number_views
from slicing.system.arrays import MOST, Array, Codes, Ints, Mask, Unsigned
from slicing.system.threads import SHARE, Share

TOGETHER = 1 << 16  # rows that are looked at together
FEW_VIEWS = 256  # with fewer rows, finding equal views is not worth it
IN_VIEW = 12  # the longest text, in bytes, that lies in its view
SPARES, MOST_VIEWS = 4, 1 << 14  # at most a quarter as many distinct views as rows, and no more than MOST_VIEWS
FEW_KEYS = 1024  # up to so many keys, their texts are read whatever is asked
_NULLS_FIRST = pc.ArraySortOptions(null_placement="at_start")
_PLACES = np.arange(IN_VIEW)


def check_key_type(name: str, type: pa.DataType) -> None:
    """Raise TypeError unless a column of this type can be a key."""
    value = _decoded(type)
    if not (_is_bytes(value) or _is_word(value)):
        raise TypeError(
            f"by column {name!r} has type {type}, which cannot be a key; allowed are integers, floats, bool, "
            "decimals, dates, times, timestamps, durations, strings, binary and dictionaries of these"
            + storage_advice(type)
            + ("; give its fields as columns" if t.is_struct(value) else "")
        )


def column_of(type: pa.DataType) -> WordColumn | ByteColumn:
    value = _decoded(type)
    return ByteColumn(value) if _is_bytes(value) else WordColumn(value)


class _Column:
    """What word and byte columns share."""

    table: Any

    def begin(self) -> None:
        """Start without values."""
        self._dictionary, self.every = _Dictionary(), _Every()

    def begun(self) -> Any:
        """A column of the same type, without values."""
        another = object.__new__(type(self))
        another.__dict__ = self.__dict__.copy()
        another.begin()
        return another


class WordColumn(_Column):
    """Values that fit 64 bits: the value itself, or the bits of a float64."""

    table: WordTable

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self.begin()
        kind = "f" if t.is_floating(type) else "u" if t.is_unsigned_integer(type) else "i"
        size = 1 if t.is_boolean(type) or t.is_null(type) else type.bit_width // 8
        self.dtype = np.dtype(f"{kind}{size}")

    def begin(self) -> None:
        super().begin()
        self.table = WordTable()

    def encode(self, array: pa.Array, threads: int = 1, how: Share = SHARE) -> Codes:
        if t.is_dictionary(array.type):
            return self._dictionary.encode(array, self)
        return self.table.encode(self._words(array), len(array), _valid(array), threads=threads, how=how)

    def values(self, ids: Ints) -> pa.Array:
        if t.is_null(self.type):
            return pa.nulls(ids.size)
        keys, given, null = self.table.keys, self.table.given, self.table.null
        few = given < ids.size  # fewer to convert
        words = keys[:given] if few else keys.take(ids)
        words = (words.view(np.float64) if self.dtype.kind == "f" else words).astype(self.dtype, copy=False)
        words = words.take(ids) if few else words
        data = np.packbits(words, bitorder="little") if t.is_boolean(self.type) else words
        known = None if null < 0 else pa.py_buffer(np.packbits(ids != null, bitorder="little"))
        return pa.Array.from_buffers(self.type, ids.size, [known, pa.py_buffer(data)])

    def typed(self, ids: Ints, type: pa.DataType) -> pa.Array:
        """``values``, in the type of a column."""
        values = self.values(ids)
        return values if values.type == type else values.cast(type)

    def sort_keys(self, ids: Ints) -> list[Array]:
        words = self.table.keys[ids]
        if self.dtype.kind == "f":  # the bits of negative floats order in reverse
            words ^= (words >> 63) & MOST
        keys: list[Array] = [words.view(np.uint64) if self.dtype == np.uint64 else words]
        return keys if self.table.null < 0 else [*keys, ids != self.table.null]

    def hashes(self) -> Unsigned:
        """The hash of each id; null has the hash of 0."""
        hashed = np.zeros(self.table.given, np.uint64)
        hash_words(self.table.keys[: self.table.given].view(np.uint64), hashed)
        return hashed

    def _words(self, array: pa.Array) -> Ints:
        buffer = array.buffers()[-1]
        if buffer is None:
            return np.zeros(len(array), np.int64)
        if t.is_boolean(self.type):
            return bits(array, VALUES).astype(np.int64)
        raw = np.frombuffer(buffer, self.dtype, len(array), array.offset * self.dtype.itemsize)
        if self.dtype.kind != "f":
            return raw.view(np.int64) if self.dtype == np.uint64 else raw.astype(np.int64, copy=False)
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            floats = raw.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        nan = np.isnan(floats)
        if nan.any():
            floats[nan] = np.nan
        return floats.view(np.int64)


class ByteColumn(_Column):
    """Text, binary, and decimals of more than 64 bits."""

    table: ByteTable

    def __init__(self, type: pa.DataType) -> None:
        self.type = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(type, type)
        self.begin()
        text = t.is_string(self.type) or t.is_large_string(self.type)
        self._long, self._short = (pa.large_string(), pa.string()) if text else (pa.large_binary(), pa.binary())

    def begin(self) -> None:
        super().begin()
        self.table = ByteTable()

    def encode(self, array: pa.Array, threads: int = 1, how: Share = SHARE) -> Codes:
        if t.is_dictionary(array.type):
            return self._dictionary.encode(array, self)
        if is_view(array.type) and len(array) >= FEW_VIEWS:
            return self._encode_views(array, threads, how)
        if array.type != self.type:
            array = array.cast(self.type)
        _, *offsets, data = array.buffers()
        if offsets:
            dtype = np.dtype("i4" if t.is_string(self.type) or t.is_binary(self.type) else "i8")
            starts = np.frombuffer(offsets[0], dtype, len(array) + 1, array.offset * dtype.itemsize)
        else:
            starts = np.arange(array.offset, array.offset + len(array) + 1) * (self.type.bit_width // 8)
        pool = np.frombuffer(data, np.uint8) if data is not None and data.size else NOTHING
        return self.table.encode(starts, len(array), _valid(array), pool, threads, how)

    def _encode_views(self, array: pa.Array, threads: int, how: Share) -> Codes:
        """Encode each distinct view once: equal texts most often have equal views, which are 16 bytes.

        Short texts are read from the views. ``aggregate`` of 1000 rows by 20 keys: 0.72 -> 0.66 ms."""
        valid = _valid(array)
        number, first = np.empty(len(array), np.int32), np.empty(min(len(array) // SPARES, MOST_VIEWS), np.int32)
        bits, pairs = (4 * first.size).bit_length(), np.empty((first.size, 2), np.int64)
        slots, shift = np.zeros(1 << bits, np.int32), np.uint64(64 - bits)
        views = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        given = number_views(views, valid, slots, shift, pairs, first, number)
        if given < 0:  # too many distinct views
            return self.encode(array.cast(self.type), threads, how)
        rows = first[:given]
        some, known = views.take(rows, axis=0), None if valid is None else valid.take(rows)
        if known is not None:
            some[~known] = 0  # the view of a null may be anything
        lengths = some.view(np.int32)[:, 0]
        if int(lengths.max()) <= IN_VIEW:
            text = some.view(np.uint8)[:, 4:][lengths[:, None] > _PLACES]
            codes = self.table.encode(np.append(0, lengths.cumsum()), given, known, text, threads, how)
        else:
            codes = self.encode(some_views(array, some, known, rows).cast(self.type), threads, how)
        return number if codes[-1] == given - 1 and (codes[1:] > codes[:-1]).all() else codes.take(number)

    def typed(self, ids: Ints, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
        """``values`` in the type of a column, in chunks if the text does not fit into one."""
        table = self.table
        if ids.size <= FEW_KEYS and (type == self._long or type == self._short):
            ends, text = table.texts(ids)
            if text.size <= MOST_TEXT:
                return self._texts(ids, type, ends, text)
        if has_offsets(type) and table.given <= max(4 * ids.size, FEW_KEYS):
            longest = int(np.diff(table.starts[: table.given + 1]).max(initial=0))
            if max(longest * ids.size, int(table.starts[table.given])) <= MOST_TEXT:
                return self._taken(self._pool(type), ids)
        return in_type(self.values(ids), type)

    def _texts(self, ids: Ints, type: pa.DataType, ends: Ints, text: Array) -> pa.Array:
        null = self.table.null
        known = None if null < 0 else pa.py_buffer(np.packbits(ids != null, bitorder="little"))
        ends = ends if type == self._long else ends.astype(np.int32)
        return pa.Array.from_buffers(type, ids.size, [known, pa.py_buffer(ends), pa.py_buffer(text)])

    def values(self, ids: Ints) -> pa.Array:
        values = self._taken(self._pool(self._long), ids)
        if t.is_decimal(self.type):
            return values.cast(pa.binary(self.type.bit_width // 8)).view(self.type)
        return values if values.type == self.type else values.cast(self.type)

    def _pool(self, type: pa.DataType) -> pa.Array:
        """The text of each id, as an array of a text type; the text of null is empty."""
        table = self.table
        starts = table.starts if type == self._long else table.starts[: table.given + 1].astype(np.int32)
        return pa.Array.from_buffers(type, table.given, [None, pa.py_buffer(starts), pa.py_buffer(table.pool)])

    def _taken(self, pool: pa.Array, ids: Ints) -> pa.Array:
        null = self.table.null
        return rows_of(pool, ids, None if null < 0 else ids == null)

    def hashes(self) -> Unsigned:
        hashed = np.empty(self.table.given, np.uint64)
        hash_bytes(self.table.pool, self.table.starts, hashed)
        return hashed

    def sort_keys(self, ids: Ints) -> list[Array]:
        if ids.size <= FEW_KEYS and not t.is_decimal(self.type):
            words = self.table.sorting_words(ids)
            if words is not None:
                return words if self.table.null < 0 else [*words, ids != self.table.null]
        if 4 * ids.size < self.table.given:
            distinct, place = np.unique(ids, return_inverse=True)
            return [self._ranks(distinct)[place]]
        return [self._ranks(np.arange(self.table.given))[ids]]

    def _ranks(self, ids: Ints) -> Ints:
        """The rank of each of distinct ids by value, null first."""
        if ids.size > FEW_TEXTS and not t.is_decimal(self.type):
            ranks, table, texts = np.zeros(ids.size, np.int64), self.table, ids != self.table.null
            some = ids[texts]
            order, _ = order_of_texts(table.starts.take(some), table.starts.take(some + 1), table.pool)
            ranks[texts] = inverse(order) + 1
            return ranks
        values = self.values(ids) if t.is_decimal(self.type) else self._taken(self._pool(self._long), ids)
        return inverse(as_numpy(pc.call_function("array_sort_indices", [values], _NULLS_FIRST)))


Column = WordColumn | ByteColumn


class _Dictionary:
    """The ids of a dictionary's values, kept while batches come with an equal dictionary."""

    def __init__(self) -> None:
        self._values: pa.Array | None = None
        self._ids: Codes = np.empty(0, np.int32)  # -1: not known yet; the last one is for null
        self._alike = False  # whether the id of each value is its place

    def encode(self, array: pa.DictionaryArray, column: WordColumn | ByteColumn) -> Codes:
        """Encode only the values that rows use, in dictionary order."""
        values = array.dictionary
        place = as_numpy(array.indices) if not array.null_count else None
        if place is None:
            place = as_numpy(array.indices.cast(pa.int64()).fill_null(len(values)))
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

    def _learn(self, new: Ints, column: WordColumn | ByteColumn) -> None:
        assert self._values is not None
        found = self._values.cast(column.type).take(array_of(new, new == len(self._values)))
        ids = self._ids.copy()
        ids[new] = column.encode(found)
        self._ids, self._alike = ids, bool((ids[:-1] == np.arange(ids.size - 1)).all())


def _occurring(places: Codes, size: int) -> Ints:
    """The distinct places, ascending. Stops once all ``size`` places are found: 1000 in 10 M rows 39 -> 0.3 ms."""
    found = np.zeros(size, np.bool_)
    for at in range(0, places.size, TOGETHER):
        found[places[at : at + TOGETHER]] = True
        if found.all():
            break
    return found.nonzero()[0]


class _Every:
    """All values of a column as a dictionary, cached until the column gets a new value."""

    def __init__(self) -> None:
        self._values: pa.Array | None = None
        self._given = 0

    def of(self, column: WordColumn | ByteColumn, type: pa.DataType) -> pa.Array:
        """The values by id, without null."""
        if self._values is None or self._given != column.table.given:
            self._given = column.table.given
            ids = np.arange(self._given)
            self._values = column.values(ids[ids != column.table.null]).cast(type)
        return self._values


def _same_buffers(one: pa.Array, other: pa.Array) -> bool:
    def place(array: pa.Array) -> list[object]:
        return [array.type, len(array), array.offset, *(b and (b.address, b.size) for b in array.buffers())]

    return one is other or place(one) == place(other)


def typed(column: WordColumn | ByteColumn, ids: Ints, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if not t.is_dictionary(type):
        return column.typed(ids, type)
    null, every = column.table.null, column.table.given - (column.table.null >= 0)
    room = 1 << type.index_type.bit_width - t.is_signed_integer(type.index_type)
    known = ids != null
    if every <= min(room, 2 * ids.size):  # most values are used: finding which ones costs more than it saves
        dictionary = column.every.of(column, type.value_type)
        places = ids if null < 0 else ids - (ids > null)
    else:
        used, indices = np.unique(ids[known], return_inverse=True)
        if used.size > room:  # indices are too narrow (as of pandas' categories): each chunk has its own dictionary
            pieces = [ids[at : at + room] for at in range(0, ids.size, room)]
            return pa.chunked_array([typed(column, piece, type) for piece in pieces], type)
        dictionary = column.values(used).cast(type.value_type)
        places = np.zeros(ids.size, np.int64)
        places[known] = indices
    indices = array_of(places, None if null < 0 else ~known).cast(type.index_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=type.ordered)


def in_type(values: pa.Array, type: pa.DataType, most: int = MOST_TEXT) -> pa.Array | pa.ChunkedArray:
    """Values in the type of a column. Views are kept with long offsets, so their text may need several chunks."""
    if values.type == type or values.nbytes <= most or len(values) == 1:
        return values.cast(type)
    half = len(values) // 2
    pieces = [in_type(piece, type, most) for piece in (values[:half], values[half:])]
    return pa.chunked_array([chunk for p in pieces for chunk in (p.chunks if isinstance(p, pa.ChunkedArray) else [p])])


def some_views(array: pa.Array, views: Ints, known: Mask | None, rows: Codes | Ints) -> pa.Array:
    """Some rows of a column of views: Arrow has no ``take`` for views."""
    valid, (_, _, *texts) = None if known is None else np.packbits(known, bitorder="little"), array.buffers()
    try:
        buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(views), *texts]
        return pa.Array.from_buffers(array.type, rows.size, buffers)
    except ValueError:  # pyarrow 18 makes no views of long texts: copy the whole column
        plain = pa.large_binary() if pa.types.is_binary_view(array.type) else pa.large_string()
        return array.cast(plain).take(array_of(rows.astype(np.int64)))


def _valid(array: pa.Array) -> Mask | None:
    return present(array) if array.null_count else None


def _decoded(type: pa.DataType) -> pa.DataType:
    return type.value_type if t.is_dictionary(type) else type


def _is_word(type: pa.DataType) -> bool:
    number = t.is_integer(type) or t.is_floating(type) or is_short_decimal(type)
    time = t.is_date(type) or t.is_time(type) or t.is_timestamp(type) or t.is_duration(type)
    return bool(number or time or t.is_boolean(type) or t.is_null(type))


def _is_bytes(type: pa.DataType) -> bool:
    fixed = t.is_fixed_size_binary(type) or t.is_decimal128(type) or t.is_decimal256(type)
    return bool(is_text(type) or is_binary(type) or fixed)
