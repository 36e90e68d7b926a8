"""What GitHub runs is what the Makefile has; a release is its tag."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
if not WORKFLOWS:
    pytest.skip("the workflows are not part of this distribution", allow_module_level=True)
TARGETS = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_jobs_run_targets_of_the_makefile() -> None:
    assert TARGETS is not None
    runs = [run for text in WORKFLOWS.values() for run in re.findall(r"run: make (.*)", text)]
    asked = [target for run in runs for target in run.split()]
    targets = {target for target in asked if "=" not in target}
    assert {"test", "test-oldest", "docs"} <= targets <= set(TARGETS[1].split())


def test_every_supported_python_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tested = re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", WORKFLOWS["test"])[0])
    told = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert project["requires-python"] == f">={tested[0]}"
    assert set(told) <= set(tested)


def test_the_newest_python_that_all_dependencies_support_is_tested() -> None:
    """As the packages themselves say: numba is ahead of PySpark at times."""
    pytest.importorskip("pyspark")
    newest = []
    for name in ("numba", "numpy", "pyarrow", "pyspark"):
        told = metadata(name).get_all("Classifier") or []
        newest.append(max(int(minor) for line in told for minor in re.findall(r"Python :: 3\.(\d+)$", line)))
    assert max(map(int, re.findall(r'"3\.(\d+)"', re.search(r"python: \[.*\]", WORKFLOWS["test"])[0]))) >= min(newest)


def test_a_release_is_published_by_its_tag_alone() -> None:
    text = WORKFLOWS["release"]
    assert 'tags: ["v*"]' in text and "id-token: write" in text and "secrets." not in text
    assert "python -m website.releases" in text
