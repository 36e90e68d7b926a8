"""Files by path, glob or URI, as one Arrow dataset."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from slicing.columns import text_files
from slicing.columns.common_type import common_type
from slicing.columns.parquet import old_times
from slicing.columns.paths import Path, files_of, format_of, shown
from slicing.system.ahead import in_order

_KEY = re.compile(r"([^/=]+)=([^/]*)/")
AT_ONCE = 16  # files whose columns are read at the same time


def dataset_of(paths: Sequence[Path], columns: Sequence[str]) -> ds.Dataset:
    """All files that the paths name, as one dataset: in the order of the paths, then by name in a folder or a glob.

    Raises if only some of the files have one of the columns (``columns`` empty: any column), or if its types do not go
    together."""
    found: list[str] = []
    formats: dict[str, str] = {}  # the first file of each format
    first: fs.FileSystem | None = None
    base: str | None = None
    for path in paths:
        system, folder, files = files_of(path)
        base = folder if len(paths) == 1 else None
        first = system if first is None else first
        if not system.equals(first):
            raise ValueError(
                f"data has files of several file systems, {shown(paths[0])} and {shown(path)}; aggregate one at a time"
            )
        for file in files:
            formats.setdefault(format_of(file), file)
        found += files
    if len(formats) > 1:
        (one, a), (other, b) = list(formats.items())[:2]
        raise ValueError(f"data has files of several formats, {a} ({one}) and {b} ({other}); aggregate one at a time")
    (format,) = formats
    assert first is not None
    return _opened(found, format, first, _below(found, base, columns), columns)


def _below(files: Sequence[str], base: str | None, columns: Sequence[str]) -> str | None:
    """The folder below which names of folders are keys. None: those of the whole path are, unless a name occurs twice
    or a value cannot be read. Raises if a key that is wanted occurs twice even so."""
    for below in (None, base):
        twice = [name for file in files for name, count in Counter(_names(file, below)).items() if count > 1]
        if not twice and all(map(_is_readable, files)):
            return below
    for name in twice:
        if not columns or name in columns:
            raise ValueError(
                f"folders of {files[0]} and the other files have a value of column {name!r} twice; give the folder "
                "above those that count as the only path"
            )
    return base


def _names(file: str, base: str | None) -> list[str]:
    return [unquote(name) for name, _ in _KEY.findall(file if base is None else file[len(base) :])]


def _is_readable(file: str) -> bool:
    """Whether values in names of folders are text once they are unquoted."""
    try:
        return all(unquote(value, errors="strict") is not None for _, value in _KEY.findall(file))
    except UnicodeDecodeError:
        return False


def _opened(
    files: list[str], format: str, system: fs.FileSystem, base: str | None, columns: Sequence[str]
) -> ds.Dataset:
    kind = text_files.format_of(format) if format in text_files.SIGNS else format
    found = _dataset(files, format, kind, system, base)
    schemas = _schemas(found, format)
    if format == "parquet" and _has_old_times(found, schemas):
        in_microseconds = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
        found = _dataset(files, format, in_microseconds, system, base)
        schemas = _schemas(found, format)
    if format in text_files.SIGNS:
        of_path = {file.path: file for file in found.get_fragments()}
        schemas = {
            path: text_files.with_later_types(of_path[path], own, found, columns) for path, own in schemas.items()
        }
    found = _of_one_schema(found, schemas, columns)
    if format in text_files.SIGNS:
        text_files.check(found, columns)
    return found


def _dataset(
    files: list[str], format: str, kind: ds.FileFormat | str, system: fs.FileSystem, base: str | None
) -> ds.FileSystemDataset:
    options = {"format": kind, "filesystem": system}
    try:
        folders: ds.Partitioning | str = "hive"
        keys = _in_folders(files, base)
        if keys:  # columns that the files have too: theirs count
            own = ds.dataset(files[0], **options).schema.names
            if not keys.keys().isdisjoint(own):
                left = pa.schema([(name, type) for name, type in keys.items() if name not in own])
                folders = ds.partitioning(left, flavor="hive")
        return ds.dataset(files, partitioning=folders, partition_base_dir=base, **options)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(files[0], format, error) from None


def _in_folders(files: Sequence[str], base: str | None) -> dict[str, pa.DataType]:
    """The columns that the names of folders have, as in ``site=a``, in the types that Arrow gives them."""
    found: dict[str, set[str]] = {}
    for file in files:
        for name, value in _KEY.findall(file if base is None else file[len(base) :]):
            found.setdefault(unquote(name), set()).add(value)
    whole = re.compile(r"-?\d{1,9}|__HIVE_DEFAULT_PARTITION__")
    return {name: pa.int32() if all(map(whole.fullmatch, values)) else pa.string() for name, values in found.items()}


def _schemas(data: ds.Dataset, format: str) -> dict[str, pa.Schema]:
    """The columns of each file. Those of text files are found in their first megabyte."""
    files = list(data.get_fragments())
    if len(files) == 1:
        return {files[0].path: data.schema}
    share = -(-len(files) // AT_ONCE)  # a thread each, as most of the time of remote files is waiting
    parts = (partial(_schemas_of, files[at : at + share], format) for at in range(0, len(files), share))
    return dict(in_order(parts, AT_ONCE, AT_ONCE, share + 1, lambda _: 1))


def _schemas_of(files: Sequence[ds.FileFragment], format: str) -> Iterator[tuple[str, pa.Schema]]:
    for file in files:
        try:
            yield file.path, file.physical_schema
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(file.path, format, error) from None


def _unreadable(file: str, format: str, error: Exception) -> ValueError:
    is_stream = format == "ipc" and "Not an Arrow file" in str(error)
    hint = "; if it is a stream of Arrow's, give pyarrow.ipc.open_stream(open(path, 'rb'))" if is_stream else ""
    return ValueError(f"{file} cannot be read as {format}: {error}{hint}")


def _has_old_times(data: ds.Dataset, schemas: Mapping[str, pa.Schema]) -> bool:
    """Whether times of 96 bits are read as nanoseconds, of which 64 bits reach from 1677 to 2262 alone."""
    doubtful = {path for path, schema in schemas.items() if pa.timestamp("ns") in schema.types}
    return any(old_times(file.metadata.schema) for file in data.get_fragments() if file.path in doubtful)


def _of_one_schema(data: ds.Dataset, schemas: Mapping[str, pa.Schema], columns: Sequence[str]) -> ds.Dataset:
    """The dataset with types that hold the values of all files. Raises if only some of the files have a column, or if
    it has types that do not go together. A dataset takes columns and types from its first file, fills in nulls, and
    casts what can be cast: 7 to true, a time to its day."""
    whole: pa.Schema = data.schema
    of_folders = {file.path: {*ds.get_partition_keys(file.partition_expression)} for file in data.get_fragments()}
    own = set(itertools.chain(*(schema.names for schema in schemas.values())))  # what files have, folders do not give
    names = {path: {*schema.names, *(of_folders[path] - own)} for path, schema in schemas.items()}
    for column in columns or dict.fromkeys(itertools.chain(*(schema.names for schema in schemas.values()))):
        lacking = [path for path in schemas if column not in names[path]]
        if 0 < len(lacking) < len(schemas):
            has = next(path for path in schemas if path not in lacking)
            raise ValueError(
                f"column {column!r} is missing in {lacking[0]}, which {has} has; to read it as null there, give a "
                "dataset whose schema has it: pyarrow.dataset.dataset(files, format=..., schema=...)"
            )
        types: dict[pa.DataType, str] = {}  # the first file of each
        for path, schema in schemas.items():
            at = schema.get_field_index(column)
            if at >= 0:
                types.setdefault(schema.field(at).type, path)
        at = whole.get_field_index(column)
        if at >= 0 and types and [*types] != [whole.field(at).type]:
            type = _together(column, types, isinstance(data.format, ds.CsvFileFormat))
            whole = whole.set(at, whole.field(at).with_type(type))
    if whole.equals(data.schema):
        return data
    return ds.FileSystemDataset(list(data.get_fragments()), whole, data.format, data.filesystem)


def _together(column: str, types: Mapping[pa.DataType, str], are_text: bool) -> pa.DataType:
    """A type that holds the values of all types. Raises if there is none. ``are_text``: the files are, so that all
    values can be read as such."""
    found = first = next((type for type in types if not pa.types.is_null(type)), pa.null())
    for type, path in types.items():
        common = common_type(found, type)
        if common is None and are_text and pa.string() in (found, type):
            common = pa.string()
        if common is None:
            one, zone = types[first], "of times with a zone and of times without one: give all times a zone or none"
            zones = [some.tz is None for some in (found, type) if pa.types.is_timestamp(some)]
            how = zone if len(set(zones)) > 1 else "that do not go together"
            raise ValueError(
                f"column {column!r} is {first} in {one} and {type} in {path}, types {how}; read these files one after "
                "the other, or give a dataset with one type: pyarrow.dataset.dataset(files, format=..., schema=...)"
            )
        found = common
    return found
