"""Partial slices on their way between processes: the cells of each place as words, one after the other.

    how many cells, keys, and values of each ranked column, the bytes of each of the following columns
    words | key columns | values of ranked columns | items of lists

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
from slicing.columns.values import has_offsets, ranks
from slicing.kernels.cells import CODE
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import Ints

Bytes = bytes | memoryview


def _head(keys: int, values: int, lists: int) -> struct.Struct:
    return struct.Struct(f"<II{values * 'I'}{(keys + values + lists) * 'Q'}")


# --- out --------------------------------------------------------------------------------------------------------------


class _Column(Protocol):
    def cut(self, first: int, last: int) -> list[memoryview]:
        """The bytes of some items."""


def cut(state: State, count: int) -> list[bytes]:
    """For each of ``count`` places the cells of its keys; empty bytes if there are none."""
    cells, plan = state.store.consolidated().table(), state.plan
    columns: list[tuple[_Column, list[int]]] = []  # and where each place begins
    if state.keys is None:
        count_of_places, count = count, 1
        sent, number, of_cell = cells, cells.code, np.zeros(len(cells), np.int64)
        first_key = np.zeros(2, np.int64)
    else:
        count_of_places = count
        codes = np.arange(len(state.keys))
        place = (state.keys.hashes(codes) % np.uint64(count)).astype(np.int64)
        keys = np.argsort(place, kind="stable")
        first_key = _firsts(place, count)
        number = np.empty(keys.size, np.int64)
        number[keys] = codes - first_key[place[keys]]
        of_cell = place[cells.code]
        order = np.argsort(of_cell, kind="stable")
        sent, of_cell = cells.take(order), of_cell[order]
        number = number[sent.code]
        columns += [(_column(array), first_key.tolist()) for array in state.keys.values(keys)]
    first_cell = _firsts(of_cell, count)
    known = [first_cell, first_key]
    for name in plan.ranked:
        sent, values, first_value = _own_values(plan, sent, of_cell, name, state.pools[name], count)
        columns.append((_column(values), first_value.tolist()))
        known.append(first_value)
    tables = [np.concatenate([sent.meta[:, :CODE], number[:, None], sent.meta[:, CODE + 1 :]], axis=1)]
    for block in sent.blocks:
        if isinstance(block, Lists):
            lists = block.whole()
            tables.append(np.diff(lists.at)[:, None])
            columns.append((_Words.of(lists.items), lists.at[first_cell].tolist()))
        else:
            tables.append(block)
    words, bounds = _Words.of(np.hstack(tables)), first_cell.tolist()
    head = _head(len(plan.key_types), len(plan.ranked), len(columns) - len(plan.key_types) - len(plan.ranked))
    numbers = [np.diff(firsts).tolist() for firsts in known]
    out = []
    for p in range(count):
        if bounds[p] == bounds[p + 1]:
            out.append(b"")
            continue
        pieces = [column.cut(firsts[p], firsts[p + 1]) for column, firsts in columns]
        sizes = [sum(map(len, piece)) for piece in pieces]
        told = head.pack(*(of_place[p] for of_place in numbers), *sizes)
        out.append(
            b"".join([told, *words.cut(bounds[p], bounds[p + 1]), *(part for piece in pieces for part in piece)])
        )
    return out + [b""] * (count_of_places - count)


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
    used = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
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
        return _Words(memoryview(table.tobytes()), 8 * table.shape[1])

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
    valid = memoryview(array.is_valid().cast(pa.uint8()).to_numpy().tobytes())
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


def joined(state: State, *groups: Sequence[Bytes]) -> tuple[State, list[Cells]]:
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
    def of(state: State, pieces: Sequence[Bytes]) -> _Group:
        plan, keys = state.plan, state.keys
        values = [state.pools[name].type for name in plan.ranked]
        types = [] if keys is None else [array.type for array in keys.values(np.empty(0, np.int64))]
        kinds = plan.no_cells.blocks
        widths = [plan.meta_words, *(1 if isinstance(block, Lists) else block.shape[1] for block in kinds)]
        lists = sum(isinstance(block, Lists) for block in kinds)
        head = _head(len(types), len(values), lists)
        words: list[Bytes] = []
        counts = np.empty((2 + len(values), len(pieces)), np.int64)
        columns: list[list[Bytes]] = [[] for _ in range(len(types) + len(values) + lists)]
        for p, view in enumerate(pieces):
            piece = memoryview(view)
            told = head.unpack_from(piece)
            counts[:, p] = told[: len(counts)]
            at = head.size + 8 * sum(widths) * told[0]
            words.append(piece[head.size : at])
            for column, size in zip(columns, told[len(counts) :], strict=True):
                column.append(piece[at : at + size])
                at += size
        meta, *tables = np.split(_words_of(words, sum(widths)), np.cumsum(widths)[:-1], axis=1)
        meta = meta.copy()
        piece_of = np.repeat(np.arange(len(pieces)), counts[0])
        if keys is not None:
            arrays = [_array(type, column, counts[1].tolist()) for type, column in zip(types, columns, strict=False)]
            codes = keys.encode_values(arrays)
            meta[:, CODE] = codes[meta[:, CODE] + (np.cumsum(counts[1]) - counts[1])[piece_of]]
        known = zip(values, columns[len(types) :], counts[2:], strict=False)
        found = [_array(type, column, sizes.tolist()) for type, column, sizes in known]
        items = iter(columns[len(types) + len(values) :])
        blocks: list[Block] = []
        for kind, table in zip(kinds, tables, strict=True):
            if isinstance(kind, Lists):
                at_item = np.append(0, np.cumsum(table[:, 0]))
                blocks.append(Lists(at_item, _words_of(next(items), kind.items.shape[1])))
            else:
                blocks.append(np.ascontiguousarray(table))
        return _Group(Cells(meta, tuple(blocks)), piece_of, found, [np.cumsum(c) - c for c in counts[2:]])

    def reranked(self, plan: Plan, at: int, rank: Ints) -> _Group:
        """Replace the numbers of one ranked column's values by their ranks."""

        def moved(words: Ints, complemented: bool, cell: CellOf) -> Ints:
            number = self.first[at][self.piece[cell()]] + (~words if complemented else words)
            found = rank[number] if rank.size else number * 0
            return ~found if complemented else found

        return self._replace(cells=map_ranks(plan.lanes, self.cells, plan.ranked[at], moved, ties=not plan.arrival))


def _words_of(parts: Sequence[Bytes], width: int) -> Ints:
    return np.frombuffer(b"".join(parts), np.int64).reshape(-1, width)


def _array(type: pa.DataType, parts: Sequence[Bytes], counts: Sequence[int]) -> pa.Array:
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
