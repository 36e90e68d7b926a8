"""The eager store: trees over the runs of slices, for windows of very many of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.policy import Policy

AGGS = {"n": sl.count(), "total": sl.sum("v"), "least": sl.min("v"), "first": sl.first("v")}


def spec(by: list[str], size: int = 4000) -> sl.Spec:
    windows = {"s": sl.sliding(size, every=1), "u": sl.sliding(size // 3, every=7)}
    return sl.Spec("t", windows, AGGS, by=by, watermark=sl.bounded(300))


def late(rows: int, keys: int) -> pa.Table:
    """A row or so a tick and key, up to 300 ticks late."""
    rng = np.random.default_rng(keys)
    time = np.arange(rows) // keys
    time = time - np.where(rng.random(rows) < 0.3, rng.integers(0, 300, rows), 0)
    value = rng.choice(
        [1.0, -2.5, 1e300, np.inf, np.nan, -0.0, 3.25], rows, p=[0.4, 0.3, 1e-3, 1e-3, 1e-3, 0.147, 0.15]
    )
    return pa.table({"t": time, "k": rng.integers(0, keys, rows), "v": value})


def pushed(spec: sl.Spec, table: pa.Table, some: int, **how: object) -> tuple[pa.Table, sl.Operator]:
    op = sl.Operator(spec, **how)
    ahead = table.num_rows - 40 * some
    parts = [op.push(table.slice(0, ahead)).windows]
    parts += [op.push(table.slice(at, some)).windows for at in range(ahead, table.num_rows, some)]
    return pa.concat_tables(parts), op


def same(one: pa.Table, other: pa.Table) -> bool:
    """As their bytes: NaN is itself. (Sums of other runs may differ in their last bits.)"""
    return one.num_rows > 0 and str(one.drop("total").to_pylist()) == str(other.drop("total").to_pylist())


@pytest.mark.parametrize("keys", [1, 3])
def test_late_rows_are_in_the_windows_that_a_tree_answers(keys: int) -> None:
    table = late(9000 * keys, keys)
    asked = spec(["k"] if keys > 1 else [])
    found, op = pushed(asked, table, 7 * keys)
    plain, _ = pushed(asked, table, 7 * keys, combine="recompute")
    assert any("tree" in run.__dict__ and len(run.tree.levels) > 2 for run in op._state.store.runs)
    assert found.num_rows == plain.num_rows > 300
    for name in found.column_names:
        if name == "total":
            np.testing.assert_allclose(found[name].to_numpy(), plain[name].to_numpy(), rtol=1e-12)
        else:
            np.testing.assert_array_equal(found[name].to_numpy(), plain[name].to_numpy())


def test_a_snapshot_holds_no_trees_and_goes_on_with_the_same_windows() -> None:
    table = late(9000, 1)
    _, op = pushed(spec([]), table, 7)
    before = op._state.store.nbytes
    restored = sl.Operator.restore(spec([]), op.snapshot())
    assert restored._state.store.nbytes < before
    more = pa.table({"t": np.arange(9000, 9100), "k": np.zeros(100, np.int64), "v": np.arange(100.0)})
    assert same(restored.push(more).windows, op.push(more).windows)


def test_a_push_that_fails_leaves_the_windows_as_they_were() -> None:
    table = late(9000, 1)
    _, op = pushed(spec([]), table, 7)
    _, other = pushed(spec([]), table, 7)
    with pytest.raises(ValueError, match="times must lie between"):
        op.push(pa.table({"t": [9010, 2**63 - 1], "k": [0, 0], "v": [1.0, 1.0]}))
    more = pa.table({"t": np.arange(9000, 9100), "k": np.zeros(100, np.int64), "v": np.arange(100.0)})
    assert same(other.push(more).windows, op.push(more).windows)


def test_large_runs_are_not_merged() -> None:
    _, op = pushed(spec([]), late(9000, 1), 50, policy=Policy(tree_largest=500))
    assert op.push(pa.table({"t": [9500], "k": [0], "v": [1.0]})).windows.num_rows > 400
    plain = sl.Operator(spec([]), combine="two stacks")
    plain.push(late(9000, 1))
    assert plain.flush().windows["n"].to_pylist()[-1] == op.flush().windows["n"].to_pylist()[-2]


@pytest.mark.parametrize(
    "asked",
    [
        sl.Spec("t", {"s": sl.session(5)}, {"n": sl.count()}),
        sl.Spec("t", {"s": sl.sliding(500, every=1, fill=True)}, {"n": sl.count()}),
        sl.Spec("t", {"s": sl.sliding(500, every=1)}, {"m": sl.median("v")}),
    ],
)
def test_what_has_no_tree_is_refused(asked: sl.Spec) -> None:
    with pytest.raises(ValueError, match="combine='eager store' keeps coarser partials of slices: it takes"):
        sl.Operator(asked, combine="eager store").push(pa.table({"t": [1], "v": [1.0]}))


def test_explain_says_when() -> None:
    assert "eager store" in sl.explain(spec([]))["combine"]
    assert "eager store" not in sl.explain(sl.Spec("t", {"w": sl.sliding(60, every=1)}, {"n": sl.count()}))["combine"]
