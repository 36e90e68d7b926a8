"""The files that a path, a folder, a glob or a URI names, and their format."""

from __future__ import annotations

import os
import re
from os import PathLike
from urllib.parse import unquote

from pyarrow import fs

from slicing.system.filesystems import filesystem

Path = str | PathLike[str]

# the format of a file, by the end of its name
_ENDINGS = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"),
    "tsv": (".tsv", ".tsv.gz", ".tsv.bz2", ".tsv.zst"),
    "ipc": (".arrow", ".ipc", ".feather"),
}
_KNOWN = (
    "Parquet (.parquet, .pq), CSV (.csv, .tsv, also .gz, .bz2, .zst), Arrow IPC and Feather (.arrow, .ipc, .feather)"
)
_MAGIC = re.compile(r"[*?\[]")


def shown(path: Path) -> str:
    """A path for messages, without a user and a password."""
    return repr(re.sub(r"(?<=://)[^/@]*@", "", str(path)))


def files_of(path: Path) -> tuple[fs.FileSystem, str | None, list[str]]:
    """The file system, the folder that the path names (None: a file), and the files."""
    named = os.fspath(path)
    if not isinstance(named, str):
        raise TypeError(f"data must be a path of type str; got {named!r}")
    if not named.strip():
        raise ValueError(f"data must be a path, a glob or a URI of files; got {named!r}")
    if named.startswith("file://"):
        named = unquote(named)  # of a URI; Hadoop's paths, file:/x, have no escapes
    elif "://" not in named and not named.startswith("file:"):
        named = os.path.expanduser(named)
    system, inside = filesystem(named)
    if isinstance(system, fs.LocalFileSystem):
        inside = inside.replace(os.sep, "/")
    info = system.get_file_info(inside)
    if info.type == fs.FileType.File:
        return system, None, [inside]
    if info.type == fs.FileType.Directory:
        files = [file for file in _below(system, inside, recursive=True) if _known(file)]
        if not files:
            raise FileNotFoundError(f"folder {shown(path)} has no files of a known format: {_KNOWN}")
        return system, inside, files
    if not _MAGIC.search(inside):
        raise FileNotFoundError(f"there is no file or folder {shown(path)}")
    first = _MAGIC.search(inside)
    assert first is not None
    folder, _, rest = inside[: first.start()].rpartition("/")
    rest += inside[first.start() :]
    pattern = re.compile(_regex(rest))
    below = _below(system, folder or "/", recursive="/" in rest or "**" in rest)
    files = [file for file in below if pattern.fullmatch(file[len(folder) :].lstrip("/"))]
    if not files:
        raise FileNotFoundError(f"no file matches {shown(path)}")
    return system, folder, files


def _below(system: fs.FileSystem, folder: str, recursive: bool) -> list[str]:
    """The files in a folder by name, without hidden files (a file or folder name that begins with '.' or '_')."""
    listed = system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive))
    files = (info.path for info in listed if info.type == fs.FileType.File)
    return sorted(file for file in files if not re.search(r"/[._]", file[len(folder.rstrip("/")) :]))


def _regex(glob: str) -> str:
    """A glob as a regular expression: ``*`` and ``?`` match within a folder, ``**`` matches across folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", glob)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "": ""}
    return "".join(
        known[part]
        if part in known
        else "[" + part[1:-1].replace("!", "^", 1 if part[1] == "!" else 0) + "]"
        if part.startswith("[") and part.endswith("]")
        else re.escape(part)
        for part in parts
    )


def _known(file: str) -> bool:
    return any(file.lower().endswith(ending) for endings in _ENDINGS.values() for ending in endings)


def format_of(file: str) -> str:
    for format, endings in _ENDINGS.items():
        if file.lower().endswith(endings):
            return format
    ending = os.path.splitext(file)[1]
    unknown = f"the unknown ending {ending!r}" if ending else "no ending"
    other = "For other names use pyarrow.dataset.dataset(path, format=...)"
    if ending in (".json", ".jsonl", ".ndjson"):
        other = "Files with a JSON object on each line are read with pyarrow.dataset.dataset(path, format='json')"
    raise ValueError(f"file {file} has {unknown}; known are {_KNOWN}. {other}")
