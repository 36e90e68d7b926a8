"""Tables and several byte strings packed into one byte string, and unpacked."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import pyarrow as pa

_LENGTH = struct.Struct("<Q")
Piece = bytes | memoryview  # of a byte string


def bundled(parts: Iterable[Piece]) -> bytes:
    return b"".join(part for s in parts for part in (_LENGTH.pack(len(s)), s))


def in_pieces(parts: Iterable[Piece | Sequence[Piece]]) -> list[Piece]:
    """The pieces of what ``bundled`` returns, without a copy; a part may be in pieces, too."""
    out: list[Piece] = []
    for part in parts:
        pieces = [part] if isinstance(part, (bytes, memoryview)) else part
        out += [_LENGTH.pack(sum(map(len, pieces))), *pieces]
    return out


def unbundled(bundle: bytes | memoryview) -> list[memoryview]:
    view, at, found = memoryview(bundle), 0, []
    while at < len(view):
        (length,) = _LENGTH.unpack(view[at : at + _LENGTH.size])
        at += _LENGTH.size
        found.append(view[at : at + length])
        at += length
    return found


def table_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    return bytes(table_view(table))


def table_view(table: pa.Table, packed: bool = False) -> memoryview:
    """A table as an Arrow IPC stream, not copied once more; ``packed``: columns are compressed with lz4, on one
    thread."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if packed else None, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()).cast("B")


def table_of(stream: bytes | memoryview, columns: list[int] | None = None) -> pa.Table:
    """The table, or only some of its columns: the others are not decompressed."""
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    return pa.ipc.open_stream(stream, options=options).read_all()


def schema_of(stream: bytes | memoryview) -> pa.Schema:
    """The schema of a table."""
    return pa.ipc.open_stream(stream).schema
