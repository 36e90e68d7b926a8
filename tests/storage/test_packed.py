"""Runs of cells at rest take few bytes, and are the same cells."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.cells.lanes import COUNTS_ALL, Feed, Lane
from slicing.cells.packed import Packed, Written, written
from slicing.cells.table import Cells
from slicing.kernels.combine import BASIC_I, MOMENTS
from slicing.query.policy import Policy

START = 1_700_000_000 * 10**9
TOP, BOTTOM = 2**63 - 1, -(2**63)
LANES = [COUNTS_ALL, Lane(BASIC_I, (Feed("v", "int"),), None), Lane(MOMENTS, (Feed("v", "float"),), None)]


def table(rng: np.random.Generator, slices: int, most_rows: int, span: int) -> Cells:
    """Some cells of each slice; ``span``: of the words of partials."""
    each = rng.integers(1, 9, slices)
    end = np.repeat(START - 40 * 365 * 86_400 * 10**9 + np.cumsum(rng.integers(1, 10**17, slices)), each)
    code = np.concatenate([np.sort(rng.choice(1000, size, replace=False)) for size in each])
    rows = rng.integers(1, most_rows, end.size)
    blocks = [rows[:, None].copy()]
    for words in (5, 3):
        block = rng.integers(-span, span, (end.size, words)) if span > 1 else np.zeros((end.size, words), np.int64)
        block[:, 0] = rows - (rng.random(end.size) < 0.1 * (words == 3))
        blocks.append(block)
    return Cells(np.stack([end, code, rows], axis=1), tuple(blocks))


def same(one: Cells, other: Cells) -> None:
    assert len(one) == len(other) == len(one.meta)
    assert np.array_equal(one.meta, other.meta)
    assert all(np.array_equal(a, b) for a, b in zip(one.blocks, other.blocks, strict=True))
    for name in ("end", "code", "rows", "slice_ends"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.slices(), other.slices())


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("span", [1, 1000, 2**31, 2**62])
@pytest.mark.parametrize("most_rows", [2, 300, 2**40])
def test_cells_that_are_packed_are_the_same(wide: bool, span: int, most_rows: int) -> None:
    rng = np.random.default_rng(span % 97 + most_rows % 97)
    cells = table(rng, 40, most_rows, span)
    packed = Packed.of(cells, LANES, wide)
    same(packed, cells)
    assert packed.rested() is packed
    same(packed, cells)
    for _ in range(20):
        first, last = sorted(rng.integers(0, len(cells) + 1, 2).tolist())
        packed.rested()
        same(packed.take(slice(first, last)), cells.take(slice(first, last)))
        inner = slice(int(rng.integers(0, last - first + 1)), None)
        same(packed.take(slice(first, last)).take(inner), cells.take(slice(first, last)).take(inner))
        some = rng.random(len(cells)) < 0.3
        same(packed.take(some), cells.take(some))
    times = np.append(cells.slice_ends + rng.integers(-1, 2, cells.slice_ends.size), [BOTTOM, TOP])
    assert np.array_equal(packed.until(times), cells.until(times))
    assert packed.until(int(times[3])) == cells.until(int(times[3]))
    after, until = sorted(rng.choice(times, 2).tolist())
    same(packed.ending(after, until), cells.ending(after, until))
    parts = packed.since(after), cells.since(after)
    assert (parts[0] is None) == (parts[1] is None)
    if parts[0] is not None and parts[1] is not None:
        same(*parts)
        same(parts[0].ending(after, until), parts[1].ending(after, until))
    code = rng.permutation(1000)
    same(packed.like(packed.with_meta(1, code[packed.code])), cells.with_meta(1, code[cells.code]))


def test_values_at_both_ends_of_a_word_are_kept() -> None:
    block = np.array([[1, TOP, BOTTOM, TOP, BOTTOM], [1, BOTTOM, BOTTOM, -1, BOTTOM + 2**32 - 1]], np.int64)
    meta = np.array([[START, 0, 1], [START, 2**40, 1]])
    cells = Cells(meta, (meta[:, 2:].copy(), block, np.zeros((2, 3), np.int64)))
    packed = Packed.of(cells, LANES, wide=True)
    same(packed, cells)
    assert packed.sizes()[1] - 24 == 2 * (8 + 8 + 0 + 8 + 4)  # codes, and of the block words 1, 3 and 4
    frozen = Cells(cells.meta, tuple(np.frombuffer(b.tobytes(), np.int64).reshape(b.shape) for b in cells.blocks))
    same(Packed.of(frozen, LANES, wide=True), cells)  # as cells of another process come


@pytest.mark.parametrize("span", [1, 2**31, 2**62])
def test_cells_are_read_as_they_were_written(span: int) -> None:
    cells = table(np.random.default_rng(span % 97), 40, 300, span)
    section = b"".join(written(cells))
    for one in (
        cells,
        Cells(cells.meta, (*cells.blocks[:2], cells.blocks[2].copy("F"))),
        Packed.of(cells, LANES, True),
    ):
        assert b"".join(written(one)) == section
    found = Written(memoryview(b"odd" + section)[3:], [1, 5, 3])  # at any place of a file
    same(Cells(found.meta(), found.blocks()), cells)
    assert bytes(found.section) == section
    some = cells.take(slice(0, 1))
    found = Written(b"".join(written(some)), [1, 5, 3])
    same(Cells(found.meta(), found.blocks()), some)


def test_cells_that_say_what_is_not_there_are_refused() -> None:
    """Whatever a file says, nothing is read past its end."""
    cells = table(np.random.default_rng(1), 6, 300, 2**62)
    section, refused = b"".join(written(cells)), 0
    for at in range(6 + 2 * 6 + 12):  # sizes, slices, where words are
        for value in (-(2**62), -9, -1, 0, 1, 3, 2**31, 2**62):
            crafted = bytearray(section)
            struct.pack_into("<q", crafted, 8 * at, value)
            try:
                found = Written(bytes(crafted), [1, 5, 3])
            except ValueError:
                refused += 1
                continue
            assert len(found.meta()) == len(found.blocks()[1]) == found.size == len(cells)
    assert refused > 100
    for size in (0, 8, 47, 48, 100, len(section) - 1):
        with pytest.raises(ValueError, match=r"cells are (cut off|not as many bytes)"):
            Written(section[:size], [1, 5, 3])
    with pytest.raises(ValueError, match="not as many bytes"):
        Written(section, [1, 5, 4])


QUERIES: dict[str, dict[str, Any]] = {
    "tumbling": {"windows": {"w": sl.tumbling("10s")}},
    "sliding": {"windows": {"w": sl.sliding("20s", every="5s")}},
    "both, late rows": {
        "windows": {"t": sl.tumbling("15s"), "s": sl.sliding("30s", every="10s")},
        "allowed_lateness": "10s",
        "emit": "updates",
    },
}


@pytest.mark.parametrize("words", [0, 100])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_streams_are_answered_the_same(query: dict[str, Any], words: int) -> None:
    """With keys that come and go, so that codes are given again, and a restart."""
    rng = np.random.default_rng(len(str(query)))
    aggs = {"n": sl.count(), "total": sl.sum("v"), "low": sl.min("x"), "spread": sl.std("x"), "last": sl.last("v")}
    spec = sl.Spec("t", aggs=aggs, by=["k"], watermark=sl.bounded("3s"), **query)
    never = Policy(packed_cells=1 << 60)
    always = Policy(packed_keys=8, packed_cells=8, packed_slice=2, packed_words=words, packed_pushes=(0.0, 0.0))
    plain, packed, kinds = sl.Operator(spec, policy=never), sl.Operator(spec, policy=always), set()
    for push in range(40):
        time = START + push * 2 * 10**9 - rng.integers(0, 8 * 10**9, 300)
        value = rng.integers(BOTTOM // 2**20, TOP // 2**20, 300) >> rng.integers(0, 40)
        rows = {"t": pa.array(time, pa.timestamp("ns")), "k": push * 50 + rng.integers(0, 200, 300), "v": value}
        batch = pa.record_batch(rows | {"x": pa.array(rng.normal(size=300), mask=rng.random(300) < 0.1)})
        wanted, found = plain.push(batch), packed.push(batch)
        assert found.windows.equals(wanted.windows) and found.late.equals(wanted.late)
        assert found.stats.cells == wanted.stats.cells and found.stats.slices == wanted.stats.slices
        kinds |= {type(run) for run in packed._now.store.runs}
        assert not {type(run) for run in plain._now.store.runs} & {Packed}
        if push == 20:
            plain = sl.Operator.restore(spec, plain.snapshot(), policy=never)
            packed = sl.Operator.restore(spec, packed.snapshot(), policy=always)
    assert packed.flush().windows.equals(plain.flush().windows)
    assert Packed in kinds


def held(aggs: dict[str, sl.Aggregate], value: np.ndarray) -> float:
    """Bytes a cell of a stream of windows of 10 s by 1 s, a push a second, without the table of keys."""
    spec = sl.Spec("t", {"w": sl.sliding("10s", every="1s")}, aggs, by=["k"], watermark=sl.ordered())
    op, rng, size = sl.Operator(spec), np.random.default_rng(1), value.size
    for push in range(35):
        time = np.sort(rng.integers(0, 10**9, size)) + START + push * 10**9
        rows = {"t": pa.array(time, pa.timestamp("ns")), "k": rng.integers(0, 20_000, size)}
        out = op.push(pa.record_batch(rows | {"v": value, "w": np.roll(value, push)}))
    assert op._now.keys is not None
    return (out.stats.bytes - op._now.keys.nbytes) / out.stats.cells


def test_bytes_a_cell_are_few() -> None:
    rng = np.random.default_rng(2)
    small, prices = rng.integers(40, 1500, 3000), rng.normal(100, 5, 3000)
    narrow = {"n": sl.count(), "total": sl.sum("v")}
    assert held(narrow, small) < 44
    assert held(narrow, prices) < 44
    wide = {c + f: getattr(sl, f)(c) for c in "vw" for f in ("sum", "min", "max", "std")}
    assert held(wide, small) < 60  # 160 as they were; a row is 32


def test_cells_of_one_row_are_packed_by_themselves() -> None:
    """Cells of one row take less than the row would, 32 bytes."""
    spec = sl.Spec(
        *("t", {"w": sl.tumbling("1s")}),
        {c + f: getattr(sl, f)(c) for c in "vw" for f in ("sum", "min", "max", "std")},
        by=["k"],
        watermark=sl.ordered(),
    )
    policies = Policy(packed_pushes=(0.0, 0.0)), Policy(packed_cells=1 << 60)
    rng, ops = np.random.default_rng(3), [sl.Operator(spec, policy=policy) for policy in policies]
    for push in range(6):
        key = np.append(np.arange(4000), rng.integers(4000, 4100, 1000)) + 10_000 * push
        time = np.sort(rng.integers(0, 10**9, 5000)) + START + push * 10**9
        rows = {"t": pa.array(time, pa.timestamp("ns")), "k": rng.permutation(key), "v": rng.integers(0, 1000, 5000)}
        found, wanted = (op.push(pa.record_batch(rows | {"w": rows["v"] + push})) for op in ops)
        assert found.windows.equals(wanted.windows)
    state = ops[0]._now
    assert state is not None and state.keys is not None
    (run,) = state.store.runs
    assert isinstance(run, Packed)
    assert (found.stats.bytes - state.keys.nbytes) / found.stats.cells < 32
    assert ops[0].flush().windows.equals(ops[1].flush().windows)


@pytest.mark.parametrize(("rows", "ones", "is_packed"), [(8000, 700, True), (8000, 1200, False), (700, 600, False)])
def test_open_slices_of_wide_cells_are_packed_if_they_are_few_for_a_push(rows: int, ones: int, is_packed: bool) -> None:
    """Their cells leave with the next push, so packing them must be cheap beside it."""
    aggs = {c + f: getattr(sl, f)(c) for c in "vw" for f in ("sum", "min", "max", "std")}
    spec = sl.Spec("t", {"w": sl.tumbling("1s")}, aggs, by=["k"], watermark=sl.ordered())
    rng, ops = np.random.default_rng(ones), [sl.Operator(spec), sl.Operator(spec, policy=Policy(packed_cells=1 << 60))]
    for push in range(4):
        key = np.append(np.arange(ones), rng.integers(ones, ones + 50, rows - ones)) + 10_000 * (push // 2)
        time = np.sort(rng.integers(0, 10**9, rows)) + START + push * 10**9
        columns = {"t": pa.array(time, pa.timestamp("ns")), "k": rng.permutation(key), "v": rng.integers(0, 999, rows)}
        found, wanted = (op.push(pa.record_batch(columns | {"w": columns["v"] + push})) for op in ops)
        assert found.windows.equals(wanted.windows)
        (run,) = ops[0]._now.store.runs
        assert isinstance(run, Packed) == is_packed
        assert (found.stats.bytes < wanted.stats.bytes - 90 * found.stats.cells) == is_packed
    assert ops[0].flush().windows.equals(ops[1].flush().windows)
