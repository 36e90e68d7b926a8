"""Partial slices on their way between processes: the cells of each place as words, one after the other.

    how many cells, keys, and values of each ranked column; the bytes of each key column, values and items
    meta | words of each lane | key columns | values of ranked columns | items of lists

The bytes of all places are cut from one table that is sorted by place. A place joins the bytes of all senders before it
converts them. So a pair of a sender and a place costs only a few slices of bytes on either side. In place of a cell's
code is the number of its key among the keys of the piece. In place of a rank is the number of its value among the
values of the piece. In place of a list is how many items it has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from slicing.cells.blocks import Block
from slicing.cells.lists import Lists
from slicing.cells.ranked import CellOf, map_ranks
from slicing.cells.table import Cells, fused, sorted_cells
from slicing.columns.arrow_out import array_of
from slicing.columns.bits import present
from slicing.columns.order import distinct, stable_order
from slicing.columns.pools import ranks
from slicing.columns.types import has_offsets
from slicing.kernels.cells import CODE
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import Ints
from slicing.system.bundles import Piece


def _head(keys: int, values: int, lists: int) -> struct.Struct:
    return struct.Struct(f"<II{values * 'I'}{(keys + values + lists) * 'Q'}")


# --- out --------------------------------------------------------------------------------------------------------------


class _Column(Protocol):
    def cut(self, first: int, last: int) -> list[memoryview]:
        """The bytes of some items."""


def cut(state: State, count: int) -> list[bytes]:
    """For each of ``count`` places the cells of its keys; empty bytes if there are none."""
    cells, plan = state.store.consolidated().table(), state.plan
    some = count if state.keys is not None else 1  # places that may get cells
    keys: list[pa.Array] = []
    if state.keys is None:
        place, first_key, meta = np.zeros(len(cells), np.int64), np.zeros(2, np.int64), cells.meta
    else:
        place_of = (state.keys.hashes(np.arange(len(state.keys))) % np.uint64(count)).astype(np.int64)
        by_place, first_key = stable_order(place_of), _firsts(place_of, count)
        number = np.empty(by_place.size, np.int64)
        number[by_place] = np.arange(by_place.size) - first_key[place_of[by_place]]
        keys = state.keys.values(by_place)
        place, code = place_of[cells.code], cells.code
        if count > 1:
            order = stable_order(place)
            cells, place, code = cells.take(order), place.take(order), code.take(order)
        meta = cells.meta.copy()
        meta[:, CODE] = number[code]
    first_cell = _firsts(place, some)
    known = [first_cell, first_key]
    columns: list[tuple[_Column, list[int]]] = [(_column(array), first_key.tolist()) for array in keys]
    for name in plan.ranked:
        cells, values, first_value = _own_values(plan, cells, place, name, state.pools[name], some)
        known.append(first_value)
        columns.append((_column(values), first_value.tolist()))
    tables = [(_Words.of(meta), first_cell.tolist())]
    for block in cells.blocks:
        if isinstance(block, Lists):
            lists = block.whole()
            columns.append((_Words.of(lists.items), lists.at[first_cell].tolist()))
            block = np.diff(lists.at)[:, None]
        tables.append((_Words.of(block), first_cell.tolist()))
    head = _head(len(keys), len(plan.ranked), len(columns) - len(keys) - len(plan.ranked))
    counts = np.diff(np.array(known)).T.tolist()
    out = [b""] * count
    for p in range(some):
        if counts[p][0]:
            words = [part for column, first in tables for part in column.cut(first[p], first[p + 1])]
            others = [column.cut(first[p], first[p + 1]) for column, first in columns]
            sizes = [sum(map(len, parts)) for parts in others]
            out[p] = b"".join([head.pack(*counts[p], *sizes), *words, *(part for parts in others for part in parts)])
    return out


def _own_values(
    plan: Plan, cells: Cells, place: Ints, name: str, pool: pa.Array, count: int
) -> tuple[Cells, pa.Array, Ints]:
    """Number a ranked column's values anew in each place. Returns the cells, the values of all places, one after the
    other, and where each place begins."""
    size = max(len(pool), 1)  # a null has rank 0, even if there are no values at all
    parts: list[Ints] = []

    def gather(words: Ints, complemented: bool, cell: CellOf) -> Ints:
        parts.append(place[cell()] * size + (~words if complemented else words))
        return words

    map_ranks(plan.lanes, cells, name, gather)
    used = distinct(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    first = used.searchsorted(np.arange(count + 1) * size)

    def renumbered(words: Ints, complemented: bool, cell: CellOf) -> Ints:
        of = place[cell()]
        found = used.searchsorted(of * size + (~words if complemented else words)) - first[of]
        return ~found if complemented else found

    cells = map_ranks(plan.lanes, cells, name, renumbered, ties=not plan.arrival)
    if not len(pool):
        return cells, pool, np.zeros(count + 1, np.int64)
    return cells, pool.take(array_of(used % size)), first


def _firsts(place: Ints, count: int) -> Ints:
    """Where each place begins in items sorted by place, and where the last one ends."""
    return np.append(0, np.cumsum(np.bincount(place, minlength=count)))


class _Words(NamedTuple):
    """Rows of words as bytes."""

    data: memoryview
    width: int

    @staticmethod
    def of(table: Ints) -> _Words:
        return _Words(np.ascontiguousarray(table).view(np.uint8).reshape(-1).data, 8 * table.shape[1])

    def cut(self, first: int, last: int) -> list[memoryview]:
        return [self.data[first * self.width : last * self.width]]


class _Values(NamedTuple):
    """A key column as bytes, with values of one size: which values are not null, and the values."""

    valid: memoryview
    values: memoryview
    width: int

    def cut(self, first: int, last: int) -> list[memoryview]:
        """The values of some keys."""
        return [self.valid[first:last], self.values[first * self.width : last * self.width]]


class _Texts(NamedTuple):
    """A key column of texts as bytes: which texts are not null, how long they are, and the texts."""

    valid: memoryview
    lengths: memoryview
    texts: memoryview
    starts: list[int]

    def cut(self, first: int, last: int) -> list[memoryview]:
        """The texts of some keys."""
        lengths, texts = self.lengths[4 * first : 4 * last], self.texts[self.starts[first] : self.starts[last]]
        return [self.valid[first:last], lengths, texts]


def _column(array: pa.Array) -> _Values | _Texts:
    valid = memoryview(present(array).tobytes())
    if has_offsets(array.type):
        array = array.cast(pa.large_binary())
        _, starts, texts = array.buffers()
        found = np.frombuffer(starts, np.int64, len(array) + 1, 8 * array.offset)
        lengths = memoryview(np.diff(found).astype(np.uint32).tobytes())
        return _Texts(valid, lengths, memoryview(b"" if texts is None else texts), found.tolist())
    if pa.types.is_null(array.type):
        return _Values(valid, memoryview(b""), 0)
    plain = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
    width, buffer = plain.type.bit_width // 8, plain.buffers()[1]
    values = memoryview(b"" if buffer is None else buffer)
    return _Values(valid, values[plain.offset * width :], width)


# --- in ---------------------------------------------------------------------------------------------------------------


def joined(state: State, *groups: Sequence[Piece]) -> tuple[State, list[Cells]]:
    """The cells of each group of pieces that several senders have cut for a place, in the codes and ranks of the state.

    The state learns all their keys and values first, as new values move the ranks of others.
    """
    read = [_Group.of(state, pieces) for pieces in groups]
    for at, name in enumerate(state.plan.ranked):
        found, pool, moved = ranks([one.values[at] for one in read], state.pools[name], state.ranks_kept(name))
        if not np.array_equal(moved, np.arange(moved.size)):
            state = state.reranked(name, moved)
        state = state.but(pools=state.pools | {name: pool})
        read = [one.reranked(state.plan, at, rank) for one, rank in zip(read, found, strict=True)]
    return state, [fused(sorted_cells(one.cells), state.plan.lanes, state.plan.gaps) for one in read]


class _Group(NamedTuple):
    """Pieces of several senders as one table, in the codes of the state; ranks are numbers of values of their piece."""

    cells: Cells
    piece: Ints  # of each cell
    values: list[pa.Array]  # of each ranked column: the values of all pieces
    first: list[Ints]  # of each ranked column: where each piece begins in its values

    @staticmethod
    def of(state: State, pieces: Sequence[Piece]) -> _Group:
        plan, keys = state.plan, state.keys
        values = [state.pools[name].type for name in plan.ranked]
        types = [] if keys is None else [array.type for array in keys.values(np.empty(0, np.int64))]
        kinds = plan.no_cells.blocks
        widths = [plan.cells.words, *(1 if isinstance(block, Lists) else block.shape[1] for block in kinds)]
        lists = sum(isinstance(block, Lists) for block in kinds)
        head = _head(len(types), len(values), lists)
        counts = np.empty((2 + len(values), len(pieces)), np.int64)
        tables: list[list[Piece]] = [[] for _ in widths]
        columns: list[list[Piece]] = [[] for _ in range(len(types) + len(values) + lists)]
        for p, view in enumerate(pieces):
            piece, at = memoryview(view), head.size
            known = head.unpack_from(piece)
            counts[:, p] = known[: len(counts)]
            for table, width in zip(tables, widths, strict=True):
                table.append(piece[at : at + 8 * width * known[0]])
                at += 8 * width * known[0]
            for column, size in zip(columns, known[len(counts) :], strict=True):
                column.append(piece[at : at + size])
                at += size
        meta, *words = map(_words_of, tables, widths)
        piece_of = np.repeat(np.arange(len(pieces)), counts[0])
        if keys is not None:
            arrays = [_array(type, column, counts[1].tolist()) for type, column in zip(types, columns, strict=False)]
            codes = keys.encode_values(arrays)
            meta[:, CODE] = codes[meta[:, CODE] + (np.cumsum(counts[1]) - counts[1])[piece_of]]
        of_values = zip(values, columns[len(types) :], counts[2:], strict=False)
        found = [_array(type, column, sizes.tolist()) for type, column, sizes in of_values]
        items = iter(columns[len(types) + len(values) :])
        blocks: list[Block] = []
        for kind, block in zip(kinds, words, strict=True):
            if isinstance(kind, Lists):
                at_item = np.append(0, np.cumsum(block))
                blocks.append(Lists(at_item, _words_of(next(items), kind.items.shape[1])))
            else:
                blocks.append(block)
        return _Group(plan.cells(meta, tuple(blocks)), piece_of, found, [np.cumsum(c) - c for c in counts[2:]])

    def reranked(self, plan: Plan, at: int, rank: Ints) -> _Group:
        """Replace the numbers of one ranked column's values by their ranks."""

        def moved(words: Ints, complemented: bool, cell: CellOf) -> Ints:
            number = self.first[at][self.piece[cell()]] + (~words if complemented else words)
            found = rank[number] if rank.size else number * 0
            return ~found if complemented else found

        return self._replace(cells=map_ranks(plan.lanes, self.cells, plan.ranked[at], moved, ties=not plan.arrival))


def _words_of(parts: Sequence[Piece], width: int) -> Ints:
    return np.frombuffer(bytearray().join(parts), np.int64).reshape(-1, width)  # not read-only, as kernels expect


def _array(type: pa.DataType, parts: Sequence[Piece], counts: Sequence[int]) -> pa.Array:
    """The values of all pieces, one after the other."""
    pairs = [(memoryview(part), n) for part, n in zip(parts, counts, strict=True)]
    valid = np.frombuffer(b"".join([part[:n] for part, n in pairs]), np.uint8)
    if pa.types.is_null(type):
        return pa.nulls(valid.size)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    if not has_offsets(type):
        values = b"".join([part[n:] for part, n in pairs])
        if pa.types.is_boolean(type):
            return pa.Array.from_buffers(pa.uint8(), valid.size, [bits, pa.py_buffer(values)]).cast(type)
        return pa.Array.from_buffers(type, valid.size, [bits, pa.py_buffer(values)])
    lengths = np.frombuffer(b"".join([part[n : 5 * n] for part, n in pairs]), np.uint32)
    starts = np.append(0, np.cumsum(lengths, dtype=np.int64))
    texts = pa.py_buffer(b"".join([part[5 * n :] for part, n in pairs]))
    wide = pa.Array.from_buffers(pa.large_binary(), valid.size, [bits, pa.py_buffer(starts.tobytes()), texts])
    return wide.cast(type)
