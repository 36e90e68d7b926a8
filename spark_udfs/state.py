"""State files of one partition of one query: read, written and removed.

A batch that is repeated with the same rows finds its version and leaves it. If the rows differ (the query was set
back), the batch writes another version next to it, `<batch>-1.<mark>...`: the highest number counts. No file is
overwritten, and none is removed too early. The names and bytes of versions are described in ``versions``.

A file is written under a temporary name, synced and renamed (object stores: one put), so that no version is incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import fs

from slicing import SnapshotError
from slicing.system.bundles import unbundled
from slicing.system.filesystems import listed, publish
from slicing.system.sealed import SealError, content_of, header_of
from spark_udfs.engines import AnySpec, Reached, engine
from spark_udfs.held import Held
from spark_udfs.policy import DEFAULT, Policy
from spark_udfs.versions import FORMAT, MAGIC, SUFFIX, Files, Owner, StateError, Version, named, opened, watermark_of

_DRAINED = re.compile(r"(\d{12,})\.drained")
_LEFT = re.compile(r"(\d{12,})\.left")
_MOVED = re.compile(r"(\d+)\.(.+)\.moved")
_PRUNE_EVERY = 16

HELD = Held()  # states held by this worker

_GO_ON = (
    "give the changed query a new checkpointLocation and another state= or name=; spark_udfs.drain, called with the "
    "old spec, returns the windows that are open. To go on with this checkpoint and other windows or aggregates, stop "
    "the query and call spark_udfs.change"
)
_RESTORE = "restore it from a backup, or go back to a batch before it (docs/running.md, 'Go back to an earlier batch')"


class Place:
    """The state files of one partition of one query, as they were when this object was made."""

    def __init__(self, files: Files, query: str, partition: int) -> None:
        self.files, self.query, self.partition = files, query, partition
        self.owner = Owner(files, query, partition)
        self.system, root = opened(files.root)
        self.folder = f"{root}/{files.name}/{query}/{files.partitions}/{partition:05}"

    @cached_property
    def _names(self) -> list[fs.FileInfo]:
        return listed(self.system, self.folder)

    @cached_property
    def _versions(self) -> list[Version]:
        return sorted(filter(None, map(Version.of, self._names)))

    def batches(self) -> list[int]:
        """The batches that have a state, in order."""
        return sorted({v.batch for v in self._versions if self.left is None or v.batch < self.left})

    def latest(self) -> int:
        """The last batch that has a state, even one of a history that was given up; -1 if none has."""
        return self._versions[-1].batch if self._versions else -1

    def drained(self, upto: int) -> int | None:
        """The batch after which the query was drained, if it is ``upto`` or earlier; otherwise None."""
        return next((batch for batch in self._drained if batch <= upto), None)

    @cached_property
    def _drained(self) -> dict[int, str]:
        """The drain marks by batch, in order."""
        marks = filter(None, (_DRAINED.fullmatch(file.base_name) for file in self._names))
        return {int(mark[1]): mark[0] for mark in sorted(marks, key=lambda mark: int(mark[1]))}

    def forget_drained(self, batch: int) -> None:
        """Remove drain marks after ``batch``: the query was set back and continues with this batch."""
        self._delete([name for ended, name in self._drained.items() if ended > batch])

    def mark_drained(self, batch: int) -> None:
        publish(self.system, f"{self.folder}/{batch:012}.drained", b"the query has ended\n")

    # --- where the query moved to or from (spark_udfs.moves) ---------------------------------------------------------

    @cached_property
    def left(self) -> int | None:
        """The batch from which on the query went on elsewhere; None: it is here."""
        marks = filter(None, (_LEFT.fullmatch(file.base_name) for file in self._names))
        return min((int(mark[1]) for mark in marks), default=None)

    def mark_left(self, batch: int) -> None:
        if self.left is None or batch < self.left:
            publish(self.system, f"{self.folder}/{batch:012}.left", b"the query went on elsewhere\n")

    def forget_left(self, batch: int) -> None:
        """Remove the marks: the query goes on here from ``batch``, which is before them or was written anew. What was
        given up could then be taken for its history, and is removed first."""
        if self.left is not None:
            self._delete([v.name for v in self._versions if v.batch >= self.left and v.batch != batch])
            self._delete([file.base_name for file in self._names if _LEFT.fullmatch(file.base_name)])

    def others(self) -> list[Files]:
        """The other names and numbers of partitions under which the query has state."""
        known = filter(None, (_MOVED.fullmatch(file.base_name) for file in self._names))
        return [replace(self.files, partitions=int(one[1]), name=one[2]) for one in known]

    def note_moved(self, other: Files) -> None:
        path = f"{self.folder}/{other.partitions}.{other.name}.moved"
        publish(self.system, path, b"the query has state there, too\n")

    def forget_moved(self) -> None:
        self._delete([file.base_name for file in self._names if _MOVED.fullmatch(file.base_name)])

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):  # another attempt was faster
                self.system.delete_file(f"{self.folder}/{name}")

    # --- read --------------------------------------------------------------------------------------------------------

    def newest(self, batch: int) -> Version:
        """The version of a batch that counts. Raises if there is none."""
        if self.left is not None and batch >= self.left:
            raise StateError(
                f"the state in {self.folder} after batch {batch} is of a history that was given up: the query went "
                f"on from batch {self.left} under another number of partitions or another name. Go on under these "
                "alone, or call spark_udfs.rescale (for a name spark_udfs.change), which writes it anew"
            )
        found = [version for version in self._versions if version.batch == batch]
        if not found:
            raise StateError(self._missing(batch))
        return found[-1]

    def restore(self, spec: AnySpec, batch: int, own: bool = False) -> tuple[dict[str, Any], Any, bool]:
        """The header of a version, its operator, and whether this worker held it (or a version that it builds on).

        ``own``: the query itself goes on from it. Then the worker's own state is taken, or dropped if it is of another
        version. Those who only read, as ``peek`` does, leave it to the query.

        Raises unless all parts of the version are complete and belong to this query and spec.
        """
        version = self.newest(batch)
        first: dict[str, Any] | None = None
        changes: list[tuple[list[bytes], bool]] = []
        while True:
            held = HELD.take(self.folder, version.mark, spec) if own else None
            if held is not None:
                header, operator = held
                break
            header, content = self._read(version)
            first = first or header
            if header["base"] == header["batch"]:
                if own:
                    HELD.drop(self.folder)
                    HELD.make_room(self.files.hold - header["snapshot"])
                operator = self._restored(spec, content, version)
                break
            changes.append((list(map(bytes, unbundled(content))), header["prompt"]))
            version = self._after(version, header)
        for blobs, prompt in reversed(changes):
            engine(spec).replay(operator, blobs, prompt)
        return first or header, operator, held is not None

    def header(self, batch: int) -> dict[str, Any]:
        """Only the header, checked: the first bytes of the file."""
        return self._opened(self.newest(batch), whole=False)[0]

    def _restored(self, spec: AnySpec, content: bytes | memoryview, version: Version) -> Any:
        try:
            return engine(spec).loaded(spec, content)
        except (SnapshotError, pa.ArrowException) as error:
            raise StateError(f"state file {self._path(version)}: {error}") from None

    def _read(self, version: Version) -> tuple[dict[str, Any], bytes | memoryview]:
        header, body = self._opened(version, whole=True)
        try:
            return header, content_of(header, body, f"state file {self._path(version)}")
        except (SealError, pa.ArrowException) as error:
            raise StateError(f"{error}: {_RESTORE}") from None

    def _opened(self, version: Version, whole: bool) -> tuple[dict[str, Any], bytes | memoryview]:
        """The header of a version, and its body if ``whole``."""
        path = self._path(version)
        try:
            with self.system.open_input_file(path) as file:
                data = memoryview(file.read() if whole else file.read(1 << 16))
            header, body = header_of(MAGIC, FORMAT, data, f"state file {path}")
        except FileNotFoundError:
            raise StateError(self._missing(version.batch)) from None
        except SealError as error:
            raise StateError(f"{error}: {_RESTORE}") from None
        self._check(header, version)
        return header, body

    def _after(self, version: Version, header: dict[str, Any]) -> Version:
        """The version that ``version`` builds on."""
        batch = version.batch - 1
        found = [v for v in self._versions if v.batch == batch and header["after"].startswith(v.mark)]
        if found:
            return found[-1]
        self.newest(batch)  # raises if there is none at all
        raise StateError(f"state file {self._path(version)} builds on another version of batch {batch} than is there")

    def _path(self, version: Version) -> str:
        return f"{self.folder}/{version.name}"

    def _missing(self, batch: int) -> str:
        files, found = self.files, self.batches()
        counts = (n for n in files.counts(self.query) if n != files.partitions)
        other = [n for n in counts if batch in Place(replace(files, partitions=n), self.query, 0).batches()]
        if other:
            return (
                f"{files.root}/{files.name} holds state of {other[0]} partitions; this query has "
                f"partitions={files.partitions}: keep the number, or change it with spark_udfs.rescale"
            )
        moved = [to for to in Place(files, self.query, 0).others() if batch in Place(to, self.query, 0).batches()]
        if moved:
            return (
                f"{files.root} holds the state after batch {batch} as name={moved[0].name!r} with partitions="
                f"{moved[0].partitions}, and not as name={files.name!r} with partitions={files.partitions}: change or "
                "rescale moved the query. Use that name and number, and the spec that the query had there"
            )
        held = f"it has {found[0]} to {found[-1]}" if found else "it has none"
        return (
            f"the state of partition {self.partition} after batch {batch} is missing in {self.folder} ({held}): the "
            "state was removed or is elsewhere, the checkpoint is older than keep_versions allows, an action inside "
            "foreachBatch (limit, head, show) did not run every partition, or the checkpoint is new and the folder of "
            "the file sink is not (the sink skips batches that it has listed)"
        )

    def _check(self, header: dict[str, Any], version: Version) -> None:
        path = self._path(version)
        wanted: dict[str, Any] = {"partitions": self.files.partitions, "partition": self.partition}
        wanted |= {"batch": version.batch, "watermark": version.watermark}
        header["watermark"] = watermark_of(header["watermark"])
        for what, value in wanted.items():
            if header[what] != value:
                raise StateError(f"state file {path} was written for {what} {header[what]}, not {value}: it was moved")
        if not header["mark"].startswith(version.mark):
            raise StateError(f"state file {path} is damaged: its content is not what its name says")
        self.owner.check(header, f"state file {path}", _GO_ON)

    # --- write -------------------------------------------------------------------------------------------------------

    def write(
        self,
        operator: Any,
        batch: int,
        before: dict[str, Any] | None = None,
        blobs: Sequence[bytes] = (),
        prompt: bool = True,
        size: int | None = None,
        policy: Policy = DEFAULT,
    ) -> int:
        """Publish the operator's state as a complete version, unless it exists already. Returns how many
        bytes it takes.

        With the header of the version before and what was admitted since, a large state is not written again. With its
        size in memory, a large state is held by this worker for the next batch.
        """
        data, mark, _, header = self.owner.sealed(operator, batch, before, blobs, prompt, policy)
        self._publish(data, batch, mark, header["watermark"])
        self.forget_left(batch)
        if size is not None and header["snapshot"] >= policy.large:
            read_back = header_of(MAGIC, FORMAT, memoryview(data), "")[0]
            HELD.put(self.folder, mark[:16], read_back, operator, size, self.files.hold)
        if (batch + self.partition) % _PRUNE_EVERY == 0:
            self.prune(batch)
        return int(header["beside"]) + len(data)

    def _publish(self, data: bytearray, batch: int, mark: str, watermark: Reached) -> None:
        """Publish a version, unless it already is the batch's version that counts."""
        found = [version for version in self._versions if version.batch == batch]
        if found and mark.startswith(found[-1].mark) and self._holds(found[-1], data):
            return
        take = found[-1].take + 1 if found else 0
        publish(self.system, f"{self.folder}/{named(batch, take, mark, watermark)}", data)

    def _holds(self, version: Version, data: bytearray) -> bool:
        try:
            with self.system.open_input_file(self._path(version)) as file:
                return bool(file.read() == data)
        except OSError:
            return False

    def prune(self, batch: int) -> None:
        """Remove versions that are too old to return to, and files of attempts that were killed."""
        kept = [version for version in self._versions if version.batch >= batch - self.files.keep]
        try:
            oldest = kept[0].batch if kept else batch
            if kept:  # keep what the oldest version builds on
                oldest = min(self._opened(v, whole=False)[0]["base"] for v in kept if v.batch == oldest)
        except StateError:  # no return to it is possible, but the stream goes on
            return
        gone = []
        for file in self._names:
            unfinished = file.base_name.startswith(".")
            number = re.match(r"\d{12,}", file.base_name.lstrip("."))
            if number and SUFFIX in file.base_name and int(number[0]) < (batch - 1 if unfinished else oldest):
                gone.append(file.base_name)
        self._delete(gone)
