"""``as_numpy`` reads columns as Arrow's own ``to_numpy`` does, which would import pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slicing.columns.bits import as_numpy

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?"]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("rows", [0, 1, 77])
def test_columns_pieces_of_columns_and_columns_in_pieces(name: str, rows: int) -> None:
    type = np.dtype(name)
    numbers = np.frombuffer(np.random.default_rng(rows).bytes(rows * type.itemsize), type)  # of any size
    if type.kind in "fb":
        numbers = np.nan_to_num(numbers.astype(np.float64)).astype(type) if type.kind == "f" else numbers.view("i1") > 0
    array = pa.array(numbers)
    pieces = pa.chunked_array([array.slice(0, rows // 3), array.slice(rows // 3)], type=array.type)
    for column in (array, array.slice(rows // 2), array.slice(3, 9), pieces, pieces.slice(rows // 2)):
        found = as_numpy(column)
        assert found.dtype == type
        assert found.tolist() == column.to_pylist()
    nothing = as_numpy(pa.chunked_array([], type=array.type))
    assert (nothing.dtype, nothing.size) == (type, 0)
