"""What is compiled is kept for the next process, and no process is led astray by another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cold_start
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

UDAF = """
import sys, numpy as np, pyarrow as pa, slicing as sl
TIMES = float(sys.argv[1])
scaled = sl.udaf("scaled", lift=lambda x: (x * TIMES, 1), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                 lower=lambda s: s[0] / s[1], identity=(0.0, 0), state=["float64", "int64"], inputs=["v"],
                 commutative=True)
data = pa.table({"t": 1_700_000_000_000_000_000 + np.arange(100), "v": np.arange(100.0)})
print(sl.aggregate(data, sl.Spec("t", {"w": sl.whole()}, {"s": scaled}))["s"].to_pylist())
"""
COMPILED = """
import numba.core.event as event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
"""
COUNTED = """
print(len([e for _, e in compiled.buffer if e.is_start]))
"""


def printed(cache: Path | None, program: str, *arguments: str, **more: str) -> list[str]:
    """What a process prints that keeps its kernels there; None: where they are kept anyway."""
    kept = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    environment = {**os.environ, **kept, "PYTHONPATH": str(cold_start.HERE), **more}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_processes_that_start_at_once_on_an_empty_cache_all_answer_right() -> None:
    together, after = cold_start.round_of(2, "k")
    assert len(together) == 2
    assert None not in [*together, after]


@pytest.mark.parametrize("package", ["slicing", "spark_udfs"])
def test_importing_a_package_does_not_import_pandas(package: str) -> None:
    """Each worker of Spark would take 0.9 s longer to begin."""
    large = "[name for name in ('pandas', 'polars', 'matplotlib', 'pyarrow.dataset') if name in sys.modules]"
    assert printed(None, f"import sys, {package}; print({large})") == ["[]"]


STREAM = """
import sys, numpy as np, pyarrow as pa, slicing as sl
from pyarrow import ipc
rows = ipc.open_file(sys.argv[1]).read_all()
for window in (sl.tumbling("100us"), sl.session("9us"), sl.rows(5, every=2), sl.whole()):
    aggs = {"n": sl.count(), "mid": sl.median("v"), "low": sl.min("name"), "all": sl.collect("v")}
    spec = sl.Spec("t", {"w": window}, aggs, by=["k"], watermark=sl.bounded("10us"))
    op = sl.Operator(spec)
    op.push(rows.slice(0, 500))
    op = sl.Operator.restore(spec, op.snapshot())
    op.push(rows.slice(500))
    op.flush()
print("pandas" in sys.modules)
"""


def test_a_stream_with_snapshots_does_not_import_pandas(tmp_path: Path) -> None:
    t = pa.array(np.arange(1000) + 1_700_000_000_000_000, pa.timestamp("us", "Europe/Vienna"))
    names = pa.array([f"n{at % 7}" for at in range(1000)])
    rows = pa.table({"t": t, "k": names, "v": np.arange(1000) / 7, "name": names})
    with pa.ipc.new_file(tmp_path / "rows.arrow", rows.schema) as file:
        file.write_table(rows)
    assert printed(None, STREAM, str(tmp_path / "rows.arrow")) == ["False"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the query has run once, which had to compile its kernels and the user's functions."""
    folder = tmp_path_factory.mktemp("cache")
    first, compiled = printed(folder, COMPILED + UDAF + COUNTED, "2")
    assert first == "[99.0]" and int(compiled) > 5
    assert {path.suffix for path in folder.rglob("*.nb*")} == {".nbc"}
    return folder


def test_a_users_functions_are_compiled_once_on_a_machine(cache: Path) -> None:
    assert printed(cache, COMPILED + UDAF + COUNTED, "2") == ["[99.0]", "0"]


def test_a_constant_that_a_users_function_refers_to_is_part_of_its_code(cache: Path) -> None:
    assert printed(cache, UDAF, "4") == ["[198.0]"]


def test_a_function_that_refers_to_another_module_is_compiled_anew(cache: Path, tmp_path: Path) -> None:
    """What the module has may be something else in the next process."""
    program = UDAF.replace("TIMES = float(sys.argv[1])", "import scale").replace("TIMES", "scale.TIMES")
    folder = tmp_path / "modules"
    folder.mkdir()
    for times, answer in ((2.0, "[99.0]"), (4.0, "[198.0]")):
        (folder / "scale.py").write_text(f"TIMES = {times}\n")
        found = printed(
            cache, program, PYTHONPATH=f"{folder}{os.pathsep}{cold_start.HERE}", PYTHONDONTWRITEBYTECODE="1"
        )
        assert found == [answer]


def test_numba_as_it_is_gives_the_same_answers(tmp_path: Path) -> None:
    """``SLICING_NUMBA=plain``: numba's own pipeline and cache, which a numba is left to that has them otherwise."""
    assert printed(tmp_path, UDAF, "2", SLICING_NUMBA="plain") == ["[99.0]"]
    assert {path.suffix for path in tmp_path.rglob("*.nb*")} >= {".nbi"}
    assert printed(tmp_path, UDAF, "2", SLICING_NUMBA="plain") == ["[99.0]"]


def test_a_damaged_file_is_compiled_anew(tmp_path: Path, cache: Path) -> None:
    shutil.copytree(cache, tmp_path, dirs_exist_ok=True)
    damaged = list(tmp_path.rglob("*.nbc"))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:100])
    assert printed(tmp_path, UDAF, "2") == ["[99.0]"]


WARM = """
import slicing as sl, pyarrow as pa
spec = sl.Spec("t", {"w": sl.session(2)}, {"m": sl.median("v")}, by="k")
data = pa.table({"t": [1, 2, 3, 30], "k": ["a", "b", "a", "b"], "v": [1.0, 2.0, 3.0, None]})
"""


def test_warm_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """The command, and the function."""
    (tmp_path / "queries.py").write_text(WARM)
    names: dict[str, pa.Table] = {}
    exec(WARM, names)
    pq.write_table(names["data"], tmp_path / "d.parquet")
    command = f"import sys, runpy; sys.argv = ['', 'warm', 'queries:SPEC', {str(tmp_path / 'd.parquet')!r}]"
    path = f"{tmp_path}{os.pathsep}{cold_start.HERE}"
    (said,) = printed(
        tmp_path,
        command.replace("SPEC", "spec") + "; runpy.run_module('slicing', run_name='__main__')",
        PYTHONPATH=path,
    )
    assert said.startswith("kernels are compiled, in ")
    assert printed(tmp_path, COMPILED + WARM + "print(sl.aggregate(data, spec).num_rows)" + COUNTED) == ["3", "0"]

    few = WARM.replace("sl.session(2)", "sl.tumbling(10)").replace("sl.median", "sl.sum").replace(', by="k"', "")
    printed(tmp_path, few + "sl.warm(spec, data)")
    assert printed(tmp_path, COMPILED + few + "print(sl.aggregate(data, spec).num_rows)" + COUNTED) == ["2", "0"]
