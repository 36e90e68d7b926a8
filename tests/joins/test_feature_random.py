"""Features against their definition, step by step: answers, late rows, what is kept, how far results have come."""

from __future__ import annotations

import os

import harness
import numpy as np
import oracle
import pyarrow as pa
import pytest
from naive_features import Naive

import slicing as sl
from slicing.columns.sources import one_batch
from slicing.query.policy import DEFAULT, Policy

CASES = int(os.environ.get("SLICING_CASES", 90))
BASES = (0, -50, 1_700_000_000_000_000_000, -(1 << 63) + 40, (1 << 63) - 120)
YEAR = 365 * 86_400 * 10**9
KEYS = [("a", 1), ("b", 2), (None, 1), ("c", None), ("a", 2), ("b", 1), ("c", 1)]
COLUMNS = {"v": "int64", "x": "float64", "s": "string", "flag": "bool"}
TYPES = {"v": pa.int64(), "x": pa.float64(), "s": pa.string(), "flag": pa.bool_()}
VALUES = {
    "v": [1, 2, -3, None, 1 << 40],
    "x": [0.5, -1.0, None, 1e300, float("inf"), float("nan"), 2.25],
    "s": ["p", "q", None, "ä", ""],
    "flag": [True, False, None],
}
AGGS = {
    "n": (sl.count(), {"fn": "count"}),
    "nv": (sl.count("v"), {"fn": "count", "col": "v"}),
    "total": (sl.sum("v"), {"fn": "sum", "col": "v"}),
    "flagged": (sl.sum("v").where("flag"), {"fn": "sum", "col": "v", "where": "flag"}),
    "low": (sl.min("x"), {"fn": "min", "col": "x"}),
    "sum": (sl.sum("x"), {"fn": "sum", "col": "x"}),
    "std": (sl.std("v"), {"fn": "std", "col": "v"}),
    "last": (sl.last("s"), {"fn": "last", "col": "s"}),
    "first": (sl.first("x"), {"fn": "first", "col": "x"}),
    "newest": (sl.last("v"), {"fn": "last", "col": "v"}),
    "high": (sl.argmax("v", "x"), {"fn": "argmax", "col": "v", "return": "x"}),
    "most": (sl.max("s"), {"fn": "max", "col": "s"}),
    "best": (sl.argmax("v", "s"), {"fn": "argmax", "col": "v", "return": "s"}),
    "median": (sl.median("v"), {"fn": "median", "col": "v"}),
    "mode": (sl.mode("s"), {"fn": "mode", "col": "s"}),
    "all": (sl.collect("s"), {"fn": "collect", "col": "s"}),
    "kinds": (sl.count_distinct("s"), {"fn": "count_distinct", "col": "s"}),
    "poly": (harness.user_defined("polynomial", "v"), {"fn": "udaf", "which": "polynomial", "col": "v"}),
    "rest": (harness.user_defined("remainder", "v"), {"fn": "udaf", "which": "remainder", "col": "v"}),
}


# aggregates that need values, rows or words of a text: their events stay rows
BY_VALUE = {"last", "most", "best", "median", "mode", "all", "kinds", "poly", "rest"}


class Case:
    """One random query and one random stream."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.base = int(rng.choice(BASES))
        self.scale = int(rng.choice([1, 1, YEAR // 40])) if self.base == BASES[2] else 1
        self.keys = [KEYS[:1], KEYS[:3], KEYS][int(rng.integers(0, 3))]
        self.keyless = bool(rng.random() < 0.15)
        self.delays = int(rng.integers(0, 9)) * self.scale, int(rng.integers(0, 9)) * self.scale
        self.delay = int(rng.integers(0, 5)) * self.scale if rng.random() < 0.4 else 0
        self.idle = int(rng.integers(1, 12)) * self.scale if rng.random() < 0.2 else None
        self.closed = str(rng.choice(["left", "right"]))
        self.wait = bool(rng.random() < 0.8)
        self.sequenced = bool(rng.random() < 0.3)
        self.ranges = {f"r{at}": self._range() for at in range(int(rng.integers(1, 4)))}
        self.tails = {}
        for name, (far, _) in self.ranges.items():
            if far is not None and rng.random() < 0.3:
                self.tails[name] = int(rng.integers(1, 9)) * self.scale
        names = [name for name in AGGS if name not in BY_VALUE] if self.tails and rng.random() < 0.7 else list(AGGS)
        self.aggs = [str(name) for name in rng.choice(names, int(rng.integers(1, 4)), replace=False)]

    def _range(self) -> tuple:
        rng = self.rng
        near = int(rng.integers(-6, 10)) * self.scale if rng.random() < 0.4 else 0
        far = None if rng.random() < 0.2 else near + int(rng.integers(1, 20)) * self.scale
        return far, near

    def spec(self, **more: object) -> sl.FeatureSpec:
        given = {
            "on": [] if self.keyless else [("k", "key"), "j"],
            "time": ("t", "at"),
            "ranges": {n: None if pair == (None, 0) else pair for n, pair in self.ranges.items()},
            "aggs": {name: AGGS[name][0] for name in self.aggs},
            "closed": self.closed,
            "delay": self.delay,
            "tail": self.tails or "exact",
            "wait": self.wait,
            "watermark": tuple(map(sl.bounded, self.delays)),
            "idle": self.idle,
            "sequence": "seq" if self.sequenced else None,
            "schemas": (self.labels([], 0).schema, self.events([], 0).schema),
        }
        return sl.FeatureSpec(**(given | more))

    def naive(self) -> Naive:
        return Naive(self.ranges, self.closed, self.delay, self.tails, self.wait, self.delays, self.idle)

    def labels(self, rows: list, first: int) -> pa.Table:
        keys = {"k": [key[0] for _, key, _ in rows], "j": [key[1] for _, key, _ in rows]}
        made = {"id": pa.array(range(first, first + len(rows)), pa.int64())}
        made |= {"t": pa.array([time for time, *_ in rows], pa.int64()), "k": pa.array(keys["k"], pa.string())}
        return pa.table(made | {"j": pa.array(keys["j"], pa.int32())})

    def events(self, rows: list, first: int) -> pa.Table:
        made = {"at": pa.array([time for time, *_ in rows], pa.int64())}
        made |= {"key": pa.array([key[0] for _, key, _ in rows], pa.large_string())}
        made |= {"j": pa.array([key[1] for _, key, _ in rows], pa.int64())}
        made |= {"seq": pa.array([values["seq"] for *_, values in rows], pa.int64())}
        made |= {n: pa.array([values[n] for *_, values in rows], TYPES[n]) for n in TYPES}
        return pa.table(made | {"id": pa.array(range(first, first + len(rows)), pa.int64())})

    def marks(self) -> tuple[list, list]:
        """Of single keys, some far ahead, some for good."""
        rng, found = self.rng, ([], [])
        for of_side in () if self.keyless else found:
            for _ in range(int(rng.choice([0, 0, 1, 3]))):
                time = min(self.base + int(rng.integers(0, 80)) * self.scale, (1 << 63) - 20)
                of_side.append((self.keys[int(rng.integers(0, len(self.keys)))], time if rng.random() < 0.9 else None))
        return found

    def known(self, key: tuple) -> tuple | None:
        """A key as the definition compares it."""
        if self.keyless:
            return ()
        return None if None in key else key

    def batches(self, steps: int) -> list[dict]:
        rng, now, found = self.rng, [self.base, self.base], []
        rate = int(rng.choice([1, 3, 20])) * self.scale
        for _ in range(steps):
            sides = [0] if rng.random() < 0.4 else [1] if rng.random() < 0.7 else [0, 1]
            step = {}
            for side in sides:
                rows = []
                for _ in range(int(rng.choice([0, 1, 3, 12]))):
                    now[side] += int(rng.integers(0, rate)) if rng.random() < 0.8 else 0
                    now[side] = min(now[side], (1 << 63) - 1)
                    late = int(rng.integers(0, 12)) * self.scale if rng.random() < 0.4 else 0
                    time = max(now[side] - late, -(1 << 63))
                    values = {n: VALUES[n][int(rng.integers(0, len(VALUES[n])))] for n in VALUES}
                    values["seq"] = int(rng.integers(0, 2))
                    rows.append((time, self.keys[int(rng.integers(0, len(self.keys)))], values))
                step[side] = rows
            found.append(step)
        return found


class Both:
    """The operator and the definition, side by side."""

    def __init__(self, case: Case, threads: int = 1, policy: Policy = DEFAULT) -> None:
        self.case, self.spec = case, case.spec()
        self.op, self.model = sl.FeatureOperator(self.spec, threads=threads, policy=policy), case.naive()
        self.reached: int | None = None
        self.pushed: dict = {0: [], 1: []}

    def step(self, batches: dict) -> None:
        firsts = list(self.model.number)
        makes = self.case.labels, self.case.events
        tables = {side: makes[side](rows, firsts[side]) for side, rows in batches.items()}
        if set(tables) == {0, 1}:
            out = self.op.push(tables[0], tables[1])
        else:
            out = self.op.push_labels(tables[0]) if 0 in tables else self.op.push_events(tables[1])
        keyed = {side: [(t, self.case.known(k), v) for t, k, v in rows] for side, rows in batches.items()}
        expected, late = self.model.push(keyed)
        for side, found in enumerate((out.late_labels, out.late_events)):
            assert (found["id"].to_pylist() if found.num_rows else []) == late.get(side, [])
        assert out.stats.labels == len(batches.get(0, [])) and out.stats.events == len(batches.get(1, []))
        self.check(out, expected)
        for side, rows in batches.items():
            alive = [row for at, row in enumerate(rows) if firsts[side] + at not in late[side]]
            self.pushed[side] += alive

    def mark(self, stream: int, time: int) -> None:
        """Watermarks of one stream and of keys."""
        marks: list = [None, None]
        marks[stream] = time
        of_key = self.case.marks()
        names = [("k", "j", "t", pa.string(), pa.int32()), ("key", "j", "at", pa.large_string(), pa.int64())]
        tables = []
        for given, (k, j, t, k_type, j_type) in zip(of_key, names, strict=True):
            columns = {
                k: pa.array([key[0] for key, _ in given], k_type),
                j: pa.array([key[1] for key, _ in given], j_type),
            }
            tables.append(pa.table(columns | {t: pa.array([time for _, time in given], pa.int64())}) if given else None)
        keyed = [[(self.case.known(key), time) for key, time in given] for given in of_key]
        self.check(self.op.advance(*marks, *tables), self.model.advance(*marks, (keyed[0], keyed[1])))

    def check(self, out: sl.FeatureOutput, expected: list) -> None:
        self.compare(out.rows, expected)
        assert out.stats.answered == len(expected)
        assert out.stats.waiting == self.model.waiting
        is_sliced = not set(self.case.aggs) & BY_VALUE
        assert (out.stats.kept, out.stats.slices) == (self.model.sliced() if is_sliced else (self.model.kept(), 0))
        if self.reached is not None and out.rows.num_rows:
            assert min(out.rows["t"].to_pylist()) >= self.reached
        assert out.watermark == self.model.watermark()
        self.reached = out.watermark

    def compare(self, rows: pa.Table, expected: list) -> None:
        assert rows["id"].to_pylist() == [label.number for label, _ in expected]
        for name in self.case.ranges:
            for agg in self.case.aggs:
                found = harness.plain(rows[f"{agg}_{name}"])
                for at, (label, held) in enumerate(expected):
                    wanted = self.value(agg, held[name])
                    assert harness.agree(wanted, found[at]), (agg, name, label, wanted, found[at])

    def value(self, agg: str, events: list) -> object:
        rows = [
            oracle.Row(e.values, (), e.time, e.number, (e.time, e.values["seq"] * self.case.sequenced, e.number), 0)
            for e in events
        ]
        return oracle.aggregate(AGGS[agg][1], rows, COLUMNS, "error")

    def flush(self) -> None:
        out = self.op.flush()
        self.compare(out.rows, self.model.settle(ended=True))
        assert out.stats.waiting == out.stats.kept == 0


def walked(case: Case, threads: int, policy: Policy) -> Both:
    """The case step by step; restored from a snapshot now and then."""
    both = Both(case, threads, policy)
    for batches in case.batches(int(case.rng.integers(1, 12))):
        both.step(batches)
        if case.rng.random() < 0.2:
            both.mark(int(case.rng.integers(0, 2)), min(case.base + int(case.rng.integers(0, 60)), (1 << 63) - 20))
        if case.rng.random() < 0.15:
            both.op = sl.FeatureOperator.restore(both.spec, both.op.snapshot(), threads=threads, policy=policy)
    both.flush()
    return both


@pytest.mark.parametrize("part", range(10))
def test_every_step_is_as_the_definition_says(part: int) -> None:
    """And all rows in time, as two tables, give what the definition says of them."""
    for seed in range(part, CASES, 10):
        case, threads = Case(seed), 1 + (seed % 3 == 0)
        policy = Policy(thread_labels=2, long_ranges=64 * (seed % 2))
        try:
            both = walked(case, threads, policy)
            tables = case.labels(both.pushed[0], 0), case.events(both.pushed[1], 0)
            asked = case.spec(watermark=sl.manual(), idle=None)
            whole = sl.FeatureOperator(asked, threads=threads, policy=policy).whole
            rows = whole(*map(one_batch, tables))
            expected = both.model.whole()
            for number, (label, _) in enumerate(expected):
                label.number = number
            both.compare(rows, expected)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {case.spec()}") from error
