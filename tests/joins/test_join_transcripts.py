"""Joins and features of other systems (``transcripts.toml``): their rows, and the answers of the contract to them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicing as sl

CASES = tomllib.loads((Path(__file__).parent / "transcripts.toml").read_text())
NULL = "-"


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(v) for v in value]
    return None if value == NULL else value


class Told:
    """An operator that is told the steps of a transcript."""

    def __init__(self, case: dict[str, Any], base: int) -> None:
        within = sl.tumbling(case["window"]) if "window" in case else tuple(case["within"])
        mark = sl.bounded(case["delay"]) if "delay" in case else sl.manual()
        closed = case.get("closed", "both")
        self.spec = sl.JoinSpec("k", "t", within, how=case["how"], closed=closed, watermark=mark, progress="least")
        self.op, self.base = sl.JoinOperator(self.spec), base
        self.rows = {side: plain(case[side]) for side in ("left", "right")}
        self.since: list[tuple[Any, Any]] = []
        self.late: tuple[list[int], list[int]] = ([], [])
        self.op.push(self.table("left", 0, 0), self.table("right", 0, 0))

    def table(self, side: str, first: int, last: int) -> pa.Table:
        keys = pa.array([key for _, key in self.rows[side]])
        times = pa.array([time + self.base for time, _ in self.rows[side]], pa.int64())
        return pa.table({"t": times, "k": keys, "n": range(len(keys))}).slice(first, last - first)

    def take(self, out: sl.JoinOutput) -> None:
        self.since += [(row.get("n"), row.get("n_right")) for row in out.rows.to_pylist()]
        for known, late in zip(self.late, (out.late_left, out.late_right), strict=True):
            known += late["n"].to_pylist() if late.num_rows else []

    def step(self, text: str) -> None:
        verb, *words = text.split()
        if verb in self.rows and words[0] == "mark":
            self.take(self.op.advance(**{verb: int(words[1]) + self.base}))
        elif verb in self.rows:
            rows = self.table(verb, *map(int, words[0].split(":")))
            self.take(self.op.push_left(rows) if verb == "left" else self.op.push_right(rows))
        elif verb == "gives":
            pairs = [tuple(int(n) if n else None for n in pair.split("-")) for pair in words]
            assert sorted(self.since, key=str) == sorted(pairs, key=str)
            self.since = []
        elif verb == "held":
            assert self.op._state is not None
            assert [side.held for side in self.op._state.sides] == [int(word) for word in words]
        elif verb == "late":
            cut = words.index("/")
            assert self.late == ([*map(int, words[:cut])], [*map(int, words[cut + 1 :])])
            self.late = ([], [])
        elif verb == "restore":
            self.op = sl.JoinOperator.restore(self.spec, self.op.snapshot())
        else:
            assert verb == "flush"
            self.take(self.op.flush())


@pytest.mark.parametrize("base", [0, 1_790_000_000_000_000_000])
@pytest.mark.parametrize("case", CASES["join"], ids=lambda case: case["name"])
def test_joins(case: dict[str, Any], base: int) -> None:
    told = Told(case, base - base % 5)  # windows of 5 begin where they did
    for line in case["steps"].split("\n"):
        for step in filter(None, line.split("; ")):
            told.step(step)
    assert not told.since and told.late == ([], [])


@pytest.mark.parametrize("case", CASES["features"], ids=lambda case: case["name"])
def test_features(case: dict[str, Any]) -> None:
    labels, events = ({name: plain(column) for name, column in case[side].items()} for side in ("labels", "events"))
    far = plain(case["far"])
    ends = None if far is None else (far, case["near"])
    made = {"sum": sl.sum, "count": sl.count, "max": sl.max, "min": sl.min, "last": sl.last}
    aggs = {name: made[fn](column) if column else made[fn]() for name, (fn, column) in case["aggs"].items()}
    order = sorted(range(len(labels["t"])), key=lambda at: labels["t"][at])
    asked = {"on": case["by"], "time": "t", "ranges": {"r": ends}, "aggs": aggs, "closed": case["closed"]}
    found = sl.features(pa.table(labels), pa.table(events), **asked)
    assert list(map(list, zip(*(found[f"{name}_r"].to_pylist() for name in aggs), strict=True))) == plain(case["gives"])
    op = sl.FeatureOperator(sl.FeatureSpec(**asked))
    op.push_events(pa.table(events))
    late = op.push_labels(pa.table(labels).take(order[::-1])).rows.num_rows
    assert late + op.flush().rows.num_rows == len(order)
