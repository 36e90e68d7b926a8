"""Joins and features answer alike in whatever units the two time columns count: seconds, or finer ones of one side."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

CASES = max(int(os.environ.get("SLICING_CASES", "60")) // 3, 1)
SEED = int(os.environ.get("SLICING_SEED", "0"))
SINCE = 1_767_225_600  # seconds since 1970
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NAMES = {
    "join": ("push_left", "push_right", "left_marks", "right_marks"),
    "feature": ("push_labels", "push_events", "labels_marks", "events_marks"),
}


def times(seconds: list[int | None], unit: str) -> pa.Array:
    words = [None if s is None else (SINCE + s) * PER_SECOND[unit] for s in seconds]
    return pa.array(words, pa.int64()).cast(pa.timestamp(unit))


def query(chance: random.Random) -> Any:
    policies = tuple(chance.choice([sl.manual(), sl.bounded("5s")]) for _ in range(2))
    common: dict[str, Any] = {"watermark": policies}
    if chance.random() < 0.3:
        common["idle"] = "30s"
    kind = chance.choice(["band", "windows", "match", "features"])
    if kind == "features":
        ranges = chance.choice([{"ten": "10s", "twenty": "20s"}, {"ten": "10s", "ever": None}])
        return sl.FeatureSpec("k", ("t", "u"), ranges, {"n": sl.count(), "total": sl.sum("y")}, **common)
    within: Any = {
        "band": ("10s", "5s"),
        "windows": sl.tumbling("10s"),
        "match": chance.choice([(None, "0s"), ("10s", "5s")]),
    }
    hows = ["inner", "left"] if kind == "match" else ["inner", "left", "right", "full", "semi", "anti"]
    more = {"match": chance.choice(["last", "first"])} if kind == "match" else {}
    asked = {"on": ["k"], "time": ("t", "u"), "within": within[kind], "how": chance.choice(hows)}
    return sl.JoinSpec(**asked, **more, **common)


def steps(chance: random.Random) -> list[tuple[str, int, list[tuple[int | None, str]]]]:
    """Rows and marks of either side, and watermarks."""
    found, now = [], [0, 0]
    for at in range(chance.randint(3, 10)):
        side, what = chance.randrange(2), chance.random()
        count = chance.randint(0, 5)
        if what < 0.65 or at == 0:
            found.append(
                ("push", side, [(now[side] + chance.randint(-15, 15), chance.choice("abcd")) for _ in range(count)])
            )
            now[side] += chance.randint(0, 8)
        elif what < 0.85:
            ahead = [chance.choice([None, now[side] + chance.randint(-20, 20)]) for _ in range(count)]
            found.append(("mark", side, [(one, chance.choice("abcd")) for one in ahead]))
        else:
            found.append(("advance", side, [(now[side] - chance.randint(0, 20), "")]))
    return found


def answers(spec: Any, script: list[Any], units: tuple[str, str]) -> list[Any]:
    features = isinstance(spec, sl.FeatureSpec)
    op: Any = sl.FeatureOperator(spec) if features else sl.JoinOperator(spec)
    names = NAMES["feature" if features else "join"]
    found: list[Any] = []
    for number, (what, side, rows) in enumerate(script):
        seconds, keys = [row[0] for row in rows], [row[1] for row in rows]
        table = {"tu"[side]: times(seconds, units[side]), "k": pa.array(keys, pa.string())}
        if what == "push":
            values = pa.array([10 * number + at for at in range(len(rows))], pa.int64())
            out = getattr(op, names[side])(pa.table(table | {"xy"[side]: values}))
        elif found and what == "mark":
            try:
                out = op.advance(**{names[2 + side]: pa.table(table)})
            except ValueError:  # no rows of that side yet
                found.append("refused")
                continue
        else:
            assert seconds[0] is not None
            reached = np.datetime64(SINCE + seconds[0], "s")
            out = op.advance(**{(("labels", "events") if features else ("left", "right"))[side]: reached})
        late = (out.late_labels, out.late_events) if features else (out.late_left, out.late_right)
        held = {name: count for name, count in out.stats.items() if name not in ("bytes", "slices")}
        watermark = None if out.watermark is None else np.datetime64(out.watermark, "ns")
        found.append((in_ns(out.rows), *map(in_ns, late), held, watermark))
    return [*found, in_ns(op.flush().rows)]


def in_ns(table: pa.Table) -> list[dict[str, Any]]:
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        timed = pa.types.is_timestamp(column.type)
        columns[name] = (column.cast(pa.timestamp("ns")).cast(pa.int64()) if timed else column).to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("case", range(SEED, SEED + CASES))
def test_units_of_the_two_time_columns_change_nothing(case: int) -> None:
    chance = random.Random(case)
    spec, script = query(chance), steps(chance)
    expected = answers(spec, script, ("ns", "ns"))
    for units in (("s", "ns"), ("ns", "s"), ("s", "s"), ("ms", "us")):
        assert answers(spec, script, units) == expected, f"{units}: {spec!r}\n{script}"


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_key_without_a_mark_waits_for_the_stream(unit: str) -> None:
    """The other side counts nanoseconds, so that the least number of all is divided."""
    spec = sl.JoinSpec(on=["k"], time=("t", "u"), within=("10s", "10s"), watermark=sl.manual())
    op = sl.JoinOperator(spec)
    op.push_left(pa.table({"k": ["a"], "t": times([100], unit)}))
    op.push_right(pa.table({"k": ["a"], "u": times([100], "ns")}))
    op.advance(left_marks=pa.table({"k": ["a"], "t": times([200], unit)}))
    out = op.push_left(pa.table({"k": ["b", "a", "a"], "t": times([105, 150, 250], unit)}))
    assert out.stats.late_left == 1 and out.late_left["k"].to_pylist() == ["a"]
