"""Arrow datasets and Parquet files, read as they are asked for. Local Parquet files are read by this module: threads
read several row groups at the same time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa

from slicing.columns import arrow_io
from slicing.columns.wanted import Wanted, or_empty, within
from slicing.system.ahead import in_order

SMALLEST, LARGEST, ROOM = 1 << 15, 1 << 18, 16 << 20  # least and most rows of a decoded batch, and the most bytes
TOGETHER = 4  # batches of row groups that a thread reads in one go
HELD = 256 << 20  # bytes that threads have read ahead, and a batch each
READ = 1 << 18  # bytes read from a local file at a time: 17 MB less at the peak than whole row groups, 0.98 of the rate
REMOTE_FILES = 4  # files of a store that are read at the same time: most of the time is waiting
# Before pyarrow 20, threads that read one encrypted file disturb each other. A dataset does not tell if it has keys.
MAY_SHARE_FILES = int(pa.__version__.partition(".")[0]) >= 20
WORDS = 32  # bytes assumed for a value of variable width


def of_dataset(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Read few batches ahead, so that memory stays bounded for files of any size."""
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    schema = data.schema
    wanted.check(schema.names)
    columns = list(wanted.columns) or None
    low, high = wanted.bounds(schema)
    time, inside = ds.field(wanted.time) if wanted.time else None, None
    if low is not None:
        inside = time >= low
    if high is not None:
        inside = time < high if inside is None else inside & (time < high)
    if not type(data).__module__.startswith("pyarrow."):  # another library's dataset may accept fewer options
        return arrow_io.read(data.scanner(columns=columns, filter=inside).to_reader())
    chosen = None if any("_view" in str(schema.field(name).type) for name in columns or schema.names) else inside
    options: dict[str, Any] = {"columns": columns, "filter": chosen, "batch_size": _rows(schema, columns)}
    ahead = 1 if isinstance(getattr(data, "filesystem", None), LocalFileSystem) else REMOTE_FILES
    options |= {"use_threads": wanted.threads > 1, "fragment_readahead": ahead, "batch_readahead": 2}
    if wanted.threads == 1:  # glibc keeps freed memory for the next batch (system.heap): 1.2 times mimalloc's rate
        options["memory_pool"] = pa.system_memory_pool()
    if _reads_local_parquet(data) and _is_whole(data):
        # read pages in small pieces, so that whole row groups are not in memory in addition
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(
            pre_buffer=False, use_buffered_stream=True, buffer_size=READ
        )
        return or_empty(_of_files(data.get_fragments(filter=inside), schema, wanted, options), schema)
    found = arrow_io.read(data.scanner(**options).to_reader())
    return found if chosen is inside else within(found, wanted)  # Arrow's scan cannot choose rows of views


def _reads_local_parquet(data: Any) -> bool:
    """Whether the dataset has local Parquet files and default read options."""
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    if not isinstance(getattr(data, "format", None), ds.ParquetFileFormat):
        return False
    return bool(data.format.equals(ds.ParquetFileFormat()) and isinstance(data.filesystem, LocalFileSystem))


def _is_whole(data: Any) -> bool:
    """Whether the dataset has no filter of its own, so that all rows are wanted."""
    try:
        data.get_fragments()
    except ValueError:
        return False
    return True


def _of_files(
    files: Iterator[Any], schema: pa.Schema, wanted: Wanted, options: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The batches of Parquet files.

    Each thread reads row groups of its own. 10 M rows, two threads: 138 -> 98 ms against a scan, whose threads share
    the columns of one row group. A scan is used if the file's columns differ from the dataset's, also by a value in the
    folder's name, and for row groups that are too large to be held.
    """
    import pyarrow.dataset as ds

    from slicing.columns import parquet

    columns, rows = options["columns"], options["batch_size"]
    width, threads, bounds = _width(schema, columns), wanted.threads, wanted.bounds(schema)
    most = max(2, min(threads + 2, HELD // (TOGETHER * rows * width)))

    def is_read_here(file: Any) -> bool:
        if not ds.get_partition_keys(file.partition_expression).keys().isdisjoint(columns or schema.names):
            return False  # the value in the folder's name counts, which a scan fills in
        if threads > 1 and any(group.num_rows > 2 * TOGETHER * rows for group in file.row_groups):
            return False
        return (threads == 1 or MAY_SHARE_FILES) and parquet.has(file.physical_schema, schema, columns)

    def groups(files: Iterator[Any]) -> Iterator[tuple[Any, parquet.Group]]:
        for file in files:
            metadata, own = file.metadata, {group.id for group in file.row_groups}
            asked = parquet.within(metadata, file.physical_schema, wanted.time, bounds)
            for group in parquet.groups(metadata, [at for at in asked if at in own], columns, width):
                yield file, group

    def read(part: list[tuple[Any, parquet.Group]]) -> Iterator[pa.RecordBatch]:
        for file, found in itertools.groupby(part, itemgetter(0)):
            some = [group for _, group in found]
            yield from within(parquet.pieces(parquet.opened(file, READ), rows, some, columns), wanted)

    for here, some in itertools.groupby(files, is_read_here):
        if here:
            parts = (partial(read, part) for part in parquet.parts(groups(some), TOGETHER * rows))
            yield from in_order(parts, threads, most, HELD // most, arrow_io.size_of)
        else:
            for file in some:
                yield from within(file.scanner(schema, **options).to_reader(), wanted)


def of_parquet_file(data: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    from slicing.columns import parquet

    schema = data.schema_arrow
    wanted.check(schema.names)
    columns = list(wanted.columns) or None
    some = parquet.within(data.metadata, schema, wanted.time, wanted.bounds(schema))
    groups = parquet.groups(data.metadata, some, columns, _width(schema, columns))
    found = parquet.pieces(data, _rows(schema, columns), groups, columns, wanted.threads > 1)
    return within(or_empty(found, schema), wanted)


def _rows(schema: pa.Schema, columns: list[str] | None) -> int:
    """The number of rows to decode at a time: fewer if rows are wide."""
    return max(SMALLEST, min(LARGEST, ROOM // _width(schema, columns)))


def _width(schema: pa.Schema, columns: list[str] | None) -> int:
    """The bytes of a row, about."""
    return max(sum((_bits(schema.field(name).type) + 7) // 8 for name in columns or schema.names), 1)


def _bits(type: pa.DataType) -> int:
    try:
        return int(type.bit_width)
    except ValueError:
        return 8 * WORDS
