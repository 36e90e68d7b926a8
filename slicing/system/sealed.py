"""Sealed bytes: a JSON header and content, each with its checksum, that are read whole or refused.

    magic, format version, length and checksum of the header | header (JSON) | content, lz4

The header can be read alone, from the first bytes. Its checksum, the *mark*, stands for the content too.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pyarrow as pa

_HEAD = struct.Struct("<8sII16s")  # magic, format, bytes of the header, its checksum


class SealError(ValueError):
    """Bytes that are damaged, or not what they should be."""


def sealed(magic: bytes, version: int, header: dict[str, Any], content: bytes) -> tuple[bytes, str]:
    """The bytes, and their mark."""
    body = pa.Codec("lz4").compress(content, asbytes=True)
    header = header | {"bytes": len(content), "packed": len(body), "checksum": _checksum(body).hex()}
    text = json.dumps(header).encode()
    checksum = _checksum(text)
    return b"".join((_HEAD.pack(magic, version, len(text), checksum), text, body)), checksum.hex()


def header_of(magic: bytes, version: int, data: bytes, what: str) -> tuple[dict[str, Any], bytes]:
    """The header, with the mark and the packed size of the content in it, and what follows it."""
    if len(data) < _HEAD.size or data[:8] != magic:
        raise SealError(f"{what} was not written by this library, or is damaged (it does not begin as one)")
    _, found, length, checksum = _HEAD.unpack(data[: _HEAD.size])
    text = data[_HEAD.size : _HEAD.size + length]
    if found != version:
        raise SealError(f"{what} has format {found}; this version of the library reads {version}")
    if len(text) != length or _checksum(text) != checksum:
        raise SealError(f"{what} is damaged: the checksum of its header does not match")
    return json.loads(text) | {"mark": checksum.hex()}, data[_HEAD.size + length :]


def content_of(header: dict[str, Any], body: bytes, what: str) -> bytes:
    if _checksum(body).hex() != header["checksum"]:
        raise SealError(f"{what} is damaged: the checksum of its content does not match")
    content: bytes = pa.Codec("lz4").decompress(body, header["bytes"], asbytes=True)
    return content


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
