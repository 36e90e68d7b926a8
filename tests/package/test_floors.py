"""The lower bounds of dependencies are versions that tests run with, and there are no upper ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FLOORS = re.compile(r"([a-z-]+)(?:\[\w+\])?>=([0-9.]+)")


def pinned(name: str) -> dict[str, tuple[int, ...]]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {library.lower().replace("_", "-"): version(number) for library, number in pairs}


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


OLDEST, NEWEST = pinned("constraints-oldest.txt"), pinned("constraints.txt")


def test_dependencies_have_lower_bounds_alone_which_the_oldest_run_has() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = {text for texts in [PROJECT["dependencies"], *extras.values()] for text in texts}
    for text in sorted(asked):
        if text.startswith("stream-slicing["):
            continue
        match = FLOORS.fullmatch(text)
        assert match, f"{text} is not a lower bound alone"
        name, floor = match[1], version(match[2])
        for known in (OLDEST, NEWEST):
            assert name not in known or known[name] >= floor, text
    for text in [*PROJECT["dependencies"], *extras["spark"]]:
        name, floor = text.split(">=")
        assert OLDEST[name][: len(version(floor))] == version(floor), f"{text} is not what the oldest run has"


def test_hashes_are_those_of_spark() -> None:
    pytest.importorskip("pyspark")
    from spark_udfs.placed import murmur3, numbers_of_places

    found = murmur3(np.array([0, 1, 2**31 - 1, 2**32 - 1], np.uint32)).view(np.int32)
    assert found.tolist() == [933211791, -559580957, 133916647, -1604776387]  # SELECT hash(0), hash(1), ...
    for count in (1, 2, 3, 200, 10_000):
        numbers = np.array(numbers_of_places(count), np.uint32)
        assert (murmur3(numbers).view(np.int32) % count == np.arange(count)).all()
