"""Random streams against the oracle with kernels that check bounds: some of what ``make fuzz-checked`` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ONLY = ("tests/semantics/test_agreement.py", "-k", "built_in")
CASES = 3


def test_random_streams_stay_inside_their_arrays() -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *sys.path])
    environment = {**os.environ, "SLICING_CHECK": "1", "SLICING_CASES": str(5 * CASES), "PYTHONPATH": paths}
    environment["NUMBA_OPT"] = "0"  # the checks are the same; most of the time goes into compiling
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ONLY]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:]
