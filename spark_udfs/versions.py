"""Versions of a state: their names, their bytes, and whose they are.

    <root>/<name>/<query>/<partitions>/<partition>/<batch>.<mark>.<watermark>.slices

The name of a version has the mark of its content, and the watermark that judges the rows of the next batch.

The header says which query and partition it belongs to. The content is a snapshot of the operator. If the snapshot is
large and the batch small, the content is what the batch brought (the bytes that readers sent): the state is then the
version before, with the batch admitted again. Such a header names the mark of the version before, so that its own mark
identifies everything that the state is made of.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from pyarrow import fs

from slicing.lifecycle.errors import differences
from slicing.system.bundles import in_pieces
from slicing.system.filesystems import filesystem, listed, publish
from slicing.system.sealed import sealed
from spark_udfs.engines import Reached, engine
from spark_udfs.held import HOLD_BYTES
from spark_udfs.policy import Policy

MAGIC = b"SLICESTA"
FORMAT = 7
SPEC_SHOWN = 1 << 13  # characters of a spec from which on a header does not have it: headers are read alone
SUFFIX = ".slices"
_NAME = re.compile(r"(\d{12,})(?:-(\d+))?\.([0-9a-f]{16})\.((?:-?\d+|none)(?:_(?:-?\d+|none))?)\.slices")


class StateError(RuntimeError):
    """A state is missing, damaged, or belongs to another query.

    Examples
    --------
    >>> try:
    ...     peek(spark, spec, folder + "/state", checkpoint=folder)
    ... except StateError as error:
    ...     print(str(error).removeprefix(folder))
    is no query's checkpoint: it has no metadata, offsets/ or commits/
    """


@dataclass(frozen=True)
class Files:
    """The state files of one query: their location and their owner."""

    root: str
    name: str
    partitions: int
    fingerprint: str
    keep: int = 100
    token: str | None = None  # of the driver's marker, which all places must see
    spread: str | None = None  # the span of time after which a key moves to another place
    hold: int = HOLD_BYTES  # bytes of state that a worker keeps between batches
    in_spark: bool = False  # no files: Spark's own store has the state
    spec: str = ""  # as a text, by which an error tells what has changed

    def announce(self) -> Files:
        """These files, with the driver's marker in their folder; it is written if it is not there yet."""
        if self.in_spark:
            return self
        try:
            return replace(self, token=self._token())
        except OSError as error:
            raise StateError(f"state={self.root!r}: the driver cannot write there: {error}") from error

    def _token(self) -> str:
        """The token of the driver's marker."""
        system, root = opened(self.root)
        markers = (f.base_name for f in listed(system, f"{root}/{self.name}"))
        known = min((m for m in markers if m.startswith("driver.")), default=None)
        if known is not None:
            return known.removeprefix("driver.")
        token = uuid.uuid4().hex
        publish(system, f"{root}/{self.name}/driver.{token}", b"what the driver has written\n")
        return token

    def begin(self, partition: int) -> None:
        """Before batch 0, raise if this place does not see the driver's marker."""
        system, root = opened(self.root)
        path = f"{root}/{self.name}/driver.{self.token}"
        if self.token is not None and system.get_file_info(path).type != fs.FileType.File:
            raise StateError(
                f"partition {partition} does not see {path}, which the driver has written: state={self.root!r} is not "
                "the same place for the driver and this executor; give a path or URI that all of them reach"
            )

    def counts(self, query: str) -> list[int]:
        """The numbers of partitions for which a query has state."""
        system, root = opened(self.root)
        return sorted(int(f.base_name) for f in listed(system, f"{root}/{self.name}/{query}") if f.base_name.isdigit())


class Version(NamedTuple):
    """A state file by its name."""

    batch: int
    take: int  # the highest take of a batch counts
    age: int  # of equal takes the oldest file counts: a task that was given up may write late
    mark: str
    watermark: Reached
    name: str

    @staticmethod
    def of(file: fs.FileInfo) -> Version | None:
        """The version that a file has; None for other files."""
        parts = _NAME.fullmatch(file.base_name)
        if parts is None:
            return None
        batch, take, mark, watermark = parts.groups()
        return Version(int(batch), int(take or 0), -(file.mtime_ns or 0), mark, _reached(watermark), file.base_name)


class Sealed(NamedTuple):
    """A version as bytes."""

    data: bytearray
    mark: str
    few: bool  # only what the batch brought, not the whole state
    header: dict[str, Any]


@dataclass(frozen=True)
class Owner:
    """The owner of a state: one partition of one query."""

    files: Files
    query: str
    partition: int

    def sealed(
        self,
        operator: Any,
        batch: int,
        before: dict[str, Any] | None,
        blobs: Sequence[bytes],
        prompt: bool,
        policy: Policy,
    ) -> Sealed:
        """The operator's state as a version: whole or, if that is large, what was admitted since the version before."""
        header: dict[str, Any] = {
            "query": self.query,
            "name": self.files.name,
            "fingerprint": self.files.fingerprint,
            "spec": self.files.spec if len(self.files.spec) < SPEC_SHOWN else "",
            "partitions": self.files.partitions,
            "partition": self.partition,
            "batch": batch,
            "prompt": prompt,
            **engine(operator.spec).figures(operator),
        }
        if self.files.spread is not None:
            header["spread"] = self.files.spread
        changed = 0 if before is None else before["changed"] + sum(map(len, blobs))
        few = before is not None and _few(before, changed, batch + self.partition, policy)
        if before is not None and few:
            content: Sequence[bytes | memoryview] = in_pieces(sorted(blobs))
            header |= {"base": before["base"], "snapshot": before["snapshot"], "after": before["mark"]}
            header |= {"changed": changed, "beside": before["beside"] + before["packed"]}
        else:
            content, unpacked = engine(operator.spec).saved(operator)
            header |= {"base": batch, "snapshot": unpacked, "changed": 0, "beside": 0}
        data, mark = sealed(MAGIC, FORMAT, header, content, packed=not few)
        return Sealed(data, mark, few, header)

    def check(self, header: dict[str, Any], what: str, cure: str) -> None:
        """Raise for the header of another query or spec."""
        if header["query"] != self.query:
            raise StateError(f"{what} belongs to query {header['query']}, and this is query {self.query}")
        if header["fingerprint"] != self.files.fingerprint:
            was = header.get("spec", "")  # empty in old files, and of long specs
            said = differences(was, self.files.spec) if was and self.files.spec else ""
            said = said or f"fingerprint {header['fingerprint']}, this one has {self.files.fingerprint}"
            raise StateError(f"{what} was written for another spec ({said}): {cure}")


def _few(before: dict[str, Any], changed: int, turn: int, policy: Policy) -> bool:
    """Whether the next version is written as what its batch brought: ``changed`` bytes since the last snapshot.

    Places take turns at writing snapshots: if all wrote in one batch, it took 475 ms instead of 10 with 1 M cells a
    place.
    """
    few = turn % policy.most_changes > 0 and changed <= policy.share * before["snapshot"]
    return bool(few and before["snapshot"] >= policy.large)


def named(batch: int, take: int, mark: str, watermark: Reached) -> str:
    """The name of a version's file."""
    again = f"-{take}" if take else ""
    return f"{batch:012}{again}.{mark[:16]}.{_word(watermark)}{SUFFIX}"


def _word(watermark: Reached) -> str:
    """A watermark, or the watermarks of both sides of a join, for a name."""
    if isinstance(watermark, tuple):
        return "_".join(map(_word, watermark))
    return "none" if watermark is None else str(watermark)


def _reached(word: str) -> Reached:
    """The watermark that ``_word`` wrote."""
    left, cut, right = word.partition("_")
    one, other = (None if w in ("none", "") else int(w) for w in (left, right))
    return (one, other) if cut else one


def watermark_of(watermark: Any) -> Reached:
    """A watermark that was read from JSON."""
    return tuple(watermark) if isinstance(watermark, list) else watermark


def opened(root: str) -> tuple[fs.FileSystem, str]:
    """The file system of a root, shared by all tasks of a worker."""
    return _opened(root, os.getpid())


@lru_cache(16)
def _opened(root: str, process: int) -> tuple[fs.FileSystem, str]:
    return filesystem(root)
