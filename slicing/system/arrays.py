"""Types of arrays, by name; limits of integers; an empty array; arrays as kernels take them."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]  # times, words, positions
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]  # of keys: there are never 2**31 of them
Bytes = npt.NDArray[np.uint8]
Unsigned = npt.NDArray[np.uint64]
Array = npt.NDArray[Any]
Item = TypeVar("Item", bound=np.generic)

LEAST, MOST = -(1 << 63), (1 << 63) - 1  # of 64-bit integers
NONE: Ints = np.empty(0, np.int64)


def read_only(column: npt.NDArray[Item]) -> npt.NDArray[Item]:
    """A contiguous view that cannot be written to: the kernel is compiled for one type only."""
    view = np.ascontiguousarray(column).view()
    view.setflags(write=False)
    return view
