"""``python tests/cold_start.py --rounds 100``: processes that start at once on an empty cache of compiled kernels.

Each answers the same query on 1000 rows, with ``--keyed`` by a key; answers have to be equal, and no process may fail
because another one writes the cache it reads. A last process then starts on the cache they left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

HERE = Path(__file__).resolve().parent.parent
QUERY = """
import sys, time
began = time.perf_counter()
import pyarrow as pa, slicing as sl
rows, *by = sys.argv[1:]
spec = sl.Spec(time="t", by=by, windows={"w": sl.tumbling(100), "s": sl.sliding(300, 100)},
               aggs={"n": sl.count(), "sum": sl.sum("v"), "low": sl.min("v")}, watermark=sl.bounded(10))
out = sl.Operator(spec).push(pa.ipc.open_file(rows).read_all())
sums = [sum(out.windows[c].to_pylist()) for c in ("n", "sum", "low")]
print(out.windows.num_rows, *sums, "pandas" in sys.modules, time.perf_counter() - began, time.process_time())
"""
ANSWERS = {"": ["18", "3300", "171668.75", "712.5", "False"], "k": ["126", "3300", "171668.75", "5034.75", "False"]}
# by hand; and nothing imports pandas, a seventh of a second, which pyarrow does unasked


def rows_in(folder: Path) -> Path:
    """The rows as Arrow, as most come."""
    path = folder / "rows.arrow"
    if not path.exists():
        rows = np.arange(1000)
        table = pa.table({"t": rows, "k": rows % 7, "v": rows / 8})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def started(cache: Path, by: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(HERE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed modules come compiled: else 0.4 of 1.1 s is compiling
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-c", QUERY, str(rows_in(cache)), *by], env=environment, text=True, **pipes
    )


def seconds(process: subprocess.Popen[str], by: str) -> tuple[float, float] | None:
    """From the first import to the result, and of CPU time; None, and a word on it, where the answer is wrong or there
    is none."""
    out, error = process.communicate(timeout=600)
    *answer, took, busy = out.split() or ["", ""]
    if process.returncode or answer != ANSWERS[by]:
        print(f"failed with {process.returncode}: {out}{error}", flush=True)
        return None
    return float(took), float(busy)


def round_of(processes: int, by: str = "") -> tuple[list[tuple[float, float] | None], tuple[float, float] | None]:
    with tempfile.TemporaryDirectory() as folder:
        together = [seconds(p, by) for p in [started(Path(folder), by) for _ in range(processes)]]
        return together, seconds(started(Path(folder), by), by)


def medians(found: list[tuple[float, float]]) -> str:
    took, busy = (statistics.median(column) for column in zip(*(found or [(0, 0)]), strict=True))
    return f"{took:.2f} s ({busy:.2f} s of CPU)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--keyed", action="store_true", help="a query by key, which has more to compile")
    asked = parser.parse_args()
    cold: list[tuple[float, float]] = []
    warm: list[tuple[float, float]] = []
    failed = 0
    began = time.monotonic()
    for _ in range(asked.rounds):
        together, after = round_of(asked.processes, "k" if asked.keyed else "")
        failed += [*together, after].count(None)
        cold += [t for t in together if t is not None]
        warm += [t for t in [after] if t is not None]
    print(
        f"{asked.rounds} rounds of {asked.processes} processes at once: {failed} failed; median "
        f"{medians(cold)} cold, {medians(warm)} for one that follows; "
        f"{time.monotonic() - began:.0f} s in all"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
