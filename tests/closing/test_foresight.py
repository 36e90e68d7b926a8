"""Tables that are all at hand: windows are given out as their rows have come, and are those of a flush."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl
from slicing.api import all_windows
from slicing.closing.wide import widened
from slicing.lifecycle.state import forget
from slicing.query.plan import Plan
from slicing.query.policy import Policy
from slicing.stages import output
from slicing.tables.pieces import _pieces

ROWS, PIECE = 4000, 256
BEGUN = 1_700_000_000_000_000
AGGS = {"s": sl.sum("v"), "lo": sl.min("v"), "n": sl.count(), "top": sl.last("v")}
WINDOWS = {
    "tumbling": {"w": sl.tumbling("1s")},
    "sliding": {"w": sl.sliding("3s", "1s"), "x": sl.tumbling("500ms")},
    "calendar": {"w": sl.calendar("1d")},
    "cumulate": {"w": sl.cumulate("4s", "1s")},
}


OF_ROWS = {
    "rows": {"w": sl.rows(3)},
    "two": {"w": sl.rows(5, every=2), "x": sl.rows(4)},
    "stream": {"w": sl.rows(7, per_key=False)},
    "arrival": {"w": sl.rows(4, order="arrival")},
    "partial": {"w": sl.rows(4, partial=True)},
    "per row": {"w": sl.per_row("200ms")},
    "some": {"w": sl.per_row("200ms", every=3), "x": sl.rows(6)},
    "around": {"w": sl.per_row(before="100ms", after="100ms")},
    "last": {"w": sl.last_rows(5, "1s")},
}

POLICY = Policy(push_rows=PIECE, gathered_rows=64)


def in_pieces(data, spec, between=None):
    return all_windows(data, spec, None, between, policy=POLICY)


def at_once(data, spec, between=None):
    return all_windows(data, spec, None, between, policy=replace(POLICY, push_rows=1 << 40))


def rows(seed, late=300_000, keys=40, nulls=False):
    """A row of some key each 25 ms, up to ``late`` us out of order."""
    rng = np.random.default_rng(seed)
    time = np.arange(ROWS) * 25_000
    time = BEGUN + time[np.argsort(time + rng.integers(0, late + 1, ROWS), kind="stable")]
    columns = {"t": pa.array(time).cast(pa.timestamp("us", "UTC")), "k": rng.integers(0, keys, ROWS).astype(str)}
    if nulls:
        columns["t"] = pa.array(time, mask=rng.random(ROWS) < 0.1).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns | {"v": rng.integers(-100, 100, ROWS)})


@pytest.mark.parametrize("by", [(), "k"])
@pytest.mark.parametrize("windows", WINDOWS)
def test_answers_are_those_of_a_flush(windows, by):
    spec = sl.Spec("t", WINDOWS[windows], AGGS, by=by)
    for seed, late in ((0, 0), (1, 300_000), (2, 20_000_000), (3, 10**9)):
        data = rows(seed, late)
        found = in_pieces(data, spec)
        assert found.equals(at_once(data, spec))
        assert found["n"].num_chunks == 1 or late < 10**9


@pytest.mark.parametrize("by", [(), "k"])
@pytest.mark.parametrize("windows", OF_ROWS)
def test_windows_of_rows_are_those_of_a_flush(windows, by):
    spec = sl.Spec("t", OF_ROWS[windows], AGGS, by=by)
    for seed, late in ((0, 0), (1, 300_000), (3, 10**9)):
        data = rows(seed, late, nulls=seed == 1)
        data = data.filter(pc.is_valid(data["t"])).combine_chunks()
        assert in_pieces(data, spec).equals(at_once(data, spec))


def test_rows_that_have_to_be_sorted_are_let_go_on_the_way():
    for windows in ({"w": sl.rows(3)}, {"w": sl.per_row("200ms")}):
        by_key, plain = sl.Spec("t", windows, AGGS, by="k"), sl.Spec("t", windows, AGGS)
        assert in_pieces(rows(0, 0), by_key)["n"].num_chunks > 10
        assert in_pieces(rows(0, 300_000), plain)["n"].num_chunks > 10
        assert in_pieces(rows(0, 0), plain)["n"].num_chunks == 1
        assert in_pieces(rows(0, 10**9), by_key)["n"].num_chunks == 1


@pytest.mark.parametrize("looked_at", [16, 1 << 14])
def test_pieces_end_where_slices_do_if_that_is_near(looked_at, monkeypatch):
    monkeypatch.setattr("slicing.tables.pieces.FIRST_ROWS", looked_at)
    for width, aligned in (("10s", True), ("1h", False)):
        plan = Plan.of(sl.Spec("t", {"w": sl.tumbling(width)}, AGGS, by="k"), rows(0, 0).schema, policy=POLICY)
        for late in (0, 300_000):
            data = rows(0, late).combine_chunks().to_batches()
            pieces = list(_pieces(plan, data, PIECE))
            assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches(data))
            sizes = np.array([piece.num_rows for piece in pieces])
            assert (sizes <= 3 * PIECE).all() and (sizes[:-1] >= PIECE).all()
            assert aligned or (sizes[:-1] == PIECE).all()
            slices = [piece["t"].cast(pa.int64()).to_numpy() // 10**7 for piece in pieces]
            if aligned and not late:
                assert all(before[-1] < after[0] for before, after in pairwise(slices))


def test_keys_of_the_piece_before_are_kept(monkeypatch):
    looks = []

    def looked(state, keys, *others):
        left = forget(state, keys, *others)
        looks.append((len(keys), len(left)))
        return left

    monkeypatch.setattr(output, "forget", looked)
    spec = sl.Spec("t", {"w": sl.tumbling("10s")}, AGGS, by="k")
    again = rows(0, 0, keys=450)
    assert in_pieces(again, spec).equals(at_once(again, spec))
    assert len(looks) > 1 and all(before == after for before, after in looks)
    once = again.set_column(1, "k", pa.array(np.arange(ROWS)))
    expected = at_once(once, spec)
    looks.clear()
    assert in_pieces(once, spec).equals(expected)
    assert max(after for _, after in looks) < ROWS // 2


@pytest.mark.parametrize("delay", [0, 10**6, 10**12])
def test_pushes_of_many_windows_that_begin_with_a_slice(delay):
    begun, each, size = 1_700_000_000_000_000_000, 10, 30_000
    time = begun + np.arange(size) * 10**8  # ten rows a second
    value = np.random.default_rng(1).normal(0, 1, size)
    spec = sl.Spec(
        "t",
        {"w": sl.tumbling(10**9)},
        {"s": sl.sum("v"), "lo": sl.min("v"), "hi": sl.max("v"), "n": sl.count()},
        watermark=sl.bounded(delay),
    )
    data = pa.table({"t": time, "v": value})
    for cuts in ((15_000,), (10, 15_000), (15_000, 29_990), (12_000, 24_003)):
        operator = sl.Operator(spec)
        pieces = [data.slice(a, b - a) for a, b in zip((0, *cuts), (*cuts, size), strict=True)]
        outputs = [operator.push(piece) for piece in pieces]
        found = pa.concat_tables([*(out.windows for out in outputs), operator.flush().windows])
        assert found["window_start"].to_numpy().tolist() == (begun + np.arange(size // each) * 10**9).tolist()
        expected = value.reshape(-1, each)
        np.testing.assert_allclose(found["s"].to_numpy(), expected.sum(axis=1), rtol=1e-12)
        assert (found["lo"].to_numpy() == expected.min(axis=1)).all()
        assert (found["hi"].to_numpy() == expected.max(axis=1)).all()
        assert (found["n"].to_numpy() == each).all()


def test_what_is_over_is_given_out():
    spec = sl.Spec("t", {"w": sl.tumbling("1s")}, AGGS, by="k")
    assert in_pieces(rows(0, 0), spec)["n"].num_chunks > 10
    assert in_pieces(rows(0, 300_000), spec)["n"].num_chunks > 10
    assert in_pieces(rows(0, 10**9), spec)["n"].num_chunks == 1  # in no order
    assert in_pieces(rows(0, 0), sl.Spec("t", {"w": sl.tumbling("1h")}, AGGS))["n"].num_chunks == 1  # few results
    minutes, many_keys = sl.Spec("t", {"w": sl.tumbling("1m")}, AGGS, by="k"), rows(0, 0, keys=ROWS)
    assert in_pieces(many_keys, minutes)["n"].num_chunks == 1  # slices of many pieces
    assert in_pieces(many_keys, minutes).equals(at_once(many_keys, minutes))


@pytest.mark.parametrize(
    ("windows", "options"),
    [
        ({"w": sl.session("100ms")}, {}),
        ({"w": sl.rows(3)}, {}),
        ({"w": sl.tumbling("1s", fill=True)}, {}),
        ({"w": sl.sliding("2s", "1s", full=True)}, {}),
        ({"w": sl.tumbling("1s")}, {"idle": "5s"}),
        ({"w": sl.tumbling("1s")}, {"emit": "updates", "allowed_lateness": "1s"}),
        ({"w": sl.tumbling("1s")}, {"allowed_lateness": "3s"}),
        ({"w": sl.tumbling("1s")}, {"on_null_time": "late"}),
        ({"w": sl.tumbling("1s"), "x": sl.whole()}, {}),
    ],
)
def test_other_queries_answer_alike(windows, options):
    spec = sl.Spec("t", windows, AGGS, by="k", **options)
    data = rows(4, nulls="on_null_time" in options)
    assert in_pieces(data, spec).equals(at_once(data, spec))


def test_chunks_frames_and_layouts():
    data = rows(5)
    spec = sl.Spec("t", {"w": sl.tumbling("1s")}, AGGS, by="k")
    whole = at_once(data, spec)
    chunked = pa.concat_tables([data.slice(at, 300) for at in range(0, ROWS, 300)])
    assert in_pieces(chunked, spec).equals(whole)
    assert widened(in_pieces(chunked, spec), spec).equals(widened(whole, spec))
    assert in_pieces(data.to_pandas(), spec).select(["s", "n"]).equals(whole.select(["s", "n"]))
    between = {"between": (None, data["t"][ROWS // 2])}
    assert in_pieces(chunked, spec, **between).equals(at_once(data, spec, **between))


def test_dictionary_keys_have_one_dictionary():
    data = rows(6, keys=600)
    coded = data.set_column(1, "k", data["k"].combine_chunks().dictionary_encode())
    spec = sl.Spec("t", {"w": sl.tumbling("1s")}, {"n": sl.count(), "top": sl.last("k")}, by="k")
    found = in_pieces(coded, spec)
    assert found["n"].num_chunks > 2
    plain = in_pieces(data, spec)
    assert found["k"].cast(pa.string()).to_pylist() == plain["k"].to_pylist()
    assert len({tuple(chunk.dictionary.to_pylist()) for chunk in found["k"].chunks}) == 1


@pytest.mark.parametrize("first", [-(2**62), 2**62 - ROWS * 2])
def test_whole_numbers_far_out(first):
    rng = np.random.default_rng(7)
    time = first + np.sort(rng.integers(0, ROWS * 2, ROWS))
    data = pa.table({"t": time, "k": rng.integers(0, 9, ROWS), "v": rng.integers(0, 9, ROWS)})
    spec = sl.Spec("t", {"w": sl.sliding(9, 3)}, AGGS, by="k")
    found = in_pieces(data, spec)
    assert found.equals(at_once(data, spec))
    assert found["n"].num_chunks > 5


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="its columns are t, k, v"):
        in_pieces(rows(8), sl.Spec("t", {"w": sl.tumbling("1s")}, {"s": sl.sum("other")}))


@pytest.mark.parametrize("name", ["tumbling", "rows"])
def test_users_functions_see_each_row_once(name, capsys):
    """One that prints would tell: nothing is tried on the first rows."""

    def lift(v):
        if v == 977:
            print("seen")
        return v

    add = sl.udaf("add", lift, lambda a, b: a + b, lambda s: s, 0.0, inputs=["v"], commutative=True)
    data = rows(3)
    data = data.set_column(2, "v", pa.array([977, *data["v"].to_pylist()[1:]]))
    found = in_pieces(data, sl.Spec("t", (WINDOWS | OF_ROWS)[name], {"x": add}, by="k"))
    assert found.num_rows > ROWS // 4 and capsys.readouterr().out == "seen\n"


@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
def test_windows_that_are_lists_close_on_the_way(by):
    """Even if they are few, as they hold all rows."""
    lists = {"m": sl.median("v"), "all": sl.collect("v"), "k2": sl.count_distinct("k"), "top": sl.top_k("v", 3)}
    for seed in range(3):
        data, spec = rows(seed), sl.Spec("t", {"w": sl.tumbling("4s")}, lists, by=by)
        found = in_pieces(data, spec)
        assert found.equals(at_once(data, spec)) and found["m"].num_chunks > 10
    overlapping = sl.Spec("t", {"w": sl.sliding("8s", "4s")}, lists)
    assert in_pieces(data, overlapping)["m"].num_chunks == 1
    assert in_pieces(data, overlapping).equals(at_once(data, overlapping))
