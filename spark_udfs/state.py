"""State files: what one partition remembers after one batch of one query.

    <root>/<name>/<partitions>/<partition>/<batch>.slices
The header says whose it is and what readers of the next batch need. The content is the operator's snapshot or, where
that is large and the batch small, what the batch brought (the bytes that readers sent): the state is then that of the
version before, and the batch admitted again. Such a header names the mark of the version before, so that its own stands
for all that the state is made of.

A file is written under another name, synced and renamed (object stores: one put), so a version is there whole or not at
all. Every attempt at a batch writes the same bytes; the last one wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.types import StructType

from slicing import Operator, SnapshotError, Spec
from slicing.partials import admit, check, operator_of, state_of
from slicing.replan import changed, complete_from
from slicing.split import joined, split
from slicing.state import State
from slicing.system.bundles import bundled, unbundled
from slicing.system.filesystems import absolute, filesystem, listed, publish
from slicing.system.sealed import SealError, content_of, header_of, sealed
from spark_udfs.types import arrow_schema

MAGIC = b"SLICESTA"
FORMAT = 3
SUFFIX = ".slices"
_PRUNE_EVERY = 16
LARGE = 16 << 20  # bytes of a snapshot that is not written with every batch: about 200,000 slices
MOST_CHANGES = 16  # versions in a row that are written as changes
SHARE = 0.25  # that they may come to, of the snapshot before them

_held: dict[str, Operator] = {}  # the large state this worker wrote last, by the checksum of its header


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

    def header(self, partition: int, batch: int, query: str | None) -> dict[str, Any]:
        """The header alone, checked: the first bytes of the file."""
        return self._opened(partition, batch, query, whole=False)[0]

    def restore(
        self, spec: Spec, partition: int, batch: int, query: str | None = None
    ) -> tuple[dict[str, Any], Operator]:
        """The header of a version and the operator as it was then; refused unless all it is made of is whole, and of
        this query and spec."""
        newest = header = self.header(partition, batch, query)
        changes: list[tuple[list[bytes], bool]] = []
        operator = _held.pop(header["mark"], None)
        while operator is None:
            path = f"state file {self._place(partition, batch)[1]}"
            try:
                content = content_of(header, self._opened(partition, batch, query, whole=True)[1], path)
                if header["base"] == batch:
                    _held.clear()  # two large states would be one too many
                    operator = Operator.restore(spec, content)
                    break
            except (SealError, SnapshotError, pa.ArrowException) as error:
                raise StateError(f"{error}" if isinstance(error, SealError) else f"{path}: {error}") from None
            changes.append((list(map(bytes, unbundled(content))), header["prompt"]))
            batch, mark = batch - 1, header["after"]
            header = self.header(partition, batch, query)
            if header["mark"] != mark:
                raise StateError(f"{path} builds on another version of batch {batch} than is there")
            operator = _held.pop(mark, None)
        for blobs, prompt in reversed(changes):
            admit(operator, blobs, prompt)
        return newest, operator

    def write(
        self,
        operator: Operator,
        partition: int,
        batch: int,
        query: str,
        before: dict[str, Any] | None = None,
        blobs: Sequence[bytes] = (),
        prompt: bool = True,
    ) -> int:
        """Publish the operator's state as a version, at once and whole; how many bytes it takes.

        Given the header of the version before and what was admitted since, a large state is not written anew.
        """
        header: dict[str, Any] = {
            "query": query,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "partitions": self.partitions,
            "partition": partition,
            "batch": batch,
            "prompt": prompt,
            "watermark": state_of(operator).watermark,
            "largest": state_of(operator).progress.largest,
        }
        changed = 0 if before is None else before["changed"] + sum(map(len, blobs))
        if before is not None and _few(before, changed):
            content = bundled(sorted(blobs))
            header |= {"base": before["base"], "snapshot": before["snapshot"], "after": before["mark"]}
            header |= {"changed": changed, "beside": before["beside"] + before["packed"]}
        else:
            content = operator.snapshot()
            header |= {"base": batch, "snapshot": len(content), "changed": 0, "beside": 0}
        data, mark = sealed(MAGIC, FORMAT, header, content)
        publish(*self._place(partition, batch), data)
        _held.clear()
        if header["snapshot"] >= LARGE:
            _held[mark] = operator
        if batch % _PRUNE_EVERY == 0:
            self._prune(partition, batch)
        return int(header["beside"]) + len(data)

    def write_all(self, states: list[State], batch: int, query: str) -> None:
        """Publish a version of all partitions."""
        for partition, state in enumerate(states):
            self.write(operator_of(state), partition, batch, query)

    def versions(self, partition: int) -> list[int]:
        """The batches a partition has state of, in order."""
        system, root = filesystem(self.root)
        found = listed(system, f"{root}/{self._folder(partition)}")
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

    def _opened(self, partition: int, batch: int, query: str | None, whole: bool) -> tuple[dict[str, Any], bytes]:
        """A version's header, and its body where that was asked for."""
        system, path = self._place(partition, batch)
        try:
            with system.open_input_file(path) as file:
                data = file.read() if whole else file.read(1 << 16)
            header, body = header_of(MAGIC, FORMAT, data, f"state file {path}")
        except FileNotFoundError:
            raise StateError(self._missing(partition, batch)) from None
        except SealError as error:
            raise StateError(f"{error}") from None
        self._check(header, path, partition, batch, query)
        return header, body

    def _missing(self, partition: int, batch: int) -> str:
        where = f"{self.root}/{self._folder(partition)}"
        other = [n for n in partitions_found(self.root, self.name) if n != self.partitions]
        if other and not self.versions(partition):
            return (
                f"{self.root}/{self.name} holds state of {other[0]} partitions; this query has "
                f"partitions={self.partitions}: keep the number, or change it with spark_udfs.rescale"
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
                f"{self.fingerprint}): give the changed query another state= or name=, or see spark_udfs.change"
            )

    def _prune(self, partition: int, batch: int) -> None:
        system, root = filesystem(self.root)
        folder = f"{root}/{self._folder(partition)}"
        try:
            oldest = min(n for n in self.versions(partition) if n >= batch - self.keep)
            oldest = self.header(partition, oldest, None)["base"]  # what it builds on stays
        except StateError:  # it cannot be returned to, but the stream goes on
            return
        for file in listed(system, folder):
            unfinished = file.base_name.startswith(".")  # of an attempt that was killed
            name = file.base_name.lstrip(".").partition(SUFFIX)[0]
            if name.isdigit() and int(name) < (batch - 1 if unfinished else oldest):
                with suppress(FileNotFoundError):  # another attempt was faster
                    system.delete_file(f"{folder}/{file.base_name}")


def _few(before: dict[str, Any], changed: int) -> bool:
    """Whether the batch after this version is written as what it brought, so many bytes since the last snapshot."""
    few = before["batch"] - before["base"] < MOST_CHANGES and changed <= SHARE * before["snapshot"]
    return bool(few and before["snapshot"] >= LARGE)


def partitions_found(root: str, name: str) -> list[int]:
    """The numbers of partitions that a query's state is kept for."""
    system, inside = filesystem(root)
    return sorted(int(f.base_name) for f in listed(system, f"{inside}/{name}") if f.base_name.isdigit())


# --- another number of partitions, another spec -----------------------------------------------------------------------


def rescale(path: str, spec: Spec, partitions: int, to: int, name: str = "windows") -> int:
    """Re-partition a stopped query's state for ``partitions=to``, exactly; the batch it stands at.

    The old state stays where it is. The last two versions are taken along, as Spark may repeat the last batch.
    """
    if isinstance(to, bool) or not isinstance(to, int) or to < 1:
        raise ValueError(f"to must be a number of partitions, at least 1; got {to!r}")
    if not spec.by and to != 1:
        raise ValueError(f"a query without keys (by=[]) has one partition; got to={to}")
    check(spec, to)
    old, new = (Files(absolute(path), name, count, spec.fingerprint()) for count in (partitions, to))
    batch = -1
    for batch, query, states in _last(old, spec):
        pieces = [split(state, to) for state in states]
        new.write_all([joined(mine) for mine in zip(*pieces, strict=True)], batch, query)
    return batch


def change(
    path: str, spec: Spec, changed_spec: Spec, partitions: int, to: str, name: str = "windows", data: Any = None
) -> dict[str, dict[str, Any]]:
    """Add or remove windows and aggregates of a stopped query, which goes on from its checkpoint under the name ``to``.

    What is added begins now. Told are ``{"windows": ..., "aggs": ...}`` with the time from which on each is complete
    (None: from the first row on): an added window comes out if it starts then or later, an added aggregate is null in
    windows that start before. ``data`` is the DataFrame to be read, needed if it has columns that were not read before.
    """
    check(changed_spec, partitions)
    old, new = (
        Files(absolute(path), name, partitions, spec.fingerprint()),
        Files(absolute(path), to, partitions, changed_spec.fingerprint()),
    )
    if to == name or old.drained() is not None:
        why = f"its new name must be another one than {name!r}" if to == name else "it was drained, which ended it"
        raise StateError(f"{path}/{name} cannot be changed: {why}")
    schema = getattr(data, "schema", None)
    schema = arrow_schema(schema) if isinstance(schema, StructType) else schema
    versions = []
    for batch, query, states in _last(old, spec):
        versions.append(changed(states, changed_spec, schema))
        new.write_all(versions[-1], batch, query)
    return complete_from(spec, [states[0] for states in versions])


def _last(old: Files, spec: Spec) -> Iterator[tuple[int, str, list[State]]]:
    """The last two versions, as Spark may repeat the last batch: batch, query, and the state of all partitions."""
    batches = old.last()
    if not batches:
        raise StateError(f"{old.root}/{old.name} holds no batch that all of {old.partitions} partitions have written")
    for batch in batches[-2:]:
        restored = [old.restore(spec, p, batch) for p in range(old.partitions)]
        yield batch, restored[0][0]["query"], [state_of(operator) for _, operator in restored]
