"""Many results that are numbers, written as columns at once: what each window's own rows give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl

BEGUN = 1_700_000_000_000_000_000
WINDOWS, EACH, WIDTH = 2000, 3, 60_000_000_000
NAMES = {"one": ("w",), "two": ("w", "again")}  # windows of two names share partials
AGGS: dict[str, Callable[[list[Any]], Any]] = {"n": len, "s": sum, "lo": min, "hi": max, "m": lambda x: sum(x) / len(x)}
ASKED = {"n": sl.count("v"), "s": sl.sum("v"), "lo": sl.min("v"), "hi": sl.max("v"), "m": sl.mean("v")}


def asked(values: pa.Array, names: Sequence[str], aggs: dict[str, sl.Aggregate], **given: Any) -> pa.Table:
    rows = len(values)
    times = BEGUN + np.arange(rows) * (WIDTH // EACH)
    table = pa.table({"t": pa.array(times, pa.timestamp("ns")), "v": values})
    spec = sl.Spec("t", dict.fromkeys(names, sl.tumbling("1min")), aggs, watermark=sl.ordered(), **given)
    op = sl.Operator(spec)
    return pa.concat_tables([op.push(table).windows, op.flush().windows])


def by_window(values: pa.Array) -> list[list[Any]]:
    """The values of each window: the first window may begin in the middle."""
    early = BEGUN % WIDTH // (WIDTH // EACH)
    listed = [None] * early + values.to_pylist()
    groups = [listed[at : at + EACH] for at in range(0, len(listed), EACH)]
    return [[value for value in group if value is not None] for group in groups]


def values_of(type: pa.DataType) -> pa.Array:
    rng, size = np.random.default_rng(7), WINDOWS * EACH
    if pa.types.is_floating(type):
        return pa.array(rng.integers(-(2**20), 2**20, size) / 8, type)
    bits = min(type.bit_width, 50)  # the mean of three is exact
    low, high = (0, 2**bits) if pa.types.is_unsigned_integer(type) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return pa.array(rng.integers(low, high, size), type)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("type", [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.float64()], ids=str)
def test_numbers_of_each_type(type: pa.DataType, names: Sequence[str], written: list[bool]) -> None:
    values = values_of(type)
    found = asked(values, names, ASKED)
    assert written[0] == (len(names) == 1)  # shared partials lie word by word
    for name in names:
        some = found.filter(pa.compute.equal(found["window"], name))
        for column, answer in AGGS.items():
            assert some[column].to_pylist() == [answer(group) for group in by_window(values)], column
    assert found["lo"].type == type


def test_counts_that_two_names_share(written: list[bool]) -> None:
    values = values_of(pa.int64())
    found = asked(values, NAMES["two"], {"n": sl.count()})
    assert written[0]  # partials of one word lie row by row, also shared ones
    for name in NAMES["two"]:
        some = found.filter(pa.compute.equal(found["window"], name))
        assert some["n"].to_pylist() == list(map(len, by_window(values)))


@pytest.mark.parametrize("empty", [0, WINDOWS // 2])
def test_windows_without_values_are_null(empty: int, written: list[bool]) -> None:
    values = values_of(pa.int64()).to_pylist()
    values[EACH * empty : EACH * (empty + 1) + 2] = [None] * (EACH + 2)
    found = asked(pa.array(values), ("w",), ASKED)
    assert written[0]
    groups = by_window(pa.array(values))
    assert found["n"].to_pylist() == list(map(len, groups))
    assert found["s"].to_pylist() == [sum(group) if group else None for group in groups]
    assert found["hi"].to_pylist() == [max(group, default=None) for group in groups]


def test_not_a_number_is_the_largest_only_if_there_is_no_other(written: list[bool]) -> None:
    values = values_of(pa.float64()).to_numpy().copy()
    values[::2], values[300:306] = np.nan, np.nan
    values[600], values[603] = np.inf, -np.inf
    found = asked(pa.array(values), ("w",), ASKED)
    assert written[0]
    for column, answer in (("lo", min), ("hi", max)):
        for shown, group in zip(found[column].to_pylist(), by_window(pa.array(values)), strict=True):
            some = [value for value in group if not math.isnan(value)]
            assert shown == answer(some) if some else math.isnan(shown)


@pytest.mark.parametrize("what", ["null", "wrap", "error"])
def test_sums_that_do_not_fit(what: str) -> None:
    values = np.full(WINDOWS * EACH, 5, np.int64)
    early = BEGUN % WIDTH // (WIDTH // EACH)
    values[EACH * 1000 - early : EACH * 1001 - early] = 2**62
    ask = {"s": sl.sum("v"), "m": sl.mean("v")}
    if what == "error":
        with pytest.raises(OverflowError, match="on_overflow"):
            asked(pa.array(values), ("w",), ask, on_overflow=what)
        return
    found = asked(pa.array(values), ("w",), ask, on_overflow=what).to_pylist()
    assert found[1000]["s"] == (None if what == "null" else 3 * 2**62 - 2**64) and found[1000]["m"] == 2.0**62
    assert [row["s"] for at, row in enumerate(found[1:WINDOWS], 1) if at != 1000] == [15] * (WINDOWS - 2)
