"""Files that Spark tracks and workers read: their rows do not pass through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv, fs, json
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from slicing.system.arguments import choice, says_arguments
from slicing.system.filesystems import filesystem
from spark_udfs.types import arrow_schema, conformed, given_schema

FORMATS = ("parquet", "arrow", "csv", "json")
ROWS_AT_ONCE = 1 << 18
# as Spark reads it: an empty field is null, two quotes are an empty text
_CSV = ds.CsvFileFormat(
    convert_options=csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
)
# the columns of the source; content is not read
_LISTED = StructType(
    [
        StructField("path", StringType(), False),
        StructField("modificationTime", TimestampType(), False),
        StructField("length", LongType(), False),
        StructField("content", BinaryType(), True),
    ]
)


@dataclass(frozen=True)
class FileRows:
    """The rows of files, made by :func:`read_files`; ``window_aggregate`` takes it like a DataFrame.

    Parameters
    ----------
    paths
        A DataFrame with the paths of the files.
    schema
        The columns of the rows, as an Arrow schema.
    format
        The format of the files.

    Examples
    --------
    >>> read_files(spark, folder + "/readings", "t long, k string, v long", streaming=False).schema.names
    ['t', 'k', 'v']
    """

    paths: DataFrame  # one column: the path of each file
    schema: pa.Schema
    format: str


@says_arguments
def read_files(
    spark: SparkSession,
    path: str,
    schema: StructType | pa.Schema | str | None = None,
    format: str = "parquet",
    streaming: bool = True,
    **options: object,
) -> FileRows:
    """The rows of the files under ``path``, for :func:`window_aggregate`.

    Spark's file source tracks the names: each file exactly once, also after restarts. The workers read the files with
    pyarrow, and only the query's columns.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str
        A folder or a glob that Spark and the workers can read.
    schema : optional
        The columns, as a Spark schema, an Arrow schema or a DDL string. If left out, they are read from the first file.
    format : str
        ``"parquet"``, ``"arrow"``, ``"csv"`` or ``"json"``.
    streaming : bool
        False: all files at once, as a batch.
    options
        Options of Spark's file source, such as ``maxFilesPerTrigger=100``.

    Returns
    -------
    FileRows
        For ``window_aggregate``, ``window_join`` or ``window_features``.

    Examples
    --------
    A stream of files whose first window is complete (``spec`` is from the example of :func:`window_aggregate`):

    >>> rows = read_files(spark, folder + "/readings", "t long, k string, v long")
    >>> windows = window_aggregate(rows, spec, state=folder + "/state", partitions=1)
    >>> writer = windows.writeStream.format("memory").queryName("windows").trigger(availableNow=True)
    >>> query = writer.option("checkpointLocation", folder + "/checkpoint").start()
    >>> query.awaitTermination()
    >>> spark.table("windows").select("window_end", "k", "s").collect()
    [Row(window_end=10, k='a', s=3)]
    """
    choice(format, "format", FORMATS)
    reader = (spark.readStream if streaming else spark.read).format("binaryFile")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return FileRows(reader.schema(_LISTED).load(path).select("path"), _schema(path, schema, format), format)


def _schema(path: str, schema: StructType | pa.Schema | str | None, format: str) -> pa.Schema:
    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if isinstance(schema, StructType):
        return arrow_schema(schema)
    if schema is None:
        system, inside = filesystem(path)
        found = system.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
        names = sorted(f.path for f in found if f.size and not f.base_name.startswith((".", "_")))
        if not names:
            raise ValueError(f"{path} holds no file yet to learn the columns from; give read_files a schema=")
        schema = ds.dataset(names[:1], filesystem=system, format=format).schema
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"schema must be Spark's StructType, Arrow's Schema or a DDL string; got {schema!r}")
    return given_schema(schema)


def read(batches: Iterable[pa.RecordBatch], schema: pa.Schema, format: str) -> Iterator[pa.RecordBatch]:
    """The rows of the files named in the batches, in the columns of the schema."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = _located(path)
            if system.get_file_info(inside).size == 0:  # no rows, as in Spark
                continue
            try:
                for rows in _rows_in(system, inside, schema, format):
                    yield conformed(rows, schema)
            except (ValueError, pa.ArrowException, KeyError) as error:
                raise ValueError(
                    f"{path} cannot be read as {format} with columns {', '.join(schema.names)}: {error}"
                ) from error


def _rows_in(system: fs.FileSystem, path: str, schema: pa.Schema, format: str) -> Iterator[pa.RecordBatch]:
    """Rows of one file. Text is parsed as the wanted types; a typed file is read in its own types and cast, checked."""
    if format == "json":  # a dataset loses the only line of a file without a line end
        with system.open_input_stream(path) as stream:
            if hasattr(json, "open_json"):
                batches = json.open_json(stream, parse_options=_parsed(schema))
            else:  # pyarrow 18 reads a whole file at once
                batches = json.read_json(stream, parse_options=_parsed(schema)).to_batches()
            for batch in batches:
                yield batch.select(schema.names)
        return
    given = {"format": _CSV, "schema": schema} if format == "csv" else {"format": format}
    data = ds.dataset([path], filesystem=system, **given)
    yield from data.scanner(columns=schema.names, batch_size=ROWS_AT_ONCE).to_batches()


def _parsed(schema: pa.Schema) -> json.ParseOptions:
    """Times with a zone are read as text and cast later: the JSON reader takes times without a zone as UTC."""
    zoned = (pa.types.is_timestamp(field.type) and field.type.tz for field in schema)
    fields = [field.with_type(pa.string()) if z else field for field, z in zip(schema, zoned, strict=True)]
    return json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")


def _located(path: str) -> tuple[fs.FileSystem, str]:
    """The file system and path of a name from Spark, which writes local paths as file:/x and does not escape names."""
    if path.startswith("file:"):
        return filesystem(path)
    scheme, rest = path.split("://", 1)
    authority, inside = rest.split("/", 1)
    system, base = filesystem(f"{scheme}://{authority}/")
    return system, f"{base}/{inside}" if base else inside
