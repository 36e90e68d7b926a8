"""Values at places, with places that are -1, and values that are null."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import slicing as sl
from slicing.joins.places import Places

TYPES = [pa.int64(), pa.float64(), pa.timestamp("ns", "UTC"), pa.duration("us"), pa.int32(), pa.string(), pa.bool_()]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_values_at_places(type: pa.DataType) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size, wanted = rng.integers(0, 40, 2)
        most = 2 if pa.types.is_boolean(type) or type == pa.int32() or seed % 2 else 1 << 62
        numbers = [None if rng.random() < (seed % 3) / 4 else int(x) for x in rng.integers(0, most, size)]
        column = pa.array([None if x is None else bool(x) for x in numbers], pa.bool_())
        if type != pa.bool_():
            column = pa.array(numbers, pa.int64()).cast(type, safe=False)
        first = int(rng.integers(0, size + 1))
        values = column[first:].to_pylist()
        places = np.full(wanted, -1) if not values else rng.integers(-(seed % 2), len(values), wanted)
        taken = Places(places).take(column.slice(first))
        taken.validate(full=True)
        assert taken.to_pylist() == [None if at < 0 else values[at] for at in places]
        assert taken.null_count == taken.to_pylist().count(None)
        several = Places(places).take(pa.chunked_array([column.slice(first, 1), column[first + 1 :]], type))
        assert several.to_pylist() == taken.to_pylist()


NOW = 1_790_000_000_000_000_000  # in nanoseconds
TEXTS = [None, "", "x", "at most 12 b", "longer than twelve bytes", "\u00e4\u00f6\u00fc \u20ac and more", "y" * 300]


def texts(rng: np.random.Generator, size: int) -> pl.Series:
    return pl.Series(rng.choice(np.array(TEXTS, object), size).tolist(), dtype=pl.String)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti", "last", "nearest", "features"])
def test_texts_of_polars_are_taken_as_they_are(how: str) -> None:
    """Results as Polars frames, whose texts are never copied, against results as Arrow tables."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sizes, base = rng.integers(0, 30, 2) + 3, NOW * (seed % 5 > 0)
        left, right = (
            pl.DataFrame(
                {
                    "t": base + (np.sort(rng.integers(0, 40, n)) if seed % 2 else rng.integers(0, 40, n)),
                    "k": texts(rng, n),
                    name: texts(rng, n),
                    "both": texts(rng, n).cast(pl.Binary) if seed % 3 else texts(rng, n),
                }
            ).slice(3)
            for name, n in zip(("a", "b"), sizes, strict=True)
        )
        on = [[], ["k"]][seed % 4 // 2]

        def ask(returns: str, left: pl.DataFrame = left, right: pl.DataFrame = right, on: list[str] = on) -> Any:
            if how == "features":
                aggs = {"last": sl.last("b"), "n": sl.count_distinct("both")}
                return sl.features(left, right, on=on, time="t", ranges={"r": 9}, aggs=aggs, returns=returns)
            within, match = ((None, 9), how) if how in ("last", "nearest") else ((4, 4), "all")
            kind = "left" if match != "all" else how
            return sl.join(left, right, on=on, time="t", within=within, match=match, how=kind, returns=returns)

        plain, found = ask("arrow"), ask("polars")
        assert found.columns == plain.column_names
        assert [found[name].to_list() for name in found.columns] == [column.to_pylist() for column in plain.columns]
        assert found.schema == pl.DataFrame(plain).schema
