"""What is compiled is kept for the next process, and no process is led astray by another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cold_start
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


def printed(cache: Path, program: str, *arguments: str, **more: str) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(cold_start.HERE), **more}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("by", ["", "k"])
def test_processes_that_start_at_once_on_an_empty_cache_all_answer_right(by):
    together, after = cold_start.round_of(2, by)
    assert len(together) == 2
    assert None not in [*together, after]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels are compiled once for these tests; each has functions of its own."""
    return tmp_path_factory.mktemp("cache")


def test_a_users_functions_are_compiled_once_on_a_machine(cache: Path) -> None:
    program = COMPILED + UDAF + COUNTED
    first, compiled = printed(cache, program, "2")
    assert first == "[99.0]" and int(compiled) > 5
    assert printed(cache, program, "2") == ["[99.0]", "0"]


def test_a_constant_that_a_users_function_refers_to_is_part_of_its_code(cache: Path) -> None:
    assert printed(cache, UDAF, "2") == ["[99.0]"]
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


@pytest.mark.parametrize("mode", ["", "plain"])
def test_numba_as_it_is_gives_the_same_answers(tmp_path: Path, cache: Path, mode: str) -> None:
    """``SLICING_NUMBA=plain``: numba's own pipeline and cache, which a numba is left to that has them otherwise."""
    files, folder = (".nbi", tmp_path) if mode else (".nbc", cache)
    assert printed(folder, UDAF, "2", SLICING_NUMBA=mode) == ["[99.0]"]
    assert {path.suffix for path in folder.rglob("*.nb*")} >= {files}
    assert printed(folder, UDAF, "2", SLICING_NUMBA=mode) == ["[99.0]"]


def test_a_damaged_file_is_compiled_anew(tmp_path: Path, cache: Path) -> None:
    assert printed(cache, UDAF, "2") == ["[99.0]"]
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
    printed(tmp_path, WARM + "sl.warm(spec, data)")
    assert printed(tmp_path, COMPILED + WARM + "print(sl.aggregate(data, spec).num_rows)" + COUNTED) == ["3", "0"]


def test_the_command_warms_what_a_spec_needs(tmp_path: Path) -> None:
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
