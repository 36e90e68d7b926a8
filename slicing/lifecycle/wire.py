"""Partial slices on their way between processes: the cells of each place as words, one after the other.

    how many cells, how many keys, the bytes of each key column | words | key columns

The bytes of all places are cut from one table that is sorted by place. A place joins the bytes of all senders before it
converts them. So a pair of a sender and a place costs only a few slices of bytes on either side. In place of a cell's
code is the number of its key among the keys of the piece.

Only for plans whose partials have a fixed size and mean the same everywhere. Other plans send snapshots.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.table import Cells, fused, sorted_cells
from slicing.columns.values import has_offsets
from slicing.kernels.cells import CODE
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.system.arrays import Ints

Bytes = bytes | memoryview


def fits(plan: Plan) -> bool:
    """Whether a plan's cells can be sent as words."""
    fixed = all(isinstance(lane.kind, int) for lane in plan.lanes) and not plan.ranked
    return fixed and not any(pa.types.is_null(type) for type in plan.key_types)


# --- out --------------------------------------------------------------------------------------------------------------


def cut(state: State, count: int) -> list[bytes]:
    """For each of ``count`` places the cells of its keys; empty bytes if there are none."""
    cells = state.store.consolidated().table()
    if state.keys is None:
        whole = struct.pack("<II", len(cells), 0) + _words(cells, cells.code)
        return [whole if len(cells) else b""] + [b""] * (count - 1)
    codes = np.arange(len(state.keys))
    place = (state.keys.hashes(codes) % np.uint64(count)).astype(np.int64)
    keys = np.argsort(place, kind="stable")
    first_key = _firsts(place, count)
    number = np.empty(keys.size, np.int64)
    number[keys] = codes - first_key[place[keys]]
    of_cell = place[cells.code]
    order = np.argsort(of_cell, kind="stable")
    sent = cells.take(order)
    words = memoryview(_words(sent, number[sent.code]))
    width = len(words) // max(len(cells), 1)
    columns = [_column(array) for array in state.keys.values(keys)]
    head = struct.Struct("<II" + len(columns) * "Q")
    out = []
    of_cells, of_keys = _firsts(of_cell, count).tolist(), first_key.tolist()
    for p in range(count):
        first, last = of_cells[p : p + 2]
        if first == last:
            out.append(b"")
            continue
        pieces = [column.cut(of_keys[p], of_keys[p + 1]) for column in columns]
        sizes = [sum(map(len, piece)) for piece in pieces]
        counts = head.pack(last - first, of_keys[p + 1] - of_keys[p], *sizes)
        parts: list[Bytes] = [counts, words[first * width : last * width]]
        out.append(b"".join([*parts, *(part for piece in pieces for part in piece)]))
    return out


def _firsts(place: Ints, count: int) -> Ints:
    """Where each place begins in items sorted by place, and where the last one ends."""
    return np.append(0, np.cumsum(np.bincount(place, minlength=count)))


def _words(cells: Cells, numbers: Ints) -> bytes:
    meta = cells.meta.copy()
    meta[:, CODE] = numbers
    return np.hstack([meta, *cells.blocks]).tobytes()


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
    plain = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
    width, buffer = plain.type.bit_width // 8, plain.buffers()[1]
    values = memoryview(b"" if buffer is None else buffer)
    return _Values(valid, values[plain.offset * width :], width)


# --- in ---------------------------------------------------------------------------------------------------------------


def joined(state: State, pieces: Sequence[Bytes]) -> Cells:
    """The cells that several senders have cut for a place, in the codes of the state. Its key table learns new keys."""
    plan, keys = state.plan, state.keys
    if not pieces:
        return plan.no_cells
    widths = [plan.meta_words, *(block.shape[1] for block in plan.no_cells.blocks)]
    types = [] if keys is None else [array.type for array in keys.values(np.empty(0, np.int64))]
    head = struct.Struct("<II" + len(types) * "Q")
    cells, counts = [], []
    columns: list[list[Bytes]] = [[] for _ in types]
    for view in pieces:
        piece = memoryview(view)
        found, known, *sizes = head.unpack_from(piece)
        at = head.size + 8 * sum(widths) * found
        cells.append(piece[head.size : at])
        counts.append((found, known))
        for column, size in zip(columns, sizes, strict=True):
            column.append(piece[at : at + size])
            at += size
    words = np.frombuffer(b"".join(cells), np.int64).reshape(-1, sum(widths))
    meta, *blocks = np.split(words, np.cumsum(widths)[:-1], axis=1)
    meta = meta.copy()
    if keys is not None:
        found_cells, known_keys = np.array(counts, np.int64).T
        arrays = [_array(type, c, known_keys.tolist()) for type, c in zip(types, columns, strict=True)]
        codes = keys.encode_values(arrays)
        first = np.repeat(np.cumsum(known_keys) - known_keys, found_cells)
        meta[:, CODE] = codes[meta[:, CODE] + first]
    table = Cells(meta, tuple(np.ascontiguousarray(block) for block in blocks))
    return fused(sorted_cells(table), plan.lanes, plan.gaps)


def _array(type: pa.DataType, parts: Sequence[Bytes], counts: Sequence[int]) -> pa.Array:
    """The values of all pieces, one after the other."""
    pairs = [(memoryview(part), n) for part, n in zip(parts, counts, strict=True)]
    valid = np.frombuffer(b"".join([part[:n] for part, n in pairs]), np.uint8)
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
