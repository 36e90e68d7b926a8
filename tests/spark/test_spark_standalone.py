"""A master and two worker processes, with the checkout or with the package as a zip: a minute or two each.

``SLICING_CLUSTER=1`` runs them. The tests that kill processes have a cluster of ``local-cluster``, and tasks run twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


@pytest.mark.skipif("SLICING_CLUSTER" not in os.environ, reason="a minute or two; SLICING_CLUSTER=1 runs it")
@pytest.mark.parametrize("shipped", [False, True], ids=["checkout", "zip"])
def test_a_standalone_cluster_gives_the_same_windows_and_runs_tasks_twice_at_once(
    shipped: bool, shared_folder: Path
) -> None:
    command = [sys.executable, str(Path(__file__).with_name("spark_standalone.py")), *([] if shipped else ["--here"])]
    command += ["--classes", str(shared_folder / "classes.jsa")]  # of the tests that kill, where they ran before
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "3 tasks run twice at once" in done.stdout
    assert "0 lost, 0 extra" in done.stdout
