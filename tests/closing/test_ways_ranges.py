"""Sliding windows of slices none of which is missing, and of rows by their ranks: dense columns of partials, against
Python's own lists."""

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.query.policy import Policy

SIZE = 1500
BEGUN = 1_700_000_000_000_000_000
AGGS = {
    "n": sl.count(),
    "held": sl.count("v"),
    "s": sl.sum("v"),
    "m": sl.mean("v"),
    "lo": sl.min("v"),
    "hi": sl.max("v"),
}
TYPES = ["int8", "uint8", "uint32", "int32", "int64", "float32", "float64"]
WINDOWS = [(64, 1), (2, 1), (12, 4), (900, 3)]
NAN = "NaN"  # so that lists can be compared


class Watched(Policy):
    """Tells which ways were taken."""

    took: ClassVar[list[str]]

    def pays(self, way: str, cost: int, live: int) -> bool:
        taken = super().pays(way, cost, live)
        self.took.extend([way] if taken else [])
        return taken


def watched(**told: object) -> tuple[Policy, list[str]]:
    took: list[str] = []
    return type("Watched", (Watched,), {"took": took})(**told), took


def column(type: str, rng: np.random.Generator, rows: int = SIZE) -> np.ndarray:
    if type.startswith("float"):
        x = rng.normal(size=rows).astype(type)
        x[rng.random(rows) < 0.05] = np.nan
        x[rows // 2 : rows // 2 + 80] = np.nan
        return x
    ends = np.iinfo(type)
    return rng.integers(ends.min, ends.max, rows, type, endpoint=True) >> (12 if type == "int64" else 0)


def told(values: list) -> tuple:
    """What a window's values come to, null where there is none."""
    held = [v for v in values if v is not None]
    if not held:
        return 0, None, None, None, None
    known = [v for v in held if not math.isnan(v)]
    total = sum(held) if len(known) == len(held) else math.nan
    return len(held), total, total / len(held), min(known, default=math.nan), max(known, default=math.nan)


def expected(time: list[int], values: list, size: int, every: int) -> list[tuple]:
    """By the windows that hold rows; slices are looked up, as rows are in order."""
    by_end: dict[int, list] = {}
    for t, v in zip(time, values, strict=True):
        first = t // every * every + every
        for end in range(first, t - t % every + size + 1, every):
            by_end.setdefault(end, []).append(v)
    return [(end - size, end, len(some), *told(some)) for end, some in sorted(by_end.items())]


def rows_of(table: pa.Table) -> list[tuple]:
    return list(zip(*(table[name].to_pylist() for name in ("window_start", "window_end", *AGGS)), strict=True))


def agree(found: list[tuple], wanted: list[tuple]) -> None:
    assert [row[:4] for row in found] == [row[:4] for row in wanted]
    for at in (4, 5):
        ours, theirs = ([math.nan if row[at] is None else row[at] for row in rows] for rows in (found, wanted))
        assert [row[at] is None for row in found] == [row[at] is None for row in wanted]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    for at in (6, 7):
        plain = [
            [NAN if row[at] is not None and math.isnan(row[at]) else row[at] for row in rows]
            for rows in (found, wanted)
        ]
        assert plain[0] == plain[1]


def pushed(
    op: sl.Operator, data: pa.Table, sizes: tuple[int, ...], spec: sl.Spec | None = None, **told: object
) -> pa.Table:
    """By pushes of these sizes in turn; with a spec from a snapshot after each."""
    found, at, turn = [], 0, 0
    while at < data.num_rows:
        found.append(op.push(data.slice(at, sizes[turn % len(sizes)])).windows)
        at, turn = at + sizes[turn % len(sizes)], turn + 1
        if spec is not None:
            op = sl.Operator.restore(spec, op.snapshot(), **told)
    return pa.concat_tables([*found, op.flush().windows])


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("type", TYPES)
def test_every_type(type: str, nulls: bool) -> None:
    rng = np.random.default_rng(TYPES.index(type))
    time, x, missing = BEGUN + np.arange(SIZE), column(type, rng), nulls & (rng.random(SIZE) < 0.4)
    missing[200:400] = nulls
    data = pa.table({"t": time, "v": pa.array(x, mask=missing)})
    values = data["v"].to_pylist()
    for size, every in WINDOWS[TYPES.index(type) % 2 :: 2]:
        aggs = AGGS | {"spread": sl.var("v", ddof=0)}
        spec = sl.Spec("t", {"w": sl.sliding(size, every=every)}, aggs, watermark=sl.ordered())
        policy, took = watched(stepped=1, stepped_cells=1000)
        found = pushed(sl.Operator(spec, policy=policy), data, (700, 35, 1))
        assert "ranges" in took
        agree(rows_of(found), expected(time.tolist(), values, size, every))
        for end, spread in zip(found["window_end"].to_pylist(), found["spread"].to_pylist(), strict=True):
            last = end - BEGUN
            held = [v for v in values[max(last - size, 0) : last] if v is not None]
            assert (spread is None) == (not held)
            if held:
                assert spread == pytest.approx(float(np.var(np.array(held, np.longdouble))), rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("straight", [False, True])  # from cells, or from rows where slices have few
@pytest.mark.parametrize("every", [1, 4])
def test_few_aggregates_are_columns_at_once(every: int, straight: bool) -> None:
    rng = np.random.default_rng(9)
    x = rng.integers(-(2**31), 2**31 - 1, SIZE, endpoint=True).astype(np.int32)
    data, spec = pa.table({"t": BEGUN + np.arange(SIZE), "v": x}), None
    for aggs in ({"s": AGGS["s"]}, {"m": AGGS["m"], "hi": AGGS["hi"]}, {"n": AGGS["n"], "lo": AGGS["lo"]}):
        spec = sl.Spec("t", {"w": sl.sliding(100 * every, every=every)}, aggs, watermark=sl.ordered())
        policy, took = watched(straight=straight)
        found = sl.Operator(spec, policy=Policy(way="one table")).push(data).windows
        assert sl.Operator(spec, policy=policy).push(data).windows.equals(found)
        assert took == (["ranges"] if every == 1 and not straight else [])  # 374 windows are not worth it


@pytest.mark.parametrize("straight", [False, True])
def test_sums_near_the_ends_of_words(straight: bool) -> None:
    x = np.array([2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 1, 5, -(2**63), -(2**63)] * 100)
    data = pa.table({"t": np.arange(x.size), "v": x})
    spec = sl.Spec("t", {"w": sl.sliding(2, every=1)}, {"s": sl.sum("v"), "lo": sl.min("v")}, on_overflow="null")
    policy, took = watched(straight=straight)
    op = sl.Operator(spec, policy=policy)
    found = pa.concat_tables([op.push(data).windows, op.flush().windows])
    assert took == ([] if straight else ["ranges"])
    both = [[*x.tolist()][max(i - 1, 0) : i + 1] for i in range(x.size)] + [[int(x[-1])]]
    assert found["s"].to_pylist() == [sum(some) if abs(sum(some) * 2 + 1) < 2**64 else None for some in both]
    assert found["lo"].to_pylist() == list(map(min, both))


@pytest.mark.parametrize("rows, slices", [(1000, 10), (100, 16), (40, 30)])
def test_sums_of_many_rows_near_the_ends_of_words(rows: int, slices: int) -> None:
    """The low halves of so many values are more than a half."""
    for value in (((2**31 // slices - 1) // rows + more) * 2**32 + 2**32 - 1 for more in (-1, 0, 1)):
        data = pa.table({"t": np.repeat(np.arange(700), rows), "v": np.full(700 * rows, value)})
        for agg in (sl.sum("v"), sl.mean("v")):
            spec = sl.Spec("t", {"w": sl.sliding(slices, every=1)}, {"x": agg}, on_overflow="null")
            policy, took = watched(stepped=1, stepped_cells=1000)
            op = sl.Operator(spec, policy=policy)
            found = pa.concat_tables([op.push(data).windows, op.flush().windows])
            assert "ranges" in took
            held = [rows * (min(i, 700) - max(i - slices, 0)) for i in range(1, 700 + slices)]
            if agg.function == "sum":
                assert found["x"].to_pylist() == [n * value if n * value < 2**63 else None for n in held]
            else:
                assert found["x"].to_pylist() == pytest.approx([value] * len(held), rel=1e-12)


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("begun", [-(3 << 61), (3 << 61) - SIZE, -700, BEGUN])
def test_times_near_the_ends(begun: int, straight: bool) -> None:
    time = list(range(begun, begun + SIZE))
    data = pa.table({"t": time, "v": np.arange(SIZE) % 77})
    spec = sl.Spec("t", {"w": sl.sliding(60, every=2, offset=1)}, AGGS, watermark=sl.ordered())
    policy, took = watched(straight=straight)
    found = pushed(sl.Operator(spec, policy=policy), data, (1400, 50))
    assert ("ranges" in took) is not straight
    wanted = expected([t - 1 for t in time], data["v"].to_pylist(), 60, 2)
    agree(rows_of(found), [(start + 1, end + 1, *rest) for start, end, *rest in wanted])


def test_rows_late_missing_and_in_any_order() -> None:
    """A slice that is missing, or that two runs of cells share: other ways answer, and the answers are the same."""
    rng = np.random.default_rng(4)
    time = np.arange(4 * SIZE) // 12 + rng.integers(-30, 31, 4 * SIZE)
    time = BEGUN + np.where((time > 200) & (time < 260), 200, time)
    data = pa.table({"t": time, "v": rng.integers(-9, 9, 4 * SIZE).astype(np.int16)})
    spec = sl.Spec("t", {"w": sl.sliding(50, every=1)}, AGGS, watermark=sl.bounded(20), allowed_lateness=5)
    policy, took = watched(stepped=10)
    ours = pushed(sl.Operator(spec, policy=policy), data, (1100, 900))
    theirs = pushed(sl.Operator(spec, policy=Policy(way="one table")), data, (1100, 900))
    assert "ranges" in took and ours.equals(theirs)


def test_snapshots_between_pushes() -> None:
    data = pa.table({"t": BEGUN + np.arange(SIZE) // 2, "v": np.arange(SIZE) % 7919})
    spec = sl.Spec("t", {"w": sl.sliding(40, every=1)}, AGGS, watermark=sl.ordered())
    policy, took = watched(stepped=1)
    found = pushed(sl.Operator(spec, policy=policy), data, (333, 1, 400), spec, policy=policy)
    assert "ranges" in took
    agree(rows_of(found), expected(data["t"].to_pylist(), data["v"].to_pylist(), 40, 1))


def test_slices_that_other_windows_cut() -> None:
    """Windows that were taken out leave slices on edges of their own."""
    data = pa.table({"t": np.arange(SIZE), "v": np.arange(SIZE) % 11})
    asked = {"w": sl.sliding(40, every=2), "gone": sl.sliding(60, every=3)}
    spec = sl.Spec("t", asked, AGGS, watermark=sl.ordered())
    policy, took = watched(stepped=1)
    op = sl.Operator(spec, policy=policy)
    before = op.push(data.slice(0, 101)).windows
    op.remove_window("gone")
    after = pushed(op, data.slice(101), (600,))
    assert "ranges" in took
    mine = before.filter(pa.compute.equal(before["window"], "w"))
    agree(rows_of(pa.concat_tables([mine, after])), expected(list(range(SIZE)), data["v"].to_pylist(), 40, 2))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("watermark", [sl.ordered(), sl.bounded(40)])
def test_windows_of_rows_lie_on_their_ranks(partial: bool, watermark: object) -> None:
    rng = np.random.default_rng(3)
    time, x = BEGUN + np.sort(rng.integers(0, SIZE, SIZE)), column("int32", rng).tolist()
    data = pa.table({"t": time, "v": pa.array(x, pa.int32())})
    for n, every in ((32, 4), (6, 2), (9, 3)):
        spec = sl.Spec("t", {"w": sl.rows(n, every=every, partial=partial)}, AGGS, watermark=watermark)
        policy, took = watched(stepped=1)
        found = pushed(sl.Operator(spec, policy=policy), data, (500, 90, 1), spec, policy=policy)
        assert "ranges" in took
        starts = range(0, SIZE if partial else SIZE - n + 1, every)
        wanted = [(int(time[i]), int(time[i : i + n][-1]), len(x[i : i + n]), *told(x[i : i + n])) for i in starts]
        agree(rows_of(found), wanted)
        assert found["rank_start"].to_pylist() == list(starts)
        assert found["rank_end"].to_pylist() == [i + n for i in starts]


def test_explain_says_so() -> None:
    data = pa.schema({"t": pa.int64(), "v": pa.int32(), "k": pa.int64()})
    asked = {"by key": (60, 1, "k"), "own edges": (60, 7, ()), "dense": (60, 1, ()), "by a tree": (1024, 1, ())}
    for about, (size, every, by) in asked.items():
        spec = sl.Spec("t", {"w": sl.sliding(size, every=every)}, {"lo": sl.min("v")}, by=by)
        told = "512 windows at once or more" in str(sl.explain(spec, data))
        assert told == (about != "by key"), about
