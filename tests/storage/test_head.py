"""Small pushes go into the head of the store: nothing of it shows but the time they take."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl
from slicing.query.policy import Policy
from slicing.reducing.batch import Rows
from slicing.storage.head import Head

AGGS = {
    "n": sl.count(),
    "values": sl.count("x"),
    "total": sl.sum("x"),
    "whole": sl.sum("i"),
    "chosen": sl.sum("i").where("flag"),
    "least": sl.min("x"),
    "mean": sl.mean("x"),
    "spread": sl.var("x"),
    "most": sl.max("i"),
}
ARROW = [
    ("i", "count"),
    ("x", "count"),
    ("x", "sum"),
    ("i", "sum"),
    ("some", "sum"),
    ("x", "min"),
    ("x", "mean"),
    ("x", "variance", pc.VarianceOptions(ddof=1)),
    ("i", "max"),
]
WINDOWS = {"tumbling": (100, 100), "sliding": (300, 100)}


def stream(rows: int, keys: int, disorder: int = 0) -> pa.Table:
    random = np.random.default_rng(rows + keys)
    x, i = random.normal(0, 1e6, rows), random.integers(-(2**40), 2**40, rows)
    flag = random.random(rows) < 0.5
    columns = {
        "t": np.sort(random.integers(0, 1000, rows)) - random.integers(0, disorder + 1, rows),
        "k": random.integers(0, keys, rows) * 7,
        "x": pa.array(x, mask=random.random(rows) < 0.1),
        "i": i,
        "flag": flag,
        "some": pa.array(i, mask=~flag),
    }
    return pa.table(columns)


def query(windows: str = "tumbling", late: int = 0, **changes: object) -> sl.Spec:
    size, every = WINDOWS[windows]
    given = {"by": ["k"], "windows": {"w": sl.sliding(size, every)}, "aggs": AGGS, "watermark": sl.bounded(late)}
    return sl.Spec("t", **(given | changes))


def grouped(table: pa.Table, windows: str) -> list[dict[str, object]]:
    """What Arrow makes of it, window by window."""
    size, every = WINDOWS[windows]
    time, found = table["t"].to_numpy(), []
    for start in range(-2000, 1000, every):
        inside = table.filter(pa.array((time >= start) & (time < start + size)))
        made = inside.group_by("k").aggregate(ARROW).rename_columns(["k", *AGGS]).sort_by("k")
        found += [{"window_end": start + size} | row for row in made.to_pylist()]
    return found


def assert_same(found: pa.Table, expected: list[dict[str, object]], aggs: Iterable[str] = AGGS) -> None:
    assert found.num_rows == len(expected)
    for name in ("window_end", "k", *aggs):
        values = [row[name] for row in expected]
        if pa.types.is_floating(found[name].type):
            expects = np.array([np.nan if value is None else value for value in values])
            np.testing.assert_allclose(found[name].to_numpy(), expects, rtol=1e-6, atol=1e-3, err_msg=name)
        else:
            assert found[name].to_pylist() == values, name


def pushed(op: sl.Operator, table: pa.Table, size: int) -> tuple[pa.Table, int]:
    """All windows of pushes of so many rows, and how many of these left rows in the head."""
    hot, found = 0, []
    for at in range(0, table.num_rows, size):
        found.append(op.push(table.slice(at, size)).windows)
        hot += op._now.store.head is not None
    return pa.concat_tables([*found, op.flush().windows]), hot


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize(("disorder", "keys"), [(0, 40), (0, 300), (60, 40), (350, 40)])
def test_small_pushes_answer_as_arrow_groups(windows: str, disorder: int, keys: int) -> None:
    table = stream(6000, keys, disorder)
    found, hot = pushed(sl.Operator(query(windows, disorder)), table, 25)
    assert hot > 100
    assert_same(found, grouped(table, windows))


@pytest.mark.parametrize("disorder", [0, 60])
def test_pushes_of_several_chunks_go_in_whole(disorder: int) -> None:
    table = stream(6000, 40, disorder)
    found, hot = pushed(
        sl.Operator(query(late=60), policy=Policy(long_slot=1, chunk=7)), table, 25
    )  # several slots are open
    assert hot > 100
    assert_same(found, grouped(table, "tumbling"))


def test_floats_count_the_rows_until_one_is_null() -> None:
    table, counting = stream(6000, 40), set()
    aggs = {name: agg for name, agg in AGGS.items() if name not in ("whole", "chosen")}  # these would count them too
    whole = table.set_column(2, "x", table["x"].fill_null(0.5))
    table = pa.concat_tables([whole.slice(0, 3050), table.slice(3050)])
    op, found = sl.Operator(query(aggs=aggs)), []
    for at in range(0, 6000, 25):
        found.append(op.push(table.slice(at, 25)).windows)
        head = op._now.store.head
        if head is not None:
            assert head.used == len(head.cells())
            counting.add((at < 3050, head._counter is not None))
    assert {(True, True), (False, False)} <= counting
    assert_same(pa.concat_tables([*found, op.flush().windows]), grouped(table, "tumbling"), aggs)


def test_a_head_that_has_all_rows_it_can_count_begins_again() -> None:
    table = stream(6000, 40)
    aggs = {name: AGGS[name] for name in ("n", "values", "total", "whole")}
    few, most = (sl.Operator(query(aggs=aggs), policy=Policy(head_most=some)) for some in (120, 1 << 30))
    heads: list[list[Head]] = [[], []]
    found: list[list[pa.Table]] = [[], []]
    for at in range(0, 6000, 25):
        for i, op in enumerate((few, most)):
            found[i].append(op.push(table.slice(at, 25)).windows)
            head = op._now.store.head
            if head is not None and (not heads[i] or heads[i][-1] is not head):
                heads[i].append(head)
    assert len(heads[0]) > len(heads[1]) > 5
    for i, op in enumerate((few, most)):
        assert_same(pa.concat_tables([*found[i], op.flush().windows]), grouped(table, "tumbling"), aggs)


def test_sums_that_carry_what_they_lose_go_into_the_head() -> None:
    """Variances of emit="changes" come from such sums, and share them with a column's extremes."""
    table, aggs = stream(6000, 40), {"spread": sl.var("x").where("flag"), "least": sl.min("x").where("flag")}
    found, hot = pushed(sl.Operator(query(aggs=aggs, emit="changes")), table, 25)
    assert hot > 100
    expected = sl.aggregate(table, query(aggs=aggs, emit="changes"))
    assert found.drop(["spread"]).equals(expected.drop(["spread"]))
    spreads = (some["spread"].fill_null(-1).to_numpy() for some in (found, expected))
    np.testing.assert_allclose(*spreads, rtol=1e-9)


def test_keys_that_come_later_find_room() -> None:
    table = stream(6000, 2000)
    found, hot = pushed(sl.Operator(query()), table, 50)
    assert hot
    assert_same(found, grouped(table, "tumbling"))


REAL = 1_700_000_000_000_000_000
DENSE = Policy(head_filled=0.05)  # a head begins for few cells
KINDS = [list(AGGS), ["n"], ["total", "least"], ["whole"], ["n", "whole"], ["values", "least", "mean"]]


@pytest.mark.parametrize("aggs", KINDS, ids=" ".join)
@pytest.mark.parametrize("nulls", [True, False], ids=["nulls", "no nulls"])
@pytest.mark.parametrize(("windows", "disorder"), [("tumbling", 0), ("tumbling", 60), ("sliding", 60)])
def test_a_head_grows_with_the_keys(
    monkeypatch: pytest.MonkeyPatch, windows: str, disorder: int, nulls: bool, aggs: list[str]
) -> None:
    """Each push knows more keys than the one before. One key has thousands of rows in a window."""
    grown, grows = list[Head | None](), Head.grown

    def watched(head: Head, rows: Rows) -> Head | None:
        grown.append(grows(head, rows))
        return grown[-1]

    monkeypatch.setattr(Head, "grown", watched)
    rows = 30_000
    table, random = stream(rows, 1), np.random.default_rng(5)
    key = np.where(random.random(rows) < 0.6, 0, random.integers(0, 1 + np.arange(rows) // 30)) * 7
    time = table["t"].to_numpy() - random.integers(0, disorder + 1, rows)
    real = pa.array(time + REAL)
    table = table.set_column(1, "k", pa.array(key)).set_column(0, "t", pa.array(time))
    known = table["x"].fill_null(1.0)  # every second push has no nulls
    table = table.set_column(2, "x", pc.if_else(pa.array(nulls & (np.arange(rows) // 300 % 2 == 0)), table["x"], known))
    op, found = sl.Operator(query(windows, disorder, aggs={name: AGGS[name] for name in aggs}), policy=DENSE), []
    for at in range(0, rows, 300):
        found.append(op.push(table.set_column(0, "t", real).slice(at, 300)).windows)
        head = op._now.store.head
        if head is not None:
            cells = head.cells()
            assert head.used == len(cells)
            assert set(head.ends[head._begun].tolist()) == set(cells.slice_ends.tolist())
    assert sum(head is not None for head in grown) > 2
    windowed = [{**row, "window_end": row["window_end"] + REAL} for row in grouped(table, windows)]
    assert_same(pa.concat_tables([*found, op.flush().windows]), windowed, aggs)


def test_a_head_does_not_grow_for_keys_of_later_slots() -> None:
    """Rows of many new keys begin another head if their slot is not in the old one."""
    op, times = sl.Operator(query(late=6, aggs={"n": sl.count()}), policy=DENSE), [10] * 40 + [20] * 40 + [105] * 400
    table, heads = pa.table({"t": times, "k": [*range(40), *range(40), *range(400)]}), []
    for at, size in ((0, 40), (40, 40), (80, 400)):
        op.push(table.slice(at, size))
        heads.append(op._now.store.head)
    assert heads[0] is None and heads[1].ends.tolist() == [100] and heads[2].ends.tolist() == [100, 200]
    expected = [(100, k, 2) for k in range(40)] + [(200, k, 1) for k in range(400)]
    found = op.flush().windows.select(["window_end", "k", "n"]).to_pydict()
    assert list(zip(*found.values(), strict=True)) == expected


def test_a_head_that_grew_has_the_slots_that_it_had() -> None:
    op = sl.Operator(query(late=60, aggs={"n": sl.count()}), policy=DENSE)
    for times, keys in (([50] * 40, 40), ([60, 110] * 20, 40), ([60, 110] * 20, 40), ([120] * 400, 400)):
        out = op.push(pa.table({"t": times, "k": [i % keys for i in range(len(times))]}))
    assert op._now.store.head.room > 400
    assert out.stats["slices"] == 2 and out.stats["cells"] == 40 + 400


def test_a_head_that_grew_for_a_refused_push_is_not_kept() -> None:
    """The operator goes on with the head that it had."""
    rows = stream(400, 40)
    op = sl.Operator(query(aggs={"n": sl.count(), "whole": sl.sum("i")}), max_bytes=40_000)
    for at in range(0, 60, 20):
        op.push(rows.slice(at, 20))
    head = op._now.store.head
    many = pa.concat_tables([rows.slice(60, 40)] * 40)
    many = many.set_column(1, "k", pa.array(np.arange(many.num_rows)))
    with pytest.raises(MemoryError, match="max_bytes"):
        op.push(many)
    assert op._now.store.head is head
    other = sl.Operator(query(aggs={"n": sl.count(), "whole": sl.sum("i")}))
    other.push(rows.slice(0, 60))
    assert op.flush().windows.equals(other.flush().windows)


def test_asking_for_the_state_changes_nothing() -> None:
    table = stream(4000, 40)
    op, found = sl.Operator(query("sliding")), []
    for at in range(0, 4000, 25):
        found.append(op.push(table.slice(at, 25)).windows)
        if at % 100 == 0:
            op = sl.Operator.restore(op.spec, op.snapshot())
        elif at % 75 == 0:
            op.snapshot()
    assert_same(pa.concat_tables([*found, op.flush().windows]), grouped(table, "sliding"))


def test_rows_that_are_late_or_have_no_time_are_told_and_left_out() -> None:
    table = stream(4000, 40, disorder=80)
    times = table["t"].to_numpy()
    missing = np.arange(4000) % 50 == 7
    op = sl.Operator(query(late=50, on_null_time="late"), policy=Policy(head_filled=0.3))
    given = table.set_column(0, "t", pa.array(times, mask=missing))
    kept, windows, hot, reached = np.ones(4000, np.bool_), [], 0, -(10**9)
    for at in range(0, 4000, 25):
        out = op.push(given.slice(at, 25))
        rows = np.arange(at, at + 25)
        late = times[rows] // 100 * 100 + 100 <= reached
        kept[rows] = ~late & ~missing[rows]
        assert (out.stats.null_time, out.stats.late) == (missing[rows].sum(), (late & ~missing[rows]).sum())
        assert out.stats.windowed == kept[rows].sum() == 25 - out.late.num_rows
        reached = max(reached, times[rows][~missing[rows]].max() - 50)
        windows.append(out.windows)
        hot += op._now.store.head is not None
    assert hot > 100
    assert_same(pa.concat_tables([*windows, op.flush().windows]), grouped(table.filter(pa.array(kept)), "tumbling"))


def test_a_push_that_fails_leaves_the_block_as_it_was() -> None:
    table = stream(3000, 40)
    hurt, kept = sl.Operator(query()), sl.Operator(query())
    hot = 0
    for at in range(0, 3000, 25):
        part = table.slice(at, 25)
        assert hurt.push(part).windows == kept.push(part).windows
        hot += hurt._now.store.head is not None
        new = part.set_column(1, "k", pa.array(np.arange(25) + 10**6))
        with pytest.raises(ValueError, match="times must lie between"):
            hurt.push(new.set_column(0, "t", pa.array([*part["t"].to_pylist()[:24], 2**63 - 1])))
        with pytest.raises(TypeError, match="column 'x' was double"):
            hurt.push(new.set_column(2, "x", part["i"].cast(pa.string())))
    assert hot > 100
    assert hurt.snapshot() == kept.snapshot()


def test_an_operator_that_was_interrupted_in_the_middle_of_a_block_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream(3000, 40)
    op = sl.Operator(query())
    blobs = [op.push(table.slice(at, 25)) and op.snapshot() for at in range(0, 1000, 25)]
    op.push(table.slice(1000, 25))
    assert op._now.store.head is not None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("slicing.storage.head.Lifted.scatter", interrupted)
        op.push(table.slice(1025, 25))
    for use in (lambda: op.push(table.slice(1025, 25)), op.snapshot, op.flush):
        with pytest.raises(RuntimeError, match="a push was interrupted while it added its rows"):
            use()
    again = sl.Operator.restore(query(), blobs[-1])
    assert again.push(table.slice(1000, 50)).stats.rows == 50


@pytest.mark.parametrize("windows", WINDOWS)
def test_a_watermark_that_closes_nothing_leaves_the_block_as_it_is(windows: str) -> None:
    table, kept = stream(20_000, 50), 0
    op = sl.Operator(query(windows, watermark=sl.manual()))
    found = []
    for at in range(0, len(table), 40):
        batch = table.slice(at, 40)
        found.append(op.push(batch).windows)
        block = op._now.store.head
        out = op.advance(batch["t"][-1].as_py())
        assert out.watermark == batch["t"][-1].as_py()
        assert out.stats["cells"] == op._now.store.held()[1]
        kept += block is not None and op._now.store.head is block
        found.append(out.windows)
    assert kept > 300
    assert_same(pa.concat_tables([*found, op.flush().windows]), grouped(table, windows))


def test_stats_count_the_cells_of_the_block() -> None:
    table = stream(3000, 40)
    op = sl.Operator(query(watermark=sl.manual()))
    time, key = table["t"].to_numpy() // 100, table["k"].to_numpy()
    for at in range(0, 3000, 25):
        stats = op.push(table.slice(at, 25)).stats
        if op._now.store.head is None:
            continue
        if at % 500 == 0:
            op._state  # the block becomes a run: its cells may be counted again beside a new block  # noqa: B018
        assert stats["slices"] == np.unique(time[: at + 25]).size
        assert stats["cells"] >= np.unique(time[: at + 25] * 10**6 + key[: at + 25]).size
    assert op.advance(10**6).stats["cells"] == 0


@pytest.mark.parametrize("column", ["i", "x"])
def test_stats_count_the_slices_that_have_rows_whichever_of_the_open_ones_these_come_into(column: str) -> None:
    """Some pushes leave a slice out that lies between theirs, or have rows at its edges alone."""
    rng, hot = np.random.default_rng(5), 0
    spec = query(aggs={"n": sl.count(), "total": sl.sum(column)}, watermark=sl.manual())
    op, plain = sl.Operator(spec), sl.Operator(spec, policy=Policy(head_rows=0))
    for at in range(400):
        slots = at // 20 * 2 + rng.choice(4, rng.integers(1, 3), replace=False)
        time = 100 * rng.choice(slots, 40) + rng.choice([0, 50, 99], 40)
        rows = pa.table(
            {"t": time, "k": rng.integers(0, 40, 40), "i": rng.integers(0, 9, 40), "x": rng.normal(size=40)}
        )
        out, other = op.push(rows), plain.push(rows)
        assert out.stats.slices == other.stats.slices, at
        hot += op._now.store.head is not None
        if at % 20 == 19:
            out, other = op.advance(100 * (at // 20 * 2 + 2)), plain.advance(100 * (at // 20 * 2 + 2))
            assert out.stats.slices == other.stats.slices
            assert out.windows.select(["window_end", "k", "n"]) == other.windows.select(["window_end", "k", "n"])
    assert hot > 200


def test_slots_that_few_keys_have_rows_in_do_without() -> None:
    op = sl.Operator(query(aggs={"n": sl.count(), "total": sl.sum("x")}, watermark=sl.manual()))
    for slot in range(50):
        rows = {"t": np.full(100, 100 * slot), "k": np.arange(100) + 100 * slot, "x": np.ones(100)}
        op.push(pa.table(rows))
        stats = op.push(pa.table(rows)).stats
    assert 5000 <= stats["cells"] < 5500  # some in two runs
    state = op._state
    assert state is not None and state.keys is not None
    assert stats["bytes"] - state.keys.nbytes < 2 * 5000 * (8 * 8 + 5 * 8)


def test_more_cells_than_a_cache_has_room_for() -> None:
    random = np.random.default_rng(3)
    key, x = random.integers(0, 400_000, 900_000), random.normal(size=900_000)
    x[::1000] = np.nan
    aggs = {"n": sl.count(), "total": sl.sum("x"), "least": sl.min("x"), "most": sl.max("x")}
    found = sl.aggregate(pa.table({"t": np.zeros(key.size, np.int64), "k": key, "x": x}), query(aggs=aggs))
    number = np.bincount(key)
    held = number.nonzero()[0]
    assert found["k"].to_pylist() == held.tolist()
    assert found["n"].to_pylist() == number[held].tolist()
    np.testing.assert_allclose(found["total"].to_numpy(), np.bincount(key, x)[held], rtol=1e-9, atol=1e-12)
    for name, extreme in (("least", np.fmin), ("most", np.fmax)):
        expected = np.full(number.size, np.nan)
        extreme.at(expected, key, x)
        assert np.array_equal(found[name].to_numpy(), expected[held], equal_nan=True)


@pytest.mark.parametrize("kind", ["integers", "floats", "floats with nulls"])
@pytest.mark.parametrize("keys", [500, 4000])
def test_a_cell_of_sums_is_held_once(keys: int, kind: str) -> None:
    """The first push of a window makes a run, which is packed, and which the head of the next ones takes in."""
    rows, origin = 2 * keys, 1_700_000_000_000_000_000
    aggs = {"n": sl.count(), "total": sl.sum("v")}
    spec = sl.Spec("t", {"w": sl.tumbling("20us")}, aggs, "k", sl.bounded("0s"))
    plain = sl.Operator(spec, policy=Policy(head_rows=0))  # which has no head
    op, rng, hot, total, least = sl.Operator(spec), np.random.default_rng(3), 0, 0, 100.0
    for at in range(60):
        times = origin + at * 1000 + np.sort(rng.integers(0, 1000, rows))
        values = rng.integers(-(2**63), 2**63 - 1, rows, endpoint=True) // rows
        if kind != "integers":
            values = pa.array(values * 1e-9, mask=(rng.random(rows) < 0.1) & kind.endswith("nulls"))
        columns = {"t": pa.array(times, pa.timestamp("ns")), "k": rng.integers(0, keys, rows), "v": values}
        out, other = op.push(pa.table(columns)), plain.push(pa.table(columns))
        assert out.windows.drop(["total"]).equals(other.windows.drop(["total"]))
        assert out.stats.slices == other.stats.slices
        found, expected = out.windows["total"].to_numpy(), other.windows["total"].to_numpy()
        if kind == "integers":
            assert np.array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-11)
        total += found.size
        assert out.stats.bytes - op._now.keys.nbytes <= 44 * out.stats.cells
        if op._now.store.head is None:
            continue
        hot += 1
        assert out.stats.cells == other.stats.cells <= keys
        least = min(least, (out.stats.bytes - op._now.keys.nbytes) / out.stats.cells)
    assert least < 31
    assert hot > 40 and total > keys


def test_a_head_counts_rows_beside_sums_of_few_values() -> None:
    """A flag and nulls choose the values of a sum; rows and other counts are of all rows."""
    table = stream(6000, 40)
    aggs = {"n": sl.count(), "values": sl.count("x"), "chosen": sl.sum("x").where("flag"), "total": sl.sum("x")}
    op, found, hot = sl.Operator(query(aggs=aggs)), [], 0
    for at in range(0, 6000, 25):
        found.append(op.push(table.slice(at, 25)).windows)
        head = op._now.store.head
        if head is not None:
            hot += 1
            assert head.used == len(head.cells()) and head._counter is not None
    assert hot > 100
    windows = pa.concat_tables([*found, op.flush().windows])
    expected = sl.aggregate(table, query(aggs=aggs))
    assert windows.drop(["chosen", "total"]).equals(expected.drop(["chosen", "total"]))
    chosen = table.set_column(2, "x", pc.if_else(table["flag"], table["x"], None))
    for name, rows in {"chosen": chosen, "total": table}.items():
        sums = {(row["window_end"], row["k"]): row["total"] for row in grouped(rows, "tumbling")}
        for row in windows.to_pylist():
            known = sums[row["window_end"], row["k"]]
            assert row[name] == (known if known is None else pytest.approx(known, rel=1e-9, abs=1e-6))


@pytest.mark.parametrize("nulls", [0.0, 0.1])
def test_a_cell_of_any_numbers_is_held_once(nulls: float) -> None:
    """Extremes, moments, first and last: a head goes on from the cells of a run, with more than 1024 rows of some."""
    rng, keys, rows = np.random.default_rng(7), 60, 2500
    aggs = {"n": sl.count("x"), "low": sl.min("x"), "mean": sl.mean("x"), "most": sl.max("i"), "all": sl.sum("i")}
    aggs |= {"first": sl.first("x"), "last": sl.last("i"), "at": sl.argmax("i", "x")}
    spec = sl.Spec("t", {"w": sl.tumbling("20us")}, aggs, "k", sl.ordered())
    op, plain, hot = sl.Operator(spec), sl.Operator(spec, policy=Policy(head_rows=0)), 0
    for at in range(60):
        times = 1_700_000_000_000_000_000 + at * 1000 + np.sort(rng.integers(0, 1000, rows))
        key = np.where(rng.random(rows) < 0.5, 3, rng.integers(0, keys, rows))  # one has most of the rows
        x = pa.array(rng.normal(0, 1e12, rows), mask=rng.random(rows) < nulls)
        columns = {"t": pa.array(times, pa.timestamp("ns")), "k": key, "x": x, "i": rng.integers(-(2**44), 2**44, rows)}
        out, other = op.push(pa.table(columns)), plain.push(pa.table(columns))
        assert out.windows.drop(["mean"]).equals(other.windows.drop(["mean"]))
        np.testing.assert_allclose(out.windows["mean"].to_numpy(), other.windows["mean"].to_numpy(), rtol=1e-9, atol=1)
        assert out.stats.cells == other.stats.cells <= keys
        hot += op._now.store.head is not None
    assert hot > 40


def test_a_sum_of_nothing_but_nulls_in_a_head_is_null() -> None:
    aggs = {
        "n": sl.count(),
        "total": sl.sum("x"),
        "mean": sl.mean("x"),
        "whole": sl.sum("i"),
        "chosen": sl.sum("i").where("f"),
    }
    op = sl.Operator(query(aggs=aggs, watermark=sl.manual()))
    key = np.tile(np.arange(40), 5)
    none = key % 2 == 1
    rows = {
        "t": np.full(200, 1_700_000_000_000_000_000),
        "k": key,
        "x": pa.array(key * 0.5, mask=none),
        "i": pa.array(key << 40, mask=none),
        "f": ~none,
    }
    for _ in range(4):
        op.push(pa.table(rows))
    assert op._now.store.head is not None
    for row in op.flush().windows.to_pylist():
        assert row["n"] == 20
        found = [row[name] for name in ("total", "mean", "whole", "chosen")]
        assert found == (
            [None] * 4 if row["k"] % 2 else [10.0 * row["k"], 0.5 * row["k"], 20 * row["k"] << 40, 20 * row["k"] << 40]
        )
