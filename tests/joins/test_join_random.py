"""Joins against their definition, step by step: results, late rows, what is kept, what the results have reached."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from naive import Naive, Row

import slicing as sl
from slicing.joins import pairs as joined_pairs
from slicing.query.policy import DEFAULT, Policy
from slicing.system import threads

CASES = int(os.environ.get("SLICING_CASES", 200))
BASES = (0, -50, 1_700_000_000_000_000_000, -(1 << 63) + 40, (1 << 63) - 80)
KEYS = ["a", "b", None, "c", "d", "e", "f"]


def table(side: str, rows: list, first: int) -> pa.Table:
    names = {"t": pa.array([r[0] for r in rows], pa.int64()), "k": pa.array([r[1] for r in rows], pa.string())}
    names |= {"s": pa.array([r[2] for r in rows], pa.int64())}
    return pa.table(names | {f"{side}_id": pa.array(range(first, first + len(rows)), pa.int64())})


def pairs(rows: pa.Table) -> list[tuple]:
    """The ids of each result's rows."""
    none = [None] * rows.num_rows
    return list(
        zip(*(rows[n].to_pylist() if n in rows.column_names else none for n in ("left_id", "right_id")), strict=True)
    )


class Case:
    """One random query and one random stream."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.base = int(rng.choice(BASES))
        self.windowed = bool(rng.random() < 0.25) and abs(self.base) < 1 << 61
        self.match = "all" if self.windowed or rng.random() < 0.6 else str(rng.choice(["last", "first", "nearest"]))
        kinds = ["inner", "left", "right", "full", "semi", "anti"] if self.match == "all" else ["inner", "left"]
        self.how = str(rng.choice(kinds))
        self.keys = KEYS[: int(rng.choice([1, 3, 7]))]
        self.one_key = len(self.keys) == 1
        self.delays = int(rng.integers(0, 9)), int(rng.integers(0, 9))
        self.idle = int(rng.integers(1, 12)) if rng.random() < 0.2 else None
        self.least = bool(rng.random() < 0.2)
        self.nulls_equal = bool(rng.random() < 0.3)
        self.where = bool(rng.random() < 0.25)
        self.right_where = bool(rng.random() < 0.5)
        self.sequenced = self.match != "all" and bool(rng.random() < 0.5)
        self._band()
        self._event_time()

    def _band(self) -> None:
        rng = self.rng
        self.size, self.closed, self.within = None, "both", None
        if self.windowed:
            self.size = int(rng.integers(1, 12))
            self.before = self.after = 0
            self.within = sl.tumbling(self.size)
            return
        while True:
            before, after = int(rng.integers(-8, 12)), int(rng.integers(-8, 12))
            self.closed = str(rng.choice(["both", "left", "right", "none"]))
            self.before = before - (self.closed in ("right", "none"))
            self.after = after - (self.closed in ("left", "none"))
            if self.before + self.after >= 0 and (before + after > 0 or self.closed == "both"):
                break
        self.within = (before, after)
        if self.match != "all" and rng.random() < 0.4:
            if rng.random() < 0.7:
                self.within, self.before = (None, after), None
            else:
                self.within, self.after = (before, None), None

    def _event_time(self) -> None:
        allowed = ["left", "right", "max", "min"] + ["window"] * self.windowed
        if self.how in ("left", "full", "anti"):
            allowed.remove("right")
        if self.how in ("right", "full"):
            allowed.remove("left")
        if self.how in ("semi", "anti"):
            allowed = ["left"]
        self.event_time = str(self.rng.choice(allowed)) if self.rng.random() < 0.7 else None

    def spec(self, **more: object) -> sl.JoinSpec:
        where = None
        if self.where:
            where = pc.field("s_right") != 1
            if not self.right_where:
                where = pc.field("s_right") != pc.field("s")
        asked = {
            "on": ["k"] if len(self.keys) > 1 else [],
            "time": "t",
            "within": self.within,
            "how": self.how,
            "match": self.match,
            "where": where,
            "watermark": tuple(map(sl.bounded, self.delays)),
            "idle": self.idle,
            "progress": "least" if self.least else "each",
            "event_time": self.event_time,
            "closed": self.closed,
            "nulls_equal": self.nulls_equal,
            "sequence": "s" if self.sequenced else None,
            "schemas": (table("left", [], 0).schema, table("right", [], 0).schema),
        }
        return sl.JoinSpec(**(asked | more))

    def naive(self, about: str) -> Naive:
        where = None
        if self.where:
            where = right_only if self.right_where else unlike
        model = Naive(
            self.how, self.before, self.after, self.size, self.match, self.delays, self.idle, self.least,
            self.nulls_equal or self.one_key, where, about, self.sequenced, not self.right_where and self.where,
        )  # fmt: skip
        return model

    def batches(self, steps: int) -> list[dict]:
        rng, now, found = self.rng, [self.base, self.base], []
        rate = int(rng.choice([1, 3, 30]))
        for _ in range(steps):
            sides = [0] if rng.random() < 0.4 else [1] if rng.random() < 0.7 else [0, 1]
            step = {}
            for side in sides:
                rows = []
                for _ in range(int(rng.choice([0, 1, 3, 12]))):
                    now[side] += int(rng.integers(0, rate)) if rng.random() < 0.8 else 0
                    now[side] = min(now[side], (1 << 63) - 1)
                    late = int(rng.integers(0, 12)) if rng.random() < 0.4 else 0
                    time = max(now[side] - late, -(1 << 63))
                    rows.append((time, str_or_none(rng.choice(self.keys)), int(rng.integers(0, 3))))
                step[side] = rows
            found.append(step)
        return found


def right_only(left: Row | None, right: Row) -> bool:
    return right.value != 1


def unlike(left: Row | None, right: Row) -> bool:
    return left is None or right.value != left.value


def str_or_none(value: object) -> str | None:
    return None if value is None else str(value)


class Both:
    """The operator and the definition, side by side."""

    def __init__(self, case: Case, **options: object) -> None:
        self.case, self.options = case, options
        self.spec = case.spec()
        self.op = sl.JoinOperator(self.spec, **options)
        self.model = case.naive(self.spec.speaks_about)
        self.reached: int | None = None
        self.all: Counter = Counter()

    def step(self, batches: dict) -> None:
        firsts = list(self.model.number)
        tables = {s: table(("left", "right")[s], rows, firsts[s]) for s, rows in batches.items()}
        if set(tables) == {0, 1}:
            out = self.op.push(tables[0], tables[1])
        else:
            out = self.op.push_left(tables[0]) if 0 in tables else self.op.push_right(tables[1])
        seq = {s: [(t, None if self.case.one_key else k, v) for t, k, v in rows] for s, rows in batches.items()}
        expected, late = self.push_model(seq)
        self.check(out, expected)
        for side, name in enumerate(("left", "right")):
            found = getattr(out, f"late_{name}")
            assert found[f"{name}_id"].to_pylist() == late.get(side, []) if found.num_rows else not late.get(side)

    def mark_keys(self, side: int) -> None:
        """Marks of some keys, near the newest rows of the side or for ever."""
        rng, newest = self.case.rng, self.model.newest[side]
        marks = []
        for _ in range(int(rng.integers(1, 4))):
            time = max(min(newest + int(rng.integers(-9, 12)), (1 << 63) - 20), -(1 << 63) + 20)
            marks.append((str_or_none(rng.choice(self.case.keys)), None if rng.random() < 0.1 else time))
        keys, times = zip(*marks, strict=True)
        given = pa.table({"k": pa.array(keys, pa.string()), "t": pa.array(times, pa.int64())})
        self.check(self.op.advance(**{f"{('left', 'right')[side]}_marks": given}), self.model.mark_keys(side, marks))

    def push_model(self, rows: dict) -> tuple[list, dict]:
        return self.model.push(rows)

    def check(self, out: sl.JoinOutput, expected: list) -> None:
        found = pairs(out.rows)
        if self.case.match == "all":
            assert found == expected
        else:
            assert Counter(found) == Counter(expected)
        assert out.stats.held == self.model.held
        if self.reached is not None:
            for time in self.times(out.rows):
                assert time >= self.reached
        mark = self.model.reached()
        assert out.watermark == (None if mark is None or mark < -(1 << 63) else min(mark, (1 << 63) - 1))
        self.reached = out.watermark
        self.all.update(found)

    def times(self, rows: pa.Table) -> list[int]:
        about = self.spec.speaks_about
        named = {"window": "window_start", "left": "t", "right": "t_right", "max": "event_time", "min": "event_time"}
        if about in ("max", "min") and self.spec.event_time is None:
            pair = [rows["t"].to_pylist(), rows["t_right"].to_pylist()]
            return [max(t for t in both if t is not None) for both in zip(*pair, strict=True)]
        return rows[named[about]].to_pylist() if rows.num_rows else []

    def in_time(self) -> list[pa.Table]:
        """The rows of both sides that were not late."""
        tables = []
        for side, name in enumerate(("left", "right")):
            rows = self.model.rows[side]
            made = table(name, [(r.time, r.key, r.value) for r in rows], 0)
            tables.append(made.set_column(3, f"{name}_id", pa.array([r.arrival for r in rows], pa.int64())))
        if self.case.one_key:
            tables = [t.set_column(1, "k", pa.array(["a"] * t.num_rows, pa.string())) for t in tables]
        return tables

    def flush(self) -> None:
        out = self.op.flush()
        expected = self.model.flush()
        found = pairs(out.rows)
        assert Counter(found) == Counter(expected)
        self.all.update(found)
        assert out.stats.held == 0


def walked(case: Case, **options: object) -> Both:
    """The case step by step; restored from a snapshot now and then."""
    both = Both(case, **options)
    for batches in case.batches(int(case.rng.integers(1, 14))):
        both.step(batches)
        if case.rng.random() < 0.2:
            mark: list = [None, None]
            mark[int(case.rng.integers(0, 2))] = min(case.base + int(case.rng.integers(0, 60)), (1 << 63) - 20)
            both.check(both.op.advance(*mark), both.model.advance(*mark))
        if case.rng.random() < 0.3 and not case.one_key and all(both.model.number):
            both.mark_keys(int(case.rng.integers(0, 2)))
        if case.rng.random() < 0.15:
            both.op = sl.JoinOperator.restore(both.spec, both.op.snapshot(), **options)
    both.flush()
    return both


@pytest.mark.parametrize("part", range(10))
def test_every_step_is_as_the_definition_says(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results in order, late rows, what is kept, how far results have come; together what all rows in time give."""
    for seed in range(part, CASES, 10):
        case = Case(seed)
        try:
            with monkeypatch.context() as patch:
                if seed % 3 == 0:
                    patch.setattr(joined_pairs, "parts", partial(threads.parts, share=threads.Share(2)))
                policy = Policy(tested_pairs=3) if case.where and seed % 2 else DEFAULT
                both = walked(case, threads=2 if seed % 3 == 0 else 1, policy=policy)
                whole = sl.join(*both.in_time(), case.spec(watermark=sl.manual(), idle=None))
            assert Counter(pairs(whole)) == both.all
            if case.match == "all":
                assert pairs(whole) == both.model.whole()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {case.spec()}") from error


def test_rows_are_late_whether_or_not_the_columns_of_both_sides_are_known() -> None:
    """Watermarks given before a side's first rows count; in the end the same rows have come."""
    for seed in range(3000, 3000 + CASES // 3):
        case = Case(seed)
        try:
            ops = [sl.JoinOperator(spec) for spec in (case.spec(), case.spec(schemas=None))]
            firsts, now, found = [0, 0], [case.base, case.base], [Counter(), Counter()]
            for batches in case.batches(8):
                side = int(case.rng.integers(0, 2))
                now[side] = min(now[side] + int(case.rng.integers(0, 20)), (1 << 63) - 20)
                outs = [[op.advance(**{("left", "right")[side]: now[side]})] for op in ops]
                for side, rows in batches.items():
                    name = ("left", "right")[side]
                    for op, given in zip(ops, outs, strict=True):
                        given.append(getattr(op, f"push_{name}")(table(name, rows, firsts[side])))
                    ids = [(out[-1].late_left if side == 0 else out[-1].late_right)[f"{name}_id"] for out in outs]
                    assert ids[0] == ids[1]
                    firsts[side] += len(rows)
                for rows, given in zip(found, outs, strict=True):
                    rows.update(pair for out in given for pair in pairs(out.rows))
            for op, rows in zip(ops, found, strict=True):
                rows.update(pairs(op.flush().rows))
            assert found[0] == found[1]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {case.spec()}") from error


@pytest.mark.parametrize("most", [1, 5])
def test_pairs_that_come_in_pieces_are_the_same_in_all(most: int) -> None:
    for seed in range(1000, 1000 + CASES // 5):
        case = Case(seed)
        try:
            spec, steps = case.spec(), case.batches(8)
            found = []
            for options in ({}, {"max_rows_per_push": most}):
                op, firsts, rows = sl.JoinOperator(spec, **options), [0, 0], []
                for number, batches in enumerate(steps):
                    for side, push in ((0, op.push_left), (1, op.push_right)):
                        if side in batches:
                            out = push(table(("left", "right")[side], batches[side], firsts[side]))
                            firsts[side] += len(batches[side])
                            rows += pairs(out.rows)
                    if options and number % 3 == 2:
                        op = sl.JoinOperator.restore(spec, op.snapshot(), **options)
                while (out := op.advance()).stats.pending:
                    rows += pairs(out.rows)
                    assert out.stats.held >= out.stats.pending
                rows += pairs(out.rows)
                held = out.stats.held
                rows += pairs(op.flush().rows)
                found.append((Counter(rows), held))
            assert found[0] == found[1]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {case.spec()}") from error


CHOICES = {
    "last": lambda t, u, i: (-u, -i),
    "first": lambda t, u, i: (u, i),
    "nearest": lambda t, u, i: (abs(t - u), u, -i),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("match", CHOICES)
def test_as_of_tables_in_order(match: str, threads: int) -> None:
    """Tables in order of time, as most are, with rows that have no key: each left row by a walk over the right ones."""
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        ends = -(1 << 63), (1 << 63) - 40
        base, before, after = (
            int(rng.choice([*BASES[:4], *ends])),
            rng.choice([None, -2, 0, 1, 2, 3, 20]),
            rng.choice([None, -2, 0, 1, 4]),
        )
        if before is not None and after is not None and before + after < 0:
            before = -after
        how, names = str(rng.choice(["inner", "left"])), KEYS[: rng.choice([1, 1, *range(2, len(KEYS) + 1)])]
        sides = [
            [(base + t, names[k], None) for t, k in zip(sorted(times), codes, strict=True)]
            for times, codes in (
                (rng.integers(0, rng.choice([3, 40]), n).tolist(), rng.integers(0, len(names), n).tolist())
                for n in rng.integers(0, 12, 2).tolist()
            )
        ]
        expected = []
        for at, (t, key, _) in enumerate(sides[0]):
            low = -(1 << 70) if before is None else t - before
            high = 1 << 70 if after is None else t + after
            found = [i for i, (u, other, _) in enumerate(sides[1]) if key == other and key and low <= u <= high]
            if found or how == "left":
                best = min(found, key=lambda i: CHOICES[match](t, sides[1][i][0], i), default=None)
                expected.append((at, best))
        spec = sl.JoinSpec(on="k", time="t", within=(before, after), match=match, how=how)
        rows = sl.join(table("left", sides[0], 0), table("right", sides[1], 0), spec, threads=threads)
        assert pairs(rows) == expected, f"seed {seed}: {spec}"
