"""Results of data with views: ``string`` and ``binary``, which pyarrow can filter, sort, take, join and write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import slicing as sl
from slicing.columns.key_columns import in_type
from slicing.columns.keys import KeyTable

VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
VIEWS[pa.dictionary(pa.int16(), pa.string_view())] = pa.dictionary(pa.int16(), pa.string())
NOON = 1_700_000_000_000_000_000
AGGREGATES = {
    **{fn: getattr(sl, fn)("v") for fn in ("first", "last", "min", "max", "mode", "m4", "collect")},
    **{"argmin": sl.argmin("x", "v"), "argmax": sl.argmax("v", "v"), "top_k": sl.top_k("v", 2)},
    **{"heavy": sl.heavy_hitters("v", 0.1), "distinct": sl.count_distinct("v"), "about": sl.approx_count_distinct("v")},
    "n": sl.count("v"),
}


def data(type: pa.DataType) -> pa.Table:
    words = ["b", "longer than the twelve bytes of a view", None, "a", "b", "b"]
    plain = pa.array(words, pa.string())
    column = (plain.dictionary_encode() if pa.types.is_dictionary(type) else plain).cast(type)
    times = pa.array([NOON + n * 10**9 for n in range(6)], pa.timestamp("ns"))
    return pa.table({"t": times, "k": column, "v": column, "x": [3, 1, 2, 5, 4, 0]})


def spec(by: str | None = "k") -> sl.Spec:
    return sl.Spec("t", {"w": sl.tumbling("1m"), "s": sl.session("5s")}, AGGREGATES, by=[by] if by else [])


def view_types(type: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_dictionary(type):
        return view_types(type.value_type)
    return [type, *(inner for n in range(type.num_fields) for inner in view_types(type.field(n).type))]


@pytest.mark.parametrize("type", VIEWS, ids=str)
def test_no_column_of_a_result_is_a_view(type: pa.DataType) -> None:
    table = sl.aggregate(data(type), spec())
    assert table.schema.field("k").type == VIEWS[type]
    found = [inner for field in table.schema for inner in view_types(field.type)]
    assert not {pa.string_view(), pa.binary_view()} & set(found)
    plain = data(type).cast(
        pa.schema([("t", pa.timestamp("ns")), ("k", VIEWS[type]), ("v", VIEWS[type]), ("x", pa.int64())])
    )
    assert table.equals(sl.aggregate(plain, spec()))


@pytest.mark.parametrize("type", VIEWS, ids=str)
def test_pyarrow_works_with_a_result(type: pa.DataType, tmp_path: Path) -> None:
    table = sl.aggregate(data(type), spec()).drop(["collect", "top_k", "heavy", "m4"])
    assert table.filter(pc.field("n") > 2).num_rows == 2
    assert table.take([0]).num_rows == 1
    assert table.join(table.select(["k", "window", "window_start"]), ["k", "window", "window_start"]).num_rows >= 6
    if not pa.types.is_dictionary(type):  # pyarrow sorts by none, whatever its values
        assert table.sort_by("k")["k"].null_count == 2
    pq.write_to_dataset(table, tmp_path / "hive", partition_cols=["window"])
    assert ds.dataset(tmp_path / "hive", partitioning="hive").count_rows() == table.num_rows
    if type == pa.string_view():
        pq.write_to_dataset(table.filter(pc.is_valid(table["k"])), tmp_path / "by key", partition_cols=["k"])
        assert len(list((tmp_path / "by key").iterdir())) == 3


def test_a_result_of_polars_data_works_in_pyarrow() -> None:
    frame = polars.from_arrow(data(pa.string())).with_columns(c=polars.col("v").cast(polars.Categorical))
    table = sl.aggregate(frame, sl.Spec("t", {"w": sl.tumbling("1m")}, AGGREGATES, by=["k", "c"]))
    assert table.schema.field("k").type == pa.string()
    assert pa.types.is_dictionary(table.schema.field("c").type)
    assert table.sort_by("k").take([0])["k"].to_pylist() == ["a"]
    assert polars.from_arrow(table)["n"].sum() == 5


@pytest.mark.parametrize("type", VIEWS, ids=str)
def test_streams_snapshots_and_late_rows(type: pa.DataType) -> None:
    rows, op = data(type), sl.Operator(spec())
    outs = [op.push(rows[3:]), op.push(rows[:3])]
    op = sl.Operator.restore(op.spec, op.snapshot())
    again = op.push(rows[:0])
    late = sl.Operator(sl.Spec("t", {"w": sl.tumbling("2s")}, {"n": sl.count()}))
    late.push(rows[4:])
    tardy = late.push(rows[:2]).late
    assert tardy.schema.field("v").type == type  # as it came, so that it can be pushed again
    assert sl.Operator(spec()).push(tardy.drop(["reason"])).stats.rows == 2
    for out in (*outs, again, op.flush()):
        assert out.windows.schema.field("k").type == VIEWS[type]


def test_texts_of_more_bytes_than_a_column_holds_come_in_chunks() -> None:
    kept = data(pa.large_string())["k"].combine_chunks()
    found = in_type(kept, pa.string(), most=50)
    assert found.type == pa.string() and found.num_chunks > 1
    assert all(chunk.nbytes <= 50 or len(chunk) == 1 for chunk in found.chunks)
    assert found.to_pylist() == kept.to_pylist()


@pytest.mark.parametrize("type", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("distinct", [3, 700, 30_000])
@pytest.mark.parametrize("in_runs", [True, False])
def test_keys_of_views_have_the_codes_of_their_text(type: pa.DataType, distinct: int, in_runs: bool) -> None:
    rng, plain = np.random.default_rng(distinct), pa.large_binary()
    texts = [b"x" * (n % 40) + str(n).encode() if n else b"" for n in range(distinct)]
    columns = []
    for rows in (100, 40_000, 5000):
        number = rng.integers(0, distinct, rows)
        number = np.sort(number) if in_runs else number
        values = [None if n % 11 == 10 else texts[n] for n in number.tolist()]
        columns.append(pa.array(values, plain).cast(type).slice(rows // 10))
    views, text = KeyTable([type]), KeyTable([plain])
    for column in (*columns, polars_views(columns[1])):
        np.testing.assert_array_equal(views.encode([column]), text.encode([column.cast(plain)]))
    every = np.arange(len(views))
    assert views.columns(every)[0].cast(plain).equals(text.columns(every)[0])
    many = rng.integers(0, len(views), 2 * len(views) + 5)  # more than there are: cast before they are taken
    assert views.columns(many)[0].cast(plain).equals(text.columns(many)[0])


def polars_views(column: pa.Array) -> pa.Array:
    """The same with texts of its own for each row, in a column that begins within others."""
    values = polars.Series(column.cast(pa.large_binary()).to_pylist(), dtype=polars.Binary)
    given = polars.DataFrame({"k": values if pa.types.is_binary_view(column.type) else values.cast(polars.String)})
    return pa.table(given)["k"].combine_chunks().slice(3)
