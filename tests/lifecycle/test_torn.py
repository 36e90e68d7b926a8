"""Calls that fail in the middle, where memory runs out or Ctrl-C is pressed: the operator is as it was before."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.columns import key_tables
from slicing.streams import distinct, first_rows

KEYS, START = 1024, 1_700_000_000_000_000_000
FIRST = sl.Spec("t", {"w": sl.tumbling("10s")}, {"n": sl.count()}, by="k", watermark=sl.manual())
SECOND = sl.Spec("window_start", {"w": sl.tumbling("1000s")}, {"n": sl.max("n")}, by="k", watermark=sl.manual())
ERRORS = [MemoryError, KeyboardInterrupt]


def times(seconds: list[int]) -> pa.Array:
    return pa.array([START + second * 10**9 for second in seconds], pa.timestamp("ns"))


def rows(first: int, count: int, second: int) -> pa.Table:
    return pa.table({"t": times([second] * count), "k": np.arange(first, first + count)})


class Failing:
    """A module whose function of that name fails at the next call, once."""

    def __init__(self, module: Any, name: str, error: type[BaseException]) -> None:
        self.module, self.name, self.error = module, name, error

    def __getattr__(self, name: str) -> Any:
        if name != self.name or self.error is None:
            return getattr(self.module, name)
        error, self.error = self.error, None  # type: ignore[assignment]

        def failing(*_: Any) -> None:
            raise error("at a bad moment")

        return failing


def fails_where_keys_move(monkeypatch: pytest.MonkeyPatch, error: type[BaseException], call: Callable[[], Any]) -> None:
    """The table of keys is emptied before it is filled again, with more room: the call fails between the two."""
    with monkeypatch.context() as patched:
        patched.setattr(key_tables, "np", Failing(np, "arange", error))
        with pytest.raises(error, match="at a bad moment"):
            call()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("how", ["push", "marks", "chain"])
def test_keys_are_found_again(how: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    op: Any = sl.Operator(FIRST)
    if how == "chain":
        op = sl.chain(op, sl.Operator(SECOND))
    op.push(rows(0, KEYS, 1))
    more = rows(KEYS, 3000, 2)
    fails_where_keys_move(monkeypatch, error, lambda: op.advance(marks=more) if how == "marks" else op.push(more))
    op.push(rows(0, KEYS, 3))
    assert op.flush().windows["n"].to_pylist() == [2] * KEYS


def test_marks_that_are_refused_leave_no_keys() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, by="k", watermark=sl.manual()))
    for at in range(3):
        op.push(pa.table({"t": [at], "k": [1], "v": [2**62]}))
    before = op.snapshot()
    with pytest.raises(OverflowError, match="does not fit int64"):
        op.advance(marks=pa.table({"t": [20, 20], "k": [1, 7]}))
    assert op.snapshot() == before


@pytest.mark.parametrize("error", ERRORS)
def test_keys_of_a_join_in_a_chain_are_found_again(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    band = sl.JoinSpec(on="k", time="t", within=(0, "5s"), watermark=sl.manual(), event_time="right")
    pairs = sl.Spec("t_right", {"w": sl.tumbling("1000s")}, {"n": sl.count()}, watermark=sl.manual())
    op = sl.chain(sl.JoinOperator(band), sl.Operator(pairs))
    op.push_left(rows(0, KEYS, 1))
    op.push_right(rows(0, 1, 1))
    fails_where_keys_move(monkeypatch, error, lambda: op.push_left(rows(KEYS, 10, 1)))
    op.push_right(rows(0, KEYS, 3))
    assert op.flush().windows["n"].to_pylist() == [KEYS + 1]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    ("keep", "within", "where", "name"),
    [
        ("first", sl.tumbling("10s"), distinct, "chosen_rows"),
        ("last", sl.tumbling("10s"), distinct, "chosen_rows"),
        ("first", "5s", distinct, "chosen_rows"),
        ("any", sl.tumbling("10s"), distinct, "array_of"),
        ("any", sl.tumbling("10s"), first_rows, "append"),
    ],
)
def test_distinct_rows_may_be_pushed_again(
    keep: str,
    within: object,
    where: Any,
    name: str,
    at: int,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = [[1, 2, 3], [11, 12], [13, 2, 14], [31]]
    op = sl.Distinct(sl.DistinctSpec("id", "t", within, keep, watermark=sl.bounded(0)))
    found, late = list[pa.Table](), 0
    for number, seconds in enumerate(stream):
        batch = pa.table({"t": times(seconds), "id": [f"i{second}" for second in seconds]})
        if number == at:
            failing = Failing(np if name == "append" else where, name, error)
            with monkeypatch.context() as patched:
                patched.setattr(
                    where, "np" if name == "append" else name, failing if name == "append" else _at_call(failing)
                )
                with pytest.raises(error, match="at a bad moment"):
                    op.push(batch)
        out = op.push(batch)
        found.append(out.rows)
        late += out.late.num_rows
    table = pa.concat_tables([*filter(len, found), op.flush().rows])
    assert (sorted(table["id"].to_pylist()), late) == (sorted(f"i{n}" for n in (1, 2, 3, 11, 12, 13, 14, 31)), 1)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", ["advance", "flush"])
def test_distinct_rows_may_be_asked_for_again(
    call: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    op = sl.Distinct(sl.DistinctSpec("id", "t", sl.tumbling("10s"), watermark=sl.manual()))
    op.push(pa.table({"t": times([1, 2, 3]), "id": ["a", "b", "a"]}))
    ends = (lambda: op.advance(times([20])[0])) if call == "advance" else op.flush
    with monkeypatch.context() as patched:
        patched.setattr(distinct, "chosen_rows", _at_call(Failing(distinct, "chosen_rows", error)))
        with pytest.raises(error, match="at a bad moment"):
            ends()
    assert ends().rows["id"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("error", ERRORS)
def test_keys_of_first_rows_are_found_again(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    op = sl.Distinct(sl.DistinctSpec("id", "t", sl.tumbling("10s"), "any", watermark=sl.manual()))

    def some(first: int, count: int) -> pa.Table:
        return pa.table({"t": times([1] * count), "id": np.arange(first, first + count)})

    assert op.push(some(0, KEYS)).rows.num_rows == KEYS
    first = first_rows.FirstRows.first

    def failing(*arguments: Any) -> Any:
        monkeypatch.setattr(key_tables, "np", Failing(np, "arange", error))
        return first(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(first_rows.FirstRows, "first", failing)
        with pytest.raises(error, match="at a bad moment"):
            op.push(some(KEYS, 3000))
    assert op.push(some(0, KEYS + 3)).rows.num_rows == 3


def _at_call(failing: Failing) -> Callable[..., Any]:
    return lambda *arguments: getattr(failing, failing.name)(*arguments)


def test_a_warning_that_is_an_error_stops_a_chain_once() -> None:
    of_windows = sl.Spec("window_start", {"w": sl.whole()}, {"n": sl.sum("n")}, watermark=sl.manual())
    first = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()})
    op = sl.chain(sl.Operator(first), sl.Operator(of_windows))
    op.push(pa.table({"t": np.arange(20)}))
    op.push(pa.table({"t": [10**6]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="one row of time 1000000 moved the watermark"):
            op.push(pa.table({"t": np.arange(20, 40)}))
        op.push(pa.table({"t": np.arange(20, 40)}))
    assert op.outputs[0].stats.late == 20


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_a_copy_of_a_chain_is_of_one_moment(copied: Callable[[sl.Chain], sl.Chain]) -> None:
    """Another thread pushes meanwhile."""
    of_windows = sl.Spec("window_start", {"w": sl.whole()}, {"n": sl.sum("n")}, watermark=sl.manual())
    op = sl.chain(sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()})), sl.Operator(of_windows))
    ended, copies = threading.Event(), []

    def push() -> None:
        for at in range(60):
            op.push(pa.table({"t": np.repeat(np.arange(100 * at, 100 * at + 100), 20)}))
        ended.set()

    op.push(pa.table({"t": np.repeat(0, 2000)}))
    thread = threading.Thread(target=push)
    thread.start()
    while not (copies and ended.is_set()):
        copies.append(copied(op))
    thread.join()
    assert all(one.flush().windows["n"].to_pylist()[0] % 2000 == 0 for one in copies)
