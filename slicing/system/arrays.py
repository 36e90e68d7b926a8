"""Types of arrays, by name, and an empty array."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]  # times, words, positions
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]  # of keys: there are never 2**31 of them
Bytes = npt.NDArray[np.uint8]
Unsigned = npt.NDArray[np.uint64]
Array = npt.NDArray[Any]

NONE: Ints = np.empty(0, np.int64)
