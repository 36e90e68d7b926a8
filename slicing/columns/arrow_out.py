"""Columns out: numbers and texts as Arrow arrays.

``pyarrow.array`` imports pandas wherever that is installed, a seventh of a second of a first query, and takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


def array_of(numbers: npt.NDArray[Any], null: Mask | None = None) -> pa.Array:
    """Numbers or booleans as they are, in their memory where that is in one piece; null where ``null`` says so."""
    if numbers.dtype == np.bool_:
        type, data = pa.bool_(), np.packbits(numbers, bitorder="little")
    else:
        type, data = pa.from_numpy_dtype(numbers.dtype), np.ascontiguousarray(numbers)
    if null is None or not null.any():
        return pa.Array.from_buffers(type, numbers.size, [None, pa.py_buffer(data)], null_count=0)
    valid = np.packbits(~null, bitorder="little")
    return pa.Array.from_buffers(type, numbers.size, [pa.py_buffer(valid), pa.py_buffer(data)])


def texts(values: Sequence[str]) -> pa.Array:
    """Strings, none of them null."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def repeated(value: str, count: int) -> pa.Array:
    """One string so many times: 0.2 ns each, 1.8 by Arrow."""
    encoded = value.encode()
    ends = np.arange(count + 1, dtype=np.int32)
    ends *= len(encoded)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(encoded * count))
