"""Partial slices between processes: what places are sent as words is what one operator is pushed."""

from __future__ import annotations

import datetime as dt
import os
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.exchange import Collector, admit, packed, start, state_of

CASES = int(os.environ.get("SLICING_CASES", "4"))
START = 1_790_000_000_000_000_000
KEYS: dict[str, pa.Array] = {
    "text": pa.array(["a", None, "", "a longer text than sixteen bytes", "é"]),
    "large": pa.array(["x", "y", None, "", "zz"], pa.large_string()),
    "raw": pa.array([b"", b"\x00", None, b"\x00\x01", b"z"]),
    "whole": pa.array([1, -(1 << 63), None, (1 << 63) - 1, 0]),
    "small": pa.array([1, None, 3, -128, 127], pa.int8()),
    "flag": pa.array([True, False, None, True, False]),
    "float": pa.array([0.5, float("nan"), None, -0.0, float("inf")]),
    "money": pa.array([Decimal("1.25"), None, Decimal("-9999.99"), Decimal(0), Decimal(7)], pa.decimal128(9, 2)),
    "big": pa.array([Decimal(10) ** 30, None, Decimal(-1), Decimal(0), Decimal(7)], pa.decimal128(38, 2)),
    "day": pa.array([dt.date(2026, 1, 1), None, dt.date(1900, 1, 1), dt.date(2200, 1, 1), dt.date(1970, 1, 1)]),
    "when": pa.array([START, None, 0, -1, 1], pa.timestamp("ns")),
    "dictionary": pa.array(["a", None, "b", "a", "b"]).dictionary_encode(),
}
AGGS = {"n": sl.count(), "total": sl.sum("v"), "most": sl.max("f"), "mean": sl.mean("f"), "last": sl.last("v")}
TEXT = pa.array(["m", None, "", "a text that is longer than the others", "\0", "é", "z" * 300])
TEXTS = {"least": sl.min("s"), "most": sl.max("s"), "first": sl.first("s"), "last": sl.last("s")}
TEXTS |= {"at most": sl.argmax("f", "s"), "kinds": sl.count_distinct("s"), "mode": sl.mode("s")}
LISTS = {"middle": sl.median("f"), "all": sl.collect("v", at_most=5), "texts": sl.collect("s", at_most=3)}
LISTS |= {"best": sl.top_k("v", 2), "some": sl.sample("s", 3), "three": sl.quantile("v", 0.3)}

ADD = {"combine": lambda a, b: a + b, "lower": lambda s: s, "identity": 0.0, "inputs": ["f"]}
UDAFS = {"double": sl.udaf("double", lambda x: 2.0 * x, **ADD, commutative=True)}
UDAFS |= {"latest": sl.udaf("latest", lambda x: x, **(ADD | {"combine": lambda a, b: a if b == 0.0 else b}))}


def rows(names: list[str], batch: int, size: int = 120) -> pa.Table:
    """A second of nanoseconds, some of it late; with as many keys as the columns make together."""
    rng = np.random.default_rng(batch)
    late = np.where(rng.random(size) < 0.1, rng.integers(0, 3 * 10**9, size), 0)
    ts = rng.integers(batch * 10**9, (batch + 1) * 10**9, size) - late + START
    columns: dict[str, Any] = {"ts": pa.array(ts, pa.timestamp("ns", "UTC"))}
    columns |= {name: KEYS[name].take(pa.array(rng.integers(0, 5, size))) for name in names}
    columns["s"] = TEXT.take(pa.array(rng.integers(0, 7, size)))
    columns["v"] = pa.array(rng.integers(-(1 << 40), 1 << 40, size), mask=rng.random(size) < 0.1)
    return pa.table(columns | {"f": rng.integers(-(1 << 40), 1 << 40, size) / 8})  # sums are exact


def in_order(*tables: pa.Table) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("case", range(CASES))
def test_places_answer_what_one_operator_answers(case: int) -> None:
    """For keys of any type, with and without sessions, late rows, in time for some windows or none, and rows that
    change."""
    chance = random.Random(case)
    names = chance.sample(list(KEYS), chance.choice([1, 1, 2, 3])) if case else []
    windows: dict[str, Any] = {"slide": sl.sliding("700ms", "300ms")}
    if case % 5 < 3:  # without it, rows are late for all windows
        windows["day"] = sl.calendar("1d", tz="Europe/Berlin")
    if case % 2:
        windows["visit"] = sl.session("20ms")
    more: dict[str, Any] = {"allowed_lateness": "1s", "emit": "updates"} if case % 4 == 2 else {}
    aggs = AGGS | [UDAFS, TEXTS, LISTS][case % 3]
    spec = sl.Spec("ts", windows, aggs, by=names, watermark=sl.bounded("100ms"), **more)
    count, readers = chance.choice([1, 3, 7]), chance.choice([1, 2, 5])
    operator, schema = sl.Operator(spec), rows(names, 0).schema
    places = [start(spec, schema) for _ in range(count if names else 1)]
    for batch in range(4):
        data, sent = rows(names, batch, chance.choice([0, 1, 120])), []
        for reader in range(readers):
            collector = Collector(spec, schema, state_of(places[0]).watermark)
            collector.push(data.take(pa.array(range(reader, len(data), readers), pa.int64())))
            sent.append(packed(collector.parts(), len(places)))
        outs = [admit(place, [blobs[p] for blobs in sent]) for p, place in enumerate(places)]
        out = operator.push(data)
        assert in_order(*(o.windows for o in outs)) == in_order(out.windows)
        assert in_order(*(o.late for o in outs)) == in_order(out.late)
        counted = {n: sum(o.stats[n] for o in outs) for n in ("rows", "late", "windowed")}
        assert counted == {n: out.stats[n] for n in counted}  # slices are merged by their number in each place
    assert in_order(*(place.flush().windows for place in places)) == in_order(operator.flush().windows)


def test_columns_of_nulls_reach_their_places() -> None:
    """They have no values that ranks could point to. A key column may have no type either."""
    data = rows(["whole"], 1)
    data = data.set_column(data.column_names.index("s"), "s", pa.nulls(len(data), pa.string()))
    data = data.append_column("nothing", pa.nulls(len(data)))
    aggs = {"n": sl.count("s"), "first": sl.first("s"), "last": sl.last("s"), "all": sl.collect("s")}
    spec = sl.Spec("ts", {"w": sl.tumbling("100ms")}, aggs, by=["whole", "nothing"])
    places = [start(spec, data.schema) for _ in range(3)]
    collector = Collector(spec, data.schema)
    collector.push(data)
    blobs = packed(collector.parts(), 3)
    found = [admit(place, [blob]).windows for place, blob in zip(places, blobs, strict=True)]
    found += [place.flush().windows for place in places]
    assert in_order(*found) == in_order(sl.aggregate(data, spec))


@pytest.mark.parametrize("aggs", [{"n": sl.count(), "total": sl.sum("v")}, LISTS], ids=["sums", "lists"])
def test_a_pair_costs_little(aggs: dict[str, Any]) -> None:
    """In bytes: 1.3 times the partials, and 60 for each pair of a reader and a place; 12 more a list or text."""
    spec = sl.Spec("ts", {"w": sl.sliding("1s", "100ms")}, aggs, by=["whole"])
    data = rows(["whole"], 1, 4000).set_column(1, "whole", pa.array(np.random.default_rng(1).integers(0, 999, 4000)))
    collector = Collector(spec, data.schema)
    collector.push(data)
    parts = collector.parts()
    held = parts.state.store.nbytes + sum(pool.nbytes for pool in parts.state.pools.values()) * 8
    more = 12 * len(aggs) if aggs is LISTS else 0
    for count in (1, 8, 200):
        assert sum(map(len, packed(parts, count))) <= 1.3 * held + (60 + more) * count + 300


@pytest.mark.parametrize("place", [0, 1])
def test_places_refuse_words_of_columns_of_other_types(place: int) -> None:
    """Only the first place is told which types they were; all others know that they differ."""
    spec = sl.Spec("ts", {"w": sl.tumbling("1s")}, {"total": sl.sum("v")}, by=["whole"])
    first = rows(["whole"], 0)
    other = first.set_column(first.column_names.index("v"), "v", first["v"].cast(pa.float64()))
    operator = start(spec, first.schema)
    told = (
        "this one has double: cast it"
        if place == 0
        else "have other types than in the first one, where .*'v' was int64"
    )
    for _ in range(2):  # the refused one leaves no trace
        collector = Collector(spec, other.schema)
        collector.push(other)
        with pytest.raises(TypeError, match=told):
            admit(operator, [packed(collector.parts(), 2)[place]])
        collector = Collector(spec, first.schema)
        collector.push(first)
        assert admit(operator, [packed(collector.parts(), 2)[place]]).stats.late == 0


ROWS = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


def sent(spec: sl.Spec, *rows: tuple[int, str, int]) -> list[bytes]:
    collector = Collector(spec, ROWS)
    collector.push(pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=ROWS))
    return packed(collector.parts(), 1)


@pytest.mark.parametrize("agg", [sl.sum("v"), sl.sum("v") + sl.count_distinct("k")])
def test_a_batch_that_is_not_admitted_changes_nothing(agg):
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": agg}, by="k")
    operator = start(spec, ROWS)
    admit(operator, sent(spec, (1, "a", 1)))
    before = operator.snapshot()
    with pytest.raises(OverflowError, match="does not fit int64"):
        admit(operator, sent(spec, (2, "b", 2**63 - 1), (3, "b", 2**63 - 1), (50, "c", 1)))
    assert operator.snapshot() == before
    assert admit(operator, sent(spec, (50, "c", 1))).windows["k"].to_pylist() == ["a"]


@pytest.mark.parametrize("window", [sl.tumbling(10), sl.session(5), sl.whole()], ids=repr)
def test_times_of_several_readers_may_not_be_too_far_apart_either(window):
    spec = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.manual())
    operator, far = start(spec, ROWS), (1 << 62) + (1 << 61) - 5
    with pytest.raises(ValueError, match="the times of a batch and the latest one before it must lie within"):
        admit(operator, [*sent(spec, (-far, "a", 1)), *sent(spec, (far, "a", 1))])
    admit(operator, sent(spec, (far, "a", 1)))
    with pytest.raises(ValueError, match="must lie within"):
        admit(operator, sent(spec, (-far, "a", 1)))
    assert operator.flush().windows["n"].to_pylist() == [1]
