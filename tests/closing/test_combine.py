"""``Operator(spec, combine=...)``: every way gives the same windows, and what cannot be is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells import combining
from slicing.kernels.strategies import STRATEGIES

EXACT = {"n": sl.count(), "total": sl.sum("v"), "mean": sl.mean("v")}


def spec(**aggs: sl.Aggregate) -> sl.Spec:
    windows = {"s": sl.sliding(500, every=1), "t": sl.tumbling(70)}
    return sl.Spec("t", windows, aggs or EXACT, watermark=sl.bounded(20))


def stream(rows: int = 6000) -> pa.Table:
    rng = np.random.default_rng(8)
    time = np.arange(rows) // 4 + rng.integers(0, 20, rows)
    return pa.table({"t": time, "v": rng.integers(-(2**62), 2**62, rows) // 600})


def answers(spec: sl.Spec, table: pa.Table, **how: object) -> pa.Table:
    op = sl.Operator(spec, **how)
    outs = [op.push(table.slice(at, 1500)).windows for at in range(0, table.num_rows, 1500)]
    return pa.concat_tables([*outs, op.flush().windows])


@pytest.mark.parametrize("name", combining.NAMES)
def test_every_way_gives_the_same_windows(name: str) -> None:
    table = stream()
    time, value = (table[c].to_numpy() for c in ("t", "v"))
    found = answers(spec(), table, combine=name)
    assert found.num_rows == len({(w, e) for w, e in zip(found["window"], found["window_end"], strict=True)}) > 1900
    for row in found.slice(0, 3000).to_pylist()[::7]:
        inside = value[(time >= row["window_start"]) & (time < row["window_end"])]
        assert (row["n"], row["total"]) == (inside.size, int(inside.sum()))
        assert row["mean"] == pytest.approx(inside.mean(), rel=1e-12)


def test_sums_and_counts_alone_are_subtracted_where_that_is_cheapest() -> None:
    first, last = np.arange(5000), np.arange(5000) + 3000
    assert combining.choose(first, last, 8000, removes=True) == "prefix difference"
    assert combining.choose(first, last, 8000) == "two stacks"
    assert combining.choose(first[:3], last[:3], 8000, removes=True) == "recompute"


@pytest.mark.parametrize(
    ("agg", "type", "problem"),
    [
        (sl.min("v"), pa.int64(), r"aggs\['a'\] is sl.min\('v'\)"),
        (sl.sum("v"), pa.float64(), r"aggs\['a'\] is sl.sum\('v'\) \(v double\)"),
        (sl.mean("v"), pa.float32(), r"aggs\['a'\] is sl.mean\('v'\) \(v float\)"),
        (sl.var("v"), pa.int64(), r"aggs\['a'\] is sl.var\('v'\)"),
    ],
)
def test_what_cannot_be_removed_exactly_is_not_subtracted(agg: sl.Aggregate, type: pa.DataType, problem: str) -> None:
    rows = pa.table({"t": pa.array([1], pa.int64()), "v": pa.array([1], type)})
    with pytest.raises(ValueError, match=f"removes what leaves a window, which is exact only for .*; {problem}"):
        sl.Operator(spec(a=agg), combine="prefix difference").push(rows)


@pytest.mark.parametrize("name", ["fast", None, 3, "two_stacks"])
def test_names_that_are_none_are_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"combine must be 'auto', 'recompute', .* or .*; got "):
        sl.Operator(spec(), combine=name)


def test_a_shared_lane_is_subtracted_only_if_nobody_reads_its_extremes() -> None:
    table = stream()
    asked = {"n": sl.count(), "total": sl.sum("v"), "least": sl.min("v")}
    found = answers(spec(**asked), table)
    time, value = (table[c].to_numpy() for c in ("t", "v"))
    for row in found.slice(0, 3000).to_pylist()[::13]:
        inside = value[(time >= row["window_start"]) & (time < row["window_end"])]
        assert (row["n"], row["total"], row["least"]) == (inside.size, int(inside.sum()), int(inside.min()))


def test_explain_says_which_and_why() -> None:
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    told = sl.explain(spec(), schema)["combine"]
    assert "a push that spans 500: prefix difference" in told
    assert "only these are ever subtracted: sums and counts of rows, v" in told
    for name in STRATEGIES:
        forced = sl.explain(spec(), schema, combine=name)["combine"]
        assert f"{name}, as combine= says ({STRATEGIES[name].why})" in forced
    floats = sl.explain(spec(a=sl.sum("v")), pa.schema({"t": pa.int64(), "v": pa.float64()}))["combine"]
    assert "nothing is ever subtracted" in floats
    for every, when in ((20, "buckets"), (2, "where keys have rows in few of the slices: buckets")):
        keyed = sl.Spec("t", {"w": sl.sliding(60, every=every)}, {"n": sl.count()}, by=["v"])
        assert f"{when} (each partial put into all windows that hold it" in sl.explain(keyed, schema)["combine"]
