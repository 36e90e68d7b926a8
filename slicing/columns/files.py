"""Files by path, glob or URI, as one Arrow dataset."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from slicing.columns.parquet import old_times
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
TYPED = ("parquet", "ipc")  # formats whose files have types
_MAGIC = re.compile(r"[*?\[]")
AT_ONCE = 16  # files whose columns are read at the same time


def dataset_of(paths: Sequence[Path], columns: Sequence[str]) -> ds.Dataset:
    """All files that the paths name, as one dataset: in the order of the paths, then by name in a folder or a glob.

    Raises if only some of the files have one of the columns (``columns`` empty: any column)."""
    found: list[str] = []
    formats: dict[str, str] = {}  # the first file of each format
    systems: dict[str, fs.FileSystem] = {}
    base: str | None = None
    for path in paths:
        system, folder, files = _files(path)
        systems.setdefault(system.type_name, system)
        base = folder if len(paths) == 1 else None
        for file in files:
            formats.setdefault(_format(file), file)
        found += files
    if len(formats) > 1:
        (one, a), (other, b) = list(formats.items())[:2]
        raise ValueError(f"data has files of several formats, {a} ({one}) and {b} ({other}); aggregate one at a time")
    if len(systems) > 1:
        raise ValueError(f"data has files of several file systems ({', '.join(systems)}); aggregate one at a time")
    (format,), (system,) = formats, systems.values()
    opened = _opened(found, format, system, base)
    if len(found) > 1:
        _check_alike(list(opened.get_fragments()), format, columns)
    return opened


def _opened(files: list[str], format: str, system: fs.FileSystem, base: str | None) -> ds.Dataset:
    kind: ds.FileFormat | str = format
    if format == "tsv":
        from pyarrow.csv import ParseOptions

        kind = ds.CsvFileFormat(ParseOptions(delimiter="\t"))
    options = {"filesystem": system, "partitioning": "hive", "partition_base_dir": base}
    try:
        found = ds.dataset(files, format=kind, **options)
        if format == "parquet" and _has_old_times(found):
            found = ds.dataset(files, format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"), **options)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{files[0]} cannot be read as {format}: {error}") from None
    return found


def _has_old_times(data: ds.Dataset) -> bool:
    """Whether times of 96 bits are read as nanoseconds, of which 64 bits reach from 1677 to 2262 alone."""
    if pa.timestamp("ns") not in data.schema.types:
        return False
    return bool(old_times(next(iter(data.get_fragments())).metadata.schema))


def _check_alike(files: Sequence[ds.FileFragment], format: str, columns: Sequence[str]) -> None:
    """Raise if only some files have a column, or only some have zones. A dataset takes its columns from the first file,
    and fills in nulls."""
    with ThreadPoolExecutor(min(len(files), AT_ONCE)) as pool:  # remote files: most of the time is waiting
        names = list(pool.map(partial(_names, format=format), files))
    pairs = zip(files, names, strict=True)
    own = {file.path: [*own, *ds.get_partition_keys(file.partition_expression)] for file, own in pairs}
    for column in columns or dict.fromkeys(itertools.chain.from_iterable(own.values())):
        lacking = [path for path, names in own.items() if column not in names]
        if 0 < len(lacking) < len(own):
            has = next(path for path in own if path not in lacking)
            raise ValueError(
                f"column {column!r} is missing in {lacking[0]}, which {has} has; to read it as null there, give a "
                "dataset whose schema has it: pyarrow.dataset.dataset(files, format=..., schema=...)"
            )
        if format in TYPED:
            _check_zones(files, column)


def _check_zones(files: Sequence[ds.FileFragment], column: str) -> None:
    """Raise if only some files have times with a zone: a dataset reads both as what the first file has."""
    first: dict[bool, str] = {}
    for file in files:
        at = file.physical_schema.get_field_index(column)
        if at >= 0 and pa.types.is_timestamp(file.physical_schema.field(at).type):
            first.setdefault(file.physical_schema.field(at).type.tz is None, file.path)
    if len(first) > 1:
        raise ValueError(
            f"column {column!r} has times with a zone in {first[False]} and without one in {first[True]}; read these "
            "files one after the other, and give all times a zone or none"
        )


def _names(file: ds.FileFragment, format: str) -> list[str]:
    """A file's columns. For text formats only the first line is read: inferring types takes as long as reading 1 MB."""
    try:
        if format in TYPED:
            return list(file.physical_schema.names)
        with io.TextIOWrapper(file.filesystem.open_input_stream(file.path), "utf-8-sig", newline="") as text:
            rows = csv.reader(text, delimiter="\t" if format == "tsv" else ",")
            return next(filter(None, rows), [])
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file.path} cannot be read as {format}: {error}") from None


def _files(path: Path) -> tuple[fs.FileSystem, str | None, list[str]]:
    """The file system, the base folder of partitions (None: no partitions), and the files."""
    named = os.fspath(path)
    if not isinstance(named, str):
        raise TypeError(f"data must be a path of type str; got {named!r}")
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
            raise FileNotFoundError(f"folder {str(path)!r} has no files of a known format: {_KNOWN}")
        return system, inside, files
    if not _MAGIC.search(inside):
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    first = _MAGIC.search(inside)
    assert first is not None
    folder, _, rest = inside[: first.start()].rpartition("/")
    rest += inside[first.start() :]
    pattern = re.compile(_regex(rest))
    below = _below(system, folder or "/", recursive="/" in rest or "**" in rest)
    files = [file for file in below if pattern.fullmatch(file[len(folder) :].lstrip("/"))]
    if not files:
        raise FileNotFoundError(f"no file matches {str(path)!r}")
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


def _format(file: str) -> str:
    for format, endings in _ENDINGS.items():
        if file.lower().endswith(endings):
            return format
    ending = os.path.splitext(file)[1]
    unknown = f"the unknown ending {ending!r}" if ending else "no ending"
    raise ValueError(
        f"file {file} has {unknown}; known are {_KNOWN}. For other names use pyarrow.dataset.dataset(path, format=...)"
    )
