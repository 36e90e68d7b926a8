"""Answers that are equal to the last bit, however rows are grouped: of large values with a small spread, too."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.kernels.squares import PARTS, squared_distances

BASES = (0.0, 0.1, 1e-9, 1.7e9 + 0.123456, 1e12, 1e15, 2.0**52, 1.7e15, -8e15, 3e130, 2e-130)


def near(base: float, rng: random.Random) -> list[float]:
    """Values a few floats apart."""
    step = float(np.spacing(base)) if base else rng.choice([1.0, 1e-3])
    return [base + rng.randint(0, rng.choice([1, 20])) * step for _ in range(rng.randint(3, 60))]


def variance(values: list[float], ddof: int) -> Fraction:
    exact = [Fraction(x) for x in values]
    mean = sum(exact, Fraction()) / len(exact)
    return sum(((x - mean) ** 2 for x in exact), Fraction()) / (len(exact) - ddof)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("function", ["var", "std"])
def test_a_small_spread_of_large_values_is_exact_and_the_same_for_every_split(function: str, base: float) -> None:
    for seed in range(12):
        rng = random.Random(seed)
        values, ddof = near(base, rng), rng.choice([0, 1])
        n = len(values)
        table = pa.table({"t": range(n), "v": values})
        agg = getattr(sl, function)("v", ddof=ddof)
        spec = sl.Spec("t", {"w": sl.tumbling(n)}, {"x": agg}, allowed_lateness=1, emit="changes")
        whole = sl.aggregate(table, spec)["x"].to_pylist()
        op, got = sl.Operator(spec), []
        while len(table):
            size = rng.randint(1, len(table))
            got += op.push(table.slice(0, size)).windows["x"].to_pylist()
            table = table.slice(size)
        assert got + op.flush().windows["x"].to_pylist() == whole
        wanted = variance(values, ddof)
        found = Fraction(whole[0]) if function == "var" else Fraction(whole[0]) ** 2
        assert abs(found - wanted) <= wanted * Fraction(1, 1 << 50), (seed, values)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("function", ["var", "std"])
def test_changelogs_keep_a_small_spread_of_large_values(function: str, base: float) -> None:
    for seed in range(12):
        rng = random.Random(seed)
        values = near(base, rng)
        taken = rng.sample(range(len(values)), rng.randint(0, len(values) - 3))
        rows = [(t, x, "+") for t, x in enumerate(values)] + [(t, values[t], "-") for t in taken]
        table = pa.table(dict(zip(("t", "v", "op"), map(list, zip(*rows, strict=True)), strict=True)))
        spec = sl.Spec("t", {"w": sl.tumbling(len(values))}, {"x": getattr(sl, function)("v")}, op="op")
        (x,) = sl.aggregate(table, spec)["x"].to_pylist()
        wanted = variance([x for t, x in enumerate(values) if t not in taken], 1)
        found = Fraction(x) if function == "var" else Fraction(x) ** 2
        assert abs(found - wanted) <= wanted * Fraction(1, 1 << 49), (seed, values)


def test_changelogs_of_values_beyond_all_squares() -> None:
    for values in ([1e308, -1e308, 3.0], [float("inf"), 1.0, 2.0], [float("-inf"), 1.0, 2.0]):
        table = pa.table({"t": range(3), "v": values, "op": ["+"] * 3})
        plain, changes = (
            sl.aggregate(table, sl.Spec("t", {"w": sl.whole()}, {"x": sl.var("v")}, op=op))["x"].to_pylist()
            for op in (None, "op")
        )
        assert str(plain) == str(changes)


def test_squared_distances_lose_nothing() -> None:
    """Sums of integers of 50 digits, as floats that do not overlap, against fractions."""
    rng = random.Random(1)
    for _ in range(300):
        n, base = rng.randint(1, 1 << rng.randint(1, 20)), rng.getrandbits(50)
        total = n * base + rng.randint(0, n)
        squares = -(-total * total // n) + rng.choice([0, 1, rng.getrandbits(30)])
        sums = np.array([[*split(total, 2), *split(squares, 4)]])
        out = np.empty(1)
        squared_distances(np.array([n]), sums, np.empty(PARTS), out)
        assert Fraction(out[0]) == pytest.approx(float(Fraction(n * squares - total * total, n)), rel=1e-15, abs=0)


def split(number: int, parts: int) -> list[float]:
    found = []
    for _ in range(parts):
        found.append(float(number))
        number -= int(found[-1])
    assert not number
    return found
