"""Key columns to dense codes, stable across batches, forgotten when unused.

Each column has a table of its distinct values (``key_columns``). A pair of ids is a word again, so several columns
combine two by two.
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
from slicing.columns.order import distinct, inverse, order_by
from slicing.columns.values import given_out
from slicing.kernels.cells import by_rank
from slicing.kernels.table import hash_words
from slicing.system.arrays import Array, Codes, Ints, Unsigned
from slicing.system.threads import SHARE, Share

FEW = 4096  # cells that are not worth a kernel
SPARSE = 4  # times fewer codes than keys have all groups together, or more, are sorted
FEWER = 16  # times fewer codes than keys are sorted, and not counted
GROWN = 2  # times as many keys as were in order, or more, are all sorted again
_UNKNOWN = np.empty(0, np.int64), np.empty(0, np.int32)
_TYPE = attrgetter("type")
_LOW_HALF = np.int64(0xFFFFFFFF)


class KeyTable:
    """Key columns -> dense codes: a new key gets the next code, in order of first appearance; those of a dictionary in
    its own.

    Null is a value of its own in every column, -0.0 is 0.0, and all NaN are one.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        for position, type in enumerate(types):
            check_key_type(str(position), type)
        self._types, self._given_out = list(types), list(map(given_out, types))
        self._begin(list(map(column_of, types)))

    def _begin(self, columns: list[Column]) -> None:
        self._columns = columns
        self._pairs = [WordTable() for _ in columns[1:]]
        self._ordered: tuple[Ints, Codes] = _UNKNOWN  # once most were asked for

    def begun(self) -> KeyTable:
        """One of the same columns, without keys: 11 -> 5 us."""
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
        """The number of codes given out."""
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
        """The code of each row; ``threads`` look known words up together.

        Columns of other types or lengths are refused before anything changes.
        """
        types = list(map(_TYPE, columns))
        if types != self._types:
            raise TypeError(f"the key columns have types {_listed(types)}; allowed are {_listed(self._types)}")
        if len(set(map(len, columns))) > 1:
            raise ValueError(f"the key columns have {_listed(map(len, columns))} rows; they must be equally long")
        return self.encode_values(columns, threads, how)

    def columns(self, codes: Ints) -> list[pa.Array | pa.ChunkedArray]:
        """The keys of ``codes``, in the types they came in; views as ``string`` and ``binary``."""
        return list(map(typed, self._columns, self._column_ids(codes), self._given_out))

    def ranks(self, codes: Ints) -> Ints:
        """Positions 0..n-1 of distinct codes in the order of their keys, column by column.

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
        """Where each of distinct codes is among them, in the order of their keys: what ``ranks`` is the inverse of."""
        size = len(self)
        if codes.size * 4 < size:
            known = self._ordered[1]
            return np.argsort(known[codes]) if known.size == size else _order(self._sort_keys(codes))
        in_order, _ = self._whole_order()
        if codes.size == size and (codes[1:] > codes[:-1]).all():
            return in_order
        place = np.full(size, -1)
        place[codes] = np.arange(codes.size)
        place = place.take(in_order)
        return place.take((place >= 0).nonzero()[0])

    def order_of_groups(self, codes: Ints, each: Ints) -> Ints:
        """Positions in ``codes``, group by group (``each``: how many each has), and in each in the order of the keys.

        The codes of a group are distinct. Many groups of many of the keys by a pass over all keys a group: 10 -> 3 ns a
        cell.
        """
        rank = self._whole_order()[1]
        size = rank.size
        if SPARSE * codes.size < size * each.size:
            group = np.arange(each.size).repeat(each)
            if each.size * size >= 1 << 32:
                return order_by(rank[codes].astype(np.int64), group)
            return order_by(group * size + rank[codes])
        if codes.size < FEW:
            place = np.full((each.size, size), -1)
            place[np.arange(each.size).repeat(each), rank[codes]] = np.arange(codes.size)
            return place[place >= 0]
        out = np.empty(codes.size + 1, np.int64)
        by_rank(codes, each, rank, np.zeros(size, np.int64), out)
        return out[:-1]

    def places(self, codes: Ints) -> Ints:
        """Numbers in the order of the keys of codes, which may come several times."""
        if SPARSE * codes.size < len(self):
            return ranks_among(codes, self)
        return self._whole_order()[1].take(codes).astype(np.int64)

    def _whole_order(self) -> tuple[Ints, Codes]:
        """All codes in the order of their keys, and the place of each in it."""
        if self._ordered[0].size != len(self):
            keys, known = self._sort_keys(np.arange(len(self))), self._ordered[0]
            few = len(keys) == 1 and GROWN * known.size > len(self)
            order = _with_more(keys[0], known) if few else _order(keys)
            self._ordered = order, inverse(order).astype(np.int32)
        return self._ordered

    def hashes(self, codes: Ints) -> Unsigned:
        """A hash of each key that is the same in every process and for every version of the state's format."""
        hashed = np.zeros(codes.size, np.uint64)
        for column, ids in zip(self._columns, self._column_ids(codes), strict=True):
            hash_words(column.hashes()[ids], hashed)
        return hashed

    def table(self) -> pa.Table:
        """All keys by code, a column each: of these ``of`` makes the same again."""
        values = self.values(np.arange(len(self)))
        return pa.table(values, names=list(map(str, range(len(values)))))

    def compact(self, live: Ints) -> KeyTable:
        """A table of the ``live`` codes alone, in which live[i] is i."""
        table = KeyTable(self._types)
        table.encode_values(self.values(live))
        return table

    def recoded(self, other: KeyTable) -> Ints:
        """The code here of each code of another table."""
        return self.encode_values(other.values(np.arange(len(other)))).astype(np.int64)

    def encode_values(self, columns: Sequence[pa.Array], threads: int = 1, how: Share = SHARE) -> Codes:
        """``encode`` of columns as ``values`` gives them."""
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
        """The keys of ``codes``; of a dictionary column the values: its dictionary may be too narrow for all keys."""
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


def _with_more(key: Array, known: Ints) -> Ints:
    """The order of all keys, where that of the first ones is ``known``: few new ones of 20,000 0.5 -> 0.15 ms."""
    more = known.size + np.argsort(key[known.size :])
    return np.insert(known, key.take(known).searchsorted(key.take(more), "right"), more)


def _order(keys: list[Array]) -> Ints:
    return np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys)


def _listed(things: Iterable[Any]) -> str:
    return ", ".join(map(str, things))
