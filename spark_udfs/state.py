"""State files: what one partition remembers after one batch of one query.

    <root>/<name>/<partitions>/<partition>/<batch>.slices
    magic, format version, length and checksum of the header | header (JSON) | the operator's snapshot, lz4

A file is written under another name, synced and renamed (object stores: one put), so a version is there whole or not at
all. Every attempt at a batch writes the same bytes; the last one wins.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from slicing import Operator, SnapshotError, Spec
from slicing.partials import check, joined, split, start, state_of

MAGIC = b"SLICESTA"
FORMAT = 1
SUFFIX = ".slices"
_HEAD = struct.Struct("<8sII16s")  # magic, format, bytes of the header, its checksum
_PRUNE_EVERY = 16


class StateError(RuntimeError):
    """State that is missing, damaged, or of another query."""


@dataclass(frozen=True)
class Files:
    """The state files of one ``window_aggregate``: where they are and whose."""

    root: str
    name: str
    partitions: int
    fingerprint: str
    keep: int = 100

    def read(self, partition: int, batch: int, query: str | None) -> tuple[dict[str, Any], bytes]:
        """The header and the snapshot of a version; refused unless it is whole, and of this query and spec."""
        system, path = self._place(partition, batch)
        try:
            with system.open_input_file(path) as file:
                data = file.read()
        except FileNotFoundError:
            raise StateError(self._missing(partition, batch)) from None
        header, body = opened(data, path)
        self._check(header, path, partition, batch, query)
        if _checksum(body).hex() != header["checksum"]:
            raise StateError(f"state file {path} is damaged: the checksum of its content does not match")
        return header, pa.Codec("lz4").decompress(body, header["bytes"], asbytes=True)

    def header(self, partition: int, batch: int, query: str) -> dict[str, Any]:
        """The header alone: the first bytes of the file."""
        system, path = self._place(partition, batch)
        try:
            with system.open_input_file(path) as file:
                data = file.read(1 << 16)
        except FileNotFoundError:
            raise StateError(self._missing(partition, batch)) from None
        header, _ = opened(data, path)
        self._check(header, path, partition, batch, query)
        return header

    def restore(
        self, spec: Spec, partition: int, batch: int, query: str | None = None
    ) -> tuple[dict[str, Any], Operator]:
        """The operator as it was after a batch."""
        header, snapshot = self.read(partition, batch, query)
        try:
            return header, Operator.restore(spec, snapshot)
        except (SnapshotError, pa.ArrowException) as error:
            raise StateError(f"state file {self._place(partition, batch)[1]}: {error}") from None

    def write(self, operator: Operator, partition: int, batch: int, query: str) -> int:
        """Publish the operator's state as a version, at once and whole; how many bytes it has."""
        snapshot = operator.snapshot()
        body = pa.Codec("lz4").compress(snapshot, asbytes=True)
        header = {
            "query": query,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "partitions": self.partitions,
            "partition": partition,
            "batch": batch,
            "watermark": state_of(operator).watermark,
            "largest": state_of(operator).progress.largest,
            "bytes": len(snapshot),
            "checksum": _checksum(body).hex(),
        }
        text = json.dumps(header).encode()
        data = b"".join((_HEAD.pack(MAGIC, FORMAT, len(text), _checksum(text)), text, body))
        system, path = self._place(partition, batch)
        publish(system, path, data)
        if batch % _PRUNE_EVERY == 0:
            self._prune(partition, batch)
        return len(data)

    def versions(self, partition: int) -> list[int]:
        """The batches a partition has state of, in order."""
        system, root = filesystem(self.root)
        found = system.get_file_info(fs.FileSelector(f"{root}/{self._folder(partition)}", allow_not_found=True))
        return sorted(int(f.base_name[: -len(SUFFIX)]) for f in found if f.base_name.endswith(SUFFIX))

    def last(self) -> list[int]:
        """The batches that every partition has state of, in order."""
        common = set(self.versions(0))
        for partition in range(1, self.partitions):
            common &= set(self.versions(partition))
        return sorted(common)

    def begin(self, partition: int, query: str) -> None:
        """Before batch 0: refuse a place where another query, or this one with other partitions, keeps its state."""
        other = [n for n in partitions_found(self.root, self.name) if n != self.partitions]
        if other:
            raise StateError(
                f"{self.root}/{self.name} holds state of {other[0]} partitions; this query has "
                f"partitions={self.partitions}: give it another state= or name="
            )
        found = self.versions(partition)
        if found:
            _, path = self._place(partition, found[-1])
            header = self.header(partition, found[-1], "")
            if header["query"] != query:
                raise StateError(
                    f"state file {path} belongs to query {header['query']}, and this is query {query} (a new "
                    "checkpoint?): give it another state= or name=, or remove the old state"
                )

    # --- a drained query has ended -----------------------------------------------------------------------------------

    def drained(self) -> int | None:
        """The batch after which the query was drained."""
        system, root = filesystem(self.root)
        path = f"{root}/{self.name}/drained"
        if system.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with system.open_input_file(path) as file:
            return int(json.loads(file.read())["batch"])

    def mark_drained(self, batch: int) -> None:
        system, root = filesystem(self.root)
        publish(system, f"{root}/{self.name}/drained", json.dumps({"batch": batch}).encode())

    # --- its parts ---------------------------------------------------------------------------------------------------

    def _folder(self, partition: int) -> str:
        return f"{self.name}/{self.partitions}/{partition:05}"

    def _place(self, partition: int, batch: int) -> tuple[fs.FileSystem, str]:
        system, root = filesystem(self.root)
        return system, f"{root}/{self._folder(partition)}/{batch:012}{SUFFIX}"

    def _missing(self, partition: int, batch: int) -> str:
        where = f"{self.root}/{self._folder(partition)}"
        other = [n for n in partitions_found(self.root, self.name) if n != self.partitions]
        if other and not self.versions(partition):
            return (
                f"{self.root}/{self.name} holds state of {other[0]} partitions; this query has "
                f"partitions={self.partitions}: keep the number, or change it with spark_udfs.state.rescale"
            )
        found = self.versions(partition)
        held = f"it has {found[0]} to {found[-1]}" if found else "it has none"
        return (
            f"the state of partition {partition} after batch {batch} is missing in {where} ({held}): the state was "
            "removed or is another query's, the checkpoint is older than keep_versions allows, or an action inside "
            "foreachBatch (limit, head, show) did not run every partition"
        )

    def _check(self, header: dict[str, Any], path: str, partition: int, batch: int, query: str | None) -> None:
        wanted = {"partitions": self.partitions, "partition": partition, "batch": batch}
        for what, value in wanted.items():
            if header[what] != value:
                raise StateError(f"state file {path} was written for {what} {header[what]}, not {value}: it was moved")
        if query and header["query"] != query:
            raise StateError(f"state file {path} belongs to query {header['query']}, and this is query {query}")
        if header["fingerprint"] != self.fingerprint:
            raise StateError(
                f"state file {path} was written for another spec (fingerprint {header['fingerprint']}, this one has "
                f"{self.fingerprint}): give the changed query another state= or name="
            )

    def _prune(self, partition: int, batch: int) -> None:
        system, root = filesystem(self.root)
        folder = f"{root}/{self._folder(partition)}"
        for file in system.get_file_info(fs.FileSelector(folder)):
            unfinished = file.base_name.startswith(".")  # of an attempt that was killed
            name = file.base_name.lstrip(".").partition(SUFFIX)[0]
            if name.isdigit() and int(name) < batch - (1 if unfinished else self.keep):
                with suppress(FileNotFoundError):  # another attempt was faster
                    system.delete_file(f"{folder}/{file.base_name}")


def opened(data: bytes, path: str) -> tuple[dict[str, Any], bytes]:
    """A state file's header and body; refuses what this library did not write, or cannot read."""
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise StateError(f"{path} is not a state file of this library, or damaged (it does not begin as one)")
    _, version, length, checksum = _HEAD.unpack(data[: _HEAD.size])
    text = data[_HEAD.size : _HEAD.size + length]
    if version > FORMAT:
        raise StateError(f"state file {path} has format {version}; this version of the library reads up to {FORMAT}")
    if version != FORMAT or len(text) != length or _checksum(text) != checksum:
        raise StateError(f"state file {path} is damaged: the checksum of its header does not match")
    return json.loads(text), data[_HEAD.size + length :]


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


# --- file systems -----------------------------------------------------------------------------------------------------


def filesystem(path: str) -> tuple[fs.FileSystem, str]:
    """What opens a path or URI: a local path, whatever pyarrow knows (hdfs, s3, gs), and fsspec for the rest."""
    if path.startswith("file:") or "://" not in path:
        local = path.removeprefix("file:")
        return fs.LocalFileSystem(), os.path.abspath("/" + local.lstrip("/") if local != path else local)
    try:
        system, inside = fs.FileSystem.from_uri(path)
        return system, inside.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            import fsspec
        except ImportError:
            raise ValueError(f"{path}: pyarrow cannot open it ({error}), and fsspec is not installed") from None
        other, inside = fsspec.core.url_to_fs(path)
        return fs.PyFileSystem(fs.FSSpecHandler(other)), inside.rstrip("/")


def publish(system: fs.FileSystem, path: str, data: bytes) -> None:
    """Put a whole file in its place in one step, durable before it is seen."""
    folder, name = os.path.split(path)
    spare = f"{folder}/.{name}.{uuid.uuid4().hex}"
    if isinstance(system, fs.LocalFileSystem):
        os.makedirs(folder, exist_ok=True)
        with open(spare, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(spare, path)
        return
    if system.type_name != "hdfs":  # an object store shows a file when its put is complete
        system.create_dir(folder, recursive=True)
        with system.open_output_stream(path) as stream:
            stream.write(data)
        return
    system.create_dir(folder, recursive=True)
    with system.open_output_stream(spare) as stream:
        stream.write(data)
    if system.get_file_info(path).type != fs.FileType.NotFound:  # HDFS does not rename over a file
        system.delete_file(path)
    system.move(spare, path)


def partitions_found(root: str, name: str) -> list[int]:
    """The numbers of partitions that a query's state is kept for."""
    system, inside = filesystem(root)
    found = system.get_file_info(fs.FileSelector(f"{inside}/{name}", allow_not_found=True))
    return sorted(int(f.base_name) for f in found if f.base_name.isdigit())


# --- another number of partitions -------------------------------------------------------------------------------------


def rescale(path: str, spec: Spec, partitions: int, to: int, name: str = "windows") -> int:
    """Re-partition a stopped query's state for ``partitions=to``, exactly; the batch it stands at.

    The old state stays where it is. The last two versions are taken along, as Spark may repeat the last batch.
    """
    if isinstance(to, bool) or not isinstance(to, int) or to < 1:
        raise ValueError(f"to must be a number of partitions, at least 1; got {to!r}")
    if not spec.by and to != 1:
        raise ValueError(f"a query without keys (by=[]) has one partition; got to={to}")
    check(spec, to)
    old, new = (Files(path, name, count, spec.fingerprint()) for count in (partitions, to))
    batches = old.last()
    if not batches:
        raise StateError(f"{path}/{name} holds no batch that all of {partitions} partitions have written")
    for batch in batches[-2:]:
        restored = [old.restore(spec, p, batch) for p in range(partitions)]
        pieces = [split(state_of(operator), to) for _, operator in restored]
        for p, mine in enumerate(zip(*pieces, strict=True)):
            given = mine[0].given
            assert given is not None
            operator = start(spec, given)
            operator._state = joined(mine)
            new.write(operator, p, batch, restored[0][0]["query"])
    return batches[-1]
