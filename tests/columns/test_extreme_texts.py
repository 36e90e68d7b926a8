"""The least and the largest texts of slices, found without telling all texts apart: what each window's rows give."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.stages import read

BEGUN, ROWS = 1_700_000_000_000_000_000, 4000
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]
LEAST = {"lo": sl.min("s")}
LARGEST = {"hi": sl.max("s")}


def a_text(rng: random.Random) -> str:
    """Of any length, most with what others begin with; zero bytes, and bytes of 128 and more."""
    return rng.choice(
        [
            "",
            f"user{rng.randrange(10**6):06}",
            "https://example.org/" + "".join(rng.choices("ab", k=rng.randrange(30))),
            "".join(rng.choices("a\0b", k=rng.randrange(14))),
            "".join(rng.choices("éa漢", k=rng.randrange(8))),
            "abcdefgh" + "".join(rng.choices("\0i", k=rng.randrange(3))),
        ]
    )


@pytest.fixture
def thinned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were left of each column."""
    found: list[int] = []
    plain = read.with_extremes

    def counted(*given: Any) -> pa.Array:
        column = plain(*given)
        found.append(len(column.dictionary) if pa.types.is_dictionary(column.type) else len(column))
        return column

    monkeypatch.setattr(read, "with_extremes", counted)
    return found


def pushed(texts: pa.Array, spec: sl.Spec, cuts: list[int]) -> list[dict[str, Any]]:
    """The results of rows one tick apart, pushed in pieces."""
    data = pa.record_batch({"t": BEGUN + np.arange(len(texts)), "s": texts})
    op = sl.Operator(spec)
    bounds = [0, *cuts, len(texts)]
    found = [op.push(data.slice(at, end - at)).windows for at, end in pairwise(bounds)]
    return pa.concat_tables([*found, op.flush().windows]).to_pylist()


@pytest.mark.parametrize("aggs", [LEAST, LARGEST, {**LEAST, **LARGEST, "n": sl.count("s")}], ids=list)
@pytest.mark.parametrize("missing", [0, 0.5, 0.99])
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_each_window_has_its_own_extremes(
    type: pa.DataType, missing: float, aggs: dict[str, sl.Aggregate], thinned: list[int]
) -> None:
    rng = random.Random(5)
    given = [None if rng.random() < missing else a_text(rng).encode() for _ in range(ROWS)]
    is_text = type in (pa.string(), pa.large_string(), pa.string_view())
    texts = pa.array(given, pa.binary()).cast(pa.string() if is_text else pa.binary()).cast(type)
    windows = {"ten": sl.tumbling(100), "more": sl.sliding(300, every=100)}
    spec = sl.Spec("t", windows, aggs, watermark=sl.ordered())
    found, given = pushed(texts.slice(3), spec, [1, 1250]), given[3:]
    assert thinned[1] <= 2 * 14 and thinned[2] <= 2 * 29
    for row in found:
        low, high = (max(row[edge] - BEGUN, 0) for edge in ("window_start", "window_end"))
        some = sorted(text for text in given[low:high] if text is not None)
        shown = [text.decode() for text in some] if is_text else some
        expected = {"n": len(some), "lo": shown[0] if some else None, "hi": shown[-1] if some else None}
        assert {name: row[name] for name in aggs} == {name: expected[name] for name in aggs}


@pytest.mark.parametrize(
    "asked, by",
    [
        ({**LEAST, "d": sl.count_distinct("s")}, []),
        ({**LEAST, "f": sl.first("s")}, []),
        ({"lo": sl.min("s").where("flag")}, []),
        ({**LEAST, "at": sl.argmin("s", "t")}, []),
        (LEAST, ["k"]),
    ],
    ids=["told apart", "taken", "of some rows", "others at it", "by key"],
)
def test_columns_of_which_more_is_read_keep_all_texts(
    asked: dict[str, sl.Aggregate], by: list[str], thinned: list[int]
) -> None:
    rng = random.Random(6)
    texts = [a_text(rng) for _ in range(ROWS)]
    flag, key = np.arange(ROWS) % 3 == 0, np.arange(ROWS) % 2
    data = pa.table({"t": BEGUN + np.arange(ROWS), "s": texts, "flag": flag, "k": key})
    found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(100)}, asked, by=by), threads=1).to_pylist()
    assert not thinned
    assert len(found) == -(-(BEGUN % 100 + ROWS) // 100) * (2 if by else 1)
    for row in found:
        rows = range(max(row["window_start"] - BEGUN, 0), min(row["window_end"] - BEGUN, ROWS))
        some = [at for at in rows if (not by or key[at] == row["k"])]
        some = [at for at in some if flag[at]] if asked["lo"].flag else some
        assert row["lo"] == min((texts[at] for at in some), key=str.encode)
        if "d" in asked:
            assert row["d"] == len({texts[at] for at in some})
        if "f" in asked:
            assert row["f"] == texts[some[0]]


@pytest.mark.parametrize("shuffled", [False, True])
def test_few_rows_a_slice_and_rows_out_of_order_keep_all_texts(shuffled: bool, thinned: list[int]) -> None:
    rng = random.Random(7)
    texts = [a_text(rng) for _ in range(ROWS)]
    at = np.random.default_rng(0).permutation(ROWS) if shuffled else np.arange(ROWS)
    data = pa.table({"t": BEGUN + at, "s": [texts[i] for i in at]})
    found = sl.aggregate(data, sl.Spec("t", {"w": sl.tumbling(100 if shuffled else 2)}, LEAST), threads=1).to_pylist()
    assert thinned == ([] if shuffled else [ROWS])
    for row in found:
        low, high = (max(row[edge] - BEGUN, 0) for edge in ("window_start", "window_end"))
        assert row["lo"] == min(texts[low:high], key=str.encode)
