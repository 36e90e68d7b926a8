"""Row-aligned results: what Polars' ``over`` and ``rolling`` and pandas' ``transform`` and ``rolling`` give."""

import os
import random
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicing as sl
from slicing.beside import answers

CASES = int(os.environ.get("SLICING_CASES", "60"))
SECOND = 10**9
SINCE = 1_700_000_000 * SECOND  # ns since 1970
WORDS = [None, "", "on", "off", "a word of more than the bytes that are copied at once, \N{SNOWMAN}"]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]


def rows_of(chance: random.Random, n: int | None = None, scale: int = SECOND) -> pa.Table:
    """Rows of repeated times, mostly disordered; keys null, NaN and of two columns; values null."""
    n = chance.choice([0, 1, 2, 7, 40, 200]) if n is None else n
    times = [SINCE + chance.randrange(max(1, n // 2)) * scale for _ in range(n)]
    if chance.random() < 0.3:
        times.sort()
    columns = {
        "t": pa.array(times, pa.int64()).cast(pa.timestamp("ns")),
        "user": pa.array([chance.choice(["ann", "bob", "", None]) for _ in range(n)], pa.string()),
        "f": pa.array([chance.choice([0.5, -0.0, 0.0, float("nan"), None]) for _ in range(n)], pa.float64()),
        "v": pa.array([chance.choice([None, *range(-5, 6)]) for _ in range(n)], pa.int64()),
        "flag": pa.array([chance.random() < 0.2 for _ in range(n)], pa.bool_()),
        "leave": pa.array([chance.random() < 0.3 for _ in range(n)], pa.bool_()),
        "seq": pa.array([chance.choice([None, 1, 2, 3]) for _ in range(n)], pa.int32()),
        "row": pa.array(range(n), pa.int64()),
        "word": pa.array([chance.choice(WORDS) for _ in range(n)], pa.string()).cast(chance.choice(TEXTS)),
    }
    table = pa.table(columns)
    at = sorted(chance.randrange(n + 1) for _ in range(chance.choice([0, 0, 2])))
    pieces = [table.slice(a, b - a) for a, b in zip([0, *at], [*at, n], strict=True)]
    return pa.concat_tables(pieces)


def key_of(row: dict, by: list[str]) -> tuple:
    def of(value):
        return "nan" if isinstance(value, float) and value != value else value if value != 0 else 0.0

    return tuple(of(row[name]) for name in by)


AGGS = {"n": sl.count(), "total": sl.sum("v"), "every": sl.collect("row")}
AGGS |= {"first": sl.first("word"), "latest": sl.last("word").where("flag"), "newest": sl.argmax("row", "word")}


def answer(rows: list[dict]) -> tuple:
    """What AGGS give of rows in their order."""
    values = [row["v"] for row in rows if row["v"] is not None]
    words = [row["word"] for row in rows if row["word"] is not None]
    flagged = [row["word"] for row in rows if row["word"] is not None and row["flag"]]
    newest = max(rows, key=lambda row: row["row"])["word"] if rows else None
    picked = words[0] if words else None, flagged[-1] if flagged else None, newest
    return len(rows), sum(values) if values else None, [row["row"] for row in rows] or None, *picked


NOTHING = (None,) * len(AGGS)


def asked_as(chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> dict[str, sl.Aggregate]:
    """Texts that are only picked are numbers for the engine, of many rows; not if they are compared, too."""
    monkeypatch.setattr("slicing.beside.numbered.MANY", chance.choice([0, 0, 1 << 14]))
    monkeypatch.setattr("slicing.beside.numbered.MOST_TEXT", chance.choice([1 << 30, 1 << 30, 200]))
    return AGGS | ({"least": sl.min("word")} if chance.random() < 0.2 else {})


def in_order(rows: list[dict], sequence: bool, arrival: bool = False) -> list[dict]:
    def place(row):
        return () if arrival else (row["t"], *([(row["seq"] is not None, row["seq"] or 0)] if sequence else []))

    return sorted(rows, key=place)


def by_bucket(ns: int):
    def windows(rows):
        found = {}
        for row in rows:
            found.setdefault(row["t"].value // ns, []).append(row)
        return found.values()

    return windows


def by_gap(ns: int):
    def windows(rows):
        found = []
        for row in rows:
            if found and row["t"].value - found[-1][-1]["t"].value <= ns:
                found[-1].append(row)
            else:
                found.append([row])
        return found

    return windows


def by_mark(rows):
    marks = {row["t"] for row in rows if row["flag"]}
    found = [[]]
    for row in rows:
        if row["t"] in marks and (not found[-1] or found[-1][-1]["t"] != row["t"]):
            found.append([])
        found[-1].append(row)
    return found


def by_frame(rows):
    found, opened = [], None
    for row in rows:
        if opened is None and row["flag"]:
            opened = []
        if opened is not None:
            opened.append(row)
            if row["leave"]:
                found.append(opened)
                opened = None
    return found


def chunks(n: int):
    return lambda rows: [rows[k : k + n] for k in range(0, len(rows) - n + 1, n)]


def sliding_rows(n: int):
    def each(rows):
        return {row["row"]: rows[k + 1 - n : k + 1] for k, row in enumerate(rows) if k + 1 >= n}

    return each


def within(back: int, ahead: int = 0):
    """Nanoseconds around each row, both ends included."""

    def each(rows):
        time = {row["row"]: row["t"].value for row in rows}
        return {at: [r for r in rows if t - back <= time[r["row"]] <= t + ahead] for at, t in time.items()}

    return each


BELONGS = {
    "tumbling": (sl.tumbling("7s"), by_bucket(7 * SECOND)),
    "filled": (sl.tumbling("7s", fill=True), by_bucket(7 * SECOND)),
    "sliding": (sl.sliding("7s", "7s"), by_bucket(7 * SECOND)),
    "calendar": (sl.calendar("1d"), by_bucket(86400 * SECOND)),
    "session": (sl.session("2s"), by_gap(2 * SECOND)),
    "whole": (sl.whole(), lambda rows: [rows]),
    "punctuation": (sl.punctuation("flag"), by_mark),
    "frame": (sl.frame("flag", "leave"), by_frame),
    "rows": (sl.rows(3), chunks(3)),
    "one": (sl.rows(1), chunks(1)),
    "arrival": (sl.rows(3, order="arrival"), chunks(3)),
    "rows of the stream": (sl.rows(3, per_key=False), chunks(3)),
    "arrival in the stream": (sl.rows(3, order="arrival", per_key=False), chunks(3)),
    "marks of the stream": (sl.punctuation("flag", per_key=False), by_mark),
}
MAKES = {
    "per_row": (sl.per_row("5s"), within(5 * SECOND - 1)),
    "delayed": (sl.per_row("5s", delay="2s"), within(7 * SECOND - 1, -2 * SECOND)),
    "before": (sl.per_row("5s", closed="left"), within(5 * SECOND, -1)),
    "around": (sl.per_row(before="3s", after="2s", closed="both"), within(3 * SECOND, 2 * SECOND)),
    "next": (sl.per_row(after="4s", closed="none"), within(-1, 4 * SECOND - 1)),
    "last3": (sl.rows(3, every=1), sliding_rows(3)),
    "last3arrival": (sl.rows(3, every=1, order="arrival"), sliding_rows(3)),
    "last of the stream": (sl.rows(3, every=1, per_key=False), sliding_rows(3)),
    "last by arrival in the stream": (sl.rows(3, every=1, order="arrival", per_key=False), sliding_rows(3)),
}


def expected(rows: list[dict], names: list[str], by: list[str], sequence: bool) -> dict[tuple[str, int], tuple]:
    """The answers by window and row."""
    found = {}
    for name in names:
        groups: dict[tuple, list[dict]] = {}
        for row in rows:
            groups.setdefault(() if "stream" in name else key_of(row, by), []).append(row)
        for group in groups.values():
            lying = in_order(group, sequence, "arrival" in name)
            if name in BELONGS:
                made = {row["row"]: window for window in BELONGS[name][1](lying) for row in window}
            else:
                made = MAKES[name][1](lying)  # a range may hold no rows
            for row, window in made.items():
                own = [other for other in window if key_of(other, by) == key_of(rows[row], by)]
                found[name, row] = answer(in_order(own, sequence))
    return found


@pytest.mark.parametrize("case", range(CASES))
def test_rows_have_the_windows_that_they_belong_to_or_make(case, monkeypatch):
    chance = random.Random(case)
    monkeypatch.setattr(answers, "SEARCHED", case % 2 << 15)  # rows visited in the order of windows, or as they are
    table = rows_of(chance)
    by = chance.choice([[], ["user"], ["f"], ["user", "f"]])
    sequence = chance.random() < 0.3
    names = chance.sample([*BELONGS, *MAKES], chance.choice([1, 1, 2, 4]))
    windows = {name: (BELONGS | MAKES)[name][0] for name in names}
    spec = sl.Spec("t", windows, asked_as(chance, monkeypatch), by=by, sequence="seq" if sequence else None)
    found = sl.attach(table, spec)
    rows = table.to_pylist()
    for row, time in zip(rows, table["t"].cast(pa.int64()).to_pylist(), strict=True):
        row["t"] = pd.Timestamp(time)
    wanted = expected(rows, names, by, sequence)
    assert found.column_names[: table.num_columns] == table.column_names
    assert found.select(table.column_names).drop("f").equals(table.drop("f"))
    several = len(names) > 1
    for name in names:
        columns = [found[f"{agg}_{name}" if several else agg].to_pylist() for agg in AGGS]
        for row, got in enumerate(zip(*columns, strict=True)):
            assert got == wanted.get((name, row), NOTHING), (spec, name, row)


@pytest.mark.parametrize("case", range(CASES))
def test_rows_short_of_a_window_have_what_there_is(case, monkeypatch):
    chance = random.Random(case)
    table = rows_of(chance)
    if chance.random() < 0.3:
        table = table.set_column(0, "t", pc.if_else(table["flag"], None, table["t"]))
    by = chance.choice([[], ["user"], ["f"], ["user", "f"]])
    sequence, per_key, n = chance.random() < 0.3, chance.random() < 0.7, chance.choice([1, 2, 3, 8, 100])
    least = chance.randint(1, n)
    several = chance.random() < 0.5
    windows = {"last": sl.rows(n, every=1, per_key=per_key)} | ({"all": sl.whole()} if several else {})
    asked = asked_as(chance, monkeypatch)
    spec = sl.Spec("t", windows, asked, by=by, sequence="seq" if sequence else None, on_null_time="late")
    found = sl.attach(table, spec, min_rows=least)
    rows = table.to_pylist()
    for row, time in zip(rows, table["t"].cast(pa.int64()).to_pylist(), strict=True):
        row["t"] = None if time is None else pd.Timestamp(time)
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        if row["t"] is not None:
            groups.setdefault(key_of(row, by) if per_key else (), []).append(row)
    wanted = {}
    for group in groups.values():
        lying = in_order(group, sequence)
        for k, row in enumerate(lying):
            own = [other for other in lying[max(k + 1 - n, 0) : k + 1] if key_of(other, by) == key_of(row, by)]
            wanted[row["row"]] = answer(own) if k + 1 >= least else NOTHING
    columns = [found[f"{agg}_last" if several else agg].to_pylist() for agg in AGGS]
    for row, got in enumerate(zip(*columns, strict=True)):
        assert got == wanted.get(row, NOTHING), (spec, least, row)


def test_windows_that_rows_belong_to_are_whole_whatever_the_least():
    windows = {"last": sl.rows(3, every=1), "one": sl.rows(1), "chunk": sl.rows(4)}
    spec = sl.Spec("t", windows, {"v": sl.collect("v")})
    found = sl.attach(pa.table({"t": range(6), "v": range(6)}), spec, min_rows=1)
    assert found["v_last"].to_pylist() == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert found["v_one"].to_pylist() == [[v] for v in range(6)]
    assert found["v_chunk"].to_pylist() == [[0, 1, 2, 3]] * 4 + [None] * 2


@pytest.mark.parametrize("least", [None, 1, 2])
@pytest.mark.parametrize("order", ["in order", "disordered"])
def test_last_rows_beside_rows_without_a_time(order, least):
    """Without keys, and with rows in order, windows follow each other as rows do: but for these rows."""
    times = [None, 1, 2, None, 3, None, 4, 5, None]
    times = times if order == "in order" else times[::-1]
    spec = sl.Spec("t", {"w": sl.rows(3, every=1)}, {"last": sl.collect("t")}, on_null_time="late")
    found = sl.attach(pa.table({"t": pa.array(times, pa.int64())}), spec, min_rows=least)
    fewest = 3 if least is None else least
    last = [None if t is None or t < fewest else list(range(max(t - 2, 1), t + 1)) for t in times]
    assert found["last"].to_pylist() == last


def test_min_rows_of_frames_and_what_it_is_not_for():
    frame = pl.DataFrame({"t": range(9), "k": list("abaabbaba"), "v": range(9), "s": list("stuvwxyza")})
    spec = sl.Spec("t", {"w": sl.rows(4, every=1)}, {"m": sl.mean("v"), "first": sl.first("s")}, by="k")
    found = sl.attach(frame, spec, returns="same", min_rows=2)
    wanted = frame.with_columns(m=pl.col("v").rolling_mean(4, min_samples=2).over("k"))
    assert found["m"].equals(wanted["m"]) and found["first"].to_list() == [None, None, *"ssttstu"]
    pandas = sl.attach(frame.to_pandas(), spec, returns="same", min_rows=2)
    assert pandas["m"].tolist()[2:] == wanted["m"].to_list()[2:]
    for windows, least, told in (
        ({"w": sl.tumbling(3)}, 1, r"min_rows is for windows of a number of rows at each row, .*sl.tumbling\(3\)"),
        ({"w": sl.rows(3)}, 1, r"min_rows is for .*; got 1 and windows sl.rows\(3, every=3\)"),
        ({"w": sl.rows(3, every=1)}, 4, r"min_rows=4 is more than windows\['w'\] has: sl.rows\(3, every=1\)"),
        ({"w": sl.rows(3, every=1, order="arrival")}, 1, "min_rows is for rows in order of time"),
        ({"w": sl.rows(3, every=1)}, 0, "min_rows must be a whole number of at least 1, or None; got 0"),
    ):
        with pytest.raises(ValueError, match=told):
            sl.attach(frame, sl.Spec("t", windows, {"n": sl.count()}), min_rows=least)


@pytest.mark.parametrize("case", range(CASES // 3))
def test_it_is_over_and_rolling_of_polars(case):
    chance = random.Random(case)
    table = rows_of(chance, chance.choice([1, 30, 500])).drop(["word"])  # Polars cannot read all views of Arrow 18
    frame = pl.from_arrow(table)
    windows = {"w": sl.whole(), "b": sl.tumbling("4s"), "r": sl.per_row("5s"), "l": sl.rows(4, every=1)}
    spec = sl.Spec("t", windows, {"n": sl.count(), "m": sl.mean("v"), "x": sl.max("v")}, by=["user", "f"])
    ours = pl.from_arrow(sl.attach(table, spec))
    keys = ["user", "f"]
    theirs = frame.with_columns(
        n_w=pl.len().over(keys),
        m_w=pl.col("v").mean().over(keys),
        x_b=pl.col("v").max().over(*keys, pl.col("t").dt.truncate("4s")),
        n_b=pl.len().over(*keys, pl.col("t").dt.truncate("4s")),
    )
    for name in ("n_w", "x_b", "n_b"):
        assert ours[name].cast(pl.Int64).equals(theirs[name].cast(pl.Int64).rename(name), null_equal=True)
    assert np.allclose(ours["m_w"].to_numpy(), theirs["m_w"].to_numpy(), equal_nan=True)
    ordered = frame.sort("t", maintain_order=True)
    rolled = ordered.with_columns(
        m_r=pl.col("v").cast(float).rolling_mean_by("t", "5s").over(keys),
        m_l=pl.col("v").cast(float).rolling_mean(4, min_samples=1).over(keys),
        n_l=pl.col("row").rolling_min(4).over(keys),
    ).sort("row")
    assert np.allclose(ours["m_r"].to_numpy(), rolled["m_r"].to_numpy(), equal_nan=True)
    full = ours["n_l"].is_not_null().to_numpy()
    assert (full == rolled["n_l"].is_not_null().to_numpy()).all()
    assert np.allclose(ours["m_l"].to_numpy()[full], rolled["m_l"].to_numpy()[full], equal_nan=True)


@pytest.mark.parametrize("case", range(CASES // 3))
def test_it_is_transform_and_rolling_of_pandas(case):
    chance = random.Random(case)
    frame = rows_of(chance, chance.choice([1, 30, 500])).to_pandas()
    windows = {"w": sl.whole(), "r": sl.per_row("5s"), "l": sl.rows(4, every=1)}
    ours = sl.attach(frame, sl.Spec("t", windows, {"m": sl.mean("v")}, by=["user", "f"])).to_pandas()
    groups = frame.groupby(["user", "f"], dropna=False)["v"]
    assert np.allclose(ours["m_w"], groups.transform("mean"), equal_nan=True)
    frame = frame.sort_values("t", kind="stable")
    groups = frame.set_index("t").groupby(["user", "f"], dropna=False)
    row = groups["row"].rolling(1).max().to_numpy().astype(int)
    full = groups["row"].rolling(4, min_periods=1).count().to_numpy() == 4
    last = np.where(full, groups["v"].rolling(4, min_periods=1).mean().to_numpy(), np.nan)
    assert np.allclose(ours["m_l"][row], last, equal_nan=True)
    recent = groups["v"].rolling("5s").mean().to_numpy()
    repeated = ours.duplicated(["t", "user", "f"], keep=False)[row]  # pandas shows only one of them the others
    assert np.allclose(ours["m_r"][row][~repeated], recent[~repeated], equal_nan=True)


CLOSED = ["left", "right", "both", "none"]


@pytest.mark.parametrize("case", range(CASES // 3))
def test_ranges_are_those_of_polars_rolling(case):
    chance = random.Random(case)
    table = rows_of(chance, chance.choice([1, 30, 500])).drop(["word"])  # Polars cannot read all views of Arrow 18
    closed, before, after = chance.choice(CLOSED), chance.randrange(9), chance.randrange(2, 9)
    window = sl.per_row(before=f"{before}s", after=f"{after}s", closed=closed)
    if chance.random() < 0.5:
        before, after = after + before, -before
        window = sl.per_row(f"{before + after}s", delay=f"{-after}s", closed=closed)
    ours = sl.attach(table, sl.Spec("t", {"w": window}, {"n": sl.count(), "sum": sl.sum("v")}, by="user"))
    rolled = (
        pl.from_arrow(table)
        .sort("user", "t", maintain_order=True)
        .rolling("t", period=f"{before + after}s", offset=f"-{before}s", closed=closed, group_by="user")
        .agg(n=pl.len(), sum=pl.col("v").sum(), some=pl.col("v").count() > 0)
    )
    theirs = {(row["t"], row["user"]): row for row in rolled.iter_rows(named=True)}
    for row in pl.from_arrow(ours).iter_rows(named=True):
        wanted = theirs[row["t"], row["user"]]
        assert (row["n"], row["sum"]) == (wanted["n"], wanted["sum"] if wanted["some"] else None)


def test_rows_without_a_time_are_in_no_window():
    table = pa.table({"t": [3, None, 1, None], "k": ["a", "a", "b", None], "v": [1, 2, 3, 4]})
    spec = sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, by="k", on_null_time="late")
    assert sl.attach(table, spec)["n"].to_pylist() == [1, None, 1, None]
    with pytest.raises(ValueError, match=r"time column 't' is null in row 1 of the data; fill or drop nulls, or use"):
        sl.attach(table, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))
    none = table.set_column(0, "t", pa.nulls(4, pa.int64()))
    assert sl.attach(none, spec)["n"].to_pylist() == [None] * 4


def test_rows_outside_of_a_band_or_between_windows_are_null():
    table = pa.table({"t": [9, 2, 5, 3, 7]})
    count = {"n": sl.count()}
    assert sl.attach(table, sl.Spec("t", {"f": sl.fixed(3, 7)}, count))["n"].to_pylist() == [None, None, 2, 2, None]
    gaps = sl.Spec("t", {"f": sl.sliding(2, every=3)}, count)
    assert sl.attach(table, gaps)["n"].to_pylist() == [1, None, None, 1, 1]


def test_repeated_times_do_not_multiply_rows():
    rng = np.random.default_rng(1)
    n = 10_000
    table = pa.table({"t": np.sort(rng.integers(0, 3000, n)), "k": rng.integers(0, 3, n), "v": rng.normal(size=n)})
    found = sl.attach(table, sl.Spec("t", {"r": sl.per_row(50)}, {"m": sl.mean("v")}, by="k"))
    assert found.num_rows == n and found["m"].null_count == 0


class Odd(sl.ContextFreeWindow):
    """Windows of ten that begin every ``step``."""

    def __init__(self, step: int) -> None:
        self.step = step

    def next_edge(self, times):
        return np.minimum(times // self.step * self.step + self.step, times // 10 * 10 + 10)

    def containing(self, time):
        first = time // self.step * self.step
        return [(s, s + 10) for s in range(first - 10, first + 1, self.step) if s <= time < s + 10]


def test_windows_of_ones_own():
    table = pa.table({"t": [9, 12, 5, 31], "k": ["a", "a", "b", "a"]})
    apart = sl.Spec("t", {"o": Odd(10)}, {"n": sl.count()}, by="k")
    assert sl.attach(table, apart)["n"].to_pylist() == [1, 1, 1, 1]
    with pytest.raises(
        ValueError, match=r"attach gives each row one window, and those of .* overlap; use sl.aggregate"
    ):
        sl.attach(pa.table({"t": [9, 12, 5], "k": ["a"] * 3}), sl.Spec("t", {"o": Odd(5)}, {"n": sl.count()}))


REFUSED = {
    "sl.sliding('1h', every='5m')": "use sl.per_row('1h') for the last 1h at each row",
    "sl.cumulate('1d', '1h')": "use sl.tumbling(size) for the whole of each",
    "sl.landmark('1h')": "use sl.whole() for all rows",
    "sl.last_rows(5, '1m')": "use sl.rows(5, every=1) for the last 5 rows at each row",
    "sl.rows(6, every=3)": "use every=1 for the rows before each row",
    "sl.rows(6, every=1, partial=True)": "use partial=False, and min_rows= of attach for answers of rows short of",
    "sl.per_row('1m', every=2)": "use every=1 for a window of each row",
}


@pytest.mark.parametrize("window", REFUSED)
def test_windows_that_share_rows_are_refused(window):
    spec = sl.Spec("t", {"w": eval(window)}, {"n": sl.count()})
    with pytest.raises(ValueError) as refused:
        sl.attach(pa.table({"t": pa.array([], pa.timestamp("us"))}), spec)
    message = str(refused.value)
    assert message.startswith("windows['w']: attach gives each row one window, and it may be in several of sl.")
    assert REFUSED[window] in message and "sl.aggregate" in message


def test_windows_whose_edges_depend_on_rows_are_refused() -> None:
    class Bars(sl.ContextAwareWindow):
        def __repr__(self) -> str:
            return "Bars()"

    with pytest.raises(ValueError, match=r"which rows Bars\(\) puts into a window: edges .*; use sl.aggregate"):
        sl.attach(pa.table({"t": [1]}), sl.Spec("t", {"w": Bars()}, {"n": sl.count()}))


def test_names_that_are_taken_are_refused():
    table = pa.table({"t": [1], "n": [2]})
    with pytest.raises(ValueError, match=r"aggs has 'n': the result has a column of this name already; choose another"):
        sl.attach(table, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}))
    two = sl.Spec("t", {"b_c": sl.whole(), "c": sl.tumbling(2)}, {"a": sl.count(), "a_b": sl.count()})
    with pytest.raises(ValueError, match=r"aggs has 'a_b', which windows\['c'\] makes 'a_b_c': the result has"):
        sl.attach(table, two)


def test_what_only_a_stream_has_is_refused_or_ignored():
    table = pa.table({"t": [1, 9, 2]})
    late = sl.Spec("t", {"w": sl.tumbling(5)}, {"n": sl.count()}, allowed_lateness=3, emit="changes")
    assert sl.attach(table, late)["n"].to_pylist() == [2, 1, 2]
    with pytest.raises(ValueError, match="attach takes no idle"):
        sl.attach(table, sl.Spec("t", {"w": sl.whole()}, {"n": sl.count()}, idle=3))
    with pytest.raises(ValueError, match=r"attach needs the rows' own times; got time=sl.processing_time\(\)"):
        sl.attach(table, sl.Spec(sl.processing_time(), {"w": sl.whole()}, {"n": sl.count()}))
    with pytest.raises(TypeError, match=r"attach takes the data and, as spec, a sl.Spec; got dict"):
        sl.attach(table, {})


def test_columns_of_the_data_may_have_any_name_and_type():
    table = pa.table(
        {"t": [1, 1], "code": ["x", "y"], "place": pa.array(["b", "b"]).dictionary_encode(), "first": [True, False]}
    )
    spec = sl.Spec("t", {"f": sl.frame("first", "first")}, {"last": sl.last("code")}, by=["place"])
    assert sl.attach(table, spec)["last"].to_pylist() == ["x", None]


def test_a_frame_keeps_its_own_columns_as_they_are():
    """Also those of which Arrow makes no column, its index, and what pandas notes about it."""
    spec = sl.Spec("t", {"w": sl.tumbling(10), "x": sl.rows(2, every=1)}, {"n": sl.count(), "m": sl.mean("v")})
    things = [object(), {1, 2}, "text", None]
    frame = pd.DataFrame({"t": [1, 2, 11, 12], "v": [1.0, 3.0, 5.0, 7.0], "thing": things}, index=list("aabb"))
    frame.attrs["unit"] = "ms"
    found = sl.attach(frame, spec, returns="same")
    assert found["thing"].tolist() == things and found.index.tolist() == list("aabb") and found.attrs == {"unit": "ms"}
    assert found["n_w"].tolist() == [2, 2, 2, 2] and found["m_x"].tolist()[1:] == [2.0, 4.0, 6.0]
    assert list(frame.columns) == ["t", "v", "thing"]  # the given frame has no more than before
    found.loc[:, "v"] = 0.0
    assert frame["v"].tolist() == [1.0, 3.0, 5.0, 7.0]

    frame = pl.DataFrame({"t": [1, 2, 11, 12], "v": [1.0, 3.0, 5.0, 7.0], "thing": pl.Series(things, dtype=pl.Object)})
    found = sl.attach(frame, spec, returns="same")
    assert found["thing"].to_list() == things and found["n_w"].to_list() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="aggs has 'thing': the result has a column of this name already"):
        sl.attach(frame, sl.Spec("t", {"w": sl.tumbling(10)}, {"thing": sl.count()}), returns="same")


def test_columns_beside_a_frame_have_any_name_that_is_free():
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"self": sl.sum("v"), "n": sl.count()})
    frame = pd.DataFrame({"t": [1, 2, 12], "v": [1, 2, 3]})
    assert sl.attach(frame, spec, returns="same")["self"].tolist() == [3, 3, 3]
    named = frame.set_index(pd.Index([7, 8, 9], name="n"))
    with pytest.raises(ValueError, match="aggs has 'n': the result has a column of this name already"):
        sl.attach(named, spec, returns="same")
    parts = pd.MultiIndex.from_tuples([("t", "a"), ("v", "b")], names=["p", "q"])
    both = pd.DataFrame([[1, 2], [2, 3], [12, 4]], columns=parts)
    found = sl.attach(both, sl.Spec("('t', 'a')", {"w": sl.tumbling(10)}, {"n": sl.count()}), returns="same")
    assert found.columns.names == ["p", "q"] and found["n"].to_numpy().ravel().tolist() == [2, 2, 1]
    assert found["t"]["a"].tolist() == [1, 2, 12]


@pytest.mark.parametrize("window", [sl.per_row(2), sl.rows(2, every=1), sl.tumbling(2)], ids=repr)
def test_infinities_beside_nulls_warn_of_nothing(window):
    rows = pa.table({"t": [1, 2, 3, 4, 5], "v": [1.0, float("inf"), None, 2.0, 4.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sl.aggregate(rows, sl.Spec("t", {"w": window}, {"s": sl.std("v"), "m": sl.mean("v")}))
    assert found["s"].to_pylist()[-1] in (None, pytest.approx(2**0.5))


def test_rows_short_of_a_window_that_do_not_fit_are_told_by_its_name():
    table = pa.table({"t": [1, 10, 19], "v": [2**62, 2**62, 1]})
    spec = sl.Spec("t", {"w": sl.tumbling(9), "last": sl.rows(2**62 - 1, every=1)}, {"s": sl.sum("v")})
    told = r"sl.sum\('v'\) .* does not fit int64 in window 'last' from 1 to 10; use on_overflow"
    with pytest.raises(OverflowError, match=told):
        sl.attach(table, spec, min_rows=1)
    found = sl.attach(table, replace(spec, on_overflow="null"), min_rows=2)
    assert found["s_last"].to_pylist() == [None, None, None]
    assert sl.attach(table.slice(1), spec, min_rows=2)["s_last"].to_pylist() == [None, 2**62 + 1]


def test_texts_are_texts_for_expressions_of_them(monkeypatch):
    """Texts that are picked are numbers for the engine, unless anything else of the query reads them."""
    monkeypatch.setattr("slicing.beside.numbered.MANY", 0)
    word = sl.col("word")
    table = pa.table({"t": [1, 2, 12, 13], "v": [2, 1, 3, 4], "word": ["on", "off", None, "up"]})
    aggs = {"first": sl.first("word"), "upper": sl.first(pc.utf8_upper(word)), "same": sl.last(word.cast("string"))}
    aggs |= {
        "size": sl.argmin("v", pc.utf8_length(word)),
        "by": sl.argmin("word", "v"),
        "least": sl.argmin("v", "word"),
    }
    for names in (
        ["first", "upper"],
        ["first", "same"],
        ["least", "size"],
        ["least", "by"],
        ["first", "least"],
        list(aggs),
    ):
        found = sl.attach(table, sl.Spec("t", {"w": sl.tumbling(10)}, {name: aggs[name] for name in names}))
        wanted = {"first": ["on", "up"], "upper": ["ON", "UP"], "same": ["off", "up"], "size": [3, None]}
        wanted |= {"by": [1, 4], "least": ["off", None]}
        assert {name: found[name].to_pylist()[1:3] for name in names} == {name: wanted[name] for name in names}
    flagged = sl.last("word").where(word != "off")
    assert sl.attach(table, sl.Spec("t", {"w": sl.tumbling(10)}, {"x": flagged}))["x"].to_pylist()[1:3] == ["on", "up"]
