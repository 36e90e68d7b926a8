"""From the start of a process to its first result, on 1,000 rows: wall time, best of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import slicing

from . import measuring

QUERIES = {
    "tumbling": "by=[], windows={'w': sl.tumbling(100)}",
    "keyed sliding": "by=['key'], windows={'w': sl.sliding(100, every=10)}",
    "keyed session": "by=['key'], windows={'w': sl.session(10)}",
}
PROGRAM = """
import pyarrow as pa
import slicing as sl
rows = pa.table({{"ts": range(1000), "key": [i % 10 for i in range(1000)], "value": [float(i) for i in range(1000)]}})
aggs = {{"n": sl.count(), "total": sl.sum("value"), "low": sl.min("value"), "high": sl.max("value")}}
assert sl.aggregate(rows, sl.Spec("ts", aggs=aggs, {query})).num_rows
"""


def process(program: str, cache: str | None = None) -> float:
    """Seconds that a process takes; ``cache`` is where it finds and leaves compiled kernels."""
    found = str(Path(slicing.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": found}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    start = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", program], check=True, env=environment)
    return time.perf_counter() - start


class Startup:
    params: ClassVar = list(QUERIES)
    param_names: ClassVar = ["query"]

    def track_cold(self, query: str) -> float:
        """Nothing compiled yet."""
        program = PROGRAM.format(query=QUERIES[query])
        found = []
        for _ in range(measuring.runs(3)):
            with tempfile.TemporaryDirectory() as cache:
                found.append(process(program, cache))
        return min(found)

    track_cold.unit = "s"

    def track_warm(self, query: str) -> float:
        """A process before it compiled the same query's kernels."""
        program = PROGRAM.format(query=QUERIES[query])
        with tempfile.TemporaryDirectory() as cache:
            process(program, cache)
            return min(process(program, cache) for _ in range(measuring.runs(5)))

    track_warm.unit = "s"


class Import:
    def track_import(self) -> float:
        """``import slicing`` alone."""
        return min(process("import slicing") for _ in range(measuring.runs(5)))

    track_import.unit = "s"
