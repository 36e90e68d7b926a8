"""Map side and reduce side driven by hand: any spread of rows over readers and places gives the oracle's answer.

Batches are judged by the watermark of the batch before and close with that of the rows before them, as on Spark.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from harness import batch, compare_late, compare_types, compare_windows, plain_rows, plain_time, share, spec
from hypothesis import given
from hypothesis import strategies as st
from oracle import Oracle, Refused
from places import Places, changed
from strategies import CONTEXT_FREE, OF_ROWS, Case, Kit, cases

import slicing as sl
from slicing import exchange as partials
from slicing.columns.keys import KeyTable
from slicing.exchange import Collector, admit, operator_of, packed, start, state_of

SEEDS = st.integers(0, 2**32).map(random.Random)


def check_places(case: Case, count: int, chance: random.Random, change_at: int = -1) -> None:
    """Prompt, as a push in one process; or by the watermark of the batches before."""
    prompt = chance.random() < 0.5
    of_pushes = {"watermark": case.query["watermark"] if prompt else {"kind": "manual"}}
    oracle = Oracle(case.columns, {**case.query, **of_pushes, "arrival": False})
    clock = Oracle(case.columns, case.query)  # its progress alone is asked
    names = list(case.query["aggs"])
    aggs = {n: case.query["aggs"][n] for n in chance.sample(names, chance.randint(1, len(names)))}
    aggs = {n: agg for n, agg in case.query["aggs"].items() if n in aggs or change_at < 0}
    since: dict[str, int] = {}
    begin: dict[int, int] = {}  # of each change, in ticks: the first time after it
    newest: list[int] = []
    places = Places(spec(case.asking(aggs=aggs)), batch(case, []).schema, count, chance, prompt)
    for at, step in enumerate([*case.steps, ("flush",)]):
        if at == change_at or (0 <= change_at < at and chance.random() < 0.3):
            kept = {n: agg for n, agg in case.query["aggs"].items() if n not in aggs or chance.random() < 0.7}
            aggs = kept or aggs  # one at least
            places.change(spec(case.asking(aggs=aggs)))
            fresh = [state_of(operator).plan.agg_since for operator in places.operators]
            assert all(ticks == fresh[0] for ticks in fresh)
            begin |= dict.fromkeys({*fresh[0].values()} - begin.keys(), max(newest, default=0) + 1)
            since = {name: begin[tick] for name, tick in fresh[0].items()}
        where = f"{step[0]} (step {at})"
        if chance.random() < (0.5 if step[0] == "restart" else 0.1) and places.may_rescale:
            places.rescale(chance.randint(1, 4))
        if step[0] == "restart":
            places.operators = [sl.Operator.restore(places.spec, op.snapshot()) for op in places.operators]
        if step[0] not in ("push", "flush"):
            continue
        rows = case.named(step[1]) if step[0] == "push" else []
        try:
            reached = -math.inf if prompt else clock._progress()
            expected = oracle._step(rows, reached) if step[0] == "push" else oracle.flush()
        except Refused:
            if change_at >= 0:  # what did not fit may not be asked for
                return
            with pytest.raises((ValueError, OverflowError)):
                _ = places.push(batch(case, step[1])) if step[0] == "push" else [op.flush() for op in places.operators]
            return
        outs = places.push(batch(case, step[1])) if step[0] == "push" else [op.flush() for op in places.operators]
        clock._observe(rows)
        newest += [row[case.query["time"]] for row in rows if row[case.query["time"]] is not None]
        compare_types(case.asking(aggs=aggs), outs[0].windows, where)
        found = [row for out in outs for row in plain_rows(out.windows)]
        wanted = [{n: v for n, v in row.items() if n in aggs or n not in names} for row in expected.windows]
        for row in wanted:
            row |= dict.fromkeys(n for n, t in since.items() if row["window_start"] is None or row["window_start"] < t)
        compare_windows(case, wanted, sorted(found, key=oracle.place), where)
        if step[0] == "push":
            compare_late(case, expected.late, pa.concat_tables([out.late for out in outs]), where)
            stats = {name: sum(out.stats[name] for out in outs) for name in expected.stats}
            assert stats == expected.stats, f"{where}: {stats}, expected {expected.stats}\n{case!r}"
            reached = {plain_time(out.watermark, case.columns["t"]) for out in outs}
            assert reached == {expected.watermark}, f"{where}: {reached}, expected {expected.watermark}\n{case!r}"


def orderless(case: Case) -> Case:
    if case.query["watermark"].get("on_disorder") == "error":
        return case.asking(watermark={"kind": "ordered", "on_disorder": "late"})
    return case


@share(30)
@given(cases(Kit(kinds=(*CONTEXT_FREE, "session", "whole"), nested=False)), st.integers(1, 4), SEEDS)
def test_any_spread_of_rows_gives_what_the_rows_say(case: Case, count: int, chance: random.Random) -> None:
    check_places(orderless(case), count, chance)


@share(15)
@given(cases(Kit(kinds=("session", "tumbling"), rich_values=False, nested=False)), st.integers(1, 4), SEEDS)
def test_sessions_with_late_rows_in_any_spread(case: Case, count: int, chance: random.Random) -> None:
    check_places(orderless(case), count, chance)


FULL = Kit(("tumbling", "sliding"), emits=("final",), full=True, rich_values=False, nested=False, idle=False)


@share(8)
@given(cases(FULL), st.integers(1, 4), SEEDS)
def test_windows_that_no_place_alone_covers(case: Case, count: int, chance: random.Random) -> None:
    check_places(orderless(case), count, chance)


@share(20)
@given(cases(Kit(kinds=(*OF_ROWS, "tumbling", "session"), nested=False)), st.integers(1, 4), SEEDS)
def test_rows_that_are_kept_go_where_their_key_is(case: Case, count: int, chance: random.Random) -> None:
    windows = {name: {**w, **({"order": "time"} if "order" in w else {})} for name, w in case.query["windows"].items()}
    if any(not w.get("per_key", True) for w in windows.values()):
        count = 1
    check_places(orderless(case.asking(windows=windows, sequence="row")), count, chance)


@share(20)
@given(
    cases(Kit(kinds=(*CONTEXT_FREE, "session", "whole", *OF_ROWS), nested=False)),
    st.integers(1, 4),
    SEEDS,
    st.integers(0, 9),
)
def test_aggregates_come_and_go(case: Case, count: int, chance: random.Random, change_at: int) -> None:
    windows = {name: {**w, **({"order": "time"} if "order" in w else {})} for name, w in case.query["windows"].items()}
    if any(not w.get("per_key", True) for w in windows.values()):
        count = 1
    check_places(orderless(case.asking(windows=windows, sequence="row")), count, chance, change_at)


def test_kept_rows_hold_their_values_for_an_aggregate_that_reads_them_by_rank() -> None:
    """``count`` needs only to know whether there is a text; ``min``, added later, which one it is."""

    def asked(**aggs: sl.Aggregate) -> sl.Spec:
        return sl.Spec("t", {"r": sl.per_row(5)}, {"n": sl.count("v"), **aggs}, watermark=sl.bounded(2))

    before, after = asked(), asked(least=sl.min("v"))
    rows = pa.table({"t": [1, 2, 6], "v": ["b", None, "a"]})
    operator = start(before, rows.schema)
    admit(operator, collected(before, rows), prompt=False)
    (state,) = changed([state_of(operator)], after)
    found = operator_of(state).flush().windows.to_pylist()
    assert [(row["window_end"], row["n"]) for row in found] == [(1, 1), (2, 1), (6, 1)]
    later = admit(operator_of(state), collected(after, pa.table({"t": [9], "v": ["c"]})), prompt=False)
    assert later.stats["windowed"] == 1


@pytest.mark.parametrize("type", [pa.int64(), pa.float64(), pa.decimal128(30, 2)])
def test_a_sum_goes_on_where_a_least_value_is_asked_for_too(type: pa.DataType) -> None:
    """Nobody reads the least value of a sum's partials: they have none until ``min`` is added, and none afterwards."""

    def asked(**aggs: sl.Aggregate) -> sl.Spec:
        return sl.Spec("t", {"w": sl.tumbling(10)}, {"sum": sl.sum("v"), **aggs}, by=["k"], watermark=sl.bounded(50))

    def rows(first: int) -> pa.Table:
        times = range(first, first + 20)
        return pa.table({"t": times, "k": [t % 2 for t in times], "v": pa.array(times, pa.int64()).cast(type)})

    plain, more = asked(), asked(mean=sl.mean("v"), least=sl.min("v"))
    operator = start(plain, rows(0).schema)
    wanted = sl.aggregate(pa.concat_tables(map(rows, (0, 20, 40))), more).to_pylist()
    for first, query in ((0, plain), (20, more), (40, plain)):
        operator = operator_of(changed([state_of(operator)], query)[0]) if first else operator
        admit(operator, collected(query, rows(first)), prompt=True)
        if first == 20:
            (copy,) = changed([state_of(operator)], more)
            found = operator_of(copy).flush().windows.to_pylist()
            assert [(w["sum"], w["mean"]) for w in found] == [(w["sum"], w["mean"]) for w in wanted[: len(found)]]
            known = [w["least"] for w in found]
            assert known[:4] == [None] * 4 and known[4:] == [w["least"] for w in wanted[4 : len(found)]]
    assert operator.flush().windows["sum"].to_pylist() == [w["sum"] for w in wanted]


@pytest.mark.parametrize("type", [pa.int64(), pa.float64(), pa.string(), pa.decimal128(22, 2), pa.bool_()])
def test_a_key_has_the_same_hash_in_every_table(type: pa.DataType) -> None:
    values = pa.array([None, 0, 1, 1, 0], pa.int64()).cast(type)
    one, other = KeyTable([type, pa.int64()]), KeyTable([type, pa.int64()])
    second = pa.array([5, 6, 7, 7, 6])
    mine, theirs = one.encode([values, second]), other.encode([values[::-1], second[::-1]])[::-1]
    assert one.hashes(np.arange(len(one)))[mine].tolist() == other.hashes(np.arange(len(other)))[theirs].tolist()
    assert len(set(one.hashes(np.arange(len(one))).tolist())) == 3


def test_hashes_never_change() -> None:
    """State files are placed by them: another hash would lose every key's state."""
    table = KeyTable([pa.string(), pa.int64()])
    codes = table.encode([pa.array(["", "sensor-1", "a key of more than sixteen bytes"]), pa.array([0, 1, -(2**63)])])
    found = [f"{h:016x}" for h in table.hashes(codes).tolist()]
    assert found == ["0aae28a58c1d95d7", "e92889e80bcf29cd", "f972131ab06d653c"]


def test_specs_that_need_an_order_of_arrival_are_refused() -> None:
    windows, aggs = {"m": sl.tumbling(5)}, {"n": sl.count()}
    with pytest.raises(ValueError, match=r"sl.ordered\(\) needs rows in the order they arrived"):
        partials.check(sl.Spec("t", windows, aggs, watermark=sl.ordered()))
    with pytest.raises(ValueError, match="processing_time"):
        partials.check(sl.Spec(sl.processing_time(), {"m": sl.tumbling("5s")}, aggs))
    with pytest.raises(ValueError, match="goes by arrival"):
        partials.check(sl.Spec("t", {"r": sl.rows(5, order="arrival")}, aggs))
    with pytest.raises(ValueError, match=r"depends on the order of rows of equal time.*sequence="):
        partials.check(sl.Spec("t", {"r": sl.rows(5)}, aggs))
    with pytest.raises(ValueError, match="needs the rows of all keys in one place: partitions=1; got 4"):
        partials.check(sl.Spec("t", {"r": sl.rows(5, per_key=False)}, aggs, by=["k"], sequence="s"), 4)
    partials.check(sl.Spec("t", {"r": sl.per_row(5), "p": sl.punctuation("flag")}, aggs, by=["k"]), 4)


@pytest.mark.parametrize(
    ("by", "name", "type"), [("k", "v", pa.int32()), ("v", "v", pa.int16()), ("k", "k", pa.string())]
)
@pytest.mark.parametrize("window", [sl.tumbling(10), sl.rows(2)], ids=["slices", "rows"])
def test_columns_of_another_type_are_refused(by: str, name: str, type: pa.DataType, window: Any) -> None:
    """Their words would be read as what they are not."""
    asked = sl.Spec("t", {"w": window}, {"n": sl.count()}, by=[by], sequence="v")
    first, second = pa.table({"t": [1], "k": [3], "v": [1]}), pa.table({"t": [2], "k": [3], "v": [1]})
    second = second.set_column(second.column_names.index(name), name, second[name].cast(type))
    operator = start(asked, first.schema)
    admit(operator, collected(asked, first))
    with pytest.raises(TypeError, match=f"column '{name}' was .* in the first batch; this one has {type}"):
        admit(operator, collected(asked, second))


def collected(asked: sl.Spec, rows: pa.Table) -> list[bytes]:
    collector = Collector(asked, rows.schema)
    collector.push(rows)
    return packed(collector.parts(), 1)


def test_ties_go_to_the_smaller_value() -> None:
    aggs = {"first": sl.first("v"), "last": sl.last("v"), "arg": sl.argmax("k", "v")}
    built = sl.Spec("t", {"m": sl.tumbling(5)}, aggs)
    rows = pa.record_batch({"t": [1, 1, 2, 2], "v": ["b", "a", "d", "c"], "k": [7, 7, 7, 7]})
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        collector, operator = Collector(built, rows.schema), start(built, rows.schema)
        for row in order:
            collector.push(rows.slice(row, 1))
        admit(operator, packed(collector.parts(), 1))
        (answer,) = operator.flush().windows.to_pylist()
        assert [answer[name] for name in aggs] == ["a", "c", "a"]


def test_partials_that_came_as_bytes_are_not_written_into() -> None:
    """A single cell that the next batch goes on: what a place receives is memory that nobody may change."""
    asked = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count(), "v": sl.sum("v")}, watermark=sl.bounded(0))
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    operator, found = start(asked, schema), []
    for first in range(0, 40, 4):
        rows = pa.table({"t": range(first, first + 4), "v": range(first, first + 4)}, schema)
        found += admit(operator, collected(asked, rows)).windows.to_pylist()
    assert [(row["window_end"], row["n"], row["v"]) for row in found] == [(10, 10, 45), (20, 10, 145), (30, 10, 245)]


def test_values_of_late_rows_move_the_ranks_of_rows_in_time() -> None:
    aggs = {"first": sl.min("s"), "last": sl.max("s"), "most": sl.mode("s"), "all": sl.count_distinct("s")}
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs, allowed_lateness=50, emit="changes")
    schema = pa.schema({"t": pa.int64(), "s": pa.string()})
    places, op = Places(spec, schema, 1, random.Random(1), True), sl.Operator(spec)
    for times, words in (([1, 25], ["m", "n"]), ([2, 26, 27, 3], ["a", "q", "q", "c"]), ([4, 41], ["b", "x"])):
        rows = pa.record_batch({"t": times, "s": words}, schema)
        assert [out.windows for out in places.push(rows)] == [op.push(rows).windows]
    assert places.operators[0].flush().windows == op.flush().windows


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ({"total": sl.sum("v")}, {"mean": sl.mean("v")}, {"sum": sl.sum("v") + 1}),
        ({"total": sl.sum("v")}, {"least": sl.min("v")}, {"mean": sl.mean("v"), "most": sl.max("v")}),
        ({"all": sl.collect("v")}, {"best": sl.top_k("v", 2)}, {"few": sl.collect("v", at_most=9)}),
    ],
    ids=["sums", "extremes", "lists"],
)
def test_what_a_later_change_adds_is_no_more_complete_than_what_it_reads(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    """An aggregate that reads what another one began to keep is whole from then on, not from the first row on."""
    schema, n = pa.schema({"t": pa.int64(), "v": pa.int64()}), {"n": sl.count()}
    asked = [sl.Spec("t", {"w": sl.tumbling(100)}, n | more) for more in ({}, first, first | second, second | third)]
    places = Places(asked[0], schema, 1, random.Random(1), True)
    now = 1_790_000_000_000_000_000  # in nanoseconds
    places.push(pa.record_batch({"t": [now + 1, now + 2], "v": [1 << 52, 1 << 52]}, schema=schema))
    for at, spec_ in enumerate(asked[1:]):
        places.change(spec_)
        places.push(pa.record_batch({"t": [now + 3 + at], "v": [1]}, schema=schema))
    (row,) = places.operators[0].flush().windows.to_pylist()
    assert row["n"] == 5
    assert [row[name] for name in second | third] == [None] * len(second | third)
    assert min(state_of(places.operators[0]).plan.agg_since.values()) >= now + 3
