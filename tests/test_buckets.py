"""``combine="buckets"``: one partial a window instead of slices."""

from __future__ import annotations

from functools import partialmethod

import pyarrow as pa
import pytest
from harness import check, share, spec
from hypothesis import assume, given
from strategies import Case, Kit, cases

import slicing as sl
from slicing.snapshot import SnapshotError

ROWS = pa.table({"t": [1, 4, 12, 13], "v": [1, 2, 3, 4]})
SPEC = sl.Spec("t", {"w": sl.sliding(10, every=4)}, {"n": sl.count(), "s": sl.sum("v")}, watermark=sl.manual())


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sl.Operator, "__init__", partialmethod(sl.Operator.__init__, combine="buckets"))


@share(25)
@given(cases(Kit(kinds=("sliding", "tumbling"), emits=("final",), idle=False)))
def test_buckets_answer_what_the_rows_say(buckets: None, case: Case) -> None:
    windows = spec(case).windows.values()
    assume(len(windows) == 1 and not any(getattr(w, "fill", False) for w in windows))
    check(case)


def test_a_store_of_buckets_holds_a_cell_a_window() -> None:
    slices, windows = sl.Operator(SPEC), sl.Operator(SPEC, combine="buckets")
    one, other = slices.push(ROWS), windows.push(ROWS)
    assert (one.stats["slices"], other.stats["slices"]) == (3, 6)
    assert slices.flush().windows.equals(windows.flush().windows)


def test_a_snapshot_goes_on_as_it_was_written() -> None:
    slices, windows = sl.Operator(SPEC), sl.Operator(SPEC, combine="buckets")
    for op in (slices, windows):
        op.push(ROWS)
    again = sl.Operator.restore(SPEC, windows.snapshot())
    again.push(ROWS)
    slices.push(ROWS)
    assert slices.flush().windows.equals(again.flush().windows)
    with pytest.raises(SnapshotError, match="holds windows, as combine='buckets' keeps them; got combine='two stacks'"):
        sl.Operator.restore(SPEC, windows.snapshot(), combine="two stacks")
    with pytest.raises(SnapshotError, match="holds slices; it cannot go on with combine='buckets'"):
        sl.Operator.restore(SPEC, sl.Operator.restore(SPEC, slices.snapshot()).snapshot(), combine="buckets")


@pytest.mark.parametrize(
    "windows",
    [
        {"a": sl.tumbling(5), "b": sl.tumbling(7)},
        {"a": sl.session(5)},
        {"a": sl.tumbling(5, fill=True)},
        {"a": sl.cumulate(10, 2)},
    ],
)
def test_other_windows_are_refused(windows: dict) -> None:
    with pytest.raises(ValueError, match="keeps one partial a window: it takes one periodic window"):
        sl.Operator(sl.Spec("t", windows, {"n": sl.count()}), combine="buckets").push(ROWS)


def test_what_goes_with_slices_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="it takes no max_windows_per_push"):
        sl.Operator(SPEC, combine="buckets", max_windows_per_push=3)
    with pytest.raises(ValueError, match="keeps no slices that another window could be answered from"):
        sl.Operator(SPEC, combine="buckets").add_window("x", sl.tumbling(3))
    with pytest.raises(ValueError, match='with emit="final"'):
        sl.Operator(sl.Spec("t", SPEC.windows, SPEC.aggs, allowed_lateness=3, emit="updates"), combine="buckets")
