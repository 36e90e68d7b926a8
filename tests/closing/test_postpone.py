"""A flush of many windows, spread over the pushes that follow it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.closing.ways import Closing
from slicing.stages import close

SPEC = sl.Spec(
    time="t",
    by=["k"],
    windows={"m": sl.tumbling(10), "s": sl.session(3)},
    aggs={"n": sl.count(), "least": sl.min("name")},
    watermark=sl.bounded(0),
)


def rows(times: list[int], keys: list[int]) -> pa.Table:
    names = [f"name {key % 7}" for key in keys]
    return pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64()), "name": names})


def test_no_push_gives_more_windows_than_asked_and_none_is_lost():
    op = sl.Operator(SPEC, max_windows_per_push=100)
    op.push(rows([5] * 1000, list(range(1000))))
    given = [op.push(rows([25], [0]))]  # 1000 windows and 1000 sessions are due
    assert given[0].watermark == 5  # what has come out has not got any further
    while given[-1].watermark != 25:
        given.append(op.push(rows([25], [0])))
    assert len(given) in range(20, 30)
    assert max(out.windows.num_rows for out in given) <= 100
    table = pa.concat_tables(out.windows for out in given)
    expected = {("m", key, 0, 10) for key in range(1000)} | {("s", key, 5, 8) for key in range(1000)}
    found = {(row["window"], row["k"], row["window_start"], row["window_end"]) for row in table.to_pylist()}
    assert table.num_rows == 2000 and found == expected
    assert all(row["least"] == f"name {row['k'] % 7}" and row["n"] == 1 for row in table.to_pylist())


def test_a_postponed_window_is_closed_for_late_rows():
    op = sl.Operator(SPEC, max_windows_per_push=1)
    op.push(rows([5] * 4, [0, 1, 2, 3]))
    op.push(rows([25], [0]))
    out = op.push(rows([6], [3]))  # in time for nothing, though key 3 has not come out yet
    assert out.late.num_rows == 1 and 3 not in out.windows["k"].to_pylist()
    table = op.flush().windows.filter(pa.compute.field("k") == 3)
    assert table["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("window", [sl.tumbling(10), sl.session(3)])
def test_a_window_that_waited_comes_out_before_it_is_taken_back(window):
    spec = sl.Spec(
        "t", {"w": window}, {"n": sl.count(), "seen": sl.collect("t")}, by=["k"], emit="changes", allowed_lateness=100
    )
    op = sl.Operator(spec, max_windows_per_push=1)
    given, held = (
        [op.push(rows([2, 3, 4, 5], [0, 1, 2, 3])), op.push(rows([22], [0])), op.push(rows([4, 2], [1, 3]))],
        [],
    )
    assert [out.windows.num_rows for out in given[:2]] == [0, 1]
    for row in pa.concat_tables([*(out.windows for out in given), op.flush().windows]).to_pylist():
        if row.pop("op") == "-":
            held.remove(row)  # which was given out
        else:
            held.append(row)
    whole = [rows([2, 3, 4, 5], [0, 1, 2, 3]), rows([22], [0]), rows([4, 2], [1, 3])]
    expected = sl.aggregate(pa.concat_tables(whole), sl.Spec("t", {"w": window}, spec.aggs, by=["k"])).to_pylist()
    assert sorted(map(str, held)) == sorted(map(str, expected))


def test_keys_that_wait_are_not_forgotten():
    op = sl.Operator(SPEC, max_windows_per_push=50)
    seen = []
    for block in range(12):  # new keys each time, enough of them for codes to be given out anew
        first = block * 3000
        seen.append(op.push(rows([block * 20] * 3000, list(range(first, first + 3000)))).windows)
        op = sl.Operator.restore(SPEC, op.snapshot(), max_windows_per_push=50)
    seen.append(op.flush().windows)
    table = pa.concat_tables(seen)
    assert sorted(table.filter(pa.compute.field("window") == "m")["k"].to_pylist()) == list(range(36000))
    assert sorted(table.filter(pa.compute.field("window") == "s")["k"].to_pylist()) == list(range(36000))
    assert all(row["least"] == f"name {row['k'] % 7}" for row in table.to_pylist())


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "9"])
def test_the_number_of_windows_is_checked(wrong):
    with pytest.raises(ValueError, match="max_windows_per_push must be a whole number of at least 1, or None; got"):
        sl.Operator(SPEC, max_windows_per_push=wrong)


SUMS = sl.Spec(
    "t", {"w": sl.sliding(30, every=10)}, {"s": sl.sum("v"), "n": sl.count()}, by=["k"], watermark=sl.ordered()
)


def random_rows(size: int, keys: int, start: int = 0) -> pa.Table:
    rng = np.random.default_rng(5)
    time = start + np.sort(rng.integers(0, 100, size))
    return pa.table({"t": time, "k": rng.integers(0, keys, size), "v": rng.random(size) * 10.0 ** rng.integers(-9, 9)})


def test_a_share_goes_over_its_own_cells(monkeypatch):
    """And all shares over what one flush would, not each over all that wait: 100 k keys 7.7 -> 0.9 of its CPU time."""
    cells = []

    def closing(plan, store, *rest):
        cells.append(len(store))
        return Closing(plan, store, *rest)

    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, SUMS.aggs, by=["k"], watermark=sl.ordered())
    op = sl.Operator(spec, max_windows_per_push=100)
    op.push(pa.table({"t": np.arange(2000) // 2, "k": np.arange(2000) % 1000, "v": np.ones(2000)}))
    monkeypatch.setattr(close, "Closing", closing)
    given = [op.push(pa.table({"t": [1000 + n], "k": [0], "v": [1.0]})).windows for n in range(11)]
    assert [table.num_rows for table in given] == [100] * 10 + [0]
    assert cells[1:] == [100] * 10  # the first are those of the flush
    assert sorted(k for table in given for k in table["k"].to_pylist()) == list(range(1000))


def test_windows_that_end_first_come_first():
    op = sl.Operator(SUMS, max_windows_per_push=7)
    outs = [op.push(random_rows(400, 10)), op.push(random_rows(1, 1, start=1000))]
    while outs[-1].watermark < 1000:
        outs.append(op.push(random_rows(1, 1, start=1000)))
    assert all(7 * 7 // 8 <= out.windows.num_rows <= 7 for out in outs[2:-2])
    ends = [end for out in outs for end in sorted(out.windows["window_end"].to_pylist())]
    assert ends == sorted(ends) and len(ends) > 90


def test_a_share_is_counted_in_rows_not_in_keys():
    """Many windows of few keys each."""
    spec = sl.Spec("t", {"w": sl.tumbling(1)}, {"n": sl.count()}, by=["k"], watermark=sl.manual())
    op = sl.Operator(spec, max_windows_per_push=300)
    op.push(pa.table({"t": np.arange(500), "k": np.arange(500) % 100}))
    assert [op.advance(500 + n).windows.num_rows for n in range(3)] == [300, 200, 0]


@pytest.mark.parametrize("most", [1, 10, 64, 1000])
def test_a_restored_operator_goes_on_bit_for_bit(most):
    def outputs(restored: bool) -> pa.Table:
        op, found = sl.Operator(SUMS, max_windows_per_push=most), []
        for n in range(12):
            found.append(op.push(random_rows(500, 80, start=100 * n)).windows)
            if restored:
                op = sl.Operator.restore(SUMS, op.snapshot(), max_windows_per_push=most)
        return pa.concat_tables([*found, op.flush().windows])

    assert outputs(True).equals(outputs(False))


def test_rows_go_into_the_hot_block_while_windows_wait():
    """100 k keys, tumbling 60 s, at most 3000 windows a push: 3.5 -> 0.7 ms a push, of which it is a part."""
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, SUMS.aggs, by=["k"], watermark=sl.ordered())
    found = {}
    for most in (None, 100):
        op = sl.Operator(spec, max_windows_per_push=most)
        outs, hot = [], []
        for t in range(0, 6000, 50):
            keys = np.arange(1000 if t % 1000 == 0 else 20)
            outs.append(op.push(pa.table({"t": np.full(keys.size, t), "k": keys, "v": keys * 1.5})))
            hot.append(op._now.store.head is not None and bool(op._now.postponed))
        assert (sum(hot) >= 40) == (most is not None)
        table = pa.concat_tables([*(out.windows for out in outs), op.flush().windows])
        found[most] = table.sort_by([("window_end", "ascending"), ("k", "ascending")])
        assert most is None or max(out.windows.num_rows for out in outs) == most
    assert found[None].equals(found[100]) and found[None].num_rows == 6000


def test_bytes_are_those_of_cells_that_wait_once():
    """Windows that wait share the cells with one another, and with those that are open."""
    op = sl.Operator(SUMS, max_windows_per_push=1)
    held = [op.push(random_rows(2000, 200)).stats["bytes"]]
    held += [op.push(random_rows(1, 1, start=100 + n)).stats["bytes"] for n in range(0, 100, 10)]
    assert len(op._now.postponed) > 8
    assert op._now.postponed[0].store.nbytes < held[0] and max(held) < 1.3 * held[0]
    while op._now.postponed:
        last = op.push(random_rows(1, 1, start=200)).stats["bytes"]
    assert 2 * last < held[0]


def test_what_waits_may_be_without_cells() -> None:
    """Of windows with gaps between them the slices of what waits may be in none."""
    spec = sl.Spec(
        "t", {"a": sl.tumbling(1), "b": sl.sliding(1, 12)}, {"n": sl.count()}, by=["k"], watermark=sl.bounded(2)
    )
    op, given = sl.Operator(spec, max_windows_per_push=1), 0
    for rows in ([(0, 1), (4, 0), (1, 1)], [(5, 0)], []):
        columns = {"t": pa.array([t for t, _ in rows], pa.int64()), "k": pa.array([k for _, k in rows], pa.int64())}
        given += op.push(pa.table(columns)).windows.num_rows
        op = sl.Operator.restore(spec, op.snapshot(), max_windows_per_push=1)
    assert given + op.flush().windows.num_rows == 5


def test_where_nothing_is_due_nothing_waits_for_it():
    """An edge that ends no window of the cells there are, passed while others wait, and restored."""
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by=["k"], watermark=sl.manual())
    op = sl.Operator(spec, max_windows_per_push=1)
    op.push(pa.table({"t": [1, 2, 3, 25], "k": [0, 1, 2, 0]}))
    given = [op.advance(10), op.advance(20)]
    op = sl.Operator.restore(spec, op.snapshot(), max_windows_per_push=1)
    given += [op.advance(21), op.advance(22), op.flush()]
    assert [out.windows["window_end"].to_pylist() for out in given] == [[10], [10], [10], [], [30]]


def test_progress_knows_the_sessions_that_wait() -> None:
    spec = sl.Spec("t", {"s": sl.session(2)}, {"n": sl.count()}, by="k", watermark=sl.bounded(0))
    op = sl.Operator(spec, max_windows_per_push=1)
    op.push(pa.table({"t": [1, 3, 5] * 3, "k": list("aaabbbccc")}))
    out = op.push(pa.table({"t": [40], "k": ["a"]}))
    assert out.stats.windows == 1 and out.progress["window_start"] == 1
    while out.stats.windows:
        told = out.progress.get("window_start")
        out = op.advance(40)
        assert told is None or all(start >= told for start in out.windows["window_start"].to_pylist())


def test_a_retracted_row_and_its_new_one_are_never_parted() -> None:
    """Each share of results with changes ends behind a whole pair."""
    spec = sl.Spec(
        "t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", trigger=sl.each_push(), emit="changes",
        watermark=sl.manual(),
    )  # fmt: skip
    for most in (1, 2, 3, 4):
        op = sl.Operator(spec, max_windows_per_push=most)
        rows = pa.table({"t": [1, 2, 3], "k": ["a", "b", "c"]})
        outs = [op.push(rows), op.push(rows), *(op.push(rows.slice(0, 0)) for _ in range(9)), op.flush()]
        shares = [out.windows["op"].to_pylist() for out in outs]
        signs = [sign for share in shares for sign in share]
        assert signs.count("+") == signs.count("-") + 3 > 3
        assert all(share[-1:] != ["-"] for share in shares), shares
        assert all(len(share) <= most + 1 for share in shares[:-1])


def test_a_snapshot_knows_which_watermark_the_results_have_reached() -> None:
    spec = sl.Spec(
        "t", {"w": sl.tumbling(10)}, {"n": sl.count()}, by="k", trigger=sl.each_push(), emit="updates",
        watermark=sl.bounded(0),
    )  # fmt: skip
    op = sl.Operator(spec, max_windows_per_push=2)
    assert op.push(pa.table({"t": [5], "k": ["a"]})).watermark == 5
    out = op.push(pa.table({"t": [7, 7, 7, 7], "k": ["b", "c", "d", "e"]}))
    assert (out.windows.num_rows, out.watermark) == (2, 5), "two results wait"
    op = sl.Operator.restore(spec, op.snapshot(), max_windows_per_push=1)
    out = op.push(pa.table({"t": pa.array([], pa.int64()), "k": pa.array([], pa.string())}))
    assert (out.windows.num_rows, out.watermark) == (1, 5)
    assert op.push(pa.table({"t": pa.array([], pa.int64()), "k": pa.array([], pa.string())})).watermark == 7


def test_windows_of_two_names_share_a_push() -> None:
    windows = {"a": sl.tumbling(1), "b": sl.tumbling(1)}
    op = sl.Operator(sl.Spec("t", windows, {"n": sl.count()}, watermark=sl.manual()), max_windows_per_push=10)
    op.push(pa.table({"t": range(30)}))
    given = [op.advance(40 + step).windows.num_rows for step in range(8)]
    assert max(given) <= 10 and sum(given) == 60


def test_empty_windows_come_with_the_pushes_not_with_the_flush() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10, fill=True)}, {"n": sl.count()}, by=["k"], watermark=sl.manual())
    op = sl.Operator(spec, max_windows_per_push=1)
    op.push(pa.table({"t": [5, 7, 95, 25], "k": [0, 1, 0, 1]}))
    given = pa.concat_tables([op.advance(60 + step).windows for step in range(6)])
    assert given.filter(pa.compute.field("k") == 0)["window_end"].to_pylist() == [10, 20, 30, 40, 50, 60]


def test_only_a_row_and_the_one_that_replaces_it_wait_together() -> None:
    """Three sessions become one. Two rows that are taken back one after the other come one at a time."""
    spec = sl.Spec(
        "t", {"s": sl.session(10)}, {"n": sl.count()}, emit="changes", trigger=sl.each_push(), watermark=sl.manual()
    )
    op = sl.Operator(spec, max_windows_per_push=1)
    pushes = [[0], [15], [30], [8, 22], [], [], []]
    shifted = [[1_700_000_000_000_000_000 + time for time in times] for times in pushes]
    found = [op.push(pa.table({"t": pa.array(times, pa.int64())})).windows["op"].to_pylist() for times in shifted]
    assert ["".join(ops) for ops in found] == ["+", "+", "+", "-", "-+", "-", ""]
