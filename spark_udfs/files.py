"""Files that Spark tracks and workers read: their rows do not pass through the JVM."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, fs, json
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from slicing.columns.parquet import old_times
from slicing.system.arguments import choice, says_arguments
from slicing.system.filesystems import filesystem
from spark_udfs.types import arrow_schema, check_path, check_session, conformed, given_schema

if TYPE_CHECKING:  # it imports pandas, 0.9 s for each worker of Spark
    import pyarrow.dataset as ds

FORMATS = ("parquet", "arrow", "csv", "json")
ROWS_AT_ONCE = 1 << 18
SOURCE_OPTIONS = (  # of Spark's file source
    "maxFilesPerTrigger", "maxBytesPerTrigger", "maxCachedFiles", "latestFirst", "maxFileAge", "fileNameOnly",
    "cleanSource", "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter",
    "ignoreMissingFiles",
)  # fmt: skip
CSV_OPTIONS = ("sep", "delimiter", "header", "nullValue", "quote", "escape")
NULL_IN_PATH = "__HIVE_DEFAULT_PARTITION__"
BLOCK = 1 << 20  # bytes of a CSV file that are looked at together
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
class Csv:
    """How CSV files are written, as Spark's options say it."""

    sep: str = ","
    header: bool = True  # the first line has the names of columns; otherwise these are the columns of the schema
    null: str = ""
    quote: str = '"'
    escape: str = "\\"  # of a quote within quotes

    @staticmethod
    def of(options: Mapping[str, object]) -> Csv:
        sep = options.get("sep", options.get("delimiter", ","))
        found = {"sep": sep, "nullValue": options.get("nullValue", ""), "quote": options.get("quote", '"')}
        found["escape"] = options.get("escape", "\\")
        for name, value in found.items():
            if not isinstance(value, str) or (name != "nullValue" and len(value) != 1):
                what = "a string" if name == "nullValue" else "one character"
                raise ValueError(f"read_files: {name} must be {what}; got {value!r}")
        header = {"true": True, "false": False}.get(str(options.get("header", True)).lower())
        if header is None:
            raise ValueError(f"read_files: header must be True or False; got {options['header']!r}")
        if found["escape"] not in ("\\", found["quote"]):
            raise ValueError(
                f"read_files: escape must be the quote, {found['quote']!r}, or a backslash; got {found['escape']!r}"
            )
        return Csv(found["sep"], header, found["nullValue"], found["quote"], found["escape"])  # type: ignore[arg-type]

    def check(self, system: fs.FileSystem, path: str) -> None:
        """Raise for a file with an escaped quote or backslash, which pyarrow reads in another way than Spark."""
        if self.escape == self.quote:
            return
        escaped, last = [(self.escape + after).encode() for after in (self.quote, self.escape)], b""
        with system.open_input_stream(path) as stream:  # unpacks what is packed
            while block := stream.read(BLOCK):
                found = [sign for sign in escaped if sign in last + block]
                if found:
                    raise ValueError(
                        f"it has {found[0].decode()}, of which Spark keeps the second sign within quotes, and pyarrow "
                        "both. Use Spark's own reader, whose rows window_aggregate takes too; write files with Spark's "
                        "option escape='\"'; or give read_files escape='\"', if quotes in quotes are written twice"
                    )
                last = block[-1:]

    def reader(self, columns: Sequence[str]) -> ds.CsvFileFormat:
        """An empty field is null, as in Spark; so are two quotes, unless nulls are written in another way."""
        import pyarrow.dataset as ds

        return ds.CsvFileFormat(
            parse_options=csv.ParseOptions(delimiter=self.sep, quote_char=self.quote),
            read_options=csv.ReadOptions(column_names=None if self.header else list(columns)),
            convert_options=csv.ConvertOptions(
                null_values=["", self.null], strings_can_be_null=True, quoted_strings_can_be_null=not self.null
            ),
        )


@dataclass(frozen=True)
class Reading:
    """How workers read files."""

    format: str
    missing: str
    csv: Csv
    columns: tuple[str, ...]  # all of the schema, of which a query needs some
    skips_missing: bool = False  # files that are gone have no rows

    def file_format(self) -> str | ds.FileFormat:
        import pyarrow.dataset as ds

        if self.format == "csv":
            return self.csv.reader(self.columns)
        # old times, which Spark writes by default, are from the year 1 to 9999, which nanoseconds do not reach
        return ds.ParquetFileFormat(coerce_int96_timestamp_unit="us") if self.format == "parquet" else self.format


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
    missing
        What a column is that a file does not have.
    csv
        How CSV files are written.
    skips_missing
        Whether files that are gone when a worker opens them have no rows, instead of an error.
    without_type
        Columns of the files that Spark has no type for, with their types. No query can read them.

    Examples
    --------
    >>> read_files(spark, folder + "/readings", "t long, k string, v long", streaming=False).schema.names
    ['t', 'k', 'v']
    """

    paths: DataFrame  # one column: the path of each file
    schema: pa.Schema
    format: str
    missing: str = "error"
    csv: Csv = Csv()
    skips_missing: bool = False
    without_type: Mapping[str, str] = field(default_factory=dict, compare=False)

    def check_types(self, names: Iterable[str]) -> None:
        """Raise for columns that Spark has no type for."""
        for name in self.without_type.keys() & set(names):
            raise TypeError(
                f"column {name!r} has type {self.without_type[name]} in the files, and Spark has no such type: write "
                "the files with another type, such as decimal128 or text"
            )

    @property
    def reading(self) -> Reading:
        """How workers read the files."""
        return Reading(self.format, self.missing, self.csv, tuple(self.schema.names), self.skips_missing)


@says_arguments
def read_files(
    spark: SparkSession,
    path: str,
    schema: StructType | pa.Schema | str | None = None,
    format: str = "parquet",
    streaming: bool = True,
    missing: str = "error",
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
        A folder, a glob or a file that Spark and the workers can read.
    schema : optional
        The columns, as a Spark schema, an Arrow schema or a DDL string. If left out, they are read from the first file.
    format : str
        ``"parquet"``, ``"arrow"``, ``"csv"`` or ``"json"``.
    streaming : bool
        False: all files at once, as a batch.
    missing : str
        What a column of the schema is that neither a file nor its path has: ``"error"`` refuses the file, ``"null"``
        takes nulls, as for files from before a column was added. In a JSON file, a column without values is always
        null. A path has the columns that its folders name, as ``day=2026-03-29``.
    options
        Options of Spark's file source, such as ``maxFilesPerTrigger=100``. For CSV files also Spark's ``sep`` (or
        ``delimiter``), ``header`` (here True by default: the first line has the names), ``nullValue``, ``quote`` and
        ``escape`` (the quote itself, or a backslash as by default: then files with a backslash before a quote or before
        another backslash are refused).

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
    check_session(spark)
    check_path(path, "path")
    choice(format, "format", FORMATS)
    choice(missing, "missing", ("error", "null"))
    known = {name.lower(): name for name in (*SOURCE_OPTIONS, *(CSV_OPTIONS if format == "csv" else ()))}
    unknown = [name for name in options if name.lower() not in known]
    if unknown:
        raise ValueError(
            f"read_files takes no option {unknown[0]}={options[unknown[0]]!r} for {format} files; it takes "
            f"{', '.join(known.values())}. Other options need Spark's own reader, whose rows window_aggregate takes too"
        )
    named = {known[name.lower()]: value for name, value in options.items()}
    written = Csv.of(named)
    if format == "csv" and not written.header and schema is None:
        raise ValueError("read_files: CSV files without a header need schema=, with all their columns in order")
    source = {name: str(value) for name, value in named.items() if name in SOURCE_OPTIONS}
    if schema is None:
        schema = _learned(*_first_file(spark, path, source), Reading(format, missing, written, ()).file_format())
    columns, others = _schema(schema)
    reader = (spark.readStream if streaming else spark.read).format("binaryFile").options(**source)
    skips = source.get("ignoreMissingFiles", "").lower() == "true"
    return FileRows(reader.schema(_LISTED).load(path).select("path"), columns, format, missing, written, skips, others)


def _schema(schema: object) -> tuple[pa.Schema, dict[str, str]]:
    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if isinstance(schema, StructType):
        return arrow_schema(schema), {}
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"schema must be Spark's StructType, Arrow's Schema or a DDL string; got {schema!r}")
    return given_schema(schema)


def _first_file(spark: SparkSession, path: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """The first file with content, of those that Spark finds: it takes globs and leaves out hidden folders."""
    try:
        found = spark.read.format("binaryFile").options(**options).load(path).inputFiles()
    except AnalysisException as refusal:
        if refusal.getCondition() != "PATH_NOT_FOUND":
            raise
        found = []
    for name in sorted(map(unquote, found)):
        system, inside = _located(name)
        if system.get_file_info(inside).size:
            return system, inside
    raise ValueError(f"{path} holds no file yet to learn the columns from; give read_files a schema=")


def _learned(system: fs.FileSystem, path: str, format: str | ds.FileFormat) -> pa.Schema:
    """The columns of a file."""
    import pyarrow.dataset as ds

    schema = ds.dataset([path], filesystem=system, format=format).schema
    if isinstance(format, ds.ParquetFileFormat):
        schema = _with_instants(schema, pq.ParquetFile(system.open_input_file(path)).schema)
    return schema


def _with_instants(schema: pa.Schema, file: pq.ParquetSchema) -> pa.Schema:
    """The columns with a zone for Parquet's old times: Spark writes and reads them as instants."""
    for name in old_times(file):
        if name in schema.names:  # not within a struct or a list
            at = schema.get_field_index(name)
            schema = schema.set(at, schema.field(at).with_type(pa.timestamp("us", "UTC")))
    return schema


def read(batches: Iterable[pa.RecordBatch], schema: pa.Schema, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows of the files named in the batches, in the columns of the schema."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            system, inside = _located(path)
            info = system.get_file_info(inside)
            if info.size == 0 or (reading.skips_missing and info.type == fs.FileType.NotFound):  # as in Spark
                continue
            try:
                for rows in _rows_in(system, inside, schema, reading):
                    yield conformed(rows, schema)
            except (ValueError, pa.ArrowException, KeyError) as error:
                raise ValueError(
                    f"{path} cannot be read as {reading.format} with columns {', '.join(schema.names)}: {error}"
                    f"{_cure(reading, error)}"
                ) from error


def _cure(reading: Reading, error: Exception) -> str:
    if reading.format != "json" or "from number to string" not in str(error):
        return ""
    return '. Text in a column of numbers, such as "NaN", is read by Spark\'s own reader alone'


def _rows_in(system: fs.FileSystem, path: str, schema: pa.Schema, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Rows of one file. Text is parsed as the wanted types; a typed file is read in its own types and cast, checked."""
    named = _named_in(path)
    if reading.format == "json":  # a dataset loses the only line of a file without a line end
        with system.open_input_stream(path) as stream:
            if hasattr(json, "open_json"):
                batches = json.open_json(stream, parse_options=_parsed(schema))
            else:  # pyarrow 18 reads a whole file at once
                batches = json.read_json(stream, parse_options=_parsed(schema)).to_batches()
            yield from _of_json_with_path(batches, schema, named)
        return
    if reading.format == "csv":
        reading.csv.check(system, path)
        reading = replace(reading, columns=_csv_columns(system, path, reading, named))
    import pyarrow.dataset as ds

    format = reading.file_format()
    data = ds.dataset([path], filesystem=system, format=format)
    found = data.schema.names
    missing = [name for name in schema.names if name not in found and name not in named]
    alike = [name for name in missing if name.lower() in map(str.lower, [*found, *named])]
    if alike:
        raise ValueError(
            f"column {alike[0]!r} has another case in the file, whose columns are {', '.join([*found, *named])}; name "
            "it as there"
        )
    if missing and reading.missing == "error":
        raise ValueError(
            f"column {missing[0]!r} is missing in the file; its columns are {', '.join(found)}. Write files with all "
            "columns, or give read_files missing='null' to take nulls for it"
        )
    if reading.format == "csv":
        known = [schema.field(name) if name in schema.names else data.schema.field(name) for name in found]
        data = ds.dataset([path], filesystem=system, format=format, schema=pa.schema(known))
    there = [name for name in schema.names if name in found]
    others = {f.name: _in_path(named.get(f.name), f.type, f.name) for f in schema if f.name not in found}
    for batch in data.scanner(columns=there, batch_size=ROWS_AT_ONCE).to_batches():
        constant = {name: pa.repeat(value, batch.num_rows) for name, value in others.items()}
        columns = dict(zip(there, batch.columns, strict=True)) | constant
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema.names)


def _csv_columns(
    system: fs.FileSystem, path: str, reading: Reading, named: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The columns in a file without a header: all, or those that its path does not name, if it has fewer fields."""
    others = tuple(name for name in reading.columns if name not in named)
    if reading.csv.header or others == reading.columns:
        return reading.columns
    parsed = csv.ParseOptions(delimiter=reading.csv.sep, quote_char=reading.csv.quote)
    with (
        system.open_input_stream(path) as stream,
        csv.open_csv(stream, csv.ReadOptions(autogenerate_column_names=True), parsed) as lines,
    ):
        return reading.columns if len(lines.schema) == len(reading.columns) else others


def _of_json_with_path(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, named: Mapping[str, str | None]
) -> Iterator[pa.RecordBatch]:
    """The rows of a JSON file. A column that the path names is taken from there if the file has no value of it."""
    asked = [field.name for field in schema if named.get(field.name) is not None]
    batches = list(batches) if asked else batches
    absent = [name for name in asked if all(batch.column(name).null_count == len(batch) for batch in batches)]
    for batch in batches:
        given = {field.name: _of_json(batch.column(field.name), field.type) for field in schema}
        for name in absent:
            given[name] = pa.repeat(_in_path(named[name], given[name].type, name), len(batch))
        yield pa.RecordBatch.from_arrays(list(given.values()), schema.names)


def _named_in(path: str) -> dict[str, str | None]:
    """The columns that folders name, and their values as text: ``day=2026-03-29``, as Hive and Spark write them."""
    folders = (folder.partition("=") for folder in path.split("/")[:-1] if "=" in folder)
    texts = {unquote(name): unquote(text) for name, _, text in folders}
    return {name: None if text == NULL_IN_PATH else text for name, text in texts.items()}


def _in_path(text: str | None, type: pa.DataType, column: str) -> pa.Scalar:
    """A value that a folder has in its name, or null."""
    if text is None:
        return pa.scalar(None, type)
    try:
        return pa.scalar(text).cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {column!r} is {text!r} in the path, which does not fit {type}: {error}") from None


def _parsed(schema: pa.Schema) -> json.ParseOptions:
    """What has another form as text is read as text and converted later: the JSON reader takes times without a zone as
    UTC, takes no dates, and takes the text of bytes for the bytes."""
    fields = [field.with_type(pa.string()) if _is_written_as_text(field.type) else field for field in schema]
    return json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")


def _is_written_as_text(type: pa.DataType) -> bool:
    return bool((pa.types.is_timestamp(type) and type.tz) or pa.types.is_date(type) or pa.types.is_binary(type))


def _of_json(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Bytes are in base64, as Spark writes them."""
    if not pa.types.is_binary(type):
        return column
    return pa.array([None if text is None else b64decode(text, validate=True) for text in column.to_pylist()], type)


def _located(path: str) -> tuple[fs.FileSystem, str]:
    """The file system and path of a name from Spark, which writes local paths as file:/x and does not escape names."""
    if path.startswith("file:"):
        return filesystem(path)
    scheme, rest = path.split("://", 1)
    authority, inside = rest.split("/", 1)
    system, base = filesystem(f"{scheme}://{authority}/")
    return system, f"{base}/{inside}" if base else inside
