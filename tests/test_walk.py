"""The way of a plain push through the package: a measure of how much of it a reader has to know.

Modules entered, changes from one module to another, and Python calls of one push in the steady state
(``sys.setprofile``). The bounds are what was reached: a change that makes the way longer says so here.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.policy import Policy

ROOT = os.path.dirname(sl.__file__)


class Walk(NamedTuple):
    modules: int
    changes: int
    calls: int


def walk(keys: int, size: int, straight: bool = True, rows: int = 20_000) -> Walk:
    rng = np.random.default_rng(0)
    aggs = {"n": sl.count(), "s": sl.sum("v"), "hi": sl.max("v")}
    spec = sl.Spec("ts", {"m": sl.tumbling(size)}, aggs, by=["k"] if keys else [])
    op = sl.Operator(spec, policy=Policy(straight=straight))

    def batch(at: int) -> pa.RecordBatch:
        columns: dict[str, Any] = {"ts": np.arange(at * rows, (at + 1) * rows) * 100, "v": rng.normal(size=rows)}
        return pa.record_batch(columns | ({"k": rng.integers(0, keys, rows)} if keys else {}))

    batches = [batch(at) for at in range(7)]
    for before in batches[:6]:
        op.push(before)
    way: list[str] = []
    calls = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(ROOT):
            calls += 1
            if not way or way[-1] != file:
                way.append(file)

    others = sys.getprofile()
    sys.setprofile(profile)
    try:
        out = op.push(batches[6])
    finally:
        sys.setprofile(others)
    assert (out.windows.num_rows > 0) == (size < 10**8)
    return Walk(len(set(way)), len(way), calls)


@pytest.mark.parametrize(
    ("about", "keys", "size", "straight", "most"),
    [
        ("in order, closes two windows", 0, 10**6, True, Walk(23, 44, 57)),
        ("in order, closes nothing", 0, 10**9, True, Walk(19, 33, 42)),
        ("through all stages, closes two windows", 0, 10**6, False, Walk(27, 58, 82)),
        ("by 100 keys, closes two windows", 100, 10**6, True, Walk(32, 80, 132)),
    ],
)
def test_the_way_of_a_plain_push_stays_short(about: str, keys: int, size: int, straight: bool, most: Walk) -> None:
    found = walk(keys, size, straight)
    print(f"{about}: {found.modules} modules, {found.changes} changes of module, {found.calls} calls")
    assert all(one <= other for one, other in zip(found, most, strict=True)), f"{about}: {found}, more than {most}"
