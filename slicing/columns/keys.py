"""Key columns to dense codes. Codes are stable across batches; unused keys can be dropped.

Each column has a table of its distinct values (``key_columns``). Two ids make one word, so several columns are combined
two by two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.columns.key_columns import Column, check_key_type, column_of, typed
from slicing.columns.key_tables import WordTable
from slicing.columns.order import distinct, inverse, order_by, stable_order
from slicing.columns.types import result_type
from slicing.columns.values import SIGN_BIT
from slicing.kernels.cells import by_rank, chosen_in_order
from slicing.kernels.table import hash_words
from slicing.system.arrays import Array, Codes, Ints, Unsigned
from slicing.system.threads import SHARE, Share

FEW_CELLS = 4096  # with fewer cells or keys, a kernel or SIMD is not worth it
SPARSE = 4  # codes are sorted if the keys of all groups are at least so many times as many
FEWER = 16  # codes are sorted, not counted, if keys are at least so many times as many
GROWN = 2  # all keys are sorted again if they are at least so many times the ordered ones
_UNKNOWN = np.empty(0, np.int64), np.empty(0, np.int32)
_TYPE = attrgetter("type")
_LOW_HALF = np.int64(0xFFFFFFFF)


class KeyTable:
    """Key columns to dense codes. A new key gets the next code, in order of first appearance; the values of a
    dictionary in dictionary order.

    Null is a separate value in every column, -0.0 equals 0.0, and all NaN are equal.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        for position, type in enumerate(types):
            check_key_type(str(position), type)
        self._types, self._result_types = list(types), list(map(result_type, types))
        self._begin(list(map(column_of, types)))

    def _begin(self, columns: list[Column]) -> None:
        self._columns = columns
        self._pairs = [WordTable() for _ in columns[1:]]
        self._ordered: tuple[Ints, Codes] = _UNKNOWN  # filled once the order of most keys is needed

    def begun(self) -> KeyTable:
        """A table with the same columns, without keys: 11 -> 5 us."""
        keys = object.__new__(KeyTable)
        keys.__dict__ = self.__dict__.copy()
        keys._begin([column.begun() for column in self._columns])
        return keys

    @staticmethod
    def of(types: Sequence[pa.DataType], columns: Sequence[pa.Array]) -> KeyTable:
        """The table of keys that are all different, as ``values`` gives them."""
        keys = KeyTable(types)
        (keys._pairs[-1] if keys._pairs else keys._columns[0].table).reserve(len(columns[0]))
        keys.encode_values(columns)
        return keys

    def __len__(self) -> int:
        """The number of codes."""
        return (self._pairs[-1] if self._pairs else self._columns[0].table).given

    @property
    def nbytes(self) -> int:
        size = self._ordered[0].nbytes + self._ordered[1].nbytes
        for table in self._pairs:
            size += table.nbytes
        for column in self._columns:
            size += column.table.nbytes
        return size

    def encode(self, columns: Sequence[pa.Array], threads: int = 1, how: Share = SHARE) -> Codes:
        """The code of each row; several ``threads`` look up known keys together.

        Columns of other types or of different lengths raise before anything changes.
        """
        types = list(map(_TYPE, columns))
        if types != self._types:
            raise TypeError(f"the key columns have types {_listed(types)}; allowed are {_listed(self._types)}")
        if len(set(map(len, columns))) > 1:
            raise ValueError(f"the key columns have {_listed(map(len, columns))} rows; they must be equally long")
        return self.encode_values(columns, threads, how)

    def columns(self, codes: Ints) -> list[pa.Array | pa.ChunkedArray]:
        """The keys of ``codes``, in the types of the key columns; views become ``string`` and ``binary``."""
        return list(map(typed, self._columns, self._column_ids(codes), self._result_types))

    def ranks(self, codes: Ints) -> Ints:
        """The rank (0..n-1) of each of distinct codes by key, column by column.

        Ascending, null first, NaN last, text by bytes. While no key is new, ranking most codes needs no sort.
        """
        if codes.size * 4 < len(self):
            return inverse(self.order(codes))
        in_order, _ = self._whole_order()
        held = np.zeros(len(self), np.int64)
        held[codes] = 1
        held = held[in_order]
        rank = np.empty(len(self), np.int64)
        rank[in_order] = np.cumsum(held) - held
        return rank[codes]

    def order(self, codes: Ints) -> Ints:
        """The positions of distinct codes in the order of their keys: the inverse of ``ranks``."""
        size = len(self)
        if codes.size * 4 < size:
            known = self._ordered[1]
            return np.argsort(known[codes]) if known.size == size else _order(self._sort_keys(codes))
        in_order, _ = self._whole_order()
        if codes.size == size and (codes[1:] > codes[:-1]).all():
            return in_order
        if codes.size < FEW_CELLS:
            place = np.full(size, -1)
            place[codes] = np.arange(codes.size)
            place = place.take(in_order)
            return place.take((place >= 0).nonzero()[0])
        places, out = np.full(size, -1, np.int32), np.empty(codes.size + 1, np.int64)
        chosen_in_order(in_order, np.ascontiguousarray(codes), places, out)  # 8000 of 20,000: 108 -> 36 us
        return out[:-1]

    def order_of_groups(self, codes: Ints, each: Ints) -> Ints:
        """The positions in ``codes``, group by group (``each``: the size of each group), and within a group by key.

        The codes of a group are distinct. Many groups with many of the keys: one pass over all keys for each group, 10
        -> 3 ns a cell.
        """
        rank = self._whole_order()[1]
        size = rank.size
        if SPARSE * codes.size < size * each.size:
            group = np.arange(each.size).repeat(each)
            if each.size * size >= 1 << 32:
                return order_by(rank[codes].astype(np.int64), group)
            return order_by(group * size + rank[codes])
        if codes.size < FEW_CELLS:
            place = np.full((each.size, size), -1)
            place[np.arange(each.size).repeat(each), rank[codes]] = np.arange(codes.size)
            return place[place >= 0]
        out = np.empty(codes.size + 1, np.int64)
        by_rank(codes, each, rank, np.zeros(size, np.int64), out)
        return out[:-1]

    def places(self, codes: Ints) -> Ints:
        """For each code, a number that orders by key; codes may repeat."""
        if SPARSE * codes.size < len(self):
            return ranks_among(codes, self)
        return self._whole_order()[1].take(codes).astype(np.int64)

    def _whole_order(self) -> tuple[Ints, Codes]:
        """All codes in the order of their keys, and the place of each code in it."""
        if self._ordered[0].size != len(self):
            keys, known = self._sort_keys(np.arange(len(self))), self._ordered[0]
            few = len(keys) == 1 and GROWN * known.size > len(self)
            order = _with_more(keys[0], known) if few else _order(keys)
            self._ordered = order, inverse(order).astype(np.int32)
        return self._ordered

    def hashes(self, codes: Ints) -> Unsigned:
        """A hash of each key: equal in every process and in every version of the state's format."""
        hashed = np.zeros(codes.size, np.uint64)
        for column, ids in zip(self._columns, self._column_ids(codes), strict=True):
            hash_words(column.hashes()[ids], hashed)
        return hashed

    def table(self) -> pa.Table:
        """All keys by code, one column each; :meth:`of` builds an equal table from them."""
        values = self.values(np.arange(len(self)))
        return pa.table(values, names=list(map(str, range(len(values)))))

    def compact(self, live: Ints) -> KeyTable:
        """A table of only the ``live`` codes, in which the new code of live[i] is i."""
        table = KeyTable(self._types)
        table.encode_values(self.values(live))
        return table

    def as_it_was(self, known: int, rebuild: bool = False) -> KeyTable:
        """The table as it was when it had ``known`` keys: keys come in place, and the caller does not keep the new
        ones. ``rebuild``: also if no key has come, as an interrupt may have left one half written."""
        return self if len(self) == known and not rebuild else self.compact(np.arange(known))

    def recoded(self, other: KeyTable) -> Ints:
        """The code in this table of each code of another table."""
        return self.encode_values(other.values(np.arange(len(other)))).astype(np.int64)

    def encode_values(self, columns: Sequence[pa.Array], threads: int = 1, how: Share = SHARE) -> Codes:
        """``encode`` for columns in the form that ``values`` returns."""
        if len(columns[0]) == 0:
            return np.empty(0, np.int32)
        codes = self._columns[0].encode(columns[0], threads, how)
        for pairs, array, column in zip(self._pairs, columns[1:], self._columns[1:], strict=True):
            words = _paired(codes, column.encode(array, threads, how))
            codes = pairs.encode(words, words.size, threads=threads, how=how)
        return codes

    def _column_ids(self, codes: Ints) -> list[Ints]:
        ids = []
        for pairs in reversed(self._pairs):
            words = pairs.keys[codes]
            ids.append(words & _LOW_HALF)
            codes = words >> 32
        return [codes, *reversed(ids)]

    def values(self, codes: Ints) -> list[pa.Array]:
        """The keys of ``codes``. Dictionary columns are decoded: their indices may be too narrow for all keys."""
        return [column.values(ids) for column, ids in zip(self._columns, self._column_ids(codes), strict=True)]

    def _sort_keys(self, codes: Ints) -> list[Array]:
        """Sort keys for np.lexsort: the most significant last."""
        columns = list(zip(self._columns, self._column_ids(codes), strict=True))
        return [key for column, ids in reversed(columns) for key in column.sort_keys(ids)]


def _paired(first: Codes, second: Codes) -> Ints:
    """Two ids as one word."""
    words = np.empty(first.size, np.int64)
    halves = words.view(np.int32).reshape(-1, 2)
    low = 0 if sys.byteorder == "little" else 1
    halves[:, low], halves[:, 1 - low] = second, first
    return words


def ranks_among(code: Ints, keys: KeyTable | None) -> Ints:
    """For each code, the rank of its key among the codes present; without keys there is one group."""
    if keys is None:
        return np.zeros(code.size, np.int64)
    if FEWER * code.size < len(keys):
        present = distinct(code)
        return keys.ranks(present)[np.searchsorted(present, code)]
    present = np.flatnonzero(np.bincount(code, minlength=len(keys)))
    rank = np.zeros(len(keys), np.int64)
    rank[present] = keys.ranks(present)
    return rank[code]


def _with_more(key: Array, known: Ints) -> Ints:
    """The order of all keys, given the order ``known`` of the first ones: few new keys of 20,000 0.5 -> 0.15 ms."""
    more = known.size + _order([key[known.size :]])
    return np.insert(known, key.take(known).searchsorted(key.take(more), "right"), more)


def _order(keys: list[Array]) -> Ints:
    if len(keys) > 1 and keys[0].size < FEW_CELLS:
        return np.lexsort(keys)
    if len(keys) > 1:  # a million keys of a text and two integers: 255 -> 77 ms
        return order_by(*map(_words, keys))
    (key,) = keys
    return stable_order(key) if key.size >= FEW_CELLS and key.dtype.kind in "iu" else np.argsort(key)


def _words(key: Array) -> Ints:
    """A sort key as integers of the same order."""
    if key.dtype == np.uint64:
        return (key ^ SIGN_BIT.view(np.uint64)).view(np.int64)
    return key.astype(np.int64, copy=False)


def _listed(things: Iterable[Any]) -> str:
    return ", ".join(map(str, things))
