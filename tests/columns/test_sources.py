"""Streams that `aggregate` takes: iterators of frames, datasets, lazy frames, relations, files by path; and what of
them is read."""

from __future__ import annotations

import base64
import gc
import gzip
import re
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from pyarrow import fs

import slicing as sl
from slicing.columns import datasets, sources
from slicing.columns import parquet as parquet_files
from slicing.columns.wanted import Wanted
from slicing.times.measure import Measure

START = 1_700_000_000_000_000_000  # ns since 1970
ROWS, FILES = 200_000, 4
STEP = 90_000_000_000  # ns from row to row: 200,000 rows are 208 days


def _rows():
    rng = np.random.default_rng(7)
    times = START + np.arange(ROWS) * STEP + rng.integers(0, STEP, ROWS)
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("ns")),
            "k": pa.array(np.array(["oslo", "rome", "lima"])[rng.integers(0, 3, ROWS)]),
            "v": pa.array(rng.integers(-(2**61), 2**61, ROWS), mask=rng.random(ROWS) < 0.1),
            "unused": pa.array([{"a": 1}] * ROWS),
            "more": rng.normal(size=ROWS),
        }
    )


TABLE = _rows()
SPEC = sl.Spec(
    "t",
    {"day": sl.tumbling("1d")},
    {"n": sl.count(), "top": sl.max("v"), "low": sl.min("v"), "late": sl.last("v")},
    by=["k"],
)
EXPECTED = sl.aggregate(TABLE, SPEC)
PARTS = [TABLE.slice(start, ROWS // FILES) for start in range(0, ROWS, ROWS // FILES)]
FLAT = [part.drop_columns("unused") for part in PARTS]


def same(found, expected=EXPECTED):
    """Equal but for the unit of times, which CSV and JSON have for themselves."""
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows > 0
    for name in ("window_start", "window_end"):
        assert found[name].cast(pa.timestamp("ns")).equals(expected[name].cast(pa.timestamp("ns")))
    rest = [name for name in expected.column_names if not name.startswith("window_")]
    assert found.select(rest).to_pylist() == expected.select(rest).to_pylist()


def parquet(folder, parts=PARTS):
    for at, part in enumerate(parts):
        pq.write_table(part, folder / f"{at}.parquet", row_group_size=7000)
    return folder


def pandas_chunks(folder):
    pyarrow.csv.write_csv(pa.concat_tables(FLAT), folder / "all.csv")
    return pd.read_csv(folder / "all.csv", chunksize=30_000, parse_dates=["t"], dtype={"v": "Int64"})


class Cut:
    """An iterator that is no generator."""

    def __init__(self, parts):
        self._parts = list(parts)

    def __iter__(self):
        return self

    def __next__(self):
        if not self._parts:
            raise StopIteration
        return self._parts.pop(0)


STREAMS = {
    "generator of tables": lambda folder: (part for part in PARTS),
    "generator of batches": lambda folder: (batch for part in PARTS for batch in part.to_batches(9000)),
    "generator of polars frames": lambda folder: (polars.from_arrow(part) for part in FLAT),
    "generator of pandas frames": lambda folder: (part.to_pandas(types_mapper=pd.ArrowDtype) for part in FLAT),
    "generator of paths": lambda folder: (path for path in sorted(parquet(folder).glob("*.parquet"))),
    "iterator": lambda folder: Cut(PARTS),
    "list of tables": lambda folder: PARTS,
    "tuple of batches": lambda folder: tuple(TABLE.to_batches(50_000)),
    "chunks of a CSV file by pandas": pandas_chunks,
    "slices of a polars frame": lambda folder: polars.from_arrow(pa.concat_tables(FLAT)).iter_slices(33_333),
    "batches of a polars query": lambda folder: polars.scan_parquet(parquet(folder, FLAT)).collect_batches(),
    "dataset": lambda folder: ds.dataset(parquet(folder)),
    "scanner": lambda folder: ds.dataset(parquet(folder)).scanner(columns=["v", "t", "k"]),
    "scanner of all columns": lambda folder: ds.dataset(parquet(folder)).scanner(),
    "parquet file": lambda folder: pq.ParquetFile(parquet(folder, [TABLE]) / "0.parquet"),
    "lazy frame": lambda folder: polars.scan_parquet(parquet(folder, FLAT)),
    "lazy frame of memory": lambda folder: polars.from_arrow(pa.concat_tables(FLAT)).lazy(),
    "relation": lambda folder: duckdb.connect().from_arrow(TABLE),
    "relation of files": lambda folder: duckdb.connect().read_parquet(str(parquet(folder) / "*.parquet")),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_gives_what_its_table_gives(stream, threads, tmp_path):
    same(sl.aggregate(STREAMS[stream](tmp_path), SPEC, threads=threads))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_between_two_times(stream, threads, tmp_path):
    """Times as they were given; the same as a filter of the table."""
    start, end = "2023-12-01T06:30:00.000000001", datetime(2024, 2, 3)
    low, high = (pa.scalar(np.datetime64(time).astype("M8[ns]"), pa.timestamp("ns")) for time in (start, end))
    inside = TABLE.filter((pc.field("t") >= low) & (pc.field("t") < high))
    assert 0 < inside.num_rows < ROWS
    found = sl.aggregate(STREAMS[stream](tmp_path), SPEC, between=(start, end), threads=threads)
    same(found, sl.aggregate(inside, SPEC))


def test_one_end_of_between_may_be_open():
    middle = TABLE["t"][ROWS // 2]
    before = sl.aggregate(TABLE, SPEC, between=(None, middle.value))
    after = sl.aggregate(TABLE, SPEC, between=(middle.as_py(), None))
    assert sum(before["n"].to_pylist()) + sum(after["n"].to_pylist()) == ROWS
    same(before, sl.aggregate(TABLE.slice(0, ROWS // 2), SPEC))
    same(after, sl.aggregate(TABLE.slice(ROWS // 2), SPEC))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**62 - 5, 2**62 - 4, 2**62 - 3, None]),
        pa.array([10, 11, 12, None], pa.uint8()),
        pa.array([19_000, 19_001, 19_002, None], pa.date32()),
        pa.array([START, START + 1, START + 2, None], pa.timestamp("ns", "Europe/Oslo")),
    ],
    ids=lambda column: str(column.type),
)
def test_between_of_any_time_column(column, tmp_path):
    """Rows without a time are left out."""
    table = pa.table({"t": column, "v": [1, 2, 4, 8]})
    words = [value.value if hasattr(value, "value") else value.as_py() for value in column[:3]]
    spec = sl.Spec("t", {"all": sl.whole()}, {"s": sl.sum("v")})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    given = [table, iter([table]), tmp_path, pq.ParquetFile(tmp_path / "a.parquet")]
    given += [polars.from_arrow(table).lazy(), duckdb.connect().read_parquet(str(tmp_path / "a.parquet"))]
    for data in given:
        if isinstance(data, duckdb.DuckDBPyRelation) and str(column.type).startswith("timestamp"):
            continue  # it turns nanoseconds of a zone into microseconds
        assert sl.aggregate(data, spec, between=(words[1], words[2]))["s"].to_pylist() == [2]


def test_nothing_between_gives_no_windows(tmp_path):
    for data in (TABLE, parquet(tmp_path), polars.scan_parquet(parquet(tmp_path, FLAT)), iter(PARTS)):
        found = sl.aggregate(data, SPEC, between=("1999-01-01", "1999-01-02"))
        assert found.num_rows == 0
        assert found.schema == EXPECTED.schema


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view(), pa.list_(pa.string_view())], ids=str)
def test_between_of_columns_of_views(view, tmp_path):
    """Arrow's scans cannot choose rows of views, as keys or as values."""
    texts = [["x"], ["y"], ["z"], None] if pa.types.is_list(view) else ["x", "y", "z", None]
    table = pa.table({"t": [1, 2, 12, 3], "k": pa.array(texts, view)})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count("k"), "rows": sl.count()})
    pa.feather.write_feather(table, str(tmp_path / "a.arrow"), compression="uncompressed")
    path = str(tmp_path / "a.arrow")
    for data in (table, ds.dataset(table), path, ds.dataset(path, format="ipc")):
        assert sl.aggregate(data, spec, between=(2, 12)).select(["n", "rows"]).to_pylist() == [{"n": 1, "rows": 2}]


# --- files ----------------------------------------------------------------------------------------------------------


def write_csv(part, path, separator=","):
    options = pyarrow.csv.WriteOptions(delimiter=separator)
    pyarrow.csv.write_csv(part.drop_columns("unused"), path, options)


def write_gzip(part, path):
    with gzip.open(path, "wb") as file:
        pyarrow.csv.write_csv(part.drop_columns("unused"), file)


WRITERS = {
    ".parquet": pq.write_table,
    ".PQ": pq.write_table,
    ".csv": write_csv,
    ".csv.gz": write_gzip,
    ".tsv": lambda part, path: write_csv(part, path, "\t"),
    ".arrow": lambda part, path: pyarrow.feather.write_feather(part, path, compression="uncompressed"),
    ".feather": pyarrow.feather.write_feather,
}


@pytest.mark.parametrize("ending", WRITERS)
def test_files_by_path(ending, tmp_path):
    files = [tmp_path / f"{at}{ending}" for at in range(FILES)]
    for file, part in zip(files, PARTS, strict=True):
        WRITERS[ending](part, file)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / f".hidden{ending}").write_text("no rows")
    same(sl.aggregate(tmp_path, SPEC))
    same(sl.aggregate(str(tmp_path / f"*{ending}"), SPEC))
    same(sl.aggregate(files, SPEC))
    one = sl.aggregate(files[0], SPEC)
    assert sum(one["n"].to_pylist()) == ROWS // FILES


def test_globs_and_uris(tmp_path):
    for at, part in enumerate(PARTS):
        folder = tmp_path / f"year=202{at}" / "deep"
        folder.mkdir(parents=True)
        pq.write_table(part, folder / f"part-{at}.parquet")
    for pattern in ("**/*.parquet", "*/*/part-[0-3].parquet", "year=202?/deep/*", "**"):
        same(sl.aggregate(f"{tmp_path}/{pattern}", SPEC))
    assert sum(sl.aggregate(f"{tmp_path}/*/deep/part-[!0].parquet", SPEC)["n"].to_pylist()) == ROWS * 3 // 4
    same(sl.aggregate(f"file://{tmp_path}", SPEC))
    same(sl.aggregate([f"{tmp_path}/year=202[01]/**", tmp_path / "year=2022", f"{tmp_path}/year=2023"], SPEC))
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*/\*.parquet'"):
        sl.aggregate(f"{tmp_path}/*.parquet", SPEC)


def test_uris_are_escaped_and_paths_are_not(tmp_path):
    for name in ("my file.parquet", "100%25.parquet"):
        pq.write_table(TABLE, tmp_path / name)
        same(sl.aggregate((tmp_path / name).as_uri(), SPEC))
        same(sl.aggregate(f"file:{tmp_path}/{name}", SPEC))  # as Hadoop writes paths
    same(sl.aggregate(f"{tmp_path.as_uri()}/my%20f*.parquet", SPEC))


def test_folders_of_partitions_have_columns(tmp_path):
    """Of a folder or a glob what stands in ``name=value`` is a column."""
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"t": [1, 2, 3]}), tmp_path / f"year={year}" / "a.parquet")
    spec = sl.Spec("t", {"all": sl.whole()}, {"n": sl.count()}, by=["year"])
    for path in (tmp_path, f"{tmp_path}/year=202?/*.parquet"):
        assert sl.aggregate(path, spec)["year"].to_pylist() == [2020, 2021]


def test_a_file_whose_name_is_a_glob(tmp_path):
    pq.write_table(TABLE, tmp_path / "all[1].parquet")
    same(sl.aggregate(tmp_path / "all[1].parquet", SPEC))


def test_files_of_another_file_system(tmp_path, monkeypatch):
    """By URI, as of an object store."""
    parquet(tmp_path)
    mounted = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr("slicing.columns.paths.filesystem", lambda path: (mounted, path.removeprefix("store://")))
    same(sl.aggregate("store://", SPEC))
    same(sl.aggregate("store://*.parquet", SPEC))
    same(sl.aggregate(["store://0.parquet", "store://[1-3].parquet"], SPEC))


def test_a_whole_file_can_be_pushed(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=5000)
    for data in (tmp_path / "a.parquet", ds.dataset(tmp_path), polars.from_arrow(TABLE).lazy()):
        op = sl.Operator(SPEC)
        assert op.push(data).stats.rows == ROWS
        op.flush()


def test_a_file_with_a_stream_of_arrow_says_how_to_read_it(tmp_path):
    for name in "ab":
        with pa.ipc.new_stream(tmp_path / f"{name}.arrow", TABLE.schema) as stream:
            stream.write_table(TABLE)
    for data in (tmp_path / "a.arrow", tmp_path):
        with pytest.raises(ValueError, match=r"cannot be read as ipc: .*; if it is a stream of Arrow's, give pyarrow"):
            sl.aggregate(data, SPEC)
    with open(tmp_path / "a.arrow", "rb") as file:
        assert sl.aggregate(pa.ipc.open_stream(file), SPEC).equals(sl.aggregate(TABLE, SPEC))


def test_files_that_cannot_be_read_say_so(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as parquet: .*magic bytes"):
        sl.aggregate(tmp_path / "a.parquet", SPEC)
    (tmp_path / "a.csv").write_text("t,v\n" + "1,2\n" * 1_000_000 + "1,two\n")
    with pytest.raises(ValueError, match=r"a\.csv' cannot be read: .*'two'.*where types differ, open it with"):
        sl.aggregate(tmp_path / "a.csv", sl.Spec("t", {"w": sl.tumbling(5)}, {"s": sl.sum("v")}))
    with pytest.raises(
        ValueError, match=r"data has files of several formats, .*a\.csv \(csv\) and .*a\.parquet \(parq"
    ):
        sl.aggregate(tmp_path, SPEC)
    with pytest.raises(ValueError, match=r"column 't' is missing in the data; its columns are k"):
        pq.write_table(pa.table({"k": [1]}), tmp_path / "b.parquet")
        sl.aggregate(tmp_path / "b.parquet", SPEC)
    with pytest.raises(FileNotFoundError, match=r"item 1: there is no file or folder"):
        sl.aggregate(iter([TABLE, tmp_path / "c.parquet"]), SPEC)


@pytest.mark.parametrize("ending", WRITERS)
def test_a_column_that_one_of_the_files_lacks_is_refused(ending, tmp_path):
    """In any order, by any kind of path; a dataset whose schema has it takes it for null."""
    whole, part = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    WRITERS[ending](PARTS[0], whole)
    WRITERS[ending](PARTS[1].drop_columns("v"), part)
    refused = rf"column 'v' is missing in .*b{ending}, which .*a{ending} has; .*dataset\(files, .*schema="
    for data in ([whole, part], [part, whole], tmp_path, f"{tmp_path}/*"):
        with pytest.raises(ValueError, match=refused):
            sl.aggregate(data, SPEC)
        with pytest.raises(ValueError, match=refused):
            sl.Operator(SPEC).push(data)
    spec = sl.Spec("t", {"all": sl.whole()}, {"n": sl.count()}, by=["k"])
    assert sum(sl.aggregate([part, whole], spec)["n"].to_pylist()) == ROWS * 2 // FILES
    with pytest.raises(ValueError, match=r"column 'w' is missing in the data; its columns are t, k, "):
        sl.aggregate([whole, part], sl.Spec("t", {"all": sl.whole()}, {"n": sl.count("w")}))


@pytest.mark.parametrize("write", [pq.write_table, pa.feather.write_feather])
def test_times_with_and_without_a_zone_are_not_read_as_one(write, tmp_path):
    ending = ".parquet" if write is pq.write_table else ".feather"
    for name, zone in (("a", None), ("b", "UTC")):
        write(pa.table({"t": pa.array([1, 2], pa.timestamp("us", zone)), "v": [1, 2]}), str(tmp_path / (name + ending)))
    spec = sl.Spec("t", {"w": sl.tumbling("1d")}, {"n": sl.count()})
    for threads in (1, 2):
        with pytest.raises(
            ValueError,
            match=r"column 't' is timestamp\[us\] in .*a\..* and timestamp\[us, tz=UTC\] in .*b\..* give all",
        ):
            sl.aggregate(tmp_path, spec, threads=threads)
    assert sl.aggregate(tmp_path, sl.Spec("v", {"w": sl.whole()}, {"n": sl.count()}))["n"].to_pylist() == [4]


def test_a_dataset_whose_schema_has_all_columns_takes_those_that_a_file_lacks_for_null(tmp_path):
    parquet(tmp_path, [PARTS[0], PARTS[1].drop_columns("v")])
    files = [str(file) for file in sorted(tmp_path.glob("*.parquet"), reverse=True)]
    spec = sl.Spec("t", {"all": sl.whole()}, {"n": sl.count(), "there": sl.count("v")})
    found = sl.aggregate(ds.dataset(files, schema=TABLE.schema), spec)
    there = len(PARTS[0]) - PARTS[0]["v"].null_count
    assert (found["n"].to_pylist(), found["there"].to_pylist()) == ([ROWS * 2 // FILES], [there])


def test_columns_of_folders_and_of_text_are_found_in_each_file(tmp_path):
    """Names in quotes with a line's end in them, after a mark of the byte order and an empty line."""
    spec = sl.Spec("t", {"all": sl.whole()}, {"n": sl.sum("a\nb")}, by=["year"])
    for year, text in ((2020, '\ufefft,"a\nb"\n1,2\n'), (2021, '\n"a\nb",t\r\n3,4\n')):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "a.csv").write_text(text, newline="")
    found = sl.aggregate(tmp_path, spec)
    assert (found["year"].to_pylist(), found["n"].to_pylist()) == ([2020, 2021], [2, 3])
    (tmp_path / "year=2021" / "b.csv").write_text("t,other\n1,2\n")
    with pytest.raises(ValueError, match=r"column 'a\\nb' is missing in .*year=2021/b\.csv, which .*year=2020"):
        sl.aggregate(f"{tmp_path}/*/*", spec)


def test_files_after_the_first_that_cannot_be_read_say_which(tmp_path):
    parquet(tmp_path, PARTS[:2])
    (tmp_path / "1.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as parquet: .*magic bytes"):
        sl.aggregate(tmp_path, SPEC)


INSTANTS = [1_700_000_000, 1_800_000_000]
DIFFERENT = {  # the types and values of two files, and what holds both
    "narrow and wide": (pa.int8(), [1, None], pa.int64(), [2**40, 5], [1, 2**40, 5]),
    "integers and floats": (pa.int64(), [1, 2], pa.float64(), [0.5, None], [1.0, 2.0, 0.5]),
    "floats of 32 and 64 bits": (
        pa.float32(),
        [0.5, 2],
        pa.float64(),
        [1234567890.4, 0.1],
        [0.5, 2, 1234567890.4, 0.1],
    ),
    "no values and integers": (pa.null(), [None, None], pa.int64(), [2**53 + 1, 5], [2**53 + 1, 5]),
    "units": (pa.timestamp("s"), INSTANTS, pa.timestamp("ns"), [1, 2], [*(n * 10**9 for n in INSTANTS), 1, 2]),
    "dictionaries": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], pa.string(), ["c", None], ["a", "b", "c"]),
    "decimals": (
        pa.decimal128(5, 2),
        [Decimal("1.25")],
        pa.decimal128(9, 4),
        [Decimal(7)],
        [Decimal("1.25"), Decimal(7)],
    ),
}


@pytest.mark.parametrize("write", [pq.write_table, pa.feather.write_feather])
@pytest.mark.parametrize("case", DIFFERENT.values(), ids=DIFFERENT)
def test_types_of_files_are_widened_in_any_order(case, write, tmp_path):
    first, some, other, more, expected = case
    ending = ".parquet" if write is pq.write_table else ".feather"
    for names in ("ab", "ba"):
        for name, type, values in ((names[0], first, some), (names[1], other, more)):
            table = pa.table({"t": range(len(values)), "v": pa.array(values, type)})
            write(table, str(tmp_path / (name + ending)))
        if pa.types.is_timestamp(first):
            spec = sl.Spec("t", {"w": sl.whole()}, {"all": sl.collect("v")})
            found = sl.aggregate(tmp_path, spec)["all"].combine_chunks().values.cast(pa.int64()).to_pylist()
        else:
            (found,) = sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, {"all": sl.collect("v")}))[
                "all"
            ].to_pylist()
        assert sorted(value for value in found if value is not None) == sorted(expected)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pa.array([True, False]), pa.array([7, 0])),
        (pa.array([1, 2], pa.date32()), pa.array([1, 2], pa.timestamp("us"))),
        (pa.array(["a", "b"]), pa.array([b"a", b"b"])),
        (pa.array([Decimal("1.25"), None]), pa.array([0.5, 0.25])),
        (pa.array([Decimal("1.25"), None]), pa.array([1, 2])),
        (pa.array(["1", "2"]), pa.array([1, 2])),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_types_of_files_that_do_not_go_together_are_refused(first, other, names, tmp_path):
    """A dataset would cast 7 to true, and a time to its day."""
    for name, column in zip(names, (first, other), strict=True):
        pq.write_table(pa.table({"t": [1, 2], "v": column}), tmp_path / f"{name}.parquet")
    types = [str(column.type) for column in ((first, other) if names == "ab" else (other, first))]
    refused = (
        f"column 'v' is {re.escape(types[0])} in .*a.parquet and {re.escape(types[1])} in .*b.parquet, types that do"
    )
    with pytest.raises(ValueError, match=refused):
        sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, {"all": sl.collect("v")}))
    assert sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))["n"].to_pylist() == [4]


def test_keys_may_be_both_in_names_of_folders_and_in_files(tmp_path):
    for site in ("north", "south"):
        (tmp_path / f"site={site}").mkdir()
        table = pa.table({"t": [1, 2], "site": pa.array([site] * 2, pa.large_string())})
        pq.write_table(table, tmp_path / f"site={site}" / "a.parquet")
    found = sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="site"))
    assert found.select(["site", "n"]).to_pylist() == [{"site": "north", "n": 2}, {"site": "south", "n": 2}]
    assert sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))["n"].to_pylist() == [4]


def test_lines_of_json_say_how_they_are_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"t": 1, "v": 2}\n{"t": 2, "v": 3}\n')
    with pytest.raises(ValueError, match=r"unknown ending '.jsonl'; known are .*dataset\(path, format='json'\)"):
        values_of(tmp_path / "a.jsonl")
    assert values_of(ds.dataset(tmp_path / "a.jsonl", format="json")) == [2, 3]


def values_of(path, name="v"):
    (found,) = sl.aggregate(path, sl.Spec("t", {"w": sl.whole()}, {"all": sl.collect(name)}))["all"].to_pylist()
    return found


def test_empty_text_of_a_csv_file_is_null(tmp_path):
    (tmp_path / "a.csv").write_text('t,v,x\n1,a,1\n2,,\n3,"",3\n4,NA,4\n')
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count("v"), "some": sl.count_distinct("v"), "x": sl.sum("x")})
    assert sl.aggregate(tmp_path / "a.csv", spec).select(["n", "some", "x"]).to_pylist() == [
        {"n": 2, "some": 2, "x": 8}
    ]
    by = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="v")
    assert set(sl.aggregate(tmp_path / "a.csv", by)["v"].to_pylist()) == {"a", "NA", None}


LATER = {"v": (["0.5", "2"], 2.0), "s": (["abc", "NA"], "abc"), "d": (["NA", "2026-01-02"], date(2026, 1, 2))}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("files", [1, 2])
def test_a_csv_column_without_values_in_the_first_megabyte(name, files, tmp_path):
    texts, most = LATER[name]
    for file in range(files):
        lines = ["", *texts] if file == files - 1 else [""]
        rows = [f"{t},{'some text' * 20},{text}" for text in lines for t in range(10_000)]
        (tmp_path / f"{file}.csv").write_text("\n".join(["t,u," + name, *rows, ""]))
    for asked in ({"m": sl.max(name)}, {"m": sl.max(name), "u": sl.count("u")}):
        found = sl.aggregate(tmp_path, sl.Spec("t", {"w": sl.whole()}, asked))
        assert found["m"].to_pylist() == [most]


def later(path, *values):
    """A CSV file whose last column has values only after the first megabyte."""
    rows = [f"{t},{'some text' * 20}," for t in range(10_000)]
    rows += [f"{10_000 + t},u,{value}" for t, value in enumerate(values)]
    path.write_text("\n".join(["t,u,v", *rows, ""]), encoding="latin1")
    assert path.stat().st_size > 1 << 20


@pytest.mark.parametrize("name", ["a.csv", "day=7/a.csv"])
def test_later_types_go_together_over_files(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    for a, b, found in (("1", "1.5", [1.0, 1.5]), ("1.5", "2", [1.5, 2.0]), ("7", "x", ["7", "x"])):
        later(tmp_path / name, a)
        later(tmp_path / "b.csv", b)
        assert values_of([tmp_path / name, tmp_path / "b.csv"]) == found
        (tmp_path / "b.csv").write_text(f"t,u,v\n20000,u,{b}\n")
        assert values_of([tmp_path / name, tmp_path / "b.csv"]) == found
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert values_of(tmp_path / "a.csv.gz") == [7]


def test_later_values_are_told_as_early_ones_are(tmp_path):
    later(tmp_path / "a.csv", "1.5")
    later(tmp_path / "b.csv", 2**53 + 1)
    with pytest.raises(ValueError, match=r"column 'v' of .*b\.csv has whole numbers beyond 53 bits, such as 90071992"):
        values_of([tmp_path / "a.csv", tmp_path / "b.csv"])
    later(tmp_path / "c.csv", "caf\u00e9")
    with pytest.raises(ValueError, match=r"column 'v' of .*c\.csv is not text in UTF-8; .*encoding='latin1'"):
        values_of(tmp_path / "c.csv")


def test_later_whole_numbers_beyond_64_bits_are_not_rounded(tmp_path):
    rows = [f"{t},{'some text' * 20},{id}" for id in ("", 2**63) for t in range(10_000)]
    (tmp_path / "a.csv").write_text("\n".join(["t,u,id", *rows, ""]))
    with pytest.raises(
        ValueError, match=r"column 'id' of .*a\.csv has whole numbers beyond 64 bits, such as 92233720368"
    ):
        values_of(tmp_path / "a.csv", "id")


def test_whole_numbers_beyond_64_bits_are_not_rounded(tmp_path):
    ids = [2**63 + n for n in range(100)]
    (tmp_path / "a.csv").write_text("t,id,v\n" + "".join(f"{n},{id},1e300\n" for n, id in enumerate(ids)))
    spec = sl.Spec("t", {"w": sl.whole()}, {"ids": sl.count_distinct("id")})
    with pytest.raises(
        ValueError, match=r"column 'id' of .*a\.csv has whole numbers beyond 64 bits, such as 92233720368"
    ):
        sl.aggregate(tmp_path / "a.csv", spec)
    types = pa.schema({"t": pa.int64(), "id": pa.uint64(), "v": pa.float64()})
    assert sl.aggregate(ds.dataset(tmp_path / "a.csv", format="csv", schema=types), spec)["ids"].to_pylist() == [100]
    assert values_of(tmp_path / "a.csv") == [1e300] * 100  # which are written as no whole numbers


def test_text_of_another_encoding_says_how_to_read_it(tmp_path):
    (tmp_path / "a.csv").write_bytes("t,v\n1,café\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"column 'v' of .*a\.csv is not text in UTF-8; .*encoding='latin1'"):
        values_of(tmp_path / "a.csv")
    assert sl.aggregate(tmp_path / "a.csv", sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))["n"].to_pylist() == [1]
    told = pa.csv.ReadOptions(encoding="latin1")
    assert values_of(ds.dataset(tmp_path / "a.csv", format=ds.CsvFileFormat(read_options=told))) == ["café"]


def test_another_sign_between_columns_is_seen(tmp_path):
    (tmp_path / "a.csv").write_text("t;v\n1;2\n")
    with pytest.raises(ValueError, match=r"a\.csv has one column, 't;v'; if ';' separates columns, open it with .*';'"):
        values_of(tmp_path / "a.csv")


def test_lines_may_break_inside_of_quotes_in_files_of_any_size(tmp_path):
    lines = "".join(f'{n},"first\nsecond, {n}"\n' for n in range(60_000))
    (tmp_path / "a.csv").write_text("t,v\n" + lines)
    assert values_of(tmp_path / "a.csv") == [f"first\nsecond, {n}" for n in range(60_000)]


def test_types_of_text_come_from_all_files(tmp_path):
    """Whole numbers in one file and others in the next; names alone; a column without values."""
    (tmp_path / "a.csv").write_text("t,v,w\n")
    (tmp_path / "b.csv").write_text("t,v,w\n1,1,\n2,2,\n")
    (tmp_path / "c.csv").write_text("t,v,w\n3,0.5,x\n")
    assert (values_of(tmp_path), values_of(tmp_path, "w")) == ([1.0, 2.0, 0.5], ["x"])
    (tmp_path / "d.csv").write_text("t,v,w\n4,007,true\n5,two,true\n")
    assert values_of(tmp_path) == ["1", "2", "0.5", "007", "two"]
    assert values_of(tmp_path, "w") == ["x", "true", "true"]
    (tmp_path / "f.csv").write_text("t,u\n1,true\n")
    (tmp_path / "g.csv").write_text("t,u\n1,2024-01-01\n")
    with pytest.raises(ValueError, match=r"column 'u' is bool in .*f\.csv and date32.* in .*g\.csv, types that do not"):
        values_of([tmp_path / "f.csv", tmp_path / "g.csv"], "u")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("1|18446744073709551615|NA", r"a0\.csv has whole numbers beyond 64 bits, such as 18446744073709551615"),
        ("1.5|-9223372036854775809", r"a0\.csv has whole numbers beyond 64 bits, such as -9223372036854775809"),
        ("1.5|18446744073709551615/2", r"a0\.csv has whole numbers beyond 64 bits"),
        ("1/1.5|18446744073709551615", r"a1\.csv has whole numbers beyond 64 bits"),
        ("9007199254740993/1.5", r"a0\.csv has whole numbers beyond 53 bits, such as 9007199254740993"),
    ],
)
def test_numbers_of_text_that_would_be_rounded_are_named(texts, said, tmp_path):
    """``|`` begins a line, ``/`` a file."""
    for number, part in enumerate(texts.split("/")):
        lines = "".join(f"{n},{text}\n" for n, text in enumerate(part.split("|")))
        (tmp_path / f"a{number}.csv").write_text("t,v\n" + lines)
    with pytest.raises(ValueError, match=said):
        values_of(tmp_path)


@pytest.mark.parametrize("numbers", [["1", "1.5", "inf"], ["1", "1e20"], ["9007199254740992", "0.5"], ["-1e300", "7"]])
def test_floats_of_text_may_be_as_large_as_they_are(numbers, tmp_path):
    for number, text in enumerate(numbers):
        (tmp_path / f"a{number}.csv").write_text(f"t,v\n{number},{text}\n")
    assert values_of(tmp_path) == list(map(float, numbers))


IN_ORDER = pa.dictionary(pa.int8(), pa.string(), ordered=True)
ALIKE = {  # the values of both files are read
    "zones": (pa.array([1], pa.timestamp("us", "UTC")), pa.array([2000], pa.timestamp("ns", "Europe/Berlin"))),
    "ordered or not": (pa.array(["a"]).dictionary_encode(), pa.array(["b"]).cast(IN_ORDER)),
    "lists": (pa.array([[1]], pa.list_(pa.int8())), pa.array([[2**40]], pa.list_(pa.field("element", pa.int64())))),
    "structs": (pa.array([{"a": 1}], pa.struct([("a", pa.int8())])), pa.array([{"a": 2**40}])),
}
ZONED = pa.list_(pa.timestamp("us", "UTC"))
UNLIKE = {
    "booleans and integers in lists": (pa.array([[True]]), pa.array([[7]])),
    "booleans and integers in structs": (pa.array([{"a": True}]), pa.array([{"a": 7}])),
    "days and times in lists": (pa.array([[1]], pa.list_(pa.date32())), pa.array([[1]], pa.list_(pa.timestamp("us")))),
    "text and bytes in lists": (pa.array([["a"]]), pa.array([[b"a"]])),
    "zones in lists": (pa.array([[1]], pa.list_(pa.timestamp("us"))), pa.array([[1]], ZONED)),
    "other fields": (pa.array([{"a": 1}]), pa.array([{"a": 1, "b": 2}])),
    "other names": (pa.array([{"a": 1}]), pa.array([{"b": 1}])),
    "a list and a struct": (pa.array([[1]]), pa.array([{"a": 1}])),
    "a list and a number": (pa.array([[1]]), pa.array([1])),
}


@pytest.mark.parametrize("case", ALIKE.values(), ids=ALIKE)
def test_types_that_differ_in_form_are_read(case, tmp_path):
    for name, column in zip("ab", case, strict=True):
        pq.write_table(pa.table({"t": [1], "v": column}), tmp_path / f"{name}.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count("v"), "last": sl.last("v")})
    (found,) = sl.aggregate(tmp_path, spec).to_pylist()
    assert (found["n"], found["last"]) == (2, case[1][0].as_py())


@pytest.mark.parametrize("case", UNLIKE.values(), ids=UNLIKE)
def test_nested_types_that_do_not_go_together_are_refused(case, tmp_path):
    for name, column in zip("ab", case, strict=True):
        pq.write_table(pa.table({"t": [1], "v": column}), tmp_path / f"{name}.parquet")
    with pytest.raises(
        ValueError, match=r"column 'v' is .* in .*a\.parquet and .* in .*b\.parquet, types that do not go"
    ):
        values_of(tmp_path)


def test_views_and_text_are_one_type_in_files(tmp_path):
    for name, type in (("a", pa.string_view()), ("b", pa.large_string())):
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), pa.schema([("t", pa.int64()), ("v", type)])) as file:
            file.write_batch(pa.record_batch({"t": pa.array([1]), "v": pa.array([name]).cast(type)}))
    assert values_of(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("threads", [1, 2])
def test_values_of_files_count_where_folders_have_the_column_too(threads, tmp_path):
    for site, month in (("a", "1"), ("b", "2")):
        folder = tmp_path / f"m={month}" / f"site={site}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"t": [1], "site": [f"file {site}"]}), folder / "0.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by=["site", "m"])
    found = sl.aggregate(tmp_path, spec, threads=threads).select(["site", "m"]).to_pylist()
    assert found == [{"site": "file a", "m": 1}, {"site": "file b", "m": 2}]


@pytest.mark.parametrize("threads", [1, 2])
def test_values_in_names_of_folders_count_in_a_dataset(threads, tmp_path):
    """A dataset agrees with its own table, also where the files have the column."""
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"t": [day], "day": pa.array([77], pa.int32())}), tmp_path / f"day={day}" / "f.parquet")
    data = ds.dataset(tmp_path, partitioning="hive")
    assert data.to_table()["day"].to_pylist() == [1, 2]
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by=["day"])
    assert sl.aggregate(data, spec, threads=threads)["day"].to_pylist() == [1, 2]
    by_day = sl.Spec("day", {"w": sl.tumbling(1)}, {"n": sl.count()})
    found = sl.aggregate(data, by_day, threads=threads, between=(2, 3))
    assert found.select(["window_start", "n"]).to_pylist() == [{"window_start": 2, "n": 1}]
    for columns in (["day"], []):  # some of the columns, and all
        read = list(datasets.of_dataset(data, Wanted(tuple(columns), threads=threads)))
        assert pa.Table.from_batches(read)["day"].to_pylist() == [1, 2]


def test_a_text_of_only_names_says_how_to_give_its_types(tmp_path):
    (tmp_path / "a.csv").write_text("t,k,v\n")
    with pytest.raises(TypeError, match=r"time column 't' must .* is null: .*dataset\(path, format=..., schema=...\)"):
        sl.aggregate(tmp_path / "a.csv", SPEC)


def test_errors_of_a_generator_are_its_own():
    def broken():
        yield PARTS[0]
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        sl.aggregate(broken(), SPEC)


QUERIES = {
    "text as time": "select '2026-01-01' t, 1 v",
    "null time": "select timestamp '2026-01-01' t, 1 v union all select null, 2",
    "text as value": "select timestamp '2026-01-01' t, 'x' v",
    "overflow": f"select timestamp '2026-01-01' t, {2**62} v from range(4)",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_relation_that_is_refused_leaves_its_connection_free(query):
    """Also where the error is kept, as notebooks keep the last one."""
    connection = duckdb.connect()
    spec = sl.Spec("t", {"w": sl.tumbling("1d")}, {"s": sl.sum("v")})
    with pytest.raises((TypeError, ValueError, OverflowError)) as kept:
        sl.aggregate(connection.sql(query), spec)
    assert connection.sql("select 42").fetchall() == [(42,)], kept
    with pytest.raises((TypeError, ValueError, OverflowError)) as kept:
        list(sl.replay(connection.sql(query), spec))
    assert connection.sql("select 42").fetchall() == [(42,)], kept


def test_what_an_error_has_seen_is_free_at_once():
    """A wrong call keeps no table until the next collection of garbage."""
    data = pa.table({"t": ["no time"]})
    gc.collect()
    gc.disable()
    try:
        with suppress(TypeError):
            sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling("1d")}, {"n": sl.count()}))
        there = weakref.ref(data)
        del data
        assert there() is None
    finally:
        gc.enable()


# --- what is read -----------------------------------------------------------------------------------------------------


def columns_pushed(monkeypatch, data, between=None, spec=SPEC):
    seen, push = [], sl.Operator.push
    monkeypatch.setattr(sl.Operator, "push", lambda op, batch: seen.append(batch) or push(op, batch))
    sl.aggregate(data, spec, between=between)
    return seen


@pytest.mark.parametrize(
    "data",
    [
        lambda folder: TABLE,
        lambda folder: pa.concat_tables(FLAT).to_pandas(),
        lambda folder: parquet(folder),
        lambda folder: ds.dataset(parquet(folder)),
        lambda folder: pq.ParquetFile(parquet(folder) / "0.parquet"),
        lambda folder: polars.scan_parquet(parquet(folder, FLAT)),
        lambda folder: duckdb.connect().read_parquet(str(parquet(folder) / "*.parquet")),
        lambda folder: (part for part in PARTS),
    ],
    ids=["table", "pandas", "path", "dataset", "parquet file", "lazy frame", "relation", "generator"],
)
def test_only_the_columns_of_the_spec_are_read(data, tmp_path, monkeypatch):
    pushed = columns_pushed(monkeypatch, data(tmp_path))
    assert {frozenset(batch.schema.names) for batch in pushed} == {frozenset("tkv")}


def test_only_the_columns_of_expressions_are_read(tmp_path, monkeypatch):
    aggs = {"any": sl.any(sl.col("v") < 0), "some": sl.count().where(sl.col("v") > 0)}
    pushed = columns_pushed(monkeypatch, parquet(tmp_path), spec=sl.Spec("t", {"w": sl.whole()}, aggs))
    assert {frozenset(batch.schema.names) for batch in pushed} == {frozenset("tv")}


def test_row_groups_outside_are_not_read(tmp_path, monkeypatch):
    """A page of the first row groups is damaged: only who reads it fails."""
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE.drop_columns("unused"), path, row_group_size=20_000, compression="none")
    column = pq.ParquetFile(path).metadata.row_group(2).column(2)
    data = bytearray(path.read_bytes())
    at = column.data_page_offset
    data[at : at + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(data))
    start = TABLE["t"][70_000].as_py()
    expected = sl.aggregate(TABLE.slice(70_000), SPEC)
    for given in (path, ds.dataset(path), pq.ParquetFile(path), polars.scan_parquet(path)):
        for threads in (1, 2):
            same(sl.aggregate(given, SPEC, between=(start, None), threads=threads), expected)
            with pytest.raises(Exception, match=r".+"):
                sl.aggregate(given, SPEC, threads=threads)
    read = [len(batch) for batch in columns_pushed(monkeypatch, pq.ParquetFile(path), (start, None))]
    assert sum(read) == ROWS - 70_000


@pytest.mark.parametrize("threads", [1, 2])
def test_times_that_python_has_not(threads, tmp_path):
    """Statistics may have such times, as MySQL's 0000-00-00 and the 31st of December of 20000."""
    times = np.array(["2026-01-01", "2026-01-02", "-0001-11-30", "20000-12-31"], "M8[us]")
    pq.write_table(pa.table({"t": times, "v": range(4)}), tmp_path / "a.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"c": sl.collect("v")})
    for data in (tmp_path / "a.parquet", ds.dataset(tmp_path / "a.parquet"), pq.ParquetFile(tmp_path / "a.parquet")):
        found = sl.aggregate(data, spec, between=("2026-01-01", "2027-01-01"), threads=threads)
        assert found["c"].to_pylist() == [[0, 1]]


def test_row_groups_with_unknown_times_are_read_beside_others(tmp_path):
    """A row group each: of a time that Python has, of one that it has not, of nulls, and of a time again."""
    times = np.array(["2026-01-01", "20000-12-31", "NaT", "2026-01-09"], "M8[us]")
    pq.write_table(pa.table({"t": times}), tmp_path / "a.parquet", row_group_size=1)
    file = pq.ParquetFile(tmp_path / "a.parquet")
    first, later = pa.scalar(times[0]), pa.scalar(times[0] + 1_000_000)
    for bounds, expected in (((None, first), [1, 2]), ((later, None), [1, 2, 3]), ((first, later), [0, 1, 2])):
        assert parquet_files.within(file.metadata, file.schema_arrow, "t", bounds) == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_bounds_are_made_once_for_all_files(threads, tmp_path, monkeypatch):
    made, instant = [], Measure.instant
    monkeypatch.setattr(Measure, "instant", lambda *asked: made.append(asked) or instant(*asked))
    found = sl.aggregate(parquet(tmp_path), SPEC, threads=threads, between=("2023-12-01", "2024-05-01"))
    assert found.num_rows > 0
    assert len(made) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_times_of_96_bits_reach_from_the_year_1_to_9999(threads, tmp_path):
    """Parquet's old form, which Spark writes by default, in the time column and others."""
    times = [datetime(1, 1, 1), datetime(2026, 1, 2, 3, 4, 5, 678901), datetime(9999, 12, 30)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "until": pa.array(times[::-1], pa.timestamp("us"))})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=True)
    spec = sl.Spec("t", {"w": sl.tumbling("1d")}, {"n": sl.count(), "until": sl.max("until")})
    found = sl.aggregate(tmp_path, spec, threads=threads)
    assert found["n"].to_pylist() == [2, 2, 2]
    assert found["until"].to_pylist() == times[::-1]
    some = sl.aggregate(tmp_path, spec, threads=threads, between=("2026-01-01", None))
    assert some.to_pylist() == found.slice(1).to_pylist()


def test_options_of_a_dataset_are_kept(tmp_path):
    """Its own filter; how it wants to be read."""
    parquet(tmp_path)
    oslo = ds.dataset(tmp_path).filter(pc.field("k") == "oslo")
    for threads in (1, 2):
        same(sl.aggregate(oslo, SPEC, threads=threads), sl.aggregate(TABLE.filter(pc.field("k") == "oslo"), SPEC))
    own = ds.dataset(tmp_path, format=ds.ParquetFileFormat(use_buffered_stream=True))
    assert not datasets._reads_local_parquet(own)
    assert datasets._reads_local_parquet(ds.dataset(tmp_path))
    assert not datasets._is_whole(oslo)
    same(sl.aggregate(own, SPEC))


def test_files_whose_columns_are_not_as_the_first_one_has_them(tmp_path):
    """Their types, whether there are nulls, a column that is missing, or in a folder's name; in another order."""
    first, second, third, fourth = PARTS
    nullable = second.schema.set(1, pa.field("k", pa.string(), nullable=False))
    parts = [first, second.cast(nullable), third.set_column(2, "v", third["v"].cast(pa.decimal128(20))), fourth]
    schema = first.schema.append(pa.field("none", pa.int8()))
    parts[3] = fourth.select(["more", "v", "t", "unused", "k"])
    parquet(tmp_path, parts)
    found = ds.dataset(tmp_path, schema=schema)
    for threads in (1, 2):
        same(sl.aggregate(found, SPEC, threads=threads))
        none = sl.Spec("t", {"day": sl.tumbling("1d")}, {"n": sl.count("none"), "all": sl.count()})
        windows = sl.aggregate(found, none, threads=threads)
        assert (sum(windows["n"].to_pylist()), sum(windows["all"].to_pylist())) == (0, ROWS)


def test_chosen_row_groups_of_a_dataset_are_all_that_is_read(tmp_path):
    parquet(tmp_path, [TABLE])
    (file,) = ds.dataset(tmp_path).get_fragments()
    some = ds.FileSystemDataset([file.subset(row_group_ids=[1, 3])], TABLE.schema, ds.ParquetFileFormat())
    expected = sl.aggregate(pa.concat_tables([TABLE.slice(7000, 7000), TABLE.slice(21_000, 7000)]), SPEC)
    for threads in (1, 2):
        same(sl.aggregate(some, SPEC, threads=threads), expected)


def test_wide_rows_are_decoded_a_few_at_a_time():
    wide = pa.schema([(f"c{n}", pa.string()) for n in range(1000)])
    assert datasets._rows(wide, None) == datasets.SMALLEST
    assert datasets._rows(wide, ["c1", "c2"]) == datasets.LARGEST


@pytest.mark.parametrize("opened", [ds.dataset, pq.ParquetFile])
@pytest.mark.parametrize("threads", [1, 2])
def test_long_texts_are_decoded_a_few_at_a_time(opened, threads, tmp_path):
    if opened is ds.dataset and threads > 1 and not datasets.MAY_SHARE_FILES:
        pytest.skip("row groups are read side by side from pyarrow 20 on")
    table = pa.table({"t": range(5000), "text": ["x" * 10_000] * 5000, "in.it": [{"text": "x" * 1000}] * 5000})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    for columns in (("t", "text"), ("t", "in.it"), ()):
        read = list(sources.batches(opened(tmp_path / "a.parquet"), Wanted(columns, threads=threads)))
        assert sum(map(len, read)) == 5000
        assert max(batch.nbytes for batch in read) <= 1.1 * datasets.ROOM


def test_a_generator_is_asked_for_a_frame_when_the_one_before_is_in():
    alive, most = set(), []

    class Frame:
        def __init__(self, part):
            self._part = part
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

        def __arrow_c_stream__(self, requested_schema=None):
            return self._part.__arrow_c_stream__(requested_schema)

    threads = set()

    def frames():
        for part in TABLE.to_batches(1000):
            threads.add(threading.get_ident())
            yield Frame(pa.Table.from_batches([part]))

    same(sl.aggregate(frames(), SPEC))
    assert len(most) == 200
    assert max(most) <= 2
    assert threads == {threading.get_ident()}  # where its owner called


PEAK = """
import resource, sys
import pyarrow as pa, pyarrow.dataset, pyarrow.parquet
import slicing as sl

if sys.argv[2] == "lazy frame":
    import polars
if sys.argv[2] == "relation":
    import duckdb

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def groups(file):  # iter_batches() of all reads ahead what the consumer is slower by
    for at in range(file.num_row_groups):
        yield file.read_row_group(at)

make = {
    "path": lambda folder: folder,
    "parquet file": lambda folder: pa.parquet.ParquetFile(folder + "/0.parquet"),
    "lazy frame": lambda folder: polars.scan_parquet(folder),
    "relation": lambda folder: duckdb.connect().read_parquet(folder + "/*.parquet"),
    "generator": lambda folder: groups(pa.parquet.ParquetFile(folder + "/0.parquet")),
}[sys.argv[2]]
spec = sl.Spec("t", {"w": sl.tumbling(1_000_000)}, {"n": sl.count(), "total": sl.sum("v")}, by=["k"])
sl.aggregate(make(sys.argv[1] + "/small"), spec)
before = peak()
table = sl.aggregate(make(sys.argv[1] + "/large"), spec)
print(table.num_rows, sum(table["n"].to_pylist()), peak() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """12 M rows of 32 bytes in a file, and one of the size of two row groups."""
    folder, rows = tmp_path_factory.mktemp("peak"), 250_000
    for name, groups in (("small", 2), ("large", 48)):
        (folder / name).mkdir()
        schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "v": pa.float64(), "unused": pa.float64()})
        with pq.ParquetWriter(folder / name / "0.parquet", schema, use_dictionary=["k"]) as writer:
            for group in range(groups):
                t = np.arange(group * rows, (group + 1) * rows)
                part = {"t": t, "k": t % 50, "v": np.sqrt(t), "unused": np.sqrt(t)}
                writer.write_table(pa.table(part), row_group_size=rows)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is asked of the resource module")
@pytest.mark.parametrize("kind", ["path", "parquet file", "lazy frame", "relation", "generator"])
def test_memory_is_bounded(kind, large):
    """The columns that are read have 288 MB."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(large), kind], cwd=root, capture_output=True, text=True, check=True
    )
    windows, counted, grown = map(int, done.stdout.split()[-3:])
    assert (windows, counted) == (12 * 50, 12_000_000)
    assert grown < 150 << 20


def test_keys_of_folders_do_not_depend_on_how_files_are_named(tmp_path):
    for site in "ab":
        (tmp_path / f"site={site}").mkdir()
        pq.write_table(pa.table({"t": [1, 2], "v": [1, 2]}), tmp_path / f"site={site}" / "x.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="site")
    one = f"{tmp_path}/site=a"
    for data in (one, [one], f"{one}/x.parquet", f"{one}/*.parquet", f"{tmp_path}/site=[a]/x.parquet"):
        assert sl.aggregate(data, spec)["site"].to_pylist() == ["a"], data
    for data in (tmp_path, [one, f"{tmp_path}/site=b"], f"{tmp_path}/*/x.parquet"):
        assert sl.aggregate(data, spec)["site"].to_pylist() == ["a", "b"], data


def test_paths_of_two_stores_of_one_kind_are_refused(tmp_path, monkeypatch):
    for name, value in (("one", 1), ("other", 1000)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"t": [1], "v": [value]}), tmp_path / name / "x.parquet")

    def opened(path):
        host, _, inside = path.removeprefix("store://user:secret@").partition("/")
        return fs.SubTreeFileSystem(str(tmp_path / host), fs.LocalFileSystem()), inside

    monkeypatch.setattr("slicing.columns.paths.filesystem", opened)
    spec = sl.Spec("t", {"w": sl.whole()}, {"s": sl.sum("v")})
    paths = [f"store://user:secret@{host}/x.parquet" for host in ("one", "other")]
    assert [sl.aggregate(path, spec)["s"].to_pylist() for path in paths] == [[1], [1000]]
    with pytest.raises(
        ValueError, match=r"several file systems, 'store://one/x\.parquet' and 'store://other/x\.parquet'"
    ):
        sl.aggregate(paths, spec)
    with pytest.raises(FileNotFoundError, match=r"no file or folder 'store://one/y\.parquet'"):
        sl.aggregate(paths[0].replace("x.", "y."), spec)


@pytest.mark.parametrize("path", ["", " ", [""]])
def test_an_empty_path_is_not_the_working_directory(path):
    with pytest.raises(ValueError, match=r"data must be a path, a glob or a URI of files; got ' ?'"):
        sl.aggregate(path, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_names_the_file_that_cannot_be_read(tmp_path, threads):
    for name in ("a", "b", "c"):
        table = pa.table(
            {"t": pa.array(np.arange(50_000)), "v": pa.array(np.random.default_rng(1).normal(size=50_000))}
        )
        pq.write_table(table, tmp_path / f"{name}.parquet", use_dictionary=False)
    damaged = bytearray((tmp_path / "b.parquet").read_bytes())
    damaged[1000:3000] = bytes(2000)
    (tmp_path / "b.parquet").write_bytes(damaged)
    spec = sl.Spec("t", {"w": sl.whole()}, {"s": sl.sum("v"), "n": sl.max("t")})
    with pytest.raises(ValueError, match=r"b\.parquet' cannot be read: ") as found:
        sl.aggregate(tmp_path, spec, threads=threads)
    assert "where types differ" not in str(found.value)


class Plainly(encryption.KmsClient):
    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key, _):
        return base64.b64encode(key)

    def unwrap_key(self, key, _):
        return base64.b64decode(key)


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("plain_footer", [False, True])
def test_datasets_of_encrypted_files(tmp_path, threads, plain_footer, monkeypatch):
    for name in ("SMALLEST", "LARGEST"):  # several threads read each file
        monkeypatch.setattr(datasets, name, 1000)
    table, keys = pa.table({"t": range(100_000), "v": range(100_000)}), encryption.CryptoFactory(Plainly)
    kms = encryption.KmsConnectionConfig()
    how = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=plain_footer)
    for name in ("a", "b"):
        written = {"encryption_properties": keys.file_encryption_properties(kms, how)}
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", table.schema, **written) as writer:
            writer.write_table(table, row_group_size=1000)
    known = ds.ParquetDecryptionConfig(keys, kms, encryption.DecryptionConfiguration())
    options = ds.ParquetFragmentScanOptions(decryption_config=known)
    spec = sl.Spec("t", {"w": sl.whole()}, {"s": sl.sum("v")})

    def opened():
        return ds.dataset(tmp_path, format=ds.ParquetFileFormat(default_fragment_scan_options=options))

    assert sl.aggregate(opened(), spec, threads=threads)["s"].to_pylist() == [2 * 4_999_950_000]
    some = opened().filter(ds.field("t") >= 10)
    assert sl.aggregate(some, spec, threads=threads)["s"].to_pylist() == [2 * (4_999_950_000 - 45)]


def test_keys_of_folders_that_occur_twice_are_those_below_the_given_folder(tmp_path):
    for run in (2, 3):
        (tmp_path / f"run=1/data/run={run}").mkdir(parents=True)
        pq.write_table(pa.table({"t": [1, 2]}), tmp_path / f"run=1/data/run={run}/x.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="run")
    for data in (tmp_path / "run=1/data", f"{tmp_path}/run=1/data/*/x.parquet"):
        assert sl.aggregate(data, spec)["run"].to_pylist() == [2, 3]
    files = [tmp_path / f"run=1/data/run={run}/x.parquet" for run in (2, 3)]
    with pytest.raises(ValueError, match=r"folders of .*x\.parquet and the other files have a value of column 'run'"):
        sl.aggregate(files, spec)
    assert sl.aggregate(files, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))["n"].to_pylist() == [4]


def test_names_of_folders_above_the_data_need_not_be_text(tmp_path):
    (tmp_path / "q=%ff" / "d").mkdir(parents=True)
    pq.write_table(pa.table({"t": [1, 2]}), tmp_path / "q=%ff" / "d" / "a.parquet")
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()})
    assert sl.aggregate(tmp_path / "q=%ff" / "d", spec)["n"].to_pylist() == [2]


@pytest.mark.parametrize("path", [".", "site=9", "site=9/day"])
@pytest.mark.parametrize("lacking", "ab")
def test_a_column_that_some_files_have_is_not_taken_from_folders(tmp_path, path, lacking):
    (tmp_path / "site=9" / "day").mkdir(parents=True)
    for name in "ab":
        table = pa.table({"t": [1, 2]} | ({} if name == lacking else {"site": [7, 8]}))
        pq.write_table(table, tmp_path / "site=9" / "day" / f"{name}.parquet")
    with pytest.raises(ValueError, match=rf"column 'site' is missing in .*{lacking}\.parquet, which .* has"):
        sl.aggregate(tmp_path / path, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="site"))


def test_a_column_of_text_that_changes_its_type_is_named(tmp_path):
    lines = ["t,v", *(f"{row},7" for row in range(200_000)), "200000,1.5"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"a\.csv' cannot be read: In CSV column 'v': .*'1\.5'; where types differ"):
        sl.aggregate(tmp_path / "a.csv", sl.Spec("t", {"w": sl.whole()}, {"n": sl.sum("v")}))


def test_a_value_that_does_not_fit_the_type_of_all_files_tells_both_types(tmp_path):
    for name, values in (("a", pa.array([2**53 + 1])), ("b", pa.array([0.5]))):
        pq.write_table(pa.table({"t": [1], "v": values}), tmp_path / f"{name}.parquet")
    with pytest.raises(
        ValueError,
        match=r"a.parquet' cannot be read: .*; the types of files differ: column 'v' is int64 "
        r"in this one and double in all together; cast these columns to one type$",
    ):
        sl.aggregate(str(tmp_path), sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}))
