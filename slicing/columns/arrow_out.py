"""Output: numbers and texts as Arrow arrays.

``pyarrow.array`` imports pandas if it is installed, which adds 0.14 s to a first query, and it takes longer per call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicing.columns.bits import as_numpy
from slicing.kernels.text import take_texts
from slicing.kernels.write import count_on
from slicing.system.arrays import Array, Ints, Mask
from slicing.system.lazy import lazy

MANY_NAMES = 128  # with so many rows, names are taken by a kernel: 180 rows 13 -> 4 us, 18,000 rows 100 -> 25 us
MOST_TEXT = (1 << 31) - 1  # the most bytes in a column of strings
KEPT_TEXT = 1 << 21  # the most bytes of names that are kept for later results
MANY_ROWS = 1 << 13  # with so many numbers, a column or a table uses Arrow's memory
MUCH = 1 << 14  # up to so many bytes, the longest text decides the room of each text

_type_of = cache(pa.from_numpy_dtype)
_BINARY = pa.binary()
_BOOL = _type_of(np.dtype(np.bool_))


def array_of(numbers: Array, null: Mask | None = None, type: pa.DataType | None = None) -> pa.Array:
    """Numbers or booleans as an array, numbers without a copy if contiguous; null where ``null`` is true. ``type``:
    another type of the same width."""
    type = _type_of(numbers.dtype) if type is None else type
    data = np.packbits(numbers, bitorder="little") if type is _BOOL else np.ascontiguousarray(numbers)
    if null is None or not np.count_nonzero(null):  # 0.4 us, while any() takes 1.7 us
        return pa.Array.from_buffers(type, numbers.size, [None, pa.py_buffer(data)], null_count=0)
    valid = np.packbits(~null, bitorder="little")
    return pa.Array.from_buffers(type, numbers.size, [pa.py_buffer(valid), pa.py_buffer(data)])


def numbers_table(columns: Mapping[str, Array]) -> pa.Table:
    """Columns of numbers as a table. ``pa.table`` itself would make arrays of them, which imports pandas."""
    return pa.table({name: array_of(column) for name, column in columns.items()})


def room(size: int, type: npt.DTypeLike = np.int64) -> Array:
    """An uninitialised column in Arrow's memory pool, which reuses the memory after it is freed.

    With 120 MB held at a time and then freed, 8 MB cost 0.4 ms there and 1.2 ms (pages of the system) elsewhere.
    """
    width = np.dtype(type).itemsize
    return np.frombuffer(pa.allocate_buffer(size * width), type)


def nothing(size: int) -> pa.Array:
    """A column of whole numbers that are null. Its numbers are never touched: of 1 M rows 310 -> 3 us."""
    valid, numbers = pa.py_buffer(bytes(-(-size // 8))), pa.py_buffer(room(size))
    return pa.Array.from_buffers(pa.int64(), size, [valid, numbers], null_count=size)


def table_room(size: int, words: int) -> Ints:
    """An uninitialised table of words, a large one in Arrow's memory pool."""
    few = size * words < MANY_ROWS
    return np.empty((size, words), np.int64) if few else room(size * words).reshape(size, words)


def steps(first: int, size: int, step: int) -> Ints:
    """``first``, ``first + step`` ..., so many numbers; many of them in Arrow's memory."""
    if size < MANY_ROWS:
        return np.arange(first, first + size * step, step)
    numbers: Ints = room(size)
    count_on(np.int64(first), np.int64(step), numbers)
    return numbers


class Pieces:
    """A column that comes in pieces: plain numbers are copied into one array, other types stay in chunks."""

    def __init__(self, type: pa.DataType, size: int) -> None:
        self._plain = type in (pa.int64(), pa.uint64(), pa.float64())
        self._whole = room(size if self._plain else 0, type.to_pandas_dtype() if self._plain else np.int64)
        self._chunks: list[pa.Array] = []
        self._size = 0

    def append(self, piece: pa.Array) -> None:
        if self._plain and piece.null_count == 0:
            into = self._whole[self._size : self._size + len(piece)]
            into[:] = as_numpy(piece)
            piece = array_of(into)
        else:
            self._plain = False
        self._chunks.append(piece)
        self._size += len(piece)

    def together(self) -> pa.Array | pa.ChunkedArray:
        return array_of(self._whole) if self._plain else pa.chunked_array(self._chunks)


def texts(values: Sequence[str]) -> pa.Array:
    """Strings, without nulls."""
    return binaries([value.encode() for value in values], pa.string())


def binaries(values: Sequence[bytes], type: pa.DataType = _BINARY) -> pa.Array:
    """Bytes as an array, as :func:`texts` makes it."""
    ends = np.fromiter(accumulate(map(len, values), initial=0), np.int32, len(values) + 1)
    return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


class Texts:
    """Strings, without nulls, that are taken by number."""

    def __init__(self, values: Sequence[str]) -> None:
        encoded = [value.encode() for value in values]
        self._lengths = np.array([len(value) for value in encoded], np.int64)
        width = -(-int(self._lengths.max(initial=1)) // 8) * 8
        self._words = np.frombuffer(b"".join(value.ljust(width, b"\0") for value in encoded), np.int64)
        self._words = self._words.reshape(-1, width // 8)

    def take(self, numbers: Ints) -> pa.Array:
        size = numbers.size * self._words.shape[1] * 8
        if size > MUCH:
            size = int(self._lengths.take(numbers).sum())
        ends, text = np.empty(numbers.size + 1, np.int32), np.empty(size + 8, np.uint8)
        take_texts(numbers, self._words, self._lengths, text, ends)
        return pa.StringArray.from_buffers(numbers.size, pa.py_buffer(ends), pa.py_buffer(text))


class Names:
    """The names of windows, for columns of results."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._longest = max(len(name.encode()) for name in names)
        self._one: pa.Array | None = None  # the only name, repeated

    def take(self, numbers: Ints) -> pa.Array:
        """The names of windows by their numbers."""
        if numbers.size * self._longest > MOST_TEXT:
            raise OverflowError(f"the names of {numbers.size} windows do not fit a column; push smaller batches")
        if len(self._names) == 1:
            one = self._one
            if one is None or len(one) < numbers.size:
                most = MOST_TEXT // max(self._longest, 1)
                one = repeated(self._names[0], min(numbers.size + numbers.size // 8 + 64, most))
                self._one = one if len(one) * self._longest <= KEPT_TEXT else self._one
            return one.slice(0, numbers.size)
        if numbers.strides == (0,) and numbers.size:
            return repeated(self._names[int(numbers[0])], numbers.size)
        if numbers.size < MANY_NAMES and "_many" not in self.__dict__:  # a loaded kernel serves few rows, too
            return self._few.take(array_of(numbers))
        return self._many.take(numbers)

    @lazy
    def _few(self) -> pa.Array:
        return texts(self._names)

    @lazy
    def _many(self) -> Texts:
        return Texts(self._names)


def repeated(value: str, count: int) -> pa.Array:
    """One string ``count`` times: 0.2 ns each, while Arrow takes 1.8 ns."""
    encoded = value.encode()
    ends = np.arange(count + 1, dtype=np.int32)
    ends *= len(encoded)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(encoded * count))
