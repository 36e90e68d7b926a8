"""Input data as record batches: tables, streams, datasets, files, and frames of other libraries.

A source is read as batches are asked for, and only a few batches ahead. Columns that the query does not read are left
out, if the source can do that.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

from slicing.columns import arrow_io
from slicing.columns.datasets import LARGEST, of_dataset, of_parquet_file
from slicing.columns.from_frames import of_pandas, of_polars
from slicing.columns.typed import fits_into, in_known_types
from slicing.columns.wanted import ALL, Wanted, or_empty, within

CELLS = 1 << 22  # cells of a relation's batch; a batch costs as much as a small table: 365 k rows 66 -> 50 ms of CPU


def batches(data: object, wanted: Wanted = ALL) -> Generator[pa.RecordBatch]:
    """The record batches of the data; at least one, if there is a schema. ``close()`` lets go of what is being read."""
    try:
        yield from _opened(data, wanted)
    except (TypeError, ValueError) as error:
        if wanted.argument == "data" or not str(error).startswith("data"):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        whose = wanted.argument + ("'" if wanted.argument.endswith("s") else "'s")
        raise kind(re.sub("^data(?!'s)", wanted.argument, re.sub("^data's", whose, str(error)))) from None


def _opened(data: object, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    opened = next((open for fits, open in _SOURCES if fits(data)), None)
    if opened is not None:
        yield from opened(data, wanted)
    elif isinstance(data, Iterator | list | tuple):
        yield from _of_items(data, wanted)
    else:
        yield from within(arrow_io.foreign(data), wanted)


def one_batch(data: object, wanted: Wanted = ALL) -> pa.RecordBatch:
    """The data as a single batch, with at least the wanted columns: rows that are pushed together are judged
    together."""
    if isinstance(data, pa.RecordBatch):
        return data
    if _is_streamed(data):
        raise TypeError(
            f"push takes one batch of rows; got {type(data).__name__}: push each of its items, or give it to "
            "sl.aggregate as it is"
        )
    found = list(batches(data, wanted))
    return found[0] if len(found) == 1 else arrow_io.together(found)


def is_held(data: object) -> bool:
    """Whether all rows of the data are already in memory."""
    return isinstance(data, pa.Table | pa.RecordBatch) or any(fits(data) for fits in _FRAMES)


def _is_streamed(data: object) -> bool:
    """Whether the data is an iterator of frames, each of which can be pushed."""
    return isinstance(data, Iterator) and not isinstance(data, pa.RecordBatchReader) and not _is_path(data)


# --- Arrow's own ------------------------------------------------------------------------------------------------------


def _of_batch(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(iter([data]), wanted)


def _of_table(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    if wanted.columns and data.num_columns > len(wanted.columns):
        wanted.check(data.schema.names)
        data = data.select(wanted.columns)
    return within(iter(data.to_batches() or [arrow_io.empty(data.schema)]), wanted)


def _of_reader(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(arrow_io.read(data), wanted)


def _of_file_reader(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(or_empty(map(data.get_batch, range(data.num_record_batches)), data.schema), wanted)


def _of_scanner(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(arrow_io.read(data.to_reader()), wanted)


# --- other libraries' -------------------------------------------------------------------------------------------------


def _of_pandas(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(of_pandas(data, wanted.columns), wanted)


def _of_polars(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return within(of_polars(data, wanted.columns), wanted)


def _of_lazy_frame(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The batches that Polars makes, in their order."""
    types = data.collect_schema()
    wanted.check(types.names())
    if wanted.between is not None:
        from slicing.columns.parquet import comparable

        polars = sys.modules["polars"]
        empty = types.to_frame().select(wanted.time).to_arrow()
        time = polars.col(wanted.time)
        low, high = wanted.bounds(empty.schema)
        if low is not None:
            data = data.filter(time >= polars.lit(comparable(low), dtype=types[wanted.time]))
        if high is not None:
            data = data.filter(time < polars.lit(comparable(high), dtype=types[wanted.time]))
    if wanted.columns:
        data = data.select(wanted.columns)
    if not hasattr(data, "collect_batches"):  # before Polars 1.34
        return arrow_io.foreign(data.collect(engine="streaming"))
    return _or_first(data.collect_batches(), lambda: data.collect_schema().to_frame())


def _of_relation(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    wanted.check(data.columns)
    if wanted.columns:
        data = data.project(", ".join('"' + name.replace('"', '""') + '"' for name in wanted.columns))
    make = data.to_arrow_reader if hasattr(data, "to_arrow_reader") else data.fetch_arrow_reader
    rows = max(LARGEST, CELLS // max(len(wanted.columns or data.columns), 1))
    return within(arrow_io.read(make(rows)), wanted)


# --- files ------------------------------------------------------------------------------------------------------------


def _of_path(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    from slicing.columns import files, text_files

    paths = [data] if isinstance(data, str | PathLike) else list(data)
    opened = files.dataset_of(paths, wanted.columns)
    found = of_dataset(opened, wanted)
    if isinstance(opened.format, ds.CsvFileFormat):
        found = text_files.as_others_read(found, opened)
    return _with_path(found, paths, opened, list(wanted.columns) or None)


def _with_path(
    found: Iterator[pa.RecordBatch], paths: Sequence[Any], opened: Any, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """The batches, with the file in Arrow's errors, such as for a value of another type than the first rows had."""
    from slicing.columns.paths import shown

    try:
        yield from found
    except (pa.ArrowException, OSError) as error:
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        file = _unreadable(opened, columns)
        where = shown(paths[0]) + others if file is None else repr(file.path)
        hint = "; where types differ, open it with pyarrow.dataset.dataset(path, format=..., schema=...)"
        said, files = str(error), opened.files
        if len(files) == 1:  # other files may have their columns in another order
            names = opened.schema.names
            said = re.sub(r"(?<=CSV column )#(\d+)", lambda found: repr(names[int(found[1])]), said)
        widened = [] if file is None else _read_as_other_types(file, opened.schema, columns)
        if widened:
            said += f"; the types of files differ: {'; '.join(widened)}; cast these columns to one type"
        raise ValueError(f"{where} cannot be read: {said}{hint if 'onversion' in said else ''}") from None


def _read_as_other_types(file: Any, schema: pa.Schema, columns: list[str] | None) -> list[str]:
    """What the columns of a Parquet or Arrow file are that is read as other types, which all files go into."""
    if file.format.default_extname not in ("parquet", "arrow", "feather"):
        return []  # other files have no types of their own
    own = {field.name: field.type for field in file.physical_schema}
    return [
        f"column {field.name!r} is {own[field.name]} in this one and {field.type} in all together"
        for field in schema
        if own.get(field.name, field.type) != field.type and (columns is None or field.name in columns)
    ]


def _unreadable(opened: Any, columns: list[str] | None) -> Any:
    """The local file that cannot be read, which Arrow does not tell: each is read again."""
    from pyarrow.fs import LocalFileSystem

    for file in opened.get_fragments() if isinstance(opened.filesystem, LocalFileSystem) else ():
        try:
            for _ in file.to_batches(schema=opened.schema, columns=columns, use_threads=False):
                pass
        except (pa.ArrowException, OSError):
            return file
    return None


# --- one after the other ----------------------------------------------------------------------------------------------


def _of_items(data: Iterable[object], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The batches of each item in turn; an item is freed before the next one is made."""
    at, types = -1, None
    for at, item in enumerate(data):
        if isinstance(item, Iterator | list | tuple) and not isinstance(item, pa.RecordBatchReader):
            raise TypeError(f"data's item {at} is {type(item).__name__}; each must be a frame, a batch or a path")
        try:
            for batch in _opened(item, wanted):
                batch = in_known_types(batch, types or {})
                types = _alike(batch.schema, types, wanted)
                yield batch
        except (TypeError, ValueError, OSError) as error:
            kind = next(kind for kind in (TypeError, FileNotFoundError, ValueError, OSError) if isinstance(error, kind))
            said = str(error)
            said = said.removeprefix("data") if said.startswith("data must") else f": {said}"
            raise kind(f"data's item {at}{said}") from None
    if at < 0:
        raise ValueError(
            f"data is {_article(data)} without items, so that the types of its columns are not known; give at least "
            "one frame, which may be empty"
        )


def _alike(schema: pa.Schema, types: dict[str, pa.DataType] | None, wanted: Wanted) -> dict[str, pa.DataType]:
    """The types of the wanted columns. Raises if they differ from the types of the items before, to which columns that
    fit have been cast."""
    wanted.check(schema.names)
    found = {name: schema.field(name).type for name in wanted.columns or schema.names}
    for name, type in (types or {}).items():
        if name in found and found[name] != type:
            raise TypeError(
                f"column {name!r} is {found[name]}, and was {type} in the items before"
                f"{', which may not hold its values' if fits_into(found[name], type) else ''}; give it one type, such "
                "as with read_csv(dtype=...) or cast"
            )
    return found if types is None else types


def _article(data: object) -> str:
    name = type(data).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


# --- what they share --------------------------------------------------------------------------------------------------


def _or_first(frames: Iterator[Any], otherwise: Callable[[], Any]) -> Iterator[pa.RecordBatch]:
    """The batches of frames; if there are no frames, the batches of ``otherwise()``."""
    seen = False
    for frame in frames:
        seen = True
        yield from arrow_io.foreign(frame)
    if not seen:
        yield from arrow_io.foreign(otherwise())


def _of_library(module: str, name: str) -> Callable[[object], bool]:
    """Whether an object is of a library's class; does not import the library."""

    def fits(data: object) -> bool:
        loaded = sys.modules.get(module)
        kind = None if loaded is None else getattr(loaded, name, None)
        return kind is not None and isinstance(data, kind)

    return fits


def _is_path(data: object) -> bool:
    if isinstance(data, io.IOBase):
        raise TypeError(f"data is an open file; give its path instead{_name(data)}")
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(item, str | PathLike) for item in data)
    return isinstance(data, str | PathLike)


def _name(file: Any) -> str:
    name = getattr(file, "name", None)
    return f" ({name!r})" if isinstance(name, str) else ""


_FRAMES = [_of_library("pandas", "DataFrame"), _of_library("polars", "DataFrame")]
_Open = Callable[[Any, Wanted], Iterator[pa.RecordBatch]]
_SOURCES: list[tuple[Callable[[object], bool], _Open]] = [
    (lambda data: isinstance(data, pa.RecordBatch), _of_batch),
    (lambda data: isinstance(data, pa.Table), _of_table),
    (lambda data: isinstance(data, pa.RecordBatchReader), _of_reader),
    (_of_library("pandas", "DataFrame"), _of_pandas),
    (_of_library("polars", "DataFrame"), _of_polars),
    (_of_library("pyarrow.ipc", "RecordBatchFileReader"), _of_file_reader),
    (_is_path, _of_path),
    (_of_library("pyarrow.dataset", "Dataset"), of_dataset),
    (_of_library("pyarrow.dataset", "Scanner"), _of_scanner),
    (_of_library("pyarrow.parquet", "ParquetFile"), of_parquet_file),
    (_of_library("polars", "LazyFrame"), _of_lazy_frame),
    (_of_library("duckdb", "DuckDBPyRelation"), _of_relation),
]
