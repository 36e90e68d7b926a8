"""Ranks of texts in sorted pools: long columns are encoded by the tables of keys, short ones by Arrow."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.api import all_windows
from slicing.columns import pools, text_order
from slicing.query.plan import Plan
from slicing.query.policy import DEFAULT

AGGS = {
    "least": sl.min("s"),
    "most": sl.max("s"),
    "first": sl.first("s"),
    "last": sl.last("s"),
    "some": sl.count_distinct("s"),
    "about": sl.approx_count_distinct("s"),
    "top": sl.argmax("v", "s"),
}


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()], ids=str
)
@pytest.mark.parametrize("distinct", [1, 30, 5000])
def test_long_columns_are_answered_as_short_ones(
    type: pa.DataType, distinct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, rows = random.Random(f"{type} {distinct}"), 3 * pools.FEW_TEXTS
    words = [None, "", "ä", *(f"{chance.random():.{chance.randint(1, 40)}f}" for _ in range(distinct))]
    texts = pa.array([chance.choice(words) for _ in range(rows)]).cast(type)
    times = 1_700_000_000_000_000_000 + np.arange(rows)
    table = pa.table({"t": times, "k": times % 3, "s": texts, "v": [chance.random() for _ in range(rows)]}).slice(7)
    spec = sl.Spec("t", {"w": sl.tumbling(5 * rows // 6), "r": sl.rows(1000)}, AGGS, by="k")
    long = sl.aggregate(table, spec)
    op = sl.Operator(spec)
    pushed = [op.push(table.slice(at, 5000)).windows for at in range(0, rows, 5000)]
    monkeypatch.setattr(pools, "FEW_TEXTS", rows)
    assert long.equals(sl.aggregate(table, spec)) and long["first"].null_count < long.num_rows
    order = [(name, "ascending") for name in ("window", "k", "window_end")]
    assert pa.concat_tables([*pushed, op.flush().windows]).sort_by(order).equals(long.sort_by(order))


TOLD_APART = {
    "first": sl.first("s"),
    "last": sl.last("s"),
    "some": sl.count_distinct("s"),
    "often": sl.mode("s"),
    "all": sl.collect("s"),
    "few": sl.collect("s", at_most=2),
    "latest": sl.collect("s", at_most=2, keep="last"),
    "heavy": sl.heavy_hitters("s", 0.05),
    "most": sl.argmax("v", "s"),
    "best": sl.top_k("v", 3, return_="s"),
    "share": sl.count_distinct("s") / sl.count(),
}


def plain(table: pa.Table) -> list[dict]:
    """The windows in order, with texts in place of numbers and bytes."""

    def text(value: object) -> object:
        if isinstance(value, list):
            return [*map(text, value)]
        return value.decode() if isinstance(value, bytes) else f"{value:05}" if isinstance(value, int) else value

    rows = table.sort_by([(name, "ascending") for name in ("window", "k", "window_start")]).to_pylist()
    texts = ("first", "last", "often", "all", "few", "latest", "heavy", "most", "best")
    return [{n: text(v) if n in texts else v for n, v in row.items()} for row in rows]


@pytest.mark.parametrize(
    "type",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int16(), pa.string())],
    ids=str,
)
@pytest.mark.parametrize("windows", [{"w": sl.sliding(40, every=10)}, {"w": sl.session(3), "r": sl.rows(7)}], ids=str)
def test_texts_that_are_told_apart_are_answered_as_numbers(type: pa.DataType, windows: dict) -> None:
    """Numbers have no pool. A push fails after its texts are known, the operator is restored, and windows come."""
    chance = random.Random(f"{type} {windows}")
    start = 1_700_000_000_000_000_000
    lateness = 10 if "r" not in windows else 0
    spec = sl.Spec("t", windows, TOLD_APART, by="k", watermark=sl.bounded(5), allowed_lateness=lateness, emit="updates")
    operators, found = [sl.Operator(spec), sl.Operator(spec)], ([], [])
    for push in range(40):
        times = sorted(chance.randint(10 * push - 15, 10 * push + 9) + start for _ in range(120))
        numbers = [chance.choice([None, chance.randint(0, 9), chance.randint(0, 99_999)]) for _ in times]
        texts = [None if n is None else f"{n:05}" for n in numbers]
        texts = pa.array([t and t.encode() for t in texts] if pa.types.is_binary(type) else texts).cast(type)
        keys, worth = ([chance.randint(0, most) for _ in times] for most in (2, 50))
        for at, column in enumerate([texts, pa.array(numbers, pa.int64())]):
            rows = pa.table({"t": times, "k": keys, "s": column, "v": worth})
            if push % 7 == 3:
                far = pa.table({"t": [2**63 - 1], "k": [0], "s": column[5:6], "v": [0]})
                with pytest.raises(ValueError, match=r"^time column .t. holds"):
                    operators[at].push(pa.concat_tables([rows, far]))
            if push % 9 == 5:
                operators[at] = sl.Operator.restore(spec, operators[at].snapshot())
            found[at].append(operators[at].push(rows).windows)
    for at, operator in enumerate(operators):
        found[at].append(sl.Operator.restore(spec, operator.snapshot()).flush().windows)
    texts, numbers = map(pa.concat_tables, found)
    assert plain(texts) == plain(numbers)


@pytest.mark.parametrize("agg", [sl.first("s"), sl.mode("s")], ids=str)
def test_a_dictionary_with_a_null_gives_one_without(agg: sl.Aggregate) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array(["a", None, "b"]))
    table = pa.table({"t": range(4), "s": column})
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(1)}, {"x": agg}))
    for found in (sl.aggregate(table, op.spec), pa.concat_tables([op.push(table).windows, op.flush().windows])):
        assert found["x"].to_pylist() == ["a", None, "b", None]
        assert found.to_pandas()["x"].cat.categories.to_list() == ["a", "b"]


def test_a_push_that_fails_leaves_no_text() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"last": sl.last("s")})
    failed, never = sl.Operator(spec), sl.Operator(spec)
    for at in range(3):
        before = failed.snapshot()
        with pytest.raises(ValueError, match=r"^time column .t. holds"):
            failed.push(pa.table({"t": [at, 2**63 - 1], "s": [f"new {at}", "far"]}))
        assert failed.snapshot() == before
        for operator in (failed, never):
            operator.push(pa.table({"t": [at], "s": [f"text {at}"]}))
        assert failed.snapshot() == never.snapshot()
    assert failed.flush().windows["last"].to_pylist() == ["text 2"]


@pytest.mark.parametrize("values", [["b", "a", "b"], ["b", None, "a"], [None, None], []], ids=str)
def test_a_dictionary_has_the_values_of_its_column(values: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "FEW_TEXTS", 0)
    column = pa.array(values, pa.string())
    found = pools.encoded(column)
    assert found.to_pylist() == values
    assert len(set(found.dictionary.to_pylist())) == len(found.dictionary)


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("type", [pa.string(), pa.large_binary(), pa.decimal128(30, 2)], ids=str)
@pytest.mark.parametrize("few_texts", [0, 1000])
def test_ranks_order_as_values_do(type: pa.DataType, few: int, few_texts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools that are sorted anew, and pools among which new values are put."""
    monkeypatch.setattr(pools, "FEW_SORTED", few)
    monkeypatch.setattr(text_order, "FEW_TEXTS", few_texts)
    chance = random.Random(f"{type} {few}")
    for _ in range(100):
        size, most = chance.randint(0, 60), chance.choice([3, 40, 1000])
        known = sorted({f"{chance.randint(0, most):04}" for _ in range(size)})
        used = sorted(chance.sample(range(len(known)), chance.choice([len(known), chance.randint(0, len(known))])))
        columns = [
            [chance.choice([None, f"{chance.randint(0, most):04}"]) for _ in range(chance.randint(0, 20))]
            for _ in range(chance.randint(0, 3))
        ]
        found, pool, moved = pools.ranks(
            [pa.array(column, pa.string()).cast(type) for column in columns],
            pa.array(known, pa.string()).cast(type),
            np.array(used, np.int64),
        )
        kept = {known[at] for at in used} | {value for column in columns for value in column if value is not None}
        assert pool.equals(pa.array(sorted(kept), pa.string()).cast(type))
        assert [sorted(kept)[at] for at in moved[used]] == [known[at] for at in used]
        assert set(np.delete(moved, used).tolist()) <= {-1}
        for ranks, column in zip(found, columns, strict=True):
            assert [v and sorted(kept)[rank] for rank, v in zip(ranks.tolist(), column, strict=True) if v] == [
                v for v in column if v
            ]


BY_MARKS = sl.punctuated("mark", by=["k"])
UNREPORTED = [
    pytest.param({"trigger": sl.by_hand(), "emit": "updates"}, id="not fired"),
    pytest.param({"watermark": BY_MARKS}, id="marks of keys"),
]


@pytest.mark.parametrize("agg", [sl.max("s"), sl.last("s")], ids=str)
@pytest.mark.parametrize("arguments", UNREPORTED)
def test_texts_that_nothing_holds_are_forgotten(agg: sl.Aggregate, arguments: dict) -> None:
    """Also while rows are unreported, or while a key is ahead of the stream."""
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(100)}, {"s": agg}, by="k", **arguments))
    start, found = 1_700_000_000_000_000_000, []
    for push in range(100):
        times = start + np.arange(push * 100, push * 100 + 100)
        rows = pa.table({"t": times, "k": times % 5, "s": [f"{push} {row}" for row in range(100)], "mark": times})
        found.append(op.push(rows).windows)
        if "watermark" in arguments:
            op.advance(start + push * 100 - 50)
    assert max(len(pool) for pool in op._state.pools.values()) < 2 * pools.FEW_VALUES
    found.append(op.flush().windows)
    texts = [text for windows in found for text in windows["s"].to_pylist()]
    assert sorted(texts) == sorted(f"{push} {row}" for push in range(100) for row in range(95, 100))


def test_texts_of_windows_that_wait_for_their_push_are_kept() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"least": sl.min("s"), "last": sl.last("s")})
    few, every, found, expected = sl.Operator(spec, max_windows_per_push=3), sl.Operator(spec), [], []
    for push in range(60):
        times = 1_700_000_000_000_000_000 + np.arange(push * 100, push * 100 + 100)
        rows = pa.table({"t": times, "s": [f"{99 - push:02} {row:02}" for row in range(100)]})
        found.append(few.push(rows).windows)
        expected.append(every.push(rows).windows)
        few = sl.Operator.restore(spec, few.snapshot(), max_windows_per_push=3)
    tables = [pa.concat_tables([*some, op.flush().windows]) for some, op in ((found, few), (expected, every))]
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("of", ["words", "wide", "few", "one"])
@pytest.mark.parametrize("scale", [2, -2])
def test_many_decimals_are_in_the_order_of_their_numbers(of: str, scale: int) -> None:
    chance = random.Random(f"{of} {scale}")
    most = {"words": 2**62, "wide": 10**37, "few": 9, "one": 0}[of]
    edges = [-most, most, -1, 0, 2**63 - 1, -(2**63), *([2**64 + 5, 2**64 + 2**63 + 5] if of == "wide" else [])]
    numbers = [chance.choice(edges if most > 9 else edges[:4]) for _ in range(2000)]
    numbers = [
        None if chance.random() < 0.1 else n for n in [*numbers, *(chance.randint(-most, most) for _ in numbers)]
    ]
    halves = np.array(
        [[(n or 0) & (2**64 - 1), (n or 0) >> 64 & (2**64 - 1)] for n in [5, *numbers, *numbers]], np.uint64
    )
    valid = np.packbits([n is not None for n in [5, *numbers, *numbers]], bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(halves)]
    column = pa.Array.from_buffers(pa.decimal128(38, scale), len(halves), buffers).slice(1)
    assert len(column) > pools.FEW_TEXTS
    coded = pools.encoded(column)
    order, new = text_order.in_order(column.drop_null())
    known = [n for n in [*numbers, *numbers] if n is not None]
    assert [known[at] for at in order] == sorted(known)
    ranked = sorted({*known})
    assert new.sum() == len(coded.dictionary) == len(ranked)
    assert coded.null_count == len(halves) - 1 - len(known)
    places = [at for at in coded.indices.to_pylist() if at is not None]
    assert [ranked[at] for at in places] == known


PICKED = {
    "first": sl.first("s"),
    "last": sl.last("s"),
    "all": sl.collect("s", 4, "last"),
    "most": sl.argmax("v", "s"),
    "both": sl.argmin("v", ["s", "v"]),
    "best": sl.top_k("v", 3, return_="s"),
    "worst": sl.bottom_k("v", 3, ["s", "t"]),
    "some": sl.sample("s", 2),
    "n": sl.count("s"),
    "paid": sl.last("d"),
    "paids": sl.collect("d", 3),
}


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_binary(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
@pytest.mark.parametrize("more", [{}, {"distinct": sl.count_distinct("s")}], ids=["picked", "told apart"])
def test_texts_that_are_picked_have_a_place_for_each_row(type: pa.DataType, by: list[str], more: dict) -> None:
    """Pushes of few rows drop the texts that no cell has; other aggregates and longer tables keep equal ones once."""
    rng, rows = np.random.default_rng(2), 20_000
    t, texts = 1_790_000_000_000_000_000 + np.sort(rng.integers(0, 9000, rows)), rng.integers(0, 99, rows)
    data = pa.table({"t": t, "k": rng.integers(0, 5, rows), "v": rng.integers(0, 2**62, rows)})
    paid = pa.array([None if n % 7 == 0 else Decimal(n) for n in texts.tolist()], pa.decimal128(38, 2))
    column = pa.array([None if n % 9 == 0 else f"text {n}" for n in texts.tolist()])
    column = column.cast(pa.binary()).cast(type) if pa.types.is_large_binary(type) else column.cast(type)
    data = data.append_column("d", paid).append_column("s", column)
    windows = {"w": sl.tumbling(1000), "o": sl.sliding(700, every=300), "v": sl.session(3), "r": sl.rows(50)}
    spec, few = sl.Spec("t", windows, PICKED | more, by=by), replace(DEFAULT, push_rows=1500)
    whole = sl.aggregate(data, spec)
    assert whole.equals(all_windows(data, spec, 1, policy=few))
    assert whole.equals(all_windows(data, spec, 1, policy=replace(few, listed_rows=1)))
    assert whole.equals(all_windows(data, spec, 2, policy=replace(few, listed_bytes=1)))
    assert not Plan.of(spec, data.schema).listed  # a stream keeps equal texts once
    plan = Plan.of(spec, data.schema, policy=replace(DEFAULT, listed=True))
    assert plan.listed == ({"d"} if more or pa.types.is_dictionary(type) else {"d", "s"})
