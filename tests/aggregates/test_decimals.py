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


@pytest.mark.parametrize("precision", [9, 19, 38])
def test_a_negative_scale(precision: int) -> None:
    thousands = [Decimal("2E+3"), None, Decimal("-7E+3"), Decimal("1E+3"), Decimal("2E+3")]
    aggs = {"least": sl.min("d"), "first": sl.first("d"), "each": sl.collect("d"), "middle": sl.median("d")}
    aggs |= {"distinct": sl.count_distinct("d"), "total": sl.sum("d")}
    data = pa.table({"t": range(5), "d": pa.array(thousands, pa.decimal128(precision, -3))})
    spec = sl.Spec("t", {"w": sl.tumbling(10)}, aggs)
    op = sl.Operator(spec)
    for at in range(5):
        op.push(data.slice(at, 1))
    for found in (sl.aggregate(data, spec), op.flush().windows):
        (row,) = found.to_pylist()
        kept = [value for value in thousands if value is not None]
        assert (row["least"], row["first"], row["each"]) == (min(kept), kept[0], kept)
        assert (row["middle"], row["distinct"], row["total"]) == (1500.0, 3, sum(kept))


def test_a_negative_scale_beside_many_values() -> None:
    many = [Decimal(f"{n}E+3") for n in range(-9000, 9000, 2)]
    for more in ([many[7], Decimal("-3E+3")], [Decimal("9999E+3"), many[0]]):
        data = pa.table({"t": range(9002), "d": pa.array([*many, *more], pa.decimal128(19, -3))})
        op = sl.Operator(sl.Spec("t", {"w": sl.tumbling(10_000)}, {"most": sl.max("d"), "n": sl.count_distinct("d")}))
        op.push(data.slice(0, 9000))
        op.push(data.slice(9000))
        (row,) = op.flush().windows.to_pylist()
        assert (row["most"], row["n"]) == (max(*many, *more), 9001)


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


@pytest.mark.parametrize(("precision", "scale"), [(38, 38), (38, 37), (38, 20), (20, 4)])
def test_means_of_sums_beyond_the_type(precision: int, scale: int) -> None:
    """The sum of these rows has more digits than the widest decimal; their mean fits."""
    with localcontext() as exact:
        exact.prec = 200
        digits = scale if scale > 34 else min(precision, 34)  # a mean has up to four more behind the point
        largest = Decimal(10**digits - 1).scaleb(-scale)
        values = pa.array([largest] * 39 + [-largest], pa.decimal128(precision, scale))
        data = pa.table({"t": [1_714_564_800_000_000_000] * 40, "d": values})
        (found,) = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(10)}, {"m": sl.mean("d")}))["m"].to_pylist()
        digit = Decimal(1).scaleb(-min(scale + 4, 38))
        assert found == (38 * largest / 40).quantize(digit, ROUND_HALF_UP)
