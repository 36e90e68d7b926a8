"""Answers from sorted lists: windows large enough for the buckets, lists merged and moved, errors."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.aggregates import over_lists
from slicing.cells import list_kinds as of_kinds
from slicing.cells import lists as of_lists
from slicing.cells.blocks import identity, together
from slicing.cells.lanes import Lane
from slicing.cells.list_kinds import COUNTED, EARLIEST
from slicing.cells.lists import Lists, Picked
from slicing.columns import arrow_out
from slicing.kernels.lists import ADD
from slicing.query.policy import Policy
from slicing.windows.edges import EdgeSet

SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "trend": lambda rng, n: np.arange(n) * 1e-3 + rng.normal(size=n),
    "jump": lambda rng, n: np.where(np.arange(n) < n // 2, rng.normal(size=n), 1e6 + rng.normal(size=n)),
    "few values": lambda rng, n: rng.integers(0, 5, n).astype(np.float64),
    "mostly one": lambda rng, n: np.where(rng.random(n) < 0.9, 1.0, rng.normal(size=n)),
    "descending": lambda rng, n: -np.arange(n, dtype=np.float64),
    "wide": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
}


def lists(values: np.ndarray, cells: np.ndarray, size: int) -> Lists:
    """One list of (value, count) for each cell."""
    parts = [np.unique(values[cells == c], return_counts=True) for c in range(size)]
    at = np.cumsum([0, *(v.size for v, _ in parts)])
    return Lists(at, np.concatenate([np.stack([v, n], axis=1) for v, n in parts]).astype(np.int64))


def ranges(rng: np.random.Generator, cells: int, how: str) -> tuple[np.ndarray, np.ndarray]:
    if how == "sliding":
        first = np.arange(cells - 20)
        return first, first + 20
    if how == "nested":
        return np.zeros(cells, np.int64), np.arange(1, cells + 1)
    a, b = np.sort(rng.integers(0, cells + 1, (2, 40)), axis=0)
    return a, b  # some of them empty


@pytest.mark.parametrize("how", ["sliding", "nested", "any"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [30_000, 1500, 300])
def test_quantiles_of_windows_of_any_size(n: int, shape: str, how: str) -> None:
    """By buckets, or sorted; large and small ones beside each other."""
    rng, size = np.random.default_rng(7), 60
    values = SHAPES[shape](rng, n)
    t = np.sort(rng.integers(0, size, n))
    table = pa.table({"t": t, "v": values})
    first, last = ranges(rng, size, how)
    windows = {f"w{i}": sl.fixed(int(a), int(b)) for i, (a, b) in enumerate(zip(first, last, strict=True)) if a < b}
    aggs = {"q": sl.quantile("v", 0.3), "m": sl.median("v"), "top": sl.top_k("v", 1), "low": sl.quantile("v", 0)}
    aggs |= {"mode": sl.mode("v"), "heavy": sl.heavy_hitters("v", 0.2)}
    answers = sl.aggregate(table, sl.Spec("t", windows, aggs)).to_pylist()
    assert len(answers) == sum(((t >= w.start) & (t < w.end)).any() for w in windows.values())
    time = table["t"].to_numpy()
    for row in answers:
        inside = values[(time >= row["window_start"]) & (time < row["window_end"])]
        assert row["q"] == pytest.approx(np.quantile(inside, 0.3), rel=1e-12)
        assert row["m"] == np.median(inside)
        assert (row["top"], row["low"]) == ([inside.max()], inside.min())
        counts = Counter(inside.tolist())  # in the order they came
        assert row["mode"] == max(counts, key=counts.__getitem__)
        assert set(row["heavy"]) == {v for v, c in counts.items() if c / inside.size >= 0.2}


@pytest.mark.parametrize("how", ["sliding", "nested", "any"])
def test_counted_values_of_large_windows(how: str) -> None:
    rng = np.random.default_rng(8)
    values, cells = rng.zipf(1.3, 9_000) % 500, rng.integers(0, 60, 9_000)
    picked = Picked(lists(values, cells, 60), *ranges(rng, 60, how))
    types = {"v": pa.int64()}
    distinct, heavy, top, least = (
        agg.bind(types).lower([picked], {}).array.to_pylist()
        for agg in (sl.count_distinct("v"), sl.heavy_hitters("v", 0.05), sl.top_k("v", 7), sl.bottom_k("v", 7))
    )
    for j, (a, b) in enumerate(zip(picked.first, picked.last, strict=True)):
        inside = values[(cells >= a) & (cells < b)].tolist()
        counts = Counter(inside)
        assert distinct[j] == len(counts)
        expected = [v for v, c in sorted(counts.items(), key=lambda vc: (-vc[1], vc[0])) if c / len(inside) >= 0.05]
        assert heavy[j] == (expected if inside else None)
        assert top[j] == (sorted(inside, reverse=True)[:7] if inside else None)
        assert least[j] == (sorted(inside)[:7] if inside else None)


def test_pivots_are_drawn_anew_where_the_values_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(over_lists, "VISITS", 10**9)  # otherwise all values are ranked
    pivots = over_lists._pivots
    monkeypatch.setattr(over_lists, "_pivots", lambda values: drawn.append(values.size) or pivots(values))
    values = np.concatenate([np.arange(20_000) % 1000, np.arange(20_000) % 1000 + 10**9])
    table = pa.table({"t": np.arange(40_000) // 100, "v": values})
    out = sl.aggregate(table, sl.Spec("t", {"w": sl.sliding(50, every=1)}, {"m": sl.median("v")}))
    assert 1 < len(drawn) < 20
    for start, found in zip(out["window_start"].to_pylist(), out["m"].to_pylist(), strict=True):
        assert found == np.median(values[max(start, 0) * 100 : (start + 50) * 100])


def test_lists_merge_as_sorting_does() -> None:
    rng = np.random.default_rng(9)
    values, cells = rng.integers(0, 9, 400), rng.integers(0, 50, 400)
    lane = Lane(COUNTED, (), None)
    every = lists(values, cells, 50)
    into = rng.integers(0, 12, 50)
    merged = COUNTED.merged(lane, into, 12, every[:20], every[np.arange(20, 50)])
    for g in range(12):
        inside = np.unique(values[into[cells] == g], return_counts=True)
        assert merged.items[merged.at[g] : merged.at[g + 1]].T.tolist() == [x.tolist() for x in inside]


def test_blocks_of_lists_are_cut_and_put_together() -> None:
    every = lists(np.arange(30) % 7, np.arange(30) % 10, 10)

    def plain(block: Lists) -> list:
        return [block.items[a:b].tolist() for a, b in zip(block.at[:-1], block.at[1:], strict=True)]

    wanted = plain(every)
    view = every[3:6]
    assert plain(view) == wanted[3:6]
    assert view.items is every.items
    assert view.nbytes == 4 * 8 + sum(map(len, wanted[3:6])) * 16
    assert plain(view.whole()) == wanted[3:6]
    assert plain(every[np.arange(10) % 2 == 0]) == wanted[::2]
    assert plain(every.take(np.array([9, 0, 0]))) == [wanted[9], wanted[0], wanted[0]]
    nothing = identity(Lane(COUNTED, (), None), 2)
    assert plain(together([view, nothing, every[:1]])) == [*wanted[3:6], [], [], wanted[0]]
    ranged = together([Picked(every, np.array([2]), np.array([5])), nothing])
    assert [(int(b - a)) for a, b in zip(ranged.first, ranged.last, strict=True)] == [3, 1, 1]
    assert ranged.lists.at[ranged.last][0] - ranged.lists.at[ranged.first][0] == sum(map(len, wanted[2:5]))


def test_strings_keep_their_place_as_their_pool_moves() -> None:
    """Each push brings strings that sort before the ones known, and forgets old ones."""
    spec = sl.Spec(
        "t", {"w": sl.sliding(3000, every=1000)}, {"d": sl.count_distinct("s"), "m": sl.mode("s"), "c": sl.collect("s")}
    )
    op, rows, found = sl.Operator(spec), [], []
    for push in range(30):
        times = np.arange(1000) + push * 1000
        texts = [f"{99 - push:02}-{i % 700:03}" for i in range(1000)]
        rows += zip(times.tolist(), texts, strict=True)
        found += op.push(pa.table({"t": times, "s": texts})).windows.to_pylist()
        op = sl.Operator.restore(spec, op.snapshot())
    assert op.push(pa.table({"t": [30_000], "s": ["x"]})).stats["bytes"] < 600_000
    assert len(found) == 29
    for row in found:
        inside = [s for t, s in rows if row["window_start"] <= t < row["window_end"]]
        assert (row["d"], row["m"], row["c"]) == (len(set(inside)), inside[0], inside)


@pytest.mark.parametrize("share", [1e-20, 5e-324])
def test_values_that_make_up_any_share(share: float) -> None:
    table = pa.table({"t": [1, 2, 3, 12], "v": ["a", "b", "b", "c"]})
    found = sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(10)}, {"h": sl.heavy_hitters("v", share)}))
    assert found["h"].to_pylist() == [["b", "a"], ["c"]]


def test_lists_go_when_their_windows_have() -> None:
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"m": sl.median("v"), "c": sl.collect("v")}))
    sizes = [
        op.push(pa.table({"t": np.arange(1000) + 1000 * k, "v": np.arange(1000.0)})).stats["bytes"] for k in range(5)
    ]
    assert len(set(sizes)) == 1
    assert sizes[0] < 2000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sl.quantile("v", 1.5), "quantile's q must be a number from 0 to 1; got 1.5"),
        (lambda: sl.quantile("v", "half"), "quantile's q must be a number from 0 to 1; got 'half'"),
        (lambda: sl.top_k("v", 0), "top_k's k must be a whole number of at least 1; got 0"),
        (lambda: sl.heavy_hitters("v", 0), "heavy_hitters's share must be above 0; got 0"),
        (
            lambda: sl.heavy_hitters("v", 2),
            "heavy_hitters's share must be a number from 0 to 1; got 2, which is 0.02 if it is percent",
        ),
        (lambda: sl.median(3), "median's column must be the name of a column or an expression; got 3"),
    ],
)
def test_wrong_arguments(build, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        build()
    assert str(error.value) == message


def test_quantiles_among_infinities_lie_between_their_neighbours() -> None:
    """Where numpy says NaN: it subtracts one infinity from another one, or multiplies one by 0."""
    inf, aggs = float("inf"), {str(q): sl.quantile("v", q) for q in (0, 0.25, 0.5, 0.75, 1)}
    for values, wanted in (
        ([1.0, inf], [1, inf, inf, inf, inf]),
        ([inf, inf], [inf] * 5),
        ([-inf, 1.0, inf], [-inf, -inf, 1, inf, inf]),
        ([-inf, inf], [-inf, None, None, None, inf]),
    ):
        found = sl.aggregate(pa.table({"t": [1] * len(values), "v": values}), sl.Spec("t", {"w": sl.whole()}, aggs))
        answers = [found[name][0].as_py() for name in aggs]
        assert [None if np.isnan(answer) else answer for answer in answers] == wanted


def test_a_median_of_strings_is_refused() -> None:
    with pytest.raises(TypeError, match=r"sl.median\('s'\): column 's' has type string; median takes integer"):
        sl.aggregate(pa.table({"t": [1], "s": ["a"]}), sl.Spec("t", {"w": sl.tumbling(1)}, {"m": sl.median("s")}))


def test_they_print_as_the_code_that_builds_them() -> None:
    ends = sl.bottom_k("v", 3, "w"), sl.collect("v", 2), sl.collect("v", at_most=2, keep="last").where("f")
    for agg in (sl.quantile("v", 0.9), sl.top_k("v", 3).where("f"), sl.heavy_hitters("v", 0.25), sl.median("v"), *ends):
        assert eval(repr(agg), {"sl": sl}) == agg


def test_explain_says_what_a_slice_keeps() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(1)}, {"m": sl.median("v")})
    assert sl.explain(spec)["rows kept"].startswith("no: a slice keeps the sorted values")
    spec = sl.Spec("t", {"w": sl.tumbling(1)}, {"c": sl.collect("v")})
    assert sl.explain(spec)["rows kept"].startswith("yes, of some columns")
    assert EARLIEST.words == 5


@pytest.mark.parametrize("sequence", [None, "s"])
@pytest.mark.parametrize("order", ["in order", "out of order"])
def test_the_mode_of_a_tie_is_the_value_that_came_first(order: str, sequence: str | None) -> None:
    """By (time, sequence, arrival), in pushes of rows in any order."""
    rng, n = np.random.default_rng(11), 3000
    t, s, v = rng.integers(0, 300, n), rng.integers(0, 3, n), rng.integers(0, 8, n)
    t = np.sort(t) if order == "in order" else t
    rows = pa.table({"t": t, "s": s, "v": pa.array(v, mask=v == 5)})
    spec = sl.Spec("t", {"w": sl.tumbling(3)}, {"x": sl.mode("v")}, sequence=sequence, watermark=sl.bounded(300))
    place = np.lexsort([*([s] if sequence else []), t])
    inside = [(int(t[i]) // 3, int(v[i])) for i in place if v[i] != 5]
    expected = []
    for window in sorted({w for w, _ in inside}):
        counts = Counter(value for w, value in inside if w == window)  # in the order they came
        expected.append(max(counts, key=counts.__getitem__))
    assert sl.aggregate(rows, spec)["x"].to_pylist() == expected
    op = sl.Operator(spec)
    found = [op.push(batch).windows for batch in rows.to_batches(max_chunksize=1100)]
    assert pa.concat_tables([*found, op.flush().windows])["x"].to_pylist() == expected


@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
def test_the_mode_of_a_tie_is_the_earliest_value_also_in_windows_of_rows_by_arrival(by: list[str]) -> None:
    """Where the cells of a window are not in order of time."""
    rng, n, size = np.random.default_rng(5), 500, 7
    t, k, v = np.arange(n) + rng.integers(0, 30, n), rng.integers(0, 2, n), rng.integers(0, 5, n)
    spec = sl.Spec("t", {"w": sl.rows(size, every=1, order="arrival")}, {"x": sl.mode("v")}, by=by)
    found = sl.aggregate(pa.table({"t": t, "k": k, "v": v}), spec)
    for key in {0, 1} if by else {None}:
        own = np.flatnonzero(k == key) if by else np.arange(n)
        some = found.filter(pa.compute.equal(found["k"], key)) if by else found
        for rank, mode in zip(some["rank_start"].to_pylist(), some["x"].to_pylist(), strict=True):
            rows = own[rank : rank + size]
            counts = Counter(v[rows[np.argsort(t[rows], kind="stable")]].tolist())  # in the order of time
            assert mode == max(counts, key=counts.__getitem__)
        assert some.num_rows == own.size - size + 1


def test_the_mode_of_many_rows_is_found_among_their_first_ones() -> None:
    """The work of a window does not grow with its rows: this would take 10 s if each window read all of them."""
    rng, n, size = np.random.default_rng(3), 200_000, 100_000
    t, k, v = np.sort(rng.integers(0, n, n)), rng.integers(0, 2, n), rng.integers(0, 100, n)
    table = pa.table({"t": t, "k": np.where(t < n // 2, k, 0), "v": pa.array(v, mask=rng.random(n) < 0.1)})
    aggs = {"x": sl.mode("v")}
    for by, most in ([], size), (["k"], size // 2):
        spec = sl.Spec("t", {"w": sl.rows(most, every=1)}, aggs, by=by)
        found = sl.attach(table, spec)["x"].to_pylist()
        own = [i for i, key in enumerate(table["k"].to_pylist()) if key == 0 or not by]
        for i in own[most - 1 : most + 3], own[-3:]:
            rows = [own[own.index(end) - most + 1 : own.index(end) + 1] for end in i]
            values = [table["v"].take(pa.array(some)).drop_null().to_pylist() for some in rows]
            assert [found[end] for end in i] == [Counter(some).most_common(1)[0][0] for some in values]


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_frequent_values_of_many_rows_are_known_from_the_windows_before(share: float) -> None:
    """The work of a window does not grow with its rows: this would take 10 s if each window read all of them."""
    rng, n, size = np.random.default_rng(3), 100_000, 50_000
    one, other = rng.integers(0, 10_000, (2, n))
    v = np.where(rng.random(n) < 2 * share, np.arange(n) // 30_000, np.where(rng.random(n) < 0.1, one % 7, other))
    spec = sl.Spec("t", {"w": sl.rows(size, every=1)}, {"x": sl.heavy_hitters("v", share)})
    table = pa.table({"t": np.arange(n), "v": v})
    found = sl.attach(table, spec)["x"].to_pylist()
    counts = np.bincount(v[: size - 1], minlength=int(v.max()) + 1)
    seen = set()
    for end in range(size - 1, n):
        counts[v[end]] += 1
        frequent = np.flatnonzero(counts[:10] / size >= share).tolist()
        assert found[end] == sorted(frequent, key=lambda value: (-counts[value], value))
        seen.update(frequent)
        counts[v[end - size + 1]] -= 1
    assert seen


@pytest.mark.parametrize("order", ["in order", "out of order"])
@pytest.mark.parametrize("low", [0, -7, -(2**63), 2**63 - 9], ids=str)
def test_values_near_each_other_are_counted_cell_by_cell(low: int, order: str) -> None:
    rng, n = np.random.default_rng(5), 4000
    t, k = rng.integers(0, 60, n), rng.integers(0, 3, n)
    t = np.sort(t) if order == "in order" else t
    v = low + (t // 7 + rng.integers(0, 4, n)) % 9  # each window has other values
    rows = pa.table({"t": t, "k": k, "v": pa.array(v, mask=rng.random(n) < 0.1)})
    aggs = {"d": sl.count_distinct("v"), "top": sl.top_k("v", 3), "low": sl.quantile("v", 0)}
    aggs |= {"least": sl.bottom_k("v", 3)}
    for by, more in itertools.product(([], ["k"]), ({}, {"m": sl.mode("v")})):  # with a mode, all read what it keeps
        found = sl.aggregate(rows, sl.Spec("t", {"w": sl.tumbling(7)}, aggs | more, by=by)).to_pylist()
        assert len(found) == 9 * (3 if by else 1)
        for row in found:
            inside = (t >= row["window_start"]) & (t < row["window_end"])
            inside &= (k == row["k"]) if by else True
            kept = [x for x in rows.filter(pa.array(inside)).sort_by("t")["v"].to_pylist() if x is not None]
            counts = Counter(kept)
            assert (row["d"], row["low"]) == (len(counts), float(min(kept)))
            assert (row["top"], row["least"]) == (sorted(kept, reverse=True)[:3], sorted(kept)[:3])
            assert not more or counts[row["m"]] == max(counts.values())


@pytest.mark.parametrize("window", [sl.rows(400, every=1), sl.sliding(900, every=2), sl.per_row(700)], ids=repr)
@pytest.mark.parametrize("visits", [0, 10**9])
def test_quantiles_of_windows_of_many_slices(window: sl.Window, visits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are ranked, or each window searches its slices."""
    monkeypatch.setattr(over_lists, "VISITS", visits)
    monkeypatch.setattr(over_lists, "VISITS_OF_LARGEST", visits)
    rng = np.random.default_rng(5)
    times = 1_700_000_000_000_000_000 + np.sort(rng.integers(0, 3000, 2500))
    values = [None if rng.random() < 0.05 else float(rng.choice([1e300, -0.0, 7.5, v])) for v in rng.normal(size=2500)]
    values[1700] = float("nan")
    table = pa.table({"t": times, "k": rng.integers(0, 2, 2500), "v": pa.array(values, pa.float64())})
    aggs = {"q": sl.quantile("v", 0.9), "m": sl.median("v"), "top": sl.top_k("v", 3), "all": sl.collect("v")}
    aggs |= {"least": sl.bottom_k("v", 3)}
    rows = sl.aggregate(table, sl.Spec("t", {"w": window}, aggs, by="k")).to_pylist()
    assert len(rows) > 1000
    for row in rows:
        kept = np.sort(np.array(row["all"] or [], np.float64))  # NaN last
        numbers, nans = kept[kept == kept], kept[kept != kept]
        assert np.array_equal(row["top"] or [], [*numbers[::-1][:3], *nans][:3], equal_nan=True)
        assert np.array_equal(row["least"] or [], kept[:3], equal_nan=True)
        wanted = np.quantile(kept, (0.9, 0.5)) if kept.size else None
        assert [row["q"], row["m"]] == ([None] * 2 if wanted is None else pytest.approx(wanted, rel=1e-12, nan_ok=True))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf"])
@pytest.mark.parametrize("window", [sl.tumbling(7), sl.rows(8, every=1), sl.sliding(90, every=9)], ids=repr)
def test_a_quantile_lies_between_two_values_as_in_numpy(window: sl.Window, interpolation: str) -> None:
    chance = np.random.default_rng(3)
    data = pa.table({"t": np.sort(chance.integers(0, 900, 700)) + 1_700_000_000, "v": chance.integers(-99, 99, 700)})
    shares = [0, 0.125, 0.25, 0.3, 0.5, 0.75, 0.99, 1]
    aggs = {str(q): sl.quantile("v", q, interpolation=interpolation) for q in shares}
    rows = sl.aggregate(data, sl.Spec("t", {"w": window}, {**aggs, "all": sl.collect("v")})).to_pylist()
    assert len(rows) > 90
    for row in rows:
        wanted = [np.quantile(row["all"], q, method=interpolation) for q in shares]
        assert [row[str(q)] for q in shares] == pytest.approx(wanted, rel=1e-13)


def test_how_a_quantile_is_interpolated_is_part_of_the_query() -> None:
    agg = sl.quantile("v", 0.5, interpolation="nearest")
    assert repr(agg) == "sl.quantile('v', 0.5, interpolation='nearest')" and agg != sl.quantile("v", 0.5)
    assert (
        sl.quantile("v", 0.5, interpolation="linear")
        == sl.quantile("v", 0.5)
        == pickle.loads(pickle.dumps(sl.quantile("v", 0.5)))
    )
    spec = sl.Spec("t", {"w": sl.tumbling(5)}, {"x": agg})
    assert sl.Spec.from_toml(spec.to_toml()) == spec
    with pytest.raises(ValueError, match=r"quantile's interpolation must be one of 'linear', .*; got 'disc'"):
        sl.quantile("v", 0.5, interpolation="disc")


@pytest.mark.parametrize("window", [sl.rows(60, every=1), sl.sliding(90, every=3), sl.per_row(70)], ids=repr)
@pytest.mark.parametrize("shared", [0, 10**9])
def test_first_rows_of_windows_that_overlap(window: sl.Window, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows share the lists of several slices, or each merges its own."""
    monkeypatch.setattr(of_kinds, "SHARED", shared)
    rng = np.random.default_rng(6)
    times = 1_700_000_000_000_000_000 + np.sort(rng.integers(0, 600, 700))
    values = pa.array([None if rng.random() < 0.1 else int(v) for v in rng.integers(0, 40, 700)], pa.int64())
    table = pa.table({"t": times, "k": rng.integers(0, 2, 700), "v": values, "n": range(700)})
    aggs = {
        "all": sl.collect("n").where(sl.col("v") >= 0),
        "few": sl.collect("v", at_most=3),
        "latest": sl.collect("v", at_most=3, keep="last"),
        "top": sl.top_k("v", 4, return_="n"),
        "least": sl.bottom_k("v", 4, return_="n"),
        "some": sl.sample("n", 5),
    }
    numbers, chosen = table["v"].to_pylist(), {}
    for row in sl.aggregate(table, sl.Spec("t", {"w": window}, aggs, by="k")).to_pylist():
        inside = row["all"] or []
        assert (row["few"] or []) == [numbers[n] for n in inside][:3]
        assert (row["latest"] or []) == [numbers[n] for n in inside][-3:]
        assert (row["top"] or []) == sorted(inside, key=lambda n: (-numbers[n], n))[:4]
        assert (row["least"] or []) == sorted(inside, key=lambda n: (numbers[n], n))[:4]
        assert len(row["some"]) >= min(len(inside), 5)
        chosen[row["k"], row["window_start"], row["window_end"]] = row["some"]
    monkeypatch.setattr(of_kinds, "SHARED", 10**9 - shared)
    again = sl.aggregate(table, sl.Spec("t", {"w": window}, {"some": aggs["some"]}, by="k")).to_pylist()
    assert chosen == {(row["k"], row["window_start"], row["window_end"]): row["some"] for row in again}


@pytest.mark.parametrize("order", ["in order", "not in order"])
@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
@pytest.mark.parametrize("table", [False, True])
def test_rows_are_put_into_tables_some_at_a_time(
    table: bool, by: list[str], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_lists, "TOGETHER", 7)
    monkeypatch.setattr(arrow_out, "MANY_ROWS", 0 if table else 1 << 13)
    rng, n = np.random.default_rng(1), 700
    t = rng.integers(0, 50, n)
    t = np.sort(t) if order == "in order" else t
    v = [None if x % 9 == 0 else int(x) for x in rng.integers(0, 100, n)]
    rows = pa.table({"t": t, "k": rng.integers(0, 5, n), "v": v, "n": np.arange(n)})
    aggs = {"all": sl.collect("n"), "some": sl.collect("v"), "top": sl.top_k("v", 3, return_="n")}
    found = sl.aggregate(rows, sl.Spec("t", {"w": sl.tumbling(10)}, aggs, by=by)).to_pylist()
    given = sorted(rows.to_pylist(), key=lambda row: row["t"])
    assert sum(len(answer["all"]) for answer in found) == n
    for answer in found:
        inside = [row for row in given if answer["window_start"] <= row["t"] < answer["window_end"]]
        inside = [row for row in inside if all(row[name] == answer[name] for name in by)]
        known = [row for row in inside if row["v"] is not None]
        assert answer["all"] == [row["n"] for row in inside]
        assert answer["some"] == [row["v"] for row in known]
        assert answer["top"] == [row["n"] for row in sorted(known, key=lambda row: -row["v"])[:3]]


@pytest.mark.parametrize("more", [{}, {"emit": "updates"}, {"emit": "changes"}, {"allowed_lateness": 30}], ids=str)
@pytest.mark.parametrize("by", [[], ["k"]], ids=str)
def test_cells_that_are_windows_are_answered_as_from_one_table(
    by: list[str], more: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows a key and window, some without a value; pushes out of order, and rows that come late."""
    aggs = {
        "n": sl.count(),
        "m": sl.median("v"),
        "q": sl.quantile("v", 0.3),
        "some": sl.count_distinct("s"),
        "mode": sl.mode("s"),
        "all": sl.collect("v"),
        "few": sl.collect("s", at_most=2),
        "latest": sl.collect("s", at_most=2, keep="last"),
        "top": sl.top_k("v", 2),
        "least": sl.bottom_k("v", 2),
        "best": sl.top_k("v", 2, return_="s"),
        "heavy": sl.heavy_hitters("s", 0.4),
        "sample": sl.sample("v", 2),
        "about": sl.approx_count_distinct("s"),
    }
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs, by=by, watermark=sl.bounded(15), **more)
    rng = np.random.default_rng(4)
    pushes = []
    for push in range(12):
        t = np.sort(rng.integers(20 * push, 20 * push + 20, 60)) - rng.choice([0, 0, 0, 30], 60)
        v = [None if x < 2 else float(x) for x in rng.integers(0, 9, 60)]
        s = [None if x < 2 else f"text {x}" for x in rng.integers(0, 9, 60)]
        pushes.append(pa.table({"t": t, "k": rng.integers(0, 20, 60), "v": v, "s": s}))

    def answers() -> list[pa.Table]:
        operator = sl.Operator(spec)
        found = [operator.push(push).windows for push in pushes[:6]]
        operator = sl.Operator.restore(spec, operator.snapshot())
        found += [operator.push(push).windows for push in pushes[6:]]
        found.append(operator.flush().windows)
        return [*found, sl.aggregate(pa.concat_tables(pushes), spec)]

    found = answers()
    monkeypatch.setattr(EdgeSet, "are_windows", lambda *_: False)
    for one, other in zip(found, answers(), strict=True):
        assert one.to_pylist() == other.to_pylist()
    assert found[-1].num_rows > 20


@pytest.mark.parametrize("most", [1, 3, 40, 10**6])
@pytest.mark.parametrize("base", [0, -(2**63), 2**63 - 10**6 - 1, 7])
def test_lists_of_near_values_are_merged(base: int, most: int) -> None:
    """By counting or in pairs; values that were added as often as retracted are gone."""
    chance = np.random.default_rng(most)
    parts = [Counter[int](chance.integers(0, most, n).tolist()) for n in (5, 0, 1, 60, 3, 8, 0, 0, 2)]
    parts[3].subtract(dict.fromkeys(range(min(most, 2)), int(parts[3][0])))
    held = [sorted((base + v, n) for v, n in part.items() if n) for part in parts]
    at = np.cumsum([0, *map(len, held)])
    block = Lists(at, np.array([item for items in held for item in items], np.int64).reshape(-1, 2))
    for first, last in itertools.combinations(range(len(parts) + 1), 2):
        found = block.grouped(np.arange(first, last), np.array([0, last - first]), 1, ADD)
        total = Counter[int]()
        for part in held[first:last]:
            total.update(dict(part))
        assert found.items.tolist() == sorted([v, n] for v, n in total.items() if n)
    ends = np.array([0, 3, 3, 7, 9])
    whole = block.grouped(np.arange(9), ends, 1, ADD)
    apart = [block.grouped(np.arange(a, b), np.array([0, b - a]), 1, ADD) for a, b in itertools.pairwise(ends)]
    assert whole.items.tolist() == [item for one in apart for item in one.items.tolist()]
    assert np.diff(whole.at).tolist() == [one.size for one in apart]


@pytest.mark.parametrize("far", [5, 2**63 - 1, 2**62, -(2**62)])
def test_lists_of_far_values_are_merged_beside_near_ones(far: int) -> None:
    items = np.array([[-(2**63), 1], [far, 2], [7, 1], [8, 2], [8, 3]])
    block = Lists(np.array([0, 1, 2, 2, 3, 4, 5]), items)
    found = block.grouped(np.arange(6), np.array([0, 3, 6]), 1, ADD)
    assert found.items.tolist() == [[-(2**63), 1], [far, 2], [7, 1], [8, 5]] and found.at.tolist() == [0, 2, 4]


def test_lists_that_fit_no_column_are_refused_before_they_are_made():
    spec = sl.Spec("t", {"w": sl.per_row(5)}, {"x": sl.collect("v")})
    rows = pa.table({"t": np.zeros(60_000, np.int64), "v": np.arange(60_000)})
    with pytest.raises(OverflowError, match="60,000 lists have 3,600,000,000 values in all, and a column at most"):
        sl.aggregate(rows, spec)
    assert sl.quantile("v", Decimal("0.5")) == sl.quantile("v", 0.5)


@pytest.mark.parametrize("window", [sl.session(50), sl.sliding(400, every=100)], ids=["sessions", "sliding"])
def test_each_piece_of_the_results_looks_at_the_lists_of_its_own_windows(window: object) -> None:
    """Pieces of 40 windows; those of sessions by key lie anywhere among the cells."""
    rng, origin = np.random.default_rng(5), 1_714_564_800_000_000_000
    time, key = np.sort(rng.integers(0, 4000, 5000)), rng.integers(0, 200, 5000)
    value = rng.integers(-4, 4, 5000) * 2**60
    data = pa.table({"t": origin + time, "k": key, "v": pa.array(value, mask=rng.random(5000) < 0.1)})
    aggs = {"distinct": sl.count_distinct("v"), "mode": sl.mode("v"), "median": sl.median("v")}
    aggs |= {"all": sl.collect("v"), "top": sl.top_k("v", 2)}
    op = sl.Operator(sl.Spec("t", {"w": window}, aggs, by="k"), policy=Policy(piece=40))
    found = pa.concat_tables([op.push(data).windows, op.flush().windows]).to_pylist()
    assert len(found) > 1500
    rows = list(zip(*data.to_pydict().values(), strict=True))
    for row in found:
        start, end, here = row["window_start"], row["window_end"], row["k"]
        values = [v for t, k, v in rows if k == here and start <= t < end and v is not None]
        counts = Counter(values)
        assert row["distinct"] == len(counts)
        assert row["all"] == (values or None)
        assert row["top"] == (sorted(values, reverse=True)[:2] or None)
        assert row["mode"] == max(counts, key=lambda v: counts[v], default=None)
        assert row["median"] == (float(np.median(np.array(values, float))) if values else None)
