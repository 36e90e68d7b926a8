"""Users' windows that depend on rows: which of them are compiled, and that nobody sees it but the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pytest
from harness import Delta, FastDelta, FastVisit, Visit

import slicing as sl

N = {"n": sl.count(), "seen": sl.collect("v")}
SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string()})


def how(window: sl.ContextAwareWindow) -> str:
    return sl.explain(sl.Spec("t", {"w": window}, N), SCHEMA)["windows of your own"]


@dataclass(frozen=True)
class Told(sl.ContextAwareWindow):
    """Gives the same edges whatever it sees."""

    edges: int
    until: int = 100
    later: int = 100

    def start(self) -> Any:
        return 0

    def see(self, context: int, time: int) -> Any:
        return context + 1, self.edges

    def deadline(self, context: int) -> Any:
        return None if context == 0 else self.until if context < 100 else self.later

    def expired(self, context: int) -> Any:
        return 100, self.CLOSE


def test_explain_says_which_are_compiled_and_why_others_are_not() -> None:
    assert [how(w) for w in (FastVisit(3, 9), FastDelta("x", 2), FastDelta("v", 2))] == [
        "w: compiled, a kernel over rows"
    ] * 3
    assert "plain Python, row by row: start() gives None, and only a number or a tuple" in how(Visit(3, 9))
    assert "plain Python, row by row: column 's' of type string is no number" in how(FastDelta("s", 2))

    class Words(Told):
        def see(self, context: int, time: int) -> Any:
            return context, [self.opens()]

    class Halves(Told):
        def see(self, context: int, time: int) -> Any:
            return context / 2, 0

    assert "see does not compile: " in how(Words(0))
    assert "see gives a context of float64, where start() gives one of int64" in how(Halves(0))
    assert "windows of your own" not in str(sl.explain(sl.Spec("t", {"w": sl.rows(2)}, N)))


WRONG = {
    "twice open": (Told(1), "opened a window with id=0, but it is open already"),
    "never open": (Told(2), "closed a window with id=0, which is not open"),
    "none before": (Told(5), "closed a window with id=0, which is not open"),
    "for ever": (Told(1, until=1, later=1), "expired gave a context whose deadline is 1; it must be later than 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_compiled_window_that_makes_no_sense_is_told_so(name: str) -> None:
    window, sentence = WRONG[name]
    assert how(window).startswith("w: compiled")
    op = sl.Operator(sl.Spec("t", {"w": window}, N))
    with pytest.raises(ValueError, match=sentence):
        op.push(pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}))


STEPS = np.array([0, 0, 0])


def test_an_error_of_the_users_own_is_seen() -> None:
    class Divides(Told):
        def see(self, context: int, time: int) -> Any:
            return 10 // (time - 2), 0

    class LooksUp(Told):
        def see(self, context: int, time: int) -> Any:
            return STEPS[time], 0

    for window, error in ((Divides(0), ZeroDivisionError), (LooksUp(0), IndexError)):
        assert how(window).startswith("w: compiled")
        with pytest.raises(error):
            sl.aggregate(pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}), sl.Spec("t", {"w": window}, N))


@pytest.mark.parametrize("column", ["int8", "int64", "uint32", "float32", "float64", "bool"])
def test_a_compiled_window_sees_values_and_nulls_of_every_number(column: str) -> None:
    values = [1, None, 1, 0, 0, None, 1] if column != "bool" else [True, None, True, False, False, None, True]
    rows = pa.table({"t": range(7), "v": range(7), "x": pa.array(values, column)})
    spec = sl.Spec("t", {"w": FastDelta("x", 1)}, N)
    found = [w["seen"] for w in sl.aggregate(rows, spec).to_pylist()]
    assert found == [[0, 1, 2], [3, 4, 5], [6]]


def test_all_of_a_row_may_happen_at_once() -> None:
    """The window before ends with the row before, one is opened, and ends with the same row."""

    @dataclass(frozen=True)
    class Fives(sl.ContextAwareWindow):
        partial: bool = False

        def start(self) -> Any:
            return 0

        def see(self, rank: int, time: int) -> Any:
            every = self.CLOSE_BEFORE + self.OPEN + self.CLOSE
            return rank + 1, every if rank % 5 == 4 else self.OPEN if rank % 5 == 0 else 0, time * 10

    assert how(Fives()).startswith("w: compiled")
    rows = pa.table({"t": range(12), "v": range(12)})
    found = sl.aggregate(rows, sl.Spec("t", {"w": Fives()}, N)).to_pylist()
    got = [(w["window_start"], w["window_end"], w["seen"]) for w in found]
    assert got == [(0, 40, [0, 1, 2, 3]), (4, 40, [4]), (5, 90, [5, 6, 7, 8]), (9, 90, [9])]


@pytest.mark.parametrize("window", [Visit(5, 50), FastVisit(5, 50), FastDelta("x", 3.0), Delta("x", 3.0)])
def test_what_is_open_goes_on_after_a_restart_and_beside_other_windows(window: Any) -> None:
    """Any split, with restarts and windows that come and go, gives what one push does."""
    chance = np.random.default_rng(5)
    n = 400
    rows = pa.table({
        "t": np.cumsum(chance.integers(0, 4, n)), "k": chance.integers(0, 5, n), "v": np.arange(n),
        "x": pa.array(chance.normal(size=n).cumsum(), mask=chance.random(n) < 0.1),
    })  # fmt: skip
    spec = sl.Spec("t", {"w": window}, N, by="k", watermark=sl.ordered())
    expected = sl.aggregate(rows, spec).to_pylist()
    other = sl.Spec("t", {"w": window, "other": Delta("x", 1)}, N, by="k", watermark=sl.ordered())
    op, found = sl.Operator(other), []  # which sees the same column as objects
    for at in range(0, n, 37):
        if at == 222:
            op.remove_window("other")
        found += op.push(rows[at : at + 37]).windows.to_pylist()
        op = sl.Operator.restore(op.spec, op.snapshot())
    found += op.flush().windows.to_pylist()
    key = lambda w: (w["k"], w["window_start"], w["seen"])  # noqa: E731
    assert sorted((w for w in found if w["window"] == "w"), key=key) == sorted(expected, key=key)
    assert len(expected) > 20


def test_keys_with_nothing_open_are_forgotten() -> None:
    op = sl.Operator(sl.Spec("t", {"w": FastVisit(5, 50)}, {"n": sl.count()}, by="k", watermark=sl.ordered()))
    for at in range(0, 20_000, 1000):
        op.push(pa.table({"t": [10 * at] * 1000, "k": range(at, at + 1000)}))
    stats = op.advance(10**9).stats
    assert stats["kept"] == 0 and stats["keys"] <= 8000


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_remembered_of_a_key_ends_with_the_key(compiled: bool) -> None:
    """Also if other keys have rows in the same push, and windows see those."""

    class Counts(sl.ContextAwareWindow):
        def start(self) -> Any:
            return 0

        def see(self, context: int, time: int) -> Any:
            both = self.OPEN + self.CLOSE if compiled else [self.opens(), self.closes()]
            return context + 1, both

    op = sl.Operator(sl.Spec("t", {"w": Counts()}, {"n": sl.count()}, by="k", watermark=sl.bounded(0), idle=15))
    held = []
    for step in range(30):
        keys = [f"{step} {number}" for number in range(100)]
        held.append(op.push(pa.table({"t": [1_700_000_000_000_000_000 + 10 * step] * 100, "k": keys})).stats)
    assert how(Counts()).startswith("w: compiled") == compiled
    assert max(stats["keys"] for stats in held[10:]) <= 500
    assert max(stats["bytes"] for stats in held[20:]) <= max(stats["bytes"] for stats in held[10:20])


@dataclass(frozen=True)
class Gap(sl.ContextAwareWindow):
    """A session; its context is how many rows there were, and the time of the last one."""

    gap: int

    def start(self) -> Any:
        return (0, 0)

    def see(self, context: Any, time: int) -> Any:
        return (context[0] + 1, time), (self.OPEN if context[0] == 0 else 0)

    def deadline(self, context: Any) -> Any:
        return None if context[0] == 0 else context[1] + self.gap

    def expired(self, context: Any) -> Any:
        return (0, 0), self.CLOSE


@pytest.mark.parametrize("origin", [0, 1_700_000_000_000_000_000])
def test_a_deadline_passes_while_few_rows_of_calm_keys_become_final(origin: int) -> None:
    spec = sl.Spec("t", {"w": Gap(100)}, {"n": sl.count()}, by="k", watermark=sl.bounded(10))
    op = sl.Operator(spec)

    def push(*rows: tuple[int, int]) -> sl.Output:
        return op.push(pa.table({"t": [origin + t for t, _ in rows], "k": [k for _, k in rows]}))

    push(*[(0, key) for key in range(100)])
    push(*[(90, key) for key in range(1, 100)])  # all keys but the first go on
    push((104, 1))
    push((100, 2), (99, 3))  # their windows stay open
    assert push((111, 4)).windows.select(["k", "n"]).to_pylist() == [{"k": 0, "n": 1}]
    assert op.flush().windows.num_rows == 99


def test_a_deadline_after_all_times_is_none_in_plain_python() -> None:
    @dataclass(frozen=True)
    class Plain(Gap):
        def columns(self) -> tuple[str, ...]:
            return ("s",)  # text is not compiled

        def see(self, context: Any, time: int, text: str) -> Any:
            return super().see(context, time)

    spec = sl.Spec("t", {"w": Plain(2**63 - 1)}, {"n": sl.count()})
    assert sl.aggregate(pa.table({"t": [1, 2, 3], "s": ["a", "b", "c"]}), spec)["n"].to_pylist() == [3]


def test_windows_are_told_apart_by_what_their_methods_refer_to() -> None:
    """Two classes of one name, as of two cells of a notebook, whose methods call other functions of numba."""

    def made(function: Any) -> sl.ContextAwareWindow:
        @dataclass(frozen=True)
        class Above(sl.ContextAwareWindow):
            def columns(self) -> tuple[str, ...]:
                return ("v",)

            def start(self) -> Any:
                return 0

            def see(self, context: int, time: int, v: int) -> Any:
                return 0, (self.OPEN + self.CLOSE if function(v) > 3 else 0)

        return Above()

    def ufunc(times: int) -> Any:
        if times == 1:
            return numba.vectorize(["int64(int64)"])(lambda v: v)
        return numba.vectorize(["int64(int64)"])(lambda v: -v)

    rows = pa.table({"t": [1, 2, 3], "v": [5, -5, 4]})
    for times, expected in ((1, [1, 3]), (-1, [2])):
        spec = sl.Spec("t", {"w": made(ufunc(times))}, {"n": sl.count()})
        assert "compiled" in how(made(ufunc(times)))
        assert sl.aggregate(rows, spec)["window_start"].to_pylist() == expected
