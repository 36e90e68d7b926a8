"""File systems by path or URI, and files that are published as a whole."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress

import pyarrow as pa
from pyarrow import fs

PUTS = ("s3", "gcs", "gs", "abfs")  # object stores: a file exists once its put is complete, and a move copies
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/?)(?!/)")
_HINTS = {  # schemes of Hadoop that pyarrow lacks
    "s3a": "write s3://bucket/path, which pyarrow opens itself, or install s3fs",
    "s3n": "write s3://bucket/path, which pyarrow opens itself",
    "wasb": "write abfss://container@account.dfs.core.windows.net/path, or install adlfs",
    "wasbs": "write abfss://container@account.dfs.core.windows.net/path, or install adlfs",
    "dbfs": "write the path as it is mounted, /dbfs/path, or a volume's, /Volumes/path",
    "viewfs": "write the hdfs:// path that it stands for",
}


def filesystem(path: str) -> tuple[fs.FileSystem, str]:
    """The file system for a path or URI, and the path inside: local, what pyarrow opens (hdfs, s3, gs), or fsspec."""
    _check_scheme(path)
    if path.startswith("file:") or "://" not in path:
        local = path.removeprefix("file:")
        return fs.LocalFileSystem(), os.path.abspath("/" + local.lstrip("/") if local != path else local)
    try:
        system, inside = _of_arrow(path)
        return system, inside.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = _HINTS.get(path.partition(":")[0].lower())
        what = f"pyarrow cannot open it ({error})"
        to_do = f": {hint}" if hint else ""
        try:
            import fsspec
        except ImportError:
            raise ValueError(f"{path}: {what}, and fsspec is not installed{to_do}") from None
        try:
            other, inside = fsspec.core.url_to_fs(path.removeprefix("fsspec+"))  # pyarrow 18 does not know the prefix
        except (ImportError, ValueError) as other_error:
            raise ValueError(f"{path}: {what}, nor can fsspec ({other_error}){to_do}") from None
        return fs.PyFileSystem(fs.FSSpecHandler(other)), inside.rstrip("/")


def _check_scheme(path: str) -> None:
    """Raise for ``hdfs:/x``, which would be a local folder named "hdfs:", a different one on each executor, and for
    ``file:x``, which says no folder."""
    found = _SCHEME.match(path)
    if found is None:
        return
    scheme, rest = found[1], path[found.end() :]
    if scheme.lower() == "file" and not found[2]:
        raise ValueError(f"{path} has the scheme file: without a slash; write the whole path, file:/..., or {rest}")
    if scheme.lower() == "file" or not found[2]:
        return
    hint = _HINTS.get(scheme.lower(), f"write {scheme}://host/{rest}, or {scheme}:///{rest} for the default host")
    raise ValueError(f"{path} has a scheme and one slash, which would be a local folder named '{scheme}:'; {hint}")


def _of_arrow(uri: str) -> tuple[fs.FileSystem, str]:
    """S3 with one put for each file, if pyarrow can: otherwise it begins a multipart upload before the first byte,
    which takes three requests."""
    if uri.startswith("s3:") and "allow_delayed_open=" not in uri:
        try:
            return fs.FileSystem.from_uri(f"{uri}{'&' if '?' in uri else '?'}allow_delayed_open=true")
        except pa.ArrowInvalid as error:
            if "query parameter" not in str(error):  # pyarrow 18 has no such option
                raise
    return fs.FileSystem.from_uri(uri)


def absolute(path: str) -> str:
    """The path as an absolute path or URI, which is valid for a process with another working directory. ``~`` is the
    home of this process's user, as in paths of data."""
    _check_scheme(path)
    return path if path.startswith("file:") or "://" in path else os.path.abspath(os.path.expanduser(path))


def listed(system: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """The content of a folder; empty if there is no such folder."""
    there = fs.FileSelector(folder, allow_not_found=True)
    try:
        return system.get_file_info(there)
    except FileNotFoundError:  # pyarrow raises if the folder is created while it looks
        return system.get_file_info(there)


def publish(system: fs.FileSystem, path: str, data: bytes | bytearray) -> None:
    """Publish a whole file in one step; it is durable before it is visible.

    An existing file of this name is taken to be equal: names identify their content.
    """
    folder, name = os.path.split(path)
    spare = f"{folder}/.{name}.{uuid.uuid4().hex}"
    if isinstance(system, fs.LocalFileSystem):
        os.makedirs(folder, exist_ok=True)
    if any(store in system.type_name for store in PUTS):
        _write(system, path, data)
        return
    try:
        _write(system, spare, data)
        _move(system, spare, path)
    except BaseException:
        with suppress(OSError):  # a full disk keeps no part of the file
            system.delete_file(spare)
        raise


def _write(system: fs.FileSystem, path: str, data: bytes | bytearray) -> None:
    if isinstance(system, fs.LocalFileSystem):
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return
    try:
        stream = system.open_output_stream(path)
    except FileNotFoundError:
        system.create_dir(os.path.dirname(path), recursive=True)
        stream = system.open_output_stream(path)
    with stream:
        stream.write(data)


def _move(system: fs.FileSystem, spare: str, path: str) -> None:
    if isinstance(system, fs.LocalFileSystem):
        os.replace(spare, path)
        return
    try:
        system.move(spare, path)
    except OSError:  # HDFS does not rename over a file
        if system.get_file_info(path).type != fs.FileType.File:
            raise
        system.delete_file(spare)
