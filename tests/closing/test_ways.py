"""The ways to answer windows that close (``slicing.closing.ways``): all give the same, the cheapest is taken."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.policy import Policy


class Watched(Policy):
    """Tells which ways were taken."""

    took: ClassVar[set[str]]

    def pays(self, way: str, cost: int, live: int) -> bool:
        taken = way == self.way if self.way else super().pays(way, cost, live)
        self.took.update([way] if taken else [])
        return taken


def watched(way: str | None = None, **told: object) -> tuple[Policy, set[str]]:
    took: set[str] = set()
    return type("Watched", (Watched,), {"took": took})(way=way, **told), took


def pushed(rows_a_push: int, forced: str | None = None) -> tuple[pa.Table, set[str]]:
    """The windows of a keyed stream, and the ways that gave them."""
    rng = np.random.default_rng(5)
    rows = pa.table({"t": np.arange(12_000), "k": rng.integers(0, 9, 12_000), "v": rng.integers(0, 99, 12_000)})
    windows = {"s": sl.sliding(600, every=100), "t": sl.tumbling(300)}
    aggs = {"n": sl.count(), "low": sl.min("v"), "total": sl.sum("v")}
    policy, took = watched(forced)
    op = sl.Operator(sl.Spec("t", windows, aggs, by=["k"], watermark=sl.ordered()), policy=policy)
    outs = [op.push(rows.slice(at, rows_a_push)).windows for at in range(0, rows.num_rows, rows_a_push)]
    return pa.concat_tables([*outs, op.flush().windows]), took


@pytest.mark.parametrize("way", ["as they lie", "stacks", "buckets", "one table"])
@pytest.mark.parametrize("rows_a_push", [70, 1000, 5000])
def test_every_way_gives_the_same(way: str, rows_a_push: int) -> None:
    expected, _ = pushed(12_000, "one table")
    found, took = pushed(rows_a_push, way)
    assert found.equals(expected)
    assert took == ({way} if way != "one table" else set())


def test_few_windows_are_added_up_and_many_are_not() -> None:
    assert pushed(100)[1] == {"as they lie", "buckets"}  # 1 or 2 windows a push; 7 at the flush
    assert pushed(5000)[1] == {"buckets"}  # 67 windows of 9 keys make no 67 rounds


def test_windows_that_overlap_much_go_by_stacks() -> None:
    rows = pa.table({"t": np.arange(100_000) // 50, "k": np.arange(100_000) * 7919 % 1000})
    spec = sl.Spec("t", {"s": sl.sliding(600, every=50)}, {"n": sl.count()}, by=["k"], watermark=sl.ordered())
    policy, took = watched()
    op = sl.Operator(spec, policy=policy)
    found = [op.push(rows.slice(at, 50_000)).windows for at in (0, 50_000)]
    assert took == {"stacks"}
    assert sum(pa.compute.sum(windows["n"]).as_py() for windows in found) == sum(
        50 * min(600, end) for end in range(50, 2000, 50)
    )


def test_sparse_keys_are_spread_into_any_windows() -> None:
    """A few rows a slice, thousands of windows a push: 0.07 -> 6 M rows/s at 100,000 keys."""
    rows = pa.table({"t": np.arange(3000) * 20, "k": np.arange(3000) * 7919 % 1000})
    windows = {"s": sl.sliding(60, every=40), "c": sl.cumulate(90, 30), "t": sl.tumbling(45)}
    spec = sl.Spec("t", windows, {"n": sl.count(), "last": sl.last("t")}, by=["k"], watermark=sl.ordered())
    policy, took = watched()
    found = sl.Operator(spec, policy=policy).push(rows).windows
    assert took == {"buckets"}
    assert found.equals(sl.Operator(spec, policy=Policy(way="one table")).push(rows).windows)


@pytest.mark.parametrize("most", [1000, 999])
def test_a_flush_goes_the_quick_way_spread_or_not(most: int) -> None:
    """1000 keys, 10 s / 1 s, a push a second, at most 1000 windows each: 1.1 -> 0.7 ms."""
    spec = sl.Spec("t", {"a": sl.tumbling(100)}, {"n": sl.count()}, by=["k"], watermark=sl.ordered())
    rows = pa.table({"t": np.arange(3000) // 10, "k": np.arange(3000) % 1000})
    policy, took = watched(max_windows_per_push=most, table_passes=10**6)
    op = sl.Operator(spec, policy=policy)
    found = [op.push(rows.slice(at, 1010)).windows.num_rows for at in (0, 1010)]
    assert took == {"as they lie"}
    assert found[0] == min(most, 1000)
