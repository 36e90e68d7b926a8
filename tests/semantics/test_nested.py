"""Structs, lists and durations as values; several columns of the row that has an extreme."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.plan import Plan

START = 1_700_000_000_000_000_000  # ns since 1970
ROWS = 60_000


def _table(seed=3):
    rng = np.random.default_rng(seed)
    t = START + np.sort(rng.integers(0, 40 * 86_400_000_000_000, ROWS))
    names = np.array(["oslo", "rome", None, "a text longer than twelve bytes"], object)[rng.integers(0, 4, ROWS)]
    deep = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.1)],
        ["name", "x"],
        mask=pa.array(rng.random(ROWS) < 0.2),
    )
    bounds = np.concatenate([[0], np.cumsum(rng.integers(0, 4, ROWS))])
    items = pa.ListArray.from_arrays(bounds.astype(np.int32), pa.array(rng.integers(0, 9, bounds[-1])))
    return pa.table(
        {
            "t": pa.array(t, pa.timestamp("ns")),
            "k": rng.integers(0, 5, ROWS),
            "v": pa.array(rng.integers(-50, 50, ROWS), mask=rng.random(ROWS) < 0.1),
            "s": deep,
            "l": items,
            "d": pa.array(rng.integers(-(10**15), 10**15, ROWS), mask=rng.random(ROWS) < 0.1).cast(pa.duration("ns")),
        }
    )


TABLE = _table()
AGGS = {
    "first": sl.first("s"),
    "last": sl.last("l"),
    "all": sl.collect("s"),
    "at": sl.argmax("v", "s"),
    "row": sl.argmin("v", ["t", "s", "l", "d"]),
    "sum": sl.sum("d"),
    "mean": sl.mean("d"),
}
SPEC = sl.Spec("t", {"day": sl.tumbling("1d")}, AGGS, by=["k"], watermark=sl.bounded("1d"))


def by_hand(table, spec=SPEC):
    """What SPEC asks, row by row."""
    columns = {name: table[name].to_pylist() for name in ("k", "v", "s", "l")}
    columns |= {name: table[name].cast(pa.int64()).to_pylist() for name in ("t", "d")}
    groups = {}
    for row in sorted(range(len(table)), key=lambda row: columns["t"][row]):
        groups.setdefault((columns["t"][row] // 86_400_000_000_000, columns["k"][row]), []).append(row)
    found = []
    for (day, key), rows in sorted(groups.items()):

        def of(name, rows=rows):
            return [columns[name][row] for row in rows if columns[name][row] is not None]

        valued = [row for row in rows if columns["v"][row] is not None]
        most, least = (pick(valued, key=lambda row: columns["v"][row], default=None) for pick in (max, min))
        spans = of("d")
        exact = abs(sum(spans)) * 2 + len(spans)
        mean = None if not spans else exact // (2 * len(spans)) * (-1 if sum(spans) < 0 else 1)
        found.append(
            {
                "day": day,
                "k": key,
                "first": next(iter(of("s")), None),
                "last": next(iter(of("l")[::-1]), None),
                "all": of("s") or None,
                "at": None if most is None else columns["s"][most],
                "row": None if least is None else {name: columns[name][least] for name in ("t", "s", "l", "d")},
                "sum": sum(spans) if spans else None,
                "mean": mean,
            }
        )
    return found


def plain(table):
    found = table.drop_columns(["window", "window_start", "window_end"])
    row = found["row"].combine_chunks()
    fields = [row.field("t").cast(pa.int64()), row.field("s"), row.field("l"), row.field("d").cast(pa.int64())]
    row = pa.StructArray.from_arrays(fields, ["t", "s", "l", "d"], mask=row.is_null())
    found = found.set_column(found.column_names.index("row"), "row", row)
    for name in ("sum", "mean"):
        found = found.set_column(found.column_names.index(name), name, found[name].cast(pa.int64()))
    days = table["window_start"].cast(pa.int64()).to_numpy() // 86_400_000_000_000
    return found.add_column(0, "day", pa.array(days)).to_pylist()


EXPECTED = by_hand(TABLE)


def test_structs_lists_and_durations_of_real_size():
    found = sl.aggregate(TABLE, SPEC)
    assert found.schema.field("row").type == pa.struct([(name, TABLE.schema.field(name).type) for name in "tsld"])
    assert found.schema.field("sum").type == found.schema.field("mean").type == pa.duration("ns")
    assert plain(found) == EXPECTED
    assert plain(sl.aggregate(TABLE, SPEC, threads=2)) == EXPECTED


def test_pushed_out_of_order_with_snapshots_and_copies():
    chance = np.random.default_rng(1)
    hours = TABLE["t"].cast(pa.int64()).to_numpy() // 3_600_000_000_000
    order = np.lexsort((chance.random(ROWS), hours))  # shuffled within an hour
    shuffled, op, found = TABLE.take(pa.array(order)), sl.Operator(SPEC), []
    for start in range(0, ROWS, 2500):
        found.append(op.push(shuffled.slice(start, 2500)).windows)
        if start % 10_000 == 0:
            op = sl.Operator.restore(SPEC, op.snapshot())
    found.append(op.flush().windows)
    assert len(set(TABLE["t"].to_pylist())) == ROWS  # no ties: the answers are those of rows in order
    assert plain(pa.concat_tables(found)) == EXPECTED


@pytest.mark.parametrize("emit", ["updates", "changes"])
def test_late_rows_revise_them(emit):
    aggs = {"last": sl.last("s"), "at": sl.argmax("v", ["l", "s"]), "total": sl.sum("d")}
    spec = sl.Spec("t", {"w": sl.tumbling("1d")}, aggs, allowed_lateness="1d", emit=emit)
    day = [START // 86_400_000_000_000 * 86_400_000_000_000 + at for at in (5, 90_000_000_000_000, 7)]
    rows = pa.table(
        {
            "t": pa.array(day, pa.timestamp("ns")),
            "v": [1, 1, 2],
            "s": [{"a": 1}, {"a": 2}, {"a": 3}],
            "l": [[1], [2], [3, None]],
            "d": pa.array([1, 2, 3], pa.duration("us")),
        }
    )
    op = sl.Operator(spec)
    first, second = (op.push(part).windows.to_pylist() for part in (rows.slice(0, 2), rows.slice(2)))
    assert [row["last"] for row in first] == [{"a": 1}]
    assert second[-1]["last"] == {"a": 3}
    assert second[-1]["at"] == {"l": [3, None], "s": {"a": 3}}
    assert second[-1]["total"].microseconds == 4
    assert len(second) == (1 if emit == "updates" else 2)


def test_values_that_no_window_has_any_more_are_forgotten():
    op = sl.Operator(SPEC)
    sizes = [op.push(TABLE.slice(start, 2000)).stats.bytes for start in range(0, ROWS, 2000)]
    assert max(sizes[15:]) < 1.5 * max(sizes[:15])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": "x"}, None, {"a": None}], pa.struct({"a": pa.string_view()})),
        pa.array([["x"], None, [None]], pa.list_(pa.string())),
        pa.array([["x"], None, []], pa.large_list(pa.large_string())),
        pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
        pa.StructArray.from_arrays(
            [pa.array(["x", "x", None]).dictionary_encode(), pa.array([[1], [2], None])],
            ["a", "b"],
            mask=pa.array([False, True, False]),
        ),
        pa.array([{"a": {"b": [{"c": 1}]}}, None, {"a": None}]),
    ],
    ids=lambda column: str(column.type),
)
def test_layouts_of_structs_and_lists(column):
    """In the middle of others, and again after a restart; rows without a value are left out."""
    around = pa.concat_arrays([column, column, column])[3:6] if "dictionary" not in str(column.type) else column
    table = pa.table({"t": [1, 2, 3], "x": around})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"f": sl.first("x"), "l": sl.last("x"), "c": sl.collect("x")})
    op = sl.Operator(spec)
    op.push(table.slice(0, 2))
    op = sl.Operator.restore(spec, op.snapshot())
    op.push(table.slice(2))
    values = column.to_pylist()
    (row,) = op.flush().windows.to_pylist()
    assert (row["f"], row["l"], row["c"]) == (values[0], values[2], [values[0], values[2]])


def test_sums_of_durations_that_do_not_fit():
    top = 2**63 - 1
    rows = pa.table({"t": [1, 2, 3], "d": pa.array([top, top, top - 3], pa.duration("ns"))})

    def ask(aggregate, on_overflow="error"):
        spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": aggregate}, on_overflow=on_overflow)
        return sl.aggregate(rows, spec)["x"].cast(pa.int64()).to_pylist()

    with pytest.raises(OverflowError, match=r"sl\.sum\('d'\).* does not fit|x.*does not fit|overflow"):
        ask(sl.sum("d"))
    assert ask(sl.sum("d"), "null") == [None]
    assert ask(sl.sum("d"), "wrap") == [(3 * top - 3 + 2**63) % 2**64 - 2**63]
    assert ask(sl.mean("d")) == [top - 1]


@pytest.mark.parametrize(
    ("spans", "mean"),
    [
        ([1, 2], 2),
        ([-1, -2], -2),
        ([1, 1, 2], 1),
        ([-(2**63)], -(2**63)),
        ([-(2**63)] * 3, -(2**63)),
        ([2**63 - 1, -1], 2**62 - 1),
    ],
)
def test_means_of_durations_are_whole_units(spans, mean):
    """The nearest one, halves away from zero."""
    rows = pa.table({"t": range(len(spans)), "d": pa.array(spans, pa.duration("s"))})
    found = sl.aggregate(rows, sl.Spec("t", {"w": sl.whole()}, {"m": sl.mean("d")}))["m"]
    assert found.type == pa.duration("s")
    assert found.cast(pa.int64()).to_pylist() == [mean]


def test_ties_and_nulls_of_several_returned_columns():
    """All columns are of one row, the earliest, whether they are null in it or not."""
    rows = pa.table({"t": [2, 1, 3], "v": [7, 7, 7], "a": ["late", None, "x"], "b": [1.5, 2.5, None]})
    aggs = {"most": sl.argmax("v", ["a", "b", "v"]), "none": sl.argmin("v", ["a"]).where("f")}
    rows = rows.append_column("f", pa.array([False, None, False]))
    found = sl.aggregate(rows, sl.Spec("t", {"w": sl.tumbling(10)}, aggs)).to_pylist()[0]
    assert found["most"] == {"a": None, "b": 2.5, "v": 7}
    assert found["none"] is None


def test_rows_with_the_largest_values():
    """Of equal values the earliest first; memory is that of k rows a slice."""
    spec = sl.Spec("t", {"day": sl.tumbling("1d")}, {"top": sl.top_k("v", 5, ["t", "s", "v"])}, by=["k"])
    columns = {name: TABLE[name].to_pylist() for name in ("k", "s", "v")} | {
        "t": TABLE["t"].cast(pa.int64()).to_pylist()
    }
    groups = {}
    for row in range(ROWS):
        if columns["v"][row] is not None:
            groups.setdefault((columns["t"][row] // 86_400_000_000_000, columns["k"][row]), []).append(row)
    expected = []
    for _, rows in sorted(groups.items()):
        best = sorted(rows, key=lambda row: -columns["v"][row])[:5]
        expected.append([[columns[name][row] for name in ("t", "s", "v")] for row in best])
    found = sl.aggregate(TABLE, spec)
    assert found.schema.field("top").type.value_type == pa.struct([(n, TABLE.schema.field(n).type) for n in "tsv"])
    flat = pa.concat_arrays([chunk.flatten() for chunk in found["top"].chunks])
    parts = (flat.field("t").cast(pa.int64()), flat.field("s"), flat.field("v"))
    values = map(list, zip(*(part.to_pylist() for part in parts), strict=True))
    assert [[next(values) for _ in items] for items in expected] == expected
    assert repr(spec.aggs["top"]) == "sl.top_k('v', 5, return_=['t', 's', 'v'])"
    assert eval(repr(spec)) == spec


@pytest.mark.parametrize(
    "window",
    [sl.sliding("1m", every="7s"), sl.session("8s"), sl.rows(20, every=7), sl.per_row("30s"), sl.last_rows(9, "10s")],
    ids=repr,
)
def test_rows_with_the_largest_values_in_every_kind_of_window(window):
    """Held against ``collect`` of the same windows: rows out of order, restarts, NaN and null values."""
    chance, rows = np.random.default_rng(5), 3000
    v = np.where(chance.random(rows) < 0.1, np.nan, chance.integers(-5, 5, rows))
    table = pa.table(
        {
            "t": pa.array(START + np.cumsum(chance.integers(1, 10**10, rows)), pa.timestamp("ns")),
            "k": chance.integers(0, 3, rows),
            "v": pa.array(v, mask=chance.random(rows) < 0.1),
            "name": pa.array(np.array(["a", "b", None], object)[chance.integers(0, 3, rows)], pa.string()),
            "row": np.arange(rows),
        }
    )
    aggs = {"rows": sl.collect("row"), "top": sl.top_k("v", 3, ["row", "name"]), "names": sl.top_k("name", 3, "row")}
    spec = sl.Spec("t", {"w": window}, aggs, by=["k"], watermark=sl.bounded("20s"))
    shuffled = table.take(pa.array(np.argsort(np.arange(rows) + chance.integers(0, 3, rows), kind="stable")))
    op, found = sl.Operator(spec), []
    for start in range(0, rows, 500):
        found += op.push(shuffled.slice(start, 500)).windows.to_pylist()
        op = sl.Operator.restore(spec, op.snapshot())
    found += op.flush().windows.to_pylist()
    values, names = table["v"].to_pylist(), table["name"].to_pylist()
    assert len(found) > 400
    for one in found:
        valued = [row for row in one["rows"] if values[row] is not None]
        valued.sort(key=lambda row: (np.isnan(values[row]), -np.nan_to_num(values[row])))
        assert (one["top"] or []) == [{"row": row, "name": names[row]} for row in valued[:3]]
        named = sorted((row for row in one["rows"] if names[row] is not None), key=lambda row: -ord(names[row]))
        assert (one["names"] or []) == named[:3]


def test_without_an_order_of_arrival_they_are_refused():
    """As on Spark: which of two rows of one time is taken would depend on who read them."""
    schema = TABLE.schema
    for aggregate, what in (
        (sl.first("s"), "structs or lists"),
        (sl.collect("l"), "structs or lists"),
        (sl.argmax("v", "s"), "structs or lists"),
        (sl.argmax("v", ["t", "v"]), "other columns of rows"),
        (sl.top_k("v", 2, "t"), "other columns of rows"),
    ):
        with pytest.raises(
            ValueError, match=f"^aggs\\['x'\\]: sl.* returns {what}, which needs rows in an order of arri"
        ):
            Plan(sl.Spec("t", {"w": sl.whole()}, {"x": aggregate}), schema, arrival=False)
    Plan(sl.Spec("t", {"w": sl.whole()}, {"x": sl.collect("v"), "y": sl.mean("d")}), schema, arrival=False)
