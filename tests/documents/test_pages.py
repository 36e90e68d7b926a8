"""What pages show was run: which test runs a page's Python, and here its commands and the calls of its tables."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from test_readme import BLOCK, DOCS, PAGES, README, ROOT

import slicing as sl
from slicing.command_line.command import main

TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in [README, *sorted(DOCS.glob("*.md"))]}
ELSEWHERE = {"everyday": "test_everyday", "refused": "test_refused_page", "running": "test_spark_page"}
ELSEWHERE |= {"spark": "test_spark_page"}
INLINE = re.compile(r"`((?:python|make) [^`]+)`")
START = datetime(2026, 1, 1, 9)


def commands(name: str) -> list[str]:
    """Those of a page's blocks, without comments, and those within its sentences."""
    lines = [line for language, block in BLOCK.findall(TEXTS[name]) if language == "sh" for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines] + INLINE.findall(TEXTS[name])


@pytest.mark.parametrize("name", TEXTS)
def test_python_is_run_by_a_test(name: str) -> None:
    languages = {language for language, _ in BLOCK.findall(TEXTS[name])}
    assert languages <= {"python", "sh", "text"}, "say what a block is"
    if "python" in languages and name not in {"README", *PAGES}:
        test = Path(__file__).parent / f"{ELSEWHERE[name]}.py"
        assert f"{name}.md" in test.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in TEXTS if commands(name)])
def test_commands_are_there(name: str) -> None:
    """Modules, scripts, figures and targets of make; ``tests/package/test_wheel.py`` runs ``pip install``."""
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    for command in commands(name):
        program, *words = shlex.split(command)
        if program == "make":
            assert set(words[:1]) <= set(targets[1].split()), command
        elif program == "python" and words[0] != "-m":
            assert (ROOT / words[0]).is_file(), command
        elif program == "python":
            assert find_spec(words[1]), command
        else:
            assert program in ("pip", "slicing"), command


def test_figures_of_papers_are_there() -> None:
    catalogue = pytest.importorskip("asv_benchmarks.papers.catalogue")
    for command in commands("papers"):
        words = command.partition("asv_benchmarks.papers")[2].partition(" --")[0].split()
        assert set(words) <= {"all", *catalogue.FIGURES}, command


def test_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"ts": [START + timedelta(seconds=20 * n) for n in range(60)], "sensor": ["a", "b"] * 30})
    (tmp_path / "data").mkdir()
    pq.write_table(rows, tmp_path / "data" / "rows.parquet")
    pa.csv.write_csv(rows, tmp_path / "log.csv")
    asked = [command for command in commands("guide") if command.startswith("slicing ")]
    assert len(asked) == 3
    for command in asked:
        _, *words = shlex.split(command)
        out = words[words.index(">") + 1] if ">" in words else ""
        assert main(words[: words.index(">")] if out else words) == 0
        said = capfd.readouterr().out
        if out:
            (tmp_path / out).write_text(said, encoding="utf-8")
    assert pq.read_table(tmp_path / "windows.parquet")["n"].to_pylist() == [2, 1, 1, 2] * 10
    assert said.splitlines()[0] == '"window","window_start","window_end","n"' and len(said.splitlines()) == 6


def test_calls_of_the_survey_run() -> None:
    """Windows of rows, aggregates in a query, and what else there is by its name."""
    times = pa.array([START + timedelta(minutes=n) for n in range(200)], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "v": [n % 20 for n in range(200)], "weight": [1.0] * 200})
    for name, hour in ("done", 3), ("enters", 2), ("leaves", 4):
        rows = rows.append_column(name, pa.array([n % hour == 0 for n in range(200)]))
    calls = re.findall(r"`(sl\.[^`]+)`", TEXTS["survey"])
    asked = 0
    for call in calls:
        found = eval(call, {"sl": sl})
        if not call.endswith(")") or isinstance(found, sl.Spec):
            continue
        windows, aggs = ({"w": sl.whole()}, {"x": found}) if " / " in call else ({"w": found}, {"n": sl.count()})
        assert sl.aggregate(rows, sl.Spec("ts", windows, aggs)).num_rows, call
        asked += 1
    assert asked >= 15
