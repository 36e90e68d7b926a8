"""The same rows in other columns: types, layouts, offsets, chunks, times far from 0, threads. No answer may differ.

The oracle says what rows mean; here the library is held against itself, with all sorts of windows and aggregates.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from harness import Delta, FastDelta, Visit

import slicing as sl
from slicing.windows.bounds import APART, LIMIT

CASES = max(int(os.environ.get("SLICING_CASES", "150")) // 25, 1)
SEED = int(os.environ.get("SLICING_SEED", "0"))
DAY = 24  # all sizes divide it: windows of times that are shifted by as much are shifted alike
SIZES = (1, 2, 3, 4, 6, 12)
Types = dict[str, pa.DataType]

PLAIN: Types = {name: pa.string() for name in "ks"} | {name: pa.bool_() for name in "bfg"}
PLAIN |= {"t": pa.int64(), "j": pa.int64(), "i": pa.int64(), "x": pa.float64(), "d": pa.decimal128(9, 2)}
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
TEXTS += [pa.dictionary(pa.int32(), pa.large_string()), pa.dictionary(pa.uint16(), pa.string())]
OTHERS = {"k": TEXTS, "s": TEXTS, "x": [pa.float64(), pa.float32()]}
OTHERS |= {"i": [pa.int64(), pa.int32(), pa.int16(), pa.int8()], "j": [pa.uint8(), pa.int16(), pa.uint64(), pa.int32()]}
TIMES = [pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.uint64()]

AGGS = {
    "n": sl.count(), "ci": sl.count("i"), "si": sl.sum("i"), "mi": sl.min("i"), "sx": sl.sum("x"), "mx": sl.min("x"),
    "sd": sl.std("x"), "fs": sl.first("s"), "ls": sl.last("s"), "ls2": sl.min("s"), "am": sl.argmin("x", "s"),
    "ax": sl.argmax("i", "d"), "td": sl.sum("d"), "any": sl.any("b"), "med": sl.median("x"), "mode": sl.mode("s"),
    "q": sl.quantile("i", 0.25), "cd": sl.count_distinct("s"), "all": sl.collect("i"), "cs": sl.collect("s"),
    "top": sl.top_k("s", 2), "hh": sl.heavy_hitters("s", 0.3), "m4": sl.m4("x"), "aq": sl.approx_quantile("x", 0.5),
    "hll": sl.approx_count_distinct("s"), "mc": sl.max_count("s"), "if": sl.sum("i").where("b"),
}  # fmt: skip


def window(chance: random.Random, fills: bool) -> Any:
    size, every, order = chance.choice(SIZES), chance.choice(SIZES), chance.choice(["time", "arrival"])
    yes, few, partial = chance.random() < 0.6, chance.randint(1, 8), chance.random() < 0.2
    fill = partial and fills
    made = [
        lambda: sl.tumbling(size, fill=fill),
        lambda: sl.sliding(size, every, fill=fill),
        lambda: sl.cumulate(2 * size, size),
        lambda: sl.landmark(size),
        lambda: sl.session(size),
        lambda: sl.whole(),
        lambda: sl.rows(few, chance.randint(1, 8), order=order, per_key=yes, partial=partial),
        lambda: sl.per_row(size, chance.choice([1, 1, 2, 3]), order=order),
        lambda: sl.last_rows(few, size),
        lambda: sl.punctuation("f", per_key=yes),
        lambda: sl.frame("f", "g", partial=yes),
        lambda: Visit(size, 12),
        lambda: (Delta if yes else FastDelta)("i", 2 * few),
    ]
    return chance.choice(made)()


def query(chance: random.Random, fills: bool = True) -> sl.Spec:
    """A query that is not refused. ``fills``: it may ask for empty windows."""
    while True:
        by = chance.choice([[], ["k"], ["k"], ["k", "j"], ["j"], ["b"]])
        more: dict[str, Any] = {"idle": chance.choice([3, 6, 20])} if chance.random() < 0.25 else {}
        more |= {"sequence": "i"} if chance.random() < 0.2 else {}
        try:
            return sl.Spec(
                "t",
                {f"w{n}": window(chance, fills) for n in range(chance.choice([1, 1, 2, 3, 4]))},
                {name: AGGS[name] for name in chance.sample(sorted(AGGS), chance.randint(1, 6))},
                by=by,
                watermark=chance.choice([sl.bounded(0), sl.bounded(3), sl.bounded(8), sl.ordered(on_disorder="late")]),
                allowed_lateness=chance.choice([0, 0, 2, 6]),
                emit=chance.choice(["final", "final", "changes"]),
                on_overflow="null",
                **more,
            )
        except ValueError:
            continue


def stream(chance: random.Random, size: int) -> list[dict[str, Any]]:
    clock, rows, pick = 0, [], chance.choice
    for _ in range(size):
        clock += pick([0, 0, 0, 1, 1, 2, 3, 9])
        row = {
            "t": max(clock - pick([0, 0, 0, 1, 2, 4, 8]), 0),
            "j": pick([None, 0, 1]),
            "b": pick([None, True, False]),
        }
        row |= {
            "k": pick([None, "a", "b", "bb", "a long key that is not inline", ""]),
            "i": pick([None, *range(-9, 20)]),
        }
        row |= {
            "x": pick([None, math.nan, -0.0, *range(-9, 9)]),
            "d": pick([None, Decimal(chance.randint(-999, 999)) / 100]),
        }
        row |= {"s": pick([None, "", "a", "zz", "long enough to be out of line", "é"]), "f": chance.random() < 0.2}
        rows.append(row | {"g": chance.random() < 0.2})
    return rows


def column(values: list, name: str, type: pa.DataType, before: int) -> pa.Array:
    """Of a type, behind some rows of another array that hold something."""
    filler = [next((v for v in values if v is not None), None)] * before
    array = pa.array(filler + values, PLAIN[name])
    if pa.types.is_dictionary(type):
        coded = array.cast(type.value_type).dictionary_encode()
        array = pa.DictionaryArray.from_arrays(coded.indices.cast(type.index_type), coded.dictionary)
    return array.cast(type).slice(before)


def batches(rows: list, cuts: list[int], types: Types, shift: int = 0, odd: bool = False) -> Iterator[pa.Table]:
    for at, (first, last) in enumerate(pairwise(cuts)):
        part = [{**row, "t": row["t"] + shift} for row in rows[first:last]]
        columns = {
            name: column([row[name] for row in part], name, type, (3 * at + n) % 11 if odd else 0)
            for n, (name, type) in enumerate(types.items())
        }
        whole, middle = pa.table(columns), (last - first) // 3
        yield pa.concat_tables([whole.slice(0, middle), whole.slice(0, 0), whole.slice(middle)]) if odd else whole


def told(spec: sl.Spec, parts: Iterator[pa.Table], shift: int = 0, threads: int = 1, most: int | None = None) -> list:
    op, found, late = sl.Operator(spec, threads=threads, max_windows_per_push=most), [], []
    for part in parts:
        out = op.push(part)
        late.append(out.late.num_rows)
        found += out.windows.to_pylist()
        if threads > 1:
            op = sl.Operator.restore(spec, op.snapshot(), threads=threads, max_windows_per_push=most)
    found += op.flush().windows.to_pylist()
    for row in found:
        row |= {name: row[name] - shift for name in ("window_start", "window_end") if row[name] is not None}
    return [{name: plain(value) for name, value in row.items()} for row in found] + late


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 6) + 0.0
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", range(CASES))
def test_forms_do_not_show(case: int) -> None:
    chance = random.Random(f"{SEED} {case}")
    spec, rows = query(chance), stream(chance, chance.choice([5, 20, 60, 150]))
    cuts = [0, *sorted(chance.randint(0, len(rows)) for _ in range(chance.choice([0, 1, 4, 10]))), len(rows)]
    top = max(row["t"] for row in rows)
    expected = told(spec, batches(rows, cuts, PLAIN))
    others = PLAIN | {name: chance.choice(types) for name, types in OTHERS.items()}
    assert told(spec, batches(rows, cuts, others, odd=True)) == expected, (others, spec)
    assert told(spec, batches(rows, cuts, PLAIN, odd=True), threads=3) == expected, spec
    for shift in ((LIMIT - top) // DAY * DAY, -(LIMIT // DAY) * DAY, -DAY * chance.randint(1, 9)):
        try:
            assert told(spec, batches(rows, cuts, PLAIN, shift), shift) == expected, (shift, spec)
        except ValueError as error:
            assert "times must lie between" in str(error)
    narrow = PLAIN | {"t": chance.choice(TIMES)}
    try:
        assert told(spec, batches(rows, cuts, narrow, odd=True)) == expected, (narrow["t"], spec)
    except ValueError as error:  # a window begins before 0
        assert "cannot hold" in str(error)
    if spec.emit == "final":
        postponed = told(spec, batches(rows, cuts, PLAIN), threads=2, most=chance.randint(1, 4))
        assert sorted(map(str, postponed)) == sorted(map(str, expected)), spec


@pytest.mark.parametrize("case", range(CASES))
def test_columns_of_nulls_alone_may_come_without_a_type(case: int) -> None:
    """After the first batch, which says their types."""
    chance = random.Random(f"nulls {SEED} {case}")
    spec, rows = query(chance), stream(chance, chance.choice([20, 60]))
    cuts = [0, *sorted(chance.randint(1, len(rows)) for _ in range(5)), len(rows)]
    typed, untyped = [], []
    for part in batches(rows, cuts, PLAIN):
        some = chance.sample(sorted(PLAIN.keys() - {"t"}), chance.randint(1, 6)) if typed else []
        for found, types in ((typed, PLAIN), (untyped, dict.fromkeys(PLAIN, pa.null()))):
            nothing = (pa.nulls(len(part), types[name]) for name in some)
            found.append(pa.table({name: part[name] for name in PLAIN} | dict(zip(some, nothing, strict=True))))
    for threads in (1, 3):
        assert told(spec, iter(untyped), threads=threads) == told(spec, iter(typed), threads=threads), spec


@pytest.mark.parametrize("case", range(5 * CASES))
def test_times_may_drift_further_than_int64_tells(case: int) -> None:
    """Push by push, with nothing closed in between: first and last ones are 2**63 apart, and more."""
    chance = random.Random(f"drift {SEED} {case}")
    spec = replace(query(chance, fills=False), watermark=sl.manual())  # so many empty windows are refused
    parts = [stream(chance, 12) for _ in range(3)]
    far = [-LIMIT // DAY * DAY, (APART - LIMIT) // DAY * DAY - 100 * DAY, LIMIT // DAY * DAY - 100 * DAY]
    found = []
    for origins in (far, [0, 100 * DAY, 200 * DAY]):
        op = sl.Operator(spec)
        for origin, rows in zip(origins, parts, strict=True):
            assert op.push(next(batches(rows, [0, 12], PLAIN, origin))).windows.num_rows == 0
        found.append([{n: plain(value) for n, value in row.items()} for row in op.flush().windows.to_pylist()])
        for row in found[-1]:
            for name in ("window_start", "window_end"):
                if row[name] is not None:
                    nearest = min(range(3), key=lambda part: abs(row[name] - origins[part]))
                    row[name] = nearest, row[name] - origins[nearest]
    assert found[0] == found[1], spec


@pytest.mark.parametrize("more", [{}, {"t": sl.tumbling(1 << 58)}], ids=["alone", "beside"])
def test_sessions_and_whole_streams_of_rows_further_apart_than_int64_tells(more: dict) -> None:
    """Key 2 has none in the middle."""
    windows = {"all": sl.whole(), "session": sl.session(5)}
    op = sl.Operator(sl.Spec("t", windows | more, {"n": sl.count()}, by=["k"], watermark=sl.manual()))
    low, middle, high = -LIMIT, APART - LIMIT, LIMIT - 3
    for t, k in (([low, low + 5, low], [1, 1, 2]), ([middle], [1]), ([high, high], [1, 2])):
        op.push(pa.table({"t": t, "k": k}))
    found = [tuple(row.values()) for row in op.flush().windows.to_pylist() if row["window"] != "t"]
    whole = [("all", low, high, k, n) for k, n in ((1, 4), (2, 2))]
    ends = [("session", t, t + 5, k, 1) for t, k in ((middle, 1), (high, 1), (low, 2), (high, 2))]
    assert sorted(found) == sorted([*whole, ("session", low, low + 10, 1, 2), *ends])


FAR_APART = [1752, 1772, 1916, 2080, 2081, 2092, 2110]  # each within reach of the one before; the ends are not


def in_units_of(unit: str, years: list[int]) -> pa.Array:
    days = pa.array([round((year - 1970) * 365.2425) for year in years], pa.int32())
    return days.cast(pa.date32()).cast(pa.timestamp(unit))


@pytest.mark.parametrize("days", [(1, 1), (3, 2), (2000, 3)])
@pytest.mark.parametrize("other", [sl.landmark("3650d"), sl.whole(), sl.session("100d"), sl.rows(2)], ids=repr)
def test_windows_that_grow_close_beside_windows_of_all_times(other: Any, days: tuple[int, int]) -> None:
    step, steps = days
    windows = {"c": sl.cumulate(f"{step * steps}d", f"{step}d"), "o": other}
    found = []
    for unit in ("ns", "us"):
        op, rows = sl.Operator(sl.Spec("t", windows, {"n": sl.count()})), []
        for year in FAR_APART:
            rows += op.push(pa.table({"t": in_units_of(unit, [year])})).windows.to_pylist()
        rows += op.flush().windows.to_pylist()
        found.append([(row["window"], str(row["window_end"])[:19], row["n"]) for row in rows])
    assert found[0] == found[1] and len(found[0]) > len(FAR_APART)


@pytest.mark.parametrize("trigger", [sl.after_count(1), sl.on_punctuation("m"), sl.every("1d")], ids=repr)
def test_early_results_of_rows_further_apart_than_int64_tells(trigger: sl.Trigger) -> None:
    years = [range(1752, 1917), range(1917, 2081), range(2081, 2171)]
    tables = [pa.table({"t": in_units_of("ns", list(some)), "m": [year % 3 == 0 for year in some]}) for some in years]
    spec = sl.Spec("t", {"w": sl.tumbling("2h")}, {"n": sl.count()}, emit="parts", trigger=trigger)
    for data in (tables, pa.concat_tables(tables)):
        assert sum(sl.aggregate(data, spec)["n"].to_pylist()) == 2171 - 1752
