"""Values at places, with places that are -1, and values that are null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slicing.joins.places import Places

TYPES = [pa.int64(), pa.float64(), pa.timestamp("ns", "UTC"), pa.duration("us"), pa.int32(), pa.string(), pa.bool_()]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_values_at_places(type: pa.DataType) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size, wanted = rng.integers(0, 40, 2)
        numbers = [None if rng.random() < (seed % 3) / 4 else int(x) for x in rng.integers(0, 2, size)]
        column = pa.array([None if x is None else bool(x) for x in numbers], pa.bool_())
        if type != pa.bool_():
            column = column.cast(pa.int32() if type == pa.int32() else pa.int64()).cast(type)
        first = int(rng.integers(0, size + 1))
        values = column[first:].to_pylist()
        places = np.full(wanted, -1) if not values else rng.integers(-(seed % 2), len(values), wanted)
        taken = Places(places).take(column.slice(first))
        taken.validate(full=True)
        assert taken.to_pylist() == [None if at < 0 else values[at] for at in places]
        assert taken.null_count == taken.to_pylist().count(None)
        several = Places(places).take(pa.chunked_array([column.slice(first, 1), column[first + 1 :]], type))
        assert several.to_pylist() == taken.to_pylist()
