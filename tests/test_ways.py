"""The ways to answer windows that close (``slicing.answers.ways``): all give the same, the cheapest is taken."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.answers import ways


def pushed(rows_a_push: int, monkeypatch: pytest.MonkeyPatch, forced: str | None = None) -> tuple[pa.Table, set[str]]:
    """The windows of a keyed stream, and the ways that gave them."""
    rng = np.random.default_rng(5)
    rows = pa.table({"t": np.arange(12_000), "k": rng.integers(0, 9, 12_000), "v": rng.integers(0, 99, 12_000)})
    windows = {"s": sl.sliding(600, every=100), "t": sl.tumbling(300)}
    aggs = {"n": sl.count(), "low": sl.min("v"), "total": sl.sum("v")}
    took: set[str] = set()
    pays = ways.pays

    def chosen(name: str, cost: int, live: int) -> bool:
        taken = name == forced if forced else pays(name, cost, live)
        took.update([name] if taken else [])
        return taken

    monkeypatch.setattr(ways, "pays", chosen)
    op = sl.Operator(sl.Spec("t", windows, aggs, by=["k"], watermark=sl.ordered()))
    outs = [op.push(rows.slice(at, rows_a_push)).windows for at in range(0, rows.num_rows, rows_a_push)]
    return pa.concat_tables([*outs, op.flush().windows]), took


@pytest.mark.parametrize("way", ["as they lie", "stacks", "one table"])
@pytest.mark.parametrize("rows_a_push", [70, 1000, 5000])
def test_every_way_gives_the_same(way: str, rows_a_push: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        expected, _ = pushed(12_000, patch, "one table")
    found, took = pushed(rows_a_push, monkeypatch, way)
    assert found.equals(expected)
    assert took == ({way} if way != "one table" else set())


def test_few_windows_are_added_up_and_many_go_by_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        assert pushed(100, patch)[1] == {"as they lie"}
    assert "stacks" in pushed(4000, monkeypatch)[1]
