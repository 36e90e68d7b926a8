"""Windows that rows decide: what is kept for them and for how long, and what users' own ones are told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from harness import Delta, Visit

import slicing as sl
from slicing.closing import over_rows, spans
from slicing.kept_rows import close as kept
from slicing.query.policy import Policy
from slicing.reducing import batch
from slicing.windows.rows import per_row

N = {"n": sl.count(), "total": sl.sum("v"), "seen": sl.collect("v")}
WINDOWS = {
    "count": (sl.rows(100), 4 * 99 + 21),
    "count by arrival": (sl.rows(100, order="arrival"), 4 * 99 + 21),
    "count of the stream": (sl.rows(100, per_key=False), 99 + 21),
    "overlapping counts": (sl.rows(100, every=1), 4 * 99 + 21),
    "marks": (sl.punctuation("mark"), 1200),
    "marks for all": (sl.punctuation("mark", per_key=False), 1200),
    "frames": (sl.frame("mark", "leave"), 1200),
    "rows": (sl.per_row(50), 150),
    "last rows": (sl.last_rows(3, 1000), 60),
    "visits": (Visit(3, 40), 200),
    "deltas": (Delta("v", 40), 800),
}


def stream(rows, at, by=4):
    """Rows at 1 a tick, up to 20 late, of a few keys; a mark every 200 ticks and 50 later its end."""
    time = np.arange(at, at + rows)
    data = {"t": time, "k": time % by, "v": time % 1000, "mark": time // by % 50 == 0, "leave": time // by % 50 == 20}
    return pa.table(data).take(np.argsort(time + time * 7919 % 20, kind="stable"))


@pytest.mark.parametrize("name", WINDOWS)
def test_rows_are_let_go_as_soon_as_no_window_needs_them(name):
    window, most = WINDOWS[name]
    op = sl.Operator(sl.Spec(time="t", by=["k"], windows={"w": window}, aggs=N, watermark=sl.bounded(20)))
    held = [op.push(stream(1000, at)).stats for at in range(0, 40_000, 1000)]
    assert max(s["kept"] for s in held) <= most
    # nothing grows: the second half of the stream takes no more than the first
    assert max(s["bytes"] for s in held[20:]) <= 1.25 * max(s["bytes"] for s in held[:20])
    assert op.flush().stats["kept"] == 0


def test_rows_wait_for_lateness_and_no_longer():
    query = {"time": "t", "windows": {"w": sl.rows(10)}, "aggs": N, "watermark": sl.bounded(0)}
    rows = pa.table({"t": range(1000), "v": range(1000)})
    kept = [
        sl.Operator(sl.Spec(**query, allowed_lateness=late, emit="changes")).push(rows).stats["kept"]
        for late in (0, 100)
    ]
    assert kept == [2, 110]  # of ten rows the nine that are final are one cell


def test_windows_without_rows_keep_none():
    spec = sl.Spec(time="t", windows={"w": sl.tumbling(10), "s": sl.session(5)}, aggs=N)
    assert sl.Operator(spec).push(stream(1000, 0)).stats["kept"] == 0


def test_a_spec_of_row_windows_keeps_no_slices():
    spec = sl.Spec(time="t", windows={"w": sl.rows(10)}, aggs=N)
    stats = sl.Operator(spec).push(stream(1000, 0)).stats
    assert stats["cells"] == stats["slices"] == 0 and stats["kept"] > 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_ranks_of_keys_and_of_the_stream(size):
    windows = {"key": sl.rows(3), "all": sl.rows(4, per_key=False), "came": sl.rows(3, order="arrival")}
    op = sl.Operator(
        sl.Spec(time="t", by=["k"], windows=windows, aggs={"seen": sl.collect("v")}, watermark=sl.bounded(9))
    )
    rows = pa.table({"t": [5, 1, 2, 4, 3, 6, 7, 8], "k": list("aabaabba"), "v": [5, 1, 2, 4, 3, 6, 7, 8]})
    found = [op.push(rows.slice(at, size)).windows for at in range(0, 8, size)] + [op.flush().windows]
    told = {
        (w["window"], w["k"], w["rank_start"], w["rank_end"]): w["seen"] for table in found for w in table.to_pylist()
    }
    assert told == {
        ("key", "a", 0, 3): [1, 3, 4],
        ("key", "b", 0, 3): [2, 6, 7],
        ("came", "a", 0, 3): [1, 4, 5],
        ("came", "b", 0, 3): [2, 6, 7],
        ("all", "a", 0, 4): [1, 3, 4],
        ("all", "b", 0, 4): [2],
        ("all", "a", 4, 8): [5, 8],
        ("all", "b", 4, 8): [6, 7],
    }


def test_quiet_keys_start_their_ranks_anew():
    spec = sl.Spec(time="t", windows={"w": sl.rows(2, partial=True)}, aggs={"seen": sl.collect("v")}, idle=10)
    op = sl.Operator(spec)
    times = [1, 2, 3, 20, 21, 22, 23]
    found = op.push(pa.table({"t": times, "v": times})).windows.to_pylist() + op.flush().windows.to_pylist()
    assert [(w["rank_start"], w["seen"]) for w in found] == [(0, [1, 2]), (2, [3]), (0, [20, 21]), (2, [22, 23])]


@dataclass(frozen=True)
class Told(sl.ContextAwareWindow):
    """Gives one answer whatever it sees."""

    answer: object
    until: int | None = None

    def see(self, context, time):
        return self.answer

    def deadline(self, context):
        return self.until


OPEN, CLOSE = sl.ContextAwareWindow.opens(), sl.ContextAwareWindow.closes()
WRONG = {
    "no pair": (Told(3), "see gave 3; it must return the context and a list of self.opens() and self.closes()"),
    "no edges": (Told((1, [2])), "see gave (1, [2]); it must return"),
    "twice open": (Told((1, [OPEN, OPEN])), "opened a window with id=0, but it is open already"),
    "never open": (Told((1, [CLOSE])), "closed a window with id=0, which is not open"),
    "empty": (
        Told((1, [OPEN, sl.ContextAwareWindow.closes(before=True)])),
        "closed the window with id=0 before its first row",
    ),
    "for ever": (Told((1, [OPEN]), until=-5), "expired gave a context whose deadline is -5; it must be later than -5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_users_window_that_makes_no_sense_is_told_so(name):
    window, sentence = WRONG[name]
    op = sl.Operator(sl.Spec(time="t", windows={"w": window}, aggs=N))
    with pytest.raises((TypeError, ValueError)) as caught:
        op.push(pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}))
    assert repr(window) + ("." if sentence.startswith(("see", "expired")) else " ") + sentence in str(caught.value)


@pytest.mark.parametrize("context", [[1], {1}, (1, [2])], ids=str)
def test_a_context_that_no_snapshot_can_hold_is_refused_by_the_push(context):
    spec = sl.Spec(time="t", windows={"w": Told((context, [OPEN, CLOSE]))}, aggs=N)
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1], "v": [1]}))  # no row is final
    before = op.snapshot()
    for ask in op.push, partial(sl.aggregate, spec=spec):
        with pytest.raises(TypeError, match=r"gave the context [\[{].*; a context is None, a bool, a number, a string"):
            ask(pa.table({"t": [1, 2], "v": [1, 2]}))
    assert op.snapshot() == before


def test_a_snapshot_holds_a_context_of_numpy():
    spec = sl.Spec(time="t", windows={"w": Told(((np.int64(1), np.float32(0.5), np.bool_(True)), []))}, aggs=N)
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1, 2], "v": [1, 2]}))
    assert sl.Operator.restore(spec, op.snapshot()).flush().windows.num_rows == 0


def test_users_windows_may_overlap():
    """Every row opens a window that ends with the third row from it."""

    @dataclass(frozen=True)
    class Threes(sl.ContextAwareWindow):
        partial: bool = False

        def start(self):
            return 0

        def see(self, rank, time):
            return rank + 1, [self.opens(rank), *([self.closes(rank - 2)] if rank > 1 else [])]

    rows = pa.table({"t": [4, 1, 3, 2, 9], "v": [4, 1, 3, 2, 9]})
    spec = sl.Spec(time="t", windows={"mine": Threes(), "built in": sl.rows(3, 1)}, aggs={"seen": sl.collect("v")})
    found = sl.aggregate(rows, spec).to_pylist()
    mine, built_in = ([w["seen"] for w in found if w["window"] == name] for name in ("mine", "built in"))
    assert mine == built_in == [[1, 2, 3], [2, 3, 4], [3, 4, 9]]


def test_rows_that_stay_for_the_next_window_are_few():
    """Of the window that has left one row is kept, less than the next one is long."""
    op = sl.Operator(sl.Spec("t", {"w": sl.rows(6, every=5, per_key=False)}, {"n": sl.count()}))
    found = [
        op.push(pa.table({"t": times})).windows.num_rows for times in ([0, 1, 2, 3, 4, 5], [6], [7], [8, 9, 10, 11])
    ]
    assert found == [0, 1, 0, 1]
    assert op.flush().windows.num_rows == 0


def test_ranks_go_on_while_a_row_after_a_pause_is_known():
    """The row at 4 waits for the watermark, and is too far from 0 to go on with it; the one at 1 does."""
    spec = sl.Spec("t", {"w": sl.rows(1)}, {"n": sl.count()}, by="k", watermark=sl.manual(), idle=1)
    op = sl.Operator(spec)
    found = []
    for times, watermark in (([0, 1], 1), ([4], 1), ([1], 2)):
        op.push(pa.table({"t": times, "k": ["a"] * len(times)}))
        found += op.advance(watermark).windows.select(["window_start", "rank_start"]).to_pylist()
    found += op.flush().windows.select(["window_start", "rank_start"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(0, 0), (1, 1), (1, 2), (4, 0)]


@pytest.mark.parametrize("watermark", [sl.ordered(), sl.bounded(20)], ids=repr)
@pytest.mark.parametrize("by", [[], ["k"]], ids=["stream", "keys"])
def test_counts_marks_and_frames_keep_slices_and_no_rows(watermark, by):
    """A window of each is open all the time: one over 20 000 rows, a mark every 200, frames of 150."""
    windows = {
        "long": sl.rows(20_000, every=5000),
        "uneven": sl.rows(1000, every=300),
        "mark": sl.punctuation("mark"),
        "frame": sl.frame("leave", "mark"),
    }
    op = sl.Operator(sl.Spec("t", windows, {"total": sl.sum("v")}, by=by, watermark=watermark))
    held = []
    for at in range(0, 200_000, 1000):
        rows = stream(1000, at).sort_by("t") if watermark == sl.ordered() else stream(1000, at)
        held.append(op.push(rows).stats)
    assert {s["kept"] > 0 for s in held[1:]} == {True}
    per_key = 5 * 4 + 20_000 // 300 + 20_000 // 50 * 2  # slices between edges of each
    waiting = 0 if watermark == sl.ordered() else 30
    assert max(s["kept"] for s in held) <= (4 if by else 1) * per_key + waiting
    assert max(s["bytes"] for s in held[150:]) <= 1.25 * max(s["bytes"] for s in held[:150])


@pytest.mark.parametrize("beside", [{}, {"t": sl.tumbling(700), "key": sl.rows(1000)}], ids=["alone", "beside others"])
@pytest.mark.parametrize("watermark", [sl.ordered(), sl.bounded(20)], ids=repr)
def test_windows_of_the_whole_stream_keep_slices_and_no_rows(watermark, beside, monkeypatch):
    """Of those between live edges: a cell a key, however the rows are pushed and what else is asked of them."""
    policy = Policy(fused_cells=0)  # slices fuse when there are half as many again, not only where they are many
    windows = {
        "long": sl.rows(20_000, every=5000, per_key=False),
        "uneven": sl.rows(1000, every=300, per_key=False),
        "mark": sl.punctuation("mark", per_key=False),
        "arrival": sl.rows(1000, per_key=False, order="arrival" if watermark == sl.ordered() else "time"),
    }
    spec = sl.Spec("t", windows | beside, {"total": sl.sum("v")}, by=["k"], watermark=watermark)
    op = sl.Operator(spec, policy=policy)
    if not beside:
        assert len(op.push(stream(100, 0)[:0]).windows) == 0
    shown, held, at = rows_shown(monkeypatch), [], 0
    while at < 120_000:
        size = (1000, 1, 300, 2999)[at % 4]
        rows = stream(size, at).sort_by("t") if watermark == sl.ordered() else stream(size, at)
        held.append(op.push(rows).stats)
        at += size
        if len(held) % 20 == 0:
            op = sl.Operator.restore(op.spec, op.snapshot(), policy=policy)
    assert {s["kept"] > 0 for s in held[1:]} == {True}
    live = 1.5 * (20_000 // 5000 + 2 + 1000 // 300 + 2) + 1  # slices between live edges of counts, and the open mark's
    waiting = 1 if watermark == sl.ordered() else 30
    assert max(s["kept"] for s in held) <= 4 * (live + (2 if beside else 0)) + waiting
    assert max(s["bytes"] for s in held[50:]) <= 1.25 * max(s["bytes"] for s in held[:50])
    assert max(shown) == 0 or beside
    assert op.flush().stats["kept"] == 0


def test_windows_of_the_whole_stream_that_end_at_one_time_are_in_order():
    """Of time, whatever their places: by end, name, start, key and rank."""
    windows = {name: sl.rows(n, per_key=False) for name, n in (("a", 8), ("b", 4), ("c", 2))}
    op = sl.Operator(sl.Spec("t", windows, {"total": sl.sum("v")}, by=["k"], watermark=sl.ordered()))
    rows = {"t": [1] * 9 + [2] * 8 + [3], "k": [k for k in "babbabaab"] * 2, "v": range(18)}
    for size in (18, 5):
        op = sl.Operator(op.spec)
        found = pa.concat_tables([op.push(pa.table(rows).slice(at, size)).windows for at in range(0, 18, size)])
        names = ("window_end", "window", "window_start", "k", "rank_start")
        told = list(zip(*(found[name].to_pylist() for name in names), strict=True))
        assert told == sorted(told) and len(told) == 25


@pytest.mark.parametrize("by", [[], ["k"]], ids=["stream", "keys"])
def test_counts_by_arrival_of_a_stream_in_order_keep_slices_and_no_rows(by):
    op = sl.Operator(sl.Spec("t", {"w": sl.rows(5000, every=1000, order="arrival")}, N, by=by, watermark=sl.ordered()))
    held = [op.push(stream(1000, at).sort_by("t")).stats["kept"] for at in range(0, 60_000, 1000)]
    assert max(held[1:]) <= (4 if by else 1) * (5000 // 1000 + 2) + 1


def test_keys_and_values_that_never_come_again_are_forgotten_beside_windows_of_the_whole_stream():
    """Codes and ranks are renumbered while windows are open."""
    chance, rows, sizes = np.random.default_rng(3), 12_000, {"n": (1500, 500), "m": (400, 700)}
    time = np.cumsum(chance.integers(0, 2, rows))
    key = np.arange(rows) // 100 * 40 + chance.integers(0, 90, rows)
    marks = chance.random(rows) < 0.002
    text = [f"{n:05d}" for n in chance.permutation(rows)]
    windows = {name: sl.rows(n, every, per_key=False) for name, (n, every) in sizes.items()}
    windows["p"] = sl.punctuation("mark", per_key=False)
    aggs = {"low": sl.min("s"), "last": sl.last("v"), "total": sl.sum("v")}
    op = sl.Operator(sl.Spec("t", windows, aggs, by=["k"], watermark=sl.ordered()))
    table = pa.table({"t": time, "k": key, "v": np.arange(rows), "s": text, "mark": marks})
    found, held = [], []
    for at in range(0, rows, 150):
        out = op.push(table.slice(at, 150))
        found += out.windows.to_pylist()
        held.append(out.stats)
        if at % 900 == 0:
            op = sl.Operator.restore(op.spec, op.snapshot())
    found += op.flush().windows.to_pylist()
    ranges = [("n", at, at + 1500) for at in range(0, rows - 1500 + 1, 500)]
    ranges += [("m", at, at + 400) for at in range(0, rows - 400 + 1, 700)]
    at = np.unique(np.append(0, np.searchsorted(time, time[marks])))
    ranges += [("p", int(low), int(high)) for low, high in zip(at, np.append(at[1:], rows), strict=True)]
    expected = []
    for name, low, high in ranges:
        for k in np.unique(key[low:high]).tolist():
            mine = np.flatnonzero(key[low:high] == k) + low
            end = time[min(high, rows - 1)] if name == "p" else time[high - 1]
            ranks = (None, None) if name == "p" else (low, high)
            answers = min(text[i] for i in mine), int(mine[-1]), int(mine.sum())
            expected.append((name, int(time[low]), int(end), k, *ranks, *answers))
    assert sorted((tuple(w.values()) for w in found), key=str) == sorted(expected, key=str)
    assert max(s["keys"] for s in held) < 2500 and key.max() > 4500


@pytest.mark.parametrize("case", range(30))
def test_counts_of_a_stream_in_order_are_aggregated_between_ranks(case):
    """Cells of several rows, single rows behind them, and now and then a batch out of order."""
    chance = np.random.default_rng(case)
    delay, late, by = (int(chance.integers(0, high)) for high in (6, 4, 6))
    shapes = [(by * int(chance.integers(1, 8)), by * int(chance.integers(1, 8))) for _ in range(3)] if by else [(7, 3)]
    windows = {f"w{i}": sl.rows(n, every, partial=case % 2 == 0) for i, (n, every) in enumerate(shapes)}
    aggs = {"n": sl.count(), "low": sl.first("v"), "seen": sl.collect("v"), "total": sl.sum("v")}
    spec = sl.Spec(time="t", windows=windows, aggs=aggs, watermark=sl.bounded(delay), allowed_lateness=late)
    time = np.cumsum(chance.integers(0, 3, 300))
    op, found, at = sl.Operator(spec), [], 0
    while at < time.size:
        to = at + int(chance.integers(1, 60))
        rows = pa.table({"t": time[at:to], "v": np.arange(time.size)[at:to]})
        if delay and chance.random() < 0.3:
            rows = rows.take(np.argsort(time[at:to] + chance.integers(0, delay, len(rows)), kind="stable"))
        found += op.push(rows).windows.to_pylist()
        op, at = sl.Operator.restore(spec, op.snapshot()), to
    found += op.flush().windows.to_pylist()
    # rows of equal time rank as they came, which is by v only where no batch was out of order
    ranked = {(w["window"], w["rank_start"]): w for w in found}
    assert len(ranked) == len(found)
    for name, (n, every) in zip(windows, shapes, strict=True):
        for start in range(0, time.size, every):
            here = time[start : start + n]
            if here.size < n and case % 2:
                assert (name, start) not in ranked
                continue
            w = ranked.pop((name, start))
            assert (w["window_start"], w["window_end"], w["rank_end"]) == (here[0], here[-1], start + n)
            assert w["n"] == len(w["seen"]) == here.size and w["low"] == w["seen"][0] and w["total"] == sum(w["seen"])
            assert [int(time[v]) for v in w["seen"]] == here.tolist()
            if not delay:
                assert w["seen"] == list(range(start, start + here.size))
    assert not ranked


def test_counts_of_a_stream_in_order_keep_no_rows_but_the_last():
    spec = sl.Spec(time="t", windows={"a": sl.rows(1000, 100), "b": sl.rows(500)}, aggs=N, watermark=sl.ordered())
    op = sl.Operator(spec)
    kept = [
        op.push(pa.table({"t": range(at, at + 777), "v": range(777)})).stats["kept"] for at in range(0, 30_000, 777)
    ]
    assert max(kept) <= 2 * (1000 // 100) + 2


@pytest.mark.parametrize(
    "window", [sl.per_row(50), sl.frame("mark", "leave"), sl.rows(1), sl.last_rows(1, 10)], ids=repr
)
def test_rows_of_keys_that_never_come_again_are_let_go(window):
    """But for the last row of each, which last_rows may be asked for."""
    op = sl.Operator(sl.Spec(time="t", by=["k"], windows={"w": window}, aggs=N, watermark=sl.bounded(20)))
    kept = []
    for at in range(0, 20_000, 1000):
        rows = stream(1000, at).drop_columns("k").append_column("k", pa.array(np.arange(at, at + 1000) // 100))
        kept.append(op.push(rows).stats["kept"])
    assert max(kept) <= 230


def test_a_push_looks_only_at_the_keys_whose_rows_became_final(monkeypatch):
    """1000 keys keep 50 rows each; one row makes one row final, and its key's windows see no other key's rows."""
    shown = rows_shown(monkeypatch)
    windows = {"w": sl.rows(100, every=50), "q": sl.per_row(10), "f": sl.frame("mark", "leave")}
    op = sl.Operator(sl.Spec(time="t", by=["k"], windows=windows, aggs=N, watermark=sl.ordered()))
    whole = stream(50_010, 0, by=1000).sort_by("t")
    assert op.push(whole.slice(0, 50_000)).stats["kept"] > 40_000
    for at in range(50_000, 50_010):
        op.push(whole.slice(at, 1))
        assert 0 < shown[-1] <= 110  # of that key, and of one whose last row per_row asks for no more


SLOW = {
    "by arrival": ({"w": sl.rows(50, order="arrival"), "p": sl.per_row(9, order="arrival")}, {}),
    "of the stream": ({"w": sl.rows(50, every=1, per_key=False)}, {}),
    "of the stream by arrival": ({"w": sl.rows(50, per_key=False, order="arrival")}, {}),
    "visits": ({"w": Visit(3, 40)}, {}),
    "deltas": ({"w": Delta("v", 40)}, {}),
    "idle": ({"w": sl.rows(50), "f": sl.frame("mark", "leave")}, {"idle": 3000}),
}


def rows_shown(monkeypatch):
    """How many rows the windows are shown by each look from now on."""
    shown = []
    look = kept.look_at

    def counted(self, *args):
        found = look(self, *args)
        shown.append(0 if found is None or found.view is None else len(found.view.rows))
        return found

    monkeypatch.setattr(kept, "look_at", counted)
    return shown


@pytest.mark.parametrize("name", SLOW)
def test_rows_that_wait_are_not_looked_at(monkeypatch, name):
    """Ten thousand rows wait for lateness: a push shows those that became final, and what open windows keep."""
    windows, more = SLOW[name]
    op = sl.Operator(sl.Spec("t", windows, N, by=["k"], watermark=sl.bounded(20), allowed_lateness=10_000, **more))
    assert op.push(stream(12_000, 0)).stats["kept"] > 10_000
    shown = rows_shown(monkeypatch)
    for at in range(12_000, 13_000, 100):
        assert op.push(stream(100, at)).stats["kept"] > 10_000
    assert len(shown) >= 10 and 0 < max(shown) < 1000


@dataclass(frozen=True)
class Blocks(sl.ContextAwareWindow):
    """One after the other, each of so many ticks from its first row on; compiled."""

    size: int

    def start(self):
        return -1

    def see(self, begun, time):
        if begun < 0:
            return time, self.OPEN
        return (time, self.CLOSE_BEFORE | self.OPEN) if time >= begun + self.size else (begun, 0)


LONG = {
    "by arrival": ({"w": sl.rows(10_000, order="arrival")}, {}),
    "of the stream": ({"w": sl.rows(45_900, every=1, per_key=False)}, {}),
    "of the stream by arrival": ({"w": sl.rows(40_000, per_key=False, order="arrival")}, {}),
    "a compiled window": ({"w": Blocks(30_000)}, {}),
    "a window in Python": ({"w": Visit(30_000, 30_000)}, {}),
    "idle": ({"w": Blocks(30_000), "m": sl.punctuation("never")}, {"idle": 3000}),
}


@pytest.mark.parametrize("name", LONG)
def test_rows_of_an_open_window_are_not_looked_at(monkeypatch, name):
    """A push that completes no window shows none of the rows that are kept; the one that does shows all."""
    windows, more = LONG[name]

    def rows(count, at):
        return stream(count, at).append_column("never", pa.array(np.zeros(count, bool)))

    op = sl.Operator(sl.Spec("t", windows, N, by=["k"], watermark=sl.bounded(20), **more))
    assert op.push(rows(5000, 0)).stats["kept"] == 5000
    shown = rows_shown(monkeypatch)
    for at in range(5000, 6000, 100):
        assert op.push(rows(100, at)).stats["kept"] == at + 100
    assert shown == [0] * 10
    assert op.push(rows(40_000, 6000)).windows.num_rows and shown[-1] > 40_000


@pytest.mark.parametrize(("more", "kept"), [({}, 2), ({"c": sl.rows(1), "d": Blocks(1)}, 3)], ids=["slices", "rows"])
@pytest.mark.parametrize("by", [[], ["k"]], ids=["no keys", "keys"])
def test_a_key_that_ends_more_than_once_in_a_push_lets_its_rows_go(by, more, kept):
    """What is kept is counted right: of three runs of rows the last one's, from its mark on."""
    windows = {"a": sl.punctuation("mark"), "b": sl.punctuation("mark"), **more}
    op = sl.Operator(sl.Spec("t", windows, N, by=by, watermark=sl.ordered(), idle=3))
    times = [0, 1, 2, 10, 11, 12, 30, 31, 32, 33]
    rows = {"t": times, "k": [1] * 10, "v": range(10), "mark": [t == 31 for t in times]}
    out = op.push(pa.table(rows))
    assert out.stats["kept"] == kept
    assert sum(name in "ab" for name in out.windows.column("window").to_pylist()) == 6
    assert op.push(pa.table(rows | {"t": [t + 100 for t in times]})).stats["kept"] == kept


def test_late_rows_revise_what_time_alone_has_completed():
    """The window of the quiet key a came out at the edge; b's late row changes b's window and not a's."""
    spec = sl.Spec(
        time="t",
        by=["k"],
        windows={"w": sl.last_rows(2, 10)},
        aggs={"seen": sl.collect("v")},
        watermark=sl.bounded(0),
        allowed_lateness=20,
        emit="changes",
    )
    op, told = sl.Operator(spec), []
    for time, key in ((1, "a"), (2, "b"), (12, "b"), (3, "b")):
        found = op.push(pa.table({"t": [time], "k": [key], "v": [time]})).windows
        told.append([(w["k"], w["window_end"], w["seen"], w["op"]) for w in found.to_pylist()])
    first = [("a", 10, [1], "+"), ("b", 10, [2], "+")]
    assert told == [[], [], first, [("b", 10, [2], "-"), ("b", 10, [2, 3], "+")]]


@pytest.mark.parametrize("by", [[], ["k"]], ids=["no keys", "keys"])
@pytest.mark.parametrize("window", [sl.per_row(50), sl.per_row(400), sl.rows(7, 1), sl.last_rows(5, 3)], ids=repr)
@pytest.mark.parametrize("piece", [100, Policy.piece])
def test_windows_at_every_row_are_answered_from_columns_as_from_cells(window, piece, by):
    """``combine="recompute"`` makes cells of the rows; otherwise sums and extremes come from columns as they are, some
    windows at a time."""
    chance = np.random.default_rng(5)
    rows, missing = 3000, (chance.random(3000) < 0.1) | (np.arange(3000) % 900 < 100)
    floats = np.where(
        chance.random(rows) < 0.05, np.nan, chance.normal(size=rows) * 10.0 ** chance.integers(-9, 9, rows)
    )
    columns = {
        "f": pa.array(floats, mask=missing),
        "i": pa.array(chance.integers(-(2**62), 2**62, rows), mask=missing),
        "u": pa.array(chance.integers(0, 2**63, rows).astype(np.uint64) * 2),
        "d": pa.array(chance.integers(0, 10**6, rows)).cast(pa.decimal128(25, 2)),
        "s": pa.array(chance.integers(0, 99, rows).astype(str), mask=missing),
        "ok": pa.array(chance.random(rows) < 0.7),
        "k": pa.array(chance.integers(0, 5, rows)),
        "t": pa.array(np.cumsum(chance.integers(0, 3, rows))),
        "g": pa.array(np.where(np.arange(rows) % 900 < 500, np.nan, floats) * chance.integers(-1, 2, rows)),
        "e": pa.array(chance.normal(size=rows) + np.where(np.arange(rows) // 500 % 2, 1e6, 0)),
        "l": pa.array(chance.integers(-(2**40), 2**40, rows)),
        "m": pa.array(np.where(np.arange(rows) // 700 == 2, 2**62, -(2**61)) + chance.integers(0, 9, rows)),
        "j": pa.array(chance.integers(-(2**31), 2**31, rows).astype(np.int32)),
        "when": pa.array(chance.integers(-(2**62), 2**62, rows)).cast(pa.timestamp("us")),
    }
    kinds = {"count": sl.count, "sum": sl.sum, "mean": sl.mean, "min": sl.min, "max": sl.max}
    aggs = {f"{n} {c}": kind(c) for c in "fiud" for n, kind in kinds.items()}
    aggs |= {
        "some": sl.sum("f").where("ok"),
        "most": sl.max("f").where("ok"),
        "least": sl.min("s"),
        "spread": sl.std("f"),
        "spread of some": sl.var("e").where("ok"),
        "spread of whole numbers": sl.std("j", ddof=0),
    }
    finite = {"total": sl.sum("e"), "mean": sl.mean("e"), "spread": sl.std("e")}
    plain = {"n": sl.count(), "low": sl.min("g"), "high": sl.max("g"), "first": sl.min("when"), "last": sl.max("when")}
    alone = ({"low": sl.min("f")}, {"high": sl.max("i")}, {"total": sl.sum("f")}, {"mean": sl.mean("e")})
    whole = [{"total": sl.sum(column), "mean": sl.mean(column)} for column in "lmj"]
    several = (aggs, *alone, *whole, finite, plain)
    for chosen in (*several, plain | {"seen": sl.count("f")}, plain | {"low": sl.min("j")}, {"high": sl.max("u")}):
        spec = sl.Spec("t", {"w": window}, chosen, by=by, watermark=sl.ordered(), on_overflow="null")
        told = []
        for combine in ("auto", "recompute"):
            op = sl.Operator(spec, combine=combine, policy=Policy(piece=piece))
            parts = [op.push(batch).windows for batch in pa.table(columns).to_batches(max_chunksize=700)]
            told.append(pa.concat_tables([*parts, op.flush().windows]))
        assert told[0].num_rows > 1000
        for name in told[0].column_names:
            one, other = (table[name].combine_chunks() for table in told)
            if pa.types.is_floating(one.type):
                assert one.is_valid().equals(other.is_valid())
                pair = (c.fill_null(0).to_numpy(zero_copy_only=False) for c in (one, other))
                np.testing.assert_allclose(*pair, rtol=1e-12, atol=1e-5)
            else:
                assert one.equals(other), name


@pytest.mark.parametrize("type", [pa.int64(), pa.int32(), pa.date32(), pa.timestamp("us", "UTC")], ids=str)
def test_what_windows_at_all_rows_hold_is_looked_for_piece_by_piece(type, monkeypatch):
    """Where they start is known no earlier, whatever the time column is."""
    looked, recent = [], spans.recent
    monkeypatch.setattr(spans, "recent", lambda *given: looked.append(given[4].size) or recent(*given))
    time = np.cumsum(np.random.default_rng(6).integers(0, 3, 3000))
    rows = pa.table({"t": pa.array(time, pa.int32() if type == pa.date32() else pa.int64()).cast(type), "v": time % 17})
    reach = {"date32[day]": "30d", "timestamp[us, tz=UTC]": "30us"}.get(str(type), 30)
    spec = sl.Spec("t", {"w": sl.per_row(reach)}, {"n": sl.count(), "low": sl.min("v")}, watermark=sl.ordered())
    op = sl.Operator(spec, policy=Policy(piece=100))
    found = pa.concat_tables([op.push(rows[:1700]).windows, op.push(rows[1700:]).windows, op.flush().windows])
    first, last = np.searchsorted(time, time - 30, "right"), np.searchsorted(time, time, "right")
    assert (
        found["window_start"].cast(pa.int32() if type == pa.date32() else pa.int64()).to_pylist()
        == time[first].tolist()
    )
    assert found["window_end"].combine_chunks() == rows["t"].combine_chunks()
    assert found["n"].to_pylist() == (last - first).tolist()
    assert found["low"].to_pylist() == [min(time[a:b] % 17) for a, b in zip(first, last, strict=True)]
    assert max(looked) == 100


@pytest.mark.parametrize("every, emit", [(2, "final"), (1, "changes")])
def test_a_push_looks_only_for_windows_that_were_not_told(every, emit, monkeypatch):
    """However many rows are kept for windows to come."""
    looked, recent = [], per_row.recent
    monkeypatch.setattr(per_row, "recent", lambda *given: looked.append(given[4].size) or recent(*given))
    lateness = {"emit": emit, "allowed_lateness": 5 if emit == "changes" else 0}
    spec = sl.Spec("t", {"w": sl.per_row(10_000, every)}, {"n": sl.count()}, watermark=sl.ordered(), **lateness)
    op = sl.Operator(spec)
    told = []
    for at in range(0, 5000, 100):
        out = op.push(pa.table({"t": np.arange(at, at + 100)}))
        told += out.windows["n"].to_pylist()
    assert out.stats["kept"] > 4000 and max(looked) < 300
    assert told == list(range(every, every * len(told) + 1, every)) and len(told) >= 4990 // every


@pytest.mark.parametrize("window", [sl.per_row(1000), sl.rows(1000, 1), sl.last_rows(1000, 1)], ids=repr)
def test_a_final_row_is_kept_as_its_columns(window):
    """A time, a value and the number of rows before it: not a cell of some 20 words."""
    spec = sl.Spec("t", {"w": window}, {"low": sl.min("v"), "total": sl.sum("v")}, by=["k"], watermark=sl.ordered())
    op = sl.Operator(spec)
    for at in range(0, 20_000, 1000):
        stats = op.push(stream(1000, at).sort_by("t")).stats
    assert stats["kept"] > 900 and stats["bytes"] < 100 * stats["kept"] + 5000


MARKED = {"punctuation": sl.punctuation("mark"), "frame": sl.frame("mark", "leave"), "count": sl.rows(1000)}


@pytest.mark.parametrize("sizes", [(1, 9), (500,)], ids=repr)
@pytest.mark.parametrize("name", MARKED)
def test_an_open_window_of_a_stream_in_order_is_a_cell_and_no_rows(name, sizes):
    """However long it is and however small the pushes are, and so are those of rows that the watermark has passed."""
    for watermark, waiting in ((sl.ordered(), 4), (sl.bounded(20), 30)):
        op = sl.Operator(sl.Spec("t", {"w": MARKED[name]}, {"total": sl.sum("v")}, by=["k"], watermark=watermark))
        held, windows, at = [], 0, 0
        while at < 3000:
            time = np.arange(at, at := at + sizes[len(held) % len(sizes)])
            rows = {"t": time, "k": time % 3, "v": time, "mark": time % 1500 < 3, "leave": time % 1500 == 1400}
            out = op.push(pa.table(rows))
            windows += out.windows.num_rows
            held.append(out.stats)
        assert max(s["kept"] for s in held) <= waiting + 2 * 3
        assert max(s["bytes"] for s in held) < min(s["bytes"] for s in held) + 10_000
        assert windows + op.flush().windows.num_rows == {"punctuation": 6, "frame": 2, "count": 3}[name]


@pytest.mark.parametrize("case", range(12))
def test_frames_and_marks_close_alike_however_rows_are_aggregated(case):
    """Beside a window at every row they keep their rows; alone they are cells between marks."""
    chance = np.random.default_rng(case)
    rows, share = 400, (0.02, 0.3, 0.8)[case % 3]
    time = np.cumsum(chance.integers(0, 3, rows))
    columns = {"t": time, "k": chance.integers(0, 3, rows), "v": chance.integers(0, 99, rows)}
    columns |= {name: chance.random(rows) < share for name in ("mark", "leave")}
    stream, by = pa.table(columns), ["k"] if case % 2 else []
    aggs = {"total": sl.sum("v"), "seen": sl.collect("v"), "low": sl.min("v").where("leave")}
    for window in MARKED["punctuation"], MARKED["frame"], sl.frame("mark", "leave", partial=True):
        told = []
        for windows in ({"w": window}, {"w": window, "x": sl.per_row(1)}):
            op, at, found = sl.Operator(sl.Spec("t", windows, aggs, by=by, watermark=sl.bounded(2))), 0, []
            while at < rows:
                to = at + int(chance.integers(1, 40))
                found += op.push(stream.slice(at, to - at)).windows.to_pylist()
                op, at = sl.Operator.restore(op.spec, op.snapshot()), to
            found += op.flush().windows.to_pylist()
            told.append([w for w in found if w["window"] == "w"])
        assert told[0] == told[1] and told[0]


TOGETHER = {name: window for name, (window, _) in WINDOWS.items() if not name.startswith(("visits", "deltas"))}


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("by", [[], ["k"]], ids=["no keys", "keys"])
@pytest.mark.parametrize("name", TOGETHER)
def test_windows_that_close_at_once_are_answered_step_by_step(name, by, emit):
    """Only the memory that it takes tells."""
    rows = stream(3000, 0)
    told = []
    for step in (100, Policy.step_rows):
        arguments = {"by": by, "aggs": N, "watermark": sl.bounded(20), "allowed_lateness": 5, "emit": emit}
        spec = sl.Spec("t", windows={"w": TOGETHER[name], "x": sl.per_row(30)}, **arguments)
        op = sl.Operator(spec, policy=Policy(step_rows=step))
        found = [op.push(batch).windows for batch in rows.to_batches(max_chunksize=1700)]
        told.append(pa.concat_tables([*found, op.flush().windows]))
    assert told[0].num_rows > 2000
    assert told[0].combine_chunks().equals(told[1].combine_chunks())


def test_a_batch_in_order_is_not_copied():
    """Rows that windows need beside the ones before it are few; all others stay where they lie."""
    spec = sl.Spec("t", {"w": sl.per_row(100)}, {"low": sl.min("v")}, watermark=sl.ordered())
    op, size = sl.Operator(spec), Policy.step_rows // 2
    for at in range(0, 3 * size, size):
        batch = pa.record_batch({"t": np.arange(at, at + size), "v": np.arange(size) * 0.5})
        ends = op.push(batch).windows["window_end"]
        assert sum(len(chunk) for chunk in ends.chunks) >= size - 1
        begin = batch["t"].buffers()[1].address
        inside = (begin <= chunk.buffers()[1].address < begin + 8 * size for chunk in ends.chunks)
        assert sum(len(chunk) for chunk, of_it in zip(ends.chunks, inside, strict=True) if of_it) > size - 1000


def test_rows_that_no_window_sees_are_not_aggregated(monkeypatch):
    aggregated = []
    made = over_rows.range_partials
    monkeypatch.setattr(over_rows, "range_partials", lambda rows, *of: aggregated.append(len(rows)) or made(rows, *of))
    spec = sl.Spec("t", {"w": sl.last_rows(5, 1000)}, {"low": sl.min("v"), "seen": sl.collect("v")})
    time = np.arange(10_000)
    found = sl.aggregate(pa.table({"t": time, "v": time * 7919 % 1000}), spec)
    assert found["seen"].to_pylist() == [[t * 7919 % 1000 for t in range(e - 5, e)] for e in range(1000, 10_001, 1000)]
    assert sum(aggregated) == 50


@pytest.mark.parametrize("name", ["marks", "frames"])
def test_rows_as_late_as_the_last_ones_of_a_batch_before_are_put_with_them(name):
    """However often, and a flag that is null is not set."""
    time = np.repeat(np.arange(40), np.random.default_rng(1).integers(1, 9, 40))
    at = np.arange(time.size)
    flags = {"mark": at % 7 == 0, "leave": at % 5 == 1}
    columns = {f: pa.array([None if t % 3 == 0 else bool(x) for t, x in enumerate(c)]) for f, c in flags.items()}
    rows = pa.table({"t": time, "v": at, **columns}).combine_chunks()
    spec = sl.Spec("t", {"w": WINDOWS[name][0]}, {"total": sl.sum("v")}, watermark=sl.ordered())
    told = []
    for size in (1, 2, 3, 50, 1000):
        op = sl.Operator(spec)
        parts = [op.push(rows.slice(begin, size)).windows for begin in range(0, len(rows), size)]
        told.append(pa.concat_tables([*parts, op.flush().windows]).to_pylist())
    assert len(told[0]) > 5 and all(found == told[0] for found in told)


@pytest.mark.parametrize("window", [sl.rows(100), sl.per_row(50), sl.punctuation("mark")], ids=repr)
def test_the_times_of_a_batch_are_looked_through_once(window, monkeypatch):
    """Whether rows are in order is known from then on, however they are kept."""
    scanned, scan = [], batch.scan
    monkeypatch.setattr(batch, "scan", lambda time, *rest: scanned.append(time.size) or scan(time, *rest))
    op = sl.Operator(sl.Spec("t", {"w": window}, {"total": sl.sum("v")}, watermark=sl.ordered()))
    rows = stream(6000, 0).sort_by("t")
    for at in range(0, 6000, 2000):
        op.push(rows.slice(at, 2000))
    assert sum(scanned) < 1.2 * 6000


@pytest.mark.parametrize("by", [[], ["k"]], ids=["no keys", "keys"])
@pytest.mark.parametrize("added", [False, True], ids=["alone", "beside a new window"])
def test_a_count_of_rows_up_to_the_latest_time_is_complete_once_time_goes_on(by, added):
    """Rows in order are counted as they come; windows close with the watermark, and with nothing else."""
    spec = sl.Spec("t", {"w": sl.rows(2)}, {"total": sl.sum("v")}, by=by, watermark=sl.ordered())
    op = sl.Operator(spec)

    def told(out):
        return [(w["rank_start"], w["window_start"], w["window_end"], w["total"]) for w in out.windows.to_pylist()]

    def rows(*times):
        return pa.table({"t": times, "v": times, "k": ["a"] * len(times)})

    assert told(op.push(rows(1, 5))) == []
    assert told(op.push(rows(5))) == []
    op = sl.Operator.restore(spec, op.snapshot())
    if added:
        op.add_window("q", sl.per_row(3))
    assert told(op.advance(5)) == []
    assert [w for w in told(op.advance(6)) if w[0] is not None] == [(0, 1, 5, 6)]
    assert [w for w in told(op.push(rows(6, 6, 7))) if w[0] is not None] == [(2, 5, 6, 11)]
    assert [w for w in told(op.advance(7)) if w[0] is not None] == []
    assert [w for w in told(op.advance(8)) if w[0] is not None] == [(4, 6, 7, 13)]


@pytest.mark.parametrize("delay", [0, 30, 5000])
@pytest.mark.parametrize(
    "window", [sl.rows(100), sl.rows(100, 30), sl.rows(40, 90), sl.rows(70, partial=True)], ids=repr
)
def test_counts_of_a_stream_in_order_that_waits_in_several_runs(window, delay):
    """Each run of rows is counted where it lies; only the last one ends the stream."""
    time = np.cumsum(np.random.default_rng(4).integers(0, 3, 2000))
    rows = pa.table({"t": time, "v": np.arange(2000)})
    told = []
    for watermark, size in (
        (sl.ordered(), 2000),
        (sl.ordered(), 137),
        (sl.bounded(delay), 137),
        (sl.bounded(delay), 700),
    ):
        aggs = {"total": sl.sum("v"), "first": sl.first("v"), "seen": sl.collect("v")}
        op = sl.Operator(sl.Spec("t", {"w": window}, aggs, watermark=watermark))
        parts = [op.push(rows.slice(at, size)).windows for at in range(0, 2000, size)]
        told.append(pa.concat_tables([*parts, op.flush().windows]).to_pylist())
    ranks = range(0, 2000 if window.partial else 2001 - window.n, window.every)
    assert [w["seen"] for w in told[0]] == [list(range(a, min(a + window.n, 2000))) for a in ranks]
    assert [(w["window_start"], w["window_end"]) for w in told[0]] == [
        (time[a], time[min(a + window.n, 2000) - 1]) for a in ranks
    ]
    assert all(found == told[0] for found in told)


@pytest.mark.parametrize("window", [sl.rows(1, 5), sl.rows(9, 7), sl.rows(4), sl.rows(8, 4)], ids=repr)
def test_counts_by_key_of_a_stream_in_order_wait_for_rows_that_may_come_late(window):
    """A window that has ended waits as long as the watermark does: no slice of it becomes one with those behind it."""
    chance = np.random.default_rng(8)
    rows = pa.table({"t": np.cumsum(chance.integers(0, 3, 400)), "k": chance.integers(0, 4, 400), "v": np.arange(400)})
    spec = sl.Spec("t", {"w": window}, {"seen": sl.collect("v")}, by=["k"], watermark=sl.ordered(), allowed_lateness=6)
    op = sl.Operator(spec)
    parts = [op.push(rows.slice(at, 3)).windows for at in range(0, 400, 3)]
    found = pa.concat_tables([*parts, op.flush().windows])
    alike = [("window_end", "ascending"), ("k", "ascending"), ("rank_start", "ascending")]
    assert found.sort_by(alike).equals(sl.aggregate(rows, spec).sort_by(alike)) and found.num_rows > 10


def test_a_late_row_changes_only_the_windows_that_hold_it() -> None:
    """Windows of rows behind it are the same as before, although they come later in the order of all rows."""
    aggs = {"n": sl.count(), "total": sl.sum("v")}
    spec = sl.Spec("t", {"w": sl.per_row(2)}, aggs, watermark=sl.bounded(0), allowed_lateness=1000, emit="changes")
    op, origin = sl.Operator(spec), 1_700_000_000_000_000_000
    for times in (range(0, 50, 10), range(50, 100, 10)):
        op.push(pa.table({"t": [origin + t for t in times], "v": list(times)}))
    out = op.push(pa.table({"t": [origin + 15, origin + 100], "v": [1, 1]}))
    found = [(row["window_end"] - origin, row["n"], row["total"], row["op"]) for row in out.windows.to_pylist()]
    assert found == [(15, 1, 1, "+"), (90, 1, 90, "+")]


@pytest.mark.parametrize(
    "window",
    [sl.rows(1000), sl.last_rows(50, every="10s"), sl.punctuation("m", per_key=True), sl.per_row("1s", every=1000)],
    ids=repr,
)
def test_windows_that_late_rows_may_change_are_emitted_once(window):
    """More rows than close in one step wait for the lateness to pass. None is late."""
    spec = sl.Spec("t", {"w": window}, {"n": sl.count(), "s": sl.sum("v")}, by="k", allowed_lateness="1h")
    op, found, tables = sl.Operator(replace(spec, emit="changes")), [], []
    for first in range(0, 400_000, 20_000):
        number = np.arange(first, first + 20_000)
        times = np.datetime64("2026-01-01", "us") + (number * 5000).astype("m8[us]")
        tables.append(pa.table({"t": times, "k": number % 10, "v": number, "m": number % 2000 < 10}))
        found.append(op.push(tables[-1]).windows)
    every = pa.concat_tables([*found, op.flush().windows])
    assert every.num_rows and set(every["op"].to_pylist()) == {"+"}
    order = [(name, "ascending") for name in ("k", "window_start", "window_end", "s")]
    expected = sl.aggregate(pa.concat_tables(tables), spec)
    assert every.select(expected.column_names).sort_by(order).equals(expected.sort_by(order))


@pytest.mark.parametrize("sequence", [None, "s"])
@pytest.mark.parametrize(
    "window",
    [sl.rows(4, partial=True, per_key=False), sl.rows(3, every=1), sl.rows(3, every=2, partial=True, per_key=False)],
    ids=str,
)
def test_corrections_of_late_rows_leave_what_all_rows_give(window: sl.Window, sequence: str | None) -> None:
    """Rows of equal times, of several keys: a window that is taken back is known by its rows."""
    shared = {"windows": {"w": window}, "aggs": {"l": sl.collect("v"), "f": sl.first("v")}, "by": "k"}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, at = int(rng.integers(10, 40)), 0
        columns = {
            "t": rng.integers(0, 12, n) + np.arange(n) // 3,
            "k": rng.integers(0, 3, n),
            "s": rng.integers(0, 3, n),
        }
        rows, found = pa.table(columns | {"v": np.arange(n)}), []
        op = sl.Operator(sl.Spec("t", **shared, sequence=sequence, allowed_lateness=100, emit="changes"))
        while at < n:
            size = int(rng.integers(1, 6))
            found.append(op.push(rows.slice(at, size)).windows)
            at += size
        left: dict[str, int] = {}
        for row in pa.concat_tables([*found, op.flush().windows]).to_pylist():
            sign = 1 if row.pop("op") == "+" else -1
            left[repr(row)] = left.get(repr(row), 0) + sign
        assert set(left.values()) <= {0, 1}
        wanted = sl.aggregate(rows, sl.Spec("t", **shared, sequence=sequence)).to_pylist()
        assert sorted(row for row, count in left.items() if count) == sorted(map(repr, wanted))


@pytest.mark.parametrize("window", [sl.rows(4), sl.rows(3, every=5)], ids=repr)
def test_a_key_keeps_its_number_of_rows_while_many_others_come(window: sl.Window) -> None:
    """Codes of keys that nothing uses are forgotten."""
    spec = sl.Spec("t", {"w": window}, {"n": sl.count()}, by="k", watermark=sl.ordered())
    batches = [pa.table({"t": [1, 2, 3, 4], "k": ["q"] * 4})]
    for push in range(1, 8):
        keys = [f"{push} {number % 300}" for number in range(1200)]
        batches.append(pa.table({"t": [30 * push + number // 300 for number in range(1200)], "k": keys}))
    batches.append(pa.table({"t": [300, 301, 302, 303], "k": ["q"] * 4}))
    op = sl.Operator(spec)
    given = pa.concat_tables([*(op.push(batch).windows for batch in batches), op.flush().windows])
    order = [("k", "ascending"), ("window_end", "ascending"), ("rank_start", "ascending")]
    wanted = sl.aggregate(pa.concat_tables(batches), spec)
    assert given.sort_by(order).equals(wanted.sort_by(order))
    assert given.filter(pa.compute.field("k") == "q")["rank_start"].to_pylist()[-1] == (
        4 if window == sl.rows(4) else 5
    )
