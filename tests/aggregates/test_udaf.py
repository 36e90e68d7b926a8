"""User-defined aggregates: order, types, processes, and what is refused when they are built."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from harness import PRIME, user_defined

import slicing as sl
from slicing.cells import combining
from slicing.kernels.strategies import STRATEGIES

WEIGHTED = {
    "lift": lambda v, w: (v * w, w),
    "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "lower": lambda s: s[0] / s[1],
    "identity": (0.0, 0.0),
    "state": ["float64", "float64"],
    "inputs": ["v", "w"],
    "commutative": True,
}
ADD = {"lift": lambda x: x, "combine": lambda a, b: a + b, "lower": lambda s: s, "identity": 0.0, "inputs": ["v"]}


def polynomial(rows: list[int]) -> int:
    total = 0
    for row in rows:
        total = (total * 1_000_003 + row) % PRIME
    return total


@pytest.mark.parametrize("strategy", [name for name, strategy in STRATEGIES.items() if not strategy.removes])
def test_rows_are_seen_in_order_whatever_the_strategy(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row's place shows in the answer: sliding, nested and session windows over disordered rows and pushes."""
    monkeypatch.setattr(combining, "choose", lambda first, last, cells, removes=False: strategy)
    rng = np.random.default_rng(3)
    time = np.arange(4000) // 4 + rng.integers(0, 30, 4000)
    table = pa.table({"t": time, "row": np.arange(4000), "k": rng.integers(0, 3, 4000)})
    windows = {"s": sl.sliding(100, every=7), "c": sl.cumulate(300, 20), "v": sl.session(3), "all": sl.whole()}
    spec = sl.Spec("t", windows, {"h": user_defined("polynomial", "row"), "n": sl.count()}, "k", sl.bounded(30))
    op, found = sl.Operator(spec), []
    for start in range(0, 4000, 300):
        found += op.push(table.slice(start, 300)).windows.to_pylist()
    found += op.flush().windows.to_pylist()
    rows = sorted(zip(table["k"].to_pylist(), time.tolist(), range(4000), strict=True))
    assert sum(row["n"] for row in found if row["window"] == "all") == 4000
    for row in found:
        closed = row["window"] == "all"
        inside = [r for k, t, r in rows if k == row["k"] and row["window_start"] <= t < row["window_end"] + closed]
        assert row["h"] == polynomial(inside), row


def test_several_inputs_and_where() -> None:
    agg = sl.udaf("weighted", **WEIGHTED)
    table = pa.table(
        {"t": [0, 1, 2, 3], "v": [1, 2, 3, None], "w": [1.0, 3.0, 2.0, 1.0], "f": [True, True, False, True]}
    )
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"all": agg, "some": agg.where("f")})
    assert sl.aggregate(table, spec).to_pylist()[0]["all"] == (1 + 6 + 6) / 6
    assert sl.aggregate(table, spec).to_pylist()[0]["some"] == 7 / 4


def test_a_window_without_values_is_null() -> None:
    table = pa.table({"t": [0], "v": pa.array([None], pa.float64())})
    for commutative in (True, False):
        spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": sl.udaf("add", **ADD, commutative=commutative)})
        assert sl.aggregate(table, spec)["x"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2, 250], pa.uint8()), 253),
        (pa.array([True, True, False]), 2),
        (pa.array([1, 2, 3], pa.timestamp("us")), 6),
        (pa.array([1.5, 2.5, -1.0], pa.float32()), 3.0),
        (pa.array(["1.25", "2.50", "0.25"]).cast(pa.decimal128(9, 2)), 4.0),
    ],
)
@pytest.mark.parametrize("commutative", [True, False])
def test_types_of_columns(values: pa.Array, expected: float, commutative: bool) -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": sl.udaf("add", **ADD, commutative=commutative)})
    assert sl.aggregate(pa.table({"t": [0, 1, 2], "v": values}), spec)["x"].to_pylist() == [expected]


def test_text_is_refused() -> None:
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": sl.udaf("add", **ADD)})
    with pytest.raises(TypeError, match="column 'v' has type string; udaf takes numbers, booleans and times"):
        sl.aggregate(pa.table({"t": [0], "v": ["a"]}), spec)


def test_equal_and_hashed_by_code_and_what_it_refers_to() -> None:
    def scaled(by: float) -> sl.Aggregate:
        return sl.udaf("scaled", **{**ADD, "lift": lambda x: x * by})

    assert scaled(2.0) == scaled(2.0)
    assert hash(scaled(2.0)) == hash(scaled(2.0))
    assert scaled(2.0) != scaled(3.0)
    specs = [sl.Spec("t", {"w": sl.tumbling(1)}, {"x": scaled(by)}) for by in (2.0, 2.0, 3.0)]
    assert specs[0].fingerprint() == specs[1].fingerprint() != specs[2].fingerprint()
    assert repr(scaled(2.0)).startswith("sl.udaf('scaled', lift=")


class Way(Enum):
    UP = 1.0
    DOWN = -1.0


class There(NamedTuple):
    a: float
    b: float


class Back(NamedTuple):
    b: float
    a: float


def of_ufunc(added: bool) -> Callable[..., Any]:
    if added:

        @numba.vectorize(["float64(float64)"])
        def f(x: float) -> float:
            return x + 1
    else:

        @numba.vectorize(["float64(float64)"])
        def f(x: float) -> float:
            return x * 10

    return f


def by_way(way: Way) -> Callable[..., Any]:
    return lambda x: x if way == Way.UP else -x


def by_name(pair: Any) -> Callable[..., Any]:
    return lambda x: x * pair.a


def by_function(f: Any) -> Callable[..., Any]:
    return lambda x: f(x)


def by_type(type: Any) -> Callable[..., Any]:
    return lambda x: float(type(x))


PAIRS = {
    "members of an enum": (by_way, Way.UP, Way.DOWN, 7.5, -7.5),
    "named tuples": (by_name, There(1.0, 2.0), Back(1.0, 2.0), 7.5, 15.0),
    "functions over arrays": (by_function, of_ufunc(True), of_ufunc(False), 10.5, 75.0),
    "types of numba": (by_type, numba.int8, numba.float64, 6.0, 7.5),
}


@pytest.mark.parametrize(("made", "one", "other", "first", "second"), PAIRS.values(), ids=PAIRS)
def test_what_functions_refer_to_tells_them_apart(made: Any, one: Any, other: Any, first: float, second: float) -> None:
    """Compiled functions are shared by what they are made from: another one's would give another one's answers."""
    table = pa.table({"t": [1, 2, 3], "v": [1.5, 2.5, 3.5]})
    aggs = {n: sl.udaf("u", **{**ADD, "lift": made(of)}) for n, of in (("a", one), ("b", other), ("c", one))}
    (row,) = sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(10)}, aggs)).select([*aggs]).to_pylist()
    assert row == {"a": first, "b": second, "c": first}
    assert aggs["a"] == aggs["c"] != aggs["b"]


def test_numbers_of_other_modules_tell_functions_apart() -> None:
    settings = ModuleType("settings")
    sums = []
    for rate in (2.0, 3.0):
        settings.rate = rate  # type: ignore[attr-defined]
        agg = sl.udaf("u", **{**ADD, "lift": lambda x: x * settings.rate})
        found = sl.aggregate(pa.table({"t": [1], "v": [5.0]}), sl.Spec("t", {"w": sl.tumbling(9)}, {"x": agg}))
        sums += found["x"].to_pylist()
    assert sums == [10.0, 15.0]


@pytest.mark.parametrize("made", [numba.njit, numba.extending.register_jitable])
def test_functions_of_other_modules_tell_functions_apart(made: Callable[..., Any]) -> None:
    """A notebook loads a module of helpers again after each change."""
    helpers = ModuleType("helpers")
    sums = []
    for changed in (lambda x: x * 2.0, lambda x: x * 3.0):
        helpers.f = made(changed)  # type: ignore[attr-defined]
        agg = sl.udaf("u", **{**ADD, "lift": lambda x: helpers.f(x)})
        found = sl.aggregate(pa.table({"t": [1], "v": [5.0]}), sl.Spec("t", {"w": sl.tumbling(9)}, {"x": agg}))
        sums += found["x"].to_pylist()
    assert sums == [10.0, 15.0]


@pytest.mark.parametrize("state", ["float64", "int64"])
@pytest.mark.parametrize("commutative", [True, False])
def test_unsigned_integers_beyond_64_bits_with_a_sign_are_refused(state: str, commutative: bool) -> None:
    most = {"combine": lambda a, b: max(a, b), "identity": -1, "state": [state], "commutative": commutative}
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": sl.udaf("most", **{**ADD, **most})})
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1], "v": pa.array([2**63 - 1], pa.uint64())}))
    before = op.snapshot()
    with pytest.raises(ValueError, match="column 'v' holds 9223372036854775808, and a udaf takes integers as int64"):
        op.push(pa.table({"t": [2, 3], "v": pa.array([2**63, None], pa.uint64())}))
    assert op.snapshot() == before
    assert op.flush().windows["x"].to_pylist() == [2**63 - 1 if state == "int64" else float(2**63)]


def test_integers_beyond_64_bits_may_be_left_out() -> None:
    both = pa.array([2**63, 1], pa.uint64())
    table = pa.table({"t": [1, 2], "v": both, "w": pa.array([None, 1.0]), "ok": [False, True]})
    chosen, weighted = sl.udaf("add", **ADD).where("ok"), sl.udaf("mean", **WEIGHTED)
    found = sl.aggregate(table, sl.Spec("t", {"w": sl.tumbling(9)}, {"a": chosen, "b": weighted}))
    assert found.select(["a", "b"]).to_pylist() == [{"a": 1.0, "b": 1.0}]


def test_functions_of_large_libraries_are_described_at_once() -> None:
    """They are named, not looked into; a window that calls them runs in plain Python."""

    class Days(sl.ContextAwareWindow):
        def start(self) -> str:
            return ""

        def see(self, context: str, time: int) -> tuple[str, int]:
            day = str(pd.to_datetime(time, unit="D").date())
            return day, self.OPEN + self.CLOSE if pl.lit(day) is not None else 0

    assert sl.aggregate(pa.table({"t": [1, 2]}), sl.Spec("t", {"w": Days()}, {"n": sl.count()})).num_rows == 2


SCRIPT = """
import pickle, sys, pyarrow as pa, slicing as sl
FACTOR = 3.0
def lift(x):
    return x * FACTOR if x not in {1.0, 2.0, 5.0} else x
agg = sl.udaf("add", lift, lambda a, b: a + b, lambda s: s, 0.0, inputs=["v"], commutative=True)
spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": agg})
sys.stdout.buffer.write(pickle.dumps((spec.fingerprint(), spec)))
"""


def test_other_processes_run_it_and_name_it_alike() -> None:
    root = str(Path(__file__).parents[2])
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, cwd=root).stdout for _ in "ab"
    ]
    (fingerprint, spec), (other, _) = map(pickle.loads, runs)
    assert fingerprint == other == spec.fingerprint()
    assert sl.aggregate(pa.table({"t": [0, 1], "v": [1.0, 4.0]}), spec)["x"].to_pylist() == [13.0]


def test_a_snapshot_goes_on_with_the_same_functions_only() -> None:
    spec, other = (
        sl.Spec("t", {"w": sl.tumbling(10)}, {"x": sl.udaf("add", **{**ADD, "lift": lift})})
        for lift in (lambda x: x, lambda x: x + 1)
    )
    op = sl.Operator(spec)
    op.push(pa.table({"t": [1], "v": [2.0]}))
    blob = op.snapshot()
    again = sl.Operator.restore(spec, blob)
    again.push(pa.table({"t": [0], "v": [5.0]}))
    assert again.flush().windows["x"].to_pylist() == [7.0]
    with pytest.raises(sl.SnapshotError, match="another spec"):
        sl.Operator.restore(other, blob)


def _raises(x: float) -> float:
    return undefined_name + x  # noqa: F821


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lift": 3}, "udaf 'u': lift must be a function written in Python (def or lambda); got 3"),
        ({"combine": max}, "udaf 'u': combine must be a function written in Python (def or lambda); got <built-in "),
        ({"lift": lambda x, y: x}, "udaf 'u': lift must take 1 argument (v); its own are (x, y)"),
        ({"combine": lambda a: a}, "udaf 'u': combine must take 2 arguments (a, b); its own are (a)"),
        ({"lift": _raises}, "udaf 'u': lift cannot be compiled for int64: NameError: name 'undefined_name' is"),
        ({"lift": lambda x: str(x)}, "udaf 'u': lift "),
        (
            {"lift": lambda x: x + "x"},
            "udaf 'u': lift cannot be compiled for int64: No implementation of function Functio",
        ),
        ({"lift": lambda x: (x, x)}, "udaf 'u': lift must give a state (float64); it gives UniTuple(int64 x 2)"),
        (
            {"state": ["int64"], "identity": 0, "combine": lambda a, b: a / b + 0.5},
            "udaf 'u': combine must give a state",
        ),
        ({"lower": lambda s: (s, s)}, "udaf 'u': lower must give a float, an integer or a bool; it gives UniTuple"),
        (
            {"combine": lambda a, b: (a + b) / 2},
            "udaf 'u': identity must leave a state as it is; for a = 1.5, combine(",
        ),
        ({"combine": lambda a, b: a - b if b else a or -b}, "udaf 'u': "),
        (
            {"combine": lambda a, b: a + b + a * a * b * b},
            "udaf 'u': combine must be associative; for a, b, c = 1.5, 1.5, 2.0, combine(combine(a, b), c) gives",
        ),
        (
            {"combine": lambda a, b: a if a else b, "commutative": True},
            "udaf 'u': combine is not commutative: for a, b = 1.5, 2.0, combine(a, b) gives 1.5 and",
        ),
        ({"invert": lambda a, b: a + b}, "udaf 'u': invert must undo combine; for a, b = 1.5, 1.5, invert("),
        ({"lift": lambda x: 1.0 / (x - x)}, "udaf 'u' fails on the sample rows"),
        ({"state": ["text"]}, "udaf 'u': state must be made of 'float64', 'int64' or 'bool'; got 'text'"),
        ({"state": []}, "udaf 'u': state must be a list of 'float64', 'int64' or 'bool'; got []"),
        ({"identity": (0.0, 0.0)}, "udaf 'u': identity must be one number, as state=['float64'] says; got (0.0, 0.0)"),
        ({"inputs": []}, "udaf 'u': inputs must be a list of at least one column; got []"),
        ({"commutative": 1}, "udaf 'u': commutative must be True or False; got 1"),
        ({"inputs": ["v", "v"]}, "udaf 'u': inputs names column 'v' twice; lift gets each column once"),
        ({"lift": lambda x, y=2: x * y}, "udaf 'u': lift must take 1 argument (v); its own are (x, y=2). Other values"),
        ({"identity": 2**63, "state": ["int64"]}, "udaf 'u': identity must fit its state, int64; got 92233720"),
        ({"identity": float("nan"), "state": ["int64"]}, "udaf 'u': identity must fit its state, int64; got nan"),
    ],
)
def test_wrong_ones_are_refused(changed: dict, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        sl.udaf("u", **{**ADD, "state": ["float64"], **changed})
    assert str(error.value).startswith(message) and str(error.value).isprintable(), str(error.value)


FAILS = {
    "lift": ({"lift": lambda x: 1.0 / x, "commutative": True}, [2.0, 0.0], "lift or combine"),
    "in order": ({"lift": lambda x: 1.0 / x}, [2.0, 0.0], "lift or combine"),
    "lower": ({"lower": lambda s: 1.0 / s, "commutative": True}, [2.0, -2.0], "lower"),
}


@pytest.mark.parametrize(("changed", "values", "named"), FAILS.values(), ids=FAILS)
def test_what_cannot_be_computed_of_the_data_names_the_aggregate(changed: dict, values: list, named: str) -> None:
    agg = sl.udaf("u", **{**ADD, "state": ["float64"], **changed})
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"x": agg}))
    op.push(pa.table({"t": [1], "v": [4.0]}))
    before = op.snapshot()
    with pytest.raises(
        ValueError, match=f"^udaf 'u': {named} cannot be computed of these rows: division by zero; let "
    ):
        op.push(pa.table({"t": [12, 13, 40], "v": [*values, 1.0]}))
    assert op.snapshot() == before


def answers(agg: sl.Aggregate, values: list) -> list:
    return sl.aggregate(pa.table({"t": [1], "v": values}), sl.Spec("t", {"w": sl.tumbling(10)}, {"x": agg}))[
        "x"
    ].to_pylist()


def test_values_around_functions_are_those_of_when_it_was_built() -> None:
    """Integers compile when the first column of integers comes; floats compile at once."""
    table = np.array([0.0, 7.0])
    made = [sl.udaf("u", **{**ADD, "lift": lambda x: x * k + table[1], "commutative": True}) for k in (2, 5)]  # noqa: B023
    again = [pickle.loads(pickle.dumps(agg)) for agg in made]
    table[1] = 9.0
    for values in ([1.0], [1]):
        assert [answers(agg, values) for agg in (*made, *again)] == [[9.0], [12.0]] * 2


@numba.njit
def scaled(x: float) -> float:
    return x * SCALE


SCALE = 2


def test_a_function_that_is_called_and_changes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    agg = sl.udaf("u", **{**ADD, "lift": lambda x: scaled(x), "commutative": True})
    assert answers(agg, [1.5]) == [3.0]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3)
    with pytest.raises(
        ValueError, match=r"^udaf 'u': what its functions call, or a value in a module that they use, h"
    ):
        answers(agg, [1])


def test_a_module_that_loads_a_part_when_it_is_used_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_package").mkdir()
    lazily = """
def __getattr__(name):
    if name != "part":
        raise AttributeError(name)
    import importlib
    return importlib.import_module("lazy_package.part")
"""
    (tmp_path / "lazy_package" / "__init__.py").write_text(lazily)
    (tmp_path / "lazy_package" / "part.py").write_text("import numba\n\n@numba.njit\ndef double(v): return 2 * v\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazy_package

    agg = sl.udaf("u", **{**ADD, "lift": lambda x: lazy_package.part.double(x), "commutative": True})
    assert [answers(agg, values) for values in ([1.5], [1])] == [[3.0], [2.0]]


def test_a_variable_without_a_value_is_told() -> None:
    def build() -> sl.Aggregate:
        agg = sl.udaf("u", **{**ADD, "lift": lambda x: x * later, "commutative": True})
        later = 2
        return agg

    with pytest.raises(ValueError, match=r"^udaf 'u': lift uses a variable that has no value yet; set it before"):
        build()


PRICES = np.array([10.0, 20.0, 40.0])


def test_a_row_that_a_table_of_the_user_lacks_is_named() -> None:
    """Of compiled code numba would read whatever lies behind the array."""
    agg = sl.udaf("u", **{**ADD, "lift": lambda x: PRICES[int(x)], "commutative": True})
    op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10)}, {"x": agg}))
    op.push(pa.table({"t": [1, 2], "v": [0, 2]}))
    before = op.snapshot()
    with pytest.raises(ValueError, match=r"^udaf 'u': lift or combine cannot be computed of these rows: index is out "):
        op.push(pa.table({"t": [3, 4], "v": [1, 3]}))
    assert op.snapshot() == before
    assert op.flush().windows["x"].to_pylist() == [50.0]


def modular(**changed: Any) -> sl.Aggregate:
    given: dict[str, Any] = {
        "lift": lambda x: x,
        "combine": lambda a, b: (a + b) % 1009,
        "lower": lambda total: total,
        "identity": 0,
        "invert": lambda a, b: (a - b) % 1009,
        "state": ["int64"],
        "inputs": ["v"],
        "commutative": True,
    }
    return sl.udaf("modular", **given | changed)


@pytest.mark.parametrize("keys", [0, 3])
def test_what_leaves_a_window_is_taken_away_by_invert(keys: int) -> None:
    chance = np.random.default_rng(7)
    t, v, k = np.sort(chance.integers(0, 3000, 500)), chance.integers(0, 1009, 500), chance.integers(0, keys or 1, 500)
    agg = modular()
    spec = sl.Spec("t", {"w": sl.sliding(200, 7), "t": sl.tumbling(10)}, {"x": agg}, by="k" if keys else [])
    schema = pa.schema({"t": pa.int64(), "v": pa.int64(), "k": pa.int64()})
    assert "what leaves a window is taken from x by its invert" in sl.explain(spec, schema)["combine"]
    op, found = sl.Operator(spec), []
    for at in range(0, 500, 123):
        found += op.push(pa.table({"t": t, "v": v, "k": k}).slice(at, 123)).windows.to_pylist()
    found += op.flush().windows.to_pylist()
    assert len(found) > 400
    for w in found:
        inside = (t >= w["window_start"]) & (t < w["window_end"]) & ((k == w["k"]) if keys else True)
        assert w["x"] == v[inside].sum() % 1009
    assert agg.user.kernels("i").slide.signatures


def test_floats_and_what_has_an_order_are_combined_anew() -> None:
    """An infinity that left a window leaves no trace, though the user can subtract."""
    floats = {"combine": lambda a, b: a + b, "invert": lambda a, b: a - b, "state": ["float64"], "identity": 0.0}
    spec = sl.Spec("t", {"w": sl.sliding(3, 1)}, {"x": modular(**floats)})
    rows = pa.table({"t": range(8), "v": [1.0, np.inf, 1.0, 1.0, 1.0, 1.0, 1e300, 1.0]})
    assert sl.aggregate(rows, spec)["x"].to_pylist()[4:6] == [3.0, 3.0]
    for changed in (floats, {"commutative": False}):
        spec = sl.Spec("t", {"w": sl.sliding(3, 1)}, {"x": modular(**changed)})
        schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
        assert "nothing is ever subtracted" in sl.explain(spec, schema)["combine"]


def test_a_slice_that_is_left_open_goes_on_by_keys() -> None:
    """Cells of the same keys take it up: partials of users have no kernel among those of the library's own."""
    square = dict(lift=lambda v: v * v, combine=lambda a, b: a + b, lower=lambda s: s, identity=0, inputs=["v"])
    squares = sl.udaf("squares", **square, commutative=True)
    spec = sl.Spec("t", {"w": sl.tumbling(1000)}, {"s": squares, "n": sl.count()}, by=["k"])
    op = sl.Operator(spec)
    for push in range(3):
        op.push(pa.table({"t": [10 * push, 10 * push + 1], "k": ["a", "b"], "v": [push, 10 * push]}))
    assert op.flush().windows.select(["k", "s", "n"]).to_pylist() == [
        {"k": "a", "s": 5, "n": 3},
        {"k": "b", "s": 500, "n": 3},
    ]


def test_explain_without_a_schema_says_that_it_has_guessed():
    whole = {"state": ["int64"], "inputs": ["v"], "commutative": True, "identity": 0}
    square = sl.udaf("sq", lift=lambda x: x * x, combine=lambda a, b: a + b, lower=lambda state: state, **whole)
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, {"x": square})
    said = r"lift must give a state .* \(explain has guessed the types of columns: give it schema="
    with pytest.raises(TypeError, match=said):
        sl.explain(spec)
    assert sl.explain(spec, pa.schema({"t": pa.int64(), "v": pa.int64()}))["combine"]
    with pytest.raises(ValueError, match=r"combine must be .*; got 'any'$"):
        sl.explain(spec, combine="any")


def test_windows_whose_first_rows_are_null_are_not_taken_apart(monkeypatch):
    """Only slices that overlap in time are put together row by row, which takes the square of the rows."""
    monkeypatch.setattr("slicing.aggregates.udaf.rows_of", None)
    ema = sl.udaf(
        "ema",
        lift=lambda v: (v * 0.5, 0.5),
        combine=lambda a, b: (a[0] * b[1] + b[0], a[1] * b[1]),
        lower=lambda s: s[0],
        identity=(0.0, 1.0),
        state=("float64", "float64"),
        inputs=["v"],
    )
    chance = random.Random(3)
    since = 1_764_000_000_000_000_000
    keys = [chance.choice("abc") for _ in range(300)]
    values = [None if row < 12 or chance.random() < 0.2 else float(chance.randrange(100)) for row in range(300)]
    table = pa.table({"t": [since + row for row in range(300)], "k": keys, "v": pa.array(values, pa.float64())})
    for window in (sl.rows(2**40, every=1), sl.per_row(10**9)):
        found = sl.attach(table, sl.Spec("t", {"w": window}, {"x": ema}, by="k"), **_least(window))
        states: dict[str, float | None] = {}
        for key, value, got in zip(keys, values, found["x"].to_pylist(), strict=True):
            if value is not None:
                states[key] = states.get(key, 0.0) * 0.5 + value * 0.5
            assert got == pytest.approx(states.get(key))


def _least(window):
    return {"min_rows": 1} if isinstance(window, type(sl.rows(1))) else {}
