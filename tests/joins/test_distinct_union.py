"""Duplicate elimination and unions, against their definitions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

SCHEMA = pa.schema(
    [("t", pa.int64()), ("k", pa.string()), ("s", pa.int64()), ("v", pa.int64()), ("x", pa.list_(pa.int64()))]
)
UUIDS = pa.array([bytes([i] * 16) for i in range(4)], pa.uuid())
ORIGINS = (0, 1_700_000_000_000_000_000, -(2**62))


def stream(rng: random.Random, size: int) -> list[dict]:
    origin = rng.choice(ORIGINS)
    return [
        {
            "t": origin + rng.randint(0, 40),
            "k": rng.choice(["a", "b", None]),
            "s": rng.randint(0, 1),
            "v": rng.choice([None, i]),
            "x": [i],
        }
        for i in range(size)
    ]


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def kept(rows: list[dict], within: object, keep: str, sequence: str | None) -> list[int]:
    """The rows that stay, by definition."""
    size = 2**64 if within == sl.whole() else 10
    low = -(2**63) if within == sl.whole() else 0
    if keep == "any":
        firsts = dict(reversed([(((row["t"] - low) // size, row["k"]), i) for i, row in enumerate(rows)]))
        return sorted(firsts.values())
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["t"], rows[i]["s"] if sequence else 0, i))
    if isinstance(within, int):
        before: dict = {}
        out = []
        for i in order:
            row = rows[i]
            if row["k"] not in before or row["t"] - before[row["k"]] >= within:
                out.append(i)
            before[row["k"]] = row["t"]
        return sorted(out)
    groups = defaultdict(list)
    for i in order:
        groups[(rows[i]["t"] - low) // size, rows[i]["k"]].append(i)
    return sorted(of[0] if keep == "first" else of[-1] for of in groups.values())


def numbers(rows: pa.Table) -> list[int]:
    return [x[0] for x in rows["x"].to_pylist()]


@pytest.mark.parametrize(
    ("within", "keep"),
    [
        (7, "first"),
        *((window, keep) for window in (sl.tumbling(10), sl.whole()) for keep in ("first", "last", "any")),
    ],
)
@pytest.mark.parametrize("sequence", [None, "s"])
def test_rows_stay_as_the_definition_says_however_they_are_split(
    within: object, keep: str, sequence: str | None
) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        rows = stream(rng, rng.randint(1, 30))
        wanted = kept(rows, within, keep, sequence)
        assert sorted(numbers(sl.distinct(table(rows), ["k"], "t", within, keep, sequence))) == wanted, seed
        spec = sl.DistinctSpec(["k"], "t", within, keep, sequence, sl.bounded(100))
        op, found, at = sl.Distinct(spec), [], 0
        while at < len(rows):
            size = rng.randint(1, 9)
            found += numbers(op.push(table(rows[at : at + size])).rows)
            at += size
            if rng.random() < 0.3:
                op = sl.Distinct.restore(spec, op.snapshot())
        assert sorted(found + numbers(op.flush().rows)) == wanted, seed


def test_a_row_comes_once_it_is_certain_and_late_rows_come_back() -> None:
    op = sl.Distinct(sl.DistinctSpec("id", "t", sl.tumbling(10)))
    assert op.push(pa.table({"t": [1, 2], "id": ["a", "a"], "v": [5, None]})).rows.num_rows == 0
    out = op.push(pa.table({"t": [10], "id": ["a"], "v": [7]}))
    assert out.rows.to_pylist() == [{"t": 1, "id": "a", "v": 5}] and out.watermark == 10
    out = op.push(pa.table({"t": [3], "id": ["b"], "v": [8]}))
    assert out.late.to_pylist() == [{"t": 3, "id": "b", "v": 8, "reason": "late"}] and out.stats.late == 1
    assert op.advance(20).rows.to_pylist() == [{"t": 10, "id": "a", "v": 7}]


def test_any_row_comes_at_once_and_is_forgotten_with_its_window() -> None:
    op = sl.Distinct(sl.DistinctSpec("id", "t", sl.tumbling(10), "any", watermark=sl.bounded(5)))
    out = op.push(pa.table({"t": [3, 1, 12], "id": ["a", "a", "a"], "v": [1, 2, 3]}))
    assert out.rows["v"].to_pylist() == [1, 3] and out.late.num_rows == 0
    assert op.push(pa.table({"t": [2, 4], "id": ["a", "b"], "v": [4, 5]})).rows["v"].to_pylist() == [5]
    out = op.push(pa.table({"t": [16, 9, 17], "id": ["a", "c", "c"], "v": [6, 7, 8]}))
    assert out.rows["v"].to_pylist() == [7, 8]  # the window was open before the push
    assert out.watermark == 10  # rows of the open window from 10 on may still come, and are new
    out = op.push(pa.table({"t": [9, 14], "id": ["d", "d"], "v": [9, 10]}))
    assert out.rows["v"].to_pylist() == [10] and out.late["v"].to_pylist() == [9]
    sizes = []
    for step in range(2, 40):
        keys = [f"{step} {number}" for number in range(500)]
        op.push(pa.table({"t": [10 * step] * 500, "id": keys, "v": range(500)}))
        sizes.append(len(op.snapshot()))
    assert max(sizes[20:]) < 2 * max(sizes[3:8]) and op.flush().rows.num_rows == 0


@pytest.mark.parametrize(
    ("within", "keep"),
    [
        (7, "first"),
        *((window, keep) for window in (sl.tumbling(10), sl.whole()) for keep in ("first", "last", "any")),
    ],
)
def test_no_row_comes_before_the_watermark_of_the_results_and_none_is_late_in_a_chain(
    within: object, keep: str
) -> None:
    for seed in range(25):
        rng = random.Random(seed)
        rows = sorted(stream(rng, 30), key=lambda row: row["t"] + rng.randint(0, 4 if keep != "any" else 0))
        spec = sl.DistinctSpec(["k"], "t", within, keep, watermark=sl.bounded(4))
        windows = sl.Spec("t", {"three": sl.tumbling(3)}, {"n": sl.count(), "all": sl.sum("v")}, watermark=sl.manual())
        op, chain = sl.Distinct(spec), sl.chain(sl.Distinct(spec), sl.Operator(windows))
        reached, found, results = None, [], []
        for at in range(0, 30, 3):
            out = op.push(table(rows[at : at + 3]))
            assert not out.rows.num_rows or reached is None or min(out.rows["t"].to_pylist()) >= reached, seed
            reached = out.watermark
            found.append(out.rows)
            results.append(chain.push(table(rows[at : at + 3])).windows)
        found.append(op.flush().rows)
        results.append(chain.flush().windows)
        given = pa.concat_tables([some for some in results if some.num_rows])
        wanted = sl.aggregate(pa.concat_tables([some for some in found if some.num_rows]), windows)
        assert given.sort_by("window_start").equals(wanted), seed


@pytest.mark.parametrize("keep", ["first", "last", "any"])
@pytest.mark.parametrize("tags", [UUIDS, pa.StructArray.from_arrays([UUIDS], ["id"])])
def test_columns_of_extension_types_come_along(keep: str, tags: pa.Array) -> None:
    rows = pa.table({"t": [1, 2, 3, 30], "k": ["a", "a", "b", "a"], "tag": tags})
    spec = sl.DistinctSpec(on=["k"], time="t", within=sl.tumbling(10), keep=keep, watermark=sl.bounded(0))
    found = sl.distinct(rows, on=["k"], time="t", within=sl.tumbling(10), keep=keep)
    stay = [1, 2, 3] if keep == "last" else [0, 2, 3]
    assert found.sort_by("t").equals(rows.take(stay))
    op = sl.Distinct(spec)
    out = [op.push(rows.slice(0, 0)), op.push(rows.slice(0, 2))]
    op = sl.Distinct.restore(spec, op.snapshot())
    out += [op.push(rows.slice(2)), op.push(rows.slice(1, 1)), op.flush()]
    assert pa.concat_tables([one.rows for one in out if one.rows.num_rows]).sort_by("t").equals(rows.take(stay))
    assert [one.late["tag"].to_pylist() for one in out if one.late.num_rows] == [[tags[1].as_py()]]


def test_distinct_takes_a_spec_or_its_arguments() -> None:
    rows = pa.table({"t": [1, 2, 12], "k": ["a", "a", "a"]})
    spec = sl.DistinctSpec("k", "t", sl.tumbling(10), keep="last", watermark=sl.manual())
    kept = sl.distinct(rows, spec)
    assert kept["t"].to_pylist() == [2, 12] and kept.equals(sl.distinct(rows, "k", "t", sl.tumbling(10), "last"))


def test_what_distinct_refuses() -> None:
    with pytest.raises(ValueError, match="on: column 'window' has the name of a column that windows have; rename it"):
        sl.DistinctSpec(["id", "window"], "t", sl.tumbling(5))
    with pytest.raises(ValueError, match="keep='last' needs a window"):
        sl.DistinctSpec("id", "t", 5, "last")
    with pytest.raises(
        TypeError, match=r"within must be sl.tumbling\(...\), sl.calendar\(...\), sl.whole\(\) or a span .*session"
    ):
        sl.DistinctSpec(on=["id"], time="t", within=sl.session(5))
    with pytest.raises(ValueError, match="keep='any' needs a window"):
        sl.DistinctSpec("id", "t", 5, "any")
    with pytest.raises(ValueError, match="keep must be one of 'first', 'last', 'any'; got 'some'"):
        sl.DistinctSpec("id", "t", sl.tumbling(5), "some")
    with pytest.raises(ValueError, match="column 'id' is missing in the data; its columns are t"):
        sl.distinct(pa.table({"t": [1]}), "id", "t", 5)


def test_a_unions_watermark_is_the_least_of_its_sources() -> None:
    union = sl.Union({"a": sl.bounded(0), "b": sl.bounded(5), "c": sl.manual()}, "t")
    assert union.push("a", pa.table({"t": [10], "v": [1]})).watermark is None
    assert union.push("b", pa.table({"v": [1], "t": [18]})).watermark is None
    assert union.advance("c", 12).watermark == 10
    out = union.push("a", pa.table({"t": [30, 7], "v": [2, 3]}))
    assert out.watermark == 12
    assert out.rows.to_pylist() == [{"t": 30, "v": 2, "source": "a"}, {"t": 7, "v": 3, "source": "a"}]
    assert union.advance("c", 5).watermark == 12


def test_a_union_takes_columns_that_arrow_makes_no_empty_list_into() -> None:
    union = sl.Union({"a": sl.bounded(0), "b": sl.manual()}, time="t")
    rows = pa.table({"t": [1, 2, 3, 4], "tag": pa.StructArray.from_arrays([UUIDS], ["id"])})
    assert union.push("a", rows).rows.drop("source").equals(rows)
    out = union.advance("b", 3)
    assert (out.watermark, out.rows.num_rows, out.rows.column_names) == (3, 0, ["t", "tag", "source"])


def test_a_silent_source_does_not_hold_a_union_back() -> None:
    union = sl.Union({"a": sl.bounded(0), "b": sl.bounded(0)}, "t", idle=10)
    assert union.push("a", pa.table({"t": [5]})).watermark is None
    assert union.push("b", pa.table({"t": [6]})).watermark == 5
    assert union.push("a", pa.table({"t": [15]})).watermark == 6
    assert union.push("a", pa.table({"t": [16]})).watermark == 16  # "b" is as far behind as idle says: it is silent
    assert union.push("a", pa.table({"t": [17]})).watermark == 17
    assert union.push("b", pa.table({"t": [12]})).watermark == 17


@pytest.mark.parametrize("keep", ["first", "last", "any", "span"])
def test_a_watermark_may_come_before_the_first_rows_of_a_distinct(keep: str) -> None:
    asked = {"within": 10} if keep == "span" else {"within": sl.tumbling(10), "keep": keep}
    spec = sl.DistinctSpec("k", "t", watermark=sl.manual(), **asked)
    op = sl.Distinct(spec)
    assert op.advance(10).rows.num_rows == 0
    op = sl.Distinct.restore(spec, op.snapshot())
    out = op.push(pa.table({"t": [5, 12], "k": ["a", "a"]}))
    assert out.late["t"].to_pylist() == [5] and out.watermark == 10
    assert op.flush().rows["t"].to_pylist() == ([] if keep == "any" else [12])
    assert sl.Distinct(spec).flush().rows.num_rows == 0


def test_a_watermark_may_come_before_the_first_rows_of_a_union() -> None:
    union = sl.Union({"a": sl.bounded(0), "b": sl.manual()}, "t")
    out = union.advance("b", "1970-01-01T00:00:09")
    assert (out.rows.num_columns, out.watermark) == (0, None)
    assert union.advance("b", np.datetime64(7, "s")).watermark is None  # no watermark goes back
    with pytest.raises(TypeError, match=r"watermark must be a whole number, a datetime, .*; got 1\.5"):
        union.advance("b", 1.5)
    wrong = r"watermark of source 'b' must be a whole number, as the time .* by advance before the first push: advance"
    with pytest.raises(TypeError, match=wrong):
        union.push("a", pa.table({"t": [20]}))
    out = union.push("a", pa.table({"t": pa.array([20], pa.timestamp("s"))}))
    assert str(out.watermark) == "1970-01-01 00:00:09"
    numbers = sl.Union({"a": sl.manual()}, "t")
    assert [numbers.advance("a", mark).watermark for mark in (12, 5)] == [None, None]
    assert numbers.push("a", pa.table({"t": [5]})).watermark == 12


@pytest.mark.parametrize("policy", [sl.punctuated("mark"), sl.manual()])
def test_a_source_that_sends_rows_between_marks_is_not_silent(policy: object) -> None:
    union = sl.Union({"a": policy, "b": sl.bounded(0)}, "t", idle=30)

    def push(source: str, time: int, mark: bool = False) -> object:
        return union.push(source, pa.table({"t": [time], "mark": [mark]})).watermark

    push("a", 0, mark=True)
    if policy == sl.manual():
        union.advance("a", 0)
    reached = [push(source, time) for time in range(0, 60, 5) for source in "ab"]
    assert reached[-1] == 0, "both speak every 5 ticks, and the mark of a is at 0"
    assert push("b", 90) == 90, "now a is silent for longer than idle"


def test_what_a_union_refuses() -> None:
    union = sl.Union({"a": sl.bounded(0), "b": sl.bounded(0)}, "t")
    union.push("a", pa.table({"t": [5], "v": [1]}))
    with pytest.raises(ValueError, match=r"source \['a'\] is none of the union's: 'a', 'b'"):
        union.push(["a"], pa.table({"t": [5], "v": [1]}))
    with pytest.raises(ValueError, match="source 'c' is none of the union's: 'a', 'b'"):
        union.push("c", pa.table({"t": [5], "v": [1]}))
    with pytest.raises(ValueError, match=r"differ from the first ones in 'v' \(double instead of int64\)$"):
        union.push("b", pa.table({"t": [5], "v": [1.5]}))
    with pytest.raises(ValueError, match="time column 't' of source 'b' is null in row 0"):
        union.push("b", pa.table({"t": pa.array([None], pa.int64()), "v": [1]}))
    with pytest.raises(ValueError, match=r"table 1 differs from the first one in 'v' \(missing instead of int64\)$"):
        sl.union([pa.table({"t": [1], "v": [2]}), pa.table({"t": [1]})])
    assert union.push("b", pa.table({"t": [4], "v": [1]})).watermark == 4
    assert repr(union).startswith("<sl.Union of 'a': sl.")
    spec = sl.DistinctSpec(["k"], "t", within=5)
    assert repr(sl.Distinct(spec)) == f"<sl.Distinct of {spec!r}>"


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: sl.Union({"a": sl.bounded(0)}, time=1), "time must be the name of a column; got 1"),
        (lambda: sl.Union({"a": sl.bounded(0)}, "t", source=""), "source must be the name of a column; got ''"),
        (lambda: sl.Union({"a": sl.bounded(0, at_most_ahead=5)}, "t"), r"sources\['a'\] takes no at_most_ahead"),
        (lambda: sl.union(None), "tables must be a list of tables; got NoneType"),
        (lambda: sl.union(pa.table({"t": [1]})), "tables must be a list of tables; got Table"),
        (lambda: sl.DistinctSpec(1, "t", 5), "on must be a list of column names; got 1"),
        (lambda: sl.DistinctSpec([None], "t", 5), "on must be the name of a column; got None"),
        (lambda: sl.DistinctSpec("id", None, 5), "time must be the name of a column; got None"),
    ],
)
def test_wrong_arguments_are_named(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        build()


@pytest.mark.parametrize("policy", [sl.per_source("x", 1), sl.punctuated("x")])
def test_a_union_reads_the_columns_of_its_watermarks(policy: object) -> None:
    union = sl.Union({"a": sl.manual(), "b": policy}, "t")
    with pytest.raises(ValueError, match="column 'x' is missing in the data; its columns are t"):
        union.push("a", pa.table({"t": [5]}))
    with pytest.raises(TypeError, match="'x' has type double"):
        union.push("b", pa.table({"t": [5], "x": [1.5]}))
    assert union.push("b", pa.table({"t": [5], "x": [4]})).rows.num_rows == 1


@pytest.mark.parametrize("keep", ["first", "last", "any"])
def test_all_batches_of_distinct_rows_have_the_columns_of_the_first(keep: str) -> None:
    rows = pa.table({"t": [2**62, 2**62 + 1], "id": ["a", "b"], "v": [1, 2]})
    spec = sl.DistinctSpec("id", "t", sl.tumbling(10), keep, watermark=sl.bounded(2))
    op = sl.Distinct(spec)
    found = [op.push(rows)]
    op = sl.Distinct.restore(spec, op.snapshot())
    before = op.snapshot()
    with pytest.raises(TypeError, match="column 'v' was int64 in the first batch; this one has string: cast it"):
        op.push(rows.set_column(2, "v", pa.array(["x", "y"])))
    with pytest.raises(TypeError, match="column 'v' was int64 in the first batch"):
        op.push(rows.drop(["v"]))
    assert op.snapshot() == before
    other = pa.table({"v": pa.nulls(2), "more": [1, 2], "id": ["c", "d"], "t": [2**62 - 9, 2**62 + 30]})
    found += [op.push(other), op.flush()]
    assert {str(table.schema) for out in found for table in [out.rows]} == {str(rows.schema)}
    assert [out.late["id"].to_pylist() for out in found if out.late.num_rows] == [["c"]]
    assert sorted(i for out in found for i in out.rows["id"].to_pylist()) == ["a", "b", "d"]


@pytest.mark.parametrize("type", [pa.uint8(), pa.uint32(), pa.uint64(), pa.int64()], ids=str)
def test_a_watermark_may_be_before_the_first_time_of_the_column(type: pa.DataType) -> None:
    spec = sl.DistinctSpec(on=["k"], time="t", within=sl.tumbling(5), keep="any", watermark=sl.bounded(10))
    op = sl.Distinct(spec)
    found = [op.push(pa.table({"k": ["a"], "t": pa.array([t], type)})).rows.num_rows for t in (1, 3, 50, 60, 61)]
    assert found == [1, 0, 1, 1, 0]


def test_a_unions_watermark_before_all_instants_is_the_first_one() -> None:
    union = sl.Union({"a": sl.bounded("10ns")}, time="t")
    times = pa.array([2 - (1 << 63)], pa.int64()).cast(pa.timestamp("ns"))
    assert union.push("a", pa.table({"t": times})).watermark == np.datetime64(1 - (1 << 63), "ns")


@pytest.mark.parametrize("keep", ["first", "last", "any"])
@pytest.mark.parametrize("watermark", [sl.per_source("src", 5), sl.punctuated("m")], ids=repr)
def test_the_watermark_of_distinct_may_read_columns_of_its_own(watermark: object, keep: str) -> None:
    spec = sl.DistinctSpec("id", "t", sl.tumbling(10), keep, watermark=watermark)
    rows = {"t": [1, 2, 12, 30], "id": ["a", "a", "a", "b"], "src": ["x"] * 4, "m": [None, None, None, 25]}
    op = sl.Distinct(spec)
    found = [op.push(pa.table(rows)).rows, op.flush().rows]
    assert sorted(t for table in found for t in table["t"].to_pylist()) == [2 if keep == "last" else 1, 12, 30]


@pytest.mark.parametrize("keep", ["first", "last", "any"])
def test_no_name_of_a_column_is_taken_by_distinct(keep: str) -> None:
    names = ["__row", "__place", "__least", "reason"]
    rows = pa.table({"t": [5, 100, 7], "__row": ["a", "b", "c"], "__place": [1, 2, 3], "__least": [4, 5, 6]})
    rows = rows.append_column("reason", pa.array(["x", "y", "z"]))
    for on in ("__row", "__place", "__least"):
        op = sl.Distinct(sl.DistinctSpec(on, "t", sl.tumbling(10), keep, watermark=sl.bounded(0)))
        out, late, rest = op.push(rows.slice(0, 2)), op.push(rows.slice(2)), op.flush()
        assert late.late.column_names == ["t", *names, "late_reason"]
        assert late.late.to_pylist() == [{**rows.slice(2).to_pylist()[0], "late_reason": "late"}]
        found = [row for table in (out.rows, late.rows, rest.rows) for row in table.to_pylist()]
        assert found == rows.slice(0, 2).to_pylist()
    assert sl.distinct(rows, "__row", "t", 3).to_pylist() == rows.take([0, 2, 1]).to_pylist()


def test_a_key_of_distinct_is_named_once() -> None:
    with pytest.raises(ValueError, match="on names column 'k' twice"):
        sl.DistinctSpec(["k", "k"], "t", sl.tumbling(10))


def test_a_window_is_remembered_until_the_watermark_has_passed_it() -> None:
    """A row that comes at the last moment is not taken for the first of its key and window."""
    op = sl.Distinct(sl.DistinctSpec("k", "t", sl.tumbling(10), "any", watermark=sl.manual()))
    keys = [f"k{i}" for i in range(8)]
    assert op.push(pa.table({"t": [9] * 8, "k": keys})).rows.num_rows == 8
    op.advance(9)
    assert op.push(pa.table({"t": [9] * 8, "k": keys})).rows.num_rows == 0


def test_a_null_time_in_a_union_is_told_with_its_row() -> None:
    union = sl.Union({"a": sl.bounded(0)}, time="t")
    with pytest.raises(ValueError, match="time column 't' of source 'a' is null in row 1"):
        union.push("a", pa.table({"t": [1, None]}))


def test_a_watermark_of_a_union_beyond_all_times_is_the_last_one() -> None:
    union = sl.Union({"a": sl.bounded(0)}, time="t")
    union.push("a", pa.table({"t": pa.array([1], pa.timestamp("us"))}))
    union.advance("a", 2**63)
    assert union.push("a", pa.table({"t": pa.array([1], pa.timestamp("us"))})).rows.num_rows == 1


@pytest.mark.parametrize("values", [pa.array([5, 6, 7]), pa.array([0.5, 1.5, None]), pa.array([True, False, None])])
@pytest.mark.parametrize("nested", ["struct", "list"])
def test_late_rows_have_dictionaries_of_any_values_inside(nested: str, values: pa.Array) -> None:
    def rows(*times: int) -> pa.Table:
        column = pa.DictionaryArray.from_arrays(pa.array([time % 3 for time in times], pa.int8()), values)
        if nested == "struct":
            column = pa.StructArray.from_arrays([column], ["a"])
        else:
            column = pa.ListArray.from_arrays(pa.array(range(len(times) + 1), pa.int32()), column)
        return pa.table({"t": list(times), "id": list(times), "v": column})

    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}))
    distinct = sl.Distinct(sl.DistinctSpec("id", "t", sl.tumbling(10)))
    for one in (op, distinct):
        one.push(rows(1, 2, 3))
        one.push(rows(11, 12))
        assert one.push(rows(2, 13, 25)).late["v"].to_pylist() == rows(2)["v"].to_pylist()


def test_a_slice_with_nulls_without_a_type_inside_is_passed_on() -> None:
    table = pa.table({"t": range(300), "c": [{"a": n, "b": None} for n in range(300)]}).slice(100, 50)
    assert sl.Union({"a": sl.bounded(0)}, "t").push("a", table).rows["c"].to_pylist() == table["c"].to_pylist()
    assert sl.union([table, table]).num_rows == 100


def test_a_key_is_never_forgotten_with_whole() -> None:
    """The first row of each key comes at once, however late; rows of years later are its duplicates."""
    start, year = 1_714_564_800_000_000_000, 365 * 24 * 3600 * 10**9
    op = sl.Distinct(sl.DistinctSpec("id", "t", sl.whole(), "any", watermark=sl.manual()))
    times = pa.array([start, start + year, start - year], pa.timestamp("ns"))
    assert op.push(pa.table({"t": times, "id": ["a", "b", "a"], "v": [1, 2, 3]})).rows["v"].to_pylist() == [1, 2]
    out = op.push(pa.table({"t": times, "id": ["a", "c", "d"], "v": [4, 5, 6]}))
    assert out.rows["v"].to_pylist() == [5, 6] and out.late.num_rows == 0 and out.watermark is None
    assert op.flush().rows.num_rows == 0


@pytest.mark.parametrize("case", range(60))
def test_rows_of_whole_data_without_an_earlier_one_within_a_span(case: int) -> None:
    chance = random.Random(f"span {case}")
    size, since = chance.choice([0, 1, 6, 60]), chance.choice([0, -7, 1_764_000_000_000_000_000])
    span = chance.choice([1, 2, 7, 1 << 59])
    columns = {
        "t": pa.array([since + chance.randrange(40) for _ in range(size)], pa.int64()),
        "k": pa.array([chance.choice(["a", "", None]) for _ in range(size)], pa.string()),
        "f": pa.array([chance.choice([0.0, -0.0, float("nan"), None]) for _ in range(size)], pa.float64()),
        "s": pa.array([chance.choice([None, 1, 2]) for _ in range(size)], pa.int64()),
        "row": pa.array(range(size), pa.int64()),
    }
    if since > 0 and chance.random() < 0.5:
        columns["t"], span_asked = columns["t"].cast(pa.timestamp("ns")), f"{span}ns"
    else:
        span_asked = span
    rows = pa.table(columns)
    on, sequence = chance.choice([["k"], ["f"], ["k", "f"], []]), chance.choice([None, "s"])
    ticks = rows["t"].cast(pa.int64()).to_pylist()
    named = [dict(row, t=time) for row, time in zip(rows.to_pylist(), ticks, strict=True)]

    def key(row: dict) -> tuple:
        values = [row[name] for name in on]
        return tuple((value is not None, value != value, 0 if value != value else value or value) for value in values)

    def place(row: dict) -> tuple:
        return row["t"], -1 if sequence is None or row["s"] is None else row["s"], row["row"]

    kept = []
    for row in named:
        earlier = [r for r in named if key(r) == key(row) and place(r) < place(row) and row["t"] - r["t"] < span]
        kept += [] if earlier else [row]
    order = sorted(kept, key=lambda row: (row["t"], [(a, b, "" if c is None else c) for a, b, c in key(row)]))
    found = sl.distinct(rows, on, "t", span_asked, sequence=sequence)
    assert found["row"].to_pylist() == [row["row"] for row in order]
    assert found.schema == rows.schema
