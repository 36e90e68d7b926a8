"""Windows of rows that follow each other at every so many rows, straight from columns: against numpy's own windows."""

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.api import all_windows
from slicing.query.policy import Policy

SIZE = 400
BEGUN = 1_700_000_000_000_000_000
AGGS = {"n": sl.count(), "s": sl.sum("v"), "m": sl.mean("v"), "lo": sl.min("v"), "hi": sl.max("v")}
TYPES = ["int8", "uint8", "int16", "uint32", "int32", "int64", "float64"]
STEPS = [(8, 1), (1, 1), (64, 1), (7, 2), (8, 3), (5, 4), (3, 7), (900, 1)]


FEW = Policy(step_rows=100)  # rows at a time


def aggregate(data, spec):
    return all_windows(data, spec, None, policy=FEW)


def column(type, rng, rows=SIZE):
    if type == "float64":
        return rng.normal(size=rows)
    ends = np.iinfo(type)
    return rng.integers(ends.min, ends.max, rows, type, endpoint=True)


def expected(time, x, n, every):
    """Python's integers, which have no end."""
    found = []
    for low in range(0, x.size - n + 1, every):
        rows = x[low : low + n].tolist()
        total = sum(rows)
        found.append((time[low], time[low + n - 1], low, low + n, n, total, total / n, min(rows), max(rows)))
    return found


def told(windows):
    columns = [windows[name].to_pylist() for name in windows.column_names if name not in ("window", "k")]
    return list(zip(*columns, strict=True))


def agree(found, wanted):
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours[:5] == theirs[:5] and ours[7:] == theirs[7:]
        assert ours[5:7] == pytest.approx(theirs[5:7], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("type", TYPES)
def test_every_type_and_step(type):
    rng = np.random.default_rng(TYPES.index(type))
    time, x = BEGUN + np.sort(rng.integers(0, 3 * SIZE, SIZE)), column(type, rng)
    if type == "int64":
        x >>= 12  # whose sums of 900 fit
    data = pa.table({"t": time, "v": x})
    for n, every in STEPS:
        wanted = expected(time.tolist(), x, n, every)
        spec = sl.Spec("t", {"w": sl.rows(n, every=every)}, AGGS)
        agree(told(aggregate(data, spec)), wanted)
        few = {name: AGGS[name] for name in ("s", "hi")}
        some = aggregate(data, sl.Spec("t", {"w": sl.rows(n, every=every)}, few))
        assert some["hi"].to_pylist() == [w[8] for w in wanted]
        assert some["s"].to_pylist() == pytest.approx([w[5] for w in wanted], rel=1e-12, abs=1e-12)


def test_sums_of_words_need_128_bits_on_the_way():
    x = np.array([2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 5, 2**63 - 1, 2**63 - 1] * 40)
    data = pa.table({"t": np.arange(x.size), "v": x})
    spec = sl.Spec("t", {"w": sl.rows(2)}, {"s": sl.sum("v"), "m": sl.mean("v")}, on_overflow="null")
    dense = sl.Spec("t", {"w": sl.rows(2, every=1)}, spec.aggs, on_overflow="null")
    totals = [a + b for a, b in zip(x[:-1].tolist(), x[1:].tolist(), strict=True)]
    fits = [total if abs(total) < 2**63 else None for total in totals]
    assert aggregate(data, dense)["s"].to_pylist() == fits
    assert aggregate(data, dense)["m"].to_pylist() == [total / 2 for total in totals]
    assert aggregate(data, spec)["s"].to_pylist() == fits[::2]


@pytest.mark.parametrize("watermark", [sl.ordered(), sl.bounded(40), sl.manual()])
@pytest.mark.parametrize("by", [(), "k"])
def test_pushes_of_any_size(watermark, by):
    rng = np.random.default_rng(3)
    time, x = BEGUN + np.sort(rng.integers(0, SIZE, SIZE)), rng.integers(-9, 9, SIZE).astype(np.int32)
    data = pa.table({"t": time, "v": x, "k": np.zeros(SIZE, np.int64)})
    for n, every in STEPS[:-1]:
        spec = sl.Spec("t", {"w": sl.rows(n, every=every)}, AGGS, by=by, watermark=watermark)
        op, found, at = sl.Operator(spec, policy=FEW), [], 0
        while at < SIZE:
            size = int(rng.integers(1, 150))
            found.append(op.push(data.slice(at, size)).windows)
            at += size
            if isinstance(watermark, type(sl.manual())) and at < SIZE:
                found.append(op.advance(int(time[at])).windows)
            if rng.random() < 0.2:
                op = sl.Operator.restore(spec, op.snapshot(), policy=FEW)
        found.append(op.flush().windows)
        assert sum(part.num_rows > 0 for part in found) > 3
        agree(told(pa.concat_tables(found)), expected(time.tolist(), x, n, every))


def test_nulls_are_in_windows_and_not_in_sums():
    rng = np.random.default_rng(4)
    x, missing = rng.integers(-9, 9, SIZE).astype(np.int32), rng.random(SIZE) < 0.6
    data = pa.table({"t": np.arange(SIZE), "v": pa.array(x, mask=missing)})
    spec = sl.Spec("t", {"w": sl.rows(3, every=1)}, AGGS | {"held": sl.count("v")})
    found = aggregate(data, spec)
    rows = [
        [int(v) for v, gone in zip(x[i : i + 3], missing[i : i + 3], strict=True) if not gone] for i in range(SIZE - 2)
    ]
    assert found["n"].to_pylist() == [3] * (SIZE - 2)
    assert found["held"].to_pylist() == list(map(len, rows))
    assert found["s"].to_pylist() == [sum(some) if some else None for some in rows]
    assert found["m"].to_pylist() == [sum(some) / len(some) if some else None for some in rows]
    assert found["hi"].to_pylist() == [max(some) if some else None for some in rows]


def test_per_row_sums_of_narrow_and_wide_words():
    rng = np.random.default_rng(5)
    time = np.cumsum(rng.integers(0, 4, SIZE))
    for type in ("int16", "int64"):
        x = column(type, rng) >> 8
        found = aggregate(pa.table({"t": time, "v": x}), sl.Spec("t", {"w": sl.per_row(9)}, AGGS))
        held = [x[(time > t - 9) & (time <= t)].tolist() for t in time]
        assert found["s"].to_pylist() == [sum(rows) for rows in held]
        assert found["m"].to_pylist() == pytest.approx([sum(rows) / len(rows) for rows in held], rel=1e-12)
        assert found["lo"].to_pylist() == [min(rows) for rows in held]
