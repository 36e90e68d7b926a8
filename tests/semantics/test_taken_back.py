"""``emit="changes"``: a row that is taken back is one that was given, to the last bit of its floats."""

from __future__ import annotations

import statistics
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import slicing as sl

WINDOWS = {
    "tumbling": sl.tumbling(10),
    "sliding": sl.sliding(10, every=5),
    "session": sl.session(3),
    "each": sl.rows(2, every=1),
    "some": sl.rows(5, every=2),
    "reach": sl.per_row(5),
    "last": sl.last_rows(4, every=10),
}
AGGS = {
    "sum": sl.sum("x"),
    "mean": sl.mean("x"),
    "var": sl.var("x"),
    "std": sl.std("x", ddof=0),
    "product": sl.product("x"),
    "geometric_mean": sl.geometric_mean("x"),
    "ratio": sl.sum("x").where("b") / sl.var("x") - sl.mean("n"),
    "least": sl.min("x"),
    "var of integers": sl.var("n"),
}
VALUES = {
    "tenths": lambda rng, n: rng.integers(1, 100, n) / 10,
    "magnitudes": lambda rng, n: rng.choice([1e-12, 0.1, -0.3, 1e9, 1e9 + 0.1, 7e15], n),
    "ends": lambda rng, n: rng.choice([1e300, -1e307, 5e-324, 1e-200, 0.0, np.inf, np.nan], n),
}


def rows_of(rng: np.random.Generator, values: str, most: int) -> pa.RecordBatch:
    n = int(rng.integers(1, most))
    columns = {"t": rng.integers(0, 20, n), "k": rng.integers(0, 2, n), "x": VALUES[values](rng, n)}
    nulls = rng.random(n) < 0.1
    return pa.record_batch(
        columns
        | {"x": pa.array(columns["x"], mask=nulls), "n": rng.integers(-9, 9, n), "b": pa.array(rng.random(n) < 0.5)}
    )


def taken_back(out: list[pa.Table]) -> int:
    """How many rows are taken back, each of which was given."""
    given, gone = Counter(), 0
    for table in out:
        rows = [
            (row.pop("op"), {name: row[name] for name in row if name not in ("revision", "timing")})
            for row in table.to_pylist()
        ]
        given.update(repr(row) for op, row in rows if op == "+")  # which may come before what it replaces
        for row in (row for op, row in rows if op == "-"):
            assert given[repr(row)] > 0, row
            given[repr(row)] -= 1
            gone += 1
    return gone


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_that_are_taken_back_were_given(window: str, values: str) -> None:
    gone, rng = 0, np.random.default_rng(7)
    spec = sl.Spec(
        "t", {"w": WINDOWS[window]}, AGGS, by="k", emit="changes", allowed_lateness=50, watermark=sl.manual()
    )
    for case in range(8):
        op, out = sl.Operator(spec), []
        for push in range(6):
            out.append(op.push(rows_of(rng, values, 4 if case % 2 else 30)).windows)
            if push == 0:
                out.append(op.advance(40).windows)
            elif rng.random() < 0.2:
                op = sl.Operator.restore(spec, op.snapshot())
        gone += taken_back(out)
    assert gone > 50


EARLY = [
    (sl.tumbling(10), sl.after_count(2)),
    (sl.sliding(10, every=5), sl.after_share(0.3)),
    (sl.tumbling(10), sl.each_push()),
    (sl.session(3), sl.every(3)),
    (sl.session(3), sl.on_punctuation("b")),
    (sl.whole(), sl.every(3)),
]


@pytest.mark.parametrize(("window", "trigger"), EARLY, ids=repr)
def test_early_rows_that_are_taken_back_were_given(window: object, trigger: object) -> None:
    gone, rng = 0, np.random.default_rng(3)
    told = {"emit": "changes", "allowed_lateness": 50, "watermark": sl.bounded(5), "trigger": trigger}
    spec = sl.Spec("t", {"w": window}, AGGS, by="k", **told)
    for _ in range(5):
        op, out = sl.Operator(spec), []
        for push in range(12):
            rows = rows_of(rng, "tenths", 20)
            rows = rows.set_column(0, "t", pa.compute.add(rows["t"], 3 * push))
            out.append(op.push(rows).windows)
            if rng.random() < 0.2:
                op = sl.Operator.restore(spec, op.snapshot())
        gone += taken_back([*out, op.flush().windows])
    assert gone > 50


def test_an_aggregate_of_float_results_is_their_changes_input() -> None:
    rng, parts = np.random.default_rng(3), []
    time, x = np.arange(2000) + rng.integers(0, 90, 2000), rng.integers(1, 1000, 2000) / 10
    data = pa.table({"t": time, "x": x})
    aggs = {"s": sl.sum("x"), "v": sl.var("x")}
    inner = sl.Spec("t", {"w": sl.tumbling(10)}, aggs, emit="changes", allowed_lateness=200, watermark=sl.bounded(5))
    outer = sl.Spec(
        "window_start",
        {"h": sl.tumbling(100)},
        {"most": sl.max("s"), "m": sl.median("v")},
        op="op",
        watermark=sl.manual(),
    )
    chain = sl.chain(sl.Operator(inner), sl.Operator(outer))
    for at in range(0, 2000, 40):
        parts.append(chain.push(data.slice(at, 40)).windows)
    parts.append(chain.flush().windows)
    found = pa.concat_tables(parts).sort_by("window_start").to_pylist()
    hours = {row["window_start"]: row for row in found}
    assert len(found) == len(hours) == 21
    for hour, row in hours.items():
        tens = [x[(time >= start) & (time < start + 10)] for start in range(hour, hour + 100, 10)]
        several = [ten for ten in tens if ten.size > 1]
        assert row["most"] == pytest.approx(max(map(sum, tens)), rel=1e-12)
        assert row["m"] == pytest.approx(statistics.median(np.var(ten, ddof=1) for ten in several), rel=1e-9)


@pytest.mark.parametrize(
    "x",
    [
        [0.1, 0.1, 0.1],
        [1e200, 1e200],
        [1e-170, 3e-170],
        [0.0, 0.0, 0.0],
        [1e9, 1e9 + 1, 1e9 + 4],
        [1e10 + k / 8 for k in range(1000)],
        [-1e-5, 7e-5, 3e-9],
        [1e150, -1e150, 1e-150],
    ],
    ids=lambda x: f"{len(x)} from {x[0]}",
)
def test_variances_of_changes_are_right(x: list[float]) -> None:
    exact = [Fraction(number) for number in x]
    mean = sum(exact) / len(exact)
    wanted = float(sum((number - mean) ** 2 for number in exact) / (len(exact) - 1))
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"v": sl.var("x"), "s": sl.std("x")}, emit="changes")
    for data in (pa.table({"t": [0] * len(x), "x": x}), pa.table({"t": [5] * len(x), "x": x[::-1]})):
        (row,) = sl.aggregate(data, spec).to_pylist()
        assert row["v"] == pytest.approx(wanted, rel=1e-12, abs=0)
        assert row["s"] == pytest.approx(wanted**0.5, rel=1e-12, abs=0)
