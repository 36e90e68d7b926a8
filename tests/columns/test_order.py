"""Sorting by several columns, against numpy's; sorting texts, against Python's."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from slicing.columns import text_order
from slicing.columns.order import numbered, order_by, sorting, stable_order


@pytest.mark.parametrize("high", [3, 5000, 10**6, 2**40, 2**60, 2**63])
def test_rows_are_sorted_as_lexsort_does_whether_or_not_one_key_decides(high: int) -> None:
    chance = np.random.default_rng(high)
    for rows in (0, 1, 50, 5000, 20_000):
        keys = chance.integers(0, 4, rows), chance.integers(-high, high, rows)
        np.testing.assert_array_equal(order_by(*keys), np.lexsort(keys))
        spread = chance.permutation(rows) * 7  # all different
        np.testing.assert_array_equal(order_by(keys[0], spread), np.lexsort((keys[0], spread)))
        assert sorting(np.zeros(rows, np.int64), np.arange(rows)) is None


@pytest.mark.parametrize("bits", [33, 51, 52, 53, 54, 63])
@pytest.mark.parametrize("alike", [0, 1, 60])
def test_integers_that_differ_in_their_lowest_bits_are_sorted(bits: int, alike: int) -> None:
    """4096 of them, so a word has room for 52 bits of a number. ``alike``: low bits that are cleared of some."""
    chance = np.random.default_rng(bits)
    numbers = chance.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 2048)
    numbers = chance.permutation(np.append(numbers, numbers >> min(alike, bits - 1) << min(alike, bits - 1)))
    numbers[:2] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    np.testing.assert_array_equal(stable_order(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("together", [2, 3, 7, 30])
@pytest.mark.parametrize("groups", [1, 10, 200])
def test_few_integers_that_differ_in_their_lowest_bits_are_sorted(groups: int, together: int) -> None:
    chance = np.random.default_rng(together)
    numbers = chance.integers(-(2**63), 2**63 - 1, 20_000)
    for group in range(groups):
        some = slice(group * together, (group + 1) * together)
        numbers[some] = (numbers[some.start] >> 9 << 9) + chance.integers(0, chance.choice([4, 512]), together)
    numbers = chance.permutation(numbers)
    order = np.argsort(numbers, kind="stable")
    np.testing.assert_array_equal(stable_order(numbers), order)
    distinct, number = numbered(numbers)
    np.testing.assert_array_equal(distinct, np.unique(numbers))
    np.testing.assert_array_equal(distinct[number], numbers)


TEXTS = {
    "none": [],
    "empty": [b""] * 5,
    "alike": [b"alike"] * 9,
    "prefixes": [b"a" * size + end for size in range(40) for end in (b"", b"\0", b"\0\0", b"b", b"\xff")],
    "zeros": [b"\0" * size for size in range(30)],
    "addresses": [b"https://example.com/%d/%d" % (i % 7, i % 50) for i in range(300)],
    "hosts": [host + b"/%d" % i for host in (b"http://a.org", b"https://a.org", b"") for i in range(100)],
}


@pytest.mark.parametrize("type", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("few", [0, 1 << 12])
def test_texts_are_in_order(type: pa.DataType, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_order, "FEW_TEXTS", few)
    chance = random.Random(f"{type} {few}")
    bits = [bytes(chance.choices(b"\0\1", k=chance.randint(0, 20))) for _ in range(2000)]
    for texts in (*TEXTS.values(), bits):
        _put_in_order(pa.array([b"before", *chance.sample(texts, len(texts)), b"after"], type)[1:-1])


def test_decimals_are_in_order() -> None:
    _put_in_order(pa.array(random.Random(1).choices(range(-500, 500), k=1000)).cast(pa.decimal128(30, 2)))


def _put_in_order(values: pa.Array) -> None:
    order, new = text_order.in_order(values)
    ordered = sorted(values.to_pylist())
    assert values.take(pa.array(order, pa.int64())).to_pylist() == ordered
    assert new.tolist() == [at == 0 or ordered[at] != ordered[at - 1] for at in range(len(ordered))]
