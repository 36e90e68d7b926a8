"""Many results by key, which are put in order when they are read: the same as of one table, whatever gives them."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.api import all_windows
from slicing.closing import gathered
from slicing.columns.keys import FEW_CELLS, SPARSE, KeyTable
from slicing.query.policy import Policy

BEGUN = 1_700_000_000_000_000_000
ROWS, KEYS = 24_000, 40
AGGS = {"n": sl.count(), "s": sl.sum("v"), "hi": sl.max("v"), "m": sl.mean("w"), "lo": sl.min("w")}
AGGS |= {"product": sl.product("w")}  # more than a word of a partial


def stream(keys: int, every: int) -> pa.Table:
    """Keys in no order, some slices without some of them, nulls, NaN; a negative key and a null one."""
    rng = np.random.default_rng(every)
    key = rng.permutation(keys)[rng.integers(0, keys, ROWS)] * 1_000_000_007 - 5
    w = rng.normal(size=ROWS)
    w[rng.random(ROWS) < 0.1] = np.nan
    missing = rng.random(ROWS) < 0.3
    columns = {"k": pa.array(key, mask=key == key.max()), "v": pa.array(rng.integers(-9, 9, ROWS), mask=missing)}
    return pa.table({"t": BEGUN + np.arange(ROWS) * every, **columns, "w": w})


def expected(data: pa.Table, size: int) -> dict[tuple[int, int | None], tuple[int, int | None, int | None]]:
    """By window and key: rows, sum and greatest."""
    held: dict[tuple[int, int | None], list] = {}
    for t, k, v, _ in zip(*(data[name].to_pylist() for name in data.column_names), strict=True):
        held.setdefault((t - t % size, k), []).append(v)
    found = {}
    for window, values in held.items():
        some = [v for v in values if v is not None]
        found[window] = len(values), sum(some) if some else None, max(some, default=None)
    return found


def pushed(data: pa.Table, windows: dict, policy: Policy, rows: int) -> pa.Table:
    op = sl.Operator(sl.Spec("t", windows, AGGS, by="k", watermark=sl.ordered()), policy=policy)
    found = [op.push(data.slice(at, rows)).windows for at in range(0, data.num_rows, rows)]
    return pa.concat_tables([*found, op.flush().windows])


def same(one: pa.Table, other: pa.Table) -> bool:
    """NaN is NaN."""
    return str(one.to_pydict()) == str(other.to_pydict())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells were read at a time."""
    sizes: list[int] = []
    plain = gathered.gathered
    monkeypatch.setattr(gathered, "gathered", lambda block, some: sizes.append(some.size) or plain(block, some))
    return sizes


@pytest.mark.parametrize("rows", [ROWS, 7000])
@pytest.mark.parametrize("size", [60, 2000])
def test_windows_that_are_cells(rows: int, size: int, read: list[int]) -> None:
    data = stream(KEYS, 1)
    found = pushed(data, {"w": sl.tumbling(size)}, Policy(piece=300), rows)
    assert bool(read) == (size == 60 or rows == ROWS) and max(read, default=0) <= 300
    assert same(found, pushed(data, {"w": sl.tumbling(size)}, Policy(way="one table"), rows))
    keys = zip(found["window_start"].to_pylist(), found["k"].to_pylist(), strict=True)
    answers = zip(*(found[name].to_pylist() for name in ("n", "s", "hi")), strict=True)
    assert dict(zip(keys, answers, strict=True)) == expected(data, size)


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
@pytest.mark.parametrize("every", [1, 50])
def test_windows_of_cells_as_they_lie(names: tuple[str, ...], every: int, read: list[int]) -> None:
    """Two runs share a slice, so each window is added up; several names share what they show."""
    data, windows = stream(KEYS, every), {name: sl.tumbling(60 * every) for name in names}
    found = pushed(data, windows, Policy(piece=200, way="as they lie"), 5000)
    assert read
    assert same(found, pushed(data, windows, Policy(way="one table"), 5000))


NUMBERS = {
    "all": {
        "n": sl.count(),
        "some": sl.count("v"),
        "s": sl.sum("w"),
        "m": sl.mean("w"),
        "lo": sl.min("w"),
        "hi": sl.max("w"),
        "si": sl.sum("i"),
        "mi": sl.mean("i"),
        "least": sl.min("i"),
        "most": sl.max("t"),
    },
    "sums": {"s": sl.sum("w"), "m": sl.mean("w"), "mi": sl.mean("i"), "si": sl.sum("i")},
    "of some": {"s": sl.sum("w"), "few": sl.mean("i").where("flag")},
    "deviations": {"std": sl.std("w"), "var": sl.var("i", ddof=2), "all": sl.var("i", ddof=0), "n": sl.count("i")},
}


@pytest.mark.parametrize("aggs", NUMBERS)
@pytest.mark.parametrize("missing", [False, True])
def test_answers_that_are_numbers_are_written_once(aggs: str, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are read out of partials; those of a window without a value are null."""
    rng, data = np.random.default_rng(3), stream(KEYS, 1)
    i = pa.array(rng.integers(-(2**31), 2**31, ROWS).astype(np.int32), mask=(rng.random(ROWS) < 0.5) & missing)
    data = data.append_column("i", i).append_column("flag", pa.array(rng.random(ROWS) < 0.1))
    told: list[bool] = []
    numbers = gathered.Gathered.numbers

    def known(self: gathered.Gathered, asked: Sequence) -> list | None:
        found = numbers(self, asked)
        told.append(found is not None)
        return found

    monkeypatch.setattr(gathered.Gathered, "numbers", known)

    def answers(policy: Policy) -> pa.Table:
        return all_windows(data, sl.Spec("t", {"w": sl.tumbling(60)}, NUMBERS[aggs], by="k"), 1, policy=policy)

    found = answers(Policy(piece=300))
    assert told == [True]
    assert same(found, answers(Policy(way="one table")))
    assert found.schema.equals(answers(Policy()).schema)


def test_more_keys_than_cells() -> None:
    """A window of few of the keys is put in order by itself."""
    data = stream(9000, 1)
    for size, rows in ((100, 8000), (ROWS, ROWS)):
        windows = {"w": sl.tumbling(size)}
        found = [pushed(data, windows, policy, rows) for policy in (Policy(piece=50), Policy(way="one table"))]
        assert same(*found)


@pytest.mark.parametrize("sparse", [0, 12])  # groups of few of the keys
@pytest.mark.parametrize("times", [1, 40])  # few cells, and many
def test_groups_in_the_order_of_keys(times: int, sparse: int) -> None:
    rng = np.random.default_rng(2)
    words = rng.permutation(50) * 3 - 70
    table = KeyTable([pa.int64()])
    table.encode([pa.array(words)])
    codes = [np.sort(rng.choice(50, size, replace=False)) for size in (50, 1, 0, 17, 49, *[2] * sparse) * times]
    assert (sum(map(len, codes)) >= FEW_CELLS) == (times > 1)
    assert (SPARSE * sum(map(len, codes)) < len(codes) * 50) == bool(sparse)
    each, side_by_side = np.array([some.size for some in codes]), np.concatenate(codes)
    order = table.order_of_groups(side_by_side, each)
    bounds = np.cumsum([0, *each])
    for first, last in pairwise(bounds.tolist()):
        assert sorted(order[first:last]) == list(range(first, last))
        assert (np.diff(words[side_by_side[order[first:last]]]) > 0).all()


@pytest.mark.parametrize("least", [-(2**63), -(2**62), 2**61, 2**40])
def test_sums_that_do_not_fit_a_word_are_told(least: int) -> None:
    """They are answers of many cells that are read straight into result columns."""
    values = np.full(ROWS, least)
    values[5::7] = 2**63 - 1
    data = stream(KEYS, 1).set_column(2, "v", pa.array(values))
    held: dict[tuple[int, int | None], list[int]] = {}
    for t, k, v in zip(*(data[name].to_pylist() for name in ("t", "k", "v")), strict=True):
        held.setdefault((t - t % 60, k), []).append(v)
    for agg in (sl.sum("v"), sl.mean("v")):
        spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"x": agg}, by="k", watermark=sl.ordered(), on_overflow="null")
        op = sl.Operator(spec, policy=Policy(piece=300))
        found = pa.concat_tables([op.push(data).windows, op.flush().windows])
        assert len(found) == len(held) > 10_000
        for start, key, x in zip(*(found[name].to_pylist() for name in ("window_start", "k", "x")), strict=True):
            total = sum(held[start, key])
            if agg.function == "sum":
                assert x == (total if -(2**63) <= total < 2**63 else None)
            else:
                assert x == pytest.approx(total / len(held[start, key]), rel=1e-15)
