"""Two worker processes; with the package as a zip a minute of two cores, most of it kernels compiled from the zip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

LONG = pytest.mark.skipif("SLICING_CLUSTER" not in os.environ, reason="a minute; SLICING_CLUSTER=1 runs it")


@pytest.mark.parametrize("shipped", [False, pytest.param(True, marks=LONG)], ids=["checkout", "zip"])
def test_a_standalone_cluster_gives_the_same_windows_and_runs_tasks_twice_at_once(
    shipped: bool, shared_folder: Path
) -> None:
    command = [sys.executable, str(Path(__file__).with_name("spark_standalone.py")), *([] if shipped else ["--here"])]
    command += ["--classes", str(shared_folder / "classes.jsa")]  # of the tests that kill, where they ran before
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "3 tasks run twice at once" in done.stdout
    assert "0 lost, 0 extra" in done.stdout
