"""What can be pushed: every Arrow producer, every layout of a column, and what is copied of it."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import slicing as sl
import slicing.stages.collect
import slicing.stages.straight
from slicing.query.policy import Policy

TABLE = pa.table({"t": [1, 5, 12, 13], "k": ["a", "b", "a", None], "v": [1.5, 2.0, None, -4.0], "unused": [[1]] * 4})
SPEC = sl.Spec(
    time="t",
    by=["k"],
    windows={"w": sl.tumbling(10)},
    aggs={"n": sl.count(), "total": sl.sum("v"), "top": sl.max("v")},
)
EXPECTED = [
    ("w", 0, 10, "a", 1, 1.5, 1.5),
    ("w", 0, 10, "b", 1, 2.0, 2.0),
    ("w", 10, 20, None, 1, -4.0, -4.0),
    ("w", 10, 20, "a", 1, None, None),
]


def tuples(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class OnlyAnArray:
    """The least that Arrow's C interface asks for: one batch."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


class OnlyAStream:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def chunked(table):
    return pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1, 3)])


def dictionaries(table):
    """Each chunk has a dictionary of its own."""
    parts = [table.slice(at, 2) for at in (0, 2)]
    return pa.concat_tables([p.set_column(1, "k", p["k"].dictionary_encode()) for p in parts])


def dataset(table, folder):
    for at in range(2):
        pa.parquet.write_table(table.slice(2 * at, 2), folder / f"{at}.parquet", row_group_size=1)
    return pa.dataset.dataset(folder)


PRODUCERS = {
    "record batch": lambda table, folder: table.combine_chunks().to_batches()[0],
    "table": lambda table, folder: table,
    "chunked table": lambda table, folder: chunked(table),
    "reader": lambda table, folder: chunked(table).to_reader(),
    "dataset": dataset,
    "dataset in memory": lambda table, folder: pa.dataset.dataset(table),
    "pandas": lambda table, folder: table.drop_columns("unused").to_pandas().astype({"k": object}),
    "pandas with Arrow types": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb relation": lambda table, folder: duckdb.connect().from_arrow(table),
    "duckdb reader": lambda table, folder: duckdb.connect().from_arrow(table).to_arrow_reader(2),
    "struct array": lambda table, folder: table.to_struct_array().combine_chunks(),
    "array interface": lambda table, folder: OnlyAnArray(table.combine_chunks().to_batches()[0]),
    "stream interface": lambda table, folder: OnlyAStream(chunked(table)),
    "large strings": lambda table, folder: table.set_column(1, "k", table["k"].cast(pa.large_string())),
    "string views": lambda table, folder: table.set_column(1, "k", table["k"].cast(pa.string_view())),
    "dictionaries": lambda table, folder: dictionaries(table),
    "polars": lambda table, folder: polars.from_arrow(table),
    "polars categories": lambda table, folder: polars.from_arrow(table).cast({"k": polars.Categorical}),
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_any_arrow_producer_is_aggregated(producer, tmp_path):
    assert tuples(sl.aggregate(PRODUCERS[producer](TABLE, tmp_path), SPEC)) == EXPECTED


@pytest.mark.parametrize("producer", PRODUCERS)
def test_any_arrow_producer_is_pushed_as_one_batch(producer, tmp_path):
    op = sl.Operator(SPEC)
    out = op.push(PRODUCERS[producer](TABLE, tmp_path))
    assert (out.stats.rows, out.stats.windowed, out.stats.late) == (4, 4, 0)
    assert tuples(out.windows) + tuples(op.flush().windows) == EXPECTED


def test_key_columns_come_back_in_their_type():
    coded = dictionaries(TABLE)
    assert sl.aggregate(coded, SPEC).schema.field("k").type == pa.dictionary(pa.int32(), pa.string())


# --- nothing to see -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "empty",
    [TABLE.slice(0, 0), TABLE.schema.empty_table(), TABLE.schema.empty_table().to_reader(), TABLE.to_batches()[0][:0]],
    ids=["slice", "table without chunks", "reader", "batch"],
)
def test_data_without_rows_has_a_schema(empty):
    table = sl.aggregate(empty, SPEC)
    assert table.num_rows == 0
    assert table.schema == sl.aggregate(TABLE, SPEC).schema


@pytest.mark.parametrize("name", ["k", "v", "s", "f"])
def test_a_column_of_nulls_without_a_type_is_one_of_nulls(name):
    """A key, a value, a sequence, a flag: the state is the same, and late rows have its type."""
    aggs = {"n": sl.count(), "v": sl.sum("v"), "flagged": sl.last("k").where("f")}
    spec = sl.Spec("t", {"m": sl.tumbling(10)}, aggs, by=["k"], sequence="s")
    columns = {"t": [1, 35], "k": ["a", "b"], "v": [1.5, 2.5], "s": [1, 2], "f": [True, False], "beside": [None, None]}
    first = pa.table(columns)
    more = first.set_column(0, "t", pa.array([5, 36]))
    place = first.schema.get_field_index(name)
    outs, states = [], []
    for type in (first.schema.field(name).type, pa.null()):
        op = sl.Operator(spec)
        op.push(first)
        given = more.set_column(place, name, pa.nulls(2, type))
        outs.append(op.push(given))
        states.append(op.snapshot())
    assert outs[0] == outs[1]
    assert outs[0].late.num_rows == 1
    assert states[0] == states[1]


def test_later_batches_may_have_narrower_types():
    """The state, late rows and results are those of the first batch's types."""
    wide = {"t": pa.timestamp("us", "UTC"), "k": pa.int64(), "v": pa.float64(), "d": pa.decimal128(20, 2)}
    narrow = {"t": pa.timestamp("s", "Europe/Berlin"), "k": pa.uint8(), "v": pa.int64(), "d": pa.decimal128(5, 1)}
    start, aggs = 1_700_000_000, {"v": sl.sum("v"), "d": sl.max("d"), "last": sl.last("k")}
    spec = sl.Spec("t", {"m": sl.tumbling("10s"), "r": sl.rows(2)}, aggs, by=["k"])

    def rows(types, *seconds):
        times = pa.array([start + second for second in seconds], pa.timestamp("s", "UTC")).cast(types["t"])
        numbers = [pa.array(range(len(seconds)), type) for type in (types["k"], types["v"], types["d"])]
        return pa.table([times, *numbers], list(types))

    outs, states = [], []
    for types in (wide, narrow):
        op = sl.Operator(spec)
        outs.append([op.push(rows(wide, 1, 2, 35)), op.push(rows(types, 3, 36, 37)), op.flush()])
        states.append(op.snapshot())
    assert outs[0] == outs[1] and outs[1][1].late.num_rows == 1
    assert states[0] == states[1]


def test_a_number_that_the_first_batchs_type_cannot_hold_is_refused():
    op = sl.Operator(sl.Spec("t", {"m": sl.tumbling(10)}, {"v": sl.sum("v")}))
    op.push(pa.table({"t": [1], "v": [1.5]}))
    before = op.snapshot()
    with pytest.raises(TypeError, match="this one has int64, with values that double may not hold: cast it"):
        op.push(pa.table({"t": [2], "v": [(1 << 60) + 1]}))
    assert op.snapshot() == before
    assert op.push(pa.table({"t": [2], "v": [1 << 52]})).stats.windowed == 1


def test_a_time_column_without_a_type_is_refused_like_null_times():
    op = sl.Operator(SPEC)
    op.push(TABLE)
    before = op.snapshot()
    with pytest.raises(ValueError, match=r"^time column 't' is null in row 0 of the batch; fill or drop nulls, or use"):
        op.push(TABLE.set_column(0, "t", pa.nulls(len(TABLE))))
    assert op.snapshot() == before


def test_empty_batches_between_others_change_nothing():
    op, found = sl.Operator(SPEC), []
    for part in (TABLE.slice(0, 0), TABLE.slice(0, 2), TABLE.slice(2, 0), TABLE.slice(2, 2), TABLE.slice(4, 0)):
        out = op.push(part)
        assert out.stats.rows == part.num_rows
        found += tuples(out.windows)
    assert found + tuples(op.flush().windows) == EXPECTED


# --- layouts of columns ---------------------------------------------------------------------------------------------

D = Decimal
VALUES = {
    pa.int8(): [3, None, -1, 2, -1, None, 7, 0],
    pa.uint64(): [3, None, 2**64 - 1, 2, 0, None, 7, 0],
    pa.float32(): [0.5, None, -1.5, 2.0, float("inf"), None, 7.0, 0.0],
    pa.bool_(): [True, None, False, True, False, None, True, False],
    pa.decimal128(18, 2): [D("1.50"), None, D("-2.25"), D("0.00"), D("9999999999.99"), None, D("3.00"), D("1.00")],
    pa.decimal128(38, 2): [D("1.50"), None, D("-2.25"), D("0.00"), D(10) ** 30 + D("0.25"), None, D("3.00"), D("1.00")],
    pa.string(): ["pear", None, "fig", "", "kiwi is longer than twelve", None, "apple", "é"],
    pa.large_string(): ["pear", None, "fig", "", "kiwi is longer than twelve", None, "apple", "é"],
    pa.binary(): [b"pear", None, b"\xff", b"", b"\x00", None, b"apple", b"a"],
    pa.binary(2): [b"pe", None, b"\xff\x00", b"\x00\x00", b"\x00\x01", None, b"ap", b"aa"],
    pa.timestamp("ms", "Asia/Kathmandu"): [3, None, -1, 2, -1, None, 7, 0],
    pa.date32(): [3, None, -1, 2, -1, None, 7, 0],
    pa.time64("us"): [3, None, 1, 2, 1, None, 7, 0],
}
SHORT = [pa.decimal32(5, 2), pa.decimal64(12, 2)] if hasattr(pa, "decimal32") else []  # from pyarrow 19 on
SHORT_VALUES = [
    [D("1.50"), None, D("-2.25"), D("0.00"), D("999.99"), None, D("3.00"), D("1.00")],
    [D("1.50"), None, D("-2.25"), D("0.00"), D("9999999999.99"), None, D("3.00"), D("1.00")],
]
VALUES |= dict(zip(SHORT, SHORT_VALUES, strict=False))
FLAGS = [True, False, None, True, True, True, False, True]


def hidden_in(array):
    """The same values as a slice from the middle of a longer array, at an offset that is no multiple of 8."""
    around = pa.concat_arrays([array.take(pa.array([0, 2, 3] * 4 + [6])), array, array[:5]])
    return around[13 : 13 + len(array)]


def coded(array):
    """A dictionary with a value twice of which no row uses the first, and nulls in it as well as among its indices."""
    values = array.to_pylist()
    words = [values[6], None, *dict.fromkeys(v for v in values if v is not None)]
    place = {word: at for at, word in enumerate(words)}
    indices = [None if value is None and row % 2 else place[value] for row, value in enumerate(values)]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words, array.type))


LAYOUTS = {
    "whole": lambda array: array,
    "sliced": hidden_in,
    "dictionary": coded,
    "sliced dictionary": lambda array: hidden_in(coded(array)),
}


def column(type):
    """The values of a type; times are written as integers above."""
    stored = {32: pa.int32(), 64: pa.int64()}[type.bit_width] if pa.types.is_temporal(type) else type
    return pa.array(VALUES[type], stored).cast(type)


def answers(values, flags, key):
    spec = sl.Spec(
        time="t",
        by=["k"],
        windows={"w": sl.tumbling(100)},
        aggs={
            "n": sl.count("v"),
            "flagged": sl.count("v").where("f"),
            "least": sl.min("v"),
            "most": sl.max("v"),
            "first": sl.first("v"),
            "last": sl.last("v"),
            "at_least": sl.argmin("v", "t"),
            "at_most": sl.argmax("t", "v"),
        },
    )
    batch = pa.record_batch({"t": list(range(8)), "v": values, "f": flags, "k": key})
    return tuples(sl.aggregate(batch, spec))


@pytest.mark.parametrize("type", VALUES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_flags_are_read_from_any_layout(type, layout):
    array = column(type)
    key = pa.array([1] * 8)
    values = array.to_pylist()
    held = [v for v in values if v is not None]
    flagged = sum(v is not None and f is True for v, f in zip(values, FLAGS, strict=True))
    place = values.index(min(held))
    expected = ("w", 0, 100, 1, len(held), flagged, min(held), max(held), values[0], values[7], place, values[7])
    flags = hidden_in(pa.array(FLAGS)) if "sliced" in layout else pa.array(FLAGS)
    assert answers(LAYOUTS[layout](array), flags, key) == [expected]


@pytest.mark.parametrize("type", VALUES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_are_read_from_any_layout(type, layout):
    array = column(type)
    found = {row[3]: row[4] for row in answers(pa.array(range(8)), pa.array(FLAGS), LAYOUTS[layout](array))}
    values = array.to_pylist()
    assert found == {key: values.count(key) for key in values}


def test_sums_are_read_from_any_layout():
    for type in (*SHORT, pa.decimal128(18, 2), pa.decimal128(38, 2)):
        array = column(type)
        spec = sl.Spec(time="t", windows={"w": sl.tumbling(100)}, aggs={"s": sl.sum("v"), "m": sl.mean("v")})
        total = sum(Fraction(v) for v in VALUES[type] if v is not None)
        for layout in LAYOUTS.values():
            table = sl.aggregate(pa.record_batch({"t": list(range(8)), "v": layout(array)}), spec)
            assert [Fraction(v) for v in table["s"].to_pylist()] == [total]
            assert [abs(Fraction(v) - total / 6) <= Fraction(1, 10**6) for v in table["m"].to_pylist()] == [True]


@pytest.mark.parametrize("aggregate", [sl.min("v"), sl.last("v"), sl.argmin("t", "v"), sl.min_count("v"), sl.m4("v")])
def test_views_are_aggregated(aggregate):
    for type in (pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string_view())):
        values = pa.array(["b", "a", None, "c"], pa.string())
        values = values.dictionary_encode() if pa.types.is_dictionary(type) else values
        batch = pa.record_batch({"t": [1, 2, 3, 4], "v": values.cast(type)})
        assert sl.aggregate(batch, sl.Spec(time="t", windows={"w": sl.whole()}, aggs={"x": aggregate})).num_rows == 1


def test_late_rows_of_polars_strings_come_back():
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"n": sl.count()}))
    op.push(polars.DataFrame({"t": [100], "name": ["in time"]}))
    assert op.push(polars.DataFrame({"t": [5], "name": ["late"]})).late["name"].to_pylist() == ["late"]


def test_late_rows_keep_run_end_encoded_columns():
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"n": sl.count()}))
    runs = pa.RunEndEncodedArray.from_arrays([2], ["same"])
    op.push(pa.record_batch({"t": [100, 101], "r": runs}))
    assert op.push(pa.record_batch({"t": [1, 200], "r": runs})).late["r"].to_pylist() == ["same"]


def test_values_of_run_end_encoded_columns_are_counted():
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"n": sl.count("r")}))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int16()), pa.array([None, "a", "b"]))
    op.push(pa.record_batch({"t": [9, 11, 12], "r": runs.slice(1, 3)}))
    out = op.push(pa.record_batch({"t": [3, 13, 21, 14], "r": runs.slice(1)}))
    assert out.windows["n"].to_pylist() == [2 + 2]
    assert out.late["r"].to_pylist() == [None]


def test_late_rows_of_an_input_with_a_reason_can_be_read():
    op = sl.Operator(sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"n": sl.count()}))
    op.push(pa.record_batch({"t": [100], "reason": ["mine"]}))
    late = op.push(pa.record_batch({"t": [5], "reason": ["mine"]})).late
    assert late.to_pylist() == [{"t": 5, "reason": "mine", "late_reason": "late"}]
    late = op.push(late).late  # its schema has changed by a column
    assert late.to_pylist() == [{"t": 5, "reason": "mine", "late_reason": "late", "late_late_reason": "late"}]


@pytest.mark.filterwarnings("error")
def test_nulls_in_flags_and_bools_give_no_warning():
    batch = pa.record_batch({"t": [1, 2, 3], "b": [True, None, False]})
    aggs = {"s": sl.sum("b"), "any": sl.any("b"), "f": sl.count().where("b"), "first": sl.first("b")}
    table = sl.aggregate(batch, sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs=aggs))
    assert tuples(table) == [("w", 0, 10, 1, True, 1, True)]


# --- what it costs --------------------------------------------------------------------------------------------------


def test_a_batch_is_not_copied(monkeypatch):
    """Kernels read an int64 time and a float64 value where Arrow has them, at any offset."""
    seen = []
    monkeypatch.setattr(slicing.stages.collect, "reduce_rows", lambda rows: seen.append(rows) or reduce_rows(rows))
    reduce_rows = slicing.reducing.reduce.reduce_rows
    times, values, read = np.arange(1000), np.linspace(0, 1, 1000), []
    spec = sl.Spec(time="t", windows={"w": sl.tumbling(10)}, aggs={"total": sl.sum("v"), "n": sl.count()})
    batch = pa.record_batch({"t": times, "v": values}).slice(8, 900)
    monkeypatch.setattr(
        slicing.stages.straight, "reduce_runs", lambda *given: read.append(given[3]) or reduce_runs(*given)
    )
    reduce_runs = slicing.reducing.lift.reduce_runs
    sl.Operator(spec).push(batch)
    assert np.shares_memory(read[0], values)
    sl.Operator(spec, policy=Policy(straight=False)).push(batch)
    rows = seen[0]
    assert np.shares_memory(rows.time, times)
    assert np.shares_memory(rows.feed(rows.plan.lanes[0].feeds[0]), values)
    assert rows.time.tolist() == times[8:908].tolist()


STREAMED = """
import resource, sys
import pyarrow as pa, pyarrow.dataset
import slicing as sl

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

spec = sl.Spec(
    time="t", by=["k"], windows={"w": sl.tumbling(1_000_000)}, aggs={"n": sl.count(), "total": sl.sum("v")}
)
sl.aggregate(pa.dataset.dataset(sys.argv[1] + "/small"), spec)
before = peak()
data = pa.dataset.dataset(sys.argv[1] + "/large")
table = sl.aggregate(data, spec)
print(table.num_rows, sum(table["n"].to_pylist()), peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is asked of the resource module")
def test_a_dataset_larger_than_memory_is_streamed(tmp_path):
    rows, files = 1_000_000, 30
    template = {"k": np.arange(rows, dtype=np.int64) % 50, "v": np.ones(rows)}
    for folder, number in (("small", 1), ("large", files)):
        (tmp_path / folder).mkdir()
        for file in range(number):
            part = pa.table({"t": np.arange(file * rows, (file + 1) * rows), **template})
            pa.parquet.write_table(part, tmp_path / folder / f"{file:02}.parquet", row_group_size=250_000)
    size = rows * files * 24
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    windows, counted, grown = map(int, done.stdout.split())
    assert (windows, counted) == (30 * 50, rows * files)
    assert grown < size / 2


def test_small_batches_are_pushed_together(monkeypatch):
    """The first one as it is: its columns are those that an error names."""
    rows = pa.table(
        {
            "t": pa.array(np.arange(70_000)),
            "k": pa.array(np.arange(70_000) % 3).cast(pa.string()).dictionary_encode(),
            "unused": pa.nulls(70_000),
        }
    )
    parts = [rows.slice(0, 10), rows.slice(10, 0), *(rows.slice(start, 700) for start in range(10, 34_310, 700))]
    parts += [rows.slice(34_310, 35_000), rows.slice(69_310)]
    own = [part.set_column(1, "k", part["k"].cast(pa.string()).dictionary_encode()) for part in parts]
    pushed = []
    push = sl.Operator.push
    monkeypatch.setattr(sl.Operator, "push", lambda op, batch: pushed.append(batch.num_rows) or push(op, batch))
    spec = sl.Spec(time="t", by=["k"], windows={"w": sl.tumbling(1000)}, aggs={"n": sl.count(), "last": sl.last("t")})
    at_once = sl.aggregate(rows.combine_chunks(), spec)
    assert pushed == [70_000]
    for some in (pa.concat_tables(parts), pa.concat_tables(own)):
        del pushed[:]
        assert tuples(sl.aggregate(some, spec)) == tuples(at_once)
        assert pushed == [10, 32_900, 1400, 35_000, 690]
    del pushed[:]
    large = pa.concat_tables([rows.slice(0, 10), rows.slice(10, 40_000), rows.slice(40_010)])
    assert tuples(sl.aggregate(large, spec)) == tuples(at_once)
    assert pushed == [10, 40_000, 29_990]


@pytest.mark.parametrize("kind", [pd.RangeIndex, pd.Index])
def test_a_named_index_of_pandas_is_a_column(kind):
    """Also one of evenly spaced numbers, which set_index makes a range since pandas 3 and Arrow leaves out."""
    rows = pd.DataFrame({"v": [1, 2, 3], "more": 0}, index=kind(range(0, 30, 10), name="t"))
    spec = sl.Spec("t", {"w": sl.tumbling(20)}, {"s": sl.sum("v")}, by=None)
    for found in (sl.aggregate(rows, spec), sl.Operator(spec).push(rows).windows):
        assert found["s"].to_pylist()[0] == 3 and found["window_start"][0].as_py() == 0
