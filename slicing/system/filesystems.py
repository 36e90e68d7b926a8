"""File systems by path or URI, and files put in their place whole."""

from __future__ import annotations

import os
import uuid

import pyarrow as pa
from pyarrow import fs

PUTS = ("s3", "gcs", "gs", "abfs")  # object stores, where a file is there when its put is complete, and a move copies


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
        try:
            other, inside = fsspec.core.url_to_fs(path)
        except (ImportError, ValueError) as other_error:
            raise ValueError(f"{path}: pyarrow cannot open it ({error}), nor can fsspec ({other_error})") from None
        return fs.PyFileSystem(fs.FSSpecHandler(other)), inside.rstrip("/")


def absolute(path: str) -> str:
    """The same place for a process that works in another folder."""
    return path if path.startswith("file:") or "://" in path else os.path.abspath(path)


def listed(system: fs.FileSystem, folder: str) -> list[fs.FileInfo]:
    """What a folder holds; nothing where there is none."""
    there = fs.FileSelector(folder, allow_not_found=True)
    try:
        return system.get_file_info(there)
    except FileNotFoundError:  # it was made while pyarrow looked: missing at first, and then not to be allowed for
        return system.get_file_info(there)


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
    system.create_dir(folder, recursive=True)
    place = path if any(store in system.type_name for store in PUTS) else spare
    with system.open_output_stream(place) as stream:
        stream.write(data)
    if place == path:
        return
    if system.type_name == "hdfs" and system.get_file_info(path).type != fs.FileType.NotFound:
        system.delete_file(path)  # HDFS does not rename over a file
    system.move(spare, path)
