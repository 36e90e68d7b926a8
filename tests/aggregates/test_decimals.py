"""Aggregates of decimals that give floats: the nearest ones, however wide the column."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest

import slicing as sl

VALUES = [Decimal(n) / 1000 for n in range(10**11, 10**11 + 50)] + [Decimal("974750000.123"), Decimal("-1.005")]


@pytest.mark.parametrize("precision", [12, 18, 20, 38])
def test_quantiles_of_a_decimal_are_the_nearest_float(precision: int) -> None:
    data = pa.table({"t": range(len(VALUES)), "d": pa.array(VALUES, pa.decimal128(precision, 3))})
    found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(1)}, {"m": sl.median("d"), "q": sl.quantile("d", 0.9)}))
    assert found["m"].to_pylist() == found["q"].to_pylist() == list(map(float, VALUES))


def test_decimals_beyond_a_word_become_floats_too() -> None:
    large = Decimal("98765432109876543210987654.125")
    data = pa.table({"t": [1, 2], "d": pa.array([large, Decimal("0.125")], pa.decimal128(38, 3))})
    found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(1)}, {"m": sl.median("d")}))["m"].to_pylist()
    assert found[1] == 0.125 and found[0] == pytest.approx(float(large), rel=1e-15)


LIMIT = (2**63 - 1) // 10**4  # four more decimal places of it fit a word
MOST = 10**18 - 1
BEYOND = [MOST] * 18 + [2**64 + 5 - 18 * MOST]  # the sum is 5 if only a word of it is looked at


@pytest.mark.parametrize("scale", [0, 2, 15])
@pytest.mark.parametrize("precision", [18, 30])
@pytest.mark.parametrize(
    "windows",
    [
        [[1] + [0] * 31, [-1] + [0] * 31, [1, 1, 0], [-1, -1, 0], [-1, 0, 0], [7], [-3, None], [None]],
        [[10**9, 10**9 + 1, 5], [-(10**9), 1, 1]],
        [[LIMIT], [-LIMIT], [LIMIT // 2, LIMIT // 2]],
        [[LIMIT + 1], [1, 2]],
        [[1, 2], [-LIMIT - 1]],
        [[1, 0, 0], [MOST, MOST], [-MOST] * 9, [-MOST, MOST, 2]],
        [BEYOND],
        [[-n for n in BEYOND]],
    ],
)
def test_means_round_halves_away_from_zero(precision: int, scale: int, windows: list[list[int | None]]) -> None:
    """Also if a sum, or a sum with four more decimal places, does not fit a word."""
    with localcontext(prec=60):
        rows = [(at, n) for at, window in enumerate(windows) for n in window]
        values = [None if n is None else Decimal(n).scaleb(-scale) for _, n in rows]
        data = pa.table({"t": [at for at, _ in rows], "d": pa.array(values, pa.decimal128(precision, scale))})
        found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(1)}, {"m": sl.mean("d")}))["m"]
        held = [[Decimal(n).scaleb(-scale) for n in window if n is not None] for window in windows]
        places = Decimal(1).scaleb(-scale - 4)
        exact = [(sum(some) / len(some)).quantize(places, ROUND_HALF_UP) if some else None for some in held]
    assert found.type == pa.decimal128(precision + 4, scale + 4) and found.to_pylist() == exact
