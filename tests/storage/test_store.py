"""The rules of the slice store, each as something that can be seen from outside (or as algebra of tables)."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.table import Cells, going_on, merged
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.policy import Policy
from slicing.reducing.batch import Rows
from slicing.reducing.reduce import reduce_rows, reduce_suspects
from slicing.storage import store

LEAP = 10**15


FEW = Policy(fused_cells=0)  # few slices fuse, as many do


def operator(windows, policy=FEW, **changes):
    named = windows if isinstance(windows, dict) else {"w": windows}
    aggs = {"n": sl.count(), "first": sl.first("t"), "last": sl.last("t")}
    asked = {"time": "t", "windows": named, "aggs": aggs, "watermark": sl.manual()} | changes
    return sl.Operator(sl.Spec(**asked), policy=policy)


def push(op, *times, **columns):
    return op.push(pa.record_batch({"t": pa.array(times, pa.int64()), **columns}))


def told(*outs, window=None):
    """(start, end, rows) of the windows that came out, or of those of one name."""
    rows = [row for out in outs for row in out.windows.to_pylist()]
    return [(row["window_start"], row["window_end"], row["n"]) for row in rows if window in (None, row["window"])]


# --- live edges -----------------------------------------------------------------------------------------------------

SECOND, DAY = 1000, 86_400_000


def test_fine_slices_fuse_when_the_fine_windows_have_left():
    """1 s / 10 ms beside 30 d / 1 d: 11 s of fine slices and 31 days, of 259 million; at most half of them too many."""
    both = {"fine": sl.sliding("1s", "10ms"), "coarse": sl.sliding("30d", "1d")}
    op = operator(both, by=["k"], watermark=sl.bounded(0), allowed_lateness="10s", aggs={"n": sl.count()})

    def at(times):
        times = np.asarray(times, np.int64)
        keys = pa.array([0, 1] * times.size)
        return op.push(pa.record_batch({"t": pa.array(np.repeat(times, 2), pa.timestamp("ms")), "k": keys}))

    for day in range(45):
        at(day * DAY + np.arange(0, DAY, 3600 * SECOND))
    for second in range(90):
        out = at(45 * DAY + 3600 * SECOND + second * SECOND + np.arange(0, SECOND, 10))
    assert 1125 <= out.stats["slices"] <= 1140 * 3 // 2
    assert out.stats["cells"] == 2 * out.stats["slices"]
    month = [row for row in op.flush().windows.to_pylist() if row["window"] == "coarse" and row["k"] == 0]
    assert [row["n"] for row in month[:2]] == [29 * 24 + 9000, 28 * 24 + 9000]
    assert month[-1]["n"] == 9000


def test_an_edge_lives_as_long_as_late_rows_may_come():
    op = operator(sl.tumbling(10), allowed_lateness=20)
    push(op, 1, 15, 29)
    assert told(op.advance(29)) == []
    assert push(op, 2).stats["windowed"] == 1  # 10 + 20 > 29
    assert told(op.advance(30)) == [(0, 10, 2)]
    out = push(op, 3)
    assert (out.stats["late"], out.late["t"].to_pylist()) == (1, [3])
    assert push(op, 12).stats["windowed"] == 1
    assert told(op.flush()) == [(10, 20, 2), (20, 30, 1)]


def test_an_edge_lives_to_the_last_tick():
    op = operator({"w": sl.tumbling(10), "long": sl.tumbling(100, offset=-50)})
    push(op, -3, 2)
    assert told(op.advance(9)) == [(-10, 0, 1)]  # 0 is still where [0, 10) begins
    assert told(op.flush()) == [(0, 10, 1), (-50, 50, 2)]


def test_a_row_late_for_some_windows_counts_in_the_others():
    op = operator({"small": sl.tumbling(10), "large": sl.tumbling(100), "v": sl.session(7), "far": sl.session(50)})
    push(op, 60)
    op.advance(35)
    out = push(op, 5, 29)
    assert (out.stats["windowed"], out.stats["late"]) == (2, 0)
    last = op.flush()
    assert told(last, window="small") == [(60, 70, 1)]  # [0, 10) and [20, 30) had left
    assert told(last, window="large") == [(0, 100, 3)]
    assert told(last, window="v") == [(29, 36, 1), (60, 67, 1)]  # 5 + 7 <= 35 < 29 + 7
    assert told(last, window="far") == [(5, 110, 3)]


def test_what_no_window_needs_is_dropped():
    op = operator({"w": sl.sliding(20, 5), "v": sl.session(9), "u": sl.fixed(0, 40)}, by=["t"])
    push(op, *range(30))
    assert op.advance(44).stats["cells"] == 5  # 25 to 29 are in [25, 45)
    out = op.advance(45)
    assert (out.stats["cells"], out.stats["slices"]) == (0, 0)
    assert op.flush().windows.num_rows == 0


def test_old_slices_of_a_session_fuse():
    """A key at 1 Hz for 12 hours: a handful of fragments whichever of window and gap is the larger."""
    for windows in ({"w": sl.tumbling(1), "v": sl.session(1800)}, {"w": sl.tumbling(3600), "v": sl.session(1)}):
        op = operator(windows, watermark=sl.bounded(0))
        for at in range(0, 12 * 3600, 600):
            out = push(op, *range(at, at + 600))
        assert out.stats["cells"] <= 5
        assert told(op.flush(), window="v") == [(0, 12 * 3600 - 1 + windows["v"].gap, 12 * 3600)]


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [{}, {"w": sl.tumbling(100)}, {"far": sl.session(30)}], ids=["alone", "time", "gap"])
def test_a_sealed_session_stays_sealed(beside):
    op = operator({"v": sl.session(5), **beside})
    push(op, 0, 3)
    assert told(op.advance(8), window="v") == []  # a row at 8 would still join
    assert told(op.advance(9), window="v") == [(0, 8, 2)]
    out = push(op, 8)  # in time, and exactly the gap after the last row of a session that is out
    assert out.stats["late"] == 0
    push(op, 12)
    assert push(op, 4).stats["late"] == (not beside)  # 4 + 5 <= 9: joins neither of its neighbours
    last = op.flush()
    assert told(last, window="v") == [(8, 17, 2)]
    assert told(last, window="w") == [(0, 100, 5)] * ("w" in beside)
    assert told(last, window="far") == [(0, 42, 5)] * ("far" in beside)


def test_cells_of_different_levels_stay_apart():
    """One slice holds what a session still takes and what it does not, however often runs are merged."""
    op = operator({"v": sl.session(5), "w": sl.tumbling(100)})
    push(op, 0, 3)
    op.advance(9)
    for time in (8, 10, 12):
        assert push(op, time).stats["slices"] <= 3
    out = op.advance(13)
    assert out.stats["cells"] == 2
    assert told(op.flush()) == [(8, 17, 3), (0, 100, 5)]


@pytest.mark.parametrize("origin", range(-7, 7))
@pytest.mark.parametrize("pushes", [1, 2], ids=["together", "apart"])
def test_a_row_exactly_the_gap_away_joins(origin, pushes):
    def sessions(distance):
        op, times = operator({"v": sl.session(5)}), [origin, origin + distance]
        for part in [times] if pushes == 1 else [times[:1], times[1:]]:
            push(op, *part)
        return told(op.flush())

    assert sessions(5) == [(origin, origin + 10, 2)]
    assert sessions(6) == [(origin, origin + 5, 1), (origin + 6, origin + 11, 1)]


def test_cells_exactly_the_gap_apart_are_one():
    op = operator({"v": sl.session(5), "w": sl.tumbling(100)})
    push(op, 0)
    assert push(op, 5).stats["cells"] == 1
    assert push(op, 11).stats["cells"] == 2
    push(op, 10, 6)
    assert op.advance(11).stats["cells"] == 1


def test_a_key_that_sends_rows_too_late_for_the_whole_stream_is_not_idle():
    op = operator({"v": sl.session(40), "all": sl.whole()}, idle=70)
    push(op, 36)
    op.advance(79)
    assert push(op, 60).stats["late"] == 0  # joins the session
    assert [told(op.advance(w), window="all") for w in (107, 130, 131, 132)] == [[], [], [(36, 36, 1)], []]


def test_a_session_reaches_as_far_as_its_longest_fragment():
    """The gap counts from the latest row so far, not from the latest row of the fragment that began last."""
    op = operator({"w": sl.tumbling(100), "near": sl.session(2), "far": sl.session(9)})
    push(op, *range(0, 12, 2))
    op.advance(11)
    push(op, 3)  # too late for `near`, so a fragment of its own, inside the other one
    push(op, 13)
    last = op.flush()
    assert told(last, window="near") == [(0, 12, 6), (13, 15, 1)]
    assert told(last, window="far") == [(0, 22, 8)]
    op = operator({"w": sl.tumbling(100), "v": sl.session(6)})
    push(op, 0, 5, 10)
    push(op, 2, 3)  # fused by a merge this time
    push(op, 15)
    assert told(op.flush(), window="v") == [(0, 21, 6)]


# --- a batch is a set -----------------------------------------------------------------------------------------------


def test_the_order_of_rows_in_a_batch_does_not_matter():
    windows = {"w": sl.tumbling(20), "v": sl.session(5), "far": sl.session(9)}
    for order in itertools.permutations([4, 6, 9, 13, 40]):  # the first three are before the watermark
        op = operator(windows, watermark=sl.bounded(0), aggs={"n": sl.count()})
        push(op, 10)
        out = push(op, *order)
        assert out.stats["late"] == 0
        assert told(out, window="w") == [(0, 20, 5)]
        assert told(out, window="v") == [(6, 18, 4)]  # 4 + 5 <= 10: too late for this one alone
        assert told(out, window="far") == [(4, 22, 5)]


def test_late_rows_become_one_cell_with_what_is_there():
    op = operator({"w": sl.tumbling(10), "long": sl.tumbling(1000)}, by=["k"])
    push(op, 5, 15, k=["x", "y"])
    op.advance(500)
    out = push(op, 1, 2, 23, 4, k=["y", "x", "y", "x"])
    assert (out.stats["cells"], out.stats["slices"]) == (2, 1)
    assert told(op.flush()) == [(0, 1000, 3), (0, 1000, 3)]


def test_a_batch_is_judged_by_the_watermark_before_it():
    op = operator(sl.tumbling(10), watermark=sl.bounded(0))
    out = push(op, 100, 1)
    assert (out.stats["late"], told(out)) == (0, [(0, 10, 1)])
    assert push(op, 2).stats["late"] == 1


# --- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agg", [sl.min("s"), sl.last("s")], ids=str)
def test_memory_follows_the_live_keys(agg):
    op = operator(sl.tumbling(10), by=["k"], watermark=sl.bounded(0), aggs={"least": agg})
    most = {"keys": 0, "bytes": 0, "texts": 0}
    for at in range(200):
        names = pa.array([f"key {at}-{row}" for row in range(1000)])
        out = push(op, *[10 * at] * 1000, k=names, s=names)
        assert out.windows.num_rows == (1000 if at else 0)
        assert out.windows["least"].equals(out.windows["k"])
        most["texts"] = max(most["texts"], len(op._state.pools["s"]))
        most |= {name: max(most[name], out.stats[name]) for name in ("keys", "bytes")}
    assert most["keys"] <= 8_000  # of 200,000
    assert most["texts"] <= 8_000
    assert most["bytes"] <= 2_000_000


def test_a_key_that_returns_is_the_same_key():
    op = operator({"w": sl.tumbling(10), "long": sl.tumbling(10**6)}, by=["k"], watermark=sl.bounded(0))
    push(op, 0, k=["stays"])
    found = []
    for at in range(1, 30):
        others = [f"{at}-{row}" for row in range(1000)]
        out = push(op, *[10 * at] * 1001, k=[*others, "comes back"])
        found += [row["n"] for row in out.windows.to_pylist() if row["k"] == "comes back"]
    assert found == [1] * 28
    last = {row["k"]: row["n"] for row in op.flush().windows.to_pylist() if row["window"] == "long"}
    assert (last["stays"], last["comes back"], len(last)) == (1, 29, 29_002)


def test_a_landmark_without_a_start_holds_one_slice_of_what_its_edges_have_passed():
    op = operator(sl.landmark(10), watermark=sl.bounded(0))
    outs = [push(op, *range(at, at + 10)) for at in range(0, 1000, 10)]
    assert max(out.stats["cells"] for out in outs) <= 3  # one of them may not have been fused yet
    assert told(*outs, op.flush()) == [(None, end, end) for end in range(10, 1001, 10)]


def test_a_push_that_closes_many_steps_of_a_cycle_finds_each_window_once():
    for _ in range(2):  # the first time kernels may be compiled, which takes memory of its own
        op = operator(sl.cumulate(4000, every=1), watermark=sl.bounded(0))
        push(op, 0)
        tracemalloc.start()
        out = push(op, *range(1, 4001))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert told(out) == [(0, end, end) for end in range(1, 4001)]
    assert peak < 20e6  # steps by steps are 64 MB a column


def test_slices_are_counted_over_runs_each_of_which_is_counted_once():
    rng = np.random.default_rng(7)
    op = operator(sl.tumbling(5), watermark=sl.bounded(2000), by=["k"])
    counted = 0
    for at in range(0, 6000, 40):
        times = at + rng.integers(0, 1500, 30)
        before = {id(run) for run in op._state.store.runs} if at else set()
        out = push(op, *times, k=pa.array(rng.integers(0, 3, 30)))
        runs = op._state.store.runs
        assert out.stats["slices"] == np.unique(np.concatenate([run.end for run in runs])).size
        known = [run.__dict__["_beside"] for run in runs if len(runs) > 1]
        again = op._state.store.slices()
        assert again == out.stats["slices"]
        assert all(
            a is b for a, b in zip(known, [run.__dict__["_beside"] for run in runs if len(runs) > 1], strict=True)
        )
        counted += len([run for run in runs if id(run) in before])
    assert counted  # runs do outlive pushes here


LEAPING = {
    "sliding": ({"w": sl.sliding(5, every=1)}, 5),
    "sparse": ({"w": sl.sliding(2, every=5)}, 1),
    "tumbling": ({"w": sl.tumbling(1)}, 1),
    "cumulate": ({"w": sl.cumulate(5, 1)}, 5),
    "landmark": ({"w": sl.landmark(1)}, 1),
    "session": ({"w": sl.session(1)}, 1),
    "mixed": ({"w": sl.sliding(5, every=1), "x": sl.sliding(7, 3), "y": sl.fixed(10, 20), "z": sl.landmark(100)}, 9),
}


@pytest.mark.parametrize("name", LEAPING)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "batches"])
def test_a_leap_in_time_costs_nothing(name, together):
    windows, each = LEAPING[name]
    op, times = operator(windows, watermark=sl.bounded(0), by=["k"]), [0, LEAP, 2 * LEAP]
    outs = [push(op, *part, k=["a"] * len(part)) for part in ([times] if together else [[t] for t in times])]
    outs.append(op.advance(2 * LEAP + 1000))
    windows = sum(out.windows.num_rows for out in outs)
    assert each * 3 - 2 <= windows <= each * 3 + 2
    assert max(out.stats["slices"] for out in outs) <= 6


@dataclass(frozen=True)
class Units(sl.ContextFreeWindow):
    """A window for every unit, counting what it is asked."""

    asked: list

    __hash__ = object.__hash__

    def next_edge(self, times):
        self.asked.append(len(times))
        return times + 1

    def containing(self, time):
        return [(time, time + 1)]


def test_a_leap_costs_nothing_for_a_user_window_either():
    asked = []
    op = operator(Units(asked), watermark=sl.bounded(0))
    outs = [push(op, 0), push(op, 20_000), op.flush()]
    assert told(*outs) == [(0, 1, 1), (20_000, 20_001, 1)]
    assert len(asked) < 100


# --- the algebra of tables ------------------------------------------------------------------------------------------

KINDS = {
    "n": sl.count("i"),
    "sum": sl.sum("i"),
    "floats": sl.sum("x"),
    "product": sl.product("i"),
    "times": sl.max("s"),
    "first": sl.first("i"),
    "last": sl.last("s"),
    "at": sl.argmin("i", "s"),
    "often": sl.max_count("i"),
}
ALGEBRA = sl.Spec("t", {"w": sl.tumbling(12), "u": sl.session(3), "v": sl.session(7)}, KINDS, by=["k"])


def some_rows(rng, n):
    """Rows whose values combine exactly in any order."""
    columns = {
        "t": pa.array(rng.integers(0, 60, n)),
        "k": pa.array(rng.integers(0, 2, n)),
        "i": pa.array(rng.choice([-1, 1, 2], n), mask=rng.random(n) < 0.2),
        "x": pa.array(rng.integers(-99, 99, n) / 4),
        "s": pa.array(rng.choice(["a", "b", "c"], n)),
    }
    return pa.record_batch(columns)


def parts_of(rng, n):
    """Single-row tables of one batch, each row at a level of its own, and the plan they belong to."""
    batch = some_rows(rng, n)
    state = State.fresh(ALGEBRA, batch.schema)
    plan = state.plan
    columns = {name: batch.column(name) for name in plan.types}
    ranks = {"s": np.array([ord(s) for s in columns["s"].to_pylist()])}
    rows = Rows(plan, columns, columns["t"].to_numpy(), columns["k"].to_numpy(), 2, 0, ranks)
    ends = plan.edges.next_live(rows.time, -(1 << 62))
    level = rng.integers(0, plan.levels, n)
    places = [np.array([at]) for at in range(n)]
    return plan, [reduce_suspects(rows.take(at), ends[at], level[at]) for at in places]


def fold(plan: Plan, rng, tables):
    """The tables merged two by two, any two each time, in any order."""
    tables = list(tables)
    while len(tables) > 1:
        a, b = (tables.pop(int(rng.integers(len(tables)))) for _ in range(2))
        tables.append(merged(a, b, plan.lanes, plan.gaps))
    return tables[0]


@pytest.mark.parametrize("seed", range(40))
def test_merging_is_associative_and_commutative(seed):
    rng = np.random.default_rng(seed)
    plan, parts = parts_of(rng, int(rng.integers(2, 40)))
    wanted = fold(plan, rng, parts)
    assert wanted.rows.sum() == len(parts)
    for _ in range(6):
        found = fold(plan, rng, [parts[at] for at in rng.permutation(len(parts))])
        assert found.meta.tolist() == wanted.meta.tolist()
        for mine, its in zip(found.blocks, wanted.blocks, strict=True):
            assert mine.tolist() == its.tolist()


@pytest.mark.parametrize(("first", "far"), [(0, 1), (7, 1), (7, 100)])  # all codes there are, some, some far apart
def test_cells_that_a_table_has_are_added_to_these(monkeypatch, first, far):
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"s": sl.sum("v"), "l": sl.last("v"), "m": sl.max("v")}, by=["k"])
    rng, tables = np.random.default_rng(first + far), []
    for times, codes in (
        (20, np.arange(50)),
        (10, first + far * np.arange(50)),
        (10, first + far * np.arange(0, 50, 7)),
    ):
        time, value = 20 - times + rng.integers(0, times, codes.size), rng.normal(size=codes.size)
        columns = {"t": pa.array(time), "k": pa.array(codes), "v": pa.array(value)}
        plan = State.fresh(spec, pa.RecordBatch.from_pydict(columns).schema).plan
        tables.append(reduce_rows(Rows(plan, columns, time, codes, int(codes.max()) + 1, 0, {})))
    older = merged(*tables[:2], plan.lanes, plan.gaps)
    before = older.meta.tolist()
    found = merged(older, tables[2], plan.lanes, plan.gaps)
    assert older.meta.tolist() == before and len(found) == len(older)
    monkeypatch.setattr(Cells, "places_of", lambda *args: None)
    wanted = merged(older, tables[2], plan.lanes, plan.gaps)
    assert found.meta.tolist() == wanted.meta.tolist() and found.slice_ends.tolist() == wanted.slice_ends.tolist()
    for mine, its in zip(found.blocks, wanted.blocks, strict=True):
        assert mine.tolist() == its.tolist()


def test_cells_that_go_on_with_a_single_one_are_merged():
    rng, taken, behind = np.random.default_rng(8), 0, 0
    for _ in range(40):
        plan, parts = parts_of(rng, 12)
        for at, one in enumerate(parts):
            rest = fold(plan, rng, parts[:at] + parts[at + 1 :])
            fresh, before = plan.cells(rest.meta.copy(), tuple(b.copy() for b in rest.blocks)), one.meta.tolist()
            assert one.slice_ends.size and fresh.slice_ends.size  # are known of both together, too
            wanted = merged(one, rest, plan.lanes, plan.gaps)
            found = going_on(one, fresh, plan.lanes, plan.gaps, apart=False)
            taken, behind = taken + (found is fresh), behind + (found not in (fresh, None))
            assert one.meta.tolist() == before
            if found is None:
                found, wanted = fresh, rest
            assert found.meta.tolist() == wanted.meta.tolist()
            assert found.slice_ends.tolist() == np.unique(wanted.end).tolist()
            for mine, its in zip(found.blocks, wanted.blocks, strict=True):
                assert mine.tolist() == its.tolist()
    assert taken > 5 and behind > 5


def test_a_slice_of_the_same_keys_is_taken_up_by_fresh_cells():
    rng, seen = np.random.default_rng(9), 0
    schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "x": pa.int64(), "y": pa.float64()})
    aggs = {"n": sl.count(), "s": sl.sum("x"), "m": sl.max("y"), "v": sl.var("y"), "f": sl.first("x")}
    plan = Plan(sl.Spec("t", {"w": sl.tumbling(10)}, aggs, by=["k"]), schema)
    for _ in range(60):
        size, more = int(rng.integers(2, 5)), int(rng.integers(0, 4))
        codes, others = np.arange(size), np.arange(size + more)
        if rng.random() < 0.3:
            others = np.delete(others, rng.integers(0, others.size))
        older, fresh = (cells_of(rng, plan, 10, codes), cells_of(rng, plan, int(rng.choice([10, 10, 20])), others))
        wanted, before = merged(older, fresh, plan.lanes, plan.gaps), older.meta.tolist()
        alike = fresh.meta[0, 0] == 10 and others[:size].tolist() == codes.tolist()
        found = older.taken_up(fresh, plan.lanes)
        assert (found is None) == (not alike) and older.meta.tolist() == before
        if found is not None:
            seen += 1
            assert found is fresh and found.meta.tolist() == wanted.meta.tolist()
            for mine, its in zip(found.blocks, wanted.blocks, strict=True):
                assert np.allclose(mine.view(np.float64), its.view(np.float64), equal_nan=True)
    assert seen > 10


def cells_of(rng, plan, end, codes):
    """One row of each key, in a slice."""
    time = rng.permutation(codes.size) + end - 10
    columns = {"x": pa.array(rng.integers(-9, 9, codes.size)), "y": pa.array(rng.normal(size=codes.size))}
    rows = Rows(plan, columns, time, codes.astype(np.int32), int(codes.max()) + 1, int(rng.integers(0, 1000)), {})
    return reduce_rows(rows)


@pytest.mark.parametrize("seed", range(20))
def test_neither_batches_nor_the_order_of_runs_show(seed):
    rng = np.random.default_rng(seed)
    batch = some_rows(rng, 60).append_column("q", pa.array(rng.permutation(60)))
    spec = sl.Spec("t", dict(ALGEBRA.windows), KINDS, by=["k"], sequence="q", watermark=sl.manual())
    wanted = sl.aggregate(batch, spec)
    assert wanted.num_rows > 10
    for _ in range(5):
        op = sl.Operator(spec, policy=FEW)
        shuffled = batch.take(pa.array(rng.permutation(60)))
        cuts = [0, *sorted(rng.integers(0, 60, 6).tolist()), 60]
        for begin, end in itertools.pairwise(cuts):
            op.push(shuffled.slice(begin, end - begin))
        runs = op._state.store.runs
        shuffle = tuple(runs[at] for at in rng.permutation(len(runs)))
        op._state = replace(op._state, store=replace(op._state.store, runs=shuffle))
        op = sl.Operator.restore(spec, op.snapshot())
        assert op.flush().windows.equals(wanted)


def test_slices_fuse_where_they_are_many():
    """Going over some slices costs more than they do."""
    windows = {"w": sl.tumbling(10), "long": sl.tumbling(1_000_000)}
    op = operator(windows, Policy(fused_cells=256), watermark=sl.ordered())
    held = [push(op, t).stats["slices"] for t in range(5, 10_000, 10)]
    assert held[:258] == [*range(1, 257), 2, 3]
    assert max(held) == 256


def test_what_a_push_leaves_open_is_not_copied_behind_it(monkeypatch):
    op = operator({"w": sl.tumbling(10)}, watermark=sl.ordered())
    push(op, *range(25))
    held = op._state
    monkeypatch.setattr(store.Store, "_merged", None)
    out = push(op, *range(25, 999))
    assert told(out) == [(at, at + 10, 10) for at in range(20, 990, 10)]
    assert [run.rows.tolist() for run in held.store.runs] == [[5]]


def test_a_row_that_corrects_a_window_leaves_the_large_runs_alone():
    op = operator(sl.tumbling(10), by=["k"], allowed_lateness=100, emit="changes")
    push(op, *range(1000), k=[k % 100 for k in range(1000)])
    op.advance(50)
    push(op, 1001, k=[1])
    large = op._state.store.runs[0]
    changed = push(op, 12, 12, k=[12, 99]).windows
    assert changed.select(["window_start", "k", "n", "op"]).to_pylist() == [
        {"window_start": 10, "k": 12, "n": 1, "op": "-"},
        {"window_start": 10, "k": 12, "n": 2, "op": "+"},
        {"window_start": 10, "k": 99, "n": 1, "op": "+"},
    ]
    assert len(large) == 1000 and op._state.store.runs[0] is large
