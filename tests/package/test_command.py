"""The command line: what it computes is what ``sl.aggregate`` computes, and what is wrong is said in a sentence."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import slicing as sl
from slicing.command_line.command import main

START = 1_767_254_400_000  # 2026-01-01 08:00 UTC, in milliseconds
ROWS = 5000


@pytest.fixture(scope="module")
def data() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "ts": pa.array(START + rng.permutation(ROWS) * 100, pa.timestamp("ms")),
            "sensor": pa.array([f"s{k}" for k in rng.integers(0, 5, ROWS)]),
            "room": rng.integers(0, 2, ROWS),
            "ms": rng.integers(0, 300, ROWS),
            "value": rng.normal(size=ROWS).round(3),
        }
    )


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(data.slice(0, 2000), folder / "a.parquet")
    pq.write_table(data.slice(2000), folder / "b.parquet")
    pyarrow.csv.write_csv(data, folder / "all.csv")
    return folder


QUERY = ["--time", "ts", "--by", "sensor", "--by", "room"]
QUERY += ["--window", "m=tumbling:1m", "--window", "h=sliding:5m,every=1m,full=true"]
QUERY += ["--agg", "n=count", "--agg", "p99=quantile:ms,0.99", "--agg", "slow=count().where(col('ms') > 100)"]
QUERY += ["--agg", "share=sum('value') / count()"]


def spec() -> sl.Spec:
    return sl.Spec(
        "ts",
        {"m": sl.tumbling("1m"), "h": sl.sliding("5m", every="1m", full=True)},
        {
            "n": sl.count(),
            "p99": sl.quantile("ms", 0.99),
            "slow": sl.count().where(sl.col("ms") > 100),
            "share": sl.sum("value") / sl.count(),
        },
        by=["sensor", "room"],
    )


def outcome(capsys, *arguments: object) -> tuple[int, str, str]:
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "csv", "tsv"])
def test_files_are_aggregated_into_a_file(ending, data, files, tmp_path, capsys):
    out = tmp_path / f"windows.{ending}"
    assert outcome(capsys, "aggregate", files / "*.parquet", *QUERY, "--out", out) == (0, "", "")
    assert os.listdir(tmp_path) == [out.name]
    wanted = sl.aggregate(data, spec())
    if ending in ("csv", "tsv"):
        parse = pa.csv.ParseOptions(delimiter="\t" if ending == "tsv" else ",")
        found = pa.csv.read_csv(out, parse_options=parse).cast(wanted.schema)
    else:
        found = pq.read_table(out) if ending == "parquet" else pa.feather.read_table(out)
    assert found.select(["window", "n", "slow"]).equals(wanted.select(["window", "n", "slow"]))
    assert found.drop_columns("share").equals(wanted.drop_columns("share"))
    np.testing.assert_allclose(found["share"], wanted["share"], rtol=1e-12, atol=1e-15)


def test_without_a_file_results_are_csv(data, files, capfdbinary):
    spec_file = files.parent / "query.toml"
    spec_file.write_text(spec().to_toml(), encoding="utf-8")
    between = ["--between", "2026-01-01T08:02:00", "2026-01-01T08:05:00", "--layout", "wide", "--threads", "2"]
    assert main(["aggregate", str(files / "all.csv"), "--spec", str(spec_file), *between]) == 0
    said = capfdbinary.readouterr().out
    found = pa.csv.read_csv(io.BytesIO(said), convert_options=pa.csv.ConvertOptions(strings_can_be_null=True))
    bounds = np.datetime64("2026-01-01T08:02:00"), np.datetime64("2026-01-01T08:05:00")
    wanted = sl.aggregate(data, spec(), between=bounds, layout="wide")
    assert found.column_names == wanted.column_names and found.num_rows == wanted.num_rows == 30
    assert found["n_m"].to_pylist() == wanted["n_m"].to_pylist()


def test_numbers_are_numbers(tmp_path, capsys):
    pq.write_table(pa.table({"t": range(30), "k": ["ä;b,", 'q"'] * 15}), tmp_path / "t.parquet")
    query = ["--time", "t", "--by", "k", "--window", "r=rows:5,every=5", "--agg", "n=count", "--between", "-", "25"]
    status, _, error = outcome(capsys, "aggregate", tmp_path / "t.parquet", *query, "--out", tmp_path / "o.csv")
    assert (status, error) == (0, "")
    wanted = sl.aggregate(
        tmp_path / "t.parquet", sl.Spec("t", {"r": sl.rows(5)}, {"n": sl.count()}, by="k"), between=(None, 25)
    )
    assert pa.csv.read_csv(tmp_path / "o.csv").to_pylist() == wanted.to_pylist()


def test_a_query_is_explained_or_written(files, capsys):
    status, said, _ = outcome(capsys, "explain", *QUERY)
    assert status == 0 and said == f"{sl.explain(spec())}\n"
    schema = pq.read_schema(files / "a.parquet")
    status, said, _ = outcome(capsys, "explain", files / "a.parquet", *QUERY)
    assert status == 0 and said.startswith("sl.Spec(time='ts'") and "bytes per live key" in said
    assert said == f"{sl.explain(spec(), pa.schema([schema.field(name) for name in spec().columns()]))}\n"
    status, said, _ = outcome(capsys, "explain", "--toml", *QUERY)
    assert status == 0 and sl.Spec.from_toml(said) == spec()


def test_help_without_a_command(capsys):
    status, said, _ = outcome(capsys)
    assert status == 2 and "slicing aggregate 'data/*.parquet'" in said
    assert outcome(capsys, "--version") == (0, f"stream-slicing {sl.__version__}\n", "")


ONE = ["--time", "ts", "--window", "m=tumbling:1m", "--agg", "n=count"]
REFUSED = {
    "no query": (["aggregate", "DATA"], "slicing aggregate: --time is missing, such as --time ts; or give the query"),
    "no agg": (["aggregate", "DATA", *ONE[:4]], "--agg is missing, such as --agg n=count"),
    "no data": (["aggregate", *ONE], "slicing aggregate: the following arguments are required: data"),
    "no command": (["agregate"], "slicing: argument COMMAND: invalid choice: 'agregate'"),
    "no file": (["aggregate", "/none/x.parquet", *ONE], "there is no file or folder '/none/x.parquet'"),
    "unnamed": (["aggregate", "DATA", *ONE, "--window", "tumbling:1m"], "--window must be NAME=CALL, such as m=tumb"),
    "unnamed, with a call": (
        ["aggregate", "DATA", *ONE, "--window", "sliding:1h,every=15m"],
        "--window must be NAME=CALL, such as m=tumbling:1m; got 'sliding:1h,every=15m'",
    ),
    "twice": (["aggregate", "DATA", *ONE, "--agg", "n=sum:ms"], "--agg has the name 'n' twice"),
    "unknown": (["aggregate", "DATA", *ONE, "--agg", "x=averge:ms"], "--agg x = \"averge('ms')\": averge is not known"),
    "argument": (
        ["aggregate", "DATA", *ONE, "--window", "x=tumbling:"],
        "--window x = 'tumbling()': sl.tumbling needs size= as well (its arguments are size, offset, fill, full)",
    ),
    "column": (["aggregate", "DATA", *ONE, "--agg", "x=sum:nope"], "column 'nope' is missing in the data; its columns"),
    "type": (["aggregate", "DATA", *ONE, "--agg", "x=sum:sensor"], "column 'sensor' has type string; sum takes"),
    "ending": (["aggregate", "DATA", *ONE, "--out", "x.xlsx"], "--out must end in .parquet, .pq, .csv, .tsv, .arrow"),
    "folder": (["aggregate", "DATA", *ONE, "--out", "/none/x.csv"], "--out is in the folder '/none', which does not"),
    "nested": (
        ["aggregate", "DATA", *ONE, "--agg", "x=collect:ms"],
        "column 'x' has type list<item: int64>, which CSV",
    ),
    "both": (["aggregate", "DATA", "--spec", "q.toml", "--time", "ts"], "--spec has the whole query, and --time was"),
    "no spec": (["explain", "--spec", "/none/q.toml"], "the spec's file '/none/q.toml' cannot be read: No such file"),
    "sample": (["warm", "query.toml"], "a spec needs a sample of its data: slicing warm query.toml sample.parquet"),
    "threads": (["aggregate", "DATA", *ONE, "--threads", "0"], "threads must be a whole number"),
    "layout": (["aggregate", "DATA", *ONE, "--layout", "tall"], "argument --layout: invalid choice: 'tall'"),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(arguments, said, files, capsys, tmp_path):
    found = [files / "all.csv" if argument == "DATA" else argument for argument in arguments]
    status, out, error = outcome(capsys, *found)
    assert status == 2 and out == "" and error.count("\n") == 1
    assert said in error


def test_a_spec_file_is_named_where_it_is_wrong(tmp_path, capsys):
    file = tmp_path / "query.toml"
    file.write_text('time = "t"\n[windows]\nw = "tumbling(1)"\n[aggs]\nn = "cont()"\n')
    status, _, error = outcome(capsys, "explain", "--spec", file)
    assert status == 2
    assert error.startswith(f"slicing explain: {file}: aggs.n = 'cont()': cont is not known; did you mean count?")


def test_a_failure_leaves_the_file_that_was_there(files, tmp_path, capsys):
    out = tmp_path / "windows.csv"
    out.write_text("before")
    status, _, _ = outcome(capsys, "aggregate", files / "all.csv", *ONE, "--agg", "x=collect:ms", "--out", out)
    assert status == 2 and out.read_text() == "before" and os.listdir(tmp_path) == ["windows.csv"]


@pytest.mark.parametrize("type", [pa.binary(), pa.large_binary(), pa.binary(2), pa.dictionary(pa.int32(), pa.binary())])
def test_bytes_are_written_as_csv_if_they_are_text(type, tmp_path, capfdbinary):
    query = ["--time", "t", "--by", "k", "--window", "w=tumbling:10", "--agg", "n=count"]
    for key, name in ((b"ab", "text"), (b"\xffb", "bytes")):
        keys = pa.array([key, b"cd"]).cast(type) if not pa.types.is_dictionary(type) else pa.array([key, b"cd"])
        keys = keys.dictionary_encode() if pa.types.is_dictionary(type) else keys
        pq.write_table(pa.table({"t": [1, 2], "k": keys}), tmp_path / f"{name}.parquet")
    assert main(["aggregate", str(tmp_path / "text.parquet"), *query]) == 0
    assert b"ab" in capfdbinary.readouterr().out
    assert main(["aggregate", str(tmp_path / "bytes.parquet"), *query]) == 2
    said = capfdbinary.readouterr()
    assert said.out == b"" and b"with values that are not UTF-8, which CSV cannot hold; write --out" in said.err
    assert b"column 'k' has type" in said.err


def test_a_closed_standard_output(files, tmp_path):
    def run(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-m", "slicing", *map(str, arguments)]
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stderr

    closed = "standard output is closed, so that nothing can be printed"
    assert run("aggregate", files / "all.csv", *ONE) == (
        2,
        f"slicing aggregate: {closed}; write --out windows.parquet\n",
    )
    assert run("explain", *ONE) == (2, f"slicing explain: {closed}\n")
    assert run("aggregate", files / "all.csv", *ONE, "--out", tmp_path / "o.csv") == (0, "")
    assert pa.csv.read_csv(tmp_path / "o.csv").column_names == ["window", "window_start", "window_end", "n"]


@pytest.mark.parametrize("way", ["file", "glob", "folder", "link", "linked data"])
def test_a_file_of_the_data_is_not_replaced(way, data, tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    file, other, link = folder / "a.parquet", folder / "b.parquet", tmp_path / "link.parquet"
    for path in (file, other):
        pq.write_table(data, path)
    link.symlink_to(file)
    read = {"glob": folder / "*.parquet", "folder": folder, "linked data": link}.get(way, file)
    before = file.read_bytes()
    status, _, error = outcome(capsys, "aggregate", other, read, *ONE, "--out", link if way == "link" else file)
    named = str(link if way == "linked data" else file)
    assert status == 2 and f"would replace the file {named!r} of the data; name another file" in error
    assert file.read_bytes() == before
    assert outcome(capsys, "aggregate", other, *ONE, "--out", file) == (0, "", "")


@pytest.mark.parametrize("known", [True, False])
def test_a_link_stays_and_its_file_is_written(known, files, tmp_path, capsys):
    target = tmp_path / "folder" / "windows.csv"
    target.parent.mkdir()
    if known:
        target.write_text("before")
    link = tmp_path / "link.csv"
    link.symlink_to(os.path.join("folder", "windows.csv"))
    assert outcome(capsys, "aggregate", files / "all.csv", *ONE, "--out", link) == (0, "", "")
    assert link.is_symlink() and not target.is_symlink() and target.read_text().startswith('"window"')
    assert os.listdir(target.parent) == ["windows.csv"]


def test_a_folder_is_not_written(files, tmp_path, capsys):
    folder = tmp_path / "windows.csv"
    folder.mkdir()
    status, _, error = outcome(capsys, "aggregate", files / "all.csv", *ONE, "--out", folder)
    assert (status, error) == (2, f"slicing aggregate: --out must be a file; {str(folder)!r} is a folder\n")


def test_the_module_is_the_command(files):
    command = [sys.executable, "-m", "slicing", "explain", "--spec", "none.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("slicing explain: ") and done.stdout == ""
