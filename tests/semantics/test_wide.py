"""Wide results and the frames that come out."""

import pickle
import random

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl
import slicing.pandas
import slicing.polars

WINDOWS = {"1h": sl.tumbling("1h"), "12h": sl.sliding("12h", every="1h"), "24h": sl.sliding("1d", every="1h")}
SINCE = 1_700_000_000


def rows_of(seed: int, n: int) -> pa.Table:
    chance = random.Random(seed)
    times = sorted(SINCE + chance.randrange(100 * 3600) for _ in range(n))
    table = {
        "t": pa.array(times, pa.timestamp("s")),
        "k": pa.array([chance.choice(["u", "v", None]) for _ in range(n)], pa.string()),
        "f": pa.array([chance.choice([0.5, float("nan"), None, -0.0, 0.0]) for _ in range(n)], pa.float64()),
        "v": pa.array([chance.choice([None, 1, 2, 3]) for _ in range(n)], pa.int64()),
    }
    return pa.table(table)


def pivoted(long: pa.Table, by: list[str], aggs: list[str]) -> list[dict]:
    """By plain dicts."""
    found: dict = {}
    for row in long.to_pylist():
        key = (row["window_end"], *(repr(row[name]) for name in by))
        mine = found.setdefault(key, {name: row[name] for name in ("window_end", *by)})
        mine |= {f"{agg}_{row['window']}": row[agg] for agg in aggs}
    columns = [f"{agg}_{window}" for window in WINDOWS for agg in aggs]
    return [dict.fromkeys(["window_end", *by, *columns]) | row for row in found.values()]


@pytest.mark.parametrize("by", [[], ["k"], ["f", "k"]])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_wide_is_a_pivot(by, n):
    table, aggs = rows_of(n, n), {"n": sl.count(), "total": sl.sum("v")}
    spec = sl.Spec("t", WINDOWS, aggs, by=by, watermark=sl.bounded("1h"))
    long, wide = sl.aggregate(table, spec), sl.aggregate(table, spec, layout="wide")
    assert wide.column_names == ["window_end", *by, *(f"{agg}_{w}" for w in WINDOWS for agg in aggs)]
    assert sorted(map(repr, wide.to_pylist())) == sorted(map(repr, pivoted(long, by, list(aggs))))
    assert [wide.schema.field(name).type for name in by] == [table.schema.field(name).type for name in by]
    if by != ["f", "k"]:  # null first
        found = [tuple(row.values()) for row in wide.select(["window_end", *by]).to_pylist()]
        assert found == sorted(
            found, key=lambda row: (row[0], *((value is not None, value or "") for value in row[1:]))
        )
    op = sl.Operator(spec, layout="wide")
    pushed = [op.push(table.slice(at, 40)).windows for at in range(0, n, 40)]
    op = pickle.loads(pickle.dumps(op))
    pushed.append(op.flush().windows)
    assert repr([row for part in pushed for row in part.to_pylist()]) == repr(wide.to_pylist())


def test_updates_are_of_the_windows_that_changed():
    spec = sl.Spec(
        "t",
        {"five": sl.tumbling(5), "ten": sl.tumbling(10)},
        {"n": sl.count()},
        by="k",
        watermark=sl.manual(),
        allowed_lateness=100,
        emit="updates",
    )
    op = sl.Operator(spec, layout="wide")
    op.push(pa.table({"t": [1, 6, 7], "k": ["a", "a", "b"]}))
    first = op.advance(10).windows.to_pylist()
    nothing = {"n_five": None, "revision_five": None, "n_ten": None, "revision_ten": None}
    assert first == [
        {"window_end": 5, "k": "a", **nothing, "n_five": 1, "revision_five": 0},
        {"window_end": 10, "k": "a", "n_five": 1, "revision_five": 0, "n_ten": 2, "revision_ten": 0},
        {"window_end": 10, "k": "b", "n_five": 1, "revision_five": 0, "n_ten": 1, "revision_ten": 0},
    ]
    late = op.push(pa.table({"t": [2], "k": ["a"]})).windows.to_pylist()
    assert late == [
        {"window_end": 5, "k": "a", **nothing, "n_five": 2, "revision_five": 1},
        {"window_end": 10, "k": "a", **nothing, "n_ten": 3, "revision_ten": 1},
    ]


REFUSED = {
    "dict(layout='tall')": "layout must be one of 'long', 'wide'; got 'tall'",
    "dict(windows={'r': sl.rows(3)})": (
        "layout='wide' has one row a key and window end, and several of sl.rows(3, every=3) (windows['r']) may end "
        "together; use layout='long', or sl.attach"
    ),
    "dict(windows={'p': sl.punctuation('b')})": (  # a mark that is a key's last row has a window to itself
        "layout='wide' has one row a key and window end, and several of sl.punctuation('b') (windows['p']) may end "
        "together; use layout='long'"
    ),
    "dict(emit='changes')": (
        "layout='wide' has one row a key and window end, and emit='changes' two; use emit='updates'"
    ),
    "dict(idle=5)": "layout='wide' takes no idle, which may end a window twice; got idle=5",
    "dict(by=['n_w'])": (
        "layout='wide': the column 'n_w' of 'n' and windows['w'] is already a key column; choose another name"
    ),
    "dict(windows={'b_c': sl.whole(), 'c': sl.whole()}, aggs={'a': sl.count(), 'a_b': sl.count()})": (
        "layout='wide': the column 'a_b_c' of 'a_b' and windows['c'] is already that of 'a' and windows['b_c']; choose "
        "another name"
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_wide_is_refused(code):
    more = eval(code)
    layout = more.pop("layout", "wide")
    spec = sl.Spec(**{"time": "t", "windows": {"w": sl.tumbling(5)}, "aggs": {"n": sl.count()}} | more)
    for ask in (
        lambda: sl.Operator(spec, layout=layout),
        lambda: sl.aggregate(pa.table({"t": [1]}), spec, layout=layout),
    ):
        with pytest.raises(ValueError) as refused:
            ask()
        assert str(refused.value) == REFUSED[code]


def test_windows_that_cannot_be_wide_are_not_added():
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()}), layout="wide")
    with pytest.raises(ValueError, match="layout='wide' has one row a key and window end"):
        op.add_window("r", sl.rows(5))


# --- frames -----------------------------------------------------------------------------------------------------------

SPEC = sl.Spec("t", {"day": sl.tumbling("1d")}, {"n": sl.count(), "most": sl.max("v")}, by="k")


def test_results_are_frames_as_asked():
    table = rows_of(7, 50)
    plain, rows = sl.aggregate(table, SPEC), sl.attach(table, SPEC)
    frame, lazy, panda = pl.from_arrow(table), pl.from_arrow(table).lazy(), table.to_pandas()
    for data in (table, frame, lazy, panda):
        assert sl.aggregate(data, SPEC, returns="polars").equals(pl.from_arrow(plain))
        assert len(sl.aggregate(data, SPEC, returns="pandas")) == plain.num_rows
        assert isinstance(sl.aggregate(data, SPEC), pa.Table)
    assert isinstance(sl.aggregate(table, SPEC, returns="same"), pa.Table)
    assert sl.aggregate(frame, SPEC, returns="same").equals(pl.from_arrow(plain))
    assert sl.aggregate(lazy, SPEC, returns="same").collect().equals(pl.from_arrow(plain))
    pd.testing.assert_frame_equal(sl.aggregate(panda, SPEC, returns="same"), plain.to_pandas())
    assert sl.attach(frame, SPEC, returns="same").equals(pl.from_arrow(rows), null_equal=True)
    with pytest.raises(ValueError, match="returns must be one of 'arrow', 'same', 'polars', 'pandas'; got 'numpy'"):
        sl.aggregate(table, SPEC, returns="numpy")


def test_frames_have_a_namespace():
    table = rows_of(8, 50)
    frame, panda = pl.from_arrow(table), table.to_pandas()
    wide = sl.aggregate(table, SPEC, layout="wide")
    assert frame.slicing.aggregate(SPEC, layout="wide").equals(pl.from_arrow(wide))
    assert frame.lazy().slicing.aggregate(SPEC).collect().equals(frame.slicing.aggregate(SPEC))
    assert frame.slicing.attach(SPEC)["n"].to_list() == sl.attach(table, SPEC)["n"].to_pylist()
    assert panda.slicing.aggregate(SPEC)["n"].tolist() == sl.aggregate(table, SPEC)["n"].to_pylist()
    assert isinstance(frame.slicing.aggregate(SPEC, returns="arrow"), pa.Table)


@pytest.mark.parametrize("index", [None, "named", "times"])
def test_frames_of_pandas_keep_their_index(index):
    frame = rows_of(9, 20).to_pandas()
    if index == "named":
        frame.index = pd.Index(range(100, 120), name="id")
    if index == "times":
        frame.index = pd.date_range("2026-01-01", periods=20)
    found = frame.slicing.attach(SPEC)
    assert found.index.equals(frame.index) and list(found.columns) == [*frame.columns, "n", "most"]
    pd.testing.assert_frame_equal(found[list(frame.columns)], frame)
