"""Values of a dictionary-encoded column come back as a dictionary, whoever gives them out."""

import datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl

T0 = 1_699_920_000_000_000_000  # ns since 1970
MINUTE = 60_000_000_000
INT32, INT8 = pa.int32(), pa.int8()
PICKED = {
    "min": sl.min("c"),
    "max": sl.max("c"),
    "first": sl.first("c"),
    "last": sl.last("c"),
    "low": sl.argmin("v", "c"),
    "high": sl.argmax("v", "c"),
    "mode": sl.mode("c"),
}
VALUES = {
    "text": (["b", None, "a", "c", "a", "a"], pa.string()),
    "large text": (["b", None, "a", "c", "a", "a"], pa.large_string()),
    "bytes": ([b"b", None, b"a", b"c", b"a", b"a"], pa.binary()),
    "integers": ([5, None, -3, 2**62, -3, -3], pa.int64()),
    "floats": ([0.5, None, -1.5, 2.0, -1.5, -1.5], pa.float64()),
    "times": ([T0, None, T0 - 1, T0 + 1, T0 - 1, T0 - 1], pa.timestamp("ns", "UTC")),
    "days": ([datetime.date(2024, 1, d) if d else None for d in (5, 0, 1, 9, 1, 1)], pa.date32()),
    "decimals": ([Decimal(d) if d else None for d in ("5", None, "1", "9", "1", "1")], pa.decimal128(30, 2)),
}
ANSWERS = {"min": 2, "max": 3, "first": 0, "last": 5, "low": 2, "high": 4, "mode": 2}  # rows with the answers


def coded(values, value_type, index_type=INT32) -> pa.DictionaryArray:
    found = pa.array(values, value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(found.indices.cast(index_type), found.dictionary)


def rows(values, value_type, index_type=INT32, at=0, keys=None) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "t": pa.array([T0 + at + i for i in range(count)], pa.timestamp("ns", "UTC")),
            "k": pa.array(["x"] * count if keys is None else keys),
            "v": pa.array([3, 2, 1, 4, 9, 5][:count] + [0] * (count - 6)),
            "c": coded(values, value_type, index_type),
        }
    )


def spec(**arguments) -> sl.Spec:
    return sl.Spec("t", **({"windows": {"m": sl.tumbling("1h")}, "aggs": PICKED, "by": "k"} | arguments))


def words(numbers: range) -> list[str]:
    return [f"w{n:04}" for n in numbers]


@pytest.mark.parametrize("index_type", [INT8, pa.uint16(), pa.int64()], ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_every_type_of_values_and_of_indices_comes_back(name, index_type):
    values, type = VALUES[name]
    found = sl.aggregate(rows(values, type, index_type), spec())
    for agg, row in ANSWERS.items():
        assert found.schema.field(agg).type == pa.dictionary(index_type, type)
        assert found[agg].to_pylist() == pa.array(values, type).take(pa.array([row])).to_pylist()
    found.validate(full=True)


def test_of_nulls_alone_it_is_null():
    found = sl.aggregate(rows([None, None], pa.string()), spec())
    assert [found[agg].to_pylist() for agg in PICKED] == [[None]] * len(PICKED)
    assert found.schema.field("min").type == pa.dictionary(pa.int32(), pa.string())


def test_values_in_structs_lists_and_arithmetic_are_plain():
    aggs = {
        "m4": sl.m4("c"),
        "all": sl.collect("c"),
        "two": sl.argmax("v", ["c", "v"]),
        "span": sl.max("n") - sl.min("n"),
    }
    data = rows(*VALUES["text"]).append_column("n", coded([1, None, 4, 2, 9, 9], pa.int64()))
    found = sl.aggregate(data, spec(aggs=aggs))
    assert found.schema.field("m4").type.field("min").type == pa.string()
    assert found.schema.field("all").type == pa.list_(pa.string())
    assert found.schema.field("two").type.field("c").type == pa.string()
    assert (found.schema.field("span").type, found["span"].to_pylist()) == (pa.int64(), [8])


@pytest.mark.parametrize("emit", ["final", "updates", "changes", "parts"])
def test_streams_of_batches_with_dictionaries_of_their_own(emit):
    asked = spec(emit=emit, **({"allowed_lateness": "1h"} if emit in ("updates", "changes") else {}))
    op, found = sl.Operator(asked), []
    for at, batch in enumerate([["b", "a"], ["c", None], ["a", "d"], ["z"]]):
        found.append(op.push(rows(batch, pa.string(), at=at * 40 * MINUTE)).windows)
        op = sl.Operator.restore(asked, op.snapshot())
    late = rows(["0"], pa.string(), at=50 * MINUTE)
    found += [op.push(late).windows, op.flush().windows]
    whole = pa.concat_tables(found)
    assert whole.schema.field("min").type == pa.dictionary(pa.int32(), pa.string())
    assert {"b", "a", "d"} >= set(whole["min"].to_pylist()) - {None, "c", "z", "0"}
    plain = sl.Operator(asked)
    expected = []
    for at, batch in enumerate([["b", "a"], ["c", None], ["a", "d"], ["z"]]):
        expected.append(plain.push(decoded(rows(batch, pa.string(), at=at * 40 * MINUTE))).windows)
    expected += [plain.push(decoded(late)).windows, plain.flush().windows]
    assert whole.to_pylist() == pa.concat_tables(expected).to_pylist()


def decoded(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("c"), "c", table["c"].cast(pa.string()))


def test_a_changelog_of_dictionaries():
    data = rows(["b", "a", "a", "c"], pa.string()).append_column("op", pa.array(["+", "+", "-", "+"]))
    data = data.set_column(0, "t", pa.array([T0] * 4, pa.timestamp("ns", "UTC")))
    data = data.set_column(2, "v", pa.array([1, 2, 2, 3]))
    found = sl.aggregate(data, spec(op="op", aggs={"least": sl.min("c"), "most": sl.max("c"), "mode": sl.mode("c")}))
    assert found.schema.field("least").type == pa.dictionary(pa.int32(), pa.string())
    assert [found[name].to_pylist() for name in ("least", "most", "mode")] == [["b"], ["c"], ["b"]]


NARROW = pa.dictionary(INT8, pa.string())


def narrow() -> pa.Table:
    """300 keys of one row each, whose 300 values int8 does not tell apart: each chunk has 100 of them."""
    parts = [words(range(at, at + 100)) for at in (0, 100, 200)]
    tables = [rows(part, pa.string(), INT8, 60 * at * MINUTE, part) for at, part in enumerate(parts)]
    return pa.concat_tables(tables)


def test_indices_too_narrow_for_all_values_of_a_result():
    found = sl.aggregate(narrow(), spec(windows={"all": sl.tumbling("30d")}, aggs={"least": sl.min("c")}))
    assert found.schema.field("least").type == NARROW
    assert found["least"].to_pylist() == found["k"].to_pylist() == words(range(300))
    wide = sl.aggregate(narrow(), spec(windows={"all": sl.tumbling("30d")}, aggs={"least": sl.min("c")}), layout="wide")
    assert (wide.schema.field("least_all").type, wide["least_all"].to_pylist()) == (NARROW, words(range(300)))
    attached = sl.attach(narrow(), spec(aggs={"own": sl.last("c")}))
    assert (attached.schema.field("own").type, attached["own"].to_pylist()) == (NARROW, words(range(300)))


def test_indices_too_narrow_for_all_keys():
    """As of frames whose categories differ."""
    table = narrow().drop_columns("k").rename_columns({"c": "k"})
    asked = spec(windows={"all": sl.tumbling("30d")}, aggs={"total": sl.sum("v")})
    long, wide = sl.aggregate(table, asked), sl.aggregate(table, asked, layout="wide")
    assert wide.schema.field("k").type == long.schema.field("k").type == NARROW
    assert wide["k"].to_pylist() == long["k"].to_pylist() == words(range(300))
    assert wide["total_all"].to_pylist() == long["total"].to_pylist()


def test_chunks_whose_dictionaries_have_a_null_or_a_value_twice_are_joined():
    def chunk(values, codes):
        return pa.DictionaryArray.from_arrays(pa.array(codes, INT8), pa.array(values))

    for own, others in (["b", None, "a"], [None, "c", "b"]), (["b", "b", "a"], ["c", "c", "b"]):
        column = pa.chunked_array([chunk(own, [0, 1, 2, None]), chunk(others, [0, 1, 2, 1])])
        table = pa.table({"t": range(8), "c": column, "v": range(8)})
        plain = table.set_column(1, "c", column.cast(pa.string()))
        for call in (
            lambda data: sl.join(data, data, on="v", time="t", within=(0, 0)),
            lambda data: sl.join(data, data.select(["t", "c"]), on="c", time="t", within=(-9, 9)),
            lambda data: sl.features(data, data, on="c", time="t", ranges={"a": 9}, aggs={"last": sl.last("v")}),
            lambda data: sl.distinct(data, ["c"], "t", sl.tumbling(4)),
            lambda data: sl.union([data, data]),
            lambda data: sl.Operator(sl.Spec("t", {"w": sl.tumbling(4)}, {"n": sl.count()}, by="c")).push(data).windows,
        ):
            assert call(table).to_pylist() == call(plain).to_pylist()
            assert pa.types.is_dictionary(call(table).schema.field("c").type)


def test_chunks_with_an_order_keep_it_or_are_refused():
    def chunk(values, codes):
        return pa.DictionaryArray.from_arrays(pa.array(codes, INT8), pa.array(values), ordered=True)

    def joined(*chunks):
        data = pa.table({"t": range(6), "c": pa.chunked_array(chunks), "v": range(6)})
        return sl.join(data, data.select(["t", "v"]), on="v", time="t", within=(0, 0))["c"]

    found = joined(chunk(["s", "m", "l"], [2, 0, 1]), chunk(["s", "m", "l", None], [3, 0, 2]))
    assert found.type.ordered and found.chunk(0).dictionary.to_pylist() == ["s", "m", "l"]
    assert found.to_pylist() == ["l", "s", "m", None, "s", "l"]
    with pytest.raises(
        ValueError, match=r"column 'c' has type .*, and its pieces have other values or another order: cast"
    ):
        joined(chunk(["s", "m", "l"], [2, 0, 1]), chunk(["m", "s", None], [2, 0, 1]))


def test_tables_of_other_columns_are_not_joined_by_position():
    one = pa.table({"t": [1], "v": [100], "k": coded(["a"], pa.string())})
    other = pa.table({"v": [300], "t": [3], "k": coded(["b"], pa.string())})
    with pytest.raises(pa.ArrowInvalid, match="Schema"):
        sl.join([one, other], one, on="k", time="t", within=(0, 9))


@pytest.mark.parametrize("value", [[1], {"a": 1}])
@pytest.mark.parametrize("agg", [sl.first, sl.last, sl.collect])
def test_dictionaries_of_nested_values_say_what_to_do(agg, value):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, None]), pa.array([value]))
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"a": agg("c")})
    with pytest.raises(TypeError, match=r"column 'c' is a dictionary of .*; give its values, column\.dictionary\.take"):
        sl.aggregate(pa.table({"t": [1, 2, 3], "c": column}), spec)
    counted = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count("c")})
    assert sl.aggregate(pa.table({"t": [1, 2, 3], "c": column}), counted)["n"].to_pylist() == [2]
    given = column.dictionary.take(column.indices)
    assert sl.aggregate(pa.table({"t": [1, 2, 3], "c": given}), spec).num_rows == 1


def test_rollup_of_parts():
    op = sl.Operator(spec(emit="parts", aggs={"least": sl.min("c"), "most": sl.max("c")}))
    pushed = [rows(["b", "a"], pa.string()), rows(["d", "c"], pa.string(), at=120 * MINUTE)]
    parts = pa.concat_tables([*(op.push(batch).windows for batch in pushed), op.flush().windows])
    found = sl.rollup(parts, windows={"d": sl.tumbling("1d")})
    assert found.schema.field("least").type == pa.dictionary(pa.int32(), pa.string())
    assert (found["least"].to_pylist(), found["most"].to_pylist()) == (["a"], ["d"])


def test_windows_of_windows_in_a_chain():
    hours, days = (
        spec(aggs={"c": sl.last("c")}),
        sl.Spec("window_end", {"d": sl.tumbling("1d")}, {"c": sl.max("c")}, by="k", watermark=sl.manual()),
    )
    chain = sl.chain(sl.Operator(hours), sl.Operator(days))
    found = [
        chain.push(rows(["b", "e"], pa.string())),
        chain.push(rows(["c"], pa.string(), at=90 * MINUTE)),
        chain.flush(),
    ]
    table = pa.concat_tables([out.windows for out in found if out.windows.num_rows])
    assert table.schema.field("c").type == pa.dictionary(pa.int32(), pa.string())
    assert table["c"].to_pylist() == ["e"]


@pytest.mark.parametrize("tail", [None, "5m"])
def test_features(tail):
    labels = pa.table(
        {"t": pa.array([T0 + MINUTE * m for m in (1, 2, 9)], pa.timestamp("ns", "UTC")), "k": ["x", "y", "x"]}
    )
    asked = sl.FeatureSpec(
        on="k", time="t", ranges={"all": None} if tail is None else {"all": "1h"},
        aggs={name: agg for name, agg in PICKED.items() if tail is None or name in ("low", "last")},
        **({} if tail is None else {"tail": tail}),
    )  # fmt: skip
    op = sl.FeatureOperator(asked)
    found = [op.push_labels(labels).rows, op.push_events(rows(["b", "a"], pa.string())).rows]
    op = sl.FeatureOperator.restore(asked, op.snapshot())
    found += [op.push_events(rows(["d", "c"], pa.string(), at=5 * MINUTE)).rows, op.flush().rows]
    table = pa.concat_tables([part for part in found if part.num_rows])
    assert table.schema.field("last_all").type == pa.dictionary(pa.int32(), pa.string())
    assert table["last_all"].to_pylist() == ["a", None, "c"]
    many = pa.concat_tables([rows(words(range(at, at + 100)), pa.string(), INT8, at) for at in (0, 100, 200)])
    each = pa.table({"t": pa.array([T0 + n + 1 for n in range(300)], pa.timestamp("ns", "UTC")), "k": ["x"] * 300})
    with pytest.raises(
        ValueError, match=r"column 'c' has 300 different values, and type dictionary<.*> numbers 128: cast"
    ):
        sl.features(each, many, on="k", time="t", ranges={"all": None}, aggs={"last": sl.last("c")})
    op = sl.FeatureOperator(sl.FeatureSpec("k", "t", {"all": None}, {"last": sl.last("c")}))
    for part in many.to_batches():
        op.push_events(part)
    table = pa.concat_tables([op.push_labels(each).rows, op.flush().rows])
    assert (table.schema.field("last_all").type, table["last_all"].to_pylist()) == (NARROW, words(range(300)))


def test_joined_rows_and_rows_once():
    parts = [
        rows(words(range(at, at + 100)), pa.string(), INT8, at, words(range(at, at + 100))) for at in (0, 100, 200)
    ]
    asked = sl.JoinSpec(on="k", time="t", within=("1h", "1h"), how="left", event_time="left")
    op = sl.JoinOperator(asked)
    for part in parts:
        op.push_left(part.select(["t", "k", "c"]))
        op = sl.JoinOperator.restore(asked, op.snapshot())
    found = op.push_right(pa.concat_tables([part.select(["t", "k", "v"]) for part in parts])).rows
    assert (found.schema.field("c").type, sorted(found["c"].to_pylist())) == (NARROW, words(range(300)))
    once = sl.Distinct(sl.DistinctSpec("k", "t", sl.tumbling("1h"), "last"))
    found = []
    for part in parts:
        found.append(once.push(part).rows)
        once = sl.Distinct.restore(once.spec, once.snapshot())
    found = pa.concat_tables([*found, once.flush().rows])
    assert (found.schema.field("c").type, sorted(found["c"].to_pylist())) == (NARROW, words(range(300)))


NUMBERS = [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()]


@pytest.mark.parametrize("type", [*NUMBERS, pa.decimal128(9, 2), pa.decimal128(30, 2)], ids=str)
def test_sketches_read_values_and_not_indices(type):
    plain = pa.array([1, 0, None, 100, 90, 100, 1, 90, None, 110]).cast(pa.float64()).cast(type)
    aggs = {"q": sl.approx_quantile("v", 0.5), "n": sl.approx_count_distinct("v"), "s": sl.sample("v", 2)}
    spec = sl.Spec("t", {"five": sl.tumbling(5), "seven": sl.sliding(7, 2)}, aggs)
    wanted = sl.aggregate(pa.table({"t": range(10), "v": plain}), spec).to_pylist()
    whole = plain.dictionary_encode()
    narrow = pa.DictionaryArray.from_arrays(whole.indices.cast(INT8), whole.dictionary)
    pieces = pa.chunked_array([whole.slice(0, 4), plain.slice(4).dictionary_encode()])
    for column in (whole, narrow, pieces):
        assert sl.aggregate(pa.table({"t": range(10), "v": column}), spec).to_pylist() == wanted


def test_no_order_is_claimed_of_values_that_come_in_another_one():
    """Values are compared as texts are; a dictionary in another order than the column's must not be called ordered."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], INT8), ["low", "high"], ordered=True)
    data = rows(["x", "x"], pa.string()).set_column(3, "c", column)
    found = sl.aggregate(data, spec(aggs={"last": sl.last("c"), "most": sl.max("c")}))
    assert found.schema.field("last").type == pa.dictionary(INT8, pa.string(), ordered=False)
    assert (found["last"].to_pylist(), found["most"].to_pylist()) == (["high"], ["low"])


def test_halves_that_arrow_joins_to_their_bits():
    """pyarrow's concat and unify_dictionaries give 15872 for 1.5."""
    first, second = (
        pa.DictionaryArray.from_arrays(pa.array(range(len(v)), pa.int32()), pa.array(np.float16(v)))
        for v in ([1.5, 2, 3], [4, 1.5])
    )
    data = pa.table({"t": range(5), "k": [1] * 5, "v": pa.chunked_array([first, second])})
    values, aggs = [1.5, 2.0, 3.0, 4.0, 1.5], {"all": sl.collect("v"), "most": sl.max("v")}
    spec = sl.Spec("t", {"w": sl.whole()}, aggs)
    op = sl.Operator(spec)
    op.push(data)
    for found in (op.flush().windows, sl.aggregate(data, spec), sl.aggregate([data.slice(0, 3), data.slice(3)], spec)):
        assert found.select(["all", "most"]).to_pylist() == [{"all": values, "most": 4.0}]
    by_value = sl.aggregate(data, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="v"))
    assert sorted(by_value["v"].to_pylist()) == values[:4]
    assert sl.distinct(data, on="t", time="t", within=10)["v"].to_pylist() == values
    assert sl.join(data, data, on="k", time="t", within=(0, 0))["v_right"].to_pylist() == values
    assert sl.attach(data, sl.Spec("t", {"w": sl.rows(5)}, {"x": sl.last("v")}))["x"].to_pylist() == [1.5] * 5
    op = sl.JoinOperator(sl.JoinSpec("k", "t", within=(10, 10), watermark=(sl.manual(), sl.manual())))
    op.push_left(data.slice(0, 3))
    op.push_left(data.slice(3))
    assert op.push_right(data.slice(2, 1).select(["t", "k"])).rows["v"].to_pylist() == values


@pytest.mark.parametrize("type", [pa.string(), pa.string_view(), pa.binary_view()], ids=str)
def test_small_batches_with_nulls_in_dictionaries_are_joined(type: pa.DataType) -> None:
    def batch(at: int) -> pa.RecordBatch:
        words = pa.array([f"c{at}", "b", None]).cast(type)
        places = pa.array(np.arange(at, at + 30) % 3, pa.int8())
        return pa.record_batch({"t": np.arange(at, at + 30), "v": pa.DictionaryArray.from_arrays(places, words)})

    batches = [batch(at) for at in (0, 30, 60)]
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count("v"), "last": sl.last("v")})
    found = sl.aggregate(batches, spec)
    alone = [sl.aggregate(one, spec) for one in batches]
    assert found["n"].to_pylist() == [n for one in alone for n in one["n"].to_pylist()]
    assert found["last"].to_pylist() == [last for one in alone for last in one["last"].to_pylist()]
    assert (
        sl.Operator(spec).push(pa.Table.from_batches(batches)).windows["n"].to_pylist() == found["n"].to_pylist()[:-1]
    )


def test_frames_with_enums_that_differ_are_pushed_one_by_one() -> None:
    def frame(first: int) -> pl.DataFrame:
        words = [f"c{first + at:03}" for at in range(200)]
        return pl.DataFrame({"t": range(first, first + 200), "e": pl.Series(words, dtype=pl.Enum(words))})

    spec = sl.Spec("t", {"w": sl.tumbling(100)}, {"n": sl.count_distinct("e")})
    assert sl.aggregate([frame(0), frame(200), frame(400)], spec)["n"].to_pylist() == [100] * 6


@pytest.mark.parametrize("part", [pl.Categorical, pl.Enum(["x", "longer than twelve bytes"])], ids=str)
@pytest.mark.parametrize("kind", ["struct", "list", "array", "list of structs"])
def test_categories_inside_of_structs_and_lists(kind: str, part: pl.DataType) -> None:
    words = ["x", "longer than twelve bytes", None]
    made = {
        "struct": ([{"a": word, "b": 1} for word in words] + [None], pl.Struct({"a": part, "b": pl.Int64})),
        "list": ([words, [], ["x"], None], pl.List(part)),
        "array": ([words[:2], ["x", None], ["x", "x"], None], pl.Array(part, 2)),
        "list of structs": ([[{"a": "x"}, {"a": None}], [], None, [None]], pl.List(pl.Struct({"a": part}))),
    }
    values, type = made[kind]
    data = pl.DataFrame({"t": range(40), "s": pl.Series(values * 10, dtype=type)})
    for some in (data, data.slice(3, 30), pl.concat([data.slice(0, 5), data.slice(5)], rechunk=False)):
        wanted = [value for value in some["s"].to_list() if value is not None]
        found = sl.aggregate(some, sl.Spec("t", {"w": sl.whole()}, {"all": sl.collect("s")}))["all"].to_pylist()
        assert found == [wanted]
        joined = sl.join(some, some.select("t"), on=[], time="t", within=(0, 0))
        assert joined["s"].to_pylist() == sl.union([some])["s"].to_pylist() == some["s"].to_list()
