"""Results as frames: no digit is lost, and types that Arrow does not keep come back."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import slicing as sl
from slicing.columns.frames import MANY_TEXTS, given_back

LARGE = 2**53 + 1  # the float next to it is another integer
SPEC = sl.Spec("t", {"w": sl.tumbling(10)}, {"total": sl.sum("v").where(sl.col("t") < 10)}, by="k")
TEN = {"ten": 10}


def integers(*values: int | None, type: pa.DataType) -> pa.Table:
    return pa.table({"t": [1, 2, 3, 14], "k": pa.array(values, type), "v": [2**60 + 1] * 4})


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64()])
def test_integers_with_nulls_keep_their_digits_in_pandas(type: pa.DataType) -> None:
    table = integers(LARGE - 1, LARGE, None, 7, type=type)
    plain = sl.aggregate(table, SPEC)
    found = sl.aggregate(table, SPEC, returns="pandas")
    assert found["k"].dtype == ("Int64" if type == pa.int64() else "UInt64")
    assert found["k"].astype(object).where(found["k"].notna(), None).tolist() == plain["k"].to_pylist()
    assert found["total"].dropna().tolist() == [2**60 + 1] * 3
    wide = sl.aggregate(table, SPEC, layout="wide", returns="pandas")
    assert wide["total_w"].dropna().tolist() == [2**60 + 1] * 3


def test_integers_within_lists_and_structs_keep_their_digits_in_pandas() -> None:
    """A null among the integers makes floats of all of them, also of those of other windows."""
    ids = pa.array([5, LARGE, 7, None, LARGE + 2, 9], pa.int64())
    table = pa.table({"t": [1, 2, 11, 12, 13, 14], "v": [1, 2, 3, 4, 5, 6], "id": ids, "s": list("abcdef")})
    aggs = {
        "struct": sl.argmax("v", ["s", "id"]),
        "list": sl.top_k("v", 2, "id"),
        "structs": sl.top_k("v", 2, ["id", "s"]),
        "m4": sl.m4("id").where(sl.col("t") < 10),
        "some": sl.collect("id"),
    }
    spec = sl.Spec("t", {"w": sl.tumbling(10), "two": sl.tumbling(2)}, aggs)
    plain, found = sl.aggregate(table, spec), sl.aggregate(table, spec, returns="pandas")

    def listed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: listed(part) for name, part in value.items()}
        if isinstance(value, float):  # of a column whose integers are all small
            return None if value != value else value
        return list(map(listed, value)) if isinstance(value, list | np.ndarray) else value

    for name in aggs:
        assert list(map(listed, found[name])) == plain[name].to_pylist(), name


def test_small_integers_with_nulls_are_floats_as_arrow_makes_them() -> None:
    table = integers(1, 2, None, 7, type=pa.int64())
    found = sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k"), returns="pandas")
    pd.testing.assert_frame_equal(found, sl.aggregate(table, SPEC).select(found.columns[:4]).to_pandas().assign(n=1))


CALLS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "aggregate": lambda frame: sl.aggregate(frame, SPEC, returns="same"),
    "attach": lambda frame: sl.attach(frame, SPEC, returns="same"),
    "join": lambda frame: sl.join(
        frame, frame[["t", "k"]], on="k", time="t", within=(0, 0), how="left", returns="same"
    ),
    "features": lambda frame: sl.features(
        frame, frame, on="k", time="t", ranges=TEN, aggs={"n": sl.count()}, returns="same"
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "int16[pyarrow]", "Float64", "boolean"])
def test_nullable_types_come_back(call: str, dtype: str) -> None:
    keys = pd.array([0, 1, None, 1], dtype="Int64").astype(dtype)
    frame = pd.DataFrame({"t": [1, 2, 3, 14], "k": keys, "v": 1})
    assert CALLS[call](frame)["k"].dtype == frame["k"].dtype


def test_an_aggregate_has_the_nullable_type_of_its_column() -> None:
    frame = pd.DataFrame({"t": [1, 2], "v": pd.array([LARGE, None], dtype="Int64"), "i": pd.array([1, None], "Int8")})
    aggs = {"v": sl.last("i"), "most": sl.max("v"), "n": sl.count("v"), "mean": sl.mean("i")}
    types = sl.aggregate(frame, sl.Spec("t", {"w": sl.tumbling(2)}, aggs), returns="same").dtypes
    assert types[list(aggs)].astype(str).to_dict() == {"v": "Int8", "most": "Int64", "n": "Int64", "mean": "float64"}


def test_values_of_ordered_categories_keep_their_order_in_pandas() -> None:
    sizes = pd.CategoricalDtype(["small", "medium", "large"], ordered=True)
    frame = pd.DataFrame({"t": range(4), "v": [3, 1, 2, 5], "c": pd.Series(list("abca"), dtype="category")})
    frame["size"] = pd.Series(["large", "small", "large", "large"], dtype=sizes)
    aggs = {"first": sl.first("size"), "of_least": sl.argmin("v", "size"), "mode": sl.mode("size"), "c": sl.last("c")}
    found = sl.aggregate(frame, sl.Spec("t", {"w": sl.tumbling(2)}, aggs), returns="pandas")
    assert [found[name].dtype for name in aggs] == [sizes, sizes, sizes, frame["c"].dtype]
    assert found["of_least"].tolist() == ["small", "large"] and (found["first"] > "small").all()
    rows = sl.attach(frame, sl.Spec("t", {"w": sl.tumbling(2)}, {"first": sl.first("size")}), returns="same")
    assert rows["first"].dtype == sizes


STATES = pl.Enum(["new", "open", "done"])
FRAME = pl.DataFrame(
    {"t": [1, 2], "old": pl.Series(["new", "open"], dtype=STATES), "state": ["up", "up"]},
    schema_overrides={"state": pl.Enum(["up", "down"])},
)


@pytest.mark.parametrize("data", [FRAME, FRAME.lazy()])
def test_enums_come_back_from_the_column_that_is_aggregated(data: Any) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"state": sl.last("old"), "x": sl.first("old"), "n": sl.count()})
    found = sl.aggregate(data, spec, returns="same").lazy().collect()
    assert found.select("state", "x").schema == {"state": STATES, "x": STATES}
    assert found["state"].to_list() == ["open"]
    keyed = sl.Spec("t", {"w": sl.tumbling(10)}, {"last": sl.last("old")}, by="state")
    assert sl.aggregate(data, keyed, returns="same").lazy().collect()["state"].dtype == FRAME["state"].dtype
    rows = sl.attach(data, keyed, returns="same").lazy().collect()
    assert rows.schema == {**FRAME.schema, "last": STATES}


def test_lists_of_enums_are_lists_of_enums() -> None:
    aggs = {"all": sl.collect("old"), "last": sl.top_k("t", 1, "old"), "often": sl.heavy_hitters("old", 0.1)}
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs | {"text": sl.collect("text")})
    for data in (FRAME.with_columns(text=pl.lit("a")), FRAME.lazy().with_columns(text=pl.lit("a"))):
        found = sl.aggregate(data, spec, returns="polars").select("all", "last", "often", "text")
        lists = pl.List(STATES)
        assert found.schema == {"all": lists, "last": lists, "often": lists, "text": pl.List(pl.String)}
        assert found.rows() == [(["new", "open"], ["open"], ["new", "open"], ["a", "a"])]


def test_distinct_rows_come_back_as_they_were() -> None:
    once = {"on": "old", "time": "t", "within": 5}
    twice = pl.concat([FRAME, FRAME])
    assert_frame_equal(sl.distinct(twice, **once, returns="same"), FRAME)
    assert_frame_equal(sl.distinct(twice.lazy(), **once, returns="same").collect(), FRAME)
    found = sl.distinct(twice.to_pandas(), **once, returns="same")
    assert isinstance(found, pd.DataFrame) and found["t"].tolist() == [1, 2]
    assert sl.distinct(FRAME.clear(), **once, returns="polars").schema == FRAME.schema
    with pytest.raises(ValueError, match=r"returns must be one of .*; got 'duckdb'"):
        sl.distinct(FRAME, **once, returns="duckdb")


def test_what_only_chooses_rows_gives_no_type() -> None:
    sizes, colors = pl.Enum(["s", "m"]), pl.Enum(["red", "green"])
    data = pl.DataFrame({"t": [1, 2], "v": [2, 1], "size": ["m", "s"], "color": ["red", "green"]})
    data = data.with_columns(pl.col("size").cast(sizes), pl.col("color").cast(colors))
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"c": sl.argmin("v", "color"), "s": sl.argmax("v", "size")})
    assert sl.aggregate(data, spec, returns="same").select("c", "s").schema == {"c": colors, "s": sizes}
    frame = pd.DataFrame({"t": [1, 2], "a": pd.array([1, 2], "Int64"), "b": [3, 4]})
    aggs = {"b": sl.argmin("a", "b"), "a": sl.argmin("b", "a"), "n": sl.count("a") + sl.sum("b")}
    types = sl.aggregate(frame, sl.Spec("t", {"w": sl.tumbling(9)}, aggs), returns="same").dtypes
    assert types[list(aggs)].astype(str).to_dict() == {"b": "int64", "a": "Int64", "n": "Int64"}


def keyed(*categories: str, key: str) -> pl.DataFrame:
    return pl.DataFrame({"t": [1], "k": [key]}, schema_overrides={"k": pl.Enum(categories)})


BOTH = {"on": "k", "time": "t", "within": (0, 0)}


@pytest.mark.parametrize("how", ["right", "full"])
@pytest.mark.parametrize("returns", ["same", "polars"])
def test_merged_keys_are_enums_of_the_categories_of_both_sides(how: str, returns: str) -> None:
    left, right = keyed("x", "y", key="y"), keyed("x", "z", key="z")
    for one, other in ((left, right), (right, left.lazy())):
        found = sl.join(one, other, how=how, returns=returns, **BOTH)
        assert isinstance(found.schema["k"], pl.Enum) and sorted(found.schema["k"].categories) == ["x", "y", "z"]
        assert found["k"].to_list() == sl.join(one, other, how=how, **BOTH)["k"].to_pylist()


def test_merged_keys_whose_categories_have_two_orders_are_no_enum() -> None:
    found = sl.join(keyed("x", "y", key="y"), keyed("y", "x", key="x"), how="full", returns="same", **BOTH)
    assert found["k"].to_list() == ["y", "x"] and not isinstance(found.schema["k"], pl.Enum)


def test_merged_keys_of_which_one_is_no_enum_are_no_enum() -> None:
    right = pl.DataFrame({"t": [1], "k": ["other"]})
    for other in (right, right.with_columns(pl.col("k").cast(pl.Categorical)), right.to_arrow()):
        found = sl.join(keyed("x", "y", key="y"), other, how="full", returns="same", **BOTH)
        assert found["k"].to_list() == ["y", "other"] and not isinstance(found.schema["k"], pl.Enum)


def test_merged_keys_of_rows_that_all_have_a_left_row_have_the_left_type() -> None:
    left = keyed("x", "y", key="y")
    many = keyed("y", *map(str, range(300)), key="y")  # in Arrow its indices are wider
    for how in ("inner", "left", "semi"):
        assert sl.join(left, many, how=how, returns="same", **BOTH).schema["k"] == left.schema["k"]
    assert len(sl.join(left, many, how="full", returns="same", **BOTH).schema["k"].categories) == 302


def test_the_columns_of_the_other_table_keep_their_types() -> None:
    right = pd.DataFrame(
        {
            "t": [1, 2],
            "i": pd.array([1, None], "Int8"),
            "b": pd.array([True, None], "boolean"),
            "a": pd.array([1, 2], "int64[pyarrow]"),
        }
    )
    types = {"i": "Int8", "b": "boolean", "a": "int64[pyarrow]"}
    left = pd.DataFrame({"t": [1, 2, 9], "i": [0.5, 1.5, 2.5]})  # a column with the name of one of the other table
    found = sl.join(left, right, on=[], time="t", within=(0, 0), how="left", suffix="_r", returns="same")
    assert found["i"].dtype == "float64"
    assert found[["i_r", "b", "a"]].dtypes.astype(str).tolist() == list(types.values())
    aggs = {"i": sl.max("i"), "b": sl.last("b"), "a": sl.first("a")}
    of_events = sl.features(left[["t"]], right, on=[], time="t", ranges=TEN, aggs=aggs, returns="same")
    assert of_events.dtypes.astype(str).to_dict() == {"t": "int64", **{f"{n}_ten": type for n, type in types.items()}}


@pytest.mark.parametrize("other", [FRAME, FRAME.lazy()])
def test_the_enums_of_the_other_table_come_back(other: Any) -> None:
    left = pl.DataFrame({"t": [1, 2], "state": ["a", "b"]})
    found = sl.join(left, other, on=[], time="t", within=(0, 0), returns="same")
    wanted = {"t": pl.Int64, "state": pl.String, "t_right": pl.Int64, "old": STATES}
    assert found.schema == wanted | {"state_right": FRAME.schema["state"]}
    found = sl.features(left, other, on=[], time="t", ranges=TEN, aggs={"old": sl.last("old")}, returns="same")
    assert found.schema == {"t": pl.Int64, "state": pl.String, "old_ten": STATES}


@pytest.mark.parametrize("returns", ["same", "pandas"])
def test_attach_takes_frames_whose_column_names_are_numbers(returns: str) -> None:
    frame = pd.DataFrame([[1, 5], [2, 6]], index=["x", "y"])  # as read_csv(header=None) makes them
    found = sl.attach(frame, sl.Spec("0", {"w": sl.whole()}, {"s": sl.sum("1")}), returns=returns)
    assert found.columns.tolist() == ([0, 1, "s"] if returns == "same" else ["0", "1", "s"])
    assert found["s"].tolist() == [11, 11] and found.index.tolist() == ["x", "y"]


@pytest.mark.parametrize("type", [pa.timestamp("us", "Europe/Berlin"), pa.string(), pa.list_(pa.int64())], ids=str)
def test_columns_of_runs_come_back_decoded(type: pa.DataType) -> None:
    """``to_pandas`` itself ends the process at runs of times with a zone."""
    values = pa.array([None, 1_700_000_000_000_000]).cast(pa.timestamp("us", "UTC"))
    values = (
        values.cast(type) if pa.types.is_timestamp(type) else pa.array([None, "a" if type == "string" else [1]], type)
    )
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), values)
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()})
    table = pa.table({"t": [1, 2, 3], "runs": runs})
    first, second, last = pa.table({"v": values.take(pa.array([0, 0, 1]))})["v"].to_pylist()
    assert sl.attach(table, spec, returns="polars")["runs"].to_list() == [first, second, last]
    found = sl.attach(table, spec, returns="pandas")["runs"]
    assert found.isna().tolist() == [True, True, False] and found[2] == last


@pytest.mark.filterwarnings("ignore:.*column names of mixed type")
@pytest.mark.parametrize("name", [0, ("a", "b"), pd.Timestamp("2026-01-01")])
def test_attach_keeps_column_names_that_are_no_strings(name: Any) -> None:
    frame = pd.DataFrame({"t": [1, 2], "v": [1, 2]}, index=["x", "y"])
    frame[name] = [7, 8]
    found = sl.attach(frame, sl.Spec("t", {"w": sl.whole()}, {"s": sl.sum("v")}), returns="same")
    assert found.columns.tolist() == ["t", "v", name, "s"] and found.index.equals(frame.index)
    assert found.iloc[:, 2].tolist() == [7, 8]


@pytest.mark.skipif(not hasattr(pa, "decimal64"), reason="pyarrow 18 has no narrow decimals")
@pytest.mark.parametrize("type", ["decimal32", "decimal64"])
def test_narrow_decimals_are_polars_own(type: str) -> None:
    narrow = getattr(pa, type)(5, 2)
    values = [Decimal("-999.99"), Decimal("1.50"), None, Decimal("7.00")]
    nested = pa.array([[value] for value in values], pa.list_(narrow))
    inner = pa.array(
        [{"a": value, "b": [{"c": value}]} for value in values],
        pa.struct({"a": narrow, "b": pa.list_(pa.struct({"c": narrow}))}),
    )
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(values, narrow))
    table = pa.table({"t": [1, 2, 3, 14], "k": pa.array(values, narrow), "x": nested, "y": inner, "z": coded})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"last": sl.last("k"), "n": sl.count()}, by="k")
    for call in (sl.aggregate, sl.attach):
        plain, found = call(table, spec), call(table, spec, returns="polars")
        assert found["k"].to_list() == plain["k"].to_pylist() and found["last"].to_list() == plain["last"].to_pylist()
    for name in "xyz":
        assert found[name].to_list() == table[name].to_pylist()


@pytest.mark.parametrize(
    ("given", "type", "polars"),
    [
        (Decimal("12.5"), pa.decimal256(20, 2), pl.Decimal(20, 2)),
        (Decimal(-(10**37)), pa.decimal256(50, 0), pl.Decimal(38, 0)),
        (Decimal("12E+3"), pa.decimal128(5, -3), pl.Decimal(8, 0)),
        (7, pa.duration("s"), pl.Duration("ms")),
        (7, pa.timestamp("s", "UTC"), pl.Datetime("ms", "UTC")),
    ],
    ids=str,
)
def test_types_that_polars_has_not_become_its_nearest_ones(given: object, type: pa.DataType, polars: object) -> None:
    table = pa.table({"t": [1, 2], "k": pa.array([given, None], pa.int64() if given == 7 else type).cast(type)})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k")
    found = sl.aggregate(table, spec, returns="polars")
    assert found.schema["k"] == polars
    assert found["k"].to_list() == sl.aggregate(table, spec)["k"].to_pylist()


def thousands(count: int) -> pa.Array:
    digits = pa.array([Decimal(count)], pa.decimal128(38, 0))
    return pa.Array.from_buffers(pa.decimal128(38, -3), 1, digits.buffers())


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (thousands(10**37), "type decimal128(38, -3), and not all its values fit decimal128(38, 0), the nearest"),
        (pa.array([Decimal(10**38)], pa.decimal256(50, 0)), "type decimal256(50, 0), and not all its values fit"),
        (pa.array([2**62]).view(pa.duration("s")), "type duration[s], and not all its values fit duration[ms], the"),
        (pa.array([-(2**60)]).view(pa.timestamp("s")), "type timestamp[s], and not all its values fit timestamp[ms]"),
    ],
    ids=["scale", "decimal", "duration", "timestamp"],
)
def test_values_that_polars_cannot_have_are_told(column: pa.Array, says: str) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k")
    with pytest.raises(ValueError, match=re.escape(f"column 'k' of the result has {says}")):
        sl.aggregate(pa.table({"t": [1], "k": column}), spec, returns="polars")


@pytest.mark.parametrize(
    ("column", "aggs", "by", "says"),
    [
        (pa.array([1]).view(pa.time64("ns")), sl.count(), "k", "'k' of the result has type time64[ns]"),
        (pa.array([b"abc"], pa.binary(3)), sl.collect("k"), None, "'n' of the result has type list<"),
        (pa.array([1.0, float("nan")]).dictionary_encode(), sl.count(), "k", "'k' of the result has type dictionary<"),
        (pa.array([2**40]).view(pa.timestamp("s")), sl.m4("k"), None, "'n' of the result has type struct<"),
    ],
    ids=["time", "binary", "dictionary", "timestamp"],
)
def test_values_that_pandas_cannot_have_are_told(column: pa.Array, aggs: sl.Aggregate, by: str, says: str) -> None:
    table = pa.table({"t": range(len(column)), "k": column})
    with pytest.raises(ValueError, match=re.escape(f"column {says}") + ".*, and pandas cannot have its values"):
        sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(10)}, {"n": aggs}, by=by), returns="pandas")


def test_more_text_than_fits_views() -> None:
    ends = pa.py_buffer(np.arange(MANY_TEXTS + 1) * 140_000)
    texts = pa.LargeStringArray.from_buffers(MANY_TEXTS, ends, pa.py_buffer(np.zeros(140_000 * MANY_TEXTS, np.uint8)))
    table = pa.table({"t": range(MANY_TEXTS), "s": texts})
    found = sl.attach(table, sl.Spec("t", {"w": sl.rows(2)}, {"n": sl.count()}), returns="polars")
    assert found.shape == (MANY_TEXTS, 3) and found.schema["s"] == pl.String


@pytest.mark.parametrize("rows", [MANY_TEXTS - 1, MANY_TEXTS, 3 * MANY_TEXTS])
@pytest.mark.parametrize(
    "type", [pl.String, pl.Enum(["", "a", "longer than twelve bytes", "é"]), pl.Categorical], ids=str
)
def test_many_texts(rows: int, type: Any) -> None:
    texts = ["", "a", "longer than twelve bytes", None, "é"] * (rows // 5 + 1)
    data = pl.DataFrame({"t": range(rows), "k": pl.Series(texts[:rows], dtype=type), "v": texts[:rows]})
    spec = sl.Spec("t", {"every": sl.tumbling(1)}, {"most": sl.max("v")}, by="k")
    found = sl.aggregate(data, spec, returns="polars")
    assert found.schema["k"] == type and found.schema["window"] == found.schema["most"] == pl.String
    assert found["k"].cast(pl.String).to_list() == found["most"].to_list() == texts[:rows]
    assert found["window"].unique().to_list() == ["every"]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("listed", [pa.list_, pa.large_list])
def test_many_texts_in_lists_reach_polars_as_they_are(type: pa.DataType, listed: Any) -> None:
    words = [None, "", "a word", "a word of more than twelve bytes, \N{SNOWMAN}"]
    lists = [None if row % 11 == 7 else [words[(row + at) % 4] for at in range(row % 9)] for row in range(9000)]
    column = pa.array(lists, listed(type))
    table = pa.table({"x": pa.chunked_array([column[:5], column[5:8000], column[8000:]]), "n": range(9000)})
    found = given_back(table, "polars")
    assert found["x"].dtype == pl.List(pl.String) and found["x"].to_list() == lists
