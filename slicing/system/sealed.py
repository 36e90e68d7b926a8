"""Sealed bytes: a JSON header and content, each with a checksum; they are read completely or refused.

    magic, format version, length and checksum of the header | header (JSON) | content, lz4 unless already packed

The header can be read alone, from the first bytes. Its checksum, the *mark*, also covers the content, whose checksum is
in the header.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.kernels.checksum import mix

_HEAD = struct.Struct("<8sII16s")  # magic, format, bytes of the header, its checksum
_STEP = 32  # bytes
_SEEDS = tuple(range(1, 5))
_NONE = bytes(16)  # replaces a checksum while the header is measured


class SealError(ValueError):
    """The bytes are damaged or of another kind."""


def sealed(
    magic: bytes, version: int, header: dict[str, Any], content: Sequence[bytes | memoryview], packed: bool = False
) -> tuple[bytearray, str]:
    """The sealed bytes and their mark; the content is in pieces. ``packed``: do not compress it."""
    body = content if packed else [pa.Codec("lz4").compress(b"".join(content), asbytes=True)]
    size = sum(map(len, body))
    header = header | {"bytes": sum(map(len, content)), "packed": size, "checksum": _NONE.hex()}
    if packed:
        header["as_is"] = True
    first = _HEAD.size + len(json.dumps(header))
    first += -first % _STEP  # aligned, so that the content can be read as words
    data = bytearray(first + size)
    view, at = memoryview(data), first
    for piece in body:
        view[at : at + len(piece)] = piece
        at += len(piece)
    header["checksum"] = _checksum_of_many(view[first:]).hex()
    text = json.dumps(header).encode().ljust(first - _HEAD.size)
    mark = checksum(text)
    view[:first] = _HEAD.pack(magic, version, len(text), mark) + text
    return data, mark.hex()


def header_of(
    magic: bytes, version: int, data: bytes | memoryview, what: str
) -> tuple[dict[str, Any], bytes | memoryview]:
    """The header (with the mark and the packed size of the content), and the bytes that follow it."""
    if len(data) < _HEAD.size or data[:8] != magic:
        raise SealError(f"{what} was not written by this library, or is damaged (it does not begin as one)")
    _, found, length, mark = _HEAD.unpack(data[: _HEAD.size])
    text = bytes(data[_HEAD.size : _HEAD.size + length])
    if found != version:
        raise SealError(f"{what} has format {found}; this version of the library reads {version}")
    if len(text) != length or checksum(text) != mark:
        raise SealError(f"{what} is damaged: the checksum of its header does not match")
    return json.loads(text) | {"mark": mark.hex()}, data[_HEAD.size + length :]


def content_of(header: dict[str, Any], body: bytes | memoryview, what: str) -> bytes | memoryview:
    if _checksum_of_many(body).hex() != header["checksum"]:
        raise SealError(f"{what} is damaged: the checksum of its content does not match")
    if header.get("as_is"):
        return body
    content: bytes = pa.Codec("lz4").decompress(body, header["bytes"], asbytes=True)
    return content


def checksum(*pieces: bytes | memoryview) -> bytes:
    """A checksum of pieces that follow each other."""
    found = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        found.update(piece)
    return found.digest()


def _checksum_of_many(data: bytes | memoryview) -> bytes:
    """A checksum of four sums over all whole steps, the remaining bytes and the length: detects damage, not malice."""
    size, sums = len(data) // _STEP * _STEP, np.array(_SEEDS, np.uint64)
    view = memoryview(data)
    if size:
        mix(np.frombuffer(view[:size], "<u8"), sums)
    return checksum(sums.astype("<u8").tobytes() + bytes(view[size:]) + len(data).to_bytes(8, "little"))
