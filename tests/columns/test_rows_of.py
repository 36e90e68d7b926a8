"""Some rows of a column, as Arrow's ``take`` gives them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slicing.columns.taking import gathered, rows_of
from slicing.columns.values import MANY_WORDS

SIZES = [0, 1, 7, MANY_WORDS - 1, MANY_WORDS, MANY_WORDS + 5]
TYPES = [pa.int64(), pa.uint64(), pa.float64(), pa.timestamp("ns", "Europe/Berlin"), pa.duration("us"), pa.date64()]
OTHERS = [pa.int32(), pa.bool_(), pa.string(), pa.decimal128(21, 2), pa.dictionary(pa.int32(), pa.string())]


def column(type: pa.DataType, size: int, rng: np.random.Generator) -> pa.Array:
    return pa.array(rng.integers(-(1 << 62), 1 << 62, size)).view(type)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_words_are_taken_as_arrow_takes_them(type: pa.DataType, size: int) -> None:
    rng = np.random.default_rng(size)
    whole = column(type, 2 * size + 9, rng)
    for part in (whole, whole.slice(5, size + 3)):
        index = rng.integers(0, len(part), size)
        found = rows_of(part, index)
        words = found.view(pa.int64())  # floats may be NaN, which equals nothing
        assert found.type == type and words.equals(part.view(pa.int64()).take(pa.array(index)))
        words.validate(full=True)


@pytest.mark.parametrize("size", SIZES)
def test_columns_with_nulls_are_taken_too(size: int) -> None:
    rng = np.random.default_rng(size)
    values = pa.array(rng.integers(0, 9, size + 9), mask=rng.random(size + 9) < 0.3)
    index = rng.integers(0, size + 9, size)
    assert rows_of(values, index).equals(values.take(pa.array(index)))


@pytest.mark.parametrize("type", OTHERS, ids=str)
def test_columns_of_other_types_are_taken_by_arrow(type: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    values = pa.array(rng.integers(0, 2, 50)).cast(pa.string() if pa.types.is_dictionary(type) else type)
    values = values.dictionary_encode() if pa.types.is_dictionary(type) else values
    index = rng.integers(0, 50, MANY_WORDS)
    assert rows_of(values, index).equals(values.take(pa.array(index)))


@pytest.mark.parametrize("size", SIZES)
def test_gathered_words_are_a_copy(size: int) -> None:
    rng = np.random.default_rng(size)
    words, index = rng.integers(0, 1 << 40, size + 3), rng.integers(0, size + 3, size)
    found = gathered(words[::1], index)
    assert found.tolist() == words[index].tolist()
    words[:] = -1
    assert not size or int(found.max()) >= 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("type", [*TYPES, pa.int32(), pa.bool_()], ids=str)
def test_rows_that_are_set_to_null_need_not_exist(type: pa.DataType, size: int) -> None:
    rng = np.random.default_rng(size)
    values = pa.array(rng.integers(0, 2, size + 9)).cast(pa.int32() if type.bit_width < 64 else pa.int64()).cast(type)
    null = rng.random(size) < 0.3
    index = np.where(null, -1, rng.integers(0, size + 9, size))
    found = rows_of(values, index, null)
    assert found.equals(values.take(pa.array(index, mask=null)))
    found.validate()
    none = rows_of(values.slice(0, 0), np.full(size, -1), np.ones(size, np.bool_))
    assert none.equals(pa.nulls(size, type))


BYTES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
LONG = 100  # bytes: several times what is copied at once


@pytest.mark.parametrize("most", [0, 1, 31, 33, LONG])
@pytest.mark.parametrize("type", BYTES, ids=str)
def test_texts_are_taken_as_arrow_takes_them(type: pa.DataType, most: int) -> None:
    rng = np.random.default_rng(most)
    for rows in (1, 3, 40, 50_000):
        words = [None if rng.random() < 0.1 else "x\N{SNOWMAN}y" * 34 for _ in range(min(rows, 40))]
        words = [word and word.encode()[: 3 * int(rng.integers(0, most // 3 + 1))][:most] for word in words]
        texts = [None if word is None else word.decode(errors="ignore") for word in words]
        whole = pa.array([texts[at % len(texts)] for at in range(rows)], pa.string()).cast(type)
        for part in (whole, whole.slice(rows // 2)):
            index = rng.integers(0, len(part), MANY_WORDS + 5)
            found = rows_of(part, index)
            found.validate(full=True)
            assert found.type == type and found.equals(part.take(pa.array(index)))
            null = rng.random(index.size) < 0.3
            found = rows_of(part, np.where(null, -1, index), null)
            found.validate(full=True)
            assert found.equals(part.take(pa.array(index, mask=null)))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 63, 64, 65, 200])
def test_texts_at_the_very_end_of_a_buffer_are_read_no_further(size: int) -> None:
    data = bytes(range(1, 101)) * 3
    cuts = sorted({0, size // 3, size // 2, max(size - 31, 0), size})
    ends = pa.py_buffer(np.array(cuts, np.int32).tobytes())
    column = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, ends, pa.py_buffer(data[:size])])
    index = np.arange(MANY_WORDS) % len(column)
    assert rows_of(column, index).equals(column.take(pa.array(index)))


def test_texts_that_do_not_fit_their_type_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slicing.columns.taking.MOST_TEXT", 10_000)
    column, index = pa.array(["short", "a longer text"]), np.arange(MANY_WORDS) % 2
    assert rows_of(column, index).equals(column.take(pa.array(index)))
    large = column.cast(pa.large_string())
    assert rows_of(large, index).equals(large.take(pa.array(index)))
