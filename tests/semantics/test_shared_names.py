"""Windows that are the same under several names: worked out once, shown by each name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from harness import check, check_postponed, share
from hypothesis import given
from strategies import CONTEXT_FREE, Case, Kit, cases

import slicing as sl
from slicing.columns.arrow_out import MANY_NAMES, Texts, texts
from slicing.query.plan import Plan
from slicing.query.policy import Policy

FREE = Kit(kinds=(*CONTEXT_FREE, "session"), rich_values=False)


def doubled(case: Case) -> Case:
    """Each window under three names, that do not lie side by side in the order of results."""
    windows = case.query["windows"]
    return case.asking(windows={f"{n}{name}": w for n in (2, 0, 1) for name, w in windows.items()})


@share(20)
@given(cases(FREE))
def test_every_name_shows_what_the_rows_say(case: Case) -> None:
    check(doubled(case))


@share(10)
@given(cases(Kit(kinds=CONTEXT_FREE, emits=("final",), idle=False, rich_values=False)))
def test_a_flush_is_spread_over_all_names(case: Case) -> None:
    check_postponed(doubled(case), 5)


@pytest.mark.parametrize("by", [[], ["k"]])
@pytest.mark.parametrize("combine", ["auto", "eager store", "two stacks"])
def test_a_name_more_is_a_row_more(by: list[str], combine: str) -> None:
    rng = np.random.default_rng(3)
    rows = pa.table({"t": np.arange(4000), "k": rng.integers(0, 7, 4000), "v": rng.random(4000)})
    one = {"s": sl.sliding(700, every=5), "t": sl.tumbling(31), "c": sl.cumulate(90, 10)}
    aggs = {"n": sl.count(), "low": sl.min("v"), "mean": sl.mean("v")}

    def answers(windows: dict) -> pa.Table:
        op = sl.Operator(sl.Spec("t", windows, aggs, by=by, watermark=sl.ordered()), combine=combine)
        outs = [op.push(rows.slice(at, 100)).windows for at in range(0, 4000, 100)]
        return pa.concat_tables([*outs, op.flush().windows])

    found = answers({f"{name}{n}": w for n in range(4) for name, w in one.items()})
    alone = answers(one)
    assert found.num_rows == 4 * alone.num_rows > 4000
    order = found.select(["window_end", "window", "window_start", *by]).to_pylist()
    assert order == sorted(order, key=lambda row: tuple(row.values()))
    for n in range(4):
        mine = found.filter(pa.compute.ends_with(found["window"], str(n)))
        assert mine.drop_columns("window").equals(alone.drop_columns("window"))


def test_windows_that_are_the_same_have_one_type() -> None:
    windows = {"a": sl.tumbling("60s"), "b": sl.sliding("1h", every="1m"), "c": sl.tumbling("1m"), "d": sl.tumbling(60)}
    schema = pa.schema({"t": pa.timestamp("s"), "v": pa.int64()})
    same = {name: windows[name] for name in "ac"} | {"e": sl.tumbling("1m")}
    assert len(Plan(sl.Spec("t", same, {"n": sl.count()}), schema).edges.bounds) == 1
    few = {name: windows[name] for name in "abc"}  # not worth repeating rows for
    assert len(Plan(sl.Spec("t", few, {"n": sl.count()}), schema).edges.bounds) == 3


def test_what_does_not_fit_is_named_by_window() -> None:
    spec = sl.Spec("t", {"a": sl.tumbling(5), "b": sl.tumbling(5)}, {"s": sl.sum("v")}, watermark=sl.manual())
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1, 7, 8], "v": [1, 2**62, 2**62]}))
    with pytest.raises(OverflowError, match="in window 'a' from 5 to 10"):
        op.flush()


@pytest.mark.parametrize("most", [0, 30, 1 << 16])
@pytest.mark.parametrize("names", [1, 3])
def test_names_of_windows_that_end_together_are_those_of_their_types(names: int, most: int) -> None:
    """Rows of the same types are kept; a spec changed meanwhile has others."""
    sizes = {f"{chr(97 + (7 * n + size) % 26)}{size}.{n}": size for size in range(1, 13) for n in range(names)}
    windows = {name: sl.tumbling(size) for name, size in sizes.items()}
    op = sl.Operator(
        sl.Spec("t", windows, {"n": sl.count(), "s": sl.sum("t")}, watermark=sl.ordered()),
        policy=Policy(known_names=most),
    )
    for t in range(60):
        if t == 30:
            op.remove_window(next(iter(sizes)))
            sizes.pop(next(iter(sizes)))
        found = op.push(pa.table({"t": [t]})).windows.to_pylist()
        due = sorted((name, size) for name, size in sizes.items() if t and t % size == 0)
        assert [tuple(row.values()) for row in found] == [
            (name, t - size, t, size, sum(range(t - size, t))) for name, size in due
        ]


class Nested(sl.ContextFreeWindow):
    """Every 20 and the second half of it, which end together."""

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        return times // 10 * 10 + 10

    def containing(self, time: int) -> list[tuple[int, int]]:
        end = time // 20 * 20 + 20
        return [(end - 20, end), (end - 10, end)][: 1 + (time >= end - 10)]


def test_windows_of_one_type_that_end_together_are_all_shown() -> None:
    nested = Nested()
    spec = sl.Spec("t", dict.fromkeys("abc", nested), {"n": sl.count()}, watermark=sl.ordered())
    op = sl.Operator(spec)
    outs = [op.push(pa.table({"t": [t, t + 5]})).windows for t in range(0, 50, 10)]
    expected = [(name, end - size, end, size // 5) for end in (20, 40) for name in "abc" for size in (20, 10)]
    assert [tuple(row.values()) for row in pa.concat_tables(outs).to_pylist()] == expected


@pytest.mark.parametrize("names", [["", "a", "b" * 7], ["c" * 8, "d" * 9, "ä" * 20], ["ein", "zwei"]])
def test_names_of_many_rows_are_those_of_few(names: list[str]) -> None:
    numbers = np.random.default_rng(5).integers(0, len(names), 999)
    found = Texts(names).take(numbers)
    found.validate(full=True)
    assert found.equals(texts(names).take(pa.array(numbers)))


def test_many_rows_have_their_names() -> None:
    windows = {name: sl.tumbling(2 + n) for n, name in enumerate(["a", "of eight", "one of eighteen", "é"])}
    spec = sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.ordered())
    found = sl.aggregate(pa.table({"t": np.arange(5 * MANY_NAMES)}), spec)
    size = pa.compute.subtract(found["window_end"], found["window_start"]).to_pylist()
    assert found.num_rows > MANY_NAMES
    assert found["window"].to_pylist() == [list(windows)[n - 2] for n in size]


class Inside(sl.ContextFreeWindow):
    """One from 0 to 6 and one inside of it, from 4 to 5."""

    def next_edge(self, times: np.ndarray) -> np.ndarray:
        edges = np.array([0, 4, 5, 6, 2**62])
        return edges[np.searchsorted(edges, times, "right")]

    def containing(self, time: int) -> list[tuple[int, int]]:
        return [extent for extent in ((0, 6), (4, 5)) if extent[0] <= time < extent[1]]


@pytest.mark.parametrize("agg", [sl.sum("t"), sl.collect("t")], ids=["words", "lists"])
def test_a_window_that_ends_after_one_inside_of_it_is_given_to_keys_without_rows_there(agg: sl.Aggregate) -> None:
    windows = {"one": sl.tumbling(1), "inside": Inside()}
    op = sl.Operator(sl.Spec("t", windows, {"a": agg}, by=["k"], watermark=sl.ordered()))
    found = op.push(pa.table({"t": [3, 4, 5, 6, 100], "k": [1, 0, 0, 1, 1]})).windows.to_pylist()
    extents = [(row["window_start"], row["window_end"], row["k"]) for row in found if row["window"] == "inside"]
    assert extents == [(4, 5, 0), (0, 6, 0), (0, 6, 1)]
