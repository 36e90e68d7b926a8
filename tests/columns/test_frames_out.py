"""Results as frames: no digit is lost, and types that Arrow does not keep come back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl

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


@pytest.mark.parametrize("returns", ["same", "pandas"])
def test_attach_takes_frames_whose_column_names_are_numbers(returns: str) -> None:
    frame = pd.DataFrame([[1, 5], [2, 6]], index=["x", "y"])  # as read_csv(header=None) makes them
    found = sl.attach(frame, sl.Spec("0", {"w": sl.whole()}, {"s": sl.sum("1")}), returns=returns)
    assert found.columns.tolist() == ([0, 1, "s"] if returns == "same" else ["0", "1", "s"])
    assert found["s"].tolist() == [11, 11] and found.index.tolist() == ["x", "y"]


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
