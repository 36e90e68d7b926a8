"""The package as a zip (``--py-files``): kernels are kept by what they were made from, wherever the zip lies."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """from slicing.kernels.kernel import kernel


@kernel
def answer(n):
    return n + {}
"""


def shipped(path: Path, more: int) -> Path:
    """The package with one more kernel; the file has the same time and size for each.

    Modules that have no kernels come with their bytecode, where there is some: without it each process compiles all.
    """
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((ROOT / "slicing").rglob("*.py")):
            name = source.relative_to(ROOT)
            archive.write(source, name)
            bytecode = Path(importlib.util.cache_from_source(str(source)))
            if "kernels" not in name.parts and bytecode.exists():
                archive.write(bytecode, name.with_suffix(".pyc"))
        archive.writestr(zipfile.ZipInfo("slicing/kernels/answer.py", (2026, 1, 1, 0, 0, 0)), KERNEL.format(more))
    os.utime(path, (10**9, 10**9))
    return path


def answer(zipped: Path, cache: Path, kept: Path | None = None) -> int:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    env |= {"PYTHONPATH": str(zipped), "HOME": str(cache), "XDG_CACHE_HOME": str(cache / "user")}
    env |= {"NUMBA_CACHE_DIR": str(kept)} if kept else {}
    code = "from slicing.kernels.answer import answer; import slicing; print(slicing.__file__); print(answer(40))"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=cache, capture_output=True, text=True, check=True)
    where, found = done.stdout.split()
    assert where.startswith(str(zipped))
    return int(found)


def test_an_upgraded_zip_at_the_same_path_runs_its_own_kernels(tmp_path: Path) -> None:
    path = tmp_path / "slicing.zip"
    for kept in (None, tmp_path / "kept"):
        assert [answer(shipped(path, more), tmp_path, kept) for more in (1, 2, 1)] == [41, 42, 41]
        files = list((kept or tmp_path / "user").rglob("*answer*.nbc"))
        assert len(files) == 2
    assert answer(shipped(tmp_path / "elsewhere" / "other.zip", 2), tmp_path, tmp_path / "kept") == 42
    assert len(list((tmp_path / "kept").rglob("*answer*.nbc"))) == 2  # one cache for all that are the same
