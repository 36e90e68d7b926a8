"""CSV files by path: how Arrow reads them, and what it would let pass.

Types come from the first megabyte of each file, or from the first values after it. Arrow reads an empty text as a
text, whole numbers beyond 64 bits as rounded ones, and text of another encoding as bytes; other readers do not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

SIGNS = {"csv": ",", "tsv": "\t"}  # what separates columns, by format
_OTHERS = (";", "\t", "|", ",")
_BEYOND, _EXACT = 1 << 63, 1 << 53  # from here on a number is no int64, or not each is a float64
_WHOLE = r"^\s*[+-]?\d{16,}\s*$"  # which may be as large
_OPEN = "pyarrow.dataset.dataset(path, format=pyarrow.dataset.CsvFileFormat({}))"


def format_of(name: str) -> ds.CsvFileFormat:
    """The format, with line breaks inside of quotes: they cost a tenth of the rate."""
    from pyarrow.csv import ParseOptions

    return ds.CsvFileFormat(ParseOptions(delimiter=SIGNS[name], newlines_in_values=True))


def check(data: ds.FileSystemDataset, columns: Sequence[str]) -> None:
    """Raise if the file separates its columns by another sign, or if a column is not text in UTF-8."""
    names, first = data.schema.names, data.files[0]
    if columns and len(names) == 1 and names[0] not in columns:
        sign = next((sign for sign in _OTHERS if sign in names[0]), None)
        if sign is not None:
            how = _OPEN.format(f"pyarrow.csv.ParseOptions(delimiter={sign!r})")
            raise ValueError(f"{first} has one column, {names[0]!r}; if {sign!r} separates columns, open it with {how}")
    for name in columns or names:
        if name in names and pa.types.is_binary(data.schema.field(name).type):
            how = _OPEN.format("read_options=pyarrow.csv.ReadOptions(encoding='latin1')")
            raise ValueError(f"column {name!r} of {first} is not text in UTF-8; open it with its encoding, as in {how}")


def with_later_types(
    file: ds.FileFragment, schema: pa.Schema, data: ds.FileSystemDataset, columns: Sequence[str]
) -> pa.Schema:
    """The columns of a file, where those without a value in the first megabyte have the type of the first values after
    it."""
    unknown = [f.name for f in schema if pa.types.is_null(f.type) and (not columns or f.name in columns)]
    for batch in _as_written(file, data, unknown) if unknown else ():
        for name in unknown:
            schema = schema.set(schema.get_field_index(name), pa.field(name, _type_of(batch.column(name))))
        unknown = [name for name in unknown if pa.types.is_null(schema.field(name).type)]
        if not unknown:
            break
    return schema


def _as_written(file: ds.FileFragment, data: ds.FileSystemDataset, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns of a file as bytes."""
    schema = pa.schema([(name, pa.binary()) for name in columns])
    written = ds.dataset(file.path, format=data.format, filesystem=data.filesystem, schema=schema)
    return iter(written.to_batches(columns=columns))


def _type_of(written: pa.Array) -> pa.DataType:
    """The type that Arrow finds in a column as it is written; null if it has no value."""
    from pyarrow import csv

    if not pc.any(pc.greater(pc.binary_length(written), 0)).as_py():
        return pa.null()
    try:
        texts = written.unique().cast(pa.string())
    except pa.ArrowInvalid:  # of another encoding, which ``check`` tells
        return pa.binary()
    lines = pa.BufferOutputStream()
    csv.write_csv(pa.table({"text": texts}), lines)
    return csv.read_csv(pa.BufferReader(lines.getvalue())).schema.field(0).type


def as_others_read(batches: Iterable[pa.RecordBatch], data: ds.FileSystemDataset) -> Iterator[pa.RecordBatch]:
    """The batches, with nulls for empty text. Raises for whole numbers that were rounded."""
    doubtful = {field.name for field in data.schema if pa.types.is_float64(field.type)}
    for batch in batches:
        for name in doubtful.intersection(batch.schema.names):
            if _is_beyond(batch[name]):
                doubtful.discard(name)  # asked once
                _check_rounded(data, name)
        yield _with_nulls(batch)


def _with_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    for at, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            empty = pc.equal(pc.binary_length(batch.column(at)), 0)
            if pc.any(empty).as_py():
                batch = batch.set_column(at, field, pc.if_else(empty, pa.scalar(None, field.type), batch.column(at)))
    return batch


def _is_beyond(column: pa.Array) -> bool:
    least, most = pc.min_max(column).values()
    return bool(most.is_valid and (most.as_py() >= _EXACT or least.as_py() <= -_EXACT))


def _check_rounded(data: ds.FileSystemDataset, name: str) -> None:
    """Raise for whole numbers that float64 rounds: those beyond 64 bits in the first megabyte of a file, by which its
    types are found (in the whole file, if that has no values); and those beyond 53 bits if the file has integers, and
    another file has not."""
    for file in data.get_fragments():
        own = file.physical_schema
        later = pa.types.is_null(own.field(name).type)
        whole = pa.types.is_integer(with_later_types(file, own, data, [name]).field(name).type)
        for batch in itertools.islice(_as_written(file, data, [name]), None if whole or later else 1):
            column = batch[name]
            numbers = map(int, column.filter(pc.match_substring_regex(column, _WHOLE)).to_pylist())
            wrong = next((n for n in numbers if not -_BEYOND <= n < _BEYOND or (whole and abs(n) > _EXACT)), None)
            if wrong is not None:
                raise ValueError(
                    f"column {name!r} of {file.path} has whole numbers beyond {53 if whole else 64} bits, such as "
                    f"{wrong}, which float64 rounds; open it with pyarrow.dataset.dataset(path, format='csv', "
                    "schema=...), where the column is uint64, a decimal or text"
                )
