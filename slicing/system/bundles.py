"""Tables, and several strings of bytes, as one string of bytes; and back."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa

_LENGTH = struct.Struct("<Q")


def bundled(parts: Iterable[bytes]) -> bytes:
    return b"".join(part for s in parts for part in (_LENGTH.pack(len(s)), s))


def unbundled(bundle: bytes | memoryview) -> list[memoryview]:
    view, at, found = memoryview(bundle), 0, []
    while at < len(view):
        (length,) = _LENGTH.unpack(view[at : at + _LENGTH.size])
        at += _LENGTH.size
        found.append(view[at : at + length])
        at += length
    return found


def table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table_of(stream: bytes | memoryview) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
