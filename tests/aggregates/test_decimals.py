"""Aggregates of decimals that give floats: the nearest ones, however wide the column."""

from __future__ import annotations

from decimal import Decimal

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
