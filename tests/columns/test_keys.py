"""Keys to codes, against a dict: every type, nulls, several columns, slices of arrays, batch after batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicing.columns import key_columns
from slicing.columns.key_columns import check_key_type
from slicing.columns.keys import FEW_CELLS, KeyTable
from slicing.kernels.table import MIX

Row = tuple[Any, ...]

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"), pa.duration("us")]
TIMES += [pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")]
SHORT = [pa.decimal32(7, 2), pa.decimal64(16, 0)] if hasattr(pa, "decimal32") else []  # from pyarrow 19 on
DECIMALS = [*SHORT, pa.decimal128(38, 3), pa.decimal256(60, 4)]
TEXT = [pa.string(), pa.large_string(), pa.string_view()]
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(20), pa.binary(0)]
PLAIN = [*INTEGERS, *FLOATS, *TIMES, *DECIMALS, *TEXT, *BINARY, pa.bool_(), pa.null()]
TYPES = [*PLAIN, *(pa.dictionary(pa.int16(), type) for type in PLAIN)]


def decoded(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def ticks(type: pa.DataType) -> pa.DataType:
    """The integer that a time is stored as."""
    return pa.int32() if type.bit_width == 32 else pa.int64()


def values_of(type: pa.DataType) -> st.SearchStrategy[Any]:
    type = decoded(type)
    if type == pa.null():
        return st.none()
    if type == pa.bool_():
        return st.booleans()
    if type in FLOATS:
        odd = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf])
        return odd | st.integers(-3, 3).map(float) | st.floats(width=type.bit_width)
    if type in TEXT:  # around 31 and 63 bytes the table reads values differently; ends that differ, and blanks
        letters = st.text("a\0é😀", max_size=3)
        return letters | st.builds(str.__add__, st.sampled_from(["", "prefix-", "b" * 29, "b" * 61]), letters)
    if pa.types.is_fixed_size_binary(type) and not pa.types.is_decimal(type):
        size = type.byte_width
        return st.binary(min_size=size, max_size=size) | st.sampled_from([b"\0" * size, b"\xff" * size])
    if type in BINARY:
        return st.binary(max_size=34) | st.sampled_from([b"", b"\0", b"\0\0", b"\0" * 32, b"\0" * 31 + b"\1"])
    if type in DECIMALS:
        large = st.integers(-(10**type.precision) + 1, 10**type.precision - 1)
        return (large | st.integers(-3, 3)).map(lambda n: Decimal(f"{n}e-{type.scale}"))
    if type == pa.date64():
        return st.integers(-(10**5), 10**5).map(lambda day: day * 86_400_000)
    if pa.types.is_time(type):
        return st.integers(0, 3) | st.integers(0, 86_399_999)
    bits = type.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(type) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(max(low, -3), 3) | st.integers(low, high) | st.sampled_from([low, high])


def arrow(values: list[Any], type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type):  # back to front; every other null is in the dictionary, not in the indices
        indices = [None if value is None and i % 2 else len(values) - 1 - i for i, value in enumerate(values)]
        dictionary = arrow(values[::-1], type.value_type)
        return pa.DictionaryArray.from_arrays(pa.array(indices, type.index_type), dictionary)
    if type in TIMES:
        return pa.array(values, ticks(type)).view(type)
    if type in FLOATS:
        mask = np.array([value is None for value in values], np.bool_)
        return pa.array(
            np.array([0.0 if value is None else value for value in values], type.to_pandas_dtype()), type, mask=mask
        )
    return pa.array(values, type)


def plain(array: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        indices = array.indices.to_pylist()
        dictionary = plain(array.dictionary)
        return [None if i is None else dictionary[i] for i in indices]
    if array.type in TIMES:
        array = array.view(ticks(array.type))
    return [canonical(value) for value in array.to_pylist()]


def canonical(value: Any) -> Any:
    """What a dict can tell apart as keys are told apart."""
    return value if value == value else "NaN"


def order(key: Row) -> list[tuple[int, Any]]:
    parts: list[tuple[int, Any]] = []
    for value in key:
        if value is None:
            parts.append((0, 0))
        elif value == "NaN":
            parts.append((2, 0))
        else:
            parts.append((1, value.encode() if isinstance(value, str) else value))
    return parts


class Oracle:
    """A dict of rows."""

    def __init__(self, keys: list[Row] | None = None) -> None:
        self.codes = {key: code for code, key in enumerate(keys or [])}

    def encode(self, rows: list[Row]) -> list[int]:
        return [self.codes.setdefault(tuple(map(canonical, row)), len(self.codes)) for row in rows]

    def keys(self) -> list[Row]:
        return list(self.codes)


def fitted(value: Any, type: pa.DataType) -> Any:
    """The value as a column of the type holds it: float32 rounds."""
    type = decoded(type)
    return float(type.to_pandas_dtype()(value)) if type in FLOATS and value is not None else value


def columns_of(rows: list[Row], types: list[pa.DataType], offset: int = 0) -> list[pa.Array]:
    """Columns of the rows, as slices of arrays that begin ``offset`` rows earlier."""
    padded = [*rows[:1] * offset, *rows]
    columns = list(zip(*padded, strict=True)) if padded else [()] * len(types)
    return [arrow(list(c), type).slice(min(offset, len(c))) for c, type in zip(columns, types, strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[int, list[Row]]]]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | values_of(type) | values_of(type) for type in types))
    some = draw(st.lists(row, min_size=1, max_size=8))
    batch = st.tuples(st.integers(0, 20), st.lists(st.sampled_from(some) | row, max_size=30))
    batches = draw(st.lists(batch, min_size=1, max_size=4))
    fit = [(offset, [tuple(map(fitted, r, types)) for r in rows]) for offset, rows in batches]
    return types, fit


def without_views(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return pa.dictionary(type.index_type, without_views(type.value_type), type.ordered)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(type, type)


def check(table: KeyTable, oracle: Oracle, types: list[pa.DataType], few: int) -> None:
    codes = np.arange(len(oracle.codes))
    keys = oracle.keys()
    assert len(table) == len(keys)
    found = table.columns(codes)
    assert [column.type for column in found] == [without_views(type) for type in types]
    for column in found:
        column.validate(full=True)
    assert list(zip(*map(plain, found), strict=True)) == keys
    for chosen in (codes[::-1], codes[few:], codes[few : few + 2], codes[:0]):
        expected = sorted(chosen, key=lambda code: order(keys[code]))
        ranks = table.ranks(chosen)
        assert ranks.dtype == np.int64
        assert [expected.index(code) for code in chosen] == ranks.tolist()


def encoded(oracle: Oracle, types: list[pa.DataType], rows: list[Row], codes: list[int]) -> list[int]:
    """A dictionary alone gives new keys codes in an order of its own."""
    if len(types) == 1 and pa.types.is_dictionary(types[0]):
        oracle.encode([row for _, row in sorted(zip(codes, rows, strict=True), key=lambda pair: pair[0])])
    return oracle.encode(rows)


@settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(streams(), st.integers(0, 5), st.randoms(use_true_random=False))
def test_codes_are_those_of_a_dict(
    stream: tuple[list[pa.DataType], list[tuple[int, list[Row]]]], few: int, random: Any
) -> None:
    types, batches = stream
    table, oracle = KeyTable(types), Oracle()
    for offset, rows in batches:
        codes = table.encode(columns_of(rows, types, offset))
        assert codes.dtype == np.int32
        assert codes.tolist() == encoded(oracle, types, rows, codes.tolist())
        check(table, oracle, types, few)
    live = sorted(random.sample(range(len(table)), len(table) // 2))
    kept, oracle = table.compact(np.array(live, np.int64)), Oracle([oracle.keys()[code] for code in live])
    check(kept, oracle, types, few)
    for offset, rows in batches:
        codes = kept.encode(columns_of(rows, types, offset))
        assert codes.tolist() == encoded(oracle, types, rows, codes.tolist())
    check(kept, oracle, types, few)


RANDOM = np.random.default_rng(20240501)
WORDS = RANDOM.integers(-(2**63), 2**63, 60_000)
LENGTHS = RANDOM.integers(0, 40, 60_000)
MANY: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "random integers": (pa.int64(), lambda i: int(WORDS[i])),
    "a sequence": (pa.int32(), lambda i: i),
    "round numbers": (pa.int64(), lambda i: (i - 20_000) << 44),
    "whole floats": (pa.float64(), lambda i: float(i)),
    "text of a pattern": (pa.string(), lambda i: f"sensor-{i:07d}"),
    "text of all lengths": (pa.string(), lambda i: f"{int(WORDS[i]):x}"[: 1 + LENGTHS[i]] + "~" * LENGTHS[i]),
    "large decimals": (pa.decimal128(38, 0), lambda i: Decimal(int(WORDS[i])) * 10**18),
}


@pytest.mark.parametrize("name", MANY)
def test_many_keys(name: str) -> None:
    type, key = MANY[name]
    rows = [(None if i % 97 == 50 else key(i),) for i in RANDOM.integers(0, 60_000, 150_000).tolist()]
    table, oracle = KeyTable([type]), Oracle()
    for begin in range(0, len(rows), 40_000):
        batch = rows[begin : begin + 40_000]
        assert table.encode(columns_of(batch, [type], offset=3)).tolist() == oracle.encode(batch)
    assert [(value,) for value in plain(table.columns(np.arange(len(table)))[0])] == oracle.keys()


def test_two_columns_of_many_keys() -> None:
    a, b = RANDOM.integers(0, 300, (2, 100_000))
    rows = list(zip(a.tolist(), map(str, b.tolist()), strict=True))
    types = [pa.int64(), pa.string()]
    table, oracle = KeyTable(types), Oracle()
    assert table.encode(columns_of(rows, types)).tolist() == oracle.encode(rows)
    ranks = table.ranks(np.arange(len(table)))
    assert [key for _, key in sorted(zip(ranks.tolist(), oracle.keys(), strict=True))] == sorted(oracle.keys())


def test_integers_that_all_fall_into_one_slot() -> None:
    undo = pow(int(MIX), -1, 2**64)  # multiplied by MIX again, the keys are 0, 1, 2...: all high bits zero
    words = np.array([i * undo % 2**64 for i in range(30_000)], np.uint64)
    table = KeyTable([pa.uint64()])
    for _ in range(2):
        assert table.encode([pa.array(words)]).tolist() == list(range(30_000))
    inner = table._columns[0].table
    assert inner.multiplier != MIX
    occupied = np.flatnonzero(inner.slots)
    home = (inner.keys[inner.slots[occupied] - 1].view(np.uint64) * inner.multiplier) >> inner.shift
    assert ((occupied - home.astype(np.int64)) % len(inner.slots)).max() < 1000


@pytest.mark.parametrize("first", [-5, 10**12, -(2**63), 2**63 - 20_000])
@pytest.mark.parametrize("count", [700, 20_000])
def test_integers_in_a_row_have_a_slot_each(first: int, count: int) -> None:
    words = first + np.random.default_rng(1).permutation(count)
    table = KeyTable([pa.int64()])
    inner = table._columns[0].table
    assert table.encode([pa.array(words)]).tolist() == list(range(count))
    at = np.flatnonzero(inner.slots)
    assert np.ptp(inner.keys[inner.slots[at] - 1] - at) == 0
    beyond = words ^ (1 << 40)
    assert table.encode([pa.array(beyond)]).tolist() == list(range(count, 2 * count))
    assert table.encode([pa.array(np.append(words, beyond))]).tolist() == list(range(2 * count))


@pytest.fixture(scope="module")
def near() -> tuple[pa.Array, list[int], Oracle]:
    """Enough of them for two threads, the codes that they have, and who gave these."""
    rows, oracle = [(None if i % 97 == 50 else i * i % 701,) for i in range(150_000)], Oracle()
    return columns_of(rows, [pa.int64()])[0], oracle.encode(rows), oracle


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("far", [10**15, -(2**63), 2**63 - 1, 8191, -8192])
def test_an_integer_that_lies_far_from_the_others(
    far: int, threads: int, near: tuple[pa.Array, list[int], Oracle]
) -> None:
    array, known, first = near
    table, oracle = KeyTable([pa.int64()]), Oracle(first.keys())
    for more in ([], [(far,), (3,), (None,), (far,)], [(-i,) for i in range(2000)]):
        rows = pa.concat_arrays([array, *columns_of(more, [pa.int64()])])
        assert table.encode([rows], threads=threads).tolist() == known + oracle.encode(more)
    assert [(value,) for value in plain(table.columns(np.arange(len(table)))[0])] == oracle.keys()


@pytest.mark.parametrize("length", [8, 40])
def test_bytes_that_crowd_are_spread_by_another_multiplier(length: int) -> None:
    values = [f"{i:0{length}d}" for i in range(3000)]
    table = KeyTable([pa.string()])
    table._columns[0].table.patience = 1
    for _ in range(2):
        assert table.encode([pa.array([*values, None])]).tolist() == list(range(3001))
    assert table._columns[0].table.multiplier != MIX


@pytest.mark.parametrize("known", [255, 256, 257])
def test_null_comes_when_the_table_is_full(known: int) -> None:
    for values, type in (
        (list(range(known)), pa.int64()),
        ([str(i) for i in range(known)], pa.string()),
    ):
        table = KeyTable([type])
        assert table.encode([pa.array([*values, None, values[0]], type)]).tolist() == [*range(known + 1), 0]
        assert plain(table.columns(np.array([known, 0]))[0]) == [None, values[0]]


@pytest.mark.parametrize("multiplier", [int(MIX), 0])
@pytest.mark.parametrize(("type", "step"), [(pa.binary(), 1), (pa.large_binary(), -1)], ids=str)
def test_values_that_differ_in_a_byte_or_in_length(type: pa.DataType, step: int, multiplier: int) -> None:
    values = [bytes(length) for length in range(70)]
    values += [bytes(at) + b"x" + bytes(length - at - 1) for length in range(70) for at in range(length)]
    values = values[::step]
    table = KeyTable([type])
    inner = table._columns[0].table
    inner.multiplier, inner.patience = np.uint64(multiplier), 10_000  # by 0, all have one hash
    assert table.encode([pa.array(values, type)]).tolist() == list(range(len(values)))
    for code, value in enumerate(values):  # each alone, at the end of its buffer
        assert table.encode([pa.array([value], type)]).tolist() == [code]
    assert inner.multiplier == multiplier


def test_long_values_that_differ_in_one_byte() -> None:
    base = bytes(100_000)
    values = [
        base,
        *(base[:i] + b"x" + base[i + 1 :] for i in (0, 8, 50_001, 99_999)),
        base + b"\0",
        base[1:],
    ]
    table = KeyTable([pa.binary()])
    assert table.encode([pa.array(values + values)]).tolist() == [*range(7), *range(7)]
    assert table.columns(np.arange(7))[0].to_pylist() == values


def test_only_dictionary_values_that_rows_use_are_keys() -> None:
    type = pa.dictionary(pa.int8(), pa.string())
    table = KeyTable([type])
    first = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2, None], pa.int8()), ["c", "unused", "a"])
    again = pa.DictionaryArray.from_arrays(pa.array([1, 3, 0, 2], pa.int8()), pa.array(["a", "a", None, "b"]))
    assert table.encode([first]).tolist() == [1, 0, 1, 2]
    assert table.encode([again]).tolist() == [1, 3, 1, 2]
    assert plain(table.columns(np.arange(4))[0]) == ["c", "a", None, "b"]


@pytest.mark.parametrize("null", [None, 0, 199_999])
@pytest.mark.parametrize("last", [0, 100_000, 199_999])
def test_dictionary_values_are_looked_for_until_all_are_there(null: int | None, last: int) -> None:
    places = np.arange(200_000) % 7
    places[last] = 7
    mask = np.arange(200_000) == (-1 if null is None else null)
    table = KeyTable([pa.dictionary(pa.int32(), pa.int64())])
    values = pa.array(range(10, 19))  # the last one in no row
    array = pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32), mask=mask), values)
    codes = table.encode([array])
    assert table.values(codes)[0].to_pylist() == array.cast(pa.int64()).to_pylist()
    assert len(table) == len(set(array.to_pylist()))
    assert table.encode([array.slice(3)]).tolist() == codes[3:].tolist()


def test_an_ordered_dictionary_stays_ordered() -> None:
    type = pa.dictionary(pa.uint8(), pa.string(), ordered=True)
    table = KeyTable([type])
    table.encode([pa.DictionaryArray.from_arrays(pa.array([0], pa.uint8()), ["a"], ordered=True)])
    assert table.columns(np.array([0]))[0].type == type


def test_integers_are_read_where_they_are() -> None:
    array = pa.array(range(10)).slice(3)
    table = KeyTable([pa.int64()])
    words = table._columns[0]._words(array)
    assert np.shares_memory(words, np.frombuffer(array.buffers()[1], np.int64))
    table.encode([array])
    assert array.to_pylist() == list(range(3, 10))


def test_buffers_need_no_alignment() -> None:
    odd = pa.py_buffer(b"x" + np.array([7, 7, 9], np.int64).tobytes()).slice(1)
    assert KeyTable([pa.int64()]).encode([pa.Array.from_buffers(pa.int64(), 3, [None, odd])]).tolist() == [
        0,
        0,
        1,
    ]


def test_what_null_rows_hold_does_not_matter() -> None:
    table = KeyTable([pa.int64()])
    values = np.arange(1000) % 7
    assert table.encode([pa.array(values, mask=values > 0)]).max() == 1
    assert table.encode([pa.array(values[1:4])]).tolist() == [2, 3, 4]


@pytest.mark.parametrize("type", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("longest", [0, 1, 12, 13])
@pytest.mark.parametrize("null", [False, True])
def test_views_are_the_texts_that_lie_in_them_or_elsewhere(type: pa.DataType, longest: int, null: bool) -> None:
    texts = [f"v{n % 7}"[:length] + "-" * (length - 2) for n in range(600) for length in [n % (longest + 1)]]
    plain = pa.array([None if null and n % 5 == 0 else text for n, text in enumerate(texts)], pa.large_string())
    views = pa.array(texts, pa.string_view())
    _, lying, *elsewhere = views.buffers()
    under_nulls = [plain.buffers()[0], lying, *elsewhere]  # texts that nobody may see
    try:
        views = pa.Array.from_buffers(pa.string_view(), 600, under_nulls).cast(type)
    except ValueError:  # pyarrow 18 makes no views with texts elsewhere
        views = plain.cast(pa.string_view()).cast(type)
    found, expected = KeyTable([type]), KeyTable([pa.large_string()])
    for rows in (slice(3, 300), slice(0, 600)):
        assert found.encode([views[rows]]).tolist() == expected.encode([plain[rows]]).tolist()
    assert plain_texts(found) == plain_texts(expected)


def plain_texts(table: KeyTable) -> list[str | None]:
    return table.columns(np.arange(len(table)))[0].cast(pa.string()).to_pylist()


def test_bytes_shrink_with_the_table() -> None:
    table = KeyTable([pa.int64(), pa.string()])
    empty = table.nbytes
    words = WORDS[:20_000]
    table.encode([pa.array(words), pa.array(words).cast(pa.string())])
    assert table.nbytes > empty + 20_000 * (8 + 20)
    assert table.compact(np.arange(10)).nbytes == empty
    assert len(table.compact(np.empty(0, np.int64))) == 0


@pytest.mark.parametrize("type", [pa.string(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("longest", [0, 1, 8, 9, 16, 17, 24, 25, 31, 32, 40])
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_texts_are_ordered_and_given_back_by_their_bytes(
    type: pa.DataType, longest: int, null: bool, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefixes of one another, zeros at the end, and what differs in its last byte alone."""
    if many:
        monkeypatch.setattr(key_columns, "FEW_KEYS", 0)
        monkeypatch.setattr(key_columns, "FEW_TEXTS", 0)
    sizes = range(longest + 1)
    texts = {end and "a" * size + end for size in sizes for end in ("", "\0", "b")} | {"a" * size for size in sizes}
    values = [text.encode() for text in sorted(texts, key=len, reverse=True) if len(text) <= longest]
    rows: list[bytes | None] = [*values, *([None] if null else []), *values[::2]]
    table = KeyTable([type])
    codes = table.encode([pa.array(rows, pa.large_binary()).cast(type)])
    every = np.arange(len(table))
    expected = [*([None] if null else []), *sorted(values)]
    for asked in (every, every[::-1].copy(), codes[: len(table)].astype(np.int64)):
        found = table.columns(asked[table.order(asked)])[0]
        assert found.type == type
        assert found.cast(pa.large_binary()).to_pylist() == expected
    assert table.columns(codes.astype(np.int64))[0].cast(pa.large_binary()).to_pylist() == rows


def test_ranks_follow_new_keys() -> None:
    table = KeyTable([pa.string()])
    table.encode([pa.array(["m", "b"])])
    assert table.ranks(np.array([0, 1])).tolist() == [1, 0]
    table.encode([pa.array(["a", None, "z"])])
    assert table.ranks(np.array([0, 1, 2, 3, 4])).tolist() == [3, 2, 1, 0, 4]
    assert table.ranks(np.array([4, 2])).tolist() == [1, 0]


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64(), pa.float64(), pa.string()])
def test_new_keys_are_put_among_those_in_order(type: pa.DataType) -> None:
    rng, table = np.random.default_rng(3), KeyTable([type])
    for count in (40, 3, 1, 0, 17):
        table.encode([pa.array(rng.integers(0, 1000, count)).cast(type)])
        codes, values = np.arange(len(table)), table.values(np.arange(len(table)))[0].to_pylist()
        wanted = sorted(codes.tolist(), key=lambda code: values[code])
        assert table.order(codes).tolist() == wanted
        some = rng.integers(0, len(table), 2 * len(table))
        assert codes[some][np.argsort(table.places(some), kind="stable")].tolist() == sorted(
            some.tolist(), key=lambda code: values[code]
        )


@pytest.mark.parametrize(
    ("type", "least", "most"), [("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1), ("int64", -5, 10**6)]
)
def test_many_integers_are_ordered_over_all_of_their_type(type: str, least: int, most: int) -> None:
    rng = np.random.default_rng(5)
    keys = rng.permutation(np.unique(rng.integers(least, most, 30_000, type, endpoint=True)))
    table = KeyTable([pa.from_numpy_dtype(keys.dtype)])
    for some in (keys[:9000], keys):
        table.encode([pa.array(some)])
        assert np.array_equal(keys[table.order(np.arange(len(table)))], np.sort(some))
        for share in (0.3, 0.6, 0.9):
            codes = rng.permutation(len(table))[: int(share * len(table))]
            assert np.array_equal(keys[codes[table.order(codes)]], np.sort(keys[codes]))


def test_no_rows() -> None:
    table = KeyTable([pa.string(), pa.int64()])
    assert table.encode([pa.array([], pa.string()), pa.array([], pa.int64())]).size == 0
    assert [len(column) for column in table.columns(np.empty(0, np.int64))] == [0, 0]


@pytest.mark.parametrize(
    "type",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.list_(pa.int64())),
        pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string())),
        pa.run_end_encoded(pa.int32(), pa.int64()),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name(type: pa.DataType) -> None:
    with pytest.raises(TypeError) as error:
        check_key_type("x", type)
    assert str(error.value) == (
        f"by column 'x' has type {type}, which cannot be a key; allowed are integers, floats, bool, "
        "decimals, dates, times, timestamps, durations, strings, binary and dictionaries of these"
        + ("; decode it with pyarrow.compute.run_end_decode" if pa.types.is_run_end_encoded(type) else "")
        + ("; give its fields as columns" if pa.types.is_struct(type) else "")
    )


def test_a_refused_batch_leaves_no_trace() -> None:
    table = KeyTable([pa.int64(), pa.string()])
    with pytest.raises(TypeError, match="key columns have types int64, int64; allowed are int64, string"):
        table.encode([pa.array([1]), pa.array([1])])
    with pytest.raises(ValueError, match="key columns have 1, 2 rows; they must be equally long"):
        table.encode([pa.array([1]), pa.array(["a", "b"])])
    assert len(table) == 0
    assert table.encode([pa.array([2]), pa.array(["c"])]).tolist() == [0]


def test_more_keys_than_a_dictionary_can_index() -> None:
    type = pa.dictionary(pa.int8(), pa.int64())
    table = KeyTable([type])
    for begin in (0, 100):
        values = pa.array(range(begin, begin + 100))
        table.encode([pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)])
    assert plain(table.columns(np.arange(128))[0]) == list(range(128))
    some = table.columns(np.arange(200))[0]  # more than one dictionary can hold: each chunk has its own
    assert some.type == type and some.num_chunks == 2
    assert [key for chunk in some.chunks for key in plain(chunk)] == list(range(200))


@pytest.mark.parametrize("seed", range(4))
def test_many_keys_of_several_columns_are_in_order(seed: int) -> None:
    """So many that they are sorted by words: column by column, null first, NaN last."""
    rng, size = np.random.default_rng(seed), 2 * FEW_CELLS
    near, far = rng.integers(0, 9, size), rng.integers(0, 1 << 64, size, np.uint64, endpoint=False)
    floats = rng.choice([-1.5, -0.0, 2.0, np.inf, -np.inf, np.nan], size)
    columns = [
        pa.array(far >> np.uint64(seed % 2 * 30), mask=rng.random(size) < 0.1),
        pa.array(floats, mask=rng.random(size) < 0.1, from_pandas=False),
        pa.array([f"text {i % 7 * 1000 + i % 5}" for i in near.tolist()], mask=rng.random(size) < 0.1),
        pa.array(rng.integers(0, 3000, size), mask=rng.random(size) < 0.1),
        pa.array(near > 4, mask=rng.random(size) < 0.1),
    ]
    columns = [columns[at] for at in rng.permutation(len(columns))]
    table = KeyTable([column.type for column in columns])
    table.encode_values(columns)
    order = table.order(np.arange(len(table)))
    rows = list(zip(*(column.to_pylist() for column in table.values(order)), strict=True))
    assert len(rows) > FEW_CELLS
    ranked = [[(0,) if v is None else (2,) if v != v else (1, v) for v in row] for row in rows]
    assert ranked == sorted(ranked)
    assert np.array_equal(table.ranks(np.arange(len(table))), np.argsort(order))
