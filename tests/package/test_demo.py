"""``slicing demo``: the demonstration of one process."""

import importlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COMMAND = [sys.executable, "-m", "slicing", "demo", "--rows", "100000"]


def test_the_demo_checks_its_windows():
    done = subprocess.run([*COMMAND, "--quiet"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    assert "12 of 12 windows the same" in done.stdout and "adds up" in done.stdout


def test_a_reader_that_has_seen_enough_gets_no_traceback():
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        assert demo.stdout.readline().startswith("100,000 readings")
        demo.stdout.close()
        assert demo.stderr.read() == "" and demo.wait(300) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rows 0", "argument --rows: must be a whole number of at least 1; got 0"),
        ("--files 0", "argument --files: must be a whole number of at least 1; got 0"),
        ("--sensors few", "argument --sensors: must be a whole number of at least 1; got few"),
        ("--rows 3 --files 5", "argument --files: must be at most --rows, 3; got 5"),
        ("--pause -1", "argument --pause: must be at least 0; got -1"),
    ],
)
def test_the_demo_on_spark_refuses_what_it_cannot_show(options, said, monkeypatch, capsys):
    pytest.importorskip("pyspark")
    demo = importlib.import_module("spark_udfs.__main__")
    monkeypatch.setattr(sys, "argv", ["spark_udfs", *options.split()])
    with pytest.raises(SystemExit):
        demo.main()
    assert capsys.readouterr().err.strip().endswith(said)


def test_every_file_of_the_demo_on_spark_has_rows(tmp_path):
    """It waits for a batch of each."""
    pytest.importorskip("pyspark")
    demo = importlib.import_module("spark_udfs.__main__")
    table = pa.table({"v": range(13)})
    demo.deliver(table, tmp_path, range(12), 12, 0)
    found = [pq.read_table(file)["v"].to_pylist() for file in sorted(tmp_path.iterdir())]
    assert len(found) == 12 and all(found)
    assert [v for some in found for v in some] == list(range(13))
