"""``sl.rollup``: parts of windows give what the rows themselves give, whichever parts there are."""

from __future__ import annotations

import dataclasses
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import Places

import slicing as sl

SINCE = 1_700_000_000_000_000_000
SINCE -= SINCE % 6000
AGGS = {
    "n": sl.count(), "n_v": sl.count("v"), "s": sl.sum("v"), "u": sl.sum("u"), "d": sl.sum("d"), "p": sl.product("p"),
    "least": sl.min("word"), "most": sl.max("v"), "any": sl.any("b"), "all": sl.all("b").where("b"),
    "span": sl.sum("span"), "f": sl.min("f"),
}  # fmt: skip
LARGER = {
    "t": sl.tumbling("300ns"), "over": sl.sliding("600ns", every="200ns"), "grow": sl.cumulate("600ns", every="100ns"),
    "mark": sl.landmark("200ns"),
}  # fmt: skip
ORDER = [(name, "ascending") for name in ("window_end", "window", "window_start", "k")]


def data(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    v = [None if rng.integers(5) == 0 else int(rng.integers(-(2**55), 2**55)) for _ in range(rows)]
    columns = {
        "t": pa.array(np.arange(rows) * 3 + rng.integers(0, 150, rows) + SINCE).cast(pa.timestamp("ns")),
        "k": pa.array([None if key == 3 else f"key {key}" for key in rng.integers(0, 4, rows)]),
        "v": pa.array(v, pa.int64()),
        "u": pa.array([None if x is None else x % 7 + 2**50 for x in v], pa.uint64()),
        "d": pa.array([None if x is None else Decimal(x % 10**9).scaleb(-2) for x in v], pa.decimal128(12, 2)),
        "p": pa.array(rng.choice([1, -1, 1, -1, 1, 2], rows, p=[0.2, 0.2, 0.2, 0.2, 0.19, 0.01])),
        "word": pa.array([f"w{x}" for x in rng.integers(0, 99, rows)]),
        "b": pa.array([None if x == 2 else bool(x) for x in rng.integers(0, 3, rows)]),
        "span": pa.array(rng.integers(-(2**40), 2**40, rows)).cast(pa.duration("us")),
        "f": pa.array(rng.choice([0.5, np.nan, np.inf, -1e300], rows)),
    }
    return pa.table(columns)


def parts_of(rows: pa.Table, spec: sl.Spec, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    op, found, at = sl.Operator(spec), [], 0
    while at < len(rows):
        size = int(rng.integers(1, 400))
        out = op.push(rows.slice(at, size))
        assert out.stats.late == 0
        found, at = [*found, out.windows], at + size
    return pa.concat_tables([*found, op.flush().windows])


@pytest.mark.parametrize("seed", range(6))
def test_parts_give_what_rows_give(seed: int) -> None:
    rows = data(1500, seed)
    triggers: list[Any] = [None, sl.every("30ns"), sl.after_share(0.5), sl.each_push(), sl.after_count(3), None]
    emit, more = ("parts", {"trigger": triggers[seed]}) if seed < 5 else ("final", {})
    spec = sl.Spec(
        "t", {"w": sl.tumbling("100ns"), "other": sl.tumbling("30ns")}, AGGS, by="k", watermark=sl.bounded("40ns"),
        allowed_lateness="200ns", emit=emit, **more,
    )  # fmt: skip
    parts = parts_of(rows, spec, seed)
    if seed < 5:
        assert parts["revision"].to_numpy().max() > 0
    found = sl.rollup(parts, spec, LARGER, window="w").sort_by(ORDER).combine_chunks()
    wanted = sl.aggregate(rows, sl.Spec("t", LARGER, AGGS, by="k")).sort_by(ORDER).combine_chunks()
    assert found.schema == wanted.schema and repr(found.to_pylist()) == repr(wanted.to_pylist())  # NaN equals NaN
    assert len(found) > 100


def test_lists_are_joined_and_sums_of_floats_are_those_of_parts() -> None:
    rows = pa.table({"t": range(200), "v": [x / 7 for x in range(200)]})
    aggs = {"all": sl.collect("v"), "s": sl.sum("v")}
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs, emit="parts", trigger=sl.every(3))
    larger = {"w": sl.tumbling(50), "x": sl.sliding(40, every=20)}
    parts = sl.aggregate(rows, spec)
    assert parts.num_rows == 80
    found, wanted = sl.rollup(parts, spec, larger), sl.aggregate(rows, sl.Spec("t", larger, aggs))
    assert found["all"].to_pylist() == wanted["all"].to_pylist() and found.schema == wanted.schema
    assert np.allclose(found["s"].to_numpy(), wanted["s"].to_numpy(), rtol=1e-14, atol=0)


def test_in_a_chain_and_where_keys_are() -> None:
    rows = data(1500, 9)
    minutes = sl.Spec(
        "t", {"w": sl.tumbling("100ns")}, AGGS, by="k", watermark=sl.bounded("40ns"), allowed_lateness="200ns",
        emit="parts", trigger=sl.every("30ns"),
    )  # fmt: skip
    larger = {name: LARGER[name] for name in ("t", "over", "grow")}
    hours = sl.rollup_spec(minutes, larger)
    wanted = sl.aggregate(rows, sl.Spec("t", larger, AGGS, by="k")).sort_by(ORDER).select(["window", "n", "s", "least"])
    chain, found = sl.chain(sl.Operator(minutes), sl.Operator(hours)), []
    for at in range(0, 1500, 99):
        out = chain.push(rows.slice(at, 99))
        assert out.stats.late == 0
        found.append(out.windows)
    chained = pa.concat_tables([*found, chain.flush().windows]).sort_by(ORDER)
    assert chained.select(["window", "n", "s", "least"]).combine_chunks() == wanted.combine_chunks()
    parts = parts_of(rows, minutes, 9)
    places, found = Places(hours, parts.schema, 3, random.Random(2), True), []
    for at in range(0, len(parts), 99):
        places.push(parts.slice(at, 99).combine_chunks().to_batches()[0])
    spread = pa.concat_tables([op.flush().windows for op in places.operators]).sort_by(ORDER)
    assert spread.select(["window", "n", "s", "least"]).combine_chunks() == wanted.combine_chunks()


N = {"n": sl.count()}


def told(windows: dict[str, Any], aggs: dict[str, Any] = N, **more: Any) -> sl.Spec:
    return sl.Spec("t", windows, aggs, **more)


@pytest.mark.parametrize(
    ("spec", "windows", "what"),
    [
        (
            told({"w": sl.tumbling(5)}, {"m": sl.mean("v")}),
            {"h": sl.tumbling(10)},
            r"aggs\['m'\] is .*mean.* do not say",
        ),
        (
            told({"w": sl.tumbling(5)}, {"m": sl.sum("v") / sl.count()}),
            {"h": sl.tumbling(10)},
            "do not say what the whole",
        ),
        (
            told({"w": sl.tumbling(5)}, emit="updates"),
            {"h": sl.tumbling(10)},
            "results come again, so rows would count",
        ),
        (
            told({"w": sl.tumbling(5)}, {"s": sl.sum("v")}, on_overflow="null"),
            {"h": sl.tumbling(10)},
            "on_overflow='null', and what is null for that reason .* use on_overflow='error'",
        ),
        (
            told({"w": sl.tumbling(5)}, emit="final", op="op", on_unmatched="null"),
            {"h": sl.tumbling(10)},
            "on_unmatched='null', and what is null for that reason .* use on_unmatched='error'",
        ),
        (
            told({"w": sl.sliding(10, every=5)}),
            {"h": sl.tumbling(10)},
            "parts must be windows between edges that share",
        ),
        (told({"w": sl.session(5)}), {"h": sl.tumbling(10)}, "parts must be windows between edges that share no rows"),
        (told({"w": sl.tumbling(5), "x": sl.tumbling(2)}), {"h": sl.tumbling(10)}, "say which are the parts, window="),
        (
            told({"w": sl.tumbling(5)}),
            {"h": sl.tumbling(12)},
            "cannot be told without data whether its edges are edges",
        ),
        (
            told({"w": sl.tumbling(5)}),
            {"h": sl.tumbling(10, offset=2)},
            "cannot be told without data whether its edges",
        ),
        (told({"w": sl.tumbling(5)}), {"h": sl.sliding(10, every=3)}, "cannot be told without data whether its edges"),
        (told({"w": sl.calendar("1d")}), {"h": sl.calendar("1mo", tz="Asia/Tokyo")}, "cannot be told without data"),
    ],
)
def test_what_cannot_be_put_together_is_refused(spec: sl.Spec, windows: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        sl.rollup_spec(spec, windows)


def test_wrapped_integers_are_put_together_and_decimals_that_became_null_are_refused() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"s": sl.sum("v"), "most": sl.max("v")}, on_overflow="wrap")
    windows = {"h": sl.tumbling(10)}
    for type, value in ((pa.int64(), 2**62), (pa.decimal128(38), 9 * 10**37)):
        rows = pa.table({"t": [1, 2, 5, 6], "v": pa.array([value, value, value, 3], type)})
        parts = sl.aggregate(rows, spec)
        if type == pa.int64():
            larger = sl.aggregate(rows, sl.Spec("t", windows, spec.aggs, on_overflow="wrap"))
            assert sl.rollup(parts, spec, windows)["s"].to_pylist() == larger["s"].to_pylist() == [3 - 2**62]
            continue
        assert parts["s"].null_count == 1
        with pytest.raises(
            ValueError, match=r"on_overflow='wrap', which makes decimals null \('s' is .* leave the part"
        ):
            sl.rollup(parts, spec, windows)
        without = sl.Spec("t", spec.windows, {"most": sl.max("v")}, on_overflow="wrap")
        assert sl.rollup(parts, without, windows)["most"].to_pylist() == [value]


def test_a_part_that_an_edge_cuts_is_refused_and_others_are_not() -> None:
    spec = told({"w": sl.tumbling(5)})
    parts = sl.aggregate(pa.table({"t": [1, 2, 11, 26]}), spec)
    with pytest.raises(ValueError, match="the part from 10 to 15 crosses the edge of a larger window at 12, and which"):
        sl.rollup(parts, spec, {"h": sl.tumbling(12)})
    assert sl.rollup(parts.slice(0, 1), spec, {"h": sl.tumbling(12)})["n"].to_pylist() == [2]
    assert sl.rollup(parts.slice(0, 0), spec, {"h": sl.tumbling(10)}).num_rows == 0
    assert sl.rollup_spec(told({"w": sl.calendar("1d", tz="Asia/Tokyo")}), {"m": sl.calendar("1mo", tz="Asia/Tokyo")})


@pytest.mark.parametrize("emit", ["final", "parts"])
def test_parts_that_come_again_are_refused(emit: str) -> None:
    minutes = sl.Spec("t", {"m": sl.tumbling(10)}, {"n": sl.count()}, by="k", emit=emit)
    op = sl.Operator(minutes)
    found = [op.push(pa.table({"t": [1, 12, 25], "k": ["a", None, None]})).windows, op.flush().windows]
    parts = pa.concat_tables(found)
    assert sl.rollup(parts, minutes, {"h": sl.tumbling(100)})["n"].to_pylist() == [2, 1]
    again = pa.concat_tables([parts, parts.slice(1, 1)])
    with pytest.raises(ValueError, match=r"a part comes 2 times \(window_start 10, k None.*\), and its rows"):
        sl.rollup(again, minutes, {"h": sl.tumbling(100)})
    views = pl.from_arrow(parts)
    assert sl.rollup(views, minutes, {"h": sl.tumbling(100)})["n"].to_pylist() == [2, 1]
    with pytest.raises(ValueError, match="a part comes 2 times"):
        sl.rollup(pl.concat([views, views]), minutes, {"h": sl.tumbling(100)})


def test_parts_say_which_query_gave_them(tmp_path: Path) -> None:
    """Tables put together, and files of them; not those of a query with functions, or of another emit."""
    triggered = {"trigger": sl.each_push(), "emit": "parts"}
    minutes = sl.Spec("t", {"m": sl.tumbling(10)}, {"n": sl.count(), "most": sl.max("t")}, by="k", **triggered)
    op = sl.Operator(minutes)
    pushes = [pa.table({"t": t, "k": ["a"] * len(t)}) for t in ([1], [2, 12], [13, 31])]
    found = [op.push(pushed).windows for pushed in pushes] + [op.flush().windows]
    parts, larger = pa.concat_tables(found), {"h": sl.tumbling(20)}
    expected = sl.rollup(parts, minutes, larger)
    assert expected.select(["n", "most"]).to_pylist() == [{"n": 4, "most": 13}, {"n": 1, "most": 31}]
    assert sl.rollup(parts, windows=larger).equals(expected)
    pq.write_table(parts, tmp_path / "parts.parquet")
    assert sl.rollup(str(tmp_path / "parts.parquet"), windows=larger).equals(expected)
    with pytest.raises(ValueError, match=r"do not say which query gave them, .* give the query, spec="):
        sl.rollup(parts.replace_schema_metadata(), windows=larger)
    with pytest.raises(ValueError, match="give the query, spec="):
        sl.rollup(sl.aggregate(pushes[0], sl.Spec("t", {"m": sl.tumbling(10)}, {"n": sl.count()})), windows=larger)
    with pytest.raises(TypeError, match=r"windows must be a dict of the larger windows, .* got None"):
        sl.rollup(parts, minutes)


@pytest.mark.parametrize(
    ("larger", "what"),
    [
        (sl.session(5), r"windows\['h'\] is sl.session\(5\), whose bounds depend on single rows, and parts do not say"),
        (sl.rows(2), r"windows\['h'\] is sl.rows\(2, every=2\), whose bounds depend on single rows"),
        (sl.per_row(20), "whose bounds depend on single rows"),
        (sl.last_rows(2, 10), "whose bounds depend on single rows"),
        (
            sl.tumbling(10, full=True),
            r"windows\['h'\] has full=True, and parts do not say where the first and the last",
        ),
    ],
)
def test_windows_that_single_rows_decide_are_refused(larger: Any, what: str) -> None:
    spec = told({"w": sl.tumbling(5)})
    parts = sl.aggregate(pa.table({"t": [1, 2, 3, 9]}), spec)
    for ask in (lambda: sl.rollup(parts, spec, {"h": larger}), lambda: sl.rollup_spec(spec, {"h": larger})):
        with pytest.raises(ValueError, match=what):
            ask()


def test_whole_lies_from_the_first_part_to_the_last() -> None:
    spec = told({"w": sl.tumbling(5)})
    found = sl.rollup(sl.aggregate(pa.table({"t": [1, 2, 13]}), spec), spec, {"all": sl.whole()})
    assert found.to_pylist() == [{"window": "all", "window_start": 0, "window_end": 10, "n": 3}]


def test_parts_of_other_windows_alone_are_refused() -> None:
    parts = sl.aggregate(pa.table({"t": [1, 2]}), told({"w": sl.tumbling(5), "x": sl.tumbling(2)}))
    renamed = told({"minute": sl.tumbling(5)})
    with pytest.raises(ValueError, match=r"none of the parts is of windows\['minute'\]: .* 'window' has 'x', 'w'"):
        sl.rollup(parts, renamed, {"h": sl.tumbling(10)})
    assert sl.rollup(parts.slice(0, 0), renamed, {"h": sl.tumbling(10)}).num_rows == 0
    assert sl.rollup(parts.drop_columns("window").slice(2), renamed, {"h": sl.tumbling(10)})["n"].to_pylist() == [2]


def test_outputs_and_frames_with_lists_are_parts() -> None:
    rows = pa.table({"t": [1, 2, 7, 12, 26], "k": ["a", "b", "a", None, "a"], "v": [1, None, 3, 4, 5]})
    aggs = {"all": sl.collect("v"), "n": sl.count()}
    spec, larger = sl.Spec("t", {"w": sl.tumbling(5)}, aggs, by="k", emit="parts"), {"h": sl.tumbling(10)}
    wanted = sl.aggregate(rows, sl.Spec("t", larger, aggs, by="k"))
    outputs = list(sl.replay(rows, spec, rows=2))
    for parts in (outputs, iter(outputs), sl.replay(rows, spec, rows=1), sl.Operator(spec).push(rows)):
        found = sl.rollup(parts, windows=larger)
        assert found.equals(wanted.slice(0, len(found))) and len(found) >= 3
    frame = pl.from_arrow(sl.aggregate(rows, spec))
    found = sl.rollup(frame, spec, larger)
    assert found.to_pylist() == wanted.to_pylist() and found.schema.field("all").type == pa.large_list(pa.int64())


def test_a_reader_without_batches_has_columns() -> None:
    spec = told({"w": sl.tumbling(5)})
    schema = sl.aggregate(pa.table({"t": [1]}), spec).schema
    empty = pa.RecordBatchReader.from_batches(schema, [])
    assert sl.rollup(empty, spec, {"h": sl.tumbling(10)}).num_rows == 0


def test_larger_windows_that_do_not_fit_into_the_type_of_the_parts_are_told() -> None:
    """pandas makes decimals as narrow as its values."""
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"s": sl.sum("v")})
    parts = sl.aggregate(pa.table({"t": [1, 7], "v": pa.array([Decimal("9.5")] * 2, pa.decimal128(12, 2))}), spec)
    narrow = parts.set_column(3, "s", parts["s"].cast(pa.decimal128(3, 2)))
    with pytest.raises(ValueError, match=r"window's 's' does not fit into decimal128\(3, 2\), .* as decimal128\(13"):
        sl.rollup(narrow, spec, {"h": sl.tumbling(10)})


def test_parts_whose_dictionaries_have_no_room_for_all_keys() -> None:
    """``aggregate`` gives keys in several chunks then, and an operator of a chain passes them on as well."""
    names = [[f"user {part} {n}" for n in range(100)] for part in range(2)]
    days = [
        pa.table({"t": [100 * at] * 100, "user": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), some)})
        for at, some in enumerate(names)
    ]
    spec = sl.Spec("t", {"m": sl.tumbling(60)}, {"n": sl.count()}, by="user", watermark=sl.bounded(10**6))
    hours = {"h": sl.tumbling(600)}
    parts = sl.aggregate(iter(days), spec)
    assert parts["user"].num_chunks > 1
    expected = sorted([*names[0], *names[1]])
    assert sl.rollup(parts, spec, hours)["user"].to_pylist() == expected
    op = sl.chain(sl.Operator(spec), sl.Operator(sl.rollup_spec(spec, hours)))
    found = [op.push(day).windows for day in days] + [op.flush().windows]
    assert [name for table in found for name in table["user"].to_pylist()] == expected
    changes = dataclasses.replace(spec, emit="changes", trigger=sl.each_push())
    assert sl.replay(iter(days), changes).latest()["user"].to_pylist() == sorted(names[0]) + sorted(names[1])
