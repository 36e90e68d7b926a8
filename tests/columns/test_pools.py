"""Ranks of texts in sorted pools: long columns are encoded by the tables of keys, short ones by Arrow."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import slicing as sl
from slicing.columns import pools

AGGS = {
    "least": sl.min("s"),
    "most": sl.max("s"),
    "first": sl.first("s"),
    "last": sl.last("s"),
    "some": sl.count_distinct("s"),
    "about": sl.approx_count_distinct("s"),
    "top": sl.argmax("v", "s"),
}


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()], ids=str
)
@pytest.mark.parametrize("distinct", [1, 30, 5000])
def test_long_columns_are_answered_as_short_ones(
    type: pa.DataType, distinct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, rows = random.Random(f"{type} {distinct}"), 3 * pools.FEW_TEXTS
    words = [None, "", "ä", *(f"{chance.random():.{chance.randint(1, 40)}f}" for _ in range(distinct))]
    texts = pa.array([chance.choice(words) for _ in range(rows)]).cast(type)
    times = 1_700_000_000_000_000_000 + np.arange(rows)
    table = pa.table({"t": times, "k": times % 3, "s": texts, "v": [chance.random() for _ in range(rows)]}).slice(7)
    spec = sl.Spec("t", {"w": sl.tumbling(5 * rows // 6), "r": sl.rows(1000)}, AGGS, by="k")
    long = sl.aggregate(table, spec)
    op = sl.Operator(spec)
    pushed = [op.push(table.slice(at, 5000)).windows for at in range(0, rows, 5000)]
    monkeypatch.setattr(pools, "FEW_TEXTS", rows)
    assert long.equals(sl.aggregate(table, spec)) and long["first"].null_count < long.num_rows
    order = [(name, "ascending") for name in ("window", "k", "window_end")]
    assert pa.concat_tables([*pushed, op.flush().windows]).sort_by(order).equals(long.sort_by(order))


@pytest.mark.parametrize("values", [["b", "a", "b"], ["b", None, "a"], [None, None], []], ids=str)
def test_a_dictionary_has_the_values_of_its_column(values: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "FEW_TEXTS", 0)
    column = pa.array(values, pa.string())
    found = pools.encoded(column)
    assert found.to_pylist() == values
    assert len(set(found.dictionary.to_pylist())) == len(found.dictionary)
