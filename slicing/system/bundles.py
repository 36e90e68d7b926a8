"""Tables, and several strings of bytes, as one string of bytes; and back."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa

_LENGTH = struct.Struct("<Q")


def bundled(parts: Iterable[bytes | memoryview]) -> bytes:
    return b"".join(part for s in parts for part in (_LENGTH.pack(len(s)), s))


def unbundled(bundle: bytes | memoryview) -> list[memoryview]:
    view, at, found = memoryview(bundle), 0, []
    while at < len(view):
        (length,) = _LENGTH.unpack(view[at : at + _LENGTH.size])
        at += _LENGTH.size
        found.append(view[at : at + length])
        at += length
    return found


def table_bytes(table: pa.Table, packed: bool = False) -> bytes:
    """A table as an Arrow IPC stream; ``packed``: each of its columns with lz4, on one thread."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if packed else None, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table_of(stream: bytes | memoryview, columns: list[int] | None = None) -> pa.Table:
    """The table, or some of its columns, the others left packed."""
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    return pa.ipc.open_stream(stream, options=options).read_all()


def schema_of(stream: bytes | memoryview) -> pa.Schema:
    """The columns of a table."""
    return pa.ipc.open_stream(stream).schema
