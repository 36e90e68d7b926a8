"""Every benchmark runs, on tiny streams; nothing is timed here."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "asv_benchmarks" / "benchmarks"
if not SUITE.is_dir():
    pytest.skip("the benchmarks are not part of this distribution", allow_module_level=True)

SCALE = "0.001"
BENCHMARK = re.compile("(time|track|peakmem)_")
SLOW = {"startup", "spark"}  # each starts processes that compile: one query will do


def modules() -> list[ModuleType]:
    names = sorted(path.stem for path in SUITE.glob("*.py") if not path.stem.startswith("_"))
    return [import_module(f"asv_benchmarks.benchmarks.{name}") for name in names]


def arguments(suite: type) -> list[tuple]:
    """asv takes a list of values, or a list of them for each argument."""
    params = getattr(suite, "params", [])
    if params and not isinstance(params[0], list | tuple):
        params = [params]
    return list(itertools.product(*params))


def suites() -> Iterator[pytest.param]:
    for module in modules():
        short = module.__name__.rpartition(".")[2]
        for name, suite in inspect.getmembers(module, inspect.isclass):
            if name.startswith("_") or suite.__module__ != module.__name__:
                continue
            for given in arguments(suite)[: 1 if short in SLOW else None]:
                yield pytest.param(suite, given, id="-".join([short, name, *map(str, given)]))


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICING_BENCH_SCALE", SCALE)


@pytest.mark.parametrize(("suite", "given"), list(suites()))
def test_benchmark_runs(suite: type, given: tuple) -> None:
    names = [name for name in dir(suite) if BENCHMARK.match(name)]
    assert names, f"{suite.__name__} has no benchmark"
    benchmarks = suite()
    try:
        if hasattr(benchmarks, "setup"):
            benchmarks.setup(*given)
    except NotImplementedError as error:  # as asv has it
        pytest.skip(str(error))
    for name in names:
        figure = getattr(benchmarks, name)(*given)
        if name.startswith("track_"):
            assert isinstance(figure, int | float), f"{name} gives {figure!r}"
            assert getattr(benchmarks, name).unit
    if hasattr(benchmarks, "teardown"):
        benchmarks.teardown(*given)


def test_the_suite_finds_what_asv_finds() -> None:
    assert {param.values[0].__name__ for param in suites()} >= {"InOrder", "Aligned", "LiveState", "Small", "Startup"}


def test_peers_agree() -> None:
    for engine in ("duckdb", "pandas", "polars"):
        pytest.importorskip(engine)
    told = subprocess.run(
        [sys.executable, "-m", "asv_benchmarks.peers", "--quick"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "ANSWERS DIFFER" not in told.stdout
    assert told.stdout.count("plain read") == 28
    times = [float(line.split()[-1]) for line in told.stdout.rpartition("best engine")[2].splitlines()[1:]]
    assert len(times) > 50 and times == sorted(times)  # where this library is behind comes first


def test_peers_measure_memory() -> None:
    for engine in ("duckdb", "pandas", "polars"):
        pytest.importorskip(engine)
    told = subprocess.run(
        [sys.executable, "-m", "asv_benchmarks.peers", "--memory", "--rows", "20000", "--only", "1000 keys"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert len(re.findall(r"\d+ \(\d+\)", told.stdout)) == 4


@pytest.fixture
def peers() -> Iterator[ModuleType]:
    """The command, in this process."""
    for engine in ("datafusion", "duckdb", "pandas", "polars"):
        pytest.importorskip(engine)
    threads = pa.cpu_count()
    yield import_module("asv_benchmarks.peers.__main__")
    pa.set_cpu_count(threads)


def test_peers_compare_threads(peers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["--quick", "--threads", "--only", "1 k rows a slice, 1 M"]) == 0
    told = capsys.readouterr().out
    assert "2 threads" in told
    assert told.count("x") >= 2 and told.count("%") == 2  # the serial shares


def test_pushes_are_compared_with_their_kernels(peers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["--overhead", "--quick"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1,000,000", "100,000"]
    for line in lines:
        push, kernels, more = (float(number.rstrip("%")) for number in line.split()[1:])
        assert push > 0 < kernels and abs(push / kernels - 1 - more / 100) < 0.1


def test_peers_name_the_workloads_they_have(peers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        peers.main(["--only", "nothing like it"])
    assert stop.value.code == 2
    assert "no workload's name holds 'nothing like it'" in capsys.readouterr().err


def test_everyday_questions_have_the_answers_of_polars(peers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["--everyday", "--quick"]) == 0
    told = capsys.readouterr().out
    assert "DIFFER" not in told and all(title in told for title in peers.everyday.QUESTIONS)
