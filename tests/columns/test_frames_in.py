"""Frames as newcomers have them: columns that Arrow cannot take, pandas' indices, Polars' enums, widths of text."""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest

import slicing as sl

START = 1_700_000_000_000_000_000
FRAME = pd.DataFrame({"t": START + np.arange(6), "k": list("ababab"), "v": np.arange(6.0)})
SPEC = sl.Spec("t", {"w": sl.tumbling(3)}, {"s": sl.sum("v")}, by="k", watermark=sl.manual())
FEATURES: dict[str, Any] = {"on": "k", "time": "t", "ranges": {"r": 3}, "aggs": {"s": sl.sum("v")}}
ODD = {
    "complex": np.arange(6) * 1j,
    "sparse": pd.arrays.SparseArray([0, 0, 1, 0, 0, 0]),
    "mixed": pd.Series([1, "a", 2.0, None, b"x", 3], dtype=object),
    "objects": [object()] * 6,
}
CURES = {"complex": "take its parts", "sparse": "make it dense", "mixed": "one type", "objects": "one type"}
CARRIES: dict[str, Callable[[Any], Any]] = {
    "push": lambda frame: sl.Operator(SPEC).push(frame),
    "attach": lambda frame: sl.attach(frame, SPEC),
    "join": lambda frame: sl.join(frame, FRAME, on="k", time="t", within=(0, 1)),
    "labels": lambda frame: sl.features(frame, FRAME, **FEATURES),
    "distinct": lambda frame: sl.distinct(frame, "k", "t", 3),
    "union": lambda frame: sl.union([frame]),
}


def odd(kind: str) -> pd.DataFrame:
    return FRAME.assign(z=ODD[kind])


@pytest.mark.parametrize("kind", ODD)
def test_columns_that_are_not_read_may_be_of_any_type(kind: str) -> None:
    assert sl.aggregate(odd(kind), SPEC).equals(sl.aggregate(FRAME, SPEC))
    assert sl.features(FRAME, odd(kind), **FEATURES).equals(sl.features(FRAME, FRAME, **FEATURES))


@pytest.mark.parametrize("entry", CARRIES)
@pytest.mark.parametrize("kind", ODD)
def test_a_column_that_comes_along_is_refused_by_its_name(kind: str, entry: str) -> None:
    said = rf"column 'z' of the DataFrame .*{CURES[kind]}.*, or leave it out with frame\.drop\(columns='z'\)"
    with pytest.raises(TypeError, match=said):
        CARRIES[entry](odd(kind))


def test_a_column_that_is_read_is_refused_by_its_name() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(3)}, {"s": sl.sum("z")})
    with pytest.raises(TypeError, match=r"column 'z' of the DataFrame has the type complex128.*\.real$"):
        sl.aggregate(odd("complex"), spec)
    with pytest.raises(ValueError, match="column 'y' is missing in the data; its columns are t, k, v, z"):
        sl.aggregate(odd("complex"), sl.Spec("t", {"w": sl.tumbling(3)}, {"s": sl.sum("y")}))


@pytest.mark.parametrize("empty", [pd.DataFrame(), pl.DataFrame(), pa.table({})], ids=["pandas", "polars", "arrow"])
def test_data_without_columns_says_so(empty: object) -> None:
    said = "column 't' is missing in the data; it has no columns$"
    with pytest.raises(ValueError, match=said):
        sl.aggregate(empty, SPEC)
    with pytest.raises(ValueError, match=said):
        sl.distinct(empty, on=["t"], time="t", within=sl.tumbling(3))
    with pytest.raises(ValueError, match=said):
        sl.Union({"a": sl.manual()}, time="t").push("a", empty)
    with pytest.raises(ValueError, match=said):
        sl.plot.lateness(empty, "t", bounds=[0])


@pytest.mark.parametrize("entry", CARRIES)
def test_names_that_occur_twice(entry: str) -> None:
    twice = pd.concat([FRAME, FRAME[["v"]].rename(columns={"v": "z"}), FRAME[["v"]].rename(columns={"v": "z"})], axis=1)
    assert sl.aggregate(twice, SPEC).equals(sl.aggregate(FRAME, SPEC))
    with pytest.raises(ValueError, match="column 'z' occurs 2 times in the data; give each column a name of its own"):
        CARRIES[entry](twice)


@pytest.mark.parametrize("type", [pl.Object, pl.Int128])
def test_types_of_polars_that_arrow_has_not(type: Any) -> None:
    values = [object()] * 6 if type == pl.Object else range(6)
    frame = pl.from_pandas(FRAME).with_columns(pl.Series("z", values, dtype=type))
    assert sl.aggregate(frame, SPEC)["s"].to_pylist() == sl.aggregate(FRAME, SPEC)["s"].to_pylist()
    for entry in CARRIES.values():
        with pytest.raises(TypeError, match=f"column 'z' has Polars' type {type}, which Arrow has not"):
            entry(frame)


@pytest.mark.parametrize("name", ["ts", None])
def test_an_index_that_is_read_is_a_column(name: str | None) -> None:
    frame = FRAME.assign(t=pd.to_datetime(FRAME["t"])).set_index("t")
    frame.index.name = name
    spec = sl.Spec("ts", {"w": sl.tumbling("3ns")}, {"s": sl.sum("v")})
    if name is None:
        with pytest.raises(ValueError, match="column 'ts' is missing"):
            sl.aggregate(frame, spec)
        return
    assert sl.aggregate(frame, spec)["s"].to_pylist() == sl.aggregate(frame.reset_index(), spec)["s"].to_pylist()


@pytest.mark.parametrize(
    "index", [pd.Index(list("uvwxyz")), pd.Index(range(3, 9), name="id"), pd.Index([5, 1, 1, 2, 9, 8], name="id")]
)
def test_features_keep_the_index_of_pandas(index: pd.Index) -> None:
    labels = FRAME.set_index(index)
    found = sl.features(labels, FRAME, **FEATURES, returns="same")
    assert found.index.equals(index)
    assert found.index.name == index.name
    assert list(found.columns) == ["t", "k", "v", "s_r"]
    labels = labels.assign(t=labels["t"].astype("Int64").where(labels["v"] != 2))
    found = sl.features(labels, FRAME, **FEATURES, on_null_time="late", returns="same")
    assert found.index.equals(index.delete(2))


def test_a_join_keeps_the_left_index_of_pandas() -> None:
    left = FRAME.set_index(pd.Index(list("uvwxyz")))
    found = sl.join(left, left, on="k", time="t", within=(0, 2), returns="same")
    assert found.index.tolist() == list("uuvvwwxxyz")
    assert list(found.columns) == ["t", "k", "v", "t_right", "v_right"]
    found = sl.join(FRAME, left, on="k", time="t", within=(0, 0), returns="same")
    assert found.index.tolist() == list(range(6))


def test_enums_of_polars_come_back_as_enums() -> None:
    sizes = pl.Enum(["small", "large", "medium"])
    frame = pl.from_pandas(FRAME).with_columns(size=pl.Series(["large", "small", "large"] * 2, dtype=sizes))
    spec = sl.Spec("t", {"w": sl.tumbling(3)}, {"s": sl.sum("v")}, by="size")
    found = sl.aggregate(frame, spec, returns="same")
    assert found.schema["size"] == sizes
    assert found["s"].sum() == 15
    assert sl.aggregate(frame.lazy(), spec, returns="same").collect().equals(found)


def test_categories_are_compared_by_their_values_and_a_warning_says_so() -> None:
    sizes = pd.Categorical(["large", "small", "medium"] * 2, ["small", "medium", "large"], ordered=True)
    enum = pl.Series(list(sizes), dtype=pl.Enum(["small", "medium", "large"]))
    windows = {"w": sl.whole()}
    for frame in (FRAME.assign(c=sizes), pl.from_pandas(FRAME).with_columns(c=enum)):
        for agg, wanted in ((sl.max("c"), "small"), (sl.min("c"), "large"), (sl.max_count("c"), 2)):
            spec = sl.Spec("t", windows, {"x": agg, str(id(frame)): sl.count()})
            with pytest.warns(UserWarning, match="values of column 'c', text by its letters, and not by the order of"):
                assert sl.aggregate(frame, spec)["x"].to_pylist() == [wanted]
    spec = sl.Spec("t", windows, {"x": sl.max("c"), "first": sl.first("c")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sl.aggregate(FRAME.assign(c=sizes.as_unordered()), spec)["x"].to_pylist() == ["small"]
        assert sl.aggregate(FRAME.assign(c=sizes.codes), spec)["x"].to_pylist() == [2]


def test_a_later_frame_may_have_a_column_of_nulls_without_a_type() -> None:
    """As pandas makes it of a column that has only None."""
    frames = [pd.DataFrame({"t": [1, 2], "k": ["a", "b"], "v": 1}), pd.DataFrame({"t": [3], "k": [None], "v": 5})]
    table = pa.concat_tables([pa.Table.from_pandas(frame) for frame in frames], promote_options="default")
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v")}, by="k")
    for call in (
        lambda data: sl.aggregate(data, spec),
        lambda data: sl.attach(data, spec),
        lambda data: sl.join(data, table, on="v", time="t", within=(0, 0)),
        lambda data: sl.features(table, data, on="k", time="t", ranges={"a": 9}, aggs={"n": sl.count()}),
    ):
        assert call(frames).to_pylist() == call(table).to_pylist()


FORMS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "narrow": pa.dictionary(pa.int8(), pa.string()),
    "wide": pa.dictionary(pa.int32(), pa.large_string()),
}


@pytest.mark.parametrize(
    ("first", "later"), [*itertools.permutations(["string", "large", "view", "wide"], 2), ("narrow", "wide")]
)
def test_text_may_come_in_another_form_later(first: str, later: str) -> None:
    """pandas, Polars and pyarrow each have their own."""

    def rows(form: str, at: int) -> pa.Table:
        times = pa.array([START + at, START + at + 1])
        return pa.table({"t": times, "k": pa.array(["a", "b"]).cast(FORMS[form]), "v": [1.0, 2.0]})

    parts = [rows(first, 0), rows(later, 2), rows(first, 4)]
    op = sl.Operator(SPEC)
    for part in parts[:2]:
        op.push(part)
    op = sl.Operator.restore(SPEC, op.snapshot())
    op.push(parts[2])
    alike = [rows(first, at) for at in (0, 2, 4)]
    assert op.flush().windows.equals(sl.aggregate(alike, SPEC))
    assert sl.aggregate(iter(parts), SPEC).equals(sl.aggregate(alike, SPEC))
    rows_of = [sl.Distinct(sl.DistinctSpec("k", "t", 1)).push(part).rows.num_rows for part in parts]
    join = sl.JoinOperator(sl.JoinSpec("k", "t", within=(0, 9)))
    pairs = [out.rows for part in parts for out in (join.push_left(part), join.push_right(part))]
    assert (rows_of, sum(map(len, pairs)) + len(join.flush().rows)) == ([1, 1, 1], 12)


def test_a_later_frame_of_pandas_may_have_more_categories() -> None:
    """It counts them in 8 bits if the frame has few."""
    frames = [pd.DataFrame({"t": [1] * n, "k": pd.Categorical([f"k{i}" for i in range(n)]), "v": 1}) for n in (3, 300)]
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k")
    assert sl.aggregate(iter(frames), spec).num_rows == 300
    op = sl.Operator(spec)
    for frame in frames:
        op.push(frame)
    assert op.flush().windows.num_rows == 300
    assert sl.union(frames).num_rows == 303
    assert sl.attach(frames, spec).num_rows == 303


@pytest.mark.parametrize("type", [pl.String, pl.Categorical, pl.Enum(["x", "y"])], ids=str)
def test_sources_are_named_by_text_of_any_form(type: Any) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, watermark=sl.per_source("s", 0))
    op = sl.Operator(spec)
    op.push(pl.DataFrame({"t": [1, 2], "s": ["x", "y"]}, schema_overrides={"s": type}))
    late = pl.DataFrame({"t": [30, 31], "s": ["x", "y"]}, schema_overrides={"s": type})
    assert op.push(late).windows["n"].to_pylist() == [2]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 1, 2]).dictionary_encode(),
        pa.compute.run_end_encode(pa.array([1, 1, 2])),
        pa.array(["a", None, "b"], pa.string_view()),
        pa.array([Decimal("1.5"), None, Decimal("2.5")]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_later_batch_may_have_nulls_without_a_type(column: pa.Array) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count("v"), "last": sl.last("v")})
    op = sl.Operator(spec)
    op.push(pa.record_batch({"t": pa.array([1, 2, 3]), "v": column}))
    op.push(pa.record_batch({"t": pa.array([4, 5]), "v": pa.nulls(2)}))
    (found,) = op.flush().windows.select(["n", "last"]).to_pylist()
    assert found == {"n": len(column) - column.null_count, "last": column[2].as_py()}


def test_unions_of_pandas_and_polars() -> None:
    first = pl.from_pandas(FRAME)
    for tables in ([FRAME, first], [first, FRAME]):
        assert sl.union(tables)["k"].to_pylist() == list("abababababab")
    union = sl.Union({"a": sl.bounded(0), "b": sl.bounded(0)}, "t")
    types = {union.push("a", first).rows.schema.field("k").type, union.push("b", FRAME).rows.schema.field("k").type}
    assert types == {pa.string()}


@pytest.mark.parametrize("make", [lambda table: table, pl.DataFrame, lambda table: table.to_pandas()])
def test_marks_of_any_library_for_rows_of_any(make: Any) -> None:
    table = pa.table({"t": [START, START + 1], "k": ["a", "b"], "v": [1.0, 2.0]})
    for rows in (table, pl.DataFrame(table), table.to_pandas()):
        op = sl.Operator(SPEC)
        op.push(rows)
        marks = make(pa.table({"t": [START + 3], "k": ["a"]}))
        assert op.advance(marks=marks).windows["k"].to_pylist() == ["a"]


def test_a_reader_of_an_arrow_file_is_a_source() -> None:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    blob = sink.getvalue()
    assert sl.aggregate(pa.ipc.open_file(blob), SPEC).equals(sl.aggregate(table, SPEC))
    assert sl.Operator(SPEC).push(pa.ipc.open_file(blob)).stats["rows"] == 6
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, table.schema).close()
    assert sl.aggregate(pa.ipc.open_file(sink.getvalue()), SPEC).num_rows == 0


def test_dictionaries_of_booleans_are_booleans() -> None:
    flag = pa.array([True, None, True, False, False, True])
    plain = pa.Table.from_pandas(FRAME, preserve_index=False).append_column("b", flag)
    coded = plain.set_column(3, "b", flag.dictionary_encode())
    aggs = {"n": sl.count().where("b"), "s": sl.sum("v").where(sl.col("b")), "any": sl.any("b")}
    windows = {"w": sl.tumbling(3), "p": sl.punctuation("b"), "f": sl.frame("b", "b")}
    for spec in (sl.Spec("t", windows, aggs, by="k"), sl.Spec("t", windows, aggs, by="b")):
        if spec.by == ("b",):
            with pytest.raises(TypeError, match="boolean"):
                sl.aggregate(coded, spec)
        else:
            assert sl.aggregate(coded, spec).equals(sl.aggregate(plain, spec))


def test_uuids_as_keys_are_refused_with_what_to_do() -> None:
    ids = [uuid.UUID(int=i % 2) for i in range(6)]
    frame = FRAME.assign(k=ids)
    said = r"stored as fixed_size_binary\[16\]: cast the column to that, or to text"
    try:
        pa.array(ids)
    except pa.ArrowInvalid:  # an older pyarrow makes no column of them
        said = r"such as with frame\['k'\]\.astype\(str\)"
    for ask in (sl.aggregate, sl.attach):
        with pytest.raises(TypeError, match=said):
            ask(frame, SPEC)
    assert sl.aggregate(frame.assign(k=frame["k"].astype(str)), SPEC)["s"].equals(sl.aggregate(FRAME, SPEC)["s"])


def test_intervals_come_along() -> None:
    frame = FRAME.assign(z=pd.interval_range(0, 6))
    found = sl.distinct(frame, "k", "t", 3).to_pandas()
    assert [interval.left for interval in found["z"]] == found["v"].tolist() != []


def test_no_rows_of_extension_types_inside_of_structs() -> None:
    from slicing.exchange import _in_one_order as ordered
    from slicing.joins.exchange import _in_one_order as ordered_side

    ids = pa.array([uuid.UUID(int=1).bytes], pa.uuid())
    rows = pa.table({"t": [1], "k": ["a"], "v": [1.0], "z": pa.StructArray.from_arrays([ids], ["id"])})
    op = sl.Operator(SPEC)
    op.push(rows)
    assert op._state is not None
    assert ordered(op._state, []).schema.equals(rows.schema)
    join = sl.JoinOperator(sl.JoinSpec(on="k", time="t", within=(0, 1)))
    plan = join._plan(rows.schema, rows.schema)
    assert ordered_side(plan.sides[0], []).schema.equals(rows.schema)


def test_an_index_without_a_name_is_told() -> None:
    frame = pd.DataFrame({"v": [1, 2]}, index=pd.date_range("2026-03-01", periods=2))
    spec = sl.Spec("ts", {"w": sl.whole()}, {"n": sl.count()})
    told = r"its columns are v; if you mean its index, give that a name with frame.rename_axis\('ts'\)"
    for ask in (sl.aggregate, sl.attach):
        with pytest.raises(ValueError, match=told):
            ask(frame, spec)
    with pytest.raises(ValueError, match=told.replace("are v", "are v, k")):
        sl.join(frame.assign(k=1), frame.assign(k=1), on="k", time="ts", within=(5, 0))
    assert sl.aggregate(frame.rename_axis("ts"), spec)["n"].to_pylist() == [2]
    with pytest.raises(ValueError, match=r"its columns are v$"):
        sl.aggregate(frame.reset_index(drop=True), spec)
